/**
 * Logins of Google Cloud: application default credentials, or a file of the same forms.
 * https://cloud.google.com/docs/authentication/application-default-credentials
 */
import { sign } from 'node:crypto'
import { homedir } from 'node:os'
import { join } from 'node:path'
import * as v from 'valibot'
import type { Host } from '../../../src/plugin.ts'
import { Login, type AuthHeaders, type Issued } from './login.ts'
import {
  byTheirClock,
  LoginFailure,
  objectOf,
  textOf,
  type LoginRequests,
  type LoginAnswer,
} from './requests.ts'

const name = v.pipe(v.string(), v.regex(/^[\w.:-]+$/, 'a name of letters, digits and hyphens'))

/** Option of plugins whose models are on Vertex AI too. */
export const vertexOption = v.strictObject({
  project: name,
  location: name,
  /** A path, or the JSON itself; by default Google's application default credentials. */
  credentials: v.optional(v.pipe(v.string(), v.nonEmpty('a path, or JSON'))),
})

/** Its validated value. */
export type VertexOption = v.InferOutput<typeof vertexOption>

/** The address of a project's location. @param base replaces the part before `/projects` */
export function vertexAddress({ project, location }: VertexOption, base?: string): string {
  const origin = base?.replace(/\/+$/, '') ?? `https://${vertexHost(location)}/v1`
  return `${origin}/projects/${project}/locations/${location}`
}

/** A login for Vertex AI. The caller closes it. */
export function googleLogin(host: Host, { credentials }: VertexOption): Login<AuthHeaders> {
  return new Login(host, (requests) =>
    credentials === undefined ? fromSurroundings(requests) : fromOption(requests, credentials),
  )
}

function vertexHost(location: string): string {
  if (location === 'global') return 'aiplatform.googleapis.com'
  if (location === 'us' || location === 'eu') return `aiplatform.${location}.rep.googleapis.com`
  return `${location}-aiplatform.googleapis.com`
}

type File = Readonly<Record<string, unknown>>

function fromOption(requests: LoginRequests, option: string): Promise<Issued<AuthHeaders>> {
  const source = 'option vertex.credentials'
  if (!option.trimStart().startsWith('{')) return fromFile(requests, source, option)
  return issue(requests, source, objectOf(source, option))
}

/** The order of Google's libraries: the named file, that of the program gcloud, the metadata server. */
async function fromSurroundings(requests: LoginRequests): Promise<Issued<AuthHeaders>> {
  const { GOOGLE_APPLICATION_CREDENTIALS: named, CLOUDSDK_CONFIG: folder } = process.env
  if (named) return fromFile(requests, 'GOOGLE_APPLICATION_CREDENTIALS', named)
  const gcloud = join(folder || join(homedir(), '.config', 'gcloud'), GCLOUD_FILE)
  const source = 'credentials of gcloud'
  const text = await requests.read(source, gcloud).catch(() => undefined)
  requests.signal.throwIfAborted()
  return text === undefined
    ? fromMetadata(requests)
    : issue(requests, source, objectOf(source, text))
}

const GCLOUD_FILE = 'application_default_credentials.json'

async function fromFile(
  requests: LoginRequests,
  source: string,
  path: string,
): Promise<Issued<AuthHeaders>> {
  return issue(requests, source, objectOf(source, await requests.read(source, path)))
}

/** The identity of the machine. https://cloud.google.com/compute/docs/metadata/overview */
async function fromMetadata(requests: LoginRequests): Promise<Issued<AuthHeaders>> {
  const source = 'metadata server'
  const server = process.env.GCE_METADATA_HOST || 'metadata.google.internal'
  const url = `http://${server}/computeMetadata/v1/instance/service-accounts/default/token`
  const answer = await requests
    .ask(source, {
      url: `${url}?${new URLSearchParams({ scopes: SCOPE }).toString()}`,
      headers: { 'metadata-flavor': 'Google' },
    })
    .catch((error: unknown) => {
      requests.signal.throwIfAborted()
      const { message } = LoginFailure.of(error)
      const others = 'no GOOGLE_APPLICATION_CREDENTIALS, no credentials of gcloud'
      throw new LoginFailure('application default credentials', `${others}; ${message}`)
    })
  return issued(accessToken(requests, source, answer), source)
}

