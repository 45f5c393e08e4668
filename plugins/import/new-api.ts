/** Installations of new-api, and of one-api, whose tables it has: what their channels, users and tokens become here. */
import { hash } from 'node:crypto'
import type {
  Installation,
  MigratedModel,
  Migration,
  MigrationNote,
  MigrationSource,
  MigratedAccount,
  MigratedKey,
  MigrationRow,
} from '../../src/plugin.ts'
import { Channels, partsOf } from './new-api/channels.ts'
import { Ratios } from './new-api/prices.ts'
import { Settings } from './shared/settings.ts'
import { type Say, flagOf, isUnset, numberOf, textOf } from './shared/values.ts'

// Tokens of new-api as keys. No key can do here what it could not do there.

/** What tokens are mapped with. */
interface TokenOptions {
  readonly ratios: Ratios
  /** Ids of models by name, with the groups of people whom they serve. */
  readonly models: ReadonlyMap<
    string,
    { readonly id: string; readonly groups: ReadonlySet<string> }
  >
  readonly accept: ReadonlySet<string>
  readonly say: Say
}

/** Columns that a key is made of, and those that restrict nothing. */
const KNOWN: ReadonlySet<string> = new Set([
  'id',
  'user_id',
  'key',
  'status',
  'name',
  'created_time',
  'accessed_time',
  'expired_time',
  'remain_quota',
  'unlimited_quota',
  'model_limits_enabled',
  'model_limits',
  'models',
  'used_quota',
  'group',
  'cross_group_retry',
  'deleted_at',
])
const ENABLED = 1
const NAME_LENGTH = 200
const TOKEN = /^[\x21-\x7e]{8,500}$/
/** Seconds since epoch that a date can have. */
const LAST = 253_402_300_799

/** Accounts of the people, with their quota as credit. */
function mapUsers(
  rows: readonly MigrationRow[],
  { ratios, say }: Pick<TokenOptions, 'ratios' | 'say'>,
): Map<string, MigratedAccount> {
  const accounts = new Map<string, MigratedAccount>()
  for (const [index, row] of rows.entries()) {
    const id = textOf(row.id)
    if (id === undefined || !isUnset(row.deleted_at)) continue
    const credit = ratios.usdOf(row.quota)
    if (credit === undefined) {
      say(
        'none',
        `users row ${index + 1}: quota`,
        'nothing is left of it: the account has no credit',
      )
    }
    accounts.set(accountOf(id), {
      name: printable(row.username)?.slice(0, NAME_LENGTH) ?? `new-api user ${id}`,
      settings: {},
      ...(credit !== undefined && { credit }),
    })
  }
  return accounts
}

/** The keys. */
function mapTokens(
  rows: readonly MigrationRow[],
  users: readonly MigrationRow[],
  options: TokenOptions,
): MigratedKey[] {
  const owners = new Map(users.map((row) => [textOf(row.id) ?? '', row] as const))
  const keys: MigratedKey[] = []
  const seen = new Set<string>()
  for (const [index, row] of rows.entries()) {
    const number = index + 1
    if (!isUnset(row.deleted_at)) continue
    const text = textOf(row.key)?.replace(/^sk-/, '')
    if (text === undefined || !TOKEN.test(text)) {
      options.say('locked', `tokens row ${number}: key`, 'left out: not the text of a token')
      continue
    }
    const secret = `sk-${text}`
    const sha256 = hash('sha256', secret)
    if (seen.has(sha256)) {
      options.say(
        'differs',
        `tokens row ${number}: key`,
        'left out: another row has the same token',
      )
      continue
    }
    seen.add(sha256)
    keys.push(
      keyOf(row, { number, secret, sha256, owner: owners.get(textOf(row.user_id) ?? '') }, options),
    )
  }
  return keys
}

interface Found {
  readonly number: number
  readonly secret: string
  readonly sha256: string
  /** The row of its owner. */
  readonly owner: MigrationRow | undefined
}

