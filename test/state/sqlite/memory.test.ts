import { describe, expect, it, onTestFinished } from 'vitest'
import {
  LEASE_MS,
  type AdmissionRequest,
  type Admitted,
  type KeyLimits,
  type Settlement,
} from '../../../src/state/ledger/ledger.ts'
import { ledgerConformance } from '../../conformance/ledger.ts'
import { collect, openInMemory } from './_engine.ts'
import { holdOf } from '../_hold.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 86_400_000
const LIMITS: KeyLimits = { disabled: false, rpm: 2, concurrency: 10 }
const LEASE = { account: 'acct', key: 'key', request: 'req_1' }
const ENTRY: AdmissionRequest = {
  ...LEASE,
  revision: 1,
  freeTier: { rpm: 9, concurrency: 9 },
}

ledgerConformance('memory', (clock) => openInMemory({ now: () => clock.now() }).ledger)

async function openPaid(
  now: () => number,
  { limits = LIMITS, ...options }: { limits?: KeyLimits; maxRows?: number } = {},
) {
  const opened = openInMemory({ now, ...options })
  await opened.ledger.book({
    kind: 'top-up',
    account: 'acct',
    amount: 10n ** 12n,
    reference: 'first',
  })
  await opened.ledger.limits('acct', 'key', limits, 1)
  onTestFinished(() => opened.ledger.close())
  return opened
}

function settled(request: string, cost: bigint, day = '19700102'): Settlement {
  const usage = { at: DAY_MS, endpoint: 'chat', model: 'm', outcome: 'completed' } as const
  return { ...LEASE, request, day, cost, usage: { ...usage, lines: [] } }
}

