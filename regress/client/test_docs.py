#!/usr/bin/env python3
"""docs/client.md has the settings that the library has.  `test_docs.py --print` prints their table."""
import ctypes as ct
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "regress", "lib"))
import pgbroker
from tap import Tap


def table():
    texts = [ct.c_char_p() for _ in range(3)]
    pgbroker.lib.pgb_conf_each.restype = ct.c_bool
    rows, i = ["| setting | default | |", "|-|-|-|"], 0
    while pgbroker.lib.pgb_conf_each(i, *(ct.byref(x) for x in texts)):
        name, value, text = (x.value.decode() for x in texts)
        rows.append(f"| `{name}` | {value.replace('|', chr(92) + '|')} | {text} |")
        i += 1
    return "\n".join(rows) + "\n"


def main(argv):
    if argv == ["--print"]:
        print(table(), end="")
        return
    with Tap() as t, open(os.path.join(ROOT, "docs", "client.md"), encoding="utf-8") as file:
        t.ok(table() in file.read(), "docs/client.md lists the settings (test_docs.py --print gives the table)")


if __name__ == "__main__":
    main(sys.argv[1:])
