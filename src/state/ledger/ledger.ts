/**
 * The ledger port: balances, spend, limits, leases, holds and receipts. Limits are decided, and money is moved, nowhere else.
 * Both engines implement all of it, so it is one file, and pass one conformance suite. They read the time themselves.
 */
import type { ConsolaInstance } from 'consola'
import type { Pico } from '../../money/money.ts'
import type { Usage } from '../../plugin.ts'

/** `req_` and a ULID, made by the gateway. The response header, the ledger and the logs carry the same id. */
export type RequestId = string

/** A key with its account. */
export interface KeyOfAccount {
  readonly account: string
  readonly key: string
}

/** Identifies a call, and its lease. */
export interface Lease {
  readonly account: string
  readonly key: string
  readonly request: RequestId
}

/** Input of `leave`. */
export interface Leave extends Lease {
  /** The admission, as {@link Admitted.at}: the call is not counted in the rate limit then, unless `hold` undid that already. */
  readonly slot?: number
}

/** Input of `enter`; the engine looks nothing up elsewhere. */
export interface AdmissionRequest extends Lease {
  /** Revision of the key record that the caller has read. */
  readonly revision: number
  /** Revision of the account record that the caller has read; 0 for one that was never changed. */
  readonly accountRevision?: number
  /** Applied to the account while it is unpaid. The lower of these limits and the key's own applies. */
  readonly freeTier: FreeTierLimits
}

/** Limits of an unpaid account. */
export interface FreeTierLimits {
  /** Requests per minute. */
  readonly rpm: number
  /** Requests per UTC day. */
  readonly perDay: number
  readonly concurrency: number
}

/** Values of the `x-ratelimit-*` headers, from the rate log with the fewest requests remaining. */
export interface RateStatus {
  readonly limit: number
  readonly remaining: number
  /** Time until the full limit is available again. */
  readonly resetMs: number
}

/** Answer of `enter`. */
export type Admission =
  | Admitted
  /** The caller reloads the key record and asks once more. */
  | { readonly ok: false; readonly why: 'stale' }
  | { readonly ok: false; readonly why: 'disabled' | 'expired'; readonly of: 'key' | 'account' }
  | {
      readonly ok: false
      readonly why: 'rpm' | 'day' | 'concurrency'
      readonly of: LimitOwner
      readonly retryAfterMs: number
      readonly rate: RateStatus
    }

/** Whose limit it is: that of the key, of its account, or of the free tier. */
export type LimitOwner = 'key' | 'account' | 'tier'

/** A call that was admitted. */
export interface Admitted {
  readonly ok: true
  /** The store's clock, ms since epoch. */
  readonly at: number
  /** When the lease expires unless renewed, ms since epoch. */
  readonly lease: number
  readonly paid: boolean
  readonly rate: RateStatus
}

/** Input of `hold`. */
export interface HoldRequest extends Lease {
  /** `at` of the admission. */
  readonly at: number
  /** What the call will probably cost: the money reserved while it runs. 0n is legal. */
  readonly expected: Pico
  /** What it can cost if the vendor keeps to what it was told; at least `expected`. */
  readonly ceiling: Pico
  readonly exposure: Exposure
  /** Whether the model is marked `free_tier`. */
  readonly free: boolean
}

/** How far the ceilings of calls that run together may pass what is left: the smaller of two amounts. */
export interface Exposure {
  /** From 0 to 1: of the account's top-ups, and for a cap of the cap. */
  readonly share: number
  readonly most: Pico
}

/** Grows the hold of a running call. */
export interface Raise extends Lease {
  /** The amount held now; any other one makes this a repetition or a late raise, without effect. */
  readonly from: Pico
  /** Above `from`, and at most the ceiling of the hold. */
  readonly to: Pico
}

/**
 * Which condition made a call wait for the calls that run: what is expected does not fit the balance or the cap, or the
 * ceilings do not fit it with the exposure.
 */
export type HeldBy = 'balance' | 'balance_ceilings' | 'cap' | 'cap_ceilings'

