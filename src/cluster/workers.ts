/** Starts the worker processes, restarts those that end, and passes requests to the gateway on to all of them. */
import cluster from 'node:cluster'
import type { ConsolaInstance } from 'consola'
import { once } from 'node:events'
import { getCompileCacheDir } from 'node:module'
import { dirname } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { logEvent } from '../observe/events.ts'
import type { UnservedName } from '../models/unserved.ts'
import {
  type MetricFamily,
  combineFamilies,
  gaugeFamily,
  type Gauge,
} from '../observe/prometheus.ts'
import type { Reason } from '../server/siblings.ts'
import { Disconnected, RemoteError, Channel } from '../threads/channel.ts'
import { SharedThreads } from './threads.ts'

interface WorkersOptions {
  readonly count: number
  /** Path of the script that a worker runs. */
  readonly script: string
  /** Start data of each worker, beside its number and their count. */
  readonly start: object
  readonly log: ConsolaInstance
}

interface Loss {
  readonly why: string
  readonly status: 70 | 74
}

const LOST_STATE = 74
const FAULT = 70
/** Time limit of a worker to start, and to set up a configuration. */
const PREPARE_MS = 120_000
/** Attempts to have one configuration in all workers while its files change. */
const ATTEMPTS = 3
/** Time limit of a reader for the last lines of a worker. */
const SILENCE_MS = 2_000

export class Workers {
  readonly #options: WorkersOptions
  readonly #members = new Set<Member>()
  readonly #restarts = new Map<number, Restarts>()
  readonly #timers = new Set<NodeJS.Timeout>()
  readonly #threads: SharedThreads
  readonly #totals = new Totals(() => this.#gauges())
  readonly #lost = Promise.withResolvers<Loss>()
  /** Reasons of the other workers, as last sent to each worker. */
  readonly #spread = new WeakMap<Member, string>()
  #reloading = Promise.resolve()
  #restarted = 0
  #isOpen = false
  #isClosing = false

  constructor(options: WorkersOptions) {
    this.#options = options
    this.#threads = new SharedThreads(options.log)
    cluster.schedulingPolicy = cluster.SCHED_RR
    cluster.setupPrimary({
      exec: options.script,
      args: [],
      silent: true,
      serialization: 'advanced',
    })
  }

  /** Resolves when they cannot go on, and have to be closed. */
  get lost(): Promise<Loss> {
    return this.#lost.promise
  }

