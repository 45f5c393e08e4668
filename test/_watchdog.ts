/** Ends a test that never gives the event loop back, by its name: Vitest's own limit of time cannot fire then. */
import { setInterval } from 'node:timers'
import { Worker } from 'node:worker_threads'
import { beforeEach, expect } from 'vitest'

const BEAT_MS = 1000

const running = globalThis as { watchdog?: Worker }

/** One in each process, which has many files. */
const watchdog = (running.watchdog ??= start())

function start(): Worker {
  const thread = new Worker(new URL('./_watchdog-thread.ts', import.meta.url), { execArgv: [] })
  thread.unref()
  setInterval(() => thread.postMessage({}), BEAT_MS).unref()
  return thread
}

watchdog.postMessage({ name: expect.getState().testPath })
beforeEach(({ task }) => watchdog.postMessage({ name: `${task.file.name} > ${task.fullTestName}` }))