/** Answer of `hold`. */
export type HoldResult =
  | HoldGranted
  | { readonly ok: false; readonly why: 'tier' | 'credits' }
  | {
      readonly ok: false
      readonly why: 'cap'
      readonly of: 'key' | 'account'
      readonly scope: CapScope
      /** When the window ends, ms since epoch; none for `lifetime`. */
      readonly resetsAt?: number
    }
  | {
      readonly ok: false
      readonly why: 'held'
      readonly by: HeldBy
      readonly retryAfterMs: number
    }
  /** The lease has expired: this process was paused for too long. */
  | { readonly ok: false; readonly why: 'lost' }

/** The money of a call is held. */
export interface HoldGranted {
  readonly ok: true
  /** UTC day of the hold, `YYYYMMDD`. The call is charged in the window that admitted it. */
  readonly day: string
  /** False on the free tier, where every call is settled with 0. */
  readonly billed: boolean
  /** Less than {@link TIGHT_CEILINGS} ceilings of the call are left: its hold has to grow with what it consumes. */
  readonly tight: boolean
}

/** The window in which a cap counts. */
export type CapScope = 'lifetime' | 'day' | 'month'

/** How a call ended. `refused` is a policy refusal that was delivered as a normal answer. */
export type Outcome = 'completed' | 'refused' | 'cancelled' | 'failed'

/** Quantities and circumstances of a settled call. Never holds text of the prompt or the answer. */
export interface UsageRow {
  readonly at: number
  readonly endpoint: string
  readonly model: string
  readonly deployment?: string
  readonly outcome: Outcome
  readonly lines: readonly UsageRowLine[]
  /** Labels that the client, or the key, has given the call: what it was for, and for whom. */
  readonly tag?: string
  readonly user?: string
  /** The gateway that has served the call. */
  readonly gateway?: string
  /** Why the cost is not that of the lines: nothing was charged, or the most that one call may cost. */
  readonly charged?: 'nothing' | 'most'
  /** What an operator should look at; see {@link UsageFlag}. */
  readonly flags?: readonly UsageFlag[]
  /** What a vendor reported, where it was out of bounds: figures by deployment. */
  readonly reported?: Readonly<Record<string, unknown>>
}

/** Quantities of one source, and the prices by which they were charged. */
interface UsageRowLine {
  readonly source: string
  readonly usage: Usage
  /** Version of the prices (`src/state/prices.ts`); absent in rows of earlier releases. */
  readonly prices?: string
  /** Tokens of the prompt from which the prices applied; 0 for those of the list. */
  readonly tier?: number
}

/** `estimated`: a vendor's count was missing or unusable; `suspicious`: a count was above what is plausible. */
export type UsageFlag = 'estimated' | 'suspicious'

/** Input of `settle`. */
export interface Settlement extends Lease {
  /** `day` of the hold; used when the hold has expired. */
  readonly day: string
  /** 0n is legal: on the free tier, and for failed calls. */
  readonly cost: Pico
  readonly usage: UsageRow
}

/** Answer of `settle`, `waive`, `topUp` and `adjust`; the last two are never deferred. */
export interface Settled {
  /**
   * `duplicate`: booked before, with the cost of the answer. `deferred`: durable nowhere yet; the engine keeps the
   * settlement and goes on trying, the balance is unknown.
   */
  readonly state: 'charged' | 'duplicate' | 'deferred'
  readonly cost: Pico
  readonly balance: Pico
}

/** A charge that was booked just now, as its row has it. */
export interface BookedCharge extends Lease {
  readonly seq: number
  /** The row of the account before it; 0 where there is none that is not folded. */
  readonly previous: number
  /** The UTC day that was charged, `YYYYMMDD`. */
  readonly day: string
  /** When the call was admitted, ms since epoch. */
  readonly at: number
  readonly cost: Pico
  /** {@link UsageRow} as JSON. */
  readonly body: string
}

/** Input of `topUp`. */
export interface TopUp {
  readonly account: string
  /** Above 0n and at most `MAX_AMOUNT`, else `topUp` throws a RangeError. */
  readonly amount: Pico
  /** Idempotency key: a reference is booked once per account. */
  readonly reference: string
  readonly note?: string
}

/** Input of `adjust`. */
export interface Adjustment {
  readonly account: string
  /** Added to the balance: above or below 0n, at most `MAX_AMOUNT` either way, else `adjust` throws a RangeError. */
  readonly amount: Pico
  /** Idempotency key: a reference is booked once per account. Top-ups have references of their own. */
  readonly reference: string
  readonly reason: string
}

