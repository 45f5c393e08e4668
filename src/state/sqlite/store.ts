/** Runs batches of writes and reads on the tables of a ledger: in the worker thread, or for a ledger in memory in the main one. */
import type { DatabaseSync } from 'node:sqlite'
import type { Pico } from '../../money/money.ts'
import { Audit, type AuditReport } from './audit.ts'
import { codeOf } from './file.ts'
import { take } from './import.ts'
import {
  all,
  charge,
  credit,
  prepare,
  setLimits,
  toLimits,
  type LimitColumns,
  type Sql,
} from './sql.ts'
import type { KeyLimits, LedgerItem, LedgerRow, LimitsItem } from '../ledger/ledger.ts'

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
  readonly limits: readonly Omit<LimitsItem, 'kind'>[]
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

/** What became of items, one by one; `refused` says why the next one was not taken. */
export interface ImportedItems {
  /** Whether each was not there before. */
  readonly added: readonly boolean[]
  readonly refused?: string
}

export interface StoredRecord {
  readonly key: string
  readonly value: string
  /** ms since epoch */
  readonly expires: number | undefined
}

export type WriteName =
  | 'settle'
  | 'topUp'
  | 'orphan'
  | 'limits'
  | 'putRecords'
  | 'removeRecord'
  | 'import'
  | 'fold'
  | 'trim'
export type ReadName =
  | 'rows'
  | 'orphans'
  | 'accounts'
  | 'audit'
  | 'record'
  | 'recordKeys'
  | 'optimize'

/** A method of the store with its arguments, as it crosses the threads. */
export interface StoreCommand<Name extends WriteName | ReadName = WriteName | ReadName> {
  readonly name: Name
  readonly args: Parameters<Store[Name]>
}

/** What one write of a batch came to. A refused one has changed nothing, and the others do not mind. */
export type CommandResult<Name extends WriteName = WriteName> =
  | { readonly value: ReturnType<Store[Name]> }
  /** Why: a value that no ledger holds. */
  | { readonly refused: string }

/** All writes in one transaction, then the reads, which see them. */
export interface WorkerBatch {
  readonly writes: readonly StoreCommand<WriteName>[]
  readonly reads: readonly StoreCommand<ReadName>[]
}

export interface WorkerBatchResult {
  /** One for each write, or why none of them was written. */
  readonly outcomes: readonly CommandResult[] | { readonly failure: string }
  readonly answers: readonly ({ readonly value: unknown } | { readonly error: string })[]
}

/** SQLite's primary result codes for values that do not fit (https://sqlite.org/rescode.html). */
const MISFITS: ReadonlySet<number> = new Set([18, 19, 20])
/** Above every key. */
const LAST_CHARACTER = '\u{10ffff}'

export class Store {
  readonly #db: DatabaseSync
  readonly #sql: Sql
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

