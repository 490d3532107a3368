#!/usr/bin/env python3
"""Followers have what leaders have: before acks=all is answered, after they were away, with an empty disk, and beside a
log start that has moved.  The hazards are those of the design's review (A1–A27)."""
import hashlib
import hmac
import os
import shutil
import sys
import uuid

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "regress", "lib"))
from kafka_client import KafkaError
from pgbroker_cluster import Cluster, wait_for
from replicated import BROKER, Replicated, freeze, high_watermark, refusal, thaw, wait_known
from tap import Tap

NOT_LEADER, NOT_ENOUGH, AUTHORIZATION, STALE_EPOCH = 6, 19, 31, 77
MIN_2 = {"min.insync.replicas": 2}


def everywhere(t, c):
    """A9f: an answer to acks=all means that every member of the ISR has it on its disk, not in a buffer of the leader."""
    topic = Replicated(c, "everywhere", config=MIN_2)
    for i in range(20):
        topic.produce(b"%d" % i * 100)
        sizes = {n: len(topic.bytes_of(n)) for n in c.brokers}
        if len(set(sizes.values())) != 1:
            break
    t.equal(len(set(sizes.values())), 1, "when acks=all is answered, all three logs have the record") or t.note(sizes)
    topic.wait_equal()
    t.equal(topic.high_watermark(), 20, "and the high watermark is behind it")


def eligible(k, topic):
    """Eligible leader replicas (KIP-966), as the broker tells clients."""
    answer = k.call("DescribeTopicPartitions", 0, {"topics": [{"name": topic}], "response_partition_limit": 10, "cursor": None})
    return answer["topics"][0]["partitions"][0]["eligible_leader_replicas"]


def below_the_minimum(t, c):
    """A13: below min.insync.replicas nothing is taken with acks=all, and what acks=1 brings is not shown."""
    topic = Replicated(c, "minimum", config=MIN_2)
    topic.produce(b"0")
    leader, (one, other) = topic.leader(), topic.followers()
    c.broker(one).kill()
    topic.wait_isr({leader, other})
    t.equal(topic.produce(b"1"), 1, "with two of three in the ISR acks=all is taken")
    c.broker(other).kill()
    topic.wait_isr({leader})
    topic.wait_leader_knows({leader})
    with topic.at_leader() as k:
        t.equal(refusal(lambda: k.produce("minimum", 0, [b"no"])), NOT_ENOUGH, "with one, acks=all is refused with NOT_ENOUGH_REPLICAS")
        t.equal(k.produce("minimum", 0, [b"2"], acks=1), 2, "and nothing of it was appended; acks=1 is taken")
        t.equal(k.fetch("minimum", 0, 0), [(0, b"0"), (1, b"1")], "which no consumer is given")
        t.equal(high_watermark(k, "minimum"), 2, "since the high watermark stands still")
        t.equal(eligible(k, "minimum"), [other], "the last one that left has all that is committed: clients see that it may be elected")
    c.broker(one).start()
    topic.wait_isr({leader, one})
    wait_for(lambda: topic.high_watermark() == 3, 10, "the high watermark moves")
    t.equal(topic.values(), [b"0", b"1", b"2"], "with a second one back, it moves on")
    with topic.at_leader() as k:
        wait_for(lambda: eligible(k, "minimum") == [], 10, "nobody needs to be eligible")
    c.broker(other).start()
    topic.wait_isr({1, 2, 3})
    topic.wait_equal()
    t.ok(True, "and the third one has all of it too")


def away_and_back(t, c):
    """A14, A3: a dead follower does not hold up acks=all, and comes back into the ISR with everything."""
    topic = Replicated(c, "away", config=MIN_2)
    topic.produce(b"before")
    away = topic.followers()[0]
    c.broker(away).kill()
    for i in range(50):
        topic.produce(b"%d" % i * 1000)
    t.ok(away not in topic.isr(), "a dead follower is out of the ISR, and acks=all goes on without it")
    c.broker(away).start()
    topic.wait_isr({1, 2, 3})
    topic.wait_equal()
    t.ok(True, "it catches up and is in the ISR again, with the same bytes")