describe('a ledger in memory', () => {
  it('answers enter, hold and leave without a promise', async () => {
    const { ledger } = await openPaid(() => DAY_MS)
    const entered = ledger.enter(ENTRY) as Admitted
    expect(entered).toMatchObject({ ok: true, at: DAY_MS, lease: DAY_MS + LEASE_MS })
    const held = ledger.hold({ ...LEASE, at: entered.at, ...holdOf(1n), free: false })
    expect(held).toEqual({ ok: true, day: '19700102', billed: true, tight: false })
    expect(ledger.leave(LEASE)).toBeUndefined()
  })

  it('uses the system clock by default', async () => {
    const { ledger } = openInMemory()
    await ledger.limits('acct', 'key', LIMITS, 1)
    const before = Date.now()
    const { at } = ledger.enter(ENTRY) as Admitted
    expect(at).toBeGreaterThanOrEqual(before)
    expect(at).toBeLessThanOrEqual(Date.now())
  })

  it('shows a settlement as soon as it is acknowledged', async () => {
    const { ledger } = await openPaid(() => DAY_MS)
    await ledger.settle(settled('req_1', 40n))
    expect(await ledger.account('acct')).toMatchObject({ balance: 10n ** 12n - 40n })
    expect((await collect(ledger.usage('acct')))[0]).toMatchObject({ request: 'req_1', cost: 40n })
    expect(ledger.health()).toEqual({ ok: true, outbox: 0, oldestMs: 0 })
  })

  it('books many simultaneous settlements in several turns of the event loop', async () => {
    const { ledger } = await openPaid(() => DAY_MS)
    let turns = 0
    let waiting = true
    const turn = () => {
      turns++
      if (waiting) setImmediate(turn)
    }
    setImmediate(turn)
    const requests = Array.from({ length: 1000 }, (_, i) => `req_${i}`)
    await Promise.all(requests.map((request) => ledger.settle(settled(request, 1n))))
    waiting = false
    expect(turns).toBeGreaterThanOrEqual(10)
    expect(await ledger.key('acct', 'key')).toMatchObject({ lifetime: 1000n })
  })

  it('folds the oldest usage rows beyond a number, and changes no sum', async () => {
    const { ledger } = await openPaid(() => DAY_MS, { maxRows: 1000 })
    for (let i = 0; i < 60; i++) {
      await ledger.book({ kind: 'top-up', account: 'acct', amount: 1n, reference: `ref_${i}` })
    }
    const requests = Array.from({ length: 3000 }, (_, i) => `req_${i}`)
    for (let i = 0; i < requests.length; i += 100) {
      const some = requests.slice(i, i + 100)
      await Promise.all(some.map((request) => ledger.settle(settled(request, 1n))))
    }
    const rows = await collect(ledger.usage('acct'))
    expect(rows.filter(({ kind }) => kind === 'top-up')).toHaveLength(61)
    const usage = rows.filter(({ kind }) => kind === 'usage').map(({ request }) => request)
    expect(usage.length).toBeGreaterThanOrEqual(900)
    expect(usage.length).toBeLessThanOrEqual(1500)
    expect(usage).toEqual(requests.slice(-usage.length).toReversed())
    expect(await ledger.settle(settled('req_2999', 9n))).toMatchObject({ state: 'duplicate' })
    expect(await ledger.key('acct', 'key')).toMatchObject({ lifetime: 3000n })
    expect(await ledger.verify()).toEqual([])
  })

  it('exports its state as of one moment while it is written to', async () => {
    const { ledger } = await openPaid(() => DAY_MS)
    await ledger.settle(settled('req_before', 1n))
    const exported: string[] = []
    for await (const item of ledger.export()) {
      if (item.kind === 'usage') exported.push(item.request)
      await ledger.settle(settled(`req_${item.kind}`, 1n))
    }
    expect(exported).toEqual(['req_before'])
  })

  it('keeps records until they expire', async () => {
    let now = DAY_MS
    const { records } = openInMemory({ now: () => now })
    await records.put('pin:1', { to: 'west' }, { ttlSeconds: 60 })
    expect(await records.get('pin:1')).toEqual({ to: 'west' })
    now += 60_000
    expect(await records.get('pin:1')).toBeUndefined()
  })

  it('stays exact over more days than it keeps windows for', async () => {
    let now = Date.UTC(2026, 0, 1)
    const { ledger } = await openPaid(() => now, {
      limits: { ...LIMITS, counted: [{ id: 'cap.day', value: 5n }] },
    })
    for (let i = 0; i < 100; i++, now += DAY_MS) {
      const day = new Date(now).toISOString().slice(0, 10).replaceAll('-', '')
      await ledger.settle(settled(`req_${i}`, 5n, day))
      // A very late settlement.
      await ledger.settle(settled(`late_${i}`, 1n, '20260101'))
      const request = `try_${i}`
      const { at } = ledger.enter({ ...ENTRY, request }) as Admitted
      const held = ledger.hold({ ...LEASE, request, at, ...holdOf(0n), free: false })
      expect(held).toMatchObject({ ok: false, why: 'limit', limit: { name: 'cap.day' } })
      ledger.leave({ ...LEASE, request })
    }
    expect(await ledger.key('acct', 'key')).toMatchObject({ lifetime: 600n, day: 0n })
    expect(await ledger.verify()).toEqual([])
  })

  describe('when the clock is set back an hour', () => {
    it('neither freezes nor forgets a rate', async () => {
      let now = 10 * DAY_MS
      const { ledger } = await openPaid(() => now)
      const enter = (request: string) => ledger.enter({ ...ENTRY, request })
      enter('req_1')
      now += 20_000
      enter('req_2')
      now -= HOUR_MS
      expect(enter('req_3')).toMatchObject({ ok: false, why: 'rpm', retryAfterMs: 40_000 })
      now += 39_999
      expect(enter('req_3')).toMatchObject({ ok: false, why: 'rpm', retryAfterMs: 1 })
      now += 1
      expect(enter('req_3')).toMatchObject({ ok: true, at: now, lease: now + LEASE_MS })
      expect(enter('req_4')).toMatchObject({ ok: false, why: 'rpm', retryAfterMs: 20_000 })
    })

    it('lets a lease expire in its time, and renews it to its time', async () => {
      let now = 10 * DAY_MS
      const { ledger } = await openPaid(() => now, {
        limits: { ...LIMITS, rpm: 100, concurrency: 1 },
      })
      ledger.enter(ENTRY)
      now -= HOUR_MS
      await ledger.renew([LEASE])
      now += LEASE_MS - 1
      expect(ledger.enter({ ...ENTRY, request: 'req_2' })).toMatchObject({ why: 'concurrency' })
      now += 1
      expect(ledger.enter({ ...ENTRY, request: 'req_2' })).toMatchObject({ ok: true })
    })

    it('books by the calendar, over midnight too', async () => {
      let now = 10 * DAY_MS + 60_000
      const { ledger } = await openPaid(() => now)
      const hold = (request: string) => {
        const { at } = ledger.enter({ ...ENTRY, request }) as Admitted
        return ledger.hold({ ...LEASE, request, at, ...holdOf(1n), free: false })
      }
      expect(hold('req_1')).toMatchObject({ day: '19700111' })
      now -= HOUR_MS
      expect(hold('req_2')).toMatchObject({ day: '19700110' })
      expect(await ledger.verify()).toEqual([])
    })
  })
})
