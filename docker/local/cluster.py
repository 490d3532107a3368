#!/usr/bin/env python3
"""The private cluster of this checkout: one PostgreSQL with the extension, and its brokers.

    cluster.py start|stop|status|logs|psql|destroy --run-dir DIR [--brokers N] [--port P] [--build DIR]

`make run`, `make stop`, ... call it.  RUN_DIR holds all that a cluster has:

    cluster.json         {"brokers": N, "port": P}: what it was started with; its presence makes a folder a RUN_DIR
    lock                 held by the command at work
    broker-N/            one brokerd each (broker.py)
    postgres/            the PostgreSQL (postgres.py), or
    postgres.location    where it is, when the user that runs it cannot enter RUN_DIR

What is started is stopped again when a later step fails or the command is interrupted; what was running
before stays.  Every trouble that a person can do something about is one sentence on stderr and exit code 1.
"""
import argparse
import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from broker import Broker
from postgres import DATABASE, ELSEWHERE, NotItsHome, Postgres, SqlError, choose_home, clean_environment, make_home
from procs import (Lock, Trouble, explain_os_error, port_holder, port_is_taken, terminate_like_interrupt,
                   unprivileged_user)

DEFAULT_PORT = 9092
MOST_BROKERS = 100
SPACE_NEEDED = 200 << 20
# Views of figures that brokers report are a second old at most: somebody is looking.
FOR_PEOPLE = {"pg_broker.report.interval.ms": 1000}
OURS = {"lock", "cluster.json", "cluster.json.new"}


def tell(line):
    print(line, flush=True)


