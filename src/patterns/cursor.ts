/**
 * Places in a text that is read through a DFA. A {@link DfaCursor} knows whether a match has ended. A {@link MatchCursor}
 * also keeps as much of the text as a match under way may need: where a match begins is found by stepping the backward DFA
 * over that past. The last place where a match may begin is the oldest one alive, and nothing from there on may be released.
 */
import type { PatternMatch, PatternView } from '../plugin.ts'
import {
  AS_IS,
  BLANK,
  LETTER,
  type Component,
  type MatchEnd,
  BEGINS,
  EMPTY,
  MOVED,
  UNKNOWN,
  UNSEEN_CLASS,
  type ProductDfa,
  type TransitionTable,
} from './product-dfa.ts'
import { runSync, type Task } from './time-slice.ts'
import type { CodePointSink } from './views/decode.ts'

/** The state of a {@link ProductDfa} at one place of a text. It does not remember where matches began. */
export class DfaCursor {
  readonly dfa: ProductDfa
  /** The present table, and the state in it. */
  table: TransitionTable
  state: number
  /** Steps that had to be built. */
  built = 0

  constructor(dfa: ProductDfa) {
    this.dfa = dfa
    this.table = dfa.forward.table
    this.state = dfa.begin()
  }

  /** Begins again, as before any text. */
  restart(): void {
    this.table = this.dfa.forward.table
    this.state = this.dfa.begin()
  }

  /** No match is under way. */
  get idle(): boolean {
    return this.isIdle(this.state)
  }

  /**
   * Reads a code point of this class: a look-up, or up to 50 µs for a step that has to be built.
   * @returns whether a match may end with it; then nothing may follow
   */
  step(codeClass: number): boolean {
    const next = this.next(codeClass)
    if (next < 0) return true
    this.state = next
    return false
  }

  /** Whether a match ends where the text ends. */
  endsInMatch(): boolean {
    return this.dfa.endsAtTextEnd(this.table.setOf(this.state)).length > 0
  }

  protected isIdle(state: number): boolean {
    return (this.table.marks[state >> this.table.shift]! & EMPTY) !== 0
  }

  /** What is in the cell of the present state and a class. */
  protected next(codeClass: number): number {
    const { table } = this
    const next = codeClass < table.stride ? table.cells[this.state + codeClass]! : UNKNOWN
    return next === UNKNOWN ? this.#build(codeClass) : next
  }

  #build(codeClass: number): number {
    this.built++
    let next = this.table.fill(this.state, codeClass)
    while (next === MOVED) {
      const set = this.table.setOf(this.state)
      this.table = this.dfa.forward.table
      this.state = this.table.enter(set)
      next = this.table.fill(this.state, codeClass)
    }
    return next
  }
}

/** A match that has ended; where it begins is not known yet. */
interface Ending {
  readonly match: MatchEnd
  /** The symbol with which it ended, and its offsets; {@link NO_SYMBOL} at the end of the text. */
  readonly symbol: number
  readonly start: number
  readonly end: number
}

/** A walk back over the past that may be interrupted. */
interface WalkBack {
  table: TransitionTable
  /** What is alive behind the symbol at `at`. */
  state: number
  at: number
  /** The oldest place so far where a match may begin, or -1. */
  oldest: number
}

/** A past of up to so many symbols is walked at every question. */
const SHORT = 256
/** A longer one is walked so many symbols for each that came since: the answer lags by less than an eighth of it. */
const PACE = 16
/** Symbols between two pauses of a walk; a symbol takes 2 µs with large sets of states, and 10 when they are new. */
const PIECE = 64

/** Numbers for each symbol of the past: the symbol, where it begins and where it ends in the text. */
const WIDTH = 3
const NO_SYMBOL = -1
const NO_PAST = new Int32Array(0)

/** Which view is reported where several match at the same place. */
const ORDER: readonly PatternView[] = ['raw', 'folded', 'squeezed', 'leet', 'derived', 'decoded']

/** A place in a text with its past. */
export class MatchCursor extends DfaCursor {
  /** Symbols from #first to #count, the first being the oldest place known where a match under way may begin. */
  #past = NO_PAST
  #first = 0
  #count = 0
  /** #count when the last walk back began; 0 if all of that was dropped since. */
  #walked = 0
  /** The rest of that walk, if it was interrupted. */
  #walk: WalkBack | undefined
  /** #count at the last question. */
  #asked = 0
  #ending: Ending | undefined
  #found: PatternMatch | undefined

  override restart(): void {
    super.restart()
    this.#dropPast()
  }

  /** A match has ended. Nothing may follow it. */
  get isOver(): boolean {
    return this.#ending !== undefined
  }

  /** How many symbols of the past are kept. */
  get kept(): number {
    return this.#count - this.#first
  }

  /** Where the kept past begins; Infinity if nothing is under way. At most {@link pendingStart}, and quicker. */
  get since(): number {
    return this.#first < this.#count ? this.#startAt(this.#first) : Infinity
  }

