import fc from 'fast-check'
import { afterEach, describe, expect, it } from 'vitest'
import { flowFrom, flowOf, toFlow } from '../../src/stream/flow.ts'
import type { Feed } from '../../src/stream/chain.ts'
import type { Flow, Step } from '../../src/plugin.ts'
import { BatchFeed } from './_feed.ts'
import { runs } from '../_runs.ts'

const unhandled: unknown[] = []
const listen = (reason: unknown) => void unhandled.push(reason)
process.on('unhandledRejection', listen)
afterEach(() => void unhandled.splice(0))

/** Afterwards Node has reported every unhandled rejection. */
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
  const stuck = () =>
    new BatchFeed(
      [
        [1, 2],
        [1, 2],
      ],
      { onClose: () => Promise.reject(new Error('stuck')) },
    )

  it('rejects with what a step threw, after the parts before it', async () => {
    const flow = flowFrom(stuck()).through(refuses)
    expect(await flow.next()).toEqual({ parts: [1], last: false })
    await expect(flow.next()).rejects.toThrow('refused')
    expect(await flow.next()).toEqual({ parts: [], last: true })
    await settled()
    expect(unhandled).toEqual([])
  })

  it('ends when a step is done', async () => {
    const one: Step<number, number> & { done: boolean } = {
      done: false,
      push(part, emit) {
        emit(part)
        one.done = true
      },
    }
    const flow = flowFrom(stuck()).through(one)
    expect(await flow.next()).toEqual({ parts: [1], last: true })
    await settled()
    expect(unhandled).toEqual([])
  })
})

it('parts pass a step without push', async () => {
  const calls: string[] = []
  const flow = flowOf(1, 2)
    .through<number>({ end: () => void calls.push('end') })
    .through<number>({ push: (part, emit) => emit(part * 10) })
  expect(await flow.next()).toEqual({ parts: [10, 20], last: true })
  expect(calls).toEqual(['end'])
})

it('a sequence whose return() throws can be closed', async () => {
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

describe('a flow of several steps', () => {
  async function read(flow: Flow<number>): Promise<{ parts: number[]; error?: string }> {
    const parts: number[] = []
    try {
      for await (const part of flow) parts.push(part)
      return { parts }
    } catch (error) {
      return { parts, error: (error as Error).message }
    }
  }

  /** Doubles parts, throws, ends early or renames an error, by its kind; emits a last part asynchronously. */
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

  it('gives the same parts and the same error, however the parts are batched', async () => {
    const kinds = ['passes', 'doubles', 'refuses', 'ends', 'fails at the end', 'renames']
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(fc.integer({ min: 0, max: 9 }), { maxLength: 4 })),
        fc.array(fc.constantFrom(...kinds), { maxLength: 3 }),
        fc.boolean(),
        async (batches, steps, fails) => {
          const failure = fails ? new Error('broken') : undefined
          const through = (feed: Feed<number>) => {
            let flow: Flow<number> = flowFrom(feed)
            for (const kind of steps) flow = flow.through(new Odd(kind))
            return read(flow)
          }
          const single = batches.flat().map((part) => [part])
          expect(await through(new BatchFeed(batches, { failure }))).toEqual(
            await through(new BatchFeed(single, { failure })),
          )
        },
      ),
      { numRuns: runs(100) },
    )
    await settled()
    expect(unhandled).toEqual([])
  })

  it('gives nothing after it was closed, and closes what gives its parts once', async () => {
    const feed = new BatchFeed([[1], [2], [3]])
    const flow = flowFrom(feed)
    const read = flow.next()
    await flow.close()
    expect(await read).toEqual({ parts: [], last: true })
    expect(await flow.next()).toEqual({ parts: [], last: true })
    await settled()
    expect([feed.given, feed.closes]).toEqual([0, [false]])
  })

  it('is not read ahead of its reader', async () => {
    const feed = new BatchFeed([[1], [2], [3]])
    const flow = flowFrom(feed)
    await settled()
    expect(feed.given).toBe(0)
    expect(await flow.next()).toEqual({ parts: [1], last: false })
    await settled()
    expect(feed.given).toBe(1)
    expect(await flow.next()).toEqual({ parts: [2], last: false })
    expect(await flow.next()).toEqual({ parts: [3], last: false })
    expect(await flow.next()).toEqual({ parts: [], last: true })
  })

  it('takes no more steps once it is read', async () => {
    const flow = flowOf(1)
    await flow.next()
    expect(() => flow.through({})).toThrow('once it is read')
  })
})

async function allOf<T>(flow: Flow<T>): Promise<T[]> {
  const parts: T[] = []
  for await (const part of flow) parts.push(part)
  return parts
}

describe('a step with batchEnd', () => {
  /** Joins the parts of a batch. */
  class Joins implements Step<number, string> {
    #together: number[] = []

    push(part: number): void {
      this.#together.push(part)
    }

    batchEnd(emit: (part: string) => void): void {
      if (this.#together.length > 0) emit(this.#together.splice(0).join('+'))
    }
  }
  const batches = (...parts: number[][]): Flow<number> => flowFrom(new BatchFeed(parts))

  it('is called after each batch, before the flow ends', async () => {
    const flow = batches([1, 2, 3], [], [4], [5, 6]).through(new Joins())
    expect(await allOf(flow)).toEqual(['1+2+3', '4', '5+6'])
  })

  it('is called for the parts before a step that is done, and before an error', async () => {
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

  it('may be done in batchEnd', async () => {
    const joins = new Joins()
    const fed = Object.assign(joins, { done: false })
    const flush = joins.batchEnd.bind(joins)
    fed.batchEnd = (emit) => {
      flush(emit)
      fed.done = true
    }
    const feed = new BatchFeed([[1, 2], [3]])
    expect(await allOf(flowFrom(feed).through(fed))).toEqual(['1+2'])
    expect(feed.closes).toEqual([true])
  })
})
