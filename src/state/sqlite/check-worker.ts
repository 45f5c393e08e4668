/** Checks the pages of a ledger that is in use, in a thread of its own. It answers what is damaged, or `undefined`. */
import { DatabaseSync } from 'node:sqlite'
import { parentPort, workerData } from 'node:worker_threads'
import { isDamage } from './file.ts'

parentPort!.postMessage(check(String(workerData)))

function check(file: string): string | undefined {
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
