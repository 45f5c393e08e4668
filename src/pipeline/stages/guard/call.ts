/** The guard stage for one call: what guards see, in which order, and what follows from it. */
import { PolicyViolation, Unavailable } from '../../../errors/errors.ts'
import { flowFrom, flowOf } from '../../../stream/flow.ts'
import { Decision } from '../../../guard/decision.ts'
import type { OutputScanner } from '../../../guard/scan-session.ts'
import type { Assignment, GuardPlan, PatternAssignment } from '../../../guard/plan.ts'
import type { GuardAdapter } from '../../../guard/adapter.ts'
import { OutputScreen } from '../../../guard/output-screen.ts'
import {
  ScreenedStream,
  type ScreenedStreamInit,
  type ScreeningEnd,
} from '../../../guard/screened-stream.ts'
import type { Denial } from '../../../guard/screen-types.ts'
import { GuardFault } from '../../../guard/verdicts.ts'
import type { Call, Next, Reply, ResultFilter } from '../../pipeline.ts'
import type { Flow, SearchResult, Side } from '../../../plugin.ts'
import { knownRefusals, refusalOf } from '../../../policy/policy.ts'
import { InputGuard, type Stop } from './input.ts'
import { GuardReporter } from './report.ts'
import { GuardRunners } from './runners.ts'

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
