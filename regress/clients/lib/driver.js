// The Node.js side of the driver protocol (see ../README.md): commands in, one JSON object a line; answers out, the same.
'use strict'
const crypto = require('node:crypto')
const fs = require('node:fs')
const readline = require('node:readline')

const bootstrap = process.env.BOOTSTRAP

// Answers commands with handlers[op](command), an object or nothing, until standard input ends.
async function serve (handlers) {
  for (const name of ['log', 'info', 'warn', 'debug']) console[name] = console.error
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const command = JSON.parse(line)
    let answer
    try {
      answer = (await handlers[command.op](command)) || {}
    } catch (e) {
      const causes = (e.errors || []).map(x => x.message)
      answer = { error: `${e.name}: ${[e.message, ...causes].join('; ')}` }
    }
    process.stdout.write(JSON.stringify(answer) + '\n')
  }
  process.exit(0)
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

module.exports = { bootstrap, canonical, readRecords, serve }
