import { isObject, toInvalidRequest } from '../../../../errors/checks.ts'
import { InvalidRequest } from '../../../../errors/errors.ts'
import type { Incoming } from '../../../../pipeline/http.ts'
import type { RawJson } from '../../../../stream/raw-json.ts'
import type { DialectRequest } from '../../endpoint.ts'
import type { ChatRequest } from '../../request.ts'
import { labelsIn, type WireWords } from '../shared/labels.ts'
import { endsWithQuestion, toConversation } from './conversation.ts'
import { findProblem, KNOWN_MEMBERS } from './fields.ts'
import { isOwn, nativeHeaders, notOffered, WEB_SEARCH, withoutLeftOut } from './prepare.ts'
import { NEVER_PASSED } from '../shared/walk.ts'

export interface AnswerOptions {
  readonly hidesThinking: boolean
  /** The client shows no text of a refusal, only words of its own. */
  readonly hidesRefusals: boolean
  /** Members with which the client asks for reasoning. */
  readonly hints: readonly string[]
  readonly stopSequences: readonly string[]
}

/**
 * Translates a parsed body.
 * @param counting whether its tokens are to be counted: nothing of the answer is asked for
 * @throws InvalidRequest with the code and path of the first problem, such as `messages[2].content[0].source`
 */
export function readMessagesRequest(
  body: RawJson,
  header: Incoming['header'],
  counting = false,
): DialectRequest {
  const mistake = findProblem(body.value, counting)
  if (mistake?.code === 'missing_required_parameter') {
    const { code, path: param } = mistake
    throw new InvalidRequest(code, `${param}: Field required`, { param })
  }
  if (mistake) throw toInvalidRequest(mistake)
  const members = withoutNulls(body.value as Record<string, any>)
  const { messages, ignored } = toConversation(members, body.text!)
  const tools: readonly any[] = members.tools ?? []
  const unknown = Object.keys(members).filter((name) => !KNOWN_MEMBERS.has(name))
  const input: ChatRequest = {
    model: members.model,
    messages,
    ...plainMembers(members),
    ...toolMembers(members, tools),
    ...reasoningOf(members),
    ...formatOf(members),
    ...(!counting && members.stream !== undefined && { stream: members.stream }),
    ...(!counting && { max_completion_tokens: members.max_tokens }),
  }
  return {
    input: { ...input, labels: () => labelsIn(sendable(body.value), input, WORDS) },
    ignored: [...unknown, ...ignored, ...foreignTools(tools)],
    answerOptions: answerOptions(members, header),
    nativeHeaders: nativeHeaders(header),
    untranslatable: untranslatable(members, tools, input),
  }
}

/**
 * It is sent by Claude Code, which shows only a note about its own vendor's policy for a refusal, and may ask another model: a policy
 * of this gateway would be invisible.
 */
const ASSISTANT_SESSION = 'x-claude-code-session-id'

/** Members with the same values in the normal form, by their names there. */
const SAME: readonly (readonly [name: string, own: string])[] = [
  ['temperature', 'temperature'],
  ['top_p', 'top_p'],
  ['top_k', 'top_k'],
  ['stop', 'stop_sequences'],
  ['cache_control', 'cache_control'],
  ['policy', 'policy'],
  ['session_id', 'session_id'],
  ['plugins', 'plugins'],
]

function plainMembers(body: Record<string, any>): Partial<ChatRequest> {
  const present = SAME.filter(([, own]) => {
    const value: unknown = body[own]
    return value !== undefined && !(Array.isArray(value) && value.length === 0)
  })
  const members: Record<string, unknown> = Object.fromEntries(
    present.map(([name, own]) => [name, body[own]]),
  )
  const user: unknown = body.metadata?.user_id
  if (user) members.user = user
  return members
}

/** Removes members that are null, which mean the same as absent ones; a policy of null is an error. */
function withoutNulls(body: Record<string, any>): Record<string, any> {
  const members = Object.entries(body)
  return Object.fromEntries(members.filter(([name, value]) => value !== null || name === 'policy'))
}

function foreignTools(tools: readonly any[]): string[] {
  return tools.flatMap((tool, index) => (isOwn(tool) ? [] : [pathOf(tool, index)]))
}

function pathOf({ type }: any, index: number): string {
  return `tools[${index}].${type}`
}

function toolMembers(body: Record<string, any>, tools: readonly any[]): Partial<ChatRequest> {
  const choice = body.tool_choice
  const own = tools.filter(isOwn).map((tool) => {
    const { name, description, input_schema: parameters, strict, cache_control } = tool
    return {
      type: 'function',
      function: {
        name,
        ...(isGiven(description) && { description }),
        parameters,
        ...(isGiven(strict) && { strict }),
      },
      ...(cache_control && { cache_control }),
    }
  })
  const search = searchTool(body, tools)
  return {
    ...(own.length > 0 && { tools: own }),
    ...(choice && !forcedTool(choice, tools) && { tool_choice: toolChoiceOf(choice) }),
    ...(choice?.disable_parallel_tool_use && { parallel_tool_calls: false }),
    ...(search && { web_search_tool: search }),
  }
}

