/**
 * Logins of Amazon: the places where Amazon's own programs look, in their order, and roles on top.
 * https://docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html
 */
import { exec } from 'node:child_process'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Host } from '../../../src/plugin.ts'
import { type AwsCredentials, signatureOf } from './aws-signature.ts'
import { Login, type Issued } from './login.ts'
import {
  LoginFailure,
  type LoginRequests,
  objectOf,
  byTheirClock,
  encodeForm,
  type LoginAnswer,
  type LoginRequest,
  textOf,
} from './requests.ts'

/** Where credentials come from. */
interface AwsChain {
  readonly region: string
  /** The profile of the shared files; others are not read. */
  readonly profile?: string | undefined
  /** A role that is assumed with the credentials that were found. */
  readonly roleArn?: string | undefined
  readonly externalId?: string | undefined
  readonly sessionName?: string | undefined
}

/** A login with Amazon. The caller closes it. */
export function awsLogin(host: Host, chain: AwsChain): Login<AwsCredentials> {
  const { region, profile, roleArn, externalId, sessionName } = chain
  return new Login(host, async (requests) => {
    const credentials =
      profile === undefined
        ? await fromFirst(requests, region)
        : await named(requests, region, profile, 'option profile')
    if (roleArn === undefined) return credentials
    return assumeRole(requests, region, credentials, { roleArn, externalId, sessionName })
  })
}

async function fromFirst(requests: LoginRequests, region: string): Promise<Issued<AwsCredentials>> {
  const { env } = process
  const { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey } = env
  if (accessKeyId && secretAccessKey) {
    const { AWS_SESSION_TOKEN: sessionToken } = env
    requests.mask(secretAccessKey, sessionToken)
    const credentials = { accessKeyId, secretAccessKey, sessionToken }
    return { credentials, lifetimeMs: Infinity, source: 'environment' }
  }
  if (env.AWS_PROFILE) return named(requests, region, env.AWS_PROFILE, 'AWS_PROFILE')
  const profiles = await readProfiles(requests)
  if (profiles.has('default')) return fromProfile(requests, region, profiles, 'default')
  if (env.AWS_WEB_IDENTITY_TOKEN_FILE) {
    return assumeRoleWithWebIdentity(requests, region, {
      tokenFile: env.AWS_WEB_IDENTITY_TOKEN_FILE,
      roleArn: env.AWS_ROLE_ARN,
      sessionName: env.AWS_ROLE_SESSION_NAME,
    })
  }
  return (await fromContainer(requests)) ?? fromMachine(requests)
}

async function named(
  requests: LoginRequests,
  region: string,
  profile: string,
  by: string,
): Promise<Issued<AwsCredentials>> {
  const profiles = await readProfiles(requests)
  if (profiles.has(profile)) return fromProfile(requests, region, profiles, profile)
  throw new LoginFailure(by, `there is no profile "${profile}" in the shared files`)
}

/** The last source: when it fails, the others had nothing. */
async function fromMachine(requests: LoginRequests): Promise<Issued<AwsCredentials>> {
  try {
    return await fromInstance(requests)
  } catch (error) {
    requests.signal.throwIfAborted()
    const others = 'nothing in the environment, no profile "default", no web identity, no container'
    throw new LoginFailure('credentials: chain', `${others}; ${LoginFailure.of(error).message}`)
  }
}

// Profiles in Amazon's shared files.
// https://docs.aws.amazon.com/sdkref/latest/guide/file-format.html

type Profile = Readonly<Record<string, string | undefined>>
type Profiles = ReadonlyMap<string, Profile>

/** The profiles of both files, by name; a file that is not there has none. Those of the file `credentials` win. */
async function readProfiles(requests: LoginRequests): Promise<Profiles> {
  const folder = join(homedir(), '.aws')
  const { AWS_CONFIG_FILE: config, AWS_SHARED_CREDENTIALS_FILE: credentials } = process.env
  const profiles = new Map<string, Profile>()
  for (const [path, prefix] of [
    [config || join(folder, 'config'), 'profile '],
    [credentials || join(folder, 'credentials'), ''],
  ] as const) {
    const text = await requests.read('shared files', path).catch(() => '')
    requests.signal.throwIfAborted()
    for (const [section, members] of sectionsIn(text)) {
      const isProfile = section === 'default' || section.startsWith(prefix)
      if (!isProfile) continue
      const name = section === 'default' ? section : section.slice(prefix.length).trim()
      profiles.set(name, { ...profiles.get(name), ...members })
    }
  }
  return profiles
}

