/** Starts the thread that owns the file of a ledger. */
import { once } from 'node:events'
import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { threadOptions } from '../../lifetime/thread-options.ts'
import type { Log } from '../ledger/ledger.ts'
import { CannotOpen } from './file.ts'
import type { Snapshot } from './snapshot.ts'
import type { WorkerBatch } from './store.ts'
import type { Opened, WorkerInit } from './worker.ts'

/** Runs the batches: a worker thread, or an object in this thread that sends the same events `message`, `error` and `exit`. */
export interface StoreWorker extends NodeJS.EventEmitter {
  postMessage(message: WorkerBatch | 'close'): void
  ref(): void
  unref(): void
}

/** A thread, with what it has read from the file. */
export interface StartedThread {
  readonly worker: StoreWorker
  readonly snapshot: Snapshot
  /** Of the ledger. */
  readonly identity: string
  /** How many rows an older copy has lost. */
  readonly rolledBack: number
}

/** Opens the file of a folder in a new thread. @throws CannotOpen; Error when the thread ends before it has an answer */
export async function startThread(init: WorkerInit, log: Log): Promise<StartedThread> {
  const script = new URL(`./worker${extname(import.meta.url)}`, import.meta.url)
  const worker = new Worker(script, { name: 'ledger', workerData: init, ...threadOptions() })
  // Its client listens for the reason of its end; until there is one, the first message does.
  worker.on('error', () => {})
  const opened = await firstMessage(worker)
  if ('refused' in opened) {
    // Only the end of the thread closes everything it has opened.
    await worker.terminate()
    throw new CannotOpen(opened.refused)
  }
  const { warnings, ...found } = opened
  for (const warning of warnings) log.warn(warning)
  const { rolledBack } = found
  if (rolledBack > 0) {
    const what = rolledBack === 1 ? 'its newest row is' : `its newest ${rolledBack} rows are`
    log.error(`an older copy of the ledger is in ${init.path}: ${what} missing, and not charged`)
  }
  return { worker, ...found }
}

/** Attempts at a new thread, and the time from one to the next: all are over before a waiting charge is given up, after ten seconds. */
const MOST_ATTEMPTS = 3
const ATTEMPT_MS = 2000
/** After so long without an attempt, they are counted anew. */
const STABLE_MS = 60_000

/** Starts other threads after one has ended. */
export class Restarts<Started> {
  readonly #start: () => Promise<Started>
  readonly #log: Log
  readonly #givenUp = new AbortController()
  #attempts = 0
  /** Steady ms. */
  #attemptAt = -Infinity

  /** @param start starts a thread */
  constructor(start: () => Promise<Started>, log: Log) {
    this.#start = start
    this.#log = log
  }

  /** @throws Error when no thread could be started */
  async next(): Promise<Started> {
    const { signal } = this.#givenUp
    if (performance.now() - this.#attemptAt > STABLE_MS) this.#attempts = 0
    while (this.#attempts < MOST_ATTEMPTS) {
      const waitMs = Math.max(0, this.#attemptAt + ATTEMPT_MS - performance.now())
      if (waitMs > 0) await passed(waitMs, signal)
      if (signal.aborted) break
      this.#attempts++
      this.#attemptAt = performance.now()
      try {
        return await this.#start()
      } catch (error) {
        this.#log.error('the ledger could not be opened by another thread', error)
      }
    }
    throw new Error('its thread has ended, and no other one could be started')
  }

  /** Ends the wait for an attempt. */
  giveUp(): void {
    this.#givenUp.abort()
  }
}

/** Resolves after a time, or when it is not waited for any more. */
function passed(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms).unref()
    signal.addEventListener('abort', () => {
      clearTimeout(timer)
      resolve()
    })
  })
}

async function firstMessage(worker: Worker): Promise<Opened> {
  const decided = new AbortController()
  const ended = once(worker, 'exit', decided).then(() => {
    throw new Error('the thread has ended while it opened the file')
  })
  ended.catch(() => undefined)
  try {
    const [opened] = await Promise.race([once(worker, 'message', decided), ended])
    return opened as Opened
  } finally {
    decided.abort()
  }
}
