/** The language of the documents: turns that read as translated, and the length of sentences, paragraphs, items and task pages. */
import { describe, expect, it } from 'vitest'
import { pages } from './_markdown.ts'

const TURNS =
  /\b(?:is|are) told\b|\btells? nothing\b|\bbelongs? into\b|\bwhat is to be\b|\bis the business of\b|\band that is all\b/gi
const LONGEST = { sentence: 35, item: 60, paragraph: 90 }
const MOST_ON_AVERAGE = 20

const documents = pages.filter(({ path }) => !path.startsWith('test/'))

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
    .filter((part) => !part.trimStart().startsWith('#'))

const sentencesOf = (parts: readonly string[]) =>
  parts.flatMap((part) => part.split(/(?<=[.!?])\s+/)).filter((one) => wordsIn(one) > 0)

const isCell = (part: string) => part.endsWith('|')
const isItem = (part: string) => /^\s*(?:[-*]|\d+\.) /.test(part) || isCell(part)

describe('documents', () => {
  it('have no turn that reads as translated', () => {
    const found = documents.flatMap(({ path, text }) =>
      [...text.matchAll(TURNS)].map(([turn]) => `${path}: ${turn}`),
    )
    expect(found).toEqual([])
  })

  it('have short sentences, items and paragraphs', () => {
    const found = documents.flatMap(({ path, text }) => {
      const parts = partsOf(text)
      const long = [
        ...sentencesOf(parts).filter((one) => wordsIn(one) > LONGEST.sentence),
        ...parts.filter(
          (part) => wordsIn(part) > (isItem(part) ? LONGEST.item : LONGEST.paragraph),
        ),
      ]
      return long.map((one) => `${path}: ${wordsIn(one)} words: ${one}`)
    })
    expect(found).toEqual([])
  })

  it('have sentences that are short on average', () => {
    const found = documents.flatMap(({ path, text }) => {
      const sentences = sentencesOf(partsOf(text).filter((part) => !isCell(part)))
      const words = sentences.reduce((sum, one) => sum + wordsIn(one), 0)
      return words > sentences.length * MOST_ON_AVERAGE ? [path] : []
    })
    expect(found).toEqual([])
  })

  it('of a task have at most 700 words', () => {
    const long = documents
      .filter(({ path }) => path.startsWith('docs/tasks/'))
      .filter(({ text }) => wordsIn(partsOf(text).join(' ')) > 700)
    expect(long.map(({ path }) => path)).toEqual([])
  })
})
