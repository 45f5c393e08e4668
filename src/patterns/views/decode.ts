/**
 * What all decoders of view `decoded` share. A decoder reads code points with their offsets in the text and hands decoded
 * symbols with the offsets of what they were decoded from to a sink. Only one level is decoded.
 */

import { SEPARATOR_SYMBOL } from './fold.ts'

/** Receives decoded symbols. */
export interface CodePointSink {
  /** No match is under way that may go on with the next symbol. */
  readonly idle: boolean
  /** By byte of UTF-8: 0 if no match begins with it. */
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

  /** A code point is incomplete. */
  get pending(): boolean {
    return this.#missing > 0
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
export function valuesOf(alphabet: string): Int8Array {
  const values = new Int8Array(128).fill(-1)
  for (const [value, character] of Array.from(alphabet).entries()) {
    values[character.charCodeAt(0)] = value
  }
  return values
}
