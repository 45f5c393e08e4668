/**
 * The rules of a ledger as tests that every engine passes: examples of each rule, then a random walk beside a model. The
 * invariants are those of `src/state/README.md`.
 */
import { describe, expect, it } from 'vitest'
import { inspect } from 'node:util'
import { ACCOUNT, LEASE_MS } from '../../src/state/ledger/ledger.ts'
import type {
  Admission,
  Admitted,
  AdmissionRequest,
  HoldResult,
  HoldRequest,
  HoldGranted,
  KeyLimits,
  Ledger,
  LedgerRow,
  RateStatus,
  Settled,
  UsageRow,
} from '../../src/state/ledger/ledger.ts'
import { Unavailable } from '../../src/errors/errors.ts'
import { MAX_AMOUNT, parsePico, type Pico } from '../../src/money/money.ts'
import { dayOf, DAY_MS, MINUTE_MS } from '../../src/state/ledger/windows.ts'
import { everyPair } from './_pairs.ts'
import { randomOf, Walk } from './_walk.ts'
import { holdOf, NO_EXPOSURE } from '../state/_hold.ts'
import { SEED } from '../_seed.ts'

/** The time that an engine under test reads. It only goes forward. */
export interface TestClock {
  /** ms since epoch, exactly as the engine sees it */
  now(): number
  advance(ms: number): void | Promise<void>
}

export interface ConformanceOptions {
  /** The clock of an engine that brings its own time; without it a clock stands still until it is advanced. */
  readonly clock?: () => TestClock | Promise<TestClock>
  /** `walk`: no examples, of an engine that decides by the same book as another one. Their own file has them. */
  readonly only?: 'walk' | 'examples'
}

/** Length of the random walk. `LEDGER_STEPS` changes it; `npm run torture` walks 100,000 steps. */
const STEPS = Number(process.env.LEDGER_STEPS ?? 1000)

const FREE_TIER = { rpm: 6, concurrency: 3 }
const ROOMY: KeyLimits = { disabled: false, rpm: 1000, concurrency: 100 }

/** Declares the tests of one engine. @param open creates an empty ledger that reads the time of a clock */
export function ledgerConformance(
  name: string,
  open: (clock: TestClock) => Promise<Ledger> | Ledger,
  { clock: clockOf = () => new ManualClock(), only }: ConformanceOptions = {},
): void {
  type Run = (ledger: Ledger, clock: TestClock) => Promise<unknown>
  const attempt = async (run: Run): Promise<void> => {
    const clock = await clockOf()
    const ledger = await open(clock)
    try {
      await run(ledger, clock)
    } finally {
      await ledger.close()
    }
  }
  /** A busy machine may not give the store a processor in time. Such an attempt says nothing, and is made again, twice at most. */
  const opened = async (run: Run): Promise<void> => {
    for (let left = 2; ; left--) {
      try {
        return await attempt(run)
      } catch (error) {
        if (!(error instanceof Unavailable) || left === 0) throw error
      }
    }
  }
  const example = (title: string, run: (fixture: LedgerFixture) => Promise<void>) =>
    it(title, () => opened((ledger, clock) => run(new LedgerFixture(ledger, clock))))

  describe(`${name} ledger`, () => {
    if (only !== 'walk') {
      describe('key state', () => keyExamples(example))
      describe('requests per minute', () => rateExamples(example))
      describe('concurrency', () => concurrencyExamples(example))
      describe('limits of an account', () => accountExamples(example))
      describe('free tier', () => freeTierExamples(example))
      describe('money', () => moneyExamples(example))
      describe('spend windows', () => windowExamples(example))
      describe('settlement', () => settlementExamples(example))
      describe('top-ups', () => topUpExamples(example))
      describe('adjustments', () => adjustmentExamples(example))
      describe('history', () => historyExamples(example))
    }
    if (only === undefined) {
      example(
        `of two limits that are reached together one answers, and its wait is enough (seed ${SEED})`,
        ({ ledger, clock }) => everyPair(ledger, clock, randomOf(SEED)),
      )
    }
    if (only === 'examples') return

    it(
      `agrees with the model over ${STEPS} random steps (seed ${SEED})`,
      { timeout: Math.max(120_000, STEPS * 10) },
      () => opened((ledger, clock) => new Walk(ledger, clock, SEED).go(STEPS)),
    )
  })
}

type Example = (title: string, run: (fixture: LedgerFixture) => Promise<void>) => void

function keyExamples(example: Example): void {
  example('a key without limits is stale', async (fixture) => {
    expect(await fixture.enter()).toEqual({ ok: false, why: 'stale' })
    await fixture.limit(ROOMY)
    expect(await fixture.enter({ key: 'another' })).toEqual({ ok: false, why: 'stale' })
    expect(await fixture.enter({ account: 'another' })).toEqual({ ok: false, why: 'stale' })
  })

  example('only a revision below the stored one is stale', async (fixture) => {
    await fixture.limit(ROOMY, 5)
    expect(await fixture.enter({ revision: 4 })).toEqual({ ok: false, why: 'stale' })
    expect(await fixture.enter({ revision: 5 })).toMatchObject({ ok: true })
    expect(await fixture.enter({ revision: 6 })).toMatchObject({ ok: true })
  })

  example('limits of a lower revision change nothing', async (fixture) => {
    await fixture.limit({ ...ROOMY, disabled: true }, 5)
    await fixture.limit(ROOMY, 4)
    expect(await fixture.enter({ revision: 5 })).toEqual({ ok: false, why: 'disabled', of: 'key' })
    await fixture.limit(ROOMY, 5)
    expect(await fixture.enter({ revision: 5 })).toMatchObject({ ok: true })
  })

  example('a disabled key is refused by the next enter, and only that one', async (fixture) => {
    await fixture.limit(ROOMY)
    await fixture.limit(ROOMY, 1, 'other')
    await fixture.admit()
    await fixture.limit({ ...ROOMY, disabled: true }, 2)
    expect(await fixture.enter({ revision: 2 })).toEqual({ ok: false, why: 'disabled', of: 'key' })
    expect(await fixture.enter({ key: 'other' })).toMatchObject({ ok: true })
  })

  example('a key expires at its moment, not before', async (fixture) => {
    await fixture.limit({ ...ROOMY, expiresAt: fixture.clock.now() + 5000 })
    await fixture.clock.advance(4999)
    expect(await fixture.enter()).toMatchObject({ ok: true })
    await fixture.clock.advance(1)
    expect(await fixture.enter()).toEqual({ ok: false, why: 'expired', of: 'key' })
    await fixture.limit({ ...ROOMY, expiresAt: -1 }, 2)
    expect(await fixture.enter({ revision: 2 })).toEqual({ ok: false, why: 'expired', of: 'key' })
  })

  example('limits below 1 are refused', async (fixture) => {
    await expect(fixture.limit({ ...ROOMY, rpm: 0 })).rejects.toThrow(RangeError)
    await expect(fixture.limit({ ...ROOMY, concurrency: 0.5 })).rejects.toThrow(RangeError)
  })
}

