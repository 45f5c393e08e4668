/** Rows of LiteLLM's table of keys as accounts and keys. No key can do here what it could not do there. */
import { hash } from 'node:crypto'
import type {
  MigratedAccount,
  MigratedKey,
  MigratedTeam,
  MigrationRow,
} from '../../../src/plugin.ts'
import { both, type AllowedNames, type SourceNames } from './names.ts'
import {
  flagOf,
  isUnset,
  listOf,
  numberOf,
  rawOf,
  textOf,
  unpacked,
  type Raw,
  type Say,
} from '../shared/values.ts'
import { readDecimal, roundDown, writeDecimal } from '../shared/decimal.ts'

/** What keys are mapped with. */
interface KeyOptions {
  readonly tables: ReadonlyMap<string, readonly MigrationRow[]>
  readonly names: SourceNames
  /** Restrictions without which keys may be used. */
  readonly accept: ReadonlySet<string>
  /** Receives what is not as in the source. */
  readonly say: Say
}

/** What a table of keys becomes. */
interface Keys {
  readonly accounts: ReadonlyMap<string, MigratedAccount>
  readonly teams: ReadonlyMap<string, MigratedTeam>
  readonly keys: readonly MigratedKey[]
}

/** Columns that say who owns the key. Its organization, or without a team its user, is its account. */
const OWNERS = [
  ['team_id', 'team', 'teams'],
  ['organization_id', 'org', 'organizations'],
  ['user_id', 'user', 'users'],
] as const
/** Columns that a key is made of. */
const MAPPED: ReadonlySet<string> = new Set([
  'token',
  'key_alias',
  'key_name',
  'expires',
  'blocked',
  'models',
  'access_group_ids',
  'rpm_limit',
  'max_parallel_requests',
  'max_budget',
  'budget_duration',
  'budget_id',
  'tpm_limit',
  'tpd_limit',
  'rpd_limit',
  'budget_limits',
  'model_max_budget',
  'model_rpm_limit',
  'model_tpm_limit',
  'team_id',
  'organization_id',
  'user_id',
])
/** Columns that restrict nothing. */
const HARMLESS =
  /^(metadata|spend|total_spend|model_spend|soft_budget|soft_budget_cooldown|budget_reset_at|rotation_.+|auto_rotate|(last|key)_rotation_at|(created|updated|settings_updated|last_active|last_refreshed)(_at|_by)?|last_active_at|tags|models_alias)$/
/** Columns of owners that restrict nothing, or are read. */
const KNOWN_OF_OWNERS =
  /^(team_id|team_alias|organization_id|organization_alias|user_id|user_alias|user_email|user_role|sso_user_id|password|teams|organization_memberships|budget_id|models|blocked|rpm_limit|tpm_limit|tpd_limit|rpd_limit|max_parallel_requests|max_budget|budget_duration|budget_limits|model_max_budget|model_rpm_limit|model_tpm_limit|admins|members|members_with_roles|team_member_permissions|model_id|default_team_member_models|allow_team_guardrail_config|invitation_.+|policies_attached)$/
/** The same within `metadata`. */
const RESTRICTING_METADATA =
  /(_limit|_limits|budget|budget_id|guardrails|policies|allowed_.*|.*_permissions?|disable_.*)$/
/** Columns of counts. */
const COUNTS = {
  rpm_limit: { unit: 'requests', window: 'minute' },
  max_parallel_requests: { unit: 'concurrent' },
  tpm_limit: { unit: 'tokens', window: 'minute' },
  tpd_limit: { unit: 'tokens', window: 'day' },
  rpd_limit: { unit: 'requests', window: 'day' },
} as const
/** Limits by model, which LiteLLM keeps in `metadata` as well. */
const MODEL_LIMITS = ['model_rpm_limit', 'model_tpm_limit', 'model_max_budget']
/** Most limits that a key, a team or an account has here. */
const MOST_LIMITS = 16
const NO_RESTRICTION = 'keys here have no such restriction'
const NAME_LENGTH = 200
/** What LiteLLM keeps of a secret for lists. */
const ABBREVIATED = /^[\x21-\x7e]{0,8}\.\.\.[\x21-\x7e]{1,8}$/
const HEX = /^[0-9a-f]{64}$/i

