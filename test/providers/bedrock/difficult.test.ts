/** The difficult conversations, as models at Amazon Bedrock get them. */
import { expect, it } from 'vitest'
import bedrock from '../../../providers/bedrock.ts'
import { setUp } from '../_chat.ts'
import { testAnyConversation } from '../_conversations.ts'
import { describeDifficult, type ConversationName, type DifficultOptions } from '../_difficult.ts'
import { claudeRequest, converseRequest, novaRequest } from './_wire.ts'

const REFUSED = {
  'result for a call that was never made': ['invalid_value', 'messages[2].tool_call_id'],
  'second result for a call': ['invalid_value', 'messages[3].tool_call_id'],
  'result of a function that was never called': ['invalid_value', 'messages[1].name'],
  'image that is no image': ['invalid_image', 'messages[0].content[1].image_url.url'],
  'image of an assistant': ['unsupported_value', 'messages[1].content[1]'],
  'image in a system message': ['unsupported_value', 'messages[0].content[1]'],
  'file of a type that is not read': ['invalid_document', 'messages[0].content[1].file.file_data'],
  'answer under a strict schema with a map': ['invalid_value', 'response_format'],
  'several answers': ['unsupported_parameter', 'n'],
} satisfies DifficultOptions['refused']

const NOT_FORCED = ['unsupported_parameter', 'tool_choice'] as const

/** What models refuse that cannot be made to call a tool. */
const CHOOSING = {
  'tool choice required': NOT_FORCED,
  'tool chosen by name': NOT_FORCED,
  'allowed tools, required': NOT_FORCED,
  'tool choice required, with reasoning': NOT_FORCED,
  'tool choice required, with a budget of reasoning': NOT_FORCED,
  'custom tool chosen': NOT_FORCED,
  'earlier function chosen': NOT_FORCED,
} satisfies DifficultOptions['refused']

/** What models with strict tools refuse. */
const STRICT = {
  'strict tool with a map': ['invalid_value', 'tools[0].function.parameters'],
} satisfies DifficultOptions['refused']

const user = (...content: readonly unknown[]) => ({ role: 'user', content })
const assistant = (...content: readonly unknown[]) => ({ role: 'assistant', content })
const text = (words: string) => ({ text: words })
const weather = { toolUse: { toolUseId: 'call_1', name: 'weather', input: { city: 'Oslo' } } }
const time = { toolUse: { toolUseId: 'call_2', name: 'time', input: { city: 'Oslo' } } }
const result = (toolUseId: string, words: string) => ({
  toolResult: { toolUseId, content: [text(words)] },
})
const missing = (toolUseId: string) => ({
  toolResult: { toolUseId, content: [text('(no result)')], status: 'error' },
})

type Members = Partial<Record<ConversationName, object>>

/** What becomes of a row for every model. */
const COMMON: Members = {
  'only a system message': { messages: [user(text('(The conversation begins.)'))] },
  'blank last user message': {
    messages: [user(text('One.')), assistant(text('Two.')), user(text('(empty)'))],
  },
  'last user message of empty parts': {
    messages: [user(text('One.')), assistant(text('Two.')), user(text('(empty)'))],
  },
  'begun answer with a space at its end': {
    messages: [user(text('A poem.')), assistant(text('Roses are'))],
  },
  'blank user message in the middle': {
    messages: [user(text('One.')), assistant(text('Two.'), text('Three.')), user(text('Four?'))],
  },
  'empty result': {
    messages: [user(text('Weather?')), assistant(weather), user(result('call_1', '(empty)'))],
  },
  'blank result': {
    messages: [user(text('Weather?')), assistant(weather), user(result('call_1', '(empty)'))],
  },
  'result of empty parts': {
    messages: [user(text('Weather?')), assistant(weather), user(result('call_1', '(empty)'))],
  },
  'results out of order': {
    messages: [
      user(text('Both?')),
      assistant(weather, time),
      user(result('call_2', 'Noon.'), result('call_1', 'Rain.')),
    ],
  },
  'call at the end': {
    messages: [user(text('Weather?')), assistant(weather), user(missing('call_1'))],
  },
  'failed result': {
    messages: [
      user(text('Weather?')),
      assistant(weather),
      user({
        toolResult: { toolUseId: 'call_1', content: [text('No network.')], status: 'error' },
      }),
    ],
  },
  'calls of tools that are no longer offered': {
    toolConfig: {
      tools: [
        {
          toolSpec: {
            name: 'weather',
            inputSchema: { json: { type: 'object', properties: {} } },
          },
        },
      ],
    },
  },
  'PDF at an address without an extension': {
    messages: [user(text('What is it?'), { document: { format: 'pdf', name: 'doc-1' } })],
  },
  'PDF as bare base64 without a name': {
    messages: [user(text('What is it?'), { document: { format: 'pdf', name: 'doc-1' } })],
  },
  'image at an address': { messages: [user(text('What is it?'), { image: { format: 'png' } })] },
  'text file as bare base64': {
    messages: [user(text('What is it?'), { document: { format: 'txt', name: 'doc-1' } })],
  },
  'allowed tools': {
    toolConfig: { tools: [{ toolSpec: { name: 'weather' } }], toolChoice: { auto: {} } },
  },
}

