/** Dated copies of a ledger in use, and a check of its pages. Each in a thread of its own. */
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, readdir, rename, rm, stat } from 'node:fs/promises'
import { extname, join } from 'node:path'
import { startAlone } from '../../threads/client.ts'
import type { BackupJob } from './backup-worker.ts'
import { COPIES, LEDGER_FILE } from './folder.ts'

const NAME = /^ledger-\d{8}\.db$/

interface CopyOptions {
  readonly folder: string
  /** `YYYYMMDD` */
  readonly day: string
  readonly keep: number
  readonly signal: AbortSignal
}

/**
 * Writes a day's copy of a folder's ledger, unless there is one, and then removes the oldest copies. A copy has the ledger
 * as of one moment. It is checked before it gets its name, so an older copy is never given up for a damaged one.
 * @throws Error when a copy cannot be written, or is damaged; the reason of the signal
 */
export async function copyLedger({ folder, day, keep, signal }: CopyOptions): Promise<void> {
  const copies = join(folder, COPIES)
  const file = join(copies, `ledger-${day}.db`)
  if (existsSync(file)) return
  await mkdir(copies, { recursive: true, mode: 0o700 })
  const unfinished = join(copies, 'unfinished.db')
  await rm(unfinished, { force: true })
  const job: BackupJob = { source: join(folder, LEDGER_FILE), target: unfinished }
  await run('./backup-worker', job, signal)
  await rename(unfinished, file)
  const names = (await readdir(copies)).filter((name) => NAME.test(name)).sort()
  for (const name of names.slice(0, -keep)) await rm(join(copies, name))
}

/**
 * Checks the pages of a ledger, unless another file takes its place.
 * @returns the damage, if there is any. @throws Error when it cannot be read; the reason of the signal
 */
export async function checkPages(file: string, signal: AbortSignal): Promise<string | undefined> {
  const { ino: inode } = await stat(file)
  return (await run('./check-worker', { file, inode }, signal)) as string | undefined
}

/** Runs a script in a thread until it ends. @returns its last message */
async function run(script: string, workerData: unknown, signal: AbortSignal): Promise<unknown> {
  signal.throwIfAborted()
  const url = new URL(`${script}${extname(import.meta.url)}`, import.meta.url)
  const worker = startAlone(script, url, workerData)
  // The end of the process does not wait for it.
  worker.unref()
  const end = () => void worker.terminate?.()
  signal.addEventListener('abort', end)
  let answer: unknown
  worker.on('message', (message) => (answer = message))
  try {
    await once(worker, 'exit')
  } finally {
    signal.removeEventListener('abort', end)
  }
  signal.throwIfAborted()
  return answer
}
