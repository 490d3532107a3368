#!/usr/bin/env python3
"""`make bench` when a system is slow or fails: the other one is measured all the same, and the report says why.

Systems and tools are stand-ins here; what happens to their errors is real.
"""
import contextlib
import os
import subprocess
import sys
import tempfile
from types import SimpleNamespace

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.dont_write_bytecode = True
sys.path[:0] = [ROOT, os.path.join(ROOT, "regress", "lib"), os.path.join(ROOT, "docker", "local")]

from bench import run as entry
from bench.report import markdown
from bench.scenarios import lifecycle, measures, runner, tools
from bench.scenarios.columns import COLUMNS
from bench.scenarios.registry import MEASURES, Measure
from bench.scenarios.table import BY_NAME
from bench.systems import apache_kafka
from bench.systems import fleet as fleets
from bench.systems.system import NotServing
from tap import Tap


class FakeSystem:
    kind = title = "brokerd"
    fails_to_start = False

    def __init__(self, folder, nodes=1):
        self.folder, self.nodes, self.stopped, self.topics = folder, nodes, False, []
        self.filled = {}

    def start(self):
        if self.fails_to_start:
            raise NotServing("no\nanswer")
        return self

    def stop(self):
        self.stopped = True

    def create_topic(self, name, *_, **__):
        self.topics.append(name)

    def delete_topics(self, names):
        self.topics = [name for name in self.topics if name not in names]

    def has_remains(self):
        return False

    def helper_pids(self):
        return []

    def helper_cpu_seconds(self):
        return 0.0

    def version(self):
        return "1"

    def settings(self):
        return {}


class FakeKafka(FakeSystem):
    kind, title = "kafka", "Apache Kafka"


class Broken(FakeKafka):
    fails_to_start = True


class FakeTools:
    """What was asked for, and an answer of it."""

    def __init__(self, **answer):
        self.asked, self.answer = [], {"messages": 0, **answer}

    def load(self, mode, system, topic, **options):
        self.asked.append((mode, system.kind, options))
        return dict(self.answer)

    replay = load


@contextlib.contextmanager
def fleet_of(kafka, warm_up, kinds=("brokerd", "kafka")):
    """(fleet, place, lines that it told)"""
    kept, fleets.CLASSES = fleets.CLASSES, {"brokerd": FakeSystem, "kafka": kafka}
    told = []
    with tempfile.TemporaryDirectory() as folder:
        place = SimpleNamespace(folder=folder, subfolder=lambda name: os.path.join(folder, name))
        try:
            yield fleets.Fleet(place, list(kinds), told.append, warm_up, runner.FAILURES), place, told
        finally:
            fleets.CLASSES = kept


def run_scenario(name, fleet, place, measure, pairs=2):
    """The row of results of a scenario whose measure is ours."""
    scenario = BY_NAME[name]
    setup = SimpleNamespace(place=place, tools=FakeTools(), disk=SimpleNamespace(settle=lambda systems: ""), fleet=fleet, kinds=fleet.kinds,
                            pairs=pairs, seconds=0.1, null=None)
    results = {"began": "2026-01-02 03:04", "status": "complete", "command": "bench/run.py", "pairs": pairs, "seconds": 1.0, "machine": {}, "systems": {},
               "notes": [], "scenarios": []}
    kept, MEASURES[scenario.measure] = MEASURES[scenario.measure], measure
    kept_save, runner.results_folder = runner.results_folder, SimpleNamespace(save=lambda *_: None)
    try:
        runner.Runner(setup, results, place.folder, lambda _: None).run([scenario], {})
    finally:
        MEASURES[scenario.measure] = kept
        runner.results_folder = kept_save
    return results


def good(_run):
    return {"mb_per_s": 100.0, "cpu_s_per_gb": 1.0}


def a_system_that_does_not_start(t):
    with fleet_of(Broken, lambda system: None) as (fleet, place, told):
        results = run_scenario("rf3-100", fleet, place, Measure(good, warm=False))
        cells = results["scenarios"][0]["cells"]
        t.equal([len([s for s in cells[key] if s["values"]]) for key in ("brokerd", "brokerd-relaxed", "kafka", "kafka-flush")], [2, 2, 0, 0],
                "what has started is measured")
        text = markdown.render(results)
        t.ok("Not clean †, Kafka, no fsync: 0 of 2 runs; Apache Kafka with 3 nodes did not start: no answer." in text, "why the other one is not stands in the report")
        t.ok(any("did not start" in line for line in told), "and is told at once")
        fleet.stop()
        t.equal(fleet.missing, {}, "the next set of nodes is tried anew")


def a_system_that_is_slow(t):
    def warm_up(system):
        if system.kind == "kafka":
            raise tools.ToolFailed("load did not end within 60 s")

    with fleet_of(FakeKafka, warm_up) as (fleet, place, _):
        results = run_scenario("rf3-100", fleet, place, Measure(good, warm=False))
        t.equal([len([s for s in cell if s["values"]]) for cell in results["scenarios"][0]["cells"].values()], [2, 2, 2, 2],
                "a warm-up that does not end in time costs nothing but itself")
        t.ok("the warm-up of Apache Kafka with 3 nodes ended early: load did not end within 60 s" in markdown.render(results), "the report has it")
    given = FakeTools(messages=700)
    system = FakeSystem("x", 3)
    entry.warm_up(given, 1.0)(system)
    t.equal([(mode, options.get("messages")) for mode, _, options in given.asked], [("produce", None)] * 3 + [("consume", 2100)],
            "a warm-up reads what it has written, however little that is")
    t.equal(system.topics, [], "and leaves no topic")
    given = FakeTools(messages=700_000)
    entry.warm_up(given, 1.0)(FakeSystem("x"))
    t.equal(given.asked[-1][2]["messages"], entry.READ_AT_MOST, "and not more than is of use")


