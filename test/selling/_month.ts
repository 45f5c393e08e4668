/**
 * A month of accounts with every kind of booking, beside a model: what the ledger, the index of usage, statements and the journal say has
 * to be the same to the last pico-dollar, also where the index was killed and rows were folded.
 */
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'vitest'
import { journalOf, type JournalQuery } from '../../src/observe/usage/journal.ts'
import { LedgerIndex } from '../../src/observe/usage/ledger-index.ts'
import { answerUsage, type UsageAnswer, type UsageQuery } from '../../src/observe/usage/query.ts'
import { statementOf } from '../../src/observe/usage/statement.ts'
import { amountIn, marginOf } from '../../src/observe/usage/sums.ts'
import { openTables } from '../../src/observe/usage/work.ts'
import type { Booking, LedgerReader, UsageRow } from '../../src/state/ledger/ledger.ts'
import { openSource } from '../../src/observe/usage/thread.ts'
import { Model } from '../conformance/_walk.ts'
import { folder } from '../_folder.ts'
import { open, SILENT, USAGE } from '../state/sqlite/_engine.ts'

const DAY_MS = 86_400_000
const BEGIN = Date.UTC(2026, 8, 1)
const DAYS = 30
const END = BEGIN + DAYS * DAY_MS

interface Seller {
  readonly id: string
  readonly model: Model
  readonly calls: { readonly request: string; readonly cost: bigint; readonly usage: UsageRow }[]
  vendor: bigint
  unknown: number
  knownCost: bigint
  refunded: bigint
  knownRefunded: bigint
  steps: number
}

