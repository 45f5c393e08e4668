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

/** Intervals of symbols by their beginning; the class of each; and by class, one of its symbols. */
interface Sorted {
  readonly bounds: readonly number[]
  readonly classes: readonly number[]
  readonly samples: readonly number[]
}

/** The classes into which a list of character sets divides all symbols. */
export class Alphabet {
  readonly #sets: readonly Ranges[]
  readonly #bounds: readonly number[]
  readonly #classes: readonly number[]
  /** A symbol of each class but the last, which is that of {@link SEPARATOR_SYMBOL}. */
  readonly #samples: readonly number[]
  readonly #ascii: Int32Array

  private constructor(sets: readonly Ranges[], { bounds, classes, samples }: Sorted) {
    this.#sets = sets
    this.#bounds = bounds
    this.#classes = classes
    this.#samples = samples
    this.#ascii = Int32Array.from({ length: 128 }, (_, symbol) => this.#search(symbol))
  }

  static *of(sets: readonly Ranges[]): Task<Alphabet> {
    return new Alphabet(sets, yield* sorted(sets))
  }

  classOf(symbol: number): number {
    if (symbol === SEPARATOR_SYMBOL) return this.#samples.length
    return symbol < 128 ? this.#ascii[symbol]! : this.#search(symbol)
  }

  /** Whether the set with this number contains a class. */
  contains(set: number, symbolClass: number): boolean {
    const sample = this.#samples[symbolClass]
    if (sample === undefined) return false
    const ranges = this.#sets[set]!
    const at = lastUpTo(sample, ranges)
    // Ranges are inclusive: what is at an odd place is the end of one.
    return at >= 0 && (at % 2 === 0 || ranges[at] === sample)
  }

  #search(symbol: number): number {
    return this.#classes[lastUpTo(symbol, this.#bounds)]!
  }
}

/** The place of the last of some sorted numbers that is at most this one; -1 for none. */
function lastUpTo(number: number, numbers: readonly number[]): number {
  let low = -1
  let high = numbers.length
  while (high - low > 1) {
    const middle = (low + high) >>> 1
    if (numbers[middle]! <= number) low = middle
    else high = middle
  }
  return low
}

/**
 * Sweeps over all borders. Which sets contain an interval is identified by the exclusive or of their random 64-bit numbers:
 * listing the sets for every interval would take quadratic time.
 */
function* sorted(sets: readonly Ranges[]): Task<Sorted> {
  const borders = bordersOf(sets)
  yield
  const marks = randomFillSync(new Int32Array(sets.length * 2))
  const numbers = new Map<string, number>()
  const [bounds, classes, samples]: [number[], number[], number[]] = [[], [], []]
  let high = 0
  let low = 0
  for (let index = 0, at = 0; ;) {
    for (; index < borders.length && Math.trunc(borders[index]! / SETS) === at; index++) {
      const set = borders[index]! % SETS
      high ^= marks[set * 2]!
      low ^= marks[set * 2 + 1]!
    }
    const key = `${high},${low}`
    let number = numbers.get(key)
    if (number === undefined) {
      number = samples.push(at) - 1
      numbers.set(key, number)
    }
    classes.push(number)
    if (bounds.push(at) % PIECE === 0) yield
    if (index >= borders.length) return { bounds, classes, samples }
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
