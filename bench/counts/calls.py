"""System calls of a running brokerd, by strace.

    counter = Strace(pid, folder)
    counter.begin(); ...; calls = counter.end()      {"epoll_wait": 1001, "recvfrom": 1000, ...}

All threads are counted.  strace must be allowed to attach: root may, others where kernel.yama.ptrace_scope is 0.
"""
import os
import signal
import subprocess
import time


def traced(pid):
    """Whether every thread has its tracer."""
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/status", encoding="ascii", errors="replace") as file:
            if any(line.split() == ["TracerPid:", "0"] for line in file):
                return False
    return True


class Strace:
    def __init__(self, pid, folder):
        self.pid = pid
        self.out = os.path.join(folder, "strace.out")
        self.process = None

    def begin(self):
        self.process = subprocess.Popen(["strace", "-f", "-c", "-U", "calls,name", "-o", self.out, "-p", str(self.pid)],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        until = time.monotonic() + 20
        while not traced(self.pid):
            if self.process.poll() is not None or time.monotonic() > until:
                self.process.kill()
                raise RuntimeError("strace cannot attach to brokerd: " + self.process.stderr.read().strip()
                                   + " (be root, or set kernel.yama.ptrace_scope to 0)")
            time.sleep(0.02)

    def end(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()
        self.process.stderr.close()
        with open(self.out, encoding="ascii", errors="replace") as file:
            return parse(file)


def parse(lines):
    """The table that strace -c -U calls,name prints: a number and a name, rules around it, a total."""
    rows = [line.split() for line in lines]
    return {words[1]: int(words[0]) for words in rows if len(words) == 2 and words[0].isdigit() and words[1] != "total"}
