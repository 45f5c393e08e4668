/**
 * The ways to ask guards about one text of an answer: patterns and plugins that follow the text piece by piece,
 * segment by segment, or once at its end.
 */
import type { Channel, Origin, OutputCheck, ScanProgress, TextStream, TextItem } from '../plugin.ts'
import type { PatternMatcher } from '../patterns/patterns.ts'
import { yieldIfDue } from '../patterns/time-slice.ts'
import { EXACT_ONLY } from './adapter.ts'
import {
  type GuardRunner,
  GuardFault,
  checkProgress,
  patternBlock,
  type Answer,
  type Block,
  type TextProgress,
} from './runner.ts'
import { wholeCharacters } from '../errors/checks.ts'

/**
 * One guard on one text. A promise means that the answer takes time: for local guards because other calls get their
 * turn, and no more is pushed before it; for remote ones because they ask a service. More may be pushed to these
 * meanwhile: the promise stands for the next answer, and an empty `push` asks for the one after it.
 * @throws GuardFault or any error of the guard, also as a rejection: it could not judge
 */
export interface TextCheck {
  push(text: string): Answer
  end(): Answer
  idle?(): void
}

export interface OutputScanner {
  readonly guard: string
  readonly origin: Origin
  readonly local: boolean
  readonly needsFullText: boolean
  reads(channel: Channel): boolean
  /**
   * Begins to read a text.
   * @param atOnce whether nothing of the text goes out before it is complete, so it may be checked once, at its end
   * @param proceed throws when the answer is no longer wanted; without it a local guard answers at once, however
   * long it takes
   */
  check(stream: TextStream, atOnce: boolean, proceed?: () => void): TextCheck
}

const LONG = 1 << 14
/** Patterns of a request, which its author can make slow, check the clock after every piece. */
const LONG_FOR_REQUESTS = 0

/** @param offset position of the first pattern in the effective list */
export function patternScanner(matcher: Matcher, offset: number, origin: Origin): OutputScanner {
  return {
    guard: 'patterns',
    origin,
    local: true,
    needsFullText: false,
    reads: () => true,
    check(_stream, atOnce, proceed) {
      const progressOf = ({ safeOffset, match }: ScanProgress): TextProgress =>
        match ? { safeOffset, verdict: patternBlock(match, offset) } : { safeOffset }
      if (atOnce) {
        // Many times faster than a scan.
        return fullText((text) =>
          andThen(matcher.search(text, proceed), (match) =>
            progressOf(match ? { safeOffset: 0, match } : { safeOffset: text.length }),
          ),
        )
      }
      const scan = matcher.scan()
      const check: TextCheck = proceed
        ? {
            push: (text) => andThen(scan.pushSliced(text, proceed), progressOf),
            end: () => andThen(scan.endSliced(proceed), progressOf),
          }
        : { push: (text) => progressOf(scan.push(text)), end: () => progressOf(scan.end()) }
      return proceed && origin === 'request' ? sliced(check, LONG_FOR_REQUESTS, proceed) : check
    },
  }
}

/** Asks a plugin that checks output. @param userTurn the user's question, shown with every segment */
export function pluginScanner(runner: GuardRunner, userTurn: string): OutputScanner {
  const { guard, name, origin, local } = runner
  const needsFullText = guard.needsFullText === true
  const followsStreams = guard.streamOutput && !(needsFullText && guard.checkOutput)
  return {
    guard: name,
    origin,
    local,
    needsFullText,
    reads: (channel) => local || !EXACT_ONLY.has(channel),
    check(stream, atOnce, proceed) {
      if (!followsStreams && needsFullText) {
        return fullText((text) => new SegmentCheck(runner, stream, userTurn).judge(text))
      }
      const check = followsStreams
        ? streamCheck(runner, stream)
        : new SegmentCheck(runner, stream, userTurn)
      if (!local || !proceed) return check
      const inSlices = sliced(check, LONG, proceed)
      if (!atOnce) return inSlices
      return fullText((text) =>
        andThen(inSlices.push(text), (progress) => (progress.verdict ? progress : inSlices.end())),
      )
    },
  }
}

/** The readers of an answer: patterns first, local guards before remote ones. @param userTurn the user's question */
export function scannersOf(
  patterns: readonly BannedPatterns[],
  runners: readonly GuardRunner[],
  userTurn: string,
): readonly OutputScanner[] {
  return [
    ...patterns.map(({ matcher, offset, origin }) => patternScanner(matcher, offset, origin)),
    ...runners
      .filter(({ guard }) => guard.checkOutput ?? guard.streamOutput)
      .map((runner) => pluginScanner(runner, userTurn)),
  ]
}

/** Characters that a local guard reads between two checks of the clock: a few ms at most with the worst patterns. */
const SLICE = 128

const NOTHING_SAFE: TextProgress = { safeOffset: 0 }

/** Banned patterns of one origin. `offset` is the position of the first of them in the effective list. */
interface BannedPatterns {
  readonly matcher: Matcher
  readonly offset: number
  readonly origin: Origin
}

