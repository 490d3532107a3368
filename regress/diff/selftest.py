#!/usr/bin/env python3
"""selftest.py: what the comparison rests on, without a broker: batches, and what counts as a difference."""
import os
import sys
import uuid
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, os.pardir, "lib")]

import allowed
import batch
import compare
from side import Side
from tap import Tap


def sides(kafka, ours, api="Metadata"):
    """Two Sides that have recorded these answers."""
    both = []
    for answers in (kafka, ours):
        side = Side("x", "127.0.0.1", 0, None, {})
        for answer in answers:
            side.note("step", answer, api)
        both.append(side)
    return both


def count(kafka, ours, fields=(), listed=(), api="Metadata", case_id="a case"):
    rules = compare.Rules(list(fields), list(listed))
    return len(compare.compare(rules, case_id, *sides(kafka, ours, api)))


def check_batches(tap):
    tap.equal(batch.crc32c(b"123456789"), 0xE3069283, "CRC-32C of the check string")
    tap.equal(batch.xxh32(b""), 0x02CC5D05, "xxh32 of nothing")
    tap.equal([batch.varint(value) for value in (0, -1, 1, 300)], [b"\0", b"\1", b"\2", b"\xd8\x04"], "varints")
    good = batch.describe(batch.batch([batch.record(), batch.record()]))
    tap.ok(len(good) == 1 and good[0]["crc_is_right"] and good[0]["count"] == 2, "a good batch is one")
    tap.ok(not batch.describe(batch.batch(crc=1))[0]["crc_is_right"], "a wrong CRC is wrong")
    tap.equal(batch.describe(batch.batch()[:-1])[0].get("cut_off"), len(batch.batch()) - 1, "a batch cut short is said to be")
    packed = batch.compress(batch.GZIP, b"x" * 100)
    tap.equal(zlib.decompress(packed, 31), b"x" * 100, "gzip unpacks")


def check_differences(tap):
    one = {"A": 1, "B": [{"Name": "x", "C": "s"}], "D": None}
    tap.equal(count([one], [one]), 0, "the same is the same")
    for label, other in (("a number", {**one, "A": 2}), ("a type", {**one, "A": True}), ("null and empty", {**one, "D": ""}),
                         ("a missing field", {"A": 1, "B": one["B"]}), ("one field more", {**one, "E": 0}),
                         ("a missing element", {**one, "B": []}), ("a nested value", {**one, "B": [{"Name": "x", "C": "t"}]}),
                         ("no answer", "<closed>")):
        tap.equal(count([one], [other]), 1, f"another answer: {label}")
    tap.equal(count([one, one], [one]), 1, "a missing step")
    tap.equal(count([[1, 2]], [[2, 1]]), 2, "the order of an array counts")
    tap.equal(count([{"L": [2, 1]}], [{"L": [1, 2]}], [("Metadata.L", "sort", str, "")]), 0, "unless a rule says not")


def check_rules(tap):
    presence = [("Metadata.M", "presence", None, "")]
    tap.equal(count([{"M": "a"}], [{"M": "b"}], presence), 0, "presence: two sentences")
    tap.equal(count([{"M": "a"}], [{"M": None}], presence), 1, "presence: a sentence and none")
    ids = [("Metadata.I[]", "id", "id", "")]
    a, b, c = (uuid.UUID(int=number) for number in (1, 2, 3))
    tap.equal(count([{"I": [a, b, a]}], [{"I": [c, a, c]}], ids), 0, "ids: the same pattern")
    tap.equal(count([{"I": [a, b, a]}], [{"I": [c, a, a]}], ids), 1, "ids: another pattern")
    tap.equal(count([{"I": [a]}], [{"I": [uuid.UUID(int=0)]}], ids), 1, "ids: none instead of one")
    listed = [("a c*", "1 step.A", 1, 2, "")]
    tap.equal(count([{"A": 1}], [{"A": 2}], listed=listed), 0, "a listed difference is allowed")
    tap.equal(count([{"A": 1}], [{"A": 3}], listed=listed), 1, "another value is not")
    tap.equal(count([{"A": 1}], [{"A": 2}], listed=listed, case_id="b"), 1, "nor in another case")
    rules = compare.Rules([], listed)
    compare.compare(rules, "a case", *sides([{"A": 1}], [{"A": 1}]))
    tap.equal(len(rules.unused()), 1, "an entry that nobody needs is known")


def check_lists(tap):
    for entry in allowed.FIELDS:
        tap.ok(len(entry) == 4 and entry[1] in ("ignore", "presence", "id", "sort", "drop", "map") and entry[3],
               f"rule for {entry[0]} is one, with a reason")
    for entry in allowed.DIFFERENCES:
        tap.ok(len(entry) == 5 and len(entry[4]) > 10, f"difference in {entry[0]} {entry[1]} has a reason")


if __name__ == "__main__":
    with Tap() as tap:
        check_batches(tap)
        check_differences(tap)
        check_rules(tap)
        check_lists(tap)
