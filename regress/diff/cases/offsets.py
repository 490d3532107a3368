"""
ListOffsets, OffsetForLeaderEpoch and DeleteRecords: where a log begins and ends.  Timestamps: -1 the end, -2 the
start, -3 the largest timestamp (v7), -4 the local start (v8), -5 what is tiered (v9).
"""
import batch
from batch import NOW, record
from case import case, questions
from fixture import COMMON


def listing(*asked, name=COMMON, **more):
    """asked: (partition, timestamp) or (partition, timestamp, current leader epoch)"""
    return {"ReplicaId": -1, "Topics": [{"Name": name, "Partitions": [
        {"PartitionIndex": partition, "Timestamp": timestamp, **({"CurrentLeaderEpoch": rest[0]} if rest else {})}
        for partition, timestamp, *rest in asked]}], **more}


questions("ListOffsets", [
    ("end", listing((0, -1))),
    ("start", listing((0, -2))),
    ("largest timestamp", listing((0, -3), (1, -3), (2, -3))),
    ("local start", listing((0, -4), (2, -4))),
    ("tiered", listing((0, -5))),
    ("earliest pending upload", listing((0, -6))),
    ("timestamp unknown", listing((0, -7))),
    ("timestamp of the first", listing((0, NOW))),
    ("timestamp zero", listing((0, 0))),
    ("timestamp inside the first batch", listing((0, NOW + 3))),
    ("timestamp of a record inside a batch", listing((0, NOW + 5))),
    ("timestamp between batches", listing((0, NOW + 1500))),
    ("timestamp inside a compressed batch", listing((0, NOW + 2000))),
    ("timestamp of the last", listing((0, NOW + 4000))),
    ("timestamp after the last", listing((0, NOW + 4001))),
    ("empty partition", listing((2, -1), (2, -2))),
    ("empty partition by timestamp", listing((2, NOW))),
    ("several partitions", listing((2, -1), (0, -1), (1, -1))),
    ("unknown partition", listing((9, -1), (0, -1))),
    ("negative partition", listing((-1, -1))),
    ("unknown topic", listing((0, -1), name="nobody")),
    ("topic that has no name", listing((0, -1), name="")),
    ("partition twice", listing((0, -1), (0, -2))),
    ("no topics", {"ReplicaId": -1, "Topics": []}),
    ("read committed", listing((0, -1), (1, -1), IsolationLevel=1), "2+"),
    ("isolation level unknown", listing((0, -1), IsolationLevel=9), "2+"),
    ("leader epoch right", listing((0, -1, 0)), "4+"),
    ("leader epoch too new", listing((0, -1, 7)), "4+"),
    ("as a replica", listing((0, -1), ReplicaId=5)),
    ("as a debugger", listing((0, -1), ReplicaId=-2)),
])


@case("ListOffsets")
def ties_of_the_largest_timestamp(side, version):
    topic = side.take_topic()
    side.produce(topic, batch.batch([record(timestamp_delta=50), record(timestamp_delta=50), record()]))
    side.produce(topic, batch.batch([record(timestamp_delta=50)]))
    side.produce(topic, batch.batch([record(timestamp_delta=3)]))
    side.ask("ListOffsets", version, listing((0, -3), name=topic.name), "largest")
    side.ask("ListOffsets", version, listing((0, NOW + 20), name=topic.name), "by time")


@case("ListOffsets")
def records_without_timestamps(side, version):
    topic = side.take_topic()
    side.produce(topic, batch.batch(base_timestamp=-1, max_timestamp=-1))
    side.ask("ListOffsets", version, listing((0, -3), name=topic.name), "largest")
    side.ask("ListOffsets", version, listing((0, 0), name=topic.name), "by time")


