#!/usr/bin/env python3
"""Replication while PostgreSQL is away, and after it went back in time: what was acknowledged stays."""
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "regress", "lib"), os.path.join(ROOT, "regress", "chaos")]
from kafka_client import batches
from pgbroker_cluster import Cluster, wait_for
from replicated import Replicated, high_watermark
from tap import Tap
import local_pg  # after pgbroker_cluster, which shows the way to what it needs

TIMED_OUT = 7
MIN_2 = {"min.insync.replicas": 2}


def away(t, c):
    """A11, A19: without PostgreSQL acks=all goes on as long as the ISR is there, and no longer."""
    topic = Replicated(c, "away", config=MIN_2)
    topic.produce(b"0")
    leader, follower = topic.leader(), topic.followers()[0]
    with topic.at_leader() as k:
        c.postgres.kill()
        offsets = [k.produce("away", 0, [b"%d" % i]) for i in range(1, 21)]
        t.equal(offsets, list(range(1, 21)), "PostgreSQL is gone: acks=all goes on")
        t.equal(high_watermark(k, "away"), 21, "and so does the high watermark")
        c.broker(follower).kill()
        answer = k.call("Produce", 9, k.produce_request("away", 0, batch(b"21"), timeout_ms=1500))
        t.equal(answer["responses"][0]["partition_responses"][0]["error_code"], TIMED_OUT, "a member of the ISR dies too: acks=all waits")
        t.equal(high_watermark(k, "away"), 21, "since nobody can take it out")
        c.postgres.start()
    topic.wait_isr({1, 2, 3} - {follower}, 30)
    wait_for(lambda: topic.high_watermark() == 22, 20, "the record that waited")
    t.ok(True, "PostgreSQL is back: it leaves the ISR, and what waited is there")
    t.equal(topic.leader(), leader, "under the same leader")
    c.broker(follower).start()
    topic.wait_isr({1, 2, 3}, 30)
    topic.wait_equal()
    t.equal(topic.values(), [b"%d" % i for i in range(22)], "each once, in order")


def batch(value):
    return batches.batch([batches.record(None, value)])


def frozen(t, c):
    """A21: a PostgreSQL that hangs with its connections open is as good as one that is gone."""
    topic = Replicated(c, "frozen", config=MIN_2)
    with topic.at_leader() as k:
        try:
            c.postgres.freeze()
            offsets = [k.produce("frozen", 0, [b"%d" % i]) for i in range(20)]
        finally:
            c.postgres.thaw()
    t.equal(offsets, list(range(20)), "PostgreSQL hangs: acks=all goes on")
    c.wait_sql("SELECT count(*) FROM broker.brokers WHERE state = 'alive'", [("3",)], 20)
    topic.wait_isr({1, 2, 3})


def epoch_of(c, name):
    return int(c.value(f"SELECT leader_epoch FROM broker.partitions WHERE topic = '{name}'"))


def lost_election(t, c):
    """A1: the primary elects another leader, which acknowledges, and dies; the standby never heard of it and has the old
    one in office, whose log lacks the record."""
    topic = Replicated(c, "election", config=MIN_2)
    topic.produce(b"before")
    old = topic.leader()
    local_pg.stop_following(c)
    c.broker(old).kill()
    wait_for(lambda: topic.leader() not in (old, None), 20, "another leader")
    topic.wait_led()
    new, epoch = topic.leader(), epoch_of(c, "election")
    topic.produce(b"acknowledged by the new one")
    gone = local_pg.fail_over(c)
    said = (epoch_of(c, "election"), topic.leader())
    c.broker(old).start()
    topic.wait_isr({1, 2, 3}, 40)
    topic.produce(b"after", patience=30)
    # The old one in office still, or, when a broker was quick to register, nobody until all have said what they know.
    t.ok(said[1] in (old, None), f"the promoted standby knew nothing of the election of broker {new}") or t.note(said)
    t.equal(topic.values(), [b"before", b"acknowledged by the new one", b"after"], "the record acknowledged in between is there")
    t.ok(epoch_of(c, "election") >= epoch, "and no leader epoch is given twice")
    topic.wait_equal(30)
    local_pg.follow_again(c, gone)


def lost_shrink(t, c):
    """A1, the same with an ISR: the primary has taken out who then comes back alone."""
    topic = Replicated(c, "shrink", config=MIN_2)
    topic.produce(b"before")
    leader, (out, other) = topic.leader(), topic.followers()
    local_pg.stop_following(c)
    c.broker(out).kill()
    topic.wait_isr({leader, other})
    topic.produce(b"acknowledged by two")
    for broker in (leader, other):
        c.broker(broker).kill()
    gone = local_pg.fail_over(c)
    t.ok(out in topic.isr(), "the promoted standby has in the ISR who lacks a record")
    c.broker(out).start()
    t.ok(never_leads(c, out, "shrink"), "it is not elected: the others have not said what they know")
    c.start_brokers(60)
    topic.wait_isr({1, 2, 3}, 40)
    topic.wait_led()
    t.equal(topic.values(), [b"before", b"acknowledged by two"], "and when they have, the record is there")
    topic.wait_equal(30)
    local_pg.follow_again(c, gone)


def never_leads(c, broker, topic, looks=12):
    """Over three seconds, in which the control plane would decide a dozen times."""
    leader = f"SELECT coalesce(leader, -1), pg_sleep(0.25) FROM broker.partitions WHERE topic = '{topic}'"
    return str(broker) not in {c.value(leader) for _ in range(looks)}


def main(names):
    with Tap() as t, Cluster(brokers=3, start=False, pg_settings={"wal_level": "replica"}, properties={
            "broker.session.timeout.ms": 3000, "replica.lag.time.max.ms": 2000}) as c:
        c.network = c.standby = None
        c.standby = local_pg.make_standby(c)
        c.broker_conninfo = local_pg.conninfo(c)
        c.start_brokers()
        for case in (away, frozen, lost_election, lost_shrink):
            if names and case.__name__ not in names:
                continue
            with t.case(case.__name__.replace("_", " ")):
                case(t, c)
            c.start_brokers(60)
        t.note(c.logs(60) if t.failed else "")


if __name__ == "__main__":
    main(sys.argv[1:])
