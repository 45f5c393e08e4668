/** Any conversation that clients send becomes a body that the vendor accepts, with everything that was said in it. */
import * as fc from 'fast-check'
import * as v from 'valibot'
import { describe, expect, it } from 'vitest'
import { toBody } from '../../../providers/openai-responses/request.ts'
import { readChatRequest } from '../../../src/endpoints/chat/dialects/chat/read.ts'
import { outboundChat } from '../../../src/endpoints/chat/request.ts'
import { inputItem } from './_items.ts'
import { runs } from '../../_runs.ts'

const body = v.strictObject({
  model: v.string(),
  input: v.array(inputItem),
  store: v.literal(false),
  include: v.tuple([v.literal('reasoning.encrypted_content')]),
})

/** Every text that a client says has a number, so that it can be found again. */
const word = fc.nat(1e6).map((n) => `w${n}w`)
const maybeBlank = fc.oneof(
  { weight: 1, arbitrary: fc.constant('') },
  { weight: 3, arbitrary: word },
)
const textPart = maybeBlank.map((text) => ({ type: 'text', text }))
const anyPart = fc.oneof(
  { weight: 3, arbitrary: textPart },
  fc
    .constantFrom('https://a.example/i.png', 'data:image/png;base64,iVBORw0=')
    .map((url) => ({ type: 'image_url', image_url: { url } })),
  fc
    .constantFrom('https://a.example/a.pdf', 'data:application/pdf;base64,JVBERi0=')
    .map((file_data) => ({ type: 'file', file: { file_data } })),
)
const content = fc.oneof(maybeBlank, fc.array(anyPart, { minLength: 1, maxLength: 3 }))
const id = fc.constantFrom('call_a', 'call_b', 'call_c', 'x'.repeat(80))
const call = fc.oneof(
  fc.record({
    id,
    type: fc.constant('function'),
    function: fc.record({ name: fc.constant('f'), arguments: word }),
  }),
  fc.record({
    id,
    type: fc.constant('custom'),
    custom: fc.record({ name: fc.constant('c'), input: word }),
  }),
)
const data = word.map((data) => ({
  type: 'reasoning.encrypted',
  data,
  id: 'rs_1',
  format: 'openai-responses-v1',
  index: 0,
}))
const message = fc.oneof(
  fc.record({ role: fc.constantFrom('system', 'developer', 'user', 'user'), content }),
  fc.record(
    {
      role: fc.constant('assistant'),
      content: fc.oneof(maybeBlank, fc.array(textPart, { minLength: 1, maxLength: 3 })),
      refusal: maybeBlank,
      phase: fc.constantFrom('commentary', 'final_answer'),
      tool_calls: fc.uniqueArray(call, { maxLength: 3, selector: (one) => one.id }),
      reasoning_details: fc.array(data, { maxLength: 1 }),
    },
    { requiredKeys: ['role', 'content'] },
  ),
  fc.record({
    role: fc.constant('assistant'),
    content: fc.constant(null),
    function_call: fc.record({ name: fc.constantFrom('f', 'g'), arguments: word }),
  }),
  fc.record({
    role: fc.constant('function'),
    name: fc.constantFrom('f', 'g'),
    content: maybeBlank,
  }),
  fc.record({ role: fc.constant('tool'), tool_call_id: id, content }),
)

const profile = { format: 'openai-responses-v1', reasons: true, summaries: true } as const

function bodyFor(messages: readonly object[]): v.InferOutput<typeof body> {
  const input = outboundChat(readChatRequest({ model: 'a/b', messages }))
  const made = toBody(input, 'gpt-6', profile, (_failure, reason) => new Error(reason))
  return v.parse(body, JSON.parse(JSON.stringify(made)))
}

const conversations = fc.array(message, { minLength: 1, maxLength: 12 })
const settings = { numRuns: runs(170) }

describe('any conversation', () => {
  it('is valid, and has everything that was said', () => {
    fc.assert(
      fc.property(conversations, (messages) => {
        const sent = JSON.stringify(bodyFor(messages))
        // Only reasoning of an answer without anything else is left out.
        const given = messages.map((one: any) =>
          one.role === 'assistant' && isBlank(one) ? { ...one, reasoning_details: [] } : one,
        )
        for (const said of JSON.stringify(given).match(/w\d+w/g) ?? []) {
          if (!sent.includes(said)) throw new Error(`${said} is missing`)
        }
      }),
      settings,
    )
  })

  it('has a result for each call', () => {
    fc.assert(
      fc.property(conversations, (messages) => {
        const { input } = bodyFor(messages)
        input.forEach((one, at) => {
          if (one.type !== 'function_call' && one.type !== 'custom_tool_call') return
          const results = input
            .slice(at)
            .filter((other) => 'call_id' in other && other.call_id === one.call_id)
          expect(results.map(({ type }) => type)).toContain(`${one.type}_output`)
        })
      }),
      settings,
    )
  })

  it('takes time in proportion to its length', () => {
    const calls = (i: number) => [
      { id: `c${i}`, type: 'function', function: { name: 'f', arguments: '' } },
    ]
    const messages = Array.from({ length: 50_000 }, (_, i) => [
      { role: 'assistant', content: null, tool_calls: calls(i) },
      { role: 'assistant', content: null, function_call: { name: 'f', arguments: '' } },
    ]).flat()
    const results = Array.from({ length: 50_000 }, () => ({
      role: 'function',
      name: 'f',
      content: '',
    }))
    expect(bodyFor([...messages, ...results]).input).toHaveLength(200_000)
  })
})

function isBlank({ content, refusal, tool_calls = [], function_call }: any): boolean {
  const texts = Array.isArray(content) ? content.map((part) => part.text) : [content, refusal]
  return !function_call && tool_calls.length === 0 && !refusal && !texts.some(Boolean)
}
