/** Identifiers. Random bytes come from the system's generator, a page at a time: one call for hundreds of ids. */
import { randomFillSync } from 'node:crypto'

const CROCKFORD = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
const PAGE_BYTES = 4096
const page = Buffer.alloc(PAGE_BYTES)
let used = PAGE_BYTES

function random(count: number): Buffer {
  if (used + count > PAGE_BYTES) {
    randomFillSync(page)
    used = 0
  }
  used += count
  return page.subarray(used - count, used)
}

/** `req_` and a ULID: 48 bits of time, 80 of chance, sortable. https://github.com/ulid/spec */
export function requestId(now = Date.now()): string {
  let time = ''
  for (let rest = now, i = 0; i < 10; i++, rest = Math.floor(rest / 32)) {
    time = CROCKFORD[rest % 32] + time
  }
  const bytes = random(16)
  let chance = ''
  for (let i = 0; i < 16; i++) chance += CROCKFORD[bytes[i]! & 31]
  return `req_${time}${chance}`
}

/** A prefix and 96 random bits in hexadecimal. */
export function randomId(prefix: string): string {
  return prefix + random(12).toString('hex')
}
