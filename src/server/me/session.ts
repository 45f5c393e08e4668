/**
 * Sessions below `/me`: of members, begun by an invitation or by a provider and changed to another place of the same person, and of
 * single keys, begun with their secret.
 */
import type { H3, H3Event } from 'h3'
import * as v from 'valibot'
import { hashSecret } from '../../accounts/secrets.ts'
import type { Actor } from '../../access/actors.ts'
import type { FoundSession, Session } from '../../access/credentials.ts'
import type { Key } from '../../accounts/stored.ts'
import type { Member } from '../../access/members.ts'
import type { Config } from '../../config/config.ts'
import { Unauthenticated } from '../../errors/errors.ts'
import type { Gateway } from '../../gateway/gateway.ts'
import { note } from '../admin/audit.ts'
import { GuessLimit, noteRefusal } from '../admin/auth.ts'
import { moment } from '../admin/resources/settings.ts'
import { openSession } from '../admin/session.ts'
import { bodyOf, missing, read, type AdminRequest, type Answer } from '../admin/route.ts'
import {
  addressOf,
  clearSessionCookie,
  requireSameOrigin,
  sessionCookie,
  setSessionCookie,
} from '../browser.ts'

const begun = v.union([
  v.strictObject({ ticket: v.pipe(v.string(), v.maxLength(1000)) }),
  v.strictObject({ member: v.pipe(v.string(), v.maxLength(100)) }),
  v.strictObject({
    key: v.pipe(v.string(), v.maxLength(1000)),
    keep: v.optional(v.boolean('true or false'), false),
  }),
])

/** A request of a member. */
export interface MemberRequest extends Pick<AdminRequest, 'runtime' | 'actor' | 'event' | 'id'> {
  /** The member; in the session of a key, one that owns this key alone and manages nothing. */
  readonly member: Member
  /** The key whose secret has begun the session: all that it sees. */
  readonly only?: Key | undefined
  readonly found: FoundSession
}

/** Who a session stands for. */
type Holder = Pick<MemberRequest, 'member' | 'only'>

export type Handler = (request: MemberRequest) => Promise<Answer | Response>

/** The routes of the session itself, which need none. */
export function addMemberSession(app: H3, gateway: Gateway): void {
  const guesses = new GuessLimit()
  app.get('/session', async (event) => {
    const own = await memberSession(event, gateway)
    if (own) return { data: await viewOf(gateway, own, own.found.session) }
    return { data: null, sign_in: { providers: providersIn(gateway.runtime.config) } }
  })
  app.post('/session', async (event) => {
    requireSameOrigin(event)
    const wanted = read(begun, await bodyOf({ event, runtime: gateway.runtime }))
    const { session, ...own } =
      'ticket' in wanted
        ? await invited(event, gateway, wanted.ticket, guesses)
        : 'key' in wanted
          ? await ofSecret(event, gateway, wanted, guesses)
          : await changed(event, gateway, wanted.member)
    return { data: await viewOf(gateway, own, session) }
  })
  app.delete('/session', async (event) => {
    const { runtime } = gateway
    requireSameOrigin(event)
    const own = await memberSession(event, gateway)
    clearSessionCookie(event, 'member', runtime.config)
    if (own) {
      const { sha256, session } = own.found
      await runtime.credentials.endSession(sha256)
      const object = `session:${session.id}`
      await note({ runtime, ...own }, { action: 'session.end', object, after: { ended: true } })
    }
    return { data: null }
  })
}

/** Who a request's cookie stands for; undefined without a session that goes on. Sends the cookie again from time to time. */
export async function memberSession(event: H3Event, gateway: Gateway) {
  const { runtime } = gateway
  const { credentials, config } = runtime
  const secret = sessionCookie(event, 'member')
  if (secret === undefined) return undefined
  requireSameOrigin(event)
  const limits = config.admin.members.sessions
  const isReading = event.req.method === 'GET'
  const found = await credentials.session(secret, 'member', limits, isReading)
  const own = found && (await holderOf(runtime, found.session))
  if (!own) return undefined
  const prolonged = await credentials.prolong(found, limits)
  if (prolonged) setSessionCookie(event, config, secret, prolonged, limits.idle)
  const actor = actorOf(own, addressOf(event, config))
  return { ...own, found, actor: { ...actor, session: found.session.id } }
}

