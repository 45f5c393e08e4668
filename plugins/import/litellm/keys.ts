/** Rows of LiteLLM's table of keys as accounts and keys. */
import { hash } from 'node:crypto'
import { readBudget, type Budget } from './budgets.ts'
import {
  flagOf,
  isRaw,
  isUnset,
  listOf,
  numberOf,
  rawOf,
  textOf,
  unpacked,
  type Note,
  type Raw,
} from './values.ts'

/** A key to create, with the members of the admin API. */
export interface ImportedKey {
  readonly account: string
  readonly id: string
  readonly name: string
  readonly sha256: string
  /** What lists show of the secret, where the source tells. */
  readonly start?: string
  readonly disabled: boolean
  readonly settings: Readonly<Record<string, unknown>>
  /** Number of the row, from 1. */
  readonly row: number
}

/** What a table of keys becomes. */
export interface Keys {
  /** Names by id. */
  readonly accounts: ReadonlyMap<string, string>
  readonly keys: readonly ImportedKey[]
  readonly notes: readonly Note[]
}

/** What keys are mapped with. */
interface KeyOptions {
  /** The id of a model by its name in the source. */
  readonly idOf: (name: string) => string | undefined
  /** Rows of the table of budgets. */
  readonly budgets: readonly Raw[]
  /** Restrictions without which keys may be used. */
  readonly accept: ReadonlySet<string>
}

/** Columns that say who owns the key, in the order in which one of them names the account. */
const OWNERS = [
  ['team_id', 'team'],
  ['organization_id', 'org'],
  ['user_id', 'user'],
] as const
/** Columns that a key is made of. */
const MAPPED: ReadonlySet<string> = new Set([
  'token',
  'key_alias',
  'key_name',
  'expires',
  'blocked',
  'models',
  'rpm_limit',
  'max_parallel_requests',
  'max_budget',
  'budget_duration',
  'budget_id',
  ...OWNERS.map(([column]) => column),
])
/** Restrictions that keys here cannot have. */
const RESTRICTIONS: ReadonlySet<string> = new Set([
  'tpm_limit',
  'tpd_limit',
  'rpd_limit',
  'model_max_budget',
  'model_rpm_limit',
  'model_tpm_limit',
  'budget_limits',
  'budget_fallbacks',
  'allowed_routes',
  'allowed_cache_controls',
  'allowed_vector_store_indexes',
  'permissions',
  'policies',
  'object_permission_id',
  'access_group_ids',
  'aliases',
  'allowed_models',
  'config',
])
/** The same within `metadata`. */
const RESTRICTING_METADATA =
  /(_limit|_limits|budget|guardrails|policies|allowed_.*|.*_permissions?)$/
/** Names that stand for models that the rows do not tell. */
const NO_MODELS: ReadonlySet<string> = new Set(['all-team-models', 'no-default-models'])
const ALL_MODELS = 'all-proxy-models'
const NAME_LENGTH = 200
/** What LiteLLM keeps of a secret for lists. */
const ABBREVIATED = /^[\x21-\x7e]{0,8}\.\.\.[\x21-\x7e]{1,8}$/
const HEX = /^[0-9a-f]{64}$/i

/** Maps the rows. @param rows numbers are texts */
export function mapKeys(rows: readonly Raw[], options: KeyOptions): Keys {
  const accounts = new Map<string, string>()
  const keys: ImportedKey[] = []
  const notes: Note[] = []
  const columns = new Map<string, number>()
  const seen = new Map<string, number>()
  for (const [index, row] of rows.entries()) {
    const number = index + 1
    const say = (column: string, message: string) => {
      notes.push({ source: 'keys', where: `row ${number}: ${column}`, message })
    }
    const sha256 = hashOf(textOf(row.token))
    if (sha256 === undefined) {
      say('token', 'left out: expected 64 hexadecimal digits, or a key that begins with "sk-"')
      continue
    }
    if (seen.has(sha256)) {
      say('token', `left out: the same key as row ${seen.get(sha256)}`)
      continue
    }
    seen.set(sha256, number)
    const [account, accountName] = accountOf(row)
    accounts.set(account, accountName)
    const reader = new RowReader(number, notes, options)
    const settings = reader.settings(row)
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
      const known = MAPPED.has(column) || RESTRICTIONS.has(column) || isUnset(value)
      // A 0 restricts nothing that the report would have to name.
      if (!known && numberOf(value) !== 0) columns.set(column, (columns.get(column) ?? 0) + 1)
    }
  }
  for (const [column, count] of columns) {
    const message = `not mapped, set in ${count === 1 ? '1 row' : `${count} rows`}`
    notes.push({ source: 'keys', where: column, message })
  }
  return { accounts, keys, notes }
}

/** Reads the settings of one row. */
class RowReader {
  /** A restriction has no counterpart, and was not accepted. */
  isDisabled = false
  readonly #row: number
  readonly #notes: Note[]
  readonly #options: KeyOptions

  constructor(row: number, notes: Note[], options: KeyOptions) {
    this.#row = row
    this.#notes = notes
    this.#options = options
  }

