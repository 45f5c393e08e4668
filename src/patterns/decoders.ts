/** View D of a text: what it hides goes through a dfa of its own. */
import { runSync } from './time-slice.ts'
import { Base64 } from './views/base64.ts'
import type { Decoder, CodePointSink } from './views/decode.ts'
import { Escapes } from './views/escapes.ts'
import { Hex } from './views/hex.ts'
import { firstBytesOf } from './dfa-cursor.ts'
import { UNSEEN_CLASS, type ProductDfa } from './product-dfa.ts'
import { MatchCursor, type Found } from './match-cursor.ts'

/** Decoders, and what they find. They are not told of characters that cannot be seen. */
export class Decoders {
  /** Of the matches that end at the same place, the first pattern's. */
  found: Found | undefined
  readonly base64: Decoder
  /** For digits that begin at the first place, and at the second. */
  readonly hex: readonly Decoder[]
  readonly escapes: Escapes
  /** Base64, and {@link hex}. */
  readonly runs: readonly Decoder[]

  constructor(dfa: ProductDfa) {
    const reader = () => new CursorSink(dfa, (found) => this.#note(found))
    this.hex = [new Hex(reader(), 0), new Hex(reader(), 1)]
    this.escapes = new Escapes(reader())
    this.base64 = new Base64(Array.from({ length: 4 }, reader))
    this.runs = [this.base64, ...this.hex]
  }

  #note(found: Found): void {
    const { found: other } = this
    const isFirst =
      other === undefined ||
      found.pattern < other.pattern ||
      (found.pattern === other.pattern && found.start < other.start)
    if (isFirst) this.found = found
  }
}

/** A track for one way of decoding. After a match it stays as it is, so that its hold is the one before the match. */
class CursorSink implements CodePointSink {
  readonly begins: Uint8Array
  readonly #dfa: ProductDfa
  readonly #track: MatchCursor
  readonly #note: (found: Found) => void

  constructor(dfa: ProductDfa, note: (found: Found) => void) {
    this.#dfa = dfa
    this.begins = firstBytesOf(dfa)
    this.#track = new MatchCursor(dfa)
    this.#note = note
  }

  get idle(): boolean {
    return this.#track.since === Infinity
  }

  read(symbol: number, start: number, end: number): void {
    const track = this.#track
    if (track.isOver) return
    const symbolClass = this.#dfa.classOf(symbol)
    if (symbolClass === UNSEEN_CLASS || !track.advance(symbolClass, start, end)) return
    // Literals: where they begin is never far.
    this.#note(runSync(track.locate()))
  }

  restart(): void {
    if (!this.#track.isOver) this.#track.reset()
  }

  hold(isExact: boolean): number {
    return this.#track.hold(isExact)
  }
}
