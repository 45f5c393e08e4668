/** Secrets of API keys: generated, hashed, checked. */
import { hash, randomInt } from 'node:crypto'
import { crc32 } from 'node:zlib'

/** Beginning of every secret that is generated here. */
export const PREFIX = 'sk-sluice-'
const BODY_LENGTH = 40
const CHECK_LENGTH = 6
const START_LENGTH = PREFIX.length + 4
const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/** Hexadecimal SHA-256 of a secret, the form in which secrets are stored and looked up. */
export function hashSecret(secret: string): string {
  return hash('sha256', secret, 'hex')
}

/**
 * Whether a secret can be valid: false for one with our prefix and a wrong checksum, which is mistyped and does not need
 * a look-up. Secrets of another origin have no checksum and count as valid.
 */
export function hasValidChecksum(secret: string): boolean {
  if (!secret.startsWith(PREFIX)) return true
  const body = secret.slice(0, PREFIX.length + BODY_LENGTH)
  return secret === body + checksum(body)
}

/** A new random secret: prefix, forty base-62 digits (238 bits) and a checksum. */
export function newSecret(): string {
  const digits = Array.from({ length: BODY_LENGTH }, () => BASE62[randomInt(62)])
  const body = PREFIX + digits.join('')
  return body + checksum(body)
}

/** CRC-32 in base 62, most significant digit first. */
function checksum(text: string): string {
  let digits = ''
  for (let rest = crc32(text); digits.length < CHECK_LENGTH; rest = Math.floor(rest / 62)) {
    digits = BASE62[rest % 62]! + digits
  }
  return digits
}

/** The first characters of a secret, for lists. A secret of another origin may be short, so nothing of it is shown. */
export function startOf(secret: string): string {
  return secret.startsWith(PREFIX) ? secret.slice(0, START_LENGTH) : 'seeded'
}
