/** What crosses between the request log and its thread. */
import type { ThreadWork } from '../thread-client.ts'
import type { LogQuery } from './query.ts'
import type { LogBounds, LogStore, Stored } from './store.ts'

/** Where rows are kept: in a folder, or in the Redis that gateways share. */
export type LogPlace = { readonly folder: string } | SharedPlace

/** A Redis. */
interface SharedPlace {
  readonly redis: string | readonly string[]
  /** Whether it is for the log alone: it need not keep what a ledger must, and its failures are told. */
  readonly isOwn: boolean
}

/** What the thread is started with. */
export interface ThreadInit {
  readonly place: LogPlace
  readonly bounds: LogBounds
}

/** A page of calls, or one call by its id. */
export type LogQuestion = { readonly list: LogQuery } | { readonly find: string }

/** Stores batches one after the other, and reports what became of each. A question is answered after the batches before it. */
export function logWork(store: LogStore) {
  return (report: (stored: Stored) => void): ThreadWork<string, LogQuestion> => {
    let last = Promise.resolve()
    return {
      take(lines) {
        last = last.then(() => store.store(lines)).then(report)
      },
      async answer(question) {
        await last
        return 'list' in question ? store.list(question.list) : store.find(question.find)
      },
      async close() {
        await last
        await store.close()
      },
    }
  }
}
