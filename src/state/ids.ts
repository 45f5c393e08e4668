/** Identifiers. Random bytes come from the system's generator, a page at a time: one call for hundreds of ids. */
import { Buffer } from 'node:buffer'
import { randomFillSync } from 'node:crypto'

const CROCKFORD = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
const PAGE_BYTES = 4096
const page = Buffer.alloc(PAGE_BYTES)
let used = PAGE_BYTES

/** @returns where in the page they begin; nobody gets them twice */
function random(count: number): number {
  if (used + count > PAGE_BYTES) {
    randomFillSync(page)
    used = 0
  }
  used += count
  return used - count
}

const ID_LENGTH = 30
const id = Buffer.from('req_'.padEnd(ID_LENGTH, '0'))

/** `req_` and a ULID: 48 bits of time, 80 of chance, sortable. https://github.com/ulid/spec */
export function requestId(now = Date.now()): string {
  for (let rest = now, i = 13; i >= 4; i--, rest = Math.floor(rest / 32)) {
    id[i] = CROCKFORD.charCodeAt(rest % 32)
  }
  const from = random(16)
  for (let i = 0; i < 16; i++) id[14 + i] = CROCKFORD.charCodeAt(page[from + i]! & 31)
  // One flat string: put together from pieces it would be a tree of them.
  return id.toString('latin1')
}

/** A prefix and 96 random bits in hexadecimal. */
export function randomId(prefix: string): string {
  const from = random(12)
  return prefix + page.toString('hex', from, from + 12)
}
