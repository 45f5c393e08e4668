/** No migrated key admits what its source refused: random proxies, keys and calls. */
import * as v from 'valibot'
import { describe, expect, it } from 'vitest'
import litellm from '../../plugins/import/litellm.ts'
import { hashSecret } from '../../src/accounts/secrets.ts'
import { readYaml } from '../../src/import/source.ts'
import { isAllowed } from '../../src/models/allowlist.ts'
import { buildCatalog } from '../../src/models/catalog.ts'
import { isWildcard, modelsSchema, type ModelEntry } from '../../src/models/entry.ts'
import { pick, randomOf, type Random } from '../torture/_random.ts'
import { runs } from '../_runs.ts'
import { answeredBy, type SourceKey, type SourceProxy } from './_source.ts'

const CALLS = runs(3000)
const SEED = Number(process.env.SEED ?? Date.now() % 1_000_000)
const NOW = Date.UTC(2026, 10, 28)
const DAY = 24 * 3600 * 1000
const PRICING = { prompt: '0.000001', completion: '0.000002' }

/** Models of vendors, by the names of LiteLLM. */
const OPENAI = ['gpt-4o', 'gpt-4o-mini', 'gpt-5', 'o3', 'whisper-1']
const ANTHROPIC = ['claude-sonnet-5', 'claude-haiku-4-5']
const VENDORS = Object.fromEntries([
  ...OPENAI.map((name) => [name, 'openai']),
  ...ANTHROPIC.map((name) => [name, 'anthropic']),
])
const LISTED = [
  ...OPENAI.map((name) => `openai/${name}`),
  ...ANTHROPIC.map((name) => `anthropic/${name}`),
]
/** Names of models that an operator might choose, some of which are models of other vendors too. */
const NAMES = [
  ...OPENAI,
  'fast',
  'smart',
  'house/fast',
  'openai/gpt-4o',
  'claude',
  'draw',
  'gpt-4',
  'a b',
]
const GROUPS = ['team', 'beta']
const ALIASES = ['gpt-3', 'best', 'cheap']

interface Installation {
  readonly proxy: SourceProxy
  readonly config: object
}

function proxyOf(random: Random): Installation {
  const models: Record<string, string> = {}
  const groups: Record<string, string[]> = {}
  const list: object[] = []
  const add = (name: string, model: string) => {
    models[name] ??= model
    const group = random(3) === 0 ? pick(random, GROUPS) : undefined
    if (group !== undefined && !name.includes('*')) (groups[group] ??= []).push(name)
    list.push({
      model_name: name,
      litellm_params: {
        model,
        ...(!name.includes('*') && { input_cost_per_token: 1e-6, output_cost_per_token: 2e-6 }),
      },
      ...(group !== undefined && { model_info: { access_groups: [group] } }),
    })
  }
  for (const name of NAMES) {
    if (random(2) === 0) continue
    add(name, random(3) === 0 ? `openai/${pick(random, OPENAI)}` : pick(random, LISTED))
  }
  if (random(2) === 0) add('openai/*', 'openai/*')
  if (random(3) === 0) add('anthropic/*', 'anthropic/*')
  const targets = Object.keys(models).filter((name) => !name.includes('*'))
  const aliases: Record<string, string> = {}
  for (const alias of targets.length > 0 ? ALIASES : []) {
    if (random(2) === 0) aliases[alias] = pick(random, targets)
  }
  return {
    proxy: { models, groups, aliases, vendors: VENDORS },
    config: { model_list: list, router_settings: { model_group_alias: aliases } },
  }
}

const ELEMENTS = [
  ...NAMES,
  ...GROUPS,
  ...ALIASES,
  ...LISTED,
  'openai/*',
  'anthropic/*',
  'openai/gpt-*',
  'gpt-*',
  '*mini',
  'house/*',
  'openai-compatible/*',
  'nothing',
  'openai/draw',
  'openai/fast',
  'all-proxy-models',
]

function listOf(random: Random): string[] {
  if (random(4) === 0) return []
  return Array.from({ length: 1 + random(4) }, () => pick(random, ELEMENTS))
}

/** Restrictions that have no counterpart: such a key must not work here. */
const RESTRICTIONS = [
  { rpm_limit: '0' },
  { tpm_limit: '1.5' },
  { model_rpm_limit: '{"gone":1}' },
  { budget_limits: '[{"max_budget":1,"budget_duration":"1h"}]' },
  { max_budget: '1', budget_duration: '6h' },
  { max_budget: '1', spend: '2' },
  { max_budget: '0' },
  { allowed_routes: '{/models}' },
  { permissions: '{"a":true}' },
  { metadata: '{"model_rpm_limit":{"gone":1}}' },
  { metadata: '{"tag_rpm_limit":{"x":1}}' },
  { config: '{"a":1}' },
  { router_settings: '{"fallbacks":[]}', a_new_limit: '5' },
  { team_id: 'red' },
  { project_id: 'moon' },
  { agent_id: 'bond' },
  { organization_id: 'gone' },
  { user_id: 'gone' },
  { budget_id: 'gone' },
  { expires: 'soon' },
]

