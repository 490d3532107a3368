#!/usr/bin/env python3
"""Leaders that die, hang, stop, come back or cannot be replaced: what was acknowledged stays, and nothing else does."""
import os
import signal
import socket
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "regress", "lib"))
from kafka_client import Connection, KafkaError, batches
from pgbroker_cluster import Cluster, wait_for
from replicated import RETRIABLE, Replicated, freeze, refusal, thaw
from tap import Tap

NOT_LEADER, TIMED_OUT, NOT_ENOUGH_REPLICAS, OFFSET_NOT_AVAILABLE = 6, 7, 19, 78
MIN_2 = {"min.insync.replicas": 2}
SESSION_MS = 2500


class Stream(threading.Thread):
    """Idempotent, one record at a time with acks=all, sent again until it is acknowledged.  `longest` is the longest time
    between two acknowledgements, `codes` are the errors in between."""

    def __init__(self, topic):
        super().__init__(daemon=True)
        self.topic, self.count, self.longest, self.codes = topic, 0, 0.0, set()
        self.stopping = threading.Event()
        self.error = None
        with Connection(topic.c.bootstrap.split(",")[0]) as k:
            answer = k.call("InitProducerId", 3, {"transactional_id": None, "transaction_timeout_ms": 60000,
                                                  "producer_id": -1, "producer_epoch": -1})
        self.ids = {"producer_id": answer["producer_id"], "producer_epoch": answer["producer_epoch"]}
        self.addresses = [b.address for b in topic.c.brokers.values()]
        self.connection = None

    def connect(self):
        """Asks whoever answers who leads, as clients do."""
        for address in self.addresses:
            try:
                with Connection(address, timeout=0.5) as k:
                    answer = k.call("Metadata", 9, {"topics": [{"name": self.topic.name}]})
                row = answer["topics"][0]["partitions"][0]
                found = {b["node_id"]: f"{b['host']}:{b['port']}" for b in answer["brokers"]}.get(row["leader_id"])
                if found:
                    self.connection = Connection(found, timeout=1)
                    return True
            except (OSError, KafkaError, IndexError):
                continue
        return False

    def send(self):
        if self.connection is None and not self.connect():
            return False
        try:
            self.connection.produce(self.topic.name, 0, [b"%d" % self.count], base_sequence=self.count, **self.ids)
            return True
        except KafkaError as error:
            self.codes.add(error.code)
            if error.code not in RETRIABLE:
                raise
        except OSError:
            pass
        self.connection.socket.close()
        self.connection = None
        return False

    def run(self):
        last = time.monotonic()
        try:
            while not self.stopping.is_set():
                if self.send():
                    now = time.monotonic()
                    self.longest = max(self.longest, now - last)
                    last = now
                    self.count += 1
                else:
                    time.sleep(0.01)
        except Exception as error:
            self.error = error

    def more(self, records, seconds=30):
        goal = self.count + records
        wait_for(lambda: self.count >= goal or self.error, seconds, f"{records} more acknowledgements")
        if self.error:
            raise self.error

    def end(self):
        self.stopping.set()
        self.join(30)

    def check(self, t, what):
        values = self.topic.values()
        expected = [b"%d" % i for i in range(self.count)]
        t.ok(values[:self.count] == expected and len(values) <= self.count + 1,
             f"{what}: each of the {self.count} acknowledged once, in order") or t.note(f"{len(values)} are there")


def under_load(t, c, name, act, longest, back, leader=None):
    """Sends, lets `act(leader)` happen, sends on; the stall is measured, and all must be there."""
    topic = Replicated(c, name, config=MIN_2, assignment={"0": [leader, *({1, 2, 3} - {leader})]} if leader else None)
    stream = Stream(topic)
    stream.start()
    stream.more(30)
    stream.longest = 0
    act(topic.leader())
    stream.more(50)
    stream.end()
    t.ok(stream.longest < longest, f"{name}: acknowledged again in less than {longest} s")
    t.note(f"{name}: the longest time without an acknowledgement was {stream.longest * 1000:.0f} ms, errors {sorted(stream.codes)}")
    stream.check(t, name)
    back()
    topic.wait_isr({1, 2, 3})
    topic.wait_equal()
    stream.check(t, f"{name}, all back")
    return topic, stream


