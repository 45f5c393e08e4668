/**
 * The Redis engine: one ledger for several gateways. Each step of an admission and each settlement is one script and one round
 * trip. All keys of an account are in one slot of a cluster. While Redis cannot be reached no call is admitted, running calls
 * finish, and their settlements wait in the outbox.
 */
import type { Storage } from 'unstorage'
import {
  cannotBook,
  ConfigError,
  NotFound,
  ReferenceTaken,
  Unavailable,
} from '../../errors/errors.ts'
import type { Audit } from '../audit.ts'
import type { Announcements } from '../announcements.ts'
import { randomId } from '../ids.ts'
import type { Records } from '../records.ts'
import { RedisAnnouncements } from './announcements.ts'
import { RedisAudit } from './audit-log.ts'
import { checkHold, checkLimits, TIGHT_CEILINGS, RETRY_MS } from '../ledger/book.ts'
import { changeBlocks, changesBlocks, creditOf, toBlocks } from '../ledger/blocks.ts'
import { bookingBody, checkBooking, refuseBlock } from '../ledger/bookings.ts'
import { inDoubt } from '../ledger/doubt.ts'
import type { Pico } from '../../money/money.ts'
import type { Archive } from '../ledger/archive.ts'
import { Maintenance } from '../ledger/maintenance.ts'
import {
  ACCOUNT,
  LEASE_MS,
  SCHEMA,
  type AcceptedDoubt,
  type LedgerState,
  type AccountBalance,
  type AccountTotals,
  type Discrepancy,
  type Admission,
  type BookedCharge,
  type AdmissionRequest,
  type HoldResult,
  type HoldRequest,
  type Imported,
  type KeyLimits,
  type KeyOfAccount,
  type CounterView,
  type RefusedLimit,
  type Reset,
  Outage,
  type ResetDone,
  teamKey,
  type KeySpend,
  type RatesUsed,
  type Lease,
  type Leave,
  type Ledger,
  type LedgerHealth,
  type LedgerItem,
  type LedgerRow,
  type Log,
  type Orphan,
  type Raise,
  type Settled,
  type Settlement,
  type TakeRows,
  type HeldBy,
  type LimitOwner,
  type RateStatus,
  type RequestId,
  type AccountCredit,
  type Booking,
} from '../ledger/ledger.ts'
import { countsOf, encoded, kindOf, readList } from '../ledger/limit-list.ts'
import type { ZoneRule } from '../ledger/windows.ts'
import { Unconfirmed } from '../ledger/unconfirmed.ts'
import { OutboxFile, Outbox } from './outbox.ts'
import { batchesOf, connect, keysOf, PREFIX, type RedisConnection } from './connection.ts'
import { Beat } from './beat.ts'
import { RedisHistory, RedisImport } from './history.ts'
import { Memory } from './memory.ts'
import { RedisRecords, redisStorage } from './records.ts'
import { liftedRevision, toLimitsText } from './limits-text.ts'
import { blocksIn, effectsOf, referencesOf } from './bookings.ts'
import { accountsIn } from './rows.ts'
import { toPico, type ScriptReply, type ScriptClient } from './replies.ts'
import { LEDGER, Lifter } from './schema.ts'
import { RECEIPT_MS, scriptsWith } from './scripts.ts'

interface RedisOptions {
  /** `redis://` or `rediss://`; for a cluster, a list of one or more of its nodes. */
  readonly url: string | readonly string[]
  /** Folder of the outbox; created if it does not exist. Several gateways may share it. */
  readonly outbox: string
  /** Bytes that the outbox may take; 1 GiB by default. */
  readonly outboxLimit?: number
  /** Whether the outbox outlives this process and the machine that it runs on; it does by default. */
  readonly outboxKept?: boolean
  /** Days after which usage rows are folded, by any gateway. Absent: never. */
  readonly retentionDays?: number | undefined
  /** Takes rows before they are folded. */
  readonly archive?: Archive | undefined
  /** The id of this gateway; others ask by it whether its settlements are booked. */
  readonly gateway?: string
  readonly log: Log
  /** Lua that defines `now`, ms since epoch; tests bring their own clock. */
  readonly clock?: string
}

