/**
 * Nondeterministic automata over classes of symbols. A state is the number of an instruction; between two symbols an
 * automaton is in a set of states. One step takes time linear in the number of instructions, forwards and backwards.
 */
import { Alphabet, type Ranges } from './alphabet.ts'
import { Bits, bitsOf } from './bits.ts'

/** What an assertion may ask of the place between two symbols. The values are those of RE2. */
export const LINE_START = 1
export const LINE_END = 2
export const TEXT_START = 4
export const TEXT_END = 8
export const WORD_BORDER = 16
export const NO_WORD_BORDER = 32

/** Which reading of the text a match is of; see `PatternHit`. */
export type View = 'R' | 'F' | 'S' | 'L' | 'D' | 'X'

/** What a match of an automaton means. */
export interface Goal {
  /** Position in the list of patterns. */
  readonly pattern: number
  readonly view: View
}

/** What a step has found: the goal's number, and whether it stands before or after the symbol of the step. */
export interface Reached {
  readonly goal: number
  readonly before: boolean
}

const CHAR = 0
const SPLIT = 1
const ASSERT = 2
const ACCEPT = 3
const DEAD = 4

/** Collects instructions. Numbers may be reserved, so that loops can be tied. */
export class NfaBuilder {
  readonly #kind: number[] = []
  readonly #first: number[] = []
  readonly #second: number[] = []
  readonly #sets: Ranges[] = []
  readonly #setNumbers = new Map<string, number>()
  /** Long sets come often, and as the same array. */
  readonly #known = new Map<Ranges, number>()
  readonly #goals: Goal[] = []
  readonly #starts: number[] = []

  get size(): number {
    return this.#kind.length
  }

  reserve(): number {
    return this.#put(this.size, DEAD, -1, -1)
  }

  /** One symbol of a set. */
  char(set: Ranges, next: number, at = this.size): number {
    return this.#put(at, CHAR, next, this.set(set))
  }

  /** Both ways at once; the same twice is a jump. */
  split(first: number, second: number, at = this.size): number {
    return this.#put(at, SPLIT, first, second)
  }

  /** Passes where all of these conditions hold. */
  assert(conditions: number, next: number, at = this.size): number {
    return this.#put(at, ASSERT, next, conditions)
  }

  accept(goal: Goal, at = this.size): number {
    return this.#put(at, ACCEPT, -1, this.#goals.push(goal) - 1)
  }

  /** A match may begin here. */
  start(state: number): void {
    this.#starts.push(state)
  }

  /** Makes sure that the alphabet tells a set from the rest. */
  set(ranges: Ranges): number {
    const known = this.#known.get(ranges)
    if (known !== undefined) return known
    const key = ranges.join()
    let number = this.#setNumbers.get(key)
    if (number === undefined) {
      number = this.#sets.push(ranges) - 1
      this.#setNumbers.set(key, number)
    }
    if (ranges.length > 2) this.#known.set(ranges, number)
    return number
  }

