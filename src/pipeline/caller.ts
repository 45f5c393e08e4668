/** The caller of a request: its API key as it was sent, and what is its own by it. */
import { PREFIX } from '../accounts/secrets.ts'
import type { Owner } from '../answers/items.ts'
import type { Incoming } from './http.ts'
import type { Call } from './pipeline.ts'

/** The API key of a request, in either of two headers. It is never logged. */
export function apiKeyIn(incoming: Pick<Incoming, 'header'>): string | undefined {
  const bearer = bearerIn(incoming.header('authorization'))
  return chosen(bearer, incoming.header('x-api-key')?.trim())
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
