/**
 * Tells sinks what happens, beside the calls: a thread makes events of the lines of the request log, and sends them. Nothing on
 * the way of a request waits for it, and what is too much is dropped and counted.
 */
import type { ConsolaInstance } from 'consola'
import type { EventContents, EventName, GatewayEvent } from '../../plugin.ts'
import { randomId } from '../../state/ids.ts'
import { ThreadClient, type WorkThread } from '../thread-client.ts'
import type { SinkNotice, SinkQuestion, SinkReport, SinksReady } from './messages.ts'
import type { SinkMetrics } from './metrics.ts'

/** Settings of {@link Sinks}. */
interface SinksOptions {
  readonly gateway: string
  readonly start: () => WorkThread
  readonly log: Pick<ConsolaInstance, 'error' | 'warn' | 'info' | 'debug'>
  readonly metrics: SinkMetrics
  /** Keeps secrets of a sink out of errors and logs, in place of those before. */
  readonly mask: (sink: string, secrets: readonly string[]) => void
  /** ms since epoch */
  readonly wallClock?: () => number
}

/** Characters that the thread has not taken: about 10,000 calls. */
const MOST_SENT = 4 * 1024 * 1024
/** For the last events to be sent. */
const CLOSE_MS = 5000

/** The sinks of one configuration. The owner calls `close`. */
export class Sinks {
  readonly #options: SinksOptions
  readonly #thread: ThreadClient<SinkNotice, SinkQuestion, SinkReport>
  #sinks: SinksReady['sinks'] = []
  #sent = 0
  readonly #disabled = new Set<string>()

  constructor(options: SinksOptions) {
    this.#options = options
    this.#thread = new ThreadClient({
      name: 'the thread of sinks',
      start: options.start,
      heard: (report) => this.#heard(report),
      ended: () => (this.#sent = 0),
      log: options.log,
      closeMs: CLOSE_MS,
    })
  }

  /** Sinks that have failed for so long that they are not asked any more. */
  get disabled(): ReadonlySet<string> {
    return this.#disabled
  }

  /** Sets the sinks up. @returns what is wrong with them. @throws Unavailable when the thread cannot be started */
  async open(): Promise<SinksReady['issues']> {
    const ready = await this.#thread.ask<SinksReady>('ready')
    this.#sinks = ready.sinks
    return ready.issues
  }

  /** Calls have ended. @param lines of the request log */
  calls(lines: string): void {
    if (this.#sent + lines.length > MOST_SENT || !this.#thread.ready) {
      const calls = lines.split('\n').length
      return this.#dropped('call.ended', calls)
    }
    this.#sent += lines.length
    this.#thread.post({ calls: lines })
  }

  /** Something else has happened. */
  tell<Name extends Exclude<EventName, 'call.ended' | 'guard.blocked'>>(
    event: Name,
    data: EventContents[Name],
  ): void {
    if (!this.#thread.ready) return this.#dropped(event, 1)
    const at = new Date((this.#options.wallClock ?? Date.now)()).toISOString()
    const { gateway } = this.#options
    const made = { id: randomId('evt_'), event, at, gateway, data } as GatewayEvent
    this.#thread.post({ event: made })
  }

  /** Sends what waits, for five seconds. */
  close(): Promise<void> {
    return this.#thread.close()
  }

  #dropped(event: EventName, events: number): void {
    for (const { name, takes } of this.#sinks) {
      if (takes.includes(event)) this.#options.metrics.lost(name, 'thread', events)
    }
  }

  #heard(report: SinkReport): void {
    const { log, metrics, mask } = this.#options
    if ('took' in report) this.#sent -= report.took
    else if ('line' in report) log[report.level](report.line)
    else if ('secrets' in report) mask(report.sink, report.secrets)
    else {
      for (const counts of report.counts) {
        metrics.counted(counts)
        if (counts.disabled) this.#disabled.add(counts.name)
      }
    }
  }
}