/** The credentials of a profile, which may refer to others. @param before the profiles that referred to it @throws LoginFailure */
async function fromProfile(
  requests: LoginRequests,
  region: string,
  profiles: Profiles,
  name: string,
  before: readonly string[] = [],
): Promise<Issued<AwsCredentials>> {
  const source = `profile ${name}`
  const profile = profiles.get(name)
  if (!profile) throw new LoginFailure(source, 'there is no such profile in the shared files')
  const { role_arn: roleArn, aws_access_key_id: id, aws_secret_access_key: secret } = profile
  const isStatic = Boolean(id && secret)
  // A profile with a role may name itself as the source: its own key then assumes the role.
  if (before.includes(name) && !(isStatic && before.at(-1) === name)) {
    throw new LoginFailure(source, 'its "source_profile" leads back to itself')
  }
  if (roleArn && !(isStatic && before.length > 0)) {
    const { source_profile: next } = profile
    return fromRole(requests, region, { source, profile, roleArn }, () =>
      next
        ? fromProfile(requests, region, profiles, next, [...before, name])
        : fromNamedSource(requests, source, profile),
    )
  }
  if (isStatic) {
    const { aws_session_token: SessionToken } = profile
    const key = { AccessKeyId: id, SecretAccessKey: secret, SessionToken }
    return issuedFrom(requests, source, key, 0)
  }
  if (profile.credential_process) {
    return fromProcess(requests, source, profile.credential_process)
  }
  throw new LoginFailure(source, adviceFor(profile))
}

interface ProfileWithRole {
  readonly source: string
  readonly profile: Profile
  readonly roleArn: string
}

/** @param inner gets the credentials that assume the role */
async function fromRole(
  requests: LoginRequests,
  region: string,
  { source, profile, roleArn }: ProfileWithRole,
  inner: () => Promise<Issued<AwsCredentials>>,
): Promise<Issued<AwsCredentials>> {
  const { web_identity_token_file: tokenFile, role_session_name: sessionName } = profile
  if (tokenFile)
    return assumeRoleWithWebIdentity(requests, region, { tokenFile, roleArn, sessionName })
  if (profile.mfa_serial) throw new LoginFailure(source, '"mfa_serial" needs a person')
  const { external_id: externalId, duration_seconds: durationSeconds } = profile
  const role = { roleArn, externalId, sessionName, durationSeconds }
  return assumeRole(requests, region, await inner(), role)
}

function adviceFor({ sso_session: session, sso_start_url: start }: Profile): string {
  if (!session && !start) return 'it has no credentials'
  const command = 'aws configure export-credentials --format process'
  return `a sign-in of a person (SSO) is used with "credential_process = ${command} --profile …"`
}

/** What `credential_source` names. */
async function fromNamedSource(
  requests: LoginRequests,
  source: string,
  { credential_source: kind }: Profile,
): Promise<Issued<AwsCredentials>> {
  if (kind === 'Ec2InstanceMetadata') return fromInstance(requests)
  if (kind === 'Environment') {
    const { AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN } = process.env
    return issuedFrom(
      requests,
      'environment',
      {
        AccessKeyId: AWS_ACCESS_KEY_ID,
        SecretAccessKey: AWS_SECRET_ACCESS_KEY,
        SessionToken: AWS_SESSION_TOKEN,
      },
      0,
    )
  }
  const credentials = kind === 'EcsContainer' ? await fromContainer(requests) : undefined
  if (credentials) return credentials
  const expected = '"source_profile", or "credential_source" with a source that is there'
  throw new LoginFailure(source, `"role_arn" needs ${expected}`)
}

const run = promisify(exec)
const MAX_BYTES = 64 * 1024

/** https://docs.aws.amazon.com/sdkref/latest/guide/feature-process-credentials.html */
async function fromProcess(
  requests: LoginRequests,
  profile: string,
  command: string,
): Promise<Issued<AwsCredentials>> {
  const source = `${profile}, credential_process`
  const { signal } = requests
  const { stdout } = await run(command, { signal, maxBuffer: MAX_BYTES }).catch(
    (error: unknown) => {
      signal.throwIfAborted()
      // The message of the error has the command and what it printed.
      const { code } = Object(error) as { readonly code?: unknown }
      throw new LoginFailure(
        source,
        `the program failed (${typeof code === 'number' ? code : 'not run'})`,
      )
    },
  )
  const body = objectOf(source, stdout)
  if (body.Version !== 1) throw new LoginFailure(source, 'expected "Version": 1')
  return issuedFrom(requests, source, body, Date.now())
}

