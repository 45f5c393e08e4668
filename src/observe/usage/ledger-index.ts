/** Keeps the tables of settled calls level with the ledger, and compares them with the ledger's own sums. */
import type { DatabaseSync } from 'node:sqlite'
import type { Pico } from '../../money/money.ts'
import { beginChain, chained } from '../../state/ledger/chain.ts'
import { transact } from '../../state/sqlite/file.ts'
import { NO_CREDIT, toBlocks, toTexts, type CreditState } from '../../state/ledger/blocks.ts'
import type { BookedRow } from './charge.ts'
import type {
  BookingDetails,
  ChainPoint,
  LedgerHead,
  LedgerReader,
  ReadRow,
} from '../../state/ledger/ledger.ts'
import { bookedIn, costsIn, SettledTables } from './settled.ts'
import { unitOf } from './tables.ts'

export interface UsageDifference {
  readonly account: string
  /** It is absent for the balance of the account. */
  readonly key?: string
  readonly indexed: Pico
  readonly ledger: Pico
}

interface AccountState {
  seq: number
  request: string
  /** Place of the chain after that row. */
  chain: ChainPoint
  /** The chain begins after this row. */
  after: number
  /** Number of the month of the newest row, as in `unitOf`. */
  month: number
  /** Spend of each key, and bookings: sums of the tables. */
  readonly costs: Map<string, Pico>
  booked: Pico
  /** The state after that row. */
  credit: CreditState
  /** The head up to which all rows are in the tables. */
  head: LedgerHead | undefined
  /** ms since epoch of the last comparison, and its result. */
  checkedAt: number
  differences: readonly UsageDifference[]
  /** Whether a difference has led to reading the account again since it last agreed. */
  repaired: boolean
}

export interface Checked {
  /** It is undefined while rows wait to be read. */
  readonly agrees: boolean | undefined
  /** Moment of the oldest comparison behind it, ms since epoch. */
  readonly asOf: number
  readonly differences: readonly UsageDifference[]
  /** Share of the rows that are in the tables. */
  readonly indexed: number
}

interface IndexOptions {
  readonly db: DatabaseSync
  readonly reader: LedgerReader
  /** Rows that are read and written at once. */
  readonly pageRows: number
  /** ms since epoch */
  readonly now: () => number
  /** It is called for every difference, before the account is read again. */
  readonly differs: (differences: readonly UsageDifference[]) => void
  /** It is called for an account of a shared ledger that has lacked rows for longer than a gateway sends them again. */
  readonly lacks: (account: string) => void
  /** It is called for bookings of the last day that were read; some were reported before. */
  readonly booked?: (bookings: readonly NewBooking[]) => void
}

/** A booking that was read. */
export interface NewBooking {
  readonly account: string
  readonly seq: number
  readonly kind: string
  readonly amount: Pico
  /** The balance after the booking. */
  readonly balance: Pico
  readonly reference: string
  readonly note: string | null
  readonly details: BookingDetails | undefined
}

const NEW_MS = 86_400_000

/** A time longer than a gateway sends again what a failover has lost. */
const LACKS_MS = 150_000
/** A time longer than it takes until another ledger in the place of the present one is in doubt. */
const DOUBTED_MS = 10_000

/** Most accounts that are all compared each time; of more, those with new rows are, and all only from time to time. */
const FEW_ACCOUNTS = 200
const COMPARE_MS = 60_000
/** Attempts to reach a head that keeps moving. */
const ATTEMPTS = 5

export class LedgerIndex {
  readonly #options: IndexOptions
  readonly #tables: SettledTables
  readonly #accounts = new Map<string, AccountState>()
  /** The last work on each account, which the next one waits for. */
  readonly #busy = new Map<string, Promise<void>>()
  /** The last emptying of all tables. */
  #emptied: Promise<void> = Promise.resolve()
  readonly #waiting = new Set<string>()
  /** Accounts that were noted since the last comparison of all. */
  readonly #changed = new Set<string>()
  #working: Promise<void> | undefined
  readonly #heads = new Map<string, LedgerHead>()
  #comparedAt = -Infinity
  #comparing: Promise<void> | undefined
  #closed = false
  /** The moment since which the ledger has had another identity, steady ms. */
  #otherSince = Infinity
  /** Accounts that have fewer rows than were read, and since when, steady ms. */
  readonly #lacking = new Map<string, number>()
  /** While the ledger is not the one that was used until now, the tables stay as they are: they tell what it lacks. */
  isFrozen = false

