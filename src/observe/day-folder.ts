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

/** ms of a day. */
export const DAY_MS = 86_400_000
const MIN_FREE_BYTES = 256 * 1024 * 1024
/** What SQLite adds to the name of a database. */
const PARTS = ['', '-wal', '-shm']

/** The UTC day of a moment, `2026-11-23`. */
export function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10)
}

const DAY = /^\d{4}-\d\d-\d\d/

/** The names of the databases of one kind. */
interface DayNames {
  /** In the folder of a day, such as `calls.db`. */
  readonly file: string
  /** What follows the day in the name of a file of a release before, such as `.db`. */
  readonly earlier: string
}

/** The databases of one kind in the folders of days: `<day>/<file>`. Those of a release before are beside these folders. */
export class DayFolder {
  readonly #path: string
  readonly #names: DayNames

  constructor(path: string, names: DayNames) {
    this.#path = path
    this.#names = names
  }

  /** Days that have a database, newest first; none where the folder is missing. */
  get days(): string[] {
    const found = namesIn(this.#path).flatMap((name) => (DAY.test(name) ? name.slice(0, 10) : []))
    return [...new Set(found)]
      .filter((day) => this.filesOf(day).length > 0)
      .toSorted()
      .toReversed()
  }

  /** The database of a day, for writing. */
  fileOf(day: string): string {
    return join(this.#path, day, this.#names.file)
  }

  /** The databases of a day that there are, that of now first. */
  filesOf(day: string): string[] {
    return this.#namesOf(day).filter((file) => existsSync(file))
  }

  /** Makes the folder of a day, of its owner alone. @returns the database in it */
  make(day: string): string {
    mkdirSync(join(this.#path, day), { recursive: true, mode: 0o700 })
    return this.fileOf(day)
  }

  /**
   * Removes what is older than these days, and the oldest days while all files are larger than this; the current day stays.
   * @param release closes what is open of a day, before its files are removed
   * @returns bytes of what is left
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

  /** Whether its disk has room for more. */
  get hasRoom(): boolean {
    const { bavail, bsize } = statfsSync(this.#path)
    return bavail * bsize >= MIN_FREE_BYTES
  }

  /** A folder with databases of another kind stays. */
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
