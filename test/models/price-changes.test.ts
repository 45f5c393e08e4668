/** Prices that change by themselves: who pays which, what lists show, and what the configuration says of mistakes. */
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { loadConfig } from '../../src/config/config.ts'
import { ConfigError } from '../../src/errors/errors.ts'
import { compilePrices, versionOf } from '../../src/money/prices.ts'
import { call } from '../_cli.ts'
import { folder } from '../_folder.ts'
import { createTestGateway, hello, type TestGateway } from '../_setup.ts'

const MINUTE_MS = 60_000
const NOW = Date.now()
const OLD = { request: '0.001' }
const NEXT = { request: '0.002' }
const LAST = { request: '0.003' }
/** Two changes: in a minute, and in two. */
const [FROM, LATER] = [NOW + MINUTE_MS, NOW + 2 * MINUTE_MS]
const changes = [
  { from: new Date(FROM).toISOString(), pricing: NEXT },
  { from: new Date(LATER).toISOString(), pricing: LAST },
]
const deployments = [{ provider: 'mock', model: 'echo' }]
const CONFIG = {
  providers: { mock: { use: 'mock' } },
  admin: { token: 'admin-token' },
  models: {
    'mock/echo': { pricing: OLD, price_changes: changes, deployments },
    'mock/same': { pricing: OLD, deployments },
  },
}
const costIn = (answer: { json: any }) => answer.json.usage.cost
const admin = { key: 'admin-token' }

/** A gateway whose store has another clock than its process. */
async function gatewayAt(clock: { now: number }): Promise<TestGateway> {
  const t = await createTestGateway(CONFIG)
  const { ledger } = t.gateway.runtime
  const enter = ledger.enter.bind(ledger)
  vi.spyOn(ledger, 'enter').mockImplementation(async (entry) => {
    const at = clock.now
    const entered = await enter(entry)
    return entered.ok ? { ...entered, at } : entered
  })
  return t
}

describe('a price that changes by itself', () => {
  it('applies from its millisecond by the clock of the store, in every process', async () => {
    const clock = { now: NOW }
    await using one = await gatewayAt(clock)
    await using other = await gatewayAt(clock)
    for (const [now, cost] of [
      [FROM - 1, 0.001],
      [FROM, 0.002],
      [LATER - 1, 0.002],
      [LATER, 0.003],
      [FROM - 1, 0.001],
    ] as const) {
      clock.now = now
      expect(costIn(await one.chat(hello))).toBe(cost)
      expect(costIn(await other.chat({ ...hello, model: 'echo' }))).toBe(cost)
      const mine = await one.ask('GET', '/v1/models/user')
      const { pricing } = mine.json.data.find((model: { id: string }) => model.id === 'mock/echo')
      expect(Number(pricing.request)).toBe(cost)
    }
    const { json } = await one.ask('GET', '/admin/ledger/verify?prices=true', admin)
    expect(json.data).toMatchObject({ ok: true, prices: { wrong: [] } })
    const rows = await one.ask('GET', '/admin/accounts/acme/ledger', admin)
    const charges = rows.json.data.filter((row: any) => row.usage)
    const versions = charges.map((row: any) => row.usage.lines[0].prices)
    expect(new Set(versions)).toEqual(
      new Set([OLD, NEXT, LAST].map((pricing) => versionOf(compilePrices(pricing)))),
    )
  })

  it('is that of the moment at which a call entered, however long the call takes', async () => {
    const clock = { now: FROM - 1 }
    await using t = await gatewayAt(clock)
    const { ledger } = t.gateway.runtime
    const hold = ledger.hold.bind(ledger)
    vi.spyOn(ledger, 'hold').mockImplementation((entry) => {
      clock.now = LATER
      return hold(entry)
    })
    expect(costIn(await t.chat(hello))).toBe(0.001)
    expect(costIn(await t.chat(hello))).toBe(0.003)
  })

  it('is in the public list from then on, under a new tag, and not before', async () => {
    await using t = await createTestGateway(CONFIG)
    const clock = vi.spyOn(Date, 'now')
    onTestFinished(() => clock.mockRestore())
    const listed = async () => {
      const { headers, json } = await t.ask('GET', '/v1/models', { key: null })
      const one = (await t.ask('GET', '/v1/models/mock/echo', { key: null })).json
      expect(json.data[0]).toEqual(one)
      expect(json.data[1].pricing).toEqual(OLD)
      return { etag: headers.etag, pricing: one.pricing }
    }
    clock.mockReturnValue(FROM - 1)
    const before = await listed()
    clock.mockReturnValue(FROM)
    const after = await listed()
    expect([before.pricing, after.pricing]).toEqual([OLD, NEXT])
    expect(after.etag).not.toBe(before.etag)

    const { data } = (await t.ask('GET', '/admin/models', admin)).json
    expect(data[0]).toMatchObject({
      pricing: NEXT,
      price_version: versionOf(compilePrices(NEXT)),
      next_price_change: {
        from: new Date(LATER).toISOString(),
        pricing: LAST,
        price_version: versionOf(compilePrices(LAST)),
      },
    })
    expect(data[1]).toMatchObject({ pricing: OLD, next_price_change: null })
  })
})

