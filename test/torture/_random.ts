/** Random numbers that a seed repeats. */
import { randomFrom } from '../../src/testing/splits.ts'

/** A whole number from 0 to `below` - 1. */
export type Random = (below: number) => number

/** The random generator of one case: the same for the same seed and number. */
export function randomOf(seed: number, index: number): Random {
  return randomFrom(Math.imul(seed, 0x9e3779b1) ^ Math.imul(index + 1, 0x85ebca77))
}

/** One of a list. */
export function pick<T>(random: Random, from: readonly T[]): T {
  return from[random(from.length)]!
}
