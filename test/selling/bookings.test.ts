/** Credit of every kind, corrections and refunds, as operators and holders see them. */
import { expect, it, onTestFinished } from 'vitest'
import { loadConfig } from '../../src/config/config.ts'
import { Expiry } from '../../src/observe/usage/expiry.ts'
import { folder } from '../_folder.ts'
import { createTestGateway, send } from '../_setup.ts'
import { json, startUpstream } from '../upstream.ts'

const TOKEN = 'the-token-of-an-operator'

async function openGateway() {
  const answer = {
    id: 'c',
    choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 10, completion_tokens: 2, total_tokens: 12 },
  }
  const vendor = await startUpstream(json(answer))
  onTestFinished(() => vendor.close())
  const config = {
    state: { driver: 'memory' },
    log: { access: false },
    admin: { token: TOKEN },
    providers: {
      acme: { use: 'openai-compatible', options: { baseURL: `${vendor.url}/v1`, apiKey: 'k' } },
    },
    models: {
      'acme/small': {
        pricing: { request: '0.5' },
        deployments: [{ provider: 'acme', model: 'small' }],
      },
    },
  }
  const cwd = await folder({ 'gateway.config.json': JSON.stringify(config) })
  const gateway = await createTestGateway(await loadConfig({ cwd, env: {} }))
  onTestFinished(() => gateway.close())
  const headers = { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' }
  const admin = (method: string, path: string, body?: object) =>
    send(`${gateway.url}/admin${path}`, method, body && JSON.stringify(body), headers)
  const { data: account } = (await admin('POST', '/accounts', { name: 'Ada' })).json
  const made = (await admin('POST', `/accounts/${account.id}/keys`, { name: 'key' })).json
  const place = `/accounts/${account.id}`
  const ask = async () => {
    const messages = [{ role: 'user', content: 'Hello' }]
    const body = { model: 'acme/small', messages }
    const asked = await gateway.ask('POST', '/v1/chat/completions', { body, key: made.key })
    return { ...asked, id: String(asked.headers['x-service-request-id']) }
  }
  const credit = async () => (await admin('GET', place)).json.data.credit
  return { gateway, admin, place, ask, credit, key: made.key }
}

const LATER = '2099-03-31T00:00:00.000Z'
const SOONER = '2098-03-31T00:00:00.000Z'

it('promotional and expiring credit is used in its order, before plain credit', async () => {
  const { admin, place, ask, credit } = await openGateway()
  const book = (body: object) => admin('POST', `${place}/credits`, body)
  const promo = { usd: '0.7', kind: 'promotional', expires_at: LATER, reference: 'spring' }
  expect((await book(promo)).json.data).toMatchObject({ free_tier: true, balance_usd: 0.7 })
  expect((await ask()).status).toBe(403)
  await book({ usd: '1', reference: 'spring' })
  await book({ usd: '0.6', reference: 'soon', expires_at: SOONER })
  expect(await credit()).toEqual({
    plain_usd: 1,
    blocks: [
      {
        name: 'top-up:soon',
        kind: 'top-up',
        reference: 'soon',
        left_usd: 0.6,
        expires_at: SOONER,
      },
      {
        name: 'promo:spring',
        kind: 'promo',
        reference: 'spring',
        left_usd: 0.7,
        expires_at: LATER,
      },
    ],
  })
  await ask()
  await ask()
  expect(await credit()).toMatchObject({
    plain_usd: 1,
    blocks: [{ name: 'promo:spring', left_usd: 0.3 }],
  })
  const cut = { usd: '-0.5', reason: 'given twice', takes_from: 'promo:spring' }
  expect((await admin('POST', `${place}/adjust`, cut)).json.data.balance_usd).toBe(0.8)
  expect(await credit()).toEqual({ plain_usd: 0.8, blocks: [] })
  const again = await admin('POST', `${place}/adjust`, cut)
  expect([again.status, again.json.error.message]).toEqual([
    404,
    'There is no open block "promo:spring".',
  ])
})

it('what is left of credit is taken at its end, once, and plain credit stays', async () => {
  const { gateway, admin, place, ask, credit } = await openGateway()
  const { ledger, usage } = gateway.gateway.runtime
  await admin('POST', `${place}/credits`, { usd: '2' })
  const promo = { usd: '2.3', kind: 'promotional', expires_at: SOONER, reference: 'spring' }
  await admin('POST', `${place}/credits`, promo)
  await ask()
  const calls = Promise.all(Array.from({ length: 3 }, ask))
  const failed = (error: unknown) => expect.unreachable(String(error))
  const gateways = [1, 2].map(() => new Expiry({ ledger, usage: () => usage, failed }))
  const end = Date.parse(SOONER)
  await gateways[0]!.expire(end - 1)
  await calls
  await Promise.all(gateways.map((one) => one.expire(end)))
  expect((await credit()).blocks).toEqual([])
  const { data } = (await admin('GET', `${place}/ledger?kind=expire`)).json
  expect(data).toMatchObject([{ kind: 'expire', reference: 'promo:spring', amount_usd: -0.3 }])
  expect((await credit()).plain_usd).toBe(2)
  expect(await ledger.verify()).toEqual([])
})

