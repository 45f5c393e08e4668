/**
 * One sequence of symbols on its way through a dfa, with as much of its past as something alive may need. How far
 * back that goes is found by running backwards from what is alive: the last place where a match may begin is the
 * oldest live start, which is the hold of the guard design, 3.3.
 */
import type { PatternView } from '../plugin.ts'
import { runSync, type Task } from './time-slice.ts'
import { BEGINS, EMPTY, IDLE, UNSEEN_CLASS, type ProductDfa } from './product-dfa.ts'
import { AS_IS, BLANK, LETTER } from './normalization.ts'
import type { MatchEnd, Component } from './component.ts'
import { MOVED, UNKNOWN, type TransitionTable } from './lazy-dfa.ts'
const CODES = 128
import type { Utf16 } from './utf16.ts'

/** A match, where it stands in the raw text. */
export interface Found {
  readonly pattern: number
  readonly view: PatternView
  readonly start: number
  readonly end: number
}

/** What a match is, as soon as it ends: where it begins is not known yet. */
interface Ending {
  readonly hit: MatchEnd
  /** What was read when it was reached: a symbol, or nothing, and where it stands. */
  readonly symbol: number
  readonly start: number
  readonly end: number
}

/** Part of the way back. */
interface Way {
  /** What would be alive behind the symbol at `at`, and in which table. */
  table: TransitionTable
  state: number
  at: number
  /** The oldest place so far where a match may begin, or -1. */
  oldest: number
}

/** Up to so many symbols the way back is walked whenever somebody asks. */
const SHORT = 256
/** A longer way is walked so many symbols at a time for each that came: what is held lags by less than an eighth. */
const PACE = 16
/** After so many there is a pause: each takes a microsecond or two where there is much to keep apart, and ten where it is new. */
const PAUSE = 64

/** Of the past: a symbol, and where it begins and ends in the raw text. */
const WIDTH = 3

/** There is room for so many more of them before they come. */
const STRETCH = 64

const NONE = new Int32Array(0)
/** There is no symbol where the text ends. */
const NONE_LEFT = -1

// V8 would look into the other module for each character.
const codes = CODES
const idle = IDLE
const nothing = UNSEEN_CLASS

export class MatchCursor {
  /** What ended the text. */
  found: Found | undefined
  readonly #dfa: ProductDfa
  #table: TransitionTable
  #state: number
  // The past since the oldest live start that is known, from #first to #count, of so many numbers each as WIDTH says.
  #past = NONE
  #first = 0
  #count = 0
  /** Where it ended when the way back was last begun; 0 if all of it was forgotten since. */
  #walked = 0
  /** What has been walked of that, if there is more of it. */
  #way: Way | undefined
  /** Where it ended when somebody last asked. */
  #asked = 0
  #ending: Ending | undefined

  constructor(dfa: ProductDfa) {
    this.#dfa = dfa
    this.#table = dfa.forward.table
    this.#state = dfa.begin()
  }

  /** Begins anew, before any text. */
  reset(): void {
    this.#table = this.#dfa.forward.table
    this.#state = this.#dfa.begin()
    this.#first = this.#count = this.#walked = 0
  }

  /** Has a match ended? Nothing may follow it. */
  get isOver(): boolean {
    return this.#ending !== undefined
  }

