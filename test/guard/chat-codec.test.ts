/** Chat chunks through a screen: nothing goes out in a member that no guard reads, and nothing changes its place. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { guardAdapter } from '../../src/endpoints/chat/guard.ts'
import { ChatAnswer } from '../../src/endpoints/chat/answer.ts'
import { collect } from '../../src/endpoints/chat/chunks.ts'
import { patternScanner } from '../../src/guard/text-check.ts'
import { compilePatterns } from '../../src/patterns/patterns.ts'
import type { ChatChunk, ChatDelta } from '../../src/plugin.ts'
import { screenOf, through, type Settings } from './_screen.ts'
import { runs } from '../_runs.ts'

const said = (delta: ChatDelta, index = 0, finish_reason: string | null = null): ChatChunk => ({
  choices: [{ index, delta, finish_reason, logprobs: null }],
})

/** A screen where `heron` is banned. */
function heronScreen(
  change: Partial<Settings<ChatChunk>>,
  removed: (field: string) => void = () => {},
) {
  return screenOf<ChatChunk>(
    {
      codec: guardAdapter.outputCodec({ model: 'm', messages: [] }),
      scanners: [patternScanner(compilePatterns(['heron']), 0, 'key')],
      refuse: ({ choice }) => [said({ content: 'NO' }, choice, 'content_filter')],
      ...change,
    },
    { removed },
  )
}

/** What is left of an answer, and what was left out of it. */
async function screened(chunks: readonly ChatChunk[], buffer = false) {
  const removed: string[] = []
  const screen = heronScreen({ buffer }, (field) => void removed.push(field))
  const { out, over } = through(screen, [...chunks, said({}, 0, 'stop')])
  await over
  const deltas = out.map(({ choices: [choice] }) => choice!.delta!)
  return { deltas, removed, details: deltas.flatMap((one) => one.reasoning_details ?? []) as any[] }
}

const text = (said: string, index = 0) => ({ type: 'reasoning.text', text: said, index }) as const
const opaque = (index: number) =>
  ({ type: 'reasoning.encrypted', data: 'e', id: 'r', format: 'f', index }) as const
const thought = (detail: object) => said({ content: '', reasoning_details: [detail as any] })

describe('an entry of reasoning', () => {
  it.each<[string, object]>([
    ['a text and a summary', { ...text('Fine.'), summary: 'A heron.' }],
    ['a summary beside an empty text', { ...text(''), summary: 'A heron.' }],
    [
      'a summary beside no text',
      { type: 'reasoning.summary', text: null, summary: 'Fine. A heron.', index: 0 },
    ],
    ['an unknown member', { ...text('Fine.'), notes: 'A heron.' }],
    ['the same, and nothing else', { type: 'reasoning.text', notes: 'A heron.', index: 0 }],
    ['what should be opaque and stands beside a text', { ...text('Fine.'), data: 'A heron.' }],
    ['a text that is a list', { type: 'reasoning.text', text: ['A heron.'], index: 0 }],
    ['a type of its own', { ...text('Fine.'), type: 'A heron.' }],
    ['a handle that is none', { ...text('Fine.'), id: { heron: 'A heron.' } }],
  ])('tells nothing that is banned: %s', async (_, detail) => {
    for (const buffer of [false, true]) {
      const { deltas } = await screened([thought(detail), said({ content: 'Done.' })], buffer)
      expect(JSON.stringify(deltas)).not.toContain('heron')
      expect(deltas.map(({ content }) => content ?? '').join('')).toBe('Done.')
    }
  })

  it('is what it was where nothing is banned, with both of its texts', async () => {
    const whole = { ...text('One.'), signature: 's', id: 'r', format: 'f' }
    const both = { ...text('Two. ', 1), summary: 'Three.' }
    const chunks = [thought(whole), thought(both), thought(opaque(2)), said({ content: 'Done.' })]
    const { details, deltas, removed } = await screened(chunks)
    expect(details.filter(({ index }) => index !== 1)).toEqual([whole, opaque(2)])
    expect(deltas.map(({ reasoning }) => reasoning ?? '').join('')).toBe('One.Two. Three.')
    expect(removed).toEqual([])
  })

  it('stays behind those before it, and stays where those are left out', async () => {
    const chunks = [thought(text('her')), thought(opaque(1)), said({ content: 'Done.' })]
    for (const buffer of [false, true]) {
      const { details } = await screened(chunks, buffer)
      const kept = details.map(({ index }) => index)
      expect(kept).toEqual([0, 1])
      const banned = [...chunks.slice(0, 2), thought(text('on', 2)), thought(opaque(3))]
      const plain = [thought(text('her')), thought(text('on', 1)), thought(opaque(2))]
      expect((await screened(plain, buffer)).details).toEqual([opaque(2)])
      expect((await screened(banned, buffer)).details).toEqual([opaque(1), opaque(3)])
    }
  })
})

describe('a vendor that answers more often than it was asked to', () => {
  it('gets nothing past the guards when one of its answers is refused', async () => {
    const chunks = [said({ content: 'A hero' }), said({ content: 'A heron.' }, 1)]
    for (const buffer of [false, true]) {
      const { deltas } = await screened([...chunks, said({ content: 'n.' })], buffer)
      expect(JSON.stringify(deltas)).not.toContain('hero')
    }
  })
})

