import { describe, expect, it } from 'vitest'
import newApi from '../../../plugins/import/new-api.ts'
import { hashSecret } from '../../../src/accounts/secrets.ts'
import { readTable } from '../../../src/import/source.ts'
import { isAllowed } from '../../../src/models/allowlist.ts'
import { pick, randomOf } from '../../torture/_random.ts'

type Rows = readonly Readonly<Record<string, unknown>>[]

const CHANNEL = {
  id: 1,
  type: 1,
  key: 'sk-vendor',
  status: 1,
  models: 'gpt-4o',
  group: 'default',
  priority: 0,
}
const USER = { id: 7, username: 'ada', quota: 1_250_000, status: 1, group: 'default' }
const TOKEN = {
  id: 1,
  user_id: 7,
  key: '0123456789abcdef',
  status: 1,
  name: 'laptop',
  expired_time: -1,
  remain_quota: 0,
  unlimited_quota: 1,
  model_limits_enabled: 0,
  model_limits: '',
  group: '',
}
const OPTIONS = {
  ModelRatio: '{"gpt-4o":1.25,"odd":0.3333333333333333}',
  CompletionRatio: '{"gpt-4o":4,"odd":1}',
  CacheRatio: '{"gpt-4o":0.5}',
  ModelPrice: '{"draw":0.04}',
  GroupRatio: '{"default":1,"vip":0.5}',
}

function read(tables: Readonly<Record<string, Rows>>, accept: readonly string[] = []) {
  const options = Object.entries(OPTIONS).map(([key, value]) => ({ key, value }))
  const all = { channels: [CHANNEL], users: [USER], tokens: [TOKEN], options, ...tables }
  return newApi.read({
    config: undefined,
    tables: new Map(
      Object.entries(all).map(([kind, rows]) => [
        kind,
        readTable(JSON.stringify(rows), `${kind}.json`),
      ]),
    ),
    accept: new Set(accept),
    listed: new Set(['openai/gpt-5']),
  })
}

const keyOf = (row: object, tables: Readonly<Record<string, Rows>> = {}, accept?: string[]) =>
  read({ ...tables, tokens: [{ ...TOKEN, ...row }] }, accept).keys[0]!

describe('channels of new-api', () => {
  it.each([
    [{ type: 1 }, 'openai/gpt-4o', 'openai', {}],
    [{ type: 1, base_url: 'https://api.openai.com' }, 'openai/gpt-4o', 'openai', {}],
    [
      { type: 1, base_url: 'https://relay.example' },
      'openai-compatible/gpt-4o',
      'openai-compatible',
      { baseURL: 'https://relay.example/v1' },
    ],
    [{ type: 14 }, 'anthropic/gpt-4o', 'anthropic', {}],
    [{ type: 24 }, 'google/gpt-4o', 'google', {}],
    [{ type: 43, base_url: 'https://api.deepseek.com' }, 'deepseek/gpt-4o', 'deepseek', {}],
    [
      { type: 3, base_url: 'https://x.openai.azure.com', other: '2024-10-21' },
      'azure/gpt-4o',
      'azure',
      { baseURL: 'https://x.openai.azure.com', surface: 'deployments', apiVersion: '2024-10-21' },
    ],
    [
      { type: 33, key: 'AKIA|secret|eu-west-1' },
      'bedrock/gpt-4o',
      'bedrock',
      { region: 'eu-west-1' },
    ],
    [
      { type: 41, key: '{"project_id":"p","private_key":"k"}', other: '{"default":"eu"}' },
      'vertex/gpt-4o',
      'google',
      { vertex: { project: 'p', location: 'eu', credentials: '${NEW_API_SECRET_1}' } },
    ],
  ])('of %o become a provider', (row, id, use, options) => {
    const { config, models, env } = read({ channels: [{ ...CHANNEL, ...row }] })
    expect([...models.keys()]).toEqual([id])
    const [provider] = Object.values(
      config.providers as Record<string, { use: string; options: object }>,
    )
    expect(provider).toMatchObject({ use, options })
    expect(JSON.stringify([config, [...models]])).not.toMatch(/sk-vendor|secret\||private_key/)
    expect(env.size).toBeGreaterThan(0)
  })

  it('of one model are its deployments, the highest priority first', () => {
    const { models, config } = read({
      channels: [
        { ...CHANNEL, priority: -5, weight: 3, model_mapping: '{"gpt-4o":"a","a":"gpt-4o-2024"}' },
        { ...CHANNEL, id: 2, key: 'one\ntwo', priority: 10, weight: 4 },
        { ...CHANNEL, id: 3, status: 3 },
      ],
    })
    expect(models.get('openai/gpt-4o')).toMatchObject({
      aliases: ['gpt-4o'],
      deployments: [
        { provider: 'channel-1', model: 'gpt-4o-2024', weight: 3, priority: 15 },
        { provider: 'channel-2', model: 'gpt-4o', weight: 2 },
        { provider: 'channel-2-2', model: 'gpt-4o', weight: 2 },
      ],
    })
    expect(Object.keys(config.providers as object)).toEqual([
      'channel-1',
      'channel-2',
      'channel-2-2',
    ])
  })

  it('that are not known leave their models not enabled', () => {
    const { models, notes } = read({
      channels: [CHANNEL, { ...CHANNEL, id: 2, type: 2, models: 'mj,gpt-4o' }],
    })
    expect(models.get('unknown/mj')).toMatchObject({ enabled: false })
    expect(models.get('openai/gpt-4o')).not.toHaveProperty('enabled')
    expect(notes.filter(({ harm }) => harm === 'unserved')).toHaveLength(1)
  })
})

