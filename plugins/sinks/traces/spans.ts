/** Makes spans of calls that have ended: one of the call, and below it one for each request to a vendor, guard or search engine. */
import { randomBytes } from 'node:crypto'
import type { EndedCall, Telemetry, CallText } from '../../../src/plugin.ts'

/** A span in the JSON form of OTLP: ids hexadecimal, 64-bit integers as text, enumerations as numbers. */
export interface Span {
  readonly traceId: string
  readonly spanId: string
  readonly traceState?: string
  readonly parentSpanId?: string
  readonly name: string
  readonly kind: 1 | 2 | 3
  readonly startTimeUnixNano: string
  readonly endTimeUnixNano: string
  readonly attributes: readonly Attribute[]
  readonly events?: readonly { readonly timeUnixNano: string; readonly name: string }[]
  readonly status?: { readonly code: 2; readonly message?: string }
}

/** What spans are made with. */
export interface SpanSettings {
  readonly telemetry: Telemetry
  /** Further facts about a call. */
  readonly more?: (call: EndedCall) => Facts
}

const INTERNAL = 1
const SERVER = 2
const CLIENT = 3
const FAILED = 2
/** Results of questions that were answered. */
const ANSWERS: ReadonlySet<string> = new Set(['ok', 'passed', 'blocked'])
/** The answer was no longer wanted, which is no failure. */
const CANCELLED = 'cancelled'

/** The ids that the span of a call belongs to. */
interface TraceOfCall {
  readonly traceId: string
  /** It is undefined for a trace that begins here. */
  readonly parent: string | undefined
  /** Whether the client records the trace. */
  readonly sampled: boolean
}

/** The spans of a call; none for one that is not traced. */
export function spansOf(call: EndedCall, { telemetry, more }: SpanSettings): Span[] {
  const trace = traceOf(call)
  if (!trace.sampled && !isNotable(call, telemetry) && !isChosen(trace.traceId, telemetry.ratio)) {
    return []
  }
  const spanId = call.trace?.span ?? hexOf(8)
  const names = (facts: Facts) => attributesOf(telemetry.semconv, facts)
  const at = timesOf(call)
  const state = call.trace?.state
  const ids = { traceId: trace.traceId, ...(state !== undefined && { traceState: state }) }
  const { times } = call
  const own: Span = {
    ...ids,
    spanId,
    ...(trace.parent !== undefined && { parentSpanId: trace.parent }),
    name: `${call.method} ${call.endpoint}`,
    kind: SERVER,
    startTimeUnixNano: at(0),
    endTimeUnixNano: at(times.total_ms ?? 0),
    attributes: names({ ...factsOf(call), ...more?.(call) }),
    events: [
      ...eventAt('held', times.admit_ms, at),
      ...eventAt('guard.input', times.guard_ms, at),
      ...eventAt('first_part', times.first_ms, at),
      ...eventAt('settled', times.settled_ms, at),
    ],
    // A refusal is the client's matter, and no failure of the server.
    ...((call.status >= 500 || call.outcome === 'failed') && {
      status: { code: FAILED, ...(call.error !== null && { message: call.error }) },
    }),
  }
  const below = ({ name, kind, from, to, facts, failed, message }: ChildSpan): Span => ({
    ...ids,
    spanId: hexOf(8),
    parentSpanId: spanId,
    name,
    kind,
    startTimeUnixNano: at(from),
    endTimeUnixNano: at(to),
    attributes: names(facts),
    ...(failed && { status: { code: FAILED, ...(message !== undefined && { message }) } }),
  })
  const attempts = attemptsOf(call).map((one) => attemptSpan(call, one, telemetry, more))
  return [
    own,
    ...attempts.map(below),
    ...call.questions.map((one) => below(questionSpan(call, one))),
  ]
}

/** A span below that of the call. */
interface ChildSpan {
  readonly name: string
  readonly kind: Span['kind']
  /** ms since the arrival of the call. */
  readonly from: number
  readonly to: number
  readonly facts: Facts
  readonly failed: boolean
  /** Why, in words. */
  readonly message?: string | undefined
}

/** One request to a vendor. */
function attemptSpan(
  call: EndedCall,
  { from, to, deployment, failure, status, message, number, last }: AttemptOfCall,
  { providers, addresses = {} }: Telemetry,
  more: SpanSettings['more'],
): ChildSpan {
  const slash = deployment.indexOf('/')
  const [provider, model] = [deployment.slice(0, slash), deployment.slice(slash + 1)]
  const { [provider]: address } = addresses
  const operation = operationOf(call.endpoint)
  return {
    name: `${operation} ${call.model ?? deployment}`,
    kind: CLIENT,
    from,
    to,
    facts: {
      operation,
      vendor: providers[provider],
      requestModel: model,
      serverAddress: address?.host,
      serverPort: address?.port,
      deployment,
      attempt: number,
      status,
      error: failure,
      ...requestedBy(call),
      ...(last && { ...consumedBy(call), ...answeredBy(call), ...more?.(call) }),
    },
    failed: failure !== undefined,
    message,
  }
}

