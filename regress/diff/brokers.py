"""
brokers.py: starts what run.py compares, unless it was told of brokers that run already.

Both get the same configuration as far as it shows in answers: NODE_ID, one data directory, CONFIG.
"""
import os

NODE_ID = 1
CONFIG = {
    "num.partitions": "1",
    "auto.create.topics.enable": "true",
    "group.initial.rebalance.delay.ms": "0",
}


class Started:
    """Addresses as (host, port), the jar with the definitions, or why there is nothing to compare with."""
    kafka = ours = jar = skip = None


def address(text):
    host, _, port = text.rpartition(":")
    return host, int(port)


def start(options, stack):
    started = Started()
    started.jar = options.jar or os.environ.get("KAFKA_CLIENTS_JAR")
    if options.kafka:
        started.kafka = address(options.kafka)
    if options.ours:
        started.ours = address(options.ours)
    return started
