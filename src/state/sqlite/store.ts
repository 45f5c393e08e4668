/** The tables of a ledger: commits batches of writes, then answers reads. Runs in the thread that owns the database. */
import type { DatabaseSync } from 'node:sqlite'
import { fromStoredSum, toStoredSum, type Pico, type StoredSum } from '../../money/money.ts'
import type { AuditEntry, AuditFilter, AuditRow } from '../audit.ts'
import { codeOf, isDamage, transact } from './file.ts'
import type { OpenedFolder, Reserve } from './folder.ts'
import { History, type FoldStep } from './reader.ts'
import { type Charge, readSnapshot, type Snapshot } from './snapshot.ts'
import {
  addRow,
  all,
  Costs,
  bookAmount,
  prepare,
  setLimits,
  type AuditColumns,
  type NewRow,
  type Sql,
  type UsageColumns,
  charge,
  toRowItem,
  storedSums,
  type TotalColumns,
} from './sql.ts'
import type {
  ChainPoint,
  KeyLimits,
  LedgerItem,
  LedgerRow,
  CounterItem,
  LimitsItem,
  Reset,
  RowItem,
  TotalItem,
  RequestId,
  AccountCredit,
  BlockText,
  Booking,
} from '../ledger/ledger.ts'
import {
  changeBlocks,
  changesBlocks,
  creditOf,
  toBlocks,
  type BlockFault,
} from '../ledger/blocks.ts'
import { bookingBody, writeBody } from '../ledger/bookings.ts'
import { checkSameRow, checkTotal, checkUnfolded, isBooking } from '../ledger/items.ts'
import { countersIn, isKept, kindOf } from '../ledger/limit-list.ts'
import { counterOwner } from '../ledger/sums.ts'

type NewReset = Omit<Reset, 'zone'> & {
  readonly window: string
  readonly counted: bigint
  readonly at: number
}

interface StoredReset {
  /** Whether this command has stored it. */
  readonly fresh: boolean
  readonly owner: string
  readonly limit: string
  readonly window: string
  readonly counted: bigint
}

interface CreditColumns extends StoredSum {
  readonly blocks: string | null
  /** Lifetime spend of the account. */
  readonly spent_usd: bigint | null
  readonly spent_pico: bigint | null
}

interface CounterColumns extends StoredSum {
  readonly owner: string
  readonly id: string
  readonly window: string
}

/** Charged cost, the number of the row, and that of the account's previous row. */
type Written = readonly [cost: Pico, seq: number, previous: number]

/** A stored row, `fresh` if this command has stored it. `cost` is that of the first command with its request id. */
interface Booked {
  readonly fresh: boolean
  readonly cost: Pico
}

/** A row of history with its `body` as text. */
export type StoredRow = Omit<LedgerRow, 'usage' | 'note' | 'booking'> & {
  readonly body: string | null
}

/** The result of an import; `contradiction` says why the next item was not imported. */
interface ImportedItems {
  /** Whether each imported item is new. */
  readonly added: readonly boolean[]
  readonly contradiction?: string
}

export interface StoredRecord {
  readonly key: string
  readonly value: string
  /** ms since epoch */
  readonly expires: number | undefined
}

export type WriteName =
  | 'settle'
  | 'book'
  | 'orphan'
  | 'reset'
  | 'limits'
  | 'addChange'
  | 'putRecords'
  | 'removeRecord'
  | 'import'
  | 'fold'
  | 'dropSpend'
  | 'trim'
export type ReadName =
  | 'rows'
  | 'resetOf'
  | 'receipt'
  | 'credit'
  | 'orphans'
  | 'accounts'
  | 'sums'
  | 'changes'
  | 'record'
  | 'records'
  | 'recordKeys'
  | 'optimize'
  | 'compact'
  | 'accept'
  | 'adopt'
  | 'size'

/** A call of a method of the store, as it is sent between threads. */
export interface StoreCommand<Name extends WriteName | ReadName = WriteName | ReadName> {
  readonly name: Name
  readonly args: Parameters<Store[Name]>
}

