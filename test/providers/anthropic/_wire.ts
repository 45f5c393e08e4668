/** The published form of `POST /v1/messages`, with the rules that the vendor enforces beyond types. */
import * as v from 'valibot'

const marker = v.optional(
  v.strictObject({ type: v.literal('ephemeral'), ttl: v.optional(v.picklist(['5m', '1h'])) }),
)
const filled = v.pipe(
  v.string(),
  v.check((text) => text.trim() !== '', 'text content blocks must be non-empty'),
)
const base64 = v.pipe(v.string(), v.base64())
const address = v.strictObject({
  type: v.literal('url'),
  url: v.pipe(v.string(), v.startsWith('https://')),
})
const identifier = v.pipe(v.string(), v.regex(/^[a-zA-Z0-9_-]{1,128}$/))

const text = v.strictObject({ type: v.literal('text'), text: filled, cache_control: marker })
const image = v.strictObject({
  type: v.literal('image'),
  source: v.variant('type', [
    v.strictObject({
      type: v.literal('base64'),
      media_type: v.picklist(['image/jpeg', 'image/png', 'image/gif', 'image/webp']),
      data: base64,
    }),
    address,
  ]),
  cache_control: marker,
})
const document = v.strictObject({
  type: v.literal('document'),
  source: v.variant('type', [
    v.strictObject({
      type: v.literal('base64'),
      media_type: v.literal('application/pdf'),
      data: base64,
    }),
    v.strictObject({
      type: v.literal('text'),
      media_type: v.literal('text/plain'),
      data: v.string(),
    }),
    address,
  ]),
  title: v.optional(v.pipe(v.string(), v.minLength(1))),
  cache_control: marker,
})
const result = v.strictObject({
  type: v.literal('tool_result'),
  tool_use_id: identifier,
  content: v.optional(
    v.union([
      v.string(),
      v.pipe(v.array(v.variant('type', [text, image, document])), v.minLength(1)),
    ]),
  ),
  is_error: v.optional(v.boolean()),
  cache_control: marker,
})
const toolUse = v.strictObject({
  type: v.literal('tool_use'),
  id: identifier,
  name: identifier,
  input: v.record(v.string(), v.unknown()),
  cache_control: marker,
})
const thinking = v.strictObject({
  type: v.literal('thinking'),
  thinking: v.string(),
  signature: v.pipe(v.string(), v.minLength(1)),
})
const redacted = v.strictObject({ type: v.literal('redacted_thinking'), data: v.string() })

const user = v.strictObject({
  role: v.literal('user'),
  content: v.pipe(v.array(v.variant('type', [text, image, document, result])), v.minLength(1)),
})
const assistant = v.strictObject({
  role: v.literal('assistant'),
  content: v.pipe(v.array(v.variant('type', [text, toolUse, thinking, redacted])), v.minLength(1)),
})
const system = v.strictObject({
  role: v.literal('system'),
  content: v.pipe(v.array(text), v.minLength(1)),
})
type Turn = v.InferOutput<typeof user | typeof assistant | typeof system>

const turns = v.pipe(
  v.array(v.variant('role', [user, assistant, system])),
  v.minLength(1),
  v.check(([first]) => first!.role === 'user', 'the first message must be of the user'),
  v.check(alternates, 'roles must alternate; a system message stands after the user'),
  v.check(answersCalls, 'every call needs one result, at the start of the next message'),
  v.check((all) => new Set(idsIn(all)).size === idsIn(all).length, 'ids of calls must be unique'),
  v.check(endsWell, 'the final assistant content cannot end with trailing whitespace'),
)

/** What follows a system message is an answer, or nothing. */
function alternates(all: Turn[]): boolean {
  return all.every(({ role }, at) => {
    const before = all[at - 1]?.role
    if (role === 'system') return before === 'user' && all[at + 1]?.role !== 'user'
    return role !== before
  })
}

function answersCalls(all: Turn[]): boolean {
  return all.every((turn, at) => {
    const calls = turn.role === 'assistant' ? idsIn([turn]) : []
    const next = all[at + 1]
    const blocks = next?.role === 'user' ? next.content : []
    const results = blocks
      .slice(0, calls.length)
      .map((block) => 'tool_use_id' in block && block.tool_use_id)
    const previous = all[at - 1]
    const expected = previous?.role === 'assistant' ? idsIn([previous]).length : 0
    const own =
      turn.role === 'user' ? turn.content.filter(({ type }) => type === 'tool_result') : []
    return own.length === expected && calls.every((id) => results.includes(id))
  })
}

function idsIn(all: Turn[]): string[] {
  return all.flatMap(({ content }) =>
    content.flatMap((block) => (block.type === 'tool_use' ? [block.id] : [])),
  )
}

function endsWell(all: Turn[]): boolean {
  const last = all.at(-1)!
  const block = last.content.at(-1)!
  return last.role !== 'assistant' || block.type !== 'text' || !/\s$/.test(block.text)
}

const objectSchema = v.looseObject({ type: v.literal('object') })
const closedSchema = v.pipe(
  v.looseObject({}),
  v.check(isClosed, 'additionalProperties must be explicitly set to false'),
)

