/** Keeps the tables of settled calls level with the ledger, and compares them with the ledger's own sums. */
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import type { Pico } from '../../money/money.ts'
import { beginChain, chained } from '../../state/ledger/chain.ts'
import { transact } from '../../state/sqlite/file.ts'
import type { BookedRow } from './charge.ts'
import type {
  ChainPoint,
  UsageRow,
  LedgerHead,
  LedgerReader,
  ReadRow,
  FoldedTotal,
} from '../../state/ledger/ledger.ts'
import { QUANTITIES, type Quantity } from '../../server/admin/resources/usage.ts'
import { QUANTITY_MEMBERS } from '../record.ts'
import {
  addUp,
  ROLLUPS,
  SETTLED,
  SETTLED_GROUPS,
  SETTLED_SUMMARIES,
  SETTLED_SUMS,
  unitOf,
  Rollups,
  type TableSet,
  TAGGED_QUANTITIES,
} from './tables.ts'

export interface UsageDifference {
  readonly account: string
  /** Absent for the balance of the account. */
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
  /** The head up to which all rows are in the tables. */
  head: LedgerHead | undefined
  /** ms since epoch of the last comparison, and its result. */
  checkedAt: number
  differences: readonly UsageDifference[]
  /** Whether a difference has led to reading the account again since it last agreed. */
  repaired: boolean
}

export interface Checked {
  /** undefined while rows wait to be read. */
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
  /** Called for every difference, before the account is read again. */
  readonly differs: (differences: readonly UsageDifference[]) => void
  /** Called for an account of a shared ledger that has lacked rows for longer than a gateway sends them again. */
  readonly lacks: (account: string) => void
}

/** Longer than a gateway sends again what a failover has lost. */
const LACKS_MS = 150_000

