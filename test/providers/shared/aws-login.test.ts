/** Amazon's sources of credentials, with their services on one real socket, and models of Bedrock. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { AwsV4Signer } from 'aws4fetch'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import bedrock from '../../../providers/bedrock.ts'
import { awsLogin } from '../../../providers/shared/cloud/aws.ts'
import { UpstreamFailure } from '../../../src/errors/errors.ts'
import { folder } from '../../_folder.ts'
import { json, startUpstream, type FakeUpstream, type ReceivedRequest } from '../../upstream.ts'
import { setUp } from '../_chat.ts'
import { loginHost, patient, type LoginHost } from './_login.ts'

type AwsChain = Parameters<typeof awsLogin>[1]

const REGION = 'eu-central-1'

let service: FakeUpstream
let owned: LoginHost
let home: string

beforeEach(async () => {
  service = await startUpstream()
  owned = loginHost()
  home = await folder({})
  for (const name of Object.keys(process.env)) {
    if (name.startsWith('AWS_')) vi.stubEnv(name, undefined)
  }
  vi.stubEnv('AWS_CONFIG_FILE', join(home, 'config'))
  vi.stubEnv('AWS_SHARED_CREDENTIALS_FILE', join(home, 'credentials'))
  vi.stubEnv('AWS_ENDPOINT_URL_STS', service.url)
  vi.stubEnv('AWS_EC2_METADATA_SERVICE_ENDPOINT', service.url)
  service.answer(answer)
})

afterEach(async () => {
  vi.unstubAllEnvs()
  await owned[Symbol.asyncDispose]()
  await service.close()
})

const endIn = (ms: number, from = Date.now()) => new Date(from + ms).toISOString()
const xml = (text: string, status = 200) => ({
  status,
  headers: { 'content-type': 'text/xml' },
  pieces: [text],
})
const rolesKey = (action: string, from = Date.now()) =>
  xml(`<${action}Response><${action}Result><AssumedRoleUser><Arn>arn:aws:sts::1:role</Arn></AssumedRoleUser>
    <Credentials><AccessKeyId>ASIA-ROLE</AccessKeyId><SecretAccessKey>secret/of+role=</SecretAccessKey>
    <SessionToken>token/of+role=</SessionToken><Expiration>${endIn(3_600_000, from)}</Expiration></Credentials>
    </${action}Result></${action}Response>`)
const machinesKey = () => ({
  Code: 'Success',
  AccessKeyId: 'ASIA-MACHINE',
  SecretAccessKey: 'secret of machine',
  Token: 'token of machine',
  Expiration: endIn(3_600_000),
})

/** All services at one address. */
function answer({ method, path, body }: ReceivedRequest) {
  if (path === '/latest/api/token' && method === 'PUT') return { pieces: ['imds-token'] }
  if (path === '/latest/meta-data/iam/security-credentials/') return { pieces: ['house role'] }
  if (path === '/latest/meta-data/iam/security-credentials/house%20role') return json(machinesKey())
  if (path === '/container') return json({ ...machinesKey(), AccessKeyId: 'ASIA-CONTAINER' })
  return rolesKey(new URLSearchParams(body.toString()).get('Action')!)
}

async function loggedIn(chain: Partial<AwsChain> = {}) {
  const login = awsLogin(owned.host, { region: REGION, ...chain })
  const credentials = await login.credentials(patient)
  return { credentials, report: await login.report(patient) }
}

async function reasonWith(chain: Partial<AwsChain> = {}): Promise<string> {
  const error: unknown = await loggedIn(chain).catch((reason: unknown) => reason)
  if (!UpstreamFailure.is(error)) throw new Error('expected a failure', { cause: error })
  expect(error.failure).toBe('upstream_auth')
  return (error.cause as Error).message
}

const files = (config: string, credentials = '') =>
  Promise.all([
    writeFile(join(home, 'config'), config),
    writeFile(join(home, 'credentials'), credentials),
  ])
const formOf = ({ body }: ReceivedRequest) =>
  Object.fromEntries(new URLSearchParams(body.toString()))

/** Whether a request has the signature of this key. */
async function isSignedBy(
  { headers, body, path }: ReceivedRequest,
  key: { accessKeyId: string; secretAccessKey: string; sessionToken?: string },
  name: string,
): Promise<boolean> {
  const signer = new AwsV4Signer({
    ...key,
    url: `${service.url}${path}`,
    body: body.toString(),
    service: name,
    region: REGION,
    datetime: String(headers['x-amz-date']),
  })
  return (await signer.sign()).headers.get('authorization') === headers.authorization
}

