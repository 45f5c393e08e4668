import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { MessageEvents } from '../../../../../src/endpoints/chat/dialects/messages/events.ts'
import { MessageBuilder } from '../../../../../src/endpoints/chat/dialects/messages/write.ts'
import { ChatAnswer } from '../../../../../src/endpoints/chat/answer.ts'
import type { AnswerChunk } from '../../../../../src/endpoints/chat/billing.ts'
import { NO_COST } from '../../../../../src/money/money.ts'
import type { ChatDelta, ReasoningDetail } from '../../../../../src/plugin.ts'
import { envelope } from '../../_completion.ts'
import { checked } from './_events.ts'
import { runs } from '../../../../_runs.ts'

const OWN = 'anthropic-claude-v1'
const receipt = { bill: NO_COST, meter: [] }
const start = {
  type: 'message_start',
  message: {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'a/b',
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: { input_tokens: 1, output_tokens: 1 },
  },
}

interface Wanted {
  readonly hidesThinking?: boolean
  readonly finish?: string
}

/** The message and the events of an answer in these deltas. */
function written(
  deltas: readonly ChatDelta[],
  { finish = 'stop', hidesThinking = false }: Wanted = {},
) {
  const chunks: AnswerChunk[] = []
  const answer = new ChatAnswer(envelope())
  const take = (chunk: AnswerChunk) => void chunks.push(chunk)
  for (const delta of deltas) answer.push({ choices: [{ index: 0, delta }] }, take)
  answer.push({ choices: [{ index: 0, delta: {}, finish_reason: finish }] }, take)
  answer.end(take)
  const events: any[] = [start, { type: 'ping' }]
  const writer = new MessageEvents(
    { hidesThinking, hidesRefusals: false },
    () => false,
    // As the bytes are.
    (event) => events.push(JSON.parse(JSON.stringify(event))),
  )
  chunks.forEach((chunk, i) => writer.push(i === chunks.length - 1 ? { ...chunk, receipt } : chunk))
  const builder = new MessageBuilder()
  for (const event of events) builder.add(event)
  return { events, ...checked(events), whole: JSON.parse(builder.text()) }
}

const call = (index: number, id: string | undefined, name: string, text: string): ChatDelta => ({
  tool_calls: [{ index, id: id ?? null, function: { name, arguments: text } }],
})
const thought = (detail: Partial<ReasoningDetail>): ChatDelta => ({
  reasoning_details: [{ type: 'reasoning.text', index: 0, ...detail }],
})
const contentOf = (deltas: readonly ChatDelta[], wanted?: Wanted) =>
  written(deltas, wanted).message.content

describe('an answer', () => {
  it('of nothing has no blocks', () => {
    const { message, events } = written([{ content: '' }])
    expect(message).toMatchObject({ content: [], stop_reason: 'end_turn', stop_details: null })
    expect(events.map(({ type }) => type)).toEqual([
      'message_start',
      'ping',
      'message_delta',
      'message_stop',
    ])
  })

  it('has thinking, text and calls as they come', () => {
    const { message, whole } = written(
      [
        thought({ text: 'H', format: OWN, id: null }),
        thought({ text: 'm', signature: 'c2ln' }),
        { content: 'Let me ' },
        { content: 'look.' },
        call(0, 'toolu_1', 'f', '{"a":'),
        call(0, undefined, '', '1}'),
        call(1, 'bad id', 'g', ''),
      ],
      { finish: 'tool_calls' },
    )
    expect(message.stop_reason).toBe('tool_use')
    expect(message.content).toEqual([
      { type: 'thinking', thinking: 'Hm', signature: 'c2ln' },
      { type: 'text', text: 'Let me look.' },
      { type: 'tool_use', id: 'toolu_1', name: 'f', input: { a: 1 } },
      { type: 'tool_use', id: expect.stringMatching(/^toolu_\w{24}$/), name: 'g', input: {} },
    ])
    expect(whole.content).toEqual(message.content)
  })

  it.each([
    ['length', 'max_tokens'],
    ['content_filter', 'refusal'],
    ['stop', 'end_turn'],
  ])('that ends with %s stops with %s', (finish, expected) => {
    const { stop_reason, stop_details } = written([{ content: 'x' }], { finish }).message
    expect(stop_reason).toBe(expected)
    expect(stop_details).toEqual(
      expected === 'refusal' ? { type: 'refusal', category: null, explanation: null } : null,
    )
  })

  it('that the model refuses says so as text', () => {
    const { message } = written([{ refusal: 'No.' }])
    expect(message).toMatchObject({
      content: [{ type: 'text', text: 'No.' }],
      stop_reason: 'refusal',
    })
  })

  it('cites behind the text', () => {
    const url_citation = { url: 'https://a.test', title: 'A', start_index: 0, end_index: 1 }
    const annotations = [
      { type: 'url_citation', url_citation: { ...url_citation, content: 'x'.repeat(200) } },
      { type: 'url_citation', url_citation },
    ]
    const [block] = contentOf([{ content: 'Hi' }, { annotations }])
    const base = { type: 'web_search_result_location', url: 'https://a.test', title: 'A' }
    expect(block.citations).toEqual([
      { ...base, cited_text: 'x'.repeat(150), encrypted_index: '' },
      { ...base, cited_text: '', encrypted_index: '' },
    ])
  })

  it('keeps large numbers of a call', () => {
    const deltas = [call(0, 'a', 'f', '{"n":12345678901234567890}')]
    const { events } = written(deltas)
    const builder = new MessageBuilder()
    for (const event of events) builder.add(event)
    expect(builder.text()).toContain('"input":{"n":12345678901234567890}')
  })

  it('has an object where a model wrote none', () => {
    const builder = new MessageBuilder()
    builder.add(start)
    const block = { type: 'tool_use', id: 'a', name: 'f', input: {} }
    const delta = { type: 'input_json_delta', partial_json: '{"a' }
    builder.add({ type: 'content_block_start', index: 0, content_block: block })
    builder.add({ type: 'content_block_delta', index: 0, delta })
    builder.add({ type: 'content_block_stop', index: 0 })
    expect(JSON.parse(builder.text()).content[0].input).toEqual({ raw: '{"a' })
  })
})

