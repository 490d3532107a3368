#!/usr/bin/env python3
"""Measures the figures of docs/performance.md on this machine, with a private cluster of one broker.

    make bench-figures                       all of them, as a table
    bench/figures.py start memory produce    some of them

start    how long brokerd takes to serve with 10,000 partitions, after a clean stop and after SIGKILL
memory   resident memory idle, and with 10,000 partitions
produce  one librdkafka producer, acks=all, fsync before the acknowledgement: messages a second, MB a second, CPU
fetch    one librdkafka consumer from the start

CPU is that of brokerd (user and system) for a GB of values.  Medians of RUNS runs.
"""
import json
import os
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "regress", "lib"))

from pgbroker_cluster import Cluster

RUNS = int(os.environ.get("RUNS", "3"))
BUILD = os.environ.get("BUILD", os.path.join(ROOT, "build"))
LOAD = os.path.join(BUILD, "bench", "load")
PARTITIONS = 10000
LOADS = {100: 5_000_000, 1000: 1_000_000}


def resident_mib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        for line in file:
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
    raise RuntimeError("no VmRSS")


def start_seconds(broker):
    """From exec until the log says that it serves."""
    after = len(broker.log_text())
    begun = time.monotonic()
    broker.start(wait=False)
    broker.wait_log(r"serves \d+ topics", seconds=120, after=after)
    return time.monotonic() - begun


def make_partitions(cluster):
    cluster.sql(f"SELECT broker.create_topic('many-' || i, partitions => 100) FROM generate_series(1, {PARTITIONS // 100}) i")
    cluster.wait(lambda: len(os.listdir(cluster.broker(1).data)) > PARTITIONS, 300, "10,000 logs")


def measure_start(rows):
    with Cluster() as cluster:
        broker = cluster.broker(1)
        make_partitions(cluster)
        clean, stop = [], []
        for _ in range(RUNS):
            begun = time.monotonic()
            broker.stop()
            stop.append(time.monotonic() - begun)
            clean.append(start_seconds(broker))
        rows.append(("stop with 10,000 partitions (SIGTERM)", f"{statistics.median(stop):.2f} s"))
        rows.append(("start with 10,000 partitions, clean stop", f"{statistics.median(clean):.2f} s"))
        killed = []
        for _ in range(RUNS):
            broker.kill()
            killed.append(start_seconds(broker))
        rows.append(("start with 10,000 partitions, after SIGKILL", f"{statistics.median(killed):.2f} s"))


def measure_memory(rows):
    with Cluster() as cluster:
        broker = cluster.broker(1)
        rows.append(("resident memory, idle", f"{resident_mib(broker.pid()):.1f} MiB"))
        make_partitions(cluster)
        rows.append(("resident memory, 10,000 partitions just made", f"{resident_mib(broker.pid()):.1f} MiB"))
        broker.stop()
        broker.start()
        rows.append(("resident memory, 10,000 partitions after a start", f"{resident_mib(broker.pid()):.1f} MiB"))


def run_load(cluster, what, topic, size, settings):
    extra = [word for setting in settings for word in ("-X", setting)]
    command = [LOAD, what, "--bootstrap", cluster.bootstrap, "--topic", topic, "--messages", str(LOADS[size]),
               "--watch", str(cluster.broker(1).pid()), *extra]
    if what == "produce":
        command += ["--size", str(size)]
    result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    result["cpu"] = result["watched_cpu_s"] / (result["bytes"] / 1e9)
    return result


def measure_load(rows, what, settings):
    for size in LOADS:
        results = []
        with Cluster() as cluster:
            for i in range(RUNS):
                topic = f"load-{i}"
                cluster.sql(f"SELECT broker.create_topic('{topic}')")
                cluster.wait_sql(f"SELECT leader FROM broker.partitions WHERE topic = '{topic}'", [("1",)])
                if what == "consume":
                    run_load(cluster, "produce", topic, size, ["acks=1", "linger.ms=5"])
                results.append(run_load(cluster, what, topic, size, settings))
        rate = statistics.median(r["messages"] / r["seconds"] for r in results)
        cpu = statistics.median(r["cpu"] for r in results)
        rows.append((f"{what} {size} B, one librdkafka client", f"{rate:,.0f} msg/s, {rate * size / 1e6:.0f} MB/s, "
                     f"{cpu:.2f} broker CPU s a GB"))


MEASURES = {
    "start": measure_start,
    "memory": measure_memory,
    "produce": lambda rows: measure_load(rows, "produce", ["acks=all", "linger.ms=5"]),
    "fetch": lambda rows: measure_load(rows, "consume", ["fetch.message.max.bytes=1048576"]),
}


def main(argv):
    unknown = [name for name in argv if name not in MEASURES]
    if unknown:
        sys.exit(f"unknown: {', '.join(unknown)}; there are {', '.join(MEASURES)}")
    rows = []
    for name in argv or MEASURES:
        MEASURES[name](rows)
    print("| figure | median |\n|-|-|")
    for name, value in rows:
        print(f"| {name} | {value} |")


if __name__ == "__main__":
    main(sys.argv[1:])
