#!/usr/bin/env python3
"""libpgbroker against brokerd and against Apache Kafka: what each call of pgbroker.h promises."""
import os
import subprocess
import threading
import time
import uuid

from both import each_broker, read, until
import pgbroker
from pgbroker import COMMITTED, EARLIEST, LATEST, UNKNOWN, Consumer, Failure, Producer, brokerctl
from tap import Tap
import toolchain

# Aborted and committed transactions, by librdkafka: what a read_committed consumer must tell apart.
TRANSACTIONS = """
import sys, confluent_kafka as ck
def producer(name):
    p = ck.Producer({'bootstrap.servers': sys.argv[1], 'transactional.id': sys.argv[2] + name, 'broker.address.family': 'v4'})
    p.init_transactions(30)
    return p
def put(p, text):
    p.produce(sys.argv[2], text, partition=0)
    p.flush()
p = producer('-tx')
for i in range(6):
    p.begin_transaction()
    for k in range(5):
        put(p, f'{"abort" if i % 2 else "commit"} {i} {k}')
    p.abort_transaction() if i % 2 else p.commit_transaction()
# One within another: the broker lists them by their ends.
q = producer('-within')
p.begin_transaction()
put(p, 'abort around')
q.begin_transaction()
put(q, 'abort within')
q.abort_transaction()
put(p, 'abort around')
p.abort_transaction()
q.begin_transaction()
put(q, 'commit 7 0')
q.commit_transaction()
"""


# Of the first record, less a second: not so old that retention deletes it.
T0 = int(time.time()) * 1000 - 600000


