/**
 * The ledger: balances, spend, limits, leases, holds, receipts. The only place where limits are decided and money moves.
 * Engines share this port and one conformance suite; time is the engine's, never the caller's.
 */
import type { ConsolaInstance } from 'consola'
import type { Pico } from '../../money/money.ts'
import type { Usage } from '../../plugin.ts'

/** `req_` + ULID, made by the gateway: header, ledger and logs carry the same one. */
export type RequestId = string

/** What `enter` needs; the engine looks nothing up elsewhere. */
export interface AdmissionRequest {
  readonly request: RequestId
  readonly account: string
  readonly key: string
  /** Revision of the key record the caller decided with. */
  readonly revision: number
  /** Applied per account while it is unpaid; the lower of these and the key's own limits counts. */
  readonly freeTier: FreeTierLimits
}

export interface FreeTierLimits {
  /** Requests per minute. */
  readonly rpm: number
  /** Requests per UTC day. */
  readonly perDay: number
  readonly concurrency: number
}

/** For the `x-ratelimit-*` headers: the log that is nearest to refusing. */
export interface RateStatus {
  readonly limit: number
  readonly remaining: number
  /** Until the full limit is back. */
  readonly resetMs: number
}

export type Admission =
  | Admitted
  /** Reload the key record, ask once more. */
  | { readonly ok: false; readonly why: 'stale' }
  | { readonly ok: false; readonly why: 'disabled' | 'expired' }
  | {
      readonly ok: false
      readonly why: 'rpm' | 'day' | 'concurrency'
      readonly retryAfterMs: number
      readonly rate: RateStatus
    }

export interface Admitted {
  readonly ok: true
  /** The store's clock, ms since epoch. */
  readonly at: number
  /** When the lease expires unless renewed, ms since epoch. */
  readonly lease: number
  readonly paid: boolean
  readonly rate: RateStatus
}

export interface HoldRequest {
  readonly request: RequestId
  readonly account: string
  readonly key: string
  /** `at` of Entered. */
  readonly at: number
  /** Money set aside while the call runs; 0n is legal. */
  readonly hold: Pico
  /** The model is marked free_tier. */
  readonly free: boolean
}

export type HoldResult =
  | HoldGranted
  | { readonly ok: false; readonly why: 'tier' | 'credits' }
  | {
      readonly ok: false
      readonly why: 'cap'
      readonly scope: CapScope
      /** When the window ends, ms since epoch; none for `lifetime`. */
      readonly resetsAt?: number
    }
  | { readonly ok: false; readonly why: 'held'; readonly retryAfterMs: number }
  /** The lease had expired: this process was paused for too long. */
  | { readonly ok: false; readonly why: 'lost' }

export interface HoldGranted {
  readonly ok: true
  /** UTC day of the hold, `YYYYMMDD`: the window that allowed the call pays for it. */
  readonly day: string
  /** False on the free tier: the call is settled with 0. */
  readonly billed: boolean
}

export type CapScope = 'lifetime' | 'day' | 'month'

/** How a call ended. `refused` is a policy refusal delivered as a normal answer. */
export type Outcome = 'completed' | 'refused' | 'cancelled' | 'failed'

/** Quantities and circumstances of a settled call; never prompt or answer text. */
export interface UsageRow {
  readonly at: number
  readonly endpoint: string
  readonly model: string
  readonly deployment?: string
  readonly outcome: Outcome
  readonly lines: readonly { readonly source: string; readonly usage: Usage }[]
}

export interface Settlement {
  readonly request: RequestId
  readonly account: string
  readonly key: string
  /** From Held; used when the hold has already expired. */
  readonly day: string
  /** 0n is legal: free tier, failed call. */
  readonly cost: Pico
  readonly usage: UsageRow
}

export interface Settled {
  readonly state: 'charged' | 'duplicate'
  readonly cost: Pico
  readonly balance: Pico
}

export interface TopUp {
  readonly account: string
  /** Above 0n and at most `MAX_AMOUNT`; larger sums throw RangeError. */
  readonly amount: Pico
  /** Idempotency key: a reference that was used is not booked again. */
  readonly reference: string
  readonly note?: string
}

/** A lease's identity. */
export interface Lease {
  readonly account: string
  readonly key: string
  readonly request: RequestId
}

/** Limits of one key, as they apply at admission. */
export interface KeyLimits {
  readonly disabled: boolean
  /** ms since epoch. */
  readonly expiresAt?: number
  readonly rpm: number
  readonly concurrency: number
  readonly cap?: { readonly amount: Pico; readonly scope: CapScope }
}

export interface AccountBalance {
  readonly balance: Pico
  /** Balance minus live holds. */
  readonly available: Pico
  readonly paid: boolean
}

export interface KeySpend {
  readonly lifetime: Pico
  readonly day: Pico
  readonly month: Pico
  readonly inFlight: number
}

