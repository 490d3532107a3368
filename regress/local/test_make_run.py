#!/usr/bin/env python3
"""`make run` and its companions, as a person meets them: first time, again, after a crash, on a taken port, on
a full disk, as root and not, in awkward folders.  Nothing may be half-started afterwards."""
import json
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "regress", "lib"))
from pgbroker_cluster import free_port, wait_for
from procs import process_cwd, start_time
from tap import Tap

BUILD = os.path.abspath(os.environ.get("BUILD") or os.path.join(ROOT, "build"))
# An ordinary user may not be able to run the Python that root has in its home.
PYTHON = shutil.which("python3", path="/usr/bin:/bin") or sys.executable
CLUSTER = os.path.join(ROOT, "docker", "local", "cluster.py")


def call(*argv, stdin="", **options):
    return subprocess.run(argv, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          **options)


class Place:
    """A RUN_DIR, and the commands on it."""

    def __init__(self, run_dir, port=None, user=None, program=CLUSTER, build=BUILD):
        self.run_dir = run_dir
        self.port = port or free_port()
        self.user = user
        self.program = program
        self.build = build

    def make(self, target, stdin="", **variables):
        environment = dict(os.environ, RUN_DIR=self.run_dir, PORT=str(self.port), BUILD=BUILD, **variables)
        return call("make", "-s", "-C", ROOT, target, stdin=stdin, env=environment)

    def do(self, command, *options, stdin=""):
        who = {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []} if self.user else {}
        return call(PYTHON if self.user else sys.executable, self.program, command, "--run-dir", self.run_dir, "--port", str(self.port),
                    "--build", self.build, *options, stdin=stdin, cwd="/", **who)

    def status(self):
        """{"broker 1": (pid or None, address, state), "postgres -": ...}"""
        found = {}
        for line in self.do("status").stdout.splitlines():
            kind, number, pid, rest = line.split(" ", 3)
            address, _, state = rest.rpartition(" ")
            found[f"{kind} {number}"] = (None if pid == "-" else int(pid), address, state)
        return found

    def states(self):
        return {name: state for name, (_, _, state) in self.status().items()}

    def produce(self, text, topic="t"):
        return call("kcat", "-P", "-b", f"127.0.0.1:{self.port}", "-t", topic, stdin=text)

    def consume(self, topic="t"):
        return call("kcat", "-C", "-q", "-e", "-b", f"127.0.0.1:{self.port}", "-t", topic, "-o", "beginning").stdout


RUNNING = {"broker 1": "running", "postgres -": "running"}
STOPPED = {"broker 1": "stopped", "postgres -": "stopped"}


def left_in(folder):
    """Processes that stand in a folder, which is where everything of a cluster stands."""
    return [pid for pid in os.listdir("/proc") if pid.isdigit() and (process_cwd(pid) or "").startswith(folder)]


def first_time(t, base):
    place = Place(os.path.join(base, "a place"))
    done = place.make("run")
    t.equal(done.returncode, 0, "make run starts a cluster in a folder with a space") or t.note(done.stdout)
    t.ok(f"127.0.0.1:{place.port}" in done.stdout and "psql" in done.stdout, "it says the bootstrap address and psql")
    t.equal(place.states(), RUNNING, "make status says that all runs")
    status = place.make("status").stdout
    t.ok(re.fullmatch(rf"broker 1 \d+ 127\.0\.0\.1:{place.port} running\npostgres - \d+ .+ running\n", status),
         "in a line for each process") or t.note(status)
    t.equal(place.make("psql", "SELECT 41 + 1 AS answer").stdout, " answer \n--------\n     42\n(1 row)\n\n",
            "make psql reads standard input and adds nothing")
    t.equal(place.make("psql", "SELECT nonsense").returncode, 0, "and ends as psql does")
    t.equal(place.produce("one\ntwo\n").returncode, 0, "a client produces")
    t.equal(place.consume(), "one\ntwo\n", "and consumes")

    before = place.status()
    done = place.make("run")
    t.ok(done.returncode == 0 and "Already running" in done.stdout, "again it does nothing and says so") or t.note(done.stdout)
    t.equal(place.status(), before, "the same processes run")
    t.ok("==>" in place.make("logs").stdout, "make logs shows the logs and ends")

    t.equal(place.make("stop").returncode, 0, "make stop")
    t.equal(place.states(), STOPPED, "nothing runs")
    t.equal(left_in(place.run_dir), [], "no process is left")
    place.make("run")
    t.equal(place.consume(), "one\ntwo\n", "messages survive stop and run")
    return place


