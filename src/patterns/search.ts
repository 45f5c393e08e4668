/**
 * A quick look at a whole text: is there anything that a careful reading might call a match? It keeps no past, so it
 * cannot say where. One pass takes a text through the automaton of all views but D, and finds what view D may have to
 * decode. Everything here pauses now and then, so that a long text need not hold up others.
 */
import { endianness } from 'node:os'
import type { Steps } from './time-slice.ts'
import { ANY_ESCAPE } from './views/escapes.ts'
import { ALERT, ALERTS, NO_ALERTS, OPENER, ROW, RUN, STATE } from './alerts.ts'
import type { Machines } from './build.ts'
import { hidesEscape } from './find-escapes.ts'
import { hidesInRow, hidesInRun, QuickRuns } from './find-runs.ts'
import { NOTHING, type Machine } from './product-dfa.ts'
import { CODES, UNKNOWN } from './lazy-dfa.ts'
import { codePointAt, type Units } from './utf16.ts'
import { Walk } from './dfa-cursor.ts'

/** After so many units there is a pause: one takes up to 10 ns, and ten times that where code is cold. */
const PIECE = 1 << 13

/** So many units of a long text are written down in one step. */
const PART = 1 << 17

/** For texts up to this length, in units, until the first pause: few ordinary ones have one. */
const scratch = new Uint16Array(1 << 15)
const scratchBytes = bytesOf(scratch)

/** Looks at short texts, one after the other. */
export class Glance {
  readonly #look: Look

  constructor(machines: Machines) {
    this.#look = new Look(machines, scratch)
  }

  /** Has a text certainly no match, as most have? What is long or has more to it is left to {@link isSuspect}. */
  isClean(text: string): boolean {
    if (text.length > PIECE) return false
    write(text, scratchBytes)
    // Half of a pair at the end must not find its other half in an earlier text.
    scratch[text.length] = 0
    const look = this.#look
    look.begin(text.length)
    return look.goOn() === OVER && !(look.mayEscape && ANY_ESCAPE.test(text))
  }
}

/** May a text match? A no is certain. */
export function* isSuspect(machines: Machines, text: string): Steps<boolean> {
  const { decoded } = machines
  const look = new Look(machines, yield* unitsOf(text))
  for (;;) {
    const outcome = look.goOn()
    if (outcome === OVER) break
    if (outcome === SUSPECT) return true
    look.keep()
    if (outcome === BUILD) {
      yield
      look.build()
    } else if (outcome === CAREFUL) {
      if (yield* look.withCare()) return true
    } else yield
  }
  if (decoded === undefined || !look.mayEscape || !ANY_ESCAPE.test(text)) return false
  look.keep()
  return yield* hidesEscape(decoded, look.units)
}

// Why a look does not go on.
const OVER = 0
const SUSPECT = 1
const BUILD = 2
const CAREFUL = 3
const PAUSE = 4

// V8 would look into the other module for each character.
const codes = CODES
const alert = ALERT

/** One text, and how far it has been looked at. */
class Look {
  /** There is something with which an escape may begin. */
  mayEscape = false
  readonly #walk: Walk
  readonly #decoded: Machine | undefined
  #units: Units
  /** Of the text, which may have less than all of the units. */
  #length: number
  /** Made when it is needed. */
  #runs: QuickRuns | undefined
  #at = 0
  /** A state of {@link ALERTS}, and what is to be looked at with care around a place. */
  #alerts = 0
  #alertAt = 0

  constructor(machines: Machines, units: Units) {
    this.#units = units
    this.#length = units.length
    this.#walk = new Walk(machines.text)
    this.#decoded = machines.decoded
    this.begin(units.length)
  }

  get units(): Units {
    return this.#length === this.#units.length ? this.#units : this.#units.subarray(0, this.#length)
  }

  /** Another text is in the units. */
  begin(length: number): void {
    this.mayEscape = false
    this.#length = length
    this.#walk.begin()
    this.#runs = undefined
    this.#at = 0
    this.#alerts = 0
  }

