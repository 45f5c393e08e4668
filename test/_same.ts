import { isDeepStrictEqual } from 'node:util'
import { expect } from 'vitest'

/** Compares as `toEqual` does, which alone takes longer than what it compares where a law compares hundreds of times. */
export function expectSame(result: unknown, expected: unknown, message?: string): void {
  if (!isDeepStrictEqual(result, expected)) expect(result, message).toEqual(expected)
}
