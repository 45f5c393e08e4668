import * as fc from 'fast-check'
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { formatPico } from '../../src/money/money.ts'
import type { PaymentEvent } from '../../src/plugin.ts'
import { createTestGateway, MOCK_CONFIG, type TestGateway } from '../_setup.ts'
import { runs } from '../_runs.ts'
import { deliver, fakeProvider, paid, paymentsOf, reversal, SECRET } from './_provider.ts'

const ADMIN = { key: 'payments-token' }

let t: TestGateway | undefined
afterEach(async () => {
  await t?.close()
  t = undefined
})

async function gateway(more: object = {}) {
  const fake = fakeProvider()
  t = await createTestGateway({ ...MOCK_CONFIG, ...paymentsOf(fake, more) })
  const own = t
  const order = async (usd = '25') => {
    const { status, json } = await own.ask('POST', '/v1/key/checkout', { body: { usd } })
    expect(status).toBe(200)
    return json.data
  }
  const tell = (...events: PaymentEvent[]) => deliver(own.url, events)
  const usd = async (account?: string) => formatPico(await own.balance(account))
  return { t, fake, order, tell, usd }
}

describe('a top-up', () => {
  it('is ordered at the rate, rounded up to the minor unit, and booked once it is paid', async () => {
    const { t, fake, order, tell, usd } = await gateway()
    const made = await order('10.01')
    expect(made).toEqual({
      reference: expect.stringMatching(/^pay_[0-9a-f]{24}$/),
      url: `https://pay.example/${made.reference}`,
      usd: 10.01,
      charge: { amount: '9.21', currency: 'eur' },
    })
    expect(fake.orders).toEqual([
      {
        reference: made.reference,
        description: '10.01 USD of credit',
        amount: '9.21',
        currency: 'eur',
        returnUrl: `http://localhost:8787/me?payment=${made.reference}`,
        cancelUrl: 'http://localhost:8787/me',
      },
    ])
    expect(await usd()).toBe('100')
    const event = paid(made.reference, 'pi_1', '9.21')
    expect(await tell(event)).toMatchObject({ status: 200, json: { data: { events: 1 } } })
    expect(await usd()).toBe('110.01')
    const shown = await t.ask('GET', `/v1/key/payments/${made.reference}`)
    expect(shown.json.data).toEqual({
      reference: made.reference,
      state: 'booked',
      account_id: 'acme',
      usd: 10.01,
      charge: { amount: '9.21', currency: 'eur' },
      rate: '0.92',
      payment: 'pi_1',
      taken_back_usd: 0,
      created_at: expect.any(String),
      booked_at: expect.any(String),
    })
    const rows = await t.ask('GET', '/admin/accounts/acme/ledger', ADMIN)
    expect(rows.json.data[0]).toMatchObject({
      kind: 'top-up',
      reference: 'fake:pi_1',
      actor: 'payments:fake',
    })
  })

  it('is booked once with the webhook sent five times, at once and again', async () => {
    const { order, tell, usd } = await gateway()
    const { reference } = await order()
    const answers = await Promise.all([1, 2, 3, 4].map(() => tell(paid(reference))))
    answers.push(await tell(paid(reference)))
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200])
    expect(await usd()).toBe('125')
  })

  it('is booked without a webhook: the provider is asked after ten minutes, hourly, and when the customer returns', async () => {
    const { t, fake, order, usd } = await gateway()
    const [first, second] = [await order(), await order()]
    const { payments } = t.gateway.runtime
    const minutes = (count: number) => Date.now() + count * 60_000
    await payments.reconcile(minutes(9))
    expect(fake.asked).toEqual([])
    await payments.reconcile(minutes(11))
    await payments.reconcile(minutes(60))
    expect(fake.asked).toHaveLength(2)
    fake.found.set(`page_${first.reference}`, [paid(first.reference)])
    await payments.reconcile(minutes(72))
    expect(await usd()).toBe('125')
    fake.found.set(`page_${second.reference}`, [paid(second.reference)])
    // It was asked "in 72 minutes".
    await payments.reconcile(minutes(133))
    expect(await usd()).toBe('150')
    const third = await order()
    fake.found.set(`page_${third.reference}`, [paid(third.reference)])
    const { json } = await t.ask('GET', `/v1/key/payments/${third.reference}`)
    expect(json.data.state).toBe('booked')
    expect(await usd()).toBe('175')
  })

  it('lapses after three days, and is booked even then when it is paid', async () => {
    const { t, order, tell, usd } = await gateway()
    const { reference } = await order()
    await t.gateway.runtime.payments.reconcile(Date.now() + 3 * 86_400_000)
    const state = async () => (await t.ask('GET', `/v1/key/payments/${reference}`)).json.data.state
    expect(await state()).toBe('lapsed')
    await tell(paid(reference))
    expect([await state(), await usd()]).toEqual(['booked', '125'])
  })

  it('has bounds: of the amount, of open orders, of who may order', async () => {
    const { t, fake, order } = await gateway()
    for (const usd of ['4.99', '1000.01', '1e3', '-5', 'all']) {
      const { status, json } = await t.ask('POST', '/v1/key/checkout', { body: { usd } })
      expect([status, json.error.param]).toEqual([400, 'usd'])
    }
    const first = await order()
    for (let i = 0; i < 9; i++) await order()
    const eleventh = await t.ask('POST', '/v1/key/checkout', { body: { usd: '25' } })
    expect([eleventh.status, eleventh.json.error.code]).toEqual([429, 'rate_limited'])
    await deliver(t.url, [paid(first.reference)])
    await order()
    expect(fake.orders).toHaveLength(11)
    await t.newAccount('other')
    await t.gateway.runtime.accounts.archiveAccount('other')
    const refused = await t.ask('POST', '/admin/accounts/other/checkout', {
      ...ADMIN,
      body: { usd: '25' },
    })
    expect(refused.status).toBe(403)
  })

  it('is not ordered by a holder where "holders" is false, and nowhere without "payments"', async () => {
    const { t } = await gateway({ holders: false })
    expect((await t.ask('POST', '/v1/key/checkout', { body: { usd: '25' } })).status).toBe(403)
    await using plain = await createTestGateway()
    expect((await plain.ask('POST', '/v1/key/checkout', { body: { usd: '25' } })).status).toBe(404)
    expect((await plain.ask('GET', '/v1/key/payments')).status).toBe(404)
    expect((await deliver(plain.url, [])).status).toBe(404)
  })

  it('is 503 while the provider makes no page; its place is free again, and no secret is told', async () => {
    const { t, fake, order } = await gateway()
    fake.down = true
    for (let i = 0; i < 10; i++) {
      const { status, text } = await t.ask('POST', '/v1/key/checkout', { body: { usd: '25' } })
      expect(status).toBe(503)
      expect(text).not.toContain(SECRET)
    }
    fake.down = false
    await order()
    const { json } = await t.ask('GET', '/v1/key/payments?limit=2')
    expect(json.data.map(({ state }: any) => state)).toEqual(['open', 'lapsed'])
    expect(json.next).toBe(json.data[1].reference)
  })
})

