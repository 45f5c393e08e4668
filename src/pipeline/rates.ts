/** What the stages say of limits: the name of a call in the ledger, the limit that has refused it, and the headers of rates. */
import { publicName } from '../accounts/limits.ts'
import type { ResolvedKey } from '../accounts/stored.ts'
import type { Lease, LimitOwner, RateStatus } from '../state/ledger/ledger.ts'
import type { Call } from './pipeline.ts'

/** Names the limit that refuses a call, in its record and in the header of its answer. */
export function noteLimit(
  call: Call,
  { of, name }: { readonly of: LimitOwner; readonly name: string },
  header: string,
): void {
  call.admission.limit = publicName(of, name)
  call.headers['x-service-limit'] = header
}

/** What names a call in the ledger. */
export function leaseOf(request: string, { account, key, team }: ResolvedKey): Lease {
  return { request, account: account.id, key: key.id, ...(team && { team: team.id }) }
}

export function setRateHeaders(call: Call, rate: RateStatus): void {
  const { headers } = call
  headers['cache-control'] = 'no-store'
  headers['x-ratelimit-limit-requests'] = String(rate.limit)
  headers['x-ratelimit-remaining-requests'] = String(rate.remaining)
  headers['x-ratelimit-reset-requests'] = durationOf(rate.resetMs)
}

export function setTokenHeaders({ headers }: Call, tokens: RateStatus): void {
  headers['x-ratelimit-limit-tokens'] = String(tokens.limit)
  headers['x-ratelimit-remaining-tokens'] = String(tokens.remaining)
  headers['x-ratelimit-reset-tokens'] = durationOf(tokens.resetMs)
}

/** A duration in OpenAI's form: `120ms`, `1.5s`, `1m0s`. */
function durationOf(ms: number): string {
  const whole = Math.max(0, Math.ceil(ms))
  if (whole < 1000) return `${whole}ms`
  if (whole < 60_000) return `${whole / 1000}s`
  return `${Math.floor(whole / 60_000)}m${Math.ceil((whole % 60_000) / 1000)}s`
}
