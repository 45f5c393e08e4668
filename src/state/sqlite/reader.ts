/** Reads the rows and sums of a ledger through a read-only connection: for the index of usage, to verify, to fold. */
import { statSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { type Pico, type StoredSum, fromStoredSum } from '../../money/money.ts'
import { readBody } from '../ledger/bookings.ts'
import { beginChain, chained } from '../ledger/chain.ts'
import {
  type NumberedRow,
  foldBounds,
  inOrder,
  isBooking,
  isFoldable,
  linesByMonth,
} from '../ledger/items.ts'
import type {
  ChainBase,
  ChainPoint,
  CounterItem,
  FoldedTotal,
  LedgerHead,
  LedgerItem,
  LedgerReader,
  LedgerRow,
  ReadRow,
  RequestId,
  RowItem,
  TotalItem,
} from '../ledger/ledger.ts'
import { TIER } from '../ledger/ledger.ts'
import {
  CounterSums,
  addCost,
  compareSums,
  counterName,
  verification,
  withoutDropped,
  type Verification,
  type Verified,
} from '../ledger/sums.ts'
import { CORRUPT } from './file.ts'
import {
  type LimitColumns,
  OWNERS,
  PER_USD,
  type TotalColumns,
  type UsageColumns,
  all,
  countersOf,
  prepareHistory,
  statementsOf,
  storedSums,
  toLimits,
  toRowItem,
} from './sql.ts'

const BUSY_TIMEOUT_MS = 2000

/**
 * Opens the file of a ledger that is in use.
 * @param inode the inode of the file that the ledger has open. @throws Error when another file is in its place
 */
export function openReader(file: string, inode: number): LedgerReader {
  const db = openBeside(file, inode)
  if (!db) throw new Error(`${file} was replaced`)
  return new SqliteReader(db, () => db.close())
}

/**
 * Opens the file that a ledger has open. A first statement beside the log of another file would have SQLite empty that log's index,
 * and with it what the ledger wrote last, so the file is looked at again when it is open. Beside an empty file it would remove the log.
 * @returns undefined where another file is in its place. @throws an error of a damaged database where it was emptied
 */
export function openBeside(file: string, inode: number): DatabaseSync | undefined {
  const { ino, size } = statSync(file)
  if (ino !== inode) return undefined
  if (size === 0) throw Object.assign(new Error(`${file} was emptied`), { errcode: CORRUPT })
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

/** @param row the row of the account, if it has one */
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
  return statementsOf(db, {
    base: 'SELECT base, n, chain FROM account WHERE id = ?',
    identity: 'SELECT id FROM identity',
    owners: OWNERS,
    newest: 'SELECT max(seq) AS seq FROM usage WHERE account = ?',
    balance: 'SELECT usd, pico FROM account WHERE id = ?',
    lifetime: `SELECT key, usd, pico FROM spend
       WHERE account = ? AND window = 'lifetime' AND key NOT LIKE '@%'`,
    rows: `${ROW} WHERE account = ? AND seq >= ? ORDER BY seq LIMIT ?`,
    charge: `${ROW} WHERE request = ? AND kind = 'usage' AND account = ?`,
    totals: 'SELECT key, team, day, requests, usd, pico FROM total WHERE account = ?',
  })
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

  /** The number of all rows. */
  rows(): number {
    return Number(this.#db.prepare('SELECT count(*) AS rows FROM usage').get()!.rows)
  }

  /**
   * Adds up the rows of an account.
   * @param kept the first windows of spend that are compared, see `firstKept`. @param pause called between two steps
   * @param before what is known of the rows
   * @returns stored sums that differ from those of the rows
   */
  async audit(
    account: string,
    kept: readonly [day: string, month: string],
    pause: () => Promise<void>,
    before?: Verified,
  ): Promise<Verification> {
    for (;;) {
      const { seq: base } = this.#base(account)
      // Where rows after those that are known were folded, their totals cannot be told from others.
      const basis = before && base <= before.seq ? before : undefined
      const rows = {
        basis,
        sums: new Map(basis?.sums),
        seq: BigInt(basis?.seq ?? 0),
        count: BigInt(basis?.rows ?? 0),
      }
      let compared: Verification | 'folded' | undefined
      while (!compared) {
        await pause()
        compared = atOnce(this.#db, () => {
          // Rows that were added up as rows are in totals now.
          if (this.#base(account).seq !== base) return 'folded'
          return this.#addUp(account, rows) ? undefined : this.#compare(account, rows, kept)
        })
      }
      if (compared !== 'folded') return compared
    }
  }

  /** @param from the first account to look at. @param before ms since epoch, as `now`, see {@link foldBounds} */
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

  /** Adds up the next rows. @returns whether there may be more */
  #addUp(account: string, of: AddedRows): boolean {
    const groups = this.#sql.sums.all(account, of.seq, SUMMED_ROWS) as unknown as Group[]
    let rows = 0n
    for (const { kind, key, team, day, billions, rest, count, seq } of groups) {
      rows += count
      if (seq > of.seq) of.seq = seq
      addCost(of.sums, { kind, key, team, day, cost: billions * BILLION + rest })
    }
    of.count += rows
    return rows === BigInt(SUMMED_ROWS)
  }

  #compare(
    account: string,
    { basis, sums, seq, count }: AddedRows,
    kept: readonly [day: string, month: string],
  ): Verification {
    if (!basis) {
      for (const row of this.#sql.totalsOf.iterate(account)) {
        const { key, team, day, ...cost } = row as unknown as TotalColumns
        addCost(sums, { kind: 'usage', key, team, day, cost: fromStoredSum(cost) })
      }
    }
    const rows = withoutDropped(sums, kept)
    const stored = storedSums(this.#sql, account)
    const counters = this.#addCounters(account, stored, sums, basis)
    // Some sums of the rows have no stored one.
    for (const what of sums.keys()) if (!stored.has(what)) stored.set(what, 0n)
    const differences = compareSums(account, withoutDropped(stored, kept), sums)
    return verification(differences, {
      seq: Number(seq),
      rows: Number(count),
      sums: rows,
      counters,
    })
  }

  /** Adds what rows say of counters, and leaves out those of which rows may be folded. */
  #addCounters(
    account: string,
    stored: Map<string, Pico>,
    sums: Map<string, Pico>,
    basis: Verified | undefined,
  ): CounterSums['all'] {
    const counters = countersOf(this.#sql, account)
    if (counters.length === 0) return new Map()
    const { day } = this.#sql.lastTotal.get(account) as { day: string }
    const rows = new CounterSums(counters, day, basis?.counters)
    for (const row of this.#sql.countedRows.iterate(account, basis?.seq ?? 0)) {
      const { seq, key, team, cost, body } = row as unknown as UsageColumns & { seq: bigint }
      rows.add({ seq: Number(seq), key: key!, team, cost, usage: JSON.parse(body!) })
    }
    for (const { owner, id, window } of counters) {
      const name = counterName(owner, id, window)
      const sum = rows.sumOf(name)
      if (sum === undefined) stored.delete(name)
      else sums.set(name, sum)
    }
    return rows.all
  }

  #base(account: string): ChainBase {
    return baseOf(account, this.#sql.base.get(account))
  }

  #next(select: ReturnType<typeof prepareHistory>['account'], account: string): string | undefined {
    return (select.get(account) as { id: string | null }).id ?? undefined
  }
}

