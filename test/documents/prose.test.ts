/** The language of the documents: turns that read as translated, and on task pages the length of sentences, paragraphs and pages. */
import { describe, expect, it } from 'vitest'
import { pages } from './_markdown.ts'

const TURNS =
  /\b(?:is|are) told\b|\btells? nothing\b|\bbelongs? into\b|\bwhat is to be\b|\bis the business of\b|\band that is all\b/gi
const documents = pages.filter(({ path }) => /^(?:docs\/|README|CHANGELOG|p\w+\/README)/.test(path))
const tasks = pages.filter(({ path }) => path.startsWith('docs/tasks/'))

const wordsIn = (text: string) =>
  text
    .replaceAll(/`[^`]*`/g, '')
    .replaceAll(/\]\([^)]*\)/g, ']')
    .split(/\s+/)
    .filter((word) => /\p{L}|\d/u.test(word)).length

/** Paragraphs, items of lists and cells of tables, without code. */
const partsOf = (text: string) =>
  text
    .replace(/^---\n[^]*?\n---\n/, '')
    .replaceAll(/^ *```[^]*?^ *```$/gm, '')
    .split(/\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )|\n(?=\|)|(?<=\|)/)

describe('documents', () => {
  it('have no turn that reads as translated', () => {
    const found = documents.flatMap(({ path, text }) =>
      [...text.matchAll(TURNS)].map(([turn]) => `${path}: ${turn}`),
    )
    expect(found).toEqual([])
  })
})

describe('task pages', () => {
  it.each(tasks.map(({ path, text }) => [path, text] as const))('%s is short', (_, text) => {
    const parts = partsOf(text)
    const sentences = parts.flatMap((part) => part.split(/(?<=[.!?])\s+/))
    expect(wordsIn(parts.join(' '))).toBeLessThanOrEqual(700)
    expect(parts.filter((part) => wordsIn(part) > 90)).toEqual([])
    expect(sentences.filter((one) => wordsIn(one) > 35)).toEqual([])
  })
})
