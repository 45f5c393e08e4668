/**
 * Nondeterministic automata over classes of symbols. A reader is an instruction that reads a symbol, and has a bit; between
 * two symbols an NFA is in the set of readers that have read the last one. `NfaStepper` steps sets.
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

// Instructions of an NFA while they are written.

/** Collects the instructions of an NFA. A number can be reserved before its instruction is known, as loops need it. */
export class NfaBuilder {
  readonly #kind: number[] = []
  readonly #first: number[] = []
  readonly #second: number[] = []
  readonly #sets: Ranges[] = []
  readonly #setNumbers = new Map<string, number>()
  /** Long sets are often given several times, as the same array. */
  readonly #known = new Map<Ranges, number>()
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

// Steps sets of readers of an NFA, 32 at a time. A step from a reader to its neighbour is a shift; other steps follow links,
// which neighbours often share. Reader by reader, hostile patterns with thousands of live readers take minutes.

/** A target that a step has reached, by number, and whether before the symbol of the step or after it. */
export interface Accepted {
  readonly target: number
  readonly before: boolean
}

/** A set as words and their bits in turns, `[word, bits, word, bits, …]`: sorted, no bits are 0. */
type Pairs = Int32Array

/** A set that is being put together. */
export class PairList {
  readonly pairs: Pairs
  length = 0

  /** @param words how many there can be */
  constructor(words: number) {
    // With space for one more number.
    this.pairs = new Int32Array(words * 2 + 1)
  }

  add(word: number, bits: number): void {
    this.pairs[this.length++] = word
    this.pairs[this.length++] = bits
  }
}

/** Links in one direction under the same conditions, found bit by bit. */
interface Links {
  readonly direction: 1 | -1
  readonly holds: number
  /** Bits that lead to their neighbour. */
  readonly shift: Int32Array
  /** Bits that lead elsewhere, or of which that is not known yet. */
  readonly linked: Int32Array
  /** By bit: the number of its group; 0 if it is not known yet. */
  readonly groupOf: Int32Array
  /** By group: the words it leads to, each followed by the bits. */
  readonly groups: Pairs[]
  readonly numbers: Map<string, number>
}

/** Work that one step may spend on finding links, in bits and their targets. Further bits are followed without links. */
const LINKED_AT_ONCE = 512

/** Upper bound on cached masks of character classes. */
const MAX_CLASSES = 256

/** The transitions of an NFA. Its words have numbers from `base` to `top`. What it has learnt can be dropped. */
export class NfaStepper implements BudgetOwner {
  readonly top: number
  readonly #nfa: Nfa
  readonly #base: number
  readonly #words: number
  /** By bit: the target that is reached as soon as it has read, or -1; and the bits with one, and those with nothing else. */
  readonly #targetOf: Int32Array
  readonly #eager: Int32Array
  readonly #last: Int32Array
  // Learnt: links by conditions, masks by conditions or class.
  readonly #forward = new Map<number, Links>()
  readonly #backward = new Map<number, Links>()
  readonly #starting = new Map<number, Int32Array>()
  readonly #ending = new Map<number, Int32Array>()
  readonly #reading = new Map<number, Int32Array>()
  /** Zero between steps; one word more than there are. */
  readonly #next: Int32Array

  constructor(nfa: Nfa, base: number) {
    this.#nfa = nfa
    this.#base = base
    this.#words = (nfa.bits + 31) >>> 5
    this.top = base + this.#words
    this.#next = new Int32Array(this.#words + 1)
    this.#targetOf = new Int32Array(nfa.bits).fill(-1)
    const eager: number[] = []
    for (const target of nfa.targets.keys()) {
      for (const bit of nfa.ending(target, 0)) {
        this.#targetOf[bit] = target
        eager.push(bit)
      }
    }
    this.#eager = this.#maskOf(eager)
    this.#last = this.#maskOf(eager.filter((bit) => nfa.isLast(bit)))
  }

