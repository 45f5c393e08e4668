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

/** Repeated members addressed to the gateway or a vendor: a vendor that got its own form gives others. */
const CLIENTS_OWN = [
  'instructions',
  'user',
  'safety_identifier',
  'prompt_cache_key',
  'metadata',
  'store',
  'service_tier',
] as const

export function echoOf(request: Readonly<Record<string, any>>): Readonly<Record<string, unknown>> {
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

/** Repeated members with the client's own values, which replace those of a vendor's answer. */
export function clientsOwn(echo: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(CLIENTS_OWN.map((name) => [name, echo[name]]))
}

interface ResourceState {
  readonly id: string
  /** Unix seconds. */
  readonly createdAt: number
  readonly model: string
  readonly maxOutputTokens: number | null
}

export function resourceOf(
  { id, createdAt, model, maxOutputTokens }: ResourceState,
  echo: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  return {
    id,
    object: 'response',
    created_at: createdAt,
    completed_at: null,
    status: 'in_progress',
    incomplete_details: null,
    error: null,
    model,
    output: [],
    ...echo,
    max_output_tokens: maxOutputTokens,
    usage: null,
  }
}

function withAllMembers(tool: any): object {
  if (tool.type !== 'function') return tool
  return { description: null, parameters: null, strict: null, ...tool }
}