def leader_killed(t, c):
    under_load(t, c, "killed", lambda leader: c.broker(leader).kill(), 5, c.start_brokers)


def controller_killed(t, c):
    """C1: nobody has to notice that the controller is gone before leaders are replaced."""
    controller = int(c.value("SELECT controller_id FROM broker.cluster"))
    under_load(t, c, "controller", lambda leader: c.broker(leader).kill(), 5, c.start_brokers, leader=controller)


def restarted_at_once(t, c):
    """A3a: back before anybody noticed, and still not the process that was elected."""
    epochs = []

    def act(leader):
        epochs.append(topic_epoch(c, "restarted"))
        c.broker(leader).kill()
        c.broker(leader).start(wait=False)

    topic, _ = under_load(t, c, "restarted", act, 8, c.start_brokers)
    t.ok(topic_epoch(c, "restarted") > epochs[0], "restarted: the leader epoch has moved")


def topic_epoch(c, name):
    return int(c.value(f"SELECT leader_epoch FROM broker.partitions WHERE topic = '{name}'"))


def leader_hung(t, c):
    """A11: replaced after the session timeout; when it wakes, nobody is fooled by it."""
    hung = []

    def act(leader):
        hung.append(leader)
        freeze(c.broker(leader))

    under_load(t, c, "hung", act, SESSION_MS / 1000 + 5, lambda: thaw(c.broker(hung[0])))


def controlled_shutdown(t, c):
    """SIGTERM moves leaderships before it ends: producers see nothing but errors that they answer by asking again."""
    topic, stream = under_load(t, c, "shutdown", lambda leader: c.broker(leader).stop(), 3, c.start_brokers)
    t.ok(stream.codes <= set(RETRIABLE), "shutdown: no error but retriable ones") or t.note(stream.codes)


def slow_shutdown(t, c):
    """A broker that shuts down waits while PostgreSQL is slow: 1.5 s, as with thousands of partitions, and a try that failed."""
    topic = Replicated(c, "slow-shutdown")
    leader = topic.leader()
    with c.session() as s:
        s.ask("BEGIN")
        s.ask("SELECT FROM broker_internal.cluster FOR UPDATE")
        os.kill(c.broker(leader).pid(), signal.SIGTERM)
        time.sleep(1.5)
        t.ok(c.broker(leader).pid(), "a broker that cannot hand over yet is there")
        s.ask("COMMIT")
    wait_for(lambda: c.broker(leader).pid() is None, 10, "its end")
    t.equal(c.sql("SELECT reason FROM broker.events WHERE kind = 'partition.leader' AND object = 'slow-shutdown-0' ORDER BY event_id DESC LIMIT 1"),
            [(f"broker {leader} shuts down",)], "and it ends once it has")


def stale_leader(t, c):
    """A11, A12: what a leader alone took with acks=1 is cut when it comes back as a follower, and what waits in its
    sockets while it hangs is not taken."""
    topic = Replicated(c, "stale", config=MIN_2)
    topic.produce(b"0", b"1")
    old = topic.leader()
    others = topic.followers()
    late = Connection(c.broker(old).address, timeout=20)
    for follower in others:
        freeze(c.broker(follower))
    # Records that no follower can have: both stand still.
    extra = [late.produce("stale", 0, [b"extra %d" % i], acks=1) for i in range(5)]
    freeze(c.broker(old))
    for follower in others:
        thaw(c.broker(follower))
    t.equal(extra, [2, 3, 4, 5, 6], "a leader alone takes acks=1")
    late.send("Produce", 9, late.produce_request("stale", 0, batch_of(b"late"), acks=1))
    wait_for(lambda: topic.leader() in others, 30, "another leader")
    topic.wait_led()
    # One fetch of each follower waited at the leader, and its answer lay in their sockets: the first may be there.
    kept = topic.produce(b"2") - 2
    t.ok(kept in (0, 1), "its successor goes on behind what a follower has") or t.note(kept)
    said = len(c.broker(old).log_text())
    thaw(c.broker(old))
    answer = late.receive()["responses"][0]["partition_responses"][0]
    t.equal(answer["error_code"], NOT_LEADER, "what waited for the hung leader is refused when it wakes")
    late.socket.close()
    topic.wait_isr({1, 2, 3})
    topic.wait_equal()
    c.broker(old).wait_log(rf"stale-0 is cut from 7 to {2 + kept}", 10, said)
    t.ok(True, "it cuts what only it had, and says so")
    t.equal(topic.values(), [b"0", b"1", b"extra 0", b"2"] if kept else [b"0", b"1", b"2"], "and all have the same")


