/** How values are written, in the browser's language. Amounts are decimal text and never become floating-point numbers. */

export const MISSING = '–'
const MINUS = '\u2212'

/** The zone in which moments are shown. Days and months are always UTC. */
export type Zone = 'utc' | 'local'

/** The language of the browser, with the digits that fields take. */
const LOCALE = new Intl.Locale(typeof navigator === 'undefined' ? 'en-US' : navigator.language, {
  numberingSystem: 'latn',
})

/** A format is made once for each of its settings. */
function kept<Options, Format>(make: (options: Options) => Format): (options: Options) => Format {
  const made = new Map<string, Format>()
  return (options) => {
    const key = JSON.stringify(options)
    const format = made.get(key) ?? make(options)
    made.set(key, format)
    return format
  }
}

const numbers = kept((options: Intl.NumberFormatOptions) => new Intl.NumberFormat(LOCALE, options))
const moments = kept(
  (options: Intl.DateTimeFormatOptions) => new Intl.DateTimeFormat(LOCALE, options),
)
const DAY = { year: 'numeric', month: 'short', day: 'numeric' } as const
const CLOCK = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' } as const
const SECONDS = { ...CLOCK, second: '2-digit' } as const

/** Writes any JSON number as a plain decimal: no exponent, no trailing zeros after the point. @throws RangeError for other text */
export function plainDecimal(text: string): string {
  const match = /^(-?)(\d+)(?:\.(\d*))?(?:[eE]([+-]?\d+))?$/.exec(text)
  if (!match) throw new RangeError(`not a number: ${text}`)
  const [, sign, whole = '', fraction = '', exponent = '0'] = match
  const point = whole.length + Number(exponent)
  const digits = whole + fraction
  const padded = point <= 0 ? '0'.repeat(1 - point) + digits : digits.padEnd(point, '0')
  const at = Math.max(point, 1)
  const integer = padded.slice(0, at).replace(/^0+(?=\d)/, '')
  const rest = padded.slice(at).replace(/0+$/, '')
  const value = rest === '' ? integer : `${integer}.${rest}`
  return value === '0' ? '0' : `${sign}${value}`
}

/** All decimals of an amount: `$0.000008125`. */
export function exactMoney(amount: string | null | undefined): string {
  if (amount === null || amount === undefined) return MISSING
  const { fraction } = parts(amount)
  return dollars(amount, fraction === '' ? { maximumFractionDigits: 0 } : places(fraction.length))
}

/**
 * An amount that stands alone: two decimals, from 10,000 on none, below 1 two significant digits, and never 0 for more.
 * @param isLeft rounds down: it can be spent
 */
export function money(amount: string | null | undefined, isLeft = false): string {
  if (amount === null || amount === undefined) return MISSING
  const { negative, whole, fraction } = parts(amount)
  const rounding = isLeft && !negative ? { roundingMode: 'trunc' as const } : {}
  if (whole === '0' && /^0*$/.test(fraction)) return dollars('0', { maximumFractionDigits: 0 })
  if (whole.length > 4) return dollars(amount, { maximumFractionDigits: 0, ...rounding })
  // What is rounded up to 1 has two decimals, too.
  const isBelow = whole === '0' && (isLeft || !/^99[5-9]/.test(fraction))
  const digits = { minimumSignificantDigits: 2, maximumSignificantDigits: 2 }
  return dollars(amount, { ...(isBelow ? digits : places(2)), ...rounding })
}

/** The most decimals in a list that is not whole on the page. */
const MOST_DECIMALS = 8

/** The decimals of a column of which all rows are on the page: as many as the longest needs, so that printed numbers add up. */
export function wholeDecimals(amounts: readonly (string | null | undefined)[]): number {
  return Math.max(2, ...amounts.map((one) => parts(one ?? '0').fraction.length))
}

/** The decimals of a column of a longer list: two, and below a cent two digits of the smallest. */
export function listDecimals(amounts: readonly (string | null | undefined)[]): number {
  const needed = amounts.map((one) => {
    const { whole, fraction } = parts(one ?? '0')
    const zeros = /^0*/.exec(fraction)![0].length
    return whole === '0' && zeros < fraction.length && zeros > 1 ? zeros + 2 : 2
  })
  return Math.min(MOST_DECIMALS, Math.max(2, ...needed))
}

/** An amount of a column with its decimals; one that is smaller than they can say is not written as 0. */
export function columnMoney(
  amount: string | null | undefined,
  decimals: number,
  isLeft = false,
): string {
  if (amount === null || amount === undefined) return MISSING
  const { negative, whole, fraction } = parts(amount)
  const isTiny = whole === '0' && /[1-9]/.test(fraction) && /^0*$/.test(fraction.slice(0, decimals))
  if (isTiny) return `<${dollars(`0.${'1'.padStart(decimals, '0')}`, places(decimals))}`
  return dollars(amount, {
    ...places(decimals),
    ...(isLeft && !negative && { roundingMode: 'trunc' as const }),
  })
}

function places(decimals: number) {
  return { minimumFractionDigits: decimals, maximumFractionDigits: decimals }
}

function dollars(amount: string, options: Intl.NumberFormatOptions): string {
  const style = { style: 'currency', currency: 'USD', currencyDisplay: 'narrowSymbol' } as const
  const plain = plainDecimal(amount)
  const size = plain.replace('-', '') as Intl.StringNumericLiteral
  return signed(plain.startsWith('-'), numbers({ ...style, ...options }).format(size))
}