def what_cannot_be_cleared_up(t):
    def finish(_run):
        raise ConnectionRefusedError(111, "Connection refused")

    with fleet_of(FakeKafka, lambda system: None) as (fleet, place, _):
        results = run_scenario("rf3-100", fleet, place, Measure(good, finish=finish, warm=False))
        t.equal([len(cell) for cell in results["scenarios"][0]["cells"].values()], [2, 2, 2, 2], "what was measured stays when its topics cannot be removed")
        t.equal([fleet.nodes, fleet.up, results["notes"]], [0, {}, []], "the next scenario begins with new processes")


def a_node_that_does_not_come_back(t):
    system = SimpleNamespace(title="Apache Kafka", is_serving=lambda node: False)
    kept, lifecycle.BACK_SECONDS = lifecycle.BACK_SECONDS, 0.01
    try:
        run = SimpleNamespace(system=system, topic="t", trouble=[], setting=lambda name, default=None: default)
        lifecycle.come_back(run, 2)
    finally:
        lifecycle.BACK_SECONDS = kept
    t.equal(run.trouble, ["after it, Apache Kafka: node 2 is back: not within 0.01 s"], "a stall that was measured counts though the node is not back")


def a_recovery_that_takes_too_long(t):
    done = []
    system = SimpleNamespace(title="Apache Kafka", kill_node=lambda node: done.append("kill"), stop_node=lambda node: done.append("stop"))
    run = SimpleNamespace(system=system, trouble=[], kept={"last": ("many-1", 1)})
    seconds = iter([63.0, NotServing("Apache Kafka: node 1 after its start: not within 600 s")])

    def until(*_):
        took = next(seconds)
        if isinstance(took, Exception):
            raise took
        return took

    kept = lifecycle.seconds_until, lifecycle.idle
    lifecycle.seconds_until, lifecycle.idle = until, lambda *_: {"memory_mib": 900}
    try:
        t.equal([lifecycle.partitions(run), run.trouble], [{"start_s": 63.0, "memory_mib": 900}, ["after SIGKILL, Apache Kafka: node 1 after its start: not within 600 s"]],
                "a start that was measured counts when the recovery after it takes too long")
    finally:
        lifecycle.seconds_until, lifecycle.idle = kept
    t.equal(done, ["kill", "kill"], "and the next round begins with a node that is down")


def a_node_that_does_not_stop(t):
    kafka = apache_kafka.ApacheKafka("x")
    for node, command in ((1, "trap '' TERM; echo up; while :; do sleep 0.1; done"), (2, "echo up; exec sleep 300")):
        kafka.processes[node] = subprocess.Popen(["sh", "-c", command], stdout=subprocess.PIPE, text=True)
        kafka.processes[node].stdout.readline()
    both = list(kafka.processes.values())
    with t.case("a stop that has to be enforced is not taken for a clean one"):
        try:
            kafka.stop_node(1, seconds=0.1)
            raise AssertionError("it was")
        except NotServing as error:
            assert str(error) == "Apache Kafka: node 1 had not stopped 0.1 s after SIGTERM", error
    kafka.stop_node(2)
    t.equal([process.returncode for process in both], [-9, -15], "what ends by itself is left to it")
    for process in both:
        process.stdout.close()


def what_tools_are_asked(t):
    given = FakeTools(bytes=10**9, seconds=1.0, client_cpu_s=0.5, mb_per_s=1000.0, msgs_per_s=1000.0)
    run = measures.Run(BY_NAME["drain-4"], COLUMNS["brokerd"], FakeSystem("x"), given, None, None, 1.0, kept={"topic": "read"})
    measures.drain(run)
    t.equal([given.asked[0][2][key] for key in ("connections", "copy")], [4, True], "a drain reads what it fetches into memory")
    late = FakeTools(errors=5, first_error=tools.TIMED_OUT, bytes=100, seconds=1.0, client_cpu_s=0.1, msgs_per_s=300.0)
    run = measures.Run(BY_NAME["rf3-latency"], COLUMNS["kafka"], FakeKafka("x", 3), late, None, None, 2.0, topic="t")
    t.equal(measures.latency(run)["kept_up"], 0.3, "a rate that was not kept is a number")
    t.equal([late.asked[0][2]["drain"], run.trouble], [measures.PATIENCE, ["fell behind: 20 s after the last message was due some had no answer, and are in no percentile"]],
            "it is not waited for without end, and why the cell is not clean is said")
    t.equal(tools.trouble_of({"errors": 1, "first_error": "Broker: gone"}, 20), ["1 errors, the first: Broker: gone"], "other errors are what they are")
    t.equal([tools.trouble_of({"errors": 0, "unsent": 9}, 20) != [], tools.trouble_of({"errors": 0, "unsent": 0}, 20)], [True, []],
            "what was due and could not even be sent is behind, too")


def main():
    with Tap() as t:
        for part in (a_system_that_does_not_start, a_system_that_is_slow, what_cannot_be_cleared_up, a_node_that_does_not_come_back, a_recovery_that_takes_too_long,
                     a_node_that_does_not_stop, what_tools_are_asked):
            part(t)


if __name__ == "__main__":
    main()
