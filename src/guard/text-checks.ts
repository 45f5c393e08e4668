/** The ways in which a guard is asked about one text: by patterns, piece by piece, segment by segment, or once at its end. */
import type { OutputCheck, PatternMatch, ScanProgress, TextStream } from '../plugin.ts'
import type { PatternMatcher } from '../patterns/patterns.ts'
import { yieldIfDue } from '../patterns/time-slice.ts'
import type { Answer, TextCheck, TextProgress } from './scan-session.ts'
import type { GuardRunner } from './runner.ts'
import { GuardFault, checkProgress } from './verdicts.ts'

/** Characters that a local guard reads between two looks at the clock: a few ms at most with the worst patterns. */
const SLICE = 128

const NOTHING_SAFE: TextProgress = { safeOffset: 0 }

/** What a check of banned patterns needs of a matcher. */
export interface Matcher extends Pick<PatternMatcher, 'search'> {
  scan(): Pick<ReturnType<PatternMatcher['scan']>, 'push' | 'end' | 'pushSliced' | 'endSliced'>
}

/**
 * Banned patterns on every piece of a text.
 * @param offset position of the first pattern in the effective list
 * @param proceed throws when the answer is no longer wanted; without it no answer is a promise
 */
export function patternCheck(matcher: Matcher, offset: number, proceed?: () => void): TextCheck {
  const scan = matcher.scan()
  const progressOf = (known: ScanProgress): TextProgress =>
    known.match ? matched(known.match, offset, known.safeOffset) : known
  return {
    push: (text) =>
      proceed ? then(scan.pushSliced(text, proceed), progressOf) : progressOf(scan.push(text)),
    end: () => (proceed ? then(scan.endSliced(proceed), progressOf) : progressOf(scan.end())),
  }
}

/** Searches a complete text, which is many times faster than {@link patternCheck}. */
export function searchPatterns(
  matcher: Matcher,
  offset: number,
  text: string,
  proceed?: () => void,
): Answer {
  return then(matcher.search(text, proceed), (match) =>
    match ? matched(match, offset, 0) : { safeOffset: text.length },
  )
}

function matched(
  { pattern, start, end, view }: PatternMatch,
  offset: number,
  safeOffset: number,
): TextProgress {
  const rule = `bannedPatterns[${pattern + offset}]` as const
  return { safeOffset, verdict: { action: 'block', rule, spans: [{ start, end }] }, view }
}

/** A plugin that follows the text itself. A remote one is asked one question at a time. */
export function streamCheck(runner: GuardRunner, stream: TextStream): TextCheck {
  let output: OutputCheck | undefined
  let length = 0
  let safeOffset = 0
  const open = () => (output ??= runner.guard.streamOutput!(stream, runner.context))
  const checked = (answer: unknown, complete: boolean): TextProgress => {
    const { safeOffset: safe, verdict } = checkProgress(answer, safeOffset, length)
    const block = verdict && runner.blockIn(verdict, length)
    safeOffset = safe
    if (block) return { safeOffset, verdict: block }
    if (complete && safe < length) {
      throw new GuardFault('invalid', 'the guard ended without a word about the end')
    }
    return { safeOffset }
  }
  const ask = (question: (output: OutputCheck) => unknown, complete: boolean): Answer =>
    runner.local
      ? runner.work(() => checked(question(open()), complete))
      : runner.ask('output', async () => checked(await question(open()), complete), false)
  return {
    push(text) {
      length += text.length
      return ask((check) => check.push(text), false)
    },
    end: () => ask((check) => check.end(), true),
  }
}

/**
 * A local check that reads in slices and gives other calls their turn in between.
 * @param longest pieces up to this many characters are read in one go; 0: the clock is looked at after every piece
 */
export function sliced(check: TextCheck, longest: number, proceed: () => void): TextCheck {
  return {
    push: (text) => (text.length > longest ? pushSlices(check, text, proceed) : check.push(text)),
    end: () => check.end(),
  }
}

function pushSlices(check: TextCheck, text: string, proceed: () => void): Answer {
  for (let at = SLICE; ; at += SLICE) {
    const answer = check.push(text.slice(at - SLICE, at))
    const goOn = (known: TextProgress): Answer =>
      known.verdict || at >= text.length ? known : pushSlices(check, text.slice(at), proceed)
    if (answer instanceof Promise) return answer.then(goOn)
    const due = answer.verdict ? undefined : yieldIfDue(proceed)
    if (due) return due.then(() => goOn(answer))
    if (answer.verdict || at >= text.length) return answer
  }
}

/** Collects a text and asks once, at its end. */
export function fullText(ask: (text: string) => Answer): TextCheck {
  let all = ''
  return {
    push(text) {
      all += text
      return NOTHING_SAFE
    },
    end: () => ask(all),
  }
}

/** All a check says of a complete text. */
export function pushAll(check: TextCheck, text: string): Answer {
  return then(check.push(text), (progress) => (progress.verdict ? progress : check.end()))
}

/** Goes on with what is there, or once it is there. */
function then<In, Out>(
  value: In | Promise<In>,
  goOn: (value: In) => Out | Promise<Out>,
): Out | Promise<Out> {
  return value instanceof Promise ? value.then(goOn) : goOn(value)
}
