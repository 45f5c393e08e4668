/** Sorts symbols into classes that no pattern tells apart, so that automata have few columns. */
import { randomFillSync } from 'node:crypto'
import type { Task } from './time-slice.ts'
import { SEPARATOR_SYMBOL } from './views/fold.ts'

/** Inclusive ranges of code points, `[low, high, low, high, …]`: sorted, disjoint. */
export type Ranges = readonly number[]

const LAST = 0x10ffff
/** More sets than there can be: a border and the number of its set make one number. */
const SETS = 2 ** 24
/** Intervals of symbols between two pauses. */
const PIECE = 256

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

/** Intervals of symbols by their beginning; the class of each; and by class, the sets that contain it. */
interface Sorted {
  readonly bounds: readonly number[]
  readonly classes: readonly number[]
  readonly within: readonly (readonly number[])[]
}

/** The classes into which a list of character sets divides all symbols. */
export class Alphabet {
  /** Number of classes; the last one is that of {@link SEPARATOR_SYMBOL}. */
  readonly size: number
  readonly #bounds: readonly number[]
  readonly #classes: readonly number[]
  readonly #ascii: Int32Array
  /** By set: a bit for each class. */
  readonly #members: Uint32Array
  readonly #words: number

  private constructor(sets: readonly Ranges[], { bounds, classes, within }: Sorted) {
    this.#bounds = bounds
    this.#classes = classes
    this.size = within.length + 1
    this.#words = (this.size + 31) >>> 5
    this.#members = new Uint32Array(this.#words * sets.length)
    for (const [symbolClass, containing] of within.entries()) {
      for (const set of containing) {
        this.#members[set * this.#words + (symbolClass >>> 5)]! |= 1 << (symbolClass & 31)
      }
    }
    this.#ascii = Int32Array.from({ length: 128 }, (_, symbol) => this.#search(symbol))
  }

  static *of(sets: readonly Ranges[]): Task<Alphabet> {
    return new Alphabet(sets, yield* sorted(sets))
  }

  classOf(symbol: number): number {
    if (symbol === SEPARATOR_SYMBOL) return this.size - 1
    return symbol < 128 ? this.#ascii[symbol]! : this.#search(symbol)
  }

  /** Whether the set with this number contains a class. */
  contains(set: number, symbolClass: number): boolean {
    const word = this.#members[set * this.#words + (symbolClass >>> 5)]!
    return ((word >>> (symbolClass & 31)) & 1) === 1
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

/**
 * Sweeps over all borders. What sets contain an interval is told by the exclusive or of their random 64-bit numbers:
 * listing the sets for every interval would take quadratic time.
 */
function* sorted(sets: readonly Ranges[]): Task<Sorted> {
  const borders = bordersOf(sets)
  yield
  const marks = randomFillSync(new Int32Array(sets.length * 2))
  const numbers = new Map<string, number>()
  const [bounds, classes, within]: [number[], number[], number[][]] = [[], [], []]
  const open = new Set<number>()
  let high = 0
  let low = 0
  for (let index = 0, at = 0; ;) {
    for (; index < borders.length && Math.trunc(borders[index]! / SETS) === at; index++) {
      const set = borders[index]! % SETS
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
    classes.push(number)
    if (bounds.push(at) % PIECE === 0) yield
    if (index >= borders.length) return { bounds, classes, within }
    at = Math.trunc(borders[index]! / SETS)
  }
}

/** Where sets begin and end, each with the number of the set, in order. */
function bordersOf(sets: readonly Ranges[]): Float64Array {
  const borders = new Float64Array(sets.reduce((sum, { length }) => sum + length, 0))
  let count = 0
  for (const [set, ranges] of sets.entries()) {
    for (const [index, bound] of ranges.entries()) {
      borders[count++] = (bound + (index & 1)) * SETS + set
    }
  }
  return borders.sort()
}
