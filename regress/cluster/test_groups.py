#!/usr/bin/env python3
"""Groups outlive their coordinator: its restart, its crash, its replacement, and PostgreSQL that is away."""
import os
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "regress", "lib"))
from kafka_client import Connection
from pgbroker_cluster import Cluster, wait_for
from tap import Tap

LOADING, NOT_AVAILABLE, NOT_COORDINATOR, UNKNOWN_MEMBER, REBALANCING = 14, 15, 16, 25, 27
RETRIABLE = (LOADING, NOT_AVAILABLE, NOT_COORDINATOR)
# "consumer" subscription to topic t, and assignment of its partition 0
SUBSCRIPTION = b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"
ASSIGNMENT = b"\0\0\0\0\0\1\0\1t\0\0\0\1\0\0\0\0\xff\xff\xff\xff"


class Member:
    """One member of a group, at whoever coordinates it."""

    def __init__(self, cluster, group):
        self.cluster, self.group, self.id, self.generation, self.connection = cluster, group, "", -1, None

    def coordinator(self, timeout=15):
        def found():
            for broker in self.cluster.brokers.values():
                try:
                    with Connection(broker.address, timeout=2) as k:
                        answer = k.call("FindCoordinator", 3, {"key": self.group, "key_type": 0})
                        if answer["error_code"] == 0:
                            return f"{answer['host']}:{answer['port']}"
                except OSError:
                    pass
            return None
        address = []
        wait_for(lambda: address.append(found()) or address[-1] is not None, timeout, f"a coordinator of {self.group}")
        return address[-1]

    def call(self, name, version, values):
        """Asks again where a client would."""
        end = time.monotonic() + 30
        while True:
            try:
                if self.connection is None:
                    self.connection = Connection(self.coordinator())
                answer = self.connection.call(name, version, dict(values, group_id=self.group))
                codes = [answer["error_code"]] if "error_code" in answer else [p["error_code"] for t in answer["topics"] for p in t["partitions"]]
                if not any(code in RETRIABLE for code in codes):
                    return answer
            except OSError:
                pass
            self.close()
            assert time.monotonic() < end, f"{name} was not answered"
            time.sleep(0.1)

    def close(self):
        if self.connection:
            self.connection.socket.close()
        self.connection = None

    def join_request(self, **more):
        return dict({"session_timeout_ms": 60000, "rebalance_timeout_ms": 10000, "member_id": self.id, "group_instance_id": None,
                     "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": SUBSCRIPTION}]}, **more)

    def join(self):
        while True:
            answer = self.call("JoinGroup", 5, self.join_request())
            self.id = answer["member_id"]
            if answer["error_code"] != 79:
                break
        assert answer["error_code"] == 0, answer
        self.generation = answer["generation_id"]
        return answer

    def sync(self, members):
        answer = self.call("SyncGroup", 3, {"generation_id": self.generation, "member_id": self.id, "group_instance_id": None,
                                            "assignments": [{"member_id": m, "assignment": ASSIGNMENT} for m in members]})
        assert answer["error_code"] == 0, answer
        return answer["assignment"]

    def beat(self):
        return self.call("Heartbeat", 3, {"generation_id": self.generation, "member_id": self.id, "group_instance_id": None})["error_code"]

    def commit(self, offset):
        answer = self.call("OffsetCommit", 7, {"generation_id_or_member_epoch": self.generation, "member_id": self.id, "group_instance_id": None, "topics": [
            {"name": "t", "partitions": [{"partition_index": 0, "committed_offset": offset, "committed_leader_epoch": -1, "committed_metadata": "m"}]}]})
        return answer["topics"][0]["partitions"][0]["error_code"]

    def committed(self):
        answer = self.call("OffsetFetch", 5, {"topics": [{"name": "t", "partition_indexes": [0]}]})
        return answer["topics"][0]["partitions"][0]["committed_offset"]


def member(c, group):
    m = Member(c, group)
    m.join()
    m.sync([m.id])
    return m


def stored(c, group):
    return c.value(f"SELECT generation || ' ' || state FROM broker.groups WHERE group_id = '{group}'")


def group_of(c, broker_id, prefix):
    """A group id whose slot this broker holds."""
    return c.value(f"SELECT '{prefix}' || i FROM generate_series(1, 1000) i JOIN broker_internal.slots s ON s.slot = broker_internal.slot_of('{prefix}' || i) "
                   f"WHERE s.coordinator = {broker_id} LIMIT 1")


