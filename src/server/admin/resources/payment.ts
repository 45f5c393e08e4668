/** Payments of customers, in requests and answers. */
import * as v from 'valibot'
import { parsePico, usdJson } from '../../../money/amounts.ts'
import { moment, recordId, text, usd } from './settings.ts'

/** `POST /accounts/:id/checkout`, `/v1/key/checkout` and `/me/api/checkout`. */
export const checkoutBody = v.strictObject({ usd })

/** `POST /payments/:reference/book`: without `usd` the amount that was paid, by the present rate. */
export const bookPayment = v.strictObject({
  account_id: recordId,
  usd: v.nullish(usd),
  note: v.nullish(text(1000)),
})

/** `open` until it is paid, `lapsed` where it was not within three days; `unmatched`: paid, and for no order. */
export const PAYMENT_STATES = ['open', 'booked', 'unmatched', 'lapsed'] as const

/** The record `payment:<reference>`: an order, or a payment without one. Amounts are text. */
export interface StoredPayment {
  readonly revision: number
  /** That of the order; of a payment without one its own id. */
  readonly reference: string
  readonly state: (typeof PAYMENT_STATES)[number]
  /** The payment plugin. */
  readonly provider: string
  /** It is absent for a payment without an order until an operator has named it; `usd` likewise. */
  readonly account?: string
  /** The actor who ordered it, or who booked it. */
  readonly by?: string
  readonly usd?: string
  readonly charge: { readonly amount: string; readonly currency: string }
  readonly rate?: string
  /** Id of the page at the provider. */
  readonly checkout?: string
  /** Id of the payment. */
  readonly payment?: string
  /** The operator who has assigned it. */
  readonly decidedBy?: string
  readonly note?: string
  /** ms since epoch, like the next two. */
  readonly createdAt: number
  /** The last time that the provider was asked what became of it. */
  readonly askedAt?: number
  readonly bookedAt?: number
}

/** @param takenBack what refunds and disputes have taken from the balance again, pico-dollars */
export function paymentView(row: StoredPayment, takenBack: bigint) {
  const { reference, state, account = null, by = null, charge, rate = null, payment = null } = row
  return {
    reference,
    state,
    account_id: account,
    by,
    usd: row.usd === undefined ? null : usdJson(parsePico(row.usd)),
    charge: { amount: charge.amount, currency: charge.currency },
    rate,
    payment,
    taken_back_usd: usdJson(takenBack),
    created_at: moment(row.createdAt),
    booked_at: row.bookedAt === undefined ? null : moment(row.bookedAt),
  }
}

/** A payment as customers see it: without the person who ordered it. */
export function holderPayment(row: StoredPayment, takenBack: bigint) {
  const { by: _, ...view } = paymentView(row, takenBack)
  return view
}

/** The answer to an order. */
export function checkoutView(
  order: Pick<StoredPayment, 'reference' | 'usd' | 'charge'>,
  url: string,
) {
  const { reference, charge } = order
  return { reference, url, usd: usdJson(parsePico(order.usd!)), charge }
}
