"""
InitProducerId without a transactional id, and the sequences that its producers send.  A duplicate of one of the
last five batches is acknowledged with its offset; a gap is OUT_OF_ORDER_SEQUENCE_NUMBER.
"""
import batch
from batch import record
from case import case, questions

questions("InitProducerId", [
    ("new producer", {"TransactionalId": None, "TransactionTimeoutMs": 60000, "ProducerId": -1, "ProducerEpoch": -1}),
    ("timeout zero", {"TransactionalId": None, "TransactionTimeoutMs": 0}),
    ("timeout negative", {"TransactionalId": None, "TransactionTimeoutMs": -1}),
    ("id without epoch", {"TransactionalId": None, "ProducerId": 5, "ProducerEpoch": -1}, "3+"),
    ("epoch without id", {"TransactionalId": None, "ProducerId": -1, "ProducerEpoch": 2}, "3+"),
    ("id and epoch", {"TransactionalId": None, "ProducerId": 5, "ProducerEpoch": 2}, "3+"),
    ("epoch at its end", {"TransactionalId": None, "ProducerId": 5, "ProducerEpoch": 32767}, "3+"),
    ("id and epoch below -1", {"TransactionalId": None, "ProducerId": -7, "ProducerEpoch": -9}, "3+"),
    ("empty transactional id", {"TransactionalId": "", "TransactionTimeoutMs": 1000}),
])


class Producer:
    def __init__(self, side, version):
        self.side, self.version = side, version
        self.id, self.epoch = side.eventually("a producer id", self.ask_for_id)

    def ask_for_id(self):
        """Kafka has none to give in its first moments (COORDINATOR_LOAD_IN_PROGRESS)."""
        answer = self.side.request("InitProducerId", 4, {"TransactionalId": None, "TransactionTimeoutMs": 60000})
        return (answer["ProducerId"], answer["ProducerEpoch"]) if answer["ErrorCode"] == 0 else None

    def send(self, topic, sequence, count=1, epoch=None, label=None, **more):
        data = batch.batch([record()] * count, producer_id=self.id, base_sequence=sequence,
                           producer_epoch=self.epoch if epoch is None else epoch, **more)
        label = label or f"sequence {sequence} count {count}"
        return self.side.ask("Produce", self.version, self.side.produce_body(topic, data), label)


@case("InitProducerId")
def two_ids_are_not_the_same(side, version):
    ids = [side.request("InitProducerId", version, {"TransactionalId": None})["ProducerId"] for _ in range(3)]
    side.note("three ids", len(set(ids)))


@case("Produce")
def sequences_in_order(side, version):
    producer, topic = Producer(side, version), side.take_topic()
    producer.send(topic, 0)
    producer.send(topic, 1, 3)
    producer.send(topic, 4)
    side.note("end offset", side.end_offset(topic))


@case("Produce")
def duplicates_and_gaps(side, version):
    producer, topic = Producer(side, version), side.take_topic()
    for sequence in range(3):
        producer.send(topic, sequence)
    producer.send(topic, 1, label="duplicate of the second")
    producer.send(topic, 2, label="duplicate of the last")
    producer.send(topic, 4, label="gap")
    producer.send(topic, 3, label="next")
    producer.send(topic, 2, 2, label="overlap of the last two")
    side.note("end offset", side.end_offset(topic))


@case("Produce", "latest")
def duplicate_older_than_five(side, version):
    producer, topic = Producer(side, version), side.take_topic()
    for sequence in range(7):
        producer.send(topic, sequence)
    for sequence in range(7):
        producer.send(topic, sequence, label=f"again {sequence}")
    side.note("end offset", side.end_offset(topic))


@case("Produce", "latest")
def first_sequence_of_an_unknown_producer(side, version):
    producer, topic = Producer(side, version), side.take_topic()
    producer.send(topic, 10, label="ten at first")
    producer.send(topic, 11, label="eleven")
    producer.send(topic, 0, label="zero")


@case("Produce", "latest")
def epochs(side, version):
    producer, topic = Producer(side, version), side.take_topic()
    producer.send(topic, 0, epoch=3, label="epoch 3")
    producer.send(topic, 1, epoch=2, label="lower epoch")
    producer.send(topic, 1, epoch=4, label="new epoch not from zero")
    producer.send(topic, 0, epoch=4, label="new epoch from zero")
    producer.send(topic, 1, epoch=3, label="the old epoch again")
    producer.send(topic, 1, epoch=4, label="next")
    side.note("end offset", side.end_offset(topic))


@case("Produce", "latest")
def sequence_wraps_to_zero(side, version):
    producer, topic = Producer(side, version), side.take_topic()
    producer.send(topic, 0x7FFFFFFE, 2)
    producer.send(topic, 0)
    other = side.make_topic("inside")
    producer.send(other, 0x7FFFFFFF, 3, label="wraps inside the batch")
    producer.send(other, 2, label="after it")
    producer.send(other, 0x7FFFFFFF, 3, label="duplicate of the one that wraps")


@case("Produce", "latest")
def sequences_are_counted_by_partition(side, version):
    producer, topic = Producer(side, version), side.make_topic(partitions=2)
    producer.send(topic, 0)
    data = batch.batch(producer_id=producer.id, producer_epoch=0, base_sequence=0)
    side.ask("Produce", version, side.produce_body(topic, data, partition=1), "the other partition")
    producer.send(topic, 1)


@case("Produce", "latest")
def two_producers(side, version):
    topic = side.take_topic()
    one, two = Producer(side, version), Producer(side, version)
    one.send(topic, 0)
    two.send(topic, 0)
    one.send(topic, 1)
    two.send(topic, 0, label="duplicate of the second")


@case("Produce", "latest")
def sequence_negative(side, version):
    producer, topic = Producer(side, version), side.take_topic()
    producer.send(topic, -1)
    producer.send(topic, -5)
    producer.send(topic, 0)


@case("Produce", "latest")
def compressed_idempotent(side, version):
    producer, topic = Producer(side, version), side.take_topic()
    producer.send(topic, 0, 3, codec=batch.GZIP)
    producer.send(topic, 0, 3, codec=batch.GZIP, label="again")
    producer.send(topic, 3, 1, codec=batch.LZ4)


@case("Produce", "latest")
def a_refused_batch_leaves_the_sequence(side, version):
    producer, topic = Producer(side, version), side.take_topic()
    producer.send(topic, 0)
    producer.send(topic, 1, crc=5, label="wrong crc")
    producer.send(topic, 1, label="again")


@case("Produce", "latest")
def pipelined_sequences(side, version):
    producer, topic, connection = Producer(side, version), side.take_topic(), side.connect()
    for sequence in range(10):
        data = batch.batch(producer_id=producer.id, producer_epoch=0, base_sequence=sequence)
        connection.send("Produce", version, side.produce_body(topic, data))
    for sequence in range(10):
        side.note(f"sequence {sequence}", connection.receive("Produce", version)[1], "Produce")
