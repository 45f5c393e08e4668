/** Days and moments in ISO 8601, as operators and clients write them. */

const MOMENT = /^(\d{4}-\d\d-\d\d)(T\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d))?$/

/**
 * Whether a text is a moment with a zone, or a day. `Date.parse` alone accepts other notations, and the 31st of every
 * month; it reads a moment without a zone in the zone of the machine.
 */
export function isMoment(text: string): boolean {
  const day = MOMENT.exec(text)?.[1]
  return day !== undefined && !Number.isNaN(Date.parse(text)) && isInCalendar(day)
}

export function isDay(text: string): boolean {
  return text.length === 10 && isMoment(text)
}

/** Description of a text that {@link isPastMoment} accepts. */
export const PAST_MOMENT = 'a day such as 2026-11-23, or a moment such as 2026-11-23T12:00:00Z'

/** Whether a text is a day or a moment with a zone, from 1970 on. */
export function isPastMoment(text: string): boolean {
  return isMoment(text) && Date.parse(text) >= 0
}

function isInCalendar(day: string): boolean {
  return new Date(day).toISOString().startsWith(day)
}
