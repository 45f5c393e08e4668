/** What vendors are paid for a call: in its row, whatever its client pays, and priced again by `ledger verify --prices`. */
import { readFile } from 'node:fs/promises'
import { expect, it, onTestFinished } from 'vitest'
import { loadConfig } from '../../src/config/config.ts'
import { formatPriceList, type PriceList } from '../../src/models/price-list.ts'
import { parsePrice } from '../../src/money/prices.ts'
import type { LedgerRow } from '../../src/state/ledger/ledger.ts'
import { folder } from '../_folder.ts'
import { createTestGateway } from '../_setup.ts'
import { json, startUpstream } from '../upstream.ts'

const AT = '2026-11-21T00:00:00Z'
const CHAT = { modality: 'chat', source: 'test', checked_at: AT }
const LIST: PriceList['models'] = {
  'acme/small': { ...CHAT, pricing: { prompt: '0.000001', completion: '0.000002' } },
  'other/small': { ...CHAT, pricing: { prompt: '0.000003', completion: '0.000003' } },
}
const USAGE = { prompt_tokens: 10, completion_tokens: 20, total_tokens: 30 }

async function gatewayOf(config: object, usage: object = USAGE) {
  const vendor = await startUpstream(
    json({
      id: 'c',
      choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
      usage,
    }),
  )
  onTestFinished(() => vendor.close())
  const provider = {
    use: 'openai-compatible',
    options: { baseURL: `${vendor.url}/v1`, apiKey: 'the-key' },
  }
  const dead = {
    use: 'openai-compatible',
    options: { baseURL: 'http://127.0.0.1:9/v1', apiKey: 'k' },
  }
  const cwd = await folder({
    'gateway.config.json': JSON.stringify({
      state: { driver: 'memory' },
      log: { access: false },
      providers: { acme: provider, other: provider, dead },
      ...config,
    }),
    'prices.json': formatPriceList({ format: 1, generated_at: AT, sources: [], models: LIST }),
  })
  const gateway = await createTestGateway(await loadConfig({ cwd, env: {} }))
  onTestFinished(() => gateway.close())
  return gateway
}

/** The cost and the vendor cost of one call, in pico-dollars. */
async function paid(config: object, model = 'acme/small', usage?: object) {
  const gateway = await gatewayOf(config, usage)
  const messages = [{ role: 'user', content: 'Hello' }]
  await gateway.chat({ model, messages })
  const { ledger, prices } = gateway.gateway.runtime
  const rows: LedgerRow[] = []
  for await (const row of ledger.usage('acme')) if (row.kind === 'usage') rows.push(row)
  const [row] = rows
  expect((await prices.check(ledger, ['acme'])).wrong).toEqual([])
  const { vendor } = row!.usage!
  return {
    cost: Number(row!.cost),
    vendor: vendor === undefined ? undefined : Number(vendor),
    row: row!,
  }
}

const LISTED = { models: { 'acme/small': {} } }

it('is the price of the list where nothing else is said, and not what is added to it', async () => {
  const plain = await paid(LISTED)
  expect(plain).toMatchObject({ cost: 50e6, vendor: 50e6 })
  // The row names no second version of prices.
  expect(plain.row.usage!.lines[0]).not.toHaveProperty('cost')
  expect(await paid({ ...LISTED, prices: { markup: '1.2' } })).toMatchObject({
    cost: 60e6,
    vendor: 50e6,
  })
})

it('is unknown where no list has the model, and is never taken from the selling price', async () => {
  const entry = {
    pricing: { prompt: '1', completion: '1' },
    deployments: [
      { provider: 'dead', model: 'x' },
      { provider: 'acme', model: 'y', priority: 1 },
    ],
  }
  const { vendor, cost } = await paid({ models: { 'mine/model': entry } }, 'mine/model')
  expect([vendor, cost]).toEqual([undefined, 30e12])
})

it('is that of the deployment which has answered', async () => {
  const deployments = [
    { provider: 'dead', model: 'x', cost: { pricing: { prompt: '1' } } },
    { provider: 'other', model: 'small', priority: 1 },
  ]
  expect(await paid({ models: { 'acme/small': { deployments } } })).toMatchObject({
    cost: 50e6,
    vendor: 90e6,
  })
})

it.each([
  [{ factor: '0.5' }, 25e6],
  [{ factor: '0' }, 0],
  [{ pricing: { request: '0.001' } }, 1e9],
  [{ price_of: 'other/small' }, 90e6],
  [{ price_of: 'other/small', factor: '2' }, 180e6],
  [{ reported: true }, 50e6],
])('is as the deployment says: %j', async (cost, vendor) => {
  const deployments = [{ provider: 'acme', model: 'small', cost }]
  expect(await paid({ models: { 'acme/small': { deployments } } })).toMatchObject({
    cost: 50e6,
    vendor,
  })
})

it('is a part of the list price where the provider says so', async () => {
  const gateway = await paid({
    ...LISTED,
    prices: { markup: '2' },
    models: {
      'acme/small': {
        deployments: [{ provider: 'acme', model: 'small', cost: { factor: '0.9' } }],
      },
    },
  })
  expect(gateway).toMatchObject({ cost: 100e6, vendor: 45e6 })
})

