/** One automaton and its reading of code points, as one component of a dfa. */
import { fold, isIgnorable, NEWLINE, readsAsLetter, SEPARATOR_SYMBOL, SPACE } from './views/fold.ts'
import type { Ranges } from './alphabet.ts'
import type { MatchTarget, Nfa, Accepted } from './nfa.ts'

/**
 * `plain` drops what cannot be seen; `folded` is view F, where a run of white space is one space and line feeds stay;
 * in `flat` they do not.
 */
export type Normalization = 'plain' | 'folded' | 'squeezed'

// What an assertion may ask of a place. The values are those of RE2.
const LINE_START = 1
const LINE_END = 2
const TEXT_START = 4
const TEXT_END = 8
const WORD_BORDER = 16
const NO_WORD_BORDER = 32

/** What stands before a place or behind it. */
export const BEGINNING = 0
export const OTHER = 1
/** A space that white space behind it joins. */
export const GAP = 2
const WORD = 3
const LINE_FEED = 4
export const END = 5
const KINDS = 6

/** What code points are to those who look at matches. */
export const LETTER = 1
export const BLANK = 2
/** In view F as it is, but for its case. */
export const AS_IS = 4

/** What an alphabet has to tell apart so that all symbols of a class are of a kind. */
export const KIND_SETS: readonly Ranges[] = [
  [0x30, 0x39, 0x41, 0x5a, 0x5f, 0x5f, 0x61, 0x7a],
  [NEWLINE, NEWLINE],
  [SPACE, SPACE],
]

const HOLDS = Uint8Array.from({ length: KINDS * KINDS }, (_, pair) =>
  holdsAt(Math.trunc(pair / KINDS), pair % KINDS),
)

/** What was reached, while one code point was read or at the end. */
export interface MatchEnd {
  readonly target: MatchTarget
  readonly component: Component
  /** The number of the target. */
  readonly number: number
  /** How many symbols of the code point were read before, and what then holds, if the match needs that. */
  readonly symbols: number
  readonly holds: number
}

/** What a kind takes of a context. */
export const KIND_BITS = 3
const KIND_MASK = (1 << KIND_BITS) - 1

export class Component {
  readonly nfa: Nfa
  /** First number of its states in a set, and the first after them. */
  readonly base: number
  readonly top: number
  readonly #reading: Normalization
  /** Where in a context the kind of what it has seen last stands. */
  readonly #shift: number
  /** Classes of symbols by class of code points. */
  readonly #images: (readonly number[])[] = []
  /** By class of symbols. */
  readonly #kinds: number[] = []
  // The last thing that was asked for by #read.
  readonly #classes: number[] = []
  readonly #holds: number[] = []

  constructor(reading: Normalization, nfa: Nfa, base: number, index: number) {
    this.#reading = reading
    this.nfa = nfa
    this.base = base
    this.top = base + nfa.size
    this.#shift = index * KIND_BITS
  }

  /** Its part of the context before any text. */
  get beginning(): number {
    return (this.nfa.asserts ? BEGINNING : OTHER) << this.#shift
  }

