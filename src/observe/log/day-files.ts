/**
 * The files of the request log: one SQLite database per UTC day, because a day is removed by unlinking its files while
 * requests run. Calls are stored as they cross, a batch in a row; a narrow row for each says where it is. Used by the thread of
 * the log; by this thread for a log in memory.
 */
import { mkdirSync } from 'node:fs'
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { timeOf, ulidAt } from '../../state/ids.ts'
import { transact } from '../../state/sqlite/file.ts'
import { DAY_MS, DayDatabases, dayOf, type DayFolder, type OpenDay } from '../day-folder.ts'
import { callIn, callsIn, keptLine, type KnownCall } from '../record.ts'
import { callOfRow, type EarlierRow } from './earlier.ts'
import {
  hasDecision,
  valuesOf,
  type LogPage,
  type LogQuery,
  type Dropped,
  type LogBounds,
  type LogStore,
  type Stored,
  type FilterName,
  FILTERS,
} from './query.ts'

/** Columns that lists read, beside the id. */
const COLUMNS: readonly string[] = [
  ...FILTERS.map((name) => `${name} TEXT`),
  ...['status', 'stream', 'cost', 'ms_total'].map((name) => `${name} INTEGER`),
]

/** Calls with a failure, without an end, or with a decision of guards: few among all. */
const BAD = "(status >= 400 OR outcome <> 'completed' OR guard = 'blocked')"

/** The word of `endOf` from the columns of a call. */
const END = `CASE WHEN guard = 'blocked' OR outcome = 'refused' THEN 'blocked' WHEN limited_by IS NOT NULL THEN 'limited'
  WHEN outcome = 'cancelled' THEN 'left' WHEN status BETWEEN 400 AND 499 THEN 'rejected'
  WHEN outcome = 'failed' THEN 'failed' ELSE 'completed' END`

const CHARGED = "(cost IS NOT NULL AND outcome IS NOT 'replayed')"

const UNFINISHED = "outcome <> 'completed'"

const DECIDED = "guard <> 'passed'"

/** An index of calls by column, or of some calls, each in the order of arrival. */
interface CallIndex {
  readonly name: string
  readonly column?: FilterName
  /** Condition on the calls in it; absent for all. */
  readonly where?: string
  /** Whether the index has exactly the calls that a query asks for; absent where a value of the column decides that. */
  readonly fits?: (query: LogQuery) => boolean
}

const rare = (column: FilterName): CallIndex => ({
  name: `call_${column}`,
  column,
  where: `${column} IS NOT NULL`,
})

const isUnfinished = ({ filters }: LogQuery) =>
  filters.outcome?.every((one) => one !== 'completed' && one !== '') ?? false

/** A decision about a call that passed has no rule, and so three words at most. */
const isDecided = ({ filters, decided }: LogQuery) =>
  (filters.guard?.every((one) => one !== 'passed' && one !== '') ?? false) ||
  (decided?.every((one) => one.split(' ').length > 3) ?? false)

const isBad = (query: LogQuery) =>
  (query.status?.every(([from]) => from >= 400) ?? false) ||
  (query.ends?.every((end) => end !== 'completed') ?? false) ||
  isUnfinished(query) ||
  (query.filters.limited_by?.every((one) => one !== '') ?? false)

/** The first one that fits a query finds it fastest. One of all calls of an account or a model would cost each call more than the rest. */
const INDEXES: readonly CallIndex[] = [
  rare('session'),
  { name: 'call_bad_key', column: 'key', where: BAD, fits: isBad },
  { name: 'call_key', column: 'key' },
  rare('user'),
  rare('code'),
  rare('limited_by'),
  { name: 'call_outcome', column: 'outcome', where: UNFINISHED, fits: isUnfinished },
  { name: 'call_guard', column: 'guard', where: DECIDED, fits: isDecided },
  { name: 'call_decided', where: DECIDED, fits: isDecided },
  { name: 'call_bad_account', column: 'account', where: BAD, fits: isBad },
  { name: 'call_bad', where: BAD, fits: isBad },
  rare('tag'),
]

const MAKE_INDEXES = INDEXES.map(({ name, column, where }) => {
  const columns = column === undefined ? 'id' : `${column}, id`
  return `CREATE INDEX IF NOT EXISTS ${name} ON call (${columns})${where === undefined ? '' : ` WHERE ${where}`};`
}).join('\n')

/** SQL of a query: conditions that an index satisfies, and conditions to check row by row. */
interface Conditions {
  /** The table, with the index. */
  readonly from: string
  readonly indexed: string
  readonly rest: string
  /** Values of both, in their order. */
  readonly indexedValues: readonly (string | number | bigint)[]
  readonly restValues: readonly (string | number | bigint)[]
}

