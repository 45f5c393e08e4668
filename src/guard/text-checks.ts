/** The ways in which a guard is asked about one text: by patterns, piece by piece, segment by segment, or once at its end. */
import type { OutputCheck, PatternMatch, ScanProgress, TextStream, TextItem } from '../plugin.ts'
import type { PatternMatcher } from '../patterns/patterns.ts'
import { yieldIfDue } from '../patterns/time-slice.ts'
import type { Answer, TextCheck, TextProgress } from './scan-session.ts'
import type { GuardRunner } from './runner.ts'
import { GuardFault, checkProgress, type BlockVerdict } from './verdicts.ts'

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

/** Segments of one text that a remote guard is asked about at once. */
const IN_FLIGHT = 3
/** Characters before a segment that are shown with it. */
const CONTEXT_CHARACTERS = 1200

/** A segment, and what the guard is shown of it. */
interface Question {
  readonly segment: Segment
  readonly item: TextItem
  passed: boolean
}

/** A check that can also be asked about a text as a whole, in place of `push` and `end`. */
type SegmentCheck = TextCheck & { judge(text: string): Answer }

/**
 * A plugin that judges segments. Of a remote guard up to three answers are outstanding at once; it agrees to segments in
 * their order. A local guard answers at once.
 * @param userTurn what the user asked, shown with every segment
 */
export function segmentCheck(
  runner: GuardRunner,
  stream: TextStream,
  userTurn: string,
): SegmentCheck {
  return new Segments(runner, stream, userTurn)
}

class Segments implements SegmentCheck {
  readonly concurrent = true
  readonly #runner: GuardRunner
  readonly #stream: TextStream
  readonly #userTurn: string
  readonly #segmenter = new Segmenter()
  /** The text before the next segment, as far as it is shown. */
  #before = ''
  #count = 0
  /** Not asked about yet; asked about and not agreed to, in order. */
  readonly #queue: Question[] = []
  readonly #asked: Question[] = []
  #outstanding = 0
  #safeOffset = 0
  #verdict: BlockVerdict | undefined
  #failure: { readonly error: unknown } | undefined
  /** The promise of the next answer. */
  #next: { readonly promise: Promise<TextProgress>; readonly resolve: () => void } | undefined

  constructor(runner: GuardRunner, stream: TextStream, userTurn: string) {
    this.#runner = runner
    this.#stream = stream
    this.#userTurn = userTurn
  }

  push(text: string): Answer {
    for (const segment of this.#segmenter.push(text)) this.#add(segment)
    return this.#answer()
  }

  end(): Answer {
    this.idle()
    return this.#answer()
  }

  idle(): void {
    const rest = this.#segmenter.flush()
    if (rest) this.#add(rest)
  }

  judge(text: string): Answer {
    this.#add({ start: 0, end: text.length, text })
    return this.#answer()
  }

  #add(segment: Segment): void {
    this.#queue.push({ segment, item: this.#itemOf(segment), passed: false })
  }

  #itemOf({ text }: Segment): TextItem {
    const { channel, choice, index } = this.#stream
    const before = this.#before
    this.#before = (before + text).slice(-CONTEXT_CHARACTERS)
    return Object.freeze({
      id: `choices[${choice}].${channel}[${index}]#${this.#count++}`,
      side: 'output',
      channel,
      role: 'assistant',
      current: true,
      text,
      context: Object.freeze({ before, userTurn: this.#userTurn }),
    })
  }

  #answer(): Answer {
    this.#ask()
    if (this.#outstanding === 0 || this.#failure || this.#verdict) return this.#progress()
    if (!this.#next) {
      const { promise, resolve } = Promise.withResolvers<void>()
      this.#next = { promise: promise.then(() => this.#progress()), resolve }
    }
    return this.#next.promise
  }

  #progress(): TextProgress {
    if (this.#failure) throw this.#failure.error
    return this.#verdict
      ? { safeOffset: this.#safeOffset, verdict: this.#verdict }
      : { safeOffset: this.#safeOffset }
  }

  #ask(): void {
    while (this.#outstanding < IN_FLIGHT && this.#queue.length > 0 && !this.#isOver) {
      const question = this.#queue.shift()!
      this.#asked.push(question)
      if (this.#runner.local) this.#judge(question)
      else if (this.#runner.hasPassed(question.item)) question.passed = true
      else this.#judgeLater(question)
    }
    this.#agree()
  }

  /** Agrees to segments in their order. */
  #agree(): void {
    while (this.#asked[0]?.passed) this.#safeOffset = this.#asked.shift()!.segment.end
  }

  get #isOver(): boolean {
    return this.#verdict !== undefined || this.#failure !== undefined
  }

  #judge(question: Question): void {
    const { guard } = this.#runner
    this.#verdict = this.#runner.work((context) =>
      this.#blockIn(guard.checkOutput!(question.item, context), question),
    )
    question.passed = !this.#verdict
  }

  #judgeLater(question: Question): void {
    const { guard } = this.#runner
    this.#outstanding++
    void this.#runner
      .ask('output', async (context) =>
        this.#blockIn(await guard.checkOutput!(question.item, context), question),
      )
      .then(
        (block) => {
          this.#verdict ??= block
          if (block) return
          question.passed = true
          this.#runner.passed(question.item)
        },
        (error: unknown) => void (this.#failure ??= { error }),
      )
      .then(() => {
        this.#outstanding--
        this.#agree()
        const next = this.#next
        this.#next = undefined
        next?.resolve()
      })
  }

  /** @returns a block with its spans placed in the whole text */
  #blockIn(verdict: unknown, { segment: { start, text } }: Question): BlockVerdict | undefined {
    const block = this.#runner.blockIn(verdict, text.length)
    if (!block?.spans || start === 0) return block
    const spans = block.spans.map((span) => {
      return { ...span, start: span.start + start, end: span.end + start }
    })
    return { ...block, spans }
  }
}

