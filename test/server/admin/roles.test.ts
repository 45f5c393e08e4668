/** Tokens of the admin API: who may do what, and how often a token can be guessed. */
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import type { UserConfig } from '../../../src/config/config.ts'
import { ADMIN_ROUTES } from '../../../src/server/admin/api.ts'
import type { Right } from '../../../src/server/admin/resources/rights.ts'
import { createTestGateway, MOCK_CONFIG, type TestGateway } from '../../_setup.ts'

const TOKENS = {
  admin: 'token-of-the-admin',
  operator: 'token-of-the-operator',
  billing: 'token-of-the-bookkeeper',
  viewer: 'token-of-the-dashboard',
} as const
const ROLES = ['viewer', 'billing', 'operator', 'admin'] as const
/** What each right is called in a refusal: the roles that have it. */
const ROLES_WITH: Readonly<Record<Right, readonly (typeof ROLES)[number][]>> = {
  read: ROLES,
  keys: ['operator', 'admin'],
  money: ['billing', 'admin'],
  contents: ['admin'],
  config: ['admin'],
  people: ['admin'],
}
const admin: NonNullable<UserConfig['admin']> = {
  token: TOKENS.admin,
  tokens: [
    { name: 'keeper', token: TOKENS.operator, role: 'operator' },
    { name: 'books', token: TOKENS.billing, role: 'billing' },
    { name: 'dashboard', token: TOKENS.viewer, role: 'viewer' },
  ],
}

let gateway: TestGateway
beforeAll(async () => {
  gateway = await createTestGateway({ ...MOCK_CONFIG, admin })
})
afterAll(() => gateway.close())

const ask = (role: keyof typeof TOKENS, method: string, path: string, body?: unknown) =>
  gateway.ask(method, `/admin${path}`, { key: TOKENS[role], body })

/** Status and error of an answer; the body of another one is not read, because it may have no end. */
async function headOf(role: keyof typeof TOKENS, method: string, path: string, body?: object) {
  const headers = { authorization: `Bearer ${TOKENS[role]}`, 'content-type': 'application/json' }
  const init = { method, headers, ...(body && { body: JSON.stringify(body) }) }
  const answer = await fetch(`${gateway.url}/admin${path}`, init)
  const json = answer.status === 403 ? ((await answer.json()) as any) : undefined
  await answer.body?.cancel().catch(() => {})
  const error: { code: string; message: string } | undefined = json?.error
  return { status: answer.status, error }
}

