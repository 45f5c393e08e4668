/** Copies a ledger that is in use. */
import { once } from 'node:events'
import { extname, join, resolve } from 'node:path'
import { Worker } from 'node:worker_threads'
import type { BackupJob } from './backup-worker.ts'
import { LEDGER_FILE } from './file.ts'

/**
 * Writes a copy of a folder's ledger as of one moment, while it is in use, and checks it.
 * @param target a file that does not exist yet
 * @throws Error when the file exists, or cannot be written
 */
export async function backupLedger(folder: string, target: string): Promise<void> {
  const job: BackupJob = { source: join(folder, LEDGER_FILE), target: resolve(target) }
  const script = new URL(`./backup-worker${extname(import.meta.url)}`, import.meta.url)
  await once(new Worker(script, { name: 'ledger copy', workerData: job, execArgv: [] }), 'exit')
}