  settings(row: Raw): Record<string, unknown> {
    const limits = this.#withBudget(row)
    const settings: Record<string, unknown> = {}
    this.#count(limits, 'rpm_limit', settings, 'rpm_limit')
    this.#count(limits, 'max_parallel_requests', settings, 'concurrency_limit')
    this.#budget(limits, settings)
    this.#models(row.models, settings)
    this.#expiry(row.expires, settings)
    for (const name of RESTRICTIONS) {
      if (!isUnset(limits[name])) this.#restricts(name, 'keys here have no such restriction')
    }
    for (const [name, value] of Object.entries(rawOf(unpacked(row.metadata)))) {
      if (RESTRICTING_METADATA.test(name) && !isUnset(value)) {
        this.#restricts(`metadata.${name}`, 'keys here have no such restriction')
      }
    }
    return settings
  }

  /** The row with the limits of its budget, where it has none of its own. */
  #withBudget(row: Raw): Raw {
    const id = textOf(row.budget_id)
    if (id === undefined) return row
    const found = this.#options.budgets.find((budget) => textOf(budget.budget_id) === id)
    if (!found) {
      this.#restricts('budget_id', 'its budget is not among the rows of --budgets')
      return row
    }
    const limits = Object.entries(found).filter(
      ([name, value]) => LIMITS_OF_BUDGETS.has(name) && !isUnset(value) && isUnset(row[name]),
    )
    return { ...row, ...Object.fromEntries(limits) }
  }

  #count(row: Raw, column: string, settings: Record<string, unknown>, name: string): void {
    if (isUnset(row[column])) return
    const count = numberOf(row[column])
    if (count !== undefined && Number.isSafeInteger(count) && count >= 1) settings[name] = count
    else this.#restricts(column, 'not a whole number of at least 1')
  }

  #budget(row: Raw, settings: Record<string, unknown>): void {
    const budget: Budget = readBudget({
      most: row.max_budget,
      duration: row.budget_duration,
      spend: row.spend,
    })
    if ('problem' in budget) this.#restricts(budget.column, budget.problem)
    if ('cap' in budget) settings.spend_cap = budget.cap
    if (budget.remark) this.#say('max_budget', budget.remark)
  }

  #models(value: unknown, settings: Record<string, unknown>): void {
    if (isUnset(value)) return
    const names = listOf(value)
    if (names?.includes(ALL_MODELS)) return
    if (!names) return void this.#restricts('models', 'not a list of models')
    const ids = new Set<string>()
    let isOpen = false
    for (const name of names) {
      const id = this.#options.idOf(name)
      if (id !== undefined) ids.add(id)
      else if (NO_MODELS.has(name)) {
        isOpen = this.#restricts('models', `${name} means models that the row does not tell`)
      } else if (/^[^/\s:]+\/\S+$/.test(name)) {
        ids.add(name)
        this.#say('models', `the configuration has no model ${JSON.stringify(name)}`)
      } else {
        isOpen = this.#restricts(
          'models',
          `${JSON.stringify(name)} is no model of the configuration`,
        )
      }
    }
    // Without any model the list would be none, which allows all.
    if (ids.size > 0) settings.models = [...ids]
    else if (!isOpen) this.isDisabled = true
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
    else this.#restricts('expires', 'not a moment that can be read')
  }

  /** @returns whether the key may be used without the restriction */
  #restricts(field: string, why: string): boolean {
    const accepted = this.#options.accept.has(field)
    if (!accepted) this.isDisabled = true
    this.#notes.push({
      source: 'keys',
      where: `row ${this.#row}: ${field}`,
      message: accepted ? `${why}: accepted without it` : `${why}: the key is created disabled`,
      restriction: accepted ? 'accepted' : 'disabled',
    })
    return accepted
  }

  #say(column: string, message: string): void {
    this.#notes.push({ source: 'keys', where: `row ${this.#row}: ${column}`, message })
  }
}

const LIMITS_OF_BUDGETS: ReadonlySet<string> = new Set([
  'max_budget',
  'budget_duration',
  'rpm_limit',
  'tpm_limit',
  'max_parallel_requests',
  'model_max_budget',
  'allowed_models',
])

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

/** The id of the row's account, and its name. */
function accountOf(row: Raw): readonly [id: string, name: string] {
  for (const [column, kind] of OWNERS) {
    const owner = textOf(row[column])
    if (owner === undefined) continue
    const wished = `litellm-${kind}-${owner}`
    const id = wished.toLowerCase().replaceAll(/[^a-z0-9_-]/g, '-')
    const name = `LiteLLM ${kind} ${printable(owner)}`.slice(0, NAME_LENGTH)
    if (id === wished && id.length <= 64) return [id, name]
    const digest = hash('sha256', owner).slice(0, 8)
    return [`${id.slice(0, 64 - 1 - digest.length)}-${digest}`, name]
  }
  return ['litellm', 'LiteLLM']
}

/** Whether a row can be one of the table of keys. */
export function looksLikeKeys(rows: readonly Raw[]): boolean {
  return rows.every((row) => isRaw(row) && 'token' in row)
}
