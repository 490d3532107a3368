// @platformatic/kafka under the driver protocol.
'use strict'
const fs = require('node:fs')
const { createRequire } = require('node:module')
const path = require('node:path')
const { batches, bootstrap, canonical, event, readRecords, serve } = require('../lib/driver.js')
const from = createRequire(path.join(process.env.NODE_MODULES, '..', 'driver.js'))
const { Admin, Consumer, Producer } = from('@platformatic/kafka')

const common = { clientId: 'platformatic', bootstrapBrokers: [bootstrap], retries: 5 }

async function withClient (client, use) {
  try {
    return await use(client)
  } finally {
    await client.close()
  }
}

const withAdmin = use => withClient(new Admin(common), use)
const withConsumer = use => withClient(new Consumer({ ...common, groupId: 'unused' }), use)

// One partition, by single fetches of the leader: no group is joined.
async function readPartition (consumer, topic, partition, offset, end, take) {
  const metadata = await consumer.metadata({ topics: [topic] })
  const { id, partitions } = metadata.topics.get(topic)
  while (offset < end) {
    const response = await consumer.fetch({
      node: partitions[partition].leader,
      maxWaitTime: 500,
      minBytes: 1,
      maxBytes: 10485760,
      isolationLevel: 0,
      topics: [{
        topicId: id,
        partitions: [{ partition, currentLeaderEpoch: -1, fetchOffset: BigInt(offset), lastFetchedEpoch: -1, partitionMaxBytes: 1048576 }]
      }]
    })
    for (const { partitions: answers } of response.responses) {
      for (const batch of answers[0].records || []) {
        for (const r of batch.records) {
          const at = Number(batch.firstOffset) + r.offsetDelta
          if (at < offset || at >= end) continue
          take(at, batch.firstTimestamp + r.timestampDelta, r)
          offset = at + 1
        }
      }
    }
  }
}

const handlers = {
  hello: () => ({
    version: JSON.parse(fs.readFileSync(path.join(process.env.NODE_MODULES, '@platformatic/kafka/package.json'))).version,
    codecs: ['none', 'gzip', 'snappy', 'lz4', 'zstd'],
    cannot: []
  }),

  create: c => withAdmin(admin => admin.createTopics({
    topics: [c.topic],
    partitions: c.partitions,
    replicas: 1,
    configs: Object.entries(c.config).map(([name, value]) => ({ name, value }))
  })).then(() => ({})),

  delete: c => withAdmin(admin => admin.deleteTopics({ topics: [c.topic] })),

  metadata: c => withAdmin(async admin => {
    if (!(await admin.listTopics()).includes(c.topic)) return { missing: true }
    let found
    try {
      found = await admin.metadata({ topics: [c.topic], forceUpdate: true })
    } catch (e) {
      if (/Unknown topic/.test(e.message)) return { missing: true } // deleted since it was listed
      throw e
    }
    const { brokers, topics } = found
    return {
      brokers: [...brokers.keys()].sort(),
      partitions: topics.get(c.topic).partitions.map((p, id) => ({ id, leader: p.leader }))
    }
  }),

  produce: c => withClient(new Producer({ ...common, idempotent: c.idempotent, acks: c.acks, compression: c.codec }), async producer => {
    const messages = readRecords(c.records).map(r => ({
      topic: c.topic,
      partition: r.partition,
      key: r.key,
      value: r.value,
      headers: new Map(r.headers.map(([k, v]) => [Buffer.from(k), v])),
      timestamp: r.timestamp === null ? undefined : BigInt(r.timestamp)
    }))
    for (const batch of batches(messages)) await producer.send({ messages: batch })
  }),

  consume: c => withConsumer(async consumer => {
    let lines = ''
    for (const [p, end] of Object.entries(c.to)) {
      await readPartition(consumer, c.topic, Number(p), c.from[p], end, (offset, timestamp, r) => {
        lines += canonical(p, offset, timestamp, r.key, r.value, r.headers)
      })
    }
    fs.writeFileSync(c.out, lines)
  }),

  offsets: c => withConsumer(async consumer => {
    const timestamp = c.at === 'earliest' ? -2n : c.at === 'latest' ? -1n : BigInt(c.at)
    const found = await consumer.listOffsets({ topics: [c.topic], partitions: { [c.topic]: [c.partition] }, timestamp })
    return { offset: Number(found.get(c.topic)[c.partition]) }
  }),

  group: async (c, emit, ended) => {
    const consumer = new Consumer({
      ...common, groupId: c.group, sessionTimeout: c.session, rebalanceTimeout: 10000, heartbeatInterval: 500
    })
    const mine = assignments => (assignments || []).filter(a => a.topic === c.topic).flatMap(a => a.partitions)
    consumer.on('consumer:group:join', e => emit(event('assignment', mine(e.assignments), e.generationId)))
    consumer.on('consumer:group:rebalance', () => emit(event('assignment', [])))
    const stream = await consumer.consume({ topics: [c.topic], mode: 'committed', fallbackMode: 'earliest', autocommit: 200, maxWaitTime: 200 })
    stream.on('data', m => emit(event('records', m.partition, null, [Number(m.offset)])))
    await ended
    await stream.close()
    await consumer.close(true)
  }
}

serve(handlers)
