/** Virtual keys of Bifrost as keys. No key can do here what it could not do there. */
import { hash } from 'node:crypto'
import type { MigratedKey } from '../../../src/plugin.ts'
import { isUnset, listOf, numberOf, rawOf, textOf, type Raw, type Say } from '../shared/values.ts'
import type { Providers } from './providers.ts'

interface KeyOptions {
  readonly providers: Providers
  /** Ids in price lists. */
  readonly listed: ReadonlySet<string>
  readonly accept: ReadonlySet<string>
  readonly say: Say
}

/** Members that a key is made of, and those that restrict nothing. */
const KNOWN: ReadonlySet<string> = new Set([
  'id',
  'name',
  'description',
  'value',
  'is_active',
  'provider_configs',
  'allow_all_providers',
  'team_id',
  'customer_id',
  'budget_id',
  'budget',
  'budgets',
  'rate_limit_id',
  'rate_limit',
  'mcp_configs',
  'created_at',
  'updated_at',
])
const TEXT = /^[\x21-\x7e]{8,512}$/
const ALL = '*'
/** Spans of budgets that caps of keys have too. */
const SPANS: Readonly<Record<string, string>> = { '1d': 'day', '24h': 'day', '1M': 'month' }

/** The keys, and who owns them. */
export function mapVirtualKeys(governance: Raw, options: KeyOptions) {
  const owners = ['customers', 'teams'].flatMap((kind) =>
    rowsOf(governance[kind]).map((row) => ({
      kind,
      row,
      id: textOf(row.id) ?? '',
      account: accountOf(textOf(row.id)),
      name: textOf(row.name) ?? textOf(row.id) ?? 'Bifrost',
    })),
  )
  const keys: MigratedKey[] = []
  const seen = new Set<string>()
  for (const [index, row] of rowsOf(governance.virtual_keys).entries()) {
    const where = `governance.virtual_keys[${index}]`
    const value = textOf(row.value)
    if (value === undefined || value.startsWith('env.') || !TEXT.test(value)) {
      const reason = value?.startsWith('env.')
        ? 'its secret is in the environment: make the key here'
        : 'not the text of a key'
      options.say('locked', `${where}.value`, `left out: ${reason}`)
      continue
    }
    const sha256 = hash('sha256', value)
    if (seen.has(sha256)) {
      options.say('differs', `${where}.value`, 'left out: another key has the same secret')
      continue
    }
    seen.add(sha256)
    keys.push(
      new KeyDraft(row, { where, value, sha256, number: index + 1 }, governance, options).made(),
    )
  }
  const used = new Set(keys.map(({ account }) => account))
  return { keys, owners: owners.filter(({ account }) => used.has(account)) }
}

interface Found {
  readonly where: string
  readonly value: string
  readonly sha256: string
  /** Place in the list, from 1. */
  readonly number: number
}

/** A key while its restrictions are put together. */
class KeyDraft {
  readonly #row: Raw
  readonly #found: Found
  readonly #governance: Raw
  readonly #options: KeyOptions
  readonly #settings: Record<string, unknown> = {}
  #disabled: boolean

  constructor(row: Raw, found: Found, governance: Raw, options: KeyOptions) {
    this.#row = row
    this.#found = found
    this.#governance = governance
    this.#options = options
    this.#disabled = row.is_active === false
  }

