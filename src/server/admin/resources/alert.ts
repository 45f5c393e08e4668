import * as v from 'valibot'
import { moment, momentOrNull, whole } from './settings.ts'

/** `POST /alerts/:id/mute`: number of seconds without notices of an alert. */
export const mute = v.strictObject({ seconds: whole(0, 2_592_000, ' of seconds') })

/** An alert, active until it has an end. */
export interface AlertRecord {
  readonly id: string
  readonly kind: string
  readonly object: string
  readonly message: string
  readonly raisedAt: number
  readonly endedAt?: number
  /** Sinks and logs get no notice of it before this moment; ms since epoch. */
  readonly mutedUntil?: number
}

/** How many accounts, and keys with a cap or an end, were looked at since the start. */
export interface Looked {
  readonly done: number
  readonly of: number
  /** Nothing is known to be well before this is true. */
  readonly complete: boolean
}

export function alertView(alert: AlertRecord) {
  const { id, kind, object, message, raisedAt, endedAt, mutedUntil } = alert
  return {
    id,
    kind,
    object: object === '' ? null : object,
    message,
    since: moment(raisedAt),
    ended_at: momentOrNull(endedAt),
    muted_until: momentOrNull(mutedUntil),
  }
}

/** What an alert or an incident is about, by name. */
export interface Subject {
  readonly kind: string
  readonly id: string
  readonly name: string
  /** The account of a key or a team. */
  readonly account?: string
}

/** An alert in a list. */
export type AlertAnswer = ReturnType<typeof alertView> & {
  readonly subject: Subject
  /** The message without the id of the subject. */
  readonly cause: string
}
