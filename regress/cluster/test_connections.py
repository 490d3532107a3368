#!/usr/bin/env python3
"""Clients that are slow, gone, silent, greedy or wrong: each is dealt with, and the others do not notice."""
import contextlib
import os
import re
import resource
import socket
import struct
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "regress", "lib"))
from kafka_client import Connection
from pgbroker_cluster import Cluster, wait_for
from tap import Tap

MB = 1 << 20
QUEUED_MAX = 48 * MB
IDLE = 5000
# What a well-behaved client may wait at most beside all of this, on a machine that does other things too.
PATIENCE = 3.0
TCP_REPAIR = 19
PRODUCE, FETCH, METADATA = 0, 1, 3


class Neighbour:
    """A client that produces and fetches all the time, and knows the longest that it had to wait."""

    def __init__(self, c):
        self.c = c
        self.rounds = 0
        self.longest = 0.0
        self.error = None

    def run(self):
        try:
            with Connection(self.c.bootstrap) as k:
                offset = None
                while not self.over:
                    began = time.monotonic()
                    offset = k.produce("t", 0, [b"neighbour"])
                    got = k.fetch("t", 0, offset)
                    assert got and got[0] == (offset, b"neighbour"), got
                    self.longest = max(self.longest, time.monotonic() - began)
                    self.rounds += 1
        except Exception as error:
            self.error = error

    def __enter__(self):
        self.over = False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over = True
        self.thread.join()

    def judge(self, t, beside):
        t.ok(self.error is None and self.rounds > 0 and self.longest < PATIENCE, f"others do not notice {beside}")
        t.note(f"{self.rounds} rounds of produce and fetch, the slowest {1000 * self.longest:.0f} ms; {self.error or 'no error'}")


@contextlib.contextmanager
def beside(t, c, what):
    with Neighbour(c) as neighbour:
        wait_for(lambda: neighbour.rounds > 3 or neighbour.error, 10, "the neighbour's first rounds")
        yield
        done = neighbour.rounds
        wait_for(lambda: neighbour.rounds > done + 3 or neighbour.error, 10, "the neighbour's last rounds")
    neighbour.judge(t, what)


def status(c, key):
    """A line of /proc/PID/status in bytes."""
    with open(f"/proc/{c.broker(1).pid()}/status", encoding="ascii") as file:
        return int(re.search(rf"^{key}:\s+(\d+) kB", file.read(), re.M).group(1)) * 1024


def sockets(c):
    folder, count = f"/proc/{c.broker(1).pid()}/fd", 0
    for name in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):
            count += os.readlink(f"{folder}/{name}").startswith("socket:")
    return count


def established(c, ports):
    """How many connections to these ports of ours the broker's side still has."""
    with open("/proc/net/tcp", encoding="ascii") as file:
        rows = [line.split()[1:4] for line in file.readlines()[1:]]
    mine = f"{c.broker(1).port:04X}"
    return sum(state == "01" and local.endswith(":" + mine) and int(remote[-4:], 16) in ports for local, remote, state in rows)


def plug(c, source=None):
    return socket.create_connection(("127.0.0.1", c.broker(1).port), timeout=15,
                                    source_address=(source, 0) if source else None)


def lines_of(c, port):
    return [line for line in c.broker(1).log_text().splitlines() if f"127.0.0.1:{port} " in line]


def closed_with_a_line(t, c, data, pattern, name):
    with Connection(c.bootstrap) as k:
        port = k.socket.getsockname()[1]
        k.socket.sendall(data)
        t.ok(k.is_closed(), f"{name}: the connection is closed")
        wait_for(lambda: lines_of(c, port), 5, "a log line with the peer")
        lines = lines_of(c, port)
        t.ok(len(lines) == 1 and re.search(pattern, lines[0]), f"{name}: one line says so, with the peer") or t.note(lines)


def header(key, version, flexible=False):
    return struct.pack(">hhih", key, version, 1, -1) + (b"\0" if flexible else b"")


def framed(body):
    return struct.pack(">i", len(body)) + body


