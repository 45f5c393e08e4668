/** Time zones, as the runtime knows them. An engine gets one as a rule, because Lua has none. */
import { DAY_MS, MINUTE_MS, offsetAt, type ZoneRule } from './windows.ts'

const UTC = 'UTC'
const HOUR_MS = 60 * MINUTE_MS
/** How far a rule looks ahead. */
const AHEAD_MS = 2 * DAY_MS

const clocks = new Map<string, Intl.DateTimeFormat>()
const rules = new Map<string, { readonly until: number; readonly rule: ZoneRule }>()

function clockOf(zone: string): Intl.DateTimeFormat {
  let clock = clocks.get(zone)
  if (!clock) {
    const two = '2-digit' as const
    const date = { year: 'numeric', month: two, day: two } as const
    const time = { hour: two, minute: two, second: two, hourCycle: 'h23' } as const
    clock = new Intl.DateTimeFormat('en-US', { timeZone: zone, era: 'short', ...date, ...time })
    clocks.set(zone, clock)
  }
  return clock
}

/** Whether a text is the name of a zone. Offsets are none. */
export function isZone(name: string): boolean {
  // The usual one: a gateway without another loads no data of zones, which takes 20 ms and 10 MB.
  if (name === UTC) return true
  if (!/^[A-Za-z]/.test(name)) return false
  try {
    return clockOf(name) !== undefined
  } catch {
    return false
  }
}

/** Minutes east of UTC. */
function offsetIn(zone: string, at: number): number {
  if (zone === UTC) return 0
  const part: Record<string, number> = {}
  for (const { type, value } of clockOf(zone).formatToParts(at)) part[type] = Number(value)
  const { year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0 } = part
  const local = Date.UTC(year, month - 1, day, hour, minute, second)
  return Math.round((local - Math.floor(at / 1000) * 1000) / MINUTE_MS)
}

/** The rule of a zone, which holds for two days; undefined for UTC. */
export function ruleOf(zone: string | undefined, now: number = Date.now()): ZoneRule | undefined {
  if (zone === undefined || zone === UTC) return undefined
  const cached = rules.get(zone)
  if (cached && now < cached.until && now >= cached.until - HOUR_MS) return cached.rule
  const offset = offsetIn(zone, now)
  const next = offsetIn(zone, now + AHEAD_MS)
  // Between the two, the offset is the next one from a moment on.
  let [before, after] = [offset === next ? now + AHEAD_MS : now, now + AHEAD_MS]
  while (after - before > 1) {
    const middle = Math.floor((before + after) / 2)
    if (offsetIn(zone, middle) === offset) before = middle
    else after = middle
  }
  const rule = { offset, until: after, next }
  rules.set(zone, { until: now + HOUR_MS, rule })
  return rule
}

/** The local date of a moment, `YYYY-MM-DD`. */
export function dateIn(zone: string, at: number): string {
  const local = at + offsetAt(at, ruleOf(zone, at)) * MINUTE_MS
  return new Date(local).toISOString().slice(0, 10)
}

/** The first moment of a date, ms since epoch. @param date `YYYY-MM-DD` */
export function firstMoment(zone: string | undefined, date: string): number {
  const utc = Date.parse(`${date}T00:00:00Z`)
  if (zone === undefined || zone === UTC) return utc
  const dateAt = (at: number) =>
    new Date(at + offsetIn(zone, at) * MINUTE_MS).toISOString().slice(0, 10)
  let [before, after] = [utc - 15 * HOUR_MS, utc + 15 * HOUR_MS]
  while (after - before > 1) {
    const middle = Math.floor((before + after) / 2)
    if (dateAt(middle) < date) before = middle
    else after = middle
  }
  return after
}

/** A moment to the second as the clock of a zone shows it, ISO 8601. */
export function momentIn(zone: string | undefined, at: number): string {
  const minutes = zone === undefined ? 0 : offsetIn(zone, at)
  const local = new Date(at + minutes * MINUTE_MS).toISOString().slice(0, 19)
  if (zone === undefined || zone === UTC) return `${local}Z`
  const [sign, whole] = [minutes < 0 ? '-' : '+', Math.abs(minutes)]
  const two = (number: number) => String(number).padStart(2, '0')
  return `${local}${sign}${two(Math.floor(whole / 60))}:${two(whole % 60)}`
}
