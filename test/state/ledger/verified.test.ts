/**
 * A verification goes on from the rows with which an account was right. By random scenes it finds exactly what one of all rows finds:
 * with limits that come and go, windows that end, rows that are folded, and stored sums that are changed by hand.
 */
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import {
  type CountedLimit,
  type Discrepancy,
  type Settlement,
} from '../../../src/state/ledger/ledger.ts'
import { counterEntry, countsOf, kindOf } from '../../../src/state/ledger/limit-list.ts'
import { firstKept, type Verified } from '../../../src/state/ledger/sums.ts'
import { Clock, currentWindow, DAY_MS, dayOf } from '../../../src/state/ledger/windows.ts'
import { RedisHistory } from '../../../src/state/redis/history.ts'
import { scriptsWith } from '../../../src/state/redis/scripts.ts'
import { openMemoryDatabase } from '../../../src/state/sqlite/file.ts'
import { History } from '../../../src/state/sqlite/reader.ts'
import { Store } from '../../../src/state/sqlite/store.ts'
import { randomOf } from '../../conformance/_walk.ts'
import { runs } from '../../_runs.ts'
import { installed, open, sharedServer, STORED_CLOCK } from '../redis/_engine.ts'
import { NOT_INSTALLED, type RedisServer } from '../redis/_redis.ts'
import { LIMITS, USAGE } from '../sqlite/_engine.ts'
import { SEED } from '../../_seed.ts'

const NAMES = ['tokens.day', 'tokens.5h', 'tokens.lifetime', 'requests.week', 'cap.5h', 'cap.month']
const TEAM = 'one'
/** More than the rows of an account from which on it is remembered. */
const ROWS = 1050

/** Tables of sums, and what names one. */
const SUMS = {
  account: ['id'],
  spend: ['account', 'key', 'window'],
  counter: ['account', 'owner', 'id', 'window'],
}

interface Engine {
  limit(counted: readonly CountedLimit[], revision: number): Promise<void>
  settle(settlements: readonly Settlement[]): Promise<void>
  fold(before: number, now: number): Promise<void>
  /** Adds to one of the stored sums. @param place chooses it, from 0 to 1 */
  falsify(place: number, by: number): Promise<void>
  verify(isWhole: boolean, now: number): Promise<readonly Discrepancy[]>
}

function inMemory(): Engine {
  const db = openMemoryDatabase()
  onTestFinished(() => db.close())
  const [store, history] = [new Store(db), new History(db)]
  const pause = async () => {}
  let known: Verified | undefined
  return {
    async limit(counted, revision) {
      store.commit([{ name: 'limits', args: ['acct', 'k1', { ...LIMITS, counted }, revision] }])
    },
    async settle(settlements) {
      const charges = settlements.map(
        ({ request, account, key, day, cost, usage, team = null }) => {
          const counts = usage.counted && { counted: usage.counted, ...countsOf(cost, usage) }
          const body = JSON.stringify(usage)
          const args = [request, account, key, day, cost, usage.at, body, team, counts ?? null]
          return { name: 'settle', args } as never
        },
      )
      store.commit(charges)
    },
    async fold(before, now) {
      for (let from: string | undefined = ''; from !== undefined;) {
        const { steps, next } = history.foldable(from, before, now)
        if (steps.length > 0) store.commit([{ name: 'fold', args: [steps] }])
        from = next
      }
    },
    async falsify(place, by) {
      const sums = Object.entries(SUMS).flatMap(([table, names]) => {
        const rows = db.prepare(`SELECT ${names.join(', ')} FROM ${table}`).all()
        return rows
          .filter(({ window }) => window !== '')
          .map((row) => ({ table, names, values: names.map((name) => row[name]!) }))
      })
      const { table, names, values } = sums[Math.floor(place * sums.length)]!
      const where = names.map((name) => `${name} = ?`).join(' AND ')
      db.prepare(`UPDATE ${table} SET pico = pico + ? WHERE ${where}`).run(by, ...values)
    },
    async verify(isWhole, now) {
      const found = await history.audit('acct', firstKept(now), pause, isWhole ? undefined : known)
      if (!isWhole) known = found.verified
      return found.differences
    },
  }
}

