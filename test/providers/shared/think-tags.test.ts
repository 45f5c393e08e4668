import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ThinkSplitter } from '../../../providers/shared/think-tags.ts'
import { cutAt } from '../../upstream.ts'
import { runs } from '../../_runs.ts'

describe('reasoning in tags', () => {
  it('are split the same wherever the answer is cut', () => {
    const word = fc.constantFrom('<think>', '</think>', '<', '</thi', 'nk>', ' ', '\n', 'a', '😀')
    const texts = fc.array(word, { maxLength: 12 }).map((words) => words.join(''))
    const tags = fc.constantFrom('tags' as const, 'prefilled-tags' as const)
    fc.assert(
      fc.property(tags, texts, fc.array(fc.nat(60)), (kind, text, cuts) => {
        const bytes = Buffer.from(text, 'utf16le')
        const pieces = cutAt(
          bytes,
          cuts.map((cut) => cut * 2),
        ).map((piece) => Buffer.from(piece).toString('utf16le'))
        expect(split(kind, pieces)).toEqual(split(kind, [text]))
      }),
      { numRuns: runs(700) },
    )
  })

  it('lose nothing but the tags and the blanks around them', () => {
    const text = fc.string({ unit: fc.constantFrom('a', ' ', '<', '>', '/', 'think') })
    fc.assert(
      fc.property(text, text, (thought, said) => {
        fc.pre(!thought.includes('</think>'))
        expect(split('tags', [`<think>${thought}</think>${said}`])).toEqual({
          reasoning: thought,
          content: said.trimStart(),
        })
      }),
    )
  })
})

function split(tags: 'tags' | 'prefilled-tags', pieces: readonly string[]) {
  const splitter = new ThinkSplitter(tags)
  const parts = [...pieces.map((piece) => splitter.push(piece)), splitter.end()]
  const all = (name: 'reasoning' | 'content') => parts.map((part) => part[name]).join('')
  return { reasoning: all('reasoning'), content: all('content') }
}
