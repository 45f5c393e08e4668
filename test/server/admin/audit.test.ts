/** Every route that changes something leaves an entry of the audit log, without a secret. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { ADMIN_ROUTES } from '../../../src/server/admin/api.ts'
import { litellmList } from '../../import/_lists.ts'
import { deliver, fakeProvider, paid, paymentsOf } from '../../payments/_provider.ts'
import { createTestGateway, hello, MOCK_CONFIG, type TestGateway } from '../../_setup.ts'

const TOKEN = 'token-of-the-admin-of-this-test'
/**
 * They are asked with a body, and change nothing; what a payment provider tells is booked as its own doing; a ledger in doubt and quarantined settlements are in `test/state/redis/`.
 */
const CHANGES_NOTHING = [
  'POST /policies/diff',
  'POST /policies/evaluate',
  'POST /policies/replay',
  'POST /payments/:id/check',
  'POST /ledger/accept',
  'POST /ledger/outbox/:id/book',
  'DELETE /ledger/outbox/:id',
]

const files = mkdtempSync(join(tmpdir(), 'audit-'))
let gateway: TestGateway
beforeAll(async () => {
  const slow = {
    pricing: { prompt: '0.000001', completion: '0.000002' },
    deployments: [{ provider: 'mock', model: 'echo', options: { paceMs: 60_000 } }],
  }
  const models = { ...MOCK_CONFIG.models, 'mock/slow': slow }
  const config = { ...MOCK_CONFIG, ...paymentsOf(fakeProvider()), models, admin: { token: TOKEN } }
  gateway = await createTestGateway(config, files)
})
afterAll(async () => {
  await gateway.close()
  rmSync(files, { recursive: true, force: true })
})

const ask = (method: string, path: string, body?: object) =>
  gateway.ask(method, `/admin${path}`, { key: TOKEN, body })

/** They need files, an engine, a sink, or a month that is over; tests of these look at their entries. */
const ELSEWHERE = [
  'POST /managed',
  'POST /managed/revert',
  'POST /managed/undo',
  'POST /secret/rotate',
  'POST /engines/test',
  'POST /sinks/test',
  'POST /statements',
  'POST /statements/:id/void',
]

