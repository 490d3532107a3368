"""
Produce.  v3-12 name topics, v13 has ids.  Exactly one batch of magic 2 a partition; zstd from v7; record errors from
v8; the current leader (KIP-951) from v10.  After everything refused, nothing is appended and the connection lives.
"""
import uuid

import batch
from batch import record
from case import case
from side import NOBODY


def send(side, version, topic, records, label="produce", **more):
    """One batch; then what there is in the log, which is how one sees that nothing was appended."""
    side.ask("Produce", version, side.produce_body(topic, records, **more), label)
    side.note("end offset", side.end_offset(topic))


def read_back(side, topic, partition=0):
    """What a consumer is given of all of this, batch headers included."""
    version = 12
    answer = side.ask("Fetch", version, {
        "MaxWaitMs": 0, "MinBytes": 0, "MaxBytes": 1 << 20, "Topics": [{"Topic": topic.name, "Partitions": [
            {"Partition": partition, "FetchOffset": 0, "PartitionMaxBytes": 1 << 20}]}]}, "read back")
    return answer


GOOD = {
    "one record": lambda: batch.batch(),
    "three records with headers": lambda: batch.batch([
        record(b"a", b"1", [(b"h", b"x")]), record(None, b"2", [(b"", b""), (b"n", None)], timestamp_delta=7),
        record(b"c", None)]),
    "null key and value": lambda: batch.batch([record(None, None)]),
    "base offset of the client's own": lambda: batch.batch(base_offset=77),
    "leader epoch of the client's own": lambda: batch.batch(leader_epoch=9),
    "timestamps descending": lambda: batch.batch([record(timestamp_delta=9), record(timestamp_delta=-3)],
                                                 max_timestamp=batch.NOW + 9),
    "no timestamp": lambda: batch.batch(base_timestamp=-1, max_timestamp=-1),
}
for name, make in GOOD.items():
    @case("Produce", name=name)
    def good(side, version, make=make):
        topic = side.take_topic()
        send(side, version, topic, make())
        send(side, version, topic, make(), acks=1)
        read_back(side, topic)


CODECS = {"gzip": batch.GZIP, "snappy": batch.SNAPPY, "lz4": batch.LZ4, "zstd": batch.ZSTD}
for name, codec in CODECS.items():
    @case("Produce", name=f"compressed with {name}")
    def compressed(side, version, codec=codec):
        topic = side.take_topic()
        send(side, version, topic, batch.batch([record(), record(b"q", b"w" * 50)], codec=codec))
        read_back(side, topic)


def lies():
    """Batches that are wrong: name -> bytes."""
    good = batch.batch([record(), record(b"x", b"y")])
    yield "wrong crc", batch.batch(crc=1)
    yield "count too high", batch.batch(count=2)
    yield "count too low", batch.batch([record(), record()], count=1)
    yield "count too low with its last offset", batch.batch([record(), record()], count=1, last_offset_delta=0)
    yield "count too high with its last offset", batch.batch(count=2, last_offset_delta=1)
    yield "count negative", batch.batch(count=-1)
    yield "count and last offset negative", batch.batch(count=-1, last_offset_delta=-2)
    yield "no records", batch.batch([])
    yield "last offset too high", batch.batch(last_offset_delta=5)
    yield "last offset negative", batch.batch(last_offset_delta=-1)
    yield "offset deltas with a gap", batch.batch([record(), record(offset_delta=5)], last_offset_delta=5)
    yield "unknown codec 5", batch.batch(codec=5)
    yield "unknown codec 7", batch.batch(codec=7)
    yield "magic 0", batch.old_message(0)
    yield "magic 1", batch.old_message(1)
    yield "magic 3", batch.batch(magic=3)
    yield "magic -1", batch.batch(magic=-1)
    yield "magic 0 on a batch", batch.batch(magic=0)
    yield "magic 1 on a batch", batch.batch(magic=1)
    yield "control batch", batch.batch(attributes=batch.CONTROL)
    yield "transactional control batch", batch.batch(attributes=batch.CONTROL | batch.TRANSACTIONAL, producer_id=1,
                                                     producer_epoch=0, base_sequence=0)
    yield "log append time said by the client", batch.batch(attributes=batch.LOG_APPEND_TIME)
    yield "delete horizon said by the client", batch.batch(attributes=64)
    yield "unused attribute bits", batch.batch(attributes=0x4000)
    yield "two batches", good + good
    yield "two batches of which the second is cut", good + good[:30]
    yield "a byte too many", good + b"\0"
    yield "cut inside the records", good[:-3]
    yield "cut inside the header", good[:40]
    yield "seventeen bytes", good[:17]
    yield "one byte", b"\0"
    yield "length zero", batch.batch(length=0)
    yield "length negative", batch.batch(length=-5)
    yield "length below a header", batch.batch(length=20)
    yield "length too long", batch.batch(length=1000)
    yield "length of two billion", batch.batch(length=0x7FFFFFFF)
    yield "max timestamp wrong", batch.batch(max_timestamp=batch.NOW + 1000)
    yield "gzip that is none", batch.batch(attributes=batch.GZIP)
    yield "gzip of records that are none", batch.batch(codec=batch.GZIP, payload=b"\xff" * 20)
    yield "records that are none", batch.batch(payload=b"\xff" * 20)
    yield "record length too long", batch.batch(payload=b"\x7e\0\0\0\1\1\0")
    yield "sequence without producer", batch.batch(base_sequence=5)
    yield "producer without sequence", batch.batch(producer_id=5, producer_epoch=0)
    yield "producer with a negative epoch", batch.batch(producer_id=5, producer_epoch=-1, base_sequence=0)


