/** Storage of the request log: files of days, or Redis. */
import type { KnownCall } from '../record.ts'
import type { LogPage, LogQuery } from './query.ts'

export interface LogBounds {
  readonly keep: number
  /** Bytes of all rows. */
  readonly size: number
}

/** Why rows were not stored: a failure of the disk or of Redis, or an id of a day that is no longer kept. */
export type Dropped = 'disk' | 'late'

export interface Stored {
  readonly rows: number
  readonly dropped: Readonly<Partial<Record<Dropped, number>>>
  /** Bytes of all rows at the last count. */
  readonly bytes: number
  /** Why nothing can be stored. */
  readonly fault?: string
}

export interface LogStore {
  /** Stores calls. Never throws or rejects. @param lines of `lineOf`, separated by line feeds */
  store(lines: string): Stored | Promise<Stored>
  /** One page of calls, newest first. */
  list(query: LogQuery): LogPage | Promise<LogPage>
  /** A call by its id without prefix; undefined when there is none. */
  find(id: string): KnownCall | undefined | Promise<KnownCall | undefined>
  close(): void | Promise<void>
}
