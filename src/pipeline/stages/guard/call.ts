/** The guard stage for one call: what guards see of input and answer, in which order, and what follows from it. */
import { PolicyViolation, Unavailable } from '../../../errors/errors.ts'
import { flowFrom, flowOf } from '../../../stream/flow.ts'
import { Decision, type Violation } from '../../../guard/decision.ts'
import type { OutputScanner } from '../../../guard/scan-session.ts'
import type { Assignment, GuardPlan, PatternAssignment } from '../../../guard/plan.ts'
import type { GuardAdapter, InputTexts } from '../../../guard/adapter.ts'
import { OutputScreen } from '../../../guard/output-screen.ts'
import {
  ScreenedStream,
  type ScreenedStreamInit,
  type ScreeningEnd,
} from '../../../guard/screened-stream.ts'
import type { Denial } from '../../../guard/screen-types.ts'
import { GuardFault } from '../../../guard/verdicts.ts'
import type { Call, Next, Reply, ResultFilter } from '../../pipeline.ts'
import type { Flow, SearchResult, Side, TextItem } from '../../../plugin.ts'
import { knownRefusals, refusalOf } from '../../../policy/policy.ts'
import { GuardReporter } from './report.ts'
import { GuardRunners, type RunnerGroup } from './runners.ts'
import { InputScreen, type InputObserver, type InputVerdict } from '../../../guard/input-screen.ts'

/** ms without new text after which an unfinished segment is judged. */
const IDLE_MS = 1500
const UNAVAILABLE = 'A guard of this key could not look at this request. Try again later.'
const UNANSWERED = 'no guard looks after a rule'

export class CallGuard implements ResultFilter {
  readonly #call: Call
  readonly #adapter: GuardAdapter
  readonly #plan: GuardPlan
  readonly #reporter: GuardReporter
  readonly #input: InputGuard
  readonly #runners: GuardRunners
  /** Whether the input is looked at, and the answer. */
  readonly #readsInput: boolean
  readonly #readsOutput: boolean
  /** A block ends the call with an error. */
  readonly #errorForm: boolean

  constructor(call: Call, adapter: GuardAdapter, plan: GuardPlan) {
    const { policy, runtime } = call
    this.#call = call
    this.#adapter = adapter
    this.#plan = plan
    call.decision = new Decision({
      mode: policy.guard.mode,
      evidence: runtime.config.guards.evidence,
      startedAt: call.startedAt,
      unenforced: plan.unenforced,
    })
    this.#reporter = new GuardReporter(call, call.decision)
    const texts = adapter.inputTexts(call.request.input, knownRefusals(policy))
    this.#runners = new GuardRunners(call, texts)
    this.#input = new InputGuard(call, adapter, texts, plan, this.#reporter, this.#runners)
    const { input, output } = policy.guard
    const repeats = adapter.outputRepeatsInput === true
    this.#readsInput = input || (repeats && output)
    this.#readsOutput = output && !repeats
    this.#errorForm = policy.guard.onBlock === 'error' || !adapter.refusalParts
    this.#reporter.updateHeader()
    for (const { media } of texts.items) {
      if (media) for (const { kind } of media) this.#reporter.unscanned(kind)
    }
  }