  build(): Nfa {
    return new Nfa(
      Uint8Array.from(this.#kind),
      Int32Array.from(this.#first),
      Int32Array.from(this.#second),
      new Alphabet(this.#sets),
      this.#goals,
      this.#starts,
    )
  }

  #put(at: number, kind: number, first: number, second: number): number {
    this.#kind[at] = kind
    this.#first[at] = first
    this.#second[at] = second
    return at
  }
}

/** An automaton that looks for its goals anywhere in a sequence of symbols. */
export class Nfa {
  readonly alphabet: Alphabet
  readonly goals: readonly Goal[]
  readonly size: number
  /** Does any instruction ask what stands around a place? */
  readonly asserts: boolean
  readonly #kind: Uint8Array
  readonly #first: Int32Array
  readonly #second: Int32Array
  readonly #starts: readonly number[]
  readonly #isStart: Uint8Array
  /** Where a symbol may lead. Only these are kept between symbols. */
  readonly #rests: Uint8Array
  /** The goal that is reached in a state without a look ahead, or -1. */
  readonly #eager: Int32Array
  readonly #accepts: number[] = []
  /** What leads to an instruction by a symbol, and without. */
  readonly #bySymbol: Arrivals
  readonly #byNothing: Arrivals
  readonly #firstSteps = new Map<number, Int32Array>()
  readonly #seen: Int32Array
  readonly #taken: Int32Array
  #round = 0
  readonly #stack: number[] = []
  #bits: Bits | undefined
  /** The instructions that read a symbol, by their bits, and the other way round. */
  #readers: readonly number[] = []
  #bitOf: Int32Array = new Int32Array(0)

  constructor(
    kind: Uint8Array,
    first: Int32Array,
    second: Int32Array,
    alphabet: Alphabet,
    goals: readonly Goal[],
    starts: readonly number[],
  ) {
    this.#kind = kind
    this.#first = first
    this.#second = second
    this.alphabet = alphabet
    this.goals = goals
    this.size = kind.length
    this.asserts = kind.includes(ASSERT)
    this.#starts = starts
    this.#isStart = new Uint8Array(this.size)
    for (const start of starts) this.#isStart[start] = 1
    this.#rests = new Uint8Array(this.size)
    this.#seen = new Int32Array(this.size)
    this.#taken = new Int32Array(this.size)
    for (let state = 0; state < this.size; state++) {
      if (kind[state] === CHAR) this.#rests[first[state]!] = 1
      else if (kind[state] === ACCEPT) this.#accepts[second[state]!] = state
    }
    this.#bySymbol = new Arrivals(this.size, (state, add) => {
      if (kind[state] === CHAR) add(first[state]!)
    })
    this.#byNothing = new Arrivals(this.size, (state, add) => {
      if (kind[state] === SPLIT) add(second[state]!)
      if (kind[state] === SPLIT || kind[state] === ASSERT) add(first[state]!)
    })
    this.#eager = new Int32Array(this.size).fill(-1)
    for (const [goal, accept] of this.#accepts.entries()) {
      for (const before of this.#reaching(accept, 0)) this.#eager[before] = goal
    }
  }

