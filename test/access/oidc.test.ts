/** Signing in through a real OpenID Connect provider, and by the header of a proxy that authenticates. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { loadConfig, type UserConfig } from '../../src/config/config.ts'
import { folder } from '../_folder.ts'
import { freePort } from '../_ports.ts'
import { createTestGateway, loaded, MOCK_CONFIG, send, type TestGateway } from '../_setup.ts'

const TOKEN = 'token-of-the-first-admin'
const PAGE = { 'sec-fetch-site': 'same-origin', 'content-type': 'application/json' }
const PEOPLE: Readonly<Record<string, object>> = {
  ada: { name: 'Ada', email: 'ada@example.com', email_verified: true, groups: ['llm-admins', 'x'] },
  ole: { name: 'Ole', email: 'ole@example.com', email_verified: true, groups: ['llm-keys'] },
  bea: { name: 'Bea', email: 'bea@books.example', email_verified: true },
  vic: { name: 'Vic', email: 'vic@example.com', email_verified: false, groups: ['llm-look'] },
  eve: { name: 'Eve', email: 'eve@books.example', email_verified: false, groups: ['others'] },
}
const ROLES = [
  { claim: 'groups', values: ['llm-look'], role: 'viewer' as const },
  { claim: 'groups', values: ['llm-admins'], role: 'admin' as const },
  { claim: 'groups', values: ['llm-keys'], role: 'operator' as const },
  { claim: 'email', values: ['*@Books.example'], role: 'billing' as const },
]

/** A provider on this machine, whose login page takes the person of `next`. */
class Provider {
  readonly issuer: string
  next = 'ada'
  /** Whether the person refuses. */
  denies = false
  readonly #close: () => Promise<void>

  private constructor(issuer: string, close: () => Promise<void>) {
    this.issuer = issuer
    this.#close = close
  }

  static async start(redirectUri: string): Promise<Provider> {
    // Its types are a package of their own.
    const { default: Oidc } = (await import('oidc-provider' as string)) as any
    let handle: (request: IncomingMessage, response: ServerResponse) => unknown = () => {}
    const server = createServer((request, response) => void handle(request, response))
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const oidc = new Oidc(issuer, {
      clients: [
        { client_id: 'gateway', client_secret: 'the-secret', redirect_uris: [redirectUri] },
      ],
      claims: { openid: ['sub', 'groups'], profile: ['name'], email: ['email', 'email_verified'] },
      conformIdTokenClaims: false,
      cookies: { keys: ['a-key-of-this-test'] },
      features: { devInteractions: { enabled: false } },
      findAccount: (_: unknown, sub: string) => ({
        accountId: sub,
        claims: async () => ({ sub, ...PEOPLE[sub] }),
      }),
      async loadExistingGrant(context: any) {
        const { client, session } = context.oidc
        const grant = new context.oidc.provider.Grant({
          clientId: client.clientId,
          accountId: session.accountId,
        })
        grant.addOIDCScope('openid profile email')
        await grant.save()
        return grant
      },
    })
    const self = new Provider(issuer, async () => {
      server.closeAllConnections()
      await new Promise((closed) => server.close(closed))
    })
    const callback = oidc.callback()
    handle = async (request, response) => {
      if (!request.url!.startsWith('/interaction/')) return callback(request, response)
      const denial = { error: 'access_denied', error_description: 'words of the provider' }
      const result = self.denies ? denial : { login: { accountId: self.next } }
      return oidc.interactionFinished(request, response, result)
    }
    return self
  }

  close(): Promise<void> {
    return this.#close()
  }
}

/** A browser without scripts: it follows redirects and keeps cookies. */
class Browser {
  readonly #jar = new Map<string, Map<string, string>>()
  /** Cookies as they were set. */
  readonly set: string[] = []
  readonly seen: string[] = []

