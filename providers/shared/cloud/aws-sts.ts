/** Roles, by Amazon's Security Token Service. */
import { issuedFrom } from './aws-machine.ts'
import { signatureOf, type AwsCredentials } from './aws-signature.ts'
import type { Issued } from './login.ts'
import {
  byTheirClock,
  encodeForm,
  LoginFailure,
  type LoginAnswer,
  type LoginRequest,
  type LoginRequests,
} from './requests.ts'

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
export async function assumeRole(
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
export async function assumeRoleWithWebIdentity(
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
  const found = names.map((name) => [
    name,
    new RegExp(`<${name}>([^<]+)</${name}>`).exec(text)?.[1],
  ])
  const body: Record<string, unknown> = Object.fromEntries(found)
  // Credentials of roles always expire.
  return issuedFrom(requests, source, { ...body, Expiration: body.Expiration ?? null }, now)
}
