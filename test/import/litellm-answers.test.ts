/** LiteLLM's four kinds of fallbacks, and its cache: what they become, with nothing of them lost. */
import { expect, it } from 'vitest'
import litellm from '../../plugins/import/litellm.ts'
import { loadConfig } from '../../src/config/config.ts'
import { folder } from '../_folder.ts'

const model = (name: string) => ({
  model_name: name,
  litellm_params: {
    model: `openai/${name}`,
    api_key: 'os.environ/OPENAI_API_KEY',
    input_cost_per_token: 1e-6,
    output_cost_per_token: 2e-6,
  },
  model_info: { mode: 'chat', max_input_tokens: 128_000 },
})

const imported = (more: object) =>
  litellm.read({
    config: { model_list: ['a', 'b', 'c', 'd'].map(model), ...more },
    tables: new Map(),
    accept: new Set(),
    listed: new Set(),
  } as never)

it('takes over all four kinds of fallbacks, from either section', async () => {
  const { config, models, notes } = imported({
    router_settings: { fallbacks: [{ a: ['b', 'c'] }] },
    litellm_settings: {
      context_window_fallbacks: [{ a: ['c'] }],
      content_policy_fallbacks: [{ b: ['d'] }],
      default_fallbacks: ['d'],
    },
  })
  expect(notes.filter(({ harm }) => harm === 'lost')).toEqual([])
  expect(models.get('openai/a')).toMatchObject({
    context_length: 128_000,
    fallbacks: [
      { model: 'openai/b', when: ['down'] },
      { model: 'openai/c', when: ['down', 'context'] },
    ],
  })
  expect(models.get('openai/b')!.fallbacks).toEqual([{ model: 'openai/d', when: ['filter'] }])
  expect(config).toMatchObject({ routing: { fallbacks: [{ model: 'openai/d', when: ['down'] }] } })
  const text = JSON.stringify({
    ...config,
    state: { driver: 'memory' },
    models: Object.fromEntries(models),
  })
  const cwd = await folder({ 'gateway.config.json': text })
  const env = { OPENAI_API_KEY: 'k', SLUICEGATE_ADMIN_TOKEN: 'a-long-admin-token' }
  await expect(loadConfig({ cwd, env })).resolves.toBeDefined()
})

it.each([
  [{ cache: true }, { store: { driver: 'lru-cache' } }, 'on'],
  [
    { cache: true, cache_params: { type: 'redis', host: 'cache', port: 6379, ttl: 600 } },
    { store: { driver: 'redis', host: 'cache', port: 6379, base: 'answers' }, ttl: 600 },
    'on',
  ],
  [
    {
      cache: true,
      cache_params: { type: 'disk', disk_cache_dir: '/var/cache', mode: 'default_off' },
    },
    { store: { driver: 'fs', base: '/var/cache' } },
    'asked',
  ],
])('takes over the cache: %j', (litellm_settings, answers, use) => {
  const { config, models, notes } = imported({ litellm_settings })
  expect(notes.filter(({ harm }) => harm === 'lost')).toEqual([])
  expect(config).toMatchObject({ answers })
  expect(models.get('openai/a')).toMatchObject({ cache: use })
})

it('says that answers of similar requests are not taken for each other', () => {
  const { config, notes } = imported({
    litellm_settings: { cache: true, cache_params: { type: 'redis-semantic' } },
  })
  expect(config).not.toHaveProperty('answers')
  expect(notes.filter(({ harm }) => harm === 'lost')).toHaveLength(1)
})
