"""The two brokers that the client is tested against: brokerd, and Apache Kafka where it can be had."""
import contextlib
import os
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "lib"), os.path.join(os.path.dirname(HERE), "clients", "lib")]
import kafka
from pgbroker_cluster import Cluster


@contextlib.contextmanager
def each_broker(t):
    """Yields (name, bootstrap) one after the other's start; Apache Kafka is a named skip where there is none.

    BOOTSTRAP=host:port is that broker instead of both.
    """
    if os.environ.get("BOOTSTRAP"):
        yield [("broker", os.environ["BOOTSTRAP"])]
        return
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(Cluster(brokers=1))
        brokers = [("brokerd", cluster.bootstrap)]
        try:
            server = stack.enter_context(kafka.Server(stack.enter_context(tempfile.TemporaryDirectory())))
            brokers.append(("Apache Kafka", server.bootstrap))
        except kafka.Unavailable as e:
            t.skip("the same against Apache Kafka", str(e))
        yield brokers
        if t.failed:
            t.note(cluster.logs())


def until(condition, seconds=20, what="the condition"):
    """Calls until it is true; AssertionError when that takes too long.  What it gives is the result."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"


def read(consumer, count, seconds=20):
    """At least `count` records."""
    found = []

    def more():
        found.extend(consumer.poll(200))
        return len(found) >= count
    until(more, seconds, f"{count} records")
    return found
