/** Questions about usage, and their answers from the tables. */
import type { DatabaseSync } from 'node:sqlite'
import type { Pico } from '../../money/money.ts'
import { wholeOf } from './settled.ts'
import {
  CALLED_GROUPS,
  COUNTS,
  FIRST_BUCKETS,
  QUANTITIES,
  SETTLED_GROUPS,
  startOf,
  TOTAL_BUCKETS,
  unitOf,
  type Quantity,
  type Rollup,
} from './tables.ts'

/** What calls can be grouped by. `tag` and `user`: alone or with `key`, in days and months. */
export const GROUPS = [
  'account',
  'key',
  'model',
  'deployment',
  'endpoint',
  'outcome',
  'tag',
  'user',
  'code',
  'limit',
] as const
/** One of {@link GROUPS}. */
export type GroupName = (typeof GROUPS)[number]

/** What groups can be ranked by. */
export const METRICS = ['cost_usd', 'calls', ...QUANTITIES, 'errors', 'refused', 'blocked'] as const
/** One of {@link METRICS}. */
export type Metric = (typeof METRICS)[number]

/** A question about usage. */
export interface UsageQuery {
  /** ms since epoch, half-open; widened to whole hours, with days and months to whole days. */
  readonly from: number
  readonly to: number
  readonly rollup: Rollup
  /** At most two. */
  readonly group: readonly GroupName[]
  /** Values of one filter are alternatives. */
  readonly filters: Readonly<Partial<Record<GroupName, readonly string[]>>>
  readonly metric: Metric
  /** Groups that are kept apart; the rest is `other`. */
  readonly top: number
}

/** Sums of the calls of one group and span. */
export interface UsageSums {
  calls: number
  cost: Pico
  estimated: number
  /** In the order of {@link QUANTITIES}; null is "never reported". */
  readonly quantities: (number | null)[]
  /** Circumstances, in the order of {@link COUNTED}, maybe without the histograms; undefined where a group has none. */
  counts: number[] | undefined
}

/** The sums of one group in one span of time. */
export interface UsageCell extends UsageSums {
  /** ms since epoch */
  readonly start: number
  /** Values of the groups of the question, '' for "none". */
  readonly group: readonly string[]
}

/** The answer from the tables. */
export interface UsageAnswer {
  readonly from: number
  readonly to: number
  /** Whether sums of the ledger are in it: they are not grouped by what only circumstances have. */
  readonly settled: boolean
  readonly cells: readonly UsageCell[]
  /** Per span. */
  readonly other: readonly UsageCell[]
  readonly totals: UsageSums
}

/** A question that would read more rows than one answer may. */
export interface TooLarge {
  readonly rows: number
  /** What fits instead. */
  readonly fits: string
}

const MOST_ROWS = 500_000
/** Histograms of more rows than this would take longer than the rest of an answer. */
const MOST_TIMED_ROWS = 20_000
/** Sums of circumstances: counts, then the buckets of both histograms. */
export const COUNTED = [...COUNTS, ...TOTAL_BUCKETS, ...FIRST_BUCKETS]

/** A part of the range, read from the table of one rollup. */
interface Span {
  readonly table: Rollup
  /** Units of that table, half-open. */
  readonly from: number
  readonly to: number
  /** The span of the answer that all of it belongs to; absent where each unit is a span of its own. */
  readonly start?: number
}

/** Answers a question. @param now ms since epoch */
export function answerUsage(
  db: DatabaseSync,
  query: UsageQuery,
  now: number,
): UsageAnswer | TooLarge {
  const { from, to } = widened(query)
  const spans = spansOf(query.rollup, from, to, now)
  const cells = new Map<string, UsageCell>()
  const sources = sourcesOf(query)
  for (const source of sources) {
    for (const span of spans) {
      const table = source.tagged ? 'tagged' : `${source.table}_${span.table}`
      const rows = rowsIn(db, table, source, query, span)
      if (rows > MOST_ROWS) return { rows, fits: fitting(query) }
      for (const cell of read(db, table, source, query, span, rows)) merge(cells, cell)
    }
  }
  const settled = sources.some(({ table }) => table === 'settled')
  return { from, to, settled, ...ranked([...cells.values()], query) }
}

