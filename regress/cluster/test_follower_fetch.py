#!/usr/bin/env python3
"""Consumers that read from the nearest replica (KIP-392): whom the leader sends where, what a follower shows and what it
does not, and that nobody waits longer or loses anything for it.

Brokers 1, 2 and 3 stand in racks r1, r2 and r3; the first two choose replicas (replica.selector.class), the third does not.  A
fetch of a follower may wait at its leader for longer than any test of time here allows."""
import os
import subprocess
import sys
import threading
import time
import uuid

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "regress", "lib"), os.path.join(ROOT, "regress", "clients", "lib")]
import toolchain
from kafka_client import Connection, records
from pgbroker_cluster import Cluster, wait_for
from replicated import BROKER, Replicated, freeze, thaw, wait_known
from tap import Tap

NONE, OUT_OF_RANGE, NOT_LEADER, FENCED_EPOCH, UNKNOWN_EPOCH, NOT_AVAILABLE = 0, 1, 6, 74, 75, 78
MIN_2 = {"min.insync.replicas": 2}
SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
SESSION_MS, WAIT_MS = 4000, 2500


def rack(broker):
    return f"r{broker}"


def request(topic, offset, *, version=11, client_rack="", epoch=-1, last_epoch=-1, max_wait_ms=0, isolation=0, session=(0, -1),
            topic_id=None, max_bytes=1 << 20, forget=()):
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": max_bytes, "current_leader_epoch": epoch,
                 "last_fetched_epoch": last_epoch}
    named = [] if offset is None else [{"topic": topic, "topic_id": topic_id, "partitions": [partition]}]
    return ("Fetch", version, {
        "replica_id": -1, "max_wait_ms": max_wait_ms, "min_bytes": 1, "max_bytes": 50 << 20, "isolation_level": isolation,
        "session_id": session[0], "session_epoch": session[1], "rack_id": client_rack, "topics": named,
        "forgotten_topics_data": list(forget)})


def ask(k, topic, offset, **options):
    """The row of partition 0."""
    answer = k.call(*request(topic, offset, **options))
    assert answer["error_code"] == NONE, answer
    return answer["responses"][0]["partitions"][0]


def fetch(c, broker, topic, offset, **options):
    with Connection(c.broker(broker).address) as k:
        return ask(k, topic, offset, **options)


def error(c, broker, topic, offset, **options):
    return fetch(c, broker, topic, offset, **options)["error_code"]


def everything(c, broker, topic, end, **options):
    """All bytes up to `end`, by as many fetches as it takes."""
    at, data = 0, b""
    with Connection(c.broker(broker).address) as k:
        while at < end:
            row = ask(k, topic, at, max_wait_ms=5000, **options)
            assert row["error_code"] == NONE and row["records"], row
            data += row["records"]
            at = records(row["records"])[-1][0] + 1
    return data


def wait_served(c, broker, topic, offset, seconds=20):
    """Until a follower shows what is before `offset`."""
    def shown():
        row = fetch(c, broker, topic, 0)
        return row["error_code"] == NONE and row["high_watermark"] >= offset

    wait_for(shown, seconds, f"broker {broker} shows {topic} up to {offset}")


def led_by(c, name, leader, factor=3, **options):
    others = [n for n in c.brokers if n != leader]
    return Replicated(c, name, assignment={"0": [leader, *others][:factor]}, config=MIN_2 if factor == 3 else {}, **options)


