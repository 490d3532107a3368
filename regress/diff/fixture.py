"""
fixture.py: what both brokers are given before the first case, and no case changes.

    common     3 partitions; partition 0 holds COMMON_BATCHES, partition 1 one batch, partition 2 nothing
"""
import threading

import batch
from side import Connection

COMMON = "common"
COMMON_BATCHES = [      # (bytes, offsets they take); times rise by one second a batch
    (batch.batch([batch.record(b"a", b"1"), batch.record(b"b", b"2", timestamp_delta=5)]), 2),
    (batch.batch([batch.record(b"c", b"3", [(b"h", b"x"), (b"h", None)])], base_timestamp=batch.NOW + 1000), 1),
    (batch.batch([batch.record(None, None)] * 3, codec=batch.GZIP, base_timestamp=batch.NOW + 2000), 3),
    (batch.batch([batch.record(b"", b"")], base_timestamp=batch.NOW + 3000), 1),
    (batch.batch([batch.record(b"z" * 100, b"y" * 1000)] * 2, base_timestamp=batch.NOW + 4000), 2),
]


def prepare_groups(side):
    """Kafka makes its topic of groups when it is first asked for a coordinator, which takes a moment."""
    def attempt():
        found = side.request("FindCoordinator", 1, {"Key": "fixture", "KeyType": 0})
        if isinstance(found, str) or found["ErrorCode"]:
            return None
        fetched = side.request("OffsetFetch", 5, {"GroupId": "fixture", "Topics": None})
        return isinstance(fetched, dict) and fetched["ErrorCode"] == 0
    side.eventually("a coordinator", attempt, 60)


def prepare_one(side, with_groups):
    side.begin("fixture")
    side.common["idle"] = Connection(side)
    side.common["idle"].ask("ApiVersions", 0)
    if with_groups:
        prepare_groups(side)
    side.eventually("a producer id", lambda: side.request(
        "InitProducerId", 4, {"TransactionalId": None, "TransactionTimeoutMs": 60000})["ErrorCode"] == 0)
    topic = side.make_topic(name=COMMON, partitions=3)
    for data, _ in COMMON_BATCHES:
        side.produce(topic, data)
    side.produce(topic, partition=1)
    side.common["topic"] = topic


def prepare(sides, with_groups):
    failures = []

    def attempt(side):
        try:
            prepare_one(side, with_groups)
        except Exception as error:
            failures.append(f"{side.name}: {error}")
    threads = [threading.Thread(target=attempt, args=(side,)) for side in sides]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise SystemExit("Bail out! the fixture could not be made: " + "; ".join(failures))
