/**
 * The files of the request log: one SQLite database per UTC day, because a day is removed by unlinking its files while
 * requests run. Used by the thread of the log; by this thread for a log in memory.
 */
import { mkdirSync } from 'node:fs'
import { DatabaseSync, type StatementSync } from 'node:sqlite'
import { timeOf, ulidAt } from '../../state/ids.ts'
import { createFile, transact } from '../../state/sqlite/file.ts'
import { DAY_MS, dayOf, DayFolder } from '../day-folder.ts'
import { KEPT } from '../record.ts'
import { conditionsOf, MAKE_INDEXES, type LogPage, type LogQuery, type LogRow } from './query.ts'
import type { Dropped, LogBounds, LogStore, Stored } from './store.ts'

const HOUR_MS = 3_600_000
/** Files of days before that stay open for calls that end after midnight. */
const OPEN_FILES = 2
/** Pause after a fault of the disk. */
const PAUSE_MS = 30_000
/** Most of a log in memory, which keeps one day. */
const MEMORY_BYTES = 64 * 1024 * 1024
/** Rows that one question to a file looks at. */
const WINDOW = 5000
/** A page is answered with what was found by then. */
const MAX_QUERY_MS = 250
const VERSION = 2

const NAMES = KEPT.map(({ name }) => name)
const COLUMNS = KEPT.map(({ name, type }) =>
  name === 'id' ? 'id TEXT NOT NULL PRIMARY KEY' : `${name} ${type}`,
)
const SCHEMA = `
  CREATE TABLE IF NOT EXISTS call (${COLUMNS.join(', ')}) STRICT, WITHOUT ROWID;
  ${MAKE_INDEXES}
  PRAGMA user_version = ${VERSION};`
const INSERT = `INSERT OR IGNORE INTO call (${NAMES.join(', ')}) VALUES (${NAMES.map(() => '?').join(', ')})`

/** A database that is open for writing. */
interface OpenDay {
  readonly db: DatabaseSync
  readonly insert: StatementSync
}

/** The request log in one folder, or in memory. */
export class DayFiles implements LogStore {
  readonly #folder: DayFolder | undefined
  readonly #path: string | undefined
  readonly #bounds: LogBounds
  readonly #now: () => number
  /** By day, in the order in which they were opened; a log in memory has one, under the name ''. */
  readonly #open = new Map<string, OpenDay>()
  #trimmedAt = -Infinity
  #bytes = 0
  /** Nothing is stored until this moment, for this reason. */
  #paused: { readonly until: number; readonly fault: string } | undefined

  /** @param folder absent for a log in memory. @param now ms since epoch */
  constructor(folder: string | undefined, bounds: LogBounds, now = () => Date.now()) {
    this.#path = folder
    this.#folder = folder === undefined ? undefined : new DayFolder(folder, '.db')
    this.#bounds = bounds
    this.#now = now
  }

