/** The one reader of times: lengths such as `7d`, and moments. */
import { CommandError } from './command.ts'

const SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 }
const DAY_MS = 86_400_000

/** @throws CommandError for a text that is no length */
export function secondsOf(text: string, option: string): number {
  const seconds = lengthOf(text)
  if (seconds !== undefined) return seconds
  const message = `${option} takes a length such as 30s, 15m, 12h, 7d or 4w, not ${JSON.stringify(text)}.`
  throw new CommandError(message, 2)
}

/**
 * A moment as ISO 8601; "none" stays as it is.
 * @param side whether a length means from now on, or before now
 * @throws CommandError for a text that is neither
 */
export function momentOf(text: string, option: string, side: 'later' | 'ago'): string {
  if (text === 'none') return text
  const now = Date.now()
  const seconds = lengthOf(text)
  if (seconds !== undefined) {
    return new Date(now + (side === 'ago' ? -1000 : 1000) * seconds).toISOString()
  }
  const today = now - (now % DAY_MS)
  const words: Readonly<Record<string, number>> = { now, today, yesterday: today - DAY_MS }
  if (Object.hasOwn(words, text)) return new Date(words[text]!).toISOString()
  const isMonth = /^\d{4}-\d\d$/.test(text)
  const isDay = /^\d{4}-\d\d-\d\d$/.test(text)
  const isMoment = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?$/.test(text)
  const whole = isMonth ? `${text}-01T00:00:00Z` : isDay ? `${text}T00:00:00Z` : text
  const at = new Date(/(Z|[+-]\d\d:\d\d)$/.test(whole) ? whole : `${whole}Z`)
  const isReal = !isDay || at.toJSON()?.startsWith(text)
  if ((isMonth || isDay || isMoment) && isReal && !Number.isNaN(at.getTime())) {
    return isMoment ? text : at.toISOString()
  }
  throw new CommandError(
    `${option} takes a moment such as 2027-01-31, 2027-01-31T08:00:00Z, today or yesterday, or a length such as 12h or 7d, not ${JSON.stringify(text)}.`,
    2,
  )
}

function lengthOf(text: string): number | undefined {
  const [, digits, unit = 's'] = /^(\d{1,9})([smhdw])?$/.exec(text) ?? []
  return digits === undefined ? undefined : Number(digits) * SECONDS[unit]!
}
