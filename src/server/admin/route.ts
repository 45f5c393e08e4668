import type { H3Event } from 'h3'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Account, Key } from '../../accounts/stored.ts'
import { readJson } from '../../endpoints/shared/body.ts'
import { InvalidRequest, NotFound } from '../../errors/errors.ts'
import type { Gateway } from '../../gateway/gateway.ts'
import type { Runtime } from '../../pipeline/pipeline.ts'
import { letContinue } from '../front.ts'
import { NodeIncoming, bodyTimer } from '../node-http.ts'
import type { Actor, AdminAuth } from './auth.ts'
import type { Role } from './resources/session.ts'

/** Largest body: twice the longest policy. */
const BODY_LIMIT = 262_144

export interface AdminRequest {
  readonly gateway: Gateway
  readonly runtime: Runtime
  readonly event: H3Event
  readonly query: URLSearchParams
  readonly id: string
  readonly actor: Actor
  readonly auth: AdminAuth
}

/** An answer; status 200 by default. */
export interface Answer {
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body: { readonly data: object | null; readonly [more: string]: unknown }
}

/** Answers a request; a Response is sent as it is, as for a list as CSV and a stream of events. */
type Handler = (request: AdminRequest) => Answer | Response | Promise<Answer | Response>

export interface Route {
  /** The least role that may use it. */
  readonly role: Role
  readonly answer: Handler
}

export const viewer = (answer: Handler): Route => ({ role: 'viewer', answer })
export const billing = (answer: Handler): Route => ({ role: 'billing', answer })
export const admin = (answer: Handler): Route => ({ role: 'admin', answer })

/** Reads the body of a request. @throws InvalidRequest for one that is no JSON object, or too large */
export function bodyOf(request: Pick<AdminRequest, 'event' | 'runtime'>): Promise<object> {
  return readJson(incomingOf(request), BODY_LIMIT)
}

export function incomingOf({
  event,
  runtime,
}: Pick<AdminRequest, 'event' | 'runtime'>): NodeIncoming {
  const { req, res } = event.runtime!.node!
  const request = req as IncomingMessage
  const { bodyTimeout, limits } = runtime.config.server
  return new NodeIncoming(request, {
    limits,
    onStart: () => letContinue(request, res as ServerResponse),
    startTimeout: bodyTimer(bodyTimeout * 1000),
  })
}

export function notInList(): InvalidRequest {
  const message = `Invalid 'after': nothing in this list has that id.`
  return new InvalidRequest('invalid_value', message, { param: 'after' })
}

/** The id of the account that `?account=` filters by. @throws NotFound */
export async function filterOf({ runtime, query }: AdminRequest): Promise<string | undefined> {
  const id = query.get('account')
  return id === null ? undefined : (await accountOf(runtime, id)).id
}

export async function accountOf({ accounts }: Runtime, id: string): Promise<Account> {
  return (await accounts.account(id)) ?? missing('account', id)
}

export async function keyOf({ accounts }: Runtime, id: string): Promise<Key> {
  return (await accounts.key(id)) ?? missing('key', id)
}

export function missing(what: string, id: string): never {
  const shown = JSON.stringify(id.length > 100 ? `${id.slice(0, 100)}…` : id)
  throw new NotFound('not_found', `There is no ${what} ${shown}.`)
}