describe('credentials: chain', () => {
  it('begins with the environment', async () => {
    vi.stubEnv('AWS_ACCESS_KEY_ID', 'AKIA-ENV')
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'secret of env')
    vi.stubEnv('AWS_SESSION_TOKEN', 'token of env')
    const { credentials, report } = await loggedIn()
    expect(credentials).toEqual({
      accessKeyId: 'AKIA-ENV',
      secretAccessKey: 'secret of env',
      sessionToken: 'token of env',
    })
    expect(report).toEqual({ source: 'environment' })
    expect(owned.masked).toEqual(['secret of env', 'token of env'])
    expect(service.requests).toHaveLength(0)
  })

  it('goes on with the shared files, of which "credentials" wins', async () => {
    await files(
      '[default]\nregion = x\naws_access_key_id = AKIA-CONFIG\naws_secret_access_key = old\n',
      '# by hand\n[default]\naws_access_key_id=AKIA-FILE\r\n  s3 =\naws_secret_access_key = secret of file\n',
    )
    const { credentials, report } = await loggedIn()
    expect(credentials).toEqual({
      accessKeyId: 'AKIA-FILE',
      secretAccessKey: 'secret of file',
      sessionToken: undefined,
    })
    expect(report).toEqual({ source: 'profile default' })
  })

  it('uses the profile of AWS_PROFILE, and that of the option before the environment', async () => {
    await files(
      '[profile one]\naws_access_key_id = ONE\naws_secret_access_key = secret one\n[profile two]\naws_access_key_id = TWO\naws_secret_access_key = secret two',
    )
    vi.stubEnv('AWS_PROFILE', 'one')
    expect((await loggedIn()).credentials.accessKeyId).toBe('ONE')
    vi.stubEnv('AWS_ACCESS_KEY_ID', 'ENV')
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'secret env')
    expect((await loggedIn({ profile: 'two' })).credentials.accessKeyId).toBe('TWO')
    expect(await reasonWith({ profile: 'three' })).toBe(
      'option profile: there is no profile "three" in the shared files',
    )
  })

  it('uses the token of a cluster', async () => {
    const path = join(home, 'token')
    await writeFile(path, 'eyJ.cluster\n')
    vi.stubEnv('AWS_WEB_IDENTITY_TOKEN_FILE', path)
    vi.stubEnv('AWS_ROLE_ARN', 'arn:aws:iam::1:role/pod')
    const { credentials, report } = await loggedIn()
    expect(credentials).toEqual({
      accessKeyId: 'ASIA-ROLE',
      secretAccessKey: 'secret/of+role=',
      sessionToken: 'token/of+role=',
    })
    expect(report.source).toBe('web identity')
    expect(report.expiresAt).toBeGreaterThan(Date.now())
    const [request] = service.requests
    expect(request!.headers.authorization).toBeUndefined()
    expect(formOf(request!)).toEqual({
      Action: 'AssumeRoleWithWebIdentity',
      Version: '2011-06-15',
      RoleArn: 'arn:aws:iam::1:role/pod',
      RoleSessionName: 'sluicegate',
      WebIdentityToken: 'eyJ.cluster',
    })
    expect(owned.masked).toEqual(['eyJ.cluster', 'secret/of+role=', 'token/of+role='])
  })

  it('asks the endpoint of a container, with the token of its file', async () => {
    await writeFile(join(home, 'pod'), 'pod-token\n')
    vi.stubEnv('AWS_CONTAINER_CREDENTIALS_FULL_URI', `${service.url}/container`)
    vi.stubEnv('AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE', join(home, 'pod'))
    const { credentials, report } = await loggedIn()
    expect(credentials.accessKeyId).toBe('ASIA-CONTAINER')
    expect(report.source).toBe('container')
    expect(service.requests[0]!.headers.authorization).toBe('pod-token')
  })

  it('sends the token of a container to no other machine in the clear', async () => {
    vi.stubEnv('AWS_CONTAINER_CREDENTIALS_FULL_URI', 'http://192.0.2.1/container')
    expect(await reasonWith()).toContain('AWS_CONTAINER_CREDENTIALS_FULL_URI has to be https')
  })

  it('ends with the role of the instance, by version 2 of the metadata service', async () => {
    const { credentials, report } = await loggedIn()
    expect(credentials).toEqual({
      accessKeyId: 'ASIA-MACHINE',
      secretAccessKey: 'secret of machine',
      sessionToken: 'token of machine',
    })
    expect(report.source).toBe('instance metadata')
    const [token, role, key] = service.requests
    expect(token!.headers['x-aws-ec2-metadata-token-ttl-seconds']).toBe('300')
    for (const { headers } of [role!, key!]) {
      expect(headers['x-aws-ec2-metadata-token']).toBe('imds-token')
    }
  })

  it('says what was tried when there is nothing', async () => {
    vi.stubEnv('AWS_EC2_METADATA_DISABLED', 'true')
    expect(await reasonWith()).toBe(
      'credentials: chain: nothing in the environment, no profile "default", no web identity, no container; instance metadata: disabled by AWS_EC2_METADATA_DISABLED',
    )
    expect(service.requests).toHaveLength(0)
  })

  it.each([
    ['a failure', { Code: 'Failed', Message: 'secret' }, 'could not give credentials'],
    ['no key', { Code: 'Success' }, '"SecretAccessKey" is not there'],
    ['a key without an end', { Expiration: 'soon' }, 'the credentials have no end'],
    ['an old key', { Expiration: '2020-01-01T00:00:00Z' }, 'the credentials have expired'],
  ])('refuses %s of the metadata service', async (_, body, reason) => {
    const key = 'Code' in body ? body : { ...machinesKey(), ...body }
    service.answer((request) => {
      const usual = answer(request)
      return request.path.endsWith('house%20role') ? json(key) : usual
    })
    expect(await reasonWith()).toContain(reason)
  })
})

