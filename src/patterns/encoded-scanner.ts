/**
 * View D over a text that grows. Decoders are at work only where there may be something to decode. The rest is counted,
 * and its end kept, so that they can be told of it later.
 */
import { MIN_BASE64 } from './views/base64.ts'
import type { Decoder } from './views/decode.ts'
import { MIN_PAIRS, pendingHexStart } from './views/hex.ts'
import { Decoders } from './decoders.ts'
import { UNSEEN_CLASS, type ProductDfa } from './product-dfa.ts'
import { DIGIT, ESCAPE, SEPARATOR, SEXTET, SORTS, UNSEEN } from './char-class.ts'
const CODES = 128
import type { Found } from './match-cursor.ts'
import { codePointAt, type Utf16 } from './utf16.ts'

const MIN_DIGITS = MIN_PAIRS * 2
/** So many units are passed over at once, and have to be kept at most. */
const STRETCH = 1_024

// A state is made of what is counted, times the number of codes.
const DIGIT_STATES = MIN_DIGITS * 2
const stateOf = (run: number, digits: number, separated: boolean) =>
  (run * DIGIT_STATES + digits * 2 + (separated ? 1 : 0)) * CODES
const runIn = (state: number) => Math.floor(state / CODES / DIGIT_STATES)
const digitsIn = (state: number) => Math.floor(state / CODES / 2) % MIN_DIGITS
const isSeparatedIn = (state: number) => Math.floor(state / CODES) % 2 === 1

/** By state plus ASCII code: the next state, or -1 for what has to be {@link EncodedScanner.read}. */
const STEPS = new Int16Array(MIN_BASE64 * DIGIT_STATES * CODES)

for (let run = 0; run < MIN_BASE64; run++) {
  for (let digits = 0; digits < MIN_DIGITS; digits++) {
    for (const separated of [false, true]) {
      const state = stateOf(run, digits, separated)
      for (let code = 0; code < CODES; code++) {
        STEPS[state + code] = after(run, digits, separated, SORTS[code]!)
      }
    }
  }
}

function after(run: number, digits: number, separated: boolean, sort: number): number {
  if ((sort & (ESCAPE | UNSEEN)) !== 0) return -1
  const nextRun = (sort & SEXTET) === 0 ? 0 : run + 1
  const nextDigits = digitsAfter(digits, separated, sort)
  if (nextRun === MIN_BASE64 || nextDigits === MIN_DIGITS) return -1
  return stateOf(nextRun, nextDigits, separates(digits, separated, sort))
}

// With at most one separator between two digits.
function digitsAfter(digits: number, separated: boolean, sort: number): number {
  if ((sort & DIGIT) !== 0) return digits + 1
  return separates(digits, separated, sort) ? digits : 0
}

function separates(digits: number, separated: boolean, sort: number): boolean {
  return (sort & DIGIT) === 0 && (sort & SEPARATOR) !== 0 && digits > 0 && !separated
}

/** Goes through a text beside the track that looks for the same literals in the text itself. */
export class EncodedScanner {
  readonly #dfa: ProductDfa
  #decoded: Decoders | undefined
  /** Of base64 characters component by component: how many, and where in the text. From {@link MIN_BASE64} on they are decoded. */
  #run = 0
  #runStart = 0
  /** The same of hexadecimal digits with at most one separator between two. From {@link MIN_DIGITS} on they are decoded. */
  #digits = 0
  #rowStart = 0
  #separated = false
  /** Escapes are decoded, or were, and what they are part of may go on. */
  #escaping = false
  /** What is before this place has been done with. */
  #escapesStart = 0
  #tail: Utf16 = new Uint16Array(64)
  #kept = 0
  #position = 0

  constructor(dfa: ProductDfa) {
    this.#dfa = dfa
  }

  /** The end of what has been read, in units, with room for more. */
  get tail(): Utf16 {
    return this.#tail
  }

  /** How much it is. */
  get kept(): number {
    return this.#kept
  }

  /** Of the matches that end at the same place, the first pattern's. */
  get found(): Found | undefined {
    return this.#decoded?.found
  }

