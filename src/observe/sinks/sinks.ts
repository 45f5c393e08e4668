/**
 * Sends events to sinks beside the calls: a thread makes events of the lines of the request log, and sends them. Nothing on the
 * way of a request waits for it, and excess events are dropped and counted.
 */
import type { ConsolaInstance } from 'consola'
import type { ConfigIssue } from '../../errors/errors.ts'
import type { EventContents, EventName, GatewayEvent } from '../../plugin.ts'
import { randomId } from '../../state/ids.ts'
import { ThreadClient, type WorkThread } from '../../threads/client.ts'
import type { CallContent } from '../content/content.ts'
import type { ReadySink, SinkNotice, SinkQuestion, SinkReport, SinksReady } from './work.ts'
import type { SinkMetrics } from '../metrics.ts'

interface SinksOptions {
  readonly gateway: string
  /**
   * @param entered where the thread writes 1 more than the index of the sink whose code ran last
   * @param without indexes of sinks that are no longer set up
   */
  readonly start: (entered: Int32Array, without: readonly number[]) => WorkThread
  readonly log: Pick<ConsolaInstance, 'error' | 'warn' | 'info' | 'debug'>
  readonly metrics: SinkMetrics
  /** Keeps secrets of a sink out of errors and logs, in place of those before. */
  readonly mask: (sink: string, secrets: readonly string[]) => void
  /** ms since epoch */
  readonly wallClock?: () => number
  /** Calls a function repeatedly, until the signal is aborted; every ten seconds by default. */
  readonly repeat?: (look: () => void, signal: AbortSignal) => void
  readonly restartMs?: number
}

interface Untaken {
  /** It is absent for the content of a call. */
  readonly event?: EventName
  /** One line for each event; absent for a single event. */
  readonly lines?: string
  readonly characters: number
}

/** Most characters that the thread has not accepted: about 10,000 calls. */
const MOST_SENT = 4 * 1024 * 1024
/** Time limit for sending the last events. */
const CLOSE_MS = 5000
const LOOK_MS = 10_000
/** Number of checks in a row without an answer after which a thread is ended. A machine that slept causes one. */
const MOST_SILENT = 3
const BUSY = 'it kept the thread of sinks busy, so that no other sink could send'
const FAILING = 'it could send nothing for 24 hours'

/** The sinks of one configuration. The owner calls `close`. */
export class Sinks {
  readonly #options: SinksOptions
  readonly #thread: ThreadClient<SinkNotice, SinkQuestion, SinkReport>
  #sinks: SinksReady['sinks'] = []
  /** Events that the thread has not accepted, in order. */
  #untaken: Untaken[] = []
  #sent = 0
  readonly #entered = new Int32Array(new SharedArrayBuffer(4))
  /** Reasons by the name of the sink. */
  readonly #disabled = new Map<string, string>()
  /** Sinks that have kept the thread busy. */
  readonly #stuck: ReadySink[] = []
  /** Issue of a sink that was being set up. */
  #openIssue: ConfigIssue | undefined
  #opening = false
  /** Checks since the thread was asked for an answer; 0 while it was not. */
  #silent = 0
  readonly #closing = new AbortController()

