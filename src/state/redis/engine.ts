/**
 * The Redis engine, for several gateways on one ledger: every admission and every settlement is one script, and one round
 * trip (state design, section 5). All that belongs to an account is in one slot of a cluster. While the store is away
 * nothing is let in, running calls end, and their settlements wait in the outbox.
 */
import { ConfigError } from '../../errors/errors.ts'
import type { Records } from '../records.ts'
import { checkAmount, checkLimits } from '../ledger/checks.ts'
import { Maintenance } from '../ledger/maintenance.ts'
import {
  LEASE_MS,
  type AccountBalance,
  type Discrepancy,
  type Admission,
  type AdmissionRequest,
  type HoldResult,
  type HoldRequest,
  type Imported,
  type KeyLimits,
  type KeySpend,
  type Lease,
  type Ledger,
  type LedgerItem,
  type LedgerRow,
  type Log,
  type Orphan,
  type Settled,
  type Settlement,
  type TopUp,
} from '../ledger/ledger.ts'
import { OutboxFile } from './outbox-file.ts'
import { Outbox } from './outbox.ts'
import { connect, accountPrefix, type RedisConnection } from './connection.ts'
import { RedisHistory } from './history.ts'
import { RedisImport } from './import.ts'
import { recordsIn } from './records.ts'
import {
  toAdmission,
  toHoldResult,
  toLimitsText,
  toPico,
  toSettled,
  type ScriptReply,
  type ScriptClient,
} from './replies.ts'
import { RECEIPT_MS, scriptsWith, STORE_CLOCK } from './scripts.ts'

export interface RedisOptions {
  /** `redis://` or `rediss://`; of a cluster, a list with one or more of its nodes. */
  readonly url: string | readonly string[]
  /** Folder of the outbox; made if it is not there. Several gateways may share it. */
  readonly outbox: string
  /** Days after which usage rows are folded, by whichever gateway comes first; they are kept for good without. */
  readonly retentionDays?: number | undefined
  readonly log: Log
  /** Lua that defines `now`, ms since epoch; the store's own clock unless a test brings its own. */
  readonly clock?: string
}

/** No account's id. It has a slot in a cluster, as the empty one has not, and so a clock. */
const NOBODY = '@nobody'
/** An admission is tried twice (state design, section 8). */
const ADMISSION_MS = 250
const LEAVE_MS = 500
/** For what no client waits for. */
const PATIENCE_MS = 2000

/**
 * Opens the ledger and the records of a Redis, on one connection, which the records close.
 * @throws ConfigError when it cannot be reached or is not fit, or the outbox's folder cannot be used
 */
export async function openRedis({
  url,
  outbox,
  retentionDays,
  log,
  clock = STORE_CLOCK,
}: RedisOptions): Promise<{ readonly ledger: RedisLedger; readonly records: Records }> {
  const { connection, driver } = await connect(url, log)
  const { client } = connection
  for (const [name, script] of Object.entries(scriptsWith(clock))) {
    client.defineCommand(name, script)
  }
  try {
    const file = openOutbox(outbox)
    const ledger = new RedisLedger({ connection, file, retentionDays, log })
    return { ledger, records: recordsIn(connection, driver) }
  } catch (error) {
    connection.close()
    throw error
  }
}

/** The engine of one gateway among several. */
export class RedisLedger implements Ledger {
  readonly #connection: RedisConnection
  readonly #store: ScriptClient
  readonly #history: RedisHistory
  readonly #import: RedisImport
  readonly #outbox: Outbox
  readonly #care: Maintenance
  /** Calls that have ended and may still have a lease, and when that was, steady ms. */
  readonly #left = new Map<Lease, number>()

