#!/usr/bin/env python3
"""libpgbroker beside librdkafka: the same load on the same broker, one after the other, several times.

    BUILD=build bench/client_compare.py [--count 2000000] [--size 100] [--partitions 6] [--rounds 3] [--json]
    BOOTSTRAP=host:port bench/client_compare.py      against that broker instead of a private brokerd

Both run with the same settings (acks, linger, batch size, compression); librdkafka is bench/load, ours is
`brokerctl bench`.  Printed: messages a second, CPU seconds a GB of values, the most memory (RSS).  The medians of the
rounds are what counts; the broker shares the machine.
"""
import argparse
import json
import os
import select
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "regress", "lib"))
BUILD = os.path.abspath(os.environ.get("BUILD") or os.path.join(ROOT, "build"))
# Each load: its name, and the settings of both.
LOADS = [
    ("acks=all", {"acks": "-1"}),
    ("acks=all lz4", {"acks": "-1", "compression.type": "lz4"}),
    ("acks=1, not idempotent", {"acks": "1", "enable.idempotence": "false"}),
    ("acks=all, linger 100", {"acks": "-1", "linger.ms": "100"}),
]
COMMON = {"linger.ms": "5"}


def high_water(pid):
    """The most memory that a process has had, in bytes; 0 once it has ended."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            return next((int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM:")), 0)
    except OSError:
        return 0


def run(command):
    """What a program printed as JSON, with its CPU seconds and most memory."""
    read, write = os.pipe()
    start = time.monotonic()
    pid = os.posix_spawn(command[0], command, {**os.environ}, file_actions=[(os.POSIX_SPAWN_DUP2, write, 1), (os.POSIX_SPAWN_CLOSE, read)])
    os.close(write)
    text, most = b"", 0
    while True:
        # Of the running program: what wait4 says of memory includes that of the Python that started it.
        most = max(most, high_water(pid))
        if select.select([read], [], [], 0.01)[0]:
            piece = os.read(read, 65536)
            text += piece
            if not piece:
                break
    os.close(read)
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)}: ended with {status}: {text}")
    answer = json.loads(text.decode().strip().splitlines()[-1])
    return {**answer, "cpu": usage.ru_utime + usage.ru_stime, "rss": most, "wall": time.monotonic() - start}


def ours(what, bootstrap, topic, count, size, settings):
    extra = [word for key, value in settings.items() for word in ("-X", f"{key}={value}")]
    command = [os.path.join(BUILD, "brokerctl"), "bench", what, topic, "-b", bootstrap, "-n", str(count), *extra]
    return run(command + (["-s", str(size)] if what == "produce" else []))


def theirs(what, bootstrap, topic, count, size, settings):
    extra = [word for key, value in settings.items() for word in ("-X", f"{key}={value}")]
    command = [os.path.join(BUILD, "bench", "load"), what, "--topic", topic, "--bootstrap", bootstrap, "--messages", str(count), *extra]
    answer = run(command + (["--size", str(size)] if what == "produce" else []))
    return {**answer, "failed": answer["errors"]}


def topic_for(bootstrap, name, partitions):
    subprocess.run([os.path.join(BUILD, "brokerctl"), "topics", "create", name, "-P", str(partitions), "-b", bootstrap],
                   check=True, stdout=subprocess.DEVNULL)


def measure(bootstrap, options):
    results = []
    for number, (name, settings) in enumerate(LOADS):
        samples = {}
        for i in range(options.rounds):
            for who, program in (("libpgbroker", ours), ("librdkafka", theirs)):
                topic = f"bench-{os.getpid()}-{number}-{i}-{who}"
                topic_for(bootstrap, topic, options.partitions)
                samples.setdefault((who, "produce"), []).append(
                    program("produce", bootstrap, topic, options.count, options.size, {**COMMON, **settings}))
                samples.setdefault((who, "consume"), []).append(program("consume", bootstrap, topic, options.count, options.size, {}))
        for (who, what), runs in samples.items():
            gigabytes = options.count * options.size / 1e9
            results.append({"load": name, "what": what, "client": who,
                            "messages_per_s": round(statistics.median(r["messages"] / r["seconds"] for r in runs)),
                            "cpu_s_per_gb": round(statistics.median(r["cpu"] for r in runs) / gigabytes, 2),
                            "rss_mb": round(statistics.median(r["rss"] for r in runs) / 1e6, 1),
                            "failed": sum(r["failed"] for r in runs)})
    return results


def show(results):
    print(f"{'load':24}{'':9}{'client':13}{'messages/s':>12}{'CPU s/GB':>10}{'RSS MB':>8}")
    for r in sorted(results, key=lambda r: (r["what"] != "produce", r["load"], r["client"])):
        print(f"{r['load']:24}{r['what']:9}{r['client']:13}{r['messages_per_s']:>12,}{r['cpu_s_per_gb']:>10}{r['rss_mb']:>8}"
              + (f"  {r['failed']} failed" if r["failed"] else ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000000)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if os.environ.get("BOOTSTRAP"):
        results = measure(os.environ["BOOTSTRAP"], options)
    else:
        from pgbroker_cluster import Cluster
        with Cluster(brokers=1) as cluster:
            results = measure(cluster.bootstrap, options)
    print(json.dumps(results, indent=1)) if options.json else show(results)


if __name__ == "__main__":
    main()