  /**
   * Reads one symbol.
   * @param states `states[from]` up to `states[to]`, each plus `base`
   * @param holds the conditions that hold before the symbol
   * @param into gets the states after it, plus `base`
   */
  read(
    states: ArrayLike<number>,
    from: number,
    to: number,
    base: number,
    symbolClass: number,
    holds: number,
    into: number[],
    reached: Reached[],
  ): void {
    const beginning = this.#begin(symbolClass, holds)
    const round = ++this.#round
    const stack = this.#stack
    for (let at = from; at < to; at++) {
      stack.push(states[at]! - base)
      while (stack.length > 0) {
        const state = stack.pop()!
        if (this.#seen[state] === round) continue
        this.#seen[state] = round
        const first = this.#first[state]!
        const second = this.#second[state]!
        switch (this.#kind[state]) {
          case CHAR:
            if (this.alphabet.contains(second, symbolClass)) this.#take(first, base, into, reached)
            break
          case SPLIT:
            stack.push(second, first)
            break
          case ASSERT:
            if ((second & ~holds) === 0) stack.push(first)
            break
          case ACCEPT:
            reached.push({ goal: second, before: true })
            break
        }
      }
    }
    for (const state of beginning) this.#take(state, base, into, reached)
  }

  /** Like {@link read} where no symbol follows. */
  end(
    states: ArrayLike<number>,
    from: number,
    to: number,
    base: number,
    holds: number,
    reached: Reached[],
  ): void {
    const here = new Set<number>()
    for (let at = from; at < to; at++) here.add(states[at]! - base)
    for (const state of here) {
      const kind = this.#kind[state]
      if (kind === ACCEPT) reached.push({ goal: this.#second[state]!, before: true })
      else if (kind === SPLIT) here.add(this.#first[state]!).add(this.#second[state]!)
      else if (kind === ASSERT && (this.#second[state]! & ~holds) === 0)
        here.add(this.#first[state]!)
    }
  }

  /**
   * Takes one symbol back.
   * @param into gets the states from which a symbol of this class leads to one of `states`
   * @returns whether a match may begin with this symbol
   */
  unread(
    states: ArrayLike<number>,
    from: number,
    to: number,
    base: number,
    symbolClass: number,
    holds: number,
    into: number[],
  ): boolean {
    const round = ++this.#round
    const stack = this.#stack
    let begins = false
    for (let at = from; at < to; at++) {
      for (const char of this.#bySymbol.of(states[at]! - base)) {
        if (this.alphabet.contains(this.#second[char]!, symbolClass)) stack.push(char)
      }
      while (stack.length > 0) {
        const state = stack.pop()!
        if (this.#seen[state] === round) continue
        this.#seen[state] = round
        if (this.#isStart[state] === 1) begins = true
        if (this.#rests[state] === 1) into.push(state + base)
        for (const before of this.#byNothing.of(state)) {
          if (this.#kind[before] === SPLIT || (this.#second[before]! & ~holds) === 0) {
            stack.push(before)
          }
        }
      }
    }
    return begins
  }

  /** The same automaton for large sets. */
  get bits(): Bits {
    return (this.#bits ??= this.#wire())
  }

  /** States as bits: those that lead to them by a symbol. */
  pack(states: ArrayLike<number>, from: number, to: number, base: number): Int32Array {
    const packed = new Int32Array(this.bits.words)
    for (let at = from; at < to; at++) {
      for (const reader of this.#bySymbol.of(states[at]! - base)) {
        const bit = this.#bitOf[reader]!
        packed[bit >>> 5]! |= 1 << (bit & 31)
      }
    }
    return packed
  }

  /** The other way round. @param into gets the states, plus `base` */
  unpack(packed: Int32Array, base: number, into: number[]): void {
    const states = new Set<number>()
    for (const bit of bitsOf(packed)) states.add(this.#first[this.#readers[bit]!]! + base)
    for (const state of states) into.push(state)
  }

  /** The states in which a goal is reached where these conditions hold. */
  before(goal: number, holds: number): readonly number[] {
    return this.#reaching(this.#accepts[goal]!, holds).filter((state) => this.#rests[state] === 1)
  }

  #take(state: number, base: number, into: number[], reached: Reached[]): void {
    if (this.#taken[state] === this.#round) return
    this.#taken[state] = this.#round
    const goal = this.#eager[state]!
    if (goal !== -1) reached.push({ goal, before: false })
    // What has nothing left to read is not alive.
    if (this.#kind[state] !== ACCEPT) into.push(state + base)
  }

  // Where all that begins with this symbol stands after it. Beginnings are the same at every place but for the symbol
  // and the conditions, so they are remembered.
  #begin(symbolClass: number, holds: number): Int32Array {
    const key = symbolClass * 64 + holds
    const known = this.#firstSteps.get(key)
    if (known) return known
    const states = Int32Array.from(
      this.#readersFrom(this.#starts, holds)
        .filter((reader) => this.alphabet.contains(this.#second[reader]!, symbolClass))
        .map((reader) => this.#first[reader]!),
    )
    this.#firstSteps.set(key, states)
    return states
  }

  // All states that need no symbol to get to, where these conditions hold.
  #from(states: readonly number[], holds: number): number[] {
    const round = ++this.#round
    const found: number[] = []
    const add = (state: number) => {
      if (this.#seen[state] === round) return
      this.#seen[state] = round
      found.push(state)
    }
    for (const state of states) add(state)
    for (let at = 0; at < found.length; at++) {
      const state = found[at]!
      const kind = this.#kind[state]
      if (kind === SPLIT) {
        add(this.#first[state]!)
        add(this.#second[state]!)
      } else if (kind === ASSERT && (this.#second[state]! & ~holds) === 0) {
        add(this.#first[state]!)
      }
    }
    return found
  }

  #readersFrom(states: readonly number[], holds: number): readonly number[] {
    // Mostly it is one after the other.
    if (states.length === 1 && this.#kind[states[0]!] === CHAR) return states
    return this.#from(states, holds).filter((state) => this.#kind[state] === CHAR)
  }

  #wire(): Bits {
    const readers = this.#inOrder()
    const bitOf = new Int32Array(this.size)
    for (const [bit, reader] of readers.entries()) bitOf[reader] = bit
    this.#readers = readers
    this.#bitOf = bitOf
    const next = (bit: number) => this.#first[readers[bit]!]!
    const asBits = (found: readonly number[]) => found.map((reader) => bitOf[reader]!)
    return new Bits({
      readers,
      after: (bit, holds) => asBits(this.#readersFrom([next(bit)], holds)),
      before: (bit, holds) => {
        const found: number[] = []
        for (const state of this.#reaching(readers[bit]!, holds)) {
          if (this.#rests[state] === 0) continue
          for (const reader of this.#bySymbol.of(state)) found.push(bitOf[reader]!)
        }
        return found
      },
      begin: (holds) => asBits(this.#readersFrom(this.#starts, holds)),
      reads: (bit, symbolClass) =>
        this.alphabet.contains(this.#second[readers[bit]!]!, symbolClass),
      goalOf: (bit) => this.#eager[next(bit)]!,
      isLast: (bit) => this.#kind[next(bit)] === ACCEPT,
      goalsBehind: (bit, holds) =>
        this.#from([next(bit)], holds)
          .filter((state) => this.#kind[state] === ACCEPT)
          .map((state) => this.#second[state]!),
    })
  }

  // What follows by one symbol stands side by side wherever that is possible.
  #inOrder(): number[] {
    const readers: number[] = []
    const seen = new Set<number>()
    const stack = this.#starts.toReversed()
    for (let state = stack.pop(); state !== undefined; state = stack.pop()) {
      if (seen.has(state)) continue
      seen.add(state)
      const kind = this.#kind[state]
      if (kind === CHAR) readers.push(state)
      if (kind === SPLIT) stack.push(this.#second[state]!)
      if (kind === SPLIT || kind === CHAR || kind === ASSERT) stack.push(this.#first[state]!)
    }
    return readers
  }

  // All states that need no symbol to get there.
  #reaching(target: number, holds: number): number[] {
    const round = ++this.#round
    const found = [target]
    this.#seen[target] = round
    for (let at = 0; at < found.length; at++) {
      const arrivals = this.#byNothing.of(found[at]!)
      for (let index = 0; index < arrivals.length; index++) {
        const before = arrivals[index]!
        const isOpen = this.#kind[before] === SPLIT || (this.#second[before]! & ~holds) === 0
        if (!isOpen || this.#seen[before] === round) continue
        this.#seen[before] = round
        found.push(before)
      }
    }
    return found
  }
}

/** Edges by their end, without an array for each. */
class Arrivals {
  readonly #offsets: Int32Array
  readonly #sources: Int32Array

  /** @param edges adds the ends of all edges from a state */
  constructor(size: number, edges: (state: number, add: (end: number) => void) => void) {
    const offsets = new Int32Array(size + 2)
    for (let state = 0; state < size; state++) edges(state, (end) => offsets[end + 2]!++)
    for (let at = 2; at < size + 2; at++) offsets[at]! += offsets[at - 1]!
    const sources = new Int32Array(offsets[size + 1]!)
    // Filling moves every offset to where the next state begins.
    for (let state = 0; state < size; state++) {
      edges(state, (end) => {
        sources[offsets[end + 1]!++] = state
      })
    }
    this.#offsets = offsets
    this.#sources = sources
  }

  of(state: number): Int32Array {
    const from = this.#offsets[state]!
    const to = this.#offsets[state + 1]!
    return from === to ? NO_STATES : this.#sources.subarray(from, to)
  }
}

const NO_STATES = new Int32Array(0)
