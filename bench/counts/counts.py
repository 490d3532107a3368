#!/usr/bin/env python3
"""What a request costs brokerd in instructions, system calls and allocations: counts that no busy machine changes.

    make bench-counts           counts, compares with bench/counts/figures.json, ends with 1 when something got dearer
    make bench-counts-keep      counts, and keeps the figures
    bench/counts/counts.py [--keep] [--only PATTERN] [--json FILE]

The loads are those of loads.py, against a private broker: instructions and calls of malloc and its kin under
valgrind's callgrind, system calls under strace.  What the broker does by the clock (heartbeats, reports, checkpoints)
is a figure of its own, "idle"; while requests are counted most of it is switched off and the rest taken off.  It
takes about five minutes.
"""
import argparse
import contextlib
import fnmatch
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "regress", "lib")]

import calls
import compare
import loads
import profile as callgrind
from pgbroker_cluster import Cluster, Trouble

BUILD = os.path.abspath(os.environ.get("BUILD") or os.path.join(ROOT, "build"))
KEPT = os.path.join(HERE, "figures.json")
IDLE_SECONDS = 8
SETTLE_SECONDS = 12  # two of the reports that new partitions make
FUNCTIONS_KEPT = 30
# What the broker does by the clock would be the noise of what it does for a request: its own figure is "idle".
QUIET = {"group.initial.rebalance.delay.ms": 0, "pg_broker.report.interval.ms": 2147483647,
         "log.flush.offset.checkpoint.interval.ms": 2147483647, "broker.heartbeat.interval.ms": 60000,
         "broker.session.timeout.ms": 600000}


def timed(counter, work):
    """What work() returns, what was counted meanwhile, and the seconds."""
    counter.begin()
    begun = time.monotonic()
    done = work()
    took = time.monotonic() - begun
    return done, counter.end(), took


def a_second(counter, split):
    """What the broker does by itself: {kind: {name: count a second}}."""
    _, counted, took = timed(counter, lambda: time.sleep(IDLE_SECONDS))
    return {kind: {key: value / took for key, value in counts.items()} for kind, counts in split(counted).items()}


def count_loads(cluster, counter, only, split, folder):
    """{load: (what, requests, megabytes, {kind: {name: count}})}; `split(counted)` gives the kinds.

    What a quiet broker does by itself is taken off.
    """
    setup = loads.Setup(cluster, BUILD, folder)
    results, background = {}, None
    for load in loads.loads(setup):
        # Fetches read what was produced.
        if fnmatch.fnmatch(load.name, only) or load.name.startswith("produce"):
            loads.run(load)
        if not fnmatch.fnmatch(load.name, only):
            continue
        background = background or a_second(counter, split)
        requests, counted, took = timed(counter, lambda load=load: loads.run(load))
        kinds = {kind: (compare.without if kind == "allocations" else compare.minus)(counts, background[kind], took)
                 for kind, counts in split(counted).items()}
        results[load.name] = (load.what, requests, load.megabytes, kinds)
        print(f"# {load.name}: {requests} requests", file=sys.stderr, flush=True)
    return results


def count_idle(cluster, counter, split, folder):
    """The same rows for a second without requests, with the default settings."""
    setup = loads.Setup(cluster, BUILD, folder)
    few = a_second(counter, split)
    setup.topic("others", loads.OTHERS)
    time.sleep(SETTLE_SECONDS)
    many = a_second(counter, split)
    return {"idle": ("a second without requests (figures a second)", 1, 0, few),
            "idle-1000": (f"the same with {loads.OTHERS:,} partitions", 1, 0, many)}


@contextlib.contextmanager
def broker(program, properties):
    with Cluster(properties=properties, brokerd=program, start=False) as cluster:
        cluster.broker(1).start(seconds=180)
        yield cluster


def count_all(only, make_counter, split, program, folder):
    with broker(program, QUIET) as cluster:
        rows = count_loads(cluster, make_counter(cluster.broker(1).pid(), folder), only, split, folder)
    if fnmatch.fnmatch("idle", only):
        with broker(program, {}) as cluster:
            rows.update(count_idle(cluster, make_counter(cluster.broker(1).pid(), folder), split, folder))
    return rows


def measure(only):
    with tempfile.TemporaryDirectory(prefix="pgb-counts-") as folder:
        os.chmod(folder, 0o755)
        program = callgrind.wrapper(folder, os.path.join(BUILD, "brokerd"))
        first = count_all(only, callgrind.Callgrind, lambda p: {"functions": p.functions, "allocations": p.allocations},
                          program, folder)
        second = count_all(only, calls.Strace, lambda counted: {"syscalls": counted}, None, folder)
    return {name: figures_of(*first[name], second[name][3]) for name in first}