/** Who a session stands for now; undefined for a member or a key that is refused. */
async function holderOf(
  { members, accounts }: Gateway['runtime'],
  { subject }: Session,
): Promise<Holder | undefined> {
  if ('member' in subject) {
    const member = await members.member(subject.member)
    return member && !member.disabled ? { member } : undefined
  }
  if (!('key' in subject)) return undefined
  const resolved = await accounts.reload(subject.key)
  if (!resolved) return undefined
  const { key, account } = resolved
  const isOver = key.expiresAt !== undefined && key.expiresAt <= Date.now()
  if (key.disabled || key.archivedAt !== undefined || account.disabled || isOver) return undefined
  const { id, team, name, createdAt, revision } = key
  const changed = { at: createdAt, by: `key:${id}` }
  const member = { id, account: account.id, team, name, manages: false, disabled: false }
  return { member: { ...member, createdAt, changed, revision }, only: key }
}

function actorOf({ member, only }: Holder, address: string): Actor {
  const actor = memberActor(member, address)
  return only ? { ...actor, id: `key:${only.id}` } : actor
}

export function memberActor({ id, name }: Member, address: string): Actor {
  return { id: `member:${id}`, name, role: 'member', rights: new Set(), address }
}

/** Begins a session of a member, and sends its cookie. */
export function beginMemberSession(
  event: H3Event,
  gateway: Gateway,
  member: Member,
  how: Session['how'],
): Promise<FoundSession> {
  return begin(event, gateway, { member }, { subject: { member: member.id }, how, keep: true })
}

function begin(
  event: H3Event,
  gateway: Gateway,
  own: Holder,
  of: Pick<Session, 'subject' | 'how' | 'keep'>,
): Promise<FoundSession> {
  const { config } = gateway.runtime
  const actor = actorOf(own, addressOf(event, config))
  const limits = config.admin.members.sessions
  return openSession(event, gateway, actor, { side: 'member', ...of }, limits, { how: of.how })
}

/** Signs in with an invitation, which is used up. @throws Unauthenticated */
async function invited(event: H3Event, gateway: Gateway, ticket: string, guesses: GuessLimit) {
  const { credentials, members } = gateway.runtime
  const used = await credentials.use(ticket, 'invitation')
  const member = used && (await members.member(used.member))
  if (!member || member.disabled) {
    const message = 'This invitation was used, or is older than 7 days. Ask for a new one.'
    return refuse(event, gateway, guesses, message)
  }
  return { member, ...(await beginMemberSession(event, gateway, member, 'invitation')) }
}

/** Signs in with the secret of a key, for this key alone. @throws Unauthenticated */
async function ofSecret(
  event: H3Event,
  gateway: Gateway,
  { key, keep }: { readonly key: string; readonly keep: boolean },
  guesses: GuessLimit,
) {
  const subject = { key: hashSecret(key.trim()) }
  const own = await holderOf(gateway.runtime, { subject } as Session)
  if (!own) return refuse(event, gateway, guesses, 'This key is not one that works here.')
  return { ...own, ...(await begin(event, gateway, own, { subject, how: 'key', keep })) }
}

/** Refuses a wrong proof, and counts it against its address. @throws Unauthenticated, TooManyRequests after too many others */
function refuse(event: H3Event, gateway: Gateway, guesses: GuessLimit, message: string): never {
  const address = addressOf(event, gateway.runtime.config)
  noteRefusal(gateway, 'me', address)
  guesses.check(address)
  guesses.note(address)
  throw new Unauthenticated(message)
}

/** Goes on as another member of the same person, in a session of its own. @throws Unauthenticated, NotFound */
async function changed(event: H3Event, gateway: Gateway, id: string) {
  const own = await memberSession(event, gateway)
  if (!own) throw new Unauthenticated('Sign in first.', 'session_ended')
  if (own.only) missing('member', id)
  const places = await gateway.runtime.members.places(own.member)
  const member = places.find((one) => one.id === id) ?? missing('member', id)
  await gateway.runtime.credentials.endSession(own.found.sha256)
  return { member, ...(await beginMemberSession(event, gateway, member, own.found.session.how)) }
}

async function viewOf({ runtime }: Gateway, { member, only }: Holder, session: Session) {
  const { id, account, team = null, name, manages } = member
  const places = only ? [] : await runtime.members.places(member)
  return {
    id: session.id,
    member_id: only ? null : id,
    key_id: only?.id ?? null,
    account_id: account,
    team_id: team,
    name,
    manages,
    how: session.how,
    ends_at: moment(session.endsAt),
    places: places.map((one) => ({
      member_id: one.id,
      account_id: one.account,
      team_id: one.team ?? null,
      current: one.id === id,
    })),
  }
}

/** Providers by which members sign in. */
function providersIn({ admin }: Config) {
  return Object.entries(admin.login.oidc)
    .filter(([, { members }]) => members)
    .map(([name, { label = name }]) => ({ name, label }))
}
