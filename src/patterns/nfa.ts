/**
 * Nondeterministic automata over classes of symbols. A reader is an instruction that reads a symbol, and has a bit; between
 * two symbols an NFA is in the set of readers that have read the last one. How sets are stepped is in `nfa-stepper.ts`.
 */
import type { PatternView } from '../plugin.ts'
import type { Task } from './time-slice.ts'
import type { Alphabet } from './alphabet.ts'

/** What it means that an ACCEPT instruction is reached. */
export interface MatchTarget {
  /** Position in the list of patterns. */
  readonly pattern: number
  readonly view: PatternView
  /** The match counts as `raw` if nothing in it had to be folded. */
  readonly plain?: boolean
}

/** Instructions as columns, and those with which a match begins. */
interface NfaInit {
  readonly kind: Uint8Array
  readonly first: Int32Array
  readonly second: Int32Array
  readonly alphabet: Alphabet
  readonly targets: readonly MatchTarget[]
  readonly starts: readonly number[]
}

// Kinds of instructions, each with two operands. CHAR: the next one, and the number of its set. SPLIT: both next ones.
// ASSERT: the next one, and its conditions. ACCEPT: none, and the number of its target.
export const CHAR = 0
export const SPLIT = 1
export const ASSERT = 2
export const ACCEPT = 3
export const DEAD = 4

/** Instructions between two pauses while an NFA is prepared. */
const PIECE = 1 << 12

/** Looks for its targets anywhere in a sequence of symbols. Its methods take time linear in the instructions. */
export class Nfa {
  readonly alphabet: Alphabet
  readonly targets: readonly MatchTarget[]
  /** Number of instructions. */
  readonly size: number
  /** Any instruction is an assertion. */
  readonly asserts: boolean
  readonly #kind: Uint8Array
  readonly #first: Int32Array
  readonly #second: Int32Array
  readonly #starts: readonly number[]
  /** By target: its instruction. */
  readonly #accepts: number[] = []
  /** What leads to an instruction by reading a symbol, and without. */
  readonly #bySymbol: ReverseEdges
  readonly #byNothing: ReverseEdges
  /** Readers by their bit, and the other way round; and the bits that read a set, by its number. */
  readonly #readers: number[] = []
  readonly #bitOf: Int32Array
  readonly #bitsBySet: number[][] = []
  /** By instruction: the last round in which it was found; and what was found in this one. */
  readonly #seen: Int32Array
  #round = 0
  readonly #found: number[] = []

  private constructor(init: NfaInit) {
    this.alphabet = init.alphabet
    this.targets = init.targets
    this.size = init.kind.length
    this.asserts = init.kind.includes(ASSERT)
    this.#kind = init.kind
    this.#first = init.first
    this.#second = init.second
    this.#starts = init.starts
    this.#bySymbol = new ReverseEdges(this.size)
    this.#byNothing = new ReverseEdges(this.size)
    this.#bitOf = new Int32Array(this.size)
    this.#seen = new Int32Array(this.size)
  }

  static *of(init: NfaInit): Task<Nfa> {
    const nfa = new Nfa(init)
    yield* nfa.#connect()
    yield* nfa.#order()
    return nfa
  }

  /** Number of readers. */
  get bits(): number {
    return this.#readers.length
  }

  /** The bits with which a match may begin where these conditions hold. */
  starting(holds: number): number[] {
    return this.#readersAmong(this.#spread(this.#starts, holds))
  }

  /** The bits that may follow some bits where these conditions hold. */
  after(bits: readonly number[], holds: number): number[] {
    return this.#readersAmong(this.#spread(this.#nextOf(bits), holds))
  }

