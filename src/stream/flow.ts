/**
 * Flows, see {@link Flow}. Whatever arrives in one read from a vendor runs through all the steps at once and leaves as one
 * batch: an answer costs a handful of promises for each read, not for each event and layer.
 */
import type { Batch, Flow, Source, Step } from '../plugin.ts'

/** The flow of a source. */
export function flowFrom<T>(source: Source<T>): Flow<T> {
  return new StepFlow<T>(source)
}

/** Parts that are there already. */
export function flowOf<T>(...parts: readonly T[]): Flow<T> {
  return new StepFlow<T>({ next: () => Promise.resolve({ parts, last: true }), close: () => {} })
}

/** Any sequence as a flow; a flow as itself. */
export function toFlow<T>(sequence: AsyncIterable<T>): Flow<T> {
  if (sequence instanceof StepFlow) return sequence
  const iterator = sequence[Symbol.asyncIterator]()
  return new StepFlow<T>({
    async next() {
      const { value, done } = await iterator.next()
      return done ? { parts: [], last: true } : { parts: [value], last: false }
    },
    close() {
      // Not awaited: a generator that waits for a read returns when the read does.
      leave(async () => iterator.return?.())
    },
  })
}

/** Closes what nobody waits for. What that throws changes nothing any more, and must not end the process. */
function leave(close: () => Promise<unknown>): void {
  close().catch(() => {})
}

const NOTHING: readonly never[] = []

/** A source and what is done with its parts. */
class StepFlow<T> implements Flow<T> {
  #source: Source<any> | undefined
  readonly #steps: Step<any, any>[] = []
  #push: ((part: any) => void) | undefined
  /** Of the steps that want to know when a batch is over, bound to what follows them. */
  readonly #flushes: (() => void)[] = []
  #out: readonly T[] = NOTHING
  /** Thrown when what came before it has been taken. */
  #failure: { readonly error: unknown } | undefined

  constructor(source: Source<any>) {
    this.#source = source
  }

  through<Out>(step: Step<T, Out>): Flow<Out> {
    if (this.#push) throw new Error('a flow takes no more steps once it is read')
    this.#steps.push(step)
    return this as unknown as Flow<Out>
  }

  async next(): Promise<Batch<T>> {
    this.#open()
    while (this.#source && this.#out.length === 0) {
      let batch: Batch<any>
      try {
        batch = await this.#source.next()
      } catch (error) {
        this.#source = undefined
        await this.#fail(error)
        break
      }
      if (!this.#source) break
      try {
        const ending = this.#run(batch)
        if (ending) await ending
      } catch (error) {
        leave(() => this.#letGo(false))
        await this.#fail(error)
      }
    }
    return this.#take()
  }

  async close(): Promise<void> {
    await this.#letGo(false)
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    try {
      for (let last = false; !last;) {
        const batch = await this.next()
        yield* batch.parts
        last = batch.last
      }
    } finally {
      await this.close()
    }
  }

  /** From here on it is read. */
  #open(): void {
    if (this.#push) return
    this.#push = this.#from(0)
    for (let i = 0; i < this.#steps.length; i++) {
      const step = this.#steps[i]!
      if (step.batchEnd) this.#flushes.push(step.batchEnd.bind(step, this.#from(i + 1)))
    }
  }

  /** A promise only if the end of a step needs time. */
  #run({ parts, last }: Batch<any>): Promise<void> | undefined {
    const push = this.#push!
    const flushes = this.#flushes
    let finished = -1
    try {
      for (let i = 0; i < parts.length && finished < 0; i++) {
        push(parts[i])
        finished = this.#finished()
      }
    } finally {
      // What came before a failure counts.
      for (let i = 0; i < flushes.length; i++) flushes[i]!()
    }
    if (flushes.length > 0) finished = this.#finished()
    if (finished >= 0) {
      leave(() => this.#letGo(true))
      return this.#end(finished + 1)
    }
    if (!last) return undefined
    this.#source = undefined
    return this.#end(0)
  }

  /** The last step that wants no more. */
  #finished(): number {
    const steps = this.#steps
    for (let i = steps.length - 1; i >= 0; i--) if (steps[i]!.done) return i
    return -1
  }

  #take(): Batch<T> {
    const parts = this.#out
    this.#out = NOTHING
    if (this.#failure && parts.length === 0) {
      const { error } = this.#failure
      this.#failure = undefined
      throw error
    }
    return { parts, last: this.#source === undefined && this.#failure === undefined }
  }

  /** What takes in the parts that step `index` is to see. */
  #from(index: number): (part: any) => void {
    let push = (part: any): void => {
      // Mostly there is one, and a list that begins empty makes room for many.
      if (this.#out.length === 0) this.#out = [part]
      else (this.#out as T[]).push(part)
    }
    for (let i = this.#steps.length - 1; i >= index; i--) {
      const step = this.#steps[i]!
      if (!step.push) continue
      const emit = push
      push = (part) => step.push!(part, emit)
    }
    return push
  }

  /** Ends the steps from this one on, each after the one before it. A promise only if one of them needs time. */
  #end(index: number): Promise<void> | undefined {
    for (let i = index; i < this.#steps.length; i++) {
      const ending = this.#steps[i]!.end?.(this.#from(i + 1))
      if (ending) return ending.then(() => this.#end(i + 1))
    }
    return undefined
  }

  async #fail(error: unknown): Promise<void> {
    let thrown = error
    for (const step of this.#steps) if (step.fail) thrown = await step.fail(thrown)
    this.#failure = { error: thrown }
  }

  async #letGo(complete: boolean): Promise<void> {
    const source = this.#source
    this.#source = undefined
    await source?.close(complete)
  }
}
