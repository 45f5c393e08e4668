import { zoneOf } from '../../accounts/limits.ts'
import type { Account, Key } from '../../accounts/stored.ts'
import { ruleOf } from '../../state/ledger/zone.ts'
import type { DirectoryView, ListedAccount, ListedKey } from '../../accounts/directory.ts'
import type { ListedMoney } from '../../accounts/listed-money.ts'
import { checkParameters, readLimit, wantsCsv, wrongQuery } from '../../errors/query.ts'
import type { Gateway } from '../../gateway/gateway.ts'
import { keyNotices } from '../../gateway/notices.ts'
import type { Model } from '../../models/catalog.ts'
import type { Pico } from '../../money/money.ts'
import type { Runtime } from '../../pipeline/pipeline.ts'
import { csvResponse } from './csv.ts'
import { ACCOUNT_COLUMNS, accountView } from './resources/account.ts'
import { KEY_COLUMNS, keyView } from './resources/key.ts'
import {
  accountOf,
  notInList,
  type Answer,
  type AdminRequest,
  type Routes,
  needs,
} from './route.ts'
import { lastUsed, lastUsedAt } from './views.ts'
import { providerNames } from './models.ts'
import type { Found } from './resources/overview.ts'

export const listRoutes: Routes = {
  '/keys': { GET: needs('read', listKeys) },
  '/search': { GET: needs('read', search) },
}

export const COMMON = ['limit', 'after', 'sort', 'q', 'state', 'format']
const ACCOUNT_PARAMETERS = new Set(COMMON)
const KEY_PARAMETERS = new Set([...COMMON, 'account', 'team', 'policy'])
const ACCOUNT_STATES = ['active', 'disabled', 'archived']
const KEY_STATES = ['active', 'disabled', 'expired', 'archived']
const CSV_BATCH = 200

/** @throws InvalidRequest for an unknown or unreadable parameter */
export async function listAccounts(request: AdminRequest): Promise<Answer | Response> {
  const { gateway, runtime, query } = request
  checkParameters(query, ACCOUNT_PARAMETERS)
  const view = await runtime.accounts.directory.view()
  const states = readStates(query, ACCOUNT_STATES)
  const isListed = ({ archived, disabled }: ListedAccount) =>
    states.has(archived ? 'archived' : disabled ? 'disabled' : 'active')
  return answerOf(request, {
    name: 'accounts',
    columns: ACCOUNT_COLUMNS,
    all: view.accounts,
    isListed,
    sums: {
      balance_usd: async (all) => (await moneyOf(gateway).totals(all)).map((one) => one.balance),
      spend_month_usd: async (all) =>
        (await moneyOf(gateway).totals(all)).map((one) => one.spentInMonth),
    },
    rowsOf: (some) => accountRows(runtime, view, some),
  })
}

/** @throws InvalidRequest as {@link listAccounts}; NotFound for an account that does not exist */
async function listKeys(request: AdminRequest): Promise<Answer | Response> {
  const { gateway, runtime, query } = request
  checkParameters(query, KEY_PARAMETERS)
  const accounts = new Set(query.getAll('account'))
  for (const id of accounts) await accountOf(runtime, id)
  const teams = new Set(query.getAll('team'))
  const view = await runtime.accounts.directory.view()
  const states = readStates(query, KEY_STATES)
  const policies = readPolicies(query)
  const now = Date.now()
  const isListed = (key: ListedKey) =>
    (accounts.size === 0 || accounts.has(key.account)) &&
    (teams.size === 0 || (key.team !== undefined && teams.has(key.team))) &&
    (policies === undefined || key.hasPolicy === policies) &&
    states.has(stateOf(key, now))
  return answerOf(request, {
    name: 'keys',
    columns: KEY_COLUMNS,
    all: view.keys,
    isListed,
    sums: {
      spend_usd: (all) => moneyOf(gateway).spends(all),
      last_used_at: async (all) => {
        const used = await lastUsed(runtime, 'all')
        return all.map(({ id }) => used?.get(id) ?? 0)
      },
    },
    rowsOf: (some) => keyRows(runtime, some, now),
  })
}

async function accountRows(
  runtime: Runtime,
  { keyCounts }: DirectoryView,
  some: readonly ListedAccount[],
) {
  const records = await runtime.accounts.accountsOf(some.map(({ id }) => id))
  const totals = await totalsOf(runtime, records)
  return records.map((account, i) => {
    const { archivedAt, disabled } = account
    const state = archivedAt !== undefined ? 'archived' : disabled ? 'disabled' : 'active'
    const key_count = keyCounts.get(account.id) ?? 0
    return accountView(account, totals[i]!, { state }, { key_count })
  })
}

