"""aiokafka under the driver protocol."""
import asyncio
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
import aiokafka
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from driver import BOOTSTRAP, MAX_MESSAGE, canonical, event, read_records, serve

TP = aiokafka.TopicPartition


def hello(_):
    return {'version': aiokafka.__version__, 'codecs': ['none', 'gzip', 'snappy', 'lz4', 'zstd'], 'cannot': ['write-null-both']}


def check(response):
    for name, code, *rest in getattr(response, 'topic_errors', None) or response.topic_error_codes:
        if code:
            raise RuntimeError(f'{name}: error {code} {rest}')


async def with_client(client, use):
    await client.start()
    try:
        return await use(client)
    finally:
        await (client.close() if isinstance(client, AIOKafkaAdminClient) else client.stop())


def with_admin(use):
    return asyncio.run(_made(lambda: AIOKafkaAdminClient(bootstrap_servers=BOOTSTRAP), use))


async def _made(make, use):
    return await with_client(make(), use)       # a client belongs to the loop that runs when it is made


def create(c):
    topic = NewTopic(c['topic'], c['partitions'], 1, topic_configs=c['config'])

    async def use(admin):
        check(await admin.create_topics([topic]))
    with_admin(use)


def delete(c):
    async def use(admin):
        check(await admin.delete_topics([c['topic']]))
    with_admin(use)


def metadata(c):
    async def use(admin):
        cluster = await admin.describe_cluster()
        if c['topic'] not in await admin.list_topics():
            return {'missing': True}
        topic = (await admin.describe_topics([c['topic']]))[0]
        return {'brokers': sorted(b['node_id'] for b in cluster['brokers']),
                'partitions': [{'id': p['partition'], 'leader': p['leader']} for p in topic['partitions']]}
    return with_admin(use)


def produce(c):
    async def use(producer):
        futures = [await producer.send(c['topic'], r.value, r.key, r.partition, r.timestamp, r.headers)
                   for r in read_records(c['records'])]
        await asyncio.gather(*futures)

    asyncio.run(_made(lambda: aiokafka.AIOKafkaProducer(
        bootstrap_servers=BOOTSTRAP, compression_type=None if c['codec'] == 'none' else c['codec'],
        acks='all' if c['acks'] == -1 else c['acks'], enable_idempotence=c['idempotent'], max_request_size=MAX_MESSAGE, linger_ms=5), use))


def with_consumer(use):
    return asyncio.run(_made(lambda: aiokafka.AIOKafkaConsumer(
        bootstrap_servers=BOOTSTRAP, enable_auto_commit=False, auto_offset_reset='none'), use))


def consume(c):
    async def use(consumer):
        waiting = {TP(c['topic'], int(p)): end for p, end in c['to'].items() if end > c['from'][p]}
        consumer.assign(list(waiting))
        for tp in waiting:
            consumer.seek(tp, c['from'][str(tp.partition)])
        with open(c['out'], 'w') as out:
            while waiting:
                for tp, records in (await consumer.getmany(timeout_ms=500)).items():
                    for m in records:
                        if tp in waiting:
                            out.write(canonical(m.partition, m.offset, m.timestamp, m.key, m.value, m.headers))
                            if m.offset + 1 >= waiting[tp]:
                                del waiting[tp]
    with_consumer(use)


def offsets(c):
    async def use(consumer):
        tp = TP(c['topic'], c['partition'])
        if c['at'] == 'earliest':
            return {'offset': (await consumer.beginning_offsets([tp]))[tp]}
        if c['at'] == 'latest':
            return {'offset': (await consumer.end_offsets([tp]))[tp]}
        found = (await consumer.offsets_for_times({tp: c['at']}))[tp]
        return {'offset': found.offset if found else -1}
    return with_consumer(use)


ASSIGNORS = {'range': RangePartitionAssignor, 'roundrobin': RoundRobinPartitionAssignor, 'sticky': StickyPartitionAssignor}


def group(c, emit, ended):
    class Listener(aiokafka.ConsumerRebalanceListener):
        async def on_partitions_revoked(self, revoked):
            emit(event('revoked', [tp.partition for tp in revoked]))

        async def on_partitions_assigned(self, assigned):
            emit(event('assigned', [tp.partition for tp in assigned]))

    async def use(consumer):
        consumer.subscribe([c['topic']], listener=Listener())
        while not ended.is_set():
            for tp, records in (await consumer.getmany(timeout_ms=100)).items():
                emit(event('records', tp.partition, None, [m.offset for m in records]))

    asyncio.run(_made(lambda: aiokafka.AIOKafkaConsumer(
        bootstrap_servers=BOOTSTRAP, group_id=c['group'], auto_offset_reset='earliest', session_timeout_ms=c['session'],
        heartbeat_interval_ms=500, auto_commit_interval_ms=200, partition_assignment_strategy=[ASSIGNORS[c['assignor']]]), use))


if __name__ == '__main__':
    serve({'hello': hello, 'create': create, 'delete': delete, 'metadata': metadata, 'produce': produce, 'consume': consume,
           'offsets': offsets, 'group': group})
