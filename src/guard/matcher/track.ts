/**
 * One sequence of symbols on its way through a machine, with as much of its past as something alive may need. How far
 * back that goes is found by running backwards from what is alive: the last place where a match may begin is the
 * oldest live start, which is the hold of the guard design, 3.3.
 */
import { BEGINS, EMPTY, IDLE, NOTHING, type Machine } from './machine.ts'
import type { View } from './nfa.ts'
import { AS_IS, BLANK, LETTER } from './reading.ts'
import type { Hit, Side } from './side.ts'
import { MOVED, UNKNOWN, type Table } from './table.ts'

/** A match, where it stands in the raw text. */
export interface Found {
  readonly pattern: number
  readonly view: View
  readonly start: number
  readonly end: number
}

/** Up to so many symbols the way back is walked whenever somebody asks. */
const SHORT = 256

const NONE = new Int32Array(0)
/** There is no symbol where the text ends. */
const NONE_LEFT = -1

export class Track {
  /** What ended the text. */
  found: Found | undefined
  readonly #machine: Machine
  #table: Table
  #state: number
  // The past since the oldest live start that is known, from #first to #count: symbols and their raw spans.
  #symbols = NONE
  #starts = NONE
  #ends = NONE
  #first = 0
  #count = 0
  /** How many symbols have come since the way back was last walked. */
  #fresh = 0

  constructor(machine: Machine) {
    this.#machine = machine
    this.#table = machine.forward.table
    this.#state = machine.begin()
  }

  /** Begins anew, before any text. */
  reset(): void {
    this.#table = this.#machine.forward.table
    this.#state = this.#machine.begin()
    this.#first = this.#count = this.#fresh = 0
  }

