import { describe, expect, it } from 'vitest'
import {
  LEASE_MS,
  type Admitted,
  type AdmissionRequest,
  type KeyLimits,
} from '../../../src/state/ledger/ledger.ts'
import { AccountBook } from '../../../src/state/ledger/book.ts'
import { Clock } from '../../../src/state/ledger/clock.ts'
import { MemoryLedger } from '../../../src/state/ledger/memory.ts'
import { ledgerConformance } from '../../conformance/ledger.ts'

const { LEDGER_SEED } = process.env
const HOUR_MS = 3_600_000
const DAY_MS = 86_400_000
const LIMITS: KeyLimits = { disabled: false, rpm: 2, concurrency: 10 }
const LEASE = { account: 'acct', key: 'key', request: 'req_1' }
const ENTRY: AdmissionRequest = {
  ...LEASE,
  revision: 1,
  freeTier: { rpm: 9, perDay: 99, concurrency: 9 },
}

ledgerConformance('memory', (clock) => new MemoryLedger({ now: () => clock.now() }), {
  steps: 120_000,
  ...(LEDGER_SEED && { seed: Number(LEDGER_SEED) }),
})

async function paidLedger(now: () => number, limits = LIMITS): Promise<MemoryLedger> {
  const ledger = new MemoryLedger({ now })
  await ledger.topUp({ account: 'acct', amount: 10n ** 12n, reference: 'first' })
  await ledger.limits('acct', 'key', limits, 1)
  return ledger
}

