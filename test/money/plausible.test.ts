/** Usage as vendors may report it: nothing free in silence, nothing charged that cannot be true, no 500. */
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { assess, bounds, readCount, type UsageReport } from '../../src/money/plausible.ts'
import { parsePico, priceUsage } from '../../src/money/money.ts'
import { compilePrices } from '../../src/money/prices.ts'
import { everyEndpointConfig, REQUESTS, type Asked, type Script } from '../_every-endpoint.ts'
import { createTestGateway, eventsOf, type TestGateway } from '../_setup.ts'
import { runs } from '../_runs.ts'
import { SEED } from '../_seed.ts'

const MOST = parsePico('1000')
const prices = compilePrices({ prompt: '0.000001', completion: '0.000002' })

describe('a count', () => {
  it.each([0, 1, 17, 2 ** 40])('is taken: %d', (value) => expect(readCount(value)).toBe(value))
  it('is rounded up', () => expect(readCount(1.2)).toBe(2))
  it.each([undefined, null, '12', '', true, false, -1, NaN, Infinity, -Infinity, [3], { n: 3 }])(
    'is not reported: %j',
    (value) => expect(readCount(value)).toBeUndefined(),
  )
})

describe('an assessment', () => {
  const junk = fc.oneof(
    fc.constantFrom(undefined, null, '7', true, -3, NaN, Infinity, -Infinity, 0, 1e300, 2 ** 53),
    fc.nat(),
    fc.double(),
    fc.string(),
    fc.object(),
  )
  const names = ['promptTokens', 'completionTokens', 'searches', 'cachedTokens', 'reasoningTokens']
  const members = fc.record(
    Object.fromEntries(
      [...names, 'cacheWriteTokens', 'audioInputTokens'].map((name) => [name, junk]),
    ),
    { requiredKeys: [] },
  )

  it(`stays within the bounds, whatever is reported (seed ${SEED})`, () => {
    fc.assert(
      fc.property(
        fc.option(members, { nil: undefined }),
        fc.nat(5000),
        fc.nat(5000),
        fc.boolean(),
        fc.boolean(),
        (reported, prompt, completion, incomplete, capped) => {
          const report: UsageReport = {
            reported,
            incomplete,
            capped,
            expected: {
              promptTokens: bounds(prompt, prompt * 4 + 4096, 2_000_000),
              completionTokens: bounds(completion, completion * 4 + 1024, 200_000),
              searches: { estimate: 0, soft: 10, hard: 1000, needed: false },
            },
          }
          const { usage, verdict, estimated } = assess(report, prices, MOST)
          for (const [name, count] of Object.entries(usage)) {
            if (typeof count === 'number') expect(Number.isSafeInteger(count), name).toBe(true)
          }
          expect(usage.promptTokens).toBeLessThanOrEqual(report.expected.promptTokens!.hard)
          expect(usage.completionTokens).toBeLessThanOrEqual(report.expected.completionTokens!.hard)
          expect(usage.cachedTokens ?? 0).toBeLessThanOrEqual(usage.promptTokens!)
          expect(usage.reasoningTokens ?? 0).toBeLessThanOrEqual(usage.completionTokens!)
          expect(priceUsage([{ source: 'model', usage, prices }]).cost).toBeLessThanOrEqual(MOST)
          // What produced text is not free.
          if (completion > 0) expect(usage.completionTokens).toBeGreaterThan(0)
          expect(usage.estimated === true).toBe(estimated !== undefined)
          if (verdict === 'absurd') expect(usage.completionTokens).toBe(completion)
        },
      ),
      { seed: SEED, numRuns: runs(300) },
    )
  })

  it('charges a prompt as it is reported, whatever ceiling a policy has for the answer', () => {
    const report = {
      reported: { promptTokens: 9000, completionTokens: 500 },
      capped: true,
      expected: {
        promptTokens: bounds(5, 4101, 2_000_000),
        completionTokens: bounds(40, 100, 200_000),
      },
    }
    expect(assess(report, prices, MOST)).toMatchObject({
      verdict: 'suspicious',
      estimated: 'overrun',
      usage: { promptTokens: 9000, completionTokens: 40 },
      figures: { promptTokens: { reported: 9000, bound: 4101 } },
    })
  })

  it('is absurd when the bill is', () => {
    const dear = compilePrices({ prompt: '1' })
    const report = {
      reported: { promptTokens: 1500 },
      expected: { promptTokens: bounds(5, 4096, 2_000_000) },
    }
    expect(assess(report, dear, MOST)).toMatchObject({
      verdict: 'absurd',
      usage: { promptTokens: 5, estimated: true },
      figures: { cost: { reported: '1500', bound: '1000' } },
    })
  })
})

/** Counts as vendors may write them, and what becomes of them where there is a price. */
const COUNTS: readonly (readonly [
  name: string,
  value: unknown,
  kind: 'fine' | 'estimate' | 'absurd',
])[] = [
  ['a number', 7, 'fine'],
  ['a fraction', 6.5, 'fine'],
  ['absent', undefined, 'estimate'],
  ['null', null, 'estimate'],
  ['a text', '7', 'estimate'],
  ['an empty text', '', 'estimate'],
  ['a word', 'seven', 'estimate'],
  ['true', true, 'estimate'],
  ['false', false, 'estimate'],
  ['negative', -7, 'estimate'],
  ['negative and huge', -1e300, 'estimate'],
  ['not a number', NaN, 'estimate'],
  ['infinite', Infinity, 'estimate'],
  ['infinite in JSON', JSON.parse('1e999'), 'estimate'],
  ['minus infinite', -Infinity, 'estimate'],
  ['a list', [7], 'estimate'],
  ['an object', { count: 7 }, 'estimate'],
  ['above every bound', 1e15, 'absurd'],
  ['beyond exact numbers', 2 ** 60, 'absurd'],
  ['the largest number', Number.MAX_VALUE, 'absurd'],
]

