/**
 * What vendors publish about the bodies of `chat/completions`, as strict schemas: members, kinds of parts, and the order
 * of messages that each accepts.
 */
import * as v from 'valibot'

/** What a vendor's form has besides that of all. */
interface Form {
  /** Members of the body. */
  readonly members: Readonly<Record<string, v.GenericSchema>>
  /** Kinds of parts in messages of a user; a vendor without any takes texts only. */
  readonly parts?: readonly v.GenericSchema[]
  /** Content of system messages, answers and results is a text, not a list. */
  readonly texts?: 'results' | 'all'
  /** Results may have images. */
  readonly resultImages?: true
  /** Further members of an assistant's message. */
  readonly answer?: v.ObjectEntries
  /** Further members of a call. */
  readonly call?: v.ObjectEntries
  /** Knows the role `developer` and refusals. */
  readonly current?: boolean
  /** Knows free-form tools, and choices among allowed tools. */
  readonly custom?: true
  /** Knows functions of the older form; results have no names. */
  readonly older?: true
  /** Marks of a cache, on contents, messages and tools. */
  readonly marker?: v.GenericSchema
  /** All messages may have these parts, not the user's only. */
  readonly anywhere?: true
  /** Each call has its result, directly after the calls. */
  readonly answered?: true
}

const text = v.strictObject({ type: v.literal('text'), text: v.string() })
const imageAt = (url: v.GenericSchema) =>
  v.strictObject({
    type: v.literal('image_url'),
    image_url: v.strictObject({ url, detail: v.optional(v.picklist(['auto', 'low', 'high'])) }),
  })
/** An image as data or at an address. */
export const image = imageAt(v.pipe(v.string(), v.regex(/^(https:|data:image\/)/)))
/** An image as data. */
export const imageAsData = imageAt(v.pipe(v.string(), v.startsWith('data:image/')))
/** An image in any of the details of the newest models. */
export const newestImage = v.strictObject({
  type: v.literal('image_url'),
  image_url: v.strictObject({
    url: v.string(),
    detail: v.optional(v.picklist(['auto', 'low', 'high', 'original'])),
  }),
})
/** A file as data, with the name that is required. */
export const file = v.strictObject({
  type: v.literal('file'),
  file: v.strictObject({
    filename: v.pipe(v.string(), v.nonEmpty()),
    file_data: v.pipe(v.string(), v.regex(/^data:[\w.+-]+\/[\w.+-]+;base64,[\w+/]+=*$/)),
  }),
})
/** A file as data or at an address. */
export const fileAnywhere = v.union([
  file,
  v.strictObject({
    type: v.literal('file'),
    file: v.strictObject({
      filename: v.optional(v.string()),
      file_data: v.pipe(v.string(), v.startsWith('https://')),
    }),
  }),
])
/** Sound as base64. */
export const sound = v.strictObject({
  type: v.literal('input_audio'),
  input_audio: v.strictObject({ data: v.pipe(v.string(), v.base64()), format: v.string() }),
})

const name = v.pipe(v.string(), v.regex(/^[a-zA-Z0-9_-]{1,64}$/))
const named = v.strictObject({ name })
const args = v.strictObject({ name, arguments: v.string() })
const functionCall = v.strictObject({
  id: v.string(),
  type: v.literal('function'),
  function: args,
})
const customCall = v.strictObject({
  id: v.string(),
  type: v.literal('custom'),
  custom: v.strictObject({ name, input: v.string() }),
})
const functionTool = v.strictObject({
  type: v.literal('function'),
  function: v.strictObject({
    name,
    description: v.optional(v.string()),
    parameters: v.optional(v.looseObject({})),
    strict: v.optional(v.boolean()),
  }),
})
const customTool = v.strictObject({
  type: v.literal('custom'),
  custom: v.strictObject({
    name,
    description: v.optional(v.string()),
    format: v.optional(
      v.variant('type', [
        v.strictObject({ type: v.literal('text') }),
        v.strictObject({
          type: v.literal('grammar'),
          grammar: v.strictObject({
            syntax: v.picklist(['lark', 'regex']),
            definition: v.string(),
          }),
        }),
      ]),
    ),
  }),
})
const functionChoice = v.strictObject({ type: v.literal('function'), function: named })
const customChoice = v.strictObject({ type: v.literal('custom'), custom: named })
const allowedTools = v.strictObject({
  type: v.literal('allowed_tools'),
  allowed_tools: v.strictObject({
    mode: v.picklist(['auto', 'required']),
    tools: v.array(v.union([functionChoice, customChoice])),
  }),
})

const count = v.pipe(v.number(), v.integer(), v.minValue(1))
const number = v.number()
/** Members of most vendors. */
export const COMMON = {
  model: v.string(),
  temperature: number,
  top_p: number,
  stop: v.union([v.string(), v.array(v.string())]),
  seed: number,
  stream: v.boolean(),
  stream_options: v.strictObject({ include_usage: v.boolean() }),
  parallel_tool_calls: v.boolean(),
}
/** Penalties of sampling. */
export const PENALTIES = { frequency_penalty: number, presence_penalty: number }
/** Probabilities of tokens. */
export const LOGPROBS = { logprobs: v.boolean(), top_logprobs: number }
/** The limit of tokens by either name. */
export const LIMIT = { max_completion_tokens: count }
/** The limit of tokens by its older name. */
export const OLDER_LIMIT = { max_tokens: count }
/** Answers as JSON, under a schema or not. */
export const JSON_OR_SCHEMA = v.variant('type', [
  v.strictObject({ type: v.picklist(['text', 'json_object']) }),
  v.strictObject({
    type: v.literal('json_schema'),
    json_schema: v.strictObject({
      name,
      schema: v.looseObject({}),
      strict: v.optional(v.boolean()),
      description: v.optional(v.string()),
    }),
  }),
])
/** Answers as JSON without a schema. */
export const ANY_JSON = v.strictObject({ type: v.picklist(['text', 'json_object']) })

