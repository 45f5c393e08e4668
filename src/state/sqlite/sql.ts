/** The SQL statements of the store, and the shapes of its rows. */
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { MAX_AMOUNT, checkAmount, type Pico } from '../../money/money.ts'
import { checkAdjusted, windowOf } from '../ledger/book.ts'
import {
  ACCOUNT,
  type KeyLimits,
  type LedgerRow,
  type LimitsItem,
  type RowItem,
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

/** Usage rows before a day and a moment, a limited number at a time. */
const OLD_ROWS = `
  SELECT seq FROM usage WHERE kind = 'usage' AND day < ?1 AND at < ?2 ORDER BY day, seq LIMIT ?3`
/** Usage rows up to a sequence. The `+` keeps SQLite from looking through all usage rows for them. */
const FIRST_ROWS = `SELECT seq FROM usage WHERE +kind = 'usage' AND seq <= ?`

export type Sql = ReturnType<typeof prepare>

export interface UsageColumns {
  readonly account: string
  readonly kind: LedgerRow['kind']
  readonly request: string
  readonly key: string | null
  readonly cost: Pico
  readonly day: string | null
  readonly at: bigint
  readonly body: string | null
}

export interface TotalColumns {
  readonly key: string
  readonly day: string
  readonly requests: bigint
  readonly cost: Pico
}

export interface SpendColumns {
  readonly account: string
  readonly key: string
  readonly window: string
  readonly amount: Pico
}

export interface LimitColumns {
  readonly account: string
  readonly key: string
  readonly disabled: bigint
  readonly expires_at: bigint | null
  readonly rpm: bigint
  readonly concurrency: bigint
  readonly cap_amount: Pico | null
  readonly cap_scope: NonNullable<KeyLimits['cap']>['scope']
  readonly revision: bigint
}

export interface AuditColumns {
  readonly seq: bigint
  readonly at: bigint
  readonly actor: string
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

  taken(): void {
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
]

/** Adds a row. @returns false where one of its request, kind and account exists */
export function addRow({ insert, numbers }: Sql, ...row: NewRow): boolean {
  const { changes } = insert.run(numbers.next, ...row)
  if (Number(changes) === 0) return false
  numbers.taken()
  return true
}

/** Windows in the order of their places in `addSpend`. */
const WINDOWS = ['lifetime', 'day', 'month'] as const

/** Adds a cost to the sums of its account, key and day. @throws SQLite's error when a sum leaves its bounds */
export function charge(sql: Sql, account: string, key: string, day: string, cost: Pico): void {
  if (cost === 0n) return
  sql.addBalance.run(account, -cost)
  const windows = WINDOWS.map((scope) => windowOf(scope, day))
  sql.addSpend.run(account, key, ACCOUNT, ...windows, cost)
}

/** Costs of rows whose sums lack them: those of one account, key and day change their sums together. */
export class Costs {
  readonly #sql: Sql
  readonly #sums = new Map<string, { account: string; key: string; day: string; cost: Pico }>()

  constructor(sql: Sql) {
    this.#sql = sql
  }

  add(account: string, key: string, day: string, cost: Pico): void {
    const name = `${account}\n${key}\n${day}`
    const sum = this.#sums.get(name)
    if (sum) sum.cost += cost
    else this.#sums.set(name, { account, key, day, cost })
  }

  /** Adds the costs to the sums. @throws SQLite's error when a sum leaves its bounds */
  charge(): void {
    const sums = [...this.#sums.values()]
    this.clear()
    for (const { account, key, day, cost } of sums) charge(this.#sql, account, key, day, cost)
  }

  clear(): void {
    this.#sums.clear()
  }
}

/** Adds a top-up to the balance, which ends the free tier. @throws RangeError for a balance that would exceed the bound */
export function credit(sql: Sql, account: string, amount: Pico): void {
  const { balance } = sql.credit.get(account, amount) as { balance: Pico }
  checkAmount('the balance after this top-up', balance)
}

/** Adds a correction to the balance. @throws RangeError for a balance that it would move beyond the bound */
export function adjust(sql: Sql, account: string, amount: Pico): void {
  const { balance } = sql.adjust.get(account, amount) as { balance: Pico }
  checkAdjusted(balance, amount)
}

/** Stores limits, unless the stored revision is higher. */
export function setLimits(
  sql: Sql,
  account: string,
  key: string,
  { disabled, expiresAt, rpm, concurrency, cap }: KeyLimits,
  revision: number,
): void {
  sql.setLimits.run(
    account,
    key,
    Number(disabled),
    expiresAt ?? null,
    rpm ?? UNLIMITED,
    concurrency ?? UNLIMITED,
    cap?.amount ?? null,
    cap?.scope ?? null,
    revision,
  )
}

export function readBody(
  kind: LedgerRow['kind'],
  body: string | null,
): Pick<LedgerRow, 'usage' | 'note'> {
  if (body === null) return {}
  return kind === 'usage' ? { usage: JSON.parse(body) } : { note: body }
}

/** Writes what {@link readBody} reads. */
export function writeBody({ usage, note }: Pick<LedgerRow, 'usage' | 'note'>): string | null {
  return usage ? JSON.stringify(usage) : (note ?? null)
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
}: UsageColumns): RowItem {
  return {
    kind,
    account,
    request,
    ...(key !== null && { key }),
    ...(day !== null && { day }),
    at: Number(at),
    cost,
    ...readBody(kind, body),
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
    ...(row.cap_amount !== null && { cap: { amount: row.cap_amount, scope: row.cap_scope } }),
  }
  return { account, key, limits, revision: Number(revision) }
}

function foldStatements(db: DatabaseSync, rows: string) {
  return {
    add: db.prepare(
      `INSERT INTO total (account, day, key, requests, cost)
       SELECT account, day, key, count(*), sum(cost) FROM usage WHERE seq IN (${rows})
       GROUP BY account, day, key ON CONFLICT (account, day, key)
       DO UPDATE SET requests = requests + excluded.requests, cost = cost + excluded.cost`,
    ),
    remove: db.prepare(`DELETE FROM usage WHERE seq IN (${rows})`),
  }
}

/** The prepared statements of a store. Longer than other functions, because it is a list. */
export function prepare(db: DatabaseSync) {
  return {
    numbers: new RowNumbers(db),
    mark: db.prepare('SAVEPOINT one'),
    unmark: db.prepare('RELEASE one'),
    undo: db.prepare('ROLLBACK TO one'),

    insert: db.prepare(
      `INSERT INTO usage (seq, kind, request, account, key, cost, day, at, body)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (request, kind, account) DO NOTHING`,
    ),
    newest: db.prepare('SELECT ifnull(max(seq), 0) AS seq FROM usage WHERE account = ?'),
    booked: db.prepare('SELECT cost FROM usage WHERE request = ? AND kind = ? AND account = ?'),
    addBalance: db.prepare(
      `INSERT INTO account (id, balance, paid) VALUES (?, ?, 0) ON CONFLICT (id)
       DO UPDATE SET balance = balance + excluded.balance`,
    ),
    adjust: db.prepare(
      `INSERT INTO account (id, balance, paid) VALUES (?, ?, 0) ON CONFLICT (id)
       DO UPDATE SET balance = balance + excluded.balance
       RETURNING balance`,
    ),
    credit: db.prepare(
      `INSERT INTO account (id, balance, paid, paid_in) VALUES (?1, ?2, 1, ?2) ON CONFLICT (id)
       DO UPDATE SET balance = balance + excluded.balance, paid = 1,
         paid_in = min(paid_in + excluded.paid_in, ${MAX_AMOUNT})
       RETURNING balance`,
    ),
    addSpend: db.prepare(
      `INSERT INTO spend (account, key, window, amount) VALUES
         (?1, ?2, ?4, ?7), (?1, ?2, ?5, ?7), (?1, ?2, ?6, ?7),
         (?1, ?3, ?4, ?7), (?1, ?3, ?5, ?7), (?1, ?3, ?6, ?7)
       ON CONFLICT (account, key, window) DO UPDATE SET amount = amount + excluded.amount`,
    ),
    setLimits: db.prepare(
      `INSERT INTO limits VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (account, key)
       DO UPDATE SET disabled = excluded.disabled, expires_at = excluded.expires_at,
         rpm = excluded.rpm, concurrency = excluded.concurrency,
         cap_amount = excluded.cap_amount, cap_scope = excluded.cap_scope,
         revision = excluded.revision
       WHERE excluded.revision >= revision`,
    ),

    rows: db.prepare(
      `SELECT seq, kind, request, key, at, cost, body FROM usage
       WHERE account = ? AND seq < ? ORDER BY seq DESC LIMIT ?`,
    ),
    owners: db.prepare(OWNERS),
    orphans: db.prepare(
      `SELECT account, seq, kind, request, key, at, cost, body FROM usage
       WHERE kind = 'orphan' AND seq < ?1 AND (?2 IS NULL OR account = ?2)
       ORDER BY seq DESC LIMIT ?3`,
    ),
    // There are two parts, because intermediate sums may exceed 64 bits.
    sums: db.prepare(
      `SELECT kind, key, day, sum(cost / 1000000000) AS billions, sum(cost % 1000000000) AS rest,
         count(*) AS count, max(seq) AS seq
       FROM (
         SELECT kind, key, day, cost, seq FROM usage
         WHERE account = ? AND seq > ? ORDER BY seq LIMIT ?
       ) GROUP BY kind, key, day`,
    ),
    sumsOf: db.prepare('SELECT balance, paid_in FROM account WHERE id = ?'),
    spendOf: db.prepare('SELECT key, window, amount FROM spend WHERE account = ?'),
    totalsOf: db.prepare('SELECT key, day, cost FROM total WHERE account = ?'),

    setPaid: db.prepare(
      `INSERT INTO account (id, balance, paid) VALUES (?, 0, 1)
       ON CONFLICT (id) DO UPDATE SET paid = 1 WHERE paid = 0`,
    ),
    row: db.prepare('SELECT * FROM usage WHERE request = ? AND kind = ? AND account = ?'),
    total: db.prepare('SELECT * FROM total WHERE account = ? AND day = ? AND key = ?'),
    spentOn: db.prepare('SELECT amount FROM spend WHERE account = ? AND key = ? AND window = ?'),
    revision: db.prepare('SELECT revision FROM limits WHERE account = ? AND key = ?'),
    addTotal: db.prepare(
      'INSERT INTO total (account, day, key, requests, cost) VALUES (?, ?, ?, ?, ?)',
    ),
    foldOld: foldStatements(db, OLD_ROWS),
    foldFirst: foldStatements(db, FIRST_ROWS),
    noteFold: db.prepare(
      'UPDATE identity SET folded_to = max(folded_to, (SELECT ifnull(max(seq), 0) FROM usage))',
    ),

    addChange: db.prepare(
      'INSERT INTO audit (at, actor, address, action, object, members) VALUES (?, ?, ?, ?, ?, ?)',
    ),
    changes: db.prepare(
      `SELECT seq, at, actor, address, action, object, members FROM audit
       WHERE seq < ?1 AND (?2 IS NULL OR actor = ?2) AND (?3 IS NULL OR action = ?3)
         AND (?4 IS NULL OR object = ?4) AND (?5 IS NULL OR at >= ?5) AND (?6 IS NULL OR at < ?6)
       ORDER BY seq DESC LIMIT ?7`,
    ),

    putRecord: db.prepare(
      `INSERT INTO record (k, v, expires) VALUES (?, ?, ?)
       ON CONFLICT (k) DO UPDATE SET v = excluded.v, expires = excluded.expires`,
    ),
    expireRecords: db.prepare('DELETE FROM record WHERE expires <= ?'),
    removeRecord: db.prepare('DELETE FROM record WHERE k = ?'),
    record: db.prepare('SELECT v FROM record WHERE k = ? AND (expires IS NULL OR expires > ?)'),
    recordKeys: db.prepare(
      'SELECT k FROM record WHERE k >= ? AND k < ? AND (expires IS NULL OR expires > ?)',
    ),
  }
}