describe('profiles', () => {
  it('assume a role with the credentials of another profile', async () => {
    await files(
      '[profile role]\nrole_arn = arn:aws:iam::1:role/a\nsource_profile = base\nexternal_id = shared\nrole_session_name = gate\nduration_seconds = 900\n',
      '[base]\naws_access_key_id = AKIA-BASE\naws_secret_access_key = secret of base\n',
    )
    const { credentials, report } = await loggedIn({ profile: 'role' })
    expect(credentials.accessKeyId).toBe('ASIA-ROLE')
    expect(report.source).toBe('role by profile base')
    const [request] = service.requests
    expect(formOf(request!)).toEqual({
      Action: 'AssumeRole',
      Version: '2011-06-15',
      RoleArn: 'arn:aws:iam::1:role/a',
      RoleSessionName: 'gate',
      ExternalId: 'shared',
      DurationSeconds: '900',
    })
    const base = { accessKeyId: 'AKIA-BASE', secretAccessKey: 'secret of base' }
    expect(await isSignedBy(request!, base, 'sts')).toBe(true)
  })

  it('assume a role with their own key, or that of a named source', async () => {
    await files(
      '[profile self]\nrole_arn = arn:aws:iam::1:role/a\nsource_profile = self\naws_access_key_id = SELF\naws_secret_access_key = secret self\n[profile machine]\nrole_arn = arn:aws:iam::1:role/a\ncredential_source = Ec2InstanceMetadata\n',
    )
    expect((await loggedIn({ profile: 'self' })).report.source).toBe('role by profile self')
    const { report } = await loggedIn({ profile: 'machine' })
    expect(report.source).toBe('role by instance metadata')
  })

  it('run a program', async () => {
    const key = {
      Version: 1,
      AccessKeyId: 'ASIA-PROGRAM',
      SecretAccessKey: 'secret of program',
      SessionToken: 'token',
      Expiration: endIn(3_600_000),
    }
    await writeFile(join(home, 'key.json'), JSON.stringify(key))
    await files(`[profile program]\ncredential_process = cat "${join(home, 'key.json')}"\n`)
    const { credentials, report } = await loggedIn({ profile: 'program' })
    expect(credentials.accessKeyId).toBe('ASIA-PROGRAM')
    expect(report.source).toBe('profile program, credential_process')
  })

  it.each([
    [
      'source_profile = b\nrole_arn = arn:a',
      'profile a: its "source_profile" leads back to itself',
    ],
    ['region = x', 'profile a: it has no credentials'],
    ['sso_session = house', 'profile a: a sign-in of a person (SSO) is used with'],
    ['role_arn = arn:a\nmfa_serial = x', 'profile a: "mfa_serial" needs a person'],
    ['role_arn = arn:a', 'profile a: "role_arn" needs "source_profile"'],
    ['role_arn = arn:a\nsource_profile = c', 'profile c: there is no such profile'],
    [
      'credential_process = echo "my secret"; echo "my secret" >&2; exit 3',
      'profile a, credential_process: the program failed (3)',
    ],
    ['credential_process = echo "my secret"', 'credential_process: expected a JSON object'],
  ])('say what is wrong: %j', async (members, reason) => {
    await files(`[profile a]\n${members}\n[profile b]\nrole_arn = arn:b\nsource_profile = a\n`)
    const message = await reasonWith({ profile: 'a' })
    expect(message).toContain(reason)
    expect(message).not.toContain('my secret')
  })
})

