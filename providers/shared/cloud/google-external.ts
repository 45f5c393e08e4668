/**
 * Workload identity federation: a token of another issuer becomes one of Google's (RFC 8693).
 * https://cloud.google.com/iam/docs/workload-identity-federation
 */
import { accessToken, impersonate, SCOPE, type Token } from './google-tokens.ts'
import { LoginFailure, objectOf, textOf, type LoginRequests } from './requests.ts'

type File = Readonly<Record<string, unknown>>

/** The token for a file of type `external_account`. @throws LoginFailure */
export async function externalToken(
  requests: LoginRequests,
  source: string,
  file: File,
): Promise<Token> {
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

/** For clients of workforce pools that have a secret. */
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

function headersOf(given: unknown): Record<string, string> {
  const entries = Object.entries(Object(given) as File)
  return Object.fromEntries(entries.map(([name, value]) => [name, String(value)]))
}

function filled(source: string, token: string): string {
  if (token !== '') return token
  throw new LoginFailure(source, 'the token to exchange is empty')
}
