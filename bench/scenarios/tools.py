"""The programs that put a system under load: their command lines, and what they print as numbers of our metrics.

bench/load (librdkafka) and bench/replay (bare requests) print one JSON object each; Kafka's own perf tools print
text.  Everything runs in the run's folder, so that nothing outlives it.
"""
import json
import os
import re
import subprocess

TIMED_OUT = "Local: Timed out"  # what librdkafka calls it
KEPT_BACK = 45  # seconds that a tool may take longer than it measures: it waits for the last answers


class ToolFailed(Exception):
    """What a load tool said when it could not do its work."""


def option_words(options):
    """{"batch_size": 5, "idempotence": True, "X": ["a=b"]} as words of a command line; None and False are left out."""
    words = []
    for name, value in options.items():
        flag = f"-{name}" if len(name) == 1 else f"--{name.replace('_', '-')}"
        if value is True:
            words.append(flag)
        elif isinstance(value, (list, tuple)):
            for item in value:
                words += [flag, str(item)]
        elif value is not None and value is not False:
            words += [flag, str(value)]
    return words


class Running:
    """A tool at work.  wait() gives what it printed."""

    def __init__(self, command, folder, seconds):
        self.command, self.seconds = command, seconds
        self.process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)

    def output(self):
        try:
            out, err = self.process.communicate(timeout=self.seconds)
        except subprocess.TimeoutExpired:
            self.stop()
            raise ToolFailed(f"{os.path.basename(self.command[0])} did not end within {self.seconds:.0f} s") from None
        except BaseException:
            self.stop()
            raise
        return out, err

    def wait(self):
        """The object; with errors in it where there were some.  ToolFailed when there is none."""
        out, err = self.output()
        line = next((line for line in reversed(out.splitlines()) if line.startswith("{")), None)
        if line is None:
            raise ToolFailed(f"{' '.join(self.command[:2])}: {(err.strip().splitlines() or ['it said nothing'])[-1]}")
        return json.loads(line)

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


class Tools:
    def __init__(self, build, folder):
        self.build, self.folder = os.path.abspath(build), folder

    def start(self, program, mode, system, topic, seconds=None, warmup=None, allowed=None, watch=True, **options):
        words = option_words({"bootstrap": system.bootstrap, "topic": topic, "seconds": seconds, "warmup": warmup,
                              "watch": ",".join(map(str, system.pids()[:16])) if watch else None, **options})
        allowed = allowed or (seconds or 60) + (warmup or 0) + KEPT_BACK
        return Running([os.path.join(self.build, "bench", program), mode, *words], self.folder, allowed)

    def load(self, mode, system, topic, **options):
        return self.start("load", mode, system, topic, **options).wait()

    def replay(self, mode, system, topic, **options):
        return self.start("replay", mode, system, topic, **options).wait()

    def make_batches(self, path, **options):
        command = [os.path.join(self.build, "bench", "replay"), "make-batches", "--file", path, *option_words(options)]
        return Running(command, self.folder, 120).wait()

    def java(self, system, name, *arguments, allowed=180):
        """One of Kafka's own tools; what it printed."""
        out, err = Running(system.java(name, *arguments, jvm=["-Xmx512m"]), self.folder, allowed).output()
        if not out.strip():
            raise ToolFailed(f"{name.rpartition('.')[2]}: {(err.strip().splitlines() or ['it said nothing'])[-1]}")
        return out


def values_of(result):
    """A tool's object as {metric: number}: rates, CPU of the watched processes a GB and a request, times in ms."""
    values = {key: result[key] for key in ("mb_per_s", "msgs_per_s", "requests_per_s", "records_per_s") if result.get(key) is not None}
    seconds, cpu = result.get("seconds") or 0, result.get("watched_cpu_s")
    gigabytes = result.get("bytes", 0) / 1e9
    if gigabytes > 0:
        values["client_cpu_s_per_gb"] = result["client_cpu_s"] / gigabytes
    if cpu is not None and seconds > 0:
        values["cpu_cores"] = cpu / seconds
        if gigabytes > 0:
            values["cpu_s_per_gb"] = cpu / gigabytes
        for metric, rate in (("cpu_us_per_request", result.get("requests_per_s") or result.get("msgs_per_s")),
                             ("cpu_us_per_record", result.get("records_per_s"))):
            if rate:
                values[metric] = cpu / (rate * seconds) * 1e6
    latency = result.get("latency_us") or {}
    if latency.get("count"):
        values.update({f"{name}_ms": latency[name] / 1000 for name in ("p50", "p99", "p999", "max")})
    return values


def trouble_of(result, waited=None):
    """What a tool's object says that went wrong; [] when all was well.

    `waited`: of an open loop, the seconds after which an answer that has not come is an error.
    """
    found = []
    late = result.get("errors") or result.get("unsent")
    if waited and late and result.get("first_error") in (None, TIMED_OUT):
        found.append(f"fell behind: {waited} s after the last message was due some had no answer, and are in no percentile")
    elif result.get("errors"):
        found.append(f"{result['errors']} errors, the first: {result.get('first_error') or 'not told'}")
    if result.get("interrupted"):
        found.append("interrupted")
    return found


PRODUCED = re.compile(r"(\d+) records sent, ([\d.]+) records/sec \(([\d.]+) MB/sec\).*?([\d.]+) ms avg latency.*?(\d+) ms 50th.*?(\d+) ms 99th")


def perf_produced(text, size):
    """The last line of kafka-producer-perf-test as metrics; its MB are MiB."""
    found = PRODUCED.findall(text)
    if not found:
        raise ToolFailed(f"kafka-producer-perf-test printed no summary: {text.strip().splitlines()[-1:]}")
    count, rate, _, _, p50, p99 = found[-1]
    return {"msgs_per_s": float(rate), "mb_per_s": float(rate) * size / 1e6, "p50_ms": float(p50), "p99_ms": float(p99), "bytes": int(count) * size}


def perf_consumed(text, size):
    """kafka-consumer-perf-test's table: the rate of fetching, without the time that joining the group took."""
    rows = [[field.strip() for field in line.split(",")] for line in text.splitlines() if line.count(",") >= 9]
    if len(rows) < 2 or "fetch.nMsg.sec" not in rows[0]:
        raise ToolFailed(f"kafka-consumer-perf-test printed no table: {text.strip().splitlines()[-1:]}")
    row = dict(zip(rows[0], rows[-1]))
    return {"msgs_per_s": float(row["fetch.nMsg.sec"]), "mb_per_s": float(row["fetch.nMsg.sec"]) * size / 1e6,
            "bytes": int(float(row["data.consumed.in.nMsg"])) * size}