async function inRedis(server: RedisServer): Promise<Engine> {
  const client = server.client()
  onTestFinished(() => client.disconnect())
  await client.flushall()
  await client.set('now', 0)
  const { ledger } = await open(server.url, { clock: STORED_CLOCK })
  for (const [name, script] of Object.entries(scriptsWith(STORED_CLOCK))) {
    client.defineCommand(name, script)
  }
  const history = new RedisHistory({ client, ask: (send: () => unknown) => send() } as never)
  const book = 'gw:{acct}:book'
  return {
    limit: (counted, revision) => ledger.limits('acct', 'k1', { ...LIMITS, counted }, revision),
    async settle(settlements) {
      for (let i = 0; i < settlements.length; i += 200)
        await Promise.all(settlements.slice(i, i + 200).map((one) => ledger.settle(one)))
    },
    async fold(before, now) {
      await client.set('now', now)
      await ledger.fold(new Date(before))
    },
    async falsify(place, by) {
      const fields = (await client.hkeys(book)).filter((name) => /^(bal|s:.*|q:.*)$/.test(name))
      const field = fields.sort()[Math.floor(place * fields.length)]!
      const former = (await client.hget(book, field))!
      const [since, window, settled, ...rest] = former.split(',')
      const counter = [since, window, BigInt(settled ?? 0) + BigInt(by), ...rest].join(',')
      // A counter without a window has no sum.
      if (field.startsWith('q:')) await client.hset(book, field, window ? counter : former)
      else await client.hset(book, field, `${BigInt(former) + BigInt(by)}`)
    },
    async verify(isWhole, now) {
      await client.set('now', now)
      if (isWhole) return ledger.verify('acct')
      await client.del('gw:verifying')
      return (await history.verifyInTurn(false))!
    },
  }
}

/** Calls of a key, and the limits in which they count. */
class Scene {
  readonly #engine: Engine
  readonly #random: () => number
  readonly #clock = new Clock(() => this.#now)
  readonly #spans = new Map<string, string>()
  #now = Date.UTC(2026, 1, 20)
  #counted: readonly CountedLimit[] = []
  #revision = 0
  #requests = 0

  constructor(engine: Engine, random: () => number) {
    this.#engine = engine
    this.#random = random
  }

  async play(steps: number): Promise<void> {
    await this.#limit()
    await this.#settle(ROWS)
    let wrong = 0
    for (let step = 0; step < steps; step++) {
      if (this.#random() < 0.2) await this.#limit()
      if (this.#random() < 0.7) await this.#settle(Math.ceil(this.#random() * 40))
      if (this.#random() < 0.2) await this.#fold()
      const place = this.#random()
      const by = this.#random() < 0.3 ? 1 : 0
      await this.#engine.falsify(place, by)
      const found = await this.#engine.verify(false, this.#now)
      const named = `seed ${SEED}, step ${step}`
      expect(sorted(found), named).toEqual(sorted(await this.#engine.verify(true, this.#now)))
      wrong += found.length
      await this.#engine.falsify(place, -by)
    }
    // Nothing is proved by scenes without a fault.
    if (steps >= 100) expect(wrong).toBeGreaterThan(0)
  }

  async #limit(): Promise<void> {
    const names = NAMES.filter(() => this.#random() < 0.6)
    this.#counted = names.map((id) => ({ id, value: 10n ** 12n }))
    await this.#engine.limit(this.#counted, ++this.#revision)
  }

  async #settle(count: number): Promise<void> {
    const settlements = Array.from({ length: count }, (): Settlement => {
      this.#now += Math.floor(this.#random() * 400_000)
      const team = this.#random() < 0.5 ? TEAM : undefined
      const key = this.#random() < 0.7 ? 'k1' : 'k2'
      const lease = { account: 'acct', key, request: `req_${++this.#requests}` as const }
      const counted = key === 'k1' ? this.#windows() : ''
      const usage = { ...USAGE, at: this.#now, ...(team && { team }), ...(counted && { counted }) }
      const cost = BigInt(Math.floor(this.#random() * 1000))
      return { ...lease, ...(team && { team }), day: dayOf(this.#now), cost, usage }
    })
    await this.#engine.settle(settlements)
  }

  #windows(): string {
    const own = this.#counted.filter(({ id }) => id !== 'cap.month')
    const entries = own.map(({ id }) => {
      const moment = this.#clock.moment(this.#now)
      const window = currentWindow(kindOf(id).window, this.#spans.get(id) ?? '', moment)
      this.#spans.set(id, window)
      return counterEntry({ of: 'key', id, window })
    })
    return entries.join(',')
  }

  async #fold(): Promise<void> {
    await this.#engine.fold(this.#now - this.#random() * 5 * DAY_MS, this.#now)
  }
}

function sorted(differences: readonly Discrepancy[]): readonly Discrepancy[] {
  return differences.toSorted((a, b) => (a.what < b.what ? -1 : 1))
}

describe(`a verification that goes on finds what a whole one finds (seed ${SEED})`, () => {
  it('in SQLite', async () => new Scene(inMemory(), randomOf(SEED)).play(runs(12)))

  let server: RedisServer
  beforeAll(async () => {
    if (installed) server = await sharedServer()
  })

  it('in Redis', async (context) => {
    if (!installed) return context.skip(NOT_INSTALLED)
    await new Scene(await inRedis(server), randomOf(SEED)).play(runs(2))
  })
})
