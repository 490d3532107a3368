"""The cluster that is hurt: brokers and PostgreSQL as nodes of a network that can be cut, where the machine allows it,
and on the loopback else.

    with Stage(brokers=3, rng=random.Random(1)) as s:
        s.nodes                     ["b1", "b2", "b3", "client", "pg"]
        s.network                   None: the loopback, nothing can be cut
        s.fail_over()               the primary dies, its standby is promoted without its last transactions
        s.fault_rules(1, "pwrite * ENOSPC")     what broker 1's disk does (faultfs.c); "" = it is well
        s.lapses                    of each failover: when the standby stopped following, and when the primary died, from when to when
        s.lose_unsynced(1)          its data folder as after a power cut (only while it is dead)
        s.start_workload(rate, seed) / .figures() / .stop_workload() -> what workload.py wrote
"""
import json
import os
import re
import shutil
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, "regress", "lib"), os.path.join(ROOT, "regress", "clients", "lib")]

import local_pg
import lost_tail
import toolchain
from network import Network
from pgbroker_cluster import Cluster, wait_for

TOPIC = "chaos"
PARTITIONS = 4
# Each of its partitions is compacted every second or two, in several groups of neighbours: a segment ends with an index of
# five entries, about 20 KB.
COMPACTED, COMPACTED_PARTITIONS = "chaos-compacted", 2
# Who is away for longer may miss that a key was deleted: no fault may last so long (Campaign.wait_for_the_absent).
DELETE_RETENTION_MS = 90000
COMPACTED_CONFIG = {"cleanup.policy": "compact", "segment.ms": 3000, "segment.bytes": 1 << 20, "segment.index.bytes": 60,
                    "min.cleanable.dirty.ratio": 0.01, "min.compaction.lag.ms": 0, "delete.retention.ms": DELETE_RETENTION_MS}
TOPICS = {TOPIC: PARTITIONS, COMPACTED: COMPACTED_PARTITIONS}
MB = 1 << 20