export function addAmounts(amounts: readonly string[]): string {
  const scale = Math.max(0, ...amounts.map((one) => parts(one).fraction.length))
  const sum = amounts.reduce((total, one) => total + scaled(one, scale), 0n)
  const digits = (sum < 0n ? -sum : sum).toString().padStart(scale + 1, '0')
  const cut = digits.length - scale
  return plainDecimal(`${sum < 0n ? '-' : ''}${digits.slice(0, cut)}.${digits.slice(cut)}`)
}

/** The ratio of `part` to `whole`, from 0 to 1, for drawings only. */
export function ratio(part: string, whole: string): number {
  const of = Number(whole)
  return of > 0 ? Math.min(1, Math.max(0, Number(part) / of)) : 0
}

/** `Nov 23, 2026, 10:21:07`; without the day when it is the day of `now`. */
export function moment(iso: string | null | undefined, zone: Zone, now: number): string {
  if (iso === null || iso === undefined) return MISSING
  const isToday = day(iso, zone) === day(new Date(now).toISOString(), zone)
  return written(iso, zone, isToday ? SECONDS : { ...DAY, ...SECONDS })
}

/** `Nov 23, 2026`. */
export function day(iso: string, zone: Zone): string {
  return written(iso, zone, DAY)
}

/** `Nov 23, 2026, 10:21` in the zone of an account. */
export function minuteIn(iso: string, timeZone: string): string {
  return moments({ ...DAY, ...CLOCK, timeZone }).format(new Date(iso))
}

/** The hour that begins then, `07:00–08:00`; its day when it is another than that of `now`. */
export function hour(iso: string, zone: Zone, now: number): string {
  const own = day(iso, zone)
  if (own !== day(new Date(now).toISOString(), zone)) return own
  const end = new Date(Date.parse(iso) + 3_600_000).toISOString()
  return `${written(iso, zone, CLOCK)}\u2013${written(end, zone, CLOCK)}`
}

/** Day and time, with the zone's other reading: for hovering. */
export function momentTitle(iso: string | null | undefined, zone: Zone): string {
  if (iso === null || iso === undefined) return ''
  const other = zone === 'utc' ? 'local' : 'utc'
  const label = other === 'utc' ? 'UTC' : 'local'
  return `${new Date(iso).toISOString()}\n${written(iso, other, { ...DAY, ...SECONDS })} ${label}`
}

function written(iso: string, zone: Zone, options: Intl.DateTimeFormatOptions): string {
  return moments(zone === 'utc' ? { ...options, timeZone: 'UTC' } : options).format(new Date(iso))
}

/** `840 ms`, `2.41 s`, `3 min 05 s`. */
export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return MISSING
  if (ms < 1) return ms === 0 ? '0 ms' : '<1 ms'
  if (ms < 999.5) return `${Math.round(ms)} ms`
  if (ms < 59_995) return `${(ms / 1000).toFixed(ms < 9_995 ? 2 : 1)} s`
  const seconds = Math.round(ms / 1000)
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${two(seconds % 60)} s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 2880) return `${Math.floor(minutes / 60)} h ${two(minutes % 60)} min`
  const hours = Math.floor((minutes % 1440) / 60)
  return `${Math.floor(minutes / 1440)} days${hours > 0 ? ` ${hours} h` : ''}`
}

/** `12,408`. */
export function count(value: number | null | undefined): string {
  if (value === null || value === undefined) return MISSING
  return signed(value < 0, numbers({ maximumFractionDigits: 20 }).format(Math.abs(value)))
}

/** A count in a table: `1.2M` from 100,000 on. */
export function shortCount(value: number | null | undefined): string {
  if (value === null || value === undefined) return MISSING
  const size = Math.abs(value)
  return size < 100_000
    ? count(value)
    : signed(value < 0, numbers({ notation: 'compact' }).format(size))
}

export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined) return MISSING
  const mib = value / 1_048_576
  return `${mib < 10 ? mib.toFixed(2) : count(Math.round(mib))} MiB`
}

/** Fewer calls are shown as a number: their share in percent says too much. */
const FEW_CALLS = 20

/** A share of calls: in percent, or `3 of 3` where they are few. */
export function callShare(
  part: number | null | undefined,
  whole: number | null | undefined,
): string {
  if (part === null || part === undefined || whole === null || whole === undefined) return MISSING
  if (whole === 0) return 'no calls'
  return whole < FEW_CALLS ? `${count(part)} of ${count(whole)}` : percentOf(part / whole)
}

/** A fraction as percent: one decimal below 10 %. */
export function percentOf(fraction: number): string {
  const value = fraction * 100
  if (value > 0 && value < 0.05) return '<0.1 %'
  return `${Math.abs(value) < 9.95 && value !== 0 ? value.toFixed(1) : Math.round(value)} %`
}

export function shortId(id: string, keep = 16): string {
  return id.length <= keep ? id : `${id.slice(0, keep - 5)}…${id.slice(-4)}`
}

function parts(amount: string) {
  const plain = plainDecimal(amount)
  const [whole = '0', fraction = ''] = plain.replace('-', '').split('.')
  return { negative: plain.startsWith('-'), whole, fraction }
}

function scaled(amount: string, scale: number): bigint {
  const { negative, whole, fraction } = parts(amount)
  const value = BigInt(whole + fraction.padEnd(scale, '0'))
  return negative ? -value : value
}

function signed(negative: boolean, text: string): string {
  return negative ? `${MINUS}${text}` : text
}

function two(value: number): string {
  return String(value).padStart(2, '0')
}
