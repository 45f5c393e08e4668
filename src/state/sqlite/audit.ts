/** Adds up an account's rows, and compares the result with the stored sums. */
import { countedOn, type Pico } from '../../money/money.ts'
import type { Discrepancy, LedgerRow } from '../ledger/ledger.ts'
import { addCost, compareSums, spendName } from '../ledger/book.ts'
import type { SpendColumns, Sql, TotalColumns } from './sql.ts'

export interface AuditReport {
  /** Stored sums that differ from those of the rows. */
  readonly discrepancies: readonly Discrepancy[]
  /** Sums of the rows, under the names of the book's `settled`. A sum of 0 may be absent. */
  readonly sums: ReadonlyMap<string, Pico>
}

type AuditQueries = Pick<Sql, 'sums' | 'sumsOf' | 'spendOf' | 'totalsOf'>

/** Rows added up in one step, within a few milliseconds. */
const STEP_ROWS = 2000
const BILLION = 1_000_000_000n

/** The audit of one account, in steps. Rows never change, so a step's result holds until rows are folded. */
export class Audit {
  readonly #account: string
  readonly #queries: AuditQueries
  readonly #sums = new Map<string, Pico>()
  #seq = 0n

  constructor(account: string, queries: AuditQueries) {
    this.#account = account
    this.#queries = queries
  }

  /** Adds up the next rows. @returns whether these were the last */
  advance(): boolean {
    const groups = this.#queries.sums.all(this.#account, this.#seq, STEP_ROWS) as unknown as Group[]
    let rows = 0n
    for (const { kind, key, day, billions, rest, count, seq } of groups) {
      rows += count
      if (seq > this.#seq) this.#seq = seq
      addCost(this.#sums, { kind, key, day, cost: billions * BILLION + rest })
    }
    return rows < STEP_ROWS
  }

  /** The result, valid once and before further writes. @param from see {@link isBefore} */
  report(from: string): AuditReport {
    const account = this.#account
    for (const row of this.#queries.totalsOf.iterate(account)) {
      const { key, day, cost } = row as unknown as TotalColumns
      addCost(this.#sums, { kind: 'usage', key, day, cost })
    }
    const stored = new Map<string, Pico>()
    const sums = this.#queries.sumsOf.get(account) as AccountSums | undefined
    stored.set('balance', sums?.balance ?? 0n)
    stored.set('paid in', sums?.paid_in ?? 0n)
    this.#sums.set('paid in', countedOn(this.#sums.get('paid in') ?? 0n))
    for (const row of this.#queries.spendOf.iterate(account)) {
      const { key, window, amount } = row as unknown as SpendColumns
      stored.set(spendName(key, window), amount)
    }
    // Some sums of the rows have no stored one.
    for (const what of this.#sums.keys()) if (!stored.has(what)) stored.set(what, 0n)
    return {
      discrepancies: compareSums(account, stored, this.#sums),
      sums: new Map([...this.#sums].filter(([what]) => !isBefore(what, from))),
    }
  }
}

/** Whether a sum belongs to a window that ended before a day. @param day `YYYYMMDD` */
export function isBefore(what: string, day: string): boolean {
  const window = what.slice(what.lastIndexOf(' ') + 1)
  return window < day.slice(0, window.length)
}

interface AccountSums {
  readonly balance: Pico
  readonly paid_in: Pico
}

interface Group {
  readonly kind: LedgerRow['kind']
  readonly key: string | null
  readonly day: string | null
  readonly billions: bigint
  readonly rest: bigint
  readonly count: bigint
  readonly seq: bigint
}