/** The result of one write. A refused write has changed nothing, and does not affect the others of its batch. */
export type CommandResult<Name extends WriteName = WriteName> = ReturnType<Store[Name]> | Refused

interface Refused {
  readonly refused: string
}

export function isRefused(result: CommandResult): result is Refused {
  return typeof result === 'object' && 'refused' in result
}

/** The writes share one transaction; the reads see them. */
export interface WorkerBatch {
  readonly writes: readonly StoreCommand<WriteName>[]
  readonly reads: readonly StoreCommand<ReadName>[]
}

export type ToStore = WorkerBatch | { readonly close: true }

export interface WorkerBatchResult {
  /** One result per write, or why none of them was written. */
  readonly outcomes: readonly CommandResult[] | { readonly failure: string }
  readonly answers: readonly ({ readonly value: unknown } | { readonly error: string })[]
  /** The damage of the database, when this batch has found it. */
  readonly damage?: string
}

/** SQLite's primary result codes for illegal values (https://sqlite.org/rescode.html). */
const ILLEGAL_VALUE: ReadonlySet<number> = new Set([18, 19, 20])
/** Most accounts whose newest row is cached. */
const MOST_NEWEST = 10_000
/** Sorts after every key. */
const LAST_CHARACTER = '\u{10ffff}'

export class Store {
  readonly #db: DatabaseSync
  readonly #sql: Sql
  readonly #reserve: Pick<Reserve, 'lend'> | undefined
  readonly #owner: Pick<OpenedFolder, 'accept' | 'forget'> | undefined
  readonly #costs: Costs
  /** The newest row of accounts, as far as it was looked up. */
  readonly #newest = new Map<string, number>()
  /** Damage found by the running batch. */
  #damage: string | undefined

  /** @param reserve the reserve of the database's disk. @param owner the folder, which knows the ledger by its identity */
  constructor(
    db: DatabaseSync,
    reserve?: Pick<Reserve, 'lend'>,
    owner?: Pick<OpenedFolder, 'accept' | 'forget'>,
  ) {
    this.#db = db
    this.#owner = owner
    this.#sql = prepare(db)
    this.#costs = new Costs(this.#sql)
    this.#reserve = reserve
  }

