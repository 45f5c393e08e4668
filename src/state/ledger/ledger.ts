/**
 * The ledger port: balances, spend, limits, leases, holds and receipts. Limits are decided and money is moved only here.
 * Both engines implement all of it, so it is one file, and pass one conformance suite. They read the time themselves.
 */
import type { Pico } from '../../money/money.ts'
import type { Usage } from '../../plugin.ts'
import type { Window, ZoneRule } from './windows.ts'

/** `req_` and a ULID, made by the gateway. The response header, the ledger and the logs carry the same id. */
export type RequestId = string

export interface KeyOfAccount {
  readonly account: string
  readonly key: string
}

export interface Lease {
  readonly account: string
  readonly key: string
  readonly request: RequestId
  /** The team of the key when the call entered. */
  readonly team?: string | undefined
}

export interface Leave extends Lease {
  /** `at` of the admission: the call is then not counted in the rate limit, unless `hold` undid that already. */
  readonly slot?: number
}

/** Input of `enter`; the engine looks nothing up elsewhere. */
export interface AdmissionRequest extends Lease {
  /** Revision of the key record that the caller has read. */
  readonly revision: number
  /** Revision of the account record that the caller has read; 0 for one that was never changed. */
  readonly accountRevision?: number
  /** Revision of the team record that the caller has read. */
  readonly teamRevision?: number
  /** Limits of the account while it is unpaid. The lower of these limits and the key's own applies. */
  readonly freeTier: FreeTierLimits
}

/** Limits of an unpaid account. */
export interface FreeTierLimits {
  /** Requests per minute. */
  readonly rpm: number
  readonly concurrency: number
}

/** Values of the `x-ratelimit-*` headers, from the rate log with the fewest requests remaining. */
export interface RateStatus {
  readonly limit: number
  readonly remaining: number
  /** Time until the full limit is available again. */
  readonly resetMs: number
}

export type Admission =
  | Admitted
  /** The caller reloads the key record and asks once more. */
  | { readonly ok: false; readonly why: 'stale' }
  | {
      readonly ok: false
      readonly why: 'disabled' | 'expired'
      readonly of: 'key' | 'team' | 'account'
    }
  | {
      readonly ok: false
      readonly why: 'rpm' | 'concurrency'
      readonly of: LimitOwner
      /** The value of the limit. */
      readonly value: number
      readonly retryAfterMs: number
      readonly rate: RateStatus
    }

/** Owner of a limit: the key, its team, its account, or the free tier. */
export type LimitOwner = 'key' | 'team' | 'account' | 'tier'

/** What a limit counts. */
export type Unit = 'usd' | 'requests' | 'tokens' | 'concurrent'

/** A limit that `hold` decides. Its id is its name without the owner; unit and window follow from it. */
export interface CountedLimit {
  readonly id: string
  /** Picodollars for usd, else a number. */
  readonly value: bigint
  /** Ids of models, or `vendor/*`; absent: all. */
  readonly models?: readonly string[]
  /** A higher value in force until a moment, ms since epoch. */
  readonly raised?: { readonly value: bigint; readonly until: number }
}

/** A limit of `hold` that has refused a call, as it stood then. */
export interface RefusedLimit {
  readonly of: LimitOwner
  /** {@link CountedLimit.id} */
  readonly name: string
  readonly unit: Unit
  readonly window?: Window
  /** The value in force. */
  readonly value: bigint
  readonly used: bigint
  readonly models?: readonly string[]
  /** End of the raise that is in force, ms since epoch. */
  readonly raisedUntil?: number
  /** Name of the window that is counted. */
  readonly current: string
}

export interface Admitted {
  readonly ok: true
  /** The store's clock, ms since epoch. */
  readonly at: number
  /** Expiry of the lease unless it is renewed, ms since epoch. */
  readonly lease: number
  readonly paid: boolean
  readonly rate: RateStatus
}

