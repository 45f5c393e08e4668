/** Last use of keys: the hour of their last charged call. */
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { startOf } from './tables.ts'

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
