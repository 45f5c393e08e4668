/** Hexadecimal digits in a text. */
import { Utf8Decoder, valuesOf, type Decoder, type CodePointSink } from './decode.ts'

/** Shorter rows, in pairs of digits, are not decoded. */
export const MIN_PAIRS = 4

/** Values of hexadecimal digits by ASCII code; -1 for others. */
export const DIGITS = valuesOf('0123456789abcdef')
for (const [index, code] of [...'ABCDEF'].entries()) DIGITS[code.charCodeAt(0)] = 10 + index

/** Pairs of hexadecimal digits, with at most one separator between two pairs. */
export class Hex implements Decoder {
  readonly #bytes: Utf8Decoder
  /** How many digits are left out at the beginning of a run: 0 or 1. */
  readonly #offset: number
  #skip: number
  #half = -1
  #halfStart = 0
  #pairs = 0
  #start = 0
  #afterSeparator = false
  readonly #waiting: [byte: number, start: number, end: number][] = []

  constructor(reader: CodePointSink, offset: number) {
    this.#bytes = new Utf8Decoder(reader)
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
      const held = this.#bytes.pendingStart(isExact)
      return this.#half < 0 ? held : Math.min(held, this.#halfStart)
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
 * Where the digits begin that wait for more of their row: those of the {@link Hex} with this offset, once it has read a
 * stretch with too few for a row. What is no digit and no separator is passed over.
 * @returns a place in the stretch; Infinity if none waits
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

/** Space, colon, hyphen, comma. */
export function isSeparator(codePoint: number): boolean {
  return codePoint === 0x20 || codePoint === 0x3a || codePoint === 0x2d || codePoint === 0x2c
}
