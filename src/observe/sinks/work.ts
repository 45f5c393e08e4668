/** Work of the thread of sinks: makes events of lines of the request log, and hands them to the runners. */
import { setTimeout as sleep } from 'node:timers/promises'
import type {
  CallText,
  EndedCall,
  EventContents,
  GatewayEvent,
  Sink,
  EventName,
  SentEvents,
} from '../../plugin.ts'
import { randomId } from '../../state/ids.ts'
import type { CallContent } from '../content/content.ts'
import { callsIn, endedCall, type KnownCall } from '../record.ts'
import type { ThreadWork } from '../../threads/client.ts'
import type { ConfigIssue } from '../../errors/errors.ts'
import { inTime } from '../../lifetime/scope.ts'

export interface NamedSink {
  readonly name: string
  readonly sink: Sink
  /** Position in the configuration. */
  readonly index: number
}

/** Sinks of a configuration, or its issues. */
export interface OpenSinks {
  readonly issues: SinksReady['issues']
  readonly sinks: readonly NamedSink[]
  close(): Promise<void>
}

interface WorkOptions {
  readonly gateway: string
  /** Never rejects. */
  readonly open: () => Promise<OpenSinks>
  readonly report: (report: SinkReport) => void
  /** The code of a sink is about to run. @param index the index in the configuration */
  readonly entering: (index: number) => void
}

/** Most characters of contents that wait for the lines of their calls. */
const MOST_CHARACTERS = 16 * 1024 * 1024
const REPORT_MS = 500
const CALL_EVENTS = ['call.ended', 'guard.blocked', 'guard.escalation'] as const

/** Sets the sinks up when it is constructed. */
export class SinkWork implements ThreadWork<SinkNotice, SinkQuestion> {
  readonly #options: WorkOptions
  readonly #opened: Promise<OpenSinks>
  #runners: readonly SinkRunner[] = []
  #wantsCalls = false
  #refused = false
  #reporting: NodeJS.Timeout | undefined
  /** Contents of calls whose line has not come yet, by the id of the request. */
  readonly #contents = new Map<string, CallContent>()
  #characters = 0

  constructor(options: WorkOptions) {
    this.#options = options
    this.#opened = this.#open()
  }

  take(notice: SinkNotice): void {
    void this.#opened.then(({ issues }) => {
      if (issues.length > 0) this.#refuse(issues)
      if ('event' in notice) this.#offer([notice.event])
      else if (!this.#wantsCalls) {
        // No sink takes calls.
      } else if ('content' in notice) this.#keep(notice.content)
      else this.#offer(this.#eventsOf(notice.calls))
      this.#options.report({ took: true })
    })
  }

  async answer(question: SinkQuestion): Promise<SinksReady | undefined> {
    if (question === 'alive') return undefined
    const { issues, sinks } = await this.#opened
    const ready = sinks.map(({ name, sink, index }) => ({ name, takes: sink.takes, index }))
    return { issues, sinks: ready }
  }

  async close(): Promise<void> {
    const opened = await this.#opened
    await Promise.allSettled(this.#runners.map((runner) => runner.close()))
    await opened.close()
    clearTimeout(this.#reporting)
    this.#report()
  }

  async #open(): Promise<OpenSinks> {
    const opened = await this.#options.open()
    const { report, entering } = this.#options
    this.#runners = opened.sinks.map(({ name, sink, index }) => {
      const line = (level: 'error' | 'warn') => (text: string) =>
        report({ level, line: `the sink ${name}: ${text}` })
      const log = { error: line('error'), warn: line('warn') }
      const changed = () => this.#changed()
      return new SinkRunner({ name, sink, log, changed, entering: () => entering(index) })
    })
    this.#wantsCalls = opened.sinks.some(({ sink }) =>
      CALL_EVENTS.some((name) => sink.takes.includes(name)),
    )
    return opened
  }

  /** Ends the work after a restart in which the sinks cannot be set up. */
  #refuse(issues: SinksReady['issues']): void {
    if (this.#refused) return
    this.#refused = true
    for (const { path, message } of issues) {
      this.#options.report({ level: 'error', line: `${path}: ${message}` })
    }
  }

  #offer(events: readonly GatewayEvent[]): void {
    for (const runner of this.#runners) runner.offer(events)
  }

  #eventsOf(lines: string): GatewayEvent[] {
    const { gateway } = this.#options
    return callsIn(lines).flatMap((call): GatewayEvent[] => {
      const data = this.#withContent(endedCall(call))
      const at = new Date(Date.parse(data.at) + (data.times.total_ms ?? 0)).toISOString()
      const common = { at, gateway, data }
      const ended = { id: randomId('evt_'), event: 'call.ended' as const, ...common }
      const id = `evt_${data.id.replace(/^req_/, '')}`
      const isBlocked = data.guard?.outcome === 'blocked'
      const escalated = escalationOf(call, data)
      return [
        ended,
        ...(escalated
          ? [{ id, event: 'guard.escalation' as const, ...common, data: escalated }]
          : []),
        ...(isBlocked ? [{ id, event: 'guard.blocked' as const, ...common }] : []),
      ]
    })
  }

  /** Calls whose record was lost leave theirs behind: the oldest make room. */
  #keep(content: CallContent): void {
    this.#contents.set(content.id, content)
    this.#characters += charactersOf(content)
    for (const [id, oldest] of this.#contents) {
      if (this.#characters <= MOST_CHARACTERS) return
      this.#contents.delete(id)
      this.#characters -= charactersOf(oldest)
    }
  }

  #withContent(call: EndedCall): EndedCall {
    const stored = this.#contents.get(call.id)
    if (!stored) return call
    this.#contents.delete(call.id)
    this.#characters -= charactersOf(stored)
    const { input, output, cut } = stored
    const content = { input: JSON.parse(input), output: JSON.parse(output), cut } as CallText
    return { ...call, content }
  }

  #changed(): void {
    this.#reporting ??= setTimeout(() => {
      this.#reporting = undefined
      this.#report()
    }, REPORT_MS).unref()
  }

  #report(): void {
    this.#options.report({ counts: this.#runners.map((runner) => runner.takeCounts()) })
  }
}

