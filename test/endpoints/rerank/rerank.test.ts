import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestGateway, type Answer, type TestGateway } from '../../_setup.ts'
import { json, startUpstream, type FakeUpstream } from '../../upstream.ts'

let vendor: FakeUpstream
let t: TestGateway

beforeAll(async () => {
  vendor = await startUpstream()
  const model = (provider: string, pricing: object, options: object = {}) => ({
    modality: 'rerank' as const,
    pricing: { ...pricing },
    deployments: [{ provider, model: 'r-1', options: { ...options } }],
  })
  t = await createTestGateway({
    providers: {
      mock: { use: 'mock' },
      vendor: { use: 'openai-compatible', options: { baseURL: `${vendor.url}/v1`, apiKey: 'k' } },
    },
    models: {
      'acme/rerank': model('mock', { search_unit: '0.002' }),
      'acme/jina': model('vendor', { prompt: '0.00000002' }),
      'acme/cohere': model('vendor', { search_unit: '0.002' }, { rerank: 'cohere' }),
    },
  })
})
afterAll(async () => {
  await t.close()
  await vendor.close()
})

const DOCUMENTS = ['A red fox.', { text: 'The quick brown fox jumps.', title: 'x' }, 'Nothing.']

function ask(body: object, key?: string): Promise<Answer> {
  const whole = { model: 'acme/rerank', query: 'quick brown fox', documents: DOCUMENTS, ...body }
  return t.ask('POST', '/v1/rerank', { body: whole, ...(key !== undefined && { key }) })
}

const RESULTS = [
  { index: 0, relevance_score: -3 },
  { index: 2, relevance_score: 8.5, document: { text: 'not what was sent' } },
  { index: 1, relevance_score: 0.25 },
]

describe('an answer', () => {
  it('has the documents in order, best first, with quantities and cost', async () => {
    const before = await t.balance()
    const { status, headers, json: answer } = await ask({})
    expect(status, JSON.stringify(answer)).toBe(200)
    expect(answer).toMatchObject({
      id: expect.stringMatching(/^rrk-/),
      object: 'list',
      model: 'acme/rerank',
      meta: { billed_units: { search_units: 1 } },
      usage: { search_units: 1, cost: 0.002, cost_details: { prompt_cost: 0.002 } },
    })
    expect(answer.results.map(({ index }: any) => index)).toEqual([1, 0, 2])
    const document = { text: 'The quick brown fox jumps.' }
    expect(answer.results[0]).toEqual({ index: 1, relevance_score: 1, document })
    expect(headers['x-service-cost']).toBe('0.002')
    expect(before - (await t.balance())).toBe(2_000_000_000n)
  })

  it('has as many results as are wanted, with the documents as they were sent', async () => {
    const { json: answer } = await ask({ top_n: 2 })
    expect(answer.results.map(({ document }: any) => document)).toEqual([
      { text: 'The quick brown fox jumps.' },
      { text: 'A red fox.' },
    ])
    expect((await ask({ top_n: 50 })).json.results).toHaveLength(3)
  })
})

describe('a vendor', () => {
  it('with the API of Jina is paid by the token', async () => {
    vendor.answer(json({ results: RESULTS, usage: { total_tokens: 312 } }))
    const { json: answer } = await ask({
      model: 'acme/jina',
      max_tokens_per_doc: 5,
      top_n: 9,
      return_documents: false,
    })
    const { path, json: sent } = vendor.requests.at(-1)!
    expect(path).toBe('/v1/rerank')
    expect(sent).toEqual({
      model: 'r-1',
      query: 'quick brown fox',
      documents: DOCUMENTS,
      top_n: 3,
      max_tokens_per_doc: 5,
      return_documents: false,
    })
    expect(answer.results).toEqual([
      { index: 2, relevance_score: 8.5 },
      { index: 1, relevance_score: 0.25 },
      { index: 0, relevance_score: -3 },
    ])
    expect(answer.usage).toMatchObject({ total_tokens: 312, cost: 0.00000624 })
  })

  it('with the API of Cohere gets texts, and is paid by the unit', async () => {
    vendor.answer(json({ results: RESULTS, meta: { billed_units: { search_units: 2 } } }))
    const { json: answer } = await ask({ model: 'acme/cohere' })
    const { path, json: sent } = vendor.requests.at(-1)!
    expect(path).toBe('/v2/rerank')
    expect(sent.documents).toEqual(['A red fox.', 'The quick brown fox jumps.', 'Nothing.'])
    expect(answer.usage).toEqual({
      search_units: 2,
      cost: 0.004,
      cost_details: { prompt_cost: 0.004 },
    })
  })

  it('that counts nothing is paid for each 100 documents begun', async () => {
    vendor.answer(json({ results: [{ index: 0, relevance_score: 1 }] }))
    const documents = Array.from({ length: 101 }, () => 'a')
    const { json: answer } = await ask({ model: 'acme/cohere', documents })
    expect(answer.usage).toMatchObject({ search_units: 2, cost: 0.004 })
  })

  it.each([
    ['no results', { results: [] }],
    ['a result for no document', { results: [{ index: 3, relevance_score: 1 }] }],
    ['a result without a score', { results: [{ index: 0 }] }],
    ['something else', { data: [] }],
  ])('that sends %s has failed, and is not paid', async (_, body) => {
    vendor.answer(json(body))
    const before = await t.balance()
    const { status, json: answer } = await ask({ model: 'acme/jina' })
    expect(status).toBe(502)
    expect(answer.error.code).toBe('upstream_error')
    expect(await t.balance()).toBe(before)
  })
})

describe('a bad request', () => {
  it.each([
    ['no query', { query: undefined }, 'missing_required_parameter', 'query'],
    ['an empty query', { query: '' }, 'empty_string', 'query'],
    ['no documents', { documents: [] }, 'empty_array', 'documents'],
    ['too many', { documents: Array(1001).fill('a') }, 'array_above_max_length', 'documents'],
    ['a number', { documents: [1] }, 'invalid_type', 'documents[0]'],
    ['no text', { documents: [{}] }, 'missing_required_parameter', 'documents[0].text'],
    ['no results wanted', { top_n: 0 }, 'integer_below_min_value', 'top_n'],
  ])('with %s says what is wrong', async (_, body, code, param) => {
    const { status, json: answer } = await ask(body)
    expect(status).toBe(400)
    expect(answer.error).toMatchObject({ code, param })
  })

  it('to another route names this one', async () => {
    const body = { model: 'acme/rerank', input: 'a' }
    const { json: answer } = await t.ask('POST', '/v1/embeddings', { body })
    expect(answer.error.code).toBe('wrong_endpoint')
    expect(answer.error.message).toContain('POST /v1/rerank')
  })
})

describe('rules of a key', () => {
  it.each([
    ['the query', { query: 'a swordfish' }],
    ['a document', { documents: ['a', 'the swordfish'] }],
    ['another member of a document', { documents: [{ text: 'a', title: 'swordfish' }] }],
  ])('hold for %s', async (_, body) => {
    const policy = { version: 1 as const, bannedPatterns: ['swordfish'] }
    const key = await t.newKey({ policy })
    const { status, json: answer } = await ask(body, key.secret)
    expect(status).toBe(400)
    expect(answer.error.code).toBe('policy_violation')
    expect((await ask({}, key.secret)).status).toBe(200)
  })
})
