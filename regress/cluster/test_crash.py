#!/usr/bin/env python3
"""A broker that crashes comes back with every message it acknowledged, at the offsets that it gave."""
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "regress", "lib"))
from kafka_client import Connection, batches as batch
from pgbroker_cluster import Cluster, wait_for
from tap import Tap

LONG_AGO = 1_700_000_000_000


def topic(c, name, **options):
    c.sql(f"SELECT broker.create_topic('{name}')")
    with Connection(c.bootstrap) as k:
        wait_for(lambda: k.leader(name) == 1, 10, f"a leader of {name}")


def crash(c):
    c.broker(1).kill()
    c.broker(1).start()


def acknowledged(t, c):
    topic(c, "kept")
    with Connection(c.bootstrap) as k:
        offsets = [k.produce("kept", 0, [b"%d" % i]) for i in range(50)]
    t.equal(offsets, list(range(50)), "fifty messages are acknowledged")
    for _ in range(3):
        crash(c)
    with Connection(c.bootstrap) as k:
        t.equal(k.fetch("kept", 0), [(i, b"%d" % i) for i in range(50)], "and are there after three crashes")
        t.equal(k.produce("kept", 0, [b"next"]), 50, "the next one follows them")


def everything_expired(t, c):
    """Retention that takes all of a log leaves its place: offsets are never given twice."""
    topic(c, "expired")
    with Connection(c.bootstrap) as k:
        k.produce("expired", 0, [b"old"], base_timestamp=LONG_AGO)
    c.broker(1).wait_log(r"expired-0: segment 0+ .* goes: retention.ms")
    crash(c)
    with Connection(c.bootstrap) as k:
        t.equal(k.produce("expired", 0, [b"new"]), 1, "offsets go on after a log that retention emptied")


def dead_while_asked(t, c):
    """What was sent and not answered is there once or not at all, whole."""
    topic(c, "cut")
    k = Connection(c.bootstrap)
    for i in range(5):
        k.send("Produce", 9, k.produce_request("cut", 0, None))
    k.socket.close()
    with Connection(c.bootstrap) as k:
        data = [bytes([i]) * 10000 for i in range(20)]
        for item in data:
            k.send("Produce", 9, produce(k, "cut", item))
        c.broker(1).kill()
        answered = 0
        try:
            while True:
                row = k.receive()["responses"][0]["partition_responses"][0]
                assert (row["error_code"], row["base_offset"]) == (0, answered), row
                answered += 1
        except (ConnectionError, IndexError):
            pass
    c.broker(1).start()
    with Connection(c.bootstrap) as k:
        got = k.fetch("cut", 0)
        t.ok(len(got) >= answered, f"the {answered} that were acknowledged are there")
        t.equal(got, [(i, data[i]) for i in range(len(got))], "in order, whole, and nothing else")


def produce(k, name, value):
    return k.produce_request(name, 0, batch.batch([batch.record(None, value)]))


def main():
    with Tap() as t, Cluster(brokers=1, properties={"log.retention.check.interval.ms": 200}) as c:
        for case in (acknowledged, everything_expired, dead_while_asked):
            with t.case(case.__name__.replace("_", " ")):
                case(t, c)
        t.note(c.logs(15) if t.failed else "")


if __name__ == "__main__":
    main()
