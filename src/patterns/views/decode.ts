/**
 * View `decoded`: base64 and hexadecimal digits; escapes are in `escapes.ts`. A decoder reads code points with their offsets in
 * the text, and hands decoded symbols with the offsets of what they were decoded from to a sink. Only one level is decoded.
 */
import { SEPARATOR_SYMBOL } from './fold.ts'

/** Receives decoded symbols. */
export interface CodePointSink {
  /** No match is under way that may go on with the next symbol. */
  readonly idle: boolean
  /** A number for each byte of UTF-8: 0 if no match begins with it. */
  readonly begins: Uint8Array
  /** @param symbol a code point, or `SEPARATOR_SYMBOL` for bytes that are not text */
  read(symbol: number, start: number, end: number): void
  /** The next symbol does not continue what was read. */
  restart(): void
  /**
   * Where the oldest match under way may begin in the text; Infinity if there is none.
   * @param isExact false: the answer may lag
   */
  pendingStart(isExact: boolean): number
}

/** Decodes one sequence of code points. Never throws. */
export interface Decoder {
  read(codePoint: number, start: number, end: number): void
  /** The text is over. */
  end(): void
  /** Where the oldest undecided part of the text begins; Infinity if there is none. */
  pendingStart(isExact: boolean): number
}

/** Turns bytes into code points, and invalid bytes and control characters into `SEPARATOR_SYMBOL`. */
export class Utf8Decoder {
  readonly #sink: CodePointSink
  #missing = 0
  #value = 0
  #least = 0
  #start = 0

  constructor(sink: CodePointSink) {
    this.#sink = sink
  }

  /** No code point is incomplete, and no match is under way. */
  get idle(): boolean {
    return this.#missing === 0 && this.#sink.idle
  }

