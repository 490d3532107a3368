#!/usr/bin/env python3
"""The pure parts of `make bench`: medians, ratios and spread, the table of scenarios, what tools print, the report."""
import os
import subprocess
import sys
import tempfile
import xml.dom.minidom

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.dont_write_bytecode = True
sys.path[:0] = [ROOT, os.path.join(ROOT, "regress", "lib"), os.path.join(ROOT, "docker", "local")]

from bench.report import folder, markdown, plots, stats, svg
from bench.scenarios import runner, tools
from bench.scenarios.columns import COLUMNS
from bench.scenarios.metrics import METRICS
from bench.scenarios.model import Goal, Scenario, faults
from bench.scenarios.registry import MEASURES
from bench.scenarios.table import BY_NAME, SCENARIOS
from bench.systems import apache_kafka, checks, disk, usage, workplace
from tap import Tap


def sample(number, trouble=(), **values):
    return {"round": number, "values": values, "trouble": list(trouble), "load": 0.1, "others": []}


def result_of(scenario, cells, pairs=3):
    row = scenario.as_dict()
    row.update(cells=cells, pairs=pairs, columns=list(cells))
    return row


def results(*rows):
    return {"began": "2026-01-02 03:04", "status": "complete", "command": "bench/run.py", "pairs": 3, "seconds": 1.5, "machine": {"CPU": "two"},
            "systems": {"brokerd": {"title": "brokerd", "version": "1", "settings": {"a": 1}}}, "notes": ["a note"], "scenarios": list(rows)}


def numbers(t):
    t.equal([stats.median([]), stats.median([3]), stats.median([4, 1, 2]), stats.median([4, 1, 2, 3])], [None, 3, 2, 2.5], "median")
    t.equal([stats.quantile([1, 2, 3, 4, 5], 0.25), stats.quantile([1, 2], 0.5), stats.quantile([7], 0.9)], [2, 1.5, 7], "quantile")
    t.equal(stats.spread([90, 95, 100, 105, 110]), 0.1, "spread is the distance of the quartiles as a share of the median")
    t.equal([stats.spread([1]), stats.spread([0, 0]), stats.spread([0, 0, 1])], [None, 0.0, float("inf")], "spread of one number, and around 0")
    ours = [sample(1, mb=10), sample(2, mb=30), sample(3), sample(4, mb=20)]
    theirs = [sample(1, mb=5), sample(2, mb=10), sample(3, mb=1), sample(4, mb=0)]
    t.equal(stats.ratio(ours, theirs, "mb"), {"median": 2.5, "low": 2.0, "high": 3.0, "n": 2}, "a ratio is of one round, and of those that have both")
    t.equal(stats.ratio(ours, [sample(9, mb=1)], "mb"), None, "no ratio without a common round")
    t.equal(stats.summary(ours, "mb")["median"], 20, "a failed run has no part in a median")
    slope, offset = stats.line_fit([(100, 12), (1000, 21), (10000, 111)])
    t.ok(abs(slope - 0.01) < 1e-9 and abs(offset - 11) < 1e-9, "the cost of one more is the slope")


def cleanness(t):
    clean = [sample(n, mb=100 + n) for n in range(5)]
    t.equal(stats.trouble_of(clean, 5, {"mb": 0.1}), [], "runs that agree are clean")
    t.equal(stats.trouble_of(clean[:4], 5, {"mb": 0.1}), ["4 of 5 runs"], "a run that is missing is said")
    wide = [sample(n, mb=value) for n, value in enumerate((50, 100, 150, 200, 250))]
    t.equal(stats.trouble_of(wide, 5, {"mb": 0.2}), ["mb: spread 67 % (more than 20 %)"], "runs that differ are said")
    t.equal(stats.trouble_of([sample(1, ["3 errors"], mb=1), sample(2, ["3 errors"], mb=1), sample(3, ["late"], mb=1)], 3, {}),
            ["3 errors (in 2 runs)", "late"], "what went wrong is said once, and how often")
    t.equal(runner.foreign_load([]), "", "nobody else was busy")
    t.equal(runner.foreign_load([(0.1, "cc1")]), "", "a little is allowed")
    t.equal(runner.foreign_load([(0.1, "make"), (0.1, "cc1")]), "other processes were busy (cc1, make)", "more is not")
    before = {1: ("init", 0, 0.0, 0.0), 10: ("cc1", 1, 5.0, 0.0), 11: ("brokerd", 1, 5.0, 0.0), 12: ("kworker", 2, 1.0, 0.0)}
    after = {1: ("init", 0, 0.0, 0.0), 10: ("cc1", 1, 6.0, 0.0), 11: ("brokerd", 1, 7.0, 0.0), 12: ("kworker", 2, 1.5, 0.0), 13: ("load", 99, 2.0, 0.0),
             14: ("ld", 1, 0.4, 0.0)}
    t.equal(usage.share_of_others(before, after, {11}, 99, 2.0, 0.05), ([(0.5, "cc1"), (0.2, "ld")], 0.25),
            "others are neither ours, nor our children, nor the kernel; what began meanwhile counts")
    t.equal([disk.limit_of(0.3), disk.limit_of(2.0)], [1.3, 6.0], "a disk is quiet up to three times its rest, or 1 ms more")


