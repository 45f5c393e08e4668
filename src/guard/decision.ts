/**
 * The decision of guards on one call: for the client (header and `guard` object) and for the operator (the event
 * `guard.decision`, metrics and log). Names and numbers; matched text only where the operator wants it.
 */
import { createHmac, randomBytes } from 'node:crypto'
import { UpstreamFailure, headerText } from '../errors/errors.ts'
import type { GuardMetrics } from '../observe/guard-metrics.ts'
import type { Channel, Origin, Side } from '../plugin.ts'
import { isDown, reasonOf, type Block, type FaultKind, type GuardFault } from './runner.ts'

type GuardOutcome = 'passed' | 'blocked' | 'error'

/** The effect on a text that violates a rule; `seen` where nothing is enforced. */
type Effect = 'blocked' | 'dropped' | 'withheld' | 'seen'

export interface GuardReport {
  readonly outcome: GuardOutcome
  readonly side?: Side
  readonly rules: readonly string[]
  readonly choices: readonly number[]
  readonly unscanned: readonly string[]
  readonly degraded: readonly string[]
}

interface DecisionInit {
  readonly mode: 'block' | 'monitor'
  readonly onError: 'block' | 'allow'
  readonly evidence: 'none' | 'hash' | 'text'
  /** ms since the call arrived */
  readonly elapsedMs: () => number
  /** Rules that the model is told of and no guard enforces. */
  readonly unenforced: readonly string[]
  readonly metrics: Pick<GuardMetrics, 'decided' | 'failed' | 'removed' | 'unscanned'>
  readonly warn: (message: string) => void
  /** It is called when a guard throws an error that is no failure of its model or service. */
  readonly thrown: (guard: string, error: unknown) => void
  /** Reports a block to the operator; absent where the policy does not escalate. */
  readonly escalate?: ((decision: Summary) => void) | undefined
  /** What the client is told of masking; absent where nothing is masked. */
  readonly masked?: (() => string) | undefined
}

interface Summary {
  readonly mode: 'block' | 'monitor'
  readonly outcome: GuardOutcome
  readonly rules: readonly string[]
}

interface Decided {
  readonly mode: 'block' | 'monitor'
  readonly side: Side | 'all'
  /** The rule without the number of a pattern; empty where none was violated. */
  readonly rule: string
  readonly outcome: Effect | GuardOutcome
}

interface Violation {
  readonly guard: string
  readonly origin: Origin
  readonly block: Block
  readonly channel: Channel
  readonly unit?: string
  readonly choice?: number
  readonly matched: readonly string[]
}

/** Receives the findings of guards in the texts of one side, and their effects. */
export interface ScreenObserver {
  /** @param ends false where only the text, its channel or its turn is omitted for it */
  found(violation: Violation, ends: boolean): void
  /** It is called for a guard that could not judge. @returns whether the policy ends the choice or the call for that */
  failed(guard: string, fault: GuardFault): boolean
  /** It is called for a field that was removed because no guard can read it. */
  removed(field: string): void
  /** It is called for media that guards of texts cannot read. */
  unscanned(kind: string): void
  released(count: number): void
  withheld(count: number): void
}

/** The key of evidence hashes: repeats can be recognised within one process, and nothing else. */
const secret = randomBytes(32)
const MAX_FINDINGS = 1000
const MAX_ERRORS = 100
const MAX_FIELDS = 20
const PLACE = /\[\d+\]$/

export class Decision {
  incomplete = false
  final = false
  readonly #init: DecisionInit
  readonly #findings: object[] = []
  readonly #errors: { readonly guard: string; readonly kind: FaultKind; readonly side: Side }[] = []
  readonly #pending: Promise<unknown>[] = []
  #released = 0
  #withheld = 0
  #escalated = false
  readonly #seenRules = new Set<string>()
  readonly #rules = new Set<string>()
  /** The key is JSON, because a rule may match often. */
  readonly #decided = new Map<string, Decided>()
  readonly #unscanned = new Set<string>()
  readonly #removed = new Set<string>()
  readonly #degraded = new Set<string>()
  readonly #choices = new Set<number>()
  #outcome: GuardOutcome = 'passed'
  #side: Side | undefined

