/** Adding up what happened to an account, and comparing with what was kept of it. */
import type { StatementSync } from 'node:sqlite'
import type { Pico } from '../../money/money.ts'
import type { Discrepancy } from '../ledger/ledger.ts'
import { addSpend, addTo, spendName } from '../ledger/windows.ts'

export interface AuditReport {
  /** Kept sums that are not those of the rows. */
  readonly discrepancies: readonly Discrepancy[]
  /** The sums of the rows, under the names of Book's `settled`; zero where there is none. */
  readonly sums: ReadonlyMap<string, Pico>
}

export interface AuditQueries {
  readonly sums: StatementSync
  readonly balance: StatementSync
  readonly spendOf: StatementSync
  readonly totalsOf: StatementSync
}

/** At a time: what takes some milliseconds. */
const ROWS = 2000
const BILLION = 1_000_000_000n

/** One account's audit. Rows are never changed, so that those that have been added up stay so, until some are folded. */
export class Audit {
  readonly #account: string
  readonly #queries: AuditQueries
  readonly #sums = new Map<string, Pico>()
  /** Of the last row that was added up. */
  #seq = 0n

  constructor(account: string, queries: AuditQueries) {
    this.#account = account
    this.#queries = queries
  }

  /** Goes some rows on. @returns whether it has come to the end */
  advance(): boolean {
    const groups = this.#queries.sums.all(this.#account, this.#seq, ROWS) as unknown as Group[]
    let rows = 0n
    for (const { key, day, billions, rest, count, seq } of groups) {
      rows += count
      if (seq > this.#seq) this.#seq = seq
      this.#add(key, day, billions * BILLION + rest)
    }
    return rows < ROWS
  }

  /** To be asked for once, and before anything more is written. @param from see {@link isBefore} */
  report(from: string): AuditReport {
    const account = this.#account
    for (const row of this.#queries.totalsOf.iterate(account)) {
      const { key, day, cost } = row as unknown as { key: string; day: string; cost: Pico }
      this.#add(key, day, cost)
    }
    const stored = new Map<string, Pico>()
    const { balance } = this.#queries.balance.get(account) ?? {}
    stored.set('balance', (balance as Pico | undefined) ?? 0n)
    for (const row of this.#queries.spendOf.iterate(account)) {
      const { key, window, amount } = row as unknown as {
        key: string
        window: string
        amount: Pico
      }
      stored.set(spendName(key, window), amount)
    }
    const names = new Set([...stored.keys(), ...this.#sums.keys()])
    const discrepancies = [...names].flatMap((what) => {
      const [kept, recomputed] = [stored.get(what) ?? 0n, this.#sums.get(what) ?? 0n]
      return kept === recomputed ? [] : [{ account, what, stored: kept, recomputed }]
    })
    return {
      discrepancies,
      sums: new Map([...this.#sums].filter(([what]) => !isBefore(what, from))),
    }
  }

  #add(key: string | null, day: string | null, cost: Pico): void {
    addTo(this.#sums, 'balance', -cost)
    if (key !== null && day !== null) addSpend(this.#sums, key, day, cost)
  }
}

/** Whether a sum is of a window that ended before a day, `YYYYMMDD`. */
export function isBefore(what: string, day: string): boolean {
  const window = what.slice(what.lastIndexOf(' ') + 1)
  return window < day.slice(0, window.length)
}

/** Rows of one key and day. */
interface Group {
  readonly key: string | null
  readonly day: string | null
  readonly billions: bigint
  readonly rest: bigint
  readonly count: bigint
  readonly seq: bigint
}
