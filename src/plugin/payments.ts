/** Payment plugins let customers pay for credit on a page of a payment provider. */
import { API_VERSION, type Closable, type Host, type Plugin, type Schema } from './base.ts'

/** What a customer is to pay. Amounts are decimal text in whole units of the currency. */
export interface CheckoutOrder {
  /** The gateway's reference. It comes back with the payment, and is the idempotency key where the provider takes one. */
  readonly reference: string
  readonly description: string
  readonly amount: string
  /** ISO 4217, in lower case. */
  readonly currency: string
  /** Where the customer goes after paying, and after giving up. */
  readonly returnUrl: string
  readonly cancelUrl: string
  readonly email?: string
}

/** The page on which a customer pays. */
export interface Checkout {
  /** Its id at the provider, for {@link Payments.find}. */
  readonly id: string
  /** https; http on this machine. */
  readonly url: string
}

/**
 * A fact. `id` is that of the payment, the refund or the dispute, never that of an event: told twice, it is one. A reversal has the
 * id of what it reverses. Ids have 1 to 200 letters, digits, `_` or `-`. Amounts are without tax that was added to the order's.
 */
export type PaymentEvent =
  | {
      readonly type: 'paid'
      readonly id: string
      /** {@link CheckoutOrder.reference}, or what the provider has in its place. */
      readonly reference: string
      readonly amount: string
      readonly currency: string
    }
  | {
      readonly type: 'refunded' | 'refund_failed' | 'disputed' | 'dispute_won'
      readonly id: string
      /** Id of the payment. */
      readonly payment: string
      readonly amount: string
      readonly currency: string
    }

/** A webhook as it arrived: nothing has read it before. */
export interface WebhookDelivery {
  readonly headers: Headers
  readonly body: Uint8Array
}

/** The gateway's functions for a payment plugin. */
export interface PaymentsHost extends Pick<
  Host,
  'name' | 'request' | 'readJson' | 'failure' | 'fail' | 'http' | 'log' | 'mask'
> {
  /** The currency in which customers pay: ISO 4217, in lower case. */
  readonly currency: string
  /** Folder of the configuration. Packages that are installed there can be imported, wherever the gateway itself is. */
  readonly directory: string
}

/** A set-up payment provider. Its signals are aborted after ten seconds. */
export interface Payments extends Closable {
  /** Makes the page on which the customer pays. @throws what {@link Host.fail} makes */
  checkout(order: CheckoutOrder, signal: AbortSignal): Promise<Checkout>
  /**
   * Reads a webhook, whose signature it verifies by the raw body. Undefined: the signature is missing, wrong or old. Empty: nothing
   * that matters. An error makes the provider deliver it again.
   */
  read(delivery: WebhookDelivery): Promise<readonly PaymentEvent[] | undefined>
  /** What became of a checkout whose webhook never came. @throws what {@link Host.fail} makes */
  find(checkout: string, signal: AbortSignal): Promise<readonly PaymentEvent[]>
}

/** A payment plugin. */
export type PaymentsPlugin<S extends Schema = Schema<any>> = Plugin<
  'payments',
  S,
  Payments,
  PaymentsHost
>

/** Marks a plain object as a payment plugin. Example: `plugins/payments/stripe.ts`. */
export function definePayments<S extends Schema>(
  plugin: Omit<PaymentsPlugin<S>, 'kind' | 'api'>,
): PaymentsPlugin<S> {
  return { kind: 'payments', api: API_VERSION, ...plugin }
}
