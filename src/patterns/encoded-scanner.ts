/**
 * View `decoded` over a text that grows, and the table of characters that tells where a text may hold something encoded.
 * Decoders run only where there is something to decode; the end of the text is kept, so that a decoder that begins late can
 * be told what came before.
 */
import type { PatternMatch } from '../plugin.ts'
import {
  Base64,
  MIN_BASE64,
  type Decoder,
  Hex,
  SEXTETS,
  DIGITS,
  isHexSign,
  isLineBreak,
  isSeparator,
  isWhite,
  MAX_SEPARATORS,
  MIN_PAIRS,
} from './views/decode.ts'
import { Escapes, mayEscape } from './views/escapes.ts'
import { DecodedText } from './cursor.ts'
import { UNSEEN_CLASS, type ProductDfa } from './product-dfa.ts'
import { fold } from './views/fold.ts'

/** Looks for encoded matches beside the cursor that reads the text itself. */
export class EncodedScanner {
  readonly #dfa: ProductDfa
  #made: Decoders | undefined
  /** A state of {@link CANDIDATES}. */
  #candidates = 0
  /** Where the present run of base64 and the present row of digits begin, if there are any. */
  #runStart = 0
  #rowStart = 0
  /** Escapes are decoded, or were, and a match with one inside may be under way. */
  #escaping = false
  /** Where the text begins that the decoder of escapes has not read. */
  #escapesStart = 0
  /** The end of the text, of which #kept units are in use. */
  #tail: Utf16 = new Uint16Array(64)
  #kept = 0
  #position = 0

  constructor(dfa: ProductDfa) {
    this.#dfa = dfa
  }

  /** The match, if there is one. Of several that end at the same place, that of the first pattern. */
  get found(): PatternMatch | undefined {
    return this.#made?.found
  }