async function keyRows(runtime: Runtime, some: readonly ListedKey[], now: number) {
  const { accounts, ledger } = runtime
  const records = await accounts.keysOf(some.map(({ id }) => id))
  const used = await lastUsed(
    runtime,
    records.map(({ id, account }) => ({ account, key: id })),
  )
  const owners = await ownersOf(runtime, records)
  const { defaults } = runtime.config
  const zones = new Map(
    [...owners.accounts].map(([id, one]) => [id, ruleOf(zoneOf(one, defaults))] as const),
  )
  const spends = await Promise.all(
    records.map(({ id, account }) => ledger.key(account, id, zones.get(account))),
  )
  return Promise.all(
    records.map(async (key, i) => {
      const state = stateOf({ ...key, archived: key.archivedAt !== undefined }, now)
      const view = keyView(key, spends[i]!, { state })
      const account = owners.accounts.get(key.account)
      const team = key.team === undefined ? undefined : owners.teams.get(key.team)
      const warnings = account ? await keyNotices(runtime, { key, team, account }) : []
      return { ...view, last_used_at: lastUsedAt(used, key.id), warnings }
    }),
  )
}

function stateOf(
  {
    archived,
    disabled,
    expiresAt = Infinity,
  }: Pick<ListedKey, 'archived' | 'disabled' | 'expiresAt'>,
  now: number,
): NonNullable<Found['state']> {
  if (archived) return 'archived'
  if (disabled) return 'disabled'
  return expiresAt <= now ? 'expired' : 'active'
}

/** The money of lists, with the rows that this gateway has just booked. */
function moneyOf({ listedMoney, runtime }: Gateway): ListedMoney {
  runtime.usage?.flush()
  return listedMoney
}

function totalsOf({ ledger, config }: Runtime, some: readonly Account[]) {
  const zones = new Map(some.map((one) => [one.id, ruleOf(zoneOf(one, config.defaults))]))
  return ledger.balances(
    some.map(({ id }) => id),
    (id) => zones.get(id),
  )
}

/** The accounts and teams of some keys, by id. */
async function ownersOf({ accounts }: Runtime, keys: readonly Key[]) {
  const ofKeys = await accounts.accountsOf([...new Set(keys.map(({ account }) => account))])
  const ids = new Set(keys.flatMap(({ team }) => (team === undefined ? [] : [team])))
  const teams = await Promise.all([...ids].map((id) => accounts.team(id)))
  return {
    accounts: new Map(ofKeys.map((one) => [one.id, one])),
    teams: new Map(teams.flatMap((one) => (one ? [[one.id, one] as const] : []))),
  }
}

/** The states that a list shows; without a filter all but archived ones. */
export function readStates(query: URLSearchParams, names: readonly string[]): ReadonlySet<string> {
  const states = query.getAll('state').flatMap((text) => text.split(','))
  const unknown = states.find((state) => !names.includes(state))
  if (unknown !== undefined) throw wrongQuery('state', `one of ${names.join(', ')}`)
  return new Set(states.length > 0 ? states : names.filter((state) => state !== 'archived'))
}

function readPolicies(query: URLSearchParams): boolean | undefined {
  const filter = query.get('policy')
  if (filter === null) return undefined
  if (filter === 'any' || filter === 'none') return filter === 'any'
  throw wrongQuery('policy', 'any or none')
}

/** Members by which lists are searched and sorted. */
type Listed = Pick<ListedAccount, 'id' | 'name' | 'createdAt' | 'texts'>

interface List<Item> {
  /** Part of the name of a file. */
  readonly name: string
  /** Columns of a file. */
  readonly columns: readonly string[]
  readonly all: ReadonlyMap<string, Item>
  readonly isListed: (item: Item) => boolean
  /** Sums of the ledger and of usage for sorting: one for each item. */
  readonly sums: Readonly<
    Record<string, (all: readonly Item[]) => Promise<readonly (Pico | number)[]>>
  >
  readonly rowsOf: (some: readonly Item[]) => Promise<object[]>
  /** Most of a page without `?limit=`, if not the usual ones. */
  readonly most?: number
}

/** Members by which every list can be sorted, beside sums. */
const MEMBERS: Readonly<Record<string, (item: Listed) => string | number>> = {
  name: ({ name }) => name.toLowerCase(),
  created_at: ({ createdAt }) => createdAt,
}

