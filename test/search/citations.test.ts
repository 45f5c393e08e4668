import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { CitationStep } from '../../src/endpoints/chat/citations.ts'
import { toCompletion } from '../endpoints/chat/_completion.ts'
import type { ChatChunk, ChatDelta } from '../../src/plugin.ts'

const A = { url: 'https://a.example/page', title: 'A', content: 'About a.' }
const B = { url: 'https://b.example/wiki/B_(letter)', title: 'B', content: 'About b.' }
const RESULTS = [A, B]

/** The result of `content[start:end]` in Python. */
const points = (text: string, start: number, end: number) => [...text].slice(start, end).join('')

/** The cited parts of a text, with the titles of their sources. */
function cited(content: string, results = RESULTS): string[] {
  return annotationsOf(content, results).map(
    ({ url_citation: { title, start_index, end_index } }) => {
      return end_index === 0
        ? `${title} nowhere`
        : `${title} ${points(content, start_index, end_index)}`
    },
  )
}

describe('citations', () => {
  it.each([
    ['Yes [1]. No [2].', ['A [1]', 'B [2]']],
    ['Yes [1][2], [1, 2] and [^2].', ['A [1]', 'B [2]', 'A [1, 2]', 'B [1, 2]', 'B [^2]']],
    ['See [a.example](https://a.example/page).', ['A [a.example](https://a.example/page)']],
    [
      'See [the [old] page](https://a.example/page "Title").',
      ['A [the [old] page](https://a.example/page "Title")'],
    ],
    ['See [1](https://a.example/page).', ['A [1](https://a.example/page)']],
    ['See [B](https://b.example/wiki/B_(letter)).', ['B [B](https://b.example/wiki/B_(letter))']],
    ['See https://a.example/page.', ['A https://a.example/page']],
    ['(https://b.example/wiki/B_(letter))', ['B https://b.example/wiki/B_(letter)']],
    ['<https://a.example/page>', ['A https://a.example/page']],
    ['**https://a.example/page**', ['A https://a.example/page']],
    [
      'http://www.a.example/page/?utm_source=x#part',
      ['A http://www.a.example/page/?utm_source=x#part'],
    ],
    ['[x](https://other.example/) and [1]', ['A [1]']],
    ['`list[1]` and\n```js\nlist[2]\n```\nsay [2]', ['B [2]']],
    ['```\n[1]', ['A nowhere', 'B nowhere']],
    ['Neither [3] nor [0] nor [1a].', ['A nowhere', 'B nowhere']],
    ['https://a.example/page2 is another one', ['A nowhere', 'B nowhere']],
    ['', ['A nowhere', 'B nowhere']],
  ])('in %j', (content, expected) => {
    expect(cited(content)).toEqual(expected)
  })

  it('count code points: emoji, flags, combining marks, scripts beyond the first plane', () => {
    for (const before of ['👩‍🚀🇨🇭 ', 'Zoë\u0301 ', '𝔊𝔬𝔱𝔥 ', '日本 ', '\ud83d ']) {
      const content = `${before}opened [1] 😀 and [b](${B.url}).`
      expect(cited(content)).toEqual(['A [1]', `B [b](${B.url})`])
    }
  })

  it('have all data of a source, and its excerpt once', () => {
    expect(annotationsOf('a [1] b [1]', RESULTS)).toEqual([
      {
        type: 'url_citation',
        url_citation: { url: A.url, title: 'A', start_index: 2, end_index: 5, content: 'About a.' },
      },
      {
        type: 'url_citation',
        url_citation: { url: A.url, title: 'A', start_index: 8, end_index: 11 },
      },
    ])
  })

  it('are absent without sources, and bounded', () => {
    expect(annotationsOf('a [1]', [])).toEqual([])
    expect(annotationsOf('[1]'.repeat(5000), RESULTS)).toHaveLength(100)
  })

  // A quadratic search would exceed the time-out of the test.
  it.each(['[', '[[', '`', '```', '[1,', '[a](http', '[a](https://x(b)', 'https://x(', 'https://'])(
    'are looked for in linear time in a million characters of %j',
    (piece) => {
      const text = piece.repeat(1_000_000 / piece.length)
      expect(cited(`${text}\n\n[1]`).length).toBeGreaterThan(0)
    },
  )

  it('are found in addresses without an end', () => {
    const address = `https://a.example${'/'.repeat(900_000)}x`
    expect(cited(`${address}, [a](${address}) [1]`)).toEqual(['A [1]'])
  })

  it('are the same for a whole answer and for any stream of it', () => {
    const piece = fc.constantFrom(
      '[1]',
      '[2]',
      ' text ',
      '😀',
      A.url,
      `[b](${B.url})`,
      '`',
      '\n',
      '[',
    )
    fc.assert(
      fc.property(
        fc.array(piece, { maxLength: 12 }),
        fc.array(fc.nat(60), { maxLength: 8 }),
        fc.boolean(),
        (pieces, cuts, vendorCites) => {
          const content = pieces.join('')
          const extra = vendorCites ? [{ type: 'url_citation', url_citation: { url: 'x' } }] : []
          const whole = ran([
            chunk(
              { role: 'assistant', content, ...(vendorCites && { annotations: extra }) },
              'stop',
            ),
          ])
          const stream = ran([
            chunk({ role: 'assistant', content: '' }),
            ...cutAt(content, cuts).map((text) => chunk({ content: text })),
            ...(vendorCites ? [chunk({ content: '', annotations: extra })] : []),
            chunk({}, 'stop'),
          ])
          const expected = [...annotationsOf(content, RESULTS), ...extra]
          expect(toCompletion(whole).choices[0]!.message.annotations).toEqual(expected)
          expect(toCompletion(stream).choices[0]!.message.annotations).toEqual(expected)
          expect(stream.filter((one) => one.choices[0]!.delta!.annotations)).toHaveLength(1)
          expect(stream.at(-2)!.choices[0]!.delta).toEqual({ content: '', annotations: expected })
          for (const { url_citation: place } of annotationsOf(content, RESULTS)) {
            const text = points(content, place.start_index, place.end_index)
            expect(place.end_index === 0 || /^\[.*[\])]$|^https:/.test(text)).toBe(true)
          }
        },
      ),
    )
  })

  it('are sent for each choice, before its finish reason', () => {
    const out = ran([
      chunk({ content: 'a [1]' }, null, 0),
      chunk({ content: 'b [2]' }, null, 1),
      chunk({}, 'stop', 0),
      chunk({}, 'length', 1),
    ])
    const titles = out.map(({ choices: [one] }) => [
      one!.index,
      (one!.delta!.annotations as any)?.[0].url_citation.title ?? one!.finish_reason,
    ])
    expect(titles).toEqual([
      [0, null],
      [1, null],
      [0, 'A'],
      [0, 'stop'],
      [1, 'B'],
      [1, 'length'],
    ])
  })
})

function chunk(delta: ChatDelta, finish_reason: string | null = null, index = 0): ChatChunk {
  return { id: 'c', choices: [{ index, delta, logprobs: null, finish_reason }] }
}

/** The annotations of an answer with this text. */
function annotationsOf(content: string, results: typeof RESULTS): any[] {
  const said = ran([chunk({ content }), chunk({}, 'stop')], results)
  return said.at(-2)!.choices[0]!.delta!.annotations as any[]
}

function ran(chunks: readonly ChatChunk[], results = RESULTS): ChatChunk[] {
  const cite = new CitationStep(results)
  const out: ChatChunk[] = []
  for (const one of chunks) cite.push(one, (part) => void out.push(part))
  return out
}

function cutAt(text: string, cuts: readonly number[]): string[] {
  const ends = [...new Set(cuts)]
    .filter((cut) => cut > 0 && cut < text.length)
    .toSorted((a, b) => a - b)
  return [...ends, text.length].map((end, i) => text.slice(ends[i - 1] ?? 0, end)).filter(Boolean)
}
