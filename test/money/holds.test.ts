import { describe, expect, it } from 'vitest'
import * as fc from 'fast-check'
import { HoldEstimator, HoldGrowth, withCosts, type Estimate } from '../../src/money/holds.ts'
import { formatPico, parsePico } from '../../src/money/money.ts'
import { compilePrices } from '../../src/money/prices.ts'
import { definePlugin } from '../_plugin.ts'
import { createTestGateway, hello, MOCK_CONFIG } from '../_setup.ts'
import { SEED } from '../_seed.ts'

const PRICES = compilePrices({ prompt: '0.000001', completion: '0.000002' })
const SUBJECT = { account: 'acct', model: 'vendor/model', prices: PRICES }
const ESTIMATE: Estimate = {
  least: { promptTokens: 1000 },
  expected: { promptTokens: 1000 },
  most: { promptTokens: 2000 },
  output: { limit: 10_000, choices: 1 },
}
const MICRO = 1_000_000n

/** A call that consumed so much, in a second. */
const ANSWER = { model: 'm', deployment: 'd', tokens: 10, reasoning: 0, seconds: 1 } as const

function consumed(promptTokens: number, completionTokens: number, estimate = ESTIMATE) {
  const usage = { promptTokens, completionTokens }
  return { estimate, line: { source: 'model' as const, usage, prices: PRICES } }
}

describe('the figures of a hold', () => {
  it('are what a call will probably cost, and the most that it can cost', () => {
    const { expected, ceiling } = new HoldEstimator().of('adaptive', SUBJECT, ESTIMATE)
    // Nothing is known: 2,048 tokens of output. The prompt may be twice its estimate.
    expect(expected).toBe(1000n * MICRO + 2n * 2048n * MICRO)
    expect(ceiling).toBe(2000n * MICRO + 2n * 10_000n * MICRO)
  })

  it('are both the ceiling with that policy', () => {
    const { expected, ceiling } = new HoldEstimator().of('ceiling', SUBJECT, ESTIMATE)
    expect(expected).toBe(ceiling)
    expect(ceiling).toBe(22_000n * MICRO)
  })

  it('count every choice', () => {
    const output = { limit: 100, choices: 4 }
    const figures = new HoldEstimator().of('adaptive', SUBJECT, { ...ESTIMATE, output })
    expect(figures.expected).toBe(1000n * MICRO + 2n * 400n * MICRO)
    expect(figures.outputTokens).toBe(400)
    expect(figures.ceiling).toBe(2000n * MICRO + 2n * 400n * MICRO)
  })

  it('have the cost of others beside the model, and grow with it', () => {
    const figures = new HoldEstimator().of('adaptive', SUBJECT, ESTIMATE)
    const costs = { expected: 50n * MICRO, ceiling: 70n * MICRO, output: 20n * MICRO }
    const both = withCosts('adaptive', figures, costs)
    expect(both.expected).toBe(figures.expected + 50n * MICRO)
    expect(both.ceiling).toBe(figures.ceiling + 70n * MICRO)
    const step = new HoldGrowth(both).next(2048)!
    expect(step.to - step.from).toBe(2n * 2048n * MICRO + 20n * MICRO)
    const whole = new HoldEstimator().of('ceiling', SUBJECT, ESTIMATE)
    const held = withCosts('ceiling', whole, costs)
    expect([held.expected, held.ceiling]).toEqual([both.ceiling, both.ceiling])
    const most = withCosts('adaptive', figures, { ...costs, ceiling: parsePico('2000000') })
    expect(most.ceiling).toBe(parsePico('1000000'))
  })

  it('have the dearest price of output in the ceiling, and units and fees in both', () => {
    const prices = compilePrices({
      prompt: '0.000001',
      completion: '0.000002',
      audio_output: '0.00001',
      request: '0.5',
      page: '0.1',
    })
    const estimate: Estimate = {
      least: {},
      expected: { promptTokens: 10, pages: 2 },
      most: { promptTokens: 20, pages: 5 },
      output: { limit: 1000, choices: 1 },
    }
    const figures = new HoldEstimator().of('adaptive', { ...SUBJECT, prices }, estimate)
    expect(formatPico(figures.expected)).toBe('0.70201')
    expect(formatPico(figures.ceiling)).toBe('1.01002')
  })

  it('are at most a million USD', () => {
    const output = { limit: Number.MAX_SAFE_INTEGER, choices: 100 }
    const figures = new HoldEstimator().of('ceiling', SUBJECT, { ...ESTIMATE, output })
    expect(figures.ceiling).toBe(parsePico('1000000'))
    expect(figures.expected).toBe(figures.ceiling)
  })
})