export interface HoldRequest extends Lease {
  /** `at` of the admission. */
  readonly at: number
  /** Probable cost of the call: the money reserved while it runs. 0n is legal. */
  readonly expected: Pico
  /** Cost if the vendor uses all that it is allowed; at least `expected`. */
  readonly ceiling: Pico
  readonly exposure: Exposure
  /** Whether the model is marked `free_tier`. */
  readonly free: boolean
  /** Id of the model, for limits by model. */
  readonly model: string
  readonly tokens: { readonly expected: number; readonly ceiling: number }
  /** The time zone of the account; absent for UTC. */
  readonly zone?: ZoneRule | undefined
  /** Requests a day of an unpaid account. */
  readonly tierPerDay?: number
  /**
   * Whether it takes the place of the call's own hold, as if that were not there. Refused, it leaves that as it is. Without
   * this, a call that holds money gets the same answer again.
   */
  readonly replaces?: boolean
}

/** How far the ceilings of calls that run together may exceed what is left: the smaller of two amounts. */
export interface Exposure {
  /** Share from 0 to 1 of the account's top-ups, and for a cap of the cap. */
  readonly share: number
  readonly most: Pico
}

export interface Raise extends Lease {
  /** The present hold; any other amount makes this a repetition or a late raise, without effect. */
  readonly from: Pico
  /** The new amount, above `from`, and at most the ceiling of the hold. */
  readonly to: Pico
}

/**
 * The condition that makes a call wait for running calls: what it is expected to use does not fit the balance or a limit, or its
 * ceiling does not fit with the exposure; or as many calls run as a limit lets run at once.
 */
export type HeldBy = 'balance' | 'balance_ceilings' | 'cap' | 'cap_ceilings' | 'concurrency'

export type HoldResult =
  | HoldGranted
  | { readonly ok: false; readonly why: 'tier' | 'credits' }
  /** `at`: the store's clock, ms since epoch. */
  | { readonly ok: false; readonly why: 'limit'; readonly limit: RefusedLimit; readonly at: number }
  | {
      readonly ok: false
      readonly why: 'held'
      readonly by: HeldBy
      /** It is absent where the balance makes it wait. */
      readonly limit?: RefusedLimit
      readonly retryAfterMs: number
    }
  /** The lease has expired: this process was paused for too long. */
  | { readonly ok: false; readonly why: 'lost' }

export interface HoldGranted {
  readonly ok: true
  /** Local date of the hold, `YYYYMMDD`. The call is charged in the window that admitted it. */
  readonly day: string
  /** It is false on the free tier, where every call is settled with 0. */
  readonly billed: boolean
  /** It is true while less than {@link TIGHT_CEILINGS} ceilings of the call are left: its hold has to grow with its consumption. */
  readonly tight: boolean
  /** The counters in which the call is reserved, `<owner>:<name>@<window>` joined by commas. Absent where there are none. */
  readonly counted?: string
  /** The nearest limit of tokens a minute for all models, after this call was reserved. */
  readonly tokens?: RateStatus
}

/** How a call ended. `refused` is a policy refusal that was delivered as a normal answer, `replayed` an answer sent again. */
export type Outcome = 'completed' | 'refused' | 'cancelled' | 'failed' | 'replayed'

/** Quantities and circumstances of a settled call. Never holds text of the prompt or the answer. */
export interface UsageRow {
  readonly at: number
  readonly endpoint: string
  readonly model: string
  readonly deployment?: string
  readonly outcome: Outcome
  readonly lines: readonly UsageRowLine[]
  /** Labels from the client, or the key: purpose and end user of the call. */
  readonly tag?: string
  readonly user?: string
  readonly gateway?: string
  readonly team?: string
  /** `counted` of the hold: the settlement counts there. */
  readonly counted?: string
  /** Why the cost differs from that of the lines: nothing was charged, or the most that one call may cost. */
  readonly charged?: 'nothing' | 'most'
  /** Why nothing was charged: the account is on the free tier, or the gateway itself has failed. */
  readonly because?: 'free_tier' | 'gateway'
  /** The price list of the account. */
  readonly list?: string
  /** What the vendors are paid, in pico-dollars; absent where it is unknown, as in rows of earlier releases. */
  readonly vendor?: string
  /** Marks for the operator; see {@link UsageFlag}. */
  readonly flags?: readonly UsageFlag[]
  /** Vendor's figures that were out of bounds, by deployment. */
  readonly reported?: Readonly<Record<string, unknown>>
}

