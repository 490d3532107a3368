#!/usr/bin/env python3
"""README's session works as printed: every command in its ```console blocks is run, and prints what stands there.

In a block `$ COMMAND` is typed into a shell. After `$ make psql`, `broker=# SQL` is what psql reads. The lines
below are the expected output: `...` alone stands for any lines, ` ...` at the end of a line for its rest; ids,
ports and folders may differ. Spaces at the ends of lines do not count.
"""
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "regress", "lib"))
from pgbroker_cluster import free_port
from tap import Tap

PROMPT = re.compile(r"^broker=[*!]?[#>] ?")
UUID = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")


def console_blocks(text):
    return re.findall(r"^```console\n(.*?)^```$", text, re.M | re.S)


def steps(block):
    """(command, standard input, expected lines) of each `$` line of a block."""
    found = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], [], []))
        elif PROMPT.match(line):
            found[-1][1].append(PROMPT.sub("", line))
        else:
            found[-1][2].append(line)
    return found


def pattern(lines):
    """A regular expression for the expected lines."""
    text = ""
    for line in lines:
        if line.strip() == "...":
            text += r"(?:.*\n)*?"
            continue
        rest = line.rstrip()
        more = rest.endswith(" ...")
        text += re.escape(UUID.sub("UUID", rest.removesuffix(" ..."))) + (".*" if more else "") + r" *\n"
    return text


def main():
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        readme = file.read()
    port = str(free_port())
    with Tap() as t, tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        environment = dict(os.environ, RUN_DIR=os.path.join(folder, "run"), PORT=port)

        def run(command, stdin=""):
            return subprocess.run(["bash", "-c", command], cwd=ROOT, env=environment, input=stdin, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False).stdout

        try:
            blocks = console_blocks(readme)
            t.ok(len(blocks) >= 5, "README has a session")
            for command, typed, expected in (step for block in blocks for step in steps(block)):
                got = run(command.replace("9092", port), "".join(line + "\n" for line in typed))
                shown = UUID.sub("UUID", got.replace(port, "9092").replace(f" RUN_DIR='{environment['RUN_DIR']}'", ""))
                if not t.ok(re.fullmatch(pattern(expected), shown), typed[0] if typed else command):
                    t.note("printed:\n" + got + "README says:\n" + "\n".join(expected))
        finally:
            run("make -s destroy")
        t.ok(not os.path.exists(environment["RUN_DIR"]), "make destroy leaves nothing")


if __name__ == "__main__":
    main()
