/** The tables of usage. Everything in them is derived: of settled calls from the ledger, of circumstances from ended calls. */
import { QUANTITIES } from '../../server/admin/resources/usage.ts'
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite'

/** Upper bounds of the histograms of times, ms; a last bucket has the rest. */
export const BOUNDS = [
  25, 50, 100, 250, 500, 1000, 2000, 4000, 8000, 15_000, 30_000, 60_000, 120_000, 300_000,
]
const BUCKETS = BOUNDS.length + 1

/** Columns of the histogram of whole calls, and of that of first parts. */
export const TOTAL_BUCKETS = Array.from({ length: BUCKETS }, (_, i) => `t${i}`)
export const FIRST_BUCKETS = Array.from({ length: BUCKETS }, (_, i) => `f${i}`)

/** Sums of circumstances. `refused`: by a limit; `errors`: failed otherwise. */
export const COUNTS = ['calls', 'errors', 'refused', 'blocked'] as const

export const SETTLED_GROUPS = [
  'account',
  'team',
  'key',
  'model',
  'deployment',
  'endpoint',
  'outcome',
] as const
const CALLED_GROUPS = ['account', 'team', 'key', 'model', 'endpoint', 'code', 'limited_by'] as const

/** Spans of time with sums. A unit is the number of the hour or day since 1970, or of the month since year 0. */
export const ROLLUPS = ['hour', 'day', 'month'] as const
export type Rollup = (typeof ROLLUPS)[number]

/** Tables of sums by group and unit: `<table>_group`, and one for each rollup. */
export interface TableSet {
  readonly table: string
  readonly rollups: readonly Rollup[]
  readonly groups: readonly string[]
}

export const SETTLED: TableSet = { table: 'settled', rollups: ROLLUPS, groups: SETTLED_GROUPS }
export const CALLED: TableSet = { table: 'called', rollups: ROLLUPS, groups: CALLED_GROUPS }
/** Sums of all accounts together, because keys make up nearly all groups. */
export const SETTLED_OVERALL = overall(SETTLED)
export const CALLED_OVERALL = overall(CALLED)

export const SETTLED_BY_KEY = summary('settled_key', ['account', 'team', 'key'])
/** Circumstances by key: a key has many combinations of models, endpoints and codes. */
export const CALLED_BY_KEY = summary('called_key', ['account', 'team', 'key'])

/** Sums of settled calls by fewer groups, the smallest first: a question reads the first that has what it asks for. */
export const SETTLED_SUMMARIES: readonly TableSet[] = [
  SETTLED_OVERALL,
  summary('settled_account', ['account']),
  summary('settled_account_model', ['account', 'model']),
  SETTLED_BY_KEY,
]

function summary(table: string, groups: readonly string[]): TableSet {
  return { table, rollups: ['day', 'month'], groups }
}

function overall({ table, groups }: TableSet): TableSet {
  return {
    table: `${table}_overall`,
    rollups: ['hour', 'day'],
    groups: groups.filter((name) => !['account', 'team', 'key'].includes(name)),
  }
}

const HOUR_MS = 3_600_000
const DAY_MS = 86_400_000

/** The unit of a moment, ms since epoch. */
export function unitOf(rollup: Rollup, at: number): number {
  if (rollup === 'hour') return Math.floor(at / HOUR_MS)
  if (rollup === 'day') return Math.floor(at / DAY_MS)
  const date = new Date(at)
  return date.getUTCFullYear() * 12 + date.getUTCMonth()
}

export function startOf(rollup: Rollup, unit: number): number {
  if (rollup === 'hour') return unit * HOUR_MS
  if (rollup === 'day') return unit * DAY_MS
  return Date.UTC(Math.floor(unit / 12), unit % 12)
}

