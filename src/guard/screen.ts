/**
 * The screen of an answer: a step that splits its parts into texts, has guards read them, releases what all guards
 * agree to, and refuses what one of them blocks. Parts wait only where a guard needs time. In monitor mode the same
 * machine reads beside the answer: nothing waits, and nothing is retained.
 */
import type { Channel, Origin } from '../plugin.ts'
import type { ChainStep, Outlet } from '../stream/chain.ts'
import type {
  AtomicPiece,
  FragmentPiece,
  OutputCodec,
  OutputPiece,
  PassthroughPiece,
  Refusal,
  TextPiece,
} from './adapter.ts'
import type { ScreenObserver } from './decision.ts'
import { GuardFault } from './runner.ts'
import { type Reading, ScreenedText } from './screened-text.ts'
import type { OutputScanner } from './text-check.ts'

export interface Denial<Part> extends Omit<Refusal<Part>, 'text'> {
  readonly fault: GuardFault | undefined
}

interface ScreenEnd {
  readonly complete: boolean
  /** ms that the answer waited for guards only. */
  readonly stalledMs: number
  /** The most characters that were retained after any batch. */
  readonly mostRetained: number
}

export interface ScreenInit<Part> {
  readonly codec: OutputCodec<Part>
  readonly scanners: readonly OutputScanner[]
  /** Whether verdicts have an effect. Otherwise they are recorded; a failure ends only the reading. */
  readonly enforce: boolean
  /** Whether nothing goes out before all of it has passed, as where it comes whole or a guard needs the full text. */
  readonly buffer: boolean
  readonly atOnce?: boolean
  /** Whether a block ends the whole answer: `refuse` throws, and the first part waits for the next, to get a status. */
  readonly errorForm: boolean
  readonly choices: number
  readonly limits: {
    /** The most characters retained of one text, and a quarter of the most retained of all. */
    readonly maxHeld: number
    readonly maxBuffer: number
    readonly maxToolCall: number
  }
  /** ms without new parts after which guards judge an unfinished segment. */
  readonly idleMs: number
  /** ms that the guards of one origin may make the answer wait in total. */
  readonly stallMs: number
  readonly observer: ScreenObserver
  /** The parts of a refusal, where anything is enforced. @throws the refusal in the error form */
  readonly refuse: (denial: Denial<Part>) => readonly Part[]
  /** It is called once, when no guard reads on. */
  readonly closed?: (end: ScreenEnd) => void
}

/** Text that comes together is pushed to guards in up to this many characters. */
const MAX_TOGETHER = 1 << 14

const ORIGINS: readonly Origin[] = ['key', 'request']

const ignore = () => {}

interface AtomicItem<Part> {
  readonly piece: AtomicPiece<Part>
  readonly texts: readonly { readonly text: ScreenedText<Part>; readonly index: number }[]
  readonly size: number
  readonly dropped: Set<number>
}

/** Pieces that make sense only together. */
interface FragmentGroup<Part> {
  readonly pieces: FragmentPiece<Part>[]
  size: number
  /** Whether it goes out in pieces: no guard reads it, or it is too large and the policy allows that. */
  loose: boolean
}

class Choice<Part> {
  readonly index: number
  readonly texts = new Map<Channel, ScreenedText<Part>>()
  readonly dropped = new Set<Channel>()
  readonly fragments = new Map<string, FragmentGroup<Part>>()
  readonly items: AtomicItem<Part>[] = []
  readonly opening: Part[] = []
  opened = false
  hasText = false
  over = false
  denial: { readonly fault: GuardFault | undefined } | undefined = undefined
  retained = 0
  finishPart: Part | undefined = undefined
  finished = false

  constructor(index: number) {
    this.index = index
  }

  get allTexts(): readonly ScreenedText<Part>[] {
    const ofItems = this.items.flatMap(({ texts }) => texts.map(({ text }) => text))
    return ofItems.length > 0 ? [...this.texts.values(), ...ofItems] : [...this.texts.values()]
  }
}