describe('roles of the admin API', () => {
  const routes = Object.entries(ADMIN_ROUTES).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { rights }]) => ({ method, path, rights })),
  )

  it.each(ROLES)('%s may use the routes of its role, and no other', async (role) => {
    const refused = []
    const expected = []
    for (const { method, path, rights } of routes) {
      const allowed = ROLES.filter((one) => rights.some((right) => ROLES_WITH[right].includes(one)))
      const body = method === 'GET' || method === 'DELETE' ? undefined : {}
      const { status, error } = await headOf(role, method, path.replace(':id', 'nothing'), body)
      const name = `${method} ${path}`
      expect(status, name).not.toBe(401)
      if (!allowed.includes(role)) expected.push(name)
      if (status !== 403) continue
      refused.push(name)
      const { code, message } = error!
      expect([code, message]).toEqual([
        'forbidden',
        expect.stringContaining(`role ${allowed.join(' or ')};`),
      ])
    }
    expect(refused).toEqual(expected)
    expect(refused.length > 0).toBe(role !== 'admin')
  })

  it('a viewer tries a policy, but asks no models', async () => {
    const trial = { policy: { version: 1, deny: ['code'] }, input: 'hello' }
    expect((await ask('viewer', 'POST', '/policies/evaluate', trial)).status).toBe(200)
    const asking = await ask('viewer', 'POST', '/policies/evaluate', { ...trial, ask: true })
    expect([asking.status, asking.json.error.code]).toEqual([403, 'forbidden'])
  })

  it('a bookkeeper and an operator change what their rights cover of an account', async () => {
    const change = (body: object) => ask('billing', 'PATCH', '/accounts/acme', body)
    const noted = await change({ note: 'pays late', alert_below_usd: '5' })
    expect(noted.json.data).toMatchObject({ note: 'pays late', alert_below_usd: '5' })
    expect((await change({ note: 'pays', rpm_limit: 5 })).json.error.code).toBe('forbidden')
    const kept = await ask('operator', 'PATCH', '/accounts/acme', { note: null, rpm_limit: 5 })
    expect(kept.json.data).toMatchObject({ note: null, rpm_limit: 5 })
    expect(kept.json.data.changed.by).toBe('file:keeper')
    await ask('operator', 'PATCH', '/accounts/acme', { rpm_limit: null })
  })

  it('the audit log names the token', async () => {
    const booking = await ask('billing', 'POST', '/accounts/acme/credits', { usd: '1' })
    expect(booking.status).toBe(201)
    const { data } = (await ask('admin', 'GET', '/audit?object=account:acme')).json
    expect(data[0]).toMatchObject({
      actor: 'books',
      actor_id: 'file:books',
      action: 'account.credit',
    })
  })

  it('an admin sees the configuration without its secrets', async () => {
    const answer = await ask('admin', 'GET', '/config')
    const valueOf = (path: string) => answer.json.data.find((one: any) => one.path === path)
    expect(valueOf('admin.token')).toMatchObject({ value: 'set', secret: true })
    expect(valueOf('server.port')).toMatchObject({ value: 8787, secret: false })
    for (const token of Object.values(TOKENS)) expect(answer.text).not.toContain(token)
  })

  it('a viewer compares policies', async () => {
    const to = { version: 1, deny: ['code'] }
    const answer = await ask('viewer', 'POST', '/policies/diff', { from: null, to })
    const deny = answer.json.data.members.find((one: any) => one.member === 'deny')
    expect(deny).toEqual({ member: 'deny', from: [], to: ['code'], order: 'tighter' })
    const wrong = await ask('viewer', 'POST', '/policies/diff', { from: null, to: { version: 2 } })
    expect(wrong.json.error).toMatchObject({ code: 'invalid_policy', param: 'to.version' })
  })

  it('metrics take any of the tokens', async () => {
    const answer = await gateway.ask('GET', '/metrics', { key: TOKENS.viewer })
    expect(answer.status).toBe(200)
  })
})

describe('tokens without admin.token', () => {
  it('make an admin API', async () => {
    const { tokens } = admin
    await using own = await createTestGateway({ ...MOCK_CONFIG, admin: { tokens } })
    const answer = await own.ask('GET', '/admin/status', { key: TOKENS.viewer })
    expect(answer.status).toBe(200)
    const first = await own.ask('GET', '/admin/status', { key: TOKENS.admin })
    expect(first.status).toBe(401)
  })
})

describe('wrong tokens', () => {
  it('of an address are bounded, and the right one passes amid them', async () => {
    const config = { ...MOCK_CONFIG, admin, log: { address: 'full' as const, requests: false } }
    await using own = await createTestGateway(config)
    const failed = vi.spyOn(own.gateway.runtime.authFailures, 'failed')
    const status = (key: string) => own.ask('GET', '/admin/status', { key })
    for (let i = 0; i < 10; i++) expect((await status(`wrong-token-${i}`)).status).toBe(401)
    for (let i = 0; i < 20; i++) {
      const answer = await status(`wrong-token-1${i}`)
      expect([answer.status, answer.json.error.code]).toEqual([429, 'rate_limited'])
      expect(Number(answer.headers['retry-after'])).toBeGreaterThan(50)
      expect((await status(TOKENS.admin)).status).toBe(200)
      expect((await own.ask('GET', '/metrics', { key: TOKENS.viewer })).status).toBe(200)
    }
    expect(failed.mock.calls).toHaveLength(30)
    const [line] = failed.mock.calls[0]!
    expect(line).toEqual({ scope: 'admin', why: 'unknown', address: '127.0.0.1' })
    // A request without a token guesses nothing.
    expect((await own.ask('GET', '/admin/status', { key: null })).status).toBe(401)
  })
})
