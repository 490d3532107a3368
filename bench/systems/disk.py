"""The disk between runs: what was deleted is gone, and a sync takes as long as it did at the beginning.

On ext4 with discard, removing some GB makes fdatasync a hundred times slower for seconds, and what a run without
fsync has written is written back after it: either would count against whoever comes next.
"""
import mmap
import os
import time

from bench.report import stats

PROBES = 9


class Disk:
    def __init__(self, folder):
        self.path = os.path.join(folder, "probe")
        self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        self.at = 0
        self.baseline = self.limit = None

    def probe(self):
        """Milliseconds of one 4 KiB append and fdatasync."""
        if self.at >= 64 << 20:
            os.ftruncate(self.fd, 0)
            self.at = 0
        begun = time.monotonic()
        os.pwrite(self.fd, b"\xa5" * 4096, self.at)
        os.fdatasync(self.fd)
        self.at += 4096
        return (time.monotonic() - begun) * 1000

    def learn(self, probes=60):
        """What it is at rest.  Called once, before anything writes."""
        os.sync()
        self.baseline = stats.median([self.probe() for _ in range(probes)])
        self.limit = limit_of(self.baseline)
        return self.baseline

    def settle(self, systems=(), seconds=30):
        """Waits for a quiet disk; returns what is to be said of the run that comes, '' when it is quiet."""
        until = time.monotonic() + seconds
        while any([system.has_remains() for system in systems]):
            if time.monotonic() > until:
                return f"deleted logs were still there after {seconds} s"
            time.sleep(0.02)
        os.sync()
        while True:
            took = stats.median([self.probe() for _ in range(PROBES)])
            if took <= self.limit:
                return ""
            if time.monotonic() > until:
                return f"the disk was not quiet: fdatasync {took:.1f} ms, {self.baseline:.2f} at the start"
            time.sleep(0.1)

    def close(self):
        os.close(self.fd)


def limit_of(baseline):
    """Up to which a sync is as at the beginning, in ms."""
    return max(3 * baseline, baseline + 1.0)


def drop_from_cache(paths):
    """Forgets the pages of these files, which needs no rights but to read them."""
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


def touch_memory(megabytes):
    """Uses so much memory once: a virtual machine is slow to give a page for the first time."""
    page = mmap.PAGESIZE
    with mmap.mmap(-1, megabytes << 20) as memory:
        for at in range(0, megabytes << 20, page):
            memory[at] = 1
