/** Threads of a ledger, and doubles of them, whose faults a test controls. */
import { EventEmitter } from 'node:events'
import { Worker } from 'node:worker_threads'
import { onTestFinished, vi } from 'vitest'
import { openMemoryDatabase } from '../../../src/state/sqlite/file.ts'
import { Store, type ToStore, type WorkerBatch } from '../../../src/state/sqlite/store.ts'
import type { WorkThread } from '../../../src/threads/client.ts'

/** Runs batches at once, or fails them. */
export class FaultyWorker extends EventEmitter implements WorkThread {
  readonly store: Store
  fault: 'none' | 'fails' | 'hangs' = 'none'
  #hanging: WorkerBatch | undefined

  constructor(store = new Store(openMemoryDatabase())) {
    super()
    this.store = store
  }

  send(message: ToStore): void {
    if ('close' in message) {
      if (!this.#hanging || this.#hanging.writes.length === 0) this.emit('exit')
      return
    }
    // What cannot be written can be read: a batch of reads alone neither fails nor hangs.
    const isRead = message.writes.length === 0
    if (this.fault === 'none' || isRead) this.emit('message', this.store.run(message))
    else if (this.fault === 'fails') this.#fail(message)
    else this.#hanging = structuredClone(message)
  }

  /** Answers the batch that hangs, if there is one. */
  answer(): void {
    this.fault = 'none'
    const batch = this.#hanging
    this.#hanging = undefined
    if (batch) this.emit('message', this.store.run(batch))
  }

  /** Ends. @param written whether the batch that hangs is in the store all the same */
  end(written: boolean): void {
    if (this.#hanging && written) this.store.run(this.#hanging)
    this.#hanging = undefined
    this.emit('exit')
  }

  ref(): void {}

  unref(): void {}

  #fail({ reads }: WorkerBatch): void {
    const answers = reads.map(() => ({ error: 'disk full' }))
    this.emit('message', { outcomes: { failure: 'disk full' }, answers })
  }
}

/** The thread that was last sent a batch, and what it is told before it is. */
export function watchThreads() {
  const threads = { last: undefined as Worker | undefined, onBatch() {} }
  const { postMessage } = Worker.prototype
  const spy = vi.spyOn(Worker.prototype, 'postMessage').mockImplementation(function (
    this: Worker,
    message: unknown,
  ) {
    threads.last = this
    postMessage.call(this, message)
    threads.onBatch()
  })
  onTestFinished(() => spy.mockRestore())
  return threads
}
