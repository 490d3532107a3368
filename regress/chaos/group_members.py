"""The members of a consumer group that reads the topic, in the process of workload.py: each notes what it was given, what it
asked to be committed, and what it was answered (group_checker.py judges it).  From time to time one of them leaves and comes back,
or stands still for so long that the group goes on without it, and then commits what it had.

A member commits only what it has read, in every half second, and when partitions are taken from it.
"""
import ctypes
import os
import random
import struct
import threading
import time

import confluent_kafka as ck
import own_clients
import pgbroker
import values
from clients import PATIENCE
from group_watcher import GROUP

SETTINGS = {"group.id": GROUP, "session.timeout.ms": 6000, "heartbeat.interval.ms": 1000, "max.poll.interval.ms": 10000,
            "partition.assignment.strategy": "cooperative-sticky", "auto.offset.reset": "earliest"}
EVERY = 0.5          # seconds, from commit to commit
STAYS = (8, 30)      # until a member leaves or stands still
STANDS_STILL = 0.3   # of them
LEAVES = (0.5, 4)
STANDS = (10.5, 13)  # longer than max.poll.interval.ms
ANSWERED = 30        # seconds; who has no answer to an asynchronous commit then, gets none


class Held:
    def __init__(self, generation):
        self.generation = generation
        self.given = time.monotonic()
        self.begun = self.next = self.committed = None
        self.spans = []


class Notes:
    """What all members write down."""

    def __init__(self, options):
        self.options = options
        self.commits, self.holds = [], []
        self.acked = dict.fromkeys(range(options.partitions), 0)
        self.place = dict.fromkeys(range(options.partitions), 0)  # the last offset whose commit was acknowledged
        self.away = threading.Lock()                              # held by the member that is not there
        self.ending = threading.Event()
        self.read = 0

    def figures(self):
        return [self.acked[p] for p in sorted(self.acked)]

    def account(self):
        return {"commits": self.commits, "holds": [[m, p, h.generation, h.given, h.begun, h.spans] for m, p, h in self.holds]}


class Member(threading.Thread):
    """`waits`: for the answer of each commit."""

    repeats = False  # the last record, when it goes on after a rebalance

    def __init__(self, number, notes, seed, waits=True):
        super().__init__(daemon=True)
        self.number, self.notes, self.options, self.waits = number, notes, notes.options, waits
        self.rng = random.Random(f"{seed} {number}")
        self.held = {}
        self.consumer = None

    # -- what the library tells

    def given(self, partitions):
        generation = self.generation()
        for p in partitions:
            self.held[p] = Held(generation)
            self.notes.holds.append((self.number, p, self.held[p]))

    def revoked(self, partitions):
        self.commit(partitions, True)
        self.lost(partitions)

    def lost(self, partitions):
        for p in partitions:
            self.held.pop(p, None)

    def take(self, partition, offset, value):
        held = self.held.get(partition)
        if held is None:
            self.options.faults.add("skipped", f"partition {partition}: member {self.number} was given {offset} of what it has not")
            return
        if held.next is None:
            held.begun = time.monotonic()
        elif offset == held.next - 1 and self.repeats:
            return
        if held.next != offset:
            held.spans.append([offset, offset])
        held.next = held.spans[-1][1] = offset + 1
        number = values.parse(value, partition)
        before = self.options.seen[partition].setdefault(offset, number)
        if before != number:
            self.options.faults.add("changed", f"partition {partition} offset {offset}: {before} was read, then {number}")
        self.notes.read += 1

    # -- commits

    def begin(self, partitions):
        """The rows of a commit that is asked for now, by partition; answered when it is."""
        generation, rows = self.generation(), {}
        for p in partitions:
            held = self.held.get(p)
            if held and held.next is not None and held.next != held.committed:
                rows[p] = [self.number, p, held.next, generation, time.monotonic(), None]
                self.notes.commits.append(rows[p])
        return rows

    def answered(self, row, acknowledged, generation):
        partition, offset = row[1], row[2]
        if generation != row[3]:
            row[3] = -1
        if not acknowledged:
            return
        row[5] = time.monotonic()
        if partition in self.held:
            self.held[partition].committed = offset
        self.notes.acked[partition] += 1
        self.notes.place[partition] = offset

    # -- the run

    def run(self):
        self.open()
        while self.stay():
            if self.rng.random() < STANDS_STILL:
                self.options.stopping.wait(self.rng.uniform(*STANDS))
                self.commit(list(self.held), True)
            else:
                self.close()
                self.options.stopping.wait(self.rng.uniform(*LEAVES))
                self.open()
            self.notes.away.release()
        self.close()

    def stay(self):
        """Until the run ends (False), or it is time to leave and everybody else is there: then it has the lock."""
        commit_at, until = 0, time.monotonic() + self.rng.uniform(*STAYS)
        while not self.notes.ending.is_set():
            self.poll()
            now = time.monotonic()
            if now >= commit_at:
                self.commit(list(self.held), self.waits)
                commit_at = now + EVERY
            if now >= until and not self.options.stopping.is_set() and self.notes.away.acquire(blocking=False):
                return True
        return False