/** Where an answer comes from. */
interface Source {
  readonly table: 'settled' | 'called'
  readonly tagged: boolean
  /** Columns by the name of the group. */
  readonly columns: Readonly<Partial<Record<GroupName, string>>>
}

const columnsOf = (names: readonly string[]) =>
  Object.fromEntries(names.map((name) => [name, name]))
const SETTLED: Source = { table: 'settled', tagged: false, columns: columnsOf(SETTLED_GROUPS) }
const CALLED: Source = {
  table: 'called',
  tagged: false,
  columns: { ...columnsOf(CALLED_GROUPS), limit: 'limited_by' },
}
const TAGGED: Source = {
  table: 'settled',
  tagged: true,
  columns: { account: 'account', key: 'key', tag: 'value', user: 'value' },
}

function sourcesOf(query: UsageQuery): Source[] {
  if (labelOf(query)) return [TAGGED]
  const asked = [...query.group, ...(Object.keys(query.filters) as GroupName[])]
  const fits = ({ columns }: Source) => asked.every((name) => columns[name] !== undefined)
  return [SETTLED, CALLED].filter(fits)
}

/** `tag` or `user`, where the question is about one of them. */
export function labelOf({ group, filters }: Pick<UsageQuery, 'group' | 'filters'>) {
  return (['tag', 'user'] as const).find((name) => group.includes(name) || filters[name])
}

/** Whether a question can be answered: the tables do not hold every combination. */
export function isAnswerable(query: Pick<UsageQuery, 'group' | 'filters' | 'rollup'>): boolean {
  const asked = [...query.group, ...(Object.keys(query.filters) as GroupName[])]
  if (labelOf(query)) {
    const isBoth = asked.includes('tag') && asked.includes('user')
    return !isBoth && query.rollup !== 'hour' && asked.every((name) => TAGGED.columns[name])
  }
  return [SETTLED, CALLED].some(({ columns }) => asked.every((name) => columns[name]))
}

function widened({ from, to, rollup }: UsageQuery): { from: number; to: number } {
  const unit = rollup === 'hour' ? 'hour' : 'day'
  const end = unitOf(unit, to)
  return {
    from: startOf(unit, unitOf(unit, from)),
    to: startOf(unit, startOf(unit, end) < to ? end + 1 : end),
  }
}

/** Whole months are read from the table of months, the rest from that of days. */
function spansOf(rollup: Rollup, from: number, to: number, now: number): Span[] {
  if (rollup !== 'month')
    return [{ table: rollup, from: unitOf(rollup, from), to: unitOf(rollup, to) }]
  const spans: Span[] = []
  for (let at = from; at < to;) {
    const month = unitOf('month', at)
    const start = startOf('month', month)
    const end = Math.min(startOf('month', month + 1), to)
    // There are no calls of the future.
    const isWhole = at === start && (end === startOf('month', month + 1) || end > now)
    if (isWhole) spans.push({ table: 'month', from: month, to: month + 1, start })
    else spans.push({ table: 'day', from: unitOf('day', at), to: unitOf('day', end), start })
    at = end
  }
  return spans
}

function fitting({ rollup, filters }: UsageQuery): string {
  if (rollup === 'hour') return 'rollup=day'
  if (rollup === 'day') return 'rollup=month'
  return filters.key || filters.account ? 'a shorter range' : 'a filter by account or key'
}

