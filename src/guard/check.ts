/** Guards that are one function: the methods for requests and answers that follow from {@link Guard.check}. */
import type {
  CheckProgress,
  Finding,
  Guard,
  GuardContext,
  OutputCheck,
  TextItem,
  TextStream,
  Verdict,
} from '../plugin.ts'
import { passOnModelAccess } from './host.ts'

type Found = Finding | readonly Finding[] | undefined
type Judge = (text: string, item: TextItem, context: GuardContext) => Found | Promise<Found>

export function withDerivedMethods(guard: Guard): Guard {
  if (!guard.check) return guard
  const judge: Judge = (text, item, context) => {
    const own = Object.freeze({ ...context, item })
    passOnModelAccess(context, own)
    return guard.check!(text, own)
  }
  const verdict = (item: TextItem, context: GuardContext): Verdict | Promise<Verdict> => {
    const result = judge(item.text, item, context)
    return result instanceof Promise
      ? result.then((later) => verdictOf(guard, listOf(later), item.text.length))
      : verdictOf(guard, listOf(result), item.text.length)
  }
  const checkInput: Guard['checkInput'] = (items, context) => {
    const verdicts = items.map((item) => verdict(item, context))
    return verdicts.some((one) => one instanceof Promise)
      ? Promise.all(verdicts)
      : (verdicts as Verdict[])
  }
  const { reach } = guard
  const streamOutput = (stream: TextStream, context: GuardContext) =>
    new WindowCheck(guard, reach!, (text) => judge(text, windowItem(stream, text), context))
  const output = reach === undefined ? { checkOutput: verdict } : { streamOutput }
  const bound = {
    // Methods of a class would lose their object in a copy.
    ...guard,
    ...(guard.close && { close: () => guard.close!() }),
    ...(guard.asks && { asks: (model: string | undefined) => guard.asks!(model) }),
    ...(guard.locate && { locate: guard.locate.bind(guard) }),
    ...(guard.questions && { questions: (characters: number) => guard.questions!(characters) }),
  }
  return {
    ...bound,
    enforces: guard.enforces,
    execution: guard.execution,
    checkInput: guard.checkInput?.bind(guard) ?? checkInput,
    ...(guard.checkOutput || guard.streamOutput
      ? {
          ...(guard.checkOutput && { checkOutput: guard.checkOutput.bind(guard) }),
          ...(guard.streamOutput && { streamOutput: guard.streamOutput.bind(guard) }),
        }
      : output),
  }
}

const METHODS = ['check', 'checkInput', 'checkOutput', 'streamOutput', 'locate'] as const
const MOST_REACH = 2000

/** The problem of a guard's methods and its `reach`, as a sentence; undefined for a valid guard. */
export function methodProblem(guard: Guard): string | undefined {
  const { check, execution, needsFullText, reach } = guard
  if (METHODS.every((name) => typeof guard[name] !== 'function')) {
    return `a guard needs one of the methods ${METHODS.join(', ')}`
  }
  if (reach === undefined) return undefined
  if (!Number.isInteger(reach) || reach < 1 || reach > MOST_REACH) {
    return `"reach" has to be a whole number from 1 to ${MOST_REACH}`
  }
  if (!check || execution !== 'local') return '"reach" goes with "check" and execution "local" only'
  return needsFullText ? '"reach" and "needsFullText" do not go together' : undefined
}

function listOf(findings: Found): readonly Finding[] {
  if (findings === undefined || findings === null) return []
  return Array.isArray(findings) ? findings : [findings as Finding]
}

function verdictOf(guard: Guard, findings: readonly Finding[], length: number): Verdict {
  const [first] = findings.toSorted((a, b) => (a.start ?? 0) - (b.start ?? 0))
  if (!first) return { action: 'pass' }
  const rule = first.rule ?? guard.enforces[0]
  if (rule === undefined || (first.rule === undefined && guard.enforces.length > 1)) {
    throw new Error('"check" has to name the "rule" of a finding: the guard enforces several')
  }
  const { score, reason } = first
  const spans = findings
    .filter((one) => (one.rule ?? rule) === rule && one.start !== undefined)
    .map(({ start, end }) => ({ start: start!, end: end ?? length }))
  return {
    action: 'block',
    rule,
    ...(spans.length > 0 && { spans }),
    ...(score !== undefined && { score }),
    ...(reason !== undefined && { reason }),
  }
}

