/** A quick look for what is hidden behind escapes. */
import type { Steps } from './time-slice.ts'
import { Escapes } from './views/escapes.ts'
import { NOTHING, type Machine } from './product-dfa.ts'
import { codePointAt, type Units } from './utf16.ts'
import { WalkReader } from './dfa-cursor.ts'

/** After so many characters there is a pause. */
const PAUSE = 1 << 10

/** Is there a match once a text's escapes are decoded? What no escape is open around is read as it is. */
export function* hidesEscape(machine: Machine, units: Units): Steps<boolean> {
  const reader = new WalkReader(machine)
  const escapes = new Escapes(reader)
  const { length } = units
  for (let at = 0, pause = PAUSE; at < length;) {
    if (at >= pause) {
      pause = at + PAUSE
      yield
    }
    if (!escapes.pending) {
      at = reader.readPlain(units, at, Math.min(length, pause))
      if (at >= length) break
    }
    const codePoint = codePointAt(units, at)
    at += codePoint > 0xffff ? 2 : 1
    if (machine.classOf(codePoint) === NOTHING) continue
    escapes.read(codePoint, at, at)
    if (reader.found) return true
  }
  escapes.end()
  return reader.found
}