/** The event about a block, where the policy wants one; undefined for another call. */
function escalationOf(
  { escalated, guard }: KnownCall,
  data: EndedCall,
): EventContents['guard.escalation'] | undefined {
  const { account_id, key_id, model } = data
  if (!escalated || account_id === null || key_id === null || model === null) return undefined
  const { mode, outcome } = escalated
  return {
    ...data,
    request_id: data.id,
    account_id,
    key_id,
    model,
    mode,
    outcome,
    rules: guard?.rules ?? [],
  }
}

function charactersOf({ input, output }: CallContent): number {
  return input.length + output.length
}

/** An event: lines of the request log, the content of a call before its line, or an event in its final form. */
export type SinkNotice =
  | { readonly calls: string }
  | { readonly content: CallContent }
  | { readonly event: GatewayEvent }

/** Asks for the sinks when all are set up, or whether the thread can answer at all. */
export type SinkQuestion = 'ready' | 'alive'

export interface SinksReady {
  readonly issues: readonly ConfigIssue[]
  readonly sinks: readonly ReadySink[]
}

export interface ReadySink {
  readonly name: string
  readonly takes: readonly EventName[]
  /** Position in the configuration. */
  readonly index: number
}

/** Result of sending events: delivered, refused by the receiver, or to be tried again. */
type SinkResult = 'delivered' | 'refused' | 'failed'

export type SinkLoss = 'queue' | 'disabled' | 'closed'

export interface SinkCounts {
  readonly name: string
  readonly results: Readonly<Partial<Record<SinkResult, number>>>
  readonly lost: Readonly<Partial<Record<SinkLoss, number>>>
  readonly queued: number
  /** Whether it has failed for so long that it gets no events any more. */
  readonly disabled: boolean
}

/** Messages that the thread sends unasked. */
export type SinkReport =
  /** The next notice was accepted. */
  | { readonly took: true }
  | { readonly counts: readonly SinkCounts[] }
  | { readonly level: 'error' | 'warn' | 'info' | 'debug'; readonly line: string }
  | { readonly sink: string; readonly secrets: readonly string[] }

// Delivers events to one sink: in batches, with a bounded queue, repeatedly until they are delivered.

/** Time and waiting of a runner; tests bring their own. */
interface Clock {
  /** Steady ms. */
  now(): number
  /** @throws when the signal is aborted */
  wait(ms: number, signal: AbortSignal): Promise<void>
}

