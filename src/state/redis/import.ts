/** Imports items of an export into Redis, each as a whole and at most once. */
import type { Pico } from '../../money/money.ts'
import { checkSameRow, checkTotal, checkUnfolded } from '../ledger/items.ts'
import type { Imported, LedgerItem, LimitsItem, RowItem, TotalItem } from '../ledger/ledger.ts'
import { addTo } from '../ledger/book.ts'
import { accountPrefix, keysOf, rowsKey, type RedisConnection } from './connection.ts'
import { toItem } from './history.ts'
import { toLimits, toLimitsText, type ScriptReply, type ScriptClient } from './replies.ts'
import { readPages, readRow, snapshotOf, totalsIn, type RedisQuery } from './rows.ts'

/** The stored rows of an account. Receipts expire, so an import has to look for the rows themselves. */
interface Index {
  readonly account: string
  /** Sequences by kind and request. */
  readonly rows: Map<string, number>
  /** Totals by day and key. */
  readonly totals: Map<string, { readonly rows: number; readonly cost: Pico }>
  /** Sums of the rows by day and key. */
  readonly spent: Map<string, Pico>
}

/** Imports items in their order. Every method throws Unavailable while Redis cannot be reached. */
export class RedisImport {
  readonly #connection: RedisConnection
  readonly #store: ScriptClient
  /** Index of the account that is being imported. */
  #index: Index | undefined

  constructor(connection: RedisConnection) {
    this.#connection = connection
    this.#store = connection.client as ScriptClient
  }

  /** See {@link Ledger.import}. */
  async take(items: readonly LedgerItem[]): Promise<Imported> {
    let [taken, added] = [0, 0]
    try {
      for (const item of items) {
        added += Number(await this.#take(item))
        taken++
      }
      return { taken, added }
    } catch (error) {
      if (error instanceof RangeError) return { taken, added, refused: error.message }
      throw error
    }
  }

  /** @returns whether the item is new. @throws RangeError when it contradicts the ledger, or a sum would leave its bounds */
  async #take(item: LedgerItem): Promise<boolean> {
    switch (item.kind) {
      case 'account':
        return item.paid && this.#takePaid(item.account)
      case 'limits':
        return this.#takeLimits(item)
      case 'total':
        return this.#takeTotal(item)
      default:
        return this.#takeRow(item)
    }
  }

  async #takePaid(account: string): Promise<boolean> {
    const [book] = keysOf(account, 'book')
    return Number(await this.#connection.ask(() => this.#store.hset(book!, 'tier', '1'))) > 0
  }

  async #takeLimits({ account, key, limits, revision }: LimitsItem): Promise<boolean> {
    const [book = ''] = keysOf(account, 'book')
    const stored = await this.#connection.ask(() => this.#store.hget(book, `l:${key}`))
    if (stored !== null && toLimits(stored).revision >= revision) return false
    await this.#connection.ask(() => this.#store.limits(book, key, toLimitsText(limits, revision)))
    return true
  }

  async #takeTotal(item: TotalItem): Promise<boolean> {
    const { account, key, day, rows, cost } = item
    const index = await this.#indexOf(account)
    const name = nameOf(day, key)
    const stored = index.totals.get(name)
    const spent = index.spent.get(name) ?? 0n
    if (!checkTotal(item, stored && { ...item, ...stored }, spent)) return false
    const keys = keysOf(account, 'book', 'f')
    const args = [key, day, `${rows}`, `${cost}`, `${endOf(day)}`]
    const [answer] = await this.#connection.ask(() => this.#store.takeTotal(...keys, ...args))
    if (answer === 'range') throw outOfRange(account)
    index.totals.set(name, { rows, cost })
    return true
  }

  async #takeRow(item: RowItem): Promise<boolean> {
    const { account, kind, request, key = '', cost, day = '' } = item
    const name = nameOf(kind, request)
    for (let again = false; ; again = true) {
      const index = await this.#indexOf(account)
      const seq = index.rows.get(name)
      if (seq !== undefined) {
        checkSameRow(item, await this.#row(account, seq))
        return false
      }
      if (kind === 'usage') checkUnfolded(item, index.totals.has(nameOf(day, key)))
      const [answer, value] = await this.#write(item)
      if (answer === 'taken') {
        index.rows.set(name, Number(value))
        if (kind === 'usage') addTo(index.spent, nameOf(day, key), cost)
        return true
      }
      if (answer === 'range') throw outOfRange(account)
      if (again) throw new RangeError(`${kind} "${request}" of account ${account} was folded`)
      // A gateway has booked it since the index was read.
      this.#index = undefined
    }
  }

  #write(item: RowItem): Promise<ScriptReply> {
    const { account, kind, request, key = '', cost, day = '', at, usage, note } = item
    const body = usage ?? note
    const text = body === undefined ? '' : JSON.stringify(body)
    const references = kind === 'adjust' ? 'a' : 't'
    const keys = keysOf(account, 'book', 'u', `r:${request}`, references)
    const args = [kind, request, key, `${cost}`, day, `${at}`, text]
    return this.#connection.ask(() => this.#store.takeRow(...keys, ...args))
  }

  async #row(account: string, seq: number): Promise<RowItem> {
    const row = await readRow(this.#query, rowsKey(account), seq)
    if (!row) throw new RangeError(`a row of account ${account} was folded meanwhile`)
    return toItem(row, account, false)
  }

  async #indexOf(account: string): Promise<Index> {
    if (this.#index?.account === account) return this.#index
    const { folded, seq } = await this.#connection.ask(() =>
      snapshotOf(this.#store, accountPrefix(account)),
    )
    const index: Index = { account, rows: new Map(), totals: new Map(), spent: new Map() }
    for (const { day, key, ...total } of totalsIn(folded)) index.totals.set(nameOf(day, key), total)
    for await (const page of readPages(this.#query, rowsKey(account), seq)) {
      for (const { row, day } of page) {
        index.rows.set(nameOf(row.kind, row.request), row.seq)
        if (row.kind === 'usage') addTo(index.spent, nameOf(day, row.key!), row.cost)
      }
    }
    this.#index = index
    return index
  }

  readonly #query: RedisQuery = (read) => this.#connection.ask(() => read(this.#store))
}

function nameOf(first: string, second: string): string {
  return `${first} ${second}`
}

function outOfRange(account: string): RangeError {
  return new RangeError(`a sum of account ${account} would leave the range of money`)
}

/** The end of a day, ms since epoch. @param day `YYYYMMDD` */
function endOf(day: string): number {
  const [year, month, date] = [day.slice(0, 4), day.slice(4, 6), day.slice(6)].map(Number)
  return Date.UTC(year!, month! - 1, date! + 1)
}