def after_a_crash(t, place):
    for pid, _, _ in place.status().values():
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: place.states() == {"broker 1": "crashed", "postgres -": "crashed"}, 10, "the crash is seen")
    t.ok(True, "make status says crashed")
    # the pid belongs to somebody else now, as after a reboot
    home = os.path.join(place.run_dir, "postgres")
    socket_lock = os.path.join(home, "socket", ".s.PGSQL.5432.lock")
    t.ok(os.path.exists(socket_lock), "the killed server left its socket's lock file")
    for file, text in ((os.path.join(home, "data", "postmaster.pid"), f"{os.getpid()}\n{home}/data\n"),
                       (socket_lock, f"{os.getpid()}\n{home}/data\n"),
                       (os.path.join(place.run_dir, "broker-1", "brokerd.pid"), f"{os.getpid()} 1\n")):
        with open(file, "w", encoding="ascii") as pid_file:
            pid_file.write(text)
    os.makedirs(os.path.join(home, "data.new", "half"), exist_ok=True)
    done = place.do("start")
    t.equal((done.returncode, place.states()), (0, RUNNING), "a killed run is no obstacle") or t.note(done.stdout)
    t.equal(place.consume(), "one\ntwo\n", "messages survive it")

    os.kill(place.status()["broker 1"][0], signal.SIGKILL)
    postgres = place.status()["postgres -"]
    place.do("start")
    t.equal((place.states(), place.status()["postgres -"]), (RUNNING, postgres), "only what is missing is started")


def taken_port(t, base, place):
    other = Place(os.path.join(base, "other"), place.port)
    done = other.do("start")
    t.equal(done.returncode, 1, "a taken port is refused")
    t.ok(re.fullmatch(rf"Port {place.port} is taken by brokerd \(pid \d+\); .*\n", done.stdout),
         "in one sentence that names the holder") or t.note(done.stdout)
    t.ok(not os.path.exists(other.run_dir), "and nothing is left behind")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        other.port = listener.getsockname()[1]
        t.ok("is taken by python" in other.do("start").stdout, "whoever the holder is")
    done = place.do("start", "--port", str(free_port()))
    t.ok(done.returncode == 1 and "make stop" in done.stdout, "another port for a running cluster is refused")


def failing_broker(t, base):
    """A step that fails stops what the same command had started."""
    place = Place(os.path.join(base, "failing"))
    place.do("start", "--brokers", "0")
    place.do("stop")
    os.makedirs(os.path.join(place.run_dir, "broker-1"))
    with open(os.path.join(place.run_dir, "broker-1", "server.properties"), "w", encoding="utf-8") as file:
        file.write("# --- yours\nno.such.option=1\n")
    done = place.do("start", "--brokers", "1")
    t.equal((done.returncode, place.states()), (1, STOPPED), "a broker that does not start leaves PostgreSQL stopped")
    t.ok("brokerd 1 ended while it started" in done.stdout and "no.such.option" in done.stdout,
         "and its reason is said") or t.note(done.stdout)
    t.equal(left_in(place.run_dir), [], "no process is left")
    place.do("destroy")

    place = Place(os.path.join(base, "interrupted"))
    process = subprocess.Popen([sys.executable, CLUSTER, "start", "--run-dir", place.run_dir, "--port", str(place.port),
                                "--build", BUILD], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: os.path.exists(os.path.join(place.run_dir, "postgres", "data")), 30, "PostgreSQL is made")
    process.send_signal(signal.SIGINT)
    t.equal(process.wait(60), 130, "Ctrl-C ends make run")
    t.equal((set(place.states().values()), left_in(place.run_dir)), ({"stopped"}, []), "and what it had started")
    place.do("destroy")


