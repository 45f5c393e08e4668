/** Identifiers. Their random bits come from random UUIDs, because Node keeps a stock of these: randomBytes cost 4 % of a request. */
import { randomUUID } from 'node:crypto'

const CROCKFORD = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'

/** `req_` and a ULID: 48 bits of time, then 79 random bits, so that ids sort by time. https://github.com/ulid/spec */
export function requestId(now = Date.now()): string {
  let time = ''
  for (let rest = now; time.length < 10; rest = Math.floor(rest / 32)) {
    time = CROCKFORD[rest % 32] + time
  }
  let random = ''
  for (const byte of Buffer.from(hexDigits(), 'hex')) random += CROCKFORD[byte & 31]
  return `req_${time}${random}`
}

/** A prefix and 24 hexadecimal digits, 92 of their bits random. */
export function randomId(prefix: string): string {
  return prefix + hexDigits().slice(0, 24)
}

/** The 32 digits of a random UUID. */
function hexDigits(): string {
  return randomUUID().replaceAll('-', '')
}
