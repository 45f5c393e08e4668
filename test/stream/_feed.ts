import type { Feed, Producer, Sink } from '../../src/stream/chain.ts'

interface How {
  /** The error at the end. */
  readonly failure?: Error | undefined
  readonly onClose?: () => Promise<void> | void
}

/** Gives batches in microtasks while it is not paused, and then an error or the end. */
export class BatchFeed<T> implements Feed<T>, Producer {
  /** How it was closed, each time. */
  readonly closes: boolean[] = []
  /** Batches that were given. */
  given = 0
  readonly #batches: readonly (readonly T[])[]
  readonly #how: How
  #sink: Sink<T> | undefined
  #scheduled = false
  #paused = false

  constructor(batches: readonly (readonly T[])[], how: How = {}) {
    this.#batches = batches
    this.#how = how
  }

  get isOpen(): boolean {
    return this.closes.length === 0
  }

  start(sink: Sink<T>): Producer {
    this.#sink = sink
    this.#schedule()
    return this
  }

  discard(): void {
    this.closes.push(false)
  }

  pause(): void {
    this.#paused = true
  }

  resume(): void {
    this.#paused = false
    this.#schedule()
  }

  close(complete: boolean): Promise<void> | void {
    this.closes.push(complete)
    return this.#how.onClose?.()
  }

  #schedule(): void {
    if (this.#scheduled || !this.isOpen || !this.#sink) return
    this.#scheduled = true
    queueMicrotask(() => {
      this.#scheduled = false
      if (!this.#paused && this.isOpen) this.#give(this.#sink!)
    })
  }

  #give(sink: Sink<T>): void {
    const batch = this.#batches[this.given]
    if (batch) {
      this.given++
      for (const part of batch) {
        if (!this.isOpen) return
        sink.push(part)
      }
      if (this.isOpen) sink.batchEnd()
      return this.#schedule()
    }
    this.#sink = undefined
    if (this.#how.failure) sink.fail(this.#how.failure)
    else sink.end()
  }
}
