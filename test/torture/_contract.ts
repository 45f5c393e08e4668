/** Holds any answer of the API against its contract: statuses, codes, headers, schemas, the order of events, the cost. */
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import { readFileSync } from 'node:fs'
import { parsePico, type Pico } from '../../src/money/money.ts'
import type { RawAnswer } from './_connection.ts'

/** What was asked, as far as the answer depends on it. */
export interface Asked {
  readonly path: string
  readonly stream: boolean
  /** Chat: whether usage has a chunk of its own. */
  readonly usageChunk?: boolean
  /** `response_format` or `stream_format`, where the content type depends on it. */
  readonly format?: string | undefined
}

/** The finding on an answer. */
export interface Finding {
  /** What breaks the contract; undefined when nothing does. */
  readonly fault: string | undefined
  /** Moved in the ledger, as far as the answer says so. */
  readonly cost: Pico
  readonly code: string | undefined
}

/** Statuses and type of each code. */
const CODES: Readonly<Record<string, readonly [status: number, type: string]>> = {
  ...row(
    400,
    'invalid_request_error',
    `
    invalid_json invalid_multipart missing_required_parameter invalid_type
    invalid_value empty_array empty_string string_above_max_length
    array_above_max_length integer_below_min_value integer_above_max_value
    decimal_below_min_value decimal_above_max_value unsupported_value
    unsupported_parameter wrong_endpoint references_not_supported invalid_base64
    invalid_image invalid_audio invalid_document fetch_failed invalid_policy
    policy_violation upstream_rejected context_length_exceeded
    content_policy_violation`,
  ),
  ...row(401, 'invalid_request_error', 'invalid_api_key'),
  ...row(402, 'insufficient_quota', 'insufficient_credits'),
  ...row(403, 'insufficient_quota', 'key_limit_exceeded'),
  ...row(403, 'invalid_request_error', 'model_not_allowed'),
  ...row(404, 'invalid_request_error', 'model_not_found unknown_url'),
  ...row(405, 'invalid_request_error', 'method_not_allowed'),
  ...row(408, 'invalid_request_error', 'request_timeout'),
  ...row(413, 'invalid_request_error', 'request_too_large file_too_large'),
  ...row(415, 'invalid_request_error', 'unsupported_content_type unsupported_content_encoding'),
  ...row(429, 'requests', 'rate_limited too_many_concurrent upstream_rate_limited'),
  ...row(500, 'server_error', 'internal_error'),
  ...row(502, 'server_error', 'upstream_error'),
  ...row(503, 'server_error', 'provider_overloaded service_unavailable guard_unavailable'),
  ...row(504, 'server_error', 'upstream_timeout'),
}

/** @param codes separated by blanks */
function row(status: number, type: string, codes: string) {
  return Object.fromEntries(codes.match(/\w+/g)!.map((code) => [code, [status, type] as const]))
}

const ajv = new Ajv2020({ strict: false })
const schemas = new Map<string, ValidateFunction>()

function breaks(schema: string, value: unknown): string | undefined {
  let check = schemas.get(schema)
  if (!check) {
    const file = new URL(`../wire/schemas/${schema}.json`, import.meta.url)
    check = ajv.compile(JSON.parse(readFileSync(file, 'utf8')) as object)
    schemas.set(schema, check)
  }
  return check(value) ? undefined : `breaks ${schema}: ${ajv.errorsText(check.errors)}`
}

const CHAT = '/v1/chat/completions'
const MESSAGES = '/v1/messages'
const SPEECH = '/v1/audio/speech'
const TRANSCRIPTION = '/v1/audio/transcriptions'

/** Schema of a whole answer. */
const WHOLE: Readonly<Record<string, string>> = {
  [CHAT]: 'chat-completion',
  [MESSAGES]: 'message',
  '/v1/messages/count_tokens': 'token-count',
  '/v1/responses': 'response',
  '/v1/responses/input_tokens': 'token-count',
  '/v1/completions': 'completion',
  '/v1/embeddings': 'embeddings',
  '/v1/rerank': 'rerank',
  '/v1/moderations': 'moderation',
  '/v1/images/generations': 'images-response',
  '/v1/images/edits': 'images-response',
  '/v1/ocr': 'ocr-response',
  '/v1/models': 'models-list',
  '/v1/key': 'key',
  '/v1/credits': 'credits',
}

/** What is never charged. */
const FREE = /^\/v1\/(models|credits|key.*|messages\/count_tokens|responses\/input_tokens)$/

/** Schema of an event. */
const EVENTS: Readonly<Record<string, string>> = {
  '/v1/images/generations': 'images-stream-event',
  '/v1/images/edits': 'images-stream-event',
  [SPEECH]: 'speech-stream-event',
  [TRANSCRIPTION]: 'transcription-stream-event',
}

const REQUEST_ID = /^req_[0-9A-HJKMNP-TV-Z]{26}$/
const USD = /^\d+(\.\d{1,12})?$/
/** The cost in the JSON of an answer. The text of an answer has its quotes escaped, and is not found. */
const COST = /(?<!\\)"cost":(\d+(?:\.\d+)?),"cost_details"/g