  /** Starts the first worker, then the others. @throws RemoteError, Error when one of them does not start */
  async open(): Promise<void> {
    const numbers = Array.from({ length: this.#options.count }, (_, i) => i + 1)
    try {
      await this.#begin(numbers[0]!)
      await Promise.all(numbers.slice(1).map((number) => this.#begin(number)))
    } catch (error) {
      this.#isClosing = true
      for (const member of this.#members) member.kill()
      throw error
    }
    this.#isOpen = true
  }

  announce(): void {
    const first = this.#serving().find(({ number }) => number === 1)
    first?.channel.tell('announce')
  }

  /**
   * Makes every worker read the configuration and set it up, one after the other, and then all use it.
   * @throws Error with the reason of the first that cannot; none has changed anything then
   */
  reload(): Promise<void> {
    const reload = this.#reloading.then(() => this.#reload())
    this.#reloading = reload.catch(() => {})
    return reload
  }

  async #reload(): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      const members = this.#serving()
      const digests = new Set<string>()
      try {
        for (const { channel } of members) {
          // One that has ended is started again, with the new configuration.
          const digest = await channel
            .ask<string>('prepare', undefined, PREPARE_MS)
            .catch(unlessEnded)
          if (digest !== undefined) digests.add(digest)
        }
        if (digests.size > 1) throw new Error('its files change while the workers read them')
      } catch (error) {
        for (const { channel } of members) channel.tell('discard')
        if (digests.size > 1 && attempt < ATTEMPTS) continue
        throw error
      }
      for (const member of members) {
        member.channel.tell('use')
        member.digest = [...digests][0] ?? member.digest
      }
      return
    }
  }

  /**
   * Ends all in the steps of a gateway's end.
   * @param hurry ends the wait for running calls
   * @returns the highest exit status; 70 counts for one that a signal has ended
   */
  async close(hurry: AbortSignal): Promise<number> {
    this.#isClosing = true
    for (const timer of this.#timers) clearTimeout(timer)
    for (const member of this.#members) if (member.state === 'starting') member.kill()
    const members = [...this.#members].filter(({ state }) => state !== 'starting')
    for (const { channel } of members) channel.tell('stop')
    const hasten = () => members.forEach(({ channel }) => channel.tell('hurry'))
    if (hurry.aborted) hasten()
    hurry.addEventListener('abort', hasten)
    const ends = await Promise.all(members.map(({ ended }) => ended))
    hurry.removeEventListener('abort', hasten)
    await this.#threads.close()
    const silence = Promise.all(members.map(({ silent }) => silent))
    await Promise.race([silence, new Promise((resolve) => setTimeout(resolve, SILENCE_MS).unref())])
    return Math.max(0, ...ends.map(({ code }) => code ?? FAULT))
  }

  /** The names that workers other than the asking one do not serve. One that does not answer is left out. */
  async #unservedOf(asking: Channel): Promise<readonly (readonly UnservedName[])[]> {
    const others = this.#serving().filter(({ channel }) => channel !== asking)
    return Promise.all(
      others.map(({ channel }) =>
        channel.ask<readonly UnservedName[]>('unserved', undefined, ANSWER_MS).catch(() => []),
      ),
    )
  }

  #serving(): Member[] {
    return [...this.#members].filter(({ state }) => state === 'serving')
  }

  /** Starts one worker. @throws RemoteError, Error when it does not start */
  async #begin(number: number): Promise<Member> {
    const { count, start } = this.#options
    const member = new Member(number)
    const { channel } = member
    this.#members.add(member)
    const release = watchLiveness(channel, () => this.#silent(member))
    channel.on('thread', (message) => this.#threads.receive(channel, message))
    channel.on('total', (families: readonly MetricFamily[]) => this.#totals.of(channel, families))
    channel.on('unserved of others', () => this.#unservedOf(channel))
    channel.on('reasons', (reasons: readonly Reason[]) => {
      member.reasons = reasons
      this.#spreadReasons()
    })
    channel.on('counted', (families: readonly MetricFamily[]) =>
      this.#totals.tell(channel, families),
    )
    channel.on('leaving', () => this.#leaving(member))
    void member.ended.then((end) => {
      release()
      this.#ended(member, end)
    })
    try {
      member.digest = await channel.ask('start', { ...start, number, count }, PREPARE_MS)
      member.state = 'serving'
      this.#totals.joined(channel)
      this.#spreadReasons()
      return member
    } catch (error) {
      if (error instanceof RemoteError) member.state = 'refused'
      // Its end is handled like any other.
      else member.kill()
      if (!(error instanceof Disconnected)) throw error
      const how = inWords(await member.ended)
      throw new Error(`worker ${number} has ended at its start, ${how}.`, { cause: error })
    }
  }

  /** Ends a worker whose event loop does not turn: it would keep its connections for ever. */
  #silent(member: Member): void {
    const { number, pid } = member
    this.#options.log.error(
      `worker ${number} (process ${pid}) has not answered for ${SILENT_SECONDS} s and is killed`,
    )
    member.kill()
  }

  /** Replaces a worker with a fault: it takes no more connections, and ends when its calls have. */
  #leaving(member: Member): void {
    member.state = 'leaving'
    this.#spreadReasons()
    if (!this.#isClosing) this.#replace(member, 'a fault')
  }

  #ended(member: Member, end: End): void {
    const { number, state, pid } = member
    this.#members.delete(member)
    this.#totals.left(member.channel)
    this.#threads.left(member.channel)
    this.#spreadReasons()
    if (this.#isClosing || !this.#isOpen) return
    const how = inWords(end)
    if (end.code === LOST_STATE) {
      return this.#lost.resolve({ why: `the end of worker ${number}, ${how}`, status: LOST_STATE })
    }
    if (state === 'refused' || state === 'leaving') return
    logEvent(this.#options.log, 'error', {
      event: 'worker.ended',
      message: `worker ${number} (process ${pid}) has ended, ${how}; its running calls are lost`,
      members: { worker: number, pid, code: end.code, signal: end.signal },
    })
    this.#replace(member, how)
  }

  /** Starts another worker in place of one. @param how it has ended */
  #replace({ number, livedMs }: Member, how: string): void {
    const waitMs = this.#restartsOf(number).ended(livedMs)
    if (waitMs !== undefined) return this.#startLater(number, waitMs)
    const why = `worker ${number}, which ends again and again soon after its start, at last ${how}`
    this.#lost.resolve({ why, status: FAULT })
  }

  #startLater(number: number, waitMs: number): void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      void this.#startAgain(number)
    }, waitMs)
    this.#timers.add(timer)
  }

  /** Starts a worker again. Never rejects. */
  async #startAgain(number: number): Promise<void> {
    const { log } = this.#options
    try {
      const { digest, pid } = await this.#begin(number)
      this.#restarted++
      this.#restartsOf(number).started()
      logEvent(log, 'info', {
        event: 'worker.started',
        message: `worker ${number} serves again, as process ${pid}`,
        members: { worker: number, pid },
      })
      if (this.#serving().some((one) => one.digest !== digest)) await this.reload()
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      // The end of a process is handled where it is noticed.
      if (this.#isClosing || !(error instanceof RemoteError)) return
      if (this.#serving().length === 0) {
        return this.#lost.resolve({
          why: `worker ${number}, which cannot start: ${reason}`,
          status: FAULT,
        })
      }
      const waitMs = this.#restartsOf(number).refused()
      log.error(`worker ${number} cannot start, tried again in ${waitMs / 1000} s: ${reason}`)
      this.#startLater(number, waitMs)
    }
  }

  #restartsOf(number: number): Restarts {
    const restarts = this.#restarts.get(number) ?? new Restarts()
    this.#restarts.set(number, restarts)
    return restarts
  }

