/** Identifiers, made of random bytes of the operating system. */
import { randomBytes } from 'node:crypto'

const CROCKFORD = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'

/** `req_` and a ULID: 48 bits of time, then 80 random bits, so that ids sort by time. https://github.com/ulid/spec */
export function requestId(now = Date.now()): string {
  let time = ''
  for (let rest = now; time.length < 10; rest = Math.floor(rest / 32)) {
    time = CROCKFORD[rest % 32] + time
  }
  let random = ''
  for (const byte of randomBytes(16)) random += CROCKFORD[byte & 31]
  return `req_${time}${random}`
}

/** A prefix and 96 random bits in hexadecimal. */
export function randomId(prefix: string): string {
  return prefix + randomBytes(12).toString('hex')
}
