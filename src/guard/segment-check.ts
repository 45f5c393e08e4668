/** A guard that judges a text one segment at a time. */
import type { TextItem, TextStream } from '../plugin.ts'
import type { GuardRunner } from './runner.ts'
import type { Answer, TextCheck, TextProgress } from './scan-session.ts'
import { Segmenter, type Segment } from './segments.ts'
import type { BlockVerdict } from './verdicts.ts'

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
