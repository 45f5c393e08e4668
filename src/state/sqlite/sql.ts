/** The SQL statements of the store, and the shapes of its rows. */
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { fromStoredSum, toStoredSum, type Pico, type StoredSum } from '../../money/money.ts'
import { isKept, readList, writeList } from '../ledger/limit-list.ts'
import { counterName, spendName, type StoredCounter } from '../ledger/sums.ts'
import { endsFreeTier, readBody } from '../ledger/bookings.ts'
import { windowOf } from '../ledger/windows.ts'
import {
  ACCOUNT,
  TIER,
  teamKey,
  type KeyLimits,
  type LedgerRow,
  type LimitsItem,
  type RowItem,
  type Booking,
} from '../ledger/ledger.ts'

/** Stored value of an absent rate or concurrency. */
const UNLIMITED = 0

/** Every account with a row or a sum. It steps through the index from account to account, not through all rows. */
export const OWNERS = `
  WITH RECURSIVE owner (id) AS (
    SELECT min(account) FROM usage
    UNION ALL
    SELECT (SELECT min(account) FROM usage WHERE account > id) FROM owner WHERE id IS NOT NULL
  )
  SELECT id FROM owner WHERE id IS NOT NULL UNION SELECT id FROM account
  UNION SELECT account FROM total`

export type Sql = ReturnType<typeof prepare>

/** Statements of a database, each prepared when it is first used: a start needs few of them, and all take 2 ms. */
export function statementsOf<Name extends string>(
  db: DatabaseSync,
  texts: Readonly<Record<Name, string>>,
): Readonly<Record<Name, StatementSync>> {
  const statements = {} as Record<Name, StatementSync>
  for (const [name, text] of Object.entries<string>(texts)) {
    const prepared = () => {
      const value = db.prepare(text)
      Object.defineProperty(statements, name, { value })
      return value
    }
    Object.defineProperty(statements, name, { get: prepared, configurable: true })
  }
  return statements
}

export interface UsageColumns {
  readonly account: string
  readonly kind: LedgerRow['kind']
  readonly request: string
  readonly key: string | null
  readonly team: string | null
  readonly cost: Pico
  readonly day: string | null
  readonly at: bigint
  readonly body: string | null
  readonly actor: string | null
}

export interface TotalColumns extends StoredSum {
  readonly key: string
  /** It is empty where there is none. */
  readonly team: string
  readonly day: string
  readonly requests: bigint
}

interface SpendColumns extends StoredSum {
  readonly account: string
  readonly key: string
  readonly window: string
}

/** Sums of an account: its balance, and its top-ups. */
export interface AccountSums extends StoredSum {
  readonly paid_in_usd: bigint
  readonly paid_in_pico: bigint
}

export function paidInOf({ paid_in_usd: usd, paid_in_pico: pico }: AccountSums): Pico {
  return fromStoredSum({ usd, pico })
}

export interface LimitColumns {
  readonly account: string
  readonly key: string
  readonly disabled: bigint
  readonly expires_at: bigint | null
  readonly rpm: bigint
  readonly concurrency: bigint
  readonly list: string
  readonly revision: bigint
}

export interface AuditColumns {
  readonly seq: bigint
  readonly at: bigint
  readonly actor: string
  readonly actor_id: string | null
  readonly session: string | null
  readonly address: string
  readonly action: string
  readonly object: string
  readonly members: string
}

export function all<Row>(query: StatementSync, ...args: (string | number | null)[]): Row[] {
  return query.all(...args) as Row[]
}

/** Ascending row numbers. A number is used once, even if its row was folded. */
class RowNumbers {
  #last: number

  constructor(db: DatabaseSync) {
    const newest =
      'SELECT max(folded_to, (SELECT ifnull(max(seq), 0) FROM usage)) AS seq FROM identity'
    this.#last = Number(db.prepare(newest).get()!.seq)
  }

  get last(): number {
    return this.#last
  }

  get next(): number {
    return this.#last + 1
  }

  advance(): void {
    this.#last++
  }
}

/** Columns of a row in the order of the table, without its number. */
export type NewRow = readonly [
  kind: LedgerRow['kind'],
  request: string,
  account: string,
  key: string | null,
  cost: Pico,
  day: string | null,
  at: number,
  body: string | null,
  actor: string | null,
  team?: string | null,
]

/** Adds a row. @returns false where one of its request, kind and account exists */
export function addRow({ insert, numbers }: Sql, ...row: NewRow): boolean {
  const [kind, request, account, key, cost, day, at, body, actor, team = null] = row
  const columns = [kind, request, account, key, cost, day, at, body, actor, team] as const
  const { changes } = insert.run(numbers.next, ...columns)
  if (Number(changes) === 0) return false
  numbers.advance()
  return true
}

