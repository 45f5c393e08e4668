/**
 * The rules of a ledger's history as tests that every engine passes: folding changes no sum, an imported export is the same
 * ledger, and a second import changes nothing.
 */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  LEASE_MS,
  type KeyLimits,
  type Ledger,
  type LedgerItem,
  type RowItem,
  type UsageRow,
} from '../../src/state/ledger/ledger.ts'
import { parsePico } from '../../src/money/money.ts'
import { beginChain, chained } from '../../src/state/ledger/chain.ts'
import { RECEIPT_HOURS } from '../../src/state/ledger/items.ts'
import { ManualClock, type TestClock } from './ledger.ts'
import { holdOf } from '../state/_hold.ts'

export interface ArchiveOptions {
  /** Random histories; their seed is printed when one of them fails. */
  readonly runs: number
  /** The clock of an engine that brings its own time. */
  readonly clock?: () => TestClock | Promise<TestClock>
}

const HOUR_MS = 3_600_000
const DAY_MS = 86_400_000
const ACCOUNTS = ['acct', 'other', 'third']
const KEYS = ['key', 'spare']
const LIMITS: KeyLimits = { disabled: false, rpm: 6000, concurrency: 100 }
const FREE_TIER = { rpm: 6000, concurrency: 100 }

/** Declares the tests of one engine. @param open creates an empty ledger that reads the time of a clock */
export function archiveConformance(
  name: string,
  open: (clock: TestClock) => Promise<Ledger> | Ledger,
  { runs, clock: clockOf = () => new ManualClock() }: ArchiveOptions,
): void {
  const example = (
    title: string,
    run: (past: Past, fresh: () => Promise<Ledger>) => Promise<void>,
  ) =>
    it(title, async () => {
      const clock = await clockOf()
      const opened: Ledger[] = []
      const fresh = async () => {
        const ledger = await open(clock)
        opened.push(ledger)
        return ledger
      }
      try {
        await run(new Past(await fresh(), clock), fresh)
      } finally {
        await Promise.all(opened.map((ledger) => ledger.close()))
      }
    })

  describe(`${name} ledger`, () => {
    describe('orphans', () => orphanExamples(example))
    describe('folding', () => foldExamples(example))
    describe('exporting and importing', () => transferExamples(example))

    it('agrees with itself after any history', async () => {
      await fc.assert(
        fc.asyncProperty(histories, async (history) => {
          const clock = await clockOf()
          const [source, target] = [await open(clock), await open(clock)]
          try {
            const past = new Past(source, clock)
            for (const step of history) await past.live(step)
            await past.check()
            const items = await collect(source.export())
            for (let i = 0; i < items.length; i += 7) await target.import(items.slice(i, i + 7))
            expect(await stateOf(target)).toEqual(await stateOf(source))
            expect(await target.verify()).toEqual([])
            expect(await target.import(items)).toEqual({ stored: items.length, added: 0 })
            expect(await stateOf(target)).toEqual(await stateOf(source))
          } finally {
            await Promise.all([source.close(), target.close()])
          }
        }),
        { numRuns: runs },
      )
    })
  })
}

type Example = (
  title: string,
  run: (past: Past, fresh: () => Promise<Ledger>) => Promise<void>,
) => void

function orphanExamples(example: Example): void {
  example('are calls that were held and never settled, newest first', async (past) => {
    const { ledger } = past
    await past.pay('acct')
    await past.pay('other')
    const first = await past.orphan('acct', 'key')
    const second = await past.orphan('other', 'spare')
    const third = await past.orphan('acct', 'spare')
    await past.spend('acct', 'key', 5n)
    const own = await collect(ledger.orphans('acct'))
    expect(own).toMatchObject([
      { account: 'acct', key: 'spare', kind: 'orphan', cost: 0n, ...third },
      { account: 'acct', key: 'key', kind: 'orphan', cost: 0n, ...first },
    ])
    expect(await collect(ledger.orphans('unknown'))).toEqual([])
    const all = await collect(ledger.orphans())
    expect(all.filter(({ account }) => account === 'acct')).toEqual(own)
    expect(all.filter(({ account }) => account === 'other')).toMatchObject([second])
    expect(all).toHaveLength(3)
    // A call whose gateway came back after its lease had expired was charged: it is no orphan.
    const late = { ...first, account: 'acct', key: 'key', day: past.day(), cost: 3n }
    await ledger.settle({ ...late, usage: usageAt(first.at) })
    expect((await collect(ledger.orphans('acct'))).map(({ request }) => request)).toEqual([
      third.request,
    ])
    expect(await ledger.verify()).toEqual([])
  })
}