@case("ListOffsets")
def after_records_were_deleted(side, version):
    topic = side.take_topic()
    for second in range(4):
        side.produce(topic, batch.batch([record(), record()], base_timestamp=NOW + second * 1000))
    side.request("DeleteRecords", 1, deletion(topic.name, (0, 3)))
    side.ask("ListOffsets", version, listing((0, -2), name=topic.name), "start")
    side.ask("ListOffsets", version, listing((0, NOW), name=topic.name), "time of what is gone")
    side.ask("ListOffsets", version, listing((0, NOW + 1000), name=topic.name), "time of what is half gone")
    side.ask("ListOffsets", version, listing((0, -3), name=topic.name), "largest timestamp")


def epochs(*asked, name=COMMON, replica=-1):
    return {"ReplicaId": replica, "Topics": [{"Topic": name, "Partitions": [
        {"Partition": partition, "CurrentLeaderEpoch": current, "LeaderEpoch": epoch}
        for partition, current, epoch in asked]}]}


questions("OffsetForLeaderEpoch", [
    ("the present epoch", epochs((0, 0, 0))),
    ("current unknown", epochs((0, -1, 0))),
    ("current too new", epochs((0, 5, 0))),
    ("an epoch to come", epochs((0, 0, 3))),
    ("epoch -1", epochs((0, 0, -1))),
    ("epoch -2", epochs((0, 0, -2))),
    ("empty partition", epochs((2, 0, 0))),
    ("unknown partition", epochs((9, 0, 0), (1, 0, 0))),
    ("unknown topic", epochs((0, 0, 0), name="nobody")),
    ("topic without a name", epochs((0, 0, 0), name="")),
    ("as a debugger", epochs((0, 0, 0), replica=-2)),
    ("as a replica that is none", epochs((0, 0, 0), replica=5)),
    ("no topics", {"ReplicaId": -1, "Topics": []}),
])


def deletion(name, *asked):
    return {"Topics": [{"Name": name, "Partitions": [
        {"PartitionIndex": partition, "Offset": offset} for partition, offset in asked]}], "TimeoutMs": 5000}


@case("DeleteRecords")
def up_to_an_offset(side, version):
    topic = side.make_topic(partitions=2)
    for _ in range(3):
        side.produce(topic, batch.batch([record(), record()]))
    side.ask("DeleteRecords", version, deletion(topic.name, (0, 3)), "inside a batch")
    side.ask("DeleteRecords", version, deletion(topic.name, (0, 3)), "the same again")
    side.ask("DeleteRecords", version, deletion(topic.name, (0, 1)), "lower")
    side.ask("DeleteRecords", version, deletion(topic.name, (0, 6)), "at the end")
    side.ask("DeleteRecords", version, deletion(topic.name, (0, 7)), "beyond the end")
    side.ask("DeleteRecords", version, deletion(topic.name, (0, -1), (1, -1)), "all of both")
    side.produce(topic)
    side.ask("DeleteRecords", version, deletion(topic.name, (0, -1)), "all once more")
    side.ask("DeleteRecords", version, deletion(topic.name, (0, -2)), "negative")
    side.note("end offset", side.end_offset(topic))


@case("DeleteRecords")
def start_is_told_to_everyone(side, version):
    topic = side.take_topic()
    for _ in range(3):
        side.produce(topic)
    side.ask("DeleteRecords", version, deletion(topic.name, (0, 2)))
    side.ask("ListOffsets", 7, listing((0, -2), (0, -1), name=topic.name), "start and end")
    side.ask("Produce", 12, side.produce_body(topic, batch.batch()), "log start offset")


questions("DeleteRecords", [
    ("unknown topic", deletion("nobody", (0, 1))),
    ("unknown partition", deletion(COMMON, (9, 1))),
    ("negative partition", deletion(COMMON, (-1, 0))),
    ("beyond the end", deletion(COMMON, (0, 1000))),
    ("offset zero", deletion(COMMON, (0, 0))),
    ("no topics", {"Topics": [], "TimeoutMs": 1000}),
    ("topic without partitions", deletion(COMMON)),
    ("topic without a name", deletion("", (0, 1))),
])


@case("DeleteRecords")
def compacted_topic(side, version):
    topic = side.make_topic(configs={"cleanup.policy": "compact"})
    side.produce(topic)
    side.ask("DeleteRecords", version, deletion(topic.name, (0, 1)))
