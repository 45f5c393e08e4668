/**
 * The file's state of each account, as the main thread gets it at the start. SQLite joins the parts of an account to texts, and
 * a book is made of them when its account is used: most accounts are not, and a start with 100,000 keys would take seconds
 * otherwise.
 */
import type { DatabaseSync } from 'node:sqlite'
import { fromStoredSum, type Pico } from '../../money/money.ts'
import { type AccountBook, windowOf } from '../ledger/book.ts'
import { ACCOUNT, type AccountTotals, type KeyLimits } from '../ledger/ledger.ts'
import { all, paidInOf, toLimits, type AccountSums } from './sql.ts'

export type Snapshot = ReadonlyMap<string, StoredBook>

export interface StoredBook {
  balance: Pico
  paid: boolean
  paidIn: Pico
  /** JSON: `[window, amount]` of all keys together. */
  spend: string
  /** JSON: `[key, window, amount]` */
  spendOfKeys: string
  /** JSON: {@link LimitsText} of each key, and of the account. */
  limits: string
  /** Lifetime spend of its keys; made when a list needs it. */
  lifetimes?: ReadonlyMap<string, Pico>
}

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
  // Spend is never below 0, so both parts together are the digits of the whole.
  // 'lifetime' sorts after every day; a month sorts before its days.
  const spend = db.prepare(
    `SELECT account,
       json_group_array(json_array(window, usd || printf('%012d', pico)))
         FILTER (WHERE key = '${ACCOUNT}') AS spend,
       json_group_array(json_array(key, window, usd || printf('%012d', pico)))
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
  return books
}

export function fillSums(book: AccountBook, stored: StoredBook): void {
  const { balance, paid, paidIn } = stored
  Object.assign(book, { balance, paid, paidIn })
  for (const [window, amount] of spendIn(stored)) {
    book.key(ACCOUNT).window(window).settled = BigInt(amount)
  }
  for (const [key, window, amount] of spendOfKeysIn(stored)) {
    book.key(key).window(window).settled = BigInt(amount)
  }
}

export function* limitsIn({ limits }: StoredBook): Generator<{
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
export function totalsIn(stored: StoredBook, day: string): AccountTotals {
  const { balance, paid } = stored
  const spend = new Map(spendIn(stored))
  const of = (scope: 'lifetime' | 'day' | 'month') => BigInt(spend.get(windowOf(scope, day)) ?? 0)
  return {
    balance,
    available: balance,
    paid,
    spend: { lifetime: of('lifetime'), day: of('day'), month: of('month'), inFlight: 0 },
  }
}

export function lifetimeIn(stored: StoredBook, key: string): Pico {
  stored.lifetimes ??= new Map(
    spendOfKeysIn(stored).flatMap(([id, window, amount]) =>
      window === 'lifetime' ? [[id, BigInt(amount)]] : [],
    ),
  )
  return stored.lifetimes.get(key) ?? 0n
}

function emptyBook(): StoredBook {
  return { balance: 0n, paid: false, paidIn: 0n, spend: '[]', spendOfKeys: '[]', limits: '[]' }
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
