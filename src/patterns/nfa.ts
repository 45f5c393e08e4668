/**
 * Nondeterministic automata (NFA) over classes of symbols. An `Nfa` has the instructions of Thompson's construction. Those that
 * read a symbol are its positions, as in Glushkov's construction: between two symbols, an NFA is in the set of positions that have
 * read the last one. `NfaSimulation` steps such sets, forward and backward.
 */
import type { PatternView } from '../plugin.ts'
import type { Task } from './time-slice.ts'
import { Alphabet, type Ranges } from './alphabet.ts'
import { memoryBudget, type BudgetOwner } from './memory-budget.ts'

/** What it means that an ACCEPT instruction is reached. */
export interface MatchTarget {
  /** Position in the list of patterns. */
  readonly pattern: number
  readonly view: PatternView
  /** The match counts as `raw` if nothing in it had to be folded. */
  readonly plain?: boolean
  /** Digits of the pattern itself: in a match they stand for no letters. */
  readonly digits?: number
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
const CHAR = 0
const SPLIT = 1
const ASSERT = 2
const ACCEPT = 3
const DEAD = 4

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
  /** The instruction of each target. */
  readonly #accepts: number[] = []
  /** What leads to an instruction by reading a symbol, and by an epsilon transition. */
  readonly #bySymbol: ReverseEdges
  readonly #byEpsilon: ReverseEdges
  /** The instruction of each position, and the position of each instruction. */
  readonly #instructions: number[] = []
  readonly #positionOf: Int32Array
  /** The positions that read a set, by the number of the set. */
  readonly #positionsOfSet: number[][] = []
  /** The present closure, and by instruction the last closure that it was in. */
  readonly #closure: number[] = []
  readonly #closedIn: Int32Array
  #closures = 0

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
    this.#byEpsilon = new ReverseEdges(this.size)
    this.#positionOf = new Int32Array(this.size)
    this.#closedIn = new Int32Array(this.size)
  }

  static *of(init: NfaInit): Task<Nfa> {
    const nfa = new Nfa(init)
    yield* nfa.#connect()
    return nfa
  }

  get positions(): number {
    return this.#instructions.length
  }

  /** The positions with which a match may begin where these conditions hold. */
  first(conditions: number): number[] {
    return this.#positionsIn(this.#epsilonClosure(this.#starts, conditions))
  }

  /** The positions that may follow some positions where these conditions hold. */
  follow(positions: readonly number[], conditions: number): number[] {
    return this.#positionsIn(this.#epsilonClosure(this.#nextOf(positions), conditions))
  }

  /** The positions that some positions may follow where these conditions hold. */
  precede(positions: readonly number[], conditions: number): number[] {
    const instructions = positions.map((position) => this.#instructions[position]!)
    return this.#leadingTo(this.#reverseClosure(instructions, conditions))
  }

  /** The positions after which a target is reached where these conditions hold; without conditions, whatever follows. */
  last(target: number, conditions: number): number[] {
    return this.#leadingTo(this.#reverseClosure([this.#accepts[target]!], conditions))
  }

  /** The targets that are reached after a position where these conditions hold. */
  targetsAfter(position: number, conditions: number): number[] {
    return this.#epsilonClosure(this.#nextOf([position]), conditions)
      .filter((at) => this.#kind[at] === ACCEPT)
      .map((at) => this.#second[at]!)
  }

  /** Nothing can follow a position but the end of a match. */
  isFinal(position: number): boolean {
    return this.#kind[this.#first[this.#instructions[position]!]!] === ACCEPT
  }

  /** The positions that read a class of symbols. */
  reading(symbolClass: number): number[] {
    return this.#positionsOfSet.flatMap((positions, set) =>
      this.alphabet.contains(set, symbolClass) ? positions : [],
    )
  }

  #nextOf(positions: readonly number[]): number[] {
    return positions.map((position) => this.#first[this.#instructions[position]!]!)
  }

  #positionsIn(instructions: readonly number[]): number[] {
    const positions: number[] = []
    for (const at of instructions) {
      if (this.#kind[at] === CHAR) positions.push(this.#positionOf[at]!)
    }
    return positions
  }

  #leadingTo(instructions: readonly number[]): number[] {
    const positions: number[] = []
    for (const at of instructions) {
      this.#bySymbol.each(at, (from) => positions.push(this.#positionOf[from]!))
    }
    return positions
  }

  /** All instructions that are reached without reading. The array is used again by the next call. */
  #epsilonClosure(from: readonly number[], conditions: number): readonly number[] {
    const closure = this.#beginClosure(from)
    for (let index = 0; index < closure.length; index++) {
      const at = closure[index]!
      const kind = this.#kind[at]
      if (kind !== SPLIT && kind !== ASSERT) continue
      if (!this.#isOpen(at, conditions)) continue
      this.#close(this.#first[at]!)
      if (kind === SPLIT) this.#close(this.#second[at]!)
    }
    return closure
  }

  /** All instructions from which one of some is reached without reading. The array is used again by the next call. */
  #reverseClosure(to: readonly number[], conditions: number): readonly number[] {
    const closure = this.#beginClosure(to)
    for (let index = 0; index < closure.length; index++) {
      this.#byEpsilon.each(closure[index]!, (before) => {
        if (this.#isOpen(before, conditions)) this.#close(before)
      })
    }
    return closure
  }

  #beginClosure(instructions: readonly number[]): readonly number[] {
    this.#closures++
    this.#closure.length = 0
    for (const at of instructions) this.#close(at)
    return this.#closure
  }

  #close(at: number): void {
    if (this.#closedIn[at] === this.#closures) return
    this.#closedIn[at] = this.#closures
    this.#closure.push(at)
  }

  /** Whether a SPLIT or ASSERT goes on where these conditions hold. */
  #isOpen(at: number, conditions: number): boolean {
    return this.#kind[at] === SPLIT || (this.#second[at]! & ~conditions) === 0
  }

  /** Instructions are written from the last to the first, so that a position mostly follows its neighbour. */
  *#connect(): Task<void> {
    for (let at = this.size - 1; at >= 0; at--) {
      if (at % PIECE === 0) yield
      const kind = this.#kind[at]
      if (kind === ACCEPT) this.#accepts[this.#second[at]!] = at
      if (kind === CHAR) {
        this.#positionOf[at] = this.#instructions.push(at) - 1
        ;(this.#positionsOfSet[this.#second[at]!] ??= []).push(this.#positionOf[at]!)
        this.#bySymbol.add(at, this.#first[at]!)
      }
      if (kind === SPLIT) this.#byEpsilon.add(at, this.#second[at]!)
      if (kind === SPLIT || kind === ASSERT) this.#byEpsilon.add(at, this.#first[at]!)
    }
  }
}

