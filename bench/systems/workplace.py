"""The folder of a run, and how nothing of it outlives the run.

    with Workplace() as place:      place.folder; everything that is started has it, or a folder below it, as its
                                    working directory

Leaving the block (also by Ctrl-C) ends every process that stands in it and removes it.  When this program is
killed (SIGKILL too), a small process of its own session does the same: it waits for the end of a pipe.  Should
that one be killed as well, the next run finds the folder by its name, sees by `owner` that nobody has it any
more, and does it then.
"""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from bench.systems import usage

PREFIX = "pg_broker-bench-"
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
REAPER = "import sys; sys.path.insert(0, sys.argv[1]); from bench.systems import workplace; workplace.reap(sys.argv[2])"


def begun(pid):
    """The kernel's start time of a process as text; None where there is none."""
    try:
        with open(f"/proc/{pid}/stat", encoding="latin-1") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def end_all(folder, seconds=10):
    """SIGKILL to whoever stands in the folder, until nobody does: a process may be starting others."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = [pid for pid in usage.standing_in(folder) if pid != os.getpid()]
        if not found:
            return
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.05)


def remove(folder):
    end_all(folder)
    shutil.rmtree(folder, ignore_errors=True)


def is_abandoned(folder):
    """Whether it is a run's folder whose run is over.  One without a readable owner is so after a minute."""
    try:
        with open(os.path.join(folder, "owner"), encoding="ascii") as file:
            pid, started = file.read().split()
    except (OSError, ValueError):
        try:
            return time.time() - os.stat(folder).st_mtime > 60
        except OSError:
            return False
    return begun(pid) != started


def clear_abandoned(parent):
    """Ends and removes what killed runs have left; returns their folders."""
    left = [os.path.join(parent, name) for name in os.listdir(parent) if name.startswith(PREFIX)]
    left = [folder for folder in left if os.path.isdir(folder) and os.stat(folder).st_uid == os.geteuid()
            and is_abandoned(folder)]
    for folder in left:
        remove(folder)
    return left


class Workplace:
    def __init__(self, parent=None):
        self.parent = os.path.abspath(parent or tempfile.gettempdir())
        self.folder = None

    def __enter__(self):
        self.cleared = clear_abandoned(self.parent)
        self.folder = tempfile.mkdtemp(prefix=PREFIX, dir=self.parent)
        # PostgreSQL runs as another user where we are root
        os.chmod(self.folder, 0o755)
        with open(os.path.join(self.folder, "owner"), "w", encoding="ascii") as file:
            file.write(f"{os.getpid()} {begun(os.getpid())}\n")
        self.reaper = subprocess.Popen([sys.executable, "-c", REAPER, ROOT, self.folder], cwd="/",
                                       stdin=subprocess.PIPE, start_new_session=True)
        return self

    def subfolder(self, name):
        path = os.path.join(self.folder, name)
        os.makedirs(path, exist_ok=True)
        return path

    def __exit__(self, *_):
        remove(self.folder)
        self.reaper.stdin.close()
        self.reaper.wait()


def reap(folder):
    sys.stdin.buffer.read()  # ends when the run does, however it does
    if os.path.isdir(folder):
        remove(folder)

