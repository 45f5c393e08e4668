/** Rows of the ledger name the prices by which they were charged, and can be priced again. */
import { describe, expect, it } from 'vitest'
import { compilePrices, type Pricing, pricingOf, versionOf } from '../../src/money/prices.ts'
import type { LedgerRow } from '../../src/state/ledger/ledger.ts'
import { createTestGateway, hello, loaded, MOCK_CONFIG, type TestGateway } from '../_setup.ts'

const version = (pricing: Pricing) => versionOf(compilePrices(pricing))
const PRICING = { prompt: '0.000001', completion: '0.000002' }
const LONG = { ...PRICING, overrides: [{ min_prompt_tokens: 2, prompt: '0.000003' }] }

describe('the version of prices', () => {
  it('is the same for prices that charge the same, however they are written', () => {
    expect(version(PRICING)).toMatch(/^[0-9a-f]{16}$/)
    expect(version({ completion: '2e-6', prompt: '0.0000010' })).toBe(version(PRICING))
  })

  it('differs with every price and tier', () => {
    const others = [
      { ...PRICING, prompt: '0.000002' },
      { ...PRICING, request: '0' },
      LONG,
      { ...LONG, overrides: [{ min_prompt_tokens: 3, prompt: '0.000003' }] },
    ]
    expect(new Set([PRICING, ...others].map(version)).size).toBe(5)
  })

  it('stands for prices that can be compiled again', () => {
    expect(versionOf(compilePrices(pricingOf(compilePrices(LONG))))).toBe(version(LONG))
  })
})

const models = (pricing: Pricing) => ({
  ...MOCK_CONFIG,
  models: {
    ...MOCK_CONFIG.models,
    'mock/echo': { ...MOCK_CONFIG.models['mock/echo'], pricing: pricing as typeof PRICING },
  },
})

async function rowsOf({ gateway }: TestGateway, account = 'acme') {
  const rows: LedgerRow[] = []
  for await (const row of gateway.runtime.ledger.usage(account)) {
    if (row.kind === 'usage') rows.push(row)
  }
  return rows
}

describe('a row', () => {
  it('has the version and the tier of its prices, which are stored', async () => {
    await using gateway = await createTestGateway(models(LONG))
    await gateway.chat(hello)
    const [row] = await rowsOf(gateway)
    expect(row!.usage!.lines).toMatchObject([{ source: 'model', prices: version(LONG), tier: 2 }])
    const check = () =>
      gateway.gateway.runtime.prices.check(gateway.gateway.runtime.ledger, ['acme'])
    expect(await check()).toEqual({ checked: 1, unknown: 0, wrong: [] })
  })

  it('of a free account costs nothing, and says so', async () => {
    await using gateway = await createTestGateway()
    await gateway.newAccount('poor')
    const key = await gateway.newKey({ account: 'poor' })
    await gateway.chat({ ...hello, model: 'mock/free' }, { key: key.secret })
    const [row] = await rowsOf(gateway, 'poor')
    expect(row).toMatchObject({ cost: 0n, usage: { charged: 'nothing' } })
    const { prices, ledger } = gateway.gateway.runtime
    expect(await prices.check(ledger, ['poor'])).toMatchObject({ checked: 1, wrong: [] })
  })

  it('with another cost, or another tier, is found; one whose prices are not stored is counted', async () => {
    await using gateway = await createTestGateway(models(LONG))
    await gateway.chat(hello)
    const { prices } = gateway.gateway.runtime
    const [row] = await rowsOf(gateway)
    const { usage } = row!
    const lines = (member: object) => usage!.lines.map((line) => ({ ...line, ...member }))
    const ledger = {
      async *usage() {
        yield { ...row!, request: 'dearer', cost: row!.cost + 1n }
        yield {
          ...row!,
          request: 'bounded',
          cost: 1n,
          usage: { ...usage!, charged: 'most' as const },
        }
        yield { ...row!, request: 'tier', usage: { ...usage!, lines: lines({ tier: 0 }) } }
        yield { ...row!, usage: { ...usage!, lines: lines({ prices: '0123456789abcdef' }) } }
        yield { ...row!, usage: { ...usage!, lines: lines({ prices: undefined }) } }
      },
    }
    expect(await prices.check(ledger, ['acme'])).toEqual({
      checked: 3,
      unknown: 2,
      wrong: [
        { account: 'acme', request: 'dearer', stored: row!.cost + 1n, recomputed: row!.cost },
        { account: 'acme', request: 'tier', stored: row!.cost, recomputed: undefined },
      ],
    })
  })
})

it('a call is charged at the prices with which it began, and its row names them', async () => {
  await using gateway = await createTestGateway(models(PRICING))
  const { runtime } = gateway.gateway
  await gateway.chat(hello)
  await gateway.gateway.reload(loaded(models(LONG)))
  await gateway.chat(hello)
  const versions = (await rowsOf(gateway)).map(({ usage }) => usage!.lines[0]!.prices)
  expect(versions).toEqual([version(LONG), version(PRICING)])
  expect(await runtime.prices.check(runtime.ledger, ['acme'])).toMatchObject({
    checked: 2,
    unknown: 0,
    wrong: [],
  })
})
