"""What every measured system can do, whatever it is: topics by the Kafka protocol, CPU and memory from /proc.

A system has nodes 1..N.  A class of its own says how a node is started, stopped and killed, and which processes
belong to it; what is asked over the wire is the same for all of them, and stands here.
"""
import contextlib
import os
import time

from kafka_client import Connection

from bench.systems import usage

NOT_YET = (3, 5, 6, 7, 9, 14, 15, 16, 41)


class NotServing(Exception):
    """A system does not do what the benchmark needs of it; the text says what, and where to look."""


def wait_until(condition, seconds, what, step=0.01):
    """The seconds that it took until condition() held; NotServing when it takes longer than allowed."""
    begun = time.monotonic()
    while not condition():
        if time.monotonic() - begun > seconds:
            raise NotServing(f"{what}: not within {seconds} s")
        time.sleep(step)
    return time.monotonic() - begun


def empty(folder):
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            if name.endswith((".log", ".log.deleted")) and os.path.getsize(path):
                os.truncate(path, 0)


class System:
    """`kind` is its key in the tables; `title` what a report calls it."""
    kind = title = None
    has_topics = True

    def __init__(self, folder, nodes=1):
        self.folder = folder
        self.nodes = nodes
        self.topics = set()
        self.deleted = set()  # whose files may still be there
        self.filled = {}  # what readers read: (size, megabytes) -> topic, messages

    # -- what a subclass says: start() stop() start_node(n) stop_node(n) kill_node(n) ports() node_pids(n)
    #    helper_pids() data_folders() version() settings() controller() logs()

    def helper_pids(self):
        return []

    def address(self, node):
        return f"127.0.0.1:{self.ports()[node]}"

    @property
    def bootstrap(self):
        return ",".join(self.address(node) for node in self.ports())

    def pids(self):
        return [pid for node in self.ports() for pid in self.node_pids(node)]

    # -- what it uses

    def cpu_seconds(self):
        return usage.cpu_seconds(self.pids())

    def helper_cpu_seconds(self):
        return usage.cpu_seconds(self.helper_pids(), reaped=True)

    def resident_mib(self):
        return usage.resident_mib(self.pids())

    def helper_mib(self):
        return usage.proportional_mib(self.helper_pids())

    # -- what it is asked

    def connection(self, node=None, timeout=60):
        return Connection(self.address(node or next(iter(self.ports()))), timeout=timeout)

    def is_serving(self, node):
        """Whether a node answers Metadata with all nodes in it: a client that knows any finds all."""
        try:
            with self.connection(node, timeout=2) as k:
                answer = k.call("Metadata", 9, {"topics": [], "allow_auto_topic_creation": False})
        except (OSError, ValueError):
            return False
        return {row["node_id"] for row in answer["brokers"]} >= set(self.ports())

    def wait_serving(self, seconds=120):
        for node in self.ports():
            wait_until(lambda n=node: self.is_serving(n), seconds, f"{self.title}: node {node} answers clients", 0.02)

    def create_topic(self, name, partitions=1, replicas=1, configs=None, assignment=None, seconds=120):
        """Makes a topic and waits until every partition is led and every replica in sync."""
        self.create_topics([name], partitions, replicas, configs, assignment)
        wait_until(lambda: self.is_led(name, partitions, replicas), seconds, f"{self.title}: topic {name} is led")

    def create_topics(self, names, partitions=1, replicas=1, configs=None, assignment=None):
        rows = [{"name": name, "num_partitions": -1 if assignment else partitions,
                 "replication_factor": -1 if assignment else replicas,
                 "assignments": [{"partition_index": p, "broker_ids": ids} for p, ids in (assignment or {}).items()],
                 "configs": [{"name": key, "value": str(value)} for key, value in (configs or {}).items()]}
                for name in names]
        self.ask_about_topics("CreateTopics", 5, {"topics": rows, "timeout_ms": 60000, "validate_only": False},
                              "topics", allowed=(36,))
        self.topics.update(names)

    def ask_about_topics(self, api, version, request, key, allowed, seconds=60):
        until = time.monotonic() + seconds
        while True:
            with self.any_connection() as k:
                errors = {row["error_code"]: row for row in k.call(api, version, request)[key]}
            errors = {code: row for code, row in errors.items() if code and code not in allowed}
            if not errors:
                return
            code, row = next(iter(errors.items()))
            if code not in NOT_YET or time.monotonic() > until:
                raise NotServing(f"{self.title}: {api} of {row['name']}: error {code} {row.get('error_message') or ''}")
            time.sleep(0.1)

    @contextlib.contextmanager
    def any_connection(self):
        """To the controller where the system takes changes of topics only there, else to any node."""
        with self.connection() as k:
            yield k

    def partitions_of(self, name):
        with self.connection() as k:
            row = k.metadata(name)[name]
        return [] if row["error_code"] else row["partitions"]

    def is_led(self, name, partitions, replicas):
        """As every node says it: a producer may ask any of them."""
        for node in self.ports():
            try:
                with self.connection(node) as k:
                    row = k.metadata(name)[name]
                    if row["error_code"] or len(row["partitions"]) != partitions:
                        return False
                    if any(p["leader_id"] < 0 or len(p["isr_nodes"]) < replicas for p in row["partitions"]):
                        return False
                    led = [p["partition_index"] for p in row["partitions"] if p["leader_id"] == node]
                    if not self.leads(k, name, led):
                        return False
            except OSError:
                return False
        return True

    @staticmethod
    def leads(k, name, partitions):
        """Whether the broker itself knows that it leads these: it can say where they end."""
        if not partitions:
            return True
        answer = k.call("ListOffsets", 5, {"replica_id": -1, "isolation_level": 0, "topics": [{"name": name, "partitions": [
            {"partition_index": p, "current_leader_epoch": -1, "timestamp": -1} for p in partitions]}]})
        return not any(row["error_code"] for row in answer["topics"][0]["partitions"])

    def leader(self, name, partition=0):
        return next(p["leader_id"] for p in self.partitions_of(name) if p["partition_index"] == partition)

    def delete_topics(self, names):
        names = [name for name in names if name in self.topics]
        if names:
            self.ask_about_topics("DeleteTopics", 4, {"topic_names": names, "timeout_ms": 60000}, "responses", allowed=(3,))
            self.topics.difference_update(names)
            self.deleted.update(names)

    # -- its files

    def has_remains(self):
        """Whether deleted topics still take room.

        Their folders are renamed to ...-delete first, and removed later.  What is in there loses its blocks here
        and now: nothing is measured meanwhile, so there is no reason to be gentle, and the system's own deleter
        finds small files.  (Only segments: Apache Kafka has the indexes mapped.)
        """
        remains = False
        for folder in self.data_folders():
            for name in os.listdir(folder):
                if name.endswith("-delete"):
                    empty(os.path.join(folder, name))
                elif name.rpartition("-")[0] in self.deleted:
                    remains = True
        if not remains:
            self.deleted.clear()
        return remains

    def segments(self, topic):
        found = []
        for folder in self.data_folders():
            for name in os.listdir(folder):
                if name.rpartition("-")[0] == topic:
                    place = os.path.join(folder, name)
                    found += [os.path.join(place, file) for file in os.listdir(place) if file.endswith(".log")]
        return found