/** In the place of a key: the limits and the spend of an account over all its keys. */
export const ACCOUNT = '@account'

/** The limits of one key, or of {@link ACCOUNT}. An absent one does not limit. */
export interface KeyLimits {
  readonly disabled: boolean
  /** ms since epoch. */
  readonly expiresAt?: number
  readonly rpm?: number
  readonly concurrency?: number
  readonly cap?: { readonly amount: Pico; readonly scope: CapScope }
}

/** Money of an account. */
export interface AccountBalance {
  readonly balance: Pico
  /** The balance minus all live holds. */
  readonly available: Pico
  readonly paid: boolean
}

/** Money of an account, with its spend over all keys. */
export interface AccountTotals extends AccountBalance {
  readonly spend: KeySpend
}

/** Admissions of the last minute that count in a rate limit. */
export interface RateUse {
  readonly count: number
  /** Time until none of them counts. */
  readonly resetMs: number
}

/** What is used of the rates of a key and of its account. */
export interface RatesUsed {
  readonly key: RateUse
  /** Counted while the account has a rate of its own, or is unpaid. */
  readonly account: RateUse
  /** Admissions of an unpaid account on this UTC day. */
  readonly today: number
}

/** Settled spend of a key, and its running calls. */
export interface KeySpend {
  readonly lifetime: Pico
  readonly day: Pico
  readonly month: Pico
  readonly inFlight: number
}

/**
 * One row of an account's history. A top-up and an adjustment have their reference as `request` and no `usage`; their
 * `cost` is the negative amount.
 */
export interface LedgerRow {
  /** Ascending within the account, with gaps; the cursor of `usage`. */
  readonly seq: number
  readonly kind: 'usage' | 'top-up' | 'adjust' | 'orphan'
  readonly request: string
  readonly key?: string
  readonly at: number
  readonly cost: Pico
  readonly usage?: UsageRow
  /** The note of a top-up, the reason of an adjustment. */
  readonly note?: string
}

/** The row of a call that was admitted and never ended: its gateway was killed, or lost its lease. */
export interface Orphan extends LedgerRow {
  readonly account: string
}

/**
 * One item of an export. The items of an account follow its `account` item, and the total of a key and day comes before
 * the rows of that day.
 */
export type LedgerItem = AccountItem | LimitsItem | TotalItem | RowItem

/** An account of an export. */
interface AccountItem {
  readonly kind: 'account'
  readonly account: string
  readonly paid: boolean
}

/** The limits of a key. */
export interface LimitsItem {
  readonly kind: 'limits'
  readonly account: string
  readonly key: string
  readonly limits: KeyLimits
  readonly revision: number
}

/** The sum of the folded usage rows of one key and day. */
export interface TotalItem {
  readonly kind: 'total'
  readonly account: string
  readonly key: string
  /** The UTC day that was charged, `YYYYMMDD`. */
  readonly day: string
  /** Number of rows in the sum. */
  readonly rows: number
  readonly cost: Pico
}

/** A row of history. Exports hold rows in the order of the history. */
export interface RowItem extends Omit<LedgerRow, 'seq'> {
  readonly account: string
  /** The UTC day that a usage row was charged to, `YYYYMMDD`. */
  readonly day?: string
  /** Set when other rows of its key and day were folded: their total does not contain this row. */
  readonly unfolded?: true
}

/** Answer of `import`. */
export interface Imported {
  /** Items that are in the ledger now. */
  readonly taken: number
  /** Items among them that are new. */
  readonly added: number
  /** Why the next item contradicts the ledger. The items after it were not read. */
  readonly refused?: string
}

/** A stored sum that differs from the sum of its rows. */
export interface Discrepancy {
  readonly account: string
  readonly what: string
  readonly stored: Pico
  readonly recomputed: Pico
}

