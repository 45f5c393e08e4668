/** Google's sources of credentials, with their services on one real socket, and models of Vertex AI. */
import { generateKeyPairSync, verify } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import google from '../../../providers/google.ts'
import { googleLogin, vertexAddress } from '../../../providers/shared/cloud/google.ts'
import { UpstreamFailure } from '../../../src/errors/errors.ts'
import { eventually } from '../../_wait.ts'
import { json, startUpstream, type FakeUpstream, type ReceivedRequest } from '../../upstream.ts'
import { setUp, silent } from '../_chat.ts'
import { loginHost, patient, type LoginHost } from './_login.ts'

const { publicKey, privateKey } = generateKeyPairSync('rsa', {
  modulusLength: 2048,
  publicKeyEncoding: { type: 'spki', format: 'pem' },
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
})

let service: FakeUpstream
let owned: LoginHost
let folder: string

beforeEach(async () => {
  service = await startUpstream()
  owned = loginHost()
  folder = await mkdtemp(join(tmpdir(), 'sluicegate-login-'))
  vi.stubEnv('GOOGLE_APPLICATION_CREDENTIALS', undefined)
  vi.stubEnv('CLOUDSDK_CONFIG', folder)
  vi.stubEnv('GCE_METADATA_HOST', new URL(service.url).host)
  service.answer(() => json({ access_token: 'ya29.first', expires_in: 3599 }))
})

afterEach(async () => {
  vi.unstubAllEnvs()
  await owned[Symbol.asyncDispose]()
  await service.close()
  await rm(folder, { recursive: true, force: true })
})

const PLACE = { project: 'house', location: 'europe-west4' }

async function written(value: unknown, name = 'credentials.json'): Promise<string> {
  const path = join(folder, name)
  await writeFile(path, typeof value === 'string' ? value : JSON.stringify(value))
  return path
}

/** Logs in with this file. */
async function headersWith(credentials?: unknown) {
  const path = credentials === undefined ? {} : { credentials: await written(credentials) }
  const login = googleLogin(owned.host, { ...PLACE, ...path })
  return { headers: await login.credentials(patient), report: await login.report(patient) }
}

async function reasonWith(credentials?: unknown): Promise<string> {
  const error: unknown = await headersWith(credentials).catch((reason: unknown) => reason)
  if (!UpstreamFailure.is(error)) throw new Error('expected a failure', { cause: error })
  expect(error.failure).toBe('upstream_auth')
  return (error.cause as Error).message
}

const formOf = ({ body }: ReceivedRequest) =>
  Object.fromEntries(new URLSearchParams(body.toString()))

const account = () => ({
  type: 'service_account',
  client_email: 'gateway@house.iam.example',
  private_key_id: 'key-1',
  private_key: privateKey,
  token_uri: `${service.url}/token`,
})

function claimsIn(request: ReceivedRequest) {
  const [header = '', claims = '', signature = ''] = formOf(request).assertion!.split('.')
  const signed = Buffer.from(signature, 'base64url')
  const genuine = verify('RSA-SHA256', Buffer.from(`${header}.${claims}`), publicKey, signed)
  const parse = (part: string) => JSON.parse(Buffer.from(part, 'base64url').toString())
  return { genuine, header: parse(header), claims: parse(claims) }
}