/** Judges an answer. It never throws. */
export function examine(asked: Asked, answer: RawAnswer): Finding {
  try {
    const code = answer.status > 299 ? codeOf(answer) : undefined
    const fault = headFault(asked, answer) ?? bodyFault(asked, answer, code)
    return { fault, cost: costIn(answer) ?? 0n, code: code ?? errorCodeIn(answer) }
  } catch (error) {
    return { fault: `cannot be read: ${String(error)}`, cost: 0n, code: undefined }
  }
}

function headFault({ path }: Asked, { status, headers, whole }: RawAnswer): string | undefined {
  const id = headers.get('x-service-request-id') ?? ''
  if (!REQUEST_ID.test(id)) return `request id ${JSON.stringify(id)}`
  if (headers.get('x-request-id') !== id) return 'two request ids'
  if (headers.get('access-control-allow-origin') !== '*') return 'no CORS'
  const cost = headers.get('x-service-cost')
  if (cost !== undefined && !USD.test(cost)) return `cost ${cost}`
  const retry = headers.get('retry-after')
  if (retry !== undefined && !/^[1-9]\d*$/.test(retry)) return `Retry-After ${retry}`
  if ((status === 429 || status === 503) !== (retry !== undefined)) return 'Retry-After'
  if (headers.get('retry-after-ms') === '0') return 'retry-after-ms 0'
  if (whole || (path === SPEECH && headers.get('content-type')?.startsWith('audio/')))
    return undefined
  return 'the answer is cut off'
}

function bodyFault(
  asked: Asked,
  { status, headers, body }: RawAnswer,
  code: string | undefined,
): string | undefined {
  const type = headers.get('content-type') ?? ''
  const { path, stream, format } = asked
  if (status > 299) {
    if (type !== 'application/json') return `an error as ${type}`
    if (path.startsWith(MESSAGES)) return breaks('message-error', JSON.parse(body.toString()))
    const { error } = JSON.parse(body.toString()) as { error: { type: string } }
    const [ownStatus, ownType] = CODES[code!] ?? []
    // A failed call of a vendor may name the code of the client's mistake.
    if (ownStatus !== undefined && ownStatus !== status) return `${code} with status ${status}`
    if (ownType !== undefined && ownType !== error.type) return `${code} of type ${error.type}`
    return breaks('error', { error })
  }
  if (status !== 200) return `status ${status}`
  if (path === SPEECH && format !== 'sse') {
    if (!type.startsWith('audio/')) return `sound as ${type}`
    return headers.has('x-service-cost') ? undefined : 'sound without a cost'
  }
  if (stream) {
    if (type !== 'text/event-stream; charset=utf-8') return `a stream as ${type}`
    if (path in LAST_EVENTS) return textEventsFault(path, body.toString())
    return path === CHAT ? chatFault(asked, body.toString()) : eventsFault(path, body.toString())
  }
  if (!FREE.test(path) && !headers.has('x-service-cost')) return 'an answer without a cost'
  if (path === TRANSCRIPTION && ['text', 'srt', 'vtt'].includes(format ?? '')) {
    return type === 'text/plain; charset=utf-8' ? undefined : `a text as ${type}`
  }
  if (type !== 'application/json') return `JSON as ${type}`
  const value = JSON.parse(body.toString()) as { usage?: { cost?: number } }
  const header = headers.get('x-service-cost')
  if (header !== undefined && value.usage?.cost !== Number(header)) return 'two costs'
  const name =
    path === TRANSCRIPTION ? `transcription-${(format ?? 'json').replace('_', '-')}` : WHOLE[path]
  return name === undefined ? undefined : breaks(name, value)
}

/** The payloads of a stream, or the fault of its framing. */
function payloadsOf(text: string, named: boolean): string | string[] {
  if (!text.endsWith('\n\n')) return 'the last event does not end'
  const payloads: string[] = []
  for (const event of text.slice(0, -2).split('\n\n')) {
    if (event === ': keep-alive') continue
    const match = /^(?:event: ([\w.]+)\n)?data: ([^\r\n]+)$/.exec(event)
    if (!match) return `no event: ${JSON.stringify(event.slice(0, 200))}`
    const [, name, data] = match as unknown as [string, string | undefined, string]
    if (name !== undefined) {
      if (!named) return `an event named ${name}`
      if ((JSON.parse(data) as { type: string }).type !== name) return `${name} is not its type`
    }
    payloads.push(data)
  }
  return payloads
}

/** Types of the last event in other forms of chat, and whether a mark of the end follows; parts of texts have no type. */
const LAST_EVENTS: Readonly<Record<string, readonly [types: RegExp, mark: boolean]>> = {
  [MESSAGES]: [/^(message_stop|error)$/, false],
  '/v1/responses': [/^response\.(completed|incomplete|failed)$/, true],
  '/v1/completions': [/^(text_completion|error)$/, true],
}