export async function answerOf<Item extends Listed>(
  { query }: AdminRequest,
  { name, columns, all, isListed, sums, rowsOf, most }: List<Item>,
): Promise<Answer | Response> {
  const isCsv = wantsCsv(query)
  const limitText = query.get('limit')
  const limit = limitText === null && most !== undefined ? most : readLimit(limitText)
  const items = [...all.values()]
  const { valueOf, descending } = await orderOf(query, items, sums)
  const rank = (item: Item, place: number): Ranked<Item> => ({
    item,
    place,
    value: valueOf(item, place),
  })
  const compare = descending
    ? (a: Ranked<Item>, b: Ranked<Item>) => compareRanks(b, a)
    : compareRanks
  const after = query.get('after')
  const last = after === null ? undefined : all.get(after)
  if (after !== null && !last) throw notInList()
  const begin = last && rank(last, items.indexOf(last))
  const wanted = query.get('q')?.trim().toLowerCase()
  let total = 0
  const listed = function* () {
    for (const [place, item] of items.entries()) {
      if (wanted && !item.texts.includes(wanted)) continue
      if (!isListed(item)) continue
      total++
      const ranked = rank(item, place)
      if (!begin || compare(ranked, begin) > 0) yield ranked
    }
  }
  const first = (count: number) => firstOf(listed(), count, compare).map(({ item }) => item)
  if (isCsv) return csvResponse(name, columns, inBatches(first(Infinity), rowsOf))
  const listedItems = first(limit + 1)
  const page = listedItems.slice(0, limit)
  const next = listedItems.length > limit ? page.at(-1)!.id : null
  return { body: { data: await rowsOf(page), next, total } }
}

/** The order of `?sort=`; by default the newest first. */
async function orderOf<Item extends Listed>(
  query: URLSearchParams,
  items: readonly Item[],
  sums: List<Item>['sums'],
) {
  const sort = query.get('sort') ?? '-created_at'
  const name = sort.replace(/^-/, '')
  const names = [...Object.keys(MEMBERS), ...Object.keys(sums)]
  if (!names.includes(name)) {
    throw wrongQuery('sort', `one of ${names.join(', ')}, with "-" before it for descending`)
  }
  const values = await sums[name]?.(items)
  const valueOf = (item: Item, place: number) => values?.[place] ?? MEMBERS[name]!(item)
  return { valueOf, descending: sort.startsWith('-') }
}

interface Ranked<Item> {
  readonly item: Item
  readonly value: string | number | Pico
  /** Position in the directory, which differs from gateway to gateway. */
  readonly place: number
}

function compareRanks<Item extends Listed>(a: Ranked<Item>, b: Ranked<Item>) {
  if (a.value !== b.value) return a.value < b.value ? -1 : 1
  return a.item.createdAt - b.item.createdAt || a.place - b.place
}

/** The first items of an order: a page of a long list needs no more than these in order. */
function firstOf<Item>(
  items: Iterable<Item>,
  count: number,
  compare: (a: Item, b: Item) => number,
): readonly Item[] {
  const firsts: Item[] = []
  let last: Item | undefined
  for (const item of items) {
    if (last && compare(item, last) >= 0) continue
    firsts.push(item)
    if (firsts.length < 4 * count) continue
    firsts.sort(compare).length = count
    last = firsts.at(-1)
  }
  return firsts.sort(compare).slice(0, count)
}

async function* inBatches<Item>(
  items: readonly Item[],
  rowsOf: (some: readonly Item[]) => Promise<object[]>,
): AsyncGenerator<object> {
  for (let at = 0; at < items.length; at += CSV_BATCH) {
    yield* await rowsOf(items.slice(at, at + CSV_BATCH))
  }
}

// Search for accounts, keys, vendors and models by a part of a name or id.

const PARAMETERS = new Set(['q', 'kind', 'sha256', 'account'])
const KINDS: ReadonlySet<string> = new Set([
  'account',
  'key',
  'model',
  'team',
  'deployment',
  'vendor',
  'user',
])
const KIND_NAMES = 'account, key, model, team, deployment, vendor or user'
/** Most results of each kind. */
const MOST = 8

/**
 * Searches; an exact id comes first. With a kind and no text the newest of that kind.
 * @throws InvalidRequest without a text, a hash or a kind, and for an unknown kind
 */