def goals(t):
    cells = {"brokerd": [sample(1, mb=30, cpu=1), sample(2, mb=30, cpu=1)], "kafka": [sample(1, mb=20, cpu=4), sample(2, mb=20, cpu=4)]}
    t.equal(stats.judge(Goal("mb", "brokerd", ">=", 1.5, "kafka").as_dict(), cells), (1.5, True), "a goal that is just met")
    t.equal(stats.judge(Goal("mb", "brokerd", ">=", 1.6, "kafka").as_dict(), cells), (1.5, False), "a goal that is not met")
    t.equal(stats.judge(Goal("cpu", "brokerd", "<=", 0.25, "kafka").as_dict(), cells), (0.25, True), "less can be the goal")
    t.equal(stats.judge(Goal("mb", "brokerd", ">=", 31).as_dict(), cells), (30, False), "a goal can be a number")
    t.equal(stats.judge(Goal("mb", "brokerd", ">=", 1, "null").as_dict(), cells), (None, None), "a goal whose other side was not measured")


def scenarios(t):
    t.equal(faults(SCENARIOS, COLUMNS, METRICS, MEASURES), [], "the table of scenarios is sound")
    good = BY_NAME["latency-1000"]
    broken = Scenario(**{**good.__dict__, "name": "x", "metrics": ("p50_ms", "nonsense"), "columns": ("brokerd", "rabbit"), "measure": "guess",
                         "goals": (Goal("mb_per_s", "kafka", "=>", 1),), "profiles": ("bench", "never"), "how": "no stop"})
    t.equal(len(faults((broken, broken), COLUMNS, METRICS, MEASURES)), 2 * 8 + 1, "what is wrong with a table is said: names, columns, metrics, goals")
    growing = Scenario(**{**BY_NAME["growth-groups"].__dict__, "sizes": (100, 10, 1)})
    t.equal(faults((growing,), COLUMNS, METRICS, MEASURES), ["growth-groups: growth needs a unit and three sizes that grow"], "growth needs three sizes")
    for profile, least, most in (("quick", 3, 6), ("bench", 15, 25), ("all", 40, 100)):
        chosen = runner.choose(SCENARIOS, profile, [])
        t.ok(least <= len(chosen) <= most, f"{profile} has {least} to {most} scenarios: {len(chosen)}")
    t.ok({s.name for s in runner.choose(SCENARIOS, "quick", [])} <= {s.name for s in runner.choose(SCENARIOS, "bench", [])}, "quick is a part of bench")
    t.equal([s.name for s in runner.choose(SCENARIOS, "bench", ["drain-*", "commit"])], ["drain-1", "drain-4", "commit"], "patterns choose from all")
    t.equal([s.nodes for s in runner.choose(SCENARIOS, "all", []) if not MEASURES[s.measure].fresh],
            sorted(s.nodes for s in runner.choose(SCENARIOS, "all", []) if not MEASURES[s.measure].fresh), "sets of nodes are started once each")
    t.equal([runner.pairs_of(BY_NAME["failover-1000"], 5), runner.pairs_of(good, 5), runner.pairs_of(BY_NAME["failover-1000"], 1)], [3, 5, 1],
            "a long scenario has fewer rounds")