/** Columns of charges, and of circumstances. A cost is in `billions` of picodollars and the `rest`, which add up apart: no sum has a bound. */
export const FORMER_SUMS = ['calls', 'billions', 'rest', 'estimated', ...QUANTITIES]
/**
 * Amounts beside the cost, each in two columns as that: what vendors are paid, the cost of calls of which that is known, what
 * promotional credit has paid, and refunds, of all calls and of those.
 */
export const AMOUNTS = [
  'vendor',
  'known_cost',
  'promotional',
  'refunded',
  'known_refunded',
] as const
/** `known_calls`: calls of which it is known what their vendors are paid. */
export const EARNED_SUMS = [
  'known_calls',
  ...AMOUNTS.flatMap((name) => [`${name}_billions`, `${name}_rest`]),
]
export const SETTLED_SUMS = [...FORMER_SUMS, ...EARNED_SUMS]
/** Quantities that are added up by tag and by end user. */
export const TAGGED_QUANTITIES = [
  'prompt_tokens',
  'completion_tokens',
  'cached_tokens',
  'cache_write_tokens',
  'reasoning_tokens',
] as const
export const CALLED_SUMS = [...COUNTS, ...TOTAL_BUCKETS, ...FIRST_BUCKETS]

/** Makes the sums of all accounts from those of each. Called inside a transaction. */
export function addUp(
  db: DatabaseSync,
  { table: each }: TableSet,
  { table: all, groups, rollups }: TableSet,
  sums: readonly string[],
): void {
  const names = groups.join(', ')
  db.exec(`DELETE FROM ${all}_group;
    INSERT INTO ${all}_group (${names}) SELECT DISTINCT ${names} FROM ${each}_group`)
  for (const rollup of rollups) {
    db.exec(`DELETE FROM ${all}_${rollup};
      INSERT INTO ${all}_${rollup} (unit, group_id, ${sums.join(', ')})
      SELECT s.unit, a.id, ${sums.map((name) => `sum(s.${name})`).join(', ')}
      FROM ${each}_${rollup} s JOIN ${each}_group g ON g.id = s.group_id
      JOIN ${all}_group a USING (${names}) GROUP BY s.unit, a.id`)
  }
}

// Adds sums of groups by hour, day and month, in one set of tables.

interface RollupOptions {
  readonly values: readonly string[]
  /** SQL that sets a column to its sum with `excluded`. */
  readonly added: (column: string) => string
}

/** Writes one set of tables. Every method is called inside of a transaction. */
export class Rollups {
  readonly #find: StatementSync
  readonly #create: StatementSync
  readonly #add: readonly (readonly [Rollup, StatementSync])[]

  constructor(
    db: DatabaseSync,
    { table, rollups, groups }: TableSet,
    { values, added }: RollupOptions,
  ) {
    const where = groups.map((name) => `${name} = ?`).join(' AND ')
    this.#find = db.prepare(`SELECT id FROM ${table}_group WHERE ${where}`)
    this.#create = db.prepare(
      `INSERT INTO ${table}_group (${groups.join(', ')}) VALUES (${marks(groups)})`,
    )
    const names = ['unit', 'group_id', ...values]
    this.#add = rollups.map((rollup) => [
      rollup,
      db.prepare(
        `INSERT INTO ${table}_${rollup} (${names.join(', ')}) VALUES (${marks(names)})
         ON CONFLICT DO UPDATE SET ${values.map(added).join(', ')}`,
      ),
    ])
  }

  /** Adds sums of an hour, of a day and of its month. @param when a moment of the hour, and one of the day, ms since epoch */
  add(
    when: { readonly at: number; readonly day: number },
    group: readonly string[],
    values: readonly SQLInputValue[],
  ): void {
    const row = this.#find.get(...group)
    const id = Number(row ? row.id : this.#create.run(...group).lastInsertRowid)
    for (const [rollup, add] of this.#add)
      add.run(unitOf(rollup, rollup === 'hour' ? when.at : when.day), id, ...values)
  }
}

function marks(names: readonly string[]): string {
  return names.map(() => '?').join(', ')
}
