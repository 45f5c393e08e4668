/**
 * The quick half of a search in a whole text: can anything in it match? One pass takes the text through the automaton of
 * all views but `decoded` and finds what that view may have to decode. Only what may match is read again, with positions.
 */
import { endianness } from 'node:os'
import {
  Base64,
  Hex,
  isHexSign,
  isLineBreak,
  isSeparator,
  isWhite,
  MAX_SEPARATORS,
  MIN_BASE64,
  MIN_PAIRS,
  SEXTETS,
  Utf8Decoder,
  type Decoder,
  DIGITS,
} from './views/decode.ts'
import { ANY_ESCAPE, Escapes, mayEscape } from './views/escapes.ts'
import type { CompiledPatterns } from './build.ts'
import { DecodedText, type MatchCursor } from './cursor.ts'
import { UNSEEN_CLASS, type ForwardState, type ProductDfa } from './product-dfa.ts'
import type { Task } from './time-slice.ts'
import type { PatternMatch } from '../plugin.ts'
import { fold } from './views/fold.ts'

// View `decoded` over a text that grows. Decoders read only what may be encoded.

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
    return this.#decoders.firstMatch
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
  firstMatch: PatternMatch | undefined
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
    const { firstMatch } = this
    const isFirst =
      firstMatch === undefined ||
      match.pattern < firstMatch.pattern ||
      (match.pattern === firstMatch.pattern && match.start < firstMatch.start)
    if (isFirst) this.firstMatch = match
  }
}

// What an ASCII character is to the decoders, as bits.
const BASE64 = 1
const HEX_DIGIT = 2
/** An escape may begin with it. */
const ESCAPE = 4
/** Every view ignores it. */
const INVISIBLE = 8

/** The bits above by ASCII code. */
const KINDS = Uint8Array.from({ length: 128 }, (_, code) => {
  if (fold(code).length === 0) return INVISIBLE
  return (
    (SEXTETS[code]! >= 0 ? BASE64 : 0) |
    (DIGITS[code]! >= 0 ? HEX_DIGIT : 0) |
    (mayEscape(code) ? ESCAPE : 0)
  )
})

/** UTF-16 code units of a text: reading from an array is faster than from a string. */
type Utf16 = Uint16Array

/** Characters of known text between two pauses: up to 100 µs. */
const PIECE = 1 << 13
/** The same where each is decoded. */
const DECODED_PIECE = 1 << 10
/** Longer runs are decoded as a whole. */
const SHORT_RUN = 64

/** Whether a text may match. A no is certain, a yes nearly so. */
export function* mayContainMatch(compiled: CompiledPatterns, text: string): Task<boolean> {
  const units = unitsOf(text)
  const pass = new Pass(compiled, units)
  const { length } = units
  for (let at = 0, pause = PIECE; at < length;) {
    at = pass.skip(at, Math.min(pause, length))
    if (at === length) break
    if (at >= pause) {
      pause = at + PIECE
      yield
      continue
    }
    const codePoint = codePointAt(units, at)
    if (pass.read(codePoint)) return true
    const { reports, isNew } = pass
    if ((reports & BASE64_RUN) !== 0) {
      const result = pass.encoded!.isInRun(at)
      if (typeof result === 'boolean' ? result : yield* result) return true
    }
    if ((reports & HEX_ROW) !== 0 && (yield* pass.encoded!.isInRow(at))) return true
    if (isNew) yield
    at += codePoint > 0xffff ? 2 : 1
  }
  if (pass.endsInMatch()) return true
  if ((pass.reports & ESCAPE_START) === 0 || !ANY_ESCAPE.test(text)) return false
  return yield* pass.encoded!.isInEscapes()
}

/** One pass over a text: the automaton of the text itself, and the table of encoded candidates. */
class Pass {
  readonly encoded: EncodedSearch | undefined
  /** What {@link candidateTable} reported for the last character read; an escape stays reported. */
  reports = 0
  /** The last step was not in the table. */
  isNew = false
  readonly #dfa: ProductDfa
  #state: ForwardState
  readonly #units: Utf16
  /** A state of {@link candidateTable}. */
  #candidates = 0

