"""What a report says of the machine: read from /proc, /sys and the file system, nothing is run as root."""
import os
import platform
import re
import subprocess


def first_match(path, pattern, default=""):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            found = re.search(pattern, file.read(), re.M)
    except OSError:
        return default
    return found.group(1).strip() if found else default


def cores():
    return len(os.sched_getaffinity(0))


def memory_mib(field="MemTotal"):
    return int(first_match("/proc/meminfo", rf"^{field}:\s+(\d+)", "0")) // 1024


def mount_of(path):
    """(device, mount point, type, options) of the file system that has a path: the longest mount point that fits."""
    real, best = os.path.realpath(path), ("", "", "", "")
    with open("/proc/mounts", encoding="utf-8", errors="replace") as mounts:
        for line in mounts:
            device, point, kind, options = line.split()[:4]
            if (real == point or real.startswith(point.rstrip("/") + "/")) and len(point) >= len(best[1]):
                best = device, point, kind, options
    return best


def governor():
    return first_match("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", r"(.*)", "not told")


def git_state(root):
    def git(*words):
        return subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, check=False).stdout.strip()
    commit = git("rev-parse", "--short=12", "HEAD")
    return f"{commit}{' with changes' if git('status', '--porcelain', '-uno') else ''}" if commit else "not known"


def describe(root, workplace):
    """{name: text} in the order in which a report prints it."""
    device, _, kind, options = mount_of(workplace)
    hypervisor = first_match("/proc/cpuinfo", r"^flags\s*:.*\b(hypervisor)\b")
    model = first_match("/proc/cpuinfo", r"^model name\s*: (.*)", platform.machine())
    return {
        "CPU": f"{model}, {cores()} cores"
               f"{', a virtual machine' if hypervisor else ''}, governor {governor()}",
        "memory": f"{memory_mib() / 1024:.1f} GiB, {memory_mib('MemAvailable') / 1024:.1f} available at the start",
        "kernel": f"{platform.system()} {platform.release()}",
        "file system": f"{kind} on {device} ({options})",
        "distribution": first_match("/etc/os-release", r'^PRETTY_NAME="?([^"\n]*)', "not told"),
        "commit": git_state(root),
    }