  /** See {@link readSnapshot}. */
  load(from: string): Snapshot {
    return readSnapshot(this.#db, from)
  }

  /** Never throws: a failure is part of the result. */
  run({ writes, reads }: WorkerBatch): WorkerBatchResult {
    this.#damage = undefined
    const outcomes = this.#write(writes)
    const answers = reads.map((command) => this.#read(command))
    return { outcomes, answers, ...(this.#damage !== undefined && { damage: this.#damage }) }
  }

  /**
   * Commits a batch in its order. It is on disk when this returns.
   * @throws SQLite's error when the database cannot be written; then nothing of the batch is stored
   */
  commit(batch: readonly StoreCommand<WriteName>[]): CommandResult[] {
    try {
      return transact(this.#db, () => this.#do(batch))
    } catch (error) {
      this.#costs.clear()
      this.#newest.clear()
      if (!isIllegal(error)) throw error
      // One of them is refused: each is done by itself.
      return transact(this.#db, () => batch.map((one) => this.#attempt(() => this.#do([one])[0])))
    }
  }

  /** @returns the charge, or the cost of an earlier row of this request */
  settle(
    ...[request, account, key, day, cost, at, body, team, counts]: Charge
  ): Written | { readonly before: Pico } {
    const previous = this.#newestOf(account)
    const row = [request, account, key, cost, day, at, body, null, team] as const
    const booked = this.#add('usage', ...row)
    if (!booked.fresh) return { before: booked.cost }
    this.#costs.add({ account, key, team, day }, cost)
    if (counts) this.#count(account, { key, team }, cost, counts)
    return [cost, this.#sql.numbers.last, previous]
  }

  /** Books once. Blocks are laid from the spend of this moment. @param at ms since epoch */
  book(booking: Booking, at: number): Booked | BlockFault {
    const { account, kind, reference, actor = null } = booking
    let [cost, blocks]: [Pico, BlockText[] | undefined] = [-booking.amount, undefined]
    if (changesBlocks(booking)) {
      const existing = this.#booked(kind, reference, account)
      if (existing) return existing
      const present = this.#creditOf(account)
      const change = changeBlocks(booking, present.blocks, present.spent)
      if (typeof change === 'string') return change
      cost = change.cost
      blocks = [...change.blocks]
    }
    const body = bookingBody(booking, blocks)
    const booked = this.#add(kind, reference, account, null, cost, null, at, body, actor)
    if (!booked.fresh) return booked
    bookAmount(this.#sql, account, -cost, booking)
    if (blocks) this.#sql.setBlocks.run(account, JSON.stringify(blocks))
    return booked
  }

  /** @returns the reset with this reference, which may be an earlier one */
  reset({ account, reference, owner, limit, window, counted, at, reason }: NewReset): StoredReset {
    const { usd, pico } = toStoredSum(counted)
    const row = [account, reference, owner, limit, window, usd, pico, at, reason] as const
    const fresh = Number(this.#sql.addReset.run(...row).changes) > 0
    return { fresh, ...this.resetOf(account, reference)! }
  }

  resetOf(account: string, reference: string): Omit<StoredReset, 'fresh'> | undefined {
    const stored = this.#sql.reset.get(account, reference) as CounterColumns | undefined
    if (!stored) return undefined
    const { owner, id: limit, window, ...amount } = stored
    return { owner, limit, window, counted: fromStoredSum(amount) }
  }

  orphan(request: string, account: string, key: string, at: number): void {
    this.#add('orphan', request, account, key, 0n, null, at, null, null)
  }

  /** Stores limits, unless the stored revision is higher. */
  limits(account: string, key: string, limits: KeyLimits, revision: number): void {
    setLimits(this.#sql, account, key, limits, revision)
  }

  addChange(entry: AuditEntry, at: number): void {
    const { actor, actor_id = null, session = null, address, action, object, changes } = entry
    const members = JSON.stringify(changes)
    this.#sql.addChange.run(at, actor, actor_id, session, address, action, object, members)
  }

  /** Changes, newest first. @param before a `seq` */
  changes(
    { actor, session, action, object, from, to }: AuditFilter,
    before: number,
    limit: number,
  ): AuditRow[] {
    const filters = [actor, action, object, from, to, session].map((value) => value ?? null)
    return all<AuditColumns>(this.#sql.changes, before, ...filters, limit).map(
      ({ seq, at, actor_id, session: of, members, ...row }) => ({
        ...row,
        ...(actor_id !== null && { actor_id }),
        ...(of !== null && { session: of }),
        id: String(seq),
        at: Number(at),
        changes: JSON.parse(members),
      }),
    )
  }

  /** @param now ms since epoch */
  putRecords(records: readonly StoredRecord[], now: number): void {
    for (const { key, value, expires } of records) {
      this.#sql.putRecord.run(key, value, expires ?? null)
      if (expires !== undefined) this.#sql.expireRecords.run(now)
    }
  }

  removeRecord(key: string): void {
    this.#sql.removeRecord.run(key)
  }

  import(items: readonly LedgerItem[]): ImportedItems {
    const added: boolean[] = []
    for (const item of items) {
      const outcome = this.#attempt(() => take(this.#sql, item))
      if (typeof outcome !== 'boolean') return { added, contradiction: outcome.refused }
      added.push(outcome)
    }
    this.#newest.clear()
    return { added }
  }

  /** Folds the first rows of accounts, each unless it was folded meanwhile. @returns the number of rows that went */
  fold(steps: readonly FoldStep[]): number {
    const { moveBase, addFolded, removeFolded, noteFold } = this.#sql
    noteFold.run()
    let rows = 0
    for (const { account, from, to, n, chain } of steps) {
      if (Number(moveBase.run(account, from, to, n, chain).changes) === 0) continue
      addFolded.run(account, from, to)
      rows += Number(removeFolded.run(account, from, to).changes)
    }
    return rows
  }

  /** Removes spend of windows before a day, and before a month. @returns the number of sums removed, at most the limit */
  dropSpend(day: string, month: string, limit: number): number {
    return Number(this.#sql.dropSpend.run(day, month, limit).changes)
  }

  /**
   * Folds all rows but the newest, whatever their age: a ledger in memory must not grow without a bound.
   * @param rows number to keep, top-ups included
   */
  trim(rows: number): void {
    const { last } = this.#sql.numbers
    if (last <= rows) return
    const history = new History(this.#db)
    for (let from: string | undefined = ''; from !== undefined;) {
      const { steps, next } = history.first(from, ({ seq }) => seq <= last - rows)
      this.fold(steps)
      from = next
    }
  }

  /** Updates the database's statistics. A read command, because it runs outside a transaction. */
  optimize(): void {
    this.#db.exec('PRAGMA optimize')
  }

  /** Gives the room of removed rows back to the disk. A read command, because it runs outside a transaction. @param now ms since epoch */
  compact(now: number): void {
    this.#sql.expireRecords.run(now)
    this.#db.exec('VACUUM; PRAGMA wal_checkpoint(TRUNCATE)')
  }

  /** Goes on with an older copy of a ledger. */
  accept(): void {
    this.#owner?.accept()
  }

  /** See {@link Ledger.adopt}. A read command as `accept`: the folder is told before and after. */
  adopt(id: string): boolean {
    const isEmpty = this.#sql.isEmpty.get() !== undefined
    if (!isEmpty) return false
    this.#owner?.forget()
    this.#db.prepare('UPDATE identity SET id = ?').run(id)
    this.#owner?.accept()
    return true
  }

  /** Identity and size of the ledger. */
  size(): { readonly id: string; readonly bytes: number; readonly freeBytes: number } {
    const { id, bytes, free } = this.#db
      .prepare(
        `SELECT id, page_count * page_size AS bytes, freelist_count * page_size AS free
         FROM identity, pragma_page_count, pragma_page_size, pragma_freelist_count`,
      )
      .get()!
    return { id: String(id), bytes: Number(bytes), freeBytes: Number(free) }
  }

  /** Rows, newest first. @param before a `seq` */
  rows(account: string, before: number, limit: number): StoredRow[] {
    return all<RowColumns>(this.#sql.rows, account, before, limit).map(toStoredRow)
  }

  /** Orphans of one account or all, newest first. @param before a `seq` */
  orphans(account: string | null, before: number, limit: number): (StoredRow & Owned)[] {
    return all<RowColumns & Owned>(this.#sql.orphans, before, account, limit).map(toStoredRow)
  }

  accounts(): string[] {
    return all<{ id: string }>(this.#sql.owners).map(({ id }) => id)
  }

  /** See {@link storedSums}. */
  sums(account: string): ReadonlyMap<string, Pico> {
    return storedSums(this.#sql, account)
  }

  /** See {@link Ledger.receipt}. */
  receipt(account: string, request: RequestId): Pico | undefined {
    return (this.#sql.booked.get(request, 'usage', account) as { cost: Pico } | undefined)?.cost
  }

  /** See {@link Ledger.credit}. */
  credit(account: string): AccountCredit {
    const { balance, blocks, spent } = this.#creditOf(account)
    return creditOf(balance, toBlocks(blocks), spent)
  }

  /** @param now ms since epoch */
  record(key: string, now: number): string | undefined {
    return all<{ v: string }>(this.#sql.record, key, now)[0]?.v
  }

  /** Records in the order of their keys. @param now ms since epoch */
  records(keys: readonly string[], now: number): (string | undefined)[] {
    return keys.map((key) => this.record(key, now))
  }

  /** Keys with a prefix. @param now ms since epoch */
  recordKeys(prefix: string, now: number): string[] {
    const range = [prefix, prefix + LAST_CHARACTER] as const
    return all<{ k: string }>(this.#sql.recordKeys, ...range, now).map(({ k }) => k)
  }

  #write(writes: WorkerBatch['writes']): WorkerBatchResult['outcomes'] {
    if (writes.length === 0) return []
    try {
      const commit = () => this.commit(writes)
      return this.#reserve ? this.#reserve.lend(commit) : commit()
    } catch (error) {
      return { failure: this.#failed(error) }
    }
  }

  #read({ name, args }: StoreCommand<ReadName>): WorkerBatchResult['answers'][number] {
    try {
      return { value: Reflect.apply(this[name], this, args) }
    } catch (error) {
      return { error: this.#failed(error) }
    }
  }

  /** @returns the message of the error */
  #failed(error: unknown): string {
    const { message } = error as Error
    if (isDamage(error)) this.#damage = message
    return message
  }

  #do(batch: readonly StoreCommand<WriteName>[]): CommandResult[] {
    const results = batch.map(({ name, args }) => {
      // Other commands read the sums, or depend on their bounds.
      if (name !== 'settle') this.#costs.charge()
      return Reflect.apply(this[name], this, args)
    })
    this.#costs.charge()
    return results
  }

  #attempt<Value>(write: () => Value): Value | Refused {
    this.#sql.mark.run()
    try {
      const value = write()
      this.#sql.unmark.run()
      return value
    } catch (error) {
      if (!isIllegal(error)) throw error
      this.#sql.undo.run()
      this.#sql.unmark.run()
      this.#newest.clear()
      return { refused: (error as Error).message }
    }
  }

  /** The number of an account's newest row; 0 where there is none that is not folded. */
  #newestOf(account: string): number {
    const newest = this.#newest.get(account)
    if (newest !== undefined) return newest
    if (this.#newest.size >= MOST_NEWEST) this.#newest.clear()
    const seq = Number(this.#sql.newest.get(account)!.seq)
    this.#newest.set(account, seq)
    return seq
  }

  #count(
    account: string,
    lease: { readonly key: string; readonly team: string | null },
    usd: Pico,
    { counted, tokens, requests }: NonNullable<Charge[8]>,
  ): void {
    const counts = { usd, tokens, requests, concurrent: 0n }
    for (const { of, id, window } of countersIn(counted)) {
      const owner = counterOwner(of, lease)
      this.#costs.count({ account, owner, id, window }, counts[kindOf(id).unit])
    }
  }

  #creditOf(account: string) {
    const stored = this.#sql.creditOf.get(account) as CreditColumns | undefined
    return {
      balance: stored ? fromStoredSum(stored) : 0n,
      blocks: JSON.parse(stored?.blocks ?? '[]') as BlockText[],
      spent: fromStoredSum({ usd: stored?.spent_usd ?? 0n, pico: stored?.spent_pico ?? 0n }),
    }
  }

  #add(...row: NewRow): Booked {
    const [kind, request, account, , cost] = row
    if (addRow(this.#sql, ...row)) {
      this.#newest.set(account, this.#sql.numbers.last)
      return { fresh: true, cost }
    }
    return this.#booked(kind, request, account)!
  }

  #booked(kind: LedgerRow['kind'], request: string, account: string): Booked | undefined {
    const stored = this.#sql.booked.get(request, kind, account) as { cost: Pico } | undefined
    return stored && { fresh: false, cost: stored.cost }
  }
}

/** Whether a value is illegal: the same write would fail again. Any other error is the disk's. */
function isIllegal(error: unknown): boolean {
  const code = codeOf(error)
  return code === 0 || ILLEGAL_VALUE.has(code)
}

type RowColumns = Omit<UsageColumns, 'account' | 'day' | 'team'> & { readonly seq: bigint }

interface Owned {
  readonly account: string
}

function toStoredRow<Row extends RowColumns>({ key, actor, ...row }: Row) {
  return {
    ...row,
    ...(key !== null && { key }),
    ...(actor !== null && { actor }),
    seq: Number(row.seq),
    at: Number(row.at),
  }
}

// Imports items of an export into the tables of a ledger.

/** @returns whether the item is new. @throws RangeError when it contradicts the ledger */
function take(sql: Sql, item: LedgerItem): boolean {
  switch (item.kind) {
    case 'account':
      return item.paid && Number(sql.setPaid.run(item.account).changes) > 0
    case 'limits':
      return takeLimits(sql, item)
    case 'total':
      return takeTotal(sql, item)
    case 'base':
      return takeBase(sql, item)
    case 'counter':
      return takeCounter(sql, item)
    default:
      return takeRow(sql, item)
  }
}

function takeLimits(sql: Sql, { account, key, limits, revision }: LimitsItem): boolean {
  const stored = sql.revision.get(account, key) as { revision: bigint } | undefined
  if (stored && stored.revision >= revision) return false
  setLimits(sql, account, key, limits, revision)
  return true
}

function takeTotal(sql: Sql, item: TotalItem): boolean {
  const { account, key, team = '', day, rows, cost } = item
  const stored = sql.total.get(account, day, key, team) as TotalColumns | undefined
  const spent = sql.spentOn.get(account, key, day) as StoredSum | undefined
  const same = stored && { ...item, rows: Number(stored.requests), cost: fromStoredSum(stored) }
  // Totals of other teams are no rows.
  const others = sql.anyTotal.get(account, day, key) !== undefined
  if (!checkTotal(item, same, spent && !others ? fromStoredSum(spent) : 0n)) return false
  const { usd, pico } = toStoredSum(cost)
  sql.addTotal.run(account, day, key, team, rows, usd, pico)
  charge(sql, { account, key, team: team || null, day }, cost)
  return true
}

/** Takes what is counted where nothing later is. */
function takeCounter(sql: Sql, item: CounterItem): boolean {
  const { account, owner, id, window } = item
  const counters = all<CounterColumns>(sql.counters, account)
  const own = counters.filter((one) => one.owner === owner && one.id === id)
  const begun = own.find((one) => one.window === '')
  if (item.rows !== undefined && begun && own.length === 1) {
    const { seq } = sql.afterNewest.get(account, item.rows) ?? { seq: 0n }
    if (window === '' && begun.usd === seq) return false
    sql.beginCounter.run(account, owner, id, '', seq!)
  }
  if (window === '') return begun !== undefined && own.length === 1
  const stored = own.find((one) => one.window === window)
  const isLater = own.some((one) => one.window > window)
  if (isLater || (stored && fromStoredSum(stored) >= item.settled)) return false
  if (!isKept(id)) {
    const { usd, pico } = toStoredSum(item.settled - (stored ? fromStoredSum(stored) : 0n))
    sql.addCounter.run(account, owner, id, window, usd, pico)
    sql.dropEarlier.run(account, owner, id, window)
  }
  if (item.reset === 0n) return true
  const reset = toStoredSum(item.reset)
  const reference = `imported:${owner}:${id}:${window}`
  const row = [account, reference, owner, id, window, reset.usd, reset.pico] as const
  sql.addReset.run(...row, 1, 'imported')
  return true
}

/** Notes the base of an account that has none. */
function takeBase(
  sql: Sql,
  { account, n, chain }: ChainPoint & { readonly account: string },
): boolean {
  if (sql.base.get(account)?.chain) return false
  return Number(sql.moveBase.run(account, 0, sql.numbers.last, n, chain).changes) > 0
}

function takeRow(sql: Sql, item: RowItem): boolean {
  const { kind, account, request, key = null, cost, day = null, at, actor = null } = item
  const team = item.usage?.team ?? null
  const row = [kind, request, account, key, cost, day, at, writeBody(item), actor, team] as const
  if (!addRow(sql, ...row)) {
    const stored = sql.row.get(request, kind, account) as unknown as UsageColumns
    checkSameRow(item, toRowItem(stored))
    return false
  }
  if (kind === 'usage') {
    checkUnfolded(item, sql.anyTotal.get(account, day!, key!) !== undefined)
    charge(sql, { account, key: key!, team, day: day! }, cost)
  }
  if (isBooking(item)) {
    bookAmount(sql, account, -cost, { kind: item.kind, ...item.booking })
    const blocks = item.booking?.blocks
    if (blocks) sql.setBlocks.run(account, JSON.stringify(blocks))
  }
  return true
}