  /** Never throws: a failure is part of the result. */
  run({ writes, reads }: WorkerBatch): WorkerBatchResult {
    return { outcomes: this.#write(writes), answers: reads.map((command) => this.#read(command)) }
  }

  /**
   * Writes all of a batch, in its order, and has it on disk when it returns.
   * @throws SQLite's error when the database cannot be written; nothing of the batch is then there
   */
  commit(batch: readonly StoreCommand<WriteName>[]): CommandResult[] {
    this.#db.exec('BEGIN IMMEDIATE')
    try {
      const outcomes = batch.map(({ name, args }) =>
        this.#attempt(() => Reflect.apply(this[name], this, args)),
      )
      this.#db.exec('COMMIT')
      return outcomes
    } catch (error) {
      // Some errors have done so already.
      if (this.#db.isTransaction) this.#db.exec('ROLLBACK')
      throw error
    }
  }

  settle({ request, account, key, day, cost, at, body }: Charge): Booked {
    const booked = this.#book('usage', request, account, key, cost, day, at, body)
    if (booked.fresh) charge(this.#sql, account, key, day, cost)
    return booked
  }

  /** @throws RangeError for a balance that would pass the bound */
  topUp({ reference, account, amount, at, note }: Credit): Booked {
    const row = [reference, account, null, -amount, null, at, note ?? null] as const
    const booked = this.#book('top-up', ...row)
    if (booked.fresh) credit(this.#sql, account, amount)
    return booked
  }

  orphan(request: string, account: string, key: string, at: number): void {
    this.#book('orphan', request, account, key, 0n, null, at, null)
  }

  /** Unless those it has are newer. */
  limits(account: string, key: string, limits: KeyLimits, revision: number): void {
    setLimits(this.#sql, account, key, limits, revision)
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

  /** As far as they go: up to the first that contradicts what is there. */
  import(items: readonly LedgerItem[]): ImportedItems {
    const added: boolean[] = []
    for (const item of items) {
      const outcome = this.#attempt(() => take(this.#sql, item))
      if ('refused' in outcome) return { added, refused: outcome.refused }
      added.push(outcome.value)
    }
    return { added }
  }

  /**
   * Folds up to so many rows of days before one, and of calls that came in before a moment, ms since epoch.
   * @returns how many it were
   */
  fold(day: string, at: number, limit: number): number {
    return this.#fold(this.#sql.foldOld, day, at, limit)
  }

  /**
   * Folds all usage rows but the newest, whatever their age: a ledger in memory must not grow without a bound.
   * @param rows how many to keep, top-ups included
   */
  trim(rows: number): void {
    const { seq } = this.#sql.lastSeq.get() as { seq: bigint | null }
    if (seq !== null && seq > rows) this.#fold(this.#sql.foldFirst, Number(seq) - rows)
  }

  /** Lets the database look after its statistics. Outside of a transaction, as all that only reads. */
  optimize(): void {
    this.#db.exec('PRAGMA optimize')
  }

  /** Newest first. @param before a `seq` */
  rows(account: string, before: number, limit: number): StoredRow[] {
    return all<RowColumns>(this.#sql.rows, account, before, limit).map(toStoredRow)
  }

  /** Newest first, of one account or all. @param before a `seq` */
  orphans(account: string | null, before: number, limit: number): (StoredRow & Owned)[] {
    return all<RowColumns & Owned>(this.#sql.orphans, before, account, limit).map(toStoredRow)
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

  #write(writes: WorkerBatch['writes']): WorkerBatchResult['outcomes'] {
    if (writes.length === 0) return []
    try {
      return this.commit(writes)
    } catch (error) {
      return { failure: (error as Error).message }
    }
  }

  #read({ name, args }: StoreCommand<ReadName>): WorkerBatchResult['answers'][number] {
    try {
      return { value: Reflect.apply(this[name], this, args) }
    } catch (error) {
      return { error: (error as Error).message }
    }
  }

  #fold({ add, remove }: Sql['foldOld'], ...rows: (string | number)[]): number {
    // Running audits have added these rows up as rows; they begin again.
    this.#audits.clear()
    add.run(...rows)
    return Number(remove.run(...rows).changes)
  }

  #attempt<Value>(write: () => Value): { readonly value: Value } | { readonly refused: string } {
    this.#sql.mark.run()
    try {
      const value = write()
      this.#sql.unmark.run()
      return { value }
    } catch (error) {
      // What is no error of the database's is the value's, and would be no other the next time.
      const code = codeOf(error)
      if (code !== 0 && !MISFITS.has(code)) throw error
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

interface AccountColumns {
  readonly id: string
  readonly balance: Pico
  readonly paid: bigint
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

interface Owned {
  readonly account: string
}

function toStoredRow<Row extends RowColumns>({ key, ...row }: Row) {
  return {
    ...row,
    ...(key !== null && { key }),
    seq: Number(row.seq),
    at: Number(row.at),
  }
}
