/**
 * The quick half of a search in a whole text: can anything in it match? One pass takes the text through the automaton of
 * all views but `decoded` and finds what that view may have to decode. Only what may match is read again, with positions.
 */
import { endianness } from 'node:os'
import { Base64, MIN_BASE64, SEXTETS, Utf8Decoder, type Decoder, Hex } from './views/decode.ts'
import { ANY_ESCAPE, Escapes } from './views/escapes.ts'
import type { CompiledPatterns } from './build.ts'
import { DecodedText, DfaCursor, firstBytesOf } from './cursor.ts'
import {
  BASE64,
  BASE64_RUN,
  CANDIDATES,
  CHAR_CLASS,
  codePointAt,
  ESCAPE_START,
  HEX_DIGIT,
  HEX_ROW,
  HEX_SEPARATOR,
  LINE_BREAK,
  separatorsAfter,
  INVISIBLE,
  MIN_DIGITS,
  STATE,
  type Utf16,
} from './encoded-scanner.ts'
import { memoryBudget } from './memory-budget.ts'
import { UNSEEN_CLASS, type ProductDfa } from './product-dfa.ts'
import type { Task } from './time-slice.ts'

/** Characters of known text between two pauses: up to 100 µs. */
const PIECE = 1 << 13
/** The same where each is decoded. */
const DECODED_PIECE = 1 << 10
/** Longer runs are decoded as a whole. */
const SHORT_RUN = 64
/** In place of a character class: everything is decoded. */
const ANYTHING = 0

/** Whether a text may match, if that takes a single step to tell; true where it takes more. */
export function mayMatch(compiled: CompiledPatterns, text: string): boolean {
  if (text.length > PIECE) return true
  const { done, value } = mayContainMatch(compiled, text).next()
  return !done || value
}

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
    const { built } = pass.cursor
    if (pass.read(codePoint)) return true
    const { reports } = pass
    if ((reports & BASE64_RUN) !== 0) {
      const found = pass.encoded!.isInRun(at)
      if (typeof found === 'boolean' ? found : yield* found) return true
    }
    if ((reports & HEX_ROW) !== 0 && (yield* pass.encoded!.isInRow(at))) return true
    if (pass.cursor.built > built) yield
    at += codePoint > 0xffff ? 2 : 1
  }
  if (pass.cursor.endsInMatch()) return true
  if ((pass.reports & ESCAPE_START) === 0 || !ANY_ESCAPE.test(text)) return false
  return yield* pass.encoded!.isInEscapes()
}

/** One pass over a text: the automaton of the text itself, and the table of encoded candidates. */
class Pass {
  readonly cursor: DfaCursor
  readonly encoded: EncodedSearch | undefined
  /** What {@link CANDIDATES} reported for the last character read; an escape stays reported. */
  reports = 0
  readonly #units: Utf16
  /** A state of {@link CANDIDATES}. */
  #candidates = 0

  constructor({ text: dfa, decoded }: CompiledPatterns, units: Utf16) {
    this.cursor = new DfaCursor(dfa)
    this.encoded = decoded && new EncodedSearch(decoded, units)
    this.#units = units
  }

  /** Skips ASCII characters with known transitions that neither end a match nor report anything. @returns up to where */
  skip(from: number, to: number): number {
    const units = this.#units
    const { cursor } = this
    const { ascii } = cursor.dfa
    const { cells } = cursor.table
    const table = this.encoded ? CANDIDATES : NO_CANDIDATES
    let { state } = cursor
    let candidates = this.#candidates
    let at = from
    for (; at < to; at++) {
      const code = units[at]!
      if (code >= 128) break
      const next = cells[state + ascii[code]!]!
      const after = table[candidates + code]!
      if (next <= 0 || after > STATE) break
      state = next
      candidates = after
    }
    cursor.state = state
    this.#candidates = candidates
    return at
  }

