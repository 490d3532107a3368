"""Watches what clients are told of high watermarks: they do not go back, and no record at or beyond one is given out.

ListOffsets is asked with the leader epoch that Metadata gave, so a leader that has been replaced cannot answer once
its successor was heard of; the successor answers OFFSET_NOT_AVAILABLE until it knows as much (KIP-207).  In Fetch the
high watermark of a new leader may be behind for a moment, as in Kafka: within one epoch it does not go back.
"""
import threading

from kafka_client import Connection, records

LATEST = -1
REFUSALS = (5, 6, 74, 76, 78)  # no leader, not leader, fenced or unknown epoch, not available yet


class Watcher(threading.Thread):
    def __init__(self, options):
        super().__init__(daemon=True)
        self.options = options
        self.count = 0
        self.connections = {}
        self.leaders = {}   # partition: (leader epoch, broker id)
        self.brokers = {}   # id: address
        self.latest = {}    # partition: offset
        self.fetched = {}   # (partition, leader epoch): high watermark

    def ask(self, address, *request):
        try:
            if address not in self.connections:
                self.connections[address] = Connection(address, timeout=1)
            return self.connections[address].call(*request)
        except (OSError, AssertionError):
            connection = self.connections.pop(address, None)
            if connection:
                connection.socket.close()
            return None

    def learn(self):
        """Metadata of everybody: the highest leader epoch wins."""
        for address in self.options.bootstrap.split(","):
            answer = self.ask(address, "Metadata", 9, {"topics": [{"name": self.options.topic}], "allow_auto_topic_creation": False})
            if answer is None:
                continue
            self.brokers.update({b["node_id"]: f"{b['host']}:{b['port']}" for b in answer["brokers"]})
            for row in answer["topics"][0]["partitions"]:
                known = (row["leader_epoch"], row["leader_id"])
                if row["leader_id"] >= 0 and known > self.leaders.get(row["partition_index"], (-1, -1)):
                    self.leaders[row["partition_index"]] = known

    def watch(self, partition):
        epoch, leader = self.leaders[partition]
        topic = self.options.topic
        answer = self.ask(self.brokers.get(leader), "ListOffsets", 7, {
            "replica_id": -1, "isolation_level": 0, "topics": [{"name": topic, "partitions": [
                {"partition_index": partition, "current_leader_epoch": epoch, "timestamp": LATEST}]}]})
        if answer is None:
            return False
        row = answer["topics"][0]["partitions"][0]
        if row["error_code"]:
            return row["error_code"] not in REFUSALS
        before = self.latest.get(partition, 0)
        if row["offset"] < before:
            self.options.faults.add("hw-back", f"partition {partition}: ListOffsets said {before}, then {row['offset']} in epoch {epoch}")
        self.latest[partition] = row["offset"]
        self.count += 1
        return self.watch_fetch(partition, epoch, leader, max(0, row["offset"] - 1))

    def watch_fetch(self, partition, epoch, leader, offset):
        answer = self.ask(self.brokers.get(leader), "Fetch", 11, {
            "replica_id": -1, "max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "isolation_level": 0,
            "session_id": 0, "session_epoch": -1, "rack_id": "", "topics": [{"topic": self.options.topic, "partitions": [
                {"partition": partition, "current_leader_epoch": epoch, "fetch_offset": offset, "partition_max_bytes": 1 << 20}]}]})
        if answer is None or answer["error_code"] or not answer["responses"]:
            return False
        row = answer["responses"][0]["partitions"][0]
        if row["error_code"]:
            return False
        watermark, before = row["high_watermark"], self.fetched.get((partition, epoch), 0)
        if watermark < before:
            self.options.faults.add("hw-back", f"partition {partition} epoch {epoch}: Fetch said {before}, then {watermark}")
        self.fetched[partition, epoch] = watermark
        beyond = [at for at, _ in records(row["records"] or b"") if at >= watermark]
        if beyond:
            self.options.faults.add("beyond-hw", f"partition {partition} epoch {epoch}: {beyond[0]} given out at high watermark {watermark}")
        return True

    def run(self):
        while not self.options.stopping.is_set():
            fine = len(self.leaders) == self.options.partitions
            for partition in list(self.leaders):
                fine = self.watch(partition) and fine
            if not fine:
                self.learn()
            self.options.stopping.wait(0.1)