function rateExamples(example: Example): void {
  example('tells what is used of the rates', async (fixture) => {
    const used = (id = 'key') => fixture.ledger.rates('acct', id)
    const none = { count: 0, resetMs: 0 }
    expect(await used()).toEqual({ key: none, account: none })
    await fixture.limit(ROOMY)
    await fixture.admit()
    await fixture.clock.advance(1000)
    await fixture.admit()
    await fixture.clock.advance(500)
    const two = { count: 2, resetMs: MINUTE_MS - 500 }
    expect(await used()).toEqual({ key: two, account: two })
    expect(await used('@account')).toMatchObject({ account: two })
    expect(await used('other')).toEqual({ key: none, account: two })
    await fixture.clock.advance(MINUTE_MS - 1500)
    const one = { count: 1, resetMs: 1000 }
    expect(await used()).toEqual({ key: one, account: one })
    await fixture.clock.advance(1000)
    expect(await used()).toEqual({ key: none, account: none })
  })

  example('admits the limit, then refuses exactly until Retry-After', async (fixture) => {
    await fixture.pay()
    await fixture.limit({ ...ROOMY, rpm: 3 })
    for (const pause of [1000, 500, 0]) {
      await fixture.admit()
      await fixture.clock.advance(pause)
    }
    const refused = await fixture.enter()
    expect(refused).toMatchObject({ ok: false, why: 'rpm', retryAfterMs: MINUTE_MS - 1500 })
    await fixture.clock.advance(MINUTE_MS - 1501)
    expect(await fixture.enter()).toMatchObject({ ok: false, why: 'rpm', retryAfterMs: 1 })
    await fixture.clock.advance(1)
    expect(await fixture.enter()).toMatchObject({ ok: true })
    expect(await fixture.enter()).toMatchObject({ ok: false, why: 'rpm', retryAfterMs: 1000 })
  })

  example(
    'reports limit, remaining requests, and the time until all are available',
    async (fixture) => {
      await fixture.pay()
      await fixture.limit({ ...ROOMY, rpm: 2 })
      const rate = async () => ((await fixture.enter()) as { rate: RateStatus }).rate
      expect(await rate()).toEqual({ limit: 2, remaining: 1, resetMs: MINUTE_MS })
      await fixture.clock.advance(20_000)
      expect(await rate()).toEqual({ limit: 2, remaining: 0, resetMs: MINUTE_MS })
      await fixture.clock.advance(10_000)
      expect(await rate()).toEqual({ limit: 2, remaining: 0, resetMs: MINUTE_MS - 10_000 })
      await fixture.clock.advance(30_000)
      expect(await rate()).toEqual({ limit: 2, remaining: 0, resetMs: MINUTE_MS })
    },
  )

  example('the window slides over the turn of a minute', async (fixture) => {
    await fixture.pay()
    await fixture.limit({ ...ROOMY, rpm: 5 })
    await fixture.clock.advance(MINUTE_MS - (fixture.clock.now() % MINUTE_MS) - 100)
    for (let i = 0; i < 5; i++) await fixture.admit()
    await fixture.clock.advance(200)
    expect(await fixture.enter()).toMatchObject({
      ok: false,
      why: 'rpm',
      of: 'key',
      retryAfterMs: MINUTE_MS - 200,
    })
  })

  example('a lower limit counts at once, and raising it again forgets nothing', async (fixture) => {
    await fixture.pay()
    await fixture.limit({ ...ROOMY, rpm: 4 })
    for (let i = 0; i < 4; i++) {
      await fixture.admit()
      await fixture.clock.advance(1000)
    }
    await fixture.limit({ ...ROOMY, rpm: 2 }, 2)
    // The second newest came two seconds ago.
    expect(await fixture.enter({ revision: 2 })).toMatchObject({ retryAfterMs: MINUTE_MS - 2000 })
    await fixture.limit({ ...ROOMY, rpm: 4 }, 3)
    expect(await fixture.enter({ revision: 3 })).toMatchObject({ retryAfterMs: MINUTE_MS - 4000 })
    await fixture.limit({ ...ROOMY, rpm: 5 }, 4)
    expect(await fixture.enter({ revision: 4 })).toMatchObject({ ok: true, rate: { remaining: 0 } })
  })

  example('two hundred at once against fifty a minute admit exactly fifty', async (fixture) => {
    await fixture.pay()
    await fixture.limit({ ...ROOMY, rpm: 50 })
    const answers = await Promise.all(Array.from({ length: 200 }, () => fixture.enter()))
    expect(answers.filter((answer) => answer.ok)).toHaveLength(50)
  })

  example('each key has a log of its own', async (fixture) => {
    await fixture.pay()
    await fixture.limit({ ...ROOMY, rpm: 1 })
    await fixture.limit({ ...ROOMY, rpm: 1 }, 1, 'other')
    await fixture.admit()
    expect(await fixture.enter()).toMatchObject({ ok: false, why: 'rpm' })
    expect(await fixture.enter({ key: 'other' })).toMatchObject({ ok: true })
  })

  example('above 6,000 a minute refuses a second longer at most', async (fixture) => {
    const rpm = 6500
    await fixture.pay()
    await fixture.limit({ ...ROOMY, rpm, concurrency: 100_000 })
    const admitted: number[] = []
    let most = 0
    // The clock only goes forward, so an admission that has left a window does not return to it.
    const within = (ms: number) => {
      let first = 0
      return () => {
        while (first < admitted.length && fixture.clock.now() - admitted[first]! >= ms) first++
        return admitted.length - first
      }
    }
    const ofMinute = within(MINUTE_MS)
    const ofMinuteAndSecond = within(MINUTE_MS + 1000)
    const enter = async () => {
      const answer = await fixture.enter()
      if (answer.ok) admitted.push(fixture.clock.now())
      most = Math.max(most, ofMinute())
      return answer
    }
    let refusals = 0
    for (let burst = 0; burst < 60; burst++) {
      await fixture.clock.advance((burst * 7919) % 2500)
      for (let i = 0; i < 190; i++) {
        const answer = await enter()
        if (answer.ok) continue
        refusals++
        expect(answer.why).toBe('rpm')
        expect(ofMinuteAndSecond()).toBeGreaterThanOrEqual(rpm)
        const { retryAfterMs } = answer as { retryAfterMs: number }
        await fixture.clock.advance(retryAfterMs - 1)
        expect(await enter()).toMatchObject({ ok: false, retryAfterMs: 1 })
        await fixture.clock.advance(1)
        expect(await enter()).toMatchObject({ ok: true })
        break
      }
    }
    expect(refusals).toBeGreaterThan(0)
    expect(most).toBe(rpm)
  })

  example('a limit moved across 6,000 a minute forgets nothing', async (fixture) => {
    await fixture.pay()
    await fixture.limit({ ...ROOMY, rpm: 10 })
    for (let i = 0; i < 10; i++) await fixture.admit()
    await fixture.limit({ ...ROOMY, rpm: 6001 }, 2)
    expect(await fixture.enter({ revision: 2 })).toMatchObject({
      ok: true,
      rate: { remaining: 5990 },
    })
    await fixture.limit({ ...ROOMY, rpm: 12 }, 3)
    expect(await fixture.enter({ revision: 3 })).toMatchObject({ ok: true, rate: { remaining: 0 } })
    const refused = await fixture.enter({ revision: 3 })
    expect(refused).toMatchObject({ ok: false, why: 'rpm' })
    await fixture.clock.advance((refused as { retryAfterMs: number }).retryAfterMs)
    expect(await fixture.enter({ revision: 3 })).toMatchObject({ ok: true })
  })
}

function concurrencyExamples(example: Example): void {
  const pair = { ...ROOMY, concurrency: 2 }

  example('refuses above the limit without using a rate slot', async (fixture) => {
    await fixture.pay()
    await fixture.limit({ ...pair, rpm: 10 })
    await fixture.admit()
    await fixture.admit()
    const rate = { limit: 10, remaining: 8, resetMs: MINUTE_MS }
    const full = { why: 'concurrency', of: 'key', value: 2, retryAfterMs: 1000, rate }
    const refused = { ok: false, ...full }
    expect(await fixture.enter()).toEqual(refused)
    expect(await fixture.enter()).toEqual(refused)
  })

  example('leaving may give the slot of the rate limit back, once', async (fixture) => {
    await fixture.limit({ ...ROOMY, rpm: 4 })
    const first = await fixture.admit()
    await fixture.clock.advance(1)
    const second = await fixture.admit({ key: 'key' })
    await fixture.leave(second, { slot: second.at })
    await fixture.leave(second, { slot: second.at })
    // On the free tier the account has a log of its own.
    for (let i = 0; i < 3 * FREE_TIER.rpm; i++) {
      const call = await fixture.admit()
      expect(call.rate.remaining).toBe(2)
      await fixture.leave(call, { slot: call.at })
    }
    await fixture.pay('1')
    await fixture.hold(first, parsePico('1'))
    const waiting = await fixture.admit()
    expect(waiting.rate.remaining).toBe(2)
    expect(await fixture.hold(waiting, 1n)).toMatchObject({ why: 'held' })
    await fixture.leave(waiting, { slot: waiting.at })
    expect(await fixture.admit()).toMatchObject({ rate: { remaining: 2 } })
  })

  example('a receipt says what was booked for a call, in its account alone', async (fixture) => {
    await fixture.pay()
    await fixture.limit(ROOMY)
    const call = await fixture.admit()
    await fixture.hold(call, 5n)
    const receipt = (account: string) => fixture.ledger.receipt(account, call.request)
    expect(await receipt('acct')).toBeUndefined()
    await fixture.settle(call, 5n)
    expect([await receipt('acct'), await receipt('other')]).toEqual([5n, undefined])
    const failed = await fixture.admit()
    await fixture.settle(failed, 0n)
    expect(await fixture.ledger.receipt('acct', failed.request)).toBe(0n)
  })

  example('leaving, settling and expiring give the slot back', async (fixture) => {
    await fixture.pay()
    await fixture.limit(pair)
    const first = await fixture.admit()
    const second = await fixture.admit()
    await fixture.leave(first)
    const third = await fixture.admit()
    await fixture.settle(second, 0n)
    await fixture.admit()
    expect(await fixture.enter()).toMatchObject({ why: 'concurrency' })
    await fixture.clock.advance(third.lease - fixture.clock.now() - 1)
    expect(await fixture.enter()).toMatchObject({ why: 'concurrency' })
    await fixture.clock.advance(1)
    expect(await fixture.enter()).toMatchObject({ ok: true })
  })

  example('a lease lives as long as it is renewed', async (fixture) => {
    await fixture.pay()
    await fixture.limit({ ...ROOMY, concurrency: 1 })
    const call = await fixture.admit()
    expect(call.lease).toBe(call.at + LEASE_MS)
    for (let i = 0; i < 10; i++) {
      await fixture.clock.advance(LEASE_MS - 1)
      await fixture.renew(call)
      expect(await fixture.enter()).toMatchObject({ why: 'concurrency' })
    }
    await fixture.clock.advance(LEASE_MS)
    expect(await fixture.enter()).toMatchObject({ ok: true })
  })

  example('renewing brings back neither a swept lease nor a settled one', async (fixture) => {
    await fixture.pay()
    await fixture.limit({ ...ROOMY, concurrency: 1 })
    const swept = await fixture.admit()
    await fixture.clock.advance(LEASE_MS)
    const settled = await fixture.admit()
    await fixture.settle(settled, 5n)
    await fixture.renew(swept, settled)
    expect(await fixture.ledger.key('acct', 'key')).toMatchObject({ inFlight: 0 })
    expect(await fixture.enter()).toMatchObject({ ok: true })
  })

  example('a lower limit counts at once and touches no running call', async (fixture) => {
    await fixture.pay()
    await fixture.limit(pair)
    const call = await fixture.admit()
    await fixture.admit()
    await fixture.limit({ ...ROOMY, concurrency: 1 }, 2)
    await fixture.leave(call)
    expect(await fixture.enter({ revision: 2 })).toMatchObject({ why: 'concurrency' })
    expect(await fixture.ledger.key('acct', 'key')).toMatchObject({ inFlight: 1 })
  })

  example('entering again with a lease, and leaving twice, change nothing', async (fixture) => {
    await fixture.pay()
    await fixture.limit({ ...pair, rpm: 10 })
    const call = await fixture.admit()
    const again = await fixture.enter({ request: call.request })
    expect(again).toMatchObject({ ok: true, rate: { remaining: 9 } })
    const other = await fixture.admit()
    await fixture.leave(call)
    await fixture.leave(call)
    expect(await fixture.ledger.key('acct', 'key')).toMatchObject({ inFlight: 1 })
    await fixture.leave(other)
    expect(await fixture.ledger.key('acct', 'key')).toMatchObject({ inFlight: 0 })
  })
}