/** Edges by their end. */
class ReverseEdges {
  /** The number of the newest edge of each end; for each edge, where it comes from, and the edge before with the same end. */
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

// Instructions of an NFA while they are written.

/** Collects the instructions of an NFA. A number can be reserved before its instruction is known, as loops need it. */
export class NfaBuilder {
  readonly #kind: number[] = []
  readonly #first: number[] = []
  readonly #second: number[] = []
  readonly #sets: Ranges[] = []
  readonly #setNumbers = new Map<string, number>()
  /** Long sets are often given several times, as the same array. */
  readonly #byRanges = new Map<Ranges, number>()
  readonly #targets: MatchTarget[] = []
  readonly #starts: number[] = []

  get size(): number {
    return this.#kind.length
  }

  reserve(): number {
    return this.#put(this.size, DEAD, -1, -1)
  }

  /** Reads one symbol of a set. */
  char(set: Ranges, next: number, at = this.size): number {
    return this.#put(at, CHAR, next, this.set(set))
  }

  /** Goes both ways; the same way twice is a jump. */
  split(first: number, second: number, at = this.size): number {
    return this.#put(at, SPLIT, first, second)
  }

  /** Goes on where all of these conditions hold. */
  assert(conditions: number, next: number, at = this.size): number {
    return this.#put(at, ASSERT, next, conditions)
  }

