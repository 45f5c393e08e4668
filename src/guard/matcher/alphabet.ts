/** Symbols sorted into classes that no pattern tells apart, so that automata have few columns. */

import { randomFillSync } from 'node:crypto'
import { BREAK } from '../views/fold.ts'

/** Inclusive ranges of code points, `[low, high, low, high, …]`: sorted, disjoint. */
export type Ranges = readonly number[]

const LAST = 0x10ffff

/** @returns the ranges of these code points */
export function rangesOf(codePoints: Iterable<number>): Ranges {
  const ranges: number[] = []
  for (const codePoint of [...new Set(codePoints)].sort((a, b) => a - b)) {
    if (ranges.at(-1) === codePoint - 1) ranges[ranges.length - 1] = codePoint
    else ranges.push(codePoint, codePoint)
  }
  return ranges
}

/** All other code points. */
export function complement(ranges: Ranges): Ranges {
  const others: number[] = []
  let next = 0
  for (let at = 0; at < ranges.length; at += 2) {
    if (ranges[at]! > next) others.push(next, ranges[at]! - 1)
    next = ranges[at + 1]! + 1
  }
  if (next <= LAST) others.push(next, LAST)
  return others
}

/** The classes that a list of character sets makes of all symbols. */
export class Alphabet {
  /** Classes are numbered from 0; the last one is {@link BREAK}'s. */
  readonly size: number
  readonly #bounds: number[] = []
  readonly #classes: number[] = []
  readonly #ascii: Int32Array
  /** The one class of a set, or -1 for a set of several. */
  readonly #only: Int32Array
  /** A row of bits for every set, one for each class. */
  readonly #members: Uint32Array
  readonly #words: number

  constructor(sets: readonly Ranges[]) {
    const within = this.#sort(sets)
    this.size = within.length + 1
    this.#words = (this.size + 31) >>> 5
    this.#members = new Uint32Array(this.#words * sets.length)
    this.#only = new Int32Array(sets.length).fill(-2)
    for (const [symbolClass, containing] of within.entries()) {
      for (const set of containing) {
        this.#members[set * this.#words + (symbolClass >>> 5)]! |= 1 << (symbolClass & 31)
        this.#only[set] = this.#only[set] === -2 ? symbolClass : -1
      }
    }
    this.#ascii = Int32Array.from({ length: 128 }, (_, symbol) => this.#search(symbol))
  }

  classOf(symbol: number): number {
    if (symbol === BREAK) return this.size - 1
    return symbol < 128 ? this.#ascii[symbol]! : this.#search(symbol)
  }

  /** Is a class inside the set with this number? */
  contains(set: number, symbolClass: number): boolean {
    const only = this.#only[set]!
    if (only !== -1) return only === symbolClass
    const word = this.#members[set * this.#words + (symbolClass >>> 5)]!
    return ((word >>> (symbolClass & 31)) & 1) === 1
  }

  // Sweeps over all borders. The sets around a stretch are told apart by the exclusive or of random numbers, one for
  // each set, of 64 bits: listing them for every stretch takes quadratic time.
  #sort(sets: readonly Ranges[]): number[][] {
    const borders = sets.flatMap((ranges, set) =>
      ranges.map((bound, index) => ({ at: bound + (index & 1), set })),
    )
    borders.sort((a, b) => a.at - b.at)
    const marks = randomFillSync(new Int32Array(sets.length * 2))
    const numbers = new Map<string, number>()
    const within: number[][] = []
    const open = new Set<number>()
    let high = 0
    let low = 0
    for (let index = 0, at = 0; ;) {
      for (; borders[index]?.at === at; index++) {
        const { set } = borders[index]!
        if (!open.delete(set)) open.add(set)
        high ^= marks[set * 2]!
        low ^= marks[set * 2 + 1]!
      }
      const key = `${high},${low}`
      let number = numbers.get(key)
      if (number === undefined) {
        number = within.push([...open]) - 1
        numbers.set(key, number)
      }
      this.#bounds.push(at)
      this.#classes.push(number)
      if (index >= borders.length) return within
      at = borders[index]!.at
    }
  }

  #search(symbol: number): number {
    let low = 0
    let high = this.#bounds.length
    while (high - low > 1) {
      const middle = (low + high) >>> 1
      if (this.#bounds[middle]! <= symbol) low = middle
      else high = middle
    }
    return this.#classes[low]!
  }
}
