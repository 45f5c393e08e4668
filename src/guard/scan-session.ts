/**
 * Guards at work on one lane each. However a guard likes to be asked (piece by piece, a segment at a time, at once or
 * with a wait), the screen sees the same: how far it agrees, and whether it has stopped.
 */
import type { Channel, TextStream, Origin, TextItem } from '../plugin.ts'
import { Segmenter, type Segment } from './segments.ts'
import { GuardFault, checkProgress, toFault, type BlockVerdict } from './verdicts.ts'
import type { GuardRunner } from './runner.ts'

/** Why nothing more of a lane may pass. */
export type Stop =
  | { readonly block: BlockVerdict; readonly fault?: undefined; readonly view?: string }
  | { readonly fault: GuardFault; readonly block?: undefined; readonly view?: undefined }

/** One guard on one lane. */
export interface Follower {
  readonly name: string
  readonly origin: Origin
  /** Offset up to which it agrees; never decreases. */
  readonly safe: number
  readonly stop: Stop | undefined
  /** Whether it may agree or stop later without more text. */
  readonly waiting: boolean
  /** Whether it has not come to the end of what was pushed: others let nothing follow before it has. */
  readonly looking?: boolean
  push(text: string): void
  /** The lane is complete. */
  end(): void
  /** No more text came for a while: what is there may be judged. */
  idle?(): void
  /** Its answer does not matter any more. */
  leave(): void
}

/** A guard that can follow lanes. */
export interface Scout {
  readonly name: string
  readonly origin: Origin
  /** Answers at once. */
  readonly local: boolean
  /** Needs the complete text before it agrees to any of it. */
  readonly whole: boolean
  /** Whether it looks at texts of this channel. */
  reads(channel: Channel): boolean
  /**
   * @param changed called when a follower that waits has something new; without it a local guard never waits
   * @param atOnce nothing goes out before the text is complete, which as a rule comes in one piece
   */
  follow(lane: TextStream, changed: (() => void) | undefined, atOnce: boolean): Follower
}

/** How much of what was said before a segment is shown with it. */
const CONTEXT_CHARACTERS = 1200
/** What all followers of plugins have in common. */
export abstract class PluginFollower implements Follower {
  readonly name: string
  readonly origin: Origin
  safe = 0
  stop: Stop | undefined = undefined
  protected readonly watch: GuardRunner
  protected length = 0

  constructor(watch: GuardRunner) {
    this.watch = watch
    this.name = watch.name
    this.origin = watch.origin
  }

  get waiting(): boolean {
    return false
  }

  abstract push(text: string): void
  abstract end(): void

  leave(): void {}

  protected fail(error: unknown): void {
    this.stop ??= { fault: toFault(error) }
  }

  /** @param complete nothing follows: what is not blocked has to be safe */
  protected take(answer: unknown, complete: boolean): void {
    const { safeOffset: safe, verdict } = checkProgress(answer, this.safe, this.length)
    const block = verdict && this.watch.blockIn(verdict, this.length)
    this.safe = safe
    if (block) this.stop = { block }
    else if (complete && safe < this.length) {
      throw new GuardFault('invalid', 'the guard ended without a word about the end')
    }
  }
}

/** Segments of a lane, and what each is shown with. */
export abstract class BySegments extends PluginFollower {
  readonly #lane: TextStream
  readonly #question: string
  protected readonly segmenter = new Segmenter()
  /** All of it so far, where only the whole can be judged. */
  #whole = ''
  #before = ''
  #count = 0

  constructor(watch: GuardRunner, lane: TextStream, question: string) {
    super(watch)
    this.#lane = lane
    this.#question = question
  }

  protected abstract judge(segment: Segment): void
  /** Every segment has been handed to {@link judge}. */
  protected abstract ended(): void

  push(text: string): void {
    this.length += text.length
    if (this.watch.guard.needsFullText) this.#whole += text
    else for (const segment of this.segmenter.push(text)) this.judge(segment)
  }

  end(): void {
    const rest = this.watch.guard.needsFullText
      ? { start: 0, end: this.length, text: this.#whole }
      : this.segmenter.flush()
    if (rest) this.judge(rest)
    this.ended()
  }

  protected unitOf({ text }: Segment): TextItem {
    const { channel, choice, index } = this.#lane
    const before = this.#before
    this.#before = (before + text).slice(-CONTEXT_CHARACTERS)
    return Object.freeze({
      id: `choices[${choice}].${channel}[${index}]#${this.#count++}`,
      side: 'output',
      channel,
      role: 'assistant',
      current: true,
      text,
      context: Object.freeze({ before, question: this.#question }),
    })
  }

  protected check(verdict: unknown, { start, text }: Segment): BlockVerdict | undefined {
    const block = this.watch.blockIn(verdict, text.length)
    if (!block?.spans || start === 0) return block
    const spans = block.spans.map((span) => ({
      ...span,
      start: span.start + start,
      end: span.end + start,
    }))
    return { ...block, spans }
  }
}
