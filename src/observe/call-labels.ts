/** Labels of a call in usage and log: what it was for, and for whom. They are the client's own words, and nothing else depends on them. */
import { hash } from 'node:crypto'
import { InvalidRequest } from '../errors/errors.ts'

/** What a call was for, and for whom. */
export interface CallLabels {
  readonly tag?: string
  readonly user?: string
}

/** How end users are kept: as the client names them, as a hash, or not at all. */
type UserForm = 'plain' | 'hash' | 'none'

/** Header in which a client labels a call. It is for the gateway alone. */
export const TAG_HEADER = 'x-service-tag'
const TAG = /^[A-Za-z0-9_.:-]{1,64}$/
/** Printable ASCII without a blank at either end. */
const PLAIN = /^[\x21-\x7e](?:[\x20-\x7e]{0,62}[\x21-\x7e])?$/
const NO_LABELS: CallLabels = {}

/** Members of a request that label it. */
interface Labelled {
  readonly metadata?: unknown
  readonly safety_identifier?: unknown
  readonly user?: unknown
}

/**
 * The labels of a request.
 * @param fixed the tag of the key, in whose place no other counts
 * @throws InvalidRequest for a header that is no tag
 */
export function labelsOf(
  input: Labelled,
  header: string | undefined,
  fixed: string | undefined,
  users: UserForm,
): CallLabels {
  const { metadata, safety_identifier: identifier, user } = input
  const members = isObject(metadata) ? metadata : {}
  const tag = fixed ?? tagOf(header, members.tag)
  const name = [identifier, user, members.user_id].find((one) => typeof one === 'string' && one)
  const known = users === 'none' ? undefined : (name as string | undefined)
  if (tag === undefined && known === undefined) return NO_LABELS
  return {
    ...(tag !== undefined && { tag }),
    ...(known !== undefined && { user: userOf(known, users) }),
  }
}

function tagOf(header: string | undefined, member: unknown): string | undefined {
  if (header !== undefined) {
    if (TAG.test(header)) return header
    const message = 'Invalid X-Service-Tag: expected 1 to 64 letters, digits, "_", ".", ":" or "-".'
    throw new InvalidRequest('invalid_value', message)
  }
  return typeof member === 'string' && TAG.test(member) ? member : undefined
}

function userOf(name: string, users: UserForm): string {
  // A name that looks like a hash is hashed too, so that none can be taken for another's.
  if (users === 'plain' && PLAIN.test(name) && !name.startsWith('h:')) return name
  return `h:${hash('sha256', name).slice(0, 16)}`
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null
}
