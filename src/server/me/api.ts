/**
 * What members of an account or a team do for themselves: sign in by an invitation, make, rotate and disable their keys, and manage other
 * members where they may. Everything is bounded by the session; an id of another place is as one that does not exist.
 */
import { H3, type H3Event } from 'h3'
import * as v from 'valibot'
import { toKeyChange, type Key, type Account, type Team } from '../../accounts/stored.ts'
import { requireWithin, withPlace } from '../../access/ceilings.ts'
import { isInPlace, type Member } from '../../access/members.ts'
import {
  Forbidden,
  InvalidRequest,
  NotFound,
  TooManyRequests,
  Unauthenticated,
} from '../../errors/errors.ts'
import type { Gateway } from '../../gateway/gateway.ts'
import { withIds, mayUse } from '../../models/allowlist.ts'
import { change, invite } from '../admin/members.ts'
import { audited, changing, note } from '../admin/audit.ts'
import { KEY_SETTINGS, keySettings, keyView, rotation, rotationOf } from '../admin/resources/key.ts'
import { invitation, memberChange, memberView } from '../admin/resources/member.ts'
import { bodyOf, moment, name } from '../admin/resources/settings.ts'
import { bodyOf as requestBody, missing, read, readNew, type Answer } from '../admin/route.ts'
import { requireKnownHost } from '../browser.ts'
import { addMemberSession, memberSession, type Handler, type MemberRequest } from './session.ts'
import { paymentsOf, requireHolders, returnedPayment } from '../../endpoints/account/payments.ts'
import type { KnownPayment } from '../../payments/orders.ts'
import { checkoutBody, checkoutView } from '../admin/resources/payment.ts'
import type { Session } from '../../access/credentials.ts'
import {
  HOLDER_GROUPS,
  holderCall,
  requestOf,
  requestsOf,
  usageOf,
  type Holder,
} from '../../endpoints/account/usage.ts'
import { leftOf, zoneOf } from '../../accounts/limits.ts'
import { entryOf } from '../../models/listing.ts'
import { parsePico, usdJson } from '../../money/money.ts'
import type { Runtime } from '../../pipeline/pipeline.ts'
import { issuedStatement, issuedTo, statementAnswer } from '../admin/statements.ts'
import { statementEntry, withAmounts } from '../admin/resources/statement.ts'
import { limitsOf } from '../admin/limits.ts'
import type { NewKeySettings } from '../admin/resources/team.ts'
import type { End } from '../admin/resources/request.ts'

// What a member sees of its account or team: money that is left, models, usage and calls of its keys, and its own sessions.

