/** View `decoded` over a text that grows. Decoders read only what may be encoded. */
import type { PatternMatch } from '../plugin.ts'
import { DecodedText, type MatchCursor } from './cursor.ts'
import { UNSEEN_CLASS, type ProductDfa } from './product-dfa.ts'
import { Base64, DIGITS, Hex, SEXTETS } from './views/decode.ts'
import { Escapes, mayEscape } from './views/escapes.ts'
import { fold } from './views/fold.ts'

/** Looks for encoded matches beside the cursor that reads the text itself. */
export class EncodedScanner {
  readonly #dfa: ProductDfa
  readonly #decoders: Decoders
  /** Any decoder of hexadecimal digits is active. */
  #inRow = false
  /** Escapes are decoded, and a match with one inside may be under way. */
  #escaping = false
  /** Where the text begins that the decoder of escapes has not read. */
  #escapesStart = 0

  constructor(dfa: ProductDfa) {
    this.#dfa = dfa
    this.#decoders = new Decoders(dfa)
  }

  /** The match, if there is one. Of several that end at the same place, that of the first pattern. */
  get found(): PatternMatch | undefined {
    return this.#decoders.found
  }

  /** An escape may begin with the next code point: what is under way in the text may go on behind it. */
  beginEscape(cursor: MatchCursor): void {
    if (this.#escaping) return
    this.#escaping = true
    const { escapes } = this.#decoders
    cursor.replay(this.#escapesStart, (codePoint, start, end) => {
      if (this.#kindOf(codePoint) !== INVISIBLE) escapes.read(codePoint, start, end)
    })
  }

  /** Reads a code point. @returns whether there is a match; nothing may follow it */
  read(codePoint: number, start: number, end: number): boolean {
    const kind = this.#kindOf(codePoint)
    if (kind === INVISIBLE) return false
    const { base64, hex, escapes } = this.#decoders
    if ((kind & BASE64) !== 0 || base64.isActive) base64.read(codePoint, start, end)
    if ((kind & HEX_DIGIT) !== 0 || this.#inRow) {
      for (const decoder of hex) decoder.read(codePoint, start, end)
      this.#inRow = hex[0].isActive || hex[1].isActive
    }
    if (this.#escaping) {
      escapes.read(codePoint, start, end)
      if (escapes.idle && !this.found) {
        escapes.restart()
        this.#escaping = false
        this.#escapesStart = end
      }
    }
    return this.found !== undefined
  }

  /** The text is over. @returns whether there is a match */
  finish(): boolean {
    if (this.#escaping) this.#decoders.escapes.end()
    return this.found !== undefined
  }

  /** Where the oldest match under way may begin; Infinity if there is none. See {@link MatchCursor.pendingStart}. */
  pendingStart(isExact: boolean): number {
    const { base64, hex, escapes } = this.#decoders
    let pending = base64.pendingStart(isExact)
    for (const decoder of hex) pending = Math.min(pending, decoder.pendingStart(isExact))
    // Without an escape, the text itself tells what is under way.
    return this.#escaping ? Math.min(pending, escapes.pendingStart(isExact)) : pending
  }

  #kindOf(codePoint: number): number {
    if (codePoint < 128) return KINDS[codePoint]!
    return this.#dfa.classOf(codePoint) === UNSEEN_CLASS ? INVISIBLE : 0
  }
}

/** One decoder for each way in which a text may hold encoded text, and what they find. They ignore invisible characters. */
export class Decoders {
  /** The first pattern's match, where several end at the same place. */
  found: PatternMatch | undefined
  readonly base64: Base64
  /** The scanners of pairs of digits that begin with the first digit of a row, and with the second. */
  readonly hex: readonly [Hex, Hex]
  readonly escapes: Escapes

  constructor(dfa: ProductDfa) {
    const sink = () => new DecodedText(dfa, (match) => this.#note(match))
    this.hex = [new Hex(sink(), 0), new Hex(sink(), 1)]
    this.escapes = new Escapes(sink())
    this.base64 = new Base64(Array.from({ length: 4 }, sink))
  }

  #note(match: PatternMatch): void {
    const { found } = this
    const isFirst =
      found === undefined ||
      match.pattern < found.pattern ||
      (match.pattern === found.pattern && match.start < found.start)
    if (isFirst) this.found = match
  }
}

// What an ASCII character is to the decoders, as bits.
export const BASE64 = 1
export const HEX_DIGIT = 2
/** An escape may begin with it. */
export const ESCAPE = 4
/** Every view ignores it. */
export const INVISIBLE = 8

/** The bits above by ASCII code. */
export const KINDS = Uint8Array.from({ length: 128 }, (_, code) => {
  if (fold(code).length === 0) return INVISIBLE
  return (
    (SEXTETS[code]! >= 0 ? BASE64 : 0) |
    (DIGITS[code]! >= 0 ? HEX_DIGIT : 0) |
    (mayEscape(code) ? ESCAPE : 0)
  )
})
