/**
 * Screens one answer: splits its parts into texts, has guards read them, emits what all guards agree to, and refuses what
 * one of them blocks. Synchronous; where a guard answers later, `changed` is called, and `update` emits what follows.
 */
import type { Channel, Origin, Batch, Flow, Source } from '../plugin.ts'
import type { OutputPiece } from './adapter.ts'
import type { OutputScanner, ScanSession } from './scan-session.ts'
import {
  ScreenedChoice,
  sizeOf,
  tooLarge,
  type AnswerScreen,
  type ScreenInit,
  type ScreenedText,
} from './screened-choice.ts'
import { GuardFault } from './runner.ts'

/** Guards are told of text that comes together up to this many characters. */
const MAX_TOGETHER = 1 << 14

const ORIGINS: readonly Origin[] = ['key', 'request']

/** Text that a guard retains although it waits for nothing but more of it. */
interface Backlog<Part> {
  readonly choice: ScreenedChoice<Part>
  readonly text: ScreenedText<Part>
  readonly session: ScanSession
  /** Characters. */
  readonly size: number
}

export class OutputScreen<Part> implements AnswerScreen<Part> {
  /** Takes the parts that go out. */
  emit: (part: Part) => void = () => {}
  /** Called when a guard has answered that was waited for. */
  changed: () => void = () => {}
  readonly init: ScreenInit<Part>
  /** Some guard asks elsewhere. */
  readonly isRemote: boolean
  buffering: boolean
  /** Nothing more of the answer is wanted. */
  done = false
  /** The most that was {@link retained} after any batch. */
  mostRetained = 0
  readonly onChange = (): void => this.changed()
  #scanners: readonly OutputScanner[]
  readonly #choices: ScreenedChoice<Part>[] = []
  /** The answer, where it goes out as a whole. */
  #buffer: OutputPiece<Part>[] = []
  #ended = false
  /** Pieces that wait until a guard has read the text before them. */
  readonly #waiting: OutputPiece<Part>[] = []
  #waitingSize = 0
  /** The text with characters that guards have not been told of. */
  #untold: ScreenedText<Part> | undefined
  /** The text of which guards were told last. */
  #told: ScreenedText<Part> | undefined
  #sample: Part | undefined
  readonly #take = this.#takePiece.bind(this)
  readonly #removed = (field: string): void => this.init.observer.removed(field)

  constructor(init: ScreenInit<Part>) {
    this.init = init
    this.#scanners = init.scanners
    this.buffering = init.buffer
    this.isRemote = init.scanners.some(({ local }) => !local)
  }

  get retained(): number {
    return this.#choices.reduce((sum, { retained }) => sum + retained, this.#waitingSize)
  }

  /** Some guard may still answer. */
  get pending(): boolean {
    return this.#texts().some((text) => text.pending)
  }

  /** Some guard of these rules may still answer. */
  waitsFor(origin: Origin): boolean {
    return this.#texts().some(({ sessions }) => sessions.some((one) => waits(one, origin)))
  }

  /** A guard still reads text that has come, and later text has to wait: the result must not depend on how fast it is. */
  get busy(): boolean {
    return !this.done && this.#told?.busy === true
  }

  /** Whether more of the answer may come before guards have answered. */
  get wantsMore(): boolean {
    const { maxBuffer, maxHeld } = this.init.limits
    return this.retained < (this.buffering ? maxBuffer : maxHeld) || !this.pending
  }

  /** More is retained than all texts together may. */
  get overflows(): boolean {
    return this.retained > 4 * this.init.limits.maxHeld
  }