  constructor(options: SinksOptions) {
    this.#options = options
    this.#thread = new ThreadClient({
      name: 'the thread of sinks',
      start: () => this.#start(),
      heard: (report) => this.#onReport(report),
      ended: () => this.#ended(),
      log: options.log,
      closeMs: CLOSE_MS,
      ...(options.restartMs !== undefined && { restartMs: options.restartMs }),
    })
    const { repeat = everyTenSeconds } = options
    repeat(() => this.#check(), this.#closing.signal)
  }

  /** The name of each sink that was set up, by its place in the configuration. */
  get names(): ReadonlyMap<number, string> {
    return new Map(this.#sinks.map(({ index, name }) => [index, name]))
  }

  /** Disabled sinks by name, with the reason. */
  get disabled(): ReadonlyMap<string, string> {
    return this.#disabled
  }

  async open(): Promise<SinksReady['issues']> {
    this.#opening = true
    try {
      const ready = await this.#thread.ask<SinksReady>('ready')
      this.#sinks = ready.sinks
      return ready.issues
    } catch (error) {
      if (this.#openIssue) return [this.#openIssue]
      throw error
    } finally {
      this.#opening = false
    }
  }

  /** Queues ended calls. @param lines the lines of the request log */
  calls(lines: string): void {
    this.#send({ calls: lines }, { event: 'call.ended', lines, characters: lines.length })
  }

  /** Queues the content of a call, for sinks that trace; called before the line of the call. Without room the call goes without it. */
  content(content: CallContent): void {
    const characters = content.input.length + content.output.length
    this.#send({ content }, { characters })
  }

  tell<Name extends Exclude<EventName, 'call.ended' | 'guard.blocked' | 'guard.escalation'>>(
    event: Name,
    data: EventContents[Name],
    id = randomId('evt_'),
  ): void {
    const at = new Date((this.#options.wallClock ?? Date.now)()).toISOString()
    const { gateway } = this.#options
    const made = { id, event, at, gateway, data } as GatewayEvent
    const characters = JSON.stringify(data).length
    this.#send({ event: made }, { event, characters })
  }

  /** Sends waiting events, for at most five seconds. */
  close(): Promise<void> {
    this.#closing.abort()
    return this.#thread.close()
  }

  #start(): WorkThread {
    Atomics.store(this.#entered, 0, 0)
    const without = this.#stuck.map(({ index }) => index)
    return this.#options.start(this.#entered, without)
  }

  #send(notice: SinkNotice, untaken: Untaken): void {
    const isFull = this.#sent + untaken.characters > MOST_SENT
    if (isFull || !this.#thread.ready) return this.#lose(untaken, 'thread')
    this.#lose(untaken, 'disabled', this.#stuck)
    this.#sent += untaken.characters
    this.#untaken.push(untaken)
    this.#thread.post(notice)
  }

  #lose({ event, lines }: Untaken, reason: 'thread' | 'disabled', sinks = this.#sinks): void {
    const losing = sinks.filter(({ takes }) => event !== undefined && takes.includes(event))
    if (losing.length === 0) return
    const events = lines?.trimEnd().split('\n').length ?? 1
    for (const { name } of losing) this.#options.metrics.lost(name, reason, events)
  }

  #ended(): void {
    const { metrics } = this.#options
    for (const [name, events] of metrics.queued)
      if (events > 0) metrics.lost(name, 'thread', events)
    metrics.queued.clear()
    for (const untaken of this.#untaken) this.#lose(untaken, 'thread')
    // The next thread tries again.
    for (const [name, why] of this.#disabled) if (why === FAILING) this.#disabled.delete(name)
    this.#untaken = []
    this.#sent = this.#silent = 0
  }

  /** Asks a thread for a sign of life while events wait for it, and ends one that gives none. */
  #check(): void {
    // Until the code of a sink runs, a thread may be slow, but is not stuck.
    if (Atomics.load(this.#entered, 0) === 0) return
    if (!this.#opening && this.#untaken.length === 0) return
    if (this.#silent++ > 0) {
      if (this.#silent > MOST_SILENT) this.#endBusy()
      return
    }
    const answered = () => void (this.#silent = 0)
    this.#thread.ask('alive').then(answered, answered)
  }

  /** The sink whose code ran last is the one that blocks the thread. */
  #endBusy(): void {
    const { log } = this.#options
    const index = Atomics.load(this.#entered, 0) - 1
    const sink = this.#sinks.find((one) => one.index === index)
    if (this.#opening) this.#openIssue = { path: `sinks.${index}.use`, message: BUSY }
    else if (sink && !this.#stuck.includes(sink)) {
      log.error(`sink.disabled: the sink ${sink.name}: ${BUSY}; a reload tries again`)
      this.#disabled.set(sink.name, BUSY)
      this.#stuck.push(sink)
    }
    this.#thread.end()
  }

  #onReport(report: SinkReport): void {
    const { log, metrics, mask } = this.#options
    if ('took' in report) this.#sent -= this.#untaken.shift()?.characters ?? 0
    else if ('line' in report) log[report.level](report.line)
    else if ('secrets' in report) mask(report.sink, report.secrets)
    else {
      for (const counts of report.counts) {
        metrics.counted(counts)
        if (counts.disabled) this.#disabled.set(counts.name, FAILING)
      }
    }
  }
}

function everyTenSeconds(look: () => void, signal: AbortSignal): void {
  const timer = setInterval(look, LOOK_MS).unref()
  signal.addEventListener('abort', () => clearInterval(timer), { once: true })
}
