/**
 * `node test/torture/event-loop.ts`: what a thousand settlements a second on a slow disk cost the thread that serves, beside
 * the same pace without a ledger. Options: `--fsync-delay <ms>` (4), `--rate <per second>` (1000), `--seconds <n>` (4),
 * `--rounds <n>` (5).
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { parseArgs } from 'node:util'
import { openSqlite, type SqliteLedger } from '../../src/state/sqlite/engine.ts'
import type { Log } from '../../src/state/ledger/ledger.ts'
import { buildShim, countSyncs } from './_shim.ts'
import { holdOf } from '../state/_hold.ts'

interface Figures {
  readonly baselineP99Ms: number
  readonly loopP99Ms: number
  readonly settled: number
  readonly settleP50Ms: number
  readonly settleP99Ms: number
  readonly syncs: number
}

const { values } = parseArgs({
  options: {
    'fsync-delay': { type: 'string', default: '4' },
    rate: { type: 'string', default: '1000' },
    seconds: { type: 'string', default: '4' },
    rounds: { type: 'string', default: '5' },
  },
})
const [delayMs, rate, seconds, rounds] = [
  values['fsync-delay'],
  values.rate,
  values.seconds,
  values.rounds,
].map(Number) as [number, number, number, number]
const ACCOUNT = { account: 'acct', key: 'key' }

/** Calls `each` at the rate, as far as timers keep it, and tells how late the event loop was. */
async function pace(each: (n: number) => void): Promise<number> {
  const delay = monitorEventLoopDelay({ resolution: 1 })
  const { promise: over, resolve } = Promise.withResolvers<void>()
  const started = performance.now()
  let n = 0
  delay.enable()
  const timer = setInterval(() => {
    const passed = performance.now() - started
    for (; n < (passed * rate) / 1000; n++) each(n)
    if (passed > seconds * 1000) resolve()
  }, 1)
  await over
  clearInterval(timer)
  delay.disable()
  return delay.percentile(99) / 1e6
}

/** One call, as far as the ledger sees it; then tells how long the settlement took. */
async function call(ledger: SqliteLedger, request: string, took: number[]): Promise<void> {
  const lease = { ...ACCOUNT, request }
  const freeTier = { rpm: 1, concurrency: 1 }
  const entered = ledger.enter({ ...lease, revision: 1, freeTier })
  if (!entered.ok) throw new Error(`refused: ${entered.why}`)
  const held = ledger.hold({ ...lease, at: entered.at, ...holdOf(100n), free: false })
  if (!held.ok) throw new Error(`refused: ${held.why}`)
  const lines = [{ source: 'model', usage: { promptTokens: 812, completionTokens: 97 } }]
  const row = { at: entered.at, endpoint: '/v1/chat/completions', model: 'vendor/model' }
  const usage = { ...row, outcome: 'completed', lines } as const
  const started = performance.now()
  await ledger.settle({ ...lease, day: held.day, cost: 1234n, usage })
  took.push(performance.now() - started)
}

/** Measures the event loop, in the process whose disk is slow. */
async function measure(): Promise<Figures> {
  const log = { info: complain, warn: complain, error: complain } as unknown as Log
  const { ledger } = await openSqlite({ path: process.env.LEDGER_FOLDER!, log })
  await ledger.book({ kind: 'top-up', account: 'acct', amount: 10n ** 15n, reference: 'first' })
  const limits = { disabled: false, rpm: 1_000_000_000, concurrency: 1_000_000 }
  await ledger.limits('acct', 'key', limits, 1)
  const calls: Promise<void>[] = []
  const took: number[] = []
  await pace(() => {})
  const baselineP99Ms = await pace((n) => void JSON.stringify({ n }))
  // Once unmeasured: what is compiled later would count as a delay.
  await pace((n) => void calls.push(call(ledger, `warm_${n}`, [])))
  await Promise.all(calls)
  const syncs = countSyncs()
  const loopP99Ms = await pace((n) => void calls.push(call(ledger, `req_${n}`, took)))
  await Promise.all(calls)
  const sorted = took.toSorted((a, b) => a - b)
  const at = (share: number) => sorted[Math.ceil(share * sorted.length) - 1]!
  const figures = {
    baselineP99Ms,
    loopP99Ms,
    settled: took.length,
    settleP50Ms: at(0.5),
    settleP99Ms: at(0.99),
    syncs: countSyncs() - syncs,
  }
  await ledger.close()
  return figures
}

function complain(...args: unknown[]): void {
  process.stderr.write(`${args.join(' ')}\n`)
}

async function run(folder: string): Promise<void> {
  const shim = buildShim(folder, delayMs)
  if (!shim) return
  const measured: Figures[] = []
  for (let i = 0; i < rounds; i++) {
    const env = { ...process.env, ...shim, LEDGER_FOLDER: join(folder, `data${i}`) }
    const child = fork(import.meta.filename, process.argv.slice(2), { env })
    process.once('exit', () => child.kill('SIGKILL'))
    child.once('exit', (code) => code && child.emit('error', new Error(`ended with ${code}`)))
    const [figures] = (await once(child, 'message')) as [Figures]
    measured.push(figures)
    process.stdout.write(`${JSON.stringify(figures)}\n`)
  }
  const middle = (of: (figures: Figures) => number) => {
    const sorted = measured.map(of).sort((a, b) => a - b)
    return sorted[Math.floor(sorted.length / 2)]!.toFixed(2)
  }
  process.stdout.write(
    `${rate} settlements/s, syncs ${delayMs} ms slower, medians of ${rounds}: ` +
      `event loop p99 ${middle((f) => f.loopP99Ms)} ms, without ledger ${middle((f) => f.baselineP99Ms)} ms, ` +
      `difference ${middle((f) => f.loopP99Ms - f.baselineP99Ms)} ms; ` +
      `settle p50 ${middle((f) => f.settleP50Ms)} ms, p99 ${middle((f) => f.settleP99Ms)} ms; ` +
      `syncs per settlement ${middle((f) => f.syncs / f.settled)}\n`,
  )
}

if (process.send) {
  process.send(await measure())
  process.disconnect()
} else {
  const folder = mkdtempSync(join(tmpdir(), 'gateway-'))
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1))
  await run(folder)
}
