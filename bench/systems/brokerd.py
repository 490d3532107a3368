"""brokerd with a PostgreSQL of its own, as regress/lib/pgbroker_cluster.py makes them; PostgreSQL with its fsync on.

The processes of a node are brokerd and its watchdog.  PostgreSQL's are counted apart, as helpers: in production it
is there already, and does other work.
"""
import os
import signal
import subprocess
import tempfile

from pgbroker_cluster import Cluster

from bench.systems import usage
from bench.systems.system import NotServing, System, wait_until

# What is deleted goes soon, in both systems, so that the next run finds a quiet disk.
PROPERTIES = {
    "log.segment.delete.delay.ms": 200,
    "group.initial.rebalance.delay.ms": 0,
    "auto.create.topics.enable": "false",
    "num.partitions": 1,
}
STOP_SECONDS = 120
POSTGRES = {"fsync": "on", "shared_buffers": "128MB", "max_connections": 100}


class Brokerd(System):
    kind = "brokerd"
    title = "brokerd"

    def __init__(self, folder, nodes=1, properties=None, postgres=None):
        super().__init__(folder, nodes)
        self.properties = {**PROPERTIES, **(properties or {})}
        self.postgres = {**POSTGRES, **(postgres or {})}
        self.cluster = None

    def start(self):
        before, tempfile.tempdir = tempfile.tempdir, self.folder
        try:
            self.cluster = Cluster(brokers=self.nodes, properties=self.properties, pg_settings=self.postgres)
        finally:
            tempfile.tempdir = before
        self.wait_serving()
        return self

    def stop(self):
        if self.cluster:
            for broker in self.cluster.brokers.values():
                broker.stop()
            self.cluster.close()
            self.cluster = None
        self.topics.clear()

    # -- its nodes

    def ports(self):
        return {number: broker.port for number, broker in self.cluster.brokers.items()}

    def node_pids(self, node):
        return usage.standing_in(self.cluster.broker(node).folder)

    def helper_pids(self):
        server = self.cluster.postgres.pid()
        return [pid for pid in self.cluster.postgres.processes()] if server else []

    def data_folders(self):
        return [broker.data for broker in self.cluster.brokers.values()]

    def start_node(self, node):
        """The process is started; whoever wants to know when it serves waits for that."""
        self.cluster.broker(node).start(wait=False)

    def stop_node(self, node):
        if self.cluster.broker(node).stop(seconds=STOP_SECONDS) == signal.SIGKILL:
            raise NotServing(f"{self.title}: node {node} had not stopped {STOP_SECONDS} s after SIGTERM")

    def kill_node(self, node):
        self.cluster.broker(node).kill()

    def controller(self):
        wait_until(lambda: self.cluster.value("SELECT controller_id FROM broker.cluster"), 20, "brokerd: a controller", 0.1)
        return int(self.cluster.value("SELECT controller_id FROM broker.cluster"))

    # -- about it

    def version(self):
        said = subprocess.run([self.cluster.brokerd, "--version"], capture_output=True, text=True, check=False).stdout.strip()
        return f"{said.splitlines()[0] if said else 'brokerd'}, PostgreSQL {self.cluster.value('SHOW server_version')}"

    def settings(self):
        return {**self.properties, **{f"postgresql: {key}": value for key, value in self.postgres.items()}}

    def logs(self):
        return self.cluster.logs() if self.cluster else ""

    # -- what only SQL does quickly

    def create_many(self, prefix, topics, partitions, replicas=1):
        """Topics PREFIX-1..N in one statement; returns once all their logs are there."""
        wanted = self.log_count() + topics * partitions * replicas
        self.cluster.sql(f"SELECT broker.create_topic('{prefix}-' || i, partitions => {partitions}, replication_factor => {replicas}) "
                         f"FROM generate_series(1, {topics}) i")
        wait_until(lambda: self.log_count() >= wanted, 600, f"brokerd: {topics * partitions} partitions", 0.1)
        self.topics.update(f"{prefix}-{i}" for i in range(1, topics + 1))

    def log_count(self):
        return sum(len(os.listdir(folder)) for folder in self.data_folders())
