/** A quick look for what is hidden in base64 and hexadecimal digits: where it may be, the decoders read it. */
import { Base64, SEXTETS } from './views/base64.ts'
import { Bytes, type Decoder } from './views/decode.ts'
import { DIGITS, Hex, MIN_PAIRS } from './views/hex.ts'
import type { Steps } from './time-slice.ts'
import { firstPairsOf, NEVER } from './first-bytes.ts'
import { NOTHING, type Machine } from './product-dfa.ts'
import { DIGIT, SEPARATOR, SEXTET, SORTS, UNSEEN } from './char-class.ts'
import { codePointAt, type Units } from './utf16.ts'
import { WalkReader } from './dfa-cursor.ts'

/** After so many characters there is a pause. What is longer is looked at with care, and so is what goes on unseen. */
const PAUSE = 1 << 10
/** The same where it is only asked of what sort they are. */
const PIECE = 1 << 13

/** Of three bytes: two have at most three symbols, and no literal is looked for here that has fewer than five. */
const MIN_SEXTETS = 4

/**
 * Runs of base64 characters and rows of hexadecimal digits in one text, which are asked for in the order of the text. A no
 * is certain.
 */
export class QuickRuns {
  readonly #machine: Machine
  readonly #units: Units
  #bare: BareRuns | undefined
  /** Where the last row ends in which there is no match. */
  #rowEnd = 0

  constructor(machine: Machine, units: Units) {
    this.#machine = machine
    this.#units = units
  }

  /** May there be a match in the run around a place? */
  mayHideInRun(at: number): boolean {
    const bounds = this.#around(at, SEXTET)
    return bounds === undefined || this.#runs.hide(bounds.start, bounds.end, bounds.end)
  }

