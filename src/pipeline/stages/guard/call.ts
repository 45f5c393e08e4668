/** One call while guards look at it: what they see, in which order, and what follows from it (guard design, 1.1, 3, 6). */
import { PolicyViolation, Unavailable } from '../../../errors/errors.ts'
import { flowFrom, flowOf } from '../../../stream/flow.ts'
import { Decision } from '../../../guard/decision.ts'
import type { Scout } from '../../../guard/scan-session.ts'
import { Gate } from '../../../guard/gate.ts'
import type { Assignment, PatternAssignment, GuardPlan } from '../../../guard/plan.ts'
import type { GuardAdapter } from '../../../guard/adapter.ts'
import { Monitor } from '../../../guard/monitor.ts'
import { Patient } from '../../../guard/patient.ts'
import { Prompt } from '../../../guard/prompt.ts'
import { Screen } from '../../../guard/screen.ts'
import type { Denial } from '../../../guard/screen-types.ts'
import { GuardFault } from '../../../guard/verdicts.ts'
import type { Call, Next, Reply, ResultFilter } from '../../pipeline.ts'
import type { Flow, SearchResult, Side, Step } from '../../../plugin.ts'
import { refusalOf, knownRefusals } from '../../../policy/policy.ts'
import { sendOn } from './abort.ts'
import { InputGuard, type Stop } from './input.ts'
import { GuardReporter } from './report.ts'
import { GuardRunners } from './runners.ts'

/** ms without new text after which an unfinished segment is judged. */
const IDLE_MS = 1500
const UNAVAILABLE = 'A guard of this key could not look at this request. Try again later.'
const UNANSWERED = 'no guard looks after a rule'

export class CallGuard implements ResultFilter {
  readonly #call: Call
  readonly #guarding: GuardAdapter
  readonly #roster: GuardPlan
  readonly #report: GuardReporter
  readonly #input: InputGuard
  readonly #watches: GuardRunners
  /** Whether what goes in is looked at, and what comes out. */
  readonly #asked: boolean
  readonly #answered: boolean
  /** A block ends the call with an error. */
  readonly #errorForm: boolean

  constructor(call: Call, guarding: GuardAdapter, roster: GuardPlan) {
    const { policy, runtime, input } = call
    this.#call = call
    this.#guarding = guarding
    this.#roster = roster
    call.decision = new Decision({
      mode: policy.guard.mode,
      evidence: runtime.config.guards.evidence,
      startedAt: call.startedAt,
      unenforced: roster.unenforced,
    })
    this.#report = new GuardReporter(call, call.decision)
    const units = guarding.inputTexts(input, knownRefusals(policy))
    const watches = new GuardRunners(call, units)
    this.#watches = watches
    this.#input = new InputGuard(call, guarding, units, roster, this.#report, watches)
    const { input: asked, output: answered } = policy.guard
    this.#asked = asked || (guarding.outputRepeatsInput === true && answered)
    this.#answered = answered && !guarding.outputRepeatsInput
    this.#errorForm = policy.guard.onBlock === 'error' || !guarding.refusalParts
    this.#report.tell()
    for (const { media } of units.units) {
      if (media) for (const { kind } of media) this.#report.unscanned(kind)
    }
  }

