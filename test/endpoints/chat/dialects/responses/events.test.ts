import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ResponseEvents } from '../../../../../src/endpoints/chat/dialects/responses/events.ts'
import { readResponsesRequest } from '../../../../../src/endpoints/chat/dialects/responses/read.ts'
import { resourceOf } from '../../../../../src/endpoints/chat/dialects/responses/write.ts'
import { fromCarrier } from '../../../../../src/endpoints/chat/dialects/shared/reasoning.ts'
import { ChatAnswer } from '../../../../../src/endpoints/chat/answer.ts'
import type { AnswerChunk } from '../../../../../src/endpoints/chat/billing.ts'
import { NO_COST } from '../../../../../src/money/money.ts'
import type { ChatDelta, ReasoningDetail } from '../../../../../src/plugin.ts'
import { RawJson } from '../../../../../src/stream/raw-json.ts'
import { envelope } from '../../_completion.ts'
import { checked } from './_events.ts'

const OWN = 'openai-responses-v1'
const OTHER = 'anthropic-claude-v1'
const receipt = { bill: NO_COST, meter: [] }

interface Wanted {
  readonly body?: object
  readonly finish?: string
  readonly refused?: boolean
  readonly logprobs?: unknown
}

/** The answer of the last event, after all events were checked. */
function written(deltas: readonly ChatDelta[], wanted: Wanted = {}): any {
  const { finish = 'stop', refused = false, logprobs = null, body } = wanted
  const chunks: AnswerChunk[] = []
  const answer = new ChatAnswer(envelope({ logprobs: true }))
  const take = (chunk: AnswerChunk) => void chunks.push(chunk)
  for (const delta of deltas) answer.push({ choices: [{ index: 0, delta, logprobs }] }, take)
  answer.push({ choices: [{ index: 0, delta: {}, finish_reason: finish }] }, take)
  answer.end(take)
  const text = JSON.stringify({
    model: 'a/b',
    input: 'x',
    include: ['reasoning.encrypted_content'],
    ...body,
  })
  const options = readResponsesRequest(new RawJson(text, JSON.parse(text))).answerOptions as any
  const state = { id: 'resp_1', createdAt: 1, model: 'a/b', maxOutputTokens: null }
  const resource = resourceOf(state, options.echo)
  const events: any[] = [
    { type: 'response.created', response: resource },
    { type: 'response.in_progress', response: resource },
  ]
  const writer = new ResponseEvents(
    resource,
    options,
    () => refused,
    // As the bytes are: an event does not change after it was written.
    (event) => events.push(JSON.parse(JSON.stringify(event))),
  )
  chunks.forEach((chunk, i) => writer.push(i === chunks.length - 1 ? { ...chunk, receipt } : chunk))
  return checked(events)
}

const call = (index: number, id: string | undefined, name: string, text: string): ChatDelta => ({
  tool_calls: [{ index, id: id ?? null, function: { name, arguments: text } }],
})
const thought = (detail: Partial<ReasoningDetail>): ChatDelta => ({
  reasoning_details: [{ type: 'reasoning.text', index: 0, ...detail }],
})
const kinds = ({ output }: any) => output.map(({ type }: any) => type)

describe('an answer', () => {
  it('of nothing has no items', () => {
    expect(written([{ content: '' }])).toMatchObject({ output: [], status: 'completed' })
  })

  it('has reasoning, text and calls as they come', () => {
    const response = written(
      [
        thought({ type: 'reasoning.summary', summary: 'A', format: OWN, id: 'rs_1' }),
        thought({ type: 'reasoning.summary', summary: '\n\nB', index: 1, format: OWN, id: 'rs_1' }),
        thought({ type: 'reasoning.encrypted', data: 'gAAA', index: 2, format: OWN, id: 'rs_1' }),
        { content: 'Let me ' },
        { content: 'look.' },
        call(0, 'call_1', 'f', '{"a":'),
        call(0, undefined, '', '1}'),
        { tool_calls: [{ index: 1, id: 'call_2', custom: { name: 'patch', input: 'x\n' } }] },
        call(2, 'call_3', 'n__g', ''),
      ],
      {
        finish: 'tool_calls',
        body: {
          tools: [{ type: 'namespace', name: 'n', tools: [{ type: 'function', name: 'g' }] }],
        },
      },
    )
    const part = { type: 'output_text', text: 'Let me look.', annotations: [], logprobs: [] }
    const done = { status: 'completed', id: expect.any(String) }
    expect(response.output).toEqual([
      {
        ...done,
        id: 'rs_1',
        type: 'reasoning',
        summary: ['A', 'B'].map((text) => ({ type: 'summary_text', text })),
        encrypted_content: 'gAAA',
      },
      { ...done, type: 'message', role: 'assistant', content: [part] },
      { ...done, type: 'function_call', call_id: 'call_1', name: 'f', arguments: '{"a":1}' },
      { ...done, type: 'custom_tool_call', call_id: 'call_2', name: 'patch', input: 'x\n' },
      {
        ...done,
        type: 'function_call',
        call_id: 'call_3',
        name: 'g',
        namespace: 'n',
        arguments: '{}',
      },
    ])
    expect(response.status).toBe('completed')
  })

  it.each([
    ['length', 'incomplete', 'max_output_tokens'],
    ['content_filter', 'incomplete', 'content_filter'],
    ['stop', 'completed', undefined],
  ])('that ends with %s is %s', (finish, status, reason) => {
    const response = written([{ content: 'x' }], { finish })
    expect(response.status).toBe(status)
    expect(response.incomplete_details?.reason).toBe(reason)
    expect(response.output[0].status).toBe(status)
  })

  it('that the model refuses is complete and says so', () => {
    const response = written([{ refusal: 'No.' }], { finish: 'content_filter' })
    expect(response.status).toBe('completed')
    expect(response.output[0].content).toEqual([{ type: 'refusal', refusal: 'No.' }])
  })

  it('that a guard refuses is complete and a text', () => {
    const wanted = { finish: 'content_filter', refused: true }
    const said = { type: 'output_text', text: 'No.', annotations: [], logprobs: [] }
    const response = written([{ content: 'No.' }], wanted)
    expect(response.status).toBe('completed')
    expect(response.output[0].content).toEqual([said])
    const late = written([thought({ text: 'Hm' }), { content: '\n\nNo.' }], wanted)
    expect(late.output[1].content).toEqual([said])
  })

  it('has the log probabilities of its tokens', () => {
    const token = { token: 'x', logprob: -1, bytes: null, top_logprobs: [] }
    const response = written([{ content: 'x' }], { logprobs: { content: [token] } })
    expect(response.output[0].content[0].logprobs).toEqual([{ ...token, bytes: [] }])
  })

  it('goes on in a new message behind a call', () => {
    const response = written([{ content: 'a' }, call(0, 'c', 'f', '{}'), { content: 'b' }])
    expect(kinds(response)).toEqual(['message', 'function_call', 'message'])
  })
})

