"""What one more of something costs: measured at three sizes or more in one life of a system, smallest first.

At each size the memory and the CPU when idle, and a small load at a fixed rate on a topic of its own: nothing on its
way may depend on what it does not touch.
"""
import time

from bench.scenarios.lifecycle import Connected, idle
from bench.scenarios.measures import make_batches
from bench.systems.system import wait_until
from kafka_client import Connection

PROBE = "probe"
MANY = 100


def prepare(run):
    run.system.start()
    run.fleet.learn(run.system)
    run.system.create_topic(PROBE, 1, 1, run.column.topic)
    run.kept["made"] = 0
    load_beside(run, 2)


def load_beside(run, seconds=None):
    """1,000 requests a second to the topic that every size has."""
    result = run.tools.load("produce", run.system, PROBE, seconds=seconds or max(run.seconds, 2), warmup=0.5, size=100, rate=1000, linger=0, acks="all")
    values = run.note(result)
    return {key: values[key] for key in ("p50_ms", "cpu_us_per_request") if key in values}


def at_this_size(run):
    time.sleep(1)  # what the last step has begun is done: reports, a first heartbeat
    return {**idle(run.system), **load_beside(run)}


def partitions(run, size):
    each, more = MANY, size - run.kept["made"]
    run.system.create_many(f"grown-{size}", more // each, each)
    run.kept["made"] = size
    return at_this_size(run)


def topics(run, size):
    run.system.create_many(f"grown-{size}", size - run.kept["made"], 1)
    run.kept["made"] = size
    return at_this_size(run)


def connections(run, size):
    with Connected(run, size):
        return at_this_size(run)


# -- groups: a member each, joined, that then says nothing

def join_request(group):
    return {"group_id": group, "session_timeout_ms": 300000, "rebalance_timeout_ms": 60000, "member_id": "", "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b"\0\1\0\0\0\1\0\5probe\xff\xff\xff\xff"}]}


def join(connections_, first, last):
    """Groups first..last-1, one after the other on each connection; a parked join holds its connection."""
    for begin in range(first, last, len(connections_)):
        turn = list(zip(connections_, range(begin, min(begin + len(connections_), last))))
        for k, number in turn:
            k.send("JoinGroup", 3, join_request(f"grown-{number}"))
        joined = [(k, number, k.receive()) for k, number in turn]
        for k, number, answer in joined:
            k.send("SyncGroup", 2, {"group_id": f"grown-{number}", "generation_id": answer["generation_id"], "member_id": answer["member_id"],
                                    "assignments": [{"member_id": answer["member_id"], "assignment": b"\0" * 20}]})
        wrong = {k.receive()["error_code"] for k, _ in turn} - {0}
        if wrong:
            raise RuntimeError(f"groups were refused with the errors {sorted(wrong)}")


def coordinator_is_there(run):
    """A broker that just started has its slots a moment later."""
    with Connection(run.system.bootstrap) as k:
        return k.call("JoinGroup", 3, join_request("grown-first"))["error_code"] == 0


def groups(run, size):
    if not run.kept["made"]:
        wait_until(lambda: coordinator_is_there(run), 30, "a coordinator", 0.1)
    with_connections = [Connection(run.system.bootstrap, timeout=120) for _ in range(MANY)]
    try:
        join(with_connections, run.kept["made"], size)
    finally:
        for k in with_connections:
            k.socket.close()
    run.kept["made"] = size
    return at_this_size(run)


# -- clients that send

def clients_prepare(run):
    prepare(run)
    make_batches(run)


def clients(run, size):
    result = run.tools.replay("produce", run.system, PROBE, seconds=max(run.seconds, 2), warmup=0.5, file=run.kept["batches"], connections=size, window=1)
    values = run.note(result)
    return {**{key: values[key] for key in ("requests_per_s", "cpu_us_per_request", "p99_ms") if key in values}, "memory_mib": run.system.resident_mib()}
