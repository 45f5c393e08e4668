import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { toUsage } from '../../../providers/openai-compatible/members.ts'

describe('usage', () => {
  const count = fc.option(fc.integer({ min: -5, max: 5000 }), { nil: undefined })
  const reported = fc.record({
    prompt_tokens: count,
    completion_tokens: count,
    total_tokens: count,
    prompt_tokens_details: fc.option(fc.record({ cached_tokens: count }), { nil: null }),
    completion_tokens_details: fc.option(fc.record({ reasoning_tokens: count }), { nil: null }),
    prompt_cache_hit_tokens: count,
  })

  it('has no part that is larger than the whole, and nothing below zero', () => {
    fc.assert(
      fc.property(reported, fc.boolean(), (given, beside) => {
        const usage = toUsage(given, beside ? { reasoningBeside: true } : {})
        if (!usage) return
        const { prompt_tokens_details: input, completion_tokens_details: output } = usage
        expect(input!.cached_tokens ?? 0).toBeLessThanOrEqual(usage.prompt_tokens ?? 0)
        expect(output!.reasoning_tokens ?? 0).toBeLessThanOrEqual(usage.completion_tokens ?? 0)
        for (const value of [usage.prompt_tokens, usage.completion_tokens]) {
          // What the vendor did not report is null, and never 0.
          if (value !== null) expect(value).toBeGreaterThanOrEqual(0)
        }
      }),
    )
  })

  it.each([
    ['inside, says the total', 12, {}, 5],
    ['beside, says the total', 16, {}, 9],
    ['inside, when the total says nothing', undefined, {}, 5],
    ['beside by habit, when the total says nothing', undefined, { reasoningBeside: true }, 9],
    ['inside, says the total, against the habit', 12, { reasoningBeside: true }, 5],
  ] as const)('counts reasoning %s', (_name, total_tokens, quirks, expected) => {
    const details = { completion_tokens_details: { reasoning_tokens: 4 } }
    const usage = toUsage(
      { prompt_tokens: 7, completion_tokens: 5, total_tokens, ...details },
      quirks,
    )
    expect(usage!.completion_tokens).toBe(expected)
    expect(usage!.completion_tokens_details!.reasoning_tokens).toBe(4)
  })

  it('counts reasoning that is told beside the other counts', () => {
    const counts = { prompt_tokens: 7, completion_tokens: 5, total_tokens: 16, reasoning_tokens: 4 }
    expect(toUsage(counts, {})).toMatchObject({
      completion_tokens: 9,
      completion_tokens_details: { reasoning_tokens: 4 },
    })
  })

  it('knows the vendors’ names for cached tokens', () => {
    const counts = { prompt_tokens: 100, completion_tokens: 1 }
    for (const names of [
      { prompt_tokens_details: { cached_tokens: 60 } },
      { prompt_token_details: { cached_tokens: 60 } },
      { cached_tokens: 60 },
      { num_cached_tokens: 60 },
      { prompt_cache_hit_tokens: 60, prompt_cache_miss_tokens: 40 },
    ]) {
      const usage = toUsage({ ...counts, ...names }, {})!
      expect(usage.prompt_tokens_details!.cached_tokens, JSON.stringify(names)).toBe(60)
    }
    const split = {
      completion_tokens: 1,
      prompt_cache_hit_tokens: 60,
      prompt_cache_miss_tokens: 40,
    }
    expect(toUsage(split, {})!.prompt_tokens).toBe(100)
  })

  it('reports the vendor’s price as decimal text', () => {
    expect(costOf({ cost: 5e-7 })).toBe('0.0000005')
    expect(costOf({ cost: 0 })).toBe('0')
    expect(costOf({ cost: 12 })).toBe('12')
    expect(
      costOf({ cost: 0.001, is_byok: true, cost_details: { upstream_inference_cost: 0.02 } }),
    ).toBe('0.021')
    expect(costOf({ cost: { total_cost: 0.00501 } })).toBe('0.00501')
    expect(costOf({ estimated_cost: 0.0000268 })).toBe('0.0000268')
    expect(costOf({ cost_in_usd_ticks: 1_721_250 })).toBe('0.000172125')
    expect(costOf({ cost_in_usd_ticks: 0 })).toBeUndefined()
    expect(costOf({})).toBeUndefined()
  })
})

function costOf(members: object): string | undefined {
  return toUsage({ prompt_tokens: 1, completion_tokens: 1, ...members }, {})!.vendor_cost
}
