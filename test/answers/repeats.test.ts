import fc from 'fast-check'
import { createStorage } from 'unstorage'
import { expect, it, onTestFinished, vi } from 'vitest'
import { AnswerCopy, Repeats, type Repeatable } from '../../src/answers/repeats.ts'
import { AnswerStorage } from '../../src/answers/storage.ts'
import type { RequestId } from '../../src/state/ledger/ledger.ts'
import { StoredRecords } from '../../src/state/records.ts'
import { runs } from '../_runs.ts'
import { SEED } from '../_seed.ts'

const KEEP = 86_400

/** Where a gateway is killed: after its claim, when it has kept the answer, with a charge in its outbox, when it has booked. */
const STEPS = ['claimed', 'kept', 'waiting', 'booked', 'never'] as const

/** Gateways on one store. One that is killed is followed by another one, which books what the first left in its outbox. */
class World {
  readonly #storage = createStorage()
  readonly #records = new StoredRecords(this.#storage)
  readonly booked = new Map<string, bigint>()
  readonly #outboxes = new Map<string, RequestId[]>()
  readonly #ended = new Set<string>()
  readonly #alive = new Set<string>()
  readonly #gateways = new Map<number, { readonly id: string; readonly repeats: Repeats }>()
  #made = 0

  gateway(place: number) {
    const known = this.#gateways.get(place)
    if (known) return known
    const id = `gw_${++this.#made}`
    const repeats = new Repeats({
      records: this.#records,
      storage: new AnswerStorage(this.#storage),
      ledger: {
        receipt: async (_account, request) => this.booked.get(request),
        isBooked: async (gateway) => this.#ended.has(gateway),
      },
      gateway: id,
      runs: async (gateway) => this.#alive.has(gateway),
      warn: () => {},
    })
    const one = { id, repeats }
    this.#alive.add(id)
    this.#gateways.set(place, one)
    return one
  }

  wait(id: string, request: RequestId): void {
    this.#outboxes.set(id, [...(this.#outboxes.get(id) ?? []), request])
  }

  kill(place: number): void {
    this.#alive.delete(this.gateway(place).id)
    this.#gateways.delete(place)
  }

  /** Its process runs no more for a while, and other gateways see that. */
  stop(id: string): void {
    this.#alive.delete(id)
  }

  /** The next process of a place reads what the killed ones left. */
  recover(): void {
    for (let n = 1; n <= this.#made; n++) {
      const id = `gw_${n}`
      if (this.#alive.has(id)) continue
      for (const request of this.#outboxes.get(id) ?? []) this.booked.set(request, 1n)
      this.#ended.add(id)
    }
  }
}

it(`charges a request at most once, however it is repeated and whoever is killed (seed ${SEED})`, async () => {
  const event = fc.record({
    place: fc.nat(1),
    ends: fc.constantFrom('completed', 'failed'),
    killed: fc.constantFrom(...STEPS),
    recovers: fc.boolean(),
  })
  const law = fc.asyncProperty(fc.array(event, { maxLength: 12 }), async (events) => {
    const world = new World()
    const answers = new Set<string>()
    let asked = 0
    for (const { place, ends, killed, recovers } of events) {
      const { id, repeats } = world.gateway(place)
      const request = `req_${++asked}` as RequestId
      const one: Repeatable = {
        name: 'n',
        account: 'a',
        request,
        print: 'p',
        secret: 's',
        value: 'v',
      }
      const found = await repeats.claim(one, KEEP)
      if (found.is === 'answered') answers.add(found.answer.bytes.toString())
      if (found.is === 'first') await answer(world, repeats, one, { id, place, ends, killed })
      if (recovers) world.recover()
    }
    world.recover()
    expect(world.booked.size).toBeLessThanOrEqual(1)
    expect(answers.size).toBeLessThanOrEqual(1)
    const last = await world.gateway(0).repeats.claim({ ...LAST }, KEEP)
    if (world.booked.size === 1) {
      expect(last.is).toBe('answered')
      const [request] = world.booked.keys()
      expect(last).toMatchObject({
        answer: { request, bytes: Buffer.from(`answer of ${request}`) },
      })
    }
  })
  await fc.assert(law, { seed: SEED, numRuns: runs(100) })
})

it('does not charge a request whose gateway was stopped until another one had taken it over', async () => {
  vi.useFakeTimers({ toFake: ['Date', 'performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const world = new World()
  const [stopped, other] = [world.gateway(0), world.gateway(1)]
  const one = { ...LAST, request: 'req_1' as RequestId }
  const first = await stopped.repeats.claim(one, KEEP)
  if (first.is !== 'first') throw new Error(first.is)
  expect(await stopped.repeats.holds(one, first.held, KEEP)).toBe(true)
  // Its process is stopped, so that it seems to have ended.
  world.stop(stopped.id)
  vi.advanceTimersByTime((KEEP / 2) * 1000 + 1)
  const second = await other.repeats.claim(LAST, KEEP)
  if (second.is !== 'first') throw new Error(second.is)
  expect(await stopped.repeats.holds(one, first.held, KEEP)).toBe(false)
  expect(await other.repeats.holds(LAST, second.held, KEEP)).toBe(true)
})

it('keeps a claim that none has taken, however late its answer is complete', async () => {
  vi.useFakeTimers({ toFake: ['Date', 'performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const world = new World()
  const [slow, other] = [world.gateway(0), world.gateway(1)]
  const first = await slow.repeats.claim(LAST, KEEP)
  if (first.is !== 'first') throw new Error(first.is)
  vi.advanceTimersByTime((KEEP / 2) * 1000 + 1)
  expect(await slow.repeats.holds(LAST, first.held, KEEP)).toBe(true)
  // It is held anew: a gateway that is stopped now has it for as long as before.
  world.stop(slow.id)
  expect((await other.repeats.claim({ ...LAST, request: 'req_2' }, KEEP)).is).toBe('lost')
})

const LAST: Repeatable = {
  name: 'n',
  account: 'a',
  request: 'req_last' as RequestId,
  print: 'p',
  secret: 's',
  value: 'v',
}

interface Course {
  readonly id: string
  readonly place: number
  readonly ends: string
  readonly killed: (typeof STEPS)[number]
}

/** What a gateway does for a request that it has claimed, up to where it is killed. */
async function answer(
  world: World,
  repeats: Repeats,
  one: Repeatable,
  { id, place, ends, killed }: Course,
): Promise<void> {
  if (killed === 'claimed') return world.kill(place)
  if (ends === 'failed') return repeats.release(one)
  const copy = new AnswerCopy(1000)
  copy.head(200, 'text/plain')
  copy.add(`answer of ${one.request}`)
  await repeats.keep(one, copy, KEEP)
  if (killed === 'kept') return world.kill(place)
  if (killed === 'waiting') {
    world.wait(id, one.request)
    return world.kill(place)
  }
  world.booked.set(one.request, 1n)
  if (killed === 'booked') world.kill(place)
}

it('keeps 16 MiB of an account, and nothing that is larger than it may be', async () => {
  const world = new World()
  const { repeats } = world.gateway(0)
  const ask = async (n: number, bytes: number) => {
    const one = { ...LAST, name: `n${n}`, request: `req_${n}` as RequestId }
    expect(await repeats.claim(one, KEEP)).toMatchObject({ is: 'first' })
    const copy = new AnswerCopy(4 * 1024 * 1024)
    copy.add(Buffer.alloc(bytes))
    await repeats.keep(one, copy, KEEP)
    world.booked.set(one.request, 7n)
    return (await repeats.claim({ ...one, request: 'req_x' as RequestId }, KEEP)).is
  }
  expect(await ask(0, 5 * 1024 * 1024)).toBe('gone')
  for (let n = 1; n <= 4; n++) expect(await ask(n, 4 * 1024 * 1024)).toBe('answered')
  expect(await ask(5, 1)).toBe('gone')
})
