/**
 * Windows of limits over restarts, folds and changes of the clock, by random scenes beside the model of the random walk: what was counted
 * before goes on counting, so a call is refused exactly where the model refuses it.
 */
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { parsePico } from '../../../src/money/money.ts'
import {
  ACCOUNT,
  teamKey,
  type CountedLimit,
  type HoldGranted,
  type KeyLimits,
  type Lease,
  type Ledger,
  type Settlement,
} from '../../../src/state/ledger/ledger.ts'
import { countersIn, isNewer, kindOf } from '../../../src/state/ledger/limit-list.ts'
import { counterOwner } from '../../../src/state/ledger/sums.ts'
import { DAY_MS, MINUTE_MS, type ZoneRule } from '../../../src/state/ledger/windows.ts'
import { Model, randomOf } from '../../conformance/_walk.ts'
import { folder } from '../../_folder.ts'
import { runs } from '../../_runs.ts'
import { holdOf } from '../_hold.ts'
import { installed, open as openRedis, sharedServer, STORED_CLOCK } from '../redis/_engine.ts'
import { NOT_INSTALLED, type RedisServer } from '../redis/_redis.ts'
import { collect, open as openFile, openInMemory } from '../sqlite/_engine.ts'
import { SEED } from '../../_seed.ts'

const STEPS = 50
const TEAM = 'one'
const OWNERS = ['k1', teamKey(TEAM), ACCOUNT]
const FREE_TIER = { rpm: 1000, concurrency: 1000 }
const NAMES = [
  ...['minute', '5h', 'day', 'week', 'month', 'lifetime'].map((window) => `tokens.${window}`),
  ...['5h', 'day', 'week', 'month', 'lifetime'].map((window) => `cap.${window}`),
  ...['5h', 'day', 'week', 'month'].map((window) => `requests.${window}`),
  'rpm.00000001',
  'cap.day.00000002',
]
const MODELS: Readonly<Record<string, readonly string[]>> = {
  'rpm.00000001': ['vendor/*'],
  'cap.day.00000002': ['vendor/model'],
}

/** A ledger that can be closed and opened again. */
interface Engine {
  ledger: Ledger
  restart(): Promise<void>
  /** Whether calls that run end with the process. */
  readonly forgetsCalls: boolean
  setClock(now: number): Promise<void> | void
}

/** The engine on `:memory:` ends with its process. What goes on is its export. */
async function inMemory(): Promise<Engine> {
  let now = 0
  const started = () => openInMemory({ now: () => now }).ledger
  const engine = {
    ledger: started(),
    async restart() {
      const items = await collect(engine.ledger.export())
      await engine.ledger.close()
      engine.ledger = started()
      await engine.ledger.import(items)
    },
    forgetsCalls: true,
    setClock: (to: number) => void (now = to),
  }
  onTestFinished(() => engine.ledger.close())
  return engine
}

async function inFile(): Promise<Engine> {
  let now = 0
  const path = await folder({})
  const started = async () => (await openFile(path, () => now)).ledger
  const engine = {
    ledger: await started(),
    async restart() {
      await engine.ledger.close()
      engine.ledger = await started()
    },
    forgetsCalls: true,
    setClock: (to: number) => void (now = to),
  }
  return engine
}

async function inRedis(server: RedisServer): Promise<Engine> {
  const client = server.client()
  onTestFinished(() => client.disconnect())
  await client.set('now', 0)
  const outbox = await folder({})
  const started = () => openRedis(server.url, { clock: STORED_CLOCK, outbox })
  let opened = await started()
  const engine = {
    ledger: opened.ledger as Ledger,
    async restart() {
      await opened.close()
      opened = await started()
      engine.ledger = opened.ledger
    },
    forgetsCalls: false,
    setClock: async (to: number) => void (await client.set('now', to)),
  }
  return engine
}

interface Call extends Lease {
  readonly at: number
  readonly held: HoldGranted
}

/** The time of all scenes. It may be set back by two days at most: spend of earlier days is not loaded at a start. */
class Time {
  now = Date.UTC(2026, 1, 25, 20)
  #latest = this.now
  readonly #engine: Engine

  constructor(engine: Engine) {
    this.#engine = engine
  }

  async move(ms: number): Promise<void> {
    this.now = Math.max(this.now + ms, this.#latest - 2 * DAY_MS)
    this.#latest = Math.max(this.#latest, this.now)
    await this.#engine.setClock(this.now)
  }
}

/** One account, with the limits of a key, a team and of its own. */
class Scene {
  readonly #engine: Engine
  readonly #time: Time
  readonly #account: string
  readonly #random: () => number
  readonly #model: Model
  readonly #trail: string[] = []
  #calls: Call[] = []
  #step = 0

