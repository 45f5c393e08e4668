/** The history of accounts in Redis: reads, verifies, exports and folds rows. */
import { writeBody } from '../ledger/bookings.ts'
import { chained } from '../ledger/chain.ts'
import { paced } from '../ledger/maintenance.ts'
import {
  foldBounds,
  inOrder,
  isBooking,
  isFoldable,
  linesByMonth,
  checkSameRow,
  checkTotal,
  checkUnfolded,
  type FoldBounds,
} from '../ledger/items.ts'
import type {
  ChainPoint,
  Discrepancy,
  ChainBase,
  LedgerItem,
  LedgerRow,
  Orphan,
  RequestId,
  RowItem,
  Settlement,
  TakeRows,
  TotalItem,
  Imported,
  CounterItem,
  LimitsItem,
} from '../ledger/ledger.ts'
import { effectsOf, referencesOf } from './bookings.ts'
import type { ReceiptLookup } from './outbox.ts'
import { accountPrefix, keysOf, PREFIX, rowsKey, type RedisConnection } from './connection.ts'
import { toLimits, toLimitsText } from './limits-text.ts'
import { Lock } from './lock.ts'
import type { ScriptClient, ScriptReply } from './replies.ts'
import {
  accountsIn,
  baseIn,
  PAGE_ROWS,
  readPages,
  readRows,
  snapshotOf,
  totalsIn,
  type RedisQuery,
  type DatedRow,
  type Snapshot,
  readRow,
} from './rows.ts'
import type { Pico } from '../../money/money.ts'
import {
  addCost,
  addRunning,
  addTo,
  compareSums,
  counterName,
  counterOwner,
  CounterSums,
  spendName,
  type StoredCounter,
  type Verification,
  type Verified,
  verification,
} from '../ledger/sums.ts'
import { countersIn, kindOf } from '../ledger/limit-list.ts'

/** Attempts to read an account during which no row is folded. */
const ATTEMPTS = 5
/** It is held by the gateway that folds. */
const FOLDING = `${PREFIX}:folding`
const FOLDING_MS = 60_000
/** It is held by the gateway that has verified, until the next day's turn. */
const VERIFYING = `${PREFIX}:verifying`
const VERIFYING_MS = 23 * 3_600_000

/** Reads rows in pages. @param after the sequence after which they begin; absent: all */
type Pages = (after?: number) => AsyncIterable<readonly DatedRow[]>

