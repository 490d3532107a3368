#!/usr/bin/env python3
"""Measures consumer groups on this machine, with a private cluster of one broker: the figures of docs/performance.md.

    make bench-groups

commits    rows of offset commits a second: 100 consumers, each a group that commits 100 partitions at a time
latency    one-row commits at 1,000 a second: p50 and p99
produce    the same producer's p99 without and with 2,000 groups that commit once a second
rebalance  500 members of one group join: from the last join to the last sync
idle       what PostgreSQL writes while 1,000 groups only heartbeat
memory     what 10,000 groups with a member each add to brokerd

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
MEMBER_ID_REQUIRED = 79


def commit_request(group, partitions, offset):
    return {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "retention_time_ms": -1, "topics": [
        {"name": "t", "partitions": [{"partition_index": p, "committed_offset": offset, "committed_metadata": ""}
                                     for p in partitions]}]}


def drain(connection):
    """The next answer's bytes; it is not decoded."""
    size, = struct.unpack(">i", connection.exactly(4))
    return connection.exactly(size)


def commits(cluster, seconds=5):
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
    """Open loop: each commit has its moment, and waiting counts.  A connection's commits are answered one after the other."""
    selector = selectors.DefaultSelector()
    connections = [Connection(cluster.bootstrap, timeout=60) for _ in range(CONNECTIONS)]
    for k in connections:
        selector.register(k.socket, selectors.EVENT_READ, (k, []))
    frames = [connections[i % CONNECTIONS].frame("OffsetCommit", 7, commit_request(f"l-{i % 500}", [0], i)) for i in range(rate * seconds)]
    took, sent, begun = [], 0, time.monotonic() + 0.1
    while len(took) < len(frames):
        while sent < len(frames) and begun + sent / rate <= time.monotonic():
            k = connections[sent % CONNECTIONS]
            selector.get_key(k.socket).data[1].append(begun + sent / rate)
            k.socket.sendall(frames[sent])
            sent += 1
        wait = begun + sent / rate - time.monotonic() if sent < len(frames) else 1
        for key, _ in selector.select(max(0, wait)):
            k, due = key.data
            drain(k)
            took.append(time.monotonic() - due.pop(0))
    for k in connections:
        k.socket.close()
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


def wait_for_coordinator(cluster):
    """A broker that just started answers joins once it has its slots."""
    with Connection(cluster.bootstrap) as k:
        cluster.wait(lambda: k.call("JoinGroup", 5, dict(join_request("probe", ""), group_instance_id=None))["error_code"] == MEMBER_ID_REQUIRED,
                     what="a coordinator")


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
        cluster.sql("CREATE EXTENSION IF NOT EXISTS pg_walinspect")
        time.sleep(7)  # figures of the last change are reported, and PostgreSQL's own checkpoint is over
        cluster.sql("CHECKPOINT")
        before = cluster.value("SELECT pg_current_wal_insert_lsn()")
        beats, ends = 0, time.monotonic() + seconds
        while time.monotonic() < ends:
            for n, (member, generation) in members.items():
                error = k.call("Heartbeat", 2, {"group_id": f"h-{n}", "generation_id": generation, "member_id": member})["error_code"]
                if error:
                    raise RuntimeError(f"heartbeat of group {n}: error {error}")
                beats += 1
        # The background writer notes running transactions now and then: records of the resource manager Standby.
        return beats, int(cluster.value("SELECT coalesce(sum(record_length), 0) FROM pg_get_wal_records_info("
                                        f"'{before}', pg_current_wal_flush_lsn()) WHERE resource_manager <> 'Standby'"
                                        if cluster.value(f"SELECT pg_current_wal_flush_lsn() > '{before}'") == "t" else "SELECT 0"))


def resident_mib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024


def groups_memory(cluster, groups=10000, at_once=100):
    """MiB that brokerd grows by."""
    connections = [Connection(cluster.bootstrap, timeout=60) for _ in range(at_once)]
    before = resident_mib(cluster.broker(1).pid())
    for first in range(0, groups, at_once):
        for i, k in enumerate(connections):
            k.send("JoinGroup", 3, join_request(f"m-{first + i}", "", 300000))
        joined = [k.receive() for k in connections]
        for i, (k, answer) in enumerate(zip(connections, joined)):
            k.send("SyncGroup", 2, {"group_id": f"m-{first + i}", "generation_id": answer["generation_id"], "member_id": answer["member_id"],
                                    "assignments": [{"member_id": answer["member_id"], "assignment": b"\0" * 20}]})
        errors = {k.receive()["error_code"] for k in connections}
        if errors != {0}:
            raise RuntimeError(f"members did not get their assignment: {errors}")
    grown = resident_mib(cluster.broker(1).pid()) - before
    for k in connections:
        k.socket.close()
    return grown


def row(name, value):
    print(f"| {name} | {value} |", flush=True)


def main():
    print("| figure | median |\n|-|-|")
    with Cluster(properties={"group.initial.rebalance.delay.ms": 2000}, pg_settings={"fsync": "on", "autovacuum": "on"}) as cluster:
        cluster.sql(f"SELECT broker.create_topic('t', partitions => {PARTITIONS})")
        cluster.sql("CALL broker.wait()")
        wait_for_coordinator(cluster)
        rates = [commits(cluster) for _ in range(3)]
        row("offset commits, 100 rows a request", f"{statistics.median(rates):,.0f} rows/s")
        p50, p99 = commit_latency(cluster)
        row("a commit of one row at 1,000 a second", f"p50 {p50:.1f} ms, p99 {p99:.1f} ms")
        alone = produce_p99(cluster)
        stop = threading.Event()
        other = threading.Thread(target=committing_groups, args=(cluster, stop))
        other.start()
        beside = produce_p99(cluster)
        stop.set()
        other.join()
        row("produce p99 alone / beside 2,000 groups that commit each second", f"{alone:.1f} / {beside:.1f} ms")
        took = statistics.median(rebalance(cluster, f"big-{i}") for i in range(3))
        row(f"rebalance of {REBALANCE_MEMBERS} members, last join to last sync", f"{took:.2f} s")
        beats, written = idle_writes(cluster)
        row(f"WAL while 1,000 groups send {beats:,} heartbeats", f"{written:,} bytes")
    with Cluster(properties={"group.initial.rebalance.delay.ms": 0}) as cluster:
        wait_for_coordinator(cluster)
        row("brokerd grows by, for 10,000 groups of one member", f"{groups_memory(cluster):.1f} MiB")


if __name__ == "__main__":
    main()
