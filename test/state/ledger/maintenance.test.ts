import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import * as v from 'valibot'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { Maintenance } from '../../../src/state/ledger/maintenance.ts'
import { openFolder } from '../../../src/state/sqlite/folder.ts'
import { firstKept, type Verified } from '../../../src/state/ledger/sums.ts'
import { History } from '../../../src/state/sqlite/reader.ts'
import { Store } from '../../../src/state/sqlite/store.ts'
import type { Ledger, LedgerState } from '../../../src/state/ledger/ledger.ts'
import { configSchema } from '../../../src/config/schema.ts'
import { folder } from '../../_folder.ts'
import { createTestGateway, MOCK_CONFIG } from '../../_setup.ts'
import {
  charge,
  collect,
  KEY,
  LIMITS,
  NOON,
  open,
  openPaid,
  settlement,
  USAGE,
} from '../sqlite/_engine.ts'
import { holdOf } from '../_hold.ts'
import { eventually } from '../../_wait.ts'
import { toSchema8 } from '../sqlite/_older.ts'

const DAY_MS = 86_400_000

describe('folding a ledger', () => {
  it('starts with a gateway that has a retention', async () => {
    const at = Date.now() - 40 * DAY_MS
    const day = new Date(at).toISOString().slice(0, 10).replaceAll('-', '')
    const first = await openPaid(undefined, () => at)
    for (let i = 0; i < 1100; i++) {
      void first.ledger.settle({ ...settlement(`req_${i}`, 2n, day), usage: { ...USAGE, at } })
    }
    await first.ledger.close()

    const state = { driver: 'file', path: first.path, retention: 30 } as const
    const gateway = await createTestGateway({ ...MOCK_CONFIG, state })
    onTestFinished(() => gateway.close())
    const folded = '1100 usage rows older than 30 days were folded'
    await expect.poll(() => gateway.logged).toContain(folded)
    await gateway.close()

    const { ledger, logged } = await open(first.path, () => Date.now())
    expect(await collect(ledger.usage('acct'))).toMatchObject([{ kind: 'top-up' }])
    expect(await ledger.account('acct')).toMatchObject({ balance: 10n ** 13n - 2200n })
    expect(await ledger.key('acct', 'key')).toMatchObject({ lifetime: 2200n })
    expect(await ledger.verify()).toEqual([])
    expect(logged).toEqual([])
  })

  it('is for whole days, two at least', () => {
    const parse = (retention: unknown) =>
      v.safeParse(configSchema, { state: { driver: 'file', retention } }).success
    expect([2, 30, 36_500, undefined].map(parse)).toEqual([true, true, true, true])
    expect([0, 1, 2.5, -3, 36_501, '30', null].some(parse)).toBe(false)
  })

  it('works in a ledger of an older version', async () => {
    const first = await openPaid()
    await first.ledger.settle(settlement('req_1', 5n))
    await first.ledger.close()
    const db = new DatabaseSync(join(first.path, 'ledger.db'))
    toSchema8(db)
    db.exec(`DROP TABLE audit; DROP TABLE total; DROP INDEX usage_day; DROP INDEX usage_orphan;
      ALTER TABLE account DROP COLUMN paid_in; DROP TABLE identity;
      DELETE FROM spend WHERE key = '@account'; UPDATE meta SET version = 1`)
    db.close()
    await rm(join(first.path, 'owner.db'))
    const { ledger } = await open(first.path, () => NOON + 5 * DAY_MS)
    expect(await ledger.fold(new Date(NOON + 5 * DAY_MS))).toBe(1)
    expect(await ledger.key('acct', 'key')).toMatchObject({ lifetime: 5n })
    expect(await ledger.verify()).toEqual([])
  })

  it('loses nothing while calls are settled and sums compared', async () => {
    let now = NOON
    const { ledger } = await openPaid(undefined, () => now)
    const old = Array.from({ length: 2000 }, (_, i) => ledger.settle(settlement(`old_${i}`, 1n)))
    // A fold takes what is written.
    await Promise.all(old)
    now += 4 * DAY_MS
    const usage = { ...USAGE, at: now }
    const settle = async () => {
      for (let i = 0; i < 10; i++) {
        await ledger.settle({ ...settlement(`new_${i}`, 5n, '20260519'), usage })
        // Each comparison starts a thread.
        if (i % 3 === 0) expect(await ledger.verify()).toEqual([])
      }
    }
    const [folded] = await Promise.all([ledger.fold(new Date(now)), settle()])
    expect(folded).toBe(2000)
    expect(await ledger.key('acct', 'key')).toMatchObject({ lifetime: 2050n })
    expect(await collect(ledger.usage('acct'))).toHaveLength(11)
    expect(await ledger.verify()).toEqual([])
  })

  it('leaves no window to compare whose rows had an earlier date, that of their zone', async () => {
    // It is nine in the evening of the 18th there.
    const at = Date.UTC(2026, 4, 19, 1)
    let now = at
    const { ledger } = await openPaid(undefined, () => now)
    await ledger.limits('acct', 'key', { ...LIMITS, counted: [{ id: 'cap.5h', value: 100n }] }, 2)
    const lease = { ...KEY, request: 'req_1' }
    ledger.enter({ ...lease, revision: 2, freeTier: { rpm: 1, concurrency: 1 } })
    const zone = { offset: -240, until: at + 9 * DAY_MS, next: -300 }
    const held = ledger.hold({ ...lease, at, ...holdOf(5n), free: false, zone })
    if (!held.ok) throw new Error(held.why)
    expect(held.day).toBe('20260518')
    const usage = { ...USAGE, at, counted: held.counted! }
    await ledger.settle({ ...lease, day: held.day, cost: 5n, usage })
    expect(await ledger.verify()).toEqual([])
    now = at + 4 * DAY_MS
    expect(await ledger.fold(new Date('2026-05-20T12:00:00Z'))).toBe(1)
    expect(await ledger.verify()).toEqual([])
  })

  it('adds up again what was folded while it was added up, and what was booked late', async () => {
    const { db, close } = openFolder(await folder({}))
    onTestFinished(close)
    const store = new Store(db)
    const history = new History(db)
    store.commit(Array.from({ length: 5000 }, (_, i) => charge(`req_${i}`)))
    let steps = 0
    const pause = async () => {
      steps++
      if (steps === 2) {
        const { steps } = history.foldable('', NOON + 9 * DAY_MS, NOON + 9 * DAY_MS)
        expect(store.commit([{ name: 'fold', args: [steps] }])).toEqual([100])
      }
      if (steps === 4) store.commit([charge('req_late')])
    }
    expect((await history.audit('acct', firstKept(NOON), pause)).differences).toEqual([])
    expect(steps).toBe(5)
    db.exec("UPDATE usage SET cost = cost + 1 WHERE request = 'req_4999'")
    const { differences: wrong } = await history.audit('acct', firstKept(NOON), async () => {})
    expect(wrong).toHaveLength(7)
    expect(wrong[0]).toEqual({
      account: 'acct',
      what: 'balance',
      stored: -15_003n,
      recomputed: -15_004n,
    })
  })
})

