/** Reads a ledger beside its engine, for what is derived from its rows: the index of usage. */
import type { Pico } from '../../money/money.ts'
import type { LedgerRow, RequestId, TotalItem } from './ledger.ts'

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
  close(): Promise<void>
}

export type LedgerSource =
  | { readonly driver: 'file'; readonly file: string; readonly inode: number }
  | { readonly driver: 'redis'; readonly url: string | readonly string[] }
