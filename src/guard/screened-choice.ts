/** One choice of an answer while it is screened: its texts, the items that go out whole, and how far it has come. */
import type { Channel } from '../plugin.ts'
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
import type { OutputScanner, ScanSession } from './scan-session.ts'
import { ScreenedText } from './screened-text.ts'
import { GuardFault } from './verdicts.ts'

interface ScreenLimits {
  /** Characters that may be retained of one text, and a quarter of what may be retained of all. */
  readonly maxHeld: number
  /** Characters of a buffered answer. */
  readonly maxBuffer: number
  /** Characters of one tool call. */
  readonly maxToolCall: number
}

/** A refusal of which the text is not known yet. */
export interface Denial<Part> extends Omit<Refusal<Part>, 'text'> {
  /** Set when a guard could not look; otherwise a violation was found. */
  readonly fault: GuardFault | undefined
}

export interface ScreenInit<Part> {
  readonly codec: OutputCodec<Part>
  /** Local ones first. */
  readonly scanners: readonly OutputScanner[]
  /** Nothing goes out before all of it has passed. */
  readonly buffer: boolean
  /** The answer comes as a whole. Without `buffer`, only where nothing is enforced. */
  readonly atOnce?: boolean
  /** A block ends the whole answer: `refuse` throws. The first part waits for the next, so that it may get a status. */
  readonly errorForm: boolean
  /** How many choices were asked for. */
  readonly choices: number
  readonly limits: ScreenLimits
  readonly observer: ScreenObserver
  /** The parts of a refusal. @throws in the error form */
  readonly refuse: (denial: Denial<Part>) => readonly Part[]
}

/** What the choices of one answer share. */
export interface AnswerScreen<Part> {
  readonly init: ScreenInit<Part>
  /** Nothing goes out before the end. */
  readonly buffering: boolean
  readonly done: boolean
  /** Characters of all choices that came in and did not go out. */
  readonly retained: number
  /** Called when a guard has answered that was waited for. */
  readonly onChange: () => void
  /** The guards that read a channel, local ones first. */
  readersOf(channel: Channel): readonly OutputScanner[]
  emitPart(choice: number, part: Part): void
  /** Bounds what is retained. */
  checkRetained(choice: ScreenedChoice<Part>): void
  /** A choice has just been refused. */
  refused(choice: ScreenedChoice<Part>): void
}

/** Pieces that make sense together only. */
interface FragmentGroup<Part> {
  readonly pieces: FragmentPiece<Part>[]
  size: number
  /** Goes out in pieces: no guard reads it, or it is too large and the policy allows that. */
  loose: boolean
}

/** Something that goes out whole or not at all, such as a tool call, with the guards that read it. */
interface AtomicItem<Part> {
  readonly piece: AtomicPiece<Part>
  readonly texts: readonly { readonly text: ScreenedText<Part>; readonly index: number }[]
  /** Characters that are retained for it. */
  readonly size: number
  /** Of several items, those that are left out. */
  readonly dropped: Set<number>
}

export class ScreenedChoice<Part> {
  readonly index: number
  readonly texts = new Map<Channel, ScreenedText<Part>>()
  /** First parts that wait for the next. */
  readonly opening: Part[] = []
  /** Whether a part went out, and whether one with content did. */
  opened = false
  hasText = false
  /** No guard looks at more of it. */
  over = false
  /** Why it is refused. */
  denial: { readonly fault: GuardFault | undefined } | undefined = undefined
  /** Characters that came in and did not go out. */
  retained = 0
  readonly #answer: AnswerScreen<Part>
  /** Channels that were left out for a violation. */
  readonly #dropped = new Set<Channel>()
  readonly #fragments = new Map<string, FragmentGroup<Part>>()
  readonly #items: AtomicItem<Part>[] = []
  /** The part that ends it, and whether its end has come. */
  #finishPart: Part | undefined = undefined
  #finished = false

  constructor(index: number, answer: AnswerScreen<Part>) {
    this.index = index
    this.#answer = answer
  }

  /** Texts that grow, and those of items. */
  get allTexts(): readonly ScreenedText<Part>[] {
    return [
      ...this.texts.values(),
      ...this.#items.flatMap((item) => item.texts.map(({ text }) => text)),
    ]
  }

  take(piece: OutputPiece<Part>): void {
    switch (piece.kind) {
      case 'text':
        return this.#takeText(piece)
      case 'mark':
        return this.#passThrough(piece)
      case 'fragment':
        return this.#takeFragment(piece)
      case 'whole':
        this.#takeItem(piece)
        return this.settle()
      case 'finish':
        this.#finishPart = piece.part
        return this.finish()
    }
  }

  /** Tells guards of the characters of a text that came together. */
  tell(text: ScreenedText<Part>): void {
    this.retained += text.tell()
    if (!text.busy) this.#checkStopped(text)
    if (this.over || text.busy) return
    if (this.texts.has(text.stream.channel)) this.#release(text)
    this.#answer.checkRetained(this)
  }