def wrong_frames(t, c):
    before = status(c, "VmPeak")
    for length in (-1, -(1 << 31), 104857601, (1 << 31) - 1):
        closed_with_a_line(t, c, struct.pack(">i", length), rf"frame of {length} bytes", f"a frame of {length} bytes")
    for name, data in (("a browser", b"GET / HTTP/1.1\r\n"), ("a TLS client", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")):
        closed_with_a_line(t, c, data, r"frame of \d+ bytes", f"{name} on the Kafka port")
    beyond = [
        ("an array count beyond the frame", header(METADATA, 1) + struct.pack(">i", (1 << 31) - 1)),
        ("a compact array count beyond the frame", header(METADATA, 9, True) + b"\xff\xff\xff\xff\x0f"),
        ("a string beyond the frame", header(METADATA, 1) + struct.pack(">ih", 1, 32767) + b"t"),
        ("records beyond the frame", header(PRODUCE, 3) + struct.pack(">hhiih", -1, -1, 1000, 1, 1) + b"t"
         + struct.pack(">iii", 1, 0, 1 << 30)),
        ("a fetch of more partitions than bytes", header(FETCH, 4) + struct.pack(">iiiibih", -1, 0, 0, 1 << 30, 0, 1, 1)
         + b"t" + struct.pack(">i", 100_000_000)),
    ]
    for name, body in beyond:
        closed_with_a_line(t, c, framed(body), r"API key \d+, version \d+", name)
    grown = status(c, "VmPeak") - before
    t.ok(grown < 32 * MB, "nothing is allocated for what was only claimed") or t.note(f"{grown / MB:.0f} MB more")


def slow_reader(t, c):
    """Asks for large answers without end and takes none: it stops itself, and costs next to nothing."""
    with beside(t, c, "readers that take no answers"), contextlib.ExitStack() as stack:
        before, most = status(c, "VmRSS"), 0
        with Connection(c.bootstrap) as k:
            request = k.frame("Metadata", 9, {"topics": None})
        slow = []
        for _ in range(4):
            s = stack.enter_context(plug(c))
            s.setblocking(False)
            slow.append(s)
        sent = quiet = 0
        ask, left = request * 1000, [b""] * 4
        # Until no one of them can send for a while: the broker does not read them any more.
        while quiet < 50 and sent < 64 * MB:
            progress = 0
            for i, s in enumerate(slow):
                left[i] = left[i] or ask
                with contextlib.suppress(BlockingIOError):
                    n = s.send(left[i])
                    left[i] = left[i][n:]
                    progress += n
            sent += progress
            quiet = 0 if progress else quiet + 1
            if not progress:
                pause()
        most = status(c, "VmRSS") - before
        t.ok(sent < 64 * MB, "a client that takes no answers is not read for ever")
        t.ok(most < 32 * MB, "its answers do not pile up in memory")
        t.note(f"{sent / MB:.1f} MB of requests sent by four, {most / MB:.1f} MB more resident")


def slow_fetchers(t, c):
    """Messages that were asked for and are not taken stay in their file."""
    with Connection(c.bootstrap) as k, contextlib.ExitStack() as stack:
        for _ in range(8):
            k.produce("big", 0, [bytes(900_000)])
        frame = k.frame("Fetch", 11, {
            "replica_id": -1, "max_wait_ms": 0, "min_bytes": 1, "max_bytes": 50 << 20, "isolation_level": 0, "session_id": 0,
            "session_epoch": -1, "rack_id": "", "topics": [{"topic": "big", "partitions": [
                {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 10 << 20}]}]})
        before = status(c, "VmRSS")
        with beside(t, c, "fifty consumers that ask for 3 GB and take nothing"):
            slow = [stack.enter_context(plug(c)) for _ in range(50)]
            for s in slow:
                s.sendall(frame * 10)
            slow[0].settimeout(20)
            t.equal(len(slow[0].recv(4)), 4, "messages are on their way to a consumer that does not read")
        grown = status(c, "VmRSS") - before
        t.ok(grown < 32 * MB, "messages on their way are not in memory") or t.note(f"{grown / MB:.0f} MB more")
        # One of them begins to read, and gets all that it asked for.
        size = struct.unpack(">i", slow[1].recv(4, socket.MSG_WAITALL))[0]
        t.ok(size > 7_000_000, "an answer holds them all")
        left = size + 9 * (size + 4)
        while left > 0 and (got := slow[1].recv(min(left, MB))):
            left -= len(got)
        t.equal(left, 0, "one that begins to read gets all ten answers")


def pause():
    time.sleep(0.01)  # between two looks


def versions_again(t, c):
    """The answer to ApiVersions is kept from the first time on: whoever asks gets it, under his own correlation id."""
    for version in range(5):
        request = {"client_software_name": "test", "client_software_version": "1.0"} if version >= 3 else {}
        refused = {"client_software_name": "-", "client_software_version": ""}
        with Connection(c.bootstrap) as one, Connection(c.bootstrap) as other:
            first = one.call("ApiVersions", version, request)
            other.correlation_id = 4711 * version
            if version >= 3:
                t.equal(other.call("ApiVersions", version, refused)["error_code"], 42, f"ApiVersions {version}: a refusal")
            t.ok(len(first["api_keys"]) > 20 and other.call("ApiVersions", version, request) == first
                 and one.call("ApiVersions", version, request) == first, f"ApiVersions {version}: the same answer each time")


def drip(t, c):
    """Requests that come byte by byte are answered; until then their connection is nobody's burden."""
    with Connection(c.bootstrap) as k, contextlib.ExitStack() as stack:
        request = k.frame("ApiVersions", 0, {})
        drippers = [stack.enter_context(Connection(c.bootstrap)) for _ in range(50)]
        for one in drippers:
            one.frame("ApiVersions", 0, {})
            one.waiting.append(("ApiVersions", 0, 1))
        with beside(t, c, "fifty connections that send byte by byte"):
            for at in range(len(request)):
                for one in drippers:
                    one.socket.sendall(request[at:at + 1])
        t.ok(all(one.receive()["error_code"] == 0 for one in drippers), "what came byte by byte is answered")


def many_idle(t, c):
    with contextlib.ExitStack() as stack:
        before = status(c, "VmRSS")
        with beside(t, c, f"{IDLE} idle connections"):
            idle = [stack.enter_context(plug(c)) for _ in range(IDLE)]
            wait_for(lambda: sockets(c) > IDLE, 20, f"{IDLE} connections taken")
        each = (status(c, "VmRSS") - before) / IDLE
        t.ok(each < 4096, "an idle connection costs less than 4 kB") or t.note(f"{each:.0f} bytes")
        for s in idle[::500]:
            s.sendall(framed(header(18, 0)))
            t.equal(s.recv(1) != b"", True, "one of them is served when it speaks") if s is idle[0] else s.recv(1)
    wait_for(lambda: sockets(c) < 100, 20, "the end of the idle connections")


def bounded_memory(t, c):
    """Two hundred connections with most of a 1 MB request each, beside a limit of 48 MB for all of them."""
    before, most = status(c, "VmRSS"), 0
    with contextlib.ExitStack() as stack:
        greedy = []
        for _ in range(200):
            s = stack.enter_context(plug(c))
            s.setblocking(False)
            greedy.append([s, memoryview(struct.pack(">i", MB) + bytes(MB - 1000))])
        with beside(t, c, "two hundred half-sent requests of 1 MB"):
            quiet = 0
            while quiet < 50:
                progress = 0
                for one in greedy:
                    with contextlib.suppress(BlockingIOError):
                        n = one[0].send(one[1]) if len(one[1]) else 0
                        one[1] = one[1][n:]
                        progress += n
                most = max(most, status(c, "VmRSS") - before)
                quiet = 0 if progress else quiet + 1
                if not progress:
                    pause()
        t.ok(most < QUEUED_MAX + 16 * MB, "memory stays within queued.max.request.bytes")
        t.note(f"{most / MB:.0f} MB more resident at most, queued.max.request.bytes is {QUEUED_MAX / MB:.0f} MB")
    wait_for(lambda: sockets(c) < 20, 20, "the end of the greedy ones")
    with Connection(c.bootstrap) as k:
        t.ok(k.produce("t", 0, [bytes(900_000)]) >= 0, "once they are gone a large request has room")


def parked_and_gone(t, c):
    """Behind a fetch that waits for messages: the end of a client is noticed at once, and leaves nothing."""
    had = sockets(c)
    wait = {"replica_id": -1, "max_wait_ms": 600_000, "min_bytes": 50 << 20, "max_bytes": 50 << 20, "isolation_level": 0,
            "session_id": 0, "session_epoch": -1, "rack_id": "", "topics": [{"topic": "quiet", "partitions": [
                {"partition": 0, "fetch_offset": 0, "partition_max_bytes": MB}]}]}
    clients = [Connection(c.bootstrap) for _ in range(30)]
    for i, k in enumerate(clients):
        k.send("Fetch", 11, wait)
        if i % 2:  # and one more request that has to wait behind it
            k.send("Metadata", 9, {"topics": None})
    wait_for(lambda: sockets(c) == had + 30, 10, "thirty parked fetches")
    for i, k in enumerate(clients):
        if i % 3 == 0:  # by a reset instead of a regular end
            k.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        k.socket.close()
    wait_for(lambda: sockets(c) == had, 10, "the end of clients behind parked fetches")
    with Connection(c.bootstrap) as k:
        t.equal(k.produce("quiet", 0, [b"x"]), 0, "clients that vanish behind a parked fetch leave nothing")


def half_open(t, c):
    """A peer whose machine vanished: no end comes, no answer either.  connections.max.idle.ms ends it."""
    ports = []
    try:
        for _ in range(5):
            s = plug(c)
            ports.append(s.getsockname()[1])
            s.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)  # closed in silence: nothing is sent
            s.close()
    except PermissionError:
        s.close()
        t.skip("half-open peers", "only root may close a connection in silence")
        return
    t.ok(established(c, ports) > 0, "half-open connections look like any other")
    wait_for(lambda: established(c, ports) == 0, 15, "the end of half-open connections")
    t.ok(True, "connections.max.idle.ms ends them")


def idle_ends(t, c):
    with Connection(c.bootstrap) as silent, Connection(c.bootstrap) as partial, Connection(c.bootstrap) as parked:
        partial.socket.sendall(b"\0\0")
        parked.send("Fetch", 11, {
            "replica_id": -1, "max_wait_ms": 4000, "min_bytes": 1, "max_bytes": MB, "isolation_level": 0,
            "session_id": 0, "session_epoch": -1, "rack_id": "", "topics": [{"topic": "t", "partitions": [
                {"partition": 0, "fetch_offset": 1 << 40, "partition_max_bytes": MB}]}]})
        t.ok(silent.is_closed(), "a connection without a request for connections.max.idle.ms is closed")
        t.ok(partial.is_closed(), "so is one that stopped in the middle of a length")
        t.equal(parked.receive()["error_code"], 0, "one that waits for its answer is not")


def flood(t, c):
    """max.connections.per.ip=20: the 21st of one address is closed, another address has its own."""
    with contextlib.ExitStack() as stack:
        said = len(c.broker(1).log_text())
        mine = [stack.enter_context(plug(c, "127.0.0.5")) for _ in range(60)]
        wait_for(lambda: c.broker(1).log_text()[said:].count("too many connections") == 40, 10, "forty refusals")
        for s in mine:
            s.settimeout(5)
            with contextlib.suppress(ConnectionError):
                s.sendall(framed(header(18, 0)))
        served = 0
        for s in mine:
            with contextlib.suppress(ConnectionError):
                served += s.recv(1) != b""
        t.equal(served, 20, "of sixty connections of one address twenty are served")
        other = stack.enter_context(plug(c, "127.0.0.6"))
        other.sendall(framed(header(18, 0)))
        t.ok(other.recv(1) != b"", "another address is served")
        for s in mine:
            s.close()
    wait_for(lambda: sockets(c) < 15, 10, "the end of the flood")
    with plug(c, "127.0.0.5") as again:
        again.sendall(framed(header(18, 0)))
        t.ok(again.recv(1) != b"", "and the first one again when its connections are gone")


def main():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with Tap() as t, Cluster(brokers=1, properties={"queued.max.request.bytes": QUEUED_MAX}) as c:
        for name in ("t", "quiet", "big"):
            c.sql(f"SELECT broker.create_topic('{name}')")
        c.sql("SELECT broker.create_topic('wide', partitions => 200)")
        with Connection(c.bootstrap) as k:
            wait_for(lambda: k.leader("t") == k.leader("quiet") == k.leader("big") == k.leader("wide", 199) == 1, 10, "leaders")
        cases = [wrong_frames, versions_again, slow_reader, slow_fetchers, drip, bounded_memory, parked_and_gone]
        if hard > IDLE + 500:
            cases.append(many_idle)
        else:
            t.skip(f"{IDLE} idle connections", f"ulimit -Hn is {hard}")
        for case in cases:
            with t.case(case.__name__.replace("_", " ")):
                case(t, c)
        c.broker(1).properties.update({"connections.max.idle.ms": 1500, "max.connections.per.ip": 20})
        c.broker(1).restart()
        for case in (half_open, idle_ends, flood):
            with t.case(case.__name__.replace("_", " ")):
                case(t, c)
        t.note(c.logs(30) if t.failed else "")


if __name__ == "__main__":
    main()
