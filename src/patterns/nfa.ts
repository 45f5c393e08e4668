/**
 * Nondeterministic automata over classes of symbols. A state is the number of an instruction; between two symbols an NFA is
 * in a set of states. A step forward or backward takes time linear in the number of instructions. The builder and the
 * automaton share the layout of instructions, so they are in one file.
 */
import type { PatternView } from '../plugin.ts'
import { runSync, type Task } from './time-slice.ts'
import type { Alphabet } from './alphabet.ts'
import { StateSet, bitsOf } from './state-set.ts'

/** What it means that an ACCEPT instruction is reached. */
export interface MatchTarget {
  /** Position in the list of patterns. */
  readonly pattern: number
  readonly view: PatternView
  /** The match counts as `raw` if nothing in it had to be folded. */
  readonly plain?: boolean
}

/** Instructions as columns, and the states in which a match begins. */
interface NfaInit {
  readonly kind: Uint8Array
  readonly first: Int32Array
  readonly second: Int32Array
  readonly alphabet: Alphabet
  readonly targets: readonly MatchTarget[]
  readonly starts: readonly number[]
}

/** A target that a step has reached, by number, and whether before the symbol of the step or after it. */
export interface Accepted {
  readonly target: number
  readonly before: boolean
}

// Kinds of instructions, each with two operands. CHAR: the next state, and the number of its set. SPLIT: both next states.
// ASSERT: the next state, and its conditions. ACCEPT: none, and the number of its target.
export const CHAR = 0
export const SPLIT = 1
export const ASSERT = 2
export const ACCEPT = 3
export const DEAD = 4

/** States between two pauses while an NFA is prepared. */
const PIECE = 1 << 12
/** Classes of symbols for which the state set of a large NFA is prepared. */
const MOST_LEARNED = 64
/** Sets with more states are probably packed soon. */
const MANY = 128

/** Sets of conditions that may hold at a place; see `holdsBetween`. */
const CONDITIONS = 64

/** States in the cache of first steps. */
const MAX_FIRST_STEPS = 1 << 18

/** Looks for its targets anywhere in a sequence of symbols. */
export class Nfa {
  readonly alphabet: Alphabet
  readonly targets: readonly MatchTarget[]
  readonly size: number
  /** Any instruction is an assertion. */
  readonly asserts: boolean
  readonly #kind: Uint8Array
  readonly #first: Int32Array
  readonly #second: Int32Array
  /** The states in which a match begins. */
  readonly starts: readonly number[]
  readonly #isStart: Uint8Array
  /** States to which a CHAR leads: only these are in a set between two symbols. */
  readonly #rests: Uint8Array
  /** The target that a state has reached whatever follows, or -1. */
  readonly #eager: Int32Array
  readonly #accepts: number[] = []
  /** What leads to a state by reading a symbol, and without. */
  readonly #bySymbol: ReverseEdges
  readonly #byNothing: ReverseEdges
  readonly #firstSteps = new Map<number, Int32Array>()
  readonly #seen: Int32Array
  readonly #taken: Int32Array
  #round = 0
  #firstStepCount = 0
  readonly #stack: number[] = []
  readonly #found: number[] = []
  #stateSet: StateSet | undefined
  /** CHAR states by their bit in a packed set, and the other way round. */
  readonly #readers: number[] = []
  readonly #bitOf: Int32Array

