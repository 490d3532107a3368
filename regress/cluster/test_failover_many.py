#!/usr/bin/env python3
"""Two hundred partitions on three brokers, one of which dies: all of them are led again at once, and none has lost anything."""
import os
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "regress", "lib"))
from kafka_client import Connection, batches, records
from pgbroker_cluster import Cluster, wait_for
from replicated import Replicated
from tap import Tap

PARTITIONS = 200
MIN_2 = {"min.insync.replicas": 2}


def leaders(c):
    """{broker: partitions that it leads}, None for those that nobody does."""
    found = {}
    for partition, leader in c.sql("SELECT partition, leader FROM broker.partitions WHERE topic = 'many'"):
        found.setdefault(leader and int(leader), []).append(int(partition))
    return found


def produce_everywhere(c, led, value):
    """One record to each partition, each broker asked for all of its own in one request; returns those that were refused."""
    refused = []
    for leader, partitions in led.items():
        data = batches.batch([batches.record(None, value)])
        with Connection(c.broker(leader).address, timeout=30) as k:
            answer = k.call("Produce", 9, {"acks": -1, "timeout_ms": 20000, "topic_data": [
                {"name": "many", "partition_data": [{"index": p, "records": data} for p in partitions]}]})
        refused += [row["index"] for row in answer["responses"][0]["partition_responses"] if row["error_code"]]
    return refused


def differing(c, topic):
    return [p for p in range(PARTITIONS) if len({topic.bytes_of(n, p) for n in c.brokers}) != 1]


def wrong_content(topic):
    return [p for p in range(PARTITIONS) if [value for _, value in records(topic.bytes_of(1, p))] != [b"before", b"without it"]]


def main():
    with Tap() as t, Cluster(brokers=3) as c:
        topic = Replicated(c, "many", partitions=PARTITIONS, config=MIN_2)
        before = leaders(c)
        t.ok(set(before) == {1, 2, 3} and max(map(len, before.values())) - min(map(len, before.values())) <= 1,
             "leaders are spread evenly") or t.note({n: len(p) for n, p in before.items()})
        began = time.monotonic()
        t.equal(produce_everywhere(c, before, b"before"), [], f"a record in each of {PARTITIONS} partitions, on all replicas")
        t.note(f"{(time.monotonic() - began) * 1000:.0f} ms")

        dead = 2
        began = time.monotonic()
        c.broker(dead).kill()
        wait_for(lambda: set(leaders(c)) == {1, 3}, 20, "all partitions are led by others")
        took = time.monotonic() - began
        t.ok(took < 10, "one dies: its partitions are led again") or t.note(took)
        t.note(f"after {took * 1000:.0f} ms")
        left = c.value(f"SELECT count(*) FROM broker.partitions WHERE topic = 'many' AND {dead} = ANY (isr)")
        t.equal(left, "0", "and by the same statement it is in no ISR any more (A14)")
        topic.wait_led()
        t.equal(produce_everywhere(c, leaders(c), b"without it"), [], "a record in each, on the two that are left")

        c.broker(dead).start()
        c.wait_sql("SELECT count(*) FROM broker.partitions WHERE topic = 'many' AND cardinality(isr) = 3", [(str(PARTITIONS),)], 40)
        t.ok(True, "it is back in every ISR")
        wait_for(lambda: not differing(c, topic), 20, "equal replicas")
        t.equal(wrong_content(topic), [], "every partition has both records, with the same bytes on every broker")
        t.note(c.logs(40) if t.failed else "")


if __name__ == "__main__":
    main()
