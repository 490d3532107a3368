"""Runs scenarios: the columns one after the other, round by round, and notes what was seen of each run.

A run that fails is a sample without values that says why; a column that fails twice in a row is left for the rest of
its scenario, so that one broken thing does not cost the time of all.
"""
import fnmatch
import os
import time

from kafka_client import KafkaError
from pgbroker_cluster import SqlError, Trouble

from bench.report import folder as results_folder
from bench.scenarios.columns import CEILING, COLUMNS
from bench.scenarios.measures import Run
from bench.scenarios.registry import MEASURES
from bench.scenarios.tools import ToolFailed
from bench.systems import usage
from bench.systems.null import Null
from bench.systems.system import NotServing

FAILURES = (ToolFailed, NotServing, KafkaError, SqlError, Trouble, RuntimeError, OSError, AssertionError, KeyError)
WITH_CEILING = ("produce", "latency", "latency_one", "replay", "consume", "drain")
OTHERS_BOUND = 0.15  # of a core, all others together
MOST_FAILURES = 2


def choose(scenarios, profile, patterns):
    """Those of a profile, or of all whose names match a pattern; in the table's order."""
    if not patterns:
        return [s for s in scenarios if profile in s.profiles]
    return [s for s in scenarios if any(fnmatch.fnmatchcase(s.name, pattern) for pattern in patterns)]


def pairs_of(scenario, pairs):
    return min(pairs, scenario.most_pairs) if scenario.most_pairs else pairs


def seconds_of(scenario, seconds):
    """A scenario with a time of its own keeps at least that: it is what its percentiles need."""
    return max(scenario.seconds or 0, seconds)


def foreign_load(busy):
    """What is said of a run beside which others worked; '' when they hardly did."""
    total = sum(share for share, _ in busy)
    if total < OTHERS_BOUND:
        return ""
    names = ", ".join(sorted({name for _, name in busy}))
    return f"other processes were busy ({names})"


class Runner:
    def __init__(self, setup, results, folder, tell):
        """setup: has place, tools, disk, fleet, kinds, null (program or None), pairs, seconds"""
        self.setup, self.results, self.folder, self.tell = setup, results, folder, tell

    def run(self, scenarios, unfit):
        """unfit: {name: why} of those that this machine cannot do."""
        for number, scenario in enumerate(scenarios, 1):
            row = scenario.as_dict()
            row["columns"] = self.columns_of(scenario)
            self.results["scenarios"].append(row)
            if scenario.name in unfit or not row["columns"]:
                row["skipped"] = unfit.get(scenario.name) or f"none of the systems that it measures was asked for ({', '.join(self.setup.kinds)})"
                continue
            self.tell(f"[{number}/{len(scenarios)}] {scenario.name}: {scenario.title}")
            self.guarded(scenario, row)
            self.note_systems()
            results_folder.save(self.folder, self.results)

    def guarded(self, scenario, row):
        try:
            One(self.setup, scenario, row, self.tell).run()
        except FAILURES as error:
            if any(row["cells"].values()):
                self.results["notes"].append(f"{scenario.name} ended early: {one_line(error)}")
            else:
                row["skipped"] = one_line(error)
            self.tell(f"    {scenario.name} ended: {one_line(error)}")
            self.setup.fleet.stop()  # whatever state they are in, the next scenario begins with new ones

    def note_systems(self):
        fleet = self.setup.fleet
        self.results["systems"] = fleet.known
        self.results["notes"] += fleet.notes
        fleet.notes = []

    def columns_of(self, scenario):
        ceiling = CEILING if self.setup.null and scenario.measure in WITH_CEILING and scenario.nodes == 1 else ()
        return [key for key in (*scenario.columns, *ceiling) if COLUMNS[key].kind in (*self.setup.kinds, "null")]


def one_line(error):
    return " ".join(str(error).split())[:300] or type(error).__name__


