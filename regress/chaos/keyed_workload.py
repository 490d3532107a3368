"""The clients of the compacted topic, in the process of workload.py: a producer that writes the same keys again and again,
a consumer that follows, and one that reads from the start again and again.

Each consumer knows the last record of each key that it was given, and is judged (keyed_checker.judge) whenever it has read
to where everything was acknowledged when it began.
"""
import functools
import threading
import time

import confluent_kafka as ck
import keyed
import keyed_checker
from clients import PATIENCE, SAFE, Sender
from keyed_checker import Floor

LINGER_MS = 100  # so that batches have some records, of which some stay
TOO_LONG = 60    # seconds; then what is still open stays so


class KeyedSender(Sender):
    def __init__(self, options, rate):
        super().__init__(keyed.PRODUCER, {**SAFE, "linger.ms": LINGER_MS}, options, rate)
        self.last_sent = {p: {} for p in self.sent}   # {partition: {key: sequence}}
        self.sent_at = {p: {} for p in self.sent}     # {partition: {sequence: time}}, until it is acknowledged
        self.floor = {p: {} for p in self.sent}       # {partition: {key: Floor}}, acknowledged
        self.end = dict.fromkeys(self.sent, -1)       # the last acknowledged offset
        self.untold = {p: [] for p in self.sent}      # acknowledged without an offset: below that of the next one

    def produce(self, partition):
        sequence = self.sent[partition]
        key, value, headers = keyed.make(partition, sequence)
        self.last_sent[partition][key] = sequence
        self.sent_at[partition][sequence] = time.time()
        self.producer.produce(self.options.topic, key=key, value=value, headers=headers, partition=partition,
                              on_delivery=functools.partial(self.on_keyed_delivery, sequence))

    def on_keyed_delivery(self, sequence, error, message):
        if error:
            self.refused(error, message.partition())
            return
        partition, offset = message.partition(), message.offset()
        self.acknowledged(partition, offset, sequence)
        untold = self.untold[partition]
        untold.append((sequence, self.sent_at[partition].pop(sequence)))
        if offset is None:
            return
        # The end goes first: readers take both at any time, and must not be asked about what is beyond it.
        self.end[partition] = max(self.end[partition], offset)
        for one, sent_at in untold:
            self.floor[partition][keyed.key_of(partition, one)] = Floor(one, sent_at)
        untold.clear()

    def newest(self, partition):
        """What a reader that begins now has to know, and from which offset on it has to know it."""
        return self.floor[partition].copy(), self.end[partition]


class Look:
    """What a reader has to know of one partition when it gets to `end`."""

    def __init__(self, sender, partition):
        self.floor, self.end = sender.newest(partition)
        self.began = time.time()
        self.expired = {}
        self.done = False


class KeyedReader(threading.Thread):
    """`again`: from the start each time; the other one has all its life to know what is acknowledged."""

    def __init__(self, options, sender, again, rack):
        super().__init__(daemon=True)
        self.options, self.sender, self.again, self.rack = options, sender, again, rack
        self.count = self.looks = self.unjudged = 0
        self.state = self.looking = self.next = None
        self.expired = {p: {} for p in range(options.partitions)}

    def consumer(self):
        partitions = range(self.options.partitions)
        self.state = {p: {} for p in partitions}
        self.next = dict.fromkeys(partitions, 0)
        self.looking = {p: Look(self.sender, p) for p in partitions}
        consumer = ck.Consumer({**PATIENCE, "bootstrap.servers": self.options.bootstrap, "group.id": "unused", "check.crcs": True,
                                "enable.auto.commit": False, "auto.offset.reset": "error", "fetch.wait.max.ms": 200,
                                "fetch.error.backoff.ms": 50, "queued.max.messages.kbytes": 4096, "client.rack": self.rack})
        consumer.assign([ck.TopicPartition(self.options.topic, p, 0) for p in partitions])
        return consumer

    def take(self, message):
        partition, offset = message.partition(), message.offset()
        sequence = keyed.parse(message.key(), message.value(), message.headers(), partition)
        if offset < self.next[partition]:
            self.options.faults.add("backwards", f"partition {partition}: a reader got {offset} after {self.next[partition] - 1}")
        self.next[partition] = offset + 1
        before = self.options.seen[partition].setdefault(offset, sequence)
        if before != sequence:
            self.options.faults.add("changed", f"partition {partition} offset {offset}: {before} was read, then {sequence}")
        if sequence is None:
            self.options.faults.add("phantom", f"partition {partition} offset {offset}: {message.key()}, which nobody sent, was read")
        else:
            self.state[partition][message.key()] = sequence
        self.count += 1
        look = self.looking[partition]
        if not look.done and offset >= look.end:
            self.judge(partition, look)

    def judge(self, partition, look):
        now = time.time()
        verdict = keyed_checker.judge(partition, self.state[partition], look.floor, self.sender.last_sent[partition], now,
                                      self.options.keeps)
        for kind, what in verdict.wrong:
            self.options.faults.add(kind, f"{what}; it began {now - look.began:.1f} s ago, and has read to {self.next[partition] - 1}, "
                                             f"{look.end} was the end")
        look.expired.update(verdict.expired)
        if verdict.open and now - look.began < TOO_LONG:
            # Something newer of these may be anywhere up to where all is acknowledged now, or is not acknowledged yet.
            floor, look.end = self.sender.newest(partition)
            look.end = max(look.end, self.next[partition])
            look.floor = {key: floor[key] for key in verdict.open}
            return
        self.unjudged += len(verdict.open)
        look.done = True
        if self.again:
            self.compare_expired(partition, look.expired)

    def compare_expired(self, partition, expired):
        for key, sequence in expired.items():
            if self.expired[partition].get(key) == sequence:
                self.options.faults.add("resurrected", f"partition {partition} {key.decode()}: an older value was read twice from the "
                                                       f"start, {keyed_checker.named(partition, sequence)} was acknowledged long ago")
        self.expired[partition] = expired

    def run(self):
        consumer = self.consumer()
        while not self.options.stopping.is_set():
            for message in consumer.consume(200, 0.2):
                error = message.error()
                if error is None:
                    self.take(message)
                elif error.code() in (ck.KafkaError._AUTO_OFFSET_RESET, ck.KafkaError.OFFSET_OUT_OF_RANGE, ck.KafkaError._BAD_MSG):
                    self.options.faults.add("reading", f"partition {message.partition()}: {error}")
            if all(look.done for look in self.looking.values()):
                self.looks += 1
                self.options.stopping.wait(2)
                consumer = self.look_again(consumer)
        consumer.close()

    def look_again(self, consumer):
        if self.again:
            consumer.close()
            return self.consumer()
        self.looking = {p: Look(self.sender, p) for p in self.looking}
        return consumer
