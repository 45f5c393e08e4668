/** Tokens of the admin API, and sessions: who has them, and how they are ended. */
import type { Session, StoredToken } from '../../access/credentials.ts'
import { Forbidden, InvalidRequest, NotFound, ReadOnly } from '../../errors/errors.ts'
import { checkParameters } from '../../errors/query.ts'
import type { Runtime } from '../../pipeline/pipeline.ts'
import { changing, note } from './audit.ts'
import { tokenNotices } from '../../gateway/notices.ts'
import { FIRST_TOKEN, tokensOf, type ConfiguredToken } from './auth.ts'
import { newToken, tokenChange, type SessionAnswer, type TokenAnswer } from './resources/session.ts'
import { moment, momentOrNull } from './resources/settings.ts'
import {
  bodyOf,
  missing,
  needs,
  read,
  readNew,
  type AdminRequest,
  type Answer,
  type Routes,
} from './route.ts'

export const peopleRoutes: Routes = {
  '/tokens': { GET: needs('people', listTokens), POST: needs('people', createToken) },
  '/tokens/:id': {
    GET: needs('people', showToken),
    PATCH: needs('people', changeToken),
    DELETE: needs('people', endToken),
  },
  '/sessions': { GET: needs('read', listSessions), DELETE: needs('read', endSessions) },
  '/sessions/:id': { DELETE: needs('read', endSession) },
}

const FILE = 'file:'
const SIDES = ['operator', 'member']

async function listTokens({ gateway, runtime }: AdminRequest): Promise<Answer> {
  const stored = await runtime.credentials.tokens()
  const configured = tokensOf(runtime.config).map((token) =>
    configuredView(token, gateway.madeToken),
  )
  return { body: { data: [...configured, ...stored.map(tokenView)], next: null } }
}

async function showToken({ gateway, runtime, id }: AdminRequest): Promise<Answer> {
  const configured = configuredToken(runtime, id)
  if (configured) return { body: { data: configuredView(configured, gateway.madeToken) } }
  const stored = (await runtime.credentials.tokens()).find((one) => one.id === id)
  return { body: { data: tokenView(stored ?? missing('token', id)) } }
}

async function createToken(request: AdminRequest): Promise<Answer> {
  const { runtime, actor } = request
  const { name, role, expires_at } = readNew(newToken, await bodyOf(request))
  const expiresAt = expires_at === undefined ? undefined : Date.parse(expires_at)
  const reserved = tokensOf(runtime.config).map((one) => one.name)
  const made = await runtime.credentials.createToken({ name, role, expiresAt }, actor.id, reserved)
  const { token, secret } = made
  await note(request, {
    action: 'token.create',
    object: `token:${token.id}`,
    after: tokenSettings(token),
  })
  return { status: 201, body: { data: tokenView(token), token: secret } }
}

async function changeToken(request: AdminRequest): Promise<Answer> {
  const { runtime, actor, id } = request
  const { name, role, expires_at } = read(tokenChange, await bodyOf(request))
  requireStored(runtime, id)
  const isTaken = tokensOf(runtime.config).some((one) => one.name === name)
  if (isTaken) {
    const message = "Invalid 'name': expected a new one; a token of the configuration is called so."
    throw new InvalidRequest('invalid_value', message, { param: 'name' })
  }
  const expiresAt = expires_at == null ? expires_at : Date.parse(expires_at)
  return changing(request, ofTokens, 'update', async (condition) => ({
    item: await runtime.credentials.changeToken(id, { name, role, expiresAt }, actor.id, condition),
  }))
}

async function endToken(request: AdminRequest): Promise<Answer> {
  const { runtime, id } = request
  requireStored(runtime, id)
  return changing(
    request,
    { ...ofTokens, settings: (token) => ({ ...tokenSettings(token), ended: null }) },
    'end',
    async (condition) => ({ item: await runtime.credentials.endToken(id, condition) }),
    { ended: true },
  )
}

const ofTokens = {
  kind: 'token',
  settings: tokenSettings,
  view: async (token: StoredToken) => tokenView(token),
}

/** Refuses a change of a token of the configuration. @throws ReadOnly */
function requireStored(runtime: Runtime, id: string): void {
  const configured = configuredToken(runtime, id)
  if (!configured) return
  const { name } = configured
  const where = name === FIRST_TOKEN ? 'admin.token' : 'in admin.tokens'
  const message = `${JSON.stringify(name)} is ${where} of the configuration; change or remove it there.`
  throw new ReadOnly(message)
}