def reads_go_on(t, c):
    """A18: a new leader that has not yet heard of its followers does not say where the log ends; what is committed it gives."""
    topic = Replicated(c, "reads", config=MIN_2, assignment={"0": [1, 2, 3]})
    topic.produce(b"0", b"1", b"2")
    freeze(c.broker(3))
    topic.produce(b"3", acks=1)
    wait_for(lambda: topic.bytes_of(2) == topic.bytes_of(1), 10, "broker 2 has all of it")
    c.broker(1).kill()
    wait_for(lambda: topic.leader() == 2, 30, "another leader")
    with topic.at_leader() as k:
        wait_for(lambda: refusal(lambda: k.fetch(topic.name, 0, 0)) is None, 10, "that it serves")
        answer = k.call("ListOffsets", 7, {"replica_id": -1, "isolation_level": 0, "topics": [{"name": topic.name, "partitions": [
            {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}]}]})
        t.equal(answer["topics"][0]["partitions"][0]["error_code"], OFFSET_NOT_AVAILABLE, "its end is not available")
        t.equal([value for _, value in k.fetch(topic.name, 0, 0)], [b"0", b"1", b"2"], "what is below the high watermark is read")
    thaw(c.broker(3))
    wait_for(lambda: topic.high_watermark() == 4, 20, "the end, once a follower has caught up")
    t.equal(topic.values(), [b"0", b"1", b"2", b"3"], "with a follower the end is known, and all is read")


def left_alone(t, c):
    """A13: records whose replicas all went while they were waited for.  That leader is alone in the ISR now, below
    min.insync.replicas: nothing is acknowledged, neither at the timeout nor to who asks again, however well it is on its own disk."""
    topic = Replicated(c, "alone", config=MIN_2)
    topic.produce(b"0")
    leader, followers = topic.leader(), topic.followers()
    for follower in followers:
        freeze(c.broker(follower))
    ids = {"producer_id": 4242, "producer_epoch": 0, "base_sequence": 0}
    data = batches.batch([batches.record(None, b"1")], **ids)

    def ask(k, timeout_ms, acks=-1):
        answer = k.call("Produce", 9, k.produce_request(topic.name, 0, data, acks, timeout_ms))
        return answer["responses"][0]["partition_responses"][0]["error_code"]

    with topic.at_leader() as k, topic.at_leader() as other:
        # The second waits for the same records: their sequence is known already.
        other.send("Produce", 9, other.produce_request(topic.name, 0, data, -1, 6000))
        t.equal(ask(k, 500), TIMED_OUT, "while the followers are in the ISR: REQUEST_TIMED_OUT")
        topic.wait_isr({leader})
        topic.wait_leader_knows({leader})
        t.equal(other.receive()["responses"][0]["partition_responses"][0]["error_code"], TIMED_OUT, "REQUEST_TIMED_OUT once the leader is alone, too")
        t.equal(ask(k, 500), NOT_ENOUGH_REPLICAS, "and who asks again is told why")
        t.equal(k.fetch(topic.name, 0, 0), [(0, b"0")], "nobody reads what is not committed")
    for follower in followers:
        thaw(c.broker(follower))
    topic.wait_isr({1, 2, 3})
    with topic.at_leader() as k:
        t.equal(ask(k, 10000), 0, "with the followers back it is acknowledged")
    t.equal(topic.values(), [b"0", b"1"], "and there, once")


