/** Adds rows of the ledger to the tables: each row once, in one hour, day and month, and among one tag and one user. */
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import type { Pico } from '../../money/money.ts'
import {
  creditAfter,
  NO_CREDIT,
  promotionalLeft,
  promotionalPart,
  type CreditState,
} from '../../state/ledger/blocks.ts'
import type { FoldedTotal, ReadRow, UsageRow } from '../../state/ledger/ledger.ts'
import { transact } from '../../state/sqlite/file.ts'
import { QUANTITIES, type Quantity } from '../../server/admin/resources/usage.ts'
import { QUANTITY_MEMBERS } from '../record.ts'
import {
  addUp,
  AMOUNTS,
  EARNED_SUMS,
  ROLLUPS,
  Rollups,
  SETTLED,
  SETTLED_GROUPS,
  SETTLED_SUMMARIES,
  SETTLED_SUMS,
  TAGGED_QUANTITIES,
  unitOf,
  type TableSet,
} from './tables.ts'

/** The model, tag and user of calls whose rows were folded before they were read. */
const FOLDED = '(folded)'
/** Placeholder for tags, and users, of an account and day beyond the number that is kept apart. */
const OTHER = '(other)'
const MOST_VALUES = 10_000
/** Most accounts and days whose number of values is cached. */
const MOST_COUNTS = 10_000

/** Marks that the sums of all accounts have to be made again; it outlives the process. */
const STALE = `INSERT OR REPLACE INTO meta VALUES ('overall', 'stale')`
const IS_STALE = `SELECT 1 FROM meta WHERE name = 'overall'`
const RENEWED = `DELETE FROM meta WHERE name = 'overall'`

interface Sums {
  calls: number
  cost: Pico
  estimated: number
  knownCalls: number
  /** Amounts in the order of {@link AMOUNTS}. */
  readonly amounts: Pico[]
  readonly quantities: Partial<Record<Quantity, number>>
}

/** Calls of one hour that differ in nothing but their moment. */
interface SettledCalls {
  /** ms since epoch. */
  readonly at: number
  /** A moment of the charged day, as if that were of UTC. */
  readonly day: number
  /** Values of {@link SETTLED_GROUPS}, in their order. */
  readonly group: readonly string[]
  readonly tag: string
  readonly user: string
  readonly sums: Sums
}

/** Writes the tables of settled calls. Methods that write are called inside a transaction. */
export class SettledTables {
  readonly #db: DatabaseSync
  readonly #rollups: Rollups
  readonly #summaries: readonly { readonly rollups: Rollups; readonly places: readonly number[] }[]
  /** Adds to a day, and to a month. */
  readonly #tags: readonly (readonly [unit: 'day' | 'month', add: StatementSync])[]
  readonly #isTagged: StatementSync
  readonly #countTagged: StatementSync
  readonly #book: StatementSync
  readonly #counts = new Map<string, number>()

