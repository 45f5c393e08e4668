/**
 * What guards made of one call: for the client (header and `guard` object) and for the operator (the event
 * `guard.decision`). Names and numbers, never text that was found (guard design, 6).
 */
import type { Origin, Side } from '../plugin.ts'
import { createHmac, randomBytes } from 'node:crypto'
import type { OutputLocation } from './screen-types.ts'
import type { BlockVerdict, FaultKind } from './verdicts.ts'

export type GuardOutcome = 'passed' | 'blocked' | 'error'
export type Evidence = 'none' | 'hash' | 'text'

/** One thing that was found. */
export interface Finding {
  readonly side: Side
  readonly rule: string
  readonly origin: Origin
  readonly guard: string
  readonly channel: string
  /** The unit of the input. */
  readonly unit?: string
  /** The choice of the answer. */
  readonly choice?: number
  /** Under which reading of the text a pattern matched. */
  readonly view?: string
  readonly spanLengths: readonly number[]
  readonly score?: number
  /** Hashes of what matched, or the text, as the operator wants it. */
  readonly evidence?: readonly string[]
  /** From the arrival of the call. */
  readonly latencyMs: number
  /** What became of it; `seen` where nothing is enforced. */
  readonly effect: 'blocked' | 'dropped' | 'withheld' | 'seen'
}

/** The `guard` member of an answer (wire contract, 5.4.5). */
export interface GuardReport {
  readonly outcome: GuardOutcome
  readonly side?: Side
  readonly rules: readonly string[]
  readonly choices: readonly number[]
  readonly unscanned: readonly string[]
  readonly degraded: readonly string[]
}

export interface DecisionInit {
  readonly mode: 'block' | 'monitor'
  readonly evidence: Evidence
  /** ms since epoch */
  readonly startedAt: number
  /** Rules that are told to the model and judged by nobody. */
  readonly unenforced: readonly string[]
}

/** Who found it, and what. */
export interface Violation {
  readonly guard: string
  readonly origin: Origin
  readonly block: BlockVerdict
  readonly view?: string | undefined
}

/** Where it was found. @see OutputLocation */
export type Location = OutputLocation & { /** The unit of the input. */ readonly unit?: string }

/** Repeats can be seen, and nothing else. */
const secret = randomBytes(32)
/** More of them would tell nothing more. */
const MOST_FINDINGS = 1000
const MOST_ERRORS = 100
const MOST_FIELDS = 20

const NOTHING: readonly never[] = []

/** A guard that could not look. */
interface Failure {
  readonly guard: string
  readonly kind: FaultKind
  readonly side: Side
}

export class Decision {
  /** A policy wants somebody to hear of it. */
  escalated = false
  // Made when there is the first of them, which most calls never have.
  #findings: Finding[] | undefined
  #errors: Failure[] | undefined
  #looking: Promise<unknown>[] | undefined
  /** All rules that something was found for. */
  #seen: Set<string> | undefined
  #unscanned: Set<string> | undefined
  #removed: Set<string> | undefined
  #degraded: Set<string> | undefined
  #rules: Set<string> | undefined
  #choices: Set<number> | undefined
  /** Characters of the answer. */
  released = 0
  withheld = 0
  /** Nobody looked at all of it. */
  incomplete = false
  /** Nothing is left to be decided. */
  final = false
  readonly #init: DecisionInit
  #outcome: GuardOutcome = 'passed'
  #side: Side | undefined

  constructor(init: DecisionInit) {
    this.#init = init
  }

  get outcome(): GuardOutcome {
    return this.#outcome
  }

  get findings(): readonly Finding[] {
    return this.#findings ?? NOTHING
  }

