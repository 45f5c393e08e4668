/** Stripe: customers pay on a page of Checkout. https://docs.stripe.com/payments/checkout, https://docs.stripe.com/webhooks */
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import type Stripe from 'stripe'
import * as v from 'valibot'
import {
  definePayments,
  type CheckoutOrder,
  type PaymentEvent,
  type PaymentsHost,
} from '../../src/plugin.ts'

const SECRET = 'a secret that begins with "whsec_", or a list of two'
const secret = v.pipe(v.string(SECRET), v.startsWith('whsec_', SECRET))
const ADDRESS = 'an address on this machine, which is for tests'
const isLocal = (text: string) =>
  /^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(URL.parse(text)?.hostname ?? '')

const options = v.strictObject({
  apiKey: v.pipe(v.string('a secret key'), v.minLength(1, 'a secret key')),
  /** Two while one is replaced by another. */
  webhookSecret: v.union(
    [secret, v.pipe(v.array(secret), v.minLength(1, SECRET), v.maxLength(2, SECRET))],
    SECRET,
  ),
  /** Stripe adds the tax of the customer's place to the charge. */
  automaticTax: v.optional(v.boolean('true or false'), false),
  baseURL: v.optional(v.pipe(v.string(ADDRESS), v.check(isLocal, ADDRESS))),
})

/** Currencies that Stripe counts in whole units, and those whose minor unit there is not that of ISO 4217. */
const WHOLE = 'bif clp djf gnf jpy kmf krw pyg rwf vnd vuv xaf xof xpf'.split(' ')
const THOUSANDTHS = 'bhd jod kwd omr tnd'.split(' ')
const OTHER = 'isk mga ugx uyi iqd lyd'.split(' ')

const TOLERANCE_SECONDS = 300
const TIMEOUT_MS = 10_000
const CLASSES = { 401: 'upstream_auth', 403: 'upstream_auth', 429: 'upstream_rate' } as const

export default definePayments({
  name: 'stripe',
  options,
  async setup({ apiKey, webhookSecret, automaticTax, baseURL }, host) {
    if (OTHER.includes(host.currency))
      throw new Error(`Stripe counts ${host.currency} in another minor unit than ISO 4217`)
    const { default: Sdk } = await import('stripe')
      .catch(() => importFrom(host.directory))
      .catch(() => {
        const command = `npm install --prefix ${host.directory} stripe@23`
        throw new Error(`the package stripe is not installed: ${command}`)
      })
    host.mask([apiKey, webhookSecret].flat())
    const address = baseURL === undefined ? undefined : new URL(baseURL)
    const client = (signal?: AbortSignal) =>
      new Sdk(apiKey, {
        httpClient: Sdk.createFetchHttpClient(fetchOf(host, signal)),
        maxNetworkRetries: 1,
        timeout: TIMEOUT_MS,
        telemetry: false,
        ...(address && {
          protocol: address.protocol === 'http:' ? 'http' : 'https',
          host: address.hostname,
          port: address.port,
        }),
      })
    const verifier = client()
    /** The event of a delivery; undefined for one that none of the secrets has signed. */
    const verify = async (body: Uint8Array, signature: string) => {
      for (const secret of [webhookSecret].flat()) {
        try {
          const raw = Buffer.from(body)
          return await verifier.webhooks.constructEventAsync(
            raw,
            signature,
            secret,
            TOLERANCE_SECONDS,
          )
        } catch (error) {
          if (!(error instanceof Sdk.errors.StripeSignatureVerificationError)) throw error
        }
      }
      return undefined
    }
    /** Reversals of a payment of ours: other programs may use the same account. */
    const reversals = async (items: readonly Reversal[]): Promise<PaymentEvent[]> => {
      const payment = idOf(items[0]?.of.payment_intent)
      if (payment === undefined) return []
      const { data } = await client().checkout.sessions.list({ payment_intent: payment, limit: 1 })
      const session = data.find(isOurs)
      return session ? items.map(({ type, of }) => reversalOf(type, of, session)) : []
    }
    return {
      checkout: (order, signal) =>
        within(signal, host, async () => {
          const { reference } = order
          const made = await client(signal).checkout.sessions.create(
            sessionOf(order, automaticTax),
            { idempotencyKey: reference },
          )
          if (!made.url) throw host.fail('upstream_error', 'Stripe has made no page.')
          return { id: made.id, url: made.url }
        }),
      async read({ headers, body }) {
        const signature = headers.get('stripe-signature')
        const event = signature === null ? undefined : await verify(body, signature)
        if (!event) return undefined
        switch (event.type) {
          case 'checkout.session.completed':
          case 'checkout.session.async_payment_succeeded':
            return paidIn(event.data.object)
          case 'refund.created':
          case 'refund.updated':
          case 'refund.failed':
            return reversals(refundIn(event.data.object))
          case 'charge.dispute.funds_withdrawn':
            return reversals([{ type: 'disputed', of: event.data.object }])
          case 'charge.dispute.funds_reinstated':
            return reversals([{ type: 'dispute_won', of: event.data.object }])
          default:
            return []
        }
      },
      find: (checkout, signal) =>
        within(signal, host, async () => {
          const stripe = client(signal)
          const session = await stripe.checkout.sessions.retrieve(checkout)
          const paid = paidIn(session)
          const payment_intent = paid[0]?.id
          if (payment_intent === undefined) return []
          const of = { payment_intent, limit: 100 }
          const [refunds, disputes] = await Promise.all([
            stripe.refunds.list(of),
            stripe.disputes.list(of),
          ])
          const takenBack = [...refunds.data.flatMap(refundIn), ...disputes.data.flatMap(disputeIn)]
          return [...paid, ...takenBack.map(({ type, of }) => reversalOf(type, of, session))]
        }),
    }
  },
})