def batch_of(value):
    return batches.batch([batches.record(None, value)])


def listed_brokers(address, name):
    """What Metadata says: the leader of partition 0, and the ids of all brokers."""
    with Connection(address) as k:
        answer = k.call("Metadata", 12, {"topics": [{"name": name}]})
    return answer["topics"][0]["partitions"][0]["leader_id"], {b["node_id"] for b in answer["brokers"]}


def the_old_leader_names_the_new(t, c):
    """KIP-951: who is connected to a leader that stops is told where to go, on that connection, before it ends."""
    topic = Replicated(c, "named", config=MIN_2)
    old, named = topic.leader(), None
    with topic.at_leader() as k:
        os.kill(c.broker(old).pid(), signal.SIGTERM)
        try:
            while named is None:
                answer = k.call("Produce", 10, k.produce_request("named", 0, batch_of(b"x")))
                row = answer["responses"][0]["partition_responses"][0]
                if row["error_code"] == NOT_LEADER and row["current_leader"]["leader_id"] >= 0:
                    named = (row["current_leader"]["leader_id"], {e["node_id"]: f"{e['host']}:{e['port']}" for e in answer["node_endpoints"]})
        except OSError:
            pass
    t.ok(named is not None, "a leader that stops names its successor") and t.equal(
        (named[0] in {1, 2, 3} - {old}, named[1].get(named[0])), (True, c.broker(named[0]).address), "and says where it is")
    c.broker(old).stop()
    c.start_brokers()
    topic.wait_isr({1, 2, 3})


def leaders_move_before_brokers_go(t, c):
    """librdkafka forgets the new leader when the same answer says that the old one's broker is no more."""
    for name, sig in (("left", signal.SIGKILL), ("left-in-order", signal.SIGTERM)):
        topic = Replicated(c, name, config=MIN_2)
        old, told = topic.leader(), []
        asked = c.broker(topic.followers()[0]).address

        def moved():
            told[:] = listed_brokers(asked, name)
            return told[0] not in (old, -1)

        os.kill(c.broker(old).pid(), sig)
        wait_for(moved, 20, "another leader is told")
        t.ok(old in told[1], f"{name}: who is told of the new leader still sees the old one's broker")
        wait_for(lambda: old not in listed_brokers(asked, name)[1], 20, "the broker is listed no more")
        t.ok(True, f"{name}: and a moment later not")
        c.broker(old).stop()
        c.start_brokers()
        topic.wait_isr({1, 2, 3})


def slow_follower(t, c):
    """Out of the ISR after replica.lag.time.max.ms though its session lives, and back when it has caught up."""
    topic = Replicated(c, "slow", config=MIN_2)
    topic.produce(b"0")
    slow = topic.followers()[0]
    began = time.monotonic()
    c.broker(slow).pause()
    stream = Stream(topic)
    stream.start()
    topic.wait_isr({1, 2, 3} - {slow})
    state = c.value(f"SELECT state FROM broker.brokers WHERE broker_id = {slow}")
    t.note(f"out of the ISR after {time.monotonic() - began:.1f} s, {state}")
    t.equal(state, "alive", "a follower that stands still leaves the ISR before its session ends")
    stream.more(20)
    c.broker(slow).resume()
    stream.end()
    topic.wait_isr({1, 2, 3})
    topic.wait_equal()
    t.ok(True, "and is back when it has caught up")


