/** Decodes hexadecimal digits inside a text. */
import { Utf8Decoder, valuesOf, type CodePointSink, type Decoder } from './decode.ts'

/** Shorter rows, in pairs of digits, are not decoded. */
export const MIN_PAIRS = 4

/** Values of hexadecimal digits by ASCII code; -1 for others. */
export const DIGITS = valuesOf('0123456789abcdef')
for (const [index, code] of [...'ABCDEF'].entries()) DIGITS[code.charCodeAt(0)] = 10 + index

/** Decodes rows of digits in pairs, with at most one separator between two pairs. */
export class Hex implements Decoder {
  readonly #bytes: Utf8Decoder
  /** How many digits of a row are skipped before the first pair: 0 or 1. */
  readonly #offset: number
  #skip: number
  #half = -1
  #halfStart = 0
  #pairs = 0
  #start = 0
  #afterSeparator = false
  readonly #waiting: [byte: number, start: number, end: number][] = []

  constructor(sink: CodePointSink, offset: number) {
    this.#bytes = new Utf8Decoder(sink)
    this.#offset = this.#skip = offset
  }

  read(codePoint: number, start: number, end: number): void {
    const value = codePoint < 128 ? DIGITS[codePoint]! : -1
    if (value >= 0) return this.#digit(value, start, end)
    const goesOn = this.#pairs > 0 && this.#half < 0 && !this.#afterSeparator
    if (goesOn && isSeparator(codePoint)) this.#afterSeparator = true
    else this.end()
  }

  end(): void {
    if (this.#pairs >= MIN_PAIRS) this.#bytes.restart()
    this.#skip = this.#offset
    this.#half = -1
    this.#pairs = 0
    this.#afterSeparator = false
    this.#waiting.length = 0
  }

  pendingStart(isExact: boolean): number {
    if (this.#pairs >= MIN_PAIRS) {
      const pending = this.#bytes.pendingStart(isExact)
      return this.#half < 0 ? pending : Math.min(pending, this.#halfStart)
    }
    return this.#pairs > 0 || this.#half >= 0 ? this.#start : Infinity
  }

  #digit(value: number, start: number, end: number): void {
    this.#afterSeparator = false
    if (this.#skip > 0) {
      this.#skip--
      return
    }
    if (this.#half < 0) {
      if (this.#pairs === 0) this.#start = start
      this.#half = value
      this.#halfStart = start
      return
    }
    const byte = (this.#half << 4) | value
    this.#half = -1
    if (++this.#pairs > MIN_PAIRS) return this.#bytes.read(byte, this.#halfStart, end)
    this.#waiting.push([byte, this.#halfStart, end])
    if (this.#pairs < MIN_PAIRS) return
    for (const one of this.#waiting) this.#bytes.read(...one)
    this.#waiting.length = 0
  }
}

/**
 * Where a row begins that is still too short, in a part of a text: what a {@link Hex} with this offset would wait with.
 * Characters that are neither digits nor separators are skipped.
 * @returns an index into the units; Infinity if there is no such row
 */
export function pendingHexStart(
  units: Uint16Array,
  from: number,
  to: number,
  offset: number,
): number {
  let left = offset
  let count = 0
  let start = Infinity
  let afterSeparator = false
  for (let at = from; at < to; at++) {
    const unit = units[at]!
    if (unit < 128 && DIGITS[unit]! >= 0) {
      afterSeparator = false
      if (left > 0) left--
      else if (count++ === 0) start = at
    } else if (isSeparator(unit)) {
      if (count > 0 && count % 2 === 0 && !afterSeparator) afterSeparator = true
      else {
        left = offset
        count = 0
        start = Infinity
        afterSeparator = false
      }
    }
  }
  return start
}

/** Whether a code point may stand between two pairs: space, colon, hyphen or comma. */
export function isSeparator(codePoint: number): boolean {
  return codePoint === 0x20 || codePoint === 0x3a || codePoint === 0x2d || codePoint === 0x2c
}
