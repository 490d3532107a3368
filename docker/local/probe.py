"""A Kafka client of three requests, as much as it takes to know that clients can produce.

Metadata version 0, without any library: a broker is ready when it answers with itself, and a cluster when
one answer has all of its brokers.
"""
import socket
import struct

METADATA = 3


def _string(text):
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _receive(connection, size):
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionError("the broker closed the connection")
        data += more
    return data


def request(address, api_key, api_version, body, timeout=5.0):
    """Sends one request with a version 1 header and returns the answer behind its correlation id."""
    header = struct.pack(">hhi", api_key, api_version, 7) + _string("pg_broker-probe")
    with socket.create_connection(address, timeout=timeout) as connection:
        connection.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
        size, = struct.unpack(">i", _receive(connection, 4))
        answer = _receive(connection, size)
    if struct.unpack(">i", answer[:4])[0] != 7:
        raise ConnectionError("the answer has another correlation id")
    return answer[4:]


def brokers(address, timeout=5.0):
    """{id: (host, port)} of the brokers that Metadata names."""
    # A name that cannot be a topic: version 0 reads an empty array as "all topics".
    answer = request(address, METADATA, 0, struct.pack(">i", 1) + _string("?"), timeout)
    count, = struct.unpack_from(">i", answer, 0)
    at = 4
    found = {}
    for _ in range(count):
        broker_id, length = struct.unpack_from(">ih", answer, at)
        host = answer[at + 6:at + 6 + length].decode()
        port, = struct.unpack_from(">i", answer, at + 6 + length)
        at += 10 + length
        found[broker_id] = (host, port)
    return found
