/** Plain usage has costs of its own (`money.ts`): the same as the record of all quantities gives. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { HoldEstimator, type Estimate } from '../../src/money/holds.ts'
import { costOf, priceUsage, type UsageLine, plainCosts } from '../../src/money/money.ts'
import { assess, bounds } from '../../src/money/plausible.ts'
import { compilePrices, versionOf, type Prices, type Pricing } from '../../src/money/prices.ts'
import type { Usage } from '../../src/plugin.ts'
import { runs } from '../_runs.ts'
import { SEED } from '../_seed.ts'

/** The same prices, by which everything is charged by the record. */
function withoutPlain({ plain: _plain, tiers, ...prices }: Prices): Prices {
  return {
    ...prices,
    ...(tiers && { tiers: tiers.map((tier) => ({ ...tier, prices: withoutPlain(tier.prices) })) }),
  }
}

/** Prices of everyday, of less than a pico-dollar, and so high that a product is beyond what a double holds. */
const unit = fc.oneof(
  { weight: 6, arbitrary: fc.nat(20_000_000).map((pico) => BigInt(pico) * 1_000_000n) },
  { weight: 1, arbitrary: fc.bigInt({ min: 0n, max: 10n ** 15n }) },
  { weight: 1, arbitrary: fc.bigInt({ min: 0n, max: 10n ** 15n }).map((n) => n * 1_000_000n) },
)
const price = unit.map((units) => {
  const text = String(units).padStart(19, '0')
  return `${text.slice(0, -18)}.${text.slice(-18)}`
})
const plainNames = ['prompt', 'input_cache_read', 'completion', 'request']
const list = fc.record(
  Object.fromEntries(
    [...plainNames, 'reasoning', 'audio_output', 'image_output', 'image', 'web_search'].map(
      (name) => [name, price],
    ),
  ),
  { requiredKeys: [] },
)
const tier = fc.record(Object.fromEntries(plainNames.map((name) => [name, price])), {
  requiredKeys: [],
})
const pricings = fc.tuple(list, fc.array(tier, { maxLength: 2 })).map(([base, tiers]) => ({
  ...base,
  overrides: tiers.map((own, i) => ({ min_prompt_tokens: 2000 * (i + 1), ...own })),
})) as fc.Arbitrary<Pricing>

const count = fc.oneof(
  { weight: 8, arbitrary: fc.nat(6000) },
  { weight: 1, arbitrary: fc.constantFrom(0, 1999, 2000, 2001, 0.5, -1, NaN, 1e300, 2 ** 53) },
)
const tokens = { promptTokens: count, cachedTokens: count, completionTokens: count }
const rare = fc.option(count, { nil: 0, freq: 8 })
const usages = fc.oneof(
  fc.record(tokens, { requiredKeys: [] }),
  fc.record(
    {
      ...tokens,
      cacheWriteTokens: rare,
      audioInputTokens: rare,
      reasoningTokens: rare,
      imageOutputTokens: rare,
      images: rare,
      searches: rare,
    },
    { requiredKeys: [] },
  ),
) as fc.Arbitrary<Usage>
const sources = fc.constantFrom<UsageLine['source']>('model', 'model', 'guard', 'search')

describe(`plain usage (seed ${SEED})`, () => {
  it('costs what the record of all quantities says, in the same parts', () => {
    let plain = 0
    const numRuns = runs(700)
    fc.assert(
      fc.property(pricings, usages, sources, (pricing, usage, source) => {
        const prices = compilePrices(pricing)
        if (plainCosts(usage, prices, true)) plain++
        const line = { source, usage, prices }
        const other = { source, usage, prices: withoutPlain(prices) }
        expect(plainCosts(usage, other.prices, true)).toBeUndefined()
        const { cost, details } = priceUsage([line])
        const expected = priceUsage([other])
        expect(cost).toBe(expected.cost)
        expect(details).toEqual(expected.details)
        expect(costOf(line)).toBe(cost)
        expect(costOf(other)).toBe(cost)
        expect(versionOf(prices)).toBe(versionOf(other.prices))
      }),
      { seed: SEED, numRuns },
    )
    expect(plain).toBeGreaterThan(numRuns * 0.15)
  })

  it('is held and learned alike', () => {
    const estimates = fc.record({
      least: fc.constant({}),
      expected: usages,
      most: usages,
      output: fc.option(
        fc.record({
          limit: fc.oneof(fc.nat(20_000), fc.constantFrom(Number.MAX_SAFE_INTEGER, Infinity)),
          choices: fc.integer({ min: 1, max: 4 }),
          isImage: fc.boolean(),
        }),
        { nil: undefined },
      ),
    }) as fc.Arbitrary<Estimate>
    const policies = fc.constantFrom<'adaptive' | 'ceiling'>('adaptive', 'ceiling')
    const calls = fc.array(usages, { maxLength: 6 })
    fc.assert(
      fc.property(pricings, estimates, calls, policies, (pricing, estimate, called, policy) => {
        const prices = compilePrices(pricing)
        const [one, other] = [prices, withoutPlain(prices)].map((own) => {
          const holds = new HoldEstimator()
          const subject = { account: 'acct', model: 'vendor/model', prices: own }
          const figures = [holds.of(policy, subject, estimate)]
          for (const usage of called) {
            const line = { source: 'model' as const, usage, prices: own }
            holds.learn(subject, { estimate, line })
            figures.push(holds.of(policy, subject, estimate))
          }
          return figures
        })
        expect(one).toEqual(other)
      }),
      { seed: SEED, numRuns: runs(300) },
    )
  })

  it('is judged alike', () => {
    fc.assert(
      fc.property(pricings, usages, fc.nat(6000), unit, (pricing, reported, prompt, most) => {
        const report = {
          reported: { ...reported },
          expected: {
            promptTokens: bounds(prompt, prompt * 4 + 4096, 2_000_000),
            completionTokens: bounds(prompt, prompt * 4 + 1024, 200_000),
            searches: { estimate: 0, soft: 10, hard: 1000, needed: false },
          },
        }
        const prices = compilePrices(pricing)
        expect(assess(report, prices, most)).toEqual(assess(report, withoutPlain(prices), most))
      }),
      { seed: SEED, numRuns: runs(300) },
    )
  })
})
