"""The private PostgreSQL of a cluster: made, started, asked and stopped.

A home folder holds all of it:

    home/tree/          a private copy of PostgreSQL's installation with the extension in it (pg_tree.sh)
    home/data/          the database cluster; it appears by a rename, so a half-made one is never taken for it
    home/socket/        its Unix socket; nobody but its owner can enter
    home/postgres.log   what it says

It listens on the Unix socket only (and, where a test asks for it, on a port of the loopback with a
password), so no other PostgreSQL on the machine has a port or a path in common with it.
"""
import csv
import glob
import hashlib
import io
import os
import re
import secrets
import shutil
import signal
import subprocess
import tempfile

from procs import (Trouble, as_user, can_enter, end, is_gone, process_cwd, process_name, spawn, start_time,
                   uninterrupted, wait_until)

HERE = os.path.dirname(os.path.abspath(__file__))
DATABASE = "broker"
# Where the server's folder is when its user cannot enter RUN_DIR.
ELSEWHERE = "/var/lib/pg_broker"
SUPERUSER = "postgres"
# sun_path has 108 bytes, the last one is a zero.
SOCKET_PATH_LIMIT = 107
SOCKET_NAME = "/.s.PGSQL.65535"


def bindir(major=None):
    """The programs of the newest installed server, or of the one of a major version; PG_CONFIG overrides."""
    if "PG_CONFIG" in os.environ:
        return ask_pg_config(os.environ["PG_CONFIG"])
    found = [path for path in glob.glob("/usr/lib/postgresql/*/bin/postgres") if path.split("/")[4].isdigit()]
    found.sort(key=lambda path: int(path.split("/")[4]))
    if major and os.path.exists(f"/usr/lib/postgresql/{major}/bin/postgres"):
        return f"/usr/lib/postgresql/{major}/bin"
    return os.path.dirname(found[-1]) if found else ask_pg_config("pg_config")


