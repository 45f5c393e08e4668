/**
 * Steps sets of readers of an NFA, 32 at a time. A step from a reader to its neighbour is a shift; other steps follow links,
 * which neighbours often share. Reader by reader, hostile patterns with thousands of live readers take minutes.
 */
import { memoryBudget, type BudgetOwner } from './memory-budget.ts'
import type { Nfa } from './nfa.ts'

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
