/**
 * The state of each account in memory: what the file has of it at the start, and its book once it is used. SQLite joins the parts of
 * an account to texts, and a book is made of them when its account is used: most accounts are not, and a start with 100,000 keys would
 * take seconds otherwise.
 */
import type { DatabaseSync } from 'node:sqlite'
import { fromStoredSum, type Pico } from '../../money/money.ts'
import { AccountBook, NO_RATES_USED, NOTHING_SPENT } from '../ledger/book.ts'
import { countersIn, countsOf, kindOf, type Counts } from '../ledger/limit-list.ts'
import {
  addCost,
  addTo,
  compareSums,
  counterName,
  counterOwner,
  withoutDropped,
} from '../ledger/sums.ts'
import { isBooking } from '../ledger/items.ts'
import { windowOf, type Clock, type ZoneRule } from '../ledger/windows.ts'
import {
  ACCOUNT,
  type AccountTotals,
  type Discrepancy,
  type KeyLimits,
  type KeySpend,
  type LedgerItem,
  type RatesUsed,
  type Settlement,
} from '../ledger/ledger.ts'
import { all, paidInOf, toLimits, type AccountSums } from './sql.ts'

export type Snapshot = ReadonlyMap<string, StoredBook>

interface StoredBook {
  balance: Pico
  paid: boolean
  paidIn: Pico
  /** JSON: `[window, amount]` of all keys together. */
  spend: string
  /** JSON: `[key, window, amount]` */
  spendOfKeys: string
  /** JSON: {@link LimitsText} of each key, of teams, and of the account. */
  limits: string
  /** JSON: `[owner, id, window, amount]` */
  counters: string
  /** JSON: the same of resets. */
  resets: string
  /** Lifetime spend of its keys; made when a list needs it. */
  lifetimes?: ReadonlyMap<string, Pico>
}

type CounterText = readonly [owner: string, id: string, window: string, amount: string]
type SpendText = readonly [window: string, amount: string]
type KeySpendText = readonly [key: string, ...SpendText]
type LimitsText = readonly [
  key: string,
  disabled: number,
  expiresAt: number | null,
  rpm: number,
  concurrency: number,
  list: string,
  revision: number,
]

/** Reads all accounts, without the spend of windows that ended before a day. @param from `YYYYMMDD` */
export function readSnapshot(db: DatabaseSync, from: string): Snapshot {
  const books = new Map<string, StoredBook>()
  const bookOf = (account: string) => {
    let book = books.get(account)
    if (!book) books.set(account, (book = emptyBook()))
    return book
  }
  const accounts = db.prepare('SELECT id, usd, pico, paid, paid_in_usd, paid_in_pico FROM account')
  for (const { id, paid, ...sums } of all<AccountColumns>(accounts)) {
    const [balance, paidIn] = [fromStoredSum(sums), paidInOf(sums)]
    Object.assign(bookOf(id), { balance, paid: paid === 1n, paidIn })
  }
  // 'lifetime' sorts after every day; a month sorts before its days.
  const spend = db.prepare(
    `SELECT account,
       json_group_array(json_array(window, usd || ' ' || pico))
         FILTER (WHERE key = '${ACCOUNT}') AS spend,
       json_group_array(json_array(key, window, usd || ' ' || pico))
         FILTER (WHERE key <> '${ACCOUNT}') AS keys
     FROM spend WHERE window >= ?1 OR window = substr(?1, 1, 6) GROUP BY account`,
  )
  for (const { account, spend: own, keys } of all<SpendTexts>(spend, from)) {
    Object.assign(bookOf(account), { spend: own, spendOfKeys: keys })
  }
  const limits = db.prepare(
    `SELECT account, json_group_array(json_array(key, disabled, expires_at, rpm, concurrency, list,
       revision)) AS limits
     FROM limits GROUP BY account`,
  )
  for (const row of all<{ account: string; limits: string }>(limits)) {
    bookOf(row.account).limits = row.limits
  }
  for (const [table, valid] of [
    ['counter', "window <> ''"],
    ['reset', 'at > 0'],
  ] as const) {
    const rows = db.prepare(
      `SELECT account, json_group_array(json_array(owner, id, window,
         usd || ' ' || pico) ORDER BY window) AS texts
       FROM ${table} WHERE ${valid} GROUP BY account`,
    )
    for (const { account, texts } of all<{ account: string; texts: string }>(rows)) {
      bookOf(account)[`${table}s`] = texts
    }
  }
  return books
}