  made(): MigratedKey {
    const row = this.#row
    const { value, sha256, number } = this.#found
    this.#allow()
    this.#cap([row.budget, byId(this.#governance.budgets, row.budget_id), ...rowsOf(row.budgets)])
    this.#rate([row.rate_limit, byId(this.#governance.rate_limits, row.rate_limit_id)])
    this.#owner()
    if (!isUnset(row.mcp_configs)) {
      this.#options.say(
        'lost',
        `${this.#found.where}.mcp_configs`,
        'tools of MCP servers are not called here',
      )
    }
    for (const [member, own] of Object.entries(row)) {
      if (!KNOWN.has(member) && !isUnset(own))
        this.#restricts(member, 'keys here have no such restriction')
    }
    const name = textOf(row.name)
    const isSecret = name === undefined || value.includes(name) || name.startsWith('sk-')
    return {
      account: accountOf(textOf(row.customer_id) ?? textOf(row.team_id)),
      id: `bifrost-${hash('sha256', `bifrost:${sha256}`).slice(0, 24)}`,
      name: isSecret ? `Imported key ${number}` : name.slice(0, 200),
      sha256,
      start: value.slice(0, 9),
      disabled: this.#disabled,
      settings: this.#settings,
      row: number,
    }
  }

  /** Its providers and models as a list of models. */
  #allow(): void {
    const configs = rowsOf(this.#row.provider_configs)
    const { providers, listed } = this.#options
    if (configs.length === 0) {
      if (this.#row.allow_all_providers === true) return
      return this.#restricts(
        'provider_configs',
        'it names no provider, which newer versions take for none',
      )
    }
    const models = new Set<string>()
    for (const config of configs) {
      const name = textOf(config.provider) ?? ''
      const vendor = providers.vendorOf(name)
      const allowed = listOf(config.allowed_models) ?? []
      if (vendor === undefined) continue
      // A wildcard becomes what it serves on this day: a key gains no models that come later.
      const all = () =>
        [...providers.models.keys(), ...listed].filter(
          (id) =>
            id.startsWith(`${vendor}/`) && !id.endsWith('/*') && isServed(id, vendor, providers),
        )
      for (const model of allowed) {
        for (const id of model === ALL ? all() : [`${vendor}/${model}`]) models.add(id)
      }
      if (allowed.length === 0) {
        this.#restricts(
          'allowed_models',
          `it names no model of ${name}, which newer versions take for none`,
        )
      }
      this.#cap(
        [
          config.budget,
          byId(this.#governance.budgets, config.budget_id),
          ...rowsOf(config.budgets),
        ],
        `the provider ${name}`,
      )
      this.#rate(
        [config.rate_limit, byId(this.#governance.rate_limits, config.rate_limit_id)],
        `the provider ${name}`,
      )
    }
    if (models.size > 0) this.#settings.models = [...models].toSorted()
    else this.#lock('provider_configs', 'none of its models is there')
  }

  /** @param part the part of the key, where it is not the whole */
  #cap(budgets: readonly unknown[], part?: string): void {
    for (const budget of budgets.map(rawOf)) {
      const limit = textOf(budget.max_limit)
      if (limit === undefined) continue
      const scope = SPANS[textOf(budget.reset_duration) ?? '']
      const isPossible =
        scope !== undefined &&
        part === undefined &&
        /^\d{1,9}(\.\d{1,12})?$/.test(limit) &&
        !this.#settings.spend_cap
      if (isPossible) this.#settings.spend_cap = { usd: limit, scope }
      else
        this.#restricts(
          'budget',
          `a budget of ${part ?? `the span ${textOf(budget.reset_duration) ?? 'that is missing'}`} has no counterpart here`,
        )
    }
  }

  #rate(limits: readonly unknown[], part?: string): void {
    for (const limit of limits.map(rawOf)) {
      if (!isUnset(limit.token_max_limit)) {
        this.#restricts('token_max_limit', 'tokens are not limited by time here')
      }
      const calls = numberOf(limit.request_max_limit)
      if (calls === undefined) continue
      const isMinute = ['1m', '60s'].includes(textOf(limit.request_reset_duration) ?? '')
      if (isMinute && part === undefined && Number.isSafeInteger(calls) && calls > 0)
        this.#settings.rpm_limit = Math.min(
          calls,
          (this.#settings.rpm_limit as number | undefined) ?? calls,
        )
      else
        this.#restricts(
          'request_max_limit',
          `a limit of requests ${part === undefined ? 'for another time than a minute' : `of ${part}`} has no counterpart here`,
        )
    }
  }

  /** A team and a customer restrict all of their keys together. */
  #owner(): void {
    const team = byId(this.#governance.teams, this.#row.team_id)
    const customer = byId(this.#governance.customers, this.#row.customer_id ?? team?.customer_id)
    for (const [member, row] of [
      ['team_id', team],
      ['customer_id', customer],
    ] as const) {
      if (row === undefined) {
        if (!isUnset(this.#row[member])) this.#restricts(member, 'its owner is not in the file')
        continue
      }
      const limits = ['budget_id', 'budget', 'budgets', 'rate_limit_id', 'rate_limit']
      if (limits.some((name) => !isUnset(row[name])))
        this.#restricts(member, 'its owner has limits for all of its keys together')
    }
  }

  #restricts(field: string, why: string): void {
    const { accept, say } = this.#options
    const where = `${this.#found.where}.${field}`
    if (accept.has(field)) return say('wider', where, `${why}: accepted without it`)
    this.#disabled = true
    const remedy = `decide, then "keys enable"; or repeat with --accept ${field}`
    say('locked', where, `${why}: the key is created disabled`, remedy)
  }

  #lock(field: string, why: string): void {
    this.#disabled = true
    this.#options.say(
      'locked',
      `${this.#found.where}.${field}`,
      `${why}: the key is created disabled`,
    )
  }
}

/** Whether a model of a price list, or of the file, is served. */
function isServed(id: string, vendor: string, { models }: Providers): boolean {
  return models.has(id) || models.has(`${vendor}/*`)
}

/** The account of a customer or a team. */
export function accountOf(owner: string | undefined): string {
  const id = (owner ?? '')
    .toLowerCase()
    .replaceAll(/[^a-z0-9_-]/g, '-')
    .slice(0, 50)
  return id === '' ? 'bifrost' : `bifrost-${id}`
}

function rowsOf(value: unknown): readonly Raw[] {
  return Array.isArray(value) ? value.map(rawOf) : []
}

function byId(rows: unknown, id: unknown): Raw | undefined {
  const wanted = textOf(id)
  return wanted === undefined ? undefined : rowsOf(rows).find((row) => textOf(row.id) === wanted)
}
