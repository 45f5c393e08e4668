import { Ajv2020 } from 'ajv/dist/2020.js'
import { readFileSync } from 'node:fs'
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { UserConfig } from '../../../../src/config/config.ts'
import { createTestGateway, eventsOf, type Answer, type TestGateway } from '../../../_setup.ts'
import { events, json, startUpstream, type FakeUpstream } from '../../../upstream.ts'

const schema = JSON.parse(
  readFileSync(new URL('../../../wire/schemas/completion.json', import.meta.url), 'utf8'),
)
const isCompletion = new Ajv2020({ strict: false }).compile(schema)

const ABLE = ['STREAMING', 'CHOICES', 'LOGPROBS', 'COMPLETIONS'] as const
const PRICING = { prompt: '0.000001', completion: '0.000002' }

let vendor: FakeUpstream
let t: TestGateway

beforeAll(async () => {
  vendor = await startUpstream()
  const at = (provider: string, options: object = {}, capabilities: readonly string[] = ABLE) => ({
    pricing: PRICING,
    capabilities: [...capabilities] as any,
    deployments: [{ provider, model: 'coder', options: { ...options } }],
  })
  const completes = { completions: true }
  const config: UserConfig = {
    providers: {
      mock: { use: 'mock' },
      vendor: { use: 'openai-compatible', options: { baseURL: `${vendor.url}/v1` } },
      deepseek: {
        use: 'openai-compatible',
        options: { baseURL: `${vendor.url}/v1`, quirks: 'deepseek' },
      },
      mistral: { use: 'mistral', options: { baseURL: `${vendor.url}/v1`, apiKey: 'k' } },
    },
    models: {
      'acme/text': at('mock'),
      'acme/told': at('mock', { reply: 'one two heron three' }),
      'acme/uncounted': at('mock', { reply: 'abcdefgh', usage: 'none' }),
      'acme/breaks': at('mock', { reply: 'a b c d', error: { class: 'upstream_error', after: 2 } }),
      'acme/chat': at('mock', {}, ['STREAMING']),
      'acme/single': at('mock', {}, ['STREAMING', 'COMPLETIONS']),
      'acme/vendor': at('vendor', completes),
      'acme/deepseek': at('deepseek', completes),
      'acme/mistral': at('mistral', completes),
    },
    guards: { use: [{ use: 'pii' }, { use: 'categories' }] },
  }
  t = await createTestGateway(config)
})
afterAll(async () => {
  await t.close()
  await vendor.close()
})

function ask(body: object, key?: string): Promise<Answer> {
  const whole = { model: 'acme/text', prompt: 'Once upon a time', ...body }
  return t.ask('POST', '/v1/completions', { body: whole, ...(key !== undefined && { key }) })
}

/** The events of a stream, each checked against the schema. */
async function streamed(body: object, key?: string): Promise<any[]> {
  const { status, text } = await ask({ stream: true, ...body }, key)
  expect(status, text).toBe(200)
  const all = eventsOf(text)
  expect(all.pop()).toBe('[DONE]')
  for (const event of all) {
    if (event.error) continue
    expect(isCompletion(event), JSON.stringify([event, isCompletion.errors])).toBe(true)
  }
  return all
}

const textOf = (chunks: readonly any[], index = 0) =>
  chunks
    .flatMap((chunk) => chunk.choices ?? [])
    .filter((choice) => choice.index === index)
    .map((choice) => choice.text)
    .join('')