def programs(t):
    t.equal(tools.option_words({"batch_size": 5, "idempotence": True, "rate": None, "quiet": False, "X": ["a=b", "c=d"]}),
            ["--batch-size", "5", "--idempotence", "-X", "a=b", "-X", "c=d"], "options become words")
    said = {"seconds": 2.0, "bytes": 2_000_000_000, "mb_per_s": 1000.0, "msgs_per_s": 10.0, "requests_per_s": 100.0, "client_cpu_s": 1.0,
            "watched_cpu_s": 3.0, "latency_us": {"p50": 500, "p99": 2000, "p999": 3000, "max": 9000, "count": 7}}
    values = tools.values_of(said)
    t.equal([values[key] for key in ("cpu_s_per_gb", "client_cpu_s_per_gb", "cpu_us_per_request", "cpu_cores", "p99_ms")], [1.5, 0.5, 15000, 1.5, 2.0],
            "what a tool prints becomes our metrics")
    t.ok("p50_ms" not in tools.values_of({**said, "latency_us": {"count": 0, "p50": 0}}), "no latency without a message")
    t.equal(tools.trouble_of({"errors": 2, "first_error": "gone"}), ["2 errors, the first: gone"], "errors of a tool are trouble")
    text = ("1000 records sent, 500.0 records/sec (0.05 MB/sec), 9.0 ms avg latency, 50.0 ms max latency.\n"
            "5000 records sent, 900.5 records/sec (0.09 MB/sec), 10.5 ms avg latency, 70.0 ms max latency, 9 ms 50th, 20 ms 95th, 30 ms 99th, 40 ms 99.9th.\n")
    t.equal(tools.perf_produced(text, 100), {"msgs_per_s": 900.5, "mb_per_s": 0.09005, "p50_ms": 9.0, "p99_ms": 30.0, "bytes": 500000},
            "kafka-producer-perf-test")
    text = ("start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, fetch.time.ms, fetch.MB.sec, "
            "fetch.nMsg.sec\n2026-01-01 00:00:00:000, 2026-01-01 00:00:02:000, 95.3, 47.6, 1000, 500.0, 300, 1700, 56.0, 588.2\n")
    t.equal(tools.perf_consumed(text, 1000), {"msgs_per_s": 588.2, "mb_per_s": 0.5882, "bytes": 1000000}, "kafka-consumer-perf-test")
    with t.case("a tool that says nothing is told"):
        try:
            tools.perf_produced("java: no\n", 100)
            raise AssertionError("it was not")
        except tools.ToolFailed as error:
            assert "java: no" in str(error)
    log = ("[x] INFO [RaftManager id=1] Completed transition to FollowerState(fetchTimeoutMs=2000, epoch=3, leader=2) from null (QuorumState)\n"
           "[x] INFO [RaftManager id=1] Completed transition to Leader(localReplicaNode=1, epoch=4, epochStartOffset=9) from Candidate (QuorumState)\n")
    t.equal(apache_kafka.reason_of("a\n[x] ERROR Exiting Kafka due to fatal exception (Kafka$)\norg.x.KafkaException: Socket server failed: Address already in use\n  at x\n"),
            "org.x.KafkaException: Socket server failed: Address already in use", "why Kafka ended stands in its log")
    t.equal([apache_kafka.quorum_role(log), apache_kafka.quorum_role("")], [("Leader", 4), (None, -1)], "who leads Kafka's quorum stands in its log")


