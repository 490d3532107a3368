"""
side.py: one of the two brokers that are asked, and what it answered.

A Side keeps the transcript of the running case: a list of (label, api, version, answer).  An answer is the
decoded response (a dict), or one of the words CLOSED (the connection ended before a response), SILENT (none
within the time that was given) or "<broken: …>" (bytes that are no such response).
"""
import socket
import struct
import threading
import time
import uuid

import batch
from messages import DecodeError

CLOSED, SILENT = "<closed>", "<silent>"
CLIENT_ID = "diff"
PATIENCE = 15.0     # for an answer that ought to come
NOBODY = uuid.UUID("11111111-2222-3333-4444-555555555555")      # an id that no topic has
POOL = 40
RETRIABLE = {3, 5, 6, 14, 15, 16, 41, 100}


class Connection:
    """A TCP connection that counts correlation ids; any number of requests may be in flight."""

    def __init__(self, side):
        self.side = side
        self.socket = socket.create_connection(side.address, timeout=PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.correlation = 0
        self.received = b""

    def send_raw(self, data):
        """False when the peer has already closed."""
        try:
            self.socket.sendall(data)
            return True
        except OSError:
            return False

    def frame(self, api, version, body, client_id=CLIENT_ID, key=None, flexible=None, header_version=None):
        """The bytes of a request; `body` is a dict, or bytes that are sent as they are."""
        request = self.side.definitions.request(api)
        self.correlation += 1
        known = request.versions[0] <= version <= request.versions[1]
        if isinstance(body, dict):
            body = request.encode(version if known else request.versions[1], body)
        if flexible is None:
            flexible = request.is_flexible(version)
        header = struct.pack(">hhi", request.key if key is None else key, version, self.correlation)
        if client_id is None:
            header += struct.pack(">h", -1)
        else:
            header += struct.pack(">h", len(client_id)) + client_id.encode()
        if flexible:
            header += b"\0"
        payload = header + (body or b"")
        return struct.pack(">i", len(payload)) + payload

    def send(self, api, version, body=None, **how):
        self.send_raw(self.frame(api, version, {} if body is None else body, **how))
        return self.correlation

    def read_exactly(self, count, deadline):
        while len(self.received) < count:
            self.socket.settimeout(max(deadline - time.monotonic(), 0.001))
            piece = self.socket.recv(1 << 20)
            if not piece:
                raise ConnectionError("closed")
            self.received += piece
        data, self.received = self.received[:count], self.received[count:]
        return data

    def receive_frame(self, patience=PATIENCE):
        """The next response's bytes, or CLOSED or SILENT."""
        deadline = time.monotonic() + patience
        try:
            size = struct.unpack(">i", self.read_exactly(4, deadline))[0]
            return self.read_exactly(size, deadline)
        except TimeoutError:
            return SILENT
        except OSError:
            return CLOSED

    def receive(self, api, version, patience=PATIENCE):
        """The next response as (correlation id, answer)."""
        data = self.receive_frame(patience)
        if isinstance(data, str):
            return None, data
        response = self.side.definitions.response(api)
        correlation = struct.unpack(">i", data[:4])[0] if len(data) >= 4 else None
        try:
            skip = 4
            if response.is_flexible(version) and api != "ApiVersions":
                if data[4:5] != b"\0":
                    raise DecodeError("the response header has tagged fields")
                skip = 5
            return correlation, response.decode(version, data[skip:])
        except DecodeError as error:
            return correlation, f"<broken: {error}; {data[:120].hex()}>"

    def ask(self, api, version, body=None, patience=PATIENCE, **how):
        """Send, receive, check the correlation id; not noted in the transcript."""
        sent = self.send(api, version, body, **how)
        correlation, answer = self.receive(api, version, patience)
        if correlation is not None and correlation != sent:
            return f"<broken: correlation id {correlation} instead of {sent}>"
        return answer

    def close(self):
        self.socket.close()


class Topic:
    def __init__(self, name, topic_id, partitions):
        self.name, self.id, self.partitions = name, topic_id, partitions


class Side:
    """A broker with the notes about it.  Threads may ask through connections of their own (`connect`)."""

    def __init__(self, name, host, port, definitions, versions):
        self.name = name
        self.address = (host, port)
        self.definitions = definitions
        self.versions = versions
        self.case_id = ""
        self.transcript = []
        self.connections = []
        self.main = None
        self.common = {}        # what the fixture made once for every case
        self.known = {NOBODY: "nobody"}       # ids that the broker made up -> whose they are
        self.lock = threading.Lock()
        self.pool, self.taken = [], 0

    def begin(self, case_id):
        self.case_id = case_id
        self.transcript = []

    def end(self):
        """A case's own connections end with it; the main one goes on unless it was closed."""
        with self.lock:
            for connection in self.connections:
                connection.close()
            self.connections = []
        return self.transcript

    def connect(self):
        connection = Connection(self)
        with self.lock:
            self.connections.append(connection)
        return connection

    def note(self, label, answer, api="", version=0):
        """Put an answer, or any value that both sides should agree on, into the transcript."""
        with self.lock:
            self.transcript.append((label, api, version, answer))
        return answer

    def request(self, api, version, body=None, **how):
        """Ask on the main connection without noting it; a closed one is opened again first."""
        if self.main is None:
            self.main = Connection(self)
        answer = self.main.ask(api, version, body, **how)
        if isinstance(answer, str):
            self.main.close()
            self.main = None
        return answer

    def ask(self, api, version, body=None, label=None, connection=None, **how):
        """Ask and note the answer: the usual step of a case."""
        if connection is not None:
            answer = connection.ask(api, version, body, **how)
        else:
            answer = self.request(api, version, body, **how)
        return self.note(label or api, answer, api, version)

    def latest(self, api):
        return self.versions[api][1]

    def eventually(self, what, attempt, patience=PATIENCE):
        """Repeat until attempt() gives something true, and return that."""
        deadline = time.monotonic() + patience
        while True:
            value = attempt()
            if value:
                return value
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name}: {what} did not happen within {patience} s")
            time.sleep(0.01)

    # -- what cases need before they can ask their question --

    def name_topic(self, suffix):
        return f"{self.case_id}-{suffix}" if suffix else self.case_id

    def find_topic(self, name):
        """The topic once every partition has a leader, or None."""
        answer = self.request("Metadata", 12, {"Topics": [{"Name": name}], "AllowAutoTopicCreation": False})
        if isinstance(answer, str):
            return None
        found = answer["Topics"][0]
        if found["ErrorCode"] or any(p["ErrorCode"] or p["LeaderId"] < 0 for p in found["Partitions"]):
            return None
        self.known[found["TopicId"]] = name
        return Topic(name, found["TopicId"], len(found["Partitions"]))

    def make_topic(self, suffix="t", partitions=1, configs=None, name=None):
        """Create a topic of this case's own, and wait until it can be used."""
        name = name or self.name_topic(suffix)
        body = {"Topics": [{"Name": name, "NumPartitions": partitions, "ReplicationFactor": 1, "Configs": [
            {"Name": key, "Value": value} for key, value in (configs or {}).items()]}], "timeoutMs": 10000}
        answer = self.request("CreateTopics", 7, body)
        code = answer["Topics"][0]["ErrorCode"] if isinstance(answer, dict) else answer
        if code != 0:
            raise RuntimeError(f"{self.name}: topic {name} was not created: {code}")
        topic = self.eventually(f"topic {name}", lambda: self.find_topic(name))
        self.eventually(f"leadership of {name}", lambda: self.is_led(topic))
        return topic

    def take_topic(self):
        """A fresh topic with one partition and no configs, for whom its name is all the same: made by the dozen,
        which is most of the time that a case takes.  Both sides hand them out in the same order."""
        if not self.pool:
            first = self.taken
            names = [f"pool-{number}" for number in range(first, first + POOL)]
            self.request("CreateTopics", 7, {"timeoutMs": 30000, "Topics": [
                {"Name": name, "NumPartitions": 1, "ReplicationFactor": 1} for name in names]})
            self.pool = [self.eventually(f"topic {name}", lambda name=name: self.find_topic(name)) for name in names]
            for topic in self.pool:
                self.eventually(f"leadership of {topic.name}", lambda topic=topic: self.is_led(topic))
        self.taken += 1
        return self.pool.pop(0)

    def is_led(self, topic):
        """Kafka's metadata names a leader a moment before that leader knows."""
        answer = self.request("ListOffsets", 4, {"ReplicaId": -1, "Topics": [{"Name": topic.name, "Partitions": [
            {"PartitionIndex": number, "Timestamp": -1} for number in range(topic.partitions)]}]})
        return all(part["ErrorCode"] == 0 for part in answer["Topics"][0]["Partitions"])

    def produce_body(self, topic, records, partition=0, acks=-1, timeout=10000, transactional_id=None):
        return {"TransactionalId": transactional_id, "Acks": acks, "TimeoutMs": timeout, "TopicData": [
            {"Name": topic.name, "TopicId": topic.id, "PartitionData": [{"Index": partition, "Records": records}]}]}

    def produce(self, topic, records=None, partition=0):
        """Append without noting it; `records` are the bytes of one batch.  Returns the base offset."""
        body = self.produce_body(topic, batch.batch() if records is None else records, partition)

        def attempt():
            answer = self.request("Produce", min(self.latest("Produce"), 12), body)
            if isinstance(answer, str):
                raise RuntimeError(f"{self.name}: Produce: {answer}")
            part = answer["Responses"][0]["PartitionResponses"][0]
            if part["ErrorCode"] in RETRIABLE:
                return None
            if part["ErrorCode"] != 0:
                raise RuntimeError(f"{self.name}: Produce: error {part['ErrorCode']}")
            return part["BaseOffset"] + 1
        return self.eventually("a produce", attempt) - 1

    def end_offset(self, topic, partition=0):
        answer = self.request("ListOffsets", 7, {"ReplicaId": -1, "Topics": [
            {"Name": topic.name, "Partitions": [{"PartitionIndex": partition, "Timestamp": -1}]}]})
        return answer["Topics"][0]["Partitions"][0]["Offset"]