function accountExamples(example: Example): void {
  const OPEN: KeyLimits = { disabled: false }
  const entered = (fixture: LedgerFixture, key: string) =>
    fixture.enter({ key, accountRevision: 1 })

  example('hold for all its keys together: rate and calls at once', async (fixture) => {
    await fixture.pay()
    for (const key of ['key', 'other']) await fixture.limit(ROOMY, 1, key)
    await fixture.limit({ ...OPEN, rpm: 3, concurrency: 2 }, 1, ACCOUNT)
    const first = await entered(fixture, 'key')
    expect(first).toMatchObject({ ok: true, rate: { limit: 3, remaining: 2 } })
    const { last } = fixture
    expect(await entered(fixture, 'other')).toMatchObject({ ok: true })
    expect(await entered(fixture, 'key')).toMatchObject({ why: 'concurrency', of: 'account' })
    await fixture.leave({ request: last })
    expect(await entered(fixture, 'key')).toMatchObject({ ok: true, rate: { remaining: 0 } })
    const refused = await entered(fixture, 'other')
    expect(refused).toMatchObject({ why: 'rpm', of: 'account', retryAfterMs: 60_000 })
    // Limits that are taken away again.
    await fixture.limit(OPEN, 2, ACCOUNT)
    const late = await fixture.enter({ key: 'other', accountRevision: 2 })
    expect(late).toMatchObject({ ok: true, rate: { limit: 1000 } })
  })

  example('apply from the change on: an outdated revision is stale', async (fixture) => {
    await fixture.limit(ROOMY)
    expect(await fixture.enter()).toMatchObject({ ok: true })
    await fixture.limit({ disabled: true }, 5, ACCOUNT)
    expect(await fixture.enter({ accountRevision: 4 })).toEqual({ ok: false, why: 'stale' })
    const refused = await fixture.enter({ accountRevision: 5 })
    expect(refused).toEqual({ ok: false, why: 'disabled', of: 'account' })
    await fixture.limit(OPEN, 4, ACCOUNT)
    expect(await fixture.enter({ accountRevision: 5 })).toMatchObject({ why: 'disabled' })
  })

  example('cap the spend of all its keys, from the first day on', async (fixture) => {
    await fixture.pay()
    for (const key of ['key', 'other']) await fixture.limit(ROOMY, 1, key)
    await fixture.spend(parsePico('2'))
    await fixture.limit(
      { ...OPEN, counted: [{ id: 'cap.month', value: parsePico('3') }] },
      1,
      ACCOUNT,
    )
    const call = await fixture.admit({ key: 'other', accountRevision: 1 })
    expect(await fixture.hold(call, parsePico('1'))).toMatchObject({ ok: true, tight: true })
    const next = await fixture.admit({ accountRevision: 1 })
    expect(await fixture.hold(next, 1n)).toMatchObject({ why: 'held', by: 'cap' })
    await fixture.leave(next)
    const { request, at } = call
    const usage = usageAt(at)
    const cost = parsePico('1')
    await fixture.ledger.settle({
      request,
      account: 'acct',
      key: 'other',
      day: fixture.day(),
      cost,
      usage,
    })
    const spend = await fixture.ledger.key('acct', ACCOUNT)
    expect(spend).toMatchObject({ lifetime: parsePico('3'), month: parsePico('3'), inFlight: 0 })
    const last = await fixture.admit({ accountRevision: 1 })
    const refused = await fixture.hold(last, 1n)
    expect(refused).toMatchObject({ why: 'limit', limit: { of: 'account', name: 'cap.month' } })
    expect(await fixture.ledger.verify()).toEqual([])
  })

  example('are shown with the balance, many accounts at a time', async (fixture) => {
    await fixture.pay('5')
    await fixture.limit(ROOMY)
    await fixture.spend(parsePico('2'))
    const [own, unknown] = await fixture.ledger.balances(['acct', 'none'])
    const spent = { day: parsePico('2'), month: parsePico('2'), lifetime: parsePico('2') }
    expect(own).toEqual({
      balance: parsePico('3'),
      available: parsePico('3'),
      paid: true,
      spend: { ...spent, inFlight: 0 },
    })
    expect(unknown).toMatchObject({ balance: 0n, paid: false, spend: { lifetime: 0n } })
  })
}

function freeTierExamples(example: Example): void {
  const { rpm, concurrency } = FREE_TIER

  example('counts per minute for the account, all its keys together', async (fixture) => {
    await fixture.limit(ROOMY)
    await fixture.limit(ROOMY, 1, 'other')
    for (let i = 0; i < rpm; i++) {
      const answer = await fixture.enter({ key: i % 2 ? 'key' : 'other' })
      expect(answer).toMatchObject({
        ok: true,
        paid: false,
        rate: { limit: rpm, remaining: rpm - 1 - i },
      })
      await fixture.leave({ ...answer, request: fixture.last, key: i % 2 ? 'key' : 'other' })
    }
    const refused = {
      ok: false,
      why: 'rpm',
      of: 'tier',
      retryAfterMs: MINUTE_MS,
      rate: { limit: rpm, remaining: 0 },
    }
    expect(await fixture.enter()).toMatchObject(refused)
    expect(await fixture.enter({ key: 'other' })).toMatchObject(refused)
  })

  example('the lower limit of key and tier applies, and is reported', async (fixture) => {
    await fixture.limit({ ...ROOMY, rpm: 2 })
    expect(await fixture.enter()).toMatchObject({ rate: { limit: 2, remaining: 1 } })
    expect(await fixture.enter()).toMatchObject({ rate: { limit: 2, remaining: 0 } })
    expect(await fixture.enter()).toMatchObject({ ok: false, why: 'rpm' })
  })

  example('when both refuse, Retry-After is the longer wait', async (fixture) => {
    await fixture.limit({ ...ROOMY, rpm: 1 })
    await fixture.limit(ROOMY, 1, 'other')
    await fixture.leave(await fixture.admit())
    await fixture.clock.advance(30_000)
    for (let i = 1; i < rpm; i++) await fixture.leave(await fixture.admit({ key: 'other' }))
    await fixture.clock.advance(10_000)
    // The key waits 20 s for itself, the account 20 s for the same entry.
    expect(await fixture.enter()).toMatchObject({ why: 'rpm', retryAfterMs: 20_000 })
    await fixture.clock.advance(20_000)
    await fixture.leave(await fixture.admit())
    await fixture.clock.advance(5000)
    // Now the key waits 55 s, the account 25 s.
    const refused = await fixture.enter()
    expect(refused).toMatchObject({ why: 'rpm', retryAfterMs: 55_000 })
    await fixture.clock.advance(55_000)
    expect(await fixture.enter()).toMatchObject({ ok: true })
  })

  example('counts the calls of a day that did not fail, until midnight', async (fixture) => {
    await fixture.limit(ROOMY)
    const free = { free: true, tierPerDay: 3 }
    const run = async (outcome: UsageRow['outcome'] = 'completed') => {
      await fixture.clock.advance(MINUTE_MS / rpm)
      const call = await fixture.admit()
      const held = await fixture.hold(call, 0n, free)
      if (!held.ok) {
        await fixture.leave(call)
        return held
      }
      const usage = { ...usageAt(call.at), outcome, counted: held.counted! }
      const lease = { account: 'acct', key: 'key', request: call.request }
      await fixture.ledger.settle({ ...lease, day: held.day, cost: 0n, usage })
      return held
    }
    await fixture.until(nextDay(fixture.clock.now()) - 10 * MINUTE_MS)
    for (const outcome of ['completed', 'failed', 'cancelled', 'completed'] as const) {
      expect(await run(outcome)).toMatchObject({ ok: true, billed: false })
    }
    const day = fixture.day()
    const limit = { of: 'tier', name: 'requests.day', value: 3n, used: 3n, current: day }
    expect(await run()).toMatchObject({ ok: false, why: 'limit', limit })
    expect(await fixture.ledger.counters('acct', '@tier')).toMatchObject([
      { current: day, used: 3n, held: 0n },
    ])
    await fixture.until(nextDay(fixture.clock.now()))
    expect(await run()).toMatchObject({ ok: true })
    expect(await fixture.ledger.verify()).toEqual([])
  })

  example('counts running calls for the account, all its keys together', async (fixture) => {
    await fixture.limit(ROOMY)
    await fixture.limit(ROOMY, 1, 'other')
    for (let i = 0; i < concurrency; i++) await fixture.admit({ key: i % 2 ? 'key' : 'other' })
    expect(await fixture.enter()).toMatchObject({
      ok: false,
      why: 'concurrency',
      of: 'tier',
      retryAfterMs: 1000,
    })
  })

  example('allows free models only, and checks neither balance nor cap', async (fixture) => {
    await fixture.limit({ ...ROOMY, counted: [{ id: 'cap.lifetime', value: 0n }] })
    const paid = await fixture.admit()
    expect(await fixture.hold(paid, 100n)).toEqual({ ok: false, why: 'tier' })
    const free = await fixture.admit()
    expect(await fixture.hold(free, 100n, { free: true })).toEqual({
      ok: true,
      day: fixture.day(),
      billed: false,
      tight: false,
    })
    expect(await fixture.ledger.account('acct')).toEqual({
      balance: 0n,
      available: 0n,
      paid: false,
    })
  })

  example('the first top-up ends it for good', async (fixture) => {
    await fixture.limit(ROOMY)
    for (let i = 0; i < rpm; i++) await fixture.leave(await fixture.admit())
    expect(await fixture.enter()).toMatchObject({ ok: false, why: 'rpm' })
    await fixture.pay('0.01')
    const call = await fixture.admit()
    expect(call).toMatchObject({ paid: true, rate: { limit: ROOMY.rpm } })
    expect(await fixture.hold(call)).toMatchObject({ ok: true, billed: true })
    await fixture.settle(call, parsePico('0.02'))
    expect(await fixture.ledger.account('acct')).toMatchObject({
      balance: -parsePico('0.01'),
      paid: true,
    })
    expect(await fixture.hold(await fixture.admit(), 0n, { free: true })).toEqual({
      ok: false,
      why: 'credits',
    })
  })
}

