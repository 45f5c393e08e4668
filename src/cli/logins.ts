/** Tries the logins of providers that get their credentials by themselves, for `check`. */
import { UpstreamFailure } from '../errors/errors.ts'
import { inTime } from '../lifetime/scope.ts'
import type { Runtime } from '../pipeline/pipeline.ts'
import type { Provider } from '../plugin.ts'

export interface LoginResult {
  readonly provider: string
  /** The source of the credentials; null if the login failed. */
  readonly source: string | null
  /** ISO 8601; null for credentials that do not expire. */
  readonly expires_at: string | null
  readonly error: string | null
}

/** A provider limits its login itself; this is for one that does not. */
const LIMIT_SECONDS = 15

export function tryLogins({ providers, mask }: Runtime): Promise<LoginResult[]> {
  const results = [...providers].flatMap(([name, provider]) =>
    provider.logIn ? [tryLogin(name, provider, (text) => mask.clean(text))] : [],
  )
  return Promise.all(results)
}

export function loginInWords({ provider, source, expires_at: at, error }: LoginResult): string {
  if (error !== null) return `warning: ${provider}: the login failed: ${error} (login)`
  return `${provider} is logged in: ${source}${at === null ? '' : `, until ${at}`}`
}

async function tryLogin(
  name: string,
  provider: Provider,
  clean: (text: string) => string,
): Promise<LoginResult> {
  const limit = new AbortController()
  try {
    const login = Promise.resolve(provider.logIn!(limit.signal))
    const late = () => new Error(`it took more than ${LIMIT_SECONDS} seconds`)
    const { source, expiresAt } = await inTime(login, LIMIT_SECONDS * 1000, late)
    const at = expiresAt === undefined ? null : new Date(expiresAt).toISOString()
    return { provider: name, source: clean(source), expires_at: at, error: null }
  } catch (error) {
    return { provider: name, source: null, expires_at: null, error: clean(reasonOf(error)) }
  } finally {
    limit.abort()
  }
}

/** The cause of a failure is for the operator, its message for the client. */
function reasonOf(error: unknown): string {
  const reason = UpstreamFailure.is(error) && error.cause instanceof Error ? error.cause : error
  return reason instanceof Error ? reason.message : String(reason)
}