/** Windows in the order of their places in `addSpend`. */
const WINDOWS = ['lifetime', 'day', 'month'] as const

/** What a row is charged to. */
interface Charged {
  readonly account: string
  readonly key: string
  readonly team: string | null
  readonly day: string
}

/** Adds a cost to the sums of its account, key, team and day. */
export function charge(sql: Sql, { account, key, team, day }: Charged, cost: Pico): void {
  if (cost === 0n) return
  adjust(sql, account, -cost)
  const windows = WINDOWS.map((scope) => windowOf(scope, day))
  const { usd, pico } = toStoredSum(cost)
  sql.addSpend.run(account, key, ACCOUNT, ...windows, usd, pico)
  if (team !== null) sql.addTeamSpend.run(account, teamKey(team), ...windows, usd, pico)
}

/** A counter of an owner: a key, `@team:<id>`, `@account` or `@tier`. */
interface CounterKey {
  readonly account: string
  readonly owner: string
  readonly id: string
  readonly window: string
}

/** The window of the entry that says from which row on a counter counts. */
const SINCE = ''

/** Costs of rows whose sums lack them: those of one account, key and day change their sums together. */
export class Costs {
  readonly #sql: Sql
  readonly #sums = new Map<string, Charged & { cost: Pico }>()
  readonly #counts = new Map<string, CounterKey & { amount: bigint }>()

  constructor(sql: Sql) {
    this.#sql = sql
  }

  add(charged: Charged, cost: Pico): void {
    const { account, key, team, day } = charged
    const name = `${account}\n${key}\n${team ?? ''}\n${day}`
    const sum = this.#sums.get(name)
    if (sum) sum.cost += cost
    else this.#sums.set(name, { ...charged, cost })
  }

  count(counter: CounterKey, amount: bigint): void {
    const { account, owner, id, window } = counter
    const name = `${account}\n${owner}\n${id}\n${window}`
    const sum = this.#counts.get(name)
    if (sum) sum.amount += amount
    else this.#counts.set(name, { ...counter, amount })
  }