it('a call is refunded once, whole or in part, and its entry stays', async () => {
  const { gateway, admin, place, ask } = await openGateway()
  await admin('POST', `${place}/credits`, { usd: '10' })
  const [{ id }, second] = [await ask(), await ask()]
  const refund = (of: string, body: object) => admin('POST', `/requests/${of}/refund`, body)
  const much = await refund(id, { usd: '0.6', reason: 'slow' })
  expect([much.status, much.json.error.code]).toEqual([409, 'refund_too_large'])
  const none = await refund('req_01ARZ3NDEKTSV4RRFFQ69G5FAV', { reason: 'slow' })
  expect([none.status, none.json.error.code]).toEqual([404, 'not_found'])
  const all = await Promise.all(Array.from({ length: 50 }, () => refund(id, { reason: 'cut off' })))
  expect(all.map(({ status }) => status).toSorted()).toEqual([
    ...Array.from({ length: 49 }, () => 200),
    201,
  ])
  const other = await refund(id, { usd: '0.1', reason: 'slow' })
  expect([other.status, other.json.error.code]).toEqual([409, 'already_refunded'])
  const part = await refund(second.id, { usd: '0.1', reason: 'slow' })
  expect(part.json.data).toMatchObject({
    amount_usd: 0.1,
    balance_usd: 9.6,
    request_id: second.id,
    duplicate: false,
  })
  const { data } = (await admin('GET', `${place}/ledger?kind=refund`)).json
  expect(data).toMatchObject([
    { kind: 'refund', request_id: second.id, amount_usd: 0.1, reason: 'slow' },
    {
      kind: 'refund',
      request_id: id,
      amount_usd: 0.5,
      reason: 'cut off',
      actor: expect.any(String),
    },
  ])
  expect((await admin('GET', place)).json.data.spend.lifetime).toBe(1)
  const { text } = await gateway.ask('GET', '/metrics', { key: TOKEN })
  expect(text).toMatch(/^sluicegate_refunds_usd_total\{.*\} 0\.6$/m)
  expect(await gateway.gateway.runtime.ledger.verify()).toEqual([])
})

it('an account has at most 100 open blocks', async () => {
  const { admin, place } = await openGateway()
  const give = (i: number) =>
    admin('POST', `${place}/credits`, { usd: '1', kind: 'promotional', reference: `gift-${i}` })
  for (let i = 0; i < 100; i++) expect((await give(i)).status).toBe(201)
  const more = await give(100)
  expect([more.status, more.json.error.code]).toEqual([409, 'too_many_blocks'])
})

it('a credit limit lets calls go below zero, and is told of', async () => {
  const { gateway, admin, place, ask, key } = await openGateway()
  await admin('POST', `${place}/credits`, { usd: '0.5' })
  await ask()
  const refused = await ask()
  expect(refused.json.error.message).toBe(
    'The balance of this account is used up. Add credits to go on.',
  )
  const changed = await admin('PATCH', place, { credit_limit_usd: '0.6' })
  expect(changed.json.data).toMatchObject({ credit_limit_usd: '0.6', balance_usd: 0 })
  expect([(await ask()).status, (await ask()).status]).toEqual([200, 200])
  const beyond = await ask()
  expect([beyond.status, beyond.json.error.message]).toEqual([
    402,
    'The balance and the credit limit of this account are used up. Add credits to go on.',
  ])
  const credits = await gateway.ask('GET', '/v1/credits', { key })
  expect(credits.json.data).toMatchObject({ balance_usd: -1, credit_limit_usd: 0.6 })
  const [{ id }] = (await admin('GET', `/keys?account=${place.split('/')[2]}`)).json.data
  const shown = (await admin('GET', `/keys/${id}`)).json.data
  expect(shown.left).toEqual({
    limit: 'balance',
    unit: 'usd',
    value: '-0.4',
    left: 0,
    resets_at: null,
  })
})

it.each([
  [{ usd: '1e3' }, 400, 'invalid_value'],
  [{ usd: '5', expires_at: '2001-01-01' }, 400, 'invalid_value'],
  [{ usd: '5', unlock: true }, 400, 'invalid_value'],
  [{ usd: '5', kind: 'gift' }, 400, 'invalid_value'],
])('credit %j is refused', async (body, status, code) => {
  const { admin, place } = await openGateway()
  const answer = await admin('POST', `${place}/credits`, body)
  expect([answer.status, answer.json.error.code]).toEqual([status, code])
})

it('an archived account takes no credit', async () => {
  const { admin, place } = await openGateway()
  await admin('DELETE', place)
  const answer = await admin('POST', `${place}/credits`, { usd: '5' })
  expect([answer.status, answer.json.error.code]).toEqual([409, 'account_archived'])
})