  /** @returns whether a match may end with this code point */
  read(codePoint: number): boolean {
    const { cursor, encoded } = this
    if (encoded) {
      let after = this.#candidates
      if (codePoint < 128) after = CANDIDATES[after + codePoint]!
      else if (encoded.isVisible(codePoint)) after = 0
      this.#candidates = after & STATE
      this.reports = (this.reports & ESCAPE_START) | (after & ~STATE)
    }
    return cursor.step(cursor.dfa.classOf(codePoint))
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
  readonly #beginnings: Uint8Array
  /** Used for short runs. */
  readonly #bytes: Utf8Decoder
  #found = false
  /** By byte: 0 if no match begins with it. */
  readonly #begins: Uint8Array

  constructor(dfa: ProductDfa, units: Utf16) {
    this.#dfa = dfa
    this.#units = units
    this.#beginnings = beginningsOf(dfa)
    this.#begins = firstBytesOf(dfa)
    this.#bytes = new Utf8Decoder(this.#sink())
  }

  #sink(): DecodedText {
    return new DecodedText(this.#dfa, () => (this.#found = true))
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
    return this.#decode(start, BASE64 | LINE_BREAK, [decoder])
  }

  /** The same for a row of hexadecimal digits. */
  *isInRow(at: number): Task<boolean> {
    const decoders = [new Hex(this.#sink(), 0), new Hex(this.#sink(), 1)]
    const start = this.#startOf(at, HEX_DIGIT, MIN_DIGITS)
    return yield* this.#decode(start, HEX_DIGIT | HEX_SEPARATOR, decoders)
  }

  /** Whether there is a match in the text with its escapes decoded. */
  *isInEscapes(): Task<boolean> {
    return yield* this.#decode(0, ANYTHING, [new Escapes(this.#sink())])
  }

  /** Goes back over so many characters of a class, of which the last is at this place. @returns where the first is */
  #startOf(at: number, charClass: number, count: number): number {
    for (let left = count - 1; left > 0;) {
      const code = this.#units[--at]!
      if (isOf(charClass, code)) left--
    }
    return at
  }

  /** Where a run ends if it is short and without invisible characters; else 0. */
  #endOfShortRun(start: number, at: number): number {
    const units = this.#units
    const last = Math.min(units.length, start + SHORT_RUN)
    let end = at + 1
    while (end < last && isOf(BASE64, units[end]!)) end++
    const isShort = at - start < MIN_BASE64 && (end < last || last === units.length)
    return isShort && !isOf(LINE_BREAK, units[end] ?? 0) && !mayBeInvisible(units[end]) ? end : 0
  }

  /**
   * Whether there is a match in a short run, as most long words are. Only bytes with which a match may begin are decoded:
   * 2 KB with 8 literals take 13 µs; with all runs decoded, 23.
   */
  #isInShortRun(start: number, end: number): boolean {
    const units = this.#units
    const begins = this.#begins
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
    const known = this.#beginnings[two]!
    if (known !== 0) return known === MAY_BEGIN
    const bytes = new Utf8Decoder(this.#sink())
    bytes.read(two >>> 8, 0, 0)
    if (!bytes.idle) bytes.read(two & 0xff, 0, 0)
    // A single code point may fold to a whole literal.
    const may = this.#found || !bytes.idle
    this.#found = false
    this.#beginnings[two] = may ? MAY_BEGIN : NO_BEGINNING
    return may
  }

  /** Whether there is a match in the bytes from a bit on, as long as anything is alive. */
  #isAtBit(bit: number, end: number): boolean {
    const units = this.#units
    const bytes = this.#bytes
    bytes.restart()
    for (; bit + 8 <= end && !this.#found; bit += 8) {
      const at = Math.trunc(bit / 6)
      const two = (SEXTETS[units[at]!]! << 6) | SEXTETS[units[at + 1]!]!
      bytes.read((two >>> (4 - (bit % 6))) & 0xff, 0, 0)
      if (bytes.idle) break
    }
    return this.#found
  }

  /** Decodes from a place on while characters are of a class. @returns whether there is a match */
  *#decode(from: number, charClass: number, decoders: readonly Decoder[]): Task<boolean> {
    const units = this.#units
    let separators = 0
    for (let at = from, pause = from + DECODED_PIECE; at < units.length;) {
      if (at >= pause) {
        pause = at + DECODED_PIECE
        yield
      }
      const codePoint = codePointAt(units, at)
      const start = at
      at += codePoint > 0xffff ? 2 : 1
      if (!this.isVisible(codePoint)) continue
      if (charClass !== ANYTHING) {
        const of = codePoint < 128 ? CHAR_CLASS[codePoint]! & charClass : 0
        if (of === 0) break
        const separates = (of & HEX_SEPARATOR) !== 0
        separators = separates ? separatorsAfter(separators, CHAR_CLASS[codePoint]!) : 0
        if (separators < 0) break
      }
      for (const decoder of decoders) decoder.read(codePoint, start, at)
      if (this.#found) return true
    }
    for (const decoder of decoders) decoder.end()
    return this.#found
  }
}

// Whether a match may begin with two bytes.
const NO_BEGINNING = 1
const MAY_BEGIN = 2
const beginnings = new WeakMap<ProductDfa, Uint8Array>()

/** By two bytes: what is known of them, or 0. */
function beginningsOf(dfa: ProductDfa): Uint8Array {
  let known = beginnings.get(dfa)
  if (known === undefined) {
    known = new Uint8Array(1 << 16)
    beginnings.set(dfa, known)
    memoryBudget.reserve({ drop: () => beginnings.delete(dfa) }, known.length)
  }
  return known
}

function isOf(charClass: number, code: number): boolean {
  return code < 128 && (CHAR_CLASS[code]! & charClass) !== 0
}

function mayBeInvisible(code: number | undefined): boolean {
  return code !== undefined && (code >= 128 || CHAR_CLASS[code] === INVISIBLE)
}
