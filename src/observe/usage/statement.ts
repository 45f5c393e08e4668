/** The money of one account over time: its statement for some dates, and its balance at the end of each span. */
import type { DatabaseSync } from 'node:sqlite'
import type { Pico } from '../../money/money.ts'
import { QUANTITIES, type BalancePoint, type Quantity } from '../../server/admin/resources/usage.ts'
import { creditOf, toBlocks } from '../../state/ledger/blocks.ts'
import type { AccountCredit, BookingDetails, ChainPoint } from '../../state/ledger/ledger.ts'
import { firstMoment, momentIn } from '../../state/ledger/zone.ts'
import { wholeOf, type Halves } from './settled.ts'
import { startOf, unitOf, type Rollup } from './tables.ts'

/** Dates of an account: midnights of UTC that stand for them. */
export interface Dates {
  /** ms since epoch, with `to` half-open */
  readonly from: number
  readonly to: number
  /** The time zone of the account; absent for UTC. */
  readonly zone?: string | undefined
}

interface BookedAmount {
  readonly seq: number
  /** ms since epoch */
  readonly at: number
  readonly kind: string
  readonly amount: Pico
  readonly reference: string
  readonly note: string | null
  readonly details: BookingDetails | undefined
}

/** What was used under one name, and given back of such calls. */
export interface UsedBy {
  readonly name: string
  readonly calls: number
  readonly cost: Pico
  readonly refunds: Pico
  readonly quantities?: Readonly<Partial<Record<Quantity, number>>>
}

export interface StatementSums {
  readonly opening: Pico
  readonly bookings: readonly BookedAmount[]
  readonly usage: Readonly<Record<'models' | 'keys' | 'teams' | 'days' | 'tags', readonly UsedBy[]>>
  readonly spent: Pico
  readonly closing: Pico
  /** What is left at the end. */
  readonly credit: AccountCredit
  /** The point of the account now; null where none is known. */
  readonly chain: ChainPoint | null
}

const COST = 'coalesce(sum(billions), 0) AS billions, coalesce(sum(rest), 0) AS rest'
const AMOUNT = `coalesce(sum(amount / 1000000000), 0) AS billions,
  coalesce(sum(amount % 1000000000), 0) AS rest`

/** The first moment of a date of an account. */
function dawnOf(date: number, zone: string | undefined): number {
  return firstMoment(zone, new Date(date).toISOString().slice(0, 10))
}

export function statementOf(db: DatabaseSync, account: string, dates: Dates): StatementSums {
  const { from, to, zone } = dates
  const [start, end] = [dawnOf(from, zone), dawnOf(to, zone)]
  const bookings = bookingsIn(db, account, start, end)
  const opening = balanceAt(db, account, 'day', from, zone)
  const usage = usageOf(db, account, dates, bookings)
  const spent = usage.days.reduce((sum, { cost }) => sum + cost, 0n)
  const booked = bookings.reduce((sum, { amount }) => sum + amount, 0n)
  const closing = opening + booked - spent
  const chain = db
    .prepare('SELECT n, chain FROM progress WHERE account = ? AND n > 0')
    .get(account) as unknown as ChainPoint | undefined
  return {
    opening,
    bookings,
    usage,
    spent,
    closing,
    credit: creditAt(db, account, end, to, closing),
    chain: chain ?? null,
  }
}

/** Credit at the end of the dates, by the blocks of the last booking before it. */
function creditAt(
  db: DatabaseSync,
  account: string,
  at: number,
  to: number,
  balance: Pico,
): AccountCredit {
  const last = db
    .prepare(
      `SELECT details FROM booking WHERE account = ? AND at < ? AND details LIKE '%"blocks":%'
       ORDER BY seq DESC LIMIT 1`,
    )
    .get(account, at)
  const blocks = toBlocks(last ? JSON.parse(String(last.details)).blocks : [])
  return creditOf(balance, blocks, spentBefore(db, account, 'day', unitOf('day', to)))
}

function usageOf(
  db: DatabaseSync,
  account: string,
  { from, to, zone }: Dates,
  bookings: readonly BookedAmount[],
): StatementSums['usage'] {
  const units = [unitOf('day', from), unitOf('day', to)] as const
  const of = `FROM settled_day JOIN settled_group ON id = group_id
    WHERE account = ? AND unit >= ? AND unit < ?`
  const quantities = QUANTITIES.map((name) => `sum(${name}) AS ${name}`).join(', ')
  const select = (name: string, more = '') =>
    db
      .prepare(`SELECT ${name} AS name, sum(calls) AS calls, ${COST}${more} ${of} GROUP BY name`)
      .all(account, ...units)
  const refunds = bookings.filter(({ kind }) => kind === 'refund')
  const used = (rows: readonly object[], nameOf: (refund: BookedAmount) => string | undefined) =>
    withRefunds(rows as readonly SumRow[], refunds, nameOf)
  const tags = db
    .prepare(
      `SELECT value AS name, sum(calls) AS calls, ${COST}
       FROM tagged WHERE account = ? AND unit >= ? AND unit < ? AND kind = 'tag' GROUP BY value`,
    )
    .all(account, ...units)
  const days = select('unit').map((row) => ({ ...row, name: dateOf(Number(row.name)) }))
  const callOf = ({ details }: BookedAmount) => details?.facts?.call
  return {
    models: used(select('model', `, ${quantities}`), (one) => callOf(one)?.model),
    keys: used(select('key'), (one) => callOf(one)?.key),
    teams: used(select('team'), (one) => callOf(one)?.team),
    days: used(days, ({ at }) => momentIn(zone, at).slice(0, 10)).toSorted((a, b) =>
      a.name < b.name ? -1 : 1,
    ),
    tags: used(tags, (one) => callOf(one)?.tag),
  }
}

