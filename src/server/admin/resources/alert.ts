/** Alerts: what is wrong, and what was. */
import * as v from 'valibot'
import { whole } from './settings.ts'

/** `POST /alerts/:id/mute`: for how many seconds nothing is told of an alert. */
export const mute = v.strictObject({ seconds: whole(0, 2_592_000, ' of seconds') })

/** Something that an operator should know about. */
export interface AlertAnswer {
  readonly id: string
  readonly kind: string
  /** What it is about: an account, a key, a deployment. */
  readonly object: string | null
  readonly message: string
  readonly since: string | null
  readonly ended_at: string | null
  readonly muted_until: string | null
}