interface Matcher extends Pick<PatternMatcher, 'search'> {
  scan(): Pick<ReturnType<PatternMatcher['scan']>, 'push' | 'end' | 'pushSliced' | 'endSliced'>
}

/** The check of a plugin that follows the text itself. A remote one is asked one question at a time. */
function streamCheck(runner: GuardRunner, stream: TextStream): TextCheck {
  let output: OutputCheck | undefined
  let length = 0
  let safeOffset = 0
  const ask = (text: string | undefined) => {
    output ??= runner.guard.streamOutput!(stream, runner.context)
    length += text?.length ?? 0
    return text === undefined ? output.end() : output.push(text)
  }
  const checked = (answer: unknown, text: string | undefined): TextProgress => {
    const { safeOffset: safe, verdict } = checkProgress(answer, safeOffset, length)
    const block = verdict && runner.blockIn(verdict, length)
    safeOffset = safe
    if (block) return { safeOffset, verdict: block }
    if (text === undefined && safe < length) {
      throw new GuardFault('invalid', 'the guard ended without a word about the end')
    }
    return { safeOffset }
  }
  if (runner.local) {
    const work = (text?: string) => runner.work(() => checked(ask(text), text))
    return { push: work, end: () => work() }
  }
  const options = { again: false, blocksIn: ({ verdict }: TextProgress) => [verdict] }
  return oneByOne((text) =>
    runner.ask('output', async () => checked(await ask(text), text), options),
  )
}

/** @param ask asks about the end where it gets no text */
function oneByOne(ask: (text?: string) => Promise<TextProgress>): TextCheck {
  let queue = ''
  let ending = false
  let pending: Promise<TextProgress> | undefined
  let latest = NOTHING_SAFE
  const next = (): Answer => {
    if (pending) return pending
    if (queue === '' && !ending) return latest
    const text = queue === '' ? undefined : queue
    if (text === undefined) ending = false
    queue = ''
    pending = ask(text).then((progress) => {
      pending = undefined
      return (latest = progress)
    })
    return pending
  }
  return {
    push(text) {
      queue += text
      return next()
    },
    end() {
      ending = true
      return next()
    },
  }
}

/**
 * A local check that reads in slices and gives other calls their turn in between.
 * @param longest pieces up to this many characters are read in one go; with 0 the clock is checked after every piece
 */
function sliced(check: TextCheck, longest: number, proceed: () => void): TextCheck {
  return {
    push: (text) => (text.length > longest ? pushSlices(check, text, proceed) : check.push(text)),
    end: () => check.end(),
  }
}

function pushSlices(check: TextCheck, text: string, proceed: () => void): Answer {
  for (let at = SLICE; ; at += SLICE) {
    const answer = check.push(text.slice(at - SLICE, at))
    const goOn = (progress: TextProgress): Answer =>
      progress.verdict || at >= text.length ? progress : pushSlices(check, text.slice(at), proceed)
    if (answer instanceof Promise) return answer.then(goOn)
    const due = answer.verdict ? undefined : yieldIfDue(proceed)
    if (due) return due.then(() => goOn(answer))
    if (answer.verdict || at >= text.length) return answer
  }
}

function fullText(ask: (text: string) => Answer): TextCheck {
  let all = ''
  return {
    push(text) {
      all += text
      return NOTHING_SAFE
    },
    end: () => ask(all),
  }
}

/** Calls `goOn` with a value: now, or when its promise resolves. */
function andThen<In, Out>(
  value: In | Promise<In>,
  goOn: (value: In) => Out | Promise<Out>,
): Out | Promise<Out> {
  return value instanceof Promise ? value.then(goOn) : goOn(value)
}

// Guards that judge a text segment by segment: where the text is cut, and which segments are asked about at once.

/** Segments of one text that a remote guard is asked about at once. */
export const IN_FLIGHT = 3
const CONTEXT_CHARACTERS = 1200

interface Question {
  readonly segment: Segment
  readonly item: TextItem
  state: 'waiting' | 'asked' | 'passed'
}

/**
 * Asks a plugin about segments of one text. Of a remote guard up to three answers are outstanding at once; it agrees to
 * segments in their order. A local guard answers at once.
 */
class SegmentCheck implements TextCheck {
  readonly #runner: GuardRunner
  readonly #stream: TextStream
  readonly #userTurn: string
  readonly #segmenter = new Segmenter()
  /** The text before the next segment, as far as it is shown. */
  #before = ''
  #count = 0
  /** Segments without agreement, in their order. */
  readonly #questions: Question[] = []
  #outstanding = 0
  #safeOffset = 0
  #stop: { readonly verdict: Block } | { readonly error: unknown } | undefined
  #next: { readonly promise: Promise<TextProgress>; readonly resolve: () => void } | undefined

  /** @param userTurn the user's question, shown with every segment */
  constructor(runner: GuardRunner, stream: TextStream, userTurn: string) {
    this.#runner = runner
    this.#stream = stream
    this.#userTurn = userTurn
  }

