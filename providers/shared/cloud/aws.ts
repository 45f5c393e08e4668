/**
 * Logins of Amazon: the places where Amazon's own programs look, in their order, and roles on top.
 * https://docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html
 */
import type { Host } from '../../../src/plugin.ts'
import { fromContainer, fromInstance } from './aws-machine.ts'
import { fromProfile, readProfiles } from './aws-profiles.ts'
import type { AwsCredentials } from './aws-signature.ts'
import { assumeRole, assumeRoleWithWebIdentity } from './aws-sts.ts'
import { Login, type Issued } from './login.ts'
import { LoginFailure, type LoginRequests } from './requests.ts'

/** Where credentials come from. */
interface AwsChain {
  readonly region: string
  /** Only this profile of the shared files. */
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
    const found =
      profile === undefined
        ? await fromFirst(requests, region)
        : await named(requests, region, profile, 'option profile')
    if (roleArn === undefined) return found
    return assumeRole(requests, region, found, { roleArn, externalId, sessionName })
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
