/** What a member sees of its account or team: money that is left, models, usage and calls of its keys, and its own sessions. */
import type { Account, Key, Team } from '../../accounts/stored.ts'
import type { Session } from '../../access/credentials.ts'
import { isInPlace, type Member } from '../../access/members.ts'
import { requestOf, requestsOf, usageOf, type Holder } from '../../endpoints/account/usage.ts'
import { leftOf } from '../../accounts/limits.ts'
import { mayUse } from '../../models/allowlist.ts'
import { entryOf } from '../../models/listing.ts'
import { usdJson } from '../../money/money.ts'
import type { Runtime } from '../../pipeline/pipeline.ts'
import { note } from '../admin/audit.ts'
import { limitsOf } from '../admin/limits.ts'
import type { NewKeySettings } from '../admin/resources/team.ts'
import { moment } from '../admin/resources/settings.ts'
import { missing, type Answer } from '../admin/route.ts'
import type { Handler, MemberRequest } from './session.ts'

/** Routes by path below `/me/api`, then by method. */
export const placeRoutes: Readonly<Record<string, Readonly<Record<string, Handler>>>> = {
  '/place': { GET: showPlace },
  '/models': { GET: listModels },
  '/usage': { GET: showUsage },
  '/requests': { GET: listRequests },
  '/requests/:id': { GET: showRequest },
  '/sessions': { GET: listSessions },
  '/sessions/:id': { DELETE: endSession },
}

/** The account or team: what is left, what its members may choose for keys, and with `manages` its limits with their use. */
async function showPlace({ runtime, member }: MemberRequest): Promise<Answer> {
  const { account, team } = await placeOf(runtime, member)
  const [totals] = await runtime.ledger.balances([account.id])
  const { balance, available, paid } = totals!
  const all = await limitsOf(runtime, { account, team })
  const { id: account_id, name: account_name } = account
  const { name, newKeys = null, memberKeys = runtime.config.admin.members.keys } = team ?? account
  const data = {
    account_id,
    account_name,
    team_id: team?.id ?? null,
    name,
    manages: member.manages,
    left_usd: usdJson(available),
    left: await leftOf(runtime.ledger, account.id, all),
    free_tier: !paid,
    member_keys: memberKeys,
    new_keys: newKeys && publicOf(newKeys),
    ...(member.manages && { limits: team ? all.filter(({ source }) => source === 'team') : all }),
    // The money of an account is not that of one of its teams.
    ...(member.manages && !team && { balance_usd: usdJson(balance) }),
  }
  return { body: { data } }
}

/** What members may know of the settings of new keys: rules for their answers are the operator's. */
function publicOf({ limits, models, deny_models, tag, expires_in }: NewKeySettings) {
  return { limits, models, deny_models, tag, expires_in }
}

/** The models that a key of the place could use, as clients see them. */
async function listModels({ runtime, member }: MemberRequest): Promise<Answer> {
  const chain = { key: {}, ...(await placeOf(runtime, member)) }
  const catalog = runtime.catalog.at()
  const models = catalog.offered().filter(({ id }) => mayUse(chain, id, catalog))
  return { body: { data: models.map(entryOf), next: null } }
}

async function showUsage(request: MemberRequest): Promise<Answer> {
  const { runtime, event } = request
  const { searchParams } = event.url
  return { body: await usageOf(runtime, await holderOf(request), searchParams, Date.now()) }
}

async function listRequests(request: MemberRequest): Promise<Answer> {
  const { runtime, event } = request
  const { keys } = await holderOf(request)
  return { body: await requestsOf(runtime, keys, event.url.searchParams) }
}

async function showRequest(request: MemberRequest): Promise<Answer> {
  const { runtime, id } = request
  return { body: await requestOf(runtime, await holderOf(request), id) }
}

async function listSessions({ runtime, member, found }: MemberRequest): Promise<Answer> {
  const own = await runtime.credentials.sessions(isOf(member))
  const data = own.map(({ id, how, createdAt, seenAt, endsAt, agent }) => ({
    id,
    how,
    created_at: moment(createdAt),
    seen_at: moment(seenAt),
    ends_at: moment(endsAt),
    agent,
    current: id === found.session.id,
  }))
  return { body: { data, next: null } }
}

async function endSession(request: MemberRequest): Promise<Answer> {
  const { runtime, member, id } = request
  const isOwn = isOf(member)
  const [ended] = await runtime.credentials.endSessions((one) => one.id === id && isOwn(one))
  if (!ended) missing('session', id)
  await note(request, { action: 'session.end', object: `session:${id}`, after: { ended: true } })
  return { body: { data: { id, ended: true } } }
}

function isOf({ id }: Member): (session: Session) => boolean {
  return ({ subject }) => 'member' in subject && subject.member === id
}

/** The keys whose calls a member sees: its own, and with `manages` all of its place. */
async function holderOf({ runtime, member }: MemberRequest): Promise<Holder> {
  const keys = await runtime.accounts.listKeys(member.account)
  const seen = (key: Key) => key.owner === member.id || (member.manages && isInPlace(member, key))
  const ids = keys.filter(seen).map(({ id }) => id)
  // Without keys nothing is seen: an empty filter would be none.
  return { account: member.account, keys: ids.length > 0 ? ids : ['key_none'] }
}

export interface Place {
  readonly account: Account
  /** Absent for members of the account itself. */
  readonly team?: Team | undefined
}

/** The account, and the team, of a member. @throws NotFound */
export async function placeOf({ accounts }: Runtime, { account, team }: Member): Promise<Place> {
  const own = (await accounts.account(account)) ?? missing('account', account)
  if (team === undefined) return { account: own }
  return { account: own, team: (await accounts.team(team)) ?? missing('team', team) }
}
