import { QUANTITIES, type Quantity } from '../../server/admin/resources/usage.ts'
import type { DatabaseSync } from 'node:sqlite'
import { wholeOf } from './settled.ts'
import type { Pico } from '../../money/money.ts'
import {
  amountIn,
  COUNTED,
  countOf,
  marginOf,
  noSums,
  type Metric,
  type UsageCell,
  type UsageSums,
} from './sums.ts'
import {
  AMOUNTS,
  COUNTS,
  EARNED_SUMS,
  startOf,
  unitOf,
  type Rollup,
  CALLED,
  CALLED_BY_KEY,
  CALLED_OVERALL,
  SETTLED,
  SETTLED_SUMMARIES,
  type TableSet,
  TAGGED_QUANTITIES,
} from './tables.ts'

export interface UsageAnswer extends RankedCells {
  readonly from: number
  readonly to: number
  readonly settled: boolean
}

/** A question that would read more rows than one answer may. */
export interface TooLarge {
  readonly rows: number
  /** Restrictions that fit. */
  readonly fits: string
}

const MOST_ROWS = 2_000_000
/** Rows above which histograms are left out: they would take longer than the rest of an answer. */
const MOST_TIMED_ROWS = 20_000
/** Multiple of the groups kept apart from which on they are found first. */
const MANY_GROUPS = 5
/** Largest share of all groups at which groups are looked up one by one. */
const FEW_GROUPS = 0.25

interface Part {
  readonly source: Source
  readonly span: Span
}

type Kept = readonly (readonly string[])[]

/** Cells by their starts, and by the names of their groups. */
type Cells = Map<number, Map<string, UsageCell>>

export function answerUsage(
  db: DatabaseSync,
  query: UsageQuery,
  now: number,
): UsageAnswer | TooLarge {
  const range = widened(query, query.rollup)
  const sources = sourcesOf(query)
  const settled = sources.some(({ of }) => of === 'settled')
  const answer = hasManyGroups(db, query, sources)
    ? largest(db, query, sources, range, now)
    : cellsOf(db, query, partsOf(query, sources, range, now))
  if ('fits' in answer) return answer
  return { ...range, settled, ...('totals' in answer ? answer : ranked(answer, query)) }
}

function partsOf(
  { rollup, isOneSpan }: UsageQuery,
  sources: readonly Source[],
  range: Range,
  now: number,
): Part[] {
  return sources.flatMap((source) =>
    spansOf(rollup, range, source.rollups, now).map((span) => ({
      source,
      span: isOneSpan ? { ...span, start: range.from } : span,
    })),
  )
}

function cellsOf(
  db: DatabaseSync,
  query: UsageQuery,
  parts: readonly Part[],
  kept?: Kept,
): readonly UsageCell[] | TooLarge {
  const cells: Cells = new Map()
  // No group is kept where there are no calls.
  if (kept?.length === 0) return []
  for (const part of parts) {
    const rows = rowsIn(db, query, part, kept)
    if (rows > MOST_ROWS) return { rows, fits: fitting(query) }
    read(db, query, part, rows, cells, kept)
  }
  return [...cells.values()].flatMap((ofStart) => [...ofStart.values()])
}

/** Whether so few of the groups are kept apart that it is faster to find them first. */
function hasManyGroups(db: DatabaseSync, query: UsageQuery, sources: readonly Source[]): boolean {
  if (query.group.length === 0 || sources.includes(TAGGED)) return false
  // Such a question may want all groups.
  if (query.top > MOST_ROWS / MANY_GROUPS) return false
  const many = MANY_GROUPS * query.top
  return sources.some(({ table, columns }) => {
    const names = query.group.map((name) => columns[name]).join(', ')
    const distinct = `SELECT DISTINCT ${names} FROM ${table}_group LIMIT ${many + 1}`
    return Number(db.prepare(`SELECT count(*) AS groups FROM (${distinct})`).get()!.groups) > many
  })
}

/**
 * Gives the result of {@link ranked} for all cells, without making them: the largest groups are found by the sums of whole
 * months and days, only their cells are read, and the rest is the sum of all without them.
 */