describe('a webhook', () => {
  it('that is forged is 400, and nothing is booked', async () => {
    const { t, order, usd } = await gateway()
    const { reference } = await order()
    const forged = await deliver(t.url, [paid(reference)], 'another secret')
    expect(forged).toMatchObject({ status: 400, json: { error: { code: 'invalid_value' } } })
    expect(await usd()).toBe('100')
    expect(t.logged.join('\n')).not.toContain(reference)
    const { text } = await t.ask('GET', '/metrics', ADMIN)
    expect(text).toContain('sluicegate_payment_webhooks_total{result="refused"} 1')
  })

  it('of more than 256 KiB is not read, and one that cannot be read is 503', async () => {
    const { t, tell } = await gateway()
    const long = await t.ask('POST', '/payments/webhook', { key: null, body: 'x'.repeat(262_145) })
    expect(long.status).toBe(413)
    const strange = await tell({ ...paid('a'), id: 'no id' })
    expect(strange.status).toBe(503)
    expect(t.logged.join('\n')).toContain('the plugin has given an event whose "id"')
  })

  it('for no order, or with another amount, is kept, raises an alert, and is booked by an operator once', async () => {
    const { t, order, tell, usd } = await gateway()
    const { reference } = await order()
    expect((await tell(paid('elsewhere', 'pi_1', '9.2'))).status).toBe(200)
    expect((await tell(paid(reference, 'pi_2', '0.01'))).status).toBe(200)
    expect(
      (await tell({ ...paid(reference, 'pi_3'), currency: 'usd' } as PaymentEvent)).status,
    ).toBe(200)
    expect(await usd()).toBe('100')
    const listed = await t.ask('GET', '/admin/payments?state=unmatched', ADMIN)
    expect(listed.json.data.map((one: any) => one.reference)).toEqual(['pi_3', 'pi_2', 'pi_1'])
    await t.gateway.runtime.payments.reconcile(Date.now())
    expect(t.gateway.runtime.payments.findings().map(({ object }) => object)).toHaveLength(3)
    const book = (id: string, body: object) =>
      t.ask('POST', `/admin/payments/${id}/book`, {
        ...ADMIN,
        body: { account_id: 'acme', ...body },
      })
    const answers = await Promise.all([1, 2, 3].map(() => book('pi_1', {})))
    expect(answers.map(({ status }) => status)).toContain(200)
    expect(await usd()).toBe('110')
    expect((await book('pi_3', {})).json.error.code).toBe('missing_required_parameter')
    expect((await book('pi_3', { usd: '24', note: 'paid in dollars' })).status).toBe(200)
    expect((await book('pi_3', { usd: '24' })).status).toBe(409)
    expect(await usd()).toBe('134')
    // The order itself can still be paid.
    await tell(paid(reference))
    expect(await usd()).toBe('159')
    const { json } = await t.ask('GET', '/admin/audit?action=payment.book', ADMIN)
    expect(json.data).toHaveLength(2)
  })

  it('of a second payment of one order is not booked to it', async () => {
    const { order, tell, usd } = await gateway()
    const { reference } = await order()
    await tell(paid(reference, 'pi_1'))
    await tell(paid(reference, 'pi_2'))
    expect(await usd()).toBe('125')
  })

  it('for an account that was archived meanwhile is booked to it', async () => {
    const { t, tell, usd } = await gateway()
    await t.newAccount('other')
    const { json } = await t.ask('POST', '/admin/accounts/other/checkout', {
      ...ADMIN,
      body: { usd: '25' },
    })
    await t.gateway.runtime.accounts.archiveAccount('other')
    expect((await tell(paid(json.data.reference))).status).toBe(200)
    expect(await usd('other')).toBe('25')
    const audit = await t.ask('GET', '/admin/audit?action=account.checkout', ADMIN)
    expect(audit.json.data).toHaveLength(1)
    const alerts = t.gateway.runtime.alerts.ended.map(({ kind }) => kind)
    expect(alerts).toContain('payment.unmatched')
  })
})

