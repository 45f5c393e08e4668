/** Copies a ledger that is in use, in a thread of its own. It reads as of one moment and delays no writes. */
import { closeSync, openSync, rmSync } from 'node:fs'
import { backup, DatabaseSync } from 'node:sqlite'
import { workerData } from 'node:worker_threads'

export interface BackupJob {
  readonly source: string
  readonly target: string
}

const ALL_PAGES = 2 ** 31 - 1

const { source, target } = workerData as BackupJob
// Fails if the file exists, and lets only its owner read it.
closeSync(openSync(target, 'wx', 0o600))
try {
  using from = new DatabaseSync(source, { readOnly: true })
  // The copy is one step: a copy in several steps starts again after each write to the source.
  await backup(from, target, { rate: ALL_PAGES })
  using copy = new DatabaseSync(target)
  // One file, without a write-ahead log beside it.
  copy.exec('PRAGMA journal_mode = DELETE')
  const { integrity_check: verdict } = copy.prepare('PRAGMA integrity_check').get()!
  if (verdict !== 'ok') throw new Error(`the copy is damaged: ${String(verdict)}`)
} catch (error) {
  rmSync(target, { force: true })
  throw error
}
