import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { formatPrice, parsePrice, compilePrices, type Pricing } from '../../src/money/prices.ts'
import {
  costJson,
  formatPico,
  parsePico,
  priceUsage,
  usdJson,
  type UsageLine,
} from '../../src/money/money.ts'
import type { Usage } from '../../src/plugin.ts'
import { runs } from '../_runs.ts'

const line = (
  usage: Usage,
  pricing: Pricing,
  source: UsageLine['source'] = 'model',
): UsageLine => ({
  source,
  usage,
  prices: compilePrices(pricing),
})
const bill = (...lines: UsageLine[]) => {
  const { cost, details } = priceUsage(lines)
  return {
    cost: formatPico(cost),
    ...Object.fromEntries(details.map(({ member, amount }) => [member, formatPico(amount)])),
  }
}

describe('decimals', () => {
  it('are read to the last digit and written plainly', () => {
    expect(parsePrice('0.0000025')).toBe(2_500_000_000_000n)
    expect(parsePrice('2.5e-6')).toBe(2_500_000_000_000n)
    expect(parsePico('12.5')).toBe(12_500_000_000_000n)
    expect(formatPico(12_500n)).toBe('0.0000000125')
    expect(formatPico(-1n)).toBe('-0.000000000001')
    expect(formatPico(0n)).toBe('0')
    expect(formatPico(1_000_000_000_000n)).toBe('1')
    expect(formatPrice(1n)).toBe('0.000000000000000001')
  })

  it.each([
    '',
    ' 1',
    '-1',
    '+1',
    '.5',
    '1.',
    '1,5',
    'NaN',
    'Infinity',
    '0x10',
    '1e',
    '1_000',
    '1e999',
  ])('refuses %j', (text) => {
    expect(() => parsePrice(text)).toThrow(RangeError)
  })

  it('refuses digits that would be lost', () => {
    expect(() => parsePico('0.0000000000001')).toThrow(/at most 12 fractional digits/)
    expect(() => parsePrice('0.0000000000000000001')).toThrow(/at most 18 fractional digits/)
    expect(parsePico('0.0000000000010')).toBe(1n)
  })

  it('survive a round trip', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: 10n ** 24n - 1n }), (amount) => {
        expect(parsePico(formatPico(amount))).toBe(amount)
      }),
    )
  })

  it('are exact JSON numbers beyond what a double holds', () => {
    expect(JSON.stringify({ cost: usdJson(9_999_999_123_456_789_012n) })).toBe(
      '{"cost":9999999.123456789012}',
    )
    expect(JSON.stringify(usdJson(150_000n))).toBe('0.00000015')
  })

  it.each([
    999_999n,
    1_000_000n,
    1_000_000_000_000n,
    999_999_999_999_999n,
    1_000_000_000_000_000n,
    9_007_199_254_740_993n,
    -1_000_000n,
  ])('are written alike, as text and as JSON: %s', (amount) => {
    const text = formatPrice(amount * 1_000_000n)
    expect(formatPico(amount)).toBe(text)
    expect(JSON.stringify(usdJson(amount))).toBe(text)
  })

  it('have the same digits as text and as JSON', () => {
    const digits = fc.integer({ min: 1, max: 20 }).map((count) => 10n ** BigInt(count))
    const amounts = digits.chain((end) => fc.bigInt({ min: 0n, max: end - 1n }))
    fc.assert(
      fc.property(amounts, (amount) => {
        const text = formatPrice(amount * 1_000_000n)
        expect(formatPico(amount)).toBe(text)
        expect(JSON.stringify(usdJson(amount))).toBe(text)
      }),
      { numRuns: runs(500) },
    )
  })
})