/** 40 usage objects: each count in every place, and the objects around them. */
const OBJECTS: readonly (readonly [name: string, chat: unknown, media: unknown])[] = [
  ...COUNTS.map(
    ([name, value]) =>
      [
        `all counts are ${name}`,
        { prompt_tokens: value, completion_tokens: value },
        {
          promptTokens: value,
          completionTokens: value,
          images: value,
          pages: value,
          seconds: value,
        },
      ] as const,
  ),
  ...COUNTS.slice(2, 14).map(
    ([name, value]) =>
      [
        `one count is ${name}`,
        { prompt_tokens: 7, completion_tokens: value },
        { promptTokens: 7, completionTokens: value, images: 1, pages: value, seconds: value },
      ] as const,
  ),
  ['none', undefined, undefined],
  ['null', null, null],
  ['empty', {}, {}],
  [
    'all zero',
    { prompt_tokens: 0, completion_tokens: 0 },
    { promptTokens: 0, completionTokens: 0, images: 0, pages: 0, seconds: 0 },
  ],
  ['a text', 'none', 'none'],
  ['a list', [1, 2], [1, 2]],
  [
    'parts larger than the whole',
    {
      prompt_tokens: 7,
      completion_tokens: 7,
      prompt_tokens_details: { cached_tokens: 1e12 },
      completion_tokens_details: { reasoning_tokens: 1e12 },
    },
    {
      promptTokens: 7,
      cachedTokens: 1e12,
      completionTokens: 7,
      reasoningTokens: 1e12,
      images: 1,
      pages: 1,
      seconds: 1,
    },
  ],
  [
    'parts of other types',
    {
      prompt_tokens: 7,
      completion_tokens: 7,
      prompt_tokens_details: 'all',
      completion_tokens_details: { reasoning_tokens: '9' },
    },
    { promptTokens: 7, cachedTokens: 'all', completionTokens: 7, images: 1, pages: 1, seconds: 1 },
  ],
]

describe('usage of every endpoint, whole and streamed', () => {
  const script: Script = { ending: 'normal', usage: undefined, gate: Promise.resolve() }
  let t: TestGateway
  beforeAll(async () => {
    const defaults = { limits: { rpm: 10_000 } }
    t = await createTestGateway({ ...everyEndpointConfig(script), defaults })
    await t.gateway.runtime.ledger.book({
      kind: 'top-up',
      account: 'acme',
      amount: parsePico('3000000'),
      reference: 'more',
    })
  })
  afterAll(() => t.close())

  it('has 40 forms', () => expect(OBJECTS).toHaveLength(40))

  it.each(OBJECTS)('%s', async (_name, chat, media) => {
    const rejections: unknown[] = []
    const note = (reason: unknown) => void rejections.push(reason)
    process.on('unhandledRejection', note)
    for (const one of REQUESTS) {
      script.usage = /^(chat|completions)/.test(one.name) ? chat : media
      await check(one)
    }
    await new Promise((resolve) => setImmediate(resolve))
    process.off('unhandledRejection', note)
    expect(rejections).toEqual([])
    expect(await t.gateway.runtime.ledger.verify()).toEqual([])
  })

  async function check(one: Asked) {
    const answer = await one.ask(t)
    const shown = `${one.name}: ${answer.status} ${answer.text.slice(0, 300)}`
    expect([200, 502], shown).toContain(answer.status)
    expect(answer.text, shown).not.toContain('internal_error')
    await expect.poll(() => t.gateway.running.size).toBe(0)
    const row = await newestRow()
    expect(row.request, shown).toBe(answer.headers['x-request-id'])
    const { outcome, flags, reported } = row.usage!
    expect(row.cost, shown).toBeLessThanOrEqual(MOST)
    const isFailed = answer.status === 502 || answer.text.includes('upstream_error')
    expect(outcome, shown).toBe(isFailed ? 'failed' : 'completed')
    // Every failure has its figures, every answer its cost.
    if (isFailed) expect(Object.keys(reported ?? {}), shown).toEqual(['every/m'])
    else expect(row.cost, shown).toBeGreaterThan(0n)
    if (one.name === 'chat' && answer.status === 200) {
      const { completion_tokens, cost } = answer.json.usage
      expect(completion_tokens).toBeGreaterThan(0)
      expect(BigInt(Math.round(cost * 1e12))).toBe(row.cost)
      const chat = script.usage as any
      const isRead = readCount(chat?.prompt_tokens) && readCount(chat?.completion_tokens)
      expect(flags ?? []).toEqual(isRead ? [] : ['estimated'])
    }
    if (one.name === 'chat, streamed' && isFailed) {
      const { error } = eventsOf(answer.text).at(-2)
      expect([error.code, error.usage.cost > 0]).toEqual(['upstream_error', true])
      expect([flags, row.cost]).toEqual([
        ['estimated'],
        BigInt(Math.round(error.usage.cost * 1e12)),
      ])
    }
  }

  async function newestRow() {
    for await (const row of t.gateway.runtime.ledger.usage('acme')) return row
    throw new Error('there is no row')
  }
})
