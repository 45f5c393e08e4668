/** Reads the rows and sums of a ledger through a read-only connection. */
import { statSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { fromStoredSum, type StoredSum } from '../../money/money.ts'
import type {
  ChainBase,
  RequestId,
  FoldedTotal,
  LedgerHead,
  LedgerReader,
  ReadRow,
} from '../ledger/ledger.ts'
import { beginChain } from '../ledger/chain.ts'
import { all, OWNERS, readBody, type TotalColumns, type UsageColumns } from './sql.ts'

const BUSY_TIMEOUT_MS = 2000

/**
 * Opens the file of a ledger that is in use.
 * @param inode of the file that the ledger has open. @throws Error when another file is in its place
 */
export function openReader(file: string, inode: number): LedgerReader {
  // Opened beside the log of another file, SQLite would empty that log's index, and with it what the ledger wrote last.
  if (statSync(file).ino !== inode) throw new Error(`${file} was replaced`)
  const db = new DatabaseSync(file, {
    readOnly: true,
    readBigInts: true,
    timeout: BUSY_TIMEOUT_MS,
  })
  return new SqliteReader(db, () => db.close())
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
    return all<TotalColumns>(this.#sql.totals, account).map(({ key, day, requests, ...cost }) => ({
      key,
      day,
      rows: Number(requests),
      cost: fromStoredSum(cost),
    }))
  }

  async base(account: string): Promise<ChainBase> {
    return beginChain(account)
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

  /** Runs reads as of one moment. */
  #atOnce<Result>(read: () => Result): Result {
    this.#db.exec('BEGIN')
    try {
      return read()
    } finally {
      this.#db.exec('ROLLBACK')
    }
  }
}

type RowColumns = Omit<UsageColumns, 'account'> & { readonly seq: bigint }

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
    identity: db.prepare('SELECT id FROM identity'),
    owners: db.prepare(OWNERS),
    newest: db.prepare('SELECT max(seq) AS seq FROM usage WHERE account = ?'),
    balance: db.prepare('SELECT usd, pico FROM account WHERE id = ?'),
    lifetime: db.prepare(`SELECT key, usd, pico FROM spend
       WHERE account = ? AND window = 'lifetime' AND key NOT LIKE '@%'`),
    rows: db.prepare(`${ROW} WHERE account = ? AND seq >= ? ORDER BY seq LIMIT ?`),
    charge: db.prepare(`${ROW} WHERE request = ? AND kind = 'usage' AND account = ?`),
    totals: db.prepare('SELECT key, day, requests, usd, pico FROM total WHERE account = ?'),
  }
}
