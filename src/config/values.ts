/** Schemas of single values of the configuration. */
import * as v from 'valibot'
import { MAX_SECONDS } from '../models/entry.ts'

const UNITS: Readonly<Record<string, number>> = {
  b: 1,
  kb: 1000,
  mb: 1_000_000,
  gb: 1_000_000_000,
  kib: 1024,
  mib: 1_048_576,
  gib: 1_073_741_824,
}
const SIZE = 'a size such as "50mib", or a number of bytes'
/** A size in bytes, or a text such as `50mib`. */
export const size = v.pipe(
  v.union([v.string(), v.number()], SIZE),
  v.rawTransform(({ dataset: { value }, addIssue, NEVER }) => {
    const bytes = toBytes(value)
    if (Number.isSafeInteger(bytes) && bytes > 0) return bytes
    addIssue({ message: SIZE })
    return NEVER
  }),
)

const PAUSE = `a number of seconds from 0 to ${MAX_SECONDS}`
/** Seconds that may be none. */
export const pause = v.pipe(v.number(PAUSE), v.minValue(0, PAUSE), v.maxValue(MAX_SECONDS, PAUSE))

const COUNT = 'a whole number above 0'
/** A whole number above 0. */
export const count = v.pipe(v.number(COUNT), v.safeInteger(COUNT), v.minValue(1, COUNT))

/** true or false. */
export const FLAG = v.boolean('true or false')

const NAME = 'a name of letters, digits, "-" and "_", at most 64'
/** The name of an instance. */
export const name = v.pipe(v.string(NAME), v.regex(/^[A-Za-z0-9][\w-]{0,63}$/, NAME))

/** Text that is not empty. */
export function text(expected: string) {
  return v.pipe(v.string(expected), v.minLength(1, expected))
}

/** A whole number from `min` to `max`. */
export function number(min: number, max: number, expected: string) {
  return v.pipe(
    v.number(expected),
    v.integer(expected),
    v.minValue(min, expected),
    v.maxValue(max, expected),
  )
}

/** A size in bytes; NaN for a text that is no size. */
function toBytes(value: string | number): number {
  if (typeof value === 'number') return value
  const match = /^(\d{1,15}(?:\.\d{1,6})?)\s*([a-z]*)$/i.exec(value.trim())
  return match ? Math.round(Number(match[1]) * (UNITS[match[2]!.toLowerCase() || 'b'] ?? NaN)) : NaN
}