/** Maps the rows; numbers are texts. */
export function mapKeys(options: KeyOptions): Keys {
  const { tables, say } = options
  const accounts = new Map<string, MigratedAccount>()
  const teams = new Map<string, MigratedTeam>()
  const keys: MigratedKey[] = []
  const columns = new Map<string, number>()
  const seen = new Map<string, number>()
  for (const [index, row] of (tables.get('keys') ?? []).entries()) {
    const number = index + 1
    const where = `keys row ${number}: token`
    const sha256 = hashOf(textOf(row.token))
    if (sha256 === undefined) {
      const expected = '64 hexadecimal digits, or a key that begins with "sk-"'
      say('locked', where, `left out: expected ${expected}`)
      continue
    }
    if (seen.has(sha256)) {
      say('differs', where, `left out: the same key as row ${seen.get(sha256)}`)
      continue
    }
    seen.set(sha256, number)
    const reader = new RowReader(number, options)
    const [owner, accountName] = accountOf(row, reader.teamOf(row))
    const settings = reader.settings(row)
    const { team: [id, team] = [] } = reader
    if (id !== undefined && team) {
      if (!teams.has(id)) teams.set(id, { account: owner, ...team })
      settings.team_id = id
    }
    // A team is of one account, the organization of its first key.
    const account = teams.get(id ?? '')?.account ?? owner
    if (account !== owner) {
      reader.restricts('organization_id', 'its team is of another organization')
    }
    // The limits of an owner hold for all of its keys together.
    accounts.set(
      account,
      accounts.get(account) ?? { name: accountName, settings: reader.ofAccount },
    )
    keys.push({
      account,
      // Not the hash of the secret itself, which ids would show.
      id: `litellm-${hash('sha256', `litellm:${sha256}`).slice(0, 24)}`,
      name: nameOf(row, number),
      sha256,
      ...startOf(row),
      disabled: reader.isDisabled || flagOf(row.blocked),
      settings,
      row: number,
    })
    for (const [column, value] of Object.entries(row)) {
      // A 0 says nothing that the report would have to name.
      if (!HARMLESS.test(column) || isUnset(value) || numberOf(value) === 0) continue
      columns.set(column, (columns.get(column) ?? 0) + 1)
    }
  }
  for (const [column, count] of columns) {
    const message = `not mapped, set in ${count === 1 ? '1 row' : `${count} rows`}`
    say('none', `keys: ${column}`, message)
  }
  return { accounts, teams, keys }
}

/** Reads the settings of one row. */
class RowReader {
  /** A restriction has no counterpart, and was not accepted. */
  isDisabled = false
  /** Limits of the owner, as settings of the account. */
  ofAccount: Record<string, unknown> = {}
  /** The team of the key, by its id. */
  team: readonly [id: string, team: Omit<MigratedTeam, 'account'>] | undefined
  readonly #row: number
  readonly #options: KeyOptions
  readonly #groups: ReadonlyMap<string, readonly string[]>

