#!/usr/bin/env python3
"""Replicas that are copied no faster than allowed (KIP-73), and what is in sync no slower than ever: by configs as
kafka-reassign-partitions sets them, and from SQL."""
import json
import os
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "regress", "lib"))
import kafka
from pgbroker_cluster import Cluster, wait_for
from replicated import BROKER, TOPIC, Replicated, wait_known
from tap import Tap

MB = 1 << 20
NO_LIMIT = (1 << 63) - 1
FOLLOWER, LEADER = "follower.replication.throttled", "leader.replication.throttled"


def fill(topic, megabytes, partition=0):
    """That many megabytes with acks=all, in batches of 128 KiB, one after the other; seconds."""
    value = os.urandom(128 * 1024)
    begun = time.monotonic()
    with topic.at_leader(partition) as k:
        for _ in range(megabytes * 8):
            k.produce(topic.name, partition, [value], -1)
    return time.monotonic() - begun


def move(c, topic, replicas, partition=0, more=""):
    """Seconds from the wish until the reassignment is done."""
    wanted = "{" + ",".join(str(n) for n in replicas) + "}"
    begun = time.monotonic()
    c.sql(f"SELECT broker.reassign_partitions('{topic}', '{{{partition}}}', '{wanted}'{more})")
    c.wait_sql(f"SELECT replicas, adding FROM broker_internal.partitions JOIN broker_internal.topics USING (topic_id) WHERE topic = '{topic}' "
               f"AND deleted_at IS NULL AND partition = {partition}", [(wanted, "{}")], 120)
    return time.monotonic() - begun


def limited(t, c, side, brokers):
    """A copy of 8 MB at 2 MB/s, limited on one side only."""
    name = f"by-{side}"
    topic = Replicated(c, name, assignment={"0": [1, 2]})
    fill(topic, 8)
    free = move(c, name, [1, 2, 3])
    move(c, name, [1, 2])
    wait_for(lambda: not os.path.exists(os.path.join(c.broker(3).data, f"{name}-0")), 30, "the log of broker 3 is gone")
    for broker in brokers:
        c.sql(f"SELECT broker.alter_broker({broker}, '{{\"{side}.replication.throttled.rate\": {2 * MB}}}')")
        wait_known(c, broker, BROKER, str(broker), f"{side}.replication.throttled.rate", 2 * MB)
    entry = "0:1" if side == "leader" else "0:3"
    c.sql(f"SELECT broker.alter_topic('{name}', '{{\"{side}.replication.throttled.replicas\": \"{entry}\"}}')")
    for broker in (1, 3):
        wait_known(c, broker, TOPIC, name, f"{side}.replication.throttled.replicas", entry)
    slow = move(c, name, [1, 2, 3])
    t.note(f"8 MB: {free:.2f} s without a throttle, {slow:.2f} s at 2 MB/s")
    # the first window's worth goes at once
    t.ok(2.5 < slow < 3.5 + 2 * free + 2, f"8 MB at 2 MB/s of the {side} take about 3 s")
    t.ok(free < 2.5, "and without it they do not")
    topic.wait_equal()
    for broker in brokers:
        c.sql(f"SELECT broker.alter_broker({broker}, '{{\"{side}.replication.throttled.rate\": null}}')")


def in_sync(t, c):
    """What is produced with acks=all to throttled replicas in the ISR, while the rate allows next to nothing."""
    topic = Replicated(c, "hot", 2, assignment={"0": [1, 2], "1": [1, 2]}, config={"min.insync.replicas": 2})
    fill(topic, 4, partition=1)
    free = fill(topic, 4)
    for key in (FOLLOWER, LEADER):
        c.sql(f"SELECT broker.alter_topic('hot', '{{\"{key}.replicas\": \"*\"}}')")
        for broker in (1, 2, 3):
            c.sql(f"SELECT broker.alter_broker({broker}, '{{\"{key}.rate\": {64 << 10}}}')")
            wait_known(c, broker, BROKER, str(broker), f"{key}.rate", 64 << 10)
    for broker in (1, 2, 3):
        wait_known(c, broker, TOPIC, "hot", f"{LEADER}.replicas", "*")
    c.sql("SELECT broker.reassign_partitions('hot', '{1}', '{1,2,3}')")
    c.wait_sql("SELECT adding FROM broker.reassignments WHERE topic = 'hot'", [("{3}",)], 10)
    took = fill(topic, 4)
    t.note(f"4 MB with acks=all: {free:.2f} s without a throttle, {took:.2f} s with one of 64 KiB/s, which would make it 64 s")
    t.ok(took < 3 * free + 3, "replicas in sync are as fast as without a throttle")
    t.equal(c.value("SELECT count(*) FROM broker.reassignments WHERE topic = 'hot'"), "1", "while the copy of another partition waits for its turn")
    for key in (FOLLOWER, LEADER):
        for broker in (1, 2, 3):
            c.sql(f"SELECT broker.alter_broker({broker}, '{{\"{key}.rate\": null}}')")
    c.wait_sql("SELECT count(*) FROM broker.reassignments WHERE topic = 'hot'", [("0",)], 20)
    t.ok(True, "without the throttle it goes on at once")