describe('what a hold learns from calls that completed', () => {
  const answerOf = (holds: HoldEstimator, subject = SUBJECT) =>
    holds.of('adaptive', subject, ESTIMATE).outputTokens

  it('is their length: the mean and twice the mean deviation', () => {
    const holds = new HoldEstimator()
    holds.learn(SUBJECT, consumed(1000, 400))
    expect(answerOf(holds)).toBe(800)
    for (let i = 0; i < 200; i++) holds.learn(SUBJECT, consumed(1000, 400))
    expect(answerOf(holds)).toBeLessThanOrEqual(401)
  })

  it('is of one account and one model, whatever the key', () => {
    const holds = new HoldEstimator()
    holds.learn(SUBJECT, consumed(1000, 400))
    expect(answerOf(holds, { ...SUBJECT, account: 'other' })).toBe(2048)
    expect(answerOf(holds, { ...SUBJECT, model: 'vendor/other' })).toBe(2048)
  })

  it('rises faster than it falls', () => {
    const [rising, falling] = [new HoldEstimator(), new HoldEstimator()]
    for (let i = 0; i < 300; i++) rising.learn(SUBJECT, consumed(1000, 1000))
    for (let i = 0; i < 300; i++) falling.learn(SUBJECT, consumed(1000, 1000))
    rising.learn(SUBJECT, consumed(1000, 2000))
    falling.learn(SUBJECT, consumed(1000, 0))
    // Means of 1,250 and 937.5; the deviation is the same.
    expect(answerOf(rising) - answerOf(falling)).toBeGreaterThanOrEqual(312)
  })

  it('is how far the cost of the input is from its estimate, within bounds', () => {
    const holds = new HoldEstimator()
    const inputOf = () => {
      const { expected, output } = holds.of('adaptive', SUBJECT, ESTIMATE)
      return Number(expected - output) / 1e9
    }
    for (let i = 0; i < 300; i++) holds.learn(SUBJECT, consumed(2000, 10))
    expect(inputOf()).toBeCloseTo(2, 2)
    for (let i = 0; i < 300; i++) holds.learn(SUBJECT, consumed(1, 10))
    expect(inputOf()).toBeCloseTo(0.05, 3)
    for (let i = 0; i < 300; i++) holds.learn(SUBJECT, consumed(1_000_000, 10))
    expect(inputOf()).toBeCloseTo(8, 2)
  })

  it('is how fast a deployment writes, of which a tenth is faster', () => {
    const holds = new HoldEstimator()
    const answer = { ...ANSWER, hidden: undefined }
    for (let i = 1; i < 10; i++) holds.learnAnswer({ ...answer, tokens: 1000 })
    expect(holds.rateOf('d')).toBe(80)
    for (let i = 1; i <= 1000; i++) holds.learnAnswer({ ...answer, tokens: 100 + (i % 100) })
    expect(holds.rateOf('d')).toBeGreaterThan(180)
    expect(holds.rateOf('d')).toBeLessThan(197)
    expect(holds.rateOf('other')).toBe(80)
  })

  it('is whether a model has reasoned in one of its last ten answers without having been asked', () => {
    const holds = new HoldEstimator()
    expect(holds.reasons('m', 'asked')).toBe(true)
    expect(holds.reasons('m', undefined)).toBe(false)
    expect(holds.reasons('m', 'unasked')).toBe(false)
    holds.learnAnswer({ ...ANSWER, hidden: 'asked', reasoning: 5 })
    expect(holds.reasons('m', 'unasked')).toBe(false)
    holds.learnAnswer({ ...ANSWER, hidden: 'unasked', reasoning: 5 })
    for (let i = 0; i < 9; i++) holds.learnAnswer({ ...ANSWER, hidden: 'unasked' })
    expect(holds.reasons('m', 'unasked')).toBe(true)
    // To have it switched off is another matter.
    expect(holds.reasons('m', 'refused')).toBe(false)
    holds.learnAnswer({ ...ANSWER, hidden: 'unasked' })
    expect(holds.reasons('m', 'unasked')).toBe(false)
  })

  it('never takes a hold beyond its ceiling or below its units', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.nat(1e7), fc.nat(1e6)), { maxLength: 20 }),
        fc.nat(1e5),
        fc.nat(1e5),
        fc.integer({ min: 1, max: 8 }),
        (calls, promptTokens, limit, choices) => {
          const holds = new HoldEstimator()
          const estimate: Estimate = {
            least: {},
            expected: { promptTokens },
            most: { promptTokens: 2 * promptTokens },
            output: { limit, choices },
          }
          for (const [input, output] of calls)
            holds.learn(SUBJECT, consumed(input, output, estimate))
          const figures = holds.of('adaptive', SUBJECT, estimate)
          expect(figures.expected).toBeGreaterThanOrEqual(0n)
          expect(figures.expected).toBeLessThanOrEqual(figures.ceiling)
          expect(figures.output).toBeLessThanOrEqual(figures.expected)
          expect(figures.outputTokens).toBeLessThanOrEqual(limit * choices)
        },
      ),
      { seed: SEED, numRuns: 300 },
    )
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
    await expect.poll(() => [...t.gateway.running][0]?.answer.deployment).toBeDefined()
    const { balance, available } = await t.gateway.runtime.ledger.account('acme')
    // 1,000 tokens out, and and a body of 103 bytes in, which counts twice.
    expect(balance - available).toBe(parsePico('0.002052'))
    gate.resolve()
    expect((await running).status).toBe(200)
  })
})