class LibrdkafkaMember(Member):
    repeats = True  # where it stops and goes on again races with the record that it gives

    def __init__(self, number, notes, seed, waits):
        super().__init__(number, notes, seed, waits)
        self.open_rows = {}  # {(partition, offset): row}, of the asynchronous commit under way
        self.asked = 0

    def open(self):
        self.consumer = ck.Consumer({**PATIENCE, **SETTINGS, "bootstrap.servers": self.options.bootstrap, "enable.auto.commit": False,
                                     "check.crcs": True, "fetch.wait.max.ms": 200, "fetch.error.backoff.ms": 50,
                                     "queued.max.messages.kbytes": 4096, "on_commit": self.on_commit})
        self.consumer.subscribe([self.options.topic], on_assign=self.on_assign, on_revoke=self.on_revoke, on_lost=self.on_lost)

    def close(self):
        self.consumer.close()
        self.open_rows.clear()
        self.held.clear()

    def generation(self):
        try:
            return struct.unpack_from("<i", self.consumer.consumer_group_metadata(), len("CGMDv2:"))[0]
        except (RuntimeError, ck.KafkaException, TypeError):
            return -1

    def on_assign(self, consumer, partitions):
        self.given([tp.partition for tp in partitions])
        consumer.incremental_assign(partitions)

    def on_revoke(self, consumer, partitions):
        self.revoked([tp.partition for tp in partitions])
        consumer.incremental_unassign(partitions)

    def on_lost(self, consumer, partitions):
        self.lost([tp.partition for tp in partitions])
        consumer.incremental_unassign(partitions)

    def poll(self):
        message = self.consumer.poll(0.1)
        if message is None:
            return
        error = message.error()
        if error is None:
            self.take(message.partition(), message.offset(), message.value())
        elif error.code() in (ck.KafkaError._AUTO_OFFSET_RESET, ck.KafkaError.OFFSET_OUT_OF_RANGE, ck.KafkaError._BAD_MSG):
            self.options.faults.add("reading", f"member {self.number}, partition {message.partition()}: {error}")

    def commit(self, partitions, waits):
        if not waits and self.open_rows and time.monotonic() < self.asked + ANSWERED:
            return
        rows = self.begin(partitions)
        if not rows:
            return
        offsets = [ck.TopicPartition(self.options.topic, p, row[2]) for p, row in rows.items()]
        if waits:
            self.commit_and_wait(offsets, rows)
            return
        self.asked = time.monotonic()
        self.open_rows = {(p, row[2]): row for p, row in rows.items()}
        try:
            self.consumer.commit(offsets=offsets, asynchronous=True)
        except ck.KafkaException:
            self.open_rows = {}

    def commit_and_wait(self, offsets, rows):
        try:
            answers = self.consumer.commit(offsets=offsets, asynchronous=False)
        except ck.KafkaException:
            answers = []
        generation = self.generation()
        good = {tp.partition for tp in answers if tp.error is None}
        for p, row in rows.items():
            self.answered(row, p in good, generation)

    def on_commit(self, error, partitions):
        """Of asynchronous commits, and of those that were waited for."""
        generation = self.generation()
        for tp in partitions:
            row = self.open_rows.pop((tp.partition, tp.offset), None)
            if row:
                self.answered(row, error is None and tp.error is None, generation)


class OwnMember(Member):
    """Of libpgbroker."""

    def __init__(self, number, notes, seed):
        super().__init__(number, notes, seed)
        self.library = ctypes.CDLL(os.path.join(pgbroker.BUILD, "client_generation.so"))

    def open(self):
        self.consumer = pgbroker.Consumer({**own_clients.PATIENCE, **SETTINGS, "bootstrap.servers": self.options.bootstrap,
                                           "enable.auto.commit": "false", "fetch.max.wait.ms": 200}, self.on_rebalance)
        self.consumer.subscribe(self.options.topic)

    def close(self):
        self.consumer.close()
        self.held.clear()

    def generation(self):
        return self.library.client_generation(self.consumer.handle)

    def on_rebalance(self, what, places):
        {"assigned": self.given, "revoked": self.revoked, "lost": self.lost}[what]([p for _, p in places])

    def poll(self):
        try:
            for _, partition, offset, _, _, value, _ in self.consumer.poll(100, 200):
                self.take(partition, offset, value)
        except pgbroker.Failure as error:
            self.options.faults.add("reading", f"member {self.number} (libpgbroker): {error}")

    def commit(self, partitions, waits):
        rows = self.begin(partitions)
        if not rows:
            return
        try:
            self.consumer.commit(*((self.options.topic, p, row[2]) for p, row in rows.items()), ms=5000)
            acknowledged = True
        except pgbroker.Failure:
            acknowledged = False
        generation = self.generation()
        for row in rows.values():
            self.answered(row, acknowledged, generation)


def members(notes, seed):
    return [LibrdkafkaMember(1, notes, seed, waits=True), LibrdkafkaMember(2, notes, seed, waits=False), OwnMember(3, notes, seed)]
