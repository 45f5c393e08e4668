/** What vendors are paid for a call: in its row, whatever its client pays, and priced again by `ledger verify --prices`. */
import { expect, it, onTestFinished } from 'vitest'
import { loadConfig } from '../../src/config/config.ts'
import { formatPriceList, type PriceList } from '../../src/models/price-list.ts'
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
