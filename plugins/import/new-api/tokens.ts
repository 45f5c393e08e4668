/** Tokens of new-api as keys. No key can do here what it could not do there. */
import { hash } from 'node:crypto'
import type { MigratedAccount, MigratedKey, MigrationRow } from '../../../src/plugin.ts'
import { flagOf, isUnset, numberOf, textOf, type Say } from '../shared/values.ts'
import { partsOf } from './channels.ts'
import type { Ratios } from './prices.ts'

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
export function mapUsers(
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
export function mapTokens(
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
export function accountOf(user: string): string {
  const id = user
    .toLowerCase()
    .replaceAll(/[^a-z0-9_-]/g, '-')
    .slice(0, 50)
  return id === '' ? 'new-api' : `new-api-${id}`
}