/** No account's id: a key in any slot of a cluster, so that its server can be asked for the time. */
const CLOCK_ACCOUNT = '@clock'
/** Most attempts at a booking that lays blocks out anew: a settlement between two of them is longer than a round trip. */
const BLOCK_ATTEMPTS = 50
/** Deadline of one attempt at an admission; there are two attempts. */
const ADMISSION_MS = 250
const LEAVE_MS = 500
/** Deadline of a settlement while its caller waits, and of one that is tried again. */
const SETTLE_MS = 500
const REPEATED_MS = 2000

/**
 * Opens the ledger and the records in Redis, on one connection. Closing the records closes the connection.
 * @throws ConfigError when Redis cannot be reached or cannot hold a ledger, or the outbox's folder cannot be used
 */
export async function openRedis({
  url,
  outbox,
  outboxLimit,
  outboxKept = true,
  retentionDays,
  archive,
  gateway = randomId('gw_'),
  log,
  clock = STORE_CLOCK,
}: RedisOptions): Promise<{
  readonly ledger: RedisLedger
  readonly records: Records
  readonly storage: Storage
  readonly audit: Audit
  readonly announcements: Announcements
}> {
  const { connection, driver } = await connect(url, log)
  const { client } = connection
  for (const [name, script] of Object.entries(scriptsWith(clock))) {
    client.defineCommand(name, script)
  }
  try {
    const storage = redisStorage(connection, driver)
    const records = new RedisRecords(connection, storage)
    const lifter = new Lifter(connection, records)
    const file = openOutbox(outbox, outboxLimit)
    const memory = new Memory(file.path.replace(/\.db$/, '.memory.json'), log)
    const beat = new Beat({ connection, memory, lifter, place: placeOf(url), log })
    records.onMade((key, exists) => beat.made(key, exists))
    await beat.start().catch((error: unknown) => {
      file.close()
      throw error
    })
    const own = { beat, gateway, outboxKept, retentionDays, archive, log }
    const ledger = new RedisLedger(connection, file, own)
    const announcements = new RedisAnnouncements(connection)
    return { ledger, records, storage, audit: new RedisAudit(connection), announcements }
  } catch (error) {
    connection.close()
    throw error
  }
}

/**
 * The ledger as one of several gateways uses it. Methods without another promise throw Unavailable while Redis cannot be
 * reached; `enter` and `hold` also while a settlement is deferred.
 */
export class RedisLedger implements Ledger {
  readonly #connection: RedisConnection
  readonly #store: ScriptClient
  readonly #history: RedisHistory
  readonly #import: RedisImport
  readonly #outbox: Outbox
  readonly #unconfirmed: Unconfirmed<undefined>
  readonly #outage = new Outage()
  readonly #maintenance: Maintenance
  readonly #beat: Beat
  /** Leases that could not be released, with the time of the attempt, steady ms. */
  readonly #unreleased = new Map<Leave, number>()
  onBooked: (charge: BookedCharge) => void = () => {}
  onReplayed: (bookings: number) => void = () => {}

