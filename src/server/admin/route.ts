import type { H3Event } from 'h3'
import { hash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import * as v from 'valibot'
import type { Account } from '../../accounts/stored.ts'
import { readJson } from '../../endpoints/shared/body.ts'
import { InvalidRequest, NotFound, type InvalidCode } from '../../errors/errors.ts'
import type { Gateway } from '../../gateway/gateway.ts'
import { idempotencyKeyIn } from '../../pipeline/caller.ts'
import type { Runtime } from '../../pipeline/pipeline.ts'
import { letContinue } from '../front.ts'
import { NodeIncoming } from '../node-http.ts'
import type { Actor } from '../../access/actors.ts'
import type { AdminAuth } from './auth.ts'
import type { Right } from './resources/rights.ts'
import { toConfigIssues } from '../../errors/issues.ts'
import type { Timeout } from '../../lifetime/scope.ts'

/** Largest body: twice the longest policy. */
const BODY_LIMIT = 262_144

export interface AdminRequest {
  readonly gateway: Gateway
  readonly runtime: Runtime
  readonly event: H3Event
  readonly query: URLSearchParams
  readonly id: string
  /** The segment `:name` of the path; empty without one. */
  readonly name: string
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

interface Route {
  /** An actor with one of them may use it. */
  readonly rights: readonly Right[]
  readonly answer: Handler
}

/** Routes by path below `/admin`, then by method. Each noun has its own. */
export type Routes = Readonly<Record<string, Readonly<Record<string, Route>>>>

/** A route for actors that have the right, or one of the rights. */
export const needs = (right: Right | readonly Right[], answer: Handler): Route => ({
  rights: typeof right === 'string' ? [right] : right,
  answer,
})

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

/** An id made of the client's `Idempotency-Key`: who repeats the request names the same thing. Absent without the header. */
export function idFromKey(
  request: Pick<AdminRequest, 'event' | 'runtime'>,
  route: string,
  object: string,
): string | undefined {
  const value = idempotencyKeyIn(incomingOf(request))
  if (value === undefined) return undefined
  return `idem-${hash('sha256', `${route} ${object} ${value}`).slice(0, 32)}`
}

/** The headers of an answer to a request that was carried out before. */
export const REPLAYED = { 'idempotent-replayed': 'true' } as const

export function notInList(): InvalidRequest {
  const message = `Invalid 'after': nothing in this list has that id.`
  return new InvalidRequest('invalid_value', message, { param: 'after' })
}

export async function accountOf({ accounts }: Runtime, id: string): Promise<Account> {
  return (await accounts.account(id)) ?? missing('account', id)
}

export function missing(what: string, id: string): never {
  const shown = JSON.stringify(id.length > 100 ? `${id.slice(0, 100)}…` : id)
  throw new NotFound('not_found', `There is no ${what} ${shown}.`)
}

// Bodies of the admin API: strict objects. A refusal names the path of the member and the expected value.

/** Members in which a careless client sends a whole key. */
const MAY_BE_SECRET: ReadonlySet<string> = new Set(['sha256', 'start'])

/** Parses a body. @throws InvalidRequest for one that does not match the schema */
export function read<Shape extends v.GenericSchema>(
  schema: Shape,
  body: object,
): v.InferOutput<Shape> {
  const result = v.safeParse(schema, body)
  if (result.success) return result.output
  const [issue] = result.issues
  // The values come from the request, so only secrets by name are hidden, and members that may contain one by mistake.
  const source = { path: [], value: body, secrets: MAY_BE_SECRET }
  const [configIssue] = toConfigIssues([issue!], source, schema)
  const { path, message } = configIssue!
  const where = path === '' ? 'Invalid body' : `Invalid '${path}'`
  throw new InvalidRequest(codeOf(issue!), `${where}: ${message}.`.replace('?.', '?'), {
    param: path || null,
  })
}

function codeOf(issue: v.BaseIssue<unknown>): InvalidCode {
  if (issue.type === 'strict_object') {
    if (issue.expected === 'never') return 'unsupported_parameter'
    if (issue.path?.at(-1)?.origin === 'key') return 'missing_required_parameter'
  }
  return issue.kind === 'schema' && issue.type !== 'picklist' ? 'invalid_type' : 'invalid_value'
}

type WithoutNulls<Body> = { [Name in keyof Body]: Exclude<Body[Name], null> }

/** Parses as {@link read}, where null and absent mean the same. */
export function readNew<Shape extends v.GenericSchema<unknown, object>>(
  schema: Shape,
  body: object,
): WithoutNulls<v.InferOutput<Shape>> {
  const entries = Object.entries(read(schema, body)).filter(([, value]) => value !== null)
  return Object.fromEntries(entries) as WithoutNulls<v.InferOutput<Shape>>
}

/** A timeout for bodies that belong to no call. @param ms interval of the timeout, which repeats */
function bodyTimer(ms: number): (onTimeout: () => void) => Timeout {
  return (onTimeout) => {
    const timer = setInterval(onTimeout, ms)
    return { restart() {}, clear: () => clearInterval(timer) }
  }
}