function largest(
  db: DatabaseSync,
  query: UsageQuery,
  sources: readonly Source[],
  range: Range,
  now: number,
): RankedCells | TooLarge {
  const kept = largestGroups(db, query, sources, range, now)
  if ('fits' in kept) return kept
  const cells = cellsOf(db, query, partsOf(query, sources, range, now), kept)
  if ('fits' in cells) return cells
  const whole = { ...query, group: [] }
  const same = sourcesOf(whole).filter((one) => sources.some(({ of }) => of === one.of))
  const sums = cellsOf(db, whole, partsOf(query, same, range, now))
  if ('fits' in sums) return sums
  const totals = noSums()
  for (const cell of sums) addSums(totals, cell)
  const top = ranked(cells, query).cells
  return { cells: top, other: kept.length < query.top ? [] : restOf(sums, top), totals }
}

/** The groups that are kept apart. Groups without the metric, which another source has, come last. */
function largestGroups(
  db: DatabaseSync,
  query: UsageQuery,
  sources: readonly Source[],
  range: Range,
  now: number,
): Kept | TooLarge {
  const kept = new Map<string, readonly string[]>()
  const isCounted = COUNTED.includes(query.metric) && query.metric !== 'calls'
  for (const source of isCounted ? sources.toReversed() : sources) {
    const parts = coverOf(range, source.rollups, now).map((span) => ({ source, span }))
    for (const part of parts) {
      const rows = rowsIn(db, query, part)
      if (rows > MOST_ROWS) return { rows, fits: fitting(query) }
    }
    for (const group of rankedIn(db, query, parts)) {
      if (kept.size < query.top) kept.set(nameOf(group), group)
    }
    if (kept.size >= query.top) break
  }
  return [...kept.values()]
}

/** Groups of one source, the largest first. */
function rankedIn(db: DatabaseSync, query: UsageQuery, parts: readonly Part[]): Kept {
  const [{ source }] = parts as [Part]
  const values: Value[] = []
  const sums = parts.map((part) => {
    const rows = rowsOf(db, query, part, false)
    values.push(...rows.values)
    return `SELECT s.group_id AS id, ${measureOf(query.metric, source)} AS measure FROM ${rows.from} GROUP BY s.group_id`
  })
  const names = query.group.map((name) => `g.${source.columns[name]}`)
  const select = db.prepare(
    `SELECT ${names.join(', ')} FROM (${sums.join(' UNION ALL ')}) s
     CROSS JOIN ${source.table}_group g ON g.id = s.id
     GROUP BY ${names.join(', ')} ORDER BY sum(measure) DESC LIMIT ?`,
  )
  select.setReturnArrays(true)
  return select.all(...values, query.top) as unknown as Kept
}

/** The sum that ranks groups; for amounts it is not exact, because a whole may pass 64 bits. */
function measureOf(metric: Metric, { of }: Source): string {
  const counted: readonly string[] = COUNTS
  if (metric === 'cost_usd')
    return of === 'settled' ? 'total(s.billions * 1e9 + s.rest)' : 'sum(s.calls)'
  if (metric === 'margin_usd') {
    const usd = (name: string) => `s.${name}_billions * 1e9 + s.${name}_rest`
    const earned = `${usd('known_cost')} - (${usd('known_refunded')}) - (${usd('vendor')})`
    return of === 'settled' ? `total(${earned})` : 'sum(s.calls)'
  }
  const isThere = metric === 'calls' || counted.includes(metric) === (of === 'called')
  return isThere ? `total(s.${metric})` : 'sum(s.calls)'
}

function fitting({ rollup, filters }: UsageQuery): string {
  if (rollup === 'hour') return 'rollup=day'
  if (rollup === 'day') return 'rollup=month'
  return filters.key || filters.account ? 'a shorter range' : 'a filter by account or key'
}

type Value = string | number

/** SQL of the rows `s` of a part with their groups `g`, and its values. */
interface Rows {
  readonly from: string
  readonly values: readonly Value[]
}

/**
 * The rows of a part. Few groups are looked up one by one; else all rows of the span are read.
 * @param isNamed whether the names of the groups are needed
 */
