import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestGateway, MOCK_CONFIG, type Answer, type TestGateway } from '../../_setup.ts'
import { json, startUpstream, type FakeUpstream } from '../../upstream.ts'

let vendor: FakeUpstream
let t: TestGateway

beforeAll(async () => {
  vendor = await startUpstream()
  t = await createTestGateway({
    providers: {
      mock: { use: 'mock' },
      vendor: { use: 'openai', options: { baseURL: `${vendor.url}/v1`, apiKey: 'k' } },
    },
    models: {
      'acme/omni': {
        modality: 'moderation',
        pricing: { prompt: '0' },
        deployments: [{ provider: 'vendor', model: 'omni' }],
      },
      'acme/paid': {
        modality: 'moderation',
        pricing: { request: '0.0001' },
        deployments: [{ provider: 'mock', model: 'm' }],
      },
    },
    guards: { use: [{ use: 'pii' }] },
  })
})
afterAll(async () => {
  await t.close()
  await vendor.close()
})

const PERSONAL = 'Her IBAN is DE89370400440532013000.'

function ask(body: object, key?: string): Promise<Answer> {
  return t.ask('POST', '/v1/moderations', { body, ...(key !== undefined && { key }) })
}

describe('the local guards', () => {
  it('say of each text what they would block, free of charge', async () => {
    const before = await t.balance()
    const { status, headers, json: answer } = await ask({ input: ['Good morning.', PERSONAL] })
    expect(status, JSON.stringify(answer)).toBe(200)
    expect(answer).toMatchObject({
      id: expect.stringMatching(/^modr-/),
      model: 'guard',
      usage: { cost: 0, cost_details: {} },
    })
    expect(answer.results).toEqual([
      {
        flagged: false,
        categories: { 'personal-data': false },
        category_scores: { 'personal-data': 0 },
        category_applied_input_types: { 'personal-data': ['text'] },
      },
      {
        flagged: true,
        categories: { 'personal-data': true },
        category_scores: { 'personal-data': expect.closeTo(1, 0) },
        category_applied_input_types: { 'personal-data': ['text'] },
      },
    ])
    expect(headers['x-service-cost']).toBe('0')
    expect(await t.balance()).toBe(before)
  })

  it('answer for keys whose policy forbids what they find', async () => {
    const key = await t.newKey({ policy: { version: 1, deny: ['personal-data'] } })
    const { status, json: answer } = await ask({ model: 'guard', input: PERSONAL }, key.secret)
    expect([status, answer.results[0].flagged]).toEqual([200, true])
  })

  it('read parts as one input, and no images', async () => {
    const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }
    const parts = [{ type: 'text', text: PERSONAL }, image]
    expect((await ask({ input: parts })).json.results).toHaveLength(1)
    const { status, json: answer } = await ask({ input: [image] })
    expect(status).toBe(400)
    expect(answer.error).toMatchObject({ code: 'unsupported_value', param: 'input' })
  })

  it('need a key, and a guard of the configuration', async () => {
    expect((await t.ask('POST', '/v1/moderations', { body: {}, key: null })).status).toBe(401)
    await using bare = await createTestGateway({ ...MOCK_CONFIG, guards: { use: [] } })
    const { status, json: answer } = await bare.ask('POST', '/v1/moderations', {
      body: { input: 'a' },
    })
    expect([status, answer.error.code]).toEqual([404, 'model_not_found'])
  })

  it('answer the official client', async () => {
    const client = new OpenAI({ baseURL: t.baseURL, apiKey: t.key.secret, maxRetries: 0 })
    const { results } = await client.moderations.create({ input: PERSONAL })
    expect(results[0]!.flagged).toBe(true)
    const entry = await client.models.retrieve('acme/omni')
    expect(entry).toMatchObject({ id: 'acme/omni', modality: 'moderation' })
  })
})

describe('a model', () => {
  const RESULTS = [{ flagged: true, categories: { hate: true }, category_scores: { hate: 0.9 } }]

  it('answers with the results of the vendor', async () => {
    vendor.answer(json({ id: 'modr-x', model: 'omni-1', results: RESULTS }))
    const { json: answer } = await ask({ model: 'acme/omni', input: 'a' })
    expect(vendor.requests.at(-1)).toMatchObject({
      path: '/v1/moderations',
      json: { model: 'omni', input: ['a'] },
    })
    expect(answer).toMatchObject({ model: 'acme/omni', results: RESULTS, usage: { cost: 0 } })
  })

  it('is paid by the request', async () => {
    const { headers, json: answer } = await ask({ model: 'acme/paid', input: ['flag', 'b'] })
    expect(answer.results.map(({ flagged }: any) => flagged)).toEqual([true, false])
    expect(answer.usage.cost).toBe(0.0001)
    expect(headers['x-service-cost']).toBe('0.0001')
  })

  it('that leaves an input out has failed', async () => {
    vendor.answer(json({ results: RESULTS }))
    const { status } = await ask({ model: 'acme/omni', input: ['a', 'b'] })
    expect(status).toBe(502)
  })

  it('gets nothing that the rules of the key forbid', async () => {
    const key = await t.newKey({ policy: { version: 1, bannedPatterns: ['swordfish'] } })
    const before = vendor.requests.length
    const { status, json: answer } = await ask(
      { model: 'acme/omni', input: 'swordfish' },
      key.secret,
    )
    expect([status, answer.error.code]).toEqual([400, 'policy_violation'])
    expect(vendor.requests.length).toBe(before)
  })
})

describe('a bad request', () => {
  it.each([
    ['no input', {}, 400, 'missing_required_parameter', 'input'],
    ['an empty text', { input: [''] }, 400, 'empty_string', 'input[0]'],
    ['too many texts', { input: Array(129).fill('a') }, 400, 'array_above_max_length', 'input'],
    [
      'a part without text',
      { input: [{ type: 'text' }] },
      400,
      'missing_required_parameter',
      'input[0].text',
    ],
    [
      'too much text',
      { input: 'a'.repeat(1024 * 1024 + 1) },
      400,
      'string_above_max_length',
      'input',
    ],
    [
      'an unknown model',
      { input: 'a', model: 'omni-moderation-latest' },
      404,
      'model_not_found',
      'model',
    ],
  ])('with %s says what is wrong', async (_, body, status, code, param) => {
    const answer = await ask(body)
    expect(answer.status).toBe(status)
    expect(answer.json.error).toMatchObject({ code, param })
  })
})