  constructor({ text: dfa, decoded }: CompiledPatterns, units: Utf16) {
    this.#dfa = dfa
    this.#state = dfa.beginning
    this.encoded = decoded && new EncodedSearch(decoded, units)
    this.#units = units
  }

  /** Skips ASCII characters with known transitions that neither end a match nor report anything. @returns up to where */
  skip(from: number, to: number): number {
    const units = this.#units
    const { ascii } = this.#dfa
    const table = this.encoded ? candidateTable() : NO_CANDIDATES
    const { cells, states, shift } = this.#state.table
    let { row } = this.#state
    let candidates = this.#candidates
    let at = from
    for (; at < to; at++) {
      const code = units[at]!
      if (code >= 128) break
      const next = cells[row + ascii[code]!]!
      const after = table[candidates + code]!
      if (next === 0 || after > STATE) break
      row = next
      candidates = after
    }
    this.#state = states[row >> shift]!
    this.#candidates = candidates
    return at
  }

  /** @returns whether a match may end with this code point */
  read(codePoint: number): boolean {
    const { encoded } = this
    if (encoded) {
      let after = this.#candidates
      if (codePoint < 128) after = candidateTable()[after + codePoint]!
      else if (encoded.isVisible(codePoint)) after = 0
      this.#candidates = after & STATE
      this.reports = (this.reports & ESCAPE_START) | (after & ~STATE)
    }
    const codeClass = this.#dfa.classOf(codePoint)
    const next = this.#state.next(codeClass)
    this.isNew = next === undefined
    if (next !== undefined) {
      this.#state = next
      return false
    }
    const { state, ends } = this.#dfa.step(this.#state, codeClass)
    this.#state = state
    return ends.length > 0
  }

  /** Whether a match ends where the text ends. */
  endsInMatch(): boolean {
    return this.#dfa.endsAtTextEnd(this.#state).length > 0
  }
}

function unitsOf(text: string): Utf16 {
  const bytes = Buffer.from(text, 'utf16le')
  if (endianness() === 'BE') bytes.swap16()
  return new Uint16Array(bytes.buffer, bytes.byteOffset, text.length)
}

const NO_CANDIDATES = new Int32Array(128)

/** Looks for matches in the parts of a text that may be encoded. */
class EncodedSearch {
  readonly #dfa: ProductDfa
  readonly #units: Utf16
  readonly #firstBytes: Uint8Array
  readonly #beginnings: Uint8Array
  /** It is used for short runs. */
  readonly #bytes: Utf8Decoder
  #isFound = false

  constructor(dfa: ProductDfa, units: Utf16) {
    this.#dfa = dfa
    this.#units = units
    this.#firstBytes = dfa.firstBytes
    this.#beginnings = dfa.beginnings
    this.#bytes = new Utf8Decoder(this.#sink())
  }

  #sink(): DecodedText {
    return new DecodedText(this.#dfa, () => (this.#isFound = true))
  }

  isVisible(codePoint: number): boolean {
    return this.#dfa.classOf(codePoint) !== UNSEEN_CLASS
  }