class Tests:
    def __init__(self, t, name, bootstrap):
        self.t, self.name, self.bootstrap = t, name, bootstrap

    def topic(self, partitions=1, *configs):
        name = f"c-{uuid.uuid4().hex[:10]}"
        brokerctl("topics", "create", name, "-P", str(partitions), *configs, bootstrap=self.bootstrap)
        return name

    def producer(self, **settings):
        return Producer({"bootstrap.servers": self.bootstrap, **{k.replace("_", "."): v for k, v in settings.items()}})

    def consumer(self, on_rebalance=None, **settings):
        return Consumer({"bootstrap.servers": self.bootstrap, **{k.replace("_", "."): v for k, v in settings.items()}}, on_rebalance)

    def write(self, topic, values, partition=0, **settings):
        p = self.producer(**settings)
        for i, value in enumerate(values):
            p.produce(topic, value, partition=partition, timestamp=T0 + 1000 * (i + 1), opaque=i + 1)
        assert p.close() == 0
        return p.reports

    # -- each method is one test; its docstring is the name

    def reports(self):
        """each message has one report, with offset and opaque, in order"""
        reports = self.write(self.topic(), [b"v%d" % i for i in range(2000)])
        assert [(r[2], r[4]) for r in reports] == [(i, i + 1) for i in range(2000)], reports[:5]

    def moved(self):
        """messages of a topic that is not known yet go where they belong, in order, with headers, and alone into errors"""
        topic = self.topic(3)
        p, wanted = self.producer(), [(i % 4 if i % 7 else -1) for i in range(400)]
        for i, partition in enumerate(wanted):
            p.produce(topic, b"%d" % i, key=b"k" if partition < 0 else None, partition=partition, headers=[("h", b"%d" % i)] * (i % 3), opaque=i + 1)
        p.flush()
        at = {opaque - 1: (partition, error) for _, partition, _, error, opaque in p.reports}
        assert len(p.reports) == len(at) == 400, p.reports[:5]
        assert all((error is not None and error.code == pgbroker.NO_PARTITION) == (wanted[i] == 3) for i, (_, error) in at.items()), at
        assert all(wanted[i] in (-1, partition) for i, (partition, _) in at.items())
        c = self.consumer()
        c.assign(*((topic, n, 0) for n in range(3)))
        found = read(c, sum(n != 3 for n in wanted))
        for n in range(3):
            mine = [int(r[5]) for r in found if r[1] == n]
            assert mine == sorted(i for i, (partition, error) in at.items() if partition == n and error is None), mine
        assert all(r[6] == [("h", r[5])] * (int(r[5]) % 3) for r in found)
        p.close()
        c.close()

    def asked_meanwhile(self):
        """a topic that is named while metadata are on their way is asked for next"""
        topic = self.topic(3)
        for turns in range(12):
            c = self.consumer()
            for _ in range(turns):
                c.poll(0)
            start = time.monotonic()
            assert c.partitions(topic) == 3 and time.monotonic() - start < 5
            c.close()

    def routing(self):
        """messages without a key go to all partitions in turn, sticky ones by the batch, keys where Java puts them"""
        topic = self.topic(4)
        p = self.producer()
        for i in range(400):
            p.produce(topic, b"x")
        p.flush()
        counts = [sum(r[1] == n for r in p.reports) for n in range(4)]
        assert counts == [100] * 4, counts
        p.close()
        p = self.producer(partitioner_unkeyed="sticky")
        for i in range(100):
            p.produce(topic, b"x")
        p.flush()
        assert len({r[1] for r in p.reports}) < 4, p.reports
        p.close()
        p = self.producer()
        for key in (b"21", b"foobar", b"a-little-bit-long-string"):
            p.produce(topic, b"x", key=key)
        p.flush()
        # murmur2 of these keys in Kafka's own tests: -973932308, -790332482, -985981536
        want = [(m & 0x7fffffff) % 4 for m in (-973932308, -790332482, -985981536)]
        assert sorted(r[1] for r in p.reports) == sorted(want), (p.reports, want)
        p.close()

    def queue_full(self):
        """a full buffer says so, and takes messages again once reports were given"""
        topic = self.topic()
        p = self.producer(buffer_memory=20000, linger_ms=1000)
        taken = 0
        try:
            for taken in range(100000):
                p.produce(topic, b"x" * 100, block=False)
            raise AssertionError("never full")
        except Failure as e:
            assert e.code == pgbroker.QUEUE_FULL and e.retriable and 20 < taken < 1000, (e, taken)
        until(lambda: p.work(100) or not pgbroker.lib.pgb_pending(p.handle) or True)
        p.produce(topic, b"x")
        assert p.close() == 0 and len(p.reports) == taken + 1

    def too_large(self):
        """a message above max.request.size is refused, one above the topic's limit is reported with what to do"""
        topic = self.topic(1, "-c", "max.message.bytes=1000")
        p = self.producer()
        try:
            p.produce(topic, b"x" * 2000000)
            raise AssertionError("taken")
        except Failure as e:
            assert "max.request.size" in str(e)
        for i in range(9):
            p.produce(topic, b"x" * 5000 if i == 4 else b"%d" % i, opaque=i + 1)
        p.flush()
        # Only the one that is too large, though it was in a batch with the others; those keep their order.
        assert [r[4] for r in p.reports if r[3] and r[3].code == 10 and "batch.size" in str(r[3])] == [5], p.reports
        p.produce(topic, b"after")
        assert p.close() == 0
        c = self.consumer()
        c.assign((topic, 0, 0))
        assert b"".join(r[5] for r in read(c, 9)) == b"01235678after"
        c.close()

    def unknown(self):
        """an unknown topic and partition fail with a sentence, for messages and for a consumer"""
        p = self.producer(metadata_wait_ms=1500, **{"allow_auto_create_topics": "false"})
        p.produce("no-such-topic", b"x")
        topic = self.topic(2)
        p.produce(topic, b"x", partition=1)
        p.flush()
        try:
            p.produce(topic, b"x", partition=2)
            raise AssertionError("partition 2 of 2 was taken")
        except Failure as e:
            assert "0 to 1" in str(e), e
        p.close()
        assert [r[3] and r[3].code for r in sorted(p.reports, key=lambda r: r[0] != "no-such-topic")] == [3, None], p.reports
        c = self.consumer(metadata_wait_ms=1000)
        c.assign(("no-such-topic", 0, EARLIEST))
        try:
            until(lambda: c.poll(200))
            raise AssertionError("records of a topic that is not there")
        except Failure as e:
            assert e.code == 3 and "spelling" in str(e), e
        c.close()

    def seek(self):
        """seek by offset, to both ends and by time; position and lag follow"""
        topic = self.topic()
        self.write(topic, [b"%d" % i for i in range(50)])
        c = self.consumer()
        c.assign((topic, 0, 10))
        assert read(c, 40)[0][2] == 10 and c.position(topic, 0) == 50 and c.lag(topic, 0) == 0
        for place, first in ((EARLIEST, 0), (48, 48)):
            c.seek(topic, 0, place)
            assert read(c, 1)[0][2] == first
        c.seek_time(topic, 0, T0 + 20500)
        assert read(c, 1)[0][2:4] == (20, T0 + 21000)
        c.seek(topic, 0, LATEST)
        until(lambda: not c.poll(50) and c.position(topic, 0) == 50)
        assert c.offsets((topic, 0, EARLIEST)) == [0] and c.offsets((topic, 0, T0 + 10500)) == [10]
        assert c.offsets((topic, 0, LATEST)) == [50] and c.offsets((topic, 0, T0 + 10 ** 9)) == [UNKNOWN]
        assert c.offsets((topic, 0, LATEST), (topic, 0, T0 + 10500), (topic, 0, EARLIEST)) == [50, 10, 0], "one partition, three questions"
        c.close()

    def pause(self):
        """a paused partition gives nothing, the others go on"""
        topic = self.topic(2)
        for p in (0, 1):
            self.write(topic, [b"%d" % i for i in range(300)], partition=p)
        c = self.consumer()
        c.assign((topic, 0, 0), (topic, 1, 0))
        c.pause(topic, 0)
        assert {r[1] for r in read(c, 300)} == {1}
        c.resume(topic, 0)
        found = read(c, 300)
        assert [r[2] for r in found] == list(range(300)) and {r[1] for r in found} == {0}
        c.close()
        # What they hold unread is in nobody's way, however much it is.
        c = self.consumer(fetch_max_bytes=1024, max_partition_fetch_bytes=1024)
        c.assign((topic, 0, 0), (topic, 1, 0))
        (_, paused, *_), = until(lambda: c.poll(200, 1), what="a record")
        c.pause(topic, paused)
        assert {r[1] for r in read(c, 300)} == {1 - paused}
        c.close()

    def codecs(self):
        """what is compressed with any codec is read again, a record at a time too"""
        topic = self.topic(2)
        for codec in ("gzip", "snappy", "lz4", "zstd", "none"):
            for p in (0, 1):
                self.write(topic, [b"%s %d" % (codec.encode(), i) for i in range(100)], p, compression_type=codec)
        c = self.consumer()
        c.assign((topic, 0, 0), (topic, 1, 0))
        found = []
        # Pausing what is being read makes the other one use the buffer in between.
        while len(found) < 1000:
            for r in c.poll(200, most=7):
                found.append(r)
                c.pause(topic, r[1])
                c.resume(topic, 1 - r[1])
            if not found or len([r for r in found if r[1] == found[-1][1]]) == 500:
                c.resume(topic, 1 - found[-1][1] if found else 0)
        for p in (0, 1):
            assert [r[2] for r in found if r[1] == p] == list(range(500))
        c.close()

    def commits(self):
        """a group goes on where it committed, and at auto.offset.reset where it did not"""
        topic, group = self.topic(2), uuid.uuid4().hex
        self.write(topic, [b"%d" % i for i in range(20)])
        c = self.consumer(group_id=group, auto_offset_reset="earliest", enable_auto_commit="false")
        assert c.committed((topic, 0)) == [UNKNOWN]
        c.assign((topic, 0, COMMITTED))
        assert read(c, 20)[0][2] == 0
        c.commit((topic, 0, 7))
        assert c.committed((topic, 0), (topic, 1)) == [7, UNKNOWN]
        c.seek(topic, 0, COMMITTED)
        assert read(c, 1)[0][2] == 7
        c.close()
        c = self.consumer(group_id=group, auto_offset_reset="none")
        c.assign((topic, 0, COMMITTED), (topic, 1, COMMITTED))
        try:
            until(lambda: c.poll(100) and False)
            raise AssertionError("partition 1 began somewhere")
        except Failure as e:
            assert "auto.offset.reset is none" in str(e), e
        c.close()

    def out_of_range(self):
        """an offset out of range goes where auto.offset.reset says, or is an error"""
        topic = self.topic()
        self.write(topic, [b"%d" % i for i in range(5)])
        c = self.consumer(auto_offset_reset="earliest")
        c.assign((topic, 0, 1000))
        assert read(c, 5)[0][2] == 0
        c.close()
        c = self.consumer(auto_offset_reset="none")
        c.assign((topic, 0, 1000))
        try:
            until(lambda: c.poll(100))
            raise AssertionError("records from nowhere")
        except Failure as e:
            assert "out of range" in str(e), e
        c.seek(topic, 0, 3)
        assert read(c, 2)[0][2] == 3
        c.close()

    def group(self):
        """two members share a topic; partitions are revoked before they are given, commits are automatic"""
        topic, group = self.topic(4), uuid.uuid4().hex
        told = {"a": [], "b": []}
        settings = {"group_id": group, "auto_offset_reset": "earliest", "heartbeat_interval_ms": 300,
                    "auto_commit_interval_ms": 200, "partition_assignment_strategy": "cooperative-sticky"}
        a = self.consumer(lambda what, at: told["a"].append((what, sorted(p for _, p in at))), **settings)
        a.subscribe(topic)
        until(lambda: not a.poll(100) and told["a"])
        assert told["a"] == [("assigned", [0, 1, 2, 3])], told
        b = self.consumer(lambda what, at: told["b"].append((what, sorted(p for _, p in at))), **settings)
        b.subscribe(topic)
        until(lambda: (a.poll(50), b.poll(50)) and told["b"], 40)
        # Cooperative: only what moves is revoked.
        assert len(told["a"][1][1]) == 2 and told["a"][1][0] == "revoked", told
        assert sorted(told["b"][0][1]) == told["a"][1][1], told
        for p in range(4):
            self.write(topic, [b"x"] * 10, partition=p)
        seen = []
        until(lambda: (seen.extend(a.poll(50)), seen.extend(b.poll(50))) and len(seen) >= 40)
        assert len(seen) == 40
        a.close()
        b.close()
        c = self.consumer(group_id=group)
        assert c.committed(*((topic, p) for p in range(4))) == [10] * 4
        c.close()

    def static(self):
        """a static member that comes back keeps its partitions, and a second one of its name fences it"""
        topic, group, told = self.topic(2), uuid.uuid4().hex, []
        settings = {"group_id": group, "group_instance_id": "one", "heartbeat_interval_ms": 200, "session_timeout_ms": 20000}
        a = self.consumer(lambda what, at: told.append(what), **settings)
        a.subscribe(topic)
        until(lambda: not a.poll(100) and told)
        b = self.consumer(lambda what, at: told.append(what), **settings)
        b.subscribe(topic)
        until(lambda: not b.poll(100) and len(told) > 1)
        try:
            until(lambda: a.poll(100), 20)
            raise AssertionError("records")
        except Failure as e:
            assert e.code == -112 and "group.instance.id" in str(e), e
        a.close()
        b.close()

    def read_committed(self):
        """read_committed passes over aborted transactions"""
        topic = self.topic()
        try:
            python = f"{toolchain.virtual_environment('confluent')}/python"
        except (toolchain.Missing, toolchain.Broken) as e:
            return str(e)
        done = subprocess.run([python, "-c", TRANSACTIONS, self.bootstrap, topic], capture_output=True, text=True, timeout=90, check=False)
        if "TRANSACTIONAL_ID_AUTHORIZATION_FAILED" in done.stderr:
            return "this broker has no transactions"
        assert done.returncode == 0, done.stderr
        c = self.consumer(isolation_level="read_committed")
        c.assign((topic, 0, 0))
        want = [b"commit %d %d" % (i, k) for i in (0, 2, 4) for k in range(5)] + [b"commit 7 0"]
        assert [r[5] for r in read(c, 16)] == want
        until(lambda: not c.poll(100) and c.lag(topic, 0) == 0)
        c.close()
        c = self.consumer()
        c.assign((topic, 0, 0))
        assert len(read(c, 34)) == 34
        c.close()

    def interrupt(self):
        """pgb_interrupt ends a poll from another thread"""
        c = self.consumer()
        c.assign((self.topic(), 0, 0))
        c.poll(0)
        timer = threading.Timer(0.3, lambda: pgbroker.lib.pgb_interrupt(c.handle))
        timer.start()
        start = time.monotonic()
        try:
            c.poll(20000)
            raise AssertionError("not interrupted")
        except Failure as e:
            assert e.code == -113 and time.monotonic() - start < 10
        timer.join()
        c.close()

    def event_loop(self):
        """file descriptor and timeout are enough to drive both from somebody's loop"""
        import select
        topic = self.topic()
        p, c = self.producer(linger_ms=20), self.consumer()
        c.assign((topic, 0, 0))
        p.produce(topic, b"x")
        found, turns, end = [], 0, time.monotonic() + 20
        lib = pgbroker.lib
        fds = {lib.pgb_producer_fd(p.handle): p, lib.pgb_consumer_fd(c.handle): c}
        while not (found and p.reports) and time.monotonic() < end:
            wait = min(lib.pgb_producer_timeout(p.handle), lib.pgb_consumer_timeout(c.handle), 1000)
            select.select(list(fds), [], [], wait / 1000)
            p.work(0)
            found += c.poll(0)
            turns += 1
        assert len(found) == 1 and len(p.reports) == 1
        assert turns < 1000, f"{turns} turns: a busy loop"
        p.close()
        c.close()


def main():
    only = os.environ.get("ONLY")
    with Tap() as t, each_broker(t) as brokers:
        for name, bootstrap in brokers:
            tests = Tests(t, name, bootstrap)
            for test in [v for k, v in Tests.__dict__.items() if callable(v) and v.__doc__ and (not only or k == only)]:
                skipped = []
                with t.case(f"{name}: {test.__doc__}"):
                    skipped.append(test(tests))
                if skipped and skipped[0]:
                    t.note(f"not looked at: {skipped[0]}")


if __name__ == "__main__":
    main()
