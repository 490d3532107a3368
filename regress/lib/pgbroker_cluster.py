#!/usr/bin/env python3
"""A private cluster for one test: PostgreSQL with the extension and N brokers, in a temporary folder.

    from pgbroker_cluster import Cluster

    with Cluster(brokers=3, properties={"log.segment.bytes": 1 << 20}) as c:
        c.bootstrap                          "127.0.0.1:23171,127.0.0.1:23172,127.0.0.1:23173"
        c.broker(1).port / .pid() / .folder / .data / .config
        c.broker(1).kill()                   SIGKILL, as a crash            .stop()     SIGTERM, waits
        c.broker(1).pause() / .resume()      SIGSTOP / SIGCONT
        c.broker(1).start()                  and waits until it answers     .restart()
        c.broker(1).log_text()               .wait_log(r"recovered")
        c.add_broker(properties={})          a fourth one
        c.postgres.kill() / .stop() / .start() / .freeze() / .thaw()
        c.sql("SELECT topic, partitions FROM broker.topics")   -> [("t", "3")]: text, NULL is None;
                                             an error is SqlError with .sqlstate ("PB036")
        c.value("SELECT count(*) FROM broker.topics")          -> "1"
        c.wait_sql("SELECT leader FROM broker.partitions", [("2",)], seconds=5)
        with c.session() as s:               a psql that stays open
            s.ask("BEGIN")                   -> what it printed
        c.wait(lambda: ..., seconds=10, what="the topic appears")
        c.conninfo                           libpq's, as superuser; c.postgres.tcp_conninfo() with tcp=True
        c.psql_command                       ["…/psql", "-X", "-d", …] for whoever wants psql itself
        c.logs()                             the end of every log, to print when a test fails

`Cluster(brokers=0)` is PostgreSQL alone.  `start=False` makes everything but starts no broker.  `tcp=True` lets
PostgreSQL listen on a port of the loopback too, and `broker_conninfo=` is what brokers are given instead of
the socket (a proxy's address, say).  `pg_settings={}` are lines of postgresql.conf, `broker_properties={2: {}}`
are for one broker, `extension=False` leaves PostgreSQL as it comes, `env={}` is added to the brokers' environment (LD_PRELOAD), `brokerd=` is another program
(a sanitizer build).  Leaving the block stops all and removes the folder; so does the end of the process, even
by SIGKILL (a small process watches for it).  KEEP=1 keeps the folder and says where it is.

The build is taken from $BUILD (default: build).  From a shell:

    regress/lib/pgbroker_cluster.py [--brokers N] [--property K=V]... -- COMMAND...

runs COMMAND with BOOTSTRAP, PGHOST, PGUSER, PGDATABASE and CLUSTER_DIR in its environment.
"""
import argparse
import atexit
import fcntl
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "docker", "local"))

import broker as local_broker
import postgres as local_postgres
from cluster import CREATE_EXTENSION
from postgres import SqlError
from procs import Trouble, end, port_is_taken, start_time, unprivileged_user, wait_until

__all__ = ["Cluster", "SqlError", "Trouble", "free_port", "wait_for"]


RESERVED = []  # open lock files of the ports that free_port() gave, until this process ends


