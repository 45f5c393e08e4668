/** Adds rows of the ledger to the tables: each row once, in one hour, day and month, and among one tag and one user. */
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import type { Pico } from '../../money/money.ts'
import type { UsageRow } from '../../state/ledger/ledger.ts'
import type { FoldedTotal, ReadRow } from '../../state/ledger/reader.ts'
import { transact } from '../../state/sqlite/file.ts'
import { QUANTITIES, type Quantity } from '../../server/admin/resources/usage.ts'
import { QUANTITY_MEMBERS } from '../record.ts'
import { Rollups } from './rollups.ts'
import {
  addUp,
  OF_THE_LEDGER,
  ROLLUPS,
  SETTLED,
  SETTLED_GROUPS,
  SETTLED_OVERALL,
  SETTLED_SUMS,
  unitOf,
} from './tables.ts'

/** The model, tag and user of calls whose rows were folded before they were read. */
const FOLDED = '(folded)'
/** Placeholder for tags, and users, of an account and day beyond the number that is kept apart. */
const OTHER = '(other)'
const MOST_VALUES = 10_000
/** Most accounts and days whose number of values is cached. */
const MOST_COUNTS = 10_000
const HOUR_MS = 3_600_000

/** Marks that the sums of all accounts have to be made again; it outlives the process. */
const STALE = `INSERT OR REPLACE INTO meta VALUES ('overall', 'stale')`
const IS_STALE = `SELECT 1 FROM meta WHERE name = 'overall'`
const RENEWED = `DELETE FROM meta WHERE name = 'overall'`

interface Sums {
  calls: number
  cost: Pico
  estimated: number
  readonly quantities: Partial<Record<Quantity, number>>
}

/** Calls of one hour that differ in nothing but their moment. */
interface SettledCalls {
  /** ms since epoch, inside the charged day. */
  readonly at: number
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
  readonly #overall: Rollups
  readonly #tag: StatementSync
  readonly #isTagged: StatementSync
  readonly #countTagged: StatementSync
  readonly #book: StatementSync
  readonly #counts = new Map<string, number>()

