/** Options that sinks have in common. */
import * as v from 'valibot'

const EVENTS = ['call.ended', 'guard.blocked', 'guard.escalation', 'alert'] as const

/** Which events a sink takes. @param usual where the operator does not say */
export function eventsOption(usual: (typeof EVENTS)[number][]) {
  const events = v.pipe(v.array(v.picklist(EVENTS)), v.minLength(1, 'at least one event'))
  return v.optional(events, usual)
}
