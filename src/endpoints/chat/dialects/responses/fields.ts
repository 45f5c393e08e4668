/** Checks of a body of OpenAI's Responses API. Tools and members that only this vendor has are never refused. */
import {
  anything,
  boolean,
  either,
  filledText,
  inside,
  integer,
  isObject,
  list,
  number,
  object,
  oneOf,
  problem,
  record,
  shortText,
  text,
  toInvalidRequest,
  variant,
  type Check,
  described,
  schemaOf,
} from '../../../../errors/checks.ts'
import { InvalidRequest } from '../../../../errors/errors.ts'
import { httpUrl, media, noFileStore, plugins, sessionId } from '../shared/fields.ts'

const noFileId = noFileStore('the content itself as base64, or its URL')
const dataOrUrl = media({ bare: false, url: true })
const dataOrBare = media({ bare: true, url: false })

const textPart = object({ text }, ['text'])
const image = withoutFileId(object({ image_url: dataOrUrl, detail: text }, ['image_url']))
const file: Check = (value) => {
  const mistake = fileMembers(value)
  if (mistake || !isObject(value) || value.file_data || value.file_url) return mistake
  return inside('file_data', problem('missing_required_parameter', 'file_data or file_url', 'none'))
}
const fileMembers = withoutFileId(
  object({ filename: text, file_data: dataOrBare, file_url: httpUrl }),
)
const sound = object(
  { input_audio: object({ data: dataOrBare, format: filledText }, ['data', 'format']) },
  ['input_audio'],
)

const part = variant('type', {
  input_text: textPart,
  output_text: textPart,
  text: textPart,
  refusal: object({ refusal: text }, ['refusal']),
  input_image: image,
  input_file: described(file, () => schemaOf(fileMembers)),
  input_audio: sound,
})
const content = either('a string or an array of content parts', {
  string: anything,
  array: list(part),
})

/** A check that refuses the id of a file first: a part with an id lacks the members that `check` would ask for. */
function withoutFileId(check: Check): Check {
  const whole: Check = (value) =>
    isObject(value) && (value.file_id ?? undefined) !== undefined
      ? inside('file_id', noFileId(value.file_id)!)
      : check(value)
  return described(whole, () => schemaOf(check))
}

const definition = { name: filledText, description: text }
const functionTool = object({ ...definition, parameters: object({}), strict: boolean }, ['name'])
const customTool = object({ ...definition, format: object({}) }, ['name'])
const inNamespace = variant(
  'type',
  { function: functionTool, custom: customTool },
  { others: anything },
)
const tool = variant(
  'type',
  {
    function: functionTool,
    custom: customTool,
    namespace: object({ ...definition, tools: list(inNamespace) }, ['name', 'tools']),
  },
  { others: anything },
)
const named = object({ name: filledText }, ['name'])
const allowedTool = variant('type', { function: named, custom: named }, { others: anything })
const toolChoice = either('none, auto, required or an object', {
  string: oneOf(['none', 'auto', 'required']),
  object: variant(
    'type',
    {
      function: named,
      custom: named,
      allowed_tools: object({ mode: text, tools: list(allowedTool) }, ['mode', 'tools']),
    },
    { others: anything },
  ),
})

const called = { call_id: filledText, name: filledText, namespace: text }
const output = object({ call_id: filledText, output: content }, ['call_id', 'output'])
const anyOutput = object({ call_id: filledText })
const ownCall = object({ call_id: filledText }, ['call_id'])
const shownText = list(object({ text }))
const ROLES = ['user', 'system', 'developer', 'assistant']

const ITEMS = {
  message: object({ role: oneOf(ROLES), content }, ['role', 'content']),
  function_call: object({ ...called, arguments: text }, ['call_id', 'name', 'arguments']),
  function_call_output: output,
  custom_tool_call: object({ ...called, input: text }, ['call_id', 'name', 'input']),
  custom_tool_call_output: output,
  reasoning: object({ summary: shownText, content: shownText, encrypted_content: text }),
  agent_message: object({ content: either('a string or an array', agentContent()) }),
  additional_tools: object({ tools: list(tool) }, ['tools']),
  item_reference: object({ id: filledText }, ['id']),
  local_shell_call: ownCall,
  local_shell_call_output: anyOutput,
  shell_call: ownCall,
  shell_call_output: anyOutput,
  apply_patch_call: ownCall,
  apply_patch_call_output: anyOutput,
}
/** Items of other types are not checked, see {@link isDropped}. */
const item = variant('type', ITEMS, { absent: 'message', others: anything })

function agentContent() {
  return { string: anything, array: list(object({ text })) }
}

/** Whether an item of the history has no place in the normal form and can be left out: calls of tools that the vendor ran. */
export function isDropped(type: string): boolean {
  return /^(web_search|file_search|code_interpreter|image_generation|computer|tool_search|mcp)_/.test(
    type,
  )
}

/** Whether the words of an item belong to a conversation, or define tools; guards of conversations skip others. */
export function isOfConversation(type: string | null = 'message'): boolean {
  return type === null || Object.hasOwn(ITEMS, type) || type.startsWith('tool_search_')
}

const format = variant(
  'type',
  {
    text: anything,
    json_object: anything,
    json_schema: object(
      { name: filledText, schema: object({}), strict: boolean, description: text },
      ['name', 'schema'],
    ),
  },
  {},
)

export const input = either('a string or an array of items', {
  string: filledText,
  array: list(item, 1),
})

const members = {
  model: filledText,
  input,
  instructions: text,
  stream: boolean,
  temperature: number(0, 2),
  top_p: number(0, 1),
  presence_penalty: number(-2, 2),
  frequency_penalty: number(-2, 2),
  top_logprobs: integer(0, 20),
  max_output_tokens: integer(1, Number.MAX_SAFE_INTEGER),
  max_tool_calls: integer(),
  parallel_tool_calls: boolean,
  reasoning: object({ effort: text, summary: text }),
  text: object({ format, verbosity: text }),
  tools: list(tool),
  tool_choice: toolChoice,
  include: list(text),
  metadata: record(shortText(512)),
  user: text,
  safety_identifier: text,
  prompt_cache_key: text,
  session_id: sessionId,
  plugins,
}
export const MIN_OUTPUT_TOKENS = 16
export const responseBody = object(members, ['model', 'input'])

/** Members of the API that are read, or of no effect; all others only a vendor with this API understands. */
export const KNOWN_MEMBERS: ReadonlySet<string> = new Set([
  ...Object.keys(members),
  'policy',
  'store',
  'truncation',
  'service_tier',
  'stream_options',
  'background',
  'client_metadata',
  'access_programs',
])

/** Members that need a store of answers, and their values that do without it. */
const STATEFUL: Readonly<Record<string, string>> = {
  previous_response_id:
    'Responses are not stored here. Send the whole conversation in "input", with the reasoning items of earlier answers.',
  conversation:
    'Responses are not stored here. Send the whole conversation in "input", with the reasoning items of earlier answers.',
  background: 'Background responses are not offered. Use "stream": true.',
  prompt: 'Stored prompts are not offered. Send their text as "instructions" and "input".',
}
/** @throws InvalidRequest with the code and path of the first problem of a body */
export function checkBody(body: object, check: Check = responseBody): void {
  const members = body as Record<string, any>
  for (const [param, message] of Object.entries(STATEFUL)) {
    if ((members[param] ?? false) === false) continue
    throw new InvalidRequest('unsupported_parameter', message, { param })
  }
  const mistake = check(body)
  if (mistake) throw toInvalidRequest(mistake)
}