def every_version(name):
    return "3-13" if name in ("wrong crc", "unknown codec 5", "magic 1", "count too high", "two batches") else "latest"


for name, data in lies():
    @case("Produce", every_version(name), name=name)
    def refused(side, version, data=data):
        topic = side.take_topic()
        send(side, version, topic, data, "lie")
        send(side, version, topic, batch.batch(), "truth")
        read_back(side, topic)


@case("Produce")
def empty_records(side, version):
    topic = side.take_topic()
    send(side, version, topic, b"", "empty")


@case("Produce", "latest")
def null_records(side, version):
    topic = side.take_topic()
    side.ask("Produce", version, side.produce_body(topic, None), patience=0.5)
    side.note("end offset", side.end_offset(topic))


@case("Produce")
def acks_out_of_range(side, version):
    topic = side.take_topic()
    for acks in (2, -2, 32767):
        send(side, version, topic, batch.batch(), f"acks {acks}", acks=acks)


@case("Produce")
def acks_0_is_silent(side, version):
    topic = side.take_topic()
    connection = side.connect()
    connection.send("Produce", version, side.produce_body(topic, batch.batch(), acks=0))
    connection.send("Produce", version, side.produce_body(topic, batch.batch(), acks=1))
    side.note("the one with acks 1", connection.receive("Produce", version)[1], "Produce")


def closes(side, version, body):
    connection = side.connect()
    connection.send("Produce", version, body)
    connection.send("ApiVersions", 0)
    side.note("answer", connection.receive("ApiVersions", 0)[1])


@case("Produce")
def acks_0_with_an_unknown_partition_closes(side, version):
    closes(side, version, side.produce_body(side.take_topic(), batch.batch(), partition=9, acks=0))


@case("Produce")
def acks_0_with_a_wrong_crc_closes(side, version):
    topic = side.take_topic()
    closes(side, version, side.produce_body(topic, batch.batch(crc=1), acks=0))
    side.note("end offset", side.end_offset(topic))


def unknown(side, name, topic_id, partition=0, acks=-1):
    return {"Acks": acks, "TimeoutMs": 1000, "TopicData": [{"Name": name, "TopicId": topic_id, "PartitionData": [
        {"Index": partition, "Records": batch.batch()}]}]}


@case("Produce")
def unknown_topic(side, version):
    side.ask("Produce", version, unknown(side, "nobody", NOBODY))


@case("Produce", "13")
def topic_id_zero(side, version):
    side.ask("Produce", version, unknown(side, "", uuid.UUID(int=0)))


@case("Produce", "3-12")
def topic_names_that_are_none(side, version):
    for name in ("", ".", "..", "x" * 250, "a'; --"):
        side.ask("Produce", version, unknown(side, name, NOBODY), repr(name[:5]))


@case("Produce")
def unknown_and_negative_partition(side, version):
    topic = side.take_topic()
    send(side, version, topic, batch.batch(), "one too many", partition=1)
    send(side, version, topic, batch.batch(), "negative", partition=-1)
    send(side, version, topic, batch.batch(), "highest", partition=0x7FFFFFFF)


@case("Produce")
def several_partitions_one_of_them_wrong(side, version):
    topic = side.make_topic(partitions=3)
    body = side.produce_body(topic, batch.batch())
    body["TopicData"][0]["PartitionData"] = [
        {"Index": 2, "Records": batch.batch()}, {"Index": 0, "Records": batch.batch(crc=3)},
        {"Index": 7, "Records": batch.batch()}, {"Index": 1, "Records": batch.batch(codec=batch.GZIP)}]
    side.ask("Produce", version, body)


@case("Produce")
def several_topics_one_of_them_unknown(side, version):
    one, two = side.make_topic("one"), side.make_topic("two")
    body = side.produce_body(one, batch.batch())
    body["TopicData"] += unknown(side, "nobody", NOBODY)["TopicData"] + side.produce_body(two, batch.batch())["TopicData"]
    side.ask("Produce", version, body)


@case("Produce", "latest")
def no_topics(side, version):
    side.ask("Produce", version, {"Acks": -1, "TimeoutMs": 1000, "TopicData": []})
    side.ask("Produce", version, {"Acks": 5, "TimeoutMs": 1000, "TopicData": []}, "with acks 5")


