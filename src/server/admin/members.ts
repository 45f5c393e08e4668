/** Members of accounts and teams, for operators: invited, changed and removed. */
import type { Member, Place } from '../../access/members.ts'
import { InvalidRequest } from '../../errors/errors.ts'
import { checkParameters } from '../../errors/query.ts'
import type { Runtime } from '../../pipeline/pipeline.ts'
import { changing, note } from './audit.ts'
import { memberChange, memberView, newMember } from './resources/member.ts'
import { moment } from './resources/settings.ts'
import {
  accountOf,
  bodyOf,
  missing,
  needs,
  read,
  readNew,
  type AdminRequest,
  type Answer,
  type Routes,
} from './route.ts'

export const memberRoutes: Routes = {
  '/members': { GET: needs('read', listMembers), POST: needs('keys', createMember) },
  '/members/:id': {
    GET: needs('read', showMember),
    PATCH: needs('keys', changeMember),
    DELETE: needs('keys', removeMember),
  },
  '/members/:id/link': { POST: needs('keys', makeLink) },
}

/** The part of a request that a change of members needs: operators and members that manage have it. */
type MemberRequest = Pick<AdminRequest, 'runtime' | 'actor' | 'event' | 'id'>

async function listMembers({ runtime, query }: AdminRequest): Promise<Answer> {
  checkParameters(query, new Set(['account', 'team']))
  const [account, team] = ['account', 'team'].map((name) => query.get(name) ?? undefined)
  if (account !== undefined) await accountOf(runtime, account)
  const members = await runtime.members.list({ account, team })
  return { body: { data: members.map(memberView), next: null } }
}

async function showMember({ runtime, id }: AdminRequest): Promise<Answer> {
  return { body: { data: memberView(await memberOf(runtime, id)) } }
}

async function createMember(request: AdminRequest): Promise<Answer> {
  const { account, team, ...init } = readNew(newMember, await bodyOf(request))
  return invite(request, { account, team }, init)
}

/** Makes a member, and its link unless that is not wanted. */
export async function invite(
  request: MemberRequest,
  place: Place,
  {
    link: wantsLink = true,
    ...init
  }: Parameters<Runtime['members']['create']>[1] & { link?: boolean },
): Promise<Answer> {
  const { runtime, actor } = request
  const member = await runtime.members.create(place, init, actor.id)
  await note(request, {
    action: 'member.create',
    object: `member:${member.id}`,
    after: settingsOf(member),
  })
  const link = wantsLink ? await linkOf(runtime, member) : {}
  return { status: 201, body: { data: memberView(member), ...link } }
}

async function changeMember(request: AdminRequest): Promise<Answer> {
  return change(request, read(memberChange, await bodyOf(request)))
}

export function change(
  request: MemberRequest,
  wanted: Parameters<Runtime['members']['change']>[1],
): Promise<Answer> {
  const { runtime, actor, id } = request
  return changing(request, ofMembers, 'update', async (condition) => ({
    item: await runtime.members.change(id, wanted, actor.id, condition),
  }))
}

async function removeMember(request: AdminRequest): Promise<Answer> {
  const { runtime, actor, id, query } = request
  checkParameters(query, new Set(['keys']))
  const keys = query.get('keys') ?? 'disable'
  if (keys !== 'disable' && keys !== 'keep') {
    const message = "Invalid 'keys': expected disable or keep."
    throw new InvalidRequest('invalid_value', message, { param: 'keys' })
  }
  return changing(
    request,
    ofMembers,
    'remove',
    async (condition) => ({
      item: await runtime.members.remove(id, keys === 'keep', actor.id, condition),
    }),
    { removed: true },
  )
}

async function makeLink(request: AdminRequest): Promise<Answer> {
  const member = await memberOf(request.runtime, request.id)
  const link = await linkOf(request.runtime, member)
  const after = { expires_at: link.expires_at }
  await note(request, { action: 'member.link', object: `member:${member.id}`, after })
  return { status: 201, body: { data: memberView(member), ...link } }
}

async function linkOf({ members, config }: Runtime, member: Member) {
  const { secret, expiresAt } = await members.invite(member)
  const { publicUrl, basePath } = config.server
  // A fragment reaches no server and no log.
  return { link: `${publicUrl ?? basePath}/me#invite=${secret}`, expires_at: moment(expiresAt) }
}

async function memberOf({ members }: Runtime, id: string): Promise<Member> {
  return (await members.member(id)) ?? missing('member', id)
}

const ofMembers = {
  kind: 'member',
  settings: settingsOf,
  view: async (member: Member) => memberView(member),
}

function settingsOf({ account, team, name, email, manages, disabled }: Member) {
  return { account_id: account, team_id: team, name, email, manages, disabled }
}
