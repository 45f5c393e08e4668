/**
 * What becomes of settlements whose store and disk fail, by random walks beside a model: `settle` never rejects, and each one ends in
 * the store, on the disk, or as a line of the log. The mirror has what was told.
 */
import * as fc from 'fast-check'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { parsePico, type Pico } from '../../../src/money/money.ts'
import { Unconfirmed } from '../../../src/state/ledger/unconfirmed.ts'
import type { Log, Settled, Settlement } from '../../../src/state/ledger/ledger.ts'
import { KEY, settlement } from '../sqlite/_engine.ts'
import { runs } from '../../_runs.ts'

const STORE = ['books', 'refuses', 'fails', 'answer lost', 'hangs'] as const
const DISK = ['takes', 'fails', 'absent'] as const

/** What the mirror has of one settlement. */
class Share {
  moved: Pico = 0n
  form: Settlement

  constructor(first: Settlement) {
    this.form = first
  }

  move(to: Settlement | undefined): Pico {
    this.moved = to?.cost ?? 0n
    return 0n
  }

  rewrite(form: Settlement): void {
    this.form = form
  }
}

/** A store and a disk that do what they are told to. */
class Scene {
  store: (typeof STORE)[number] = 'books'
  disk: (typeof DISK)[number] = 'takes'
  readonly booked = new Map<string, Pico>()
  readonly onDisk = new Map<string, Settlement>()
  /** Requests that were booked without an answer. */
  readonly unanswered = new Set<string>()
  readonly shares: Share[] = []
  readonly logged: string[] = []
  readonly #hanging: (() => void)[] = []
  readonly unconfirmed: Unconfirmed<Share>

  constructor() {
    const write = (...args: unknown[]) => void this.logged.push(args.join(' '))
    this.unconfirmed = new Unconfirmed<Share>({
      store: {
        send: ({ settlement, applied }, done, failed) => {
          const attempt = () => {
            if (this.store === 'fails') return failed()
            if (this.store === 'refuses') return done({ refused: 'it is wrong' })
            if (this.store === 'hangs') return void this.#hanging.push(attempt)
            const settled = this.#book({ ...settlement, cost: applied.form.cost })
            if (this.store === 'books') return done(settled)
            this.unanswered.add(settlement.request)
            failed()
          }
          attempt()
        },
      },
      disk: {
        append: async (entry) => {
          if (this.disk === 'absent') return undefined
          // Appends of one turn are written together, after it.
          await new Promise((resolve) => setImmediate(resolve))
          if (this.disk === 'fails') throw new Error('it is full')
          const one = entry.settlement
          if (!this.onDisk.has(one.request)) this.onDisk.set(one.request, one)
          return this.onDisk.get(one.request)!.cost
        },
        deliver: async () => {
          if (this.store !== 'books') return
          for (const [request, one] of this.onDisk) {
            this.unconfirmed.booked(one, this.#book(one))
            this.onDisk.delete(request)
          }
        },
        health: () => ({ waiting: this.onDisk.size, oldestMs: 0 }),
      },
      log: { info: write, warn: write, error: write } as unknown as Log,
    })
  }

  #book({ request, cost }: Settlement): Settled {
    const before = this.booked.get(request)
    if (before === undefined) this.booked.set(request, cost)
    return {
      state: before === undefined ? 'charged' : 'duplicate',
      cost: before ?? cost,
      balance: 0n,
    }
  }

  /** The store does as it is told to what it has left open. */
  wake(): void {
    for (const attempt of this.#hanging.splice(0)) attempt()
  }

  settle(request: string, cost: Pico): Promise<Settled> {
    const one = settlement(request, cost)
    const share = new Share(one)
    this.shares.push(share)
    share.move(one)
    return this.unconfirmed.settle(one, share)
  }

  lines(): { readonly request: string; readonly cost: string }[] {
    return this.logged.flatMap((line) => {
      const [, row] = /settlement not booked \(.*?\): (.*)$/.exec(line) ?? []
      return row === undefined ? [] : [JSON.parse(row)]
    })
  }
}

interface Step {
  readonly do: string
  readonly cost?: number
  readonly who?: number
  readonly store?: Scene['store']
  readonly disk?: Scene['disk']
  readonly ms?: number
}

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant('settle'), cost: fc.nat(1000) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('waive'), who: fc.nat(30) }) },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant('store'), store: fc.constantFrom(...STORE) }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('disk'), disk: fc.constantFrom(...DISK) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('pass'), ms: fc.nat(12_000) }) },
)

