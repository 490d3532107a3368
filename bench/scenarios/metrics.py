"""The metrics: what a number is called, in what unit it is shown, and how far its runs may differ.  One table."""
from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    key: str
    title: str
    unit: str
    digits: int
    more_is_better: bool
    bound: float  # the largest spread (quartiles, of the median) of a clean measurement


METRICS = {metric.key: metric for metric in (
    Metric("mb_per_s", "throughput", "MB/s", 0, True, 0.20),
    Metric("msgs_per_s", "messages", "1/s", 0, True, 0.20),
    Metric("records_per_s", "records", "1/s", 0, True, 0.20),
    Metric("requests_per_s", "requests", "1/s", 0, True, 0.20),
    Metric("commits_per_s", "commits", "1/s", 0, True, 0.20),
    Metric("cpu_s_per_gb", "broker CPU", "s/GB", 2, False, 0.20),
    Metric("cpu_us_per_request", "broker CPU", "µs/request", 1, False, 0.20),
    Metric("cpu_us_per_record", "broker CPU", "µs/record", 3, False, 0.20),
    Metric("cpu_cores", "broker CPU", "cores", 2, False, 0.25),
    Metric("helper_cores", "CPU of PostgreSQL", "cores", 2, False, 5.0),
    Metric("client_cpu_s_per_gb", "client CPU", "s/GB", 2, False, 0.30),
    Metric("kept_up", "of the rate asked for", "", 2, True, 0.10),
    Metric("p50_ms", "p50", "ms", 2, False, 0.40),
    Metric("p99_ms", "p99", "ms", 2, False, 0.60),
    Metric("p999_ms", "p99.9", "ms", 1, False, 2.0),
    Metric("max_ms", "slowest", "ms", 1, False, 5.0),
    Metric("producer_p99_ms", "p99 of the producer beside", "ms", 2, False, 0.60),
    Metric("start_s", "start", "s", 2, False, 0.30),
    Metric("stop_s", "clean stop", "s", 2, False, 0.50),
    Metric("recover_s", "start after SIGKILL", "s", 2, False, 0.30),
    Metric("stall_s", "longest stall", "s", 2, False, 0.50),
    Metric("memory_mib", "resident memory", "MiB", 1, False, 0.15),
    Metric("helper_mib", "memory of PostgreSQL", "MiB", 0, False, 0.30),
    Metric("idle_cores", "CPU idle", "cores", 3, False, 2.0),
)}
