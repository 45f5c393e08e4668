/** Decodes base64 inside a text. */
import { Utf8Decoder, valuesOf, type CodePointSink, type Decoder } from './decode.ts'

/** Shorter runs are not decoded. */
export const MIN_BASE64 = 8

/** Values of base64 and base64url characters by ASCII code; -1 for others. */
export const SEXTETS = valuesOf('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/')
SEXTETS[0x2d] = 62
SEXTETS[0x5f] = 63

/** Decodes runs of base64 characters four times: with groups of four that begin at the first to the fourth character. */
export class Base64 implements Decoder {
  /** By the position of a group's first character, modulo 4. */
  readonly #bytes: readonly Utf8Decoder[]
  #length = 0
  /** The characters of a run that is still too short. */
  readonly #waiting: { value: number; start: number; end: number }[] = []
  #fed = 0
  #last = 0
  #lastStart = 0

  /** @param sinks four of them */
  constructor(sinks: readonly CodePointSink[]) {
    this.#bytes = sinks.map((sink) => new Utf8Decoder(sink))
    for (let at = 0; at < MIN_BASE64; at++) this.#waiting.push({ value: 0, start: 0, end: 0 })
  }

  read(codePoint: number, start: number, end: number): void {
    const value = codePoint < 128 ? SEXTETS[codePoint]! : -1
    if (value < 0) {
      if (this.#length > 0) this.end()
      return
    }
    if (this.#length >= MIN_BASE64) {
      this.#length++
      this.#feed(value, start, end)
      return
    }
    const waiting = this.#waiting[this.#length++]!
    waiting.value = value
    waiting.start = start
    waiting.end = end
    if (this.#length === MIN_BASE64) {
      for (const one of this.#waiting) this.#feed(one.value, one.start, one.end)
    }
  }

  end(): void {
    this.#length = 0
    if (this.#fed === 0) return
    this.#fed = 0
    for (const bytes of this.#bytes) bytes.restart()
  }

  pendingStart(isExact: boolean): number {
    if (this.#length === 0) return Infinity
    if (this.#fed === 0) return this.#waiting[0]!.start
    // For three of the four decoders the last character is part of an unfinished byte.
    let pending = this.#lastStart
    for (const bytes of this.#bytes) pending = Math.min(pending, bytes.pendingStart(isExact))
    return pending
  }

  // Each character completes a byte for three of the decoders: the first, second or third byte of their group.
  #feed(value: number, start: number, end: number): void {
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
