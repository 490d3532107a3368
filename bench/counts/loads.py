"""The fixed loads that are counted: each a list of requests, sent one after another on one connection.

    for load in loads(setup):
        load.name, load.what
        load.frames        the requests as bytes, made before anything is counted
        load.megabytes     of record batches that they write or read, 0 where that is no measure

One request in flight, so that what the broker does depends on the request alone and not on what it finds waiting.
Every load runs once before it is counted: buffers have their size then, and logs their files.
"""
import dataclasses
import os
import struct
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "regress", "lib"))

from kafka_client import Connection

MEMBER_ID_REQUIRED = 79
FETCH_SMALL = 4096
OTHERS = 1000
LARGE = 60  # requests of 1 MB
SMALL = 500  # requests of one record


@dataclasses.dataclass
class Load:
    name: str
    what: str
    connection: Connection
    api: tuple
    requests: list
    megabytes: float = 0.0

    def frames(self):
        return [self.connection.frame(*self.api, values) for values in self.requests]


class Setup:
    """Topics and a group on a broker, and the batches to send."""

    def __init__(self, cluster, build, folder):
        self.cluster = cluster
        self.build = build
        self.folder = folder
        self.connection = Connection(cluster.broker(1).address, timeout=120)

    def topic(self, name, partitions=1):
        self.cluster.sql(f"SELECT broker.create_topic('{name}', partitions => {partitions})")
        self.cluster.wait(lambda: leaders(self.connection, name) == partitions, 120, f"the leaders of {name}")

    def end(self, topic):
        answer = self.connection.call("ListOffsets", 2, {"replica_id": -1, "isolation_level": 0, "topics": [
            {"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1}]}]})
        return answer["topics"][0]["partitions"][0]["offset"]

    def batches(self, name, count, **options):
        path = os.path.join(self.folder, name)
        command = [os.path.join(self.build, "bench", "replay"), "make-batches", "--file", path, "--count", str(count)]
        subprocess.run(command + [word for key, value in options.items() for word in (f"--{key}", str(value))],
                       check=True, stdout=subprocess.DEVNULL)
        with open(path, "rb") as file:
            return split_batches(file.read())

    def member(self, group):
        """A member of a group with its generation."""
        join = {"group_id": group, "session_timeout_ms": 300000, "rebalance_timeout_ms": 300000, "member_id": "",
                "group_instance_id": None, "protocol_type": "consumer",
                "protocols": [{"name": "range", "metadata": b"\0\1\0\0\0\1\0\1t\xff\xff\xff\xff"}]}
        answers = []

        def joined():
            answers.append(self.connection.call("JoinGroup", 5, join))
            join["member_id"] = answers[-1]["member_id"]
            return answers[-1]["error_code"] == 0
        # A broker that just started answers once it has its slots, and first names a member id.
        self.cluster.wait(joined, 120, "a member of a group")
        answer = self.connection.call("SyncGroup", 3, {
            "group_id": group, "generation_id": answers[-1]["generation_id"], "member_id": join["member_id"],
            "group_instance_id": None, "assignments": [{"member_id": join["member_id"], "assignment": b""}]})
        assert answer["error_code"] == 0, f"SyncGroup: error {answer['error_code']}"
        return {"group_id": group, "generation_id": answers[-1]["generation_id"], "member_id": join["member_id"]}


def leaders(connection, topic):
    row = connection.metadata(topic)[topic]
    return sum(p["leader_id"] >= 0 and p["error_code"] == 0 for p in row["partitions"])


def split_batches(data):
    found, at = [], 0
    while at < len(data):
        size = 12 + struct.unpack_from(">i", data, at + 8)[0]
        found.append(data[at:at + size])
        at += size
    return found


def produce(setup, name, what, topic, batches, count):
    requests = [Connection.produce_request(topic, 0, batches[i % len(batches)]) for i in range(count)]
    total = sum(len(batches[i % len(batches)]) for i in range(count))
    return Load(name, what, setup.connection, ("Produce", 9), requests, total / 1e6)


def fetch(setup, name, what, topic, offsets, max_bytes, megabytes):
    requests = [{"replica_id": -1, "max_wait_ms": 500, "min_bytes": 1, "max_bytes": 50 << 20, "isolation_level": 0,
                 "session_id": 0, "session_epoch": -1, "rack_id": "", "topics": [{"topic": topic, "partitions": [
                     {"partition": 0, "fetch_offset": offset, "partition_max_bytes": max_bytes}]}]}
                for offset in offsets]
    return Load(name, what, setup.connection, ("Fetch", 11), requests, megabytes)


def simple(setup, name, what, api, version, request, count):
    return Load(name, what, setup.connection, (api, version), [request] * count)


def loads(setup):
    """They are made one after another, when the one before has run: a fetch reads what was produced.

    Old offsets (fetch-1m, fetch-4k) are found in the index on the disk, those of the tail in memory.
    """
    for topic in ("one", "small", "large", "lz4", "thousand"):
        setup.topic(topic)
    one = setup.batches("one", 64, records=1, size=100)
    yield produce(setup, "produce-one", "one record of 100 B a request", "one", one, SMALL)
    small = setup.batches("small", 16, records=147, size=100)
    yield produce(setup, "produce-16k", "147 records of 100 B a request, 16 KB", "small", small, 250)
    lz4 = setup.batches("lz4", 16, records=1000, size=100, compression="lz4")
    yield produce(setup, "produce-lz4", "1,000 records of 100 B of JSON a request, lz4", "lz4", lz4, 150)
    large = setup.batches("large", 4, records=9000, size=100)
    yield produce(setup, "produce-100", "9,000 records of 100 B a request, 1 MB", "large", large, LARGE)
    thousand = setup.batches("thousand", 4, records=950, size=1000)
    yield produce(setup, "produce-1000", "950 records of 1,000 B a request, 1 MB", "thousand", thousand, LARGE)
    yield fetch(setup, "fetch-1m", "fetches of 1 MB", "large", [i * 9000 for i in range(LARGE)], 1 << 20,
                sum(len(large[i % 4]) for i in range(LARGE)) / 1e6)
    a_fetch = FETCH_SMALL // len(one[0])
    yield fetch(setup, "fetch-4k", f"fetches of {a_fetch} batches of one record", "one",
                [i * a_fetch for i in range(SMALL // a_fetch)] * 12, FETCH_SMALL,
                SMALL // a_fetch * 12 * a_fetch * len(one[0]) / 1e6)
    yield fetch(setup, "fetch-tail", "fetches of the last batch of a log, 16 KB, as of a consumer that follows", "small",
                [setup.end("small") - 147] * 250, 1 << 20, 250 * len(small[0]) / 1e6)
    yield simple(setup, "metadata", "Metadata of one topic", "Metadata", 9,
                 {"topics": [{"name": "one"}], "allow_auto_topic_creation": False}, 300)
    yield simple(setup, "api-versions", "ApiVersions", "ApiVersions", 3,
                 {"client_software_name": "counts", "client_software_version": "1"}, 300)
    member = setup.member("counted")
    yield simple(setup, "heartbeat", "Heartbeat of a member of a group", "Heartbeat", 2, member, 300)
    commit = {"group_id": "alone", "generation_id_or_member_epoch": -1, "member_id": "", "retention_time_ms": -1,
              "topics": [{"name": "one", "partitions": [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]}]}
    yield simple(setup, "commit", "OffsetCommit of one partition", "OffsetCommit", 7, commit, 200)
    setup.topic("others", OTHERS)
    yield produce(setup, "produce-one-of-1000", f"as produce-one, beside {OTHERS:,} other partitions", "one", one, SMALL)


def error_of(answer):
    """The first error code in an answer of one of the loads' requests; 0 without any."""
    codes = [answer.get("error_code", 0)]
    for list_name, inner in (("responses", "partition_responses"), ("responses", "partitions"), ("topics", "partitions")):
        for row in answer.get(list_name) or []:
            codes += [row.get("error_code", 0)] + [p.get("error_code", 0) for p in row.get(inner) or []]
    return next((code for code in codes if code), 0)


def run(load):
    """Sends them; returns how many were answered.  The first and the last answer are looked at."""
    connection, frames = load.connection, load.frames()
    last = len(frames) - 1
    first_id = connection.correlation_id - last
    for number, frame in enumerate(frames):
        connection.socket.sendall(frame)
        if number in (0, last):
            connection.waiting.append((*load.api, first_id + number))
            error = error_of(connection.receive())
            if error:
                raise RuntimeError(f"{load.name}: a request failed with error {error}")
        else:
            connection.exactly(struct.unpack(">i", connection.exactly(4))[0])
    return len(frames)
