"""What tests of several brokers ask again and again.

    topic = Replicated(c, "t", config={"min.insync.replicas": 2})     one partition on all brokers, all of them in the ISR
    topic.leader() / .isr() / .followers()         ids, as PostgreSQL has them
    topic.wait_isr({1, 2})                         and so on
    with topic.at_leader() as k: k.produce(...)    a connection to whoever leads
    topic.produce(b"x", b"y", acks=-1)             -> offset; sent again while the answer is retriable and `patience` lasts
    topic.values()                                 all of it, from its start, by Fetch
    topic.differing()                              [] when the replicas are equal byte for byte up to the end
    wait_known(c, 1, TOPIC, "t", key, value)       until broker 1 itself acts on a config of that resource (TOPIC, BROKER)
"""
import json
import os
import signal
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "regress", "lib"), os.path.join(ROOT, "regress", "chaos")]

import replicas
from kafka_client import Connection, KafkaError
from pgbroker_cluster import wait_for
from procs import process_cwd

TOPIC, BROKER = 2, 4 # types of resources in the configs APIs
RETRIABLE = (3, 5, 6, 7, 19, 56, 74, 76)


class Replicated:
    def __init__(self, c, name, partitions=1, replication_factor=None, config=None, assignment=None):
        self.c, self.name, self.partitions = c, name, partitions
        factor = replication_factor or len(c.brokers)
        size = f"partitions => {partitions}, replication_factor => {factor}"
        if assignment:
            size = f"assignment => '{json.dumps(assignment)}'"
        c.sql(f"SELECT broker.create_topic('{name}', {size}, config => '{json.dumps(config or {})}')")
        c.wait_sql(f"SELECT count(*) FROM broker.partitions WHERE topic = '{name}' AND leader IS NOT NULL AND cardinality(isr) = "
                   f"{len(assignment['0']) if assignment else factor}", [(str(partitions),)], 20)
        self.wait_led()

    def row(self, columns, partition=0):
        return self.c.sql(f"SELECT {columns} FROM broker.partitions WHERE topic = '{self.name}' AND partition = {partition}")[0]

    def leader(self, partition=0):
        leader = self.row("leader", partition)[0]
        return int(leader) if leader else None

    def isr(self, partition=0):
        return {int(n) for n in self.row("isr", partition)[0].strip("{}").split(",")}

    def replicas(self, partition=0):
        return [int(n) for n in self.row("replicas", partition)[0].strip("{}").split(",")]

    def followers(self, partition=0):
        return [n for n in self.replicas(partition) if n != self.leader(partition)]

    def wait_isr(self, ids, seconds=20, partition=0):
        wait_for(lambda: self.isr(partition) == set(ids), seconds, f"the ISR of {self.name}-{partition} is {set(ids)}")

    def wait_leader_knows(self, ids, seconds=10, partition=0):
        """Until the leader itself acts on this ISR."""
        with self.at_leader(partition) as k:
            wait_for(lambda: {n for row in k.metadata(self.name)[self.name]["partitions"] if row["partition_index"] == partition
                              for n in row["isr_nodes"]} == set(ids), seconds, f"the leader of {self.name}-{partition} knows {set(ids)}")

    def wait_led(self, seconds=15):
        """Until every leader that PostgreSQL names says so itself."""
        def led():
            rows = self.c.sql(f"SELECT leader, partition FROM broker.partitions WHERE topic = '{self.name}'")
            try:
                for leader in {row[0] for row in rows}:
                    with Connection(self.c.broker(int(leader)).address) as k:
                        if any(high_watermark(k, self.name, int(p)) is None for its, p in rows if its == leader):
                            return False
            except (OSError, TypeError):
                return False
            return True

        wait_for(led, seconds, f"all partitions of {self.name} are led")

    def at_leader(self, partition=0, timeout=15):
        return Connection(self.c.broker(self.leader(partition)).address, timeout=timeout)

    def produce(self, *values, acks=-1, partition=0, patience=20, **options):
        deadline = time.monotonic() + patience
        while True:
            try:
                with self.at_leader(partition) as k:
                    return k.produce(self.name, partition, list(values), acks, **options)
            except (KafkaError, OSError, TypeError, KeyError) as error:
                code = getattr(error, "code", None)
                if time.monotonic() > deadline or (code is not None and code not in RETRIABLE):
                    raise
            time.sleep(0.02)

    def values(self, partition=0):
        found, at = [], 0
        with self.at_leader(partition) as k:
            while True:
                more = k.fetch(self.name, partition, at, max_wait_ms=0)
                if not more:
                    return found
                found += [value for _, value in more]
                at = more[-1][0] + 1

    def high_watermark(self, partition=0):
        with self.at_leader(partition) as k:
            return high_watermark(k, self.name, partition)

    def bytes_of(self, broker_id, partition=0):
        return replicas.read(self.c.broker(broker_id).data, self.name, partition)

    def differing(self, partition=0):
        logs = {n: self.bytes_of(n, partition) for n in self.replicas(partition)}
        ends = {n: [row[1] for row in replicas.split(data)][-1:] for n, data in logs.items()}
        wrong = replicas.compare(logs, self.high_watermark(partition))
        return wrong or ([] if len({str(end) for end in ends.values()}) == 1 else [f"they end at {ends}"])

    def wait_equal(self, seconds=20, partition=0):
        wait_for(lambda: self.differing(partition) == [], seconds, f"the replicas of {self.name}-{partition} are equal")


def wait_known(c, broker, resource, name, key, value):
    """Until a broker itself acts on a config."""
    def known():
        with Connection(c.broker(broker).address) as k:
            answer = k.call("DescribeConfigs", 4, {"resources": [{"resource_type": resource, "resource_name": name, "configuration_keys": [key]}],
                                                   "include_synonyms": False, "include_documentation": False})
        return answer["results"][0]["configs"][0]["value"] == str(value)

    wait_for(known, 10, f"broker {broker} knows {key} of {name}")


def family(broker):
    """The processes of a broker: itself, and the watchdog that would end it when it hangs."""
    folder = os.path.realpath(broker.folder)
    return [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and process_cwd(pid) == folder]


def freeze(broker):
    """As a host that stands still: the watchdog too, so it goes on when it wakes."""
    for pid in sorted(family(broker), reverse=True):
        os.kill(pid, signal.SIGSTOP)


def thaw(broker):
    for pid in sorted(family(broker)):
        os.kill(pid, signal.SIGCONT)


def high_watermark(k, topic, partition=0):
    """By ListOffsets; None while the leader does not say."""
    answer = k.call("ListOffsets", 7, {"replica_id": -1, "isolation_level": 0, "topics": [{"name": topic, "partitions": [
        {"partition_index": partition, "current_leader_epoch": -1, "timestamp": -1}]}]})
    row = answer["topics"][0]["partitions"][0]
    return None if row["error_code"] else row["offset"]


def refusal(act):
    """The error code of what `act` raises; None when it does not."""
    try:
        act()
    except KafkaError as error:
        return error.code
    return None
