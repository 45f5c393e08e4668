/** What crosses between the request log and its thread. */
import type { DayFiles, LogBounds, Stored } from './day-files.ts'
import type { LogPage, LogQuery, LogRow } from './query.ts'

/** What the thread is started with. */
export interface ThreadInit {
  readonly folder: string
  readonly bounds: LogBounds
}

/** What it is sent. */
export type ToThread =
  | { readonly store: string }
  | { readonly list: LogQuery; readonly number: number }
  | { readonly find: string; readonly number: number }
  | 'close'

/** What it answers: to each batch what became of it, to each question with its number. */
export type FromThread =
  | { readonly stored: Stored }
  | { readonly number: number; readonly answer: LogPage | LogRow | undefined }
  | { readonly number: number; readonly error: string }

/** Handles one message; undefined after the last. */
export function handle(files: DayFiles, message: ToThread): FromThread | undefined {
  if (message === 'close') return void files.close()
  if ('store' in message) return { stored: files.store(message.store) }
  const { number } = message
  try {
    const answer = 'list' in message ? files.list(message.list) : files.find(message.find)
    return { number, answer }
  } catch (error) {
    return { number, error: (error as Error).message }
  }
}
