/** Checks the pages of a ledger that is in use, in a thread of its own. It answers with the damage, or `undefined`. */
import { statSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { parentPort, workerData } from 'node:worker_threads'
import { isDamage } from './file.ts'

parentPort!.postMessage(check(workerData))

function check({ file, inode }: { file: string; inode: number }): string | undefined {
  // Opened beside the log of another file, SQLite would empty that log's index, and with it what the ledger wrote last.
  if (statSync(file).ino !== inode) return undefined
  try {
    using db = new DatabaseSync(file, { readOnly: true })
    const { quick_check: verdict } = db.prepare('PRAGMA quick_check(1)').get()!
    if (verdict === 'ok') return undefined
    // Its first line names the database.
    return String(verdict).split('\n').at(-1)
  } catch (error) {
    if (isDamage(error)) return (error as Error).message
    throw error
  }
}