function rowsOf(
  db: DatabaseSync,
  query: UsageQuery,
  { source, span }: Part,
  isNamed: boolean,
  kept?: Kept,
): Rows {
  const { table } = source
  if (source === TAGGED) return taggedRows(query, span)
  const groups = groupsOf(source, query, kept)
  const join = 's.group_id = g.id AND s.unit >= ? AND s.unit < ?'
  const units = [span.from, span.to]
  if (groups.isAll && !isNamed) {
    return { from: `${table}_${span.table} s WHERE s.unit >= ? AND s.unit < ?`, values: units }
  }
  if (kept || isFew(db, source, groups)) {
    return {
      from: `${table}_group g CROSS JOIN ${table}_${span.table} s ON ${join} WHERE ${groups.where}`,
      values: [...units, ...groups.values],
    }
  }
  return {
    from: `${table}_${span.table} s CROSS JOIN ${table}_group g ON ${join} WHERE ${groups.where}`,
    values: [...units, ...groups.values],
  }
}

/** Labels have no table of groups. */
function taggedRows(query: UsageQuery, { table, from, to }: Span): Rows {
  const filters = filtersOf(TAGGED, query, 's')
  const where = ['s.unit >= ? AND s.unit < ?', 's.kind = ?', ...filters.map(({ sql }) => sql)]
  return {
    from: `${table === 'month' ? 'tagged_month' : 'tagged'} s WHERE ${where.join(' AND ')}`,
    values: [from, to, labelOf(query)!, ...filters.flatMap(({ wanted }) => wanted)],
  }
}

function groupsOf(source: Source, query: UsageQuery, kept?: Kept) {
  const filters = filtersOf(source, query, 'g')
  const where = filters.map(({ sql }) => sql)
  const values: Value[] = filters.flatMap(({ wanted }) => wanted)
  if (kept) {
    const names = query.group.map((name) => `g.${source.columns[name]}`).join(', ')
    const marks = `(${query.group.map(() => '?').join(', ')})`
    where.push(`(${names}) IN (VALUES ${kept.map(() => marks).join(', ')})`)
    values.push(...kept.flat())
  }
  return { where: where.length > 0 ? where.join(' AND ') : 'true', values, isAll: !where.length }
}

function filtersOf({ columns }: Source, { filters }: UsageQuery, of: 'g' | 's') {
  return (Object.entries(filters) as [GroupName, readonly string[]][]).map(([name, wanted]) => ({
    sql: `${of}.${columns[name]} IN (${wanted.map(() => '?').join(', ')})`,
    wanted,
  }))
}

function isFew(
  db: DatabaseSync,
  { table }: Source,
  { where, values, isAll }: ReturnType<typeof groupsOf>,
): boolean {
  if (isAll) return false
  const count = (where: string, values: readonly Value[]) =>
    Number(
      db.prepare(`SELECT count(*) AS n FROM ${table}_group g WHERE ${where}`).get(...values)!.n,
    )
  return count(where, values) <= FEW_GROUPS * count('true', [])
}

function rowsIn(db: DatabaseSync, query: UsageQuery, part: Part, kept?: Kept): number {
  const { from, values } = rowsOf(db, query, part, false, kept)
  const counted = `SELECT 1 FROM ${from} LIMIT ${MOST_ROWS + 1}`
  return Number(db.prepare(`SELECT count(*) AS rows FROM (${counted})`).get(...values)!.rows)
}

/** Adds the rows of a part to cells by the names of their groups. */
function read(
  db: DatabaseSync,
  query: UsageQuery,
  part: Part,
  rowCount: number,
  cells: Cells,
  kept?: Kept,
): void {
  const { source, span } = part
  const rows = rowsOf(db, query, part, query.group.length > 0, kept)
  const columns = source.of === 'called' ? calledColumns(rowCount) : settledColumns(db, source)
  const isRow = isEachRow(query, part)
  const unit = span.start === undefined ? 's.unit' : '0'
  const of = source === TAGGED ? 's' : 'g'
  const groups = query.group.map((name, i) => `${of}.${source.columns[name]} AS group_${i}`)
  const by = [unit === '0' ? [] : ['s.unit'], query.group.map((_, i) => `group_${i}`)].flat()
  // Adding up rows that are groups of their own took half of the time of an answer.
  const sums = columns.names.map((name) => (isRow ? `s.${name}` : `sum(s.${name})`))
  const select = db.prepare(
    `SELECT ${[unit, ...groups, ...sums].join(', ')} FROM ${rows.from}` +
      (by.length > 0 && !isRow ? ` GROUP BY ${by.join(', ')}` : ''),
  )
  // Rows as objects took twice as long as the sums themselves.
  select.setReturnArrays(true)
  const first = 1 + groups.length
  for (const row of select.iterate(...rows.values) as Iterable<unknown> as Iterable<Values>) {
    // Without groups there is one row even where no row matches.
    if (row[first] === null) continue
    const start = span.start ?? startOf(span.table, Number(row[0]))
    let ofStart = cells.get(start)
    if (!ofStart) cells.set(start, (ofStart = new Map()))
    const group = row.slice(1, first) as string[]
    const name = nameOf(group)
    const sums = row.slice(first) as (number | null)[]
    const cell = ofStart.get(name)
    if (cell) columns.add(cell, sums)
    else ofStart.set(name, columns.cellOf(start, group, sums))
  }
}

