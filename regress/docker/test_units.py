#!/usr/bin/env python3
"""The systemd units in docs/systemd are ones that systemd understands, and confine what they start."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "regress", "lib"))
from tap import Tap

MOST_EXPOSED = "20"  # of 100, as systemd-analyze counts it: what it does need is network, files of its own, and its user


def analyze(*arguments):
    done = subprocess.run(["systemd-analyze", "--no-pager", *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout


def main():
    units = sorted(glob.glob(os.path.join(ROOT, "docs", "systemd", "*.service")))
    with Tap() as t, tempfile.TemporaryDirectory() as folder:
        t.ok(units, "there are units")
        for unit in units:
            name = os.path.basename(unit)
            with open(unit, encoding="utf-8") as file:
                text = file.read()
            program = re.search(r"^ExecStart=(\S+)", text, re.M).group(1)
            prefix = subprocess.run(["make", "-s", "print-PREFIX"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
            t.equal(program, prefix.strip() + "/bin/brokerd", f"{name} starts what make install installs")
            if not shutil.which("systemd-analyze"):
                t.skip(f"{name} as systemd sees it", "no systemd-analyze on this machine")
                continue
            # systemd looks whether the program is there, which need not be installed here.
            copy = os.path.join(folder, name)
            with open(copy, "w", encoding="utf-8") as file:
                file.write(text.replace(program, "/bin/true"))
            code, said = analyze("verify", copy)
            t.ok(code == 0 and not said, f"systemd has nothing to say about {name}") or t.note(said)
            code, said = analyze("security", "--offline=yes", f"--threshold={MOST_EXPOSED}", copy)
            t.ok(code == 0, f"{name} gives its process no more than it needs") or t.note(said[-1500:])


if __name__ == "__main__":
    main()
