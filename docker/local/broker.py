"""One brokerd of a cluster: its folder, its properties file, its process.

    folder/server.properties   made at the first start; later starts set only the keys below, the rest is the user's
    folder/data/               log.dirs
    folder/brokerd.log         what it says
    folder/brokerd.pid         "PID START-TIME"
"""
import os
import signal

import probe
from procs import Trouble, end, is_gone, process_cwd, read_pid_file, spawn, start_time, wait_until

HEADER = """# Broker {id} of the cluster that `make run` made.  The keys between the lines are set again at each
# start; add any others of docs/configuration.md below, they are kept.
"""
BEGIN = "# --- set by make run"
END = "# --- yours"


class Broker:
    def __init__(self, broker_id, folder, port, program, host="127.0.0.1"):
        self.id = broker_id
        self.folder = os.path.abspath(folder)
        self.host = host
        self.port = port
        self.program = program
        self.log = os.path.join(self.folder, "brokerd.log")
        self.pid_file = os.path.join(self.folder, "brokerd.pid")
        self.config = os.path.join(self.folder, "server.properties")
        self.child = None

    @property
    def address(self):
        return f"{self.host}:{self.port}"

    def pid(self):
        """The running process, which stands in our folder: a copy of RUN_DIR has a copy of the pid file too."""
        pid = read_pid_file(self.pid_file)
        return pid if pid and process_cwd(pid) in (os.path.realpath(self.folder), None) else None

    def state(self):
        if self.pid() is None:
            return "crashed" if os.path.exists(self.pid_file) else "stopped"
        return "running" if self.answers() else "starting"

    def answers(self, timeout=1.0):
        """Whether it answers Metadata with itself in it."""
        return self.id in self.known_brokers(timeout)

    def known_brokers(self, timeout=1.0):
        try:
            return probe.brokers((self.host, self.port), timeout)
        except (OSError, ValueError, IndexError, probe.struct.error):
            return {}

    def write_config(self, postgres, properties=None):
        """Sets the keys that the cluster decides; `properties` are added to them."""
        os.makedirs(os.path.join(self.folder, "data"), exist_ok=True)
        keys = {
            "node.id": self.id,
            "listeners": f"PLAINTEXT://{self.address}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "log.dirs": os.path.join(self.folder, "data"),
            "pg_broker.postgres": postgres,
            **(properties or {}),
        }
        kept = ""
        if os.path.exists(self.config):
            with open(self.config, encoding="utf-8") as file:
                kept = file.read().partition(END + "\n")[2]
        text = HEADER.format(id=self.id) + BEGIN + "\n"
        text += "".join(f"{key}={value}\n" for key, value in keys.items())
        text += END + "\n" + kept
        with open(self.config + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(self.config + ".new", self.config)

    def start(self, env=None):
        """Starts the process; wait_ready() says when it serves."""
        self.said_before = os.path.getsize(self.log) if os.path.exists(self.log) else 0
        self.child = spawn([self.program, "--config", self.config], self.log, self.folder, self.pid_file, env=env)

    def wait_ready(self, seconds=60, condition=None):
        """Waits until it answers clients (and `condition()` holds); says why when its process ends instead."""
        condition = condition or self.answers
        pid = self.pid()
        started = start_time(pid) if pid else None

        def gone():
            # Without a pid it ended before it was looked for: the file is there before the program runs.
            return pid is None or is_gone(pid, started, self.child)

        wait_until(lambda: gone() or condition(), seconds, 0.03)
        if gone():
            self.forget()
            raise Trouble(f"brokerd {self.id} ended while it started: {self.last_line()} (see {self.log})")
        if not condition():
            raise Trouble(f"brokerd {self.id} does not answer clients after {seconds} s; see {self.log}.")

    def last_line(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            file.seek(self.said_before)
            lines = [line.strip() for line in file if line.strip()]
        reasons = [line for line in lines if " FATAL " in line or " ERROR " in line]
        return (reasons or lines or ["it said nothing"])[-1]

    def forget(self):
        try:
            os.unlink(self.pid_file)
        except FileNotFoundError:
            pass

    def stop(self, seconds=30):
        """SIGTERM, and SIGKILL when that takes longer than `seconds`; returns the signal that ended it."""
        pid = self.pid()
        ended_by = end(pid, [(signal.SIGTERM, seconds), (signal.SIGKILL, 10)], self.child) if pid else None
        self.child = None
        self.forget()
        return ended_by

    def signal(self, number):
        pid = self.pid()
        if pid is None:
            raise Trouble(f"brokerd {self.id} is not running.")
        os.kill(pid, number)

    def kill(self):
        """As a crash: SIGKILL, and its pid file stays."""
        pid = self.pid()
        if pid:
            end(pid, [(signal.SIGKILL, 10)], self.child)
