/**
 * A place in a text that is read through a DFA, with as much of the text as a match under way may need: where a match begins is
 * found by stepping the reversed automaton over that past. Nothing from the oldest possible beginning on may be released.
 */
import type { PatternMatch, PatternView } from '../plugin.ts'
import {
  AS_IS,
  BLANK,
  LETTER,
  UNSEEN_CLASS,
  type BackwardState,
  type ForwardState,
  type MatchEnd,
  type ProductDfa,
} from './product-dfa.ts'
import { runSync, type Task } from './time-slice.ts'
import type { CodePointSink } from './views/decode.ts'

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
  /** What is alive behind the symbol at `at`. */
  state: BackwardState
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

/** Numbers for each symbol of the past: the symbol, where it begins and where it ends in the text, and the code point. */
const WIDTH = 4
const NO_SYMBOL = -1
const NO_PAST = new Int32Array(0)

/** Which view is reported where several match at the same place. */
const ORDER: readonly PatternView[] = ['raw', 'folded', 'squeezed', 'leet', 'derived', 'decoded']

/** A place in a text with its past. */
export class MatchCursor {
  readonly #dfa: ProductDfa
  #state: ForwardState
  /** Symbols from #first to #count, the first being the oldest place known where a match under way may begin. */
  #past = NO_PAST
  #first = 0
  #count = 0
  /** The last walk back, if it was interrupted. */
  #walk: WalkBack | undefined
  /** #count at the last question. */
  #countAtQuestion = 0
  #ending: Ending | undefined
  #match: PatternMatch | undefined

  constructor(dfa: ProductDfa) {
    this.#dfa = dfa
    this.#state = dfa.beginning
  }

