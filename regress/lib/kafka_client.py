"""A Kafka client for tests that must say exactly what goes over the wire.

    with Connection(c.broker(1).address) as k:
        k.call("Metadata", 9, {"topics": None})              -> the answer as a dict (wire/schema/codec.py)
        k.send("Produce", 9, {...}); k.receive()             several in flight, answered in order
        k.produce("t", 0, [b"one", b"two"])                  -> base offset; KafkaError with .code otherwise
        k.fetch("t", 0, offset=0)                            -> [(offset, value)]
        k.metadata("t")                                      -> {"t": topic row}
        k.socket                                             for bytes that are no request

A record's value is its whole content; batches are made by regress/diff/batch.py.  Times are in seconds.
"""
import os
import socket
import struct
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [ROOT, os.path.join(ROOT, "regress", "diff")]

import batch as batches
from wire.schema import codec


class KafkaError(Exception):
    def __init__(self, code, what=""):
        super().__init__(f"error {code} {what}".strip())
        self.code = code


class Connection:
    def __init__(self, address, timeout=15):
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=timeout)
        self.waiting = []
        self.correlation_id = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def frame(self, name, version, values):
        """The bytes of a request with their length, and its place in the queue of answers."""
        self.correlation_id += 1
        body = codec.encode_request(name, version, self.correlation_id, values)
        return struct.pack(">i", len(body)) + body

    def send(self, name, version, values, answered=True):
        self.socket.sendall(self.frame(name, version, values))
        if answered:
            self.waiting.append((name, version, self.correlation_id))

    def exactly(self, size):
        data = bytearray()
        while len(data) < size:
            more = self.socket.recv(min(1 << 20, size - len(data)))
            if not more:
                raise ConnectionError("the broker closed the connection")
            data += more
        return bytes(data)

    def receive(self):
        name, version, correlation_id = self.waiting.pop(0)
        size, = struct.unpack(">i", self.exactly(4))
        got, values = codec.decode_response(name, version, self.exactly(size))
        assert got == correlation_id, f"answer {got} where {correlation_id} is due"
        return values

    def call(self, name, version, values):
        self.send(name, version, values)
        return self.receive()

    def is_closed(self):
        """Whether the broker ends the connection (waits for it as long as the timeout)."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False

    def metadata(self, *names, create=False):
        answer = self.call("Metadata", 9, {"topics": [{"name": name} for name in names] if names else None,
                                           "allow_auto_topic_creation": create})
        return {topic["name"]: topic for topic in answer["topics"]}

    def leader(self, topic, partition=0):
        """The leader's id, None while there is none."""
        row = self.metadata(topic)[topic]
        found = [p["leader_id"] for p in row["partitions"] if p["partition_index"] == partition]
        return found[0] if found and found[0] >= 0 else None

    @staticmethod
    def produce_request(topic, partition, data, acks=-1, timeout_ms=10000):
        return {"acks": acks, "timeout_ms": timeout_ms,
                "topic_data": [{"name": topic, "partition_data": [{"index": partition, "records": data}]}]}

    def produce(self, topic, partition, values, acks=-1, **options):
        """`options` are batches.batch()'s: base_timestamp=, producer_id=, ..."""
        data = batches.batch([batches.record(None, value) for value in values], **options)
        answer = self.call("Produce", 9, self.produce_request(topic, partition, data, acks))
        row = answer["responses"][0]["partition_responses"][0]
        if row["error_code"]:
            raise KafkaError(row["error_code"], row["error_message"] or "")
        return row["base_offset"]

    def fetch(self, topic, partition, offset=0, max_wait_ms=500, max_bytes=1 << 20):
        answer = self.call("Fetch", 11, {
            "replica_id": -1, "max_wait_ms": max_wait_ms, "min_bytes": 1, "max_bytes": 50 << 20, "isolation_level": 0,
            "session_id": 0, "session_epoch": -1, "rack_id": "", "topics": [{"topic": topic, "partitions": [
                {"partition": partition, "fetch_offset": offset, "partition_max_bytes": max_bytes}]}]})
        if answer["error_code"]:
            raise KafkaError(answer["error_code"])
        row = answer["responses"][0]["partitions"][0]
        if row["error_code"]:
            raise KafkaError(row["error_code"])
        return [item for item in records(row["records"] or b"") if item[0] >= offset]


def varint(data, at):
    shift = value = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value >> 1 ^ -(value & 1), at


def records(data):
    """(offset, value) of each record of uncompressed batches; a batch that is cut off ends them."""
    at, found = 0, []
    while at + 61 <= len(data):
        base, length = struct.unpack_from(">qi", data, at)
        end = at + 12 + length
        if end > len(data):
            break
        count, = struct.unpack_from(">i", data, at + 57)
        place = at + 61
        for _ in range(count):
            size, place = varint(data, place)
            following = place + size
            _, after = varint(data, place + 1)
            delta, after = varint(data, after)
            for part in ("key", "value"):
                size, after = varint(data, after)
                content = None if size < 0 else data[after:after + size]
                after += max(size, 0)
            found.append((base + delta, content))
            place = following
        at = end
    return found