function forcedTool(choice: any, tools: readonly any[]): any {
  if (choice?.type !== 'tool') return undefined
  const tool = tools.find(({ name }) => name === choice.name)
  return tool && !isOwn(tool) ? tool : undefined
}

function untranslatable(
  { tool_choice }: Record<string, any>,
  tools: readonly any[],
  { web_search_tool }: ChatRequest,
): InvalidRequest | undefined {
  const forced = forcedTool(tool_choice, tools)
  return forced && !web_search_tool ? notOffered(forced) : undefined
}

function toolChoiceOf(choice: any): ChatRequest['tool_choice'] {
  if (choice.type === 'tool') return { type: 'function', function: { name: choice.name } }
  return choice.type === 'any' ? 'required' : choice.type
}

/** A search of the vendor's as one of the gateway's: only on a new question, because an agent repeats its tools. */
function searchTool(body: Record<string, any>, tools: readonly any[]) {
  const index = tools.findIndex(({ type }) => typeof type === 'string' && WEB_SEARCH.test(type))
  if (index < 0 || body.tool_choice?.type === 'none' || !endsWithQuestion(body)) return undefined
  const { allowed_domains, blocked_domains } = tools[index]
  return {
    path: pathOf(tools[index], index),
    includeDomains: textsOf(allowed_domains),
    excludeDomains: textsOf(blocked_domains),
  }
}

function textsOf(list: unknown): readonly string[] {
  return Array.isArray(list) ? list.filter((one) => typeof one === 'string') : []
}

function reasoningOf({ thinking, output_config }: Record<string, any>): Partial<ChatRequest> {
  const effort = output_config?.effort ?? undefined
  const byEffort = effort === undefined ? {} : { effort }
  switch (thinking?.type) {
    case 'enabled':
      return { reasoning: { max_tokens: thinking.budget_tokens } }
    case 'adaptive':
      return { reasoning: { enabled: true, ...byEffort } }
    case 'disabled':
    case 'between_tools':
      return { reasoning: { effort: 'none' } }
    default:
      return effort === undefined ? {} : { reasoning: byEffort }
  }
}

function formatOf({ output_config, output_format }: Record<string, any>): Partial<ChatRequest> {
  const format = output_config?.format ?? output_format
  if (format?.type !== 'json_schema') return {}
  const json_schema = { name: 'output', strict: true, schema: format.schema }
  return { response_format: { type: 'json_schema', json_schema } }
}

function answerOptions(
  { thinking, output_config: output, stop_sequences }: Record<string, any>,
  header: Incoming['header'],
): AnswerOptions {
  return {
    hidesRefusals: header(ASSISTANT_SESSION) !== undefined,
    hidesThinking: isObject(thinking) && thinking.display === 'omitted',
    hints: [
      ...(thinking ? ['thinking'] : []),
      ...(isObject(output) && output.effort ? ['output_config.effort'] : []),
    ],
    stopSequences: stop_sequences ?? [],
  }
}

/** What may go out of a body: blocks of the operator's account do not. */
function sendable(body: object): object {
  const { messages } = body as Record<string, any>
  return { ...body, messages: messages.map(withoutLeftOut) }
}

function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null
}

const listed = (text: string) => new Set(text.split(' '))

const WORDS: WireWords = {
  own: new Set([...NEVER_PASSED, 'model', 'service_tier']),
  names: listed(
    'allowed_domains blocked_domains budget_tokens cache_control citations city content context context_management country ' +
      'data description disable_parallel_tool_use display edits effort enabled encrypted_content error_code format id input ' +
      'input_examples input_schema is_error keep max_tokens max_uses media_type messages metadata name output_config ' +
      'output_format partial_json region role schema signature source stop_sequences stream strict system temperature text ' +
      'thinking timezone title tool_choice tool_name tool_use_id tools top_k top_p ttl type url user_id user_location ' +
      'defer_loading',
  ),
  values: new Map([
    [
      'type',
      listed(
        'adaptive any auto base64 between_tools compaction content custom disabled document enabled ephemeral image ' +
          'json_schema none redacted_thinking search_result text thinking tool tool_reference tool_result tool_use url ' +
          'server_tool_use web_search_tool_result web_search_result web_search_result_location approximate',
      ),
    ],
    ['role', listed('user assistant system')],
    ['ttl', listed('5m 1h')],
    ['effort', listed('low medium high xhigh max')],
    ['display', listed('summarized omitted')],
    ['media_type', listed('image/png image/jpeg image/gif image/webp application/pdf text/plain')],
  ]),
  opaque: new Map([
    ['messages.content thinking', 'signature'],
    ['messages.content redacted_thinking', 'data'],
    ['messages.content compaction', 'encrypted_content'],
    ['messages.content.content web_search_result', 'encrypted_content'],
    ['messages.content.citations web_search_result_location', 'encrypted_index'],
    // The data of images and documents, also of those in results of tools and in documents.
    ['messages.content.source base64', 'data'],
    ['messages.content.content.source base64', 'data'],
    ['messages.content.source.content.source base64', 'data'],
    ['messages.content.content.source.content.source base64', 'data'],
  ]),
}