  push(text: string): Answer {
    for (const segment of this.#segmenter.push(text)) this.#add(segment)
    return this.#runner.local ? this.#judgeAll() : this.#ask()
  }

  end(): Answer {
    this.idle()
    return this.push('')
  }

  idle(): void {
    const rest = this.#segmenter.flush()
    if (rest) this.#add(rest)
  }

  judge(text: string): Answer {
    this.#add({ start: 0, end: text.length, text })
    return this.push('')
  }

  #add(segment: Segment): void {
    const { channel, choice, index } = this.#stream
    const { text } = segment
    const context = Object.freeze({ before: this.#before, userTurn: this.#userTurn })
    this.#before = (this.#before + text).slice(-CONTEXT_CHARACTERS)
    const item = Object.freeze({
      id: `choices[${choice}].${channel}[${index}]#${this.#count++}`,
      side: 'output',
      channel,
      role: 'assistant',
      current: true,
      text,
      context,
    } as const)
    this.#questions.push({ segment, item, state: 'waiting' })
  }

  #judgeAll(): TextProgress {
    for (const question of this.#questions) {
      const { segment, item } = question
      const verdict = this.#runner.work((context) =>
        this.#blockIn(this.#runner.guard.checkOutput!(item, context), segment),
      )
      if (verdict) return { safeOffset: this.#safeOffset, verdict }
      this.#safeOffset = segment.end
    }
    this.#questions.length = 0
    return { safeOffset: this.#safeOffset }
  }

  #ask(): Answer {
    for (const question of this.#questions) {
      if (this.#stop || this.#outstanding === IN_FLIGHT) break
      if (question.state !== 'waiting') continue
      if (this.#runner.hasPassed(question.item)) question.state = 'passed'
      else void this.#judge(question)
    }
    if (this.#outstanding === 0 || this.#stop) return this.#progress()
    if (!this.#next) {
      const { promise, resolve } = Promise.withResolvers<void>()
      this.#next = { promise: promise.then(() => this.#progress()), resolve }
    }
    return this.#next.promise
  }

  async #judge(question: Question): Promise<void> {
    const { guard } = this.#runner
    const { segment, item } = question
    question.state = 'asked'
    this.#outstanding++
    try {
      const verdict = await this.#runner.ask(
        'output',
        async (context) => this.#blockIn(await guard.checkOutput!(item, context), segment),
        { blocksIn: (block) => [block] },
      )
      if (verdict) this.#stop ??= { verdict }
      else {
        question.state = 'passed'
        this.#runner.passed(item)
      }
    } catch (error) {
      this.#stop ??= { error }
    }
    this.#outstanding--
    const next = this.#next
    this.#next = undefined
    next?.resolve()
  }

  #progress(): TextProgress {
    while (this.#questions[0]?.state === 'passed') {
      this.#safeOffset = this.#questions.shift()!.segment.end
    }
    if (this.#stop && 'error' in this.#stop) throw this.#stop.error
    return { safeOffset: this.#safeOffset, ...this.#stop }
  }

  /** @returns a block with its spans placed in the whole text */
  #blockIn(verdict: unknown, { start, text }: Segment): Block | undefined {
    const block = this.#runner.blockIn(verdict, text.length)
    if (!block?.spans || start === 0) return block
    const spans = block.spans.map((span) => {
      return { ...span, start: span.start + start, end: span.end + start }
    })
    return { ...block, spans }
  }
}

/** Target lengths of the first segments and of later ones. Short ones first, so that the first words go out soon. */
const TARGETS = [120, 240, 480, 800]
/** A segment is cut at this many times its target, even within a sentence. */
const MAX_OVERRUN = 1.5
/** The longest segment; a block of code may take all of it. */
export const LONGEST = 1200
const SENTENCE_ENDS = new Set('.!?…。！？\n')
const FENCE = /^ {0,3}(`{3,}|~{3,})/
const SPACE = /\s/

export function segmentsIn(characters: number): number {
  let [count, covered] = [0, 0]
  for (; count < TARGETS.length && covered < characters; count++) covered += TARGETS[count]!
  return count + Math.max(0, Math.ceil((characters - covered) / TARGETS.at(-1)!))
}

interface Segment {
  readonly start: number
  readonly end: number
  readonly text: string
}

/** Cuts a growing text into segments. The cuts depend on the text alone, not on how it arrived. */
export class Segmenter {
  #rest = ''
  #start = 0
  #count = 0
  #seen = 0
  /** The start of the line in the rest; negative when a cut went through it. */
  #line = 0
  /** The fence that opened a block of code; empty outside of one. */
  #fence = ''

  push(text: string): Segment[] {
    this.#rest += text
    const segments: Segment[] = []
    for (let end = this.#next(); end > 0; end = this.#next()) segments.push(this.#take(end))
    return segments
  }

  flush(): Segment | undefined {
    return this.#rest ? this.#take(this.#rest.length) : undefined
  }

  /** The end of the first segment of the rest; 0 while it is open. */
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
