import { moment } from './settings.ts'

/** A change of one member. A side is absent where the member had no value. */
export interface MemberChange {
  readonly before?: unknown
  readonly after?: unknown
}

/** One change. Its values are JSON, amounts in them decimal text; none of them is a secret. */
export interface AuditEntry {
  /** Name of the actor. */
  readonly actor: string
  /** Its id; entries of earlier releases have none. */
  readonly actor_id?: string | undefined
  /** Id of the session that it acted in. */
  readonly session?: string | undefined
  /** Address of the client's end of the connection; empty where it is unknown. */
  readonly address: string
  readonly action: string
  /** Kind and id of the object, such as `key:key_1`. */
  readonly object: string
  /** Changes by the path of the member, such as `spend_cap.usd`. */
  readonly changes: Readonly<Record<string, MemberChange>>
}

export interface AuditRow extends AuditEntry {
  /** Ascending; the cursor of lists. */
  readonly id: string
  readonly at: number
}

/** A change as JSON; a side without a value is null. */
/** The members that differ, null where there was or is no value. */
export function changeList(changes: AuditRow['changes']) {
  return Object.entries(changes).map(([member, { before = null, after = null }]) => ({
    member,
    before,
    after,
  }))
}

export function changeView(row: AuditRow) {
  const { id, at, actor, actor_id, session, address, action, object, changes } = row
  return {
    id,
    at: moment(at),
    actor,
    actor_id: actor_id ?? null,
    session: session ?? null,
    address: address || null,
    action,
    object,
    changes: changeList(changes),
  }
}

export type ChangeAnswer = ReturnType<typeof changeView>

/** Columns of `GET /audit` as CSV, with a line for each changed member. */
export const CHANGE_COLUMNS = [
  'id',
  'at',
  'actor',
  'actor_id',
  'session',
  'address',
  'action',
  'object',
  'member',
  'before',
  'after',
]
