/**
 * The threads of a ledger: one owns its file, and runs one batch after the other. Others read the file beside it, and end with their
 * work: to check its pages, to copy it, to add up its rows.
 */
import { once } from 'node:events'
import { closeSync, openSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { backup, DatabaseSync, type StatementSync } from 'node:sqlite'
import { parentPort } from 'node:worker_threads'
import { CannotOpen, CHECKPOINT_PAGES, codeOf, isDamage, isMisread, toCannotOpen } from './file.ts'
import { paced } from '../ledger/maintenance.ts'
import { type Audit, auditAll, History, openBeside } from './reader.ts'
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
      readonly isNew: boolean
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

/** What a thread beside the ledger does with the file that the ledger has open. */
export type FileJob =
  | { readonly check: string; readonly inode: number }
  | { readonly copy: string; readonly inode: number; readonly to: string }
  | { readonly history: string; readonly inode: number }

/** A question to the thread of a history, which answers one after the other, and ends with `end`. */
export type HistoryQuestion =
  | { readonly audit: Audit }
  | { readonly foldable: Parameters<History['foldable']> }
  | 'accounts'
  | 'rows'
  | 'end'

export type HistoryAnswer =
  | { readonly value: unknown }
  | { readonly error: string; readonly isDamage: boolean }

const port = parentPort!

function open({ path, from, expected }: WorkerInit): void {
  try {
    const folder = openFolder(path, expected)
    const reserve = new Reserve(join(path, RESERVE_FILE))
    const store = new Store(folder.db, reserve, folder)
    const { identity, isNew, rolledBack, doubt, warnings } = folder
    const snapshot = store.load(from)
    const opened: Opened = { snapshot, identity, isNew, rolledBack, doubt, warnings }
    const watch = new Watch(folder, reserve)
    port.on('message', (message: ToStore) => {
      if (!('close' in message)) {
        const result = store.run(message)
        watch.report()
        send(result)
        return watch.checkpoint()
      }
      watch.close()
      folder.close()
      port.close()
    })
    port.postMessage(opened)
  } catch (error) {
    if (!(error instanceof CannotOpen) && codeOf(error) === 0 && !isMisread(error)) throw error
    const { message: refused } = toCannotOpen(join(path, LEDGER_FILE), error)
    port.postMessage({ refused } satisfies Opened)
  }
}

function send(message: WorkerMessage): void {
  port.postMessage(message)
}

/** Checks that the file is in its place, records its size, keeps the reserve of its disk, and moves its log into it. */
class Watch {
  readonly #folder: OpenedFolder
  readonly #logged: StatementSync
  readonly #reserve: Reserve
  #reserveUsed = false
  readonly #timer: NodeJS.Timeout
  #looks = 0
  #loss: Loss | undefined

  constructor(folder: OpenedFolder, reserve: Reserve) {
    this.#folder = folder
    this.#reserve = reserve
    // SQLite would move the log after a commit without a look at the file: one that was emptied would then not be empty any more.
    folder.db.exec('PRAGMA wal_autocheckpoint = 0')
    this.#logged = folder.db.prepare('PRAGMA wal_checkpoint(NOOP)')
    this.#timer = setInterval(() => this.#look(), LOOK_MS)
  }

  /** Reports the reserve, when its room was given away or reserved again. */
  report(): void {
    const { used } = this.#reserve
    if (used !== this.#reserveUsed) send({ reserveUsed: used })
    this.#reserveUsed = used
  }

  /** Moves a long log into the file, if that is in its place. */
  checkpoint(): void {
    if (Number(this.#logged.get()!.log) < CHECKPOINT_PAGES || this.#isLost()) return
    try {
      this.#folder.db.exec('PRAGMA wal_checkpoint(PASSIVE)')
    } catch {
      // A full disk: it is tried after the next batch.
    }
  }

  /** Ends the watch after the last write. */
  close(): void {
    clearInterval(this.#timer)
    this.#isLost()
    if (this.#loss?.what !== 'moved') return
    try {
      send({ rescued: this.#folder.rescue() })
    } catch (error) {
      send({ unrescued: (error as Error).message })
    }
  }

  #isLost(): boolean {
    if (this.#loss) return true
    this.#loss = this.#folder.loss()
    if (this.#loss) send({ loss: this.#loss })
    return this.#loss !== undefined
  }

  #look(): void {
    if (this.#isLost()) return
    void this.#reserve.make().then(() => this.report())
    this.#looks++
    if (this.#looks % NOTE_LOOKS === 0) this.#folder.note()
  }
}

/** @returns the damage in the pages of a ledger */
function check(file: string, inode: number): string | undefined {
  try {
    using db = openBeside(file, inode)
    if (!db) return undefined
    const { quick_check: verdict } = db.prepare('PRAGMA quick_check(1)').get()!
    if (verdict === 'ok') return undefined
    // Its first line names the database.
    return String(verdict).split('\n').at(-1)
  } catch (error) {
    if (isDamage(error)) return (error as Error).message
    throw error
  }
}

/** Copies a ledger as of one moment. It delays no writes. */
async function copy(source: string, inode: number, target: string): Promise<void> {
  // Fails if the file exists, and lets only its owner read it.
  closeSync(openSync(target, 'wx', 0o600))
  try {
    using from = openBeside(source, inode)
    if (!from) throw new Error(`${source} was replaced`)
    // The copy is one step: a copy in several steps starts again after each write to the source.
    await backup(from, target, { rate: ALL_PAGES })
    using db = new DatabaseSync(target)
    // One file, without a write-ahead log beside it.
    db.exec('PRAGMA journal_mode = DELETE')
    const { integrity_check: verdict } = db.prepare('PRAGMA integrity_check').get()!
    if (verdict !== 'ok') throw new Error(`the copy is damaged: ${String(verdict)}`)
  } catch (error) {
    rmSync(target, { force: true })
    throw error
  }
}

const ALL_PAGES = 2 ** 31 - 1

function serveHistory(file: string, inode: number): void {
  let db: DatabaseSync | undefined
  let history: History | undefined
  const open = () => {
    db = openBeside(file, inode)
    if (!db) throw new Error(`${file} was replaced`)
    return new History(db)
  }
  const pause = paced()
  port.on('message', async (question: HistoryQuestion) => {
    if (question === 'end') {
      db?.close()
      return port.close()
    }
    try {
      await pause()
      history ??= open()
      port.postMessage({ value: await answer(history, question, pause) } satisfies HistoryAnswer)
    } catch (error) {
      const { message } = error as Error
      port.postMessage({ error: message, isDamage: isDamage(error) } satisfies HistoryAnswer)
    }
  })
}

async function answer(
  history: History,
  question: Exclude<HistoryQuestion, 'end'>,
  pause: () => Promise<void>,
): Promise<unknown> {
  if (question === 'accounts') return history.accounts()
  if (question === 'rows') return history.rows()
  if ('foldable' in question) return history.foldable(...question.foldable)
  return auditAll(history, question.audit, pause)
}

// The last statements: classes above them exist then. Work is a message, because a thread starts before it is known.
const [job] = (await once(port, 'message')) as [WorkerInit | FileJob]
if ('path' in job) open(job)
else if ('check' in job) port.postMessage(check(job.check, job.inode))
else if ('copy' in job) await copy(job.copy, job.inode, job.to)
else serveHistory(job.history, job.inode)
