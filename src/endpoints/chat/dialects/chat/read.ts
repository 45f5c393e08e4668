/** Reads a body of OpenAI's Chat Completions API: checks as tables, with error codes of OpenAI's meaning. */
import {
  toInvalidRequest,
  anything,
  boolean,
  either,
  filledText,
  inside,
  integer,
  isObject,
  list,
  longerThan,
  missing,
  number,
  object,
  oneOf,
  problem,
  record,
  shortText,
  text,
  variant,
  wrong,
  wrongType,
  type Check,
  type Members,
  type Problem,
  described,
  schemaOf,
} from '../../../../errors/checks.ts'
import type { ChatRequest } from '../../request.ts'
import { media, noFileStore, plugins, sampling, sessionId } from '../shared/fields.ts'

/** Members of the normal form that only the gateway sets. In a body they are unknown members, and have no meaning. */
const NOT_THE_CLIENTS: ReadonlySet<string> = new Set(['labels', 'web_search_tool'])

/** Members that mean the same empty as absent. */
const ABSENT_WHEN_EMPTY = new Set(['tools', 'stop', 'plugins'])

/**
 * Validates a parsed body, which is not changed. Reports the first problem: required fields, then the others in the order
 * of the document, then contradictions between fields.
 * @throws InvalidRequest with the code and path of the problem, such as `messages[2].content[0].image_url.url`
 */
export function readChatRequest(body: object): ChatRequest {
  const mistake = chatBody(body) ?? contradiction(body as Members)
  if (mistake) throw toInvalidRequest(mistake)
  return withoutAbsent(body as ChatRequest)
}

function withoutAbsent(body: ChatRequest): ChatRequest {
  for (const member in body) {
    if (isAbsent(member, body[member])) {
      const members = Object.entries(body).filter(([name, value]) => !isAbsent(name, value))
      return Object.fromEntries(members) as ChatRequest
    }
  }
  return body
}

function isAbsent(member: string, value: unknown): boolean {
  if (NOT_THE_CLIENTS.has(member)) return true
  // A policy of null is an error, not an absent one.
  if (value === null) return member !== 'policy'
  return Array.isArray(value) && value.length === 0 && ABSENT_WHEN_EMPTY.has(member)
}

const EFFORTS = ['max', 'xhigh', 'high', 'medium', 'low', 'minimal', 'none']

const name: Check = described(
  (value) => {
    if (typeof value === 'string' && /^[A-Za-z0-9_-]{1,64}$/.test(value)) return undefined
    const expected = '1 to 64 letters, digits, underscores or dashes'
    return (filledText(value) ?? shortText(64)(value)) || wrong('invalid_value', value, expected)
  },
  () => ({ type: 'string', pattern: '^[A-Za-z0-9_-]{1,64}$' }),
)

const bareOrData = media({ bare: true, url: false })
const bareDataOrUrl = media({ bare: true, url: true })
const dataOrUrl = media({ bare: false, url: true })

const imageUrl = either('a string or an object', {
  string: dataOrUrl,
  object: object({ url: dataOrUrl, detail: oneOf(['auto', 'low', 'high', 'original']) }, ['url']),
})
const inputAudio = object({ data: bareOrData, format: text }, ['data', 'format'])
const noFileId = noFileStore('the file itself in file_data')
const fileMembers = object({ filename: text, file_data: bareDataOrUrl, file_id: noFileId })

const part = variant('type', {
  text: object({ text }, ['text']),
  image_url: object({ image_url: imageUrl }, ['image_url']),
  input_audio: object({ input_audio: inputAudio }, ['input_audio']),
  file: object({ file: described(file, () => schemaOf(fileMembers)) }, ['file']),
  refusal: object({ refusal: text }, ['refusal']),
})

const content = either('a string or an array of content parts', {
  string: anything,
  array: list(part, 1),
})
const calledFunction = object({ name: text, arguments: text }, ['name', 'arguments'])
const toolCall = variant(
  'type',
  {
    function: object({ id: text, function: calledFunction }, ['id', 'function']),
    custom: object({ id: text, custom: object({ name: text, input: text }, ['name', 'input']) }, [
      'id',
      'custom',
    ]),
  },
  { absent: 'function' },
)
const assistantMembers = object({
  content,
  name: text,
  tool_calls: list(toolCall),
  function_call: calledFunction,
  refusal: text,
  reasoning: text,
  reasoning_content: text,
  reasoning_details: list(object({})),
})
const contentMessage = object({ content, name: text }, ['content'])

const message = variant('role', {
  system: contentMessage,
  developer: contentMessage,
  user: contentMessage,
  assistant: described(assistant, () => schemaOf(assistantMembers)),
  tool: object({ content, name: text, tool_call_id: text, is_error: boolean }, [
    'tool_call_id',
    'content',
  ]),
  function: object({ content, name: text }, ['name', 'content']),
})