/** Above this number of accounts, all are compared only from time to time, and in between those with new rows. */
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
  readonly #waiting = new Set<string>()
  /** Accounts that were noted since the last comparison of all. */
  readonly #changed = new Set<string>()
  #working: Promise<void> | undefined
  readonly #heads = new Map<string, LedgerHead>()
  #comparedAt = -Infinity
  #comparing: Promise<void> | undefined
  #closed = false
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
    const indexedId = db.prepare(`SELECT value FROM meta WHERE name = 'ledger'`).get()?.value
    if (indexedId !== id) {
      transact(db, () => {
        this.#tables.clear()
        db.prepare(`INSERT OR REPLACE INTO meta VALUES ('ledger', ?)`).run(id)
      })
      this.#accounts.clear()
    }
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
        this.#tables.add(account, rows)
        addTo(this.#stateOf(account), rows)
        this.#remember(account)
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
    transact(this.#options.db, () => this.#tables.clear())
    this.#accounts.clear()
    await this.compare()
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#waiting.clear()
    await this.#working
    await Promise.all(this.#busy.values())
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
        if (state.repaired) return
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
          this.#reset(account, state)
          continue
        }
      }
      const rows = page.filter(({ seq }) => seq > state.seq && seq <= last)
      const newest = rows.at(-1)
      if (!newest) return true
      transact(db, () => {
        this.#tables.add(account, rows)
        addTo(state, rows)
        this.#remember(account)
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

  #remember(account: string): void {
    const { seq, request, chain, after, month } = this.#stateOf(account)
    const put = 'INSERT OR REPLACE INTO progress VALUES (?, ?, ?, ?, ?, ?, ?)'
    this.#options.db.prepare(put).run(account, seq, request, chain.n, chain.chain, after, month)
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
    for (const [key, cost] of this.#tables.costs(account)) state.costs.set(key, cost)
    state.booked = this.#tables.booked(account)
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
    const done = (this.#busy.get(account) ?? Promise.resolve()).then(work)
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

// Adds rows of the ledger to the tables: each row once, in one hour, day and month, and among one tag and one user.

/** The model, tag and user of calls whose rows were folded before they were read. */
const FOLDED = '(folded)'
/** Placeholder for tags, and users, of an account and day beyond the number that is kept apart. */
const OTHER = '(other)'
const MOST_VALUES = 10_000
/** Most accounts and days whose number of values is cached. */
const MOST_COUNTS = 10_000

/** Marks that the sums of all accounts have to be made again; it outlives the process. */
const STALE = `INSERT OR REPLACE INTO meta VALUES ('overall', 'stale')`
const IS_STALE = `SELECT 1 FROM meta WHERE name = 'overall'`
const RENEWED = `DELETE FROM meta WHERE name = 'overall'`

interface Sums {
  calls: number
  cost: Pico
  estimated: number
  readonly quantities: Partial<Record<Quantity, number>>
}

/** Calls of one hour that differ in nothing but their moment. */
interface SettledCalls {
  /** ms since epoch. */
  readonly at: number
  /** A moment of the charged day, as if that were of UTC. */
  readonly day: number
  /** Values of {@link SETTLED_GROUPS}, in their order. */
  readonly group: readonly string[]
  readonly tag: string
  readonly user: string
  readonly sums: Sums
}

/** Writes the tables of settled calls. Methods that write are called inside a transaction. */
export class SettledTables {
  readonly #db: DatabaseSync
  readonly #rollups: Rollups
  readonly #summaries: readonly { readonly rollups: Rollups; readonly places: readonly number[] }[]
  /** Adds to a day, and to a month. */
  readonly #tags: readonly (readonly [unit: 'day' | 'month', add: StatementSync])[]
  readonly #isTagged: StatementSync
  readonly #countTagged: StatementSync
  readonly #book: StatementSync
  readonly #counts = new Map<string, number>()

  constructor(db: DatabaseSync) {
    this.#db = db
    const options = { values: SETTLED_SUMS, added: addedTo }
    this.#rollups = new Rollups(db, SETTLED, options)
    this.#summaries = SETTLED_SUMMARIES.map((tables) => ({
      rollups: new Rollups(db, tables, options),
      places: tables.groups.map((name) => groupsInOrder.indexOf(name)),
    }))
    const addTo = (table: string) =>
      db.prepare(
        `INSERT INTO ${table} (unit, account, key, kind, value, calls, billions, rest,
           ${TAGGED_QUANTITIES.join(', ')})
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ${TAGGED_QUANTITIES.map(() => '?').join(', ')})
         ON CONFLICT DO UPDATE SET calls = calls + excluded.calls,
           billions = billions + excluded.billions, rest = rest + excluded.rest,
           ${TAGGED_QUANTITIES.map(addedTo).join(', ')}`,
      )
    this.#tags = [
      ['day', addTo('tagged')],
      ['month', addTo('tagged_month')],
    ]
    this.#isTagged = db.prepare(
      'SELECT 1 FROM tagged WHERE unit = ? AND account = ? AND kind = ? AND value = ? LIMIT 1',
    )
    this.#countTagged = db.prepare(
      'SELECT count(DISTINCT value) AS values_ FROM tagged WHERE unit = ? AND account = ? AND kind = ?',
    )
    this.#book = db.prepare('INSERT INTO booking VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)')
  }

  add(account: string, rows: readonly ReadRow[]): void {
    const calls = new Map<string, SettledCalls>()
    for (const row of rows) {
      const { seq, kind, request, at, cost, note, actor, booking } = row
      if (kind === 'usage') addCall(calls, account, row)
      else if (kind !== 'orphan') {
        const ends = booking?.expiresAt ?? null
        this.#book.run(account, seq, at, kind, -cost, request, note ?? null, actor ?? null, ends)
      }
    }
    this.#addCalls(account, [...calls.values()])
  }

  addFolded(account: string, totals: readonly FoldedTotal[]): void {
    this.#addCalls(
      account,
      totals.map(({ team = '', key, day, rows, cost }) => ({
        at: startOfDay(day),
        day: startOfDay(day),
        group: [account, team, key, FOLDED, '', '', ''],
        tag: FOLDED,
        user: FOLDED,
        sums: { calls: rows, cost, estimated: 0, quantities: {} },
      })),
    )
  }

  remove(account: string): void {
    const own = `group_id IN (SELECT id FROM settled_group WHERE account = ?)`
    for (const rollup of ROLLUPS) {
      this.#db.prepare(`DELETE FROM settled_${rollup} WHERE ${own}`).run(account)
    }
    // Removed sums may be wrong: the sums of all accounts are made of those that stay.
    this.#db.exec(STALE)
    for (const table of ['tagged', 'tagged_month', 'booking', 'progress']) {
      this.#db.prepare(`DELETE FROM ${table} WHERE account = ?`).run(account)
    }
    this.#counts.clear()
  }

  clear(): void {
    for (const table of OF_THE_LEDGER) this.#db.exec(`DELETE FROM ${table}`)
    this.#db.exec(RENEWED)
    this.#counts.clear()
  }

  /** Makes the sums of all accounts again after a removal, in a transaction of its own. */
  renewOverall(isNeeded = this.#db.prepare(IS_STALE).get() !== undefined): void {
    if (!isNeeded) return
    transact(this.#db, () => {
      for (const set of SETTLED_SUMMARIES) addUp(this.#db, SETTLED, set, SETTLED_SUMS)
      this.#db.exec(RENEWED)
    })
  }

  costs(account: string): Map<string, Pico> {
    const sums = this.#db
      .prepare(
        `SELECT key, sum(billions) AS billions, sum(rest) AS rest
         FROM settled_day JOIN settled_group ON id = group_id WHERE account = ? GROUP BY key`,
      )
      .all(account) as unknown as readonly (Halves & { readonly key: string })[]
    return new Map(sums.map((sum) => [sum.key, wholeOf(sum)]))
  }

  booked(account: string): Pico {
    const sum = this.#db
      .prepare(
        `SELECT coalesce(sum(amount / 1000000000), 0) AS billions,
           coalesce(sum(amount % 1000000000), 0) AS rest FROM booking WHERE account = ?`,
      )
      .get(account) as unknown as Halves
    return wholeOf(sum)
  }

  #addCalls(account: string, calls: readonly SettledCalls[]): void {
    const sums = summed(calls, ({ group, ...call }) => [...spanOf(call), ...group])
    for (const [call, sum] of sums) this.#rollups.add(call, call.group, valuesOf(sum))
    for (const { rollups, places } of this.#summaries) {
      const groupOf = ({ group }: SettledCalls) => places.map((place) => group[place]!)
      const sums = summed(calls, (call) => [...spanOf(call), ...groupOf(call)])
      for (const [first, sum] of sums) rollups.add(first, groupOf(first), valuesOf(sum))
    }
    for (const kind of ['tag', 'user'] as const) {
      const sums = summed(calls, (call) => [unitOf('day', call.day), call.group[KEY]!, call[kind]])
      for (const [first, { calls, cost, quantities }] of sums) {
        const value = this.#bounded(unitOf('day', first.day), account, kind, first[kind])
        const tokens = TAGGED_QUANTITIES.map((name) => quantities[name] ?? null)
        const sums = [calls, ...partsOf(cost), ...tokens]
        for (const [unit, add] of this.#tags) {
          add.run(unitOf(unit, first.day), account, first.group[KEY]!, kind, value, ...sums)
        }
      }
    }
  }

  /** A value, or `(other)` where the account has had too many others that day. */
  #bounded(unit: number, account: string, kind: string, value: string): string {
    if (this.#isTagged.get(unit, account, kind, value)) return value
    const name = `${unit} ${kind} ${account}`
    const count =
      this.#counts.get(name) ?? Number(this.#countTagged.get(unit, account, kind)!.values_)
    if (count >= MOST_VALUES) return OTHER
    if (this.#counts.size >= MOST_COUNTS) this.#counts.clear()
    this.#counts.set(name, count + 1)
    return value
  }
}