/** The conditions of a question for one table, and their values. */
function conditionsOf(source: Source, query: UsageQuery, span: Span) {
  const { tagged, table, columns } = source
  // Labels are kept by day.
  const [from, to] = tagged ? daysOf(span) : [span.from, span.to]
  const conditions = ['unit >= ? AND unit < ?']
  const values: (string | number)[] = [from, to]
  const filters = Object.entries(query.filters) as [GroupName, readonly string[]][]
  const listed = filters.map(([name, wanted]) => ({
    sql: `${columns[name]} IN (${wanted.map(() => '?').join(', ')})`,
    wanted,
  }))
  if (tagged) {
    conditions.push('kind = ?', ...listed.map(({ sql }) => sql))
    values.push(labelOf(query)!)
  } else if (listed.length > 0) {
    const where = listed.map(({ sql }) => sql).join(' AND ')
    conditions.push(`group_id IN (SELECT id FROM ${table}_group WHERE ${where})`)
  }
  for (const { wanted } of listed) values.push(...wanted)
  return { where: conditions.join(' AND '), values }
}

function daysOf({ table, from, to }: Span): [number, number] {
  const dayOf = (unit: number) => unitOf('day', startOf(table, unit))
  return [dayOf(from), dayOf(to)]
}

function rowsIn(db: DatabaseSync, table: string, source: Source, query: UsageQuery, span: Span) {
  const { where, values } = conditionsOf(source, query, span)
  const counted = `SELECT 1 FROM ${table} WHERE ${where} LIMIT ${MOST_ROWS + 1}`
  return Number(db.prepare(`SELECT count(*) AS rows FROM (${counted})`).get(...values)!.rows)
}

/** @param rows that are read */
function* read(
  db: DatabaseSync,
  table: string,
  source: Source,
  query: UsageQuery,
  span: Span,
  rows: number,
): Generator<UsageCell> {
  const { where, values } = conditionsOf(source, query, span)
  const isCalled = source.table === 'called'
  const columns = isCalled ? calledColumns(rows) : settledColumns(source, reportedIn(db))
  const unit = span.start === undefined ? 'unit' : '0'
  const groups = query.group.map((name, i) => `${source.columns[name]} AS group_${i}`)
  const joined = source.tagged ? '' : ` JOIN ${source.table}_group ON id = group_id`
  const by = [unit === 'unit' ? ['unit'] : [], query.group.map((_, i) => `group_${i}`)].flat()
  const select = db.prepare(
    `SELECT ${[`${unit} AS unit_`, ...groups, ...columns].join(', ')} FROM ${table}${joined} ` +
      `WHERE ${where}${by.length > 0 ? ` GROUP BY ${by.join(', ')}` : ''}`,
  )
  // Rows as objects took twice as long as the sums themselves.
  select.setReturnArrays(true)
  const first = 1 + groups.length
  for (const row of select.iterate(...values) as Iterable<unknown> as Iterable<Values>) {
    // Without groups there is one row, also of nothing.
    if (row[first] === null) continue
    const start = span.start ?? startOf(source.tagged ? 'day' : span.table, Number(row[0]))
    const group = row.slice(1, first) as string[]
    const sums = row.slice(first) as (number | null)[]
    yield { start, group, ...(isCalled ? countsOf(sums) : settledOf(sums)) }
  }
}

type Values = readonly (string | number | null)[]

/** Quantities that any call has: sums of the others took up to a fifth of the time of an answer. */
function reportedIn(db: DatabaseSync): ReadonlySet<string> {
  const found = QUANTITIES.map((name) => `max(${name} IS NOT NULL) AS ${name}`).join(', ')
  const row = db.prepare(`SELECT ${found} FROM settled_month`).get()!
  return new Set(QUANTITIES.filter((name) => row[name] === 1))
}

/** In the order of {@link settledOf}. */
function settledColumns({ tagged }: Source, reported: ReadonlySet<string>): string[] {
  const isKept = (name: string) => name === 'prompt_tokens' || name === 'completion_tokens'
  const has = (name: string) => reported.has(name) && (!tagged || isKept(name))
  return [
    'sum(calls)',
    'sum(cost / 1000000000)',
    'sum(cost % 1000000000)',
    tagged ? '0' : 'sum(estimated)',
    ...QUANTITIES.map((name) => (has(name) ? `sum(${name})` : 'NULL')),
  ]
}

