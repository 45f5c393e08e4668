/**
 * View D: what base64, hexadecimal digits and escapes in a text stand for, one level deep (guard design, 3.2). Decoders
 * read code points with their places in the raw text and hand symbols with places to readers.
 */

import { SEPARATOR_SYMBOL } from './fold.ts'

/** Takes what was decoded. */
export interface CodePointSink {
  /** Nothing of what was read may be part of a match with what follows. */
  readonly idle: boolean
  /** By byte of UTF-8: 0 if no match can begin with it. */
  readonly begins: Uint8Array
  /** @param symbol a code point, or `SEPARATOR_SYMBOL` for what cannot be one */
  read(symbol: number, start: number, end: number): void
  /** What follows does not belong to what was read. */
  restart(): void
  /**
   * From where on the raw text may be part of a match; Infinity if nothing is.
   * @param isExact whether it may not lag
   */
  pendingStart(isExact: boolean): number
}

/** Decodes one sequence; never throws. */
export interface Decoder {
  read(codePoint: number, start: number, end: number): void
  /** The text is over. */
  end(): void
  /** From where on the raw text may be part of something that is not decided; Infinity if nothing is. */
  pendingStart(isExact: boolean): number
}

/** Utf8Decoder of UTF-8 to code points; breaks for what is not valid, and for controls. */
export class Utf8Decoder {
  readonly #reader: CodePointSink
  #missing = 0
  #value = 0
  #least = 0
  #start = 0

  constructor(reader: CodePointSink) {
    this.#reader = reader
  }

  /** A code point is not complete. */
  get pending(): boolean {
    return this.#missing > 0
  }

  /** Nothing of what was read may be part of something. */
  get idle(): boolean {
    return this.#missing === 0 && this.#reader.idle
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
    if (this.#reader.begins[byte] === 0 && this.#reader.idle) return
    if (byte < 0x80) return this.#reader.read(isText(byte) ? byte : SEPARATOR_SYMBOL, start, end)
    this.#start = start
    if (byte >= 0xc2 && byte < 0xe0) this.#expect(1, byte & 0x1f, 0x80)
    else if (byte >= 0xe0 && byte < 0xf0) this.#expect(2, byte & 0x0f, 0x800)
    else if (byte >= 0xf0 && byte < 0xf5) this.#expect(3, byte & 0x07, 0x10000)
    else this.#reader.read(SEPARATOR_SYMBOL, start, end)
  }

  /** What is incomplete stays so. */
  cut(end: number): void {
    if (this.#missing === 0) return
    this.#missing = 0
    if (!this.#reader.idle) this.#reader.read(SEPARATOR_SYMBOL, this.#start, end)
  }

  restart(): void {
    this.#missing = 0
    this.#reader.restart()
  }

  pendingStart(isExact: boolean): number {
    const held = this.#reader.pendingStart(isExact)
    return this.#missing > 0 ? Math.min(held, this.#start) : held
  }

  #expect(missing: number, value: number, least: number): void {
    this.#missing = missing
    this.#value = value
    this.#least = least
  }

  #emit(value: number, end: number): void {
    const isValid = value >= this.#least && isText(value) && value >>> 11 !== 0x1b
    this.#reader.read(isValid && value <= 0x10ffff ? value : SEPARATOR_SYMBOL, this.#start, end)
  }
}

/** Can a code point be part of a text? Controls end what they are in, so that junk before a text does not hide it. */
export function isText(codePoint: number): boolean {
  if (codePoint < 0x20) return codePoint === 0x09 || codePoint === 0x0a || codePoint === 0x0d
  return codePoint < 0x7f || codePoint > 0x9f
}

/** The place of each character in an alphabet, by its ASCII code; -1 for others. */
export function valuesOf(alphabet: string): Int8Array {
  const values = new Int8Array(128).fill(-1)
  for (const [value, character] of Array.from(alphabet).entries()) {
    values[character.charCodeAt(0)] = value
  }
  return values
}