/** The name of a group. Texts that are put together are hashed anew: of 100,000 groups that took a sixth of an answer. */
function nameOf(group: readonly string[]): string {
  return group.length === 1 ? group[0]! : group.join('\n')
}

/** Columns that a key implies, nearly always: cells of one key in two teams are added up. */
const OF_KEY: readonly string[] = ['account', 'team']

/** Whether each row is a group of its own: the rows need no sorting then. */
function isEachRow({ group }: UsageQuery, { source, span }: Part): boolean {
  if (source === TAGGED || (span.start !== undefined && span.to - span.from > 1)) return false
  const names: readonly string[] = group
  const isOfKey = (name: string) => names.includes('key') && OF_KEY.includes(name)
  return Object.keys(source.columns).every((name) => names.includes(name) || isOfKey(name))
}

type Values = readonly (string | number | null)[]

/** Columns of a table, and the cell of their sums. */
interface Columns {
  readonly names: readonly string[]
  readonly cellOf: (start: number, group: readonly string[], sums: (number | null)[]) => UsageCell
  readonly add: (cell: UsageCell, sums: (number | null)[]) => void
}

/** Quantities and amounts that at least one call has: sums of the others took up to a fifth of the time of an answer. */
function reportedIn(db: DatabaseSync): ReadonlySet<string> {
  const columns = [
    ...QUANTITIES.map((name) => `max(${name} IS NOT NULL) AS ${name}`),
    ...EARNED_SUMS.map((name) => `max(${name} <> 0) AS ${name}`),
  ]
  const row = db.prepare(`SELECT ${columns.join(', ')} FROM settled_overall_day`).get()!
  return new Set([...QUANTITIES, ...EARNED_SUMS].filter((name) => row[name] === 1))
}

/** The calls and the cost come first, then what is reported. */
function settledColumns(db: DatabaseSync, source: Source): Columns {
  const reported = reportedIn(db)
  const isTagged = source === TAGGED
  const tagged: readonly string[] = TAGGED_QUANTITIES
  const has = (name: string) => reported.has(name) && (!isTagged || tagged.includes(name))
  const counts = isTagged ? [] : ['estimated']
  if (reported.has('known_calls')) counts.push('known_calls')
  const amounts = AMOUNTS.filter((name) => halvesOf(name).some((half) => reported.has(half)))
  const quantities = QUANTITIES.filter(has)
  const [estimated, known] = ['estimated', 'known_calls'].map((name) => {
    const place = counts.indexOf(name)
    return (sums: readonly (number | null)[]) => (place < 0 ? 0 : sums[FIRST.length + place]!)
  })
  const places = quantities.map((name) => QUANTITIES.indexOf(name))
  const amountPlaces = amounts.map((name) => AMOUNTS.indexOf(name))
  const columns: Columns = {
    names: [...FIRST, ...counts, ...quantities, ...amounts.flatMap(halvesOf)],
    add: (cell, sums) => addSums(cell, columns.cellOf(cell.start, cell.group, sums)),
    cellOf(start, group, sums) {
      let at = FIRST.length + counts.length
      const values: (number | null)[] = NONE.slice()
      for (const place of places) values[place] = sums[at++]!
      const paid = NOTHING.slice()
      for (const place of amountPlaces) {
        paid[place] = wholeOf({ billions: sums[at++]!, rest: sums[at++]! })
      }
      return {
        start,
        group,
        calls: sums[0]!,
        cost: wholeOf({ billions: sums[1]!, rest: sums[2]! }),
        estimated: estimated!(sums),
        knownCalls: known!(sums),
        amounts: paid,
        quantities: values,
        counts: undefined,
      }
    },
  }
  return columns
}