async function search({ gateway, runtime, query }: AdminRequest): Promise<Answer> {
  checkParameters(query, PARAMETERS)
  const kind = query.get('kind')
  if (kind !== null && !KINDS.has(kind)) throw wrongQuery('kind', KIND_NAMES)
  const { accounts, keys } = await runtime.accounts.directory.view()
  const sha256 = query.get('sha256')
  if (sha256 !== null) {
    if (!/^[0-9a-f]{64}$/.test(sha256)) throw wrongQuery('sha256', '64 hexadecimal digits')
    const resolved = await runtime.accounts.find(sha256)
    const key = resolved ? keys.get(resolved.key.id) : undefined
    return { body: { data: key ? [{ ...foundOf('key', key), start: resolved!.key.start }] : [] } }
  }
  const wanted = query.get('q')?.trim().toLowerCase() ?? ''
  if (wanted === '' && kind === null) throw wrongQuery('q', 'part of a name or id')
  const is = (one: Found['kind']) => kind === null || kind === one
  const withArchived = kind !== null && wanted !== ''
  const catalog = runtime.catalog.at().all()
  const data: readonly Found[] = [
    ...(is('account') ? listed('account', accounts, wanted, withArchived) : []),
    ...(is('key') ? await withStarts(runtime, listed('key', keys, wanted, withArchived)) : []),
    ...(is('vendor') ? vendorsIn(gateway, wanted) : []),
    ...(is('model') ? modelsIn(catalog, wanted) : []),
    ...(kind === 'team' ? await teamsIn(runtime, query.get('account'), wanted) : []),
    ...(kind === 'deployment' ? deploymentsIn(catalog, wanted) : []),
    ...(is('user') && wanted !== '' ? await userOf(runtime, query.get('q')!.trim()) : []),
  ]
  const isExact = ({ id }: Found) => Number(id.toLowerCase() !== wanted)
  return { body: { data: data.toSorted((one, other) => isExact(one) - isExact(other)) } }
}

function vendorsIn(gateway: Gateway, wanted: string): Found[] {
  const matches = providerNames(gateway).filter((name) => name.toLowerCase().includes(wanted))
  return matches.slice(0, MOST).map((name) => ({ kind: 'vendor' as const, id: name, name }))
}

/** Models that are called so, and then those of a vendor that is. */
function modelsIn(models: readonly Model[], wanted: string): Found[] {
  const has = (names: readonly string[]) =>
    names.some((name) => name.toLowerCase().includes(wanted))
  const isCalledSo = ({ id, aliases }: Model) => has([id, ...aliases])
  const others = models.filter(
    (one) => !isCalledSo(one) && has(one.deployments.map(({ provider }) => provider)),
  )
  return [...models.filter(isCalledSo), ...others]
    .slice(0, MOST)
    .map(({ id }) => ({ kind: 'model' as const, id, name: id }))
}

function deploymentsIn(models: readonly Model[], wanted: string): Found[] {
  const ids = new Set(models.flatMap(({ deployments }) => deployments.map(({ id }) => id)))
  const matches = [...ids].filter((id) => id.toLowerCase().includes(wanted)).slice(0, MOST)
  return matches.map((id) => ({ kind: 'deployment' as const, id, name: id }))
}

async function teamsIn(
  { accounts }: Runtime,
  account: string | null,
  wanted: string,
): Promise<Found[]> {
  const teams = await accounts.listTeams(account ?? undefined)
  return teams
    .filter(({ id, name }) => `${id}\n${name}`.toLowerCase().includes(wanted))
    .slice(-MOST)
    .map(({ id, name }) => ({ kind: 'team' as const, id, name }))
}

/** An end user, by the whole name, where the request log has a call of theirs. */
async function userOf({ requests }: Runtime, name: string): Promise<Found[]> {
  const page = await requests?.list({ filters: { user: [name] }, limit: 1 }).catch(() => undefined)
  return page && page.calls.length > 0 ? [{ kind: 'user', id: name, name }] : []
}

/** The keys with the beginnings of their secrets. */
async function withStarts({ accounts }: Runtime, matches: readonly Found[]): Promise<Found[]> {
  const keys = await Promise.all(matches.map(({ id }) => accounts.key(id)))
  return matches.map((one, i) => (keys[i] ? { ...one, start: keys[i].start } : one))
}

function foundOf(kind: 'account' | 'key', one: ListedAccount | ListedKey): Found {
  const { id, name } = one
  const state = stateOf(one, Date.now())
  return { kind, id, name, state, ...('account' in one && { account: one.account }) }
}

function listed(
  kind: 'account' | 'key',
  all: ReadonlyMap<string, ListedAccount | ListedKey>,
  wanted: string,
  withArchived: boolean,
): readonly Found[] {
  if (wanted === '') {
    const live = [...all.values()].filter(({ archived }) => !archived)
    const newest = firstOf(live, MOST, (one, other) => other.createdAt - one.createdAt)
    return newest.map((one) => foundOf(kind, one))
  }
  // What has just this id or name comes first, and what is live before what is archived.
  const ranks: Found[][] = [[], [], [], [], []]
  for (const one of all.values()) {
    const { id, name, archived, texts } = one
    const isId = id.toLowerCase() === wanted
    if (!isId && ((archived && !withArchived) || !texts.includes(wanted))) continue
    const isName = name.toLowerCase() === wanted
    const rank = ranks[isId ? 0 : (isName ? 1 : 3) + Number(archived)]!
    if (rank.length < MOST) rank.push(foundOf(kind, one))
  }
  return ranks.flat().slice(0, MOST)
}