describe('a whole answer', () => {
  it('goes on with the text, with quantities and cost', async () => {
    const before = await t.balance()
    const { status, headers, json: answer } = await ask({})
    expect(status, JSON.stringify(answer)).toBe(200)
    expect(isCompletion(answer), JSON.stringify(isCompletion.errors)).toBe(true)
    expect(answer).toMatchObject({
      id: expect.stringMatching(/^cmpl-[0-9a-f]+$/),
      object: 'text_completion',
      model: 'acme/text',
      choices: [{ text: 'Once upon a time', index: 0, logprobs: null, finish_reason: 'stop' }],
      usage: { prompt_tokens: 4, completion_tokens: 4, total_tokens: 8, cost: 0.000012 },
    })
    expect(headers['x-service-cost']).toBe('0.000012')
    expect(before - (await t.balance())).toBe(12_000_000n)
  })

  it('has all answers to the first prompt before those to the second', async () => {
    const { json: answer } = await ask({ prompt: ['one', 'two'], n: 2 })
    expect(answer.choices.map(({ index, text }: any) => [index, text])).toEqual([
      [0, 'one'],
      [1, 'one'],
      [2, 'two'],
      [3, 'two'],
    ])
  })

  it('begins with the prompt where it is asked to', async () => {
    const { json: answer } = await ask({ prompt: ['one ', 'two '], echo: true })
    expect(answer.choices.map(({ text }: any) => text)).toEqual(['one one ', 'two two '])
  })

  it('has 16 tokens where no other number is asked for', async () => {
    const { json: answer } = await ask({ prompt: 'word '.repeat(100) })
    expect(answer.usage.completion_tokens).toBe(16)
    expect(answer.choices[0].finish_reason).toBe('length')
    const longer = await ask({ prompt: 'word '.repeat(100), max_tokens: 20 })
    expect(longer.json.usage.completion_tokens).toBe(20)
  })

  it('is charged by an estimate where the vendor counts nothing', async () => {
    const { json: answer } = await ask({ model: 'acme/uncounted', prompt: 'abcd', suffix: 'efgh' })
    expect(answer.usage).toMatchObject({ prompt_tokens: 2, completion_tokens: 2 })
  })
})

describe('a stream', () => {
  it('has fragments of the text, the usage with the last one', async () => {
    const before = await t.balance()
    const chunks = await streamed({})
    expect(textOf(chunks)).toBe('Once upon a time')
    expect(chunks.length).toBeGreaterThan(3)
    const finished = chunks.filter(({ choices }) => choices[0].finish_reason !== null)
    expect(finished).toEqual([chunks.at(-1)])
    expect(chunks.filter(({ usage }) => usage)).toEqual([chunks.at(-1)])
    expect(chunks.at(-1).usage.cost).toBe(0.000012)
    expect(before - (await t.balance())).toBe(12_000_000n)
  })

  it('has the usage in an event of its own where it is asked for', async () => {
    const chunks = await streamed({ stream_options: { include_usage: true } })
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { cost: 0.000012 } })
    expect(chunks.slice(0, -1).every(({ usage }) => usage === null)).toBe(true)
  })

  it('begins with the prompt of each choice', async () => {
    const chunks = await streamed({ prompt: ['one ', 'two '], echo: true })
    expect([textOf(chunks, 0), textOf(chunks, 1)]).toEqual(['one one ', 'two two '])
  })

  it('that breaks ends with an error, which says what it cost', async () => {
    const chunks = await streamed({ model: 'acme/breaks' })
    expect(chunks.at(-1).error).toMatchObject({ code: 'upstream_error' })
    expect(chunks.at(-1).error.usage.cost).toBeGreaterThan(0)
  })
})

describe('a request', () => {
  it.each<[string, object, string, string]>([
    ['no prompt', { prompt: undefined }, 'missing_required_parameter', 'prompt'],
    ['tokens', { prompt: [1, 2] }, 'unsupported_value', 'prompt[0]'],
    ['lists of tokens', { prompt: [[1], [2]] }, 'unsupported_value', 'prompt[0]'],
    ['an object', { prompt: {} }, 'invalid_type', 'prompt'],
    ['21 prompts', { prompt: Array(21).fill('x') }, 'array_above_max_length', 'prompt'],
    ['no prompts', { prompt: [] }, 'empty_array', 'prompt'],
    ['too many answers', { prompt: Array(20).fill('x'), n: 7 }, 'integer_above_max_value', 'n'],
    ['six alternatives', { logprobs: 6 }, 'integer_above_max_value', 'logprobs'],
    ['the best of several', { best_of: 3 }, 'unsupported_value', 'best_of'],
    ['no token', { max_tokens: 0 }, 'integer_below_min_value', 'max_tokens'],
    ['a chat model', { model: 'acme/chat' }, 'wrong_endpoint', 'model'],
    ['two answers of one', { model: 'acme/single', n: 2 }, 'unsupported_parameter', 'n'],
    [
      'log probabilities of none',
      { model: 'acme/single', logprobs: 0 },
      'unsupported_parameter',
      'logprobs',
    ],
  ])('with %s is refused', async (_, body, code, param) => {
    const { status, json: answer } = await ask(body)
    expect([status, answer.error.code, answer.error.param]).toEqual([400, code, param])
  })

  it('may be null where a member is optional', async () => {
    const { status, text } = await ask({
      suffix: null,
      n: null,
      stop: [],
      best_of: null,
      echo: null,
      stream_options: null,
    })
    expect(status, text).toBe(200)
  })

  it('names the route for chats', async () => {
    const { json: answer } = await ask({ model: 'acme/chat' })
    expect(answer.error.message).toContain('POST /v1/chat/completions')
  })

  it('has at most 1 MiB', async () => {
    const { status, json: answer } = await ask({ prompt: 'x'.repeat(1024 * 1024) })
    expect([status, answer.error.code]).toEqual([413, 'request_too_large'])
  })
})

