/** What gateways on one Redis tell each other: that they run, and which deployments are taken out. */
import { createConsola } from 'consola'
import { expect, it, onTestFinished } from 'vitest'
import { createGateway } from '../../../src/gateway/gateway.ts'
import { listen } from '../../../src/server/server.ts'
import {
  createTestGateway,
  hello,
  loaded,
  MOCK_CONFIG,
  send,
  type TestGateway,
} from '../../_setup.ts'
import { folder } from '../../_folder.ts'
import { needRedis, sharedServer } from './_engine.ts'

const TOKEN = 'token-of-all-gateways'
/** `mock/slow` answers only when the test has ended. */
const MODELS = {
  ...MOCK_CONFIG.models,
  'mock/slow': {
    ...MOCK_CONFIG.models['mock/echo'],
    deployments: [{ provider: 'mock', model: 'slow', options: { paceMs: 600_000 } }],
  },
}
needRedis()

/** Calls, events and the log of `one`, as the gateway at another address shows them. */
async function showCallsOfOthers(one: TestGateway, other: string): Promise<void> {
  const headers = { authorization: `Bearer ${TOKEN}` }
  const shown = async (query: string) => {
    const { json } = await send(`${other}/admin/requests?${query}`, 'GET', undefined, headers)
    return json.data as { id: string; gateway: string; running: boolean; status: number }[]
  }
  const leaving = new AbortController()
  onTestFinished(() => leaving.abort())
  const watching = await fetch(`${other}/admin/events`, { headers, signal: leaving.signal })
  const ended = heard(watching, 'event: call.ended')
  const key = one.key.secret
  const slow = one.ask('POST', '/v1/chat/completions', {
    key,
    body: { ...hello, model: 'mock/slow' },
  })
  await expect.poll(() => shown('running=true'), { timeout: 60_000 }).toHaveLength(1)
  const [call] = await shown('running=true')
  expect(call).toMatchObject({ running: true, gateway: one.gateway.runtime.gatewayId })
  const end = await send(`${other}/admin/requests/${call!.id}/end`, 'POST', '{}', headers)
  expect(end.status).toBe(202)
  expect((await slow).status).toBe(503)
  // Events are made from the moment on when the gateway knows of the console.
  const asking = setInterval(
    () => void one.ask('POST', '/v1/chat/completions', { key, body: hello }),
    250,
  )
  onTestFinished(() => clearInterval(asking))
  await ended
  clearInterval(asking)
  await expect.poll(() => shown('running=true'), { timeout: 60_000 }).toEqual([])
  const inLog = async () => (await shown('status=503')).map(({ id }) => id)
  await expect.poll(inLog, { timeout: 60_000 }).toContain(call!.id)
}

/** What `one` has refused is in usage, also at the gateway at another address. */
async function countRefusalsOfOthers(one: TestGateway, other: string): Promise<void> {
  const headers = { authorization: `Bearer ${TOKEN}` }
  const { id, secret } = await one.newKey({ rpm: 1 })
  for (const status of [200, 429]) {
    expect((await one.chat(hello, { key: secret })).status).toBe(status)
  }
  const refusals = async () => {
    const path = `/admin/usage?key=${id}&group=limit`
    const { json } = await send(other + path, 'GET', undefined, headers)
    return json.data.map(({ group, refused }: any) => [group.limit, refused])
  }
  await expect.poll(refusals, { timeout: 60_000 }).toContainEqual(['key.rpm', 1])
}

/** The order of lists by money follows what `one` books, also at the gateway at another address. */
async function sortByMoneyOfOthers(one: TestGateway, other: string): Promise<void> {
  const headers = { authorization: `Bearer ${TOKEN}` }
  const sorted = async () => {
    const path = '/admin/accounts?q=sorted-&sort=-balance_usd'
    const { json } = await send(other + path, 'GET', undefined, headers)
    return json.data.map((row: any) => [row.id, row.balance_usd])
  }
  const credit = (id: string, usd: string) =>
    one.ask('POST', `/admin/accounts/${id}/credits`, { key: TOKEN, body: { usd } })
  for (const [id, usd] of Object.entries({ 'sorted-a': '5', 'sorted-b': '3' })) {
    await one.ask('POST', '/admin/accounts', { key: TOKEN, body: { id, name: id } })
    await credit(id, usd)
  }
  const wait = { timeout: 60_000 }
  await expect.poll(sorted, wait).toEqual(Object.entries({ 'sorted-a': 5, 'sorted-b': 3 }))
  await credit('sorted-b', '3')
  await expect.poll(sorted, wait).toEqual(Object.entries({ 'sorted-b': 6, 'sorted-a': 5 }))
}

