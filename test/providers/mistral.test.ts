import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import mistral from '../../providers/mistral.ts'
import type { ChatInput } from '../../src/plugin.ts'
import { events, json, startUpstream, type FakeUpstream } from '../upstream.ts'
import { setUp, type Setup } from './_chat.ts'

const ANSWER = json({
  choices: [{ index: 0, message: { content: 'Hi' }, finish_reason: 'stop' }],
})

let upstream: FakeUpstream
let vendor: Setup

beforeAll(async () => {
  upstream = await startUpstream()
  vendor = await setUp(mistral, { baseURL: `${upstream.url}/v1`, apiKey: 'k' })
})

afterAll(async () => {
  await vendor[Symbol.asyncDispose]()
  await upstream.close()
})

async function body(input: Partial<ChatInput>): Promise<any> {
  upstream.answer(ANSWER)
  await vendor.ask(input)
  return upstream.requests.at(-1)!.json
}

describe('the request', () => {
  it('goes to Mistral with the key', async () => {
    await body({})
    expect(upstream.requests.at(-1)).toMatchObject({
      path: '/v1/chat/completions',
      headers: { authorization: 'Bearer k' },
    })
    expect(await mistral.options['~standard'].validate({ apiKey: 'k' })).toMatchObject({
      value: { baseURL: 'https://api.mistral.ai/v1' },
    })
  })

  it('contains nothing that Mistral refuses', async () => {
    const call = { id: 'call_1', type: 'function', function: { name: 'f', arguments: '{}' } }
    const thought = { type: 'reasoning.text', text: 'hm', signature: 'm1', format: 'unknown' }
    const messages = [
      { role: 'user', content: 'Weather?', name: 'ann' },
      {
        role: 'assistant',
        content: 'Let me see.',
        name: 'bot',
        tool_calls: [call],
        reasoning: 'hm',
        reasoning_details: [thought],
        annotations: [],
      },
      { role: 'tool', tool_call_id: 'call_1', content: 'sunny', cache_control: { type: 'x' } },
    ] as const
    const got = await body({
      messages,
      max_completion_tokens: 5,
      seed: 7,
      stream: true,
      logit_bias: {},
      user: 'u',
      metadata: {},
    })
    const id = got.messages[1].tool_calls[0].id
    expect(id).toMatch(/^[a-zA-Z0-9]{9}$/)
    expect(got).toEqual({
      model: 'm',
      max_tokens: 5,
      random_seed: 7,
      stream: true,
      messages: [
        { role: 'user', content: 'Weather?' },
        {
          role: 'assistant',
          content: [
            { type: 'thinking', thinking: [{ type: 'text', text: 'hm' }], signature: 'm1' },
            { type: 'text', text: 'Let me see.' },
          ],
          tool_calls: [{ ...call, id }],
        },
        { role: 'tool', tool_call_id: id, name: 'f', content: 'sunny' },
      ],
    })
  })

  it('drops another vendor’s signature', async () => {
    const format = 'anthropic-claude-v1'
    const thought = { type: 'reasoning.text', text: 'hm', signature: 'sig', format }
    const messages = [
      { role: 'user', content: 'a' },
      { role: 'assistant', content: 'b', reasoning_details: [thought] },
      { role: 'user', content: 'c' },
    ] as const
    const got = await body({ messages })
    expect(got.messages[1].content[0]).toEqual({
      type: 'thinking',
      thinking: [{ type: 'text', text: 'hm' }],
    })
  })
})

describe('the answer', () => {
  const thinking = (text: string, more = {}) => ({
    type: 'thinking',
    thinking: [{ type: 'text', text }],
    ...more,
  })
  const says = (content: unknown, rest = {}) => ({
    choices: [{ index: 0, delta: { content }, ...rest }],
  })
  const end = {
    finish_reason: 'stop',
  }
  const usage = { prompt_tokens: 4, completion_tokens: 10, total_tokens: 14 }

  it('has reasoning that nothing counts, unless Mistral does', async () => {
    upstream.answer(
      events(
        says([thinking('abcd')]),
        says([thinking('efgh'), { type: 'text', text: 'x' }]),
        { ...says('y', end), usage },
        '[DONE]',
      ),
    )
    const streamed = await vendor.outcome({ stream: true })
    expect(streamed.completion.choices[0]!.message).toMatchObject({
      content: 'xy',
      reasoning: 'abcdefgh',
    })
    expect(streamed.usage!.completion_tokens_details!.reasoning_tokens).toBeNull()
    const content = [thinking('abcdefgh'), { type: 'text', text: 'xy' }]
    const choices = [{ index: 0, message: { content }, ...end }]
    const counted = { ...usage, completion_tokens_details: { reasoning_tokens: 8 } }
    upstream.answer(json({ choices, usage: counted }))
    const whole = await vendor.outcome({})
    expect(whole.usage!.completion_tokens_details!.reasoning_tokens).toBe(8)
  })

  it('has the signature of the reasoning', async () => {
    upstream.answer(
      events(says([thinking('hm')]), says([thinking('.', { signature: 'm1' })]), says('y', end)),
    )
    const { completion } = await vendor.outcome({ stream: true })
    expect(completion.choices[0]!.message.reasoning_details).toEqual([
      {
        type: 'reasoning.text',
        text: 'hm.',
        signature: 'm1',
        id: null,
        format: 'unknown',
        index: 0,
      },
    ])
  })

  it('may end at the context window, or fail', async () => {
    upstream.answer(events(says('a'), says('', { finish_reason: 'model_length' })))
    const cut = await vendor.outcome({ stream: true })
    expect(cut.completion.choices[0]!.finish_reason).toBe('length')
    upstream.answer(events(says('a'), says('', { finish_reason: 'error' })))
    const failed = await vendor.outcome({ stream: true })
    expect(failed.failure!.failure).toBe('upstream_error')
  })

  it.each([
    [401, { detail: 'Invalid API Key' }, 'upstream_auth', 502],
    [403, { detail: 'Forbidden' }, 'upstream_auth', 502],
    [402, { message: 'Payment required' }, 'upstream_balance', 502],
    [429, { object: 'error', message: 'Rate limit exceeded', code: '1300' }, 'upstream_rate', 429],
    [429, { object: 'error', message: 'Busy', code: '3505' }, 'overloaded', 503],
    [400, { object: 'error', message: 'Prompt too large', code: '3051' }, 'context_length', 400],
    [422, { detail: [{ loc: ['body', 'stop'], msg: 'Bad' }] }, 'bad_request', 400],
  ])('of status %i, %j, is %s', async (status, error, failure, shown) => {
    upstream.answer(json(error, status))
    const outcome = await vendor.outcome({})
    expect(outcome.failure).toMatchObject({ failure, status: shown })
    expect(outcome.failure!.message).not.toMatch(/API Key|Forbidden|Payment/)
  })
})
