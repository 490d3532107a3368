"""
Fetch.  v4-12 name topics, from v13 ids; sessions from v7; the current leader epoch from v9; the end of a diverging
log from v12.  No more than one consumer may wait here, so everything waits for nothing unless a case says so.
"""
import time
import uuid

import batch
from batch import record
from case import case, questions
from fixture import COMMON
from side import NOBODY, SILENT

LOTS = 1 << 20


def part(partition=0, offset=0, limit=LOTS, **more):
    return {"Partition": partition, "FetchOffset": offset, "PartitionMaxBytes": limit, **more}


def fetch(topics, wait=0, least=0, most=LOTS, **more):
    """topics: [(name, id, [part, …])]"""
    return {"ReplicaId": -1, "MaxWaitMs": wait, "MinBytes": least, "MaxBytes": most, "Topics": [
        {"Topic": name, "TopicId": topic_id, "Partitions": parts} for name, topic_id, parts in topics], **more}


def of(topic, *parts, **more):
    return fetch([(topic.name, topic.id, list(parts) or [part()])], **more)


def common(*parts, **more):
    return lambda side, _: of(side.common["topic"], *parts, **more)


questions("Fetch", [
    ("everything", common()),
    ("from an offset inside a batch", common(part(offset=1))),
    ("from the third batch", common(part(offset=3))),
    ("at the end", common(part(offset=9))),
    ("beyond the end", common(part(offset=10))),
    ("far beyond the end", common(part(offset=1 << 40))),
    ("before the start", common(part(offset=-1))),
    ("far before the start", common(part(offset=-5))),
    ("three partitions", common(part(0), part(1), part(2))),
    ("empty partition", common(part(2))),
    ("unknown partition", common(part(3))),
    ("negative partition", common(part(-1))),
    ("known and unknown partition", common(part(0), part(77), part(1))),
    ("unknown topic", fetch([("nobody", NOBODY, [part()])])),
    ("known and unknown topic", lambda side, _: fetch([
        ("nobody", NOBODY, [part()]), (COMMON, side.common["topic"].id, [part(1)])])),
    ("no topics", fetch([])),
    ("topic without partitions", lambda side, _: fetch([(COMMON, side.common["topic"].id, [])])),
    ("one byte of a partition", common(part(limit=1))),
    ("one byte in all", common(part(0), part(1), most=1)),
    ("bytes for two batches", common(part(limit=160))),
    ("a byte less than two batches", common(part(limit=150))),
    ("no bytes", common(part(limit=0), most=0)),
    ("negative limits", common(part(limit=-1), most=-1)),
    ("two partitions and bytes for one", common(part(1), part(0), most=80)),
    ("second partition at its limit", common(part(1), part(0, limit=10))),
    ("least bytes negative", common(least=-1)),
    ("wait negative", common(wait=-5, least=100000)),
    ("read committed", common(IsolationLevel=1)),
    ("isolation level unknown", common(IsolationLevel=7)),
    ("leader epoch right", common(part(CurrentLeaderEpoch=0)), "9+"),
    ("leader epoch below zero", common(part(CurrentLeaderEpoch=-1)), "9+"),
    ("leader epoch too new", common(part(CurrentLeaderEpoch=5)), "9+"),
    ("last fetched epoch right", common(part(offset=3, LastFetchedEpoch=0, CurrentLeaderEpoch=0)), "12+"),
    ("last fetched epoch too new", common(part(offset=3, LastFetchedEpoch=4, CurrentLeaderEpoch=0)), "12+"),
    ("rack of the client", common(RackId="somewhere"), "11+"),
    ("log start offset of the client's own", common(part(LogStartOffset=4)), "5+"),
    ("partition twice", common(part(0), part(0, offset=6))),
    ("id zero", lambda side, _: fetch([("", uuid.UUID(int=0), [part()])]), "13+"),
    ("topic names that are none", fetch([(name, NOBODY, [part()]) for name in ("", "..", "a b", "x" * 250)]), "4-12"),
])


