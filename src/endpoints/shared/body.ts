/** Request bodies: media type, size, JSON, and members that all endpoints have. */
import { toInvalidRequest, type Check } from '../../errors/checks.ts'
import { InvalidRequest } from '../../errors/errors.ts'
import type { Incoming } from '../../pipeline/http.ts'
import { preparePolicy, readPolicy, readPolicyJson, type Policy } from '../../policy/policy.ts'
import { RawJson } from '../../stream/raw-json.ts'
import { utf8ToText } from '../../upstream/host.ts'

/**
 * Reads a JSON object. Parameters of the media type are ignored, a missing type means JSON, a BOM is skipped.
 * @param accepted all media types that the route takes, for the error
 * @throws InvalidRequest `unsupported_content_type`, `invalid_json`, and what {@link Incoming.json} throws
 */
export function readJson(
  incoming: Incoming,
  limitBytes: number,
  accepted?: string,
): Promise<object> {
  return readRawJson(incoming, limitBytes, ({ value }) => value, accepted)
}

/**
 * Reads as {@link readJson} does, and gives the source text too.
 * @param take turns the body into the result
 * @throws InvalidRequest, and what `take` throws
 */
export function readRawJson<T>(
  incoming: Incoming,
  limitBytes: number,
  take: (body: RawJson) => T | Promise<T>,
  accepted = 'application/json',
): Promise<T> {
  const type = incoming.header('content-type')
  if (type !== undefined && type !== 'application/json') {
    const media = type.split(';', 1)[0]!.trim().toLowerCase()
    if (media !== 'application/json') {
      throw new InvalidRequest(
        'unsupported_content_type',
        `This route takes ${accepted}, not ${JSON.stringify(media.slice(0, 100))}.`,
      )
    }
  }
  return incoming.json<T>(limitBytes, (bytes) => {
    const body = parseObject(bytes)
    const { policy } = body.value as { readonly policy?: unknown }
    return policy === undefined ? take(body) : prepared(policy, incoming).then(() => take(body))
  })
}

const MAX_SESSION_LENGTH = 256

/** Headers in which clients name the session, the first one wins: coding assistants send one of them with every call. */
const SESSION_HEADERS = [
  'x-session-id',
  'x-claude-code-session-id',
  'session-id',
  'thread-id',
  'x-session-affinity',
]

/**
 * The session of a request.
 * @param sessionId the value of a member of the body; it wins over the headers
 * @param cacheKey names a cache that calls share; it counts as a session where nothing else does
 */
export function sessionOf(
  incoming: Incoming,
  sessionId?: string,
  cacheKey?: string,
): string | undefined {
  let session = sessionId || undefined
  for (const name of SESSION_HEADERS) session ??= incoming.header(name) || undefined
  return (session ?? cacheKey)?.slice(0, MAX_SESSION_LENGTH) || undefined
}

/** A body as valid members: without those that are null, which mean the same as absent ones. */
export function givenMembers(body: object): Record<string, any> {
  return Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null))
}

/**
 * Reads the JSON body of an endpoint without a conversation: valid members, and the policy.
 * @param check checks all members but the policy
 * @param defaults values of absent members
 * @throws InvalidRequest
 */
export async function readValid<Request extends { readonly policy?: Policy }>(
  incoming: Incoming,
  limitBytes: number,
  check: Check,
  defaults: Partial<Request> = {},
): Promise<Request> {
  const body = await readJson(incoming, limitBytes)
  const problem = check(body)
  if (problem) throw toInvalidRequest(problem)
  const { policy, ...others } = body as Record<string, unknown>
  const request = { ...defaults, ...givenMembers(others) } as Request
  return policy === undefined ? request : { ...request, policy: readPolicy(policy) }
}

/** The policy of a form, where it may be JSON text, or of a JSON body. @throws InvalidRequest */
export function readAnyPolicy(policy: unknown): Policy {
  return typeof policy === 'string' ? readPolicyJson(policy) : readPolicy(policy)
}

/**
 * Members that are the gateway's own business in every request. `__proto__` is among them because an assignment to it would
 * make no member.
 */
const OWN_MEMBERS: ReadonlySet<string> = new Set([
  'model',
  'policy',
  'provider',
  'plugins',
  '__proto__',
])

/** A request for providers: without the gateway's own members and those of the endpoint. */
export function outboundMembers(
  request: object,
  kept: readonly string[] = [],
): Record<string, any> {
  const outbound: Record<string, any> = {}
  for (const [name, value] of Object.entries(request)) {
    if (!OWN_MEMBERS.has(name) && !kept.includes(name)) outbound[name] = value
  }
  return outbound
}

/** Compiles the patterns of a request's policy in time slices, so that it can be read without a delay afterwards. */
export async function prepared(policy: unknown, incoming: Incoming): Promise<void> {
  await preparePolicy(policy, () => incoming.throwIfGone())
}

function parseObject(bytes: Buffer): RawJson {
  const bom = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf
  let text: string
  let value: unknown
  try {
    text = utf8ToText(bom ? bytes.subarray(3) : bytes)
    value = JSON.parse(text)
  } catch (error) {
    throw new InvalidRequest('invalid_json', invalidJson(bytes, error))
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    const kind = Array.isArray(value) ? 'an array' : value === null ? 'null' : `a ${typeof value}`
    throw new InvalidRequest('invalid_json', `The body must be a JSON object, found ${kind}.`)
  }
  return new RawJson(text, value, bytes.length)
}

/** Names only the place: the engine's own message quotes the body. */
function invalidJson(bytes: Buffer, error: unknown): string {
  if (bytes.length === 0) return 'The body is empty; expected a JSON object.'
  const at = / at position (\d+)/.exec(error instanceof Error ? error.message : '')
  return `The body is not valid JSON${at ? ` (near character ${at[1]})` : ''}.`
}