/** Splits a query for SQLite. @param known existing indexes */
function conditionsOf(query: LogQuery, indexes: ReadonlySet<string>): Conditions {
  const { filters, status, ends, stream, charged, keyed, minCost, minMs } = query
  const index = INDEXES.find(
    ({ name, column, fits }) =>
      indexes.has(name) &&
      (!column || (filters[column]?.length === 1 && filters[column][0] !== '')) &&
      (fits?.(query) ?? true),
  )
  const column = index?.column
  const indexed = [...(column ? [`${column} = ?`] : []), ...(index?.fits ? [index.where!] : [])]
  const rest: string[] = []
  const restValues: (string | number | bigint)[] = []
  for (const name of FILTERS) {
    const values = filters[name]
    if (!values || name === column) continue
    rest.push(`ifnull(${name}, '') IN (${values.map(() => '?').join(', ')})`)
    restValues.push(...values)
  }
  if (status) {
    rest.push(`(${status.map(() => 'status BETWEEN ? AND ?').join(' OR ')})`)
    restValues.push(...status.flat())
  }
  if (charged !== undefined) rest.push(`${charged ? '' : 'NOT '}${CHARGED}`)
  if (keyed !== undefined) rest.push(`key IS ${keyed ? 'NOT ' : ''}NULL`)
  if (ends) {
    rest.push(`${END} IN (${ends.map(() => '?').join(', ')})`)
    restValues.push(...ends)
  }
  const more: [string, string | number | bigint | undefined][] = [
    ['stream = ?', stream === undefined ? undefined : Number(stream)],
    ['cost >= ?', minCost],
    ['ms_total >= ?', minMs],
  ]
  for (const [condition, value] of more) {
    if (value === undefined) continue
    rest.push(condition)
    restValues.push(value)
  }
  return {
    from: index ? `call INDEXED BY ${index.name}` : 'call',
    indexed: indexed.join(' AND ') || 'true',
    rest: rest.join(' AND ') || 'true',
    indexedValues: column ? filters[column]! : [],
    restValues,
  }
}

const HOUR_MS = 3_600_000
/** Number of earlier days' files that stay open for calls that end after midnight. */
const OPEN_FILES = 2
/** Most bytes of a log in memory, which keeps one day. */
const MEMORY_BYTES = 64 * 1024 * 1024
/** Calls of a file that one question reads at a time. */
const WINDOW = 5000
/** Time after which a page is answered with the calls read so far. */
const MAX_QUERY_MS = 250
/** Files of versions 1 and 2 have a row of all members for each call, and are read until they are removed. */
const VERSION = 3

/** `calls`: lines of calls, separated by line feeds; `first`, `last`: the lowest and the highest id of them. */
const SCHEMA = `
  CREATE TABLE IF NOT EXISTS batch (
    seq INTEGER PRIMARY KEY, first TEXT NOT NULL, last TEXT NOT NULL, calls TEXT NOT NULL) STRICT;
  CREATE TABLE IF NOT EXISTS call (
    id TEXT NOT NULL PRIMARY KEY, batch INTEGER NOT NULL, ${COLUMNS.join(', ')}) STRICT, WITHOUT ROWID;
  ${MAKE_INDEXES}
  PRAGMA user_version = ${VERSION};`
const INSERT = `INSERT OR IGNORE INTO call VALUES (?, ?, ${COLUMNS.map(() => '?').join(', ')})`

interface OpenCalls extends OpenDay {
  readonly batch: StatementSync
  readonly insert: StatementSync
}

function prepare(db: DatabaseSync): OpenCalls {
  const { user_version: version } = db.prepare('PRAGMA user_version').get()!
  if (Number(version) > VERSION) throw new Error('it was written by a newer version')
  db.exec(SCHEMA)
  const batch = db.prepare('INSERT INTO batch (first, last, calls) VALUES (?, ?, ?)')
  return { db, batch, insert: db.prepare(INSERT) }
}

/** A call, and the line in which it crossed. */
interface CrossedCall {
  readonly line: string
  readonly call: KnownCall
}

export class DayFiles implements LogStore {
  readonly #path: string | undefined
  readonly #bounds: LogBounds
  readonly #now: () => number
  readonly #days: DayDatabases<OpenCalls>
  #trimmedAt = -Infinity
  #bytes = 0

  constructor(folder: string | undefined, bounds: LogBounds, now = () => Date.now()) {
    this.#path = folder
    this.#bounds = bounds
    this.#now = now
    const names = { file: 'calls.db', earlier: '.db' }
    this.#days = new DayDatabases({ ...names, folder, prepare, most: OPEN_FILES, now })
  }

