import { describe, expect, it } from 'vitest'
import { HoldEstimator, compilePrices, parsePico } from '../../src/money/money.ts'
import { definePlugin } from '../_plugin.ts'
import { createTestGateway, hello, MOCK_CONFIG } from '../_setup.ts'

const PRICES = compilePrices({ prompt: '0.000001', completion: '0.000002' })
const ESTIMATE = {
  least: { promptTokens: 1000 },
  most: { promptTokens: 1000, completionTokens: 10_000 },
}

describe('a hold', () => {
  const holds = new HoldEstimator()
  const of = (policy: 'floor' | 'expected' | 'ceiling') =>
    holds.of(policy, 'key', 'model', PRICES, ESTIMATE)

  it('is the lower bound, the upper bound, or the mean of past calls between them', () => {
    expect([of('floor'), of('expected'), of('ceiling')].map(Number)).toEqual([1e9, 1e9, 21e9])
    holds.learn('key', 'model', 5_000_000_000n)
    expect(of('expected')).toBe(5_000_000_000n)
    holds.learn('key', 'model', 21_000_000_000n)
    expect(of('expected')).toBe(6_000_000_000n)
    for (let i = 0; i < 200; i++) holds.learn('key', 'model', 10n ** 12n)
    expect(of('expected')).toBe(21_000_000_000n)
    expect(of('floor')).toBe(1_000_000_000n)
  })
})

describe('a request with an absurd token limit', () => {
  const echo = MOCK_CONFIG.models['mock/echo']
  const asked = { ...hello, max_tokens: Number.MAX_SAFE_INTEGER }

  it('is answered although the upper bound is above any balance', async () => {
    await using t = await createTestGateway({ ...MOCK_CONFIG, billing: { hold: 'ceiling' } })
    for (let i = 0; i < 2; i++) expect((await t.chat(asked)).status).toBe(200)
    expect(t.logged.join('\n')).not.toContain('internal error')
  })

  it('is held for no more tokens than the model can write', async () => {
    const gate = Promise.withResolvers<void>()
    const plugin = definePlugin('slow', {
      async *chat() {
        await gate.promise
        yield { choices: [{ index: 0, delta: { content: 'x' }, finish_reason: 'stop' }] }
      },
    })
    await using t = await createTestGateway({
      billing: { hold: 'ceiling' },
      providers: { p: { use: plugin } },
      models: {
        'mock/echo': {
          ...echo,
          max_output_tokens: 1000,
          deployments: [{ provider: 'p', model: 'm' }],
        },
      },
    })
    const running = t.chat(asked)
    await expect.poll(() => [...t.gateway.running][0]?.deployment).toBeDefined()
    const { balance, available } = await t.gateway.runtime.ledger.account('acme')
    // 1,000 tokens out, and 3 in.
    expect(balance - available).toBe(parsePico('0.002003'))
    gate.resolve()
    expect((await running).status).toBe(200)
  })
})
