/** Prices from lists: the package's and the operator's, entries without prices, all models of a vendor. */
import { readFile, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { VENDORS } from '../../providers/vendors.ts'
import { loadConfig } from '../../src/config/config.ts'
import { PACKAGED_PRICES } from '../../src/config/price-files.ts'
import {
  checkedModels,
  formatPriceList,
  readPriceList,
  type PriceList,
} from '../../src/models/price-list.ts'
import { ConfigError } from '../../src/errors/errors.ts'
import { buildCatalog } from '../../src/models/catalog.ts'
import { entryOf } from '../../src/models/listing.ts'
import { call } from '../_cli.ts'
import { folder } from '../_folder.ts'

const AT = '2026-11-21T00:00:00Z'
const CHAT = { modality: 'chat', source: 'test', checked_at: AT }
const listOf = (models: PriceList['models']) =>
  formatPriceList({ format: 1, generated_at: AT, sources: [], models })

/** Two models of a vendor, one that is over, and one of a kind without an endpoint. */
const ACME = listOf({
  'acme/large': {
    ...CHAT,
    pricing: { prompt: '0.000002', completion: '0.00001' },
    name: 'Large',
    context_length: 9000,
    capabilities: ['TOOLS'],
  },
  'acme/small': { ...CHAT, pricing: { prompt: '0.000001', completion: '0.000002' } },
  'acme/old': { ...CHAT, pricing: { prompt: '1' }, deprecated_on: '2020-01-01' },
  'acme/clips': { ...CHAT, modality: 'video', pricing: { prompt: '1' } },
  'acme/painter': { ...CHAT, modality: 'image', pricing: { prompt: '1' } },
  'other/model': { ...CHAT, pricing: { prompt: '1' } },
})
/** Vendors of the table without public prices: their models are served at prices of the operator's own. */
const WITHOUT_PRICES = ['github', 'featherless', 'meta']
const PROVIDERS = { acme: { use: 'mock' } }

async function load(config: object, prices: string | undefined = ACME) {
  const files = { 'gateway.config.json': JSON.stringify({ providers: PROVIDERS, ...config }) }
  const cwd = await folder(prices === undefined ? files : { ...files, 'prices.json': prices })
  return loadConfig({ cwd, env: {} })
}

async function models(config: object, prices?: string) {
  return (await load({ models: config }, prices)).config.models
}

async function issuesOf(config: object, prices?: string) {
  const error = await load({ models: config }, prices).catch((reason: unknown) => reason)
  expect(error).toBeInstanceOf(ConfigError)
  return (error as ConfigError).issues
}

describe('an entry without prices', () => {
  it('has them from the list, with their source, and what else the list knows', async () => {
    expect((await models({ 'acme/large': {} }))['acme/large']).toMatchObject({
      pricing: { prompt: '0.000002', completion: '0.00001' },
      price_source: { from: 'test', checked_at: AT },
      name: 'Large',
      context_length: 9000,
      deployments: [{ provider: 'acme', model: 'large' }],
    })
  })

  it('keeps what it says itself; its own prices drop those of the list, whole', async () => {
    const own = { name: 'Mine', pricing: { prompt: '0.5' } }
    const entry = (await models({ 'acme/large': own }))['acme/large']!
    expect(entry).toMatchObject({ name: 'Mine', context_length: 9000 })
    expect(entry.pricing).toEqual({ prompt: '0.5' })
    expect(entry.price_source).toBeUndefined()
  })

  it('is priced as the model that it names with price_of', async () => {
    const deployments = [{ provider: 'acme', model: 'small' }]
    const entry = (await models({ 'mine/a': { price_of: 'acme/small', deployments } }))['mine/a']!
    expect(entry.pricing).toEqual({ prompt: '0.000001', completion: '0.000002' })
  })

  it.each([
    ['that no list has', { 'acme/larg': {} }, ['prompt', 'completion', 'request']],
    [
      'that has no price of its modality',
      { 'acme/larg': { pricing: { web_search: '1' } } },
      ['prompt', 'completion', 'request'],
    ],
    [
      'of another modality',
      { 'acme/larg': { modality: 'ocr', pricing: { prompt: '1' } } },
      ['page'],
    ],
  ])('%s is not served; the others are', async (_, entry, needs) => {
    const { config } = await load({ models: { ...entry, 'acme/small': {} } })
    expect(Object.keys(config.models)).toEqual(['acme/small'])
    expect(config.unpriced).toEqual([{ id: 'acme/larg', needs }])
  })

  it('has its capabilities shown from the list, and not enforced', async () => {
    const catalog = buildCatalog(await models({ 'acme/large': {} }))
    const model = catalog.get('acme/large')!
    expect(model.capabilities).toBeUndefined()
    expect(entryOf(model)).toMatchObject({ capabilities: ['TOOLS'] })
  })
})

describe('two lists', () => {
  const newer = (at: string) =>
    listOf({
      'openai/gpt-6-sol': {
        ...CHAT,
        checked_at: at,
        pricing: { prompt: '0.5', completion: '0.5' },
      },
    })
  const config = { providers: { openai: { use: 'mock' } }, models: { 'openai/gpt-6-sol': {} } }
  const promptOf = async (prices: string | undefined, more: object = {}) =>
    (await load({ ...config, ...more }, prices)).config.models['openai/gpt-6-sol']!.pricing.prompt

  it('with the same model: the entry that was compared last counts', async () => {
    expect(await promptOf(undefined)).toBe('0.000002')
    expect(await promptOf(newer('2030-01-01T00:00:00Z'))).toBe('0.5')
    expect(await promptOf(newer('2020-01-01T00:00:00Z'))).toBe('0.000002')
  })

  it('are one with packaged: false', async () => {
    const alone = { prices: { packaged: false } }
    expect(await promptOf(newer('2020-01-01T00:00:00Z'), alone)).toBe('0.5')
    const { unpriced } = (await load({ ...config, ...alone }, ACME)).config
    expect(unpriced).toMatchObject([{ id: 'openai/gpt-6-sol' }])
  })
})

describe('all models of a vendor', () => {
  it('are those of the list with prices and an endpoint; an own entry wins', async () => {
    const found = await models({ 'acme/*': {}, 'acme/small': { name: 'S' } })
    expect(Object.keys(found).toSorted()).toEqual(['acme/large', 'acme/old', 'acme/small'])
    // What its vendor has given up is served as long as the vendor does, and not listed.
    const catalog = buildCatalog(found)
    expect(catalog.offered().map(({ id }) => id)).toEqual(['acme/large', 'acme/small'])
    expect(catalog.find('acme/old')).toBeDefined()
    expect(found['acme/small']).toMatchObject({ name: 'S' })
    expect(found['acme/large']!.deployments).toMatchObject([{ provider: 'acme', model: 'large' }])
  })

  it('can have deployments of their own, and one of them can be switched off', async () => {
    const deployments = [{ provider: 'acme' }, { provider: 'acme', model: 'fixed', priority: 1 }]
    const found = await models({ 'acme/*': { deployments }, 'acme/small': { enabled: false } })
    expect(found['acme/large']!.deployments).toMatchObject([
      { model: 'large', priority: 0 },
      { model: 'fixed', priority: 1 },
    ])
    expect(buildCatalog(found).offered()).toHaveLength(1)
  })

  it('and names that no list has, where the wildcard has prices', async () => {
    const { config } = await load({
      models: { 'acme/*': { pricing: { prompt: '0', completion: '0' }, free_tier: true } },
    })
    const catalog = buildCatalog(config.models, { bare: true }, config.wildcards)
    expect(catalog.offered().map(({ id }) => id)).toEqual(['acme/large', 'acme/small'])
    expect(catalog.get('acme/large')!.pricing).toEqual({ prompt: '0', completion: '0' })
    expect(catalog.find('acme/new/model:8b@1+x')).toMatchObject({
      id: 'acme/new/model:8b@1+x',
      freeTier: true,
      label: 'acme/*',
      deployments: [{ id: 'acme/*', provider: 'acme', model: 'new/model:8b@1+x' }],
    })
    const refused = ['acme/', 'acme/../x', 'acme/a..b', 'acme/ x', `acme/${'x'.repeat(129)}`, 'b/x']
    for (const name of refused) expect(catalog.find(name), name).toBeUndefined()
  })

  it.each([
    [{ 'acm/*': {} }, 'models.acm/*.deployments', 'or a provider with the name "acm"'],
    [{ 'acme/*': { free_tier: true } }, 'models.acme/*.free_tier', '"0" throughout'],
    [
      { 'acme/*': { free_tier: true, pricing: { prompt: '0', completion: '1' } } },
      'models.acme/*.free_tier',
      '"0" throughout',
    ],
    [{ 'acme/x/*': {} }, 'models.acme/x/*', 'expected "vendor/*"'],
    [{ '*/*': {} }, 'models.*/*', 'expected "vendor/*"'],
    [{ 'acme/*': { prcing: {} } }, 'models.acme/*.prcing', 'did you mean "pricing"?'],
    [
      { 'acme/*': { deployments: [{ provider: 'missing' }] } },
      'models.acme/large.deployments.0.provider',
      'expected the name of a provider',
    ],
  ])('%j is refused', async (config, path, message) => {
    expect(await issuesOf(config)).toContainEqual({
      path,
      message: expect.stringContaining(message),
    })
  })
})

describe('a list that is wrong', () => {
  const line = (pricing: unknown) =>
    JSON.stringify({
      format: 1,
      generated_at: AT,
      sources: [],
      models: { 'acme/large': { ...CHAT, pricing } },
    })

  it.each([
    ['', '', 'is not valid JSON: it ends in the middle, so it was cut off'],
    [ACME.slice(0, 300), '', 'is not valid JSON: it ends in the middle, so it was cut off'],
    ['{ "format": 1, }', '', 'is not valid JSON (at position 15'],
    ['[]', '', 'expected a price list, found a list'],
    [
      ACME.replace('"format":1', '"format":2'),
      'format',
      'expected the number 1, found the number 2',
    ],
    [line({ prompt: 0.000002 }), 'models.acme/large.pricing.prompt', 'expected a decimal string'],
    [line({ prompt: '-1' }), 'models.acme/large.pricing.prompt', 'expected a decimal string'],
    [
      line({ prompt: '2000' }),
      'models.acme/large.pricing.prompt',
      'prices per million are divided',
    ],
    [
      line({ prompt: '1', promt: '2' }),
      'models.acme/large.pricing.promt',
      'did you mean "prompt"?',
    ],
    [
      line({
        prompt: '1',
        overrides: [
          { min_prompt_tokens: 5, prompt: '2' },
          { min_prompt_tokens: 5, prompt: '3' },
        ],
      }),
      'models.acme/large.pricing.overrides.1.min_prompt_tokens',
      'expected more than the 5 tokens of the override before it',
    ],
  ])('is told in one sentence: %#', async (prices, path, message) => {
    expect(await issuesOf({ 'acme/large': {} }, prices)).toEqual([
      { path, message: expect.stringContaining(message) },
    ])
  })

  it('names the first twenty mistakes, and how many there are', async () => {
    const wrong = Object.fromEntries(
      Array.from({ length: 4000 }, (_, i) => [`acme/m${i}`, { ...CHAT, pricing: { prompt: 1 } }]),
    )
    const text = JSON.stringify({ format: 1, generated_at: AT, sources: [], models: wrong })
    const issues = await issuesOf({ 'acme/large': {} }, text)
    expect(issues).toHaveLength(21)
    expect(issues.at(-1)!.message).toBe('and 3980 further mistakes')
  })

  it('is not read when it is too large', async () => {
    const cwd = await folder({ 'gateway.config.json': '{}' })
    await writeFile(join(cwd, 'prices.json'), ' ')
    await truncate(join(cwd, 'prices.json'), 100 * 1024 * 1024)
    await expect(loadConfig({ cwd, env: {} })).rejects.toThrow(
      'is too large for a list of prices: it has 100 MiB, expected at most 20 MiB',
    )
  })
})

it('a list that is not there is not looked at', async () => {
  const { code, err } = await call(['models', 'lint', 'absent-prices.json'])
  expect(err).toContain('There is no file "absent-prices.json".')
  expect(code).toBe(2)
})

describe('the list of the package', () => {
  it('has no price that is probably a mistake', async () => {
    const { code, out } = await call(['models', 'lint', PACKAGED_PRICES!, '--json'])
    expect(code).toBe(0)
    const { models, findings } = JSON.parse(out)
    expect(models).toBeGreaterThan(3000)
    const wrong = ['price-high', 'price-zero', 'price-order']
    const found = findings.filter(({ code: one }: { code: string }) => wrong.includes(one))
    // These vendors charge for long prompts in this way.
    expect(found.map((one: any) => `${one.code} ${one.model}`)).toEqual([
      'price-order openrouter/openai/gpt-5-image-mini',
      'price-order openrouter/x-ai/grok-4-fast',
      'price-order perplexity/openai/gpt-5.4',
      'price-order perplexity/xai/grok-4.20-multi-agent',
      'price-order perplexity/xai/grok-4.20-non-reasoning',
      'price-order perplexity/xai/grok-4.20-reasoning',
      'price-order perplexity/xai/grok-4.3',
      'price-order venice/gemini-3-1-pro-preview',
      'price-order venice/qwen-3-6-plus',
      'price-order vertex/gemini-2.5-flash',
    ])
  })

  it('is read without a check, line by line, as it is with one', async () => {
    const text = await readFile(PACKAGED_PRICES!, 'utf8')
    const checked = readPriceList(text, 'prices.json')
    expect(checkedModels(text, () => true)).toEqual(checked)
    const isNeeded = (id: string) => id.startsWith('openai/')
    const models = Object.entries(checked.models).filter(([id]) => isNeeded(id))
    expect(checkedModels(text, isNeeded)).toEqual({
      ...checked,
      models: Object.fromEntries(models),
    })
    expect(checkedModels(text, () => false)).toEqual({ ...checked, models: {} })
  })

  it('has models of most vendors of the table', async () => {
    const { models } = JSON.parse(await readFile(PACKAGED_PRICES!, 'utf8'))
    const vendors = new Set(Object.keys(models).map((id) => id.split('/')[0]))
    const missing = VENDORS.filter(
      ({ variables, name }) => variables.length > 0 && !vendors.has(name),
    )
    expect(missing.map(({ name }) => name)).toEqual(WITHOUT_PRICES)
    expect([...vendors].filter((name) => !VENDORS.some((one) => one.name === name))).toEqual([])
  })
})
