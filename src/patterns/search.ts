/**
 * A quick look at a whole text: is there anything that a careful reading might call a match? It keeps no past, so it
 * cannot say where. One pass takes a text through the automaton of all views but D, and finds what view D may have to
 * decode. Everything here pauses now and then, so that a long text need not hold up others.
 */
import { endianness } from 'node:os'
import type { Steps } from './time-slice.ts'
import { ANY_ESCAPE } from './views/escapes.ts'
import { ALERT, ALERTS, beforeIn, isInRow, NO_ALERTS, OPENER, ROW, RUN, STATE } from './alerts.ts'
import type { Machines } from './build.ts'
import { hidesEscape } from './find-escapes.ts'
import { hidesInRow, hidesInRun, QuickRuns } from './find-runs.ts'
import { IDLE as NOTHING_ALIVE, NOTHING, type Machine } from './product-dfa.ts'
import { sifter, type Sieve } from './sieve.ts'
import { BLOCK, HEED, PART_LENGTH, PLACES, READ, type Before, type Tables } from './sift.ts'
import { CODES, UNKNOWN } from './lazy-dfa.ts'
import { codePointAt, type Units } from './utf16.ts'
import { Walk } from './dfa-cursor.ts'

/** After so many units there is a pause: one takes up to 10 ns, and ten times that where code is cold. */
const PIECE = PART_LENGTH

/** What the sieve holds back is read, with so many units at least; each time twice as many where it lets few pass. */
const FEW = 1 << 6
const MOST = 1 << 10
/** And where something is alive after them, so many more. */
const SOME = 1 << 3
/** Behind every text. */
const NEVER = 0x3fff_ffff
/** So many characters say what has been told of, if all of them can be seen. */
const RECENT = 1 << 5

/** So many units of a long text are written down in one step. */
const PART = 1 << 17

/** For texts up to this length, in units, until the first pause: few ordinary ones have one. */
const scratch = sifter?.text ?? new Uint16Array(1 << 15)
const scratchBytes = bytesOf(scratch)

/** Looks at short texts, one after the other. */
export class Glance {
  readonly #sieve: Sieve
  readonly #look: Look

  constructor(machines: Machines) {
    this.#sieve = machines.sieve
    this.#look = new Look(machines, scratch)
  }

  /** Has a text certainly no match, as most have? What is long or has more to it is left to {@link isSuspect}. */
  isClean(text: string): boolean {
    if (text.length > PIECE || this.#sieve.isDue(text.length)) return false
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
  const { decoded, sieve } = machines
  if (sieve.isDue(text.length)) yield* sieve.make()
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
/** Nothing is alive. */
const IDLE = 5

// V8 would look into the other module for each character.
const codes = CODES
const alert = ALERT

/** One text, and how far it has been looked at. */
class Look {
  /** There is something with which an escape may begin. */
  mayEscape = false
  readonly #walk: Walk
  readonly #sieve: Sieve
  #tables: Tables | undefined
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

  /** What is read before this place has nothing to be told of, and what is before that one is read in any case. */
  #passed = 0
  #readTo = NEVER
  #stay = BLOCK

  constructor(machines: Machines, units: Units) {
    this.#units = units
    this.#length = units.length
    this.#walk = new Walk(machines.text)
    this.#sieve = machines.sieve
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
    this.#passed = 0
    this.#tables = this.#sieve.tables
    this.#readTo = this.#tables ? 0 : NEVER
    this.#stay = BLOCK
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
    // Before it begins nothing is alive.
    let outcome = this.#at === 0 && this.#tables ? IDLE : this.#read(end)
    for (let isLoaded = false; outcome === IDLE; isLoaded = true) {
      if (!isLoaded) sifter!.load(this.#tables!, this.#units, this.#at, end)
      outcome = this.#pass(end) ? OVER : this.#read(end)
    }
    return outcome
  }

  /**
   * Passes over what need not be read while nothing is alive. What follows is read from where a match may have begun.
   * @returns whether nothing follows
   */
  #pass(end: number): boolean {
    const idleAt = this.#at
    const isEnd = end === this.#length
    let to = idleAt
    for (let before: Before | undefined = beforeIn(this.#alerts); ; before = undefined) {
      const passed = sifter!.pass(to, end, isEnd, before)
      to = passed & ~(READ | HEED)
      if (passed === to && isEnd) return true
      if ((passed & HEED) === 0) break
      if (!this.#mayHideBefore(to)) continue
      to -= BLOCK
      // What they have found once they do not find again.
      this.#runs = undefined
      break
    }
    to = Math.min(to, end)
    // What was told of a little earlier is not told of again.
    if (this.#decoded) {
      if (to - RECENT > idleAt) this.#alerts = 0
      for (let at = Math.max(idleAt, to - RECENT); at < to; at++) {
        this.#alerts = ALERTS[this.#alerts + this.#units[at]!]! & STATE
      }
    }
    // One character more, which may matter to what begins behind it.
    const from = to - PLACES
    if (from > idleAt) this.#walk.begin()
    this.#at = Math.max(from, idleAt)
    this.#passed = to
    this.#stay = to - idleAt < FEW ? Math.min(this.#stay * 2, MOST) : BLOCK
    this.#readTo = to + this.#stay
    return false
  }

  #read(end: number): number {
    const units = this.#units
    const length = this.#length
    const walk = this.#walk
    const { table, machine } = walk
    const { cells, coded, marks, stride, shift, passes } = table
    let row = (walk.state >> shift) * CODES
    let at = this.#at
    let outcome = PAUSE
    while (at < end && outcome === PAUSE) {
      if (at >= this.#readTo) {
        // The sieve would tell of a row again.
        if (marks[row / CODES] === NOTHING_ALIVE && !isInRow(this.#alerts)) {
          outcome = IDLE
          break
        }
        this.#readTo = at + SOME
      }
      const isPassed = at < this.#passed
      const alerting = this.#decoded && !isPassed ? ALERTS : NO_ALERTS
      let alerts = isPassed ? 0 : this.#alerts
      const to = isPassed ? this.#passed : Math.min(this.#readTo, end)
      while (at < to) {
        // What is known, and ASCII: nothing but this in the way.
        for (; at < to; at++) {
          const unit = units[at]!
          if (unit >= codes) break
          const next = coded[row + unit]!
          if (next <= 0) break
          row = next
          alerts = alerting[alerts + unit]!
          if (alerts >= alert) break
        }
        if (at >= to) break
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
      if (!isPassed) this.#alerts = alerts
    }
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

  /** May there be something in a run or a row of the last block? */
  #mayHideBefore(end: number): boolean {
    const quick = (this.#runs ??= new QuickRuns(this.#decoded!, this.units))
    const { runs, digits } = sifter!
    // In the order of the text, because they keep how far they have read.
    for (let left = runs; left !== 0; left &= left - 1) {
      if (quick.mayHideInRun(end - BLOCK + firstIn(left))) return true
    }
    for (let left = digits; left !== 0; left &= left - 1) {
      if (quick.mayHideInRow(end - BLOCK + firstIn(left))) return true
    }
    return false
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

/** The lowest bit. */
function firstIn(bits: number): number {
  return 31 - Math.clz32(bits & -bits)
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
