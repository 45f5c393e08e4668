/** The limits of keys, teams and accounts: their use, a higher value for a while, and a count that begins anew. */
import { randomUUID } from 'node:crypto'
import { refuseArchived } from '../../accounts/accounts.ts'
import { limitOf, limitStatus, shownValue, zoneOf, type Chain } from '../../accounts/limits.ts'
import { InvalidRequest } from '../../errors/errors.ts'
import { isMoment } from '../../errors/moments.ts'
import { formatPico } from '../../money/money.ts'
import type { Runtime } from '../../pipeline/pipeline.ts'
import { ACCOUNT, teamKey } from '../../state/ledger/ledger.ts'
import { kindOf } from '../../state/ledger/limit-list.ts'
import { ruleOf } from '../../state/ledger/zone.ts'
import { note } from './audit.ts'
import { raiseBody, resetBody } from './resources/limit.ts'
import {
  accountOf,
  bodyOf,
  missing,
  needs,
  read,
  REPLAYED,
  type AdminRequest,
  type Answer,
  type Routes,
} from './route.ts'

type Kind = 'key' | 'team' | 'account'

export const limitRoutes: Routes = Object.fromEntries(
  (['key', 'team', 'account'] as const).flatMap((kind) => {
    const path = `/${kind}s/:id/limits`
    return [
      [path, { GET: needs('read', (request) => showLimits(request, kind)) }],
      [`${path}/:name/raise`, { POST: needs('keys', (request) => raise(request, kind)) }],
      [`${path}/:name/reset`, { POST: needs('keys', (request) => reset(request, kind)) }],
    ]
  }),
)

/** The limits of an owner and of those above it, with their use. */
export function limitsOf({ ledger, config }: Runtime, chain: Chain) {
  return limitStatus(ledger, chain, config.defaults, Date.now())
}

export async function chainOf(runtime: Runtime, kind: Kind, id: string): Promise<Chain> {
  const { accounts } = runtime
  if (kind === 'account') return { account: await accountOf(runtime, id) }
  if (kind === 'team') {
    const team = (await accounts.team(id)) ?? missing('team', id)
    return { team, account: await accountOf(runtime, team.account) }
  }
  const key = (await accounts.key(id)) ?? missing('key', id)
  const team = key.team === undefined ? undefined : await accounts.team(key.team)
  return { key, team, account: await accountOf(runtime, key.account) }
}

async function showLimits({ runtime, id }: AdminRequest, kind: Kind): Promise<Answer> {
  return { body: { data: await limitsOf(runtime, await chainOf(runtime, kind, id)) } }
}

async function raise(request: AdminRequest, kind: Kind): Promise<Answer> {
  const { runtime, id, name } = request
  const chain = await chainOf(runtime, kind, id)
  const before = limitOf(chain[kind]!, name)
  const { value, until, reason } = read(raiseBody, await bodyOf(request))
  if (until != null && !isMoment(until)) {
    const message = `Invalid 'until': expected a moment such as "2027-01-31T00:00:00Z".`
    throw new InvalidRequest('invalid_value', message, { param: 'until' })
  }
  const end = until == null ? undefined : Date.parse(until)
  const changed = await runtime.accounts.raise(
    kind,
    id,
    name,
    { value, until: end },
    request.actor.id,
  )
  await note(request, {
    action: 'limit.raise',
    object: `${kind}:${id}`,
    before: { [name]: before.raised },
    after: { [name]: limitOf(changed, name).raised, reason },
  })
  return { body: { data: await limitsOf(runtime, { ...chain, [kind]: changed }) } }
}

async function reset(request: AdminRequest, kind: Kind): Promise<Answer> {
  const { runtime, id, name } = request
  const chain = await chainOf(runtime, kind, id)
  limitOf(refuseArchived(chain[kind]!), name)
  const { reason, reference } = read(resetBody, await bodyOf(request))
  const owner = kind === 'key' ? id : kind === 'team' ? teamKey(id) : ACCOUNT
  const done = await runtime.ledger.reset({
    account: chain.account.id,
    owner,
    limit: name,
    reference: reference ?? `reset:${randomUUID()}`,
    reason,
    zone: ruleOf(zoneOf(chain.account, runtime.config.defaults)),
  })
  const { unit } = kindOf(name)
  const counted = shownValue(unit, done.counted)
  const data = { counted, window: done.window, duplicate: done.duplicate }
  if (done.duplicate) return { headers: REPLAYED, body: { data } }
  await note(request, {
    action: 'limit.reset',
    object: `${kind}:${id}`,
    before: { [name]: unit === 'usd' ? formatPico(done.counted) : counted },
    after: { [name]: unit === 'usd' ? '0' : 0, reason },
  })
  return { body: { data } }
}
