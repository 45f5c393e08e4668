/** The thread that owns the file of a ledger. It runs one batch after the other. */
import { parentPort, workerData } from 'node:worker_threads'
import { CannotOpen, codeOf, toCannotOpen } from './file.ts'
import { openFolder } from './folder.ts'
import { Store, type Snapshot, type WorkerBatch } from './store.ts'

/** What the thread is started with. */
export interface WorkerInit {
  readonly path: string
  /** A day, `YYYYMMDD`: see {@link Store.load}. */
  readonly from: string
}

/** The first message back. */
export type Opened =
  | {
      readonly snapshot: Snapshot
      readonly rolledBack: number
      readonly warnings: readonly string[]
    }
  /** One sentence for the operator. */
  | { readonly refused: string }

/** How often the size of the ledger is remembered; each time costs a sync of the disk. */
const NOTE_MS = 60_000

const port = parentPort!
const { path, from } = workerData as WorkerInit
open()

function open(): void {
  try {
    const folder = openFolder(path)
    const store = new Store(folder.db)
    const { rolledBack, warnings } = folder
    const opened: Opened = { snapshot: store.load(from), rolledBack, warnings }
    const timer = setInterval(() => folder.note(), NOTE_MS)
    port.on('message', (batch: WorkerBatch | 'close') => {
      if (batch !== 'close') {
        port.postMessage(store.run(batch))
        // Folded rows are not missing rows.
        if (batch.writes.some(({ name }) => name === 'fold')) folder.note()
        return
      }
      clearInterval(timer)
      folder.close()
      port.close()
    })
    port.postMessage(opened)
  } catch (error) {
    if (!(error instanceof CannotOpen) && codeOf(error) === 0) throw error
    port.postMessage({ refused: toCannotOpen(path, error).message } satisfies Opened)
  }
}
