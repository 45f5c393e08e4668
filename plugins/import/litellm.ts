/** Installations of LiteLLM: what its configuration and its tables become here. */
import type {
  Installation,
  Migration,
  MigrationNote,
  MigrationSource,
  MigratedModel,
} from '../../src/plugin.ts'
import { mapKeys } from './litellm/keys.ts'
import { Models } from './litellm/models.ts'
import { Instances } from './litellm/providers.ts'
import { groupAliases, readSections } from './litellm/sections.ts'
import { Settings } from './shared/settings.ts'
import { isRaw, type Say, listOf, numberOf, rawOf, textOf, type Raw } from './shared/values.ts'

// Fallbacks to other models, and the cache of answers.

/** Lists of fallbacks and the condition of each. */
const LISTS = {
  fallbacks: 'down',
  context_window_fallbacks: 'context',
  content_policy_fallbacks: 'filter',
} as const
type When = (typeof LISTS)[keyof typeof LISTS]

const SECTIONS = ['router_settings', 'litellm_settings'] as const
/** Most fallbacks of a model. */
const MOST = 8

/** The drivers of the kinds of cache that have one here. */
const DRIVERS: Readonly<Record<string, string>> = {
  local: 'lru-cache',
  disk: 'fs',
  redis: 'redis',
  s3: 's3',
}

interface Names {
  idOf(name: string): string | undefined
}

type Listed = { readonly model: string; readonly when: readonly When[] }

/** Fallbacks that name models which are there: by id, and those of all other models. */
function readFallbacks(source: Raw, names: Names, say: Say) {
  const own = new Map<string, Listed[]>()
  const shared: Listed[] = []
  const add = (list: Listed[], named: unknown, when: When, where: string, ownId?: string) => {
    for (const one of listOf(named) ?? []) {
      const id = names.idOf(one)
      if (id === undefined) say('lost', where, `${JSON.stringify(one)} is no model of it`)
      else if (id !== ownId) put(list, id, when)
    }
    if (list.length > MOST) {
      list.length = MOST
      say('differs', where, `cut to ${MOST} models`)
    }
  }
  for (const section of SECTIONS) {
    const settings = rawOf(source[section])
    for (const [member, when] of Object.entries(LISTS)) {
      const where = `${section}.${member}`
      const entries = Array.isArray(settings[member]) ? settings[member] : []
      for (const [name, named] of entries.flatMap((one) => Object.entries(rawOf(one)))) {
        const id = name === '*' ? undefined : names.idOf(name)
        if (name === '*') add(shared, named, when, where)
        else if (id === undefined) say('lost', where, `${JSON.stringify(name)} is no model of it`)
        else {
          const list = own.get(id) ?? []
          own.set(id, list)
          add(list, named, when, where, id)
        }
      }
    }
    add(shared, settings.default_fallbacks, 'down', `${section}.default_fallbacks`)
  }
  return { own, shared }
}

/** A model that is named for several conditions stands once, at its first place. */
function put(list: Listed[], model: string, when: When): void {
  const at = list.findIndex((one) => one.model === model)
  if (at < 0) list.push({ model, when: [when] })
  else list[at] = { model, when: [...new Set([...list[at]!.when, when])] }
}

/** The section `answers`, and the use of models; undefined where nothing is stored. */
function readCache(source: Raw, say: Say): { section: object; use: string } | undefined {
  const settings = rawOf(source.litellm_settings)
  const params = rawOf(settings.cache_params)
  const isOn = settings.cache === true || rawOf(source.router_settings).cache_responses === true
  if (!isOn) return undefined
  const kind = textOf(params.type) ?? 'local'
  const driver = Object.hasOwn(DRIVERS, kind) ? DRIVERS[kind] : undefined
  if (driver === undefined) {
    say(
      'lost',
      'litellm_settings.cache_params.type',
      `there is no cache of the kind "${kind}": answers of similar requests are not taken for each other`,
    )
    return undefined
  }
  const ttl = numberOf(params.ttl)
  const store = { driver, ...optionsOf(kind, params) }
  return {
    section: {
      store,
      ...(ttl !== undefined && { ttl: Math.min(Math.max(ttl, 10), 604_800) }),
    },
    use: textOf(params.mode) === 'default_off' ? 'asked' : 'on',
  }
}