  #spreadReasons(): void {
    const serving = this.#serving()
    for (const member of serving) {
      const others = serving.filter((one) => one !== member)
      const reasons = [...new Set(others.flatMap((one) => one.reasons))].toSorted()
      if ((this.#spread.get(member) ?? '') === reasons.join()) continue
      this.#spread.set(member, reasons.join())
      member.channel.tell('others', reasons)
    }
  }

  #gauges() {
    const { heapUsed, rss } = process.memoryUsage()
    const [heap, all] = ['Memory used by JavaScript.', 'Memory of the process.']
    return [
      { name: 'sluicegate_heap_bytes', help: heap, over: 'sum', value: heapUsed } as const,
      { name: 'sluicegate_rss_bytes', help: all, over: 'sum', value: rss } as const,
      {
        name: 'sluicegate_workers',
        help: 'Processes that serve.',
        over: 'sum',
        value: this.#serving().length,
      } as const,
      {
        name: 'sluicegate_worker_restarts_total',
        help: 'Workers that were started in place of one that has ended.',
        type: 'counter',
        over: 'sum',
        value: this.#restarted,
      } as const,
    ]
  }
}

/** Ignores the error of a worker that has ended. @throws every other error */
function unlessEnded(error: unknown): undefined {
  if (!(error instanceof Disconnected)) throw error
}

function inWords({ code, signal }: End): string {
  return signal ? `by ${signal}` : `with status ${code}`
}

const ASK_MS = 5000
/** Number of questions in a row without an answer after which the worker does not come back. */
const MOST_UNANSWERED = 6

/** Longest time that a worker may give no answer, in seconds. */
export const SILENT_SECONDS = (ASK_MS * MOST_UNANSWERED) / 1000

/**
 * Asks a worker from time to time. Questions are counted, not time: a machine that sleeps keeps this process from asking as
 * well.
 * @param silent called once, when it no longer answers. @returns a function that ends it
 */
export function watchLiveness(channel: Channel, silent: () => void): () => void {
  let unanswered = 0
  const timer = setInterval(() => {
    if (unanswered === MOST_UNANSWERED) {
      clearInterval(timer)
      return silent()
    }
    unanswered++
    channel.ask('alive').then(
      () => (unanswered = 0),
      () => clearInterval(timer),
    )
  }, ASK_MS)
  timer.unref()
  return () => clearInterval(timer)
}

// When a worker that has ended is started again.

/** A life shorter than this counts as an early end. */
const EARLY_MS = 10_000
/** Number of early ends in a row after which it is of no use to go on. */
const MOST_EARLY = 5
const FIRST_MS = 250
const LONGEST_MS = 30_000

/** Counts the ends of one worker and its replacements. */
export class Restarts {
  #early = 0
  #refused = 0

