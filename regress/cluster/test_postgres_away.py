#!/usr/bin/env python3
"""PostgreSQL is stopped, killed or hangs: what a broker leads goes on, what needs PostgreSQL waits, then fails with
an error that clients try again on, and all is well when it is back."""
import os
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "regress", "lib"))
from kafka_client import Connection
from pgbroker_cluster import Cluster, wait_for
from tap import Tap

# REQUEST_TIMED_OUT, COORDINATOR_NOT_AVAILABLE, NOT_CONTROLLER, ...: Kafka's retriable ones that may fit.
RETRIABLE = {7, 14, 15, 16, 41}


def goes_on(t, c, k, first, when):
    sent = [b"%d" % i for i in range(first, first + 20)]
    took = []
    for i, value in enumerate(sent):
        began = time.monotonic()
        assert k.produce("t", 0, [value]) == first + i
        took.append(time.monotonic() - began)
    t.ok(max(took) < 2, f"acks=all goes on {when}")
    t.equal(k.fetch("t", 0, first), [(first + i, value) for i, value in enumerate(sent)], f"so does fetch {when}")
    t.ok(k.leader("t") == 1, f"and metadata {when}")
    return first + 20


def create(k, name, timeout_ms):
    answer = k.call("CreateTopics", 5, {"timeout_ms": timeout_ms, "topics": [
        {"name": name, "num_partitions": 1, "replication_factor": 1}]})
    return answer["topics"][0]["error_code"]


def refused_in_time(t, c, k, when):
    began = time.monotonic()
    code = create(k, f"late-{when.replace(' ', '-')}", 1500)
    took = time.monotonic() - began
    t.ok(code in RETRIABLE, f"a new topic is refused {when}, to be tried again") or t.note(f"error {code}")
    t.ok(took < 6, f"within the client's time, {when}") or t.note(f"{took:.1f} s")


def back(t, c, k, name):
    c.wait(lambda: create(k, name, 5000) in (0, 36), 40, "a new topic once PostgreSQL is back")
    wait_for(lambda: k.leader(name) == 1, 10, "its leader")
    t.equal(k.produce(name, 0, [b"x"]), 0, f"{name}: new topics are made and led again")
    t.equal(c.value("SELECT count(*) FROM broker.problems WHERE severity = 'critical'"), "0", f"{name}: nothing is critical")


def main():
    with Tap() as t, Cluster(brokers=1) as c:
        c.sql("SELECT broker.create_topic('t')")
        pid = c.broker(1).pid()
        with t.case("PostgreSQL away"), Connection(c.bootstrap, timeout=60) as k:
            wait_for(lambda: k.leader("t") == 1, 10, "a leader")
            at = goes_on(t, c, k, 0, "before")

            c.postgres.stop()
            at = goes_on(t, c, k, at, "while it is stopped")
            refused_in_time(t, c, k, "while it is stopped")
            c.postgres.start()
            back(t, c, k, "after-a-stop")

            c.postgres.kill()
            at = goes_on(t, c, k, at, "after it crashed")
            c.postgres.start()
            back(t, c, k, "after-a-crash")

            c.postgres.freeze()
            at = goes_on(t, c, k, at, "while it hangs")
            refused_in_time(t, c, k, "while it hangs")
            c.postgres.thaw()
            back(t, c, k, "after-a-hang")
            t.equal(len(k.fetch("t", 0)), at, "no message is lost")
        t.equal(c.broker(1).pid(), pid, "it is the same process all the time")

        with t.case("a broker that starts while PostgreSQL is away"):
            c.broker(1).stop()
            c.postgres.stop()
            c.broker(1).start(wait=False)
            c.broker(1).wait_log("session: ", 10, len(c.broker(1).log_text()) - 2000)
            c.postgres.start()
            c.broker(1).wait_ready(40)
            with Connection(c.bootstrap) as k:
                t.equal(len(k.fetch("t", 0)), at, "a broker that waited for PostgreSQL serves")
        t.note(c.logs(30) if t.failed else "")


if __name__ == "__main__":
    main()