@case("Produce", "3-13")
def too_large(side, version):
    topic = side.make_topic(configs={"max.message.bytes": "1000"})
    send(side, version, topic, batch.batch([record(None, b"x" * 1000)]), "too large")
    exact = len(batch.batch([record(None, b"x" * 900)]))
    send(side, version, topic, batch.batch([record(None, b"x" * (1000 - exact + 900))]), "as large as can be")
    send(side, version, topic, batch.batch([record(None, b"x" * (1001 - exact + 900))]), "one byte over")
    send(side, version, topic, batch.batch([record(None, b"x" * 5000)], codec=batch.GZIP), "compressed below")


@case("Produce", "latest")
def larger_than_a_segment(side, version):
    topic = side.make_topic(configs={"max.message.bytes": "2000000", "segment.bytes": "1048576"})
    send(side, version, topic, batch.batch([record(None, b"x" * 1048576)]))


@case("Produce")
def log_append_time(side, version):
    topic = side.make_topic(configs={"message.timestamp.type": "LogAppendTime"})
    answer = side.request("Produce", version, side.produce_body(topic, batch.batch([record(), record()])))
    part = answer["Responses"][0]["PartitionResponses"][0]
    side.note("code", part["ErrorCode"])
    side.note("has a time", part["LogAppendTimeMs"] > batch.NOW + 1_800_000)
    fetched = side.request("Fetch", 12, {"MaxBytes": 1 << 20, "Topics": [{"Topic": topic.name, "Partitions": [
        {"Partition": 0, "FetchOffset": 0, "PartitionMaxBytes": 1 << 20}]}]})
    stored = batch.describe(fetched["Responses"][0]["Partitions"][0]["Records"])[0]
    side.note("the broker's time is stored", stored["max_timestamp"] == part["LogAppendTimeMs"])
    side.note("base timestamp", stored["base_timestamp"])
    side.note("attributes", stored["attributes"])
    side.note("crc is right", stored["crc_is_right"])


@case("Produce")
def timestamps_out_of_bounds(side, version):
    before = side.make_topic("before", configs={"message.timestamp.before.max.ms": "1000"})
    send(side, version, before, batch.batch(), "too old")
    send(side, version, before, batch.batch([record(), record(timestamp_delta=5)]), "two too old")
    after = side.make_topic("after")
    send(side, version, after, batch.batch(base_timestamp=32_000_000_000_000), "far in the future")


@case("Produce")
def compacted_topic_wants_keys(side, version):
    topic = side.make_topic(configs={"cleanup.policy": "compact"})
    send(side, version, topic, batch.batch([record(None, b"v")]), "without")
    send(side, version, topic, batch.batch([record(b"k", b"v"), record(None, b"v")]), "one without")
    send(side, version, topic, batch.batch([record(b"k", b"v")]), "with")
    send(side, version, topic, batch.batch([record(b"", b"v")]), "empty key")
    send(side, version, topic, batch.batch([record(None, b"v")], codec=batch.GZIP), "without, compressed")


@case("Produce", "latest")
def partition_twice(side, version):
    topic = side.take_topic()
    body = side.produce_body(topic, batch.batch())
    body["TopicData"][0]["PartitionData"] *= 2
    side.ask("Produce", version, body)
    side.note("end offset", side.end_offset(topic))


@case("Produce", "latest")
def topic_twice(side, version):
    topic = side.make_topic(partitions=2)
    body = side.produce_body(topic, batch.batch())
    body["TopicData"] += side.produce_body(topic, batch.batch(), partition=1)["TopicData"]
    side.ask("Produce", version, body)


@case("Produce")
def timeouts_that_are_none(side, version):
    topic = side.take_topic()
    send(side, version, topic, batch.batch(), "zero", timeout=0)
    send(side, version, topic, batch.batch(), "negative", timeout=-1)


@case("Produce", "latest")
def min_insync_replicas_out_of_reach(side, version):
    topic = side.make_topic(configs={"min.insync.replicas": "2"})
    send(side, version, topic, batch.batch(), "acks all")
    send(side, version, topic, batch.batch(), "acks 1", acks=1)


@case("Produce", "latest")
def transactional_batch_of_nobody(side, version):
    topic = side.take_topic()
    data = batch.batch(attributes=batch.TRANSACTIONAL, producer_id=4000, producer_epoch=0, base_sequence=0)
    send(side, version, topic, data, "without a transactional id")


@case("Produce")
def deleted_topic(side, version):
    topic = side.take_topic()
    side.produce(topic)
    side.request("DeleteTopics", 6, {"Topics": [{"Name": topic.name}], "TimeoutMs": 5000})
    side.eventually("the deletion", lambda: side.find_topic(topic.name) is None)
    side.ask("Produce", version, side.produce_body(topic, batch.batch()))


@case("Produce", "13")
def id_of_a_topic_made_anew(side, version):
    old = side.make_topic()
    side.request("DeleteTopics", 6, {"Topics": [{"Name": old.name}], "TimeoutMs": 5000})
    side.eventually("the deletion", lambda: side.find_topic(old.name) is None)
    new = side.make_topic()
    side.ask("Produce", version, side.produce_body(old, batch.batch()), "old id")
    side.ask("Produce", version, side.produce_body(new, batch.batch()), "new id")