  drop(): void {
    const masks = [this.#starting, this.#ending, this.#reading]
    for (const known of [this.#forward, this.#backward, ...masks]) known.clear()
    memoryBudget.release(this)
  }

  /**
   * Reads one symbol.
   * @param pairs of which those from `from` to `to` count
   * @param holds the conditions that hold before the symbol
   * @param into receives the pairs after it
   */
  read(
    pairs: Pairs,
    from: number,
    to: number,
    symbolClass: number,
    holds: number,
    into: PairList,
    reached: Accepted[],
  ): void {
    this.end(pairs, from, to, holds, reached)
    const reads = this.#readersOf(symbolClass)
    const starts = this.#startsWhere(holds)
    const next = this.#follow(this.#linksWhere(holds, 1), pairs, from, to)
    const eager = this.#eager
    const base = this.#base
    for (let word = 0; word < reads.length; word++) {
      let bits = (next[word]! | starts[word]!) & reads[word]!
      next[word] = 0
      if (bits === 0) continue
      if ((bits & eager[word]!) !== 0) {
        for (let rest = bits & eager[word]!; rest !== 0; rest &= rest - 1) {
          reached.push({ target: this.#targetOf[lowestOf(word, rest)]!, before: false })
        }
        // What has nothing left to read is not kept.
        bits &= ~this.#last[word]!
        if (bits === 0) continue
      }
      into.add(base + word, bits)
    }
  }

  /** Finds the targets that are reached without a further symbol, but not whatever follows. */
  end(pairs: Pairs, from: number, to: number, holds: number, reached: Accepted[]): void {
    if (!this.#nfa.asserts) return
    const ending = this.#endsWhere(holds)
    for (let at = from; at < to; at += 2) {
      const word = pairs[at]! - this.#base
      for (let rest = pairs[at + 1]! & ending[word]!; rest !== 0; rest &= rest - 1) {
        for (const target of this.#nfa.targetsAfter(lowestOf(word, rest), holds)) {
          reached.push({ target, before: true })
        }
      }
    }
  }

  /**
   * Steps back over one symbol: from the readers that may have read it to those that may have read the one before.
   * @returns whether a match may begin with the symbol
   */
  unread(
    pairs: Pairs,
    from: number,
    to: number,
    symbolClass: number,
    holds: number,
    into: PairList,
  ): boolean {
    const reads = this.#readersOf(symbolClass)
    const starts = this.#startsWhere(holds)
    let begins = 0
    for (let at = from; at < to; at += 2) {
      const word = pairs[at]! - this.#base
      begins |= pairs[at + 1]! & reads[word]! & starts[word]!
    }
    this.#take(this.#follow(this.#linksWhere(holds, -1), pairs, from, to, reads), into)
    return begins !== 0
  }

  /** The readers after which a target is reached where these conditions hold. */
  before(target: number, holds: number): PairList {
    const list = new PairList(this.#words)
    this.#take(this.#maskOf(this.#nfa.ending(target, holds)), list)
    return list
  }

  #take(words: Int32Array, into: PairList): void {
    for (let word = 0; word < words.length; word++) {
      if (words[word] === 0) continue
      into.add(this.#base + word, words[word]!)
      words[word] = 0
    }
  }

  /** The words that links lead to. @param mask bits that count; all without it */
  #follow(links: Links, pairs: Pairs, from: number, to: number, mask?: Int32Array): Int32Array {
    const { direction, holds, shift, linked, groupOf, groups } = links
    const next = this.#next
    const base = this.#base
    const others: number[] = []
    let left = LINKED_AT_ONCE
    let last = 0
    for (let at = from; at < to; at += 2) {
      const word = pairs[at]! - base
      const bits = mask === undefined ? pairs[at + 1]! : pairs[at + 1]! & mask[word]!
      for (let rest = bits & linked[word]!; rest !== 0; rest &= rest - 1) {
        const bit = lowestOf(word, rest)
        if (groupOf[bit] === 0) {
          if (left > 0) left -= this.#link(links, bit)
          else others.push(bit)
        }
        const group = groupOf[bit]!
        // Neighbours are mostly in the same group.
        if (group === last) continue
        last = group
        const targets = groups[group]!
        for (let one = 0; one < targets.length; one += 2) next[targets[one]!]! |= targets[one + 1]!
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
    if (others.length > 0) setBits(next, this.#around(others, holds, direction))
    return next
  }

  /** Finds the links of a bit. @returns how much work that was */
  #link(links: Links, bit: number): number {
    const { direction, holds, shift, linked, groupOf, groups, numbers } = links
    const mask = 1 << (bit & 31)
    const all = this.#around([bit], holds, direction)
    const elsewhere = all.filter((one) => one !== bit + direction)
    if (elsewhere.length < all.length) shift[bit >>> 5]! |= mask
    if (elsewhere.length === 0) linked[bit >>> 5]! &= ~mask
    else {
      const words = new Map<number, number>()
      for (const one of elsewhere) {
        words.set(one >>> 5, (words.get(one >>> 5) ?? 0) | (1 << (one & 31)))
      }
      const group = [...words].sort(([a], [b]) => a - b).flat()
      const key = group.join()
      let number = numbers.get(key)
      if (number === undefined) {
        number = groups.push(Int32Array.from(group)) - 1
        numbers.set(key, number)
        memoryBudget.reserve(this, group.length * 4 + key.length)
      }
      groupOf[bit] = number
    }
    return all.length + 1
  }

  /** The bits after some bits, or before them. */
  #around(bits: readonly number[], holds: number, direction: 1 | -1): number[] {
    return direction === 1 ? this.#nfa.after(bits, holds) : this.#nfa.before(bits, holds)
  }

  #linksWhere(holds: number, direction: 1 | -1): Links {
    const known = direction === 1 ? this.#forward : this.#backward
    let links = known.get(holds)
    if (links === undefined) {
      links = {
        direction,
        holds,
        shift: new Int32Array(this.#words),
        linked: new Int32Array(this.#words).fill(-1),
        groupOf: new Int32Array(this.#words << 5),
        groups: [new Int32Array(0)],
        numbers: new Map(),
      }
      known.set(holds, links)
      memoryBudget.reserve(this, this.#words * 4 * 34)
    }
    return links
  }

  #startsWhere(holds: number): Int32Array {
    return this.#remembered(this.#starting, holds, () => this.#nfa.starting(holds))
  }

  /** Bits behind which a target is reached under these conditions, but not under all. */
  #endsWhere(holds: number): Int32Array {
    return this.#remembered(this.#ending, holds, () =>
      [...this.#nfa.targets.keys()]
        .flatMap((target) => this.#nfa.ending(target, holds))
        .filter((bit) => this.#targetOf[bit] === -1),
    )
  }

  #readersOf(symbolClass: number): Int32Array {
    if (this.#reading.size >= MAX_CLASSES) this.#reading.clear()
    return this.#remembered(this.#reading, symbolClass, () => this.#nfa.reading(symbolClass))
  }

  #remembered(
    known: Map<number, Int32Array>,
    key: number,
    bits: () => readonly number[],
  ): Int32Array {
    let mask = known.get(key)
    if (mask === undefined) {
      mask = this.#maskOf(bits())
      known.set(key, mask)
      memoryBudget.reserve(this, mask.byteLength)
    }
    return mask
  }

  #maskOf(bits: readonly number[]): Int32Array {
    return setBits(new Int32Array(this.#words), bits)
  }
}

function setBits(words: Int32Array, bits: readonly number[]): Int32Array {
  for (const bit of bits) words[bit >>> 5]! |= 1 << (bit & 31)
  return words
}

/** The lowest bit in the rest of a word. */
function lowestOf(word: number, rest: number): number {
  return (word << 5) + 31 - Math.clz32(rest & -rest)
}
