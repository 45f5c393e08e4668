/** Bills of random price lists with tiers, beside a second reckoning of them. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { priceUsage } from '../../src/money/money.ts'
import {
  compilePrices,
  PRICE_NAMES,
  TIER_PRICE_NAMES,
  type Pricing,
} from '../../src/money/prices.ts'
import type { Usage } from '../../src/plugin.ts'
import { runs } from '../_runs.ts'

/** The same bill, reckoned in another way: one token after the other chooses its price. */
function reckon(pricing: Pricing, usage: Required<Usage>): bigint {
  const { overrides = [], ...base } = pricing
  let prices: Record<string, unknown> = base
  for (const { min_prompt_tokens, ...own } of overrides) {
    if (usage.promptTokens >= min_prompt_tokens) prices = { ...base, ...own }
  }
  const unit = (...names: string[]): bigint => {
    const text = names.map((name) => prices[name]).find((price) => price !== undefined) as string
    if (text === undefined) return 0n
    const [whole, fraction = ''] = text.split('.')
    return BigInt(whole + fraction.padEnd(18, '0'))
  }
  const CACHE = ['input_cache_read', 'prompt']
  const kinds: [number, bigint][] = [
    [usage.cachedAudioTokens, unit('audio_cache_read', ...CACHE)],
    [usage.cachedImageTokens, unit('image_cache_read', ...CACHE)],
    [usage.cachedTokens - usage.cachedAudioTokens - usage.cachedImageTokens, unit(...CACHE)],
    [usage.cacheWrite1hTokens, unit('input_cache_write_1h', 'input_cache_write', 'prompt')],
    [usage.cacheWriteTokens - usage.cacheWrite1hTokens, unit('input_cache_write', 'prompt')],
    [usage.audioInputTokens, unit('audio', 'prompt')],
    [usage.imageInputTokens, unit('image_token', 'prompt')],
    [
      usage.promptTokens -
        usage.cachedTokens -
        usage.cacheWriteTokens -
        usage.audioInputTokens -
        usage.imageInputTokens,
      unit('prompt'),
    ],
    [usage.reasoningTokens, unit('reasoning', 'completion')],
    [usage.audioOutputTokens, unit('audio_output', 'completion')],
    [usage.imageOutputTokens, unit('image_output', 'completion')],
    [
      usage.completionTokens -
        usage.reasoningTokens -
        usage.audioOutputTokens -
        usage.imageOutputTokens,
      unit('completion'),
    ],
    [1, unit('request')],
    [usage.images, unit('image')],
    [usage.pages, unit('page')],
    [usage.characters, unit('character')],
    [usage.seconds, unit('second')],
    [usage.searches, unit('web_search')],
    [usage.searchUnits, unit('search_unit')],
  ]
  // What the vendor reports is charged alone, where there is a price for it.
  const reported = usage.vendorCost !== '' && prices.vendor_usd !== undefined
  const parts = BigInt(usage.vendorCost.replace('0.', '') || '0') * unit('vendor_usd')
  const exact = reported
    ? parts / 10n ** 12n + (parts % 10n ** 12n > 0n ? 1n : 0n)
    : kinds.reduce((sum, [count, price]) => sum + BigInt(count) * price, 0n)
  const [pico, rest] = [exact / 1_000_000n, exact % 1_000_000n]
  return rest > 0n ? pico + 1n : pico
}

