import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { UserConfig } from '../../../src/config/config.ts'
import { createTestGateway, type Answer, type TestGateway } from '../../_setup.ts'
import { json, startUpstream, type FakeUpstream } from '../../upstream.ts'

const model = (provider: string, name: string, options: object = {}) => ({
  modality: 'embedding' as const,
  pricing: { prompt: '0.00000002' },
  deployments: [{ provider, model: name, options: { ...options } }],
})

let vendor: FakeUpstream
let t: TestGateway

beforeAll(async () => {
  vendor = await startUpstream()
  const config: UserConfig = {
    providers: {
      mock: { use: 'mock' },
      vendor: { use: 'openai-compatible', options: { baseURL: `${vendor.url}/v1` } },
    },
    models: {
      'acme/embed': model('mock', 'embed'),
      'acme/uncounted': model('mock', 'embed', { usage: 'none' }),
      'acme/vendor': model('vendor', 'e'),
      'acme/small': model('vendor', 'e', { batch: 2 }),
      'acme/chat': {
        pricing: { prompt: '0.000001', completion: '0.000002' },
        deployments: [{ provider: 'mock', model: 'echo' }],
      },
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
  const whole = { model: 'acme/embed', input: 'Hello there', ...body }
  return t.ask('POST', '/v1/embeddings', { body: whole, ...(key !== undefined && { key }) })
}

/** What the vendor answers: a vector for each input, which says the place of the input. */
function counting(form: (numbers: number[]) => unknown, usage: object = { prompt_tokens: 5 }) {
  vendor.answer(({ json: { input } }) =>
    json({
      object: 'list',
      data: input.map((text: string, index: number) => ({
        object: 'embedding',
        index,
        embedding: form([Number(text), 0.5]),
      })),
      usage,
    }),
  )
}

const base64 = (numbers: readonly number[]) =>
  Buffer.from(Float32Array.from(numbers).buffer).toString('base64')

describe('an answer', () => {
  it('has a vector for each input, in their order, with quantities and cost', async () => {
    const before = await t.balance()
    const { status, headers, json: answer } = await ask({ input: ['Hello there', 'Again'] })
    expect(status).toBe(200)
    expect(answer).toMatchObject({ object: 'list', model: 'acme/embed' })
    expect(answer.data.map(({ index }: any) => index)).toEqual([0, 1])
    expect(answer.data[0]).toMatchObject({ object: 'embedding' })
    expect(answer.data[0].embedding).toHaveLength(8)
    expect(answer.data[0].embedding).not.toEqual(answer.data[1].embedding)
    // Three and two tokens of 0.00000002 USD.
    expect(answer.usage).toEqual({
      prompt_tokens: 5,
      total_tokens: 5,
      cost: 0.0000001,
      cost_details: {
        prompt_cost: 0.0000001,
        upstream_inference_prompt_cost: 0.0000001,
        upstream_inference_completions_cost: 0,
      },
    })
    expect(headers['x-service-cost']).toBe('0.0000001')
    expect(before - (await t.balance())).toBe(100_000n)
  })

  it('has vectors of the asked length', async () => {
    const { json: answer } = await ask({ dimensions: 3 })
    expect(answer.data[0].embedding).toHaveLength(3)
  })

  it('is charged by an estimate where the vendor counts nothing', async () => {
    const texts = await ask({ model: 'acme/uncounted', input: ['12345678', '1'] })
    expect(texts.json.usage.prompt_tokens).toBe(3)
    const tokens = await ask({ model: 'acme/uncounted', input: [1, 2, 3, 4] })
    expect(tokens.json.usage.prompt_tokens).toBe(4)
  })

  it.each([
    ['numbers', [1, 2, 3]],
    ['lists of numbers', [[1, 2], [3]]],
  ])('is made of tokens as %s', async (_, input) => {
    const { json: answer } = await ask({ input })
    expect(answer.data).toHaveLength(Array.isArray(input[0]) ? 2 : 1)
  })
})

describe('the encoding', () => {
  const NUMBERS = [7, 0.5]

  it.each([
    ['numbers of numbers', 'float', (numbers: number[]) => numbers],
    ['numbers of base64', 'float', base64],
    ['base64 of base64', 'base64', base64],
    ['base64 of numbers', 'base64', (numbers: number[]) => numbers],
  ])('is %s', async (_, encoding_format, form) => {
    counting(form)
    const { status, json: answer } = await ask({
      model: 'acme/vendor',
      input: '7',
      encoding_format,
    })
    expect(status, JSON.stringify(answer)).toBe(200)
    expect(vendor.requests.at(-1)!.json).toEqual({ model: 'e', input: ['7'], encoding_format })
    expect(answer.data[0].embedding).toEqual(
      encoding_format === 'float' ? NUMBERS : base64(NUMBERS),
    )
  })
})

describe('an answer of a vendor', () => {
  it('is put in the order of the inputs', async () => {
    vendor.answer(
      json({
        data: [
          { index: 1, embedding: [1] },
          { index: 0, embedding: [0] },
        ],
        usage: { prompt_tokens: 2 },
      }),
    )
    const { json: answer } = await ask({ model: 'acme/vendor', input: ['a', 'b'] })
    expect(answer.data.map(({ embedding }: any) => embedding)).toEqual([[0], [1]])
  })

  it.each([
    ['no vector for an input', { data: [{ index: 0, embedding: [1] }] }],
    ['a vector that is none', { data: [{ embedding: [1] }, { embedding: ['x'] }] }],
    ['an empty vector', { data: [{ embedding: [1] }, { embedding: [] }] }],
    ['a text that is not base64', { data: [{ embedding: [1] }, { embedding: 'abc' }] }],
    ['no list', { data: {} }],
  ])('that has %s is a failure, and free', async (_, body) => {
    vendor.answer(json(body))
    const before = await t.balance()
    const { status, json: answer } = await ask({ model: 'acme/vendor', input: ['a', 'b'] })
    expect(status).toBe(502)
    expect(answer.error.code).toBe('upstream_error')
    expect(await t.balance()).toBe(before)
  })

  it('comes in several requests where the vendor takes few inputs, and is charged once', async () => {
    counting((numbers) => numbers)
    const before = vendor.requests.length
    const input = ['0', '1', '2', '3', '4']
    const { json: answer } = await ask({ model: 'acme/small', input })
    const sent = vendor.requests.slice(before).map((request) => request.json.input)
    expect(sent).toEqual([['0', '1'], ['2', '3'], ['4']])
    expect(answer.data.map(({ embedding }: any) => embedding[0])).toEqual([0, 1, 2, 3, 4])
    expect(answer.usage.prompt_tokens).toBe(15)
  })
})

describe('a bad request', () => {
  it.each([
    ['no input', { input: undefined }, 'missing_required_parameter', 'input'],
    ['an empty text', { input: '' }, 'empty_string', 'input'],
    ['an empty list', { input: [] }, 'empty_array', 'input'],
    ['an empty text in a list', { input: ['a', ''] }, 'empty_string', 'input[1]'],
    ['an empty list in a list', { input: [[]] }, 'empty_array', 'input[0]'],
    ['texts and tokens', { input: ['a', 1] }, 'invalid_type', 'input[1]'],
    ['a token that is no integer', { input: [1, 1.5] }, 'invalid_type', 'input[1]'],
    ['an object', { input: {} }, 'invalid_type', 'input'],
    ['too many texts', { input: Array(2049).fill('a') }, 'array_above_max_length', 'input'],
    ['an unknown encoding', { encoding_format: 'hex' }, 'invalid_value', 'encoding_format'],
    ['no dimensions', { dimensions: 0 }, 'integer_below_min_value', 'dimensions'],
    ['more than the model has', { dimensions: 280_124 }, 'unsupported_value', 'dimensions'],
    ['a chat model', { model: 'acme/chat' }, 'wrong_endpoint', 'model'],
  ])('with %s says what is wrong', async (_, body, code, param) => {
    const { status, json: answer } = await ask(body)
    expect(status).toBe(400)
    expect(answer.error).toMatchObject({ code, param })
  })

  it('to chat names this route', async () => {
    const { json: answer } = await t.chat({
      model: 'acme/embed',
      messages: [{ role: 'user', content: 'Hi' }],
    })
    expect(answer.error.code).toBe('wrong_endpoint')
    expect(answer.error.message).toContain('POST /v1/embeddings')
  })
})

describe('rules of a key', () => {
  const keyOf = async (policy: object) =>
    (await t.newKey({ policy: { version: 1, ...policy } })).secret

  it('hold for each text: what they forbid is an error, and nothing is asked', async () => {
    const key = await keyOf({ bannedPatterns: ['swordfish'] })
    counting((numbers) => numbers)
    const before = vendor.requests.length
    const body = { model: 'acme/vendor', input: ['1', 'the sword\u200bfish'] }
    const { status, json: answer } = await ask(body, key)
    expect(status).toBe(400)
    expect(answer.error.code).toBe('policy_violation')
    expect(vendor.requests.length).toBe(before)
    expect((await ask({ ...body, input: ['1', '2'] }, key)).status).toBe(200)
  })

  it('about personal data hold, those about subjects do not', async () => {
    const key = await keyOf({ deny: ['personal-data', 'medical'] })
    const personal = await ask({ input: 'Her IBAN is DE89370400440532013000.' }, key)
    expect(personal.json.error?.code).toBe('policy_violation')
    const medical = 'What dose of ibuprofen should I take for my headache and my fever?'
    expect((await ask({ input: medical }, key)).status).toBe(200)
  })

  it('do not read what comes back', async () => {
    const key = await keyOf({ bannedPatterns: ['embedding'] })
    expect((await ask({}, key)).status).toBe(200)
  })

  it('cannot be checked on tokens', async () => {
    const key = await keyOf({ bannedPatterns: ['swordfish'] })
    const { status, json: answer } = await ask({ input: [1, 2] }, key)
    expect(status).toBe(400)
    expect(answer.error).toMatchObject({ code: 'unsupported_value', param: 'input' })
    expect(answer.error.message).toContain('send text instead of tokens')
    const watching = await keyOf({ bannedPatterns: ['x'], guard: { mode: 'monitor' } })
    expect((await ask({ input: [1, 2] }, watching)).status).toBe(200)
  })
})