  accept(target: MatchTarget, at = this.size): number {
    return this.#put(at, ACCEPT, -1, this.#targets.push(target) - 1)
  }

  /** A match may begin here. */
  start(state: number): void {
    this.#starts.push(state)
  }

  /** Makes the alphabet tell a set from all other symbols. @returns its number */
  set(ranges: Ranges): number {
    const existing = this.#byRanges.get(ranges)
    if (existing !== undefined) return existing
    const key = ranges.join()
    let number = this.#setNumbers.get(key)
    if (number === undefined) {
      number = this.#sets.push(ranges) - 1
      this.#setNumbers.set(key, number)
    }
    this.#byRanges.set(ranges, number)
    return number
  }

  *build(): Task<Nfa> {
    const alphabet = yield* Alphabet.of(this.#sets)
    yield
    return yield* Nfa.of({
      kind: Uint8Array.from(this.#kind),
      first: Int32Array.from(this.#first),
      second: Int32Array.from(this.#second),
      alphabet,
      targets: this.#targets,
      starts: this.#starts,
    })
  }

  #put(at: number, kind: number, first: number, second: number): number {
    this.#kind[at] = kind
    this.#first[at] = first
    this.#second[at] = second
    return at
  }
}

// Simulation: sets of positions are stepped 32 at a time. A step from a position to its neighbour is a shift; other steps follow
// links, which neighbours often share. One by one, hostile patterns with thousands of live positions take minutes.

/** A set of positions: words of 32 and their bits in turns, `[word, bits, word, bits, …]`, sorted, no bits are 0. Never changed. */
export type Positions = Int32Array

export const NO_POSITIONS: Positions = new Int32Array(0)

/** A target that a step has reached, by number, and whether before the symbol of the step or after it. */
export interface Accepted {
  readonly target: number
  readonly before: boolean
}

/** Where steps in one direction lead under the same conditions, learnt position by position. */
interface Links {
  readonly direction: 1 | -1
  readonly conditions: number
  /** Positions that lead to their neighbour. */
  readonly shift: Int32Array
  /** Positions that lead elsewhere, or of which that is not known yet. */
  readonly linked: Int32Array
  /** Where else each position leads, as a number in `groups`; 0 if it is not known yet. */
  readonly groupOf: Int32Array
  readonly groups: Positions[]
  readonly numbers: Map<string, number>
}

/** Work that one step may spend on learning links, in positions and their targets. Others are followed without links. */
const LINKED_AT_ONCE = 512

/** Upper bound on cached masks of classes of symbols. */
const MAX_CLASSES = 256

/** Steps sets of positions of an NFA. What it has learnt can be dropped. */
export class NfaSimulation implements BudgetOwner {
  readonly #nfa: Nfa
  readonly #words: number
  /** The target that each position reaches as soon as it has read, or -1; the positions with one, and those with nothing else. */
  readonly #targetOf: Int32Array
  readonly #accepting: Int32Array
  readonly #final: Int32Array
  // Learnt: links by conditions, masks by conditions or class.
  readonly #forward = new Map<number, Links>()
  readonly #backward = new Map<number, Links>()
  readonly #first = new Map<number, Int32Array>()
  readonly #last = new Map<number, Int32Array>()
  readonly #reading = new Map<number, Int32Array>()
  /** The set that a step puts together. Zero between steps; one word more than there are. */
  readonly #next: Int32Array
  readonly #sparse: Int32Array

  constructor(nfa: Nfa) {
    this.#nfa = nfa
    this.#words = (nfa.positions + 31) >>> 5
    this.#next = new Int32Array(this.#words + 1)
    this.#sparse = new Int32Array(this.#words * 2)
    this.#targetOf = new Int32Array(nfa.positions).fill(-1)
    const accepting: number[] = []
    for (const target of nfa.targets.keys()) {
      for (const position of nfa.last(target, 0)) {
        this.#targetOf[position] = target
        accepting.push(position)
      }
    }
    this.#accepting = this.#maskOf(accepting)
    this.#final = this.#maskOf(accepting.filter((position) => nfa.isFinal(position)))
  }

  drop(): void {
    const masks = [this.#first, this.#last, this.#reading]
    for (const learnt of [this.#forward, this.#backward, ...masks]) learnt.clear()
    memoryBudget.release(this)
  }

  /**
   * Reads one symbol.
   * @param conditions those that hold before the symbol
   * @param accepted receives the targets that are reached
   */
  read(from: Positions, symbolClass: number, conditions: number, accepted: Accepted[]): Positions {
    this.accept(from, conditions, accepted)
    const reads = this.#readingOf(symbolClass)
    const first = this.#firstWhere(conditions)
    const next = this.#step(this.#linksWhere(conditions, 1), from)
    const [accepting, sparse] = [this.#accepting, this.#sparse]
    let length = 0
    for (let word = 0; word < reads.length; word++) {
      let bits = (next[word]! | first[word]!) & reads[word]!
      next[word] = 0
      if (bits === 0) continue
      if ((bits & accepting[word]!) !== 0) {
        for (let rest = bits & accepting[word]!; rest !== 0; rest &= rest - 1) {
          accepted.push({ target: this.#targetOf[lowestOf(word, rest)]!, before: false })
        }
        // What has nothing left to read is not kept.
        bits &= ~this.#final[word]!
        if (bits === 0) continue
      }
      sparse[length++] = word
      sparse[length++] = bits
    }
    return length === 0 ? NO_POSITIONS : sparse.slice(0, length)
  }

  /** Finds the targets that are reached without a further symbol, but not whatever follows. */
  accept(from: Positions, conditions: number, accepted: Accepted[]): void {
    if (!this.#nfa.asserts) return
    const last = this.#lastWhere(conditions)
    for (let at = 0; at < from.length; at += 2) {
      const word = from[at]!
      for (let rest = from[at + 1]! & last[word]!; rest !== 0; rest &= rest - 1) {
        for (const target of this.#nfa.targetsAfter(lowestOf(word, rest), conditions)) {
          accepted.push({ target, before: true })
        }
      }
    }
  }

  /** Steps back over one symbol: from the positions that may have read it to those that may have read the one before. */
  unread(from: Positions, symbolClass: number, conditions: number): Positions {
    const reads = this.#readingOf(symbolClass)
    this.#step(this.#linksWhere(conditions, -1), from, reads)
    return this.#take()
  }

  /** Whether a match may begin with a symbol that these positions have read. */
  begins(from: Positions, symbolClass: number, conditions: number): boolean {
    const reads = this.#readingOf(symbolClass)
    const first = this.#firstWhere(conditions)
    for (let at = 0; at < from.length; at += 2) {
      const word = from[at]!
      if ((from[at + 1]! & reads[word]! & first[word]!) !== 0) return true
    }
    return false
  }

  /** The positions after which a target is reached where these conditions hold. */
  last(target: number, conditions: number): Positions {
    setBits(this.#next, this.#nfa.last(target, conditions))
    return this.#take()
  }

  /** The set that was put together. */
  #take(): Positions {
    const [next, sparse] = [this.#next, this.#sparse]
    let length = 0
    for (let word = 0; word < this.#words; word++) {
      const bits = next[word]!
      if (bits === 0) continue
      sparse[length++] = word
      sparse[length++] = bits
      next[word] = 0
    }
    return length === 0 ? NO_POSITIONS : sparse.slice(0, length)
  }

  /** Puts together where links lead to. @param mask positions that count; all without it */
  #step(links: Links, from: Positions, mask?: Int32Array): Int32Array {
    const { direction, conditions, shift, linked, groupOf, groups } = links
    const next = this.#next
    const others: number[] = []
    let left = LINKED_AT_ONCE
    let last = 0
    for (let at = 0; at < from.length; at += 2) {
      const word = from[at]!
      const bits = mask === undefined ? from[at + 1]! : from[at + 1]! & mask[word]!
      for (let rest = bits & linked[word]!; rest !== 0; rest &= rest - 1) {
        const position = lowestOf(word, rest)
        if (groupOf[position] === 0) {
          if (left > 0) left -= this.#learn(links, position)
          else others.push(position)
        }
        const group = groupOf[position]!
        // Neighbours are mostly in the same group.
        if (group === last) continue
        last = group
        const to = groups[group]!
        for (let one = 0; one < to.length; one += 2) next[to[one]!]! |= to[one + 1]!
      }
      const moving = bits & shift[word]!
      if (direction === 1) {
        next[word]! |= moving << 1
        next[word + 1]! |= moving >>> 31
      } else {
        next[word]! |= moving >>> 1
        if ((moving & 1) === 1) next[word - 1]! |= 1 << 31
      }
    }
    if (others.length > 0) setBits(next, this.#around(others, conditions, direction))
    return next
  }

  /** Learns where a position leads. @returns how much work that was */
  #learn(links: Links, position: number): number {
    const { direction, conditions, shift, linked, groupOf, groups, numbers } = links
    const mask = 1 << (position & 31)
    const all = this.#around([position], conditions, direction)
    const others = all.filter((one) => one !== position + direction)
    if (others.length < all.length) shift[position >>> 5]! |= mask
    if (others.length === 0) {
      linked[position >>> 5]! &= ~mask
      return all.length + 1
    }
    const words = new Map<number, number>()
    for (const one of others) words.set(one >>> 5, (words.get(one >>> 5) ?? 0) | (1 << (one & 31)))
    const to = [...words].sort(([a], [b]) => a - b).flat()
    const key = to.join()
    if (!numbers.has(key)) {
      numbers.set(key, groups.push(Int32Array.from(to)) - 1)
      memoryBudget.reserve(this, to.length * 4 + key.length)
    }
    groupOf[position] = numbers.get(key)!
    return all.length + 1
  }

  /** The positions after some positions, or before them. */
  #around(positions: readonly number[], conditions: number, direction: 1 | -1): number[] {
    return direction === 1
      ? this.#nfa.follow(positions, conditions)
      : this.#nfa.precede(positions, conditions)
  }

  #linksWhere(conditions: number, direction: 1 | -1): Links {
    const learnt = direction === 1 ? this.#forward : this.#backward
    let links = learnt.get(conditions)
    if (links === undefined) {
      links = {
        direction,
        conditions,
        shift: new Int32Array(this.#words),
        linked: new Int32Array(this.#words).fill(-1),
        groupOf: new Int32Array(this.#nfa.positions),
        groups: [NO_POSITIONS],
        numbers: new Map(),
      }
      learnt.set(conditions, links)
      memoryBudget.reserve(this, this.#words * 4 * 34)
    }
    return links
  }

  #firstWhere(conditions: number): Int32Array {
    return this.#learnt(this.#first, conditions, () => this.#nfa.first(conditions))
  }

  /** Positions after which a target is reached under these conditions, but not under all. */
  #lastWhere(conditions: number): Int32Array {
    return this.#learnt(this.#last, conditions, () =>
      [...this.#nfa.targets.keys()]
        .flatMap((target) => this.#nfa.last(target, conditions))
        .filter((position) => this.#targetOf[position] === -1),
    )
  }

  #readingOf(symbolClass: number): Int32Array {
    if (this.#reading.size >= MAX_CLASSES) this.#reading.clear()
    return this.#learnt(this.#reading, symbolClass, () => this.#nfa.reading(symbolClass))
  }

  #learnt(
    masks: Map<number, Int32Array>,
    key: number,
    positions: () => readonly number[],
  ): Int32Array {
    let mask = masks.get(key)
    if (mask === undefined) {
      mask = this.#maskOf(positions())
      masks.set(key, mask)
      memoryBudget.reserve(this, mask.byteLength)
    }
    return mask
  }

  #maskOf(positions: readonly number[]): Int32Array {
    return setBits(new Int32Array(this.#words), positions)
  }
}

function setBits(words: Int32Array, positions: readonly number[]): Int32Array {
  for (const position of positions) words[position >>> 5]! |= 1 << (position & 31)
  return words
}

/** The lowest position in the rest of a word. */
function lowestOf(word: number, rest: number): number {
  return (word << 5) + 31 - Math.clz32(rest & -rest)
}
