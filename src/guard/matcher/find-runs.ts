/** A quick look for what is hidden in base64 and hexadecimal digits: where it may be, the decoders read it. */
import { SEXTETS } from '../views/base64.ts'
import type { Decoder } from '../views/decode.ts'
import type { Steps } from '../stretch.ts'
import { DecodedText } from './decoded.ts'
import { ASCII, firstBytesOf, NEVER } from './first-bytes.ts'
import { IDLE, NOTHING, type Machine } from './machine.ts'
import { DIGIT, SEPARATOR, SEXTET, SORTS, UNSEEN } from './sorts.ts'
import { MOVED, UNKNOWN } from './table.ts'
import { codePointAt, type Units } from './units.ts'

/** After so many characters there is a pause: many for a quick look, few for a careful one. */
const PAUSE = 1 << 13
const CAREFUL_PAUSE = 1 << 10

/** Runs and rows are at least so long. */
const LEAST = 8
// Two counts in one number, as both are kept for every character: of base64 characters side by side, and of hexadecimal
// digits with nothing but separators between them. By code: what to add, and what then remains.
const RUN = 1
const ROW = 1 << 16
const FULL = (RUN * LEAST) | (ROW * LEAST)
const ADDED = Int32Array.from(SORTS, (sort) => (sort & SEXTET ? RUN : 0) | (sort & DIGIT ? ROW : 0))
const KEPT = Int32Array.from(SORTS, (sort) => {
  if (sort === UNSEEN) return -1
  return (sort & SEXTET ? ROW - 1 : 0) | (sort & (DIGIT | SEPARATOR) ? -ROW : 0)
})

interface Place {
  counts: number
  /** Up to where runs, and rows, have been looked at. */
  runEnd: number
  rowEnd: number
}

/** Is there a match in a run of base64 characters, or in a row of hexadecimal digits? */
export function* hidesRun(machine: Machine, units: Units): Steps<boolean> {
  const place: Place = { counts: 0, runEnd: 0, rowEnd: 0 }
  for (let at = 0, pause = PAUSE; ; at++) {
    const to = Math.min(units.length, pause)
    at = skip(machine, units, at, to, place)
    if (at >= units.length) return false
    if (at >= to) {
      pause = at-- + PAUSE
      yield
      continue
    }
    if (at >= place.runEnd && isSextet(units[at]!)) {
      const [start, end] = around(machine, units, at, SEXTET)
      place.runEnd = end
      if (end - start > CAREFUL_PAUSE || !isBare(units, start, end)) {
        if (yield* hidesInRun(machine, units, start, end)) return true
      } else if (end - start >= LEAST) {
        const run = { start, end, known: [0, 0, 0, 0] }
        if (hidesBase64(machine, units, run, start, end)) return true
      }
    }
    if (at >= place.rowEnd && isDigit(units[at]!)) {
      const [start, end] = around(machine, units, at, DIGIT | SEPARATOR)
      place.rowEnd = end
      if (yield* hidesInRows(machine, units, start, end)) return true
    }
  }
}

/** Counts on. @returns the next place that is in a run or in what may be a row, and has not been looked at; else `to` */
function skip(machine: Machine, units: Units, from: number, to: number, place: Place): number {
  let { counts } = place
  let at = from
  for (; at < to; at++) {
    const unit = units[at]!
    if (unit >= 128) {
      const codePoint = codePointAt(units, at)
      if (machine.classOf(codePoint) !== NOTHING) counts = 0
      if (codePoint > 0xffff) at++
      continue
    }
    counts = (counts + ADDED[unit]!) & KEPT[unit]!
    if ((counts & FULL) === 0) continue
    // A count does not go further than that.
    const isRun = (counts & (RUN * LEAST)) !== 0
    const isRow = (counts & (ROW * LEAST)) !== 0
    if (isRun) counts -= RUN
    if (isRow) counts -= ROW
    if ((isRun && at >= place.runEnd) || (isRow && at >= place.rowEnd)) break
  }
  place.counts = counts
  return at
}

/** The stretch around a place of what is of these sorts or cannot be seen. */
function around(machine: Machine, units: Units, at: number, sorts: number): [number, number] {
  let start = at
  let end = at + 1
  while (start > 0 && (sortAt(machine, units, start - 1) & (sorts | UNSEEN)) !== 0) start--
  while (end < units.length && (sortAt(machine, units, end) & (sorts | UNSEEN)) !== 0) end++
  return [start, end]
}

function sortAt(machine: Machine, units: Units, at: number): number {
  const unit = units[at]!
  if (unit < 128) return SORTS[unit]!
  const isHalf = (unit & 0xfc00) === 0xdc00 && at > 0 && (units[at - 1]! & 0xfc00) === 0xd800
  return machine.classOf(codePointAt(units, isHalf ? at - 1 : at)) === NOTHING ? UNSEEN : 0
}

/** Are there base64 characters only? */
function isBare(units: Units, start: number, end: number): boolean {
  for (let at = start; at < end; at++) if (!isSextet(units[at]!)) return false
  return true
}

function* hidesInRun(machine: Machine, units: Units, start: number, end: number): Steps<boolean> {
  yield
  if (!isBare(units, start, end)) {
    // Something goes on behind what cannot be seen: rare enough to be read with care.
    return yield* hides(machine, ({ base64 }) => [base64], units, start, end)
  }
  const run: Run = { start, end, known: [0, 0, 0, 0] }
  for (let from = start; from < end; from += CAREFUL_PAUSE) {
    if (from > start) yield
    const to = Math.min(from + CAREFUL_PAUSE, end)
    if (hidesBase64(machine, units, run, from, to)) return true
  }
  return false
}