  /** Whether there is a match in a run of base64; at this place it has just become long enough. */
  isInRun(at: number): boolean | Task<boolean> {
    const start = this.#startOf(at, BASE64, MIN_BASE64)
    const end = this.#endOfShortRun(start, at)
    if (end > 0) return this.#isInShortRun(start, end)
    const decoder = new Base64(Array.from({ length: 4 }, () => this.#sink()))
    return this.#decode(start, [decoder], (state) => base64RunIn(state) > 0)
  }

  /** The same for a row of hexadecimal digits. */
  *isInRow(at: number): Task<boolean> {
    const decoders = [new Hex(this.#sink(), 0), new Hex(this.#sink(), 1)]
    const start = this.#startOf(at, HEX_DIGIT, MIN_DIGITS)
    return yield* this.#decode(start, decoders, (state) => hexRowIn(state) > 0)
  }

  /** Whether there is a match in the text with its escapes decoded. */
  *isInEscapes(): Task<boolean> {
    return yield* this.#decode(0, [new Escapes(this.#sink())], () => true)
  }

  /** Goes back over so many characters of a kind, of which the last is at this place. @returns where the first is */
  #startOf(at: number, kind: number, count: number): number {
    for (let left = count - 1; left > 0;) if (isOf(kind, this.#units[--at]!)) left--
    return at
  }

  /** Where a run ends if it is short and without invisible characters; else 0. */
  #endOfShortRun(start: number, at: number): number {
    const units = this.#units
    const last = Math.min(units.length, start + SHORT_RUN)
    let end = at + 1
    while (end < last && isOf(BASE64, units[end]!)) end++
    const isShort = at - start < MIN_BASE64 && (end < last || last === units.length)
    const next = units[end] ?? 0x20
    const isOver = next < 128 && KINDS[next] !== INVISIBLE && !isLineBreak(next)
    return isShort && isOver ? end : 0
  }

  /**
   * Whether there is a match in a short run, as most long words are. Only bytes with which a match may begin are decoded:
   * 2 KB with 8 literals take 13 µs; with all runs decoded, 23.
   */
  #isInShortRun(start: number, end: number): boolean {
    const units = this.#units
    const begins = this.#firstBytes
    // Four characters are 24 bits: two bytes at each of three places.
    let four = 0
    for (let at = start; at < start + 3; at++) four = (four << 6) | SEXTETS[units[at]!]!
    for (let at = start; at + 4 <= end; at++) {
      four = ((four & 0x3ffff) << 6) | SEXTETS[units[at + 3]!]!
      for (let bit = 0; bit < 6; bit += 2) {
        const two = (four >>> (8 - bit)) & 0xffff
        if (
          begins[two >>> 8] !== 0 &&
          this.#mayBegin(two) &&
          this.#isAtBit(at * 6 + bit, end * 6)
        ) {
          return true
        }
      }
    }
    return false
  }

  /** Whether a match may begin with these two bytes. */
  #mayBegin(two: number): boolean {
    const cached = this.#beginnings[two]!
    if (cached !== 0) return cached === MAY_BEGIN
    const bytes = new Utf8Decoder(this.#sink())
    bytes.read(two >>> 8, 0, 0)
    if (!bytes.idle) bytes.read(two & 0xff, 0, 0)
    // A single code point may fold to a whole literal.
    const may = this.#isFound || !bytes.idle
    this.#isFound = false
    this.#beginnings[two] = may ? MAY_BEGIN : NO_BEGINNING
    return may
  }

  /** Whether there is a match in the bytes from a bit on, as long as anything is alive. */
  #isAtBit(bit: number, end: number): boolean {
    const units = this.#units
    const bytes = this.#bytes
    bytes.restart()
    for (; bit + 8 <= end && !this.#isFound; bit += 8) {
      const at = Math.trunc(bit / 6)
      const two = (SEXTETS[units[at]!]! << 6) | SEXTETS[units[at + 1]!]!
      bytes.read((two >>> (4 - (bit % 6))) & 0xff, 0, 0)
      if (bytes.idle) break
    }
    return this.#isFound
  }

  /** Decodes from a place on. @param goesOn whether a state of {@link candidateTable} is still that of a run or row */
  *#decode(
    from: number,
    decoders: readonly Decoder[],
    goesOn: (state: number) => boolean,
  ): Task<boolean> {
    const units = this.#units
    let state = 0
    for (let at = from, pause = from + DECODED_PIECE; at < units.length && !this.#isFound;) {
      if (at >= pause) {
        pause = at + DECODED_PIECE
        yield
      }
      const codePoint = codePointAt(units, at)
      const start = at
      at += codePoint > 0xffff ? 2 : 1
      if (!this.isVisible(codePoint)) continue
      state = codePoint < 128 ? candidateTable()[state + codePoint]! & STATE : 0
      if (!goesOn(state)) break
      for (const decoder of decoders) decoder.read(codePoint, start, at)
    }
    for (const decoder of decoders) decoder.end()
    return this.#isFound
  }
}

// Whether a match may begin with two bytes.
const NO_BEGINNING = 1
const MAY_BEGIN = 2

function isOf(kind: number, code: number): boolean {
  return code < 128 && (KINDS[code]! & kind) !== 0
}

/** The code point that begins at an index; half of a surrogate pair where the other half is missing. */
function codePointAt(units: Utf16, at: number): number {
  const unit = units[at]!
  const next = (unit & 0xfc00) === 0xd800 && at + 1 < units.length ? units[at + 1]! : 0
  return (next & 0xfc00) === 0xdc00 ? 0x10000 + ((unit & 0x3ff) << 10) + (next & 0x3ff) : unit
}

/** Fewer digits are not decoded. */
const MIN_DIGITS = MIN_PAIRS * 2

// An automaton over ASCII that tells where something encoded may be. Its states are counters: of base64 characters in a row, of
// hexadecimal digits with separators between them (both up to the length from which they are decoded), and of separators since
// the last digit. A counter has bits of its own, and a state plus an ASCII code is an index into the table.
const RUN_SHIFT = 13
const ROW_SHIFT = 9
const SEPARATORS_SHIFT = 7

// What a step of the table may report beside the next state.
const REPORT = 1 << 17
/** A run or a row has become long enough; reported once for each. */
const BASE64_RUN = REPORT
const HEX_ROW = REPORT << 1
/** An escape may begin here. */
const ESCAPE_START = REPORT << 2
const STATE = REPORT - 1

let table: Int32Array | undefined

/** The next state and what is reported, at state plus ASCII code. State 0 stands before any text. */
function candidateTable(): Int32Array {
  // It has 73,728 entries, and a gateway without patterns needs none: they were 4 % of the start.
  return (table ??= Int32Array.from({ length: (MIN_BASE64 + 1) << RUN_SHIFT }, (_, index) => {
    const code = index & 127
    return KINDS[code] === INVISIBLE ? index - code : candidateAfter(index - code, code)
  }))
}

function candidateAfter(state: number, code: number): number {
  const [run, row] = [base64RunIn(state), hexRowIn(state)]
  const separators = (state >> SEPARATORS_SHIFT) & 3
  const [isDigit, isPart] = [isOf(HEX_DIGIT, code), isOf(BASE64, code)]
  // White space and the sign of `0x` do not count.
  const count = separators + (isSeparator(code) && !isWhite(code) ? 1 : 0)
  const staysInRow = row > 0 && (isSeparator(code) || isHexSign(code)) && count <= MAX_SEPARATORS
  const staysInRun = run === MIN_BASE64 && isLineBreak(code)
  const nextRun = isPart ? Math.min(run + 1, MIN_BASE64) : staysInRun ? run : 0
  const nextRow = isDigit ? Math.min(row + 1, MIN_DIGITS) : staysInRow ? row : 0
  return (
    (nextRun << RUN_SHIFT) |
    (nextRow << ROW_SHIFT) |
    ((!isDigit && staysInRow ? count : 0) << SEPARATORS_SHIFT) |
    (run < nextRun && nextRun === MIN_BASE64 ? BASE64_RUN : 0) |
    (row < nextRow && nextRow === MIN_DIGITS ? HEX_ROW : 0) |
    (isOf(ESCAPE, code) ? ESCAPE_START : 0)
  )
}

function base64RunIn(state: number): number {
  return state >> RUN_SHIFT
}

function hexRowIn(state: number): number {
  return (state >> ROW_SHIFT) & 15
}
