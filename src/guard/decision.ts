/**
 * What guards made of one call: for the client (header and `guard` object) and for the operator (the event
 * `guard.decision`). Names and numbers; matched text only where the operator wants it.
 */
import type { Origin, Side } from '../plugin.ts'
import { createHmac, randomBytes } from 'node:crypto'
import type { OutputLocation } from './screen-types.ts'
import type { BlockVerdict, FaultKind } from './verdicts.ts'

type GuardOutcome = 'passed' | 'blocked' | 'error'
type Evidence = 'none' | 'hash' | 'text'

/** One violation, as the event reports it. */
export interface Finding {
  readonly side: Side
  readonly rule: string
  readonly origin: Origin
  readonly guard: string
  readonly channel: string
  /** Id of the text of the input. */
  readonly unit?: string
  /** The choice of the answer. */
  readonly choice?: number
  /** The reading of the text in which a pattern matched. */
  readonly view?: string
  readonly spanLengths: readonly number[]
  readonly score?: number
  /** Hashes of what matched, or the text, as the operator wants it. */
  readonly evidence?: readonly string[]
  /** ms since the call arrived. */
  readonly latencyMs: number
  /** `seen` where nothing is enforced. */
  readonly effect: 'blocked' | 'dropped' | 'withheld' | 'seen'
}

/** The `guard` member of an answer. */
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
  readonly evidence: Evidence
  /** ms since epoch */
  readonly startedAt: number
  /** Rules that the model is told of and no guard enforces. */
  readonly unenforced: readonly string[]
}

/** A block of a guard. */
export interface Violation {
  readonly guard: string
  readonly origin: Origin
  readonly block: BlockVerdict
  readonly view?: string | undefined
}

/** Where a violation is. */
export type Location = OutputLocation & {
  /** Id of the text of the input. */ readonly unit?: string
}

/** A guard that could not look. */
interface Failure {
  readonly guard: string
  readonly kind: FaultKind
  readonly side: Side
}

/** Key of evidence hashes: repeats can be seen within one process, and nothing else. */
const secret = randomBytes(32)
/** Bounds of the event. */
const MAX_FINDINGS = 1000
const MAX_ERRORS = 100
const MAX_FIELDS = 20

export class Decision {
  /** The block was escalated. */
  escalated = false
  /** Characters of the answer. */
  released = 0
  withheld = 0
  /** Guards have not seen all of it. */
  incomplete = false
  /** Nothing is left to decide. */
  final = false
  readonly #init: DecisionInit
  readonly #findings: Finding[] = []
  readonly #errors: Failure[] = []
  readonly #pending: Promise<unknown>[] = []
  /** Rules of all findings, and those that the call was refused for. */
  readonly #seenRules = new Set<string>()
  readonly #rules = new Set<string>()
  readonly #unscanned = new Set<string>()
  readonly #removed = new Set<string>()
  readonly #degraded = new Set<string>()
  readonly #choices = new Set<number>()
  #outcome: GuardOutcome = 'passed'
  #side: Side | undefined

  constructor(init: DecisionInit) {
    this.#init = init
  }

  get outcome(): GuardOutcome {
    return this.#outcome
  }

  get findings(): readonly Finding[] {
    return this.#findings
  }

