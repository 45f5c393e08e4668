/** Runs one guard for one call: asks it, bounds how long it may take, checks its verdicts, and remembers passes and failures. */
import { createHmac, randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { atMost } from '../lifetime/cache.ts'
import { UpstreamFailure } from '../errors/errors.ts'
import {
  AbortScope,
  offAbort,
  onAbort,
  unlessAborted,
  type LateAnswers,
} from '../lifetime/scope.ts'
import type { GuardMetrics } from '../observe/guard-metrics.ts'
import type { CircuitState } from '../server/admin/resources/guard.ts'
import type {
  Guard,
  GuardContext,
  Origin,
  RuleRef,
  Side,
  TextItem,
  ActiveRules,
  CheckProgress,
  PatternMatch,
  PatternView,
  Span,
  Verdict,
} from '../plugin.ts'
import { isObject } from '../errors/checks.ts'

// Verdicts of guards, and faults that replace them. A guard that misbehaves has not passed a text: that is a fault.

export type BlockVerdict = Extract<Verdict, { action: 'block' }>

export type Block = BlockVerdict & { readonly view?: PatternView }

export interface TextProgress {
  /** Offset up to which the guard agrees; never decreases. */
  readonly safeOffset: number
  readonly verdict?: Block
}

export type Answer = TextProgress | Promise<TextProgress>

/** @param offset position of the first pattern in the effective list */
export function patternBlock({ pattern, start, end, view }: PatternMatch, offset: number): Block {
  return {
    action: 'block',
    rule: `bannedPatterns[${pattern + offset}]`,
    spans: [{ start, end }],
    view,
  }
}

export type FaultKind =
  | 'failed'
  | 'timeout'
  /** Its answer is not valid: wrong type, wrong number, offsets out of range, a rule that is not in force. */
  | 'invalid'
  | 'circuit'
  /** Its calls to models have used up the budget of one request. */
  | 'budget'
  /** A local guard worked for too long. */
  | 'slow'
  /** More text than may be retained, buffered or judged. */
  | 'too_large'
  | 'unreadable'
  | 'unanswered'
  /** The account is free and the model that it asks is not. Whatever the policy says, the call continues without it. */
  | 'unpaid'

export class GuardFault extends Error {
  readonly kind: FaultKind

  constructor(kind: FaultKind, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'GuardFault'
    this.kind = kind
  }
}

/** The form of rules, which are named in a header. */
const RULE = /^[\w:./[\]-]{1,120}$/

const MEMBERS = new Set(['action', 'rule', 'score', 'spans', 'reason'])

export type RuleFilter = (rule: string) => boolean

/**
 * Checks a verdict.
 * @param length the length of the text it is about
 * @returns the block; undefined for a pass
 * @throws GuardFault `invalid` for another value, `unreadable` when the guard abstains because it cannot read
 */
export function checkVerdict(
  verdict: unknown,
  length: number,
  mayBlockFor: RuleFilter,
): BlockVerdict | undefined {
  refusePromise(verdict)
  if (!isObject(verdict)) throw invalid('no verdict')
  switch (verdict.action) {
    case 'pass':
      return undefined
    case 'abstain':
      if (verdict.why === 'not-applicable') return undefined
      throw new GuardFault('unreadable', 'the guard cannot read this')
    case 'block': {
      const { rule, spans = [], score } = verdict
      if (typeof rule !== 'string' || !RULE.test(rule) || !mayBlockFor(rule)) {
        throw invalid('a rule that it does not answer')
      }
      if (!Array.isArray(spans) || !spans.every((span) => isSpan(span, length)))
        throw invalid('spans outside of the text')
      if (score !== undefined && !(typeof score === 'number' && score >= 0 && score <= 1))
        throw invalid('a score that is not from 0 to 1')
      const members = Object.entries(verdict).filter(([name]) => MEMBERS.has(name))
      return Object.fromEntries(members) as unknown as BlockVerdict
    }
    default:
      throw invalid('an action that does not exist')
  }
}

/**
 * Checks the progress of a guard on a text: `safeOffset` never decreases and is never beyond the pushed text.
 * @param least the previous `safeOffset`
 * @param length the length of the pushed text
 * @throws GuardFault `invalid`
 */
export function checkProgress(progress: unknown, least: number, length: number): CheckProgress {
  refusePromise(progress)
  if (!isObject(progress)) throw invalid('no progress')
  const { safeOffset: safe } = progress
  if (typeof safe !== 'number' || !Number.isInteger(safe)) throw invalid('no offset')
  if (safe < least) throw invalid('an offset that goes back')
  if (safe > length) throw invalid('an offset beyond the text')
  return progress as unknown as CheckProgress
}

/** Makes any error of a guard a fault; one of ours that the guard has wrapped is unwrapped. */
export function toFault(error: unknown): GuardFault {
  for (const cause of causesOf(error)) if (cause instanceof GuardFault) return cause
  if (error instanceof Error && error.name === 'TooLarge') {
    return new GuardFault('too_large', 'the guard takes no more than it was given', {
      cause: error,
    })
  }
  return new GuardFault('failed', 'the guard threw an error', { cause: error })
}

/** Kinds of faults that lie in the text. */
const OF_THE_TEXT: ReadonlySet<FaultKind> = new Set(['unreadable', 'budget', 'unpaid', 'too_large'])
/** Classes of upstream failures that lie in the text, where a guard asks a model. */
const REFUSALS = new Set(['bad_request', 'context_length', 'content_blocked', 'payload_too_large'])

/**
 * The effect of a fault on the guard's circuit. Only a guard that was not reached, took too long or reports a
 * failure is `down`: a client must not be able to switch a guard off for others by its texts.
 */
function callEnd(fault: GuardFault): CallEnd {
  if (OF_THE_TEXT.has(fault.kind)) return 'ok'
  if (fault.kind === 'timeout') return 'down'
  for (const cause of causesOf(fault)) {
    if (UpstreamFailure.is(cause)) return REFUSALS.has(cause.failure) ? 'ok' : 'down'
    if (isUnreachable(cause)) return 'down'
  }
  return 'invalid'
}

/** Whether a guard could not judge because it was not reached, or took too long. */
export function isDown(fault: GuardFault): boolean {
  return fault.kind === 'circuit' || callEnd(fault) === 'down'
}

/**
 * The reason of a fault for the log: our own words, and of each error that caused it its name, the class of the
 * failure, the status or the code of a connection. Never a message, which may quote a text.
 */
export function reasonOf(fault: GuardFault): string {
  const causes = causesOf(fault.cause).map((cause) => {
    if (UpstreamFailure.is(cause)) return `${cause.name} ${cause.failure}`
    const { code, status } = cause as { readonly code?: unknown; readonly status?: unknown }
    // A guard may throw what it likes.
    const name = typeof cause.name === 'string' ? cause.name : 'Error'
    if (Number.isInteger(status)) return `${name} ${String(status)}`
    return typeof code === 'string' && CONNECTION.test(code) ? `${name} ${code}` : name
  })
  return [fault.message, ...causes].join(': ')
}

const CONNECTION =
  /^(?:E[A-Z_]{3,20}|(?:UND_ERR|ERR|CERT|UNABLE_TO|SELF_SIGNED|DEPTH_ZERO)_[A-Z_]{1,50})$/

const UNREACHABLE =
  /^(?:ECONN\w+|EPIPE|ETIMEDOUT|ENOTFOUND|EAI_\w+|E(?:HOST|NET)UNREACH|UND_ERR_\w+)$/

/** Whether a connection failed, or a status reports that the server fails. */
function isUnreachable(error: Error): boolean {
  const { code, status } = error as { readonly code?: unknown; readonly status?: unknown }
  if (typeof status === 'number') return status >= 500 || status === 429
  return typeof code === 'string' && UNREACHABLE.test(code)
}

function isPromise(value: unknown): value is PromiseLike<unknown> {
  return isObject(value) && typeof value.then === 'function'
}

function ignoreRejection(answer: unknown): void {
  if (isPromise(answer)) Promise.resolve(answer).catch(() => {})
}

/** The chain of an error's causes, itself included. */
function causesOf(error: unknown): Error[] {
  const causes: Error[] = []
  for (let cause = error; cause instanceof Error && causes.length < 5; cause = cause.cause) {
    causes.push(cause)
  }
  return causes
}

/** @throws GuardFault `invalid` for a promise */
function refusePromise(answer: unknown): void {
  if (!isPromise(answer)) return
  ignoreRejection(answer)
  throw invalid('a promise')
}

/** Accepts the rules that a guard enforces and that are in force. @param plugin the prefix of its own rules */
export function ruleFilter(
  plugin: string,
  enforces: readonly RuleRef[],
  rules: ActiveRules,
): RuleFilter {
  const own = `x:${plugin}/`
  const inForce: readonly string[] = referencesTo(rules)
  return (rule) => {
    if (rule.startsWith('x:')) return rule.startsWith(own) || enforces.includes(rule as RuleRef)
    if (rule === 'tampering') return enforces.includes('tampering')
    const family = rule.startsWith('scope:') ? 'scope' : rule.replace(/\[\d+\]$/, '')
    return enforces.includes(family as RuleRef) && inForce.includes(family)
  }
}

export function referencesTo({ scopes, deny, bannedPatterns }: ActiveRules): RuleRef[] {
  return [
    ...(scopes.length > 0 ? (['scope'] as const) : []),
    ...deny.map((category) => `deny:${category}` as const),
    ...(bannedPatterns.length > 0 ? (['bannedPatterns'] as const) : []),
  ]
}

function isSpan(span: unknown, length: number): span is Span {
  if (!isObject(span)) return false
  const { start, end } = span
  return isOffset(start) && isOffset(end) && start <= end && end <= length
}

function isOffset(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 0
}

function invalid(what: string): GuardFault {
  return new GuardFault('invalid', `the guard answered with ${what}`)
}

interface GuardQuestion {
  readonly name: string
  readonly side: Side
  readonly ms: number
  /** `passed`, `blocked`, the kind of a fault, or `cancelled` where the answer was no longer wanted. */
  readonly result: string
  readonly rules: readonly string[]
}

interface AskOptions<T> {
  /** Whether a transport failure is tried once more while there is time; not for a guard that keeps state. */
  readonly again?: boolean
  readonly blocksIn?: (answer: T) => readonly (BlockVerdict | undefined)[]
}

/** The processor time of a local guard in one go. Time that the machine gives to others does not count. */
const LOCAL_LIMIT_MS = 250

interface GuardRunnerInit {
  readonly name: string
  readonly guard: Guard
  readonly origin: Origin
  readonly ruleFilter: RuleFilter
  /** The number of scopes and patterns of the policy before those that the guard knows; absent where there are none. */
  readonly offsets?: { readonly scopes: number; readonly bannedPatterns: number }
  readonly circuit: CircuitBreaker
  readonly verdicts: VerdictCache
  readonly metrics: Pick<GuardMetrics, 'recordAnswer'>
  readonly onQuestion?: (question: GuardQuestion) => void
  readonly late?: LateAnswers['metrics']
  /** The limit of one question to a remote guard, in ms. */
  readonly limitsMs: Readonly<Record<Side, number>>
  readonly signal: AbortSignal
  readonly contextOf: (signal: AbortSignal, deadline: number) => GuardContext
}

export class GuardRunner {
  readonly name: string
  readonly guard: Guard
  readonly origin: Origin
  readonly #init: GuardRunnerInit
  #context: GuardContext | undefined

  constructor(init: GuardRunnerInit) {
    this.name = init.name
    this.guard = init.guard
    this.origin = init.origin
    this.#init = init
  }

  get local(): boolean {
    return this.guard.execution === 'local'
  }

  get context(): GuardContext {
    return (this.#context ??= this.#init.contextOf(this.#init.signal, Infinity))
  }

  hasPassed(item: TextItem): boolean {
    return this.#init.verdicts.has(this.name, this.context, item)
  }

  passed(item: TextItem): void {
    this.#init.verdicts.add(this.name, this.context, item)
  }

  /**
   * The block of a verdict, its rule named by its position in the effective policy.
   * @param length the length of the text
   * @throws GuardFault for an invalid verdict, see {@link checkVerdict}
   */
  blockIn(verdict: unknown, length: number): BlockVerdict | undefined {
    const block = checkVerdict(verdict, length, this.#init.ruleFilter)
    const position = block && /^(scope:|bannedPatterns\[)(\d+)(.*)$/.exec(block.rule)
    if (!position) return block
    const [, before, index, after] = position
    const { scopes, bannedPatterns } = this.#init.offsets ?? { scopes: 0, bannedPatterns: 0 }
    const offset = before === 'scope:' ? scopes : bannedPatterns
    return { ...block, rule: `${before}${Number(index) + offset}${after}` as RuleRef }
  }

  /** Waits for a local guard's answer about an input. @throws GuardFault `timeout` */
  async inTime<T>(side: Side, answer: T | PromiseLike<T>): Promise<T> {
    if (!isPromise(answer)) return answer
    const { signal, clear } = this.#until(side)
    return unlessAborted(signal, Promise.resolve(answer)).finally(clear)
  }

  /** Runs a local guard. @throws GuardFault `slow` when it took too long, and the guard's errors by {@link toFault} */
  work<T>(run: (context: GuardContext) => T): T {
    const started = process.threadCpuUsage()
    let answer: T | GuardFault
    try {
      answer = run(this.context)
    } catch (error) {
      answer = toFault(error)
    }
    const { user, system } = process.threadCpuUsage(started)
    if (user + system > LOCAL_LIMIT_MS * 1000) {
      ignoreRejection(answer)
      throw new GuardFault('slow', 'the guard worked for too long')
    }
    if (answer instanceof GuardFault) throw answer
    return answer
  }

  /** Asks a remote guard. @throws GuardFault `circuit` while it keeps failing, `timeout`, others by {@link toFault} */
  async ask<T>(
    side: Side,
    run: (context: GuardContext) => T | Promise<T>,
    { again = true, blocksIn = () => [] }: AskOptions<T> = {},
  ): Promise<T> {
    const { circuit, contextOf, limitsMs } = this.#init
    const started = performance.now()
    const { accountId } = this.context
    if (!circuit.admit(accountId, started)) {
      throw new GuardFault('circuit', 'the guard fails too often')
    }
    const { signal, clear } = this.#until(side)
    const context = contextOf(signal, Date.now() + limitsMs[side])
    const question = async () => unlessAborted(signal, run(context))
    try {
      const answer = await question().catch((error: unknown) => {
        if (!again || signal.aborted || !isTransportFailure(error)) throw error
        return question()
      })
      circuit.ended(accountId, 'ok', performance.now())
      const rules = blocksIn(answer).flatMap((block) => (block ? [block.rule] : []))
      this.#recordQuestion(side, started, rules.length > 0 ? 'blocked' : 'passed', rules)
      return answer
    } catch (error) {
      const fault = toFault(signal.reason instanceof GuardFault ? signal.reason : error)
      const { aborted } = this.#init.signal
      if (aborted) circuit.abandoned()
      else circuit.ended(accountId, callEnd(fault), performance.now())
      this.#recordQuestion(side, started, aborted ? 'cancelled' : fault.kind, [])
      throw fault
    } finally {
      clear()
    }
  }

  #recordQuestion(side: Side, started: number, result: string, rules: readonly string[]): void {
    const { metrics, onQuestion } = this.#init
    const ms = performance.now() - started
    metrics.recordAnswer(this.name, side, ms / 1000)
    onQuestion?.({ name: this.name, side, ms, result, rules })
  }

  /** A signal that is aborted when a guard has taken too long, and when its answer is no longer wanted. */
  #until(side: Side): { signal: AbortSignal; clear: () => void } {
    const { signal: wanted, limitsMs, late } = this.#init
    // Its listeners only end waits, and throw nothing.
    const scope = new AbortScope(() => {})
    if (late) scope.late = { instance: this.name, metrics: late }
    const giveUp = () => scope.abort(wanted.reason)
    const expire = () => scope.abort(new GuardFault('timeout', 'the guard did not answer in time'))
    const timeout = setTimeout(expire, limitsMs[side])
    const clear = () => {
      clearTimeout(timeout)
      offAbort(wanted, giveUp)
    }
    if (wanted.aborted) giveUp()
    else onAbort(wanted, giveUp)
    return { signal: scope.signal, clear }
  }
}

function isTransportFailure(error: unknown): boolean {
  if (UpstreamFailure.is(error)) {
    const cause = error.cause as { readonly status?: number } | null | undefined
    return error.failure === 'upstream_error' && cause != null && cause.status === undefined
  }
  return (
    error instanceof Error &&
    (error.name === 'FetchError' || error.name === 'TypeError') &&
    (error as { status?: number }).status === undefined &&
    error.cause !== undefined
  )
}

const MAX_VERDICTS = 20_000
const TTL_MS = 600_000

/** Remembers passes only, by a hash of everything that a verdict may depend on. Accounts share nothing. */
export class VerdictCache {
  readonly #passed = new LRUCache<string, true>({ ...atMost(MAX_VERDICTS), ttl: TTL_MS })
  readonly #secret = randomBytes(32)

  /** @param guard the instance's name */
  has(guard: string, context: GuardContext, item: TextItem): boolean {
    return this.#passed.has(this.#keyOf(guard, context, item))
  }

  add(guard: string, context: GuardContext, item: TextItem): void {
    this.#passed.set(this.#keyOf(guard, context, item), true)
  }

  #keyOf(guard: string, context: GuardContext, item: TextItem): string {
    const { accountId, keyId, operation, model, origin, rules, judgeModel } = context
    const { side, channel, text, context: shown } = item
    const circumstances = [guard, accountId, keyId, operation, model, origin, rules, judgeModel]
    const parts = JSON.stringify([...circumstances, side, channel, shown, text])
    return createHmac('sha256', this.#secret).update(parts).digest('base64')
  }
}

// Spares calls the wait for a guard that keeps failing; one account cannot switch it off for others.

const WINDOW_MS = 30_000
const MIN_CALLS = 10
const ERROR_SHARE = 0.5
/** The number of accounts that have to see the guard fail; all that asked where these are fewer. */
const MIN_ACCOUNTS = 3
const OPEN_MS = 10_000
/** The window is counted in buckets, so that it needs no list of calls. */
const BUCKETS = 10
const BUCKET_MS = WINDOW_MS / BUCKETS

/** Invalid answers of one account within the window after which its calls are not made. */
const MAX_INVALID = 5
const MAX_COUNTED = 10_000

/**
 * The end of a guard's call: `ok`, also where the text was at fault; `down`, the guard was not reached, took too
 * long or reported a failure; `invalid`, its answer is no verdict, which the text may have caused.
 */
type CallEnd = 'ok' | 'down' | 'invalid'

interface Bucket {
  readonly index: number
  calls: number
  errors: number
  readonly accounts: Set<string>
  readonly failing: Set<string>
}

interface Invalid {
  readonly at: number[]
  closedUntil: number
}

/**
 * The circuit of one guard and origin. It opens for all when within half a minute at least half of at least ten calls
 * found the guard `down`, and at least three accounts did, or all that asked; ten seconds later one call probes the
 * guard, and decides. It opens for one account, for ten seconds, after five `invalid` answers to it within half a
 * minute. Times are ms of a monotonic clock.
 */
export class CircuitBreaker {
  #buckets: Bucket[] = []
  /** It is undefined while it is closed. */
  #openUntil: number | undefined
  #probing = false
  readonly #invalid = new LRUCache<string, Invalid>(atMost(MAX_COUNTED))

  /** The state for all accounts; `half-open` while a call probes. */
  get state(): CircuitState {
    if (this.#openUntil === undefined) return 'closed'
    return this.#probing ? 'half-open' : 'open'
  }

  /** Whether a call may be made. If so, the caller reports how it ended. */
  admit(account: string, now: number): boolean {
    if (now < (this.#invalid.get(account)?.closedUntil ?? 0)) return false
    if (this.#openUntil === undefined) return true
    if (this.#probing || now < this.#openUntil) return false
    this.#probing = true
    return true
  }

  ended(account: string, end: CallEnd, now: number): void {
    if (end === 'invalid') this.#countInvalid(account, now)
    const failed = end === 'down'
    if (this.#openUntil !== undefined) return this.#probed(!failed, now)
    const bucket = this.#bucketAt(now)
    bucket.calls++
    bucket.accounts.add(account)
    if (failed) {
      bucket.errors++
      bucket.failing.add(account)
    }
    const calls = sum(this.#buckets, 'calls')
    if (calls < MIN_CALLS || sum(this.#buckets, 'errors') < calls * ERROR_SHARE) return
    const asking = union(this.#buckets, 'accounts')
    if (union(this.#buckets, 'failing') < Math.min(MIN_ACCOUNTS, asking)) return
    this.#openUntil = now + OPEN_MS
    this.#buckets = []
  }

  /** A call was aborted before the guard answered, for example because the client left. */
  abandoned(): void {
    this.#probing = false
  }

  #bucketAt(now: number): Bucket {
    const index = Math.floor(now / BUCKET_MS)
    this.#buckets = this.#buckets.filter((one) => one.index > index - BUCKETS)
    let bucket = this.#buckets.at(-1)
    if (bucket?.index !== index) {
      bucket = { index, calls: 0, errors: 0, accounts: new Set(), failing: new Set() }
      this.#buckets.push(bucket)
    }
    return bucket
  }

  #countInvalid(account: string, now: number): void {
    const invalid = this.#invalid.get(account) ?? { at: [], closedUntil: 0 }
    this.#invalid.set(account, invalid)
    invalid.at.push(now)
    if (invalid.at.length < MAX_INVALID) return
    if (now - invalid.at.shift()! > WINDOW_MS) return
    invalid.closedUntil = now + OPEN_MS
    invalid.at.length = 0
  }

  #probed(ok: boolean, now: number): void {
    // Calls that began before the circuit opened prove nothing.
    if (!this.#probing) return
    this.#probing = false
    this.#openUntil = ok ? undefined : now + OPEN_MS
  }
}

function sum(buckets: readonly Bucket[], member: 'calls' | 'errors'): number {
  return buckets.reduce((total, bucket) => total + bucket[member], 0)
}

function union(buckets: readonly Bucket[], member: 'accounts' | 'failing'): number {
  return new Set(buckets.flatMap((bucket) => [...bucket[member]])).size
}
