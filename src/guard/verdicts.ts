/** What guards say, and what counts as having said nothing. Misbehaviour is an error, never a pass (guard design, 4). */
import { isObject } from '../errors/checks.ts'
import { UpstreamFailure } from '../errors/errors.ts'
import type { CheckProgress, RuleRef, Span, Verdict } from '../plugin.ts'

export type BlockVerdict = Extract<Verdict, { action: 'block' }>

/** Why a guard could not look. */
export type FaultKind =
  /** It threw. */
  | 'failed'
  | 'timeout'
  /** Its answer is none: wrong type, wrong number, offsets out of range, a rule that is not in force. */
  | 'invalid'
  /** It failed too often of late. */
  | 'circuit'
  /** Its calls to models have used up what one request may spend. */
  | 'budget'
  /** It took longer than a local guard may. */
  | 'slow'
  /** More text than is held, buffered or judged. */
  | 'too_large'
  /** It cannot read what it was shown. */
  | 'unreadable'
  /** A rule that no guard answers for. */
  | 'unanswered'
  /** Nobody would pay for the model that it asks. Whatever the policy says, the call goes on without it. */
  | 'unpaid'

/** A guard could not look: neither pass nor block. */
export class GuardFault extends Error {
  readonly kind: FaultKind

  constructor(kind: FaultKind, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'GuardFault'
    this.kind = kind
  }
}

/** Rules are told in a header. */
const RULE = /^[\w:./[\]-]{1,120}$/

/** Whether a guard may block for this rule. */
export type RuleFilter = (rule: string) => boolean

/**
 * A verdict as it has to be.
 * @param length of the text it is about
 * @returns the block, or nothing for a pass
 * @throws GuardFault `invalid` for what is no verdict, `unreadable` when the guard abstains because it cannot read
 */
export function checkVerdict(
  verdict: unknown,
  length: number,
  admits: RuleFilter,
): BlockVerdict | undefined {
  isNoPromise(verdict)
  if (!isObject(verdict)) throw invalid('no verdict')
  switch (verdict.action) {
    case 'pass':
      return undefined
    case 'abstain':
      if (verdict.why === 'not-applicable') return undefined
      throw new GuardFault('unreadable', 'the guard cannot read this')
    case 'block': {
      const { rule, spans = [], score } = verdict
      if (typeof rule !== 'string' || !RULE.test(rule) || !admits(rule)) {
        throw invalid('a rule that it does not answer')
      }
      if (!Array.isArray(spans) || !spans.every((span) => isSpan(span, length)))
        throw invalid('spans outside of the text')
      if (score !== undefined && !(typeof score === 'number' && score >= 0 && score <= 1))
        throw invalid('a score that is not from 0 to 1')
      return verdict as unknown as BlockVerdict
    }
    default:
      throw invalid('an action that does not exist')
  }
}

/**
 * A step of a lane as it has to be: `safeOffset` never decreases and is never beyond what was pushed.
 * @param least what `safeOffset` was before
 * @throws GuardFault `invalid`
 */
export function checkProgress(step: unknown, least: number, length: number): CheckProgress {
  isNoPromise(step)
  if (!isObject(step)) throw invalid('no step')
  const { safeOffset: safe } = step
  if (typeof safe !== 'number' || !Number.isInteger(safe)) throw invalid('no offset')
  if (safe < least) throw invalid('an offset that goes back')
  if (safe > length) throw invalid('an offset beyond the text')
  return step as unknown as CheckProgress
}

/** Anything that was thrown while a guard was asked; a fault of ours is found below what a guard made of it. */
export function toFault(error: unknown): GuardFault {
  for (const cause of causesOf(error)) if (cause instanceof GuardFault) return cause
  if (error instanceof Error && error.name === 'TooLarge') {
    return new GuardFault('too_large', 'the guard takes no more than it was given', {
      cause: error,
    })
  }
  return new GuardFault('failed', 'the guard threw an error', { cause: error })
}

/** Kinds of faults of what was asked about. */
const OF_THE_TEXT: ReadonlySet<FaultKind> = new Set(['unreadable', 'budget', 'unpaid', 'too_large'])
/** The same, of what a model says that a guard has asked. */
const REFUSALS = new Set(['bad_request', 'context_length', 'content_blocked', 'payload_too_large'])

/**
 * Whether a fault says nothing of the guard: it lies in what was asked about. Whoever sends such a text must not keep
 * others from being looked at.
 */
export function isTextFault(fault: GuardFault): boolean {
  if (OF_THE_TEXT.has(fault.kind)) return true
  return causesOf(fault).some((cause) => UpstreamFailure.is(cause) && REFUSALS.has(cause.failure))
}

export function isPromise(value: unknown): value is PromiseLike<unknown> {
  return isObject(value) && typeof value.then === 'function'
}

/** An answer that nobody waits for any more. It may still fail. */
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

/** A guard that is to answer at once promises to. @throws GuardFault */
function isNoPromise(answer: unknown): void {
  if (!isPromise(answer)) return
  ignoreRejection(answer)
  throw invalid('a promise')
}

/** Whether a call goes on without a guard that could not look. */
export function isTolerated({ kind }: GuardFault, onError: 'block' | 'allow'): boolean {
  return onError === 'allow' || kind === 'unpaid'
}

/** The rules of one origin that a guard answers for and that are in force, as a check of what it says. */
export function ruleFilter(
  plugin: string,
  answers: readonly RuleRef[],
  inForce: ReadonlySet<string>,
): RuleFilter {
  const own = `x:${plugin}/`
  return (rule) => {
    if (rule.startsWith('x:')) return rule.startsWith(own) || answers.includes(rule as RuleRef)
    if (rule === 'tampering') return answers.includes('tampering')
    const family = rule.startsWith('scope:') ? 'scope' : rule.replace(/\[\d+\]$/, '')
    return answers.includes(family as RuleRef) && inForce.has(family)
  }
}

function isSpan(span: unknown, length: number): span is Span {
  if (!isObject(span)) return false
  const { start, end } = span
  return (
    Number.isInteger(start) &&
    Number.isInteger(end) &&
    (start as number) >= 0 &&
    (start as number) <= (end as number) &&
    (end as number) <= length
  )
}

function invalid(what: string): GuardFault {
  return new GuardFault('invalid', `the guard answered with ${what}`)
}