describe('a refund or a dispute', () => {
  it('takes its share of the credit back, and its failure gives it back', async () => {
    const { t, order, tell, usd } = await gateway()
    const { reference } = await order()
    await tell(paid(reference))
    await tell(reversal('refunded', reference, '0.01', 're_1'))
    // floor(25 × 0.01 ÷ 23) pico-dollars
    expect(await usd()).toBe('124.989130434783')
    await tell(reversal('disputed', reference))
    expect(await usd()).toBe('99.989130434783')
    const { json } = await t.ask('GET', `/admin/payments`, ADMIN)
    expect(json.data[0].taken_back_usd).toBe(25.010869565217)
    await tell(reversal('dispute_won', reference))
    await tell(reversal('refund_failed', reference, '0.01', 're_1'))
    expect(await usd()).toBe('125')
    const rows = await t.ask('GET', '/admin/accounts/acme/ledger?kind=adjust', ADMIN)
    expect(rows.json.data.map((row: any) => row.reference).toReversed()).toEqual([
      'fake:re_1',
      `fake:dp_${reference}`,
      `fake:dp_${reference}:reversed`,
      'fake:re_1:reversed',
    ])
  })

  it('whose webhook never comes is found: booked orders are asked for after a day, then weekly', async () => {
    const { t, fake, order, tell, usd } = await gateway()
    vi.useFakeTimers({ toFake: ['Date'], now: Date.UTC(2026, 8, 3, 12) })
    onTestFinished(() => void vi.useRealTimers())
    const { payments } = t.gateway.runtime
    const { reference } = await order()
    const days = (count: number) => Date.now() + count * 86_400_000
    await tell(paid(reference))
    await payments.reconcile(days(0))
    expect(fake.asked).toEqual([])
    fake.found.set(`page_${reference}`, [paid(reference), reversal('refunded', reference, '9.20')])
    await payments.reconcile(days(1))
    expect([fake.asked.length, await usd()]).toEqual([1, '115'])
    await payments.reconcile(days(2))
    expect(fake.asked).toHaveLength(1)
    const told = fake.found.get(`page_${reference}`)!
    fake.found.set(`page_${reference}`, [...told, reversal('disputed', reference, '13.80')])
    await payments.reconcile(days(8))
    expect([fake.asked.length, await usd()]).toEqual([2, '100'])
    // While the provider is away it is asked each day, and no more when the payment is old.
    fake.found.delete(`page_${reference}`)
    fake.down = true
    for (const day of [15, 16, 17]) await payments.reconcile(days(day))
    expect(fake.asked).toHaveLength(5)
    fake.down = false
    for (let day = 18; day < 300; day++) await payments.reconcile(days(day))
    expect(fake.asked.length).toBeGreaterThan(18)
    expect(fake.asked.length).toBeLessThan(25)
    expect(await t.gateway.runtime.records.list('payments-booked')).toEqual([])
  })

  it('law: in any order, however often, balance = paid less what was refunded and not reversed', async () => {
    const { order, tell, usd } = await gateway({ max: '1000' })
    let expected = 100n * 10n ** 12n
    await fc.assert(
      fc.asyncProperty(
        fc.subarray(['refunded', 'refund_failed', 'disputed', 'dispute_won'] as const),
        fc.array(fc.nat(), { minLength: 1, maxLength: 12 }),
        async (types, picks) => {
          const { reference } = await order()
          const facts = [paid(reference), ...types.map((type) => reversal(type, reference))]
          const extra = picks.map((pick) => facts[pick % facts.length]!)
          const all = [...facts, ...extra].toSorted(
            (a, b) => hashOf(a, picks[0]!) - hashOf(b, picks[0]!),
          )
          for (const event of all) expect((await tell(event)).status).toBe(200)
          const has = (type: (typeof types)[number]) => types.includes(type)
          expected += 25n * 10n ** 12n
          if (has('refunded') && !has('refund_failed')) expected -= 25n * 10n ** 12n
          if (has('disputed') && !has('dispute_won')) expected -= 25n * 10n ** 12n
          expect(await usd()).toBe(formatPico(expected))
        },
      ),
      { numRuns: runs(10) },
    )
  })
})

function hashOf(event: PaymentEvent, salt: number): number {
  let sum = salt
  for (const letter of JSON.stringify(event)) sum = (sum * 31 + letter.charCodeAt(0)) % 1_000_003
  return sum
}
