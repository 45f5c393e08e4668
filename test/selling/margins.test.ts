/** Margins: what `check` and `models lint` say of selling prices beside what vendors are paid. */
import { expect, it } from 'vitest'
import { formatPriceList, type PriceList } from '../../src/models/price-list.ts'
import { call } from '../_cli.ts'
import { folder } from '../_folder.ts'

const AT = new Date().toISOString()
const CHAT = { modality: 'chat', source: 'test', checked_at: AT }
const LIST: PriceList['models'] = {
  'acme/small': {
    ...CHAT,
    context_length: 9000,
    pricing: { prompt: '0.000001', completion: '0.000002' },
  },
}
const MODEL = { capabilities: [], deployments: [{ provider: 'acme', model: 'small' }] }

async function placeWith(config: object) {
  return folder({
    'gateway.config.json': JSON.stringify({
      providers: { acme: { use: 'mock' }, dear: { use: 'mock', markup: '3' } },
      models: { 'acme/small': MODEL },
      ...config,
    }),
    'prices.json': formatPriceList({ format: 1, generated_at: AT, sources: [], models: LIST }),
  })
}

const lint = async (config: object) => {
  const { out } = await call(['models', 'lint', '--json'], { cwd: await placeWith(config) })
  return JSON.parse(out).findings.map(({ code, message }: any) => `${code}: ${message}`)
}

it('without a markup, a cost or a list nothing is said of margins', async () => {
  expect(await lint({})).toEqual([])
})

it('a price below what the vendor is paid is a warning, on price lists of accounts too', async () => {
  const prices = { markup: '1.2', lists: { partners: { factor: '0.5' } } }
  expect(await lint({ prices })).toEqual([
    'sold-below-cost: prompt, completion on the price list partners: less than the vendor of acme/small is paid',
  ])
  const deployments = [{ ...MODEL.deployments[0], cost: { pricing: { prompt: '0.000005' } } }]
  expect(await lint({ models: { 'acme/small': { ...MODEL, deployments } } })).toEqual([
    'sold-below-cost: prompt: less than the vendor of acme/small is paid',
  ])
})

it('providers with different markups, and vendors whose prices are not known, are named', async () => {
  const deployments = [...MODEL.deployments, { provider: 'dear', model: 'other', priority: 1 }]
  const own = {
    capabilities: [],
    context_length: 9000,
    pricing: { prompt: '0.0001', completion: '0.0002' },
    deployments: [{ provider: 'acme', model: 'own' }],
  }
  const models = { 'acme/small': { ...MODEL, deployments }, 'acme/own': own }
  expect(await lint({ models, prices: { markup: '2' } })).toEqual([
    'cost-unknown: what the vendor is paid is not known: acme/own',
    'markup-differs: its providers have different markups, and that of the first counts: acme 2, dear 3',
  ])
})

it('check shows vendor prices and margins once something is added, and always in JSON', async () => {
  const sold = await placeWith({ prices: { markup: '1.25' } })
  expect((await call(['check'], { cwd: sold })).out).toContain(
    'prompt 0.000001 (20 %), completion 0.000002 (20 %)',
  )
  const plain = await placeWith({})
  expect((await call(['check'], { cwd: plain })).out).not.toContain('VENDOR')
  const { models } = JSON.parse((await call(['check', '--json'], { cwd: plain })).out)
  expect(models[0].margins).toEqual([
    { price: 'prompt', vendor: '0.000001', percent: 0 },
    { price: 'completion', vendor: '0.000002', percent: 0 },
  ])
})
