/** What a member sees of its account: money that is left, models, usage and calls of its keys, and its own sessions. */
import type { Key } from '../../accounts/stored.ts'
import type { Session } from '../../access/credentials.ts'
import type { Member } from '../../access/members.ts'
import { requestOf, requestsOf, usageOf, type Holder } from '../../endpoints/account/usage.ts'
import { leftOf } from '../../accounts/limits.ts'
import { mayUse } from '../../models/allowlist.ts'
import { entryOf } from '../../models/listing.ts'
import { usdJson } from '../../money/money.ts'
import { note } from '../admin/audit.ts'
import { limitsOf } from '../admin/limits.ts'
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

/** The account: with `manages` all of its money, else what is left of it. */
async function showPlace({ runtime, member }: MemberRequest): Promise<Answer> {
  const account = await accountOf(runtime, member)
  const [totals] = await runtime.ledger.balances([account.id])
  const { balance, available, paid } = totals!
  const limits = await limitsOf(runtime, { account })
  const left = {
    left_usd: usdJson(available),
    left: await leftOf(runtime.ledger, account.id, limits),
    free_tier: !paid,
  }
  const all = member.manages ? { balance_usd: usdJson(balance), limits } : {}
  const { id, name } = account
  return { body: { data: { account_id: id, name, manages: member.manages, ...left, ...all } } }
}

/** The models that a key of the account could use, as clients see them. */
async function listModels({ runtime, member }: MemberRequest): Promise<Answer> {
  const account = await accountOf(runtime, member)
  const catalog = runtime.catalog.at()
  const models = catalog.offered().filter(({ id }) => mayUse({ key: {}, account }, id, catalog))
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

/** The keys whose calls a member sees: its own, and with `manages` all of the account. */
async function holderOf({ runtime, member }: MemberRequest): Promise<Holder> {
  const keys = await runtime.accounts.listKeys(member.account)
  const seen = ({ owner }: Key) => member.manages || owner === member.id
  const ids = keys.filter(seen).map(({ id }) => id)
  // Without keys nothing is seen: an empty filter would be none.
  return { account: member.account, keys: ids.length > 0 ? ids : ['key_none'] }
}

async function accountOf({ accounts }: MemberRequest['runtime'], { account }: Member) {
  return (await accounts.account(account)) ?? missing('account', account)
}
