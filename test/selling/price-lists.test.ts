/** Price lists of accounts: what one of them is shown, held and charged. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { loadConfig } from '../../src/config/config.ts'
import { ConfigError } from '../../src/errors/errors.ts'
import type { LedgerRow } from '../../src/state/ledger/ledger.ts'
import { folder } from '../_folder.ts'
import { createTestGateway, hello, MOCK_CONFIG, send, type TestGateway } from '../_setup.ts'

const PRICING = { prompt: '0.000001', completion: '0.000002' }
const LISTS = {
  same: { factor: '1' },
  half: { factor: '0.5' },
  own: { models: { 'mock/echo': { pricing: { request: '0.25' } }, 'mock/*': { factor: '3' } } },
}

function configWith(lists: object) {
  const { 'mock/echo': echo, ...models } = MOCK_CONFIG.models
  return {
    ...MOCK_CONFIG,
    state: { driver: 'memory' },
    log: { access: false },
    admin: { token: 'the-token-of-an-operator' },
    prices: { lists },
    models: { ...models, 'mock/echo': { ...echo, pricing: PRICING } },
  }
}

async function gatewayWith(lists: object = LISTS) {
  const cwd = await folder({ 'gateway.config.json': JSON.stringify(configWith(lists)) })
  const gateway = await createTestGateway(await loadConfig({ cwd, env: {} }))
  onTestFinished(() => gateway.close())
  const patch = (body: object) =>
    send(`${gateway.url}/admin/accounts/acme`, 'PATCH', JSON.stringify(body), {
      authorization: 'Bearer the-token-of-an-operator',
      'content-type': 'application/json',
    })
  const reload = async (next: object) => {
    await writeFile(join(cwd, 'gateway.config.json'), JSON.stringify(configWith(next)))
    await gateway.gateway.reload(await loadConfig({ cwd, env: {} }))
  }
  return { gateway, patch, reload }
}

async function rowsOf({ gateway }: TestGateway) {
  const rows: LedgerRow[] = []
  for await (const row of gateway.runtime.ledger.usage('acme')) {
    if (row.kind === 'usage') rows.push(row)
  }
  return rows
}

const priceOf = async (gateway: TestGateway, path: string, id = 'mock/echo') => {
  const { json } = await gateway.ask('GET', path)
  return json.data.find((one: { id: string }) => one.id === id).pricing
}

describe('an account with a price list', () => {
  it('is charged its prices, and shown them; others see those of the catalog', async () => {
    const { gateway, patch } = await gatewayWith()
    const plain = (await gateway.chat(hello)).json.usage.cost
    expect((await patch({ price_list: 'half' })).json.data.price_list).toBe('half')
    expect((await gateway.chat(hello)).json.usage.cost).toBe(plain / 2)
    expect(await priceOf(gateway, '/v1/models')).toEqual({
      prompt: '0.0000005',
      completion: '0.000001',
    })
    expect(await priceOf(gateway, '/v1/models/user')).toEqual({
      prompt: '0.0000005',
      completion: '0.000001',
    })
    const open = await send(`${gateway.url}/v1/models`, 'GET', undefined, {})
    expect(open.json.data.find((one: { id: string }) => one.id === 'mock/echo').pricing).toEqual(
      PRICING,
    )
    const [row] = await rowsOf(gateway)
    expect(row!.usage).toMatchObject({ list: 'half' })
    const { ledger, prices } = gateway.gateway.runtime
    expect(await prices.check(ledger, ['acme'])).toMatchObject({ checked: 2, wrong: [] })
  })

  it('has the entry of a model before that of its vendor', async () => {
    const { gateway, patch } = await gatewayWith()
    await patch({ price_list: 'own' })
    expect((await gateway.chat(hello)).json.usage.cost).toBe(0.25)
    const base = gateway.gateway.runtime.catalog.get('mock/tools')!
    const own = await priceOf(gateway, '/v1/models', 'mock/tools')
    expect(Number(own.prompt)).toBeCloseTo(Number(base.pricing.prompt) * 3, 15)
  })

  it('with a factor of 1 has the same answers, and the same rows but for the name', async () => {
    const [one, other] = [await gatewayWith(), await gatewayWith()]
    await one.patch({ price_list: 'same' })
    const [a, b] = [await one.gateway.chat(hello), await other.gateway.chat(hello)]
    expect(a.json.usage).toEqual(b.json.usage)
    const [[rowA], [rowB]] = [await rowsOf(one.gateway), await rowsOf(other.gateway)]
    expect({ lines: rowA!.usage!.lines, cost: rowA!.cost }).toEqual({
      lines: rowB!.usage!.lines,
      cost: rowB!.cost,
    })
  })
})

it('an unknown list is refused with those that there are, and null takes it away', async () => {
  const { patch } = await gatewayWith()
  const refused = await patch({ price_list: 'gold' })
  expect([refused.status, refused.json.error.message]).toEqual([
    400,
    `Invalid 'price_list': expected one of same, half, own, found "gold".`,
  ])
  expect((await patch({ price_list: null })).json.data.price_list).toBe(null)
})

it('a list that a reload took away refuses calls, with an alert, and charges no other price', async () => {
  const { gateway, patch, reload } = await gatewayWith()
  await patch({ price_list: 'half' })
  await reload({ same: { factor: '1' } })
  const refused = await gateway.chat(hello)
  expect([refused.status, refused.json.error.message]).toEqual([
    503,
    'The price list of this account is not configured.',
  ])
  expect(await rowsOf(gateway)).toEqual([])
  const { runtime } = gateway.gateway
  await expect
    .poll(() => runtime.spending.findings().map(({ kind, object }) => `${kind} ${object}`))
    .toContain('price_list.missing acme')
  await reload(LISTS)
  expect((await gateway.chat(hello)).status).toBe(200)
})

it('an entry for a model that nobody serves is a mistake of the configuration', async () => {
  const config = configWith({ half: { models: { 'mock/ecko': { factor: '2' } } } })
  const cwd = await folder({ 'gateway.config.json': JSON.stringify(config) })
  const error = await loadConfig({ cwd, env: {} }).catch((reason: unknown) => reason)
  expect((error as ConfigError).issues).toEqual([
    {
      path: 'prices.lists.half.models.mock/ecko',
      message: expect.stringContaining('did you mean "mock/echo"'),
    },
  ])
})
