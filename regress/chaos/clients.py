"""What the workload's process (workload.py) is made of: producers and consumers in threads of their own, all of which note
what they were told.  `options` is a topic: workload.Topic."""
import threading
import time

import confluent_kafka as ck
import values

UNDER_WAY = 2000  # records of a producer; then it waits
PATIENCE = {"socket.timeout.ms": 6000, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200, "retry.backoff.ms": 20,
            "retry.backoff.max.ms": 200, "topic.metadata.refresh.fast.interval.ms": 50, "topic.metadata.refresh.interval.ms": 5000,
            "broker.address.family": "v4", "log_level": 2}
SAFE = {"acks": "all", "enable.idempotence": True, "max.in.flight": 5, "request.timeout.ms": 5000, "linger.ms": 2}
LOOSE = {"acks": 1, "max.in.flight": 1, "request.timeout.ms": 3000, "linger.ms": 2}


class Faults:
    """What is wrong and seen at once, of one topic or of several in one list."""

    def __init__(self, topic="", others=None):
        self.topic = topic
        self.lock = others.lock if others else threading.Lock()
        self.found = others.found if others else []

    def add(self, kind, what):
        with self.lock:
            self.found.append([kind, f"{self.topic} {what}".strip()])


class Sender(threading.Thread):
    def __init__(self, number, settings, options, rate):
        super().__init__(daemon=True)
        self.number, self.rate, self.options = number, rate, options
        self.idempotent = settings.get("enable.idempotence", False)
        self.producer = self.open(settings)
        self.sent = dict.fromkeys(range(options.partitions), 0)
        self.acks = []
        self.acked = dict.fromkeys(range(options.partitions), 0)
        self.acked_at = dict.fromkeys(range(options.partitions), time.monotonic())
        self.failed = 0

    def open(self, settings):
        # Nothing may time out at the client: a retry with a new epoch would be a duplicate of its making.
        return ck.Producer({**PATIENCE, **settings, "bootstrap.servers": self.options.bootstrap, "message.timeout.ms": 0,
                            "queue.buffering.max.messages": 10 * UNDER_WAY, "error_cb": self.on_error})

    def on_error(self, error):
        if error.fatal():
            self.options.faults.add("producer", f"producer {self.number}: {error}")

    def on_delivery(self, error, message):
        if error:
            self.refused(error, message.partition())
        else:
            self.acknowledged(message.partition(), message.offset(), int(message.value().split(b" ", 3)[2]))

    def refused(self, error, partition):
        self.failed += 1
        # An idempotent one has nothing to give up for: what it is told is always retriable.
        if self.idempotent:
            self.options.faults.add("refused", f"producer {self.number} partition {partition}: {error}")

    def acknowledged(self, partition, offset, sequence):
        """`offset` None: the broker said that it has it already, and not where."""
        self.acks.append((partition, -1 if offset is None else offset, sequence))
        self.acked[partition] += 1
        self.acked_at[partition] = time.monotonic()

    def produce(self, partition):
        self.producer.produce(self.options.topic, values.make(self.number, partition, self.sent[partition]),
                              partition=partition, on_delivery=self.on_delivery)

    def poll(self):
        self.producer.poll(0.005)

    def under_way(self):
        return len(self.producer)

    def flush(self, seconds):
        return self.producer.flush(seconds)

    def run(self):
        began = time.monotonic()
        turn = 0
        while not self.options.stopping.is_set():
            try:
                self.poll()
            except ck.KafkaException as error:
                self.options.faults.add("producer", f"producer {self.number}: {error}")
                return
            due = int((time.monotonic() - began) * self.rate)
            if due - turn > self.rate:  # after a stall, go on at the rate instead of all at once
                began += (due - turn) / self.rate
                continue
            while turn < due and self.under_way() < UNDER_WAY:
                partition = turn % self.options.partitions
                self.produce(partition)
                self.sent[partition] += 1
                turn += 1
        left = self.flush(60)
        if left and self.idempotent:
            self.options.faults.add("refused", f"producer {self.number}: {left} records got no answer within a minute")


class Reader(threading.Thread):
    """Notes what it is given in `seen`, and what is not what was given before.  `again`: from the start each time.  The
    replica in its rack gives it while that is in sync, the leader otherwise."""

    def __init__(self, options, again, rack):
        super().__init__(daemon=True)
        self.options, self.again, self.rack = options, again, rack
        self.count = self.passes = 0
        self.next = {}

    def consumer(self):
        consumer = ck.Consumer({**PATIENCE, "bootstrap.servers": self.options.bootstrap, "group.id": "unused", "check.crcs": True,
                                "enable.auto.commit": False, "auto.offset.reset": "error", "enable.partition.eof": self.again,
                                "fetch.wait.max.ms": 200, "fetch.error.backoff.ms": 50, "queued.max.messages.kbytes": 4096,
                                "client.rack": self.rack})
        self.next = dict.fromkeys(range(self.options.partitions), 0)
        consumer.assign([ck.TopicPartition(self.options.topic, p, 0) for p in self.next])
        return consumer

    def take(self, partition, offset, value):
        number = values.parse(value, partition)
        if offset != self.next[partition]:
            self.options.faults.add("gap", f"partition {partition}: a reader got {offset} after {self.next[partition] - 1}")
        self.next[partition] = offset + 1
        before = self.options.seen[partition].setdefault(offset, number)
        if before != number:
            self.options.faults.add("changed", f"partition {partition} offset {offset}: {before} was read, then {number}")
        self.count += 1

    def run(self):
        consumer, ended = self.consumer(), set()
        while not self.options.stopping.is_set():
            for message in consumer.consume(200, 0.2):
                error = message.error()
                if error is None:
                    self.take(message.partition(), message.offset(), message.value())
                elif error.code() == ck.KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
                elif error.code() in (ck.KafkaError._AUTO_OFFSET_RESET, ck.KafkaError.OFFSET_OUT_OF_RANGE, ck.KafkaError._BAD_MSG):
                    self.options.faults.add("reading", f"partition {message.partition()}: {error}")
            if self.again:
                self.options.stopping.wait(0.02)  # 10,000 records a second are enough, and leave the machine to the brokers
            if len(ended) == self.options.partitions:
                consumer.close()
                self.passes += 1
                self.options.stopping.wait(5)
                consumer, ended = self.consumer(), set()
        consumer.close()
