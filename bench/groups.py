#!/usr/bin/env python3
"""Measures consumer groups on this machine, with a private cluster of one broker: the figures of docs/performance.md.

    make bench-groups

commits    rows of offset commits a second, many groups at once, 100 partitions each
latency    one-row commits at 1,000 a second: p50 and p99
produce    the same producer's p99 without and with 2,000 groups that commit once a second
rebalance  500 members of one group join: from the last join to the last sync
idle       what PostgreSQL writes while 1,000 groups only heartbeat

PostgreSQL runs with fsync on, as in production.
"""
import itertools
import os
import selectors
import statistics
import struct
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "regress", "lib"))

from kafka_client import Connection
from pgbroker_cluster import Cluster

PARTITIONS = 100
CONNECTIONS = 100
REBALANCE_MEMBERS = 500


def commit_request(group, partitions, offset):
    return {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "retention_time_ms": -1, "topics": [
        {"name": "t", "partitions": [{"partition_index": p, "committed_offset": offset, "committed_metadata": ""}
                                     for p in partitions]}]}


def drain(connection):
    """The next answer's bytes; it is not decoded."""
    size, = struct.unpack(">i", connection.exactly(4))
    return connection.exactly(size)


def commits(cluster, seconds=8):
    """As many consumers as CONNECTIONS, each a group of its own, commit all partitions again and again."""
    selector = selectors.DefaultSelector()
    for i in range(CONNECTIONS):
        k = Connection(cluster.bootstrap, timeout=60)
        frames = itertools.cycle([k.frame("OffsetCommit", 7, commit_request(f"g-{i}", range(PARTITIONS), offset)) for offset in (1, 2)])
        selector.register(k.socket, selectors.EVENT_READ, (k, frames))
        k.socket.sendall(next(frames))
    done, begun = 0, time.monotonic()
    while time.monotonic() < begun + seconds:
        for key, _ in selector.select(1):
            k, frames = key.data
            drain(k)
            k.socket.sendall(next(frames))
            done += PARTITIONS
    took = time.monotonic() - begun
    for key in list(selector.get_map().values()):
        key.fileobj.close()
    return done / took


