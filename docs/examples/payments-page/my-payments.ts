/** A made-up provider: `POST <url>/pages` makes a page, `GET <url>/pages/<id>` shows it, webhooks are signed with HMAC-SHA256. */
import { createHmac, timingSafeEqual } from 'node:crypto'
import * as v from 'valibot'
import { definePayments, type PaymentEvent } from 'sluicegate'

const TOLERANCE_SECONDS = 300

export default definePayments({
  name: 'my-payments',
  options: v.strictObject({
    url: v.pipe(v.string(), v.url()),
    apiKey: v.string(),
    webhookSecret: v.string(),
  }),
  setup({ url, apiKey, webhookSecret }, host) {
    const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' }
    const ask = async (path: string, signal: AbortSignal, body?: object) => {
      const method = body ? 'POST' : 'GET'
      const sent = body && { body: JSON.stringify(body) }
      const response = await host.request({ url: url + path, method, headers, ...sent, signal })
      return host.readJson(response)
    }
    return {
      async checkout({ reference, description, amount, currency, returnUrl }, signal) {
        const order = { reference, description, amount, currency, back: returnUrl }
        const { id, link } = await ask('/pages', signal, order)
        if (typeof link !== 'string') throw host.fail('upstream_error')
        return { id, url: link }
      },
      async read({ headers, body }) {
        const [at = '', signature = ''] = (headers.get('x-signature') ?? '').split(' ')
        const made = createHmac('sha256', webhookSecret).update(`${at} `).update(body).digest()
        const given = Buffer.from(signature, 'hex')
        const isOld = !(Math.abs(Date.now() / 1000 - Number(at)) < TOLERANCE_SECONDS)
        if (isOld || given.length !== made.length || !timingSafeEqual(given, made)) return undefined
        return eventsOf(JSON.parse(Buffer.from(body).toString()))
      },
      async find(page, signal) {
        return eventsOf(await ask(`/pages/${encodeURIComponent(page)}`, signal))
      },
    }
  },
})

/** There is no event of a page that is not paid yet. */
function eventsOf({ payment, reference, amount, currency, refund }: any): PaymentEvent[] {
  if (refund) return [{ type: 'refunded', id: refund, payment, amount, currency }]
  return payment ? [{ type: 'paid', id: payment, reference, amount, currency }] : []
}