export class Screen<Part> implements ChainStep<Part, Part> {
  done = false
  readonly #init: ScreenInit<Part>
  #scanners: readonly OutputScanner[]
  readonly #isRemote: boolean
  #buffering: boolean
  readonly #choices: Choice<Part>[] = []
  #refused = false
  #buffer: OutputPiece<Part>[] = []
  /** Pieces that wait until a guard has read the text before them. */
  readonly #queue: OutputPiece<Part>[] = []
  #queueSize = 0
  /** The text with characters that guards have not read yet. */
  #untold: ScreenedText<Part> | undefined
  #slow: readonly ScreenedText<Part>[] = []
  #sample: Part | undefined
  #mostRetained = 0
  #out: (part: Part) => void = ignore
  #outlet: Outlet<Part> | undefined
  /** Later pushes wait for it; after the end, the end does. */
  #gate: PromiseWithResolvers<void> | undefined
  #ended = false
  #closed = false
  readonly #stalledMs = { key: 0, request: 0 }
  /** Origins whose guards make the answer wait, and the start of the wait. */
  #waitsFor: readonly Origin[] = []
  #waitsSince = 0
  #timer: NodeJS.Timeout | undefined
  readonly #take = this.#takePiece.bind(this)
  readonly #removed = (field: string): void => this.#init.observer.removed(field)
  readonly #changed = (): void => this.#between(() => this.#update())

  constructor(init: ScreenInit<Part>) {
    const { scanners, enforce, buffer, atOnce } = init
    this.#init = init
    this.#scanners = scanners
    const collects = buffer || atOnce || scanners.some(({ needsFullText }) => needsFullText)
    this.#buffering = enforce && collects
    this.#isRemote = scanners.some(({ local }) => !local)
  }

  // The way of the parts.

  open(outlet: Outlet<Part>): void {
    this.#outlet = outlet
  }

  push(part: Part, emit: (part: Part) => void): void | Promise<void> {
    if (!this.#init.enforce) emit(part)
    this.#act(emit, () => {
      this.#sample = part
      this.#init.codec.split(part, this.#take, this.#removed)
      if (this.#isRemote && !this.#hasRoom) this.#tell()
    })
    return this.#pauses() ? this.#wait() : undefined
  }

