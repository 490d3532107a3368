#!/usr/bin/env python3
"""brokerd and Apache Kafka side by side on this machine, and by how much: the goals of docs/performance.md.

    make bench                  the table of goals, five rounds, about 15 minutes on two cores
    make bench-quick            four scenarios, three rounds, about two minutes
    make bench-all              everything, the growth of all costs too; hours
    make bench SCENARIOS='produce-*,latency-1000' PAIRS=7       only these, of all that there are
    make bench SYSTEMS=brokerd                                  without Apache Kafka
    make bench NULL=/path/nullbroker.c                          with a column of what this machine can do at all
    bench/run.py --list                                         the scenarios
    bench/run.py --render bench/results/DATE/results.json       the report again, from what was measured

Results go into a new folder of bench/results (RESULTS=folder): report.md, results.json, plots as SVG.  The data are
in a temporary folder of TMPDIR (BENCH_DIR=folder), which is gone at the end; it should be on the disk that counts.
"""
import argparse
import json
import os
import sys
import time
from types import SimpleNamespace

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [ROOT, os.path.join(ROOT, "regress", "lib"), os.path.join(ROOT, "docker", "local")]
sys.dont_write_bytecode = True

from procs import terminate_like_interrupt

from bench.report import folder as results_folder
from bench.report import machine, markdown
from bench.scenarios.runner import FAILURES, Runner, choose, one_line, pairs_of, seconds_of
from bench.scenarios.registry import MEASURES
from bench.scenarios.table import SCENARIOS
from bench.scenarios.tools import Tools, ToolFailed
from bench.systems import checks, null
from bench.systems.disk import Disk, touch_memory
from bench.systems.fleet import CLASSES, Fleet
from bench.systems.system import NotServing
from bench.systems.workplace import Workplace

PROFILES = {"quick": {"pairs": 3, "seconds": 1.0}, "bench": {"pairs": 5, "seconds": 1.0}, "all": {"pairs": 5, "seconds": 5.0}}
A_RUN_MORE = 1.0  # seconds of a run that are not measured: topic, start of the client, deletion, a quiet disk
TOUCH_MIB = 4096


def tell(line):
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


def words(text):
    return [word for word in (text or "").replace(",", " ").split() if word]


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", choices=PROFILES, default="bench")
    parser.add_argument("--scenarios", default=os.environ.get("SCENARIOS"), metavar="PATTERN,...", help="of all that --list shows")
    parser.add_argument("--pairs", type=int, default=int(os.environ.get("PAIRS") or 0), help="rounds of each scenario")
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("SECONDS_A_RUN") or 0), help="of a run")
    parser.add_argument("--systems", default=os.environ.get("SYSTEMS") or "brokerd,kafka")
    parser.add_argument("--null", default=os.environ.get("NULL") or None, metavar="PATH", help="a null broker, its source or program")
    parser.add_argument("--build", default=os.environ.get("BUILD") or os.path.join(ROOT, "build"))
    parser.add_argument("--dir", default=os.environ.get("BENCH_DIR") or os.environ.get("TMPDIR") or "/tmp", help="where the data are meanwhile")
    parser.add_argument("--results", default=os.environ.get("RESULTS") or os.path.join(ROOT, "bench", "results"))
    parser.add_argument("--list", action="store_true", help="the scenarios, and what each needs")
    parser.add_argument("--render", metavar="RESULTS.JSON", help="print the report of a run again")
    options = parser.parse_args(argv)
    options.systems = words(options.systems)
    unknown = [kind for kind in options.systems if kind not in CLASSES]
    if unknown or not options.systems:
        parser.error(f"--systems: no {', '.join(unknown) or 'system'}; there are {', '.join(CLASSES)}")
    if options.pairs < 0 or options.seconds < 0:
        parser.error("--pairs and --seconds are at least 1 and more than 0")
    return options


def list_scenarios():
    print(f"{'name':<24} {'in':<18} {'nodes':>5} {'GB':>4}  what")
    for s in SCENARIOS:
        print(f"{s.name:<24} {','.join(s.profiles):<18} {s.nodes:>5} {s.disk_gb:>4.0f}  {s.title}")


def minutes_of(scenarios, setup):
    """About how long it takes; starts of nodes and failovers are what they are on two cores."""
    seconds = 40.0
    for s in scenarios:
        runs = len(s.columns) * pairs_of(s, setup.pairs) + 2
        own = {"start": 8, "partitions": 25, "failover": 14, "connections": 6}.get(s.measure)
        seconds += runs * (own or seconds_of(s, setup.seconds) + A_RUN_MORE) + (60 if s.sizes else 0)
    return seconds / 60 + (0.6 if any(s.nodes == 3 for s in scenarios) else 0)


WARM_UP = ({"size": 100}, {"size": 1000}, {"size": 100, "rate": 2000, "linger": 0})
READ_AT_MOST = 1_000_000