function keyOf(random: Random, number: number) {
  const models = listOf(random)
  const users = { kim: listOf(random), lee: ['no-default-models'], nil: [] as string[] }
  const owner =
    random(3) === 0 ? pick(random, Object.keys(users) as (keyof typeof users)[]) : undefined
  const expires = random(4) === 0 ? NOW + (random(3) - 1) * DAY : undefined
  const blocked = random(10) === 0
  const keyAliases: Record<string, string> = random(10) === 0 ? { 'gpt-4o': 'gpt-4o-mini' } : {}
  const restricted = random(6) === 0 ? pick(random, RESTRICTIONS) : undefined
  const key: SourceKey = {
    models,
    ownerModels: owner === undefined ? [] : [users[owner]],
    blocked,
    expires,
    keyAliases,
  }
  const row = {
    token: hashSecret(`sk-number-${number}`),
    models: `{${models.map((name) => JSON.stringify(name)).join(',')}}`,
    aliases: JSON.stringify(keyAliases),
    blocked: blocked ? 't' : 'f',
    expires:
      expires === undefined ? '' : new Date(expires).toISOString().replace('T', ' ').slice(0, 19),
    user_id: owner ?? '',
    ...restricted,
  }
  const userRows = Object.entries(users).map(([user_id, list]) => {
    return { user_id, user_role: 'internal_user', models: list }
  })
  return { key, row, userRows, restricted }
}

/** The models that the written configuration has, with those of its wildcards. */
function catalogOf(models: ReadonlyMap<string, object>) {
  const plain = [...models].filter(([id]) => !isWildcard(id))
  const entries = v.parse(modelsSchema, Object.fromEntries(plain)) as Record<string, ModelEntry>
  for (const [id, entry] of Object.entries(entries)) {
    if (entry.pricing === undefined) entries[id] = { ...entry, pricing: PRICING }
  }
  for (const [id] of models) {
    if (!isWildcard(id)) continue
    for (const one of LISTED) {
      if (!one.startsWith(id.slice(0, -1)) || Object.hasOwn(entries, one)) continue
      const deployments = [{ provider: id.slice(0, -2), model: one.slice(id.length - 1) }]
      Object.assign(entries, v.parse(modelsSchema, { [one]: { pricing: PRICING, deployments } }))
    }
  }
  return buildCatalog(entries)
}

describe('a migrated key', () => {
  it(`admits nothing that its source refused, in ${CALLS} calls (seed ${SEED})`, () => {
    let admitted = 0
    let refused = 0
    for (let call = 0, proxies = 0; call < CALLS; proxies++) {
      const random = randomOf(SEED, proxies)
      const { proxy, config } = proxyOf(random)
      const { key, row, userRows, restricted } = keyOf(random, proxies)
      const { models, keys } = litellm.read({
        config: readYaml(JSON.stringify(config)),
        tables: new Map<string, Readonly<Record<string, unknown>>[]>([
          ['keys', [row]],
          ['users', userRows],
        ]),
        accept: new Set(),
        listed: new Set(LISTED),
      })
      const catalog = catalogOf(models)
      const [migrated] = keys
      for (let n = 0; n < 20; n++, call++) {
        const own = [...Object.keys(proxy.models), ...Object.keys(proxy.aliases)]
        const name = pick(random, [...ELEMENTS, ...catalog.all().map(({ id }) => id), ...own])
        const now = NOW + (random(7) - 3) * (DAY / 2)
        const model = catalog.find(name)
        const { models: list, expires_at } = migrated!.settings as {
          models?: string[]
          expires_at?: string
        }
        const isAdmitted =
          model !== undefined &&
          !migrated!.disabled &&
          (expires_at === undefined || Date.parse(expires_at) > now) &&
          (list === undefined || isAllowed(list, model.id))
        if (!isAdmitted) {
          refused++
          continue
        }
        admitted++
        const told = { seed: SEED, proxies, name, id: model.id, key, config, list }
        expect(restricted, JSON.stringify(told)).toBeUndefined()
        // The source answers by a model under some of its names; the id that is made up here is one more.
        const names = [name, model.id, ...model.aliases, ...Object.keys(proxy.models)]
        const deployed = new Set(model.deployments.map((one) => `${one.provider}/${one.model}`))
        const answers = names
          .filter((one) => one === name || catalog.find(one)?.id === model.id)
          .map((one) => answeredBy(proxy, key, one, now))
        expect(
          answers.some((one) => one !== undefined && deployed.has(one)),
          JSON.stringify(told),
        ).toBe(true)
      }
    }
    // The calls are neither all refused nor all admitted.
    expect(admitted).toBeGreaterThan(CALLS / 20)
    expect(refused).toBeGreaterThan(CALLS / 10)
  })
})
