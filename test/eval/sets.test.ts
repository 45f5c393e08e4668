import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { HALVES, readSet } from './sets.ts'

describe.each(HALVES)('texts for the evaluation of guards: %s', (half) => {
  const lines = readSet(half)

  // Failures show ids, never texts: who changes a guard does not read those of the half that is held back.
  it('repeats neither an id nor a text', () => {
    expect(repeated(lines.map(({ id }) => id))).toEqual([])
    const words = new Map<string, string>()
    const same = lines.flatMap(({ id, side, text }) => {
      const key = `${side} ${text.toLowerCase().replaceAll(/[^\p{L}\p{N}]+/gu, ' ')}`
      const first = words.get(key)
      words.set(key, id)
      return first === undefined ? [] : [`${first} and ${id}`]
    })
    expect(same).toEqual([])
  })

  it('has no file that is too large to read', () => {
    const folder = join(import.meta.dirname, half)
    const large = readdirSync(folder).filter((name) => statSync(join(folder, name)).size > 400_000)
    expect(large).toEqual([])
  })
})

it('no id and no text is in both halves', () => {
  const [open, heldBack] = HALVES.map((half) => readSet(half))
  const ids = new Set(open!.map(({ id }) => id))
  const texts = new Set(open!.map(({ text }) => text))
  const shared = heldBack!.filter(({ id, text }) => ids.has(id) || texts.has(text))
  expect(shared.map(({ id }) => id)).toEqual([])
})

function repeated(values: readonly string[]): string[] {
  return values.filter((value, i) => values.indexOf(value) !== i)
}