function dateOf(unit: number): string {
  return new Date(startOf('day', unit)).toISOString().slice(0, 10)
}

type SumRow = Halves & Record<Quantity, number | null> & { readonly name: string; calls: number }

/** Sums by name with the refunds of each, the largest first; calls without any are left out. */
function withRefunds(
  rows: readonly SumRow[],
  refunds: readonly BookedAmount[],
  nameOf: (refund: BookedAmount) => string | undefined,
): UsedBy[] {
  const refundByName = new Map<string, Pico>()
  for (const one of refunds) {
    const name = nameOf(one) ?? ''
    refundByName.set(name, (refundByName.get(name) ?? 0n) + one.amount)
  }
  const used = rows.map(({ name, calls, billions, rest, ...sums }): UsedBy => {
    const numeric = Object.entries(sums).filter(([, sum]) => typeof sum === 'number')
    const refunds = refundByName.get(name) ?? 0n
    refundByName.delete(name)
    return {
      name,
      calls,
      cost: wholeOf({ billions, rest }),
      refunds,
      ...(numeric.length > 0 && { quantities: Object.fromEntries(numeric) }),
    }
  })
  for (const [name, refunds] of refundByName) used.push({ name, calls: 0, cost: 0n, refunds })
  return used
    .filter(({ calls, refunds }) => calls > 0 || refunds > 0n)
    .toSorted((one, other) => (one.cost > other.cost ? -1 : one.cost < other.cost ? 1 : 0))
}

export function balancesOf(
  db: DatabaseSync,
  account: string,
  rollup: Exclude<Rollup, 'month'>,
  { from, to, zone }: Dates,
): readonly BalancePoint[] {
  const first = unitOf(rollup, from)
  const end = startOf(rollup, unitOf(rollup, to - 1) + 1)
  const momentOf = (start: number) => (rollup === 'hour' ? start : dawnOf(start, zone))
  let balance = balanceAt(db, account, rollup, startOf(rollup, first), zone)
  const bookings = new Map<number, Pico>()
  const booked = bookingsIn(db, account, momentOf(startOf(rollup, first)), momentOf(end))
  for (const { at, amount } of booked) {
    // A date that begins within the UTC day of the moment, or within the one before or after it.
    const near = unitOf(rollup, at)
    const unit = [near + 1, near].find((one) => momentOf(startOf(rollup, one)) <= at) ?? near - 1
    bookings.set(unit, (bookings.get(unit) ?? 0n) + amount)
  }
  const last = unitOf(rollup, to - 1)
  const spent = db
    .prepare(
      `SELECT unit, ${COST} FROM settled_${rollup} JOIN settled_group ON id = group_id
       WHERE account = ? AND unit >= ? AND unit <= ? GROUP BY unit`,
    )
    .all(account, first, last) as unknown as readonly (Halves & { readonly unit: number })[]
  const costs = new Map(spent.map((row) => [row.unit, wholeOf(row)]))
  const points: BalancePoint[] = []
  for (let unit = first; unit <= last; unit++) {
    const booked = bookings.get(unit) ?? 0n
    balance += booked - (costs.get(unit) ?? 0n)
    points.push({ at: momentOf(startOf(rollup, unit + 1)), balance, booked })
  }
  return points
}

/** The balance when a span began: all earlier bookings, without the spend of earlier spans. */
function balanceAt(
  db: DatabaseSync,
  account: string,
  rollup: Exclude<Rollup, 'month'>,
  at: number,
  zone: string | undefined,
): Pico {
  const booked = db
    .prepare(`SELECT ${AMOUNT} FROM booking WHERE account = ? AND at < ?`)
    .get(account, rollup === 'hour' ? at : dawnOf(at, zone)) as unknown as Halves
  return wholeOf(booked) - spentBefore(db, account, rollup, unitOf(rollup, at))
}

function spentBefore(
  db: DatabaseSync,
  account: string,
  rollup: Exclude<Rollup, 'month'>,
  unit: number,
): Pico {
  const spent = db
    .prepare(
      `SELECT ${COST} FROM settled_${rollup} JOIN settled_group ON id = group_id
       WHERE account = ? AND unit < ?`,
    )
    .get(account, unit) as unknown as Halves
  return wholeOf(spent)
}

function bookingsIn(db: DatabaseSync, account: string, from: number, to: number): BookedAmount[] {
  const select = db.prepare(
    `SELECT seq, at, kind, amount, reference, note, details
     FROM booking WHERE account = ? AND at >= ? AND at < ? ORDER BY seq`,
  )
  select.setReadBigInts(true)
  return select
    .all(account, from, to)
    .map(({ seq, at, kind, amount, reference, note, details }) => ({
      seq: Number(seq),
      at: Number(at),
      kind: String(kind),
      amount: amount as bigint,
      reference: String(reference),
      note: note === null ? null : String(note),
      details: details === null ? undefined : JSON.parse(String(details)),
    }))
}