function foldExamples(example: Example): void {
  example('leaves totals of old days, and every sum as it was', async (past) => {
    const { ledger, clock } = past
    await past.pay('acct')
    for (const cost of [5n, 0n, 7n]) await past.spend('acct', 'key', cost)
    await past.spend('acct', 'spare', 11n)
    const old = past.day()
    await clock.advance(10 * DAY_MS)
    await past.spend('acct', 'key', 13n)
    const before = await sumsOf(ledger)
    expect(await ledger.fold(new Date(clock.now() - 5 * DAY_MS))).toBe(4)
    expect(await sumsOf(ledger)).toEqual(before)
    expect(await ledger.verify()).toEqual([])
    const left = await collect(ledger.usage('acct'))
    expect(left.map(({ kind, cost }) => [kind, cost])).toEqual([
      ['usage', 13n],
      ['top-up', -past.paid],
    ])
    expect(await totalsOf(ledger)).toEqual([
      { kind: 'total', account: 'acct', key: 'key', day: old, rows: 3, cost: 12n },
      { kind: 'total', account: 'acct', key: 'spare', day: old, rows: 1, cost: 11n },
    ])
    expect(await ledger.fold(new Date(clock.now() - 5 * DAY_MS))).toBe(0)
  })

  example('forgets no account that has nothing but totals', async (past) => {
    const { ledger, clock } = past
    await past.spend('acct', 'key', 0n)
    const day = past.day()
    await clock.advance(5 * DAY_MS)
    expect(await ledger.fold(new Date(clock.now()))).toBe(1)
    expect(await collect(ledger.export())).toEqual([
      { kind: 'account', account: 'acct', paid: false },
      { kind: 'total', account: 'acct', key: 'key', day, rows: 1, cost: 0n },
      {
        kind: 'base',
        account: 'acct',
        n: 1,
        chain: expect.stringMatching(/^[0-9a-f]{64}$/),
        optional: true,
      },
    ])
  })

  example('takes no day that has not ended everywhere', async (past) => {
    const { ledger, clock } = past
    await past.pay('acct')
    await clock.advance(DAY_MS - (clock.now() % DAY_MS))
    const midnight = clock.now()
    await past.spend('acct', 'key', 5n)
    await clock.advance(30 * DAY_MS)
    expect(await ledger.fold(new Date(midnight + 2 * DAY_MS - 1))).toBe(0)
    expect(await ledger.fold(new Date(midnight + 2 * DAY_MS))).toBe(1)
  })

  example('gives rows away before they go, up to the first that stays', async (past) => {
    const { ledger, clock } = past
    const begin = clock.now()
    await past.pay('acct')
    await past.orphan('acct', 'key')
    await past.spend('acct', 'key', 5n)
    await clock.advance(10 * DAY_MS)
    const young = await past.spend('acct', 'key', 7n)
    const late = { ...young, request: 'req_late', usage: { ...young.usage, at: begin } }
    await ledger.settle({ ...late, cost: 1n })
    const taken: string[] = []
    const take = async (month: string, lines: readonly string[]) => {
      expect(month).toMatch(/^\d{4}-\d\d$/)
      taken.push(...lines)
    }
    const bound = new Date(clock.now() - 5 * DAY_MS)
    await expect(ledger.fold(bound, () => Promise.reject(new Error('full')))).rejects.toThrow(
      'full',
    )
    expect(await collect(ledger.usage('acct'))).toHaveLength(5)
    expect(await ledger.fold(bound, take)).toBe(2)
    const rows = taken.map((line) => JSON.parse(line))
    expect(rows.map(({ kind }) => kind)).toEqual(['top-up', 'orphan', 'usage'])
    expect(await collect(ledger.orphans('acct'))).toEqual([])
    const base = (await collect(ledger.export())).find(({ kind }) => kind === 'base')
    const items = rows.map((row) => ({ ...row, cost: picoIn(row.cost) }))
    expect(base).toMatchObject(items.reduce(chained, beginChain('acct')))
    expect(await ledger.verify()).toEqual([])
  })

  example('takes no receipt of the last two days', async (past) => {
    const { ledger, clock } = past
    await past.pay('acct')
    const call = await past.spend('acct', 'key', 5n)
    await clock.advance(RECEIPT_HOURS * HOUR_MS - 1)
    expect(await ledger.fold(new Date(clock.now()))).toBe(0)
    expect(await ledger.settle({ ...call, cost: 9n })).toMatchObject({
      state: 'duplicate',
      cost: 5n,
    })
    await clock.advance(2 * DAY_MS)
    expect(await ledger.fold(new Date(clock.now()))).toBe(1)
    expect(await ledger.key('acct', 'key')).toMatchObject({ lifetime: 5n })
  })

  example('keeps top-ups, and with them their references', async (past) => {
    const { ledger, clock } = past
    await past.pay('acct')
    await clock.advance(400 * DAY_MS)
    await ledger.fold(new Date(clock.now()))
    const topUp = {
      kind: 'top-up' as const,
      account: 'acct',
      amount: past.paid,
      reference: 'acct 1',
    }
    expect(await ledger.book(topUp)).toMatchObject({ state: 'duplicate', balance: past.paid })
  })

  example('keeps adjustments, and with them their references', async (past) => {
    const { ledger, clock } = past
    await past.pay('acct')
    await past.adjust('acct', -7n)
    await clock.advance(400 * DAY_MS)
    await ledger.fold(new Date(clock.now()))
    const again = {
      kind: 'adjust' as const,
      account: 'acct',
      amount: -7n,
      reference: 'acct 2',
      note: 'a correction',
    }
    const booked = { state: 'duplicate', cost: 7n, balance: past.paid - 7n }
    expect(await ledger.book(again)).toEqual(booked)
  })

  example('counts late rows of a folded day, and folds them too', async (past) => {
    const { ledger, clock } = past
    await past.pay('acct')
    const call = await past.spend('acct', 'key', 5n)
    await clock.advance(5 * DAY_MS)
    await ledger.fold(new Date(clock.now()))
    await ledger.settle({ ...call, request: 'req_late', cost: 2n })
    expect(await ledger.verify()).toEqual([])
    expect(await ledger.fold(new Date(clock.now()))).toBe(1)
    expect(await totalsOf(ledger)).toMatchObject([{ day: call.day, rows: 2, cost: 7n }])
    expect(await ledger.key('acct', 'key')).toMatchObject({ lifetime: 7n })
    expect(await ledger.verify()).toEqual([])
  })
}