  /** Changes, delays and refuses nothing; what guards would have done is written down. */
  async monitored(next: Next): Promise<Reply> {
    const { duties, monitoring: watching, patterns } = this.#roster
    const all = [...duties, ...watching]
    for (const { guard, kind } of this.#roster.faults) {
      this.#report.failed('input', guard, new GuardFault(kind, UNANSWERED), false)
    }
    if (this.#asked) this.#input.lookOn()
    this.#call.resultFilter = this
    const { parts } = await next()
    return { parts: this.#answered ? this.#lookOn(parts, all, patterns) : parts }
  }

  /** Nothing goes upstream, and nothing goes out, that a guard has not agreed to. */
  async screened(next: Next): Promise<Reply> {
    for (const { guard, kind } of this.#roster.faults) {
      const fault = new GuardFault(kind, UNANSWERED)
      if (this.#report.failed('input', guard, fault)) return this.#refused(fault)
    }
    const asked = this.#asked ? await this.#input.screen() : undefined
    if (asked?.stop) return this.#refused(asked.stop)
    // What the web says goes in, and comes out as a citation: either side is reason enough to look.
    this.#call.resultFilter = this
    const { parts } = await next()
    if (this.#answered) return this.#ending(this.#screen(parts), asked?.later)
    if (asked?.later) return this.#ending(parts, asked.later)
    this.#decided()
    return { parts }
  }

  filterResults(
    hits: readonly SearchResult[],
  ): readonly SearchResult[] | Promise<readonly SearchResult[]> {
    const watches = this.#call.policy.guard.mode === 'monitor'
    return watches ? this.#input.lookOnHits(hits) : this.#input.screenHits(hits)
  }

  #screen(parts: Flow<any>): Flow<any> {
    const call = this.#call
    const { duties, monitoring: watching, patterns } = this.#roster
    const answer = watching.length > 0 ? this.#lookOn(parts, watching, []) : parts
    const errand = sendOn(duties, call)
    const scouts = this.#watches.scouts(duties, patterns, errand.signal, true)
    if (scouts.length === 0) return answer
    const buffer =
      !call.endpoint.streams(call.input) ||
      call.policy.guard.stream === 'buffer' ||
      scouts.some((scout) => scout.whole)
    const screen = this.#newScreen(scouts, buffer, true)
    const left = (stalledMs: number) => {
      call.runtime.metrics.guard.screened(screen.mostHeld, stalledMs)
      errand.end()
    }
    // Whose rules of a request are hard to look for has to wait, and nobody else.
    const waits = buffer || scouts.some(({ local, origin }) => !local || origin === 'request')
    if (!waits) {
      call.scope.defer(() => left(0))
      return answer.through(new Prompt(screen))
    }
    const stallMs = call.runtime.config.guards.deadlines.stall * 1000
    const patient = new Patient<any>({ screen, answer, buffer, left, idleMs: IDLE_MS, stallMs })
    call.scope.defer(() => patient.close())
    return flowFrom(patient)
  }

  /** Guards see what goes by; nothing of it changes. */
  #lookOn(
    parts: Flow<any>,
    duties: readonly Assignment[],
    patterns: readonly PatternAssignment[],
  ): Flow<any> {
    const call = this.#call
    const errand = sendOn(duties, call)
    const scouts = this.#watches.scouts(duties, patterns, errand.signal, false)
    if (scouts.length === 0) return parts
    const { promise, resolve } = Promise.withResolvers<void>()
    const screen = this.#newScreen(scouts, false, false)
    const monitor = new Monitor<any>(
      screen,
      4 * call.runtime.config.guards.limits.maxHeld,
      (incomplete) => {
        if (incomplete) this.#report.decision.incomplete = true
        errand.end()
        resolve()
      },
    )
    this.#report.decision.waitFor(promise)
    call.scope.defer(() => monitor.brokenOff())
    return parts.through(monitor)
  }

  #newScreen(scouts: readonly Scout[], buffer: boolean, enforced: boolean): Screen<any> {
    const { input, policy, runtime, endpoint } = this.#call
    return new Screen<any>({
      lanes: this.#guarding.outputCodec(input),
      scouts,
      buffer,
      atOnce: !endpoint.streams(input),
      errorForm: enforced && this.#errorForm,
      choices: this.#guarding.choices(input),
      onError: enforced ? policy.guard.onError : 'allow',
      limits: runtime.config.guards.limits,
      notes: this.#report.notes(enforced),
      refuse: enforced ? this.#sayNo.bind(this, 'output') : sayNothing,
    })
  }

  /** A "no" to the whole call, without a word from the model. */
  #refused(stop: NonNullable<Stop>): Reply {
    return { parts: this.#ending(this.#refusal(stop)).parts }
  }

  #refusal(stop: NonNullable<Stop>): Flow<any> {
    const fault = stop === 'blocked' ? undefined : stop
    const parts: any[] = []
    try {
      for (let choice = 0; choice < this.#guarding.choices(this.#call.input); choice++) {
        const denial = { choice, sample: parts[0], opened: false, hasText: false, fault }
        parts.push(...this.#sayNo('input', denial))
      }
    } catch (error) {
      // Whoever charges hears of it as of any other answer that fails.
      return flowFrom({ next: () => Promise.reject(error), close: () => {} })
    }
    return flowOf(...parts)
  }

  /** @throws PolicyViolation or Unavailable in the error form */
  #sayNo(side: Side, { fault, ...denial }: Denial<any>): readonly any[] {
    const call = this.#call
    if (fault) this.#report.decision.failedFor(side, denial.choice)
    if (fault && this.#errorForm) {
      this.#report.tell()
      throw new Unavailable('guard_unavailable', UNAVAILABLE)
    }
    this.#report.escalate()
    this.#report.tell()
    const text = refusalOf(call.policy)
    if (this.#errorForm) throw new PolicyViolation(text)
    call.outcome = 'refused'
    return this.#guarding.refusalParts!({ text, ...denial }, call.input, call.model.id)
  }

  /** Nothing is left to look at. */
  #decided(): void {
    this.#report.decision.final = true
    this.#report.tell()
  }

  /** The answer with the verdict known at its end. */
  #ending(parts: Flow<any>, later?: () => Promise<Stop>): Reply {
    const end: Step<any, any> = { end: () => this.#decided() }
    if (!later) return { parts: parts.through(end) }
    const instead = async () => {
      const stop = await later()
      return stop && this.#refusal(stop)
    }
    return { parts: flowFrom(new Gate<any>(parts, instead)).through(end) }
  }
}

function sayNothing(): readonly never[] {
  return []
}