describe('a vendor', () => {
  const told = (choices: readonly object[], usage: object = { prompt_tokens: 3 }) =>
    json({ id: 'x', object: 'text_completion', choices, usage: { completion_tokens: 2, ...usage } })
  const sent = () => vendor.requests.at(-1)!

  it("with OpenAI's API gets the members of the request, and unknown ones", async () => {
    vendor.answer(told([{ text: ' there', index: 0, finish_reason: 'length' }]))
    const { json: answer } = await ask({
      model: 'acme/vendor',
      prompt: 'def f(',
      suffix: ')',
      max_tokens: 5,
      temperature: 0.5,
      guided_regex: 'x',
      echo: true,
      policy: { version: 1 },
      messages: 'no member of this API',
    })
    expect(sent().path).toBe('/v1/completions')
    expect(sent().json).toEqual({
      model: 'coder',
      prompt: 'def f(',
      suffix: ')',
      max_tokens: 5,
      temperature: 0.5,
      guided_regex: 'x',
    })
    expect(answer.choices).toEqual([
      { text: 'def f( there', index: 0, logprobs: null, finish_reason: 'length' },
    ])
    expect(answer.usage).toMatchObject({ prompt_tokens: 3, completion_tokens: 2 })
  })

  it('streams', async () => {
    vendor.answer(
      events(
        { choices: [{ text: ' th', index: 0, finish_reason: null }] },
        { choices: [{ text: 'ere', index: 0, finish_reason: null }] },
        { choices: [{ text: '', index: 0, finish_reason: 'stop' }] },
        { choices: [], usage: { prompt_tokens: 3, completion_tokens: 2 } },
        '[DONE]',
      ),
    )
    const chunks = await streamed({ model: 'acme/vendor' })
    expect(sent().json).toMatchObject({ stream: true, stream_options: { include_usage: true } })
    expect(textOf(chunks)).toBe(' there')
    expect(chunks.at(-1).usage).toMatchObject({ prompt_tokens: 3, completion_tokens: 2 })
  })

  it('gives log probabilities, with places in the whole text', async () => {
    const logprobs = {
      tokens: [' th', 'ere'],
      token_logprobs: [-0.5, -0.25],
      top_logprobs: [{ ' th': -0.5, x: -3 }, {}],
      text_offset: [7, 8],
    }
    vendor.answer(told([{ text: ' there', index: 0, finish_reason: 'stop', logprobs }]))
    const asked = { model: 'acme/vendor', prompt: 'Hi', logprobs: 2, echo: true }
    const { json: answer } = await ask(asked)
    expect(sent().json).toMatchObject({ logprobs: 2 })
    expect(answer.choices[0].logprobs).toEqual({ ...logprobs, text_offset: [2, 5] })
  })

  it('that answers as chats do is read, too: Mistral fills in the middle', async () => {
    const message = { role: 'assistant', content: 'return 1' }
    vendor.answer(told([{ message, index: 0, finish_reason: 'stop' }]))
    const body = { model: 'acme/mistral', prompt: 'def f():', suffix: '\n', seed: 4, n: 1 }
    const { json: answer } = await ask(body)
    expect(sent().path).toBe('/v1/fim/completions')
    expect(sent().json).toEqual({
      model: 'coder',
      prompt: 'def f():',
      suffix: '\n',
      max_tokens: 16,
      random_seed: 4,
    })
    expect(answer.choices[0].text).toBe('return 1')
    const many = await ask({ model: 'acme/mistral', prompt: ['a', 'b'] })
    expect([many.status, many.json.error.code, many.json.error.param]).toEqual([
      400,
      'unsupported_value',
      'prompt',
    ])
  })

  it('may have it beside its API: DeepSeek', async () => {
    vendor.answer(told([{ text: 'x', index: 0, finish_reason: 'stop' }]))
    expect((await ask({ model: 'acme/deepseek' })).status).toBe(200)
    expect(sent().path).toBe('/beta/completions')
  })

  it('that refuses is told of with the name of its member', async () => {
    vendor.answer(json({ error: { message: 'too long', type: 'invalid_request_error' } }, 400))
    const { status, json: answer } = await ask({ model: 'acme/vendor' })
    expect([status, answer.error.code]).toEqual([400, 'upstream_rejected'])
  })
})

