/** Access tokens of Google's token services. */
import { LoginFailure, textOf, type LoginAnswer, type LoginRequests } from './requests.ts'

/** What Vertex AI asks for. */
export const SCOPE = 'https://www.googleapis.com/auth/cloud-platform'

/** An access token. */
export interface Token {
  readonly token: string
  readonly lifetimeMs: number
}

/** The token in an answer of OAuth 2.0. @throws LoginFailure when there is none, or no lifetime */
export function accessToken(requests: LoginRequests, source: string, answer: LoginAnswer): Token {
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
export async function impersonate(
  requests: LoginRequests,
  source: string,
  { url, token, lifetimeSeconds = 3600, delegates }: Impersonation,
): Promise<Token> {
  const asked = { scope: [SCOPE], lifetime: `${lifetimeSeconds}s`, ...(delegates && { delegates }) }
  const answer = await requests.ask(`${source}, impersonation`, {
    url,
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify(asked),
  })
  const body = answer.json()
  const own = textOf(source, body, 'accessToken')
  requests.mask(own)
  const endsAt = Date.parse(textOf(source, body, 'expireTime'))
  return { token: own, lifetimeMs: endsAt - answer.now }
}
