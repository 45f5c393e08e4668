/** The history of accounts in Redis: reads, verifies, exports and folds rows. */
import { foldBounds, inOrder } from '../ledger/items.ts'
import type {
  Discrepancy,
  LedgerItem,
  LedgerRow,
  Orphan,
  RequestId,
  RowItem,
  Settlement,
  TotalItem,
} from '../ledger/ledger.ts'
import type { ReceiptLookup } from './outbox.ts'
import { accountPrefix, keysOf, rowsKey, type RedisConnection } from './connection.ts'
import { toLimits, type ScriptClient } from './replies.ts'
import {
  accountsIn,
  readPages,
  readRows,
  snapshotOf,
  totalsIn,
  type RedisQuery,
  type DatedRow,
  type Snapshot,
} from './rows.ts'
import { countedOn, type Pico } from '../../money/money.ts'
import { addCost, addRunning, compareSums, spendName } from '../ledger/book.ts'

/** Attempts to read an account during which no row is folded. */
const ATTEMPTS = 5

/** Rows never change, but folding moves some into totals. Every method throws Unavailable while Redis cannot be reached. */
export class RedisHistory {
  readonly #connection: RedisConnection
  readonly #store: ScriptClient

  constructor(connection: RedisConnection) {
    this.#connection = connection
    this.#store = connection.client as ScriptClient
  }

