/**
 * Contents of calls, where both the configuration and the key allow it. They may be lost, and are counted then; nothing on
 * the way of a request waits for them, and a full disk or a slow thread drops them before it drops anything else.
 */
import type { ConsolaInstance } from 'consola'
import { mkdirSync } from 'node:fs'
import type { DatabaseSync, SQLInputValue } from 'node:sqlite'
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import type { ThreadClient } from '../../threads/client.ts'
import { DayFolder, DAY_MS, DayDatabases, dayOf, type OpenDay } from '../day-folder.ts'
import type { CallContent } from './content.ts'
import { timeOf, ulidAt } from '../../state/ids.ts'

export type ContentQuestion =
  | { readonly content: string }
  | { readonly contents: ContentQuery }
  | { readonly remove: ContentRemoval }

export interface ContentStored {
  readonly fault?: string | undefined
}

interface ContentLogOptions {
  readonly thread: Pick<
    ThreadClient<{ readonly content: CallContent }, ContentQuestion, never>,
    'ready' | 'post' | 'ask'
  >
  /** It is absent for contents in memory. */
  readonly folder: string | undefined
  readonly log: Pick<ConsolaInstance, 'error'>
}

/** Most characters that the thread has not acknowledged. */
const MAX_QUEUED = 8 * 1024 * 1024

export class ContentLog {
  readonly #options: ContentLogOptions
  /** Characters of each content that was not acknowledged. */
  #sent: number[] = []
  #queued = 0
  #fault: string | undefined
  #used = false
  /** Calls whose contents are missing although they were to be kept, since the start. */
  dropped = 0

  constructor(options: ContentLogOptions) {
    this.#options = options
  }

  add(content: CallContent): void {
    const { thread } = this.#options
    const characters = content.input.length + content.output.length
    if (this.#queued + characters > MAX_QUEUED || !thread.ready) {
      this.dropped++
      return
    }
    this.#used = true
    this.#queued += characters
    this.#sent.push(characters)
    thread.post({ content })
  }

  /** The contents of a call. @param id the id of the request. @throws Unavailable when they cannot be read */
  async find(id: string): Promise<CallContent | undefined> {
    return this.hasAny ? this.#options.thread.ask({ content: id }) : undefined
  }

  /** Newest first. @throws Unavailable */
  async list(query: ContentQuery): Promise<readonly CallContent[]> {
    return this.hasAny ? this.#options.thread.ask({ contents: query }) : []
  }

  /** Removes contents for good. @returns the number of calls. @throws Unavailable */
  async remove(which: ContentRemoval): Promise<number> {
    return this.hasAny ? this.#options.thread.ask({ remove: which }) : 0
  }

