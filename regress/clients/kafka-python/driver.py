"""kafka-python under the driver protocol."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
import kafka
from driver import BOOTSTRAP, MAX_MESSAGE, canonical, event, read_records, serve
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.structs import TopicPartition


def hello(_):
    return {'version': kafka.__version__, 'codecs': ['none', 'gzip', 'snappy', 'lz4', 'zstd'], 'cannot': ['write-null-both', 'write-header-null']}


def admin():
    return kafka.KafkaAdminClient(bootstrap_servers=BOOTSTRAP)


def create(c):
    client = admin()
    client.create_topics({c['topic']: {'num_partitions': c['partitions'], 'replication_factor': 1, 'configs': c['config']}})
    client.close()


def delete(c):
    client = admin()
    client.delete_topics([c['topic']])
    client.close()


def metadata(c):
    client = admin()
    try:
        cluster = client.describe_cluster()
        brokers = [b['node_id'] if 'node_id' in b else b['broker_id'] for b in cluster['brokers']]
        if c['topic'] not in client.list_topics():
            return {'missing': True}
        topic = client.describe_topics([c['topic']])[0]
        partitions = [{'id': p['partition_index'], 'leader': p['leader_id']} for p in topic['partitions']]
        return {'brokers': sorted(brokers), 'partitions': partitions}
    finally:
        client.close()


def produce(c):
    producer = kafka.KafkaProducer(bootstrap_servers=BOOTSTRAP, compression_type=None if c['codec'] == 'none' else c['codec'],
                                   acks=c['acks'], enable_idempotence=c['idempotent'], max_request_size=MAX_MESSAGE, linger_ms=5)
    futures = [producer.send(c['topic'], r.value, r.key, r.headers, r.partition, r.timestamp) for r in read_records(c['records'])]
    producer.flush(30)
    for future in futures:
        future.get(30)
    producer.close()


def consumer():
    return kafka.KafkaConsumer(bootstrap_servers=BOOTSTRAP, enable_auto_commit=False, auto_offset_reset='none', max_poll_records=5000)


def consume(c):
    waiting = {TopicPartition(c['topic'], int(p)): end for p, end in c['to'].items() if end > c['from'][p]}
    client = consumer()
    client.assign(list(waiting))
    for tp in waiting:
        client.seek(tp, c['from'][str(tp.partition)])
    with open(c['out'], 'w') as out:
        while waiting:
            for tp, records in client.poll(500).items():
                for m in records:
                    if tp in waiting:
                        out.write(canonical(m.partition, m.offset, m.timestamp, m.key, m.value, m.headers))
                        if m.offset + 1 >= waiting[tp]:
                            del waiting[tp]
    client.close()


def offsets(c):
    tp = TopicPartition(c['topic'], c['partition'])
    client = consumer()
    try:
        if c['at'] == 'earliest':
            return {'offset': client.beginning_offsets([tp])[tp]}
        if c['at'] == 'latest':
            return {'offset': client.end_offsets([tp])[tp]}
        found = client.offsets_for_times({tp: c['at']})[tp]
        return {'offset': found.offset if found else -1}
    finally:
        client.close()


ASSIGNORS = {'range': RangePartitionAssignor, 'roundrobin': RoundRobinPartitionAssignor}


def group(c, emit, ended):
    client = kafka.KafkaConsumer(bootstrap_servers=BOOTSTRAP, group_id=c['group'], auto_offset_reset='earliest',
                                 partition_assignment_strategy=[ASSIGNORS[c['assignor']]], session_timeout_ms=c['session'],
                                 heartbeat_interval_ms=500, auto_commit_interval_ms=200)

    class Listener(kafka.ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked):
            emit(event('revoked', [tp.partition for tp in revoked]))

        def on_partitions_assigned(self, assigned):
            emit(event('assigned', [tp.partition for tp in assigned]))

    client.subscribe([c['topic']], listener=Listener())
    while not ended.is_set():
        for tp, records in client.poll(100).items():
            emit(event('records', tp.partition, None, [m.offset for m in records]))
    client.close()


if __name__ == '__main__':
    serve({'hello': hello, 'create': create, 'delete': delete, 'metadata': metadata, 'produce': produce, 'consume': consume,
           'offsets': offsets, 'group': group})
