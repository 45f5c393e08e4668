/**
 * `node test/torture/edge-money.ts`: the last money of an account, and of a cap. Callers who come at once, honest and not,
 * spend it against real ledgers, in simulated time: with one gateway on each driver, and with four on one Redis.
 * `--seconds <n>` for all rows together (120; `--short`: 18), `--seed <n>` repeats a run, `--driver memory|file|redis` takes
 * one driver.
 * Fails when a balance or a cap is overrun by more than the exposure or one call, when a lone call is refused with money
 * left, when an account with enough money ever waits, and when sums, holds or leases are not as they should be.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { HoldEstimator } from '../../src/money/holds.ts'
import type { Log } from '../../src/state/ledger/ledger.ts'
import { openRedis } from '../../src/state/redis/engine.ts'
import { openSqlite } from '../../src/state/sqlite/engine.ts'
import { openMemory } from '../../src/state/sqlite/memory.ts'
import { hasRedis, NOT_INSTALLED, RedisServer } from '../state/redis/_redis.ts'
import {
  Account,
  START,
  World,
  type Draw,
  type Instance,
  type Result,
  type Row,
} from './_edge-account.ts'
import { SEED } from '../_seed.ts'

const { values } = parseArgs({
  options: {
    short: { type: 'boolean', default: false },
    seconds: { type: 'string' },
    seed: { type: 'string' },
    driver: { type: 'string' },
  },
})
const SECONDS = Number(values.seconds ?? (values.short ? 18 : 120))
const seed = Number(values.seed ?? SEED)
const SILENT = { info() {}, warn() {}, error() {} } as unknown as Log
/** The mean cost of the honest calls below, in USD. */
const MEAN_COST = 0.012
/**
 * The most that honest callers overrun in the median, in costs of their calls, and the number of accounts from which it
 * is judged.
 */
const [MOST_MEDIAN, ENOUGH] = [2.5, 200]
const folder = mkdtempSync(join(tmpdir(), 'gateway-'))
process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1))

const HONEST = { learned: 50, unit: MEAN_COST, draw: honest }
const HOSTILE = { unit: 0.66, draw: hostile, limit: 65_536, callers: 150, retryMs: 60_000 }

const ROWS: readonly Row[] = [
  {
    ...HONEST,
    name: 'rich, 16k',
    paidIn: '20',
    left: '20',
    callers: 30,
    limit: 16_384,
    calls: 600,
    neverWaits: true,
  },
  {
    ...HONEST,
    name: 'rich, 64k',
    paidIn: '100',
    left: '100',
    callers: 30,
    limit: 65_536,
    calls: 600,
    neverWaits: true,
    neverRaises: true,
  },
  {
    ...HONEST,
    name: 'rich, 500 USD, 150 at once',
    paidIn: '500',
    left: '500',
    callers: 150,
    limit: 65_536,
    calls: 600,
    neverWaits: true,
    neverRaises: true,
  },
  { ...HONEST, name: 'small', paidIn: '20', left: '2', callers: 30, limit: 16_384, calls: 100 },
  { ...HONEST, name: 'middling', paidIn: '20', left: '5', callers: 10, limit: 65_536, calls: 300 },
  { ...HONEST, name: 'poor, 5 at once', paidIn: '5', left: '0.3', callers: 5, limit: 16_384 },
  { ...HONEST, name: 'poor, 30 at once', paidIn: '50', left: '0.3', callers: 30, limit: 16_384 },
  { ...HONEST, name: 'poor, 60 at once', paidIn: '50', left: '0.3', callers: 60, limit: 16_384 },
  {
    ...HONEST,
    name: 'bursty, nothing known',
    paidIn: '50',
    left: '0.05',
    callers: 30,
    limit: 2048,
    learned: 0,
  },
  { ...HONEST, name: 'lone caller', paidIn: '0.3', left: '0.3', callers: 1, limit: 65_536 },
  {
    name: "one call's money, 150 at once",
    paidIn: '0.0035',
    left: '0.0035',
    callers: 150,
    limit: 16_384,
    learned: 0,
    unit: 0.0035,
    draw: underestimated,
    servedAtMost: 3,
  },
  { ...HONEST, name: 'cap', paidIn: '1000', left: '1000', cap: '0.3', callers: 30, limit: 16_384 },
  { ...HOSTILE, name: 'hostile, nothing known', paidIn: '5', left: '5', learned: 0 },
  {
    ...HOSTILE,
    teach: cheap,
    name: 'hostile, after 200 cheap calls',
    paidIn: '5',
    left: '5',
    learned: 200,
  },
  {
    ...HOSTILE,
    teach: cheap,
    name: 'hostile, old account',
    paidIn: '500',
    left: '1',
    learned: 200,
  },
]

/** Prompts around 2,000 tokens, answers around 300, log-normal; the estimate of a prompt is off by up to a half. */
function honest(random: () => number, limit: number): Draw {
  const prompt = Math.ceil(2000 * Math.exp(0.8 * normal(random)))
  const output = Math.min(limit, Math.ceil(300 * Math.exp(normal(random))))
  return { prompt, output, estimatedPrompt: Math.ceil(prompt * (0.6 + random())) }
}