/** One question to a guard or a search engine. */
function questionSpan(
  { guard, times }: EndedCall,
  { to, name, side, at_ms: from, ms, result, rules }: EndedCall['questions'][number],
): ChildSpan {
  const end = Math.min(from + ms, Math.max(from, times.total_ms ?? from))
  const isAnswer = ANSWERS.has(result)
  const error = isAnswer || result === CANCELLED ? undefined : result
  const common = { from, to: end, failed: error !== undefined }
  if (to === 'search') {
    const operation = 'web_search'
    const facts = { operation, engine: name, error }
    return { ...common, name: `${operation} ${name}`, kind: CLIENT, facts }
  }
  const operation = 'apply_guardrail'
  const facts: Facts = {
    operation,
    guardName: name,
    guardSource: side,
    guardPolicy: guard?.policy,
    guardResult: isAnswer ? result : 'error',
    guardRules: rules.length > 0 ? rules : undefined,
    error,
  }
  return { ...common, name: `${operation} ${name}`, kind: INTERNAL, facts }
}

function factsOf(call: EndedCall): Facts {
  return {
    method: call.method,
    route: call.endpoint,
    path: call.endpoint,
    status: call.status === 0 ? undefined : call.status,
    error: call.code ?? (call.outcome === 'failed' ? 'failed' : undefined),
    request: call.id,
    account: call.account_id,
    key: call.key_id,
    deployment: call.deployment,
    outcome: call.outcome,
    limit: call.limited_by,
    tag: call.tag,
    user: call.user,
    session: call.session,
    gateway: call.gateway,
    guardPolicy: call.guard?.policy,
    guardResult: call.guard?.outcome,
    guardRules: call.guard && call.guard.rules.length > 0 ? call.guard.rules : undefined,
    costText: call.cost_usd,
  }
}

/** Quantities and cost, at the request that was charged: receivers add up what spans have. */
function consumedBy({ usage, cost_usd, stream, times, session, user }: EndedCall): Facts {
  return {
    inputTokens: usage.prompt_tokens,
    outputTokens: usage.completion_tokens,
    cachedTokens: usage.cached_tokens,
    cacheWriteTokens: usage.cache_write_tokens,
    reasoningTokens: usage.reasoning_tokens,
    cost: cost_usd === null ? undefined : Number(cost_usd),
    stream,
    firstSeconds: times.first_ms === null ? undefined : times.first_ms / 1000,
    session,
    user,
  }
}

/** Parameters of the request. */
function requestedBy({ request }: EndedCall): Facts {
  return {
    maxTokens: request?.max_tokens,
    temperature: request?.temperature,
    topP: request?.top_p,
    seed: request?.seed,
    choices: request?.choices,
    reasoning: request?.reasoning,
  }
}

/** How the answer ended, and the texts where they may be seen. */
function answeredBy({ response, content, model }: EndedCall): Facts {
  const reasons = response?.finish_reasons ?? []
  const { stop } = (content?.input ?? {}) as { stop?: unknown }
  const stops = [stop].flat().filter((one) => typeof one === 'string')
  return {
    responseId: response?.id,
    // The gateway's own name of the model says nothing that the request did not say.
    responseModel: response?.model === model ? undefined : response?.model,
    finishReasons: reasons.length > 0 ? reasons : undefined,
    ...(content && {
      // Clients choose them: they are text of the request.
      stopSequences: stops.length > 0 ? stops : undefined,
      inputMessages: inputMessages(content),
      outputMessages: outputMessages(content, reasons),
    }),
  }
}

interface AttemptOfCall {
  /** ms since the arrival of the call. */
  readonly from: number
  readonly to: number
  readonly deployment: string
  readonly failure: string | undefined
  /** What the vendor answered, where it failed. */
  readonly status?: number | undefined
  readonly message?: string | undefined
  /** The number, counted from 1. */
  readonly number: number
  readonly last: boolean
}

/** Requests to deployments, one after the other. The log names them only where one has failed. */
function attemptsOf({ attempts, deployment, times }: EndedCall): AttemptOfCall[] {
  const end = times.total_ms ?? 0
  let from = times.admit_ms ?? 0
  if (attempts.length === 0) {
    if (deployment === null) return []
    return [{ from, to: end, deployment, failure: undefined, number: 1, last: true }]
  }
  const sentAttempts = attempts.filter((one) => 'result' in one)
  return sentAttempts.map(({ deployment, ms, result, status, message }, i) => {
    const failure = result === 'ok' ? undefined : result
    const last = i === sentAttempts.length - 1
    // What answers goes on until the call ends.
    const to = last && failure === undefined ? end : Math.min(from + ms, end)
    const outcome = { status: status ?? undefined, message: message ?? undefined }
    const attempt = { from, to, deployment, failure, ...outcome, number: i + 1, last }
    from = to
    return attempt
  })
}