  /** The bits that some bits may follow where these conditions hold. */
  before(bits: readonly number[], holds: number): number[] {
    const readers = bits.map((bit) => this.#readers[bit]!)
    return this.#leadingTo(this.#gather(readers, holds))
  }

  /** The bits after which a target is reached where these conditions hold; without conditions, whatever follows. */
  ending(target: number, holds: number): number[] {
    return this.#leadingTo(this.#gather([this.#accepts[target]!], holds))
  }

  /** The targets that are reached after a bit where these conditions hold. */
  targetsAfter(bit: number, holds: number): number[] {
    return this.#spread(this.#nextOf([bit]), holds)
      .filter((at) => this.#kind[at] === ACCEPT)
      .map((at) => this.#second[at]!)
  }

  /** Nothing can follow a bit but the end of a match. */
  isLast(bit: number): boolean {
    return this.#kind[this.#first[this.#readers[bit]!]!] === ACCEPT
  }

  /** The bits that read a class of symbols. */
  reading(symbolClass: number): number[] {
    return this.#bitsBySet.flatMap((bits, set) =>
      this.alphabet.contains(set, symbolClass) ? bits : [],
    )
  }

  #nextOf(bits: readonly number[]): number[] {
    return bits.map((bit) => this.#first[this.#readers[bit]!]!)
  }

  #readersAmong(instructions: readonly number[]): number[] {
    const bits: number[] = []
    for (const at of instructions) if (this.#kind[at] === CHAR) bits.push(this.#bitOf[at]!)
    return bits
  }

  #leadingTo(instructions: readonly number[]): number[] {
    const bits: number[] = []
    for (const at of instructions) {
      this.#bySymbol.each(at, (reader) => bits.push(this.#bitOf[reader]!))
    }
    return bits
  }

  /** All instructions that are reached without reading. The array is used again by the next call. */
  #spread(from: readonly number[], holds: number): readonly number[] {
    const found = this.#begin(from)
    for (let index = 0; index < found.length; index++) {
      const at = found[index]!
      const kind = this.#kind[at]
      if (kind === SPLIT) {
        this.#find(this.#first[at]!)
        this.#find(this.#second[at]!)
      } else if (kind === ASSERT && this.#isOpen(at, holds)) this.#find(this.#first[at]!)
    }
    return found
  }

  /** All instructions from which one of some is reached without reading. The array is used again by the next call. */
  #gather(to: readonly number[], holds: number): readonly number[] {
    const found = this.#begin(to)
    for (let index = 0; index < found.length; index++) {
      this.#byNothing.each(found[index]!, (before) => {
        if (this.#isOpen(before, holds)) this.#find(before)
      })
    }
    return found
  }

  #begin(instructions: readonly number[]): readonly number[] {
    this.#round++
    this.#found.length = 0
    for (const at of instructions) this.#find(at)
    return this.#found
  }

  #find(at: number): void {
    if (this.#seen[at] === this.#round) return
    this.#seen[at] = this.#round
    this.#found.push(at)
  }

  /** Whether a SPLIT or ASSERT goes on where these conditions hold. */
  #isOpen(at: number, holds: number): boolean {
    return this.#kind[at] === SPLIT || (this.#second[at]! & ~holds) === 0
  }

  *#connect(): Task<void> {
    for (let at = 0; at < this.size; at++) {
      if (at % PIECE === 0) yield
      const kind = this.#kind[at]
      if (kind === ACCEPT) this.#accepts[this.#second[at]!] = at
      if (kind === CHAR) this.#bySymbol.add(at, this.#first[at]!)
      if (kind === SPLIT) this.#byNothing.add(at, this.#second[at]!)
      if (kind === SPLIT || kind === ASSERT) this.#byNothing.add(at, this.#first[at]!)
    }
  }

  /** Numbers the readers so that one that follows another is its neighbour wherever that is possible. */
  *#order(): Task<void> {
    const readers = this.#readers
    const seen = new Uint8Array(this.size)
    const stack = this.#starts.toReversed()
    for (let at = stack.pop(); at !== undefined; at = stack.pop()) {
      if (seen[at] === 1) continue
      seen[at] = 1
      const kind = this.#kind[at]
      if (kind === CHAR) {
        if (readers.length % PIECE === 0) yield
        const bit = readers.push(at) - 1
        this.#bitOf[at] = bit
        ;(this.#bitsBySet[this.#second[at]!] ??= []).push(bit)
      }
      if (kind === SPLIT) stack.push(this.#second[at]!)
      if (kind === SPLIT || kind === CHAR || kind === ASSERT) stack.push(this.#first[at]!)
    }
  }
}

/** Edges by their end. */
class ReverseEdges {
  /** By end: the number of the newest edge; by edge: where it comes from, and the edge before with the same end. */
  readonly #newest: Int32Array
  readonly #sources = [-1]
  readonly #older = [0]

  /** @param size number of instructions */
  constructor(size: number) {
    this.#newest = new Int32Array(size)
  }

  add(source: number, end: number): void {
    this.#older.push(this.#newest[end]!)
    this.#newest[end] = this.#sources.push(source) - 1
  }

  /** Calls back with everything that leads to an instruction. */
  each(end: number, use: (source: number) => void): void {
    for (let edge = this.#newest[end]!; edge !== 0; edge = this.#older[edge]!) {
      use(this.#sources[edge]!)
    }
  }
}
