/** What a member sees of its account or team: money that is left, models, usage and calls of its keys, and its own sessions. */
import type { Account, Key, Team } from '../../accounts/stored.ts'
import type { Session } from '../../access/credentials.ts'
import { isInPlace, type Member } from '../../access/members.ts'
import {
  HOLDER_GROUPS,
  holderCall,
  requestOf,
  requestsOf,
  usageOf,
  type Holder,
} from '../../endpoints/account/usage.ts'
import { leftOf, zoneOf } from '../../accounts/limits.ts'
import { mayUse } from '../../models/allowlist.ts'
import { entryOf } from '../../models/listing.ts'
import { parsePico, usdJson } from '../../money/money.ts'
import type { Runtime } from '../../pipeline/pipeline.ts'
import { Forbidden } from '../../errors/errors.ts'
import { note } from '../admin/audit.ts'
import { issuedStatement, issuedTo, statementAnswer } from '../admin/statements.ts'
import { statementEntry, withAmounts } from '../admin/resources/statement.ts'
import { limitsOf } from '../admin/limits.ts'
import type { NewKeySettings } from '../admin/resources/team.ts'
import type { End } from '../admin/resources/request.ts'
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
  '/statements': { GET: listStatements },
  '/statements/:id': { GET: showStatement },
  '/sessions': { GET: listSessions },
  '/sessions/:id': { DELETE: endSession },
}

/** The account or team: what is left, what its members may choose for keys, and with `manages` its limits with their use. */
async function showPlace(request: MemberRequest): Promise<Answer> {
  const { runtime, member, only } = request
  const { account, team } = await placeOf(runtime, member)
  const [totals] = await runtime.ledger.balances([account.id])
  const { balance, available, paid } = totals!
  const all = await limitsOf(runtime, { account, team, ...(only && { key: only }) })
  const { id: account_id, name: account_name } = account
  const { name, newKeys = null, memberKeys = runtime.config.admin.members.keys } = team ?? account
  const data = {
    account_id,
    account_name,
    team_id: team?.id ?? null,
    name,
    manages: member.manages,
    left_usd: usdJson(available + parsePico(account.creditLimit ?? '0')),
    left: await leftOf(runtime.ledger, account, all),
    free_tier: !paid,
    time_zone: zoneOf(account, runtime.config.defaults) ?? 'UTC',
    member_keys: memberKeys,
    new_keys: newKeys && publicOf(newKeys),
    contact: runtime.config.admin.contact ?? null,
    last_unanswered: await lastUnanswered(request),
    ...(only && { limits: all }),
    ...(member.manages && { limits: team ? all.filter(({ source }) => source === 'team') : all }),
    // The money of an account is not that of one of its teams.
    ...(member.manages && !team && { balance_usd: usdJson(balance) }),
  }
  return { body: { data } }
}

const UNANSWERED = ['blocked', 'limited', 'rejected', 'failed'] as const

/** The newest call without an answer, unless one of its model was answered after it; with the message that its client got. */
async function lastUnanswered(request: MemberRequest) {
  const { requests, config } = request.runtime
  if (!requests || !config.log.holders) return null
  const { keys } = await holderOf(request)
  const newest = async (ends: readonly End[], model?: string) => {
    const filters = { key: keys, ...(model !== undefined && { model: [model] }) }
    return (await requests.list({ filters, ends, limit: 1 })).calls[0]
  }
  const call = await newest(UNANSWERED)
  if (!call) return null
  const answered = call.model == null ? undefined : await newest(['completed'], call.model)
  if (answered && answered.at > call.at) return null
  return { ...holderCall(call), message: call.error ?? null, rules: call.guard?.rules ?? [] }
}

/** What members may know of the settings of new keys: rules for their answers are the operator's. */
function publicOf({ limits, models, deny_models, tag, expires_in }: NewKeySettings) {
  return { limits, models, deny_models, tag, expires_in }
}

/** The models that a key of the place could use, as clients see them. */
async function listModels({ runtime, member, only }: MemberRequest): Promise<Answer> {
  const chain = { key: only ?? {}, ...(await placeOf(runtime, member)) }
  const catalog = runtime.catalog.at()
  const models = catalog.offered().filter(({ id }) => mayUse(chain, id, catalog))
  return { body: { data: models.map(entryOf), next: null } }
}

async function showUsage(request: MemberRequest): Promise<Answer> {
  const { runtime, event } = request
  const { searchParams } = event.url
  // A member has several keys.
  const groups = [...HOLDER_GROUPS, 'key'] as const
  return { body: await usageOf(runtime, await holderOf(request), searchParams, Date.now(), groups) }
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

async function listSessions(request: MemberRequest): Promise<Answer> {
  const { runtime, found } = request
  const own = await runtime.credentials.sessions(isOf(request))
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

/** Issued statements of the account, for members that manage all of it. */
async function listStatements(request: MemberRequest): Promise<Answer> {
  const statements = await issuedTo(request.runtime, managedAccount(request))
  const data = statements.map((one) => withAmounts(statementEntry(one))).toReversed()
  return { body: { data, next: null } }
}

async function showStatement(request: MemberRequest) {
  const { runtime, event, id } = request
  const account = managedAccount(request)
  const statement = await issuedStatement(runtime, id)
  if (statement.account_id !== account) return missing('statement', id)
  return statementAnswer(statement, event.url.searchParams)
}

/** @throws Forbidden: a statement shows the keys of all members */
function managedAccount({ member, only }: MemberRequest): string {
  const { account, team, manages } = member
  if (manages && team === undefined && !only) return account
  throw new Forbidden('forbidden', 'Statements are for those who manage the account.')
}

async function endSession(request: MemberRequest): Promise<Answer> {
  const { runtime, id } = request
  const isOwn = isOf(request)
  const [ended] = await runtime.credentials.endSessions((one) => one.id === id && isOwn(one))
  if (!ended) missing('session', id)
  await note(request, { action: 'session.end', object: `session:${id}`, after: { ended: true } })
  return { body: { data: { id, ended: true } } }
}

/** Sessions of the same member, or begun with the same secret. */
function isOf({ member, found }: MemberRequest): (session: Session) => boolean {
  const own = found.session.subject
  return 'key' in own
    ? ({ subject }) => 'key' in subject && subject.key === own.key
    : ({ subject }) => 'member' in subject && subject.member === member.id
}

/** Whether a key is the session's to change. */
export function owns({ member, only }: MemberRequest, { id, owner }: Key): boolean {
  return only ? id === only.id : owner === member.id
}

export function sees(request: MemberRequest, key: Key): boolean {
  const { member } = request
  return owns(request, key) || (member.manages && isInPlace(member, key))
}

/** The keys whose calls a member sees: its own, and with `manages` all of its place. */
async function holderOf(request: MemberRequest): Promise<Holder> {
  const { runtime, member, only } = request
  const keys = only ? [only] : await runtime.accounts.listKeys(member.account)
  const ids = keys.filter((key) => sees(request, key)).map(({ id }) => id)
  // Without keys nothing is seen: an empty filter would be none.
  return { account: member.account, keys: ids.length > 0 ? ids : ['key_none'] }
}

export interface Place {
  readonly account: Account
  /** It is absent for members of the account itself. */
  readonly team?: Team | undefined
}

/** The account, and the team, of a member. @throws NotFound */
export async function placeOf({ accounts }: Runtime, { account, team }: Member): Promise<Place> {
  const own = (await accounts.account(account)) ?? missing('account', account)
  if (team === undefined) return { account: own }
  return { account: own, team: (await accounts.team(team)) ?? missing('team', team) }
}