  constructor(
    connection: RedisConnection,
    file: OutboxFile,
    {
      beat,
      gateway,
      outboxKept,
      retentionDays,
      archive,
      log,
    }: Pick<RedisOptions, 'retentionDays' | 'archive' | 'log'> & {
      beat: Beat
      gateway: string
      outboxKept: boolean
    },
  ) {
    this.#connection = connection
    this.#beat = beat
    this.#store = connection.client as ScriptClient
    this.#history = new RedisHistory(connection)
    this.#import = new RedisImport(connection)
    this.#outbox = new Outbox({
      file,
      isKept: outboxKept,
      send: (...settlement) => this.#charge(...settlement),
      lookUp: (account, settlements) => this.#history.lookUp(account, settlements),
      receiptMs: RECEIPT_MS,
      gateway,
      tellBooked: async (id) => {
        await connection.ask(() => this.#store.set(bookedKey(id), '1', 'PX', RECEIPT_MS))
      },
      ledger: () => (beat.isOpen ? beat.known?.id : undefined),
      wasIts: (id) => this.#wasIts(id),
      booked: (settlement, settled) => this.#unconfirmed.booked(settlement, settled),
      replayed: (bookings) => this.onReplayed(bookings),
      log,
    })
    const outbox = this.#outbox
    this.#unconfirmed = new Unconfirmed({
      store: {
        send({ settlement }, done, failed, isRepeated) {
          outbox.book(settlement, isRepeated ? REPEATED_MS : SETTLE_MS).then(done, failed)
        },
      },
      disk: outbox,
      log,
    })
    const now = () => Date.now()
    this.#maintenance = new Maintenance({
      ledger: this,
      verify: (isWhole) => this.#history.verifyInTurn(isWhole),
      retentionDays,
      archive,
      now,
      log,
    })
    beat.onOpen(() => {
      this.#releaseAgain()
      outbox.mayLack()
      void this.#unconfirmed.retry()
    })
    connection.onReturn(() => void beat.again())
  }

  async enter(entry: AdmissionRequest): Promise<Admission> {
    this.assertOpen()
    const { request, account, key, team, revision, accountRevision = 0, freeTier } = entry
    const keys = keysOf(account, 'book', 'ls', 'h', 'u', ...logsOf(entry))
    const { rpm, concurrency } = freeTier
    const revisions = [liftedRevision(revision), liftedRevision(accountRevision)] as const
    const ofTeam = team === undefined ? [] : [team, `${liftedRevision(entry.teamRevision ?? 0)}`]
    const numbers = [revisions[0], rpm, concurrency, revisions[1]]
    const args = [key, request, ...numbers.map(String), ...ofTeam]
    let sent = false
    try {
      const reply = await this.#admission(() => {
        sent = true
        return this.#store.enter(...keys, ...args)
      })
      return toAdmission(reply)
    } catch (error) {
      // Redis may have admitted the call although its answer was lost.
      if (sent) void this.leave({ account, key, team, request })
      throw error
    }
  }

  /** @throws RangeError for a negative hold, one above MAX_AMOUNT or above its ceiling */
  async hold(hold: HoldRequest): Promise<HoldResult> {
    const { account, at, expected, ceiling, exposure, free, replaces } = hold
    const { model, tokens, tierPerDay = '' } = hold
    this.assertOpen()
    checkHold(hold)
    const keys = keysOf(account, 'book', 'ls', 'h')
    const amounts = [expected, ceiling, TIGHT_CEILINGS * ceiling, exposure.share, exposure.most]
    const counts = [encoded(model), tokens.expected, tokens.ceiling, tierPerDay].map(String)
    const first = [memberOf(hold), `${at}`, ...amounts.map(String), free ? '1' : '0']
    const args = [...first, ...counts, replaces ? '1' : '0', ...zoneArgs(hold.zone)]
    const reply = await this.#admission(() => this.#store.hold(...keys, ...args))
    return toHoldResult(reply)
  }

  async raise(raise: Raise): Promise<void> {
    const { account, from, to } = raise
    if (to <= from) return
    const keys = keysOf(account, 'book', 'h')
    const args = [memberOf(raise), `${from}`, `${to}`, `${to - from}`]
    await this.#ask(() => this.#store.raise(...keys, ...args))
  }

  /** Settles in Redis, or in the outbox while Redis cannot be reached; the answer's balance is 0n then, because it is unknown. */
  settle(settlement: Settlement): Promise<Settled> {
    return this.#unconfirmed.settle(settlement, undefined)
  }

  async waive(lease: Lease): Promise<Settled> {
    return this.#unconfirmed.waive(lease)
  }

  /** Never fails: a lease that could not be released is released when Redis is back. */
  async leave(lease: Leave): Promise<void> {
    const { account, slot } = lease
    const keys = keysOf(account, 'book', 'ls', 'h', ...logsOf(lease))
    const args = [memberOf(lease), slot === undefined ? '' : `${slot}`]
    try {
      await this.#ask(() => this.#store.leave(...keys, ...args), LEAVE_MS)
    } catch {
      this.#remember(lease)
    }
  }

  async renew(leases: readonly Lease[]): Promise<void> {
    const byAccount = Map.groupBy(leases, ({ account }) => account)
    const renewals = [...byAccount].map(([account, own]) => {
      const members = own.map(memberOf)
      const keys = keysOf(account, 'book', 'ls')
      return this.#ask(() => this.#store.renew(...keys, ...members))
    })
    await Promise.all(renewals)
  }

  async book(booking: Booking): Promise<Settled> {
    checkBooking(booking)
    const book = () => (changesBlocks(booking) ? this.#bookBlocks(booking) : this.#book(booking))
    const booked = await book()
    this.#outbox.remember(book)
    return booked
  }

  async #book(booking: Booking): Promise<Settled> {
    return toSettled(await this.#sendBooking(booking, -booking.amount, bookingBody(booking), []))
  }

  /** Lays blocks out here, and again where a settlement has moved the spend meanwhile. @throws Unavailable where that does not end */
  async #bookBlocks(booking: Booking): Promise<Settled> {
    const { account } = booking
    let [, blocks, spent] = await this.#creditOf(account)
    for (let attempt = 0; attempt < BLOCK_ATTEMPTS; attempt++) {
      const change = changeBlocks(booking, blocksIn(blocks), toPico(spent))
      // A repetition may find the block gone that it has taken from.
      const [cost, next] =
        typeof change === 'string' ? [-booking.amount, []] : [change.cost, change.blocks]
      const body = bookingBody(booking, next)
      const expected = typeof change === 'string' ? ['-', '-'] : [blocks, spent]
      const reply = await this.#sendBooking(booking, cost, body, [
        JSON.stringify(next),
        ...expected,
      ])
      if (reply[0] !== 'moved') return toSettled(reply)
      if (typeof change === 'string') refuseBlock(change, booking)
      const [, ...present] = reply as string[]
      ;[blocks = '', spent = ''] = present
    }
    throw new Unavailable('service_unavailable', 'The account is booked to by others all the time.')
  }

  #sendBooking(
    booking: Booking,
    cost: Pico,
    body: string | null,
    blocks: readonly string[],
  ): Promise<ScriptReply> {
    const { account, kind, reference, actor = '' } = booking
    const keys = keysOf(account, 'book', 'u', referencesOf(kind))
    const row = [kind, reference, `${cost}`, body ?? '', actor]
    const args = [...row, ...effectsOf(booking).slice(0, 2), ...blocks]
    return this.#ask(() => this.#store.book(...keys, ...args))
  }

  async #creditOf(
    account: string,
  ): Promise<readonly [balance: string, blocks: string, spent: string]> {
    const [book = ''] = keysOf(account, 'book')
    const read = () => this.#connection.client.hmget(book, 'bal', 'blocks', `s:L:${ACCOUNT}`)
    const [balance, blocks, spent] = await this.#connection.ask(read)
    return [balance ?? '0', blocks ?? '', spent ?? '']
  }

  async credit(account: string): Promise<AccountCredit> {
    const [balance, blocks, spent] = await this.#creditOf(account)
    return creditOf(toPico(balance), toBlocks(blocksIn(blocks)), toPico(spent))
  }

  async account(id: string): Promise<AccountBalance> {
    return toBalance(await this.#state(id, ''))
  }

  async balances(
    ids: readonly string[],
    zoneOf?: (id: string) => ZoneRule | undefined,
  ): Promise<AccountTotals[]> {
    const look = (id: string) => this.#look(id, ACCOUNT, zoneOf?.(id))
    const states = await this.#connection.askMany(ids, look)
    return states.map((state) => ({ ...toBalance(state), spend: toSpend(state) }))
  }

  async spends(keys: readonly KeyOfAccount[]): Promise<Pico[]> {
    const { client } = this.#connection
    const spends = new Map<KeyOfAccount, Pico>()
    const byAccount = [...Map.groupBy(keys, ({ account }) => account)].flatMap(([account, some]) =>
      batchesOf(some).map((batch) => [account, batch] as const),
    )
    const sums = await this.#connection.askMany(byAccount, ([account, some]) => {
      const [book = ''] = keysOf(account, 'book')
      return client.hmget(book, ...some.map(({ key }) => `s:L:${key}`))
    })
    for (const [i, [, some]] of byAccount.entries()) {
      for (const [j, key] of some.entries()) spends.set(key, toPico(sums[i]![j]))
    }
    return keys.map((key) => spends.get(key)!)
  }

  async key(account: string, id: string, zone?: ZoneRule): Promise<KeySpend> {
    return toSpend(await this.#state(account, id, zone))
  }

  async counters(account: string, owner: string, zone?: ZoneRule): Promise<CounterView[]> {
    const keys = keysOf(account, 'book', 'ls', 'h', 'u')
    const send = () => this.#store.view(...keys, owner, ...zoneArgs(zone))
    const reply = await this.#connection.ask(send)
    const views: CounterView[] = []
    for (let i = 0; i < reply.length; i += 5) {
      const [entry = '', current = '', ...amounts] = reply.slice(i, i + 5) as string[]
      const [used = 0n, held = 0n, reset = 0n] = amounts.map(toPico)
      views.push({ limit: readList(entry).counted![0]!, current, used, held, reset })
    }
    return views
  }

  async reset({ account, owner, limit, reference, zone }: Reset): Promise<ResetDone> {
    const keys = keysOf(account, 'book', 'z')
    const args = [owner, limit, reference, ...zoneArgs(zone)]
    const reply = await this.#ask(() => this.#store.reset(...keys, ...args))
    const [state, first = '', second] = reply as string[]
    if (state === 'none') {
      throw new NotFound('not_found', `There is no limit ${JSON.stringify(limit)}.`)
    }
    if (state === 'done') return { window: first, counted: toPico(second), duplicate: false }
    const [of, id, window = '', counted] = first.split('|')
    if (of !== owner || id !== limit) {
      throw new ReferenceTaken(
        `The reference ${JSON.stringify(reference)} belongs to another limit.`,
      )
    }
    return { window, counted: toPico(counted), duplicate: true }
  }

  async rates(account: string, id: string): Promise<RatesUsed> {
    const keys = keysOf(account, 'book', `rl:${id}`, `rl:${ACCOUNT}`)
    const reply = await this.#connection.ask(() => this.#store.rates(...keys))
    const [count, resetMs, countOfAll, resetMsOfAll] = reply.map(Number)
    return {
      key: { count: count!, resetMs: resetMs! },
      account: { count: countOfAll!, resetMs: resetMsOfAll! },
    }
  }

  /** @throws RangeError for a rate or concurrency below 1 */
  async limits(account: string, id: string, limits: KeyLimits, revision: number): Promise<void> {
    checkLimits(limits)
    const text = toLimitsText(limits, revision)
    const keys = keysOf(account, 'book', 'h')
    await this.#ask(() => this.#store.limits(...keys, id, text))
  }

  async receipt(account: string, request: RequestId): Promise<Pico | undefined> {
    const [key = ''] = keysOf(account, `r:${request}`)
    const cost = await this.#connection.ask(() => this.#connection.client.get(key))
    return cost === null ? undefined : toPico(cost)
  }

  async isBooked(gateway: string): Promise<boolean> {
    const { client } = this.#connection
    return (await this.#connection.ask(() => client.get(bookedKey(gateway)))) !== null
  }

  usage(account: string, before = Infinity): AsyncIterable<LedgerRow> {
    return this.#history.usage(account, before)
  }

  /** Compares the rows with the book of the same moment. */
  verify(account?: string): Promise<readonly Discrepancy[]> {
    return this.#history.verify(account)
  }

  orphans(account?: string): AsyncIterable<Orphan> {
    return this.#history.orphans(account)
  }

  quarantined(): readonly Settlement[] {
    return this.#outbox.quarantined()
  }

  bookQuarantined(request: RequestId): Promise<Settled | undefined> {
    return this.#outbox.bookQuarantined(request)
  }

  dropQuarantined(request: RequestId, reason: string): Settlement | undefined {
    return this.#outbox.dropQuarantined(request, reason)
  }

  /** Exports each account as of one moment. @throws Error when an account is folded meanwhile */
  export(): AsyncIterable<LedgerItem> {
    return this.#history.export()
  }

  import(items: readonly LedgerItem[]): Promise<Imported> {
    return this.#import.take(items)
  }

  /** Redis keeps no room for what is gone. */
  async compact(): Promise<void> {}

  /** @throws RangeError for an invalid date */
  async fold(before: Date, take?: TakeRows): Promise<number> {
    const now = (await this.#state(CLOCK_ACCOUNT, '')).at(-1)
    return this.#history.fold(before, Number(now), take)
  }

  health(): LedgerHealth {
    const { waiting, oldestMs } = this.#unconfirmed.health()
    const { isOpen, sentence: doubt } = this.#beat
    const ok = this.#connection.ok && isOpen
    const doubtMember = doubt === undefined ? {} : { doubt }
    const notLooked = isOpen ? undefined : 'the ledger was not looked at since Redis is back'
    const own = this.#outbox.why ?? this.#unconfirmed.why
    const why = this.#connection.why ?? doubt ?? notLooked ?? own
    const outage = this.#outage.at(why)
    const { memoryUsed } = this.#connection
    const figures = { ok: why === undefined, outbox: waiting, oldestMs, memoryUsed }
    const health = { ...figures, ...doubtMember, ...outage }
    return ok && !this.#outbox.isWritable ? { ...health, outboxFault: true } : health
  }

  /** Never resolves: a store that does not answer may come back. */
  readonly lost = new Promise<never>(() => {})

  /** Those that the verification of this gateway has found. */
  get discrepancies(): number {
    return this.#maintenance.discrepancies
  }

  get conflicts(): number {
    return this.#unconfirmed.conflicts
  }

  /** Releases the outbox. The records close the connection. */
  async close(patience?: AbortSignal): Promise<void> {
    this.#maintenance.stop()
    try {
      // Nothing is sent to a ledger without a beat that has agreed.
      await this.#unconfirmed.close(patience)
    } finally {
      await this.#beat.stop()
    }
  }

  /** @throws Unavailable while a settlement is deferred, because its cost is only in this process, and for a ledger in doubt */
  assertOpen(): void {
    if (this.#beat.doubt) throw inDoubt()
    if ((this.#outbox.why ?? this.#unconfirmed.why) !== undefined) throw cannotBook()
  }

  suspect(account: string): void {
    this.#beat.suspect(account)
  }

  confirm(): Promise<void> {
    return this.#beat.confirm()
  }

  async state(): Promise<LedgerState> {
    const { known, doubt } = this.#beat
    const stored = await this.#connection.ask(() => this.#store.hmget(LEDGER, 'id', 'schema'))
    const [id, schema] = stored
    const memory = await this.#connection.ask(() => this.#store.info('memory'))
    const accounts = await accountsIn(this.#connection)
    const rows = await this.#connection.askMany(accounts, (account) =>
      this.#connection.client.xlen(keysOf(account, 'u')[0]!),
    )
    return {
      ...((id ?? known?.id) && { id: id ?? known!.id }),
      schema: Number(schema ?? SCHEMA),
      engine: 'redis',
      ...(doubt && { doubt }),
      bytes: Number(/used_memory:(\d+)/.exec(memory)?.[1] ?? 0),
      rows: rows.reduce((sum, count) => sum + Number(count), 0),
    }
  }

  accept(accepted: AcceptedDoubt): Promise<void> {
    return this.#beat.accept(accepted)
  }

  async adopt(id: string): Promise<boolean> {
    if ((await accountsIn(this.#connection)).length > 0) return false
    await this.#beat.adopt(id)
    return true
  }

  /** Whether the present ledger was accepted in the place of another one. */
  async #wasIts(id: string): Promise<boolean> {
    return (await this.#connection.ask(() => this.#store.hexists(LEDGER, `was:${id}`))) === 1
  }

  /** Sends a script that moves money or admits. @throws Unavailable, for a ledger in doubt without waiting */
  async #ask(send: () => Promise<ScriptReply>, ms?: number): Promise<ScriptReply> {
    if (this.#beat.doubt) throw inDoubt()
    return this.#connection.ask(() => {
      this.#beat.assertOpen()
      return send()
    }, ms)
  }

  async #admission(send: () => Promise<ScriptReply>): Promise<ScriptReply> {
    try {
      return await this.#ask(send, ADMISSION_MS)
    } catch {
      return this.#ask(send, ADMISSION_MS)
    }
  }

  /** @param row its number, where it was booked before */
  async #charge(
    settlement: Settlement,
    deadlineMs: number,
    row?: number,
  ): Promise<Settled & { readonly row?: number }> {
    const { request, account, key, day, cost, usage } = settlement
    const keys = keysOf(account, 'book', 'ls', 'h', 'u', `r:${request}`)
    const body = JSON.stringify(usage)
    const first = [memberOf(settlement), request, day, `${cost}`, `${usage.at}`, body]
    const { tokens, requests } = countsOf(cost, usage)
    const { counted } = usage
    const counts = counted === undefined ? [] : [counted, `${tokens}`, `${requests}`]
    const again = row === undefined ? counts : [...(counted ? counts : ['', '', '']), `${row}`]
    const send = () => this.#store.settle(...keys, ...first, ...again)
    const reply = await this.#ask(send, deadlineMs)
    const settled = toSettled(reply)
    if (settled.state !== 'charged') return settled
    const [, , , number, charged] = reply
    const seq = Number(number)
    // Numbers of an account have no gap.
    const previous = seq - 1
    this.onBooked({ request, account, key, day: charged!, at: usage.at, cost, body, seq, previous })
    return { ...settled, row: seq }
  }

  /** Keeps a lease until Redis is back. Expired ones are dropped here too, because Redis may refuse for hours while connected. */
  #remember(lease: Leave): void {
    this.#forgetExpired()
    this.#unreleased.set(lease, performance.now())
  }

  #releaseAgain(): void {
    this.#forgetExpired()
    const left = [...this.#unreleased.keys()]
    this.#unreleased.clear()
    for (const lease of left) void this.leave(lease)
  }

  /** Drops leases that have expired meanwhile; the oldest come first. */
  #forgetExpired(): void {
    const since = performance.now() - LEASE_MS
    for (const [lease, at] of this.#unreleased) {
      if (at > since) return
      this.#unreleased.delete(lease)
    }
  }

  #state(account: string, key: string, zone?: ZoneRule): Promise<ScriptReply> {
    return this.#connection.ask(() => this.#look(account, key, zone))
  }

  #look(account: string, key: string, zone?: ZoneRule): Promise<ScriptReply> {
    return this.#store.look(...keysOf(account, 'book', 'ls', 'h', 'u'), key, ...zoneArgs(zone))
  }
}

