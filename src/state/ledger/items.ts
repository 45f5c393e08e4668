/** What every engine does alike when it folds, exports and imports. */
import { isDeepStrictEqual } from 'node:util'
import { formatPico, type Pico } from '../../money/money.ts'
import { dayOf } from './clock.ts'
import { RECEIPT_HOURS, type RowItem, type TotalItem } from './ledger.ts'

const HOUR_MS = 3_600_000
const COMPARED = ['key', 'day', 'at', 'cost', 'usage', 'note'] as const

/** Of usage rows the bounds below which, day and moment both, a fold takes them. */
export interface FoldBounds {
  /** UTC, `YYYYMMDD`. */
  readonly day: string
  /** ms since epoch */
  readonly at: number
}

/** @param now the engine's clock, ms since epoch. @throws RangeError for a date that is none */
export function foldBounds(before: Date, now: number): FoldBounds {
  const at = Math.min(before.getTime(), now - RECEIPT_HOURS * HOUR_MS)
  return { day: dayOf(at), at }
}

/**
 * An account's totals and rows as an export has them: a total before whatever happened on its day or later, and all else
 * as it happened, so that no sum goes further on the way in than it ever did.
 * @param totals by day. @param rows oldest first
 */
export async function* inOrder(
  totals: Iterable<TotalItem> | AsyncIterable<TotalItem>,
  rows: Iterable<RowItem> | AsyncIterable<RowItem>,
): AsyncGenerator<TotalItem | RowItem> {
  const waiting = walk(totals)
  let total = await waiting.next()
  for await (const row of rows) {
    const day = row.day ?? dayOf(row.at)
    for (; !total.done && total.value.day <= day; total = await waiting.next()) yield total.value
    yield row
  }
  for (; !total.done; total = await waiting.next()) yield total.value
}

/** @throws RangeError when a row that is there says something else than the one to be taken in */
export function checkSameRow(item: RowItem, stored: RowItem): void {
  const other = COMPARED.find((name) => !isDeepStrictEqual(plain(item[name]), plain(stored[name])))
  if (other === undefined) return
  throw new RangeError(`${nameOf(item)} is there already, with another ${WORDS[other]}`)
}

/** @param folded whether there is a total of the row's key and day. @throws RangeError when the row may be part of it */
export function checkUnfolded(item: RowItem, folded: boolean): void {
  if (!folded || item.unfolded) return
  const whose = `key ${item.key}, ${item.day}`
  throw new RangeError(`${nameOf(item)} may be part of the total that is there of ${whose}`)
}

/**
 * @param stored the total that is there of the same key and day; @param spent what the key has spent on that day
 * @returns whether the total is new
 * @throws RangeError when it is not what is there, or may be a total of what is there
 */
export function checkTotal(item: TotalItem, stored: TotalItem | undefined, spent: Pico): boolean {
  const { account, key, day, rows, cost } = item
  const what = `the total of account ${account}, key ${key}, ${day}`
  if (!stored) {
    if (spent === 0n) return true
    throw new RangeError(
      `${what} may be of rows that are there, which come to ${formatPico(spent)}`,
    )
  }
  if (stored.rows === rows && stored.cost === cost) return false
  const [there, here] = [stored, item].map(
    (one) => `${formatPico(one.cost)} in ${one.rows} ${one.rows === 1 ? 'row' : 'rows'}`,
  )
  throw new RangeError(`${what} is ${there} there, not ${here}`)
}

const WORDS = {
  key: 'key',
  day: 'day',
  at: 'time',
  cost: 'amount',
  usage: 'usage',
  note: 'note',
} as const

/** As JSON would keep it: without members that are undefined. */
function plain(value: RowItem[(typeof COMPARED)[number]]): unknown {
  return typeof value === 'object' ? JSON.parse(JSON.stringify(value)) : value
}

function nameOf({ kind, request, account }: RowItem): string {
  const what = { usage: 'request', 'top-up': 'top-up', orphan: 'orphan' }[kind]
  return `${what} ${JSON.stringify(request)} of account ${account}`
}

async function* walk<Item>(
  items: Iterable<Item> | AsyncIterable<Item>,
): AsyncGenerator<Item, void> {
  yield* items
}