  constructor(db: DatabaseSync) {
    this.#db = db
    const options = { values: SETTLED_SUMS, added: addedTo }
    this.#rollups = new Rollups(db, SETTLED, options)
    this.#summaries = SETTLED_SUMMARIES.map((tables) => ({
      rollups: new Rollups(db, tables, options),
      places: tables.groups.map((name) => groupsInOrder.indexOf(name)),
    }))
    const addTo = (table: string) =>
      db.prepare(
        `INSERT INTO ${table} (unit, account, key, kind, value, ${TAGGED_SUMS.join(', ')})
         VALUES (?, ?, ?, ?, ?, ${TAGGED_SUMS.map(() => '?').join(', ')})
         ON CONFLICT DO UPDATE SET ${TAGGED_SUMS.map(addedTo).join(', ')}`,
      )
    this.#tags = [
      ['day', addTo('tagged')],
      ['month', addTo('tagged_month')],
    ]
    this.#isTagged = db.prepare(
      'SELECT 1 FROM tagged WHERE unit = ? AND account = ? AND kind = ? AND value = ? LIMIT 1',
    )
    this.#countTagged = db.prepare(
      'SELECT count(DISTINCT value) AS values_ FROM tagged WHERE unit = ? AND account = ? AND kind = ?',
    )
    this.#book = db.prepare('INSERT INTO booking VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)')
  }

  /** @param before the credit before the rows. @param paid sum of the bookings before them. @returns the credit after them */
  add(account: string, rows: readonly ReadRow[], before = NO_CREDIT, paid = 0n): CreditState {
    const calls = new Map<string, SettledCalls>()
    let [credit, booked] = [before, paid]
    for (const row of rows) {
      const after = creditAfter(credit, row)
      if (row.kind === 'usage') addCall(calls, account, row, promotionalPart(credit, row.cost))
      else if (row.kind !== 'orphan') {
        booked -= row.cost
        const moved = promotionalLeft(after) - promotionalLeft(credit)
        this.#addBooking(account, row, moved, booked - credit.spent)
      }
      if (row.kind === 'refund') addRefund(calls, account, row)
      credit = after
    }
    this.#addCalls(account, [...calls.values()])
    return credit
  }

  /** @param promotional how it has moved what is left of promotional credit. @param balance the balance after it */
  #addBooking(account: string, row: ReadRow, promotional: Pico, balance: Pico): void {
    const { seq, kind, request, at, cost, note = null, actor = null, booking } = row
    const rest = [note, actor, booking?.expiresAt ?? null, booking ? JSON.stringify(booking) : null]
    this.#book.run(account, seq, at, kind, -cost, request, ...rest, promotional, `${balance}`)
  }

  addFolded(account: string, totals: readonly FoldedTotal[]): void {
    this.#addCalls(
      account,
      totals.map(({ team = '', key, day, rows, cost }) => ({
        at: startOfDay(day),
        day: startOfDay(day),
        group: [account, team, key, FOLDED, '', '', ''],
        tag: FOLDED,
        user: FOLDED,
        sums: { ...noSums(), calls: rows, cost },
      })),
    )
  }

  remove(account: string): void {
    const own = `group_id IN (SELECT id FROM settled_group WHERE account = ?)`
    for (const rollup of ROLLUPS) {
      this.#db.prepare(`DELETE FROM settled_${rollup} WHERE ${own}`).run(account)
    }
    // Removed sums may be wrong: the sums of all accounts are made of those that stay.
    this.#db.exec(STALE)
    for (const table of ['tagged', 'tagged_month', 'booking', 'progress']) {
      this.#db.prepare(`DELETE FROM ${table} WHERE account = ?`).run(account)
    }
    this.#counts.clear()
  }

  clear(): void {
    for (const table of OF_THE_LEDGER) this.#db.exec(`DELETE FROM ${table}`)
    this.#db.exec(RENEWED)
    this.#counts.clear()
  }

  /** Makes the sums of all accounts again after a removal, in a transaction of its own. */
  renewOverall(isNeeded = this.#db.prepare(IS_STALE).get() !== undefined): void {
    if (!isNeeded) return
    transact(this.#db, () => {
      for (const set of SETTLED_SUMMARIES) addUp(this.#db, SETTLED, set, SETTLED_SUMS)
      this.#db.exec(RENEWED)
    })
  }

  #addCalls(account: string, calls: readonly SettledCalls[]): void {
    const sums = summed(calls, ({ group, ...call }) => [...spanOf(call), ...group])
    for (const [call, sum] of sums) this.#rollups.add(call, call.group, valuesOf(sum))
    for (const { rollups, places } of this.#summaries) {
      const groupOf = ({ group }: SettledCalls) => places.map((place) => group[place]!)
      const sums = summed(calls, (call) => [...spanOf(call), ...groupOf(call)])
      for (const [first, sum] of sums) rollups.add(first, groupOf(first), valuesOf(sum))
    }
    for (const kind of ['tag', 'user'] as const) {
      const sums = summed(calls, (call) => [unitOf('day', call.day), call.group[KEY]!, call[kind]])
      for (const [first, sum] of sums) {
        const { calls, cost, quantities } = sum
        const value = this.#bounded(unitOf('day', first.day), account, kind, first[kind])
        const tokens = TAGGED_QUANTITIES.map((name) => quantities[name] ?? null)
        const sums = [calls, ...halvesOf(cost), ...tokens, ...earnedIn(sum)]
        for (const [unit, add] of this.#tags) {
          add.run(unitOf(unit, first.day), account, first.group[KEY]!, kind, value, ...sums)
        }
      }
    }
  }

  /** A value, or `(other)` where the account has had too many others that day. */
  #bounded(unit: number, account: string, kind: string, value: string): string {
    if (this.#isTagged.get(unit, account, kind, value)) return value
    const name = `${unit} ${kind} ${account}`
    const count =
      this.#counts.get(name) ?? Number(this.#countTagged.get(unit, account, kind)!.values_)
    if (count >= MOST_VALUES) return OTHER
    if (this.#counts.size >= MOST_COUNTS) this.#counts.clear()
    this.#counts.set(name, count + 1)
    return value
  }
}

