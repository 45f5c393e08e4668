/**
 * The rules of a ledger as tests that every engine passes: examples of each rule, then a random walk beside a model. The
 * invariants are those of `src/state/README.md`.
 */
import { describe, expect, it } from 'vitest'
import { isDeepStrictEqual, inspect } from 'node:util'
import { ACCOUNT, LEASE_MS } from '../../src/state/ledger/ledger.ts'
import type {
  Adjustment,
  CapScope,
  Admission,
  Admitted,
  AdmissionRequest,
  HoldResult,
  HoldRequest,
  HoldGranted,
  HeldBy,
  KeyLimits,
  LimitOwner,
  Ledger,
  LedgerRow,
  Lease,
  Raise,
  RateStatus,
  Settled,
  Settlement,
  TopUp,
  UsageRow,
} from '../../src/state/ledger/ledger.ts'
import { MAX_AMOUNT, parsePico, type Pico } from '../../src/money/money.ts'
import { holdOf, NO_EXPOSURE } from '../state/_hold.ts'

/** The time that an engine under test reads. It only goes forward. */
export interface TestClock {
  /** ms since epoch, exactly as the engine sees it */
  now(): number
  advance(ms: number): void | Promise<void>
}

export interface ConformanceOptions {
  /** For engines that bring their own time; else a clock that stands still until it is advanced. */
  readonly clock?: () => TestClock | Promise<TestClock>
}

/** Length of the random walk. `LEDGER_STEPS` changes it; `npm run torture` walks 100,000 steps. */
const STEPS = Number(process.env.LEDGER_STEPS ?? 2500)
/** Seed of the random walk: a new one each run, shown in the test's name. `LEDGER_SEED` repeats a run. */
const SEED = Number(process.env.LEDGER_SEED ?? Math.floor(Math.random() * 2 ** 32))

const MINUTE_MS = 60_000
const DAY_MS = 86_400_000
const FREE_TIER = { rpm: 6, perDay: 15, concurrency: 3 }
const ROOMY: KeyLimits = { disabled: false, rpm: 1000, concurrency: 100 }

