import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { nearest } from '../../src/errors/nearest.ts'

describe('nearest', () => {
  it('finds the candidate with the fewest edits, as a plain matrix counts them', () => {
    const word = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), maxLength: 12 })
    fc.assert(
      fc.property(word, fc.array(word, { maxLength: 6 }), (typed, candidates) => {
        const most = Math.min(3, Math.floor(typed.length / 3))
        const edits = candidates.map((candidate) => countEdits(typed, candidate))
        const least = Math.min(...edits)
        const expected = least <= most ? candidates[edits.indexOf(least)] : undefined
        expect(nearest(typed, candidates)).toBe(expected)
      }),
    )
  })

  it('counts swapped neighbours once and ignores case', () => {
    expect(nearest('prot', ['host', 'port'])).toBe('port')
    expect(nearest('PORT', ['port'])).toBe('port')
    expect(nearest('xy', ['xz'])).toBeUndefined()
  })
})

/** Optimal string alignment by its definition. */
function countEdits(a: string, b: string): number {
  const table: number[][] = []
  for (let i = 0; i <= a.length; i++) {
    table[i] = []
    for (let j = 0; j <= b.length; j++) {
      if (i === 0 || j === 0) {
        table[i]![j] = i + j
        continue
      }
      const choices = [
        table[i - 1]![j]! + 1,
        table[i]![j - 1]! + 1,
        table[i - 1]![j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1),
      ]
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        choices.push(table[i - 2]![j - 2]! + 1)
      }
      table[i]![j] = Math.min(...choices)
    }
  }
  return table[a.length]![b.length]!
}
