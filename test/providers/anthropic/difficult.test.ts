/** The difficult conversations, as Anthropic gets them. */
import { expect, it } from 'vitest'
import anthropic from '../../../providers/anthropic.ts'
import { setUp } from '../_chat.ts'
import { testAnyConversation } from '../_conversations.ts'
import { describeDifficult, type ConversationName, type DifficultOptions } from '../_difficult.ts'
import { messagesRequest } from './_wire.ts'

const REFUSED = {
  'result for a call that was never made': ['invalid_value', 'messages[2].tool_call_id'],
  'second result for a call': ['invalid_value', 'messages[3].tool_call_id'],
  'result of a function that was never called': ['invalid_value', 'messages[1].name'],
  'image that is no image': ['invalid_image', 'messages[0].content[1].image_url.url'],
  'image of an assistant': ['unsupported_value', 'messages[1].content[1]'],
  'image in a system message': ['unsupported_value', 'messages[0].content[1]'],
  'file of a type that is not read': ['invalid_document', 'messages[0].content[1].file.file_data'],
  sound: ['unsupported_value', 'messages[0].content[1]'],
  'answer under a strict schema with a map': ['invalid_value', 'response_format'],
  'several answers': ['unsupported_parameter', 'n'],
} satisfies DifficultOptions['refused']

const COMMON = {
  setUp: (url, download) =>
    setUp(anthropic, { apiKey: 'sk-ant-test', baseURL: `${url}/v1` }, download),
  schema: messagesRequest,
  // Names as the vendor takes them.
  changed: { 'calls of tools with odd names': ['files.read'] },
} satisfies Partial<DifficultOptions>

const user = (...content: readonly unknown[]) => ({ role: 'user', content })
const assistant = (...content: readonly unknown[]) => ({ role: 'assistant', content })
const text = (words: string) => ({ type: 'text', text: words })
const weather = (id = 'call_1') => ({
  type: 'tool_use',
  id,
  name: 'weather',
  input: { city: 'Oslo' },
})
const time = (id = 'call_2') => ({ ...weather(id), name: 'time' })
const result = (id: string, content: string) => ({ type: 'tool_result', tool_use_id: id, content })
const missing = (id: string) => ({ ...result(id, '(no result)'), is_error: true })

/** The conversation that becomes of a row, for every model. */
const TURNS: Partial<Record<ConversationName, readonly unknown[]>> = {
  'only a system message': [user(text('(The conversation begins.)'))],
  'assistant first': [
    user(text('(The conversation begins.)')),
    assistant(text('Welcome.')),
    user(text('Hello?')),
  ],
  'two user messages': [user(text('One.'), text('Two.'))],
  'begun answer with a space at its end': [user(text('A poem.')), assistant(text('Roses are'))],
  'blank user message in the middle': [
    user(text('One.')),
    assistant(text('Two.'), text('Three.')),
    user(text('Four?')),
  ],
  'blank last user message': [user(text('One.')), assistant(text('Two.')), user(text('(empty)'))],
  'last user message of empty parts': [
    user(text('One.')),
    assistant(text('Two.')),
    user(text('(empty)')),
  ],
  'only a blank user message': [user(text('(empty)'))],
  'blank answer': [user(text('One.'), text('Two?'))],
  'two calls at once': [
    user(text('Both?')),
    assistant(weather(), time()),
    user(result('call_1', 'Rain.'), result('call_2', 'Noon.')),
  ],
  'call without a result': [
    user(text('Both?')),
    assistant(weather(), time()),
    user(result('call_2', 'Noon.'), missing('call_1'), text('Go on.')),
  ],
  'calls without any result': [
    user(text('Both?')),
    assistant(weather(), time()),
    user(missing('call_1'), missing('call_2'), text('Never mind.')),
  ],
  'call at the end': [user(text('Weather?')), assistant(weather()), user(missing('call_1'))],
  'empty result': [
    user(text('Weather?')),
    assistant(weather()),
    user({ type: 'tool_result', tool_use_id: 'call_1' }),
  ],
  'result in parts': [
    user(text('Weather?')),
    assistant(weather()),
    user({
      type: 'tool_result',
      tool_use_id: 'call_1',
      content: [text('Rain.'), text('Wind.')],
    }),
  ],
  'failed result': [
    user(text('Weather?')),
    assistant(weather()),
    user({ ...result('call_1', 'No network.'), is_error: true }),
  ],
  'the same id twice': [
    user(text('Weather?')),
    assistant(weather()),
    user(result('call_1', 'Rain.')),
    assistant(weather('call_1_2')),
    user(result('call_1_2', 'Sun.')),
  ],
  'reasoning of several vendors': [
    user(text('One.')),
    assistant({ type: 'thinking', thinking: 'Claude.', signature: 'c2ln' }, text('Two.')),
    user(text('Three.')),
    assistant(text('Four.')),
    user(text('Five.')),
    assistant(text('Six.')),
    user(text('Seven?')),
  ],
  'call of a custom tool': [
    user(text('Patch it.')),
    assistant({
      type: 'tool_use',
      id: 'call_1',
      name: 'patch',
      input: { input: '*** "quoted"\n' },
    }),
    user(result('call_1', 'Done.')),
  ],
  'PDF at an address': [
    user(text('What is it?'), {
      type: 'document',
      source: { type: 'url', url: 'https://files.example/paper.pdf' },
      title: 'paper.pdf',
    }),
  ],
  'PDF as bare base64 without a name': [
    user(text('What is it?'), {
      type: 'document',
      source: { type: 'base64', media_type: 'application/pdf', data: 'JVBERi0xLjQKJSVFT0YK' },
    }),
  ],
  'text file as bare base64': [
    user(text('What is it?'), {
      type: 'document',
      source: { type: 'text', media_type: 'text/plain', data: 'Hello.' },
      title: 'note.txt',
    }),
  ],
}