  /** Whether there may be any: a folder that cannot be read counts as one that has some, and the thread says why. */
  get hasAny(): boolean {
    const { folder } = this.#options
    if (this.#used || folder === undefined) return this.#used
    try {
      return new DayFolder(folder, CONTENT_NAMES).days.length > 0
    } catch {
      return true
    }
  }

  acknowledged({ fault }: ContentStored): void {
    this.#queued -= this.#sent.shift() ?? 0
    if (fault !== undefined) this.dropped++
    if (fault !== this.#fault && fault !== undefined) this.#options.log.error(fault)
    this.#fault = fault
  }

  lost(): void {
    this.dropped += this.#sent.splice(0).length
    this.#queued = 0
  }
}

// The files of contents: one SQLite database per UTC day beside those of the request log, readable by their owner only.
// Used by the thread of contents; by this thread where the log is in memory.

/** Bounds on what is kept, in days and in bytes of all files; the oldest days go first. */
export interface ContentBounds {
  readonly keep: number
  readonly size: number
}

const CONTENT_NAMES = { file: 'contents.db', earlier: '.content.db' }
/** Most contents in memory; the oldest are removed first. */
const MEMORY_ROWS = 1000
const SCHEMA = `
  PRAGMA secure_delete = ON;
  CREATE TABLE IF NOT EXISTS content (
    id TEXT NOT NULL PRIMARY KEY,
    account TEXT NOT NULL,
    key TEXT NOT NULL,
    user TEXT,
    endpoint TEXT NOT NULL,
    model TEXT,
    decided TEXT NOT NULL,
    input BLOB NOT NULL,
    output BLOB NOT NULL,
    cut INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX IF NOT EXISTS content_key ON content (key, id);
  PRAGMA user_version = 1;`
const INSERT = `INSERT OR IGNORE INTO content
  (id, account, key, user, endpoint, model, decided, input, output, cut) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

export class ContentFiles {
  readonly #path: string | undefined
  readonly #bounds: ContentBounds
  readonly #now: () => number
  readonly #days: DayDatabases<OpenDay>
  /** Files of which contents were removed, but which may still have their bytes. */
  readonly #uncleaned = new Set<string>()
  /** Approximate bytes of all files. */
  #bytes = 0

  /** @param path absent for contents in memory. @param now ms since epoch */
  constructor(path: string | undefined, bounds: ContentBounds, now: () => number) {
    this.#path = path
    this.#bounds = bounds
    this.#now = now
    const prepare = (db: DatabaseSync) => {
      db.exec(SCHEMA)
      return { db }
    }
    this.#days = new DayDatabases({ ...CONTENT_NAMES, folder: path, prepare, most: 1, now })
  }

  /** Stores contents. Never throws. @returns why they could not be stored */
  store(content: CallContent): string | undefined {
    const { folder } = this.#days
    if (this.#days.isPaused()) return this.#days.fault
    try {
      const id = bare(content.id)
      const { account, key, user, endpoint, model, decided, cut } = content
      const [input, output] = [packed(content.input), packed(content.output)]
      if (folder) this.#checkRoom(folder, input.length + output.length)
      const { db } = this.#days.ofDay(this.#days.dayOf(timeOf(id)))
      const values: SQLInputValue[] = [id, account, key, user ?? null, endpoint, model ?? null]
      values.push(JSON.stringify(decided), input, output, Number(cut))
      db.prepare(INSERT).run(...values)
      if (!folder) forgetOldest(db)
      return undefined
    } catch (error) {
      return this.#days.pause(`contents cannot be written: ${(error as Error).message}`)
    }
  }

  /** The contents of a call; undefined where none are kept. @param id the id of the request */
  find(id: string): CallContent | undefined {
    for (const file of this.#days.filesOf(this.#days.dayOf(timeOf(bare(id))))) {
      const row = this.#days.reading(file, (db) =>
        db.prepare('SELECT * FROM content WHERE id = ?').get(bare(id)),
      )
      if (row) return contentOf(row)
    }
    return undefined
  }

  /** Newest first. */
  list({ key, from = 0, to = this.#now() + DAY_MS, limit }: ContentQuery): CallContent[] {
    const contents: CallContent[] = []
    const where = key === undefined ? '' : 'AND key = ?'
    const sql = `SELECT * FROM content WHERE id >= ? AND id < ? ${where} ORDER BY id DESC LIMIT ?`
    for (const { day, file } of this.#files) {
      if (contents.length >= limit) break
      if (day !== '' && (day > dayOf(to) || day < dayOf(from))) continue
      const bounds: SQLInputValue[] = [
        ulidAt(from),
        ulidAt(to),
        ...(key === undefined ? [] : [key]),
      ]
      const rows = this.#days.reading(file, (db) =>
        db.prepare(sql).all(...bounds, limit - contents.length),
      )
      contents.push(...(rows ?? []).map(contentOf))
    }
    return contents
  }

  /**
   * Removes contents for good: no byte of them is left in a file.
   * @returns how many
   * @throws where the disk is full, or another process reads a file; the next attempt goes on with what is left
   */
  remove({ key, user, before }: ContentRemoval): number {
    const conditions: [string, SQLInputValue | undefined][] = [
      ['key = ?', key],
      ['user = ?', user],
      ['id < ?', before === undefined ? undefined : ulidAt(before)],
    ]
    const chosen = conditions.flatMap(([sql, value]) =>
      value === undefined ? [] : [{ sql, value }],
    )
    if (chosen.length === 0) return 0
    const sql = `DELETE FROM content WHERE ${chosen.map((one) => one.sql).join(' AND ')}`
    let removed = 0
    for (const { file } of this.#files) {
      const { db } = this.#days.opened(file)
      const { changes } = db.prepare(sql).run(...chosen.map(({ value }) => value))
      removed += Number(changes)
      if (changes > 0) this.#uncleaned.add(file)
      if (!this.#uncleaned.has(file)) continue
      cleanUp(db)
      this.#uncleaned.delete(file)
    }
    return removed
  }

  trim(): void {
    try {
      const { folder, memory } = this.#days
      if (folder) this.#trimFiles(folder)
      else {
        const oldest = ulidAt(this.#now() - this.#bounds.keep * DAY_MS)
        memory?.prepare('DELETE FROM content WHERE id < ?').run(oldest)
      }
    } catch (error) {
      this.#days.pause(`contents cannot be removed: ${(error as Error).message}`)
    }
  }

  close(): void {
    this.#days.close()
  }

  /** The newest day first. */
  get #files(): readonly { readonly day: string; readonly file: string }[] {
    const { days } = this.#days
    return days.flatMap((day) => this.#days.filesOf(day).map((file) => ({ day, file })))
  }

  /** @param more bytes to store. @throws where the disk is full, or contents have reached their bound */
  #checkRoom(folder: DayFolder, more: number): void {
    mkdirSync(this.#path!, { recursive: true, mode: 0o700 })
    if (!folder.hasRoom) throw new Error('the disk is full')
    if (this.#bytes + more > this.#bounds.size) this.#trimFiles(folder)
    if (this.#bytes + more > this.#bounds.size) {
      throw new Error('those of today have reached log.size')
    }
    this.#bytes += more
  }

  #trimFiles(folder: DayFolder): void {
    this.#bytes = this.#days.trim(folder, this.#bounds)
  }
}

function cleanUp(db: DatabaseSync): void {
  try {
    // Moves of rows within the file may have left copies.
    db.exec('VACUUM')
  } catch (error) {
    emptyLog(db)
    throw error
  }
  emptyLog(db)
}

/** Empties the write-ahead log, whose pages still have deleted text. @throws where another process reads them */
function emptyLog(db: DatabaseSync): void {
  const done = db.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get()
  if (done?.busy === 1) throw new Error('another process reads the file')
}

function bare(id: string): string {
  return id.replace(/^req_/, '')
}

function packed(text: string): Uint8Array {
  return zstdCompressSync(text)
}

function unpacked(value: unknown): string {
  return zstdDecompressSync(value as Uint8Array).toString()
}

function forgetOldest(db: DatabaseSync): void {
  db.prepare(
    'DELETE FROM content WHERE id IN (SELECT id FROM content ORDER BY id DESC LIMIT -1 OFFSET ?)',
  ).run(MEMORY_ROWS)
}

function contentOf(row: Readonly<Record<string, unknown>>): CallContent {
  const { id, account, key, user, endpoint, model, decided, input, output, cut } = row
  return {
    id: `req_${String(id)}`,
    account: String(account),
    key: String(key),
    ...(user !== null && { user: String(user) }),
    endpoint: String(endpoint),
    ...(model !== null && { model: String(model) }),
    decided: JSON.parse(String(decided)) as CallContent['decided'],
    input: unpacked(input),
    output: unpacked(output),
    cut: cut === 1,
  }
}

interface ContentQuery {
  /** It is absent for all keys. */
  readonly key?: string | undefined
  /** Half-open range, ms since epoch. */
  readonly from?: number | undefined
  readonly to?: number | undefined
  readonly limit: number
}

/** Which contents to remove; at least one member. */
interface ContentRemoval {
  readonly key?: string | undefined
  readonly user?: string | undefined
  /** Upper bound, exclusive, ms since epoch. */
  readonly before?: number | undefined
}
