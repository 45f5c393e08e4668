import type { ResolvedKey } from '../../accounts/stored.ts'
import { PLAY_PREFIX } from '../../access/credentials.ts'
import { hashSecret, hasValidChecksum } from '../../accounts/secrets.ts'
import { TooManyRequests, Unauthenticated, Unavailable } from '../../errors/errors.ts'
import type { Admission, Admitted } from '../../state/ledger/ledger.ts'
import { shownAddress } from '../../observe/address.ts'
import type { AuthFailure } from '../../observe/auth-failures.ts'
import { limitHeader, refusalText } from '../../accounts/limits.ts'
import { apiKeyIn } from '../caller.ts'
import { leaseOf, noteLimit, setRateHeaders } from '../rates.ts'
import type { Call, Stage } from '../pipeline.ts'

/**
 * Finds the key of the request and counts the call against the limits of the key. It runs before the body is read, so
 * that a flood of requests costs no parsing.
 * @throws Unauthenticated, TooManyRequests, Unavailable
 */
export const enter: Stage = {
  name: 'enter',
  before(call) {
    call.runtime.ledger.assertOpen()
    const secret = secretOf(call)
    const played = secret.startsWith(PLAY_PREFIX)
    const { accounts } = call.runtime
    const lookup = played ? playedKey(call, secret) : accounts.find(hashSecret(secret))
    const reload = () => (played ? playedKey(call, secret) : accounts.reload(hashSecret(secret)))
    return lookup instanceof Promise
      ? lookup.then((resolved) => enterAs(call, resolved, played, reload))
      : enterAs(call, lookup, played, reload)
  },

  /** Releases the lease, unless a settlement has done that. */
  end(call, error) {
    const { admission } = call.made
    if (!admission?.entered || call.answer.bill) return undefined
    return leave(call, admission, admission.entered, error instanceof TooManyRequests)
  },
}

type Reload = () => Promise<ResolvedKey | null>

function enterAs(
  call: Call,
  resolved: ResolvedKey | null,
  played: boolean,
  reload: Reload,
): void | Promise<void> {
  const entered = admit(call, resolved)
  const take = (admitted: Admission): void | Promise<void> => {
    if (admitted.ok || admitted.why !== 'stale') return admitAs(call, resolved!, played, admitted)
    // Another process changed the key: the record is read again, once.
    return enterAgain(call, played, reload)
  }
  return entered instanceof Promise ? entered.then(take) : take(entered)
}

async function enterAgain(call: Call, played: boolean, reload: Reload): Promise<void> {
  const resolved = await reload()
  admitAs(call, resolved!, played, await admit(call, resolved))
}

/** Takes the answer of the ledger. @throws Unauthenticated, TooManyRequests, Unavailable where it refuses */
function admitAs(call: Call, resolved: ResolvedKey, played: boolean, entered: Admission): void {
  call.runtime.metrics.entered(entered.ok ? 'ok' : entered.why)
  if ('rate' in entered) setRateHeaders(call, entered.rate)
  if (entered.ok) {
    call.made.admission = { ...resolved, played, entered }
    return
  }
  call.made.admission = { ...resolved, played }
  if (entered.why === 'disabled' || entered.why === 'expired') {
    note(call, entered.why, resolved.key.start)
  }
  throw refusalOf(call, entered)
}

/** The key of a play token, if it is as it was when the token was made. */
async function playedKey({ runtime, incoming }: Call, token: string): Promise<ResolvedKey | null> {
  if (incoming.method !== 'POST') return null
  const played = await runtime.credentials.play(token)
  const resolved = played ? await runtime.accounts.resolve(played.key) : null
  return resolved?.key.revision === played?.revision ? resolved : null
}

/** @param refused whether the client is told to come again: the call does not count in the rate limit then */
function leave(
  { runtime, id }: Call,
  { account, key, team }: Call['admission'],
  { at }: Admitted,
  refused: boolean,
): void | Promise<void> {
  const slot = refused ? { slot: at } : {}
  return runtime.ledger.leave({ ...leaseOf(id, { account, key, team }), ...slot })
}

/**
 * Asks the ledger to admit the call. A key is unknown only where the ledger is the one that was used until now.
 * @throws Unauthenticated without a known key; Unavailable
 */
function admit(call: Call, resolved: ResolvedKey | null): Admission | Promise<Admission> {
  const { ledger, config } = call.runtime
  if (!resolved) return ledger.confirm().then(() => refuseUnknown(call))
  return ledger.enter({
    ...leaseOf(call.id, resolved),
    revision: resolved.key.revision,
    accountRevision: resolved.account.revision,
    ...(resolved.team && { teamRevision: resolved.team.revision }),
    freeTier: config.defaults.freeTier,
  })
}

/** @throws Unauthenticated */
function refuseUnknown(call: Call): never {
  note(call, 'unknown')
  throw new Unauthenticated('The API key is not valid.')
}

/** The API key that the client sent. @throws Unauthenticated */
function secretOf(call: Call): string {
  const { incoming } = call
  const authorization = incoming.header('authorization')
  const secret = apiKeyIn(incoming)
  if (secret) {
    if (hasValidChecksum(secret)) return secret
    note(call, 'malformed')
    throw new Unauthenticated('The API key is not valid: it is incomplete or has a typing error.')
  }
  note(call, authorization ? 'malformed' : 'none')
  throw new Unauthenticated(
    authorization
      ? 'The Authorization header must have the form "Bearer <API key>".'
      : 'No API key provided. Send it as "Authorization: Bearer <API key>".',
  )
}

function note({ runtime, id, incoming }: Call, why: AuthFailure, start?: string): void {
  const address = shownAddress(incoming.address, runtime.config.log.address)
  runtime.authFailures.failed({ scope: 'api', requestId: id, why, start, address })
}

function refusalOf(call: Call, refused: Exclude<Admission, Admitted>): Error {
  switch (refused.why) {
    case 'stale':
      return new Unavailable('service_unavailable', 'The API key is being changed right now.')
    case 'disabled':
      return new Unauthenticated(
        refused.of === 'key'
          ? 'The API key is disabled.'
          : `The ${refused.of} of this API key is disabled.`,
      )
    case 'expired':
      return new Unauthenticated('The API key has expired.')
    case 'concurrency':
    case 'rpm': {
      const { why, of, value, retryAfterMs } = refused
      const counted = { value: BigInt(value), used: BigInt(value) }
      const kind =
        why === 'rpm'
          ? ({ unit: 'requests', window: 'minute' } as const)
          : ({ unit: 'concurrent' } as const)
      const limit = { of, name: why, ...kind, ...counted }
      noteLimit(call, limit, limitHeader(limit))
      const text = refusalText(limit)
      return why === 'rpm'
        ? new TooManyRequests('rate_limited', text, retryAfterMs)
        : new TooManyRequests('too_many_concurrent', text)
    }
  }
}