  constructor(db: DatabaseSync) {
    this.#db = db
    const options = { values: SETTLED_SUMS, added: addedTo }
    this.#rollups = new Rollups(db, SETTLED, options)
    this.#overall = new Rollups(db, SETTLED_OVERALL, options)
    this.#tag = db.prepare(
      `INSERT INTO tagged VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
       ON CONFLICT DO UPDATE SET calls = calls + excluded.calls, cost = cost + excluded.cost,
         ${['prompt_tokens', 'completion_tokens'].map(addedTo).join(', ')}`,
    )
    this.#isTagged = db.prepare(
      'SELECT 1 FROM tagged WHERE unit = ? AND account = ? AND kind = ? AND value = ? LIMIT 1',
    )
    this.#countTagged = db.prepare(
      'SELECT count(DISTINCT value) AS values_ FROM tagged WHERE unit = ? AND account = ? AND kind = ?',
    )
    this.#book = db.prepare('INSERT INTO booking VALUES (?, ?, ?, ?, ?, ?, ?)')
  }

  add(account: string, rows: readonly ReadRow[]): void {
    const calls = new Map<string, SettledCalls>()
    for (const row of rows) {
      const { seq, kind, request, at, cost, note } = row
      if (kind === 'usage') addCall(calls, account, row)
      else if (kind !== 'orphan') {
        this.#book.run(account, seq, at, kind, -cost, request, note ?? null)
      }
    }
    this.#addCalls(account, [...calls.values()])
  }

  addFolded(account: string, totals: readonly FoldedTotal[]): void {
    this.#addCalls(
      account,
      totals.map(({ key, day, rows, cost }) => ({
        at: startOfDay(day),
        group: [account, key, FOLDED, '', '', ''],
        tag: FOLDED,
        user: FOLDED,
        sums: { calls: rows, cost, estimated: 0, quantities: {} },
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
    for (const table of ['tagged', 'booking', 'progress']) {
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
      addUp(this.#db, SETTLED, SETTLED_OVERALL, SETTLED_SUMS)
      this.#db.exec(RENEWED)
    })
  }

  costs(account: string): Map<string, Pico> {
    const sums = this.#db
      .prepare(
        `SELECT key, sum(cost / 1000000000) AS billions, sum(cost % 1000000000) AS rest
         FROM settled_day JOIN settled_group ON id = group_id WHERE account = ? GROUP BY key`,
      )
      .all(account) as unknown as readonly (Halves & { readonly key: string })[]
    return new Map(sums.map((sum) => [sum.key, wholeOf(sum)]))
  }

  booked(account: string): Pico {
    const sum = this.#db
      .prepare(
        `SELECT coalesce(sum(amount / 1000000000), 0) AS billions,
           coalesce(sum(amount % 1000000000), 0) AS rest FROM booking WHERE account = ?`,
      )
      .get(account) as unknown as Halves
    return wholeOf(sum)
  }

  #addCalls(account: string, calls: readonly SettledCalls[]): void {
    const sums = summed(calls, ({ at, group }) => [unitOf('hour', at), ...group])
    for (const [{ at, group }, sum] of sums) this.#rollups.add(at, group, valuesOf(sum))
    const overall = summed(calls, ({ at, group }) => [unitOf('hour', at), ...overallOf(group)])
    for (const [{ at, group }, sum] of overall) {
      this.#overall.add(at, overallOf(group), valuesOf(sum))
    }
    for (const kind of ['tag', 'user'] as const) {
      const sums = summed(calls, (call) => [unitOf('day', call.at), call.group[1]!, call[kind]])
      for (const [first, { calls, cost, quantities }] of sums) {
        const unit = unitOf('day', first.at)
        const value = this.#bounded(unit, account, kind, first[kind])
        const { prompt_tokens = null, completion_tokens = null } = quantities
        const tokens = [prompt_tokens, completion_tokens]
        this.#tag.run(unit, account, first.group[1]!, kind, value, calls, cost, ...tokens)
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

export interface Halves {
  readonly billions: number
  readonly rest: number
}

export function wholeOf({ billions, rest }: Halves): Pico {
  return BigInt(billions) * 1_000_000_000n + BigInt(rest)
}

/** The usage of a row without one. */
const NOT_KNOWN: Partial<UsageRow> = {}

/** Adds the call of a row. @param calls by what distinguishes them */
function addCall(
  calls: Map<string, SettledCalls>,
  account: string,
  { key = '', day, at, cost, usage }: ReadRow,
): void {
  const { model = '', deployment = '', endpoint = '', tag = '', user = '' } = usage ?? NOT_KNOWN
  const { outcome = '' as const, flags, lines = [] } = usage ?? NOT_KNOWN
  const moment = insideOf(day, at)
  const names = `${key}\n${model}\n${deployment}\n${endpoint}\n${outcome}\n${tag}\n${user}`
  const name = `${unitOf('hour', moment)}\n${names}`
  let call = calls.get(name)
  if (!call) {
    const group = [account, key, model, deployment, endpoint, outcome]
    call = { at: moment, group, tag, user, sums: noSums() }
    calls.set(name, call)
  }
  const { sums } = call
  sums.calls++
  sums.cost += cost
  if (flags?.includes('estimated')) sums.estimated++
  addQuantities(sums.quantities, lines)
}

function noSums(): Sums {
  return { calls: 0, cost: 0n, estimated: 0, quantities: {} }
}

/** The moment of the admission, moved into the day that was charged. */
function insideOf(day: string | undefined, at: number): number {
  if (day === undefined) return at
  const start = startOfDay(day)
  return Math.min(Math.max(at, start), start + 24 * HOUR_MS - 1)
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
    for (const name in call.sums.quantities) {
      const quantity = name as Quantity
      sums.quantities[quantity] = (sums.quantities[quantity] ?? 0) + call.sums.quantities[quantity]!
    }
  }
  return groups.values()
}

/** A group of {@link SETTLED_GROUPS} without its account and key. */
function overallOf(group: readonly string[]): readonly string[] {
  return group.slice(SETTLED_GROUPS.length - SETTLED_OVERALL.groups.length)
}

/** Values in the order of {@link SETTLED_SUMS}. */
function valuesOf({ calls, cost, estimated, quantities }: Sums) {
  return [calls, cost, estimated, ...QUANTITIES.map((name) => quantities[name] ?? null)]
}

/** SQL that adds to a column; a quantity that was never reported stays NULL. */
function addedTo(name: string): string {
  return `${name} = coalesce(${name} + excluded.${name}, ${name}, excluded.${name})`
}
