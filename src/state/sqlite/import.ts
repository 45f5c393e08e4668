/** Imports items of an export into the tables of a ledger. */
import type { Pico } from '../../money/money.ts'
import {
  addRow,
  adjust,
  charge,
  credit,
  setLimits,
  toRowItem,
  writeBody,
  type Sql,
  type TotalColumns,
  type UsageColumns,
} from './sql.ts'
import { checkSameRow, checkTotal, checkUnfolded } from '../ledger/items.ts'
import type { LedgerItem, LimitsItem, RowItem, TotalItem } from '../ledger/ledger.ts'

/** @returns whether the item is new. @throws RangeError when it contradicts the ledger, or a sum would leave its bounds */
export function take(sql: Sql, item: LedgerItem): boolean {
  switch (item.kind) {
    case 'account':
      return item.paid && Number(sql.setPaid.run(item.account).changes) > 0
    case 'limits':
      return takeLimits(sql, item)
    case 'total':
      return takeTotal(sql, item)
    default:
      return takeRow(sql, item)
  }
}

function takeLimits(sql: Sql, { account, key, limits, revision }: LimitsItem): boolean {
  const stored = sql.revision.get(account, key) as { revision: bigint } | undefined
  if (stored && stored.revision >= revision) return false
  setLimits(sql, account, key, limits, revision)
  return true
}

function takeTotal(sql: Sql, item: TotalItem): boolean {
  const { account, key, day, rows, cost } = item
  const stored = sql.total.get(account, day, key) as TotalColumns | undefined
  const spent = sql.spentOn.get(account, key, day) as { amount: Pico } | undefined
  const same = stored && { ...item, rows: Number(stored.requests), cost: stored.cost }
  if (!checkTotal(item, same, spent?.amount ?? 0n)) return false
  sql.addTotal.run(account, day, key, rows, cost)
  charge(sql, account, key, day, cost)
  return true
}

function takeRow(sql: Sql, item: RowItem): boolean {
  const { kind, account, request, key = null, cost, day = null, at } = item
  if (!addRow(sql, kind, request, account, key, cost, day, at, writeBody(item))) {
    const stored = sql.row.get(request, kind, account) as unknown as UsageColumns
    checkSameRow(item, toRowItem(stored))
    return false
  }
  if (kind === 'usage') {
    checkUnfolded(item, sql.total.get(account, day!, key!) !== undefined)
    charge(sql, account, key!, day!, cost)
  }
  if (kind === 'top-up') credit(sql, account, -cost)
  if (kind === 'adjust') adjust(sql, account, -cost)
  return true
}
