#!/usr/bin/env python3
"""A PostgreSQL that brokerd cannot work with is refused at start with one sentence that says what to do; one that is
away for longer than any session takes nothing from a broker in office; one whose database is dropped neither."""
import os
import re
import subprocess
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "regress", "lib"))
from kafka_client import Connection
from pgbroker_cluster import CREATE_EXTENSION, Cluster, SqlError, free_port, wait_for, wait_until
from tap import Tap

REQUEST_TIMED_OUT = 7
INIT_WAIT = 10  # seconds: what InitProducerId, which has no timeout of its own, waits for PostgreSQL
SESSION_TIMEOUT = 3


def refused(t, c, name, conninfo, pattern):
    """A broker with an empty directory: ends with code 1 and one FATAL line."""
    listener = f"PLAINTEXT://127.0.0.1:{free_port()}"
    data = os.path.join(c.folder, "refused")
    done = subprocess.run(["timeout", "20", c.brokerd, "--config", c.broker(1).config, "--override", f"listeners={listener}",
                           "--override", f"advertised.listeners={listener}", "--override", f"log.dirs={data}", "--override",
                           "node.id=9", "--override", f"pg_broker.postgres={conninfo}"],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    fatal = [line for line in done.stderr.splitlines() if " FATAL " in line]
    t.ok(done.returncode == 1 and len(fatal) == 1 and re.search(pattern, fatal[0]), f"{name}: one sentence, exit code 1") or \
        t.note(f"exit code {done.returncode}\n{done.stderr}")


def unfit(t, c):
    """A24: versions of the contract are a range, and what does not overlap is said."""
    pg = c.postgres
    for database in ("plain", "old", "new", "sqlascii"):
        encoding = " ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0" if database == "sqlascii" else ""
        pg.rows(f"CREATE DATABASE {database}{encoding}", "postgres")
        if database != "plain":
            pg.rows(CREATE_EXTENSION, database)
    for database, low, high in (("old", 0, 0), ("new", 7, 8)):
        oldest = f"SELECT {low or -1}, {high}, '0.9'::text"
        pg.rows("CREATE OR REPLACE FUNCTION broker_internal.contract(OUT oldest int, OUT newest int, OUT extension_version text) "
                f"STABLE LANGUAGE sql AS $$ {oldest} $$", database)
    pg.rows("CREATE ROLE stranger LOGIN")
    refused(t, c, "no extension", pg.conninfo("brokerd", "plain"), r"no extension pg_broker: run CREATE EXTENSION pg_broker")
    refused(t, c, "an extension that is too old", pg.conninfo("brokerd", "old"),
            r"too old for this brokerd.*ALTER EXTENSION pg_broker UPDATE")
    refused(t, c, "one that is too new", pg.conninfo("brokerd", "new"), r"this brokerd is too old.*upgrade brokerd")
    refused(t, c, "a role without rights", pg.conninfo("stranger"), r'"stranger".*run GRANT broker_daemon TO "stranger"')
    refused(t, c, "a database that is not UTF8", pg.conninfo("brokerd", "sqlascii"), r"encoded in SQL_ASCII.*ENCODING UTF8")


def office(c):
    """What must not change by PostgreSQL's absence: our epoch, and each partition's leader and its epoch."""
    return (c.sql("SELECT broker_id, state, broker_epoch FROM broker.brokers"),
            c.sql("SELECT topic, partition, leader, leader_epoch FROM broker.partitions ORDER BY 1, 2"))


def init_producer_id(k):
    began = time.monotonic()
    answer = k.call("InitProducerId", 3, {"transactional_id": None, "transaction_timeout_ms": 60000, "producer_id": -1,
                                          "producer_epoch": -1})
    return answer["error_code"], answer["producer_id"], time.monotonic() - began


def long_absence(t, c):
    """Frozen for longer than the broker's session lasts, while produce and fetch go on."""
    before = office(c)
    with Connection(c.bootstrap, timeout=60) as waiting, Connection(c.bootstrap) as k:
        c.postgres.freeze()
        answer = []
        thread = threading.Thread(target=lambda: answer.append(init_producer_id(waiting)))
        began = time.monotonic()
        thread.start()
        offset, slowest = 0, 0.0
        while thread.is_alive():
            round_began = time.monotonic()
            offset = k.produce("t", 0, [b"%d" % offset])
            assert k.fetch("t", 0, offset) == [(offset, b"%d" % offset)]
            offset += 1
            slowest = max(slowest, time.monotonic() - round_began)
        thread.join()
        t.ok(time.monotonic() - began > SESSION_TIMEOUT, "PostgreSQL hangs for longer than a session")
        code, _, took = answer[0]
        t.equal(code, REQUEST_TIMED_OUT, "InitProducerId waits, then gets an error that is tried again")
        t.ok(INIT_WAIT - 1 < took < INIT_WAIT + 5, "within a client's patience") or t.note(f"{took:.1f} s")
        t.ok(slowest < 2.0, "produce and fetch do not notice")
        t.note(f"{offset} messages meanwhile, the slowest round trip {1000 * slowest:.0f} ms")
        c.postgres.thaw()
        wait_for(lambda: init_producer_id(k)[0] == 0, 30, "producer ids once it is back")
        # Its heartbeat session may come back a moment after the one that gives producer ids.
        wait_until(lambda: office(c) == before, 10)
        t.equal(office(c), before, "the broker has kept its epoch, its leaderships and their epochs")
        first = init_producer_id(k)[1]
        c.postgres.stop()
        t.equal(init_producer_id(k)[:2], (0, first + 1), "ids of the block in hand are given without PostgreSQL")
        c.postgres.start()
        wait_for(lambda: office(c) == before, 20, "the same leaderships after a restart of PostgreSQL")


def dropped_underneath(t, c):
    with Connection(c.bootstrap) as k:
        said = len(c.broker(1).log_text())
        end = k.produce("t", 0, [b"before"])
        try:
            c.sql("DROP EXTENSION pg_broker CASCADE")
            t.ok(False, "the extension is not dropped under a broker")
        except SqlError as error:
            t.ok("brokers are registered" in str(error), "the extension is not dropped under a broker") or t.note(error)
        c.postgres.rows("DROP DATABASE broker WITH (FORCE)", "postgres")
        c.broker(1).wait_log(r'database "broker" does not exist', 15, said)
        t.equal([k.produce("t", 0, [b"%d" % i]) for i in range(5)], [end + 1 + i for i in range(5)],
                "produce goes on when the whole database is dropped underneath")
        t.equal(len(k.fetch("t", 0, end)), 6, "and so does fetch")
        t.ok(c.broker(1).pid(), "the process lives")
    c.broker(1).kill()
    folder = os.path.join(c.broker(1).data, "t-0")
    t.ok(os.path.getsize(os.path.join(folder, "0" * 20 + ".log")) > 0, "and the messages are still in their files")


def main():
    with Tap() as t, Cluster(brokers=1, properties={"broker.session.timeout.ms": SESSION_TIMEOUT * 1000,
                                                    "broker.heartbeat.interval.ms": 500}) as c:
        c.sql("SELECT broker.create_topic('t'); SELECT broker.create_topic('many', partitions => 10)")
        with Connection(c.bootstrap) as k:
            wait_for(lambda: k.leader("t") == k.leader("many", 9) == 1, 10, "leaders")
        for case in (unfit, long_absence, dropped_underneath):
            with t.case(case.__name__.replace("_", " ")):
                case(t, c)
        t.note(c.logs(30) if t.failed else "")


if __name__ == "__main__":
    main()
