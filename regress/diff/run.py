#!/usr/bin/env python3
"""
run.py: asks Apache Kafka and brokerd the same questions and prints TAP, one line a case.

    run.py                                  starts both, runs every case
    run.py --only 'Fetch*'                  the cases whose title fits (may be given again)
    run.py --ours HOST:PORT --kafka HOST:PORT --jar kafka-clients-4.2.0.jar
                                            against brokers that run already
    run.py --itself                         Kafka against a second Kafka: nothing may differ
    run.py --report FILE                    every difference, also as text for people
    run.py --apis Metadata,Produce          only cases of these APIs; default: those that brokerd advertises
"""
import argparse
import contextlib
import fnmatch
import os
import sys
import threading
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, os.pardir, "lib")]

import allowed
import brokers
import case
import cases
import compare
import fixture
import mutate
from messages import Definitions
from side import Side


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kafka", metavar="HOST:PORT")
    parser.add_argument("--ours", metavar="HOST:PORT")
    parser.add_argument("--jar", help="kafka-clients jar with the message definitions")
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN")
    parser.add_argument("--apis", metavar="NAME,…")
    parser.add_argument("--itself", action="store_true")
    parser.add_argument("--report", metavar="FILE")
    parser.add_argument("--list", action="store_true", help="print the cases' titles")
    parser.add_argument("--times", action="store_true", help="say how long each case took")
    return parser.parse_args()


def ask_one(side, item):
    """Run a case against one side; what goes wrong is part of its transcript."""
    side.begin(item.id)
    try:
        item.function(side, item.version)
    except Exception as error:
        side.failure = traceback.format_exc()
        side.note("the case", f"<failed: {type(error).__name__}: {error}>")
    side.end()


def ask_both(sides, item):
    threads = [threading.Thread(target=ask_one, args=(side, item)) for side in sides]
    for side in sides:
        side.failure = None
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def advertised(side):
    """API names that the broker says it serves."""
    answer = side.request("ApiVersions", 0)
    return {side.definitions.name_of(entry["ApiKey"]) for entry in answer["ApiKeys"]}


def check_ranges(output, side):
    """What brokerd advertises must hold the versions that are compared, or a part of it would be left out unseen."""
    entries = side.request("ApiVersions", 0)["ApiKeys"]
    ranges = {side.definitions.name_of(entry["ApiKey"]): (entry["MinVersion"], entry["MaxVersion"]) for entry in entries}
    for api, (low, high) in case.SERVED.items():
        there = ranges.get(api)
        output.line(there is not None and there[0] <= low and there[1] >= high,
                    f"{api} is advertised from {low} to {high}", [f"it is {there}"] if there else ["it is not there"])


def chosen(options, sides):
    wanted = set(options.apis.split(",")) if options.apis else advertised(sides[1])
    for item in case.CASES:
        if item.api not in wanted:
            continue
        if options.only and not any(fnmatch.fnmatchcase(item.title, pattern) for pattern in options.only):
            continue
        yield item


def short(value):
    text = repr(value)
    return text if len(text) <= 600 else text[:600] + "…"


class Output:
    """TAP on standard output, and the report."""

    def __init__(self, report):
        self.report = open(report, "w") if report else None
        self.count = self.failed = 0

    def line(self, is_ok, title, notes=()):
        self.count += 1
        self.failed += not is_ok
        print(f"{'ok' if is_ok else 'not ok'} {self.count} - {title}")
        for note in () if is_ok else notes:
            print("\n".join(f"# {line}" for line in note.splitlines()))
        sys.stdout.flush()
        if self.report and not is_ok:
            print(f"{title}", *(f"    {note}" for note in notes), sep="\n", file=self.report, flush=True)


def run_case(output, rules, sides, item, with_times, mutations):
    start = time.monotonic()
    ask_both(sides, item)
    took = time.monotonic() - start
    found = compare.compare(rules, item.title, *sides)
    notes = [f"{where}: {sides[0].name} {short(kafka)} | {sides[1].name} {short(ours)}"
             for where, kafka, ours in found]
    if all(side.failure for side in sides):
        notes.append("the case fails on both sides:\n" + sides[0].failure)
    if not sides[0].transcript:
        notes.append("the case asks nothing")
    title = item.title + (f" ({took:.2f} s)" if with_times else "")
    output.line(not notes, title, notes)
    if not notes:
        mutations.try_case(rules, item, sides)


def main():
    options = arguments()
    if options.list:
        print("\n".join(item.title for item in case.CASES))
        return 0
    with contextlib.ExitStack() as stack:
        started = brokers.start(options, stack)
        if started.skip:
            print(f"1..0 # SKIP {started.skip}")
            return 0
        definitions = Definitions(started.jar)
        sides = [Side("kafka", *started.kafka, definitions, case.SERVED),
                 Side("kafka2" if options.itself else "brokerd", *started.ours, definitions, case.SERVED)]
        rules = compare.Rules(allowed.FIELDS, [] if options.itself else allowed.DIFFERENCES)
        output, mutations = Output(options.report), mutate.Mutations()
        items = list(chosen(options, sides))
        fixture.prepare(sides, any(item.api in case.GROUP_APIS for item in items))
        if not options.itself and not options.only and not options.apis:
            check_ranges(output, sides[1])
        for item in items:
            run_case(output, rules, sides, item, options.times, mutations)
        mutations.report(output)
        if not options.only and not options.apis and not options.itself:
            for entry in rules.unused():
                output.line(False, f"allowed.py: no case needs ({entry[0]}, {entry[1]}) any more")
        print(f"1..{output.count}")
        return 1 if output.failed else 0


if __name__ == "__main__":
    sys.exit(main())
