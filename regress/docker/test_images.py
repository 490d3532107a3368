#!/usr/bin/env python3
"""The images of docker/Dockerfile are built, and docker/compose.yaml is run with them: one PostgreSQL and three brokers."""
import json
import os
import re
import signal
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "lib"), os.path.join(HERE, "..", "..", "docker", "local")]

import images
from images import ROOT, Failed, Images, run
from procs import wait_until
from tap import Tap

BROKERS = {"broker-1": 19092, "broker-2": 19093, "broker-3": 19094}
PROJECT = "pg_broker"
USER = 999
STARTS_IN = 60


class Compose:
    """docker/compose.yaml by podman-compose, which starts a service when it is told to: it waits for no health."""

    def __init__(self, built):
        self.built = built

    def say(self, *arguments):
        return run(["podman-compose", "-f", "docker/compose.yaml", "-p", PROJECT, *arguments], cwd=ROOT,
                   env=dict(self.built.environment, BROKERD_PASSWORD="it's secret")).stdout

    def up(self, *services):
        self.say("up", "--detach", "--no-build", "--no-deps", *services)
        for service in services:
            assert wait_until(lambda: self.is_healthy(service), STARTS_IN, 0.3), \
                f"{service} is not healthy:\n{self.log(service)}\n{self.inspect(service, '.State')}"

    def name(self, service):
        return self.built.podman("ps", "--all", "--quiet", "--filter", f"label=com.docker.compose.service={service}").strip()

    def is_healthy(self, service):
        return run(["podman", "healthcheck", "run", self.name(service)], False, env=self.built.environment).returncode == 0

    def inspect(self, service, field):
        return json.loads(self.built.podman("inspect", "--format", "{{json %s}}" % field, self.name(service)))

    def log(self, service):
        return self.built.podman("logs", self.name(service), check=False)

    def execute(self, service, *argv):
        return self.built.podman("exec", self.name(service), *argv)

    def processes(self, service):
        """{pid: what /proc says} of the container, by the first process's pid namespace."""
        space = os.readlink(f"/proc/{self.inspect(service, '.State.Pid')}/ns/pid")
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{pid}/ns/pid") == space:
                    with open(f"/proc/{pid}/status", encoding="utf-8") as status:
                        found[int(pid)] = dict(line.rstrip().split(":\t", 1) for line in status if ":\t" in line)
            except OSError:
                pass  # it has ended
        return found


def kcat(*arguments, text=""):
    return run(["kcat", "-q", *arguments], input=text).stdout


def read_all(port):
    return sorted(kcat("-C", "-e", "-b", f"127.0.0.1:{port}", "-t", "t", "-o", "beginning", "-X", "check.crcs=true").split())


def test_image(t, built, name, volume, *programs):
    with t.case(f"the image {name} has a user who is not root, a health check and a volume"):
        image, = json.loads(built.podman("image", "inspect", f"pg_broker/{name}"))
        config, health = image["Config"], image.get("HealthCheck") or image.get("Healthcheck")
        assert config["User"] == str(USER), config
        assert list(config["Volumes"]) == [volume], config
        assert health and health["Test"][0] == "CMD", health
    with t.case(f"the image {name} has every library, and nothing of what made it"):
        said = built.podman("run", "--rm", "--network=none", "--entrypoint=sh", f"pg_broker/{name}", "-c", """exec 2>/dev/null
            programs=$(ls /usr/bin/brokerd /usr/bin/brokerctl /usr/lib/postgresql/*/lib/pg_broker.so)
            ldd $programs | grep 'not found'
            ls -d /src /build /image /usr/bin/gcc /usr/bin/make /var/cache/apt/archives/*.deb /var/lib/apt/lists/*
            echo $programs; id -u""")
        assert [os.path.basename(word) for word in said.split()] == [*programs, str(USER)], said


def test_first_start(t, built):
    with t.case("PostgreSQL says what its first start lacks"):
        done = run(["podman", "run", "--rm", "--network=none", "pg_broker/postgres"], False, env=built.environment)
        assert done.returncode != 0 and "BROKERD_PASSWORD" in done.stdout, done


