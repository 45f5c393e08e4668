/**
 * What all suites have in common: their options, the seed of the run, bounds on the process, and the verdict. A run stops
 * after its count or its seconds, or at the first fault.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { Worker } from 'node:worker_threads'
import { slowness } from '../_patience.ts'
import { SEED } from '../_seed.ts'

/** Where a gateway under test keeps its state. */
export type Driver = 'memory' | 'file' | 'redis'

/** Options of one run. */
export interface RunOptions {
  readonly seed: number
  /** The first case; with the seed it names a case. */
  readonly first: number
  readonly count: number
  readonly seconds: number
  readonly driver: Driver
  readonly short: boolean
  /** Every how many cases this process plays one, and where it begins: 1 and 0 without `--workers`. */
  readonly share: { readonly of: number; readonly index: number }
}

/** How much a suite does when nothing is said. */
interface Amount {
  readonly count: number
  readonly seconds: number
}

/**
 * Reads `--count <n>`, `--seconds <n>`, `--seed <n>` or `--seed <n>:<first case>`, `--driver memory|file|redis`, `--short`,
 * and `--share <index>/<n>`, which `_workers.ts` gives.
 * @throws TypeError for others
 */
export function readOptions(
  amounts: { readonly short: Amount; readonly long: Amount },
  usualDriver: Driver = 'memory',
): RunOptions {
  const { values } = parseArgs({
    options: {
      short: { type: 'boolean', default: false },
      seconds: { type: 'string' },
      seed: { type: 'string' },
      count: { type: 'string' },
      driver: { type: 'string', default: usualDriver },
      share: { type: 'string', default: '0/1' },
    },
  })
  const { driver, short } = values
  if (driver !== 'memory' && driver !== 'file' && driver !== 'redis') {
    throw new TypeError(`expected --driver memory, file or redis, found ${driver}`)
  }
  const amount = short ? amounts.short : amounts.long
  const [seed, first = '0'] = (values.seed ?? String(SEED)).split(':')
  const count = Number(values.count ?? (values.seconds === undefined ? amount.count : Infinity))
  const seconds = Number(values.seconds ?? (values.count === undefined ? amount.seconds : Infinity))
  const [index, of] = values.share.split('/').map(Number) as [number, number]
  const share = { index, of }
  return { seed: Number(seed), first: Number(first), count, seconds, driver, short, share }
}

/** What came of a run. */
export interface RunResult {
  readonly done: number
  readonly seconds: number
  readonly longestTurnMs: number
  readonly mostRssBytes: number
  readonly counts: readonly (readonly [what: string, count: number])[]
  readonly faults: readonly string[]
}

/** Prints figures, counts, the most frequent first, and the verdict. @returns the exit status: 1 after a fault */
export function printResult(name: string, result: RunResult): number {
  const { done, seconds, longestTurnMs, mostRssBytes, faults } = result
  const counts = result.counts.toSorted(([, a], [, b]) => b - a)
  process.stdout.write(
    `${name}: ${done} cases in ${seconds.toFixed(1)} s, ${(done / seconds).toFixed(0)}/s; ` +
      `longest turn ${longestTurnMs.toFixed(0)} ms, RSS ${mib(mostRssBytes)} MiB\n` +
      counts.map(([what, count]) => `  ${count} ${what}\n`).join(''),
  )
  for (const fault of faults) process.stdout.write(`FAILED: ${fault}\n`)
  if (faults.length === 0) process.stdout.write(`ok: ${name}\n`)
  return faults.length === 0 ? 0 : 1
}

/** A folder that is removed when the process ends, also by SIGINT and SIGTERM. */
export function ownFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'gateway-'))
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
  return folder
}
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1))

const TICK_MS = 10
/**
 * The longest turn that a thread may take without a return to the event loop, in ms of its own time, where the machine
 * is not slow. Another process on the processor does not count.
 */
const LONGEST_TURN_MS = 250
const MOST_RSS_BYTES = 1024 ** 3
/** The seconds without a tick after which the process is killed, with the cases that it was at. */
const STUCK_SECONDS = 120

/** Faults and figures of one run, with the bounds that hold for the process. */
export class Run {
  readonly name: string
  readonly options: RunOptions
  readonly startedAt = performance.now()
  readonly faults: string[] = []
  readonly counts = new Map<string, number>()
  longestTurnMs = 0
  mostRssBytes = 0
  done = 0
  readonly #timer: NodeJS.Timeout
  readonly #watchdog: Worker
  /** [ticks, case of lane 0, case of lane 1, ...] */
  readonly #shared = new Int32Array(new SharedArrayBuffer(4 * 256))
  #threadMs = threadMs()
  #isServing = false
  #isStopped = false
  #reportAt = performance.now() + 30_000