/** Quantities of one source, and the prices that were charged. */
interface UsageRowLine {
  readonly source: string
  readonly usage: Usage
  /** Version of the prices (`src/state/prices.ts`); absent in rows of earlier releases. */
  readonly prices?: string
  /** Tokens of the prompt from which the prices apply; 0 for the list prices. */
  readonly tier?: number
  /** Version of what its vendor is paid, where it is not `prices`. */
  readonly cost?: string
}

/** `estimated`: a vendor's count was missing or unusable; `suspicious`: a count was above what is plausible. */
export type UsageFlag = 'estimated' | 'suspicious'

export interface Settlement extends Lease {
  /** `day` of the hold; used when the hold has expired. */
  readonly day: string
  /** 0n is legal: on the free tier, and for failed calls. */
  readonly cost: Pico
  readonly usage: UsageRow
}

export interface Settled {
  /**
   * `duplicate`: booked earlier, with the cost of the answer. `deferred`: durable nowhere yet; the engine keeps the settlement
   * and retries, and the balance is unknown.
   */
  readonly state: 'charged' | 'duplicate' | 'deferred'
  readonly cost: Pico
  readonly balance: Pico
}

/** A charge that was booked just now, as in its row. */
export interface BookedCharge extends Lease {
  readonly seq: number
  /** `seq` of the account's previous row; 0 where there is none that is not folded. */
  readonly previous: number
  /** The UTC day that was charged, `YYYYMMDD`. */
  readonly day: string
  /** Moment of the admission, ms since epoch. */
  readonly at: number
  readonly cost: Pico
  /** {@link UsageRow} as JSON. */
  readonly body: string
}

/**
 * `top-up`: credit that was paid, which ends the free tier; `promo`: credit that was given; `adjust`: a correction; `refund`: the cost of
 * a call given back; `expire`: the end of a block, which takes what is left of it.
 */
export const BOOKING_KINDS = ['top-up', 'promo', 'adjust', 'refund', 'expire'] as const
export type BookingKind = (typeof BOOKING_KINDS)[number]

export interface Booking {
  readonly account: string
  readonly kind: BookingKind
  /** Id of the person, token or part of the gateway that books. */
  readonly actor?: string
  /** It is added to the balance: above 0n, of `adjust` not 0n, and at most `MAX_AMOUNT` either way. Of `expire` it is ignored. */
  readonly amount: Pico
  /** Idempotency key: booked once per account and kind. Of `expire` the name of the block, of `refund` the id of the call. */
  readonly reference: string
  /** The reason of a correction and a refund. */
  readonly note?: string
  /** Moment when what is left of a top-up or promo expires, ms since epoch. */
  readonly expiresAt?: number
  /** Whether a promo ends the free tier, as a top-up does. */
  readonly unlock?: boolean
  /** The open block from which an `adjust` below 0 takes first. */
  readonly takesFrom?: string
  readonly facts?: BookingFacts
}

/** What else is known of a booking. */
interface BookingFacts {
  /** What a customer has paid, in the currency of the payment. */
  readonly cash?: {
    readonly amount: string
    readonly currency: string
    readonly by: string
    readonly payment: string
  }
  readonly cause?: 'seed' | 'payment_refund' | 'refund_failed' | 'dispute' | 'dispute_won'
  /** The call of a refund. */
  readonly call?: {
    readonly key: string
    readonly model: string
    readonly deployment?: string
    readonly endpoint: string
    readonly tag?: string
    readonly user?: string
    readonly team?: string
    readonly outcome?: string
    /** Whether it is known what its vendors are paid. */
    readonly known: boolean
    /** Local date of the refund, `YYYYMMDD`. */
    readonly day?: string
  }
}

/** Members of a booking in its row, beside its amount. */
export interface BookingDetails extends Pick<
  Booking,
  'expiresAt' | 'unlock' | 'takesFrom' | 'facts'
> {
  /** The blocks of the account after it, where it has changed them. */
  readonly blocks?: readonly BlockText[]
}

/** A block as rows and stores have it: amounts are text, in pico-dollars. */
export interface BlockText {
  /** `<kind>:<reference>` of the booking that made it. */
  readonly name: string
  readonly from: string
  readonly to: string
  /** ms since epoch */
  readonly expiresAt?: number
}

