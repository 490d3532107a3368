"""How each scenario is measured: one function a run, from a Run to a Sample's values.

    prepare(run)    once for each column, before the warm-up: topics that are read, files that are replayed
    measure(run)    one run; {metric: number}; says what went wrong in run.trouble
    finish(run)     once for each column at the end

Starts, failovers and growth are in lifecycle.py and growth.py.
"""
import os
import time
from dataclasses import dataclass, field

from bench.scenarios.tools import perf_consumed, perf_produced, trouble_of, values_of
from bench.systems import disk as disks


PATIENCE = 20  # seconds after the last message was due; who needs longer has fallen behind, and by how much is no use to anybody


@dataclass
class Run:
    """One column of one scenario, and what it is measured with."""
    scenario: object
    column: object
    system: object
    tools: object
    disk: object
    fleet: object
    seconds: float
    warmup: float = 0.3
    topic: str = ""
    kept: dict = field(default_factory=dict)  # from prepare to finish
    trouble: list = field(default_factory=list)

    def setting(self, name, default=None):
        return self.scenario.settings.get(name, default)

    def make_topic(self, name=None, **options):
        self.system.create_topic(name or self.topic, self.scenario.partitions, min(3, self.scenario.nodes), self.column.topic, **options)

    def note(self, result, waited=None):
        """The values of a tool's object; its errors become the run's trouble.  `waited`: see trouble_of()."""
        self.trouble += trouble_of(result, waited)
        return values_of(result)

    def with_helpers(self, work):
        """work() with the CPU of PostgreSQL meanwhile, in cores, where the system has one."""
        before, begun = self.system.helper_cpu_seconds(), time.monotonic()
        values = work()
        if self.system.helper_pids():
            values["helper_cores"] = (self.system.helper_cpu_seconds() - before) / (time.monotonic() - begun)
        return values


def load_options(run, **more):
    options = {"size": run.setting("size"), "acks": run.setting("acks", "all"), "linger": run.setting("linger", 5),
               "compression": run.setting("compression"), "producers": run.setting("producers", 1), "rate": run.setting("rate"), **more}
    return options


def produce(run, waited=None):
    run.make_topic()
    return run.with_helpers(lambda: run.note(run.tools.load("produce", run.system, run.topic, seconds=run.seconds, warmup=run.warmup, drain=waited,
                                                            **load_options(run)), waited))


def latency(run):
    """An open loop: what the system does not take in time waits, and waiting counts."""
    values = produce(run, PATIENCE)
    values["kept_up"] = values["msgs_per_s"] / run.setting("rate")
    return values


def latency_one(run):
    """One request of one record after the other, by replay: a client that costs nothing itself."""
    run.make_topic()
    result = run.tools.replay("produce", run.system, run.topic, seconds=run.seconds, warmup=run.warmup, file=run.kept["batches"],
                              connections=1, window=1)
    return run.note(result)


# -- replayed batches