def emptied_disk(t, c):
    """A3: a disk that is not the one before counts for nothing until it has everything."""
    rate, slow = "follower.replication.throttled.rate", 64 << 10
    topic = Replicated(c, "emptied", config={**MIN_2, "follower.replication.throttled.replicas": "*"})
    for i in range(30):
        topic.produce(os.urandom(100_000))
    broker = c.broker(topic.followers()[0])
    # It stays on the way for as long as we look.
    c.sql(f"SELECT broker.alter_broker({broker.id}, '{{\"{rate}\": {slow}}}')")
    wait_known(c, broker.id, BROKER, str(broker.id), rate, slow)
    size = len(topic.bytes_of(broker.id))
    # One statement, so one snapshot: the registration takes the broker out of the ISR and gives it its epoch in one
    # transaction, which two statements could have between them.
    query = f"""SELECT p.isr::text, b.broker_epoch FROM broker.partitions p, broker.brokers b
        WHERE p.topic = '{topic.name}' AND b.broker_id = {broker.id}"""
    (_, before), = c.sql(query)
    broker.kill()
    shutil.rmtree(broker.data)
    os.makedirs(broker.data)
    broker.start(wait=False)

    def in_isr():
        (isr, epoch), = c.sql(query)
        return epoch != before and str(broker.id) in isr.strip("{}").split(",")

    wait_for(lambda: len(topic.bytes_of(broker.id)) > 0, 20, "the copy has begun")
    too_early = [in_isr() for _ in range(10)]
    has = len(topic.bytes_of(broker.id))
    t.ok(has < size, "an emptied disk is being copied to") or t.note(f"{has} of {size} bytes")
    t.equal(too_early, [False] * 10, "and is not in the ISR before it has everything")
    c.sql(f"SELECT broker.alter_broker({broker.id}, '{{\"{rate}\": null}}')")
    wait_for(in_isr, 30, "the emptied broker is back in the ISR")
    t.equal(len(topic.bytes_of(broker.id)), size, "when it is in the ISR again it has everything")
    events = c.sql(f"SELECT details ->> 'disk' FROM broker.events WHERE kind = 'broker.registered' AND broker_id = {broker.id} "
                   "ORDER BY event_id DESC LIMIT 1")
    t.equal(events, [("another",)], "and the events say that it came with another disk")
    wait_for(broker.answers, 20, "it answers")
    topic.wait_equal()


def replica_fetch(topic, leader, replica, epoch, offset, token=None):
    with topic.at_leader() as k:
        topic_id = topic.c.value(f"SELECT topic_id FROM broker.topics WHERE topic = '{topic.name}'")
        answer = k.call("Fetch", 17, {
            "replica_state": {"replica_id": replica, "replica_epoch": epoch}, "max_wait_ms": 0, "min_bytes": 0, "isolation_level": 0,
            "peer": {"token": token, "postgres_age_ms": 0}, "session_id": 0, "session_epoch": 0, "rack_id": "",
            "topics": [{"topic_id": uuid.UUID(topic_id), "partitions": [
                {"partition": 0, "current_leader_epoch": -1, "fetch_offset": offset, "last_fetched_epoch": -1, "log_start_offset": 0,
                 "partition_max_bytes": 1 << 20}]}], "forgotten_topics_data": []})
    if answer["error_code"] or not answer["responses"]:
        return answer["error_code"]
    return answer["responses"][0]["partitions"][0]["error_code"]