async function issue(
  requests: LoginRequests,
  where: string,
  file: File,
): Promise<Issued<AuthHeaders>> {
  const source = `${where} (${NAMES[String(file.type)] ?? 'of an unknown type'})`
  return issued(await tokenOf(requests, source, file), source, file)
}

const NAMES: Readonly<Record<string, string>> = {
  service_account: 'service account key',
  authorized_user: 'authorized user',
  external_account: 'workload identity federation',
  impersonated_service_account: 'impersonated service account',
}

async function tokenOf(requests: LoginRequests, source: string, file: File): Promise<Token> {
  switch (file.type) {
    case 'service_account':
      return byTheirClock((now) => serviceAccountToken(requests, source, file, now))
    case 'authorized_user':
      return authorizedUserToken(requests, source, file)
    case 'external_account':
      return externalToken(requests, source, file)
    case 'impersonated_service_account': {
      const inner = Object(file.source_credentials) as File
      const { token } = await tokenOf(requests, source, inner)
      const delegates = Array.isArray(file.delegates) ? { delegates: file.delegates } : {}
      const url = textOf(source, file, 'service_account_impersonation_url')
      return impersonate(requests, source, { url, token, ...delegates })
    }
    default: {
      const types = Object.keys(NAMES).join(', ')
      throw new LoginFailure(source, `expected a file whose "type" is one of ${types}`)
    }
  }
}

function issued(
  { token, lifetimeMs }: Token,
  source: string,
  { quota_project_id: quota }: File = {},
): Issued<AuthHeaders> {
  const headers: AuthHeaders = {
    authorization: `Bearer ${token}`,
    ...(typeof quota === 'string' && quota !== '' && { 'x-goog-user-project': quota }),
  }
  return { credentials: headers, lifetimeMs, source }
}

const TOKEN_URL = 'https://oauth2.googleapis.com/token'
/** The longest that Google allows. */
const ASSERTION_SECONDS = 3600

