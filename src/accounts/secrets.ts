import { hash, randomInt } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { InvalidRequest } from '../errors/errors.ts'

const SHA256 = /^[0-9a-f]{64}$/
const GIVEN = /^[\x21-\x7e]{8,512}$/

/** Description of a text that {@link isSecret} accepts. */
export const SECRET = '8 to 512 visible ASCII characters without spaces'

export const PREFIX = 'sk-sluice-'
const BODY_LENGTH = 40
const CHECK_LENGTH = 6
/** Digits behind the prefix that lists show. */
const START_DIGITS = 4
/** Placeholder in lists for a secret of another origin. */
const OTHER_ORIGIN = 'seeded'
const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/** Description of a secret for which {@link hasValidChecksum} is true. */
export const CHECKED = `complete and without a typing error, as "${PREFIX}" keys have a checksum`

/** Hexadecimal SHA-256 of a secret, the form in which secrets are stored and looked up. */
export function hashSecret(secret: string): string {
  return hash('sha256', secret, 'hex')
}

/**
 * Whether a secret can be valid: false for one with a prefix of the gateway and a wrong checksum, which is mistyped and does not
 * need a look-up. Secrets of another origin have no checksum and count as valid.
 */
export function hasValidChecksum(secret: string, prefix = PREFIX): boolean {
  if (!secret.startsWith(prefix)) return true
  const body = secret.slice(0, prefix.length + BODY_LENGTH)
  return secret === body + checksum(body)
}

export function isSecret(text: string): boolean {
  return GIVEN.test(text)
}

/** The given secret of a new key, or a new one. */
export interface GivenSecret {
  readonly secret?: string | undefined
  readonly sha256?: string | undefined
  /** Beginning of the secret for lists; with `sha256` only. */
  readonly start?: string | undefined
}

/** The secret itself, which is empty where only its hash is known, the hash, and the beginning for lists. */
interface HashedSecret {
  readonly secret: string
  readonly sha256: string
  readonly start: string
}

/** A given secret, or a new one. @throws InvalidRequest for a malformed one */
export function secretOf({ secret, sha256, start }: GivenSecret): HashedSecret {
  if (sha256 !== undefined) {
    need(secret === undefined, 'secret', 'left out when "sha256" is given')
    need(SHA256.test(sha256), 'sha256', '64 lower-case hexadecimal digits')
    return { secret: '', sha256, start: start ?? OTHER_ORIGIN }
  }
  need(start === undefined, 'start', 'left out without "sha256"')
  const text = secret ?? newSecret(PREFIX)
  need(isSecret(text), 'secret', SECRET)
  need(hasValidChecksum(text), 'secret', CHECKED)
  return { secret: text, sha256: hashSecret(text), start: startOf(text, PREFIX) }
}

/** A new random secret: prefix, forty base-62 digits (238 bits) and a checksum. */
export function newSecret(prefix: string): string {
  const digits = Array.from({ length: BODY_LENGTH }, () => BASE62[randomInt(62)])
  const body = prefix + digits.join('')
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
export function startOf(secret: string, prefix: string): string {
  return secret.startsWith(prefix) ? secret.slice(0, prefix.length + START_DIGITS) : OTHER_ORIGIN
}

const NAME_LENGTH = 200

/** @throws InvalidRequest for an empty or long name */
export function checkName(name: string): void {
  const length = name.trim().length
  need(length > 0 && length <= NAME_LENGTH, 'name', `a text of 1 to ${NAME_LENGTH} characters`)
}

/** @throws InvalidRequest about a member, unless the condition holds. @param expected description of a valid value */
export function need(holds: boolean, param: string, expected: string): void {
  if (holds) return
  throw new InvalidRequest('invalid_value', `"${param}" has to be ${expected}.`, { param })
}
