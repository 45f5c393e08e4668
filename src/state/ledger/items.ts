/** Rules of folding, exporting and importing for both engines. */
import { isDeepStrictEqual } from 'node:util'
import { formatPico, type Pico } from '../../money/money.ts'
import { isBookingKind } from './bookings.ts'
import type { LedgerRow, RowItem, TotalItem, BookingKind } from './ledger.ts'
import { DAY_MS, dayOf } from './windows.ts'

/** A settlement can be repeated for at least this long without being charged twice. */
export const RECEIPT_HOURS = 48

const HOUR_MS = 3_600_000
const COMPARED = ['key', 'day', 'at', 'cost', 'usage', 'note', 'booking', 'actor'] as const

/** Upper bounds of a fold; a row has to be below both. */
export interface FoldBounds {
  /** `YYYYMMDD` */
  readonly day: string
  /** ms since epoch */
  readonly at: number
}

/**
 * The last day that is folded ends a day before the bound, so that it has ended in every time zone.
 * @param now ms since epoch. @throws RangeError for an invalid date
 */
export function foldBounds(before: Date, now: number): FoldBounds {
  const at = Math.min(before.getTime(), now - RECEIPT_HOURS * HOUR_MS)
  return { day: dayOf(at - DAY_MS), at }
}

/**
 * Whether rows up to this one may be folded. Calls and orphans have to be old; bookings stay, so they end nothing.
 * @param day that was charged
 */
export function isFoldable(
  { at, day }: FoldBounds,
  row: Pick<LedgerRow, 'kind' | 'at'>,
  charged: string | undefined | null,
): boolean {
  if (isBooking(row)) return true
  return row.at < at && (charged || dayOf(row.at)) < day
}

export function isBooking<Row extends { readonly kind: string }>(
  row: Row,
): row is Row & { readonly kind: BookingKind } {
  return isBookingKind(row.kind)
}

/** A row, and its number in the history of its account. */
export interface NumberedRow {
  readonly row: RowItem
  readonly n: number
}

/** Lines of rows by their months, in their order. */
export function linesByMonth(rows: Iterable<NumberedRow>): ReadonlyMap<string, string[]> {
  const months = new Map<string, string[]>()
  for (const { row, n } of rows) {
    const day = row.day ?? dayOf(row.at)
    const month = `${day.slice(0, 4)}-${day.slice(4, 6)}`
    const lines = months.get(month)
    const line = toLine({ ...row, n, optional: ['n'] })
    if (lines) lines.push(line)
    else months.set(month, [line])
  }
  return months
}

/** A line of an export, without its line feed. */
export function toLine(line: object): string {
  return JSON.stringify(line, (_, value: unknown) =>
    typeof value === 'bigint' ? formatPico(value) : value,
  )
}

/**
 * An account's totals and rows in the order of an export: a total comes before the rows of its day and of later days, and
 * rows keep their order. No sum then goes beyond its historical extremes during an import.
 * @param totals the totals by day. @param rows oldest first
 */
export async function* inOrder(
  totals: Iterable<TotalItem> | AsyncIterable<TotalItem>,
  rows: Iterable<RowItem> | AsyncIterable<RowItem>,
): AsyncGenerator<TotalItem | RowItem> {
  const remaining = iterate(totals)
  let total = await remaining.next()
  for await (const row of rows) {
    const day = row.day ?? dayOf(row.at)
    for (; !total.done && total.value.day <= day; total = await remaining.next()) yield total.value
    yield row
  }
  for (; !total.done; total = await remaining.next()) yield total.value
}

/** @throws RangeError when the stored row differs from the one to be imported */
export function checkSameRow(item: RowItem, stored: RowItem): void {
  const other = COMPARED.find((name) => {
    // Earlier releases export no actor.
    if (name === 'actor' && item.actor === undefined) return false
    return !isDeepStrictEqual(plain(item[name]), plain(stored[name]))
  })
  if (other === undefined) return
  throw new RangeError(`${nameOf(item)} is stored already, with another ${WORDS[other]}`)
}

/** @param folded whether a total of the row's key and day is stored. @throws RangeError when the row may be part of it */
export function checkUnfolded(item: RowItem, folded: boolean): void {
  if (!folded || item.unfolded) return
  const whose = `key ${item.key}, ${item.day}`
  throw new RangeError(`${nameOf(item)} may be part of the stored total of ${whose}`)
}

/**
 * @param stored the stored total of the same key and day; @param spent the key's stored spend on that day
 * @returns whether the total is new
 * @throws RangeError when it differs from the stored total, or may contain rows that are stored
 */
export function checkTotal(item: TotalItem, stored: TotalItem | undefined, spent: Pico): boolean {
  const { account, key, day, rows, cost } = item
  const what = `the total of account ${account}, key ${key}, ${day}`
  if (!stored) {
    if (spent === 0n) return true
    throw new RangeError(`${what} may contain stored rows, which add up to ${formatPico(spent)}`)
  }
  if (stored.rows === rows && stored.cost === cost) return false
  const [before, now] = [stored, item].map(
    (one) => `${formatPico(one.cost)} in ${one.rows} ${one.rows === 1 ? 'row' : 'rows'}`,
  )
  throw new RangeError(`${what} is stored as ${before}, not ${now}`)
}

const WORDS = {
  key: 'key',
  day: 'day',
  at: 'time',
  cost: 'amount',
  usage: 'usage',
  note: 'note',
  booking: 'details',
  actor: 'actor',
} as const

/** The value in its JSON form: without members that are undefined. */
function plain(value: RowItem[(typeof COMPARED)[number]]): unknown {
  return typeof value === 'object' ? JSON.parse(JSON.stringify(value)) : value
}

function nameOf({ kind, request, account }: RowItem): string {
  const what = kind === 'usage' ? 'request' : kind === 'adjust' ? 'adjustment' : kind
  return `${what} ${JSON.stringify(request)} of account ${account}`
}

async function* iterate<Item>(
  items: Iterable<Item> | AsyncIterable<Item>,
): AsyncGenerator<Item, void> {
  yield* items
}
