// The Node.js side of the driver protocol (see ../README.md): commands in, one JSON object a line; answers out, the same.
'use strict'
const crypto = require('node:crypto')
const fs = require('node:fs')
const readline = require('node:readline')

const bootstrap = process.env.BOOTSTRAP

// Answers commands with handlers[op](command), an object or nothing, until standard input ends.  The group command has no
// answer: handlers.group(command, emit, ended) prints what happens to a group's member by emit, until the promise `ended`.
async function serve (handlers) {
  for (const name of ['log', 'info', 'warn', 'debug']) console[name] = console.error
  const lines = readline.createInterface({ input: process.stdin })
  const ended = new Promise(resolve => process.stdin.once('end', resolve))
  const emit = object => process.stdout.write(JSON.stringify(object) + '\n')
  for await (const line of lines) {
    const command = JSON.parse(line)
    if (command.op === 'group') {
      await handlers.group(command, emit, ended)
      emit({ e: 'left' })
      break
    }
    let answer
    try {
      const result = await handlers[command.op](command)
      answer = typeof result === 'object' && result ? result : {}
    } catch (e) {
      const causes = (e.errors || []).map(x => x.message)
      answer = { error: `${e.name}: ${[e.message, ...causes].join('; ')}` }
    }
    emit(answer)
  }
  process.stdout.write('', () => process.exit(0))
}

// What a group's member prints: assigned, revoked, assignment (all that it has) or records.
function event (kind, partitions, generation = null, offsets = null) {
  return { e: kind, p: partitions, g: generation, o: offsets, t: Date.now() / 1000 }
}

const decode = text => (text === null ? null : Buffer.from(text, 'base64'))

function readRecords (path) {
  return fs.readFileSync(path, 'utf8').split('\n').filter(Boolean).map(line => {
    const row = JSON.parse(line)
    return {
      partition: row.p,
      key: decode(row.k),
      value: decode(row.v),
      headers: row.h.map(([k, v]) => [k, decode(v)]),
      timestamp: row.t
    }
  })
}

// Bytes as the canonical lines show them.
function show (data) {
  if (data === null || data === undefined) return '-'
  if (data.length <= 64) return 'x' + Buffer.from(data).toString('hex')
  return `#${data.length}:${crypto.createHash('sha256').update(data).digest('hex')}`
}

// headers: pairs of a name (text or bytes) and bytes or null.
function canonical (partition, offset, timestamp, key, value, headers) {
  const pairs = headers.map(([k, v]) => `${Buffer.from(k).toString('hex')}=${show(v)}`).join(';') || '.'
  return `${partition} ${offset} ${timestamp} ${show(key)} ${show(value)} ${pairs}\n`
}

// Messages in groups that fit into a batch: clients that make one batch of what one call sends leave its size to the caller.
function batches (messages) {
  const groups = [[]]
  let size = 0
  for (const m of messages) {
    const bytes = (m.value ? m.value.length : 0) + 200
    if (size && size + bytes > 1100000) {
      groups.push([])
      size = 0
    }
    groups[groups.length - 1].push(m)
    size += bytes
  }
  return groups
}

module.exports = { batches, bootstrap, canonical, event, readRecords, serve }