def restarts(t, c):
    group = group_of(c, 1, "restart")
    m = member(c, group)
    t.equal(m.commit(10), 0, "a member commits")
    c.broker(1).kill()
    c.broker(1).start()
    t.equal(m.beat(), 0, "after a crash of the coordinator it goes on in its generation")
    t.equal(m.sync([]), ASSIGNMENT, "with its assignment")
    t.equal(m.commit(11), 0, "and commits")
    c.broker(1).stop()
    c.broker(1).start()
    t.equal((m.beat(), m.commit(12), m.committed()), (0, 0, 12), "after a stop too")
    t.equal(stored(c, group), "1 stable", "no rebalance")


def replaced(t, c):
    group = group_of(c, 2, "move")
    m = member(c, group)
    t.equal(m.commit(20), 0, "a member commits at broker 2")
    c.broker(2).kill()
    t.equal((m.beat(), m.committed(), m.commit(21)), (0, 20, 0), "broker 2 dies: another one goes on in the same generation")
    t.equal(c.value(f"SELECT coordinator FROM broker.groups WHERE group_id = '{group}'"), "1", "broker 1 coordinates")
    c.broker(2).start()
    c.wait_sql("SELECT count(DISTINCT coordinator) FROM broker_internal.slots", [("2",)])
    t.equal((m.beat(), m.committed(), stored(c, group)), (0, 21, "1 stable"), "broker 2 is back, and nothing moved in the group")