def full_disk(t, base):
    mount = os.path.join(base, "small")
    os.mkdir(mount)
    if call("mount", "-t", "tmpfs", "-o", "size=25m,mode=755", "none", mount).returncode != 0:
        t.skip("a full disk", "no right to mount a small file system")
        return
    try:
        place = Place(os.path.join(mount, "run"))
        done = place.do("start")
        t.ok(done.returncode == 1 and re.fullmatch(r"Only \d+ MB are free .*\n", done.stdout),
             "a disk that is too full is refused in one sentence") or t.note(done.stdout)
        t.ok(not os.path.exists(place.run_dir), "and nothing is left on it")
        # and where it fills while the cluster is made
        done = call(sys.executable, "-c", "import sys, cluster; cluster.SPACE_NEEDED = 0; "
                    "sys.exit(cluster.main(sys.argv[1:]))", "start", "--run-dir", place.run_dir, "--build", BUILD,
                    "--port", str(place.port), cwd=os.path.dirname(CLUSTER))
        t.ok(done.returncode == 1 and "no space is left" in done.stdout.lower(), "so is one that fills") or t.note(done.stdout)
        t.equal(left_in(mount), [], "no process is left")
        t.ok(shutil.disk_usage(mount).free > 8 << 20, "and the half-made data are removed")
    finally:
        call("umount", mount)


def awkward_folders(t, base):
    place = Place(os.path.join(base, "x" * 120, "run"))
    done = place.do("start")
    t.equal((done.returncode, place.states()), (0, RUNNING), "a path too long for a socket") or t.note(done.stdout)
    socket_folder = place.status()["postgres -"][1]
    place.do("destroy")
    t.ok(not os.path.exists(socket_folder), "its socket's folder goes with it")

    place = Place(os.path.join(base, "a,b"))
    done = place.do("start")
    t.ok(done.returncode == 1 and "','" in done.stdout, "a comma in the path is refused") or t.note(done.stdout)
    os.makedirs(os.path.join(base, "mine"))
    with open(os.path.join(base, "mine", "letter"), "w", encoding="ascii") as file:
        file.write("dear")
    t.ok("choose an empty folder" in Place(os.path.join(base, "mine")).do("start").stdout, "somebody's folder is not taken")
    t.ok("damaged" in damaged(base), "a damaged cluster.json is named")


def damaged(base):
    place = Place(os.path.join(base, "damaged"))
    os.makedirs(place.run_dir)
    with open(os.path.join(place.run_dir, "cluster.json"), "w", encoding="ascii") as file:
        json.dump({"brokers": "many"}, file)
    return place.do("start").stdout


def copy_program(folder):
    """What a cluster needs of a checkout, somewhere else."""
    shutil.copytree(os.path.dirname(CLUSTER), os.path.join(folder, "local"), ignore=shutil.ignore_patterns("__pycache__"))
    os.makedirs(os.path.join(folder, "build"))
    shutil.copy2(os.path.join(BUILD, "brokerd"), os.path.join(folder, "build"))
    shutil.copytree(os.path.join(BUILD, "extension"), os.path.join(folder, "build", "extension"))
    return {"program": os.path.join(folder, "local", "cluster.py"), "build": os.path.join(folder, "build")}