function moneyExamples(example: Example): void {
  example('a hold needs a lease that has not expired', async (fixture) => {
    await fixture.pay()
    await fixture.limit(ROOMY)
    expect(await fixture.hold({ request: 'req_never', at: fixture.clock.now() })).toEqual({
      ok: false,
      why: 'lost',
    })
    const left = await fixture.admit()
    await fixture.leave(left)
    expect(await fixture.hold(left)).toEqual({ ok: false, why: 'lost' })
    const paused = await fixture.admit()
    await fixture.clock.advance(LEASE_MS)
    expect(await fixture.hold(paused)).toEqual({ ok: false, why: 'lost' })
  })

  example('sets money aside, and gives it back with the call', async (fixture) => {
    await fixture.pay('1')
    await fixture.limit(ROOMY)
    const settled = await fixture.admit()
    const left = await fixture.admit()
    const expired = await fixture.admit()
    await fixture.hold(settled, parsePico('0.5'))
    await fixture.hold(left, parsePico('0.25'))
    await fixture.hold(expired, parsePico('0.125'))
    const balance = parsePico('1')
    expect(await fixture.ledger.account('acct')).toEqual({
      balance,
      available: parsePico('0.125'),
      paid: true,
    })
    await fixture.leave(left)
    expect(await fixture.ledger.account('acct')).toMatchObject({ available: parsePico('0.375') })
    await fixture.settle(settled, 1n)
    expect(await fixture.ledger.account('acct')).toMatchObject({
      available: parsePico('0.875') - 1n,
    })
    await fixture.clock.advance(LEASE_MS)
    await fixture.admit()
    expect(await fixture.ledger.account('acct')).toMatchObject({
      available: balance - 1n,
      balance: balance - 1n,
    })
  })

  example(
    'a lone request is admitted while anything is left, whatever it holds',
    async (fixture) => {
      await fixture.ledger.book({ kind: 'top-up', account: 'acct', amount: 1n, reference: 'one' })
      await fixture.limit({ ...ROOMY, counted: [{ id: 'cap.lifetime', value: 1n }] })
      expect(await fixture.hold(await fixture.admit(), parsePico('100'))).toMatchObject({
        ok: true,
      })
    },
  )

  example('held money refuses for now; only settled money refuses for good', async (fixture) => {
    await fixture.pay('1')
    await fixture.limit(ROOMY)
    const first = await fixture.admit()
    await fixture.hold(first, parsePico('1'))
    const second = await fixture.admit()
    const held = { ok: false, why: 'held', by: 'balance', retryAfterMs: 1000 }
    expect(await fixture.hold(second, 1n)).toEqual(held)
    await fixture.leave(second)
    await fixture.settle(first, parsePico('0.9'))
    const third = await fixture.admit()
    expect(await fixture.hold(third)).toMatchObject({ ok: true })
    await fixture.settle(third, parsePico('0.1'))
    expect(await fixture.hold(await fixture.admit())).toEqual({ ok: false, why: 'credits' })
    await fixture.pay('1', 'more')
    expect(await fixture.hold(await fixture.admit())).toMatchObject({ ok: true })
  })

  example(
    'a credit limit lets calls take the balance below zero, and no further',
    async (fixture) => {
      await fixture.pay('1')
      await fixture.limit(ROOMY)
      const grant = (usd: string, revision: number) =>
        fixture.limit({ disabled: false, credit: parsePico(usd) }, revision, ACCOUNT)
      await grant('2', 1)
      const ask = async (usd: string) =>
        fixture.hold(await fixture.admit({ accountRevision: 9 }), parsePico(usd))
      const first = await fixture.admit({ accountRevision: 1 })
      expect(await fixture.hold(first, parsePico('2.5'))).toMatchObject({ ok: true })
      expect(await ask('0.6')).toMatchObject({ ok: false, why: 'held', by: 'balance' })
      await fixture.settle(first, parsePico('2.5'))
      expect((await fixture.ledger.account('acct')).balance).toBe(-parsePico('1.5'))
      const second = await fixture.admit({ accountRevision: 1 })
      expect(await fixture.hold(second, parsePico('0.5'))).toMatchObject({ ok: true })
      await fixture.settle(second, parsePico('0.5'))
      expect(await ask('0.1')).toEqual({ ok: false, why: 'credits' })
      await grant('2.000000000001', 2)
      expect(await ask('0')).toMatchObject({ ok: true })
      await fixture.limit({ disabled: false }, 3, ACCOUNT)
      expect(await ask('0')).toEqual({ ok: false, why: 'credits' })
    },
  )

  example('waiting for held money uses no rate slot', async (fixture) => {
    await fixture.pay('1')
    await fixture.limit({ ...ROOMY, rpm: 3 })
    const holder = await fixture.admit()
    await fixture.hold(holder, parsePico('1'))
    for (let i = 0; i < 10; i++) {
      await fixture.clock.advance(i % 2)
      const call = await fixture.admit()
      expect(call.rate.remaining).toBe(1)
      expect(await fixture.hold(call, 1n)).toMatchObject({ why: 'held' })
      await fixture.leave(call, { slot: call.at })
    }
    // The refused calls left no entries: a minute after the holder's admission the whole limit is available.
    await fixture.clock.advance(MINUTE_MS - (fixture.clock.now() - holder.at))
    expect(await fixture.admit()).toMatchObject({ rate: { remaining: 2 } })
  })

  example('a cap refuses for good on settled spend, for now on held spend', async (fixture) => {
    await fixture.pay()
    await fixture.limit({ ...ROOMY, counted: [{ id: 'cap.lifetime', value: parsePico('2') }] })
    const first = await fixture.admit()
    await fixture.hold(first, parsePico('2'))
    const waiting = await fixture.admit()
    const limit = refusedCap('lifetime', parsePico('2'), 0n, '-')
    const held = { ok: false, why: 'held', by: 'cap', limit, retryAfterMs: 1000 }
    expect(await fixture.hold(waiting, 1n)).toEqual(held)
    await fixture.leave(waiting)
    await fixture.settle(first, parsePico('1.999999999999'))
    const second = await fixture.admit()
    expect(await fixture.hold(second)).toMatchObject({ ok: true })
    await fixture.settle(second, 1n)
    expect(await fixture.hold(await fixture.admit())).toEqual({
      ok: false,
      why: 'limit',
      limit: refusedCap('lifetime', parsePico('2'), parsePico('2'), '-'),
      at: fixture.clock.now(),
    })
    await fixture.limit({ ...ROOMY, counted: [{ id: 'cap.lifetime', value: parsePico('3') }] }, 2)
    expect(await fixture.hold(await fixture.admit({ revision: 2 }))).toMatchObject({ ok: true })
  })

  example('the cap is checked before the balance, and the tier before both', async (fixture) => {
    await fixture.limit({ ...ROOMY, counted: [{ id: 'cap.lifetime', value: 0n }] })
    expect(await fixture.hold(await fixture.admit())).toEqual({ ok: false, why: 'tier' })
    await fixture.pay('1')
    await fixture.settle(await fixture.admit(), parsePico('1'))
    expect(await fixture.hold(await fixture.admit())).toMatchObject({ ok: false, why: 'limit' })
    await fixture.limit(ROOMY, 2)
    expect(await fixture.hold(await fixture.admit({ revision: 2 }))).toEqual({
      ok: false,
      why: 'credits',
    })
  })

  example('holding twice holds once', async (fixture) => {
    await fixture.pay('10')
    await fixture.limit(ROOMY)
    const call = await fixture.admit()
    const held = await fixture.hold(call, parsePico('4'))
    expect(await fixture.hold(call, parsePico('4'))).toEqual(held)
    expect(await fixture.ledger.account('acct')).toMatchObject({ available: parsePico('6') })
  })

  example('a negative hold is an error', async (fixture) => {
    await fixture.pay()
    await fixture.limit(ROOMY)
    const call = await fixture.admit()
    await expect((async () => fixture.hold(call, -1n))()).rejects.toThrow(RangeError)
  })

  example('the ceilings of calls that run together fit what is left', async (fixture) => {
    await fixture.pay('1')
    await fixture.limit(ROOMY)
    const ceiling = parsePico('0.6')
    const first = await fixture.admit()
    expect(await fixture.hold(first, 1n, { ceiling })).toMatchObject({ ok: true })
    const second = await fixture.admit()
    const waits = { ok: false, why: 'held', by: 'balance_ceilings', retryAfterMs: 1000 }
    expect(await fixture.hold(second, 1n, { ceiling })).toEqual(waits)
    await fixture.leave(second)
    await fixture.leave(first)
    expect(await fixture.hold(await fixture.admit(), 1n, { ceiling })).toMatchObject({ ok: true })
    const fits = { ceiling: parsePico('0.4') }
    expect(await fixture.hold(await fixture.admit(), 1n, fits)).toMatchObject({ ok: true })
  })

  example('an exposure lets ceilings pass what is left by its smaller part', async (fixture) => {
    await fixture.pay('1')
    await fixture.pay('3', 'second')
    await fixture.limit(ROOMY)
    const ceiling = parsePico('4')
    const attempt = async (usd: string, exposure: HoldRequest['exposure']) => {
      const call = await fixture.admit()
      const held = await fixture.hold(call, 1n, { ceiling: parsePico(usd), exposure })
      if (!held.ok) await fixture.leave(call)
      return held.ok || held
    }
    const waits = { by: 'balance_ceilings' }
    expect(await fixture.hold(await fixture.admit(), 1n, { ceiling })).toMatchObject({ ok: true })
    // A quarter of what was ever paid in.
    const share = { share: 0.25, most: parsePico('10') }
    expect(await attempt('1.000000000001', share)).toMatchObject(waits)
    const most = { share: 0.25, most: parsePico('0.5') }
    expect(await attempt('0.500000000001', most)).toMatchObject(waits)
    expect(await attempt('0.5', most)).toBe(true)
    expect(await attempt('0.5', share)).toBe(true)
  })

  example('the exposure of a cap is a share of the cap', async (fixture) => {
    await fixture.pay()
    await fixture.limit({ ...ROOMY, counted: [{ id: 'cap.day', value: parsePico('2') }] })
    await fixture.limit(ROOMY, 1, 'other')
    const ceiling = parsePico('2')
    const exposure = { share: 0.5, most: parsePico('100') }
    expect(await fixture.hold(await fixture.admit(), 1n, { ceiling })).toMatchObject({ ok: true })
    const over = await fixture.admit()
    const beyond = { ceiling: parsePico('1.000000000001'), exposure }
    expect(await fixture.hold(over, 1n, beyond)).toMatchObject({ why: 'held', by: 'cap_ceilings' })
    await fixture.leave(over)
    const within = { ceiling: parsePico('1'), exposure }
    expect(await fixture.hold(await fixture.admit(), 1n, within)).toMatchObject({ ok: true })
    // Another key of the account has money of its own account in sight only.
    const other = await fixture.admit({ key: 'other' })
    expect(await fixture.hold(other, 1n, { ceiling })).toMatchObject({ ok: true })
  })

  example('a call that can cost nothing waits for nothing', async (fixture) => {
    await fixture.pay('1')
    await fixture.limit({ ...ROOMY, counted: [{ id: 'cap.lifetime', value: parsePico('1') }] })
    await fixture.hold(await fixture.admit(), parsePico('1'))
    expect(await fixture.hold(await fixture.admit())).toMatchObject({ ok: true, tight: false })
  })

  example('a call is tight while less than 32 of its ceilings are left', async (fixture) => {
    await fixture.pay('33')
    await fixture.limit(ROOMY)
    const ceiling = parsePico('1')
    const hold = async (call: AdmittedRequest) => fixture.hold(call, ceiling)
    const first = await fixture.admit()
    expect(await hold(first)).toMatchObject({ ok: true, tight: false })
    const second = await fixture.admit()
    expect(await hold(second)).toMatchObject({ ok: true, tight: true })
    await fixture.leave(first)
    expect(await hold(second)).toMatchObject({ tight: true })
    await fixture.leave(second)
    await fixture.limit({ ...ROOMY, counted: [{ id: 'cap.month', value: parsePico('32.9') }] }, 2)
    const capped = await fixture.admit({ revision: 2 })
    expect(await hold(capped)).toMatchObject({ ok: true, tight: true })
  })

  example('resets at the same time take off once what is counted', async (fixture) => {
    await fixture.pay('10')
    await fixture.limit({ ...ROOMY, counted: [{ id: 'cap.lifetime', value: parsePico('2') }] })
    const call = await fixture.admit()
    await fixture.hold(call, parsePico('1'))
    await fixture.settle(call, parsePico('2'))
    const limit = { account: 'acct', owner: 'key', limit: 'cap.lifetime', reason: 'a test' }
    const references = ['one', 'two', 'one', 'three']
    const resets = references.map((reference) => fixture.ledger.reset({ ...limit, reference }))
    const counted = (await Promise.all(resets)).map((done) => done.duplicate || done.counted)
    expect(counted).toEqual([parsePico('2'), 0n, true, 0n])
    expect(await fixture.ledger.counters('acct', 'key')).toMatchObject([{ used: 0n }])
  })

  example('a raise grows the hold of a running call, once', async (fixture) => {
    await fixture.pay('10')
    await fixture.limit({ ...ROOMY, counted: [{ id: 'cap.day', value: parsePico('10') }] })
    const call = await fixture.admit()
    const available = async () => (await fixture.ledger.account('acct')).available
    await fixture.hold(call, parsePico('1'), { ceiling: parsePico('11') })
    await fixture.raise(call, parsePico('1'), parsePico('2'))
    await fixture.raise(call, parsePico('1'), parsePico('2'))
    expect(await available()).toBe(parsePico('8'))
    // From another amount, downward, and past the ceiling: without effect.
    await fixture.raise(call, parsePico('1'), parsePico('5'))
    await fixture.raise(call, parsePico('2'), parsePico('1'))
    await fixture.raise(call, parsePico('2'), parsePico('11.000000000001'))
    expect(await available()).toBe(parsePico('8'))
    expect(await fixture.ledger.verify()).toEqual([])
    // It may take more than is left. It cuts nothing, and admits nothing.
    await fixture.raise(call, parsePico('2'), parsePico('11'))
    expect(await available()).toBe(-parsePico('1'))
    const waiting = await fixture.admit()
    expect(await fixture.hold(waiting, 1n)).toMatchObject({ why: 'held', by: 'balance' })
    await fixture.leave(waiting)
    await fixture.settle(call, parsePico('3'))
    await fixture.raise(call, parsePico('11'), parsePico('11'))
    expect(await available()).toBe(parsePico('7'))
    expect(await fixture.ledger.verify()).toEqual([])
  })

  example('a hold is exchanged whole, or not at all', async (fixture) => {
    await fixture.pay('10')
    const usd = parsePico('1')
    const counted = ['cap.day', 'cap.5h'].map((id) => ({ id, value: 8n * usd }))
    await fixture.limit({ ...ROOMY, counted })
    const other = await fixture.admit()
    await fixture.hold(other, 2n * usd)
    const call = await fixture.admit()
    let held = usd
    expect(await fixture.hold(call, held)).toMatchObject({ ok: true })
    for (let step = 0; step < 200; step++) {
      const wanted = BigInt(Math.floor(Math.random() * 8_000)) * (usd / 1000n)
      const result = await fixture.hold(call, wanted, { replaces: true })
      // The call's own hold is no hindrance; that of the other one is, and the cap is below the balance.
      const fits = wanted <= 6n * usd
      expect(result, `${wanted}`).toMatchObject(fits ? { ok: true } : { why: 'held', by: 'cap' })
      if (fits) held = wanted
      const { available } = await fixture.ledger.account('acct')
      expect(available).toBe(8n * usd - held)
    }
    expect(await fixture.hold(call, 7n * usd)).toMatchObject({ ok: true })
    expect((await fixture.ledger.account('acct')).available).toBe(8n * usd - held)
    expect(await fixture.ledger.verify()).toEqual([])
    await fixture.settle(call, usd)
    await fixture.leave(other)
    expect(await fixture.hold(call, usd, { replaces: true })).toMatchObject({ why: 'lost' })
    expect(await fixture.ledger.account('acct')).toMatchObject({
      balance: 9n * usd,
      available: 9n * usd,
    })
    expect(await fixture.ledger.verify()).toEqual([])
  })

  example('a raise brings back no call that has ended', async (fixture) => {
    await fixture.pay('10')
    await fixture.limit(ROOMY)
    const [left, expired, never] = [await fixture.admit(), await fixture.admit(), { request: 'x' }]
    await fixture.hold(left, 1n, { ceiling: 100n })
    await fixture.hold(expired, 1n, { ceiling: 100n })
    await fixture.leave(left)
    await fixture.clock.advance(LEASE_MS)
    await fixture.admit()
    for (const call of [left, expired, never]) await fixture.raise(call, 1n, 2n)
    expect(await fixture.ledger.account('acct')).toMatchObject({ available: parsePico('10') })
    expect(await fixture.ledger.verify()).toEqual([])
  })

  example('a ceiling below what is expected is an error', async (fixture) => {
    await fixture.pay()
    await fixture.limit(ROOMY)
    const call = await fixture.admit()
    const held = async () => fixture.hold(call, 2n, { ceiling: 1n })
    await expect(held()).rejects.toThrow(RangeError)
  })

  example('overruns no further than costs exceed holds', async (fixture) => {
    await fixture.pay('1')
    await fixture.limit({ ...ROOMY, concurrency: 4 })
    const calls = []
    for (let i = 0; i < 4; i++) {
      const call = await fixture.admit()
      expect(await fixture.hold(call, parsePico('0.2'))).toMatchObject({ ok: true })
      calls.push(call)
    }
    for (const call of calls) await fixture.settle(call, parsePico('0.7'))
    const { balance } = await fixture.ledger.account('acct')
    expect(balance).toBe(parsePico('1') - parsePico('2.8'))
    expect(-balance).toBeLessThan(parsePico('0.7') + 3n * parsePico('0.5'))
    expect(await fixture.hold(await fixture.admit())).toEqual({ ok: false, why: 'credits' })
  })
}

