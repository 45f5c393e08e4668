/**
 * Screens one answer: splits its parts into texts, has guards read them, emits what all guards agree to, and refuses what
 * one of them blocks. Synchronous; where a guard answers later, `changed` is called, and `update` emits what follows.
 */
import type { Channel, Origin } from '../plugin.ts'
import type { ChainStep, Outlet } from '../stream/chain.ts'
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

// The steps in the way of an answer that have guards look at it.

export interface ScreenStepInit<Part> {
  readonly screen: OutputScreen<Part>
  /**
   * Called once, when guards look at nothing more.
   * @param stalledMs that the answer waited for guards only
   * @param complete guards have seen the whole answer, or refused it
   */
  readonly closed: (stalledMs: number, complete: boolean) => void
}

export interface EnforcingInit<Part> extends ScreenStepInit<Part> {
  /** ms without new parts after which guards judge an unfinished segment. */
  readonly idleMs: number
  /** ms that the guards of one origin may keep the answer waiting in all. */
  readonly stallMs: number
}

/** Lets out what every guard agrees to. */
export class EnforcingStep<Part> implements ChainStep<Part, Part> {
  /** Everything is refused. */
  done = false
  readonly #init: EnforcingInit<Part>
  #outlet!: Outlet<Part>
  /** What is pushed later has to wait; after the end, the end. */
  #gate: PromiseWithResolvers<void> | undefined
  #ended = false
  #closed = false
  readonly #stalledMs = { key: 0, request: 0 }
  /** Whose guards keep the answer waiting, and since when. */
  #waitsFor: readonly Origin[] = []
  #since = 0
  #timer: NodeJS.Timeout | undefined

  constructor(init: EnforcingInit<Part>) {
    this.#init = init
    init.screen.changed = () => this.#act(() => init.screen.update(), true)
  }

  open(outlet: Outlet<Part>): void {
    this.#outlet = outlet
  }