def warm_up(tools, seconds):
    """What a JIT compiler has to see before it is fast; the same for all systems.

    A system that takes little in this time has little to be read: what was written is all that can be waited for.
    """
    def work(system):
        system.create_topic("warm-up", 4, min(3, system.nodes))
        written = sum(tools.load("produce", system, "warm-up", seconds=seconds, acks="all", watch=False, drain=10, **options)["messages"] for options in WARM_UP)
        if written:
            tools.load("consume", system, "warm-up", watch=False, messages=min(written, READ_AT_MOST), allowed=60)
        system.delete_topics(["warm-up"])
    return work


def check(options, scenarios):
    """Everything that could stop a run later is said now; returns {scenario: why it cannot be measured}."""
    if not scenarios:
        raise checks.Refused(f"no scenario matches {options.scenarios}; there are: {', '.join(s.name for s in SCENARIOS)}")
    checks.check_place(options.dir)
    programs = ["bench/load", "bench/replay"] + (["brokerd"] if "brokerd" in options.systems else [])
    checks.check_programs(options.build, programs)
    if "kafka" in options.systems:
        checks.check_kafka()
    if options.null and not os.path.exists(options.null):
        raise checks.Refused(f"{options.null} is not there; NULL= names a null broker's source or program.")
    files = checks.open_files(max(s.files for s in scenarios))
    unfit = {s.name: checks.unfit(s, options.dir, files) for s in scenarios}
    unfit = {name: why for name, why in unfit.items() if why}
    for name, why in unfit.items():
        tell(f"{name} will not be measured: {why}")
    if len(unfit) == len(scenarios):
        raise checks.Refused("nothing is left to measure.")
    return unfit


def command_of(arguments):
    """What was asked for: make passes it by the environment."""
    asked = [f"{name}={os.environ[name]}" for name in ("SCENARIOS", "PAIRS", "SECONDS_A_RUN", "SYSTEMS", "NULL") if os.environ.get(name)]
    return " ".join([*asked, "bench/run.py", *arguments])


def new_results(options, setup, place):
    return {"began": time.strftime("%Y-%m-%d %H:%M"), "status": "complete", "profile": options.profile, "pairs": setup.pairs,
            "seconds": setup.seconds, "command": command_of(sys.argv[1:]), "machine": machine.describe(ROOT, place.folder),
            "systems": {}, "notes": [], "scenarios": []}


def measure(options, scenarios, unfit):
    profile = PROFILES[options.profile]
    pairs, seconds = options.pairs or profile["pairs"], options.seconds or profile["seconds"]
    with Workplace(options.dir) as place:
        os.environ["BUILD"] = os.path.abspath(options.build)
        tools = Tools(options.build, place.folder)
        setup = SimpleNamespace(place=place, tools=tools, disk=Disk(place.folder), kinds=options.systems, pairs=pairs, seconds=seconds,
                                null=null.build(options.null, place.folder) if options.null else None)
        setup.fleet = Fleet(place, options.systems, tell, warm_up(tools, 1.0 if options.profile == "quick" else 2.0), FAILURES)
        results, path = new_results(options, setup, place), results_folder.make(options.results, options.profile)
        tell(f"{len(scenarios)} scenarios, about {minutes_of(scenarios, setup):.0f} minutes; results in {path}")
        touch_memory(min(TOUCH_MIB, machine.memory_mib("MemAvailable") // 2))
        results["notes"].append(f"fdatasync of 4 KiB at rest: {setup.disk.learn():.2f} ms (median)")
        if place.cleared:
            results["notes"].append(f"{len(place.cleared)} folders of runs that were killed had to be cleared first")
        try:
            Runner(setup, results, path, tell).run(scenarios, unfit)
        except KeyboardInterrupt as interrupt:
            results["status"] = f"interrupted ({interrupt or 'SIGINT'}): only what was measured until then"
            tell("interrupted: ending what was started, the report has what was measured")
        except Exception as error:
            results["status"] = f"ended early by an error, {one_line(error)}: only what was measured until then"
            raise
        finally:
            text = results_folder.finish(path, results)
        print(text)
        tell(f"the report, its data and plots are in {path}")
        return 0 if results["status"] == "complete" else 130


def main(argv):
    options = parse(argv)
    if options.list:
        return list_scenarios()
    if options.render:
        with open(options.render, encoding="utf-8") as file:
            print(markdown.render(json.load(file)))
        return 0
    terminate_like_interrupt()
    try:
        scenarios = choose(SCENARIOS, options.profile, words(options.scenarios))
        return measure(options, scenarios, check(options, scenarios))
    except (checks.Refused, ToolFailed, NotServing) as refused:
        print(f"bench: {refused}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bench: interrupted; what was started is stopped again", file=sys.stderr)
        return 130
    except FAILURES as error:
        print(f"bench: {one_line(error)}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