class One:
    """One scenario from its preparation to its end."""

    def __init__(self, setup, scenario, row, tell):
        self.setup, self.scenario, self.row, self.tell = setup, scenario, row, tell
        self.how = MEASURES[scenario.measure]
        self.runs = {}
        self.failures = {}
        row["pairs"] = pairs_of(scenario, setup.pairs)

    def run(self):
        try:
            self.prepare()
            if self.scenario.sizes:
                self.grow()
            else:
                if self.how.warm:
                    self.warm_up()
                self.rounds()
            self.finish()
        finally:
            self.end()
            self.forget_warm_up()

    def finish(self):
        """What cannot be cleared away any more must not cost what was measured: the next scenario begins with new processes."""
        for run in self.live():
            try:
                self.how.finish(run)
            except FAILURES as error:
                self.tell(f"    {run.system.title} could not be cleared up: {one_line(error)}; stopping it")
                self.setup.fleet.stop()
                return

    def forget_warm_up(self):
        """A warm-up that failed is told only where nothing was measured after it."""
        for key, samples in self.row["cells"].items():
            if any(sample["values"] for sample in samples):
                self.row["cells"][key] = [sample for sample in samples if sample["round"] > 0]

    def live(self):
        return [run for key, run in self.runs.items() if self.failures.get(key, 0) < MOST_FAILURES]

    # -- its systems

    def prepare(self):
        if not self.how.fresh:
            self.setup.fleet.ensure(self.scenario.nodes)
        for key in self.row["columns"]:
            self.row["cells"][key] = []
        if self.how.fresh and self.scenario.sizes:
            return  # one after the other: each is alone on the machine
        for key in self.row["columns"]:
            self.prepare_column(key)

    def prepare_column(self, key):
        try:
            self.runs[key] = self.make_run(COLUMNS[key])
            self.how.prepare(self.runs[key])
        except FAILURES as error:
            self.failed(key, 0, error)
            self.failures[key] = MOST_FAILURES

    def make_run(self, column):
        if column.kind == "null":
            system = Null(self.setup.place.folder, self.setup.null, column.mode, self.scenario.partitions).start()
        elif self.how.fresh:
            system = self.setup.fleet.fresh(column.kind, self.scenario.nodes)
        else:
            system = self.setup.fleet.of(column.kind)
        return Run(self.scenario, column, system, self.setup.tools, self.setup.disk, self.setup.fleet,
                   seconds_of(self.scenario, self.setup.seconds))

    def end(self):
        for run in self.runs.values():
            if run.column.kind == "null":
                run.system.stop()
            elif self.how.fresh:
                self.setup.fleet.discard(run.system)

    # -- its runs

    def warm_up(self):
        """Once for each system: it is the system that has to see the work, not its column."""
        seen = set()
        for run in self.live():
            if run.system in seen or run.column.kind == "null":
                continue
            seen.add(run.system)
            before, run.seconds = run.seconds, min(run.seconds, 1.0)
            run.topic = f"{self.scenario.name}-{run.column.key}-warm"
            try:
                self.how.measure(run)
            except FAILURES as error:
                self.failed(run.column.key, 0, error)
            run.trouble.clear()
            run.seconds = before
            self.clean(run)

    def rounds(self):
        for number in range(1, self.row["pairs"] + 1):
            for run in self.live():
                run.topic = f"{self.scenario.name}-{run.column.key}-{number}"
                self.sample(run, number, lambda r=run: self.how.measure(r))
                self.clean(run)

    def grow(self):
        """Column by column, since each system is alone; a size is one sample."""
        self.row["pairs"] = 1
        for key in self.row["columns"]:
            self.prepare_column(key)
            for number, size in enumerate(self.scenario.sizes, 1):
                if self.failures.get(key, 0):
                    break
                self.sample(self.runs[key], number, lambda n=size, r=self.runs[key]: {"size": n, **self.how.measure(r, n)})
            if key in self.runs:
                self.setup.fleet.discard(self.runs.pop(key).system)

    def sample(self, run, number, work):
        said = self.setup.disk.settle([r.system for r in self.runs.values()])
        load = os.getloadavg()[0]
        run.trouble = [said] if said else []
        try:
            with usage.Others(self.setup.place.folder) as others:
                begun = time.time()
                values = work()
        except FAILURES as error:
            self.failed(run.column.key, number, error)
            return
        busy = foreign_load(others.busy)
        self.failures[run.column.key] = 0
        self.row["cells"][run.column.key].append({
            "round": number, "at": round(begun, 1), "values": {name: round(value, 6) for name, value in values.items()},
            "trouble": run.trouble + ([busy] if busy else []), "load": round(load, 2), "others": others.busy, "kernel": others.kernel})
        shown = ", ".join(f"{name} {value:.3g}" for name, value in values.items() if name in self.row["metrics"][:3])
        self.tell(f"    {number} {run.column.key:<16} {shown}{' (' + '; '.join(run.trouble) + ')' if run.trouble else ''}")

    def failed(self, key, number, error):
        self.failures[key] = self.failures.get(key, 0) + 1
        self.row["cells"][key].append({"round": number, "values": {}, "trouble": [one_line(error)], "load": round(os.getloadavg()[0], 2), "others": []})
        self.tell(f"    {number} {key:<16} failed: {one_line(error)}")

    def clean(self, run):
        """The run's topics go, so that the disk holds one run at a time."""
        if run.column.kind == "null":
            if not run.kept.get("topic"):
                run.system.stop()
                run.system.start()
        elif not self.how.fresh:
            try:
                run.system.delete_topics([run.topic])
            except FAILURES as error:
                self.setup.fleet.tell(f"    {run.topic} was not deleted: {one_line(error)}")
