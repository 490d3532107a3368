#!/usr/bin/env python3
"""A disk that is full, and one that fails: the partition in trouble refuses writes, the others go on, nothing that was
acknowledged is lost, and what can recover does so by itself."""
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "regress", "lib"))
from kafka_client import Connection, KafkaError, batches
from pgbroker_cluster import Cluster, Trouble, wait_for
from tap import Tap

STORAGE_ERROR = 56
MB = 1 << 20
DISK_MB = 24


def make_topics(c, *names):
    for name in names:
        c.sql(f"SELECT broker.create_topic('{name}')")
    with Connection(c.bootstrap) as k:
        wait_for(lambda: all(k.leader(name) == 1 for name in names), 10, "leaders")


def produce(k, name, value):
    """The offset, or the error as a negative number."""
    try:
        return k.produce(name, 0, [value])
    except KafkaError as error:
        return -error.code


def values(k, name):
    found = []
    while True:
        more = k.fetch(name, 0, len(found), max_wait_ms=0, max_bytes=8 * MB)
        if not more:
            return found
        assert [offset for offset, _ in more] == list(range(len(found), len(found) + len(more)))
        found += [value for _, value in more]


# ---- a small file system

def fill(folder):
    """A file that takes what is left; returns its path."""
    path = os.path.join(folder, "..filler")
    with open(path, "wb", buffering=0) as file:
        for size in (MB, 4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                pass
    return path


def full_disk(t, c, data):
    make_topics(c, "a", "b")
    value = os.urandom(MB // 2)
    request = Connection.produce_request("a", 0, batches.batch([batches.record(None, value)]))
    acknowledged = []
    with Connection(c.bootstrap) as k:
        while len(acknowledged) < 4 * DISK_MB:
            row = k.call("Produce", 9, request)["responses"][0]["partition_responses"][0]
            if row["error_code"]:
                break
            assert row["base_offset"] == len(acknowledged)
            acknowledged.append(value)
        t.equal(row["error_code"], STORAGE_ERROR, "a full disk refuses writes with KAFKA_STORAGE_ERROR")
        t.ok(len(acknowledged) >= 2 * DISK_MB - 6, f"once {DISK_MB} MB are nearly used up") or t.note(len(acknowledged))
        t.ok(values(k, "a") == acknowledged, "what was acknowledged is read meanwhile")
        t.equal(k.leader("b"), 1, "metadata are answered")
        filler = fill(data)
        t.equal(produce(k, "a", b"x"), -STORAGE_ERROR, "nothing is taken while nothing fits")
        t.ok(values(k, "a") == acknowledged and values(k, "b") == [], "and that leaves no trace")
        t.equal(c.broker(1).log_text().count("a-0 refuses writes"), 1, "one line says so")

    # A start has to write a little: the incarnation, indexes after a crash.
    c.broker(1).kill()
    try:
        c.broker(1).start()
        t.ok(False, "a broker does not start with not a byte left")
    except Trouble as trouble:
        t.ok("cannot be written: No space left on device" in str(trouble), "not a byte left: the start says so and ends") or \
            t.note(trouble)
    os.unlink(filler)
    c.broker(1).start()
    with Connection(c.bootstrap) as k:
        t.ok(values(k, "a") == acknowledged, "with a little space it starts and has all that was acknowledged")
        t.ok(produce(k, "b", b"0") >= 0, "and others write into what is left")


def space_returns(t, c, data):
    """Full by somebody else's file, which goes: the broker goes on by itself, without a restart."""
    make_topics(c, "c")
    with Connection(c.bootstrap) as k:
        assert produce(k, "c", b"0") == 0
        filler = fill(data)
        big = os.urandom(MB // 2)
        t.equal(produce(k, "c", big), -STORAGE_ERROR, "full by a foreign file: refused")
        t.equal(values(k, "c"), [b"0"], "nothing of it is left in the log")
        os.unlink(filler)
        wait_for(lambda: produce(k, "c", b"1") == 1, 20, "writes again")
        t.ok(True, "space returns: written again, at the next offset, without a restart")
        t.equal(values(k, "c"), [b"0", b"1"], "and nothing acknowledged is lost")
        c.broker(1).wait_log("c-0 takes writes again", 5)


def small_file_system(t):
    with Cluster(brokers=1, start=False) as c:
        data = c.broker(1).data
        os.makedirs(data)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "none", data],
                                 stderr=subprocess.DEVNULL, check=False)
        if mounted.returncode != 0:
            t.skip("a full disk", "no right to mount a small file system")
            return
        try:
            c.start_brokers()
            for case in (space_returns, full_disk):
                with t.case(case.__name__.replace("_", " ")):
                    case(t, c, data)
            t.note(c.logs(30) if t.failed else "")
        finally:
            c.broker(1).kill()
            subprocess.run(["umount", data], check=False)


# ---- a disk that fails

def rules(c, text):
    with open(c.env["FAULTFS_CONTROL"] + ".new", "w", encoding="ascii") as file:
        file.write(text)
    os.replace(c.env["FAULTFS_CONTROL"] + ".new", c.env["FAULTFS_CONTROL"])


def failing(t, c, call, name):
    """One error, then the disk is well again: that partition stays refused, since nobody knows what it lost."""
    with Connection(c.bootstrap) as k:
        t.equal([produce(k, name, b"%d" % i) for i in range(3)], [0, 1, 2], f"{call}: well at first")
        rules(c, f"{call} {name}-0 EIO 1\n")
        t.equal(produce(k, name, b"lost"), -STORAGE_ERROR, f"{call}: an I/O error is KAFKA_STORAGE_ERROR")
        rules(c, "")
        t.equal([produce(k, name, b"later") for _ in range(3)], [-STORAGE_ERROR] * 3, f"{call}: for good, until a restart")
        t.ok(produce(k, "well", call.encode()) >= 0, f"{call}: others go on")
        t.equal(k.fetch(name, 0, 0), [(i, b"%d" % i) for i in range(3)], f"{call}: what was acknowledged is read meanwhile")
        c.wait_sql(f"SELECT count(*) > 0 FROM broker.problems WHERE object LIKE '%{name}%'", [("t",)], 15)
        t.ok(True, f"{call}: broker.problems says so")


def io_errors(t, c):
    make_topics(c, "well", "sync", "write", "nospace")
    failing(t, c, "fdatasync", "sync")
    failing(t, c, "pwrite", "write")
    with Connection(c.bootstrap) as k:
        wrote = values(k, "well")
        assert produce(k, "nospace", b"0") == 0
        rules(c, "pwrite nospace-0 short:7\n")
        t.equal(produce(k, "nospace", b"no"), -STORAGE_ERROR, "a write that stops halfway for want of space is refused")
        rules(c, "")
        wait_for(lambda: produce(k, "nospace", b"1") == 1, 20, "writes again")
        t.equal(values(k, "nospace"), [b"0", b"1"], "and leaves no trace when space is back")
    c.broker(1).restart()
    with Connection(c.bootstrap) as k:
        for name in ("sync", "write"):
            got = values(k, name)
            t.equal(got[:3], [b"0", b"1", b"2"], f"{name}: what was acknowledged is there after the restart")
            t.ok(got[3:] in ([], [b"lost"]), f"{name}: what was not is there once or not at all")
            t.equal(produce(k, name, b"next"), len(got), f"{name}: and writes are taken again")
        t.equal(values(k, "well"), wrote, "the others have all of theirs")


def io_error_at_stop(t, c):
    """A stop whose last syncs fail must not leave a mark that says all is well."""
    with Connection(c.bootstrap) as k:
        before = values(k, "well")
        k.produce("well", 0, [b"last"])
    rules(c, "syncfs * EIO\nfsync * EIO\nfdatasync * EIO\n")
    c.broker(1).stop()
    rules(c, "")
    said = len(c.broker(1).log_text())
    c.broker(1).start()
    t.ok("(unclean stop" in c.broker(1).log_text()[said:], "a stop that could not sync is not called clean")
    with Connection(c.bootstrap) as k:
        t.equal(values(k, "well"), before + [b"last"], "and what was acknowledged is there")


def failing_disk(t):
    build = os.environ.get("BUILD") or "build"
    made = subprocess.run(["make", "-s", f"BUILD={build}", f"{build}/faultfs.so"], cwd=ROOT, check=False)
    shim = os.path.abspath(os.path.join(ROOT, build, "faultfs.so"))
    assert made.returncode == 0 and os.path.exists(shim), "faultfs.so"
    with Cluster(brokers=1, start=False) as c:
        c.env.update(LD_PRELOAD=shim, FAULTFS_CONTROL=os.path.join(c.folder, "rules"))
        rules(c, "")
        c.start_brokers()
        for case in (io_errors, io_error_at_stop):
            with t.case(case.__name__.replace("_", " ")):
                case(t, c)
        t.note(c.logs(30) if t.failed else "")


def main():
    # In a mount namespace of its own nothing stays mounted, however this ends.
    if os.geteuid() == 0 and "--unshared" not in sys.argv and \
            subprocess.run(["unshare", "--mount", "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0:
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, __file__, "--unshared"])
    with Tap() as t:
        with t.case("a small file system"):
            small_file_system(t)
        with t.case("a failing disk"):
            failing_disk(t)


if __name__ == "__main__":
    main()