def told(t, c):
    """The leader reads for whom it is near or who is nowhere, and sends the others to the replica in their rack."""
    topic = led_by(c, "told", 1)
    topic.produce(b"0", b"1")
    begun = time.monotonic()
    row = fetch(c, 1, "told", 2, client_rack="r2", max_wait_ms=10000)
    t.equal((row["error_code"], row["preferred_read_replica"], row["records"] or b"", row["high_watermark"]), (NONE, 2, b"", 2),
            "a consumer in the rack of a follower is told of it, without records, with the leader's high watermark")
    t.ok(time.monotonic() - begun < 5, "at once: there is nothing to wait for at the leader")
    t.equal(fetch(c, 1, "told", 0, client_rack="r3")["preferred_read_replica"], 3,
            "also of one that does not choose replicas itself")
    for what, options in (("in the leader's rack", {"client_rack": "r1"}), ("in a rack where no replica is", {"client_rack": "r9"}),
                          ("without a rack", {}), ("of a version without racks", {"version": 10, "client_rack": "r2"})):
        row = fetch(c, 1, "told", 0, **options)
        t.equal((row["error_code"], row.get("preferred_read_replica", -1), [value for _, value in records(row["records"])]),
                (NONE, -1, [b"0", b"1"]), f"a consumer {what} reads at the leader")
    row = fetch(c, 1, "told", 3, client_rack="r2")
    t.equal((row["error_code"], row["preferred_read_replica"]), (OUT_OF_RANGE, -1),
            "an offset that nobody has is the leader's to refuse")
    row = fetch(c, 1, "told", 0, client_rack="r2", epoch=1000)
    t.equal((row["error_code"], row["preferred_read_replica"]), (UNKNOWN_EPOCH, -1), "as is a leader epoch that is not known")

    with Connection(c.broker(1).address) as k:
        answer = k.call(*request("told", 0, client_rack="r2", session=(0, 0)))
        session = answer["session_id"]
        answer = k.call(*request("told", None, client_rack="r2", session=(session, 1)))
        t.equal([row["preferred_read_replica"] for row in answer["responses"][0]["partitions"]], [2],
                "in a session it is told again while the consumer asks again")

    led_by(c, "untold", 3).produce(b"0")
    row = fetch(c, 3, "untold", 0, client_rack="r1")
    t.equal((row["preferred_read_replica"], records(row["records"])), (-1, [(0, b"0")]),
            "a leader that does not choose replicas sends nobody away")
    for broker, value in ((1, SELECTOR), (3, None)):
        with Connection(c.broker(broker).address) as k:
            answer = k.call("DescribeConfigs", 4, {"resources": [{"resource_type": BROKER, "resource_name": str(broker),
                "configuration_keys": ["replica.selector.class", "broker.rack"]}], "include_synonyms": False, "include_documentation": False})
            shown = {row["name"]: row["value"] for row in answer["results"][0]["configs"]}
            t.equal(shown, {"replica.selector.class": value, "broker.rack": rack(broker)}, f"DescribeConfigs of broker {broker} says so")


def the_same_records(t, c):
    topic = led_by(c, "same", 1)
    with topic.at_leader() as k:
        for i in range(60):
            k.produce("same", 0, [b"%d.%d" % (i, j) + b"x" * (i * 100) for j in range(3)])
    whole = everything(c, 1, "same", 180)
    for broker in (2, 3):
        wait_served(c, broker, "same", 180)
        t.ok(everything(c, broker, "same", 180) == whole, f"broker {broker} gives the bytes that the leader gives")
        t.ok(everything(c, broker, "same", 180, isolation=1, max_bytes=5000) == whole, "also piece by piece, with read_committed")
    row = fetch(c, 2, "same", 0, isolation=1)
    t.equal((row["last_stable_offset"], row["log_start_offset"], row["aborted_transactions"]), (180, 0, []),
            "the last stable offset and the log start come along")

    with Connection(c.broker(2).address) as k:
        first = k.call(*request("same", 180, session=(0, 0)))
        session = first["session_id"]
        t.ok(session > 0 and first["responses"], "a fetch session at a follower")
        idle = k.call(*request("same", None, session=(session, 1)))
        t.equal(idle["responses"], [], "tells nothing where nothing is new")
        topic.produce(b"more")
        k.send(*request("same", None, session=(session, 2), max_wait_ms=10000))
        row = k.receive()["responses"][0]["partitions"][0]
        t.equal(records(row["records"]), [(180, b"more")], "and what is new by itself")


