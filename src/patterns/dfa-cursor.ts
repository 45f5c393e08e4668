/** A machine that reads forward without keeping a past: it can say that something is reached, but not where it began. */
import type { Reader } from './views/decode.ts'
import { firstBytesOf, NEVER } from './first-bytes.ts'
import { IDLE, NOTHING, type Machine } from './product-dfa.ts'
import { ESCAPE, SORTS } from './char-class.ts'
import { MOVED, UNKNOWN, type Table } from './lazy-dfa.ts'
import type { Units } from './utf16.ts'

// Where hardly a set of states comes twice, remembering them costs more than it saves, most of it in garbage that everybody
// has to wait for while it is collected. For so many steps nothing is remembered then, and for more if that goes on.
const FIRST_PASSAGE = 1 << 12
const LONGEST_PASSAGE = 1 << 16

export class Walk {
  readonly machine: Machine
  table: Table
  state: number
  /** Steps so far. */
  steps = 0
  /** When it came to this table, and how many of the steps since then it had to build. */
  #since = 0
  #built = 0
  #passage = 0

  constructor(machine: Machine) {
    this.machine = machine
    this.table = machine.forward.table
    this.state = machine.begin()
  }

  /** What is read next has nothing to do with what was read. */
  begin(): void {
    this.table = this.machine.forward.table
    this.state = this.machine.begin()
  }

  /** Nothing is alive. */
  get idle(): boolean {
    return this.table.marks[this.state >> this.table.shift] === IDLE
  }

  /** May anything be alive after the first code point, and after the second? */
  mayBeginWith(first: number, second?: number): boolean {
    const { table } = this.machine.forward
    const { cells, marks, shift, stride } = table
    const codeClass = this.machine.classOf(first)
    let next = codeClass < stride ? cells[this.machine.begin() + codeClass]! : UNKNOWN
    if (next > 0 && second !== undefined) {
      if (marks[next >> shift] === IDLE) return false
      const secondClass = this.machine.classOf(second)
      next = secondClass < stride ? cells[next + secondClass]! : UNKNOWN
    }
    return next <= 0 || marks[next >> shift] !== IDLE
  }

  /** Builds a step from here: up to 50 µs, and ten times that where code is cold. @returns what is in its cell */
  build(codeClass: number): number {
    this.#built++
    let next = codeClass < this.table.stride ? this.table.fill(this.state, codeClass) : MOVED
    while (next === MOVED) {
      const set = this.table.setOf(this.state)
      this.table = this.#nextTable()
      this.state = this.table.enter(set)
      next = this.table.fill(this.state, codeClass)
    }
    return next
  }

  /** @returns whether something is reached */
  step(codeClass: number): boolean {
    this.steps++
    const { table } = this
    let next = codeClass < table.stride ? table.cells[this.state + codeClass]! : UNKNOWN
    if (next === UNKNOWN) next = this.build(codeClass)
    if (next < 0) return true
    this.state = next
    return false
  }

  /** Is anything reached where the text ends? */
  endsInHit(): boolean {
    return this.machine.hitsAtEnd(this.table.setOf(this.state)).length > 0
  }

  #nextTable(): Table {
    const { forward } = this.machine
    const isOfUse = this.table.passes || this.#built * 2 < this.steps - this.#since
    if (!isOfUse) {
      this.#passage = Math.min(Math.max(FIRST_PASSAGE, this.#passage * 2), LONGEST_PASSAGE)
      return forward.passing(this.#passage)
    }
    if (!this.table.passes) this.#passage = 0
    this.#since = this.steps
    this.#built = 0
    return forward.table
  }
}

/** Takes what was decoded, and keeps no places. */
export class WalkReader implements Reader {
  readonly begins: Uint8Array
  /** There was a match. */
  found = false
  readonly #walk: Walk

  constructor(machine: Machine) {
    this.begins = firstBytesOf(machine)
    this.#walk = new Walk(machine)
  }

  get idle(): boolean {
    return this.#walk.idle
  }

  read(symbol: number): void {
    const symbolClass = this.#walk.machine.classOf(symbol)
    if (symbolClass !== NOTHING && this.#walk.step(symbolClass)) this.found = true
  }

  /**
   * May a match begin with the first of three bytes of UTF-8? A no is certain, and no match is a single byte. Zeros stand
   * for bytes that are not there.
   */
  mayBeginWith(bytes: number): boolean {
    const first = bytes >>> 16
    const second = (bytes >>> 8) & 0xff
    if (first < 0x80) {
      if (second >= 0x80) return this.begins[second] !== NEVER
      return this.#walk.mayBeginWith(first, second)
    }
    if (first >= 0xf0) return true
    if ((second & 0xc0) !== 0x80) return false
    let codePoint = ((first & 0x1f) << 6) | (second & 0x3f)
    if (first >= 0xe0) {
      if ((bytes & 0xc0) !== 0x80) return false
      codePoint = ((codePoint << 6) | (bytes & 0x3f)) & 0xffff
    }
    return this.#walk.mayBeginWith(codePoint)
  }

  /** {@link read} for ASCII. @returns up to where: an escape, or what is not known yet */
  readPlain(units: Units, from: number, to: number): number {
    const { machine, table } = this.#walk
    const { ascii } = machine
    const { cells } = table
    let { state } = this.#walk
    let at = from
    for (; at < to; at++) {
      const unit = units[at]!
      if (unit >= 128 || (SORTS[unit]! & ESCAPE) !== 0) break
      const next = cells[state + ascii[unit]!]!
      if (next <= 0) break
      state = next
    }
    this.#walk.state = state
    this.#walk.steps += at - from
    return at
  }

  restart(): void {
    this.#walk.begin()
  }

  hold(): number {
    return Infinity
  }
}
