/** What users of the official client see of plain chats: answers, streams, usage and cost, reasoning, several choices. */
import type OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { json } from '../upstream.ts'
import { answered, COST, HELLO, setUp, streamed, USAGE, user, type Setup } from './_setup.ts'

let s: Setup
beforeAll(async () => {
  s = await setUp()
})
afterAll(() => s[Symbol.asyncDispose]())

const DETAILS = { prompt_cost: 0.0000063, completion_cost: 0.0000102 }

describe('create', () => {
  it('gives an answer with what it cost', async () => {
    s.vendor.answer(answered({ content: 'Hello.' }))
    const before = await s.t.balance()
    const completion = await s.client.chat.completions.create(HELLO)
    expect(completion).toMatchObject({
      object: 'chat.completion',
      model: 'acme/swift-1',
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: 'Hello.', refusal: null },
          finish_reason: 'stop',
          logprobs: null,
        },
      ],
      usage: { ...USAGE, cost: COST, cost_details: DETAILS },
    })
    expect(completion.id).toMatch(/^chatcmpl-/)
    expect(completion.id).not.toBe('chatcmpl-vendor')
    expect(Math.abs(completion.created - Date.now() / 1000)).toBeLessThan(3600)
    expect(completion.choices[0]!.message).not.toHaveProperty('tool_calls')
    expect(before - (await s.t.balance())).toBe(16_500_000n)
  })

  it('says which request it was, what it cost and how many are left, in headers', async () => {
    s.vendor.answer(answered({ content: 'Hello.' }))
    const { secret } = await s.t.newKey({ rpm: 7 })
    const { data, response, request_id } = await s
      .connect({ apiKey: secret })
      .chat.completions.create(HELLO)
      .withResponse()
    expect(request_id).toMatch(/^req_[0-9A-HJKMNP-TV-Z]{26}$/)
    expect((data as any)._request_id).toBe(request_id)
    expect(s.calls.at(-1)!.id).toBe(request_id)
    const header = (name: string) => response.headers.get(name)
    expect(header('x-service-request-id')).toBe(request_id)
    expect(header('x-service-cost')).toBe('0.0000165')
    expect(header('x-ratelimit-limit-requests')).toBe('7')
    expect(header('x-ratelimit-remaining-requests')).toBe('6')
    expect(header('openai-processing-ms')).toMatch(/^\d+$/)
    expect(header('content-type')).toBe('application/json')
  })

  it('counts cached tokens and reasoning where every client looks for them', async () => {
    const usage = {
      prompt_tokens: 1000,
      completion_tokens: 200,
      total_tokens: 1200,
      prompt_tokens_details: { cached_tokens: 600 },
      completion_tokens_details: { reasoning_tokens: 150 },
    }
    s.vendor.answer(answered({ content: 'Hello.' }, 'stop', { usage }))
    const completion = await s.client.chat.completions.create(HELLO)
    expect(completion.usage).toMatchObject({
      prompt_tokens: 1000,
      completion_tokens: 200,
      total_tokens: 1200,
      prompt_tokens_details: { cached_tokens: 600, audio_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 150, accepted_prediction_tokens: 0 },
    })
  })

  it('has every choice of n', async () => {
    s.vendor.answer(
      json({
        choices: [
          { index: 1, message: { role: 'assistant', content: 'B' }, finish_reason: 'length' },
          { index: 0, message: { role: 'assistant', content: 'A' }, finish_reason: 'stop' },
        ],
        usage: USAGE,
      }),
    )
    const { choices } = await s.client.chat.completions.create({ ...HELLO, n: 2 })
    expect(s.vendor.requests.at(-1)!.json.n).toBe(2)
    expect(choices.map((one) => [one.index, one.message.content, one.finish_reason])).toEqual([
      [0, 'A', 'stop'],
      [1, 'B', 'length'],
    ])
  })

  it('has log probabilities when they were asked for', async () => {
    const token = { token: 'Hello', logprob: -0.5, bytes: [72], top_logprobs: [] }
    const logprobs = { content: [token], refusal: null }
    s.vendor.answer(
      json({
        choices: [{ index: 0, message: { content: 'Hello' }, logprobs, finish_reason: 'stop' }],
        usage: USAGE,
      }),
    )
    const asked = await s.client.chat.completions.create({
      ...HELLO,
      logprobs: true,
      top_logprobs: 2,
    })
    expect(s.vendor.requests.at(-1)!.json).toMatchObject({ logprobs: true, top_logprobs: 2 })
    expect(asked.choices[0]!.logprobs).toEqual(logprobs)
    const unasked = await s.client.chat.completions.create(HELLO)
    expect(unasked.choices[0]!.logprobs).toBeNull()
  })

  it('has reasoning beside the content, unless it is excluded', async () => {
    s.vendor.answer(answered({ content: '4', reasoning_content: 'Two and two.' }))
    const { choices } = await s.client.chat.completions.create(HELLO)
    expect(choices[0]!.message).toMatchObject({
      content: '4',
      reasoning: 'Two and two.',
      reasoning_details: [
        { type: 'reasoning.text', text: 'Two and two.', format: 'unknown', index: 0 },
      ],
    })
    expect(choices[0]!.message).not.toHaveProperty('reasoning_content')
    const without: object = { ...HELLO, reasoning: { exclude: true } }
    const excluded = await s.client.chat.completions.create(without as typeof HELLO)
    expect(excluded.choices[0]!.message).not.toHaveProperty('reasoning')
    expect(excluded.choices[0]!.message).not.toHaveProperty('reasoning_details')
  })
})

describe('models.list', () => {
  it('lists models with price and capabilities, also for a key that is not good', async () => {
    const models = []
    for await (const model of s.connect({ apiKey: 'sk-nonsense' }).models.list()) models.push(model)
    expect(models.map((model) => model.id)).toEqual([
      'acme/openai',
      'acme/router',
      'acme/says',
      'acme/swift-1',
      'acme/whole',
      'mock/echo',
      'mock/free',
      'mock/tools',
    ])
    expect(models[2]).toMatchObject({
      object: 'model',
      owned_by: 'acme',
      free_tier: false,
      pricing: { prompt: '0.00000015', completion: '0.0000006' },
    })
    const page = await s.client.models.list()
    expect(page.object).toBe('list')
    expect(page.hasNextPage()).toBe(false)
  })
})

describe('a conversation', () => {
  it('goes on with what was answered before', async () => {
    const messages: OpenAI.ChatCompletionMessageParam[] = [user('Who are you?')]
    s.vendor.answer(answered({ content: 'A fox.', reasoning_content: 'Hm.' }))
    const first = await s.client.chat.completions.create({ ...HELLO, messages })
    messages.push(first.choices[0]!.message, user('Really?'))
    s.vendor.answer(streamed([{ content: 'Yes.' }]))
    const second = s.client.chat.completions.stream({ ...HELLO, messages })
    expect(await second.finalContent()).toBe('Yes.')
    expect(s.vendor.requests.at(-1)!.json.messages).toEqual([
      { role: 'user', content: 'Who are you?' },
      // A server that is not known gets its reasoning back where it stood.
      { role: 'assistant', content: 'A fox.', reasoning_content: 'Hm.' },
      { role: 'user', content: 'Really?' },
    ])
  })
})