def records_of(batch, size):
    """How many records make a batch of about so many bytes; a record is its value and some ten bytes more."""
    return max(1, batch // (size + 11))


def make_batches(run):
    batch, size, compression = run.setting("batch", 1), run.setting("size"), run.setting("compression", "none")
    path = os.path.join(run.tools.folder, f"batches-{batch}-{size}-{compression}")
    if not os.path.exists(path):
        made = path + ".new"
        run.tools.make_batches(made, records=records_of(batch, size), size=size, compression=compression, payload="json",
                               count=max(4, min(2000, 64_000_000 // max(batch, 200))))
        os.rename(made, path)
    run.kept["batches"] = path


def replay(run):
    run.make_topic()
    result = run.tools.replay("produce", run.system, run.topic, seconds=run.seconds, warmup=run.warmup, file=run.kept["batches"],
                              connections=run.setting("connections"), acks="all")
    return run.note(result)


# -- reading

def fill(run):
    """A topic to read, written once for all scenarios of its kind; it is on the disk before anybody reads."""
    size, megabytes = run.setting("size"), run.setting("fill_mb")
    if (size, megabytes) not in run.system.filled:
        run.system.filled[size, megabytes] = write_what_is_read(run, f"read-{size}-{megabytes}", size, megabytes)
    run.kept["topic"], run.kept["messages"] = run.system.filled[size, megabytes]


def write_what_is_read(run, topic, size, megabytes):
    run.system.create_topic(topic, run.scenario.partitions, min(3, run.scenario.nodes))
    result = run.tools.load("produce", run.system, topic, size=size, acks="1", linger=5, messages=megabytes * 1_000_000 // size,
                            watch=False, allowed=180)
    if trouble_of(result):
        raise RuntimeError(f"the topic could not be filled: {trouble_of(result)[0]}")
    os.sync()
    return topic, result["messages"]


def consume(run):
    return run.note(run.tools.load("consume", run.system, run.kept["topic"], consumers=run.setting("consumers", 1), allowed=120))


def drain(run):
    """Again and again from the start, for as long as a run takes: once is over too soon.

    Records are read into memory, as every consumer has to, though only the headers are looked at.
    """
    return run.note(run.tools.replay("drain", run.system, run.kept["topic"], connections=run.setting("connections"), seconds=run.seconds,
                                     warmup=run.warmup, copy=True))


def follow(run):
    run.make_topic()
    result = run.tools.load("end-to-end", run.system, run.topic, seconds=run.seconds, warmup=run.warmup, consumers=1, **load_options(run))
    values = run.note(result)
    values["kept_up"] = values["msgs_per_s"] / run.setting("rate")
    return values


def cold_read(run):
    """The reader and a producer of another topic side by side; the reader's pages are dropped before."""
    run.make_topic()
    disks.drop_from_cache(run.system.segments(run.kept["topic"]))
    beside = run.tools.start("load", "produce", run.system, run.topic, seconds=600, watch=False, size=100, acks="all", linger=0, rate=run.setting("rate"))
    try:
        time.sleep(0.3)
        values = run.note(run.tools.load("consume", run.system, run.kept["topic"], allowed=120))
        beside.process.terminate()
        values["producer_p99_ms"] = values_of(beside.wait())["p99_ms"]
    finally:
        beside.stop()
    return values


def commit(run):
    run.make_topic()
    result = run.tools.load("commit", run.system, run.topic, seconds=run.seconds, warmup=run.warmup, groups=run.setting("members"))
    values = run.note(result)
    values["commits_per_s"] = values["msgs_per_s"]
    return values


# -- Kafka's own tools

def with_cpu(run, work):
    """work() -> values with "bytes"; the system's CPU a GB meanwhile, the tool's own start included."""
    before = run.system.cpu_seconds()
    values = work()
    values["cpu_s_per_gb"] = (run.system.cpu_seconds() - before) / (values.pop("bytes") / 1e9)
    return values


def perf_produce(run):
    run.make_topic()
    size = run.setting("size")
    count = int(run.seconds * 3 * 100_000_000 / size)
    return with_cpu(run, lambda: perf_produced(run.tools.java(
        run.kept["java"], "org.apache.kafka.tools.ProducerPerformance", "--topic", run.topic, "--num-records", str(count), "--record-size", str(size),
        "--throughput", "-1", "--producer-props", f"bootstrap.servers={run.system.bootstrap}", f"acks={run.setting('acks')}"), size))


def perf_consume(run):
    size = run.setting("size")
    return with_cpu(run, lambda: perf_consumed(run.tools.java(
        run.kept["java"], "org.apache.kafka.tools.ConsumerPerformance", "--bootstrap-server", run.system.bootstrap, "--topic", run.kept["topic"],
        "--messages", str(run.kept["messages"]), "--timeout", "30000"), size))


def perf_prepare(run):
    from bench.systems.apache_kafka import ApacheKafka
    import kafka
    run.kept["java"] = ApacheKafka(run.tools.folder)
    run.kept["java"].classpath = kafka.classpath()


def perf_fill(run):
    perf_prepare(run)
    fill(run)
