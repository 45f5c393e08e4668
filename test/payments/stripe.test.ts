import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import stripe from '../../plugins/payments/stripe.ts'
import { loadPayments } from '../../src/gateway/loader.ts'
import { formatPico } from '../../src/money/money.ts'
import type { Payments } from '../../src/plugin.ts'
import { testPayments, type PaymentsCase } from '../../src/testing.ts'
import { IsolatedHost } from '../../src/testing/hosts.ts'
import { createTestGateway, MOCK_CONFIG, type TestGateway } from '../_setup.ts'
import {
  API_KEY,
  hasStripeMock,
  signed,
  startStripe,
  startStripeMock,
  tellStripe,
  WEBHOOK_SECRET,
  type StripeStandIn,
} from './_stripe.ts'

const SECRETS = { apiKey: API_KEY, webhookSecret: WEBHOOK_SECRET }

let fake: StripeStandIn
beforeAll(async () => void (fake = await startStripe()))
afterAll(() => fake[Symbol.asyncDispose]())

let t: TestGateway | undefined
afterEach(async () => {
  const ended = t
  t = undefined
  await ended?.close()
})

async function gateway(more: object = {}, options: object = {}) {
  const own = { ...SECRETS, baseURL: fake.url, ...options }
  const payments = { use: 'stripe', currency: 'eur', rate: '0.92', options: own, ...more }
  const server = { publicUrl: 'http://localhost:8787' }
  t = await createTestGateway({ ...MOCK_CONFIG, server, payments })
  const { ask, balance, url } = t
  const order = async (usd: string) => {
    const { status, json, text } = await ask('POST', '/v1/key/checkout', { body: { usd } })
    expect(status, text).toBe(200)
    return json.data.reference as string
  }
  const usd = async () => formatPico(await balance())
  const tell = (type: string, object: object) => tellStripe(url, type, object)
  return { t, order, tell, usd }
}

