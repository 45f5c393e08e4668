/**
 * What each event of the Messages API and of the Responses API has, where the gateway has written it. Members that are not named
 * here may be there.
 */
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'vitest'

/** Who has written the events of a stream: those of a vendor with the client's form pass as they came. */
export type Writer = 'gateway' | 'vendor'

type Schema = Readonly<Record<string, unknown>>

const text = { type: 'string' }
const filled = { type: 'string', minLength: 1 }
const empty = { const: '' }
const count = { type: 'integer', minimum: 0 }
const orNull = (type: string) => ({ type: [type, 'null'] })
const list = (items: Schema) => ({ type: 'array', items })

/** An object with these members, of which those with a question mark may be absent. */
function having(members: Readonly<Record<string, Schema>>): Schema {
  const names = Object.keys(members)
  return {
    type: 'object',
    required: names.filter((name) => !name.endsWith('?')),
    properties: Object.fromEntries(
      Object.entries(members).map(([name, one]) => [name.replace('?', ''), one]),
    ),
  }
}

/** One of several objects, told apart by `type`. */
function byType(kinds: Readonly<Record<string, Readonly<Record<string, Schema>>>>): Schema {
  return {
    oneOf: Object.entries(kinds).map(([type, members]) =>
      having({ type: { const: type }, ...members }),
    ),
  }
}

const EMPTY_BLOCK = byType({
  text: { text: empty },
  thinking: { thinking: empty, signature: empty },
  redacted_thinking: { data: filled },
  tool_use: {
    id: { type: 'string', pattern: '^[a-zA-Z0-9_-]+$' },
    name: filled,
    input: { type: 'object', maxProperties: 0 },
  },
})
const BLOCK_DELTA = byType({
  text_delta: { text: filled },
  thinking_delta: { thinking: filled },
  signature_delta: { signature: filled },
  input_json_delta: { partial_json: text },
  citations_delta: { citation: having({ type: filled }) },
})

/** The schemas of the events of Messages, by their type. */
const MESSAGES: Readonly<Record<string, Schema>> = {
  message_start: having({
    message: having({
      id: { type: 'string', pattern: '^msg_.+' },
      type: { const: 'message' },
      role: { const: 'assistant' },
      model: filled,
      content: { type: 'array', maxItems: 0 },
      stop_reason: { type: 'null' },
      stop_sequence: { type: 'null' },
      usage: having({ input_tokens: { ...count, minimum: 1 }, output_tokens: count }),
    }),
  }),
  ping: having({}),
  content_block_start: having({ index: count, content_block: EMPTY_BLOCK }),
  content_block_delta: having({ index: count, delta: BLOCK_DELTA }),
  content_block_stop: having({ index: count }),
  message_delta: having({
    delta: having({
      stop_reason: filled,
      stop_sequence: orNull('string'),
      'stop_details?': orNull('object'),
    }),
    usage: { $ref: 'urn:gateway:wire:message#/properties/usage' },
    'guard?': { $ref: 'urn:gateway:wire:message#/properties/guard' },
  }),
  message_stop: having({}),
  error: { $ref: 'urn:gateway:wire:message-error' },
}

const status = { enum: ['in_progress', 'completed', 'incomplete'] }
const logprobs = list(having({ token: text, logprob: { type: 'number' } }))
const part = byType({
  output_text: { text, annotations: list(having({ type: filled })), logprobs },
  refusal: { refusal: text },
})
const summary = byType({ summary_text: { text } })
const call = { call_id: filled, name: filled, status, 'namespace?': text }
const item = {
  allOf: [
    having({ id: filled }),
    byType({
      message: { role: { const: 'assistant' }, status, content: list(part) },
      function_call: { ...call, arguments: text },
      custom_tool_call: { ...call, input: text },
      reasoning: { summary: list(summary), 'encrypted_content?': filled },
    }),
  ],
}
const ofItem = { output_index: count, item_id: filled }
const ofPart = { ...ofItem, content_index: count }
const ofSummary = { ...ofItem, summary_index: count }
const ofResponse = having({ response: { $ref: 'urn:gateway:wire:response' } })

/** The schemas of the events of Responses, by their type without `response.`. */
const RESPONSES: Readonly<Record<string, Schema>> = {
  created: ofResponse,
  in_progress: ofResponse,
  completed: ofResponse,
  incomplete: ofResponse,
  failed: ofResponse,
  'output_item.added': having({ output_index: count, item }),
  'output_item.done': having({ output_index: count, item }),
  'content_part.added': having({ ...ofPart, part }),
  'content_part.done': having({ ...ofPart, part }),
  'output_text.delta': having({ ...ofPart, delta: filled, logprobs }),
  'output_text.done': having({ ...ofPart, text, logprobs }),
  'output_text.annotation.added': having({
    ...ofPart,
    annotation_index: count,
    annotation: having({ type: filled }),
  }),
  'refusal.delta': having({ ...ofPart, delta: filled }),
  'refusal.done': having({ ...ofPart, refusal: filled }),
  'function_call_arguments.delta': having({ ...ofItem, delta: filled }),
  'function_call_arguments.done': having({ ...ofItem, arguments: text, name: filled }),
  'custom_tool_call_input.delta': having({ ...ofItem, delta: filled, call_id: filled }),
  'custom_tool_call_input.done': having({ ...ofItem, input: text }),
  'reasoning_summary_part.added': having({ ...ofSummary, part: summary }),
  'reasoning_summary_part.done': having({ ...ofSummary, part: summary }),
  'reasoning_summary_text.delta': having({ ...ofSummary, delta: filled }),
  'reasoning_summary_text.done': having({ ...ofSummary, text }),
}

const ajv = new Ajv2020({ strict: false })
for (const name of ['message', 'message-error', 'response']) {
  const file = join(import.meta.dirname, '../../../wire/schemas', `${name}.json`)
  ajv.addSchema(JSON.parse(readFileSync(file, 'utf8')))
}

function checksOf(schemas: Readonly<Record<string, Schema>>): (event: any, name: string) => void {
  const compiled = new Map<string, ValidateFunction>()
  return (event, name) => {
    if (!Object.hasOwn(schemas, name)) throw new Error(`an unknown event: ${name}`)
    const check = compiled.get(name) ?? ajv.compile(schemas[name]!)
    compiled.set(name, check)
    if (check(event)) return
    expect.fail(`${ajv.errorsText(check.errors)} in ${JSON.stringify(event)}`)
  }
}

const isOfMessages = checksOf(MESSAGES)
const isOfResponses = checksOf(RESPONSES)

/** Checks an event of the Messages API. */
export function expectMessageEvent(event: any): void {
  isOfMessages(event, event.type)
}

/** Checks an event of the Responses API. */
export function expectResponseEvent(event: any): void {
  isOfResponses(event, event.type.replace(/^response\./, ''))
}