/** The member of a call in the sets of an account. */
function memberOf({ key, team, request }: Lease): string {
  return team === undefined ? `${key}|${request}` : `${key}@${team}|${request}`
}

/** Names of the logs of a call: of its key, its account, and its team, which is the account's again without a team. */
function logsOf({ key, team }: Lease): readonly string[] {
  return [`rl:${key}`, 'rl:@account', `rl:${team === undefined ? ACCOUNT : teamKey(team)}`]
}

/** Nothing is sent for UTC. */
function zoneArgs(zone: ZoneRule | undefined): readonly string[] {
  return zone ? [`${zone.offset}`, `${zone.until}`, `${zone.next}`] : []
}

/** Exists while everything is booked that a gateway which has ended had to book. */
function bookedKey(gateway: string): string {
  return `${PREFIX}:booked:${gateway}`
}

function toBalance([balance, available, paid]: ScriptReply): AccountBalance {
  return { balance: toPico(balance), available: toPico(available), paid: paid === '1' }
}

function toSpend([, , , lifetime, day, month, inFlight]: ScriptReply): KeySpend {
  const spend = { lifetime: toPico(lifetime), day: toPico(day), month: toPico(month) }
  return { ...spend, inFlight: Number(inFlight ?? 0) }
}

/** Address for messages, without a password. */
function placeOf(url: string | readonly string[]): string {
  const urls = typeof url === 'string' ? [url] : url
  return urls.map((one) => `redis://${new URL(one).host}`).join(', ')
}

