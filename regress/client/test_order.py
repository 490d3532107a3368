#!/usr/bin/env python3
"""A partition whose leader is not quite one yet: it refuses the first batch, and would take the second, since a broker that
knows nothing of a producer takes any sequence.  So nothing may follow the first batch until that one is acknowledged.

The broker is one of our own: what a real one does in the moment after a topic was made, it does each time.
"""
import os
import select
import socket
import struct
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "lib"), os.path.dirname(os.path.dirname(HERE))]
from pgbroker import Producer
from tap import Tap
from wire.schema import codec

NOT_LEADER_OR_FOLLOWER = 6
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
            frame = codec.encode_response(name, version, correlation, answer)
            connection.sendall(struct.pack(">i", len(frame)) + frame)
        connection.close()

    def apiversions(self, *_):
        return {"error_code": 0, "api_keys": [{"api_key": codec.api(name).key, "min_version": 0, "max_version": most}
                                              for name, most in APIS.items()]}

    def metadata(self, request, *_):
        partition = {"error_code": 0, "partition_index": 0, "leader_id": 1, "leader_epoch": 0, "replica_nodes": [1], "isr_nodes": [1]}
        return {"brokers": [{"node_id": 1, "host": "127.0.0.1", "port": self.port}], "controller_id": 1,
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
        return {"responses": [{"name": request["topic_data"][0]["name"], "partition_responses": [
            {"index": 0, "error_code": error, "base_offset": -1 if error else sequence}]}]}


def main():
    with Tap() as t:
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
