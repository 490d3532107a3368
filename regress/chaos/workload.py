#!/usr/bin/env python3
"""The clients of a chaos run, in one process.  Of the one topic: two idempotent producers (librdkafka, libpgbroker) and one
with acks=1, a consumer of each library that follows, one that reads from the start again and again, and one that watches the
high watermarks (clients.py, own_clients.py, watcher.py); a group of three members, and one that watches what it has committed
(group_members.py, group_watcher.py).
Of the compacted one: an idempotent producer, and the same three (keyed_workload.py).  Runs under the Python that has
confluent-kafka (librdkafka).

    workload.py BOOTSTRAP RATE FOLDER TOPIC PARTITIONS COMPACTED_TOPIC PARTITIONS DELETE_RETENTION_MS SEED

Prints a JSON line of figures twice a second:

    {"acked": 812, "partitions": [[203, 3.1], ...], "group": [41, ...], "read": 811, "faults": 0}

(each partition: acknowledged, seconds since, of the producer that waits longest; the compacted topic's behind the others; of the
group: commits acknowledged), and writes what the checkers want to FOLDER/workload.json when its standard input ends: no more
is sent then, what is under way gets a minute, and the group another one to read and commit the rest.
"""
import json
import os
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "lib")]

import group_members
import group_watcher
from clients import LOOSE, SAFE, Faults, Reader, Sender
from keyed_workload import KeyedReader, KeyedSender
from own_clients import OwnReader, OwnSender
from watcher import Watcher

IDEMPOTENT = (1, 2)
RELAXED = 3
KEYED_SHARE = 1 / 6
GROUP_ENDS = 60  # seconds, at most


class Topic:
    def __init__(self, bootstrap, name, partitions, stopping, faults, keeps_ms=0):
        self.bootstrap, self.topic, self.partitions = bootstrap, name, int(partitions)
        self.stopping, self.faults = stopping, faults
        self.keeps = int(keeps_ms) / 1000  # seconds, delete.retention.ms
        self.seen = {p: {} for p in range(self.partitions)}


class Workload:
    def __init__(self, argv):
        bootstrap, rate, self.folder, topic, partitions, keyed_topic, keyed_partitions, keeps_ms, seed = argv
        self.stopping = threading.Event()
        self.faults = Faults()
        self.topic = Topic(bootstrap, topic, partitions, self.stopping, self.faults)
        self.keyed_topic = Topic(bootstrap, keyed_topic, keyed_partitions, self.stopping, Faults(keyed_topic, self.faults), keeps_ms)
        keyed_rate = int(rate) * KEYED_SHARE
        each = (int(rate) - keyed_rate) / 3
        self.safe = [kind(number, SAFE, self.topic, each) for number, kind in zip(IDEMPOTENT, (Sender, OwnSender))]
        self.relaxed = Sender(RELAXED, LOOSE, self.topic, each)
        self.keyed = KeyedSender(self.keyed_topic, keyed_rate)
        self.readers = [Reader(self.topic, again=False, rack="b1"), Reader(self.topic, again=True, rack="b2"), OwnReader(self.topic)]
        self.keyed_readers = [KeyedReader(self.keyed_topic, self.keyed, again=False, rack="b2"),
                              KeyedReader(self.keyed_topic, self.keyed, again=True, rack="b3")]
        self.watchers = [Watcher(self.topic), Watcher(self.keyed_topic)]
        self.group = group_members.Notes(self.topic)
        self.members = group_members.members(self.group, seed)
        self.group_watcher = group_watcher.GroupWatcher(self.topic, self.group.ending)

    def end(self):
        """Once no more is sent: first all but the group, then that."""
        for thread in self.threads():
            thread.join(90)
        for what in group_watcher.wait_for_all(self.topic, self.group, GROUP_ENDS):
            self.faults.add("stuck", f"the group, {what}")
        self.group.ending.set()
        for thread in self.group_threads():
            thread.join(30)

    def group_threads(self):
        return [*self.members, self.group_watcher]

    def threads(self):
        return [*self.safe, self.relaxed, self.keyed, *self.readers, *self.keyed_readers, *self.watchers]

    def figures(self):
        now = time.monotonic()
        partitions = [[sum(s.acked[p] for s in senders), round(now - min(s.acked_at[p] for s in senders), 2)]
                      for topic, senders in ((self.topic, self.safe), (self.keyed_topic, [self.keyed])) for p in range(topic.partitions)]
        return {"acked": sum(len(s.acks) for s in (*self.safe, self.keyed)), "partitions": partitions, "group": self.group.figures(),
                "read": sum(r.count for r in (*self.readers, *self.keyed_readers)) + self.group.read,
                "passes": self.readers[1].passes, "faults": len(self.faults.found), "last": self.faults.found[-3:]}

    def account(self):
        senders = [*self.safe, self.relaxed]
        return {"sent": {s.number: s.sent for s in senders}, "acks": {s.number: s.acks for s in senders}, "idempotent": IDEMPOTENT,
                "failed": {s.number: s.failed for s in (*senders, self.keyed)},
                "seen": {p: list(rows.items()) for p, rows in self.topic.seen.items()},
                "keyed": {"sent": self.keyed.sent, "acks": self.keyed.acks,
                          "seen": {p: list(rows.items()) for p, rows in self.keyed_topic.seen.items()},
                          "looks": [r.looks for r in self.keyed_readers], "unjudged": sum(r.unjudged for r in self.keyed_readers)},
                "group": {**self.group.account(), "looks": self.group_watcher.looks},
                "faults": self.faults.found, "watched": sum(w.count for w in self.watchers),
                "read": [r.count for r in (*self.readers, *self.keyed_readers)] + [self.group.read]}


def main(argv):
    workload = Workload(argv)
    for thread in (*workload.threads(), *workload.group_threads()):
        thread.start()

    def wait_for_end():
        sys.stdin.buffer.read()
        workload.stopping.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    while not workload.stopping.wait(0.5):
        print(json.dumps(workload.figures()), flush=True)
    workload.end()
    path = os.path.join(workload.folder, "workload.json")
    with open(path + ".new", "w", encoding="ascii") as out:
        json.dump(workload.account(), out)
    os.replace(path + ".new", path)


if __name__ == "__main__":
    main(sys.argv[1:])
