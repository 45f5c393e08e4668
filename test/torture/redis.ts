/**
 * `node test/torture/redis.ts`: kills Redis under load, again and again; then lets a replica take over that is behind,
 * again and again; and holds the ledger against what callers were told. In the end measures the scripts. `--short` does
 * little of it. Options: `--kills <n>` with each way to sync (40), `--failovers <n>` (15), `--seconds <n>` to measure (10).
 * Fails when something told has no row, or two, or another amount; when sums are not those of the rows; and when nothing
 * was repeated, or nothing lost before it was sent again, so that nothing was shown.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import type { Log } from '../../src/state/ledger/ledger.ts'
import { openRedis, type RedisLedger } from '../../src/state/redis/engine.ts'
import type { Settlement, UsageRow } from '../../src/state/ledger/ledger.ts'
import { MAX_AMOUNT } from '../../src/money/money.ts'
import {
  Address,
  hasRedis,
  NOT_INSTALLED,
  RedisServer,
  startReplica,
} from '../state/redis/_redis.ts'
import { holdOf } from '../state/_hold.ts'

const WRITERS = 32
const CALLERS = 16
const REPEATS = 0.15
const PATIENCE_MS = 360_000
const ACCOUNTS = Array.from({ length: 8 }, (_, i) => `acct_${i}`)
/** Limits that no call reaches, with counters of each kind. */
const LIMITS = {
  disabled: false,
  rpm: 100_000_000,
  concurrency: 1_000_000,
  counted: ['cap.5h', 'cap.week', 'tokens.minute', 'requests.day', 'concurrency.0a1b2c3d'].map(
    (id) => ({ id, value: MAX_AMOUNT }),
  ),
}
const FREE_TIER = { rpm: 1, concurrency: 1 }
const USAGE: UsageRow = {
  at: Date.now(),
  endpoint: '/v1/chat/completions',
  model: 'vendor/model',
  deployment: 'west/model',
  outcome: 'completed',
  lines: [{ source: 'model', usage: { promptTokens: 1200, completionTokens: 300 } }],
}
/** Progress is for people; what went wrong shows in the counts. */
const SILENT = { info() {}, warn() {}, error() {} } as unknown as Log

const { values } = parseArgs({
  options: {
    short: { type: 'boolean', default: false },
    kills: { type: 'string' },
    failovers: { type: 'string' },
    seconds: { type: 'string' },
  },
})
const kills = Number(values.kills ?? (values.short ? 5 : 40))
const failovers = Number(values.failovers ?? (values.short ? 2 : 15))
const seconds = Number(values.seconds ?? (values.short ? 2 : 10))
const folder = mkdtempSync(join(tmpdir(), 'gateway-'))
let requests = 0

/** What callers were told, and how often what. */
class Told {
  readonly costs = new Map<string, { readonly account: string; readonly cost: bigint }>()
  /** Told by the store itself, not yet looked for in it. */
  confirmed: Settlement[] = []
  duplicates = 0
  outboxed = 0
}

interface Setting {
  readonly ledger: RedisLedger
  readonly told: Told
  close(): Promise<void>
}

async function open(url: string): Promise<Setting> {
  // Each server holds another ledger, and a gateway remembers beside its outbox which one it has used.
  const outbox = mkdtempSync(join(folder, 'outbox-'))
  const { ledger, records } = await openRedis({ url, outbox, log: SILENT })
  for (const account of ACCOUNTS) {
    await ledger.book({ kind: 'top-up', account, amount: MAX_AMOUNT, reference: 'first' })
    await ledger.limits(account, 'key', LIMITS, 1)
  }
  const close = async () => {
    await ledger.close()
    await records.close()
  }
  return { ledger, told: new Told(), close }
}

/** One call after the other until it is over; those that are not let in are tried again. */
async function write({ ledger, told }: Setting, over: AbortSignal): Promise<void> {
  while (!over.aborted) {
    const request = `req_${++requests}`
    const account = ACCOUNTS[requests % ACCOUNTS.length]!
    const lease = { account, key: 'key', request }
    try {
      const entered = await ledger.enter({ ...lease, revision: 1, freeTier: FREE_TIER })
      if (!entered.ok) throw new Error(`${request} was refused: ${entered.why}`)
      const held = await ledger.hold({ ...lease, at: entered.at, ...holdOf(1000n), free: false })
      // Its lease was among what the new primary never had.
      if (!held.ok && held.why === 'lost') continue
      if (!held.ok) throw new Error(`${request} was refused: ${held.why}`)
      const cost = BigInt(1 + (requests % 5000))
      const usage = { ...USAGE, counted: held.counted! }
      await settle(ledger, told, { ...lease, day: held.day, cost, usage })
    } catch (error) {
      if ((error as { status?: number }).status !== 503) throw error
      await ledger.leave(lease)
      await sleep(5)
    }
  }
}