  /**
   * Reads a code point of this class.
   * @returns whether a match ends with it or before it; it is in {@link found}, and nothing may follow
   */
  advance(codeClass: number, start: number, end: number): boolean {
    const table = this.#table
    const next = codeClass < table.stride ? table.cells[this.#state + codeClass]! : UNKNOWN
    if (next <= 0) return this.#fill(codeClass, start, end)
    this.#follow(next, codeClass, start, end)
    return false
  }

  /** @returns whether a match ends with the text; it is in {@link found} */
  finish(): boolean {
    return this.#choose(this.#machine.hitsAtEnd(this.#table.setOf(this.#state)), NONE_LEFT, 0, 0)
  }

  /**
   * Where the oldest match under way may begin; Infinity if there is none. Never less than before.
   * @param isExact whether it matters now: if not, it may lag by an eighth of what is held, where that is long
   */
  hold(isExact: boolean): number {
    if (this.#table.marks[this.#state >> this.#table.shift] === IDLE) return Infinity
    const length = this.#count - this.#first
    // A long way is walked only when enough text has come to pay for it.
    if (!isExact && length > SHORT && this.#fresh < length >> 3) return this.#starts[this.#first]!
    this.#fresh = 0
    const oldest = this.#oldest(this.#machine.alive(this.#table.setOf(this.#state)))
    this.#first = Math.max(oldest, this.#first)
    return this.#starts[this.#first]!
  }

  #follow(next: number, codeClass: number, start: number, end: number): void {
    const table = this.#table
    if (table.marks[next >> table.shift] === IDLE) this.#first = this.#count = this.#fresh = 0
    else this.#remember(codeClass, start, end)
    this.#state = next
  }

  #fill(codeClass: number, start: number, end: number): boolean {
    if (codeClass === NOTHING) return false
    for (;;) {
      const table = this.#table
      let next = codeClass < table.stride ? table.cells[this.#state + codeClass]! : UNKNOWN
      if (next === UNKNOWN) next = table.fill(this.#state, codeClass)
      if (next === MOVED) {
        const set = table.setOf(this.#state)
        this.#table = this.#machine.forward.table
        this.#state = this.#table.enter(set)
        continue
      }
      if (next < 0) {
        const set = table.setOf(this.#state)
        const hits = this.#machine.hits(set, codeClass)
        if (this.#choose(hits, this.#machine.symbolOf(set, codeClass), start, end)) return true
      }
      this.#follow(Math.abs(next), codeClass, start, end)
      return false
    }
  }

  // Of all that is reached at one place, the first pattern, and of its views the first.
  #choose(hits: readonly Hit[], symbol: number, start: number, end: number): boolean {
    for (const hit of [...hits].sort(byOrder)) {
      const found = this.#locate(hit, symbol, start, end)
      if (found === undefined) continue
      this.found = found
      return true
    }
    return false
  }

  #locate(hit: Hit, symbol: number, start: number, end: number): Found | undefined {
    const state = this.#machine.undo(hit, symbol)
    const { table } = this.#machine.backward
    const begins = (table.marks[state >> table.shift]! & BEGINS) !== 0
    const oldest = this.#oldest(state)
    const within = oldest >= 0
    if (!within && !begins) return undefined
    const { pattern, view, plain } = hit.goal
    const isWhole = hit.symbols > 0
    const traits = this.#traits(within ? oldest : this.#count, isWhole ? symbol : NONE_LEFT)
    if (view === 'L' && traits.letters * 2 < traits.visible) return undefined
    return {
      pattern,
      view: plain && traits.asIs ? 'R' : view,
      start: within ? this.#starts[oldest]! : start,
      end: isWhole ? end : this.#ends[this.#lastSeen(hit.side)]!,
    }
  }

  // Walks back from a backward state. Gives the oldest place in the past where a match may begin, or -1.
  #oldest(state: number): number {
    const { backward } = this.#machine
    let { table } = backward
    let oldest = -1
    for (let at = this.#count - 1; at >= this.#first; at--) {
      if ((table.marks[state >> table.shift]! & EMPTY) !== 0) break
      const column = this.#machine.columnOf(this.#symbols[at]!)
      let next = column < table.stride ? table.cells[state + column]! : UNKNOWN
      if (next === UNKNOWN) next = table.fill(state, column)
      while (next === MOVED) {
        const here = table.setOf(state)
        ;({ table } = backward)
        state = table.enter(here)
        next = table.fill(state, column)
      }
      state = next
      if ((table.marks[state >> table.shift]! & BEGINS) !== 0) oldest = at
    }
    return oldest
  }

  #traits(from: number, symbol: number) {
    const { traits } = this.#machine
    const counted = { letters: 0, visible: 0, asIs: true }
    for (let at = from; at <= this.#count; at++) {
      const one = at < this.#count ? this.#symbols[at]! : symbol
      if (one === NONE_LEFT) continue
      const trait = traits[this.#machine.classIn(one)]!
      if ((trait & LETTER) !== 0) counted.letters++
      if ((trait & BLANK) === 0) counted.visible++
      if ((trait & AS_IS) === 0) counted.asIs = false
    }
    return counted
  }

  /** The last symbol that a side saw; there is one, since a match ends behind it. */
  #lastSeen(side: Side): number {
    let at = this.#count - 1
    for (; at > this.#first; at--) {
      const symbol = this.#symbols[at]!
      if (side.sees(this.#machine.classIn(symbol), symbol)) break
    }
    return at
  }

  #remember(codeClass: number, start: number, end: number): void {
    if (this.#count === this.#symbols.length) this.#makeSpace()
    const at = this.#count++
    const set = this.#table.setOf(this.#state)
    this.#symbols[at] = this.#machine.symbolOf(set, codeClass)
    this.#starts[at] = start
    this.#ends[at] = end
    this.#fresh++
  }

  #makeSpace(): void {
    const size = this.#count - this.#first
    const space = Math.max(32, this.#symbols.length * (size * 2 > this.#symbols.length ? 2 : 1))
    this.#symbols = moved(this.#symbols, this.#first, this.#count, space)
    this.#starts = moved(this.#starts, this.#first, this.#count, space)
    this.#ends = moved(this.#ends, this.#first, this.#count, space)
    this.#first = 0
    this.#count = size
  }
}

const ORDER = 'RFSLXD'

function byOrder(one: Hit, other: Hit): number {
  const [a, b] = [one.goal, other.goal]
  return a.pattern - b.pattern || ORDER.indexOf(a.view) - ORDER.indexOf(b.view)
}

function moved(
  from: Int32Array,
  first: number,
  end: number,
  space: number,
): Int32Array<ArrayBuffer> {
  const to = new Int32Array(space)
  to.set(from.subarray(first, end))
  return to
}