  constructor(row: number, options: KeyOptions) {
    this.#row = row
    this.#options = options
    const groups = options.tables.get('groups') ?? []
    this.#groups = new Map(
      groups.map((group) => [
        textOf(group.access_group_id) ?? '',
        listOf(group.access_model_names) ?? [],
      ]),
    )
  }

  /** The row of its team. */
  teamOf(row: Raw): MigrationRow | undefined {
    const id = textOf(row.team_id)
    if (id === undefined || isUnset(id)) return undefined
    return this.#options.tables.get('teams')?.find((one) => textOf(one.team_id) === id)
  }

  settings(row: Raw): Record<string, unknown> {
    const { limits, restrictions } = this.#restrictionsOf(row)
    const settings = this.#limits(limits)
    const own = this.#own(row)
    const allowed = this.#owners(row).reduce(both, own)
    if (allowed !== undefined) {
      const ids = this.#options.names.idsOf(allowed)
      // An empty list would allow all.
      if (ids.length > 0) settings.models = ids
      else {
        this.isDisabled = true
        this.#say('locked', 'models', 'none of its models is there: the key is created disabled')
      }
    }
    this.#expiry(row.expires, settings)
    for (const [name, value] of Object.entries(limits)) {
      if (MAPPED.has(name) || HARMLESS.test(name) || isUnset(value)) continue
      this.restricts(name, NO_RESTRICTION)
    }
    for (const name of restrictions) this.restricts(name, NO_RESTRICTION)
    return settings
  }

  /** The limits of a row, those of its budget and of its metadata too, and what else restricts in its metadata. */
  #restrictionsOf(row: Raw): { readonly limits: Raw; readonly restrictions: readonly string[] } {
    const metadata = Object.entries(rawOf(unpacked(row.metadata))).filter(
      ([, value]) => !isUnset(value),
    )
    const ofModels = metadata.filter(([name]) => MODEL_LIMITS.includes(name))
    return {
      limits: { ...Object.fromEntries(ofModels), ...this.#withBudget(row) },
      restrictions: metadata
        .filter(([name]) => !MODEL_LIMITS.includes(name) && RESTRICTING_METADATA.test(name))
        .map(([name]) => `metadata.${name}`),
    }
  }

  /** Rates and budgets of a key or an owner. */
  #limits(limits: Raw): Record<string, unknown> {
    const list: ImportedLimit[] = []
    for (const [column, kind] of Object.entries(COUNTS)) this.#count(limits, column, kind, list)
    const budgets: Raw[] = [
      { max_budget: limits.max_budget, budget_duration: limits.budget_duration },
      ...(isUnset(limits.budget_limits) ? [] : this.#rows(limits.budget_limits, 'budget_limits')),
    ]
    for (const budget of budgets) this.#budget({ ...budget, spend: limits.spend }, list)
    for (const [column, unit] of [
      ['model_rpm_limit', 'requests'],
      ['model_tpm_limit', 'tokens'],
    ] as const) {
      for (const [name, value] of this.#ofModels(limits, column)) {
        const models = this.#idsOf(name, column)
        const kind = { unit, window: 'minute', ...(models && { models }) } as const
        if (models) this.#count({ [column]: value }, column, kind, list)
      }
    }
    for (const [name, value] of this.#ofModels(limits, 'model_max_budget')) {
      const models = this.#idsOf(name, 'model_max_budget')
      const one = typeof value === 'object' ? rawOf(value) : { max_budget: value }
      const { budget_limit, time_period, max_budget = budget_limit } = one
      const { budget_duration = time_period } = one
      if (models) this.#budget({ max_budget, budget_duration, spend: limits.spend }, list, models)
    }
    const lowest = lowestOf(list)
    if (lowest.length > MOST_LIMITS) {
      this.restricts('limits', `it has ${lowest.length} limits, and here at most ${MOST_LIMITS}`)
      lowest.length = MOST_LIMITS
    }
    return settingsOf(lowest)
  }

  #budget(row: Raw, list: ImportedLimit[], models?: readonly string[]): void {
    const { max_budget: most, budget_duration: duration, spend } = row
    const budget = readBudget({ most, duration, spend })
    if ('problem' in budget) this.restricts(budget.column, budget.problem)
    if ('cap' in budget) list.push({ ...budget.cap, ...(models && { models }) })
    if (budget.remark) {
      this.#say('differs', models ? 'model_max_budget' : 'max_budget', budget.remark)
    }
  }

  #rows(value: unknown, column: string): Raw[] {
    const list = unpacked(value)
    if (Array.isArray(list)) return list.map(rawOf)
    this.restricts(column, 'not a list of budgets')
    return []
  }

  #ofModels(limits: Raw, column: string): [name: string, value: unknown][] {
    if (isUnset(limits[column])) return []
    return Object.entries(rawOf(unpacked(limits[column])))
  }

  /** The ids of the models of a name; undefined where it means none, which a note reports. */
  #idsOf(name: string, column: string): readonly string[] | undefined {
    const allowed = this.#options.names.allowedBy([name], () => {})
    const ids = allowed && this.#options.names.idsOf(allowed)
    if (ids && ids.length > 0) return ids
    this.restricts(column, `${JSON.stringify(name)} is no model of the configuration`)
    return undefined
  }

  /** What the owners of the key allow. */
  #owners(row: Raw): AllowedNames[] {
    for (const column of ['project_id', 'agent_id']) {
      if (!isUnset(row[column])) {
        this.restricts(column, 'its models, budget and rates hold too, and are not read')
      }
    }
    const isOfTeam = !isUnset(row.team_id)
    const ofTeam = this.teamOf(row)?.organization_id
    const owners: Raw = { ...row, ...(isUnset(row.organization_id) && { organization_id: ofTeam }) }
    return OWNERS.flatMap(([column, , table]): AllowedNames[] => {
      const id = textOf(owners[column])
      // The limits of a person do not hold for keys of a team.
      if (id === undefined || isUnset(id) || (column === 'user_id' && isOfTeam)) return []
      const owner = this.#options.tables.get(table)?.find((one) => textOf(one[column]) === id)
      if (!owner) {
        this.restricts(column, `its row is not in a table of ${table}`)
        return []
      }
      if (column === 'team_id') return [this.#ofTeam(owner, id)]
      const isAccount = column === 'organization_id' || isUnset(owners.organization_id)
      return [this.#ofOwner(owner, column, isAccount)]
    })
  }

  /** @returns what the team allows */
  #ofTeam(row: MigrationRow, id: string): AllowedNames {
    const { settings, allowed } = this.#ofGroup(row, 'teams', 'team')
    const name = `LiteLLM team ${printable(row.team_alias) ?? printable(id)}`.slice(0, NAME_LENGTH)
    const disabled = flagOf(row.blocked)
    this.team = [idOf(`litellm-${id}`, id), { name, disabled, settings }]
    return allowed
  }

  /** Limits and models of a team or an account. */
  #ofGroup(row: MigrationRow, here: 'teams' | 'accounts', there: 'team' | 'owner') {
    const { limits, restrictions } = this.#restrictionsOf(row)
    const allowed = this.#allowedBy(row.models, 'models')
    const models = allowed && this.#options.names.idsOf(allowed)
    const settings = this.#limits(limits)
    if (models && models.length > 0) settings.models = models
    const further = Object.entries(limits).flatMap(([name, value]) =>
      KNOWN_OF_OWNERS.test(name) || HARMLESS.test(name) || isUnset(value) ? [] : [name],
    )
    for (const name of [...further, ...restrictions]) {
      this.restricts(name, `${here} here have no such restriction, and the ${there} of the key has`)
    }
    return { settings, allowed }
  }

  /** @param isAccount whether the account is made of this owner, and takes its limits */
  #ofOwner(row: MigrationRow, column: string, isAccount: boolean): AllowedNames {
    if (flagOf(row.blocked)) {
      this.isDisabled = true
      this.#say('locked', column, 'its owner is blocked: the key is created disabled')
    }
    const { settings, allowed } = this.#ofGroup(row, 'accounts', 'owner')
    if (isAccount) this.ofAccount = settings
    else if (Object.keys(settings).some((name) => name !== 'models')) {
      this.restricts(column, 'its limits hold too, and a key has one account here')
    }
    return allowed
  }

  /** What the lists of the key itself allow. */
  #own(row: Raw): AllowedNames {
    const { models } = row
    const groups = listOf(row.access_group_ids) ?? []
    const isFromTeam = listOf(models)?.includes('all-team-models') ?? false
    if (isFromTeam) {
      if (isUnset(row.team_id)) {
        this.restricts('models', 'all-team-models means models that the row does not tell')
      }
      return undefined
    }
    const own = this.#allowedBy(models, 'models')
    // Groups add to a list; without one, all models are allowed already.
    if (own === undefined || groups.length === 0) return own
    const more = groups.filter((group) => this.#groups.has(group))
    if (more.length < groups.length) {
      this.#say('differs', 'access_group_ids', 'a group is in no table: its models are not allowed')
    }
    const names = more.flatMap((group) => this.#groups.get(group) ?? [])
    return new Set([...own, ...(this.#allowedBy(names, 'access_group_ids') ?? [])])
  }

  /** The row with the limits of its budget, where it has none of its own. */
  #withBudget(row: Raw): Raw {
    const id = textOf(row.budget_id)
    if (id === undefined || isUnset(id)) return row
    const budgets = this.#options.tables.get('budgets') ?? []
    const budget = budgets.find((budget) => textOf(budget.budget_id) === id)
    if (!budget) {
      this.restricts('budget_id', 'its budget is in no table')
      return row
    }
    const limits = Object.entries(budget).filter(
      ([name, value]) => !HARMLESS.test(name) && !isUnset(value) && isUnset(row[name]),
    )
    return { ...row, ...Object.fromEntries(limits) }
  }

  #count(
    row: Raw,
    column: string,
    kind: Omit<ImportedLimit, 'value'>,
    list: ImportedLimit[],
  ): void {
    if (isUnset(row[column])) return
    const value = numberOf(row[column])
    if (value !== undefined && Number.isSafeInteger(value) && value >= 1) {
      list.push({ ...kind, value })
    } else this.restricts(column, 'not a whole number of at least 1')
  }

  /** The names that a list allows. */
  #allowedBy(value: unknown, column: string): AllowedNames {
    if (isUnset(value)) return undefined
    const names = listOf(value)
    if (!names) {
      this.restricts(column, 'not a list of models')
      return new Set()
    }
    return this.#options.names.allowedBy(names, () => {
      const message = 'a name of its list is no model of the configuration, and allows nothing'
      this.#say('differs', column, message)
    })
  }

  #expiry(value: unknown, settings: Record<string, unknown>): void {
    const text = textOf(value)
    if (text === undefined || isUnset(value)) return
    const moment =
      /^(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d(?::\d\d)?)(?:\.\d+)?(Z|[+-]\d\d(?::?\d\d)?)?$/.exec(text)
    const [, day, time, zone = 'Z'] = moment ?? []
    const offset = zone.replace(
      /^([+-]\d\d):?(\d\d)?$/,
      (_, hours: string, minutes = '00') => `${hours}:${minutes}`,
    )
    const at = Date.parse(`${day}T${time}${offset}`)
    if (moment && !Number.isNaN(at)) settings.expires_at = new Date(at).toISOString()
    else this.restricts('expires', 'not a moment that can be read')
  }

  /** Notes something that the source forbids, and that cannot be forbidden here. */
  restricts(field: string, why: string): void {
    if (this.#options.accept.has(field)) {
      this.#say('wider', field, `${why}: accepted without it`)
    } else {
      this.isDisabled = true
      const remedy = `decide, then "keys enable"; or repeat with --accept ${field}`
      this.#say('locked', field, `${why}: the key is created disabled`, remedy)
    }
  }

  #say(harm: Parameters<Say>[0], column: string, message: string, remedy?: string): void {
    this.#options.say(harm, `keys row ${this.#row}: ${column}`, message, remedy)
  }
}