function picoIn(text: string): bigint {
  return text.startsWith('-') ? -parsePico(text.slice(1)) : parsePico(text)
}

function transferExamples(example: Example): void {
  example('an import decides like the ledger that was exported', async (past, fresh) => {
    const counted = [{ id: 'cap.month', value: 12n }]
    await past.pay('acct')
    await past.ledger.limits('acct', 'key', { ...LIMITS, counted }, 7)
    await past.spend('acct', 'key', 12n)
    const target = await fresh()
    const items = await collect(past.ledger.export())
    expect(await target.import(items)).toEqual({ stored: items.length, added: items.length })
    const entry = { account: 'acct', key: 'key', request: 'req_new', freeTier: FREE_TIER }
    expect(await target.enter({ ...entry, revision: 6 })).toMatchObject({ why: 'stale' })
    const entered = await target.enter({ ...entry, revision: 7 })
    expect(entered).toMatchObject({ ok: true, paid: true })
    const { at } = entered as { at: number }
    expect(await target.hold({ ...entry, at, ...holdOf(1n), free: false })).toMatchObject({
      ok: false,
      why: 'limit',
      limit: { of: 'key', name: 'cap.month' },
    })
    expect(await target.settle({ ...past.last!, cost: 99n })).toMatchObject({
      state: 'duplicate',
      cost: 12n,
    })
  })

  example('limits that are newer stay', async (past, fresh) => {
    await past.ledger.limits('acct', 'key', LIMITS, 3)
    const target = await fresh()
    const newer = { ...LIMITS, disabled: true }
    await target.limits('acct', 'key', newer, 4)
    const items = await collect(past.ledger.export())
    expect(await target.import(items)).toMatchObject({ stored: 2, added: 0 })
    expect(await collect(target.export())).toContainEqual({
      kind: 'limits',
      account: 'acct',
      key: 'key',
      limits: newer,
      revision: 4,
    })
  })

  example('adds to a ledger that has rows', async (past, fresh) => {
    await past.pay('acct')
    await past.spend('acct', 'key', 5n)
    const target = await fresh()
    const there = new Past(target, past.clock, 'req_there')
    await target.book({ kind: 'top-up', account: 'acct', amount: 100n, reference: 'there' })
    await target.limits('acct', 'key', LIMITS, 1)
    await there.spend('acct', 'key', 2n)
    await target.import(await collect(past.ledger.export()))
    expect(await target.account('acct')).toMatchObject({ balance: past.paid + 100n - 7n })
    expect(await target.key('acct', 'key')).toMatchObject({ lifetime: 7n, day: 7n, month: 7n })
    expect(await target.verify()).toEqual([])
  })

  example(
    'refuses a row that contradicts a stored one, and all items after it',
    async (past, fresh) => {
      await past.pay('acct')
      await past.spend('acct', 'key', 5n)
      await past.orphan('acct', 'key')
      await past.adjust('acct', 3n)
      await past.adjust('acct', -8n)
      const items = await collect(past.ledger.export())
      const target = await fresh()
      await target.import(items)
      const state = await stateOf(target)
      const rows = items.filter((item): item is RowItem => 'at' in item)
      for (const row of rows) {
        const forgeries: Partial<RowItem>[] = [{ at: row.at + 1 }]
        const isBooking = row.kind === 'top-up' || row.kind === 'adjust'
        if (isBooking) forgeries.push({ note: 'another' }, { cost: row.cost - 1n })
        else forgeries.push({ key: 'spare' })
        if (row.usage) forgeries.push({ cost: 6n }, { day: '20200101' })
        if (row.usage) forgeries.push({ usage: { ...row.usage, model: 'vendor/other' } })
        for (const forgery of forgeries) {
          const another: RowItem = { ...row, request: 'req_fresh', ...(row.usage && { cost: 1n }) }
          const refused = await target.import([row, { ...row, ...forgery }, another])
          expect(refused).toEqual({ stored: 1, added: 0, refused: expect.any(String) })
          expect(refused.refused).toContain(`"${row.request}" of account acct is stored already`)
          expect(await stateOf(target)).toEqual(state)
        }
      }
    },
  )

  example(
    'refuses rows that may be folded already, and totals of stored rows',
    async (past, fresh) => {
      await past.pay('acct')
      await past.spend('acct', 'key', 5n)
      const rows = await collect(past.ledger.export())
      const target = await fresh()
      await target.import(rows)
      await past.clock.advance(9 * DAY_MS)
      await past.ledger.fold(new Date(past.clock.now()))
      const folded = await collect(past.ledger.export())

      const into = await past.ledger.import(rows)
      expect(into.refused).toMatch(
        /^request "req_2" of account acct may be part of the stored total/,
      )
      const over = await target.import(folded)
      expect(over.refused).toMatch(
        /^the total of account acct, key key, \d{8} may contain stored rows/,
      )
      const total = folded.find((item) => item.kind === 'total')!
      const forged = await past.ledger.import([{ ...total, cost: 6n }])
      expect(forged).toEqual({
        stored: 0,
        added: 0,
        refused: expect.stringMatching(
          / is stored as 0\.000000000005 in 1 row, not 0\.000000000006 in 1 row$/,
        ),
      })
      for (const ledger of [past.ledger, target]) {
        expect(await ledger.key('acct', 'key')).toMatchObject({ lifetime: 5n })
        expect(await ledger.verify()).toEqual([])
      }
    },
  )

  example('keeps the rest of a folded day apart from its total', async (past, fresh) => {
    await past.pay('acct')
    const call = await past.spend('acct', 'key', 5n)
    await past.clock.advance(9 * DAY_MS)
    await past.ledger.fold(new Date(past.clock.now()))
    await past.ledger.settle({
      ...call,
      request: 'req_late',
      usage: usageAt(past.clock.now()),
      cost: 2n,
    })
    const items = await collect(past.ledger.export())
    const target = await fresh()
    for (let time = 0; time < 2; time++) {
      expect(await target.import(items)).toMatchObject({ stored: items.length })
      expect(await target.key('acct', 'key')).toMatchObject({ lifetime: 7n })
      expect(await target.verify()).toEqual([])
    }
  })
}