function keyOf(
  row: MigrationRow,
  { number, secret, sha256, owner }: Found,
  { ratios, models, accept, say }: TokenOptions,
): MigratedKey {
  let disabled = numberOf(row.status) !== ENABLED
  const restricts = (field: string, why: string) => {
    const where = `tokens row ${number}: ${field}`
    if (accept.has(field)) return say('wider', where, `${why}: accepted without it`)
    disabled = true
    const remedy = `decide, then "keys enable"; or repeat with --accept ${field}`
    say('locked', where, `${why}: the key is created disabled`, remedy)
  }
  const lock = (field: string, why: string) => {
    disabled = true
    say('locked', `tokens row ${number}: ${field}`, `${why}: the key is created disabled`)
  }
  const settings: Record<string, unknown> = {}
  if (!owner || !isUnset(owner.deleted_at))
    restricts('user_id', 'its row is not in the table of users')
  else if (numberOf(owner.status) !== ENABLED) lock('user_id', 'its owner is switched off')

  const group = textOf(row.group) ?? textOf(owner?.group) ?? 'default'
  if (group === 'auto') restricts('group', 'its group depends on the call')
  const limits = isUnset(row.model_limits_enabled) ? row.models : (row.model_limits ?? '')
  const isLimited = flagOf(row.model_limits_enabled) || !isUnset(row.models)
  const wanted = isLimited ? new Set(partsOf(limits)) : undefined
  const open = [...models].filter(([, model]) => group === 'auto' || model.groups.has(group))
  const allowed = open.filter(([name]) => wanted?.has(name) ?? true)
  if (wanted || allowed.length < models.size)
    settings.models = [...new Set(allowed.map(([, { id }]) => id))]
  if (allowed.length === 0) {
    // An empty list would allow all.
    delete settings.models
    lock('model_limits', 'none of its models is there')
  }
  if (!flagOf(row.unlimited_quota)) {
    const usd = ratios.usdOf(row.remain_quota)
    if (usd === undefined) lock('remain_quota', 'nothing is left of it')
    else settings.spend_cap = { usd, scope: 'lifetime' }
  }
  const expired = numberOf(row.expired_time)
  if (expired !== undefined && expired > 0) {
    if (expired <= LAST) settings.expires_at = new Date(expired * 1000).toISOString()
    else restricts('expired_time', 'not a moment that can be read')
  }
  for (const [column, value] of Object.entries(row)) {
    if (!KNOWN.has(column) && !isUnset(value))
      restricts(column, 'keys here have no such restriction')
  }
  return {
    account: accountOf(textOf(row.user_id) ?? ''),
    id: `new-api-${hash('sha256', `new-api:${sha256}`).slice(0, 24)}`,
    name: nameOf(row, secret, number),
    sha256,
    start: secret.slice(0, 7),
    disabled,
    settings,
    row: number,
  }
}

/** A token in place of a name would be shown in every list. */
function nameOf(row: MigrationRow, secret: string, number: number): string {
  const name = printable(row.name)
  const isSecret = name === undefined || name.startsWith('sk-') || secret.includes(name)
  return isSecret ? `Imported token ${number}` : name.slice(0, NAME_LENGTH)
}

function printable(value: unknown): string | undefined {
  return textOf(textOf(value)?.replaceAll(/\p{Cc}+/gu, ' '))
}

/** The account of a person. */
function accountOf(user: string): string {
  const id = user
    .toLowerCase()
    .replaceAll(/[^a-z0-9_-]/g, '-')
    .slice(0, 50)
  return id === '' ? 'new-api' : `new-api-${id}`
}

const MODEL_ID = /^[^/\s:]+\/\S+$/
const NAME = /^[^\s\p{Cc}]{1,120}$/u
const RESERVED = 'user'
/** Options that refuse calls, and the nearest that there is. */
const REFUSING: Readonly<Record<string, string>> = {
  ModelRequestRateLimitEnabled: 'rates of all people are "defaults.limits" here',
  CheckSensitiveEnabled: 'words are refused by guards, for keys with a policy',
}

const source: MigrationSource = {
  name: 'new-api',
  title: 'new-api',
  configured: false,
  tables: [
    { kind: 'channels', columns: ['type', 'key', 'models', 'priority'] },
    { kind: 'tokens', columns: ['user_id', 'key', 'remain_quota'] },
    { kind: 'users', columns: ['username', 'quota'] },
    { kind: 'options', columns: ['key', 'value'] },
  ],
  read,
}
export default source

