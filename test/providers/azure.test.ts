import { describe, expect, it } from 'vitest'
import azure from '../../providers/azure.ts'
import type { ChatInput } from '../../src/plugin.ts'
import { events } from '../upstream.ts'
import { setUp, type RequestOptions } from './_chat.ts'
import { vendorOf } from './_vendor.ts'

const says = (content: string) => ({ choices: [{ index: 0, delta: { content } }] })
const vendor = vendorOf()

const sent = (options: object, input: Partial<ChatInput> = {}, how: RequestOptions = {}) =>
  vendor.sent(azure, {
    options: { apiKey: 'k', ...options },
    input,
    how: { model: 'my gpt', ...how },
  })

describe('the address', () => {
  it.each([
    [{}, '/openai/v1/chat/completions'],
    [{ apiVersion: 'preview' }, '/openai/v1/chat/completions?api-version=preview'],
    [
      { surface: 'deployments' },
      '/openai/deployments/my%20gpt/chat/completions?api-version=2024-10-21',
    ],
    [
      { surface: 'deployments', apiVersion: '2025-04-01-preview' },
      '/openai/deployments/my%20gpt/chat/completions?api-version=2025-04-01-preview',
    ],
    [{ surface: 'models' }, '/models/chat/completions?api-version=2024-05-01-preview'],
  ])('with %j', async (options, path) => {
    const seen = await sent(options)
    expect(seen.path).toBe(path)
    expect(seen.json.model).toBe('my gpt')
  })

  it('may have the form that the portal shows', async () => {
    for (const tail of ['/', '/openai', '/openai/v1/']) {
      const { path } = await sent({ baseURL: vendor.upstream.url + tail })
      expect(path).toBe('/openai/v1/chat/completions')
    }
  })

  it('may have another version for one deployment', async () => {
    const options = { apiVersion: '2024-02-01' }
    const seen = await sent({ surface: 'deployments' }, { stream: true }, { options })
    expect(seen.path).toMatch(/api-version=2024-02-01$/)
    expect(seen.json).not.toHaveProperty('stream_options')
  })
})

describe('credentials', () => {
  it('are a key of the resource, or a token in the operator’s headers', async () => {
    expect((await sent({})).headers).toMatchObject({ 'api-key': 'k' })
    expect((await sent({})).headers).not.toHaveProperty('authorization')
    const headers = { Authorization: 'Bearer entra' }
    const { headers: got } = await sent({ apiKey: undefined, headers })
    expect(got).toMatchObject({ authorization: 'Bearer entra' })
    expect(got).not.toHaveProperty('api-key')
  })
})

describe('the request', () => {
  const input = {
    stream: true,
    max_completion_tokens: 9,
    messages: [{ role: 'developer', content: 'Be brief.' }],
    data_sources: [{ type: 'azure_search' }],
    session_id: 's',
  } as const

  it('is OpenAI’s where the version is new', async () => {
    const { json: body } = await sent({}, input)
    expect(body).toEqual({
      model: 'my gpt',
      messages: input.messages,
      max_completion_tokens: 9,
      stream: true,
      stream_options: { include_usage: true },
      prompt_cache_key: expect.stringMatching(/^[\da-f]{32}$/),
    })
  })

  it('leaves out what an old version does not know', async () => {
    const messages = [{ role: 'system', content: 'Be brief.' }]
    const version = (apiVersion: string) => ({ surface: 'deployments', apiVersion })
    expect((await sent(version('2024-02-01'), input)).json).toEqual({
      model: 'my gpt',
      messages,
      max_tokens: 9,
      stream: true,
    })
    const hints = { reasoning: { effort: 'low' }, verbosity: 'low', metadata: { a: 'b' } } as const
    expect((await sent(version('2024-10-21'), { ...input, ...hints })).json).toEqual({
      model: 'my gpt',
      messages,
      max_completion_tokens: 9,
      stream: true,
      stream_options: { include_usage: true },
    })
  })

  it('has no OpenAI parameters for models of other makers', async () => {
    const reasoning = { effort: 'xhigh' } as const
    const { json: body } = await sent(
      { surface: 'models' },
      { ...input, reasoning, metadata: { a: 'b' } },
    )
    expect(body).toEqual({
      model: 'my gpt',
      messages: [{ role: 'system', content: 'Be brief.' }],
      max_tokens: 9,
      stream: true,
      stream_options: { include_usage: true },
      reasoning_effort: 'high',
    })
  })
})

describe('a filter in a stream', () => {
  const blocked = {
    error: {
      code: 'content_filter',
      message: 'filtered',
      innererror: { content_filter_result: { violence: { filtered: true, severity: 'high' } } },
    },
  }

  it('refuses the request before the first output', async () => {
    await using setup = await setUp(azure, { baseURL: vendor.upstream.url, apiKey: 'k' })
    vendor.upstream.answer(events({ choices: [], prompt_filter_results: [] }, blocked))
    const { failure } = await setup.outcome({ stream: true })
    expect(failure).toMatchObject({ failure: 'content_blocked', status: 400 })
    expect(failure!.message).toMatch(/It found: violence\.$/)
  })

  it('finishes a started answer', async () => {
    await using setup = await setUp(azure, { baseURL: vendor.upstream.url, apiKey: 'k' })
    const usage = { prompt_tokens: 3, completion_tokens: 2 }
    vendor.upstream.answer(events(says('Once upon'), { ...blocked, usage }))
    const outcome = await setup.outcome({ stream: true })
    expect(outcome.failure).toBeUndefined()
    expect(outcome.completion.choices[0]).toMatchObject({
      message: { content: 'Once upon' },
      finish_reason: 'content_filter',
    })
    expect(outcome.usage).toMatchObject({ completion_tokens: 2 })
  })
})
