import { hashSecret, hasValidChecksum, type ResolvedKey } from '../../accounts/accounts.ts'
import { TooManyRequests, Unauthenticated, Unavailable } from '../../errors/errors.ts'
import type { Admission, Admitted, RateStatus } from '../../state/ledger/ledger.ts'
import type { Answer, Call, Next, Stage } from '../pipeline.ts'

/**
 * Lets a key in: who is it, may it still, how often and how many at once. Before the body is read, so that a flood never
 * makes us parse.
 */
export const enter: Stage = function enter(call, next) {
  const sha256 = hashSecret(bearerOf(call))
  const { accounts } = call.runtime
  const known = accounts.peek(sha256)
  if (known === undefined) {
    return accounts.find(sha256).then((found) => admitAs(call, sha256, found, next))
  }
  return admitAs(call, sha256, known, next)
}

/** Most engines answer at once: then no promise is made. */
function admitAs(call: Call, sha256: string, known: ResolvedKey | null, next: Next): Answer {
  const entered = admit(call, known)
  if (entered instanceof Promise || (!entered.ok && entered.why === 'stale')) {
    return admitLater(call, sha256, known, entered).then(next)
  }
  admitted(call, known!, entered)
  return next()
}

/** A key that was changed elsewhere is looked up again, once. */
async function admitLater(
  call: Call,
  sha256: string,
  known: ResolvedKey | null,
  answer: Admission | Promise<Admission>,
): Promise<void> {
  let entered = await answer
  if (!entered.ok && entered.why === 'stale') {
    known = await call.runtime.accounts.reload(sha256)
    entered = await admit(call, known)
  }
  admitted(call, known!, entered)
}

/** @throws why the key is not let in */
function admitted(call: Call, { key, account }: ResolvedKey, entered: Admission): void {
  call.key = key
  call.account = account
  call.runtime.metrics.entered(entered.ok ? 'ok' : entered.why)
  if ('rate' in entered) setRateHeaders(call, entered.rate)
  if (!entered.ok) throw refusalOf(entered)
  // A settlement releases the lease itself.
  call.scope.defer(() => (call.bill ? undefined : leave(call)))
  call.entered = entered
}

function leave({ runtime, account, key, id: request }: Call): void | Promise<void> {
  return runtime.ledger.leave({ account: account.id, key: key.id, request })
}

function admit(call: Call, known: ResolvedKey | null): Admission | Promise<Admission> {
  if (!known) throw new Unauthenticated('The API key is not valid.')
  const { ledger, config } = call.runtime
  return ledger.enter({
    request: call.id,
    account: known.account.id,
    key: known.key.id,
    revision: known.key.revision,
    freeTier: config.defaults.freeTier,
  })
}

function bearerOf(call: Call): string {
  const header = call.incoming.header('authorization')
  if (!header) {
    throw new Unauthenticated('No API key provided. Send it as "Authorization: Bearer <API key>".')
  }
  const space = header.indexOf(' ')
  const secret = space < 0 ? '' : header.slice(space + 1).trim()
  if (!secret || header.slice(0, space).toLowerCase() !== 'bearer') {
    throw new Unauthenticated('The Authorization header must have the form "Bearer <API key>".')
  }
  if (!hasValidChecksum(secret)) {
    throw new Unauthenticated('The API key is not valid: it is incomplete or has a typing error.')
  }
  return secret
}

function refusalOf(refused: Exclude<Admission, Admitted>): Error {
  switch (refused.why) {
    case 'stale':
      return new Unavailable('service_unavailable', 'The API key is being changed right now.')
    case 'disabled':
      return new Unauthenticated('The API key is disabled.')
    case 'expired':
      return new Unauthenticated('The API key has expired.')
    case 'concurrency':
      return new TooManyRequests(
        'too_many_concurrent',
        'Too many requests are running at once for this key.',
      )
    case 'rpm':
      return new TooManyRequests(
        'rate_limited',
        `Rate limit of ${refused.rate.limit} requests per minute reached.`,
        refused.retryAfterMs,
      )
    case 'day':
      return new TooManyRequests(
        'rate_limited',
        'The daily request limit of the free tier is reached; it starts anew at midnight UTC.',
        refused.retryAfterMs,
      )
  }
}

function setRateHeaders(call: Call, rate: RateStatus): void {
  const { headers } = call
  headers['cache-control'] = 'no-store'
  headers['x-ratelimit-limit-requests'] = String(rate.limit)
  headers['x-ratelimit-remaining-requests'] = String(rate.remaining)
  headers['x-ratelimit-reset-requests'] = durationOf(rate.resetMs)
}

/** OpenAI's form of a duration: `120ms`, `1.5s`, `1m0s`. */
export function durationOf(ms: number): string {
  const whole = Math.max(0, Math.ceil(ms))
  if (whole < 1000) return `${whole}ms`
  if (whole < 60_000) return `${whole / 1000}s`
  return `${Math.floor(whole / 60_000)}m${Math.ceil((whole % 60_000) / 1000)}s`
}