function read({ tables, accept, listed }: Installation): Migration {
  const notes: MigrationNote[] = []
  const say: Say = (harm, where, message, remedy) => {
    notes.push({ harm, where, message, ...(remedy !== undefined && { remedy }) })
  }
  const rowsOf = (kind: string) => tables.get(kind) ?? []
  const settings = new Settings('NEW_API')
  const channels = new Channels(settings, say)
  for (const [index, row] of rowsOf('channels').entries()) channels.add(row, index + 1)
  const ratios = new Ratios(rowsOf('options'))
  sayOptions(ratios, say)
  const { models, byName } = modelsOf(channels, { ratios, listed, say })
  const users = rowsOf('users')
  const accounts = mapUsers(users, { ratios, say })
  const keys = mapTokens(rowsOf('tokens'), users, { ratios, models: byName, accept, say })
  for (const { account } of keys) {
    if (!accounts.has(account)) accounts.set(account, { name: account, settings: {} })
  }
  return {
    config: {
      admin: { token: '${SLUICEGATE_ADMIN_TOKEN}' },
      providers: channels.providers,
    },
    models,
    env: settings.env,
    needs: [],
    accounts: new Map([...accounts].filter(([id]) => id !== accountOf(''))),
    keys,
    notes,
  }
}

function sayOptions(ratios: Ratios, say: Say): void {
  for (const group of ratios.unequalGroups()) {
    say(
      'lost',
      `options: GroupRatio.${group}`,
      'a model has one price here for all keys; price lists of accounts can differ',
    )
  }
  for (const [name, nearest] of Object.entries(REFUSING)) {
    if (ratios.option(name) === 'true') say('wider', `options: ${name}`, nearest)
  }
}

interface ModelOptions {
  readonly ratios: Ratios
  readonly listed: ReadonlySet<string>
  readonly say: Say
}

/** One model for each name, with a deployment for each channel and key. */
function modelsOf(
  { models: all, waiting }: Pick<Channels, 'models' | 'waiting'>,
  { ratios, listed, say }: ModelOptions,
) {
  const models = new Map<string, MigratedModel>()
  const byName = new Map<string, { id: string; groups: ReadonlySet<string> }>()
  const named = Map.groupBy(all, ({ name }) => name)
  const names = new Set(named.keys())
  for (const [name, entries] of named) {
    if (!NAME.test(name)) {
      const { deployment } = entries[0]!
      waiting.set(name, { provider: deployment.provider, model: deployment.model })
      say('unserved', 'channels: models', 'a name has white space or more than 120 characters')
      continue
    }
    const [first] = entries.toSorted((a, b) => b.priority - a.priority)
    const wished = MODEL_ID.test(name) ? name : `${first!.vendor}/${name}`
    let id = wished
    for (let n = 2; models.has(id) || (id !== name && names.has(id)); n++) id = `${wished}-${n}`
    const highest = first!.priority
    const groups = entries.map((one) => one.groups)
    if (new Set(groups.map((one) => [...one].toSorted().join(','))).size > 1) {
      const message = 'all its channels serve everybody who may use the model, whatever their group'
      say('differs', `channels: ${name}`, message)
    }
    const pricing = ratios.pricingOf(name)
    const theirs = `${first!.vendor}/${first!.deployment.model}`
    const isAlias = id !== name && name !== RESERVED && !name.endsWith(':online')
    if (id !== name && !isAlias) {
      say('differs', `channels: ${name}`, 'clients cannot use this name', `they ask for ${id}`)
    }
    models.set(id, {
      ...(pricing && { pricing }),
      ...(theirs !== id && { price_of: priced(theirs, id, listed) }),
      ...(isAlias && { aliases: [name] }),
      deployments: entries.map(({ deployment, priority }) => ({
        ...deployment,
        ...(priority !== highest && { priority: highest - priority }),
      })),
    })
    byName.set(name, { id, groups: new Set(groups.flatMap((one) => [...one])) })
  }
  for (const [name, deployment] of waiting) {
    if (byName.has(name)) continue
    const id = (MODEL_ID.test(name) ? name : `unknown/${name}`).replaceAll(/[\s\p{Cc}]+/gu, '-')
    if (!models.has(id)) models.set(id, { enabled: false, deployments: [deployment] })
  }
  return { models, byName }
}

/** The id of a model in price lists: by the name at its vendor, else by the name that clients use. */
function priced(theirs: string, id: string, listed: ReadonlySet<string>): string {
  return listed.has(theirs) || !listed.has(id) ? theirs : id
}
