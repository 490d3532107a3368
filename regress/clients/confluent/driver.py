"""confluent-kafka (librdkafka) under the driver protocol."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
import confluent_kafka as ck
from confluent_kafka.admin import AdminClient, NewTopic
from driver import BOOTSTRAP, MAX_MESSAGE, canonical, event, read_records, serve

COMMON = {'bootstrap.servers': BOOTSTRAP, 'broker.address.family': 'v4', 'topic.metadata.refresh.sparse': True}


def hello(_):
    return {'version': f'{ck.version()} librdkafka {ck.libversion()[0]}', 'codecs': ['none', 'gzip', 'snappy', 'lz4', 'zstd'], 'cannot': []}


def create(c):
    admin = AdminClient(COMMON)
    for future in admin.create_topics([NewTopic(c['topic'], c['partitions'], 1, config=c['config'])]).values():
        future.result(20)


def delete(c):
    admin = AdminClient(COMMON)
    for future in admin.delete_topics([c['topic']]).values():
        future.result(20)


def metadata(c):
    found = AdminClient({**COMMON, 'allow.auto.create.topics': False}).list_topics(timeout=20)
    topic = found.topics.get(c['topic'])
    if topic is None:
        return {'missing': True}
    return {'brokers': sorted(found.brokers), 'partitions': [{'id': p.id, 'leader': p.leader} for p in topic.partitions.values()]}


def produce(c):
    failures = []
    producer = ck.Producer({**COMMON, 'compression.type': c['codec'], 'acks': c['acks'], 'enable.idempotence': c['idempotent'],
                            'message.max.bytes': MAX_MESSAGE, 'queue.buffering.max.messages': 1000000, 'linger.ms': 5})

    def delivered(error, _):
        if error:
            failures.append(str(error))

    for r in read_records(c['records']):
        producer.produce(c['topic'], partition=r.partition, key=r.key, value=r.value, headers=r.headers, timestamp=r.timestamp or 0,
                         on_delivery=delivered)
        producer.poll(0)
    left = producer.flush(30)
    if left or failures:
        raise RuntimeError(f'{left} not delivered; {failures[:1]}')


def _consumer():
    return ck.Consumer({**COMMON, 'group.id': 'unused', 'enable.auto.commit': False, 'auto.offset.reset': 'error',
                        'enable.partition.eof': False})


def consume(c):
    waiting = {int(p): end for p, end in c['to'].items() if end > c['from'][p]}
    consumer = _consumer()
    consumer.assign([ck.TopicPartition(c['topic'], p, c['from'][str(p)]) for p in waiting])
    with open(c['out'], 'w') as out:
        while waiting:
            for m in consumer.consume(500, 0.5):
                if m.error():
                    raise RuntimeError(str(m.error()))
                if m.partition() not in waiting:
                    continue
                out.write(canonical(m.partition(), m.offset(), m.timestamp()[1], m.key(), m.value(), m.headers() or []))
                if m.offset() + 1 >= waiting[m.partition()]:
                    del waiting[m.partition()]
    consumer.close()


def offsets(c):
    consumer = _consumer()
    try:
        if c['at'] in ('earliest', 'latest'):
            low, high = consumer.get_watermark_offsets(ck.TopicPartition(c['topic'], c['partition']), timeout=20, cached=False)
            return {'offset': low if c['at'] == 'earliest' else high}
        found = consumer.offsets_for_times([ck.TopicPartition(c['topic'], c['partition'], c['at'])], timeout=20)[0]
        return {'offset': found.offset if found.offset >= 0 else -1}
    finally:
        consumer.close()


def group(c, emit, ended):
    consumer = ck.Consumer({**COMMON, 'group.id': c['group'], 'partition.assignment.strategy': c['assignor'], 'auto.offset.reset': 'earliest',
                            'session.timeout.ms': c['session'], 'heartbeat.interval.ms': 500, 'auto.commit.interval.ms': 200})

    def tell(kind):
        return lambda _, partitions: emit(event(kind, [p.partition for p in partitions]))

    consumer.subscribe([c['topic']], on_assign=tell('assigned'), on_revoke=tell('revoked'), on_lost=tell('revoked'))
    while not ended.is_set():
        for m in consumer.consume(100, 0.1):
            if not m.error():
                emit(event('records', m.partition(), None, [m.offset()]))
    consumer.close()


if __name__ == '__main__':
    serve({'hello': hello, 'create': create, 'delete': delete, 'metadata': metadata, 'produce': produce, 'consume': consume,
           'offsets': offsets, 'group': group})
