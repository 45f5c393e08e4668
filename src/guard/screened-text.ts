/** One text of an answer as it grows: the part that guards have agreed to, and the part that is still retained. */
import { wholeCharacters } from '../errors/checks.ts'
import { yieldIfDue } from '../patterns/time-slice.ts'
import type { TextStream } from '../plugin.ts'
import type { OutputCodec, PassthroughPiece, TextPiece } from './adapter.ts'
import { toFault, type Answer, type Block, type GuardFault, type TextProgress } from './runner.ts'
import type { OutputScanner, TextCheck } from './text-check.ts'

type StopReason =
  | { readonly block: Block; readonly fault?: undefined }
  | { readonly fault: GuardFault; readonly block?: undefined }

/** Ends sliced work on a text that no guard reads any more. */
const CLOSED = new Error('the text is read no more')

export class Reading {
  readonly scanner: OutputScanner
  /** Offset up to which the guard agrees; never decreases. */
  safeOffset = 0
  stop: StopReason | undefined = undefined
  /** `busy`: later text of the answer has to wait for this guard. `pending`: the guard may answer without more text. */
  state: 'ready' | 'busy' | 'pending' = 'ready'
  readonly #check: TextCheck
  readonly #changed: (() => void) | undefined
  #outstanding: Promise<TextProgress> | undefined
  #closed = false