function configuredToken({ config }: Runtime, id: string): ConfiguredToken | undefined {
  return tokensOf(config).find(({ name }) => id === FILE + name)
}

/** Members that an entry of the audit log has. */
function tokenSettings({ name, role, expiresAt }: StoredToken) {
  return { name, role, expires_at: momentOrNull(expiresAt) }
}

function tokenView(token: StoredToken): TokenAnswer {
  const { id, name, role, start, createdAt, createdBy, expiresAt, usedAt, revision } = token
  return {
    id,
    name,
    role,
    source: 'stored',
    start,
    created_at: moment(createdAt),
    created_by: createdBy,
    expires_at: momentOrNull(expiresAt),
    used_at: momentOrNull(usedAt),
    revision,
    warnings: tokenNotices(id, token),
  }
}

function configuredView({ name, role, token }: ConfiguredToken, isMade: boolean): TokenAnswer {
  return {
    id: FILE + name,
    name,
    role,
    source: isMade && name === FIRST_TOKEN ? 'own' : 'file',
    start: null,
    created_at: null,
    created_by: null,
    expires_at: null,
    used_at: null,
    revision: null,
    warnings: tokenNotices(FILE + name, {}, token),
  }
}

// Sessions: each actor sees and ends its own; those of others need the right `people`.

async function listSessions({ runtime, actor, query }: AdminRequest): Promise<Answer> {
  checkParameters(query, new Set(['subject', 'side']))
  const [subject, side] = [query.get('subject'), query.get('side')]
  if (side !== null && !SIDES.includes(side)) {
    const message = "Invalid 'side': expected operator or member."
    throw new InvalidRequest('invalid_value', message, { param: 'side' })
  }
  const whose = actor.rights.has('people') ? subject : (subject ?? actor.id)
  requireOwn(actor, whose)
  const sessions = await liveSessions(
    runtime,
    (session) =>
      (whose === null || session.actor === whose) && (side === null || session.side === side),
  )
  return { body: { data: sessions.map((session) => sessionView(session, actor)), next: null } }
}

async function endSession(request: AdminRequest): Promise<Answer> {
  const { runtime, actor, id } = request
  const [session] = await runtime.credentials.sessions((one) => one.id === id)
  if (!session) throw new NotFound('not_found', `There is no session ${JSON.stringify(id)}.`)
  requireOwn(actor, session.actor)
  return endAll(request, (one) => one.id === id)
}

async function endSessions(request: AdminRequest): Promise<Answer> {
  const { actor, query } = request
  checkParameters(query, new Set(['subject']))
  const subject = query.get('subject') ?? actor.id
  requireOwn(actor, subject)
  return endAll(request, (one) => one.actor === subject)
}

async function endAll(
  request: AdminRequest,
  isWanted: (session: Session) => boolean,
): Promise<Answer> {
  const ended = await request.runtime.credentials.endSessions(isWanted)
  for (const { id } of ended) {
    await note(request, { action: 'session.end', object: `session:${id}`, after: { ended: true } })
  }
  return { body: { data: { ended: ended.map(({ id }) => id) } } }
}

/** @throws Forbidden for sessions of another actor, without the right `people` */
function requireOwn(
  { id, name, role, rights }: AdminRequest['actor'],
  subject: string | null,
): void {
  if (subject === id || rights.has('people')) return
  const message = `Sessions of others need the role admin; ${JSON.stringify(name)} has the role ${role}.`
  throw new Forbidden('forbidden', message)
}

/** Sessions that are not over by their time without use. */
async function liveSessions(
  { credentials, config }: Runtime,
  isWanted: (session: Session) => boolean,
): Promise<readonly Session[]> {
  const oldest = Date.now() - config.admin.sessions.idle * 1000
  return credentials.sessions((session) => session.seenAt >= oldest && isWanted(session))
}

function sessionView(session: Session, actor: AdminRequest['actor']): SessionAnswer {
  const { id, side, name, how, createdAt, seenAt, endsAt, address, agent } = session
  return {
    id,
    side,
    subject: session.actor,
    name,
    how,
    current: id === actor.session,
    created_at: moment(createdAt),
    seen_at: moment(seenAt),
    ends_at: moment(endsAt),
    address: address || null,
    agent: agent || null,
  }
}
