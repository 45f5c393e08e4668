/**
 * `node test/torture/embedded.ts`: kills the gateway under load, again and again, and holds every restart against what
 * clients had been told they paid. With `--state redis` it also kills Redis, alone and together with the gateway. Options:
 * `--kills <n>` (250), `--state file`, `redis` (file), `--fsync-delay <ms>` (0), `--lanes <n>` (48), `--built` to kill what
 * `npm run build` made.
 * Fails when a cost that a client read has no row, or two, or another amount, and when sums, counters of limits, or usage by account, key, model,
 * tag, outcome, deployment and day, are not those of the rows, also after usage was made again.
 */
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { Pool } from 'undici'
import { parsePico } from '../../src/money/money.ts'
import type { Log, LedgerReader } from '../../src/state/ledger/ledger.ts'
import { openReader } from '../../src/state/sqlite/reader.ts'
import { openRedisReader } from '../../src/state/redis/reader.ts'
import { hasRedis, NOT_INSTALLED, RedisServer } from '../state/redis/_redis.ts'
import { startGateway, type GatewayProcess } from './_gateway.ts'
import { ACCOUNT_LIMITS, CounterSums, KEY_LIMITS, TEAM_LIMITS } from './_counters.ts'
import { rebuildUsage, RowSums } from './_usage.ts'
import { buildShim } from './_shim.ts'

const KEY = `torture-${randomBytes(16).toString('hex')}`
const TOKEN = randomBytes(16).toString('hex')
const [SHORTEST_MS, LONGEST_MS] = [20, 160]
const COST = /"cost":(\d+(?:\.\d+)?)[,}]/g

const { values } = parseArgs({
  options: {
    kills: { type: 'string', default: '250' },
    state: { type: 'string', default: 'file' },
    'fsync-delay': { type: 'string', default: '0' },
    lanes: { type: 'string', default: '48' },
    built: { type: 'boolean', default: false },
  },
})
const [kills, delayMs, lanes] = [values.kills, values['fsync-delay'], values.lanes].map(Number)
if (values.state === 'redis' && !hasRedis()) {
  process.stdout.write(`skipped: ${NOT_INSTALLED}\n`)
  process.exit()
}
const folder = mkdtempSync(join(tmpdir(), 'gateway-'))
process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1))
// Killed together with the gateway, Redis has only what it has written: with `everysec` that may be two seconds old.
const redis =
  values.state === 'redis' ? await RedisServer.start({ appendfsync: 'always' }) : undefined
const ledgerFile = join(folder, 'data', 'ledger.db')
const state = redis
  ? `{ driver: redis, url: '${redis.url}', outbox: '${join(folder, 'outbox')}' }`
  : `{ driver: file, path: '${join(folder, 'data')}' }`
/** Progress is for people; what went wrong shows in the counts. */
const SILENT = { info() {}, warn() {}, error() {} } as unknown as Log
const config = join(folder, 'gateway.config.yaml')
writeFileSync(
  config,
  `
server: { host: 127.0.0.1 }
state: ${state}
admin: { token: '${TOKEN}' }
log: { level: warn, access: false, path: '${join(folder, 'log')}' }
providers: { mock: { use: mock } }
models:
  mock/echo:
    pricing: { prompt: '0.000001', completion: '0.000002000001' }
    capabilities: [STREAMING]
    deployments: [{ provider: mock, model: echo }]
  mock/dear:
    pricing: { prompt: '0.00001', completion: '0.00002' }
    capabilities: [STREAMING]
    deployments: [{ provider: mock, model: echo }]
seed:
  accounts:
    - id: torture
      name: Torture
      credits: '1000000'
      limits: ${ACCOUNT_LIMITS}
      teams: [{ id: crew, name: Crew, limits: ${TEAM_LIMITS} }]
      keys:
        - { id: torture, name: Torture, secret: '${KEY}', limits: ${KEY_LIMITS} }
        - { id: second, name: Second, secret: '${KEY}2', team_id: crew, limits: ${KEY_LIMITS} }
    - id: other
      name: Other
      credits: '1000000'
      keys:
        - { id: third, name: Third, secret: '${KEY}3', rpm_limit: 100000000, concurrency_limit: 100000 }
`,
)