const FIRST = ['calls', 'billions', 'rest']
const NONE = QUANTITIES.map(() => null)
const NOTHING = AMOUNTS.map(() => 0n)

/** Columns of an amount. */
const halvesOf = (name: string) => [`${name}_billions`, `${name}_rest`]

/** Columns in the order of {@link COUNTED}; for many rows without the histograms. */
function calledColumns(rows: number): Columns {
  return {
    names: rows <= MOST_TIMED_ROWS ? COUNTED : COUNTS,
    add: (cell, counts) => addCounts(cell, counts as number[]),
    cellOf: (start, group, counts) => ({
      ...noSums(),
      start,
      group,
      counts: counts as number[],
    }),
  }
}

// The parts of a range of time, and their tables.

interface Range {
  /** ms since epoch */
  readonly from: number
  readonly to: number
}

interface Span {
  readonly table: Rollup
  /** Units of that table, half-open. */
  readonly from: number
  readonly to: number
  /** The span of the answer that the whole part belongs to; absent where each unit is a span of its own. */
  readonly start?: number
}

/** The range in whole hours, or with days and months in whole days. */
function widened({ from, to }: Range, rollup: Rollup): Range {
  const unit = rollup === 'hour' ? 'hour' : 'day'
  const end = unitOf(unit, to)
  return {
    from: startOf(unit, unitOf(unit, from)),
    to: startOf(unit, startOf(unit, end) < to ? end + 1 : end),
  }
}

/** The spans of an answer. Whole months are read from the table of months, where there is one, the rest from that of days. */
function spansOf(
  rollup: Rollup,
  { from, to }: Range,
  tables: readonly Rollup[],
  now: number,
): Span[] {
  if (rollup !== 'month')
    return [{ table: rollup, from: unitOf(rollup, from), to: unitOf(rollup, to) }]
  const spans: Span[] = []
  for (let at = from; at < to;) {
    const start = startOf('month', unitOf('month', at))
    const end = Math.min(nextOf('month', at), to)
    const part = { from: at, to: end }
    const table = tables.includes('month') && isWhole('month', part, now) ? 'month' : 'day'
    spans.push({ ...unitsOf(table, part), start })
    at = end
  }
  return spans
}

/** A range in as few units as the tables allow. It begins and ends with an hour. */
function coverOf({ from, to }: Range, tables: readonly Rollup[], now: number): Span[] {
  const spans: Span[] = []
  const largest = tables.toReversed()
  for (let at = from; at < to;) {
    const table =
      largest.find((one) => isWhole(one, { from: at, to: Math.min(nextOf(one, at), to) }, now)) ??
      'hour'
    const end = Math.min(nextOf(table, at), to)
    const last = spans.at(-1)
    const span = unitsOf(table, { from: at, to: end })
    if (last?.table === table && last.to === span.from)
      spans.splice(-1, 1, { ...last, to: span.to })
    else spans.push(span)
    at = end
  }
  return spans
}

/** Whether a unit lies wholly in the range; the future has no calls. */
function isWhole(unit: Rollup, { from, to }: Range, now: number): boolean {
  return from === startOf(unit, unitOf(unit, from)) && (to === nextOf(unit, from) || to > now)
}

function nextOf(unit: Rollup, at: number): number {
  return startOf(unit, unitOf(unit, at) + 1)
}

function unitsOf(table: Rollup, { from, to }: Range): Span {
  const last = unitOf(table, to - 1)
  return { table, from: unitOf(table, from), to: last + 1 }
}

/** Cells of the largest groups, and the sums of all others. */
interface RankedCells {
  readonly cells: readonly UsageCell[]
  readonly other: readonly UsageCell[]
  readonly totals: UsageSums
}

function addSums(sums: UsageSums, more: UsageSums): void {
  sums.calls += more.calls
  sums.cost += more.cost
  sums.estimated += more.estimated
  sums.knownCalls += more.knownCalls
  for (let i = 0; i < AMOUNTS.length; i++) {
    if (more.amounts[i] !== 0n) sums.amounts[i]! += more.amounts[i]!
  }
  for (let i = 0; i < QUANTITIES.length; i++) {
    const count = more.quantities[i] ?? null
    if (count !== null) sums.quantities[i] = (sums.quantities[i] ?? 0) + count
  }
  if (more.counts) addCounts(sums, more.counts)
}