class Stage(Cluster):
    def __init__(self, rng, brokers=3, with_network=False, with_standby=False, properties=None):
        self.rng = rng
        self.nodes = [f"b{i + 1}" for i in range(brokers)] + ["client", "pg"]
        self.network = Network(self.nodes[:-1], ["pg", "pg2"]) if with_network else None
        self.workload = None
        self.lapses = []
        shim = self.make_shim()
        super().__init__(brokers, start=False, properties={
            "min.insync.replicas": 2, "unclean.leader.election.enable": "false", "auto.create.topics.enable": "false",
            "log.segment.bytes": MB, "replica.lag.time.max.ms": 5000, "pg_broker.report.interval.ms": 1000,
            "log.segment.delete.delay.ms": 1000, "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
            **(properties or {})}, pg_settings={"wal_level": "replica", "fsync": "off"},
            broker_properties={n + 1: {"broker.rack": name} for n, name in enumerate(self.nodes[:brokers])})
        try:
            self.standby = local_pg.make_standby(self) if with_standby else None
            self.broker_conninfo = local_pg.conninfo(self)
            for number, broker in self.brokers.items():
                self.prepare(number, broker, shim)
            self.start_brokers()
            for topic, config in ((TOPIC, {}), (COMPACTED, COMPACTED_CONFIG)):
                config = json.dumps({key: str(value) for key, value in config.items()})
                self.sql(f"SELECT broker.create_topic('{topic}', partitions => {TOPICS[topic]}, replication_factor => {brokers},"
                         f" config => '{config}')")
            self.wait_recovered(30)
        except BaseException:
            self.close()
            raise

    def start_postgres(self, settings, tcp, extension):
        if self.network:
            settings = {**settings, "listen_addresses": self.network.address("pg")}
        super().start_postgres(settings, tcp, extension)
        if self.network:
            local_pg.trust_network(self.postgres)

    def make_shim(self):
        build = os.environ.get("BUILD") or "build"
        names = ["faultfs.so", "lost_tail.so"]
        made = [f"{build}/{name}" for name in (*names, "client_generation.so")]
        done = subprocess.run(["make", "-s", f"BUILD={build}", *made], cwd=ROOT, check=False)
        assert done.returncode == 0, "the layers between brokerd and its disk could not be built"
        return [os.path.abspath(os.path.join(ROOT, build, name)) for name in names]

    def prepare(self, number, broker, shims):
        """Where it runs, and through what it writes: a script that becomes brokerd, so its pid is brokerd's."""
        os.makedirs(broker.folder, exist_ok=True)
        where = self.network.command(f"b{number}") if self.network else []
        if self.network:
            broker.host = self.network.address(f"b{number}")
        environment = {"LD_PRELOAD": ":".join(shims), "FAULTFS_CONTROL": self.rules_file(number), "LOST_TAIL_JOURNAL": self.journal(number)}
        broker.program = os.path.join(broker.folder, "brokerd")
        with open(broker.program, "w", encoding="ascii") as script:
            words = " ".join(f"'{word}'" for word in [*where, "env", *(f"{k}={v}" for k, v in environment.items()), self.brokerd])
            script.write(f'#!/bin/sh\nexec {words} "$@"\n')
        os.chmod(broker.program, 0o755)
        self.fault_rules(number, "")

    # -- disks

    def rules_file(self, number):
        return os.path.join(self.folder, f"broker-{number}", "disk-rules")

    def journal(self, number):
        return os.path.join(self.folder, f"broker-{number}", "synced")

    def fault_rules(self, number, text):
        with open(self.rules_file(number) + ".new", "w", encoding="ascii") as file:
            file.write(text)
        os.replace(self.rules_file(number) + ".new", self.rules_file(number))

    def lose_unsynced(self, number):
        return lost_tail.lose(self.broker(number).data, self.journal(number), self.rng)

    def forget_journal(self, number):
        """Of a disk that is another one now."""
        open(self.journal(number), "wb").close()

    # -- PostgreSQL

    def fail_over(self):
        """The primary that died."""
        old = local_pg.fail_over(self)
        self.lapses.append(self.lapse)
        print("  what was committed from %.2f to %.2f may be lost with the primary" % (self.lapse[0], self.lapse[2]), flush=True)
        return old

    # -- who is who, as far as anybody can say now

    def roles(self):
        """{"leader": [ids], "follower": [ids], "controller": [ids]}, each in an order of the schedule's choice."""
        everybody = sorted(self.brokers)
        try:
            leaders = [int(row[0]) for row in self.sql(
                f"SELECT DISTINCT leader FROM broker.partitions WHERE topic = ANY ('{{{','.join(TOPICS)}}}') AND leader IS NOT NULL ORDER BY 1")]
            controller = [int(row[0]) for row in self.sql("SELECT controller_id FROM broker.cluster") if row[0]]
        except Exception:
            leaders, controller = everybody, everybody[:1]
        return {"leader": leaders or everybody, "controller": controller or everybody[:1],
                "follower": [b for b in everybody if b not in leaders] or everybody, "any": everybody}

    # -- the clients

    def start_workload(self, rate, seed):
        python = toolchain.virtual_environment("confluent") + "/python"
        where = self.network.command("client") if self.network else []
        environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
        self.last = {}
        self.workload = subprocess.Popen(
            [*where, python, os.path.join(HERE, "workload.py"), self.bootstrap, str(rate), self.folder, TOPIC, str(PARTITIONS),
             COMPACTED, str(COMPACTED_PARTITIONS), str(DELETE_RETENTION_MS), str(seed)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        for line in self.workload.stdout:
            if line.startswith("{"):
                self.last = json.loads(line)

    def figures(self):
        return self.last

    def acknowledges(self, since):
        """Whether every partition has acknowledged more than it had in `since` (figures())."""
        now, then = self.last, since
        return bool(then.get("partitions")) and all(n[0] > t[0] and n[1] < 2 for n, t in zip(now["partitions"], then["partitions"]))

    def group_reads(self, since):
        """Whether a commit of every partition was acknowledged to the group since `since` (figures())."""
        return all(n > t for n, t in zip(self.last["group"], since["group"]))

    def stop_workload(self, seconds=240):
        self.workload.stdin.close()
        self.workload.wait(seconds)
        with open(os.path.join(self.folder, "workload.json"), encoding="ascii") as file:
            return json.load(file)

    # -- at the end

    def recovered(self, *topics):
        """Whether every partition of the topics, without any of all, has a leader and all of its replicas in the ISR."""
        topics = topics or tuple(TOPICS)
        names = ", ".join(f"'{topic}'" for topic in topics)
        try:
            return self.sql(f"SELECT count(*) FROM broker.partitions WHERE topic IN ({names}) AND leader IS NOT NULL"
                            f" AND cardinality(isr) = {len(self.brokers)}") == [(str(sum(TOPICS[topic] for topic in topics)),)]
        except Exception:
            return False

    def compactions(self):
        """{broker: how many times it has compacted}."""
        return {number: len(re.findall(f"{COMPACTED}-\\d+ is compacted", broker.log_text())) for number, broker in self.brokers.items()}

    def wait_recovered(self, seconds, *topics):
        wait_for(lambda: self.recovered(*topics), seconds, "every partition has a leader and all of its replicas in the ISR")

    def close(self):
        if not self.closed and self.workload and self.workload.poll() is None:
            self.workload.kill()
            self.workload.wait()
        super().close()

    def keep(self, folder):
        """Ends the brokers, and copies what is left to look at: logs, data, the workload's account."""
        for broker in self.brokers.values():
            broker.kill()
        shutil.copytree(self.folder, folder, ignore=shutil.ignore_patterns("tree", "socket", "*.sock"), dirs_exist_ok=True,
                        ignore_dangling_symlinks=True)