  /**
   * Reads a code point.
   * @param since where the oldest match under way in the text itself may begin, before this code point; or Infinity
   * @returns whether there is a match; nothing may follow it
   */
  read(codePoint: number, since: number): boolean {
    const start = this.#position
    this.#keep(codePoint, since)
    if (!this.#isVisible(codePoint)) return false
    const end = this.#position
    const before = this.#candidates
    const after = codePoint < 128 ? CANDIDATES[before + codePoint]! : 0
    this.#candidates = after & STATE
    if (base64RunIn(before) === 0) this.#runStart = start
    if (hexRowIn(before) === 0) this.#rowStart = start
    const decodes = base64RunIn(before) === MIN_BASE64 || hexRowIn(before) === MIN_DIGITS
    if (after <= STATE && !decodes && !this.#escaping) return false
    const { base64, hex } = this.#decoders
    if ((after & BASE64_RUN) !== 0) this.#tell(base64, this.#runStart)
    else if (base64RunIn(before) === MIN_BASE64) base64.read(codePoint, start, end)
    for (const decoder of hex) {
      if ((after & HEX_ROW) !== 0) this.#tell(decoder, this.#rowStart)
      else if (hexRowIn(before) === MIN_DIGITS) decoder.read(codePoint, start, end)
    }
    this.#endRuns(before, after & STATE)
    this.#readEscapes(codePoint, start, (after & ESCAPE_START) !== 0, since)
    return this.found !== undefined
  }

  /** The text is over. @returns whether there is a match */
  finish(): boolean {
    this.#endRuns(this.#candidates, 0)
    this.#candidates = 0
    if (this.#escaping) this.#decoders.escapes.end()
    return this.found !== undefined
  }

  /** Where the oldest match under way may begin; Infinity if there is none. See {@link MatchCursor.pendingStart}. */
  pendingStart(isExact: boolean): number {
    const [run, row] = [base64RunIn(this.#candidates), hexRowIn(this.#candidates)]
    let pending = Infinity
    if (run === MIN_BASE64) pending = this.#decoders.base64.pendingStart(isExact)
    else if (run > 0) pending = this.#runStart
    if (row > 0 && this.#rowStart < pending) {
      for (const hex of this.#decoders.hex) {
        if (row < MIN_DIGITS) this.#tell(hex, this.#rowStart)
        pending = Math.min(pending, hex.pendingStart(isExact))
        if (row < MIN_DIGITS) hex.end()
      }
    }
    // Without an escape, the text itself tells what is under way.
    return this.#escaping
      ? Math.min(pending, this.#decoders.escapes.pendingStart(isExact))
      : pending
  }

  get #decoders(): Decoders {
    return (this.#made ??= new Decoders(this.#dfa))
  }

  #isVisible(codePoint: number): boolean {
    if (codePoint < 128) return CHAR_CLASS[codePoint] !== INVISIBLE
    return this.#dfa.classOf(codePoint) !== UNSEEN_CLASS
  }

  #endRuns(before: number, after: number): void {
    if (base64RunIn(before) === MIN_BASE64 && base64RunIn(after) === 0) this.#decoders.base64.end()
    if (hexRowIn(before) < MIN_DIGITS || hexRowIn(after) === MIN_DIGITS) return
    for (const hex of this.#decoders.hex) hex.end()
  }

  #readEscapes(codePoint: number, start: number, begins: boolean, since: number): void {
    const { escapes } = this.#decoders
    if (this.#escaping) escapes.read(codePoint, start, this.#position)
    else if (begins) {
      // What is under way in the text so far may go on behind the escape.
      this.#escaping = true
      this.#tell(escapes, Math.max(Math.min(since, start), this.#escapesStart))
    }
    if (!this.#escaping || !escapes.idle || this.found) return
    escapes.restart()
    this.#escaping = false
    this.#escapesStart = this.#position
  }

  /** Tells a decoder that has just begun all that was read from an offset on. */
  #tell(decoder: Decoder, from: number): void {
    const offset = this.#position - this.#kept
    const tail = this.#tail.subarray(0, this.#kept)
    for (let at = from - offset, next = at; at < tail.length; at = next) {
      const codePoint = codePointAt(tail, at)
      next += codePoint > 0xffff ? 2 : 1
      if (this.#isVisible(codePoint)) decoder.read(codePoint, offset + at, offset + next)
    }
  }

  #keep(codePoint: number, since: number): void {
    if (this.#kept + 2 > this.#tail.length) this.#makeSpace(since)
    if (codePoint > 0xffff) {
      this.#tail[this.#kept++] = 0xd800 | ((codePoint - 0x10000) >> 10)
      this.#tail[this.#kept++] = 0xdc00 | (codePoint & 0x3ff)
      this.#position += 2
    } else {
      this.#tail[this.#kept++] = codePoint
      this.#position++
    }
  }

  /** Drops what no decoder can ask for any more, and grows the tail if that is not enough. */
  #makeSpace(since: number): void {
    const [run, row] = [base64RunIn(this.#candidates), hexRowIn(this.#candidates)]
    let first = Math.min(since, this.#position)
    if (run > 0 && run < MIN_BASE64) first = Math.min(first, this.#runStart)
    if (row > 0 && row < MIN_DIGITS) first = Math.min(first, this.#rowStart)
    const gone = Math.max(0, this.#kept - (this.#position - first))
    const rest = this.#tail.subarray(gone, this.#kept)
    this.#kept -= gone
    if ((this.#kept + 2) * 2 > this.#tail.length) {
      const tail = new Uint16Array((this.#kept + 2) * 2)
      tail.set(rest)
      this.#tail = tail
    } else this.#tail.set(rest)
  }
}

/** One decoder for each way in which a text may hold encoded text, and what they find. They ignore invisible characters. */
export class Decoders {
  /** Of several matches that end at the same place, that of the first pattern. */
  found: PatternMatch | undefined
  readonly base64: Decoder
  /** For pairs of digits that begin with the first digit of a row, and with the second. */
  readonly hex: readonly Decoder[]
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
export const HEX_SEPARATOR = 4
/** An escape may begin with it. */
const ESCAPE = 8
/** Every view ignores it. */
export const INVISIBLE = 16
/** It counts as a separator, which white space and the sign of `0x` do not. */
const COUNTED = 32
/** It does not end a run of base64 that is long enough. */
export const LINE_BREAK = 64

/** The bits above by ASCII code. */
export const CHAR_CLASS = Uint8Array.from({ length: 128 }, (_, code) => {
  if (fold(code).length === 0) return INVISIBLE
  return (
    (SEXTETS[code]! >= 0 ? BASE64 : 0) |
    (DIGITS[code]! >= 0 ? HEX_DIGIT : 0) |
    (isSeparator(code) || isHexSign(code) ? HEX_SEPARATOR : 0) |
    (isSeparator(code) && !isWhite(code) ? COUNTED : 0) |
    (isLineBreak(code) ? LINE_BREAK : 0) |
    (mayEscape(code) ? ESCAPE : 0)
  )
})

/** Fewer digits are not decoded. */
export const MIN_DIGITS = MIN_PAIRS * 2

/** Characters that count towards a run and a row, up to the length from which they are decoded. */
interface EncodedCandidate {
  /** Base64 characters in a row. */
  readonly base64Run: number
  /** Hexadecimal digits with separators between them. */
  readonly hexRow: number
  /** Separators that count since the last digit. */
  readonly separators: number
}

/** How many separators count since the last digit of a row, after a character that is no digit; -1 where the row ends. */
export function separatorsAfter(count: number, charClass: number): number {
  if ((charClass & HEX_SEPARATOR) === 0) return -1
  if ((charClass & COUNTED) === 0) return count
  return count < MAX_SEPARATORS ? count + 1 : -1
}

/** The counters after a character of this class. */
function countIn(before: EncodedCandidate, charClass: number): EncodedCandidate {
  if ((charClass & INVISIBLE) !== 0) return before
  const { base64Run, hexRow } = before
  const isDigit = (charClass & HEX_DIGIT) !== 0
  const separators = separatorsAfter(before.separators, charClass)
  const staysInRow = !isDigit && hexRow > 0 && separators >= 0
  const staysInRun = base64Run === MIN_BASE64 && (charClass & LINE_BREAK) !== 0
  return {
    base64Run:
      (charClass & BASE64) !== 0 ? Math.min(base64Run + 1, MIN_BASE64) : staysInRun ? base64Run : 0,
    hexRow: isDigit ? Math.min(hexRow + 1, MIN_DIGITS) : staysInRow ? hexRow : 0,
    separators: staysInRow ? separators : 0,
  }
}

// A state holds the counters in bits of their own, and adding an ASCII code to it gives an index into the table.
const RUN_SHIFT = 13
const ROW_SHIFT = 9
const SEPARATORS_SHIFT = 7

// What a step of the table may report beside the next state.
const REPORT = 1 << 17
/** A run or a row has become long enough; reported once for each. */
export const BASE64_RUN = REPORT
export const HEX_ROW = REPORT << 1
/** An escape may begin here. */
export const ESCAPE_START = REPORT << 2
export const STATE = REPORT - 1

/** By state plus ASCII code: the next state and what is reported. State 0 stands before any text. */
export const CANDIDATES = new Int32Array((MIN_BASE64 + 1) << RUN_SHIFT)

for (let base64Run = 0; base64Run <= MIN_BASE64; base64Run++) {
  for (let hexRow = 0; hexRow <= MIN_DIGITS; hexRow++) {
    for (let separators = 0; separators <= MAX_SEPARATORS; separators++) {
      const before = { base64Run, hexRow, separators }
      for (const [code, charClass] of CHAR_CLASS.entries()) {
        const after = countIn(before, charClass)
        CANDIDATES[stateOf(before) + code] =
          stateOf(after) |
          (base64Run < after.base64Run && after.base64Run === MIN_BASE64 ? BASE64_RUN : 0) |
          (hexRow < after.hexRow && after.hexRow === MIN_DIGITS ? HEX_ROW : 0) |
          ((charClass & ESCAPE) !== 0 ? ESCAPE_START : 0)
      }
    }
  }
}

function stateOf({ base64Run, hexRow, separators }: EncodedCandidate): number {
  return (base64Run << RUN_SHIFT) | (hexRow << ROW_SHIFT) | (separators << SEPARATORS_SHIFT)
}

function base64RunIn(state: number): number {
  return state >> RUN_SHIFT
}

function hexRowIn(state: number): number {
  return (state >> ROW_SHIFT) & 15
}

/** UTF-16 code units of a text: reading from an array is faster than from a string. */
export type Utf16 = Uint16Array

/** The code point that begins at an index; half of a surrogate pair where the other half is missing. */
export function codePointAt(units: Utf16, at: number): number {
  const unit = units[at]!
  const next = (unit & 0xfc00) === 0xd800 && at + 1 < units.length ? units[at + 1]! : 0
  return (next & 0xfc00) === 0xdc00 ? 0x10000 + ((unit & 0x3ff) << 10) + (next & 0x3ff) : unit
}