function isClosed(schema: any): boolean {
  if (typeof schema !== 'object' || schema === null) return true
  if (schema.type === 'object' && schema.additionalProperties !== false) return false
  return Object.entries(schema).every(([name, value]) => name === 'enum' || isClosed(value))
}

const tool = v.strictObject({
  name: identifier,
  description: v.optional(v.pipe(v.string(), v.minLength(1))),
  input_schema: objectSchema,
  strict: v.optional(v.literal(true)),
  cache_control: marker,
})
const serial = { disable_parallel_tool_use: v.optional(v.boolean()) }
const choice = v.variant('type', [
  v.strictObject({ type: v.literal('auto'), ...serial }),
  v.strictObject({ type: v.literal('any'), ...serial }),
  v.strictObject({ type: v.literal('tool'), name: identifier, ...serial }),
  v.strictObject({ type: v.literal('none') }),
])
const thought = v.variant('type', [
  v.strictObject({
    type: v.literal('enabled'),
    budget_tokens: v.pipe(v.number(), v.integer(), v.minValue(1024)),
  }),
  v.strictObject({
    type: v.literal('adaptive'),
    display: v.optional(v.picklist(['omitted', 'summarized'])),
  }),
  v.strictObject({ type: v.picklist(['disabled', 'between_tools']) }),
])

const body = v.strictObject({
  model: v.string(),
  max_tokens: v.pipe(v.number(), v.integer(), v.minValue(1)),
  system: v.optional(v.pipe(v.array(text), v.minLength(1))),
  messages: turns,
  tools: v.optional(v.pipe(v.array(tool), v.minLength(1))),
  tool_choice: v.optional(choice),
  thinking: v.optional(thought),
  output_config: v.optional(
    v.strictObject({
      effort: v.optional(v.picklist(['low', 'medium', 'high', 'xhigh', 'max'])),
      format: v.optional(v.strictObject({ type: v.literal('json_schema'), schema: closedSchema })),
    }),
  ),
  temperature: v.optional(v.pipe(v.number(), v.minValue(0), v.maxValue(1))),
  top_p: v.optional(v.pipe(v.number(), v.minValue(0), v.maxValue(1))),
  top_k: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1))),
  stop_sequences: v.optional(v.pipe(v.array(filled), v.minLength(1), v.maxLength(4))),
  cache_control: marker,
  metadata: v.optional(v.strictObject({ user_id: v.pipe(v.string(), v.regex(/^[\da-f]{64}$/)) })),
  service_tier: v.literal('standard_only'),
  stream: v.optional(v.boolean()),
})
type Body = v.InferOutput<typeof body>

/** A body that the vendor accepts. */
export const messagesRequest = v.pipe(
  body,
  v.check(({ tools, tool_choice }) => !tool_choice || !!tools, 'a choice needs tools'),
  v.check(
    ({ tools = [], tool_choice }) =>
      tool_choice?.type !== 'tool' || tools.some(({ name }) => name === tool_choice.name),
    'the chosen tool must be offered',
  ),
  v.check(
    ({ tools = [] }) => new Set(tools.map(({ name }) => name)).size === tools.length,
    'tool names must be unique',
  ),
  v.check(
    ({ tools = [] }) => tools.every((one) => !one.strict || isClosed(one.input_schema)),
    'strict tools must have closed schemas',
  ),
  v.check(
    ({ messages, tools }) => !!tools || idsIn(messages).length === 0,
    'a conversation with calls needs tools',
  ),
  v.check(
    ({ thinking, tool_choice }) =>
      !thinks(thinking) || (tool_choice?.type !== 'any' && tool_choice?.type !== 'tool'),
    'Thinking may not be enabled when tool_choice forces tool use.',
  ),
  v.check(
    ({ thinking, temperature, top_p, top_k }) =>
      !thinks(thinking) || (temperature ?? top_p ?? top_k) === undefined,
    'temperature may only be set to 1 when thinking is enabled',
  ),
  v.check(
    ({ thinking, max_tokens }) =>
      thinking?.type !== 'enabled' || thinking.budget_tokens < max_tokens,
    'max_tokens must be greater than thinking.budget_tokens',
  ),
  v.check((all) => markersIn(all).length <= 4, 'a maximum of 4 blocks with cache_control'),
  v.check(
    (all) => !/5m.*1h/.test(markersIn(all).join()),
    'a ttl="1h" cache_control block must not come after a ttl="5m" cache_control block',
  ),
)

function thinks(thinking: Body['thinking']): boolean {
  return thinking?.type === 'enabled' || thinking?.type === 'adaptive'
}

/** Times to live of the markers, in the order of the prompt. */
function markersIn({ tools, system, messages, ...whole }: Body): string[] {
  return [tools, system, messages, whole].flatMap(timesIn)
}

function timesIn(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return []
  const { cache_control: marker, ...members } = value as Readonly<Record<string, any>>
  return [...Object.values(members).flatMap(timesIn), ...(marker ? [marker.ttl ?? '5m'] : [])]
}
