/** The tables of an embedded ledger: what can be written to them, in batches, and what can be asked. Runs in the worker. */
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import type { Pico } from '../money.ts'
import { checkAmount, windowOf } from './book.ts'
import { Audit, type AuditReport } from './embedded-audit.ts'
import { codeOf } from './embedded-file.ts'
import type { KeyLimits, LedgerRow } from './ledger.ts'

/** Everything a start has to know. */
export interface Snapshot {
  readonly accounts: readonly {
    readonly id: string
    readonly balance: Pico
    readonly paid: boolean
  }[]
  readonly spend: readonly {
    readonly account: string
    readonly key: string
    readonly window: string
    readonly amount: Pico
  }[]
  readonly limits: readonly {
    readonly account: string
    readonly key: string
    readonly limits: KeyLimits
    readonly revision: number
  }[]
}

/** A settlement with the day that pays for it. */
export interface Charge {
  readonly request: string
  readonly account: string
  readonly key: string
  readonly day: string
  readonly cost: Pico
  /** ms since epoch */
  readonly at: number
  /** UsageRow as JSON. */
  readonly body: string
}

export interface Credit {
  readonly reference: string
  readonly account: string
  readonly amount: Pico
  /** ms since epoch */
  readonly at: number
  readonly note?: string | undefined
}

/** A row that is there; `fresh` if it was not before. Its `cost` is that of the first who asked. */
export interface Booked {
  readonly fresh: boolean
  readonly cost: Pico
}

/** A row of history with its `body` still as text. */
export type StoredRow = Omit<LedgerRow, 'usage' | 'note'> & { readonly body: string | null }

export interface StoredRecord {
  readonly key: string
  readonly value: string
  /** ms since epoch */
  readonly expires: number | undefined
}

export type WriteName = 'settle' | 'topUp' | 'orphan' | 'limits' | 'putRecords' | 'removeRecord'
export type ReadName = 'rows' | 'accounts' | 'audit' | 'record' | 'recordKeys'

/** A method of the store with its arguments, as it crosses the threads. */
export interface Job<Name extends WriteName | ReadName = WriteName | ReadName> {
  readonly name: Name
  readonly args: Parameters<Store[Name]>
}

/** What one write of a batch came to. A refused one has changed nothing, and the others do not mind. */
export type Outcome<Name extends WriteName = WriteName> =
  | { readonly value: ReturnType<Store[Name]> }
  /** Why: a value that no ledger holds. */
  | { readonly refused: string }

/** SQLite's primary result codes for values that do not fit (https://sqlite.org/rescode.html). */
const MISFITS: ReadonlySet<number> = new Set([18, 19, 20])
/** Above every key. */
const LAST_CHARACTER = '\u{10ffff}'

export class Store {
  readonly #db: DatabaseSync
  readonly #sql: ReturnType<typeof prepare>
  /** Of accounts whose rows are being added up. */
  readonly #audits = new Map<string, Audit>()

  constructor(db: DatabaseSync) {
    this.#db = db
    this.#sql = prepare(db)
  }

  /** @param from a day, `YYYYMMDD`: spend of windows that ended before it is left out */
  load(from: string): Snapshot {
    const { accounts, spend, limits } = this.#sql
    return {
      accounts: all<AccountColumns>(accounts).map((row) => ({ ...row, paid: row.paid === 1n })),
      spend: all<Snapshot['spend'][number]>(spend, from, from),
      limits: all<LimitColumns>(limits).map(toLimits),
    }
  }