function windowItem({ channel, choice, index }: TextStream, text: string): TextItem {
  const id = `choices[${choice}].${channel}[${index}]`
  return Object.freeze({ id, side: 'output', channel, role: 'assistant', current: true, text })
}

const LEAST_BLOCK = 8

/**
 * Judges a growing text in windows. Findings that begin in one block of it are decided when `reach` more characters are there,
 * and are looked for with `reach` characters around the block. Blocks begin at fixed places of the text, so the result does
 * not depend on how the text is cut.
 */
class WindowCheck implements OutputCheck {
  readonly #guard: Guard
  readonly #reach: number
  readonly #block: number
  readonly #judge: (text: string) => Found | Promise<Found>
  /** The text from `#base` on. */
  #text = ''
  #base = 0
  /** Findings that begin before this offset are decided: there are none. */
  #decided = 0

  constructor(guard: Guard, reach: number, judge: (text: string) => Found | Promise<Found>) {
    this.#guard = guard
    this.#reach = reach
    this.#block = Math.max(LEAST_BLOCK, Math.ceil(reach / 4))
    this.#judge = judge
  }

  push(text: string): CheckProgress {
    this.#text += text
    return this.#proceed(false)
  }

  end(): CheckProgress {
    return this.#proceed(true)
  }

  #proceed(complete: boolean): CheckProgress {
    const length = this.#base + this.#text.length
    let verdict: Verdict | undefined
    for (;;) {
      const to = this.#decided + this.#block
      const end = this.#behindPair(to + this.#reach)
      if (end > length) break
      verdict = this.#decide(to, end)
      if (verdict) break
    }
    if (complete && !verdict) verdict = this.#decide(length, length)
    const safeOffset = verdict ? this.#decided : this.#beforePair(this.#decided)
    this.#forget()
    return verdict ? { safeOffset, verdict } : { safeOffset }
  }

  /** Decides the findings that begin before `to`, in a window that ends at `end`. */
  #decide(to: number, end: number): Verdict | undefined {
    let start = this.#beforePair(Math.max(0, this.#decided - this.#reach))
    while (start < end) {
      const window = this.#text.slice(start - this.#base, end - this.#base)
      const findings = this.#judge(window)
      if (findings instanceof Promise) {
        findings.catch(() => {})
        throw new Error('a local guard must not return a promise: "check" did')
      }
      const all = listOf(findings).map((one) => shifted(one, start))
      const here = all.filter((one) => isIn(one, this.#decided, to))
      if (here.length > 0) {
        this.#decided = Math.max(this.#decided, Math.min(...here.map((one) => one.start ?? 0)))
        return verdictOf(this.#guard, here, end)
      }
      // Only what lies before may hide a finding: the guard may have reported the leftmost alone.
      const before = all.map((one) => one.start!).filter((at) => at < this.#decided)
      if (before.length === 0) break
      start = Math.max(start, ...before) + 1
    }
    this.#decided = to
    return undefined
  }

  #forget(): void {
    const from = Math.max(0, this.#decided - this.#reach - 1)
    this.#text = this.#text.slice(from - this.#base)
    this.#base = from
  }

  #beforePair(offset: number): number {
    return this.#splitsPair(offset) ? offset - 1 : offset
  }

  /** One more than the offset if a surrogate pair may continue behind it, also one that has not come. */
  #behindPair(offset: number): number {
    return isHigh(this.#text.charCodeAt(offset - 1 - this.#base)) ? offset + 1 : offset
  }

  #splitsPair(offset: number): boolean {
    const at = offset - this.#base
    return isHigh(this.#text.charCodeAt(at - 1)) && isLow(this.#text.charCodeAt(at))
  }
}

function shifted(finding: Finding, by: number): Finding {
  const { start, end } = finding
  if (start === undefined) return finding
  return { ...finding, start: start + by, ...(end !== undefined && { end: end + by }) }
}

/** A finding without a place counts everywhere. */
function isIn({ start }: Finding, from: number, to: number): boolean {
  return start === undefined || (start >= from && start < to)
}

function isHigh(code: number): boolean {
  return code >= 0xd800 && code <= 0xdbff
}

function isLow(code: number): boolean {
  return code >= 0xdc00 && code <= 0xdfff
}
