/**
 * Steps large sets of NFA states, 32 at a time. A bit is an instruction that reads a symbol. A step from an instruction to
 * its neighbour is a shift; other steps follow links, which neighbours often share. Without this, hostile patterns with
 * thousands of live states take minutes.
 */
import { runSync, type Task } from './time-slice.ts'
import { memoryBudget, type BudgetOwner } from './memory-budget.ts'

/** What a {@link StateSet} needs of an NFA. Readers are the instructions that read a symbol. */
interface StateSetInit {
  /** The readers in the order of their bits. */
  readonly readers: readonly number[]
  /** Anything depends on conditions. */
  readonly asserts: boolean
  /** Lists the bits with which a match may begin. */
  begin(holds: number, into: number[]): void
  /** Lists the bits after a bit, and before it, where these conditions hold. */
  after(bit: number, holds: number, into: number[]): void
  before(bit: number, holds: number, into: number[]): void
  /** Whether a bit reads this class. */
  reads(bit: number, symbolClass: number): boolean
  /** The target that is reached as soon as a bit has read, or -1; and whether nothing follows the bit. */
  targetOf(bit: number): number
  isLast(bit: number): boolean
  /** The targets that are reached behind a bit where these conditions hold. */
  targetsBehind(bit: number, holds: number): readonly number[]
}

/** Links in one direction under the same conditions, found bit by bit. */
interface Links {
  readonly holds: number
  /** Bits that lead to their neighbour. */
  readonly shift: Int32Array
  /** Bits that lead elsewhere, or of which that is not known yet. */
  readonly linked: Int32Array
  /** By bit: the number of its group; 0 if it is not known yet. */
  readonly groupOf: Int32Array
  /** By group: the words it leads to, each followed by the bits. */
  readonly groups: Int32Array[]
  readonly numbers: Map<string, number>
  /** How many bits were linked in advance. */
  ready: number
}

/** Bits and targets that are linked in advance in one step. */
const READY_AT_ONCE = 512
/** Bits of a mask between two pauses. */
const PIECE = 1 << 12

/** Masks of classes that are kept. */
const MAX_CLASSES = 256
const NONE = new Int32Array(0)

/** The transitions of an NFA on packed sets. What it has learnt of links can be dropped. */
export class StateSet implements BudgetOwner {
  /** Number of 32-bit words in a set. */
  readonly words: number
  readonly #init: StateSetInit
  readonly #eager: Int32Array
  readonly #last: Int32Array
  #forward = new Map<number, Links>()
  #backward = new Map<number, Links>()
  #begin = new Map<number, Int32Array>()
  #behind = new Map<number, Int32Array>()
  #reading = new Map<number, Int32Array>()
  readonly #matched: Int32Array
  readonly #targets: number[] = []
  /** Zero between uses. */
  readonly #scratch: Int32Array

  private constructor(init: StateSetInit, eager: Int32Array, last: Int32Array) {
    this.#init = init
    this.words = eager.length
    this.#eager = eager
    this.#last = last
    this.#matched = new Int32Array(this.words)
    this.#scratch = new Int32Array(this.words)
  }

  static *of(init: StateSetInit): Task<StateSet> {
    const { length } = init.readers
    const eager = yield* maskOf(length, (bit) => init.targetOf(bit) >= 0)
    const last = yield* maskOf(length, (bit) => init.isLast(bit))
    return new StateSet(init, eager, last)
  }

  /** Finds in advance which bits read a class. */
  *learn(symbolClass: number): Task<void> {
    const readers = yield* this.#findReaders(symbolClass)
    this.#remembered(this.#reading, symbolClass, () => readers)
  }