  push(part: Part, emit: (part: Part) => void): void | Promise<void> {
    if (this.#closed) return undefined
    const { screen } = this.#init
    screen.emit = emit
    try {
      screen.push(part)
    } catch (error) {
      this.#finish(false)
      throw error
    }
    if (screen.done) return this.#refuse()
    return this.#pauses() ? this.#wait() : undefined
  }

  batchEnd(emit: (part: Part) => void): void {
    if (this.#closed) return
    const { screen } = this.#init
    screen.emit = emit
    try {
      screen.batchEnd()
    } catch (error) {
      this.#finish(false)
      throw error
    }
    if (screen.done) this.#refuse()
    else if (screen.isRemote || screen.busy) this.#watch()
  }

  end(emit: (part: Part) => void): void | Promise<void> {
    if (this.#closed) return undefined
    const { screen } = this.#init
    this.#ended = true
    screen.emit = emit
    try {
      screen.end()
    } catch (error) {
      this.#finish(false)
      throw error
    }
    if (this.#isComplete) return this.#finish(true)
    return this.#wait()
  }

  fail(error: unknown): unknown {
    this.#finish(false)
    return error
  }

  /** Guards look at nothing more. Idempotent. */
  close(): void {
    this.#finish(this.#isComplete)
  }

  /** Acts between two parts. @param arrived an answer has come that text was waiting for */
  #act(act: () => void, arrived: boolean): void {
    if (this.#closed) return
    const { screen } = this.#init
    const parts: Part[] = []
    screen.emit = (part) => void parts.push(part)
    let failure: { readonly error: unknown } | undefined
    try {
      act()
    } catch (error) {
      failure = { error }
    }
    // What was released before a failure goes out before it.
    if (parts.length > 0) this.#outlet.emit(parts)
    if (failure) return this.#break(failure.error)
    const gate = this.#gate
    if (screen.done) {
      this.#refuse()
      if (gate) gate.resolve()
      else this.#outlet.done()
    } else if (this.#ended) {
      if (!this.#isComplete) return this.#watch()
      this.#finish(true)
      gate?.resolve()
    } else {
      if (gate && !this.#pauses()) {
        this.#gate = undefined
        gate.resolve()
      }
      this.#watch(arrived)
    }
  }

  #break(error: unknown): void {
    this.#finish(false)
    if (this.#gate) this.#gate.reject(error)
    else this.#outlet.fail(error)
  }

  #refuse(): void {
    this.done = true
    this.#finish(true)
  }

  #wait(): Promise<void> {
    this.#watch()
    return (this.#gate ??= Promise.withResolvers<void>()).promise
  }

  /** Whether later parts have to wait. */
  #pauses(): boolean {
    const { screen } = this.#init
    return screen.busy || (screen.isRemote && !screen.wantsMore)
  }

  /** Nothing is left to look at. */
  get #isComplete(): boolean {
    const { screen } = this.#init
    return screen.done || (this.#ended && !screen.pending)
  }

  /** Takes the time that guards take. @param mayIdle whether an unfinished segment is judged after a while */
  #watch(mayIdle = true): void {
    this.#count()
    if (this.#closed) return
    const { screen, idleMs, stallMs } = this.#init
    // A client that gets everything at the end waits for guards only once all of it has come.
    const collects = screen.buffering && !this.#ended
    this.#waitsFor = collects ? [] : ORIGINS.filter((origin) => screen.waitsFor(origin))
    const limits = this.#waitsFor.map((origin): [Origin | 'idle', number] => {
      return [origin, stallMs - this.#stalledMs[origin]]
    })
    if (mayIdle && screen.isRemote && !screen.buffering && !this.#ended) {
      limits.push(['idle', idleMs])
    }
    const [first] = limits.sort(([, a], [, b]) => a - b)
    if (first) this.#timer = setTimeout(() => this.#due(first[0]), first[1])
  }

  #due(what: Origin | 'idle'): void {
    const { screen } = this.#init
    this.#count()
    if (what !== 'idle') return this.#act(() => screen.timeOut(what), true)
    this.#act(() => {
      screen.idle()
      screen.update()
    }, false)
  }

  #count(): void {
    clearTimeout(this.#timer)
    const now = performance.now()
    for (const origin of this.#waitsFor) this.#stalledMs[origin] += now - this.#since
    this.#since = now
  }

  #finish(complete: boolean): void {
    if (this.#closed) return
    this.#count()
    this.#closed = true
    this.#init.screen.close()
    this.#init.closed(Math.max(this.#stalledMs.key, this.#stalledMs.request), complete)
  }
}

/** Has guards look at an answer that passes unchanged. What fails there ends the looking and nothing else. */
export class MonitoringStep<Part> implements ChainStep<Part, Part> {
  readonly #init: ScreenStepInit<Part>
  #ended = false
  #closed = false

  constructor(init: ScreenStepInit<Part>) {
    this.#init = init
    init.screen.changed = () => this.#observe(() => init.screen.update())
  }

  push(part: Part, emit: (part: Part) => void): void {
    emit(part)
    this.#observe((screen) => screen.push(part))
  }

  batchEnd(): void {
    this.#observe((screen) => screen.batchEnd())
  }

  end(): void {
    this.#ended = true
    this.#observe((screen) => screen.end())
  }

  fail(error: unknown): unknown {
    this.#finish(false)
    return error
  }

  /** The call is over. Guards may still look at an answer that has come to its end. */
  close(): void {
    if (!this.#ended) this.#finish(this.#init.screen.done)
  }

  #observe(look: (screen: OutputScreen<Part>) => void): void {
    const { screen } = this.#init
    if (this.#closed) return
    try {
      look(screen)
    } catch {
      return this.#finish(false)
    }
    if (screen.done || (this.#ended && !screen.pending)) this.#finish(true)
    else if (screen.overflows) this.#finish(false)
  }

  #finish(complete: boolean): void {
    if (this.#closed) return
    this.#closed = true
    this.#init.screen.close()
    this.#init.closed(0, complete)
  }
}