/** Members of OpenAI's own models. */
export const OPENAI = {
  ...COMMON,
  ...LIMIT,
  ...PENALTIES,
  ...LOGPROBS,
  logit_bias: v.record(v.string(), number),
  n: number,
  response_format: JSON_OR_SCHEMA,
  reasoning_effort: v.picklist(['none', 'minimal', 'low', 'medium', 'high', 'xhigh']),
  verbosity: v.picklist(['low', 'medium', 'high']),
  prediction: v.strictObject({ type: v.literal('content'), content: v.string() }),
  user: v.string(),
  metadata: v.record(v.string(), v.string()),
  prompt_cache_key: v.string(),
  modalities: v.array(v.string()),
}
/** OpenAI's own form. */
export const OPENAI_FORM: Form = {
  current: true,
  custom: true,
  older: true,
  members: {
    ...OPENAI,
    stream_options: v.strictObject({
      include_usage: v.boolean(),
      include_obfuscation: v.boolean(),
    }),
  },
  parts: [newestImage, file, sound],
  resultImages: true,
}

/** The strict schema of a vendor's bodies. */
export function bodyIn(form: Form): v.GenericSchema {
  const { members, custom, older, answered, marker } = form
  const marked: v.ObjectEntries = marker ? { cache_control: v.optional(marker) } : {}
  const fn = v.strictObject({ ...functionTool.entries, ...marked })
  const tools = v.pipe(v.array(custom ? v.union([fn, customTool]) : fn), v.minLength(1))
  const choices = [v.picklist(['auto', 'none', 'required']), functionChoice]
  const choice = v.union([
    ...choices,
    ...(custom ? [customChoice] : []),
    ...(older ? [allowedTools] : []),
  ])
  const optional = Object.entries({ tools, tool_choice: choice, ...members }).map(
    ([key, schema]) => [key, key === 'model' ? schema : v.optional(schema)],
  )
  return v.pipe(
    v.strictObject({
      ...Object.fromEntries(optional),
      messages: v.pipe(
        v.array(messageIn(form)),
        v.minLength(1),
        v.check(
          (all) => !answered || isAnswered(all),
          'each call has a result, directly after the calls',
        ),
      ),
    }),
    v.check(
      (body: any) => body.tool_choice === undefined || body.tools !== undefined,
      'no choice of tools without tools',
    ),
  )
}

function messageIn(form: Form): v.GenericSchema {
  const { parts = [], texts, resultImages, answer, current, custom, older, anywhere, marker } = form
  const marked: v.ObjectEntries = marker ? { cache_control: v.optional(marker) } : {}
  const words = v.strictObject({ ...text.entries, ...marked })
  const content = (...more: readonly v.GenericSchema[]) =>
    v.union([v.string(), v.pipe(v.array(v.union([words, ...more])), v.minLength(1))])
  const some = (...more: readonly v.GenericSchema[]) =>
    texts === 'all' && more.length === 0 ? v.string() : content(...more)
  const refusal = v.strictObject({ type: v.literal('refusal'), refusal: v.string() })
  const images = anywhere ? parts : parts.filter(isImage)
  const others = anywhere ? parts : []
  const speaker = { name: v.optional(v.string()), ...marked }
  const call = v.strictObject({ ...functionCall.entries, ...form.call })
  const calls = v.pipe(v.array(custom ? v.union([call, customCall]) : call), v.minLength(1))
  const earlier: v.ObjectEntries = {
    ...(current && { refusal: v.optional(v.string()) }),
    ...(older && { function_call: v.optional(args) }),
  }
  const result = v.strictObject({
    role: v.literal('tool'),
    content: texts ? v.string() : resultImages ? content(...images) : content(),
    tool_call_id: v.string(),
    ...(older ? {} : { name: v.optional(v.string()) }),
  })
  const olderResult = v.strictObject({
    role: v.literal('function'),
    name: v.string(),
    content: v.nullable(v.string()),
  })
  return v.variant('role', [
    v.strictObject({
      role: current ? v.picklist(['system', 'developer']) : v.literal('system'),
      content: some(...others),
      ...speaker,
    }),
    v.strictObject({ role: v.literal('user'), content: some(...parts), ...speaker }),
    v.pipe(
      v.strictObject({
        role: v.literal('assistant'),
        content: v.optional(v.nullable(some(...others, ...(current ? [refusal] : [])))),
        ...speaker,
        tool_calls: v.optional(calls),
        ...earlier,
        ...answer,
      }),
      v.check(
        ({ content: said, ...rest }: any) =>
          (said !== undefined && said !== null) || 'tool_calls' in rest || 'function_call' in rest,
        'null only beside calls',
      ),
    ),
    result,
    ...(older ? [olderResult] : []),
  ] as any)
}

function isImage(part: v.GenericSchema): boolean {
  return v.is(part, { type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } })
}

/** Whether each call has one result after it, before anything else. Results of no call may be anywhere. */
function isAnswered(messages: readonly any[]): boolean {
  return messages.every(({ tool_calls = [] }, i) => {
    if (tool_calls.length === 0) return true
    const end = messages.findIndex(({ role }, j) => j > i && role !== 'tool')
    const results = messages.slice(i + 1, end < 0 ? undefined : end)
    const answered = results.map((one) => one.tool_call_id)
    return tool_calls.every(({ id }: any) => answered.filter((one) => one === id).length === 1)
  })
}