/** Looks at what is between two separators side by side. */
function* hidesInRows(machine: Machine, units: Units, start: number, end: number): Steps<boolean> {
  let from = start
  let digits = 0
  let separated = false
  for (let at = start; at <= end; at++) {
    const sort = at < end ? sortAt(machine, units, at) : SEPARATOR
    if ((sort & DIGIT) !== 0) digits++
    if ((sort & SEPARATOR) !== 0 && (separated || at === end)) {
      if (digits >= LEAST && (yield* hides(machine, ({ hex }) => hex, units, from, at))) return true
      from = at
      digits = 0
    }
    if ((sort & UNSEEN) === 0) separated = (sort & SEPARATOR) !== 0
  }
  return false
}

/** Do these decoders find a match in a part of a text? */
export function* hides(
  machine: Machine,
  choose: (decoded: DecodedText) => readonly Decoder[],
  units: Units,
  from: number,
  to: number,
): Steps<boolean> {
  const decoded = new DecodedText(machine)
  const decoders = choose(decoded)
  for (let at = from; at < to; at++) {
    if ((at & (CAREFUL_PAUSE - 1)) === 0 && at > from) yield
    const codePoint = codePointAt(units, at)
    if (codePoint > 0xffff) at++
    if (machine.classOf(codePoint) === NOTHING) continue
    for (const decoder of decoders) decoder.read(codePoint, at, at + 1)
  }
  for (const decoder of decoders) decoder.end()
  return decoded.found !== undefined
}

/** Base64 characters, and up to where they were read before. */
interface Run {
  readonly start: number
  readonly end: number
  /** By the bit in a character where bytes begin, halved: from which bit on they are not known. */
  readonly known: number[]
}

/**
 * Is there a match in a run of base64 characters that begins between two of them? Like the decoder, but only from bytes
 * with which a match may begin to where nothing is alive: that is rarely far.
 */
function hidesBase64(machine: Machine, units: Units, run: Run, from: number, to: number): boolean {
  const begins = firstBytesOf(machine)
  const last = Math.min(to, run.end - 1)
  let value = SEXTETS[units[from]!]!
  for (let at = from + 1, bit = (from - run.start) * 6; at <= last; at++, bit += 6) {
    const two = (value << 6) | (value = SEXTETS[units[at]!]!)
    // The first, second and third byte of a group. Of what does not begin with ASCII, the next byte tells most.
    const first = begins[(two >>> 4) & 0xff]!
    if (first !== NEVER && (first === ASCII || (value & 0x0c) === 0x08)) {
      if (walks(machine, units, run, bit)) return true
    }
    const second = begins[(two >>> 2) & 0xff]!
    if (second !== NEVER && bit >= 6 && (second === ASCII || (value & 0x03) === 0x02)) {
      if (walks(machine, units, run, bit + 2)) return true
    }
    if (begins[two & 0xff] !== NEVER && bit >= 12) {
      if (walks(machine, units, run, bit + 4)) return true
    }
  }
  return false
}

function walks(machine: Machine, units: Units, run: Run, bit: number): boolean {
  const place = (bit >> 1) & 3
  if (bit < run.known[place]!) return false
  const end = walk(machine, units, run.start, bit, run.end)
  run.known[place] = end
  return end === Infinity
}

/**
 * Reads bytes from a bit of a run until nothing is alive.
 * @returns the bit behind what was read; Infinity if there is a match
 */
function walk(machine: Machine, units: Units, from: number, bit: number, to: number): number {
  let { table } = machine.forward
  let state = machine.begin()
  let missing = 0
  let codePoint = 0
  const end = (to - from) * 6 - 8
  for (; bit <= end; bit += 8) {
    const at = from + Math.trunc(bit / 6)
    const two = (SEXTETS[units[at]!]! << 6) | SEXTETS[units[at + 1]!]!
    const byte = (two >>> (4 - (bit % 6))) & 0xff
    if (missing > 0) {
      if ((byte & 0xc0) !== 0x80) return bit
      codePoint = (codePoint << 6) | (byte & 0x3f)
      if (--missing > 0) continue
    } else if (byte < 0x80) {
      codePoint = byte
    } else {
      if (byte < 0xc2 || byte > 0xf4) return bit + 8
      missing = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3
      codePoint = byte & (0x3f >> missing)
      continue
    }
    if (codePoint > 0x10ffff) return bit + 8
    const codeClass = machine.classOf(codePoint)
    let next = codeClass < table.stride ? table.cells[state + codeClass]! : UNKNOWN
    if (next === UNKNOWN) next = table.fill(state, codeClass)
    while (next === MOVED) {
      const set = table.setOf(state)
      table = machine.forward.table
      state = table.enter(set)
      next = table.fill(state, codeClass)
    }
    if (next < 0) return Infinity
    state = next
    if (table.marks[state >> table.shift] === IDLE) return bit + 8
  }
  return bit
}

function isDigit(unit: number): boolean {
  return unit < 128 && (SORTS[unit]! & DIGIT) !== 0
}

function isSextet(unit: number): boolean {
  return unit < 128 && (SORTS[unit]! & SEXTET) !== 0
}