def as_root_where_postgres_cannot_enter(t):
    if os.geteuid() != 0:
        t.skip("a checkout that PostgreSQL's user cannot enter", "not root")
        return
    with tempfile.TemporaryDirectory() as folder:  # 0700
        place = Place(os.path.join(folder, "run"), **copy_program(folder))
        done = place.do("start")
        t.equal((done.returncode, place.states()), (0, RUNNING), "a checkout that PostgreSQL's user cannot enter") or t.note(
            done.stdout)
        home = os.path.dirname(place.status()["postgres -"][1])
        t.ok(not home.startswith(folder), "PostgreSQL is elsewhere")
        shutil.copytree(place.run_dir, place.run_dir + "2")
        copy = Place(place.run_dir + "2", **{"program": place.program, "build": place.build})
        t.ok("is a copy of" in copy.do("start").stdout, "a copy of RUN_DIR does not run on the same data")
        copy.do("destroy")
        t.equal(place.states(), RUNNING, "and destroying the copy does not touch them")
        place.do("stop")
        os.rename(place.run_dir, os.path.join(folder, "moved"))
        moved = Place(os.path.join(folder, "moved"), place.port, program=place.program, build=place.build)
        t.equal((moved.do("start").returncode, moved.states()), (0, RUNNING), "a RUN_DIR that is moved keeps its data")
        moved.do("destroy")
        t.ok(not os.path.exists(home), "destroy removes what is elsewhere")


def as_ordinary_user(t):
    if os.geteuid() != 0:
        t.skip("as an ordinary user", "the tests above ran as one")
        return
    user = pwd.getpwnam("nobody")
    with tempfile.TemporaryDirectory() as folder:
        program = copy_program(folder)
        os.chmod(folder, 0o755)
        os.makedirs(os.path.join(folder, "home"))
        os.chown(os.path.join(folder, "home"), user.pw_uid, user.pw_gid)
        place = Place(os.path.join(folder, "home", "run"), user=user, **program)
        done = place.do("start")
        t.equal((done.returncode, place.states()), (0, RUNNING), "an ordinary user runs a cluster") or t.note(done.stdout)
        owners = {os.stat(f"/proc/{pid}").st_uid for pid, _, _ in place.status().values() if pid and start_time(pid)}
        t.equal(owners, {user.pw_uid}, "as himself")
        place.produce("x\n")
        t.equal(place.consume(), "x\n", "and a client uses it")
        place.do("destroy")
        t.equal(os.listdir(os.path.join(folder, "home")), [], "destroy leaves nothing")
        forbidden = Place(os.path.join(folder, "run"), user=user, **program)
        done = forbidden.do("start")
        t.ok(done.returncode == 1 and re.fullmatch(r"No permission for .*\n", done.stdout), "a folder without rights is one "
             "sentence") or t.note(done.stdout)


def three_brokers(t, base):
    place = Place(os.path.join(base, "three"))
    done = place.do("start", "--brokers", "3")
    t.equal((done.returncode, set(place.states().values())), (0, {"running"}), "three brokers") or t.note(done.stdout)
    t.equal(len(place.status()), 4, "a line for each")
    place.do("stop")
    place.do("start")
    t.equal(len(place.status()), 4, "run without options brings all of them back")
    place.do("destroy")


def main():
    with Tap() as t, tempfile.TemporaryDirectory() as base:
        os.chmod(base, 0o755)
        place = None
        try:
            with t.case("the first time"):
                place = first_time(t, base)
            with t.case("after a crash"):
                after_a_crash(t, place)
            with t.case("a taken port"):
                taken_port(t, base, place)
            for part in (failing_broker, full_disk, awkward_folders, three_brokers):
                with t.case(part.__name__.replace("_", " ")):
                    part(t, base)
            for part in (as_root_where_postgres_cannot_enter, as_ordinary_user):
                with t.case(part.__name__.replace("_", " ")):
                    part(t)
            done = place.make("destroy")
            t.equal((done.returncode, os.path.exists(place.run_dir)), (0, False), "make destroy removes it")
        finally:
            for name in os.listdir(base):
                if os.path.exists(os.path.join(base, name, "cluster.json")):
                    Place(os.path.join(base, name)).do("destroy")


if __name__ == "__main__":
    main()
