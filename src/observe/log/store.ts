/** Where the request log keeps calls: files of days, or Redis. */
import type { KnownCall } from '../record.ts'
import type { LogPage, LogQuery } from './query.ts'

/** What a log keeps. */
export interface LogBounds {
  /** Days. */
  readonly keep: number
  /** Bytes of all rows. */
  readonly size: number
}

/** Why rows were not stored: the disk or Redis, or an id of a day that is not kept any more. */
export type Dropped = 'disk' | 'late'

/** What became of a batch. */
export interface Stored {
  readonly rows: number
  readonly dropped: Readonly<Partial<Record<Dropped, number>>>
  /** Bytes of all rows, when they were last added up. */
  readonly bytes: number
  /** Why nothing can be stored. */
  readonly fault?: string
}

/** Calls that have ended. */
export interface LogStore {
  /** Stores calls. Never throws or rejects. @param lines of `lineOf`, separated by line feeds */
  store(lines: string): Stored | Promise<Stored>
  /** One page of calls, newest first. */
  list(query: LogQuery): LogPage | Promise<LogPage>
  /** A call by its id without prefix; undefined when there is none. */
  find(id: string): KnownCall | undefined | Promise<KnownCall | undefined>
  close(): void | Promise<void>
}