type Step =
  | { readonly do: 'pay'; readonly account: string }
  | { readonly do: 'adjust'; readonly account: string; readonly amount: bigint }
  | {
      readonly do: 'spend' | 'late'
      readonly account: string
      readonly key: string
      readonly cost: bigint
    }
  | { readonly do: 'orphan'; readonly account: string; readonly key: string }
  | { readonly do: 'limit'; readonly account: string; readonly key: string; readonly rpm: number }
  | { readonly do: 'wait'; readonly hours: number }
  | { readonly do: 'fold'; readonly days: number }

const account = fc.constantFrom(...ACCOUNTS)
const key = fc.constantFrom(...KEYS)
const amount = fc.bigInt(-(10n ** 15n), 10n ** 15n).filter((pico) => pico !== 0n)
const cost = fc.oneof(fc.constant(0n), fc.bigInt(1n, 50n), fc.bigInt(1n, 10n ** 14n))
const histories: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof(
    { weight: 1, arbitrary: fc.record({ do: fc.constant('pay'), account }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('adjust'), account, amount }) },
    { weight: 5, arbitrary: fc.record({ do: fc.constant('spend'), account, key, cost }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('late'), account, key, cost }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('orphan'), account, key }) },
    {
      weight: 1,
      arbitrary: fc.record({ do: fc.constant('limit'), account, key, rpm: fc.integer({ min: 1 }) }),
    },
    {
      weight: 3,
      arbitrary: fc.record({ do: fc.constant('wait'), hours: fc.integer({ min: 1, max: 90 }) }),
    },
    {
      weight: 1,
      arbitrary: fc.record({ do: fc.constant('fold'), days: fc.integer({ min: 0, max: 9 }) }),
    },
  ) as fc.Arbitrary<Step>,
  { minLength: 5, maxLength: 60 },
)

