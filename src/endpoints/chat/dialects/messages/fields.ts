/** Checks of a body of Anthropic's Messages API. Members that only this vendor has are never refused. */
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
  quote,
  text,
  variant,
  wrong,
  type Check,
  type Problem,
  described,
  schemaOf,
} from '../../../../errors/checks.ts'
import { httpUrl, media, noFileStore, plugins, sessionId } from '../shared/fields.ts'

const EFFORTS = ['low', 'medium', 'high', 'xhigh', 'max']
const MIN_BUDGET = 1024

const data = media({ bare: true, url: false })

const base64 = object({ media_type: filledText, data }, ['media_type', 'data'])
const url = object({ url: httpUrl }, ['url'])
const noFileId = noFileStore('the content itself as base64 or text')
const file = described(
  (value) => inside('file_id', noFileId(value)!),
  () => schemaOf(noFileId),
)

const textBlock = object({ text }, ['text'])
const image = object({ source: variant('type', { base64, url, file }) }, ['source'])

const inDocument = either('a string or an array of blocks', {
  string: anything,
  array: list(variant('type', { text: textBlock, image })),
})
const document = object(
  {
    source: variant('type', {
      base64,
      url,
      file,
      text: object({ data: text }, ['data']),
      content: object({ content: inDocument }, ['content']),
    }),
    title: text,
    context: text,
  },
  ['source'],
)
const searchResult = object({ source: text, title: text, content: list(textBlock) }, [
  'source',
  'title',
  'content',
])
const readable = { text: textBlock, image, document, search_result: searchResult }

const unsupported: Check = (value) =>
  problem('unsupported_value', 'a type of block that is supported here', quote(typeOf(value)))

const toolReference = object({ tool_name: filledText }, ['tool_name'])
const toolResult = object(
  {
    tool_use_id: filledText,
    content: either('a string or an array of blocks', {
      string: anything,
      array: list(
        variant('type', { ...readable, tool_reference: toolReference }, { others: unsupported }),
      ),
    }),
    is_error: boolean,
  },
  ['tool_use_id'],
)
const userBlock = variant(
  'type',
  { ...readable, tool_result: toolResult },
  { others: (value) => (isVendorResult(typeOf(value)) ? undefined : unsupported(value)) },
)
const assistantBlock = variant(
  'type',
  {
    text: textBlock,
    thinking: object({ thinking: text, signature: text }, ['thinking']),
    redacted_thinking: object({ data: filledText }, ['data']),
    compaction: object({ content: text }),
    tool_use: object({ id: filledText, name: filledText, input: object({}) }, [
      'id',
      'name',
      'input',
    ]),
  },
  { others: (value) => (isVendorResult(typeOf(value)) ? undefined : unsupported(value)) },
)

export function isVendorResult(type: string): boolean {
  return /^(server_tool_use|mcp_tool_use)$|^(?!tool_result$).*_tool_result$/.test(type)
}

function typeOf(value: unknown): string {
  return isObject(value) && typeof value.type === 'string' ? value.type : ''
}

const content = (block: Check) =>
  either('a string or an array of blocks', { string: anything, array: list(block) })
const message = variant('role', {
  user: object({ content: content(userBlock) }, ['content']),
  assistant: object({ content: content(assistantBlock) }, ['content']),
  system: object({ content: content(variant('type', { text: textBlock })) }, ['content']),
})

const toolName = described(
  (value) => {
    if (typeof value === 'string' && /^[a-zA-Z0-9_-]{1,128}$/.test(value)) return undefined
    const expected = '1 to 128 letters, digits, underscores or dashes'
    return filledText(value) ?? wrong('invalid_value', value, expected)
  },
  () => ({ type: 'string', pattern: '^[a-zA-Z0-9_-]{1,128}$' }),
)
const clientTool = object(
  { name: toolName, description: text, input_schema: object({}), strict: boolean },
  ['name', 'input_schema'],
)
const tool = variant('type', { custom: clientTool }, { absent: 'custom', others: anything })
const parallel = { disable_parallel_tool_use: boolean }
const toolChoice = variant('type', {
  auto: object(parallel),
  any: object(parallel),
  tool: object({ name: filledText, ...parallel }, ['name']),
  none: anything,
})

const format = variant(
  'type',
  { json_schema: object({ schema: object({}) }, ['schema']) },
  { others: anything },
)
const thinking = variant(
  'type',
  { enabled: object({ budget_tokens: integer() }, ['budget_tokens']) },
  { others: anything },
)

const members = {
  model: filledText,
  messages: list(message, 1),
  system: content(variant('type', { text: textBlock })),
  max_tokens: integer(1, Number.MAX_SAFE_INTEGER),
  stream: boolean,
  temperature: number(0, 1),
  top_p: number(0, 1),
  top_k: number(),
  stop_sequences: list(text),
  tools: list(tool),
  tool_choice: toolChoice,
  thinking,
  output_config: object({ effort: oneOf(EFFORTS), format }),
  output_format: format,
  cache_control: object({}),
  metadata: object({ user_id: text }),
  session_id: sessionId,
  plugins,
}
/** Bodies of messages, and of requests to count one; contradictions between members are checked apart. */
export const messageBody = object(members, ['model', 'messages', 'max_tokens'])
export const countedBody = object(members, ['model', 'messages'])

/** Members of the API that are read, or of no effect; all others only a vendor with this API understands. */
export const KNOWN_MEMBERS: ReadonlySet<string> = new Set([
  ...Object.keys(members),
  'policy',
  'service_tier',
  'speed',
  'inference_geo',
])

/** @param counting whether the tokens are to be counted, and no answer is wanted */
export function findProblem(body: object, counting: boolean): Problem | undefined {
  const mistake = (counting ? countedBody : messageBody)(body)
  if (mistake) return mistake
  const { thinking: wanted, max_tokens: limit } = body as Record<string, any>
  if (wanted?.type !== 'enabled') return undefined
  const budget: number = wanted.budget_tokens
  const tooLarge = typeof limit === 'number' && budget >= limit
  if (budget >= MIN_BUDGET && !tooLarge) return undefined
  const expected = `an integer of at least ${MIN_BUDGET} and below max_tokens`
  return inside('thinking', inside('budget_tokens', wrong('invalid_value', budget, expected)))
}
