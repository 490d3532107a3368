#!/usr/bin/env python3
"""A compacted topic on three brokers: each replica compacts for itself, and whoever leads has the newest value of every
key, in order; also after the leader was killed and after a follower has lost its disk."""
import os
import random
import shutil
import sys
import threading

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "regress", "lib"), os.path.join(ROOT, "regress", "chaos")]
import keyed_replicas
import replicas
from kafka_client import Connection, KafkaError, batches
from pgbroker_cluster import Cluster, wait_for
from replicated import RETRIABLE, Replicated
from tap import Tap

TOPIC = "table"
KEYS = 40
CONFIG = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "300", "max.compaction.lag.ms": "300",
          "delete.retention.ms": "600000", "min.insync.replicas": "1", "file.delete.delay.ms": "100"}


def walk(data):
    """(base offset, last offset, [(offset, key, value)]) of each whole batch; all are uncompressed."""
    for base, following, at, end in replicas.split(data):
        yield base, following - 1, [(r.offset, r.key, r.value) for r in keyed_replicas.records_of(data, base, at, end)]


def read_all(address, topic=TOPIC):
    """Everything a consumer gets from the start to the high watermark: [(offset, key, value)], empty batches, gaps."""
    found, at, empty, gaps = [], 0, 0, 0
    with Connection(address) as k:
        while True:
            answer = k.call("Fetch", 11, {
                "replica_id": -1, "max_wait_ms": 0, "min_bytes": 1, "max_bytes": 50 << 20, "isolation_level": 0,
                "session_id": 0, "session_epoch": -1, "rack_id": "", "topics": [{"topic": topic, "partitions": [
                    {"partition": 0, "fetch_offset": at, "partition_max_bytes": 100000}]}]})
            row = answer["responses"][0]["partitions"][0]
            if row["error_code"]:
                raise KafkaError(row["error_code"])
            before = at
            for base, last, records in walk(row["records"] or b""):
                if last < at:
                    raise AssertionError(f"batch {base}..{last} comes again at {at}")
                gaps += base > at
                empty += not records
                found += [r for r in records if r[0] >= at]
                at = last + 1
            if at == before:
                assert at == row["high_watermark"], f"it stops at {at}, the high watermark is {row['high_watermark']}"
                return found, empty, gaps


class Table(threading.Thread):
    """Sets and deletes keys, one at a time with acks=all, each until it is acknowledged."""

    def __init__(self, topic):
        super().__init__(daemon=True)
        self.topic, self.newest, self.written, self.error = topic, {}, 0, None
        self.pausing, self.idle, self.stopping = threading.Event(), threading.Event(), threading.Event()
        self.rng = random.Random(5)

    def put(self, key, value):
        data = batches.batch([batches.record(key, value)])

        def done():
            try:
                with self.topic.at_leader(timeout=5) as k:
                    answer = k.call("Produce", 9, k.produce_request(TOPIC, 0, data))
                row = answer["responses"][0]["partition_responses"][0]
                if row["error_code"] and row["error_code"] not in RETRIABLE:
                    raise AssertionError(f"produce: {row['error_code']}")
                return row["error_code"] == 0
            except (OSError, EOFError, TypeError, KeyError, KafkaError):
                return False

        wait_for(done, 30, f"{key} is set")
        self.newest[key] = value
        self.written += 1

    def run(self):
        try:
            while not self.stopping.is_set():
                if self.pausing.is_set():
                    self.idle.set()
                    self.pausing.wait(0.01)
                    self.stopping.wait(0.01)
                    continue
                key = b"key-%d" % self.rng.randrange(KEYS)
                value = None if self.rng.random() < 0.1 else b"%d " % self.written + b"x" * self.rng.randrange(300)
                self.put(key, value)
        except Exception as error:
            self.error = error
            self.idle.set()

    def pause(self):
        self.idle.clear()
        self.pausing.set()
        self.idle.wait(40)
        if self.error:
            raise self.error

    def go_on(self):
        self.pausing.clear()


def check(t, c, table, broker, what):
    """The newest value of every key, a deleted one as a tombstone; offsets that rise."""
    records, empty, gaps = read_all(c.broker(broker).address)
    offsets = [offset for offset, _, _ in records]
    last = {key: value for _, key, value in records}
    t.equal({k: v for k, v in table.newest.items() if last.get(k, "none") != v}, {}, f"{what}: the newest value of each of {len(last)} keys")
    t.ok(offsets == sorted(set(offsets)), f"{what}: in order; {len(records)} of {table.written} records, {gaps} gaps, {empty} empty batches")
    return len(records)


def compactions(c, broker):
    return c.broker(broker).log_text().count(f"{TOPIC}-0 is compacted")


def wait_compacted(c, brokers, more=2):
    before = {b: compactions(c, b) for b in brokers}
    wait_for(lambda: all(compactions(c, b) >= before[b] + more for b in brokers), 60, f"{brokers} compact")


def test(t, c):
    topic = Replicated(c, TOPIC, config=CONFIG)
    table = Table(topic)
    table.start()
    wait_for(lambda: table.written > 200 or table.error, 60, "records are written")
    wait_compacted(c, [1, 2, 3])
    table.pause()
    stayed = check(t, c, table, topic.leader(), "compacted by all three")
    t.ok(stayed < table.written, "what was replaced is gone")

    table.go_on()
    first = topic.leader()
    c.broker(first).kill()
    wait_for(lambda: topic.leader() not in (None, first), 20, "another leads")
    more = table.written + 50
    wait_for(lambda: table.written > more or table.error, 60, "records are written")
    table.pause()
    check(t, c, table, topic.leader(), "the leader was killed")
    c.broker(first).start()
    topic.wait_isr({1, 2, 3}, 40)
    table.go_on()
    wait_compacted(c, [1, 2, 3])

    emptied = topic.followers()[0]
    c.broker(emptied).kill()
    shutil.rmtree(os.path.join(c.broker(emptied).data, f"{TOPIC}-0"))
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", "cleaner-offset-checkpoint"):
        path = os.path.join(c.broker(emptied).data, name)
        if os.path.exists(path):
            os.unlink(path)
    c.broker(emptied).start()
    topic.wait_isr({1, 2, 3}, 60)
    wait_compacted(c, [emptied], 1)
    table.pause()
    for other in [n for n in (1, 2, 3) if n != emptied]:
        c.broker(other).kill()
        wait_for(lambda: topic.leader() not in (None, other), 20, f"{other} leads no more")
    wait_for(lambda: topic.leader() == emptied, 20, "the emptied one leads")
    topic.wait_led()
    check(t, c, table, emptied, "a follower that was filled from a compacted log leads")
    table.go_on()
    more = table.written + 30
    wait_for(lambda: table.written > more or table.error, 60, "records are written")
    table.pause()
    check(t, c, table, emptied, "and goes on")

    for other in (1, 2, 3):
        if other != emptied:
            c.broker(other).start()
    topic.wait_isr({1, 2, 3}, 60)
    table.stopping.set()
    table.join(10)
    for broker in (1, 2, 3):
        text = c.broker(broker).log_text()
        t.ok("cannot be compacted" not in text and "storage: " + TOPIC not in "".join(
            line for line in text.splitlines() if " ERROR " in line), f"broker {broker} has no complaint")


def main():
    with Tap() as t, Cluster(brokers=3) as c:
        test(t, c)


if __name__ == "__main__":
    main()