/** The place of the key in the groups of a call. */
const KEY = SETTLED_GROUPS.indexOf('key')

const BILLION = 1_000_000_000n

export interface Halves {
  readonly billions: number
  readonly rest: number
}

function partsOf(cost: Pico): readonly [billions: bigint, rest: bigint] {
  return [cost / BILLION, cost % BILLION]
}

export function wholeOf({ billions, rest }: Halves): Pico {
  return BigInt(billions) * BILLION + BigInt(rest)
}

/** The usage of a row without one. */
const NOT_KNOWN: Partial<UsageRow> = {}

/** Adds the call of a row. @param calls by what distinguishes them */
function addCall(
  calls: Map<string, SettledCalls>,
  account: string,
  { key = '', day, at, cost, usage }: ReadRow,
): void {
  const { model = '', deployment = '', endpoint = '', tag = '', user = '' } = usage ?? NOT_KNOWN
  const { outcome = '' as const, flags, lines = [], team = '' } = usage ?? NOT_KNOWN
  const names = `${team}\n${key}\n${model}\n${deployment}\n${endpoint}\n${outcome}\n${tag}\n${user}`
  const charged = day === undefined ? at : startOfDay(day)
  const name = `${spanOf({ at, day: charged }).join(' ')}\n${names}`
  let call = calls.get(name)
  if (!call) {
    const group = [account, team, key, model, deployment, endpoint, outcome]
    call = { at, day: charged, group, tag, user, sums: noSums() }
    calls.set(name, call)
  }
  const { sums } = call
  sums.calls++
  sums.cost += cost
  if (flags?.includes('estimated')) sums.estimated++
  addQuantities(sums.quantities, lines)
}

