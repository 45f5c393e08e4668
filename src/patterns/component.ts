/** One NFA of a product DFA with its normalization: what it makes of a code point, and what holds between two symbols. */
import {
  fold,
  foldUnmarked,
  isIgnorable,
  NEWLINE,
  readsAsLetter,
  SEPARATOR_SYMBOL,
  SPACE,
} from './views/fold.ts'
import type { Ranges } from './alphabet.ts'
import type { MatchTarget, Nfa } from './nfa.ts'
import { NfaStepper, PairList, type Accepted } from './nfa-stepper.ts'

/**
 * How an NFA sees a text. `plain`: without invisible characters. `folded`: with look-alikes, accents, case and runs of white
 * space undone, but for line feeds. `squeezed`: the same, and line feeds are white space. `unmarked`: the same without marks of
 * Markdown and tag characters.
 */
export type Normalization = 'plain' | 'folded' | 'squeezed' | 'unmarked'

// Conditions that an assertion may ask of a place between two symbols. The values are those of RE2.
const LINE_START = 1
const LINE_END = 2
const TEXT_START = 4
const TEXT_END = 8
const WORD_BORDER = 16
const NO_WORD_BORDER = 32

// Kinds of symbols before and behind a place.
/** The beginning of the text. */
const BEGINNING = 0
const OTHER = 1
/** A space, into which more white space behind it is merged. */
const GAP = 2
const WORD = 3
const LINE_FEED = 4
const END = 5

// Traits of a code point inside a match.

export const LETTER = 1
export const BLANK = 2
/** Folding changes nothing but its case. */
export const AS_IS = 4

/** Sets that every alphabet has to tell apart, so that all symbols of a class are of the same kind. */
export const KIND_SETS: readonly Ranges[] = [
  [0x30, 0x39, 0x41, 0x5a, 0x5f, 0x5f, 0x61, 0x7a],
  [NEWLINE, NEWLINE],
  [SPACE, SPACE],
]

/** The end of a match, reached while a code point was read or at the end of the text. */
export interface MatchEnd {
  readonly target: MatchTarget
  readonly component: Component
  /** The target's number in its NFA. */
  readonly number: number
  /** Symbols of the code point that belong to the match, and the conditions behind them if it needs any. */
  readonly symbols: number
  readonly holds: number
}

/** Bits of a kind. A context holds the kind of the last symbol that each component saw. */
export const KIND_BITS = 3
const KIND_MASK = (1 << KIND_BITS) - 1

export class Component {
  readonly nfa: Nfa
  /** In a set of the product, its words have the numbers below `top` that no component before has. */
  readonly top: number
  readonly #stepper: NfaStepper
  readonly #normalization: Normalization
  /** Position of its kind in a context. */
  readonly #shift: number
  /** By class of code points: the classes of their symbols. */
  readonly #images: (readonly number[])[] = []
  /** By class of symbols: their kind. */
  readonly #kinds: number[] = []
  // Results of #read: the classes of the symbols, and the conditions that hold before each.
  readonly #classes: number[] = []
  readonly #holds: number[] = []

  constructor(normalization: Normalization, nfa: Nfa, base: number, index: number) {
    this.#normalization = normalization
    this.nfa = nfa
    this.#stepper = new NfaStepper(nfa, base)
    this.top = this.#stepper.top
    this.#shift = index * KIND_BITS
  }

  /** Its part of the context at the beginning of a text. */
  get beginning(): number {
    return (this.nfa.asserts ? BEGINNING : OTHER) << this.#shift
  }