/** One row of an account's history. A top-up has a negative cost, its reference as `request`, and no usage. */
export interface LedgerRow {
  /** Sequence within the account, ascending: the cursor of `usage`. */
  readonly seq: number
  readonly kind: 'usage' | 'top-up' | 'orphan'
  readonly request: string
  readonly key?: string
  readonly at: number
  readonly cost: Pico
  readonly usage?: UsageRow
  readonly note?: string
}

/** An `orphan` row says whose call it was: one that was let in, and of which nobody knows what became. */
export interface Orphan extends LedgerRow {
  readonly account: string
}

/**
 * What an export says and an import takes in. All that is said of an account follows its `account` item, and the total of
 * a key and day comes before the rows of that day.
 */
export type LedgerItem = AccountItem | LimitsItem | TotalItem | RowItem

export interface AccountItem {
  readonly kind: 'account'
  readonly account: string
  readonly paid: boolean
}

export interface LimitsItem {
  readonly kind: 'limits'
  readonly account: string
  readonly key: string
  readonly limits: KeyLimits
  readonly revision: number
}

/** What is left of usage rows of one key and day that were folded. */
export interface TotalItem {
  readonly kind: 'total'
  readonly account: string
  readonly key: string
  /** UTC, `YYYYMMDD`: the one that was charged. */
  readonly day: string
  /** How many they were. */
  readonly rows: number
  readonly cost: Pico
}

/** A row of history; its place in the export is its place in the history. */
export interface RowItem extends Omit<LedgerRow, 'seq'> {
  readonly account: string
  /** Of a usage row: the UTC day that was charged, `YYYYMMDD`. */
  readonly day?: string
  /** Others of its key and day were folded, and their total is without this one. */
  readonly unfolded?: true
}

export interface Imported {
  /** Items that agree with what is there now. */
  readonly taken: number
  /** Those of them that were not there before. */
  readonly added: number
  /** What the item after these has against what is there, in words; nothing after it was looked at. */
  readonly refused?: string
}

/** A sum that does not equal its rows. */
export interface Discrepancy {
  readonly account: string
  readonly what: string
  readonly stored: Pico
  readonly recomputed: Pico
}

export interface Ledger {
  /** Admission, first half: key state, rate, concurrency lease. A refusal changes nothing. */
  enter(entry: AdmissionRequest): Admission | Promise<Admission>
  /** Admission, second half: tier, caps, balance, money hold. */
  hold(hold: HoldRequest): HoldResult | Promise<HoldResult>
  /** Charges once per request id, releases lease and hold. Resolves only when durable. */
  settle(settlement: Settlement): Promise<Settled>
  /** Releases lease and hold without charge, receipt or row; for calls that are never settled. */
  leave(lease: Lease): void | Promise<void>
  /** Extends leases; never brings back one that was swept or settled. */
  renew(leases: readonly Lease[]): Promise<void>
  /** Idempotent by reference; the first one ends the free tier for good. */
  topUp(topUp: TopUp): Promise<Settled>
  account(id: string): Promise<AccountBalance>
  key(account: string, id: string): Promise<KeySpend>
  /** Stored revision becomes the higher of the two; lower revisions are told `stale` by the next `enter`. */
  limits(account: string, id: string, limits: KeyLimits, revision: number): Promise<void>
  /** Rows of an account, newest first, below the cursor if one is given. */
  usage(account: string, before?: number): AsyncIterable<LedgerRow>
  /** Recomputes every sum from the rows; an empty list is good news. */
  verify(account?: string): Promise<readonly Discrepancy[]>
  /** Of an account, or of all; newest first within an account. */
  orphans(account?: string): AsyncIterable<Orphan>
  /** All that a start would know again, as of one moment: no leases, holds and rates. */
  export(): AsyncIterable<LedgerItem>
  /**
   * Takes items of an export in, in their order, each as a whole and at most once: rows are receipts. Limits count unless
   * those that are there have the same or a higher revision. Resolves when all that was taken is durable.
   */
  import(items: readonly LedgerItem[]): Promise<Imported>
  /**
   * Replaces usage rows of UTC days that had ended before a moment by a total per key and day. No sum changes, but a folded
   * row is no receipt any more: those of calls that came in less than {@link RECEIPT_HOURS} ago stay.
   * @returns how many rows were folded
   */
  fold(before: Date): Promise<number>
  health(): { readonly ok: boolean; readonly outbox: number; readonly oldestMs: number }
  close(): Promise<void>
}

/** For at least so long a settlement can be repeated without being charged twice. */
export const RECEIPT_HOURS = 48

/** How long a lease lives unless it is renewed. */
export const LEASE_MS = 30_000

/** Retry-After of a refusal that ends as soon as another call does. */
export const RETRY_MS = 1000

/** Where an engine says what its operator should know. */
export type Log = Pick<ConsolaInstance, 'info' | 'warn' | 'error'>