async function settle(ledger: RedisLedger, told: Told, settlement: Settlement): Promise<void> {
  const { account, request, cost } = settlement
  for (let again = true; again; again = Math.random() < REPEATS) {
    const settled = await ledger.settle(settlement)
    told.costs.set(request, { account, cost })
    if (settled.state === 'duplicate') told.duplicates++
    // Only the store knows the balance.
    if (settled.balance === 0n) told.outboxed++
    else told.confirmed.push(settlement)
  }
}

/** Runs writers while something is done to their store. */
async function under(setting: Setting, deed: () => Promise<void>): Promise<void> {
  const over = new AbortController()
  const writing = Promise.all(Array.from({ length: WRITERS }, () => write(setting, over.signal)))
  await Promise.race([deed(), writing])
  over.abort()
  await writing
}

/** How many of these a server does not have. */
async function missingFrom(
  server: RedisServer,
  settlements: readonly Settlement[],
): Promise<number> {
  return server.ask(async (client) => {
    const pipeline = client.pipeline()
    for (const { account, request } of settlements) pipeline.exists(`gw:{${account}}:r:${request}`)
    const answers = (await pipeline.exec()) ?? []
    return answers.filter(([, found]) => found === 0).length
  })
}

async function until(holds: () => boolean | Promise<boolean>, what: string): Promise<void> {
  const end = Date.now() + PATIENCE_MS
  while (!(await holds())) {
    if (Date.now() > end) throw new Error(`${what}, even after ${PATIENCE_MS} ms`)
    await sleep(20)
  }
}

async function drained({ ledger }: Setting): Promise<void> {
  await until(() => {
    const { ok, outbox } = ledger.health()
    return ok && outbox === 0
  }, 'the outbox is not empty')
}

/** Holds rows and sums against what callers were told. @returns how often what was wrong */
async function wrongs({ ledger, told }: Setting): Promise<Record<string, number>> {
  const wrong = { missing: 0, doubled: 0, amount: 0, unheard: 0, sums: 0, counters: 0 }
  const seen = new Set<string>()
  for (const account of ACCOUNTS) {
    let balance = 0n
    const counted = new Map<string, bigint>()
    for await (const { kind, request, cost, usage } of ledger.usage(account)) {
      balance -= cost
      if (kind !== 'usage') continue
      for (const name of usage!.counted!.split(',')) {
        counted.set(name, (counted.get(name) ?? 0n) + amountOf(name, cost))
      }
      if (seen.has(request)) wrong.doubled++
      seen.add(request)
      const known = told.costs.get(request)
      if (known?.account !== account) wrong.unheard++
      else if (known.cost !== cost) wrong.amount++
    }
    if ((await ledger.account(account)).balance !== balance) wrong.sums++
    for (const { limit, current, used } of await ledger.counters(account, 'key')) {
      // A minute may have ended since.
      if (current !== '' && used !== (counted.get(`k:${limit.id}@${current}`) ?? 0n))
        wrong.counters++
    }
  }
  for (const request of told.costs.keys()) if (!seen.has(request)) wrong.missing++
  for (const { account, what, stored, recomputed } of await ledger.verify()) {
    wrong.sums++
    process.stdout.write(`${account}: ${what}: ${stored} is kept, ${recomputed} is right\n`)
  }
  return wrong
}

/** What a call counts in a counter that its hold has named. */
function amountOf(name: string, cost: bigint): bigint {
  if (name.startsWith('k:cap')) return cost
  if (name.startsWith('k:tokens')) return 1500n
  return name.startsWith('k:concurrency') ? 0n : 1n
}

function report(what: string, setting: Setting, wrong: Record<string, number>, more: string): void {
  const { costs, duplicates, outboxed } = setting.told
  const good = duplicates > 0 && Object.values(wrong).every((count) => count === 0)
  if (!good) process.exitCode = 1
  const counts = Object.entries(wrong).map(([name, count]) => `${name} ${count}`)
  process.stdout.write(
    `${good ? 'ok' : 'FAILED'}: ${what}: ${costs.size} settlements, ${duplicates} repetitions answered as such, ` +
      `${outboxed} by way of the outbox; ${more}; wrong: ${counts.join(', ')}\n`,
  )
}