  /** Takes in a part. Guards are told of text that comes together at once, at the latest by {@link batchEnd}. */
  push(part: Part): void {
    this.#sample = part
    this.init.codec.split(part, this.#take, this.#removed)
  }

  /** All parts that came together have been pushed. */
  batchEnd(): void {
    this.#tell()
    if (this.retained > this.mostRetained) this.mostRetained = this.retained
  }

  /** The answer is complete. While guards are `pending`, `update` has to be called on each change. */
  end(): void {
    this.#tell()
    this.#ended = true
    this.#finish()
  }

  /** Guards have answered. */
  update(): void {
    for (const choice of this.#choices) {
      choice.look()
      choice.settle()
      if (!choice.over) this.checkRetained(choice)
    }
    this.#takeWaiting()
    this.#finish()
  }

  /** No text came for a while: what is there may be judged. */
  idle(): void {
    for (const { texts } of this.#choices) for (const text of texts.values()) text.idle()
  }

  /** Guards of these rules have taken too long. */
  timeOut(origin: Origin): void {
    const fault = new GuardFault('timeout', 'guards kept the answer waiting')
    for (const choice of this.#choices) {
      for (const text of choice.allTexts) {
        for (const session of text.sessions) {
          if (!choice.over && waits(session, origin)) choice.excuse(text, session, fault)
        }
      }
      choice.settle()
    }
    this.#replay()
  }

  /** Nothing more is read; what is retained stays so. */
  close(): void {
    this.done = true
    this.#takeWaiting()
    for (const { allTexts } of this.#choices) for (const text of allTexts) text.drop()
  }

  readersOf(channel: Channel): readonly OutputScanner[] {
    return this.#scanners.filter((one) => one.reads(channel))
  }

  /** Choices open in ascending order, as OpenAI's clients expect. */
  emitPart(choice: number, part: Part): void {
    for (let i = 0; i <= choice; i++) this.#choices[i]!.open(this.emit)
    this.emit(part)
  }

  /** Bounds what is retained: of each text, of all texts for the rules of each origin, and of a buffered answer. */
  checkRetained(choice: ScreenedChoice<Part>): void {
    // What a guard still reads, or blocks, is not retained for long.
    if (this.busy) return
    const { maxHeld, maxBuffer } = this.init.limits
    if (this.buffering) {
      if (this.retained > maxBuffer) this.#stopBuffering(choice)
      return
    }
    // What came at once is in memory anyway, and is read when it is complete.
    if (this.retained <= maxHeld || this.init.atOnce) return
    for (const { text, session, size } of backlogsOf([choice])) {
      if (size > maxHeld && choice.excuse(text, session, tooLarge())) return
    }
    if (this.overflows) {
      for (const one of largestBacklogs(backlogsOf(this.#choices), 4 * maxHeld)) {
        one.choice.excuse(one.text, one.session, tooLarge())
      }
    }
    choice.settle()
  }

  refused(choice: ScreenedChoice<Part>): void {
    if (!this.buffering || this.init.errorForm) this.#emitRefusal(choice)
    // Some providers answer with more choices than they were asked for.
    const all = Math.max(this.init.choices, this.#choices.length)
    if (this.#choices.filter(({ denial }) => denial).length < all) return
    this.done = true
    this.#replay()
  }

  /** The texts that guards look at. */
  #texts(): readonly ScreenedText<Part>[] {
    return this.#choices.flatMap(({ over, allTexts }) => (over ? [] : allTexts))
  }

  #takePiece(piece: OutputPiece<Part>): void {
    if (this.#waiting.length === 0 && this.#process(piece)) return
    this.#waiting.push(piece)
    this.#waitingSize += sizeOf(piece)
  }

  #takeWaiting(): void {
    while (this.#waiting.length > 0 && this.#process(this.#waiting[0]!)) {
      this.#waitingSize -= sizeOf(this.#waiting.shift()!)
    }
    if (this.#waiting.length === 0) this.#tell()
  }

  /** @returns false if the piece has to wait */
  #process(piece: OutputPiece<Part>): boolean {
    if (this.done) return true
    if (this.#untold && !isTextOf(this.#untold, piece)) this.#tell()
    if (this.busy) return false
    const choice = this.#choices[piece.choice] ?? this.#openUpTo(piece.choice)
    if (this.done || choice.over) return true
    if (this.buffering) this.#buffer.push(piece)
    choice.take(piece)
    if (piece.kind !== 'text') return true
    this.#untold = choice.texts.get(piece.channel)
    if (this.#untold && this.#untold.untoldLength >= MAX_TOGETHER) this.#tell()
    return true
  }

  #finish(): void {
    if (this.#ended && !this.busy) for (const choice of this.#choices) choice.finish()
    this.#replay()
  }

  #openUpTo(index: number): ScreenedChoice<Part> {
    for (let i = this.#choices.length; i <= index; i++) {
      this.#choices.push(new ScreenedChoice<Part>(i, this))
    }
    return this.#choices[index]!
  }

  #tell(): void {
    const text = this.#untold
    if (!text) return
    this.#untold = undefined
    this.#told = text
    this.#choices[text.stream.choice]!.tell(text)
  }

  /** Too much for guards that need the full text. Where the answer may go on without them, it goes out as it comes. */
  #stopBuffering(choice: ScreenedChoice<Part>): void {
    const all = this.#scanners
    const { guard } = all.find(({ needsFullText }) => needsFullText) ?? all[0]!
    if (choice.deny(guard, tooLarge())) return
    this.#scanners = all.filter(({ needsFullText }) => !needsFullText)
    this.buffering = false
    this.#buffer = []
    for (const one of this.#choices) {
      one.stopBuffering()
      if (one.denial) this.#emitRefusal(one)
      one.settle()
    }
  }

  /** Emits a buffered answer once it is complete. */
  #replay(): void {
    if (!this.buffering) return
    if (!this.done && !(this.#ended && this.#choices.every(({ over }) => over))) return
    this.buffering = false
    for (const choice of this.#choices) choice.opening.length = 0
    for (const piece of this.#buffer) {
      const choice = this.#choices[piece.choice]!
      // A refused choice goes out in its place all the same: choices open in order.
      if (!choice.denial) choice.replay(piece)
      else if (!choice.opened) this.#emitRefusal(choice)
    }
    this.#buffer = []
    for (const choice of this.#choices) {
      if (!choice.denial) this.init.observer.released(choice.retained)
      else if (!choice.opened) this.#emitRefusal(choice)
    }
  }

  #emitRefusal(choice: ScreenedChoice<Part>): void {
    const { index, opened, hasText, denial } = choice
    const { fault } = denial!
    const sample = this.#sample
    for (const part of this.init.refuse({ choice: index, sample, opened, hasText, fault })) {
      choice.emit(part)
    }
  }
}

/** Whether a piece is more of a text. */
function isTextOf<Part>({ stream }: ScreenedText<Part>, piece: OutputPiece<Part>): boolean {
  return piece.kind === 'text' && piece.channel === stream.channel && piece.choice === stream.choice
}

/** Whether a guard of these rules may agree or stop its text without more of it. */
function waits({ scanner, state }: ScanSession, origin: Origin): boolean {
  return scanner.origin === origin && state !== 'ready'
}

function backlogsOf<Part>(choices: readonly ScreenedChoice<Part>[]): readonly Backlog<Part>[] {
  return choices
    .flatMap((choice) => [...choice.texts.values()].map((text) => ({ choice, text })))
    .filter(({ text }) => !text.busy)
    .flatMap(({ choice, text }) =>
      text.sessions
        .filter(({ state, stop }) => state === 'ready' && !stop)
        .map((session) => ({ choice, text, session, size: text.length - session.safeOffset })),
    )
    .filter(({ size }) => size > 0)
}

/**
 * For each origin whose guards together retain more than `limit` characters, the guard that retains most. Each origin has a
 * share of its own, so that rules of a request cannot cost the key its guards.
 */
function largestBacklogs<Part>(
  all: readonly Backlog<Part>[],
  limit: number,
): readonly Backlog<Part>[] {
  return ORIGINS.flatMap((origin) => {
    const own = all.filter(({ session }) => session.scanner.origin === origin)
    const sum = own.reduce((total, { size }) => total + size, 0)
    return sum > limit ? own.toSorted((a, b) => b.size - a.size).slice(0, 1) : []
  })
}

// An answer while guards look at it: reads, waits for guards, and gives out what they agree to.

export interface ScreenedStreamInit<Part> {
  readonly parts: Flow<Part>
  /** Absent where no guard reads the answer. */
  readonly screen?: OutputScreen<Part> | undefined
  /** False: parts pass unchanged, findings are recorded, and nothing waits. */
  readonly enforce: boolean
  /** The first part waits for it. A flow takes the place of the answer. */
  readonly inputVerdict?: Promise<Flow<Part> | undefined> | undefined
  /** ms without new parts after which guards judge an unfinished segment. */
  readonly idleMs: number
  /** ms that the guards of one origin may keep the answer waiting in all. */
  readonly stallMs: number
  /**
   * Called once, when guards look at nothing more.
   * @param stalledMs that the answer waited for guards only
   * @param complete guards have seen the whole answer, or refused it
   */
  readonly closed?: (stalledMs: number, complete: boolean) => void
}

type Wake = Origin | 'idle' | 'news'
const END: Batch<never> = { parts: [], last: true }
const ignore = () => {}

/** Parts that every guard agreed to, or all parts where nothing is enforced. */
export class ScreenedStream<Part> implements Source<Part> {
  readonly #init: ScreenedStreamInit<Part>
  #verdict: Promise<Flow<Part> | undefined> | undefined
  #replacement: Flow<Part> | undefined
  /** Parts that guards agreed to. */
  #released: Part[] = []
  /** A batch that has arrived, less the parts that were pushed. */
  #arrived: Batch<Part> | undefined
  #reading = false
  #failure: { readonly error: unknown } | undefined
  /** All parts were pushed. */
  #ended = false
  #closed = false
  /** Guards look at nothing more. */
  #screened: boolean
  /** A guard has answered. */
  #hasNews = false
  #wake: (wake: Wake) => void = ignore
  readonly #stalledMs = { key: 0, request: 0 }

  constructor(init: ScreenedStreamInit<Part>) {
    const { screen, enforce, inputVerdict } = init
    this.#init = init
    this.#verdict = inputVerdict
    // It may fail before the first part is asked for.
    inputVerdict?.catch(ignore)
    this.#screened = screen === undefined
    if (!screen) return
    if (enforce) screen.emit = (part) => void this.#released.push(part)
    screen.changed = () => {
      this.#hasNews = true
      if (enforce) this.#wake('news')
      else this.#observe(screen)
    }
  }

  next(): Promise<Batch<Part>> {
    if (this.#replacement) return this.#replacement.next()
    return this.#verdict ? this.#nextAfter(this.#verdict) : this.#next()
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    if (this.#init.enforce || !this.#ended) this.#finish(this.#isComplete)
    this.#wake('news')
    await this.#init.parts.close()
  }

  #next(): Promise<Batch<Part>> {
    const { screen, enforce, parts } = this.#init
    if (!screen) return parts.next()
    return enforce ? this.#nextReleased(screen) : this.#nextObserved(screen)
  }

  /** The answer is read and screened while the verdict on the input is awaited. */
  async #nextAfter(verdict: Promise<Flow<Part> | undefined>): Promise<Batch<Part>> {
    const first = this.#next()
    first.catch(ignore)
    try {
      this.#replacement = await verdict
    } catch (error) {
      await this.close()
      throw error
    }
    this.#verdict = undefined
    if (!this.#replacement) return first
    await this.close()
    return this.#replacement.next()
  }

  async #nextReleased(screen: OutputScreen<Part>): Promise<Batch<Part>> {
    try {
      for (;;) {
        if (this.#closed) return END
        this.#advance(screen)
        if (this.#released.length > 0 || this.#isComplete) break
        await this.#wait(screen)
      }
    } catch (error) {
      // What was released before a failure goes out before it.
      if (this.#released.length === 0) {
        await this.close()
        throw error
      }
      this.#failure = { error }
    }
    const parts = this.#released
    this.#released = []
    const last = !this.#failure && this.#isComplete
    if (last) await this.close()
    return { parts, last }
  }

  /** Takes in what guards have said, then what has arrived. */
  #advance(screen: OutputScreen<Part>): void {
    if (this.#failure) throw this.#failure.error
    if (this.#hasNews) {
      this.#hasNews = false
      screen.update()
    }
    if (this.#arrived) this.#arrived = this.#push(screen, this.#arrived)
  }

  /** Pushes a batch up to a part for which a guard takes its time. @returns what is left of it */
  #push(screen: OutputScreen<Part>, { parts, last }: Batch<Part>): Batch<Part> | undefined {
    let pushed = 0
    while (pushed < parts.length && !screen.busy && !screen.done) screen.push(parts[pushed++]!)
    if (!screen.busy) screen.batchEnd()
    if (screen.busy) return { parts: parts.slice(pushed), last }
    if (!last || screen.done) return undefined
    this.#ended = true
    screen.end()
    return undefined
  }

  /** Waits for parts, or for guards; for these no longer than they may take. */
  async #wait(screen: OutputScreen<Part>): Promise<void> {
    if (!this.#reading && !this.#arrived && !this.#ended && screen.wantsMore) {
      if (!screen.isRemote && !screen.pending) {
        this.#arrived = await this.#init.parts.next()
        return
      }
      this.#read()
    }
    if (this.#hasNews) return
    const { promise, resolve } = Promise.withResolvers<Wake>()
    this.#wake = resolve
    const waitsForParts = this.#reading && screen.buffering
    // A client that gets everything at the end waits for guards only once all of it has come.
    const origins = waitsForParts ? [] : ORIGINS.filter((origin) => screen.waitsFor(origin))
    const limits = origins.map((origin): [Wake, number] => {
      return [origin, this.#init.stallMs - this.#stalledMs[origin]]
    })
    if (this.#reading && screen.isRemote && !screen.buffering) {
      limits.push(['idle', this.#init.idleMs])
    }
    const [first] = limits.sort(([, a], [, b]) => a - b)
    const timer = first && setTimeout(() => resolve(first[0]), first[1])
    const started = performance.now()
    const wake = await promise
    clearTimeout(timer)
    for (const origin of origins) this.#stalledMs[origin] += performance.now() - started
    if (this.#closed) return
    if (wake === 'idle') screen.idle()
    else if (wake !== 'news') screen.timeOut(wake)
  }

  #read(): void {
    this.#reading = true
    void this.#init.parts
      .next()
      .then(
        (batch) => void (this.#arrived = batch),
        (error: unknown) => void (this.#failure = { error }),
      )
      .then(() => {
        this.#reading = false
        this.#wake('news')
      })
  }

  async #nextObserved(screen: OutputScreen<Part>): Promise<Batch<Part>> {
    let batch: Batch<Part>
    try {
      batch = await this.#init.parts.next()
    } catch (error) {
      this.#finish(false)
      throw error
    }
    this.#observe(screen, batch)
    return batch
  }

  /** Has guards look at what has come, or act on what they have said. What fails there ends the looking and nothing else. */
  #observe(screen: OutputScreen<Part>, batch?: Batch<Part>): void {
    if (this.#screened) return
    try {
      if (batch) {
        for (const part of batch.parts) if (!screen.done) screen.push(part)
        screen.batchEnd()
        this.#ended = batch.last
        if (batch.last) screen.end()
      } else screen.update()
    } catch {
      return this.#finish(false)
    }
    if (this.#isComplete) this.#finish(true)
    else if (screen.overflows) this.#finish(false)
  }

  /** Nothing is left to look at. */
  get #isComplete(): boolean {
    const { screen } = this.#init
    return screen === undefined || screen.done || (this.#ended && !screen.pending)
  }

  #finish(complete: boolean): void {
    if (this.#screened) return
    this.#screened = true
    this.#init.screen!.close()
    const stalledMs = Math.max(this.#stalledMs.key, this.#stalledMs.request)
    this.#init.closed?.(stalledMs, complete)
  }
}
