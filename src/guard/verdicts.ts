/** Verdicts of guards, and faults in their place. A guard that misbehaves has not passed a text: that is a fault. */
import { isObject } from '../errors/checks.ts'
import { UpstreamFailure } from '../errors/errors.ts'
import type { CallEnd } from './circuit.ts'
import type {
  ActiveRules,
  CheckProgress,
  PatternMatch,
  PatternView,
  RuleRef,
  Span,
  Verdict,
} from '../plugin.ts'

export type BlockVerdict = Extract<Verdict, { action: 'block' }>

/** A block, and where a pattern matched the reading of the text in which it did. */
export type Block = BlockVerdict & { readonly view?: PatternView }

/** What a check of a growing text knows of it. */
export interface TextProgress {
  /** Offset up to which the guard agrees; never decreases. */
  readonly safeOffset: number
  readonly verdict?: Block
}

/** A promise where the answer takes time. */
export type Answer = TextProgress | Promise<TextProgress>

/** The block for a match of a banned pattern. @param offset position of the first pattern in the effective list */
export function patternBlock({ pattern, start, end, view }: PatternMatch, offset: number): Block {
  return {
    action: 'block',
    rule: `bannedPatterns[${pattern + offset}]`,
    spans: [{ start, end }],
    view,
  }
}

/** Why a guard could not look. */
export type FaultKind =
  /** It threw. */
  | 'failed'
  | 'timeout'
  /** Its answer is not valid: wrong type, wrong number, offsets out of range, a rule that is not in force. */
  | 'invalid'
  /** It failed too often of late. */
  | 'circuit'
  /** Its calls to models have used up what one request may spend. */
  | 'budget'
  /** A local guard that worked for too long. */
  | 'slow'
  /** More text than may be retained, buffered or judged. */
  | 'too_large'
  /** The guard cannot read what it was shown. */
  | 'unreadable'
  /** A rule that no guard answers for. */
  | 'unanswered'
  /** The account is free and the model that it asks is not. Whatever the policy says, the call goes on without it. */
  | 'unpaid'

/** Why a guard could not look. Neither a pass nor a block. */
export class GuardFault extends Error {
  readonly kind: FaultKind

  constructor(kind: FaultKind, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'GuardFault'
    this.kind = kind
  }
}

/** Rules are named in a header. */
const RULE = /^[\w:./[\]-]{1,120}$/

/** Members of a block that a guard may set. */
const MEMBERS = new Set(['action', 'rule', 'score', 'spans', 'reason'])

/** Whether a guard may block for this rule. */
export type RuleFilter = (rule: string) => boolean

/**
 * Checks a verdict.
 * @param length of the text it is about
 * @returns the block, or nothing for a pass
 * @throws GuardFault `invalid` for what is no verdict, `unreadable` when the guard abstains because it cannot read
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
      const known = Object.entries(verdict).filter(([name]) => MEMBERS.has(name))
      return Object.fromEntries(known) as unknown as BlockVerdict
    }
    default:
      throw invalid('an action that does not exist')
  }
}

/**
 * Checks the progress of a guard on a text: `safeOffset` never decreases and is never beyond what was pushed.
 * @param least what `safeOffset` was before
 * @param length of what was pushed
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
/** The same of upstream failures, where a guard asks a model. */
const REFUSALS = new Set(['bad_request', 'context_length', 'content_blocked', 'payload_too_large'])

/**
 * What a fault says of the guard. Only a guard that was not reached, took too long or said that it fails is `down`: a
 * client must not be able to switch a guard off for others by what it sends.
 */
export function callEnd(fault: GuardFault): CallEnd {
  if (OF_THE_TEXT.has(fault.kind)) return 'ok'
  if (fault.kind === 'timeout') return 'down'
  for (const cause of causesOf(fault)) {
    if (UpstreamFailure.is(cause)) return REFUSALS.has(cause.failure) ? 'ok' : 'down'
    if (isUnreachable(cause)) return 'down'
  }
  return 'invalid'
}

/**
 * What is logged of a fault: our own words, and of each error that caused it its name, the class of the failure, the status
 * or the code of a connection. Never a message, which may quote a text.
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

/** Codes of errors of a connection, certificates included. */
const CONNECTION =
  /^(?:E[A-Z_]{3,20}|(?:UND_ERR|ERR|CERT|UNABLE_TO|SELF_SIGNED|DEPTH_ZERO)_[A-Z_]{1,50})$/

/** Codes of connections that failed, by Node.js and by undici. */
const UNREACHABLE =
  /^(?:ECONN\w+|EPIPE|ETIMEDOUT|ENOTFOUND|EAI_\w+|E(?:HOST|NET)UNREACH|UND_ERR_\w+)$/

/** A connection that failed, or a status by which a server says that it fails. */
function isUnreachable(error: Error): boolean {
  const { code, status } = error as { readonly code?: unknown; readonly status?: unknown }
  if (typeof status === 'number') return status >= 500 || status === 429
  return typeof code === 'string' && UNREACHABLE.test(code)
}

export function isPromise(value: unknown): value is PromiseLike<unknown> {
  return isObject(value) && typeof value.then === 'function'
}

/** Keeps an answer that is no longer awaited from ending the process when it fails. */
export function ignoreRejection(answer: unknown): void {
  if (isPromise(answer)) Promise.resolve(answer).catch(() => {})
}

/** An error, what caused it, and so on. */
function causesOf(error: unknown): Error[] {
  const causes: Error[] = []
  for (let cause = error; cause instanceof Error && causes.length < 5; cause = cause.cause) {
    causes.push(cause)
  }
  return causes
}

/** @throws GuardFault `invalid` for a promise in place of an answer */
function refusePromise(answer: unknown): void {
  if (!isPromise(answer)) return
  ignoreRejection(answer)
  throw invalid('a promise')
}

/**
 * Accepts the rules that a guard enforces and that are in force.
 * @param plugin whose own rules begin with its name
 */
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

/** Rules by the names under which guards enforce them. */
export function referencesTo({ scopes, deny, bannedPatterns }: ActiveRules): RuleRef[] {
  return [
    ...(scopes.length > 0 ? (['scope'] as const) : []),
    ...deny.map((category) => `deny:${category}` as const),
    ...(bannedPatterns.length > 0 ? (['bannedPatterns'] as const) : []),
  ]
}

function isSpan(span: unknown, length: number): span is Span {
  if (!isObject(span)) return false
  const { start, end } = span as unknown as Span
  const areOffsets = Number.isInteger(start) && Number.isInteger(end)
  return areOffsets && start >= 0 && start <= end && end <= length
}

function invalid(what: string): GuardFault {
  return new GuardFault('invalid', `the guard answered with ${what}`)
}
