/** A quick look for what is hidden in base64 and hexadecimal digits: where it may be, the decoders read it. */
import { MIN_BASE64, SEXTETS } from '../views/base64.ts'
import type { Decoder } from '../views/decode.ts'
import { DIGITS, isSeparator, MIN_PAIRS } from '../views/hex.ts'
import { DecodedText } from './decoded.ts'
import { IDLE, NOTHING, type Machine } from './machine.ts'
import { MOVED, UNKNOWN } from './table.ts'
import { codePointAt, type Units } from './units.ts'

type Pausing<T> = Generator<void, T, void>

/** After so many characters there is a pause: many for a quick look, few for a careful one. */
const PAUSE = 1 << 17
const CAREFUL_PAUSE = 1 << 13

// How a match may begin with a byte.
const NEVER = 0
const ASCII = 1
const LEADING = 2

/** For {@link hidesBase64}, which does not pause. */
const known = [0, 0, 0, 0]
const firstBytes = new WeakMap<Machine, Uint8Array>()

/**
 * Is there a match in a run of base64 characters, or in a row of hexadecimal digits? Both have at least eight
 * characters, so one of every eight is looked at, and what is around it.
 */
export function* hidesRun(machine: Machine, units: Units): Pausing<boolean> {
  const { length } = units
  let rowEnd = 0
  let pause = PAUSE
  for (let at = MIN_BASE64 - 1; at < length; at += MIN_BASE64) {
    let start = at
    if (isSextet(units[at]!)) {
      while (start > 0 && isSextet(units[start - 1]!)) start--
      do at++
      while (at < length && isSextet(units[at]!))
      if (at - start >= MIN_BASE64) {
        if (at - start > PAUSE) yield
        if (hidesBase64(machine, units, start, at)) return true
        if (isRow(units, start, at) && (yield* hides(machine, hexOf, units, start, at))) return true
      }
      start--
      if (start > rowEnd && isLink(units, start)) {
        const row = rowAround(units, start, rowEnd)
        if (row.isLong && (yield* hides(machine, hexOf, units, row.start, row.end))) return true
        rowEnd = row.end
      }
    }
    // What is behind the run, or the only place that was looked at.
    if (at >= rowEnd && at < length && isLink(units, at)) {
      const row = rowAround(units, at, rowEnd)
      if (row.isLong && (yield* hides(machine, hexOf, units, row.start, row.end))) return true
      rowEnd = row.end
    }
    if (isWithin(machine, units, at) || (start < at && isWithin(machine, units, start))) {
      // Something goes on behind what cannot be seen: rare enough to read all of the text with care.
      return yield* hides(machine, ({ runs }) => runs, units, 0, length)
    }
    if (at < pause) continue
    pause = at + PAUSE
    yield
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
): Pausing<boolean> {
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

/**
 * Is there a match in a run of base64 characters? Like the decoder, but only from bytes with which a match may begin to
 * where nothing is alive: that is rarely far.
 */
function hidesBase64(machine: Machine, units: Units, from: number, to: number): boolean {
  const begins = firstBytesOf(machine)
  // By the bit in a character where bytes begin, halved: from which bit on they are not known.
  known.fill(0)
  let value = SEXTETS[units[from]!]!
  for (let at = from + 1, bit = 0; at < to; at++, bit += 6) {
    const two = (value << 6) | (value = SEXTETS[units[at]!]!)
    // The first, second and third byte of a group. Of what does not begin with ASCII, the next byte tells most.
    const first = begins[(two >>> 4) & 0xff]!
    if (first !== NEVER && (first === ASCII || (value & 0x0c) === 0x08)) {
      if (walks(machine, units, from, bit, to)) return true
    }
    const second = begins[(two >>> 2) & 0xff]!
    if (second !== NEVER && bit >= 6 && (second === ASCII || (value & 0x03) === 0x02)) {
      if (walks(machine, units, from, bit + 2, to)) return true
    }
    if (begins[two & 0xff] !== NEVER && bit >= 12) {
      if (walks(machine, units, from, bit + 4, to)) return true
    }
  }
  return false
}

function walks(machine: Machine, units: Units, from: number, bit: number, to: number): boolean {
  const place = (bit >> 1) & 3
  if (bit < known[place]!) return false
  const end = walk(machine, units, from, bit, to)
  known[place] = end
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

function firstBytesOf(machine: Machine): Uint8Array {
  let bytes = firstBytes.get(machine)
  if (bytes === undefined) {
    const state = machine.begin()
    const { table } = machine.forward
    bytes = Uint8Array.from({ length: 256 }, (_, byte) => {
      if (byte >= 0x80) return byte >= 0xc2 && byte <= 0xf4 ? LEADING : NEVER
      const next = table.fill(state, machine.classOf(byte))
      return next < 0 || table.marks[next >> table.shift] !== IDLE ? ASCII : NEVER
    })
    firstBytes.set(machine, bytes)
  }
  return bytes
}

/** The row of hexadecimal digits of which this place is a separator; not before what is known. */
function rowAround(units: Units, place: number, knownEnd: number) {
  let digits = 0
  let start = place
  let end = place
  for (; start > knownEnd; start--) {
    if (isDigit(units, start - 1)) digits++
    else if (!isSeparator(units[start - 1]!) || !isDigit(units, start - 2)) break
  }
  for (; end < units.length; end++) {
    if (isDigit(units, end)) digits++
    else if (!isSeparator(units[end]!) || !isDigit(units, end + 1)) break
  }
  return { start, end, isLong: digits >= MIN_PAIRS * 2 }
}

/** Does a single separator stand between two digits? */
function isLink(units: Units, place: number): boolean {
  return isSeparator(units[place]!) && isDigit(units, place - 1) && isDigit(units, place + 1)
}

/** May a run of base64 characters hold enough hexadecimal digits side by side? */
function isRow(units: Units, from: number, to: number): boolean {
  let digits = 0
  for (let at = from; at < to; at++) {
    if (isDigit(units, at)) digits++
    else if (!isSeparator(units[at]!)) digits = 0
    if (digits >= MIN_PAIRS * 2) return true
  }
  return false
}

/** Is here something that cannot be seen, and next to it what may go on behind it? */
function isWithin(machine: Machine, units: Units, place: number): boolean {
  const unit = place >= 0 && place < units.length ? units[place]! : 0x20
  if (unit >= 0x20 && unit < 0x7f) return false
  if (!isUnseen(machine, units, place)) return false
  return goesOn(machine, units, place - 1) || goesOn(machine, units, place + 1)
}

function goesOn(machine: Machine, units: Units, at: number): boolean {
  if (at < 0 || at >= units.length) return false
  return isSextet(units[at]!) || isSeparator(units[at]!) || isUnseen(machine, units, at)
}

function isUnseen(machine: Machine, units: Units, at: number): boolean {
  return machine.classOf(codePointAt(units, at)) === NOTHING
}

function isDigit(units: Units, at: number): boolean {
  const unit = at >= 0 && at < units.length ? units[at]! : 0
  return unit < 128 && DIGITS[unit]! >= 0
}

function isSextet(unit: number): boolean {
  return unit < 128 && SEXTETS[unit]! >= 0
}

function hexOf({ hex }: DecodedText): readonly Decoder[] {
  return hex
}
