#!/usr/bin/env python3
"""A batch that is refused for a moment, and those that are under way behind it: an idempotent producer's are written in their
order or not at all, and it is never told that its sequences are wrong when it only has to send again.

The rule ends a second after the refusal (brokerd/api/refused.h), so what is looked at has to happen within; on a machine that
is too slow for that it is done again with another topic.
"""
import json
import os
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "regress", "lib"))
from kafka_client import Connection
from pgbroker_cluster import Cluster, wait_for
from replicated import refusal
from tap import Tap

UNKNOWN_TOPIC, NOT_ENOUGH, OUT_OF_ORDER = 3, 19, 45
WINDOW = 0.8
ATTEMPTS = 8


class Producer:
    def __init__(self, k, topic):
        answer = k.call("InitProducerId", 3, {"transactional_id": None, "transaction_timeout_ms": 60000, "producer_id": -1, "producer_epoch": -1})
        self.k, self.topic, self.id = k, topic, answer["producer_id"]

    def send(self, sequence, epoch=0):
        """Its error, 0 for none."""
        return refusal(lambda: self.k.produce(self.topic, 0, [b"%d" % sequence], producer_id=self.id, producer_epoch=epoch,
                                              base_sequence=sequence)) or 0


def wants(c, topic, replicas):
    config = json.dumps({"min.insync.replicas": replicas})
    c.sql(f"SELECT broker.alter_topic('{topic}', config => '{config}')")


def takes(k, topic):
    return not refusal(lambda: k.produce(topic, 0, [b"anybody's"]))


def in_time(names, attempt):
    """attempt(a topic's name) -> (seconds since the refusal, what was seen), until that is soon enough."""
    for name in names:
        seconds, seen = attempt(name)
        if seconds < WINDOW:
            break
    return seen


def no_topic(c, k):
    def attempt(topic):
        producer = Producer(k, topic)
        first, at = producer.send(0), time.monotonic()
        c.sql(f"SELECT broker.create_topic('{topic}', partitions => 1)")
        wait_for(lambda: takes(k, topic), 10, "the broker has the topic")
        second = producer.send(1)
        seconds = time.monotonic() - at
        return seconds, [first, second, producer.send(0), producer.send(1), [v for _, v in k.fetch(topic, 0)][-2:]]

    return in_time([f"late-{n}" for n in range(ATTEMPTS)], attempt)


def few_replicas(c, k, topics, then):
    """Of topics with two replicas of which one is away, whether one is enough changes quickly."""
    def attempt(topic):
        producer = Producer(k, topic)
        seen = [producer.send(0)]
        wants(c, topic, 2)
        wait_for(lambda: not takes(k, topic), 10, "it wants two replicas")
        seen.append(producer.send(1))
        at = time.monotonic()
        wants(c, topic, 1)
        wait_for(lambda: takes(k, topic), 10, "it is content with one")
        seen.append(producer.send(2))
        seconds = time.monotonic() - at
        return seconds, seen + then(producer)

    return in_time(topics, attempt)


def later(producer):
    """What it is told of sequence 2 in the end, when 1 does not come again."""
    wait_for(lambda: producer.send(2) != NOT_ENOUGH, 10, "the rule ends")
    return [producer.send(2), producer.send(1), producer.send(2)]


CASES = (
    (lambda p: [p.send(1), p.send(2), p.send(3)], [0, NOT_ENOUGH, NOT_ENOUGH, 0, 0, 0],
     "nor behind one that found too few replicas: what is behind it hears the same"),
    (lambda p: [p.send(0, epoch=1), p.send(1, epoch=1)], [0, NOT_ENOUGH, NOT_ENOUGH, 0, 0],
     "a new epoch of the producer begins at once"),
    (later, [0, NOT_ENOUGH, NOT_ENOUGH, OUT_OF_ORDER, 0, 0],
     "what never comes again does not hold the others: they hear after a second what is wrong"),
)


def main():
    with Tap() as t, Cluster(brokers=2) as c, Connection(c.broker(1).address) as k:
        topics = [[f"few-{i}-{n}" for n in range(ATTEMPTS)] for i in range(len(CASES))]
        for name in sum(topics, []):
            c.sql(f"SELECT broker.create_topic('{name}', partitions => 1, replication_factor => 2)")
        c.broker(2).kill()
        c.wait_sql("SELECT count(*) FROM broker.partitions WHERE leader = 1 AND isr = '{1}'", [(str(len(CASES) * ATTEMPTS),)], 30)
        for name in sum(topics, []):
            wait_for(lambda: takes(k, name), 10, "broker 1 leads alone")
        t.equal(no_topic(c, k), [UNKNOWN_TOPIC, UNKNOWN_TOPIC, 0, 0, [b"0", b"1"]],
                "behind a batch for a topic that was not known nothing is taken, until it comes again")
        for names, (then, expected, what) in zip(topics, CASES):
            t.equal(few_replicas(c, k, names, then), expected, what)


if __name__ == "__main__":
    main()
