"""The producer and the reader of clients.py, of libpgbroker."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "client"))
import pgbroker
import values
from clients import Reader, Sender

PATIENCE = {"socket.connection.setup.timeout.ms": 6000, "request.timeout.ms": 5000, "retry.backoff.ms": 20, "retry.backoff.max.ms": 200,
            "metadata.max.age.ms": 5000, "metadata.wait.ms": 3600000}


class OwnSender(Sender):
    """Idempotent, acks=all."""

    def open(self, settings):
        names = ("acks", "enable.idempotence", "linger.ms")
        return pgbroker.Producer({**PATIENCE, "bootstrap.servers": self.options.bootstrap, "delivery.timeout.ms": 86400000,
                                  **{name: str(settings[name]).lower() for name in names}})

    def produce(self, partition):
        sequence = self.sent[partition]
        self.producer.produce(self.options.topic, values.make(self.number, partition, sequence), partition=partition, opaque=sequence)

    def poll(self):
        self.producer.work(5)
        self.tell()

    def tell(self):
        reports, self.producer.reports = self.producer.reports, []
        for _, partition, offset, error, sequence in reports:
            if error:
                self.refused(error, partition)
            else:
                self.acknowledged(partition, offset, sequence)

    def under_way(self):
        return self.producer.pending()

    def flush(self, seconds):
        left = self.producer.close(seconds * 1000)
        self.tell()
        return left


class OwnReader(Reader):
    """Follows; reads from leaders only."""

    def __init__(self, options):
        super().__init__(options, again=False, rack="")

    def run(self):
        consumer = pgbroker.Consumer({**PATIENCE, "bootstrap.servers": self.options.bootstrap, "auto.offset.reset": "none",
                                      "fetch.max.wait.ms": 200})
        self.next = dict.fromkeys(range(self.options.partitions), 0)
        consumer.assign(*((self.options.topic, p, 0) for p in self.next))
        while not self.options.stopping.is_set():
            try:
                for _, partition, offset, _, _, value, _ in consumer.poll(200, 200):
                    self.take(partition, offset, value)
            except pgbroker.Failure as error:
                self.options.faults.add("reading", f"libpgbroker: {error}")
        consumer.close()
