/** The thread that owns the file of a ledger. It runs one batch after the other. */
import { parentPort, workerData } from 'node:worker_threads'
import { CannotOpen, codeOf, openFolder, toCannotOpen } from './file.ts'
import { Store, type Snapshot, type WorkerBatch } from './store.ts'

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

const port = parentPort!
const { path, from } = workerData as WorkerInit
open()

function open(): void {
  try {
    const folder = openFolder(path)
    const store = new Store(folder.db)
    const opened: Opened = { snapshot: store.load(from), warnings: folder.warnings }
    port.on('message', (batch: WorkerBatch | 'close') => {
      if (batch !== 'close') return port.postMessage(store.run(batch))
      folder.close()
      port.close()
    })
    port.postMessage(opened)
  } catch (error) {
    if (!(error instanceof CannotOpen) && codeOf(error) === 0) throw error
    port.postMessage({ refused: toCannotOpen(path, error).message } satisfies Opened)
  }
}