  constructor(init: DecisionInit) {
    this.#init = init
  }

  /** Whether a guard could not judge because it was not reached: not for the text. */
  isDown = false

  /** Whether the call is refused because a guard could not judge, and for no violation. */
  get unavailable(): boolean {
    return this.#outcome === 'error'
  }

  get findings(): readonly object[] {
    return this.#findings
  }

  /**
   * Records the findings of guards on one side.
   * @param enforced false where they only monitor
   * @param spared the effect on a text that violates a rule and ends nothing
   */
  observer(side: Side, enforced: boolean, spared: 'dropped' | 'withheld'): ScreenObserver {
    return {
      found: (violation, ends) =>
        this.#found(side, violation, !enforced ? 'seen' : ends ? 'blocked' : spared),
      failed: (guard, fault) => this.failed(side, guard, fault, enforced),
      removed: (field) => {
        if (!enforced) return
        if (this.#removed.size < MAX_FIELDS) this.#removed.add(field)
        this.#init.metrics.removed(field)
      },
      unscanned: (kind) => this.unscanned(kind),
      released: (count) => void (this.#released += enforced ? count : 0),
      withheld: (count) => void (this.#withheld += enforced ? count : 0),
    }
  }

  #found(side: Side, violation: Violation, effect: Effect): void {
    const { guard, origin, block, matched, channel, unit, choice } = violation
    const { mode, metrics, evidence, elapsedMs } = this.#init
    const { rule, score, view, spans = [] } = block
    metrics.decided(side, rule, mode, effect)
    const one = { mode, side, rule: rule.replace(PLACE, ''), outcome: effect }
    this.#decided.set(JSON.stringify(one), one)
    if (effect === 'blocked') this.#decide('blocked', side, rule, choice)
    const isFull = this.#findings.length >= MAX_FINDINGS
    if (!isFull || effect === 'blocked' || !this.#seenRules.has(rule)) {
      this.#seenRules.add(rule)
      this.#findings.push({
        side,
        rule,
        origin,
        guard,
        channel,
        unit,
        choice,
        view,
        // Never the text itself.
        spanLengths: spans.map(({ start, end }) => end - start),
        score,
        evidence: evidenceOf(matched, evidence),
        latencyMs: elapsedMs(),
        effect,
      })
    }
    if (mode === 'monitor') this.escalate()
  }

