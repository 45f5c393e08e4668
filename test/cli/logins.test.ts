import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { call } from '../_cli.ts'
import { folder } from '../_folder.ts'
import { json, startUpstream, type FakeUpstream } from '../upstream.ts'

let cloud: FakeUpstream

beforeEach(async () => {
  cloud = await startUpstream()
})
afterEach(() => cloud.close())

/** A folder with a provider that logs in, and one that does not. */
function place() {
  const credentials = {
    type: 'authorized_user',
    client_id: 'client',
    client_secret: 'secret-of-the-client',
    refresh_token: 'refresh-token-one',
    token_uri: `${cloud.url}/token`,
  }
  const vertex = { project: 'house', location: 'global', credentials: './login.json' }
  const config = {
    providers: {
      google: { use: 'google', options: { baseURL: cloud.url, vertex } },
      mock: { use: 'mock' },
    },
    models: {
      'google/gemini': {
        pricing: { prompt: '0.000001', completion: '0.000002' },
        capabilities: ['STREAMING'],
        deployments: [{ provider: 'google', model: 'gemini' }],
      },
    },
  }
  return folder({
    'gateway.config.json': JSON.stringify(config),
    'login.json': JSON.stringify(credentials),
  })
}

describe('check', () => {
  it('logs in, and prints the source and the end of the credentials, not the token', async () => {
    cloud.answer(() => json({ access_token: 'ya29.a0-secret', expires_in: 3599 }))
    const cwd = await place()
    const { code, out, err } = await call(['check', '--strict'], { cwd })
    expect(code).toBe(0)
    expect(out).toMatch(
      /google is logged in: \S+ vertex\.credentials \(authorized user\), until \d{4}-\d\d-\d\dT/,
    )
    expect(out + err).not.toMatch(/ya29|refresh-token/)
    expect(cloud.requests).toHaveLength(1)
    const { logins } = JSON.parse((await call(['check', '--json'], { cwd })).out)
    expect(logins).toEqual([
      {
        provider: 'google',
        source: 'option vertex.credentials (authorized user)',
        expires_at: expect.stringMatching(/Z$/),
        error: null,
      },
    ])
  })

  it('says how each of them is reached: vendors, logins and people who sign in, and nothing of what does not connect', async () => {
    const signIn = 'https://issuer.test'
    const config = {
      server: { publicUrl: 'http://127.0.0.1:8787' },
      admin: {
        token: 'token-of-the-first-admin',
        login: { oidc: { acme: { issuer: signIn, clientId: 'gateway' } } },
      },
      providers: {
        vertex: {
          use: 'google',
          options: {
            vertex: { project: 'house', location: 'global', credentials: './login.json' },
          },
          egress: { proxy: cloud.url },
        },
        amazon: { use: 'bedrock', options: { region: 'eu-west-1', apiKey: 'key-of-bedrock' } },
        claude: { use: 'anthropic', options: { apiKey: 'key-of-anthropic' } },
        mock: { use: 'mock' },
        voice: { use: 'espeak' },
      },
    }
    const credentials = {
      type: 'authorized_user',
      client_id: 'client',
      client_secret: 'secret-of-the-client',
      refresh_token: 'refresh-token-one',
      token_uri: 'http://login.test/token',
    }
    cloud.answer(() => json({ access_token: 'ya29.a0-secret', expires_in: 3599 }))
    const cwd = await folder({
      'gateway.config.json': JSON.stringify(config),
      'login.json': JSON.stringify(credentials),
    })
    const env = { HTTPS_PROXY: 'http://127.0.0.1:9', NO_PROXY: '.amazonaws.com' }
    const { out } = await call(['check'], { cwd, env })
    expect(out).toContain(
      `vertex, login:vertex: via ${cloud.url} (setting)\n` +
        'amazon: direct (bypass .amazonaws.com)\n' +
        'claude, login:acme: via http://127.0.0.1:9 (HTTPS_PROXY)\n',
    )
    expect(cloud.requests).toHaveLength(1)
  })

  it('asks the providers by which people sign in', async () => {
    const issuer = cloud.url
    cloud.answer(({ path }) =>
      path === '/.well-known/openid-configuration'
        ? json({ issuer, authorization_endpoint: `${issuer}/auth`, token_endpoint: `${issuer}/t` })
        : json({}, 404),
    )
    const oidc = {
      here: { issuer, clientId: 'gateway' },
      away: { issuer: 'http://127.0.0.1:9', clientId: 'gateway' },
    }
    const config = {
      server: { publicUrl: 'http://127.0.0.1:8787' },
      admin: { token: 'token-of-the-first-admin', login: { oidc } },
    }
    const cwd = await folder({ 'gateway.config.json': JSON.stringify(config) })
    const { code, out } = await call(['check'], { cwd })
    expect(code).toBe(0)
    expect(out).toContain(`admin.login.oidc.here answers: ${issuer}`)
    // The reason of this address; elsewhere it is such as ECONNREFUSED and the address.
    expect(out).toMatch(/oidc\.away: the provider does not answer: fetch failed: bad port/)
  })

  it('warns of a login that fails, which is an error with --strict', async () => {
    cloud.answer(() => json({ error: 'invalid_grant' }, 400))
    const cwd = await place()
    const { code, out } = await call(['check'], { cwd })
    expect(code).toBe(0)
    expect(out).toContain(
      'warning: google: the login failed: option vertex.credentials (authorized user): HTTP 400, invalid_grant (login)',
    )
    const strict = await call(['check', '--strict'], { cwd })
    expect([strict.code, strict.err]).toEqual([1, expect.stringContaining('1 warning with')])
  })
})
