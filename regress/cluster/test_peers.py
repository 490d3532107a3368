#!/usr/bin/env python3
"""Peers that are slow, silent, hostile or many: they are dealt with, and the others do not notice."""
import os
import resource
import socket
import struct
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "regress", "lib"))
from kafka_client import Connection
from pgbroker_cluster import Cluster, wait_for
from tap import Tap

MANY = 5000
MB = 1 << 20


def resident(c):
    """Bytes of memory that the broker has."""
    with open(f"/proc/{c.broker(1).pid()}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def open_files(c):
    return len(os.listdir(f"/proc/{c.broker(1).pid()}/fd"))


def others_do_not_notice(t, c, name):
    with Connection(c.bootstrap) as k:
        slowest = 0
        for _ in range(30):
            began = time.monotonic()
            k.produce("t", 0, [b"x" * 100])
            slowest = max(slowest, time.monotonic() - began)
    t.ok(slowest < 1, f"{name}: the others do not notice") or t.note(f"{slowest:.2f} s")


def bad_frames(t, c):
    cases = {
        "a negative length": struct.pack(">i", -1),
        "a length over socket.request.max.bytes": struct.pack(">i", 2_000_000_000),
        "an array of two billion topics": struct.pack(">ihhih", 14, 3, 1, 7, -1) + struct.pack(">i", 2_000_000_000),
        "a string beyond the frame": struct.pack(">ihhih", 10, 3, 1, 7, 30000),
        "no API": struct.pack(">ihhih", 10, 9999, 0, 7, -1),
        "an empty frame": struct.pack(">i", 0),
        "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "TLS": bytes.fromhex("160301020001fc0303") + b"\1" * 600,
    }
    before = resident(c)
    for name, data in cases.items():
        said = len(c.broker(1).log_text())
        with Connection(c.bootstrap, timeout=5) as k:
            k.socket.sendall(data)
            t.ok(k.is_closed(), f"{name}: the connection is closed")
        c.broker(1).wait_log(r"WARNING \w+: connection from 127\.0\.0\.1:\d+ closed", 5, said)
        lines = [line for line in c.broker(1).log_text()[said:].splitlines() if " closed: " in line]
        t.equal(len(lines), 1, f"{name}: with one log line")
    t.ok(resident(c) - before < 20 * MB, "nothing large was allocated for them")


def byte_by_byte(t, c):
    """A request that comes one byte at a time is answered like any other."""
    with Connection(c.bootstrap) as slow:
        frame = slow.frame("Metadata", 9, {"topics": None})
        for i, byte in enumerate(frame):
            slow.socket.sendall(bytes([byte]))
            if i == len(frame) // 2:
                others_do_not_notice(t, c, "a request in single bytes")
        slow.waiting.append(("Metadata", 9, slow.correlation_id))
        t.ok(slow.receive()["brokers"], "a request in single bytes is answered")


def slow_reader(t, c):
    """Somebody asks for much and reads nothing: bounded memory, and everything is there when it reads at last."""
    with Connection(c.bootstrap) as k:
        for _ in range(8):
            k.produce("big", 0, [b"z" * 900_000])
    before = resident(c)
    with Connection(c.bootstrap, timeout=60) as lazy:
        asked = 20
        for _ in range(asked):
            lazy.send("Fetch", 11, {
                "replica_id": -1, "max_wait_ms": 0, "min_bytes": 1, "max_bytes": 50 * MB, "isolation_level": 0, "session_id": 0,
                "session_epoch": -1, "rack_id": "", "topics": [{"topic": "big", "partitions": [
                    {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 50 * MB}]}]})
        others_do_not_notice(t, c, "a reader that does not read")
        t.ok(resident(c) - before < 100 * MB, "what it asked for is not held in memory") or t.note(
            f"{(resident(c) - before) / MB:.0f} MB")
        sizes = {len(lazy.receive()["responses"][0]["partitions"][0]["records"]) for _ in range(asked)}
        t.ok(len(sizes) == 1 and sizes.pop() > 7_000_000, "all of it comes when it reads at last")


def half_open(t, c):
    """A peer that begins a request and is not heard of again."""
    with Connection(c.bootstrap) as k:
        k.socket.sendall(k.frame("Metadata", 9, {"topics": None})[:20])
        others_do_not_notice(t, c, "half a request")
    said = open_files(c)
    with Connection(c.bootstrap) as k:
        k.socket.sendall(struct.pack(">i", 50 * MB) + b"x" * 1000)
        before = resident(c)
        others_do_not_notice(t, c, "a large request that does not come")
        t.ok(resident(c) - before < 60 * MB, "and it has no memory but what was announced")
    wait_for(lambda: open_files(c) <= said + 1, 10, "the end of its connection")
    t.ok(True, "its connection is gone when it is")


def many(t, c):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < MANY + 200:
        t.skip(f"{MANY} idle connections", f"this user may open {hard} files only")
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, MANY + 200), hard))
    before, files = resident(c), open_files(c)
    idle = []
    try:
        for _ in range(MANY):
            idle.append(socket.create_connection(("127.0.0.1", c.broker(1).port), timeout=10))
        # A few of the tests before may have been open still when they were counted.
        wait_for(lambda: open_files(c) >= files + MANY - 10, 20, f"{MANY} connections")
        t.ok(True, f"{MANY} idle connections are taken")
        others_do_not_notice(t, c, f"{MANY} idle connections")
        each = (resident(c) - before) / MANY
        t.ok(each < 10_000, "each costs less than 10 kB") or t.note(f"{each:.0f} bytes")
        with Connection(c.bootstrap) as k:
            t.ok(k.metadata("t"), "and there is room for more")
    finally:
        for connection in idle:
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    wait_for(lambda: open_files(c) < files + 100, 20, "the end of the connections")
    t.ok(True, "all of them are gone when they are closed")


def main():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # the broker inherits it
    with Tap() as t, Cluster(brokers=1) as c:
        c.sql("SELECT broker.create_topic('t'); SELECT broker.create_topic('big')")
        with Connection(c.bootstrap) as k:
            wait_for(lambda: k.leader("t") == 1 and k.leader("big") == 1, 10, "leaders")
        pid = c.broker(1).pid()
        for case in (bad_frames, byte_by_byte, slow_reader, half_open, many):
            with t.case(case.__name__.replace("_", " ")):
                case(t, c)
        t.equal(c.broker(1).pid(), pid, "the broker lived through all of it")
        t.note(c.logs(30) if t.failed else "")


if __name__ == "__main__":
    main()