  /** Rows of an account, newest first. */
  async *usage(account: string, before: number): AsyncGenerator<LedgerRow> {
    for await (const { row } of readRows(this.#query, rowsKey(account), before)) yield row
  }

  async *orphans(account?: string): AsyncGenerator<Orphan> {
    for (const id of await this.#accountsOr(account)) {
      for await (const row of this.usage(id, Infinity)) {
        if (row.kind === 'orphan') yield { ...row, account: id }
      }
    }
  }

  async verify(account?: string): Promise<readonly Discrepancy[]> {
    const differences: Discrepancy[] = []
    for (const id of await this.#accountsOr(account)) {
      differences.push(
        ...(await this.#unfolded(id, (snapshot, pages) => discrepancies(id, snapshot, pages))),
      )
    }
    return differences
  }

  /** Exports each account as of one moment. @throws Error when an account was folded meanwhile */
  async *export(): AsyncGenerator<LedgerItem> {
    for (const account of await accountsIn(this.#connection)) {
      const snapshot = await this.#snapshot(account)
      yield { kind: 'account', account, paid: snapshot.book.tier === '1' }
      for (const [field, text] of Object.entries(snapshot.book)) {
        if (field.startsWith('l:')) {
          yield { kind: 'limits', account, key: field.slice(2), ...toLimits(text) }
        }
      }
      const totals = [...totalsIn(snapshot.folded)].map((total): TotalItem => ({
        kind: 'total',
        account,
        ...total,
      }))
      totals.sort((a, b) => (a.day < b.day ? -1 : 1))
      yield* inOrder(totals, itemsOf(account, snapshot, this.#pages(account, snapshot.seq)))
      if ((await this.#foldedRows(account)) === foldedIn(snapshot)) continue
      throw new Error(`account ${account} was folded while it was exported: export again`)
    }
  }

  /** @returns the number of rows folded. @throws RangeError for an invalid date */
  async fold(before: Date, now: number): Promise<number> {
    const bounds = foldBounds(before, now)
    let folded = 0
    for (const account of await accountsIn(this.#connection)) {
      const keys = keysOf(account, 'u', 'f')
      for await (const page of this.#pages(account, Infinity)) {
        const old = page.filter(
          ({ row, day }) => row.kind === 'usage' && day < bounds.day && row.at < bounds.at,
        )
        if (old.length === 0) continue
        const rows = old.flatMap(({ row, day }) => [`${row.seq}-0`, day, row.key!, `${row.cost}`])
        const fold = () => this.#store.fold(...keys, `${bounds.at}`, ...rows)
        folded += Number((await this.#connection.ask(fold))[0])
      }
    }
    return folded
  }

  /** Looks up the rows of settlements of one account. */
  lookUp(account: string, settlements: readonly Settlement[]): Promise<ReceiptLookup> {
    const wanted = new Map(settlements.map((settlement) => [settlement.request, settlement]))
    return this.#unfolded(account, async (snapshot, pages) => {
      const booked = new Set<RequestId>()
      let rows = 0
      for await (const page of pages) {
        rows += page.length
        for (const { row } of page) {
          if (row.kind === 'usage' && wanted.has(row.request)) booked.add(row.request)
        }
      }
      const complete = rows + foldedIn(snapshot) === snapshot.seq
      const foldedBefore = Number(snapshot.folded.at ?? 0)
      const unclear = [...wanted.values()].filter(
        ({ request, usage }) => !booked.has(request) && (!complete || usage.at < foldedBefore),
      )
      return { booked, unclear: new Set(unclear.map(({ request }) => request)) }
    })
  }

  /** Reads an account, again if rows were folded meanwhile. */
  async #unfolded<T>(
    account: string,
    read: (snapshot: Snapshot, pages: AsyncIterable<readonly DatedRow[]>) => Promise<T>,
  ): Promise<T> {
    for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
      const snapshot = await this.#snapshot(account)
      const result = await read(snapshot, this.#pages(account, snapshot.seq))
      if ((await this.#foldedRows(account)) === foldedIn(snapshot)) return result
    }
    throw new Error(`account ${account} was folded ${ATTEMPTS} times while it was read`)
  }

  #snapshot(account: string): Promise<Snapshot> {
    return this.#connection.ask(() => snapshotOf(this.#store, accountPrefix(account)))
  }

  async #foldedRows(account: string): Promise<number> {
    const [folded = ''] = keysOf(account, 'f')
    return Number((await this.#connection.ask(() => this.#store.hget(folded, 'rows'))) ?? 0)
  }

  #pages(account: string, last: number): AsyncGenerator<readonly DatedRow[]> {
    return readPages(this.#query, rowsKey(account), last)
  }

  async #accountsOr(account: string | undefined): Promise<readonly string[]> {
    return account === undefined ? accountsIn(this.#connection) : [account]
  }

  readonly #query: RedisQuery = (read) => this.#connection.ask(() => read(this.#store))
}

/** A row as an item of an export. @param folded whether rows of its key and day were folded */
export function toItem({ row, day }: DatedRow, account: string, folded: boolean): RowItem {
  const { seq: _, ...rest } = row
  const unfolded = folded && row.kind === 'usage'
  return { ...rest, account, ...(day && { day }), ...(unfolded && { unfolded }) }
}

async function* itemsOf(
  account: string,
  { folded }: Snapshot,
  pages: AsyncIterable<readonly DatedRow[]>,
): AsyncGenerator<RowItem> {
  for await (const page of pages) {
    for (const dated of page) {
      yield toItem(dated, account, `n|${dated.day}|${dated.row.key}` in folded)
    }
  }
}

function foldedIn({ folded }: Snapshot): number {
  return Number(folded.rows ?? 0)
}

// Compares the book of an account in Redis with its rows.

/** Sums of a snapshot that differ from those of its rows and running calls. */
async function discrepancies(
  account: string,
  { book, holds, leases, folded }: Snapshot,
  pages: AsyncIterable<readonly DatedRow[]>,
): Promise<Discrepancy[]> {
  const sums = new Map<string, Pico>()
  for await (const page of pages) {
    for (const { row, day } of page) addCost(sums, { ...row, day })
  }
  for (const total of totalsIn(folded)) addCost(sums, { kind: 'usage', ...total })
  for (const member of leases) {
    const [amount = '', day = '', , , ceiling = 0] = holds[member]?.split('|') ?? []
    // A call that was refused with `held` holds nothing.
    const held = day ? { amount: BigInt(amount), ceiling: BigInt(ceiling), day } : undefined
    addRunning(sums, keyOf(member), held)
  }
  sums.set('paid in', countedOn(sums.get('paid in') ?? 0n))
  return compareSums(account, storedIn(book), sums)
}

/** Every sum of a book, under the name that `discrepancies` gives to the same sum of rows and calls. */
function* storedIn(book: Snapshot['book']): Generator<readonly [what: string, amount: Pico]> {
  const sum = (field: string) => BigInt(book[field] ?? 0)
  yield ['balance', sum('bal')]
  yield ['held', sum('bal') - sum('avail')]
  yield ['ceilings', sum('ceil')]
  // A book of an earlier version gets its sum with its next hold or top-up.
  if (book.in !== undefined) yield ['paid in', sum('in')]
  for (const field of Object.keys(book)) {
    const [kind = '', window = '', key = ''] = field.split(':')
    if (kind === 'n') yield [`calls of key ${window}`, sum(field)]
    if (kind === 'm') yield [`ceilings of key ${window}`, sum(field)]
    if (kind !== 's' && kind !== 'c') continue
    const spend = spendName(key, window === 'L' ? 'lifetime' : window)
    const settled = sum(`s:${window}:${key}`)
    if (kind === 's') yield [spend, settled]
    else yield [`held, ${spend}`, sum(field) - settled]
  }
}

function keyOf(member: string): string {
  return member.slice(0, member.indexOf('|'))
}
