/** Identifiers. Their random bits come from random UUIDs, because Node keeps a stock of these: randomBytes cost 4 % of a request. */
import { randomUUID } from 'node:crypto'

const CROCKFORD = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
const TIME_DIGITS = 10

/** `req_` and a ULID: 48 bits of time, then 64 random bits, so that ids sort by time. https://github.com/ulid/spec */
export function requestId(now = Date.now()): string {
  const uuid = randomUUID()
  // Hexadecimal digits are digits of ULIDs too. Those of the version and the variant are not random.
  return `req_${ulidAt(now)}${(uuid.slice(24) + uuid.slice(0, 4)).toUpperCase()}`
}

/** The beginning of the ULIDs of a moment: text that sorts before all of them. @param now ms since epoch */
export function ulidAt(now: number): string {
  let time = ''
  for (let rest = now; time.length < TIME_DIGITS; rest = Math.floor(rest / 32)) {
    time = CROCKFORD[rest % 32] + time
  }
  return time
}

/** The moment of a ULID, ms since epoch. */
export function timeOf(ulid: string): number {
  let ms = 0
  for (const digit of ulid.slice(0, TIME_DIGITS)) ms = ms * 32 + CROCKFORD.indexOf(digit)
  return ms
}

export function randomId(prefix: string): string {
  const uuid = randomUUID()
  return prefix + uuid.slice(0, 8) + uuid.slice(9, 13) + uuid.slice(24)
}

/** The key of the record by which a gateway that shares its state tells that it runs. */
export function instanceKey(gateway: string): string {
  return `instance:${gateway}`
}
