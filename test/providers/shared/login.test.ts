/** What every login keeps, renews and shares, with a token service on a real socket. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { Login, withLogin, type AuthHeaders } from '../../../providers/shared/cloud/login.ts'
import { UpstreamFailure } from '../../../src/errors/errors.ts'
import { eventually } from '../../_wait.ts'
import { json, startUpstream, type FakeResponse, type FakeUpstream } from '../../upstream.ts'
import { loginHost, patient, type LoginHost } from './_login.ts'

const MINUTE = 60_000

let service: FakeUpstream
let owned: LoginHost
/** The steady clock of the login, in ms. */
let now: number
let answers: (() => FakeResponse | Promise<FakeResponse>)[]

beforeEach(async () => {
  service = await startUpstream()
  owned = loginHost()
  now = 0
  answers = []
  let count = 0
  service.answer(async () => {
    const next = answers.shift()
    count++
    return next ? next() : json({ token: `token-${count}`, seconds: 3600 })
  })
})

afterEach(async () => {
  await owned[Symbol.asyncDispose]()
  await service.close()
})

type Issue = ConstructorParameters<typeof Login<AuthHeaders>>[1]

const issue: Issue = async (requests) => {
  const answer = await requests.ask('service', { url: `${service.url}/token` })
  const { token, seconds } = answer.json()
  requests.mask(String(token))
  return {
    credentials: { authorization: `Bearer ${String(token)}` },
    lifetimeMs: Number(seconds) * 1000,
    source: 'service',
  }
}

const login = (how = issue) => new Login(owned.host, how, () => now)
const tokenOf = ({ authorization }: AuthHeaders) => authorization

async function failureOf(promise: Promise<unknown>): Promise<UpstreamFailure> {
  const error: unknown = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  if (!UpstreamFailure.is(error)) throw new Error('expected a failure', { cause: error })
  return error
}

/** Answers when the test says so. */
function held() {
  const { promise, resolve } = Promise.withResolvers<FakeResponse>()
  return { answer: () => promise, release: resolve }
}

describe('a login', () => {
  it('asks once for any number of requests, and never before the first', async () => {
    const one = login()
    expect(service.requests).toHaveLength(0)
    const slow = held()
    answers = [slow.answer]
    const waiting = Array.from({ length: 50 }, () => one.credentials(patient))
    await eventually(() => expect(service.requests).toHaveLength(1))
    slow.release(json({ token: 'shared', seconds: 3600 }))
    const tokens = new Set((await Promise.all(waiting)).map(tokenOf))
    expect([...tokens]).toEqual(['Bearer shared'])
    expect(service.requests).toHaveLength(1)
  })

  it('renews in the background from five minutes before the end, and hands out the old token meanwhile', async () => {
    const one = login()
    expect(tokenOf(await one.credentials(patient))).toBe('Bearer token-1')
    now = 55 * MINUTE - 1
    await one.credentials(patient)
    expect(service.requests).toHaveLength(1)
    now = 55 * MINUTE
    const slow = held()
    answers = [slow.answer]
    const all = await Promise.all(Array.from({ length: 50 }, () => one.credentials(patient)))
    expect(new Set(all.map(tokenOf))).toEqual(new Set(['Bearer token-1']))
    slow.release(json({ token: 'fresh', seconds: 3600 }))
    await eventually(async () => {
      expect(tokenOf(await one.credentials(patient))).toBe('Bearer fresh')
    })
    expect(service.requests).toHaveLength(2)
  })

  it('renews a token that lives for less than ten minutes in the middle of its life', async () => {
    answers = [() => json({ token: 'short', seconds: 60 })]
    const one = login()
    await one.credentials(patient)
    now = 29_999
    await one.credentials(patient)
    expect(service.requests).toHaveLength(1)
    now = 30_000
    expect(tokenOf(await one.credentials(patient))).toBe('Bearer short')
    await eventually(() => expect(service.requests).toHaveLength(2))
  })

  it('waits for a new token when the old one has ended', async () => {
    const one = login()
    await one.credentials(patient)
    now = 60 * MINUTE
    expect(tokenOf(await one.credentials(patient))).toBe('Bearer token-2')
  })

  it('keeps a valid token while the service fails, tries again every ten seconds, and tells the operator', async () => {
    const one = login()
    await one.credentials(patient)
    answers = [
      () => json({ error: 'temporarily_unavailable', detail: 'token-1' }, 503),
      () => ({ pieces: [], ending: 'refuse' }),
    ]
    now = 55 * MINUTE
    await one.credentials(patient)
    await eventually(() => expect(owned.lines).toHaveLength(1))
    expect(owned.lines[0]).toContain('service: HTTP 503, temporarily_unavailable')
    expect(owned.lines[0]).not.toContain('token-1')
    now += 9_999
    expect(tokenOf(await one.credentials(patient))).toBe('Bearer token-1')
    expect(service.requests).toHaveLength(2)
    now += 1
    await one.credentials(patient)
    await eventually(() => expect(owned.lines).toHaveLength(2))
    now += 10_000
    await one.credentials(patient)
    await eventually(async () => {
      expect(tokenOf(await one.credentials(patient))).toBe('Bearer token-4')
    })
  })

  it.each<[string, () => FakeResponse, string]>([
    [
      'a refusal',
      () => json({ error: 'invalid_client' }, 401),
      'service: HTTP 401, invalid_client',
    ],
    ['a reset', () => ({ pieces: [], ending: 'refuse' }), 'service: '],
    ['HTML', () => ({ pieces: ['<html>my secret'] }), 'service: expected a JSON object'],
    ['a list', () => json(['my secret']), 'service: expected a JSON object'],
    ['no lifetime', () => json({ token: 'my secret' }), 'service: the credentials have no end'],
    [
      'an old token',
      () => json({ token: 'my secret', seconds: 0 }),
      'the credentials have expired',
    ],
    ['a cut answer', () => ({ pieces: ['{"token":"my secret"'], ending: 'cut' }), 'service: '],
  ])('fails as the credentials of the operator after %s', async (_, answer, reason) => {
    answers = [answer]
    const failure = await failureOf(login().credentials(patient))
    expect(failure.failure).toBe('upstream_auth')
    expect(failure.message).not.toContain('service')
    const { message } = failure.cause as Error
    expect(message).toContain(reason)
    expect(message).not.toContain('my secret')
    expect(message).not.toContain(service.url)
  })

  it('tells nothing of an unforeseen error but its name', async () => {
    const odd: Issue = async () => {
      throw new TypeError('cannot read my secret')
    }
    const failure = await failureOf(login(odd).credentials(patient))
    expect((failure.cause as Error).message).toBe('login: TypeError')
  })

  it('tries anew after a failure', async () => {
    answers = [() => json({}, 500)]
    const one = login()
    await failureOf(one.credentials(patient))
    expect(tokenOf(await one.credentials(patient))).toBe('Bearer token-2')
  })

  it('lets a client leave, and goes on for the others', async () => {
    const slow = held()
    answers = [slow.answer]
    const one = login()
    const leaving = new AbortController()
    const left = one.credentials(leaving.signal)
    const stays = one.credentials(patient)
    await eventually(() => expect(service.requests).toHaveLength(1))
    leaving.abort(new Error('the client left'))
    await expect(left).rejects.toThrow('the client left')
    slow.release(json({ token: 'late', seconds: 60 }))
    expect(tokenOf(await stays)).toBe('Bearer late')
  })

  it('ends a renewal when the provider is closed, and begins no other', async () => {
    answers = [() => ({ pieces: [], ending: 'silent' })]
    const one = login()
    const waiting = failureOf(one.credentials(patient))
    await eventually(() => expect(service.requests).toHaveLength(1))
    one.close()
    expect((await waiting).failure).toBe('upstream_auth')
    expect(await service.requests[0]!.aborted).toBe(true)
    expect((await failureOf(one.credentials(patient))).failure).toBe('upstream_auth')
    expect(service.requests).toHaveLength(1)
    expect(owned.lines).toEqual([])
  })

  it('masks the token that is in use and the one before', async () => {
    const one = login()
    await one.credentials(patient)
    expect(owned.masked).toEqual(['token-1'])
    now = 60 * MINUTE
    await one.credentials(patient)
    expect(owned.masked).toEqual(['token-1', 'token-2'])
    now = 120 * MINUTE
    await one.credentials(patient)
    expect(owned.masked).toEqual(['token-2', 'token-3'])
  })

  it('says where the credentials come from and when they end', async () => {
    const one = login()
    const before = Date.now()
    const { source, expiresAt } = await one.report(patient)
    expect(source).toBe('service')
    expect(expiresAt).toBeGreaterThanOrEqual(before + 60 * MINUTE)
    expect(expiresAt).toBeLessThanOrEqual(Date.now() + 60 * MINUTE)
  })
})

