/** Prices in Redis, which several gateways share. */
import { expect, it } from 'vitest'
import { buildCatalog } from '../../../src/models/catalog.ts'
import { PriceRecords } from '../../../src/state/prices.ts'
import type { Pricing } from '../../../src/money/prices.ts'
import { call } from '../../_cli.ts'
import { folder } from '../../_folder.ts'
import { createTestGateway, hello, loaded, MOCK_CONFIG } from '../../_setup.ts'
import { needRedis, open, sharedServer } from './_engine.ts'

needRedis()

const FINE = { prompt: '0.000001', completion: '0.000002' }
const LONG = { ...FINE, overrides: [{ min_prompt_tokens: 2, prompt: '0.000003' }] }

const echo = (pricing: Pricing) => ({
  ...MOCK_CONFIG.models['mock/echo'],
  pricing: pricing as typeof FINE,
})

it('gateways that start together log a change of prices once, each of them', async () => {
  const { url } = await sharedServer()
  const instances = await Promise.all(
    ['a', 'b', 'c', 'd'].map(async () => {
      const { records, logged } = await open(url)
      return new PriceRecords(records, { warn: (text: string) => logged.push(text) } as never)
    }),
  )
  const start = async (...pricings: Pricing[]) => {
    const models = Object.fromEntries(pricings.map((pricing, i) => [`mock/m${i}`, echo(pricing)]))
    const { config } = loaded({ ...MOCK_CONFIG, models })
    const all = buildCatalog(config.models).all()
    const told = await Promise.all(instances.map((one) => one.exchange(all)))
    return told.flat().map(({ text }) => text)
  }
  const dearer = { ...FINE, completion: '0.000003' }
  // A model that was not there before has no price to compare with.
  expect(await start(FINE)).toEqual([])
  expect(await start(FINE, FINE)).toEqual([])
  expect(await start(dearer, LONG)).toEqual([
    'mock/m0 completion 0.000002 → 0.000003 (+50 %)',
    'mock/m1 prompt from 2 tokens none → 0.000003',
  ])
  expect(await start(dearer, LONG)).toEqual([])
  expect(await start(FINE, LONG)).toEqual(['mock/m0 completion 0.000003 → 0.000002 (-33 %)'])
  expect(await start(dearer, LONG)).toHaveLength(1)
})

it('entries of two gateways are priced again from the stored prices', async () => {
  const { url } = await sharedServer()
  const config = async (pricing: Pricing) => ({
    ...MOCK_CONFIG,
    state: { driver: 'redis' as const, url, outbox: await folder({}) },
    models: { ...MOCK_CONFIG.models, 'mock/echo': echo(pricing) },
    admin: { token: 'admin-token' },
  })
  await using one = await createTestGateway(await config(FINE))
  // A store that is late on a busy machine refuses a call, which costs nothing.
  const answered = () => expect.poll(async () => (await one.chat(hello)).status).toBe(200)
  await answered()
  await one.gateway.reload(loaded(await config(LONG)))
  await answered()
  const verify = () =>
    call(['ledger', 'verify', '--prices', '--url', one.url, '--token', 'admin-token'])
  await expect
    .poll(async () => (await verify()).out)
    .toBe('Every sum equals its rows, and 2 rows their quantities at their prices.\n')

  // The other gateway has never charged by these prices.
  const { records, ledger } = await open(url)
  const checked = await new PriceRecords(records, {} as never).check(ledger, ['acme'])
  expect(checked).toEqual({ checked: 2, unknown: 0, wrong: [] })
})