/** The amount of a text of both parts, whatever they are: a part in a damaged file may be below 0, or too large. */
function amountIn(text: string): Pico {
  const [usd, pico] = text.split(' ') as [string, string]
  return fromStoredSum({ usd: BigInt(usd), pico: BigInt(pico) })
}

function fillSums(book: AccountBook, stored: StoredBook): void {
  const { balance, paid, paidIn } = stored
  Object.assign(book, { balance, paid, paidIn })
  for (const [window, amount] of spendIn(stored)) {
    book.key(ACCOUNT).window(window).settled = amountIn(amount)
  }
  for (const [key, window, amount] of spendOfKeysIn(stored)) {
    book.key(key).window(window).settled = amountIn(amount)
  }
}

/** Fills what is counted for limits, which the book has already. */
function fillCounters(book: AccountBook, { counters, resets }: StoredBook): void {
  for (const [owner, id, window, amount] of JSON.parse(counters) as readonly CounterText[]) {
    book.fillCounter(owner, id, window, amountIn(amount))
  }
  for (const [owner, id, window, amount] of JSON.parse(resets) as readonly CounterText[]) {
    const sum = amountIn(amount)
    if (sum > 0n) book.addReset(owner, id, window, sum)
  }
}

function* limitsIn({ limits }: StoredBook): Generator<{
  readonly key: string
  readonly limits: KeyLimits
  readonly revision: number
}> {
  for (const row of JSON.parse(limits) as readonly LimitsText[]) {
    const [key, disabled, expiresAt, rpm, concurrency, list, revision] = row
    yield toLimits({
      account: '',
      key,
      disabled: BigInt(disabled),
      expires_at: expiresAt === null ? null : BigInt(expiresAt),
      rpm: BigInt(rpm),
      concurrency: BigInt(concurrency),
      list,
      revision: BigInt(revision),
    })
  }
}

/** Money and spend of an account without running calls. @param day `YYYYMMDD` */
function totalsIn(stored: StoredBook, day: string): AccountTotals {
  const { balance, paid } = stored
  const spend = new Map(spendIn(stored))
  const of = (scope: 'lifetime' | 'day' | 'month') =>
    amountIn(spend.get(windowOf(scope, day)) ?? '0 0')
  return {
    balance,
    available: balance,
    paid,
    spend: { lifetime: of('lifetime'), day: of('day'), month: of('month'), inFlight: 0 },
  }
}

function lifetimeIn(stored: StoredBook, key: string): Pico {
  stored.lifetimes ??= new Map(
    spendOfKeysIn(stored).flatMap(([id, window, amount]) =>
      window === 'lifetime' ? [[id, amountIn(amount)]] : [],
    ),
  )
  return stored.lifetimes.get(key) ?? 0n
}

const NO_LIMITS = { limits: '[]', counters: '[]', resets: '[]' }

function emptyBook(): StoredBook {
  return { balance: 0n, paid: false, paidIn: 0n, spend: '[]', spendOfKeys: '[]', ...NO_LIMITS }
}

function spendIn({ spend }: StoredBook): readonly SpendText[] {
  return JSON.parse(spend)
}

function spendOfKeysIn({ spendOfKeys }: StoredBook): readonly KeySpendText[] {
  return JSON.parse(spendOfKeys)
}

interface AccountColumns extends AccountSums {
  readonly id: string
  readonly paid: bigint
}

interface SpendTexts {
  readonly account: string
  readonly spend: string
  readonly keys: string
}

// The account books of one process: the mirror of its file, with which admission decides.

/** A settlement as plain values, which cost less to send than an object. */
export type Charge = [
  request: string,
  account: string,
  key: string,
  /** The charged day. */
  day: string,
  cost: Pico,
  /** ms since epoch */
  at: number,
  /** UsageRow as JSON. */
  body: string,
  team: string | null,
  /** What the call counts, and in which counters; null where there are none. */
  counts: { readonly counted: string; readonly tokens: bigint; readonly requests: bigint } | null,
]

