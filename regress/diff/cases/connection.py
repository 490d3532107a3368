"""
What happens below the messages: frames that are none, versions and keys that nobody serves, order, and when a
connection ends.  Titles say ApiVersions or Metadata, since these are what is asked to see whether it lives.
"""
import struct

import batch
from case import SERVED, case

GOOD = {"ClientSoftwareName": "diff", "ClientSoftwareVersion": "1.0"}


def lives(side, connection, label="lives on"):
    """Is the connection still answered?"""
    answer = connection.ask("ApiVersions", 0, patience=5)
    side.note(label, answer if isinstance(answer, str) else "yes")


def raw(name, data, waits=False):
    """Bytes sent on a connection of their own, then what came of it."""
    @case("ApiVersions", "latest", f"connection: {name}")
    def sent(side, _):
        connection = side.connect()
        connection.send_raw(data)
        answer = connection.receive_frame(0.3 if waits else 5)
        side.note("answer", answer if isinstance(answer, str) else "<an answer>")


def framed(payload):
    return struct.pack(">i", len(payload)) + payload


raw("frame length -1", struct.pack(">i", -1))
raw("frame length of the lowest number", struct.pack(">i", -0x80000000))
raw("frame length 0", struct.pack(">i", 0))
raw("frame over socket.request.max.bytes", struct.pack(">i", 104857601))
raw("frame of two billion", struct.pack(">i", 0x7FFFFFFF))
raw("frame at socket.request.max.bytes", struct.pack(">i", 104857600), waits=True)
raw("half a length", b"\0\0", waits=True)
raw("half a frame", struct.pack(">i", 100) + b"\0" * 50, waits=True)
raw("a request for the web", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
raw("a TLS hello", bytes.fromhex("160301020001000100fc0303") + b"\0" * 100)
raw("frame of one byte", framed(b"\0"))
raw("frame of seven bytes", framed(struct.pack(">hhi", 18, 0, 1)[:7]))
raw("header without client id", framed(struct.pack(">hhi", 18, 0, 1)))
raw("client id longer than the frame", framed(struct.pack(">hhih", 18, 0, 1, 500) + b"x"))
raw("client id of length -2", framed(struct.pack(">hhih", 18, 0, 1, -2)))
raw("client id that is no UTF-8", framed(struct.pack(">hhih", 18, 0, 1, 2) + b"\xff\xfe"))
raw("flexible header without tags", framed(struct.pack(">hhih", 3, 12, 1, -1)))
raw("tags longer than the frame", framed(struct.pack(">hhih", 3, 12, 1, -1) + b"\x01\x05\x7f"))
raw("unknown key", framed(struct.pack(">hhih", 9999, 0, 1, -1)))
raw("negative key", framed(struct.pack(">hhih", -3, 0, 1, -1)))
raw("key of a controller", framed(struct.pack(">hhih", 52, 0, 1, -1) + b"\0\0"))

for api in SERVED:
    @case(api, "latest", name="versions outside those served")
    def outside(side, version, api=api):
        low, high = side.definitions.request(api).versions
        for other in (-1, low - 1, 99) if api != "ApiVersions" else ():
            if other == low - 1 and other < 0:
                continue
            connection = side.connect()
            connection.send(api, other, b"\0" * 40, flexible=False)
            side.note(f"version {other if other != low - 1 else 'below the lowest'}", connection.receive(api, high, 5)[1])
        side.note("asked", True)


ARRAY_FIRST = ("Metadata", "CreateTopics", "DeleteTopics", "CreatePartitions", "DeleteRecords", "DescribeConfigs",
               "AlterConfigs", "IncrementalAlterConfigs", "DescribeLogDirs", "DeleteGroups", "DescribeGroups")


def huge_array(side, api, version):
    """The message's first array claims two billion elements."""
    if side.definitions.request(api).is_flexible(version):
        return b"\xff\xff\xff\xff\x07" + b"\0" * 8
    return struct.pack(">i", 0x7FFFFFFF) + b"\0" * 8


for api in ARRAY_FIRST:
    @case(api, name="array count beyond the frame")
    def beyond(side, version, api=api):
        connection = side.connect()
        connection.send(api, version, huge_array(side, api, version))
        side.note("answer", connection.receive(api, version, 5)[1])


    @case(api, name="array count of two when there is nothing")
    def two_of_nothing(side, version, api=api):
        connection = side.connect()
        flexible = side.definitions.request(api).is_flexible(version)
        connection.send(api, version, b"\x03" if flexible else struct.pack(">i", 2))
        side.note("answer", connection.receive(api, version, 5)[1])


    @case(api, "latest", name="array count negative")
    def negative(side, version, api=api):
        connection = side.connect()
        connection.send(api, version, b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01" + b"\0" * 20)
        side.note("answer", connection.receive(api, version, 5)[1])


@case("Metadata", "0-8", name="string length beyond the frame")
def long_string(side, version):
    connection = side.connect()
    connection.send("Metadata", version, struct.pack(">ih", 1, 0x7FFF) + b"abc")
    side.note("answer", connection.receive("Metadata", version, 5)[1])


@case("Metadata", "9+", name="string length beyond the frame")
def long_compact_string(side, version):
    connection = side.connect()
    topic_id = b"\0" * 16 if version >= 10 else b""
    connection.send("Metadata", version, b"\x02" + topic_id + b"\xff\xff\x03abc")
    side.note("answer", connection.receive("Metadata", version, 5)[1])


@case("Metadata", "0-8", name="string that is no UTF-8")
def not_utf8(side, version):
    connection = side.connect()
    connection.send("Metadata", version, struct.pack(">ih", 1, 2) + b"\xff\xfe" + (b"\0" if version >= 4 else b"")
                    + (b"\0\0" if version >= 8 else b""))
    _, answer = connection.receive("Metadata", version)
    if isinstance(answer, dict):
        answer = [topic["ErrorCode"] for topic in answer["Topics"]]
    side.note("answer", answer)


@case("Metadata", "0-8", name="string of length -5")
def negative_string(side, version):
    connection = side.connect()
    connection.send("Metadata", version, struct.pack(">ih", 1, -5) + b"\0" * 3)
    side.note("answer", connection.receive("Metadata", version, 5)[1])


@case("Metadata", "1+", name="bytes left over after the message")
def left_over(side, version):
    connection = side.connect()
    body = side.definitions.request("Metadata").encode(version, {"Topics": []})
    connection.send("Metadata", version, body + b"\0\1\2")
    side.note("answer", connection.receive("Metadata", version)[1], "Metadata")
    lives(side, connection)


@case("Metadata", "9+", name="tagged fields that nobody knows")
def unknown_tags(side, version):
    body = side.definitions.request("Metadata").encode(version, {"Topics": []})
    side.ask("Metadata", version, body[:-1] + b"\x02\x07\x01x\x63\x03abc")


@case("Metadata", "9+", name="tagged field longer than the frame")
def long_tag(side, version):
    connection = side.connect()
    body = side.definitions.request("Metadata").encode(version, {"Topics": []})
    connection.send("Metadata", version, body[:-1] + b"\x01\x07\x7fx")
    side.note("answer", connection.receive("Metadata", version, 5)[1])


@case("Metadata", "9+", name="the same tag twice")
def tag_twice(side, version):
    connection = side.connect()
    body = side.definitions.request("Metadata").encode(version, {"Topics": []})
    connection.send("Metadata", version, body[:-1] + b"\x02\x07\x01x\x07\x01x")
    answer = connection.receive("Metadata", version, 5)[1]
    side.note("answer", answer if isinstance(answer, str) else "<an answer>")


@case("Metadata", "latest", name="twenty requests at once are answered in order")
def pipelined(side, version):
    connection = side.connect()
    sent = []
    for number in range(20):
        api, asked = (("Metadata", version), ("ApiVersions", 0), ("DescribeCluster", 0))[number % 3]
        sent.append((connection.send(api, asked, {"Topics": []} if api == "Metadata" else {}), api, asked))
    order = [connection.receive(api, asked)[0] for _, api, asked in sent]
    side.note("in order", order == [number for number, _, _ in sent])


@case("Metadata", "latest", name="a slow request does not let a fast one past")
def order_of_slow_and_fast(side, version):
    connection = side.connect()
    body = {"Topics": [{"Name": side.name_topic("t"), "NumPartitions": 1, "ReplicationFactor": 1}], "timeoutMs": 5000}
    first = connection.send("CreateTopics", 7, body)
    second = connection.send("ApiVersions", 0)
    side.note("in order", (connection.receive("CreateTopics", 7)[0], connection.receive("ApiVersions", 0)[0])
              == (first, second))


@case("Metadata", "latest", name="a broken request after good ones: these are answered first")
def good_then_broken(side, version):
    connection = side.connect()
    connection.send("Metadata", version, {"Topics": []})
    connection.send("Metadata", version, b"\xff\xff\xff\xff\x07")
    connection.send("Metadata", version, {"Topics": []})
    answers = [connection.receive("Metadata", version, 5)[1] for _ in range(3)]
    side.note("answers", [answer if isinstance(answer, str) else "yes" for answer in answers])


@case("Metadata", "latest", name="a request in single bytes")
def byte_by_byte(side, version):
    connection = side.connect()
    for byte in connection.frame("Metadata", version, {"Topics": []}):
        connection.send_raw(bytes([byte]))
    side.note("answer", connection.receive("Metadata", version)[1], "Metadata")


@case("Metadata", "latest", name="client ids of every kind")
def client_ids(side, version):
    for client_id in ("", "x" * 1000, "a'; --", "grün", None):
        answer = side.request("Metadata", version, {"Topics": []}, client_id=client_id)
        side.note("answered", answer if isinstance(answer, str) else "yes")


@case("Metadata", "latest", name="correlation ids come back as they went")
def correlation_ids(side, version):
    connection = side.connect()
    for number in (-1, 0, 0x7FFFFFFF, -0x80000000):
        connection.correlation = number - 1 if number > -0x80000000 else 0x7FFFFFFF
        payload = struct.pack(">hhih", 18, 0, number, -1)
        connection.send_raw(framed(payload))
        side.note(str(number), connection.receive("ApiVersions", 0)[0])


@case("Produce", name="connection: lengths beyond the frame")
def produce_beyond(side, version):
    body = side.definitions.request("Produce").encode(version, side.produce_body(side.common["topic"], batch.batch()))
    for label, cut in (("cut in the records", 20), ("cut by one", 1)):
        connection = side.connect()
        connection.send("Produce", version, body[:-cut])
        side.note(label, connection.receive("Produce", version, 5)[1])
    side.note("end offset", side.end_offset(side.common["topic"]))


@case("Metadata", "latest", name="a peer that closes while it is answered")
def gone_peer(side, version):
    for _ in range(5):
        connection = side.connect()
        connection.send("Metadata", version, {"Topics": None})
        connection.close()
    answer = side.request("Metadata", version, {"Topics": []})
    side.note("others are served", answer if isinstance(answer, str) else "yes")


@case("Metadata", "latest", name="half closed: the answer still comes")
def half_closed(side, version):
    connection = side.connect()
    connection.send("Metadata", version, {"Topics": []})
    connection.socket.shutdown(1)
    answer = connection.receive("Metadata", version, 2)[1]
    side.note("answer", answer if isinstance(answer, str) else "yes")