function hostile(_random: () => number, limit: number): Draw {
  return { estimatedPrompt: 50, prompt: 50, output: limit }
}

function cheap(): Draw {
  return { estimatedPrompt: 50, prompt: 50, output: 10 }
}

function underestimated(): Draw {
  return { estimatedPrompt: 1, prompt: 1000, output: 100 }
}

/** Marsaglia's xorshift with 32 bits, a seeded random generator. */
function randomOf(seed: number): () => number {
  let state = seed >>> 0 || 1
  return () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    state >>>= 0
    return state / 2 ** 32
  }
}

function normal(random: () => number): number {
  return Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random())
}

/** Ledgers of one driver, and the clock that they read. */
interface Stage {
  readonly name: string
  readonly instances: readonly Instance[]
  setClock(now: number): void | Promise<void>
  close(): Promise<void>
}

function embedded(driver: 'memory' | 'file'): Promise<Stage> {
  let time = START
  const now = () => time
  const open = async () =>
    driver === 'memory'
      ? openMemory({ log: SILENT, now })
      : openSqlite({ path: join(folder, 'file'), log: SILENT, now })
  return open().then(({ ledger, records }) => ({
    name: driver,
    instances: [{ ledger, holds: new HoldEstimator() }],
    setClock: (next) => void (time = next),
    async close() {
      await ledger.close()
      await records.close()
    },
  }))
}

async function shared(server: RedisServer, gateways: number): Promise<Stage> {
  const client = server.client()
  await client.set('now', START)
  const clock = `local now = tonumber(redis.call('GET', 'now'))`
  const states = await Promise.all(
    Array.from({ length: gateways }, (_, i) => {
      const outbox = join(folder, `outbox-${gateways}-${i}`)
      return openRedis({ url: server.url, outbox, log: SILENT, clock })
    }),
  )
  return {
    name: `redis, ${gateways} ${gateways === 1 ? 'gateway' : 'gateways'}`,
    instances: states.map(({ ledger }) => ({ ledger, holds: new HoldEstimator() })),
    setClock: async (now) => void (await client.set('now', now)),
    async close() {
      for (const { ledger, records } of states) {
        await ledger.close()
        await records.close()
      }
      client.disconnect()
    },
  }
}

/** Empties accounts until the time is over. */
async function play(row: Row, stage: Stage, ms: number): Promise<void> {
  const end = performance.now() + ms
  const results: Result[] = []
  let now = START
  for (let i = 0; results.length === 0 || performance.now() < end; i++) {
    const world = new World((next) => stage.setClock((now = next)))
    world.now = now
    const random = randomOf(seed + 7919 * i)
    const id = `${stage.name} ${row.name} ${i}`.replace(/\W+/g, '-')
    const until = performance.now() + ms
    const account = new Account(row, id, stage.instances, world, random, i % 2 === 1, until)
    results.push(await account.spend())
    now = world.now
  }
  report(row, stage, results)
}

function report(row: Row, { name }: Stage, results: readonly Result[]): void {
  const faults = results.flatMap((one) => one.faults)
  const overruns = results.flatMap(({ overrun }) =>
    overrun === undefined ? [] : [overrun / row.unit],
  )
  overruns.sort((a, b) => a - b)
  const at = (share: number) =>
    (overruns[Math.floor(share * (overruns.length - 1))] ?? 0).toFixed(1)
  if (row.unit === MEAN_COST && overruns.length >= ENOUGH && Number(at(0.5)) > MOST_MEDIAN) {
    faults.push('a median too high')
  }
  if (faults.length > 0) process.exitCode = 1
  const mean = (of: (one: Result) => number) =>
    (results.reduce((sum, one) => sum + of(one), 0) / results.length).toFixed(1)
  process.stdout.write(
    `${faults.length === 0 ? 'ok' : 'FAILED'}: ${name}: ${row.name}: ${results.length} accounts, ` +
      `${overruns.length} emptied, overrun ${at(0.5)} / ${at(0.95)} / ${at(1)} calls (median, 95 %, most), ` +
      `each: ${mean((one) => one.served)} served, ${mean((one) => one.needless)} needless waits, ` +
      `${mean((one) => one.raises)} raises` +
      `${faults.length === 0 ? '' : `; ${[...new Set(faults)].slice(0, 5).join('; ')}`}\n`,
  )
}

process.stdout.write(`seed ${seed}\n`)
const wanted = (driver: string) => values.driver === undefined || values.driver === driver
const stages: Stage[] = []
if (wanted('memory')) stages.push(await embedded('memory'))
if (wanted('file')) stages.push(await embedded('file'))
let server: RedisServer | undefined
if (wanted('redis') && hasRedis()) {
  server = await RedisServer.start()
  stages.push(await shared(server, 1), await shared(server, 4))
} else if (wanted('redis')) {
  process.stdout.write(`skipped on redis: ${NOT_INSTALLED}\n`)
}
for (const stage of stages) {
  for (const row of ROWS) await play(row, stage, (SECONDS * 1000) / stages.length / ROWS.length)
  await stage.close()
}
await server?.[Symbol.asyncDispose]()
process.exit()