  /** For what it was refused. */
  get rules(): readonly string[] {
    return allOf(this.#rules)
  }

  /** Something was found. @param unit of the input it was found in */
  found(
    side: Side,
    { guard, origin, block, view }: Violation,
    place: Location,
    effect: Finding['effect'],
  ): void {
    const { matched, channel, unit, choice } = place
    if (effect === 'blocked') this.#decide('blocked', side, block.rule, choice)
    const isNew = !this.#seen?.has(block.rule)
    this.#seen = (this.#seen ?? new Set()).add(block.rule)
    const findings = (this.#findings ??= [])
    if (findings.length >= MOST_FINDINGS && effect !== 'blocked' && !isNew) return
    findings.push({
      side,
      rule: block.rule,
      origin,
      guard,
      channel,
      ...(unit === undefined ? { choice } : { unit }),
      ...(view === undefined ? {} : { view }),
      spanLengths: (block.spans ?? []).map(({ start, end }) => end - start),
      ...(block.score === undefined ? {} : { score: block.score }),
      ...evidenceOf(matched, this.#init.evidence),
      latencyMs: Date.now() - this.#init.startedAt,
      effect,
    })
  }

  /** A guard could not look. @param goesOn the call, without it */
  failed(side: Side, guard: string, kind: FaultKind, goesOn: boolean): void {
    const errors = (this.#errors ??= [])
    if (errors.length < MOST_ERRORS) errors.push({ guard, kind, side })
    if (goesOn) this.#degraded = (this.#degraded ?? new Set()).add(guard)
  }

  /** What a guard's failure ends. */
  failedFor(side: Side, choice: number): void {
    this.#decide('error', side, 'guard_error', choice)
  }

  /** Media that no guard of texts can read. @returns whether that is new */
  unscanned(kind: string): boolean {
    const isNew = !this.#unscanned?.has(kind)
    this.#unscanned = (this.#unscanned ?? new Set()).add(kind)
    return isNew
  }

  /** A field that no guard can read was left out of the answer. */
  removed(field: string): void {
    const removed = (this.#removed ??= new Set())
    if (removed.size < MOST_FIELDS) removed.add(field)
  }

  /** Guards that only look on may take longer than the call. */
  waitFor(looking: Promise<unknown>): void {
    // Whoever waits for it does so later.
    const known = looking.catch(() => (this.incomplete = true))
    this.#looking = [...(this.#looking ?? NOTHING), known]
  }

  /** Resolves when nobody looks any more; nothing where nobody does. */
  complete(): Promise<unknown> | undefined {
    return this.#looking && Promise.all(this.#looking)
  }

  /** The value of `X-Service-Guard`. */
  header(): string {
    if (this.#init.mode === 'monitor') return 'outcome=monitored'
    const isPending = this.#outcome === 'passed' && !this.final
    let value = isPending ? 'outcome=pending' : `outcome=${this.#outcome}`
    if (this.#side) value += `; side=${this.#side}`
    if (this.#rules) value += `; rules=${this.rules.join(',')}`
    if (this.#removed?.has('logprobs')) value += '; logprobs=removed'
    return value
  }

  /** What the client is told; nothing where nothing is enforced. */
  report(): GuardReport | undefined {
    if (this.#init.mode === 'monitor') return undefined
    const [outcome, side] = [this.#outcome, this.#side]
    const choices = this.#choices ? [...this.#choices].sort((a, b) => a - b) : NOTHING
    const [unscanned, degraded] = [allOf(this.#unscanned), allOf(this.#degraded)]
    // Most have none: copies would cost more than the rest of it.
    return side
      ? { outcome, side, rules: this.rules, choices, unscanned, degraded }
      : { outcome, rules: NOTHING, choices, unscanned, degraded }
  }

  /** What it comes to. */
  summary() {
    const { mode } = this.#init
    return {
      mode,
      outcome: this.#outcome,
      rules: mode === 'monitor' ? allOf(this.#seen) : this.rules,
    }
  }

  /** The event `guard.decision`. @param head whose it is */
  record<Head extends object>(head: Head) {
    const { mode, outcome, rules } = this.summary()
    return {
      ...head,
      mode,
      outcome,
      rules,
      sides: this.findings,
      errors: this.#errors ?? NOTHING,
      unscanned: allOf(this.#unscanned),
      unenforced: this.#init.unenforced,
      removed: allOf(this.#removed),
      degraded: allOf(this.#degraded),
      released: this.released,
      withheld: this.withheld,
      escalate: this.escalated,
      // An answer that broke off was not looked at to its end.
      incomplete: this.incomplete || (mode === 'block' && outcome === 'passed' && !this.final),
    }
  }

  #decide(outcome: 'blocked' | 'error', side: Side, rule: string, choice: number): void {
    if (this.#outcome !== 'blocked') this.#outcome = outcome
    this.#side ??= side
    this.#rules = (this.#rules ?? new Set()).add(rule)
    if (side === 'output') this.#choices = (this.#choices ?? new Set()).add(choice)
  }
}

function allOf<T>(items: ReadonlySet<T> | undefined): readonly T[] {
  return items ? [...items] : NOTHING
}

function evidenceOf(matched: readonly string[], evidence: Evidence) {
  if (evidence === 'none' || matched.length === 0) return {}
  return { evidence: evidence === 'text' ? matched : matched.map(hashOf) }
}

function hashOf(text: string): string {
  const folded = text.normalize('NFKC').toLowerCase()
  return createHmac('sha256', secret).update(folded).digest('hex').slice(0, 16)
}
