"""Processes, ports and locks of the private cluster.

A daemon is known by its pid and its start time (field 22 of /proc/PID/stat), so that a pid file left by a
killed run never points at a stranger who got the same pid later.  All waiting is for a state, with a limit.
"""
import contextlib
import errno
import fcntl
import os
import pwd
import signal
import socket
import subprocess
import threading
import time


class Trouble(Exception):
    """What went wrong, in one sentence for the person who typed the command."""


def explain_os_error(error, what):
    """One sentence for an OSError: a full disk and missing rights are the two that people meet."""
    where = error.filename or what
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"No space is left on the file system of {where}; free some, or choose another RUN_DIR."
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"No permission for {where}; it may belong to another user (an earlier run as root?)."
    if error.errno == errno.EROFS:
        return f"{where} is on a read-only file system; choose another RUN_DIR."
    return f"{what}: {error.strerror} ({where})."


def start_time(pid):
    """The kernel's start time of a live process; None if there is none, or only its zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="latin-1") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZXx" else fields[19]


def process_name(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as comm:
            return comm.read().strip()
    except OSError:
        return "?"


def process_cwd(pid):
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return None


def read_pid_file(path):
    """The pid in a file of ours if that very process lives, else None."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            words = file.read().split()
    except OSError:
        return None
    if len(words) != 2 or not words[0].isdigit():
        return None
    return int(words[0]) if start_time(words[0]) == words[1] else None


def spawn(argv, log, cwd, pid_file=None, user=None, env=None):
    """Starts a daemon in a session of its own, its output appended to `log`.

    The child itself writes the pid file before it becomes the program: there is no moment in which the
    daemon runs and nothing on disk knows it.
    """
    def write_pid():
        pid = os.getpid()
        fd = os.open(pid_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.write(fd, f"{pid} {start_time(pid)}\n".encode())
        os.close(fd)

    with open(log, "ab") as output:
        return subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=cwd, env=env,
            start_new_session=True, preexec_fn=write_pid if pid_file else None, **as_user(user))


def as_user(user):
    """Arguments that make subprocess run something as `user` (a pwd entry), or as ourselves (None)."""
    if user is None:
        return {}
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def wait_until(condition, seconds, step=0.02):
    """True as soon as condition() is; False when it is not within `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        if condition():
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(step)


def is_gone(pid, started, child=None):
    """Whether that very process has ended.  A child of ours is reaped, so that it does not stay a zombie."""
    if child is not None:
        child.poll()
    return start_time(pid) != started


def end(pid, signals, child=None):
    """Sends (signal, seconds to wait) one after the other until the process is gone; returns the last sent."""
    started = start_time(pid)
    for number, seconds in signals:
        if started is None or is_gone(pid, started, child):
            return None
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return number
        except PermissionError:
            raise Trouble(f"Process {pid} belongs to another user; stop it as that user or as root.") from None
        if wait_until(lambda: is_gone(pid, started, child), seconds):
            return number
    raise Trouble(f"Process {pid} does not end, not even by signal {signals[-1][0]}.")


@contextlib.contextmanager
def uninterrupted():
    """An interrupt that comes meanwhile is taken at the end.  A program that is started in it has its own handling."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are not taken in here
        return
    came = []
    before = {number: signal.signal(number, lambda number, _: came.append(number))
              for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
              if signal.getsignal(number) not in (signal.SIG_IGN, None)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            os.kill(os.getpid(), came[0])


def unprivileged_user():
    """Who runs PostgreSQL when we are root, which it refuses to run as; None for an ordinary user."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            pass
    raise Trouble("PostgreSQL does not run as root, and there is no user postgres or nobody to run it as.")


def can_enter(path, user):
    """Whether `user` can reach the folder `path` through all of its parents."""
    if user is None:
        return os.access(path, os.X_OK)
    return subprocess.run(["/bin/sh", "-c", 'cd -- "$1" 2>/dev/null', "sh", path], cwd="/",
                          check=False, **as_user(user)).returncode == 0


def free_port():
    """A TCP port of the loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def port_is_taken(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            probe.listen(1)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return True
            raise Trouble(f"Port {port} cannot be used here: {error.strerror}.") from None
    return False


def port_holder(port):
    """(pid, name) of the process that listens on a port, as far as /proc shows it to us; else None."""
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table, encoding="ascii") as lines:
                for line in list(lines)[1:]:
                    fields = line.split()
                    if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                        inodes.add(f"socket:[{fields[9]}]")
        except OSError:
            pass
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            for fd in os.listdir(f"/proc/{pid}/fd"):
                if os.readlink(f"/proc/{pid}/fd/{fd}") in inodes:
                    return int(pid), process_name(pid)
        except OSError:
            pass
    return None


class Lock:
    """One command at a time in a RUN_DIR.  The lock is the kernel's, so a killed holder leaves none behind."""

    def __init__(self, path, tell):
        self.path = path
        self.tell = tell
        self.fd = -1

    def __enter__(self):
        self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        if not self.attempt():
            self.tell(f"Waiting for another command that is at work in {os.path.dirname(self.path)}.")
            if not wait_until(self.attempt, 120, 0.1):
                os.close(self.fd)
                raise Trouble(f"Another command has been at work in {os.path.dirname(self.path)} for two minutes.")
        return self

    def attempt(self):
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            return False

    def __exit__(self, *_):
        os.close(self.fd)


def terminate_like_interrupt():
    """SIGTERM and SIGHUP unwind like Ctrl-C, so that what was started is stopped again."""
    def interrupt(number, _frame):
        raise KeyboardInterrupt(signal.Signals(number).name)

    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGHUP, interrupt)