describe('the memory engine', () => {
  it('answers enter, hold and leave without a promise', async () => {
    const ledger = await paidLedger(() => DAY_MS)
    const entered = ledger.enter(ENTRY) as Admitted
    expect(entered).toMatchObject({ ok: true, at: DAY_MS, lease: DAY_MS + LEASE_MS })
    const held = ledger.hold({ ...LEASE, at: entered.at, hold: 1n, free: false })
    expect(held).toEqual({ ok: true, day: '19700102', billed: true })
    expect(ledger.leave(LEASE)).toBeUndefined()
  })

  it('goes by the system clock unless it is given one', async () => {
    const ledger = new MemoryLedger()
    await ledger.limits('acct', 'key', LIMITS, 1)
    const before = Date.now()
    const { at } = ledger.enter(ENTRY) as Admitted
    expect(at).toBeGreaterThanOrEqual(before)
    expect(at).toBeLessThanOrEqual(Date.now())
  })

  it('finds a row that was tampered with', async () => {
    const ledger = await paidLedger(() => DAY_MS)
    const usage = {
      at: DAY_MS,
      endpoint: 'chat',
      model: 'm',
      outcome: 'completed',
      lines: [],
    } as const
    await ledger.settle({ ...LEASE, day: '19700102', cost: 40n, usage })
    expect(await ledger.verify()).toEqual([])
    for await (const row of ledger.usage('acct')) {
      if (row.kind === 'usage') (row as { cost: bigint }).cost = 41n
    }
    const [account, stored, recomputed] = ['acct', 40n, 41n]
    expect(await ledger.verify()).toEqual([
      { account, what: 'balance', stored: 10n ** 12n - 40n, recomputed: 10n ** 12n - 41n },
      { account, what: 'spend of key key, lifetime', stored, recomputed },
      { account, what: 'spend of key key, 19700102', stored, recomputed },
      { account, what: 'spend of key key, 197001', stored, recomputed },
    ])
    expect(await ledger.verify('acct')).toHaveLength(4)
    expect(await ledger.verify('other')).toEqual([])
  })

  it('keeps no more usage rows than it has room for, however many top-ups lie among them', async () => {
    const ledger = await paidLedger(() => DAY_MS)
    const usage = {
      at: DAY_MS,
      endpoint: 'chat',
      model: 'm',
      outcome: 'completed',
      lines: [],
    } as const
    for (let i = 0; i < 600; i++) {
      await ledger.topUp({ account: 'acct', amount: 1n, reference: `ref_${i}` })
    }
    for (let i = 0; i < 12_000; i++) {
      await ledger.settle({ ...LEASE, request: `req_${i}`, day: '19700102', cost: 1n, usage })
    }
    const kinds = { usage: 0, 'top-up': 0, orphan: 0 }
    for await (const { kind } of ledger.usage('acct')) kinds[kind]++
    expect(kinds['top-up']).toBe(601)
    expect(kinds.usage).toBeLessThanOrEqual(10_000)
    expect(await ledger.key('acct', 'key')).toMatchObject({ lifetime: 12_000n })
    expect(await ledger.verify()).toEqual([])
  })

  it('stays exact over more days than it keeps windows for', async () => {
    let now = Date.UTC(2026, 0, 1)
    const ledger = await paidLedger(() => now, { ...LIMITS, cap: { amount: 5n, scope: 'day' } })
    const usage = {
      at: now,
      endpoint: 'chat',
      model: 'm',
      outcome: 'completed',
      lines: [],
    } as const
    for (let i = 0; i < 100; i++, now += DAY_MS) {
      const day = new Date(now).toISOString().slice(0, 10).replaceAll('-', '')
      await ledger.settle({ ...LEASE, request: `req_${i}`, day, cost: 5n, usage })
      // One that comes very late, for a day long gone.
      await ledger.settle({ ...LEASE, request: `late_${i}`, day: '20260101', cost: 1n, usage })
      const request = `try_${i}`
      const { at } = ledger.enter({ ...ENTRY, request }) as Admitted
      const held = ledger.hold({ ...LEASE, request, at, hold: 0n, free: false })
      expect(held).toMatchObject({ ok: false, why: 'cap', scope: 'day', resetsAt: now + DAY_MS })
      ledger.leave({ ...LEASE, request })
    }
    expect(await ledger.key('acct', 'key')).toMatchObject({ lifetime: 600n, day: 0n })
    expect(await ledger.verify()).toEqual([])
  })

  describe('when the clock is set back an hour', () => {
    it('neither freezes nor forgets a rate', async () => {
      let now = 10 * DAY_MS
      const ledger = await paidLedger(() => now)
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
      const ledger = await paidLedger(() => now, { ...LIMITS, rpm: 100, concurrency: 1 })
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
      const ledger = await paidLedger(() => now)
      const hold = (request: string) => {
        const { at } = ledger.enter({ ...ENTRY, request }) as Admitted
        return ledger.hold({ ...LEASE, request, at, hold: 1n, free: false })
      }
      expect(hold('req_1')).toMatchObject({ day: '19700111' })
      now -= HOUR_MS
      expect(hold('req_2')).toMatchObject({ day: '19700110' })
      expect(await ledger.verify()).toEqual([])
    })
  })
})

describe('a book', () => {
  it('that was loaded from sums decides like the one they came from', async () => {
    const book = new AccountBook(new Clock(() => DAY_MS), () => {})
    Object.assign(book, { balance: 100n, paid: true })
    book.key('key').window('197001').settled = 60n
    book.key('key').window('lifetime').settled = 900n
    book.limit('key', { ...LIMITS, cap: { amount: 60n, scope: 'month' } }, 1)
    expect(book.enter(ENTRY)).toMatchObject({ ok: true, paid: true })
    const hold = { ...LEASE, at: DAY_MS, hold: 1n, free: false }
    expect(book.hold(hold)).toMatchObject({ ok: false, why: 'cap', resetsAt: Date.UTC(1970, 1) })
    book.limit('key', { ...LIMITS, cap: { amount: 61n, scope: 'month' } }, 2)
    expect(book.hold(hold)).toMatchObject({ ok: true })
    expect(book.state()).toEqual({ balance: 100n, available: 99n, paid: true })
    expect(book.spent('key')).toEqual({ lifetime: 900n, day: 0n, month: 60n, inFlight: 1 })
  })
})