function windowExamples(example: Example): void {
  const dollar = parsePico('1')

  example('a day cap opens again at midnight UTC', async (fixture) => {
    await fixture.pay()
    await fixture.limit({ ...ROOMY, counted: [{ id: 'cap.day', value: dollar }] })
    await fixture.until(nextDay(fixture.clock.now()) - 1000)
    await fixture.spend(dollar)
    const limit = refusedCap('day', dollar, dollar, fixture.day())
    const refused = { ok: false, why: 'limit', limit }
    expect(await fixture.hold(await fixture.admit())).toMatchObject(refused)
    await fixture.clock.advance(999)
    expect(await fixture.hold(await fixture.admit())).toMatchObject(refused)
    await fixture.clock.advance(1)
    expect(await fixture.hold(await fixture.admit())).toMatchObject({
      ok: true,
      day: fixture.day(),
    })
    expect(await fixture.ledger.key('acct', 'key')).toMatchObject({ lifetime: dollar, day: 0n })
  })

  example('a month cap opens again on the first', async (fixture) => {
    await fixture.pay()
    await fixture.limit({ ...ROOMY, counted: [{ id: 'cap.month', value: dollar }] })
    await fixture.until(nextMonth(fixture.clock.now()))
    const resetsAt = nextMonth(fixture.clock.now())
    await fixture.until(resetsAt - DAY_MS - 5)
    await fixture.spend(dollar)
    await fixture.clock.advance(DAY_MS)
    const limit = refusedCap('month', dollar, dollar, fixture.day().slice(0, 6))
    const refused = { ok: false, why: 'limit', limit }
    expect(await fixture.hold(await fixture.admit())).toMatchObject(refused)
    expect(await fixture.ledger.key('acct', 'key')).toMatchObject({ month: dollar, day: 0n })
    await fixture.clock.advance(5)
    expect(await fixture.hold(await fixture.admit())).toMatchObject({ ok: true })
    expect(await fixture.ledger.key('acct', 'key')).toMatchObject({ lifetime: dollar, month: 0n })
  })

  example('a call across midnight belongs to the day of its hold', async (fixture) => {
    await fixture.pay()
    await fixture.limit({ ...ROOMY, counted: [{ id: 'cap.day', value: dollar }] })
    await fixture.until(nextMonth(fixture.clock.now()) - 10)
    const call = await fixture.admit()
    const held = await fixture.hold(call, dollar)
    expect(held).toEqual({ ok: true, day: fixture.day(), billed: true, tight: true })
    await fixture.clock.advance(20)
    expect(await fixture.hold(await fixture.admit(), 0n)).toMatchObject({ ok: true })
    await fixture.settle(call, dollar, (held as HoldGranted).day)
    expect(await fixture.ledger.key('acct', 'key')).toEqual({
      lifetime: dollar,
      day: 0n,
      month: 0n,
      inFlight: 1,
    })
    expect(await fixture.hold(await fixture.admit())).toMatchObject({ ok: true })
    expect(await fixture.ledger.verify()).toEqual([])
  })

  example('a settlement after expiry is charged in the window of its hold', async (fixture) => {
    await fixture.pay('5')
    await fixture.limit({ ...ROOMY, concurrency: 1 })
    await fixture.until(nextDay(fixture.clock.now()) - 10)
    const call = await fixture.admit()
    const held = (await fixture.hold(call, dollar)) as HoldGranted
    await fixture.clock.advance(LEASE_MS)
    const next = await fixture.admit()
    await fixture.hold(next, dollar)
    const balance = parsePico('4.5')
    const settled = await fixture.settle(call, parsePico('0.5'), held.day)
    expect(settled).toEqual({ state: 'charged', cost: parsePico('0.5'), balance })
    expect(await fixture.ledger.account('acct')).toMatchObject({
      balance,
      available: balance - dollar,
    })
    const spend = { lifetime: parsePico('0.5'), day: 0n, inFlight: 1 }
    expect(await fixture.ledger.key('acct', 'key')).toMatchObject(spend)
    expect(await fixture.ledger.verify()).toEqual([])
  })
}