  /** Has to come before a pause: others use the same space meanwhile. */
  keep(): void {
    if (this.#units.buffer !== scratch.buffer) return
    this.#units = this.units.slice()
    this.#runs = undefined
  }

  /** Goes on until there is a reason not to. */
  goOn(): number {
    const end = Math.min(this.#at + PIECE, this.#length)
    const units = this.#units
    const length = this.#length
    const walk = this.#walk
    const { table, machine } = walk
    const { cells, coded, stride, shift, passes } = table
    let row = (walk.state >> shift) * CODES
    let at = this.#at
    let outcome = PAUSE
    const alerting = this.#decoded ? ALERTS : NO_ALERTS
    let alerts = this.#alerts
    while (at < end) {
      // What is known, and ASCII: nothing but this in the way.
      for (; at < end; at++) {
        const unit = units[at]!
        if (unit >= codes) break
        const next = coded[row + unit]!
        if (next <= 0) break
        row = next
        alerts = alerting[alerts + unit]!
        if (alerts >= alert) break
      }
      if (at >= end) break
      if (alerts < ALERT) {
        const codePoint = codePointAt(units, at)
        const codeClass = machine.classOf(codePoint)
        const state = (row / CODES) << shift
        const next = codeClass < stride ? cells[state + codeClass]! : UNKNOWN
        if (next <= 0) {
          outcome = next === UNKNOWN ? BUILD : SUSPECT
          break
        }
        const nextRow = (next >> shift) * CODES
        if (codePoint < CODES) {
          if (!passes) {
            coded[row + codePoint] = nextRow
            continue
          }
          alerts = alerting[alerts + codePoint]!
        } else if (alerts !== 0 && this.#decoded!.classOf(codePoint) !== NOTHING) alerts = 0
        row = nextRow
        if (alerts < ALERT) {
          at += codePoint > 0xffff ? 2 : 1
          continue
        }
      }
      this.#alertAt = at
      alerts = this.#heed(alerts, at++)
      if (alerts < ALERT) continue
      outcome = CAREFUL
      break
    }
    this.#alerts = alerts
    walk.state = (row / CODES) << shift
    walk.steps += at - this.#at
    this.#at = at
    if (outcome !== PAUSE || at < length) return outcome
    return walk.endsInHit() ? SUSPECT : OVER
  }

  /** Builds the step that was missing. */
  build(): void {
    this.#walk.build(this.#walk.machine.classOf(codePointAt(this.units, this.#at)))
  }

  /** Is there a match in what only a decoder can read? */
  *withCare(): Steps<boolean> {
    const alerts = this.#alerts
    this.#alerts &= STATE
    const [machine, at] = [this.#decoded!, this.#alertAt]
    if ((alerts & RUN) !== 0 && (yield* hidesInRun(machine, this.units, at))) return true
    return (alerts & ROW) !== 0 && (yield* hidesInRow(machine, this.units, at))
  }

  // Without what need not be looked at with care.
  #heed(alerts: number, at: number): number {
    if ((alerts & OPENER) !== 0) this.mayEscape = true
    let left = alerts & ~OPENER
    if (left < ALERT) return left
    const runs = (this.#runs ??= new QuickRuns(this.#decoded!, this.units))
    if ((alerts & RUN) !== 0 && !runs.mayHideInRun(at)) left &= ~RUN
    if ((alerts & ROW) !== 0 && !runs.mayHideInRow(at)) left &= ~ROW
    return left
  }
}

function* unitsOf(text: string): Steps<Units> {
  if (text.length <= scratch.length) {
    write(text, scratchBytes)
    return scratch.subarray(0, text.length)
  }
  const units = new Uint16Array(text.length)
  const bytes = bytesOf(units)
  for (let at = 0; at < text.length; at += PART) {
    yield
    write(text.slice(at, at + PART), bytes.subarray(at * 2))
  }
  return units
}

function write(text: string, bytes: Buffer): void {
  bytes.write(text, 'utf16le')
  if (endianness() === 'BE') bytes.subarray(0, text.length * 2).swap16()
}

function bytesOf({ buffer, byteOffset, byteLength }: Units): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength)
}