describe('the commands', () => {
  const models = {
    'mock/echo': {
      pricing: OLD,
      price_changes: [
        { from: '2100-01-01T00:00:00Z', pricing: NEXT },
        { from: '2100-02-01T00:00:00Z', pricing: { prompt: '1' } },
      ],
      deployments,
    },
  }
  const run = async (...args: string[]) =>
    call(args, {
      cwd: await folder({
        'gateway.config.json': JSON.stringify({ providers: CONFIG.providers, models }),
      }),
    })
  const priceOf = async (...args: string[]) => {
    const { out } = await run('models', 'price', 'mock/echo', '--prompt', '1', '--json', ...args)
    const { cost, version } = JSON.parse(out)
    return { cost, version }
  }

  it('models price shows the prices where no quantity is given', async () => {
    const { code, out } = await run('models', 'price', 'mock/echo')
    expect(code).toBe(0)
    expect(out).toMatch(/^request +- +[\d.]+ +prompt_cost$/m)
    expect(out).not.toMatch(/^cost /m)
  })

  it('models price takes a time', async () => {
    const version = versionOf(compilePrices(OLD))
    expect(await priceOf()).toEqual({ cost: '0.001', version })
    expect(await priceOf('--at', '2099-12-31T23:59:59.999Z')).toEqual({ cost: '0.001', version })
    expect(await priceOf('--at', '2100-01-01T00:00:00Z')).toMatchObject({ cost: '0.002' })
    expect(await priceOf('--at', '2101-01-01')).toMatchObject({ cost: '1' })
    const wrong = await run('models', 'price', 'mock/echo', '--at', 'tomorrow')
    expect(wrong.code).toBe(2)
    expect(wrong.err).toContain('--at takes a time such as "2027-01-31T00:00:00Z", not "tomorrow"')
  })

  it('check and models lint look at prices that are to come', async () => {
    const { out } = await run('check')
    expect(out).toContain('request 0.001, from 2100-01-01T00:00:00.000Z: request 0.002, from 2100')
    const found = '/echo: from 2100-02-01T00:00:00.000Z: prompt 1 is above 0.001 USD a token'
    expect(out).toContain(found)
    expect((await run('models', 'lint')).out).toContain(found)
  })
})