/** What is open of a block. */
export interface OpenBlock extends Pick<BlockText, 'name' | 'expiresAt'> {
  readonly left: Pico
}

/** Credit of an account as of one moment; `blocks` in the order of use. */
export interface AccountCredit {
  readonly plain: Pico
  readonly blocks: readonly OpenBlock[]
}

/** Version of what both engines store. Gateways with the same number run beside each other. */
export const SCHEMA = 9

/** Key id for the limits and the spend of an account over all its keys. */
export const ACCOUNT = '@account'

/** Key id for the limits and the spend of a team. */
export function teamKey(team: string): string {
  return `@team:${team}`
}

/** Key id for what is counted of an unpaid account. */
export const TIER = '@tier'

/** The limits of one key, of a team, or of {@link ACCOUNT}. An absent one does not limit. */
export interface KeyLimits {
  readonly disabled: boolean
  /** ms since epoch. */
  readonly expiresAt?: number
  readonly rpm?: number
  readonly concurrency?: number
  readonly counted?: readonly CountedLimit[]
  /** How far below zero calls may take the balance; only of {@link ACCOUNT}. */
  readonly credit?: Pico
}

/** A counted limit, and what is counted for it in its present window. */
export interface CounterView {
  readonly limit: CountedLimit
  /** Name of the window; empty where none is open. */
  readonly current: string
  /** The settled spend, less what was reset. */
  readonly used: bigint
  readonly held: bigint
  readonly reset: bigint
}

/** Takes what is counted in the present window of a limit off it. */
export interface Reset {
  readonly account: string
  /** A key, {@link teamKey} or {@link ACCOUNT}. */
  readonly owner: string
  /** {@link CountedLimit.id} */
  readonly limit: string
  /** Idempotency key: a reference is used once per account. */
  readonly reference: string
  readonly reason: string
  readonly zone?: ZoneRule | undefined
}

export interface ResetDone {
  readonly counted: bigint
  readonly window: string
  readonly duplicate: boolean
}

export interface AccountBalance {
  readonly balance: Pico
  /** The balance minus all live holds. */
  readonly available: Pico
  readonly paid: boolean
}

export interface AccountTotals extends AccountBalance {
  readonly spend: KeySpend
}

export interface RateUse {
  readonly count: number
  readonly resetMs: number
}

export interface RatesUsed {
  readonly key: RateUse
  /** It is counted while the account has a rate of its own, or is unpaid. */
  readonly account: RateUse
}

export interface KeySpend {
  readonly lifetime: Pico
  readonly day: Pico
  readonly month: Pico
  readonly inFlight: number
}

/** One row of an account's history. A booking has its reference as `request` and no `usage`; its `cost` is the negative amount. */
export interface LedgerRow {
  /** Ascending within the account, with gaps; the cursor of `usage`. */
  readonly seq: number
  readonly kind: 'usage' | 'orphan' | BookingKind
  readonly request: string
  readonly key?: string
  readonly at: number
  readonly cost: Pico
  readonly usage?: UsageRow
  /** The note of a booking: of a correction and a refund its reason. */
  readonly note?: string
  readonly booking?: BookingDetails
  /** Id of the person, token or part of the gateway that made a booking; absent in bookings of earlier releases. */
  readonly actor?: string
}

/** The row of a call that was never settled: its gateway was killed, or lost its lease and did not come back. */
export interface Orphan extends LedgerRow {
  readonly account: string
}

/**
 * One item of an export. The items of an account follow its `account` item: totals, and bookings that were not folded with the calls
 * around them, then its base, then the rows that follow.
 */
export type LedgerItem = AccountItem | LimitsItem | TotalItem | BaseItem | RowItem | CounterItem

/** What is counted for a limit, after the rows of its account. */
export interface CounterItem {
  readonly kind: 'counter'
  readonly account: string
  readonly owner: string
  readonly id: string
  /** It is empty where nothing is counted yet. */
  readonly window: string
  readonly settled: bigint
  readonly reset: bigint
  /** How many of the newest rows of the account the limit has seen; absent where it has seen all. */
  readonly rows?: number
}

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

export interface TotalItem {
  readonly kind: 'total'
  readonly account: string
  readonly key: string
  readonly team?: string
  readonly day: string
  readonly rows: number
  readonly cost: Pico
}

