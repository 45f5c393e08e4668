/** One choice of an answer while it is screened: its texts, the items that go out whole, and how far it has come. */
import type { Channel, TextStream } from '../plugin.ts'
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
import { type OutputScanner, ScanSession, type BlockedAt, andThen } from './scan-session.ts'
import { GuardFault } from './runner.ts'
import { wholeCharacters } from '../errors/checks.ts'
import { yieldIfDue } from '../patterns/time-slice.ts'

// Finds out where a text is blocked when several local guards read it. The guard that happens to be asked first would win,
// and more text would go out, the longer the pieces are in which text comes. So the guards read the text again, character
// by character, and the text alone decides.

/** Characters that guards are told of at a time where the exact place does not matter. */
const STRIDE = 256
/** Texts up to this length are read again in one go. */
const LONG = 1 << 14

/**
 * Where a text is blocked, and by which guard. A promise only for long texts, which give other calls their turn.
 * @param from no guard blocks before it
 * @param known what is known without it, and holds where no guard blocks again
 * @param proceed throws when the answer is no longer wanted
 */
function locateBlock(
  scanners: readonly OutputScanner[],
  stream: TextStream,
  text: string,
  from: number,
  known: BlockedAt,
  proceed: () => void,
): BlockedAt | Promise<BlockedAt> {
  const read = (from: number, step: number) => {
    const sessions = scanners.map((scanner) => new ScanSession(scanner, stream))
    return readAgain(sessions, text, from, step, text.length > LONG ? proceed : undefined)
  }
  const exact = (start: number) =>
    andThen(read(start, 1), ({ sessions, blocking }) => {
      if (!blocking) return known
      const others = sessions.filter(({ stop }) => !stop?.fault)
      const offsets = others.map(({ safeOffset }) => safeOffset)
      return { session: blocking, safeOffset: Math.min(known.safeOffset, ...offsets) }
    })
  const start = wholeCharacters(text, from)
  // Character by character takes many times as long: where there is much to read, strides come first.
  if (text.length - start <= STRIDE) return exact(start)
  return andThen(read(start, STRIDE), ({ blockedFrom }) => exact(blockedFrom))
}

/** What became of a text that was read again. */
interface Rereading {
  readonly sessions: readonly ScanSession[]
  /** The first session that blocks. */
  readonly blocking: ScanSession | undefined
  /** Where the piece begins in which one blocked; the end of the text where none did. */
  readonly blockedFrom: number
}

/**
 * Has new sessions read a text until one of them blocks.
 * @param step characters at a time from `from` on
 * @param proceed where it is given, other calls get their turn now and then
 * @param at where to begin
 */
function readAgain(
  sessions: readonly ScanSession[],
  text: string,
  from: number,
  step: number,
  proceed: (() => void) | undefined,
  at = 0,
): Rereading | Promise<Rereading> {
  const blocking = () => sessions.find(({ stop }) => stop?.block)
  for (let start = at; start < text.length;) {
    let end = start < from ? Math.min(from, start + STRIDE) : start + step
    if (wholeCharacters(text, end) < end) end++
    for (const session of sessions) session.push(text.slice(start, end))
    if (start >= from && blocking()) return { sessions, blocking: blocking(), blockedFrom: start }
    start = end
    const due = proceed && yieldIfDue(proceed)
    if (due) return due.then(() => readAgain(sessions, text, from, step, proceed, end))
  }
  return { sessions, blocking: blocking(), blockedFrom: text.length }
}

// One text of an answer as it grows: what guards have agreed to, and what of it is still retained.

/** Texts are kept for {@link locateBlock} up to this length; in longer ones it has no say. */
const MAX_KEPT = 1_048_576

interface Retained<Part> {
  readonly piece: TextPiece<Part> | PassthroughPiece<Part>
  readonly start: number
  readonly end: number
}

interface TextInit {
  readonly stream: TextStream
  /** Guards that read it, local ones first. */
  readonly scanners: readonly OutputScanner[]
  /** A violation ends this text only. */
  readonly droppable?: boolean | undefined
  /** Nothing goes out before the text is complete. */
  readonly atOnce: boolean
  /** Called when a guard has answered that was waited for. */
  readonly changed: () => void
}

/** Ends sliced work for a text that was dropped. */
const DROPPED = new Error('the text is dropped')

export class ScreenedText<Part> {
  readonly stream: TextStream
  /** A violation ends this text only. */
  readonly droppable: boolean
  /** Characters so far, those included that guards have not been told of yet. */
  length = 0
  /** How many of them went out. */
  released = 0
  /** Guards that read it, in their order; none of a text that was dropped. */
  sessions: readonly ScanSession[]
  readonly #changed: () => void
  #blockedAt: BlockedAt | undefined
  #locating = false
  /** All of it, kept only where several local guards read it. */
  #text = ''
  /** What guards have not been told of yet. */
  #untold = ''
  /** Up to here no guard has stopped the text. */
  #clearUpTo = 0
  readonly #keeps: boolean
  readonly #atOnce: boolean
  readonly #retained: Retained<Part>[] = []

  constructor({ stream, scanners, droppable = false, atOnce, changed }: TextInit) {
    this.stream = stream
    this.droppable = droppable
    this.#atOnce = atOnce
    this.#changed = changed
    const options = { atOnce, changed }
    this.sessions = scanners.map((scanner) => new ScanSession(scanner, stream, options))
    this.#keeps = scanners.filter(({ local }) => local).length > 1
  }

  /** Offset up to which all guards agree. */
  get safeOffset(): number {
    let safe = this.length
    for (const { safeOffset } of this.sessions) if (safeOffset < safe) safe = safeOffset
    return safe
  }