def unclean(t, c):
    """unclean.leader.election.enable=false waits for a replica that has everything; true takes one that has not."""
    topic = Replicated(c, "unclean", assignment={"0": [1, 2]}, config={"min.insync.replicas": 1})
    topic.produce(b"0")
    c.broker(2).kill()
    topic.wait_isr({1})
    topic.produce(b"only at 1")
    c.broker(1).kill()
    wait_for(lambda: topic.leader() is None, 20, "no leader")
    c.broker(2).start()
    c.wait_sql("SELECT state FROM broker.brokers WHERE broker_id = 2", [("alive",)], 20)
    t.equal((topic.leader(), topic.isr()), (None, {1}), "false: who lacks an acknowledged record does not lead, the partition is offline")
    c.broker(1).start()
    topic.wait_isr({1, 2})
    t.equal(topic.values(), [b"0", b"only at 1"], "false: it is there again when the one that has it is")
    topic.wait_equal()
    c.sql("SELECT broker.alter_topic('unclean', '{\"unclean.leader.election.enable\": true}')")
    c.broker(2).kill()
    topic.wait_isr({1})
    topic.produce(b"lost")
    c.broker(1).kill()
    c.broker(2).start()
    wait_for(lambda: topic.leader() == 2, 20, "an unclean leader")
    topic.wait_led()
    t.equal(topic.values(), [b"0", b"only at 1"], "true: another leads, and what it lacks is lost")
    events = c.sql("SELECT old, new FROM broker.events WHERE kind = 'partition.unclean' AND topic = 'unclean'")
    t.equal(events, [("{1}", "2")], "which stands in broker.events")
    t.ok(any("WARNING meta: PostgreSQL: unclean leader election" in b.log_text() for b in c.brokers.values()), "and is a warning in a log")
    topic.produce(b"2")
    c.broker(1).start()
    topic.wait_isr({1, 2})
    topic.wait_equal()
    t.equal(topic.values(), [b"0", b"only at 1", b"2"], "who had it comes back as its follower")


def all_start_again(t, c):
    """After a power cut the first broker that is back hears of leaders that are not back yet.  It names none that has not
    answered it: in a moment somebody else leads, and librdkafka that is told A, B, A too quickly stays with B."""
    topic = Replicated(c, "power", partitions=12, config=MIN_2)
    topic.produce(b"0")
    others = [broker for number, broker in c.brokers.items() if number != 1]
    for broker in c.brokers.values():
        broker.kill()
    # They take connections, as what has just started does, and say nothing yet.
    listeners, named = [], set()

    def listen(broker):
        host, port = broker.address.rsplit(":", 1)
        try:
            listeners.append(socket.create_server((host, int(port))))
        except OSError:  # its process is on its way out
            return False
        return True

    for broker in others:
        wait_for(lambda: listen(broker), 10, "its port is free")
    try:
        c.broker(1).start()
        until = time.monotonic() + 0.6
        with Connection(c.broker(1).address) as k:
            while time.monotonic() < until:
                named |= {p["leader_id"] for p in k.metadata("power")["power"]["partitions"]}
    finally:
        for listener in listeners:
            listener.close()
    t.ok(named <= {-1, 1}, "a broker that has just started names no leader that it has not heard of itself") or t.note(named)
    c.start_brokers()
    topic.wait_isr({1, 2, 3})
    t.equal(topic.values(), [b"0"], "and all is well when the others are back")


CASES = (all_start_again, leader_killed, controller_killed, restarted_at_once, leader_hung, controlled_shutdown, slow_shutdown, the_old_leader_names_the_new,
         leaders_move_before_brokers_go, stale_leader, left_alone, reads_go_on, slow_follower, unclean)


def main(names):
    with Tap() as t, Cluster(brokers=3, properties={"broker.session.timeout.ms": SESSION_MS, "replica.lag.time.max.ms": 1000}) as c:
        for case in CASES:
            if names and case.__name__ not in names:
                continue
            began = time.monotonic()
            with t.case(case.__name__.replace("_", " ")):
                case(t, c)
            for broker in c.brokers.values():
                thaw(broker)
            c.start_brokers()
            t.note(f"{case.__name__}: {time.monotonic() - began:.1f} s")
        t.note(c.logs(60) if t.failed else "")


if __name__ == "__main__":
    main(sys.argv[1:])
