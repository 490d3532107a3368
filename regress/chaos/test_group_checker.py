#!/usr/bin/env python3
"""The group's checker finds each kind of fault in a history that has it, and none in one that has none."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "lib")]
import group_checker
from tap import Tap

A, B = 1, 2
# A has partition 0 in generation 5 and commits 10 and 20; B has it in generation 6 from second 5 on, goes on at 20 and commits 30.
COMMITS = [(A, 0, 10, 5, 1.0, 1.1), (A, 0, 20, 5, 2.0, 2.1), (B, 0, 30, 6, 6.0, 6.1)]
HOLDS = [(A, 0, 5, 0.5, 0.6, [[0, 20]]), (B, 0, 6, 5.0, 5.1, [[20, 30]])]
LAPSE = (1.5, 3.0, 3.2)  # the standby stopped at 1.5, so that of A's commits the second one may be lost


def history(commits=(), holds=(), looks=(), lapses=(), without=(), instead=None):
    """The good one and more; `without`: numbers of its commits; `instead`: {number: another hold}."""
    return group_checker.History(
        [c for n, c in enumerate(COMMITS) if n not in without] + list(commits),
        [(instead or {}).get(n, h) for n, h in enumerate(HOLDS)] + list(holds), [("a look", 0, *look) for look in looks], lapses)


def begins(offset, end=30):
    """B does so."""
    return {1: (B, 0, 6, 5.0, 5.1, [[offset, end]])}


def no_answer(offset, asked, generation=5, member=A):
    return (member, 0, offset, generation, asked, None)


CASES = [
    # name, what is expected, history
    ("a good one", {}, history(looks=[(-1, 0.1, 0.2), (0, 0.8, 0.9), (10, 1.5, 1.6), (20, 4.0, 4.1), (30, 7.0, 7.1)])),
    ("an empty one", {}, group_checker.History([], [], [])),
    ("who has read nothing says nothing", {}, history(holds=[(A, 0, 7, 7.0, None, [])])),

    ("beyond what was committed", {"skipped": 2}, history(instead=begins(25))),
    ("beyond, with nothing committed", {"skipped": 2}, history(without=(0, 1), instead=begins(25))),
    ("what nobody asked for", {"skipped": 1}, history(looks=[(40, 7.0, 7.1)])),
    ("asked for only later", {"skipped": 1}, history(looks=[(30, 5.0, 5.5)])),
    ("records between are given to nobody", {"skipped": 1}, history(instead={0: (A, 0, 5, 0.5, 0.6, [[0, 15]])})),
    ("a member leaves records out", {"skipped": 2}, history(instead={1: (B, 0, 6, 5.0, 5.1, [[20, 25], [27, 30]])})),
    ("the first records are given to nobody", {"skipped": 2}, history(instead={0: (A, 0, 5, 0.5, 0.6, [[5, 20]])})),

    ("from the start", {"went-back": 1}, history(instead=begins(0))),
    ("an older commit", {"went-back": 1}, history(instead=begins(10))),
    ("below it, and no commit at all", {"went-back": 1}, history(instead=begins(15))),
    ("a higher one of an older generation", {"went-back": 1}, history([no_answer(35, 3.0)], looks=[(35, 7.0, 7.1)])),
    ("OffsetFetch knows nothing", {"went-back": 1}, history(looks=[(-1, 1.2, 1.3)])),
    ("OffsetFetch says an older one", {"went-back": 1}, history(looks=[(10, 2.2, 2.3)])),
    ("it was on its way when that was asked", {}, history(looks=[(10, 2.05, 2.3), (20, 2.05, 2.3)])),
    ("a member goes back by itself", {"went-back": 1}, history(instead={1: (B, 0, 6, 5.0, 5.1, [[20, 25], [22, 30]])})),
    ("one without an answer, as the newest", {}, history([no_answer(25, 4.0)], instead={**begins(25), 0: (A, 0, 5, 0.5, 0.6, [[0, 25]])})),
    ("one without an answer, late", {}, history([no_answer(15, 1.9)], instead=begins(15))),
    ("one that took long, late", {}, history([(A, 0, 15, 5, 0.9, 1.95)], instead=begins(15))),
    ("one that did not take long, late", {"went-back": 1}, history([(A, 0, 15, 5, 1.5, 1.9)], instead=begins(15))),
    ("late, and a newer generation has committed", {"went-back": 1}, history([no_answer(25, 3.0)], looks=[(25, 7.0, 7.1)])),
    ("late, of a generation that is not certain", {}, history([no_answer(25, 3.0, -1)], looks=[(25, 7.0, 7.1)])),
    ("late, before it was asked for", {"went-back": 1}, history([no_answer(15, 5.5)], instead=begins(15))),

    ("a failover loses a commit", {}, history(lapses=[LAPSE], instead=begins(10))),
    ("and need not", {}, history(lapses=[LAPSE])),
    ("a failover that is yet to come loses none", {"went-back": 1}, history(lapses=[(1.5, 8.0, 8.1)], instead=begins(10))),
    ("the standby stopped only later", {"went-back": 1}, history(lapses=[(2.5, 3.0, 3.1)], instead=begins(10))),
    ("asked for when the primary was dead", {"went-back": 1}, history(lapses=[(0.7, 0.8, 1.5)], instead=begins(10))),
    ("a failover does not lose older ones", {"went-back": 1}, history(lapses=[LAPSE], instead=begins(0))),
    ("nor skips", {"skipped": 2}, history(lapses=[LAPSE], instead=begins(25))),

    ("given to two", {"held-twice": 1}, history(holds=[(A, 0, 6, 5.0, None, [])])),
    ("another partition is given to another", {}, history(holds=[(A, 1, 6, 5.0, None, [])])),
    ("given to one again", {}, history(holds=[(B, 0, 6, 5.0, None, [])])),
    ("kept by one, and given to another", {"held-twice": 1}, history([(A, 0, 20, 6, 4.0, 4.1)])),
    ("a generation that a failover has lost comes again", {}, history(
        [(A, 0, 20, 6, 4.0, 4.1)], lapses=[(3.9, 4.5, 4.6)])),
    ("one that it has not lost", {"held-twice": 1}, history(
        [(A, 0, 20, 6, 4.0, 4.1)], lapses=[(4.2, 4.5, 4.6)])),
    ("of a generation that is not certain", {}, history(holds=[(A, 0, -1, 5.0, None, [])])),

    ("a commit of one that was replaced", {"not-fenced": 1}, history([(A, 0, 25, 5, 5.5, 5.6)])),
    ("refused", {}, history([no_answer(25, 5.5)])),
    ("its generation is not certain", {}, history([(A, 0, 25, -1, 5.5, 5.6)])),
    ("asked for before, answered after", {}, history([(A, 0, 25, 5, 4.9, 5.6)])),
    ("of another partition too", {"not-fenced": 1}, history([(A, 1, 25, 5, 5.5, 5.6)])),
    ("the newer generation was known by a commit", {"not-fenced": 1}, history([(B, 0, 21, 7, 6.5, 6.6), (A, 1, 25, 6, 7.0, 7.1)])),
    ("a failover has lost the newer generation", {}, history([(A, 0, 25, 5, 5.8, 5.9)], lapses=[(4.0, 5.5, 5.6)])),
    ("and loses it only later", {"not-fenced": 1}, history([(A, 0, 25, 5, 5.8, 5.9)], lapses=[(4.0, 7.0, 7.1)])),
]


def main():
    with Tap() as t:
        for name, expected, given in CASES:
            found, _ = group_checker.check(given)
            t.equal(dict(found.counts), expected, name)
            if dict(found.counts) != expected:
                t.note(str(dict(found.examples)))
        _, figures = group_checker.check(history(looks=[(20, 4.0, 4.1)]))
        t.equal((figures.handovers, figures.looks, figures.lost, figures.late), (2, 1, 0, 0), "what was judged is counted")
        _, figures = group_checker.check(history(lapses=[LAPSE], instead=begins(10)))
        t.equal((figures.lost, figures.late), (1, 0), "and what a failover has lost")
        _, figures = group_checker.check(history([no_answer(15, 1.9)], instead=begins(15)))
        t.equal((figures.lost, figures.late), (0, 1), "and what came late")


if __name__ == "__main__":
    main()