  /**
   * Reads a code point of this class.
   * @returns whether a match ends with it or before it; {@link locate} tells where it stands, and nothing may follow
   */
  advance(codeClass: number, start: number, end: number): boolean {
    const table = this.#table
    const next = codeClass < table.stride ? table.cells[this.#state + codeClass]! : UNKNOWN
    if (next <= 0) return this.#fill(codeClass, start, end)
    this.#follow(next, codeClass, start, end)
    return false
  }

  /** @returns whether a match ends with the text; {@link locate} tells where it stands */
  finish(): boolean {
    return this.#choose(this.#dfa.endsAtTextEnd(this.#table.setOf(this.#state)), NONE_LEFT, 0, 0)
  }

  /**
   * {@link advance} for units without surrogates.
   * @param position of the first of them in all of the text
   * @returns how far they were read; where {@link isOver}, that is where a match was reached
   */
  run(units: Utf16, from: number, to: number, position: number): number {
    const dfa = this.#dfa
    for (let at = from; at < to;) {
      at = this.#runOn(units, at, Math.min(to, at + STRETCH), position - from)
      if (at === to) break
      const start = position + at - from
      const codeClass = dfa.classOf(units[at]!)
      if (codeClass !== UNSEEN_CLASS && this.advance(codeClass, start, start + 1)) return at
      at++
    }
    return to
  }

  /** How many symbols of the past are kept. */
  get kept(): number {
    return this.#count - this.#first
  }

  /** Where the past begins that something alive may need; Infinity if nothing is. No more than {@link hold}. */
  get since(): number {
    return this.#first < this.#count ? this.#startAt(this.#first) : Infinity
  }

  /**
   * Where the oldest match under way may begin; Infinity if there is none. Never less than before.
   * @param isExact whether it matters now: if not, it may lag by an eighth of what is held, where that is long
   */
  hold(isExact: boolean): number {
    if (this.#isIdle) return Infinity
    const count = this.#count
    const came = count < this.#asked ? count : count - this.#asked
    this.#asked = count
    if (isExact || count - this.#first <= SHORT) {
      const way = this.#begin()
      this.#walk(way, Infinity)
      this.#arrive(way)
    } else {
      // A long way is walked along with the text, so that nobody waits for all of it.
      const way = (this.#walked > 0 && this.#way) || this.#begin()
      if (this.#walk(way, came * PACE)) this.#arrive(way)
      else this.#way = way
    }
    return this.#startAt(this.#first)
  }

  /** Forgets what is over, if that is quickly told, in steps; for whoever looks for one match in all of a text. */
  *forgetting(): Task<void> {
    if (this.#count - this.#first <= SHORT) yield* this.holding()
  }

  /** {@link hold} that is exact, in steps. */
  *holding(): Task<number> {
    if (this.#isIdle) return Infinity
    this.#asked = this.#count
    const way = this.#begin()
    while (!this.#walk(way, PAUSE)) yield
    this.#arrive(way)
    return this.#startAt(this.#first)
  }

  /** Where the match stands that has ended. */
  *locate(): Task<Found> {
    return (this.found ??= (yield* this.#locate(this.#ending!))!)
  }

  get #isIdle(): boolean {
    return this.#table.marks[this.#state >> this.#table.shift] === IDLE
  }

  #follow(next: number, codeClass: number, start: number, end: number): void {
    const table = this.#table
    if (table.marks[next >> table.shift] === IDLE) this.#first = this.#count = this.#walked = 0
    else this.#remember(this.#symbolOf(codeClass), start, end)
    this.#state = next
  }

  #fill(codeClass: number, start: number, end: number): boolean {
    if (codeClass === UNSEEN_CLASS) return false
    for (;;) {
      const table = this.#table
      let next = codeClass < table.stride ? table.cells[this.#state + codeClass]! : UNKNOWN
      if (next === UNKNOWN) next = table.fill(this.#state, codeClass)
      if (next === MOVED) {
        const set = table.setOf(this.#state)
        this.#table = this.#dfa.forward.table
        this.#state = this.#table.enter(set)
        continue
      }
      if (next < 0) {
        const hits = this.#dfa.endsAfter(table.setOf(this.#state), codeClass)
        if (this.#choose(hits, this.#symbolOf(codeClass), start, end)) return true
      }
      this.#follow(Math.abs(next), codeClass, start, end)
      return false
    }
  }

  // Of all that is reached at one place, the first pattern, and of its views the first.
  #choose(hits: readonly MatchEnd[], symbol: number, start: number, end: number): boolean {
    for (const hit of [...hits].sort(byOrder)) {
      const ending = { hit, symbol, start, end }
      if (hit.target.view === 'leet') {
        // It counts only if it has enough letters. A literal: its beginning is never far, blanks aside.
        this.found = runSync(this.#locate(ending))
        if (this.found === undefined) continue
      }
      this.#ending = ending
      return true
    }
    return false
  }

  *#locate({ hit, symbol, start, end }: Ending): Task<Found | undefined> {
    const way = this.#undo(hit, symbol)
    const begins = (way.table.marks[way.state >> way.table.shift]! & BEGINS) !== 0
    while (!this.#walk(way, PAUSE)) yield
    const { oldest } = way
    const within = oldest >= 0
    if (!within && !begins) return undefined
    const { pattern, view, plain } = hit.target
    const isWhole = hit.symbols > 0
    const from = within ? oldest : this.#count
    const last = isWhole ? symbol : NONE_LEFT
    if (view === 'leet' && !this.#isMostlyLetters(from, last)) return undefined
    return {
      pattern,
      view: plain && this.#isAsIs(from, last) ? 'raw' : view,
      start: within ? this.#startAt(oldest) : start,
      end: isWhole ? end : this.#past[this.#lastSeen(hit.component) * WIDTH + 2]!,
    }
  }

  #undo(hit: MatchEnd, symbol: number): Way {
    const state = this.#dfa.undo(hit, symbol)
    return { table: this.#dfa.backward.table, state, at: this.#count - 1, oldest: -1 }
  }

  #begin(): Way {
    this.#walked = this.#count
    this.#way = undefined
    const state = this.#dfa.alive(this.#state, this.#table)
    return { table: this.#dfa.backward.table, state, at: this.#count - 1, oldest: -1 }
  }

  #arrive({ oldest }: Way): void {
    this.#way = undefined
    this.#first = Math.max(oldest, this.#first)
  }

  // Walks back, at most so many symbols. Tells whether it has come to the end, with the oldest place in the past where a
  // match may begin.
  #walk(way: Way, most: number): boolean {
    const { backward } = this.#dfa
    let { table, state, at, oldest } = way
    if (table !== backward.table) {
      // The same columns may mean something else by now.
      const set = table.setOf(state)
      ;({ table } = backward)
      state = table.enter(set)
    }
    const last = Math.max(this.#first, at - most + 1)
    const past = this.#past
    let isOver = false
    for (; at >= last; at--) {
      if ((table.marks[state >> table.shift]! & EMPTY) !== 0) {
        isOver = true
        break
      }
      const column = this.#dfa.columnOf(past[at * WIDTH]!)
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
    way.table = table
    way.state = state
    way.at = at
    way.oldest = oldest
    return isOver || at < this.#first
  }

  #isMostlyLetters(from: number, last: number): boolean {
    let surplus = 0
    for (let at = from; at <= this.#count; at++) {
      const trait = this.#traitAt(at, last)
      surplus += ((trait & LETTER) === 0 ? 0 : 2) - ((trait & BLANK) === 0 ? 1 : 0)
    }
    return surplus >= 0
  }

  #isAsIs(from: number, last: number): boolean {
    for (let at = from; at <= this.#count; at++) {
      if ((this.#traitAt(at, last) & AS_IS) === 0) return false
    }
    return true
  }

  // Behind the last symbol of the past comes another one, or nothing.
  #traitAt(at: number, last: number): number {
    const symbol = at < this.#count ? this.#past[at * WIDTH]! : last
    return symbol === NONE_LEFT ? BLANK | AS_IS : this.#dfa.traits[this.#dfa.classIn(symbol)]!
  }

  /** The last symbol that a component saw; there is one, since a match ends behind it. */
  #lastSeen(component: Component): number {
    let at = this.#count - 1
    for (; at > this.#first; at--) {
      const symbol = this.#past[at * WIDTH]!
      if (component.sees(this.#dfa.classIn(symbol), symbol)) break
    }
    return at
  }

  /** What a code point of this class is here. */
  #symbolOf(codeClass: number): number {
    const table = this.#table
    return this.#dfa.symbolOf(table.tags[this.#state >> table.shift]!, codeClass)
  }

  /** {@link run} as far as all is known, and ASCII: with nothing else in the way. @param to at most {@link STRETCH} further */
  #runOn(units: Utf16, from: number, to: number, offset: number): number {
    const dfa = this.#dfa
    const { ascii } = dfa
    const { cells, marks, tags, shift } = this.#table
    this.#makeSpace(STRETCH)
    const past = this.#past
    let state = this.#state
    let count = this.#count
    let isNew = false
    let at = from
    for (; at < to; at++) {
      const unit = units[at]!
      if (unit >= codes) break
      const codeClass = ascii[unit]!
      const next = cells[state + codeClass]!
      if (next <= 0 || codeClass === nothing) break
      if (marks[next >> shift] === idle) {
        isNew = true
        count = 0
      } else {
        const place = count++ * WIDTH
        const start = offset + at
        past[place] = dfa.symbolOf(tags[state >> shift]!, codeClass)
        past[place + 1] = start
        past[place + 2] = start + 1
      }
      state = next
    }
    this.#state = state
    this.#count = count
    if (isNew) this.#first = this.#walked = 0
    return at
  }

  #startAt(at: number): number {
    return this.#past[at * WIDTH + 1]!
  }

  #remember(symbol: number, start: number, end: number): void {
    this.#makeSpace(1)
    const past = this.#past
    const place = this.#count++ * WIDTH
    past[place] = symbol
    past[place + 1] = start
    past[place + 2] = end
  }

  #makeSpace(more: number): void {
    const [first, count] = [this.#first, this.#count]
    const past = this.#past
    if ((count + more) * WIDTH <= past.length) return
    const needed = (count - first + more) * WIDTH
    if (needed * 2 > past.length) this.#past = new Int32Array(needed * 2)
    if (count > first) this.#past.set(past.subarray(first * WIDTH, count * WIDTH))
    this.#first = 0
    this.#count -= first
    this.#walked -= first
    this.#asked -= first
    if (this.#way !== undefined) {
      this.#way.at -= first
      this.#way.oldest -= first
    }
  }
}

/** Of views that match at the same place, the one that says most plainly what was written. */
const ORDER: readonly PatternView[] = ['raw', 'folded', 'squeezed', 'leet', 'derived', 'decoded']

function byOrder(one: MatchEnd, other: MatchEnd): number {
  const [a, b] = [one.target, other.target]
  return a.pattern - b.pattern || ORDER.indexOf(a.view) - ORDER.indexOf(b.view)
}
