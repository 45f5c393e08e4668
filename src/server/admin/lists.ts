/** Lists of accounts and keys: searched and sorted by the directory, read in full for the page that is shown. */
import type { DirectoryView, ListedAccount, ListedKey } from '../../accounts/directory.ts'
import { checkParameters, readLimit, wrongQuery } from '../../errors/query.ts'
import { usdJson, type Pico } from '../../money/money.ts'
import type { Runtime } from '../../pipeline/pipeline.ts'
import { csvResponse } from './csv.ts'
import { accountOf, notInList, type Answer, type Asked } from './route.ts'
import { accountSettings, keySettings, lastUsed, lastUsedAt, spendView } from './views.ts'

const COMMON = ['limit', 'after', 'sort', 'q', 'state', 'format']
const ACCOUNT_PARAMETERS = new Set(COMMON)
const KEY_PARAMETERS = new Set([...COMMON, 'account', 'policy'])
const ACCOUNT_STATES = ['active', 'disabled', 'archived']
const KEY_STATES = ['active', 'disabled', 'expired', 'archived']
/**
 * How long sums of the ledger may be old in the order of a list; those that are shown are not. From the first age on the
 * order is made again beside the answer, from the second on before it.
 */
const [RENEWED_MS, SORTED_MS] = [5000, 60_000]
const CSV_BATCH = 200

/** `GET /accounts` @throws InvalidRequest for a parameter that is not known or not readable */
export async function listAccounts(asked: Asked): Promise<Answer | Response> {
  const { runtime, query } = asked
  checkParameters(query, ACCOUNT_PARAMETERS)
  const view = await runtime.accounts.directory.view()
  const states = readStates(query, ACCOUNT_STATES)
  const isListed = ({ archived, disabled }: ListedAccount) =>
    states.has(archived ? 'archived' : disabled ? 'disabled' : 'active')
  const sorted = await orderOf(query, view, {
    members: { name: ({ name }) => name.toLowerCase(), created_at: ({ createdAt }) => createdAt },
    sums: {
      balance_usd: async (all) => (await totalsOf(runtime, all)).map(({ balance }) => balance),
      spend_month_usd: async (all) => (await totalsOf(runtime, all)).map((one) => one.spend.month),
    },
    all: view.accounts,
  })
  const found = search(query, sorted, ({ id, name }) => [id, name]).filter(isListed)
  const rowsOf = (some: readonly ListedAccount[]) => accountRows(runtime, view, some)
  return answerOf(asked, 'accounts', ACCOUNT_COLUMNS, found, rowsOf)
}

/** `GET /keys` @throws InvalidRequest as {@link listAccounts}; NotFound for an account that does not exist */
export async function listKeys(asked: Asked): Promise<Answer | Response> {
  const { runtime, query } = asked
  checkParameters(query, KEY_PARAMETERS)
  const accounts = new Set(query.getAll('account'))
  for (const id of accounts) await accountOf(runtime, id)
  const view = await runtime.accounts.directory.view()
  const states = readStates(query, KEY_STATES)
  const policies = readPolicies(query)
  const now = Date.now()
  const isListed = (key: ListedKey) =>
    (accounts.size === 0 || accounts.has(key.account)) &&
    (policies === undefined || key.hasPolicy === policies) &&
    states.has(stateOf(key, now))
  const sorted = await orderOf(query, view, {
    members: { name: ({ name }) => name.toLowerCase(), created_at: ({ createdAt }) => createdAt },
    sums: {
      spend_usd: (all) =>
        runtime.ledger.spends(all.map(({ id, account }) => ({ account, key: id }))),
      last_used_at: async (all) => {
        const used = await lastUsed(runtime, 'all')
        return all.map(({ id }) => used?.get(id) ?? 0)
      },
    },
    all: view.keys,
  })
  const found = search(query, sorted, ({ id, name, start }) => [id, name, start]).filter(isListed)
  return answerOf(asked, 'keys', KEY_COLUMNS, found, (some) => keyRows(runtime, some, now))
}

