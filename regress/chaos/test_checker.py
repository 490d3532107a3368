#!/usr/bin/env python3
"""The checker finds each kind of fault in a history that has it, and none in one that has none."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "lib")]
import checker
import replicas
import values
from kafka_client import batches
from tap import Tap


def history(log, acks=(), relaxed=(), seen=None, sent=10):
    """Producer 1 is idempotent, 2 is not; one partition, offsets from 0.  `log` is [(producer, sequence)]."""
    def number(row):
        return None if row is None else values.code(*row)

    return checker.History(
        {1: {0: sent}, 2: {0: sent}}, {1: [(0, *a) for a in acks], 2: [(0, *a) for a in relaxed]}, {1},
        {0: [(offset, number(row)) for offset, row in enumerate(log) if row != "none"]},
        {0: {offset: number(row) for offset, row in (seen or {}).items()}})


GOOD = [(1, 0), (2, 0), (1, 1), (1, 2), (2, 1)]
CASES = [
    # name, what is expected, history
    ("a good one", {}, history(GOOD, [(0, 0), (2, 1), (3, 2)], [(1, 0), (4, 1)], {0: (1, 0), 4: (2, 1)})),
    ("an empty one", {}, history([])),
    ("not acknowledged, there or not", {}, history(GOOD, [(0, 0)])),
    ("acknowledged without an offset", {}, history(GOOD, [(-1, 1)])),
    ("acks=1 may be lost, or there twice", {}, history([(2, 1), (2, 1)], [], [(0, 0), (1, 1)])),
    ("the end is missing", {"lost": 1}, history(GOOD, [(0, 0), (5, 3)])),
    ("another stands there", {"lost": 1}, history(GOOD, [(1, 7)])),
    ("there twice", {"duplicated": 1}, history(GOOD + [(1, 2)], [(3, 2)])),
    ("there twice, and not in a row", {"duplicated": 1}, history(GOOD + [(1, 0)])),
    ("swapped", {"reordered": 1}, history([(1, 1), (1, 0)])),
    ("swapped, acks=1", {"reordered": 1}, history([(2, 1), (2, 0)], [], [(1, 0), (0, 1)])),
    ("at another offset", {"moved": 1}, history(GOOD, [(3, 1)])),
    ("read, and other content now", {"changed": 1}, history(GOOD, [], [], {1: (1, 1)})),
    ("read, and damaged now", {"changed": 1, "phantom": 1}, history([None], [], [], {0: (1, 0)})),
    ("read, and gone", {"vanished": 1}, history(GOOD, [], [], {5: (1, 3)})),
    ("nobody sent it", {"phantom": 1}, history([(1, 10)])),
    ("nobody has that id", {"phantom": 1}, history([(3, 0)])),
    ("an offset is missing", {"gap": 1}, history([(1, 0), "none", (1, 1)])),
]


def batch_bytes(offsets, partition=0):
    """Batches as a log file has them: one record each."""
    out = b""
    for offset in offsets:
        data = batches.batch([batches.record(None, values.make(1, partition, offset))])
        out += offset.to_bytes(8, "big") + data[8:]
    return out


def test_replicas(t):
    whole = batch_bytes(range(4))
    cut = batch_bytes(range(3))
    other = whole[:-1] + b"!"
    t.equal(replicas.compare({1: whole, 2: whole}, 4), [], "equal replicas")
    t.equal(replicas.compare({1: whole, 2: cut}, 3), [], "equal up to the high watermark")
    t.ok("ends at 3" in replicas.compare({1: whole, 2: cut}, 4)[0], "one is short")
    t.ok("offset 3" in replicas.compare({1: whole, 2: other}, 4)[0], "one byte differs, and where is said")
    t.equal(replicas.compare({1: whole, 2: batch_bytes(range(2, 4))}, 4), [], "another log start is no difference")
    t.ok("offset 1" in replicas.compare({1: whole, 2: batch_bytes([0, 2, 3])}, 4)[0], "a batch is missing")


def main():
    with Tap() as t:
        for name, expected, given in CASES:
            t.equal(dict(checker.check(given).counts), expected, name)
        t.equal(checker.relaxed_losses(history(GOOD, [], [(1, 0), (9, 5)])), 1, "acks=1 losses are counted apart")
        value = values.make(3, 1, 77)
        t.equal(values.parse(value, 1), values.code(3, 77), "a value is read")
        t.equal(values.parts(values.code(3, 77)), (3, 77), "and its code")
        for damaged in (value[:-1], value + b".", value.replace(b"7", b"8", 1), b"", None, b"x y z"):
            t.equal(values.parse(damaged, 1), None, f"damaged: {(damaged or b'nothing')[:20]!r}")
        t.equal(values.parse(value, 0), None, "it belongs to another partition")
        test_replicas(t)


if __name__ == "__main__":
    main()