def figures_of(what, requests, megabytes, kinds, traced):
    """One load's row of figures.json: sums a request and a MB, and what they are made of."""
    sums = {"instructions": sum(kinds["functions"].values()), "syscalls": sum(traced["syscalls"].values()),
            "allocations": sum(kinds["allocations"].values())}
    row = {"what": what, **{name: round(value / requests, 2) for name, value in sums.items()}}
    if megabytes:
        row["instructions_a_mb"] = round(sums["instructions"] / megabytes)
        row["syscalls_a_mb"] = round(sums["syscalls"] / megabytes, 2)
    functions = sorted(kinds["functions"].items(), key=lambda item: -item[1])[:FUNCTIONS_KEPT]
    row["functions"] = {name: round(value / requests, 1) for name, value in functions}
    row["calls"] = rounded(traced["syscalls"], requests, 0.01)
    row["allocated_by"] = rounded(kinds["allocations"], requests, 0.005)
    return row


def rounded(counts, requests, least):
    return {name: round(value / requests, 3) for name, value in sorted(counts.items(), key=lambda item: -item[1])
            if value / requests >= least}


def versions():
    def first_line(*command):
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout.split("\n")[0]
    return {"machine": os.uname().machine, "compiler": first_line("gcc", "--version"), "valgrind": first_line("valgrind", "--version"),
            "strace": first_line("strace", "-V"), "date": time.strftime("%Y-%m-%d", time.gmtime())}


def show(figures):
    print(f"| {'load':19} | instructions | a MB | system calls | a MB | allocations |\n|-|-|-|-|-|-|")
    for name, row in figures.items():
        mb = (f"{row['instructions_a_mb']:,}", row["syscalls_a_mb"]) if "instructions_a_mb" in row else ("", "")
        print(f"| {name:19} | {row['instructions']:,.0f} | {mb[0]} | {row['syscalls']:.2f} | {mb[1]} | {row['allocations']:.3f} |")


def reasons(figure, before, after):
    """What a figure is made of, where it grew."""
    part = {"instructions": "functions", "syscalls": "calls", "allocations": "allocated_by"}[figure]
    return [f"      {name}: {old:g} → {new:g}" for name, old, new in compare.growth(before.get(part, {}), after.get(part, {}))]


def report(kept, figures):
    """Prints the comparison; whether something got dearer."""
    dearer = False
    for load, figure, before, after, verdict in compare.compare(kept, figures):
        if verdict == "same":
            continue
        dearer = dearer or verdict == "dearer"
        values = f"{before:,.2f} → {after:,.2f}" if None not in (before, after) else ""
        print(f"{verdict}: {load}: {compare.FIGURES[figure][2]} {values}")
        if verdict == "dearer":
            print("\n".join(reasons(figure, kept[load], figures[load])))
    return dearer


def check_tools():
    missing = [tool for tool in ("valgrind", "callgrind_control", "strace") if shutil.which(tool) is None]
    if missing:
        sys.exit(f"bench-counts needs {' and '.join(missing)}: apt-get install valgrind strace")
    for name in ("brokerd", os.path.join("bench", "replay")):
        if not os.path.exists(os.path.join(BUILD, name)):
            sys.exit(f"there is no {name} in {BUILD}: make bench-counts builds it")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="write the figures that later runs are compared with")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="count these loads; nothing is kept then")
    parser.add_argument("--json", metavar="FILE", help="write all figures there, too")
    options = parser.parse_args()
    if options.keep and options.only != "*":
        sys.exit("--keep keeps the figures of all loads: not with --only")
    check_tools()
    # Leaving by an exception stops the broker and removes its folder.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        figures = measure(options.only)
    except (RuntimeError, OSError, Trouble, AssertionError) as error:
        sys.exit(f"bench-counts: {error}")
    show(figures)
    run = {"made": versions(), "loads": figures}
    for path in [KEPT] * options.keep + [options.json] * bool(options.json):
        with open(path, "w", encoding="utf-8") as file:
            json.dump(run, file, indent=1, ensure_ascii=False)
            file.write("\n")
    if options.keep:
        return
    if not os.path.exists(KEPT):
        sys.exit(f"nothing to compare with: {os.path.relpath(KEPT)} is not there; make bench-counts-keep makes it")
    with open(KEPT, encoding="utf-8") as file:
        kept = json.load(file)
    for name in ("machine", "compiler"):
        if kept["made"][name] != run["made"][name]:
            print(f"The kept figures are those of another {name}: {kept['made'][name]}; here it is {run['made'][name]}.")
    wanted = {name: row for name, row in kept["loads"].items() if options.only == "*" or name in figures}
    if report(wanted, figures):
        sys.exit("Something got dearer.  If that is its price, make bench-counts-keep keeps the new figures.")
    print("Nothing got dearer.")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