  /** May there be a match in the row around a place? */
  mayHideInRow(at: number): boolean {
    if (at < this.#rowEnd) return false
    const bounds = this.#around(at, DIGIT | SEPARATOR)
    if (bounds === undefined || this.#runs.mayHideInRow(bounds.start, bounds.end)) return true
    this.#rowEnd = bounds.end
    return false
  }

  get #runs(): BareRuns {
    return (this.#bare ??= new BareRuns(this.#machine, this.#units))
  }

  /** The stretch around a place of what is of these sorts; undefined if it has to be looked at with care. */
  #around(at: number, sorts: number): { start: number; end: number } | undefined {
    const units = this.#units
    let start = at
    let end = at + 1
    const [first, last] = [Math.max(0, at - PAUSE), Math.min(units.length, at + PAUSE + 1)]
    while (start > first && isOf(sorts, units[start - 1]!)) start--
    while (end < last && isOf(sorts, units[end]!)) end++
    if (end - start > PAUSE) return undefined
    const isCut = isUnseen(this.#machine, units, start - 1) || isUnseen(this.#machine, units, end)
    return isCut ? undefined : { start, end }
  }
}

/** With care: is there a match in the run around a place? */
export function* hidesInRun(machine: Machine, units: Units, at: number): Steps<boolean> {
  const [start, end] = yield* allAround(machine, units, at, SEXTET)
  if (!(yield* isBare(units, start, end))) {
    // Something goes on behind what cannot be seen: rare enough to be decoded character by character.
    const readers = Array.from({ length: 4 }, () => new WalkReader(machine))
    return yield* hides(machine, readers, [new Base64(readers)], units, start, end)
  }
  const bare = new BareRuns(machine, units)
  for (let from = start; from < end; from += PAUSE) {
    if (from > start) yield
    if (bare.hide(from, Math.min(from + PAUSE, end), end)) return true
  }
  return false
}

/** With care: is there a match in what is between two separators side by side? */
export function* hidesInRow(machine: Machine, units: Units, at: number): Steps<boolean> {
  const [start, end] = yield* allAround(machine, units, at, DIGIT | SEPARATOR)
  let from = start
  let digits = 0
  let separated = false
  for (let at = start; at <= end; at++) {
    if (at % PIECE === 0) yield
    const sort = at < end ? sortAt(machine, units, at) : SEPARATOR
    if ((sort & DIGIT) !== 0) digits++
    if ((sort & SEPARATOR) !== 0 && (separated || at === end)) {
      if (digits >= MIN_PAIRS * 2) {
        const readers = [new WalkReader(machine), new WalkReader(machine)]
        const decoders = readers.map((reader, offset) => new Hex(reader, offset))
        if (yield* hides(machine, readers, decoders, units, from, at)) return true
      }
      from = at
      digits = 0
    }
    if ((sort & UNSEEN) === 0) separated = (sort & SEPARATOR) !== 0
  }
  return false
}

/** Do these decoders find a match in a part of a text? */
function* hides(
  machine: Machine,
  readers: readonly WalkReader[],
  decoders: readonly Decoder[],
  units: Units,
  from: number,
  to: number,
): Steps<boolean> {
  for (let at = from; at < to; at++) {
    if ((at & (PAUSE - 1)) === 0 && at > from) yield
    const codePoint = codePointAt(units, at)
    if (codePoint > 0xffff) at++
    if (machine.classOf(codePoint) === NOTHING) continue
    for (const decoder of decoders) decoder.read(codePoint, at, at + 1)
  }
  for (const decoder of decoders) decoder.end()
  return readers.some(({ found }) => found)
}

/** Runs without anything that cannot be seen. */
class BareRuns {
  readonly #units: Units
  readonly #pairs: Uint8Array
  readonly #reader: WalkReader
  readonly #bytes: Bytes
  /** By the bit in a pair of bytes where bytes begin, halved: up to which bit of the text they were read. */
  readonly #read = [0, 0, 0, 0]

  constructor(machine: Machine, units: Units) {
    this.#units = units
    this.#pairs = firstPairsOf(machine)
    this.#reader = new WalkReader(machine)
    this.#bytes = new Bytes(this.#reader)
  }

  /**
   * Is there a match that begins between two places in a run that goes on to a third? Like the decoder, but only from
   * code points with which a match may begin to where nothing is alive: that is rarely far.
   */
  hide(from: number, to: number, end: number): boolean {
    const units = this.#units
    const pairs = this.#pairs
    // Four of five characters, of which the first begins the byte. After the last one there are zeros.
    let five = 0
    for (let at = from; at < from + 4; at++) five = (five << 6) | sextetAt(units, at, end)
    const last = Math.min(to, end - MIN_SEXTETS + 1)
    for (let at = from; at < last; at++) {
      five = ((five << 6) | sextetAt(units, at + 4, end)) & 0x3fffffff
      const places = pairs[five >>> 18]!
      if (places === 0) continue
      for (let place = 0; place < 3; place++) {
        if (((places >> place) & 1) === 0) continue
        const three = (five >>> (6 - place * 2)) & 0xffffff
        if (this.#reader.mayBeginWith(three) && this.#reads(at * 6 + place * 2, end * 6))
          return true
      }
    }
    return false
  }

  /**
   * May there be a match in a row? It is read from wherever a match may begin, with at most one separator between two
   * bytes, however few they are.
   */
  mayHideInRow(start: number, end: number): boolean {
    const units = this.#units
    const { begins } = this.#reader
    // By whether the number of digits before is odd: up to where pairs were read.
    const read = [start, start]
    let digits = 0
    let last = -1
    for (let at = start; at < end; at++) {
      const value = DIGITS[units[at]!]!
      if (last >= 0 && value >= 0 && begins[(last << 4) | value] !== NEVER) {
        const place = digits & 1
        if (at > read[place]!) read[place] = this.#readRow(at - 1, end)
        if (this.#reader.found) return true
      }
      if (value >= 0) digits++
      last = value
    }
    return false
  }

  // Reads pairs of digits until nothing is alive. Gives the place behind them.
  #readRow(at: number, end: number): number {
    const units = this.#units
    const bytes = this.#bytes
    bytes.restart()
    while (at + 1 < end) {
      const [high, low] = [DIGITS[units[at]!]!, DIGITS[units[at + 1]!]!]
      if (high < 0 || low < 0) break
      bytes.read((high << 4) | low, 0, 0)
      at += 2
      if (bytes.idle) break
      if (at < end && isOf(SEPARATOR, units[at]!)) at++
    }
    return at
  }

  // Reads bytes from a bit of the text on until nothing is alive.
  #reads(bit: number, end: number): boolean {
    const place = (bit >> 1) & 3
    if (bit < this.#read[place]!) return false
    const units = this.#units
    const bytes = this.#bytes
    bytes.restart()
    for (; bit + 8 <= end;) {
      const at = Math.trunc(bit / 6)
      const two = (SEXTETS[units[at]!]! << 6) | SEXTETS[units[at + 1]!]!
      bytes.read((two >>> (4 - (bit % 6))) & 0xff, 0, 0)
      bit += 8
      if (bytes.idle) break
    }
    this.#read[place] = bit
    return this.#reader.found
  }
}

function sextetAt(units: Units, at: number, end: number): number {
  return at < end ? SEXTETS[units[at]!]! : 0
}

/** The stretch around a place of what is of these sorts or cannot be seen. */
function* allAround(
  machine: Machine,
  units: Units,
  at: number,
  sorts: number,
): Steps<[number, number]> {
  for (let [from, to] = [at, at + 1]; ;) {
    const [start, end] = around(machine, units, from, to, sorts, PIECE)
    if (start === from && end === to) return [start, end]
    ;[from, to] = [start, end]
    yield
  }
}

/** {@link allAround} a part of it, at most so much further in either direction. */
function around(
  machine: Machine,
  units: Units,
  from: number,
  to: number,
  sorts: number,
  most: number,
): [number, number] {
  const isIn = (place: number) => (sortAt(machine, units, place) & (sorts | UNSEEN)) !== 0
  const [first, last] = [Math.max(0, from - most), Math.min(units.length, to + most)]
  let [start, end] = [from, to]
  while (start > first && isIn(start - 1)) start--
  while (end < last && isIn(end)) end++
  return [start, end]
}

function sortAt(machine: Machine, units: Units, at: number): number {
  const unit = units[at]!
  if (unit < 128) return SORTS[unit]!
  const isHalf = (unit & 0xfc00) === 0xdc00 && at > 0 && (units[at - 1]! & 0xfc00) === 0xd800
  return machine.classOf(codePointAt(units, isHalf ? at - 1 : at)) === NOTHING ? UNSEEN : 0
}

/** Are there base64 characters only? */
function* isBare(units: Units, start: number, end: number): Steps<boolean> {
  for (let at = start; at < end; at++) {
    if (!isOf(SEXTET, units[at]!)) return false
    if (at % PIECE === 0) yield
  }
  return true
}

function isUnseen(machine: Machine, units: Units, at: number): boolean {
  return at >= 0 && at < units.length && sortAt(machine, units, at) === UNSEEN
}

function isOf(sort: number, unit: number): boolean {
  return unit < 128 && (SORTS[unit]! & sort) !== 0
}
