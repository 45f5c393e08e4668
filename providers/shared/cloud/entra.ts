/** Logins of Microsoft Entra: a client secret, a federated token, or the identity of the machine. */
import * as v from 'valibot'
import type { Host } from '../../../src/plugin.ts'
import { Login, type AuthHeaders, type Issued } from './login.ts'
import { LoginFailure, textOf, type LoginAnswer, type LoginRequests } from './requests.ts'

const filled = v.pipe(v.string(), v.nonEmpty('a text of at least one character'))
const id = v.pipe(v.string(), v.regex(/^[\w.-]+$/, 'an id, or the name of a domain'))

const members = v.strictObject({
  /** Default `AZURE_TENANT_ID`. */
  tenant: v.optional(id),
  /** Default `AZURE_CLIENT_ID`. For a managed identity the one that a user has assigned. */
  clientId: v.optional(id),
  clientSecret: v.optional(filled),
  /** Only the identity of the machine is used, whatever the environment offers. */
  managedIdentity: v.optional(v.boolean(), false),
  /** What the token is for, such as `https://cognitiveservices.azure.com/.default`. */
  scope: v.optional(v.pipe(v.string(), v.url())),
})

/** Option of plugins whose vendor accepts tokens of Entra. */
export const entraOption = v.pipe(
  members,
  v.check(
    ({ clientSecret, managedIdentity }) => clientSecret === undefined || !managedIdentity,
    'either "clientSecret" or "managedIdentity"',
  ),
)

type Entra = v.InferOutput<typeof members>

/** A login with Entra. The caller closes it. @param scope unless the option has one */
export function entraLogin(host: Host, entra: Entra, scope: string): Login<AuthHeaders> {
  const settings = { ...entra, scope: entra.scope ?? scope }
  return new Login(host, (requests) => fromFirst(requests, settings))
}

type Settings = Entra & { readonly scope: string }

/** Tries the first source that the option and the environment name. */
function fromFirst(requests: LoginRequests, settings: Settings): Promise<Issued<AuthHeaders>> {
  const { env } = process
  if (settings.clientSecret !== undefined) {
    requests.mask(settings.clientSecret)
    return fromTenant(requests, settings, 'client secret', { client_secret: settings.clientSecret })
  }
  if (!settings.managedIdentity && env.AZURE_FEDERATED_TOKEN_FILE) {
    return fromFederation(requests, settings, env.AZURE_FEDERATED_TOKEN_FILE)
  }
  const { IDENTITY_ENDPOINT: endpoint, IDENTITY_HEADER: header } = env
  if (endpoint && header) return fromEndpoint(requests, settings, endpoint, header)
  return fromInstance(requests, settings)
}

/** The token that a cluster writes for a workload; read anew each time, because the cluster replaces it. */
async function fromFederation(
  requests: LoginRequests,
  settings: Settings,
  path: string,
): Promise<Issued<AuthHeaders>> {
  const source = 'AZURE_FEDERATED_TOKEN_FILE'
  const assertion = (await requests.read(source, path)).trim()
  requests.mask(assertion)
  return fromTenant(requests, settings, source, {
    client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
    client_assertion: assertion,
  })
}

/** https://learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow */
async function fromTenant(
  requests: LoginRequests,
  { tenant = process.env.AZURE_TENANT_ID, clientId = process.env.AZURE_CLIENT_ID, scope }: Settings,
  source: string,
  proof: Readonly<Record<string, string>>,
): Promise<Issued<AuthHeaders>> {
  if (!tenant) throw new LoginFailure(source, 'set "tenant", or AZURE_TENANT_ID')
  if (!clientId) throw new LoginFailure(source, 'set "clientId", or AZURE_CLIENT_ID')
  const authority = process.env.AZURE_AUTHORITY_HOST || 'https://login.microsoftonline.com'
  const url = `${authority.replace(/\/+$/, '')}/${tenant}/oauth2/v2.0/token`
  const form = { grant_type: 'client_credentials', client_id: clientId, scope, ...proof }
  return issued(requests, source, await requests.ask(source, { url, form }))
}

/** App Service, Functions and Container Apps. https://learn.microsoft.com/azure/app-service/overview-managed-identity */
async function fromEndpoint(
  requests: LoginRequests,
  settings: Settings,
  endpoint: string,
  header: string,
): Promise<Issued<AuthHeaders>> {
  const source = 'managed identity of IDENTITY_ENDPOINT'
  requests.mask(header)
  const url = identityUrl(endpoint, '2019-08-01', settings)
  const headers = { 'x-identity-header': header }
  return issued(requests, source, await requests.ask(source, { url, headers }))
}

/** Virtual machines. https://learn.microsoft.com/entra/identity/managed-identities-azure-resources/how-to-use-vm-token */
async function fromInstance(
  requests: LoginRequests,
  settings: Settings,
): Promise<Issued<AuthHeaders>> {
  const source = 'managed identity of the machine'
  const host = process.env.AZURE_POD_IDENTITY_AUTHORITY_HOST || 'http://169.254.169.254'
  const endpoint = `${host.replace(/\/+$/, '')}/metadata/identity/oauth2/token`
  const url = identityUrl(endpoint, '2018-02-01', settings)
  return issued(
    requests,
    source,
    await requests.ask(source, { url, headers: { metadata: 'true' } }),
  )
}

/** Identities of machines name the resource in place of the scope. */
function identityUrl(
  endpoint: string,
  version: string,
  { clientId = process.env.AZURE_CLIENT_ID, scope }: Settings,
): string {
  const url = new URL(endpoint)
  url.searchParams.set('api-version', version)
  url.searchParams.set('resource', scope.replace(/\/\.default$/, ''))
  if (clientId) url.searchParams.set('client_id', clientId)
  return url.href
}

function issued(requests: LoginRequests, source: string, answer: LoginAnswer): Issued<AuthHeaders> {
  const body = answer.json()
  const token = textOf(source, body, 'access_token')
  requests.mask(token)
  const credentials = { authorization: `Bearer ${token}` }
  return { credentials, lifetimeMs: lifetimeOf(source, body, answer.now), source }
}

/** Both members may be numbers or texts; the endpoint of App Service gives only the second. */
function lifetimeOf(
  source: string,
  { expires_in: seconds, expires_on: endsAt }: Record<string, unknown>,
  now: number,
): number {
  const lifetimeMs =
    seconds === undefined ? Number(endsAt) * 1000 - now : Number.parseFloat(String(seconds)) * 1000
  if (Number.isFinite(lifetimeMs)) return lifetimeMs
  throw new LoginFailure(source, 'neither "expires_in" nor "expires_on" is a number')
}