def from_sql(t, c):
    topic = Replicated(c, "asked", assignment={"0": [1, 2]})
    fill(topic, 8)
    slow = move(c, "asked", [2, 3], more=f", throttle => {2 * MB}")
    t.ok(2.5 < slow < 6, f"reassign_partitions with a throttle of 2 MB/s: 8 MB in {slow:.2f} s")
    for broker in (1, 2, 3):
        wait_known(c, broker, TOPIC, "asked", f"{LEADER}.replicas", "")
        wait_known(c, broker, BROKER, str(broker), f"{LEADER}.rate", NO_LIMIT)
    t.ok(True, "when it is done, so is the throttle")
    fast = move(c, "asked", [1, 2])
    t.ok(fast < 2.5, f"back without one: {fast:.2f} s")
    c.sql("SELECT broker.reassign_partitions('asked', '{0}', '{2,3}', throttle => 1000)")
    wait_known(c, 2, TOPIC, "asked", f"{LEADER}.replicas", "0:1,0:2")
    wait_known(c, 2, BROKER, "2", f"{FOLLOWER}.rate", 1000)
    c.sql("SELECT broker.cancel_reassignment('asked')")
    c.wait_sql("SELECT count(*) FROM broker.reassignments", [("0",)], 10)
    wait_known(c, 2, TOPIC, "asked", f"{LEADER}.replicas", "")
    wait_known(c, 2, BROKER, "2", f"{FOLLOWER}.rate", NO_LIMIT)
    t.ok(True, "nor does anything stay of one that is taken back")


def by_tool(t, c, tools):
    topic = Replicated(c, "tooled", assignment={"0": [1, 2]})
    fill(topic, 8)
    plan = os.path.join(c.folder, "plan.json")
    with open(plan, "w", encoding="ascii") as file:
        json.dump({"version": 1, "partitions": [{"topic": "tooled", "partition": 0, "replicas": [2, 3], "log_dirs": ["any", "any"]}]}, file)

    def tool(*args):
        status, out, err = tools.run("kafka-reassign-partitions", "--bootstrap-server", c.bootstrap, "--reassignment-json-file", plan, *args)
        return status, out + err

    status, said = tool("--execute", "--throttle", str(1 * MB))
    begun = time.monotonic()
    t.ok(status == 0 and "Successfully started partition reassignment for tooled-0" in said and "throttle limit was set" in said, "kafka-reassign-partitions --execute --throttle") or t.note(said)
    t.equal(c.sql("SELECT broker_id, config_key, value FROM broker.settings WHERE config_key LIKE '%throttled.rate' AND source = 'broker' AND value::bigint < 2000000 ORDER BY 1, 2"),
            [(str(n), f"{side}.rate", str(MB)) for n in (1, 2, 3) for side in (FOLLOWER, LEADER)], "sets the rates")
    c.wait_sql("SELECT replicas FROM broker.partitions WHERE topic = 'tooled'", [("{2,3}",)], 60)
    took = time.monotonic() - begun
    # the tool itself takes a moment to end, in which the copy goes on
    t.ok(took > 2, f"8 MB at 1 MB/s are copied {took:.2f} s after it")
    status, said = tool("--verify")
    t.ok(status == 0 and "is completed" in said and "Clearing broker-level throttles" in said, "--verify ends them") or t.note(said)
    t.equal(c.value("SELECT count(*) FROM broker_internal.configs WHERE config_key LIKE '%throttled%' AND object NOT IN "
                    "(SELECT topic_id::text FROM broker_internal.topics WHERE topic LIKE 'by-%' OR topic = 'hot')"), "0", "and nothing of them stays")


def full_answer(t, c):
    """Two topics with one batch each, of which an answer has room for one and a half; nothing more is written."""
    topics = [Replicated(c, name, assignment={"0": [1, 2]}, config={"min.insync.replicas": 1}) for name in ("tight-a", "tight-b")]
    c.broker(2).kill()
    c.wait_sql("SELECT count(*) FROM broker.partitions WHERE isr = '{1}'", [("2",)], 30)
    for topic in topics:
        topic.produce(os.urandom(150 * 1024))
    c.broker(2).start()
    for topic in topics:
        topic.wait_isr({1, 2}, 30)
    t.ok(True, "a batch that does not fit into what is left of an answer is sent all the same")


def main():
    with Tap() as t:
        with Cluster(brokers=2, properties={"replica.fetch.response.max.bytes": 200 * 1024}) as c, t.case("a full answer"):
            full_answer(t, c)
        with Cluster(brokers=3) as c:
            with t.case("limited by the leader"):
                limited(t, c, "leader", [1])
            with t.case("limited by the follower"):
                limited(t, c, "follower", [3])
            with t.case("in sync"):
                in_sync(t, c)
            with t.case("from SQL"):
                from_sql(t, c)
            try:
                tools = kafka.ToolBox()
            except kafka.Unavailable as why:
                t.note(f"skipped: Kafka's tools ({why})")
            else:
                with tools, t.case("by kafka-reassign-partitions"):
                    by_tool(t, c, tools)


if __name__ == "__main__":
    main()