/** Calls that an operator looks for. */
function isNotable(call: EndedCall, { slow }: Telemetry): boolean {
  return (
    call.status >= 400 ||
    call.outcome === 'failed' ||
    call.limited_by !== null ||
    call.guard?.outcome === 'blocked' ||
    call.attempts.length > 0 ||
    (call.times.total_ms ?? 0) >= slow * 1000
  )
}

/** The same for all spans of a trace, wherever they are made. */
function isChosen(traceId: string, ratio: number): boolean {
  return Number.parseInt(traceId.slice(-13), 16) < ratio * 2 ** 52
}

function traceOf({ trace }: EndedCall): TraceOfCall {
  const [, traceId, parent, flags] = trace?.parent.split('-') ?? []
  if (traceId === undefined || parent === undefined || flags === undefined) {
    return { traceId: hexOf(16), parent: undefined, sampled: false }
  }
  return { traceId, parent, sampled: (Number.parseInt(flags, 16) & 1) === 1 }
}

/** The moment so many ms after the arrival, in ns since epoch. */
function timesOf({ at }: EndedCall): (ms: number) => string {
  const arrived = Date.parse(at)
  return (ms) => String(BigInt(Math.trunc(arrived + ms)) * 1_000_000n)
}

function eventAt(name: string, ms: number | null, at: (ms: number) => string) {
  return ms === null ? [] : [{ timeUnixNano: at(ms), name }]
}

function hexOf(bytes: number): string {
  return randomBytes(bytes).toString('hex')
}

// Contents of calls in the form that the conventions have for messages, as JSON.

/** A part of a message. */
interface Part {
  readonly type: string
  readonly content: unknown
}

/** What was asked. A request that is no conversation is one message of the user. */
function inputMessages({ input }: CallText): string {
  const { messages } = input as { messages?: unknown }
  const list = Array.isArray(messages) ? messages : [{ role: 'user', content: input }]
  return JSON.stringify(
    list.map(({ role, content, ...more }: { role?: unknown; content?: unknown }) => ({
      role: typeof role === 'string' ? role : 'user',
      parts: [...partsOf(content), ...(Object.keys(more).length > 0 ? [partOf(more)] : [])],
    })),
  )
}

/** What the client got, a message for each choice. */
function outputMessages({ output }: CallText, finishReasons: readonly string[]): string {
  const choices = [...Map.groupBy(output, ({ choice }) => choice)]
  return JSON.stringify(
    choices.map(([choice, texts]) => ({
      role: 'assistant',
      parts: texts.map(({ channel, text }): Part => ({
        type: channel === 'content' ? 'text' : channel,
        content: text,
      })),
      finish_reason: finishReasons[choice] ?? 'stop',
    })),
  )
}

function partsOf(content: unknown): Part[] {
  if (content === undefined || content === null) return []
  return Array.isArray(content) ? content.map(partOf) : [partOf(content)]
}

function partOf(content: unknown): Part {
  if (typeof content === 'string') return { type: 'text', content }
  const { type, text } = content as { type?: unknown; text?: unknown }
  if (type === 'text' && typeof text === 'string') return { type, content: text }
  return { type: typeof type === 'string' ? type : 'data', content }
}

// Names of attributes, by the version of the conventions that `telemetry.semconv` names. A further version is a further column.
// https://opentelemetry.io/docs/specs/semconv/

/** The value of an attribute, as OTLP writes it: integers as text. */
type AttributeValue =
  | { readonly stringValue: string }
  | { readonly intValue: string }
  | { readonly doubleValue: number }
  | { readonly boolValue: boolean }
  | { readonly arrayValue: { readonly values: readonly AttributeValue[] } }

/** An attribute of a span or a resource. */
export interface Attribute {
  readonly key: string
  readonly value: AttributeValue
}

/** What an attribute says; an array is one of texts. */
type Fact = keyof typeof NAMES
/** Facts with their values; absent ones are left out. */
type Facts = Readonly<
  Partial<Record<Fact, string | number | boolean | readonly string[] | null | undefined>>
>

