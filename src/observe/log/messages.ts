/** What crosses between the request log and its thread. */
import type { ThreadWork } from '../thread-client.ts'
import type { DayFiles, LogBounds, Stored } from './day-files.ts'
import type { LogQuery } from './query.ts'

/** What the thread is started with. */
export interface ThreadInit {
  readonly folder: string
  readonly bounds: LogBounds
}

/** A page of calls, or one call by its id. */
export type LogQuestion = { readonly list: LogQuery } | { readonly find: string }

/** Stores batches, and reports what became of each. */
export function logWork(files: DayFiles) {
  return (report: (stored: Stored) => void): ThreadWork<string, LogQuestion> => ({
    take: (lines) => report(files.store(lines)),
    answer: (question) =>
      'list' in question ? files.list(question.list) : files.find(question.find),
    close: () => files.close(),
  })
}
