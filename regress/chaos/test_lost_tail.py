#!/usr/bin/env python3
"""What lost_tail.c notes is what is on disk for certain, and lost_tail.py takes away no more and no less."""
import os
import random
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "regress", "lib")]
import lost_tail
from tap import Tap

BUILD = os.path.join(ROOT, os.environ.get("BUILD") or "build")

WRITES = """
import os
def put(name, data, sync, flags=os.O_APPEND):
    fd = os.open(name, os.O_CREAT | os.O_WRONLY | flags)
    os.write(fd, data)
    if sync:
        os.fsync(fd)
    return fd
put("synced", b"s" * 100, True)
put("longer", b"s" * 100, True)
put("longer", b"u" * 50, False)
put("never", b"u" * 100, False)
os.ftruncate(put("cut", b"s" * 100, True), 40)
put("cut", b"u" * 60, False)
os.close(put("old", b"s" * 100, True))
put("again", b"s" * 100, True)
put("again", b"u" * 100, False, os.O_TRUNC)
# A file that takes the inode of one that is gone: the file system gives it out again when it likes to.
for i in range(200):
    inode = os.stat("old").st_ino
    os.unlink("old")
    os.close(put("old", b"u" * 100, False))
    if os.stat("old").st_ino == inode:
        print("reused")
        break
    os.unlink("old")
    os.close(put("old", b"s" * 100, True))
"""


def main():
    with Tap() as t, tempfile.TemporaryDirectory(prefix="pgb-test-") as folder:
        data, journal = os.path.join(folder, "data"), os.path.join(folder, "journal")
        os.mkdir(data)
        done = subprocess.run([sys.executable, "-c", WRITES], cwd=data, check=True, stdout=subprocess.PIPE, text=True,
                              env={**os.environ, "LD_PRELOAD": os.path.abspath(os.path.join(BUILD, "lost_tail.so")), "LOST_TAIL_JOURNAL": journal})
        known = lost_tail.certain_lengths(journal)

        def certain(name):
            status = os.stat(os.path.join(data, name))
            return known.get((status.st_dev, status.st_ino), 0)

        for name, length in (("synced", 100), ("longer", 100), ("never", 0), ("cut", 40), ("again", 0)):
            t.equal(certain(name), length, f"{name}: {length} bytes are certain")
        if "reused" in done.stdout:
            t.equal(certain("old"), 0, "nothing of a new file is, whatever was known of its inode")
        else:
            t.skip("a new file with the inode of another", "this file system gives none out again")
        lost_tail.lose(data, journal, random.Random(1))
        for name, length in (("synced", 100), ("longer", 100), ("cut", 40)):
            with open(os.path.join(data, name), "rb") as file:
                t.equal(file.read()[:length], b"s" * length, f"{name}: what is certain is there")
        for name in ("longer", "never", "cut", "again"):
            with open(os.path.join(data, name), "rb") as file:
                left = file.read()
            t.ok(left.count(b"u") < 60, f"{name}: not all of the rest is: {left.count(b'u')}")


if __name__ == "__main__":
    main()