describe('ratios of new-api', () => {
  it('are prices to the last digit; a model without all of them is priced from a list', () => {
    const models = 'gpt-4o,odd,draw,gpt-5'
    const { models: byId } = read({ channels: [{ ...CHANNEL, models }] })
    expect(byId.get('openai/gpt-4o')!.pricing).toEqual({
      prompt: '0.0000025',
      completion: '0.00001',
      input_cache_read: '0.00000125',
    })
    expect(byId.get('openai/odd')!.pricing).toEqual({
      prompt: '0.000000666666666667',
      completion: '0.000000666666666667',
    })
    expect(byId.get('openai/draw')!.pricing).toEqual({ request: '0.04' })
    expect(byId.get('openai/gpt-5')!.pricing).toBeUndefined()
  })

  it('of groups are lost, and named', () => {
    const { notes } = read({})
    expect(notes).toContainEqual({
      harm: 'lost',
      where: 'options: GroupRatio.vip',
      message: 'a model has one price here for all keys; price lists of accounts can differ',
    })
  })
})

describe('tokens of new-api', () => {
  it('are keys of the same secret, in accounts with the quota as credit', () => {
    const { keys, accounts } = read({})
    expect(keys[0]).toMatchObject({
      account: 'new-api-7',
      name: 'laptop',
      sha256: hashSecret('sk-0123456789abcdef'),
      start: 'sk-0123',
      disabled: false,
      settings: {},
    })
    expect(accounts.get('new-api-7')).toEqual({ name: 'ada', settings: {}, credit: '2.5' })
    expect(JSON.stringify(keys)).not.toContain('456789abcdef"')
  })

  it('keep what is left, when they end, and their models', () => {
    const row = {
      unlimited_quota: 0,
      remain_quota: 500_001,
      expired_time: 1_800_000_000,
      model_limits_enabled: 1,
      model_limits: 'gpt-4o,gone',
    }
    expect(keyOf(row)).toMatchObject({
      disabled: false,
      settings: {
        spend_cap: { usd: '1.000002', scope: 'lifetime' },
        expires_at: '2027-01-15T08:00:00.000Z',
        models: ['openai/gpt-4o'],
      },
    })
  })

  it('may use the models of the channels of their group', () => {
    const channels = [CHANNEL, { ...CHANNEL, id: 2, models: 'gpt-5', group: 'vip' }]
    expect(keyOf({}, { channels }).settings.models).toEqual(['openai/gpt-4o'])
    expect(keyOf({ group: 'vip' }, { channels }).settings.models).toEqual(['openai/gpt-5'])
    const users = [{ ...USER, group: 'vip' }]
    expect(keyOf({}, { channels, users }).settings.models).toEqual(['openai/gpt-5'])
  })

  it('are disabled where the source refuses, or restricts in another way', () => {
    for (const row of [
      { status: 2 },
      { allow_ips: '10.0.0.1' },
      { subnet: '10.0.0.0/8' },
      { group: 'auto' },
      { group: 'nobody' },
      { user_id: 8 },
      { unlimited_quota: 0, remain_quota: 0 },
      { unlimited_quota: 0, remain_quota: -5 },
      { model_limits_enabled: 1, model_limits: '' },
      { model_limits_enabled: 1, model_limits: 'openai/gpt-4o' },
      { a_new_column: 'x' },
    ]) {
      expect(keyOf(row).disabled, JSON.stringify(row)).toBe(true)
    }
    expect(keyOf({}, { users: [{ ...USER, status: 2 }] }).disabled).toBe(true)
    expect(keyOf({ allow_ips: '10.0.0.1' }, {}, ['allow_ips']).disabled).toBe(false)
    expect(read({ tokens: [{ ...TOKEN, deleted_at: '2026-01-01' }] }).keys).toEqual([])
  })

  const SEED = Number(process.env.SEED ?? Date.now() % 1_000_000)
  it(`admit nothing that the source refused, in 10000 calls (seed ${SEED})`, () => {
    const NAMES = ['gpt-4o', 'gpt-5', 'openai/gpt-4o', 'fast', 'a b']
    const GROUPS = ['default', 'vip', 'svip']
    let admitted = 0
    for (let run = 0; run < 1000; run++) {
      const random = randomOf(SEED, run)
      const some = (from: readonly string[]) => from.filter(() => random(2) === 0)
      const channels = Array.from({ length: 1 + random(3) }, (_, n) => ({
        ...CHANNEL,
        id: n,
        status: 1 + random(2),
        models: some(NAMES).join(','),
        group: some(GROUPS).join(','),
        model_mapping: random(3) === 0 ? '{"gpt-4o":"gpt-5"}' : '',
      }))
      const limited = random(2)
      const limits = some([...NAMES, 'openai/fast'])
      const token = {
        ...TOKEN,
        status: random(5) === 0 ? 2 : 1,
        group: random(2) === 0 ? pick(random, GROUPS) : '',
        model_limits_enabled: limited,
        model_limits: limits.join(','),
        ...(random(6) === 0 && { allow_ips: '10.0.0.1' }),
      }
      const users = [{ ...USER, group: pick(random, GROUPS), status: random(8) === 0 ? 2 : 1 }]
      const { keys, models } = read({ channels, users, tokens: [token] })
      const [key] = keys
      const group = token.group || users[0]!.group
      const serves = (name: string) =>
        token.status === 1 &&
        users[0]!.status === 1 &&
        !('allow_ips' in token) &&
        (limited === 0 || limits.includes(name)) &&
        channels.some(
          (channel) =>
            channel.status === 1 &&
            channel.models.split(',').includes(name) &&
            (channel.group || 'default').split(',').includes(group),
        )
      const named = [...models].filter(([, { enabled }]) => enabled !== false)
      for (let call = 0; call < 10; call++) {
        const name = pick(random, [...NAMES, 'openai/fast', ...models.keys()])
        const found = named.find(([id, { aliases = [] }]) => id === name || aliases.includes(name))
        if (!found || key!.disabled) continue
        const [id, { aliases = [] }] = found
        const list = key!.settings.models as string[] | undefined
        if (list !== undefined && !isAllowed(list, id)) continue
        admitted++
        const told = JSON.stringify({ run, name, id, channels, users, token })
        expect([name, id, ...aliases].some(serves), told).toBe(true)
      }
    }
    expect(admitted).toBeGreaterThan(500)
  })
})
