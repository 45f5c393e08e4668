/** No form of an answer is a way around: streamed, buffered and whole, a text gets the same verdict. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { recordedCases } from '../fixtures.ts'
import { guarded, readStream, streamOf, wholeOf, type Guarded } from '../guard/_setup.ts'

const NO = "I can't help with that here."

interface Case {
  readonly id: string
  readonly patterns: readonly string[]
  readonly text: string
  readonly chunkings?: readonly ('whole' | 'each' | readonly number[])[]
  readonly expect: { readonly verdict: 'block' | 'pass' | 'invalid'; readonly max_emit?: number }
}

/** Ours; there are more where the fixtures are. */
const OWN: readonly Case[] = [
  {
    id: 'split word',
    patterns: ['blue heron'],
    text: 'A Blue  H\u200bÉron.',
    chunkings: ['each', [4, 9]],
    expect: { verdict: 'block', max_emit: 2 },
  },
  {
    id: 'shorter in longer',
    patterns: ['abcdef', 'cd'],
    text: 'xx abcdef',
    chunkings: ['whole', 'each'],
    expect: { verdict: 'block', max_emit: 3 },
  },
  {
    id: 'halves of characters',
    patterns: ['😀+1'],
    text: 'Fine 😀😀 and 😀2',
    chunkings: ['each', [6, 8]],
    expect: { verdict: 'pass' },
  },
  {
    id: 'look-ahead',
    patterns: ['fine', 'a(?!b)'],
    text: '',
    expect: { verdict: 'invalid' },
  },
  {
    id: 'encoded',
    patterns: ['forbidden'],
    text: 'See Zm9yYmlkZGVu there',
    chunkings: ['each'],
    expect: { verdict: 'block', max_emit: 4 },
  },
]

const known = [...OWN, ...recorded()]
const invalid = known.filter((one) => one.expect.verdict === 'invalid')
const cases = known.filter((one) => !invalid.includes(one))

function recorded(): readonly Case[] {
  const recorded = recordedCases('guard/patterns.jsonl')
  if (recorded) return recorded
  return []
}

let g: Guarded
beforeAll(async () => {
  g = await guarded([])
})
afterAll(() => g[Symbol.asyncDispose]())

/** The chunks of a text that is cut between code units, halves of characters included. */
function pieces(text: string, chunking: 'whole' | 'each' | readonly number[]): object[] {
  const every = { whole: [], each: Array.from(text, (_, i) => i) }
  const cuts = typeof chunking === 'string' ? every[chunking] : chunking
  const places = [0, ...cuts.filter((at) => at > 0 && at < text.length), text.length]
  return places.slice(1).map((to, i) => ({ content: text.slice(places[i], to) }))
}

describe('a text', () => {
  it.each(cases.map((one) => [one.id, one] as const))(
    'gets the same verdict in every form: %s',
    async (_, { patterns, text, chunkings = ['each'], expect: { verdict, max_emit = 0 } }) => {
      const isBlocked = verdict === 'block'
      const outcome = isBlocked ? 'blocked' : 'passed'
      g.vendor.answer(wholeOf({ content: text }))
      const { json } = await g.ask({ bannedPatterns: [...patterns] })
      expect(json.choices[0].message.content).toBe(isBlocked ? NO : text)
      expect(json.choices[0].finish_reason).toBe(isBlocked ? 'content_filter' : 'stop')
      expect(json.guard.outcome).toBe(outcome)
      for (const chunking of chunkings) {
        g.vendor.answer(streamOf(...pieces(text, chunking)))
        for (const stream of ['scan', 'buffer'] as const) {
          const policy = { bannedPatterns: [...patterns], guard: { stream } }
          const seen = readStream(await g.ask(policy, { stream: true }))
          expect(seen.guard).toEqual(json.guard)
          if (!isBlocked) {
            expect(seen).toMatchObject({ content: text, finish: 'stop' })
            continue
          }
          expect(seen.finish).toBe('content_filter')
          expect(seen.content.endsWith(NO)).toBe(true)
          const sent = seen.content.slice(0, -NO.length).replace(/\n\n$/, '')
          expect(text.startsWith(sent)).toBe(true)
          expect(sent.length).toBeLessThanOrEqual(stream === 'scan' ? max_emit : 0)
        }
      }
    },
  )
})

describe('a list with a pattern that is none', () => {
  it.each(invalid)('is refused, and looks at nothing: $id', async ({ patterns }) => {
    const policy = { version: 1, bannedPatterns: patterns }
    const count = g.vendor.requests.length
    for (const stream of [false, true]) {
      const { status, json } = await g.ask(undefined, { policy, stream })
      expect([status, json.error.code]).toEqual([400, 'invalid_policy'])
      expect(json.error.param).toBe(`policy.bannedPatterns[${patterns.length - 1}]`)
    }
    expect(g.vendor.requests).toHaveLength(count)
  })
})