  /** Characters that guards have not been told of yet. */
  get untoldLength(): number {
    return this.#untold.length
  }

  get isEmpty(): boolean {
    return this.#retained.length === 0
  }

  /** Some guard may agree or stop the text without more of it. */
  get pending(): boolean {
    return this.#locating || this.sessions.some(({ state }) => state !== 'ready')
  }

  /** What follows has to wait: some guard has not read all that was pushed, or it is being found out where one blocks. */
  get busy(): boolean {
    return this.#locating || this.sessions.some(({ state }) => state === 'busy')
  }

  /** The first guard that stopped the text. */
  get stopped(): ScanSession | undefined {
    return this.sessions.find(({ stop }) => stop)
  }

  /** Takes in a further piece. Guards are told of it by {@link tell}. */
  retain(piece: TextPiece<Part> | PassthroughPiece<Part>): void {
    const start = this.length
    if (piece.kind === 'text') {
      this.length += piece.text.length
      this.#untold += piece.text
    }
    this.#retained.push({ piece, start, end: this.length })
  }

  /** Tells guards what came since they were told last. @returns its length */
  tell(): number {
    const text = this.#untold
    this.#untold = ''
    // Guards that check at the end may stop any of the text.
    if (!this.#atOnce) this.#clearUpTo = this.#text.length
    if (this.#keeps && this.length <= MAX_KEPT) this.#text += text
    for (const session of this.sessions) session.push(text)
    return text.length
  }

  /** Nothing follows. */
  end(): void {
    for (const session of this.sessions) session.end()
  }

  idle(): void {
    for (const session of this.sessions) session.idle()
  }

  /** Goes on without this guard. */
  without(session: ScanSession): void {
    session.close()
    this.sessions = this.sessions.filter((one) => one !== session)
  }

  /** Where a text is blocked that a guard stopped, see {@link locateBlock}; nothing while that is being found out. */
  locate(session: ScanSession): BlockedAt | undefined {
    const known = { session, safeOffset: this.safeOffset }
    const text = this.#text
    const from = Math.max(this.#clearUpTo, this.#earliestEnd() - 1)
    if (this.#blockedAt) return this.#blockedAt
    if (!this.#keeps || text.length - from < 2 || text.length < this.length) return known
    const locals = this.sessions.map(({ scanner }) => scanner).filter(({ local }) => local)
    const located = locateBlock(locals, this.stream, text, from, known, () => {
      if (this.sessions.length === 0) throw DROPPED
    })
    if (!(located instanceof Promise)) return located
    this.#locating = true
    void located
      .catch(() => ({ session, safeOffset: this.released }))
      .then((blockedAt) => {
        this.#locating = false
        this.#blockedAt = blockedAt
        this.#changed()
      })
    return undefined
  }

  /** Where the first span ends that a guard blocks for: no guard can block earlier. 0 if one does not say. */
  #earliestEnd(): number {
    const blocks = this.sessions.flatMap(({ stop }) => stop?.block ?? [])
    return Math.min(
      ...blocks.flatMap(({ spans }) => (spans?.length ? spans.map(({ end }) => end) : 0)),
    )
  }

  /** Emits what lies before an offset, in the pieces in which it came where possible. @returns characters */
  release(safeOffset: number, codec: OutputCodec<Part>, emit: (part: Part) => void): number {
    const retained = this.#retained
    const before = this.released
    let rest = ''
    let count = 0
    for (; count < retained.length; count++) {
      const { piece, start, end } = retained[count]!
      if (safeOffset < end) break
      if (piece.kind === 'mark' || this.released <= start) emit(piece.part)
      else if (piece.textOnly && charactersBefore(retained[count + 1], safeOffset) > 0) {
        // Goes out with the beginning of the next piece: what came in one part leaves in one.
        rest = piece.text.slice(this.released - start)
      } else emit(codec.cut(piece, this.released - start, end - start))
      this.released = end
    }
    if (count === retained.length) retained.length = 0
    else if (count > 0) retained.splice(0, count)
    const next = retained[0]
    const to = charactersBefore(next, safeOffset)
    if (to > 0 && next!.start + to > this.released) {
      const piece = next!.piece as TextPiece<Part>
      const from = Math.max(0, this.released - next!.start)
      if (rest === '') emit(codec.cut(piece, from, to))
      else {
        const text = rest + piece.text.slice(0, to)
        emit(codec.cut({ ...piece, text }, 0, text.length))
      }
      this.released = next!.start + to
    }
    return this.released - before
  }

  /** Retained parts that go out even if the text is dropped. */
  get keptWhenDropped(): readonly Part[] {
    return this.#retained.flatMap(({ piece }) =>
      piece.kind === 'mark' && piece.keptWhenDropped ? [piece.part] : [],
    )
  }

  /** The retained text between two offsets. */
  textBetween(start: number, end: number): string {
    let text = ''
    for (const { piece, start: from } of this.#retained) {
      if (piece.kind !== 'text' || end <= from) continue
      text += piece.text.slice(Math.max(0, start - from), end - from)
    }
    return text
  }

  /** No guard reads on, and nothing more goes out. @returns characters that were retained */
  drop(): number {
    for (const session of this.sessions) session.close()
    this.sessions = []
    this.#locating = false
    this.#retained.length = 0
    return this.length - this.released
  }
}

/** How many characters of a piece lie before an offset within it. */
function charactersBefore<Part>(retained: Retained<Part> | undefined, offset: number): number {
  if (retained?.piece.kind !== 'text' || offset <= retained.start || offset >= retained.end)
    return 0
  return wholeCharacters(retained.piece.text, offset - retained.start)
}

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
