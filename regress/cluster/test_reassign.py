#!/usr/bin/env python3
"""Partitions that move to other brokers while they are written to, leaders that go back, brokers that are drained and
decommissioned: from SQL, and by Kafka's own kafka-reassign-partitions and kafka-leader-election."""
import json
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "regress", "lib"))
import kafka
from pgbroker_cluster import Cluster, wait_for
from replicated import Replicated
from tap import Tap


def log_folder(c, broker, topic, partition=0):
    return os.path.join(c.broker(broker).data, f"{topic}-{partition}")


def wait_done(c, topic, replicas, seconds=30):
    wanted = "{" + ",".join(str(n) for n in replicas) + "}"
    c.wait_sql(f"SELECT replicas, adding, removing FROM broker_internal.partitions JOIN broker_internal.topics USING (topic_id) "
               f"WHERE topic = '{topic}' AND deleted_at IS NULL", [(wanted, "{}", "{}")], seconds)


def from_sql(t, c):
    topic = Replicated(c, "moved", assignment={"0": [1, 2]}, config={"file.delete.delay.ms": 0})
    for i in range(30):
        topic.produce(b"%d" % i)
    c.sql("SELECT broker.reassign_partitions('moved', '{0}', '{3,2}')")
    wait_done(c, "moved", [3, 2])
    topic.wait_isr({2, 3})
    topic.wait_led()
    t.equal(topic.leader(), 3, "the leader that went is replaced by the first of the target")
    t.equal(topic.produce(b"30"), 30, "which goes on")
    t.equal(topic.values(), [b"%d" % i for i in range(31)], "with every record in its place")
    wait_for(lambda: not os.path.exists(log_folder(c, 1, "moved")), 20, "broker 1 has deleted its log")
    c.wait_sql("SELECT count(*) FROM broker_internal.dropped_replicas", [("0",)], 10)
    t.ok(True, "the log of the replica that went is deleted, and PostgreSQL knows")
    c.sql("SELECT broker.set_replication_factor('moved', 3)")
    wait_done(c, "moved", [3, 2, 1])
    topic.wait_isr({1, 2, 3})
    topic.wait_equal()
    t.equal(c.value("SELECT min_isr FROM broker.topics WHERE topic = 'moved'"), "2", "with three replicas two are the minimum")


def cancelled(t, c):
    topic = Replicated(c, "back", assignment={"0": [1, 2]})
    topic.produce(b"x")
    c.broker(3).kill()
    try:
        c.sql("SELECT broker.reassign_partitions('back', '{0}', '{1,3}')")
        c.wait_sql("SELECT adding FROM broker.reassignments WHERE topic = 'back'", [("{3}",)], 10)
        c.sql("SELECT broker.cancel_reassignment('back')")
        wait_done(c, "back", [1, 2])
    finally:
        c.broker(3).start()
    topic.wait_led()
    t.equal(topic.values(), [b"x"], "a move that cannot go on is taken back")
    c.wait_sql("SELECT count(*) FROM broker.brokers WHERE state = 'alive'", [("3",)], 20)


def by_tools(t, c, tools):
    topic = Replicated(c, "tooled", assignment={"0": [1, 2]})
    for i in range(10):
        topic.produce(b"%d" % i)
    plan = os.path.join(c.folder, "plan.json")
    with open(plan, "w", encoding="ascii") as file:
        json.dump({"version": 1, "partitions": [{"topic": "tooled", "partition": 0, "replicas": [2, 3], "log_dirs": ["any", "any"]}]}, file)
    where = ("--bootstrap-server", c.bootstrap)

    def tool(*args):
        status, out, err = tools.run(*args)
        return status, out + err

    status, said = tool("kafka-reassign-partitions", *where, "--reassignment-json-file", plan, "--execute")
    t.ok(status == 0 and "Successfully started partition reassignment for tooled-0" in said, "kafka-reassign-partitions --execute") or t.note(said)
    wait_done(c, "tooled", [2, 3])
    status, said = tool("kafka-reassign-partitions", *where, "--reassignment-json-file", plan, "--verify")
    t.ok(status == 0 and "Reassignment of partition tooled-0 is completed" in said, "--verify") or t.note(said)
    status, said = tool("kafka-reassign-partitions", *where, "--list")
    t.ok(status == 0 and "No partition reassignments found" in said, "--list") or t.note(said)
    t.equal(topic.values(), [b"%d" % i for i in range(10)], "every record is there")
    c.broker(3).kill()
    try:
        with open(plan, "w", encoding="ascii") as file:
            json.dump({"version": 1, "partitions": [{"topic": "back", "partition": 0, "replicas": [1, 3], "log_dirs": ["any", "any"]}]}, file)
        # the tool itself wants to see every broker that it moves to
        c.sql("SELECT broker.reassign_partitions('back', '{0}', '{1,3}')")
        c.wait_sql("SELECT adding FROM broker.reassignments WHERE topic = 'back'", [("{3}",)], 10)
        status, said = tool("kafka-reassign-partitions", *where, "--list")
        t.ok("back-0: replicas: 1,3,2. adding: 3. removing: 2." in said, "--list shows it") or t.note(said)
        status, said = tool("kafka-reassign-partitions", *where, "--reassignment-json-file", plan, "--cancel", "--preserve-throttles")
        t.ok(status == 0 and "Successfully cancelled partition reassignment for: back-0" in said, "--cancel") or t.note(said)
    finally:
        c.broker(3).start()
    wait_done(c, "back", [1, 2])
    c.wait_sql("SELECT count(*) FROM broker.brokers WHERE state = 'alive'", [("3",)], 20)
    c.sql("SELECT broker.reassign_partitions('back', '{0}', '{2,1}')")  # another order: 2 is preferred, 1 leads
    wait_done(c, "back", [2, 1])
    Replicated.wait_isr(topic_of(c, "back"), {1, 2})
    status, said = tool("kafka-leader-election", *where, "--election-type", "preferred", "--topic", "back", "--partition", "0")
    t.ok(status == 0 and "Successfully completed leader election (PREFERRED) for partitions back-0" in said, "kafka-leader-election") or t.note(said)
    t.equal(c.value("SELECT leader FROM broker.partitions WHERE topic = 'back'"), "2", "the preferred leader leads")


