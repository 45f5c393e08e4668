/** Builds the body of `POST /responses` from a chat request. */
import { hash } from 'node:crypto'
import type { ChatInput, Host } from '../../src/plugin.ts'
import { isOff, type Effort } from '../openai-compatible/reasoning.ts'
import { toItems, type Item } from './items.ts'
import { effortFor } from '../openai-compatible/rows.ts'
import type { Format } from './replay.ts'
import { OPENAI_ROOTS, withFlatRoot } from '../shared/schemas.ts'

/** What is known about the model, and options of the deployment. */
interface RequestProfile {
  /** Marks reasoning of this vendor. */
  readonly format: Format
  /** The model may reason: it encrypts its reasoning, and refuses sampling options while it reasons. */
  readonly reasons: boolean
  /** The vendor gives summaries of reasoning. */
  readonly summaries: boolean
  /** Whether reasoning of earlier turns goes back; by default it does. */
  readonly replayReasoning?: boolean | undefined
  /** Members of the body, in the vendor's names, that this model refuses. */
  readonly omit?: readonly string[] | undefined
  /** Levels of effort that this model has; by default as its name tells. */
  readonly effort?: readonly Effort[] | undefined
}

/** The body of a request, without the members that a model refuses. */
export interface ResponsesBody {
  readonly model: string
  readonly input: readonly Item[]
  readonly include?: readonly string[] | undefined
  readonly reasoning?: { readonly effort?: Effort; readonly summary?: string } | undefined
  readonly [member: string]: unknown
}

/** What has to be asked for: without it, reasoning could not come back. */
export const ENCRYPTED = 'reasoning.encrypted_content'

/** The vendor's least ceiling of an answer. */
const MIN_OUTPUT_TOKENS = 16

/** Members with the same name and form in both APIs. */
const SHARED = [
  'parallel_tool_calls',
  'metadata',
  'prompt_cache_options',
  'prompt_cache_retention',
] as const

/**
 * Builds the body. Members that this API does not have are left out.
 * @throws the failure class `bad_request` for several choices, and for content that this API does not have
 */
export function toBody(
  input: ChatInput,
  model: string,
  profile: RequestProfile,
  fail: Host['fail'],
): ResponsesBody {
  if (Number(input.n ?? 1) > 1) {
    const message = 'Expected n to be 1: this model gives one choice for each request.'
    throw fail('bad_request', message, { code: 'unsupported_parameter', param: 'n' })
  }
  const { format, replayReasoning = true, omit = [] } = profile
  const { stream, max_completion_tokens: limit, tool_choice } = input
  const reasoning = toReasoning(input, model, profile)
  const body: Record<string, unknown> = {
    model,
    input: toItems(input.messages, replayReasoning ? format : undefined, fail),
    store: false,
    ...(stream === true && { stream: true, stream_options: { include_obfuscation: false } }),
    ...(limit !== undefined && { max_output_tokens: Math.max(limit, MIN_OUTPUT_TOKENS) }),
    ...(reasoning && { reasoning }),
    ...toOutput(input, profile, reasoning?.effort),
    ...(input.tools && {
      tools: input.tools.map((tool, i) => toTool(withFlatRoot(tool, i, fail, OPENAI_ROOTS))),
    }),
    ...(tool_choice !== undefined && { tool_choice: toToolChoice(tool_choice) }),
    ...toIdentity(input),
  }
  for (const name of SHARED) if (input[name] !== undefined) body[name] = input[name]
  for (const name of omit) delete body[name]
  return body as ResponsesBody
}

function toReasoning(
  { reasoning, max_completion_tokens: limit }: ChatInput,
  model: string,
  { reasons, summaries, effort: levels }: RequestProfile,
): ResponsesBody['reasoning'] {
  if (!reasoning || !reasons) return undefined
  const effort = effortFor(model, reasoning, limit, levels)
  const wanted = reasoning.summary ?? (reasoning.exclude || isOff(reasoning) ? undefined : 'auto')
  const summary = summaries ? wanted : undefined
  return effort || summary ? { ...(effort && { effort }), ...(summary && { summary }) } : undefined
}

/** What the answer should be like, and what should come with it. */
function toOutput(
  { response_format, verbosity, temperature, top_p, logprobs, top_logprobs }: ChatInput,
  { reasons }: RequestProfile,
  effort: Effort | undefined,
): object {
  // Models refuse these while they reason.
  const samples = !reasons || effort === 'none'
  const include = [
    ...(reasons ? [ENCRYPTED] : []),
    ...(logprobs && samples ? ['message.output_text.logprobs'] : []),
  ]
  return {
    ...(include.length > 0 && { include }),
    ...(samples && temperature !== undefined && { temperature }),
    ...(samples && top_p !== undefined && { top_p }),
    ...(samples && top_logprobs !== undefined && { top_logprobs }),
    ...((response_format !== undefined || verbosity !== undefined) && {
      text: {
        ...(response_format ? { format: toFormat(response_format) } : {}),
        ...(verbosity ? { verbosity } : {}),
      },
    }),
  }
}

function toFormat({ type, json_schema }: any): object {
  if (type !== 'json_schema') return { type }
  const { name, schema, strict, description } = json_schema
  return withoutNulls({ type, name, schema, strict, description })
}

function toTool({ type, function: called, custom }: any): object {
  if (type === 'custom') {
    const { name, description, format } = custom
    return withoutNulls({ type, name, description, format: format && toToolFormat(format) })
  }
  const { name, description, parameters, strict } = called
  return withoutNulls({
    type: 'function',
    name,
    description,
    parameters: parameters ?? { type: 'object', properties: {} },
    // This API makes functions strict where nothing is said.
    strict: strict ?? false,
  })
}

function toToolFormat({ type, grammar }: any): object {
  return type === 'grammar'
    ? { type, syntax: grammar?.syntax, definition: grammar?.definition }
    : { type }
}

function toToolChoice(choice: unknown): unknown {
  if (typeof choice !== 'object' || choice === null) return choice
  const { type, allowed_tools: allowed } = Object(choice)
  if (type !== 'allowed_tools') return toNamed(choice)
  return { type, mode: allowed.mode, tools: allowed.tools.map(toNamed) }
}

function toNamed(tool: any): unknown {
  const name = tool[tool.type]?.name
  return name === undefined ? tool : { type: tool.type, name }
}

/** Who asks, and which cache serves it. Names of the operator's users do not leave the gateway. */
function toIdentity(input: ChatInput): object {
  const user = input.safety_identifier ?? input.user
  const cache = input.prompt_cache_key ?? input.session_id
  return {
    ...(user ? { safety_identifier: digest(user) } : {}),
    ...(cache ? { prompt_cache_key: digest(cache) } : {}),
  }
}

function digest(value: unknown): string {
  return hash('sha256', String(value), 'hex').slice(0, 32)
}

function withoutNulls(members: Readonly<Record<string, unknown>>): object {
  return Object.fromEntries(
    Object.entries(members).filter(([, value]) => value !== undefined && value !== null),
  )
}
