import OpenAI from 'openai'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { formatPico, parsePico } from '../../../src/money/money.ts'
import type { HoldRequest } from '../../../src/state/ledger/ledger.ts'
import { createTestGateway, MOCK_CONFIG, type Answer, type TestGateway } from '../../_setup.ts'
import { honest, isForJudge, vendorOf } from '../../plugins/judge/_judge.ts'
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
      'acme/judge': {
        pricing: { prompt: '0.000001', completion: '0.000002' },
        deployments: [{ provider: 'vendor', model: 'judge', options: { api: 'chat' } }],
      },
      'acme/paid': {
        modality: 'moderation',
        pricing: { request: '0.0001' },
        deployments: [{ provider: 'mock', model: 'm' }],
      },
    },
    guards: {
      use: [
        { use: 'pii' },
        { use: 'judge', options: { model: 'acme/judge' } },
        { use: 'judge', name: 'unnamed' },
        { use: 'judge', name: 'ours', options: { model: 'acme/judge' }, billing: 'operator' },
      ],
    },
    defaults: { limits: { rpm: 1000 } },
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
    expect(await bookedFor(headers)).toMatchObject({ cost: 0n, usage: { model: 'guard' } })
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

/** The entry of a call in the ledger. */
async function bookedFor(headers: Answer['headers']) {
  for await (const row of t.gateway.runtime.ledger.usage('acme')) {
    if (row.request === headers['x-request-id']) return row
  }
  return undefined
}

describe('a guard by its name', () => {
  const CATEGORIES = [
    'code',
    'math',
    'roleplay',
    'medical',
    'legal',
    'financial-advice',
    'personal-data',
  ]
  const see = (text: string) => ({
    ...(text.includes('forbidden') && { code: 0.9 }),
    ...(text.includes('dose') && { medical: 0.7 }),
    ...(text.includes('obey') && { tampering: 0.95 }),
  })
  const questions = () => vendor.requests.filter(isForJudge)
  beforeEach(() => vendor.answer(vendorOf((asked) => honest(asked, see))))

  it('answers for all its rules, at the price of its model', async () => {
    const before = await t.balance()
    const input = ['Good morning.', 'Something forbidden, in a dose.', 'Please obey me.']
    const { status, headers, json: answer } = await ask({ model: 'guard/judge', input })
    expect(status, JSON.stringify(answer)).toBe(200)
    expect(answer.model).toBe('guard/judge')
    expect(Object.keys(answer.results[0].categories)).toEqual([...CATEGORIES, 'tampering'])
    const flags = answer.results.map(({ flagged, categories }: any) => [
      flagged,
      ...Object.keys(categories).filter((name) => categories[name]),
    ])
    expect(flags).toEqual([[false], [true, 'code', 'medical'], [true, 'tampering']])
    expect(answer.results[1].category_scores).toMatchObject({ code: 0.9, medical: 0.7, math: 0 })
    const { cost } = answer.usage
    expect(cost).toBeGreaterThan(0)
    expect(answer.usage).toEqual({ cost, cost_details: { guard_cost: cost } })
    expect(Number(headers['x-service-cost'])).toBe(cost)
    expect(before - (await t.balance())).toBe(parsePico(headers['x-service-cost'] as string))
    expect(await bookedFor(headers)).toMatchObject({
      usage: { model: 'guard/judge', lines: [{ source: 'guard' }, {}, {}, {}, {}] },
    })
  })

  it('judges each text of a long list', async () => {
    const before = questions().length
    const { status, json: answer } = await ask({
      model: 'guard/judge',
      input: Array(30)
        .fill(0)
        .map((_, at) => `Text ${at}.`),
    })
    expect([status, answer.results.length]).toEqual([200, 30])
    expect(questions().length - before).toBe(30)
  })

  it('has money set aside for a question about each text, at most for one of each category', async () => {
    const { ledger } = t.gateway.runtime
    const { hold } = ledger
    const asked: HoldRequest[] = []
    ledger.hold = (request) => {
      asked.push(request)
      return hold.call(ledger, request)
    }
    try {
      const all = Object.fromEntries(CATEGORIES.map((name) => [name.replace('-', '_'), 0.9]))
      const denied = (text: string) => (text.includes('denied') ? all : {})
      vendor.answer(vendorOf((one) => honest(one, denied)))
      const before = questions().length
      const { json: answer } = await ask({ model: 'guard/judge', input: 'All that is denied.' })
      expect(Object.values(answer.results[0].categories).filter(Boolean)).toHaveLength(7)
      expect(questions().length - before).toBe(7)
      await ask({ model: 'guard/judge', input: ['One text.', 'x'.repeat(20_000)] })
      await ask({ model: 'guard/ours', input: 'All that is denied.' })
      await ask({ input: 'All that is denied.' })
    } finally {
      ledger.hold = hold
    }
    const figures = asked.map(({ expected, ceiling }) => [
      formatPico(expected),
      formatPico(ceiling),
    ])
    // 3,000 tokens and 300 of the answer; of a long question 6,000 and 1,200. Four windows have a long text.
    expect(figures).toEqual([
      ['0.0036', '0.0284'],
      ['0.018', '0.082'],
      ['0', '0'],
      ['0', '0'],
    ])
  })

  it('may be a local one, and one whose model the operator pays', async () => {
    const local = await ask({ model: 'guard/pii', input: PERSONAL })
    expect(local.json.results[0]).toMatchObject({
      flagged: true,
      categories: { 'personal-data': true },
    })
    const ours = await ask({ model: 'guard/ours', input: 'Something forbidden.' })
    expect([ours.json.results[0].flagged, ours.json.usage.cost]).toEqual([true, 0])
  })

  it('costs nothing where it cannot look', async () => {
    vendor.answer(json({ error: { message: 'no' } }, 500))
    const before = await t.balance()
    const { status, json: answer } = await ask({ model: 'guard/judge', input: 'Unheard of.' })
    expect([status, answer.error.code]).toEqual([503, 'guard_unavailable'])
    expect(await t.balance()).toBe(before)
  })

  it('has to exist, and to know its model', async () => {
    for (const model of ['guard/nobody', 'guard/unnamed', 'guard/']) {
      const { status, json: answer } = await ask({ model, input: 'a' })
      expect([status, answer.error.code]).toEqual([404, 'model_not_found'])
    }
  })

  it('is for keys that may use it, on accounts that may pay for it', async () => {
    const before = questions().length
    const limited = await t.newKey({ models: ['acme/omni'] })
    // Also where the operator pays: what others pay for is no free model.
    for (const model of ['guard/judge', 'guard/ours']) {
      const refused = await ask({ model, input: 'a' }, limited.secret)
      expect([refused.status, refused.json.error.code]).toEqual([403, 'model_not_allowed'])
    }
    expect((await ask({ input: 'a' }, limited.secret)).status).toBe(200)
    const named = await t.newKey({ models: ['guard/judge'] })
    expect((await ask({ model: 'guard/judge', input: 'b' }, named.secret)).status).toBe(200)
    await t.newAccount('unpaid')
    const free = await t.newKey({ account: 'unpaid' })
    for (const model of ['guard/judge', 'guard/ours']) {
      const unpaid = await ask({ model, input: 'a' }, free.secret)
      expect([unpaid.status, unpaid.json.error.code]).toEqual([403, 'model_not_allowed'])
    }
    expect((await ask({ input: 'a' }, free.secret)).status).toBe(200)
    expect(questions().length - before).toBe(1)
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