  drop(): void {
    for (const map of [this.#forward, this.#backward, this.#begin, this.#behind, this.#reading]) {
      map.clear()
    }
    memoryBudget.release(this)
  }

  /** Links some bits in advance; linking all of them in one step would take too long. */
  ready(holds: number, direction: 1 | -1): void {
    const links = this.#linksWhere(holds, direction)
    const { length } = this.#init.readers
    for (let left = READY_AT_ONCE; left > 0 && links.ready < length; links.ready++) {
      const bit = links.ready
      const isUnknown = links.groupOf[bit] === 0 && (links.linked[bit >>> 5]! >>> (bit & 31)) & 1
      if (!isUnknown) continue
      this.#link(links, direction, bit)
      left -= this.#targets.length + 1
    }
  }

  /**
   * Reads one symbol: from the readers that have read the one before, to those that read this one.
   * @param reached receives targets
   */
  read(
    from: Int32Array,
    symbolClass: number,
    holds: number,
    to: Int32Array,
    reached: { target: number; before: boolean }[],
  ): void {
    const behind = this.#behindWhere(holds)
    if (behind !== undefined) this.#reach(from, behind, holds, reached)
    const links = this.#linksWhere(holds, 1)
    const reads = this.#readersOf(symbolClass)
    to.set(this.#beginWhere(holds))
    this.#follow(links, 1, from, to)
    const { shift } = links
    const eager = this.#eager
    let carry = 0
    let found = 0
    for (let word = 0; word < to.length; word++) {
      const moving = from[word]! & shift[word]!
      const value = (to[word]! | (moving << 1) | carry) & reads[word]!
      carry = moving >>> 31
      found |= value & eager[word]!
      to[word] = value
    }
    if (found === 0) return
    for (const bit of bitsOf(to, eager)) {
      reached.push({ target: this.#init.targetOf(bit), before: false })
    }
    for (let word = 0; word < to.length; word++) to[word]! &= ~this.#last[word]!
  }

  /**
   * Steps back over one symbol: from readers that have read it to readers that have read the one before.
   * @returns whether a match may begin with the symbol
   */
  unread(from: Int32Array, symbolClass: number, holds: number, to: Int32Array): boolean {
    const reads = this.#readersOf(symbolClass)
    const begin = this.#beginWhere(holds)
    const links = this.#linksWhere(holds, -1)
    const { shift } = links
    const matched = this.#matched
    let begins = 0
    for (let word = 0; word < to.length; word++) {
      const value = from[word]! & reads[word]!
      matched[word] = value
      begins |= value & begin[word]!
    }
    to.fill(0)
    this.#follow(links, -1, matched, to)
    let carry = 0
    for (let word = to.length - 1; word >= 0; word--) {
      const moving = matched[word]! & shift[word]!
      to[word]! |= (moving >>> 1) | carry
      carry = moving << 31
    }
    return begins !== 0
  }

  #reach(
    from: Int32Array,
    behind: Int32Array,
    holds: number,
    reached: { target: number; before: boolean }[],
  ): void {
    for (const bit of bitsOf(from, behind)) {
      for (const target of this.#init.targetsBehind(bit, holds)) {
        reached.push({ target, before: true })
      }
    }
  }

  #linksWhere(holds: number, direction: 1 | -1): Links {
    const known = direction === 1 ? this.#forward : this.#backward
    let links = known.get(holds)
    if (links === undefined) {
      links = {
        holds,
        shift: new Int32Array(this.words),
        linked: new Int32Array(this.words).fill(-1),
        groupOf: new Int32Array(this.words << 5),
        groups: [new Int32Array(0)],
        numbers: new Map([['', 0]]),
        ready: 0,
      }
      known.set(holds, links)
      memoryBudget.reserve(this, this.words * 4 * 34)
    }
    return links
  }

  /** Adds what links lead to. */
  #follow(links: Links, direction: 1 | -1, from: Int32Array, to: Int32Array): void {
    const { linked, groupOf, groups } = links
    let last = 0
    for (let word = 0; word < from.length; word++) {
      let rest = from[word]! & linked[word]!
      while (rest !== 0) {
        const bit = (word << 5) + 31 - Math.clz32(rest & -rest)
        rest &= rest - 1
        const group = groupOf[bit]! || this.#link(links, direction, bit)
        // Neighbours are mostly in the same group.
        if (group === last) continue
        last = group
        const targets = groups[group]!
        for (let at = 0; at < targets.length; at += 2) to[targets[at]!]! |= targets[at + 1]!
      }
    }
  }

  /** Finds the links of a bit. @returns its group */
  #link(
    { holds, shift, linked, groupOf, groups, numbers }: Links,
    direction: 1 | -1,
    bit: number,
  ): number {
    const all = this.#targets
    all.length = 0
    if (direction === 1) this.#init.after(bit, holds, all)
    else this.#init.before(bit, holds, all)
    const mask = 1 << (bit & 31)
    if (all.includes(bit + direction)) shift[bit >>> 5]! |= mask
    const others = this.#pack(all, bit + direction)
    if (others.length === 0) {
      linked[bit >>> 5]! &= ~mask
      return 0
    }
    const key = others.join()
    let number = numbers.get(key)
    if (number === undefined) {
      number = groups.push(others) - 1
      numbers.set(key, number)
      memoryBudget.reserve(this, others.byteLength + key.length)
    }
    groupOf[bit] = number
    return number
  }