function optionsOf(kind: string, params: Raw): object {
  const text = (name: string) => {
    const value = textOf(params[name])
    return value?.startsWith('os.environ/') ? `\${${value.slice('os.environ/'.length)}}` : value
  }
  if (kind === 'disk') return { base: text('disk_cache_dir') ?? './data/answers' }
  if (kind === 'redis') {
    const url = text('url') ?? text('redis_url')
    const where = url === undefined ? { host: text('host') ?? '${REDIS_HOST}' } : { url }
    const port = url === undefined ? numberOf(params.port) : undefined
    return {
      ...where,
      ...(port !== undefined && { port }),
      base: text('namespace') ?? 'answers',
      ...(params.password !== undefined && { password: '${REDIS_PASSWORD}' }),
    }
  }
  if (kind !== 's3') return {}
  return {
    bucket: text('s3_bucket_name') ?? '${S3_BUCKET}',
    region: text('s3_region_name') ?? '${S3_REGION}',
    endpoint: text('s3_endpoint_url') ?? '${S3_ENDPOINT}',
    accessKeyId: '${S3_ID}',
    secretAccessKey: '${S3_KEY}',
  }
}

/** The models with their fallbacks and their use of stored answers. A model that is not served is no fallback. */
function withAnswers(
  models: ReadonlyMap<string, MigratedModel>,
  fallbacks: ReadonlyMap<string, readonly Listed[]>,
  use: string | undefined,
): Map<string, MigratedModel> {
  const isServed = (id: string) => models.get(id)?.enabled !== false
  return new Map(
    [...models].map(([id, model]): [string, MigratedModel] => {
      const own = fallbacks.get(id)?.filter((one) => isServed(one.model)) ?? []
      return [
        id,
        { ...model, ...(own.length > 0 && { fallbacks: own }), ...(use && { cache: use }) },
      ]
    }),
  )
}

const source: MigrationSource = {
  name: 'litellm',
  title: 'LiteLLM',
  configured: true,
  tables: [
    { kind: 'keys', columns: ['token'] },
    { kind: 'teams', columns: ['team_id', 'team_alias'] },
    { kind: 'organizations', columns: ['organization_id', 'organization_alias'] },
    { kind: 'users', columns: ['user_id', 'user_role'] },
    { kind: 'groups', columns: ['access_group_id', 'access_group_name'] },
    { kind: 'budgets', columns: ['budget_id', 'max_budget'] },
  ],
  read,
}
export default source

function read({ config: raw, tables, accept, listed }: Installation): Migration {
  if (!isRaw(raw) || (raw.model_list !== undefined && !Array.isArray(raw.model_list))) {
    throw new TypeError('it is no LiteLLM configuration: expected "model_list", a list of models')
  }
  // What holds for several members of one place is one note.
  const notes = new Map<string, MigrationNote>()
  const say: Say = (harm, where, message, remedy) => {
    const note = { harm, where, message, ...(remedy !== undefined && { remedy }) }
    notes.set(JSON.stringify(note), note)
  }
  const settings = new Settings('LITELLM', (text) => /^os\.environ\/(\w+)$/.exec(text)?.[1])
  const instances = new Instances(settings)
  const models = new Models(instances, listed, say)
  models.addAll((raw.model_list ?? []) as readonly unknown[])
  for (const [alias, name] of groupAliases(raw)) {
    models.addAlias(alias, name, `router_settings.model_group_alias.${alias}`)
  }
  const { server, routing, sinks, guards } = readSections(raw, settings, say)
  const { own, shared } = readFallbacks(raw, models.names, say)
  const cache = readCache(raw, say)
  const routed = { ...routing, ...(shared.length > 0 && { fallbacks: shared }) }
  const config = {
    ...(models.isOpen && { extends: 'starter' }),
    ...(Object.keys(server).length > 0 && { server }),
    admin: { token: '${SLUICEGATE_ADMIN_TOKEN}' },
    providers: Object.fromEntries(instances.byName),
    ...(Object.keys(routed).length > 0 && { routing: routed }),
    ...(cache && { answers: cache.section }),
    ...(guards && { guards }),
    ...(sinks.length > 0 && { sinks }),
  }
  const { accounts, teams, keys } = mapKeys({ tables, names: models.names, accept, say })
  const named = variablesIn([config.providers, sinks, cache?.section ?? {}])
  return {
    config,
    models: withAnswers(models.byId(), own, cache?.use),
    env: settings.env,
    needs: [...new Set([...named, ...instances.variables])].filter(
      (name) => !settings.env.has(name),
    ),
    accounts,
    teams,
    keys,
    notes: [...notes.values()],
  }
}

/** Names of the variables that settings refer to. */
function variablesIn(settings: object): string[] {
  const names = JSON.stringify(settings).matchAll(/(?<!\$)\$\{(\w+)\}/g)
  return [...new Set([...names].map(([, name]) => name!))]
}