it('every change is in the audit log, and no secret', async () => {
  const secrets = [TOKEN, gateway.key.secret]
  const done: string[] = []
  /** Sends one change, and expects one more entry, or several where a change is many. */
  const change = async (method: string, route: string, id: string, body?: object) => {
    const before = (await ask('GET', '/audit?limit=200')).json.data.length
    const path = route.replace(':id', encodeURIComponent(id)).replace(':name', 'cap.day')
    const answer = await ask(method, path, body)
    expect(answer.status, `${method} ${route}: ${answer.text}`).toBeLessThan(300)
    const { data } = (await ask('GET', '/audit?limit=200')).json
    expect(data.length, `${method} ${route}`).toBeGreaterThan(before)
    expect(data[0]).toMatchObject({ actor: 'admin', actor_id: 'file:admin', address: '127.0.0.1' })
    done.push(`${method} ${route.split('?')[0]}`)
    const { key, token, link, data: changed } = answer.json
    if (typeof link === 'string') secrets.push(link.split('#invite=')[1]!)
    for (const secret of [key, token, changed.token])
      if (typeof secret === 'string') secrets.push(secret)
    return changed
  }
  await change('POST', '/accounts', '', { id: 'grace', name: 'Grace' })
  await change('PATCH', '/accounts/:id', 'grace', { note: 'new' })
  await change('POST', '/accounts/:id/credits', 'grace', { usd: '5' })
  await change('POST', '/accounts/:id/adjust', 'grace', { usd: '-1', reason: 'a test' })
  await change('POST', '/accounts/:id/checkout', 'grace', { usd: '10' })
  await deliver(gateway.url, [paid('pay_of_nobody', 'pi_1')])
  await change('POST', '/payments/:id/book', 'pi_1', { account_id: 'grace' })
  const { id } = await change('POST', '/accounts/:id/keys', 'grace', { name: 'laptop' })
  await change('PATCH', '/keys/:id', id, { rpm_limit: 5 })
  const team = await change('POST', '/accounts/:id/teams', 'grace', { name: 'red' })
  const cap = { spend_cap: { usd: '5', scope: 'day' } }
  await change('PATCH', '/teams/:id', team.id, cap)
  for (const [kind, of] of [
    ['keys', id],
    ['accounts', 'grace'],
  ] as const) {
    await ask('PATCH', `/${kind}/${of}`, cap)
  }
  const until = new Date(Date.now() + 60_000).toISOString()
  for (const [kind, of] of [
    ['keys', id],
    ['teams', team.id],
    ['accounts', 'grace'],
  ] as const) {
    const path = `/${kind}/:id/limits/:name`
    await change('POST', `${path}/raise`, of, { value: '6', until })
    await change('POST', `${path}/reset`, of, { reason: 'a test' })
  }
  await change('DELETE', '/teams/:id', team.id)
  await change('POST', '/keys/:id/play', id, {})
  await change('POST', '/keys/:id/rotate', id, {})
  await change('DELETE', '/keys/:id', id)
  await change('DELETE', '/accounts/:id/answers', 'grace')
  await change('DELETE', '/accounts/:id', 'grace')
  const token = await change('POST', '/tokens', '', { name: 'ci', role: 'viewer' })
  await change('PATCH', '/tokens/:id', token.id, { role: 'operator' })
  await change('DELETE', '/tokens/:id', token.id)
  const person = await change('POST', '/members', '', { account: 'acme', name: 'Ada' })
  await change('POST', '/members/:id/link', person.id, {})
  await change('PATCH', '/members/:id', person.id, { name: 'Bea' })
  await change('DELETE', '/members/:id', person.id)
  const signIn = async () => {
    const headers = { 'sec-fetch-site': 'same-origin', 'content-type': 'application/json' }
    const body = { token: TOKEN }
    const answer = await gateway.ask('POST', '/admin/session', { key: null, headers, body })
    return answer.json.data.id as string
  }
  await change('DELETE', '/sessions/:id', await signIn())
  await signIn()
  await change('DELETE', '/sessions', '')
  await change('POST', '/usage/rebuild', '', {})
  const list = { from: 'list.json', text: litellmList(3), write: true }
  await change('POST', '/models/import', '', list)
  await change('DELETE', '/requests/content?before=2100-01-01', '')
  await change('POST', '/providers/test', '', { name: 'mock' })
  await change('POST', '/providers/offers', '', { name: 'mock' })
  await change('POST', '/models/:id/test', 'mock/free', {})

  const call = new AbortController()
  const slow = { model: 'mock/slow', stream: true, messages: [{ role: 'user', content: 'a b c' }] }
  const ended = fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${gateway.key.secret}`,
      'content-type': 'application/json',
    },
    body: JSON.stringify(slow),
    signal: call.signal,
  }).catch(() => undefined)
  const running = async () => (await ask('GET', '/requests?running=true')).json.data
  await expect.poll(async () => (await running()).length, { timeout: 60_000 }).toBe(1)
  await change('POST', '/requests/:id/end', (await running())[0].id, {})
  const charged = String((await gateway.chat(hello)).headers['x-request-id'])
  await change('POST', '/requests/:id/refund', charged, { reason: 'cut off' })
  call.abort()
  await ended

  const [free] = gateway.gateway.runtime.catalog.get('mock/free')!.deployments
  await change('POST', '/deployments/:id/cooldown', free!.id, { seconds: 600 })
  const alerts = async () => (await ask('GET', '/alerts')).json.data
  await expect.poll(async () => (await alerts()).length, { timeout: 60_000 }).toBeGreaterThan(0)
  await change('POST', '/alerts/:id/mute', (await alerts())[0].id, { seconds: 60 })
  await change('POST', '/deployments/:id/resume', free!.id, {})

  const changing = Object.entries(ADMIN_ROUTES).flatMap(([path, methods]) =>
    Object.keys(methods)
      .filter((method) => method !== 'GET')
      .map((method) => `${method} ${path}`),
  )
  expect(done.toSorted()).toEqual(
    changing
      .filter((route) => !CHANGES_NOTHING.includes(route) && !ELSEWHERE.includes(route))
      .toSorted(),
  )
  const { text } = await ask('GET', '/audit?limit=200')
  for (const secret of secrets) expect(text).not.toContain(secret)
  // The new key, its second secret, the play token, the token and two invitations were seen.
  expect(secrets).toHaveLength(8)
})

it('can be CSV, with a line for each member that differs', async () => {
  const { status, headers, text } = await ask('GET', '/audit?format=csv&object=account:grace')
  expect([status, headers['content-type']]).toEqual([200, 'text/csv; charset=utf-8'])
  const lines = text.trim().split('\r\n')
  expect(lines[0]).toBe('id,at,actor,actor_id,session,address,action,object,member,before,after')
  const noted = lines.find((line) => line.includes('account.update,account:grace,note'))
  expect(noted?.endsWith(',note,,new')).toBe(true)
  expect(lines.some((line) => line.includes('account.create'))).toBe(true)
})
