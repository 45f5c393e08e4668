/**
 * Names of attributes, by the version of the conventions that `telemetry.semconv` names. A further version is a further column.
 * https://opentelemetry.io/docs/specs/semconv/
 */
import type { Telemetry } from '../../../src/plugin.ts'

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
export type Facts = Readonly<
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
export function operationOf(endpoint: string): string {
  const known = Object.entries(OPERATIONS).find(([end]) => endpoint.endsWith(end))
  return known?.[1] ?? endpoint.slice(endpoint.lastIndexOf('/') + 1)
}