describe('price_changes', () => {
  const AT = '2026-11-21T00:00:00Z'
  const listOf = (model: object) =>
    JSON.stringify({ format: 1, generated_at: AT, sources: [], models: { 'mock/echo': model } })
  const list = listOf({ pricing: OLD, price_changes: changes, source: 'test', checked_at: AT })
  const load = async (models: object, prices = list) => {
    const config = JSON.stringify({ providers: CONFIG.providers, models })
    const cwd = await folder({ 'gateway.config.json': config, 'prices.json': prices })
    return loadConfig({ cwd, env: {} })
  }
  const changesOf = async (models: object) =>
    Object.values((await load(models)).config.models)[0]!.price_changes

  it('come from a price list, and go with the prices that they follow', async () => {
    expect(await changesOf({ 'mock/echo': {} })).toEqual(changes)
    expect(await changesOf({ 'mock/*': {} })).toEqual(changes)
    expect(await changesOf({ 'mock/echo': { pricing: LAST } })).toBeUndefined()
    expect(await changesOf({ 'mock/echo': { price_changes: [] } })).toEqual([])
  })

  it('are moments without quotes in YAML, too', async () => {
    const model = [
      'pricing: { prompt: "1", completion: "1" }',
      'deprecated_on: 2027-01-31',
      'price_changes: [{ from: 2027-02-01T00:00:00Z, pricing: { prompt: "2" } }]',
      'deployments: [{ provider: mock, model: echo }]',
    ]
    const yaml = ['providers: { mock: { use: mock } }', 'models:', '  mock/echo:']
    const cwd = await folder({
      'gateway.config.yaml': [...yaml, ...model.map((line) => `    ${line}`)].join('\n'),
    })
    const { config } = await loadConfig({ cwd, env: {} })
    expect(config.models['mock/echo']).toMatchObject({
      deprecated_on: '2027-01-31',
      price_changes: [{ from: '2027-02-01T00:00:00.000Z' }],
    })
  })

  const [first, second] = changes
  it.each([
    [{ price_changes: [second, first] }, 'price_changes.1.from', 'expected a time after'],
    [{ price_changes: [{ from: 'soon', pricing: OLD }] }, 'price_changes.0.from', 'a time such as'],
    ...['2027-02-01T00:00:00', '2027-02-30T00:00:00Z', '2027-02-01T00:00 (UTC)', '2027-02-01'].map(
      (from): [object, string, string] => [
        { price_changes: [{ from, pricing: OLD }] },
        'price_changes.0.from',
        'a time such as',
      ],
    ),
    [{ deprecated_on: '2027-02-30' }, 'deprecated_on', 'a date such as'],
    [{ price_changes: [{ from: AT }] }, 'price_changes.0.pricing', 'prices such as'],
    [
      { price_changes: [{ from: AT, pricing: { image: '1' } }] },
      'price_changes.0.pricing',
      'expected the whole new list, with a price of chat models: prompt or completion or request',
    ],
    [
      {
        price_changes: [
          {
            from: AT,
            pricing: {
              ...OLD,
              overrides: [
                { min_prompt_tokens: 5, prompt: '1' },
                { min_prompt_tokens: 5, prompt: '1' },
              ],
            },
          },
        ],
      },
      'price_changes.0.pricing.overrides.1.min_prompt_tokens',
      'expected more than the 5 tokens',
    ],
    [{ price_changes: Array(9).fill(first) }, 'price_changes', 'at most 8 changes'],
  ])('%# is refused', async (entry, path, message) => {
    const issuesOf = async (loading: Promise<unknown>) => {
      const error: unknown = await loading.catch((reason: unknown) => reason)
      expect(error).toBeInstanceOf(ConfigError)
      return (error as ConfigError).issues
    }
    const issue = { path: `models.mock/echo.${path}`, message: expect.stringContaining(message) }
    const own = load({ 'mock/echo': { pricing: OLD, deployments, ...entry } })
    expect(await issuesOf(own)).toContainEqual(issue)
    const listed = { pricing: OLD, ...entry, source: 'test', checked_at: AT }
    expect(await issuesOf(load({ 'mock/echo': {} }, listOf(listed)))).toContainEqual(issue)
  })
})
