/** The thread that owns the file of an embedded ledger: one batch after the other, each a transaction on disk. */
import { parentPort, workerData } from 'node:worker_threads'
import { codeOf, openFolder, CannotOpen, toCannotOpen } from './file.ts'
import {
  Store,
  type StoreCommand,
  type CommandResult,
  type ReadName,
  type Snapshot,
  type WriteName,
} from './store.ts'

/** What the thread is started with. */
export interface WorkerInit {
  readonly path: string
  /** A day, `YYYYMMDD`: see {@link Store.load}. */
  readonly from: string
}

/** The first message back. */
export type Opened =
  | { readonly snapshot: Snapshot; readonly warnings: readonly string[] }
  /** One sentence for the operator. */
  | { readonly refused: string }

/** All writes in one transaction, then the reads, which see them. */
export interface WorkerBatch {
  readonly writes: readonly StoreCommand<WriteName>[]
  readonly reads: readonly StoreCommand<ReadName>[]
}

export interface WorkerBatchResult {
  /** One for each write, or why none of them was written. */
  readonly outcomes: readonly CommandResult[] | { readonly failure: string }
  readonly answers: readonly ({ readonly value: unknown } | { readonly error: string })[]
}

const port = parentPort!
const { path, from } = workerData as WorkerInit
open()

function open(): void {
  try {
    const folder = openFolder(path)
    const store = new Store(folder.db)
    const opened: Opened = { snapshot: store.load(from), warnings: folder.warnings }
    port.on('message', (turn: WorkerBatch | 'close') => {
      if (turn === 'close') {
        folder.close()
        return port.close()
      }
      const outcomes = write(store, turn.writes)
      const answers = turn.reads.map((job) => read(store, job))
      port.postMessage({ outcomes, answers } satisfies WorkerBatchResult)
    })
    port.postMessage(opened)
  } catch (error) {
    if (!(error instanceof CannotOpen) && codeOf(error) === 0) throw error
    port.postMessage({ refused: toCannotOpen(path, error).message } satisfies Opened)
  }
}

function write(store: Store, writes: WorkerBatch['writes']): WorkerBatchResult['outcomes'] {
  if (writes.length === 0) return []
  try {
    return store.commit(writes)
  } catch (error) {
    return { failure: (error as Error).message }
  }
}

function read(
  store: Store,
  { name, args }: StoreCommand<ReadName>,
): WorkerBatchResult['answers'][number] {
  try {
    return { value: Reflect.apply(store[name], store, args) }
  } catch (error) {
    return { error: (error as Error).message }
  }
}