  /** @returns the last address, when `until` holds for the next one it is not asked */
  async open(address: string, until: (url: URL) => boolean): Promise<URL> {
    let url = new URL(address)
    for (let hop = 0; hop < 15; hop++) {
      this.seen.push(url.href)
      const jar = this.#jar.get(url.origin) ?? new Map<string, string>()
      this.#jar.set(url.origin, jar)
      const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join('; ')
      const answer = await fetch(url, { redirect: 'manual', headers: { cookie } })
      for (const line of answer.headers.getSetCookie()) {
        this.set.push(line)
        const [, name, value] = /^([^=]+)=([^;]*)/.exec(line)!
        if (value === '') jar.delete(name!)
        else jar.set(name!, value!)
      }
      const location = answer.headers.get('location')
      if (location === null) throw new Error(`${url.href}: ${answer.status} ${await answer.text()}`)
      url = new URL(location, url)
      if (until(url)) return url
    }
    throw new Error('too many redirects')
  }

  cookie(origin: string, name: string): string | undefined {
    const value = this.#jar.get(origin)?.get(name)
    return value === undefined ? undefined : `${name}=${value}`
  }
}

let provider: Provider
let gateway: TestGateway
let config: UserConfig
let idp: {
  issuer: string
  clientId: string
  clientSecret: string
  label: string
  roles: typeof ROLES
}
const atPage = (url: URL) => /^\/(console|me)/.test(url.pathname)

beforeAll(async () => {
  const port = await freePort()
  const publicUrl = `http://127.0.0.1:${port}`
  provider = await Provider.start(`${publicUrl}/login/idp/callback`)
  idp = {
    issuer: provider.issuer,
    clientId: 'gateway',
    clientSecret: 'the-secret',
    label: 'Acme',
    roles: ROLES,
  }
  config = {
    ...MOCK_CONFIG,
    server: { publicUrl },
    admin: { token: TOKEN, login: { oidc: { idp } } },
  }
  gateway = await createTestGateway(config, undefined, { port: port! })
})
afterAll(async () => {
  await gateway.close()
  await provider.close()
})

async function signIn(person: string, to = '/console/keys') {
  provider.next = person
  const browser = new Browser()
  const start = `${gateway.url}/login/idp?to=${encodeURIComponent(to)}`
  const end = await browser.open(start, atPage)
  const cookie = browser.cookie(gateway.url, 'sluice_console')
  const ask = (method: string, path: string, body?: object) =>
    gateway.ask(method, `/admin${path}`, {
      key: null,
      headers: { ...PAGE, cookie: cookie ?? '' },
      body,
    })
  return { end, cookie, browser, ask }
}