/** @param accounts their number. @param steps the steps of each account. @param random gives numbers from 0 to 1 */
export async function monthOf(
  accounts: number,
  steps: number,
  random: () => number,
): Promise<void> {
  let now = BEGIN
  const path = await folder({})
  const { ledger } = await open(path, () => now)
  const sellers = Array.from({ length: accounts }, (_, i): Seller => {
    const none = { vendor: 0n, unknown: 0, knownCost: 0n, refunded: 0n, knownRefunded: 0n }
    return { id: `a${i}`, model: new Model(undefined), calls: [], ...none, steps: 0 }
  })
  let tables = await folder({})
  let index = await openIndex(path, tables)
  const kill = async () => {
    // What a kill leaves: the files as they are, while the index still writes them.
    index.index.note(sellers.map(({ id }) => id))
    const copy = await folder({})
    cpSync(tables, copy, { recursive: true })
    await index.close()
    tables = copy
    index = await openIndex(path, tables)
  }
  const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)]!
  const killAt = new Set([Math.floor(steps / 3), Math.floor((2 * steps) / 3)])
  for (let step = 0; step < steps; step++) {
    now = BEGIN + Math.floor(((step + random()) / steps) * DAYS * DAY_MS)
    await Promise.all(sellers.map((one) => stepOf(one)))
    if (killAt.has(step)) await kill()
  }
  await check(index, ledger, sellers)
  now = END + 40 * DAY_MS
  expect(await ledger.fold(new Date(BEGIN + 15 * DAY_MS))).toBeGreaterThan(0)
  await kill()
  await check(index, ledger, sellers)
  expect(await ledger.verify()).toEqual([])
  await index.close()
  await ledger.close()

  async function stepOf(one: Seller): Promise<void> {
    const amount = 1n + BigInt(Math.floor(10 ** (6 + random() * 8)))
    if (one.steps++ > 0 && random() < 0.65) return call(one, amount)
    const booking = bookingOf(one, amount)
    if (!booking) return call(one, amount)
    const expected = one.model.book(booking)
    if (typeof expected === 'string') return
    const booked = await ledger.book(booking)
    expect(booked).toEqual(expected)
    if (booking.kind !== 'refund' || booked.state !== 'charged') return
    one.refunded += booking.amount
    if (booking.facts!.call!.known) one.knownRefunded += booking.amount
  }

  async function call(one: Seller, cost: bigint): Promise<void> {
    const request = `req_${one.id}_${one.steps}`
    const isKnown = random() < 0.8
    const vendor = cost / 2n
    const usage: UsageRow = {
      ...USAGE,
      at: now,
      model: pick(['m/a', 'm/b']),
      ...(random() < 0.5 && { tag: 'batch', team: 'blue', list: 'partners' }),
      ...(isKnown && { vendor: String(vendor) }),
    }
    const key = pick(['k1', 'k2'])
    const day = new Date(now).toISOString().slice(0, 10).replaceAll('-', '')
    const settlement = { request, account: one.id, key, team: usage.team, day, cost, usage }
    expect(await ledger.settle(settlement)).toEqual(one.model.settle(settlement))
    one.calls.push({ request, cost, usage })
    if (!isKnown) one.unknown++
    else {
      one.vendor += vendor
      one.knownCost += cost
    }
  }

  function bookingOf({ id: account, model, calls, steps: n }: Seller, amount: bigint) {
    const reference = `r${n}`
    const base = { account, amount, reference }
    const cash = { amount: '9.20', currency: 'eur', by: 'stripe', payment: `pi_${n}` }
    const block = model.blocks.find(({ left }) => left > 0n)
    const refunded = calls.length > 0 ? pick(calls) : undefined
    const { usage } = refunded ?? {}
    const choices: (Booking | undefined)[] = [
      { ...base, kind: 'top-up' },
      { ...base, kind: 'top-up', facts: { cash } },
      { ...base, kind: 'top-up', facts: { cause: 'seed' } },
      { ...base, kind: 'top-up', expiresAt: now + 5 * DAY_MS },
      { ...base, kind: 'promo', unlock: true },
      { ...base, kind: 'promo', expiresAt: now + Math.ceil(random() * 9) * DAY_MS },
      { ...base, kind: 'adjust', amount: random() < 0.5 ? amount : -amount },
      block && { ...base, kind: 'adjust', amount: -amount, takesFrom: block.name },
      { ...base, kind: 'adjust', amount: -amount, facts: { cash, cause: 'payment_refund' } },
      { ...base, kind: 'adjust', facts: { cash, cause: 'dispute_won' } },
      block && { ...base, kind: 'expire', amount: 0n, reference: block.name },
      refunded && {
        ...base,
        kind: 'refund',
        amount: refunded.cost,
        reference: refunded.request,
        facts: {
          call: { ...usage!, key: 'k1', known: usage!.vendor !== undefined, day: undefined! },
        },
      },
    ]
    return pick(choices)
  }
}

type Opened = Awaited<ReturnType<typeof openIndex>>

async function openIndex(path: string, tables: string) {
  const file = join(path, 'ledger.db')
  const { statSync } = await import('node:fs')
  const source = { driver: 'file', file, inode: statSync(file).ino } as const
  const reader: LedgerReader = await openSource(source, SILENT)
  const { db, close } = openTables(tables)
  const fault = () => expect.unreachable('the index differs from the ledger')
  const options = { db, reader, pageRows: 7, now: () => END, differs: fault, lacks: fault }
  const index = new LedgerIndex(options)
  await index.open()
  await index.compare()
  return {
    db,
    reader,
    index,
    async close() {
      await index.close()
      await reader.close()
      close()
    },
  }
}

