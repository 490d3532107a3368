#!/usr/bin/env python3
"""A partition whose leader is not quite one yet: it refuses the first batch, and would take the second, since a broker that
knows nothing of a producer takes any sequence.  So nothing may follow the first batch until that one is acknowledged.

A leader that has a batch and is replaced before it answers: its successor knows the last five batches of a producer, so the
sixth may not be sent before the first is sent again.

The brokers are our own: what real ones do at such a moment, they do each time.
"""
import os
import select
import socket
import struct
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "lib"), os.path.dirname(os.path.dirname(HERE))]
from both import until
from kafka_client import records
from pgbroker import Producer
from tap import Tap
from wire.schema import codec

NOT_LEADER_OR_FOLLOWER, OUT_OF_ORDER_SEQUENCE_NUMBER = 6, 45
APIS = {"Produce": 9, "Metadata": 9, "ApiVersions": 3, "InitProducerId": 4}


class Broker(threading.Thread):
    """Leads one partition, but for its first batch.  `log` has the sequences of those that it took, in its order."""

    def __init__(self):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.lock, self.refused, self.log = threading.Lock(), False, []

    def run(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        read = connection.makefile("rb")
        while len(size := read.read(4)) == 4:
            name, version, correlation, _, request = codec.decode_request(read.read(*struct.unpack(">i", size)))
            answer = getattr(self, name.lower())(request, connection)
            if answer is None:
                continue
            frame = codec.encode_response(name, version, correlation, answer)
            connection.sendall(struct.pack(">i", len(frame)) + frame)
        connection.close()

    def apiversions(self, *_):
        return {"error_code": 0, "api_keys": [{"api_key": codec.api(name).key, "min_version": 0, "max_version": most}
                                              for name, most in APIS.items()]}

    def metadata(self, request, *_):
        partition = {"error_code": 0, "partition_index": 0, "leader_id": 1, "leader_epoch": 0, "replica_nodes": [1], "isr_nodes": [1]}
        return self.metadata_of(request, partition, [self.port])

    @staticmethod
    def metadata_of(request, partition, ports):
        brokers = [{"node_id": n, "host": "127.0.0.1", "port": port} for n, port in enumerate(ports, 1)]
        return {"brokers": brokers, "controller_id": 1,
                "topics": [{"error_code": 0, "name": t["name"], "partitions": [partition]} for t in request["topics"] or []]}

    def initproducerid(self, *_):
        return {"error_code": 0, "producer_id": 1, "producer_epoch": 0}

    def produce(self, request, connection):
        data = request["topic_data"][0]["partition_data"][0]
        error, (sequence,) = 0, struct.unpack(">i", data["records"][53:57])
        with self.lock:
            if self.refused:
                self.log.append(sequence)
            else:
                self.refused, error = True, NOT_LEADER_OR_FOLLOWER
                # Who sends several at once has sent the next when this one is answered.
                select.select([connection], [], [], 0.3)
        return self.produced(request, error, sequence)

    @staticmethod
    def produced(request, error, offset):
        return {"responses": [{"name": request["topic_data"][0]["name"], "partition_responses": [
            {"index": 0, "error_code": error, "base_offset": -1 if error else offset}]}]}


class Log:
    """Of a partition on two replicas.  The first one is the leader until it has three batches; it says nothing of the third."""

    def __init__(self):
        self.lock, self.leader, self.values, self.recent, self.next = threading.Lock(), 1, [], [], (0, 0)
        self.asked = self.refused = False
        self.replicas = [Replica(self, node) for node in (1, 2)]

    def take(self, data):
        """An error code."""
        epoch, sequence, count = struct.unpack(">hii", data[51:61])
        if (epoch, sequence) in self.recent:
            return 0
        if (epoch, sequence) not in (self.next, (self.next[0] + 1, 0)):
            self.refused = True
            return OUT_OF_ORDER_SEQUENCE_NUMBER
        self.recent = [*self.recent[-4:], (epoch, sequence)]
        self.next = epoch, sequence + count
        self.values += [int(value) for _, value in records(data)]
        return 0


class Replica(Broker):
    def __init__(self, log, node):
        super().__init__()
        self.log, self.node = log, node

    def metadata(self, request, *_):
        partition = {"error_code": 0, "partition_index": 0, "leader_id": self.log.leader, "leader_epoch": self.log.leader,
                     "replica_nodes": [1, 2], "isr_nodes": [1, 2]}
        self.log.asked = self.log.leader == 2
        return self.metadata_of(request, partition, [replica.port for replica in self.log.replicas])

    def produce(self, request, connection):
        with self.log.lock:
            if self.node != self.log.leader:
                return None if self.node == 1 else self.produced(request, NOT_LEADER_OR_FOLLOWER, -1)
            error = self.log.take(request["topic_data"][0]["partition_data"][0]["records"])
            if self.node == 1 and len(self.log.recent) == 3:
                self.log.leader = 2
                return None
            return self.produced(request, error, len(self.log.values))


def replaced(t):
    log, messages = Log(), 80
    for replica in log.replicas:
        replica.start()
    with t.case("what a leader has taken that was replaced before it answered is not written again"):
        p = Producer({"bootstrap.servers": f"127.0.0.1:{log.replicas[0].port}", "linger.ms": 0, "batch.size": 100, "retry.backoff.ms": 20,
                      "metadata.max.age.ms": 100, "request.timeout.ms": 1000})
        for i in range(messages):
            p.produce("t", b"%060d" % i, partition=0)
            # One at a time until the first one is silent, and nothing more to that one.
            if i < 2:
                until(lambda: p.work(20) and len(p.reports) > i)
            elif i == 2:
                until(lambda: (p.work(20), log.asked)[1])
                p.work(200)
            p.work(20)
        assert p.close(20000) == 0
        assert log.leader == 2 and log.values == list(range(messages)), f"the messages that are there: {log.values}"
        assert not log.refused, "a sequence was refused"
    for replica in log.replicas:
        replica.listener.close()


def main():
    with Tap() as t:
        replaced(t)
        broker = Broker()
        broker.start()
        with t.case("a batch is not overtaken while the leader is not quite one yet"):
            p = Producer({"bootstrap.servers": f"127.0.0.1:{broker.port}", "linger.ms": 0, "batch.size": 100, "retry.backoff.ms": 20})
            for i in range(50):
                p.produce("t", b"%d" % i, partition=0)
                p.work(0)
            assert p.close(20000) == 0
            assert len(broker.log) > 5 and broker.log == sorted(set(broker.log)), f"the order of sequences: {broker.log}"
        broker.listener.close()


if __name__ == "__main__":
    main()
