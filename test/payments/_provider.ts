/** A payment provider in this process: it keeps pages, and tells what a test says. Webhooks are signed with a plain text. */
import { hash } from 'node:crypto'
import * as v from 'valibot'
import type { CheckoutOrder, PaymentEvent, PaymentsPlugin } from '../../src/plugin.ts'
import { definePayments } from '../../src/index.ts'
import { send, type Answer } from '../_setup.ts'

export const SECRET = 'whs-0123456789'

export interface FakeProvider {
  readonly plugin: PaymentsPlugin
  readonly orders: CheckoutOrder[]
  /** What became of each page, by its id. */
  readonly found: Map<string, readonly PaymentEvent[]>
  /** Ids of the pages that were asked for. */
  readonly asked: string[]
  /** Whether it answers no question now. */
  down: boolean
}

/** @param site the address of its pages */
export function fakeProvider(site = 'https://pay.example'): FakeProvider {
  const fake = {
    orders: [] as CheckoutOrder[],
    found: new Map<string, readonly PaymentEvent[]>(),
    asked: [] as string[],
    down: false,
  }
  const plugin = definePayments({
    name: 'fake',
    options: v.strictObject({ secret: v.string() }),
    setup: ({ secret }) => ({
      checkout: async (order) => {
        if (fake.down) throw new Error(`the key ${secret} is not valid`)
        fake.orders.push(order)
        return { id: `page_${order.reference}`, url: `${site}/${order.reference}` }
      },
      read: async ({ headers, body }) => {
        const text = Buffer.from(body).toString()
        if (headers.get('x-signature') !== hash('sha256', secret + text)) return undefined
        return JSON.parse(text).events
      },
      find: async (page) => {
        fake.asked.push(page)
        if (fake.down) throw new Error('it is away')
        return fake.found.get(page) ?? []
      },
    }),
  })
  return Object.assign(fake, { plugin })
}

export const paymentsOf = ({ plugin }: FakeProvider, more: object = {}) => ({
  server: { publicUrl: 'http://localhost:8787' },
  admin: { token: 'payments-token' },
  payments: {
    use: plugin,
    currency: 'eur',
    rate: '0.92',
    options: { secret: SECRET },
    ...more,
  },
})

/** Delivers events to a gateway, as the provider does. */
export function deliver(
  url: string,
  events: readonly PaymentEvent[],
  secret = SECRET,
): Promise<Answer> {
  const body = JSON.stringify({ events })
  const headers = {
    'content-type': 'application/json',
    'x-signature': hash('sha256', secret + body),
  }
  return send(`${url}/payments/webhook`, 'POST', body, headers)
}

export const paid = (
  reference: string,
  id = `pi_${reference}`,
  amount = '23.00',
): PaymentEvent => ({
  type: 'paid',
  id,
  reference,
  amount,
  currency: 'eur',
})

/** A fact about the payment of an order. */
export const reversal = (
  type: Exclude<PaymentEvent['type'], 'paid'>,
  reference: string,
  amount = '23.00',
  id = `${type.startsWith('refund') ? 're' : 'dp'}_${reference}`,
): PaymentEvent => ({ type, id, payment: `pi_${reference}`, amount, currency: 'eur' })