const description = text
const definition = object({ name, description, parameters: object({}), strict: boolean }, ['name'])
const tool = variant(
  'type',
  {
    function: object({ function: definition }, ['function']),
    custom: object({ custom: object({ name, description, format: object({}) }, ['name']) }, [
      'custom',
    ]),
  },
  { others: anything },
)
const named = object({ name }, ['name'])
const toolChoice = either('none, auto, required or an object', {
  string: oneOf(['none', 'auto', 'required']),
  object: variant('type', {
    function: object({ function: named }, ['function']),
    custom: object({ custom: named }, ['custom']),
    allowed_tools: object(
      {
        allowed_tools: object({ mode: oneOf(['auto', 'required']), tools: list(object({})) }, [
          'mode',
          'tools',
        ]),
      },
      ['allowed_tools'],
    ),
  }),
})

const schema: Check = described(
  (value) => {
    const mistake = object({})(value)
    // LangChain for Python looks for this text.
    return mistake && { ...mistake, lead: 'Invalid schema for response_format' }
  },
  () => ({ type: 'object' }),
)
const jsonSchema = object({ name, schema, strict: boolean, description }, ['name', 'schema'])
const metadataValues = record(shortText(512))
const modalityNames = list(text)

export const chatBody = object(
  {
    model: filledText,
    messages: list(message, 1),
    ...sampling,
    max_completion_tokens: integer(1, Number.MAX_SAFE_INTEGER),
    max_tokens: integer(1, Number.MAX_SAFE_INTEGER),
    top_k: number(),
    min_p: number(),
    top_a: number(),
    repetition_penalty: number(),
    n: integer(1, 128),
    logprobs: boolean,
    top_logprobs: integer(0, 20),
    response_format: variant('type', {
      text: anything,
      json_object: anything,
      json_schema: object({ json_schema: jsonSchema }, ['json_schema']),
    }),
    tools: list(tool, 0, 128),
    tool_choice: toolChoice,
    parallel_tool_calls: boolean,
    functions: list(object({ name, description, parameters: object({}) }, ['name']), 1, 128),
    function_call: either('none, auto or an object', {
      string: oneOf(['none', 'auto']),
      object: named,
    }),
    reasoning: object({
      effort: oneOf(EFFORTS),
      max_tokens: integer(1, Number.MAX_SAFE_INTEGER),
      exclude: boolean,
      enabled: boolean,
      summary: oneOf(['auto', 'concise', 'detailed']),
    }),
    reasoning_effort: oneOf(EFFORTS),
    include_reasoning: boolean,
    verbosity: oneOf(['low', 'medium', 'high']),
    cache_control: object({}),
    session_id: sessionId,
    plugins,
    user: text,
    safety_identifier: text,
    prompt_cache_key: text,
    metadata: described(metadata, () => schemaOf(metadataValues)),
    prediction: object({}),
    modalities: described(modalities, () => schemaOf(modalityNames)),
  },
  ['model', 'messages'],
)

function contradiction(body: Members): Problem | undefined {
  const { top_logprobs, logprobs, reasoning, reasoning_effort } = body
  if (isGiven(top_logprobs) && logprobs !== true) {
    const expected = 'logprobs to be true where top_logprobs is given'
    return inside(
      'top_logprobs',
      problem('invalid_value', expected, `logprobs ${logprobs ?? 'absent'}`),
    )
  }
  const effort = isGiven(reasoning) ? (reasoning as Members).effort : undefined
  if (isGiven(effort) && isGiven(reasoning_effort) && effort !== reasoning_effort) {
    const expected = `the same as reasoning.effort (${String(effort)})`
    return inside('reasoning_effort', wrong('invalid_value', reasoning_effort, expected))
  }
  return undefined
}

function assistant(value: unknown): Problem | undefined {
  const mistake = assistantMembers(value)
  if (mistake) return mistake
  const { content, tool_calls, function_call, refusal } = value as Members
  if (isGiven(content) || isGiven(function_call) || isGiven(refusal)) return undefined
  if (isGiven(tool_calls) && (tool_calls as readonly unknown[]).length > 0) return undefined
  const expected = 'content, or tool_calls, function_call or refusal in its place'
  return content === null
    ? inside('content', wrongType(null, expected))
    : missing('content', () => wrongType(undefined, expected))
}

function file(value: unknown): Problem | undefined {
  const mistake = fileMembers(value)
  if (mistake) return mistake
  return isGiven((value as Members).file_data) ? undefined : missing('file_data', bareDataOrUrl)
}

function metadata(value: unknown): Problem | undefined {
  if (!isObject(value)) return wrongType(value, 'an object')
  const keys = Object.keys(value)
  if (keys.length > 16) return problem('invalid_value', 'at most 16 pairs', `${keys.length}`)
  if (keys.some((key) => longerThan(key, 64))) {
    return problem('string_above_max_length', 'keys of at most 64 characters', 'a longer one')
  }
  return metadataValues(value)
}

function modalities(value: unknown): Problem | undefined {
  const mistake = modalityNames(value)
  if (mistake) return mistake
  const other = (value as readonly string[]).find((modality) => modality !== 'text')
  return other === undefined ? undefined : wrong('unsupported_value', other, 'only "text"')
}

function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null
}