describe('an answer of several choices, in any order', () => {
  const word = fc.constantFrom('her', 'on', 'Her', 'n', 'he', ' ', 'fine', '😀')
  const words = fc.array(word, { minLength: 1, maxLength: 3 }).map((some) => some.join(''))
  const kind = fc.constantFrom('content', 'refusal', 'text', 'summary', 'opaque', 'call', 'cite')
  const saying = fc.record({ index: fc.nat(2), kind, words })

  it('loses, moves and tells nothing that it should not, and gets one verdict', async () => {
    const sizes = fc.integer({ min: 1, max: 5 })
    const run = fc.asyncProperty(
      fc.array(saying, { minLength: 1, maxLength: 14 }),
      sizes,
      async (sayings, size) => {
        const chunks = conformed(sayings)
        const given = folded(chunks)
        for (const buffer of [false, true]) {
          const out = await shown(chunks, buffer, size)
          expect(breachesIn(out)).toEqual([])
          const got = folded(out)
          expect(got).toHaveLength(given.length)
          for (const [i, { message: asked }] of given.entries()) {
            const { message, finish_reason } = got[i]!
            expect(JSON.stringify(message)).not.toMatch(BANNED)
            const calls = (asked.tool_calls ?? []).map((call: any) => call.function.arguments)
            const isBlocked = [asked.content, asked.refusal, ...calls].some((one) =>
              BANNED.test(one),
            )
            expect(finish_reason === 'content_filter').toBe(isBlocked)
            if (isBlocked) continue
            const isDropped = BANNED.test(asked.reasoning ?? '')
            const { reasoning_details: thoughts = [], reasoning: _, annotations, ...rest } = asked
            expect(message).toMatchObject(rest)
            const opaque = (one: any) => one.type === 'reasoning.encrypted'
            const kept = message.reasoning_details ?? []
            if (isDropped) expect(kept.filter(opaque)).toEqual(thoughts.filter(opaque))
            else expect(kept).toEqual(thoughts)
            const fine = annotations?.filter((one: any) => !BANNED.test(one.url_citation.title))
            expect(message.annotations).toEqual(fine)
          }
        }
      },
    )
    await fc.assert(run, { numRuns: runs(50) })
  })
})

const BANNED = /heron/i

interface Saying {
  readonly index: number
  readonly kind: string
  readonly words: string
}

/** A vendor's stream that says all this, as it comes to guards. */
function conformed(sayings: readonly Saying[]): ChatChunk[] {
  const blocks = [0, 0, 0]
  const calls = [0, 0, 0]
  const deltaOf = ({ index, kind, words }: Saying): ChatDelta => {
    const call = { type: 'function', function: { name: 'f', arguments: JSON.stringify(words) } }
    const url_citation = { url: 'https://a.example', title: words, start_index: 0, end_index: 0 }
    switch (kind) {
      case 'text':
        return { reasoning_details: [text(words, blocks[index])] }
      case 'summary':
        return {
          reasoning_details: [
            { type: 'reasoning.summary', summary: words, index: ++blocks[index]! },
          ],
        }
      case 'opaque':
        return { reasoning_details: [opaque(++blocks[index]!)] }
      case 'call':
        return { tool_calls: [{ ...call, id: `call_${calls[index]}`, index: calls[index]!++ }] }
      case 'cite':
        return { annotations: [{ type: 'url_citation', url_citation }] }
      default:
        return { [kind]: words }
    }
  }
  const chunks: ChatChunk[] = []
  const emit = (chunk: ChatChunk) => void chunks.push(chunk)
  const step = new ChatAnswer({
    id: 'chatcmpl-1',
    created: 1,
    model: 'm',
    native: false,
    stream: false,
    logprobs: false,
    legacyFunctions: false,
    reasoning: true,
    newCallId: () => 'call',
  })
  for (const one of sayings) {
    // What a vendor thinks after a thought that it hides is another thought.
    if (one.kind === 'text' && blocks[one.index]! > 0) blocks[one.index]!++
    step.push(said(deltaOf(one), one.index), emit)
  }
  step.push({ choices: [], endOfStream: true }, emit)
  step.end(emit)
  return chunks
}

/** What a client gets. @param size how many chunks come together */
async function shown(
  chunks: readonly ChatChunk[],
  buffer: boolean,
  size: number,
): Promise<readonly ChatChunk[]> {
  const choices = Math.max(...chunks.map(({ choices: [one] }) => one!.index!)) + 1
  const input = { model: 'm', messages: [], stream: true }
  const screen = heronScreen({
    buffer,
    choices,
    refuse: (denial) => guardAdapter.refusalParts!({ text: 'NO', ...denial }, input, 'm'),
  })
  const apart = Array.from({ length: size }, (_, i) => i === size - 1)
  const { out, over } = through(screen, structuredClone([...chunks]), { apart })
  await over
  return out
}

function folded(chunks: readonly ChatChunk[]): any[] {
  return collect(structuredClone([...chunks])).choices
}

/** Violations of the order of a stream: choices open in ascending order, and nothing follows a finish. */
function breachesIn(chunks: readonly ChatChunk[]): string[] {
  const [opened, ended] = [new Set<number>(), new Set<number>()]
  return chunks.flatMap(({ choices: [choice] }) => {
    const { index, delta, finish_reason } = choice!
    const found: string[] = []
    if (ended.has(index!)) found.push(`${index} goes on`)
    if (delta!.role && opened.size !== index) found.push(`${index} opens after ${opened.size}`)
    if (delta!.role) opened.add(index!)
    if (!opened.has(index!)) found.push(`${index} is not open`)
    if (finish_reason) ended.add(index!)
    return found
  })
}
