#!/usr/bin/env python3
"""`make install` puts everything below DESTDIR and nothing elsewhere, and `make help` names every target."""
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "regress", "lib"))
from tap import Tap


def make(*arguments):
    return subprocess.run(["make", "-s", *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)


def ask(*argv):
    return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False).stdout.strip()


def main():
    with Tap() as t, tempfile.TemporaryDirectory() as dest:
        done = make("install", f"DESTDIR={dest}/a b", "PREFIX=/opt/broker")
        t.equal(done.returncode, 0, "make install with a DESTDIR that has a space") or t.note(done.stdout)
        brokerd = os.path.join(dest, "a b", "opt", "broker", "bin", "brokerd")
        t.ok(re.match(r"brokerd \d", ask(brokerd, "--version")), "brokerd is below PREFIX, and runs")
        share, lib = ask("pg_config", "--sharedir"), ask("pg_config", "--pkglibdir")
        below = os.path.join(dest, "a b")
        t.ok(os.path.exists(f"{below}{lib}/pg_broker.so"), "the library is where pg_config says")
        t.ok(os.path.exists(f"{below}{share}/extension/pg_broker.control"), "so is the control file")
        scripts = [name for name in os.listdir(f"{below}{share}/extension") if re.match(r"pg_broker--[\d.]+\.sql$", name)]
        t.equal(len(scripts), 1, "and one install script")

        said = make("help").stdout
        for target in "all run stop logs psql destroy status check lint fuzz install clean".split():
            t.ok(re.search(rf"^  make {target}\b", said, re.M), f"make help names {target}")


if __name__ == "__main__":
    main()