/** LiteLLM stores SHA-256 of a key in hexadecimal digits, and very old versions the key itself. */
function hashOf(token: string | undefined): string | undefined {
  if (token === undefined) return undefined
  if (HEX.test(token)) return token.toLowerCase()
  return /^sk-[\x21-\x7e]{5,509}$/.test(token) ? hash('sha256', token) : undefined
}

function nameOf(row: Raw, number: number): string {
  const alias = printable(row.key_alias)
  const shown = textOf(row.key_name)
  // A key in place of a name would be shown in every list.
  const isSecret = alias !== undefined && (alias.startsWith('sk-') || HEX.test(alias))
  if (alias !== undefined && !isSecret) return alias.slice(0, NAME_LENGTH)
  return shown !== undefined && ABBREVIATED.test(shown) ? shown : `Imported key ${number}`
}

/** A text without control characters, which a terminal would obey. */
function printable(value: unknown): string | undefined {
  return textOf(textOf(value)?.replaceAll(/\p{Cc}+/gu, ' '))
}

function startOf(row: Raw): { start?: string } {
  const shown = textOf(row.key_name)
  return shown !== undefined && ABBREVIATED.test(shown) ? { start: shown } : {}
}

/** The id of the row's account, and its name. @param team the row of its team */
function accountOf(row: Raw, team: MigrationRow | undefined): readonly [id: string, name: string] {
  const organization = isUnset(row.organization_id) ? team?.organization_id : row.organization_id
  const isOfTeam = !isUnset(row.team_id)
  for (const [kind, value] of [
    ['org', organization],
    ['user', isOfTeam ? undefined : row.user_id],
  ] as const) {
    const owner = textOf(value)
    if (owner === undefined || isUnset(owner)) continue
    const name = `LiteLLM ${kind} ${printable(owner)}`.slice(0, NAME_LENGTH)
    return [idOf(`litellm-${kind}-${owner}`, owner), name]
  }
  return ['litellm', 'LiteLLM']
}

