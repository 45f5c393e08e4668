/** Money of one account over time: bookings, spend and balance. */
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import type { Pico } from '../../money/money.ts'
import type {
  BalancePoint,
  Booking,
  SpentOn,
  Statement,
} from '../../server/admin/resources/usage.ts'
import { wholeOf, type Halves } from './ledger-index.ts'
import { startOf, unitOf, type Rollup } from './tables.ts'

const HALVES = (column: string) =>
  `coalesce(sum(${column} / 1000000000), 0) AS billions, coalesce(sum(${column} % 1000000000), 0) AS rest`

/** @param from ms since epoch, with `to` half-open */
export function statementOf(
  db: DatabaseSync,
  account: string,
  from: number,
  to: number,
): Statement {
  const days = [unitOf('day', from), unitOf('day', to)] as const
  const bookings = bookingsIn(db, account, from, to)
  const models = spentOn(
    db,
    `SELECT model AS name, sum(calls) AS calls, ${HALVES('cost')}
     FROM settled_day JOIN settled_group ON id = group_id
     WHERE account = ? AND unit >= ? AND unit < ? GROUP BY model`,
    [account, ...days],
  )
  const tags = spentOn(
    db,
    `SELECT value AS name, sum(calls) AS calls, ${HALVES('cost')}
     FROM tagged WHERE account = ? AND unit >= ? AND unit < ? AND kind = 'tag' GROUP BY value`,
    [account, ...days],
  )
  const opening = balanceAt(db, account, 'day', from)
  const spent = models.reduce((sum, { cost }) => sum + cost, 0n)
  const booked = bookings.reduce((sum, { amount }) => sum + amount, 0n)
  return { opening, bookings, models, tags, spent, closing: opening + booked - spent }
}

export function balancesOf(
  db: DatabaseSync,
  account: string,
  rollup: Exclude<Rollup, 'month'>,
  from: number,
  to: number,
): readonly BalancePoint[] {
  const first = unitOf(rollup, from)
  let balance = balanceAt(db, account, rollup, startOf(rollup, first))
  const bookings = new Map<number, Pico>()
  for (const { at, amount } of bookingsIn(db, account, startOf(rollup, first), to)) {
    const unit = unitOf(rollup, at)
    bookings.set(unit, (bookings.get(unit) ?? 0n) + amount)
  }
  const last = unitOf(rollup, to - 1)
  const spent = db
    .prepare(
      `SELECT unit, ${HALVES('cost')} FROM settled_${rollup} JOIN settled_group ON id = group_id
       WHERE account = ? AND unit >= ? AND unit <= ? GROUP BY unit`,
    )
    .all(account, first, last) as unknown as readonly (Halves & { readonly unit: number })[]
  const costs = new Map(spent.map((row) => [row.unit, wholeOf(row)]))
  const points: BalancePoint[] = []
  for (let unit = first; unit <= last; unit++) {
    const booked = bookings.get(unit) ?? 0n
    balance += booked - (costs.get(unit) ?? 0n)
    points.push({ at: startOf(rollup, unit + 1), balance, booked })
  }
  return points
}

/** The balance when a span began: all earlier bookings, without the spend of earlier spans. */
function balanceAt(
  db: DatabaseSync,
  account: string,
  rollup: Exclude<Rollup, 'month'>,
  at: number,
): Pico {
  const booked = db
    .prepare(`SELECT ${HALVES('amount')} FROM booking WHERE account = ? AND at < ?`)
    .get(account, at) as unknown as Halves
  const spent = db
    .prepare(
      `SELECT ${HALVES('cost')} FROM settled_${rollup} JOIN settled_group ON id = group_id
       WHERE account = ? AND unit < ?`,
    )
    .get(account, unitOf(rollup, at)) as unknown as Halves
  return wholeOf(booked) - wholeOf(spent)
}

function bookingsIn(db: DatabaseSync, account: string, from: number, to: number): Booking[] {
  const rows = db
    .prepare(
      `SELECT seq, at, kind, amount / 1000000000 AS billions, amount % 1000000000 AS rest, reference, note
       FROM booking WHERE account = ? AND at >= ? AND at < ? ORDER BY seq`,
    )
    .all(account, from, to) as unknown as readonly (Halves & Omit<Booking, 'amount'>)[]
  return rows.map(({ billions, rest, ...row }) => ({ ...row, amount: wholeOf({ billions, rest }) }))
}

/** Spend by name, the largest first. */
function spentOn(db: DatabaseSync, sql: string, values: readonly (string | number)[]): SpentOn[] {
  const rows = db.prepare(sql).all(...values) as unknown as readonly (Halves &
    Omit<SpentOn, 'cost'>)[]
  return rows
    .map(({ name, calls, ...sum }) => ({ name, calls, cost: wholeOf(sum) }))
    .toSorted((one, other) => (one.cost > other.cost ? -1 : one.cost < other.cost ? 1 : 0))
}

// Last use of keys: the hour of their last charged call.

export interface AccountKey {
  readonly account: string
  readonly key: string
}

export interface LastUse extends AccountKey {
  /** When the hour begins, ms since epoch. */
  readonly at: number
}

const LAST = 'SELECT max(unit) FROM settled_hour WHERE group_id = g.id'

/** Last uses of these keys, or of all; keys without a call in the retained hours are left out. */
export function lastUses(
  db: DatabaseSync,
  keys: readonly AccountKey[] | 'all',
): readonly LastUse[] {
  const select = `SELECT account, key, max((${LAST})) AS unit FROM settled_group g`
  const rows =
    keys === 'all'
      ? db.prepare(`${select} GROUP BY account, key`).all()
      : oneByOne(db.prepare(`${select} WHERE account = ? AND key = ?`), keys)
  const used = rows as unknown[] as (AccountKey & { readonly unit: number | null })[]
  return used.flatMap(({ account, key, unit }) =>
    unit === null ? [] : [{ account, key, at: startOf('hour', unit) }],
  )
}

function oneByOne(select: StatementSync, keys: readonly AccountKey[]): unknown[] {
  return keys.map(({ account, key }) => select.get(account, key))
}