  /**
   * Records a guard that could not judge.
   * @param enforced false where guards only monitor
   * @returns whether the policy ends the choice or the call for that
   */
  failed(side: Side, guard: string, fault: GuardFault, enforced: boolean): boolean {
    const { onError, metrics, warn, thrown } = this.#init
    const { kind, cause } = fault
    const ends = enforced && onError === 'block' && kind !== 'unpaid'
    if (this.#errors.length < MAX_ERRORS) this.#errors.push({ guard, kind, side })
    if (!ends) this.#degraded.add(guard)
    metrics.failed(guard, kind, onError)
    warn(`guard ${guard} could not look (${kind}): ${reasonOf(fault)}`)
    if (kind === 'failed' && !UpstreamFailure.is(cause)) thrown(guard, cause)
    return ends
  }

  /**
   * Records that the failure of a guard ends a choice. Where the call itself used up the budget or the bound of a
   * guard, and text went out, it ends like a block and is charged like one: otherwise a client would get long texts
   * for nothing.
   * @returns whether the guard counts as unavailable
   */
  failedFor(side: Side, choice: number, fault: GuardFault): boolean {
    const { kind } = fault
    this.isDown = isDown(fault)
    const isUsedUp = (kind === 'budget' || kind === 'too_large') && this.#released > 0
    this.#decide(isUsedUp ? 'blocked' : 'error', side, 'guard_error', choice)
    return !isUsedUp
  }

  unscanned(kind: string): void {
    if (!this.#unscanned.has(kind)) this.#init.metrics.unscanned(kind)
    this.#unscanned.add(kind)
  }

  /** Escalates a block if the policy wants it, once for each call. @returns whether it does */
  escalate(): boolean {
    const { escalate } = this.#init
    if (!this.#escalated) escalate?.(this.summary())
    return (this.#escalated = escalate !== undefined)
  }

  /** Whether the policy wants an event about the block of this call. */
  get escalated(): boolean {
    return this.#escalated
  }

  /** Waits for monitoring guards, which may outlast the call. A rejection makes the decision incomplete. */
  waitFor(pending: Promise<unknown>): void {
    this.#pending.push(pending.catch(() => (this.incomplete = true)))
  }

  /** Resolves when no guard reads any more; undefined where none does. */
  complete(): Promise<unknown> | undefined {
    return this.#pending.length > 0 ? Promise.all(this.#pending) : undefined
  }

  header(): string {
    const masked = this.#init.masked?.()
    const suffix = masked === undefined ? '' : `; ${masked}`
    if (this.#init.mode === 'monitor') return `outcome=monitored${suffix}`
    const isPending = this.#outcome === 'passed' && !this.final
    let value = isPending ? 'outcome=pending' : `outcome=${this.#outcome}`
    if (this.#side) value += `; side=${this.#side}`
    if (this.#rules.size > 0) value += `; rules=${[...this.#rules].map(headerText).join(',')}`
    const isTold = suffix.includes('logprobs')
    if (this.#removed.has('logprobs') && !isTold) value += '; logprobs=removed'
    return value + suffix
  }

  /** The client's report; undefined where nothing is enforced. */
  report(): GuardReport | undefined {
    if (this.#init.mode === 'monitor') return undefined
    return {
      outcome: this.#outcome,
      ...(this.#side && { side: this.#side }),
      rules: [...this.#rules],
      choices: [...this.#choices].sort((a, b) => a - b),
      unscanned: [...this.#unscanned],
      degraded: [...this.#degraded],
    }
  }

  /** The summary for metrics and the access log; in monitor mode with the rules that would have blocked. */
  summary(): Summary {
    const { mode } = this.#init
    const rules = mode === 'monitor' ? this.#seenRules : this.#rules
    return { mode, outcome: this.#outcome, rules: [...rules] }
  }

  decided(): readonly Decided[] {
    if (this.#decided.size > 0) return [...this.#decided.values()]
    return [{ mode: this.#init.mode, side: 'all', rule: '', outcome: this.#outcome }]
  }

  /** The event `guard.decision`. @param head members of the call */
  record<Head extends object>(head: Head) {
    const { mode, outcome, rules } = this.summary()
    return {
      ...head,
      mode,
      outcome,
      rules,
      sides: this.findings,
      errors: this.#errors,
      unscanned: [...this.#unscanned],
      unenforced: this.#init.unenforced,
      removed: [...this.#removed],
      degraded: [...this.#degraded],
      released: this.#released,
      withheld: this.#withheld,
      escalate: this.#escalated,
      // Guards have not seen the end of an answer that broke off.
      incomplete: this.incomplete || (mode === 'block' && outcome === 'passed' && !this.final),
    }
  }

  #decide(outcome: 'blocked' | 'error', side: Side, rule: string, choice = 0): void {
    if (this.#outcome !== 'blocked') this.#outcome = outcome
    this.#side ??= side
    this.#rules.add(rule)
    if (side === 'output') this.#choices.add(choice)
  }
}

function evidenceOf(matched: readonly string[], evidence: DecisionInit['evidence']) {
  if (evidence === 'none' || matched.length === 0) return undefined
  return evidence === 'text' ? matched : matched.map(hashOf)
}

function hashOf(text: string): string {
  const folded = text.normalize('NFKC').toLowerCase()
  return createHmac('sha256', secret).update(folded).digest('hex').slice(0, 16)
}