class Cluster:
    def __init__(self, run_dir, brokers, port, build):
        self.run_dir = os.path.realpath(run_dir)
        self.shown = run_dir
        self.build = os.path.abspath(build)
        self.state_file = os.path.join(self.run_dir, "cluster.json")
        self.asked = {"brokers": brokers, "port": port}
        self.started = []
        self.load()

    def load(self):
        """What the folder says; again once the lock is held, since another command may have changed it."""
        before = self.read_state()
        self.exists = before is not None
        self.before = before or {"brokers": 1, "port": DEFAULT_PORT}
        self.wanted = {key: self.before[key] if value is None else value for key, value in self.asked.items()}

    # -- what it consists of

    def read_state(self):
        try:
            with open(self.state_file, encoding="utf-8") as file:
                state = json.load(file)
            return {"brokers": int(state["brokers"]), "port": int(state["port"])}
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            raise Trouble(f"{self.state_file} is damaged; it should read {{\"brokers\": 1, \"port\": 9092}}.") from None

    def write_state(self):
        with open(self.state_file + ".new", "w", encoding="utf-8") as file:
            json.dump(self.wanted, file)
            file.write("\n")
        os.replace(self.state_file + ".new", self.state_file)

    def postgres(self):
        user = unprivileged_user()
        return Postgres(choose_home(self.run_dir, user), user)

    def broker_list(self, state):
        return [Broker(i, os.path.join(self.run_dir, f"broker-{i}"), state["port"] + i - 1,
                       os.path.join(self.build, "brokerd")) for i in range(1, state["brokers"] + 1)]

    @contextlib.contextmanager
    def locked(self):
        with Lock(os.path.join(self.run_dir, "lock"), tell):
            self.load()
            yield

    def require(self):
        if not self.exists:
            raise Trouble(f"There is no cluster in {self.shown}; `make run` makes one.")

    # -- start

    def prepare_folder(self):
        """RUN_DIR, empty or ours; a folder with other people's files is never taken."""
        for character, why in ((",", "log.dirs separates folders by it"), ("\\", "properties files escape with it"),
                               ("\n", "a line of a properties file ends with it")):
            if character in self.run_dir:
                raise Trouble(f"RUN_DIR cannot have {character!r} in its path: {why}.")
        if not os.path.isdir(self.run_dir):
            os.makedirs(self.run_dir)
            if os.geteuid() == 0:
                os.chmod(self.run_dir, 0o755)
        elif not self.exists and set(os.listdir(self.run_dir)) - OURS:
            raise Trouble(f"{self.shown} has files that are not a cluster's; choose an empty folder as RUN_DIR.")

    def check_space(self, folder):
        while not os.path.exists(folder):
            folder = os.path.dirname(folder)
        free = shutil.disk_usage(folder).free
        if free < SPACE_NEEDED:
            raise Trouble(f"Only {free >> 20} MB are free on the file system of {folder}; "
                          f"a cluster needs {SPACE_NEEDED >> 20} MB to start.")

    def check_ports(self, brokers):
        for broker in brokers:
            if port_is_taken(broker.port):
                holder = port_holder(broker.port)
                who = f"{holder[1]} (pid {holder[0]})" if holder else "another process"
                raise Trouble(f"Port {broker.port} is taken by {who}; choose another one, "
                              f"for example `make run PORT={self.wanted['port'] + 100}`.")

    def start(self):
        self.prepare_folder()
        with self.locked():
            try:
                self.start_locked()
            except BaseException:
                for what in reversed(self.started):
                    what.stop()
                self.remove_if_empty()
                raise

    def remove_if_empty(self):
        """A first start that did not get far leaves nothing."""
        if not set(os.listdir(self.run_dir)) - {"lock"}:
            os.unlink(os.path.join(self.run_dir, "lock"))
            os.rmdir(self.run_dir)

    def start_locked(self):
        running = [broker for broker in self.broker_list(self.before) if broker.pid()] if self.exists else []
        if running and self.wanted["port"] != self.before["port"]:
            raise Trouble(f"It runs on port {self.before['port']}; `make stop` it first to start it on another one.")
        brokers = self.broker_list(self.wanted)
        missing = [broker for broker in brokers if not broker.pid()]
        postgres = self.postgres()
        if self.exists and not missing and postgres.is_ready():
            self.wait_ready(brokers)
            tell("Already running, nothing to do.")
            self.describe(brokers, postgres)
            return
        self.check_ports(missing)
        if not postgres.pid():
            self.check_space(postgres.home)
        self.check_space(self.run_dir)
        self.write_state()
        self.start_postgres(postgres)
        for broker in missing:
            broker.write_config(postgres.conninfo("brokerd"), FOR_PEOPLE)
            self.started.append(broker)
            broker.start(clean_environment())
        self.wait_ready(brokers)
        self.describe(brokers, postgres)

    def wait_ready(self, brokers):
        """A client that knows any one broker must find all of them."""
        everybody = {broker.id for broker in brokers}
        for broker in brokers:
            broker.wait_ready(condition=lambda b=broker: everybody <= b.known_brokers().keys())

    def start_postgres(self, postgres):
        if not postgres.pid():
            make_home(self.run_dir, postgres.home, postgres.user)
            postgres.make_tree(self.build)
            if not postgres.made_by():
                tell("Initialising a private PostgreSQL.")
            postgres.initialise()
            self.started.append(postgres)
            postgres.start()
        self.create_extension(postgres)

    def create_extension(self, postgres):
        if not postgres.rows(f"SELECT 1 FROM pg_database WHERE datname = '{DATABASE}'", "postgres"):
            postgres.rows(f"CREATE DATABASE {DATABASE}", "postgres")
        postgres.rows(CREATE_EXTENSION)
        # A checkout whose SQL was edited has the same version: nothing upgrades, and that is worth a word.
        made, script = (os.path.join(postgres.home, "extension.sha256"), self.script_digest(postgres))
        if not os.path.exists(made):
            with open(made, "w", encoding="ascii") as file:
                file.write(script + "\n")
        with open(made, encoding="ascii") as file:
            if file.read().strip() != script:
                tell("Note: the extension's install script is not the one this cluster was made with; "
                     "`make destroy run` makes it anew.")

    @staticmethod
    def script_digest(postgres):
        digest = hashlib.sha256()
        for folder, _, names in sorted(os.walk(postgres.tree)):
            for name in sorted(names):
                if name.startswith("pg_broker--") and name.endswith(".sql"):
                    with open(os.path.join(folder, name), "rb") as file:
                        digest.update(name.encode() + file.read())
        return digest.hexdigest()

    def describe(self, brokers, postgres):
        bootstrap = ",".join(broker.address for broker in brokers)
        options = "" if self.shown == "run" else f" RUN_DIR='{self.shown}'"
        tell(f"""
pg_broker is running: {len(brokers)} broker{'s' if len(brokers) != 1 else ''} and a PostgreSQL of its own, data in {self.run_dir}

  bootstrap address   {bootstrap}
  psql                make psql{options}
                      psql "{postgres.conninfo()}"

Three commands to try:

  echo hello | kcat -P -b {bootstrap} -t greetings
  kcat -C -b {bootstrap} -t greetings -o beginning -e
  echo 'SELECT topic, partition, leader, isr FROM broker.partitions' | make psql{options}
""")

    # -- the rest

    def stop(self):
        if not self.exists:
            tell(f"There is no cluster in {self.shown}.")
            return
        with self.locked():
            was_running = self.stop_all()
        tell("Stopped; the data are kept." if was_running else "It was not running.")

    def stop_all(self):
        stopped = False
        for broker in reversed(self.broker_list(self.before)):
            if broker.pid():
                stopped = True
            if broker.stop() == 9:
                tell(f"brokerd {broker.id} did not end within 30 s and was killed; see {broker.log}.")
        postgres = self.postgres()
        if postgres.pid():
            stopped = True
        postgres.stop()
        return stopped

    def status(self):
        for broker in self.broker_list(self.before if self.exists else self.wanted):
            tell(f"broker {broker.id} {broker.pid() or '-'} {broker.address} {broker.state()}")
        if self.exists:
            postgres = self.postgres()
            tell(f"postgres - {postgres.pid() or '-'} {postgres.socket} {postgres.state()}")
        else:
            tell("postgres - - - stopped")

    def logs(self):
        """The last lines of every log; on a terminal also what comes, until Ctrl-C."""
        self.require()
        files = [broker.log for broker in self.broker_list(self.before)] + [self.postgres().log]
        files = [file for file in files if os.path.exists(file)]
        follow = ["-F"] if sys.stdout.isatty() else []
        sys.stdout.flush()
        try:
            subprocess.run(["tail", "-n", "100", *follow, "--", *files], check=False)
        except KeyboardInterrupt:
            pass

    def psql(self, arguments):
        self.require()
        postgres = self.postgres()
        if not postgres.pid():
            raise Trouble(f"The PostgreSQL of {self.shown} is not running; `make run` starts it.")
        argv = postgres.psql(*arguments)
        os.execve(argv[0], argv, clean_environment())

    def destroy(self):
        if not self.exists:
            tell(f"There is no cluster in {self.shown}.")
            return
        if sys.stdin.isatty():
            answer = input(f"This stops the cluster in {self.run_dir} and deletes its topics and messages. "
                           "Type yes to go on: ")
            if answer.strip() != "yes":
                raise Trouble("Nothing was changed.")
        with self.locked():
            self.destroy_postgres()
            for broker in self.broker_list(dict(self.before, brokers=MOST_BROKERS)):
                broker.stop()
                if os.path.isdir(broker.folder):
                    shutil.rmtree(broker.folder)
            for name in ("postgres.location", "postgres.location.new", "cluster.json.new", "cluster.json", "lock"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(self.run_dir, name))
        with contextlib.suppress(OSError):  # other files may be in there, or other clusters
            os.rmdir(self.run_dir)
            os.rmdir(ELSEWHERE)
        tell(f"The cluster in {self.shown} is gone.")

    def destroy_postgres(self):
        try:
            postgres = self.postgres()
        except NotItsHome:
            return
        for broker in reversed(self.broker_list(self.before)):
            broker.stop()
        postgres.stop()
        for folder in (postgres.socket, postgres.home):
            if os.path.isdir(folder):
                shutil.rmtree(folder)