/** A wished id, with a digest where it cannot be one. */
function idOf(wished: string, owner: string): string {
  const id = wished.toLowerCase().replaceAll(/[^a-z0-9_-]/g, '-')
  if (id === wished && id.length <= 64) return id
  const digest = hash('sha256', owner).slice(0, 8)
  return `${id.slice(0, 64 - 1 - digest.length)}-${digest}`
}

// Budgets and rates of LiteLLM as limits.

/** A limit of the admin API. */
interface ImportedLimit {
  readonly unit: 'usd' | 'requests' | 'tokens' | 'concurrent'
  readonly window?: string
  readonly value: number | string
  readonly models?: readonly string[]
}

/** The limits, of two of the same kind the lower one. */
function lowestOf(limits: readonly ImportedLimit[]): ImportedLimit[] {
  const lowest = new Map<string, ImportedLimit>()
  for (const limit of limits) {
    const name = [limit.unit, limit.window, limit.models?.toSorted()].join(' ')
    const other = lowest.get(name)
    if (!other || isLower(limit, other)) lowest.set(name, limit)
  }
  return [...lowest.values()]
}

/** Settings of the admin API: the simple form where that says all, else a list. */
function settingsOf(list: readonly ImportedLimit[]): Record<string, unknown> {
  const caps = list.filter(({ unit, models }) => unit === 'usd' && !models)
  const isSimple = list.every(
    ({ unit, window, models }) =>
      !models &&
      (unit === 'concurrent' ||
        (unit === 'requests' && window === 'minute') ||
        (unit === 'usd' && caps.length === 1 && ['day', 'month', 'lifetime'].includes(window!))),
  )
  if (!isSimple) return { limits: list }
  const settings: Record<string, unknown> = {}
  for (const { unit, window, value } of list) {
    if (unit === 'requests') settings.rpm_limit = value
    if (unit === 'concurrent') settings.concurrency_limit = value
    if (unit === 'usd') settings.spend_cap = { usd: value, scope: window }
  }
  return settings
}