/** Rows never change, but folding moves some into totals. Every method throws Unavailable while Redis cannot be reached. */
export class RedisHistory {
  readonly #connection: RedisConnection
  readonly #store: ScriptClient
  /** What accounts of many rows added up to when this gateway verified them last. */
  readonly #verified = new Map<string, Verified>()

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
      const orphans = new Map<RequestId, LedgerRow>()
      for await (const page of this.#pages(id, Infinity)) {
        for (const { row } of page) {
          if (row.kind === 'orphan') orphans.set(row.request, row)
          // It was settled after its lease had expired.
          if (row.kind === 'usage') orphans.delete(row.request)
        }
      }
      for (const row of [...orphans.values()].toReversed()) yield { ...row, account: id }
    }
  }

  /** Calls go on meanwhile: it works a fifth of the time. */
  async verify(account?: string): Promise<readonly Discrepancy[]> {
    return this.#verify(await this.#accountsOr(account), new Map())
  }

  /** @param verified what is known of accounts, and then is of these */
  async #verify(
    accounts: readonly string[],
    verified: Map<string, Verified>,
  ): Promise<readonly Discrepancy[]> {
    const differences: Discrepancy[] = []
    const pause = paced()
    for (const id of accounts) {
      const before = verified.get(id)
      const verification = await this.#unfolded(id, (snapshot, pages) =>
        discrepancies(id, snapshot, pages, pause, before),
      )
      differences.push(...verification.differences)
      if (verification.verified) verified.set(id, verification.verified)
      else verified.delete(id)
    }
    return differences
  }

  /**
   * Verifies everything, once a day by one of the gateways.
   * @param isWhole whether all rows are read, and not only those after the last time
   * @returns undefined where it was another one's turn
   */
  async verifyInTurn(isWhole: boolean): Promise<readonly Discrepancy[] | undefined> {
    const lock = new Lock(this.#connection, VERIFYING, VERIFYING_MS)
    if (!(await lock.take())) return undefined
    try {
      if (isWhole) this.#verified.clear()
      return await this.#verify(await accountsIn(this.#connection), this.#verified)
    } catch (error) {
      await lock.release()
      throw error
    }
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
      const { seq: base, n, chain } = baseIn(account, snapshot.folded)
      yield* inOrder(totals, itemsOf(account, snapshot, this.#pages(account, base)))
      if (n > 0) yield { kind: 'base', account, n, chain, optional: true }
      yield* itemsOf(account, snapshot, this.#pages(account, snapshot.seq, base + 1))
      yield* exportedCounters(account, snapshot)
      yield* keptResets(account, snapshot.book)
      if ((await this.#foldedRows(account)) === foldedIn(snapshot)) continue
      throw new Error(`account ${account} was folded while it was exported: export again`)
    }
  }

  /**
   * Does nothing while another gateway folds.
   * @returns the number of rows that went. @throws RangeError for an invalid date
   */
  async fold(before: Date, now: number, take?: TakeRows): Promise<number> {
    const bounds = foldBounds(before, now)
    const lock = new Lock(this.#connection, FOLDING, FOLDING_MS)
    if (!(await lock.take())) return 0
    try {
      let folded = 0
      for (const account of await accountsIn(this.#connection)) {
        folded += await this.#foldAccount(account, bounds, lock, take)
      }
      return folded
    } finally {
      await lock.release()
    }
  }

  async #foldAccount(
    account: string,
    bounds: FoldBounds,
    lock: Lock,
    take?: TakeRows,
  ): Promise<number> {
    const [key = ''] = keysOf(account, 'f')
    const pause = paced()
    let folded = 0
    let base = baseIn(account, await this.#connection.ask(() => this.#store.hgetall(key)))
    for await (const page of this.#pages(account, Infinity, base.seq + 1)) {
      // Another gateway goes on where this one was away for too long.
      if (!(await lock.take())) break
      const young = page.findIndex(({ row, day }) => !isFoldable(bounds, row, day))
      const foldable = young < 0 ? page : page.slice(0, young)
      // Bookings stay: those after the last call wait for the next one, unless they fill a page.
      const isWhole = young < 0 && page.length === PAGE_ROWS
      const last = isWhole ? page.length - 1 : foldable.findLastIndex(({ row }) => !isBooking(row))
      const old = foldable.slice(0, last + 1)
      if (old.length === 0) break
      const items = old.map((one) => toItem(one, account, false))
      const first = base.n + 1
      const numbered = items.map((row, i) => ({ row, n: first + i }))
      for (const [month, lines] of linesByMonth(numbered)) await take?.(month, lines)
      const next = { ...items.reduce<ChainPoint>(chained, base), seq: old.at(-1)!.row.seq }
      folded += await this.#fold(account, bounds.at, base, next, old)
      if (old.length < page.length) break
      base = next
      await pause()
    }
    return folded
  }

  /** @returns the number of rows that went */
  async #fold(
    account: string,
    at: number,
    from: ChainBase,
    to: ChainBase,
    rows: readonly DatedRow[],
  ): Promise<number> {
    const gone = rows
      .filter(({ row }) => !isBooking(row))
      .flatMap(({ row: { seq, key = '', cost, usage }, day }) => {
        const of = usage?.team === undefined ? key : `${key}|${usage.team}`
        return [`${seq}-0`, day, of, `${cost}`]
      })
    const numbers = [at, from.seq, to.seq, to.n].map(String)
    const keys = keysOf(account, 'u', 'f')
    const fold = () => this.#store.fold(...keys, ...numbers, to.chain, ...gone)
    return Number((await this.#connection.ask(fold))[0])
  }

  /** Looks up the rows of settlements of one account. */
  lookUp(account: string, settlements: readonly Settlement[]): Promise<ReceiptLookup> {
    const wanted = new Map(settlements.map((settlement) => [settlement.request, settlement]))
    return this.#unfolded(account, async (snapshot, pages) => {
      const booked = new Set<RequestId>()
      let rows = 0
      for await (const page of pages()) {
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
    read: (snapshot: Snapshot, pages: Pages) => Promise<T>,
  ): Promise<T> {
    for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
      const snapshot = await this.#snapshot(account)
      const pages: Pages = (after = 0) => this.#pages(account, snapshot.seq, after + 1)
      const result = await read(snapshot, pages)
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

  #pages(account: string, last: number, from = 1): AsyncGenerator<readonly DatedRow[]> {
    return readPages(this.#query, rowsKey(account), last, from)
  }

  async #accountsOr(account: string | undefined): Promise<readonly string[]> {
    return account === undefined ? accountsIn(this.#connection) : [account]
  }

  readonly #query: RedisQuery = (read) => this.#connection.ask(() => read(this.#store))
}

/** A row as an item of an export. @param folded whether rows of its key and day were folded */
function toItem({ row, day }: DatedRow, account: string, folded: boolean): RowItem {
  const { seq: _, ...rest } = row
  const unfolded = folded && row.kind === 'usage'
  return { ...rest, account, ...(day && { day }), ...(unfolded && { unfolded }) }
}

async function* itemsOf(
  account: string,
  { folded }: Snapshot,
  pages: AsyncIterable<readonly DatedRow[]>,
): AsyncGenerator<RowItem> {
  const days = Object.fromEntries(
    [...totalsIn(folded)].map(({ day, key }) => [`${day}|${key}`, true]),
  )
  for await (const page of pages) {
    for (const dated of page) {
      yield toItem(dated, account, `${dated.day}|${dated.row.key}` in days)
    }
  }
}

function foldedIn({ folded }: Snapshot): number {
  return Number(folded.rows ?? 0)
}

// Compares the book of an account in Redis with its rows.

/** Compares the sums of a snapshot with those of its rows and running calls. @param before what is known of the rows */
async function discrepancies(
  account: string,
  { book, holds, leases, folded, seq: last }: Snapshot,
  pages: Pages,
  pause: () => Promise<void>,
  before?: Verified,
): Promise<Verification> {
  const base = baseIn(account, folded).seq
  // Where rows after those that are known were folded, their totals cannot be told from others.
  const basis = before && base <= before.seq && before.seq <= last ? before : undefined
  const sums = new Map(basis?.sums)
  const days = [...totalsIn(folded)].map(({ day }) => day).sort()
  const counters = new CounterSums(countersOf(book), days.at(-1) ?? '', basis?.counters)
  for await (const page of pages(basis?.seq)) {
    for (const { row, day } of page) {
      addCost(sums, { ...row, day, team: row.usage?.team })
      const { seq, key, cost, usage } = row
      if (usage && key !== undefined) counters.add({ seq, key, team: usage.team, cost, usage })
    }
    await pause()
  }
  if (!basis) for (const total of totalsIn(folded)) addCost(sums, { kind: 'usage', ...total })
  const stored = [...storedIn(book)]
  // The book has dropped the others.
  const kept = new Map(stored.map(([what]) => [what, sums.get(what) ?? 0n]))
  const verified = { seq: last, rows: last - base, sums: kept, counters: counters.all }
  for (const member of leases) {
    const parts = holds[member]?.split('|') ?? []
    const [amount = '', day = '', , , ceiling = 0, , counted, ...tokens] = parts
    const held = day ? { amount: BigInt(amount), ceiling: BigInt(ceiling), day } : undefined
    const lease = leaseOf(member)
    addRunning(sums, lease, held)
    const [expected = 1n, most = 1n] = tokens.map(BigInt)
    for (const { of, id, window } of countersIn(counted)) {
      const owner = counterOwner(of, lease)
      if (readCounter(book[`q:${id}:${owner}`])?.window !== window) continue
      const { unit } = kindOf(id)
      const reserved =
        unit === 'usd'
          ? [held!.amount, held!.ceiling]
          : unit === 'tokens'
            ? [expected, most]
            : [1n, 1n]
      const name = counterName(owner, id, window)
      addTo(sums, `held, ${name}`, reserved[0]!)
      addTo(sums, `ceilings, ${name}`, reserved[1]!)
    }
  }
  const differences = [...compareSums(account, stored, sums), ...counters.differences(account)]
  return verification(differences, verified)
}

interface BookCounter extends StoredCounter {
  readonly held: bigint
  readonly ceilings: bigint
  readonly reset: bigint
}

/** Reads a counter, see `script-limits.ts`; undefined for one of which nothing was counted yet. */
function readCounter(text = '') {
  const [since, window, ...amounts] = text.split(',')
  if (!window) return undefined
  const [settled = 0n, held = 0n, ceilings = 0n, reset = 0n] = amounts.map(BigInt)
  return { since: Number(since), window, settled, held, ceilings, reset }
}

/** The counters of a book. */
function countersOf(book: Snapshot['book']): BookCounter[] {
  return Object.entries(book).flatMap(([field, text]) => {
    const counter = field.startsWith('q:') && readCounter(text)
    return counter ? [{ ...nameIn(field), ...counter }] : []
  })
}

/** @param field `<kind>:<id of the limit>:<owner>` */
function nameIn(field: string): { readonly id: string; readonly owner: string } {
  const [, id = '', ...owner] = field.split(':')
  return { id, owner: owner.join(':') }
}

/** Counters, and those that have counted nothing where earlier rows may name them. */
function* exportedCounters(account: string, { book, seq }: Snapshot): Generator<CounterItem> {
  for (const [field, text] of Object.entries(book)) {
    if (!field.startsWith('q:')) continue
    const since = Number(text.split(',', 1)[0])
    const { window = '', settled = 0n, reset = 0n } = readCounter(text) ?? {}
    if (window === '' && since === 0) continue
    const seen = since > 0 ? { rows: seq - since } : {}
    yield { kind: 'counter', account, ...nameIn(field), window, settled, reset, ...seen }
  }
}

/** Resets of limits without a counter. */
function* keptResets(account: string, book: Snapshot['book']): Generator<CounterItem> {
  for (const [field, text] of Object.entries(book)) {
    if (!field.startsWith('qb:')) continue
    const [window = '', amount = '0'] = text.split(',')
    const of = { ...nameIn(field), window }
    yield { kind: 'counter', account, ...of, settled: 0n, reset: BigInt(amount) }
  }
}

/** Every sum of a book, under the name that `discrepancies` gives to the same sum of rows and calls. */
function* storedIn(book: Snapshot['book']): Generator<readonly [what: string, amount: Pico]> {
  const sum = (field: string) => BigInt(book[field] ?? 0)
  yield ['balance', sum('bal')]
  yield ['held', sum('bal') - sum('avail')]
  yield ['ceilings', sum('ceil')]
  yield ['paid in', sum('in')]
  for (const { owner, id, window, held, ceilings } of countersOf(book)) {
    const name = counterName(owner, id, window)
    yield [`held, ${name}`, held]
    yield [`ceilings, ${name}`, ceilings]
  }
  for (const field of Object.keys(book)) {
    const [kind = '', window = ''] = field.split(':', 2)
    const owner = field.slice(kind.length + 1)
    const key = owner.slice(window.length + 1)
    if (kind === 'n') yield [`calls of key ${owner}`, sum(field)]
    if (kind === 'm') yield [`ceilings of key ${owner}`, sum(field)]
    if (kind !== 's' && kind !== 'c') continue
    const spend = spendName(key, window === 'L' ? 'lifetime' : window)
    const settled = sum(`s:${window}:${key}`)
    if (kind === 's') yield [spend, settled]
    else yield [`held, ${spend}`, sum(field) - settled]
  }
}

function leaseOf(member: string): { readonly key: string; readonly team?: string } {
  const [key = '', team] = member.slice(0, member.indexOf('|')).split('@')
  return { key, ...(team !== undefined && { team }) }
}

// Imports items of an export into Redis, each as a whole and at most once.

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
    let [stored, added] = [0, 0]
    try {
      for (const item of items) {
        added += Number(await this.#take(item))
        stored++
      }
      return { stored, added }
    } catch (error) {
      if (error instanceof RangeError) return { stored, added, refused: error.message }
      throw error
    }
  }

  /** @returns whether the item is new. @throws RangeError when it contradicts the ledger */
  async #take(item: LedgerItem): Promise<boolean> {
    switch (item.kind) {
      case 'account':
        return item.paid && this.#takePaid(item.account)
      case 'limits':
        return this.#takeLimits(item)
      case 'total':
        return this.#takeTotal(item)
      case 'base':
        return this.#takeBase(item)
      case 'counter':
        return this.#takeCounter(item)
      default:
        return this.#takeRow(item)
    }
  }

  async #takePaid(account: string): Promise<boolean> {
    const [book] = keysOf(account, 'book')
    return Number(await this.#connection.ask(() => this.#store.hset(book!, 'tier', '1'))) > 0
  }

  async #takeCounter(item: CounterItem): Promise<boolean> {
    const { account, owner, id, window, settled, reset, rows = '' } = item
    const [book = ''] = keysOf(account, 'book')
    const args = [owner, id, window, `${settled}`, `${reset}`, `${rows}`]
    const [answer] = await this.#connection.ask(() => this.#store.takeCounter(book, ...args))
    return answer === 'taken'
  }

  async #takeLimits({ account, key, limits, revision }: LimitsItem): Promise<boolean> {
    const [book = '', holds = ''] = keysOf(account, 'book', 'h')
    const stored = await this.#connection.ask(() => this.#store.hget(book, `l:${key}`))
    if (stored !== null && toLimits(stored).revision >= revision) return false
    const text = toLimitsText(limits, revision)
    await this.#connection.ask(() => this.#store.limits(book, holds, key, text))
    return true
  }

  async #takeTotal(item: TotalItem): Promise<boolean> {
    const { account, team, day, rows, cost } = item
    const index = await this.#indexOf(account)
    const key = team === undefined ? item.key : `${item.key}@${team}`
    const name = nameOf(day, key)
    const stored = index.totals.get(name)
    const spent = index.spent.get(nameOf(day, item.key)) ?? 0n
    if (!checkTotal(item, stored && { ...item, ...stored }, spent)) return false
    const keys = keysOf(account, 'book', 'f')
    const args = [key, day, `${rows}`, `${cost}`, `${endOf(day)}`]
    const [answer] = await this.#connection.ask(() => this.#store.takeTotal(...keys, ...args))
    if (answer === 'there')
      throw new RangeError(
        `the total of account ${account}, key ${item.key}, ${day} was folded meanwhile`,
      )
    index.totals.set(name, { rows, cost })
    return true
  }

  /** Notes the base of an account that has none. */
  async #takeBase({ account, n, chain }: ChainPoint & { account: string }): Promise<boolean> {
    const [book = '', key = ''] = keysOf(account, 'book', 'f')
    const note = () => this.#store.hsetnx(key, 'chain', chain)
    if (Number(await this.#connection.ask(note)) === 0) return false
    const seq = (await this.#connection.ask(() => this.#store.hget(book, 'seq'))) ?? '0'
    await this.#connection.ask(() => this.#store.hset(key, 'folded', String(n), 'base', seq))
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
      if (again) throw new RangeError(`${kind} "${request}" of account ${account} was folded`)
      // A gateway has booked it since the index was read.
      this.#index = undefined
    }
  }

  #write(item: RowItem): Promise<ScriptReply> {
    const { account, kind, request, key = '', cost, day = '', at, usage, actor = '' } = item
    const text = writeBody(item) ?? ''
    const keys = keysOf(account, 'book', 'u', `r:${request}`, referencesOf(kind))
    const of = usage?.team === undefined ? key : `${key}@${usage.team}`
    const row = [kind, request, of, `${cost}`, day, `${at}`, text, actor]
    const args = [
      ...row,
      ...(isBooking(item) ? effectsOf({ kind: item.kind, ...item.booking }) : []),
    ]
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
    for (const { day, key, team, ...total } of totalsIn(folded)) {
      index.totals.set(nameOf(day, team === undefined ? key : `${key}@${team}`), total)
    }
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

/** The end of a day, ms since epoch. @param day `YYYYMMDD` */
function endOf(day: string): number {
  const [year, month, date] = [day.slice(0, 4), day.slice(4, 6), day.slice(6)].map(Number)
  return Date.UTC(year!, month! - 1, date! + 1)
}
