/** Taking over Bifrost: what is written is what `check` sees, keys keep their secrets, and no key can do more than before. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { parseYAML } from 'confbox/yaml'
import bifrost from '../../plugins/import/bifrost.ts'
import { hashSecret } from '../../src/accounts/secrets.ts'
import { call } from '../_cli.ts'
import { folder } from '../_folder.ts'

const SECRET = 'sk-or-v1-a-literal-secret'
const VIRTUAL = 'sk-bf-0123456789abcdef'

const CONFIG = {
  $schema: 'https://www.getbifrost.ai/schema',
  encryption_key: 'env.BIFROST_ENCRYPTION_KEY',
  client: { drop_excess_requests: false },
  plugins: [{ name: 'semantic_cache', enabled: true }],
  providers: {
    openai: {
      keys: [
        {
          name: 'first',
          value: 'env.OPENAI_API_KEY',
          models: ['gpt-4o', 'gpt-4o-mini'],
          weight: 0.7,
        },
        { name: 'second', value: SECRET, models: ['gpt-4o'], weight: 0.3 },
      ],
      network_config: { default_request_timeout_in_seconds: 30 },
    },
    gemini: { keys: [{ value: 'env.GEMINI_API_KEY', models: ['gemini-2.5-pro'], weight: 1 }] },
    anthropic: { keys: [{ value: 'env.ANTHROPIC_API_KEY', models: ['*'], weight: 1 }] },
    azure: {
      keys: [
        {
          value: 'env.AZURE_API_KEY',
          models: ['gpt-4o'],
          azure_key_config: {
            endpoint: 'https://acme.openai.azure.com',
            api_version: '2024-10-21',
            deployments: { 'gpt-4o': 'my-gpt' },
          },
        },
      ],
    },
    house: {
      keys: [{ value: 'env.HOUSE_KEY', models: ['llama'] }],
      custom_provider_config: { base_provider_type: 'openai' },
      network_config: { base_url: 'http://127.0.0.1:8000' },
    },
    parasail: { keys: [{ value: 'env.PARASAIL_KEY', models: ['*'] }] },
  },
  governance: {
    budgets: [
      { id: 'b-month', max_limit: 100.5, reset_duration: '1M' },
      { id: 'b-week', max_limit: 10, reset_duration: '1w' },
    ],
    rate_limits: [{ id: 'r', request_max_limit: 60, request_reset_duration: '1m' }],
    customers: [{ id: 'Acme Inc', name: 'Acme', budget_id: 'b-month' }],
    teams: [{ id: 'platform', name: 'Platform' }],
    virtual_keys: [
      {
        id: 'vk-1',
        name: 'laptop',
        value: VIRTUAL,
        is_active: true,
        team_id: 'platform',
        budget_id: 'b-month',
        rate_limit_id: 'r',
        provider_configs: [
          { provider: 'openai', allowed_models: ['gpt-4o'], weight: 1 },
          { provider: 'gemini', allowed_models: ['*'] },
        ],
      },
    ],
  },
}

type Key = Record<string, unknown>
const readWith = (virtual_keys: readonly Key[], accept: readonly string[] = [], governance = {}) =>
  bifrost.read({
    config: { ...CONFIG, governance: { ...CONFIG.governance, ...governance, virtual_keys } },
    tables: new Map(),
    accept: new Set(accept),
    listed: new Set(['anthropic/claude-opus-5-5', 'openai/gpt-5', 'google/gemini-2.5-pro']),
  })
const [KEY] = CONFIG.governance.virtual_keys as readonly Key[]
const keyOf = (change: Key, accept?: readonly string[]) =>
  readWith([{ ...KEY, ...change }], accept).keys[0]!

it('is written as check sees it, with secrets in .env alone', async () => {
  const cwd = await folder({ 'config.json': JSON.stringify(CONFIG) })
  const { code, out, err } = await call(
    ['import', 'bifrost', '--config', 'config.json', '--out', 'gateway'],
    { cwd },
  )
  expect(code).toBe(3)
  const [first] = out.split('\n')
  expect(first).toBe('5 of 6 models served, 1 not (no price); 1 key: 1 active, 0 disabled')
  expect(out + err).not.toContain(SECRET)
  expect(out + err).not.toContain(VIRTUAL)
  const read = (name: string) => readFile(join(cwd, 'gateway', name), 'utf8')
  const [config, models, env] = await Promise.all(
    ['gateway.config.yaml', 'models.yaml', '.env'].map(read),
  )
  expect(parseYAML(models!)).toEqual({
    'openai/gpt-4o': {
      deployments: [
        { provider: 'openai', weight: 0.7, model: 'gpt-4o' },
        { provider: 'openai-2', weight: 0.3, model: 'gpt-4o' },
      ],
    },
    'openai/gpt-4o-mini': {
      deployments: [{ provider: 'openai', weight: 0.7, model: 'gpt-4o-mini' }],
    },
    'google/gemini-2.5-pro': {
      aliases: ['gemini/gemini-2.5-pro'],
      deployments: [{ provider: 'google', weight: 1, model: 'gemini-2.5-pro' }],
    },
    'anthropic/*': { deployments: [{ provider: 'anthropic', weight: 1 }] },
    'azure/gpt-4o': { deployments: [{ provider: 'azure', model: 'my-gpt' }] },
    'house/llama': { deployments: [{ provider: 'house', model: 'llama' }] },
  })
  expect(parseYAML(config!)).toMatchObject({
    providers: {
      openai: { use: 'openai', timeout: 30, options: { apiKey: '${OPENAI_API_KEY}' } },
      'openai-2': { use: 'openai', options: { apiKey: '${BIFROST_SECRET_1}' } },
      google: { use: 'google', options: { apiKey: '${GEMINI_API_KEY}' } },
      house: { use: 'openai-compatible', options: { baseURL: 'http://127.0.0.1:8000/v1' } },
    },
  })
  expect(config! + models!).not.toContain(SECRET)
  expect(env).toContain(SECRET)
  const names = [
    'OPENAI_API_KEY',
    'GEMINI_API_KEY',
    'ANTHROPIC_API_KEY',
    'AZURE_API_KEY',
    'HOUSE_KEY',
  ]
  const given = Object.fromEntries(names.map((name) => [name, 'a-key']))
  const checked = await call(['check'], { cwd: join(cwd, 'gateway'), env: given })
  expect(checked.out.split('\n')[0]).toBe(first!.split(';')[0])
})

it('a key keeps its secret, and has the limits that there are here', () => {
  const key = keyOf({})
  expect(key).toMatchObject({
    account: 'bifrost-platform',
    name: 'laptop',
    sha256: hashSecret(VIRTUAL),
    disabled: false,
    settings: {
      models: ['google/gemini-2.5-pro', 'openai/gpt-4o'],
      rpm_limit: 60,
      spend_cap: { usd: '100.5', scope: 'month' },
    },
  })
})

it.each<readonly [string, Key]>([
  ['a budget of a week', { budget_id: 'b-week' }],
  ['a limit of tokens', { rate_limit: { token_max_limit: 1000, token_reset_duration: '1h' } }],
  [
    'a limit of requests by the hour',
    { rate_limit: { request_max_limit: 5, request_reset_duration: '1h' } },
  ],
  [
    'a budget of one provider',
    {
      provider_configs: [
        {
          provider: 'openai',
          allowed_models: ['gpt-4o'],
          budget: { max_limit: 1, reset_duration: '1M' },
        },
      ],
    },
  ],
  ['an owner with a budget', { team_id: undefined, customer_id: 'Acme Inc' }],
  ['an owner that is not there', { team_id: 'nobody' }],
  ['a member that is not known', { allowed_ips: ['10.0.0.0/8'] }],
  ['no provider', { provider_configs: [] }],
  [
    'providers that are not served',
    { provider_configs: [{ provider: 'parasail', allowed_models: ['*'] }] },
  ],
  ['no model of a provider', { provider_configs: [{ provider: 'openai', allowed_models: [] }] }],
])('%s disables the key', (_, change) => {
  expect(keyOf(change).disabled).toBe(true)
})

it('what is accepted by name leaves the key active, and a key that was off stays off', () => {
  expect(keyOf({ budget_id: 'b-week' }, ['budget']).disabled).toBe(false)
  expect(keyOf({ is_active: false }, ['budget']).disabled).toBe(true)
})

it('a wildcard becomes what it serves today', () => {
  const configs = [{ provider: 'anthropic', allowed_models: ['*'] }]
  expect(keyOf({ provider_configs: configs }).settings.models).toEqual([
    'anthropic/claude-opus-5-5',
  ])
  // The list has a further model of OpenAI, which no key of the file serves.
  const openai = [{ provider: 'openai', allowed_models: ['*'] }]
  expect(keyOf({ provider_configs: openai }).settings.models).toEqual([
    'openai/gpt-4o',
    'openai/gpt-4o-mini',
  ])
})

it('a secret that the environment has, or that is there twice, is left out and named', () => {
  const { keys, notes } = readWith([
    { ...KEY, value: 'env.VK' },
    { ...KEY },
    { ...KEY, name: 'again' },
  ])
  expect(keys).toHaveLength(1)
  expect(notes.filter(({ where }) => where.endsWith('.value')).map(({ harm }) => harm)).toEqual([
    'locked',
    'differs',
  ])
})

it('each section that is not taken over is named, and another file is refused', async () => {
  const { notes } = readWith([])
  expect(notes.map(({ where }) => where)).toEqual(
    expect.arrayContaining([
      'plugins',
      'client',
      'encryption_key',
      'providers.gemini',
      'providers.parasail',
    ]),
  )
  const cwd = await folder({ 'config.json': '{"a":1}' })
  const { code, err } = await call(['import', 'bifrost', '--config', 'config.json'], { cwd })
  expect([code, err]).toEqual([1, expect.stringContaining('has no "providers"')])
})
