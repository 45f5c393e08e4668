import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { CATEGORIES } from '../../src/plugin.ts'
import { EVERYDAY, HALVES, LANGUAGES, readSet, type Line } from './sets.ts'

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

describe('the half that is held back', () => {
  const lines = readSet('held-back')
  const count = (isMeant: (line: Line) => boolean) => lines.filter(isMeant).length

  it('has enough texts for its figures', () => {
    const groups = (...names: readonly Line['group'][]) =>
      count(({ group }) => names.includes(group))
    expect(groups(...EVERYDAY)).toBeGreaterThanOrEqual(1500)
    expect(groups('technical', 'general')).toBeGreaterThanOrEqual(750)
    expect(groups('violating')).toBeGreaterThanOrEqual(750)
    expect(groups('declined')).toBeGreaterThanOrEqual(60)
    expect(groups('public-contact')).toBeGreaterThanOrEqual(60)
    expect(count(({ spans }) => spans !== undefined)).toBeGreaterThanOrEqual(250)
    for (const group of EVERYDAY) {
      if (group !== 'other') expect(groups(group), group).toBeGreaterThanOrEqual(200)
    }
  })

  it.each(LANGUAGES)('has enough texts in every language: %s', (lang) => {
    const own = (isMeant: (line: Line) => boolean) =>
      count((line) => line.lang === lang && isMeant(line))
    expect(own(({ group }) => (EVERYDAY as readonly string[]).includes(group))).toBeGreaterThan(80)
    expect(own(({ group }) => group === 'technical' || group === 'general')).toBeGreaterThan(15)
    for (const category of CATEGORIES) {
      const sides = (side: Line['side']) =>
        own((line) => line.side === side && line.violates.includes(category))
      expect(sides('input'), category).toBeGreaterThanOrEqual(5)
      expect(sides('output'), category).toBeGreaterThanOrEqual(2)
    }
  })
})

function repeated(values: readonly string[]): string[] {
  return values.filter((value, i) => values.indexOf(value) !== i)
}