/** Steps, and then an end in an outage or after a repair. */
async function walk(steps: readonly Step[], repaired: boolean): Promise<void> {
  const scene = new Scene()
  const answers: Promise<void>[] = []
  const told = new Map<string, Settled>()
  const waived = new Set<string>()
  for (const { do: what, cost, who, store, disk, ms } of steps) {
    if (what === 'settle') {
      const request = `req_${told.size + answers.length}`
      answers.push(scene.settle(request, BigInt(cost!)).then((it) => void told.set(request, it)))
    } else if (what === 'waive') {
      const request = [...told].find(([, { state }]) => state === 'deferred')?.[0] ?? `req_${who}`
      if (told.get(request)?.state !== 'deferred') continue
      if (scene.unconfirmed.waive({ ...KEY, request }).state === 'deferred') waived.add(request)
    } else if (what === 'store') {
      scene.store = store!
      scene.wake()
    } else if (what === 'disk') scene.disk = disk!
    else await vi.advanceTimersByTimeAsync(ms!)
  }
  if (repaired) {
    Object.assign(scene, { store: 'books', disk: 'takes' })
    scene.wake()
    await vi.advanceTimersByTimeAsync(3000)
    expect(scene.unconfirmed.why).toBeUndefined()
    expect(scene.unconfirmed.health()).toEqual({ waiting: 0, oldestMs: 0 })
  }
  if (scene.store === 'hangs') scene.store = 'fails'
  scene.wake()
  const end = await scene.unconfirmed.close().catch((error: Error) => error)
  await Promise.all(answers)
  const lines = new Map(scene.lines().map(({ request, cost }) => [request, parsePico(cost)]))
  const ends = [scene.booked, scene.onDisk, lines]
  for (const { form, moved } of scene.shares) {
    const { request } = form
    const stored =
      scene.booked.get(request) ?? scene.onDisk.get(request)?.cost ?? lines.get(request)
    expect(ends.filter((one) => one.has(request)).length, request).toBeGreaterThan(0)
    // A confirmation that was lost leaves one in two places, and receipts make that harmless.
    const { state, cost } = told.get(request)!
    if (state !== 'deferred') expect([request, cost]).toEqual([request, stored])
    if (state === 'charged' && !lines.has(request))
      expect([request, moved]).toEqual([request, stored])
    if (waived.has(request) && !scene.unanswered.has(request)) expect(stored).toBe(0n)
  }
  const atEnd = scene.logged.filter((line) => line.includes('(the gateway ends)')).length
  expect(end === undefined ? '' : `${end}`).toContain(atEnd > 0 ? `${atEnd} settlement` : '')
}

beforeEach(() => {
  vi.useFakeTimers({
    toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'performance'],
  })
})
afterEach(() => vi.useRealTimers())

it('a settlement that is waived while it waits for the disk is stored without a cost', async () => {
  const scene = new Scene()
  Object.assign(scene, { store: 'hangs', disk: 'takes' })
  const answer = scene.settle('req_1', 870n)
  await vi.advanceTimersByTimeAsync(11_000)
  expect(await answer).toMatchObject({ state: 'deferred', cost: 870n })
  scene.store = 'fails'
  scene.wake()
  expect(scene.unconfirmed.waive({ ...KEY, request: 'req_1' })).toMatchObject({ cost: 0n })
  scene.store = 'books'
  await vi.advanceTimersByTimeAsync(3000)
  expect(scene.booked).toEqual(new Map([['req_1', 0n]]))
  expect(scene.unconfirmed.conflicts).toBe(0)
  await scene.unconfirmed.close()
})

it('each settlement ends in the store, on the disk, or in the log', async () => {
  const property = fc.asyncProperty(
    fc.array(step, { minLength: 5, maxLength: 60 }),
    fc.boolean(),
    walk,
  )
  await fc.assert(property, { numRuns: runs(300), endOnFailure: true })
})