  /** Stores rows, in one transaction per day. Never throws. @param lines of `lineOf`, separated by line feeds */
  store(lines: string): Stored {
    const rows = lines.split('\n').map((line) => line.split('\t'))
    const dropped: Partial<Record<Dropped, number>> = {}
    const drop = (why: Dropped, count: number) => (dropped[why] = (dropped[why] ?? 0) + count)
    let stored = 0
    if (this.#now() - this.#trimmedAt > HOUR_MS) this.trim()
    for (const [number, ofDay] of Map.groupBy(rows, ([id]) => Math.floor(timeOf(id!) / DAY_MS))) {
      const day = this.#nameOf(number * DAY_MS)
      if (this.#isPaused()) {
        drop('disk', ofDay.length)
        continue
      }
      try {
        const open = this.#dayFor(day)
        if (open) stored += insertAll(open, ofDay)
        else drop('late', ofDay.length)
      } catch (error) {
        this.#pause(`the request log cannot be written: ${(error as Error).message}`)
        drop('disk', ofDay.length)
      }
    }
    if (this.#folder === undefined) this.#forgetCalls(stored)
    const fault = this.#paused?.fault
    return { rows: stored, dropped, bytes: this.#bytes, ...(fault !== undefined && { fault }) }
  }

  /** One page of calls. */
  list(query: LogQuery): LogPage {
    const until = performance.now() + MAX_QUERY_MS
    const { from = 0, to, after, limit } = query
    const rows: LogRow[] = []
    const unreadable: string[] = []
    let before = after ?? ulidAt(to ?? this.#now() + DAY_MS)
    if (to !== undefined && timeOf(before) > to) before = ulidAt(to)
    const lowest = ulidAt(from)
    for (const day of this.#daysBefore(timeOf(before))) {
      const end = day === '' ? 0 : Date.parse(day) + DAY_MS
      if (day !== '' && end <= from) break
      let found: string | undefined
      try {
        found = this.#reading(day, (db) => search(db, query, { before, lowest, rows, until }))
      } catch {
        unreadable.push(day)
      }
      if (found !== undefined) {
        // The page is full, or the time is up.
        const searchedTo = timeOf(found)
        return { rows: rows.slice(0, limit), next: found, searchedTo, unreadable }
      }
    }
    return { rows, unreadable }
  }

  /** The row of a call; undefined when there is none. */
  find(id: string): LogRow | undefined {
    const day = this.#nameOf(timeOf(id))
    if (!this.#days().includes(day)) return undefined
    return this.#reading(day, (db) => {
      const select = db.prepare('SELECT * FROM call WHERE id = ?')
      select.setReadBigInts(true)
      return select.get(id) as LogRow | undefined
    })
  }

  /** Removes what is older or larger than the bounds; the current day stays. */
  trim(): void {
    this.#trimmedAt = this.#now()
    try {
      if (this.#folder === undefined) return this.#forgetDays()
      mkdirSync(this.#path!, { recursive: true, mode: 0o700 })
      this.#trimFiles(this.#folder)
    } catch (error) {
      this.#pause(`the request log cannot be written: ${(error as Error).message}`)
    }
  }

  /** Closes all files. */
  close(): void {
    for (const { db } of this.#open.values()) db.close()
    this.#open.clear()
  }

  /** Removes what is older than a day from memory. */
  #forgetDays(): void {
    const db = this.#open.get('')?.db
    db?.prepare('DELETE FROM call WHERE id < ?').run(ulidAt(this.#now() - DAY_MS))
  }

  /** Removes the oldest calls from a full memory: twice as many as came, so that no removal takes long. */
  #forgetCalls(came: number): void {
    const db = this.#open.get('')?.db
    if (!db) return
    this.#bytes = bytesIn(db)
    if (this.#bytes <= Math.min(this.#bounds.size, MEMORY_BYTES)) return
    const oldest = 'SELECT id FROM call ORDER BY id LIMIT ?'
    db.prepare(`DELETE FROM call WHERE id IN (${oldest})`).run(2 * came)
  }

  #trimFiles(folder: DayFolder): void {
    this.#bytes = folder.trim(this.#bounds, this.#now(), (day) => {
      this.#open.get(day)?.db.close()
      this.#open.delete(day)
    })
    if (!folder.hasRoom) this.#pause('the request log pauses: its disk is full')
    if (this.#bytes > this.#bounds.size) {
      this.#pause('the request log pauses: the calls of today have reached log.size')
    }
  }

  #pause(fault: string): void {
    this.#paused = { until: this.#now() + PAUSE_MS, fault }
    this.close()
  }

  #isPaused(): boolean {
    if (!this.#paused) return false
    if (this.#now() < this.#paused.until) return true
    this.#paused = undefined
    this.trim()
    return this.#paused !== undefined
  }

  #nameOf(ms: number): string {
    return this.#folder === undefined ? '' : dayOf(ms)
  }

  /** Opens the database of a day; undefined for a day whose calls are not kept any more. */
  #dayFor(day: string): OpenDay | undefined {
    const known = this.#open.get(day)
    if (known) return known
    if (this.#folder !== undefined) {
      const isOld = day < dayOf(this.#now() - DAY_MS)
      if (isOld && !this.#days().includes(day)) return undefined
      const file = this.#folder.fileOf(day)
      createFile(file)
      const db = new DatabaseSync(file, { timeout: 2000 })
      db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL')
      addColumns(db)
      db.exec(SCHEMA)
      return this.#keep(day, db)
    }
    const db = new DatabaseSync(':memory:')
    db.exec(SCHEMA)
    return this.#keep(day, db)
  }

  #keep(day: string, db: DatabaseSync): OpenDay {
    const open = { db, insert: db.prepare(INSERT) }
    this.#open.set(day, open)
    for (const [oldest, { db: old }] of this.#open) {
      if (this.#open.size <= OPEN_FILES) break
      old.close()
      this.#open.delete(oldest)
    }
    return open
  }

  /** Newest first. */
  #days(): string[] {
    if (this.#folder === undefined) return [...this.#open.keys()]
    return this.#folder.days
  }

  #daysBefore(ms: number): string[] {
    const last = this.#nameOf(ms)
    return this.#days().filter((day) => day <= last)
  }

  /** Runs a question on the database of a day, which is opened for it where it is not open. A file without tables has no calls. */
  #reading<Result>(day: string, ask: (db: DatabaseSync) => Result): Result | undefined {
    const open = this.#open.get(day)
    if (open) return ask(open.db)
    const db = new DatabaseSync(this.#folder!.fileOf(day), { readOnly: true, timeout: 2000 })
    try {
      return db.prepare('SELECT 1 FROM sqlite_schema LIMIT 1').get() && ask(db)
    } finally {
      db.close()
    }
  }
}

/** The file of today may be one of an earlier version, which has fewer columns. */
function addColumns(db: DatabaseSync): void {
  const known = columnsIn(db)
  if (known.size === 0) return
  for (const { name, type } of KEPT) {
    if (!known.has(name)) db.exec(`ALTER TABLE call ADD COLUMN ${name} ${type}`)
  }
}

function columnsIn(db: DatabaseSync): Set<string> {
  return namesIn(db, `pragma_table_info('call')`)
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

/** @returns how many of them are new */
function insertAll({ db, insert }: OpenDay, rows: readonly (readonly string[])[]): number {
  return transact(db, () => {
    let stored = 0
    for (const row of rows) {
      const values = KEPT.map(({ place }) => row[place] || null)
      stored += Number(insert.run(...values).changes)
    }
    return stored
  })
}

/** The place of a search: ids below `before`, down to `lowest`. Rows are added to `rows`. */
interface Search {
  readonly before: string
  readonly lowest: string
  readonly rows: LogRow[]
  readonly until: number
}

/**
 * Looks through one database, newest first, a window at a time.
 * @returns the last id that was looked at when the page is full or the time is up; undefined at the end of the database
 */
function search(db: DatabaseSync, query: LogQuery, { lowest, rows, until, ...at }: Search) {
  const known = namesIn(db, `pragma_index_list('call')`)
  const { from, indexed, rest, indexedValues, restValues } = conditionsOf(query, known)
  // Rows of an earlier version have no value there.
  const columns = columnsIn(db)
  if (Object.keys(query.filters).some((name) => !columns.has(name))) return undefined
  const inner = `FROM ${from} WHERE id < ? AND id >= ? AND ${indexed} ORDER BY id DESC`
  const select = db.prepare(
    `SELECT * FROM (SELECT * ${inner} LIMIT ${WINDOW}) WHERE ${rest} LIMIT ?`,
  )
  select.setReadBigInts(true)
  const last = db.prepare(`SELECT id ${inner} LIMIT 1 OFFSET ${WINDOW - 1}`)
  let { before } = at
  for (;;) {
    const wanted = query.limit + 1 - rows.length
    const found = select.all(before, lowest, ...indexedValues, ...restValues, wanted) as LogRow[]
    rows.push(...found)
    // One row more than the page tells that there is another page.
    if (rows.length > query.limit) return rows[query.limit - 1]!.id as string
    const end = last.get(before, lowest, ...indexedValues)?.id as string | undefined
    if (end === undefined) return undefined
    before = end
    if (performance.now() > until) return end
  }
}
