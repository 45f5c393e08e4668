import type { Usd } from '../../../money/amounts.ts'

/** A row. `amount_usd` is its effect on the balance: the rows of an account add up to its balance, unless some were folded. */
export interface LedgerEntry {
  readonly seq: number
  readonly kind: 'usage' | 'top-up' | 'adjust' | 'orphan'
  /** Only of a booking. */
  readonly reference?: string
  /** Only of a call. */
  readonly request_id?: string
  readonly key_id?: string | undefined
  readonly at: string
  readonly amount_usd: Usd
  readonly reason?: string | undefined
  readonly note?: string | undefined
  /** Only of a booking: id of who made it. */
  readonly actor?: string
  readonly usage?:
    | {
        readonly at: string
        readonly endpoint: string
        readonly model: string
        readonly [more: string]: unknown
      }
    | undefined
}

export const LEDGER_COLUMNS = [
  'seq',
  'kind',
  'at',
  'amount_usd',
  'reference',
  'request_id',
  'key_id',
  'reason',
  'note',
  'actor',
  'usage.model',
  'usage.endpoint',
  'usage.outcome',
  'usage.tag',
]