def report(t):
    scenario = BY_NAME["produce-1000"]
    cells = {"brokerd": [sample(n, mb_per_s=390 + n, cpu_s_per_gb=1.0) for n in (1, 2, 3)],
             "kafka": [sample(n, mb_per_s=300 + n, cpu_s_per_gb=2.4) for n in (1, 2, 3)],
             "kafka-flush": [sample(1, mb_per_s=100, cpu_s_per_gb=3.0), sample(2, ["it fell"]), sample(3, mb_per_s=110, cpu_s_per_gb=3.0)]}
    skipped = result_of(BY_NAME["replay-1mb"], {"brokerd": []})
    skipped["skipped"] = "it needs 7 GB and 3 are free"
    grown = result_of(BY_NAME["growth-connections"], {"brokerd": [sample(n, size=size, memory_mib=12 + size / 1024, p50_ms=0.5, idle_cores=0, cpu_us_per_request=9)
                                                                 for n, size in enumerate((100, 1000, 10000))]})
    latency = result_of(BY_NAME["latency-1000"], {"brokerd": [sample(1, msgs_per_s=1000, p99_ms=2, p50_ms=0.5, kept_up=1)]}, pairs=1)
    whole = results(result_of(scenario, cells), skipped, latency, grown)
    text = markdown.render(whole, [("Throughput", "throughput.svg")])
    row = next(line for line in text.splitlines() if line.startswith("| librdkafka, one producer, 1,000 B"))
    t.equal(row, "| librdkafka, one producer, 1,000 B (throughput MB/s; broker CPU s/GB) | 392; 1.00 | 302; 2.40 | 105; 3.00 † | 2 of 5, 2 not measured |",
            "a row of the first table: medians, what is not clean, how many goals are met")
    t.ok("brokerd (fsync): throughput ≥ 1 × Kafka, no fsync | 1.30 met" in text, "a goal that is met")
    t.ok("broker CPU ≤ 0.4 × Kafka, no fsync | 0.42 **not met**" in text, "a goal that is not met")
    t.ok("| throughput, MB/s | 392 (391–393) | 302 (301–303) | 105 (100–110) |" in text, "lowest and highest run")
    t.ok("| throughput | 1.30 (1.30–1.30) | 3.74 (3.57–3.91) |" in text, "ratios, of the rounds that both have")
    t.ok("Not clean †, Kafka, flush.messages=1: 2 of 3 runs; it fell." in text, "why something is not clean")
    t.ok("Not measured: it needs 7 GB and 3 are free" in text, "what was not measured is not left out")
    t.ok("- one more of connections: resident memory 1.00 KiB" in text, "what one more costs")
    t.ok("no other process took more than 5 % of a core" in text and "a note" in text, "what else ran")
    t.equal(markdown.ratio_text({"median": 0.0031, "low": 0.002, "high": 0.004, "n": 3}), "0.0031 (0.0020–0.0040)", "a small ratio is a number, too")
    whole["status"] = "interrupted (SIGINT)"
    t.ok("**interrupted (SIGINT)**" in markdown.render(whole), "an interrupted run says so")
    drawn = plots.all_plots(whole)
    t.equal(sorted(drawn), ["cpu-a-gb.svg", "growth-connections-cpu_us_per_request.svg", "growth-connections-idle_cores.svg",
                            "growth-connections-memory_mib.svg", "growth-connections-p50_ms.svg", "latency.svg", "throughput-latency.svg", "throughput.svg"],
            "its plots")
    with t.case("plots are well-formed, and an empty number is a gap"):
        for _, plot in drawn.values():
            xml.dom.minidom.parseString(plot)
        gap = svg.bars("a < b", "MB/s", ["x", "y"], {"brokerd": [1.0, None], "R&D": [None, 2.0]})
        assert xml.dom.minidom.parseString(gap) and gap.count("<rect") == 1 + 2 + 2, gap.count("<rect")
    several(t)
    unreached(t)
    t.equal([svg.linear_ticks(7.3), svg.linear_ticks(0), svg.log_ticks(0.3, 40)], [[0, 2, 4, 6, 8], [0, 1], [0.1, 1.0, 10.0, 100.0]], "ticks are round")


def several(t):
    """More groups than fit, and metrics of one unit in one plot."""
    many = [result_of(s, {"brokerd": [sample(1, mb_per_s=5, cpu_s_per_gb=1)]}) for s in SCENARIOS if "mb_per_s" in s.metrics]
    drawn = plots.all_plots(results(*many))
    text = drawn["throughput.svg"][1] + drawn["throughput-2.svg"][1]
    shown = sum(f">{row['short']}<" in text for row in many)
    t.equal([len(many) > plots.MOST_GROUPS, shown, drawn["throughput-2.svg"][0]], [True, len(many), "Throughput, MB/s (2 of 2)"],
            "what does not fit into a plot is in the next one")
    lives = [result_of(BY_NAME["partitions-10000"], {"kafka": [sample(1, start_s=9, recover_s=20, stop_s=3, memory_mib=900, helper_mib=0)]}),
             result_of(BY_NAME["failover"], {"kafka": [sample(1, stall_s=9)]})]
    text = plots.all_plots(results(*lives))["times.svg"][1]
    t.equal([text.count(f">{name}<") for name in ("10,000 partitions: start", "10,000 partitions: recover", "10,000 partitions: stop", "failover")],
            [1, 1, 1, 1], "starts, stops and failovers have a plot")