  /** Nothing of it follows. Idempotent. */
  finish(): void {
    if (this.over || this.#finished) return
    this.#finished = true
    for (const text of this.texts.values()) text.end()
    this.look()
    for (const { pieces, size, loose } of this.#fragments.values()) {
      if (this.over) return
      if (pieces.length === 0 || loose) continue
      this.#takeItem(this.#answer.init.codec.assemble!(pieces), size)
    }
    this.settle()
  }

  /** Acts on what guards have said. */
  look(): void {
    for (const text of this.texts.values()) {
      if (!this.over && !text.busy) this.#checkStopped(text)
    }
    if (!this.over) this.#lookAtItems()
  }

  /** Emits what all guards agree to. */
  settle(): void {
    if (this.over) return
    for (const text of this.texts.values()) {
      if (text.busy) return
      this.#release(text)
    }
    for (const text of this.texts.values()) if (text.safeOffset < text.length) return
    const { buffering, init } = this.#answer
    const items = this.#items
    if (buffering) {
      this.over = this.#finished && items.every(hasPassed)
      return
    }
    while (items[0] && hasPassed(items[0])) {
      const item = items.shift()!
      this.retained -= item.size
      init.observer.released(item.size)
      this.#emitItem(item)
    }
    if (!this.#finished || items.length > 0) return
    this.over = true
    if (this.#finishPart !== undefined) this.emit(this.#finishPart)
  }

  /** Goes on without a guard that could not look, where the policy allows that. @returns whether it ended the choice */
  excuse(text: ScreenedText<Part>, session: ScanSession, fault: GuardFault): boolean {
    if (this.deny(session.scanner.guard, fault)) return true
    text.without(session)
    return false
  }

  /** A guard could not look. @returns whether that ended the choice */
  deny(guard: string, fault: GuardFault): boolean {
    const ends = this.#answer.init.observer.failed(guard, fault)
    if (ends) this.#refuse(fault)
    return ends
  }

  /** Goes on as it comes, without the guards that need the full text. */
  stopBuffering(): void {
    for (const text of this.allTexts) {
      for (const session of text.sessions) if (session.scanner.needsFullText) text.without(session)
    }
    for (const group of this.#fragments.values()) if (group.loose) this.#emitLoose(group)
    this.over = this.denial !== undefined
    if (this.over) this.opening.length = 0
  }

  /** Emits what may go out of a piece of a buffered answer. */
  replay(piece: OutputPiece<Part>): void {
    const channel = 'channel' in piece ? piece.channel : undefined
    const isKept = piece.kind === 'mark' && piece.keptWhenDropped
    if (channel && !isKept && this.#dropped.has(channel)) return
    const item = this.#items.find((one) => one.piece === piece)
    if (item) this.#emitItem(item)
    else this.emit(piece.part, piece.kind === 'text' ? piece.channel : undefined)
  }

  /** Emits first parts that wait. */
  open(emit: (part: Part) => void): void {
    if (this.opening.length === 0) return
    this.opened = true
    for (const first of this.opening.splice(0)) emit(first)
  }

  /** @param channel of the text that the part says, if it says one */
  emit(part: Part, channel?: Channel): void {
    this.opened = true
    if (channel === 'content') this.hasText = true
    this.#answer.emitPart(this.index, part)
  }

  #takeText(piece: TextPiece<Part>): void {
    const { channel, droppable } = piece
    const { init, onChange: changed } = this.#answer
    if (this.#dropped.has(channel)) return init.observer.withheld(piece.text.length)
    let text = this.texts.get(channel)
    if (!text) {
      const stream = { channel, choice: this.index, index: 0 }
      const scanners = this.#answer.readersOf(channel)
      const atOnce = init.atOnce === true
      text = new ScreenedText<Part>({ stream, scanners, droppable, atOnce, changed })
      this.texts.set(channel, text)
    }
    text.retain(piece)
  }

  #passThrough(piece: PassthroughPiece<Part>): void {
    const { channel, opens, keptWhenDropped, part } = piece
    if (channel && !keptWhenDropped && this.#dropped.has(channel)) return
    const text = channel && this.texts.get(channel)
    if (text && !text.isEmpty) return text.retain(piece)
    const { buffering, init } = this.#answer
    if (buffering || (opens && init.errorForm)) this.opening.push(part)
    else this.emit(part)
  }

  #takeFragment(piece: FragmentPiece<Part>): void {
    const key = `${piece.channel}:${piece.index}`
    let group = this.#fragments.get(key)
    if (!group) this.#fragments.set(key, (group = { pieces: [], size: 0, loose: false }))
    group.pieces.push(piece)
    group.size += piece.size
    this.retained += piece.size
    const { init, retained } = this.#answer
    const [reader] = this.#answer.readersOf(piece.channel)
    if (reader && !group.loose) {
      const { maxToolCall, maxBuffer } = init.limits
      if (group.size <= maxToolCall && retained <= maxBuffer) return
      if (this.deny(reader.guard, tooLarge())) return
    }
    group.loose = true
    this.#emitLoose(group)
  }

  /** Fragments that no guard reads go out as they are. */
  #emitLoose(group: FragmentGroup<Part>): void {
    if (this.#answer.buffering) return
    for (const { part } of group.pieces.splice(0)) this.emit(part)
    this.retained -= group.size
    group.size = 0
  }

  /** @param retained characters of it that are retained already */
  #takeItem(piece: AtomicPiece<Part>, retained = 0): void {
    const { init, onChange: changed, buffering } = this.#answer
    const { choice, channel, index, part, unscanned } = piece
    if (unscanned) init.observer.unscanned(unscanned)
    const all = this.#answer.readersOf(channel)
    const texts = piece.texts.map(({ text: said, duplicate, item = 0 }) => {
      const scanners = duplicate ? all.filter(({ local }) => local) : all
      const stream = { channel, choice, index }
      const text = new ScreenedText<Part>({ stream, scanners, atOnce: true, changed })
      text.retain({ kind: 'text', choice, part, channel, text: said })
      text.tell()
      text.end()
      return { text, index: item }
    })
    const size = retained || sizeOf(piece)
    this.retained += size - retained
    this.#items.push({ piece, texts, size, dropped: new Set() })
    this.#lookAtItems()
    if (!this.over && buffering) this.#answer.checkRetained(this)
  }

  /** Emits what is left of an item, if anything is. */
  #emitItem({ piece, dropped }: AtomicItem<Part>): void {
    const part = dropped.size > 0 ? piece.withoutItems!(dropped) : piece.part
    if (part !== undefined) this.emit(part)
  }

  #checkStopped(text: ScreenedText<Part>): void {
    const stopped = this.#blockOf(text)
    if (!stopped) return
    const blocked = text.locate(stopped)
    if (!blocked) return
    this.#release(text, blocked.safeOffset)
    this.#report(blocked.session, text, text.droppable)
    if (!text.droppable) return this.#refuse(undefined)
    const { channel } = text.stream
    this.#dropped.add(channel)
    this.texts.delete(channel)
    const { keptWhenDropped } = text
    this.#withhold(text.drop())
    if (!this.#answer.buffering) for (const part of keptWhenDropped) this.emit(part)
  }

  #lookAtItems(): void {
    for (const { piece, texts, dropped } of this.#items) {
      for (const { text, index } of texts) {
        const stopped = this.#blockOf(text)
        if (this.over) return
        if (!stopped) continue
        const isDroppable = piece.withoutItems !== undefined
        this.#report(stopped, text, isDroppable)
        if (!isDroppable) return this.#refuse(undefined)
        dropped.add(index)
        text.drop()
      }
    }
  }

  /** The guard that blocks a text, if any. Guards that could not look are left out, or end the choice. */
  #blockOf(text: ScreenedText<Part>): ScanSession | undefined {
    for (let session = text.stopped; session; session = text.stopped) {
      const { fault } = session.stop!
      if (!fault) return session
      if (this.excuse(text, session, fault)) return undefined
    }
    return undefined
  }