  /** Stores calls, in one transaction per day. Never throws. @param lines the lines of `lineOf`, separated by line feeds */
  store(lines: string): Stored {
    const calls = lines.split('\n').map((line) => ({ line, call: callIn(line) }))
    const dropped: Partial<Record<Dropped, number>> = {}
    const drop = (reason: Dropped, count: number) =>
      (dropped[reason] = (dropped[reason] ?? 0) + count)
    let stored = 0
    if (this.#now() - this.#trimmedAt > HOUR_MS) this.trim()
    const days = Map.groupBy(calls, ({ call }) => Math.floor(timeOf(bare(call)) / DAY_MS))
    for (const [number, ofDay] of days) {
      const day = this.#days.dayOf(number * DAY_MS)
      if (this.#days.isPaused(() => this.trim())) {
        drop('disk', ofDay.length)
        continue
      }
      try {
        if (this.#isGone(day)) drop('late', ofDay.length)
        else stored += insertAll(this.#days.ofDay(day), ofDay)
      } catch (error) {
        this.#failed(error)
        drop('disk', ofDay.length)
      }
    }
    this.#forgetCalls(stored)
    const { fault } = this.#days
    return { rows: stored, dropped, bytes: this.#bytes, ...(fault !== undefined && { fault }) }
  }

  list(query: LogQuery): LogPage {
    const until = performance.now() + MAX_QUERY_MS
    const { from = 0, to, after, limit } = query
    const calls: KnownCall[] = []
    const unreadable = new Set<string>()
    let before = after ?? ulidAt(to ?? this.#now() + DAY_MS)
    if (to !== undefined && timeOf(before) > to) before = ulidAt(to)
    const lowest = ulidAt(from)
    const newest = this.#days.dayOf(timeOf(before))
    for (const day of this.#days.days) {
      if (day > newest) continue
      const end = day === '' ? 0 : Date.parse(day) + DAY_MS
      if (day !== '' && end <= from) break
      for (const file of this.#days.filesOf(day)) {
        let last: string | undefined
        try {
          last = this.#days.reading(file, (db) =>
            search(db, query, { before, lowest, calls, until }),
          )
        } catch {
          unreadable.add(day)
        }
        if (last === undefined) continue
        // The page is full, or the time is up.
        const searchedTo = timeOf(last)
        return {
          calls: calls.slice(0, limit),
          next: last,
          searchedTo,
          unreadable: [...unreadable],
          ...this.#completeFrom(),
        }
      }
    }
    return { calls, unreadable: [...unreadable], ...this.#completeFrom() }
  }

  /** The beginning of the oldest day: days are removed whole, but for that of a log in memory. */
  #completeFrom(): Pick<LogPage, 'completeFrom'> {
    const day = this.#days.days.at(-1)
    return day ? { completeFrom: Date.parse(day) } : {}
  }

  find(id: string): KnownCall | undefined {
    for (const file of this.#days.filesOf(this.#days.dayOf(timeOf(id)))) {
      const call = this.#days.reading(file, (db) => {
        const select = db.prepare('SELECT * FROM call WHERE id = ?')
        select.setReadBigInts(true)
        const row = select.get(id) as EarlierRow | undefined
        return row && readerOf(db)(row)
      })
      if (call) return call
    }
    return undefined
  }

  /** Removes what is older or larger than the bounds; the current day stays. */
  trim(): void {
    this.#trimmedAt = this.#now()
    try {
      if (!this.#days.folder) return this.#forgetDays()
      mkdirSync(this.#path!, { recursive: true, mode: 0o700 })
      this.#trimFiles(this.#days.folder)
    } catch (error) {
      this.#failed(error)
    }
  }

  close(): void {
    this.#days.close()
  }

  #forgetDays(): void {
    const oldest = ulidAt(this.#now() - DAY_MS)
    const db = this.#days.memory
    db?.prepare('DELETE FROM call WHERE id < ?').run(oldest)
    db?.prepare('DELETE FROM batch WHERE last < ?').run(oldest)
  }

  /** Removes the oldest batches from a full memory: about twice as many calls as came, so that no removal takes long. */
  #forgetCalls(came: number): void {
    const db = this.#days.memory
    if (!db) return
    this.#bytes = bytesIn(db)
    if (this.#bytes <= Math.min(this.#bounds.size, MEMORY_BYTES)) return
    const oldest = db.prepare('SELECT seq, calls FROM batch ORDER BY seq LIMIT 1')
    const removeBatch = db.prepare('DELETE FROM batch WHERE seq = ?')
    const removeCall = db.prepare('DELETE FROM call WHERE id = ?')
    for (let removed = 0; removed < 2 * came;) {
      const batch = oldest.get()
      if (!batch) return
      const calls = callsIn(String(batch.calls))
      for (const call of calls) removeCall.run(bare(call))
      removeBatch.run(batch.seq!)
      removed += calls.length
    }
  }

  #trimFiles(folder: DayFolder): void {
    this.#bytes = this.#days.trim(folder, this.#bounds)
    if (!folder.hasRoom) this.#days.pause('the request log pauses: its disk is full')
    if (this.#bytes > this.#bounds.size) {
      this.#days.pause('the request log pauses: the calls of today have reached log.size')
    }
  }

  #failed(error: unknown): void {
    this.#days.pause(`the request log cannot be written: ${(error as Error).message}`)
  }

  /** Whether the calls of a day are removed already. */
  #isGone(day: string): boolean {
    const isOld = day !== '' && day < dayOf(this.#now() - DAY_MS)
    return isOld && !this.#days.days.includes(day)
  }
}

function bare({ id }: KnownCall): string {
  return id.slice(4)
}

function namesIn(db: DatabaseSync, pragma: string): Set<string> {
  const rows = db.prepare(`SELECT name FROM ${pragma}`).all()
  return new Set(rows.map(({ name }) => String(name)))
}

/** Bytes of a database that hold something; removed rows leave pages that are used again. */
function bytesIn(db: DatabaseSync): number {
  const pages = (name: string) => Number(Object.values(db.prepare(`PRAGMA ${name}`).get()!)[0])
  return (pages('page_count') - pages('freelist_count')) * pages('page_size')
}

function insertAll({ db, batch, insert }: OpenCalls, calls: readonly CrossedCall[]): number {
  return transact(db, () => {
    const ids = calls.map(({ call }) => bare(call)).toSorted()
    const lines = calls.map(({ line, call }) => keptLine(line, call)).join('\n')
    const { lastInsertRowid } = batch.run(ids[0]!, ids.at(-1)!, lines)
    let stored = 0
    for (const { call } of calls) {
      stored += Number(insert.run(bare(call), lastInsertRowid, ...valuesOf(call)).changes)
    }
    return stored
  })
}

/** Reads calls of a database by their rows. */
function readerOf(db: DatabaseSync): (row: EarlierRow) => KnownCall {
  const batches = new Map<unknown, string>()
  return (row) => {
    if (row.batch === undefined) return callOfRow(row)
    let calls = batches.get(row.batch)
    if (calls === undefined) {
      calls = String(db.prepare('SELECT calls FROM batch WHERE seq = ?').get(row.batch)!.calls)
      batches.set(row.batch, calls)
    }
    // No text within a line has such quotes.
    const start = calls.indexOf(`{"id":"req_${row.id}"`)
    const end = calls.indexOf('\n', start)
    return callIn(calls.slice(start, end < 0 ? undefined : end))
  }
}

/** State of a search: ids below `before`, down to `lowest`. Calls are added to `calls`. */
interface Search {
  readonly before: string
  readonly lowest: string
  readonly calls: KnownCall[]
  readonly until: number
}

/**
 * Searches one database, newest first, a window at a time.
 * @returns the last id examined when the page is full or the time is up; undefined at the end of the database
 */
function search(db: DatabaseSync, query: LogQuery, { lowest, calls, until, ...at }: Search) {
  const indexes = namesIn(db, `pragma_index_list('call')`)
  // Calls of an earlier version have no value there.
  const columns = namesIn(db, `pragma_table_info('call')`)
  const [stored, absent] = [true, false].map((is) =>
    Object.entries(query.filters).filter(([name]) => columns.has(name) === is),
  )
  if (absent!.some(([, values]) => !values.includes(''))) return undefined
  const filters = Object.fromEntries(stored!)
  const conditions = conditionsOf({ ...query, filters }, indexes)
  const { from, indexed, rest, indexedValues, restValues } = conditions
  const inner = `FROM ${from} WHERE id < ? AND id >= ? AND ${indexed} ORDER BY id DESC`
  const select = db.prepare(
    `SELECT * FROM (SELECT * ${inner} LIMIT ${WINDOW}) WHERE ${rest} LIMIT ?`,
  )
  select.setReadBigInts(true)
  const last = db.prepare(`SELECT id ${inner} LIMIT 1 OFFSET ${WINDOW - 1}`)
  const read = readerOf(db)
  let { before } = at
  for (;;) {
    const { decided } = query
    // No column has the decisions: they are compared in the calls themselves.
    const wanted = decided ? WINDOW : query.limit + 1 - calls.length
    const rows = select.all(before, lowest, ...indexedValues, ...restValues, wanted)
    const records = (rows as EarlierRow[]).map(read)
    calls.push(...(decided ? records.filter((call) => hasDecision(call, decided)) : records))
    // One call more than the page tells that there is another page.
    if (calls.length > query.limit) return bare(calls[query.limit - 1]!)
    const end = last.get(before, lowest, ...indexedValues)?.id as string | undefined
    if (end === undefined) return undefined
    before = end
    if (performance.now() > until) return end
  }
}
