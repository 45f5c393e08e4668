/** Folders of days: one per UTC day, because a day is removed by unlinking its files while requests run. */
import {
  existsSync,
  mkdirSync,
  readdirSync,
  rmdirSync,
  rmSync,
  statfsSync,
  statSync,
} from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { createFile } from '../state/sqlite/file.ts'

export const DAY_MS = 86_400_000
const MIN_FREE_BYTES = 256 * 1024 * 1024
const PARTS = ['', '-wal', '-shm']

/** The UTC day of a moment, `2026-11-23`. */
export function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10)
}

const DAY = /^\d{4}-\d\d-\d\d/

interface DayNames {
  /** Name in the folder of a day, such as `calls.db`. */
  readonly file: string
  /** Suffix after the day in the file names of an earlier release, such as `.db`. */
  readonly earlier: string
}

/** The databases of one kind in the folders of days: `<day>/<file>`. Files of an earlier release are beside these folders. */
export class DayFolder {
  readonly #path: string
  readonly #names: DayNames

  constructor(path: string, names: DayNames) {
    this.#path = path
    this.#names = names
  }

  /** Days that have a database, newest first; none where the folder is missing. */
  get days(): string[] {
    const names = namesIn(this.#path).flatMap((name) => (DAY.test(name) ? name.slice(0, 10) : []))
    return [...new Set(names)]
      .filter((day) => this.filesOf(day).length > 0)
      .toSorted()
      .toReversed()
  }

  fileOf(day: string): string {
    return join(this.#path, day, this.#names.file)
  }

  /** Existing databases of a day, the one of the present form first. */
  filesOf(day: string): string[] {
    return this.#namesOf(day).filter((file) => existsSync(file))
  }

  /** Makes the folder of a day, readable by its owner only. @returns the path of the database in it */
  make(day: string): string {
    mkdirSync(join(this.#path, day), { recursive: true, mode: 0o700 })
    return this.fileOf(day)
  }

  /**
   * Removes days before the bound in days, and the oldest days while all files exceed the bound in bytes; the current day
   * stays.
   * @param release closes what is open of a day, before its files are removed
   * @returns bytes of the remaining files
   */
  trim(
    bounds: { readonly keep: number; readonly size: number },
    now: number,
    release: (day: string) => void,
  ): number {
    const today = dayOf(now)
    const oldest = dayOf(now - bounds.keep * DAY_MS)
    const { days } = this
    const sizes = new Map(days.map((day) => [day, this.#sizeOf(day)]))
    const sum = () => [...sizes.values()].reduce((total, bytes) => total + bytes, 0)
    for (const day of days.toReversed()) {
      if (day >= today || (day >= oldest && sum() <= bounds.size)) continue
      release(day)
      for (const file of this.#partsOf(day)) rmSync(file, { force: true })
      this.#removeEmpty(day)
      sizes.delete(day)
    }
    return sum()
  }

  /** Whether the disk has room for more. */
  get hasRoom(): boolean {
    const { bavail, bsize } = statfsSync(this.#path)
    return bavail * bsize >= MIN_FREE_BYTES
  }

  /** Keeps a folder that has databases of another kind. */
  #removeEmpty(day: string): void {
    const folder = join(this.#path, day)
    if (existsSync(folder) && namesIn(folder).length === 0) rmdirSync(folder)
  }

  #namesOf(day: string): string[] {
    return [this.fileOf(day), join(this.#path, `${day}${this.#names.earlier}`)]
  }

  #partsOf(day: string): string[] {
    return this.#namesOf(day).flatMap((file) => PARTS.map((part) => file + part))
  }

  #sizeOf(day: string): number {
    const sizes = this.#partsOf(day).map((file) => statSync(file, { throwIfNoEntry: false })?.size)
    return sizes.reduce<number>((sum, size) => sum + (size ?? 0), 0)
  }
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
}

export interface OpenDay {
  readonly db: DatabaseSync
}

interface DayOptions<Open extends OpenDay> extends DayNames {
  /** It is absent for one database in memory, whose day and file are ''. */
  readonly folder: string | undefined
  /** Makes tables and statements. @throws Error for a database that cannot be continued */
  readonly prepare: (db: DatabaseSync) => Open
  /** Most databases that stay open for writing. */
  readonly most: number
  /** ms since epoch */
  readonly now: () => number
}

/** Pause after a fault of the disk. */
const PAUSE_MS = 30_000

/** The databases of one kind by day, in a folder or in memory: opened on demand, and not used while the disk is at fault. */
export class DayDatabases<Open extends OpenDay> {
  readonly folder: DayFolder | undefined
  readonly #options: DayOptions<Open>
  /** Open databases by file, in the order in which they were opened. */
  readonly #open = new Map<string, Open>()
  #paused: { readonly until: number; readonly fault: string } | undefined

  constructor(options: DayOptions<Open>) {
    this.#options = options
    const { folder } = options
    this.folder = folder === undefined ? undefined : new DayFolder(folder, options)
  }

  dayOf(ms: number): string {
    return this.folder ? dayOf(ms) : ''
  }

  get days(): readonly string[] {
    return this.folder?.days ?? (this.#open.size > 0 ? [''] : [])
  }

  /** Existing databases of a day. */
  filesOf(day: string): readonly string[] {
    return this.folder?.filesOf(day) ?? (this.#open.size > 0 ? [''] : [])
  }

  /** The database in memory, once it is open. */
  get memory(): DatabaseSync | undefined {
    return this.folder ? undefined : this.#open.get('')?.db
  }

  /** Opens the database of a day for writing. @throws where it cannot be written, or is of a newer version */
  ofDay(day: string): Open {
    return this.opened(this.folder?.make(day) ?? '')
  }

  opened(file: string): Open {
    const opened = this.#open.get(file)
    if (opened) return opened
    const db = this.folder ? openFile(file) : new DatabaseSync(':memory:')
    try {
      const open = this.#options.prepare(db)
      this.#open.set(file, open)
      for (const [oldest] of this.#open)
        if (this.#open.size > this.#options.most) this.#release(oldest)
      return open
    } catch (error) {
      db.close()
      throw error
    }
  }

  /** Runs a question on a database, which is opened for it if necessary. A file without tables has no answer. */
  reading<Result>(file: string, ask: (db: DatabaseSync) => Result): Result | undefined {
    const open = this.#open.get(file)
    if (open) return ask(open.db)
    const db = new DatabaseSync(file, { readOnly: true, timeout: 2000 })
    try {
      return db.prepare('SELECT 1 FROM sqlite_schema LIMIT 1').get() && ask(db)
    } finally {
      db.close()
    }
  }

  /** See {@link DayFolder.trim}. @returns bytes of all files */
  trim(folder: DayFolder, bounds: Parameters<DayFolder['trim']>[0]): number {
    return folder.trim(bounds, this.#options.now(), (day) => {
      for (const file of folder.filesOf(day)) this.#release(file)
    })
  }

  /** Stops writing for a while. @param fault the reason */
  pause(fault: string): string {
    this.#paused = { until: this.#options.now() + PAUSE_MS, fault }
    this.close()
    return fault
  }

  get fault(): string | undefined {
    return this.#paused?.fault
  }

  /** Whether writing is paused. @param retry called when the pause is over */
  isPaused(retry: () => void = () => {}): boolean {
    if (!this.#paused) return false
    if (this.#options.now() < this.#paused.until) return true
    this.#paused = undefined
    retry()
    return this.#paused !== undefined
  }

  close(): void {
    for (const file of this.#open.keys()) this.#release(file)
  }

  #release(file: string): void {
    this.#open.get(file)?.db.close()
    this.#open.delete(file)
  }
}

function openFile(file: string): DatabaseSync {
  createFile(file)
  const db = new DatabaseSync(file, { timeout: 2000 })
  db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL')
  return db
}