interface RunnerOptions {
  readonly name: string
  readonly sink: Sink
  readonly log: { error(line: string): void; warn(line: string): void }
  /** It is called when its counts have changed. */
  readonly changed: () => void
  readonly entering?: () => void
  readonly clock?: Clock
}

/** Most events that wait; the oldest are dropped above it. */
export const MOST_QUEUED = 10_000
/** Most characters of contents that wait. */
const MOST_MESSAGE_CHARACTERS = 32 * 1024 * 1024
const BATCH = 512
/** How long a batch may wait to become full. */
const GATHER_MS = 1000
const SEND_MS = 10_000
/** How long a sink has to end after its signal was aborted. */
const ABORTED_MS = 1000
const FIRST_PAUSE_MS = 1000
const LONGEST_PAUSE_MS = 300_000
/** How long a sink may fail before it gets no events any more. */
const PATIENCE_MS = 24 * 3_600_000

const CLOCK: Clock = {
  now: () => performance.now(),
  wait: (ms, signal) => sleep(ms, undefined, { signal, ref: false }),
}

export class SinkRunner {
  readonly #options: RunnerOptions
  readonly #clock: Clock
  #queue: GatewayEvent[] = []
  /** Characters of the contents in the queue. */
  #characters = 0
  /** The batch that is being sent. */
  #sending: readonly GatewayEvent[] = []
  #working: Promise<void> | undefined
  /** Ends pauses: events are sent at once, each batch once. */
  readonly #closing = new AbortController()
  #results: Partial<Record<SinkResult, number>> = {}
  #lost: Partial<Record<SinkLoss, number>> = {}
  /** When the failures without a delivery began, steady ms. */
  #failingSince: number | undefined
  #disabled = false

  constructor(options: RunnerOptions) {
    this.#options = options
    this.#clock = options.clock ?? CLOCK
  }

