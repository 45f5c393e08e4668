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
  quantities: Partial<Record<Quantity, number>>
  estimated: number
  /** Circumstances; undefined where a group has none. */
  counts: Readonly<Record<string, number>> | undefined
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
const COUNTED = [...COUNTS, ...TOTAL_BUCKETS, ...FIRST_BUCKETS]

/** A part of the range, read from the table of one rollup. */
interface Span {
  readonly table: Rollup
  /** Units of that table, half-open. */
  readonly from: number
  readonly to: number
  /** The span of the answer that all of it belongs to; absent where each unit is a span of its own. */
  readonly start?: number
}

/** Answers a question. */
export function answerUsage(db: DatabaseSync, query: UsageQuery): UsageAnswer | TooLarge {
  const { from, to } = widened(query)
  const spans = spansOf(query.rollup, from, to)
  const cells = new Map<string, UsageCell>()
  const sources = sourcesOf(query)
  for (const source of sources) {
    for (const span of spans) {
      const table = source.tagged ? 'tagged' : `${source.table}_${span.table}`
      const rows = rowsIn(db, table, source, query, span)
      if (rows > MOST_ROWS) return { rows, fits: fitting(query) }
      for (const cell of read(db, table, source, query, span)) merge(cells, cell)
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
function spansOf(rollup: Rollup, from: number, to: number): Span[] {
  if (rollup !== 'month')
    return [{ table: rollup, from: unitOf(rollup, from), to: unitOf(rollup, to) }]
  const spans: Span[] = []
  for (let at = from; at < to;) {
    const month = unitOf('month', at)
    const start = startOf('month', month)
    const end = Math.min(startOf('month', month + 1), to)
    const isWhole = at === start && end === startOf('month', month + 1)
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

const sums = (names: readonly string[]) => names.map((name) => `sum(${name}) AS ${name}`)

function* read(
  db: DatabaseSync,
  table: string,
  source: Source,
  query: UsageQuery,
  span: Span,
): Generator<UsageCell> {
  const { where, values } = conditionsOf(source, query, span)
  const isCalled = source.table === 'called'
  const quantities = source.tagged ? ['prompt_tokens', 'completion_tokens'] : QUANTITIES
  const selected = isCalled
    ? sums(COUNTED)
    : [
        'sum(calls) AS calls',
        'sum(cost / 1000000000) AS billions, sum(cost % 1000000000) AS rest',
        ...(source.tagged ? [] : ['sum(estimated) AS estimated']),
        ...sums(quantities),
      ]
  const unit = span.start === undefined ? 'unit' : '0'
  const groups = query.group.map((name, i) => `${source.columns[name]} AS group_${i}`)
  const joined = source.tagged ? '' : ` JOIN ${source.table}_group ON id = group_id`
  const by = [unit === 'unit' ? ['unit'] : [], query.group.map((_, i) => `group_${i}`)].flat()
  const sql =
    `SELECT ${[`${unit} AS unit_`, ...groups, ...selected].join(', ')} FROM ${table}${joined} ` +
    `WHERE ${where}${by.length > 0 ? ` GROUP BY ${by.join(', ')}` : ''}`
  for (const row of db.prepare(sql).iterate(...values)) {
    // Without groups there is one row, also of nothing.
    if (row.calls === null) continue
    const start = span.start ?? startOf(source.tagged ? 'day' : span.table, Number(row.unit_))
    const group = query.group.map((_, i) => String(row[`group_${i}`]))
    yield { start, group, ...(isCalled ? countsOf(row) : settledOf(row, quantities)) }
  }
}

type Row = Readonly<Record<string, unknown>>

function settledOf(row: Row, names: readonly string[]): UsageSums {
  const reported = names.filter((name) => row[name] !== null)
  return {
    calls: Number(row.calls),
    cost: wholeOf({ billions: Number(row.billions), rest: Number(row.rest) }),
    quantities: Object.fromEntries(reported.map((name) => [name, Number(row[name])])),
    estimated: Number(row.estimated ?? 0),
    counts: undefined,
  }
}

function countsOf(row: Row): UsageSums {
  const counts = Object.fromEntries(COUNTED.map((name) => [name, Number(row[name])]))
  return { calls: 0, cost: 0n, quantities: {}, estimated: 0, counts }
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
  for (const [name, count] of Object.entries(more.quantities)) {
    const quantity = name as Quantity
    sums.quantities[quantity] = (sums.quantities[quantity] ?? 0) + count
  }
  if (!more.counts) return
  const counts = sums.counts ?? {}
  sums.counts = Object.fromEntries(
    COUNTED.map((name) => [name, (counts[name] ?? 0) + more.counts![name]!]),
  )
}

/** Sums of no calls. */
export function noSums(): UsageSums {
  return { calls: 0, cost: 0n, quantities: {}, estimated: 0, counts: undefined }
}

/** Keeps the largest groups apart. Cells by time, and in it by rank. */
function ranked(all: readonly UsageCell[], { metric, top }: UsageQuery) {
  const totals = noSums()
  const byGroup = new Map<string, UsageSums>()
  for (const cell of all) {
    addSums(totals, cell)
    const name = cell.group.join('\n')
    const sums = byGroup.get(name) ?? noSums()
    byGroup.set(name, sums)
    addSums(sums, cell)
  }
  const order = [...byGroup].toSorted(([, one], [, other]) => byMetric(other, one, metric))
  const ranks = new Map(order.map(([name], rank) => [name, rank]))
  const rankOf = ({ group }: UsageCell) => ranks.get(group.join('\n'))!
  const cells = all
    .filter((cell) => rankOf(cell) < top)
    .toSorted((one, other) => one.start - other.start || rankOf(one) - rankOf(other))
  const others = new Map<string, UsageCell>()
  for (const cell of all) {
    if (rankOf(cell) >= top) merge(others, { ...noSums(), ...structuredClone(cell), group: [] })
  }
  const other = [...others.values()].toSorted((one, next) => one.start - next.start)
  return { cells, other, totals }
}

function byMetric(one: UsageSums, other: UsageSums, metric: Metric): number {
  if (metric === 'cost_usd') return one.cost < other.cost ? -1 : one.cost > other.cost ? 1 : 0
  return valueOf(one, metric) - valueOf(other, metric)
}

function valueOf({ calls, quantities, counts }: UsageSums, metric: Metric): number {
  if (metric === 'calls') return calls
  return counts?.[metric] ?? quantities[metric as Quantity] ?? 0
}
