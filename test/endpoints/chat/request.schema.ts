/**
 * The rules of a chat request once more, as a schema: the oracle for the hand-written checker.
 * Both have to accept and refuse the same bodies. Only whether, not why: codes and paths have tests of their own.
 */
import * as v from 'valibot'

/** `null` means absent. */
const maybe = <S extends v.GenericSchema>(schema: S) => v.nullish(schema)
// First in the pipe: an object schema turns an array into an object.
const isJsonObject = v.custom<object>(
  (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
)
const open = <E extends v.ObjectEntries>(entries: E) => v.pipe(isJsonObject, v.looseObject(entries))
const members = isJsonObject
// Not v.record: it passes over names such as `__proto__`.
const pairs = (value: v.GenericSchema, maxPairs = Infinity, key: v.GenericSchema = v.string()) =>
  v.pipe(
    isJsonObject,
    v.check((object) => Object.keys(object).length <= maxPairs),
    v.check((object) => Object.entries(object).every(([k, x]) => v.is(key, k) && v.is(value, x))),
  )
const between = (min: number, max: number) =>
  v.pipe(v.number(), v.finite(), v.minValue(min), v.maxValue(max))
const whole = (min: number, max: number) => v.pipe(between(min, max), v.integer())
const codePoints = (max: number) => v.check((value: string) => [...value].length <= max)
const limit = whole(1, Number.MAX_SAFE_INTEGER)

const name = v.pipe(v.string(), v.regex(/^[A-Za-z0-9_-]{1,64}$/))
const effort = v.picklist(['max', 'xhigh', 'high', 'medium', 'low', 'minimal', 'none'])

const isBase64 = (text: string) => {
  const digits = /^([A-Za-z0-9+/_-]+)={0,2}$/.exec(text.replace(/[\t\n\f\r ]/g, ''))?.[1]
  return digits !== undefined && digits.length % 4 !== 1
}
const dataUrl = v.pipe(
  v.string(),
  v.regex(/^data:[^,]*;base64,/i),
  v.check((value) => isBase64(value.slice(value.indexOf(',') + 1))),
)
const webUrl = v.pipe(v.string(), v.regex(/^https?:/i))
const bare = v.pipe(v.string(), v.minLength(1), v.check(isBase64))
const image = v.union([dataUrl, webUrl])

const part = v.variant('type', [
  v.looseObject({ type: v.literal('text'), text: v.string() }),
  v.looseObject({
    type: v.literal('image_url'),
    image_url: v.union([
      image,
      open({ url: image, detail: maybe(v.picklist(['auto', 'low', 'high', 'original'])) }),
    ]),
  }),
  v.looseObject({
    type: v.literal('input_audio'),
    input_audio: open({ data: v.union([dataUrl, bare]), format: v.string() }),
  }),
  v.looseObject({
    type: v.literal('file'),
    file: open({
      filename: maybe(v.string()),
      file_data: v.union([dataUrl, webUrl, bare]),
      file_id: maybe(v.never()),
    }),
  }),
  v.looseObject({ type: v.literal('refusal'), refusal: v.string() }),
])
const content = v.union([v.string(), v.pipe(v.array(part), v.minLength(1))])

const called = open({ name: v.string(), arguments: v.string() })
const toolCall = v.union([
  open({ type: maybe(v.literal('function')), id: v.string(), function: called }),
  open({
    type: v.literal('custom'),
    id: v.string(),
    custom: open({ name: v.string(), input: v.string() }),
  }),
])
const plain = <R extends string>(role: R) =>
  v.looseObject({ role: v.literal(role), content, name: maybe(v.string()) })
const message = v.variant('role', [
  plain('system'),
  plain('developer'),
  plain('user'),
  v.pipe(
    v.looseObject({
      role: v.literal('assistant'),
      content: maybe(content),
      name: maybe(v.string()),
      tool_calls: maybe(v.array(toolCall)),
      function_call: maybe(called),
      refusal: maybe(v.string()),
      reasoning: maybe(v.string()),
      reasoning_content: maybe(v.string()),
      reasoning_details: maybe(v.array(members)),
    }),
    v.check(
      ({ content, tool_calls, function_call, refusal }) =>
        (content ?? function_call ?? refusal ?? (tool_calls?.length || undefined)) !== undefined,
    ),
  ),
  v.looseObject({
    role: v.literal('tool'),
    content,
    tool_call_id: v.string(),
    name: maybe(v.string()),
    is_error: maybe(v.boolean()),
  }),
  v.looseObject({ role: v.literal('function'), content, name: v.string() }),
])

const definition = open({
  name,
  description: maybe(v.string()),
  parameters: maybe(members),
  strict: maybe(v.boolean()),
})
const tool = v.union([
  open({ type: v.literal('function'), function: definition }),
  open({
    type: v.literal('custom'),
    custom: open({ name, description: maybe(v.string()), format: maybe(members) }),
  }),
  open({
    type: v.pipe(
      v.string(),
      v.check((type) => type !== 'function' && type !== 'custom'),
    ),
  }),
])
const toolChoice = v.union([
  v.picklist(['none', 'auto', 'required']),
  open({ type: v.literal('function'), function: open({ name }) }),
  open({ type: v.literal('custom'), custom: open({ name }) }),
  open({
    type: v.literal('allowed_tools'),
    allowed_tools: open({ mode: v.picklist(['auto', 'required']), tools: v.array(members) }),
  }),
])

const plugin = v.union([
  open({
    id: v.literal('web'),
    enabled: maybe(v.boolean()),
    max_results: maybe(
      v.pipe(
        v.number(),
        v.check((n) => !Number.isFinite(n) || n % 1 === 0),
      ),
    ),
    search_prompt: maybe(v.string()),
    include_domains: maybe(v.array(v.string())),
    exclude_domains: maybe(v.array(v.string())),
  }),
  open({
    id: v.pipe(
      v.string(),
      v.check((id) => id !== 'web'),
    ),
  }),
])

/** A whole chat body; its policy has a schema of its own. */
export const chatBody = v.pipe(
  open({
    model: v.pipe(v.string(), v.minLength(1)),
    messages: v.pipe(v.array(message), v.minLength(1)),
    stream: maybe(v.boolean()),
    stream_options: maybe(open({ include_usage: maybe(v.boolean()) })),
    max_completion_tokens: maybe(limit),
    max_tokens: maybe(limit),
    temperature: maybe(between(0, 2)),
    top_p: maybe(between(0, 1)),
    frequency_penalty: maybe(between(-2, 2)),
    presence_penalty: maybe(between(-2, 2)),
    top_k: maybe(v.pipe(v.number(), v.finite())),
    min_p: maybe(v.pipe(v.number(), v.finite())),
    top_a: maybe(v.pipe(v.number(), v.finite())),
    repetition_penalty: maybe(v.pipe(v.number(), v.finite())),
    n: maybe(whole(1, 128)),
    stop: maybe(v.union([v.string(), v.pipe(v.array(v.string()), v.maxLength(4))])),
    seed: maybe(whole(-(2 ** 63), 2 ** 63)),
    logit_bias: maybe(pairs(between(-100, 100))),
    logprobs: maybe(v.boolean()),
    top_logprobs: maybe(whole(0, 20)),
    response_format: maybe(
      v.union([
        open({ type: v.picklist(['text', 'json_object']) }),
        open({
          type: v.literal('json_schema'),
          json_schema: open({
            name,
            schema: members,
            strict: maybe(v.boolean()),
            description: maybe(v.string()),
          }),
        }),
      ]),
    ),
    tools: maybe(v.pipe(v.array(tool), v.maxLength(128))),
    tool_choice: maybe(toolChoice),
    parallel_tool_calls: maybe(v.boolean()),
    functions: maybe(
      v.pipe(
        v.array(open({ name, description: maybe(v.string()), parameters: maybe(members) })),
        v.minLength(1),
        v.maxLength(128),
      ),
    ),
    function_call: maybe(v.union([v.picklist(['none', 'auto']), open({ name })])),
    reasoning: maybe(
      open({
        effort: maybe(effort),
        max_tokens: maybe(limit),
        exclude: maybe(v.boolean()),
        enabled: maybe(v.boolean()),
        summary: maybe(v.picklist(['auto', 'concise', 'detailed'])),
      }),
    ),
    reasoning_effort: maybe(effort),
    include_reasoning: maybe(v.boolean()),
    verbosity: maybe(v.picklist(['low', 'medium', 'high'])),
    cache_control: maybe(members),
    session_id: maybe(v.pipe(v.string(), codePoints(256))),
    plugins: maybe(v.array(plugin)),
    user: maybe(v.string()),
    safety_identifier: maybe(v.string()),
    prompt_cache_key: maybe(v.string()),
    metadata: maybe(
      pairs(v.pipe(v.string(), codePoints(512)), 16, v.pipe(v.string(), codePoints(64))),
    ),
    prediction: maybe(members),
    modalities: maybe(v.array(v.literal('text'))),
  }),
  v.check(({ logprobs, top_logprobs }) => (top_logprobs ?? undefined) === undefined || !!logprobs),
  v.check(({ reasoning, reasoning_effort }) => {
    const effort = reasoning?.effort ?? reasoning_effort
    return effort === (reasoning_effort ?? effort)
  }),
)