const ACCOUNT_COLUMNS = [
  'id',
  'name',
  'state',
  'balance_usd',
  'available_usd',
  'free_tier',
  'spend.day',
  'spend.month',
  'spend.lifetime',
  'key_count',
  'rpm_limit',
  'concurrency_limit',
  'spend_cap.usd',
  'spend_cap.scope',
  'note',
  'created_at',
]

const KEY_COLUMNS = [
  'id',
  'account_id',
  'name',
  'start',
  'state',
  'spend.day',
  'spend.month',
  'spend.lifetime',
  'running',
  'last_used_at',
  'rpm_limit',
  'concurrency_limit',
  'spend_cap.usd',
  'spend_cap.scope',
  'expires_at',
  'models',
  'tag',
  'note',
  'created_at',
]

async function accountRows(
  runtime: Runtime,
  { keyCounts }: DirectoryView,
  some: readonly ListedAccount[],
) {
  const records = await runtime.accounts.accountsOf(some.map(({ id }) => id))
  const totals = await totalsOf(runtime, records)
  return records.map((account, i) => {
    const { balance, available, paid, spend } = totals[i]!
    const { archivedAt, disabled } = account
    return {
      ...accountSettings(account),
      state: archivedAt !== undefined ? 'archived' : disabled ? 'disabled' : 'active',
      balance_usd: usdJson(balance),
      available_usd: usdJson(available),
      free_tier: !paid,
      spend: spendView(spend),
      running: spend.inFlight,
      key_count: keyCounts.get(account.id) ?? 0,
      revision: account.revision,
    }
  })
}

async function keyRows(runtime: Runtime, some: readonly ListedKey[], now: number) {
  const { accounts, ledger } = runtime
  const records = await accounts.keysOf(some.map(({ id }) => id))
  const used = await lastUsed(
    runtime,
    records.map(({ id, account }) => ({ account, key: id })),
  )
  const spends = await Promise.all(records.map(({ id, account }) => ledger.key(account, id)))
  return records.map((key, i) => {
    const spend = spends[i]!
    return {
      ...keySettings(key),
      state: stateOf({ ...key, archived: key.archivedAt !== undefined }, now),
      revision: key.revision,
      spend_usd: usdJson(spend.lifetime),
      spend: spendView(spend),
      running: spend.inFlight,
      last_used_at: lastUsedAt(used, key.id),
    }
  })
}

function stateOf(
  {
    archived,
    disabled,
    expiresAt = Infinity,
  }: Pick<ListedKey, 'archived' | 'disabled' | 'expiresAt'>,
  now: number,
): string {
  if (archived) return 'archived'
  if (disabled) return 'disabled'
  return expiresAt <= now ? 'expired' : 'active'
}

function totalsOf({ ledger }: Runtime, some: readonly { readonly id: string }[]) {
  return ledger.balances(some.map(({ id }) => id))
}

/** The states that a list shows; without a filter all but archived ones. */
function readStates(query: URLSearchParams, known: readonly string[]): ReadonlySet<string> {
  const given = query.getAll('state').flatMap((text) => text.split(','))
  const unknown = given.find((state) => !known.includes(state))
  if (unknown !== undefined) throw wrongQuery('state', `one of ${known.join(', ')}`)
  return new Set(given.length > 0 ? given : known.filter((state) => state !== 'archived'))
}

function readPolicies(query: URLSearchParams): boolean | undefined {
  const given = query.get('policy')
  if (given === null) return undefined
  if (given === 'any' || given === 'none') return given === 'any'
  throw wrongQuery('policy', 'any or none')
}

/** What a list can be sorted by. */
interface Order<Item> {
  readonly members: Readonly<Record<string, (item: Item) => string | number>>
  /** Of the ledger and of usage. */
  readonly sums: Readonly<
    Record<string, (all: readonly Item[]) => Promise<readonly (Pico | number)[]>>
  >
  readonly all: ReadonlyMap<string, Item>
}