/** Columns: `v1.41`, and `genai-dev` where it differs; `null` is a name that the version does not have. */
const NAMES = {
  method: ['http.request.method'],
  route: ['http.route'],
  path: ['url.path'],
  status: ['http.response.status_code'],
  serverAddress: ['server.address'],
  serverPort: ['server.port'],
  error: ['error.type'],
  operation: ['gen_ai.operation.name'],
  vendor: ['gen_ai.provider.name'],
  requestModel: ['gen_ai.request.model'],
  maxTokens: ['gen_ai.request.max_tokens'],
  temperature: ['gen_ai.request.temperature'],
  topP: ['gen_ai.request.top_p'],
  seed: ['gen_ai.request.seed'],
  stopSequences: ['gen_ai.request.stop_sequences'],
  choices: ['gen_ai.request.choice.count'],
  stream: [null, 'gen_ai.request.stream'],
  reasoning: [null, 'gen_ai.request.reasoning.level'],
  responseId: ['gen_ai.response.id'],
  responseModel: ['gen_ai.response.model'],
  finishReasons: ['gen_ai.response.finish_reasons'],
  firstSeconds: [null, 'gen_ai.response.time_to_first_chunk'],
  inputTokens: ['gen_ai.usage.input_tokens'],
  outputTokens: ['gen_ai.usage.output_tokens'],
  cachedTokens: ['gen_ai.usage.cache_read.input_tokens'],
  cacheWriteTokens: [
    'gen_ai.usage.cache_creation.input_tokens',
    'gen_ai.usage.cache_write.input_tokens',
  ],
  reasoningTokens: [null, 'gen_ai.usage.reasoning.output_tokens'],
  session: ['gen_ai.conversation.id'],
  user: ['user.id'],
  guardName: ['sluicegate.guard.name', 'gen_ai.guardrail.component.name'],
  guardPolicy: ['sluicegate.guard.policy', 'gen_ai.guardrail.policy.id'],
  guardSource: ['sluicegate.guard.source', 'gen_ai.guardrail.source'],
  guardResult: ['sluicegate.guard.result', 'gen_ai.guardrail.result.type'],
  guardRules: ['sluicegate.guard.rules', 'gen_ai.guardrail.result.reason'],
  costText: ['sluicegate.cost.usd'],
  // No convention has it; several receivers take it for the total.
  cost: ['gen_ai.usage.cost'],
  request: ['sluicegate.request_id'],
  account: ['sluicegate.account'],
  key: ['sluicegate.key'],
  deployment: ['sluicegate.deployment'],
  outcome: ['sluicegate.outcome'],
  limit: ['sluicegate.limit'],
  tag: ['sluicegate.tag'],
  attempt: ['sluicegate.attempt'],
  engine: ['sluicegate.search.engine'],
  gateway: ['sluicegate.gateway'],
  inputMessages: ['gen_ai.input.messages'],
  outputMessages: ['gen_ai.output.messages'],
  service: ['service.name'],
  serviceVersion: ['service.version'],
  instance: ['service.instance.id'],
  langfuseSession: ['langfuse.session.id'],
  langfuseUser: ['langfuse.user.id'],
  langfuseTags: ['langfuse.trace.tags'],
} as const satisfies Record<string, readonly [string | null, string?]>

/** Facts that are numbers with a fraction. */
const FRACTIONS: ReadonlySet<string> = new Set(['cost', 'firstSeconds', 'temperature', 'topP'])

/** All names of attributes. */
export const ATTRIBUTES: readonly string[] = Object.values(NAMES)
  .flat()
  .filter((name) => name !== null)

/** The attributes of facts. */
export function attributesOf(semconv: Telemetry['semconv'], facts: Facts): Attribute[] {
  return Object.entries(facts).flatMap(([fact, value]) => {
    const [first, second]: readonly [string | null, string?] = NAMES[fact as Fact]
    const key = semconv === 'v1.41' ? first : (second ?? first)
    if (key === null || value === null || value === undefined) return []
    return [{ key, value: valueOf(value, FRACTIONS.has(fact)) }]
  })
}

function valueOf(
  value: string | number | boolean | readonly string[],
  isFraction: boolean,
): AttributeValue {
  if (typeof value === 'string') return { stringValue: value }
  if (typeof value === 'boolean') return { boolValue: value }
  if (typeof value === 'number') {
    return isFraction ? { doubleValue: value } : { intValue: String(Math.trunc(value)) }
  }
  return { arrayValue: { values: value.map((text) => ({ stringValue: text })) } }
}

/** Operations by the end of their endpoint's path. */
const OPERATIONS: Readonly<Record<string, string>> = {
  '/chat/completions': 'chat',
  '/messages': 'chat',
  '/responses': 'chat',
  '/completions': 'text_completion',
  '/embeddings': 'embeddings',
  '/images/generations': 'generate_content',
  '/images/edits': 'generate_content',
}

/** The operation of an endpoint; for one that the conventions do not know the end of its path. */
function operationOf(endpoint: string): string {
  const entry = Object.entries(OPERATIONS).find(([end]) => endpoint.endsWith(end))
  return entry?.[1] ?? endpoint.slice(endpoint.lastIndexOf('/') + 1)
}
