#!/usr/bin/env python3
"""Logs that cannot be used any more are set aside and fetched again from their leader, but never the last good copy; and
a disk that hangs gives up its leaderships (hazards A9, A13, A26)."""
import glob
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "regress", "lib"))
from kafka_client import Connection, KafkaError
from pgbroker_cluster import Cluster, wait_for
from tap import Tap

STORAGE_ERROR = 56
SEGMENT = "00000000000000000000.log"


def make_topic(c, name, replicas, min_isr):
    """A topic of one partition with these replicas; the first leads."""
    c.sql(f"""SELECT broker.create_topic('{name}', assignment => '{{"0": {replicas}}}',
        config => '{{"min.insync.replicas": "{min_isr}"}}')""")
    wait_for(lambda: leader(c, name) == replicas[0] and isr(c, name) == sorted(replicas), 20, f"{name} on {replicas}")


def isr(c, name):
    rows = c.sql(f"SELECT array_to_string(isr, ' ') FROM broker.partitions WHERE topic = '{name}'")
    return sorted(int(i) for i in rows[0][0].split()) if rows and rows[0][0] else []


def leader(c, name):
    rows = c.sql(f"SELECT leader FROM broker.partitions WHERE topic = '{name}'")
    return int(rows[0][0]) if rows and rows[0][0] else None


class Producer:
    """acks=all, again until it is acknowledged; what is sent may be there more than once, in order."""

    def __init__(self, c, name):
        self.c, self.name, self.acknowledged = c, name, []
        self.errors = []

    def put(self, value):
        def done():
            try:
                address = self.c.broker(leader(self.c, self.name) or 0).address
                with Connection(address, timeout=5) as k:
                    k.produce(self.name, 0, [value])
            except (KafkaError, OSError, EOFError, KeyError) as error:
                self.errors.append(error)
                return False
            return True
        wait_for(done, 30, f"{value[:20]} is acknowledged")
        self.acknowledged.append(value)

    def put_some(self, what, n=20, size=1000):
        for i in range(n):
            self.put(b"%s %d " % (what, i) + os.urandom(size))

    def found(self):
        """Every value in the log, from its leader."""
        values = []
        with Connection(self.c.broker(leader(self.c, self.name)).address) as k:
            while True:
                more = k.fetch(self.name, 0, len(values), max_wait_ms=0)
                if not more:
                    return values
                values += [value for _, value in more]

    def nothing_lost(self, t, what):
        there = self.found()
        missing = [value[:20] for value in self.acknowledged if value not in there]
        t.equal(missing, [], f"{what}: everything acknowledged is there")


def log_bytes(c, broker, name):
    with open(os.path.join(c.broker(broker).data, f"{name}-0", SEGMENT), "rb") as file:
        return file.read()


def set_aside(c, broker, name):
    return glob.glob(os.path.join(c.broker(broker).data, f"{name}-0.*-corrupt"))


def events(c, name):
    return [json.loads(row[0]) for row in
            c.sql(f"SELECT details FROM broker.events WHERE kind = 'log.quarantined' AND object = '{name}-0' ORDER BY event_id")]


def repaired(t, c, broker, name, what):
    wait_for(lambda: set_aside(c, broker, name) and isr(c, name) == [1, 2, 3], 30, f"{what}: the ISR is full again")
    t.ok(True, f"{what}: fetched again, and in the ISR")
    folder = set_aside(c, broker, name)
    t.equal(len(folder), 1, f"{what}: the old log is kept aside")
    wait_for(lambda: log_bytes(c, broker, name) == log_bytes(c, leader(c, name), name), 10, f"{what}: logs are the same")
    t.ok(True, f"{what}: byte for byte what its leader has")
    told = events(c, name)
    t.ok(len(told) == 1 and told[0]["path"] == folder[0] and told[0]["reason"], f"{what}: an event says so") or t.note(told)


def rules(c, text):
    with open(c.env["FAULTFS_CONTROL"] + ".new", "w", encoding="ascii") as file:
        file.write(text)
    os.replace(c.env["FAULTFS_CONTROL"] + ".new", c.env["FAULTFS_CONTROL"])


# ---- the cases

def bit_flip(t, c):
    """A bit flips in a batch that has whole ones behind it, while the broker is down."""
    make_topic(c, "flip", [1, 2, 3], 2)
    producer = Producer(c, "flip")
    producer.put_some(b"before")
    c.broker(3).kill()
    path = os.path.join(c.broker(3).data, "flip-0", SEGMENT)
    with open(path, "r+b") as file:
        file.seek(8000)
        byte = file.read(1)[0]
        file.seek(8000)
        file.write(bytes([byte ^ 4]))
    damaged = log_bytes(c, 3, "flip")
    producer.put_some(b"while it was away")
    c.broker(3).start()
    repaired(t, c, 3, "flip", "bit flip")
    with open(os.path.join(set_aside(c, 3, "flip")[0], SEGMENT), "rb") as file:
        t.equal(file.read(), damaged, "nobody has touched the damaged log")
    t.equal(leader(c, "flip"), 1, "the leader stayed")
    producer.put_some(b"after", 3)
    producer.nothing_lost(t, "bit flip")
    c.broker(3).wait_log(r"flip-0: its log is set aside in .*-corrupt, and fetched again from broker 1; what was wrong: .*corrupt", 5)
    said = len(c.broker(3).log_text())
    c.broker(3).restart()
    c.broker(3).wait_log(r"1 logs in .* were set aside \(their folders end in -corrupt: \d+ bytes\)", 5, after=said)
    wait_for(lambda: isr(c, "flip") == [1, 2, 3], 20, "the ISR is full after a restart")
    t.equal(len(set_aside(c, 3, "flip")), 1, "a start leaves it alone, and counts it")


