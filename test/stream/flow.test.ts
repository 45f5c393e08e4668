import fc from 'fast-check'
import { afterEach, describe, expect, it } from 'vitest'
import { flowFrom, flowOf, toFlow } from '../../src/stream/flow.ts'
import type { Batch, Flow, Sink, Source, Step } from '../../src/plugin.ts'

const unhandled: unknown[] = []
const listen = (reason: unknown) => void unhandled.push(reason)
process.on('unhandledRejection', listen)
afterEach(() => void unhandled.splice(0))

/** After it, Node has told of every rejection that nobody had taken. */
async function settled(): Promise<void> {
  for (let i = 0; i < 3; i++) await new Promise((resolve) => setImmediate(resolve))
}

const refuses: Step<number, number> = {
  push(part, emit) {
    if (part > 1) throw new Error('refused')
    emit(part)
  },
}

describe('a flow whose source cannot be closed', () => {
  const source = (close: () => Promise<void>) => ({
    next: async () => ({ parts: [1, 2], last: false }),
    close,
  })

  it('tells what a step threw, after what came before it', async () => {
    const flow = flowFrom<number>(source(() => Promise.reject(new Error('stuck')))).through(refuses)
    expect(await flow.next()).toEqual({ parts: [1], last: false })
    await expect(flow.next()).rejects.toThrow('refused')
    expect(await flow.next()).toEqual({ parts: [], last: true })
    await settled()
    expect(unhandled).toEqual([])
  })

  it('ends when a step wants no more', async () => {
    const one: Step<number, number> & { done: boolean } = {
      done: false,
      push(part, emit) {
        emit(part)
        one.done = true
      },
    }
    const flow = flowFrom<number>(source(() => Promise.reject(new Error('stuck')))).through(one)
    expect(await flow.next()).toEqual({ parts: [1], last: true })
    await settled()
    expect(unhandled).toEqual([])
  })
})

it('parts pass a step that only waits for the end', async () => {
  const heard: string[] = []
  const flow = flowOf(1, 2)
    .through<number>({ end: () => void heard.push('end') })
    .through<number>({ push: (part, emit) => emit(part * 10) })
  expect(await flow.next()).toEqual({ parts: [10, 20], last: true })
  expect(heard).toEqual(['end'])
})

it('a sequence that throws when it is left is left', async () => {
  const sequence: AsyncIterable<number> = {
    [Symbol.asyncIterator]: () => ({
      next: async () => ({ value: 1, done: false }),
      return() {
        throw new Error('stuck')
      },
    }),
  }
  const flow = toFlow(sequence)
  expect(await flow.next()).toEqual({ parts: [1], last: false })
  await flow.close()
  expect(await flow.next()).toEqual({ parts: [], last: true })
  await settled()
  expect(unhandled).toEqual([])
})

