/** Work of the thread of sinks: makes events of lines of the request log, and hands them to the runners. */
import type { CallText, EndedCall, GatewayEvent, Sink } from '../../plugin.ts'
import { randomId } from '../../state/ids.ts'
import type { CallContent } from '../content/content.ts'
import { callsIn, endedCall } from '../record.ts'
import type { ThreadWork } from '../../threads/client.ts'
import type { SinkNotice, SinkQuestion, SinkReport, SinksReady } from './messages.ts'
import { SinkRunner } from './runner.ts'

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
  /** The code of a sink is about to run. @param index in the configuration */
  readonly entering: (index: number) => void
}

/** Most characters of contents that wait for the lines of their calls. */
const MOST_CHARACTERS = 16 * 1024 * 1024
const REPORT_MS = 500
const CALL_EVENTS = ['call.ended', 'guard.blocked'] as const

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
      if (data.guard?.outcome !== 'blocked') return [ended]
      return [ended, { id: randomId('evt_'), event: 'guard.blocked', ...common }]
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

function charactersOf({ input, output }: CallContent): number {
  return input.length + output.length
}