describe('a policy', () => {
  const NO = "I can't help with that here."
  const keys: Record<string, string> = {}
  beforeAll(async () => {
    const made = async (policy: object) =>
      (await t.newKey({ policy: { version: 1, ...policy } })).secret
    keys.heron = await made({ bannedPatterns: ['heron'] })
    keys.prompted = await made({ systemPrompt: 'Be kind.' })
    keys.denied = await made({ deny: ['code'] })
    keys.watched = await made({ deny: ['code'], guard: { mode: 'monitor' } })
    keys.short = await made({ maxOutputTokens: 2 })
  })
  it.each([
    ['a prompt', { prompt: ['fine', 'a grey heron'] }],
    ['the suffix', { suffix: 'a grey heron' }],
    ['a member that only the vendor knows', { guided_regex: 'heron' }],
    ['the name of a session', { session_id: 'heron' }],
  ])('reads %s before it is sent', async (_, body) => {
    const asked = vendor.requests.length
    const { status, json: answer } = await ask({ model: 'acme/vendor', ...body }, keys.heron)
    expect(status).toBe(200)
    expect(answer.choices.map(({ text, finish_reason }: any) => [text, finish_reason])).toEqual(
      Array.from({ length: 'prompt' in body ? 2 : 1 }, () => [NO, 'content_filter']),
    )
    expect(answer.usage.cost).toBe(0)
    expect(answer.guard).toMatchObject({ outcome: 'blocked', side: 'input' })
    expect(vendor.requests).toHaveLength(asked)
  })

  it.each([false, true])('keeps back what an answer must not say, streamed: %s', async (stream) => {
    const body = { model: 'acme/told', stream }
    const { text } = await ask(body, keys.heron)
    expect(text).not.toContain('heron')
    expect(text).toContain("I can't help")
    const said = stream ? textOf(eventsOf(text).slice(0, -1)) : JSON.parse(text).choices[0].text
    expect(said).toBe(stream ? `one two \n\n${NO}` : NO)
  })

  it.each(['prompted', 'denied'])(
    'whose instructions have no place in a text (%s) refers to chats',
    async (name) => {
      const { status, json: answer } = await ask({}, keys[name])
      expect(status).toBe(400)
      expect(answer.error).toMatchObject({
        code: 'unsupported_value',
        param: 'model',
        message: "This key's instructions need POST /v1/chat/completions.",
      })
    },
  )

  it('that monitors refers to nothing', async () => {
    expect((await ask({}, keys.watched)).status).toBe(200)
  })

  it('has a ceiling, which the vendor is told and which holds', async () => {
    vendor.answer(
      json({ choices: [{ text: 'word '.repeat(99), index: 0, finish_reason: 'stop' }] }),
    )
    const { json: answer } = await ask({ model: 'acme/vendor', max_tokens: 9 }, keys.short)
    expect(vendor.requests.at(-1)!.json.max_tokens).toBe(2)
    expect(answer.choices[0].finish_reason).toBe('length')
    expect(answer.choices[0].text.length).toBeLessThan(300)
  })
})

it('works with the official client', async () => {
  const client = new OpenAI({ apiKey: t.key.secret, baseURL: t.baseURL })
  const whole = await client.completions.create({ model: 'acme/text', prompt: 'Once upon' })
  expect(whole.choices[0]!.text).toBe('Once upon')
  let text = ''
  const asked = { model: 'acme/text', prompt: 'Once upon', stream: true } as const
  for await (const chunk of await client.completions.create(asked)) text += chunk.choices[0]!.text
  expect(text).toBe('Once upon')
})

it('needs a provider that has it', async () => {
  const model = (options: object) => ({
    pricing: PRICING,
    capabilities: ['COMPLETIONS' as const],
    deployments: [{ provider: 'vendor', model: 'coder', options: { ...options } }],
  })
  const providers = { vendor: { use: 'openai-compatible', options: { baseURL: vendor.url } } }
  await expect(
    createTestGateway({ providers, models: { 'acme/text': model({}) } }),
  ).rejects.toMatchObject({
    issues: [
      {
        path: 'models.acme/text.deployments.0.provider',
        message: expect.stringMatching(/COMPLETIONS.*does not complete texts/),
      },
    ],
  })
})