  /** Queues the events that the sink wants. */
  offer(events: readonly GatewayEvent[]): void {
    const { takes } = this.#options.sink
    const escalated = takes.includes('guard.escalation')
      ? new Set(events.flatMap(({ event, id }) => (event === 'guard.escalation' ? id : [])))
      : undefined
    // One event for one block.
    const wanted = events.filter(
      ({ event, id }) =>
        takes.includes(event) && (event !== 'guard.blocked' || !escalated?.has(id)),
    )
    if (wanted.length === 0) return
    if (this.#disabled || this.#closing.signal.aborted) return this.#lose('disabled', wanted.length)
    for (const one of wanted) this.#queue.push(this.#bounded(one))
    const tooMany = this.#queue.length - MOST_QUEUED
    if (tooMany > 0) {
      this.#take(tooMany)
      this.#lose('queue', tooMany)
    }
    this.#options.changed()
    this.#work()
  }

  /** Changes since the last call. */
  takeCounts(): SinkCounts {
    const { name } = this.#options
    const [results, lost] = [this.#results, this.#lost]
    this.#results = {}
    this.#lost = {}
    const queued = this.#queue.length + this.#sending.length
    return { name, results, lost, queued, disabled: this.#disabled }
  }

  /** Sends waiting events, each batch once, and closes the sink. Events that the sink refuses are lost. */
  async close(): Promise<void> {
    this.#closing.abort()
    await this.#working
    await this.#options.sink.close?.()
  }

  #work(): void {
    if (this.#working || this.#queue.length === 0) return
    this.#working = this.#sendAll().finally(() => {
      this.#working = undefined
      this.#work()
    })
  }

  async #sendAll(): Promise<void> {
    const size = Math.min(Math.max(this.#options.sink.batch ?? BATCH, 1), 1000)
    while (this.#queue.length > 0) {
      if (this.#queue.length < size) await this.#pause(GATHER_MS)
      this.#sending = this.#take(size)
      await this.#sendBatch()
      this.#sending = []
      this.#options.changed()
    }
  }

  /** Drops contents before it drops events. */
  #bounded(event: GatewayEvent): GatewayEvent {
    const size = sizeOf(event)
    if (size === 0) return event
    if (this.#characters + size <= MOST_MESSAGE_CHARACTERS) {
      this.#characters += size
      return event
    }
    return { ...event, data: { ...event.data, content: null } } as GatewayEvent
  }

  /** Takes the oldest events off the queue. */
  #take(most: number): GatewayEvent[] {
    const batch = this.#queue.splice(0, most)
    for (const event of batch) this.#characters -= sizeOf(event)
    return batch
  }

  /** Sends a batch until it is delivered, refused or given up. */
  async #sendBatch(): Promise<void> {
    const { length } = this.#sending
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)) {
      try {
        const refused = this.#refusedBy(await this.#send(), length)
        this.#recovered()
        this.#count('delivered', length - refused)
        return this.#refuse(refused)
      } catch (error) {
        if (isFinal(error)) return this.#refuse(length, `: ${messageOf(error)}`)
        this.#count('failed', length)
        this.#failed(error)
        if (this.#disabled) return this.#lose('disabled', length)
        if (this.#closing.signal.aborted) return this.#lose('closed', length)
        await this.#pause(Math.min(Math.max(retryAfterOf(error), pauseMs), LONGEST_PAUSE_MS))
      }
    }
  }

  /** How many events the receiver refused. Of a plugin that says it in another way the log tells, and they count as delivered. */
  #refusedBy(sent: SentEvents | void, length: number): number {
    const refused: unknown = sent?.refused ?? 0
    if (Number.isInteger(refused) && Number(refused) >= 0 && Number(refused) <= length)
      return Number(refused)
    this.#options.log.warn(
      `"refused" of a sink is a whole number from 0 to ${length}, not ${String(refused).slice(0, 40)}: the events count as delivered`,
    )
    return 0
  }

  #refuse(events: number, why = ''): void {
    if (events === 0) return
    this.#options.log.warn(`${events} events are refused, and dropped${why}`)
    this.#count('refused', events)
  }

  async #send(): Promise<SentEvents | void> {
    const { sink, entering } = this.#options
    entering?.()
    const signal = AbortSignal.timeout(SEND_MS)
    const late = () => new Error(`it took more than ${SEND_MS / 1000} seconds`)
    const sending = (async () => sink.send(this.#sending, signal))()
    return inTime(sending, SEND_MS + ABORTED_MS, late)
  }

  #failed(error: unknown): void {
    const { log } = this.#options
    const now = this.#clock.now()
    if (this.#failingSince === undefined) {
      this.#failingSince = now
      log.warn(`events cannot be sent, and wait: ${messageOf(error)}`)
    } else if (now - this.#failingSince >= PATIENCE_MS) {
      this.#disabled = true
      log.error('sink.disabled: nothing could be sent for 24 hours; a reload tries again')
      this.#lose('disabled', this.#queue.length)
      this.#take(this.#queue.length)
    }
  }

  #recovered(): void {
    if (this.#failingSince !== undefined) this.#options.log.warn('events are sent again')
    this.#failingSince = undefined
  }

  async #pause(ms: number): Promise<void> {
    // Closing ends it.
    await this.#clock.wait(ms, this.#closing.signal).catch(() => undefined)
  }

  #count(result: SinkResult, events: number): void {
    if (events === 0) return
    this.#results[result] = (this.#results[result] ?? 0) + events
    this.#options.changed()
  }

  #lose(reason: SinkLoss, events: number): void {
    if (events === 0) return
    this.#lost[reason] = (this.#lost[reason] ?? 0) + events
    this.#options.changed()
  }
}

/** Whether the receiver will never accept the events. */
function isFinal(error: unknown): boolean {
  const { failure } = error as { failure?: unknown }
  return failure === 'bad_request' || failure === 'payload_too_large'
}

function retryAfterOf(error: unknown): number {
  const { retryAfterMs } = error as { retryAfterMs?: unknown }
  return typeof retryAfterMs === 'number' ? retryAfterMs : 0
}

function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  // The sentence of a failure is meant for clients of the model.
  const { cause, failure } = error as { cause?: unknown; failure?: string }
  if (failure === undefined) return error.message
  return cause instanceof Error ? `${failure}: ${cause.message}` : failure
}

/** Approximate characters of the content of a call; 0 for an event without any. */
function sizeOf({ data }: GatewayEvent): number {
  const { content } = data as Partial<EndedCall>
  if (!content) return 0
  const cached = sizes.get(content)
  if (cached !== undefined) return cached
  const size = JSON.stringify(content).length
  sizes.set(content, size)
  return size
}

const sizes = new WeakMap<CallText, number>()