def test_start(t, c):
    with t.case("PostgreSQL is healthy with database, extension and role"):
        c.up("postgres")
        said = c.execute("postgres", "psql", "-XAtc", "SELECT extname FROM pg_extension WHERE extname = 'pg_broker'")
        assert said.strip() == "pg_broker", said
    with t.case("three brokers are healthy"):
        c.up(*BROKERS)
    for service, port in BROKERS.items():
        with t.case(f"the command of {service} passes brokerd --check-config"):
            said = c.execute(service, "brokerd", "--check-config", "/etc/pg_broker/server.properties",
                             *c.inspect(service, ".Config.Cmd"))
            assert f"127.0.0.1:{port}" in said, said
    with t.case("nobody in the containers is root or has a capability"):
        for service in ["postgres", *BROKERS]:
            processes = c.processes(service)
            assert len(processes) >= 3, processes
            for status in processes.values():
                assert status["Uid"].split() == [str(USER)] * 4, (service, status)
                assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0 and status["NoNewPrivs"] == "1", (service, status)


def test_use(t, c, messages):
    with t.case("clients of the machine reach each broker by its own port"):
        said = run(["kcat", "-L", "-b", "127.0.0.1:19092"]).stdout
        assert re.findall(r"broker (\d) at (\S+)", said) == [(str(i), f"127.0.0.1:{port}") for i, port in
                                                            enumerate(BROKERS.values(), 1)], said
    with t.case("containers reach each broker by its name"):
        for service in BROKERS:
            said = c.execute("broker-1", "brokerctl", "cluster", "-b", f"{service}:9092")
            assert all(f"{name}:9092" in re.sub(r"\s+", ":", said) for name in BROKERS), said
    with t.case("what is produced through one broker is on three, and read through another"):
        kcat("-P", "-b", "127.0.0.1:19093", "-t", "t", "-X", "acks=all", text="\n".join(messages))
        assert read_all(19094) == messages
        said = c.execute("postgres", "psql", "-XAtc", "SELECT cardinality(isr) FROM broker.partitions WHERE topic = 't'")
        assert set(said.split()) == {"3"}, said


def test_hung_broker(t, c, messages):
    """A process 1 cannot be killed from inside its container, so a broker that is one would hang for good."""
    with t.case("a broker that hangs is ended by its watchdog and started again by its restart policy"):
        pid, = [pid for pid, status in c.processes("broker-2").items() if status["Name"] == "brokerd"]
        os.kill(pid, signal.SIGSTOP)
        assert wait_until(lambda: not os.path.exists(f"/proc/{pid}"), 30), "it was not ended"
        assert wait_until(lambda: c.is_healthy("broker-2"), STARTS_IN, 0.2), c.log("broker-2")
        assert read_all(19093) == messages


def test_again(t, c, messages):
    with t.case("containers are made anew with the volumes of the old ones, and have what was in them"):
        c.say("down", "--timeout", "60")
        assert c.built.podman("ps", "--all", "--quiet").split() == []
        c.up("postgres")
        c.up(*BROKERS)
        assert read_all(19092) == messages
    with t.case("they had been stopped cleanly"):
        assert "not properly shut down" not in c.log("postgres"), c.log("postgres")
        for service in BROKERS:
            assert re.search(r"are open after \d+ ms \(clean stop", c.log(service)), c.log(service)


def test_arguments(t, c):
    with t.case("arguments behind the name of PostgreSQL's image are the server's"):
        c.say("down", "--timeout", "60")
        said = c.built.podman("run", "--rm", "--network=none", f"--volume={PROJECT}_postgres:/var/lib/postgresql", "pg_broker/postgres",
                              "-c", "work_mem=7MB", "-C", "work_mem")
        assert said.strip() == "7168", said


def main():
    reason = images.missing()
    if reason:
        with Tap() as t:
            t.skip("the images", reason)
        return
    images.enter()
    with Tap() as t, Images() as built:
        for stage in ("packages", "build", "postgres", "brokerd"):
            try:
                built.build(stage)
            except Failed as failed:
                t.ok(False, f"the stage {stage} is built")
                t.note(failed)
                return
            t.ok(True, f"the stage {stage} is built")
        test_image(t, built, "postgres", "/var/lib/postgresql", "pg_broker.so")
        test_image(t, built, "brokerd", "/var/lib/pg_broker", "brokerctl", "brokerd")
        test_first_start(t, built)
        c = Compose(built)
        messages = sorted(f"message-{i}" for i in range(500))
        test_start(t, c)
        test_use(t, c, messages)
        test_hung_broker(t, c, messages)
        test_again(t, c, messages)
        test_arguments(t, c)


if __name__ == "__main__":
    main()