/** Routes by path below `/me/api`, then by method. */
const placeRoutes: Readonly<Record<string, Readonly<Record<string, Handler>>>> = {
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
function owns({ member, only }: MemberRequest, { id, owner }: Key): boolean {
  return only ? id === only.id : owner === member.id
}

function sees(request: MemberRequest, key: Key): boolean {
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

interface Place {
  readonly account: Account
  /** It is absent for members of the account itself. */
  readonly team?: Team | undefined
}

/** The account, and the team, of a member. @throws NotFound */
async function placeOf({ accounts }: Runtime, { account, team }: Member): Promise<Place> {
  const own = (await accounts.account(account)) ?? missing('account', account)
  if (team === undefined) return { account: own }
  return { account: own, team: (await accounts.team(team)) ?? missing('team', team) }
}

// Members that manage an account buy credit for it.

/** Routes by path below `/me/api`, then by method. */
const mePaymentRoutes: Readonly<Record<string, Readonly<Record<string, Handler>>>> = {
  '/checkout': { POST: checkout },
  '/payments': { GET: listPayments },
  '/payments/:id': { GET: showPayment },
}

async function checkout(request: MemberRequest): Promise<Answer> {
  const { runtime, member, actor } = request
  requireBuying(request)
  const { usd } = read(checkoutBody, await requestBody(request))
  const { account, email } = member
  const { order, url } = await runtime.payments.order({ account, usd, by: actor.id, email })
  const after = { usd: order.usd, reference: order.reference }
  await note(request, { action: 'account.checkout', object: `account:${account}`, after })
  return { status: 201, body: { data: checkoutView(order, url) } }
}

async function listPayments(request: MemberRequest): Promise<Answer> {
  const { runtime, member, only, actor, event } = request
  requireBuying(request)
  const filter = { accounts: [member.account], ...(only && { by: actor.id }) }
  return { body: await paymentsOf(runtime, filter, event.url.searchParams) }
}

async function showPayment(request: MemberRequest): Promise<Answer> {
  const { runtime, member, only, actor, id } = request
  requireBuying(request)
  const isOwn = ({ row }: KnownPayment) =>
    row.account === member.account && (!only || row.by === actor.id)
  return { body: await returnedPayment(runtime, id, isOwn) }
}

/** @throws NotFound where customers do not pay, Forbidden for a member who does not manage the account, and for keys that may not */
function requireBuying({ runtime, member, only }: MemberRequest): void {
  if (only) return requireHolders(runtime)
  if (!runtime.config.payments) throw new NotFound('unknown_url', 'There is no such route.')
  if (member.manages && member.team === undefined) return
  throw new Forbidden('forbidden', 'Credit is bought by those who manage the account.')
}

const REQUESTS_A_MINUTE = 120
const MINUTE_MS = 60_000

const { rpm_limit, concurrency_limit, spend_cap, limits, models, deny_models, expires_at } =
  bodyOf(KEY_SETTINGS)
/** What a member may choose for a key of its own; the rest is as its place has it for new keys. */
const chosen = { rpm_limit, concurrency_limit, spend_cap, limits, models, deny_models, expires_at }

const ownKey = v.strictObject({ name, ...chosen })
const ownKeyChange = v.strictObject({
  name: v.optional(name),
  disabled: v.optional(v.boolean('true or false')),
  ...chosen,
})

/** Routes by path below `/me/api`, then by method. */
export const ME_ROUTES: Readonly<Record<string, Readonly<Record<string, Handler>>>> = {
  '/keys': { GET: listKeys, POST: createKey },
  '/keys/:id': { GET: showKey, PATCH: changeKey, DELETE: archiveKey },
  '/keys/:id/rotate': { POST: rotateKey },
  '/keys/:id/play': { POST: playKey },
  '/members': { GET: listMembers, POST: inviteMember },
  '/members/:id': { PATCH: changeMember },
  ...placeRoutes,
  ...mePaymentRoutes,
}

/** What a session of one key may do; everything else needs a member. */
const FOR_KEYS: ReadonlySet<string> = new Set([
  'GET /keys',
  'GET /keys/:id',
  'POST /keys/:id/play',
  'GET /place',
  'GET /models',
  'GET /usage',
  'GET /requests',
  'GET /requests/:id',
  'GET /sessions',
  'DELETE /sessions/:id',
  'POST /checkout',
  'GET /payments',
  'GET /payments/:id',
])

export function meApp(gateway: Gateway, begin: (event: H3Event) => void): H3 {
  const app = new H3()
  const rates = new Rates()
  app.use((event) => {
    begin(event)
    event.res.headers.set('cache-control', 'no-store')
    event.res.headers.set('x-content-type-options', 'nosniff')
    requireKnownHost(event, gateway.runtime.config)
  })
  addMemberSession(app, gateway)
  for (const [path, methods] of Object.entries(ME_ROUTES)) {
    app.all(path, async (event) => {
      const own = await memberSession(event, gateway)
      if (!own) throw new Unauthenticated('Sign in first.', 'session_ended')
      rates.count(own.member.id)
      const answerTo = methods[event.req.method]
      if (!answerTo) {
        const allow = Object.keys(methods).join(', ')
        const message = `This route does not take ${event.req.method}. Allowed: ${allow}.`
        throw new InvalidRequest('method_not_allowed', message, { headers: { allow } })
      }
      if (own.only && !FOR_KEYS.has(`${event.req.method} ${path}`)) {
        throw new Forbidden(
          'forbidden',
          'The session of a key cannot do this: sign in as a member.',
        )
      }
      const { runtime } = gateway
      const id = event.context.params?.id ?? ''
      const answer = await answerTo({ runtime, event, id, ...own })
      if (answer instanceof Response) return answer
      event.res.status = answer.status ?? 200
      return answer.body
    })
  }
  app.all('/**', () => {
    throw new NotFound('unknown_url', 'There is no such route.')
  })
  return app
}

/** Bounds the requests of each member: they are customers. */
class Rates {
  #since = performance.now()
  readonly #counts = new Map<string, number>()

  /** @throws TooManyRequests */
  count(member: string): void {
    const now = performance.now()
    if (now - this.#since >= MINUTE_MS) {
      this.#since = now
      this.#counts.clear()
    }
    const count = (this.#counts.get(member) ?? 0) + 1
    this.#counts.set(member, count)
    if (count <= REQUESTS_A_MINUTE) return
    throw new TooManyRequests('rate_limited', 'Too many requests.', this.#since + MINUTE_MS - now)
  }
}

// Keys: a member sees and changes its own; one that manages sees all of the place, and may disable them.

async function listKeys(request: MemberRequest): Promise<Answer> {
  const { runtime, member, only } = request
  const keys = only ? [only] : await runtime.accounts.listKeys(member.account)
  const seen = keys.filter((key) => key.archivedAt === undefined && sees(request, key))
  return { body: { data: await Promise.all(seen.map((key) => viewOf(runtime, key))), next: null } }
}

async function showKey(request: MemberRequest): Promise<Answer> {
  return { body: { data: await viewOf(request.runtime, await keyOf(request)) } }
}

async function createKey(request: MemberRequest): Promise<Answer> {
  const { runtime, member, actor } = request
  const { account, team } = member
  const { name, ...settings } = readNew(ownKey, await requestBody(request))
  const place = await placeOf(runtime, member)
  const { newKeys, memberKeys } = place.team ?? place.account
  const wanted = withPlace(withIds(runtime.catalog, toKeyChange(settings)), newKeys)
  const init = { ...wanted, name, owner: member.id, ...(team !== undefined && { team }) }
  const most = memberKeys ?? runtime.config.admin.members.keys
  const permits = async (key: Key) => {
    const live = (await runtime.members.keysOf(member)).filter((one) => !one.archivedAt)
    if (live.length >= most) {
      const message = `You have ${live.length} keys, and ${most} are the most: archive one first.`
      throw new Forbidden('forbidden', message)
    }
    withinPlace(runtime, place)(key)
  }
  const { key, secret } = await runtime.accounts.createKey(account, init, actor.id, permits)
  await note(request, { action: 'key.create', object: `key:${key.id}`, after: keySettings(key) })
  return { status: 201, body: { data: await viewOf(runtime, key), key: secret } }
}

async function changeKey(request: MemberRequest): Promise<Answer> {
  const { runtime, member, actor } = request
  const key = await keyOf(request)
  const { name, disabled, ...settings } = read(ownKeyChange, await requestBody(request))
  const isDisabling = disabled === true && name === undefined && Object.keys(settings).length === 0
  if (!isDisabling) requireOwn(request, key)
  if (disabled === false && key.disabled && key.changed?.by !== actor.id) {
    throw new Forbidden('forbidden', 'This key was not disabled by you: ask for it to be enabled.')
  }
  const wanted = withIds(runtime.catalog, toKeyChange({ name, disabled, ...settings }))
  // Who manages may disable a key that is wider.
  const permits = isDisabling ? () => {} : withinPlace(runtime, await placeOf(runtime, member))
  return changing(request, ofKeys(request), 'update', async (condition) => ({
    item: await runtime.accounts.changeKey(key.id, wanted, { ...condition, permits }),
  }))
}

async function archiveKey(request: MemberRequest): Promise<Answer> {
  const key = await ownKeyOf(request)
  return changing(request, ofKeys(request), 'archive', async (condition) => ({
    item: await request.runtime.accounts.archiveKey(key.id, condition),
  }))
}

async function rotateKey(request: MemberRequest): Promise<Answer> {
  const { runtime, member } = request
  const { id } = await ownKeyOf(request)
  const wanted = rotationOf(read(rotation, await requestBody(request)))
  const permits = withinPlace(runtime, await placeOf(runtime, member))
  return changing(request, ofKeys(request), 'rotate', async (condition) => {
    const { key, secret } = await runtime.accounts.rotateKey(id, wanted, { ...condition, permits })
    return { item: key, status: 201, more: { key: secret } }
  })
}

/** Refuses a key that is wider than its place allows. */
const withinPlace =
  ({ config }: MemberRequest['runtime'], { team, account }: Place) =>
  (next: Key, before?: Key) =>
    requireWithin(next, before, (team ?? account).newKeys, config.defaults.limits)

async function playKey(request: MemberRequest): Promise<Answer> {
  const { runtime, actor } = request
  const { id, revision } = await ownKeyOf(request)
  const made = await runtime.credentials.playToken({ key: id, revision, by: actor.id })
  const expires_at = moment(made.expiresAt)
  await note(request, { action: 'key.play', object: `key:${id}`, after: { expires_at } })
  return { status: 201, body: { data: { token: made.secret, expires_at } } }
}

const ofKeys = ({ runtime }: MemberRequest) => ({
  kind: 'key',
  settings: audited(keySettings),
  view: (key: Key) => viewOf(runtime, key),
})

/** A key that the session may see. @throws NotFound for any other */
async function keyOf(request: MemberRequest): Promise<Key> {
  const { runtime, id } = request
  const key = await runtime.accounts.key(id)
  return key && sees(request, key) ? key : missing('key', id)
}

async function ownKeyOf(request: MemberRequest): Promise<Key> {
  const key = await keyOf(request)
  requireOwn(request, key)
  return key
}

/** @throws Forbidden for a key that the member may only see */
function requireOwn(request: MemberRequest, key: Key): void {
  if (owns(request, key)) return
  throw new Forbidden('forbidden', 'This is not your own key: you may see and disable it.')
}

/** A key without what concerns operators alone. */
async function viewOf({ ledger }: MemberRequest['runtime'], key: Key) {
  const {
    note: _note,
    changed: _changed,
    policy: _policy,
    ...view
  } = keyView(key, await ledger.key(key.account, key.id), {})
  return view
}

// Members of the same place, for those that manage it.

async function listMembers({ runtime, member }: MemberRequest): Promise<Answer> {
  requireManaging(member)
  const members = await runtime.members.list(member)
  return { body: { data: members.map(ownView), next: null } }
}

async function inviteMember(request: MemberRequest): Promise<Answer> {
  const { member } = request
  requireManaging(member)
  const { team = member.team, ...init } = readNew(
    v.strictObject(invitation),
    await requestBody(request),
  )
  const { account } = member
  if (member.team !== undefined && team !== member.team) missing('team', team!)
  return withoutActors(await invite(request, { account, team }, init))
}

async function changeMember(request: MemberRequest): Promise<Answer> {
  const { runtime, member, id } = request
  requireManaging(member)
  const other = await runtime.members.member(id)
  if (!other || !isInPlace(member, other)) missing('member', id)
  const { manages, disabled, ...rest } = read(memberChange, await requestBody(request))
  if (Object.keys(rest).length > 0) {
    throw new Forbidden('forbidden', 'You may change "manages" and "disabled" of a member.')
  }
  const loses = manages === false || disabled === true
  const managing = (await runtime.members.list(other)).filter(
    (one) => one.team === other.team && one.manages && !one.disabled,
  )
  if (loses && managing.length === 1 && managing[0]!.id === id) {
    throw new Forbidden('forbidden', 'This is the last member that manages it.')
  }
  return withoutActors(await change(request, { manages, disabled }))
}

/** @throws Forbidden for a member that does not manage its place */
function requireManaging({ manages }: Member): void {
  if (manages) return
  throw new Forbidden(
    'forbidden',
    'Members are managed by those who manage the account or the team.',
  )
}

function ownView(member: Member) {
  const { changed: _, ...view } = memberView(member)
  return view
}

/** The answer without ids of operators. */
function withoutActors({ body, ...answer }: Answer): Answer {
  const { changed: _, ...data } = body.data as Readonly<Record<string, unknown>>
  return { ...answer, body: { ...body, data } }
}