describe('reasoning', () => {
  it('of other vendors has a carrier, one for each block that is signed', () => {
    const [first, second] = written([
      thought({ text: 'One', format: OTHER, id: null }),
      thought({ signature: 's1' }),
      thought({ text: 'Two', index: 1, format: OTHER }),
      thought({ signature: 's2', index: 1 }),
      { content: 'x' },
    ]).output
    const back = ({ summary, encrypted_content }: any) =>
      fromCarrier(encrypted_content, summary[0].text, 'p')
    expect(back(first)).toMatchObject({ text: 'One', signature: 's1', format: OTHER })
    expect(back(second)).toMatchObject({ text: 'Two', signature: 's2', format: OTHER })
  })

  it('that nothing has to come back of, and that no client asked for, has none', () => {
    const unsigned = written([thought({ text: 'One' }), { content: 'x' }])
    expect(unsigned.output[0]).not.toHaveProperty('encrypted_content')
    const unasked = written([thought({ text: 'One', signature: 's' })], { body: { include: [] } })
    expect(unasked.output[0]).not.toHaveProperty('encrypted_content')
  })

  it('waits for its signature, which comes behind the text where a guard reads it', () => {
    const { output } = written([
      thought({ text: 'One ', format: OTHER, id: null }),
      { content: 'Done' },
      { content: '.' },
      thought({ text: 'two', signature: 's1' }),
    ])
    expect(output.map(({ type }: any) => type)).toEqual(['reasoning', 'message'])
    expect(output[0].summary).toEqual([{ type: 'summary_text', text: 'One two' }])
    expect(fromCarrier(output[0].encrypted_content, '', 'p')).toMatchObject({ signature: 's1' })
    expect(output[1].content[0].text).toBe('Done.')
  })

  it('that is encrypted alone is an item without a summary', () => {
    const [item] = written([
      thought({ type: 'reasoning.encrypted', data: 'd', format: OTHER }),
    ]).output
    expect(item.summary).toEqual([])
    expect(fromCarrier(item.encrypted_content, '', 'p')).toMatchObject({ data: 'd', format: OTHER })
  })
})

describe('events', () => {
  const detail = fc.record({
    type: fc.constantFrom('reasoning.text', 'reasoning.summary', 'reasoning.encrypted'),
    index: fc.nat(2),
    text: fc.constantFrom('', 'a', '\n\nb'),
    format: fc.constantFrom(OWN, OTHER),
    id: fc.constantFrom(null, 'rs_1', 'rs_2'),
    signature: fc.constantFrom(undefined, 's'),
  })
  const thoughts = detail.map(({ type, text, signature, ...rest }) =>
    thought({
      type: type as 'reasoning.text',
      ...rest,
      ...(type === 'reasoning.text' && { text, ...(signature && { signature }) }),
      ...(type === 'reasoning.summary' && { summary: text }),
      ...(type === 'reasoning.encrypted' && { data: 'd' }),
    }),
  )
  const said = fc.record({ content: fc.string({ maxLength: 3 }) })
  const refusal = fc.record({ refusal: fc.constantFrom('no', 'never') })
  const calls = fc
    .tuple(fc.nat(2), fc.boolean(), fc.string({ maxLength: 3 }))
    .map(([index, isCustom, text]): ChatDelta => {
      const body = isCustom
        ? { custom: { name: 'g', input: text } }
        : { function: { name: 'f', arguments: text } }
      return { tool_calls: [{ index, id: `c${index}`, ...body }] }
    })
  const deltas = fc.array(fc.oneof(thoughts, said, refusal, calls), { maxLength: 12 })

  it('keep the order of the API for any answer', () => {
    fc.assert(
      fc.property(deltas, fc.constantFrom('stop', 'length', 'content_filter'), (given, finish) => {
        written(given, { finish })
      }),
    )
  })

  it('make the same answer however its text is cut', () => {
    const text = 'Wörds 🐟 and more'
    fc.assert(
      fc.property(fc.array(fc.nat(text.length), { maxLength: 5 }), (cuts) => {
        const places = [0, ...cuts.sort((a, b) => a - b), text.length]
        const pieces = places.slice(1).map((end, i) => text.slice(places[i], end))
        const input = pieces.map((piece, i) =>
          call(0, i === 0 ? 'c' : undefined, i === 0 ? 'f' : '', piece),
        )
        const { output } = written([...pieces.map((content) => ({ content })), ...input])
        expect(output[0].content[0].text).toBe(text)
        expect(output[1].arguments).toBe(text)
      }),
    )
  })
})