function settlementExamples(example: Example): void {
  example('charges once, however often it is asked', async (fixture) => {
    await fixture.pay('1')
    await fixture.limit(ROOMY)
    const call = await fixture.admit()
    await fixture.hold(call, 7n)
    const balance = parsePico('1') - 42n
    expect(await fixture.settle(call, 42n)).toEqual({ state: 'charged', cost: 42n, balance })
    const again = { state: 'duplicate', cost: 42n, balance }
    expect(await fixture.settle(call, 42n)).toEqual(again)
    expect(await fixture.settle(call, 99n)).toEqual(again)
    expect(await fixture.ledger.key('acct', 'key')).toMatchObject({
      lifetime: 42n,
      day: 42n,
      month: 42n,
      inFlight: 0,
    })
    expect(await fixture.rows()).toHaveLength(2)
  })

  example('charges an unknown call', async (fixture) => {
    await fixture.pay('1')
    await fixture.limit(ROOMY)
    const unknown = { request: 'req_unknown', at: fixture.clock.now() }
    expect(await fixture.settle(unknown, 5n)).toMatchObject({ state: 'charged', cost: 5n })
    expect(await fixture.settle(unknown, 5n)).toMatchObject({ state: 'duplicate' })
    expect(await fixture.ledger.key('acct', 'key')).toMatchObject({ lifetime: 5n, inFlight: 0 })
  })

  example('a settlement of nothing leaves a row and no charge', async (fixture) => {
    await fixture.limit(ROOMY)
    const call = await fixture.admit()
    await fixture.hold(call, 0n, { free: true })
    expect(await fixture.settle(call, 0n)).toEqual({ state: 'charged', cost: 0n, balance: 0n })
    expect(await fixture.rows()).toMatchObject([{ kind: 'usage', request: call.request, cost: 0n }])
  })

  example('is seen by the very next admission', async (fixture) => {
    await fixture.pay('1')
    await fixture.limit({ ...ROOMY, concurrency: 1 })
    await fixture.spend(parsePico('1'))
    expect(await fixture.hold(await fixture.admit())).toEqual({ ok: false, why: 'credits' })
  })

  example('sums stay exact far above what a double can count', async (fixture) => {
    await fixture.pay('3999999.999999999999')
    await fixture.limit(ROOMY)
    let balance = parsePico('3999999.999999999999')
    for (let i = 0; i < 300; i++) {
      const cost = parsePico('9007.199254740993') + BigInt(i)
      balance -= cost
      expect(
        await fixture.settle({ request: `req_${i}`, at: fixture.clock.now() }, cost),
      ).toMatchObject({
        balance,
      })
    }
    const { lifetime } = await fixture.ledger.key('acct', 'key')
    expect(lifetime).toBe(parsePico('3999999.999999999999') - balance)
    expect(await fixture.ledger.verify()).toEqual([])
  })

  example(
    'a cost out of bounds is never booked, and ends its call all the same',
    async (fixture) => {
      await fixture.limit(ROOMY)
      await fixture.pay('10')
      for (const cost of [-1n, MAX_AMOUNT + 1n]) {
        const call = await fixture.admit()
        expect(await fixture.settle(call, cost)).toMatchObject({ state: 'deferred', cost })
        await fixture.ledger.leave({ account: 'acct', key: 'key', request: call.request })
      }
      expect(await fixture.ledger.key('acct', 'key')).toMatchObject({ lifetime: 0n, inFlight: 0 })
      // It can never be booked, so no call has to wait for it.
      expect(fixture.ledger.health()).toMatchObject({ ok: true, outbox: 0 })
      await fixture.admit()
    },
  )

  example('a settlement that is booked cannot be waived', async (fixture) => {
    await fixture.limit(ROOMY)
    await fixture.pay('10')
    const call = await fixture.admit()
    await fixture.settle(call, 40n)
    await fixture.ledger.waive({ account: 'acct', key: 'key', request: call.request })
    expect(await fixture.ledger.key('acct', 'key')).toMatchObject({ lifetime: 40n })
    expect(await fixture.ledger.verify()).toEqual([])
  })

  example(
    'a repeated settlement with another cost is counted, and the first one stands',
    async (fixture) => {
      await fixture.limit(ROOMY)
      await fixture.pay('10')
      const call = await fixture.admit()
      await fixture.settle(call, 40n)
      await fixture.settle(call, 40n)
      expect(fixture.ledger.conflicts).toBe(0)
      expect(await fixture.settle(call, 41n)).toMatchObject({ state: 'duplicate', cost: 40n })
      expect(fixture.ledger.conflicts).toBe(1)
    },
  )
}