def unreached(t):
    """Columns and sizes that could not be measured have their row and their reason."""
    life = result_of(BY_NAME["partitions-10000"], {"brokerd": [sample(1, start_s=1, recover_s=2, stop_s=1, memory_mib=20, helper_mib=9)],
                                                   "kafka": [sample(0, ["Apache Kafka: 10000 partitions: not within 600 s"])]}, pairs=1)
    grown = result_of(BY_NAME["growth-partitions"], {"brokerd": [sample(1, size=100, memory_mib=12, p50_ms=1, idle_cores=0, cpu_us_per_request=9, helper_mib=1)],
                                                     "kafka": [sample(1, size=100, memory_mib=400, p50_ms=1, idle_cores=0, cpu_us_per_request=90),
                                                               sample(2, ["Apache Kafka: 900 partitions: not within 600 s"])]})
    text = markdown.render(results(life, grown))
    t.ok("(start s; start after SIGKILL s) | 1.00; 2.00 | not measured † | " in text, "a column without any number is said not to be measured")
    t.ok("Not clean †, Kafka, no fsync: 0 of 1 runs; Apache Kafka: 10000 partitions: not within 600 s." in text, "and why")
    t.ok("| 10,000 | – | – | – | – | – |" in text, "a size that was not reached has its row")
    t.ok("Not measured † at 1,000, 10,000: Apache Kafka: 900 partitions: not within 600 s." in text, "and its reason")
    t.ok("Not measured † at 1,000, 10,000: the run ended before." in text, "also where the run ended")


def folders(t):
    with tempfile.TemporaryDirectory() as place:
        first, second = folder.make(place, "bench", 0), folder.make(place, "bench", 0)
        t.equal(second, first + "-2", "results of the same second have a folder each")
        with t.case("a finished run has its data, its report and its plots"):
            folder.finish(first, results(result_of(BY_NAME["produce-1000"], {"brokerd": [sample(1, mb_per_s=1, cpu_s_per_gb=1)]})))
            assert {"results.json", "report.md", "throughput.svg", "cpu-a-gb.svg"} == set(os.listdir(first)), os.listdir(first)
        s = BY_NAME["replay-1mb"]
        t.ok("needs 7 GB" in checks.unfit(s, place, 5000, free_gb=3.0, memory_gb=16), "too little disk is said")
        t.ok("needs 3 GiB of memory" in checks.unfit(s, place, 5000, free_gb=100, memory_gb=1.0), "too little memory is said")
        t.ok("ulimit -n" in checks.unfit(BY_NAME["connections-10000"], place, 1024, free_gb=100, memory_gb=16), "too few open files are said")
        t.equal(checks.unfit(s, place, 5000, free_gb=100, memory_gb=16), "", "a machine that can")


def leftovers(t):
    """A run that is killed, its watcher too: the next one ends what it left."""
    with tempfile.TemporaryDirectory() as parent:
        with t.case("what a killed run left is ended and removed by the next"):
            left = tempfile.mkdtemp(prefix=workplace.PREFIX, dir=parent)
            sleeper = subprocess.Popen(["sleep", "300"], cwd=left)
            with open(os.path.join(left, "owner"), "w", encoding="ascii") as file:
                file.write("1 0\n")     # a process that does not live any more: its start time is another one
            with workplace.Workplace(parent) as place:
                assert place.cleared == [left] and not os.path.exists(left), place.cleared
                assert sleeper.wait(5) == -9
                again = workplace.Workplace(parent)
                with again:
                    assert again.cleared == [], "a run that lives is left alone"
            assert os.listdir(parent) == [], os.listdir(parent)
        with t.case("a run that is killed is cleared by its watcher"):
            code = ("import sys, time; sys.path.insert(0, sys.argv[1])\nfrom bench.systems.workplace import Workplace\nimport subprocess\n"
                    "with Workplace(sys.argv[2]) as p:\n    child = subprocess.Popen(['sleep', '300'], cwd=p.folder)\n    print(child.pid, flush=True)\n    time.sleep(300)")
            run = subprocess.Popen([sys.executable, "-c", code, ROOT, parent], stdout=subprocess.PIPE, text=True)
            child = int(run.stdout.readline())
            run.kill()
            run.wait()
            run.stdout.close()
            from procs import wait_until
            assert wait_until(lambda: not os.listdir(parent) and usage.stat(child) is None, 20), os.listdir(parent)


def main():
    with Tap() as t:
        for part in (numbers, cleanness, goals, scenarios, programs, report, folders, leftovers):
            part(t)


if __name__ == "__main__":
    main()