  /**
   * Reads a code point of a class that is not `UNSEEN_CLASS`.
   * @param start its offsets in the text
   * @returns whether a match ends with it or before it; {@link locate} tells where
   */
  advance(codeClass: number, start: number, end: number): boolean {
    let next = this.next(codeClass)
    if (next < 0) {
      const ends = this.dfa.endsAfter(this.table.setOf(this.state), codeClass)
      if (this.#choose(ends, this.#symbolOf(codeClass), start, end)) return true
      next = Math.abs(next)
    }
    if (this.isIdle(next)) this.#dropPast()
    else this.#remember(this.#symbolOf(codeClass), start, end)
    this.state = next
    return false
  }

  /** The text is over. @returns whether a match ends with it; {@link locate} tells where */
  finish(): boolean {
    const ends = this.dfa.endsAtTextEnd(this.table.setOf(this.state))
    return this.#choose(ends, NO_SYMBOL, 0, 0)
  }

  /**
   * Where the oldest match under way may begin; Infinity if there is none. Never decreases.
   * @param isExact false: the answer may lag by an eighth of a long past, so that a stream pays for it little by little
   */
  pendingStart(isExact: boolean): number {
    if (this.idle) return Infinity
    const count = this.#count
    const came = count < this.#asked ? count : count - this.#asked
    this.#asked = count
    const isWhole = isExact || this.kept <= SHORT
    const walk = (!isWhole && this.#walked > 0 && this.#walk) || this.#beginWalk()
    if (this.#walkBack(walk, isWhole ? Infinity : came * PACE)) this.#drop(walk)
    else this.#walk = walk
    return this.#startAt(this.#first)
  }

  /** {@link pendingStart}, exact and in steps. */
  *pendingStartTask(): Task<number> {
    if (this.idle) return Infinity
    this.#asked = this.#count
    const walk = this.#beginWalk()
    while (!this.#walkBack(walk, PIECE)) yield
    this.#drop(walk)
    return this.#startAt(this.#first)
  }

  /** Drops what is over if the past is short, in steps; for a search of one match in a whole text. */
  *dropIfShort(): Task<void> {
    if (this.kept <= SHORT) yield* this.pendingStartTask()
  }

  /** The match that has ended, in steps: it may have begun at any distance. */
  *locate(): Task<PatternMatch> {
    return (this.#found ??= (yield* this.#locate(this.#ending!))!)
  }

  /** Of all matches that end at one place, takes the first pattern's, and of its views the first in {@link ORDER}. */
  #choose(ends: readonly MatchEnd[], symbol: number, start: number, end: number): boolean {
    for (const match of [...ends].sort(byOrder)) {
      const ending = { match, symbol, start, end }
      if (match.target.view === 'leet') {
        // It counts only if enough of it are letters. A literal is short, so this takes no steps.
        this.#found = runSync(this.#locate(ending))
        if (this.#found === undefined) continue
      }
      this.#ending = ending
      return true
    }
    return false
  }

  *#locate({ match, symbol, start, end }: Ending): Task<PatternMatch | undefined> {
    const state = this.dfa.undo(match, symbol)
    const { table } = this.dfa.backward
    const begins = (table.marks[state >> table.shift]! & BEGINS) !== 0
    const walk = { table, state, at: this.#count - 1, oldest: -1 }
    while (!this.#walkBack(walk, PIECE)) yield
    const { oldest } = walk
    const isBefore = oldest >= 0
    if (!isBefore && !begins) return undefined
    const { pattern, view, plain } = match.target
    const includesSymbol = match.symbols > 0
    const from = isBefore ? oldest : this.#count
    const last = includesSymbol ? symbol : NO_SYMBOL
    if (view === 'leet' && !this.#isMostlyLetters(from, last)) return undefined
    return {
      pattern,
      view: plain && this.#isAsIs(from, last) ? 'raw' : view,
      start: isBefore ? this.#startAt(oldest) : start,
      end: includesSymbol ? end : this.#past[this.#lastSeenBy(match.component) * WIDTH + 2]!,
    }
  }

  #beginWalk(): WalkBack {
    this.#walked = this.#count
    this.#walk = undefined
    const state = this.dfa.alive(this.state, this.table)
    return { table: this.dfa.backward.table, state, at: this.#count - 1, oldest: -1 }
  }

  /** Drops the past before the oldest place where a match may begin. */
  #drop({ oldest }: WalkBack): void {
    this.#walk = undefined
    this.#first = Math.max(oldest, this.#first)
  }

  #dropPast(): void {
    this.#first = this.#count = this.#walked = 0
  }

  /** Walks back over at most so many symbols. @returns whether the walk is complete */
  #walkBack(walk: WalkBack, most: number): boolean {
    const { backward } = this.dfa
    let { table, state, at, oldest } = walk
    if (table !== backward.table) {
      // Columns of an older table may have another meaning by now.
      const set = table.setOf(state)
      ;({ table } = backward)
      state = table.enter(set)
    }
    const last = Math.max(this.#first, at - most + 1)
    let isOver = false
    for (; at >= last; at--) {
      if ((table.marks[state >> table.shift]! & EMPTY) !== 0) {
        isOver = true
        break
      }
      const column = this.dfa.columnOf(this.#past[at * WIDTH]!)
      let next = column < table.stride ? table.cells[state + column]! : UNKNOWN
      if (next === UNKNOWN) next = table.fill(state, column)
      while (next === MOVED) {
        const set = table.setOf(state)
        ;({ table } = backward)
        state = table.enter(set)
        next = table.fill(state, column)
      }
      state = next
      if ((table.marks[state >> table.shift]! & BEGINS) !== 0) oldest = at
    }
    Object.assign(walk, { table, state, at, oldest })
    return isOver || at < this.#first
  }

  #isMostlyLetters(from: number, last: number): boolean {
    let surplus = 0
    for (let at = from; at <= this.#count; at++) {
      const traits = this.#traitsAt(at, last)
      surplus += ((traits & LETTER) === 0 ? 0 : 2) - ((traits & BLANK) === 0 ? 1 : 0)
    }
    return surplus >= 0
  }

  #isAsIs(from: number, last: number): boolean {
    for (let at = from; at <= this.#count; at++) {
      if ((this.#traitsAt(at, last) & AS_IS) === 0) return false
    }
    return true
  }

  /** Traits of a symbol of the past, or of the one that follows it. */
  #traitsAt(at: number, last: number): number {
    const symbol = at < this.#count ? this.#past[at * WIDTH]! : last
    return symbol === NO_SYMBOL ? BLANK | AS_IS : this.dfa.traits[this.dfa.classIn(symbol)]!
  }

  /** The last symbol of the past that a component saw; there is one, since it has a match that ends behind it. */
  #lastSeenBy(component: Component): number {
    let at = this.#count - 1
    for (; at > this.#first; at--) {
      const symbol = this.#past[at * WIDTH]!
      if (component.sees(this.dfa.classIn(symbol), symbol)) break
    }
    return at
  }

  /** The symbol that a code point of this class is in the present context. */
  #symbolOf(codeClass: number): number {
    return this.dfa.symbolOf(this.table.setOf(this.state), codeClass)
  }

  #startAt(at: number): number {
    return this.#past[at * WIDTH + 1]!
  }

  #remember(symbol: number, start: number, end: number): void {
    if ((this.#count + 1) * WIDTH > this.#past.length) this.#makeSpace()
    const past = this.#past
    const place = this.#count++ * WIDTH
    past[place] = symbol
    past[place + 1] = start
    past[place + 2] = end
  }

  #makeSpace(): void {
    const [first, count] = [this.#first, this.#count]
    const rest = this.#past.subarray(first * WIDTH, count * WIDTH)
    const needed = (count - first + 1) * WIDTH
    if (needed * 2 > this.#past.length) this.#past = new Int32Array(Math.max(32, needed * 2))
    this.#past.set(rest)
    this.#first = 0
    this.#count -= first
    this.#walked -= first
    this.#asked -= first
    if (this.#walk !== undefined) {
      this.#walk.at -= first
      this.#walk.oldest -= first
    }
  }
}

function byOrder(one: MatchEnd, other: MatchEnd): number {
  const [a, b] = [one.target, other.target]
  return a.pattern - b.pattern || ORDER.indexOf(a.view) - ORDER.indexOf(b.view)
}

/** Looks for matches in decoded text. After a match it stays as it is: its pending start is that of the match. */
export class DecodedText implements CodePointSink {
  readonly begins: Uint8Array
  readonly #cursor: MatchCursor
  readonly #note: (match: PatternMatch) => void

  /** @param note is told of the match, at most once */
  constructor(dfa: ProductDfa, note: (match: PatternMatch) => void) {
    this.begins = firstBytesOf(dfa)
    this.#cursor = new MatchCursor(dfa)
    this.#note = note
  }

  get idle(): boolean {
    return this.#cursor.since === Infinity
  }

  read(symbol: number, start: number, end: number): void {
    const cursor = this.#cursor
    if (cursor.isOver) return
    const codeClass = cursor.dfa.classOf(symbol)
    if (codeClass === UNSEEN_CLASS || !cursor.advance(codeClass, start, end)) return
    // Only literals are looked for here, so the match began a few symbols ago.
    this.#note(runSync(cursor.locate()))
  }

  restart(): void {
    if (!this.#cursor.isOver) this.#cursor.restart()
  }

  pendingStart(isExact: boolean): number {
    return this.#cursor.pendingStart(isExact)
  }
}

const firstBytes = new WeakMap<ProductDfa, Uint8Array>()

/** By byte of UTF-8: 0 if no match can begin with it. The first of several bytes may begin anything. */
export function firstBytesOf(dfa: ProductDfa): Uint8Array {
  let bytes = firstBytes.get(dfa)
  if (bytes === undefined) {
    const cursor = new DfaCursor(dfa)
    bytes = Uint8Array.from({ length: 256 }, (_, byte) => {
      if (byte >= 0x80) return byte >= 0xc2 && byte <= 0xf4 ? 1 : 0
      cursor.restart()
      return cursor.step(dfa.classOf(byte)) || !cursor.idle ? 1 : 0
    })
    firstBytes.set(dfa, bytes)
  }
  return bytes
}