  constructor(options: IndexOptions) {
    this.#options = options
    this.#tables = new SettledTables(options.db)
  }

  /** Begins: empties the tables where they belong to another ledger. New rows are read by {@link compare}. */
  async open(): Promise<void> {
    if (this.isFrozen) return
    const { db, reader } = this.#options
    const id = await reader.id()
    if (this.#indexedId() !== id) {
      await this.#empty(() =>
        db.prepare(`INSERT OR REPLACE INTO meta VALUES ('ledger', ?)`).run(id),
      )
    }
  }

  #indexedId(): unknown {
    return this.#options.db.prepare(`SELECT value FROM meta WHERE name = 'ledger'`).get()?.value
  }

  /**
   * Whether an account may be read again because its rows are others. Where another ledger has just come in the place of its own, the
   * tables are what tells what that one lacks: a doubt freezes them soon, and without one they follow.
   */
  async #mayReset(): Promise<boolean> {
    if (this.isFrozen) return false
    const isSame = (await this.#options.reader.id()) === this.#indexedId()
    this.#otherSince = isSame ? Infinity : Math.min(this.#otherSince, performance.now())
    return isSame || performance.now() - this.#otherSince > DOUBTED_MS
  }

  get lag(): number {
    let rows = 0
    for (const [account, head] of this.#heads) {
      rows += Math.max(0, head.seq - (this.#accounts.get(account)?.seq ?? 0))
    }
    return this.#waiting.size === 0 ? 0 : rows
  }

  note(accounts: Iterable<string>): void {
    for (const account of accounts) {
      this.#waiting.add(account)
      this.#changed.add(account)
    }
    this.#work()
  }

  /** Adds rows that follow those in the tables; an account that lacks others before them is read. */
  book(booked: readonly BookedRow[]): void {
    const { db } = this.#options
    const following = new Map<string, ReadRow[]>()
    const others = new Set<string>()
    for (const { account, previous, row } of booked) {
      const rows = following.get(account) ?? []
      const last = rows.at(-1)?.seq ?? this.#followedBy(account)
      if (previous === last) following.set(account, [...rows, row])
      else others.add(account)
      this.#changed.add(account)
    }
    transact(db, () => {
      for (const [account, rows] of following) {
        this.#add(account, this.#stateOf(account), rows)
      }
    })
    this.note(others)
  }

  /** The row after which rows of an account can be added as they come; undefined where it has to be read. */
  #followedBy(account: string): number | undefined {
    if (this.#closed || this.#busy.has(account)) return undefined
    const { request, seq, head, differences, chain } = this.#stateOf(account)
    const isRead = request !== '' && chain.chain !== NO_CHAIN
    return !isRead || !head || differences.length > 0 ? undefined : seq
  }

  /** Compares all heads with the rows read, and reads new rows in the background. */
  compare(): Promise<void> {
    return (this.#comparing ??= this.#compareAll().finally(() => (this.#comparing = undefined)))
  }

  /**
   * Brings accounts level with the ledger, as far as the time allows.
   * @param accounts absent for all. @param until steady ms
   * @param isWhole whether all of many accounts are compared now, and not only those with new rows
   */
  async check(
    accounts: readonly string[] | undefined,
    until: number,
    isWhole = false,
  ): Promise<Checked> {
    const areFew = accounts !== undefined && accounts.length <= FEW_ACCOUNTS
    if (!areFew && this.#comparedAt === -Infinity) await this.compare()
    const isDue = performance.now() - this.#comparedAt > COMPARE_MS
    const isFull = isWhole || isDue || (accounts?.length ?? this.#heads.size) <= FEW_ACCOUNTS
    const fresh = await this.#fresh(isFull ? accounts : this.#changedOf(accounts))
    const heads = isFull ? fresh : accounts ? this.#headsOf(accounts) : this.#heads
    const late: string[] = []
    for (const [account, head] of fresh) {
      if (this.#isLevel(account, head) && this.#compareWith(account, head)) continue
      if (performance.now() < until) await this.#bring(account)
      else late.push(account)
    }
    this.note(late)
    this.#tables.renewOverall()
    return this.#verdict(heads)
  }

  /** Adds up the tables of all accounts again, and compares. */
  async verify(): Promise<Checked> {
    for (const [account, state] of this.#accounts) {
      await this.#alone(account, async () => this.#sum(account, state))
    }
    this.#tables.renewOverall(true)
    return this.check(undefined, Infinity, true)
  }

  /** Empties the tables, and reads everything again in the background. */
  async rebuild(): Promise<void> {
    await this.#empty()
    await this.compare()
  }

  /** Empties the tables after all work on accounts that has begun, which would add its rows to emptied tables; later work waits. */
  #empty(write = (): unknown => undefined): Promise<void> {
    const begun = [this.#emptied, ...this.#busy.values()]
    const emptied = Promise.all(begun).then(() => {
      transact(this.#options.db, () => {
        this.#tables.clear()
        write()
      })
      this.#accounts.clear()
    })
    this.#emptied = emptied.catch(() => undefined)
    return emptied
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#waiting.clear()
    await this.#working
    await Promise.all([this.#emptied, ...this.#busy.values()])
  }

  async #compareAll(): Promise<void> {
    const heads = await this.#fresh().catch((error: unknown) => {
      if (!this.#closed) throw error
    })
    if (!heads) return
    const isLevel = ([id, head]: [string, LedgerHead]) =>
      this.#isLevel(id, head) && this.#compareWith(id, head)
    this.note([...this.#heads].filter((one) => !isLevel(one)).map(([id]) => id))
  }

  /** Accounts that may have new rows; of a shared ledger only as many as are read at once. @param accounts absent for all */
  #changedOf(accounts?: readonly string[]): readonly string[] {
    const changed = [...this.#changed].filter((one) => accounts?.includes(one) ?? true)
    return this.#options.reader.shared ? changed.slice(0, FEW_ACCOUNTS) : changed
  }

  /** Reads heads, and keeps them. @param accounts absent for all */
  async #fresh(accounts?: readonly string[]): Promise<ReadonlyMap<string, LedgerHead>> {
    // Accounts that are noted meanwhile are read with the next ones.
    for (const account of accounts ?? this.#changed) this.#changed.delete(account)
    const heads = await this.#options.reader.heads(accounts)
    if (!accounts) {
      this.#heads.clear()
      this.#comparedAt = performance.now()
    }
    for (const [account, head] of heads) this.#heads.set(account, head)
    return heads
  }

  /** Heads of the last reading; an account without a head has no row. */
  #headsOf(accounts: readonly string[]): ReadonlyMap<string, LedgerHead> {
    const readIds = accounts.filter((id) => this.#heads.has(id))
    return new Map(readIds.map((id) => [id, this.#heads.get(id)!]))
  }

  /** Whether all rows up to a head are in the tables, of an account whose rows were read once by this process. */
  #isLevel(account: string, head: LedgerHead): boolean {
    const state = this.#stateOf(account)
    return state.head !== undefined && state.seq === head.seq && state.differences.length === 0
  }

  #verdict(heads: ReadonlyMap<string, LedgerHead>): Checked {
    let [asOf, rows, read] = [this.#options.now(), 0, 0]
    let isLevel = true
    const differences: UsageDifference[] = []
    for (const [account, { seq }] of heads) {
      const state = this.#stateOf(account)
      rows += seq
      read += state.head && state.head.seq >= seq ? seq : Math.min(state.seq, seq)
      if (!state.head || state.head.seq < seq) isLevel = false
      asOf = Math.min(asOf, state.checkedAt || asOf)
      differences.push(...state.differences)
    }
    const agrees = differences.length > 0 ? false : isLevel ? true : undefined
    return { agrees, asOf, differences, indexed: rows === 0 ? 1 : read / rows }
  }

  #work(): void {
    if (this.#closed || this.#working || this.#waiting.size === 0) return
    const run = async () => {
      for (const account of this.#waiting) {
        this.#waiting.delete(account)
        await this.#bring(account)
        await nextTurn()
      }
    }
    this.#working = run().finally(() => (this.#working = undefined))
    // Rows that could not be read are read with the next comparison.
    this.#working.catch(() => undefined)
  }

  /** Reads an account up to its head, and compares. A difference leads to reading it again, once. */
  #bring(account: string): Promise<void> {
    return this.#alone(account, async () => {
      const { reader } = this.#options
      const state = this.#stateOf(account)
      for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
        const head = (await reader.heads([account])).get(account)
        if (!head || this.#closed || this.isFrozen || this.#isLacking(account, head)) return
        if (!(await this.#advance(account, state, head.seq))) return
        if (this.#compareWith(account, head)) {
          state.repaired = false
          return
        }
        if (state.repaired || !(await this.#mayReset())) return
        state.repaired = true
        this.#options.differs(state.differences)
        this.#reset(account, state)
      }
    })
  }

  /** Whether a shared ledger lacks rows that were read. It may get them again. */
  #isLacking(account: string, head: LedgerHead): boolean {
    // In a file a fold may have taken the newest row.
    if (!this.#options.reader.shared || head.seq >= this.#stateOf(account).seq) {
      this.#lacking.delete(account)
      return false
    }
    const now = performance.now()
    const since = this.#lacking.get(account) ?? now
    this.#lacking.set(account, since)
    if (now - since > LACKS_MS) this.#options.lacks(account)
    return true
  }

  /** Looks again at accounts that lack rows. */
  lookAgain(): void {
    this.note(this.#lacking.keys())
  }

  /** Adds the rows up to a sequence. @returns false where it was ended earlier */
  async #advance(account: string, state: AccountState, last: number): Promise<boolean> {
    const { db, reader, pageRows } = this.#options
    if (state.chain.chain === NO_CHAIN) await this.#chainAnew(account, state)
    while (!this.#closed) {
      if (state.seq === 0 && state.request === '') await this.#beginAccount(account, state)
      const from = state.request === '' ? state.seq + 1 : state.seq
      // One row more: the last one of the page before, which tells whether the history is the same.
      const page = await reader.rows(account, from, pageRows + 1)
      const [first] = page
      if (state.request !== '' && first?.seq === state.seq) {
        if (first.request !== state.request) {
          if (!(await this.#mayReset())) return false
          this.#reset(account, state)
          continue
        }
      }
      const rows = page.filter(({ seq }) => seq > state.seq && seq <= last)
      const newest = rows.at(-1)
      if (!newest) return true
      transact(db, () => {
        this.#add(account, state, rows)
      })
      await nextTurn()
    }
    return false
  }

  /** Makes the chain up to the last row in the tables. */
  async #chainAnew(account: string, state: AccountState): Promise<void> {
    const { reader, pageRows } = this.#options
    const { seq, ...base } = await reader.base(account)
    let chain: ChainPoint = base
    for (let from = seq + 1; !this.#closed;) {
      const page = await reader.rows(account, from, pageRows)
      const rows = page.filter((row) => row.seq <= state.seq)
      for (const row of rows) chain = chained(chain, row)
      state.month = rows.reduce(
        (month, { at }) => Math.max(month, unitOf('month', at)),
        state.month,
      )
      if (rows.length < pageRows) break
      from = page.at(-1)!.seq + 1
      await nextTurn()
    }
    state.chain = chain
    state.after = seq
    this.#remember(account)
  }

  /** Folded rows of an account come first. */
  async #beginAccount(account: string, state: AccountState): Promise<void> {
    const { db, reader } = this.#options
    const totals = await reader.totals(account)
    const { seq, ...chain } = await reader.base(account)
    // Bookings before the base are read, and its chain has them already.
    state.after = seq
    state.chain = chain
    state.request = BEGUN
    transact(db, () => {
      this.#tables.addFolded(account, totals)
      this.#remember(account)
    })
    this.#sum(account, state)
  }

  /** It is called inside a transaction. */
  #add(account: string, state: AccountState, rows: readonly ReadRow[]): void {
    const { credit, booked } = state
    state.credit = this.#tables.add(account, rows, credit, booked)
    addTo(state, rows)
    this.#remember(account)
    if (rows.some(({ kind }) => kind !== 'usage' && kind !== 'orphan'))
      this.tellBookings(account, rows[0]!.seq)
  }

  /** Tells of bookings of the last day. @param account absent for all */
  tellBookings(account: string | null = null, from = 0): void {
    const { db, now, booked } = this.#options
    if (!booked) return
    const select = db.prepare(
      `SELECT account, seq, kind, amount, balance, reference, note, details FROM booking
       WHERE at > ?1 AND balance IS NOT NULL AND (?2 IS NULL OR account = ?2) AND seq >= ?3 ORDER BY seq`,
    )
    select.setReadBigInts(true)
    const rows = select.all(now() - NEW_MS, account, from).map((row) => ({
      account: String(row.account),
      seq: Number(row.seq),
      kind: String(row.kind),
      amount: row.amount as bigint,
      balance: BigInt(String(row.balance)),
      reference: String(row.reference),
      note: row.note === null ? null : String(row.note),
      details: row.details === null ? undefined : JSON.parse(String(row.details)),
    }))
    if (rows.length > 0) booked(rows)
  }

  #remember(account: string): void {
    const { seq, request, chain, after, month, credit } = this.#stateOf(account)
    const put = 'INSERT OR REPLACE INTO progress VALUES (?, ?, ?, ?, ?, ?, ?, ?)'
    const blocks = JSON.stringify(toTexts(credit.blocks))
    const { n, chain: place } = chain
    this.#options.db.prepare(put).run(account, seq, request, n, place, after, month, blocks)
  }

  #reset(account: string, state: AccountState): void {
    const { n, chain } = state.chain
    transact(this.#options.db, () => {
      this.#tables.remove(account)
      // Changed rows may have made this reading necessary: what was read before proves it.
      const note = 'INSERT OR IGNORE INTO noted VALUES (?, ?, ?)'
      if (n > 0) this.#options.db.prepare(note).run(account, n, chain)
    })
    state.seq = 0
    state.chain = beginChain(account)
    state.month = 0
    state.request = ''
    state.head = undefined
    state.credit = NO_CREDIT
    this.#sum(account, state)
  }

  #stateOf(account: string): AccountState {
    const loaded = this.#accounts.get(account)
    if (loaded) return loaded
    const progress = this.#options.db
      .prepare('SELECT * FROM progress WHERE account = ?')
      .get(account)
    const state: AccountState = {
      seq: Number(progress?.seq ?? 0),
      request: String(progress?.request ?? ''),
      chain: progress
        ? { n: Number(progress.n), chain: String(progress.chain) }
        : beginChain(account),
      after: Number(progress?.after ?? 0),
      month: Number(progress?.month ?? 0),
      costs: new Map(),
      booked: 0n,
      credit: { spent: 0n, blocks: toBlocks(JSON.parse(String(progress?.blocks ?? '[]'))) },
      head: undefined,
      checkedAt: 0,
      differences: [],
      repaired: false,
    }
    this.#sum(account, state)
    this.#accounts.set(account, state)
    return state
  }

  #sum(account: string, state: AccountState): void {
    state.costs.clear()
    for (const [key, cost] of costsIn(this.#options.db, account)) state.costs.set(key, cost)
    state.booked = bookedIn(this.#options.db, account)
    const spent = [...state.costs.values()].reduce((sum, cost) => sum + cost, 0n)
    state.credit = { ...state.credit, spent }
  }

  /** @param head up to which all rows are in the tables. @returns whether nothing differs */
  #compareWith(account: string, head: LedgerHead): boolean {
    const { balance, lifetime } = head
    const state = this.#stateOf(account)
    state.head = head
    const differences: UsageDifference[] = []
    let spent = 0n
    for (const key of new Set([...state.costs.keys(), ...lifetime.keys()])) {
      const [indexed, ledger] = [state.costs.get(key) ?? 0n, lifetime.get(key) ?? 0n]
      spent += indexed
      if (indexed !== ledger) differences.push({ account, key, indexed, ledger })
    }
    const indexed = state.booked - spent
    if (indexed !== balance) differences.push({ account, indexed, ledger: balance })
    state.differences = differences
    state.checkedAt = this.#options.now()
    return differences.length === 0
  }

  /** Runs work on one account after all earlier work on it. */
  #alone(account: string, work: () => Promise<void>): Promise<void> {
    const done = Promise.all([this.#emptied, this.#busy.get(account)]).then(work)
    const quiet = done.catch(() => undefined)
    this.#busy.set(account, quiet)
    void quiet.then(() => {
      if (this.#busy.get(account) === quiet) this.#busy.delete(account)
    })
    return done
  }
}

function addTo(state: AccountState, rows: readonly ReadRow[]): void {
  const newest = rows.at(-1)!
  state.seq = newest.seq
  state.request = newest.request
  for (const row of rows) {
    const { kind, key = '', cost, seq, at } = row
    if (seq > state.after) state.chain = chained(state.chain, row)
    state.month = Math.max(state.month, unitOf('month', at))
    if (kind === 'usage') state.costs.set(key, (state.costs.get(key) ?? 0n) + cost)
    else state.booked -= cost
  }
}

/** Chain of an account in tables of an earlier release. */
export const NO_CHAIN = ''

/** Request of the last row of an account that has none yet. */
const BEGUN = '-'

/** Lets questions and settlements run in between. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve)
  })
}