  #report({ scanner, stop }: ScanSession, text: ScreenedText<Part>, dropped: boolean): void {
    const { guard, origin } = scanner
    const block = stop!.block!
    const { choice, channel } = text.stream
    const matched = (block.spans ?? []).map(({ start, end }) => text.textBetween(start, end))
    const { observer } = this.#answer.init
    observer.found({ guard, origin, block, channel, choice, matched }, !dropped)
  }

  #release(text: ScreenedText<Part>, safeOffset: number = text.safeOffset): void {
    const { buffering, init } = this.#answer
    if (buffering) return
    const { channel } = text.stream
    const released = text.release(safeOffset, init.codec, (part) => this.emit(part, channel))
    if (released === 0) return
    this.retained -= released
    init.observer.released(released)
  }

  #withhold(count: number): void {
    this.retained -= count
    this.#answer.init.observer.withheld(count)
  }

  #refuse(fault: GuardFault | undefined): void {
    this.over = true
    this.denial = { fault }
    for (const text of this.allTexts) text.drop()
    this.#withhold(this.retained)
    this.#answer.refused(this)
  }
}

/** The fault of a guard that retains too much. */
export function tooLarge(): GuardFault {
  return new GuardFault('too_large', 'more text than may be retained')
}

/** Characters of a piece. */
export function sizeOf<Part>(piece: OutputPiece<Part>): number {
  if (piece.kind === 'text') return piece.text.length
  if (piece.kind === 'fragment') return piece.size
  if (piece.kind !== 'whole') return 0
  return piece.texts.reduce((sum, { text, duplicate }) => sum + (duplicate ? 0 : text.length), 0)
}

/** All guards have agreed to an item, or to what is left of it. */
function hasPassed<Part>({ texts }: AtomicItem<Part>): boolean {
  return texts.every(({ text }) => !text.pending)
}