  read(byte: number, start: number, end: number): void {
    if (this.#missing > 0) {
      if ((byte & 0xc0) === 0x80) {
        this.#value = (this.#value << 6) | (byte & 0x3f)
        if (--this.#missing === 0) this.#emit(this.#value, end)
        return
      }
      this.cut(start)
    }
    if (this.#sink.begins[byte] === 0 && this.#sink.idle) return
    if (byte < 0x80) return this.#sink.read(isText(byte) ? byte : SEPARATOR_SYMBOL, start, end)
    this.#start = start
    if (byte >= 0xc2 && byte < 0xe0) this.#expect(1, byte & 0x1f, 0x80)
    else if (byte >= 0xe0 && byte < 0xf0) this.#expect(2, byte & 0x0f, 0x800)
    else if (byte >= 0xf0 && byte < 0xf5) this.#expect(3, byte & 0x07, 0x10000)
    else this.#sink.read(SEPARATOR_SYMBOL, start, end)
  }

  /** Nothing follows that could complete a code point. */
  cut(end: number): void {
    if (this.#missing === 0) return
    this.#missing = 0
    if (!this.#sink.idle) this.#sink.read(SEPARATOR_SYMBOL, this.#start, end)
  }

  restart(): void {
    this.#missing = 0
    this.#sink.restart()
  }

  pendingStart(isExact: boolean): number {
    const pending = this.#sink.pendingStart(isExact)
    return this.#missing > 0 ? Math.min(pending, this.#start) : pending
  }

  #expect(missing: number, value: number, least: number): void {
    this.#missing = missing
    this.#value = value
    this.#least = least
  }

  #emit(value: number, end: number): void {
    const isValid = value >= this.#least && isText(value) && value >>> 11 !== 0x1b
    this.#sink.read(isValid && value <= 0x10ffff ? value : SEPARATOR_SYMBOL, this.#start, end)
  }
}

/** Whether a code point is text. Control characters separate, so that binary data before a text does not hide it. */
export function isText(codePoint: number): boolean {
  if (codePoint < 0x20) return codePoint === 0x09 || codePoint === 0x0a || codePoint === 0x0d
  return codePoint < 0x7f || codePoint > 0x9f
}

/** The position of each character in an alphabet, by ASCII code; -1 for others. */
function valuesOf(alphabet: string): Int8Array {
  const values = new Int8Array(128).fill(-1)
  for (const [value, character] of Array.from(alphabet).entries()) {
    values[character.charCodeAt(0)] = value
  }
  return values
}

/** The first values of something that is decoded only if it becomes long enough, with their offsets. */
class Beginning {
  readonly #numbers: Int32Array
  readonly #length: number
  count = 0

  /** @param length values from which on it is long enough */
  constructor(length: number) {
    this.#numbers = new Int32Array(length * 3)
    this.#length = length
  }

  /** Where it begins. */
  get start(): number {
    return this.#numbers[1]!
  }

  get isLong(): boolean {
    return this.count === this.#length
  }

  /** @returns whether it is long enough now */
  add(value: number, start: number, end: number): boolean {
    const numbers = this.#numbers
    const at = this.count++ * 3
    numbers[at] = value
    numbers[at + 1] = start
    numbers[at + 2] = end
    return this.isLong
  }

  each(use: CodePointSink['read']): void {
    const numbers = this.#numbers
    for (let at = 0; at < numbers.length; at += 3) {
      use(numbers[at]!, numbers[at + 1]!, numbers[at + 2]!)
    }
  }
}

/** Shorter runs are not decoded. */
export const MIN_BASE64 = 8

/** Values of base64 and base64url characters by ASCII code; -1 for others. */
export const SEXTETS = valuesOf('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/')
SEXTETS[0x2d] = 62
SEXTETS[0x5f] = 63

/**
 * Decodes runs of at least {@link MIN_BASE64} base64 characters four times: with groups of four that begin at the first to
 * the fourth character. Line breaks behind so many do not end a run.
 */
export class Base64 implements Decoder {
  /** One decoder for each position of a group's first character, modulo 4. */
  readonly #bytes: readonly Utf8Decoder[]
  readonly #beginning = new Beginning(MIN_BASE64)
  #fed = 0
  #last = 0
  #lastStart = 0

  /** @param sinks four of them */
  constructor(sinks: readonly CodePointSink[]) {
    this.#bytes = sinks.map((sink) => new Utf8Decoder(sink))
  }

  get isActive(): boolean {
    return this.#beginning.count > 0
  }

  read(codePoint: number, start: number, end: number): void {
    const beginning = this.#beginning
    const value = codePoint < 128 ? SEXTETS[codePoint]! : -1
    if (value < 0) {
      if (!beginning.isLong || !isLineBreak(codePoint)) this.end()
    } else if (beginning.isLong) this.#feed(value, start, end)
    else if (beginning.add(value, start, end)) beginning.each((...one) => this.#feed(...one))
  }

  end(): void {
    this.#beginning.count = 0
    if (this.#fed === 0) return
    this.#fed = 0
    for (const bytes of this.#bytes) bytes.restart()
  }

  pendingStart(isExact: boolean): number {
    if (!this.isActive) return Infinity
    if (!this.#beginning.isLong) return this.#beginning.start
    // For three of the four decoders the last character is part of an unfinished byte.
    let pending = this.#lastStart
    for (const bytes of this.#bytes) pending = Math.min(pending, bytes.pendingStart(isExact))
    return pending
  }

  #feed(value: number, start: number, end: number): void {
    // Each character completes a byte for three of the decoders: the first, second or third byte of their group.
    const at = this.#fed++
    const two = (this.#last << 6) | value
    const from = this.#lastStart
    if (at >= 1) this.#bytes[(at - 1) & 3]!.read((two >>> 4) & 0xff, from, end)
    if (at >= 2) this.#bytes[(at - 2) & 3]!.read((two >>> 2) & 0xff, from, end)
    if (at >= 3) this.#bytes[(at - 3) & 3]!.read(two & 0xff, from, end)
    this.#last = value
    this.#lastStart = start
  }
}

/** Shorter rows, in pairs of digits, are not decoded. */
export const MIN_PAIRS = 4

/** Values of hexadecimal digits by ASCII code; -1 for others. */
export const DIGITS = valuesOf('0123456789abcdef')
for (const [index, code] of [...'ABCDEF'].entries()) DIGITS[code.charCodeAt(0)] = 10 + index

/**
 * Decodes rows of digits in pairs. Between two pairs there may be white space, up to {@link MAX_SEPARATORS} other
 * separators and a `0x`.
 */
export class Hex implements Decoder {
  readonly #bytes: Utf8Decoder
  /** How many digits of a row are skipped before the first pair: 0 or 1. */
  readonly #offset: number
  #skip: number
  #half = -1
  #halfStart = 0
  readonly #beginning = new Beginning(MIN_PAIRS)
  #separators = 0

  constructor(sink: CodePointSink, offset: number) {
    this.#bytes = new Utf8Decoder(sink)
    this.#offset = this.#skip = offset
  }

  /** A character that is no digit would change something. */
  get isActive(): boolean {
    return this.#half >= 0 || this.#beginning.count > 0 || this.#skip !== this.#offset
  }

  read(codePoint: number, start: number, end: number): void {
    const value = codePoint < 128 ? DIGITS[codePoint]! : -1
    if (value >= 0) return this.#digit(value, start, end)
    if (isHexSign(codePoint) && this.#half === 0) {
      this.#half = -1
      return
    }
    const goesOn = this.#beginning.count > 0 && this.#half < 0 && isSeparator(codePoint)
    if (goesOn && !isWhite(codePoint)) this.#separators++
    if (!goesOn || this.#separators > MAX_SEPARATORS) this.end()
  }

  end(): void {
    if (this.#beginning.isLong) this.#bytes.restart()
    this.#beginning.count = 0
    this.#skip = this.#offset
    this.#half = -1
    this.#separators = 0
  }

  pendingStart(isExact: boolean): number {
    const half = this.#half < 0 ? Infinity : this.#halfStart
    if (this.#beginning.isLong) return Math.min(half, this.#bytes.pendingStart(isExact))
    return this.#beginning.count > 0 ? this.#beginning.start : half
  }

  #digit(value: number, start: number, end: number): void {
    this.#separators = 0
    if (this.#skip > 0) {
      this.#skip--
      return
    }
    if (this.#half < 0) {
      this.#half = value
      this.#halfStart = start
      return
    }
    const byte = (this.#half << 4) | value
    this.#half = -1
    const [beginning, bytes] = [this.#beginning, this.#bytes]
    if (beginning.isLong) bytes.read(byte, this.#halfStart, end)
    else if (beginning.add(byte, this.#halfStart, end)) {
      beginning.each((...one) => bytes.read(...one))
    }
  }
}

/** Most separators between two pairs, not counting white space. */
export const MAX_SEPARATORS = 3
const SEPARATORS = new Set([...':-,;"\''].map((sign) => sign.charCodeAt(0)))

/** Whether a code point may stand between two pairs: white space, or a sign of lists. */
export function isSeparator(codePoint: number): boolean {
  return isWhite(codePoint) || SEPARATORS.has(codePoint)
}

/** Whether it is the `x` of `0x`. */
export function isHexSign(codePoint: number): boolean {
  return codePoint === 0x78 || codePoint === 0x58
}

/** Blank, tab or line break. */
export function isWhite(codePoint: number): boolean {
  return codePoint === 0x20 || codePoint === 0x09 || isLineBreak(codePoint)
}

/** Line feed or carriage return. */
export function isLineBreak(codePoint: number): boolean {
  return codePoint === 0x0a || codePoint === 0x0d
}