interface Charged {
  readonly request: string
  readonly account: string
  readonly key: string
  readonly day: string
  readonly cost: bigint
  readonly usage: UsageRow
}

/** A ledger with a history, and the sums it has to have. */
class Past {
  readonly ledger: Ledger
  readonly clock: TestClock
  /** Pico-dollars of each top-up. */
  readonly paid = 10n ** 15n
  readonly #prefix: string
  #count = 0
  #revision = 0
  readonly #balances = new Map<string, bigint>()
  readonly #spent = new Map<string, bigint>()
  /** The last call that was settled. */
  last: Charged | undefined

  constructor(ledger: Ledger, clock: TestClock, prefix = 'req') {
    this.ledger = ledger
    this.clock = clock
    this.#prefix = prefix
  }

  day(): string {
    return new Date(this.clock.now()).toISOString().slice(0, 10).replaceAll('-', '')
  }

  async live(step: Step): Promise<void> {
    if (step.do === 'pay') await this.pay(step.account)
    if (step.do === 'adjust') await this.adjust(step.account, step.amount)
    if (step.do === 'spend') await this.spend(step.account, step.key, step.cost)
    if (step.do === 'orphan') await this.orphan(step.account, step.key)
    if (step.do === 'wait') await this.clock.advance(step.hours * HOUR_MS)
    if (step.do === 'late') {
      const day = new Date(this.clock.now() - 3 * DAY_MS).toISOString().slice(0, 10)
      await this.spend(step.account, step.key, step.cost, day.replaceAll('-', ''))
    }
    if (step.do === 'limit') {
      const limits = { ...LIMITS, rpm: step.rpm }
      await this.ledger.limits(step.account, step.key, limits, 100 + ++this.#revision)
    }
    if (step.do === 'fold') {
      const before = await sumsOf(this.ledger)
      await this.ledger.fold(new Date(this.clock.now() - step.days * DAY_MS))
      expect(await sumsOf(this.ledger)).toEqual(before)
    }
  }

  async pay(account: string): Promise<void> {
    const reference = `${account} ${++this.#count}`
    await this.ledger.book({ kind: 'top-up', account, amount: this.paid, reference })
    this.#balances.set(account, (this.#balances.get(account) ?? 0n) + this.paid)
  }

  async adjust(account: string, amount: bigint): Promise<void> {
    const reference = `${account} ${++this.#count}`
    const adjusted = { kind: 'adjust' as const, account, amount, reference, note: 'a correction' }
    const balance = (this.#balances.get(account) ?? 0n) + amount
    expect(await this.ledger.book(adjusted)).toEqual({ state: 'charged', cost: -amount, balance })
    this.#balances.set(account, balance)
  }

  async spend(account: string, key: string, cost: bigint, day = this.day()): Promise<Charged> {
    const request = `${this.#prefix}_${++this.#count}`
    const usage = usageAt(this.clock.now())
    const charge = { request, account, key, day, cost, usage }
    expect(await this.ledger.settle(charge)).toMatchObject({ state: 'charged', cost })
    this.#balances.set(account, (this.#balances.get(account) ?? 0n) - cost)
    const whose = `${account} ${key}`
    this.#spent.set(whose, (this.#spent.get(whose) ?? 0n) + cost)
    this.last = charge
    return charge
  }

  /** Admits a call and never ends it. */
  async orphan(account: string, key: string): Promise<{ request: string; at: number }> {
    const request = `${this.#prefix}_${++this.#count}`
    const call = { account, key, request }
    await this.ledger.limits(account, key, LIMITS, ++this.#revision)
    const revision = Number.MAX_SAFE_INTEGER
    const entered = await this.ledger.enter({ ...call, revision, freeTier: FREE_TIER })
    if (!entered.ok) throw new Error(`${request} was refused: ${entered.why}`)
    await this.ledger.hold({ ...call, at: entered.at, ...holdOf(0n), free: true })
    await this.clock.advance(LEASE_MS)
    // Reading the account releases expired leases.
    await this.ledger.account(account)
    return { request, at: entered.at }
  }

  async check(): Promise<void> {
    for (const [account, balance] of this.#balances) {
      expect(await this.ledger.account(account)).toMatchObject({ balance })
    }
    for (const [whose, lifetime] of this.#spent) {
      const [account, key] = whose.split(' ')
      expect(await this.ledger.key(account!, key!)).toMatchObject({ lifetime })
    }
    expect(await this.ledger.verify()).toEqual([])
  }
}

function usageAt(at: number): UsageRow {
  return {
    at,
    endpoint: '/v1/chat/completions',
    model: 'vendor/model',
    outcome: 'completed',
    lines: [{ source: 'model', usage: { promptTokens: 3, seconds: 0.5, estimated: true } }],
  }
}

async function sumsOf(ledger: Ledger): Promise<unknown> {
  const sums = ACCOUNTS.map(async (account) => [
    await ledger.account(account),
    ...(await Promise.all(KEYS.map((key) => ledger.key(account, key)))),
  ])
  return Promise.all(sums)
}

/** Sums, limits, totals and rows in their order. */
async function stateOf(ledger: Ledger): Promise<unknown> {
  const items = Map.groupBy(await collect(ledger.export()), (item) => item.account)
  return [await sumsOf(ledger), [...items].sort(([a], [b]) => (a < b ? -1 : 1))]
}

async function totalsOf(ledger: Ledger): Promise<LedgerItem[]> {
  return (await collect(ledger.export())).filter(({ kind }) => kind === 'total')
}

async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const list: Item[] = []
  for await (const item of items) list.push(item)
  return list
}
