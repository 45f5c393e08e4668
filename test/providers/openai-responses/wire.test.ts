/** Which API a deployment is asked with, and requests that are repeated without what was refused. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import azure from '../../../providers/azure.ts'
import compatible from '../../../providers/openai-compatible.ts'
import openai from '../../../providers/openai.ts'
import type { ChatInput, ProviderPlugin } from '../../../src/plugin.ts'
import {
  events,
  json,
  startUpstream,
  type FakeResponse,
  type FakeUpstream,
} from '../../upstream.ts'
import { setUp, type Outcome, type RequestOptions } from '../_chat.ts'

const CHAT = json({ choices: [{ index: 0, message: { content: 'Hi' }, finish_reason: 'stop' }] })
const usage = { input_tokens: 3, output_tokens: 1 }
const output = [
  { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Hi' }] },
]
const RESPONSE = json({ status: 'completed', output, usage })
const refused = (error: object, status = 400) => json({ error }, status)
const TOOLS_REFUSED = refused({
  message:
    "Function tools with reasoning_effort are not supported for gpt-5.9 in /v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to 'none'.",
  type: 'invalid_request_error',
  param: 'reasoning_effort',
  code: null,
})

let upstream: FakeUpstream

beforeAll(async () => {
  upstream = await startUpstream()
})

afterAll(() => upstream.close())

/** The wires of requests since the last call. */
let asked = 0
function wires(): string[] {
  const seen = upstream.requests.slice(asked)
  asked = upstream.requests.length
  return seen.map(({ path }) => (path.includes('/responses') ? 'responses' : 'chat'))
}

/** Answers each wire in its own form. */
function eachWire(chat: FakeResponse = CHAT, responses: FakeResponse = RESPONSE): void {
  upstream.answer(({ path }) => (path.includes('/responses') ? responses : chat))
}

beforeEach(() => {
  wires()
  eachWire()
})

const at = (plugin: ProviderPlugin<any, any>, options: object = {}) =>
  setUp(plugin, { baseURL: upstream.url, apiKey: 'k', ...options })

describe('the wire', () => {
  const auto = [
    ['gpt-5.4', 'responses'],
    ['gpt-5.4-mini', 'responses'],
    ['gpt-5.10', 'responses'],
    ['ft:gpt-5.6:acme', 'responses'],
    ['gpt-6', 'responses'],
    ['gpt-12-turbo', 'responses'],
    ['gpt-5-pro', 'responses'],
    ['gpt-5.2-codex', 'responses'],
    ['gpt-5', 'chat'],
    ['gpt-5.3', 'chat'],
    ['gpt-5-mini', 'chat'],
    ['gpt-4.1', 'chat'],
    ['gpt-4o', 'chat'],
    ['gpt-35-turbo', 'chat'],
    ['o4-mini', 'chat'],
    ['my-gpt-6', 'chat'],
  ] as const

  it.each(auto)('of %s is %s', async (model, wire) => {
    for (const plugin of [openai, azure]) {
      await using setup = await at(plugin)
      expect((await setup.outcome({}, { model })).completion.choices[0]!.message.content).toBe('Hi')
      expect(wires()).toEqual([wire])
    }
  })

  it('is chosen by the operator', async () => {
    for (const plugin of [openai, azure, compatible]) {
      await using setup = await at(plugin)
      await setup.ask({}, { model: 'gpt-4.1', options: { api: 'responses' } })
      await setup.ask({}, { model: 'gpt-6', options: { api: 'chat' } })
      expect(wires()).toEqual(['responses', 'chat'])
    }
  })

  it('is chat completions at other servers and surfaces', async () => {
    for (const [plugin, options] of [
      [compatible, {}],
      [azure, { surface: 'deployments' }],
      [azure, { surface: 'models' }],
    ] as const) {
      await using setup = await at(plugin, options)
      await setup.ask({}, { model: 'gpt-6' })
      eachWire(TOOLS_REFUSED)
      expect((await setup.outcome({}, { model: 'gpt-6' })).failure?.failure).toBe('bad_request')
      eachWire()
      expect(wires()).toEqual(['chat', 'chat'])
    }
  })

  it('has one address below the resource at Azure', async () => {
    await using setup = await at(azure, { apiVersion: 'preview' })
    await setup.ask({}, { model: 'our gpt', options: { api: 'responses' } })
    const { path, headers, json: body } = upstream.requests.at(-1)!
    expect(path).toBe('/openai/v1/responses?api-version=preview')
    expect(headers).toMatchObject({ 'api-key': 'k' })
    expect(body.model).toBe('our gpt')
  })
})

