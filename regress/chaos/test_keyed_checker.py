#!/usr/bin/env python3
"""The checker of the compacted topic finds each kind of fault in a history that has it, and none in one that has none."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "lib")]
import checker
import keyed
import keyed_checker
import keyed_replicas
from kafka_client import batches
from keyed_checker import Floor
from tap import Tap

P = 0  # the partition
SENT = 400


def sequences_of(key):
    return [s for s in range(SENT) if keyed.key_of(P, s) == key]


def find(condition, what):
    """The first key whose sequences fit; the sequences."""
    for key in dict.fromkeys(keyed.key_of(P, s) for s in range(SENT)):
        found = sequences_of(key)
        if condition(found):
            return key, found
    raise AssertionError(f"no key with {what}")


# A key with two values at its beginning, one with a value that is deleted, and then set again, and one that stays deleted.
TWICE, (OLD, NEW, *_) = find(lambda s: len(s) >= 2 and not any(keyed.deletes(P, x) for x in s[:2]), "two values")
SET_AGAIN, (BEFORE, TOMBSTONE, AFTER, *_) = find(
    lambda s: len(s) >= 3 and [keyed.deletes(P, x) for x in s[:3]] == [False, True, False], "a tombstone between values")
PASSING = (keyed.PASSING, keyed.PASSES)  # of block 0


def history(log, acks=(), seen=None, sent=SENT):
    """`log`: sequences at the offsets of the same number, or (offset, sequence)."""
    rows = [row if isinstance(row, tuple) else (row, row) for row in log]
    return keyed_checker.History({P: sent}, [(P, *(a if isinstance(a, tuple) else (a, a))) for a in acks], {P: rows}, {P: seen or {}})


CASES = [
    # name, what is expected, history
    ("a good one", {}, history([OLD, NEW], [OLD, NEW], {OLD: OLD})),
    ("an empty one", {}, history([])),
    ("the older one is gone", {}, history([NEW], [OLD, NEW], {OLD: OLD})),
    ("a newer one that was not acknowledged took its place", {}, history([NEW], [OLD])),
    ("not acknowledged, and not there", {}, history([OLD], [OLD])),
    ("acknowledged without an offset", {}, history([NEW], [(-1, OLD), (-1, NEW)])),
    ("the newest one is gone", {"lost": 1}, history([], [OLD, NEW])),
    ("the newest one is gone, the older one is there", {"lost": 1}, history([OLD], [OLD, NEW])),
    ("read, and gone", {"vanished": 1}, history([], [], {NEW: NEW})),
    ("a tombstone is there", {}, history([PASSING[1]], PASSING)),
    ("a tombstone is gone with what it hides", {}, history([], PASSING)),
    ("a tombstone that was not acknowledged has gone with what it hides", {}, history([], PASSING[:1])),
    ("what a tombstone hides is there still", {}, history(PASSING, PASSING)),
    ("a tombstone is gone, what it hid is back", {"resurrected": 1}, history(PASSING[:1], PASSING)),
    ("a key that was deleted and set again is gone", {"lost": 1}, history([TOMBSTONE], [BEFORE, TOMBSTONE, AFTER], sent=AFTER + 1)),
    ("there twice", {"duplicated": 1}, history([NEW, (NEW + 5, NEW)], [NEW])),
    ("there and read elsewhere", {"duplicated": 1}, history([NEW], [], {NEW + 5: NEW})),
    ("swapped", {"reordered": 1}, history([(OLD, NEW), (NEW, OLD)])),
    ("behind one that is compacted away", {"reordered": 1}, history([(NEW + 5, NEW)], [], {NEW + 6: OLD})),
    ("at another offset", {"moved": 1}, history([NEW], [(NEW + 1, NEW)])),
    ("another stands where it was acknowledged", {"moved": 1}, history([NEW], [(NEW, OLD)])),
    ("read, and another is there now", {"changed": 1}, history([NEW], [], {NEW: OLD})),
    ("damaged, or another's key", {"phantom": 1}, history([(0, None)])),
    ("nobody sent it", {"phantom": 1}, history([SENT])),
    ("nobody sent what was read", {"phantom": 1}, history([], [], {0: None})),
    ("the same offset again", {"backwards": 1}, history([NEW, NEW], [NEW])),
]


def test_compacted(t):
    def found(stands, acknowledged, passes):
        findings = checker.Findings()
        keyed_checker.check_compacted(history(range(stands), range(acknowledged), sent=10 ** 6), passes, findings)
        return dict(findings.counts)

    t.equal(found(10, 50000, {1: 3, 2: 3}), {}, "compacted")
    t.equal(found(10, 10, {1: 3}), {}, "too early to say")
    t.equal(found(10, 10, {1: 3, 2: 0}), {"uncompacted": 1}, "a broker that never has")
    t.equal(found(25001, 50000, {1: 3}), {"uncompacted": 1}, "more stands than can be right")


def test_judge(t):
    def judge(state, floor, sent, now=1000):
        verdict = keyed_checker.judge(P, state, {key: Floor(*item) for key, item in floor.items()}, sent, now, keeps=90)
        return [kind for kind, _ in verdict.wrong], verdict.open, verdict.expired

    deleted = keyed.key_of(P, PASSING[0])
    good = [], set(), {}
    t.equal(judge({TWICE: NEW}, {TWICE: (NEW, 999)}, {TWICE: NEW}), good, "a reader knows the newest")
    t.equal(judge({TWICE: NEW}, {TWICE: (OLD, 999)}, {TWICE: NEW}), good, "a reader knows a newer one")
    t.equal(judge({TWICE: OLD}, {TWICE: (NEW, 0)}, {TWICE: NEW}), (["stale"], set(), {}), "a reader knows an older one")
    t.equal(judge({}, {TWICE: (NEW, 0)}, {TWICE: NEW}), (["stale"], set(), {}), "a reader knows nothing of a key")
    t.equal(judge({}, {TWICE: (OLD, 0)}, {TWICE: NEW}), ([], {TWICE}, {}), "one that was sent since may have taken its place")
    t.equal(judge({deleted: PASSING[1]}, {deleted: (PASSING[1], 999)}, {deleted: PASSING[1]}), good, "a reader knows the tombstone")
    t.equal(judge({}, {deleted: (PASSING[1], 950)}, {deleted: PASSING[1]}), (["forgotten"], set(), {}), "a tombstone has gone too early")
    t.equal(judge({deleted: PASSING[0]}, {deleted: (PASSING[1], 950)}, {deleted: PASSING[1]}), (["forgotten"], set(), {}),
            "a tombstone has gone too early, and a value is there")
    t.equal(judge({}, {deleted: (PASSING[1], 900)}, {deleted: PASSING[1]}), good, "an old tombstone may have gone")
    t.equal(judge({deleted: PASSING[0]}, {deleted: (PASSING[1], 900)}, {deleted: PASSING[1]}), ([], set(), {deleted: PASSING[1]}),
            "an old tombstone has gone, a value has been read")


def batch_bytes(sequences, horizon=None, time=1000, epoch=1, change=None):
    """One batch whose records stand at the offsets of their sequences, as compaction leaves it."""
    rows = []
    for s in sequences:
        key, value, headers = keyed.make(P, s)
        value = change if change is not None and s == sequences[-1] else value
        rows.append(batches.record(key, value, [(name.encode(), content) for name, content in headers], s - sequences[0],
                                   time + s - (horizon or time)))
    data = bytearray(batches.batch(rows, base_timestamp=horizon or time, leader_epoch=epoch, last_offset_delta=sequences[-1] - sequences[0]))
    data[:8] = sequences[0].to_bytes(8, "big")
    return bytes(data)


def test_replicas(t):
    compare = keyed_replicas.compare
    row = keyed_replicas.records(batch_bytes([PASSING[1]]))[0]
    t.equal(keyed.parse(row.key, row.value, row.headers, P), PASSING[1], "a tombstone is read from a batch")
    t.equal((row.offset, row.timestamp, row.batch[0]), (PASSING[1], 1000 + PASSING[1], 1), "and where it stands")
    first, second = batch_bytes(sorted({*range(20), OLD, NEW})), batch_bytes([SENT + 10, SENT + 11])
    whole = first + second
    end = SENT + 12
    t.equal(compare({1: whole, 2: whole}, end), [], "equal replicas")
    t.equal(compare({1: batch_bytes([OLD]) + batch_bytes([NEW]), 2: batch_bytes([NEW])}, NEW + 1), [], "an older record is gone on one")
    t.equal(compare({1: batch_bytes(PASSING), 2: batch_bytes(PASSING, horizon=99999)}, PASSING[1] + 1), [], "one has noted when a tombstone may go")
    t.equal(compare({1: batch_bytes(PASSING) + second, 2: second}, end), [], "a tombstone is gone on one")
    t.ok("newest value" in compare({1: batch_bytes(PASSING[:1]) + second, 2: second}, end)[0], "one has a value that another has not")
    t.ok("newest value" in compare({1: batch_bytes(PASSING[:1]) + second, 2: batch_bytes(PASSING) + second}, end)[0], "deleted on one only")
    t.ok("ends at" in compare({1: whole, 2: first}, end)[0], "one is short")
    t.equal(compare({1: whole, 2: first}, NEW), [], "equal up to the high watermark")
    other = first + batch_bytes([SENT + 10, SENT + 11], change=b"other")
    t.ok(f"offset {SENT + 11}" in compare({1: whole, 2: other}, end)[0], "another value at an offset, and where is said")
    t.ok("offset" in compare({1: whole, 2: first + batch_bytes([SENT + 10, SENT + 11], epoch=2)}, end)[0], "another leader epoch")
    t.ok("offset" in compare({1: whole, 2: first + batch_bytes([SENT + 10, SENT + 11], time=1001)}, end)[0], "another time")
    t.ok("do not go up" in compare({1: second + first + second}, end)[0], "offsets that go back")


def test_keyed(t):
    for s in (NEW, PASSING[1]):
        t.equal(keyed.parse(*keyed.make(P, s), P), s, f"{keyed_checker.named(P, s)} is read")
    key, value, _ = keyed.make(P, NEW)
    _, _, headers = keyed.make(P, PASSING[1])
    for what, row in (("another key", (b"other", value, None)), ("no key", (None, value, None)), ("damaged", (key, value[:-1], None)),
                      ("no value", (key, None, None)), ("a tombstone that was a value", (key, None, [(keyed.HEADER, value)])),
                      ("a value that was a tombstone", (keyed.key_of(P, PASSING[1]), headers[0][1], None))):
        t.equal(keyed.parse(*row, P), None, f"{what}: nobody sent that")
    t.equal(keyed.parse(key, value, None, P + 1), None, "it belongs to another partition")
    passing = [keyed.key_and_deletes(P, s) for s in range(2000) if keyed.key_of(P, s).startswith(b"passing-")]
    names = [key for key, deletes in passing if deletes]
    t.equal(len(names), len(set(names)), "what passes is deleted once")
    t.ok(all((name, False) in passing[:passing.index((name, True))] for name in names), "and after it was set")


def main():
    with Tap() as t:
        for name, expected, given in CASES:
            t.equal(dict(keyed_checker.check(given).counts), expected, name)
        t.equal(set(keyed_checker.KINDS) - {kind for _, expected, _ in CASES for kind in expected}, {"stale", "forgotten", "uncompacted"},
                "each kind was found here, or is below")
        test_compacted(t)
        test_judge(t)
        test_replicas(t)
        test_keyed(t)


if __name__ == "__main__":
    main()