function topUpExamples(example: Example): void {
  const topUp = { kind: 'top-up' as const, account: 'acct', amount: 100n, reference: 'invoice 1' }

  example('books a reference once per account', async (fixture) => {
    expect(await fixture.ledger.book(topUp)).toEqual({
      state: 'charged',
      cost: -100n,
      balance: 100n,
    })
    for (const amount of [100n, 7n]) {
      expect(await fixture.ledger.book({ ...topUp, amount })).toEqual({
        state: 'duplicate',
        cost: -100n,
        balance: 100n,
      })
    }
    expect(await fixture.ledger.book({ ...topUp, reference: 'invoice 2' })).toMatchObject({
      balance: 200n,
    })
    expect(await fixture.ledger.book({ ...topUp, account: 'other' })).toMatchObject({
      state: 'charged',
      balance: 100n,
    })
    expect(await fixture.rows()).toHaveLength(2)
  })

  example('refuses amounts out of bounds', async (fixture) => {
    for (const amount of [0n, -1n, MAX_AMOUNT + 1n]) {
      await expect(fixture.ledger.book({ ...topUp, amount })).rejects.toThrow(RangeError)
    }
    expect(await fixture.ledger.account('acct')).toEqual({
      balance: 0n,
      available: 0n,
      paid: false,
    })
    expect(await fixture.rows()).toEqual([])
  })

  example('an account that has spent 20 million USD calls and tops up', async (fixture) => {
    const { ledger } = fixture
    await fixture.limit({ ...ROOMY, counted: [{ id: 'cap.lifetime', value: 30n * MAX_AMOUNT }] })
    for (let i = 0; i < 6; i++) {
      await ledger.book({ ...topUp, amount: MAX_AMOUNT, reference: `invoice ${i}` })
    }
    for (let i = 0; i < 5; i++) {
      const call = await fixture.admit()
      await fixture.hold(call, MAX_AMOUNT)
      await fixture.settle(call, MAX_AMOUNT)
    }
    const spend = { lifetime: 5n * MAX_AMOUNT, day: 5n * MAX_AMOUNT, month: 5n * MAX_AMOUNT }
    expect(await ledger.key('acct', 'key')).toEqual({ ...spend, inFlight: 0 })
    expect(await ledger.account('acct')).toMatchObject({ balance: MAX_AMOUNT })
    const more = { ...topUp, amount: MAX_AMOUNT - 1n, reference: 'one more' }
    expect(await ledger.book(more)).toMatchObject({ balance: 2n * MAX_AMOUNT - 1n })
    const call = await fixture.admit()
    expect(await fixture.hold(call, 7n, { ceiling: 9n })).toMatchObject({ ok: true, billed: true })
    await fixture.settle(call, 5n)
    expect(await ledger.account('acct')).toEqual({
      balance: 2n * MAX_AMOUNT - 6n,
      available: 2n * MAX_AMOUNT - 6n,
      paid: true,
    })
    expect(await ledger.verify()).toEqual([])
  })

  example('sums beyond a billion USD are exact', async (fixture) => {
    const { ledger } = fixture
    const count = 300n
    const odd = MAX_AMOUNT - 123_456_789n
    const many = Array.from({ length: Number(count) }, (_, i) => i)
    await Promise.all(
      many.map((i) => ledger.book({ ...topUp, amount: odd, reference: `invoice ${i}` })),
    )
    expect(await ledger.account('acct')).toMatchObject({ balance: count * odd })
    const call = { account: 'acct', key: 'key', day: dayOf(fixture.clock.now()) }
    const usage = usageAt(fixture.clock.now())
    await Promise.all(
      many.map((i) => ledger.settle({ ...call, request: `req_${i}`, cost: MAX_AMOUNT, usage })),
    )
    const spent = count * MAX_AMOUNT
    expect(await ledger.account('acct')).toMatchObject({ balance: count * odd - spent })
    expect(await ledger.key('acct', ACCOUNT)).toMatchObject({ lifetime: spent, month: spent })
    expect(await ledger.verify()).toEqual([])
  })
}

function adjustmentExamples(example: Example): void {
  const adjustment = {
    kind: 'adjust' as const,
    account: 'acct',
    amount: -30n,
    reference: 'ticket 1',
    note: 'double charge',
  }

  example('move the balance either way, once per account and reference', async (fixture) => {
    const { ledger } = fixture
    const taken = { state: 'charged', cost: 30n, balance: -30n }
    expect(await ledger.book(adjustment)).toEqual(taken)
    const again = { ...adjustment, amount: 99n }
    expect(await ledger.book(again)).toEqual({ ...taken, state: 'duplicate' })
    const given = { ...adjustment, amount: 50n, reference: 'ticket 2' }
    const credited = { state: 'charged', cost: -50n, balance: 20n }
    expect(await ledger.book(given)).toEqual(credited)
    expect(await ledger.book(given)).toEqual({ ...credited, state: 'duplicate' })
    expect(await ledger.book({ ...adjustment, account: 'other' })).toEqual(taken)
    expect(await fixture.rows()).toMatchObject([
      { kind: 'adjust', request: 'ticket 2', cost: -50n, note: 'double charge' },
      { kind: 'adjust', request: 'ticket 1', cost: 30n, note: 'double charge' },
    ])
    expect(await ledger.verify()).toEqual([])
  })

  example('leave spend, the free tier and the references of top-ups alone', async (fixture) => {
    const { ledger } = fixture
    await ledger.book({ ...adjustment, amount: 100n })
    expect(await ledger.account('acct')).toEqual({ balance: 100n, available: 100n, paid: false })
    const topUp = {
      kind: 'top-up' as const,
      account: 'acct',
      amount: 7n,
      reference: adjustment.reference,
    }
    expect(await ledger.book(topUp)).toMatchObject({ state: 'charged', balance: 107n })
    await ledger.book({ ...adjustment, reference: 'ticket 2' })
    expect(await ledger.account('acct')).toEqual({ balance: 77n, available: 77n, paid: true })
    const nothing = { lifetime: 0n, day: 0n, month: 0n }
    expect(await ledger.key('acct', 'key')).toMatchObject(nothing)
    expect(await ledger.verify()).toEqual([])
  })

  example(
    'can take the money of a running call, which is charged all the same',
    async (fixture) => {
      const { ledger } = fixture
      await fixture.limit(ROOMY)
      await ledger.book({ kind: 'top-up', account: 'acct', amount: 100n, reference: 'invoice' })
      const call = await fixture.admit()
      await fixture.hold(call, 60n)
      await ledger.book({ ...adjustment, amount: -150n })
      expect(await ledger.account('acct')).toMatchObject({ balance: -50n, available: -110n })
      await fixture.settle(call, 60n)
      expect(await ledger.account('acct')).toMatchObject({ balance: -110n, available: -110n })
      expect(await fixture.hold(await fixture.admit(), 1n)).toEqual({ ok: false, why: 'credits' })
      expect(await ledger.verify()).toEqual([])
    },
  )

  example('do not count as money that was paid in', async (fixture) => {
    const { ledger } = fixture
    await fixture.limit(ROOMY)
    await ledger.book({ kind: 'top-up', account: 'acct', amount: 100n, reference: 'invoice' })
    await ledger.book({ ...adjustment, amount: 900n })
    const exposure = { share: 1, most: 500n }
    const first = await fixture.admit()
    await fixture.hold(first, 1n, { ceiling: 1000n, exposure })
    const second = await fixture.admit()
    // Of 1,000 in all, only 100 were paid in: so much may the ceilings pass the balance.
    const held = { ok: false, why: 'held', by: 'balance_ceilings' }
    expect(await fixture.hold(second, 1n, { ceiling: 101n, exposure })).toMatchObject(held)
    const third = await fixture.admit()
    expect(await fixture.hold(third, 1n, { ceiling: 100n, exposure })).toMatchObject({ ok: true })
  })

  example('have bounds, and the balance has none', async (fixture) => {
    const { ledger } = fixture
    for (const amount of [0n, MAX_AMOUNT + 1n, -MAX_AMOUNT - 1n]) {
      await expect(ledger.book({ ...adjustment, amount })).rejects.toThrow(RangeError)
    }
    expect(await fixture.rows()).toEqual([])
    for (const most of [MAX_AMOUNT, -MAX_AMOUNT]) {
      const account = `acct ${most}`
      const one = most > 0n ? 1n : -1n
      const adjust = (amount: Pico) =>
        ledger.book({ ...adjustment, account, amount, reference: `by ${amount}` })
      expect(await adjust(most)).toMatchObject({ balance: most })
      expect(await adjust(one)).toMatchObject({ balance: most + one })
      expect(await adjust(most - one)).toMatchObject({ balance: 2n * most })
      expect(await ledger.account(account)).toMatchObject({
        balance: 2n * most,
        available: 2n * most,
      })
      expect(await adjust(-most)).toMatchObject({ state: 'charged', balance: most })
    }
    expect(await ledger.verify()).toEqual([])
  })
}