def follower_fails(t, c):
    make_topic(c, "follower", [1, 2, 3], 2)
    producer = Producer(c, "follower")
    producer.put_some(b"before")
    rules(c, "fdatasync broker-2/data/follower-0 EIO 1\n")
    producer.put_some(b"meanwhile")
    repaired(t, c, 2, "follower", "a follower's sync fails")
    rules(c, "")
    producer.put_some(b"after", 3)
    producer.nothing_lost(t, "a follower's sync fails")


def leader_fails(t, c, call):
    name = f"leader{call}"
    make_topic(c, name, [1, 2, 3], 2)
    producer = Producer(c, name)
    producer.put_some(b"before")
    rules(c, f"{call} broker-1/data/{name}-0 EIO 1\n")
    producer.put_some(b"meanwhile")
    t.ok(any(isinstance(error, KafkaError) for error in producer.errors), f"a leader's {call} fails: it refuses")
    t.ok(leader(c, name) != 1, f"a leader's {call} fails: another leads")
    repaired(t, c, 1, name, f"a leader's {call} fails")
    rules(c, "")
    producer.put_some(b"after", 3)
    producer.nothing_lost(t, f"a leader's {call} fails")


def last_copies(t, c):
    """What nobody else has is never set aside: the only member of an ISR, and who is needed for the minimum."""
    make_topic(c, "sole", [1, 2], 1)
    make_topic(c, "needed", [1, 3], 2)
    sole, needed = Producer(c, "sole"), Producer(c, "needed")
    sole.put_some(b"before", 5)
    needed.put_some(b"before", 5)
    c.broker(2).kill()
    wait_for(lambda: isr(c, "sole") == [1], 20, "alone in the ISR")
    sole.put_some(b"alone", 5)
    rules(c, "fdatasync broker-1/data/sole-0 EIO 1\nfdatasync broker-3/data/needed-0 EIO 1\n")
    for name in ("sole", "needed"):
        with Connection(c.broker(1).address) as k:
            try:
                k.call("Produce", 9, Connection.produce_request(name, 0, EMPTY_BATCH(), timeout_ms=500))
            except (KafkaError, OSError):
                pass
    c.broker(1).wait_log("sole-0 refuses writes: a sync failed", 10)
    c.broker(3).wait_log("needed-0 refuses writes: a sync failed", 10)
    # A partition that may be repaired stands for the time that the others would have had.
    make_topic(c, "may", [3, 1], 1)
    may = Producer(c, "may")
    may.put_some(b"before", 3)
    rules(c, "fdatasync broker-1/data/may-0 EIO 1\n")
    may.put_some(b"meanwhile", 3)
    wait_for(lambda: set_aside(c, 1, "may") and isr(c, "may") == [1, 3], 30, "the one that may is repaired")
    rules(c, "")
    t.equal([set_aside(c, 1, "sole"), set_aside(c, 3, "needed")], [[], []], "the last good copies are not set aside")
    t.equal([leader(c, "sole"), isr(c, "sole")], [1, [1]], "nobody else leads what only one has")
    sole.nothing_lost(t, "alone in the ISR")
    c.broker(1).restart()
    c.broker(2).start()
    c.broker(3).restart()
    wait_for(lambda: isr(c, "sole") == [1, 2] and isr(c, "needed") == [1, 3], 30, "all are well after a restart")
    sole.put(b"last")
    needed.put(b"last")
    sole.nothing_lost(t, "alone in the ISR, restarted")
    needed.nothing_lost(t, "needed for the minimum, restarted")


def EMPTY_BATCH():
    from kafka_client import batches
    return batches.batch([batches.record(None, b"not acknowledged")])


def disk_hangs(t, c):
    make_topic(c, "hang", [1, 2, 3], 2)
    producer = Producer(c, "hang")
    producer.put_some(b"before", 5)
    rules(c, "fdatasync broker-1/data/hang-0 delay:16000 1\n")
    with Connection(c.broker(1).address) as k:
        k.send("Produce", 9, Connection.produce_request("hang", 0, EMPTY_BATCH(), timeout_ms=500))
        wait_for(lambda: leader(c, "hang") in (2, 3), 25, "another leads")
    t.ok(True, "a disk that hangs: another leads")
    t.ok("has not returned for 10 s" in c.broker(1).log_text(), "after 10 s")
    producer.put_some(b"meanwhile", 3)
    wait_for(lambda: isr(c, "hang") == [1, 2, 3], 40, "the ISR is full again")
    rules(c, "")
    t.equal(set_aside(c, 1, "hang"), [], "its log is well and stays")
    producer.nothing_lost(t, "a disk that hangs")


def main():
    build = os.environ.get("BUILD") or "build"
    made = subprocess.run(["make", "-s", f"BUILD={build}", f"{build}/faultfs.so"], cwd=ROOT, check=False)
    shim = os.path.abspath(os.path.join(ROOT, build, "faultfs.so"))
    assert made.returncode == 0 and os.path.exists(shim), "faultfs.so"
    with Tap() as t, Cluster(brokers=3, start=False, properties={"replica.lag.time.max.ms": 3000}) as c:
        c.env.update(LD_PRELOAD=shim, FAULTFS_CONTROL=os.path.join(c.folder, "rules"))
        rules(c, "")
        c.start_brokers()
        only = sys.argv[1:]
        for name, case, *args in (("bit flip", bit_flip), ("follower", follower_fails), ("leader sync", leader_fails, "fdatasync"),
                                  ("leader write", leader_fails, "pwrite"), ("last copies", last_copies), ("hang", disk_hangs)):
            if not only or name in only:
                with t.case(name):
                    case(t, c, *args)
        t.note(c.logs(60) if t.failed else "")


if __name__ == "__main__":
    main()
