/** Alerts: what is wrong, and what was. */
import * as v from 'valibot'
import { whole } from './settings.ts'

/** `POST /alerts/:id/mute`: for how many seconds nothing is told of an alert. */
export const mute = v.strictObject({ seconds: whole(0, 2_592_000, ' of seconds') })
