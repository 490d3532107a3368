#!/usr/bin/env python3
"""What make bench-counts makes of its tools' output, and what it calls dearer."""
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "bench", "counts"), os.path.join(ROOT, "regress", "lib")]

import calls
import compare
import profile as callgrind
from tap import Tap

PROFILE = """\
# callgrind format
version: 1
events: Ir
fl=(1) log.c
fn=(1) append
10 5
+1 7
cfi=(2) malloc.c
cfn=(2) malloc'append'handle
calls=3 +4
* 300
12 1
fn=(3) calloc'conn_new'accept
20 50
cfn=(4) malloc'calloc'conn_new
calls=1 0
* 9
fn=(1)
-2 2
totals: 65
"""

CALLS = """\
    calls syscall
--------- ----------------
     1001 epoll_wait
        7 futex
--------- ----------------
     1008 total
"""


def compared(before, after, load="produce", figure="instructions"):
    return compare.compare({load: {figure: before}}, {load: {figure: after}})[0][4]


def main():
    with Tap() as t:
        profile = callgrind.parse(PROFILE.splitlines(True))
        t.equal(profile.instructions, 65, "what callees cost is not counted twice")
        t.equal(profile.functions, {"append": 15, "calloc": 50}, "a function's cost is the sum of its places")
        t.equal(profile.allocations, {"malloc < append < handle": 3}, "allocations are told with their callers; one within another is not counted")
        t.equal(calls.parse(CALLS.splitlines(True)), {"epoll_wait": 1001, "futex": 7}, "system calls without the total")

        t.equal(compared(10000, 10400), "same", "4 % more instructions are none")
        t.equal(compared(10000, 10600), "dearer", "6 % are dearer")
        t.equal(compared(10000, 9000), "cheaper", "10 % less are cheaper")
        t.equal(compared(1000, 1250), "same", "few instructions may grow by more")
        t.equal(compared(0, 1, figure="allocations"), "dearer", "an allocation a request where there was none")
        t.equal(compared(0, 0.08, figure="allocations"), "same", "not one in twelve")
        t.equal(compared(14, 15, figure="syscalls"), "same", "one system call of fourteen is noise")
        t.equal(compared(3, 4, figure="syscalls"), "dearer", "one of three is not")
        t.equal(compared(100000, 140000, load="idle"), "same", "a second of nothing varies more")
        t.equal([row[4] for row in compare.compare({"a": {"syscalls": 1}}, {"b": {"syscalls": 1}})], ["gone", "new"],
                "a load that is gone, and a new one")

        t.equal(compare.minus({"a": 10, "b": 3, "c": 1}, {"a": 2, "b": 2}, 2), {"a": 6, "c": 1}, "what was there anyway is taken off")
        t.equal(compare.without({"tick": 9, "request": 500, "both": 500}, {"tick": 4, "both": 4}, 2), {"request": 500, "both": 500},
                "of what is there by the clock, only what is much more is left")
        t.equal(compare.growth({"a": 1, "b": 5}, {"a": 3, "b": 4, "c": 9}), [("c", 0, 9), ("a", 1, 3)], "what grew most comes first")


if __name__ == "__main__":
    main()
