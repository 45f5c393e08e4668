/** Sums of decisions of guards, and of failures of vendors. They cover this gateway, and may miss calls. */
import type { DatabaseSync, SQLInputValue } from 'node:sqlite'
import type { DecidedRule } from '../record.ts'
import { startOf, unitOf } from './tables.ts'

/** Filters of decisions. Values of one filter are alternatives. */
export interface DecisionsQuery {
  /** ms since epoch, half-open; widened to whole days. */
  readonly from: number
  readonly to: number
  readonly accounts: readonly string[]
  readonly keys: readonly string[]
}

interface CountedDecision extends DecidedRule {
  readonly calls: number
}

export interface DecisionSums {
  /** Oldest first; `start` in ms since epoch. */
  readonly days: readonly (CountedDecision & { readonly start: number })[]
  readonly keys: readonly (CountedDecision & { readonly account: string; readonly key: string })[]
}

/** Most keys and rules of one answer. */
const MOST_KEYS = 500

export function decisionsOf(
  db: DatabaseSync,
  { from, to, accounts, keys }: DecisionsQuery,
): DecisionSums {
  const conditions = ['day BETWEEN ? AND ?']
  const values: SQLInputValue[] = [unitOf('day', from), unitOf('day', Math.max(from, to - 1))]
  for (const [column, wanted] of [
    ['account', accounts],
    ['key', keys],
  ] as const) {
    if (wanted.length === 0) continue
    conditions.push(`${column} IN (${wanted.map(() => '?').join(', ')})`)
    values.push(...wanted)
  }
  const where = conditions.join(' AND ')
  const sum = (columns: string, rest: string) =>
    db
      .prepare(`SELECT ${columns}, sum(calls) AS calls FROM decided WHERE ${where} ${rest}`)
      .all(...values) as unknown[]
  const groups = 'rule, mode, side, outcome'
  const days = sum(
    `day, ${groups}`,
    `GROUP BY day, ${groups} ORDER BY day, rule, mode, side, outcome`,
  ) as (CountedDecision & { readonly day: number })[]
  const byKey = sum(
    `account, key, ${groups}`,
    `AND rule <> '' GROUP BY account, key, ${groups} ORDER BY sum(calls) DESC, key, rule LIMIT ${MOST_KEYS}`,
  ) as DecisionSums['keys']
  return {
    days: days.map(({ day, ...one }) => ({ ...one, start: startOf('day', day) })),
    keys: byKey,
  }
}

export interface RefusalSum {
  readonly limit: string
  readonly refused: number
  readonly keys: readonly { readonly key: string; readonly refused: number }[]
}

/** Range of refusals, ms since epoch, half-open, widened to whole hours; and the number of keys for each limit. */
export interface RefusalsQuery {
  readonly from: number
  readonly to: number
  readonly keys: number
}

/** The limits that refused calls of a range, the most frequent first. */
export function refusalsIn(db: DatabaseSync, { from, to, keys }: RefusalsQuery): RefusalSum[] {
  const rows = db
    .prepare(
      // Few groups have a limit: they are found by an index of their own.
      `SELECT g.limited_by AS "limit", g.key AS key, sum(s.refused) AS refused
       FROM called_group g CROSS JOIN called_hour s
         ON s.group_id = g.id AND s.unit >= ? AND s.unit <= ?
       WHERE g.limited_by <> '' GROUP BY g.limited_by, g.key ORDER BY sum(s.refused) DESC`,
    )
    .all(unitOf('hour', from), unitOf('hour', Math.max(from, to - 1)))
  const refused = rows as unknown[] as (RefusalSum & { readonly key: string })[]
  return [...Map.groupBy(refused, ({ limit }) => limit)]
    .map(([limit, own]) => ({
      limit,
      refused: own.reduce((sum, one) => sum + one.refused, 0),
      keys: own.slice(0, keys).map(({ key, refused }) => ({ key, refused })),
    }))
    .toSorted((one, other) => other.refused - one.refused)
}

export interface FailureSum {
  readonly model: string
  readonly deployment: string
  readonly class: string
  readonly attempts: number
}

/** The failures since a moment, ms since epoch, which is widened to a whole hour. */
export function failuresSince(db: DatabaseSync, from: number): readonly FailureSum[] {
  const select = db.prepare(
    `SELECT model, deployment, class, sum(attempts) AS attempts FROM failed WHERE unit >= ?
     GROUP BY model, deployment, class ORDER BY attempts DESC`,
  )
  return select.all(unitOf('hour', from)) as unknown[] as FailureSum[]
}
