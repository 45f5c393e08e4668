import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ChatEvents } from '../../../src/endpoints/chat/events.ts'

const texts = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 40 }),
  fc.string({ maxLength: 40 }),
  fc.constantFrom('', ' token', '"', '\\', '\n', '\ud83d', '\ude00', '\u2028', '\x7f', '日本'),
)
const deltas = fc.oneof(
  texts.map((content) => ({ content })),
  texts.map((content) => ({ content, reasoning: content })),
  texts.map((content) => ({ role: 'assistant', content })),
  fc.constantFrom<any[]>({}, null, undefined, { content: null }, { content: 1 }, ['a'], 'a'),
)
const choices = fc.oneof(
  { weight: 6, arbitrary: deltas.map((delta) => choice({ delta })) },
  fc
    .tuple(deltas, fc.constantFrom<any[]>(0, 1, '0', undefined, null))
    .map(([delta, index]) => choice({ index, delta })),
  fc
    .tuple(deltas, fc.constantFrom<any[]>('stop', undefined, { content: [] }))
    .chain(([delta, value]) =>
      fc.constantFrom<any[]>(
        choice({ delta, finish_reason: value }),
        choice({ delta, logprobs: value }),
        choice({ delta, more: value }),
        { delta, index: 0, logprobs: null, finish_reason: null },
        { index: 0, delta },
      ),
    ),
)
const members = fc.constantFrom<Record<string, any>[]>(
  {},
  { usage: null },
  { error: null },
  { usage: { prompt_tokens: 1 }, cost: 0.25 },
  { system_fingerprint: 'fp "1"' },
  { guard: { decision: 'pass' } },
  { nothing: undefined },
  { '"': true, 7: -0 },
  { far: Infinity },
)
const chunks = fc
  .tuple(
    fc.constantFrom<object[]>({ id: '1', created: 1 }, { created: 1, id: '1' }, {}, { id: '2' }),
    members,
    fc.oneof(
      { weight: 6, arbitrary: fc.array(choices, { minLength: 1, maxLength: 1 }) },
      fc.array(choices, { maxLength: 2 }),
      fc.constantFrom<any[]>(undefined, null),
    ),
    members,
    fc.boolean(),
  )
  .map(([head, before, list, after, all]) =>
    all ? { ...head, ...before, choices: list, ...after } : { ...head, ...before, ...after },
  )

function choice(said: object): object {
  return { index: 0, delta: {}, logprobs: null, finish_reason: null, ...said }
}

describe('events of a chat', () => {
  it('are the bytes of JSON.stringify, whatever came before', () => {
    fc.assert(
      // Most answers say the same thing over and over.
      fc.property(fc.array(fc.tuple(chunks, fc.array(choices, { maxLength: 3 }))), (all) => {
        const events = new ChatEvents()
        for (const [first, others] of all) {
          const alike = others.map((one) => ({ ...first, choices: [one] }))
          for (const chunk of [first, ...alike]) {
            expect(events.encode(chunk as any)).toBe(`data: ${JSON.stringify(chunk)}\n\n`)
          }
        }
      }),
      { numRuns: 2000 },
    )
  })

  it('follow an object that changes', () => {
    const events = new ChatEvents()
    const usage = { prompt_tokens: 1 }
    const chunk = { id: '1', choices: [choice({ delta: { content: 'a' } })], usage }
    expect(events.encode(chunk as any)).toContain('"prompt_tokens":1')
    usage.prompt_tokens = 2
    expect(events.encode(chunk as any)).toContain('"prompt_tokens":2')
  })
})
