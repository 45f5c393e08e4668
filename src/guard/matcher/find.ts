/**
 * A quick look at a whole text: is there anything that a careful reading might call a match? It keeps no past, so it
 * cannot say where. Everything here pauses now and then, so that a long text need not hold up others.
 */
import { endianness } from 'node:os'
import type { Steps } from '../stretch.ts'
import { ANY_ESCAPE } from '../views/escapes.ts'
import type { Machines } from './build.ts'
import { hides, hidesRun } from './find-runs.ts'
import type { Machine } from './machine.ts'
import { MOVED, UNKNOWN } from './table.ts'
import { codePointAt, type Units } from './units.ts'

/** After so many units there is a pause: one takes up to 10 ns, and ten times that where code is cold. */
const PIECE = 1 << 13

/** For texts up to this length, in units, that are looked at without a pause. */
const scratch = new Uint16Array(1 << 15)

/** May a text match? A no is certain. @param pauses whether other texts may be looked at meanwhile */
export function* isSuspect(
  { text: machine, decoded }: Machines,
  text: string,
  pauses: boolean,
): Steps<boolean> {
  const units = unitsOf(text, pauses)
  if (yield* isReached(machine, units)) return true
  if (decoded === undefined) return false
  return (yield* hidesRun(decoded, units)) || (yield* hidesEscape(decoded, units, text))
}

/** Is any goal reached, whatever else it asks for? */
function* isReached(machine: Machine, units: Units): Steps<boolean> {
  const { ascii } = machine
  const { length } = units
  let { table } = machine.forward
  let state = machine.begin()
  let end = Math.min(PIECE, length)
  for (let at = 0; at < length; at++) {
    // What is known, and ASCII: nothing but this in the way.
    const { cells } = table
    for (; at < end; at++) {
      const unit = units[at]!
      if (unit >= 128) break
      const next = cells[state + ascii[unit]!]!
      if (next <= 0) break
      state = next
    }
    if (at >= end) {
      if (end === length) break
      end = Math.min(end + PIECE, length)
      yield
    }
    const codePoint = codePointAt(units, at)
    if (codePoint > 0xffff) at++
    const codeClass = machine.classOf(codePoint)
    let next = codeClass < table.stride ? table.cells[state + codeClass]! : UNKNOWN
    if (next === UNKNOWN) {
      // Building a state takes up to 50 µs, and ten times that where code is cold.
      yield
      next = table.fill(state, codeClass)
    }
    while (next === MOVED) {
      const set = table.setOf(state)
      table = machine.forward.table
      state = table.enter(set)
      next = table.fill(state, codeClass)
    }
    if (next < 0) return true
    state = next
  }
  return machine.hitsAtEnd(table.setOf(state)).length > 0
}

function* hidesEscape(machine: Machine, units: Units, text: string): Steps<boolean> {
  const mayHide = text.includes('%') || text.includes('\\') || text.includes('&')
  if (!mayHide || !ANY_ESCAPE.test(text)) return false
  return yield* hides(machine, ({ escapes }) => [escapes], units, 0, units.length)
}

function unitsOf(text: string, isOwn: boolean): Units {
  const isShort = text.length <= scratch.length && !isOwn
  const units = isShort ? scratch.subarray(0, text.length) : new Uint16Array(text.length)
  const bytes = Buffer.from(units.buffer, units.byteOffset, units.byteLength)
  bytes.write(text, 'utf16le')
  if (endianness() === 'BE') bytes.swap16()
  return units
}
