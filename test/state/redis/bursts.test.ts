/** Limits of three gateways of one Redis, in bursts: what is exact stays exact, money within the exposure, counters equal to rows. */
import { expect, it } from 'vitest'
import type { HoldGranted, KeyLimits, UsageRow } from '../../../src/state/ledger/ledger.ts'
import { ACCOUNT, LEASE_MS, teamKey } from '../../../src/state/ledger/ledger.ts'
import { countersIn } from '../../../src/state/ledger/limit-list.ts'
import { pick, randomOf } from '../../torture/_random.ts'
import { holdOf } from '../_hold.ts'
import { USAGE } from '../sqlite/_engine.ts'
import { FREE_TIER, needRedis, open, sharedServer, STORED_CLOCK, storedClock } from './_engine.ts'

needRedis()

const SEED = Number(process.env.SEED ?? Date.now() % 1_000_000)
const USD = 10n ** 12n
const CENT = USD / 100n
const REVISIONS = { revision: 1, accountRevision: 1, teamRevision: 1 }
const KEYS = ['one', 'two', 'three']
const REQUESTS = 60n
const AT_ONCE = 7n
const CAP = 30n * CENT
/** Most that calls which run together may exceed what is left. */
const MOST = 5n * CENT

it(`three gateways stay within limits, and leave every counter equal to its rows (seed ${SEED})`, async () => {
  const random = randomOf(SEED, 0)
  const server = await sharedServer()
  const clock = await storedClock(server)
  const opened = () => open(server.url, { clock: STORED_CLOCK })
  const gateways = await Promise.all([opened(), opened(), opened()])
  const [{ ledger }] = gateways
  const account = 'acct'
  await ledger.book({ kind: 'top-up', account, amount: 100n * USD, reference: 'first' })
  const limitsOf = (...counted: NonNullable<KeyLimits['counted']>): KeyLimits => {
    return { disabled: false, rpm: 100_000, concurrency: 100_000, counted }
  }
  const exact = limitsOf(
    { id: 'requests.day', value: REQUESTS },
    { id: 'concurrency.ab', value: AT_ONCE, models: ['vendor/*'] },
  )
  await ledger.limits(account, 'one', exact, 1)
  await ledger.limits(
    account,
    'two',
    limitsOf({ id: 'cap.week', value: CAP }, { id: 'tokens.5h', value: 90_000n }),
    1,
  )
  await ledger.limits(account, 'three', limitsOf(), 1)
  await ledger.limits(account, teamKey('red'), limitsOf({ id: 'cap.5h', value: 2n * CAP }), 1)
  await ledger.limits(account, ACCOUNT, limitsOf({ id: 'requests.month', value: 5n * REQUESTS }), 1)

  const running = new Map<string, number>()
  const granted = new Map<string, number>()
  let highest = 0
  let calls = 0
  const call = async () => {
    const { ledger: at } = pick(random, gateways)
    const key = pick(random, KEYS)
    const lease = { account, key, request: `req_${++calls}`, ...(key !== 'one' && { team: 'red' }) }
    const [ends, expected] = [random(10), BigInt(1 + random(3)) * CENT]
    const entered = await at.enter({
      ...lease,
      ...REVISIONS,
      freeTier: FREE_TIER,
    })
    if (!entered.ok) throw new Error(JSON.stringify(entered))
    const held = await at.hold({
      ...lease,
      ...holdOf(expected, expected + CENT, { share: 1, most: MOST }),
      at: entered.at,
      free: false,
      tokens: { expected: 1000, ceiling: 2000 },
    })
    if (!held.ok) return void (await at.leave(lease))
    running.set(key, (running.get(key) ?? 0) + 1)
    if (key === 'one') highest = Math.max(highest, running.get(key)!)
    await Promise.all(Array.from({ length: random(4) }, () => new Promise(setImmediate)))
    running.set(key, running.get(key)! - 1)
    if (ends === 0) return void (await at.leave(lease))
    // As a gateway that was killed: nothing is said of the call any more.
    if (ends === 3) return
    const outcome = ends === 1 ? 'failed' : 'completed'
    if (outcome === 'completed') granted.set(key, (granted.get(key) ?? 0) + 1)
    await at.settle({
      ...lease,
      day: held.day,
      cost: outcome === 'failed' ? 0n : expected + (ends === 2 ? CENT : 0n),
      usage: usageOf(held, entered.at, outcome, lease.team),
    })
  }
  for (let burst = 0; burst < 8; burst++) await Promise.all(Array.from({ length: 50 }, call))

  // Requests and calls at once are exact; money passes its cap by the exposure at most.
  expect(granted.get('one')).toBeLessThanOrEqual(Number(REQUESTS))
  expect(highest).toBeLessThanOrEqual(Number(AT_ONCE))
  const two = await ledger.counters(account, 'two')
  const spent = two.find(({ limit }) => limit.id === 'cap.week')!.used
  expect(spent).toBeGreaterThan(0n)
  expect(spent).toBeLessThanOrEqual(CAP + MOST + 2n * CENT)

  // What was held for calls of the killed is free when their leases have ended.
  await clock.advance(2 * LEASE_MS)
  for (const key of KEYS) {
    const lease = { account, key, request: `last ${key}`, ...(key !== 'one' && { team: 'red' }) }
    await ledger.enter({ ...lease, ...REVISIONS, freeTier: FREE_TIER })
    await ledger.leave(lease)
  }

  // Every counter is the sum of the rows that name it, and nothing is held any more.
  const sums = new Map<string, bigint>()
  for await (const row of ledger.usage(account)) {
    const { usage, cost, key } = row
    for (const { of, id } of countersIn(usage?.counted)) {
      const owner = of === 'key' ? key : of === 'team' ? teamKey(usage!.team!) : ACCOUNT
      const isFailed = usage!.outcome === 'failed'
      const more = id.startsWith('cap')
        ? cost
        : isFailed || id.startsWith('concurrency')
          ? 0n
          : id.startsWith('tokens')
            ? 1500n
            : 1n
      sums.set(`${owner} ${id}`, (sums.get(`${owner} ${id}`) ?? 0n) + more)
    }
  }
  for (const owner of [...KEYS, teamKey('red'), ACCOUNT]) {
    for (const { limit, used, held } of await ledger.counters(account, owner)) {
      expect([owner, limit.id, used, held]).toEqual([
        owner,
        limit.id,
        sums.get(`${owner} ${limit.id}`) ?? 0n,
        0n,
      ])
    }
  }
})

function usageOf(
  held: HoldGranted,
  at: number,
  outcome: 'completed' | 'failed',
  team: string | undefined,
): UsageRow {
  const lines = [{ source: 'model', usage: { promptTokens: 1000, completionTokens: 500 } }] as const
  return {
    ...USAGE,
    at,
    outcome,
    lines,
    ...(team !== undefined && { team }),
    ...(held.counted !== undefined && { counted: held.counted }),
  }
}