it('is kept for a call that costs its client nothing, and is 0 for one that no vendor has answered', async () => {
  const free = {
    models: { 'acme/small': { free_tier: true, pricing: { prompt: '0', completion: '0' } } },
  }
  expect(await paid(free)).toMatchObject({ cost: 0, vendor: 50e6 })
  const deployments = [{ provider: 'dead', model: 'x' }]
  expect(await paid({ models: { 'acme/small': { deployments } } })).toMatchObject({
    cost: 0,
    vendor: 0,
  })
})

it('is seen in lists, files and metrics by those who may see money, and never by the holder of the key', async () => {
  const tokens = [
    { name: 'ops', token: 'token-of-ops-0123456789', role: 'admin' },
    { name: 'eyes', token: 'token-of-eyes-0123456789', role: 'viewer' },
  ]
  const gateway = await gatewayOf({ ...LISTED, prices: { markup: '2' }, admin: { tokens } })
  const messages = [{ role: 'user', content: 'Hello' }]
  await gateway.chat({ model: 'acme/small', messages })
  const [ops, eyes] = tokens.map(
    ({ token: key }) =>
      (path: string) =>
        gateway.ask('GET', path, { key }),
  )
  const calls = '/admin/requests?model=acme/small'
  await expect.poll(async () => (await ops!(calls)).json.data.length).toBe(1)
  const [call] = (await ops!(calls)).json.data
  expect(call).toMatchObject({ cost_usd: 0.0001, vendor_cost_usd: 0.00005 })
  expect((await ops!(`/admin/requests/${call.id}`)).json.data.vendor_cost_usd).toBe(0.00005)
  expect((await ops!(`${calls}&format=csv`)).text).toMatch(
    /vendor_cost_usd.*\r\n.*,0\.0001,0\.00005,/,
  )
  expect((await ops!('/metrics')).text).toMatch(
    /^sluicegate_vendor_cost_usd_total\{.*\} 0\.00005$/m,
  )
  const others = [
    await eyes!(calls),
    await eyes!(`/admin/requests/${call.id}`),
    await eyes!(`${calls}&format=csv`),
    await gateway.ask('GET', '/v1/key/requests'),
    await gateway.ask('GET', `/v1/key/requests/${call.id}`),
  ]
  for (const { status, text } of others) {
    expect([status, text.includes('0.0001')]).toEqual([200, true])
    expect(text).not.toMatch(/vendor|0\.00005/)
  }
})

it('a markup of 1.2 alone sells every listed model at 1.2 times its list price, and the margin of an account is a sixth of its turnover', async () => {
  const text = await readFile(new URL('../../config/prices.json', import.meta.url), 'utf8')
  const { models: packaged } = JSON.parse(text) as PriceList
  const vendors = [...new Set(Object.keys(packaged).map((id) => id.split('/')[0]!))]
  const config = {
    state: { driver: 'memory' },
    log: { access: false },
    admin: { token: 'admin-token-of-the-test' },
    prices: { markup: '1.2' },
    providers: Object.fromEntries(vendors.map((name) => [name, { use: 'mock' }])),
    models: {
      ...Object.fromEntries(vendors.map((name) => [`${name}/*`, {}])),
      'openai/gpt-4.1-mini': {
        deployments: [
          { provider: 'openai', model: 'echo', cost: { price_of: 'openai/gpt-4.1-mini' } },
        ],
      },
    },
  }
  const cwd = await folder({ 'gateway.config.json': JSON.stringify(config) })
  const gateway = await createTestGateway(await loadConfig({ cwd, env: {} }))
  onTestFinished(() => gateway.close())
  const { data } = (await gateway.ask('GET', '/v1/models')).json
  let sold = 0
  const wrong: string[] = []
  for (const { id, pricing } of data) {
    const list = packaged[id]!.pricing as Record<string, unknown>
    for (const [name, price] of Object.entries(list)) {
      if (typeof price !== 'string' || pricing[name] === undefined) continue
      // In units of 10^-18 USD a product by 6/5 is exact, or rounded up.
      const exact = parsePrice(price) * 6n
      if (parsePrice(pricing[name]) !== (exact + 4n) / 5n) wrong.push(`${id} ${name}`)
      sold++
    }
  }
  expect(wrong).toEqual([])
  expect(sold).toBeGreaterThan(1000)
  const call = await gateway.chat({
    model: 'openai/gpt-4.1-mini',
    messages: [{ role: 'user', content: 'Hello' }],
  })
  expect(call.json.usage.cost).toBeGreaterThan(0)
  const ask = '/admin/usage?group=account&metric=margin_usd'
  const { json } = await gateway.ask('GET', ask, { key: 'admin-token-of-the-test' })
  const [{ cost_usd: cost, margin_usd: margin, vendor_unknown_calls: unknown }] = json.data
  const pico = (usd: number) => Math.round(usd * 1e12)
  expect([pico(margin) * 6, unknown]).toEqual([pico(cost), 0])
})