  private constructor(
    { kind, first, second, alphabet, targets, starts }: NfaInit,
    bySymbol: ReverseEdges,
    byNothing: ReverseEdges,
  ) {
    this.#kind = kind
    this.#first = first
    this.#second = second
    this.#bySymbol = bySymbol
    this.#byNothing = byNothing
    this.alphabet = alphabet
    this.targets = targets
    this.size = kind.length
    this.asserts = kind.includes(ASSERT)
    this.starts = starts
    this.#isStart = new Uint8Array(this.size)
    for (const start of starts) this.#isStart[start] = 1
    this.#bitOf = new Int32Array(this.size)
    this.#rests = new Uint8Array(this.size)
    this.#seen = new Int32Array(this.size)
    this.#taken = new Int32Array(this.size)
    for (let state = 0; state < this.size; state++) {
      if (kind[state] === CHAR) this.#rests[first[state]!] = 1
      else if (kind[state] === ACCEPT) this.#accepts[second[state]!] = state
    }
    this.#eager = new Int32Array(this.size).fill(-1)
    for (const [target, accept] of this.#accepts.entries()) {
      for (const before of this.#gather(accept, 0)) this.#eager[before] = target
    }
  }

  static *of(init: NfaInit): Task<Nfa> {
    const { kind, first, second } = init
    const { length } = kind
    const bySymbol = yield* ReverseEdges.of(length, (state, add) => {
      if (kind[state] === CHAR) add(first[state]!)
    })
    const byNothing = yield* ReverseEdges.of(length, (state, add) => {
      if (kind[state] === SPLIT) add(second[state]!)
      if (kind[state] === SPLIT || kind[state] === ASSERT) add(first[state]!)
    })
    yield
    const nfa = new Nfa(init, bySymbol, byNothing)
    yield* nfa.#order()
    if (nfa.#readers.length > PIECE) yield* nfa.#prepare()
    return nfa
  }

  /**
   * Reads one symbol.
   * @param states of which those from `from` to `to` count, each plus `base`
   * @param holds the conditions that hold before the symbol
   * @param into receives the states after it, plus `base`
   */
  read(
    states: ArrayLike<number>,
    from: number,
    to: number,
    base: number,
    symbolClass: number,
    holds: number,
    into: number[],
    reached: Accepted[],
  ): void {
    if (to - from > MANY) this.stateSet.ready(holds, 1)
    const beginning = this.#begin(symbolClass, holds)
    const round = ++this.#round
    const stack = this.#stack
    for (let at = from; at < to; at++) {
      let state = states[at]! - base
      for (;;) {
        if (this.#seen[state] !== round) {
          this.#seen[state] = round
          const first = this.#first[state]!
          const second = this.#second[state]!
          const kind = this.#kind[state]
          if (kind === CHAR) {
            if (this.alphabet.contains(second, symbolClass)) this.#take(first, base, into, reached)
          } else if (kind === SPLIT) {
            stack.push(second)
            state = first
            continue
          } else if (kind === ASSERT) {
            if (this.#isOpen(state, holds)) stack.push(first)
          } else if (kind === ACCEPT) {
            reached.push({ target: second, before: true })
          }
        }
        if (stack.length === 0) break
        state = stack.pop()!
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
    reached: Accepted[],
  ): void {
    const found = this.#spread(
      Array.from({ length: to - from }, (_, at) => states[from + at]! - base),
      holds,
    )
    for (const state of found) {
      if (this.#kind[state] === ACCEPT) reached.push({ target: this.#second[state]!, before: true })
    }
  }

  /**
   * Steps back over one symbol.
   * @param into receives the states from which a symbol of this class leads to one of `states`
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
    if (to - from > MANY) this.stateSet.ready(holds, -1)
    const round = ++this.#round
    const stack = this.#stack
    let begins = false
    for (let at = from; at < to; at++) {
      const rest = states[at]! - base
      const last = this.#bySymbol.first(rest + 1)
      for (let edge = this.#bySymbol.first(rest); edge < last; edge++) {
        const char = this.#bySymbol.source(edge)
        if (this.alphabet.contains(this.#second[char]!, symbolClass)) stack.push(char)
      }
      while (stack.length > 0) {
        const state = stack.pop()!
        if (this.#seen[state] === round) continue
        this.#seen[state] = round
        if (this.#isStart[state] === 1) begins = true
        if (this.#rests[state] === 1) into.push(state + base)
        const end = this.#byNothing.first(state + 1)
        for (let edge = this.#byNothing.first(state); edge < end; edge++) {
          const before = this.#byNothing.source(edge)
          if (this.#isOpen(before, holds)) stack.push(before)
        }
      }
    }
    return begins
  }

  /** The same NFA for packed sets. */
  get stateSet(): StateSet {
    return (this.#stateSet ??= runSync(this.#wire()))
  }

  /** Packs a set: a state becomes the bits of the CHAR states that lead to it. */
  pack(states: ArrayLike<number>, from: number, to: number, base: number): Int32Array {
    const packed = new Int32Array(this.stateSet.words)
    for (let at = from; at < to; at++) {
      const rest = states[at]! - base
      const last = this.#bySymbol.first(rest + 1)
      for (let edge = this.#bySymbol.first(rest); edge < last; edge++) {
        const bit = this.#bitOf[this.#bySymbol.source(edge)]!
        packed[bit >>> 5]! |= 1 << (bit & 31)
      }
    }
    return packed
  }

  /** Unpacks a set. @param into receives the states, plus `base` */
  unpack(packed: Int32Array, base: number, into: number[]): void {
    const states = new Set<number>()
    for (const bit of bitsOf(packed)) states.add(this.#first[this.#readers[bit]!]! + base)
    for (const state of states) into.push(state)
  }

  /** The states in which a target is reached where these conditions hold. */
  before(target: number, holds: number): readonly number[] {
    return this.#gather(this.#accepts[target]!, holds).filter((state) => this.#rests[state] === 1)
  }

  #take(state: number, base: number, into: number[], reached: Accepted[]): void {
    if (this.#taken[state] === this.#round) return
    this.#taken[state] = this.#round
    const target = this.#eager[state]!
    if (target !== -1) reached.push({ target, before: false })
    // A state with nothing left to read is not kept.
    if (this.#kind[state] !== ACCEPT) into.push(state + base)
  }

  /** The states after the first symbol of a match. They depend on the symbol and the conditions only, so they are cached. */
  #begin(symbolClass: number, holds: number): Int32Array {
    const key = symbolClass * CONDITIONS + holds
    const known = this.#firstSteps.get(key)
    if (known) return known
    const next: number[] = []
    for (const state of this.#spread(this.starts, holds)) {
      const isNext =
        this.#kind[state] === CHAR && this.alphabet.contains(this.#second[state]!, symbolClass)
      if (isNext) next.push(this.#first[state]!)
    }
    this.#firstStepCount += next.length + 1
    if (this.#firstStepCount > MAX_FIRST_STEPS) {
      this.#firstSteps.clear()
      this.#firstStepCount = next.length + 1
    }
    const states = Int32Array.from(next)
    this.#firstSteps.set(key, states)
    return states
  }

  /** All states that are reached without reading. The array is used again by the next call. */
  #spread(from: readonly number[], holds: number): readonly number[] {
    const round = ++this.#round
    const found = this.#found
    found.length = 0
    for (const state of from) this.#find(state, round)
    for (let at = 0; at < found.length; at++) {
      const state = found[at]!
      const kind = this.#kind[state]
      if (kind === SPLIT) {
        this.#find(this.#first[state]!, round)
        this.#find(this.#second[state]!, round)
      } else if (kind === ASSERT && this.#isOpen(state, holds)) {
        this.#find(this.#first[state]!, round)
      }
    }
    return found
  }

  /** All states from which a state is reached without reading. The array is used again by the next call. */
  #gather(target: number, holds: number): readonly number[] {
    const round = ++this.#round
    const found = this.#found
    found.length = 0
    this.#find(target, round)
    for (let at = 0; at < found.length; at++) {
      const end = this.#byNothing.first(found[at]! + 1)
      for (let edge = this.#byNothing.first(found[at]!); edge < end; edge++) {
        const before = this.#byNothing.source(edge)
        if (this.#isOpen(before, holds)) this.#find(before, round)
      }
    }
    return found
  }

  #find(state: number, round: number): void {
    if (this.#seen[state] === round) return
    this.#seen[state] = round
    this.#found.push(state)
  }

  /** Whether a SPLIT or ASSERT goes on where these conditions hold. */
  #isOpen(state: number, holds: number): boolean {
    return this.#kind[state] === SPLIT || (this.#second[state]! & ~holds) === 0
  }

  /** Prepares the state set of a large NFA, which would take too long within the first steps. */
  *#prepare(): Task<void> {
    this.#stateSet = yield* this.#wire()
    const count = Math.min(this.alphabet.size, MOST_LEARNED)
    for (let symbolClass = 0; symbolClass < count; symbolClass++) {
      yield
      yield* this.#stateSet.learn(symbolClass)
    }
  }

  #wire(): Task<StateSet> {
    const [readers, bitOf] = [this.#readers, this.#bitOf]
    const next = (bit: number) => this.#first[readers[bit]!]!
    const begins = (from: readonly number[], holds: number, into: number[]) => {
      for (const state of this.#spread(from, holds)) {
        if (this.#kind[state] === CHAR) into.push(bitOf[state]!)
      }
    }
    return StateSet.of({
      readers,
      asserts: this.asserts,
      begin: (holds, into) => begins(this.starts, holds, into),
      after: (bit, holds, into) => {
        // The usual case: one CHAR after another.
        if (this.#kind[next(bit)] === CHAR) into.push(bitOf[next(bit)]!)
        else begins([next(bit)], holds, into)
      },
      before: (bit, holds, into) => {
        for (const state of this.#gather(readers[bit]!, holds)) {
          if (this.#rests[state] === 0) continue
          const last = this.#bySymbol.first(state + 1)
          for (let edge = this.#bySymbol.first(state); edge < last; edge++) {
            into.push(bitOf[this.#bySymbol.source(edge)]!)
          }
        }
      },
      reads: (bit, symbolClass) =>
        this.alphabet.contains(this.#second[readers[bit]!]!, symbolClass),
      targetOf: (bit) => this.#eager[next(bit)]!,
      isLast: (bit) => this.#kind[next(bit)] === ACCEPT,
      targetsBehind: (bit, holds) =>
        this.#spread([next(bit)], holds)
          .filter((state) => this.#kind[state] === ACCEPT)
          .map((state) => this.#second[state]!),
    })
  }

  /** Numbers the CHAR states so that one that follows another is its neighbour wherever that is possible. */
  *#order(): Task<void> {
    const readers = this.#readers
    const seen = new Uint8Array(this.size)
    const stack = this.starts.toReversed()
    for (let state = stack.pop(); state !== undefined; state = stack.pop()) {
      if (seen[state] === 1) continue
      seen[state] = 1
      const kind = this.#kind[state]
      if (kind === CHAR) {
        if (readers.length % PIECE === 0) yield
        this.#bitOf[state] = readers.push(state) - 1
      }
      if (kind === SPLIT) stack.push(this.#second[state]!)
      if (kind === SPLIT || kind === CHAR || kind === ASSERT) stack.push(this.#first[state]!)
    }
  }
}

/** Lists the ends of all edges from a state. */
type Edges = (state: number, add: (end: number) => void) => void

/** Edges by their end, in two arrays. */
class ReverseEdges {
  readonly #offsets: Int32Array
  readonly #sources: Int32Array

  private constructor(offsets: Int32Array, sources: Int32Array) {
    this.#offsets = offsets
    this.#sources = sources
  }

  /** @param size number of states */
  static *of(size: number, edges: Edges): Task<ReverseEdges> {
    const offsets = new Int32Array(size + 2)
    const count = (end: number) => void offsets[end + 2]!++
    for (let state = 0; state < size; state++) {
      if (state % PIECE === 0) yield
      edges(state, count)
    }
    for (let at = 2; at < size + 2; at++) offsets[at]! += offsets[at - 1]!
    const sources = new Int32Array(offsets[size + 1]!)
    let from = 0
    // Filling moves each offset to the beginning of the next state.
    const fill = (end: number) => void (sources[offsets[end + 1]!++] = from)
    for (; from < size; from++) {
      if (from % PIECE === 0) yield
      edges(from, fill)
    }
    return new ReverseEdges(offsets, sources)
  }

  /** The first edge to a state; its last one is before the first edge to the next state. */
  first(state: number): number {
    return this.#offsets[state]!
  }

  /** Where an edge comes from. */
  source(edge: number): number {
    return this.#sources[edge]!
  }
}
