/** Events of credit, as the receiver of a webhook gets them. */
import { createHmac } from 'node:crypto'
import { expect, it } from 'vitest'
import { createTestGateway, hello, MOCK_CONFIG } from '../_setup.ts'
import { eventually } from '../_wait.ts'
import { folder } from '../_folder.ts'
import { json, startUpstream } from '../upstream.ts'

const TOKEN = 'admin-token-of-the-test'
const SECRET = 'secret-of-the-webhook'
const NAMES = ['credit.booked', 'credit.adjusted', 'topup.wanted'] as const

it('every booking is told once with the balance after it, and a low balance asks for a top-up', async () => {
  await using hook = await startUpstream(json({}))
  const path = await folder({})
  const webhook = { url: hook.url, secret: SECRET, events: [...NAMES] }
  await using t = await createTestGateway(
    {
      ...MOCK_CONFIG,
      state: { driver: 'file', path },
      log: { path: `${path}/log` },
      admin: { token: TOKEN },
      sinks: [{ use: 'webhook', options: webhook }],
    },
    path,
  )
  const admin = async (method: string, way: string, body: object) => {
    const answer = await t.ask(method, `/admin${way}`, { key: TOKEN, body })
    expect(answer.status, answer.text).toBeLessThan(300)
    return answer
  }
  const events = () =>
    hook.requests.map(({ body, headers }) => {
      const [, time] = /^t=(\d+),/.exec(String(headers['x-sluicegate-signature']))!
      const sum = createHmac('sha256', SECRET)
        .update(`${time}.${String(body)}`)
        .digest('hex')
      expect(headers['x-sluicegate-signature']).toContain(`v1=${sum}`)
      const { event, id, data } = JSON.parse(String(body))
      return { event, id, ...data }
    })
  const call = await t.chat(hello)
  const cost = call.json.usage.cost as number
  const request = String(call.headers['x-request-id'])
  await admin('POST', '/accounts/acme/credits', { usd: '2.000000000001', reference: 'paid' })
  const ends = new Date(Date.now() + 86_400_000).toISOString()
  const promotional = { kind: 'promotional', expires_at: ends, note: 'spring' }
  await admin('POST', '/accounts/acme/credits', { usd: '3', reference: 'given', ...promotional })
  await admin('POST', '/accounts/acme/credits', { usd: '3', reference: 'given', ...promotional })
  await admin('POST', '/accounts/acme/adjust', { usd: '-1', reason: 'a mistake' })
  await eventually(() => admin('POST', `/requests/${request}/refund`, { reason: 'cut off' }))
  await eventually(() => expect(events().length).toBeGreaterThanOrEqual(5))
  const told = events().toSorted((one, other) => one.seq - other.seq)
  const said = told.map(({ event, kind, amount_usd, note }) => [event, kind, amount_usd, note])
  expect(said).toEqual([
    ['credit.booked', 'top-up', '100', null],
    ['credit.booked', 'top-up', '2.000000000001', null],
    ['credit.booked', 'promo', '3', 'spring'],
    ['credit.adjusted', 'adjust', '-1', 'a mistake'],
    ['credit.adjusted', 'refund', String(cost), 'cut off'],
  ])
  for (const { id, account_name, seq } of told)
    expect([id, account_name]).toEqual([`acme:${seq}`, 'acme'])
  expect(told[2]).toMatchObject({ expires_at: ends, request_id: null, cash: null })
  expect(told[4]).toMatchObject({ request_id: request, balance_usd: '104.000000000001' })

  const wanted = () => events().filter(({ event }) => event === 'topup.wanted')
  const autoTopUp = { below_usd: '200', amount_usd: '50' }
  await admin('PATCH', '/accounts/acme', { auto_top_up: autoTopUp })
  const { spending } = t.gateway.runtime
  spending.again()
  await eventually(() => expect(wanted()).toHaveLength(1))
  const [{ reference }] = wanted() as [{ reference: string }]
  expect(wanted()[0]).toMatchObject({
    id: `${reference}:${new Date().toISOString().slice(0, 10)}`,
    account_id: 'acme',
    balance_usd: '104.000000000001',
    ...autoTopUp,
    reference: `auto:acme:${told[2]!.seq}`,
  })
  // Booked by the reference it is booked once, and the next wish has another one.
  for (const duplicate of [false, true]) {
    const answer = await admin('POST', '/accounts/acme/credits', { usd: '50', reference })
    expect(answer.json.data.duplicate).toBe(duplicate)
  }
  await eventually(() =>
    expect(events().some((one) => one.reference === reference && one.seq)).toBe(true),
  )
  spending.again()
  await eventually(() => expect(wanted()).toHaveLength(2))
  expect(wanted()[1].reference).not.toBe(reference)
  spending.again()
  await eventually(() => expect(spending.looked.complete).toBe(true))
  expect(wanted()).toHaveLength(2)
})
