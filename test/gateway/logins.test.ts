/** A gateway whose provider logs in to a cloud: masking, stop and reload. The cloud is on one real socket. */
import { afterEach, beforeEach, expect, it } from 'vitest'
import { createTestGateway, loaded, type TestGateway } from '../_setup.ts'
import { eventually } from '../_wait.ts'
import { json, startUpstream, type FakeUpstream, type ReceivedRequest } from '../upstream.ts'

let cloud: FakeUpstream
let gateway: TestGateway | undefined

beforeEach(async () => {
  cloud = await startUpstream()
})
afterEach(async () => {
  await gateway?.close()
  gateway = undefined
  await cloud.close()
})

const MODEL = 'google/gemini'
const ANSWER = {
  candidates: [{ content: { parts: [{ text: 'Hi' }] }, finishReason: 'STOP' }],
  usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 1, totalTokenCount: 4 },
}

/** A gateway whose credentials have this refresh token. */
function config(refreshToken = 'refresh-token-one') {
  const credentials = {
    type: 'authorized_user',
    client_id: 'client',
    client_secret: 'secret-of-the-client',
    refresh_token: refreshToken,
    token_uri: `${cloud.url}/token`,
  }
  const vertex = { project: 'house', location: 'global', credentials: JSON.stringify(credentials) }
  return {
    providers: { google: { use: 'google', options: { baseURL: cloud.url, vertex } } },
    models: {
      [MODEL]: {
        pricing: { prompt: '0.000001', completion: '0.000002' },
        deployments: [{ provider: 'google', model: 'gemini' }],
      },
    },
  }
}

const ask = () =>
  gateway!.chat({ model: MODEL, messages: [{ role: 'user', content: 'Hello?' }], stream: false })
const refreshTokenIn = ({ body }: ReceivedRequest) =>
  new URLSearchParams(body.toString()).get('refresh_token')

it('keeps the token of a login out of answers and logs, whatever the vendor quotes', async () => {
  const token = 'ya29.a0-secret-access-token'
  cloud.answer(({ path, headers }) => {
    if (path === '/token') return json({ access_token: token, expires_in: 3599 })
    const message = `Bad request by ${String(headers.authorization)}: ${token}, refresh-token-one`
    return json({ error: { code: 400, status: 'INVALID_ARGUMENT', message } }, 400)
  })
  gateway = await createTestGateway(config())
  const { status, text } = await ask()
  expect(status).toBe(400)
  const shown = [text, ...gateway.logged].join('\n')
  expect(shown).toContain('Bad request by')
  expect(shown).not.toMatch(/ya29|refresh-token/)
})

it('answers 502 when the login fails, and tells the operator why', async () => {
  cloud.answer(() => json({ error: 'invalid_grant', error_description: 'refresh-token-one' }, 400))
  gateway = await createTestGateway(config())
  const { status, json: body } = await ask()
  expect(status).toBe(502)
  expect(body.error.code).toBe('upstream_error')
  const log = gateway.logged.join('\n')
  expect(log).toContain('upstream_auth')
  expect(log).toContain('authorized user): HTTP 400, invalid_grant')
  expect(log).not.toContain('refresh-token-one')
})

it('ends a login that is under way when it stops', async () => {
  cloud.answer(() => ({ pieces: [], ending: 'silent' }))
  gateway = await createTestGateway(config())
  const asked = ask().catch(() => undefined)
  await eventually(() => expect(cloud.requests).toHaveLength(1))
  await gateway.close()
  gateway = undefined
  expect(await cloud.requests[0]!.aborted).toBe(true)
  await asked
})

it('logs in with the new credential after a reload', async () => {
  cloud.answer((request) =>
    request.path === '/token'
      ? json({ access_token: `for-${refreshTokenIn(request)}`, expires_in: 3599 })
      : json(ANSWER),
  )
  gateway = await createTestGateway(config())
  expect((await ask()).status).toBe(200)
  await gateway.gateway.reload(loaded(config('refresh-token-two')))
  expect((await ask()).status).toBe(200)
  const used = cloud.requests.filter(({ path }) => path !== '/token')
  expect(used.map(({ headers }) => headers.authorization)).toEqual([
    'Bearer for-refresh-token-one',
    'Bearer for-refresh-token-two',
  ])
})
