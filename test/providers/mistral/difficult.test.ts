/** Every row of the table of difficult conversations, for Mistral. */
import * as v from 'valibot'
import { expect, it } from 'vitest'
import mistral from '../../../providers/mistral.ts'
import openaiCompatible from '../../../providers/openai-compatible.ts'
import { setUp } from '../_chat.ts'
import { testAnyConversation } from '../_conversations.ts'
import { describeDifficult, type DifficultOptions } from '../_difficult.ts'
import { image, JSON_OR_SCHEMA, OLDER_LIMIT, PENALTIES } from '../openai-compatible/_forms.ts'

const text = v.strictObject({ type: v.literal('text'), text: v.string() })
const document = v.strictObject({
  type: v.literal('document_url'),
  document_url: v.pipe(v.string(), v.regex(/^(https:|data:[\w.+-]+\/[\w.+-]+;base64,)/)),
  document_name: v.optional(v.string()),
})
const sound = v.strictObject({
  type: v.literal('input_audio'),
  input_audio: v.pipe(v.string(), v.base64()),
})
const thinking = v.strictObject({
  type: v.literal('thinking'),
  thinking: v.array(text),
  signature: v.optional(v.string()),
})
const filled = v.pipe(v.string(), v.nonEmpty())
const content = (...parts: readonly v.GenericSchema[]) =>
  v.union([v.string(), v.pipe(v.array(v.union([text, ...parts])), v.minLength(1))])
const id = v.pipe(v.string(), v.regex(/^[a-zA-Z0-9]{9}$/))
const name = v.pipe(v.string(), v.regex(/^[a-zA-Z0-9_-]{1,64}$/))
const call = v.strictObject({
  id,
  type: v.literal('function'),
  function: v.strictObject({ name, arguments: v.string() }),
})
const message = v.variant('role', [
  v.strictObject({ role: v.literal('system'), content: content() }),
  v.strictObject({
    role: v.literal('user'),
    content: v.union([
      filled,
      v.pipe(v.array(v.union([text, image, document, sound])), v.minLength(1)),
    ]),
  }),
  v.pipe(
    v.strictObject({
      role: v.literal('assistant'),
      content: v.optional(v.nullable(content(thinking))),
      tool_calls: v.optional(v.pipe(v.array(call), v.minLength(1))),
      prefix: v.optional(v.literal(true)),
    }),
    v.check(
      ({ content: said, tool_calls }) => Boolean(said || tool_calls),
      'an answer has text or calls',
    ),
  ),
  v.strictObject({ role: v.literal('tool'), content: v.string(), tool_call_id: id, name }),
])
const fn = v.strictObject({
  name,
  description: v.optional(v.string()),
  strict: v.optional(v.boolean()),
  parameters: v.looseObject({ type: v.literal('object') }),
})
const body = v.strictObject({
  model: v.string(),
  messages: v.pipe(
    v.array(message),
    v.minLength(1),
    v.check(
      (all) => all.every(mayFollow),
      'after a tool message comes a tool message or an answer',
    ),
    v.check((all) => all.every(isAnswered), 'as many results as calls, directly after them'),
    v.check(
      (all) => endsWell(all),
      'the last message is of the user, of a tool, or an answer with prefix',
    ),
  ),
  ...Object.fromEntries(
    Object.entries({
      ...OLDER_LIMIT,
      ...PENALTIES,
      temperature: v.pipe(v.number(), v.maxValue(1.5)),
      top_p: v.number(),
      stop: v.union([v.string(), v.array(v.string())]),
      random_seed: v.number(),
      n: v.number(),
      stream: v.boolean(),
      tools: v.array(v.strictObject({ type: v.literal('function'), function: fn })),
      tool_choice: v.union([
        v.picklist(['auto', 'none', 'any', 'required']),
        v.strictObject({ type: v.literal('function'), function: v.strictObject({ name }) }),
      ]),
      parallel_tool_calls: v.boolean(),
      response_format: JSON_OR_SCHEMA,
      reasoning_effort: v.picklist(['none', 'high']),
      prediction: v.strictObject({ type: v.literal('content'), content: v.string() }),
    }).map(([member, schema]) => [member, v.optional(schema)]),
  ),
})

function mayFollow({ role }: any, i: number, all: readonly any[]): boolean {
  return all[i - 1]?.role !== 'tool' || role === 'tool' || role === 'assistant'
}

function isAnswered({ tool_calls = [] }: any, i: number, all: readonly any[]): boolean {
  if (tool_calls.length === 0) return true
  const end = all.findIndex(({ role }, j) => j > i && role !== 'tool')
  const results = all.slice(i + 1, end < 0 ? undefined : end).map((one) => one.tool_call_id)
  const ids = tool_calls.map((one: any) => one.id)
  return results.toSorted().join() === ids.toSorted().join()
}

function endsWell(all: readonly any[]): boolean {
  const { role, prefix } = all.at(-1)
  return role === 'user' || role === 'tool' || prefix === true
}