  /** The classes of the symbols of a code point. */
  imageOf(codePoint: number): readonly number[] {
    return readAs(this.#normalization, codePoint).map((symbol) => {
      const symbolClass = this.nfa.alphabet.classOf(symbol)
      this.#kinds[symbolClass] = kindOf(symbol, this.#normalization, this.nfa.asserts)
      return symbolClass
    })
  }

  /** Defines the next class of code points by the classes of their symbols. */
  learn(image: readonly number[]): void {
    this.#images.push(image)
  }

  /** Whether it sees any symbol of a code point of this class in this context. */
  sees(codeClass: number, context: number): boolean {
    this.#read(codeClass, context)
    return this.#classes.length > 0
  }

  /**
   * Reads a code point.
   * @param set of which its part is from `from` to `to`
   * @param into receives its part of the set after it
   * @returns its part of the context after it
   */
  advance(
    set: Int32Array,
    from: number,
    to: number,
    codeClass: number,
    context: number,
    into: PairList,
    ends: MatchEnd[],
  ): number {
    const kind = this.#read(codeClass, context)
    let pairs = set
    const count = this.#classes.length
    if (count === 0) this.#copy(set, from, to, into)
    for (let at = 0; at < count; at++) {
      const next = at === count - 1 ? into : this.#newList()
      const holds = this.#holds[at]!
      const reached: Accepted[] = []
      this.#stepper.read(pairs, from, to, this.#classes[at]!, holds, next, reached)
      this.#note(reached, at, holds, ends)
      ;[pairs, from, to] = [next.pairs, 0, next.length]
    }
    return kind << this.#shift
  }

  /**
   * Steps back over a code point.
   * @param into receives its part of the set before it
   * @returns whether a match may begin with it
   */
  retreat(
    set: Int32Array,
    from: number,
    to: number,
    codeClass: number,
    context: number,
    into: PairList,
  ): boolean {
    this.#read(codeClass, context)
    if (this.#classes.length === 0) this.#copy(set, from, to, into)
    return this.#unread(set, from, to, this.#classes.length, into)
  }

  /** The matches that end where the text ends. */
  finish(set: Int32Array, from: number, to: number, context: number, ends: MatchEnd[]): void {
    const holds = holdsBetween((context >>> this.#shift) & KIND_MASK, END)
    const reached: Accepted[] = []
    this.#stepper.end(set, from, to, holds, reached)
    this.#note(reached, 0, holds, ends)
  }

  /**
   * What leads to this end of a match, before the code point with which it was reached.
   * @returns whether a match may begin with that
   */
  undo(end: MatchEnd, codeClass: number, context: number, into: PairList): boolean {
    const { pairs, length } = this.#stepper.before(end.number, end.holds)
    if (end.symbols === 0) {
      this.#copy(pairs, 0, length, into)
      return false
    }
    this.#read(codeClass, context)
    return this.#unread(pairs, 0, length, end.symbols, into)
  }

  /** End of its part of a set that begins at an index. */
  endIn(set: Int32Array, from: number): number {
    let to = from
    while (to < set.length - 1 && set[to]! < this.top) to += 2
    return to
  }

  /** Finds the symbols of a code point, and what holds before each. @returns the kind of the last symbol seen */
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

  /** Steps back over the first symbols of what #read found. */
  #unread(pairs: Int32Array, from: number, to: number, count: number, into: PairList): boolean {
    let begins = false
    for (let at = count - 1; at >= 0; at--) {
      const before = at === 0 ? into : this.#newList()
      const [symbolClass, holds] = [this.#classes[at]!, this.#holds[at]!]
      begins = this.#stepper.unread(pairs, from, to, symbolClass, holds, before) || begins
      ;[pairs, from, to] = [before.pairs, 0, before.length]
    }
    return begins
  }

  #copy(pairs: Int32Array, from: number, to: number, into: PairList): void {
    for (let at = from; at < to; at += 2) into.add(pairs[at]!, pairs[at + 1]!)
  }

  #newList(): PairList {
    return new PairList(this.top)
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

/** The symbols of a code point or of {@link SEPARATOR_SYMBOL}; none if it is invisible. */
function readAs(normalization: Normalization, codePoint: number): readonly number[] {
  if (codePoint === SEPARATOR_SYMBOL) return [SEPARATOR_SYMBOL]
  if (normalization === 'plain') return isIgnorable(codePoint) ? [] : [codePoint]
  if (normalization === 'folded') return fold(codePoint)
  if (codePoint === NEWLINE) return [SPACE]
  return normalization === 'unmarked' ? foldUnmarked(codePoint) : fold(codePoint)
}

/** @param asserts whether the NFA has assertions; without, most kinds need not be told apart */
function kindOf(symbol: number, normalization: Normalization, asserts: boolean): number {
  if (symbol === SPACE && normalization !== 'plain') return GAP
  if (!asserts) return OTHER
  if (symbol === NEWLINE) return LINE_FEED
  // As in RE2, only ASCII characters are part of words.
  return symbol >= 0 && /^\w$/.test(String.fromCodePoint(symbol)) ? WORD : OTHER
}

/** {@link LETTER}, {@link BLANK} and {@link AS_IS}, as far as they apply. */
export function traitsOf(codePoint: number): number {
  if (codePoint === SEPARATOR_SYMBOL) return 0
  const symbols = fold(codePoint)
  // What folding removes counts as little as a blank.
  const isBlank = symbols.length === 0 || symbols[0] === SPACE || symbols[0] === NEWLINE
  const isSame = symbols.length === 1 && symbols[0] === codePoint
  const isCapital = codePoint >= 0x41 && codePoint <= 0x5a
  return (
    (readsAsLetter(codePoint) ? LETTER : 0) |
    (isBlank ? BLANK : 0) |
    (isSame || isCapital ? AS_IS : 0)
  )
}

/** The conditions that hold between symbols of two kinds. */
function holdsBetween(before: number, after: number): number {
  let holds = (before === WORD) === (after === WORD) ? NO_WORD_BORDER : WORD_BORDER
  if (before === BEGINNING) holds |= TEXT_START | LINE_START
  if (before === LINE_FEED) holds |= LINE_START
  if (after === END) holds |= TEXT_END | LINE_END
  if (after === LINE_FEED) holds |= LINE_END
  return holds
}
