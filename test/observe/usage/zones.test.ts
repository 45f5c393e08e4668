/** Days of accounts in time zones: caps turn at local midnight, and statements are the ledger's rows by local date. */
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { UsageIndex } from '../../../src/observe/usage/usage.ts'
import { ruleOf } from '../../../src/state/ledger/zone.ts'
import { folder } from '../../_folder.ts'
import { holdOf } from '../../state/_hold.ts'
import { open, SILENT, USAGE } from '../../state/sqlite/_engine.ts'

const HOUR_MS = 3_600_000
/** Zones with days of 23, 23.5, 24.5 and 25 hours, with a midnight that does not exist, and with a date that was skipped. */
const ZONES: Readonly<Record<string, readonly string[]>> = {
  'Europe/Berlin': ['2026-03-29', '2026-10-25'],
  'America/New_York': ['2026-03-08', '2026-11-01'],
  'Australia/Lord_Howe': ['2026-04-05', '2026-10-04'],
  'America/Havana': ['2026-03-08', '2026-11-01'],
  'Pacific/Apia': ['2011-12-30'],
}
const CALLS_A_DAY = 20

it.for(Object.entries(ZONES))(
  'a cap turns with the days of %s, and statements equal the ledger',
  async ([zone, days]) => {
    const local = new Intl.DateTimeFormat('sv-SE', { timeZone: zone })
    const dateOf = (at: number) => local.format(at)
    let now = Date.parse(`${days[0]}T00:00:00Z`) - 40 * HOUR_MS
    const { path, ledger } = await open(undefined, () => now)
    const account = 'acct'
    const expected = new Map<string, { calls: number; spent: bigint; booked: bigint }>()
    const ofMonth = (at: number) => {
      const month = dateOf(at).slice(0, 7)
      if (!expected.has(month)) expected.set(month, { calls: 0, spent: 0n, booked: 0n })
      return expected.get(month)!
    }
    const counted = new Map<string, number>()
    let bookings = 0
    const book = async () => {
      await ledger.book({
        kind: 'top-up',
        account,
        amount: 10n ** 12n,
        reference: `booking ${bookings++}`,
      })
      ofMonth(now).booked += 10n ** 12n
    }
    await book()
    const cost = 10n ** 9n
    const limits = [{ id: 'cap.day', value: cost * BigInt(CALLS_A_DAY) }]
    await ledger.limits(
      account,
      'key',
      { disabled: false, rpm: 1000, concurrency: 9, counted: limits },
      1,
    )
    let refused = 0
    for (const day of days) {
      // From the local day before to the one after, also where clocks are far from UTC.
      const end = Date.parse(`${day}T00:00:00Z`) + 64 * HOUR_MS
      now = Date.parse(`${day}T00:00:00Z`) - 40 * HOUR_MS
      for (let n = 0; now < end; n++, now += HOUR_MS / 2) {
        const lease = { account, key: 'key', request: `req_${now}` }
        const entered = await ledger.enter({
          ...lease,
          revision: 1,
          freeTier: { rpm: 9, concurrency: 9 },
        })
        if (!entered.ok) throw new Error(JSON.stringify(entered))
        const rule = ruleOf(zone, now)
        const held = await ledger.hold({
          ...lease,
          ...holdOf(cost),
          at: entered.at,
          free: false,
          zone: rule,
        })
        const date = dateOf(now)
        const before = counted.get(date) ?? 0
        expect([date, new Date(now).toISOString(), held.ok]).toEqual([
          date,
          new Date(now).toISOString(),
          before < CALLS_A_DAY,
        ])
        if (!held.ok) {
          refused++
          await ledger.leave(lease)
          continue
        }
        expect(held.day).toBe(date.replaceAll('-', ''))
        counted.set(date, before + 1)
        const month = ofMonth(now)
        month.calls++
        month.spent += cost
        await ledger.settle({ ...lease, day: held.day, cost, usage: { ...USAGE, at: now } })
        if (n % 40 === 0) await book()
      }
    }
    expect(refused).toBeGreaterThan(10)

    const file = join(path, 'ledger.db')
    const index = new UsageIndex({
      folder: await folder({}),
      source: { driver: 'file', file, inode: statSync(file).ino },
      collect: async () => {},
      isDoubted: () => false,
      lacks: () => {},
      log: SILENT,
    } as never)
    onTestFinished(() => index.close())
    const months = [...expected.keys()].toSorted()
    let opening = 0n
    for (const month of months) {
      const [year, number] = month.split('-').map(Number) as [number, number]
      const [from, to] = [Date.UTC(year, number - 1), Date.UTC(year, number)]
      const { result, checked } = await index.ask('statement', { account, from, to, zone })
      expect(checked).toMatchObject({ agrees: true })
      const { calls, spent, booked } = expected.get(month)!
      const told = result.bookings.reduce((sum, { amount }) => sum + amount, 0n)
      const models = result.usage.models.reduce((sum, one) => sum + one.calls, 0)
      expect([month, result.opening, models, result.spent, told]).toEqual([
        month,
        opening,
        calls,
        spent,
        booked,
      ])
      opening += booked - spent
      expect(result.closing).toBe(opening)
      // The days of the balance end where the statement does.
      const balances = await index.ask('balances', { account, rollup: 'day', from, to, zone })
      expect(balances.result.at(-1)!.balance).toBe(opening)
      expect(balances.result.reduce((sum, point) => sum + point.booked, 0n)).toBe(booked)
    }
    expect(opening).toBe((await ledger.account(account)).balance)
  },
)
