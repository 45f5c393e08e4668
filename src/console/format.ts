/** How values are written. Pure: amounts are decimal text and never become floating-point numbers that are shown. */

export const MISSING = '–'
const MINUS = '\u2212'

/** The zone in which moments are shown. Days and months are always UTC. */
export type Zone = 'utc' | 'local'

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
  const { negative, whole, fraction } = parts(amount)
  return signed(negative, `$${grouped(whole)}${fraction === '' ? '' : `.${fraction}`}`)
}

/** An amount in a table: rounded to what a reader compares, never to zero. */
export function money(amount: string | null | undefined): string {
  if (amount === null || amount === undefined) return MISSING
  const { negative, whole, fraction } = parts(amount)
  if (whole.length > 3) return signed(negative, `$${grouped(rounded(whole, fraction, 0))}`)
  if (whole !== '0') return signed(negative, `$${grouped(rounded(whole, fraction, 2))}`)
  const zeros = /^0*/.exec(fraction)![0].length
  if (zeros === fraction.length) return '$0'
  const text = zeros < 4 ? rounded('0', fraction, 4) : trimmed(rounded('0', fraction, zeros + 2))
  return signed(negative, `$${text}`)
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

/** `2026-11-23 10:21:07`; without the day when it is the day of `now`. */
export function moment(iso: string | null | undefined, zone: Zone, now: number): string {
  if (iso === null || iso === undefined) return MISSING
  const text = stamp(Date.parse(iso), zone)
  return text.slice(0, 10) === stamp(now, zone).slice(0, 10) ? text.slice(11) : text
}

/** Day and time, with the zone's other reading: for hovering. */
export function momentTitle(iso: string | null | undefined, zone: Zone): string {
  if (iso === null || iso === undefined) return ''
  const at = Date.parse(iso)
  const other = zone === 'utc' ? 'local' : 'utc'
  const label = other === 'utc' ? 'UTC' : 'local'
  return `${new Date(at).toISOString()}\n${stamp(at, other)} ${label}`
}

/** `3 min ago`, `in 2 h`. */
export function relative(iso: string, now: number): string {
  const seconds = Math.round((Date.parse(iso) - now) / 1000)
  const size = Math.abs(seconds)
  const [count, unit] =
    size < 60
      ? [size, 's']
      : size < 3600
        ? [Math.floor(size / 60), 'min']
        : size < 172_800
          ? [Math.floor(size / 3600), 'h']
          : [Math.floor(size / 86_400), 'days']
  return seconds > 0 ? `in ${count} ${unit}` : `${count} ${unit} ago`
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
  return `${Math.floor(minutes / 1440)} days ${Math.floor((minutes % 1440) / 60)} h`
}

/** `12,408`. */
export function count(value: number | null | undefined): string {
  if (value === null || value === undefined) return MISSING
  const [whole = '0', fraction] = plainDecimal(String(Math.abs(value))).split('.')
  return signed(
    value < 0,
    fraction === undefined ? grouped(whole) : `${grouped(whole)}.${fraction}`,
  )
}

/** A count in a table: `1.2 M` from 100,000 on. */
export function shortCount(value: number | null | undefined): string {
  if (value === null || value === undefined) return MISSING
  const size = Math.abs(value)
  if (size < 100_000) return count(value)
  const [by, unit] = size < 999_500 ? [1e3, 'k'] : size < 999_500_000 ? [1e6, 'M'] : [1e9, 'G']
  const shown = size / by
  return `${value < 0 ? MINUS : ''}${shown < 99.95 ? shown.toFixed(1) : Math.round(shown)} ${unit}`
}

export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined) return MISSING
  const mib = value / 1_048_576
  return `${mib < 10 ? mib.toFixed(2) : count(Math.round(mib))} MiB`
}

/** Fewer calls are said: their share in percent says too much. */
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

function rounded(whole: string, fraction: string, decimals: number): string {
  const digits = BigInt(whole + fraction.slice(0, decimals).padEnd(decimals, '0'))
  const up = (fraction[decimals] ?? '0') >= '5' ? 1n : 0n
  const text = (digits + up).toString().padStart(decimals + 1, '0')
  if (decimals === 0) return text
  return `${text.slice(0, -decimals)}.${text.slice(-decimals)}`
}

function trimmed(decimal: string): string {
  return decimal.replace(/0+$/, '')
}

function scaled(amount: string, scale: number): bigint {
  const { negative, whole, fraction } = parts(amount)
  const value = BigInt(whole + fraction.padEnd(scale, '0'))
  return negative ? -value : value
}

function grouped(digits: string): string {
  const [whole = '', fraction] = digits.split('.')
  const text = whole.replace(/\B(?=(\d{3})+$)/g, ',')
  return fraction === undefined ? text : `${text}.${fraction}`
}

function signed(negative: boolean, text: string): string {
  return negative ? `${MINUS}${text}` : text
}

function stamp(at: number, zone: Zone): string {
  const date = new Date(at)
  if (zone === 'utc') return date.toISOString().slice(0, 19).replace('T', ' ')
  const day = [date.getFullYear(), two(date.getMonth() + 1), two(date.getDate())].join('-')
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`
}

function two(value: number): string {
  return String(value).padStart(2, '0')
}
