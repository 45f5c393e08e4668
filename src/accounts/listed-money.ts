/**
 * Balances of accounts and spend of keys, for the order of lists. A ledger of this process is asked each time. For a ledger
 * that gateways share, the sums are kept: read after the start, and read again for accounts that have new rows.
 */
import type { Pico } from '../money/money.ts'
import type { Ledger } from '../state/ledger/ledger.ts'
import { stopping, type Directory, type ListedAccount, type ListedKey } from './directory.ts'

/** Sums for sorting accounts. */
interface ListedTotals {
  readonly balance: Pico
  /** Spend of this UTC month. */
  readonly spentInMonth: Pico
}

interface ListedMoneyOptions {
  readonly ledger: Pick<Ledger, 'balances' | 'spends'>
  readonly directory: Pick<Directory, 'view'>
  /** Whether several gateways book in the ledger. */
  readonly isShared: boolean
  /** Whether {@link ListedMoney.note} is called for every account that has new rows. */
  readonly isFollowed: () => boolean
  /** ms since epoch */
  readonly now: () => number
}

/** Items requested at once: calls wait while the answers are read. */
const BATCH = 100
/** Most accounts that wait until they are read again beside the calls, so that no list waits for more of them. */
const MOST_NOTED = 500
/** Greatest age of sums: in rare cases a note of an account is lost. */
const [FOLLOWED_MS, UNFOLLOWED_MS] = [3_600_000, 60_000]

export class ListedMoney {
  readonly #options: ListedMoneyOptions
  readonly #accounts: KeptSums<ListedAccount, ListedTotals>
  readonly #keys: KeptSums<ListedKey, Pico>
  #preparing: Promise<void> | undefined
  #closed = false

  constructor(options: ListedMoneyOptions) {
    this.#options = options
    const { ledger, now } = options
    const isClosed = () => this.#closed
    this.#accounts = new KeptSums({
      accountOf: ({ id }) => id,
      read: (some) => totalsOf(ledger, some),
      isClosed,
      now,
    })
    this.#keys = new KeptSums({
      accountOf: ({ account }) => account,
      read: (some) => spendsOf(ledger, some),
      isClosed,
      now,
    })
  }

  /** Notes accounts with new rows. */
  note(accounts: readonly string[]): void {
    if (!this.#options.isShared) return
    const noted = [this.#accounts.note(accounts), this.#keys.note(accounts)]
    if (Math.max(...noted) > MOST_NOTED) this.prepare()
  }

  /** Reads missing sums in the background, so that no list waits for them. */
  prepare(): void {
    if (!this.#options.isShared || this.#preparing || this.#closed) return
    this.#preparing = this.#read()
      // A list that is sorted by them gets the error.
      .catch(() => undefined)
      .finally(() => (this.#preparing = undefined))
  }

  /** Totals of each account. @throws Unavailable while the ledger cannot be read */
  totals(all: readonly ListedAccount[]): Promise<readonly ListedTotals[]> {
    const { ledger, isShared, isFollowed } = this.#options
    return isShared ? this.#accounts.of(all, isFollowed()) : totalsOf(ledger, all)
  }

  /** Lifetime spend of each key. @throws Unavailable while the ledger cannot be read */
  spends(all: readonly ListedKey[]): Promise<readonly Pico[]> {
    const { ledger, isShared, isFollowed } = this.#options
    return isShared ? this.#keys.of(all, isFollowed()) : spendsOf(ledger, all)
  }

  /** Ends a reading that is under way. */
  async close(): Promise<void> {
    this.#closed = true
    await this.#preparing
  }

  async #read(): Promise<void> {
    const { accounts, keys } = await this.#options.directory.view()
    await this.totals([...accounts.values()])
    await this.spends([...keys.values()])
  }
}

interface SumsOptions<Item, Sum> {
  readonly accountOf: (item: Item) => string
  readonly read: (some: readonly Item[]) => Promise<readonly Sum[]>
  readonly isClosed: () => boolean
  readonly now: () => number
}

/** Sums by id, with the accounts whose sums have changed since. */
class KeptSums<Item extends { readonly id: string }, Sum> {
  readonly #options: SumsOptions<Item, Sum>
  #sums = new Map<string, Sum>()
  #noted = new Set<string>()
  /** Steady ms. */
  #renewedAt = -Infinity
  #month = ''
  /** One reading after the other. */
  #reading: Promise<unknown> = Promise.resolve()

  constructor(options: SumsOptions<Item, Sum>) {
    this.#options = options
  }

  /** @returns the number of accounts to read again */
  note(accounts: readonly string[]): number {
    for (const account of accounts) this.#noted.add(account)
    return this.#noted.size
  }

  of(items: readonly Item[], isFollowed: boolean): Promise<readonly Sum[]> {
    const answered = this.#reading.then(async () => {
      const month = new Date(this.#options.now()).toISOString().slice(0, 7)
      const ageMs = performance.now() - this.#renewedAt
      if (month !== this.#month || ageMs > (isFollowed ? FOLLOWED_MS : UNFOLLOWED_MS)) {
        this.#sums = new Map()
        this.#month = month
        this.#renewedAt = performance.now()
      }
      await this.#update(items)
      return items.map(({ id }) => this.#sums.get(id)!)
    })
    this.#reading = answered.catch(() => undefined)
    return answered
  }

  async #update(items: readonly Item[]): Promise<void> {
    const { accountOf, read, isClosed } = this.#options
    const noted = this.#noted
    // Accounts noted while the sums are read may be missing in them.
    this.#noted = new Set()
    const due = items.filter((item) => !this.#sums.has(item.id) || noted.has(accountOf(item)))
    try {
      for (let at = 0; at < due.length; at += BATCH) {
        if (isClosed()) throw stopping()
        const some = due.slice(at, at + BATCH)
        for (const [i, sum] of (await read(some)).entries()) this.#sums.set(some[i]!.id, sum)
      }
    } catch (error) {
      this.note([...noted])
      throw error
    }
  }
}

async function totalsOf(
  ledger: ListedMoneyOptions['ledger'],
  some: readonly ListedAccount[],
): Promise<readonly ListedTotals[]> {
  const totals = await ledger.balances(some.map(({ id }) => id))
  return totals.map(({ balance, spend }) => ({ balance, spentInMonth: spend.month }))
}

function spendsOf(
  ledger: ListedMoneyOptions['ledger'],
  some: readonly ListedKey[],
): Promise<readonly Pico[]> {
  return ledger.spends(some.map(({ id, account }) => ({ account, key: id })))
}
