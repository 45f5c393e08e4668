import { DatabaseSync } from 'node:sqlite'
import { fromStoredSum, type StoredSum } from '../../money/money.ts'
import { inOrder } from '../ledger/items.ts'
import type { CounterItem, LedgerItem, RowItem, TotalItem } from '../ledger/ledger.ts'
import {
  all,
  OWNERS,
  toLimits,
  toRowItem,
  type LimitColumns,
  type TotalColumns,
  type UsageColumns,
} from './sql.ts'

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
  const counters = db.prepare(
    "SELECT owner, id, window, usd, pico FROM counter WHERE account = ? AND window <> ''",
  )
  const resets = db.prepare(
    'SELECT owner, id, window, usd, pico FROM reset WHERE account = ? AND at > 0',
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
    const taken = all<CounterColumns>(resets, account)
    const rows = all<CounterColumns>(counters, account)
    const isSame = (a: CounterColumns, b: CounterColumns) =>
      a.owner === b.owner && a.id === b.id && a.window === b.window
    // Limits without a counter have resets alone.
    const plain = taken.filter((one) => !rows.some((row) => isSame(row, one)))
    for (const one of [...rows, ...plain.map((reset) => ({ ...reset, usd: 0n, pico: 0n }))]) {
      const { owner, id, window, ...amount } = one
      const reset = taken
        .filter((other) => isSame(one, other))
        .reduce((sum, other) => sum + fromStoredSum(other), 0n)
      const settled = fromStoredSum(amount)
      yield { kind: 'counter', account, owner, id, window, settled, reset }
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

interface CounterColumns extends StoredSum {
  readonly owner: string
  readonly id: string
  readonly window: string
}