# brokerd logs in as a role of its own, a member of the extension's broker_daemon.
CREATE_EXTENSION = """
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_broker;
ALTER EXTENSION pg_broker UPDATE;
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'brokerd') THEN
        CREATE ROLE brokerd LOGIN IN ROLE broker_daemon;
    END IF;
END
$$;
"""


def number(least, most):
    def check(text):
        if not text.isdigit() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from {least} to {most}")
        return int(text)
    return check


def parse(argv):
    parser = argparse.ArgumentParser(prog="cluster.py", description="The private cluster of this checkout.")
    parser.add_argument("command", choices=["start", "stop", "status", "logs", "psql", "destroy"])
    parser.add_argument("--run-dir", default="run")
    parser.add_argument("--brokers", type=number(0, MOST_BROKERS), metavar="N", help="0: only PostgreSQL")
    parser.add_argument("--port", type=number(1, 65000), metavar="P")
    parser.add_argument("--build", default="build")
    parser.add_argument("arguments", nargs="*", help="psql's, after --")
    # make passes an option that was not given as an empty one
    return parser.parse_args([word for word in argv if word not in ("--brokers=", "--port=")])


def main(argv):
    options = parse(argv)
    terminate_like_interrupt()
    try:
        cluster = Cluster(options.run_dir, options.brokers, options.port, options.build)
        if options.command == "psql":
            cluster.psql(options.arguments)
        getattr(cluster, options.command)()
    except Trouble as trouble:
        print(trouble, file=sys.stderr)
        return 1
    except SqlError as error:
        print(f"PostgreSQL refused a step of the start: {str(error).splitlines()[0]}", file=sys.stderr)
        return 1
    except OSError as error:
        print(explain_os_error(error, options.command), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Interrupted; what this command had started is stopped again.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
