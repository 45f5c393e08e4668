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
  /** Where it ended when the way back was last walked. */
  #walked = 0

  constructor(machine: Machine) {
    this.#machine = machine
    this.#table = machine.forward.table
    this.#state = machine.begin()
  }

  /** Begins anew, before any text. */
  reset(): void {
    this.#table = this.#machine.forward.table
    this.#state = this.#machine.begin()
    this.#first = this.#count = this.#walked = 0
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
   * {@link advance} for a stretch of a text, up to the first half of a surrogate pair.
   * @param position of the stretch in all of the text
   * @returns how far it was read; a match is in {@link found}, and then that is where it was reached
   */
  run(text: string, from: number, to: number, position: number): number {
    const machine = this.#machine
    const { ascii } = machine
    let table = this.#table
    let { cells, marks, tags, shift } = table
    let state = this.#state
    for (let at = from; at < to; at++) {
      const unit = text.charCodeAt(at)
      const start = position + at - from
      if (unit < 128) {
        const codeClass = ascii[unit]!
        const next = cells[state + codeClass]!
        if (next > 0 && codeClass !== NOTHING) {
          if (marks[next >> shift] === IDLE) this.#first = this.#count = this.#walked = 0
          else this.#remember(machine.symbolOf(tags[state >> shift]!, codeClass), start, start + 1)
          state = next
          continue
        }
      } else if ((unit & 0xf800) === 0xd800) {
        this.#state = state
        return at
      }
      this.#state = state
      const codeClass = machine.classOf(unit)
      if (codeClass !== NOTHING && this.advance(codeClass, start, start + 1)) return at
      table = this.#table
      state = this.#state
      ;({ cells, marks, tags, shift } = table)
    }
    this.#state = state
    return to
  }

  /** Where the past begins that something alive may need; Infinity if nothing is. No more than {@link hold}. */
  get since(): number {
    return this.#first < this.#count ? this.#starts[this.#first]! : Infinity
  }

  /**
   * Where the oldest match under way may begin; Infinity if there is none. Never less than before.
   * @param isExact whether it matters now: if not, it may lag by an eighth of what is held, where that is long
   */
  hold(isExact: boolean): number {
    if (this.#table.marks[this.#state >> this.#table.shift] === IDLE) return Infinity
    const length = this.#count - this.#first
    // A long way is walked only when enough text has come to pay for it.
    if (!isExact && length > SHORT && this.#count - this.#walked < length >> 3) {
      return this.#starts[this.#first]!
    }
    this.#walked = this.#count
    const oldest = this.#oldest(this.#machine.alive(this.#state, this.#table))
    this.#first = Math.max(oldest, this.#first)
    return this.#starts[this.#first]!
  }

  #follow(next: number, codeClass: number, start: number, end: number): void {
    const table = this.#table
    if (table.marks[next >> table.shift] === IDLE) this.#first = this.#count = this.#walked = 0
    else this.#remember(this.#symbolOf(codeClass), start, end)
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
        const hits = this.#machine.hits(table.setOf(this.#state), codeClass)
        if (this.#choose(hits, this.#symbolOf(codeClass), start, end)) return true
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

  /** What a code point of this class is here. */
  #symbolOf(codeClass: number): number {
    const table = this.#table
    return this.#machine.symbolOf(table.tags[this.#state >> table.shift]!, codeClass)
  }

  #remember(symbol: number, start: number, end: number): void {
    if (this.#count === this.#symbols.length) this.#makeSpace()
    const at = this.#count++
    this.#symbols[at] = symbol
    this.#starts[at] = start
    this.#ends[at] = end
  }

  #makeSpace(): void {
    const [first, count] = [this.#first, this.#count]
    const from = [this.#symbols, this.#starts, this.#ends] as const
    const size = from[0].length
    if ((count - first) * 2 > size || size === 0) {
      const space = Math.max(32, size * 2)
      this.#symbols = new Int32Array(space)
      this.#starts = new Int32Array(space)
      this.#ends = new Int32Array(space)
    }
    const [symbols, starts, ends] = [this.#symbols, this.#starts, this.#ends]
    for (let to = 0, at = first; at < count; to++, at++) {
      symbols[to] = from[0][at]!
      starts[to] = from[1][at]!
      ends[to] = from[2][at]!
    }
    this.#first = 0
    this.#count -= first
    this.#walked -= first
  }
}

const ORDER = 'RFSLXD'

function byOrder(one: Hit, other: Hit): number {
  const [a, b] = [one.goal, other.goal]
  return a.pattern - b.pattern || ORDER.indexOf(a.view) - ORDER.indexOf(b.view)
}