  /**
   * Counts an end.
   * @param livedMs the milliseconds since its start. @returns ms to wait before the next start; undefined where it has ended early repeatedly
   */
  ended(livedMs: number): number | undefined {
    this.#early = livedMs < EARLY_MS ? this.#early + 1 : 0
    if (this.#early === MOST_EARLY) return undefined
    return this.#early === 0 ? 0 : FIRST_MS * 2 ** (this.#early - 1)
  }

  /** Counts a refused start: a configuration or a store may be repaired meanwhile. @returns ms to wait */
  refused(): number {
    return Math.min(2 * FIRST_MS * 2 ** this.#refused++, LONGEST_MS)
  }

  started(): void {
    this.#refused = 0
  }
}

type Families = readonly MetricFamily[]

/** Time limit of a worker's answer; in metrics, a later worker is counted with its previous figures. */
const ANSWER_MS = 2000

/** Adds up the metrics of workers. Those of ended workers stay, so that no counter goes back. */
export class Totals {
  /** Last metrics of the running workers. */
  readonly #latest = new Map<Channel, Families>()
  #ended: Families = []
  readonly #own: () => Gauge[]

  /** @param own further metrics, of the process that starts the workers */
  constructor(own: () => Gauge[]) {
    this.#own = own
  }

  joined(channel: Channel): void {
    this.#latest.set(channel, [])
  }

  tell(channel: Channel, families: Families): void {
    if (this.#latest.has(channel)) this.#latest.set(channel, families)
  }

  /** Adds the last metrics of a worker that has ended. */
  left(channel: Channel): void {
    const counted = (this.#latest.get(channel) ?? []).filter(({ type }) => type !== 'gauge')
    this.#latest.delete(channel)
    this.#ended = combineFamilies([this.#ended, counted])
  }

  async of(asking: Channel, families: Families): Promise<Families> {
    this.tell(asking, families)
    const others = [...this.#latest.keys()].filter((one) => one !== asking)
    await Promise.all(
      others.map(async (one) => {
        const answer = await one
          .ask<Families>('metrics', undefined, ANSWER_MS)
          .catch(() => undefined)
        if (answer) this.tell(one, answer)
      }),
    )
    const own = this.#own().map(gaugeFamily)
    return combineFamilies([
      families,
      ...others.map((one) => this.#latest.get(one) ?? []),
      own,
      this.#ended,
    ])
  }
}

// One worker process, from the view of the process that starts it.

/** Most bytes of one line that are kept together. */
const MOST_OF_LINE = 1024 * 1024

interface End {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

class Member {
  /** Number from 1; a replacement has the number of its predecessor. */
  readonly number: number
  readonly pid: number
  readonly channel: Channel
  /** Resolves when the process has ended. */
  readonly ended: Promise<End>
  /** Resolves when the last line of its output was passed on, too. */
  readonly silent: Promise<unknown>
  readonly #startedAt = performance.now()
  readonly #kill: () => void
  /** `refused`: it could not start; `leaving`: it takes no more connections. */
  state: 'starting' | 'serving' | 'refused' | 'leaving' = 'starting'
  reasons: readonly Reason[] = []
  digest = ''

  constructor(number: number) {
    const worker = cluster.fork(environment())
    const child = worker.process
    this.number = number
    this.pid = child.pid!
    this.channel = new Channel({
      send: (message, onError) => void worker.send(message, onError),
      on: (event, listener) => worker.on(event, listener),
    })
    // The error of a message that could not be sent; the end of the process reports the same.
    worker.on('error', () => {})
    this.#kill = () => void child.kill('SIGKILL')
    passLines(child.stdout!, process.stdout)
    passLines(child.stderr!, process.stderr)
    this.silent = once(child, 'close')
    this.ended = once(child, 'exit').then(([code, signal]) => {
      this.channel.close()
      return { code, signal }
    })
  }

  /** ms since its start. */
  get livedMs(): number {
    return performance.now() - this.#startedAt
  }

  kill(): void {
    this.#kill()
  }
}

function environment(): Record<string, string> {
  const cache = getCompileCacheDir()
  return {
    // Its output is a pipe; where that ends at a terminal, colours are wanted.
    ...(process.stdout.isTTY && { FORCE_COLOR: '1' }),
    // Node adds a folder of its version to this path.
    ...(cache !== undefined && { NODE_COMPILE_CACHE: dirname(cache) }),
  }
}

/** Passes whole lines on: parts of lines of several processes would mix. */
function passLines(from: Readable, to: Writable): void {
  let begun: Buffer[] = []
  let bytes = 0
  const pass = (last?: Buffer) => {
    if (last) begun.push(last)
    if (begun.length > 0) to.write(begun.length === 1 ? begun[0]! : Buffer.concat(begun))
    begun = []
    bytes = 0
  }
  from.on('data', (chunk: Buffer) => {
    const end = chunk.lastIndexOf(0x0a) + 1
    if (end > 0) pass(chunk.subarray(0, end))
    if (end === chunk.length) return
    begun.push(chunk.subarray(end))
    bytes += chunk.length - end
    if (bytes > MOST_OF_LINE) pass()
  })
  from.on('end', () => pass())
  from.on('error', () => {})
}
