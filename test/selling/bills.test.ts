/** Bills: which quantity of a call was charged at which price, so that the lines sum to the cost that the client was told. */
import fc from 'fast-check'
import { describe, expect, it, onTestFinished } from 'vitest'
import { loadConfig } from '../../src/config/config.ts'
import { explainRow } from '../../src/state/prices.ts'
import { priceUsage, type UsageLine } from '../../src/money/money.ts'
import { compilePrices, PRICE_NAMES, PRICE_PER_PICO, formatPrice } from '../../src/money/prices.ts'
import { call } from '../_cli.ts'
import { folder } from '../_folder.ts'
import { runs } from '../_runs.ts'
import { createTestGateway, send } from '../_setup.ts'
import { json, startUpstream } from '../upstream.ts'
import { SEED } from '../_seed.ts'

const count = fc.nat({ max: 5_000_000 })
const QUANTITIES = [
  'promptTokens',
  'completionTokens',
  'cachedTokens',
  'cacheWriteTokens',
  'reasoningTokens',
  'audioInputTokens',
  'images',
  'pages',
  'characters',
  'seconds',
  'searches',
  'searchUnits',
]
const usage = fc.record(Object.fromEntries(QUANTITIES.map((name) => [name, count])), {
  requiredKeys: [],
})
const names = PRICE_NAMES.filter((name) => name !== 'vendor_usd')
const unit = fc.bigInt({ min: 0n, max: 10n ** 16n }).map(formatPrice)
const prices = fc
  .record(Object.fromEntries(names.map((name) => [name, unit])), { requiredKeys: [] })
  .map((pricing) => compilePrices(pricing))
const line = fc.record({ source: fc.constantFrom('model', 'search', 'guard'), usage, prices })

it(`explains any cost: sum and rounding less what was waived or cut (seed ${SEED})`, () => {
  const charged = fc.constantFrom(undefined, 'nothing' as const, 'most' as const)
  fc.assert(
    fc.property(fc.array(line, { maxLength: 4 }), charged, (given, how) => {
      const lines = given as UsageLine[]
      const whole = priceUsage(lines).cost
      const cost = how === 'nothing' ? 0n : how === 'most' ? whole / 3n : whole
      const row = { cost, usage: { lines: lines.map(() => ({})), ...(how && { charged: how }) } }
      const { bill } = explainRow(row, lines)
      const amounts = bill.lines.reduce((sum, { amount }) => sum + amount, 0n)
      expect(bill.sum).toBe(amounts)
      expect(bill.rounding >= 0n && bill.rounding < PRICE_PER_PICO).toBe(true)
      expect((bill.sum + bill.rounding) / PRICE_PER_PICO - bill.waived - bill.cut).toBe(cost)
      const products = bill.lines.map(({ unit: price, quantity }) => BigInt(quantity) * price)
      expect(products).toEqual(bill.lines.map(({ amount }) => amount))
    }),
    { numRuns: runs(600), seed: SEED },
  )
})

const TOKEN = 'the-token-of-an-operator'

async function gatewayOf(pricing: object, tokens: object) {
  const vendor = await startUpstream(
    json({
      id: 'c',
      choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
      usage: tokens,
    }),
  )
  onTestFinished(() => vendor.close())
  const config = {
    state: { driver: 'memory' },
    log: { access: false },
    admin: { token: TOKEN },
    providers: {
      acme: { use: 'openai-compatible', options: { baseURL: `${vendor.url}/v1`, apiKey: 'k' } },
    },
    models: {
      'acme/small': {
        free_tier: true,
        pricing,
        deployments: [
          { provider: 'acme', model: 'small', cost: { pricing: { request: '0.001' } } },
        ],
      },
    },
  }
  const cwd = await folder({ 'gateway.config.json': JSON.stringify(config) })
  const gateway = await createTestGateway(await loadConfig({ cwd, env: {} }))
  onTestFinished(() => gateway.close())
  const asked = await gateway.chat({
    model: 'acme/small',
    messages: [{ role: 'user', content: 'Hello' }],
  })
  const id = String(asked.headers['x-service-request-id'])
  return { gateway, id, cost: asked.json.usage.cost as number }
}

const PRICING = { prompt: '0.0000024', completion: '0.0000096' }
const TOKENS = {
  prompt_tokens: 1204,
  completion_tokens: 310,
  completion_tokens_details: { reasoning_tokens: 310 },
  total_tokens: 1514,
}

describe('the bill of a call', () => {
  it('is shown to its holder, without its vendor, and to no other key', async () => {
    const { gateway, id, cost } = await gatewayOf(PRICING, TOKENS)
    const path = `/v1/key/requests/${id}`
    const { data } = (await gateway.ask('GET', path)).json
    expect(data).toMatchObject({ id, cost_usd: cost })
    expect(data.bill).toMatchObject({
      cost_usd: cost,
      lines: [
        {
          source: 'model',
          part: 'prompt_cost',
          price: 'prompt',
          quantity: 1204,
          unit_price_usd: 0.0000024,
          amount_usd: 0.0028896,
        },
        { price: 'reasoning', priced_as: 'completion', quantity: 310, amount_usd: 0.002976 },
      ],
      rounding_usd: 0,
      waived_usd: 0,
      waived_because: null,
    })
    expect(JSON.stringify(data)).not.toMatch(/vendor|deployment|attempt/)
    const other = await gateway.newKey()
    expect((await gateway.ask('GET', path, { key: other.secret })).status).toBe(404)
  })

  it('shows operators with the right to it what the vendor was paid, and its prices', async () => {
    const { gateway, id } = await gatewayOf(PRICING, TOKENS)
    const get = (path: string) =>
      send(`${gateway.url}/admin${path}`, 'GET', undefined, { authorization: `Bearer ${TOKEN}` })
    const { bill } = (await get(`/requests/${id}`)).json.data
    expect(bill.vendor).toMatchObject({
      cost_usd: 0.001,
      lines: [{ price: 'request', quantity: 1 }],
      reported: false,
    })
    const [{ version }] = bill.prices
    expect((await get(`/prices/${version}`)).json.data).toEqual({ version, pricing: PRICING })
    expect((await get('/prices/0123456789abcdef')).status).toBe(404)
  })

  it('is printed with aligned amounts', async () => {
    const { gateway, id } = await gatewayOf(PRICING, TOKENS)
    const { out } = await call([
      'requests',
      'show',
      id,
      '--bill',
      '--url',
      gateway.url,
      '--token',
      TOKEN,
    ])
    expect(out).toBe(
      [
        'model  prompt                  1204  ×  0.0000024  =  0.0028896',
        'model  reasoning (completion)   310  ×  0.0000096  =  0.002976',
        'cost                                                  0.0058656',
        '',
      ].join('\n'),
    )
  })

  it('says what was waived on the free tier', async () => {
    const { gateway } = await gatewayOf(PRICING, TOKENS)
    await gateway.gateway.runtime.accounts.createAccount({ id: 'poor', name: 'Poor' }, 'test')
    const { secret } = await gateway.newKey({ account: 'poor' })
    const body = { model: 'acme/small', messages: [{ role: 'user', content: 'Hello' }] }
    const asked = await gateway.chat(body, { key: secret })
    expect(asked.json.usage.cost).toBe(0)
    const path = `/v1/key/requests/${String(asked.headers['x-service-request-id'])}`
    const { bill } = (await gateway.ask('GET', path, { key: secret })).json.data
    expect(bill).toMatchObject({
      cost_usd: 0,
      sum_usd: 0.0058656,
      waived_usd: 0.0058656,
      waived_because: 'free_tier',
    })
  })
})