def away(t, c):
    group = group_of(c, 1, "away")
    m = member(c, group)
    other = Member(c, group)
    k = Connection(c.broker(1).address, timeout=20)
    t.equal(m.commit(30), 0, "a member commits")
    c.postgres.stop()
    wait_for(lambda: "PostgreSQL is away" in c.broker(1).log_text(), 15, "the broker notices")
    other.id = k.call("JoinGroup", 5, dict(other.join_request(), group_id=group))["member_id"]
    began = time.monotonic()
    answer = k.call("JoinGroup", 5, dict(other.join_request(), group_id=group))
    t.equal(answer["error_code"], LOADING, "who would start a rebalance is put off")
    t.ok(time.monotonic() - began > 0.5, "after a pause")
    t.equal(m.beat(), 0, "the member is not stopped")
    k.send("OffsetCommit", 7, {"group_id": group, "generation_id_or_member_epoch": m.generation, "member_id": m.id, "group_instance_id": None, "topics": [
        {"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 31, "committed_leader_epoch": -1, "committed_metadata": None}]}]})
    time.sleep(0.5)
    c.postgres.start()
    t.equal(k.receive()["topics"][0]["partitions"][0]["error_code"], 0, "a commit waits for PostgreSQL")
    t.equal((m.beat(), m.committed(), stored(c, group)), (0, 31, "1 stable"), "and is there, in the same generation")
    k.socket.close()


def idle(t, c):
    """Each version of a row has its own place and transaction; those of this group stay what they are."""
    group = group_of(c, 1, "idle")
    m = member(c, group)
    rows = " UNION ALL ".join(f"SELECT '{table}', r.ctid::text, r.xmin::text FROM broker_internal.{table} r JOIN broker_internal.groups g USING (group_no) WHERE g.group_id = '{group}'"
                              for table in ("groups", "group_members", "offsets", "rebalances")) + " ORDER BY 1, 2"
    c.wait_sql(f"SELECT state FROM broker.groups WHERE group_id = '{group}'", [("stable",)])
    before = c.sql(rows)
    t.ok(len(before) >= 3, "a group with a member and a history")
    for _ in range(300):
        assert m.beat() == 0
    t.equal(c.sql(rows), before, "three hundred heartbeats write nothing")


def vanished(t, c):
    group = group_of(c, 1, "vanish")
    m = member(c, group)
    gone = Member(c, group)
    k = Connection(c.broker(1).address)
    gone.id = k.call("JoinGroup", 5, dict(gone.join_request(), group_id=group))["member_id"]
    k.send("JoinGroup", 5, dict(gone.join_request(session_timeout_ms=6000), group_id=group))
    wait_for(lambda: m.beat() == REBALANCING, 10, "the newcomer starts a rebalance")
    k.socket.close()
    answer = m.join()
    t.equal(len(answer["members"]), 2, "a client that vanished while parked is a member for a while")
    m.sync([m.id])
    wait_for(lambda: m.beat() == REBALANCING, 15, "its session ends")
    t.equal(len(m.join()["members"]), 1, "then it is not")
    m.sync([m.id])
    t.equal(c.value(f"SELECT string_agg(reason, '; ' ORDER BY generation) FROM broker.rebalances WHERE group_id = '{group}'"),
            "member joined; member joined; member left: session timed out after 6 s", "and people are told why")


def configs(t, c):
    """Limits of groups count for the next member, without a restart.  One that is not refused is told to bring an id (79)."""
    group = group_of(c, 1, "config")
    m = member(c, group)
    second = Member(c, group)

    def refused(**more):
        with Connection(c.broker(1).address) as k:
            return k.call("JoinGroup", 5, dict(second.join_request(**more), group_id=group))["error_code"]

    t.equal(refused(session_timeout_ms=5000), 26, "a session timeout below the minimum")
    c.sql("SELECT broker.alter_cluster('{\"group.min.session.timeout.ms\": 20000, \"group.max.size\": 1}')")
    wait_for(lambda: refused(session_timeout_ms=10000) == 26, 10, "a higher minimum")
    wait_for(lambda: refused(session_timeout_ms=20000) == 81, 10, "a group that is full")
    t.equal(m.beat(), 0, "who is in the group stays")
    c.sql("SELECT broker.alter_cluster('{\"group.min.session.timeout.ms\": null, \"group.max.size\": null}')")
    wait_for(lambda: refused(session_timeout_ms=5000) == 26 and refused(session_timeout_ms=6000, protocol_type="other") == 23, 10, "the old limits")


def long_ids(t, c):
    """As long as Kafka takes them; random, so that PostgreSQL cannot make them short by compression."""
    first = os.urandom(16384).hex()[:32767]
    second = first[:-1] + "x"
    members = [member(c, first), member(c, second)]
    t.equal([m.commit(41 + i) for i, m in enumerate(members)], [0, 0], "two groups whose ids of 32,767 bytes differ at their end")
    t.equal([m.committed() for m in members], [41, 42], "each has its own offset")
    t.equal(c.sql("SELECT right(group_id, 1), length(group_id), committed_offset FROM broker.group_offsets WHERE length(group_id) > 1024 ORDER BY 3"),
            [(first[-1], "32767", "41"), ("x", "32767", "42")], "in SQL too")
    for broker in (1, 2):
        c.broker(broker).restart()
    t.equal([m.beat() for m in members], [0, 0], "new coordinators go on with them")
    c.sql(f"SELECT broker.reset_offsets('{second}', 't', to_offset => 0, fence => true); CALL broker.wait()")
    members[1].close()
    t.equal([m.committed() for m in members], [41, 0], "one is reset, the other is not")
    c.sql(f"SELECT broker.delete_group('{first}', force => true); CALL broker.wait()")
    t.equal(c.value("SELECT count(*) FROM broker.groups WHERE length(group_id) > 1024"), "1", "and deleted")
    for m in members:
        m.close()


def together(t, c):
    """With a delay of 0, too, members that a program starts at once are in one generation."""
    first, second = Member(c, "together"), Member(c, "together")
    address = first.coordinator()
    with Connection(address) as one, Connection(address) as two:
        for k, m in ((one, first), (two, second)):  # version 3 asks nobody for a member id first
            k.send("JoinGroup", 3, dict(m.join_request(), group_id="together"))
        answers = [k.receive() for k in (one, two)]
    t.equal([a["generation_id"] for a in answers], [1, 1], "two that join together are in the first generation, both")
    t.equal(sorted(len(a["members"]) for a in answers), [0, 2], "and its leader sees both")


def main():
    with Tap() as t, Cluster(brokers=2, properties={"group.initial.rebalance.delay.ms": 0}) as c:
        c.sql("SELECT broker.create_topic('t', assignment => '{\"0\": [1]}')")
        c.wait_sql("SELECT count(DISTINCT coordinator) FROM broker_internal.slots", [("2",)])
        with Connection(c.broker(1).address) as k:
            wait_for(lambda: k.leader("t") == 1, 10, "a leader of t")
        for case in (together, restarts, replaced, away, idle, vanished, configs, long_ids):
            with t.case(case.__name__.replace("_", " ")):
                case(t, c)
        t.note(c.logs(15) if t.failed else "")


if __name__ == "__main__":
    main()
