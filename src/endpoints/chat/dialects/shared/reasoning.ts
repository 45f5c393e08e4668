/**
 * Reasoning of other vendors in client forms that have one opaque string for it. Vendors sign or encrypt reasoning
 * and want it back unchanged, so the string carries the members of an entry of `reasoning_details` that its visible
 * text lacks.
 */
import { isObject } from '../../../../errors/checks.ts'
import { InvalidRequest } from '../../../../errors/errors.ts'
import type { ReasoningDetail } from '../../../../plugin.ts'

const PREFIX = 'sg1.'
const TYPES: ReadonlySet<unknown> = new Set([
  'reasoning.text',
  'reasoning.summary',
  'reasoning.encrypted',
])

/** Formats whose every block of text has a signature at its end. */
export const SIGNED_FORMATS: ReadonlySet<unknown> = new Set(['anthropic-claude-v1'])

export function toCarrier({ type, format, id, signature, data }: ReasoningDetail): string {
  const opaque = signature ?? data
  const members = {
    t: type,
    ...(format && { f: format }),
    ...(id && { i: id }),
    ...(opaque && { s: opaque }),
  }
  return PREFIX + Buffer.from(JSON.stringify(members)).toString('base64url')
}

/** Whether a server wants an entry back where it stood in its answer: the id tells, and only a carrier keeps it. */
export function isMarked({ id }: ReasoningDetail): boolean {
  return typeof id === 'string' && id.startsWith('up:')
}

export function isCarrier(text: string): boolean {
  return text.startsWith(PREFIX)
}

/**
 * The entry of a carrier, with the visible text beside it.
 * @param path the path of the carrier in the request
 * @throws InvalidRequest for a changed one; clients know the message, and then leave the reasoning out
 */
export function fromCarrier(carrier: string, visible: string, path: string): ReasoningDetail {
  const { t: type, f: format = null, i: id = null, s } = membersOf(carrier, path)
  const base = { format, id }
  if (type === 'reasoning.encrypted') return { type, data: s ?? '', ...base }
  if (type === 'reasoning.summary') return { type, summary: visible, ...base }
  return {
    type: 'reasoning.text',
    text: visible,
    ...(s !== undefined && { signature: s }),
    ...base,
  }
}

const SUMMARY = 'compaction'
const SUMMARIES: ReadonlySet<unknown> = new Set([SUMMARY])

/** The carrier of a summary of a conversation. */
export function summaryCarrier(summary: string): string {
  return PREFIX + Buffer.from(JSON.stringify({ t: SUMMARY, s: summary })).toString('base64url')
}

/** The text of such a carrier. @throws as {@link fromCarrier} */
export function summaryOf(carrier: string, path: string): string {
  return membersOf(carrier, path, SUMMARIES).s ?? ''
}

interface CarrierMembers {
  readonly t: string
  readonly f?: string
  readonly i?: string
  readonly s?: string
}

function membersOf(
  carrier: string,
  path: string,
  types: ReadonlySet<unknown> = TYPES,
): CarrierMembers {
  const encoded = carrier.slice(PREFIX.length)
  try {
    const members: unknown = JSON.parse(Buffer.from(encoded, 'base64url').toString())
    if (
      isMembers(members, types) &&
      Buffer.from(JSON.stringify(members)).toString('base64url') === encoded
    )
      return members
  } catch {
    // Not JSON.
  }
  throw new InvalidRequest(
    'invalid_value',
    `invalid signature in thinking block: '${path}' is not as this gateway sent it.`,
    { param: path },
  )
}

function isMembers(value: unknown, types: ReadonlySet<unknown>): value is CarrierMembers {
  if (!isObject(value) || !types.has(value.t)) return false
  return [value.f, value.i, value.s].every((one) => one === undefined || typeof one === 'string')
}