  constructor({
    connection,
    file,
    retentionDays,
    log,
  }: {
    readonly connection: RedisConnection
    readonly file: OutboxFile
    readonly retentionDays: number | undefined
    readonly log: Log
  }) {
    this.#connection = connection
    this.#store = connection.client as ScriptClient
    this.#history = new RedisHistory(connection)
    this.#import = new RedisImport(connection)
    this.#outbox = new Outbox({
      file,
      send: (settlement, deadlineMs) => this.#charge(settlement, deadlineMs),
      lookUp: (account, settlements) => this.#history.lookUp(account, settlements),
      receiptMs: RECEIPT_MS,
      log,
    })
    const now = () => Date.now()
    this.#care = new Maintenance({ ledger: this, verifies: false, retentionDays, now, log })
    connection.onReturn(() => {
      this.#leaveAgain()
      this.#outbox.replay()
    })
  }

  /** @throws Unavailable while the store is away */
  async enter(entry: AdmissionRequest): Promise<Admission> {
    const { request, account, key, revision, freeTier } = entry
    const at = accountPrefix(account)
    let sent = false
    try {
      const reply = await this.#admission(() => {
        sent = true
        return this.#store.enter(
          `${at}book`,
          `${at}ls`,
          `${at}h`,
          `${at}u`,
          `${at}rl:${key}`,
          `${at}rl:@account`,
          key,
          request,
          String(revision),
          String(freeTier.rpm),
          String(freeTier.perDay),
          String(freeTier.concurrency),
        )
      })
      return toAdmission(reply)
    } catch (error) {
      // It may have been let in without our hearing of it.
      if (sent) void this.leave({ account, key, request })
      throw error
    }
  }

  /**
   * @throws Unavailable while the store is away; RangeError for a negative hold, one above MAX_AMOUNT, or a key whose
   * spend has passed it
   */
  async hold(hold: HoldRequest): Promise<HoldResult> {
    const { request, account, key, free } = hold
    checkAmount('a hold', hold.hold, 0n)
    const at = accountPrefix(account)
    const reply = await this.#admission(() =>
      this.#store.hold(
        `${at}book`,
        `${at}ls`,
        `${at}h`,
        `${at}rl:${key}`,
        key,
        `${key}|${request}`,
        String(hold.at),
        String(hold.hold),
        free ? '1' : '0',
      ),
    )
    if (reply[0] === 'range') checkAmount(`the spend of key ${key}`, BigInt(reply[1]!))
    return toHoldResult(reply)
  }

  /**
   * Never fails because the store is away: then the outbox has it, and the answer's balance, not known, is 0n.
   * @throws RangeError for a negative cost; Unavailable when neither store nor outbox take it
   */
  async settle(settlement: Settlement): Promise<Settled> {
    checkAmount('a cost', settlement.cost, 0n)
    return this.#outbox.settle(settlement)
  }

  /** Never fails: what the store was not told it is told when it is back. */
  async leave(lease: Lease): Promise<void> {
    const { account, key, request } = lease
    const at = accountPrefix(account)
    try {
      await this.#connection.ask(LEAVE_MS, () =>
        this.#store.leave(`${at}book`, `${at}ls`, `${at}h`, `${key}|${request}`),
      )
    } catch {
      this.#remember(lease)
    }
  }

  /** @throws Unavailable while the store is away */
  async renew(leases: readonly Lease[]): Promise<void> {
    const byAccount = Map.groupBy(leases, ({ account }) => account)
    const renewals = [...byAccount].map(([account, own]) => {
      const members = own.map(({ key, request }) => `${key}|${request}`)
      const at = accountPrefix(account)
      return this.#ask(() => this.#store.renew(`${at}book`, `${at}ls`, ...members))
    })
    await Promise.all(renewals)
  }

  /**
   * The answer's `cost` is the amount, negative.
   * @throws RangeError for an amount or balance out of bounds; Unavailable when the store does not answer: it may be booked
   * then, or not, and can be repeated
   */
  async topUp({ account, amount, reference, note }: TopUp): Promise<Settled> {
    checkAmount('a top-up', amount, 1n)
    const at = accountPrefix(account)
    const body = note === undefined ? '' : JSON.stringify(note)
    const book = async () => {
      const reply = await this.#ask(() =>
        this.#store.topUp(`${at}book`, `${at}u`, `${at}t`, reference, String(amount), body),
      )
      if (reply[0] === 'range') checkAmount('the balance after this top-up', BigInt(reply[1]!))
      const settled = toSettled(reply)
      return { ...settled, cost: -settled.cost }
    }
    const booked = await book()
    this.#outbox.remember(book)
    return booked
  }

  /** @throws Unavailable while the store is away */
  async account(id: string): Promise<AccountBalance> {
    const [balance, available, paid] = await this.#look(id, '')
    return { balance: toPico(balance), available: toPico(available), paid: paid === '1' }
  }

  /** @throws Unavailable while the store is away */
  async key(account: string, id: string): Promise<KeySpend> {
    const [, , , lifetime, day, month, inFlight] = await this.#look(account, id)
    const spend = { lifetime: toPico(lifetime), day: toPico(day), month: toPico(month) }
    return { ...spend, inFlight: Number(inFlight ?? 0) }
  }

  /** @throws RangeError for a rate or concurrency below 1; Unavailable while the store is away */
  async limits(account: string, id: string, limits: KeyLimits, revision: number): Promise<void> {
    checkLimits(limits)
    const text = toLimitsText(limits, revision)
    await this.#ask(() => this.#store.limits(`${accountPrefix(account)}book`, id, text))
  }

  /** @throws Unavailable while the store is away */
  usage(account: string, before = Infinity): AsyncIterable<LedgerRow> {
    return this.#history.usage(account, before)
  }

  /** Compares with what the book says of the same moment. @throws Unavailable while the store is away */
  verify(account?: string): Promise<readonly Discrepancy[]> {
    return this.#history.verify(account)
  }

  /** @throws Unavailable while the store is away */
  orphans(account?: string): AsyncIterable<Orphan> {
    return this.#history.orphans(account)
  }

  /** Each account as of one moment. @throws Unavailable while the store is away; Error when one is folded meanwhile */
  export(): AsyncIterable<LedgerItem> {
    return this.#history.export()
  }

  /** @throws Unavailable while the store is away */
  import(items: readonly LedgerItem[]): Promise<Imported> {
    return this.#import.take(items)
  }

  /** @throws Unavailable while the store is away; RangeError for a date that is none */
  async fold(before: Date): Promise<number> {
    const now = (await this.#look(NOBODY, '')).at(-1)
    return this.#history.fold(before, Number(now))
  }

  health(): { ok: boolean; outbox: number; oldestMs: number } {
    const { waiting, oldestMs } = this.#outbox.health()
    return { ok: this.#connection.ok, outbox: waiting, oldestMs }
  }

  /** Gives the outbox up. The connection belongs to the records. */
  async close(): Promise<void> {
    this.#care.stop()
    await this.#outbox.close()
  }

  async #admission(send: () => Promise<ScriptReply>): Promise<ScriptReply> {
    try {
      return await this.#connection.ask(ADMISSION_MS, send)
    } catch {
      return this.#connection.ask(ADMISSION_MS, send)
    }
  }

  async #charge(settlement: Settlement, deadlineMs: number): Promise<Settled> {
    const { request, account, key, day, cost, usage } = settlement
    const at = accountPrefix(account)
    const reply = await this.#connection.ask(deadlineMs, () =>
      this.#store.settle(
        `${at}book`,
        `${at}ls`,
        `${at}h`,
        `${at}u`,
        `${at}r:${request}`,
        key,
        request,
        day,
        String(cost),
        String(usage.at),
        JSON.stringify(usage),
      ),
    )
    return toSettled(reply)
  }

  /** For when the store is back: it may refuse for hours without the connection being lost. */
  #remember(lease: Lease): void {
    this.#forgetExpired()
    this.#left.set(lease, performance.now())
  }

  #leaveAgain(): void {
    this.#forgetExpired()
    const left = [...this.#left.keys()]
    this.#left.clear()
    for (const lease of left) void this.leave(lease)
  }

  /** Drops leases that have expired by themselves: the oldest come first. */
  #forgetExpired(): void {
    const since = performance.now() - LEASE_MS
    for (const [lease, at] of this.#left) {
      if (at > since) return
      this.#left.delete(lease)
    }
  }

  async #look(account: string, key: string): Promise<ScriptReply> {
    const at = accountPrefix(account)
    return this.#ask(() => this.#store.look(`${at}book`, `${at}ls`, `${at}h`, `${at}u`, key))
  }

  /** @throws Unavailable */
  #ask<T>(send: () => Promise<T>): Promise<T> {
    return this.#connection.ask(PATIENCE_MS, send)
  }
}

/** @throws ConfigError */
function openOutbox(folder: string): OutboxFile {
  try {
    return OutboxFile.open(folder)
  } catch (error) {
    const message = `${folder} cannot be used: ${(error as Error).message}.`
    throw new ConfigError('the configuration', [{ path: 'state.outbox', message }])
  }
}