  /**
   * @param atOnce see {@link OutputScanner.check}
   * @param changed called when an outstanding answer has come; without it a local guard answers at once
   */
  constructor(scanner: OutputScanner, stream: TextStream, atOnce = false, changed?: () => void) {
    this.scanner = scanner
    this.#changed = changed
    this.#check = changed
      ? scanner.check(stream, atOnce, this.#proceed.bind(this))
      : scanner.check(stream, atOnce)
  }

  push(text: string): void {
    this.#ask((check) => check.push(text))
  }

  end(): void {
    this.#ask((check) => check.end())
  }

  idle(): void {
    if (!this.#check.idle) return
    this.#check.idle()
    this.push('')
  }

  close(): void {
    this.#closed = true
    this.state = 'ready'
  }

  #ask(question: (check: TextCheck) => Answer): void {
    if (this.stop || this.#closed) return
    try {
      const answer = question(this.#check)
      if (!(answer instanceof Promise)) this.#advance(answer)
      else if (answer !== this.#outstanding) void this.#wait(answer)
    } catch (error) {
      this.stop ??= { fault: toFault(error) }
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
      this.stop ??= { fault: toFault(error) }
    }
    if (this.#closed) return
    if (this.#outstanding === answer) {
      this.#outstanding = undefined
      this.state = 'ready'
      if (!this.scanner.local) this.push('')
    }
    this.#changed?.()
  }

  #proceed(): void {
    if (this.#closed) throw CLOSED
  }
}

interface BlockedAt {
  readonly reading: Reading
  readonly safeOffset: number
}

interface Retained<Part> {
  readonly piece: TextPiece<Part> | PassthroughPiece<Part>
  readonly start: number
  readonly end: number
}

interface TextOptions {
  readonly droppable?: boolean | undefined
  readonly atOnce: boolean
}

/** Texts are kept for {@link ScreenedText.locate} up to this length; it has no effect on longer ones. */
const MAX_KEPT = 1_048_576
/** Characters pushed to guards at a time where the exact place does not matter. */
const STRIDE = 256

export class ScreenedText<Part> {
  readonly stream: TextStream
  readonly droppable: boolean
  length = 0
  released = 0
  untold = ''
  /** Guards that read it, in their order; none for a dropped text. */
  readings: readonly Reading[]
  readonly #changed: () => void
  #blockedAt: BlockedAt | undefined
  #locating = false
  /** The whole text, kept only where several local guards read it. */
  #text = ''
  /** The offset up to which no guard has stopped the text. */
  #clearUpTo = 0
  readonly #keeps: boolean
  readonly #atOnce: boolean
  readonly #retained: Retained<Part>[] = []

  /** @param scanners guards that read it, local ones first @param changed called when an awaited guard has answered */
  constructor(
    stream: TextStream,
    scanners: readonly OutputScanner[],
    { droppable = false, atOnce }: TextOptions,
    changed: () => void,
  ) {
    this.stream = stream
    this.droppable = droppable
    this.#atOnce = atOnce
    this.#changed = changed
    this.readings = scanners.map((scanner) => new Reading(scanner, stream, atOnce, changed))
    this.#keeps = scanners.filter(({ local }) => local).length > 1
  }

  get safeOffset(): number {
    let safe = this.length
    for (const { safeOffset } of this.readings) if (safeOffset < safe) safe = safeOffset
    return safe
  }

  get isEmpty(): boolean {
    return this.#retained.length === 0
  }

  get pending(): boolean {
    return this.#locating || this.readings.some(({ state }) => state !== 'ready')
  }

  /** Whether later parts wait: a guard has not read all that was pushed, or the place of a block is being located. */
  get busy(): boolean {
    return this.#locating || this.readings.some(({ state }) => state === 'busy')
  }

  get stopped(): Reading | undefined {
    return this.readings.find(({ stop }) => stop)
  }

  /** Adds a further piece. Guards read it by {@link tell}. */
  retain(piece: TextPiece<Part> | PassthroughPiece<Part>): void {
    const start = this.length
    if (piece.kind === 'text') {
      this.length += piece.text.length
      this.untold += piece.text
    }
    this.#retained.push({ piece, start, end: this.length })
  }

  tell(): void {
    const text = this.untold
    this.untold = ''
    // Guards that check at the end may stop any of the text.
    if (!this.#atOnce) this.#clearUpTo = this.#text.length
    if (this.#keeps && this.length <= MAX_KEPT) this.#text += text
    for (const reading of this.readings) reading.push(text)
  }

  end(): void {
    for (const reading of this.readings) reading.end()
  }

  without(reading: Reading): void {
    reading.close()
    this.readings = this.readings.filter((one) => one !== reading)
  }

  /**
   * The place where a stopped text is blocked; undefined while that is being located. Where several local guards
   * read the text, the one that happens to be asked first would win, and more text would go out, the longer the
   * pieces are in which text comes. So they read it again, character by character, and the text alone decides.
   */
  locate(reading: Reading): BlockedAt | undefined {
    if (this.#blockedAt) return this.#blockedAt
    const place = { reading, safeOffset: this.safeOffset }
    const from = Math.max(this.#clearUpTo, this.#earliestEnd() - 1)
    const isKept = this.#keeps && this.#text.length === this.length
    if (!isKept || this.length - from < 2) return place
    this.#locating = true
    void this.#readAgain(place, from)
      .catch(() => ({ reading, safeOffset: this.released }))
      .then((blockedAt) => {
        this.#locating = false
        this.#blockedAt = blockedAt
        this.#changed()
      })
    return undefined
  }

  /** @param from no guard blocks before this offset */
  async #readAgain(earliest: BlockedAt, from: number): Promise<BlockedAt> {
    const text = this.#text
    const locals = this.readings.map(({ scanner }) => scanner).filter(({ local }) => local)
    const proceed = () => {
      if (this.readings.length === 0) throw CLOSED
    }
    let start = wholeCharacters(text, from)
    // Character by character takes many times as long: where there is much to read, strides come first.
    for (let step = STRIDE; ; step = 1) {
      const readings = locals.map((scanner) => new Reading(scanner, this.stream))
      const blocking = () => readings.find(({ stop }) => stop?.block)
      let [at, end] = [0, 0]
      for (; end < text.length && !(at >= start && blocking());) {
        at = end
        end = at < start ? Math.min(start, at + STRIDE) : at + step
        if (wholeCharacters(text, end) < end) end++
        for (const one of readings) one.push(text.slice(at, end))
        const due = yieldIfDue(proceed)
        if (due) await due
      }
      const reading = blocking()
      if (!reading) return earliest
      start = at
      if (step > 1) continue
      const offsets = readings.flatMap(({ stop, safeOffset }) => (stop?.fault ? [] : safeOffset))
      return { reading, safeOffset: Math.min(earliest.safeOffset, ...offsets) }
    }
  }

  /** The end of the first span that a guard blocks for: no guard can block earlier. 0 if one states none. */
  #earliestEnd(): number {
    const blocks = this.readings.flatMap(({ stop }) => stop?.block ?? [])
    return Math.min(
      ...blocks.flatMap(({ spans }) => (spans?.length ? spans.map(({ end }) => end) : 0)),
    )
  }

  /** Emits the text before an offset, in the pieces in which it came where possible. @returns characters */
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

  textBetween(start: number, end: number): string {
    let text = ''
    for (const { piece, start: from } of this.#retained) {
      if (piece.kind !== 'text' || end <= from) continue
      text += piece.text.slice(Math.max(0, start - from), end - from)
    }
    return text
  }

  /** Ends the reading and drops the text. @returns retained parts that go out all the same */
  drop(): readonly Part[] {
    for (const reading of this.readings) reading.close()
    this.readings = []
    this.#locating = false
    return this.#retained
      .splice(0)
      .flatMap(({ piece }) => (piece.kind === 'mark' && piece.keptWhenDropped ? [piece.part] : []))
  }
}

function charactersBefore<Part>(retained: Retained<Part> | undefined, offset: number): number {
  if (retained?.piece.kind !== 'text' || offset <= retained.start || offset >= retained.end)
    return 0
  return wholeCharacters(retained.piece.text, offset - retained.start)
}

export async function stopOf(
  scanner: OutputScanner,
  stream: TextStream,
  text: string,
): Promise<StopReason | undefined> {
  let news = Promise.withResolvers<void>()
  const reading = new Reading(scanner, stream, true, () => news.resolve())
  reading.push(text)
  reading.end()
  while (reading.state !== 'ready') {
    await news.promise
    news = Promise.withResolvers<void>()
  }
  return reading.stop
}