  /** Packs bits but one into words, each followed by its bits, in order. */
  #pack(bits: readonly number[], but: number): Int32Array {
    if (bits.length === 0 || (bits.length === 1 && bits[0] === but)) return NONE
    const words = this.#scratch
    const used: number[] = []
    for (const bit of bits) {
      if (bit === but) continue
      if (words[bit >>> 5] === 0) used.push(bit >>> 5)
      words[bit >>> 5]! |= 1 << (bit & 31)
    }
    const pairs = new Int32Array(used.length * 2)
    for (const [index, word] of used.sort((a, b) => a - b).entries()) {
      pairs[index * 2] = word
      pairs[index * 2 + 1] = words[word]!
      words[word] = 0
    }
    return pairs
  }

  #beginWhere(holds: number): Int32Array {
    return this.#remembered(this.#begin, holds, () => {
      const mask = new Int32Array(this.words)
      const bits: number[] = []
      this.#init.begin(holds, bits)
      for (const bit of bits) mask[bit >>> 5]! |= 1 << (bit & 31)
      return mask
    })
  }

  /** Bits behind which a target is reached under these conditions only; undefined for none. */
  #behindWhere(holds: number): Int32Array | undefined {
    if (!this.#init.asserts) return undefined
    const behind = this.#remembered(this.#behind, holds, () => {
      const { length } = this.#init.readers
      const isBefore = (bit: number) =>
        this.#init.targetOf(bit) < 0 && this.#init.targetsBehind(bit, holds).length > 0
      const mask = runSync(maskOf(length, isBefore))
      return mask.some((word) => word !== 0) ? mask : NONE
    })
    return behind === NONE ? undefined : behind
  }

  #readersOf(symbolClass: number): Int32Array {
    if (this.#reading.size >= MAX_CLASSES) this.#reading.clear()
    return this.#remembered(this.#reading, symbolClass, () =>
      runSync(this.#findReaders(symbolClass)),
    )
  }

  #remembered(known: Map<number, Int32Array>, key: number, make: () => Int32Array): Int32Array {
    let mask = known.get(key)
    if (mask === undefined) {
      mask = make()
      known.set(key, mask)
      memoryBudget.reserve(this, mask.byteLength)
    }
    return mask
  }

  #findReaders(symbolClass: number): Task<Int32Array> {
    const init = this.#init
    return maskOf(init.readers.length, (bit) => init.reads(bit, symbolClass))
  }
}

function* maskOf(length: number, has: (bit: number) => boolean): Task<Int32Array> {
  const mask = new Int32Array((length + 31) >>> 5)
  for (let bit = 0; bit < length; bit++) {
    if (bit > 0 && bit % PIECE === 0) yield
    if (has(bit)) mask[bit >>> 5]! |= 1 << (bit & 31)
  }
  return mask
}

/** The numbers of the bits that are set, in the mask too if there is one. */
export function* bitsOf(words: Int32Array, mask?: Int32Array): Generator<number, void, undefined> {
  for (let word = 0; word < words.length; word++) {
    let rest = mask === undefined ? words[word]! : words[word]! & mask[word]!
    while (rest !== 0) {
      const bit = 31 - Math.clz32(rest & -rest)
      yield (word << 5) + bit
      rest &= rest - 1
    }
  }
}

export function countBits(words: Int32Array, from: number, to: number): number {
  let sum = 0
  for (let at = from; at < to; at++) {
    let word = words[at]!
    word -= (word >>> 1) & 0x55555555
    word = (word & 0x33333333) + ((word >>> 2) & 0x33333333)
    sum += Math.imul((word + (word >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24
  }
  return sum
}
