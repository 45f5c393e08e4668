/** The caller of a request: its API key as it was sent, and what is its own by it. */
import { PREFIX } from '../accounts/secrets.ts'
import type { Owner } from '../answers/items.ts'
import { InvalidRequest } from '../errors/errors.ts'
import type { Incoming } from './http.ts'
import type { Call } from './pipeline.ts'

/** The API key of a request, in either of two headers. It is never logged. */
export function apiKeyIn(incoming: Pick<Incoming, 'header'>): string | undefined {
  const bearer = bearerIn(incoming.header('authorization'))
  return chosen(bearer, incoming.header('x-api-key')?.trim())
}

const IDEMPOTENCY_KEY = /^[\x21-\x7e]{1,255}$/

/** The name by which a client may repeat a request. @throws InvalidRequest for a malformed one */
export function idempotencyKeyIn(incoming: Pick<Incoming, 'header'>): string | undefined {
  const value = incoming.header('idempotency-key')
  if (value === undefined || IDEMPOTENCY_KEY.test(value)) return value
  const message = 'Invalid Idempotency-Key: expected 1 to 255 visible ASCII characters.'
  throw new InvalidRequest('invalid_value', message)
}

/** Whose the items of an answer are. */
export function ownerOf({ admission, incoming }: Call): Owner {
  return { key: admission.key.id, secret: apiKeyIn(incoming)! }
}

/** The bearer token, unless only the other header has the form of our keys: tools fill the one they do not use. */
function chosen(bearer: string | undefined, other: string | undefined): string | undefined {
  if (!bearer || !other) return bearer || other
  return other.startsWith(PREFIX) && !bearer.startsWith(PREFIX) ? other : bearer
}

function bearerIn(header = ''): string | undefined {
  const space = header.indexOf(' ')
  const isBearer = space > 0 && header.slice(0, space).toLowerCase() === 'bearer'
  return isBearer ? header.slice(space + 1).trim() : undefined
}
