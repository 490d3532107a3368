"""
Long random sequences on one topic: append, read from anywhere with any limit, look up times and epochs, delete up to
an offset.  Each seed is a case and always the same; what comes next depends on what was answered, so a difference
stands at the first step that differs.  Versions are drawn too.
"""
import random

import batch
from batch import record
from case import SERVED, case
from cases.fetch import of, part
from cases.idempotence import Producer
from cases.offsets import deletion, epochs, listing

SEEDS = 16
STEPS = 40


class Walk:
    def __init__(self, side, seed):
        self.side, self.random = side, random.Random(seed)
        self.topic = side.make_topic(partitions=2, configs={"segment.bytes": "1048576"})
        self.producer = Producer(side, SERVED["Produce"][1])
        self.sequences = [0, 0]
        self.time = batch.NOW
        self.last = b""

    def version(self, api):
        return self.random.randint(*SERVED[api])

    def partition(self):
        return self.random.choice((0, 0, 0, 1))

    def records(self):
        size = self.random.choice((0, 10, 200, 200, 3000, 60000))
        return [record(self.random.choice((None, b"", b"k")), bytes(size), timestamp_delta=self.random.randint(0, 50))
                for _ in range(self.random.randint(1, 4))]

    def append(self):
        records, partition = self.records(), self.partition()
        how = {"base_timestamp": self.time, "codec": self.random.choice((0, 0, 0, batch.GZIP, batch.LZ4))}
        self.time += self.random.randint(-100, 1000)
        if self.random.random() < 0.4:
            how.update(producer_id=self.producer.id, producer_epoch=0,
                       base_sequence=self.sequences[partition] + self.random.choice((0, 0, 0, 0, 1, -1)))
        data = batch.batch(records, **how)
        answer = self.side.ask("Produce", self.version("Produce"), self.side.produce_body(
            self.topic, data, partition, acks=self.random.choice((-1, 1))), "append")
        done = answer["Responses"][0]["PartitionResponses"][0]
        if "producer_id" in how and done["ErrorCode"] == 0 and how["base_sequence"] >= self.sequences[partition]:
            self.sequences[partition] = how["base_sequence"] + len(records)

    def offset(self, partition):
        return self.random.randint(-1, self.side.end_offset(self.topic, partition) + 1)

    def read(self):
        parts = [part(number, self.offset(number), self.random.choice((1, 100, 500, 5000, 100000, 1 << 20)))
                 for number in self.random.sample((0, 1), self.random.randint(1, 2))]
        # Kafka spends what is left of a limit on a batch that it cuts off, and has less for the next partition.
        limits = (1, 1 << 21) if len(parts) > 1 else (1, 1000, 100000, 1 << 21)
        self.side.ask("Fetch", self.version("Fetch"), of(
            self.topic, *parts, most=self.random.choice(limits),
            IsolationLevel=self.random.randint(0, 1)), "read")

    def look_up(self):
        times = [-1, -2, -3, batch.NOW - 1, self.time, self.random.randint(batch.NOW - 200, self.time + 200)]
        self.side.ask("ListOffsets", self.version("ListOffsets"), listing(
            (0, self.random.choice(times)), (1, self.random.choice(times)), name=self.topic.name), "look up")

    def epoch(self):
        self.side.ask("OffsetForLeaderEpoch", self.version("OffsetForLeaderEpoch"), epochs(
            (self.partition(), -1, self.random.choice((0, 0, 1, -1))), name=self.topic.name), "epoch")

    def delete(self):
        partition = self.partition()
        self.side.ask("DeleteRecords", self.version("DeleteRecords"), deletion(
            self.topic.name, (partition, self.offset(partition))), "delete")



def walk(seed):
    def run(side, _):
        one = Walk(side, seed)
        steps = [one.append] * 8 + [one.read] * 6 + [one.look_up] * 3 + [one.epoch, one.delete]
        for _ in range(STEPS):
            one.random.choice(steps)()
    return run


for seed in range(SEEDS):
    case("Fetch", "latest", f"random walk {seed}")(walk(seed))