/** Declares the tests of one engine. @param open creates an empty ledger that reads the time of a clock */
export function ledgerConformance(
  name: string,
  open: (clock: TestClock) => Promise<Ledger> | Ledger,
  { clock: clockOf = () => new ManualClock() }: ConformanceOptions = {},
): void {
  const example = (title: string, run: (fixture: LedgerFixture) => Promise<void>) =>
    it(title, async () => {
      const clock = await clockOf()
      const ledger = await open(clock)
      try {
        await run(new LedgerFixture(ledger, clock))
      } finally {
        await ledger.close()
      }
    })

  describe(`${name} ledger`, () => {
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

    it(
      `agrees with the model over ${STEPS} random steps (seed ${SEED})`,
      { timeout: Math.max(120_000, STEPS * 10) },
      async () => {
        const clock = await clockOf()
        const ledger = await open(clock)
        try {
          await new Walk(ledger, clock, SEED).go(STEPS)
        } finally {
          await ledger.close()
        }
      },
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
    expect(await used()).toEqual({ key: none, account: none, today: 0 })
    await fixture.limit(ROOMY)
    await fixture.admit()
    await fixture.clock.advance(1000)
    await fixture.admit()
    await fixture.clock.advance(500)
    const two = { count: 2, resetMs: MINUTE_MS - 500 }
    expect(await used()).toEqual({ key: two, account: two, today: 2 })
    expect(await used('@account')).toMatchObject({ account: two })
    expect(await used('other')).toEqual({ key: none, account: two, today: 2 })
    await fixture.clock.advance(MINUTE_MS - 1500)
    const one = { count: 1, resetMs: 1000 }
    expect(await used()).toEqual({ key: one, account: one, today: 2 })
    await fixture.clock.advance(1000)
    expect(await used()).toEqual({ key: none, account: none, today: 2 })
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
      expect(ofMinute()).toBeLessThanOrEqual(rpm)
      return answer
    }
    let refusals = 0
    for (let burst = 0; burst < 70; burst++) {
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
    const refused = { ok: false, why: 'concurrency', of: 'key', retryAfterMs: 1000, rate }
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
    // On the free tier the account has a log and a count of its own.
    for (let i = 0; i < 3 * FREE_TIER.perDay; i++) {
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
    await fixture.limit({ ...OPEN, cap: { amount: parsePico('3'), scope: 'month' } }, 1, ACCOUNT)
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
    expect(refused).toMatchObject({ why: 'cap', of: 'account', scope: 'month' })
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
  const { rpm, perDay, concurrency } = FREE_TIER

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

  example('counts per UTC day, until midnight', async (fixture) => {
    await fixture.limit(ROOMY)
    await fixture.until(nextDay(fixture.clock.now()) - 10 * MINUTE_MS)
    for (let i = 0; i < perDay; i++) {
      await fixture.leave(await fixture.admit())
      await fixture.clock.advance(MINUTE_MS / rpm)
    }
    const waitMs = nextDay(fixture.clock.now()) - fixture.clock.now()
    const rate = { limit: rpm, remaining: 0, resetMs: waitMs }
    const refused = await fixture.enter()
    expect(refused).toEqual({ ok: false, why: 'day', of: 'tier', retryAfterMs: waitMs, rate })
    await fixture.clock.advance(waitMs - 1)
    expect(await fixture.enter()).toMatchObject({ ok: false, why: 'day', retryAfterMs: 1 })
    await fixture.clock.advance(1)
    expect(await fixture.enter()).toMatchObject({ ok: true })
  })

  example('just before midnight the wait may be for the minute', async (fixture) => {
    await fixture.limit(ROOMY)
    await fixture.until(nextDay(fixture.clock.now()) - 3 * MINUTE_MS)
    for (let i = 0; i < perDay; i++) {
      if (i === perDay - rpm) await fixture.until(nextDay(fixture.clock.now()) - 10_000)
      else if (i < perDay - rpm) await fixture.clock.advance(MINUTE_MS / rpm)
      await fixture.leave(await fixture.admit())
    }
    const refused = await fixture.enter()
    expect(refused).toMatchObject({ ok: false, why: 'rpm', retryAfterMs: MINUTE_MS })
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
    await fixture.limit({ ...ROOMY, cap: { amount: 0n, scope: 'lifetime' } })
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
      await fixture.ledger.topUp({ account: 'acct', amount: 1n, reference: 'one' })
      await fixture.limit({ ...ROOMY, cap: { amount: 1n, scope: 'lifetime' } })
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
    await fixture.limit({ ...ROOMY, cap: { amount: parsePico('2'), scope: 'lifetime' } })
    const first = await fixture.admit()
    await fixture.hold(first, parsePico('2'))
    const waiting = await fixture.admit()
    const held = { ok: false, why: 'held', by: 'cap', retryAfterMs: 1000 }
    expect(await fixture.hold(waiting, 1n)).toEqual(held)
    await fixture.leave(waiting)
    await fixture.settle(first, parsePico('1.999999999999'))
    const second = await fixture.admit()
    expect(await fixture.hold(second)).toMatchObject({ ok: true })
    await fixture.settle(second, 1n)
    expect(await fixture.hold(await fixture.admit())).toEqual({
      ok: false,
      why: 'cap',
      of: 'key',
      scope: 'lifetime',
    })
    await fixture.limit({ ...ROOMY, cap: { amount: parsePico('3'), scope: 'lifetime' } }, 2)
    expect(await fixture.hold(await fixture.admit({ revision: 2 }))).toMatchObject({ ok: true })
  })

  example('the cap is checked before the balance, and the tier before both', async (fixture) => {
    await fixture.limit({ ...ROOMY, cap: { amount: 0n, scope: 'lifetime' } })
    expect(await fixture.hold(await fixture.admit())).toEqual({ ok: false, why: 'tier' })
    await fixture.pay('1')
    await fixture.settle(await fixture.admit(), parsePico('1'))
    expect(await fixture.hold(await fixture.admit())).toMatchObject({ ok: false, why: 'cap' })
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
    await fixture.limit({ ...ROOMY, cap: { amount: parsePico('2'), scope: 'day' } })
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
    await fixture.limit({ ...ROOMY, cap: { amount: parsePico('1'), scope: 'lifetime' } })
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
    await fixture.limit({ ...ROOMY, cap: { amount: parsePico('32.9'), scope: 'month' } }, 2)
    const capped = await fixture.admit({ revision: 2 })
    expect(await hold(capped)).toMatchObject({ ok: true, tight: true })
  })

  example('a raise grows the hold of a running call, once', async (fixture) => {
    await fixture.pay('10')
    await fixture.limit({ ...ROOMY, cap: { amount: parsePico('10'), scope: 'day' } })
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

  example('AF6: a hold is exchanged whole, or not at all', async (fixture) => {
    await fixture.pay('10')
    const usd = parsePico('1')
    await fixture.limit({ ...ROOMY, cap: { amount: 8n * usd, scope: 'day' } })
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
    await fixture.limit({ ...ROOMY, cap: { amount: dollar, scope: 'day' } })
    await fixture.until(nextDay(fixture.clock.now()) - 1000)
    const resetsAt = nextDay(fixture.clock.now())
    await fixture.spend(dollar)
    const refused = { ok: false, why: 'cap', of: 'key', scope: 'day', resetsAt }
    expect(await fixture.hold(await fixture.admit())).toEqual(refused)
    await fixture.clock.advance(999)
    expect(await fixture.hold(await fixture.admit())).toEqual(refused)
    await fixture.clock.advance(1)
    expect(await fixture.hold(await fixture.admit())).toMatchObject({
      ok: true,
      day: fixture.day(),
    })
    expect(await fixture.ledger.key('acct', 'key')).toMatchObject({ lifetime: dollar, day: 0n })
  })

  example('a month cap opens again on the first', async (fixture) => {
    await fixture.pay()
    await fixture.limit({ ...ROOMY, cap: { amount: dollar, scope: 'month' } })
    await fixture.until(nextMonth(fixture.clock.now()))
    const resetsAt = nextMonth(fixture.clock.now())
    await fixture.until(resetsAt - DAY_MS - 5)
    await fixture.spend(dollar)
    await fixture.clock.advance(DAY_MS)
    const refused = { ok: false, why: 'cap', of: 'key', scope: 'month', resetsAt }
    expect(await fixture.hold(await fixture.admit())).toEqual(refused)
    expect(await fixture.ledger.key('acct', 'key')).toMatchObject({ month: dollar, day: 0n })
    await fixture.clock.advance(5)
    expect(await fixture.hold(await fixture.admit())).toMatchObject({ ok: true })
    expect(await fixture.ledger.key('acct', 'key')).toMatchObject({ lifetime: dollar, month: 0n })
  })

  example('a call across midnight belongs to the day of its hold', async (fixture) => {
    await fixture.pay()
    await fixture.limit({ ...ROOMY, cap: { amount: dollar, scope: 'day' } })
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
  const topUp = { account: 'acct', amount: 100n, reference: 'invoice 1' }

  example('books a reference once per account', async (fixture) => {
    expect(await fixture.ledger.topUp(topUp)).toEqual({
      state: 'charged',
      cost: -100n,
      balance: 100n,
    })
    for (const amount of [100n, 7n]) {
      expect(await fixture.ledger.topUp({ ...topUp, amount })).toEqual({
        state: 'duplicate',
        cost: -100n,
        balance: 100n,
      })
    }
    expect(await fixture.ledger.topUp({ ...topUp, reference: 'invoice 2' })).toMatchObject({
      balance: 200n,
    })
    expect(await fixture.ledger.topUp({ ...topUp, account: 'other' })).toMatchObject({
      state: 'charged',
      balance: 100n,
    })
    expect(await fixture.rows()).toHaveLength(2)
  })

  example('refuses amounts out of bounds', async (fixture) => {
    for (const amount of [0n, -1n, MAX_AMOUNT + 1n]) {
      await expect(fixture.ledger.topUp({ ...topUp, amount })).rejects.toThrow(RangeError)
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
    await fixture.limit({ ...ROOMY, cap: { amount: 30n * MAX_AMOUNT, scope: 'lifetime' } })
    for (let i = 0; i < 6; i++) {
      await ledger.topUp({ ...topUp, amount: MAX_AMOUNT, reference: `invoice ${i}` })
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
    expect(await ledger.topUp(more)).toMatchObject({ balance: 2n * MAX_AMOUNT - 1n })
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
      many.map((i) => ledger.topUp({ ...topUp, amount: odd, reference: `invoice ${i}` })),
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
    account: 'acct',
    amount: -30n,
    reference: 'ticket 1',
    reason: 'double charge',
  }

  example('move the balance either way, once per account and reference', async (fixture) => {
    const { ledger } = fixture
    const taken = { state: 'charged', cost: 30n, balance: -30n }
    expect(await ledger.adjust(adjustment)).toEqual(taken)
    const again = { ...adjustment, amount: 99n }
    expect(await ledger.adjust(again)).toEqual({ ...taken, state: 'duplicate' })
    const given = { ...adjustment, amount: 50n, reference: 'ticket 2' }
    const credited = { state: 'charged', cost: -50n, balance: 20n }
    expect(await ledger.adjust(given)).toEqual(credited)
    expect(await ledger.adjust(given)).toEqual({ ...credited, state: 'duplicate' })
    expect(await ledger.adjust({ ...adjustment, account: 'other' })).toEqual(taken)
    expect(await fixture.rows()).toMatchObject([
      { kind: 'adjust', request: 'ticket 2', cost: -50n, note: 'double charge' },
      { kind: 'adjust', request: 'ticket 1', cost: 30n, note: 'double charge' },
    ])
    expect(await ledger.verify()).toEqual([])
  })

  example('leave spend, the free tier and the references of top-ups alone', async (fixture) => {
    const { ledger } = fixture
    await ledger.adjust({ ...adjustment, amount: 100n })
    expect(await ledger.account('acct')).toEqual({ balance: 100n, available: 100n, paid: false })
    const topUp = { account: 'acct', amount: 7n, reference: adjustment.reference }
    expect(await ledger.topUp(topUp)).toMatchObject({ state: 'charged', balance: 107n })
    await ledger.adjust({ ...adjustment, reference: 'ticket 2' })
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
      await ledger.topUp({ account: 'acct', amount: 100n, reference: 'invoice' })
      const call = await fixture.admit()
      await fixture.hold(call, 60n)
      await ledger.adjust({ ...adjustment, amount: -150n })
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
    await ledger.topUp({ account: 'acct', amount: 100n, reference: 'invoice' })
    await ledger.adjust({ ...adjustment, amount: 900n })
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
      await expect(ledger.adjust({ ...adjustment, amount })).rejects.toThrow(RangeError)
    }
    expect(await fixture.rows()).toEqual([])
    for (const most of [MAX_AMOUNT, -MAX_AMOUNT]) {
      const account = `acct ${most}`
      const one = most > 0n ? 1n : -1n
      const adjust = (amount: Pico) =>
        ledger.adjust({ ...adjustment, account, amount, reference: `by ${amount}` })
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
    await fixture.ledger.topUp({
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
    expect(fixture.ledger.health()).toEqual({ ok: true, outbox: 0, oldestMs: 0 })
  })
}

interface AdmittedRequest extends Admitted {
  readonly request: string
  readonly key: string
}

type HoldOptions = Partial<Pick<HoldRequest, 'replaces' | 'ceiling' | 'exposure' | 'free'>>

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
    { free = false, replaces, ceiling = expected, exposure = NO_EXPOSURE }: HoldOptions = {},
  ): Promise<HoldResult> {
    const { request, at, key = 'key' } = call
    const hold = holdOf(expected, ceiling, exposure)
    const more = replaces === undefined ? undefined : { replaces }
    return this.ledger.hold({ request, account: 'acct', key, at, ...hold, free, ...more })
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
    await this.ledger.topUp({ account: 'acct', amount: parsePico(usd), reference })
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

interface ModelCall {
  readonly request: string
  readonly key: string
  readonly at: number
  expiresAt: number
  held?: { amount: Pico; readonly ceiling: Pico; readonly granted: HoldGranted }
}

interface ModelRow {
  readonly kind: LedgerRow['kind']
  readonly request: string
  readonly key?: string
  readonly cost: Pico
  readonly day?: string
}

class ModelKey {
  limits: KeyLimits | undefined
  revision = -Infinity
  entries: number[] = []
}

/** The rules in their simplest form, to be checked by reading: every sum is computed from rows and calls. */
class Model {
  paid = false
  /** In the place of a key: limits and admissions over all keys. */
  readonly own = new ModelKey()
  readonly keys = new Map(['k1', 'k2', 'k3'].map((id) => [id, new ModelKey()]))
  calls: ModelCall[] = []
  readonly rows: ModelRow[] = []
  /** Admissions of the free tier. */
  readonly unpaid: number[] = []

  get balance(): Pico {
    return -sum(this.rows)
  }

  get held(): Pico {
    return this.calls.reduce((total, call) => total + (call.held?.amount ?? 0n), 0n)
  }

  /** A key, or ACCOUNT, as all methods that take a key. */
  of(key: string): ModelKey {
    return key === ACCOUNT ? this.own : this.keys.get(key)!
  }

  running(key: string): number {
    return this.calls.filter((call) => isOf(call, key)).length
  }

  spend(key: string, scope: CapScope, day: string): Pico {
    return sum(this.rows.filter((row) => isOf(row, key) && inWindow(row.day, scope, day)))
  }

  committed(key: string, scope: CapScope, day: string): Pico {
    const held = this.calls
      .filter((call) => isOf(call, key) && inWindow(call.held?.granted.day, scope, day))
      .reduce((total, call) => total + call.held!.amount, 0n)
    return this.spend(key, scope, day) + held
  }

  sweep(now: number): void {
    for (const { request, key, expiresAt, held } of this.calls) {
      if (expiresAt <= now && held) this.rows.push({ kind: 'orphan', request, key, cost: 0n })
    }
    this.calls = this.calls.filter((call) => call.expiresAt > now)
  }

  enter(entry: AdmissionRequest, now: number): Admission {
    const { request, key: id, revision, accountRevision = 0, freeTier } = entry
    this.sweep(now)
    const key = this.keys.get(id)!
    const { limits, entries } = key
    if (!limits || revision < key.revision) return { ok: false, why: 'stale' }
    if (accountRevision < this.own.revision) return { ok: false, why: 'stale' }
    if (limits.disabled) return { ok: false, why: 'disabled', of: 'key' }
    if (now >= (limits.expiresAt ?? Infinity)) return { ok: false, why: 'expired', of: 'key' }
    if (this.own.limits?.disabled) return { ok: false, why: 'disabled', of: 'account' }
    const shared: [LimitOwner, Partial<KeyLimits>][] = [['account', this.own.limits ?? {}]]
    if (!this.paid) shared.push(['tier', freeTier])
    const lowest = (member: 'rpm' | 'concurrency') =>
      shared
        .map(([of, limits]) => ({ of, limit: limits[member] ?? Infinity }))
        .reduce((a, b) => (b.limit < a.limit ? b : a))
    const all = lowest('rpm')
    const logs = [{ entries, limit: limits.rpm!, of: 'key' as LimitOwner }]
    if (all.limit !== Infinity) logs.push({ ...all, entries: this.own.entries })
    const rate = () => {
      const rates = logs.map((log) => rateOf(log.entries, log.limit, now))
      return rates.sort((a, b) => a.remaining - b.remaining || a.limit - b.limit)[0]!
    }
    const known = this.calls.find((call) => call.request === request)
    if (known) return { ok: true, at: now, lease: now, paid: this.paid, rate: rate() }
    const waits = logs.map((log) => ({ ms: waitOf(log.entries, log.limit, now), of: log.of }))
    const longest = waits.reduce((a, b) => (b.ms > a.ms ? b : a))
    const minuteMs = longest.ms
    const today = this.unpaid.filter((at) => dayOf(at) === dayOf(now)).length
    const dayMs = !this.paid && today >= freeTier.perDay ? nextDay(now) - now : 0
    if (dayMs > minuteMs) {
      const spent = { ...rate(), remaining: 0, resetMs: dayMs }
      return { ok: false, why: 'day', of: 'tier', retryAfterMs: dayMs, rate: spent }
    }
    const { of } = longest
    if (minuteMs > 0) return { ok: false, why: 'rpm', of, retryAfterMs: minuteMs, rate: rate() }
    const most = lowest('concurrency')
    const full = this.running(id) >= limits.concurrency!
    if (full || this.calls.length >= most.limit) {
      const owner = full ? 'key' : most.of
      return { ok: false, why: 'concurrency', of: owner, retryAfterMs: 1000, rate: rate() }
    }
    for (const log of logs) log.entries.push(now)
    if (!this.paid) this.unpaid.push(now)
    this.calls.push({ request, key: id, at: now, expiresAt: now + LEASE_MS })
    return { ok: true, at: now, lease: now + LEASE_MS, paid: this.paid, rate: rate() }
  }

  /** Sum of the ceilings of the running calls of a key, or of all. */
  ceilings(key = ACCOUNT): Pico {
    const calls = this.calls.filter((call) => isOf(call, key))
    return calls.reduce((total, { held }) => total + (held?.ceiling ?? 0n), 0n)
  }

  /** Why calls that run keep this one waiting, if they do. */
  waitsFor({ key, expected, ceiling, exposure }: HoldRequest, day: string): HeldBy | undefined {
    const risk = (of: Pico) => {
      const part = BigInt(Math.floor(exposure.share * Number(of)))
      return part < exposure.most ? part : exposure.most
    }
    const paidIn = -sum(this.rows.filter(({ kind }) => kind === 'top-up'))
    if (ceiling === 0n) return undefined
    if (this.ceilings() > 0n) {
      if (expected > this.balance - this.held) return 'balance'
      if (this.ceilings() + ceiling > this.balance + risk(paidIn)) return 'balance_ceilings'
    }
    for (const part of [key, ACCOUNT]) {
      const cap = this.of(part).limits?.cap
      if (!cap || this.ceilings(part) === 0n) continue
      const { amount, scope } = cap
      if (expected > amount - this.committed(part, scope, day)) return 'cap'
      const most = amount - this.spend(part, scope, day) + risk(amount)
      if (this.ceilings(part) + ceiling > most) return 'cap_ceilings'
    }
    return undefined
  }

  hold(request: HoldRequest, now: number): HoldResult {
    const { key: id, expected, ceiling, free } = request
    const call = this.calls.find((call) => call.request === request.request)
    if (!call) return { ok: false, why: 'lost' }
    if (call.held) return call.held.granted
    if (!this.paid && !free) return { ok: false, why: 'tier' }
    const day = dayOf(now)
    if (!this.paid) {
      const granted = { ok: true, day, billed: false, tight: false } as const
      call.held = { amount: 0n, ceiling: 0n, granted }
      return granted
    }
    for (const part of [id, ACCOUNT]) {
      const cap = this.of(part).limits?.cap
      if (!cap || this.spend(part, cap.scope, day) < cap.amount) continue
      const owner = part === ACCOUNT ? 'account' : 'key'
      const resets = {
        lifetime: {},
        day: { resetsAt: nextDay(now) },
        month: { resetsAt: nextMonth(now) },
      }
      return { ok: false, why: 'cap', of: owner, scope: cap.scope, ...resets[cap.scope] }
    }
    if (this.balance <= 0n) return { ok: false, why: 'credits' }
    const by = this.waitsFor(request, day)
    if (by) return { ok: false, why: 'held', by, retryAfterMs: 1000 }
    const lefts = [this.balance - this.held]
    for (const part of [id, ACCOUNT]) {
      const cap = this.of(part).limits?.cap
      if (cap) lefts.push(cap.amount - this.committed(part, cap.scope, day))
    }
    const tight = ceiling > 0n && lefts.some((left) => left - expected < 32n * ceiling)
    const granted = { ok: true, day, billed: true, tight } as const
    call.held = { amount: expected, ceiling, granted }
    return granted
  }

  raise({ request, from, to }: Raise): void {
    const held = this.calls.find((call) => call.request === request)?.held
    if (held?.amount === from && to > from && to <= held.ceiling) held.amount = to
  }

  settle({ request, key, day, cost }: Settlement): Settled {
    const held = this.calls.find((call) => call.request === request)?.held
    const settled = this.#book({ kind: 'usage', request, key, cost, day: held?.granted.day ?? day })
    if (settled.state === 'charged') this.leave(request)
    return settled
  }

  /** @param at the admission, whose entries in the logs are taken back */
  leave(request: string, at?: number): void {
    const call = this.calls.find((call) => call.request === request)
    if (call && at !== undefined) this.#uncount(call.key, at)
    this.calls = this.calls.filter((call) => call.request !== request)
  }

  #uncount(key: string, at: number): void {
    const logs = [this.of(key).entries, this.own.entries]
    if (!this.paid) logs.push(this.unpaid)
    for (const entries of logs) if (entries.includes(at)) entries.splice(entries.indexOf(at), 1)
  }

  topUp({ reference, amount }: TopUp): Settled {
    this.paid = true
    return this.#book({ kind: 'top-up', request: reference, cost: -amount })
  }

  adjust({ reference, amount }: Adjustment): Settled {
    return this.#book({ kind: 'adjust', request: reference, cost: -amount })
  }

  #book(row: ModelRow): Settled {
    const same = this.rows.find(({ kind, request }) => kind === row.kind && request === row.request)
    if (!same) this.rows.push(row)
    return {
      state: same ? 'duplicate' : 'charged',
      cost: (same ?? row).cost,
      balance: this.balance,
    }
  }
}

/** Whether a call or a row is of a key; each of a key is of its account. */
function isOf(one: { readonly key?: string }, key: string): boolean {
  return key === ACCOUNT ? one.key !== undefined : one.key === key
}

/** The cap of a key or of an account. */
type Cap = NonNullable<KeyLimits['cap']>

/** How far costs may pass what is left: by `most`, which grows with what calls cost above their ceilings. */
interface Bound {
  most: Pico
  /** Of the calls that ran when it was set. */
  readonly ceilings: Map<string, Pico>
}

function exceed(bound: Bound, request: string, cost: Pico): void {
  const excess = cost - (bound.ceilings.get(request) ?? 0n)
  if (excess > 0n) bound.most += excess
}

/** A call of the walk, with everything that its gateway would remember. */
interface WalkCall extends Lease {
  readonly at: number
  day: string
  state: 'entered' | 'held' | 'over'
}

/** Sends random calls to the engine and to the model, which have to answer alike. */
/** An amount that one booking can have. */
function bounded(amount: Pico): Pico {
  return amount < MAX_AMOUNT ? amount : MAX_AMOUNT
}

class Walk {
  readonly #ledger: Ledger
  readonly #clock: TestClock
  readonly #seed: number
  readonly #random: () => number
  #models = new Map<string, Model>()
  #calls: WalkCall[] = []
  /** Of the overrun of each account. */
  #bounds = new Map<string, Bound>()
  /** Of the overrun of each cap, by account and key: as it was when a call was admitted last. */
  #capBounds = new Map<string, Bound & { readonly cap: Cap; readonly day: string }>()
  readonly #trail: unknown[][] = []
  /** Whether single amounts are as large as they may be, so that sums leave 64 bits. */
  #wide = false
  #step = 0

  constructor(ledger: Ledger, clock: TestClock, seed: number) {
    this.#ledger = ledger
    this.#clock = clock
    this.#seed = seed
    this.#random = randomOf(seed)
  }

  async go(steps: number): Promise<void> {
    while (this.#step < steps) {
      await this.#begin()
      const end = Math.min(steps, this.#step + 1000)
      for (; this.#step < end; this.#step++) await this.#move()
      await this.#audit()
    }
  }

  /** Opens new accounts, which keeps the model small enough to compute every sum at each step. */
  async #begin(): Promise<void> {
    const accounts = [`a${this.#step}`, `b${this.#step}`]
    this.#wide = this.#chance(0.5)
    this.#calls = []
    this.#models = new Map(accounts.map((account) => [account, new Model()]))
    // Before the first admission, every charge is overrun.
    this.#bounds = new Map(accounts.map((account) => [account, { most: 0n, ceilings: new Map() }]))
    this.#capBounds.clear()
    for (const account of accounts) {
      for (const key of ['k1', 'k2']) await this.#limit(account, key)
      if (this.#wide && this.#chance(0.5)) await this.#enrich(account)
    }
  }

  /** Takes the balance beyond 64 bits. */
  async #enrich(account: string): Promise<void> {
    for (let i = 0; i < 4; i++) {
      const topUp = { account, amount: MAX_AMOUNT - BigInt(i), reference: `endowment_${i}` }
      const expected = this.#model(account).topUp(topUp)
      this.#same('topUp', topUp, await this.#ledger.topUp(topUp), expected)
    }
  }

  async #move(): Promise<void> {
    const account = this.#pick([...this.#models.keys()])
    await this.#sweep()
    const roll = this.#random()
    if (roll < 0.28) await this.#enter(account)
    else if (roll < 0.45) await this.#hold()
    else if (roll < 0.49) await this.#raise()
    else if (roll < 0.64) await this.#settle(account)
    else if (roll < 0.66) await this.#waive()
    else if (roll < 0.71) await this.#leave()
    else if (roll < 0.75) await this.#renew()
    else if (roll < 0.78) await this.#topUp(account)
    else if (roll < 0.79) await this.#adjust(account)
    else if (roll < 0.82) await this.#limit(account, this.#pick(['k1', 'k2', 'k3', ACCOUNT]))
    else if (roll < 0.96) await this.#wait()
    else await this.#look(account)
  }

  async #enter(account: string): Promise<void> {
    const key = this.#pick(['k1', 'k1', 'k2', 'k3'])
    const model = this.#model(account)
    const known = Math.max(1, model.keys.get(key)!.revision)
    const revision = known + this.#pick([0, 0, 0, 0, 0, 0, 0, 0, 1, -1])
    const running = model.calls.filter((call) => call.key === key)
    const again = running.length > 0 && this.#chance(0.03)
    const request = again ? this.#pick(running).request : `req_${this.#step}`
    const accountRevision = Math.max(0, model.own.revision + this.#pick([0, 0, 0, 0, 0, 0, 1, -1]))
    const entry: AdmissionRequest = {
      request,
      account,
      key,
      revision,
      accountRevision,
      freeTier: FREE_TIER,
    }
    const before = this.#chance(0.1) ? await this.#state(account) : undefined
    const entered = await this.#ask(entry)
    // Neither a repetition nor a refusal changes anything.
    if (before && (again || !entered.ok))
      this.#same('state', account, await this.#state(account), before)
    if (entered.ok || !('retryAfterMs' in entered) || entered.why === 'concurrency') return
    if (this.#chance(0.3)) await this.#retry(entry, entered.retryAfterMs)
  }

  /** The rate admits after Retry-After, and not a millisecond earlier. */
  async #retry(entry: AdmissionRequest, retryAfterMs: number): Promise<void> {
    await this.#clock.advance(retryAfterMs - 1)
    const early = await this.#ask({ ...entry, request: `${entry.request}_early` })
    if (!early.ok && early.why === 'expired') return
    this.#claim(rateRefuses(early), 'admitted before Retry-After')
    await this.#clock.advance(1)
    const late = await this.#ask({ ...entry, request: `${entry.request}_late` })
    this.#claim(!rateRefuses(late), 'refused after Retry-After')
  }

  async #ask(entry: AdmissionRequest): Promise<Admission> {
    const { account, key, request } = entry
    const model = this.#model(account)
    const again = model.calls.some((call) => call.request === request)
    const expected = model.enter(entry, this.#clock.now())
    const entered = await this.#ledger.enter(entry)
    // For a repeated call, an engine may answer with another time.
    const blank = again && entered.ok ? { at: 0, lease: 0 } : {}
    this.#same('enter', entry, { ...entered, ...blank }, { ...expected, ...blank })
    if (!entered.ok || again) return entered
    const { at } = entered
    this.#calls.push({ account, key, request, at, day: dayOf(at), state: 'entered' })
    for (const part of [key, ACCOUNT]) {
      const { entries, limits } = model.of(part)
      const { rpm = Infinity, concurrency = Infinity } = limits ?? {}
      this.#claim(recent(entries, at).length <= rpm, `more admissions in a minute than ${rpm}`)
      this.#claim(model.running(part) <= concurrency, `more running calls than ${concurrency}`)
    }
    return entered
  }

  async #hold(): Promise<void> {
    const call = this.#some((call) =>
      this.#runs(call) ? call.state === 'entered' || this.#chance(0.1) : this.#chance(0.01),
    )
    if (!call) return
    const { account, key, request, at } = call
    const model = this.#model(account)
    const before = this.#chance(0.1) ? await this.#state(account) : undefined
    const first = !model.calls.some((known) => known.request === request && known.held)
    const left = model.balance > model.held ? model.balance - model.held : 1n
    const all = model.balance > 0n ? model.balance : 1n
    const amount = bounded(this.#pick([0n, this.#amount(), left, all]))
    const ceiling = bounded(amount + this.#pick([0n, this.#amount(), left]))
    const exposure = this.#pick([
      NO_EXPOSURE,
      { share: 0.25, most: parsePico('10') },
      { share: this.#random(), most: this.#amount() },
    ])
    const figures = holdOf(amount, ceiling, exposure)
    const hold: HoldRequest = { request, account, key, at, ...figures, free: this.#chance(0.5) }
    const alone = { account: model.ceilings() === 0n, key: model.ceilings(key) === 0n }
    const expected = model.hold(hold, this.#clock.now())
    const held = await this.#ledger.hold(hold)
    this.#same('hold', hold, held, expected)
    if (held.ok) {
      Object.assign(call, { day: held.day, state: 'held' })
      // A call without a ceiling is admitted whatever runs: its cost is beyond every bound.
      if (first && held.billed && ceiling > 0n) this.#bind(hold, held.day, alone)
      return
    }
    if (before) this.#same('state', account, await this.#state(account), before)
    if (held.why === 'credits') {
      const { balance } = await this.#ledger.account(account)
      this.#claim(balance <= 0n, 'refused for credits with money left')
    }
    if (held.why === 'cap') {
      const of = held.of === 'account' ? ACCOUNT : key
      const spend = (await this.#ledger.key(account, of))[held.scope]
      this.#claim(spend >= model.of(of).limits!.cap!.amount, 'refused for the cap below the cap')
    }
    call.state = 'over'
    if (held.why === 'held' || this.#chance(0.8)) await this.#end(call)
  }

  async #settle(account: string): Promise<void> {
    const call = this.#chance(0.02)
      ? this.#stranger(account)
      : this.#some((call) => call.state === 'held' || this.#chance(0.02))
    if (!call) return
    const { state: _, at, ...what } = call
    // The day of the hold is charged, even if the caller sends another.
    if (this.#runs(call) && call.state === 'held') what.day = this.#pick([what.day, '20200101'])
    const { balance: left } = this.#model(call.account)
    const some = this.#pick([0n, this.#amount(), this.#amount()])
    const cost = bounded(left > 0n && this.#chance(0.05) ? left : some)
    const settlement: Settlement = { ...what, cost, usage: usageAt(at) }
    const expected = this.#model(call.account).settle(settlement)
    this.#same('settle', settlement, await this.#ledger.settle(settlement), expected)
    if (this.#chance(0.2)) {
      const again = await this.#ledger.settle(settlement)
      this.#same('settle again', settlement, again, { ...expected, state: 'duplicate' })
    }
    this.#checkOverrun(call, expected, cost)
  }

  /**
   * Waives a settlement while it is on its way. It is booked with 0; if the engine has booked it by then, that stands and is
   * counted.
   */
  async #waive(): Promise<void> {
    const call = this.#some((call) => call.state === 'held' && this.#runs(call))
    if (!call) return
    const { state: _, at, ...what } = call
    const { account, key, request } = call
    const settlement: Settlement = { ...what, cost: this.#amount(), usage: usageAt(at) }
    const { conflicts } = this.#ledger
    this.#note('settle and waive', settlement)
    const [settled, waived] = await Promise.all([
      this.#ledger.settle(settlement),
      this.#ledger.waive({ account, key, request }),
    ])
    while (this.#ledger.health().outbox > 0) await new Promise((resolve) => setImmediate(resolve))
    const rows = (await collect(this.#ledger.usage(account))).filter(
      (row) => row.kind === 'usage' && row.request === request,
    )
    const [{ cost, usage }] = rows as [LedgerRow]
    const stands = cost > 0n
    this.#same('rows', request, [rows.length, waived.cost], [1, 0n])
    this.#same('waived row', request, cost, stands ? settlement.cost : 0n)
    this.#same('outcome', request, usage?.outcome, stands ? 'completed' : 'failed')
    this.#same('conflicts', request, this.#ledger.conflicts - conflicts, stands ? 1 : 0)
    // A cost that was confirmed is the cost that is booked.
    if (settled.state !== 'deferred') this.#same('confirmed', request, settled.cost, cost)
    const again = await this.#ledger.waive({ account, key, request })
    this.#same('waive again', request, again.state, 'duplicate')
    this.#checkOverrun(call, this.#model(account).settle({ ...settlement, cost }), cost)
  }

  #checkOverrun(call: WalkCall, expected: Settled, cost: Pico): void {
    call.state = 'over'
    const bound = this.#bounds.get(call.account)!
    if (expected.state === 'charged') exceed(bound, call.request, cost)
    const { balance } = expected
    this.#claim(-balance <= bound.most, `balance overrun by more than ${bound.most}`)
    for (const part of [call.key, ACCOUNT]) {
      const ofCap = this.#capBounds.get(`${call.account} ${part}`)
      if (!ofCap) continue
      const { cap, day } = ofCap
      if (expected.state === 'charged') exceed(ofCap, call.request, cost)
      const spent = this.#model(call.account).spend(part, cap.scope, day)
      this.#claim(spent - cap.amount <= ofCap.most, `cap overrun by more than ${ofCap.most}`)
    }
  }

  /** Starts the bounds of the overrun anew, with the call that was just admitted. */
  #bind(hold: HoldRequest, day: string, alone: { account: boolean; key: boolean }): void {
    const { account, key, request, exposure } = hold
    const model = this.#model(account)
    const risk = (of: Pico) => {
      const part = BigInt(Math.floor(exposure.share * Number(of)))
      return part < exposure.most ? part : exposure.most
    }
    const ceilings = new Map(model.calls.map((call) => [call.request, call.held?.ceiling ?? 0n]))
    const paidIn = -sum(model.rows.filter(({ kind }) => kind === 'top-up'))
    const bind = (lone: boolean, of: Pico): Bound =>
      // A lone call may cost what it likes; calls beside others are bound by their ceilings.
      lone
        ? { most: 0n, ceilings: new Map([...ceilings, [request, 0n]]) }
        : { most: risk(of), ceilings: new Map(ceilings) }
    this.#bounds.set(account, bind(alone.account, paidIn))
    for (const [of, lone] of [
      [key, alone.key],
      [ACCOUNT, alone.account],
    ] as const) {
      const cap = model.of(of).limits?.cap
      if (cap) this.#capBounds.set(`${account} ${of}`, { ...bind(lone, cap.amount), cap, day })
    }
  }

  async #raise(): Promise<void> {
    const call = this.#some(({ state }) => state === 'held' || this.#chance(0.05))
    if (!call) return
    const { account, key, request } = call
    const model = this.#model(account)
    const held = model.calls.find((known) => known.request === request)?.held
    const { amount = 0n, ceiling = 0n } = held ?? {}
    const from = this.#chance(0.9) ? amount : this.#amount()
    const more = from + this.#amount()
    const to = this.#pick([ceiling, more < ceiling ? more : ceiling, more])
    const raise: Raise = { account, key, request, from, to }
    this.#note('raise', raise)
    model.raise(raise)
    await this.#ledger.raise(raise)
    if (this.#chance(0.1)) await this.#ledger.raise(raise)
  }

  /** A call that the ledger has never admitted. */
  #stranger(account: string): WalkCall {
    const at = this.#clock.now()
    const request = `req_stranger_${this.#step}`
    return { account, key: 'k1', request, at, day: dayOf(at), state: 'over' }
  }

  async #leave(): Promise<void> {
    const call = this.#some((call) => call.state !== 'held' || this.#chance(0.2))
    if (call) await this.#end(call)
  }

  async #end(call: WalkCall): Promise<void> {
    const { account, key, request } = call
    const slot = call.state === 'entered' && this.#chance(0.5) ? { slot: call.at } : {}
    this.#note('leave', { ...call, ...slot })
    this.#model(account).leave(request, slot.slot)
    await this.#ledger.leave({ account, key, request, ...slot })
    call.state = 'over'
  }

  async #renew(): Promise<void> {
    const calls = this.#calls.slice(-25).filter(() => this.#chance(0.3))
    this.#note('renew', calls)
    for (const { account, request } of calls) {
      const call = this.#model(account).calls.find((call) => call.request === request)
      if (call) call.expiresAt = this.#clock.now() + LEASE_MS
    }
    await this.#ledger.renew(calls.map(({ account, key, request }) => ({ account, key, request })))
  }

  async #topUp(account: string): Promise<void> {
    const model = this.#model(account)
    // Some accounts stay unpaid for a while.
    if (!model.paid && this.#chance(0.85)) return
    const amount = bounded(this.#amount() + (this.#chance(0.1) ? parsePico('20000') : 0n))
    const topUp = { account, amount, reference: `invoice_${Math.floor(this.#random() * 40)}` }
    const expected = model.topUp(topUp)
    this.#same('topUp', topUp, await this.#ledger.topUp(topUp), expected)
    this.#claim((await this.#ledger.account(account)).paid, 'a top-up did not end the free tier')
  }

  async #adjust(account: string): Promise<void> {
    const amount = this.#amount() * this.#pick([1n, -1n])
    const reference = `ticket_${Math.floor(this.#random() * 10)}`
    const adjustment = { account, amount, reference, reason: 'a correction' }
    const expected = this.#model(account).adjust(adjustment)
    this.#same('adjust', adjustment, await this.#ledger.adjust(adjustment), expected)
    // What calls that run may cost has been admitted by the balance before.
    if (expected.state === 'charged' && amount < 0n) this.#bounds.get(account)!.most -= amount
  }

  async #limit(account: string, id: string): Promise<void> {
    const cap = {
      amount: this.#amount() * 5n,
      scope: this.#pick(['lifetime', 'day', 'month'] as const),
    }
    const expiresAt = this.#clock.now() + Math.floor(this.#random() * 200_000)
    const limits: KeyLimits = {
      disabled: this.#chance(id === ACCOUNT ? 0.04 : 0.1),
      ...((id !== ACCOUNT || this.#chance(0.5)) && {
        rpm: 1 + Math.floor(this.#random() * 12),
        concurrency: 1 + Math.floor(this.#random() * 6),
      }),
      ...(id !== ACCOUNT && this.#chance(0.15) ? { expiresAt } : {}),
      ...(this.#chance(0.5) ? { cap } : {}),
    }
    const key = this.#model(account).of(id)
    const revision = Math.max(1, key.revision + this.#pick([-1, 0, 1, 2, 2, 2]))
    this.#note('limits', { account, id, limits, revision })
    if (revision >= key.revision) Object.assign(key, { limits, revision })
    // Calls that run were admitted under another cap.
    this.#capBounds.delete(`${account} ${id}`)
    await this.#ledger.limits(account, id, limits, revision)
  }

  async #wait(): Promise<void> {
    const now = this.#clock.now()
    const roll = this.#random()
    let ms = Math.floor(this.#random() * 1500)
    if (roll > 0.7) ms = Math.floor(this.#random() * 20_000)
    if (roll > 0.9) ms = Math.floor(this.#random() * 90_000)
    const calls = [...this.#models.values()].flatMap((model) => model.calls)
    const early = this.#pick([0, 1])
    if (roll > 0.93 && calls.length > 0) ms = this.#pick(calls).expiresAt - now - early
    if (roll > 0.97) ms = nextDay(now) - now - early
    if (roll > 0.995) ms = nextMonth(now) - now - early
    this.#note('wait', ms)
    await this.#clock.advance(Math.max(0, ms))
  }

  /** The engine's sums equal those of the model. */
  async #look(account: string): Promise<void> {
    const model = this.#model(account)
    const { balance, held, paid } = model
    const day = dayOf(this.#clock.now())
    const keys = [...model.keys.keys(), ACCOUNT].map((key) => ({
      lifetime: model.spend(key, 'lifetime', day),
      day: model.spend(key, 'day', day),
      month: model.spend(key, 'month', day),
      inFlight: model.running(key),
    }))
    const expected = { account: { balance, available: balance - held, paid }, keys }
    this.#same('look', account, await this.#state(account), expected)
  }

  /** Compares the rows with those of the model and with the sums, and runs the engine's own verification. */
  async #audit(): Promise<void> {
    await this.#sweep()
    for (const [account, model] of this.#models) {
      const rows = await collect(this.#ledger.usage(account))
      this.#claim(
        rows.every(({ seq }, i) => i === 0 || seq < rows[i - 1]!.seq),
        'rows out of order',
      )
      this.#same('money rows', account, plain(rows.toReversed()), plain(model.rows))
      this.#same('orphans', account, orphans(rows), orphans(model.rows))
      const { balance } = await this.#ledger.account(account)
      this.#same('balance of the rows', account, balance, -sum(rows))
      const from = Math.floor(this.#random() * rows.length)
      const page = await collect(this.#ledger.usage(account, rows[from]?.seq))
      this.#same('page', account, page, rows.slice(from + 1))
      this.#same('verify', account, await this.#ledger.verify(account), [])
    }
  }

  /** Has the engine release expired leases, which it does at the next admission at the latest. */
  async #sweep(): Promise<void> {
    for (const [account, { calls }] of this.#models) {
      if (!calls.some((call) => call.expiresAt <= this.#clock.now())) continue
      await this.#ask({ request: 'req_0', account, key: 'k1', revision: 0, freeTier: FREE_TIER })
    }
  }

  #model(account: string): Model {
    return this.#models.get(account)!
  }

  async #state(account: string): Promise<unknown> {
    const keys = ['k1', 'k2', 'k3', ACCOUNT].map((key) => this.#ledger.key(account, key))
    return { account: await this.#ledger.account(account), keys: await Promise.all(keys) }
  }

  #runs({ account, request }: WalkCall): boolean {
    return this.#model(account).calls.some((call) => call.request === request)
  }

  #some(wanted: (call: WalkCall) => boolean): WalkCall | undefined {
    const calls = this.#calls.slice(-25).filter(wanted)
    return calls.length === 0 ? undefined : this.#pick(calls)
  }

  #pick<T>(items: readonly T[]): T {
    return items[Math.floor(this.#random() * items.length)]!
  }

  #chance(probability: number): boolean {
    return this.#random() < probability
  }

  /** From 1 pico-dollar to 100 USD, or to the most of one booking, evenly distributed over the orders of magnitude. */
  #amount(): Pico {
    return bounded(BigInt(Math.floor(10 ** (this.#random() * (this.#wide ? 19 : 14)))))
  }

  #same(what: string, input: unknown, actual: unknown, expected: unknown): void {
    this.#note(what, input)
    if (isDeepStrictEqual(actual, expected)) return
    this.#fail(`${what} answered ${inspect(actual)}\nexpected ${inspect(expected)}`)
  }

  #claim(holds: boolean, broken: string): void {
    if (!holds) this.#fail(broken)
  }

  #note(what: string, input: unknown): void {
    this.#trail.push([this.#step, this.#clock.now(), what, input])
    if (this.#trail.length > 40) this.#trail.shift()
  }

  #fail(what: string): never {
    const trail = this.#trail.map((line) => inspect(line, { breakLength: Infinity })).join('\n')
    throw new Error(`seed ${this.#seed}, step ${this.#step}: ${what}\nlast calls:\n${trail}`)
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

function rateRefuses(entered: Admission): boolean {
  return !entered.ok && (entered.why === 'rpm' || entered.why === 'day')
}

async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = []
  for await (const item of items) list.push(item)
  return list
}

function usageAt(at: number): UsageRow {
  return { at, endpoint: 'chat', model: 'vendor/model', outcome: 'completed', lines: [] }
}

function recent(entries: readonly number[], now: number): number[] {
  return entries.filter((at) => now - at < MINUTE_MS)
}

function rateOf(entries: readonly number[], limit: number, now: number): RateStatus {
  const minute = recent(entries, now)
  const resetMs = minute.length === 0 ? 0 : minute.at(-1)! + MINUTE_MS - now
  return { limit, remaining: Math.max(0, limit - minute.length), resetMs }
}

function waitOf(entries: readonly number[], limit: number, now: number): number {
  const nth = recent(entries, now).at(-limit)
  return nth === undefined ? 0 : nth + MINUTE_MS - now
}

function sum(rows: readonly { readonly cost: Pico }[]): Pico {
  return rows.reduce((total, row) => total + row.cost, 0n)
}

/** Rows without orphans, whose place among the others depends on the engine. */
function plain(rows: readonly (LedgerRow | ModelRow)[]): unknown[] {
  const booked = rows.filter((row) => row.kind !== 'orphan')
  return booked.map(({ kind, request, key, cost }) => ({ kind, request, key, cost }))
}

function orphans(rows: readonly (LedgerRow | ModelRow)[]): string[] {
  const orphaned = rows.filter((row) => row.kind === 'orphan')
  return orphaned.map((row) => row.request).sort()
}

function inWindow(rowDay: string | undefined, scope: CapScope, day: string): boolean {
  const digits = { lifetime: 0, month: 6, day: 8 }[scope]
  return rowDay?.slice(0, digits) === day.slice(0, digits)
}

function dayOf(time: number): string {
  return new Date(time).toISOString().slice(0, 10).replaceAll('-', '')
}

function nextDay(time: number): number {
  return (Math.floor(time / DAY_MS) + 1) * DAY_MS
}

function nextMonth(time: number): number {
  const date = new Date(time)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1)
}

/** Marsaglia's xorshift with 32 bits, a seeded random generator. */
function randomOf(seed: number): () => number {
  let state = seed >>> 0 || 1
  return () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    state >>>= 0
    return state / 2 ** 32
  }
}
