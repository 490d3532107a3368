#!/usr/bin/env python3
"""bench/load and bench/replay against a broker: what they count is what happened, and waiting counts."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "regress", "lib"))

from kafka_client import Connection
from pgbroker_cluster import Cluster, free_port
from tap import Tap

BUILD = os.path.abspath(os.environ.get("BUILD") or os.path.join(ROOT, "build"))


def program(name, *words):
    return [os.path.join(BUILD, "bench", name), *map(str, words)]


def start(name, *words):
    return subprocess.Popen(program(name, *words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(name, *words, code=0):
    """The JSON object; or, when another exit code than 0 is expected, what it complained about."""
    done = subprocess.run(program(name, *words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    assert done.returncode == code, f"{name} {words}: exit code {done.returncode}: {done.stderr}"
    return json.loads(done.stdout) if code == 0 else done.stderr


class Tools:
    def __init__(self, cluster, folder):
        self.cluster = cluster
        self.folder = folder
        self.at = ("--bootstrap", cluster.bootstrap)
        self.connection = Connection(cluster.broker(1).address, timeout=60)

    def file(self, name):
        return os.path.join(self.folder, name)

    def end(self, topic, partition=0):
        answer = self.connection.call("ListOffsets", 2, {"replica_id": -1, "isolation_level": 0, "topics": [
            {"name": topic, "partitions": [{"partition_index": partition, "timestamp": -1}]}]})
        return answer["topics"][0]["partitions"][0]["offset"]

    def load(self, mode, topic, *words, **options):
        return run("load", mode, *self.at, "--topic", topic, *words, **options)

    def replay(self, mode, topic, *words, **options):
        return run("replay", mode, *self.at, "--topic", topic, *words, **options)


def test_produce_and_consume(t, tools):
    made = tools.load("create-topic", "t", "--partitions", 3)
    t.equal(made["settings"]["partitions"], 3, "create-topic makes a topic")
    sent = tools.load("produce", "t", "--partitions", 3, "--producers", 2, "--messages", 1001, "--size", 50)
    t.equal((sent["messages"], sent["bytes"], sent["errors"], sent["latency_us"]["count"]), (1001, 50050, 0, 1001),
            "produce counts what it was told to send")
    t.equal(sum(tools.end("t", p) for p in range(3)), 1001, "and so does the broker")
    read = tools.load("consume", "t")
    t.equal((read["messages"], read["bytes"], read["errors"]), (1001, 50050, 0), "consume reads to the end")
    t.equal(tools.load("consume", "t", "--consumers", 3)["messages"], 3003, "three that fan out read all three times")
    t.equal(tools.load("consume", "t", "--group", "g", "--consumers", 2, "--messages", 1001)["messages"], 1001, "a group reads it once")
    t.ok("3 partitions" in tools.load("produce", "t", "--partitions", 4, code=1), "a topic with another number of partitions is refused")
    tools.load("delete-topic", "t")
    t.ok("t" not in [topic for topic, in tools.cluster.sql("SELECT topic FROM broker.topics")], "delete-topic deletes it")


def test_open_loop(t, tools):
    """A broker that stands still for a second must show in the times of all that were due meanwhile."""
    broker = tools.cluster.broker(1)
    for name, words in (("load", ("--linger", 0)), ("replay", ("--file", tools.file("one"), "--window", 1))):
        topic = f"open-{name}"
        tools.load("create-topic", topic, "--partitions", 1)
        process = start(name, "produce", *tools.at, "--topic", topic, "--rate", 200, "--seconds", 3, *words)
        tools.cluster.wait(lambda topic=topic: tools.end(topic) > 0, 30, "the first message")
        broker.pause()
        time.sleep(1)
        broker.resume()
        out, err = process.communicate(timeout=120)
        result = json.loads(out)
        t.equal((process.returncode, err), (0, ""), f"{name}: open loop ends well")
        latency = result["latency_us"]
        t.equal(latency["count"], 600, f"{name}: every message that was due is in the histogram")
        t.ok(latency["max"] > 900e3 and latency["p90"] > 300e3, f"{name}: those that waited, not only the one that was sent")


def test_closed_loop(t, tools):
    tools.load("create-topic", "closed", "--partitions", 1)
    sent = tools.load("produce", "closed", "--outstanding", 1, "--linger", 0, "--messages", 20)
    t.equal((sent["messages"], tools.end("closed")), (20, 20), "one message at a time")
    t.ok(sent["longest_gap_us"] <= sent["seconds"] * 1e6, "the longest gap is within the run")
    warm = tools.load("produce", "closed", "--rate", 100, "--linger", 0, "--warmup", 0.5, "--seconds", 0.5)
    t.ok(warm["latency_us"]["count"] == 50 and tools.end("closed") == 120, "what is sent to warm up is not counted")


def test_end_to_end(t, tools):
    result = tools.load("end-to-end", "e2e", "--partitions", 4, "--producers", 2, "--consumers", 2, "--rate", 200, "--seconds", 1, "--linger", 0)
    t.equal((result["errors"], result["latency_us"]["count"], result["ack_latency_us"]["count"]), (0, 400, 200),
            "end to end: each message is read by both consumers")
    again = tools.load("end-to-end", "e2e", "--messages", 10)
    t.equal(again["messages"], 10, "what lay in the topic before is not read")


def test_commit(t, tools):
    result = tools.load("commit", "e2e", "--groups", 2, "--messages", 21, "--group", "committer")
    t.equal((result["messages"], result["offsets"], result["errors"]), (21, 84, 0), "commits of two groups, four partitions each")
    t.equal(tools.cluster.value("SELECT string_agg(DISTINCT committed_offset::text, ',') FROM broker.group_offsets WHERE group_id = 'committer-0'"),
            "11", "and the broker has the last one")


def test_replay(t, tools):
    tools.load("create-topic", "r", "--partitions", 3)
    made = run("replay", "make-batches", "--file", tools.file("b"), "--count", 5, "--records", 700, "--size", 100, "--compression", "lz4")
    size = os.path.getsize(tools.file("b"))
    t.equal((made["batches"], made["records"], made["bytes"]), (5, 3500, size), "batches in a file")
    sent = tools.replay("produce", "r", "--file", tools.file("b"), "--connections", 4, "--megabytes", size / 1e6 * 4)
    t.equal(sum(tools.end("r", p) for p in range(3)), sent["records_per_s"] and sent["messages"], "the broker has what was replayed")
    t.equal(sent["messages"], sent["requests"] * 700, "its records are counted")
    large = run("replay", "make-batches", "--file", tools.file("large"), "--count", 3, "--records", 900, "--size", 1000, "--payload", "random")
    t.ok(large["batch_bytes"] > 900000, "a batch of random bytes")
    tools.load("create-topic", "l", "--partitions", 1)
    tools.replay("produce", "l", "--file", tools.file("large"), "--megabytes", 18)
    for words in ((), ("--copy",), ("--max-bytes", 300000)):
        drained = tools.replay("drain", "l", *words)
        t.equal((drained["messages"], drained["batches"]), (tools.end("l"), tools.end("l") // 900), f"drained {' '.join(map(str, words))}: every record once")
    drained = tools.replay("drain", "r", "--connections", 2, "--times", 2)
    t.equal(drained["messages"], 2 * sent["messages"], "three partitions drained twice")
    fire = tools.replay("produce", "l", "--file", tools.file("b"), "--acks", 0, "--megabytes", 1)
    t.equal(fire["errors"], 0, "acks=0 needs no answers")


def test_segment(t, tools):
    """The log of an idempotent producer has sequence numbers, which a replay must not bring back."""
    tools.load("create-topic", "s", "--partitions", 1)
    tools.load("produce", "s", "--idempotence", "--messages", 3000, "--compression", "zstd")
    segment = os.path.join(tools.cluster.broker(1).data, "s-0", "00000000000000000000.log")
    before = tools.end("s")
    with open(tools.file("segment"), "wb") as copy, open(segment, "rb") as log:
        copy.write(log.read())
    sent = tools.replay("produce", "s", "--file", tools.file("segment"), "--megabytes", 2 * os.path.getsize(tools.file("segment")) / 1e6)
    t.equal((before, tools.end("s")), (3000, 3000 + sent["messages"]), "a log is replayed into its own topic, all of it taken")
    t.ok(sent["messages"] >= 6000, "twice")
    read = tools.load("consume", "s")
    t.equal((read["messages"], read["errors"]), (tools.end("s"), 0), "and librdkafka reads it")
    with open(tools.file("segment"), "r+b") as broken:
        broken.seek(70)
        broken.write(b"x")
    complaint = tools.replay("produce", "s", "--file", tools.file("segment"), code=1)
    t.ok("checksum" in complaint and complaint.count("\n") == 1, "a file with a broken batch is refused")


def test_idle(t, tools):
    broker = tools.cluster.broker(1)
    process = start("replay", "idle", *tools.at, "--connections", 300, "--watch", broker.pid())
    opened = json.loads(process.stdout.readline())
    files = len(os.listdir(f"/proc/{broker.pid()}/fd"))
    t.ok(opened["connections"] == 300 and files > 300, "300 idle connections are open when it says so")
    t.ok(opened["watched_rss_kb"] > 1000, "and the watched broker's memory is told")
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=60)
    t.equal(process.returncode, 0, "they are held until somebody ends it")
    process.stdout.close()
    process.stderr.close()


def test_bad_input(t, tools):
    tools.load("create-topic", "bad", "--partitions", 1)
    nobody = f"127.0.0.1:{free_port()}"
    begun = time.monotonic()
    for name, words, code, expected in (
            ("load", ("produce", "--topic", "t", "--bootstrap", nobody), 1, "Connection refused"),
            ("replay", ("drain", "--topic", "t", "--bootstrap", nobody), 1, "Connection refused"),
            ("load", ("consume", "--topic", "t", "--bootstrap", nobody), 1, "Connection refused"),
            ("replay", ("drain", "--topic", "none", *tools.at), 1, "is not there"),
            ("replay", ("drain", "--topic", "bad", *tools.at), 1, "empty"),
            ("replay", ("produce", "--topic", "bad", *tools.at, "--file", "/nowhere"), 1, "No such file"),
            ("load", ("produce",), 2, "--topic must be given"),
            ("load", ("produce", "--topic", "t", "--size", "many"), 2, "wants a number"),
            ("load", ("produce", "--topic", "t", "--group", "g"), 2, "knows no option --group"),
            ("load", ("produce", "--topic", "t", "--rate", "5", "--outstanding", "1"), 2, "open loop"),
            ("load", ("produce", "--topic", "bad", *tools.at, "-X", "no.such=1"), 2, "no.such"),
            ("load", ("produce", "--topic", "bad", *tools.at, "--watch", "999999999"), 1, "no process"),
            ("load", ("dance",), 2, "no mode"),
            ("replay", (), 2, "--help")):
        complaint = run(name, *words, code=code)
        t.ok(expected in complaint and complaint.count("\n") == 1, f"{name} {' '.join(words)[:40]}: one sentence")
    t.ok(time.monotonic() - begun < 60, "at once")
    t.ok(subprocess.run(program("load", "--help"), stdout=subprocess.PIPE, text=True, check=True).stdout.count("--") > 20, "--help lists the options")


def test_interrupt(t, tools):
    for name, words in (("load", ("produce",)), ("load", ("end-to-end", "--rate", 100)), ("replay", ("produce", "--file", tools.file("b")))):
        tools.load("create-topic", f"i-{name}-{words[0]}", "--partitions", 1)
        process = start(name, *words, *tools.at, "--topic", f"i-{name}-{words[0]}", "--seconds", 600)
        tools.cluster.wait(lambda name=name, words=words: tools.end(f"i-{name}-{words[0]}") > 0, 30, "the first message")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        t.equal((process.returncode, json.loads(out)["interrupted"], err), (130, True, ""), f"{name} {words[0]}: Ctrl-C ends it, with what there is")


def main():
    with Tap() as t, Cluster(properties={"group.initial.rebalance.delay.ms": 0}) as cluster, tempfile.TemporaryDirectory() as folder:
        tools = Tools(cluster, folder)
        run("replay", "make-batches", "--file", tools.file("one"), "--count", 4, "--records", 1)
        for test in (test_produce_and_consume, test_open_loop, test_closed_loop, test_end_to_end, test_commit, test_replay, test_segment,
                     test_idle, test_bad_input, test_interrupt):
            with t.case(test.__name__):
                test(t, tools)


if __name__ == "__main__":
    main()