function textEventsFault(path: string, text: string): string | undefined {
  const [types, mark] = LAST_EVENTS[path]!
  const payloads = payloadsOf(text, true)
  if (typeof payloads === 'string') return payloads
  if (mark && payloads.pop() !== '[DONE]') return 'a stream without [DONE]'
  const events = payloads.map((payload) => JSON.parse(payload) as any)
  const { type, object, error } = events.at(-1) ?? {}
  const last = String(type ?? (error ? 'error' : object))
  if (!types.test(last)) return `ends with ${last}`
  const misplaced = events.findIndex(
    ({ sequence_number: number = -1 }, i) => number >= 0 && number !== i,
  )
  return misplaced < 0 ? undefined : `a wrong number at ${misplaced}`
}

function eventsFault(path: string, text: string): string | undefined {
  const payloads = payloadsOf(text, true)
  if (typeof payloads === 'string') return payloads
  if (payloads.length === 0) return 'a stream without an event'
  for (const [i, payload] of payloads.entries()) {
    const event = JSON.parse(payload) as { type: string }
    const isLast = i === payloads.length - 1
    if (event.type === 'error') return isLast ? breaks('error', event) : 'events after an error'
    const found = breaks(EVENTS[path]!, event)
    if (found) return found
    if (/(completed|done)$/.test(event.type) !== isLast) return `${event.type} at ${i}`
  }
  return undefined
}

interface OpenChoice {
  finished: boolean
  call: number
}

function chatFault({ usageChunk }: Asked, text: string): string | undefined {
  const payloads = payloadsOf(text, false)
  if (typeof payloads === 'string') return payloads
  if (payloads.pop() !== '[DONE]') return 'a stream without [DONE]'
  const choices = new Map<number, OpenChoice>()
  let envelope: string | undefined
  let usages = 0
  for (const [i, payload] of payloads.entries()) {
    const chunk = JSON.parse(payload) as any
    const isLast = i === payloads.length - 1
    if ('error' in chunk) {
      if (!isLast) return 'chunks after an error'
      return 'choices' in chunk ? 'choices beside an error' : breaks('error', chunk)
    }
    const found = breaks('chat-completion-chunk', chunk)
    if (found) return found
    const { id, created, model } = chunk
    const own = JSON.stringify([id, created, model])
    if (own !== (envelope ??= own)) return 'the envelope changes'
    if (chunk.usage) usages++
    if (chunk.usage && !isLast) return 'usage before the end'
    if (usageChunk ? chunk.usage === undefined : chunk.usage === null) return 'usage as not asked'
    if (chunk.choices.length === 0 && !(usageChunk && chunk.usage)) return 'a chunk without choices'
    for (const choice of chunk.choices) {
      const fault = choiceFault(choices, choice)
      if (fault) return `${fault} at ${i}`
    }
  }
  if (usages !== 1) return `${usages} usages`
  for (const [index, { finished }] of choices) if (!finished) return `choice ${index} has no end`
  return choices.size === 0 ? 'a stream without choices' : undefined
}

function choiceFault(choices: Map<number, OpenChoice>, one: any): string | undefined {
  const { index, delta, finish_reason } = one
  const open = choices.get(index)
  if (!open) {
    if (index !== choices.size) return `choice ${index} opens as number ${choices.size}`
    choices.set(index, { finished: false, call: -1 })
    const opening = JSON.stringify(delta)
    const expected = '{"role":"assistant","content":"","refusal":null}'
    return opening === expected && finish_reason === null ? undefined : `opens with ${opening}`
  }
  if ('role' in delta) return 'a second role'
  if (open.finished) return 'a choice goes on after its end'
  if (finish_reason !== null) {
    open.finished = true
    return Object.keys(delta).length === 0 ? undefined : 'an end with a delta'
  }
  if (delta.content === '' && Object.keys(delta).length === 1) return 'an empty text'
  for (const call of delta.tool_calls ?? []) {
    const isNew = call.index === open.call + 1
    if (isNew !== 'id' in call || (!isNew && call.index !== open.call)) {
      return `call ${call.index} after ${open.call}`
    }
    open.call = call.index
  }
  return undefined
}

function codeOf({ body }: RawAnswer): string | undefined {
  return (JSON.parse(body.toString()) as { error: { code: string } }).error.code
}

/** The code of an error within a stream. */
function errorCodeIn({ headers, body }: RawAnswer): string | undefined {
  if (!headers.get('content-type')?.startsWith('text/event-stream')) return undefined
  const line = body
    .toString()
    .split('\n')
    .findLast((one) => one.startsWith('data: {'))
  const event = JSON.parse(line?.slice(6) ?? '{}') as { error?: { code: string } }
  return event.error?.code
}

/** What an answer says that it costs, also one that is cut off; undefined when it says nothing. */
export function costIn({ headers, body }: RawAnswer): Pico | undefined {
  const said = headers.get('x-service-cost') ?? [...body.toString().matchAll(COST)].at(-1)?.[1]
  return said === undefined ? undefined : parsePico(said)
}