  /** Begins again, as before any text. */
  restart(): void {
    this.#state = this.#dfa.beginning
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
   * Reads a code point.
   * @param start its offsets in the text
   * @returns whether a match ends with it or before it; {@link locate} tells where
   */
  read(codePoint: number, start: number, end: number): boolean {
    const codeClass = this.#dfa.classOf(codePoint)
    if (codeClass === UNSEEN_CLASS) return false
    let next = this.#state.next(codeClass)
    if (next === undefined) {
      const { state, ends } = this.#dfa.step(this.#state, codeClass)
      if (ends.length > 0 && this.#choose(ends, this.#symbolOf(codeClass), start, end)) return true
      next = state
    }
    if (next.isIdle) this.#dropPast()
    else this.#remember(this.#symbolOf(codeClass), start, end, codePoint)
    this.#state = next
    return false
  }

  /** The text is over. @returns whether a match ends with it; {@link locate} tells where */
  finish(): boolean {
    return this.#choose(this.#dfa.endsAtTextEnd(this.#state), NO_SYMBOL, 0, 0)
  }

  /** Hands on what is kept of the text from an offset on. */
  replay(from: number, to: (codePoint: number, start: number, end: number) => void): void {
    for (let at = this.#first; at < this.#count; at++) {
      const [, start, end, codePoint] = this.#past.subarray(at * WIDTH, (at + 1) * WIDTH)
      if (start! >= from) to(codePoint!, start!, end!)
    }
  }

  /**
   * Where the oldest match under way may begin; Infinity if there is none. Never decreases.
   * @param isExact false: the answer may lag by an eighth of a long past, so that a stream pays for it little by little
   */
  pendingStart(isExact: boolean): number {
    if (this.#state.isIdle) return Infinity
    const count = this.#count
    const came = count < this.#countAtQuestion ? count : count - this.#countAtQuestion
    this.#countAtQuestion = count
    const isWhole = isExact || this.kept <= SHORT
    const walk = (!isWhole && this.#walk) || this.#beginWalk()
    if (this.#walkBack(walk, isWhole ? Infinity : came * PACE)) this.#drop(walk)
    else this.#walk = walk
    return this.#startAt(this.#first)
  }

  /** {@link pendingStart}, exact and in steps. */
  *pendingStartTask(): Task<number> {
    if (this.#state.isIdle) return Infinity
    this.#countAtQuestion = this.#count
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
    return (this.#match ??= (yield* this.#locate(this.#ending!))!)
  }

  /** Takes the first pattern's match of those that end at one place, and of its views the first in {@link ORDER}. */
  #choose(ends: readonly MatchEnd[], symbol: number, start: number, end: number): boolean {
    for (const match of [...ends].sort(byOrder)) {
      const ending = { match, symbol, start, end }
      if (match.target.view === 'leet') {
        // It counts only if enough of it are letters. A literal is short, so this takes no steps.
        this.#match = runSync(this.#locate(ending))
        if (this.#match === undefined) continue
      }
      this.#ending = ending
      return true
    }
    return false
  }

  *#locate({ match, symbol, start, end }: Ending): Task<PatternMatch | undefined> {
    const state = this.#dfa.undo(match, symbol)
    const walk = { state, at: this.#count - 1, oldest: -1 }
    while (!this.#walkBack(walk, PIECE)) yield
    const { oldest } = walk
    const isBefore = oldest >= 0
    if (!isBefore && !state.begins) return undefined
    const { pattern, view, plain, digits } = match.target
    const includesSymbol = match.symbols > 0
    const from = isBefore ? oldest : this.#count
    const last = includesSymbol ? symbol : NO_SYMBOL
    if (view === 'leet' && !this.#isMostlyLetters(from, last, digits)) return undefined
    return {
      pattern,
      view: plain && this.#isAsIs(from, last) ? 'raw' : view,
      start: isBefore ? this.#startAt(oldest) : start,
      end: includesSymbol ? end : this.#past[this.#lastSeenBy(match.component) * WIDTH + 2]!,
    }
  }

  #beginWalk(): WalkBack {
    return { state: this.#dfa.alive(this.#state), at: this.#count - 1, oldest: -1 }
  }

  /** Drops the past before the oldest place where a match may begin. */
  #drop({ oldest }: WalkBack): void {
    this.#walk = undefined
    this.#first = Math.max(oldest, this.#first)
  }

  #dropPast(): void {
    this.#first = this.#count = 0
    this.#walk = undefined
  }

  /** Walks back over at most so many symbols. @returns whether the walk is complete */
  #walkBack(walk: WalkBack, most: number): boolean {
    const last = Math.max(this.#first, walk.at - most + 1)
    for (; walk.at >= last && !walk.state.isEmpty; walk.at--) {
      walk.state = this.#dfa.stepBack(walk.state, this.#past[walk.at * WIDTH]!)
      if (walk.state.begins) walk.oldest = walk.at
    }
    return walk.state.isEmpty || walk.at < this.#first
  }

  /** @param digits that the pattern itself has */
  #isMostlyLetters(from: number, last: number, digits = 0): boolean {
    let surplus = digits
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
    return symbol === NO_SYMBOL ? BLANK | AS_IS : this.#dfa.traits[this.#dfa.classIn(symbol)]!
  }

  /** The last symbol of the past that a component saw; there is one, since it has a match that ends behind it. */
  #lastSeenBy(component: MatchEnd['component']): number {
    let at = this.#count - 1
    for (; at > this.#first; at--) {
      const symbol = this.#past[at * WIDTH]!
      if (component.sees(this.#dfa.classIn(symbol), symbol)) break
    }
    return at
  }

  /** The symbol that a code point of this class is in the present context. */
  #symbolOf(codeClass: number): number {
    return this.#dfa.symbolOf(this.#state, codeClass)
  }

  #startAt(at: number): number {
    return this.#past[at * WIDTH + 1]!
  }

  #remember(symbol: number, start: number, end: number, codePoint: number): void {
    if ((this.#count + 1) * WIDTH > this.#past.length) this.#makeSpace()
    const past = this.#past
    const place = this.#count++ * WIDTH
    past[place] = symbol
    past[place + 1] = start
    past[place + 2] = end
    past[place + 3] = codePoint
  }

  #makeSpace(): void {
    const [first, count] = [this.#first, this.#count]
    const rest = this.#past.subarray(first * WIDTH, count * WIDTH)
    const needed = (count - first + 1) * WIDTH
    if (needed * 2 > this.#past.length) this.#past = new Int32Array(Math.max(32, needed * 2))
    this.#past.set(rest)
    this.#first = 0
    this.#count -= first
    this.#countAtQuestion -= first
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

  /** @param note is called with the match, at most once */
  constructor(dfa: ProductDfa, note: (match: PatternMatch) => void) {
    this.begins = dfa.firstBytes
    this.#cursor = new MatchCursor(dfa)
    this.#note = note
  }

  get idle(): boolean {
    return this.#cursor.since === Infinity
  }

  read(symbol: number, start: number, end: number): void {
    const cursor = this.#cursor
    if (cursor.isOver || !cursor.read(symbol, start, end)) return
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
