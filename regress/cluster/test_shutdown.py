#!/usr/bin/env python3
"""SIGTERM: what was accepted is answered, everything is written, and the end comes quickly; and whose directory it is."""
import os
import shutil
import signal
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "regress", "lib"))
from kafka_client import Connection, batches as batch
from pgbroker_cluster import Cluster, Trouble, wait_for
from tap import Tap

PARTITIONS = 1000
# The promise; ten times that on a machine that is busy with other tests.
PROMISED, PATIENCE = 1.0, 10.0


def answered(t, c):
    """Sixteen requests in flight at the signal: each is answered or the connection ends, and what was answered stays."""
    c.sql("SELECT broker.create_topic('t')")
    with Connection(c.bootstrap) as k:
        wait_for(lambda: k.leader("t") == 1, 10, "a leader")
        for i in range(16):
            k.send("Produce", 9, k.produce_request("t", 0, batch.batch([batch.record(None, b"%d" % i)])))
        time.sleep(0)
        c.broker(1).signal(signal.SIGTERM)
        done = 0
        try:
            while k.waiting:
                row = k.receive()["responses"][0]["partition_responses"][0]
                if row["error_code"] == 0:
                    done += 1
        except ConnectionError:
            pass
    wait_for(lambda: c.broker(1).pid() is None, 10, "its end")
    c.broker(1).start()
    with Connection(c.bootstrap) as k:
        got = k.fetch("t", 0)
        t.ok(len(got) >= done, f"{done} of 16 were acknowledged, all of them are there") or t.note(got)
    said = c.broker(1).log_text()
    t.ok("(clean stop" in said.rpartition("logs of")[2], "the directory was marked as cleanly stopped")


def all_led(k, topic):
    """A broker makes the logs of so many in several turns; those to come have no leader yet."""
    answer = k.call("ListOffsets", 2, {"replica_id": -1, "isolation_level": 0, "topics": [{
        "name": topic, "partitions": [{"partition_index": i, "timestamp": -1} for i in range(PARTITIONS)]}]})
    return {row["error_code"] for row in answer["topics"][0]["partitions"]} == {0}


def quick(t, c):
    """A thousand partitions, written to a moment before."""
    c.sql(f"SELECT broker.create_topic('wide', partitions => {PARTITIONS})")
    with Connection(c.bootstrap, timeout=60) as k:
        wait_for(lambda: k.leader("wide", PARTITIONS - 1) == 1, 30, "leaders")
        wait_for(lambda: all_led(k, "wide"), 30, "the logs of all")
        data = batch.batch([batch.record(None, b"x")])
        answer = k.call("Produce", 9, {"acks": -1, "timeout_ms": 30000, "topic_data": [{
            "name": "wide", "partition_data": [{"index": i, "records": data} for i in range(PARTITIONS)]}]})
        codes = {row["error_code"] for row in answer["responses"][0]["partition_responses"]}
        t.equal(codes, {0}, f"{PARTITIONS} partitions take a message")
    began = time.monotonic()
    ended_by = c.broker(1).stop()
    took = time.monotonic() - began
    t.equal(ended_by, signal.SIGTERM, "SIGTERM ends it")
    t.ok(took < PATIENCE, f"soon, with {PARTITIONS} partitions (promised: {PROMISED:.0f} s)") or t.note(f"{took:.2f} s")
    t.note(f"stopped in {took:.2f} s")
    began = time.monotonic()
    c.broker(1).start()
    t.note(f"served again {time.monotonic() - began:.2f} s after its start")
    with Connection(c.bootstrap) as k:
        t.equal(k.fetch("wide", PARTITIONS - 1), [(0, b"x")], "and everything is there at the next start")


def whose(t, c):
    """A data directory that is in use, of another broker, or of another cluster is refused by name."""
    def refused(broker, pattern, what):
        try:
            broker.start(seconds=20)
            t.ok(False, what)
            broker.stop()
        except Trouble as trouble:
            t.ok(pattern in str(trouble).lower(), what) or t.note(trouble)

    other = c.add_broker(start=False)
    other.properties = {"log.dirs": c.broker(1).data}
    refused(other, "in use", "a directory that another process has")
    c.broker(1).stop()
    refused(other, "broker 1", "a directory of another broker")
    del c.brokers[2]
    with Cluster(brokers=1) as second:
        second.broker(1).stop()
        shutil.rmtree(second.broker(1).data)
        shutil.copytree(c.broker(1).data, second.broker(1).data)
        refused(second.broker(1), "cluster", "a directory of another cluster")


def main():
    with Tap() as t, Cluster(brokers=1) as c:
        for case in (answered, quick, whose):
            with t.case(case.__name__):
                case(t, c)
        t.note(c.logs(30) if t.failed else "")


if __name__ == "__main__":
    main()