def ask_pg_config(config):
    try:
        return subprocess.run([config, "--bindir"], check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        raise Trouble(f"No PostgreSQL server is installed ({config} does not run).") from None


def clean_environment():
    """Our environment without what would lead libpq or the server to another instance."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")}


def conninfo_quote(value):
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def setting_quote(value):
    return "'" + str(value).replace("'", "''") + "'"


class Postgres:
    """One private server.  `user` is the pwd entry that it runs as; None = whoever runs us."""

    def __init__(self, home, user, settings=None, tcp_port=None):
        self.home = os.path.abspath(home)
        self.user = user
        self.data = os.path.join(self.home, "data")
        self.tree = os.path.join(self.home, "tree")
        self.log = os.path.join(self.home, "postgres.log")
        self.socket = self.socket_folder()
        self.settings = settings or {}
        self.tcp_port = tcp_port
        self.port = tcp_port or 5432  # also in the socket's name
        self.password_file = os.path.join(self.home, "password")
        self.child = None

    # -- where things are

    def socket_folder(self):
        """home/socket, or a short name in /tmp where a socket's path would be too long or need quoting."""
        folder = os.path.join(self.home, "socket")
        plain = re.fullmatch(r"[A-Za-z0-9/._+ -]+", folder)
        if plain and len(os.fsencode(folder + SOCKET_NAME)) <= SOCKET_PATH_LIMIT:
            return folder
        return f"/tmp/pg_broker-{os.geteuid()}-{hashlib.sha256(os.fsencode(self.home)).hexdigest()[:12]}"

    def program(self, name):
        """A program of the private tree, or of the installation while there is no tree."""
        for folder, _, names in os.walk(self.tree):
            if os.path.basename(folder) == "bin" and "postgres" in names:
                return os.path.join(folder, name)
        return os.path.join(bindir(self.made_by()), name)

    def conninfo(self, user=SUPERUSER, dbname=DATABASE):
        return f"host={conninfo_quote(self.socket)} port={self.port} dbname={dbname} user={user}"

    def tcp_conninfo(self, user=SUPERUSER, dbname=DATABASE):
        return f"host=127.0.0.1 port={self.port} dbname={dbname} user={user} password={self.password()}"

    def password(self):
        with open(self.password_file, encoding="ascii") as file:
            return file.read().strip()

    # -- making it

    def make_folder(self, path, mode=0o700):
        os.makedirs(path, exist_ok=True)
        os.chmod(path, mode)
        if self.user:
            os.chown(path, self.user.pw_uid, self.user.pw_gid)

    def make_socket_folder(self):
        """In /tmp somebody else could have made the name before us: it must be ours, and a folder."""
        try:
            self.make_folder(self.socket)
        except FileExistsError:
            raise Trouble(f"{self.socket} is in the way: it is not a folder.") from None
        owner = self.user.pw_uid if self.user else os.geteuid()
        if os.path.islink(self.socket) or os.stat(self.socket).st_uid != owner:
            raise Trouble(f"{self.socket} belongs to somebody else; remove it.")

    def run(self, argv, what):
        """Runs a program as the server's user; a failure becomes one sentence with its last line."""
        done = subprocess.run(argv, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env=clean_environment(), check=False, **as_user(self.user))
        if done.returncode != 0:
            raise Trouble(f"{what} failed: {self.reason(done.stdout.decode(errors='replace'))}")
        return done.stdout

    def reason(self, output):
        """The line of a program's output that says why it failed."""
        lines = [line.strip() for line in output.splitlines() if line.strip()]
        for line in lines:
            if "No space left" in line or "Disk quota exceeded" in line:
                return f"no space is left on the file system of {self.home}."
        for line in lines:
            if re.search(r"(FATAL|PANIC|error|ERROR):", line):
                return re.sub(r"^.*?(FATAL|PANIC|error|ERROR):\s*", "", line)
        return lines[-1] if lines else "it said nothing"

    def make_tree(self, build):
        """The private installation with the extension that `make` built in `build`."""
        done = subprocess.run(
            [os.path.join(HERE, "pg_tree.sh"), self.tree, os.path.join(build, "extension"),
             os.path.join(bindir(self.made_by()), "pg_config")],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if done.returncode != 0:
            raise Trouble("The private copy of PostgreSQL could not be made: "
                          + self.reason(done.stdout.decode(errors="replace")))

    def initialise(self, sync=True):
        """initdb beside its place, then a rename."""
        if self.made_by():
            self.check_version()
            return
        half_made = self.data + ".new"
        shutil.rmtree(half_made, ignore_errors=True)
        with tempfile.NamedTemporaryFile("w", suffix=".pw", dir=self.home) as first:
            first.write(secrets.token_hex(16) + "\n")
            first.flush()
            if self.user:
                os.chown(first.name, self.user.pw_uid, self.user.pw_gid)
            argv = [self.program("initdb"), "-D", half_made, "-U", SUPERUSER, "-E", "UTF8", "--locale=C.UTF-8", "-k",
                    "--auth-local=trust", "--auth-host=scram-sha-256", f"--pwfile={first.name}"]
            try:
                self.run(argv + ([] if sync else ["--no-sync"]), "initdb")
            except BaseException:
                shutil.rmtree(half_made, ignore_errors=True)
                raise
            shutil.copy2(first.name, self.password_file)
        os.chmod(self.password_file, 0o600)
        os.rename(half_made, self.data)

    def made_by(self):
        """The major version that made the data, None before there are any."""
        try:
            with open(os.path.join(self.data, "PG_VERSION"), encoding="ascii") as file:
                return file.read().strip()
        except FileNotFoundError:
            return None

    def check_version(self):
        # postgres (PostgreSQL) 15.20 (Debian 15.20-0+deb12u1)
        said = subprocess.run([self.program("postgres"), "-V"], capture_output=True, text=True, check=False).stdout
        found = re.search(r"\) (\d+)", said)
        if not found or found.group(1) != self.made_by():
            raise Trouble(f"The data in {self.data} are of PostgreSQL {self.made_by()}, which is not installed any more.")

    def configure(self):
        """pg_broker.conf is ours and written at each start; postgresql.conf includes it and is the user's."""
        settings = {
            "listen_addresses": "127.0.0.1" if self.tcp_port else "",
            "port": self.port,
            "unix_socket_directories": f'"{self.socket}"',
            "unix_socket_permissions": "0700",
            "max_connections": 200,
            "log_destination": "stderr",
            "logging_collector": "off",
            "log_line_prefix": "%m [%p] %q%u@%d ",
            "cluster_name": "pg_broker",
            **self.settings,
        }
        text = "# Written at each start; your own settings belong into postgresql.conf, below its last line.\n"
        text += "".join(f"{name} = {setting_quote(value)}\n" for name, value in settings.items())
        path = os.path.join(self.data, "pg_broker.conf")
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(path + ".new", path)
        main = os.path.join(self.data, "postgresql.conf")
        with open(main, encoding="utf-8") as file:
            included = "include = 'pg_broker.conf'" in file.read()
        if not included:
            with open(main, "a", encoding="utf-8") as file:
                file.write("\ninclude = 'pg_broker.conf'\n")
        if self.user:
            os.chown(path, self.user.pw_uid, self.user.pw_gid)

    # -- running it

    def postmaster_file(self):
        try:
            with open(os.path.join(self.data, "postmaster.pid"), encoding="utf-8", errors="replace") as file:
                return file.read().splitlines()
        except OSError:
            return []

    def is_ours(self, pid):
        """Whether a pid is a PostgreSQL process of this data folder, which is where they all stand."""
        return process_cwd(pid) == os.path.realpath(self.data) and process_name(pid) == "postgres"

    def pid(self):
        """The running postmaster's pid, else None."""
        lines = self.postmaster_file()
        if lines and lines[0].isdigit() and start_time(lines[0]) and self.is_ours(lines[0]):
            return int(lines[0])
        return None

    def is_ready(self):
        lines = self.postmaster_file()
        return self.pid() is not None and len(lines) >= 8 and lines[7].strip() == "ready"

    def state(self):
        if self.pid() is None:
            return "stopped" if not self.postmaster_file() else "crashed"
        return "running" if self.is_ready() else "starting"

    def clear_killed_run(self):
        """What a killed server leaves: backends that are about to notice, and two lock files whose pid may
        belong to somebody else by now (PostgreSQL would take that for a running server)."""
        left = [pid for pid in os.listdir("/proc") if pid.isdigit() and self.is_ours(pid)]
        if not wait_until(lambda: not [pid for pid in left if start_time(pid) and self.is_ours(pid)], 5, 0.1):
            for pid in left:
                end(int(pid), [(signal.SIGQUIT, 5), (signal.SIGKILL, 5)])
        locks = [name for name in os.listdir(self.socket) if name.startswith(".s.PGSQL.") and name.endswith(".lock")]
        for path in [os.path.join(self.data, "postmaster.pid"), *(os.path.join(self.socket, name) for name in locks)]:
            try:
                os.unlink(path)
            except FileNotFoundError:
                pass

    def start(self, seconds=60):
        """Starts the server and waits until it takes connections."""
        self.make_socket_folder()
        self.configure()
        self.clear_killed_run()
        said_before = os.path.getsize(self.log) if os.path.exists(self.log) else 0
        with uninterrupted():  # or stop() would not know what there is to stop
            self.child = spawn([self.program("postgres"), "-D", self.data], self.log, "/", user=self.user,
                               env=clean_environment())
        started = start_time(self.child.pid)
        wait_until(lambda: self.is_ready() or is_gone(self.child.pid, started, self.child), seconds)
        if not self.is_ready():
            if self.pid():
                self.stop()
                raise Trouble(f"PostgreSQL did not become ready in {seconds} s; see {self.log}.")
            with open(self.log, encoding="utf-8", errors="replace") as file:
                file.seek(said_before)
                raise Trouble(f"PostgreSQL did not start: {self.reason(file.read())} (see {self.log})")

    def stop(self, how=signal.SIGINT):
        """A fast shutdown; an immediate one when that takes too long."""
        pid = self.pid()
        if not pid and self.child and self.child.poll() is None:
            pid = self.child.pid  # interrupted before it wrote its lock file
        if pid:
            end(pid, [(how, 30), (signal.SIGQUIT, 10), (signal.SIGKILL, 10)], self.child)
        self.child = None

    # -- asking it

    def psql(self, *arguments):
        return [self.program("psql"), *arguments, "-d", self.conninfo()]

    def rows(self, query, dbname=DATABASE, user=SUPERUSER):
        """The rows of a query as tuples of str, NULL as None; of several statements, those of each in turn."""
        done = subprocess.run(
            [self.program("psql"), "-Xtq", "--csv", "-P", "null=\x1d", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=verbose",
             "-v", "SHOW_CONTEXT=never", "-d", self.conninfo(user, dbname), "-f", "-"],
            input=query, capture_output=True, text=True, env=clean_environment(), check=False)
        if done.returncode != 0:
            raise SqlError(done.stderr.strip() or f"psql ended with {done.returncode}")
        return [tuple(None if field == "\x1d" else field for field in row)
                for row in csv.reader(io.StringIO(done.stdout, newline=""))]


class NotItsHome(Trouble):
    """RUN_DIR names a folder outside of it for PostgreSQL, and that one is gone or another RUN_DIR's."""


class SqlError(Exception):
    """What psql printed about a statement that failed; `sqlstate` where it says one."""

    def __init__(self, text):
        super().__init__(text)
        found = re.search(r"(?:ERROR|FATAL|PANIC):\s+([0-9A-Z]{5}):", text)
        self.sqlstate = found.group(1) if found else None


def choose_home(run_dir, user):
    """RUN_DIR/postgres, or a folder of its own where the server's user cannot enter RUN_DIR.

    The other folder's name stands in RUN_DIR/postgres.location, so that it goes where RUN_DIR is moved, and
    RUN_DIR's name stands in its `run_dir`, so that a copy of RUN_DIR does not run on the same data.
    """
    pointer = os.path.join(run_dir, "postgres.location")
    home = os.path.join(run_dir, "postgres")
    if os.path.exists(pointer):
        with open(pointer, encoding="utf-8") as file:
            home = file.read().rstrip("\n")
        if not os.path.isdir(home):
            raise NotItsHome(f"{home}, where the PostgreSQL of {run_dir} was, is gone; `make destroy` clears the rest.")
        with open(os.path.join(home, "run_dir"), encoding="utf-8") as file:
            owner = file.read().rstrip("\n")
        if owner != run_dir and os.path.exists(os.path.join(owner, "postgres.location")):
            raise NotItsHome(f"{run_dir} is a copy of {owner}, whose PostgreSQL is in {home}; "
                             "`make destroy` with this RUN_DIR removes the copy.")
        return home
    if os.path.isdir(home) or can_enter(run_dir, user):
        return home
    digest = hashlib.sha256(os.fsencode(run_dir)).hexdigest()[:12]
    return f"{ELSEWHERE}/{digest}"


def make_home(run_dir, home, user):
    """Makes the home folder; one outside RUN_DIR is written down in both places first."""
    if os.path.dirname(home) != run_dir:
        os.makedirs(os.path.dirname(home), mode=0o755, exist_ok=True)
        os.makedirs(home, exist_ok=True)
        for path, text in ((os.path.join(home, "run_dir"), run_dir),
                           (os.path.join(run_dir, "postgres.location"), home)):
            with open(path + ".new", "w", encoding="utf-8") as file:
                file.write(text + "\n")
            os.replace(path + ".new", path)
    os.makedirs(home, exist_ok=True)
    os.chmod(home, 0o700)
    if user:
        os.chown(home, user.pw_uid, user.pw_gid)
