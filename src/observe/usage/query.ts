/** Questions about usage, and their answers from the tables. */
import type { DatabaseSync } from 'node:sqlite'
import { wholeOf } from './settled.ts'
import {
  addSums,
  byMetric,
  COUNTED,
  merge,
  noSums,
  ranked,
  type Metric,
  type RankedCells,
  type UsageCell,
  type UsageSums,
} from './sums.ts'
import {
  CALLED_GROUPS,
  COUNTS,
  QUANTITIES,
  SETTLED_GROUPS,
  startOf,
  unitOf,
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

/** The answer from the tables. */
export interface UsageAnswer extends RankedCells {
  readonly from: number
  readonly to: number
  /** Whether sums of the ledger are in it: they are not grouped by what only circumstances have. */
  readonly settled: boolean
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
/** A part of the range, read from the table of one rollup. */
interface Span {
  readonly table: Rollup
  /** Units of that table, half-open. */
  readonly from: number
  readonly to: number
  /** The span of the answer that all of it belongs to; absent where each unit is a span of its own. */
  readonly start?: number
}

/** A part of an answer: a span of one source, and the number of its rows. */
interface Part {
  readonly table: string
  readonly source: Source
  readonly span: Span
  readonly rows: number
}

/** Groups by their ids: only these, or all but these. */
type Narrowed = { readonly in: readonly number[] } | { readonly notIn: readonly number[] }

/** Times as many groups as are kept apart. */
const MANY_GROUPS = 5

/** Answers a question. @param now ms since epoch */
export function answerUsage(
  db: DatabaseSync,
  query: UsageQuery,
  now: number,
): UsageAnswer | TooLarge {
  const { from, to } = widened(query)
  const spans = spansOf(query.rollup, from, to, now)
  const sources = sourcesOf(query)
  const parts: Part[] = []
  for (const source of sources) {
    for (const span of spans) {
      const table = source.tagged ? 'tagged' : `${source.table}_${span.table}`
      const rows = rowsIn(db, table, source, query, span)
      if (rows > MOST_ROWS) return { rows, fits: fitting(query) }
      parts.push({ table, source, span, rows })
    }
  }
  const settled = sources.some(({ table }) => table === 'settled')
  const found = hasManyGroups(db, query, sources)
    ? largest(db, query, parts)
    : ranked(
        cellsOf(parts, (part) => read(db, query, part)),
        query,
      )
  return { from, to, settled, ...found }
}

function cellsOf(
  parts: readonly Part[],
  readPart: (part: Part) => Iterable<UsageCell>,
): readonly UsageCell[] {
  const cells = new Map<string, UsageCell>()
  for (const part of parts) for (const cell of readPart(part)) merge(cells, cell)
  return [...cells.values()]
}

/** Whether so few of the groups are kept apart that it is faster to find them first. */
function hasManyGroups(db: DatabaseSync, query: UsageQuery, sources: readonly Source[]): boolean {
  if (query.group.length === 0 || sources.some(({ tagged }) => tagged)) return false
  // Some questions want all groups.
  if (query.top > MOST_ROWS / MANY_GROUPS) return false
  const many = MANY_GROUPS * query.top
  return sources.some(({ table, columns }) => {
    const names = query.group.map((name) => columns[name]).join(', ')
    const distinct = `SELECT DISTINCT ${names} FROM ${table}_group LIMIT ${many + 1}`
    return Number(db.prepare(`SELECT count(*) AS groups FROM (${distinct})`).get()!.groups) > many
  })
}

/**
 * As {@link ranked} of all cells, without making them: sums of whole groups tell which are kept apart, and only their cells
 * are read, and the sums of all others. A third of the time, with a thousand groups and thirty days.
 */
function largest(db: DatabaseSync, query: UsageQuery, parts: readonly Part[]): RankedCells {
  const groups = new Map<
    string,
    { readonly sums: UsageSums; readonly ids: Map<Source, Set<number>> }
  >()
  const totals = noSums()
  for (const part of parts) {
    const names = groupNames(db, query, part.source)
    for (const { id, sums } of readGroups(db, query, part)) {
      const name = names.get(id)!
      let group = groups.get(name)
      if (!group) groups.set(name, (group = { sums: noSums(), ids: new Map() }))
      addSums(group.sums, sums)
      addSums(totals, sums)
      const ids = group.ids.get(part.source)
      if (ids) ids.add(id)
      else group.ids.set(part.source, new Set([id]))
    }
  }
  const kept = [...groups.values()]
    .toSorted((one, other) => byMetric(other.sums, one.sums, query.metric))
    .slice(0, query.top)
  const idsOf = (source: Source) => kept.flatMap(({ ids }) => [...(ids.get(source) ?? [])])
  const cells = cellsOf(parts, (part) => read(db, query, part, { in: idsOf(part.source) }))
  const other = cellsOf(parts, (part) =>
    read(db, { ...query, group: [] }, part, { notIn: idsOf(part.source) }),
  )
  return {
    cells: ranked(cells, query).cells,
    other: other.toSorted((one, next) => one.start - next.start),
    totals,
  }
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
function conditionsOf(source: Source, query: UsageQuery, span: Span, narrowed?: Narrowed) {
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
  if (narrowed) {
    const [is, ids] = 'in' in narrowed ? ['IN', narrowed.in] : ['NOT IN', narrowed.notIn]
    // The plus keeps SQLite from looking each group up.
    conditions.push(`+group_id ${is} (SELECT value FROM json_each(?))`)
    values.push(JSON.stringify(ids))
  }
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

function* read(
  db: DatabaseSync,
  query: UsageQuery,
  { table, source, span, rows }: Part,
  narrowed?: Narrowed,
): Generator<UsageCell> {
  const { where, values } = conditionsOf(source, query, span, narrowed)
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

/** Sums of whole groups, by the id of the group. */
function* readGroups(
  db: DatabaseSync,
  query: UsageQuery,
  { table, source, span, rows }: Part,
): Generator<{ readonly id: number; readonly sums: UsageSums }> {
  const { where, values } = conditionsOf(source, query, span)
  const isCalled = source.table === 'called'
  const columns = isCalled ? calledColumns(rows) : settledColumns(source, reportedIn(db))
  const select = db.prepare(
    `SELECT group_id, ${columns.join(', ')} FROM ${table} WHERE ${where} GROUP BY group_id`,
  )
  select.setReturnArrays(true)
  for (const row of select.iterate(...values) as Iterable<unknown> as Iterable<Values>) {
    const [id, ...sums] = row as (number | null)[]
    yield { id: id!, sums: isCalled ? countsOf(sums) : settledOf(sums) }
  }
}

/** Names of groups, as they are in a question, by id. */
function groupNames(db: DatabaseSync, { group }: UsageQuery, { table, columns }: Source) {
  const select = db.prepare(
    `SELECT id, ${group.map((name) => columns[name]).join(', ')} FROM ${table}_group`,
  )
  select.setReturnArrays(true)
  const rows = select.all() as unknown as readonly (readonly [number, ...string[]])[]
  return new Map(rows.map(([id, ...values]) => [id, values.join('\n')]))
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