/** What an account has spent in the tables, by key. */
export function costsIn(db: DatabaseSync, account: string): Map<string, Pico> {
  const sums = db
    .prepare(
      `SELECT key, sum(billions) AS billions, sum(rest) AS rest
       FROM settled_day JOIN settled_group ON id = group_id WHERE account = ? GROUP BY key`,
    )
    .all(account) as unknown as readonly (Halves & { readonly key: string })[]
  return new Map(sums.map((sum) => [sum.key, wholeOf(sum)]))
}

/** What was booked for an account in the tables. */
export function bookedIn(db: DatabaseSync, account: string): Pico {
  const sum = db
    .prepare(
      `SELECT coalesce(sum(amount / 1000000000), 0) AS billions,
         coalesce(sum(amount % 1000000000), 0) AS rest FROM booking WHERE account = ?`,
    )
    .get(account) as unknown as Halves
  return wholeOf(sum)
}

const TAGGED_SUMS = ['calls', 'billions', 'rest', ...TAGGED_QUANTITIES, ...EARNED_SUMS]

/** The place of the key in the groups of a call. */
const KEY = SETTLED_GROUPS.indexOf('key')

const BILLION = 1_000_000_000n

export interface Halves {
  readonly billions: number
  readonly rest: number
}

function halvesOf(cost: Pico): readonly [billions: bigint, rest: bigint] {
  return [cost / BILLION, cost % BILLION]
}

export function wholeOf({ billions, rest }: Halves): Pico {
  const sum = billions * 1e9 + rest
  // One conversion in place of two: there are hundreds of thousands in one answer.
  if (Number.isSafeInteger(sum)) return BigInt(sum)
  return BigInt(billions) * BILLION + BigInt(rest)
}

/** The usage of a row without one. */
const NOT_KNOWN: Partial<UsageRow> = {}

/** Adds the call of a row. @param calls the calls by what distinguishes them. @param promotional part of its cost */
function addCall(
  calls: Map<string, SettledCalls>,
  account: string,
  { key = '', day, at, cost, usage: reported }: ReadRow,
  promotional: Pico,
): void {
  const usage = reported ?? NOT_KNOWN
  const { sums } = callOf(calls, { ...usage, account, key, at, day })
  const { flags, lines = [], vendor } = usage
  sums.calls++
  sums.cost += cost
  if (flags?.includes('estimated')) sums.estimated++
  if (vendor !== undefined) sums.knownCalls++
  const [paid, knownCost] = vendor === undefined ? [0n, 0n] : [BigInt(vendor), cost]
  addAmounts(sums, [paid, knownCost, promotional, 0n, 0n])
  addQuantities(sums.quantities, lines)
}

/** Adds a refund on its own day, among the calls of which the refunded one is. */
function addRefund(
  calls: Map<string, SettledCalls>,
  account: string,
  { at, cost, booking }: ReadRow,
): void {
  const call = booking?.facts?.call
  if (!call) return
  const { sums } = callOf(calls, { ...call, account, at })
  addAmounts(sums, [0n, 0n, 0n, -cost, call.known ? -cost : 0n])
}

function addAmounts({ amounts }: Sums, more: readonly Pico[]): void {
  for (const [i, amount] of more.entries()) amounts[i]! += amount
}