  /** The rules that the call was refused for. */
  get rules(): readonly string[] {
    return [...this.#rules]
  }

  found(
    side: Side,
    { guard, origin, block, view }: Violation,
    { matched, channel, unit, choice }: Location,
    effect: Finding['effect'],
  ): void {
    const { rule, score, spans = [] } = block
    if (effect === 'blocked') this.#decide('blocked', side, rule, choice)
    const isFull = this.#findings.length >= MAX_FINDINGS
    if (isFull && effect !== 'blocked' && this.#seenRules.has(rule)) return
    this.#seenRules.add(rule)
    this.#findings.push({
      side,
      rule,
      origin,
      guard,
      channel,
      ...(unit === undefined ? { choice } : { unit }),
      ...(view === undefined ? {} : { view }),
      spanLengths: spans.map(({ start, end }) => end - start),
      ...(score === undefined ? {} : { score }),
      ...evidenceOf(matched, this.#init.evidence),
      latencyMs: Date.now() - this.#init.startedAt,
      effect,
    })
  }

  /** A guard could not look. @param tolerated the call goes on without it */
  failed(side: Side, guard: string, kind: FaultKind, tolerated: boolean): void {
    if (this.#errors.length < MAX_ERRORS) this.#errors.push({ guard, kind, side })
    if (tolerated) this.#degraded.add(guard)
  }

  /** The failure of a guard ends a choice. */
  failedFor(side: Side, choice: number): void {
    this.#decide('error', side, 'guard_error', choice)
  }

  /** Media that guards of texts cannot read. @returns whether the kind is new */
  unscanned(kind: string): boolean {
    const isNew = !this.#unscanned.has(kind)
    this.#unscanned.add(kind)
    return isNew
  }

  /** A field that no guard can read was left out of the answer. */
  removed(field: string): void {
    if (this.#removed.size < MAX_FIELDS) this.#removed.add(field)
  }

  /** Guards that only monitor may take longer than the call. A rejection makes the decision incomplete. */
  waitFor(pending: Promise<unknown>): void {
    this.#pending.push(pending.catch(() => (this.incomplete = true)))
  }

  /** Resolves when no guard looks any more; undefined where none does. */
  complete(): Promise<unknown> | undefined {
    return this.#pending.length > 0 ? Promise.all(this.#pending) : undefined
  }

  /** The value of `X-Service-Guard`. */
  header(): string {
    if (this.#init.mode === 'monitor') return 'outcome=monitored'
    const isPending = this.#outcome === 'passed' && !this.final
    let value = isPending ? 'outcome=pending' : `outcome=${this.#outcome}`
    if (this.#side) value += `; side=${this.#side}`
    if (this.#rules.size > 0) value += `; rules=${this.rules.join(',')}`
    if (this.#removed.has('logprobs')) value += '; logprobs=removed'
    return value
  }

  /** The client's report; undefined where nothing is enforced. */
  report(): GuardReport | undefined {
    if (this.#init.mode === 'monitor') return undefined
    return {
      outcome: this.#outcome,
      ...(this.#side && { side: this.#side }),
      rules: this.rules,
      choices: [...this.#choices].sort((a, b) => a - b),
      unscanned: [...this.#unscanned],
      degraded: [...this.#degraded],
    }
  }

  /** For metrics and the access log; in monitor mode with the rules that would have blocked. */
  summary() {
    const { mode } = this.#init
    const rules = mode === 'monitor' ? [...this.#seenRules] : this.rules
    return { mode, outcome: this.#outcome, rules }
  }

  /** The event `guard.decision`. @param head members that say whose decision it is */
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
      released: this.released,
      withheld: this.withheld,
      escalate: this.escalated,
      // Guards have not seen the end of an answer that broke off.
      incomplete: this.incomplete || (mode === 'block' && outcome === 'passed' && !this.final),
    }
  }

  #decide(outcome: 'blocked' | 'error', side: Side, rule: string, choice: number): void {
    if (this.#outcome !== 'blocked') this.#outcome = outcome
    this.#side ??= side
    this.#rules.add(rule)
    if (side === 'output') this.#choices.add(choice)
  }
}

function evidenceOf(matched: readonly string[], evidence: Evidence) {
  if (evidence === 'none' || matched.length === 0) return {}
  return { evidence: evidence === 'text' ? matched : matched.map(hashOf) }
}

function hashOf(text: string): string {
  const folded = text.normalize('NFKC').toLowerCase()
  return createHmac('sha256', secret).update(folded).digest('hex').slice(0, 16)
}
