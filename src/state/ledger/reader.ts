/** Reads a ledger beside its engine, for what is derived from its rows: the index of usage. */
import type { Pico } from '../../money/money.ts'
import type { LedgerRow, RequestId, TotalItem } from './ledger.ts'

/** A row with the UTC day that was charged, `YYYYMMDD`; none where no day was. */
export interface ReadRow extends LedgerRow {
  readonly day?: string
}

/** The folded rows of one key and day. */
export type FoldedTotal = Omit<TotalItem, 'kind' | 'account'>

/** An account as of one moment: sums that the ledger keeps beside its rows. */
export interface LedgerHead {
  /** No row of the account has a higher one. */
  readonly seq: number
  readonly balance: Pico
  /** What each key has ever spent. */
  readonly lifetime: ReadonlyMap<string, Pico>
}

/** Reads only. Every method throws where the ledger cannot be read. */
export interface LedgerReader {
  /** Whether several gateways book in it: reading all heads takes time then. */
  readonly shared: boolean
  /** Tells this ledger from every other one. */
  id(): Promise<string>
  /** The heads of some accounts, or of all that have a row or a sum. */
  heads(accounts?: readonly string[]): Promise<ReadonlyMap<string, LedgerHead>>
  /** Rows of an account, oldest first. @param from the lowest `seq` */
  rows(account: string, from: number, limit: number): Promise<readonly ReadRow[]>
  /** What was booked for a call; undefined where nothing was, or its row was folded. */
  charge(account: string, request: RequestId): Promise<ReadRow | undefined>
  /** Totals of the rows of an account that were folded. */
  totals(account: string): Promise<readonly FoldedTotal[]>
  close(): Promise<void>
}

/** Where a thread finds the ledger to read. */
export type LedgerSource =
  | { readonly driver: 'file'; readonly file: string; readonly inode: number }
  | { readonly driver: 'redis'; readonly url: string | readonly string[] }