  batchEnd(emit: (part: Part) => void): void {
    this.#act(emit, () => {
      this.#tell()
      const retained = this.#retained
      if (retained > this.#mostRetained) this.#mostRetained = retained
      // What came at once is in memory anyway.
      const { enforce, atOnce } = this.#init
      if (!enforce && !atOnce && this.#overflows) this.#close(false)
    })
    if (this.#isRemote || this.#busy) this.#watch()
  }

  end(emit: (part: Part) => void): void | Promise<void> {
    this.#ended = true
    this.#act(emit, () => {
      this.#tell()
      this.#finish()
    })
    return this.#pauses() ? this.#wait() : undefined
  }

  fail(error: unknown): unknown {
    this.#close(false)
    return error
  }

  /** Ends the screen. Guards that only monitor may still read a complete answer. Idempotent. */
  close(): void {
    if (this.#init.enforce || !this.#ended) this.#close(this.#isComplete)
  }

  #act(emit: (part: Part) => void, act: () => void): void {
    if (this.#closed) return
    this.#out = this.#init.enforce ? emit : ignore
    const failure = this.#run(act)
    if (failure) throw failure.error
  }

  /** Acts between two parts. What was released before a failure goes out before it. */
  #between(act: () => void): void {
    if (this.#closed) return
    const parts: Part[] = []
    this.#out = this.#init.enforce ? (part) => void parts.push(part) : ignore
    const failure = this.#run(act)
    if (parts.length > 0) this.#outlet!.emit(parts)
    const gate = this.#gate
    if (failure) {
      if (gate) gate.reject(failure.error)
      else this.#outlet!.fail(failure.error)
    } else if (!this.#pauses()) {
      this.#gate = undefined
      if (gate) gate.resolve()
      else if (this.done) this.#outlet!.done()
    }
    this.#watch()
  }

  /** @returns the error, where anything is enforced */
  #run(act: () => void): { readonly error: unknown } | undefined {
    try {
      act()
    } catch (error) {
      this.#close(false)
      return this.#init.enforce ? { error } : undefined
    }
    if (this.#isComplete) {
      this.done = this.#refused && this.#init.enforce
      this.#close(true)
    }
    return undefined
  }

  get #isComplete(): boolean {
    return this.#refused || (this.#ended && !this.#pending)
  }

  #close(complete: boolean): void {
    if (this.#closed) return
    this.#countStall()
    this.#closed = this.#refused = true
    this.#queue.length = 0
    for (const { allTexts } of this.#choices) for (const text of allTexts) text.drop()
    const stalledMs = Math.max(this.#stalledMs.key, this.#stalledMs.request)
    this.#init.closed?.({ complete, stalledMs, mostRetained: this.#mostRetained })
  }

  // Time: what waits for guards, and for how long.

  #pauses(): boolean {
    if (this.#closed || !this.#init.enforce) return false
    return this.#ended || this.#busy || (this.#isRemote && !this.#hasRoom && this.#pending)
  }

  #wait(): Promise<void> {
    this.#gate ??= Promise.withResolvers<void>()
    this.#watch()
    return this.#gate.promise
  }

  /** A guard still reads earlier text, and later text has to wait: the result must not depend on how fast it is. */
  get #busy(): boolean {
    return this.#slow.length > 0 && !this.#refused && this.#slow.some(({ busy }) => busy)
  }

  get #pending(): boolean {
    return this.#texts().some((text) => text.pending)
  }

  get #hasRoom(): boolean {
    const { maxBuffer, maxHeld } = this.#init.limits
    return this.#retained < (this.#buffering ? maxBuffer : maxHeld)
  }

  get #retained(): number {
    let sum = this.#queueSize
    for (const { retained } of this.#choices) sum += retained
    return sum
  }

  get #overflows(): boolean {
    return this.#retained > 4 * this.#init.limits.maxHeld
  }

  #texts(): readonly ScreenedText<Part>[] {
    return this.#choices.flatMap(({ over, allTexts }) => (over ? [] : allTexts))
  }

  /** Limits the time of guards. @param mayIdle whether an unfinished segment is judged after a while */
  #watch(mayIdle = true): void {
    this.#countStall()
    const { enforce, idleMs, stallMs } = this.#init
    if (this.#closed || !enforce) return
    // A client that gets everything at the end waits for guards only once all of it has come.
    const collects = this.#buffering && !this.#ended
    const texts = collects ? [] : this.#texts()
    this.#waitsFor = ORIGINS.filter((origin) =>
      texts.some(({ readings }) => readings.some((one) => waits(one, origin))),
    )
    const limits = this.#waitsFor.map((origin): [Origin | 'idle', number] => {
      return [origin, stallMs - this.#stalledMs[origin]]
    })
    // What has come is complete, or more of it waits.
    const mayGrow = !this.#ended && !this.#gate
    if (mayIdle && mayGrow && this.#isRemote && !this.#buffering) limits.push(['idle', idleMs])
    const [first] = limits.sort(([, a], [, b]) => a - b)
    if (!first) return
    const [what, ms] = first
    this.#timer = setTimeout(() => this.#timeIsUp(what), Math.max(0, ms))
  }

  #timeIsUp(what: Origin | 'idle'): void {
    if (what !== 'idle') return this.#between(() => this.#timeOut(what))
    this.#between(() => {
      for (const text of this.#texts()) for (const reading of text.readings) reading.idle()
      this.#update()
    })
    this.#watch(false)
  }

  #countStall(): void {
    clearTimeout(this.#timer)
    const now = performance.now()
    for (const origin of this.#waitsFor) this.#stalledMs[origin] += now - this.#waitsSince
    this.#waitsFor = []
    this.#waitsSince = now
  }

  #timeOut(origin: Origin): void {
    const fault = new GuardFault('timeout', 'guards kept the answer waiting')
    for (const choice of this.#choices) {
      for (const text of choice.allTexts) {
        for (const reading of text.readings) {
          if (!choice.over && waits(reading, origin)) this.#excuse(choice, text, reading, fault)
        }
      }
      this.#settle(choice)
    }
    this.#replay()
  }

  #update(): void {
    this.#slow = this.#slow.filter(({ busy }) => busy)
    for (const choice of this.#choices) this.#goOn(choice)
    this.#queueSize = 0
    for (const piece of this.#queue.splice(0)) this.#takePiece(piece)
    if (this.#queue.length === 0) this.#tell()
    for (const choice of this.#choices) if (!choice.over) this.#bound(choice)
    this.#finish()
  }

  // What comes in.

  #takePiece(piece: OutputPiece<Part>): void {
    if (this.#queue.length === 0 && this.#process(piece)) return
    this.#queue.push(piece)
    this.#queueSize += sizeOf(piece)
  }

  /** @returns false if the piece has to wait */
  #process(piece: OutputPiece<Part>): boolean {
    if (this.#refused) return true
    if (this.#untold && !isMoreOf(this.#untold, piece)) this.#tell()
    if (this.#busy) return false
    const choice = this.#choices[piece.choice] ?? this.#openUpTo(piece.choice)
    if (this.#refused || choice.over) return true
    if (this.#buffering) this.#buffer.push(piece)
    switch (piece.kind) {
      case 'text':
        this.#takeText(choice, piece)
        break
      case 'mark':
        this.#takeMark(choice, piece)
        break
      case 'fragment':
        this.#takeFragment(choice, piece)
        break
      case 'whole':
        this.#takeItem(choice, piece)
        this.#settle(choice)
        break
      case 'finish':
        choice.finishPart = piece.part
        this.#finishChoice(choice)
    }
    return true
  }

  #openUpTo(index: number): Choice<Part> {
    for (let i = this.#choices.length; i <= index; i++) this.#choices.push(new Choice<Part>(i))
    return this.#choices[index]!
  }

  #takeText(choice: Choice<Part>, piece: TextPiece<Part>): void {
    const { channel, droppable } = piece
    if (choice.dropped.has(channel)) return this.#init.observer.withheld(piece.text.length)
    let text = choice.texts.get(channel)
    if (!text) {
      const stream = { channel, choice: choice.index, index: 0 }
      const options = { droppable, atOnce: this.#init.atOnce === true }
      text = new ScreenedText(stream, this.#readersOf(channel), options, this.#changed)
      choice.texts.set(channel, text)
    }
    text.retain(piece)
    choice.retained += piece.text.length
    this.#untold = text
    if (text.untold.length >= MAX_TOGETHER) this.#tell()
  }

  #readersOf(channel: Channel): readonly OutputScanner[] {
    return this.#scanners.filter((one) => one.reads(channel))
  }

  #takeMark(choice: Choice<Part>, piece: PassthroughPiece<Part>): void {
    const { channel, opens, keptWhenDropped, part } = piece
    if (channel && !keptWhenDropped && choice.dropped.has(channel)) return
    const text = channel && choice.texts.get(channel)
    if (text && !text.isEmpty) return text.retain(piece)
    if (this.#buffering || (opens && this.#init.errorForm)) choice.opening.push(part)
    else this.#emit(choice, part)
  }

  #takeFragment(choice: Choice<Part>, piece: FragmentPiece<Part>): void {
    const key = `${piece.channel}:${piece.index}`
    let group = choice.fragments.get(key)
    if (!group) choice.fragments.set(key, (group = { pieces: [], size: 0, loose: false }))
    group.pieces.push(piece)
    group.size += piece.size
    choice.retained += piece.size
    const [reader] = this.#readersOf(piece.channel)
    if (reader && !group.loose) {
      const { maxToolCall, maxBuffer } = this.#init.limits
      if (group.size <= maxToolCall && this.#retained <= maxBuffer) return
      if (this.#deny(choice, reader.guard, tooLarge())) return
    }
    group.loose = true
    this.#emitLoose(choice, group)
  }

  /** @param retained characters of it that are retained already */
  #takeItem(choice: Choice<Part>, piece: AtomicPiece<Part>, retained = 0): void {
    const { channel, index, part, unscanned } = piece
    if (unscanned) this.#init.observer.unscanned(unscanned)
    const all = this.#readersOf(channel)
    const texts = piece.texts.map(({ text: content, duplicate, item = 0 }) => {
      const readers = duplicate ? all.filter(({ local }) => local) : all
      const stream = { channel, choice: choice.index, index }
      const text = new ScreenedText<Part>(stream, readers, { atOnce: true }, this.#changed)
      text.retain({ kind: 'text', choice: choice.index, part, channel, text: content })
      text.tell()
      text.end()
      return { text, index: item }
    })
    const size = retained || sizeOf(piece)
    choice.retained += size - retained
    choice.items.push({ piece, texts, size, dropped: new Set() })
    this.#lookAtItems(choice)
    if (!choice.over && this.#buffering) this.#bound(choice)
  }

  #tell(): void {
    const text = this.#untold
    if (!text) return
    this.#untold = undefined
    const { stream } = text
    const choice = this.#choices[stream.choice]!
    text.tell()
    if (!this.#isSlow(text)) this.#lookAt(choice, text)
    if (choice.over || this.#isSlow(text)) return
    if (choice.texts.has(stream.channel)) this.#release(choice, text)
    this.#bound(choice)
  }

  #isSlow(text: ScreenedText<Part>): boolean {
    if (!text.busy) return false
    if (!this.#slow.includes(text)) this.#slow = [...this.#slow, text]
    return true
  }

  #finish(): void {
    for (const choice of this.#ended ? this.#choices : []) {
      if (!this.#busy) this.#finishChoice(choice)
    }
    this.#replay()
  }

  #finishChoice(choice: Choice<Part>): void {
    if (choice.over || choice.finished) return
    choice.finished = true
    for (const text of choice.texts.values()) text.end()
    this.#goOn(choice)
  }

  /** Acts on verdicts, of one text after the other. Items follow the texts. */
  #goOn(choice: Choice<Part>): void {
    if (choice.over) return
    for (const text of choice.texts.values()) {
      if (!this.#isSlow(text)) this.#lookAt(choice, text)
      if (choice.over || this.#isSlow(text)) return
    }
    this.#lookAtItems(choice)
    for (const { pieces, size, loose } of choice.finished ? choice.fragments.values() : []) {
      if (choice.over) return
      if (pieces.length === 0 || loose) continue
      this.#takeItem(choice, this.#init.codec.assemble!(pieces.splice(0)), size)
    }
    this.#settle(choice)
  }

  // What guards say of it.

  #lookAt(choice: Choice<Part>, text: ScreenedText<Part>): void {
    const stopped = this.#blockOf(choice, text)
    const blocked = stopped && text.locate(stopped)
    if (!blocked) return
    this.#release(choice, text, blocked.safeOffset)
    this.#report(blocked.reading, text, text.droppable)
    if (!text.droppable) return this.#refuse(choice, undefined)
    const { channel } = text.stream
    choice.dropped.add(channel)
    choice.texts.delete(channel)
    const kept = text.drop()
    this.#withhold(choice, text.length - text.released)
    if (!this.#buffering) for (const part of kept) this.#emit(choice, part)
  }

  #lookAtItems(choice: Choice<Part>): void {
    for (const { piece, texts, dropped } of choice.items) {
      for (const { text, index } of texts) {
        // The first one that violates a rule counts, however long another one takes.
        if (text.busy) return
        const stopped = this.#blockOf(choice, text)
        if (choice.over) return
        if (!stopped) continue
        const isDroppable = piece.withoutItems !== undefined
        this.#report(stopped, text, isDroppable)
        if (!isDroppable) return this.#refuse(choice, undefined)
        dropped.add(index)
        text.drop()
      }
    }
  }

  #blockOf(choice: Choice<Part>, text: ScreenedText<Part>): Reading | undefined {
    for (let reading = text.stopped; reading; reading = text.stopped) {
      const { fault } = reading.stop!
      if (!fault) return reading
      if (this.#excuse(choice, text, reading, fault)) return undefined
    }
    return undefined
  }

  /** Continues without a guard that could not judge, if the policy allows it. @returns whether it ended the choice */
  #excuse(
    choice: Choice<Part>,
    text: ScreenedText<Part>,
    reading: Reading,
    fault: GuardFault,
  ): boolean {
    if (this.#deny(choice, reading.scanner.guard, fault)) return true
    text.without(reading)
    return false
  }

  /** @returns whether the fault ended the choice */
  #deny(choice: Choice<Part>, guard: string, fault: GuardFault): boolean {
    const ends = this.#init.observer.failed(guard, fault)
    if (ends) this.#refuse(choice, fault)
    return ends
  }

  #report({ scanner, stop }: Reading, text: ScreenedText<Part>, dropped: boolean): void {
    const { guard, origin } = scanner
    const block = stop!.block!
    const { choice, channel } = text.stream
    const matched = (block.spans ?? []).map(({ start, end }) => text.textBetween(start, end))
    const violation = { guard, origin, block, channel, choice, matched }
    this.#init.observer.found(violation, !dropped)
  }

  #refuse(choice: Choice<Part>, fault: GuardFault | undefined): void {
    choice.over = true
    choice.denial = { fault }
    for (const text of choice.allTexts) text.drop()
    this.#withhold(choice, choice.retained)
    if (!this.#buffering || this.#init.errorForm) this.#emitRefusal(choice)
    // Some providers answer with more choices than they were asked for.
    const all = Math.max(this.#init.choices, this.#choices.length)
    if (this.#choices.filter(({ denial }) => denial).length < all) return
    this.#refused = true
    this.#replay()
  }

  #withhold(choice: Choice<Part>, count: number): void {
    choice.retained -= count
    this.#init.observer.withheld(count)
  }

  /** Bounds what is retained: of each text, of all texts for the rules of each origin, and of a buffered answer. */
  #bound(choice: Choice<Part>): void {
    // What a guard still reads, or blocks, is not retained for long.
    if (this.#busy) return
    const { maxHeld, maxBuffer } = this.#init.limits
    if (this.#buffering) {
      if (this.#retained > maxBuffer) this.#stopBuffering(choice)
      return
    }
    // What came at once is in memory anyway, and is read when it is complete.
    if (this.#retained <= maxHeld || this.#init.atOnce) return
    for (const { text, reading, size } of backlogsOf([choice])) {
      if (size > maxHeld && this.#excuse(choice, text, reading, tooLarge())) return
    }
    // Each origin has a share of its own, so that rules of a request cannot cost the key its guards.
    for (const origin of this.#overflows ? ORIGINS : []) {
      const own = backlogsOf(this.#choices).filter(
        ({ reading }) => reading.scanner.origin === origin,
      )
      const [largest] = own.toSorted((a, b) => b.size - a.size)
      if (own.reduce((sum, { size }) => sum + size, 0) <= 4 * maxHeld) continue
      this.#excuse(largest!.choice, largest!.text, largest!.reading, tooLarge())
    }
    this.#settle(choice)
  }

  /** Handles too much text for guards that need all of it: the answer goes out without them, if it may, or ends. */
  #stopBuffering(choice: Choice<Part>): void {
    const all = this.#scanners
    const { guard } = all.find(({ needsFullText }) => needsFullText) ?? all[0]!
    if (this.#deny(choice, guard, tooLarge())) return
    this.#scanners = all.filter(({ needsFullText }) => !needsFullText)
    this.#buffering = false
    this.#buffer = []
    for (const one of this.#choices) {
      for (const text of one.allTexts) {
        for (const reading of text.readings)
          if (reading.scanner.needsFullText) text.without(reading)
      }
      for (const group of one.fragments.values()) if (group.loose) this.#emitLoose(one, group)
      one.over = one.denial !== undefined
      if (one.over) {
        one.opening.length = 0
        this.#emitRefusal(one)
      }
      this.#settle(one)
    }
  }

  // What goes out.

  #settle(choice: Choice<Part>): void {
    if (choice.over) return
    for (const text of choice.texts.values()) {
      if (text.busy) return
      this.#release(choice, text)
    }
    for (const text of choice.texts.values()) if (text.safeOffset < text.length) return
    const { items, finished } = choice
    if (this.#buffering) {
      choice.over = finished && items.every(hasPassed)
      return
    }
    while (items[0] && hasPassed(items[0])) {
      const item = items.shift()!
      choice.retained -= item.size
      this.#init.observer.released(item.size)
      this.#emitItem(choice, item)
    }
    if (!finished || items.length > 0) return
    choice.over = true
    if (choice.finishPart !== undefined) this.#emit(choice, choice.finishPart)
  }

  #release(choice: Choice<Part>, text: ScreenedText<Part>, safeOffset = text.safeOffset): void {
    if (this.#buffering) return
    const { channel } = text.stream
    const { codec, observer } = this.#init
    const released = text.release(safeOffset, codec, (part) => this.#emit(choice, part, channel))
    if (released === 0) return
    choice.retained -= released
    observer.released(released)
  }

  #emitItem(choice: Choice<Part>, { piece, dropped }: AtomicItem<Part>): void {
    const part = dropped.size > 0 ? piece.withoutItems!(dropped) : piece.part
    if (part !== undefined) this.#emit(choice, part)
  }

  #emitLoose(choice: Choice<Part>, group: FragmentGroup<Part>): void {
    if (this.#buffering) return
    for (const { part } of group.pieces.splice(0)) this.#emit(choice, part)
    choice.retained -= group.size
    group.size = 0
  }

  #emitRefusal(choice: Choice<Part>): void {
    if (!this.#init.enforce) return
    const { index, opened, hasText, denial } = choice
    const sample = this.#sample
    const { fault } = denial!
    for (const part of this.#init.refuse({ choice: index, sample, opened, hasText, fault })) {
      this.#emit(choice, part)
    }
  }

  /** Opens choices in ascending order, as OpenAI's clients expect. @param channel the channel of the part's text, if any */
  #emit(choice: Choice<Part>, part: Part, channel?: Channel): void {
    choice.opened = true
    if (channel === 'content') choice.hasText = true
    for (let i = 0; i <= choice.index; i++) {
      const one = this.#choices[i]!
      if (one.opening.length === 0) continue
      one.opened = true
      for (const first of one.opening.splice(0)) this.#out(first)
    }
    this.#out(part)
  }

  #replay(): void {
    if (!this.#buffering) return
    if (!this.#refused && !(this.#ended && this.#choices.every(({ over }) => over))) return
    this.#buffering = false
    for (const choice of this.#choices) choice.opening.length = 0
    for (const piece of this.#buffer) {
      const choice = this.#choices[piece.choice]!
      // A refused choice goes out in its place all the same: choices open in order.
      if (!choice.denial) this.#replayPiece(choice, piece)
      else if (!choice.opened) this.#emitRefusal(choice)
    }
    this.#buffer = []
    for (const choice of this.#choices) {
      if (!choice.denial) this.#init.observer.released(choice.retained)
      else if (!choice.opened) this.#emitRefusal(choice)
    }
  }

  #replayPiece(choice: Choice<Part>, piece: OutputPiece<Part>): void {
    const channel = 'channel' in piece ? piece.channel : undefined
    const isKept = piece.kind === 'mark' && piece.keptWhenDropped
    if (channel && !isKept && choice.dropped.has(channel)) return
    const item = choice.items.find((one) => one.piece === piece)
    if (item) this.#emitItem(choice, item)
    else this.#emit(choice, piece.part, piece.kind === 'text' ? piece.channel : undefined)
  }
}

function isMoreOf<Part>({ stream }: ScreenedText<Part>, piece: OutputPiece<Part>): boolean {
  return piece.kind === 'text' && piece.channel === stream.channel && piece.choice === stream.choice
}

/** Whether a guard of these rules may agree or stop its text without more of it. */
function waits({ scanner, state }: Reading, origin: Origin): boolean {
  return scanner.origin === origin && state !== 'ready'
}

interface Backlog<Part> {
  readonly choice: Choice<Part>
  readonly text: ScreenedText<Part>
  readonly reading: Reading
  /** Characters */
  readonly size: number
}

function backlogsOf<Part>(choices: readonly Choice<Part>[]): readonly Backlog<Part>[] {
  return choices.flatMap((choice) =>
    [...choice.texts.values()].flatMap((text) =>
      (text.busy ? [] : text.readings)
        .filter(
          ({ state, stop, safeOffset }) => state === 'ready' && !stop && safeOffset < text.length,
        )
        .map((reading) => ({ choice, text, reading, size: text.length - reading.safeOffset })),
    ),
  )
}

function tooLarge(): GuardFault {
  return new GuardFault('too_large', 'more text than may be retained')
}

function sizeOf<Part>(piece: OutputPiece<Part>): number {
  if (piece.kind === 'text') return piece.text.length
  if (piece.kind === 'fragment') return piece.size
  if (piece.kind !== 'whole') return 0
  return piece.texts.reduce((sum, { text, duplicate }) => sum + (duplicate ? 0 : text.length), 0)
}

function hasPassed<Part>({ texts }: AtomicItem<Part>): boolean {
  return texts.every(({ text }) => !text.pending)
}
