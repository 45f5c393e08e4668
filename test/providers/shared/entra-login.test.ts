/** Entra's sources of credentials, with their services on one real socket, and models of Azure. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import * as v from 'valibot'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import azure from '../../../providers/azure.ts'
import { entraLogin, entraOption } from '../../../providers/shared/cloud/entra.ts'
import { folder } from '../../_folder.ts'
import { json, startUpstream, type FakeUpstream, type ReceivedRequest } from '../../upstream.ts'
import { setUp } from '../_chat.ts'
import { loginHost, patient, type LoginHost } from './_login.ts'

const SCOPE = 'https://cognitiveservices.azure.com/.default'
const VARIABLES = [
  'AZURE_TENANT_ID',
  'AZURE_CLIENT_ID',
  'AZURE_FEDERATED_TOKEN_FILE',
  'IDENTITY_ENDPOINT',
  'IDENTITY_HEADER',
]

let service: FakeUpstream
let owned: LoginHost

beforeEach(async () => {
  service = await startUpstream()
  owned = loginHost()
  for (const name of VARIABLES) vi.stubEnv(name, undefined)
  vi.stubEnv('AZURE_AUTHORITY_HOST', `${service.url}/`)
  vi.stubEnv('AZURE_POD_IDENTITY_AUTHORITY_HOST', service.url)
  service.answer(() => json({ access_token: 'eyJ.first', expires_in: 3599, token_type: 'Bearer' }))
})

afterEach(async () => {
  vi.unstubAllEnvs()
  await owned[Symbol.asyncDispose]()
  await service.close()
})

async function loggedIn(option: object) {
  const login = entraLogin(owned.host, v.parse(entraOption, option), SCOPE)
  const credentials = await login.credentials(patient)
  return { credentials, report: await login.report(patient), request: service.requests[0]! }
}

async function reasonWith(option: object): Promise<string> {
  const error = await loggedIn(option).catch((reason: Error) => reason)
  return ((error as Error).cause as Error).message
}

const formOf = ({ body }: ReceivedRequest) =>
  Object.fromEntries(new URLSearchParams(body.toString()))
const queryOf = ({ path }: ReceivedRequest) =>
  Object.fromEntries(new URL(path, 'http://localhost').searchParams)

describe('a login with Entra', () => {
  it('uses a client secret before everything else', async () => {
    vi.stubEnv('IDENTITY_ENDPOINT', service.url)
    vi.stubEnv('IDENTITY_HEADER', 'header')
    const option = { tenant: 'house', clientId: 'app-1', clientSecret: 'a client secret' }
    const { credentials, report, request } = await loggedIn(option)
    expect(credentials).toEqual({ authorization: 'Bearer eyJ.first' })
    expect(report.source).toBe('client secret')
    expect([request.method, request.path]).toEqual(['POST', '/house/oauth2/v2.0/token'])
    expect(formOf(request)).toEqual({
      grant_type: 'client_credentials',
      client_id: 'app-1',
      client_secret: 'a client secret',
      scope: SCOPE,
    })
    expect(owned.masked).toEqual(['a client secret', 'eyJ.first'])
  })

  it('uses the token of a cluster, as it is at each time', async () => {
    const path = join(await folder({ token: 'eyJ.cluster-1\n' }), 'token')
    vi.stubEnv('AZURE_FEDERATED_TOKEN_FILE', path)
    vi.stubEnv('AZURE_TENANT_ID', 'house')
    vi.stubEnv('AZURE_CLIENT_ID', 'app-2')
    const { report, request } = await loggedIn({})
    expect(report.source).toBe('AZURE_FEDERATED_TOKEN_FILE')
    expect(formOf(request)).toEqual({
      grant_type: 'client_credentials',
      client_id: 'app-2',
      client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
      client_assertion: 'eyJ.cluster-1',
      scope: SCOPE,
    })
    await writeFile(path, 'eyJ.cluster-2')
    await loggedIn({})
    expect(formOf(service.requests[1]!).client_assertion).toBe('eyJ.cluster-2')
  })

  it('uses the identity endpoint of App Service, whose tokens say when they end', async () => {
    vi.stubEnv('IDENTITY_ENDPOINT', `${service.url}/msi/token`)
    vi.stubEnv('IDENTITY_HEADER', 'a header of the platform')
    const theirs = new Date(Math.floor(Date.now() / 1000) * 1000 - 86_400_000)
    const endsAt = String(theirs.getTime() / 1000 + 3600)
    service.answer(() =>
      json({ access_token: 'eyJ', expires_on: endsAt }, 200, { date: theirs.toUTCString() }),
    )
    const { report, request } = await loggedIn({ clientId: 'user-assigned' })
    expect(report.source).toBe('managed identity of IDENTITY_ENDPOINT')
    // The service is a day behind; its own clock says how long the token lives.
    expect(report.expiresAt).toBeGreaterThan(Date.now())
    expect([request.method, new URL(request.path, service.url).pathname]).toEqual([
      'GET',
      '/msi/token',
    ])
    expect(request.headers['x-identity-header']).toBe('a header of the platform')
    expect(queryOf(request)).toEqual({
      'api-version': '2019-08-01',
      resource: 'https://cognitiveservices.azure.com',
      client_id: 'user-assigned',
    })
  })

  it('uses the identity of the machine last', async () => {
    service.answer(() => json({ access_token: 'eyJ', expires_in: '86399', expires_on: '1' }))
    const { report, request } = await loggedIn({ scope: 'https://own.example/.default' })
    expect(report.source).toBe('managed identity of the machine')
    expect(request.headers.metadata).toBe('true')
    expect(new URL(request.path, service.url).pathname).toBe('/metadata/identity/oauth2/token')
    expect(queryOf(request)).toEqual({
      'api-version': '2018-02-01',
      resource: 'https://own.example',
    })
  })

  it('uses only the identity of the machine with "managedIdentity"', async () => {
    vi.stubEnv('AZURE_FEDERATED_TOKEN_FILE', '/none')
    const { report } = await loggedIn({ managedIdentity: true })
    expect(report.source).toBe('managed identity of the machine')
  })

  it('names what is missing', async () => {
    expect(await reasonWith({ clientSecret: 'a' })).toBe(
      'client secret: set "tenant", or AZURE_TENANT_ID',
    )
    expect(await reasonWith({ clientSecret: 'a', tenant: 'house' })).toBe(
      'client secret: set "clientId", or AZURE_CLIENT_ID',
    )
  })

  it('names the error of a refusal, and nothing else of it', async () => {
    service.answer(() =>
      json({ error: 'invalid_client', error_description: 'AADSTS7000215: a client secret' }, 401),
    )
    const option = { tenant: 'house', clientId: 'app', clientSecret: 'a client secret' }
    expect(await reasonWith(option)).toBe('client secret: HTTP 401, invalid_client')
  })

  it.each([{}, { expires_in: 'soon' }, { expires_on: null }])(
    'refuses a token without a lifetime: %j',
    async (lifetime) => {
      service.answer(() => json({ access_token: 'eyJ', ...lifetime }))
      expect(await reasonWith({})).toMatch(/neither "expires_in" nor|have expired/)
    },
  )
})

describe('azure', () => {
  const COMPLETION = {
    choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
  }

  it.each(['v1', 'deployments', 'models'])('sends the token on the surface %s', async (surface) => {
    service.answer(({ path }) =>
      path.startsWith('/metadata')
        ? json({ access_token: 'eyJ.azure', expires_in: 3599 })
        : json(COMPLETION),
    )
    const options = { baseURL: service.url, entra: {}, surface }
    await using setup = await setUp(azure, options)
    const { completion } = await setup.outcome({}, { options: { api: 'chat' } })
    expect(completion.choices[0]!.message.content).toBe('Hi')
    const { headers } = service.requests.at(-1)!
    expect([headers.authorization, headers['api-key']]).toEqual(['Bearer eyJ.azure', undefined])
    expect((await setup.provider.logIn!(patient)).source).toBe('managed identity of the machine')
  })

  it('takes a key or a login, not both', async () => {
    const options = { baseURL: service.url, apiKey: 'key', entra: {} }
    await expect(setUp(azure, options)).rejects.toThrow('either "apiKey" or "entra"')
    const both = { baseURL: service.url, entra: { clientSecret: 'a', managedIdentity: true } }
    await expect(setUp(azure, both)).rejects.toThrow('either "clientSecret" or "managedIdentity"')
  })
})
