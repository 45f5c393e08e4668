/** What the address of a page says behind `#`: it reaches no server and no log. */
import { ApiError } from './api.ts'

interface Fragment {
  readonly token?: string
  readonly invitation?: string
  readonly failure?: ApiError
}

/** The token of a sign-in link, an invitation, or why signing in failed. It is read and removed first. */
export function takeFragment(): Fragment {
  const fragment = new URLSearchParams(location.hash.slice(1))
  const [token, invitation, code] = ['token', 'invite', 'error'].map(
    (name) => fragment.get(name) ?? undefined,
  )
  if (token === undefined && invitation === undefined && code === undefined) return {}
  history.replaceState(null, '', location.pathname + location.search)
  if (token !== undefined) return { token }
  if (invitation !== undefined) return { invitation }
  const message = LOGIN_FAILURES[code!] ?? 'Signing in did not work.'
  return { failure: new ApiError(401, { error: { message, code } }, fragment.get('id')) }
}

const LOGIN_FAILURES: Readonly<Record<string, string>> = {
  login_denied: 'The provider has refused to sign you in.',
  login_expired: 'Signing in took too long, or was begun twice. Try again.',
  login_failed:
    'The provider could not be asked, or its answer was not right. The log has the cause.',
  no_role: 'You are known to the provider, but no rule of this gateway gives you a role.',
  no_membership:
    'You are known to the provider, but no invitation and no rule of this gateway makes you a member.',
}