def commit_latency(cluster, rate=1000, seconds=6):
    """Open loop: each commit has its moment, and waiting counts."""
    with Connection(cluster.bootstrap, timeout=60) as k:
        frames = [k.frame("OffsetCommit", 7, commit_request(f"l-{i % 500}", [0], i)) for i in range(rate * seconds)]
        due, took = [], []
        begun = time.monotonic() + 0.1

        def receive():
            for i in range(len(frames)):
                drain(k)
                took.append(time.monotonic() - (begun + i / rate))

        reader = threading.Thread(target=receive)
        reader.start()
        for i, frame in enumerate(frames):
            wait = begun + i / rate - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            k.socket.sendall(frame)
            due.append(i)
        reader.join()
    took.sort()
    return took[len(took) // 2] * 1000, took[len(took) * 99 // 100] * 1000


def produce_p99(cluster, seconds=5):
    took = []
    with Connection(cluster.bootstrap) as k:
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            begun = time.monotonic()
            k.produce("t", 0, [b"x" * 100])
            took.append(time.monotonic() - begun)
            time.sleep(0.002)
    took.sort()
    return took[len(took) * 99 // 100] * 1000


def committing_groups(cluster, stop, groups=2000):
    with Connection(cluster.bootstrap, timeout=60) as k:
        second = 0
        while not stop.is_set():
            begun = time.monotonic()
            for first in range(0, groups, 10):
                k.socket.sendall(b"".join(k.frame("OffsetCommit", 7, commit_request(f"b-{n}", [0], second))
                                          for n in range(first, first + 10)))
                for _ in range(10):
                    drain(k)
                ahead = begun + first / groups - time.monotonic()
                if ahead > 0:
                    time.sleep(ahead)
            second += 1


def join_request(group, member, session=60000):
    return {"group_id": group, "session_timeout_ms": session, "rebalance_timeout_ms": 60000, "member_id": member,
            "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b"\0\1\0\0\0\1\0\1t\xff\xff\xff\xff"}]}


def rebalance(cluster, group, members=REBALANCE_MEMBERS):
    """All come within the initial delay of the first generation; what is timed is the next one."""
    connections = [Connection(cluster.bootstrap, timeout=120) for _ in range(members)]
    for k in connections:
        k.send("JoinGroup", 3, join_request(group, ""))
    known = [k.receive()["member_id"] for k in connections]
    for k, member in zip(connections, known):
        k.send("JoinGroup", 3, join_request(group, member))
    begun = time.monotonic()
    answers = [k.receive() for k in connections]
    for k, answer in zip(connections, answers):
        handed = [{"member_id": m["member_id"], "assignment": b"\0" * 20} for m in answer["members"]]
        k.send("SyncGroup", 2, {"group_id": group, "generation_id": answer["generation_id"], "member_id": answer["member_id"],
                                "assignments": handed})
    errors = [k.receive()["error_code"] for k in connections]
    took = time.monotonic() - begun
    for k in connections:
        k.socket.close()
    if any(errors):
        raise RuntimeError(f"{sum(1 for e in errors if e)} members did not get their assignment: {sorted(set(errors))}")
    return took


def idle_writes(cluster, groups=1000, seconds=5):
    """Bytes of WAL while members only heartbeat."""
    connections = [Connection(cluster.bootstrap, timeout=60) for _ in range(250)]
    with connections[0] as k:
        members = {}
        # A parked join holds its connection, so the groups come in turns of as many as there are connections.
        joined = []
        for first in range(0, groups, len(connections)):
            for i, c in enumerate(connections):
                c.send("JoinGroup", 3, join_request(f"h-{first + i}", "", 300000))
            joined += [c.receive() for c in connections]
        for n, answer in enumerate(joined):
            members[n] = (answer["member_id"], answer["generation_id"])
            k.call("SyncGroup", 2, {"group_id": f"h-{n}", "generation_id": answer["generation_id"],
                                    "member_id": answer["member_id"],
                                    "assignments": [{"member_id": answer["member_id"], "assignment": b""}]})
        time.sleep(7)  # figures of the last change are reported, and PostgreSQL's own checkpoint is over
        cluster.sql("CHECKPOINT")
        before = int(cluster.value("SELECT pg_current_wal_insert_lsn() - '0/0'"))
        beats, ends = 0, time.monotonic() + seconds
        while time.monotonic() < ends:
            for n, (member, generation) in members.items():
                error = k.call("Heartbeat", 2, {"group_id": f"h-{n}", "generation_id": generation, "member_id": member})["error_code"]
                if error:
                    raise RuntimeError(f"heartbeat of group {n}: error {error}")
                beats += 1
        return beats, int(cluster.value("SELECT pg_current_wal_insert_lsn() - '0/0'")) - before


def main():
    rows = []
    with Cluster(properties={"group.initial.rebalance.delay.ms": 2000}, pg_settings={"fsync": "on", "autovacuum": "on"}) as cluster:
        cluster.sql(f"SELECT broker.create_topic('t', partitions => {PARTITIONS})")
        cluster.sql("CALL broker.wait()")
        rates = [commits(cluster) for _ in range(3)]
        rows.append(("offset commits, 100 rows a request", f"{statistics.median(rates):,.0f} rows/s"))
        p50, p99 = commit_latency(cluster)
        rows.append(("a commit of one row at 1,000 a second", f"p50 {p50:.1f} ms, p99 {p99:.1f} ms"))
        alone = produce_p99(cluster)
        stop = threading.Event()
        other = threading.Thread(target=committing_groups, args=(cluster, stop))
        other.start()
        beside = produce_p99(cluster)
        stop.set()
        other.join()
        rows.append(("produce p99 alone / beside 2,000 groups that commit each second", f"{alone:.1f} / {beside:.1f} ms"))
        took = statistics.median(rebalance(cluster, f"big-{i}") for i in range(3))
        rows.append((f"rebalance of {REBALANCE_MEMBERS} members, last join to last sync", f"{took:.2f} s"))
        beats, written = idle_writes(cluster)
        rows.append((f"WAL while 1,000 groups send {beats:,} heartbeats", f"{written:,} bytes"))
    print("| figure | median |\n|-|-|")
    for name, value in rows:
        print(f"| {name} | {value} |")


if __name__ == "__main__":
    main()
