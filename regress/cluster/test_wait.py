#!/usr/bin/env python3
"""CALL broker.wait() returns when the brokers act on what the session asked for, not before."""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir, "lib"))

from kafka_client import Connection
from pgbroker_cluster import Cluster
from tap import Tap

ROUNDS = 20


def psql(cluster, *commands):
    """All in one session, each a transaction of its own."""
    arguments = [argument for command in commands for argument in ("-c", command)]
    subprocess.run([*cluster.psql_command, "-q", "-At", "-v", "ON_ERROR_STOP=1", *arguments], check=True, capture_output=True)


def known_topics(connection):
    return {topic["name"] for topic in connection.call("Metadata", 9, {"topics": None})["topics"]}


def main():
    with Tap() as t, Cluster() as cluster, Connection(cluster.bootstrap) as connection:
        late = []
        for i in range(ROUNDS):
            psql(cluster, f"SELECT broker.create_topic('t{i}')", "CALL broker.wait('20 s')")
            if f"t{i}" not in known_topics(connection):
                late.append(i)
        t.equal(late, [], f"after each of {ROUNDS} waits the broker knows the topic")
        psql(cluster, "SELECT broker.delete_topic('t0')", "CALL broker.wait('20 s')")
        t.ok("t0" not in known_topics(connection), "and that a topic is gone")
        psql(cluster, "CALL broker.wait('1 s')")
        t.ok(True, "with nothing asked for it returns at once")


if __name__ == "__main__":
    main()