/** Ends what was folded of an account: the chain of all rows up to here. */
interface BaseItem extends ChainPoint {
  readonly kind: 'base'
  readonly account: string
  /** It moves no sum: a release that does not know it may leave it out. */
  readonly optional: true
}

export interface RowItem extends Omit<LedgerRow, 'seq'> {
  readonly account: string
  /** The UTC day that a usage row was charged to, `YYYYMMDD`. */
  readonly day?: string
  /** It is set when other rows of its key and day were folded: their total does not contain this row. */
  readonly unfolded?: true
}

/** Takes rows away for good before they are folded. @param month `YYYY-MM`. @param lines the lines of an export */
export type TakeRows = (month: string, lines: readonly string[]) => Promise<void>

export interface Imported {
  /** Number of items that are in the ledger now. */
  readonly stored: number
  /** Number of new items among them. */
  readonly added: number
  /** Why the next item contradicts the ledger. Later items were not read. */
  readonly refused?: string
}

export interface Discrepancy {
  readonly account: string
  readonly what: string
  readonly stored: Pico
  readonly recomputed: Pico
}

export interface Ledger {
  enter(entry: AdmissionRequest): Admission | Promise<Admission>
  hold(hold: HoldRequest): HoldResult | Promise<HoldResult>
  /** Grows a hold. It is never refused; without its lease, or with another hold than `from`, it has no effect. */
  raise(raise: Raise): void | Promise<void>
  /**
   * Charges once per request id, and releases lease and hold. Resolves when the charge is durable, or as `deferred` after ten
   * seconds. Never rejects.
   */
  settle(settlement: Settlement): Promise<Settled>
  /** It is called once with each charge that this engine has booked, including deferred ones. */
  onBooked: (charge: BookedCharge) => void
  /** It is called where the store had lost bookings that it had confirmed, and has them again. */
  onReplayed: (bookings: number) => void
  /**
   * Sets a deferred settlement whose answer was not sent to 0, unless it was booked meanwhile. Resolves with `deferred` and 0,
   * or with the receipt. Never rejects.
   */
  waive(lease: Lease): Promise<Settled>
  /** Releases lease and hold without a charge, a receipt or a row, for a call that is never settled. */
  leave(lease: Leave): void | Promise<void>
  /** Extends leases. A lease that has expired or was settled stays gone. */
  renew(leases: readonly Lease[]): Promise<void>
  /**
   * Moves a balance, below zero too. Idempotent by kind and reference. Spend and caps stay as they are; the first top-up of an account,
   * or promo with `unlock`, ends its free tier for ever. The answer's `cost` is the negative amount. Durable when it resolves.
   * @throws RangeError for an amount out of bounds; NotFound for a block that is not open; NotPossible for too many blocks;
   * Unavailable: it may be booked then or not, and can be repeated
   */
  book(booking: Booking): Promise<Settled>
  /** The credit of an account, as of one moment. */
  credit(account: string): Promise<AccountCredit>
  account(id: string): Promise<AccountBalance>
  /** The money of many accounts, in their order, each as of one moment. */
  balances(
    ids: readonly string[],
    zoneOf?: (id: string) => ZoneRule | undefined,
  ): Promise<readonly AccountTotals[]>
  /** The settled lifetime spend of many keys, in their order. */
  spends(keys: readonly KeyOfAccount[]): Promise<readonly Pico[]>
  /** @param id a key, {@link teamKey} or {@link ACCOUNT} */
  key(account: string, id: string, zone?: ZoneRule): Promise<KeySpend>
  /** @param id a key, {@link teamKey} or {@link ACCOUNT} */
  rates(account: string, id: string): Promise<RatesUsed>
  /** What is counted for the limits of an owner. @param owner a key, {@link teamKey}, {@link ACCOUNT} or {@link TIER} */
  counters(account: string, owner: string, zone?: ZoneRule): Promise<readonly CounterView[]>
  /** The change is durable when the promise resolves. @throws NoSuchLimit, and ReferenceTaken for a reference of another limit */
  reset(reset: Reset): Promise<ResetDone>
  /** Stores limits of a key, a team or of {@link ACCOUNT} unless the stored revision is higher. A lower revision is `stale` to the next `enter`. */
  limits(account: string, id: string, limits: KeyLimits, revision: number): Promise<void>
  /** The booked cost of a call; undefined for one that is not booked, or was longer ago than `RECEIPT_HOURS` (`items.ts`). */
  receipt(account: string, request: RequestId): Promise<Pico | undefined>
  /** Whether everything that another gateway had to book is booked. @param gateway the id of one that has ended */
  isBooked(gateway: string): Promise<boolean>
  /** Rows of an account, newest first. @param before a `seq`: only rows below it */
  usage(account: string, before?: number): AsyncIterable<LedgerRow>
  /** Recomputes every sum from the rows. An empty list means that all agree. */
  verify(account?: string): Promise<readonly Discrepancy[]>
  /** Orphans of one account or of all, newest first within an account. */
  orphans(account?: string): AsyncIterable<Orphan>
  /** Settlements that may have been booked, and are too old for the store to tell: an operator decides about each. */
  quarantined(): readonly Settlement[]
  /** Books one of them. @throws Unavailable. @returns undefined where there is none */
  bookQuarantined(request: RequestId): Promise<Settled | undefined>
  /** Gives one of them up, with a line of the log. @returns undefined where there is none */
  dropQuarantined(request: RequestId, reason: string): Settlement | undefined
  /** The durable state as of one moment, without leases, holds and rate logs. */
  export(): AsyncIterable<LedgerItem>
  /**
   * Imports items of an export in their order, each as a whole and at most once, because rows are receipts. Limits are
   * stored unless the stored revision is the same or higher. Resolves when every imported item is durable.
   */
  import(items: readonly LedgerItem[]): Promise<Imported>
  /**
   * Folds the first rows of each account, up to the first that is not older than a moment: calls become one total per key and day,
   * orphans go, bookings stay. No sum changes. A folded row is no receipt any more, so calls admitted less than `RECEIPT_HOURS`
   * (`items.ts`) ago stay. One gateway folds at a time.
   * @param take gets all these rows before they go. @returns the number of rows that went
   */
  fold(before: Date, take?: TakeRows): Promise<number>
  /** Gives the room of folded rows back, where the store keeps it; nothing else is written meanwhile. */
  compact(): Promise<void>
  health(): LedgerHealth
  /** Returns while calls may be admitted. Asked before a key is looked up. @throws Unavailable */
  assertOpen(): void
  /** Receives an account whose rows a reader has seen, and that the store has lost for good: it is older then. */
  suspect(account: string): void
  /** Resolves once the store was looked at anew: what it lacks is missing then. @throws Unavailable where it is in doubt, or away */
  confirm(): Promise<void>
  state(): Promise<LedgerState>
  /** Goes on with a store that is in doubt. @throws StateChanged where the doubt is another one */
  accept(accepted: AcceptedDoubt): Promise<void>
  /**
   * Gives a ledger without accounts the identity of another one, whose export is imported into it: the move is not foreign then.
   * @returns whether the ledger had none
   */
  adopt(id: string): Promise<boolean>
  /** Resolves, with a reason, when the ledger is gone or damaged: it admits nothing any more, and has to be closed. */
  readonly lost: Promise<string>
  /** Number of sums that differed from their rows when the ledger was last verified in the background. */
  readonly discrepancies: number
  /** Number of settlements since the start that were booked earlier with another cost. The first cost stands. */
  readonly conflicts: number
  /**
   * @param patience aborted when settlements that wait for the store are not sent again any more; absent: they are sent once
   * @throws UnbookedSettlements when the log alone has some settlements; LostState after {@link lost}
   */
  close(patience?: AbortSignal): Promise<void>
}

