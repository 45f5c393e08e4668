import fc from 'fast-check'
import { afterEach, describe, expect, it } from 'vitest'
import { Chain, Instead, type ChainStep, type Outlet, type Sink } from '../../src/stream/chain.ts'
import { runs } from '../_runs.ts'
import { BatchFeed } from './_feed.ts'

const unhandled: unknown[] = []
process.on('unhandledRejection', (reason) => void unhandled.push(reason))
afterEach(() => void unhandled.splice(0))

const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

/** Takes parts, and notes what it is told, in order. */
class Target implements Sink<number> {
  readonly parts: number[] = []
  /** How often it was told of an end. */
  ends = 0
  error: string | undefined
  /** Parts that came after the end. */
  late = 0
  /** Answers of `batchEnd`, in turn; true for all further ones. */
  readonly #rooms: boolean[]
  resume: () => void = () => {}
  readonly over = Promise.withResolvers<void>()

  constructor(rooms: readonly boolean[] = []) {
    this.#rooms = [...rooms]
  }

  onRoom(resume: () => void): void {
    this.resume = resume
  }

  push(part: number): void {
    if (this.ends > 0) this.late++
    else this.parts.push(part)
  }

  batchEnd(): boolean {
    const hasRoom = this.#rooms.shift() ?? true
    if (!hasRoom) setImmediate(() => this.resume())
    return hasRoom
  }

  end(): void {
    this.ends++
    this.over.resolve()
  }

  fail(error: unknown): void {
    this.error = (error as Error).message
    this.end()
  }

  get outcome(): { parts: readonly number[]; error: string | undefined; ends: number } {
    return { parts: this.parts, error: this.error, ends: this.ends }
  }
}

const KINDS = [
  'passes',
  'waits',
  'doubles',
  'gathers',
  'refuses',
  'ends',
  'adds',
  'fails at the end',
] as const
type Kind = (typeof KINDS)[number]
const REFUSED = 7
const LAST = 8

/** A step that does one thing, by its kind; with waits it takes its time. */
class Odd implements ChainStep<number, number> {
  done?: boolean
  batchEnd?: (emit: (part: number) => void) => void
  readonly #kind: Kind
  readonly #wait: () => Promise<void> | undefined
  #gathered: number[] = []

