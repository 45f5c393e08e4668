/** Credentials that Amazon gives to a container or a machine. */
import type { AwsCredentials } from './aws-signature.ts'
import type { Issued } from './login.ts'
import { LoginFailure, textOf, type LoginAnswer, type LoginRequests } from './requests.ts'

/** ECS and EKS Pod Identity; undefined where the environment names no endpoint. @throws LoginFailure */
export async function fromContainer(
  requests: LoginRequests,
): Promise<Issued<AwsCredentials> | undefined> {
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
  return issuedBy(requests, source, await requests.ask(source, { url, headers }))
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
export async function fromInstance(requests: LoginRequests): Promise<Issued<AwsCredentials>> {
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
  return issuedBy(requests, source, await requests.ask(source, { url, headers }))
}

/** @throws LoginFailure */
function issuedBy(
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
export function issuedFrom(
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
