/** One automaton and its reading of code points, as one component of a dfa. */
import type { MatchTarget, Nfa, Accepted } from './nfa.ts'
import {
  BEGINNING,
  END,
  GAP,
  holdsBetween,
  kindOf,
  OTHER,
  readAs,
  type Normalization,
} from './normalization.ts'

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
