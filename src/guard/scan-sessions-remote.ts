/** Remote plugins at work on one lane: they answer later, and the vendor is read on meanwhile. */
import type { OutputCheck, TextStream, TextItem } from '../plugin.ts'
import { BySegments, PluginFollower } from './scan-session.ts'
import type { Segment } from './segments.ts'
import type { GuardRunner } from './runner.ts'

/** Segments of one lane that are asked about at once. */
const IN_FLIGHT = 3

/** A remote plugin that follows the lane itself: one question at a time, with all that has come meanwhile. */
export class RemoteLane extends PluginFollower {
  readonly #changed: () => void
  readonly #lane: TextStream
  #guard: OutputCheck | undefined
  #queue = ''
  #asking = false
  #ending = false
  #done = false

  constructor(watch: GuardRunner, lane: TextStream, changed: () => void) {
    super(watch)
    this.#lane = lane
    this.#changed = changed
  }

  override get waiting(): boolean {
    return this.#asking
  }

  push(text: string): void {
    this.#queue += text
    this.#ask()
  }

  end(): void {
    this.#ending = true
    this.#ask()
  }

  override leave(): void {
    this.#done = true
  }

  #ask(): void {
    if (this.#asking || this.#done || this.stop) return
    const text = this.#queue
    const complete = text === ''
    if (complete && !this.#ending) return
    this.#queue = ''
    this.length += text.length
    this.#asking = true
    if (complete) this.#done = true
    void this.watch
      .ask(
        'output',
        async () => {
          this.#guard ??= this.watch.guard.streamOutput!(this.#lane, this.watch.context)
          this.take(await (complete ? this.#guard.end() : this.#guard.push(text)), complete)
        },
        false,
      )
      .catch((error: unknown) => this.fail(error))
      .then(() => {
        this.#asking = false
        this.#ask()
        this.#changed()
      })
  }
}

/** Asks about up to three segments at once, and agrees in their order. */
export class RemoteSegments extends BySegments {
  readonly #changed: () => void
  readonly #queue: { readonly segment: Segment; readonly unit: TextItem }[] = []
  /** Segments that are asked about, in order. */
  readonly #asked: { readonly end: number; passed: boolean }[] = []
  #asking = 0
  #left = false

  constructor(watch: GuardRunner, lane: TextStream, question: string, changed: () => void) {
    super(watch, lane, question)
    this.#changed = changed
  }

  override get waiting(): boolean {
    return this.#asking > 0
  }

  override leave(): void {
    this.#left = true
  }

  idle(): void {
    if (this.watch.guard.needsFullText) return
    const rest = this.segmenter.flush()
    if (rest) this.judge(rest)
  }

  protected judge(segment: Segment): void {
    this.#queue.push({ segment, unit: this.unitOf(segment) })
    this.#ask()
  }

  protected ended(): void {}

  #ask(): void {
    while (this.#asking < IN_FLIGHT && this.#queue.length > 0 && !this.stop && !this.#left) {
      const { segment, unit } = this.#queue.shift()!
      const asked = { end: segment.end, passed: this.watch.hasPassed(unit) }
      this.#asked.push(asked)
      if (!asked.passed) this.#judge(segment, unit, asked)
    }
    while (this.#asked[0]?.passed) this.safe = this.#asked.shift()!.end
  }

  #judge(segment: Segment, unit: TextItem, asked: { passed: boolean }): void {
    this.#asking++
    void this.watch
      .ask('output', async (context) =>
        this.check(await this.watch.guard.checkOutput!(unit, context), segment),
      )
      .then(
        (block) => {
          if (block) this.stop ??= { block }
          else {
            asked.passed = true
            this.watch.passed(unit)
          }
        },
        (error: unknown) => this.fail(error),
      )
      .then(() => {
        this.#asking--
        this.#ask()
        this.#changed()
      })
  }
}