function noSums(): Sums {
  return { calls: 0, cost: 0n, estimated: 0, quantities: {} }
}

/** What distinguishes the rows of a group: hours are those of UTC, days those that were charged. */
function spanOf({ at, day }: Pick<SettledCalls, 'at' | 'day'>): readonly [number, number] {
  return [unitOf('hour', at), unitOf('day', day)]
}

/** @param day `YYYYMMDD` */
function startOfDay(day: string): number {
  return Date.UTC(Number(day.slice(0, 4)), Number(day.slice(4, 6)) - 1, Number(day.slice(6)))
}

/** Adds the model's consumption, and all searches. */
function addQuantities(quantities: Sums['quantities'], lines: UsageRow['lines']): void {
  for (const { source, usage } of lines) {
    if (source === 'guard') continue
    for (const name of source === 'search' ? (['searches'] as const) : QUANTITIES) {
      const count = usage[QUANTITY_MEMBERS[name]]
      if (count !== undefined) quantities[name] = (quantities[name] ?? 0) + count
    }
  }
}

/** Adds calls up by group. @returns the first call of each, and the sums of all */
function summed(
  calls: readonly SettledCalls[],
  groupOf: (call: SettledCalls) => readonly (string | number)[],
): Iterable<readonly [SettledCalls, Sums]> {
  const groups = new Map<string, [SettledCalls, Sums]>()
  for (const call of calls) {
    const name = groupOf(call).join('\n')
    let sums = groups.get(name)?.[1]
    if (!sums) {
      sums = noSums()
      groups.set(name, [call, sums])
    }
    sums.calls += call.sums.calls
    sums.cost += call.sums.cost
    sums.estimated += call.sums.estimated
    for (const name in call.sums.quantities) {
      const quantity = name as Quantity
      sums.quantities[quantity] = (sums.quantities[quantity] ?? 0) + call.sums.quantities[quantity]!
    }
  }
  return groups.values()
}

const groupsInOrder: readonly string[] = SETTLED_GROUPS

/** Values in the order of {@link SETTLED_SUMS}. */
function valuesOf({ calls, cost, estimated, quantities }: Sums) {
  return [calls, ...partsOf(cost), estimated, ...QUANTITIES.map((name) => quantities[name] ?? null)]
}

/** SQL that adds to a column; a quantity that was never reported stays NULL. */
function addedTo(name: string): string {
  return `${name} = coalesce(${name} + excluded.${name}, ${name}, excluded.${name})`
}

const namesOf = ({ table, rollups }: TableSet) =>
  [...rollups, 'group'].map((name) => `${table}_${name}`)

/** Tables of settled calls and bookings, which can be made again from the ledger at any time. */
const OF_THE_LEDGER = [
  ...namesOf(SETTLED),
  ...SETTLED_SUMMARIES.flatMap(namesOf),
  'tagged',
  'tagged_month',
  'booking',
  'progress',
  'noted',
]