def free_port():
    """
    A port that is free now, outside of the range that the kernel gives to outgoing connections, and ours from
    now on among tests that run side by side: whoever asks before we listen on it gets another one.
    """
    folder = os.path.join(tempfile.gettempdir(), "pgb-test-ports")
    os.makedirs(folder, exist_ok=True)
    while True:
        port = random.randrange(20000, 32000)
        reservation = open(os.path.join(folder, str(port)), "wb")  # pylint: disable=consider-using-with
        try:
            fcntl.flock(reservation, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            reservation.close()
            continue
        if not port_is_taken(port):
            RESERVED.append(reservation)
            return port
        reservation.close()


def wait_for(condition, seconds=10, what="the condition"):
    """Waits for a state; AssertionError, naming it, when it does not come."""
    if not wait_until(condition, seconds):
        raise AssertionError(f"{what}: not within {seconds} s")


class Broker(local_broker.Broker):
    def __init__(self, cluster, broker_id, properties):
        super().__init__(broker_id, os.path.join(cluster.folder, f"broker-{broker_id}"), free_port(), cluster.brokerd)
        self.data = os.path.join(self.folder, "data")
        self.cluster = cluster
        self.properties = properties

    def start(self, wait=True, seconds=30, env=None):
        self.write_config(self.cluster.broker_conninfo, self.properties)
        super().start({**local_postgres.clean_environment(), **self.cluster.env, **(env or {})})
        if wait:
            self.wait_ready(seconds)

    def restart(self, **options):
        self.stop()
        self.start(**options)

    def pause(self):
        self.signal(signal.SIGSTOP)

    def resume(self):
        self.signal(signal.SIGCONT)

    def stop(self, seconds=30):
        if self.pid():
            self.resume()
        return super().stop(seconds)

    def log_text(self):
        try:
            with open(self.log, encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def wait_log(self, pattern, seconds=10, after=0):
        """Waits for a line of the log; returns the match.  `after`: skip that many characters."""
        wait_for(lambda: re.search(pattern, self.log_text()[after:], re.M), seconds,
                 f"broker {self.id} logs {pattern!r}")
        return re.search(pattern, self.log_text()[after:], re.M)


class Postgres(local_postgres.Postgres):
    def kill(self):
        """SIGKILL to the postmaster; its children notice and end."""
        pid = self.pid()
        if pid:
            end(pid, [(signal.SIGKILL, 10)], self.child)

    def processes(self):
        return [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and self.is_ours(pid)]

    def freeze(self):
        """As a machine that hangs: every process of it stands still, its sockets stay open."""
        self.signal_all(signal.SIGSTOP)

    def thaw(self):
        self.signal_all(signal.SIGCONT)

    def signal_all(self, number):
        """The postmaster first, so that no new one comes; others may end meanwhile."""
        for pid in sorted(self.processes(), key=lambda pid: pid != self.pid()):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def stop(self, how=signal.SIGINT):
        self.thaw()
        super().stop(how)

    def restart(self):
        self.stop()
        self.start()


class Session:
    """One session of PostgreSQL that lives over several calls.  ask() returns what psql printed, errors too."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
                                        stderr=subprocess.STDOUT, env=local_postgres.clean_environment())

    def ask(self, statement):
        self.process.stdin.write(f"{statement};\n\\echo =done=\n")
        lines = []
        for line in self.process.stdout:
            if line == "=done=\n":
                return "".join(lines)
            lines.append(line)
        raise AssertionError("psql ended: " + "".join(lines))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class Cluster:
    def __init__(self, brokers=1, properties=None, broker_properties=None, pg_settings=None, tcp=False,
                 broker_conninfo=None, env=None, brokerd=None, start=True, extension=True):
        self.build = os.path.abspath(os.environ.get("BUILD") or os.path.join(ROOT, "build"))
        self.brokerd = os.path.abspath(brokerd or os.path.join(self.build, "brokerd"))
        self.properties = properties or {}
        self.env = env or {}
        self.folder = tempfile.mkdtemp(prefix="pgb-test-")
        os.chmod(self.folder, 0o755)
        self.brokers = {}
        self.closed = False
        atexit.register(self.close)
        self.reaper = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--reap", self.folder],
                                       stdin=subprocess.PIPE, start_new_session=True)
        try:
            self.start_postgres(pg_settings or {}, tcp, extension)
            self.broker_conninfo = broker_conninfo or self.postgres.conninfo("brokerd")
            for _ in range(brokers):
                self.add_broker((broker_properties or {}).get(len(self.brokers) + 1), start=False)
            if start:
                self.start_brokers()
        except BaseException:
            self.close()
            raise

    def start_postgres(self, settings, tcp, extension):
        user = unprivileged_user()
        home = os.path.join(self.folder, "postgres")
        local_postgres.make_home(self.folder, home, user)
        # Only the machine's own crash could lose something without fsync, and no test survives that.
        self.postgres = Postgres(home, user, {"fsync": "off", "max_connections": 100, "shared_buffers": "32MB",
                                              **settings}, free_port() if tcp else None)
        if extension:
            self.postgres.make_tree(self.build)
        self.postgres.initialise(sync=False)
        self.postgres.start()
        self.postgres.rows("CREATE DATABASE broker", "postgres")
        if extension:
            self.postgres.rows(CREATE_EXTENSION)

    def add_broker(self, properties=None, start=True):
        """One more broker, with the next id."""
        broker_id = len(self.brokers) + 1
        self.brokers[broker_id] = Broker(self, broker_id, {**self.properties, **(properties or {})})
        if start:
            self.brokers[broker_id].start()
        return self.brokers[broker_id]

    def start_brokers(self, seconds=30):
        """Starts those that do not run, and waits until each of them knows all."""
        for broker in self.brokers.values():
            if not broker.pid():
                broker.start(wait=False)
        everybody = set(self.brokers)
        try:
            for broker in self.brokers.values():
                broker.wait_ready(seconds, lambda b=broker: everybody <= b.known_brokers().keys())
        except Trouble as trouble:
            # The folder goes with the test; which of them it was, and why, is in these lines only.
            raise Trouble(f"{trouble}\n{self.logs()}") from None

    def broker(self, broker_id):
        return self.brokers[broker_id]

    @property
    def bootstrap(self):
        return ",".join(broker.address for broker in self.brokers.values())

    @property
    def conninfo(self):
        return self.postgres.conninfo()

    @property
    def psql_command(self):
        return [self.postgres.program("psql"), "-X", "-d", self.conninfo]

    def sql(self, query, user=local_postgres.SUPERUSER):
        return self.postgres.rows(query, user=user)

    def value(self, query, **options):
        return self.sql(query, **options)[0][0]

    def wait_sql(self, query, expected, seconds=10):
        """Waits until a query gives these rows."""
        rows = []

        def as_expected():
            rows[:] = self.sql(query)
            return rows == expected

        if not wait_until(as_expected, seconds, 0.05):
            raise AssertionError(f"{query}\ngives after {seconds} s: {rows}\ninstead of: {expected}")

    def session(self, **options):
        """A psql that stays open: `with c.session() as s: s.ask("BEGIN")`."""
        return Session(self.postgres.psql("-XAtq", *options.get("arguments", ())))

    @staticmethod
    def wait(condition, seconds=10, what="the condition"):
        wait_for(condition, seconds, what)

    def logs(self, lines=40):
        text = ""
        for name in [broker.log for broker in self.brokers.values()] + [self.postgres.log]:
            if os.path.exists(name):
                with open(name, encoding="utf-8", errors="replace") as file:
                    text += f"==> {name}\n" + "".join(file.readlines()[-lines:])
        return text

    def close(self):
        if self.closed:
            return
        self.closed = True
        atexit.unregister(self.close)
        reap(self.folder)
        self.reaper.stdin.close()
        self.reaper.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def reap_postgres(folder, server):
    pids = server.processes()
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    wait_until(lambda: not any(start_time(pid) for pid in pids), 10)
    if not server.socket.startswith(folder):
        shutil.rmtree(server.socket, ignore_errors=True)


def reap(folder):
    """Ends all that runs in a test's folder, by force: nothing of it is needed any more."""
    keep = os.environ.get("KEEP") == "1"
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        if name.startswith("broker-"):
            local_broker.Broker(0, os.path.join(folder, name), 0, None).kill()
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        if name.startswith("postgres") and os.path.isdir(os.path.join(folder, name)):
            reap_postgres(folder, Postgres(os.path.join(folder, name), unprivileged_user()))
    if keep and os.path.isdir(folder):
        print(f"# kept: {folder}", file=sys.stderr)
    elif not keep:
        shutil.rmtree(folder, ignore_errors=True)


def main(argv):
    if argv[:1] == ["--reap"]:
        sys.stdin.buffer.read()  # ends when the test does, however it does
        if os.environ.get("KEEP") != "1":
            reap(argv[1])
        return 0
    parser = argparse.ArgumentParser(description="Runs a command with a private cluster.")
    parser.add_argument("--brokers", type=int, default=1)
    parser.add_argument("--property", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args(argv)
    properties = dict(item.split("=", 1) for item in options.property)
    with Cluster(brokers=options.brokers, properties=properties) as cluster:
        environment = {**local_postgres.clean_environment(), "BOOTSTRAP": cluster.bootstrap, "CLUSTER_DIR": cluster.folder,
                       "PGHOST": cluster.postgres.socket, "PGUSER": local_postgres.SUPERUSER,
                       "PGDATABASE": local_postgres.DATABASE}
        code = subprocess.run(options.command, env=environment, check=False).returncode
        if code:
            print(cluster.logs(), file=sys.stderr)
        return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