@case("Fetch")
def all_codecs_come_as_they_went(side, version):
    topic = side.take_topic()
    for codec in range(5):
        side.produce(topic, batch.batch([record(), record(None, b"x" * 30)], codec=codec))
    side.ask("Fetch", version, of(topic))


@case("Fetch", "latest")
def waits_for_its_time(side, version):
    topic = side.take_topic()
    start = time.monotonic()
    side.ask("Fetch", version, of(topic, wait=300, least=1))
    side.note("waited", 0.28 <= time.monotonic() - start < 2)


@case("Fetch")
def answers_when_there_is_something(side, version):
    topic, connection = side.take_topic(), side.connect()
    connection.send("Fetch", version, of(topic, wait=10000, least=1))
    side.note("nothing yet", connection.receive("Fetch", version, 0.05)[1] == SILENT)
    side.produce(topic)
    side.note("answer", connection.receive("Fetch", version)[1], "Fetch")


@case("Fetch", "latest")
def waits_for_its_bytes(side, version):
    topic, connection = side.take_topic(), side.connect()
    connection.send("Fetch", version, of(topic, wait=10000, least=100))
    side.produce(topic)
    side.note("not enough", connection.receive("Fetch", version, 0.1)[1] == SILENT)
    side.produce(topic)
    side.note("answer", connection.receive("Fetch", version)[1], "Fetch")


@case("Fetch", "latest")
def who_waits_in_spite_of_an_error(side, version):
    topic = side.take_topic()
    for label, *parts in (("unknown partition", part(0), part(9)), ("only an unknown partition", part(9)),
                          ("out of range", part(0, offset=7))):
        start = time.monotonic()
        side.ask("Fetch", version, of(topic, *parts, wait=400, least=1), label)
        side.note("waited", time.monotonic() - start >= 0.4)


@case("Fetch", "latest")
def two_that_wait_on_two_connections(side, version):
    topic, connections = side.take_topic(), (side.connect(), side.connect())
    for connection in connections:
        connection.send("Fetch", version, of(topic, wait=10000, least=1))
    side.produce(topic)
    for connection in connections:
        side.note("answer", connection.receive("Fetch", version)[1], "Fetch")


@case("Fetch", "latest")
def one_that_waits_holds_what_comes_after_it(side, version):
    topic, connection = side.take_topic(), side.connect()
    first = connection.send("Fetch", version, of(topic, wait=200, least=1))
    second = connection.send("ApiVersions", 0)
    one, _ = connection.receive("Fetch", version)
    two, _ = connection.receive("ApiVersions", 0)
    side.note("in order", (one, two) == (first, second))


@case("Fetch")
def below_the_log_start(side, version):
    topic = side.take_topic()
    for _ in range(3):
        side.produce(topic)
    side.request("DeleteRecords", 1, {"Topics": [{"Name": topic.name, "Partitions": [
        {"PartitionIndex": 0, "Offset": 2}]}], "TimeoutMs": 5000})
    side.ask("Fetch", version, of(topic, part(offset=0)), "below")
    side.ask("Fetch", version, of(topic, part(offset=2)), "at the start")


def opened(side, version, topic, *parts):
    """A new session; its id, or None."""
    answer = side.ask("Fetch", version, of(topic, *parts, SessionId=0, SessionEpoch=0), "open")
    return answer["SessionId"] if isinstance(answer, dict) else None


def next_of(side, version, session, epoch, topics, label, **more):
    return side.ask("Fetch", version, fetch(topics, SessionId=session, SessionEpoch=epoch, **more), label)


@case("Fetch", "7+")
def session_with_nothing_new(side, version):
    topic = side.make_topic(partitions=2)
    side.produce(topic)
    session = opened(side, version, topic, part(0), part(1))
    next_of(side, version, session, 1, [(topic.name, topic.id, [part(0, offset=1)])], "moved on")
    next_of(side, version, session, 2, [], "nothing new")