/** In the order of {@link COUNTED}; of many rows without the histograms. */
function calledColumns(rows: number): string[] {
  const isTimed = rows <= MOST_TIMED_ROWS
  return (isTimed ? COUNTED : COUNTS).map((name) => `sum(${name})`)
}

function settledOf([calls, billions, rest, estimated, ...quantities]: (
  | number
  | null
)[]): UsageSums {
  const cost = wholeOf({ billions: billions!, rest: rest! })
  return { calls: calls!, cost, estimated: estimated!, quantities, counts: undefined }
}

function countsOf(counts: (number | null)[]): UsageSums {
  return { ...noSums(), counts: counts as number[] }
}

function merge(cells: Map<string, UsageCell>, cell: UsageCell): void {
  const name = [cell.start, ...cell.group].join('\n')
  const known = cells.get(name)
  if (known) addSums(known, cell)
  else cells.set(name, cell)
}

/** Adds sums to others, in place. */
export function addSums(sums: UsageSums, more: UsageSums): void {
  sums.calls += more.calls
  sums.cost += more.cost
  sums.estimated += more.estimated
  for (let i = 0; i < QUANTITIES.length; i++) {
    const count = more.quantities[i] ?? null
    if (count !== null) sums.quantities[i] = (sums.quantities[i] ?? 0) + count
  }
  const { counts } = more
  if (!counts) return
  if (!sums.counts) {
    sums.counts = [...counts]
    return
  }
  // Histograms that one of them lacks cannot be those of both.
  sums.counts.length = Math.min(sums.counts.length, counts.length)
  for (let i = 0; i < sums.counts.length; i++) sums.counts[i]! += counts[i]!
}

/** Sums of no calls. */
export function noSums(): UsageSums {
  return { calls: 0, cost: 0n, estimated: 0, quantities: [], counts: undefined }
}

/** One of the counts; undefined where there are none. */
export function countOf({ counts }: Pick<UsageSums, 'counts'>, name: string): number | undefined {
  return counts?.[COUNTED.indexOf(name)]
}

/** Keeps the largest groups apart. Cells by time, and in it by rank. */
function ranked(all: readonly UsageCell[], { metric, top }: UsageQuery) {
  const byGroup = new Map<string, { readonly sums: UsageSums; readonly cells: UsageCell[] }>()
  for (const cell of all) {
    const name = cell.group.join('\n')
    let group = byGroup.get(name)
    if (!group) byGroup.set(name, (group = { sums: noSums(), cells: [] }))
    addSums(group.sums, cell)
    group.cells.push(cell)
  }
  const groups = [...byGroup.values()].toSorted((one, other) =>
    byMetric(other.sums, one.sums, metric),
  )
  const totals = noSums()
  for (const { sums } of groups) addSums(totals, sums)
  // The sort keeps the order of ranks within a span.
  const byStart = (one: UsageCell, next: UsageCell) => one.start - next.start
  const cells = groups.slice(0, top).flatMap((group) => group.cells)
  const others = new Map<number, UsageCell>()
  for (const cell of groups.slice(top).flatMap((group) => group.cells)) {
    let sums = others.get(cell.start)
    if (!sums) others.set(cell.start, (sums = { ...noSums(), start: cell.start, group: [] }))
    addSums(sums, cell)
  }
  const other = [...others.values()].toSorted(byStart)
  return { cells: cells.toSorted(byStart), other, totals }
}

function byMetric(one: UsageSums, other: UsageSums, metric: Metric): number {
  if (metric === 'cost_usd') return one.cost < other.cost ? -1 : one.cost > other.cost ? 1 : 0
  return valueOf(one, metric) - valueOf(other, metric)
}

function valueOf(sums: UsageSums, metric: Metric): number {
  if (metric === 'calls') return sums.calls || (countOf(sums, 'calls') ?? 0)
  return countOf(sums, metric) ?? sums.quantities[QUANTITIES.indexOf(metric as Quantity)] ?? 0
}
