/** What the tables of usage prove of the ledger: that its rows are the same as before, or which of them it lacks. */
import type { DatabaseSync } from 'node:sqlite'
import type { Pico } from '../../money/money.ts'
import { ChainCheck, type ChainFault, type NotedPoint } from '../../state/ledger/chain.ts'
import type { ChainPoint, LedgerReader } from '../../state/ledger/ledger.ts'
import { nextTurn } from './ledger-index.ts'
import { bookedIn, costsIn } from './settled.ts'

export interface ChainsChecked {
  readonly accounts: number
  readonly rows: number
  readonly faults: readonly ChainFault[]
}

/** What an account has in the tables and not in the ledger. */
export interface MissingMoney {
  readonly account: string
  readonly credits: Pico
  readonly costs: Pico
}

export interface MissingBooking {
  readonly kind: string
  readonly account: string
  readonly request: string
  readonly at: number
  readonly cost: Pico
  readonly note?: string
  readonly actor?: string
}

interface ProofOptions {
  readonly db: DatabaseSync
  readonly reader: LedgerReader
  /** Rows that are read at once. */
  readonly pageRows: number
}

export class Proof {
  readonly #options: ProofOptions

  constructor(options: ProofOptions) {
    this.#options = options
  }

  /** Recomputes every chain from the rows. @param seals noted places, by account */
  async checkChains(seals: ReadonlyMap<string, readonly NotedPoint[]>): Promise<ChainsChecked> {
    const { reader, pageRows } = this.#options
    const faults: ChainFault[] = []
    let rows = 0
    const accounts = new Set([...(await reader.heads()).keys(), ...this.#noted(), ...seals.keys()])
    for (const account of accounts) {
      const places = [...(seals.get(account) ?? []), ...this.#placesOf(account)]
      let isWhole = false
      while (!isWhole) {
        const base = await reader.base(account)
        const check = new ChainCheck(account, base, places)
        let from = base.seq + 1
        for (let page; ; from = page.at(-1)!.seq + 1) {
          page = await reader.rows(account, from, pageRows)
          for (const row of page) check.add(row)
          rows += page.length
          if (page.length < pageRows) break
          await nextTurn()
        }
        const fault = check.end()
        // Rows that were folded meanwhile were not read.
        isWhole = (await reader.base(account)).n === base.n
        if (fault && isWhole) faults.push(fault)
      }
    }
    return { accounts: accounts.size, rows, faults }
  }

  /** The chains of accounts with rows in a month, or later. @param month the month, as in `unitOf` */
  chains(month: number): readonly (readonly [account: string, point: ChainPoint])[] {
    const select = 'SELECT account, n, chain FROM progress WHERE month >= ? AND n > 0'
    return this.#options.db
      .prepare(select)
      .all(month)
      .map(({ account, n, chain }) => [String(account), { n: Number(n), chain: String(chain) }])
  }

  /** Where the folded rows of each account end, as far as there are any. */
  async bases(): Promise<readonly (readonly [account: string, base: ChainPoint])[]> {
    const { reader } = this.#options
    const bases: [string, ChainPoint][] = []
    for (const account of (await reader.heads()).keys()) {
      const base = await reader.base(account)
      if (base.n > 0) bases.push([account, base])
    }
    return bases
  }

  #noted(): string[] {
    const accounts = 'SELECT account FROM progress WHERE n > 0 UNION SELECT account FROM noted'
    return this.#options.db
      .prepare(accounts)
      .all()
      .map(({ account }) => String(account))
  }

  /** Places that this index has noted: of its present reading, and of one before a difference. */
  #placesOf(account: string): NotedPoint[] {
    const places = `SELECT n, chain FROM progress WHERE account = ?1 AND n > 0
      UNION SELECT n, chain FROM noted WHERE account = ?1`
    return this.#options.db
      .prepare(places)
      .all(account)
      .map(({ n, chain }) => ({ where: 'index', n: Number(n), chain: String(chain) }))
  }

  /** Accounts that have more in the tables than in the ledger. */
  async missing(): Promise<readonly MissingMoney[]> {
    const { db, reader } = this.#options
    const heads = await reader.heads()
    const accounts = db.prepare('SELECT account FROM progress').all()
    return accounts.flatMap((row) => {
      const account = String(row.account)
      const [indexed, booked] = [costsIn(db, account), bookedIn(db, account)]
      const { balance = 0n, lifetime = new Map<string, Pico>() } = heads.get(account) ?? {}
      const spent = sumOf(lifetime.values())
      const [credits, costs] = [booked - balance - spent, sumOf(indexed.values()) - spent]
      if (credits <= 0n && costs <= 0n) return []
      return [{ account, credits: atLeast0(credits), costs: atLeast0(costs) }]
    })
  }

  /** Bookings in the tables that the ledger does not have. */
  async missingBookings(): Promise<readonly MissingBooking[]> {
    const { db, reader, pageRows } = this.#options
    const bookings: MissingBooking[] = []
    for (const { account, credits } of await this.missing()) {
      if (credits === 0n) continue
      const stored = new Set<string>()
      for (let from = 1, page; ; from = page.at(-1)!.seq + 1) {
        page = await reader.rows(account, from, pageRows)
        for (const { kind, request } of page) stored.add(`${kind} ${request}`)
        if (page.length < pageRows) break
      }
      const select = db.prepare('SELECT * FROM booking WHERE account = ? ORDER BY seq')
      select.setReadBigInts(true)
      for (const { kind, reference, at, amount, note, actor } of select.all(account)) {
        if (stored.has(`${kind} ${reference}`)) continue
        bookings.push({
          kind: String(kind),
          account,
          request: String(reference),
          at: Number(at),
          cost: -(amount as bigint),
          ...(note !== null && { note: String(note) }),
          ...(actor !== null && { actor: String(actor) }),
        })
      }
    }
    return bookings
  }
}

function sumOf(amounts: Iterable<Pico>): Pico {
  let sum = 0n
  for (const amount of amounts) sum += amount
  return sum
}

function atLeast0(amount: Pico): Pico {
  return amount > 0n ? amount : 0n
}