def refused(t, c):
    topic = led_by(c, "refused", 1)
    topic.produce(b"0")
    wait_served(c, 2, "refused", 1)
    epoch = int(topic.row("leader_epoch")[0])
    t.equal(error(c, 2, "refused", 0, epoch=epoch), NONE, "a follower answers in the leader's epoch")
    t.equal(error(c, 2, "refused", 0, epoch=epoch + 1), UNKNOWN_EPOCH, "not in one that it does not know")
    t.equal(error(c, 2, "refused", 0, version=10), NOT_LEADER, "a version from before KIP-392 is sent to the leader")
    t.equal(error(c, 2, "refused", 1), NONE, "at the end there is nothing, without an error")
    row = fetch(c, 2, "refused", 2)
    t.equal((row["error_code"], row["high_watermark"]), (OUT_OF_RANGE, -1),
            "beyond it: consumers ask the leader, and librdkafka does when there is no high watermark with it")
    t.equal(error(c, 2, "refused", 2, version=12, last_epoch=epoch), OUT_OF_RANGE,
            "not a divergence, which a log that is behind is none of")
    topic_id = uuid.UUID(c.value("SELECT topic_id FROM broker.topics WHERE topic = 'refused'"))
    t.equal(error(c, 2, None, 0, version=17, topic_id=topic_id), NONE, "a topic id is fine")

    led_by(c, "elsewhere", 1, factor=2).produce(b"0")
    topic_id = uuid.UUID(c.value("SELECT topic_id FROM broker.topics WHERE topic = 'elsewhere'"))
    row = fetch(c, 3, None, 0, version=17, topic_id=topic_id)
    t.equal((row["error_code"], row["current_leader"]["leader_id"]), (NOT_LEADER, 1), "a broker without a replica names the leader")
    with Connection(c.broker(2).address) as k:
        answer = k.call("ListOffsets", 7, {"replica_id": -1, "isolation_level": 0, "topics": [{"name": "refused", "partitions": [
            {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}]}]})
    t.equal(answer["topics"][0]["partitions"][0]["error_code"], NOT_LEADER, "offsets are asked of the leader, as in Kafka")


def delay(topic, broker, at, value):
    """Seconds from an acknowledgement to the answer of a fetch that waited at `broker` for it."""
    arrived = []

    def wait_there():
        with Connection(topic.c.broker(broker).address) as k:
            k.send(*request(topic.name, at, max_wait_ms=10000))
            waiting.set()
            row = k.receive()["responses"][0]["partitions"][0]
            arrived.extend([time.monotonic(), row["error_code"], records(row["records"] or b"")])

    waiting = threading.Event()
    thread = threading.Thread(target=wait_there)
    thread.start()
    waiting.wait()
    with topic.at_leader() as k:
        k.produce(topic.name, 0, [value])
    acknowledged = time.monotonic()
    thread.join(20)
    assert arrived[1:] == [NONE, [(at, value)]], arrived
    return arrived[0] - acknowledged


