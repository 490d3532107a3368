// kafkajs under the driver protocol.
'use strict'
const fs = require('node:fs')
const { createRequire } = require('node:module')
const path = require('node:path')
const zlib = require('node:zlib')
const { batches, bootstrap, canonical, event, readRecords, serve } = require('../lib/driver.js')
const from = createRequire(path.join(process.env.NODE_MODULES, '..', 'driver.js'))
const { CompressionCodecs, CompressionTypes, Kafka, logLevel } = from('kafkajs')
const lz4 = from('lz4-napi')

// kafkajs brings only gzip; the others are what its documentation tells its users to plug in.
CompressionCodecs[CompressionTypes.Snappy] = from('kafkajs-snappy')
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: encoder => lz4.compressFrame(encoder.buffer),
  decompress: buffer => lz4.decompressFrame(buffer)
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async encoder => zlib.zstdCompressSync(encoder.buffer),
  decompress: async buffer => zlib.zstdDecompressSync(buffer)
})
const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD
}

const kafka = new Kafka({ clientId: 'kafkajs', brokers: [bootstrap], logLevel: logLevel.NOTHING })

async function withClient (client, use) {
  await client.connect()
  try {
    return await use(client)
  } finally {
    await client.disconnect()
  }
}

// Its public consumer reads in groups only.  What a group needs is tested in ../groups; here the same requests are sent and
// decoded by the layer below it.
function makeCluster () {
  const symbol = Object.getOwnPropertySymbols(kafka).find(s => s.description === 'private:Kafka:createCluster')
  return kafka[symbol]({ metadataMaxAge: 300000, isolationLevel: 0 })
}

async function readPartition (cluster, topic, partition, offset, end, take) {
  const { leader } = cluster.findTopicPartitionMetadata(topic).find(p => p.partitionId === partition)
  const broker = await cluster.findBroker({ nodeId: leader })
  while (offset < end) {
    const partitions = [{ partition, fetchOffset: String(offset), maxBytes: 1048576 }]
    const { responses } = await broker.fetch({ isolationLevel: 0, maxWaitTime: 500, topics: [{ topic, partitions }] })
    for (const m of responses[0].partitions[0].messages) {
      if (Number(m.offset) < offset || Number(m.offset) >= end) continue
      take(m)
      offset = Number(m.offset) + 1
    }
  }
}

const withAdmin = use => withClient(kafka.admin(), use)

const handlers = {
  hello: () => ({
    version: from('kafkajs/package.json').version,
    codecs: Object.keys(CODECS),
    cannot: ['write-header-null', 'header-order']
  }),

  create: c => withAdmin(admin => admin.createTopics({
    topics: [{
      topic: c.topic,
      numPartitions: c.partitions,
      replicationFactor: 1,
      configEntries: Object.entries(c.config).map(([name, value]) => ({ name, value }))
    }]
  })),

  delete: c => withAdmin(admin => admin.deleteTopics({ topics: [c.topic] })),

  metadata: c => withAdmin(async admin => {
    const { brokers } = await admin.describeCluster()
    const isListed = async () => (await admin.listTopics()).includes(c.topic)
    if (!(await isListed())) return { missing: true }
    try {
      const { topics } = await admin.fetchTopicMetadata({ topics: [c.topic] })
      return {
        brokers: brokers.map(b => b.nodeId).sort(),
        partitions: topics[0].partitions.map(p => ({ id: p.partitionId, leader: p.leader }))
      }
    } catch (e) {
      if (!(await isListed())) return { missing: true } // deleted in between
      throw e
    }
  }),

  produce: c => withClient(kafka.producer({ idempotent: c.idempotent, retry: { retries: 5 } }), async producer => {
    const messages = readRecords(c.records).map(r => {
      const headers = {}
      for (const [k, v] of r.headers) headers[k] = k in headers ? [].concat(headers[k], [v]) : v
      const timestamp = r.timestamp === null ? undefined : String(r.timestamp)
      return { partition: r.partition, key: r.key, value: r.value, headers, timestamp }
    })
    for (const batch of batches(messages)) {
      await producer.send({ topic: c.topic, acks: c.acks, compression: CODECS[c.codec], messages: batch })
    }
  }),

  consume: c => withClient(makeCluster(), async cluster => {
    let lines = ''
    await cluster.addTargetTopic(c.topic)
    await cluster.refreshMetadataIfNecessary()
    for (const [p, end] of Object.entries(c.to)) {
      await readPartition(cluster, c.topic, Number(p), c.from[p], end, m => {
        const headers = Object.entries(m.headers).flatMap(([k, v]) => [].concat(v).map(x => [k, x]))
        lines += canonical(p, m.offset, m.timestamp, m.key, m.value, headers)
      })
    }
    fs.writeFileSync(c.out, lines)
  }),

  offsets: c => withAdmin(async admin => {
    const rows = typeof c.at === 'number'
      ? await admin.fetchTopicOffsetsByTimestamp(c.topic, c.at)
      : await admin.fetchTopicOffsets(c.topic)
    const row = rows.find(r => r.partition === c.partition)
    return { offset: Number(c.at === 'earliest' ? row.low : c.at === 'latest' ? row.high : row.offset) }
  }),

  group: async (c, emit, ended) => {
    const consumer = kafka.consumer({ groupId: c.group, sessionTimeout: c.session, heartbeatInterval: 500, rebalanceTimeout: 10000 })
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => emit(event('assignment', payload.memberAssignment[c.topic] || [])))
    consumer.on(consumer.events.REBALANCING, () => emit(event('assignment', [])))
    await consumer.connect()
    await consumer.subscribe({ topics: [c.topic], fromBeginning: true })
    await consumer.run({
      autoCommitInterval: 200,
      eachBatch: async ({ batch, resolveOffset, commitOffsetsIfNecessary, isStale }) => {
        for (const m of batch.messages) {
          if (isStale()) return
          emit(event('records', batch.partition, null, [Number(m.offset)]))
          resolveOffset(m.offset)
        }
        await commitOffsetsIfNecessary()
      }
    })
    await ended
    await consumer.stop()
    await consumer.disconnect()
  }
}

serve(handlers)
