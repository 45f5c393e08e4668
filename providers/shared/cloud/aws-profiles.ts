/**
 * Profiles in Amazon's shared files.
 * https://docs.aws.amazon.com/sdkref/latest/guide/file-format.html
 */
import { exec } from 'node:child_process'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { fromContainer, fromInstance, issuedFrom } from './aws-machine.ts'
import type { AwsCredentials } from './aws-signature.ts'
import { assumeRole, assumeRoleWithWebIdentity } from './aws-sts.ts'
import type { Issued } from './login.ts'
import { LoginFailure, objectOf, type LoginRequests } from './requests.ts'

type Profile = Readonly<Record<string, string | undefined>>
type Profiles = ReadonlyMap<string, Profile>

/** The profiles of both files, by name; a file that is not there has none. Those of the file `credentials` win. */
export async function readProfiles(requests: LoginRequests): Promise<Profiles> {
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
export async function fromProfile(
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
  const found = kind === 'EcsContainer' ? await fromContainer(requests) : undefined
  if (found) return found
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