/** A charge that may not be in the file yet, and what the book has of it. */
export class AppliedCharge {
  /** The arguments of its write. */
  readonly charge: Charge
  readonly day: string
  readonly settlement: Settlement
  readonly #book: AccountBook
  /** The form of the settlement that the book has. */
  #form: Settlement | undefined

  /** @param day the charged day */
  constructor(settlement: Settlement, day: string, book: AccountBook) {
    this.charge = chargeOf(settlement, day)
    this.settlement = settlement
    this.day = day
    this.#book = book
  }

  get moved(): Counts {
    return this.#form ? countsOf(this.#form.cost, this.#form.usage) : NO_COUNTS
  }

  /** Makes the book have a form of the settlement, or nothing of it. @returns the new balance */
  move(to: Settlement | undefined): Pico {
    const { settlement, day, moved } = this
    if (to !== this.#form) {
      this.#form = to
      const now = this.moved
      const more = {
        usd: now.usd - moved.usd,
        tokens: now.tokens - moved.tokens,
        requests: now.requests - moved.requests,
        concurrent: 0n,
      }
      this.#book.move(settlement, day, more.usd)
      this.#book.count(settlement, settlement.usage.counted, more)
    }
    return this.#book.balance
  }

  /** Makes the file get another form. Where the first one was sent to it already, that may be booked. */
  rewrite(settlement: Settlement): void {
    // The array is changed in place: the client has it as the arguments of the write.
    Object.assign(this.charge, chargeOf(settlement, this.day))
  }
}

const NO_COUNTS: Counts = { usd: 0n, tokens: 0n, requests: 0n, concurrent: 0n }

function chargeOf(settlement: Settlement, day: string): Charge {
  const { request, account, key, team = null, cost, usage } = settlement
  const { counted } = usage
  const { tokens, requests } = countsOf(cost, usage)
  const counts = counted === undefined ? null : { counted, tokens, requests }
  return [request, account, key, day, cost, usage.at, JSON.stringify(usage), team, counts]
}

export class AccountBooks {
  readonly #clock: Clock
  readonly #orphaned: (account: string, request: string, key: string, at: number) => void
  readonly #books = new Map<string, AccountBook>()
  /** Accounts of the file that have no book yet. */
  #stored = new Map<string, StoredBook>()
  /** Limits that are in the file in this form. */
  readonly #storedLimits = new WeakSet<KeyLimits>()

  /** @param orphaned called for a call whose lease expired after its hold: it will not be charged */
  constructor(
    clock: Clock,
    orphaned: (account: string, request: string, key: string, at: number) => void,
  ) {
    this.#clock = clock
    this.#orphaned = orphaned
  }

  /** It is undefined for an account that has neither money nor limits. */
  find(account: string): AccountBook | undefined {
    return this.#books.get(account) ?? this.#fromFile(account)
  }

  /** Creates the book on first use. */
  of(account: string): AccountBook {
    return this.find(account) ?? this.#create(account)
  }

  *accounts(): Generator<string> {
    yield* this.#books.keys()
    yield* this.#stored.keys()
  }