/** @throws ConfigError when the folder cannot be used */
function openOutbox(folder: string, limitBytes: number | undefined): OutboxFile {
  try {
    return OutboxFile.open(folder, limitBytes)
  } catch (error) {
    const message = `${folder} cannot be used: ${(error as Error).message}.`
    throw new ConfigError('the configuration', [{ path: 'state.outbox', message }])
  }
}

function toAdmission([why, ...rest]: ScriptReply): Admission {
  switch (why) {
    case 'ok': {
      const [at = 0, lease = 0, paid, ...rate] = rest.map(Number)
      return { ok: true, at, lease, paid: paid === 1, rate: toRate(rate) }
    }
    case 'rpm':
    case 'concurrency': {
      const [of, ...numbers] = rest
      const [value = 0, retryAfterMs = 0, ...rate] = numbers.map(Number)
      return { ok: false, why, of: of as LimitOwner, value, retryAfterMs, rate: toRate(rate) }
    }
    case 'disabled':
    case 'expired':
      return { ok: false, why, of: rest[0] as 'key' | 'team' | 'account' }
    default:
      return { ok: false, why: 'stale' }
  }
}

function toRate([limit = 0, remaining = 0, resetMs = 0]: readonly number[]): RateStatus {
  return { limit, remaining, resetMs }
}

