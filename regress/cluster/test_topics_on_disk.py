#!/usr/bin/env python3
"""What topics leave in the data directory: rolling and retention as configured in SQL, deletion while the broker was
away, folders that PostgreSQL does not know."""
import os
import shutil
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "regress", "lib"))
from kafka_client import Connection, KafkaError
from pgbroker_cluster import Cluster, wait_for
from tap import Tap

UNKNOWN_TOPIC, OUT_OF_RANGE = 3, 1
LONG_AGO = 1_700_000_000_000


def make(c, k, name, configs="{}"):
    c.sql(f"SELECT broker.create_topic('{name}', config => '{configs}'); CALL broker.wait()")
    wait_for(lambda: k.leader(name) == 1, 10, f"a leader of {name}")


def folder(c, name):
    return os.path.join(c.broker(1).data, f"{name}-0")


def segments(c, name):
    return sorted(int(entry[:20]) for entry in os.listdir(folder(c, name)) if entry.endswith(".log"))


def start_of(k, name):
    """The log start: what ListOffsets says for "earliest"."""
    answer = k.call("ListOffsets", 4, {"replica_id": -1, "isolation_level": 0, "topics": [
        {"name": name, "partitions": [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": -2}]}]})
    return answer["topics"][0]["partitions"][0]["offset"]


def rolling(t, c, k):
    make(c, k, "rolled", '{"segment.bytes": 1048576}')
    for i in range(5):
        k.produce("rolled", 0, [bytes([i]) * 400_000])
    t.equal(segments(c, "rolled"), [0, 2, 4], "segment.bytes: a new file when a batch does not fit")
    c.sql("SELECT broker.alter_topic('rolled', '{\"segment.ms\": 1, \"segment.bytes\": null}'); CALL broker.wait()")

    def rolls_by_time():
        k.produce("rolled", 0, [b"later"])
        return len(segments(c, "rolled")) > 4
    wait_for(rolls_by_time, 10, "rolling by segment.ms")
    t.ok(True, "segment.ms, altered in SQL: a new file when the first record is that old")


def retention(t, c, k):
    make(c, k, "bytes", '{"segment.bytes": 1048576, "retention.bytes": 2000000}')
    for i in range(10):
        k.produce("bytes", 0, [bytes([i]) * 400_000])
    # It may have gone to 2 while there was more to come; behind 4 there are less than the bytes that stay.
    wait_for(lambda: start_of(k, "bytes") == 4, 10, "retention.bytes")
    start = 4
    t.ok(True, "retention.bytes: whole old segments go, and no more")
    t.equal(k.fetch("bytes", 0, start)[0][0], start, "the log begins behind them")
    try:
        k.fetch("bytes", 0, 0)
        t.ok(False, "what went is out of range")
    except KafkaError as error:
        t.equal(error.code, OUT_OF_RANGE, "what went is out of range")

    make(c, k, "time", '{"retention.ms": -1}')
    k.produce("time", 0, [b"old"], base_timestamp=LONG_AGO)
    c.sql("SELECT broker.alter_topic('time', '{\"retention.ms\": 60000}'); CALL broker.wait()")
    wait_for(lambda: start_of(k, "time") == 1, 10, "retention.ms")
    t.ok(True, "retention.ms, altered in SQL: what is older goes")
    t.equal(k.produce("time", 0, [b"new"]), 1, "and offsets go on")

    # For every topic that says nothing else.
    make(c, k, "follows")
    k.produce("follows", 0, [b"old"], base_timestamp=LONG_AGO)
    t.equal(start_of(k, "follows"), 0, "without a limit of the cluster old messages stay")
    c.sql("SELECT broker.alter_cluster('{\"log.retention.ms\": 60000}'); CALL broker.wait()")
    wait_for(lambda: start_of(k, "follows") == 1, 10, "the cluster's retention")
    t.ok(True, "broker.alter_cluster takes effect on topics that say nothing else")
    c.sql("SELECT broker.alter_cluster('{\"log.retention.ms\": null}'); CALL broker.wait()")


def deleted_while_away(t, c, k):
    """A log goes only for its topic's deletion; one that PostgreSQL never heard of stays, and is not served."""
    # Another broker is in office meanwhile: what is asked for is decided before this one is back.
    c.add_broker()
    for name in ("gone", "stays", "again"):
        c.sql(f"SELECT {on_broker_1(name)}; CALL broker.wait()")
        wait_for(lambda name=name: k.leader(name) == 1, 10, f"a leader of {name}")
        k.produce(name, 0, [name.encode()])
    c.broker(1).stop()
    shutil.copytree(folder(c, "stays"), folder(c, "foreign"))
    with open(os.path.join(folder(c, "foreign"), "partition.metadata"), "w", encoding="ascii") as file:
        file.write("version: 0\ntopic_id: 5oLRTxJ0QXGHhU7qYl7cVg\n")
    c.sql("SELECT broker.delete_topic('gone'); SELECT broker.delete_topic('again')")
    c.sql(f"SELECT {on_broker_1('again')}")
    c.wait_sql("SELECT replicas FROM broker.partitions WHERE topic = 'again'", [("{1}",)], 10)
    said = len(c.broker(1).log_text())
    c.broker(1).start()
    with Connection(c.broker(1).address) as k:
        wait_for(lambda: k.leader("stays") == 1, 10, "the leader of what stays")
        t.equal(k.fetch("stays", 0), [(0, b"stays")], "a topic beside them is served")
        t.equal(k.metadata("gone")["gone"]["error_code"], UNKNOWN_TOPIC, "a topic deleted while the broker was away is gone")
        wait_for(lambda: not os.path.exists(folder(c, "gone")), 10, "the end of its folder")
        t.ok(True, "and its folder with it")
        wait_for(lambda: k.leader("again") == 1, 10, "the new topic of the old name")
        wait_for(lambda: produced(k, "again") == 0, 10, "its first message")
        t.equal(k.fetch("again", 0), [(0, b"first")], "one made again under the same name begins empty")
        t.equal(k.metadata("foreign")["foreign"]["error_code"], UNKNOWN_TOPIC, "a folder of no known topic is not served")
        t.ok(os.path.exists(os.path.join(folder(c, "foreign"), "0" * 20 + ".log")), "but kept")
        c.broker(1).wait_log(r"foreign-0 is stray", 5, said)
    c.broker(1).restart()
    t.ok(os.path.exists(os.path.join(folder(c, "foreign"), "0" * 20 + ".log")), "also by the next start")


def on_broker_1(name):
    return f"broker.create_topic('{name}', assignment => '{{\"0\": [1]}}')"


def produced(k, name):
    try:
        return k.produce(name, 0, [b"first"])
    except KafkaError as error:
        return -error.code


def deleted_while_used(t, c, k):
    """A consumer that waits on a topic when it is deleted gets an answer, and the disk its space."""
    make(c, k, "used")
    k.produce("used", 0, [b"x" * 100_000])
    with Connection(c.bootstrap) as waiting:
        waiting.send("Fetch", 11, {
            "replica_id": -1, "max_wait_ms": 60_000, "min_bytes": 1, "max_bytes": 1 << 20, "isolation_level": 0,
            "session_id": 0, "session_epoch": -1, "rack_id": "", "topics": [{"topic": "used", "partitions": [
                {"partition": 0, "fetch_offset": 1, "partition_max_bytes": 1 << 20}]}]})
        c.sql("SELECT broker.delete_topic('used'); CALL broker.wait()")
        row = waiting.receive()["responses"][0]["partitions"][0]
        t.equal(row["error_code"], UNKNOWN_TOPIC, "a fetch that waits on a deleted topic is told so")
    t.ok(not os.path.exists(folder(c, "used")), "its folder is renamed at once")
    wait_for(lambda: not [name for name in os.listdir(c.broker(1).data) if name.startswith("used-0")], 15, "its files' end")
    t.ok(True, "and removed after file.delete.delay.ms")


def main():
    properties = {"auto.create.topics.enable": "false", "log.retention.check.interval.ms": 100, "log.retention.ms": -1,
                  "log.segment.delete.delay.ms": 500}
    with Tap() as t, Cluster(brokers=1, properties=properties) as c:
        for case in (rolling, retention, deleted_while_used, deleted_while_away):
            with t.case(case.__name__.replace("_", " ")), Connection(c.bootstrap) as k:
                case(t, c, k)
        t.note(c.logs(30) if t.failed else "")


if __name__ == "__main__":
    main()