describe('requests with a login', () => {
  const send = (host: ReturnType<typeof withLogin>) =>
    host.request({ url: `${service.url}/model`, body: '{}', signal: patient })
  const authorizations = () =>
    service.requests
      .filter(({ path }) => path === '/model')
      .map(({ headers }) => headers.authorization)

  /** A vendor that accepts these tokens only. */
  function accepting(...tokens: string[]) {
    let count = 0
    service.answer(({ path, headers }) => {
      if (path === '/token') return json({ token: `token-${++count}`, seconds: 3600 })
      return json({}, tokens.includes(String(headers.authorization)) ? 200 : 401)
    })
  }

  it('repeat a request once with a new token after a 401', async () => {
    accepting('Bearer token-2')
    const host = withLogin(owned.host, login())
    expect((await send(host)).status).toBe(200)
    expect(authorizations()).toEqual(['Bearer token-1', 'Bearer token-2'])
  })

  it('share the renewal after 401s at the same time', async () => {
    accepting('Bearer token-2')
    const host = withLogin(owned.host, login())
    const responses = await Promise.all(Array.from({ length: 20 }, () => send(host)))
    expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([200]))
    expect(service.requests.filter(({ path }) => path === '/token')).toHaveLength(2)
  })

  it('hand a lasting refusal on, and renew for it once a minute only', async () => {
    accepting()
    const host = withLogin(owned.host, login())
    expect((await send(host)).status).toBe(401)
    expect((await send(host)).status).toBe(401)
    expect(service.requests.filter(({ path }) => path === '/token')).toHaveLength(2)
    now += MINUTE
    expect((await send(host)).status).toBe(401)
    expect(service.requests.filter(({ path }) => path === '/token')).toHaveLength(3)
  })

  it('hand a refusal on when the renewal fails, and keep the token', async () => {
    service.answer(({ path }) =>
      path === '/token' && service.requests.length === 1
        ? json({ token: 'only', seconds: 3600 })
        : json({}, path === '/token' ? 500 : 401),
    )
    const host = withLogin(owned.host, login())
    expect((await send(host)).status).toBe(401)
    expect(authorizations()).toEqual(['Bearer only'])
  })

  it('keep a header that the operator has set', async () => {
    accepting('Bearer own')
    const host = withLogin(owned.host, login())
    const headers = { authorization: 'Bearer own' }
    const request = { url: `${service.url}/model`, headers, body: '{}', signal: patient }
    expect((await host.request(request)).status).toBe(200)
  })
})