/**
 * Cuts a growing text into segments for guards that judge one segment at a time. Where the cuts are depends on the text
 * alone, not on how it arrived.
 */

/** Characters of the first segments, and of all later ones. The first are short, so that the first words go out soon. */
const TARGETS = [120, 240, 480, 800]
/** A segment is cut at this many times its target, even within a sentence. */
const MAX_OVERRUN = 1.5
/** The longest segment; a block of code may take all of it. */
const LONGEST = 1200
const SENTENCE_ENDS = new Set('.!?…。！？\n')
const FENCE = /^ {0,3}(`{3,}|~{3,})/
const SPACE = /\s/

export interface Segment {
  /** Offset in the text. */
  readonly start: number
  /** Exclusive. */
  readonly end: number
  readonly text: string
}

/** Cuts one text. */
export class Segmenter {
  #rest = ''
  #start = 0
  #count = 0
  /** How much of the rest was read. */
  #seen = 0
  /** Where the line begins in the rest; negative when a cut went through it. */
  #line = 0
  /** The fence that opened a block of code; empty outside of one. */
  #fence = ''

  /** The segments that are complete with this text. */
  push(text: string): Segment[] {
    this.#rest += text
    const segments: Segment[] = []
    for (let end = this.#next(); end > 0; end = this.#next()) segments.push(this.#take(end))
    return segments
  }

  /** The rest as a segment of its own, if there is any. */
  flush(): Segment | undefined {
    return this.#rest ? this.#take(this.#rest.length) : undefined
  }

  /** Where the first segment of the rest ends; 0 while it is open. */
  #next(): number {
    const rest = this.#rest
    const target = TARGETS[Math.min(this.#count, TARGETS.length - 1)]!
    const most = target * MAX_OVERRUN
    while (this.#seen < rest.length) {
      const sign = rest[this.#seen++]!
      const end = this.#seen
      if (sign === '\n') this.#endLine(end)
      if (this.#fence) {
        if (end >= LONGEST) return wholeCharacters(rest, end)
        continue
      }
      if (end < target) continue
      if (SENTENCE_ENDS.has(sign)) return end
      if (end < most) continue
      for (let i = end; i > target; i--) if (SPACE.test(rest[i - 1]!)) return i
      return wholeCharacters(rest, end)
    }
    return 0
  }

  #endLine(end: number): void {
    const mark = this.#line < 0 ? undefined : FENCE.exec(this.#rest.slice(this.#line, end))?.[1]
    if (mark && !this.#fence) this.#fence = mark
    else if (mark?.startsWith(this.#fence)) this.#fence = ''
    this.#line = end
  }

  #take(end: number): Segment {
    const text = this.#rest.slice(0, end)
    const start = this.#start
    this.#rest = this.#rest.slice(end)
    this.#start += end
    this.#seen -= end
    this.#line -= end
    this.#count++
    return { start, end: this.#start, text }
  }
}

/** An offset, or the one before it if it lies between the halves of a surrogate pair. */
export function wholeCharacters(text: string, end: number): number {
  const code = text.charCodeAt(end - 1)
  return code >= 0xd800 && code <= 0xdbff ? end - 1 : end
}