  constructor(name: string, options: RunOptions) {
    this.name = name
    this.options = options
    const at = options.first > 0 ? `:${options.first}` : ''
    const { index, of } = options.share
    const which = of > 1 ? `, worker ${index + 1} of ${of}` : ''
    process.stdout.write(`${name}: seed ${options.seed}${at}, driver ${options.driver}${which}\n`)
    // Another worker found a fault.
    process.on('message', () => (this.#isStopped = true))
    for (const kind of ['unhandledRejection', 'uncaughtException'] as const) {
      process.on(kind, (error: unknown) => this.fault(`${kind}: ${textOf(error)}`))
    }
    this.#timer = setInterval(() => this.#tick(), TICK_MS)
    const workerData = { shared: this.#shared, seconds: STUCK_SECONDS, name, seed: options.seed }
    this.#watchdog = new Worker(WATCHDOG, { eval: true, workerData })
    this.#watchdog.unref()
  }

  /** Whether no case is to be begun any more. */
  get isOver(): boolean {
    const { count, seconds } = this.options
    return (
      this.#isStopped ||
      this.faults.length > 0 ||
      this.done >= count ||
      performance.now() - this.startedAt > seconds * 1000
    )
  }

  /** Counts an outcome. What is played again to shorten an input does not count. */
  count(what: string): void {
    if (this.faults.length > 0) return
    this.counts.set(what, (this.counts.get(what) ?? 0) + 1)
  }

  fault(text: string): void {
    if (this.faults.length < 20) this.faults.push(text)
  }

  /** Begins to measure turns: a gateway that opens or closes may take its time. */
  serving(isServing: boolean): void {
    this.#isServing = isServing
    this.#threadMs = threadMs()
  }

  /** Tells the watchdog which case a lane is at. */
  at(lane: number, index: number): void {
    this.#shared[1 + lane] = index + 1
  }

  /** Plays a suite, prints the result, or tells it to the process of all workers, and ends this process. */
  async end(play: () => Promise<void>): Promise<never> {
    await play().catch((error: unknown) => this.fault(textOf(error)))
    clearInterval(this.#timer)
    await this.#watchdog.terminate()
    const { name, done, longestTurnMs, mostRssBytes, faults } = this
    const seconds = (performance.now() - this.startedAt) / 1000
    const counts = [...this.counts]
    const result = { done, seconds, longestTurnMs, mostRssBytes, counts, faults }
    if (!process.send) process.exit(printResult(name, result))
    process.send(result, () => process.exit())
    return new Promise(() => {})
  }

  #tick(): void {
    Atomics.add(this.#shared, 0, 1)
    const now = threadMs()
    const turn = now - this.#threadMs - TICK_MS
    this.#threadMs = now
    if (this.#isServing && turn > this.longestTurnMs) {
      this.longestTurnMs = turn
      if (turn > LONGEST_TURN_MS && turn > LONGEST_TURN_MS * slowness()) {
        this.fault(`a turn of the event loop took ${turn.toFixed(0)} ms`)
      }
    }
    const rss = process.memoryUsage.rss()
    if (rss > this.mostRssBytes) {
      this.mostRssBytes = rss
      if (rss > MOST_RSS_BYTES) this.fault(`the process takes ${mib(rss)} MiB`)
    }
    if (performance.now() < this.#reportAt) return
    this.#reportAt = performance.now() + 30_000
    const seconds = (performance.now() - this.startedAt) / 1000
    process.stdout.write(
      `  ${this.done} cases, ${(this.done / seconds).toFixed(0)}/s, RSS ${mib(rss)} MiB\n`,
    )
  }
}

/** The thread whose work does not hang with the event loop. */
const WATCHDOG = `
const { workerData: { shared, seconds, name, seed } } = require('node:worker_threads')
let [ticks, still] = [-1, 0]
setInterval(() => {
  const now = Atomics.load(shared, 0)
  still = now === ticks ? still + 1 : 0
  ticks = now
  if (still < seconds) return
  const cases = [...shared.slice(1)].filter((one) => one > 0).map((one) => seed + ':' + (one - 1))
  require('node:fs').writeSync(1, 'FAILED: ' + name + ' hangs in one of ' + cases.join(', ') + '\\n')
  process.kill(process.pid, 'SIGKILL')
}, 1000)
`

/** What this thread has computed, ms. */
function threadMs(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}

function mib(bytes: number): number {
  return Math.round(bytes / 1024 ** 2)
}

/** An error for the printout. */
export function textOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}