/** An assertion that is signed with the key of the account (RFC 7523). @param now ms since epoch */
async function serviceAccountToken(
  requests: LoginRequests,
  source: string,
  file: File,
  now: number,
): Promise<Token> {
  const key = textOf(source, file, 'private_key')
  // Its first and last line are no secret; masked, they would hide words of other texts.
  requests.mask(...key.split(/\r?\n/).filter((line) => line !== '' && !line.startsWith('-----')))
  const url = typeof file.token_uri === 'string' ? file.token_uri : TOKEN_URL
  const iat = Math.floor(now / 1000)
  const header = { alg: 'RS256', typ: 'JWT', kid: file.private_key_id }
  const iss = textOf(source, file, 'client_email')
  const claims = { iss, scope: SCOPE, aud: url, iat, exp: iat + ASSERTION_SECONDS }
  const text = [header, claims]
    .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
    .join('.')
  const assertion = `${text}.${signed(source, text, key)}`
  requests.mask(assertion)
  const form = { grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer', assertion }
  return accessToken(requests, source, await requests.ask(source, { url, form }))
}

function signed(source: string, text: string, key: string): string {
  try {
    return sign('RSA-SHA256', Buffer.from(text), key).toString('base64url')
  } catch {
    // The error may quote the key.
    throw new LoginFailure(source, '"private_key" is not a private key in PEM')
  }
}

async function authorizedUserToken(
  requests: LoginRequests,
  source: string,
  file: File,
): Promise<Token> {
  const form = {
    grant_type: 'refresh_token',
    client_id: textOf(source, file, 'client_id'),
    client_secret: textOf(source, file, 'client_secret'),
    refresh_token: textOf(source, file, 'refresh_token'),
  }
  requests.mask(form.client_secret, form.refresh_token)
  const url = typeof file.token_uri === 'string' ? file.token_uri : TOKEN_URL
  return accessToken(requests, source, await requests.ask(source, { url, form }))
}

// Workload identity federation: a token of another issuer becomes one of Google's (RFC 8693).
// https://cloud.google.com/iam/docs/workload-identity-federation

/** The token for a file of type `external_account`. @throws LoginFailure */
async function externalToken(requests: LoginRequests, source: string, file: File): Promise<Token> {
  const subject = await subjectToken(requests, source, Object(file.credential_source) as File)
  requests.mask(subject)
  const answer = await requests.ask(source, {
    url: textOf(source, file, 'token_url'),
    headers: clientOf(requests, file),
    form: {
      grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
      requested_token_type: 'urn:ietf:params:oauth:token-type:access_token',
      audience: textOf(source, file, 'audience'),
      scope: SCOPE,
      subject_token: subject,
      subject_token_type: textOf(source, file, 'subject_token_type'),
      options: userProject(file),
    },
  })
  const federated = accessToken(requests, source, answer)
  const { service_account_impersonation_url: url, service_account_impersonation: settings } = file
  if (typeof url !== 'string' || url === '') return federated
  const { token_lifetime_seconds: seconds } = Object(settings) as File
  const lifetime = typeof seconds === 'number' ? { lifetimeSeconds: seconds } : {}
  return impersonate(requests, source, { url, token: federated.token, ...lifetime })
}

/** The members for clients of workforce pools that have a secret. */
function clientOf(requests: LoginRequests, file: File): Record<string, string> {
  const { client_id: id, client_secret: secret } = file
  if (typeof id !== 'string' || typeof secret !== 'string') return {}
  requests.mask(secret)
  return { authorization: `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}` }
}

function userProject(file: File): string | undefined {
  const { workforce_pool_user_project: userProject, client_id: client } = file
  if (typeof userProject !== 'string' || client !== undefined) return undefined
  return JSON.stringify({ userProject })
}

/** The other issuer's token, which is written into a file or given at an address. */
async function subjectToken(requests: LoginRequests, source: string, from: File): Promise<string> {
  const text = await subjectText(requests, source, from)
  const { type, subject_token_field_name: field } = Object(from.format) as File
  if (type !== 'json') return filled(source, text.trim())
  return textOf(source, objectOf(source, text), typeof field === 'string' ? field : 'access_token')
}

async function subjectText(requests: LoginRequests, source: string, from: File): Promise<string> {
  // The file is read anew each time: its writer replaces the token before it expires.
  if (typeof from.file === 'string') return requests.read(source, from.file)
  if (typeof from.url === 'string') {
    const { text } = await requests.ask(source, { url: from.url, headers: headersOf(from.headers) })
    return text
  }
  const kinds = 'only "file" and "url" are supported in "credential_source"'
  throw new LoginFailure(source, kinds)
}

function headersOf(value: unknown): Record<string, string> {
  const entries = Object.entries(Object(value) as File)
  return Object.fromEntries(entries.map(([name, value]) => [name, String(value)]))
}

function filled(source: string, token: string): string {
  if (token !== '') return token
  throw new LoginFailure(source, 'the token to exchange is empty')
}

// Access tokens of Google's token services.

/** What Vertex AI asks for. */
const SCOPE = 'https://www.googleapis.com/auth/cloud-platform'

/** An access token. */
interface Token {
  readonly token: string
  readonly lifetimeMs: number
}

/** The token in an answer of OAuth 2.0. @throws LoginFailure when there is none, or no lifetime */
function accessToken(requests: LoginRequests, source: string, answer: LoginAnswer): Token {
  const body = answer.json()
  const token = textOf(source, body, 'access_token')
  requests.mask(token)
  // Some services send the number as a text.
  const seconds = Number(body.expires_in ?? Number.NaN)
  if (Number.isFinite(seconds)) return { token, lifetimeMs: seconds * 1000 }
  throw new LoginFailure(source, '"expires_in" is not a number')
}

/** Whose token is requested, and with which one. */
interface Impersonation {
  /** `…/serviceAccounts/<account>:generateAccessToken` */
  readonly url: string
  readonly token: string
  readonly lifetimeSeconds?: number
  readonly delegates?: readonly unknown[]
}

/** The token of a service account, for another identity that may act as it. @throws LoginFailure */
async function impersonate(
  requests: LoginRequests,
  source: string,
  { url, token, lifetimeSeconds = 3600, delegates }: Impersonation,
): Promise<Token> {
  const input = { scope: [SCOPE], lifetime: `${lifetimeSeconds}s`, ...(delegates && { delegates }) }
  const answer = await requests.ask(`${source}, impersonation`, {
    url,
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify(input),
  })
  const body = answer.json()
  const own = textOf(source, body, 'accessToken')
  requests.mask(own)
  const endsAt = Date.parse(textOf(source, body, 'expireTime'))
  return { token: own, lifetimeMs: endsAt - answer.now }
}