interface Sorted {
  readonly items: readonly unknown[]
  readonly version: number
  /** Steady ms. */
  at: number
}

/** Orders that were asked for, by directory and name: sorting is what takes long. */
const orders = new WeakMap<object, Map<string, Sorted>>()

/** All items in the order of `?sort=`; by default in that of their creation. */
async function orderOf<Item>(
  query: URLSearchParams,
  { version }: DirectoryView,
  { members, sums, all }: Order<Item>,
): Promise<readonly Item[]> {
  const sort = query.get('sort') ?? 'created_at'
  const name = sort.replace(/^-/, '')
  const names = [...Object.keys(members), ...Object.keys(sums)]
  if (!names.includes(name)) {
    throw wrongQuery('sort', `one of ${names.join(', ')}, with "-" before it for descending`)
  }
  const known = orders.get(all) ?? new Map<string, Sorted>()
  orders.set(all, known)
  const found = known.get(name)
  const sum = Object.hasOwn(sums, name) ? sums[name] : undefined
  const ageMs = sum && found ? performance.now() - found.at : 0
  const make = async () => {
    const list = [...all.values()]
    const values = sum ? await sum(list) : list.map(members[name]!)
    const sorted = { items: sortedBy(list, values), version, at: performance.now() }
    known.set(name, sorted)
    return sorted
  }
  const isUsable = found?.version === version && ageMs < SORTED_MS
  if (isUsable && ageMs > RENEWED_MS) {
    // Not once more for those who ask meanwhile.
    found.at = performance.now()
    // The next question has the error.
    void make().catch(() => known.delete(name))
  }
  const { items } = (isUsable ? found : await make()) as { readonly items: readonly Item[] }
  return sort.startsWith('-') ? items.toReversed() : items
}

function sortedBy<Item>(items: readonly Item[], values: readonly (string | number | Pico)[]) {
  const places = Array.from(items, (_, i) => i)
  places.sort((a, b) => (values[a]! < values[b]! ? -1 : values[a]! > values[b]! ? 1 : a - b))
  return places.map((place) => items[place]!)
}

/** Items of which one text contains `?q=`, whatever its case. */
function search<Item>(
  query: URLSearchParams,
  items: readonly Item[],
  textsOf: (item: Item) => readonly string[],
): readonly Item[] {
  const wanted = query.get('q')?.trim().toLowerCase()
  if (!wanted) return items
  return items.filter((item) => textsOf(item).some((text) => text.toLowerCase().includes(wanted)))
}

/** The page that `?limit=` and `?after=` select, or everything as CSV. */
async function answerOf<Item extends { readonly id: string }>(
  { query }: Asked,
  name: string,
  columns: readonly string[],
  found: readonly Item[],
  rowsOf: (some: readonly Item[]) => Promise<object[]>,
): Promise<Answer | Response> {
  const format = query.get('format') ?? 'json'
  if (format !== 'json' && format !== 'csv') throw wrongQuery('format', 'json or csv')
  const after = query.get('after')
  const start = after === null ? 0 : found.findIndex(({ id }) => id === after) + 1
  if (after !== null && start === 0) throw notInList()
  if (format === 'csv') return csvResponse(name, columns, inBatches(found.slice(start), rowsOf))
  const end = start + readLimit(query.get('limit'))
  const data = await rowsOf(found.slice(start, end))
  return { body: { data, next: end < found.length ? found[end - 1]!.id : null } }
}

async function* inBatches<Item>(
  items: readonly Item[],
  rowsOf: (some: readonly Item[]) => Promise<object[]>,
): AsyncGenerator<object> {
  for (let at = 0; at < items.length; at += CSV_BATCH) {
    yield* await rowsOf(items.slice(at, at + CSV_BATCH))
  }
}
