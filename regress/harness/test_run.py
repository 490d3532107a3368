#!/usr/bin/env python3
"""regress/run itself: that nothing which is wrong with a suite is counted as passed."""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "regress", "lib"))
from tap import Tap

RUN = os.path.join(ROOT, "regress", "run")

# What a suite prints (and how it ends), and what the closing line says of it.
CASES = [
    ("passes are counted", "printf 'ok 1 - a\\nok 2 - b\\n1..2\\n'", "2 passed, 0 failed, 0 skipped"),
    ("the plan may come first", "printf 'TAP version 12\\n1..1\\nok 1\\n'", "1 passed, 0 failed, 0 skipped"),
    ("a failure is counted", "printf 'ok 1\\nnot ok 2 - b\\n1..2\\n'; exit 1", "1 passed, 1 failed, 0 skipped"),
    ("a skip is counted", "printf 'ok 1 - a # SKIP no moon\\nok 2\\n1..2\\n'", "1 passed, 0 failed, 1 skipped"),
    ("a plan of nothing is a skip", "echo '1..0 # SKIP no java'", "0 passed, 0 failed, 1 skipped"),
    ("a failed skip is a failure", "printf 'not ok 1 # SKIP no moon\\n1..1\\n'", "0 passed, 1 failed, 0 skipped"),
    ("a TODO that fails is a failure", "printf 'not ok 1 # TODO later\\n1..1\\n'", "0 passed, 1 failed, 0 skipped"),
    ("no plan", "echo 'ok 1'", "1 passed, 1 failed, 0 skipped"),
    ("no output", "true", "0 passed, 1 failed, 0 skipped"),
    ("fewer tests than planned", "printf '1..3\\nok 1\\n'", "1 passed, 1 failed, 0 skipped"),
    ("more tests than planned", "printf '1..1\\nok 1\\nok 2\\n'", "2 passed, 1 failed, 0 skipped"),
    ("an exit code though all passed", "printf '1..1\\nok 1\\n'; exit 3", "1 passed, 1 failed, 0 skipped"),
    ("a crash after the last test", "printf '1..1\\nok 1\\n'; kill -SEGV $$", "1 passed, 1 failed, 0 skipped"),
    ("a bail out", "printf '1..1\\nok 1\\nBail out! no server\\n'", "1 passed, 1 failed, 0 skipped"),
    ("two streams in one", "printf '1..1\\nok 1\\n1..2\\nok 1\\nnot ok 2\\n'; exit 1", "2 passed, 1 failed, 0 skipped"),
    ("a stream lost among two", "printf 'ok 1\\nok 2\\n1..1\\nok 1\\n'", "3 passed, 1 failed, 0 skipped"),
    ("what looks like TAP is not", "printf 'ok\\nokay 1\\n1..1\\nok 1\\n# not ok 2\\n'", "1 passed, 0 failed, 0 skipped"),
    ("output that is no UTF-8", "printf '\\377\\n1..1\\nok 1\\n'", "1 passed, 0 failed, 0 skipped"),
    ("a pattern without a test", "@nowhere/test_*", "0 passed, 1 failed, 0 skipped"),
]


def run(folder, rows, *options):
    path = os.path.join(folder, "suites.list")
    with open(path, "w", encoding="utf-8") as file:
        file.write("# a comment\n\n" + "".join(row + "\n" for row in rows))
    return subprocess.run([RUN, "--list", path, "--build", os.path.join(folder, "build"), *options],
                          capture_output=True, text=True, check=False)


def last(done):
    return done.stdout.splitlines()[-1]


def main():
    with Tap() as t, tempfile.TemporaryDirectory() as folder:
        for name, command, want in CASES:
            done = run(folder, [f"one - - 20 any {command}"])
            good = want.split(",")[0] != "0 passed" and " 0 failed" in want
            t.equal((last(done), done.returncode), (want, 0 if good else 1), name)

        both = ["a - - 20 any printf '1..1\\nok 1\\n'", "b - - 20 alone printf '1..2\\nok 1\\nnot ok 2 - x\\n# why\\n'"]
        done = run(folder, both)
        t.equal(last(done), "2 passed, 1 failed, 0 skipped", "suites add up")
        t.ok(re.search(r"not ok 2 - x\n +# why", done.stdout), "a failing test is shown with what it says")
        t.equal(len(re.findall(r"^\d+ passed, \d+ failed", done.stdout, re.M)), 1, "there is one closing line")
        t.equal(last(run(folder, both, "--suites", "a")), "1 passed, 0 failed, 0 skipped", "suites can be chosen")
        done = run(folder, both, "--suites", "c")
        t.equal((last(done), done.returncode), ("0 passed, 1 failed, 0 skipped", 1), "an unknown suite fails")
        with open(os.path.join(folder, "build", "check", "b.log"), encoding="utf-8") as log:
            t.ok("not ok 2 - x" in log.read(), "the whole output is kept")

        done = run(folder, ["a - no-such-tool 20 any true"])
        t.equal(last(done), "0 passed, 0 failed, 1 skipped", "a suite without its tool is skipped")
        t.ok("skipped: a: no no-such-tool" in done.stdout, "and the tool is named")
        done = run(folder, ["a - no-such-tool 20 any true"], "--skips-fail")
        t.equal(last(done), "0 passed, 1 failed, 0 skipped", "--skips-fail makes it a failure")
        done = run(folder, ["a - - 20 any printf 'ok 1 # SKIP x\\nok 2\\n1..2\\n'"], "--skips-fail")
        t.equal((last(done), done.returncode), ("1 passed, 1 failed, 0 skipped", 1), "a skipped test too")

        done = run(folder, ["a no-such-target - 20 any true", "b - - 20 any printf '1..1\\nok 1\\n'"])
        t.equal(last(done), "1 passed, 1 failed, 0 skipped", "what does not build fails, the others run")
        t.equal(last(run(folder, ["a - -"])), "0 passed, 1 failed, 0 skipped", "a broken list fails")

        began = time.monotonic()
        done = run(folder, ["a - - 1 any printf 'ok 1\\n1..1\\n'; sleep 60 & sleep 60"])
        t.equal(last(done), "1 passed, 1 failed, 0 skipped", "a suite that hangs fails")
        t.ok(time.monotonic() - began < 10, "soon after its time")
        marker = f"31.{os.getpid()}"
        done = run(folder, [f"a - - 20 any printf 'ok 1\\n1..1\\n'; sleep {marker} & true"])
        left = subprocess.run(["pgrep", "-f", f"sleep {marker}"], capture_output=True, check=False).stdout
        t.equal((last(done), left), ("1 passed, 0 failed, 0 skipped", b""), "what a suite leaves running is ended")
        interrupted(t, folder)


def interrupted(t, folder):
    """SIGTERM (a CI's time limit) still gives the closing line."""
    path = os.path.join(folder, "suites.list")
    mark = os.path.join(folder, "runs")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"a - - 60 any touch {mark}; sleep 60\n")
    process = subprocess.Popen([RUN, "--list", path, "--build", os.path.join(folder, "build")],
                               stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 20
    while not os.path.exists(mark) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=20)
    t.ok(re.search(r"^0 passed, [1-9] failed, 0 skipped$", output.splitlines()[-1]), "SIGTERM ends it with the closing line")
    t.equal(process.returncode, 1, "and with a failure")


if __name__ == "__main__":
    main()