describe('a service account key', () => {
  it('signs an assertion for its token service', async () => {
    const before = Math.floor(Date.now() / 1000)
    const { headers, report } = await headersWith(account())
    expect(headers).toEqual({ authorization: 'Bearer ya29.first' })
    expect(report.source).toBe('option vertex.credentials (service account key)')
    const [request] = service.requests
    expect(request!.method).toBe('POST')
    expect(formOf(request!).grant_type).toBe('urn:ietf:params:oauth:grant-type:jwt-bearer')
    const { genuine, header, claims } = claimsIn(request!)
    expect(genuine).toBe(true)
    expect(header).toEqual({ alg: 'RS256', typ: 'JWT', kid: 'key-1' })
    expect(claims).toMatchObject({
      iss: 'gateway@house.iam.example',
      scope: 'https://www.googleapis.com/auth/cloud-platform',
      aud: `${service.url}/token`,
    })
    expect(claims.exp - claims.iat).toBe(3600)
    expect(claims.iat).toBeGreaterThanOrEqual(before)
    const lines = privateKey.trim().split('\n').slice(1, -1)
    expect(owned.masked).toEqual([...lines, formOf(request!).assertion, 'ya29.first'])
  })

  it('may be the value of the option itself', async () => {
    const credentials = JSON.stringify(account())
    await googleLogin(owned.host, { ...PLACE, credentials }).credentials(patient)
    expect(claimsIn(service.requests[0]!).genuine).toBe(true)
  })

  it('is read anew for each renewal', async () => {
    const credentials = await written(account())
    service.answer(() => json({ access_token: 'short', expires_in: 0.001 }))
    const login = googleLogin(owned.host, { ...PLACE, credentials })
    await login.credentials(patient)
    await written({ ...account(), private_key_id: 'key-2' })
    await eventually(async () => {
      await login.credentials(patient)
      expect(service.requests.length).toBeGreaterThan(1)
    })
    expect(claimsIn(service.requests.at(-1)!).header.kid).toBe('key-2')
  })

  it('corrects the clock by that of the token service, once', async () => {
    const theirs = Date.now() + 3_600_000
    service.answer((request) => {
      const late = claimsIn(request).claims.iat * 1000 < theirs - 300_000
      const date = new Date(theirs).toUTCString()
      return late
        ? json({ error: 'invalid_grant' }, 400, { date })
        : json({ access_token: 'ya29.corrected', expires_in: 3599 }, 200, { date })
    })
    const { headers } = await headersWith(account())
    expect(headers).toEqual({ authorization: 'Bearer ya29.corrected' })
    expect(service.requests).toHaveLength(2)
  })

  it('does not repeat a refusal when the clocks agree', async () => {
    service.answer(() => json({ error: 'invalid_grant', error_description: 'of house' }, 400))
    expect(await reasonWith(account())).toBe(
      'option vertex.credentials (service account key): HTTP 400, invalid_grant',
    )
    expect(service.requests).toHaveLength(1)
  })

  it.each([
    ['no JSON', 'private_key', 'option vertex.credentials: expected a JSON object'],
    ['another type', { type: 'api_key' }, 'expected a file whose "type" is one of service_account'],
    ['no key', { type: 'service_account' }, '"private_key" is not there'],
    [
      'a broken key',
      { type: 'service_account', private_key: 'PEM secret', client_email: 'a' },
      '"private_key" is not a private key in PEM',
    ],
  ])('says what is wrong with a file of %s', async (_, file, reason) => {
    const message = await reasonWith(file)
    expect(message).toContain(reason)
    expect(message).not.toContain('PEM secret')
    expect(service.requests).toHaveLength(0)
  })

  it('names a file that is not there', async () => {
    const credentials = join(folder, 'none.json')
    const login = googleLogin(owned.host, { ...PLACE, credentials })
    const error = await login.credentials(patient).catch((reason: Error) => reason)
    expect((error as Error).cause).toHaveProperty(
      'message',
      `option vertex.credentials: ${credentials} cannot be read (ENOENT)`,
    )
  })
})

describe('application default credentials', () => {
  it('begin with the file of GOOGLE_APPLICATION_CREDENTIALS', async () => {
    vi.stubEnv('GOOGLE_APPLICATION_CREDENTIALS', await written(account(), 'named.json'))
    const { report } = await headersWith()
    expect(report.source).toBe('GOOGLE_APPLICATION_CREDENTIALS (service account key)')
  })

  it('go on with the login of the program gcloud, which may name who pays', async () => {
    const file = {
      type: 'authorized_user',
      client_id: 'client',
      client_secret: 'secret of gcloud',
      refresh_token: '1//refresh',
      token_uri: `${service.url}/token`,
      quota_project_id: 'payer',
    }
    await written(file, 'application_default_credentials.json')
    const { headers, report } = await headersWith()
    expect(headers).toEqual({
      authorization: 'Bearer ya29.first',
      'x-goog-user-project': 'payer',
    })
    expect(report.source).toBe('credentials of gcloud (authorized user)')
    expect(formOf(service.requests[0]!)).toEqual({
      grant_type: 'refresh_token',
      client_id: 'client',
      client_secret: 'secret of gcloud',
      refresh_token: '1//refresh',
    })
    expect(owned.masked).toEqual(['secret of gcloud', '1//refresh', 'ya29.first'])
  })

  it('end with the metadata server', async () => {
    const { headers, report } = await headersWith()
    expect(headers).toEqual({ authorization: 'Bearer ya29.first' })
    expect(report.source).toBe('metadata server')
    const [request] = service.requests
    expect(request!.method).toBe('GET')
    expect(request!.headers['metadata-flavor']).toBe('Google')
    expect(request!.path).toMatch(
      /^\/computeMetadata\/v1\/instance\/service-accounts\/default\/token\?scopes=/,
    )
  })

  it('say what was tried when there are none', async () => {
    await service.close()
    expect(await reasonWith()).toMatch(
      /^application default credentials: no GOOGLE_APPLICATION_CREDENTIALS, no credentials of gcloud; metadata server: ECONNREFUSED 127\.0\.0\.1:\d+: nothing listens there$/,
    )
  })
})

