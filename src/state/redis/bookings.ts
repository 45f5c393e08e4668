/** Bookings as the scripts of the Redis engine take them. */
import {
  type BlockText,
  type Booking,
  type BookingDetails,
  type BookingKind,
} from '../ledger/ledger.ts'
import { endsFreeTier } from '../ledger/bookings.ts'

/** The key of the hash with the references of a kind. */
export function referencesOf(kind: string): string {
  if (kind === 'top-up') return 't'
  return kind === 'adjust' ? 'a' : 'b'
}

/** What a booking does beside moving the balance: whether it was paid, whether it ends the free tier, and the blocks after it. */
export function effectsOf(
  booking: Pick<Booking, 'unlock'> & { readonly kind: BookingKind } & Pick<
      BookingDetails,
      'blocks'
    >,
): readonly string[] {
  const { kind, blocks } = booking
  return [
    kind === 'top-up' ? '1' : '0',
    endsFreeTier(booking) ? '1' : '0',
    blocks ? JSON.stringify(blocks) : '',
  ]
}

export function blocksIn(text: string): readonly BlockText[] {
  return text === '' ? [] : JSON.parse(text)
}