describe('a flow that is poured', () => {
  /** Batches as a socket has them: given as soon as there is room, and then a failure or the end. */
  class Bursts implements Source<number> {
    closed = false
    readonly #batches: Batch<number>[]
    readonly #failure: Error | undefined
    readonly #pours: boolean

    constructor(batches: readonly (readonly number[])[], failure?: Error, pours = true) {
      this.#batches = batches.map((parts) => ({ parts, last: false }))
      this.#failure = failure
      this.#pours = pours
      if (!failure) this.#batches.push({ parts: [], last: true })
    }

    async next(): Promise<Batch<number>> {
      const batch = this.#batches.shift()
      if (!batch) throw this.#failure!
      return batch
    }

    get pour() {
      return this.#pours ? (sink: Sink<number>) => void this.#pour(sink) : undefined
    }

    async #pour(sink: Sink<number>): Promise<void> {
      await Promise.resolve()
      for (let batch = this.#batches.shift(); batch; batch = this.#batches.shift()) {
        if (this.closed) return
        const room = sink.take(batch)
        if (room) await room
      }
      if (this.#failure && !this.closed) sink.fail(this.#failure)
    }

    close(): void {
      this.closed = true
    }
  }

  /** What a sink that is full after every batch is given, and what it is told at the end. */
  async function poured(flow: Flow<number>): Promise<{ parts: number[]; error?: string }> {
    const parts: number[] = []
    let full = false
    return new Promise((resolve) => {
      flow.pour({
        take(batch) {
          expect(full).toBe(false)
          parts.push(...batch.parts)
          if (batch.last) return resolve({ parts })
          full = true
          return settled().then(() => void (full = false))
        },
        fail: (error) => resolve({ parts, error: (error as Error).message }),
      })
    })
  }

  async function pulled(flow: Flow<number>): Promise<{ parts: number[]; error?: string }> {
    const parts: number[] = []
    try {
      for await (const part of flow) parts.push(part)
      return { parts }
    } catch (error) {
      return { parts, error: (error as Error).message }
    }
  }

  /** Doubles, refuses and ends as it is told, and says a last word later than at once. */
  class Odd implements Step<number, number> {
    done = false
    readonly #kind: string

    constructor(kind: string) {
      this.#kind = kind
    }

    push(part: number, emit: (part: number) => void): void {
      if (part === 7 && this.#kind === 'refuses') throw new Error('refused')
      emit(part)
      if (this.#kind === 'doubles') emit(part)
      if (part === 8 && this.#kind === 'ends') this.done = true
    }

    async end(emit: (part: number) => void): Promise<void> {
      await Promise.resolve()
      emit(100)
      if (this.#kind === 'fails at the end') throw new Error('no end')
    }

    fail(error: unknown): unknown {
      return this.#kind === 'renames' ? new Error('renamed') : error
    }
  }

  it('gives what a reader would get, however it comes', async () => {
    const kinds = ['passes', 'doubles', 'refuses', 'ends', 'fails at the end', 'renames']
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(fc.integer({ min: 0, max: 9 }), { minLength: 1, maxLength: 4 })),
        fc.array(fc.constantFrom(...kinds), { maxLength: 3 }),
        fc.boolean(),
        fc.boolean(),
        async (batches, steps, fails, pours) => {
          const flow = (poursIt: boolean) => {
            const source = new Bursts(batches, fails ? new Error('broken') : undefined, poursIt)
            let all: Flow<number> = flowFrom(source)
            for (const kind of steps) all = all.through(new Odd(kind))
            return all
          }
          expect(await poured(flow(pours))).toEqual(await pulled(flow(false)))
        },
      ),
      { numRuns: 300 },
    )
    await settled()
    expect(unhandled).toEqual([])
  })

  it('gives nothing more once it was closed', async () => {
    const source = new Bursts([[1], [2], [3]])
    const flow = flowFrom<number>(source)
    const parts: number[] = []
    let open!: () => void
    flow.pour({
      take(batch) {
        parts.push(...batch.parts)
        return new Promise((resolve) => (open = resolve))
      },
      fail: (error) => void parts.push(NaN, Number(error)),
    })
    await settled()
    await flow.close()
    open()
    await settled()
    expect(source.closed).toBe(true)
    expect(parts).toEqual([1])
  })

  it('gives what is there already', async () => {
    expect(await poured(flowOf(1, 2))).toEqual({ parts: [1, 2] })
  })
})

async function allOf<T>(flow: Flow<T>): Promise<T[]> {
  const parts: T[] = []
  for await (const part of flow) parts.push(part)
  return parts
}

describe('a step that waits for the end of a batch', () => {
  /** Says what came together as one. */
  class Joins implements Step<number, string> {
    #together: number[] = []

    push(part: number): void {
      this.#together.push(part)
    }

    batchEnd(emit: (part: string) => void): void {
      if (this.#together.length > 0) emit(this.#together.splice(0).join('+'))
    }
  }
  const batches = (...parts: number[][]): Flow<number> => {
    const left = parts.map((some, i) => ({ parts: some, last: i === parts.length - 1 }))
    return flowFrom({ next: async () => left.shift()!, close() {} })
  }

  it('is told after each of them, before the flow ends', async () => {
    const flow = batches([1, 2, 3], [], [4], [5, 6]).through(new Joins())
    expect(await allOf(flow)).toEqual(['1+2+3', '4', '5+6'])
  })

  it('is told of what came before a step that wants no more, and before a failure', async () => {
    const two = { done: false, count: 0 }
    const first: Step<number, number> & { done: boolean } = Object.assign(two, {
      push(part: number, emit: (part: number) => void) {
        emit(part)
        two.done = ++two.count === 2
      },
    })
    expect(await allOf(batches([1, 2, 3]).through(first).through(new Joins()))).toEqual(['1+2'])
    const flow = batches([0, 1, 2]).through(refuses).through(new Joins())
    expect(await flow.next()).toEqual({ parts: ['0+1'], last: false })
    await expect(flow.next()).rejects.toThrow('refused')
  })

  it('may be the one that wants no more', async () => {
    const joins = new Joins()
    const fed = Object.assign(joins, { done: false })
    const flush = joins.batchEnd.bind(joins)
    fed.batchEnd = (emit) => {
      flush(emit)
      fed.done = true
    }
    let closed = false
    const source: Source<number> = {
      next: async () => ({ parts: [1, 2], last: false }),
      close: () => void (closed = true),
    }
    expect(await allOf(flowFrom(source).through(fed))).toEqual(['1+2'])
    expect(closed).toBe(true)
  })
})
