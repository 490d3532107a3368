"""
brokers.py: starts what run.py compares, unless it was told of brokers that run already.

Both have broker id 1, one data directory, and where their defaults differ CONFIG or its like.
"""
import glob
import os
import shutil
import tempfile
import threading

import kafka

CONFIG = {
    "num.partitions": "1",                      # said, so that both call it static
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",      # cases that let members die must not take long
    "group.max.size": "5",
    "connections.max.idle.ms": "30000",         # what is idle from the first case on is closed in the last
}


class Started:
    """Addresses as (host, port), the jar with the definitions; or why there is nothing to compare with."""
    kafka = ours = jar = skip = None


def address(text):
    host, _, port = text.rpartition(":")
    return host, int(port)


def start_kafka(stack):
    """One KRaft node with its data in a temporary folder; its address."""
    folder = tempfile.mkdtemp(prefix="diff-kafka-")
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    server = kafka.Server(folder, config=CONFIG)
    stack.enter_context(server)
    return address(server.bootstrap)


def start_ours(stack):
    from pgbroker_cluster import Cluster
    cluster = stack.enter_context(Cluster(brokers=1, properties=CONFIG))
    return address(cluster.bootstrap)


def start(options, stack):
    started = Started()
    try:
        started.jar = options.jar or glob.glob(os.path.join(kafka.home(), "jars", "kafka-clients-*.jar"))[0]
    except kafka.Unavailable as error:
        started.skip = str(error)
        return started
    wanted = {
        "kafka": lambda: address(options.kafka) if options.kafka else start_kafka(stack),
        "ours": lambda: address(options.ours) if options.ours else
        start_kafka(stack) if options.itself else start_ours(stack),
    }
    failures = []

    def attempt(name, how):
        try:
            setattr(started, name, how())
        except Exception as error:      # whatever it was, the other one must be stopped
            failures.append(f"{name}: {error}")
    threads = [threading.Thread(target=attempt, args=item) for item in wanted.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise SystemExit("Bail out! " + "; ".join(failures))
    return started