/** What distinguishes calls of an account. */
interface CallNames extends Partial<Record<(typeof SETTLED_GROUPS)[number], string>> {
  readonly at: number
  readonly day?: string | undefined
  readonly tag?: string
  readonly user?: string
}

function callOf(calls: Map<string, SettledCalls>, names: CallNames): SettledCalls {
  const { at, day, tag = '', user = '' } = names
  const group = SETTLED_GROUPS.map((name) => names[name] ?? '')
  const charged = day === undefined ? at : startOfDay(day)
  const name = [...spanOf({ at, day: charged }), ...group, tag, user].join('\n')
  let call = calls.get(name)
  if (!call) calls.set(name, (call = { at, day: charged, group, tag, user, sums: noSums() }))
  return call
}

function noSums(): Sums {
  const amounts = AMOUNTS.map(() => 0n)
  return { calls: 0, cost: 0n, estimated: 0, knownCalls: 0, amounts, quantities: {} }
}

/** What distinguishes the rows of a group: hours are those of UTC, days those that were charged. */
function spanOf({ at, day }: Pick<SettledCalls, 'at' | 'day'>): readonly [number, number] {
  return [unitOf('hour', at), unitOf('day', day)]
}

/** @param day `YYYYMMDD` */
function startOfDay(day: string): number {
  return Date.UTC(Number(day.slice(0, 4)), Number(day.slice(4, 6)) - 1, Number(day.slice(6)))
}

/** Adds the model's consumption, and all searches. */
function addQuantities(quantities: Sums['quantities'], lines: UsageRow['lines']): void {
  for (const { source, usage } of lines) {
    if (source === 'guard') continue
    for (const name of source === 'search' ? (['searches'] as const) : QUANTITIES) {
      const count = usage[QUANTITY_MEMBERS[name]]
      if (count !== undefined) quantities[name] = (quantities[name] ?? 0) + count
    }
  }
}

/** Adds calls up by group. @returns the first call of each, and the sums of all */
function summed(
  calls: readonly SettledCalls[],
  groupOf: (call: SettledCalls) => readonly (string | number)[],
): Iterable<readonly [SettledCalls, Sums]> {
  const groups = new Map<string, [SettledCalls, Sums]>()
  for (const call of calls) {
    const name = groupOf(call).join('\n')
    let sums = groups.get(name)?.[1]
    if (!sums) {
      sums = noSums()
      groups.set(name, [call, sums])
    }
    sums.calls += call.sums.calls
    sums.cost += call.sums.cost
    sums.estimated += call.sums.estimated
    sums.knownCalls += call.sums.knownCalls
    addAmounts(sums, call.sums.amounts)
    for (const name in call.sums.quantities) {
      const quantity = name as Quantity
      sums.quantities[quantity] = (sums.quantities[quantity] ?? 0) + call.sums.quantities[quantity]!
    }
  }
  return groups.values()
}

const groupsInOrder: readonly string[] = SETTLED_GROUPS

/** Values in the order of {@link SETTLED_SUMS}. */
function valuesOf(sums: Sums) {
  const { calls, cost, estimated, quantities } = sums
  const counts = QUANTITIES.map((name) => quantities[name] ?? null)
  return [calls, ...halvesOf(cost), estimated, ...counts, ...earnedIn(sums)]
}

/** Values in the order of {@link EARNED_SUMS}. */
function earnedIn({ knownCalls, amounts }: Sums) {
  return [knownCalls, ...amounts.flatMap(halvesOf)]
}

/** SQL that adds to a column; a quantity that was never reported stays NULL. */
function addedTo(name: string): string {
  return `${name} = coalesce(${name} + excluded.${name}, ${name}, excluded.${name})`
}

const namesOf = ({ table, rollups }: TableSet) =>
  [...rollups, 'group'].map((name) => `${table}_${name}`)

/** Tables of settled calls and bookings, which can be made again from the ledger at any time. */
const OF_THE_LEDGER = [
  ...namesOf(SETTLED),
  ...SETTLED_SUMMARIES.flatMap(namesOf),
  'tagged',
  'tagged_month',
  'booking',
  'progress',
  'noted',
]