  /** Changes, delays and refuses nothing; records what guards would have done. */
  async monitored(next: Next): Promise<Reply> {
    const { enforcing, monitoring, patterns, faults } = this.#plan
    for (const { guard, kind } of faults) {
      this.#reporter.failed('input', guard, new GuardFault(kind, UNANSWERED), false)
    }
    if (this.#readsInput) this.#input.monitor()
    this.#call.resultFilter = this
    const { parts } = await next()
    if (!this.#readsOutput) return { parts }
    return { parts: this.#monitor(parts, [...enforcing, ...monitoring], patterns) }
  }

  /** Nothing goes upstream, and nothing goes out, that a guard has not agreed to. */
  async screened(next: Next): Promise<Reply> {
    for (const { guard, kind } of this.#plan.faults) {
      const fault = new GuardFault(kind, UNANSWERED)
      if (this.#reporter.failed('input', guard, fault)) return this.#refused(fault)
    }
    const input = this.#readsInput ? await this.#input.screen() : undefined
    if (input?.stop) return this.#refused(input.stop)
    // Search results go in, and come out as citations: either side is reason enough to read them.
    this.#call.resultFilter = this
    const { parts } = await next()
    if (this.#readsOutput || input?.later) return this.#decided(this.#screen(parts, input?.later))
    this.#decide()
    return { parts }
  }

  filterResults(
    results: readonly SearchResult[],
  ): readonly SearchResult[] | Promise<readonly SearchResult[]> {
    return this.#call.policy.guard.mode === 'monitor'
      ? this.#input.monitorResults(results)
      : this.#input.screenResults(results)
  }

  /** @param later the verdict of guards that still look at the input */
  #screen(parts: Flow<any>, later: Promise<Stop> | undefined): Flow<any> {
    const call = this.#call
    const { enforcing, monitoring, patterns } = this.#plan
    const inputVerdict = later?.then((stop) => stop && this.#refusal(stop))
    if (!this.#readsOutput) return this.#stream({ parts, inputVerdict, enforce: true })
    const answer = monitoring.length > 0 ? this.#monitor(parts, monitoring, []) : parts
    const group = this.#runners.start(enforcing, true)
    const scanners = this.#runners.scanners(patterns, group)
    if (scanners.length === 0) {
      group.end()
      return inputVerdict ? this.#stream({ parts: answer, inputVerdict, enforce: true }) : answer
    }
    const buffer =
      !call.request.stream ||
      call.policy.guard.stream === 'buffer' ||
      scanners.some(({ needsFullText }) => needsFullText)
    const screen = this.#newScreen(scanners, buffer, true)
    const closed = ({ stalledMs }: ScreeningEnd) => {
      call.runtime.metrics.guard.screened(screen.mostRetained, stalledMs)
      group.end()
    }
    return this.#stream({ parts: answer, screen, inputVerdict, enforce: true, closed })
  }

  /** Guards read what passes; nothing of it changes. */
  #monitor(
    parts: Flow<any>,
    assignments: readonly Assignment[],
    patterns: readonly PatternAssignment[],
  ): Flow<any> {
    const group = this.#runners.start(assignments, false)
    const scanners = this.#runners.scanners(patterns, group)
    if (scanners.length === 0) return parts
    const { promise, resolve } = Promise.withResolvers<void>()
    const { decision } = this.#reporter
    decision.waitFor(promise)
    const closed = ({ complete }: ScreeningEnd) => {
      if (!complete) decision.incomplete = true
      group.end()
      resolve()
    }
    const screen = this.#newScreen(scanners, false, false)
    return this.#stream({ parts, screen, enforce: false, closed })
  }

  #stream(init: Omit<ScreenedStreamInit<any>, 'idleMs' | 'stallMs'>): Flow<any> {
    const { scope, runtime } = this.#call
    const stallMs = runtime.config.guards.deadlines.stall * 1000
    const stream = new ScreenedStream<any>({ ...init, idleMs: IDLE_MS, stallMs })
    scope.defer(() => stream.close())
    return flowFrom(stream)
  }

  #newScreen(
    scanners: readonly OutputScanner[],
    buffer: boolean,
    enforced: boolean,
  ): OutputScreen<any> {
    const { policy, runtime, request } = this.#call
    const { input } = request
    return new OutputScreen<any>({
      codec: this.#adapter.outputCodec(input),
      scanners,
      buffer,
      atOnce: !request.stream,
      errorForm: enforced && this.#errorForm,
      choices: this.#adapter.choices(input),
      onError: enforced ? policy.guard.onError : 'allow',
      limits: runtime.config.guards.limits,
      observer: this.#reporter.screenObserver(enforced),
      refuse: enforced ? (denial) => this.#refusalParts('output', denial) : () => [],
    })
  }

  /** Refuses the whole call; the model has said nothing. */
  #refused(stop: NonNullable<Stop>): Reply {
    return this.#decided(this.#refusal(stop))
  }

  #refusal(stop: NonNullable<Stop>): Flow<any> {
    const fault = stop === 'blocked' ? undefined : stop
    const parts: any[] = []
    try {
      for (let choice = 0; choice < this.#adapter.choices(this.#call.request.input); choice++) {
        const denial = { choice, sample: parts[0], opened: false, hasText: false, fault }
        parts.push(...this.#refusalParts('input', denial))
      }
    } catch (error) {
      // Billing sees it like any other answer that fails.
      return flowFrom({ next: () => Promise.reject(error), close: () => {} })
    }
    return flowOf(...parts)
  }

  /** @throws PolicyViolation or Unavailable in the error form */
  #refusalParts(side: Side, { fault, ...denial }: Denial<any>): readonly any[] {
    const call = this.#call
    if (fault) this.#reporter.decision.failedFor(side, denial.choice)
    if (fault && this.#errorForm) {
      this.#reporter.updateHeader()
      throw new Unavailable('guard_unavailable', UNAVAILABLE)
    }
    this.#reporter.escalate()
    this.#reporter.updateHeader()
    const text = refusalOf(call.policy)
    if (this.#errorForm) throw new PolicyViolation(text)
    call.outcome = 'refused'
    return this.#adapter.refusalParts!({ text, ...denial }, call.request.input, call.model.id)
  }

  /** An answer after whose end nothing is left to decide. */
  #decided(parts: Flow<any>): Reply {
    return { parts: parts.through({ end: () => this.#decide() }) }
  }

  #decide(): void {
    this.#reporter.decision.final = true
    this.#reporter.updateHeader()
  }
}

/** Why a call goes no further, if it does not. */
export type Stop = InputVerdict['stop']

interface InputResult {
  readonly stop: Stop
  /** The verdict of guards that still look while the model is asked. */
  readonly later?: Promise<Stop>
}

interface ScannedTexts {
  readonly input: InputTexts
  /** What becomes of a part that violates a rule and need not end the call. */
  readonly effect: 'withheld' | 'dropped'
}

export class InputGuard {
  readonly #call: Call
  readonly #adapter: GuardAdapter
  readonly #plan: GuardPlan
  readonly #reporter: GuardReporter
  readonly #runners: GuardRunners
  readonly #texts: ScannedTexts

  constructor(
    call: Call,
    adapter: GuardAdapter,
    input: InputTexts,
    plan: GuardPlan,
    reporter: GuardReporter,
    runners: GuardRunners,
  ) {
    this.#call = call
    this.#adapter = adapter
    this.#plan = plan
    this.#reporter = reporter
    this.#runners = runners
    this.#texts = { input, effect: 'withheld' }
  }

  /** Records what guards would do; changes, delays and refuses nothing. */
  monitor(): void {
    const { enforcing, monitoring, patterns } = this.#plan
    this.#monitor(this.#texts, [...enforcing, ...monitoring], patterns)
  }

  /** Nothing of the input goes upstream before the local guards have agreed, and as a rule the remote ones. */
  async screen(): Promise<InputResult> {
    const { enforcing, monitoring, patterns } = this.#plan
    if (monitoring.length > 0) this.#monitor(this.#texts, monitoring, [])
    const group = this.#runners.start(enforcing, true)
    const screen = this.#screenOf(this.#texts, group, patterns, true)
    const stop = this.#apply(await screen.local())
    if (stop || !screen.isRemote) {
      group.end()
      return { stop }
    }
    const remote = async () => {
      try {
        return this.#apply(await screen.remote())
      } finally {
        group.end()
      }
    }
    // A turn that may have to be withheld must not go upstream before.
    const overlaps =
      this.#call.runtime.config.guards.overlapInput && this.#texts.input.refusedTurns.length === 0
    return overlaps ? { stop: undefined, later: remote() } : { stop: await remote() }
  }

  /** Records what guards would do about search results. */
  monitorResults(results: readonly SearchResult[]): readonly SearchResult[] {
    const { enforcing, monitoring, patterns } = this.#plan
    const assignments = [...enforcing, ...monitoring].filter(isLocal)
    this.#monitor(textsOf(results), assignments, patterns)
    return results
  }

  /**
   * Search results that keep to the exact rules: the others are neither shown to the model nor cited. Judges are not
   * asked. Where a guard could not look there are none.
   */
  async screenResults(results: readonly SearchResult[]): Promise<readonly SearchResult[]> {
    const { enforcing, monitoring, patterns } = this.#plan
    const texts = textsOf(results)
    const monitors = monitoring.filter(isLocal)
    if (monitors.length > 0) this.#monitor(texts, monitors, [])
    const group = this.#runners.start(enforcing.filter(isLocal), true)
    try {
      const { stop, withheld } = await this.#screenOf(texts, group, patterns, true).local()
      if (stop) return []
      return results.filter((_, index) => !withheld.includes(texts.input.refusedTurns[index]!))
    } finally {
      group.end()
    }
  }

  #monitor(
    texts: ScannedTexts,
    assignments: readonly Assignment[],
    patterns: readonly PatternAssignment[],
  ): void {
    const group = this.#runners.start(assignments, false)
    const screen = this.#screenOf(texts, group, patterns, false)
    const looking = async () => {
      const { stop } = await screen.local()
      if (!stop) await screen.remote()
    }
    this.#reporter.decision.waitFor(looking().finally(group.end))
  }

  #screenOf(
    { input, effect }: ScannedTexts,
    { runners, signal }: RunnerGroup,
    patterns: readonly PatternAssignment[],
    enforced: boolean,
  ): InputScreen {
    const call = this.#call
    const reporter = this.#reporter
    const observer: InputObserver = {
      found(violation, { id, channel, text }, blocks) {
        const location = { unit: id, choice: 0, channel, matched: matchedIn(text, violation) }
        reporter.found(
          'input',
          violation,
          location,
          !enforced ? 'seen' : blocks ? 'blocked' : effect,
        )
      },
      failed(guard: string, fault: GuardFault) {
        // A guard that is called off, because another one has blocked or the client has left, has not failed.
        if (enforced && signal?.aborted) return true
        return reporter.failed('input', guard, fault, enforced)
      },
      proceed: () => call.throwIfAborted(),
    }
    return new InputScreen({ input, patterns, runners, observer })
  }

  /** Withholds turns that have to be. */
  #apply({ stop, withheld }: InputVerdict): Stop {
    const call = this.#call
    call.throwIfAborted()
    if (!stop && withheld.length > 0) {
      call.outbound = this.#adapter.withhold!(call.outbound, withheld)
    }
    return stop
  }
}

/**
 * What the model would be shown of search results; each result is a turn of its own that can be left out. Exact rules
 * read their channel, heuristics do not.
 */
function textsOf(results: readonly SearchResult[]): ScannedTexts {
  const base = { side: 'input', channel: 'annotation', role: 'tool', current: true } as const
  const items = results.map(({ title, url, content, publishedAt }, index) =>
    Object.entries({ title, url, content, publishedAt }).flatMap(([name, text]): TextItem[] =>
      text ? [{ ...base, id: `search[${index}].${name}`, text }] : [],
    ),
  )
  const refusedTurns = items.map((some) => {
    return { items: new Set(some.map(({ id }) => id)), messages: [] }
  })
  return { input: { items: items.flat(), refusedTurns }, effect: 'dropped' }
}

function isLocal({ instance }: Assignment): boolean {
  return instance.guard.execution === 'local'
}

function matchedIn(text: string, { block }: Violation): readonly string[] {
  return (block.spans ?? []).map(({ start, end }) => text.slice(start, end))
}
