#!/usr/bin/env python3
"""How long PostgreSQL takes for the control plane of a large cluster: times, not a test.

    BUILD=build bench/elections.py [--brokers 100] [--partitions 100000] [--replicas 3]

Makes the partitions of a cluster of that size in a private PostgreSQL (fsync on), then measures: one broker dead,
three brokers dead at once, an ISR change of 1,000 partitions in one call, what a broker reads after that, the
whole metadata in pages, drains, plans and reassignments, a heartbeat, an idle tick. Each line: what, milliseconds, of
them milliseconds of CPU in PostgreSQL (other work on the machine does not count), rows.
"""
import argparse
import os
import statistics
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(ROOT, "regress", "lib"), os.path.join(ROOT, "regress", "sql")]

from pgbroker_cluster import Cluster  # noqa: E402
from session import Session  # noqa: E402


class Spent(float):
    """Milliseconds, with those of CPU in them."""
    cpu = 0.0


def cpu_of(session):
    with open(f"/proc/{session.pid}/schedstat", encoding="ascii") as file:
        return int(file.read().split()[0]) / 1e6


def timed(session, sql):
    began, cpu = time.monotonic(), cpu_of(session)
    answer = session(sql)
    spent = Spent((time.monotonic() - began) * 1000)
    spent.cpu = cpu_of(session) - cpu
    return spent, answer


def say(what, milliseconds, rows=""):
    print(f"{what:<58} {milliseconds:9.1f} ms  {getattr(milliseconds, 'cpu', milliseconds):8.1f} CPU  {rows}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--brokers", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=100000)
    parser.add_argument("--replicas", type=int, default=3)
    args = parser.parse_args()
    with Cluster(brokers=0) as cluster:
        os.environ.update(PGHOST=cluster.postgres.socket, PGPORT=str(cluster.postgres.port), PGUSER="postgres", PGDATABASE="broker",
                          PGOPTIONS="-c client_min_messages=error -c jit=off")
        sql = Session()
        sql("SET statement_timeout = 0")
        with open(os.path.join(ROOT, "regress", "sql", "fixture.sql"), encoding="utf-8") as fixture:
            sql(fixture.read())
        sql("INSERT INTO broker_internal.configs VALUES ('cluster', '', 'broker.session.timeout.ms', '3600000', now(), 'bench')")
        milliseconds, _ = timed(sql, f"SELECT count(fx.register(n)) FROM generate_series(1, {args.brokers}) n")
        say("brokers registered", milliseconds, args.brokers)
        topics = max(1, args.partitions // 100)
        each = args.partitions // topics
        wishes = (f"SELECT count(*) FILTER (WHERE error_code <> 0) FROM broker_internal.create_topics_1('bench', NULL, (SELECT jsonb_agg(jsonb_build_object('name', 'topic' || n, "
                  f"'partitions', {each}, 'replication_factor', {args.replicas})) FROM generate_series(1, {topics}) n), false)")
        milliseconds, answer = timed(sql, wishes)
        assert answer == "0", answer
        say(f"topics created, {each} partitions each", milliseconds, topics)
        sql("VACUUM ANALYZE")

        def kill(ids):
            sql(f"UPDATE broker_internal.brokers SET backend_pid = NULL WHERE broker_id = ANY ('{ids}')")
            before = int(sql("SELECT version FROM broker_internal.cluster"))
            spent, _ = timed(sql, f"SELECT fx.tick(1, '{ids}')")
            rows = sql(f"SELECT count(*) FROM broker_internal.partitions WHERE version > {before}")
            return spent, rows, before

        say("one broker dead: out of every ISR, its partitions elected", *kill("{2}")[:2])
        spent, rows, before = kill("{3,4,5}")
        say("three brokers dead at once", spent, rows)
        spent, rows = timed(sql, f"SELECT count(*) FROM broker_internal.topics_1({before}, NULL, 1000000)")
        say("what a broker reads after that (topics)", spent, rows)
        pages, last, total = [], "NULL", 0
        while True:
            spent, answer = timed(sql, f"SELECT count(*), max(topic_id::text), sum(length(partitions)) FROM broker_internal.topics_1(0, {last}, 2000)")
            count, last, size = answer.split("|")
            if count == "0":
                break
            pages.append(spent)
            total += int(size)
            last = f"'{last}'"
        say(f"all metadata, {len(pages)} pages of 2,000 partitions", sum(pages), f"{total} bytes; a page {statistics.median(pages):.1f} ms")
        isr = ("SELECT count(*) FILTER (WHERE landed) FROM (SELECT array_agg(topic_id) t, array_agg(partition) p, array_agg(leader_epoch) le, array_agg(partition_epoch) pe, "
               "jsonb_agg(jsonb_build_array(jsonb_build_object('id', 1, 'epoch', -1))) i FROM (SELECT * FROM broker_internal.partitions WHERE leader = 1 LIMIT 1000) x) y, "
               "broker_internal.alter_isr_1(1, fx.epoch(1), y.t, y.p, y.le, y.pe, y.i)")
        say("ISR changes in one call", *timed(sql, isr))
        sql("SET search_path = public, pg_catalog, broker_internal")
        say("one broker drained: its leaderships", *timed(sql, "SELECT count(*) FROM broker_internal.move_leaders('drain', '{6}', NULL, NULL, 900000, 0, 1, 'bench')"))
        say("looking for preferred leaders, and moving them", *timed(sql, "SELECT count(*) FROM broker_internal.move_leaders('preferred', NULL, NULL, NULL, 900001, 0, 1, 'bench')"))
        if args.brokers <= args.replicas:
            return
        say("a plan for the replicas of one broker", *timed(sql, f"SELECT count(*) FROM broker.decommission_broker({args.brokers}, dry_run => true)"))
        say("an even plan over all partitions and brokers", *timed(sql, "SELECT count(*) FROM broker.reassign_partitions(dry_run => true)"))
        sql(f"SELECT count(*) FROM broker.decommission_broker({args.brokers})")
        say("decommission: the first 500 partitions begin to move", *timed(sql, "SELECT fx.tick()"))
        sql("UPDATE broker_internal.partitions SET isr = isr || adding WHERE origin IS NOT NULL AND NOT adding <@ isr")
        say("and end, and the next 500 begin", *timed(sql, "SELECT fx.tick()"))
        for what, call in (("heartbeat", "SELECT * FROM broker_internal.heartbeat_1(1, fx.epoch(1))"), ("idle tick", "SELECT fx.tick()"),
                           ("SELECT * FROM broker.cluster", "SELECT * FROM broker.cluster"), ("SELECT count(*) FROM broker.problems", "SELECT count(*) FROM broker.problems"),
                           ("one topic of broker.topics", "SELECT * FROM broker.topics WHERE topic = 'topic1'"), ("one topic of broker.partitions", "SELECT count(*) FROM broker.partitions WHERE topic = 'topic1'"),
                           ("one config of broker.topic_configs", "SELECT * FROM broker.topic_configs WHERE topic = 'topic1' AND config_key = 'retention.ms'")):
            say(what, statistics.median(timed(sql, call)[0] for _ in range(15)))
        hot = sql("SELECT pg_stat_force_next_flush()", ) or sql("SELECT n_tup_hot_upd || ' of ' || n_tup_upd FROM pg_stat_user_tables WHERE relid = 'broker_internal.partitions'::regclass")
        print(f"HOT updates of partitions: {hot}")


if __name__ == "__main__":
    main()
