/** Bookings: what moves a balance beside calls, each with a row of its own. */
import { checkAmount } from '../../money/money.ts'
import { NotFound, NotPossible } from '../../errors/errors.ts'
import { MOST_BLOCKS, type BlockFault } from './blocks.ts'
import {
  BOOKING_KINDS,
  type BlockText,
  type Booking,
  type BookingDetails,
  type BookingKind,
  type LedgerRow,
} from './ledger.ts'

export function isBookingKind(kind: string): kind is BookingKind {
  return (BOOKING_KINDS as readonly string[]).includes(kind)
}

/** @throws RangeError for an amount out of bounds */
export function checkBooking({ kind, amount }: Booking): void {
  if (kind === 'expire') return
  if (kind !== 'adjust') return checkAmount(`a ${kind}`, amount, 1n)
  if (amount === 0n) throw new RangeError('an adjustment has to be above or below 0')
  if (amount < 0n) checkAmount('an adjustment without its sign', -amount)
  else checkAmount('an adjustment', amount)
}

/** Whether a booking ends the free tier. */
export function endsFreeTier({ kind, unlock }: Pick<Booking, 'kind' | 'unlock'>): boolean {
  return kind === 'top-up' || unlock === true
}

/** The body of a booking's row as JSON; null where there is nothing to say. @param blocks the blocks after it, where it has changed them */
export function bookingBody(
  { note, expiresAt, unlock, takesFrom, facts }: Booking,
  blocks?: readonly BlockText[],
): string | null {
  return writeBody({ note, booking: { expiresAt, unlock, takesFrom, facts, blocks } })
}

/** What the body of a row is made of: the usage of a call, or what else is known of a booking. */
export function bodyMembers({
  usage,
  note,
  booking,
}: Pick<LedgerRow, 'usage' | 'note' | 'booking'>): object | undefined {
  if (usage) return usage
  const members = Object.entries({ note, ...booking }).filter(([, value]) => value !== undefined)
  return members.length === 0 ? undefined : Object.fromEntries(members)
}

/** The body of a row as JSON; {@link readBody} reads it. */
export function writeBody(row: {
  readonly usage?: LedgerRow['usage']
  readonly note?: string | undefined
  readonly booking?: { readonly [Name in keyof BookingDetails]: BookingDetails[Name] | undefined }
}): string | null {
  const members = bodyMembers(row as Pick<LedgerRow, 'usage' | 'note' | 'booking'>)
  return members === undefined ? null : JSON.stringify(members)
}

export function readBody(
  kind: LedgerRow['kind'],
  body: string | null | undefined,
): Pick<LedgerRow, 'usage' | 'note' | 'booking'> {
  if (!body) return {}
  const parsed = JSON.parse(body)
  if (kind === 'usage') return { usage: parsed }
  // Releases of schema 8 in Redis have stored the note alone.
  if (typeof parsed === 'string') return { note: parsed }
  const { note, ...booking } = parsed
  return {
    ...(note !== undefined && { note }),
    ...(Object.keys(booking).length > 0 && { booking }),
  }
}

/** @throws NotFound for a block that is not open, NotPossible for too many */
export function refuseBlock(fault: BlockFault, { takesFrom }: Booking): never {
  if (fault === 'no_block') {
    throw new NotFound('not_found', `There is no open block ${JSON.stringify(takesFrom)}.`)
  }
  const message = `This account has ${MOST_BLOCKS} open blocks of credit, which is the most. Nothing was booked.`
  throw new NotPossible(message, 'too_many_blocks')
}