describe('any bill', () => {
  const digits = fc.bigInt({ min: 0n, max: 10n ** 15n })
  const text = digits.map((price) => `0.${String(price).padStart(18, '0')}`)
  const some = (names: readonly string[]) =>
    fc.record(Object.fromEntries(names.map((name) => [name, text])), { requiredKeys: [] })
  const borders = fc.uniqueArray(fc.integer({ min: 1, max: 4000 }), { maxLength: 8 })
  const pricings = fc
    .tuple(
      some(PRICE_NAMES),
      borders,
      fc.array(some(TIER_PRICE_NAMES), { minLength: 8, maxLength: 8 }),
    )
    .map(([base, from, tiers]) => ({
      ...base,
      overrides: from
        .toSorted((a, b) => a - b)
        .map((min_prompt_tokens, i) => ({ min_prompt_tokens, ...tiers[i] })),
    })) as fc.Arbitrary<Required<Pick<Pricing, 'overrides'>> & Pricing>
  const count = fc.nat({ max: 500 })
  const parts = fc.array(count, { minLength: 18, maxLength: 18 })
  /** Prompts of the given length have parts that fit into it. */
  const usageOf = (promptTokens: number, counts: readonly number[]): Required<Usage> => {
    let left = promptTokens
    const take = (n: number, most = Infinity) => {
      const taken = Math.min(n, left, most)
      left -= taken
      return taken
    }
    const [read, write, audio, image, a, b, hour, think, say, draw, plain, ...units] =
      counts as number[]
    const cachedTokens = take(read!)
    const cacheWriteTokens = take(write!)
    const audioInputTokens = take(audio!)
    const imageInputTokens = take(image!)
    const cachedAudioTokens = Math.min(a!, cachedTokens)
    return {
      promptTokens,
      cachedTokens,
      cachedAudioTokens,
      cachedImageTokens: Math.min(b!, cachedTokens - cachedAudioTokens),
      cacheWriteTokens,
      cacheWrite1hTokens: Math.min(hour!, cacheWriteTokens),
      audioInputTokens,
      imageInputTokens,
      completionTokens: think! + say! + draw! + plain!,
      reasoningTokens: think!,
      audioOutputTokens: say!,
      imageOutputTokens: draw!,
      acceptedPredictionTokens: 0,
      rejectedPredictionTokens: 0,
      images: units[0]!,
      pages: units[1]!,
      characters: units[2]!,
      seconds: units[3]!,
      searches: units[4]!,
      searchUnits: units[5]!,
      estimated: false,
      // Half of the vendors report nothing.
      vendorCost: units[6]! % 2 ? '' : `0.${String(units[6]!).padStart(12, '0')}`,
    }
  }

  it('is what a second reckoning says, and its parts sum to it, at and beside every border', () => {
    let bills = 0
    const numRuns = runs(170)
    fc.assert(
      fc.property(pricings, parts, fc.nat({ max: 5000 }), (pricing, counts, length) => {
        const prices = compilePrices(pricing)
        const around = pricing.overrides.flatMap(({ min_prompt_tokens: from }) => [
          from - 1,
          from,
          from + 1,
        ])
        for (const promptTokens of [length, ...around]) {
          const usage = usageOf(promptTokens, counts)
          const { vendorCost, ...others } = usage
          const shown = vendorCost === '' ? others : usage
          const { cost, details } = priceUsage([{ source: 'model', usage: shown, prices }])
          expect(cost).toBe(reckon(pricing, usage))
          expect(details.reduce((sum, { amount }) => sum + amount, 0n)).toBe(cost)
          expect(details.every(({ amount }) => amount > 0n)).toBe(true)
          bills++
        }
      }),
      { numRuns },
    )
    expect(bills).toBeGreaterThan(numRuns * 4)
  })

  it('never falls with a longer prompt where no tier lowers a price', () => {
    const step = fc.bigInt({ min: 0n, max: 10n ** 12n })
    const steps = fc.array(fc.array(step, { minLength: 13, maxLength: 13 }), {
      minLength: 9,
      maxLength: 9,
    })
    fc.assert(
      fc.property(
        borders,
        steps,
        parts,
        fc.nat({ max: 5000 }),
        fc.nat({ max: 500 }),
        (from, rises, counts, length, more) => {
          const units = TIER_PRICE_NAMES.map(() => 0n)
          const raised = (by: readonly bigint[]) =>
            Object.fromEntries(
              TIER_PRICE_NAMES.map((name, i) => [
                name,
                `0.${String((units[i]! += by[i]!)).padStart(18, '0')}`,
              ]),
            )
          // A longer prompt of the same parts has more plain tokens: none of them is cheaper than another tier's.
          const pricing = {
            ...raised(rises[8]!),
            overrides: from
              .toSorted((a, b) => a - b)
              .map((min_prompt_tokens, i) => ({ min_prompt_tokens, ...raised(rises[i]!) })),
          } as Pricing
          const prices = compilePrices(pricing)
          const usage = usageOf(2000, counts)
          const costOf = (promptTokens: number) =>
            priceUsage([{ source: 'model', usage: { ...usage, promptTokens }, prices }]).cost
          expect(costOf(2000 + length + more)).toBeGreaterThanOrEqual(costOf(2000 + length))
        },
      ),
      { numRuns: runs(170) },
    )
  })

  it('counts a token once, whatever parts a vendor claims', () => {
    const prices = compilePrices(
      Object.fromEntries(TIER_PRICE_NAMES.map((name) => [name, name === 'request' ? '0' : '1'])),
    )
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 900 }),
        fc.integer({ min: 1, max: 900 }),
        parts,
        (input, output, n) => {
          const usage: Usage = {
            promptTokens: input,
            cachedTokens: n[0]!,
            cachedAudioTokens: n[1]!,
            cachedImageTokens: n[2]!,
            cacheWriteTokens: n[3]!,
            cacheWrite1hTokens: n[4]!,
            audioInputTokens: n[5]!,
            imageInputTokens: n[6]!,
            completionTokens: output,
            reasoningTokens: n[7]!,
            audioOutputTokens: n[8]!,
            imageOutputTokens: n[9]!,
          }
          const { cost } = priceUsage([{ source: 'model', usage, prices }])
          expect(cost).toBe(BigInt(input + output) * 1_000_000_000_000n)
        },
      ),
    )
  })
})
