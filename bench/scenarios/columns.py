"""The columns of the report: a system, and the settings of its topics.  One table.

brokerd acknowledges what is fsynced unless a topic sets flush.messages or flush.ms; any number does, and one that
is never reached is Kafka's default: acknowledged from the page cache, written back when the kernel likes.
"""
from dataclasses import dataclass, field

NEVER = 9223372036854775806  # one less than the number that means "not set"


@dataclass(frozen=True)
class Column:
    key: str
    kind: str  # which system
    title: str
    topic: dict = field(default_factory=dict)
    mode: str = ""  # of the null broker


COLUMNS = {column.key: column for column in (
    Column("brokerd", "brokerd", "brokerd (fsync)"),
    Column("brokerd-relaxed", "brokerd", "brokerd, no fsync", {"flush.messages": NEVER}),
    Column("kafka", "kafka", "Kafka, no fsync"),
    Column("kafka-flush", "kafka", "Kafka, flush.messages=1", {"flush.messages": 1}),
    Column("null-fsync", "null", "ceiling, fsync", mode="fsync"),
    Column("null", "null", "ceiling, no fsync", mode="write"),
)}

ALL = ("brokerd", "kafka", "brokerd-relaxed", "kafka-flush")
READERS = ("brokerd", "kafka")
CEILING = ("null-fsync", "null")