  /**
   * Writes all of a batch, in its order, and has it on disk when it returns.
   * @throws SQLite's error when the database cannot be written; nothing of the batch is then there
   */
  commit(batch: readonly Job<WriteName>[]): Outcome[] {
    this.#db.exec('BEGIN IMMEDIATE')
    try {
      const outcomes = batch.map((job) => this.#attempt(job))
      this.#db.exec('COMMIT')
      return outcomes
    } catch (error) {
      // Some errors have done so already.
      if (this.#db.isTransaction) this.#db.exec('ROLLBACK')
      throw error
    }
  }

  settle(charge: Charge): Booked {
    const { request, account, key, day, cost, at, body } = charge
    const booked = this.#book('usage', request, account, key, cost, day, at, body)
    if (!booked.fresh || cost === 0n) return booked
    this.#sql.addBalance.run(account, -cost, 0)
    for (const scope of ['lifetime', 'day', 'month'] as const) {
      this.#sql.addSpend.run(account, key, windowOf(scope, day), cost)
    }
    return booked
  }

  /** @throws RangeError for a balance that would pass the bound */
  topUp({ reference, account, amount, at, note }: Credit): Booked {
    const row = [reference, account, null, -amount, null, at, note ?? null] as const
    const booked = this.#book('top-up', ...row)
    if (!booked.fresh) return booked
    const { balance } = this.#sql.addBalance.get(account, amount, 1) as { balance: Pico }
    checkAmount('the balance after this top-up', balance)
    return booked
  }

  orphan(request: string, account: string, key: string, at: number): void {
    this.#book('orphan', request, account, key, 0n, null, at, null)
  }

  /** Unless those it has are newer. */
  limits(account: string, key: string, limits: KeyLimits, revision: number): void {
    const { disabled, expiresAt = null, rpm, concurrency, cap } = limits
    const [amount, scope] = cap ? [cap.amount, cap.scope] : [null, null]
    this.#sql.setLimits.run(
      account,
      key,
      Number(disabled),
      expiresAt,
      rpm,
      concurrency,
      amount,
      scope,
      revision,
    )
  }

  /** @param now ms since epoch */
  putRecords(records: readonly StoredRecord[], now: number): void {
    for (const { key, value, expires } of records) {
      this.#sql.putRecord.run(key, value, expires ?? null)
      if (expires !== undefined) this.#sql.expireRecords.run(now)
    }
  }

  removeRecord(key: string): void {
    this.#sql.removeRecord.run(key)
  }

  /** Newest first. @param before a `seq` */
  rows(account: string, before: number, limit: number): StoredRow[] {
    return all<RowColumns>(this.#sql.rows, account, before, limit).map(({ key, ...row }) => ({
      ...row,
      ...(key !== null && { key }),
      seq: Number(row.seq),
      at: Number(row.at),
    }))
  }

  /** Every account that has a balance or a row. */
  accounts(): string[] {
    return all<{ id: string }>(this.#sql.owners).map(({ id }) => id)
  }

  /**
   * Adds up some more of an account's rows, and compares when that was the last of them. A long history thus holds no
   * batch up for long.
   * @param from a day, `YYYYMMDD`: the report's `sums` are without the windows that ended before it
   * @returns undefined until it is asked often enough
   */
  audit(account: string, from: string): AuditReport | undefined {
    const audit = this.#audits.get(account) ?? new Audit(account, this.#sql)
    this.#audits.set(account, audit)
    if (!audit.advance()) return undefined
    this.#audits.delete(account)
    return audit.report(from)
  }

  /** @param now ms since epoch */
  record(key: string, now: number): string | undefined {
    return all<{ v: string }>(this.#sql.record, key, now)[0]?.v
  }

  /** Keys that begin like this. @param now ms since epoch */
  recordKeys(prefix: string, now: number): string[] {
    const range = [prefix, prefix + LAST_CHARACTER] as const
    return all<{ k: string }>(this.#sql.recordKeys, ...range, now).map(({ k }) => k)
  }

  #attempt({ name, args }: Job<WriteName>): Outcome {
    this.#sql.mark.run()
    try {
      const value = Reflect.apply(this[name], this, args)
      this.#sql.unmark.run()
      return { value }
    } catch (error) {
      if (!(error instanceof RangeError) && !MISFITS.has(codeOf(error))) throw error
      this.#sql.undo.run()
      this.#sql.unmark.run()
      return { refused: (error as Error).message }
    }
  }

  #book(
    kind: LedgerRow['kind'],
    request: string,
    account: string,
    key: string | null,
    cost: Pico,
    day: string | null,
    at: number,
    body: string | null,
  ): Booked {
    const { insert, booked } = this.#sql
    const { changes } = insert.run(kind, request, account, key, cost, day, at, body)
    if (Number(changes) === 1) return { fresh: true, cost }
    const row = booked.get(request, kind, account) as { cost: Pico }
    return { fresh: false, cost: row.cost }
  }
}