function addCounts(sums: UsageSums, counts: readonly number[]): void {
  if (!sums.counts) {
    sums.counts = [...counts]
    return
  }
  // Histograms that one of them lacks cannot be those of both.
  sums.counts.length = Math.min(sums.counts.length, counts.length)
  for (let i = 0; i < sums.counts.length; i++) sums.counts[i]! += counts[i]!
}

interface Group {
  sums: UsageSums
  readonly cells: UsageCell[]
}

/** Cells by group; in one span each is a group of its own. */
function cellsByGroup(all: readonly UsageCell[]): Group[] {
  if (all.every(({ start }) => start === all[0]!.start)) {
    return all.map((cell) => ({ sums: cell, cells: [cell] }))
  }
  const groups = new Map<string, Group>()
  for (const cell of all) {
    const name = nameOf(cell.group)
    const group = groups.get(name)
    if (!group) {
      groups.set(name, { sums: cell, cells: [cell] })
      continue
    }
    // Sums of their own only where a group has several cells: copies of 100,000 took a tenth of the time.
    if (group.cells.length === 1) addSums((group.sums = noSums()), group.cells[0]!)
    addSums(group.sums, cell)
    group.cells.push(cell)
  }
  return [...groups.values()]
}

/** Separates the largest groups. Cells are ordered by time, and then by rank. */
export function ranked(
  all: readonly UsageCell[],
  { metric, top }: { readonly metric: Metric; readonly top: number },
): RankedCells {
  const groups = inOrder(cellsByGroup(all), metric)
  const totals = noSums()
  for (const { sums } of groups) addSums(totals, sums)
  const byStart = (one: UsageCell, next: UsageCell) => one.start - next.start
  const cells = groups.slice(0, top).flatMap((group) => group.cells)
  const others = new Map<number, UsageCell>()
  for (const cell of groups.slice(top).flatMap((group) => group.cells)) {
    let sums = others.get(cell.start)
    if (!sums) others.set(cell.start, (sums = { ...noSums(), start: cell.start, group: [] }))
    addSums(sums, cell)
  }
  const other = [...others.values()].toSorted(byStart)
  const bySpan = [...Map.groupBy(cells, ({ start }) => start)]
  const inSpans = bySpan.toSorted(([one], [next]) => one - next).flatMap(([, own]) => own)
  return { cells: inSpans, other, totals }
}

/** The largest group first. Numbers are compared faster than exact amounts, and in the same order where they differ. */
function inOrder(groups: readonly Group[], metric: Metric): readonly Group[] {
  const amountOf = { cost_usd: (sums: UsageSums) => sums.cost, margin_usd: marginOf }[
    metric as string
  ]
  const keyed = groups.map((group) => {
    const amount = amountOf?.(group.sums) ?? 0n
    return { group, amount, rank: amountOf ? Number(amount) : valueOf(group.sums, metric) }
  })
  const byAmount = (one: Pico, other: Pico) => (one < other ? -1 : one > other ? 1 : 0)
  return keyed
    .sort((one, other) => other.rank - one.rank || byAmount(other.amount, one.amount))
    .map(({ group }) => group)
}

/**
 * Sums without some of their cells, by span. A quantity of which nothing is left counts as not reported.
 * @param sums the sums of all groups. @param cells the cells of some of them
 */
function restOf(sums: readonly SpanSums[], cells: readonly SpanSums[]): readonly UsageCell[] {
  const bySpan = Map.groupBy(cells, ({ start }) => start)
  return sums
    .map((all) => {
      const part = noSums()
      for (const cell of bySpan.get(all.start) ?? []) addSums(part, cell)
      return { ...difference(all, part), start: all.start, group: [] }
    })
    .filter(
      ({ calls, counts, amounts }) =>
        calls > 0 || (counts?.[0] ?? 0) > 0 || amountIn({ amounts }, 'refunded') > 0n,
    )
    .toSorted((one, next) => one.start - next.start)
}

type SpanSums = Omit<UsageCell, 'group'>