describe('workload identity federation', () => {
  const federation = (source: object, more: object = {}) => ({
    type: 'external_account',
    audience: '//iam.example/providers/cluster',
    subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
    token_url: `${service.url}/sts`,
    credential_source: source,
    ...more,
  })

  it('exchanges the token of a file', async () => {
    const file = await written('eyJ.subject\n', 'token')
    const { headers, report } = await headersWith(federation({ file }))
    expect(headers).toEqual({ authorization: 'Bearer ya29.first' })
    expect(report.source).toBe('option vertex.credentials (workload identity federation)')
    expect(formOf(service.requests[0]!)).toEqual({
      grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
      requested_token_type: 'urn:ietf:params:oauth:token-type:access_token',
      audience: '//iam.example/providers/cluster',
      scope: 'https://www.googleapis.com/auth/cloud-platform',
      subject_token: 'eyJ.subject',
      subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
    })
    expect(owned.masked).toEqual(['eyJ.subject', 'ya29.first'])
  })

  it('exchanges the token of an address, and acts as a service account', async () => {
    const endsAt = new Date(Date.now() + 7_200_000)
    service.answer(({ path }) => {
      if (path === '/subject') return json({ value: 'eyJ.subject' })
      if (path === '/sts') return json({ access_token: 'federated', expires_in: '3599' })
      return json({ accessToken: 'of-account', expireTime: endsAt.toISOString() })
    })
    const source = {
      url: `${service.url}/subject`,
      headers: { 'x-issuer': 'yes' },
      format: { type: 'json', subject_token_field_name: 'value' },
    }
    const { headers } = await headersWith(
      federation(source, {
        service_account_impersonation_url: `${service.url}/as:generateAccessToken`,
        service_account_impersonation: { token_lifetime_seconds: 7200 },
      }),
    )
    expect(headers).toEqual({ authorization: 'Bearer of-account' })
    const [subject, sts, impersonation] = service.requests
    expect(subject!.headers['x-issuer']).toBe('yes')
    expect(formOf(sts!).subject_token).toBe('eyJ.subject')
    expect(impersonation!.headers.authorization).toBe('Bearer federated')
    expect(impersonation!.json).toEqual({
      scope: ['https://www.googleapis.com/auth/cloud-platform'],
      lifetime: '7200s',
    })
  })

  it('names what it does not support', async () => {
    const message = await reasonWith(federation({ executable: { command: 'token' } }))
    expect(message).toContain('only "file" and "url" are supported in "credential_source"')
  })
})

it('acts as a service account for the account of a file', async () => {
  const date = new Date(Date.now() - 86_400_000)
  const endsAt = new Date(date.getTime() + 3_600_000)
  service.answer(({ path }) =>
    path === '/token'
      ? json({ access_token: 'own', expires_in: 3599 })
      : json({ accessToken: 'of-account', expireTime: endsAt.toISOString() }, 200, {
          date: date.toUTCString(),
        }),
  )
  const { headers, report } = await headersWith({
    type: 'impersonated_service_account',
    service_account_impersonation_url: `${service.url}/as:generateAccessToken`,
    delegates: ['first'],
    source_credentials: account(),
  })
  expect(headers).toEqual({ authorization: 'Bearer of-account' })
  expect(service.requests[1]!.json.delegates).toEqual(['first'])
  // The service is a day behind; its own clock says how long the token lives.
  expect(report.expiresAt).toBeGreaterThan(Date.now())
})