describe('a role on top', () => {
  const chain = { roleArn: 'arn:aws:iam::2:role/top', externalId: 'shared', sessionName: 'gate' }

  it('is assumed with what was found', async () => {
    const { credentials, report } = await loggedIn(chain)
    expect(credentials.accessKeyId).toBe('ASIA-ROLE')
    expect(report.source).toBe('role by instance metadata')
    const request = service.requests.at(-1)!
    expect(formOf(request)).toMatchObject({
      RoleArn: 'arn:aws:iam::2:role/top',
      ExternalId: 'shared',
      RoleSessionName: 'gate',
    })
    const machine = {
      accessKeyId: 'ASIA-MACHINE',
      secretAccessKey: 'secret of machine',
      sessionToken: 'token of machine',
    }
    expect(await isSignedBy(request, machine, 'sts')).toBe(true)
  })

  it('corrects the clock by that of the service, once', async () => {
    const theirs = new Date(Date.now() - 7_200_000)
    const dated = { date: theirs.toUTCString() }
    service.answer((request) => {
      if (request.path !== '/') return answer(request)
      const day = String(request.headers['x-amz-date']).replace(
        /(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z/,
        '$1-$2-$3T$4:$5:$6Z',
      )
      const wrong = Math.abs(Date.parse(day) - theirs.getTime()) > 300_000
      const code = '<Error><Code>SignatureDoesNotMatch</Code><Message>my secret</Message></Error>'
      const key = rolesKey('AssumeRole', theirs.getTime())
      return { ...(wrong ? xml(code, 403) : key), headers: dated }
    })
    const { report } = await loggedIn(chain)
    // The key ends by the clock of the service, which is two hours behind.
    expect(report.expiresAt).toBeGreaterThan(Date.now())
    expect(service.requests.filter(({ path }) => path === '/')).toHaveLength(2)
  })

  it('names a refusal, and nothing else of it', async () => {
    service.answer((request) =>
      request.path === '/'
        ? xml('<Error><Code>AccessDenied</Code><Message>my secret</Message></Error>', 403)
        : answer(request),
    )
    expect(await reasonWith(chain)).toBe('role by instance metadata: HTTP 403, AccessDenied')
  })
})

describe('bedrock', () => {
  const ANSWER = {
    output: { message: { role: 'assistant', content: [{ text: 'Hi' }] } },
    stopReason: 'end_turn',
    usage: { inputTokens: 1, outputTokens: 1, totalTokens: 2 },
  }
  const options = () => ({ region: REGION, baseURL: service.url, credentials: 'chain' })

  it('signs with credentials of the chain, and gets others when they have expired', async () => {
    let keys = 0
    service.answer((request) => {
      if (request.path.endsWith('house%20role')) {
        return json({ ...machinesKey(), AccessKeyId: `ASIA-${++keys}` })
      }
      if (!request.path.startsWith('/model')) return answer(request)
      const old = String(request.headers.authorization).includes('Credential=ASIA-1/')
      const name = { 'x-amzn-errortype': 'ExpiredTokenException:http://internal' }
      return old ? json({ message: 'expired' }, 403, name) : json(ANSWER)
    })
    await using setup = await setUp(bedrock, options())
    const { completion } = await setup.outcome({}, { model: 'amazon.nova-lite-v1:0' })
    expect(completion.choices[0]!.message.content).toBe('Hi')
    const key = {
      accessKeyId: 'ASIA-2',
      secretAccessKey: 'secret of machine',
      sessionToken: 'token of machine',
    }
    expect(await isSignedBy(service.requests.at(-1)!, key, 'bedrock')).toBe(true)
    expect((await setup.provider.logIn!(patient)).source).toBe('instance metadata')
  })

  it('hands a lasting refusal on', async () => {
    const name = { 'x-amzn-errortype': 'ExpiredTokenException' }
    service.answer((request) =>
      request.path.startsWith('/model') ? json({}, 403, name) : answer(request),
    )
    await using setup = await setUp(bedrock, options())
    const { failure } = await setup.outcome({}, { model: 'amazon.nova-lite-v1:0' })
    expect(failure?.failure).toBe('upstream_auth')
    expect(service.requests.filter(({ path }) => path.startsWith('/model'))).toHaveLength(2)
  })

  it.each([
    [{}, 'either "apiKey", or "accessKeyId" and "secretAccessKey", or "credentials: chain"'],
    [{ apiKey: 'key', credentials: 'chain' }, 'either "apiKey", or'],
    [{ accessKeyId: 'a', secretAccessKey: 'b', credentials: 'chain' }, 'either "apiKey", or'],
    [{ credentials: 'chain', sessionToken: 'a' }, 'either "apiKey", or'],
    [{ apiKey: 'key', roleArn: 'arn:a' }, 'only with "credentials: chain"'],
    [{ credentials: 'chain', externalId: 'a' }, 'only with "roleArn"'],
  ])('refuses %j', async (given, reason) => {
    await expect(setUp(bedrock, { region: REGION, ...given })).rejects.toThrow(reason)
  })
})
