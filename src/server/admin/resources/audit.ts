/** Changes by the admin API. */

/** A change of the audit log. */
export interface ChangeAnswer {
  readonly id: string
  readonly at: string
  readonly actor: string
  readonly address: string | null
  readonly action: string
  readonly object: string
  readonly changes: readonly {
    readonly member: string
    readonly before: unknown
    readonly after: unknown
  }[]
}

/** Columns of `GET /audit` as CSV: a line for each member that differs. */
export const CHANGE_COLUMNS = [
  'id',
  'at',
  'actor',
  'address',
  'action',
  'object',
  'member',
  'before',
  'after',
]