it('a verification goes on from where an account of many rows was right, unless it was folded beyond that', async () => {
  const { db, close } = openFolder(await folder({}))
  onTestFinished(close)
  const store = new Store(db)
  const history = new History(db)
  const later = NOON + 9 * DAY_MS
  const audit = (before?: Verified) =>
    history.audit('acct', firstKept(NOON), async () => {}, before)
  const change = (request: string, by: number) =>
    db.prepare('UPDATE usage SET cost = cost + ? WHERE request = ?').run(by, request)
  store.commit(Array.from({ length: 3000 }, (_, i) => charge(`req_${i}`)))
  const { verified } = await audit()
  change('req_5', 1)
  store.commit([charge('new_1')])
  expect((await audit(verified)).differences).toEqual([])
  expect((await audit()).differences).toHaveLength(7)
  change('new_1', 1)
  const wrong = await audit(verified)
  expect(wrong.differences).toHaveLength(7)
  expect(wrong.verified).toBeUndefined()
  change('req_5', -1)
  change('new_1', -1)
  for (let from: string | undefined = ''; from !== undefined;) {
    const { steps, next } = history.foldable(from, later, later)
    if (steps.length > 0) store.commit([{ name: 'fold', args: [steps] }])
    from = next
  }
  store.commit([charge('new_2')])
  expect((await audit(verified)).differences).toEqual([])
})

