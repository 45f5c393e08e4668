/** What is added to list prices: factors of models, vendors and of everything, and the one rounding of a product. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { loadConfig } from '../../src/config/config.ts'
import { ConfigError } from '../../src/errors/errors.ts'
import { buildCatalog } from '../../src/models/catalog.ts'
import { entryOf } from '../../src/models/listing.ts'
import { timesFactor } from '../../src/models/markup.ts'
import { formatPriceList, type PriceList } from '../../src/models/price-list.ts'
import { formatPrice, parsePrice } from '../../src/money/prices.ts'
import { folder } from '../_folder.ts'

const AT = '2026-11-21T00:00:00Z'
const LATER = '2999-01-01T00:00:00Z'
const CHAT = { modality: 'chat', source: 'test', checked_at: AT }
const LIST: PriceList['models'] = {
  'acme/large': {
    ...CHAT,
    pricing: {
      prompt: '0.000002',
      completion: '0.00001',
      overrides: [{ min_prompt_tokens: 1000, prompt: '0.000004' }],
    },
    price_changes: [{ from: LATER, pricing: { prompt: '0.000003', completion: '0.00002' } }],
  },
  'acme/small': { ...CHAT, pricing: { prompt: '0.000001', completion: '0.000002' } },
}

async function load(config: object) {
  const prices = formatPriceList({ format: 1, generated_at: AT, sources: [], models: LIST })
  const cwd = await folder({
    'gateway.config.json': JSON.stringify({ providers: { acme: { use: 'mock' } }, ...config }),
    'prices.json': prices,
  })
  return (await loadConfig({ cwd, env: {} })).config
}

async function issuesOf(config: object) {
  const error = await load(config).catch((reason: unknown) => reason)
  expect(error).toBeInstanceOf(ConfigError)
  return (error as ConfigError).issues
}

const promptOf = async (config: object, id = 'acme/small') =>
  (await load(config)).models[id]!.pricing.prompt

describe('a markup', () => {
  it('multiplies every price of the list, those of tiers and of later times too', async () => {
    const { models, wildcards } = await load({
      models: { 'acme/*': {} },
      prices: { markup: '1.2' },
    })
    expect(models['acme/large']).toMatchObject({
      pricing: {
        prompt: '0.0000024',
        completion: '0.000012',
        overrides: [{ min_prompt_tokens: 1000, prompt: '0.0000048' }],
      },
      price_changes: [{ from: LATER, pricing: { prompt: '0.0000036', completion: '0.000024' } }],
      price_source: { from: 'test' },
    })
    const model = buildCatalog(models, { bare: true }, wildcards).get('acme/small')!
    expect(entryOf(model)).toMatchObject({
      pricing: { prompt: '0.0000012', completion: '0.0000024' },
    })
  })

  it('is the first of the entry, of its vendor, of its provider, and of everything', async () => {
    const prices = { markup: '2' }
    const providers = { acme: { use: 'mock', markup: '3' } }
    const model = (markup?: string) => ({ 'acme/small': { ...(markup && { markup }) } })
    expect(await promptOf({ models: model(), prices })).toBe('0.000002')
    expect(await promptOf({ models: model(), prices, providers })).toBe('0.000003')
    const wildcard = { 'acme/*': { markup: '4' } }
    expect(await promptOf({ models: wildcard, prices, providers })).toBe('0.000004')
    expect(await promptOf({ models: { ...wildcard, ...model() }, prices, providers })).toBe(
      '0.000004',
    )
    expect(await promptOf({ models: { ...wildcard, ...model('5') }, prices, providers })).toBe(
      '0.000005',
    )
  })

  it('is that of the provider which is asked first', async () => {
    const providers = { one: { use: 'mock', markup: '2' }, two: { use: 'mock', markup: '3' } }
    const deployments = [
      { provider: 'one', model: 'small', priority: 1 },
      { provider: 'two', model: 'small' },
    ]
    expect(await promptOf({ models: { 'acme/small': { deployments } }, providers })).toBe(
      '0.000003',
    )
  })

  it('leaves prices alone that an entry has itself', async () => {
    const own = { pricing: { prompt: '0.5' } }
    expect(await promptOf({ models: { 'acme/small': own }, prices: { markup: '2' } })).toBe('0.5')
    expect(await issuesOf({ models: { 'acme/small': { ...own, markup: '2' } } })).toEqual([
      {
        path: 'models.acme/small.markup',
        message: expect.stringMatching(/^expected none beside "pricing"/),
      },
    ])
  })

  it.each(['0', '-1', '1.2345678', '1001', 'much', 1.2])('of %j is refused', async (value) => {
    const [issue] = await issuesOf({ prices: { markup: value } })
    expect(issue).toMatchObject({
      path: 'prices.markup',
      message: expect.stringContaining('at most "1000" with at most 6 fractional digits'),
    })
  })
})

it('rounds a product up to the last digit of a price, and only where it has more', () => {
  const price = fc.bigInt({ min: 0n, max: 10n ** 18n })
  const millionths = fc.bigInt({ min: 0n, max: 10n ** 9n })
  fc.assert(
    fc.property(price, millionths, (unit, by) => {
      const text = `${by / 1_000_000n}.${String(by % 1_000_000n).padStart(6, '0')}`
      const { prompt } = timesFactor({ prompt: formatPrice(unit) }, text)
      const product = parsePrice(prompt!) * 1_000_000n - unit * by
      expect(product >= 0n && product < 1_000_000n).toBe(true)
      if (unit % 1_000_000n === 0n) expect(product).toBe(0n)
    }),
    { numRuns: 2000 },
  )
})
