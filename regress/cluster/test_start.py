#!/usr/bin/env python3
"""What a start asks of PostgreSQL, in which order: what it needs before it serves comes first."""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "regress", "lib"))

from pgbroker_cluster import Cluster
from tap import Tap

SETTINGS = {"log_statement": "all", "log_line_prefix": "%a %p ", "track_functions": "pl"}
TOPICS = "broker_internal.topics_1(bigint, uuid, int)"
BROKEN = "broker_internal.topics_broken(bigint, uuid, int)"


class Asked:
    """What the broker asks PostgreSQL for from now on."""

    def __init__(self, cluster):
        self.log = cluster.postgres.log
        self.from_here = os.path.getsize(self.log)

    def text(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            file.seek(self.from_here)
            return file.read()

    def calls(self, session):
        return re.findall(rf"^brokerd 1 {session}\b.*LOG:  execute (\w+):", self.text(), re.M)

    def sessions(self):
        """In the order in which they asked for the first time."""
        found = re.findall(r"^brokerd 1 (\w+)\b.*LOG:  statement: SET statement_timeout", self.text(), re.M)
        return list(dict.fromkeys(found))


def decisions(cluster):
    return int(cluster.value("SELECT coalesce(sum(calls), 0) FROM pg_stat_user_functions WHERE funcname = 'decide'"))


def order(t, cluster):
    """A start without a controller: its first heartbeat says that the tick is overdue, while the image is being read."""
    cluster.broker(1).stop()
    asked = Asked(cluster)
    with cluster.session() as held:
        held.ask("BEGIN; LOCK broker_internal.configs IN ACCESS EXCLUSIVE MODE")
        cluster.broker(1).start(wait=False)
        cluster.wait(lambda: "CONFIGS" in asked.calls("control") and asked.calls("heartbeat").count("HEARTBEAT") > 1, 20, "a heartbeat that was answered")
        held.ask("COMMIT")
    cluster.wait(lambda: "TICK" in asked.calls("control"), 20, "a tick")
    calls = asked.calls("control")
    t.ok({"BROKERS", "CONFIGS", "TOPICS"} <= set(calls[:calls.index("TICK")]), f"the image is read before the tick, though that is overdue: {calls}")
    t.ok("OPERATIONS" not in calls[:calls.index("TOPICS")], "and before what is to be carried out")
    t.equal(asked.sessions(), ["heartbeat", "control", "offsets"], "sessions come in the order in which they are needed")


def without_image(t, cluster):
    """Ticks are for all: a broker that cannot read its image must not keep the cluster from them."""
    cluster.broker(1).stop()
    cluster.sql(f"ALTER FUNCTION {TOPICS} RENAME TO topics_broken")
    asked = Asked(cluster)
    cluster.broker(1).start(wait=False)
    cluster.wait(lambda: "TICK" in asked.calls("control"), 20, "a tick")
    t.ok(not cluster.broker(1).answers(), "a broker that cannot read its image ticks, and serves nobody")
    cluster.sql(f"ALTER FUNCTION {BROKEN} RENAME TO topics_1")
    cluster.wait(cluster.broker(1).answers, 20, "the broker serves")
    t.ok(True, "it serves once it can be read")


def elections(t, cluster):
    """Planning an election takes longer than all else in registering."""
    made = []
    for leaders in ([], [("1",)]):
        if leaders:
            cluster.sql("SELECT broker.create_topic('t')")
            cluster.wait_sql("SELECT leader FROM broker.partitions", leaders)
        before = stop_and_count(cluster)
        cluster.broker(1).start()
        cluster.wait_sql("SELECT leader FROM broker.partitions", leaders, 20)
        made.append(stop_and_count(cluster) - before)
        cluster.broker(1).start()
    t.equal(made, [0, 1], "registering decides on leaders only where there are partitions")


def stop_and_count(cluster):
    """Sessions tell what they called when they end, at the latest."""
    cluster.broker(1).kill()
    cluster.wait_sql("SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'brokerd%'", [("0",)], 20)
    return decisions(cluster)


def main():
    with Tap() as t, Cluster(pg_settings=SETTINGS) as cluster:
        order(t, cluster)
        without_image(t, cluster)
        elections(t, cluster)


main()
