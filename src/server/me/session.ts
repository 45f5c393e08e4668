/** Sessions of members: begun by an invitation or by a provider, and changed to another place of the same person. */
import type { H3, H3Event } from 'h3'
import * as v from 'valibot'
import { hashSecret } from '../../accounts/secrets.ts'
import type { Actor } from '../../access/actors.ts'
import type { FoundSession, Session } from '../../access/credentials.ts'
import type { Member } from '../../access/members.ts'
import type { Config } from '../../config/config.ts'
import { Unauthenticated } from '../../errors/errors.ts'
import type { Gateway } from '../../gateway/gateway.ts'
import { note } from '../admin/audit.ts'
import { noteRefusal } from '../admin/auth.ts'
import { moment } from '../admin/resources/settings.ts'
import { bodyOf, missing, read, type AdminRequest, type Answer } from '../admin/route.ts'
import {
  addressOf,
  clearSessionCookie,
  isEncrypted,
  requireSameOrigin,
  sessionCookie,
  setSessionCookie,
} from '../browser.ts'

const begun = v.union([
  v.strictObject({ ticket: v.pipe(v.string(), v.maxLength(1000)) }),
  v.strictObject({ member: v.pipe(v.string(), v.maxLength(100)) }),
])

/** A request of a member. */
export interface MemberRequest extends Pick<AdminRequest, 'runtime' | 'actor' | 'event' | 'id'> {
  readonly member: Member
  readonly found: FoundSession
}

export type Handler = (request: MemberRequest) => Promise<Answer>

/** The routes of the session itself, which need none. */
export function addMemberSession(app: H3, gateway: Gateway): void {
  app.get('/session', async (event) => {
    const own = await memberSession(event, gateway)
    if (own) return { data: await viewOf(gateway, own.member, own.found.session) }
    return { data: null, sign_in: { providers: providersIn(gateway.runtime.config) } }
  })
  app.post('/session', async (event) => {
    requireSameOrigin(event)
    const wanted = read(begun, await bodyOf({ event, runtime: gateway.runtime }))
    const { member, session } =
      'ticket' in wanted
        ? await invited(event, gateway, wanted.ticket)
        : await changed(event, gateway, wanted.member)
    return { data: await viewOf(gateway, member, session) }
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

/** The member of a request's cookie; undefined without a session that goes on. Sends the cookie again from time to time. */
export async function memberSession(event: H3Event, gateway: Gateway) {
  const { runtime } = gateway
  const { credentials, members, config } = runtime
  const secret = sessionCookie(event, 'member')
  if (secret === undefined) return undefined
  requireSameOrigin(event)
  const limits = config.admin.members.sessions
  const isReading = event.req.method === 'GET'
  const found = await credentials.session(secret, 'member', limits, isReading)
  if (!found || !('member' in found.session.subject)) return undefined
  const member = await members.member(found.session.subject.member)
  if (!member || member.disabled) return undefined
  const prolonged = await credentials.prolong(found, limits)
  if (prolonged) setSessionCookie(event, config, secret, prolonged, limits.idle)
  const address = addressOf(event, config)
  return { member, found, actor: { ...memberActor(member, address), session: found.session.id } }
}

export function memberActor({ id, name }: Member, address: string): Actor {
  return { id: `member:${id}`, name, role: 'member', rights: new Set(), address }
}

/** Begins a session of a member, and sends its cookie. */
export async function beginMemberSession(
  event: H3Event,
  gateway: Gateway,
  member: Member,
  how: Session['how'],
): Promise<FoundSession> {
  const { runtime } = gateway
  const { credentials, config } = runtime
  const actor = memberActor(member, addressOf(event, config))
  const limits = config.admin.members.sessions
  const { session, secret } = await credentials.beginSession(
    {
      side: 'member',
      subject: { member: member.id },
      actor: actor.id,
      name: member.name,
      how,
      secure: isEncrypted(event, config),
      keep: true,
      address: actor.address,
      agent: event.req.headers.get('user-agent') ?? '',
    },
    limits,
  )
  setSessionCookie(event, config, secret, session, limits.idle)
  const signedIn = { ...actor, session: session.id }
  await note(
    { runtime, actor: signedIn },
    { action: 'session.create', object: `session:${session.id}`, after: { how } },
  )
  return { sha256: hashSecret(secret), session }
}

/** Signs in with an invitation, which is used up. @throws Unauthenticated */
async function invited(event: H3Event, gateway: Gateway, ticket: string) {
  const { credentials, members, config } = gateway.runtime
  const used = await credentials.use(ticket, 'invitation')
  const member = used && (await members.member(used.member))
  if (!member || member.disabled) {
    noteRefusal(gateway, 'me', addressOf(event, config))
    throw new Unauthenticated(
      'This invitation was used, or is older than 7 days. Ask for a new one.',
    )
  }
  return { member, ...(await beginMemberSession(event, gateway, member, 'invitation')) }
}

/** Goes on as another member of the same person, in a session of its own. @throws Unauthenticated, NotFound */
async function changed(event: H3Event, gateway: Gateway, id: string) {
  const own = await memberSession(event, gateway)
  if (!own) throw new Unauthenticated('Sign in first.', 'session_ended')
  const places = await gateway.runtime.members.places(own.member)
  const member = places.find((one) => one.id === id) ?? missing('member', id)
  await gateway.runtime.credentials.endSession(own.found.sha256)
  return { member, ...(await beginMemberSession(event, gateway, member, own.found.session.how)) }
}

async function viewOf({ runtime }: Gateway, member: Member, session: Session) {
  const { id, account, team = null, name, manages } = member
  const places = await runtime.members.places(member)
  return {
    id: session.id,
    member_id: id,
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