/** Sections with their members. Indented lines belong to settings that have members of their own, which are not needed. */
function sectionsIn(text: string): [string, Profile][] {
  const sections: [string, Record<string, string>][] = []
  let members: Record<string, string> = {}
  for (const line of text.split(/\r?\n/)) {
    const section = /^\[([^\]]+)\]/.exec(line)?.[1]
    if (section !== undefined) {
      members = {}
      sections.push([section.trim(), members])
    }
    const [, name, value] = /^([^\s=#;[][^=]*?)\s*=\s*(.*?)\s*$/.exec(line) ?? []
    if (name && value) members[name.toLowerCase()] = value
  }
  return sections
}

// Roles, by Amazon's Security Token Service.

/** A role that credentials may assume. */
interface Role {
  readonly roleArn: string
  readonly externalId?: string | undefined
  readonly sessionName?: string | undefined
  readonly durationSeconds?: string | undefined
}

/** A role that the holder of a token may assume. */
interface WebIdentity {
  /** Path of the file with the token; read anew each time. */
  readonly tokenFile: string
  readonly roleArn: string | undefined
  readonly sessionName?: string | undefined
}

const VERSION = '2011-06-15'
/** Appears in the operator's audit log at Amazon. */
const SESSION_NAME = 'sluicegate'

/** Credentials of a role. @throws LoginFailure */
async function assumeRole(
  requests: LoginRequests,
  region: string,
  { credentials, source: from }: Issued<AwsCredentials>,
  { roleArn, externalId, sessionName, durationSeconds }: Role,
): Promise<Issued<AwsCredentials>> {
  const source = `role by ${from}`
  const url = addressOf(region)
  const body = encodeForm({
    Version: VERSION,
    Action: 'AssumeRole',
    RoleArn: roleArn,
    RoleSessionName: sessionName ?? SESSION_NAME,
    ExternalId: externalId,
    DurationSeconds: durationSeconds,
  })
  const answer = await byTheirClock(async (now) => {
    const signed = await signatureOf({ url, body, service: 'sts', region, credentials, now })
    return requests.ask(source, post(url, body, signed))
  })
  return issuedBy(requests, source, answer)
}

/** Credentials of a role for a token of another issuer, such as a Kubernetes cluster. @throws LoginFailure */
async function assumeRoleWithWebIdentity(
  requests: LoginRequests,
  region: string,
  { tokenFile, roleArn, sessionName }: WebIdentity,
): Promise<Issued<AwsCredentials>> {
  const source = 'web identity'
  if (!roleArn) throw new LoginFailure(source, 'set AWS_ROLE_ARN, or role_arn of the profile')
  const token = (await requests.read(source, tokenFile)).trim()
  requests.mask(token)
  const body = encodeForm({
    Version: VERSION,
    Action: 'AssumeRoleWithWebIdentity',
    RoleArn: roleArn,
    RoleSessionName: sessionName ?? SESSION_NAME,
    WebIdentityToken: token,
  })
  return issuedBy(requests, source, await requests.ask(source, post(addressOf(region), body)))
}

function addressOf(region: string): string {
  const { AWS_ENDPOINT_URL_STS: own } = process.env
  const domain = region.startsWith('cn-') ? 'amazonaws.com.cn' : 'amazonaws.com'
  return `${(own || `https://sts.${region}.${domain}`).replace(/\/+$/, '')}/`
}

function post(url: string, body: string, signed: Record<string, string> = {}): LoginRequest {
  const type = { 'content-type': 'application/x-www-form-urlencoded' }
  return { url, body, headers: { accept: 'application/xml', ...type, ...signed } }
}

/** The service answers in XML; none of the values can have an entity in it. */
function issuedBy(
  requests: LoginRequests,
  source: string,
  { text, now }: LoginAnswer,
): Issued<AwsCredentials> {
  const names = ['AccessKeyId', 'SecretAccessKey', 'SessionToken', 'Expiration']
  const entries = names.map((name) => [
    name,
    new RegExp(`<${name}>([^<]+)</${name}>`).exec(text)?.[1],
  ])
  const body: Record<string, unknown> = Object.fromEntries(entries)
  // Credentials of roles always expire.
  return issuedFrom(requests, source, { ...body, Expiration: body.Expiration ?? null }, now)
}

// Credentials that Amazon gives to a container or a machine.

/** ECS and EKS Pod Identity; undefined where the environment names no endpoint. @throws LoginFailure */
async function fromContainer(requests: LoginRequests): Promise<Issued<AwsCredentials> | undefined> {
  const {
    AWS_CONTAINER_CREDENTIALS_RELATIVE_URI: path,
    AWS_CONTAINER_CREDENTIALS_FULL_URI: full,
    AWS_CONTAINER_AUTHORIZATION_TOKEN: given,
    AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: file,
  } = process.env
  const source = 'container'
  const url = path ? `http://169.254.170.2${path}` : full
  if (!url) return undefined
  if (!isTrusted(url)) {
    const message =
      'AWS_CONTAINER_CREDENTIALS_FULL_URI has to be https, or an address of the machine'
    throw new LoginFailure(source, message)
  }
  const token = file ? (await requests.read(source, file)).trim() : given
  requests.mask(token)
  const headers: Record<string, string> = token ? { authorization: token } : {}
  return issuedToMachine(requests, source, await requests.ask(source, { url, headers }))
}

/** Where credentials may come from without encryption. */
const MACHINE =
  /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\]|169\.254\.170\.(?:2|23)|\[fd00:ec2::23\])$/

