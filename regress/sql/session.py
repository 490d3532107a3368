"""A psql session that a test holds open, for what takes several sessions at once.

    a = Session()
    a("SELECT 1")                    -> "1"       waits; an error is Failed with .state ("PB077")
    a.send("SELECT pg_sleep(1)")                  goes on without waiting
    a.result()                       -> the answer of what was sent
    a.pid                            its backend
    a.waits()                        True once its statement waits for a lock
    a.close()

    wait_for(lambda: ..., "what")                 looks until it is true, at most 10 s
"""
import os
import re
import subprocess
import time


class Failed(Exception):
    def __init__(self, text):
        super().__init__(text)
        found = re.search(r"(?:ERROR|FATAL):\s+([0-9A-Z]{5}):", text)
        self.state = found.group(1) if found else None


def wait_for(condition, what, seconds=10):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError(f"not within {seconds} s: {what}")


class Session:
    watcher = None

    def __init__(self, user=None, database=None):
        environment = dict(os.environ)
        # A test that fails leaves its transaction open: nobody waits for it for ever.
        environment["PGOPTIONS"] = environment.get("PGOPTIONS", "") + " -c statement_timeout=20s"
        if user:
            environment["PGUSER"] = user
        if database:
            environment["PGDATABASE"] = database
        self.psql = subprocess.Popen(["psql", "-XqAt", "-v", "VERBOSITY=verbose", "-v", "SHOW_CONTEXT=never"], text=True, bufsize=1,
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)
        self.count = 0
        self.pid = int(self("SELECT pg_backend_pid()"))

    def send(self, sql):
        self.count += 1
        self.psql.stdin.write(f"{sql.rstrip(';')};\n\\echo done {self.count}\n")
        self.psql.stdin.flush()

    def result(self):
        lines = []
        while True:
            line = self.psql.stdout.readline()
            if line == "" or line == f"done {self.count}\n":
                break
            lines.append(line)
        text = "".join(lines).strip()
        if line == "" or re.search(r"^(psql:\S+ )?(ERROR|FATAL):", text, re.M):
            raise Failed(text or "the session ended")
        return text

    def __call__(self, sql):
        self.send(sql)
        return self.result()

    def state(self, sql):
        """SQLSTATE of a statement that fails, '00000' when it does not."""
        try:
            self(sql)
        except Failed as failure:
            return failure.state or str(failure)
        return "00000"

    def waits(self):
        if Session.watcher is None:
            Session.watcher = Session(database="postgres")
        return Session.watcher(f"SELECT count(*) FROM pg_stat_activity WHERE pid = {self.pid} AND wait_event_type = 'Lock'") == "1"

    def close(self):
        try:
            self.psql.stdin.close()
        except BrokenPipeError:
            pass  # its session was ended, and psql with it
        self.psql.wait()


class Broker:
    """One broker's two sessions, and its epoch."""

    def __init__(self, number, process=None, disk=None):
        self.id = number
        self.heart = Session()
        self.control = Session()
        self.register(process, disk)

    def register(self, process=None, disk=None, session=None):
        args = f"{self.id}, {process or 'NULL'}, {disk or 'NULL'}"
        self.epoch = int((session or self.heart)(f"SELECT fx.register({args})"))

    def beat(self):
        return self.heart(f"SELECT * FROM broker_internal.heartbeat_1({self.id}, {self.epoch})")

    def tick(self, refused="{}", session=None):
        return (session or self.control)(f"SELECT did_something FROM broker_internal.tick_1({self.id}, {self.epoch}, '{refused}')") == "t"

    def close(self):
        self.heart.close()
        self.control.close()
