/** One text of an answer as it grows: what guards have agreed to, and what of it is still retained. */
import { wholeCharacters } from '../errors/checks.ts'
import type { TextStream } from '../plugin.ts'
import type { OutputCodec, PassthroughPiece, TextPiece } from './adapter.ts'
import { locateBlock } from './block-locator.ts'
import { ScanSession, type BlockedAt, type OutputScanner } from './scan-session.ts'

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
