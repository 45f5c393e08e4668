/** Reads the rows and sums of a ledger through a read-only connection: for the index of usage, to verify, to fold. */
import { statSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { fromStoredSum, type Pico, type StoredSum } from '../../money/money.ts'
import { addCost, compareSums, counterName, CounterSums, withoutDropped } from '../ledger/sums.ts'
import { beginChain, chained } from '../ledger/chain.ts'
import {
  foldBounds,
  isBooking,
  isFoldable,
  linesByMonth,
  type NumberedRow,
} from '../ledger/items.ts'
import { readBody } from '../ledger/bookings.ts'
import type {
  ChainPoint,
  Discrepancy,
  ChainBase,
  LedgerRow,
  RequestId,
  RowItem,
  FoldedTotal,
  LedgerHead,
  LedgerReader,
  ReadRow,
} from '../ledger/ledger.ts'
import {
  all,
  OWNERS,
  prepareHistory,
  countersOf,
  storedSums,
  toRowItem,
  type TotalColumns,
  type UsageColumns,
} from './sql.ts'

const BUSY_TIMEOUT_MS = 2000

/**
 * Opens the file of a ledger that is in use.
 * @param inode of the file that the ledger has open. @throws Error when another file is in its place
 */
export function openReader(file: string, inode: number): LedgerReader {
  const db = openBeside(file, inode)
  if (!db) throw new Error(`${file} was replaced`)
  return new SqliteReader(db, () => db.close())
}

/**
 * Opens the file that a ledger has open. A first statement beside the log of another file would have SQLite empty that log's index,
 * and with it what the ledger wrote last, so the file is looked at again when it is open.
 * @returns undefined where another file is in its place
 */
export function openBeside(file: string, inode: number): DatabaseSync | undefined {
  if (statSync(file).ino !== inode) return undefined
  const db = new DatabaseSync(file, { readOnly: true, readBigInts: true, timeout: BUSY_TIMEOUT_MS })
  if (statSync(file).ino === inode) return db
  db.close()
  return undefined
}

export class SqliteReader implements LedgerReader {
  readonly shared = false
  readonly #db: DatabaseSync
  readonly #close: () => void
  readonly #sql: ReturnType<typeof prepare>

  constructor(db: DatabaseSync, close: () => void = () => {}) {
    this.#db = db
    this.#close = close
    this.#sql = prepare(db)
  }

  async id(): Promise<string> {
    return String(this.#sql.identity.get()!.id)
  }

  async heads(accounts?: readonly string[]): Promise<ReadonlyMap<string, LedgerHead>> {
    return this.#atOnce(() => {
      const ids = accounts ?? all<{ id: string }>(this.#sql.owners).map(({ id }) => id)
      return new Map(ids.map((id) => [id, this.#head(id)]))
    })
  }

  async rows(account: string, from: number, limit: number): Promise<readonly ReadRow[]> {
    return all<RowColumns>(this.#sql.rows, account, from, limit).map(toRow)
  }

  async charge(account: string, request: RequestId): Promise<ReadRow | undefined> {
    return all<RowColumns>(this.#sql.charge, request, account).map(toRow)[0]
  }

  async totals(account: string): Promise<readonly FoldedTotal[]> {
    return all<TotalColumns>(this.#sql.totals, account).map(
      ({ key, team, day, requests, ...cost }) => ({
        key,
        ...(team && { team }),
        day,
        rows: Number(requests),
        cost: fromStoredSum(cost),
      }),
    )
  }

  async base(account: string): Promise<ChainBase> {
    return baseOf(account, this.#sql.base.get(account))
  }

  async close(): Promise<void> {
    this.#close()
  }

  #head(account: string): LedgerHead {
    const { seq } = this.#sql.newest.get(account) as { seq: bigint | null }
    const balance = this.#sql.balance.get(account) as StoredSum | undefined
    const spent = all<StoredSum & { key: string }>(this.#sql.lifetime, account)
    const lifetime = new Map(spent.map(({ key, ...amount }) => [key, fromStoredSum(amount)]))
    return { seq: Number(seq ?? 0), balance: balance ? fromStoredSum(balance) : 0n, lifetime }
  }

  #atOnce<Result>(read: () => Result): Result {
    return atOnce(this.#db, read)
  }
}

/** Runs reads as of one moment. */
function atOnce<Result>(db: DatabaseSync, read: () => Result): Result {
  db.exec('BEGIN')
  try {
    return read()
  } finally {
    db.exec('ROLLBACK')
  }
}

/** @param row of the account, if it has one */
function baseOf(account: string, row: unknown): ChainBase {
  const { base = 0n, n = 0n, chain } = (row ?? {}) as { base?: bigint; n?: bigint; chain?: string }
  return { seq: Number(base), n: Number(n), chain: chain ?? beginChain(account).chain }
}

type RowColumns = Omit<UsageColumns, 'account' | 'team'> & { readonly seq: bigint }

function toRow({ seq, kind, request, key, day, at, cost, body, actor }: RowColumns): ReadRow {
  return {
    seq: Number(seq),
    kind,
    request,
    key: key ?? undefined,
    day: day ?? undefined,
    at: Number(at),
    cost,
    ...readBody(kind, body),
    ...(actor !== null && { actor }),
  }
}

const ROW = 'SELECT seq, kind, request, key, day, at, cost, body, actor FROM usage'

function prepare(db: DatabaseSync) {
  return {
    base: db.prepare('SELECT base, n, chain FROM account WHERE id = ?'),
    identity: db.prepare('SELECT id FROM identity'),
    owners: db.prepare(OWNERS),
    newest: db.prepare('SELECT max(seq) AS seq FROM usage WHERE account = ?'),
    balance: db.prepare('SELECT usd, pico FROM account WHERE id = ?'),
    lifetime: db.prepare(`SELECT key, usd, pico FROM spend
       WHERE account = ? AND window = 'lifetime' AND key NOT LIKE '@%'`),
    rows: db.prepare(`${ROW} WHERE account = ? AND seq >= ? ORDER BY seq LIMIT ?`),
    charge: db.prepare(`${ROW} WHERE request = ? AND kind = 'usage' AND account = ?`),
    totals: db.prepare('SELECT key, team, day, requests, usd, pico FROM total WHERE account = ?'),
  }
}

// Reads whole histories, in steps of a few milliseconds: adds rows up, and finds those that can be folded.

/** The first rows of an account, which are folded together. */
export interface FoldStep extends ChainPoint {
  readonly account: string
  /** `seq` of the base that it moves, and of the last row. */
  readonly from: number
  readonly to: number
}

export interface Foldable {
  readonly steps: readonly FoldStep[]
  /** Their rows as lines, by month. */
  readonly months: ReadonlyMap<string, readonly string[]>
  /** The account with which to go on, once these are folded. */
  readonly next: string | undefined
}

/** Rows of one step: added up within a few milliseconds; folded in one transaction, for which settlements wait as long. */
const SUMMED_ROWS = 2000
const FOLDED_ROWS = 100
/** Accounts that are looked at in one step. */
const FOLDED_ACCOUNTS = 500
const BILLION = 1_000_000_000n

export class History {
  readonly #db: DatabaseSync
  readonly #sql: ReturnType<typeof prepareHistory>

  constructor(db: DatabaseSync) {
    this.#db = db
    this.#sql = prepareHistory(db)
  }

  accounts(): string[] {
    return all<{ id: string }>(this.#sql.owners).map(({ id }) => id)
  }

  /**
   * Adds up the rows of an account.
   * @param kept the first windows of spend that are compared, see `firstKept`. @param pause called between two steps
   * @returns stored sums that differ from those of the rows
   */
  async audit(
    account: string,
    kept: readonly [day: string, month: string],
    pause: () => Promise<void>,
  ): Promise<readonly Discrepancy[]> {
    for (;;) {
      const { seq: base } = this.#base(account)
      const sums = new Map<string, Pico>()
      let after = 0n
      let compared: readonly Discrepancy[] | 'folded' | undefined
      while (!compared) {
        await pause()
        compared = atOnce(this.#db, () => {
          // Rows that were added up as rows are in totals now.
          if (this.#base(account).seq !== base) return 'folded'
          const last = this.#addUp(account, after, sums)
          if (last !== undefined) after = last
          return last === undefined ? this.#compare(account, sums, kept) : undefined
        })
      }
      if (compared !== 'folded') return compared
    }
  }

  /** @param from the first account to look at. @param before with `now` in ms since epoch, see {@link foldBounds} */
  foldable(from: string, before: number, now: number): Foldable {
    const bounds = foldBounds(new Date(before), now)
    return this.first(from, ({ kind, at, day }) =>
      isFoldable(bounds, { kind, at: Number(at) }, day),
    )
  }

  /** @param from the first account to look at. @param isOld whether a row can be folded, if all before it can */
  first(from: string, isOld: (row: UsageColumns & { readonly seq: bigint }) => boolean): Foldable {
    const steps: FoldStep[] = []
    const items: NumberedRow[] = []
    let seenRows = 0
    let account = this.#next(this.#sql.account, from)
    for (let seen = 0; account !== undefined && seen < FOLDED_ACCOUNTS; seen++) {
      const limit = FOLDED_ROWS - seenRows
      if (limit === 0) break
      const { seq: base, ...begin } = this.#base(account)
      let [to, point, read]: [number, ChainPoint, number] = [base, begin, 0]
      // Bookings go along with the calls after them.
      let waiting: RowItem[] = []
      const rows = this.#sql.since.iterate(account, base, limit)
      for (const row of rows as Iterable<unknown> as Iterable<UsageColumns & { seq: bigint }>) {
        if (!isOld(row)) break
        const item = toRowItem(row)
        waiting.push(item)
        read++
        if (isBooking(item) && read < limit) continue
        for (const one of waiting) {
          point = chained(point, one)
          items.push({ row: one, n: point.n })
        }
        waiting = []
        to = Number(row.seq)
      }
      if (to !== base) steps.push({ account, from: base, to, ...point })
      seenRows += read
      if (seenRows < FOLDED_ROWS) account = this.#next(this.#sql.following, account)
    }
    return { steps, months: linesByMonth(items), next: account }
  }

  /** Adds up the rows after a number. @returns the last number; undefined where these were the last rows */
  #addUp(account: string, after: bigint, sums: Map<string, Pico>): bigint | undefined {
    const groups = this.#sql.sums.all(account, after, SUMMED_ROWS) as unknown as Group[]
    let [rows, last] = [0n, after]
    for (const { kind, key, team, day, billions, rest, count, seq } of groups) {
      rows += count
      if (seq > last) last = seq
      addCost(sums, { kind, key, team, day, cost: billions * BILLION + rest })
    }
    return rows < SUMMED_ROWS ? undefined : last
  }

  #compare(
    account: string,
    sums: Map<string, Pico>,
    kept: readonly [day: string, month: string],
  ): readonly Discrepancy[] {
    for (const row of this.#sql.totalsOf.iterate(account)) {
      const { key, team, day, ...cost } = row as unknown as TotalColumns
      addCost(sums, { kind: 'usage', key, team, day, cost: fromStoredSum(cost) })
    }
    const stored = storedSums(this.#sql, account)
    this.#addCounters(account, stored, sums)
    // Some sums of the rows have no stored one.
    for (const what of sums.keys()) if (!stored.has(what)) stored.set(what, 0n)
    return compareSums(account, withoutDropped(stored, kept), sums)
  }

  /** Adds what rows say of counters, and leaves out those of which rows may be folded. */
  #addCounters(account: string, stored: Map<string, Pico>, sums: Map<string, Pico>): void {
    const counters = countersOf(this.#sql, account)
    if (counters.length === 0) return
    const { day } = this.#sql.lastTotal.get(account) as { day: string }
    const rows = new CounterSums(counters, day)
    for (const row of this.#sql.countedRows.iterate(account)) {
      const { seq, key, team, cost, body } = row as unknown as UsageColumns & { seq: bigint }
      rows.add({ seq: Number(seq), key: key!, team, cost, usage: JSON.parse(body!) })
    }
    for (const { owner, id, window } of counters) {
      const name = counterName(owner, id, window)
      const sum = rows.sumOf(name)
      if (sum === undefined) stored.delete(name)
      else sums.set(name, sum)
    }
  }

  #base(account: string): ChainBase {
    return baseOf(account, this.#sql.base.get(account))
  }

  #next(select: ReturnType<typeof prepareHistory>['account'], account: string): string | undefined {
    return (select.get(account) as { id: string | null }).id ?? undefined
  }
}

interface Group {
  readonly kind: LedgerRow['kind']
  readonly key: string | null
  readonly team: string | null
  readonly day: string | null
  readonly billions: bigint
  readonly rest: bigint
  readonly count: bigint
  readonly seq: bigint
}
