/** Files of days: one SQLite database per UTC day and kind, because a day is removed by unlinking its files while requests run. */
import { readdirSync, rmSync, statfsSync, statSync } from 'node:fs'
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

/** The databases of one kind in a folder: `<day><suffix>`, such as `.db`. */
export class DayFolder {
  readonly #path: string
  readonly #suffix: string

  constructor(path: string, suffix: string) {
    this.#path = path
    this.#suffix = suffix
  }

  /** Days that have a file, newest first; none where the folder is missing. */
  get days(): string[] {
    return namesIn(this.#path)
      .filter((name) => /^\d{4}-\d\d-\d\d\./.test(name) && name.slice(10) === this.#suffix)
      .map((name) => name.slice(0, 10))
      .toSorted()
      .toReversed()
  }

  /** The path of the file of a day. */
  fileOf(day: string): string {
    return join(this.#path, `${day}${this.#suffix}`)
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
      for (const part of PARTS) rmSync(this.fileOf(day) + part, { force: true })
      sizes.delete(day)
    }
    return sum()
  }

  /** Whether its disk has room for more. */
  get hasRoom(): boolean {
    const { bavail, bsize } = statfsSync(this.#path)
    return bavail * bsize >= MIN_FREE_BYTES
  }

  #sizeOf(day: string): number {
    return PARTS.reduce(
      (sum, part) =>
        sum + (statSync(this.fileOf(day) + part, { throwIfNoEntry: false })?.size ?? 0),
      0,
    )
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
