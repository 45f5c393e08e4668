/** Changes by the admin API. */
import { moment } from './settings.ts'

/** A change of one member. A side is absent where the member had no value. */
export interface MemberChange {
  readonly before?: unknown
  readonly after?: unknown
}

/** One change. Its values are JSON, amounts in them decimal text; none of them is a secret. */
export interface AuditEntry {
  /** Name of the token that was used. */
  readonly actor: string
  /** Of the client's end of the connection; empty where it is not known. */
  readonly address: string
  /** What was done, such as `key.update`. */
  readonly action: string
  /** What was changed, such as `key:key_1`. */
  readonly object: string
  /** By the path of the member, such as `spend_cap.usd`. */
  readonly changes: Readonly<Record<string, MemberChange>>
}

/** An entry as it is stored. */
export interface AuditRow extends AuditEntry {
  /** Ascending; the cursor of lists. */
  readonly id: string
  /** By the clock of the store, ms since epoch. */
  readonly at: number
}

/** A side of a change that had no value is null. */
export function changeView({ id, at, actor, address, action, object, changes }: AuditRow) {
  const members = Object.entries(changes).map(([member, { before = null, after = null }]) => ({
    member,
    before,
    after,
  }))
  return {
    id,
    at: moment(at),
    actor,
    address: address || null,
    action,
    object,
    changes: members,
  }
}

/** A change in an answer. */
export type ChangeAnswer = ReturnType<typeof changeView>

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
