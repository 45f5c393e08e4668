/**
 * The chain of an account: a hash over its rows in their order. Each gateway's index of usage makes it from the rows that it reads. A
 * chain that was noted elsewhere proves later that no row before it was changed, removed, added or moved.
 */
import { hash } from 'node:crypto'
import { formatPico } from '../../money/money.ts'
import { bodyMembers } from './bookings.ts'
import type { ChainBase, ChainPoint, LedgerRow } from './ledger.ts'

type ChainedRow = Omit<LedgerRow, 'seq'> & { readonly day?: string }

export function beginChain(account: string): ChainBase {
  return { n: 0, chain: sha256(account), seq: 0 }
}

/** The place after one more row. A row has the same text in both engines, and in an export. */
export function chained({ n, chain }: ChainPoint, row: ChainedRow): ChainPoint {
  const { kind, request, key, day, at, cost, actor } = row
  const body = bodyMembers(row) ?? null
  const members = [kind, request, key ?? '', day ?? '', at, formatPico(cost), actor ?? '', body]
  return { n: n + 1, chain: sha256(chain + JSON.stringify(members)) }
}

/** A place that was noted earlier. */
export interface NotedPoint extends ChainPoint {
  /** Where it was noted: `2026-11` for the seal of a month, `base` for the end of the folded rows, `index` for that of a gateway. */
  readonly where: string
}

/** The rows of an account between two places, among which there is a difference. */
export interface ChainFault {
  readonly account: string
  /** The last place before it that agrees. */
  readonly after: NotedPoint
  /** The first place that does not. */
  readonly before: NotedPoint
  /** Number of rows that are there now between the two. */
  readonly rows: number
}

/** Compares the rows of one account with noted places. */
export class ChainCheck {
  readonly #account: string
  readonly #places: readonly NotedPoint[]
  #next = 0
  #now: ChainPoint
  #agreed: NotedPoint
  #fault: ChainFault | undefined

  /** @param base the place of the first row. @param places the places in any order; those before the base are not compared */
  constructor(account: string, base: ChainPoint, places: readonly NotedPoint[]) {
    this.#account = account
    this.#now = base
    this.#agreed = { n: base.n, chain: base.chain, where: base.n === 0 ? 'begin' : 'base' }
    this.#places = places.filter(({ n }) => n >= base.n).toSorted((a, b) => a.n - b.n)
    this.#compare()
  }

  add(row: ChainedRow): void {
    this.#now = chained(this.#now, row)
    this.#compare()
  }

  /** Called after the last row. @returns the first interval that differs */
  end(): ChainFault | undefined {
    const missing = this.#places[this.#next]
    if (!this.#fault && missing) this.#differs(missing)
    return this.#fault
  }

  #compare(): void {
    for (let place; (place = this.#places[this.#next])?.n === this.#now.n; this.#next++) {
      if (place.chain === this.#now.chain) this.#agreed = place
      else this.#differs(place)
    }
  }

  #differs(before: NotedPoint): void {
    const rows = this.#now.n - this.#agreed.n
    this.#fault ??= { account: this.#account, after: this.#agreed, before, rows }
  }
}

/** SHA-256 over the seals of a month. @param seals chains at its end, by account */
export function rootOf(seals: Iterable<readonly [account: string, point: ChainPoint]>): string {
  const lines = [...seals].map(([account, { n, chain }]) => `${account} ${n} ${chain}\n`)
  return sha256(lines.toSorted().join(''))
}

function sha256(text: string): string {
  return hash('sha256', text)
}
