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

/** Whether a text is a day. */
export function isDay(text: string): boolean {
  return text.length === 10 && isMoment(text)
}

function isInCalendar(day: string): boolean {
  return new Date(day).toISOString().startsWith(day)
}