  /** Money and spend of an account, also of one without a book. */
  totals(account: string, zone?: ZoneRule): AccountTotals {
    const stored = this.#stored.get(account)
    if (stored) return totalsIn(stored, this.#clock.day(this.#clock.now(), zone))
    const book = this.#books.get(account)
    const state = book?.state() ?? { balance: 0n, available: 0n, paid: false }
    return { ...state, spend: book?.spent(ACCOUNT, zone) ?? NOTHING_SPENT }
  }

  spent(account: string, key: string, zone?: ZoneRule): KeySpend {
    return this.find(account)?.spent(key, zone) ?? NOTHING_SPENT
  }

  rates(account: string, key: string): RatesUsed {
    return this.find(account)?.rates(key) ?? NO_RATES_USED
  }

  /** Lifetime spend of a key, also of an account without a book. */
  lifetimeOf(account: string, key: string): Pico {
    const stored = this.#stored.get(account)
    if (stored) return lifetimeIn(stored, key)
    return this.#books.get(account)?.lifetimeOf(key) ?? 0n
  }

  load(snapshot: Snapshot): void {
    this.#stored = new Map(snapshot)
  }

  /**
   * Reloads the sums of the file; limits and running calls stay.
   * @param unconfirmed may be in the file or not. The answer to their second write tells, and takes those back that are.
   */
  reload(snapshot: Snapshot, unconfirmed: Iterable<AppliedCharge>): void {
    this.load(snapshot)
    for (const [account, book] of this.#books) {
      book.clearSums()
      const stored = snapshot.get(account)
      if (stored) fillSums(book, stored)
      if (stored) fillCounters(book, stored)
      this.#stored.delete(account)
    }
    for (const { settlement, day, moved } of unconfirmed) {
      const book = this.of(settlement.account)
      book.move(settlement, day, moved.usd)
      book.count(settlement, settlement.usage.counted, moved)
    }
  }

  isStored(limits: KeyLimits | undefined): boolean {
    return limits !== undefined && this.#storedLimits.has(limits)
  }

  noteStored(limits: KeyLimits): void {
    this.#storedLimits.add(limits)
  }

  import(item: LedgerItem): void {
    if (item.kind === 'base') return
    const book = this.of(item.account)
    if (item.kind === 'account') book.paid ||= item.paid
    if (item.kind === 'total') book.move(item, item.day, item.cost)
    if (item.kind === 'usage') {
      const { key = '', day = '', cost, usage } = item
      book.move({ key, team: usage?.team }, day, cost)
    }
    if (isBooking(item)) book.book({ kind: item.kind, ...item.booking }, -item.cost)
    if (item.kind === 'counter') {
      const { owner, id, window, settled, reset } = item
      book.fillCounter(owner, id, window, settled - book.settledIn(owner, id, window))
      if (reset > 0n) book.addReset(owner, id, window, reset)
    }
    if (item.kind !== 'limits') return
    book.limit(item.key, item.limits, item.revision)
    this.noteStored(item.limits)
  }

  /**
   * Compares a book with the sums of the file, and its running sums with its calls. An account without a book has nothing to compare.
   * @param kept the first windows of spend that are compared. @param stored is asked for the sums of the file
   */
  async compare(
    account: string,
    kept: readonly [day: string, month: string],
    unconfirmed: Iterable<AppliedCharge>,
    stored: (account: string) => Promise<ReadonlyMap<string, Pico>>,
  ): Promise<Discrepancy[]> {
    if (!this.#books.has(account)) return []
    const sums = new Map(await stored(account))
    const book = this.#books.get(account)!
    for (const { settlement, day, moved } of unconfirmed) {
      if (settlement.account !== account) continue
      const { key, team, usage } = settlement
      addCost(sums, { kind: 'usage', key, team, day, cost: moved.usd })
      for (const { of, id, window } of countersIn(usage.counted)) {
        const name = counterName(counterOwner(of, settlement), id, window)
        addTo(sums, name, moved[kindOf(id).unit])
      }
    }
    const counted = [...book.counted()].map(
      ([owner, id, window, amount]) => [counterName(owner, id, window), amount] as const,
    )
    const settled = new Map([...book.settled(), ...counted])
    const differences = [
      ...compareSums(account, withoutDropped(settled, kept), sums),
      ...compareSums(account, book.running(), book.recomputeRunning()),
    ]
    return differences.map((one) => ({ ...one, what: `${one.what}, in memory` }))
  }

  #fromFile(account: string): AccountBook | undefined {
    const stored = this.#stored.get(account)
    if (!stored) return undefined
    this.#stored.delete(account)
    const book = this.#create(account)
    fillSums(book, stored)
    for (const { key, limits, revision } of limitsIn(stored)) {
      book.limit(key, limits, revision)
      this.noteStored(limits)
    }
    fillCounters(book, stored)
    return book
  }

  #create(account: string): AccountBook {
    const book = new AccountBook(this.#clock, ({ request, key, at }) =>
      this.#orphaned(account, request, key.id, at),
    )
    this.#books.set(account, book)
    return book
  }
}
