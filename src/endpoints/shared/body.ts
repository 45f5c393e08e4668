/** Request bodies: media type, size, JSON. Shared by the endpoints. */
import { InvalidRequest } from '../../errors/errors.ts'
import type { Incoming } from '../../pipeline/http.ts'
import type { ParsedRequest } from '../../pipeline/pipeline.ts'
import { preparePolicy, type Policy } from '../../policy/policy.ts'
import { RawJson } from '../../stream/raw-json.ts'
import { utf8ToText } from '../../upstream/exchange.ts'

/**
 * Reads a JSON object (wire contract, 1.3): any parameters of the media type are ignored, an absent one is JSON, a BOM is
 * skipped.
 * @param accepted all types that the route takes, for the error
 * @throws InvalidRequest `unsupported_content_type`, `invalid_json`, and what {@link Incoming.body} throws
 */
export function readJson(
  incoming: Incoming,
  limitBytes: number,
  accepted?: string,
): Promise<object> {
  return readRawJson(incoming, limitBytes, accepted).then(({ value }) => value)
}

/**
 * The same, with its source text.
 * @throws InvalidRequest as {@link readJson}
 */
export function readRawJson(
  incoming: Incoming,
  limitBytes: number,
  accepted = 'application/json',
): Promise<RawJson> {
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
  return incoming.body(limitBytes).then((bytes) => {
    const body = parseObject(bytes)
    const { policy } = body.value as { readonly policy?: unknown }
    return policy === undefined ? body : prepared(policy, incoming).then(() => body)
  })
}

/** Sessions with longer ids are cut to this. */
const MAX_SESSION_LENGTH = 256

/** The session of a request. @param given by a member of the body; it wins over the header `x-session-id` */
export function sessionOf(incoming: Incoming, given?: string): string | undefined {
  return (given ?? incoming.header('x-session-id'))?.slice(0, MAX_SESSION_LENGTH) || undefined
}

/** The parsed request of an endpoint whose input has `model` and `policy`, and no conversation. */
export function parsedRequest<In extends { readonly model: string; readonly policy?: Policy }>(
  incoming: Incoming,
  input: In,
  stream: boolean,
): ParsedRequest<In> {
  const { model, policy } = input
  const session = sessionOf(incoming)
  return { input, model, stream, policy, session, affinityToken: undefined }
}

/** However hard its patterns are, the policy in a body can be read at once after that. */
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
    const found = Array.isArray(value) ? 'an array' : value === null ? 'null' : `a ${typeof value}`
    throw new InvalidRequest('invalid_json', `The body must be a JSON object, found ${found}.`)
  }
  return new RawJson(text, value)
}

/** Says where, and not what: the engine's own message quotes the body. */
function invalidJson(bytes: Buffer, error: unknown): string {
  if (bytes.length === 0) return 'The body is empty; expected a JSON object.'
  const at = / at position (\d+)/.exec(error instanceof Error ? error.message : '')
  return `The body is not valid JSON${at ? ` (near character ${at[1]})` : ''}.`
}