function isLower({ value }: ImportedLimit, other: ImportedLimit): boolean {
  return readDecimal(String(value))! < readDecimal(String(other.value))!
}

/** The cap for a budget, or why there is none, and further notes. */
type Budget = { readonly remark?: string } & (
  | { readonly cap: ImportedLimit }
  | { readonly column: string; readonly problem: string }
  | { readonly none: true }
)

/** Windows by durations that are as long. */
const WINDOWS: Readonly<Record<string, string>> = {
  '5h': '5h',
  '1d': 'day',
  '24h': 'day',
  '7d': 'week',
  '1w': 'week',
  '30d': 'month',
  '1mo': 'month',
}
/** Fractional digits of amounts. */
const DIGITS = 12

/**
 * Reads a budget. One for all time becomes what is left of it, because the ledger begins at zero and has real charges only.
 * @param budget `max_budget`, `budget_duration` and `spend`, as they are
 */
function readBudget(budget: {
  readonly most: unknown
  readonly duration: unknown
  readonly spend: unknown
}): Budget {
  if (isUnset(budget.most)) return { none: true }
  const most = readDecimal(textOf(budget.most) ?? '')
  if (most === undefined) return { column: 'max_budget', problem: 'not an amount of USD' }
  const duration = isUnset(budget.duration) ? undefined : textOf(budget.duration)
  const window = duration === undefined ? 'lifetime' : WINDOWS[duration]
  if (window === undefined) {
    const problem = 'caps here are for 5 hours, a day, a week, a month or a lifetime'
    return { column: 'budget_duration', problem }
  }
  const spent = duration === undefined ? (readDecimal(textOf(budget.spend) ?? '0') ?? most) : 0n
  const left = roundDown(most > spent ? most - spent : 0n, DIGITS)
  if (left === 0n) return { column: 'max_budget', problem: 'nothing is left of it' }
  const cap = { unit: 'usd', window, value: writeDecimal(left, DIGITS)! } as const
  if (window === 'lifetime') return { cap }
  return { cap, remark: `a cap by the ${window} in UTC; the running one starts anew` }
}