/** Other members of the body. */
type Members = Partial<Record<ConversationName, object>>

const ANY = { type: 'any' }

function describeModel(model: string, refused: DifficultOptions['refused'], members: Members) {
  const options = { title: `difficult conversations for ${model}`, model, refused, ...COMMON }
  describeDifficult(options, (translate) => {
    it.each(Object.entries(TURNS))('turns of: %s', async (name, turns) => {
      expect(await translate(name as ConversationName)).toMatchObject({ body: { messages: turns } })
    })

    it.each(Object.entries(members))('body of: %s', async (name, expected) => {
      expect(await translate(name as ConversationName)).toMatchObject({ body: expected })
    })
  })
}

/** What models with strict tools refuse besides. */
const NEW = {
  ...REFUSED,
  'strict tool with a map': ['invalid_value', 'tools[0].function.parameters'],
} satisfies DifficultOptions['refused']

const SYSTEM_AS_USER: Members = {
  'system message in the middle': {
    system: [text('Be brief.')],
    messages: [
      user(text('Hello?'), text('Answer in French.')),
      assistant(text('Bonjour.')),
      user(text('And now?')),
    ],
  },
  'system message before a user message': {
    messages: [
      user(text('Hello?')),
      assistant(text('Hi.')),
      user(text('Answer in French.'), text('And now?')),
    ],
  },
}

describeModel('claude-opus-5', NEW, {
  'system message in the middle': {
    system: [text('Be brief.')],
    messages: [
      user(text('Hello?')),
      { role: 'system', content: [text('Answer in French.')] },
      assistant(text('Bonjour.')),
      user(text('And now?')),
    ],
  },
  'system message before a user message': SYSTEM_AS_USER['system message before a user message']!,
  'system messages at the end': {
    messages: [
      user(text('Hello?')),
      { role: 'system', content: [text('Answer in French.'), text('Be kind.')] },
    ],
  },
  'system message after a tool result': {
    messages: [
      user(text('Weather?')),
      assistant(weather()),
      user(result('call_1', 'Rain.')),
      { role: 'system', content: [text('Answer in French.')] },
    ],
  },
  'tool choice required, with reasoning': {
    thinking: { type: 'disabled' },
    tool_choice: ANY,
  },
  'allowed tools': { tools: [{ name: 'weather' }], tool_choice: { type: 'auto' } },
  'allowed tools, required': { tools: [{ name: 'weather' }], tool_choice: ANY },
  'calls of tools that are no longer offered': {
    tools: [{ name: 'weather', input_schema: { type: 'object', properties: {} } }],
    tool_choice: { type: 'none' },
  },
  'answer under a loose schema with a map': {
    tools: [
      {
        name: 'final_answer',
        input_schema: { properties: { prices: { additionalProperties: { type: 'number' } } } },
      },
    ],
    tool_choice: { type: 'any', disable_parallel_tool_use: true },
  },
  'custom tool with a grammar': {
    tools: [
      { name: 'weather' },
      {
        name: 'patch',
        description: 'Applies patch.\n\nThe input has to follow this grammar (lark):\nstart: "a"+',
        input_schema: { required: ['input'] },
      },
    ],
  },
  'custom tool chosen': { tool_choice: { type: 'tool', name: 'patch' } },
  'one stop': { stop_sequences: ['END'] },
  'four stops, some blank': { stop_sequences: ['END', 'STOP'] },
  'cache markers': {
    system: [{ text: 'One.', cache_control: { ttl: '1h' } }, { text: 'Two.' }],
  },
})

describeModel('claude-sonnet-4-5', NEW, {
  ...SYSTEM_AS_USER,
  'tool choice required, with reasoning': { tool_choice: ANY },
  'reasoning in a step of calls whose reasoning is lost': { max_tokens: 64_000 },
})

const NOT_FORCED = ['unsupported_parameter', 'tool_choice'] as const

describeModel(
  'claude-opus-5-5',
  {
    ...NEW,
    'tool choice required': NOT_FORCED,
    'tool chosen by name': NOT_FORCED,
    'allowed tools, required': NOT_FORCED,
    'tool choice required, with reasoning': NOT_FORCED,
    'tool choice required, with a budget of reasoning': NOT_FORCED,
    'custom tool chosen': NOT_FORCED,
    'earlier function chosen': NOT_FORCED,
  },
  {},
)

describeModel('claude-3-5-haiku-latest', REFUSED, SYSTEM_AS_USER)

const options = (baseURL: string) => ({ apiKey: 'test', baseURL })
testAnyConversation({ plugin: anthropic, options, model: 'claude-opus-5', schema: messagesRequest })
testAnyConversation({
  plugin: anthropic,
  options,
  model: 'claude-sonnet-4-5',
  schema: messagesRequest,
})