/** The longest cause that {@link LedgerHealth} has. */
const CAUSE_CHARACTERS = 200

/** Remembers since when a ledger cannot book. */
export class Outage {
  #since: number | undefined

  /** @param why undefined while it can */
  at(why: string | undefined): Pick<LedgerHealth, 'why' | 'since'> {
    this.#since = why === undefined ? undefined : (this.#since ?? Date.now())
    if (why === undefined || this.#since === undefined) return {}
    return { why: why.slice(0, CAUSE_CHARACTERS), since: this.#since }
  }
}

export interface LedgerHealth {
  /** Whether calls are admitted: the store and the outbox can be written, and no settlement is deferred. */
  readonly ok: boolean
  /** It is set where calls are refused only because the outbox cannot be written. */
  readonly outboxFault?: true
  /** What the operator is told where the store is not the one that was used until now. */
  readonly doubt?: string
  /** The cause while it is not ok, at most 200 characters, and since when, ms since epoch. */
  readonly why?: string
  readonly since?: number
  /** Share of its memory that the store uses, where it has a bound of its own. */
  readonly memoryUsed?: number
  /** Number of settlements that the store has not confirmed. */
  readonly outbox: number
  /** Age of the oldest of them. */
  readonly oldestMs: number
}

/** Which ledger this is, and whether it is the one that was used until now. */
export interface LedgerState {
  /** It is absent where the store holds no ledger. */
  readonly id?: string
  readonly schema: number
  readonly engine: 'memory' | 'file' | 'redis'
  readonly doubt?: Doubt
  /** Size of the store. */
  readonly bytes: number
  /** Bytes of a file that the next rows use again. */
  readonly freeBytes?: number
  /** Rows that are not folded. */
  readonly rows: number
}

/**
 * The store is not the one that was used until now. `emptied`: it holds no ledger; `foreign`: another one; `older`: it lacks what was
 * written. Nothing is admitted until the right data is back, or an operator accepts what is there.
 */
export interface Doubt {
  readonly kind: 'emptied' | 'foreign' | 'older'
  /** The store that was used until now. */
  readonly known: { readonly id: string; readonly at: number }
  readonly found?: { readonly id?: string; readonly at?: number }
}

/** What an operator accepts: a doubt as {@link LedgerState} has told it. */
export interface AcceptedDoubt {
  /** `known.id` of the doubt. */
  readonly id: string
  readonly kind: Doubt['kind']
}

/** Life of a lease unless it is renewed. */
export const LEASE_MS = 30_000

/** Where an engine reports to the operator. */
export interface Log {
  info(message: string | object, ...more: unknown[]): void
  warn(message: string | object, ...more: unknown[]): void
  error(message: string | object, ...more: unknown[]): void
}

// Reads a ledger beside its engine, for what is derived from its rows: the index of usage.

/** A row with the UTC day that was charged, `YYYYMMDD`; absent where no day was. */
export interface ReadRow extends LedgerRow {
  readonly day?: string
}

/** The folded rows of one key and day. */
export type FoldedTotal = Omit<TotalItem, 'kind' | 'account'>

/** An account as of one moment: sums that the ledger keeps beside its rows. */
export interface LedgerHead {
  /** Highest `seq` of the account's rows. */
  readonly seq: number
  readonly balance: Pico
  /** Lifetime spend of each key. */
  readonly lifetime: ReadonlyMap<string, Pico>
}

/** A place in the history of an account: after `n` rows their chain (`chain.ts`) is `chain`. */
export interface ChainPoint {
  readonly n: number
  /** SHA-256, 64 hex digits. */
  readonly chain: string
}

/** The place before the first row of an account that can still be read: rows before it were folded. */
export interface ChainBase extends ChainPoint {
  /** `seq` of the last row before it. Bookings up to it are still there. */
  readonly seq: number
}

/** Reads only. Every method throws where the ledger cannot be read. */
export interface LedgerReader {
  /** Whether several gateways book in it: reading all heads takes time then. */
  readonly shared: boolean
  id(): Promise<string>
  heads(accounts?: readonly string[]): Promise<ReadonlyMap<string, LedgerHead>>
  /** Rows of an account, oldest first. @param from the lowest `seq` */
  rows(account: string, from: number, limit: number): Promise<readonly ReadRow[]>
  /** The row of a call; undefined where none was booked, or it was folded. */
  charge(account: string, request: RequestId): Promise<ReadRow | undefined>
  totals(account: string): Promise<readonly FoldedTotal[]>
  /** The place of the chain before the account's first row that was not folded. */
  base(account: string): Promise<ChainBase>
  close(): Promise<void>
}

export type LedgerSource =
  | { readonly driver: 'file'; readonly file: string; readonly inode: number }
  | { readonly driver: 'redis'; readonly url: string | readonly string[] }