def long_poll(t, c):
    """A fetch at a follower is answered when the high watermark moves there, and that is told to it at once."""
    topic = led_by(c, "poll", 1)
    at, delays = 0, {1: [], 2: []}
    for _ in range(15):
        for broker, seconds in delays.items():
            seconds.append(delay(topic, broker, at, b"%d" % at))
            at += 1
    middle = {broker: sorted(seconds)[len(seconds) // 2] * 1000 for broker, seconds in delays.items()}
    t.note(f"behind the acknowledgement, median: {middle[1]:.2f} ms at the leader, {middle[2]:.2f} ms at a follower; "
           f"longest {max(delays[1]) * 1000:.2f} and {max(delays[2]) * 1000:.2f} ms")
    t.ok(middle[2] < 500, f"records are there long before a follower's fetch has waited its {WAIT_MS} ms")
    begun = time.monotonic()
    row = fetch(c, 2, "poll", at, max_wait_ms=300)
    t.ok(row["error_code"] == NONE and not row["records"] and 0.25 < time.monotonic() - begun < 5,
         "without one it waits as long as the consumer says")


def another_leader(t, c):
    """A follower that has a new leader answers when that has found the logs to agree, which nothing has to be produced for."""
    topic = led_by(c, "another", 1)
    topic.produce(b"0")
    wait_served(c, 3, "another", 1)
    epoch = int(topic.row("leader_epoch")[0])
    c.sql("SELECT * FROM broker.reassign_partitions('another', '{0}', '{2,1,3}')")
    wait_for(lambda: topic.replicas() == [2, 1, 3], 10, "the preferred leader is another")
    c.sql("SELECT * FROM broker.elect_leaders('another')")
    codes = []
    with Connection(c.broker(3).address) as k:
        wait_for(lambda: codes.append(ask(k, "another", 0, epoch=epoch + 1)["error_code"]) or codes[-1] != UNKNOWN_EPOCH, 10, "its epoch")
        begun = time.monotonic()
        wait_for(lambda: codes.append(ask(k, "another", 0, epoch=epoch + 1)["error_code"]) or codes[-1] == NONE, 10, "an answer")
        took = time.monotonic() - begun
    t.equal(topic.leader(), 2, "another broker leads")
    t.ok(took < 1, f"a follower answers long before its fetch has waited its {WAIT_MS} ms")
    t.ok(set(codes) <= {UNKNOWN_EPOCH, NOT_AVAILABLE, NONE}, "and until then consumers go to the leader")
    t.note(f"{took * 1000:.1f} ms; {codes.count(NOT_AVAILABLE)} times OFFSET_NOT_AVAILABLE")


def not_above_the_high_watermark(t, c):
    """What a follower has and the ISR has not is not shown; nor does a leader that hangs make it show more."""
    topic = led_by(c, "above", 1)
    epoch = int(topic.row("leader_epoch")[0])
    topic.produce(b"0")
    wait_served(c, 2, "above", 1)
    freeze(c.broker(3))
    try:
        with topic.at_leader() as k:
            k.produce("above", 0, [b"1", b"2"], acks=1)
        size = len(topic.bytes_of(1))
        wait_for(lambda: len(topic.bytes_of(2)) == size, 10, "a follower has it")
        whole = fetch(c, 2, "above", 0)
        ahead = fetch(c, 2, "above", 2)
    finally:
        thaw(c.broker(3))
    t.equal((records(whole["records"]), whole["high_watermark"]), ([(0, b"0")], 1), "what is not on every member of the ISR is not shown")
    t.equal((ahead["error_code"], ahead["records"] or b""), (NONE, b""), "and who asks for it waits")
    wait_served(c, 2, "above", 3)
    t.equal(records(fetch(c, 2, "above", 1)["records"]), [(1, b"1"), (2, b"2")], "then it is")

    freeze(c.broker(1))
    try:
        row = fetch(c, 2, "above", 0)
        t.equal((row["error_code"], row["high_watermark"]), (NONE, 3), "the leader hangs: what is committed is shown all the same")
        row = fetch(c, 2, "above", 3, max_wait_ms=300)
        t.equal((row["error_code"], row["records"] or b""), (NONE, b""), "and nothing else")
        with Connection(c.broker(2).address) as k:
            k.send(*request("above", 3, epoch=epoch, max_wait_ms=30000))
            t.equal(k.receive()["responses"][0]["partitions"][0]["error_code"], FENCED_EPOCH,
                    "a fetch that waits hears that there is another leader")
    finally:
        thaw(c.broker(1))
    wait_for(lambda: topic.leader() in (2, 3), 20, "another leader")
    topic.produce(b"3")
    other = 5 - topic.leader()
    wait_served(c, other, "above", 4)
    t.equal(error(c, other, "above", 0, epoch=epoch), FENCED_EPOCH, "a follower refuses the leader epoch that is over")
    t.equal(records(everything(c, other, "above", 4))[-1], (3, b"3"), "which the other follower follows, and shows it")
    c.start_brokers()
    topic.wait_isr({1, 2, 3})
    wait_served(c, 1, "above", 4)
    t.ok(everything(c, 1, "above", 4) == everything(c, topic.leader(), "above", 4), "and so does the old leader")


def out_of_the_isr(t, c):
    """Who catches up is no replica to read from, neither for the leader nor for itself."""
    slow, throttle = 64 << 10, "follower.replication.throttled"
    topic = Replicated(c, "out", assignment={"0": [1, 2, 3]}, config={**MIN_2, f"{throttle}.replicas": "*"})
    topic.produce(b"0")
    c.sql(f"SELECT broker.alter_broker(2, '{{\"{throttle}.rate\": {slow}}}')")
    wait_known(c, 2, BROKER, "2", f"{throttle}.rate", slow)
    c.broker(2).kill()
    topic.wait_isr({1, 3})
    with topic.at_leader() as k:
        for _ in range(30):
            k.produce("out", 0, [os.urandom(100000)])
    t.equal(fetch(c, 1, "out", 0, client_rack="r2")["preferred_read_replica"], -1, "nobody is sent to a broker that is gone")
    c.broker(2).start()
    has = len(topic.bytes_of(2))
    wait_for(lambda: len(topic.bytes_of(2)) > has, 20, "it catches up")
    answers = [(error(c, 2, "out", 0), fetch(c, 1, "out", 0, client_rack="r2")["preferred_read_replica"]) for _ in range(5)]
    t.ok(2 not in topic.isr(), "a follower catches up")
    t.equal(answers, [(NOT_LEADER, -1)] * 5, "it sends consumers away, and nobody is sent to it")
    c.sql(f"SELECT broker.alter_broker(2, '{{\"{throttle}.rate\": null}}')")
    topic.wait_isr({1, 2, 3}, 40)
    wait_for(lambda: fetch(c, 1, "out", 0, client_rack="r2")["preferred_read_replica"] == 2, 20, "it is chosen again")
    t.equal(error(c, 2, "out", 0), NONE, "in sync it is chosen again, and answers")


def log_starts(t, c):
    topic = led_by(c, "starts", 1)
    topic.produce(*(b"%d" % i for i in range(5)))
    wait_served(c, 2, "starts", 5)
    c.sql("SELECT broker.delete_records('starts', 0, 3)")
    wait_for(lambda: fetch(c, 1, "starts", 3)["log_start_offset"] == 3, 15, "the leader's log starts at 3")
    wait_for(lambda: fetch(c, 2, "starts", 3)["log_start_offset"] == 3, 15, "the follower's does")
    t.equal((error(c, 2, "starts", 2), records(fetch(c, 2, "starts", 3)["records"])[3:]), (OUT_OF_RANGE, [(3, b"3"), (4, b"4")]),
            "what is deleted is gone at a follower, too")
    t.equal(fetch(c, 1, "starts", 2, client_rack="r2")["error_code"], OUT_OF_RANGE, "and the leader says so itself")


CONSUMER = r"""
import json, sys, confluent_kafka as ck

def stats(text):
    print("at", json.loads(text)["topics"].get(sys.argv[2], {}).get("partitions", {}).get("0", {}).get("broker"), flush=True)

c = ck.Consumer({"bootstrap.servers": sys.argv[1], "broker.address.family": "v4", "group.id": "near", "client.rack": sys.argv[3],
                 "auto.offset.reset": "error", "enable.auto.commit": False, "statistics.interval.ms": 100, "stats_cb": stats,
                 "topic.metadata.refresh.interval.ms": 1000, "reconnect.backoff.max.ms": 200, "check.crcs": True})
c.assign([ck.TopicPartition(sys.argv[2], 0, 0)])
while True:
    m = c.poll(0.1)
    if m is not None and not m.error():
        print("got", m.offset(), m.value().decode(), flush=True)
    elif m is not None:
        print("error", m.error(), flush=True)
"""


class Consumer:
    """librdkafka in a process of its own."""

    def __init__(self, python, c, topic, client_rack):
        self.lines = []
        self.process = subprocess.Popen([python, "-c", CONSUMER, c.bootstrap, topic, client_rack], stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True)
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append(line)

    def got(self):
        return [tuple(line.split()[1:]) for line in self.lines if line.startswith("got")]

    def at(self):
        places = [line.split()[1] for line in self.lines if line.startswith("at")]
        return places[-1] if places else None

    def errors(self):
        return [line for line in self.lines if line.startswith("error")]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.thread.join(10)


def a_real_consumer(t, c):
    """librdkafka with client.rack reads at the follower, goes on at the leader when that one dies, and misses nothing."""
    try:
        python = toolchain.virtual_environment("confluent") + "/python"
    except toolchain.Missing as why:
        t.skip("librdkafka reads from a follower", str(why))
        return
    topic = led_by(c, "real", 1)
    sent = 0

    def produce(n):
        nonlocal sent
        for _ in range(n // 10):
            topic.produce(*(b"v%d" % (sent + i) for i in range(10)))
            sent += 10

    def all_there():
        return len(consumer.got()) >= sent

    with Consumer(python, c, "real", "r2") as consumer:
        produce(50)
        wait_for(all_there, 30, "the consumer has all")
        wait_for(lambda: consumer.at() == "2", 30, "it reads from broker 2")
        produce(50)
        wait_for(all_there, 30, "the consumer has more")
        t.equal(consumer.at(), "2", "it reads from the follower in its rack, and stays there")
        c.broker(2).kill()
        produce(50)
        wait_for(all_there, 40, "the consumer goes on")
        wait_for(lambda: consumer.at() == "1", 10, "it reads from broker 1")
        t.ok(True, "the follower dies: it goes on at the leader")
        c.broker(2).start()
        topic.wait_isr({1, 2, 3}, 40)
        produce(50)
        wait_for(all_there, 30, "the consumer has more")
        wait_for(lambda: consumer.at() == "2", 90, "it is back at broker 2")
        produce(20)
        wait_for(all_there, 30, "the consumer has more")
        c.broker(1).kill()
        produce(50)
        wait_for(all_there, 60, "the consumer goes on")
        t.equal(consumer.got(), [(str(i), f"v{i}") for i in range(sent)],
                "when the follower dies, comes back, and the leader dies: every record once, in order")
        t.equal(consumer.errors(), [], "and without an error")


CASES = (told, the_same_records, refused, long_poll, another_leader, not_above_the_high_watermark, out_of_the_isr, log_starts, a_real_consumer)


def main(names):
    properties = {"broker.session.timeout.ms": SESSION_MS, "replica.fetch.wait.max.ms": WAIT_MS, "replica.lag.time.max.ms": 20000,
                  "auto.leader.rebalance.enable": "false", "log.segment.delete.delay.ms": 100}
    racks = {n: {"broker.rack": rack(n), "replica.selector.class": SELECTOR if n < 3 else ""} for n in (1, 2, 3)}
    with Tap() as t, Cluster(brokers=3, properties=properties, broker_properties=racks) as c:
        for case in CASES:
            if names and case.__name__ not in names:
                continue
            begun = time.monotonic()
            with t.case(case.__name__.replace("_", " ")):
                case(t, c)
            for broker in c.brokers.values():
                thaw(broker)
            c.start_brokers()
            t.note(f"{case.__name__}: {time.monotonic() - begun:.1f} s")
        t.note(c.logs(60) if t.failed else "")


if __name__ == "__main__":
    main(sys.argv[1:])
