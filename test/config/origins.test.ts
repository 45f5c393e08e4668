/** Where each value comes from, and which values an operator may see. */
import { describe, expect, it } from 'vitest'
import { loadConfig } from '../../src/config/config.ts'
import { originInWords } from '../../src/cli/local.ts'
import { settingsOf } from '../../src/config/settings.ts'
import { folder } from '../_folder.ts'

const CHECKED = { source: 'models.dev', checked_at: '2099-01-01T00:00:00Z' }
const LIST = {
  format: 1,
  generated_at: '2099-01-01T00:00:00Z',
  sources: [],
  models: {
    'house/listed': { modality: 'chat', pricing: { prompt: '0.000001' }, ...CHECKED },
    'wild/one': { pricing: { prompt: '1', completion: '1' }, context_length: 9, ...CHECKED },
  },
}
const HOUSE = { use: 'openai-compatible', options: { baseURL: 'http://me:pass@127.0.0.1:1/v1' } }
const CONFIG = {
  extends: 'starter',
  server: { limits: { chat: '2mib' } },
  state: { driver: 'file', path: './state' },
  providers: { house: HOUSE, wild: HOUSE, openai: { use: 'openai', options: { apiKey: 'sk-1' } } },
  models: {
    'house/listed': { aliases: ['listed'] },
    'house/own': { pricing: { prompt: '${PRICE}', completion: '0.1' } },
    'wild/*': { free_tier: false },
    'mock/echo': { name: 'Mine' },
  },
  billing: { mostPerCall: '20' },
}
const MODELS = 'house/listed: { name: Listed }\nmock/echo: { free_tier: true, name: Other }\n'
const ENV = {
  PRICE: '0.5',
  OLLAMA_HOST: '127.0.0.1:1',
  SLUICEGATE_DATA: './elsewhere',
  SLUICEGATE__SERVER__PORT: '9000',
  SLUICEGATE__MODELS__MOCK_ECHO__PRICING__PROMPT: '0.25',
}

async function settings(env: object = ENV) {
  const cwd = await folder({
    'gateway.config.json': JSON.stringify(CONFIG),
    'models.yaml': MODELS,
    'prices.json': JSON.stringify(LIST),
  })
  const all = settingsOf(await loadConfig({ cwd, env: env as Record<string, string> }))
  return new Map(all.map((one) => [one.path.join('.'), one]))
}

describe('the origin of a value', () => {
  it('is the first layer that has it', async () => {
    const found = await settings()
    const expected = Object.entries({
      'server.port': 'SLUICEGATE__SERVER__PORT',
      'server.host': 'default',
      'server.limits.chat': 'gateway.config.json',
      'server.limits.files': 'default',
      'state.path': 'SLUICEGATE_DATA',
      'providers.mock.use': 'starter',
      'providers.mock.timeout': 'default',
      'providers.openai.options.apiKey': 'gateway.config.json',
      'models.house/listed.aliases.0': 'gateway.config.json',
      'models.house/listed.name': 'models.yaml',
      'models.house/listed.pricing.prompt': 'prices.json',
      'models.house/listed.price_source.from': 'prices.json',
      'models.house/listed.deployments.0.provider': 'default',
      'models.house/own.pricing.prompt': 'PRICE',
      'models.house/own.pricing.completion': 'gateway.config.json',
      'models.mock/echo.name': 'gateway.config.json',
      'models.mock/echo.free_tier': 'models.yaml',
      'models.mock/echo.pricing.prompt': 'SLUICEGATE__MODELS__MOCK_ECHO__PRICING__PROMPT',
      'models.mock/echo.pricing.completion': 'starter',
      'models.wild/one.free_tier': 'gateway.config.json',
      'models.wild/one.context_length': 'prices.json',
      'models.wild/one.deployments.0.model': 'default',
    })
    const told = expected.map(([path]) => [path, originInWords(found.get(path)!.origin)])
    expect(told).toEqual(expected)
  })

  it('of an option of the command line is that option, over a variable', async () => {
    const cwd = await folder({ 'gateway.config.json': JSON.stringify(CONFIG) })
    const loaded = await loadConfig({ cwd, env: ENV, address: { port: 9001 } })
    const found = new Map(settingsOf(loaded).map((one) => [one.path.join('.'), one]))
    expect(found.get('server.port')).toMatchObject({
      value: 9001,
      origin: { from: 'command line', name: '--port' },
    })
    expect(found.get('server.host')!.origin).toEqual({ from: 'default' })
  })

  it('of the prices of the package is the package', async () => {
    const listed = await settings({ ...ENV, OPENAI_API_KEY: 'sk-2' })
    const { origin } = listed.get('models.openai/gpt-6-sol.pricing.prompt')!
    expect(origin).toEqual({ from: 'built-in' })
  })
})

it('values are shown in their units, and secrets only as set or not', async () => {
  const found = await settings()
  const shown = (path: string) => found.get(path)?.value
  expect(shown('server.limits.chat')).toBe(2 * 1024 * 1024)
  expect(shown('billing.mostPerCall')).toBe('20')
  expect(shown('providers.openai.options.apiKey')).toBe('set')
  expect(shown('providers.house.options.baseURL')).toBe('http://[secret]@127.0.0.1:1/v1')
  expect(shown('models.house/own.pricing.prompt')).toBe('set')
  expect(shown('admin.token')).toBe('not set')
  expect(shown('admin.tokens')).toEqual([])
  expect([...found.keys()].filter((path) => path.includes('.listed.'))).toEqual([])
})