  constructor(engine: Engine, time: Time, account: string, random: () => number) {
    this.#engine = engine
    this.#time = time
    this.#account = account
    this.#random = random
    this.#model = new Model(this.#zone())
  }

  async play(): Promise<void> {
    if (this.#random() < 0.8) await this.#pay()
    for (const owner of OWNERS) await this.#limit(owner)
    for (; this.#step < STEPS; this.#step++) {
      const roll = this.#random()
      if (roll < 0.5) await this.#call()
      else if (roll < 0.6) await this.#end(this.#pick(this.#calls))
      else if (roll < 0.8) await this.#wait()
      else if (roll < 0.85) await this.#restart()
      else if (roll < 0.9) await this.#fold()
      else if (roll < 0.95) await this.#limit(this.#pick(OWNERS)!)
      else await this.#reset()
      await this.#look()
    }
    expect(await this.#engine.ledger.verify(this.#account), this.#told).toEqual([])
  }

  get #told(): string {
    return `seed ${SEED}, ${this.#account}, step ${this.#step}:\n${this.#trail.join('\n')}`
  }

  async #pay(): Promise<void> {
    const amount = parsePico('1000000')
    const topUp = { kind: 'top-up', account: this.#account, amount, reference: 'first' } as const
    this.#model.book(topUp)
    await this.#engine.ledger.book(topUp)
  }

  async #limit(owner: string): Promise<void> {
    const counted = NAMES.filter(() => this.#random() < 0.2).map((id): CountedLimit => {
      const models = MODELS[id]
      const most = { usd: 300, tokens: 300, requests: 6, concurrent: 1 }[kindOf(id).unit]
      const value = BigInt(1 + Math.floor(this.#random() * most))
      return { id, value, ...(models && { models }) }
    })
    const limits: KeyLimits = {
      disabled: false,
      ...(owner === 'k1' && FREE_TIER),
      ...(counted.length > 0 && { counted }),
    }
    const revision = Math.max(0, this.#model.of(owner).revision) + 1
    this.#note(`limits of ${owner}: ${counted.map(({ id, value }) => `${id} ${value}`).join(', ')}`)
    this.#model.limit(owner, limits, revision)
    await this.#engine.ledger.limits(this.#account, owner, limits, revision)
  }

  async #call(): Promise<void> {
    const { ledger } = this.#engine
    const request = `req_${this.#account}_${this.#step}`
    const team = this.#random() < 0.7 ? TEAM : undefined
    const lease = { account: this.#account, key: 'k1', request, ...(team && { team }) }
    const [revision, accountRevision, teamRevision] = OWNERS.map((owner) =>
      Math.max(0, this.#model.of(owner).revision),
    ).toSpliced(1, 2, ...[ACCOUNT, teamKey(TEAM)].map((owner) => this.#model.of(owner).revision))
    const entry = { ...lease, revision: revision!, accountRevision, teamRevision }
    const entered = await ledger.enter({ ...entry, freeTier: FREE_TIER })
    const { now } = this.#time
    expect([entered.ok, this.#model.enter({ ...entry, freeTier: FREE_TIER }, now).ok]).toEqual([
      true,
      true,
    ])
    const amount = BigInt(Math.floor(this.#random() * 60))
    const tokens = Math.floor(this.#random() * 60)
    const hold = {
      ...lease,
      at: now,
      ...holdOf(amount),
      tokens: { expected: tokens, ceiling: tokens },
      free: true,
      zone: this.#model.zone,
      tierPerDay: 8,
    }
    const held = await ledger.hold(hold)
    this.#note(`call of ${amount} pico, ${tokens} tokens: ${held.ok ? held.counted : held.why}`)
    expect(held, this.#told).toEqual(this.#model.hold(hold, now))
    if (held.ok) this.#calls.push({ ...lease, at: now, held })
    else await this.#leave(lease)
    if (this.#random() < 0.7) await this.#end(this.#calls.at(-1))
  }

  async #end(call: Call | undefined): Promise<void> {
    if (!call) return
    this.#calls = this.#calls.filter((one) => one !== call)
    const { held, at, ...lease } = call
    if (this.#random() < 0.1) return this.#leave(lease)
    const tokens = Math.floor(this.#random() * 60)
    const settlement: Settlement = {
      ...lease,
      day: held.day,
      cost: held.billed ? BigInt(Math.floor(this.#random() * 60)) : 0n,
      usage: {
        at,
        endpoint: 'chat',
        model: 'vendor/model',
        outcome: this.#random() < 0.1 ? 'failed' : 'completed',
        lines: [{ source: 'model', usage: { completionTokens: tokens } }],
        ...(lease.team && { team: lease.team }),
        ...(held.counted && { counted: held.counted }),
      },
    }
    this.#note(`${call.request} costs ${settlement.cost} pico, ${tokens} tokens`)
    const expected = this.#model.settle(settlement)
    expect(await this.#engine.ledger.settle(settlement), this.#told).toMatchObject(expected)
  }

  async #leave(lease: Lease): Promise<void> {
    this.#model.leave(lease.request)
    await this.#engine.ledger.leave(lease)
  }

  async #wait(): Promise<void> {
    const ms = this.#pick([
      this.#random() * 2 * MINUTE_MS,
      this.#random() * 6 * 60 * MINUTE_MS,
      this.#random() * DAY_MS,
      this.#random() * 9 * DAY_MS,
      this.#random() * -DAY_MS,
    ])!
    // A lease expires by a time that is not set back, and the model has no other than the calendar.
    for (const call of this.#calls) await this.#end(call)
    await this.#time.move(Math.floor(ms))
    this.#note(`it is ${new Date(this.#time.now).toISOString()}`)
  }

  async #restart(): Promise<void> {
    this.#note('restart')
    await this.#engine.restart()
    if (!this.#engine.forgetsCalls) return
    this.#calls = []
    this.#model.calls = []
    for (const owner of OWNERS) this.#forgetOpened(owner)
  }

  /** A window that only calls without a settlement had opened ends with the process. */
  #forgetOpened(owner: string): void {
    for (const [id, counter] of this.#model.of(owner).counters) {
      const settled = this.#model.rows.slice(counter.since).flatMap((row) =>
        [...countersIn(row.counted)].flatMap((entry) => {
          const isOwn = entry.id === id && counterOwner(entry.of, row as never) === owner
          return isOwn ? [entry.window] : []
        }),
      )
      counter.window = settled.reduce((last, one) => (isNewer(one, last) ? one : last), '')
    }
  }

  async #fold(): Promise<void> {
    const before = this.#time.now - Math.floor(this.#random() * 4 * DAY_MS)
    const rows = await this.#engine.ledger.fold(new Date(before))
    this.#note(`${rows} rows are folded`)
  }

  async #reset(): Promise<void> {
    const owner = this.#pick(OWNERS)!
    const limit = this.#pick(this.#model.of(owner).limits?.counted ?? [])?.id
    if (limit === undefined) return
    const reference = `reset_${this.#step}`
    const { zone } = this.#model
    const reset = { account: this.#account, owner, limit, reference, reason: 'a try', zone }
    this.#note(`reset of ${limit} of ${owner}`)
    const expected = this.#model.reset(reset, this.#time.now)
    expect(await this.#engine.ledger.reset(reset), this.#told).toEqual(expected)
  }

  /** What the engine shows of its counters is what the model counts. */
  async #look(): Promise<void> {
    const { zone } = this.#model
    for (const owner of OWNERS) {
      const views = await this.#engine.ledger.counters(this.#account, owner, zone)
      expect(views, this.#told).toEqual(this.#model.views(owner, this.#time.now))
    }
  }

  #zone(): ZoneRule | undefined {
    if (this.#random() < 0.4) return undefined
    const offset = this.#pick([-660, -300, 0, 60, 345, 630, 840])!
    const until = this.#time.now + Math.floor(this.#random() * 30 * DAY_MS)
    return { offset, until, next: offset + this.#pick([60, -60, 30])! }
  }

  #pick<T>(items: readonly T[]): T | undefined {
    return items[Math.floor(this.#random() * items.length)]
  }

  #note(what: string): void {
    this.#trail.push(what)
  }
}

async function play(engine: Engine, scenes: number): Promise<void> {
  const random = randomOf(SEED)
  const time = new Time(engine)
  for (let n = 0; n < runs(scenes); n++) {
    await time.move(Math.floor(random() * 40 * DAY_MS))
    await new Scene(engine, time, `scene_${n}`, random).play()
  }
}

describe(`windows of limits go on counting over restarts, folds and changes of the clock (seed ${SEED})`, () => {
  it('in memory, by export and import', async () => play(await inMemory(), 3))

  it('in a file', async () => play(await inFile(), 1))

  let server: RedisServer
  beforeAll(async () => {
    if (installed) server = await sharedServer()
  })

  it('in Redis', async (context) => {
    if (!installed) return context.skip(NOT_INSTALLED)
    await play(await inRedis(server), 1)
  })
})