  /** The classes of the symbols of a code point. */
  imageOf(codePoint: number): readonly number[] {
    return readAs(this.#reading, codePoint).map((symbol) => {
      const symbolClass = this.nfa.alphabet.classOf(symbol)
      this.#kinds[symbolClass] = kindOf(symbol, this.#reading, this.nfa.asserts)
      return symbolClass
    })
  }

  /** Gives the next class of code points its image. */
  learn(image: readonly number[]): void {
    this.#images.push(image)
  }

  /** Does it see anything of a code point of this class in this context? */
  sees(codeClass: number, context: number): boolean {
    this.#read(codeClass, context)
    return this.#classes.length > 0
  }

  /**
   * Reads a code point.
   * @param into gets the states after it
   * @returns its part of the context after it
   */
  advance(
    set: Int32Array,
    codeClass: number,
    context: number,
    into: number[],
    ends: MatchEnd[],
  ): number {
    const kind = this.#read(codeClass, context)
    let [from, to] = this.sliceOf(set)
    let states: ArrayLike<number> = set
    const count = this.#classes.length
    if (count === 0) for (let at = from; at < to; at++) into.push(set[at]!)
    for (let at = 0; at < count; at++) {
      const next = at === count - 1 ? into : []
      const holds = this.#holds[at]!
      const reached: Accepted[] = []
      this.nfa.read(states, from, to, this.base, this.#classes[at]!, holds, next, reached)
      this.#note(reached, at, holds, ends)
      ;[states, from, to] = [next, 0, next.length]
    }
    return kind << this.#shift
  }

  /**
   * Takes a code point back.
   * @param into gets the states before it
   * @returns whether a match may begin with it
   */
  retreat(set: Int32Array, codeClass: number, context: number, into: number[]): boolean {
    this.#read(codeClass, context)
    const [from, to] = this.sliceOf(set)
    if (this.#classes.length === 0) for (let at = from; at < to; at++) into.push(set[at]!)
    return this.#unread(set, from, to, this.#classes.length, into)
  }

  /** {@link advance} for bits. */
  advanceBits(
    words: Int32Array,
    codeClass: number,
    context: number,
    into: Int32Array,
    ends: MatchEnd[],
  ): number {
    const kind = this.#read(codeClass, context)
    const count = this.#classes.length
    if (count === 0) into.set(words)
    for (let at = 0; at < count; at++) {
      const next = at === count - 1 ? into : new Int32Array(into.length)
      const holds = this.#holds[at]!
      const reached: Accepted[] = []
      this.nfa.stateSet.read(words, this.#classes[at]!, holds, next, reached)
      this.#note(reached, at, holds, ends)
      words = next
    }
    return kind << this.#shift
  }

  /** {@link retreat} for bits. */
  retreatBits(words: Int32Array, codeClass: number, context: number, into: Int32Array): boolean {
    this.#read(codeClass, context)
    let begins = false
    if (this.#classes.length === 0) into.set(words)
    for (let at = this.#classes.length - 1; at >= 0; at--) {
      const next = at === 0 ? into : new Int32Array(into.length)
      begins = this.nfa.stateSet.unread(words, this.#classes[at]!, this.#holds[at]!, next) || begins
      words = next
    }
    return begins
  }

  /** What is reached where the text ends. */
  finish(set: Int32Array, context: number, ends: MatchEnd[]): void {
    if (!this.nfa.asserts) return
    const holds = holdsBetween((context >>> this.#shift) & KIND_MASK, END)
    const reached: Accepted[] = []
    const [from, to] = this.sliceOf(set)
    this.nfa.end(set, from, to, this.base, holds, reached)
    this.#note(reached, 0, holds, ends)
  }

  /**
   * The states from which a end was reached, before the code point with which it was, if there was one.
   * @returns whether a match may begin with that
   */
  undo(end: MatchEnd, codeClass: number, context: number, into: number[]): boolean {
    const states = this.nfa.before(end.number, end.holds).map((state) => state + this.base)
    if (end.symbols === 0) {
      into.push(...states)
      return false
    }
    this.#read(codeClass, context)
    return this.#unread(states, 0, states.length, end.symbols, into)
  }

  /** Where its states stand in a set. */
  sliceOf(set: Int32Array): [from: number, to: number] {
    const count = set.length - 1
    let from = 0
    while (from < count && set[from]! < this.base) from++
    let to = from
    while (to < count && set[to]! < this.top) to++
    return [from, to]
  }

  // Works out symbols, and what holds before each. Gives the kind of the last one, or what was there before.
  #read(codeClass: number, context: number): number {
    this.#classes.length = 0
    this.#holds.length = 0
    let kind = (context >>> this.#shift) & KIND_MASK
    for (const symbolClass of this.#images[codeClass]!) {
      const next = this.#kinds[symbolClass]!
      if (next === GAP && kind === GAP) continue
      this.#classes.push(symbolClass)
      this.#holds.push(holdsBetween(kind, next))
      kind = next
    }
    return kind
  }

  // Takes back the first symbols of what was read.
  #unread(
    states: ArrayLike<number>,
    from: number,
    to: number,
    count: number,
    into: number[],
  ): boolean {
    let begins = false
    for (let at = count - 1; at >= 0; at--) {
      const before = at === 0 ? into : []
      const [symbolClass, holds] = [this.#classes[at]!, this.#holds[at]!]
      const isBeginning = this.nfa.unread(states, from, to, this.base, symbolClass, holds, before)
      begins ||= isBeginning
      ;[states, from, to] = [before, 0, before.length]
    }
    return begins
  }

  #note(reached: readonly Accepted[], at: number, holds: number, ends: MatchEnd[]): void {
    for (const { target, before } of reached) {
      ends.push({
        target: this.nfa.targets[target]!,
        component: this,
        number: target,
        symbols: before ? at : at + 1,
        holds: before ? holds : 0,
      })
    }
  }
}

/** The symbols of a code point, or of {@link SEPARATOR_SYMBOL}. */
export function readAs(reading: Normalization, codePoint: number): readonly number[] {
  if (codePoint === SEPARATOR_SYMBOL) return [SEPARATOR_SYMBOL]
  if (reading === 'plain') return isIgnorable(codePoint) ? [] : [codePoint]
  return reading === 'squeezed' && codePoint === NEWLINE ? [SPACE] : fold(codePoint)
}

/** @param asserts whether anyone asks about places */
export function kindOf(symbol: number, reading: Normalization, asserts: boolean): number {
  if (symbol === SPACE && reading !== 'plain') return GAP
  if (!asserts) return OTHER
  if (symbol === NEWLINE) return LINE_FEED
  // RE2's words are ASCII.
  return symbol >= 0 && /^\w$/.test(String.fromCodePoint(symbol)) ? WORD : OTHER
}

/** The conditions that hold between two kinds. */
export function holdsBetween(before: number, after: number): number {
  return HOLDS[before * KINDS + after]!
}

/** {@link LETTER}, {@link BLANK} and {@link AS_IS}, as far as they apply. */
export function traitsOf(codePoint: number): number {
  if (codePoint === SEPARATOR_SYMBOL) return 0
  const symbols = fold(codePoint)
  // What the views fold away counts as little as a blank.
  const isBlank = symbols.length === 0 || symbols[0] === SPACE || symbols[0] === NEWLINE
  const isSame = symbols.length === 1 && symbols[0] === codePoint
  const isCapital = codePoint >= 0x41 && codePoint <= 0x5a
  return (
    (readsAsLetter(codePoint) ? LETTER : 0) |
    (isBlank ? BLANK : 0) |
    (isSame || isCapital ? AS_IS : 0)
  )
}

function holdsAt(before: number, after: number): number {
  let holds = (before === WORD) === (after === WORD) ? NO_WORD_BORDER : WORD_BORDER
  if (before === BEGINNING) holds |= TEXT_START | LINE_START
  if (before === LINE_FEED) holds |= LINE_START
  if (after === END) holds |= TEXT_END | LINE_END
  if (after === LINE_FEED) holds |= LINE_END
  return holds
}