/** A reference that `one` has booked is not booked with another amount, also at the gateway at another address. */
async function refuseReferencesOfOthers(one: TestGateway, other: string): Promise<void> {
  const headers = { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' }
  await one.ask('POST', '/admin/accounts', { key: TOKEN, body: { id: 'payer', name: 'payer' } })
  for (const [kind, first] of Object.entries({ credits: '5', adjust: '-1' })) {
    const path = `/admin/accounts/payer/${kind}`
    const body = { usd: first, reference: 'invoice 1', ...(kind === 'adjust' && { reason: 'x' }) }
    expect((await one.ask('POST', path, { key: TOKEN, body })).status).toBe(201)
    const again = (usd: string) =>
      send(other + path, 'POST', JSON.stringify({ ...body, usd }), headers)
    const [same, another] = [await again(first), await again('7')]
    expect([same.status, same.json.data.duplicate, another.status]).toEqual([200, true, 409])
    expect(another.json.error.message).toContain(`with ${first} USD before, not with 7 USD`)
  }
  expect((await one.gateway.runtime.ledger.account('payer')).balance).toBe(4n * 10n ** 12n)
}

/** Resolves when an answer has said a text. */
async function heard(answer: Response, wanted: string): Promise<void> {
  let text = ''
  for await (const chunk of answer.body!.pipeThrough(new TextDecoderStream())) {
    if ((text += chunk).includes(wanted)) return
  }
  throw new Error(`ended without ${wanted}: ${text}`)
}

it('know each other, and which deployments an operator has taken out', async () => {
  const { url } = await sharedServer()
  const configOf = async () => {
    const state = { driver: 'redis' as const, url, outbox: await folder({}) }
    return { ...MOCK_CONFIG, models: MODELS, state, admin: { token: TOKEN } }
  }
  const log = createConsola({ level: 0 })
  const other = await createGateway(loaded(await configOf()), { log })
  const server = await listen(other, { host: '127.0.0.1', port: 0 })
  onTestFinished(async () => {
    await server.close({ graceSeconds: 0 })
    await other.close()
  })
  const one = await createTestGateway(await configOf())
  const headers = { authorization: `Bearer ${TOKEN}` }
  const gateways = async () => {
    const { json } = await send(`${server.url}/admin/gateways`, 'GET', undefined, headers)
    return json.data.map(({ id }: { id: string }) => id)
  }
  const status = async () => {
    const own = { authorization: `Bearer ${one.key.secret}`, 'content-type': 'application/json' }
    const url = `${server.url}/v1/chat/completions`
    return (await send(url, 'POST', JSON.stringify(hello), own)).status
  }
  const ids = [other, one.gateway].map(({ runtime }) => runtime.gatewayId)
  try {
    await expect.poll(gateways, { timeout: 60_000 }).toEqual(ids)
    const [deployment] = one.gateway.runtime.catalog.get('mock/echo')!.deployments
    const path = `/admin/deployments/${encodeURIComponent(deployment!.id)}`
    const out = await one.ask('POST', `${path}/cooldown`, { key: TOKEN, body: { seconds: 600 } })
    expect(out.status).toBe(200)
    await expect.poll(status, { timeout: 60_000 }).toBe(503)
    expect((await one.ask('POST', `${path}/resume`, { key: TOKEN, body: {} })).status).toBe(200)
    await expect.poll(status, { timeout: 60_000 }).toBe(200)
    await showCallsOfOthers(one, server.url)
    await sortByMoneyOfOthers(one, server.url)
    await refuseReferencesOfOthers(one, server.url)
    await countRefusalsOfOthers(one, server.url)
  } finally {
    await one.close()
  }
  await expect.poll(gateways, { timeout: 60_000 }).toEqual(ids.slice(0, 1))
})
