/** Patterns, the screen and chat together: nothing leaks, nothing is lost, and the text alone decides. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { guardAdapter } from '../../src/endpoints/chat/guard.ts'
import { patternScanner } from '../../src/guard/text-check.ts'
import { compilePatterns } from '../../src/patterns/patterns.ts'
import type { ChatChunk, ChatDelta } from '../../src/plugin.ts'
import { recordedCases } from '../fixtures.ts'
import { screenOf, through } from './_screen.ts'
import { SEED } from '../_seed.ts'

const NO = '[no]'
/** The torture run sets more runs; the seed in the title of a failed run repeats it. */
const RUNS = Number(process.env.LEAK_RUNS ?? 300)
const input = { model: 'm', messages: [], stream: true } as never

/**
 * What a client gets of a text that comes in these pieces.
 * @param apart which of the parts come apart from those after them; what comes together is looked at together
 */
async function screened(
  patterns: readonly string[],
  pieces: readonly string[],
  buffer = false,
  apart: readonly boolean[] = [true],
) {
  const rules: string[] = []
  const screen = screenOf<ChatChunk>(
    {
      codec: guardAdapter.outputCodec(input),
      scanners: [patternScanner(compilePatterns(patterns), 0, 'key')],
      buffer,
      limits: { maxHeld: 65_536, maxBuffer: 4_194_304, maxToolCall: 262_144 },
      refuse: (denial) => guardAdapter.refusalParts!({ text: NO, ...denial }, input, 'm'),
    },
    {
      found: ({ block }) => void rules.push(block.rule),
      failed: (guard, { kind }) => void rules.push(`${guard} ${kind}`),
    },
  )
  const common = { id: 'x', object: 'chat.completion.chunk', created: 1, model: 'm' }
  const chunk = (delta: object, finish_reason: string | null = null): ChatChunk => {
    const choices = [{ index: 0, delta: delta as ChatDelta, logprobs: null, finish_reason }]
    return { ...common, choices }
  }
  const chunks = [
    chunk({ role: 'assistant', content: '', refusal: null }),
    ...pieces.filter(Boolean).map((content) => chunk({ content })),
    chunk({}, 'stop'),
  ]
  const { out, over } = through(screen, chunks, { apart })
  await over
  const choices = out.map((one) => one.choices[0]!)
  const said = choices.map(({ delta }) => delta?.content ?? '').join('')
  const blocked = rules.length > 0
  const sent = blocked ? said.replace(/(?:\n\n)?\[no\]$/, '') : said
  return { sent, rules, finish: choices.at(-1)?.finish_reason }
}

/** The pieces of a text that is cut between code units, halves of characters included. */
function cutAt(text: string, cuts: readonly number[]): string[] {
  const places = [0, ...[...new Set(cuts)].sort((a, b) => a - b), text.length]
  return places.slice(1).map((to, i) => text.slice(places[i], to))
}

/** The vendor's text as `normalizeChunks` emits it: never half a character. */
function joinHalves(pieces: readonly string[]): string[] {
  const whole: string[] = []
  let rest = ''
  for (const piece of pieces) {
    const text = rest + piece
    const cut = /[\ud800-\udbff]$/.test(text)
    rest = cut ? text.slice(-1) : ''
    whole.push(cut ? text.slice(0, -1) : text)
  }
  return [...whole, rest]
}

const SETS: readonly (readonly string[])[] = [
  ['blue heron', 'secret'],
  ['abcdef', 'cd', 'efg'],
  ['heron-\\d+', '\\bcode\\b'],
  ['^begin', 'end$'],
  ['pass.{0,10}word'],
]
const BITS = [
  'a', 'b', 'cd', 'ef', 'g', 'abc', 'blue', ' ', 'heron', '-', '1', '42', 'sec', 'ret', 'code',
  'begin', 'end', 'pass', 'word', '.', '\n', '😀', 'é', 'bl\u200bue', 'b l u e h e r o n', 'c2VjcmV0',
] // prettier-ignore

describe('a screen with patterns', () => {
  it(`leaks nothing, loses nothing, and decides by the text alone (seed ${SEED})`, async () => {
    const text = fc.array(fc.constantFrom(...BITS), { minLength: 1, maxLength: 16 })
    const cuts = fc.array(fc.nat(60), { maxLength: 14 })
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...SETS),
        text,
        cuts,
        fc.boolean(),
        fc.array(fc.boolean(), { minLength: 1, maxLength: 6 }),
        async (patterns, bits, at, buffer, apart) => {
          const given = bits.join('')
          const whole = await screened(patterns, [given])
          const match = compilePatterns(patterns).find(given)
          const inside = at.filter((place) => place < given.length)
          const pieces = await screened(patterns, joinHalves(cutAt(given, inside)), buffer, apart)
          expect(pieces.rules).toEqual(whole.rules)
          expect(pieces.finish).toBe(match ? 'content_filter' : 'stop')
          expect(pieces.sent).toBe(match && buffer ? '' : whole.sent)
          if (match) expect(pieces.sent.length).toBeLessThanOrEqual(match.start)
          else expect(pieces.sent).toBe(given)
          expect(given.startsWith(pieces.sent)).toBe(true)
        },
      ),
      { numRuns: RUNS, seed: SEED },
    )
  })

  it('keeps to what was written down for each text', async (context) => {
    const cases = recordedCases('guard/patterns.jsonl')
    if (!cases) {
      process.stderr.write('SKIPPED patterns through the screen: no fixtures; set FIXTURES_DIR\n')
      return context.skip('no fixtures')
    }
    for (const { id, patterns, text, chunkings = [], expect: expected } of cases) {
      for (const chunking of chunkings) {
        const every = { whole: [], each: Array.from(text as string, (_, i) => i) }
        const cuts = every[chunking as 'whole' | 'each'] ?? chunking
        const { sent, rules } = await screened(patterns, joinHalves(cutAt(text, cuts)))
        expect([id, rules.length > 0 ? 'block' : 'pass']).toEqual([id, expected.verdict])
        if (expected.verdict === 'pass') expect(sent).toBe(text)
        else expect([id, sent.length <= expected.max_emit]).toEqual([id, true])
      }
    }
  })
})