  /**
   * Reads what decoders need not be told of, as far as that goes.
   * @param since from where on something in the text itself may be part of a match; Infinity if nothing is
   * @returns how much: up to the end, a surrogate, something to be {@link read}, or just enough for once
   */
  skip(text: string, from: number, since: number): number {
    if (this.#escaping || this.#run >= MIN_BASE64 || this.#digits >= MIN_DIGITS) return 0
    const to = Math.min(text.length, from + STRETCH)
    this.#makeSpace(to - from, since)
    const tail = this.#tail
    const kept = this.#kept - from
    let state = stateOf(this.#run, this.#digits, this.#separated)
    let at = from
    for (; at < to; at++) {
      const unit = text.charCodeAt(at)
      if (unit >= CODES) {
        if ((unit & 0xf800) === 0xd800 || this.#sortOf(unit) === UNSEEN) break
        state = 0
      } else {
        const next = STEPS[state + unit]!
        if (next < 0) break
        state = next
      }
      tail[kept + at] = unit
    }
    this.#kept = kept + at
    this.#position += at - from
    this.#skipped(state, text, from, at)
    return at - from
  }

  /** What counts at the end of a stretch began in it, unless there is too little of it. */
  #skipped(state: number, text: string, from: number, to: number): void {
    const left = this.#position - to
    this.#run = runIn(state)
    if (this.#run <= to - from) this.#runStart = left + to - this.#run
    this.#digits = digitsIn(state)
    this.#separated = isSeparatedIn(state)
    let first = to
    for (let missing = this.#digits; missing > 0;) {
      if (first === from) return
      if ((SORTS[text.charCodeAt(--first)]! & DIGIT) !== 0) missing--
    }
    this.#rowStart = left + first
  }

  /** Takes the last units back, of those that were skipped last. */
  unread(units: number): void {
    const tail = this.#tail.subarray(0, this.#kept - units)
    this.#position -= this.#kept
    this.#run = this.#digits = this.#kept = 0
    this.#separated = false
    // All that counts at the end begins in the tail.
    while (this.#kept < tail.length) {
      const codePoint = codePointAt(tail, this.#kept)
      this.#count(this.#sortOf(codePoint), this.#position)
      this.#kept += codePoint > 0xffff ? 2 : 1
      this.#position += codePoint > 0xffff ? 2 : 1
    }
  }

  /**
   * Reads a code point.
   * @param since see {@link skip}; before this code point
   * @returns whether there is a match; nothing may follow it
   */
  read(codePoint: number, since: number): boolean {
    const start = this.#position
    this.#keep(codePoint, since)
    const end = this.#position
    const sort = this.#sortOf(codePoint)
    if (sort === UNSEEN) return false
    const [run, digits] = [this.#run, this.#digits]
    this.#count(sort, start)
    if (this.#run === MIN_BASE64) this.#tell(this.#decoders.base64, this.#runStart)
    else if (this.#run > MIN_BASE64) this.#decoders.base64.read(codePoint, start, end)
    else if (run >= MIN_BASE64) this.#decoders.base64.end()
    for (let at = 0; at < 2; at++) {
      if (this.#digits >= MIN_DIGITS) {
        const hex = this.#decoders.hex[at]!
        if (digits < MIN_DIGITS) this.#tell(hex, this.#rowStart)
        else hex.read(codePoint, start, end)
      } else if (digits >= MIN_DIGITS) this.#decoders.hex[at]!.end()
    }
    if (this.#escaping) this.#decoders.escapes.read(codePoint, start, end)
    else if ((sort & ESCAPE) !== 0) {
      // What is alive in the text until now may go on behind the escape.
      this.#escaping = true
      this.#tell(this.#decoders.escapes, Math.max(Math.min(since, start), this.#escapesStart))
    }
    if (this.found !== undefined) return true
    if (this.#escaping && this.#decoders.escapes.idle) {
      this.#decoders.escapes.restart()
      this.#escaping = false
      this.#escapesStart = end
    }
    return false
  }

  /** The text is over. @returns whether there is a match */
  finish(): boolean {
    if (this.#run >= MIN_BASE64) this.#decoders.base64.end()
    if (this.#digits >= MIN_DIGITS) for (const hex of this.#decoders.hex) hex.end()
    if (this.#escaping) this.#decoders.escapes.end()
    this.#run = this.#digits = 0
    return this.found !== undefined
  }

  /** From where on a match may be under way; Infinity if none is. See {@link MatchCursor.hold}. */
  hold(isExact: boolean): number {
    let held = Infinity
    if (this.#run >= MIN_BASE64) held = this.#decoders.base64.hold(isExact)
    else if (this.#run > 0) held = this.#runStart
    if (this.#digits >= MIN_DIGITS) {
      for (const hex of this.#decoders.hex) held = Math.min(held, hex.hold(isExact))
    } else if (this.#digits > 0 && this.#rowStart < held) {
      held = Math.min(held, this.#pendingHexStart())
    }
    // While none is decoded, what would hold here holds in the text itself.
    return this.#escaping ? Math.min(held, this.#decoders.escapes.hold(isExact)) : held
  }

  get #decoders(): Decoders {
    return (this.#decoded ??= new Decoders(this.#dfa))
  }

  #sortOf(codePoint: number): number {
    if (codePoint < CODES) return SORTS[codePoint]!
    return this.#dfa.classOf(codePoint) === UNSEEN_CLASS ? UNSEEN : 0
  }

  #count(sort: number, start: number): void {
    if ((sort & UNSEEN) !== 0) return
    if ((sort & SEXTET) === 0) this.#run = 0
    else if (this.#run++ === 0) this.#runStart = start
    const [digits, separated] = [this.#digits, this.#separated]
    this.#digits = digitsAfter(digits, separated, sort)
    this.#separated = separates(digits, separated, sort)
    if (digits === 0) this.#rowStart = start
  }

  /** Tells a decoder, which has just begun, of all that has been read from a place on. */
  #tell(decoder: Decoder, from: number): void {
    const offset = this.#position - this.#kept
    const tail = this.#tail.subarray(0, this.#kept)
    for (let at = from - offset, next = at; at < tail.length; at = next) {
      const codePoint = codePointAt(tail, at)
      next += codePoint > 0xffff ? 2 : 1
      if (this.#sortOf(codePoint) !== UNSEEN) decoder.read(codePoint, offset + at, offset + next)
    }
  }

  /** Where the first digit is of which a row that is decoded later may begin; Infinity if there is none. */
  #pendingHexStart(): number {
    const offset = this.#position - this.#kept
    const from = this.#rowStart - offset
    const first = pendingHexStart(this.#tail, from, this.#kept, 0)
    const second = pendingHexStart(this.#tail, from, this.#kept, 1)
    return offset + Math.min(first, second)
  }

  #keep(codePoint: number, since: number): void {
    this.#makeSpace(2, since)
    if (codePoint > 0xffff) {
      this.#tail[this.#kept++] = 0xd800 | ((codePoint - 0x10000) >> 10)
      this.#tail[this.#kept++] = 0xdc00 | (codePoint & 0x3ff)
      this.#position += 2
    } else {
      this.#tail[this.#kept++] = codePoint
      this.#position++
    }
  }

  // Lets go of what nobody can ask for any more.
  #makeSpace(units: number, since: number): void {
    const size = this.#tail.length
    if (this.#kept + units <= size) return
    let first = Math.min(since, this.#position)
    if (this.#run > 0 && this.#run < MIN_BASE64) first = Math.min(first, this.#runStart)
    if (this.#digits > 0 && this.#digits < MIN_DIGITS) first = Math.min(first, this.#rowStart)
    const gone = Math.max(0, this.#kept - (this.#position - first))
    this.#kept -= gone
    if ((this.#kept + units) * 2 <= size) {
      this.#tail.copyWithin(0, gone, gone + this.#kept)
      return
    }
    const tail = new Uint16Array((this.#kept + units) * 2)
    tail.set(this.#tail.subarray(gone, gone + this.#kept))
    this.#tail = tail
  }
}