function difference(all: UsageSums, part: UsageSums): UsageSums {
  return {
    calls: all.calls - part.calls,
    cost: all.cost - part.cost,
    estimated: all.estimated - part.estimated,
    knownCalls: all.knownCalls - part.knownCalls,
    amounts: all.amounts.map((amount, i) => amount - part.amounts[i]!),
    quantities: all.quantities.map((count, i) => {
      const other = part.quantities[i] ?? null
      // Seconds have a fraction.
      return count === null || other === null ? count : Number((count - other).toFixed(6)) || null
    }),
    // Possibly without the histograms, which both must have.
    counts: all.counts
      ?.slice(0, part.counts?.length)
      .map((count, i) => count - (part.counts?.[i] ?? 0)),
  }
}

function valueOf(sums: UsageSums, metric: Metric): number {
  if (metric === 'calls') return sums.calls || (countOf(sums, 'calls') ?? 0)
  return countOf(sums, metric) ?? sums.quantities[QUANTITIES.indexOf(metric as Quantity)] ?? 0
}

/** Groups of calls. `tag` and `user`: alone or with `key`, in days and months. */
export const GROUPS = [
  'account',
  'team',
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
export type GroupName = (typeof GROUPS)[number]

export interface UsageQuery {
  /** ms since epoch, half-open; widened to whole hours, with days and months to whole days. */
  readonly from: number
  readonly to: number
  readonly rollup: Rollup
  /** Groups of the answer, at most two. */
  readonly group: readonly GroupName[]
  /** Values of one filter are alternatives. */
  readonly filters: Readonly<Partial<Record<GroupName, readonly string[]>>>
  readonly metric: Metric
  /** Groups that are kept apart; the rest is `other`. */
  readonly top: number
  /** Whether the whole range is one span of the answer. */
  readonly isOneSpan?: boolean
  /** The only kind of sums to read; absent for both. */
  readonly of?: Source['of']
}

interface Source extends Omit<TableSet, 'groups'> {
  /** What is added up: settled calls, or circumstances. */
  readonly of: 'settled' | 'called'
  readonly columns: Readonly<Partial<Record<GroupName, string>>>
}

const source = (of: Source['of'], { groups, ...tables }: TableSet): Source => ({
  ...tables,
  of,
  columns: Object.fromEntries(groups.map((name) => [name === 'limited_by' ? 'limit' : name, name])),
})

/** Sources of each kind, the smallest first. */
const SOURCES: readonly (readonly Source[])[] = [
  [...SETTLED_SUMMARIES, SETTLED].map((tables) => source('settled', tables)),
  [CALLED_OVERALL, CALLED_BY_KEY, CALLED].map((tables) => source('called', tables)),
]
const TAGGED: Source = {
  table: 'tagged',
  of: 'settled',
  rollups: ['day', 'month'],
  columns: { account: 'account', key: 'key', tag: 'value', user: 'value' },
}

type Asked = Pick<UsageQuery, 'group' | 'filters' | 'of'> & Partial<Pick<UsageQuery, 'rollup'>>

/** The smallest tables that have what a question asks for. */
function sourcesOf(query: Asked): readonly Source[] {
  if (labelOf(query)) return [TAGGED]
  const names = namesIn(query)
  const has = ({ columns, rollups }: Source) =>
    names.every((name) => columns[name] !== undefined) &&
    (query.rollup !== 'hour' || rollups.includes('hour'))
  return SOURCES.flatMap((kind) => kind.find(has) ?? []).filter(
    ({ of }) => query.of === undefined || of === query.of,
  )
}

/** `tag` or `user`, where the question uses one of them. */
export function labelOf({ group, filters }: Asked): 'tag' | 'user' | undefined {
  return (['tag', 'user'] as const).find((name) => group.includes(name) || filters[name])
}

/** Whether a question can be answered: the tables do not hold every combination. */
export function isAnswerable(query: Asked & Pick<UsageQuery, 'rollup'>): boolean {
  if (!labelOf(query)) return sourcesOf(query).length > 0
  const names = namesIn(query)
  const isBoth = names.includes('tag') && names.includes('user')
  return !isBoth && query.rollup !== 'hour' && names.every((name) => TAGGED.columns[name])
}

function namesIn({ group, filters }: Asked): readonly GroupName[] {
  return [...group, ...(Object.keys(filters) as GroupName[])]
}