/** What clients have read: the cost by request id, as it was written. */
const told = new Map<string, string>()
/** What the ledger has: the cost by request id. */
const rows = new Map<string, bigint>()
const sums = new RowSums()
const counters = new CounterSums()
const wrong = {
  missing: 0,
  doubled: 0,
  amount: 0,
  sums: 0,
  counters: 0,
  integrity: 0,
  verify: 0,
  usage: 0,
}
let balance = 0n
let spent = 0n

/** Asks one thing after the other until the gateway is gone. */
async function ask(pool: Pool, lane: number): Promise<void> {
  for (let i = 0; ; i++) {
    const stream = (lane + i) % 2 === 0
    const content = 'so it goes '.repeat(1 + ((lane * 7 + i) % 40))
    const body = JSON.stringify({
      model: i % 5 === 0 ? 'mock/dear' : 'mock/echo',
      stream,
      messages: [{ role: 'user', content }],
    })
    const key = KEY + ['', '2', '3'][i % 3]
    const labels = i % 4 === 0 ? {} : { 'x-service-tag': `lane-${lane % 4}` }
    const headers = {
      authorization: `Bearer ${key}`,
      'content-type': 'application/json',
      ...labels,
    }
    let text = ''
    let id = ''
    try {
      const path = '/v1/chat/completions'
      const answer = await pool.request({ method: 'POST', path, headers, body })
      id = String(answer.headers['x-service-request-id'])
      if (redis && answer.statusCode === 503) {
        await answer.body.dump()
        await sleep(5)
        continue
      }
      if (answer.statusCode !== 200) throw new Refused(answer.statusCode, await answer.body.text())
      for await (const chunk of answer.body) text += chunk
    } catch (error) {
      if (error instanceof Refused) throw error
      return
    } finally {
      // Also of an answer that broke off: what was read was promised.
      const cost = [...text.matchAll(COST)].at(-1)?.[1]
      if (cost !== undefined) told.set(id, cost)
    }
  }
}

class Refused extends Error {
  constructor(status: number, body: string) {
    super(`status ${status}: ${body}`)
  }
}

/** Holds the ledger, and what the gateway says of it, against what clients were told. */
async function check({ url }: GatewayProcess): Promise<void> {
  if (redis) await emptyOutbox(url)
  // Before this, Redis may book part of a script when it is killed again: see `renewFiles` in `src/state/redis/connection.ts`.
  await redis?.wholeFile()
  const reader = await openLedger()
  try {
    for (const row of await sums.add(reader)) {
      const { kind, request, cost } = row
      balance -= cost
      if (kind !== 'usage') continue
      counters.add(row)
      spent += cost
      if (rows.has(request)) wrong.doubled++
      rows.set(request, cost)
    }
    const heads = [...(await reader.heads()).values()]
    if (heads.reduce((sum, head) => sum + head.balance, 0n) !== balance) wrong.sums++
    const lifetimes = heads.flatMap(({ lifetime }) => [...lifetime.values()])
    if (lifetimes.reduce((sum, amount) => sum + amount, 0n) !== spent) wrong.sums++
  } finally {
    await reader.close()
  }
  const costs = [...told].filter(([request]) => rows.has(request))
  wrong.missing = Math.max(wrong.missing, told.size - costs.length)
  const others = costs.filter(([request, cost]) => rows.get(request) !== parsePico(cost))
  wrong.amount = Math.max(wrong.amount, others.length)
  if (!redis && !isWhole()) wrong.integrity++
  const { ok, discrepancies } = (await asked(url, '/admin/ledger/verify')).data
  note('verify', ok ? [] : discrepancies.map((one: unknown) => JSON.stringify(one)))
  note('counters', await counters.faults(url, TOKEN, !redis))
  note('usage', await sums.faults(url, TOKEN))
}