  constructor(kind: Kind, wait: () => Promise<void> | undefined) {
    this.#kind = kind
    this.#wait = wait
    if (kind === 'ends') this.done = false
    if (kind === 'gathers') {
      this.batchEnd = (emit) => {
        for (const part of this.#gathered.splice(0)) emit(part)
      }
    }
  }

  push(part: number, emit: (part: number) => void): void | Promise<void> {
    if (this.#kind !== 'waits') return this.#act(part, emit)
    const waiting = this.#wait()
    return waiting ? waiting.then(() => emit(part)) : emit(part)
  }

  end(emit: (part: number) => void): void | Promise<void> {
    this.batchEnd?.(emit)
    const act = () => {
      if (this.#kind === 'adds') emit(100)
      if (this.#kind === 'fails at the end') throw new Error('no end')
    }
    const waiting =
      this.#kind === 'adds' || this.#kind === 'fails at the end' ? this.#wait() : undefined
    return waiting ? waiting.then(act) : act()
  }

  #act(part: number, emit: (part: number) => void): void {
    if (this.#kind === 'refuses' && part === REFUSED) throw new Error('refused')
    if (this.#kind === 'gathers') return void this.#gathered.push(part)
    emit(part)
    if (this.#kind === 'doubles') emit(part)
    if (this.#kind === 'ends' && part === LAST) this.done = true
  }
}

/** What comes out where nothing takes time and there is always room: each part goes through all steps before the next one. */
async function plainly(
  batches: readonly (readonly number[])[],
  kinds: readonly Kind[],
  failure?: Error,
) {
  const target = new Target()
  const chain = new Chain(
    kinds.map((kind) => new Odd(kind, () => undefined)),
    target,
  )
  const singles = batches.flat().map((part) => [part])
  chain.start(new BatchFeed(singles, { failure }))
  await target.over.promise
  return target.outcome
}

describe('a chain', () => {
  it('gives the same whatever takes time, whenever there is room, however parts come together', async () => {
    const delays = fc.infiniteStream(fc.integer({ min: 0, max: 3 }))
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(fc.integer({ min: 0, max: 9 }), { maxLength: 4 }), { maxLength: 6 }),
        fc.array(fc.constantFrom(...KINDS), { maxLength: 4 }),
        fc.boolean(),
        fc.array(fc.boolean(), { maxLength: 8 }),
        delays,
        async (batches, kinds, fails, rooms, turns) => {
          const failure = fails ? new Error('broken') : undefined
          const wait = () => {
            const count = turns.next().value as number
            if (count === 0) return undefined
            return (async () => {
              for (let i = 0; i < count; i++) await (count === 1 ? undefined : turn())
            })()
          }
          const target = new Target(rooms)
          const feed = new BatchFeed(batches, { failure })
          const chain = new Chain(
            kinds.map((kind) => new Odd(kind, wait)),
            target,
          )
          chain.start(feed)
          await target.over.promise
          for (let i = 0; i < 4; i++) await turn()
          expect(target.outcome).toEqual(await plainly(batches, kinds, failure))
          expect([target.ends, target.late]).toEqual([1, 0])
          expect(feed.closes.length).toBeLessThanOrEqual(1)
        },
      ),
      { numRuns: runs(170) },
    )
    expect(unhandled).toEqual([])
  })

  it('ends well where a step behind the one whose end fails later had all that it wanted', async () => {
    const kinds = ['ends', 'gathers', 'fails at the end', 'ends'] as const
    for (const waits of [false, true]) {
      const target = new Target()
      const wait = () => (waits ? turn() : undefined)
      new Chain(
        kinds.map((kind) => new Odd(kind, wait)),
        target,
      ).start(new BatchFeed([[LAST]]))
      await target.over.promise
      expect(target.outcome).toEqual({ parts: [LAST], error: undefined, ends: 1 })
    }
  })

  const tick = (step: ChainStep<number, number>) => step

  it('closes what gives the parts, as complete, once a step is done, and ends the steps behind it', async () => {
    const ended: string[] = []
    const feed = new BatchFeed([[1, 8, 2], [3]])
    const target = new Target()
    const chain = new Chain(
      [
        tick({ end: () => void ended.push('before') }),
        new Odd('ends', () => undefined),
        tick({ end: () => void ended.push('behind') }),
      ],
      target,
    )
    chain.start(feed)
    await target.over.promise
    expect(target.outcome).toEqual({ parts: [1, 8], error: undefined, ends: 1 })
    expect([feed.closes, ended]).toEqual([[true], ['behind']])
  })

  it('pauses what gives the parts while its sink has no room, and brings all of them once it has', async () => {
    const feed = new BatchFeed([[1], [2], [3]])
    const target = new Target()
    let hasRoom = false
    target.batchEnd = () => hasRoom
    new Chain<number>([], target).start(feed)
    for (let i = 0; i < 4; i++) await turn()
    expect([feed.given, target.parts]).toEqual([1, [1]])
    target.resume()
    for (let i = 0; i < 4; i++) await turn()
    expect([feed.given, target.parts]).toEqual([2, [1, 2]])
    hasRoom = true
    target.resume()
    await target.over.promise
    expect(target.outcome).toEqual({ parts: [1, 2, 3], error: undefined, ends: 1 })
  })

  it('pauses what gives the parts while a step takes time', async () => {
    const feed = new BatchFeed([[1], [2], [3]])
    const target = new Target()
    const gate = Promise.withResolvers<void>()
    const step = tick({
      push: (part, emit) => (part === 1 ? gate.promise.then(() => emit(1)) : emit(part)),
    })
    new Chain([step], target).start(feed)
    for (let i = 0; i < 4; i++) await turn()
    expect([feed.given, target.parts]).toEqual([1, []])
    gate.resolve()
    await target.over.promise
    expect(target.parts).toEqual([1, 2, 3])
  })

  it.each<[string, ChainStep<number, number>]>([
    ['for a part', { push: () => new Promise<void>(() => {}) }],
    ['at the end', { end: () => new Promise<void>(() => {}) }],
  ])('ends at once when it is aborted while a step takes time: %s', async (_when, step) => {
    const feed = new BatchFeed([[1]])
    const target = new Target()
    const chain = new Chain([step], target)
    chain.start(feed)
    for (let i = 0; i < 4; i++) await turn()
    expect(target.ends).toBe(0)
    chain.abort(new Error('enough'))
    expect([target.error, target.ends]).toEqual(['enough', 1])
  })

  it.each<[string, (chain: Chain<number>) => void, string | undefined, number]>([
    ['aborted', (chain) => chain.abort(new Error('enough')), 'enough', 1],
    ['closed', (chain) => void chain.close(), undefined, 0],
  ])(
    'gives nothing more once it was %s, whatever its steps do',
    async (_how, stop, error, ends) => {
      const gate = Promise.withResolvers<void>()
      const late = Promise.withResolvers<void>()
      let outlet: Outlet<number> | undefined
      const target = new Target()
      const chain = new Chain<number>(
        [
          {
            open: (given) => void (outlet = given),
            push: (part, emit) => gate.promise.then(() => emit(part)),
          },
          { end: (emit) => late.promise.then(() => emit(100)) },
        ],
        target,
      )
      const feed = new BatchFeed([[1, 2]])
      chain.start(feed)
      await turn()
      stop(chain)
      gate.resolve()
      late.resolve()
      outlet!.emit([3])
      outlet!.fail(new Error('late'))
      chain.push(4)
      chain.end()
      chain.fail(new Error('later'))
      for (let i = 0; i < 4; i++) await turn()
      expect([target.parts, target.error, target.ends, target.late]).toEqual([[], error, ends, 0])
      expect(feed.closes).toEqual([false])
    },
  )

  it('waits for the end of each step before that of the next one', async () => {
    const order: string[] = []
    const ends = (name: string): ChainStep<number, number> => ({
      async end(emit) {
        await turn()
        order.push(name)
        emit(order.length)
      },
    })
    const target = new Target()
    new Chain([ends('a'), ends('b'), ends('c')], target).start(new BatchFeed<number>([]))
    await target.over.promise
    expect([order, target.parts]).toEqual([
      ['a', 'b', 'c'],
      [1, 2, 3],
    ])
  })

  it('ends the steps behind one that is done once, though the parts had ended while it needed time', async () => {
    const { promise: decided, resolve: decide } = Promise.withResolvers<void>()
    const first = {
      done: false,
      push: (part: number, emit: (part: number) => void) => {
        emit(part)
        return decided.then(() => void (first.done = true))
      },
    }
    let ends = 0
    const last: ChainStep<number, number> = {
      async end() {
        ends++
        await turn()
      },
    }
    const target = new Target()
    const chain = new Chain<number>([first, last], target)
    chain.push(1)
    chain.batchEnd()
    chain.end()
    decide()
    await target.over.promise
    expect(target.outcome).toEqual({ parts: [1], error: undefined, ends: 1 })
    expect(ends).toBe(1)
  })

  it('concludes: what gives the parts is closed, and what steps retain still comes', async () => {
    const feed = new BatchFeed([[1], [2]])
    const target = new Target()
    target.batchEnd = () => false
    const chain = new Chain([tick({ end: (emit) => emit(9) })], target)
    chain.start(feed)
    await turn()
    chain.conclude()
    expect(target.outcome).toEqual({ parts: [1, 9], error: undefined, ends: 1 })
    expect(feed.closes).toEqual([false])
  })

  it('gives the error through the steps, each of which may change it', async () => {
    const target = new Target()
    new Chain(
      [
        tick({ fail: (error) => new Error(`${(error as Error).message}, first`) }),
        tick({ fail: async (error) => new Error(`${(error as Error).message}, second`) }),
      ],
      target,
    ).start(new BatchFeed([[1]], { failure: new Error('broken') }))
    await target.over.promise
    expect(target.outcome).toEqual({ parts: [1], error: 'broken, first, second', ends: 1 })
  })

  it('ends with the parts that a step gives in place of an error, unless it was closed meanwhile', async () => {
    for (const isClosed of [false, true]) {
      const { promise, resolve } = Promise.withResolvers<Instead>()
      const first: ChainStep<number, number> = { fail: () => promise }
      const last: ChainStep<number, number> = { end: (emit) => emit(9) }
      const target = new Target()
      const chain = new Chain<number>([first, last], target)
      chain.push(1)
      chain.fail(new Error('no'))
      if (isClosed) void chain.close()
      resolve(new Instead([7, 8]))
      await turn()
      const parts = isClosed ? [1] : [1, 7, 8, 9]
      expect(target.outcome).toEqual({ parts, error: undefined, ends: isClosed ? 0 : 1 })
    }
  })

  it('is not disturbed where what gives the parts cannot be closed', async () => {
    for (const kind of ['refuses', 'ends'] as const) {
      const onClose = () => Promise.reject(new Error('stuck'))
      const target = new Target()
      const chain = new Chain([new Odd(kind, () => undefined)], target)
      chain.start(new BatchFeed([[1, REFUSED, LAST]], { onClose }))
      await target.over.promise
    }
    for (let i = 0; i < 4; i++) await turn()
    expect(unhandled).toEqual([])
  })
})

describe('an outlet of a step', () => {
  it('gives parts between two parts, in order, and ends the chain', async () => {
    let outlet: Outlet<number> | undefined
    const target = new Target()
    const steps: ChainStep<number, number>[] = [
      { open: (given) => void (outlet = given), push: (part, emit) => emit(part) },
      { push: (part, emit) => emit(part * 10) },
    ]
    const chain = new Chain(steps, target)
    chain.push(1)
    outlet!.emit([2, 3])
    chain.push(4)
    outlet!.fail(new Error('refused'))
    chain.push(5)
    expect(target.outcome).toEqual({ parts: [10, 20, 30, 40], error: 'refused', ends: 1 })
  })

  it('ends the chain where the step becomes done', async () => {
    let outlet: Outlet<number> | undefined
    const step: ChainStep<number, number> & { done: boolean } = {
      done: false,
      open: (given) => void (outlet = given),
      push: (part, emit) => emit(part),
    }
    const target = new Target()
    const feed = new BatchFeed([[1]])
    target.batchEnd = () => false
    new Chain([step], target).start(feed)
    await turn()
    step.done = true
    outlet!.done()
    expect(target.outcome).toEqual({ parts: [1], error: undefined, ends: 1 })
    expect(feed.closes).toEqual([true])
  })
})