/** Accounts whose rows are added up. */
export interface Audit {
  readonly accounts: readonly string[]
  /** The first windows of spend that are compared, see `firstKept`. */
  readonly kept: readonly [day: string, month: string]
  /** What is known of them. */
  readonly verified: ReadonlyMap<string, Verified>
}

export async function auditAll(
  history: History,
  { accounts, kept, verified }: Audit,
  pause: () => Promise<void>,
): Promise<ReadonlyMap<string, Verification>> {
  const verifications = new Map<string, Verification>()
  for (const account of accounts) {
    verifications.set(account, await history.audit(account, kept, pause, verified.get(account)))
  }
  return verifications
}

/** Rows of an account that were added up. */
interface AddedRows {
  /** What an earlier verification had of them. */
  readonly basis: Verified | undefined
  readonly sums: Map<string, Pico>
  /** The last one. */
  seq: bigint
  count: bigint
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

// Reads a whole database, as it is exported.

/** Reads a database file through a connection of its own, in one read transaction. */
export async function* exportFile(file: string): AsyncGenerator<LedgerItem> {
  using db = new DatabaseSync(file, { readOnly: true, readBigInts: true })
  db.exec('BEGIN')
  yield* exportDatabase(db)
}

interface BaseColumns {
  readonly base: bigint
  readonly n: bigint
  readonly chain: string | null
}

const MOST_ROWS = 2n ** 62n

/** Everything in a database. The caller keeps the database from changing meanwhile. */
export async function* exportDatabase(db: DatabaseSync): AsyncGenerator<LedgerItem> {
  const paid = db.prepare('SELECT paid FROM account WHERE id = ?')
  const bases = db.prepare('SELECT base, n, chain FROM account WHERE id = ?')
  const limits = db.prepare('SELECT * FROM limits WHERE account = ?')
  const totals = db.prepare('SELECT * FROM total WHERE account = ? ORDER BY day, key')
  const rows = db.prepare(
    `SELECT *, EXISTS (
       SELECT 1 FROM total
       WHERE total.account = usage.account AND total.day = usage.day AND total.key = usage.key
     ) AS folded FROM usage WHERE account = ? AND seq > ? AND seq <= ? ORDER BY seq`,
  )
  // Those that have counted nothing, with an empty window, are needed where earlier rows name them.
  const counters = db.prepare(
    `SELECT began.owner, began.id, ifnull(own.window, '') AS window, ifnull(own.usd, 0) AS usd,
       ifnull(own.pico, 0) AS pico, iif(began.usd > 0, (
         SELECT count(*) FROM usage WHERE account = began.account AND seq > began.usd
       ), NULL) AS rows
     FROM counter AS began LEFT JOIN counter AS own
       ON own.account = began.account AND own.owner = began.owner AND own.id = began.id AND own.window <> ''
     WHERE began.account = ?1 AND began.window = '' AND (began.usd > 0 OR own.window IS NOT NULL)
     UNION ALL SELECT owner, id, window, usd, pico, NULL FROM counter
       WHERE account = ?1 AND owner = '${TIER}' AND window <> ''`,
  )
  const resets = db.prepare(
    `SELECT owner, id, window, sum(usd) + sum(pico) / ${PER_USD} AS usd, sum(pico) % ${PER_USD} AS pico
     FROM reset WHERE account = ? AND at > 0 GROUP BY owner, id, window HAVING sum(usd) + sum(pico) > 0`,
  )
  const owners = db.prepare(`${OWNERS} UNION SELECT account FROM limits`)

  for (const { id: account } of all<{ id: string }>(owners)) {
    yield { kind: 'account', account, paid: paid.get(account)?.paid === 1n }
    for (const columns of all<LimitColumns>(limits, account)) {
      yield { kind: 'limits', ...toLimits(columns) }
    }
    const { base = 0n, n, chain } = (bases.get(account) ?? {}) as Partial<BaseColumns>
    yield* inOrder(totalsOf(account), rowsOf(account, 0n, base))
    if (chain) yield { kind: 'base', account, n: Number(n), chain, optional: true }
    yield* rowsOf(account, base, MOST_ROWS)
    yield* countersOf(account)
  }

  function* countersOf(account: string): Generator<CounterItem> {
    const resetRows = all<CounterColumns>(resets, account)
    const rows = all<CounterColumns>(counters, account)
    const isSame = (a: CounterColumns, b: CounterColumns) =>
      a.owner === b.owner && a.id === b.id && a.window === b.window
    // Limits without a counter have resets alone.
    const plain = resetRows.filter((one) => !rows.some((row) => isSame(row, one)))
    for (const one of [...rows, ...plain.map((reset) => ({ ...reset, usd: 0n, pico: 0n }))]) {
      const { owner, id, window, rows = null, ...amount } = one
      const reset = fromStoredSum(resetRows.find((other) => isSame(one, other)) ?? NOTHING)
      const settled = fromStoredSum(amount)
      const seen = rows === null ? {} : { rows: Number(rows) }
      yield { kind: 'counter', account, owner, id, window, settled, reset, ...seen }
    }
  }

  function* totalsOf(account: string): Generator<TotalItem> {
    for (const columns of totals.iterate(account)) {
      const { key, team, day, requests, usd, pico } = columns as unknown as TotalColumns
      const cost = fromStoredSum({ usd, pico })
      const of = { key, ...(team && { team }) }
      yield { kind: 'total', account, ...of, day, rows: Number(requests), cost }
    }
  }

  function* rowsOf(account: string, after: bigint, to: bigint): Generator<RowItem> {
    for (const columns of rows.iterate(account, after, to)) {
      const { folded, ...row } = columns as unknown as UsageColumns & { folded: bigint }
      const unfolded = row.kind === 'usage' && folded === 1n
      yield { ...toRowItem(row), ...(unfolded && { unfolded }) }
    }
  }
}

const NOTHING: StoredSum = { usd: 0n, pico: 0n }

interface CounterColumns extends StoredSum {
  readonly rows?: bigint | null
  readonly owner: string
  readonly id: string
  readonly window: string
}