describe('with Stripe', () => {
  it('a customer pays on its page, is credited once, and refund and dispute take it back', async () => {
    const { order, tell, usd } = await gateway()
    const reference = await order('25')
    expect(fake.asked.at(-1)).toBe(`POST /v1/checkout/sessions ${reference}`)
    const unpaid = [...fake.sessions.values()].at(-1)!
    expect(unpaid).toMatchObject({ amount_subtotal: 2300, currency: 'eur' })
    // A bank transfer completes the page before the money is there.
    await tell('checkout.session.completed', unpaid)
    expect(await usd()).toBe('100')
    const page = fake.pay(reference)
    for (let i = 0; i < 5; i++) {
      expect((await tell('checkout.session.async_payment_succeeded', page)).status).toBe(200)
      await tell('checkout.session.completed', page)
    }
    expect(await usd()).toBe('125')
    const refund = { id: 're_1', payment_intent: `pi_${reference}`, amount: 230, currency: 'eur' }
    await tell('refund.created', { ...refund, status: 'pending' })
    expect(await usd()).toBe('125')
    await tell('refund.updated', { ...refund, status: 'succeeded' })
    await tell('refund.updated', { ...refund, status: 'succeeded' })
    expect(await usd()).toBe('122.5')
    await tell('refund.failed', { ...refund, status: 'failed' })
    expect(await usd()).toBe('125')
    const dispute = { ...refund, id: 'dp_1', amount: 2300 }
    await tell('charge.dispute.funds_reinstated', dispute)
    expect(await usd()).toBe('125')
    await tell('charge.dispute.funds_withdrawn', dispute)
    expect(await usd()).toBe('125')
    await tell('charge.dispute.funds_withdrawn', { ...dispute, id: 'dp_2' })
    expect(await usd()).toBe('100')
  })

  it('a payment whose webhook never comes is found, and payments of other programs are left alone', async () => {
    const { t, order, tell, usd } = await gateway()
    const reference = await order('25')
    const page = fake.pay(reference)
    const other = {
      ...page,
      client_reference_id: 'cart-7',
      metadata: {},
      payment_intent: 'pi_other',
    }
    expect((await tell('checkout.session.completed', other)).json.data.events).toBe(0)
    const refund = { id: 're_9', payment_intent: 'pi_other', amount: 1, currency: 'eur' }
    const told = await tell('refund.created', { ...refund, status: 'succeeded' })
    expect(told.json.data.events).toBe(0)
    const { json } = await t.ask('GET', `/v1/key/payments/${reference}`)
    expect(json.data.state).toBe('booked')
    expect(await usd()).toBe('125')
  })

  it('a refund and a dispute whose webhooks never come are found', async () => {
    const { t, order, tell, usd } = await gateway()
    const reference = await order('25')
    const payment_intent = `pi_${reference}`
    const page = fake.pay(reference)
    await tell('checkout.session.completed', page)
    const look = async () => {
      await t.gateway.runtime.payments.check(reference)
      return usd()
    }
    expect(await look()).toBe('125')
    const refund = { id: 're_a', payment_intent, amount: 230, currency: 'eur', status: 'pending' }
    const dispute = { id: 'dp_a', payment_intent, amount: 460, currency: 'eur' }
    fake.refunds.push(refund)
    fake.disputes.push({ ...dispute, balance_transactions: [] })
    expect(await look()).toBe('125')
    refund.status = 'succeeded'
    expect(await look()).toBe('122.5')
    fake.disputes[0]!.balance_transactions = [{}]
    expect(await look()).toBe('117.5')
    // What is found and what is told by a webhook is one.
    await tell('charge.dispute.funds_withdrawn', dispute)
    expect(await look()).toBe('117.5')
    fake.disputes[0]!.balance_transactions = [{}, {}]
    refund.status = 'failed'
    expect(await look()).toBe('125')
  })

  it('tax that Stripe adds is no credit, and a refund of it takes none', async () => {
    const { order, tell, usd } = await gateway({}, { automaticTax: true })
    const reference = await order('25')
    const page = fake.pay(reference, 437)
    await tell('checkout.session.completed', page)
    expect(await usd()).toBe('125')
    const payment = { payment_intent: `pi_${reference}`, currency: 'eur', status: 'succeeded' }
    await tell('refund.created', { ...payment, id: 're_tax', amount: 2737 })
    expect(await usd()).toBe('100')
  })

  it('forged, changed and old webhooks are 400, one of a second secret is taken', async () => {
    const second = 'whsec_Second5Secret7of9us'
    const { t, order, usd } = await gateway({}, { webhookSecret: [WEBHOOK_SECRET, second] })
    const reference = await order('25')
    const object = fake.pay(reference)
    const type = 'checkout.session.completed'
    const body = JSON.stringify({ id: 'evt_1', object: 'event', type, data: { object } })
    const post = (headers: Record<string, string>, text = body) =>
      t.ask('POST', '/payments/webhook', { key: null, headers, body: text })
    const hour = Math.floor(Date.now() / 1000) - 3600
    const answers = [
      await post({}),
      await post({ 'stripe-signature': 'nonsense' }),
      await post(signed(body, 'whsec_of_nobody')),
      await post(signed(body), body.replace('2300', '9300')),
      await post(signed(body, WEBHOOK_SECRET, hour)),
    ]
    expect(answers.map(({ status }) => status)).toEqual([400, 400, 400, 400, 400])
    expect(await usd()).toBe('100')
    expect((await post(signed(body, second))).status).toBe(200)
    expect(await usd()).toBe('125')
    for (const secret of [API_KEY, WEBHOOK_SECRET, second])
      expect(t.logged.join('\n')).not.toContain(secret)
  })

  it('a wrong key is 503 for the customer, and told in the log without it', async () => {
    const { t } = await gateway({}, { apiKey: 'sk_test_Wrong7Key3of5Ours' })
    const { status, text } = await t.ask('POST', '/v1/key/checkout', { body: { usd: '25' } })
    expect(status).toBe(503)
    const all = text + t.logged.join('\n')
    expect(all).toContain('HTTP 401')
    expect(all).not.toContain('sk_test_Wrong7Key3of5Ours')
  })

  it('a configuration is refused for another address, a foreign minor unit, a missing secret', async () => {
    const opens = (currency: string, options: object) => {
      const host = new IsolatedHost(undefined)
      const directory = import.meta.dirname
      const createHost = (name: string) => ({ ...host.hostOf(name), currency, directory })
      const settings = { use: 'stripe', options: { ...SECRETS, ...options } }
      return loadPayments(settings, { directory, createHost }).finally(() => host.close())
    }
    await expect(opens('eur', { baseURL: 'https://evil.example' })).rejects.toThrow('this machine')
    await expect(opens('isk', {})).rejects.toThrow('another minor unit')
    await expect(opens('eur', { webhookSecret: 'x' })).rejects.toThrow('whsec_')
    await opens('jpy', {})
  })
})

const MINOR: [string, string, number][] = [
  ['eur', '23.00', 2300],
  ['jpy', '2300', 2300],
  ['kwd', '2.300', 2300],
]