const LONG_NAME = `files_${'x'.repeat(110)}`
const refused: NonNullable<DifficultOptions['refused']> = {
  'result for a call that was never made': ['invalid_value', 'messages[2].tool_call_id'],
  'result of a function that was never called': ['invalid_value', 'messages[1].name'],
  'image as the result of a call': ['unsupported_parameter', 'messages[2].content[1]'],
  'only an image as the result of a call': ['unsupported_parameter', 'messages[2].content[0]'],
  'PDF as the result of a call': ['unsupported_parameter', 'messages[2].content[0]'],
  'image of an assistant': ['unsupported_parameter', 'messages[1].content[1]'],
  'image in a system message': ['unsupported_parameter', 'messages[0].content[1]'],
  'log probabilities': ['unsupported_parameter', 'logprobs'],
}
const changed: NonNullable<DifficultOptions['changed']> = {
  'calls of tools with odd names': ['files.read', LONG_NAME],
  'call of a custom tool': ['*** "quoted"'],
}

describeDifficult(
  {
    title: 'difficult conversations with mistral',
    setUp: (baseURL, download) => setUp(mistral, { baseURL, apiKey: 'k' }, download),
    model: 'mistral-medium-latest',
    schema: body,
    refused,
    changed,
  },
  (translate) => {
    const messagesOf = async (conversation: Parameters<typeof translate>[0]): Promise<any[]> => {
      const translation = await translate(conversation)
      if ('refusal' in translation) throw new Error(translation.refusal.message)
      return translation.body.messages
    }

    it('has an answer between the results and the next message', async () => {
      const messages = await messagesOf('result and a question')
      expect(messages.slice(-2)).toEqual([
        { role: 'assistant', content: '(The results are in.)' },
        { role: 'user', content: 'And tomorrow?' },
      ])
      const after = await messagesOf('system message after a tool result')
      expect(after.map(({ role }) => role)).toEqual([
        'user',
        'assistant',
        'tool',
        'assistant',
        'user',
      ])
    })

    it('has a result for each call', async () => {
      const messages = await messagesOf('call without a result')
      expect(messages.slice(2, 4).map((one) => one.content)).toEqual(['Noon.', '(no result)'])
      const twice = await messagesOf('second result for a call')
      expect(twice.at(-1)).toMatchObject({ role: 'tool', content: 'Rain.\nSun.' })
      const parts = await messagesOf('result in parts')
      expect(parts.at(-1)).toMatchObject({ content: 'Rain.\nWind.' })
    })

    it('has earlier functions as tools', async () => {
      const messages = await messagesOf('earlier functions')
      const [call] = messages[1].tool_calls
      expect(messages[2]).toEqual({
        role: 'tool',
        tool_call_id: call.id,
        name: 'weather',
        content: 'Rain.',
      })
    })

    it('has no blank messages, and ends with the user', async () => {
      expect((await messagesOf('blank last user message')).at(-1)).toEqual({
        role: 'user',
        content: '(empty)',
      })
      expect((await messagesOf('last user message of empty parts')).at(-1).content).toBe('(empty)')
      expect(await messagesOf('only a system message')).toEqual([
        { role: 'user', content: 'Tell a joke.' },
      ])
      expect(await messagesOf('blank answer')).toEqual([
        { role: 'user', content: 'One.' },
        { role: 'user', content: 'Two?' },
      ])
      expect((await messagesOf('begun answer')).at(-1)).toMatchObject({ prefix: true })
    })

    it('has documents, at addresses too, and sound as base64', async () => {
      const at = async (conversation: Parameters<typeof translate>[0]) =>
        (await messagesOf(conversation))[0].content[1]
      expect(await at('PDF at an address')).toEqual({
        type: 'document_url',
        document_url: 'https://files.example/paper.pdf',
        document_name: 'paper.pdf',
      })
      expect((await at('PDF as bare base64 without a name')).document_url).toMatch(
        /^data:application\/pdf;base64,JVBER/,
      )
    })

    it('asks for JSON in words where no message does', async () => {
      expect((await messagesOf('answer as any JSON'))[0]).toEqual({
        role: 'system',
        content: 'Answer with one JSON object.',
      })
      expect(await messagesOf('answer under a strict schema')).toHaveLength(1)
    })
  },
)

describeDifficult({
  title: 'difficult conversations with a model of Mistral on a server',
  setUp: (baseURL, download) => setUp(openaiCompatible, { baseURL, quirks: 'vllm' }, download),
  model: 'mistral-small',
  options: { bridgeTools: true },
  schema: v.looseObject({
    messages: v.pipe(
      v.array(v.looseObject({ role: v.string() })),
      v.check((all) => all.every(mayFollow), 'after a tool message comes no user message'),
    ),
  }),
  changed,
})

testAnyConversation({
  plugin: mistral,
  options: (baseURL) => ({ baseURL, apiKey: 'k' }),
  model: 'mistral-medium-latest',
  schema: body,
})