/** Results and what the user says next, in one turn. */
const TOGETHER: Members = {
  'call without a result': {
    messages: [
      user(text('Both?')),
      assistant(weather, time),
      user(result('call_2', 'Noon.'), missing('call_1'), text('Go on.')),
    ],
  },
  'system message after a tool result': {
    messages: [
      user(text('Weather?')),
      assistant(weather),
      user(result('call_1', 'Rain.'), text('Answer in French.')),
    ],
  },
}

function describeModel(
  model: string,
  options: Pick<DifficultOptions, 'schema'> & Partial<DifficultOptions>,
  members: Members,
): void {
  const common: DifficultOptions = {
    title: `difficult conversations for ${model}`,
    model,
    setUp: (url, download) =>
      setUp(bedrock, { region: 'eu-central-1', apiKey: 'test', baseURL: url }, download),
    refused: REFUSED,
    // Names as Converse takes them.
    changed: { 'calls of tools with odd names': ['files.read', `files_${'x'.repeat(110)}`] },
    ...options,
  }
  describeDifficult(common, (translate) => {
    it.each(Object.entries({ ...COMMON, ...members }))('body of: %s', async (name, expected) => {
      expect(await translate(name as ConversationName)).toMatchObject({ body: expected })
    })

    it('fetches what has an address, once', async () => {
      const downloads = ['https://files.example/paper.pdf']
      expect(await translate('PDF at an address')).toMatchObject({ downloads })
    })
  })
}

describeModel(
  'anthropic.claude-sonnet-4-5-20250929-v1:0',
  { schema: claudeRequest, refused: { ...REFUSED, ...STRICT } },
  {
    ...TOGETHER,
    'tool choice required, with reasoning': { toolConfig: { toolChoice: { any: {} } } },
    'tool choice required, with a budget of reasoning': {
      toolConfig: { toolChoice: { any: {} } },
    },
    'four stops, some blank': { inferenceConfig: { stopSequences: ['END', 'STOP'] } },
    'reasoning of several vendors': {
      messages: [
        user(text('One.')),
        assistant(
          { reasoningContent: { reasoningText: { text: 'Claude.', signature: 'c2ln' } } },
          text('Two.'),
        ),
        user(text('Three.')),
        assistant(text('Four.')),
        user(text('Five.')),
        assistant(text('Six.')),
        user(text('Seven?')),
      ],
    },
    'answer under a loose schema with a map': {
      toolConfig: {
        tools: [
          {
            toolSpec: {
              name: 'json_answer',
              inputSchema: {
                json: { properties: { prices: { additionalProperties: { type: 'number' } } } },
              },
            },
          },
        ],
        toolChoice: { tool: { name: 'json_answer' } },
      },
    },
    'cache markers': {
      system: [text('One.'), { cachePoint: { type: 'default', ttl: '1h' } }, text('Two.')],
    },
  },
)

describeModel(
  'anthropic.claude-opus-5-5',
  { schema: claudeRequest, refused: { ...REFUSED, ...STRICT, ...CHOOSING } },
  {
    ...TOGETHER,
    'answer under a loose schema with a map': {
      system: [text(expect.stringContaining('"additionalProperties":{"type":"number"}'))],
    },
  },
)

describeModel(
  'amazon.nova-pro-v1:0',
  { schema: novaRequest },
  {
    'call without a result': {
      messages: [
        user(text('Both?')),
        assistant(weather, time),
        user(result('call_2', 'Noon.'), missing('call_1')),
        assistant(text('(The results are in.)')),
        user(text('Go on.')),
      ],
    },
    'tool choice required': { toolConfig: { toolChoice: { any: {} } } },
    'four stops, some blank': { inferenceConfig: { stopSequences: ['END', '\n', 'STOP'] } },
  },
)

describeModel('mistral.mistral-large-2407-v1:0', { schema: converseRequest }, TOGETHER)

describeModel(
  'openai.gpt-oss-120b-1:0',
  { schema: converseRequest, refused: { ...REFUSED, ...STRICT, ...CHOOSING } },
  TOGETHER,
)

describeModel(
  'meta.llama3-3-70b-instruct-v1:0',
  { schema: converseRequest, refused: { ...REFUSED, ...CHOOSING } },
  TOGETHER,
)

const options = (baseURL: string) => ({ region: 'eu-central-1', apiKey: 'test', baseURL })
testAnyConversation({
  plugin: bedrock,
  options,
  model: 'anthropic.claude-sonnet-4-5-20250929-v1:0',
  schema: claudeRequest,
})
testAnyConversation({
  plugin: bedrock,
  options,
  model: 'amazon.nova-pro-v1:0',
  schema: novaRequest,
})
testAnyConversation({
  plugin: bedrock,
  options,
  model: 'mistral.mixtral-8x7b-instruct-v0:1',
  schema: converseRequest,
})
