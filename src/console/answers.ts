/** Answers of the API, as far as the console reads them. Amounts are decimal text, see `amounts.ts`. */

/** Decimal text in USD. */
export type Usd = string

/** A call in a list. */
export interface RequestRow {
  readonly id: string
  readonly at: string
  readonly method: string
  readonly endpoint: string
  readonly account_id: string | null
  readonly key_id: string | null
  readonly model: string | null
  readonly deployment: string | null
  readonly status: number | null
  readonly code: string | null
  readonly limited_by: string | null
  readonly outcome: string | null
  readonly stream: boolean | null
  readonly times: {
    readonly admit_ms: number | null
    readonly first_ms: number | null
    readonly total_ms: number | null
  }
  readonly usage: Readonly<Record<string, number | null>>
  readonly estimated: boolean | null
  readonly cost_usd: Usd | null
  readonly cost_details: Readonly<Record<string, Usd>> | null
  readonly rate: { readonly limit: number | null; readonly left: number | null } | null
  readonly guard: { readonly outcome: string; readonly rules: readonly string[] } | null
  readonly session: string | null
  readonly agent: string | null
  readonly tag?: string | null
  readonly user?: string | null
  readonly attempts: readonly {
    readonly deployment: string
    readonly ms: number
    readonly result: string
  }[]
  readonly error: string | null
  readonly running: boolean
}

/** One call. */
export interface RequestDetails extends RequestRow {
  /** The row of the ledger that says what was charged. */
  readonly ledger?: { readonly seq: number; readonly cost_usd: Usd } | null
  /** `missing` when only the ledger knows of the call. */
  readonly log?: string
  readonly content?: 'kept' | 'not kept'
  readonly limits?: readonly Limit[] | null
}

/** A limit of a key or an account. */
export interface Limit {
  readonly limit?: string
  readonly name?: string
  readonly value: number | string | null
  readonly source: string
  readonly used: number | string | null
  readonly left: number | string | null
  readonly resets_at: string | null
}
