import { describe, expect, it } from 'vitest'
import { AccountBook, Clock } from '../../../src/state/ledger/book.ts'
import { holdOf } from '../_hold.ts'

const DAY_MS = 86_400_000
const LIMITS = { disabled: false, rpm: 2, concurrency: 10 }
const LEASE = { account: 'acct', key: 'key', request: 'req_1' }
const ENTRY = { ...LEASE, revision: 1, freeTier: { rpm: 9, perDay: 99, concurrency: 9 } }

describe('an account book', () => {
  it('that was loaded from sums decides like the one they came from', async () => {
    const book = new AccountBook(new Clock(() => DAY_MS), () => {})
    Object.assign(book, { balance: 100n, paid: true })
    book.key('key').window('197001').settled = 60n
    book.key('key').window('lifetime').settled = 900n
    book.limit('key', { ...LIMITS, cap: { amount: 60n, scope: 'month' } }, 1)
    expect(book.enter(ENTRY)).toMatchObject({ ok: true, paid: true })
    const hold = { ...LEASE, at: DAY_MS, ...holdOf(1n), free: false }
    expect(book.hold(hold)).toMatchObject({ ok: false, why: 'cap', resetsAt: Date.UTC(1970, 1) })
    book.limit('key', { ...LIMITS, cap: { amount: 61n, scope: 'month' } }, 2)
    expect(book.hold(hold)).toMatchObject({ ok: true })
    expect(book.state()).toEqual({ balance: 100n, available: 99n, paid: true })
    expect(book.spent('key')).toEqual({ lifetime: 900n, day: 0n, month: 60n, inFlight: 1 })
  })
})
