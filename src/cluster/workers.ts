/** Starts the worker processes, restarts those that end, and passes requests to the gateway on to all of them. */
import cluster from 'node:cluster'
import type { ConsolaInstance } from 'consola'
import { logEvent } from '../observe/events.ts'
import type { MetricFamily } from '../observe/prometheus.ts'
import type { Reason } from '../server/siblings.ts'
import { Disconnected, RemoteError } from '../threads/channel.ts'
import { SILENT_SECONDS, watchLiveness } from './liveness.ts'
import { Member, type End } from './member.ts'
import { Restarts } from './restarts.ts'
import { SharedThreads } from './threads.ts'
import { Totals } from './totals.ts'

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