def topic_of(c, name):
    topic = Replicated.__new__(Replicated)
    topic.c, topic.name, topic.partitions = c, name, 1
    return topic


def unregistered(t, c, tools):
    """A broker that will not come back, forgotten by kafka-cluster unregister."""
    gone = c.add_broker()
    c.sql(f"SELECT broker.create_topic('lonely', assignment => '{{\"0\": [{gone.id}]}}')")
    c.wait_sql("SELECT leader FROM broker.partitions WHERE topic = 'lonely'", [(str(gone.id),)], 20)

    def unregister(broker_id):
        status, out, err = tools.run("kafka-cluster", "unregister", "--bootstrap-server", c.broker(1).address, "--id", str(broker_id))
        return status, out + err

    status, said = unregister(gone.id)
    t.ok(f"broker {gone.id} is alive" in said, "one that is alive is not forgotten") or t.note(said)
    gone.kill()
    c.wait_sql(f"SELECT state FROM broker.brokers WHERE broker_id = {gone.id}", [("dead",)], 20)
    status, said = unregister(gone.id)
    t.ok(f"broker {gone.id} has the last replica of lonely-0" in said, "nor one that has the last replica of a partition") or t.note(said)
    c.sql("SELECT broker.delete_topic('lonely')")
    c.wait_sql("SELECT count(*) FROM broker.partitions WHERE topic = 'lonely'", [("0",)], 10)
    status, said = unregister(gone.id)
    t.ok(status == 0 and f"Broker {gone.id} is no longer registered" in said, "a dead one is") or t.note(said)
    t.equal(c.value(f"SELECT count(*) FROM broker.brokers WHERE broker_id = {gone.id}"), "0", "and PostgreSQL does not list it any more")
    status, said = unregister(gone.id)
    t.ok("is not currently registered" in said, "twice: there is none") or t.note(said)


def drained(t, c):
    c.sql("SELECT broker.drain_broker(2)")
    c.wait_sql("SELECT state FROM broker.operations WHERE kind = 'broker.drain'", [("done",)], 20)
    t.equal(c.value("SELECT leaders FROM broker.brokers WHERE broker_id = 2"), "0", "a drained broker leads nothing")
    c.sql("SELECT broker.undrain_broker(2)")
    c.wait_sql("SELECT count(*) > 0 FROM broker.partitions WHERE leader = 2 AND preferred_leader = 2", [("t",)], 20)
    t.ok(True, "and gets its leaderships back after that")


def decommissioned(t, c):
    c.add_broker()
    c.wait_sql("SELECT count(*) FROM broker.brokers WHERE state = 'alive'", [("4",)], 30)
    c.sql("SELECT broker.decommission_broker(1)")
    c.wait_sql("SELECT state FROM broker.operations WHERE kind = 'broker.decommission'", [("done",)], 60)
    t.equal(c.value("SELECT count(*) FROM broker.brokers WHERE broker_id = 1"), "0", "every replica has moved to others, and the broker is forgotten")
    c.wait_sql("SELECT count(*) FROM broker.partitions WHERE is_under_replicated OR 1 = ANY (replicas)", [("0",)], 30)
    c.broker(1).wait_log("was decommissioned", 20)
    t.ok(True, "and is not let in again with its disk")


def main():
    with Tap() as t, Cluster(brokers=3) as c:
        with t.case("from SQL"):
            from_sql(t, c)
        with t.case("taken back"):
            cancelled(t, c)
        try:
            tools = kafka.ToolBox()
        except kafka.Unavailable as why:
            t.note(f"skipped: Kafka's tools ({why})")
        else:
            with tools:
                with t.case("by Kafka's tools"):
                    by_tools(t, c, tools)
                with t.case("unregistered"):
                    unregistered(t, c, tools)
        with t.case("drained"):
            drained(t, c)
        with t.case("decommissioned"):
            decommissioned(t, c)


if __name__ == "__main__":
    main()
