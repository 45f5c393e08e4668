/** The thread that owns the file of a ledger. It runs one batch after the other. */
import { join } from 'node:path'
import { parentPort, workerData } from 'node:worker_threads'
import { CannotOpen, codeOf, toCannotOpen } from './file.ts'
import { LEDGER_FILE, openFolder, type Loss, type OpenedFolder, Reserve } from './folder.ts'
import type { Doubt } from '../ledger/ledger.ts'
import type { Snapshot } from './snapshot.ts'
import { Store, type ToStore, type WorkerBatchResult } from './store.ts'

export interface WorkerInit {
  readonly path: string
  /** A day, `YYYYMMDD`: see {@link Store.load}. */
  readonly from: string
  readonly expected?: string
}

/** The first message back. */
export type Opened =
  | {
      readonly snapshot: Snapshot
      readonly identity: string
      readonly rolledBack: number
      readonly doubt: Doubt | undefined
      readonly warnings: readonly string[]
    }
  /** One sentence for the operator. */
  | { readonly refused: string }

/** Later messages: results of batches, changes of the reserve, and at most one loss. A moved ledger is rescued before the thread ends. */
export type WorkerMessage =
  | WorkerBatchResult
  | { readonly loss: Loss }
  /** Whether the reserve of the disk is in use. */
  | { readonly reserveUsed: boolean }
  | { readonly rescued: string }
  /** Why it was not rescued. */
  | { readonly unrescued: string }

/** Time between two checks that the file is in its place. */
const LOOK_MS = 2000
/** Time between two records of the ledger's size; each costs a sync of the disk, if rows were added. */
const NOTE_MS = 4000
const NOTE_LOOKS = NOTE_MS / LOOK_MS
const RESERVE_FILE = 'ledger.reserve'

const port = parentPort!
const { path, from, expected } = workerData as WorkerInit

function open(): void {
  try {
    const folder = openFolder(path, expected)
    const reserve = new Reserve(join(path, RESERVE_FILE))
    const store = new Store(folder.db, reserve, folder)
    const { identity, rolledBack, doubt, warnings } = folder
    const opened: Opened = { snapshot: store.load(from), identity, rolledBack, doubt, warnings }
    const watch = new Watch(folder, reserve)
    port.on('message', (message: ToStore) => {
      if (!('close' in message)) {
        const result = store.run(message)
        watch.report()
        return send(result)
      }
      watch.close()
      folder.close()
      port.close()
    })
    port.postMessage(opened)
  } catch (error) {
    if (!(error instanceof CannotOpen) && codeOf(error) === 0) throw error
    port.postMessage({
      refused: toCannotOpen(join(path, LEDGER_FILE), error).message,
    } satisfies Opened)
  }
}

function send(message: WorkerMessage): void {
  port.postMessage(message)
}

/** Checks that the file is in its place, records its size, and keeps the reserve of its disk. */
class Watch {
  readonly #folder: OpenedFolder
  readonly #reserve: Reserve
  #reserveUsed = false
  readonly #timer: NodeJS.Timeout
  #looks = 0
  #loss: Loss | undefined

  constructor(folder: OpenedFolder, reserve: Reserve) {
    this.#folder = folder
    this.#reserve = reserve
    this.#timer = setInterval(() => this.#look(), LOOK_MS)
  }

  /** Reports the reserve, when its room was given away or reserved again. */
  report(): void {
    const { used } = this.#reserve
    if (used !== this.#reserveUsed) send({ reserveUsed: used })
    this.#reserveUsed = used
  }

  /** Ends the watch after the last write. */
  close(): void {
    clearInterval(this.#timer)
    this.#look()
    if (this.#loss?.what !== 'moved') return
    try {
      send({ rescued: this.#folder.rescue() })
    } catch (error) {
      send({ unrescued: (error as Error).message })
    }
  }

  #look(): void {
    if (this.#loss) return
    this.#loss = this.#folder.loss()
    if (this.#loss) return send({ loss: this.#loss })
    void this.#reserve.make().then(() => this.report())
    this.#looks++
    if (this.#looks % NOTE_LOOKS === 0) this.#folder.note()
  }
}

open()
