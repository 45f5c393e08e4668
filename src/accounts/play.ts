/**
 * Play tokens: with one, an operator calls as a key whose secret the gateway does not have. It names the key and its revision,
 * is signed by a key that comes from a token of the admin API, and ends after some minutes.
 */
import { createHmac, hash, hkdfSync, timingSafeEqual } from 'node:crypto'

export const PLAY_PREFIX = 'play.'
const LIFE_MS = 600_000
const TOKEN = /^play\.([a-z0-9_-]{1,64})\.(\d{1,15})\.(\d{1,15})\.[\w-]{43}$/

interface AdminTokens {
  readonly token?: string | undefined
  readonly tokens: readonly { readonly token: string; readonly role: string }[]
}

/** Contents of a play token. */
interface PlayedKey {
  readonly id: string
  readonly revision: number
}

/** A play token for the present revision of a key. @param now ms since epoch. @returns undefined without a token of the role `admin` */
export function playTokenFor(
  { id, revision }: PlayedKey,
  admin: AdminTokens,
  now: number,
): { readonly token: string; readonly expiresAt: number } | undefined {
  const secret = secretOf(admin)
  if (secret === undefined) return undefined
  const expiresAt = now + LIFE_MS
  const claim = `${PLAY_PREFIX}${id}.${revision}.${expiresAt}`
  return { token: `${claim}.${signatureOf(claim, secret)}`, expiresAt }
}

/** The contents of a play token; undefined for one that is wrong or has ended. @param now ms since epoch */
export function readPlayToken(
  text: string,
  admin: AdminTokens,
  now: number,
): PlayedKey | undefined {
  const secret = secretOf(admin)
  const [, id, revision, expiresAt] = TOKEN.exec(text) ?? []
  if (secret === undefined || id === undefined || now >= Number(expiresAt)) return undefined
  const claim = text.slice(0, text.lastIndexOf('.'))
  const expected = `${claim}.${signatureOf(claim, secret)}`
  const [given, right] = [text, expected].map((one) => hash('sha256', one, 'buffer'))
  return timingSafeEqual(given!, right!) ? { id, revision: Number(revision) } : undefined
}

/** The signing secret: all gateways of one configuration sign with the same token. */
function secretOf({ token, tokens }: AdminTokens): string | undefined {
  return token ?? tokens.find(({ role }) => role === 'admin')?.token
}

function signatureOf(claim: string, secret: string): string {
  const key = Buffer.from(hkdfSync('sha256', secret, '', 'play', 32))
  return createHmac('sha256', key).update(claim).digest('base64url')
}