def strangers(t, c):
    """A23: who says that it is a replica and is none does not move the high watermark."""
    topic = Replicated(c, "strangers", config=MIN_2)
    topic.produce(b"0")
    leader, (one, other) = topic.leader(), topic.followers()
    epoch = int(c.value(f"SELECT broker_epoch FROM broker.brokers WHERE broker_id = {one}"))
    secret = bytes.fromhex(c.value("SELECT encode(secret, 'hex') FROM broker_internal.cluster"))

    def token_of(replica, its_epoch, of=secret):
        text = b"pg_broker replica" + replica.to_bytes(4, "big") + its_epoch.to_bytes(8, "big") + leader.to_bytes(4, "big")
        return hmac.digest(of, text, hashlib.sha256)

    for follower in (one, other):
        freeze(c.broker(follower))
    try:
        with topic.at_leader() as k:
            k.produce("strangers", 0, [b"1"], acks=1)
            for name, token in (("without a token", None), ("with an empty one", b""), ("with another secret's", token_of(one, epoch, b"x")),
                                ("with one for another broker", token_of(other, epoch))):
                t.equal(replica_fetch(topic, leader, one, epoch, 2, token), AUTHORIZATION, f"a fetch as a replica {name} is refused")
            t.equal(replica_fetch(topic, leader, one, epoch - 1, 2, token_of(one, epoch - 1)), STALE_EPOCH,
                    "with the secret, but of a process that has been replaced: STALE_BROKER_EPOCH (A3)")
            t.equal(high_watermark(k, "strangers"), 1, "the high watermark did not move")
    finally:
        for follower in (one, other):
            thaw(c.broker(follower))
    wait_for(lambda: topic.high_watermark() == 2, 10, "the real followers move it")
    t.ok(True, "the real followers move it")
    topic.wait_isr({1, 2, 3})


def behind_the_log_start(t, c):
    """A follower whose end is before the leader's log start has nothing to go on with: it starts anew there."""
    topic = Replicated(c, "start", config=MIN_2)
    for i in range(5):
        topic.produce(b"%d" % i)
    away = topic.followers()[0]
    c.broker(away).kill()
    topic.wait_isr({1, 2, 3} - {away})
    for i in range(5, 20):
        topic.produce(b"%d" % i)
    c.sql("SELECT broker.delete_records('start', 0, 15)")
    with topic.at_leader() as k:
        def started():
            try:
                k.fetch("start", 0, 14, max_wait_ms=0)
            except KafkaError:
                return True
            return False

        wait_for(started, 15, "the log starts at 15")
    c.broker(away).start()
    topic.wait_isr({1, 2, 3})
    c.broker(topic.leader()).stop()
    wait_for(lambda: topic.leader() is not None, 10, "a leader")
    topic.wait_led()
    with topic.at_leader() as k:
        t.equal(k.fetch("start", 0, 15), [(i, b"%d" % i) for i in range(15, 20)], "from the log start on everything is there")
        t.equal(refusal(lambda: k.fetch("start", 0, 14)), 1, "and before it nothing")
    c.start_brokers()
    topic.wait_isr({1, 2, 3})


def deletion(t, c):
    """A7: a deleted topic goes everywhere, by its tombstone."""
    topic = Replicated(c, "doomed")
    topic.produce(b"x")
    away = topic.followers()[0]
    c.broker(away).kill()
    c.sql("SELECT broker.delete_topic('doomed')")

    def left():
        return [b.id for b in c.brokers.values() if any(name.startswith("doomed-0") for name in os.listdir(b.data))]

    wait_for(lambda: left() == [away], 20, "the logs of those who are there go")
    t.ok(True, "a deleted topic's logs go on every broker that is there")
    c.broker(away).start()
    wait_for(lambda: left() == [], 20, "and the log of the one that was away")
    t.ok(True, "and on the one that was away, when it is back")


def main():
    with Tap() as t, Cluster(brokers=3, properties={"log.segment.delete.delay.ms": 100, "replica.lag.time.max.ms": 5000}) as c:
        for case in (everywhere, below_the_minimum, away_and_back, emptied_disk, strangers, behind_the_log_start, deletion):
            with t.case(case.__name__.replace("_", " ")):
                case(t, c)
            c.start_brokers()
        t.note(c.logs(40) if t.failed else "")


if __name__ == "__main__":
    main()
