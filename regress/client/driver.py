"""libpgbroker and brokerctl under the driver protocol of regress/clients, so that they pass what the other clients pass."""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "clients", "lib"), HERE]
import pgbroker
from driver import BOOTSTRAP, MAX_MESSAGE, canonical, event, read_records, serve

COMMON = {"bootstrap.servers": BOOTSTRAP}


def ctl(*args):
    return pgbroker.brokerctl(*args, bootstrap=BOOTSTRAP)


def hello(_):
    return {"version": f"libpgbroker {pgbroker.lib.pgb_version().decode()}", "codecs": ["none", "gzip", "snappy", "lz4", "zstd"], "cannot": []}


def create(c):
    configs = [word for key, value in c["config"].items() for word in ("-c", f"{key}={value}")]
    ctl("topics", "create", c["topic"], "-P", str(c["partitions"]), "-r", "1", *configs)


def delete(c):
    ctl("topics", "delete", c["topic"])


def metadata(c):
    code, out, err = pgbroker.brokerctl("topics", "describe", c["topic"], "--json", bootstrap=BOOTSTRAP, check_code=False)
    if code == 4:
        return {"missing": True}
    if code:
        raise RuntimeError(err)
    brokers = [json.loads(line)["broker"] for line in ctl("cluster", "--json").splitlines()]
    rows = [json.loads(line) for line in out.splitlines()]
    return {"brokers": sorted(brokers), "partitions": [{"id": r["partition"], "leader": r["leader"]} for r in rows]}


def produce(c):
    p = pgbroker.Producer({**COMMON, "compression.type": c["codec"], "acks": c["acks"], "max.request.size": MAX_MESSAGE,
                           "enable.idempotence": "true" if c["idempotent"] else "false"})
    for r in read_records(c["records"]):
        p.produce(c["topic"], r.value, r.key, r.partition, -1 if r.timestamp is None else r.timestamp, r.headers)
    left = p.close(30000)
    failures = [str(error) for *_, error, _ in p.reports if error]
    if left or failures:
        raise RuntimeError(f"{left} not delivered; {failures[:1]}")


def consume(c):
    waiting = {int(p): end for p, end in c["to"].items() if end > c["from"][p]}
    consumer = pgbroker.Consumer(COMMON)
    consumer.assign(*((c["topic"], p, c["from"][str(p)]) for p in waiting))
    with open(c["out"], "w", encoding="utf-8") as out:
        while waiting:
            for _, p, offset, timestamp, key, value, headers in consumer.poll(500):
                if p not in waiting:
                    continue
                out.write(canonical(p, offset, timestamp, key, value, headers))
                if offset + 1 >= waiting[p]:
                    del waiting[p]
    consumer.close()


def offsets(c):
    consumer = pgbroker.Consumer(COMMON)
    at = {"earliest": pgbroker.EARLIEST, "latest": pgbroker.LATEST}.get(c["at"], c["at"])
    try:
        return {"offset": max(consumer.offsets((c["topic"], c["partition"], at))[0], -1)}
    finally:
        consumer.close()


def group(c, emit, ended):
    def tell(what, items):
        emit(event("assigned" if what == "assigned" else "revoked", [p for _, p in items]))

    consumer = pgbroker.Consumer({**COMMON, "group.id": c["group"], "partition.assignment.strategy": c["assignor"],
                                  "auto.offset.reset": "earliest", "session.timeout.ms": c["session"],
                                  "heartbeat.interval.ms": 500, "auto.commit.interval.ms": 200}, tell)
    consumer.subscribe(c["topic"])
    while not ended.is_set():
        try:
            for record in consumer.poll(100):
                emit(event("records", record[1], None, [record[2]]))
        except pgbroker.Failure as e:
            emit({"e": "error", "error": str(e)})
    consumer.close()


if __name__ == "__main__":
    serve({"hello": hello, "create": create, "delete": delete, "metadata": metadata, "produce": produce, "consume": consume,
           "offsets": offsets, "group": group})