function isTrusted(address: string): boolean {
  const url = URL.parse(address)
  if (!url) return false
  return url.protocol === 'https:' || (url.protocol === 'http:' && MACHINE.test(url.hostname))
}

/** An answer comes at once, or never where there is no such service. */
const PROBE_MS = 2_000

/** The role of an instance, by version 2 of the metadata service. @throws LoginFailure */
async function fromInstance(requests: LoginRequests): Promise<Issued<AwsCredentials>> {
  const source = 'instance metadata'
  const { AWS_EC2_METADATA_DISABLED: disabled, AWS_EC2_METADATA_SERVICE_ENDPOINT: endpoint } =
    process.env
  if (disabled?.toLowerCase() === 'true') {
    throw new LoginFailure(source, 'disabled by AWS_EC2_METADATA_DISABLED')
  }
  const base = `${(endpoint || 'http://169.254.169.254').replace(/\/+$/, '')}/latest`
  const { text: token } = await requests.ask(source, {
    url: `${base}/api/token`,
    method: 'PUT',
    headers: { 'x-aws-ec2-metadata-token-ttl-seconds': '300' },
    withinMs: PROBE_MS,
  })
  requests.mask(token)
  const headers = { 'x-aws-ec2-metadata-token': token }
  const roles = `${base}/meta-data/iam/security-credentials/`
  const [role = ''] = (await requests.ask(source, { url: roles, headers })).text.trim().split('\n')
  if (role === '') throw new LoginFailure(source, 'the instance has no role')
  const url = roles + encodeURIComponent(role)
  return issuedToMachine(requests, source, await requests.ask(source, { url, headers }))
}

/** @throws LoginFailure */
function issuedToMachine(
  requests: LoginRequests,
  source: string,
  answer: LoginAnswer,
): Issued<AwsCredentials> {
  const body = answer.json()
  const { Code: code } = body
  if (code !== undefined && code !== 'Success') {
    throw new LoginFailure(source, 'the service could not give credentials')
  }
  return issuedFrom(requests, source, { ...body, SessionToken: body.Token }, answer.now)
}

/** Credentials with Amazon's names. @param now ms since epoch, by the clock that set the end @throws LoginFailure */
function issuedFrom(
  requests: LoginRequests,
  source: string,
  body: Readonly<Record<string, unknown>>,
  now: number,
): Issued<AwsCredentials> {
  const secretAccessKey = textOf(source, body, 'SecretAccessKey')
  const { SessionToken: token, Expiration: end } = body
  const sessionToken = typeof token === 'string' ? token : undefined
  requests.mask(secretAccessKey, sessionToken)
  const credentials = {
    accessKeyId: textOf(source, body, 'AccessKeyId'),
    secretAccessKey,
    sessionToken,
  }
  if (end === undefined) return { credentials, lifetimeMs: Infinity, source }
  return { credentials, lifetimeMs: Date.parse(String(end)) - now, source }
}
