/** The published form of Converse requests, with the rules that Amazon enforces beyond types. */
import * as v from 'valibot'

const filled = v.pipe(
  v.string(),
  v.check((text) => text.trim() !== '', 'text content blocks must be non-empty'),
)
const bytes = v.strictObject({ bytes: v.pipe(v.string(), v.base64(), v.minLength(1)) })
const name = v.pipe(v.string(), v.regex(/^[a-zA-Z0-9_-]{1,64}$/))
const id = v.pipe(v.string(), v.regex(/^[a-zA-Z0-9_-]{1,64}$/))

const text = v.strictObject({ text: filled })
const image = v.strictObject({
  image: v.strictObject({ format: v.picklist(['png', 'jpeg', 'gif', 'webp']), source: bytes }),
})
const document = v.strictObject({
  document: v.strictObject({
    format: v.picklist(['pdf', 'csv', 'doc', 'docx', 'xls', 'xlsx', 'html', 'txt', 'md']),
    name: v.pipe(v.string(), v.regex(/^[a-zA-Z\d()[\]-]+(?: [a-zA-Z\d()[\]-]+)*$/)),
    source: bytes,
  }),
})
const audio = v.strictObject({
  audio: v.strictObject({ format: v.picklist(['mp3', 'wav', 'flac', 'ogg']), source: bytes }),
})
const cachePoint = v.strictObject({
  cachePoint: v.strictObject({ type: v.literal('default'), ttl: v.optional(v.literal('1h')) }),
})
const toolUse = v.strictObject({
  toolUse: v.strictObject({ toolUseId: id, name, input: v.record(v.string(), v.unknown()) }),
})
const toolResult = v.strictObject({
  toolResult: v.strictObject({
    toolUseId: id,
    content: v.pipe(v.array(v.union([text, image, document])), v.minLength(1)),
    status: v.optional(v.literal('error')),
  }),
})
const reasoning = v.strictObject({
  reasoningContent: v.union([
    v.strictObject({ reasoningText: v.strictObject({ text: v.string(), signature: v.string() }) }),
    v.strictObject({ redactedContent: v.string() }),
  ]),
})

const user = v.strictObject({
  role: v.literal('user'),
  content: v.pipe(
    v.array(v.union([text, image, document, audio, toolResult, cachePoint])),
    v.minLength(1),
  ),
})
const assistant = v.strictObject({
  role: v.literal('assistant'),
  content: v.pipe(v.array(v.union([text, toolUse, reasoning, cachePoint])), v.minLength(1)),
})
type Turn = v.InferOutput<typeof user | typeof assistant>

const turns = v.pipe(
  v.array(v.variant('role', [user, assistant])),
  v.minLength(1),
  v.check(([first]) => first!.role === 'user', 'a conversation must start with a user message'),
  v.check(
    (all) => all.every(({ role }, at) => role !== all[at - 1]?.role),
    'roles must alternate between user and assistant',
  ),
  v.check(answersCalls, 'toolUse blocks need toolResult blocks at the start of the next message'),
  v.check((all) => new Set(callsIn(all)).size === callsIn(all).length, 'ids must be unique'),
  v.check(explainsDocuments, 'a text block must stand beside documents'),
  v.check(namesDocuments, 'names of documents must be unique'),
  v.check(endsWell, 'the final assistant content cannot end with trailing whitespace'),
)

function callsIn(all: Turn[]): string[] {
  return all.flatMap(({ content }) =>
    content.flatMap((block) => ('toolUse' in block ? [block.toolUse.toolUseId] : [])),
  )
}

function resultsIn(all: Turn[]): string[] {
  return all.flatMap(({ content }) =>
    content.flatMap((block) => ('toolResult' in block ? [block.toolResult.toolUseId] : [])),
  )
}

function answersCalls(all: Turn[]): boolean {
  return all.every((turn, at) => {
    const before = all[at - 1]
    const expected = turn.role === 'user' && before ? callsIn([before]) : []
    const results = resultsIn([
      { ...turn, content: turn.content.slice(0, expected.length) } as Turn,
    ])
    const isLast = at === all.length - 1
    const open = isLast && turn.role === 'assistant' ? callsIn([turn]).length : 0
    return (
      open === 0 &&
      resultsIn([turn]).length === expected.length &&
      expected.every((call) => results.includes(call))
    )
  })
}