async function check(
  { db, reader, index }: Opened,
  ledger: Awaited<ReturnType<typeof open>>['ledger'],
  sellers: readonly Seller[],
): Promise<void> {
  expect(await index.check(undefined, Infinity, true)).toMatchObject({ agrees: true, indexed: 1 })
  const usage = usageBy(db)
  for (const { id, model, vendor, unknown, knownCost, refunded, knownRefunded } of sellers) {
    const { balance } = await ledger.account(id)
    const {
      opening,
      closing,
      spent,
      bookings,
      usage: used,
    } = statementOf(db, id, {
      from: BEGIN,
      to: END,
    })
    const booked = bookings.reduce((sum, { amount }) => sum + amount, 0n)
    expect([opening, opening + booked - spent, closing]).toEqual([0n, balance, balance])
    expect(balance).toBe(model.balance)
    for (const lines of Object.values(used)) {
      expect(lines.reduce((sum, { cost }) => sum + cost, 0n)).toBe(spent)
      expect(lines.reduce((sum, { refunds }) => sum + refunds, 0n)).toBe(refunded)
    }
    const given = model.blocks.filter(({ name }) => name.startsWith('promo:'))
    const promotional = given.reduce((sum, one) => sum + one.used, 0n)
    const sums = usage.get(id)!
    expect([sums.cost, sums.calls - sums.knownCalls]).toEqual([spent, unknown])
    const amounts = [vendor, knownCost, promotional, refunded, knownRefunded]
    expect(sums.amounts).toEqual(amounts)
    expect(marginOf(sums)).toBe(knownCost - knownRefunded - vendor)
    const left = given.reduce((sum, one) => sum + one.left, 0n)
    await checkJournal({ db, reader }, id, { balance, left, spent, promotional, vendor })
    expect(amountIn(sums, 'vendor')).toBe(vendor)
  }
}

function usageBy(db: Opened['db']): Map<string, UsageAnswer['totals']> {
  const query: UsageQuery = {
    from: BEGIN,
    to: END,
    rollup: 'month',
    group: ['account'],
    filters: {},
    metric: 'margin_usd',
    top: 1000,
  }
  const { cells, totals } = answerUsage(db, query, END) as UsageAnswer
  const sum = (of: (one: UsageAnswer['totals']) => bigint) =>
    cells.reduce((all, cell) => all + of(cell), 0n)
  expect(sum(({ cost }) => cost)).toBe(totals.cost)
  expect(sum(marginOf)).toBe(marginOf(totals))
  const margins = cells.map(marginOf)
  expect(margins).toEqual(margins.toSorted((a, b) => (a < b ? 1 : a > b ? -1 : 0)))
  return new Map(cells.map((cell) => [cell.group[0]!, cell]))
}

async function checkJournal(
  { db, reader }: Pick<Opened, 'db' | 'reader'>,
  account: string,
  sums: Readonly<Record<'balance' | 'left' | 'spent' | 'promotional' | 'vendor', bigint>>,
): Promise<void> {
  const base = { from: BEGIN, to: END, accounts: [[account, undefined]] as const }
  for (const by of ['day', 'month'] as const) {
    const { entries, balance } = await journalOf(db, reader, { ...base, by, limit: 1 })
    for (const { legs } of entries) expect(total(legs, 'debit')).toBe(total(legs, 'credit'))
    const legs = new Map(balance.map((one) => [one.leg, one.credit - one.debit]))
    expect((legs.get('credits.paid') ?? 0n) + (legs.get('credits.promotional') ?? 0n)).toBe(
      sums.balance,
    )
    expect(legs.get('credits.promotional') ?? 0n).toBe(sums.left)
    const revenue = (legs.get('revenue') ?? 0n) + (legs.get('revenue.promotional') ?? 0n)
    expect([revenue, legs.get('revenue.promotional') ?? 0n]).toEqual([sums.spent, sums.promotional])
    expect(legs.get('vendor.payable') ?? 0n).toBe(sums.vendor)
  }
  // By row, page by page: it balances at every prefix. Folded rows are in no page.
  let [running, next] = [0n, undefined as JournalQuery['after']]
  const { length: folded } = await reader.totals(account)
  do {
    const query = { ...base, by: 'row' as const, limit: 5, ...(next && { after: next }) }
    const page = await journalOf(db, reader, query)
    for (const { legs } of page.entries) {
      expect(total(legs, 'debit')).toBe(total(legs, 'credit'))
      for (const { leg, debit, credit } of legs)
        if (leg.startsWith('credits.')) running += credit - debit
    }
    next = page.next
  } while (next)
  if (folded === 0) expect(running).toBe(sums.balance)
}

function total(legs: readonly { debit: bigint; credit: bigint }[], side: 'debit' | 'credit') {
  return legs.reduce((sum, one) => sum + one[side], 0n)
}