/** The reply of the script `hold`. */
function toHoldResult([why, ...rest]: ScriptReply): HoldResult {
  switch (why) {
    case 'ok': {
      const [day = '', billed, tight, counted, ...rate] = rest as string[]
      return {
        ok: true,
        day,
        billed: billed === '1',
        tight: tight === '1',
        ...(counted && { counted }),
        ...(rate.length > 0 && { tokens: toRate(rate.map(Number)) }),
      }
    }
    case 'held': {
      const limit = rest.length > 1 && { limit: toRefused(rest) }
      return { ok: false, why, by: rest[0] as HeldBy, ...limit, retryAfterMs: RETRY_MS }
    }
    case 'limit':
      return { ok: false, why, limit: toRefused(rest), at: Number(rest[8]) }
    default:
      return { ok: false, why: why as 'tier' | 'credits' | 'lost' }
  }
}

function toRefused(reply: ScriptReply): RefusedLimit {
  const [, of, name = '', value, used, current = '', models, raised] = reply as string[]
  return {
    of: of as LimitOwner,
    name,
    ...kindOf(name),
    value: toPico(value),
    used: toPico(used),
    ...(models && { models: models.split(',').map(decodeURIComponent) }),
    ...(raised && { raisedUntil: Number(raised) }),
    current,
  }
}

/** The reply of the scripts `settle` and `book`. */
function toSettled([state, cost, balance]: ScriptReply): Settled {
  return { state: state as Settled['state'], cost: toPico(cost), balance: toPico(balance) }
}

/** Reads the clock of the server into `now`, ms since epoch. */
const STORE_CLOCK = `
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)`
