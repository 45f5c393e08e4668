/** Signing in to the console, and what its cookie is refused for. */
import { chmod, readFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { signInLink } from '../../src/server/admin/session.ts'
import { call } from '../_cli.ts'
import { folder } from '../_folder.ts'
import { createTestGateway, MOCK_CONFIG, type TestGateway } from '../_setup.ts'

const TOKEN = 'token-of-the-admin'
const VIEWER = 'token-of-the-dashboard'
const JSON_TYPE = { 'content-type': 'application/json' }
const OWN = { 'sec-fetch-site': 'same-origin' }

let gateway: TestGateway
let cookie: string
beforeAll(async () => {
  gateway = await createTestGateway({
    ...MOCK_CONFIG,
    admin: {
      token: TOKEN,
      tokens: [{ name: 'dashboard', token: VIEWER, role: 'viewer' }],
      hosts: ['console.test'],
    },
  })
  cookie = await signIn(TOKEN)
})
afterAll(() => gateway.close())

const ask = (method: string, path: string, headers: Record<string, string>, body?: unknown) =>
  gateway.ask(method, `/admin${path}`, { key: null, headers, body })

async function signIn(token: string): Promise<string> {
  const answer = await ask('POST', '/session', { ...OWN, ...JSON_TYPE }, { token })
  expect(answer.status).toBe(200)
  return answer.headers['set-cookie']![0]!.split(';')[0]!
}

describe('a session', () => {
  it('is a cookie that scripts and other sites do not get', async () => {
    const answer = await ask('POST', '/session', { ...OWN, ...JSON_TYPE }, { token: TOKEN })
    const [set] = answer.headers['set-cookie']!
    expect(set).toMatch(/^sluice_console=session\.[0-9A-Za-z]{46}; /)
    for (const attribute of ['HttpOnly', 'SameSite=Strict', 'Path=/admin', 'Max-Age=43200']) {
      expect(set).toContain(`; ${attribute}`)
    }
    expect(set).not.toContain('Secure')
    expect(set).not.toContain(TOKEN)
    const headers = { ...OWN, ...JSON_TYPE, origin: 'https://127.0.0.1' }
    const secure = await ask('POST', '/session', headers, { token: TOKEN })
    expect(secure.headers['set-cookie']![0]).toContain('; Secure')
  })

  it('has the name and the role of its token', async () => {
    const own = await ask('GET', '/session', { ...OWN, cookie })
    expect(own.json.data).toMatchObject({ name: 'admin', role: 'admin', how: 'token', base: '' })
    const viewer = await signIn(VIEWER)
    const refused = await ask(
      'POST',
      '/accounts',
      { ...OWN, ...JSON_TYPE, cookie: viewer },
      { name: 'a' },
    )
    expect(refused.status).toBe(403)
    expect(refused.json.error.message).toContain(
      'needs the role operator or admin; "dashboard" has the role viewer',
    )
    expect((await ask('GET', '/accounts', { ...OWN, cookie: viewer })).status).toBe(200)
  })

  it('is not there, which is an answer', async () => {
    const answer = await ask('GET', '/session', OWN)
    const sign_in = { token: true, providers: [], proxy: false }
    expect([answer.status, answer.json]).toEqual([200, { data: null, sign_in }])
    expect((await ask('GET', '/accounts', OWN)).status).toBe(401)
  })

  it('is not made by a forged, changed or foreign cookie, which counts as no guess', async () => {
    const secret = cookie.split('=')[1]!
    const changed = secret.slice(0, -1) + (secret.endsWith('0') ? '1' : '0')
    const forged = [changed, `${secret}0`, secret.slice(8), `session.${'0'.repeat(46)}`, TOKEN]
    for (const text of [...forged, ...forged, ...forged]) {
      const answer = await ask('GET', '/accounts', { ...OWN, cookie: `sluice_console=${text}` })
      expect([answer.status, answer.json.error.code], text).toEqual([401, 'session_ended'])
    }
  })

  it('leaves a line in the audit log, and none of the token', async () => {
    const answer = await ask('GET', '/audit?action=session.create', { ...OWN, cookie })
    const [entry] = answer.json.data
    expect(entry).toMatchObject({ actor: 'dashboard', actor_id: 'file:dashboard' })
    expect(entry.object).toBe(`session:${entry.session}`)
    expect(answer.text).not.toContain(TOKEN)
  })

  it('is over after signing out', async () => {
    const answer = await ask('DELETE', '/session', { ...OWN, ...JSON_TYPE, cookie })
    expect(answer.headers['set-cookie']![0]).toMatch(/^sluice_console=; Max-Age=0/)
    const after = await ask('GET', '/accounts', { ...OWN, cookie })
    expect([after.status, after.json.error.code]).toEqual([401, 'session_ended'])
    cookie = await signIn(TOKEN)
  })
})

describe('requests with the cookie', () => {
  it.each([
    ['another site', { 'sec-fetch-site': 'cross-site' }],
    ['another host of the same site', { 'sec-fetch-site': 'same-site' }],
    ['no page', { 'sec-fetch-site': 'none' }],
    ['an unknown origin', { origin: 'http://other.test' }],
    ['an unknown page', { referer: 'http://other.test/console' }],
    ['nothing that says where from', {}],
  ])('of %s are refused', async (_, headers) => {
    const read = await ask('GET', '/accounts', { ...headers, cookie })
    const written = await ask(
      'POST',
      '/accounts',
      { ...headers, ...JSON_TYPE, cookie },
      { name: 'a' },
    )
    expect([read.status, written.status]).toEqual([403, 403])
  })

  it('of an older browser are known by their origin', async () => {
    const headers = { origin: gateway.url, cookie }
    expect((await ask('GET', '/accounts', headers)).status).toBe(200)
  })

  it('that a form could send are refused', async () => {
    const headers = { ...OWN, cookie, 'content-type': 'text/plain' }
    const answer = await ask('POST', '/accounts', headers, '{"name":"a"}')
    expect(answer.status).toBe(403)
    expect(answer.json.error.message).toContain('application/json')
  })

  it('need a host name of this gateway', async () => {
    const host = (name: string) => ask('GET', '/accounts', { ...OWN, cookie, host: name })
    const refused = await host('rebound.test')
    expect(refused.status).toBe(421)
    expect(refused.json.error.message).toContain('admin.hosts')
    for (const name of ['console.test:8443', 'localhost', '[::1]:8787', '10.0.0.7']) {
      expect((await host(name)).status, name).toBe(200)
    }
    const page = await gateway.ask('GET', '/console', {
      key: null,
      headers: { host: 'rebound.test' },
    })
    expect(page.status).toBe(421)
  })

  it('get no CORS headers, and no preflight', async () => {
    const answer = await ask('OPTIONS', '/accounts', { origin: 'http://other.test' })
    expect(answer.status).toBe(401)
    expect(Object.keys(answer.headers).filter((name) => name.startsWith('access-control'))).toEqual(
      [],
    )
  })
})

describe('a sign-in link', () => {
  const tokenOf = (link: string) => link.split('#token=')[1]!

  it('signs in once', async () => {
    const { credentials } = gateway.gateway.runtime
    const link = await signInLink(gateway.url, { token: TOKEN }, credentials)
    expect(link).toMatch(/^http:.*\/console#token=once\./)
    await signIn(tokenOf(link))
    const again = await ask('POST', '/session', { ...OWN, ...JSON_TYPE }, { token: tokenOf(link) })
    expect(again.status).toBe(401)
    expect(again.json.error.message).toContain('was used')
  })

  it('is printed by a command', async () => {
    const printed = await call(['console', '--url', gateway.url, '--token', VIEWER])
    const [, token] = /#token=(once\.\S+)\n/.exec(printed.out)!
    const cookie = await signIn(token!)
    const session = await ask('GET', '/session', { ...OWN, cookie })
    expect(session.json.data.name).toBe('dashboard')
  })

  it.runIf(process.platform === 'linux')(
    'is opened in the browser where that is asked for',
    async () => {
      const path = await folder({ 'xdg-open': '#!/bin/sh\necho "$1" > "$(dirname "$0")/opened"\n' })
      await chmod(join(path, 'xdg-open'), 0o755)
      const env = { PATH: `${path}${delimiter}${process.env.PATH}` }
      const asking = ['console', '--open', '--url', gateway.url, '--token', VIEWER]
      const { code, out } = await call(asking, { env })
      expect(code).toBe(0)
      const opened = () => readFile(join(path, 'opened'), 'utf8').catch(() => '')
      await expect.poll(opened).toBe(`${out.split('\n')[0]}\n`)
      const none = await call(asking, { env: { PATH: await folder({}) } })
      expect([none.code, none.out]).toEqual([1, expect.stringContaining('/console#token=once.')])
      expect(none.err).toContain('No browser could be opened (xdg-open: ENOENT)')
    },
  )

  it('is made for those who have a token, with the role of that token', async () => {
    const refused = await ask('POST', '/session/once', JSON_TYPE)
    expect(refused.status).toBe(401)
    const made = await gateway.ask('POST', '/admin/session/once', { key: VIEWER })
    expect(made.status).toBe(201)
    const viewer = await signIn(made.json.data.token)
    const session = await ask('GET', '/session', { ...OWN, cookie: viewer })
    expect(session.json.data.role).toBe('viewer')
  })

  it('of one to use is no cookie, and the other way round', async () => {
    const made = await gateway.ask('POST', '/admin/session/once', { key: TOKEN })
    const asCookie = `sluice_console=${made.json.data.token}`
    expect((await ask('GET', '/accounts', { ...OWN, cookie: asCookie })).status).toBe(401)
    const asToken = cookie.split('=')[1]!
    const answer = await ask('POST', '/session', { ...OWN, ...JSON_TYPE }, { token: asToken })
    expect(answer.status).toBe(401)
  })
})
