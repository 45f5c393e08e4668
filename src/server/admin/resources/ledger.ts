import type { Usd } from '../../../money/amounts.ts'

/** A row. `amount_usd` is its effect on the balance: the rows of an account add up to its balance, unless some were folded. */
export interface LedgerEntry {
  readonly seq: number
  readonly kind: 'usage' | 'orphan' | 'top-up' | 'promo' | 'adjust' | 'refund' | 'expire'
  /** Only a booking has it. */
  readonly reference?: string
  /** The id of a call; a refund has that of its call. */
  readonly request_id?: string
  readonly key_id?: string | undefined
  readonly at: string
  readonly amount_usd: Usd
  readonly reason?: string | undefined
  readonly note?: string | undefined
  /** The id of the token or person that made a booking. */
  readonly actor?: string
  /** Only credit that expires has it. */
  readonly expires_at?: string
  /** The block of credit from which a correction has taken first. */
  readonly takes_from?: string
  /** What a customer has paid. */
  readonly cash?: object
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