/** Runs a query whose columns are those of `Row`. */
export function all<Row>(query: StatementSync, ...args: (string | number)[]): Row[] {
  return query.all(...args) as Row[]
}

interface AccountColumns {
  readonly id: string
  readonly balance: Pico
  readonly paid: bigint
}

interface LimitColumns {
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

interface RowColumns {
  readonly seq: bigint
  readonly kind: LedgerRow['kind']
  readonly request: string
  readonly key: string | null
  readonly at: bigint
  readonly cost: Pico
  readonly body: string | null
}

function toLimits({ account, key, revision, ...row }: LimitColumns): Snapshot['limits'][number] {
  const limits: KeyLimits = {
    disabled: row.disabled === 1n,
    rpm: Number(row.rpm),
    concurrency: Number(row.concurrency),
    ...(row.expires_at !== null && { expiresAt: Number(row.expires_at) }),
    ...(row.cap_amount !== null && { cap: { amount: row.cap_amount, scope: row.cap_scope } }),
  }
  return { account, key, limits, revision: Number(revision) }
}

function prepare(db: DatabaseSync) {
  return {
    mark: db.prepare('SAVEPOINT one'),
    unmark: db.prepare('RELEASE one'),
    undo: db.prepare('ROLLBACK TO one'),

    accounts: db.prepare('SELECT id, balance, paid FROM account'),
    // Lifetime sorts after every day; a month that a day of it follows sorts before that.
    spend: db.prepare(
      `SELECT account, key, window, amount FROM spend
       WHERE window >= ? OR window = substr(?, 1, 6)`,
    ),
    limits: db.prepare('SELECT * FROM limits'),

    insert: db.prepare(
      `INSERT INTO usage (kind, request, account, key, cost, day, at, body)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (request, kind, account) DO NOTHING`,
    ),
    booked: db.prepare('SELECT cost FROM usage WHERE request = ? AND kind = ? AND account = ?'),
    addBalance: db.prepare(
      `INSERT INTO account (id, balance, paid) VALUES (?, ?, ?) ON CONFLICT (id)
       DO UPDATE SET balance = balance + excluded.balance, paid = max(paid, excluded.paid)
       RETURNING balance`,
    ),
    addSpend: db.prepare(
      `INSERT INTO spend (account, key, window, amount) VALUES (?, ?, ?, ?)
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
    // From one account to the next in the index, instead of over all its rows.
    owners: db.prepare(
      `WITH RECURSIVE owner (id) AS (
         SELECT min(account) FROM usage
         UNION ALL
         SELECT (SELECT min(account) FROM usage WHERE account > id) FROM owner WHERE id IS NOT NULL
       )
       SELECT id FROM owner WHERE id IS NOT NULL UNION SELECT id FROM account`,
    ),
    // Halves, because the whole may pass 64 bits on its way to a sum that fits them.
    sums: db.prepare(
      `SELECT key, day, sum(cost / 1000000000) AS billions, sum(cost % 1000000000) AS rest,
         count(*) AS count, max(seq) AS seq
       FROM (
         SELECT key, day, cost, seq FROM usage WHERE account = ? AND seq > ? ORDER BY seq LIMIT ?
       ) GROUP BY key, day`,
    ),
    balance: db.prepare('SELECT balance FROM account WHERE id = ?'),
    spendOf: db.prepare('SELECT key, window, amount FROM spend WHERE account = ?'),

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