describe('Gemini on Vertex AI', () => {
  const ANSWER = { candidates: [{ content: { parts: [{ text: 'Hi' }] }, finishReason: 'STOP' }] }

  it.each([
    ['europe-west4', 'https://europe-west4-aiplatform.googleapis.com'],
    ['global', 'https://aiplatform.googleapis.com'],
    ['us', 'https://aiplatform.us.rep.googleapis.com'],
    ['eu', 'https://aiplatform.eu.rep.googleapis.com'],
  ])('has the address of %s', (location, origin) => {
    expect(vertexAddress({ project: 'house', location })).toBe(
      `${origin}/v1/projects/house/locations/${location}`,
    )
  })

  it('is asked with the token of the login, and again after a 401', async () => {
    let tokens = 0
    service.answer(({ path, headers }) => {
      if (path.startsWith('/computeMetadata')) {
        return json({ access_token: `ya29.${++tokens}`, expires_in: 3599 })
      }
      return headers.authorization === 'Bearer ya29.2' ? json(ANSWER) : json({}, 401)
    })
    await using setup = await setUp(google, { baseURL: `${service.url}/v1`, vertex: PLACE })
    const { completion } = await setup.outcome({}, { model: 'gemini-2.5-flash' })
    expect(completion.choices[0]!.message.content).toBe('Hi')
    const { path, headers } = service.requests.at(-1)!
    expect(path).toBe(
      '/v1/projects/house/locations/europe-west4/publishers/google/models/gemini-2.5-flash:generateContent',
    )
    expect(headers['x-goog-api-key']).toBeUndefined()
    expect(await setup.provider.logIn!(patient)).toMatchObject({ source: 'metadata server' })
  })

  it('reaches a tuned model at its endpoint', async () => {
    service.answer(({ path }) =>
      path.startsWith('/computeMetadata')
        ? json({ access_token: 'ya29', expires_in: 3599 })
        : json(ANSWER),
    )
    await using setup = await setUp(google, { baseURL: `${service.url}/v1`, vertex: PLACE })
    await setup.outcome({}, { model: 'endpoints/123' })
    expect(service.requests.at(-1)!.path).toBe(
      '/v1/projects/house/locations/europe-west4/endpoints/123:generateContent',
    )
  })

  it.each([
    ['gemini-embedding-001', [1, 1, 1]],
    ['text-embedding-005', [3]],
  ])('makes vectors of texts with %s', async (model, sizes) => {
    service.answer((request) =>
      request.path.startsWith('/computeMetadata')
        ? json({ access_token: 'ya29', expires_in: 3599 })
        : json({
            predictions: request.json.instances.map(({ content }: any) => ({
              embeddings: { values: [Number(content)], statistics: { token_count: 2 } },
            })),
          }),
    )
    await using setup = await setUp(google, { baseURL: `${service.url}/v1`, vertex: PLACE })
    const embed = (input: readonly string[] | readonly number[][]) =>
      setup.provider.embed!({
        input: { input, encoding_format: 'float', dimensions: 1, task_type: 'CLUSTERING' },
        model,
        options: {},
        requestId: 'req_1',
        signal: patient,
        log: silent,
      })
    const answer = await embed(['1', '2', '3'])
    expect(answer.data.map(({ embedding }) => embedding)).toEqual([[1], [2], [3]])
    expect(answer.usage).toEqual({ promptTokens: 6 })
    const asked = service.requests.filter(({ path }) => path.includes(':predict'))
    expect(asked.map(({ json: body }) => body.instances.length)).toEqual(sizes)
    expect(asked[0]!.path).toBe(
      `/v1/projects/house/locations/europe-west4/publishers/google/models/${model}:predict`,
    )
    const { instances, parameters } = asked[0]!.json
    expect(instances[0]).toEqual({ content: '1', task_type: 'CLUSTERING' })
    expect(parameters).toEqual({ outputDimensionality: 1 })
    await expect(embed([[1, 2]])).rejects.toMatchObject({ code: 'unsupported_value' })
    service.answer(json({ predictions: [{}] }))
    await expect(embed(['1'])).resolves.toMatchObject({ data: [{ embedding: undefined }] })
    service.answer(json({ nothing: 'here' }))
    await expect(embed(['1'])).rejects.toMatchObject({ failure: 'upstream_error' })
  })

  it('takes a key or a login, not both', async () => {
    await expect(setUp(google, { apiKey: 'key', vertex: PLACE })).rejects.toThrow(
      'either "apiKey" or "vertex"',
    )
  })
})
