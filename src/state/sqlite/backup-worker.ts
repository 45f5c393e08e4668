/** Copies a ledger that is in use, in a thread of its own: it reads as of one moment, and holds up nobody who writes. */
import { closeSync, openSync, rmSync } from 'node:fs'
import { backup, DatabaseSync } from 'node:sqlite'
import { workerData } from 'node:worker_threads'

/** What the thread is started with. */
export interface BackupJob {
  readonly source: string
  readonly target: string
}

const ALL_PAGES = 2 ** 31 - 1

const { source, target } = workerData as BackupJob
// Neither writes over what is there nor lets others read it.
closeSync(openSync(target, 'wx', 0o600))
try {
  using from = new DatabaseSync(source, { readOnly: true })
  // In one step: in several, it would begin anew whenever something was written.
  await backup(from, target, { rate: ALL_PAGES })
  using copy = new DatabaseSync(target)
  // One file, without a log next to it.
  copy.exec('PRAGMA journal_mode = DELETE')
  const { integrity_check: verdict } = copy.prepare('PRAGMA integrity_check').get()!
  if (verdict !== 'ok') throw new Error(`the copy is damaged: ${String(verdict)}`)
} catch (error) {
  rmSync(target, { force: true })
  throw error
}
