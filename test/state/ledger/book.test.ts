import { describe, expect, it } from 'vitest'
import { AccountBook } from '../../../src/state/ledger/book.ts'
import { Clock } from '../../../src/state/ledger/windows.ts'
import { holdOf } from '../_hold.ts'

const DAY_MS = 86_400_000
const LIMITS = { disabled: false, rpm: 2, concurrency: 10 }
const LEASE = { account: 'acct', key: 'key', request: 'req_1' }
const ENTRY = { ...LEASE, revision: 1, freeTier: { rpm: 9, concurrency: 9 } }

describe('an account book', () => {
  it('that was loaded from sums decides like the one they came from', async () => {
    const book = new AccountBook(new Clock(() => DAY_MS), () => {})
    Object.assign(book, { balance: 100n, paid: true })
    book.key('key').window('197001').settled = 60n
    book.key('key').window('lifetime').settled = 900n
    book.limit('key', { ...LIMITS, counted: [{ id: 'cap.month', value: 60n }] }, 1)
    expect(book.enter(ENTRY)).toMatchObject({ ok: true, paid: true })
    const hold = { ...LEASE, at: DAY_MS, ...holdOf(1n), free: false }
    expect(book.hold(hold)).toMatchObject({ why: 'limit', limit: { current: '197001' } })
    book.limit('key', { ...LIMITS, counted: [{ id: 'cap.month', value: 61n }] }, 2)
    expect(book.hold(hold)).toMatchObject({ ok: true })
    expect(book.state()).toEqual({ balance: 100n, available: 99n, paid: true })
    expect(book.spent('key')).toEqual({ lifetime: 900n, day: 0n, month: 60n, inFlight: 1 })
  })
})
