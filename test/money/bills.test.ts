/** Bills of long prompts, cache writes and tokens with prices of their own: worked by hand. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { HoldEstimator } from '../../src/money/holds.ts'
import { formatPico, priceUsage, type UsageLine } from '../../src/money/money.ts'
import { compilePrices, type Pricing } from '../../src/money/prices.ts'
import type { Usage } from '../../src/plugin.ts'
import { createTestGateway, eventsOf, hello, type TestGateway } from '../_setup.ts'

const LONG: Pricing = {
  prompt: '0.000002',
  input_cache_read: '0.0000002',
  completion: '0.00001',
  overrides: [
    {
      min_prompt_tokens: 272_001,
      prompt: '0.000004',
      input_cache_read: '0.0000004',
      completion: '0.000015',
    },
  ],
}
const WRITES = {
  prompt: '0.000003',
  input_cache_read: '0.0000003',
  input_cache_write: '0.00000375',
  input_cache_write_1h: '0.000006',
  completion: '0.000015',
} as const
const { input_cache_write_1h: _hour, ...WRITES_5M } = WRITES
const REASONS: Pricing = { prompt: '0.000001', completion: '0.000002', reasoning: '0.000003' }
const { reasoning: _reasoning, ...PLAIN } = REASONS
const HEARS: Pricing = {
  prompt: '0.0000001',
  audio: '0.0000003',
  input_cache_read: '0.00000001',
  audio_cache_read: '0.00000003',
}
const { audio_cache_read: _read, ...HEARS_PLAIN_CACHE } = HEARS
const { input_cache_read: _cache, ...HEARS_UNCACHED } = HEARS_PLAIN_CACHE
const SPEAKS: Pricing = { prompt: '0.000001', completion: '0.000002', audio_output: '0.000008' }
const PAINTS: Pricing = {
  prompt: '0.000005',
  image_token: '0.00001',
  image_cache_read: '0.0000025',
  image_output: '0.00004',
}
const FIVEFOLD: Pricing = {
  prompt: '0.0000001',
  input_cache_read: '0.00000001',
  input_cache_write: '0.000000125',
  completion: '0.0000005',
  // Cached tokens keep their prices.
  overrides: [{ min_prompt_tokens: 100_001, prompt: '0.0000005', completion: '0.0000025' }],
}
const STEPS: Pricing = {
  prompt: '0.000001',
  completion: '0.000002',
  web_search: '0.005',
  overrides: [
    { min_prompt_tokens: 1001, prompt: '0.000002' },
    { min_prompt_tokens: 2001, prompt: '0.000003', completion: '0.000004', request: '0.01' },
  ],
}
const FINE: Pricing = {
  prompt: '0.0000000000001',
  overrides: [{ min_prompt_tokens: 10, prompt: '0.00000000000015' }],
}
const TIERED_WRITES: Pricing = {
  prompt: '0.000001',
  input_cache_write: '0.00000125',
  overrides: [{ min_prompt_tokens: 101, input_cache_write: '0.0000025' }],
}

const used = (promptTokens: number, completionTokens: number, parts: Usage = {}): Usage => ({
  promptTokens,
  completionTokens,
  ...parts,
})

const line = (pricing: Pricing, usage: Usage, source: UsageLine['source'] = 'model') => ({
  source,
  usage,
  prices: compilePrices(pricing),
})

const billOf = (...lines: UsageLine[]) => {
  const { cost, details } = priceUsage(lines)
  const parts = details.map(({ member, amount }) => [member, formatPico(amount)])
  return { cost: formatPico(cost), ...Object.fromEntries(parts) }
}

describe('a bill worked by hand', () => {
  const cached = { cachedTokens: 200_000 }
  const BILLS: [string, Pricing, Usage, Record<string, string>][] = [
    [
      'one token below the border',
      LONG,
      used(271_999, 1),
      { cost: '0.544008', prompt_cost: '0.543998', completion_cost: '0.00001' },
    ],
    ['the last token at the base', LONG, used(272_000, 0), { cost: '0.544', prompt_cost: '0.544' }],
    [
      'the last one, cached',
      LONG,
      used(272_000, 1000, cached),
      { cost: '0.194', prompt_cost: '0.144', cache_read_cost: '0.04', completion_cost: '0.01' },
    ],
    [
      'the first token of the tier',
      LONG,
      used(272_001, 0),
      { cost: '1.088004', prompt_cost: '1.088004' },
    ],
    [
      'the first one, cached',
      LONG,
      used(272_001, 1000, cached),
      {
        cost: '0.383004',
        prompt_cost: '0.288004',
        cache_read_cost: '0.08',
        completion_cost: '0.015',
      },
    ],
    [
      'a prompt above the border that is cached whole',
      LONG,
      used(272_001, 0, { cachedTokens: 272_001 }),
      { cost: '0.1088004', cache_read_cost: '0.1088004' },
    ],
    [
      'far above the border',
      LONG,
      used(300_000, 1000, cached),
      { cost: '0.495', prompt_cost: '0.4', cache_read_cost: '0.08', completion_cost: '0.015' },
    ],
    [
      'a tier that leaves prices, below',
      FIVEFOLD,
      used(100_000, 100, { cachedTokens: 40_000, cacheWriteTokens: 50_000 }),
      {
        cost: '0.0077',
        prompt_cost: '0.001',
        cache_read_cost: '0.0004',
        cache_write_cost: '0.00625',
        completion_cost: '0.00005',
      },
    ],
    [
      'a tier that leaves prices, above',
      FIVEFOLD,
      used(100_001, 100, { cachedTokens: 40_000, cacheWriteTokens: 50_000 }),
      {
        cost: '0.0119005',
        prompt_cost: '0.0050005',
        cache_read_cost: '0.0004',
        cache_write_cost: '0.00625',
        completion_cost: '0.00025',
      },
    ],
    [
      'two tiers: the base',
      STEPS,
      used(1000, 10),
      { cost: '0.00102', prompt_cost: '0.001', completion_cost: '0.00002' },
    ],
    [
      'two tiers: the first begins',
      STEPS,
      used(1001, 10),
      { cost: '0.002022', prompt_cost: '0.002002', completion_cost: '0.00002' },
    ],
    [
      'two tiers: the first ends',
      STEPS,
      used(2000, 10),
      { cost: '0.00402', prompt_cost: '0.004', completion_cost: '0.00002' },
    ],
    [
      'two tiers: the second begins, with a fee',
      STEPS,
      used(2001, 10),
      { cost: '0.016043', prompt_cost: '0.016003', completion_cost: '0.00004' },
    ],
    [
      'units beside a tier',
      STEPS,
      used(2001, 0, { searches: 2 }),
      { cost: '0.026003', prompt_cost: '0.016003', web_search_cost: '0.01' },
    ],
    [
      'a tier of a price that an hour of cache falls back to',
      TIERED_WRITES,
      used(101, 0, { cacheWriteTokens: 101, cacheWrite1hTokens: 50 }),
      { cost: '0.0002525', cache_write_cost: '0.0002525' },
    ],
    [
      'below it',
      TIERED_WRITES,
      used(100, 0, { cacheWriteTokens: 100, cacheWrite1hTokens: 50 }),
      { cost: '0.000125', cache_write_cost: '0.000125' },
    ],
    [
      'writes of both lifetimes',
      WRITES,
      used(81_000, 500, {
        cachedTokens: 50_000,
        cacheWriteTokens: 30_000,
        cacheWrite1hTokens: 10_000,
      }),
      {
        cost: '0.1605',
        prompt_cost: '0.003',
        cache_read_cost: '0.015',
        cache_write_cost: '0.135',
        completion_cost: '0.0075',
      },
    ],
    [
      'writes of five minutes alone',
      WRITES,
      used(30_000, 0, { cacheWriteTokens: 30_000 }),
      { cost: '0.1125', cache_write_cost: '0.1125' },
    ],
    [
      'writes of an hour alone',
      WRITES,
      used(30_000, 0, { cacheWriteTokens: 30_000, cacheWrite1hTokens: 30_000 }),
      { cost: '0.18', cache_write_cost: '0.18' },
    ],
    [
      'no cache at all',
      WRITES,
      used(10, 1),
      { cost: '0.000045', prompt_cost: '0.00003', completion_cost: '0.000015' },
    ],
    [
      'an hour without a price of its own',
      WRITES_5M,
      used(1000, 0, { cacheWriteTokens: 1000, cacheWrite1hTokens: 400 }),
      { cost: '0.00375', cache_write_cost: '0.00375' },
    ],
    [
      'writes without any price of their own',
      { prompt: '0.000003' },
      used(1000, 0, { cacheWriteTokens: 1000, cacheWrite1hTokens: 400 }),
      { cost: '0.003', cache_write_cost: '0.003' },
    ],
    [
      'reasoning with a price',
      REASONS,
      used(100, 1200, { reasoningTokens: 800 }),
      { cost: '0.0033', prompt_cost: '0.0001', completion_cost: '0.0032' },
    ],
    [
      'reasoning alone',
      REASONS,
      used(0, 800, { reasoningTokens: 800 }),
      { cost: '0.0024', completion_cost: '0.0024' },
    ],
    [
      'reasoning without a price of its own',
      PLAIN,
      used(100, 1200, { reasoningTokens: 800 }),
      { cost: '0.0025', prompt_cost: '0.0001', completion_cost: '0.0024' },
    ],
    [
      'sound, partly cached',
      HEARS,
      used(1000, 0, { audioInputTokens: 400, cachedTokens: 300, cachedAudioTokens: 100 }),
      { cost: '0.000155', prompt_cost: '0.00015', cache_read_cost: '0.000005' },
    ],
    [
      'cached sound without a price of its own',
      HEARS_PLAIN_CACHE,
      used(1000, 0, { audioInputTokens: 400, cachedTokens: 300, cachedAudioTokens: 100 }),
      { cost: '0.000153', prompt_cost: '0.00015', cache_read_cost: '0.000003' },
    ],
    [
      'cached sound without any price for the cache',
      HEARS_UNCACHED,
      used(1000, 0, { audioInputTokens: 400, cachedTokens: 300, cachedAudioTokens: 100 }),
      { cost: '0.00018', prompt_cost: '0.00015', cache_read_cost: '0.00003' },
    ],
    [
      'sound that a vendor counts as cached and as heard',
      HEARS,
      used(1000, 0, { audioInputTokens: 1000, cachedTokens: 1000, cachedAudioTokens: 1000 }),
      { cost: '0.00003', cache_read_cost: '0.00003' },
    ],
    [
      'spoken output',
      SPEAKS,
      used(50, 500, { audioOutputTokens: 300 }),
      { cost: '0.00285', prompt_cost: '0.00005', completion_cost: '0.0028' },
    ],
    [
      'images in and out',
      PAINTS,
      used(1100, 4160, { imageInputTokens: 1000, imageOutputTokens: 4160 }),
      { cost: '0.1769', prompt_cost: '0.0105', image_cost: '0.1664' },
    ],
    [
      'images from a cache',
      PAINTS,
      used(2100, 100, {
        cachedTokens: 1000,
        cachedImageTokens: 1000,
        imageInputTokens: 1000,
        imageOutputTokens: 100,
      }),
      { cost: '0.017', prompt_cost: '0.0105', cache_read_cost: '0.0025', image_cost: '0.004' },
    ],
    [
      'a part of a pico-dollar, below the border',
      FINE,
      used(9, 0),
      { cost: '0.000000000001', prompt_cost: '0.000000000001' },
    ],
    [
      'a part of a pico-dollar, at the border',
      FINE,
      used(10, 0),
      { cost: '0.000000000002', prompt_cost: '0.000000000002' },
    ],
  ]
  it.each(BILLS)('%s', (_, pricing, usage, bill) => {
    expect(billOf(line(pricing, usage))).toEqual(bill)
  })

  it('has a tier for each line by its own prompt: a guard with a long one beside a short call', () => {
    const lines = [line(LONG, used(100, 0)), line(LONG, used(272_001, 0), 'guard')]
    expect(billOf(...lines)).toEqual({
      cost: '1.088204',
      prompt_cost: '0.0002',
      guard_cost: '1.088004',
    })
  })
})

describe('a hold', () => {
  const subject = { account: 'acct', model: 'm', prices: compilePrices(STEPS) }
  const estimate = (tokens: number, limit: number) => ({
    least: {},
    expected: { promptTokens: tokens },
    most: { promptTokens: 2 * tokens },
    output: { limit, choices: 1 },
  })

  it('expects the tier of the estimated prompt, and has the dearest tier that twice of it reaches in its ceiling', () => {
    const { expected, ceiling } = new HoldEstimator().of('adaptive', subject, estimate(1001, 100))
    expect(formatPico(expected)).toBe('0.002202')
    expect(formatPico(ceiling)).toBe('0.016406')
  })

  it('has the base in its ceiling where a longer prompt is cheaper', () => {
    const falling = {
      prompt: '0.00001',
      overrides: [{ min_prompt_tokens: 1500, prompt: '0.000001' }],
    }
    const { ceiling } = new HoldEstimator().of(
      'adaptive',
      { ...subject, prices: compilePrices(falling) },
      estimate(1000, 0),
    )
    expect(formatPico(ceiling)).toBe('0.02')
  })
})

describe('a call', () => {
  let t: TestGateway
  beforeAll(async () => {
    const usage = {
      prompt_tokens: 81_000,
      completion_tokens: 500,
      prompt_tokens_details: {
        cached_tokens: 50_000,
        cache_write_tokens: 30_000,
        cache_write_1h_tokens: 10_000,
      },
    }
    const deployments = [{ provider: 'mock', model: 'echo', options: { reply: 'Hello.', usage } }]
    const tiered = {
      ...WRITES,
      overrides: [
        { min_prompt_tokens: 81_000, completion: '3e-5', input_cache_write_1h: '0.0000070' },
      ],
    }
    t = await createTestGateway({
      providers: { mock: { use: 'mock' } },
      models: {
        'mock/flat': { pricing: { ...WRITES }, context_length: 100_000, deployments },
        'mock/tiered': { pricing: tiered, context_length: 100_000, deployments },
      },
    })
  })
  afterAll(() => t.close())

  it.each([
    ['mock/flat', false, '0.1605', 0.0075, 0.135],
    ['mock/flat', true, '0.1605', 0.0075, 0.135],
    ['mock/tiered', false, '0.178', 0.015, 0.145],
  ])(
    'of %s (streamed: %s) costs the same in its answer and in the balance',
    async (model, stream, cost, completion, writes) => {
      const before = await t.balance()
      const answer = await t.chat({
        ...hello,
        model,
        stream,
        stream_options: { include_usage: true },
      })
      const usage = stream ? eventsOf(answer.text).at(-2).usage : answer.json.usage
      expect(usage.cost).toBe(Number(cost))
      expect(usage.cost_details).toMatchObject({
        completion_cost: completion,
        cache_write_cost: writes,
      })
      if (!stream) expect(answer.headers['x-service-cost']).toBe(cost)
      await expect.poll(async () => formatPico(before - (await t.balance()))).toBe(cost)
    },
  )

  it('the public list shows overrides as clients read prices: text without exponents', async () => {
    const { json } = await t.ask('GET', '/v1/models')
    const { pricing } = json.data.find(({ id }: { id: string }) => id === 'mock/tiered')
    expect(pricing.overrides).toEqual([
      { min_prompt_tokens: 81_000, completion: '0.00003', input_cache_write_1h: '0.000007' },
    ])
  })
})
