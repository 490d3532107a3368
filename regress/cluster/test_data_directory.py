#!/usr/bin/env python3
"""A data directory that is another's, in use, or damaged: said by name; what is well in it is served."""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "regress", "lib"))
from kafka_client import Connection, KafkaError
from pgbroker_cluster import CREATE_EXTENSION, Cluster, free_port, wait_for
from tap import Tap

STORAGE_ERROR = 56
MESSAGES = 20
SEGMENT = "0" * 20


def refusal(c, *overrides):
    """Runs a second brokerd with the broker's configuration; (exit code, its last FATAL line)."""
    port = free_port()
    command = [c.brokerd, "--config", c.broker(1).config]
    for override in (f"listeners=PLAINTEXT://127.0.0.1:{port}", f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}", *overrides):
        command += ["--override", override]
    # One that is not refused is ended by `timeout`, with another exit code.
    done = subprocess.run(["timeout", "20", *command], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr.splitlines()


def refused(t, c, name, pattern, *overrides):
    code, lines = refusal(c, *overrides)
    fatal = [line for line in lines if " FATAL " in line]
    t.ok(code == 1 and len(fatal) == 1 and re.search(pattern, fatal[0]), f"{name}: refused with one sentence") or \
        t.note(f"exit code {code}, expected {pattern}\n" + "\n".join(lines))


def found_cluster(c, conninfo):
    """The first broker of a database gives its cluster an id (or brings the one of its disk)."""
    port, data = free_port(), os.path.join(c.folder, "elsewhere")
    listener = f"PLAINTEXT://127.0.0.1:{port}"
    with subprocess.Popen([c.brokerd, "--config", c.broker(1).config, "--override", f"listeners={listener}",
                           "--override", f"advertised.listeners={listener}", "--override", f"log.dirs={data}",
                           "--override", f"pg_broker.postgres={conninfo}"], stderr=subprocess.PIPE, text=True) as other:
        for line in other.stderr:
            if "registered in cluster" in line:
                break
        other.terminate()


def directory_of_others(t, c):
    data = re.escape(c.broker(1).data)
    refused(t, c, "a directory in use", rf"{data} is in use by another process")
    with Connection(c.bootstrap) as k:
        t.equal(k.produce("other", 0, [b"x"]), 0, "who uses it does not notice")
    c.broker(1).stop()
    refused(t, c, "a directory of another broker", rf"{data} belongs to broker 1, not to broker 7", "node.id=7")
    c.postgres.rows("CREATE DATABASE elsewhere", "postgres")
    c.postgres.rows(CREATE_EXTENSION, "elsewhere")
    elsewhere = c.postgres.conninfo("brokerd", "elsewhere")
    found_cluster(c, elsewhere)
    mine = c.value("SELECT cluster_id FROM broker.cluster")
    theirs = c.postgres.rows("SELECT cluster_id FROM broker.cluster", "elsewhere")[0][0]
    assert mine and theirs and mine != theirs, (mine, theirs)
    refused(t, c, "a directory of another cluster", rf"{mine}.*{theirs}|{theirs}.*{mine}", f"pg_broker.postgres={elsewhere}")
    c.broker(1).start()
    with Connection(c.bootstrap) as k:
        t.equal(k.fetch("other", 0), [(0, b"x")], "its own broker starts with it as before")


# What is done to a partition's folder, what the log says of it, and whether it is served all the same.
def write(name, content):
    def damage(folder):
        with open(os.path.join(folder, name), "wb") as file:
            file.write(content)
    return damage


def edit(name, change):
    def damage(folder):
        with open(os.path.join(folder, name), "rb") as file:
            data = file.read()
        write(name, change(data))(folder)
    return damage


def flip(at):
    return lambda data: data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1:]


SERVED, CUT, OFFLINE = "served", "served up to the damage", "offline"
DAMAGE = [
    ("newer-id", write("partition.metadata", b"version: 1\ntopic_id: x\n"), r"another version than 0", OFFLINE),
    ("bad-id", write("partition.metadata", b"\0\xff garbage"), r"no readable topic_id", OFFLINE),
    ("newer-epochs", write("leader-epoch-checkpoint", b"7\n1\n0 0\n"), r"leader-epoch-checkpoint", OFFLINE),
    ("bad-epochs", write("leader-epoch-checkpoint", b"\xff\xff\xff"), r"leader-epoch-checkpoint", OFFLINE),
    ("bad-txnindex", write(SEGMENT + ".txnindex", b"\0\x07" + bytes(32)), r"\.txnindex is damaged or of a newer version", OFFLINE),
    ("swap", write(SEGMENT + ".log.swap", b"x"), r"which is to replace segments that were compacted, is damaged", OFFLINE),
    ("gap", write(f"{99:020}.log", b"\0" * 61 + b"x"), r"offsets 20 to 98 are missing between two segments", OFFLINE),
    ("bad-index", write(SEGMENT + ".index", b"garbage"), None, SERVED),
    ("bad-snapshot", write(f"{MESSAGES:020}.snapshot", b"\0\x63garbage"), None, SERVED),
    ("foreign-file", write("notes.txt", b"x"), None, SERVED),
    ("half-a-batch", edit(SEGMENT + ".log", lambda data: data[:-10]), r"bytes cut at offset 19", CUT),
    ("garbage-behind", edit(SEGMENT + ".log", lambda data: data + b"\xa5" * 300), r"300 bytes cut at offset 20", SERVED),
    ("bit-flipped", edit(SEGMENT + ".log", flip(-5)), r"bytes cut at offset 19", CUT),
    ("newer-magic", edit(SEGMENT + ".log", lambda data: data[:16] + b"\x03" + data[17:]), r"not of magic 2", OFFLINE),
    ("first-bit-flipped", edit(SEGMENT + ".log", flip(64)), r"with whole batches behind it", OFFLINE),
]