function progress(text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r${text}`)
}

/** Process death alone takes nothing that Redis has confirmed, whichever way it syncs. */
async function tortureByKills(appendfsync: 'always' | 'everysec'): Promise<void> {
  await using server = await RedisServer.start({ appendfsync })
  await using address = await Address.of(server)
  const setting = await open(address.url)
  // A key whose limits the store has lost would be refused.
  await server.written()
  let lost = 0
  for (let round = 1; round <= kills; round++) {
    progress(`${appendfsync}: kill ${round} of ${kills}`)
    await under(setting, async () => {
      await sleep(50 + Math.random() * 150)
      // Looked at before anything can be sent to it again.
      address.leadTo(undefined)
      await server.kill()
      await server.start()
      lost += await missingFrom(server, setting.told.confirmed.splice(0))
      address.leadTo(server)
      await drained(setting)
      // Before this, Redis itself may not get over being killed again.
      await server.wholeFile()
    })
  }
  await drained(setting)
  const wrong = { ...(await wrongs(setting)), lost }
  report(`${kills} kills, appendfsync ${appendfsync}`, setting, wrong, 'every row was looked at')
  await setting.close()
}

/** What a replica that takes over never had is sent again by the gateway that was told that it was booked. */
async function tortureByFailovers(): Promise<void> {
  let primary = await RedisServer.start()
  let replica: RedisServer | undefined
  await using address = await Address.of(primary)
  const setting = await open(address.url)
  let lost = 0
  let idle = 0
  try {
    for (let round = 1; round <= failovers; round++) {
      progress(`failover ${round} of ${failovers}`)
      await using link = await Address.of(primary)
      replica = await startReplica(link)
      const heir = replica
      await under(setting, async () => {
        await sleep(100 + Math.random() * 200)
        link.hold()
        const { costs } = setting.told
        const before = costs.size
        await sleep(50 + Math.random() * 200)
        // So many may have been under way already.
        await until(() => costs.size > before + WRITERS, 'no writer is told of anything')
        address.leadTo(undefined)
        await primary.kill()
        await heir.ask((client) => client.replicaof('NO', 'ONE'))
        const confirmed = setting.told.confirmed.splice(0)
        const missing = await missingFrom(heir, confirmed)
        lost += missing
        if (missing === 0) idle++
        address.leadTo(heir)
        await until(
          async () => (await missingFrom(heir, confirmed)) === 0,
          'what was confirmed is not there',
        )
        await drained(setting)
      })
      await primary[Symbol.asyncDispose]()
      ;[primary, replica] = [heir, undefined]
    }
    await drained(setting)
    const wrong = { ...(await wrongs(setting)), 'rounds that lost nothing': idle }
    report(`${failovers} failovers`, setting, wrong, `${lost} lost before they were sent again`)
  } finally {
    await setting.close()
    await primary[Symbol.asyncDispose]()
    await replica?.[Symbol.asyncDispose]()
  }
}

async function measure(): Promise<void> {
  await using server = await RedisServer.start()
  const setting = await open(server.url)
  const over = new AbortController()
  const before = requests
  await server.ask((client) => client.config('RESETSTAT'))
  const started = performance.now()
  const calling = Array.from({ length: CALLERS }, () => write(setting, over.signal))
  await sleep(seconds * 1000)
  over.abort()
  await Promise.all(calling)
  const elapsed = (performance.now() - started) / 1000
  const stats = await server.ask((client) => client.info('commandstats'))
  const [, scripts, usec] = /cmdstat_evalsha:calls=(\d+),usec=(\d+)/.exec(stats) ?? []
  process.stdout.write(
    `${CALLERS} callers: ${((requests - before) / elapsed).toFixed(0)} calls/s, ` +
      `${(Number(scripts) / elapsed).toFixed(0)} scripts/s, ` +
      `${(Number(usec) / Number(scripts)).toFixed(1)} us of the server for each\n`,
  )
  await setting.close()
}

process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1))
if (!hasRedis()) {
  process.stdout.write(`skipped: ${NOT_INSTALLED}\n`)
  process.exit()
}
await tortureByKills('everysec')
await tortureByKills('always')
await tortureByFailovers()
await measure()
process.exit()