describe('a vendor that refers to the Responses API', () => {
  const FOR_ALL = refused(
    { message: 'This model is only supported in v1/responses and not in v1/chat/completions.' },
    404,
  )

  it.each([
    ['tools', TOOLS_REFUSED],
    ['the model', FOR_ALL],
  ])('for %s is believed, for good', async (_what, refusal) => {
    for (const plugin of [openai, azure]) {
      await using setup = await at(plugin)
      eachWire(refusal)
      const how = { model: 'our-deployment' }
      expect((await setup.outcome({}, how)).completion.choices[0]!.message.content).toBe('Hi')
      await setup.ask({ stream: true }, how)
      expect(wires()).toEqual(['chat', 'responses', 'responses'])
      // Others are not concerned.
      eachWire()
      await setup.ask({}, { model: 'gpt-4.1' })
      expect(wires()).toEqual(['chat'])
    }
  })

  it('is asked once more only, and not where the operator has chosen', async () => {
    await using setup = await at(openai)
    eachWire(TOOLS_REFUSED, refused({ message: 'Use /v1/responses.' }))
    expect((await setup.outcome({})).failure?.failure).toBe('bad_request')
    expect(wires()).toEqual(['chat', 'responses'])
    const { failure } = await setup.outcome({}, { model: 'x', options: { api: 'chat' } })
    expect(failure).toMatchObject({ failure: 'bad_request', param: 'reasoning_effort' })
    expect(wires()).toEqual(['chat'])
  })
})

describe('what a model or an organization does not have', () => {
  const how: RequestOptions = { model: 'gpt-6' }
  const details = [
    {
      type: 'reasoning.encrypted',
      data: 'gAAA',
      id: 'rs_1',
      format: 'openai-responses-v1',
      index: 0,
    },
  ]
  const replayed: Partial<ChatInput> = {
    messages: [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: 'Yes', reasoning_details: details },
      { role: 'user', content: 'And?' },
    ],
  }

  /** Refuses bodies with a member, and answers others. */
  function refuseWith(error: object, has: (body: any) => boolean, answer: FakeResponse = RESPONSE) {
    upstream.answer(({ json: body }) => (has(body) ? refused(error) : answer))
  }
  const said = ({ completion }: Outcome) => completion.choices[0]!.message.content

  it('summaries are left out, for good', async () => {
    await using setup = await at(openai)
    const message = 'Your organization must be verified to generate reasoning summaries.'
    refuseWith({ message, param: 'reasoning.summary' }, (body) => body.reasoning?.summary)
    const input = { reasoning: { effort: 'low' } } as const
    expect(said(await setup.outcome(input, how))).toBe('Hi')
    expect(said(await setup.outcome(input, how))).toBe('Hi')
    expect(wires()).toHaveLength(3)
    expect(upstream.requests.at(-1)!.json.reasoning).toEqual({ effort: 'low' })
    expect(said(await setup.outcome({ reasoning: { enabled: true } }, how))).toBe('Hi')
    expect(upstream.requests.at(-1)!.json).not.toHaveProperty('reasoning')
  })

  it('encrypted reasoning is not asked of a model that has none', async () => {
    await using setup = await at(azure)
    const message = 'Encrypted content is not supported with this model.'
    refuseWith({ message, param: 'include' }, (body) => body.include)
    const model = { model: 'our-small-one', options: { api: 'responses' } }
    expect(said(await setup.outcome({ temperature: 0.5 }, model))).toBe('Hi')
    expect(said(await setup.outcome({ temperature: 0.5 }, model))).toBe('Hi')
    expect(wires()).toHaveLength(3)
    expect(upstream.requests.at(-1)!.json).toMatchObject({ temperature: 0.5 })
  })

  const broken = {
    message: 'The encrypted content gAAA could not be verified.',
    code: 'invalid_encrypted_content',
  }
  const hasReasoning = (body: any) => body.input.some(({ type }: any) => type === 'reasoning')

  it('reasoning of another organization is left out, of one request', async () => {
    await using setup = await at(openai)
    refuseWith({ ...broken, type: 'invalid_request_error' }, hasReasoning)
    expect(said(await setup.outcome(replayed, how))).toBe('Hi')
    expect(said(await setup.outcome({ ...replayed, stream: true }, how))).toBe('Hi')
    expect(wires()).toHaveLength(4)
  })

  it('reasoning may be refused in the stream', async () => {
    await using setup = await at(openai)
    const failed = { type: 'response.failed', response: { status: 'failed', error: broken } }
    upstream.answer(({ json: body }) =>
      hasReasoning(body)
        ? events({ type: 'response.created', response: {} }, failed)
        : events({ type: 'response.completed', response: { status: 'completed', output, usage } }),
    )
    const outcome = await setup.outcome({ ...replayed, stream: true }, how)
    expect(outcome.failure).toBeUndefined()
    expect(said(outcome)).toBe('Hi')
    expect(wires()).toHaveLength(2)
  })

  it('nothing else is sent twice', async () => {
    await using setup = await at(openai)
    for (const error of [broken, { message: 'No summary.', param: 'x' }, {}]) {
      upstream.answer(refused(error))
      expect((await setup.outcome({ reasoning: {} }, how)).failure?.failure).toBe('bad_request')
      expect(wires()).toHaveLength(1)
    }
    // An answer that has begun is not asked for again.
    const delta = {
      type: 'response.output_text.delta',
      output_index: 0,
      content_index: 0,
      delta: 'A',
    }
    const failed = { type: 'response.failed', response: { error: broken, usage } }
    upstream.answer(events(delta, failed))
    const outcome = await setup.outcome({ ...replayed, stream: true }, how)
    expect(outcome).toMatchObject({
      failure: { failure: 'bad_request' },
      usage: { prompt_tokens: 3 },
    })
    expect(wires()).toHaveLength(1)
  })
})