def fetched(k, name):
    """What is in the topic, or the error."""
    try:
        return k.fetch(name, 0, max_wait_ms=0)
    except KafkaError as error:
        return error.code


def damaged_after_a_crash(t, c):
    c.sql("SELECT broker.create_topic('well')")
    for name, *_ in DAMAGE:
        c.sql(f"SELECT broker.create_topic('{name}')")
    with Connection(c.bootstrap) as k:
        wait_for(lambda: all(k.leader(name) == 1 for name in ("well", *(row[0] for row in DAMAGE))), 20, "leaders")
        for name in ("well", *(row[0] for row in DAMAGE)):
            for i in range(MESSAGES):
                k.produce(name, 0, [b"%d" % i])
    c.broker(1).kill()
    for name, damage, _, _ in DAMAGE:
        damage(os.path.join(c.broker(1).data, f"{name}-0"))
    for name, content in (("not a partition", None), ("stray.txt", b"x"), ("recovery-point-offset-checkpoint", b"9\ngarbage\n")):
        path = os.path.join(c.broker(1).data, name)
        if content is None:
            os.mkdir(path)
        else:
            with open(path, "wb") as file:
                file.write(content)
    said = len(c.broker(1).log_text())
    c.broker(1).start()
    log = c.broker(1).log_text()[said:]
    whole = [(i, b"%d" % i) for i in range(MESSAGES)]
    with Connection(c.bootstrap) as k:
        t.equal(k.fetch("well", 0), whole, "a partition beside damaged ones is served")
        for name, _, pattern, want in DAMAGE:
            lines = [line for line in log.splitlines() if f"{name}-0" in line]
            if pattern:
                t.ok(any(re.search(pattern, line) for line in lines), f"{name}: the log names the folder and the reason") or t.note(lines)
            got = fetched(k, name)
            if want is OFFLINE:
                t.equal(got, STORAGE_ERROR, f"{name}: that partition is offline")
            elif want is CUT:
                t.equal(got, whole[:-1], f"{name}: what is whole is served")
            else:
                t.equal(got, whole, f"{name}: served all the same")
            if want is not OFFLINE:
                t.equal(k.produce(name, 0, [b"more"]), len(got), f"{name}: takes messages")
        t.ok(re.search(r"not a partition is not the name of a partition", log), "a folder that is no partition is named")
        t.ok(re.search(r"recovery-point-offset-checkpoint", log), "a damaged checkpoint is named")
        offline = [row[0] for row in DAMAGE if row[3] is OFFLINE]
        c.wait_sql("SELECT count(*) FROM broker.problems WHERE object LIKE ANY (array['" +
                   "','".join(f"%{name}%" for name in offline) + "'])", [(str(len(offline)),)], 15)
        t.ok(True, "broker.problems has each of them")
    c.broker(1).restart()
    with Connection(c.bootstrap) as k:
        t.equal(k.fetch("well", 0), whole, "a clean stop with damaged partitions is none for the others")
        t.equal({name: fetched(k, name) for name in offline}, dict.fromkeys(offline, STORAGE_ERROR), "and no cure for these")


def damaged_after_a_clean_stop(t, c):
    """The record of the stop does not hide that files were changed since."""
    # "replaced" keeps its messages: the folder's own small file is not needed after a clean stop.
    names = {"trimmed": r"is corrupt at byte", "emptied": r"files are missing", "replaced": None}
    for name in names:
        c.sql(f"SELECT broker.create_topic('{name}')")
    with Connection(c.bootstrap) as k:
        wait_for(lambda: all(k.leader(name) == 1 for name in names), 20, "leaders")
        for name in names:
            for i in range(MESSAGES):
                k.produce(name, 0, [b"%d" % i])
    c.broker(1).stop()
    folder = lambda name: os.path.join(c.broker(1).data, f"{name}-0")
    edit(SEGMENT + ".log", lambda data: data[:-10])(folder("trimmed"))
    write("partition.metadata", b"garbage")(folder("replaced"))
    os.unlink(os.path.join(folder("emptied"), SEGMENT + ".log"))
    said = len(c.broker(1).log_text())
    c.broker(1).start()
    log = c.broker(1).log_text()[said:]
    with Connection(c.bootstrap) as k:
        for name, pattern in names.items():
            lines = [line for line in log.splitlines() if f"{name}-0 is offline" in line]
            if pattern:
                t.ok(len(lines) == 1 and re.search(pattern, lines[0]), f"{name}: named, with the reason") or t.note(log)
                t.equal(fetched(k, name), STORAGE_ERROR, f"{name}: offline, and not empty")
            else:
                t.equal(len(fetched(k, name)), MESSAGES, f"{name}: served")


def main():
    with Tap() as t, Cluster(brokers=1) as c:
        c.sql("SELECT broker.create_topic('other')")
        with Connection(c.bootstrap) as k:
            wait_for(lambda: k.leader("other") == 1, 10, "a leader")
        for case in (directory_of_others, damaged_after_a_crash, damaged_after_a_clean_stop):
            with t.case(case.__name__.replace("_", " ")):
                case(t, c)
        t.note(c.logs(60) if t.failed else "")


if __name__ == "__main__":
    main()
