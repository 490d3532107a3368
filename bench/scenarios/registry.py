"""The names that the table of scenarios uses for its measures.  One table."""
from dataclasses import dataclass

from bench.scenarios import growth, lifecycle, measures


def nothing(_run):
    pass


@dataclass(frozen=True)
class Measure:
    measure: object  # of a growth scenario: measure(run, size)
    prepare: object = nothing
    finish: object = nothing
    fresh: bool = False  # its system is its own, and no other is up meanwhile
    warm: bool = True  # a first run that is not counted


MEASURES = {
    "produce": Measure(measures.produce),
    "latency": Measure(measures.latency),
    "latency_one": Measure(measures.latency_one, measures.make_batches),
    "replay": Measure(measures.replay, measures.make_batches),
    "consume": Measure(measures.consume, measures.fill),
    "drain": Measure(measures.drain, measures.fill),
    "follow": Measure(measures.follow),
    "cold_read": Measure(measures.cold_read, measures.fill),
    "commit": Measure(measures.commit),
    "perf_produce": Measure(measures.perf_produce, measures.perf_prepare, warm=False),
    "perf_consume": Measure(measures.perf_consume, measures.perf_fill, warm=False),
    "failover": Measure(lifecycle.failover, lifecycle.failover_prepare, lifecycle.failover_finish, warm=False),
    "start": Measure(lifecycle.start, lifecycle.start_prepare, fresh=True, warm=False),
    "partitions": Measure(lifecycle.partitions, lifecycle.partitions_prepare, fresh=True, warm=False),
    "connections": Measure(lifecycle.connections, lifecycle.connections_prepare, fresh=True, warm=False),
    "grow_partitions": Measure(growth.partitions, growth.prepare, fresh=True, warm=False),
    "grow_topics": Measure(growth.topics, growth.prepare, fresh=True, warm=False),
    "grow_connections": Measure(growth.connections, growth.prepare, fresh=True, warm=False),
    "grow_groups": Measure(growth.groups, growth.prepare, fresh=True, warm=False),
    "grow_clients": Measure(growth.clients, growth.clients_prepare, fresh=True, warm=False),
}