/** The package in a folder, for a gateway that is installed elsewhere. */
async function importFrom(folder: string): Promise<typeof import('stripe')> {
  const file = createRequire(`${folder}/`).resolve('stripe')
  return import(/* @vite-ignore */ pathToFileURL(file).href)
}

function sessionOf(
  { reference, description, amount, currency, returnUrl, cancelUrl, email }: CheckoutOrder,
  automaticTax: boolean,
): Stripe.Checkout.SessionCreateParams {
  const metadata = { sluicegate: reference }
  return {
    mode: 'payment',
    client_reference_id: reference,
    metadata,
    payment_intent_data: { metadata },
    line_items: [
      {
        quantity: 1,
        price_data: {
          currency,
          unit_amount: minorOf(amount, currency),
          product_data: { name: description },
          ...(automaticTax && { tax_behavior: 'exclusive' as const }),
        },
      },
    ],
    success_url: returnUrl,
    cancel_url: cancelUrl,
    ...(automaticTax && { automatic_tax: { enabled: true } }),
    ...(email !== undefined && { customer_email: email }),
  }
}

/** Whether a session was made here. */
function isOurs({ client_reference_id, metadata }: Stripe.Checkout.Session): boolean {
  return client_reference_id !== null && metadata?.sluicegate === client_reference_id
}

function paidIn(session: Stripe.Checkout.Session): PaymentEvent[] {
  const { payment_status, payment_intent, client_reference_id, amount_subtotal, currency } = session
  const id = idOf(payment_intent)
  if (payment_status !== 'paid' || id === undefined || !isOurs(session)) return []
  const amount = decimalOf(amount_subtotal!, currency!)
  return [{ type: 'paid', id, reference: client_reference_id!, amount, currency: currency! }]
}

interface Reversal {
  readonly type: Exclude<PaymentEvent['type'], 'paid'>
  readonly of: Stripe.Refund | Stripe.Dispute
}

function refundIn(of: Stripe.Refund): Reversal[] {
  if (of.status === 'succeeded') return [{ type: 'refunded', of }]
  return of.status === 'failed' || of.status === 'canceled' ? [{ type: 'refund_failed', of }] : []
}

/** A dispute has a transaction for what was withdrawn, and a second one once it was given back. */
function disputeIn(of: Stripe.Dispute): Reversal[] {
  const types = ['disputed', 'dispute_won'] as const
  return types.slice(0, of.balance_transactions.length).map((type) => ({ type, of }))
}

/** The amount is without added tax. */
function reversalOf(
  type: Reversal['type'],
  { id, amount, currency }: Reversal['of'],
  session: Stripe.Checkout.Session,
): PaymentEvent {
  const payment = idOf(session.payment_intent)!
  const untaxed = withoutTax(amount, session)
  return { type, id, payment, amount: decimalOf(untaxed, currency), currency }
}

/** The part of an amount that is not added tax, rounded down. */
function withoutTax(amount: number, session: Stripe.Checkout.Session): number {
  const { amount_subtotal: untaxed, amount_total: total } = session
  if (!untaxed || !total) return amount
  return Number((BigInt(amount) * BigInt(untaxed)) / BigInt(total))
}

function idOf(object: string | { readonly id: string } | null | undefined): string | undefined {
  return typeof object === 'object' ? object?.id : object
}

function digitsOf(currency: string): number {
  return WHOLE.includes(currency) ? 0 : THOUSANDTHS.includes(currency) ? 3 : 2
}

function minorOf(amount: string, currency: string): number {
  const [whole, fraction = ''] = amount.split('.')
  return Number(whole! + fraction.padEnd(digitsOf(currency), '0'))
}

function decimalOf(minor: number, currency: string): string {
  const digits = digitsOf(currency)
  if (digits === 0) return String(minor)
  const text = String(minor).padStart(digits + 1, '0')
  return `${text.slice(0, -digits)}.${text.slice(-digits)}`
}

/** A fetch over the connections of the gateway, whose requests end with the signal. */
function fetchOf(host: PaymentsHost, signal = AbortSignal.timeout(TIMEOUT_MS)): typeof fetch {
  return async (url, { method = 'GET', headers, body } = {}) => {
    const response = await host.request({
      url: String(url),
      method,
      headers: Object.fromEntries(new Headers(headers)),
      ...(typeof body === 'string' && body !== '' && { body }),
      signal,
    })
    return new Response(await response.text(), response)
  }
}

/** Does work that ends with the signal. @throws a failure for an error of Stripe */
async function within<T>(signal: AbortSignal, host: PaymentsHost, work: () => Promise<T>) {
  const ended = Promise.withResolvers<never>()
  const end = () => ended.reject(signal.reason)
  signal.addEventListener('abort', end, { once: true })
  try {
    signal.throwIfAborted()
    return await Promise.race([work(), ended.promise])
  } catch (error) {
    const { statusCode: status, type } = error as Partial<Stripe.errors.StripeError>
    if (status === undefined) throw error
    const failure = CLASSES[status as keyof typeof CLASSES] ?? 'upstream_error'
    throw host.fail(failure, undefined, { cause: new Error(`${type}, HTTP ${status}`) })
  } finally {
    signal.removeEventListener('abort', end)
  }
}
