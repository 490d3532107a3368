"""Apache Kafka in KRaft mode, each node broker and controller, as regress/lib/kafka.py gets it from Maven.

It runs with the options of the JVM that Kafka's own start script has (1 GB of heap, G1): the judge of the tests runs
with others, which start faster and are slower.  Of the settings only what a small cluster needs differs from
Kafka's defaults.
"""
import os
import re
import subprocess

import kafka
from pgbroker_cluster import free_port

from bench.systems.system import NotServing, System, wait_until

JVM = ["-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
       "-XX:+ExplicitGCInvokesConcurrent", "-XX:MaxInlineLevel=15", "-Djava.awt.headless=true"]
STOP_SECONDS = 600
LEADS = re.compile(r"Completed transition to (Leader|Follower|Unattached|Candidate|Voted|Prospective|Resigned)\w*\(.*?epoch=(\d+)")


class ApacheKafka(System):
    kind = "kafka"
    title = "Apache Kafka"

    def __init__(self, folder, nodes=1, properties=None):
        super().__init__(folder, nodes)
        self.extra = properties or {}
        self.processes = {}
        self.client_ports = {}
        self.controller_ports = {}

    def properties(self, node):
        voters = ",".join(f"{n}@127.0.0.1:{port}" for n, port in self.controller_ports.items())
        copies = min(3, self.nodes)
        listeners = f"PLAINTEXT://127.0.0.1:{self.client_ports[node]}"
        return {
            "process.roles": "broker,controller",
            "node.id": node,
            "controller.quorum.voters": voters,
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{self.controller_ports[node]}",
            "advertised.listeners": listeners,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": self.data_folder(node),
            **self.chosen(),
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": min(2, copies),
            "share.coordinator.state.topic.replication.factor": copies,
            "share.coordinator.state.topic.min.isr": min(2, copies),
            **self.extra,
        }

    @staticmethod
    def chosen():
        return {"log.segment.delete.delay.ms": 200, "group.initial.rebalance.delay.ms": 0, "auto.create.topics.enable": "false",
                "offsets.topic.num.partitions": 4, "num.partitions": 1}

    def node_folder(self, node):
        return os.path.join(self.folder, f"kafka-{node}")

    def data_folder(self, node):
        return os.path.join(self.node_folder(node), "data")

    def log_path(self, node):
        return os.path.join(self.node_folder(node), "server.log")

    def java(self, *arguments, jvm=JVM):
        return ["java", *jvm, f"-Dlog4j2.configurationFile={os.path.join(kafka.HERE, 'log4j2.xml')}", "-Djudge.level=INFO",
                "-cp", self.classpath, *arguments]

    # -- its nodes

    def prepare(self):
        """Ports, folders and formatted storage: all that comes before the first start."""
        self.classpath = kafka.classpath()
        for node in range(1, self.nodes + 1):
            self.client_ports[node] = free_port()
            self.controller_ports[node] = free_port()
        formatting = []
        for node in range(1, self.nodes + 1):
            os.makedirs(self.node_folder(node))
            path = os.path.join(self.node_folder(node), "server.properties")
            with open(path, "w", encoding="ascii") as file:
                file.write("".join(f"{key}={value}\n" for key, value in self.properties(node).items()))
            formatting.append(subprocess.Popen(
                self.java("kafka.tools.StorageTool", "format", "-t", kafka.CLUSTER_ID, "-c", path, jvm=["-XX:TieredStopAtLevel=1"]),
                cwd=self.node_folder(node), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT))
        if any(process.wait() for process in formatting):
            raise NotServing(f"Apache Kafka's storage in {self.folder} could not be formatted")

    def start(self):
        if not self.client_ports:
            self.prepare()
        for node in self.client_ports:
            if node not in self.processes:
                self.start_node(node)
        self.wait_serving()
        return self

    def start_node(self, node):
        with open(self.log_path(node), "ab") as log:
            self.processes[node] = subprocess.Popen(self.java("kafka.Kafka", os.path.join(self.node_folder(node), "server.properties")),
                                                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.node_folder(node),
                                                    start_new_session=True)

    def stop_node(self, node, seconds=STOP_SECONDS):
        """A clean stop.  One that takes too long is ended by force, and is none: the next start would be measured as if it was."""
        process = self.processes.pop(node, None)
        if not process:
            return
        process.terminate()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise NotServing(f"{self.title}: node {node} had not stopped {seconds} s after SIGTERM") from None

    def kill_node(self, node):
        process = self.processes.pop(node, None)
        if process:
            process.kill()
            process.wait()

    def stop(self):
        """The end of all of it, by force: its data go, and three nodes that are asked at once wait for a quorum in vain."""
        for process in self.processes.values():
            process.kill()
        for node in list(self.processes):
            self.kill_node(node)
        self.topics.clear()

    def is_serving(self, node):
        if node in self.processes and self.processes[node].poll() is not None:
            raise NotServing(f"Apache Kafka ended while it started: {reason_of(self.logs(200))}")
        return super().is_serving(node)

    def ports(self):
        return self.client_ports

    def node_pids(self, node):
        return [self.processes[node].pid] if node in self.processes else []

    def data_folders(self):
        return [self.data_folder(node) for node in self.client_ports]

    def controller(self):
        """The node that leads the quorum, as the nodes' logs say it: the protocol names another one to clients."""
        def leader():
            known = {}
            for node in self.client_ports:
                with open(self.log_path(node), encoding="utf-8", errors="replace") as file:
                    known[node] = quorum_role(file.read())
            leading = [(epoch, node) for node, (role, epoch) in known.items() if role == "Leader"]
            return max(leading)[1] if leading else None
        wait_until(leader, 30, "Apache Kafka: a controller", 0.1)
        return leader()

    # -- about it

    def version(self):
        java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr.splitlines()
        return f"Apache Kafka {kafka.version()} on {java[-2] if len(java) > 1 else 'Java'}"

    def settings(self):
        return {**self.chosen(), **self.extra, "JVM": " ".join(JVM)}

    def logs(self, lines=20):
        text = ""
        for node in self.client_ports:
            if os.path.exists(self.log_path(node)):
                with open(self.log_path(node), encoding="utf-8", errors="replace") as file:
                    text += f"==> {self.log_path(node)}\n" + "".join(file.readlines()[-lines:])
        return text

    def create_many(self, prefix, topics, partitions, replicas=1, at_once=1000):
        """Topics PREFIX-1..N; a request of more than some thousand partitions is refused by its controller."""
        names = [f"{prefix}-{i}" for i in range(1, topics + 1)]
        step = max(1, at_once // partitions)
        for first in range(0, topics, step):
            self.create_topics(names[first:first + step], partitions, replicas)
        wait_until(lambda: self.is_led(names[-1], partitions, replicas), 600, f"Apache Kafka: {topics * partitions} partitions", 0.1)


def reason_of(log):
    """The line of a log that says why the process ended: its last error, or the last exception."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    found = [line for line in lines if " ERROR " in line or " FATAL " in line or "Exception: " in line or "Error: " in line]
    return (found or lines or ["it said nothing"])[-1]


def quorum_role(text):
    """(role, epoch) of the last change that a log has; (None, -1) without any."""
    found = LEADS.findall(text)
    return (found[-1][0], int(found[-1][1])) if found else (None, -1)