/** What an engine implements. */
export interface Ledger {
  /** First half of the admission: key state, rate, concurrency lease. A refusal changes nothing. */
  enter(entry: AdmissionRequest): Admission | Promise<Admission>
  /** Second half of the admission: tier, cap, balance, money hold. */
  hold(hold: HoldRequest): HoldResult | Promise<HoldResult>
  /** Grows a hold. It is never refused; without its lease, or with another hold than `from`, it has no effect. */
  raise(raise: Raise): void | Promise<void>
  /**
   * Charges once per request id, and releases lease and hold. Resolves when the charge is durable, or as `deferred` when it
   * is not within ten seconds. Never rejects.
   */
  settle(settlement: Settlement): Promise<Settled>
  /** Called once with each charge that this engine has booked, also one that was deferred. */
  onBooked: (charge: BookedCharge) => void
  /**
   * A deferred settlement whose answer was not sent costs 0, unless it was booked meanwhile. Resolves with `deferred` and 0,
   * or with the receipt. Never rejects.
   */
  waive(lease: Lease): Promise<Settled>
  /** Releases lease and hold without a charge, a receipt or a row, for a call that is never settled. */
  leave(lease: Leave): void | Promise<void>
  /** Extends leases. A lease that has expired or was settled stays gone. */
  renew(leases: readonly Lease[]): Promise<void>
  /** Idempotent by reference. The first top-up of an account ends its free tier for ever. */
  topUp(topUp: TopUp): Promise<Settled>
  /** Corrects a balance, below zero too. Idempotent by reference. Spend, caps and the free tier stay as they are. */
  adjust(adjustment: Adjustment): Promise<Settled>
  account(id: string): Promise<AccountBalance>
  /** The money of many accounts, in their order, each as of one moment. */
  balances(ids: readonly string[]): Promise<readonly AccountTotals[]>
  /** The settled lifetime spend of many keys, in their order. */
  spends(keys: readonly KeyOfAccount[]): Promise<readonly Pico[]>
  /** @param id a key, or {@link ACCOUNT} */
  key(account: string, id: string): Promise<KeySpend>
  /** @param id a key, or {@link ACCOUNT} */
  rates(account: string, id: string): Promise<RatesUsed>
  /** Stores limits of a key or of {@link ACCOUNT} unless the stored revision is higher. A lower revision is `stale` to the next `enter`. */
  limits(account: string, id: string, limits: KeyLimits, revision: number): Promise<void>
  /** Rows of an account, newest first. @param before a `seq`: only rows below it */
  usage(account: string, before?: number): AsyncIterable<LedgerRow>
  /** Recomputes every sum from the rows. An empty list means that all of them agree. */
  verify(account?: string): Promise<readonly Discrepancy[]>
  /** Orphans of one account or of all, newest first within an account. */
  orphans(account?: string): AsyncIterable<Orphan>
  /** The durable state as of one moment. Leases, holds and rate logs are not part of it. */
  export(): AsyncIterable<LedgerItem>
  /**
   * Imports items of an export in their order, each as a whole and at most once, because rows are receipts. Limits are
   * stored unless the stored revision is the same or higher. Resolves when every imported item is durable.
   */
  import(items: readonly LedgerItem[]): Promise<Imported>
  /**
   * Replaces usage rows of UTC days that ended before a moment with one total per key and day. No sum changes. A folded row
   * is no receipt any more, so rows of calls admitted less than `RECEIPT_HOURS` (`items.ts`) ago stay.
   * @returns the number of rows folded
   */
  fold(before: Date): Promise<number>
  health(): LedgerHealth
  /** Resolves, with a reason, when the ledger is gone or damaged: it admits nothing any more, and has to be closed. */
  readonly lost: Promise<string>
  /** Sums that did not equal their rows when the ledger was last verified in the background. */
  readonly discrepancies: number
  /** Settlements since the start that were booked before with another cost. The first cost stands. */
  readonly conflicts: number
  /** Rows that the ledger had before this start and has no more, because an older copy was put in its place. */
  readonly rolledBackRows: number
  /** @throws UnbookedSettlements when settlements are left that only the log holds now; LostState after {@link lost} */
  close(): Promise<void>
}

/** What operators see of an engine. */
export interface LedgerHealth {
  /** Whether calls are admitted: the store and the outbox can be written, and no settlement is deferred. */
  readonly ok: boolean
  /** Present where the outbox alone is why no calls are admitted: it cannot be written. */
  readonly outboxFault?: true
  /** Settlements that the store has not confirmed. */
  readonly outbox: number
  /** How long the oldest of them has waited. */
  readonly oldestMs: number
}

/** How long a lease lives unless it is renewed. */
export const LEASE_MS = 30_000

/** Where an engine reports to the operator. */
export type Log = Pick<ConsolaInstance, 'info' | 'warn' | 'error'>
