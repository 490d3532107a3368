"""The compacted topic at the end: read back from its leaders, and compared on its replicas."""
import keyed
import keyed_checker
import keyed_replicas
import replicas
from kafka_client import Connection, KafkaError


def fetch(connection, topic, partition, offset):
    """The bytes of batches from `offset` on, and the high watermark."""
    answer = connection.call("Fetch", 11, {
        "replica_id": -1, "max_wait_ms": 0, "min_bytes": 1, "max_bytes": 50 << 20, "isolation_level": 0,
        "session_id": 0, "session_epoch": -1, "rack_id": "", "topics": [{"topic": topic, "partitions": [
            {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 4 << 20}]}]})
    row = answer["responses"][0]["partitions"][0] if not answer["error_code"] else answer
    if row["error_code"]:
        raise KafkaError(row["error_code"])
    return row["records"] or b"", row["high_watermark"]


def read_partition(address, topic, partition):
    """[(offset, sequence or None)] and where it ends.  Batches without records end what is left of a segment."""
    rows, at = [], 0
    with Connection(address, timeout=30) as k:
        while True:
            data, high_watermark = fetch(k, topic, partition, at)
            batches = replicas.split(data)
            if not batches:
                break
            rows += [(r.offset, keyed.parse(r.key, r.value, r.headers, partition)) for r in keyed_replicas.records(data) if r.offset >= at]
            at = batches[-1][1]
    if at != high_watermark:
        raise EOFError(f"partition {partition} can be read to {at}, its high watermark is {high_watermark}")
    return rows, at


def read_back(stage, topic, partitions):
    log, ends = {}, {}
    with Connection(stage.broker(1).address) as k:
        leaders = {p: k.leader(topic, p) for p in range(partitions)}
    for partition, leader in leaders.items():
        log[partition], ends[partition] = read_partition(stage.broker(leader).address, topic, partition)
    return log, ends


def differing(stage, topic, ends):
    wrong = []
    for partition, end in ends.items():
        try:
            logs = {b.id: keyed_replicas.read(b.data, topic, partition) for b in stage.brokers.values()}
        except keyed_replicas.Moving as moving:
            wrong.append(f"{moving} changes while it is read")
            continue
        wrong += [f"{topic} partition {partition}: {what}" for what in keyed_replicas.compare(logs, end)]
    return wrong


def history(account, log):
    """From what the workload wrote."""
    return keyed_checker.History({int(p): n for p, n in account["sent"].items()}, account["acks"], log,
                                 {int(p): dict(rows) for p, rows in account["seen"].items()})
