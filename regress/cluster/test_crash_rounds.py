#!/usr/bin/env python3
"""Killed again and again under load: an idempotent producer that sends again what was not answered finds every
message in the log once, in order, and never one that was acknowledged missing."""
import os
import random
import signal
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "regress", "lib"))
from kafka_client import Connection, KafkaError, batches
from pgbroker_cluster import Cluster, wait_for
from tap import Tap

ROUNDS = 20
IN_FLIGHT = 5  # Kafka's bound for idempotent producers: that many batches are remembered
OUT_OF_ORDER = 45
PARTITIONS = 2


class Producer:
    """As Kafka's clients: up to five batches under way, each with its sequence, sent again after a crash."""

    def __init__(self, c):
        self.c = c
        with Connection(c.bootstrap) as k:
            answer = k.call("InitProducerId", 3, {"transactional_id": None, "transaction_timeout_ms": 60000,
                                                  "producer_id": -1, "producer_epoch": -1})
        assert answer["error_code"] == 0, answer
        self.id, self.epoch = answer["producer_id"], answer["producer_epoch"]
        self.acknowledged = {p: 0 for p in range(PARTITIONS)}  # batches, and so sequences and offsets
        self.resent = 0

    def batch(self, sequence):
        return batches.batch([batches.record(None, b"%d" % sequence)], producer_id=self.id,
                             producer_epoch=self.epoch, base_sequence=sequence)

    def run(self, most, kill_after=None):
        """Sends until `most` answers came, or the broker is gone: killed some time after so many of them."""
        k = Connection(self.c.bootstrap)
        waiting = []
        following = dict(self.acknowledged)
        answers = 0
        try:
            while answers < most:
                if answers == kill_after:
                    # At any moment of what is under way then.
                    threading.Timer(random.random() * 0.02, os.kill, (self.c.broker(1).pid(), signal.SIGKILL)).start()
                    kill_after = None
                while len(waiting) < IN_FLIGHT * PARTITIONS:
                    p = len(waiting) % PARTITIONS if not waiting else (waiting[-1][0] + 1) % PARTITIONS
                    k.send("Produce", 9, k.produce_request("t", p, self.batch(following[p])))
                    waiting.append((p, following[p]))
                    following[p] += 1
                row = k.receive()["responses"][0]["partition_responses"][0]
                p, sequence = waiting.pop(0)
                if row["error_code"]:
                    raise KafkaError(row["error_code"], row["error_message"] or "")
                assert row["index"] == p and row["base_offset"] == sequence, (p, sequence, row)
                self.acknowledged[p] = sequence + 1
                answers += 1
        except ConnectionError:
            self.resent += len(waiting)
        finally:
            k.socket.close()


def log_of(k, partition):
    """The whole partition, as [(offset, value)]."""
    found = []
    while True:
        more = k.fetch("t", partition, len(found), max_wait_ms=0)
        if not more:
            return found
        found += more


def refused(k, producer, sequence):
    try:
        k.produce("t", 0, [b"wrong"], producer_id=producer.id, producer_epoch=producer.epoch, base_sequence=sequence)
    except KafkaError as error:
        return error.code
    return None


def main():
    random.seed(os.environ.get("SEED", "1"))
    with Tap() as t, Cluster(brokers=1) as c:
        c.sql(f"SELECT broker.create_topic('t', partitions => {PARTITIONS})")
        with Connection(c.bootstrap) as k:
            wait_for(lambda: k.leader("t", PARTITIONS - 1) == 1, 10, "leaders")
        producer = Producer(c)
        slowest = 0.0
        with t.case(f"{ROUNDS} crashes under load"):
            for _ in range(ROUNDS):
                producer.run(10_000, kill_after=random.randrange(20))
                c.broker(1).kill()
                began = time.monotonic()
                c.broker(1).start()
                slowest = max(slowest, time.monotonic() - began)
            producer.run(20)
        t.note(f"{producer.acknowledged} acknowledged, {producer.resent} sent again, the slowest start {slowest:.2f} s")
        with t.case("the log after it"), Connection(c.bootstrap) as k:
            for p, count in producer.acknowledged.items():
                found = log_of(k, p)
                t.ok(len(found) >= count, f"partition {p}: the {count} acknowledged messages are there")
                t.equal(found, [(i, b"%d" % i) for i in range(len(found))], f"partition {p}: each once, in order")
            end = len(log_of(k, 0))
            t.equal(refused(k, producer, end + 1), OUT_OF_ORDER, "a gap in the sequence is refused after the crashes")
            c.broker(1).restart()
        with t.case("a clean stop"), Connection(c.bootstrap) as k:
            t.equal(refused(k, producer, end + 1), OUT_OF_ORDER, "and after a clean stop")
            t.equal(k.produce("t", 0, [b"%d" % (end - 1)], producer_id=producer.id, producer_epoch=producer.epoch,
                              base_sequence=end - 1), end - 1, "what is sent twice is there once")
            t.equal(len(log_of(k, 0)), end, "and adds nothing")
        t.note(c.logs(30) if t.failed else "")


if __name__ == "__main__":
    main()