describe.skipIf(!hasStripeMock)('stripe-mock', () => {
  it('accepts each request: pages in three minor units, with tax and an address; questions', async () => {
    await using mock = await startStripeMock()
    const host = new IsolatedHost(mock.url)
    const open = (currency: string, automaticTax: boolean): Promise<Payments> =>
      Promise.resolve(
        stripe.setup(
          { ...SECRETS, automaticTax, baseURL: mock.url },
          { ...host.hostOf('stripe'), currency, directory: '.' },
        ),
      )
    for (const [currency, amount] of MINOR) {
      for (const tax of [false, true]) {
        const payments = await open(currency, tax)
        const signal = AbortSignal.timeout(10_000)
        const order = {
          reference: `pay_${currency}${tax}`,
          description: '25 USD of credit',
          amount,
          currency,
          returnUrl: 'https://gate.example/me?payment=pay_1',
          cancelUrl: 'https://gate.example/me',
          ...(tax && { email: 'a@example.com' }),
        }
        const made = await payments.checkout(order, signal)
        expect(made).toEqual({ id: expect.stringMatching(/^cs_/), url: expect.any(String) })
        expect(await payments.find(made.id, signal)).toEqual([])
        const object = {
          id: 're_1',
          payment_intent: 'pi_1',
          amount: 1,
          currency,
          status: 'succeeded',
        }
        const event = { id: 'evt_1', object: 'event', type: 'refund.created', data: { object } }
        const body = JSON.stringify(event)
        const delivery = { headers: new Headers(signed(body)), body: Buffer.from(body) }
        expect(await payments.read(delivery)).toEqual([])
      }
    }
    // A page of ours that is paid, so that its refunds and disputes are asked for.
    const own = host.hostOf('stripe')
    const request: typeof own.request = async (asked) => {
      const response = await own.request(asked)
      if (!asked.url.includes('/v1/checkout/sessions/')) return response
      const made = { ...JSON.parse(await response.text()), ...page, currency: 'eur' }
      return { ...response, text: async () => JSON.stringify(made) }
    }
    const settings = { ...SECRETS, automaticTax: false, baseURL: mock.url }
    const payments = await stripe.setup(settings, {
      ...own,
      request,
      currency: 'eur',
      directory: '.',
    })
    const found = await payments.find('cs_1', AbortSignal.timeout(10_000))
    expect(found[0]).toEqual(paid)
    expect(host.refusedOrigins.size).toBe(0)
    await host.close()
  })
})
if (!hasStripeMock) {
  it('stripe-mock', (context) =>
    context.skip('stripe-mock is not installed: go install github.com/stripe/stripe-mock@v0.203.0'))
}

const json = (body: object) => ({
  status: 200,
  headers: { 'content-type': 'application/json' },
  body: Buffer.from(JSON.stringify(body)),
})
const page = {
  id: 'cs_1',
  object: 'checkout.session',
  url: 'https://checkout.stripe.com/c/pay/cs_1',
  payment_status: 'paid',
  payment_intent: 'pi_1',
  client_reference_id: 'pay_1',
  metadata: { sluicegate: 'pay_1' },
  amount_subtotal: 2300,
  amount_total: 2300,
  currency: 'eur',
}
const list = json({ object: 'list', data: [page], has_more: false })
const eventOf = (type: string, object: object) => ({
  id: 'evt_1',
  object: 'event',
  type,
  data: { object },
})
const part = {
  id: 're_1',
  payment_intent: 'pi_1',
  amount: 230,
  currency: 'eur',
  status: 'succeeded',
}
const paid = {
  type: 'paid',
  id: 'pi_1',
  reference: 'pay_1',
  amount: '23.00',
  currency: 'eur',
} as const
const taken = { id: 're_1', payment: 'pi_1', amount: '2.30', currency: 'eur' }

const CASES: readonly PaymentsCase[] = [
  {
    name: 'order',
    order: {},
    answer: json(page),
    expect: { checkout: { id: 'cs_1', url: page.url } },
  },
  // The lists of refunds and disputes are empty.
  { name: 'found', find: 'cs_1', answer: json({ ...page, data: [] }), expect: { events: [paid] } },
  { name: 'paid', body: eventOf('checkout.session.completed', page), expect: { events: [paid] } },
  {
    name: 'delayed',
    body: eventOf('checkout.session.completed', { ...page, payment_status: 'unpaid' }),
    expect: { events: [] },
  },
  {
    name: 'in yen',
    body: eventOf('checkout.session.completed', { ...page, currency: 'jpy' }),
    expect: { events: [{ ...paid, amount: '2300', currency: 'jpy' }] },
  },
  {
    name: 'partial refund',
    body: eventOf('refund.created', part),
    answer: list,
    expect: { events: [{ ...taken, type: 'refunded' }] },
  },
  {
    name: 'dispute',
    body: eventOf('charge.dispute.funds_withdrawn', part),
    answer: list,
    expect: { events: [{ ...taken, type: 'disputed' }] },
  },
]

it('passes the kit', async () => {
  const report = await testPayments(stripe, {
    cases: CASES,
    sign: (body, { webhookSecret }, at) => signed(body, webhookSecret, at),
    options: SECRETS,
  })
  expect(report.failed).toEqual([])
  expect(report.checks.length).toBeGreaterThan(20)
})
