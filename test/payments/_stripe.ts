/** Stand-ins for Stripe: one that keeps pages and payments, and `stripe-mock`, which checks requests by Stripe's own description. */
import { spawn, spawnSync } from 'node:child_process'
import { createServer } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { Stripe } from 'stripe'
import { send, type Answer } from '../_setup.ts'

export const API_KEY = 'sk_test_Rk8Wq2ZpLx4Vn7Tb'
export const WEBHOOK_SECRET = 'whsec_Nd3Ks9Fj5Hg1Qa6Pw'

const sdk = new Stripe(API_KEY)

/** The headers of a webhook, as Stripe signs it. @param at seconds since epoch */
export function signed(body: string, secret = WEBHOOK_SECRET, at = Math.floor(Date.now() / 1000)) {
  const signature = sdk.webhooks.generateTestHeaderString({ payload: body, secret, timestamp: at })
  return { 'content-type': 'application/json', 'stripe-signature': signature }
}

/** Delivers an event to a gateway. @param object the object of the event */
export function tellStripe(
  url: string,
  type: string,
  object: object,
  secret?: string,
): Promise<Answer> {
  const body = JSON.stringify({ id: 'evt_1', object: 'event', type, data: { object } })
  return send(`${url}/payments/webhook`, 'POST', body, signed(body, secret))
}

type Session = Record<string, any>

export interface StripeStandIn extends AsyncDisposable {
  readonly url: string
  /** Pages by their ids. */
  readonly sessions: Map<string, Session>
  readonly refunds: Session[]
  readonly disputes: Session[]
  /** The requests: method, path and the idempotency key. */
  readonly asked: string[]
  /** The customer pays. @param tax added by Stripe, in the minor unit. @returns the page */
  pay(reference: string, tax?: number): Session
}

/** Starts a stand-in that keeps what it is told, on a real socket. */
export async function startStripe(): Promise<StripeStandIn> {
  const sessions = new Map<string, Session>()
  const refunds: Session[] = []
  const disputes: Session[] = []
  const byKey = new Map<string, Session>()
  const asked: string[] = []
  const answerTo = (method: string, url: URL, form: URLSearchParams, key: string | undefined) => {
    const [, id] = /^\/v1\/checkout\/sessions\/(\w+)$/.exec(url.pathname) ?? []
    if (id !== undefined) return sessions.get(id)
    if (method === 'GET') {
      const payment = url.searchParams.get('payment_intent')
      const lists: Record<string, Session[]> = { '/v1/refunds': refunds, '/v1/disputes': disputes }
      const all = lists[url.pathname] ?? [...sessions.values()]
      const data = all.filter((one) => one.payment_intent === payment)
      return { object: 'list', data, has_more: false }
    }
    const known = byKey.get(key!)
    if (known) return known
    const made = `cs_${sessions.size + 1}`
    const amount = Number(form.get('line_items[0][price_data][unit_amount]'))
    const session = {
      id: made,
      object: 'checkout.session',
      url: `https://checkout.stripe.com/c/pay/${made}`,
      payment_status: 'unpaid',
      payment_intent: null,
      client_reference_id: form.get('client_reference_id'),
      metadata: { sluicegate: form.get('metadata[sluicegate]') },
      amount_subtotal: amount,
      amount_total: amount,
      currency: form.get('line_items[0][price_data][currency]'),
    }
    sessions.set(made, session)
    byKey.set(key!, session)
    return session
  }
  const server = createServer(async (request, response) => {
    const { method = '', url = '', headers } = request
    const key = headers['idempotency-key'] as string | undefined
    asked.push(`${method} ${url.split('?')[0]} ${key ?? ''}`.trim())
    const isKnown = headers.authorization === `Bearer ${API_KEY}`
    const form = new URLSearchParams(await text(request))
    const found = isKnown ? answerTo(method, new URL(url, 'http://x'), form, key) : undefined
    const error = {
      error: { type: 'invalid_request_error', message: `Refused: ${headers.authorization}` },
    }
    response.writeHead(found ? 200 : isKnown ? 404 : 401, { 'content-type': 'application/json' })
    response.end(JSON.stringify(found ?? error))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    sessions,
    refunds,
    disputes,
    asked,
    pay(reference, tax = 0) {
      const session = [...sessions.values()].find((one) => one.client_reference_id === reference)!
      session.payment_status = 'paid'
      session.payment_intent = `pi_${reference}`
      session.amount_total += tax
      return session
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** Where `go install` puts it, or a folder of the path. */
const MOCK = [join(homedir(), 'go/bin/stripe-mock'), 'stripe-mock'].find(
  (path) => spawnSync(path, ['-version']).status === 0,
)
export const hasStripeMock = MOCK !== undefined

/** Starts `stripe-mock`, which refuses what Stripe would refuse, and remembers nothing. */
export async function startStripeMock(): Promise<{ readonly url: string } & AsyncDisposable> {
  const any = '127.0.0.1:0'
  const args = ['-http-addr', any, '-https-addr', any]
  const child = spawn(MOCK!, args, { stdio: ['ignore', 'pipe', 'ignore'] })
  const exited = once(child, 'exit')
  const listening = Promise.withResolvers<string>()
  let said = ''
  child.stdout.setEncoding('utf8').on('data', (piece: string) => {
    said += piece
    const [, address] = /HTTP at address: (127\.0\.0\.1:\d+)\n/.exec(said) ?? []
    if (address !== undefined) listening.resolve(`http://${address}`)
  })
  void exited.then(() => listening.reject(new Error(`stripe-mock ended: ${said}`)))
  return {
    url: await listening.promise,
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      await exited
    },
  }
}
