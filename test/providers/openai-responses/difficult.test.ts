/** Every row of the table of difficult conversations, for the Responses API. */
import * as v from 'valibot'
import { expect, it } from 'vitest'
import azure from '../../../providers/azure.ts'
import openaiCompatible from '../../../providers/openai-compatible.ts'
import openai from '../../../providers/openai.ts'
import { setUp } from '../_chat.ts'
import { describeDifficult, type DifficultOptions } from '../_difficult.ts'
import { inputItem } from './_items.ts'

const words = v.string()
const name = v.pipe(words, v.regex(/^[a-zA-Z0-9_-]{1,64}$/))
const hashed = v.pipe(words, v.regex(/^[\da-f]{32}$/))
const tool = v.variant('type', [
  v.strictObject({
    type: v.literal('function'),
    name,
    description: v.optional(words),
    parameters: v.looseObject({}),
    strict: v.boolean(),
  }),
  v.strictObject({
    type: v.literal('custom'),
    name,
    description: v.optional(words),
    format: v.optional(
      v.variant('type', [
        v.strictObject({ type: v.literal('text') }),
        v.strictObject({
          type: v.literal('grammar'),
          syntax: v.picklist(['lark', 'regex']),
          definition: words,
        }),
      ]),
    ),
  }),
])
const named = v.strictObject({ type: v.picklist(['function', 'custom']), name })
const choice = v.union([
  v.picklist(['auto', 'none', 'required']),
  named,
  v.strictObject({
    type: v.literal('allowed_tools'),
    mode: v.picklist(['auto', 'required']),
    tools: v.array(named),
  }),
])
const format = v.variant('type', [
  v.strictObject({ type: v.picklist(['text', 'json_object']) }),
  v.strictObject({
    type: v.literal('json_schema'),
    name,
    schema: v.looseObject({}),
    strict: v.optional(v.boolean()),
    description: v.optional(words),
  }),
])
const body = v.strictObject({
  model: words,
  input: v.pipe(
    v.array(inputItem),
    v.minLength(1),
    v.check((all) => isAnswered(all), 'each call has an output of its kind'),
  ),
  store: v.literal(false),
  ...Object.fromEntries(
    Object.entries({
      include: v.array(v.picklist(['reasoning.encrypted_content'])),
      max_output_tokens: v.pipe(v.number(), v.minValue(16)),
      reasoning: v.strictObject({
        effort: v.optional(v.picklist(['none', 'low', 'medium', 'high', 'xhigh'])),
        summary: v.optional(v.picklist(['auto', 'concise', 'detailed'])),
      }),
      text: v.strictObject({
        format: v.optional(format),
        verbosity: v.optional(v.picklist(['low', 'medium', 'high'])),
      }),
      tools: v.pipe(v.array(tool), v.minLength(1)),
      tool_choice: choice,
      parallel_tool_calls: v.boolean(),
      metadata: v.record(words, words),
      safety_identifier: hashed,
      prompt_cache_key: hashed,
    }).map(([member, schema]) => [member, v.optional(schema)]),
  ),
})

function isAnswered(input: readonly any[]): boolean {
  return input.every(({ type, call_id }, i) => {
    if (type !== 'function_call' && type !== 'custom_tool_call') return true
    return input.some(
      (other, j) => j > i && other.call_id === call_id && other.type === `${type}_output`,
    )
  })
}

const refused: NonNullable<DifficultOptions['refused']> = {
  sound: ['unsupported_parameter', 'messages[0].content[1]'],
  'image of an assistant': ['unsupported_parameter', 'messages[1].content[1]'],
  'several answers': ['unsupported_parameter', 'n'],
}
const changed: NonNullable<DifficultOptions['changed']> = {
  'calls of tools with odd names': ['files.read', `files_${'x'.repeat(110)}`],
}
const options = { api: 'responses' }

describeDifficult(
  {
    title: 'difficult conversations with the Responses API of OpenAI',
    setUp: (baseURL, download) => setUp(openai, { baseURL, apiKey: 'k' }, download),
    model: 'gpt-5.4',
    options,
    schema: body,
    refused,
    changed,
  },
  (translate) => {
    it('fetches nothing, because the vendor takes addresses', async () => {
      for (const row of ['image at an address', 'PDF at an address'] as const) {
        const translation = await translate(row)
        expect(translation).toMatchObject({ downloads: [] })
        expect(JSON.stringify(translation)).toContain('https://files.example/')
      }
    })
  },
)

describeDifficult({
  title: 'difficult conversations with the Responses API of Azure',
  setUp: (baseURL, download) => setUp(azure, { baseURL, apiKey: 'k' }, download),
  model: 'gpt-5.4',
  options,
  schema: body,
  refused,
  changed,
})

describeDifficult({
  title: 'difficult conversations with the Responses API of a compatible vendor',
  setUp: (baseURL, download) => setUp(openaiCompatible, { baseURL, quirks: 'xai' }, download),
  model: 'gpt-5.4',
  options,
  schema: body,
  refused,
  changed,
})