  /** Adds the costs to the sums. */
  charge(): void {
    const [sums, counts] = [[...this.#sums.values()], [...this.#counts.values()]]
    this.clear()
    for (const { cost, ...charged } of sums) charge(this.#sql, charged, cost)
    for (const { account, owner, id, window, amount } of counts) {
      const { usd, pico } = toStoredSum(amount)
      this.#sql.addCounter.run(account, owner, id, window, usd, pico)
      this.#sql.dropEarlier.run(account, owner, id, window)
    }
  }

  clear(): void {
    this.#sums.clear()
    this.#counts.clear()
  }
}

/** Adds the amount of a booking to the sums of its account. */
export function bookAmount(
  sql: Sql,
  account: string,
  amount: Pico,
  booking: Pick<Booking, 'kind' | 'unlock'>,
): void {
  const { usd, pico } = toStoredSum(amount)
  if (booking.kind === 'top-up') sql.credit.run(account, usd, pico)
  else adjust(sql, account, amount)
  if (endsFreeTier(booking)) sql.setPaid.run(account)
}

/** Adds an amount of any sign to the balance. */
function adjust(sql: Sql, account: string, amount: Pico): void {
  const { usd, pico } = toStoredSum(amount)
  sql.addBalance.run(account, usd, pico)
}

/** Stores limits, unless the stored revision is higher. Counters and resets of limits that are gone, or new, end. */
export function setLimits(
  sql: Sql,
  account: string,
  key: string,
  limits: KeyLimits,
  revision: number,
): void {
  const { disabled, expiresAt, rpm, concurrency, counted = [] } = limits
  const stored = sql.list.get(account, key) as { list: string; revision: bigint } | undefined
  if (stored && stored.revision > revision) return
  const former = new Set((readList(stored?.list ?? '').counted ?? []).map(({ id }) => id))
  if (former.size + counted.length > 0) {
    const kept = JSON.stringify(counted.flatMap(({ id }) => (former.has(id) ? [id] : [])))
    sql.dropCounters.run(account, key, kept)
    sql.dropResets.run(account, key, kept)
    for (const { id } of counted) {
      if (former.has(id) || isKept(id)) continue
      sql.beginCounter.run(account, key, id, SINCE, sql.numbers.last)
    }
  }
  sql.setLimits.run(
    account,
    key,
    Number(disabled),
    expiresAt ?? null,
    rpm ?? UNLIMITED,
    concurrency ?? UNLIMITED,
    writeList(limits),
    revision,
  )
}

export function toRowItem({
  account,
  kind,
  request,
  key,
  cost,
  day,
  at,
  body,
  actor,
}: Omit<UsageColumns, 'team'>): RowItem {
  return {
    kind,
    account,
    request,
    ...(key !== null && { key }),
    ...(day !== null && { day }),
    at: Number(at),
    cost,
    ...readBody(kind, body),
    ...(actor !== null && { actor }),
  }
}

export function toLimits({
  account,
  key,
  revision,
  ...row
}: LimitColumns): Omit<LimitsItem, 'kind'> {
  const limits: KeyLimits = {
    disabled: row.disabled === 1n,
    ...(row.rpm > UNLIMITED && { rpm: Number(row.rpm) }),
    ...(row.concurrency > UNLIMITED && { concurrency: Number(row.concurrency) }),
    ...(row.expires_at !== null && { expiresAt: Number(row.expires_at) }),
    ...readList(row.list),
  }
  return { account, key, limits, revision: Number(revision) }
}

export const PER_USD = 1_000_000_000_000

/** Stored sums of an account, under the names of the book's `settled`. */
export function storedSums(
  sql: Pick<Sql, 'sumsOf' | 'spendOf' | 'counters'>,
  account: string,
): Map<string, Pico> {
  const sums = sql.sumsOf.get(account) as AccountSums | undefined
  const stored = new Map([
    ['balance', sums ? fromStoredSum(sums) : 0n],
    ['paid in', sums ? paidInOf(sums) : 0n],
  ])
  for (const row of sql.spendOf.iterate(account)) {
    const { key, window, ...amount } = row as unknown as SpendColumns
    stored.set(spendName(key, window), fromStoredSum(amount))
  }
  for (const { owner, id, window, settled } of countersOf(sql, account)) {
    stored.set(counterName(owner, id, window), settled)
  }
  return stored
}

/** What is counted for limits, and the last row before each was set. */
export function countersOf({ counters }: Pick<Sql, 'counters'>, account: string): StoredCounter[] {
  const rows = all<StoredSum & { owner: string; id: string; window: string }>(counters, account)
  const since = new Map(
    rows.flatMap(({ owner, id, window, usd }) =>
      window === SINCE ? [[`${owner}\n${id}`, Number(usd)] as const] : [],
    ),
  )
  return rows.flatMap(({ owner, id, window, ...amount }) => {
    const settled = fromStoredSum(amount)
    const from = since.get(`${owner}\n${id}`) ?? 0
    return window === SINCE ? [] : [{ owner, id, window, settled, since: from }]
  })
}

/** Adds the sum of a row that exists already: picodollars carry into dollars. @param prefix the prefix of the names of both columns */
function added(prefix = ''): string {
  const [usd, pico] = [`${prefix}usd`, `${prefix}pico`]
  const sum = `${pico} + excluded.${pico}`
  return `${usd} = ${usd} + excluded.${usd} + (${sum}) / ${PER_USD}, ${pico} = (${sum}) % ${PER_USD}`
}

const SUMS = {
  sumsOf: 'SELECT usd, pico, paid_in_usd, paid_in_pico FROM account WHERE id = ?',
  spendOf: 'SELECT key, window, usd, pico FROM spend WHERE account = ?',
  counters: 'SELECT owner, id, window, usd, pico FROM counter WHERE account = ?',
}

/** The statements of a {@link History}. */
export function prepareHistory(db: DatabaseSync) {
  return statementsOf(db, {
    ...SUMS,
    owners: OWNERS,
    base: 'SELECT base, n, chain FROM account WHERE id = ?',
    account: 'SELECT min(account) AS id FROM usage WHERE account >= ?',
    following: 'SELECT min(account) AS id FROM usage WHERE account > ?',
    since: 'SELECT * FROM usage WHERE account = ? AND seq > ? ORDER BY seq LIMIT ?',
    // There are two parts, because intermediate sums may exceed 64 bits.
    sums: `SELECT kind, key, team, day, sum(cost / 1000000000) AS billions, sum(cost % 1000000000) AS rest,
         count(*) AS count, max(seq) AS seq
       FROM (
         SELECT kind, key, team, day, cost, seq FROM usage
         WHERE account = ? AND seq > ? ORDER BY seq LIMIT ?
       ) GROUP BY kind, key, team, day`,
    totalsOf: 'SELECT key, team, day, usd, pico FROM total WHERE account = ?',
    countedRows: `SELECT seq, key, team, cost, body FROM usage
       WHERE account = ? AND seq > ? AND kind = 'usage' AND body LIKE '%"counted":"%'`,
    lastTotal: "SELECT ifnull(max(day), '') AS day FROM total WHERE account = ?",
  })
}

/** The statements of a store. Longer than other functions, because it is a list. */
export function prepare(db: DatabaseSync) {
  const statements = statementsOf(db, {
    mark: 'SAVEPOINT one',
    unmark: 'RELEASE one',
    undo: 'ROLLBACK TO one',

    insert: `INSERT INTO usage (seq, kind, request, account, key, cost, day, at, body, actor, team)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (request, kind, account) DO NOTHING`,
    newest: 'SELECT ifnull(max(seq), 0) AS seq FROM usage WHERE account = ?',
    booked: 'SELECT cost FROM usage WHERE request = ? AND kind = ? AND account = ?',
    addBalance: `INSERT INTO account (id, usd, pico, paid) VALUES (?, ?, ?, 0) ON CONFLICT (id)
       DO UPDATE SET ${added()}`,
    credit: `INSERT INTO account (id, usd, pico, paid, paid_in_usd, paid_in_pico) VALUES (?1, ?2, ?3, 1, ?2, ?3)
       ON CONFLICT (id) DO UPDATE SET ${added()}, paid = 1, ${added('paid_in_')}`,
    creditOf: `SELECT account.usd, account.pico, blocks, spend.usd AS spent_usd, spend.pico AS spent_pico
       FROM account LEFT JOIN spend ON account = id AND key = '${ACCOUNT}' AND window = 'lifetime'
       WHERE id = ?`,
    setBlocks: 'UPDATE account SET blocks = ?2 WHERE id = ?1',
    addSpend: `INSERT INTO spend (account, key, window, usd, pico) VALUES
         (?1, ?2, ?4, ?7, ?8), (?1, ?2, ?5, ?7, ?8), (?1, ?2, ?6, ?7, ?8),
         (?1, ?3, ?4, ?7, ?8), (?1, ?3, ?5, ?7, ?8), (?1, ?3, ?6, ?7, ?8)
       ON CONFLICT (account, key, window) DO UPDATE SET ${added()}`,
    addTeamSpend: `INSERT INTO spend (account, key, window, usd, pico) VALUES
         (?1, ?2, ?3, ?6, ?7), (?1, ?2, ?4, ?6, ?7), (?1, ?2, ?5, ?6, ?7)
       ON CONFLICT (account, key, window) DO UPDATE SET ${added()}`,
    addCounter: `INSERT INTO counter (account, owner, id, window, usd, pico) SELECT ?1, ?2, ?3, ?4, ?5, ?6
       WHERE (?2 = '${TIER}' OR EXISTS (
         SELECT 1 FROM counter WHERE account = ?1 AND owner = ?2 AND id = ?3 AND window = '${SINCE}'
       )) AND NOT EXISTS (
         SELECT 1 FROM counter WHERE account = ?1 AND owner = ?2 AND id = ?3 AND window > ?4
       ) ON CONFLICT (account, owner, id, window) DO UPDATE SET ${added()}`,
    dropEarlier: `DELETE FROM counter WHERE account = ? AND owner = ? AND id = ? AND window < ?
         AND window <> '${SINCE}'`,
    beginCounter:
      'INSERT OR REPLACE INTO counter (account, owner, id, window, usd, pico) VALUES (?, ?, ?, ?, ?, 0)',
    afterNewest: 'SELECT seq FROM usage WHERE account = ? ORDER BY seq DESC LIMIT 1 OFFSET ?',
    dropCounters: `DELETE FROM counter WHERE account = ?1 AND owner = ?2
         AND id NOT IN (SELECT value FROM json_each(?3))`,
    dropResets: // One that is forgotten stays as a reference, at no time.
      `UPDATE reset SET at = 0 WHERE account = ?1 AND owner = ?2
         AND id NOT IN (SELECT value FROM json_each(?3))`,
    resets: 'SELECT owner, id, window, usd, pico FROM reset WHERE account = ? AND at > 0',
    addReset: `INSERT INTO reset (account, reference, owner, id, window, usd, pico, at, reason)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (account, reference) DO NOTHING`,
    reset: 'SELECT owner, id, window, usd, pico FROM reset WHERE account = ? AND reference = ?',
    list: 'SELECT list, revision FROM limits WHERE account = ? AND key = ?',
    setLimits: `INSERT INTO limits (account, key, disabled, expires_at, rpm, concurrency, list, revision)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (account, key)
       DO UPDATE SET disabled = excluded.disabled, expires_at = excluded.expires_at,
         rpm = excluded.rpm, concurrency = excluded.concurrency,
         list = excluded.list, revision = excluded.revision
       WHERE excluded.revision >= revision`,

    rows: `SELECT seq, kind, request, key, at, cost, body, actor FROM usage
       WHERE account = ? AND seq < ? ORDER BY seq DESC LIMIT ?`,
    owners: OWNERS,
    isEmpty: `SELECT 1 WHERE NOT EXISTS (${OWNERS})`,
    orphans: `SELECT account, seq, kind, request, key, at, cost, body, actor FROM usage
       WHERE kind = 'orphan' AND seq < ?1 AND (?2 IS NULL OR account = ?2) AND NOT EXISTS (
         SELECT 1 FROM usage AS late
         WHERE late.request = usage.request AND late.kind = 'usage' AND late.account = usage.account
       )
       ORDER BY seq DESC LIMIT ?3`,
    ...SUMS,
    dropSpend: `DELETE FROM spend WHERE (account, key, window) IN (
         SELECT account, key, window FROM spend
         WHERE window < ?1 AND length(window) = 8 OR window < ?2 AND length(window) = 6 LIMIT ?3)`,
    base: 'SELECT base, n, chain FROM account WHERE id = ?',

    setPaid: `INSERT INTO account (id, usd, pico, paid) VALUES (?, 0, 0, 1)
       ON CONFLICT (id) DO UPDATE SET paid = 1 WHERE paid = 0`,
    row: 'SELECT * FROM usage WHERE request = ? AND kind = ? AND account = ?',
    total: 'SELECT * FROM total WHERE account = ? AND day = ? AND key = ? AND team = ?',
    anyTotal: 'SELECT 1 FROM total WHERE account = ? AND day = ? AND key = ?',
    spentOn: 'SELECT usd, pico FROM spend WHERE account = ? AND key = ? AND window = ?',
    revision: 'SELECT revision FROM limits WHERE account = ? AND key = ?',
    addTotal: `INSERT INTO total (account, day, key, team, requests, usd, pico)
       VALUES (?, ?, ?, ?, ?, ?, ?)`,
    // Usage rows of an account between two numbers become totals, and go with the orphans among them; bookings stay.
    moveBase: `INSERT INTO account (id, usd, pico, paid, base, n, chain) SELECT ?1, 0, 0, 0, ?3, ?4, ?5
       WHERE ?2 = 0 OR EXISTS (SELECT 1 FROM account WHERE id = ?1)
       ON CONFLICT (id) DO UPDATE SET base = ?3, n = ?4, chain = ?5 WHERE base = ?2`,
    addFolded: `INSERT INTO total (account, day, key, team, requests, usd, pico)
       SELECT account, day, key, ifnull(team, ''), count(*),
         sum(cost / ${PER_USD}) + sum(cost % ${PER_USD}) / ${PER_USD}, sum(cost % ${PER_USD}) % ${PER_USD}
       FROM usage WHERE account = ? AND seq > ? AND seq <= ? AND +kind = 'usage'
       GROUP BY account, day, key, ifnull(team, '') ON CONFLICT (account, day, key, team)
       DO UPDATE SET requests = requests + excluded.requests, ${added()}`,
    removeFolded: `DELETE FROM usage WHERE account = ? AND seq > ? AND seq <= ? AND +kind IN ('usage', 'orphan')`,
    noteFold:
      'UPDATE identity SET folded_to = max(folded_to, (SELECT ifnull(max(seq), 0) FROM usage))',

    addChange: `INSERT INTO audit (at, actor, actor_id, session, address, action, object, members)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
    changes: `SELECT seq, at, actor, actor_id, session, address, action, object, members FROM audit
       WHERE seq < ?1 AND (?2 IS NULL OR actor = ?2 OR actor_id = ?2) AND (?3 IS NULL OR action = ?3)
         AND (?4 IS NULL OR object = ?4) AND (?5 IS NULL OR at >= ?5) AND (?6 IS NULL OR at < ?6)
         AND (?7 IS NULL OR session = ?7)
       ORDER BY seq DESC LIMIT ?8`,

    putRecord: `INSERT INTO record (k, v, expires) VALUES (?, ?, ?)
       ON CONFLICT (k) DO UPDATE SET v = excluded.v, expires = excluded.expires`,
    expireRecords: 'DELETE FROM record WHERE expires <= ?',
    removeRecord: 'DELETE FROM record WHERE k = ?',
    record: 'SELECT v FROM record WHERE k = ? AND (expires IS NULL OR expires > ?)',
    recordKeys: 'SELECT k FROM record WHERE k >= ? AND k < ? AND (expires IS NULL OR expires > ?)',
  })
  return Object.assign(statements, { numbers: new RowNumbers(db) })
}