function explainsDocuments(all: Turn[]): boolean {
  return all.every(
    ({ content }) =>
      !content.some((block) => 'document' in block) || content.some((block) => 'text' in block),
  )
}

function namesDocuments(all: Turn[]): boolean {
  const names = [...JSON.stringify(all).matchAll(/"name":"(doc-[^"]*)"/g)].map(([, one]) => one)
  return new Set(names).size === names.length
}

function endsWell(all: Turn[]): boolean {
  const { role, content } = all.at(-1)!
  const last = content.at(-1)!
  return role !== 'assistant' || !('text' in last) || !/\s$/.test(last.text)
}

const toolSpec = v.strictObject({
  toolSpec: v.strictObject({
    name,
    description: v.optional(filled),
    inputSchema: v.strictObject({ json: v.looseObject({ type: v.literal('object') }) }),
    strict: v.optional(v.literal(true)),
  }),
})
const toolConfig = v.strictObject({
  tools: v.pipe(v.array(v.union([toolSpec, cachePoint])), v.minLength(1)),
  toolChoice: v.optional(
    v.union([
      v.strictObject({ auto: v.strictObject({}) }),
      v.strictObject({ any: v.strictObject({}) }),
      v.strictObject({ tool: v.strictObject({ name }) }),
    ]),
  ),
})
const share = v.pipe(v.number(), v.minValue(0), v.maxValue(1))

const body = v.strictObject({
  messages: turns,
  system: v.optional(v.pipe(v.array(v.union([text, cachePoint])), v.minLength(1))),
  inferenceConfig: v.strictObject({
    maxTokens: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1))),
    temperature: v.optional(share),
    topP: v.optional(share),
    stopSequences: v.optional(
      v.pipe(v.array(v.pipe(v.string(), v.minLength(1))), v.minLength(1), v.maxLength(4)),
    ),
  }),
  toolConfig: v.optional(toolConfig),
  outputConfig: v.optional(
    v.strictObject({
      textFormat: v.strictObject({
        type: v.literal('json_schema'),
        structure: v.strictObject({
          jsonSchema: v.strictObject({
            schema: v.pipe(v.string(), v.parseJson(), v.looseObject({})),
            name: v.string(),
            description: v.optional(v.string()),
          }),
        }),
      }),
    }),
  ),
  additionalModelRequestFields: v.optional(v.record(v.string(), v.unknown())),
  /** JSON pointers. */
  additionalModelResponseFieldPaths: v.optional(
    v.pipe(v.array(v.pipe(v.string(), v.regex(/^\/.{0,255}$/))), v.maxLength(10)),
  ),
})

/** A body that Converse accepts, whatever the model. */
export const converseRequest = v.pipe(
  body,
  v.check(
    ({ messages, toolConfig }) => !!toolConfig || callsIn(messages).length === 0,
    'the toolConfig field must be defined when using toolUse and toolResult content blocks',
  ),
  v.check(({ toolConfig }) => {
    const names = (toolConfig?.tools ?? []).flatMap((one) =>
      'toolSpec' in one ? [one.toolSpec.name] : [],
    )
    return new Set(names).size === names.length
  }, 'tool names must be unique'),
  v.check(
    (all) => (JSON.stringify(all).match(/"cachePoint"/g) ?? []).length <= 4,
    'a maximum of 4 cache points',
  ),
)

/** Refuses results beside other content. */
export const novaRequest = v.pipe(
  converseRequest,
  v.check(
    ({ messages }) =>
      messages.every(({ content }) => {
        const results = content.filter((block) => 'toolResult' in block)
        return results.length === 0 || results.length === content.length
      }),
    'extraneous key [toolResult] is not permitted',
  ),
)

/** Refuses reasoning beside a call that is required, and stop sequences that cannot be seen. */
export const claudeRequest = v.pipe(
  converseRequest,
  v.check(({ toolConfig, additionalModelRequestFields }) => {
    const choice = toolConfig?.toolChoice
    const thinking = additionalModelRequestFields?.thinking as { type: string } | undefined
    const thinks = thinking?.type === 'enabled' || thinking?.type === 'adaptive'
    return !thinks || !choice || 'auto' in choice
  }, 'Thinking may not be enabled when tool_choice forces tool use.'),
  v.check(
    ({ inferenceConfig: { stopSequences = [] } }) => stopSequences.every((stop) => stop.trim()),
    'stop sequences must contain non-whitespace',
  ),
)
