/**
 * One guard reading one text of an answer: how it is asked (by patterns, piece by piece, segment by segment, or once at the
 * end), what it has agreed to, whether it stopped the text, and what it is waiting for.
 */
import type { Channel, Origin, OutputCheck, ScanProgress, TextStream } from '../plugin.ts'
import type { PatternMatcher } from '../patterns/patterns.ts'
import { yieldIfDue } from '../patterns/time-slice.ts'
import { EXACT_ONLY } from './adapter.ts'
import { SegmentCheck } from './segments.ts'
import type { GuardRunner } from './runner.ts'
import {
  GuardFault,
  checkProgress,
  patternBlock,
  toFault,
  type Answer,
  type Block,
  type TextProgress,
} from './verdicts.ts'

/** Why nothing more of a text may pass: a guard blocked it, or could not look. */
export type StopReason =
  | { readonly block: Block; readonly fault?: undefined }
  | { readonly fault: GuardFault; readonly block?: undefined }

/**
 * How a guard is asked about one text. A promise means that the answer takes time: for local guards because other calls
 * get their turn, for remote ones because they ask a service.
 * @throws GuardFault or any error of the guard, also as a rejection: it could not look
 */
interface TextCheck {
  /**
   * Whether more text may be pushed while an answer is outstanding. The promise then stands for the next answer, and an
   * empty `push` asks what came after it.
   */
  readonly concurrent?: boolean
  push(text: string): Answer
  /** The text is complete. */
  end(): Answer
  /** No text came for a while: what is there may be judged. */
  idle?(): void
}

/** A guard that reads output. */
export interface OutputScanner {
  /** The instance's name. */
  readonly guard: string
  readonly origin: Origin
  readonly local: boolean
  /** Needs the complete text before it agrees to any of it. */
  readonly needsFullText: boolean
  reads(channel: Channel): boolean
  /**
   * Begins to read a text.
   * @param atOnce nothing of the text goes out before it is complete, so it may be asked about once, at its end
   * @param proceed throws when the answer is no longer wanted; without it a local guard answers at once, however long it takes
   */
  check(stream: TextStream, atOnce: boolean, proceed?: () => void): TextCheck
}

/** A guard that blocks a text, and the offset up to which the text may still go out. */
export interface BlockedAt {
  readonly session: ScanSession
  readonly safeOffset: number
}

interface SessionOptions {
  /** See {@link OutputScanner.check}. */
  readonly atOnce: boolean
  /** Called when an answer that was outstanding has come. */
  readonly changed: () => void
}

/** Ends sliced work of a session that was closed. */
const CLOSED = new Error('the scan session is closed')

/** One guard on one text. Text that is pushed while an answer is outstanding is queued. */
export class ScanSession {
  readonly scanner: OutputScanner
  /** Offset up to which the guard agrees; never decreases. */
  safeOffset = 0
  stop: StopReason | undefined = undefined
  /** `busy`: later text of the answer has to wait for this guard. `pending`: the guard may answer without more text. */
  state: 'ready' | 'busy' | 'pending' = 'ready'
  readonly #check: TextCheck
  readonly #changed: (() => void) | undefined
  #outstanding: Promise<TextProgress> | undefined
  #queue = ''
  #ending = false
  #closed = false

  /** @param options without them every answer of a local guard comes at once */
  constructor(scanner: OutputScanner, stream: TextStream, options?: SessionOptions) {
    this.scanner = scanner
    this.#changed = options?.changed
    this.#check = options
      ? scanner.check(stream, options.atOnce, this.#proceed.bind(this))
      : scanner.check(stream, false)
  }

  push(text: string): void {
    if (this.#waits) this.#queue += text
    else this.#ask(() => this.#check.push(text))
  }

  /** The text is complete. */
  end(): void {
    if (this.#waits) this.#ending = true
    else this.#ask(() => this.#check.end())
  }

  /** No text came for a while: what is there may be judged. */
  idle(): void {
    if (!this.#check.idle) return
    this.#check.idle()
    this.push('')
  }

  /** The guard's answer does not matter any more. */
  close(): void {
    this.#closed = true
    this.state = 'ready'
  }

  /** Whether the guard has to answer before it may be asked again. */
  get #waits(): boolean {
    return this.#outstanding !== undefined && !this.#check.concurrent
  }

  #ask(question: () => Answer): void {
    if (this.stop || this.#closed) return
    try {
      const answer = question()
      if (!(answer instanceof Promise)) this.#advance(answer)
      else if (answer !== this.#outstanding) void this.#wait(answer)
    } catch (error) {
      this.#fail(error)
    }
  }

  #advance({ safeOffset, verdict }: TextProgress): void {
    if (safeOffset > this.safeOffset) this.safeOffset = safeOffset
    if (verdict) this.stop ??= { block: verdict }
  }

  async #wait(answer: Promise<TextProgress>): Promise<void> {
    this.#outstanding = answer
    this.state = this.scanner.local ? 'busy' : 'pending'
    try {
      this.#advance(await answer)
    } catch (error) {
      this.#fail(error)
    }
    if (this.#closed) return
    if (this.#outstanding === answer) {
      this.#outstanding = undefined
      this.state = 'ready'
      this.#goOn()
    }
    this.#changed?.()
  }

  /** Hands on what was queued, and asks a concurrent check whether there is more to wait for. */
  #goOn(): void {
    const text = this.#queue
    this.#queue = ''
    if (text !== '' || this.#check.concurrent) this.push(text)
    if (!this.#ending || this.#outstanding) return
    this.#ending = false
    this.end()
  }

  #fail(error: unknown): void {
    this.stop ??= { fault: toFault(error) }
  }

  #proceed(): void {
    if (this.#closed) throw CLOSED
  }
}

/** Longer pieces are read in slices of time. */
const LONG = 1 << 14
/** Patterns of a request, which its author can make slow, look at the clock after every piece. */
const LONG_FOR_REQUESTS = 0

/** Scans for banned patterns. @param offset position of the first of them in the effective list */
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

/** Asks a plugin that checks output. @param userTurn what the user asked, shown with every segment */
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
        andThen(inSlices.push(text), (known) => (known.verdict ? known : inSlices.end())),
      )
    },
  }
}

/** Characters that a local guard reads between two looks at the clock: a few ms at most with the worst patterns. */
const SLICE = 128

const NOTHING_SAFE: TextProgress = { safeOffset: 0 }

/** What a check of banned patterns needs of a matcher. */
interface Matcher extends Pick<PatternMatcher, 'search'> {
  scan(): Pick<ReturnType<PatternMatcher['scan']>, 'push' | 'end' | 'pushSliced' | 'endSliced'>
}

/** A plugin that follows the text itself. A remote one is asked one question at a time. */
function streamCheck(runner: GuardRunner, stream: TextStream): TextCheck {
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
      : runner.ask('output', async () => checked(await question(open()), complete), {
          again: false,
          blocksIn: ({ verdict }) => [verdict],
        })
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
function sliced(check: TextCheck, longest: number, proceed: () => void): TextCheck {
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

/** Calls `goOn` with a value: now, or when the promise of the value resolves. */
export function andThen<In, Out>(
  value: In | Promise<In>,
  goOn: (value: In) => Out | Promise<Out>,
): Out | Promise<Out> {
  return value instanceof Promise ? value.then(goOn) : goOn(value)
}
