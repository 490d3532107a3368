"""What processes use, from /proc: CPU seconds, memory, who they are.  Nothing here knows a broker.

CPU of a server that makes processes (PostgreSQL) is that of the live ones and of those that its parent has
reaped: a backend that ends between two readings is not lost.
"""
import os

TICKS = os.sysconf("SC_CLK_TCK")


def stat(pid):
    """(name, parent, CPU seconds, CPU seconds of its reaped children); None when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="latin-1") as file:
            text = file.read()
    except OSError:
        return None
    name, fields = text[text.index("(") + 1:text.rindex(")")], text[text.rindex(")") + 2:].split()
    if fields[0] in "ZX":
        return None
    used = [int(number) / TICKS for number in fields[11:15]]
    return name, int(fields[1]), used[0] + used[1], used[2] + used[3]


def cpu_seconds(pids, reaped=False):
    """The sum over these processes; with what their ended children used where `reaped`."""
    total = 0.0
    for pid in pids:
        found = stat(pid)
        if found:
            total += found[2] + (found[3] if reaped else 0)
    return total


def status_kib(pid, field):
    try:
        with open(f"/proc/{pid}/status", encoding="latin-1") as file:
            return next((int(line.split()[1]) for line in file if line.startswith(field + ":")), 0)
    except OSError:
        return 0


def resident_mib(pids):
    return sum(status_kib(pid, "VmRSS") for pid in pids) / 1024


def proportional_mib(pids):
    """As resident memory, a page that several share counted once in all: for a server of many processes."""
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/smaps_rollup", encoding="latin-1") as file:
                total += next((int(line.split()[1]) for line in file if line.startswith("Pss:")), 0)
        except OSError:
            pass
    return total / 1024


def all_pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def standing_in(folder):
    """Processes whose working directory is the folder or below it: everything that a run starts stands there."""
    real = os.path.realpath(folder)
    found = []
    for pid in all_pids():
        try:
            place = os.readlink(f"/proc/{pid}/cwd")
        except OSError:
            continue
        if place == real or place.startswith(real + "/"):
            found.append(pid)
    return found


def command_line(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


class Others:
    """Who else uses the processors.  `with Others(folder) as others: ...; others.busy` -> [(share of a core, name)].

    What stands in the folder is ours, and so are we and our children.  Kernel threads are counted as one,
    `kernel`: most of it is the writing back of what was measured.
    """

    def __init__(self, folder, least=0.05):
        self.folder = folder
        self.least = least
        self.busy = []
        self.kernel = 0.0

    def reading(self):
        return {pid: found for pid, found in ((pid, stat(pid)) for pid in all_pids()) if found}

    def __enter__(self):
        self.began, self.before = os.times().elapsed, self.reading()
        return self

    def __exit__(self, *_):
        seconds = max(os.times().elapsed - self.began, 0.01)
        after, ours = self.reading(), set(standing_in(self.folder)) | {os.getpid()}
        self.busy, self.kernel = share_of_others(self.before, after, ours, os.getpid(), seconds, self.least)


def share_of_others(before, after, ours, us, seconds, least):
    """([(share, name)] of processes above `least`, share of the kernel's threads), from two readings."""
    busy, kernel = [], 0.0
    for pid, (name, parent, used, _) in after.items():
        share = (used - (before[pid][2] if pid in before else 0)) / seconds
        if pid in ours or parent == us:
            continue
        if pid == 2 or parent == 2:
            kernel += share
        elif share >= least:
            busy.append((round(share, 2), name))
    return sorted(busy, reverse=True), round(kernel, 2)


def open_files(pid):
    try:
        return os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return []
