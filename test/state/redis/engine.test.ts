import { beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { LEASE_MS, type Admitted, type KeyLimits } from '../../../src/state/ledger/ledger.ts'
import { parsePico } from '../../../src/money/money.ts'
import { ledgerConformance } from '../../conformance/ledger.ts'
import { collect, KEY, LIMITS, settlement, USAGE } from '../sqlite/_engine.ts'
import {
  admit,
  FREE_TIER,
  installed,
  needRedis,
  open,
  pay,
  sharedServer,
  storedClock,
  STORED_CLOCK,
  type Engine,
} from './_engine.ts'
import type { RedisServer } from './_redis.ts'
import { holdOf } from '../_hold.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 86_400_000
let server: RedisServer

needRedis()
beforeAll(async () => {
  if (installed) server = await sharedServer()
})

ledgerConformance('redis', async () => (await open(server.url, { clock: STORED_CLOCK })).ledger, {
  clock: () => storedClock(server),
})

/** An engine on an empty store, and a way to set the store's clock. */
async function openAt(now: number): Promise<Engine & { at(now: number): Promise<void> }> {
  const client = server.client()
  onTestFinished(() => client.disconnect())
  await client.flushall()
  const at = async (now: number) => void (await client.set('now', now))
  await at(now)
  return { ...(await open(server.url, { clock: STORED_CLOCK })), at }
}

async function enter(engine: Engine, request: string, revision = 1) {
  return engine.ledger.enter({ ...KEY, request, revision, freeTier: FREE_TIER })
}

describe('the redis engine', () => {
  it('takes one round trip each to enter, to hold and to settle', async () => {
    const { ledger } = await open(server.url)
    await pay(ledger)
    // The first call of a script on a connection sends its whole text.
    await ledger.settle(settlement((await admit(ledger, 'req_0')).request, 1n))
    const client = server.client()
    // What the client sends while it connects must not come between the monitor's command and its answer.
    await client.ping()
    const monitor = await client.monitor()
    onTestFinished(() => [client, monitor].forEach((one) => one.disconnect()))
    const seen: string[] = []
    monitor.on('monitor', (_time: string, args: string[], source: string) => {
      // The engine also writes once a second that it is there.
      if (source !== 'lua' && args.join(' ').includes('{acct}')) seen.push(args[0]!)
    })
    for (let i = 1; i <= 50; i++) {
      const { request, day } = await admit(ledger, `req_${i}`, 5n)
      await ledger.settle(settlement(request, 7n, day))
    }
    await expect.poll(() => seen.length).toBeGreaterThanOrEqual(150)
    expect(seen).toEqual(Array.from({ length: 150 }, () => 'evalsha'))
  })

  it('uses the clock of the server', async () => {
    const { ledger } = await open(server.url)
    await pay(ledger)
    const [seconds] = await server.ask((client) => client.time())
    const { at, lease } = (await enter({ ledger } as Engine, 'req_clock')) as Admitted
    expect(at).toBeGreaterThanOrEqual(seconds * 1000)
    expect(lease).toBe(at + LEASE_MS)
  })

  it('knows the calendar', async () => {
    const engine = await openAt(0)
    await pay(engine.ledger, { ...LIMITS, counted: [{ id: 'cap.month', value: parsePico('1') }] })
    const days = [0, 59, 60, 365, 10_956, 11_016, 11_017, 47_540, 47_541, 2_932_896]
    for (let day = 19_000; day < 47_500; day += 97) days.push(day)
    for (const [i, day] of days.sort((a, b) => a - b).entries()) {
      const moment = day * DAY_MS + (i % 2) * (DAY_MS - 1)
      await engine.at(moment)
      const call = await admit(engine.ledger, `req_${i}`)
      expect(call.day).toBe(new Date(moment).toISOString().slice(0, 10).replaceAll('-', ''))
      await engine.ledger.leave(call)
    }
    expect(days.length).toBeGreaterThan(300)
  })

  it('stays exact over more days than it keeps windows for, and drops the old ones', async () => {
    let now = Date.UTC(2026, 0, 1)
    const engine = await openAt(now)
    const { ledger } = engine
    await pay(ledger, { ...LIMITS, counted: [{ id: 'cap.day', value: 5n }] })
    for (let i = 0; i < 100; i++) {
      const day = new Date(now).toISOString().slice(0, 10).replaceAll('-', '')
      await ledger.settle(settlement(`req_${i}`, 5n, day))
      // A very late settlement.
      await ledger.settle(settlement(`late_${i}`, 1n, '20260101'))
      const { at } = (await enter(engine, `try_${i}`)) as Admitted
      const hold = { ...KEY, request: `try_${i}`, at, ...holdOf(0n), free: false }
      expect(await ledger.hold(hold)).toMatchObject({
        why: 'limit',
        limit: { name: 'cap.day', current: day },
      })
      await ledger.leave(hold)
      now += DAY_MS
      await engine.at(now)
    }
    expect(await ledger.key('acct', 'key')).toMatchObject({ lifetime: 600n, day: 0n })
    expect(await ledger.verify('acct')).toEqual([])
    const fields = await server.ask((client) => client.hkeys('gw:{acct}:book'))
    const spend = fields
      .filter((field) => field.startsWith('s:'))
      .map((field) => field.split(':')[1])
    // Each window is there for the key and for the account.
    const windows = ['202602', '202603', '202604', '20260408', '20260409', '20260410', 'L']
    expect(spend.sort()).toEqual(windows.flatMap((window) => [window, window]))
  })

  it('releases a hold in its own day, even if that window was dropped', async () => {
    const start = Date.UTC(2026, 0, 1)
    const engine = await openAt(start)
    const { ledger } = engine
    await pay(ledger)
    const call = await admit(ledger, 'req_long', 100n)
    for (let day = 0; day <= 100; day++) {
      await engine.at(start + day * DAY_MS)
      await ledger.renew([call])
      await ledger.settle(settlement(`req_${day}`, 1n, dayOf(start + day * DAY_MS)))
    }
    await ledger.settle(settlement('req_long', 50n, call.day))
    expect(await ledger.account('acct')).toMatchObject({ available: parsePico('10') - 151n })
    expect(await ledger.verify('acct')).toEqual([])
  })

  it('releases more leases than one sweep takes, some at a time', async () => {
    const engine = await openAt(DAY_MS)
    const { ledger } = engine
    await pay(ledger)
    for (let i = 0; i < 200; i++) await admit(ledger, `req_${i}`, 1n)
    await engine.at(DAY_MS + LEASE_MS)
    const inFlight: number[] = []
    for (let i = 0; i < 4; i++) inFlight.push((await ledger.key('acct', 'key')).inFlight)
    expect(inFlight).toEqual([136, 72, 8, 0])
    expect(await ledger.account('acct')).toMatchObject({ available: parsePico('10') })
    const rows = await collect(ledger.usage('acct'))
    expect(rows.filter(({ kind }) => kind === 'orphan')).toHaveLength(200)
    expect(rows[0]).toMatchObject({ kind: 'orphan', key: 'key', at: DAY_MS, cost: 0n })
    expect(await ledger.verify('acct')).toEqual([])
  })

  it('removes the entry of a call that leaves because money is held, above 6,000 a minute too', async () => {
    const engine = await openAt(DAY_MS)
    const { ledger } = engine
    await pay(ledger, { ...LIMITS, rpm: 7000 })
    await admit(ledger, 'req_holder', parsePico('10'))
    for (const [i, step] of [0, 0, 400, 1000, 5000].entries()) {
      await engine.at(DAY_MS + i * step)
      const { at, rate } = (await enter(engine, `req_${i}`)) as Admitted
      expect(rate.remaining).toBe(6998)
      const hold = { ...KEY, request: `req_${i}`, at, ...holdOf(1n), free: false }
      // Twice, because the first answer may have been lost.
      for (let time = 0; time < 2; time++) {
        expect(await ledger.hold(hold)).toMatchObject({ ok: false, why: 'held' })
      }
      await ledger.leave({ ...hold, slot: at })
    }
    await engine.at(DAY_MS + 40_000)
    expect(await enter(engine, 'req_last')).toMatchObject({ rate: { remaining: 6998 } })
    await engine.at(DAY_MS + 61_000)
    expect(await enter(engine, 'req_late')).toMatchObject({ rate: { remaining: 6998 } })
  })

  it('drops thousands of entries with few commands', async () => {
    const engine = await openAt(DAY_MS)
    await pay(engine.ledger, { ...LIMITS, rpm: 6000 })
    for (let i = 0; i < 50; i++) {
      await engine.at(DAY_MS + Math.floor(i / 10))
      for (let j = 0; j < 10; j++) {
        // Few at once, which a busy machine answers within the deadline of an admission.
        const burst = Array.from({ length: 10 }, (_, n) => enter(engine, `req_${i}_${j}_${n}`))
        expect((await Promise.all(burst)).every(({ ok }) => ok)).toBe(true)
      }
    }
    await engine.at(DAY_MS + 60_003)
    expect(await enter(engine, 'req_next')).toMatchObject({ rate: { remaining: 4999 } })
    expect(await server.ask((client) => client.llen('gw:{acct}:rl:key'))).toBe(1001)
  })

  it('finds sums that were tampered with', async () => {
    const { ledger } = await openAt(DAY_MS)
    await pay(ledger)
    await ledger.settle(settlement('req_1', 40n, '19700102'))
    await admit(ledger, 'req_2', 3n)
    expect(await ledger.verify()).toEqual([])
    await server.ask((client) => client.hincrby('gw:{acct}:book', 'bal', -1))
    await server.ask((client) => client.hincrby('gw:{acct}:book', 's:197001:key', 5))
    await server.ask((client) => client.hincrby('gw:{acct}:book', 'n:key', 1))
    const account = 'acct'
    const balance = parsePico('10') - 40n
    const found = await ledger.verify()
    expect(found.toSorted((a, b) => (a.what < b.what ? -1 : 1))).toEqual([
      { account, what: 'balance', stored: balance - 1n, recomputed: balance },
      { account, what: 'calls of key key', stored: 2n, recomputed: 1n },
      { account, what: 'held', stored: 2n, recomputed: 3n },
      { account, what: 'held, spend of key key, 197001', stored: -2n, recomputed: 3n },
      { account, what: 'spend of key key, 197001', stored: 45n, recomputed: 40n },
    ])
    expect(await ledger.verify('other')).toEqual([])
  })

  describe('when the clock is set back an hour', () => {
    const pair: KeyLimits = { ...LIMITS, rpm: 2 }

    it('neither freezes nor forgets a rate', async () => {
      const start = 10 * DAY_MS
      const engine = await openAt(start)
      await pay(engine.ledger, pair)
      await enter(engine, 'req_1')
      await engine.at(start + 20_000)
      await enter(engine, 'req_2')
      const back = start + 20_000 - HOUR_MS
      await engine.at(back)
      expect(await enter(engine, 'req_3')).toMatchObject({ why: 'rpm', retryAfterMs: 40_000 })
      await engine.at(back + 39_999)
      expect(await enter(engine, 'req_3')).toMatchObject({ why: 'rpm', retryAfterMs: 1 })
      await engine.at(back + 40_000)
      const at = back + 40_000
      expect(await enter(engine, 'req_3')).toMatchObject({ ok: true, at, lease: at + LEASE_MS })
      expect(await enter(engine, 'req_4')).toMatchObject({ why: 'rpm', retryAfterMs: 20_000 })
    })

    it('lets a lease expire in its time, renews it to its time, and books by the calendar', async () => {
      const start = 10 * DAY_MS + 60_000
      const engine = await openAt(start)
      const { ledger } = engine
      await pay(ledger, { ...LIMITS, concurrency: 1 })
      const call = await admit(ledger, 'req_1', 1n)
      expect(call.day).toBe('19700111')
      const back = start - HOUR_MS
      await engine.at(back)
      await ledger.renew([call])
      await engine.at(back + LEASE_MS - 1)
      expect(await enter(engine, 'req_2')).toMatchObject({ why: 'concurrency' })
      await engine.at(back + LEASE_MS)
      expect((await admit(ledger, 'req_2')).day).toBe('19700110')
      expect(await ledger.verify('acct')).toEqual([])
    })
  })
})

describe('two redis engines on one store', () => {
  const two = async (limits: KeyLimits) => {
    await server.ask((client) => client.flushall())
    const engines = [await open(server.url), await open(server.url)] as const
    await pay(engines[0].ledger, limits)
    return engines
  }

  it('share one rate', async () => {
    const engines = await two({ ...LIMITS, rpm: 50 })
    const answers = await Promise.all(
      Array.from({ length: 200 }, (_, i) => enter(engines[i % 2]!, `req_${i}`)),
    )
    expect(answers.filter(({ ok }) => ok)).toHaveLength(50)
  })

  it('share one number of calls at a time', async () => {
    const engines = await two({ ...LIMITS, concurrency: 7 })
    const answers = await Promise.all(
      Array.from({ length: 60 }, (_, i) => enter(engines[i % 2]!, `req_${i}`)),
    )
    expect(answers.filter(({ ok }) => ok)).toHaveLength(7)
    const one = answers.findIndex(({ ok }) => ok)
    await engines[(one + 1) % 2]!.ledger.leave({ ...KEY, request: `req_${one}` })
    expect(await enter(engines[one % 2]!, 'req_next')).toMatchObject({ ok: true })
  })

  it('share one balance, and never lend the same money twice', async () => {
    const engines = await two(LIMITS)
    const hold = parsePico('1')
    const answers = await Promise.all(
      Array.from({ length: 40 }, async (_, i) => {
        const { ledger } = engines[i % 2]!
        const { at } = (await enter(engines[i % 2]!, `req_${i}`)) as Admitted
        return ledger.hold({ ...KEY, request: `req_${i}`, at, ...holdOf(hold), free: false })
      }),
    )
    expect(answers.filter(({ ok }) => ok)).toHaveLength(10)
    expect(answers.filter((held) => !held.ok && held.why === 'held')).toHaveLength(30)
  })

  it('share one cap, and a settlement counts once wherever it is repeated', async () => {
    const engines = await two({ ...LIMITS, counted: [{ id: 'cap.lifetime', value: 100n }] })
    const { request, day } = await admit(engines[0].ledger, 'req_1', 100n)
    const states = await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        engines[i % 2]!.ledger.settle(settlement(request, 100n, day)),
      ),
    )
    expect(states.filter(({ state }) => state === 'charged')).toHaveLength(1)
    const { at } = (await enter(engines[1], 'req_2')) as Admitted
    const second = { ...KEY, request: 'req_2', at, ...holdOf(0n), free: false }
    expect(await engines[1].ledger.hold(second)).toMatchObject({
      why: 'limit',
      limit: { name: 'cap.lifetime' },
    })
    expect(await engines[1].ledger.key('acct', 'key')).toMatchObject({ lifetime: 100n })
  })

  it('obey a change of a key with the next admission', async () => {
    const engines = await two(LIMITS)
    expect(await enter(engines[1], 'req_1')).toMatchObject({ ok: true })
    await engines[0].ledger.limits('acct', 'key', { ...LIMITS, disabled: true }, 2)
    expect(await enter(engines[1], 'req_2', 1)).toEqual({ ok: false, why: 'stale' })
    expect(await enter(engines[1], 'req_2', 2)).toEqual({ ok: false, why: 'disabled', of: 'key' })
  })

  it('read one history', async () => {
    const engines = await two(LIMITS)
    for (let i = 0; i < 450; i++) {
      await engines[i % 2]!.ledger.settle(settlement(`req_${i}`, BigInt(i), '20260101'))
    }
    const rows = await collect(engines[0].ledger.usage('acct'))
    expect(rows).toHaveLength(451)
    expect(rows[0]).toMatchObject({ request: 'req_449', cost: 449n, usage: USAGE })
    expect(await collect(engines[1].ledger.usage('acct'))).toEqual(rows)
  })
})

function dayOf(time: number): string {
  return new Date(time).toISOString().slice(0, 10).replaceAll('-', '')
}