function historyExamples(example: Example): void {
  example('an unknown account is empty', async (fixture) => {
    expect(await fixture.ledger.account('unknown')).toEqual({
      balance: 0n,
      available: 0n,
      paid: false,
    })
    expect(await fixture.ledger.key('unknown', 'none')).toEqual({
      lifetime: 0n,
      day: 0n,
      month: 0n,
      inFlight: 0,
    })
    expect(await fixture.rows('unknown')).toEqual([])
    expect(await fixture.ledger.verify('unknown')).toEqual([])
    await fixture.ledger.leave({ account: 'unknown', key: 'none', request: 'req_1' })
  })

  example('lists rows newest first, from a cursor on', async (fixture) => {
    await fixture.ledger.book({
      kind: 'top-up',
      account: 'acct',
      amount: 100n,
      reference: 'invoice',
      note: 'thanks',
    })
    await fixture.limit(ROOMY)
    const usage: UsageRow = {
      at: fixture.clock.now(),
      endpoint: 'chat',
      model: 'vendor/model',
      deployment: 'west',
      outcome: 'cancelled',
      lines: [
        { source: 'model', usage: { promptTokens: 3, completionTokens: 4, estimated: true } },
      ],
    }
    const [day, account, key] = [fixture.day(), 'acct', 'key']
    for (const request of ['req_1', 'req_2', 'req_3']) {
      await fixture.ledger.settle({ request, account, key, day, cost: 2n, usage })
    }
    const rows = await fixture.rows()
    expect(rows.map((row) => row.request)).toEqual(['req_3', 'req_2', 'req_1', 'invoice'])
    expect(rows[0]).toMatchObject({ kind: 'usage', key, at: usage.at, cost: 2n, usage })
    expect(rows[3]).toMatchObject({ kind: 'top-up', cost: -100n, note: 'thanks' })
    expect(rows[3]).not.toHaveProperty('key')
    expect(await fixture.rows('acct', rows[1]!.seq)).toEqual(rows.slice(2))
    expect(await fixture.rows('acct', rows[3]!.seq)).toEqual([])
  })

  example('a call that died after its hold leaves an orphan', async (fixture) => {
    await fixture.pay('1')
    await fixture.limit(ROOMY)
    const held = await fixture.admit()
    await fixture.hold(held, 10n)
    await fixture.admit()
    await fixture.clock.advance(LEASE_MS)
    await fixture.admit()
    const orphans = (await fixture.rows()).filter((row) => row.kind === 'orphan')
    expect(orphans).toMatchObject([{ request: held.request, key: 'key', cost: 0n }])
    expect(await fixture.ledger.account('acct')).toMatchObject({ available: parsePico('1') })
    expect(await fixture.ledger.key('acct', 'key')).toMatchObject({ inFlight: 1 })
  })

  example('leaving leaves no row', async (fixture) => {
    await fixture.pay('1')
    await fixture.limit(ROOMY)
    const call = await fixture.admit()
    await fixture.hold(call, 10n)
    await fixture.leave(call)
    await fixture.clock.advance(LEASE_MS)
    await fixture.admit()
    expect(await fixture.rows()).toHaveLength(1)
  })

  example('reports that it is healthy and has nothing to send', async (fixture) => {
    // That of Redis has the memory of its store too, once that was asked for.
    const { memoryUsed: _, ...health } = fixture.ledger.health()
    expect(health).toEqual({ ok: true, outbox: 0, oldestMs: 0 })
  })
}

/** A cap of the key as it refuses. */
function refusedCap(
  window: 'lifetime' | 'day' | 'month',
  value: Pico,
  used: Pico,
  current: string,
) {
  return { of: 'key', name: `cap.${window}`, unit: 'usd', window, value, used, current }
}

interface AdmittedRequest extends Admitted {
  readonly request: string
  readonly key: string
}

type HoldOptions = Partial<Omit<HoldRequest, 'request' | 'account' | 'key' | 'at'>>

/** A ledger with defaults for the examples: account `acct`, key `key`, revision 1. */
class LedgerFixture {
  readonly ledger: Ledger
  readonly clock: TestClock
  last = ''
  #requests = 0

  constructor(ledger: Ledger, clock: TestClock) {
    this.ledger = ledger
    this.clock = clock
  }

  async limit(limits: KeyLimits, revision = 1, key = 'key'): Promise<void> {
    await this.ledger.limits('acct', key, limits, revision)
  }

  async enter(entry: Partial<AdmissionRequest> = {}): Promise<Admission> {
    this.last = entry.request ?? `req_${++this.#requests}`
    const plain = { account: 'acct', key: 'key', revision: 1, freeTier: FREE_TIER }
    return this.ledger.enter({ ...plain, ...entry, request: this.last })
  }

  async admit(entry: Partial<AdmissionRequest> = {}): Promise<AdmittedRequest> {
    const entered = await this.enter(entry)
    if (!entered.ok) throw new Error(`expected an admission, was refused: ${inspect(entered)}`)
    return { ...entered, request: this.last, key: entry.key ?? 'key' }
  }

  /** Holds money for a call of `key`, or of the key that is named. */
  async hold(
    call: { request: string; at: number; key?: string },
    expected: Pico = 0n,
    { free = false, ceiling = expected, exposure = NO_EXPOSURE, ...more }: HoldOptions = {},
  ): Promise<HoldResult> {
    const { request, at, key = 'key' } = call
    const hold = { ...holdOf(expected, ceiling, exposure), ...more }
    return this.ledger.hold({ request, account: 'acct', key, at, ...hold, free })
  }

  async raise({ request }: { request: string }, from: Pico, to: Pico): Promise<void> {
    await this.ledger.raise({ request, account: 'acct', key: 'key', from, to })
  }

  settle(call: { request: string; at: number }, cost: Pico, day = this.day()): Promise<Settled> {
    const { request, at } = call
    return this.ledger.settle({
      request,
      account: 'acct',
      key: 'key',
      day,
      cost,
      usage: usageAt(at),
    })
  }

  /** Runs a whole call at a cost. */
  async spend(cost: Pico): Promise<void> {
    const call = await this.admit()
    expect(await this.hold(call)).toMatchObject({ ok: true })
    await this.settle(call, cost)
  }

  async leave(
    { request, key = 'key' }: { request: string; key?: string },
    how: { readonly slot?: number } = {},
  ): Promise<void> {
    await this.ledger.leave({ account: 'acct', key, request, ...how })
  }

  async renew(...calls: { request: string }[]): Promise<void> {
    await this.ledger.renew(calls.map(({ request }) => ({ account: 'acct', key: 'key', request })))
  }

  async pay(usd = '1000', reference = 'first'): Promise<void> {
    await this.ledger.book({ kind: 'top-up', account: 'acct', amount: parsePico(usd), reference })
  }

  async until(time: number): Promise<void> {
    await this.clock.advance(time - this.clock.now())
  }

  day(): string {
    return dayOf(this.clock.now())
  }

  rows(account = 'acct', before?: number): Promise<LedgerRow[]> {
    return collect(this.ledger.usage(account, before))
  }
}

/** Stands still until it is advanced. Starts some days before the end of a month. */
export class ManualClock implements TestClock {
  #now = Date.UTC(2026, 0, 28, 22, 58, 30)

  now(): number {
    return this.#now
  }

  advance(ms: number): void {
    if (ms < 0) throw new RangeError(`a clock goes forward, not by ${ms} ms`)
    this.#now += ms
  }
}

async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = []
  for await (const item of items) list.push(item)
  return list
}

function usageAt(at: number): UsageRow {
  return { at, endpoint: 'chat', model: 'vendor/model', outcome: 'completed', lines: [] }
}

function nextDay(time: number): number {
  return (Math.floor(time / DAY_MS) + 1) * DAY_MS
}

function nextMonth(time: number): number {
  const date = new Date(time)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1)
}