describe('OpenID Connect', () => {
  it('is offered where nobody is signed in', async () => {
    const answer = await gateway.ask('GET', '/admin/session', { key: null, headers: PAGE })
    expect(answer.json.sign_in.providers).toEqual([
      { name: 'idp', label: 'Acme', href: '/login/idp' },
    ])
  })

  it.each([
    ['ada', 'admin', 'Ada'],
    ['ole', 'operator', 'Ole'],
    ['bea', 'billing', 'Bea'],
    ['vic', 'viewer', 'Vic'],
  ])('signs in %s as %s', async (person, role, name) => {
    const { end, ask, browser } = await signIn(person)
    expect(end.href).toBe(`${gateway.url}/console/keys`)
    const own = await ask('GET', '/session')
    expect(own.json.data).toMatchObject({ role, name, how: 'oidc' })
    expect((await ask('GET', '/accounts')).status).toBe(200)
    const cookies = browser.set.filter((line) => line.startsWith('sluice_console='))
    expect(cookies).toEqual([expect.stringMatching(/HttpOnly.*SameSite=Strict/)])
    const audit = await gateway.ask('GET', `/admin/audit?actor=oidc:idp/${person}`, { key: TOKEN })
    expect(audit.json.data[0]).toMatchObject({ action: 'session.create', actor: name })
    const link = await ask('POST', '/session/once', {})
    expect([link.status, link.json.error.code]).toEqual([409, 'not_possible'])
  })

  it('lets in nobody without a rule, for whom an address that is not verified proves nothing', async () => {
    const { end, cookie } = await signIn('eve')
    expect(end.pathname).toBe('/console')
    expect(end.hash).toMatch(/^#error=no_role&id=req_/)
    expect(cookie).toBeUndefined()
    const audit = await gateway.ask('GET', '/admin/audit?action=session.refuse', { key: TOKEN })
    expect(audit.json.data[0]).toMatchObject({ actor_id: 'oidc:idp/eve' })
  })

  it('says when the person refuses, and nothing of the words of the provider', async () => {
    provider.denies = true
    try {
      const { end } = await signIn('ada')
      expect(end.hash).toMatch(/^#error=login_denied&id=req_/)
      expect(end.href).not.toContain('words')
    } finally {
      provider.denies = false
    }
  })

  it('takes an answer once, of the browser that began, and with its own state', async () => {
    const { browser } = await signIn('ada')
    const answer = browser.seen.find((url) => url.includes('/callback?'))!
    const again = await new Browser().open(answer, atPage)
    expect(again.hash).toContain('login_expired')
    const other = new Browser()
    await other.open(`${gateway.url}/login/idp`, (url) => url.origin === provider.issuer)
    const foreign = await other.open(answer, atPage)
    expect(foreign.hash).toContain('login_failed')
    expect(gateway.logged.join('\n')).toMatch(/login_failed: .*state/)
    expect(gateway.logged.join('\n')).not.toContain('the-secret')
  })

  it.each([
    'https://evil.example/console',
    '//evil.example/me',
    '/\\evil.example',
    '/admin/keys',
    'x',
  ])('goes to a page of the gateway alone: %s', async (to) => {
    expect((await signIn('ada', to)).end.href).toBe(`${gateway.url}/console`)
  })

  it('ends a session when its rule is removed, at the next request', async () => {
    const { ask } = await signIn('ole')
    expect((await ask('GET', '/accounts')).status).toBe(200)
    const without = { ...idp, roles: ROLES.filter(({ role }) => role !== 'operator') }
    const admin = { token: TOKEN, login: { oidc: { idp: without } } }
    await gateway.gateway.reload(loaded({ ...config, admin }))
    const refused = await ask('GET', '/accounts')
    expect([refused.status, refused.json.error.code]).toEqual([401, 'session_ended'])
    await gateway.gateway.reload(loaded(config))
    expect((await ask('GET', '/accounts')).status).toBe(401)
  })

  it('does without a provider that is away, and finds it when it is back', async () => {
    const port = await freePort()
    const away = { issuer: `http://127.0.0.1:${port}`, clientId: 'gateway', roles: ROLES }
    const admin = { token: TOKEN, login: { oidc: { away } } }
    await gateway.gateway.reload(loaded({ ...config, admin }))
    const end = await new Browser().open(`${gateway.url}/login/away`, atPage)
    expect(end.hash).toContain('login_failed')
    expect(gateway.logged.join('\n')).toContain('ECONNREFUSED')
    await gateway.gateway.reload(loaded(config))
    expect((await signIn('vic')).end.pathname).toBe('/console/keys')
  })
})

describe('members', () => {
  const join = [
    { provider: 'idp', claim: 'groups', values: ['others'], account: 'acme', manages: false },
  ]
  const withMembers = () => {
    const admin = {
      token: TOKEN,
      members: { join },
      login: { oidc: { idp: { ...idp, members: true } } },
    }
    return loaded({ ...config, admin })
  }
  const admin = (method: string, path: string, body?: object) =>
    gateway.ask(method, `/admin${path}`, { key: TOKEN, body })
  const invite = async (account: string, name: string, email: string) => {
    const made = await admin('POST', '/members', { account, name, email })
    return made.json.data.id as string
  }
  async function signInMember(person: string) {
    provider.next = person
    const browser = new Browser()
    const end = await browser.open(`${gateway.url}/login/idp?side=member`, atPage)
    const cookie = browser.cookie(gateway.url, 'sluice_me')
    const ask = (method: string, path: string, body?: object, own = cookie ?? '') =>
      gateway.ask(method, `/me/api${path}`, { key: null, headers: { ...PAGE, cookie: own }, body })
    return { end, cookie, ask }
  }
  beforeAll(async () => {
    await gateway.gateway.reload(withMembers())
    await gateway.newAccount('second', '5')
  })
  afterAll(() => gateway.gateway.reload(loaded(config)))

  it('are bound once by the verified address of their invitation, and choose between their places', async () => {
    const first = await invite('acme', 'Ada', 'ADA@example.com')
    const second = await invite('second', 'Ada', 'ada@example.com')
    const { ask, end } = await signInMember('ada')
    expect(end.href).toBe(`${gateway.url}/me`)
    const { data } = (await ask('GET', '/session')).json
    expect(data).toMatchObject({ how: 'oidc', member_id: first, account_id: 'acme' })
    expect(data.places).toEqual([
      { member_id: first, account_id: 'acme', team_id: null, current: true },
      { member_id: second, account_id: 'second', team_id: null, current: false },
    ])
    const other = await ask('POST', '/session', { member: second })
    expect(other.json.data).toMatchObject({ member_id: second, account_id: 'second' })
    const [cookie] = other.headers['set-cookie']![0]!.split(';')
    expect((await ask('GET', '/session')).json.data).toBeNull()
    expect((await ask('GET', '/session', undefined, cookie)).json.data.account_id).toBe('second')
    const foreign = await invite('acme', 'Bob', 'bob@example.com')
    const refused = await ask('POST', '/session', { member: foreign }, cookie)
    expect(refused.status).toBe(404)
    const audit = await admin('GET', '/audit?action=member.bind')
    expect(audit.json.data.map((one: any) => one.object).toSorted()).toEqual(
      [`member:${first}`, `member:${second}`].toSorted(),
    )
    // From now on the address proves nothing, and a later invitation of it is not taken.
    const late = await invite('acme', 'Ada again', 'ada@example.com')
    const again = await signInMember('ada')
    const places = (await again.ask('GET', '/session')).json.data.places
    expect(places.map((one: any) => one.member_id)).not.toContain(late)
  })

  it('join by a rule, once; an address that is not verified proves nothing', async () => {
    await invite('second', 'Eve', 'eve@books.example')
    // Two windows at once are one person.
    const [{ ask }, other] = await Promise.all([signInMember('eve'), signInMember('eve')])
    const [{ json }, { json: same }] = [
      await ask('GET', '/session'),
      await other.ask('GET', '/session'),
    ]
    expect(same.data.member_id).toBe(json.data.member_id)
    const { data: all } = (await admin('GET', '/members?account=acme')).json
    expect(all.filter((one: any) => one.name === 'Eve')).toHaveLength(1)
    const own = (await ask('GET', '/session')).json.data
    expect(own).toMatchObject({ account_id: 'acme', manages: false, name: 'Eve' })
    expect(own.places).toHaveLength(1)
    const again = await signInMember('eve')
    expect((await again.ask('GET', '/session')).json.data.member_id).toBe(own.member_id)
    await admin('PATCH', `/members/${own.member_id}`, { disabled: true })
    expect((await signInMember('eve')).end.hash).toContain('no_membership')
  })

  it('are not let in without an invitation or a rule, and are no operators', async () => {
    const { end, cookie } = await signInMember('ole')
    expect([end.pathname, end.hash]).toEqual([
      '/me',
      expect.stringMatching(/^#error=no_membership&id=req_/),
    ])
    expect(cookie).toBeUndefined()
    const { cookie: own } = await signInMember('ada')
    const asked = await gateway.ask('GET', '/admin/accounts', {
      key: null,
      headers: { ...PAGE, cookie: own! },
    })
    expect(asked.status).toBe(401)
  })

  it('are offered their providers, which others do not serve', async () => {
    const answer = await gateway.ask('GET', '/me/api/session', { key: null, headers: PAGE })
    expect(answer.json).toEqual({
      data: null,
      sign_in: { providers: [{ name: 'idp', label: 'Acme' }] },
    })
    await gateway.gateway.reload(loaded(config))
    const none = await gateway.ask('GET', '/login/idp?side=member', { key: null })
    expect(none.status).toBe(404)
    await gateway.gateway.reload(withMembers())
    const wrong = { token: TOKEN, members: { join: [{ ...join[0]!, provider: 'no' }] } }
    const cwd = await folder({
      'gateway.config.json': JSON.stringify({ ...config, admin: wrong }),
    })
    const expected = 'admin.members.join.0.provider  expected a name of admin.login.oidc'
    await expect(loadConfig({ cwd, env: {} })).rejects.toThrow(expected)
  })
})

describe('the header of a proxy', () => {
  const proxied = async (from: string[]) => {
    const proxy = {
      from,
      user: 'x-forwarded-user',
      email: 'x-forwarded-email',
      groups: 'x-forwarded-groups',
      signOut: '/oauth2/sign_out',
      roles: ROLES,
    }
    const own = await createTestGateway({
      ...MOCK_CONFIG,
      admin: { token: TOKEN, login: { proxy } },
    })
    onTestFinished(() => own.close())
    return own
  }
  const ask = (own: TestGateway, headers: Record<string, string>, path = '/accounts') =>
    send(`${own.url}/admin${path}`, 'GET', undefined, { ...PAGE, ...headers })

  it('is believed of its proxy', async () => {
    const own = await proxied(['127.0.0.0/8'])
    const headers = { 'x-forwarded-user': 'ole', 'x-forwarded-groups': 'x, llm-keys' }
    const session = await ask(own, headers, '/session')
    expect(session.json.data).toMatchObject({
      name: 'ole',
      role: 'operator',
      how: 'proxy',
      id: null,
      sign_out: '/oauth2/sign_out',
    })
    expect(session.headers['set-cookie']).toBeUndefined()
    const body = JSON.stringify({ name: 'a' })
    const made = await send(`${own.url}/admin/accounts`, 'POST', body, { ...PAGE, ...headers })
    expect(made.json.data.changed.by).toBe('proxy:ole')
    expect((await ask(own, { ...headers, 'sec-fetch-site': 'cross-site' })).status).toBe(403)
    expect((await ask(own, { 'x-forwarded-user': 'eve' })).status).toBe(401)
    expect((await ask(own, { 'x-forwarded-user': '' })).status).toBe(401)
    expect((await ask(own, { ...headers, 'x-forwarded-user': 'x'.repeat(1025) })).status).toBe(400)
    const bearer = { ...headers, authorization: 'Bearer wrong-token-of-the-proxy' }
    expect((await ask(own, bearer)).status).toBe(401)
  })

  it('is ignored from every other peer, which the log says', async () => {
    const own = await proxied(['10.0.0.7', '192.168.0.0/16'])
    const headers = { 'x-forwarded-user': 'ada', 'x-forwarded-groups': 'llm-admins' }
    for (let i = 0; i < 3; i++) expect((await ask(own, headers)).status).toBe(401)
    const lines = own.logged.filter((line) => line.includes('x-forwarded-user'))
    expect(lines).toHaveLength(1)
  })

  it.each(['0.0.0.0/0', '10.0.0.0/7', '::/0', 'fd00::/8', 'proxy.example'])(
    'cannot be believed of %s',
    (from) => {
      const admin = { token: TOKEN, login: { proxy: { from: [from] } } }
      expect(() => loaded({ ...MOCK_CONFIG, admin })).toThrow('the address of a proxy')
    },
  )
})