describe('reasoning', () => {
  const carried = ({ signature }: any) =>
    JSON.parse(Buffer.from(signature.slice(4), 'base64url').toString())

  it('of another form travels in carriers, each entry in its own block', () => {
    const format = 'openai-responses-v1'
    const [summary, encrypted] = contentOf([
      thought({ type: 'reasoning.summary', summary: 'Plan', id: 'rs_1', format }),
      thought({ type: 'reasoning.encrypted', data: 'ZGF0YQ==', id: 'rs_1', format, index: 1 }),
    ])
    expect(summary).toMatchObject({ type: 'thinking', thinking: 'Plan' })
    expect(carried(summary)).toEqual({ t: 'reasoning.summary', f: format, i: 'rs_1' })
    expect(encrypted).toMatchObject({ type: 'thinking', thinking: '' })
    expect(carried(encrypted)).toEqual({
      t: 'reasoning.encrypted',
      f: format,
      i: 'rs_1',
      s: 'ZGF0YQ==',
    })
  })

  it('without a signature has a carrier without one', () => {
    const [block] = contentOf([{ reasoning: 'Hm' }])
    expect(block.thinking).toBe('Hm')
    expect(carried(block)).toEqual({ t: 'reasoning.text', f: 'unknown' })
  })

  it('keeps its signature where a guard lets its end go after the text', () => {
    expect(
      contentOf([
        thought({ text: 'Hm, wel', format: OWN, id: null }),
        { content: 'Done' },
        thought({ text: 'l.', signature: 'c2ln' }),
        { content: '.' },
      ]),
    ).toEqual([
      { type: 'thinking', thinking: 'Hm, well.', signature: 'c2ln' },
      { type: 'text', text: 'Done.' },
    ])
  })

  it('that is redacted is a block of its own', () => {
    const redacted = thought({ type: 'reasoning.encrypted', data: 'cmVk', format: OWN })
    expect(contentOf([redacted])).toEqual([{ type: 'redacted_thinking', data: 'cmVk' }])
  })

  it('that is hidden keeps its signature; without one it is left out', () => {
    const deltas = [
      thought({ text: 'A', format: OWN, id: null, signature: 'c2ln' }),
      thought({ text: 'B', format: 'unknown', index: 1 }),
      thought({ type: 'reasoning.encrypted', data: 'eA==', format: 'f', index: 2 }),
      { content: 'x' },
    ]
    const [signed, encrypted, text, ...rest] = contentOf(deltas, { hidesThinking: true })
    expect(signed).toEqual({ type: 'thinking', thinking: '', signature: 'c2ln' })
    expect(encrypted).toMatchObject({ type: 'thinking', thinking: '' })
    expect([text, rest]).toEqual([{ type: 'text', text: 'x' }, []])
  })
})

describe('at every chunking', () => {
  const pieces = fc.oneof(
    fc.record({ content: fc.string({ unit: 'binary' }) }),
    fc.record({ reasoning: fc.string() }),
    fc.record({ refusal: fc.string() }),
    fc
      .tuple(fc.nat(2), fc.option(fc.string()), fc.string())
      .map(([index, signature, text]) => thought({ index, text, signature })),
    fc.tuple(fc.nat(2), fc.string()).map(([index, text]) => call(index, `id${index}`, 'f', text)),
    fc.record({ annotations: fc.constant([]) }),
  )

  it('the rules of the stream hold, and the whole message says the same', () => {
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 12 }), (deltas) => {
        // Inputs are JSON only at the end.
        const safe = deltas.map((delta) =>
          'tool_calls' in delta ? call(0, 'id0', 'f', '') : delta,
        ) as ChatDelta[]
        const { message, whole } = written(safe)
        expect(whole.content).toEqual(message.content)
        expect(whole.stop_reason).toBe(message.stop_reason)
      }),
      { numRuns: runs(100) },
    )
  })
})
