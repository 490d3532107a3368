"""What is looked at before a run, so that it does not end in the middle: each trouble is a sentence with what to do."""
import os
import resource
import shutil

import kafka

from bench.report import machine

FREE_AT_LEAST_GB = 2
NO_DISK = ("tmpfs", "ramfs", "overlay")


class Refused(Exception):
    """The run cannot begin; the text says why and what to do."""


def open_files(wanted):
    """Raises the limit of open files as far as it may go; returns what it is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        hard = max(wanted, soft)
    if os.geteuid() == 0 and wanted > hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
            return wanted
        except (OSError, ValueError):
            pass
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def check_programs(build, names):
    for name in names:
        if not os.access(os.path.join(build, name), os.X_OK):
            raise Refused(f"{os.path.join(build, name)} is not there: run `make bench`, which builds it, or set BUILD to the folder of a build.")


def check_kafka():
    """Java and the jars; the first time they come from Maven."""
    try:
        kafka.classpath()
    except kafka.Unavailable as error:
        raise Refused(f"Apache Kafka cannot be had: {error}. Install it or connect to the network (the jars are kept in "
                      f"{kafka.cache_dir()}), or measure without it: make bench SYSTEMS=brokerd.") from None


def check_place(folder):
    if not os.path.isdir(folder):
        raise Refused(f"{folder} is no folder; choose one on the disk to be measured: BENCH_DIR=folder.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise Refused(f"{folder} cannot be written to; choose another folder: BENCH_DIR=folder.")
    kind = machine.mount_of(folder)[2]
    if kind in NO_DISK[:2]:
        raise Refused(f"{folder} is on {kind}, where fsync does nothing; choose a folder on a disk: BENCH_DIR=folder.")
    free = shutil.disk_usage(folder).free / 1e9
    if free < FREE_AT_LEAST_GB:
        raise Refused(f"Only {free:.1f} GB are free on the file system of {folder}, at least {FREE_AT_LEAST_GB} are needed; free some, "
                      "or choose another folder: BENCH_DIR=folder.")


def unfit(scenario, folder, files, free_gb=None, memory_gb=None):
    """Why a scenario cannot be measured here, with what to do; '' when it can.  The figures are given by tests only."""
    free = shutil.disk_usage(folder).free / 1e9 if free_gb is None else free_gb
    memory = machine.memory_mib("MemAvailable") / 1024 if memory_gb is None else memory_gb
    if free < scenario.disk_gb + 1:
        return (f"it needs {scenario.disk_gb + 1:.0f} GB on the file system of {folder} and {free:.1f} are free: free some, or BENCH_DIR=folder "
                "on another one")
    if memory < scenario.memory_gb:
        return f"it needs {scenario.memory_gb:.0f} GiB of memory and {memory:.1f} are available: end other programs, or measure on a larger machine"
    if files < scenario.files:
        return f"it needs {scenario.files:,} open files and the limit is {files:,}: ulimit -n {scenario.files} as root, or LimitNOFILE"
    return ""
