import type { RawJson } from '../../../../stream/raw-json.ts'
import type { DialectRequest } from '../../endpoint.ts'
import type { ChatRequest } from '../../request.ts'
import { labelsIn } from '../shared/labels.ts'
import { endsWithQuestion, toConversation } from './conversation.ts'
import { checkBody, KNOWN_MEMBERS, MIN_OUTPUT_TOKENS } from './fields.ts'
import type { ToolName } from './names.ts'
import { withoutLeftOut, WORDS } from './prepare.ts'
import { toToolMembers } from './tools.ts'

export interface AnswerOptions {
  readonly echo: Readonly<Record<string, unknown>>
  /** Whether reasoning comes with the text that has to be sent back. */
  readonly includesEncrypted: boolean
  /** Whether later requests may refer to items of the answer. */
  readonly remembers: boolean
  /** The names of tools in namespaces, by their names in the normal form. */
  readonly toolNames: ReadonlyMap<string, ToolName>
}

const ENCRYPTED = 'reasoning.encrypted_content'
const LOGPROBS = 'message.output_text.logprobs'
const EFFORTS = new Set<unknown>(['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'])
const SUMMARIES = new Set<unknown>(['auto', 'concise', 'detailed'])

const SAME = [
  'temperature',
  'top_p',
  'presence_penalty',
  'frequency_penalty',
  'policy',
  'session_id',
  'plugins',
  'metadata',
  'user',
  'safety_identifier',
  'prompt_cache_key',
] as const

/**
 * Translates a parsed body.
 * @param counting whether its tokens are to be counted: nothing of the answer is asked for
 * @throws InvalidRequest with the code and path of the first problem, such as `input[2].content[0].image_url`
 */
export function readResponsesRequest(body: RawJson, counting = false): DialectRequest {
  checkBody(body.value)
  const members = withoutNulls(body.value as Record<string, any>)
  const { messages, ignored, untranslatable } = toConversation(members)
  const tools = toToolMembers(members, endsWithQuestion(members))
  const input: ChatRequest = {
    model: members.model,
    messages,
    ...sameMembers(members),
    ...tools.members,
    ...reasoningOf(members),
    ...formatOf(members),
    ...logprobsOf(members),
    ...(!counting && answerMembers(members)),
  }
  return {
    input: { ...input, labels: () => labelsIn(sendable(body.value), input, WORDS) },
    ignored: [...unknownMembers(members), ...ignored, ...tools.ignored],
    answerOptions: {
      echo: echoOf(members),
      includesEncrypted: members.include?.includes(ENCRYPTED) === true,
      remembers: members.store !== false,
      toolNames: tools.names,
    } satisfies AnswerOptions,
    untranslatable: untranslatable ?? tools.untranslatable,
  }
}

/** Removes members that are null, which mean the same as absent ones; a policy of null is an error. */
export function withoutNulls(body: Record<string, any>): Record<string, any> {
  const members = Object.entries(body)
  return Object.fromEntries(members.filter(([name, value]) => value !== null || name === 'policy'))
}

/** What may go out of a body: ids of items and what is of the operator's account do not. */
function sendable(body: object): object {
  const { input } = body as Record<string, any>
  return Array.isArray(input) ? { ...body, input: input.map(withoutLeftOut) } : body
}

function sameMembers(body: Record<string, any>): Partial<ChatRequest> {
  const present = SAME.filter((name) => body[name] !== undefined)
  return Object.fromEntries(present.map((name) => [name, body[name]]))
}

function answerMembers({ stream, max_output_tokens: limit }: Record<string, any>): object {
  return {
    ...(stream !== undefined && { stream }),
    ...(limit !== undefined && { max_completion_tokens: Math.max(limit, MIN_OUTPUT_TOKENS) }),
  }
}

function unknownMembers(body: Record<string, any>): string[] {
  const unknown = Object.keys(body).filter((name) => !KNOWN_MEMBERS.has(name))
  return (body.reasoning?.context ?? null) === null ? unknown : [...unknown, 'reasoning.context']
}

function reasoningOf({ reasoning }: Record<string, any>): Partial<ChatRequest> {
  const { effort, summary } = reasoning ?? {}
  const wanted = {
    ...(EFFORTS.has(effort) && { effort }),
    ...(SUMMARIES.has(summary) && { summary }),
  }
  return Object.keys(wanted).length > 0 ? { reasoning: wanted } : {}
}

function formatOf({ text }: Record<string, any>): Partial<ChatRequest> {
  const { format, verbosity } = text ?? {}
  return {
    ...(verbosity && { verbosity }),
    ...(format && format.type !== 'text' && { response_format: toResponseFormat(format) }),
  }
}

function toResponseFormat({ type, name, schema, strict, description }: any): { type: string } {
  if (type !== 'json_schema') return { type }
  const optional = { strict: strict ?? undefined, description: description ?? undefined }
  const entries = Object.entries(optional).filter(([, value]) => value !== undefined)
  const json_schema = { name, schema, ...Object.fromEntries(entries) }
  return { type, json_schema } as { type: string }
}

function logprobsOf({ include, top_logprobs }: Record<string, any>): Partial<ChatRequest> {
  if (!include?.includes(LOGPROBS) && !top_logprobs) return {}
  return { logprobs: true, ...(top_logprobs !== undefined && { top_logprobs }) }
}

/** Members that are the same whatever a client asks for. */
const FIXED = {
  truncation: 'disabled',
  service_tier: 'default',
  store: false,
  background: false,
  previous_response_id: null,
}

/** Members that an answer repeats as they were sent, and their defaults. */
const REPEATED = {
  instructions: null,
  tool_choice: 'auto',
  parallel_tool_calls: true,
  text: { format: { type: 'text' } },
  temperature: 1,
  top_p: 1,
  presence_penalty: 0,
  frequency_penalty: 0,
  top_logprobs: 0,
  max_tool_calls: null,
  user: null,
  safety_identifier: null,
  prompt_cache_key: null,
  metadata: {},
}

function echoOf(request: Readonly<Record<string, any>>): Readonly<Record<string, unknown>> {
  const { reasoning, tools = [] } = request
  const repeated = Object.entries(REPEATED).map(([name, other]) => [name, request[name] ?? other])
  return {
    ...Object.fromEntries(repeated),
    text: { ...REPEATED.text, ...request.text },
    reasoning: { effort: reasoning?.effort ?? null, summary: reasoning?.summary ?? null },
    tools: tools.map(withAllMembers),
    ...FIXED,
  }
}

function withAllMembers(tool: any): object {
  if (tool.type !== 'function') return tool
  return { description: null, parameters: null, strict: null, ...tool }
}