describe('the maintenance of a ledger', () => {
  function maintain(options: Partial<ConstructorParameters<typeof Maintenance>[0]> = {}) {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    onTestFinished(() => void vi.useRealTimers())
    const fold = vi.fn<Ledger['fold']>(() => Promise.resolve(0))
    const verify = vi.fn<(isWhole: boolean) => Promise<[]>>(() => Promise.resolve([]))
    const optimize = vi.fn(() => Promise.resolve())
    const error = vi.fn()
    const ledger = {
      fold,
      state: async () => ({ id: 'ledger_a' }) as LedgerState,
      health: () => ({ ok: true, outbox: 0, oldestMs: 0 }),
    }
    const log = { error, info: vi.fn(), warn: vi.fn() } as never
    const started = new Maintenance({
      ledger,
      verify,
      optimize,
      retentionDays: 30,
      now: () => NOON,
      log,
      ...options,
    })
    onTestFinished(() => started.stop())
    return { fold, verify, optimize, error, stop: () => started.stop() }
  }

  it('checks, verifies and folds daily, optimizes weekly, until it is stopped', async () => {
    const check = vi.fn(() => Promise.resolve(true))
    const { fold, verify, optimize, stop } = maintain({ check })
    await eventually(() => expect(fold).toHaveBeenCalledTimes(1))
    expect(fold).toHaveBeenCalledWith(new Date(NOON - 30 * DAY_MS))
    vi.advanceTimersByTime(6 * DAY_MS)
    await eventually(() => expect(fold).toHaveBeenCalledTimes(7))
    expect(optimize).not.toHaveBeenCalled()
    vi.advanceTimersByTime(8 * DAY_MS)
    await eventually(() => expect(fold).toHaveBeenCalledTimes(15))
    expect(optimize).toHaveBeenCalledTimes(2)
    stop()
    vi.advanceTimersByTime(30 * DAY_MS)
    const counts = [check, verify, fold, optimize].map((one) => one.mock.calls.length)
    expect(counts).toEqual([15, 15, 15, 2])
    const whole = verify.mock.calls.flatMap(([isWhole], n) => (isWhole ? [n] : []))
    expect(whole).toEqual([0, 7, 14])
  })

  it('leaves a file alone that is not sound', async () => {
    const check = vi.fn(() => Promise.resolve(false))
    const { fold, verify } = maintain({ check })
    vi.advanceTimersByTime(DAY_MS)
    await eventually(() => expect(check).toHaveBeenCalledTimes(2))
    expect([fold, verify].map((one) => one.mock.calls.length)).toEqual([0, 0])
  })

  it('folds nothing without a retention', async () => {
    const { fold, optimize } = maintain({ retentionDays: undefined })
    vi.advanceTimersByTime(7 * DAY_MS)
    expect(optimize).toHaveBeenCalledTimes(1)
    expect(fold).not.toHaveBeenCalled()
  })

  it('logs a failure, and tries again the next day', async () => {
    const { fold, error } = maintain()
    await eventually(() => expect(fold).toHaveBeenCalledTimes(1))
    const broken = new Error('disk full')
    fold.mockRejectedValueOnce(broken)
    vi.advanceTimersByTime(DAY_MS)
    await eventually(() =>
      expect(error).toHaveBeenCalledWith('the ledger cannot be folded', broken),
    )
    vi.advanceTimersByTime(DAY_MS)
    await eventually(() => expect(fold).toHaveBeenCalledTimes(3))
  })

  it('updates the statistics of the database', async () => {
    const timers = vi.spyOn(globalThis, 'setInterval')
    onTestFinished(() => void timers.mockRestore())
    const { ledger, logged, path } = await openPaid()
    const [daily] = timers.mock.calls.find(([, ms]) => ms === DAY_MS)!
    const requests = Array.from({ length: 500 }, (_, i) => settlement(`req_${i}`, 1n))
    await Promise.all(requests.map((one) => ledger.settle(one)))
    for (let day = 0; day < 7; day++) daily()
    // Reads are answered in their order.
    expect(await ledger.verify()).toEqual([])
    using db = new DatabaseSync(join(path, 'ledger.db'))
    const tables = db.prepare(`SELECT name FROM sqlite_schema WHERE name = 'sqlite_stat1'`).all()
    expect(tables).toHaveLength(1)
    expect(logged).toEqual([])
  })
})
