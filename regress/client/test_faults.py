#!/usr/bin/env python3
"""Brokers that are killed, paused and restarted under libpgbroker: nothing that was acknowledged is lost, nothing is there
twice, the order of each partition is kept, and a group goes on behind its coordinator.
"""
import os
import random
import signal
import tempfile
import threading
import time

from both import read, until
import kafka
import pgbroker
from pgbroker import Consumer, Failure, Producer, brokerctl
from pgbroker_cluster import Cluster
from tap import Tap

PARTITIONS = 3
SETTINGS = {"request.timeout.ms": 3000, "linger.ms": 2, "retry.backoff.ms": 50, "metadata.wait.ms": 60000}


class Writer(threading.Thread):
    """Writes numbered messages, a few thousand a second, until told to stop; `reports` says what became of them."""

    def __init__(self, bootstrap, topic):
        super().__init__()
        self.producer = Producer({"bootstrap.servers": bootstrap, **SETTINGS})
        self.topic, self.ended, self.count, self.left = topic, threading.Event(), 0, None

    def run(self):
        while not self.ended.is_set():
            for _ in range(20):
                self.count += 1
                self.producer.produce(self.topic, b"%d" % self.count, partition=self.count % PARTITIONS, opaque=self.count)
            self.producer.work(5)
        self.left = self.producer.close(60000)

    def delivered(self):
        return len(self.producer.reports)

    def stop(self):
        self.ended.set()
        self.join(90)


def all_of(bootstrap, topic):
    """partition -> the numbers that are there, in order."""
    c = Consumer({"bootstrap.servers": bootstrap, "metadata.wait.ms": 60000})
    places = [(topic, p) for p in range(PARTITIONS)]
    c.assign(*((t, p, pgbroker.EARLIEST) for t, p in places))
    ends = dict(zip(places, c.offsets(*((t, p, pgbroker.LATEST) for t, p in places))))
    found = {p: [] for p in range(PARTITIONS)}

    def done():
        for r in c.poll(200):
            found[r[1]].append(int(r[5]))
        return all(c.position(*at) >= end for at, end in ends.items())
    until(done, 60, "everything is read")
    c.close()
    return found


def check(writer, bootstrap):
    assert writer.left == 0, f"{writer.left} of {writer.count} without a report"
    failed = [r for r in writer.producer.reports if r[3]]
    assert not failed, f"{len(failed)} failed: {failed[0][3]}"
    assert len(writer.producer.reports) == writer.count
    found = all_of(bootstrap, writer.topic)
    for p, numbers in found.items():
        want = [n for n in range(1, writer.count + 1) if n % PARTITIONS == p]
        assert numbers == want, (f"partition {p}: {len(numbers)} of {len(want)}, twice: {len(numbers) - len(set(numbers))}, "
                                 f"missing: {sorted(set(want) - set(numbers))[:5]}, first difference at "
                                 f"{next((i for i, (a, b) in enumerate(zip(numbers, want)) if a != b), None)}")


def more(writer, count=500, seconds=60):
    """Waits until so many more are delivered: the fault is over for the client."""
    before = writer.delivered()
    until(lambda: time.sleep(0.01) or writer.delivered() >= before + count, seconds, f"{count} messages more are delivered")


def revive(broker):
    """Whatever happened to it; a broker that was paused for long ends itself once it goes on."""
    if broker.pid():
        broker.resume()
    # One that ends itself does so before it answers anybody.
    until(lambda: not broker.pid() or broker.known_brokers(), 20, "the broker goes on or ends")
    if not broker.pid():
        broker.start()


def on_brokerd(t):
    with Cluster(brokers=3, properties={"default.replication.factor": 3, "min.insync.replicas": 2}) as c:
        brokerctl("topics", "create", "faults", "-P", str(PARTITIONS), "-r", "3", "-c", "min.insync.replicas=2", bootstrap=c.bootstrap)
        c.wait_sql("SELECT count(*) FROM broker.partitions WHERE leader IS NOT NULL AND cardinality(isr) = 3", [(str(PARTITIONS),)], 20)
        with t.case("brokerd: leaders that are killed, paused and restarted lose, double and reorder nothing"):
            writer = Writer(c.bootstrap, "faults")
            writer.start()
            try:
                more(writer)
                for broker, fault in zip(c.brokers.values(), ("kill", "pause", "restart")):
                    getattr(broker, fault)()
                    more(writer)
                    revive(broker)
                    c.wait_sql("SELECT count(*) FROM broker.partitions WHERE cardinality(isr) = 3", [(str(PARTITIONS),)], 60)
                    more(writer)
            finally:
                writer.stop()
            check(writer, c.bootstrap)
        with t.case("brokerd: a group goes on when its coordinator is killed"):
            group_survives(c)
        if t.failed:
            t.note(c.logs())


def group_survives(c):
    told = []
    consumer = Consumer({"bootstrap.servers": c.bootstrap, "group.id": "g", "auto.offset.reset": "earliest", "request.timeout.ms": 5000,
                         "heartbeat.interval.ms": 300, "session.timeout.ms": 10000}, lambda what, at: told.append(what))
    consumer.subscribe("faults")
    before = len(read(consumer, 1000, 60))
    coordinator = int(next(line.split()[-1] for line in brokerctl("groups", "list", bootstrap=c.bootstrap).splitlines() if line.startswith("g ")))
    c.broker(coordinator).kill()
    p = Producer({"bootstrap.servers": c.bootstrap, **SETTINGS})
    for i in range(PARTITIONS):
        p.produce("faults", b"last", partition=i)
    last = set()

    def all_last():
        p.work(0)
        for r in consumer.poll(100):
            if r[5] == b"last":
                last.add(r[1])
        return len(last) == PARTITIONS
    until(all_last, 60, f"what was written after it ({before} before)")

    def committed():
        try:
            consumer.commit()
            return True
        except Failure:
            return False
    until(committed, 60, "a commit to the new coordinator")
    assert p.close() == 0
    consumer.close()
    c.broker(coordinator).start()


def on_kafka(t):
    with tempfile.TemporaryDirectory() as folder, kafka.Server(folder) as server:
        brokerctl("topics", "create", "faults", "-P", str(PARTITIONS), bootstrap=server.bootstrap)
        with t.case("Apache Kafka: a broker that is paused, killed and restarted loses, doubles and reorders nothing"):
            writer = Writer(server.bootstrap, "faults")
            writer.start()
            try:
                more(writer)
                os.kill(server.process.pid, signal.SIGSTOP)
                # Longer than request.timeout.ms: what was on its way is sent again.
                until(lambda: time.sleep(0.05) or writer.count > writer.delivered() + 3000, 30, "messages pile up")
                threading.Event().wait(4)
                os.kill(server.process.pid, signal.SIGCONT)
                more(writer)
                server.process.kill()
                server.process.wait()
                server.start()
                more(writer)
            finally:
                writer.stop()
            check(writer, server.bootstrap)


def main():
    random.seed(1)
    with Tap() as t:
        on_brokerd(t)
        try:
            on_kafka(t)
        except kafka.Unavailable as e:
            t.skip("the same against Apache Kafka", str(e))


if __name__ == "__main__":
    main()