/** What Redis has not confirmed is booked after a restart. */
async function emptyOutbox(url: string): Promise<void> {
  for (;;) {
    const { data } = await asked(url, '/admin/ledger/outbox')
    if (data.ok && data.outbox === 0) return
    await sleep(10)
  }
}

/** Asks again while Redis does not answer in time: the rest of the machine is busy too. */
async function asked(url: string, path: string): Promise<any> {
  for (;;) {
    const answer = await fetch(url + path, { headers: { authorization: `Bearer ${TOKEN}` } })
    const text = await answer.text()
    if (answer.ok) return JSON.parse(text)
    process.stdout.write(`${path}: status ${answer.status}: ${text}\n`)
    if (!redis || answer.status !== 503) throw new Refused(answer.status, text)
    await sleep(100)
  }
}

function openLedger(): LedgerReader | Promise<LedgerReader> {
  if (redis) return openRedisReader(redis.url, SILENT)
  return openReader(ledgerFile, statSync(ledgerFile).ino)
}

function isWhole(): boolean {
  using db = new DatabaseSync(ledgerFile, { readOnly: true })
  return db.prepare('PRAGMA integrity_check').get()!.integrity_check === 'ok'
}

function note(what: 'counters' | 'usage' | 'verify', faults: readonly string[]): void {
  if (faults.length === 0) return
  wrong[what]++
  process.stdout.write(`${faults.slice(0, 5).join('\n')}\n`)
}

/** Waits until all lanes are under way, and kills Redis in two rounds of three. The gateway is killed after this. */
async function strike(round: number): Promise<void> {
  for (const before = told.size; told.size < before + lanes!;) await sleep(5)
  await sleep(SHORTEST_MS + Math.random() * (LONGEST_MS - SHORTEST_MS))
  if (!redis || round % 3 === 0) return
  await redis.kill()
  // In every third round both are gone at the same time.
  if (round % 3 === 1) return
  await redis.start()
  await sleep(Math.random() * LONGEST_MS)
}

async function run(): Promise<number[]> {
  const shim = delayMs ? buildShim(folder, delayMs) : undefined
  if (delayMs && !shim) return []
  const starts: number[] = []
  for (let round = 0; round <= kills!; round++) {
    if (redis && round % 3 === 2) await redis.start()
    const running = await startGateway(config, folder, shim ?? {}, values.built)
    if (round > 0) starts.push(running.startMs)
    await check(running)
    if (process.stderr.isTTY) process.stderr.write(`\rkills: ${round} of ${kills}`)
    if (round === kills) {
      await rebuildUsage(running.url, TOKEN)
      note('usage', await sums.faults(running.url, TOKEN))
      await running.kill()
      break
    }
    if (round % 5 === 4) await counters.reset(running.url, TOKEN, 'torture', 'cap.week')
    const pool = new Pool(running.url, { connections: lanes! })
    const asking = Promise.all(Array.from({ length: lanes! }, (_, lane) => ask(pool, lane)))
    await Promise.race([strike(round), asking])
    await running.kill()
    await asking
    await pool.destroy()
  }
  return starts
}

function report(starts: number[]): boolean {
  const sorted = starts.toSorted((a, b) => a - b)
  const at = (share: number) => sorted[Math.ceil(share * sorted.length) - 1]?.toFixed(0)
  const good = Object.values(wrong).every((count) => count === 0) && told.size > 0
  process.stdout.write(
    `${good ? 'ok' : 'FAILED'}: ${starts.length} kills, ${told.size} costs read, ${rows.size} rows; ` +
      `wrong: ${Object.entries(wrong)
        .map(([what, count]) => `${what} ${count}`)
        .join(', ')}; ` +
      `restart to first answer: p50 ${at(0.5)} ms, p99 ${at(0.99)} ms\n`,
  )
  return good
}

const starts = await run()
if (starts.length > 0 && !report(starts)) process.exitCode = 1
await redis?.[Symbol.asyncDispose]()
process.exit()