describe('priceUsage', () => {
  const pricing: Pricing = {
    prompt: '0.0000025',
    input_cache_read: '0.00000125',
    completion: '0.00001',
  }

  it('subtracts cached tokens from the prompt', () => {
    expect(
      bill(line({ promptTokens: 1000, cachedTokens: 400, completionTokens: 100 }, pricing)),
    ).toEqual({
      cost: '0.003',
      prompt_cost: '0.0015',
      cache_read_cost: '0.0005',
      completion_cost: '0.001',
    })
  })

  it('falls back to the plain price where a special one is not configured', () => {
    expect(
      bill(line({ promptTokens: 10, cacheWriteTokens: 4, audioInputTokens: 2 }, pricing)),
    ).toEqual({
      cost: '0.000025',
      prompt_cost: '0.000015',
      cache_write_cost: '0.00001',
    })
  })

  it('prices every unit under its member', () => {
    const all: Pricing = {
      prompt: '1',
      completion: '1',
      image: '0.04',
      page: '0.001',
      character: '0.000015',
      second: '0.0001',
      request: '0.01',
      web_search: '0.005',
      audio: '2',
      image_token: '3',
      audio_output: '4',
      image_output: '5',
    }
    expect(
      bill(
        line(
          {
            promptTokens: 6,
            audioInputTokens: 1,
            imageInputTokens: 2,
            completionTokens: 7,
            audioOutputTokens: 1,
            imageOutputTokens: 2,
            images: 2,
            pages: 3,
            characters: 57,
            seconds: 4,
            searches: 1,
          },
          all,
        ),
      ),
    ).toEqual({
      cost: '29.099255',
      prompt_cost: '11.01',
      completion_cost: '8',
      image_cost: '10.08',
      page_cost: '0.003',
      character_cost: '0.000855',
      second_cost: '0.0004',
      web_search_cost: '0.005',
    })
  })

  it('shows searches of the gateway and models of guards under their own members', () => {
    expect(
      bill(
        line({ promptTokens: 1 }, { prompt: '0.001' }),
        line({ searches: 1 }, { web_search: '0.005' }, 'search'),
        line(
          { promptTokens: 2, completionTokens: 1 },
          { prompt: '0.001', completion: '0.002' },
          'guard',
        ),
      ),
    ).toEqual({ cost: '0.01', prompt_cost: '0.001', web_search_cost: '0.005', guard_cost: '0.004' })
  })

  it('rounds once, upward', () => {
    expect(bill(line({ promptTokens: 1 }, { prompt: '0.0000000000001' }))).toEqual({
      cost: '0.000000000001',
      prompt_cost: '0.000000000001',
    })
    const thrice = line(
      { promptTokens: 1, completionTokens: 1 },
      {
        prompt: '0.0000000000004',
        completion: '0.0000000000004',
      },
    )
    expect(bill(thrice)).toEqual({ cost: '0.000000000001', completion_cost: '0.000000000001' })
  })

  it('charges nothing where nothing was used or nothing has a price', () => {
    expect(bill()).toEqual({ cost: '0' })
    expect(bill(line({ promptTokens: 5 }, {}))).toEqual({ cost: '0' })
    expect(JSON.stringify(costJson({ bill: priceUsage([]) }))).toBe('{"cost":0,"cost_details":{}}')
  })

  it('counts a quantity that is not a number or negative as nothing', () => {
    expect(
      bill(
        line(
          { promptTokens: Number.NaN, completionTokens: -3, seconds: 3.2 },
          {
            prompt: '1',
            completion: '1',
            second: '1',
          },
        ),
      ),
    ).toEqual({ cost: '4', second_cost: '4' })
  })

  it('is exact: parts sum to the whole, the whole is the product rounded up', () => {
    const price = fc.bigInt({ min: 0n, max: 10n ** 15n })
    const quantity = fc.nat({ max: 2_000_000 })
    fc.assert(
      fc.property(
        price,
        price,
        price,
        quantity,
        quantity,
        quantity,
        (read, prompt, completion, cached, fresh, out) => {
          const { cost, details } = priceUsage([
            line(
              { promptTokens: cached + fresh, cachedTokens: cached, completionTokens: out },
              {
                input_cache_read: formatPrice(read),
                prompt: formatPrice(prompt),
                completion: formatPrice(completion),
              },
            ),
          ])
          const exact = BigInt(cached) * read + BigInt(fresh) * prompt + BigInt(out) * completion
          expect(cost).toBe((exact + 999_999n) / 1_000_000n)
          expect(details.reduce((sum, { amount }) => sum + amount, 0n)).toBe(cost)
          for (const { amount } of details) expect(amount).toBeGreaterThan(0n)
        },
      ),
    )
  })
})