@case("Fetch", "7+")
def session_with_something_new(side, version):
    topic = side.make_topic(partitions=2)
    session = opened(side, version, topic, part(0), part(1))
    side.produce(topic, partition=1)
    next_of(side, version, session, 1, [], "one has news")
    next_of(side, version, session, 2, [(topic.name, topic.id, [part(1, offset=1)])], "taken")
    side.produce(topic, partition=0)
    next_of(side, version, session, 3, [], "the other has")


@case("Fetch", "7+")
def session_that_forgets_and_adds(side, version):
    topic, other = side.make_topic(partitions=2), side.make_topic("other")
    session = opened(side, version, topic, part(0), part(1))
    side.produce(topic, partition=0)
    side.produce(topic, partition=1)
    side.produce(other)
    forgotten = [{"Topic": topic.name, "TopicId": topic.id, "Partitions": [0]}]
    next_of(side, version, session, 1, [(other.name, other.id, [part()])], "one out, one in",
            ForgottenTopicsData=forgotten)


@case("Fetch", "7+")
def session_of_a_wrong_epoch(side, version):
    topic = side.take_topic()
    session = opened(side, version, topic)
    next_of(side, version, session, 5, [], "too high")
    next_of(side, version, session, 1, [], "right")
    next_of(side, version, session, 1, [], "again the same")
    next_of(side, version, session, 2, [], "right again")


@case("Fetch", "7+")
def session_unknown(side, version):
    topic = side.take_topic()
    side.ask("Fetch", version, of(topic, SessionId=987654, SessionEpoch=1), "an epoch")
    side.ask("Fetch", version, of(topic, SessionId=987654, SessionEpoch=0), "epoch zero")
    side.ask("Fetch", version, of(topic, SessionId=987654, SessionEpoch=-1), "to be closed")
    side.ask("Fetch", version, of(topic, SessionId=0, SessionEpoch=3), "no session but an epoch")


@case("Fetch", "7+")
def session_closed(side, version):
    topic = side.take_topic()
    session = opened(side, version, topic)
    side.ask("Fetch", version, of(topic, SessionId=session, SessionEpoch=-1), "close")
    next_of(side, version, session, 1, [], "afterwards")


@case("Fetch", "7+")
def session_with_an_unknown_partition(side, version):
    topic = side.take_topic()
    session = opened(side, version, topic, part(0), part(5))
    next_of(side, version, session, 1, [], "again")


@case("Fetch", "13+")
def session_by_another_kind_of_name(side, version):
    """A session made with names is asked with ids: FETCH_SESSION_TOPIC_ID_ERROR."""
    topic = side.take_topic()
    session = opened(side, 12, topic)
    next_of(side, version, session, 1, [(topic.name, topic.id, [part()])], "with ids")


@case("Fetch", "13+")
def session_whose_topic_is_made_anew(side, version):
    topic = side.make_topic()
    session = opened(side, version, topic)
    side.request("DeleteTopics", 6, {"Topics": [{"Name": topic.name}], "TimeoutMs": 5000})
    side.eventually("the deletion", lambda: side.find_topic(topic.name) is None)
    side.make_topic()
    next_of(side, version, session, 1, [], "the old id")


@case("Fetch")
def deleted_topic(side, version):
    topic = side.take_topic()
    side.produce(topic)
    side.request("DeleteTopics", 6, {"Topics": [{"Name": topic.name}], "TimeoutMs": 5000})
    side.eventually("the deletion", lambda: side.find_topic(topic.name) is None)
    side.ask("Fetch", version, of(topic))


@case("Fetch", "latest")
def as_a_follower_that_is_none(side, version):
    topic = side.take_topic()
    side.produce(topic)
    side.ask("Fetch", version, of(topic, ReplicaState={"ReplicaId": 77, "ReplicaEpoch": 1}), "broker 77")
    side.ask("Fetch", version, of(topic, ReplicaState={"ReplicaId": -2, "ReplicaEpoch": -1}), "a debugger")


@case("Fetch", "latest")
def larger_batch_than_asked_for(side, version):
    topic = side.take_topic()
    side.produce(topic, batch.batch([record(None, b"x" * 20000)]))
    side.produce(topic)
    side.ask("Fetch", version, of(topic, part(limit=100), most=100))
