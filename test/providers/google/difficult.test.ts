/** The difficult conversations, as Gemini gets them. */
import { expect, it } from 'vitest'
import google from '../../../providers/google.ts'
import { setUp } from '../_chat.ts'
import { testAnyConversation } from '../_conversations.ts'
import { describeDifficult, type ConversationName, type DifficultOptions } from '../_difficult.ts'
import { generateRequest, olderRequest } from './_wire.ts'

const SKIP = { thoughtSignature: 'skip_thought_signature_validator' }

const REFUSED = {
  'result for a call that was never made': ['invalid_value', 'messages[2].tool_call_id'],
  'second result for a call': ['invalid_value', 'messages[3].tool_call_id'],
  'result of a function that was never called': ['invalid_value', 'messages[1].name'],
  'GIF image': ['unsupported_value', 'messages[0].content[1].image_url.url'],
  'image in a system message': ['unsupported_value', 'messages[0].content[1]'],
} satisfies DifficultOptions['refused']

const user = (...parts: readonly unknown[]) => ({ role: 'user', parts })
const model = (...parts: readonly unknown[]) => ({ role: 'model', parts })
const text = (words: string) => ({ text: words })
const weather = { functionCall: { name: 'weather', args: { city: 'Oslo' } } }
const time = { functionCall: { name: 'time', args: { city: 'Oslo' } } }
const result = (name: string, words: string) => ({
  functionResponse: { name, response: { result: words } },
})
const failure = (name: string, words: string) => ({
  functionResponse: { name, response: { error: words } },
})
const missing = (name: string) => ({
  functionResponse: { name, response: { error: 'no result' } },
})

type Members = Partial<Record<ConversationName, object>>

/** What becomes of a row for every model. */
const COMMON: Members = {
  'system message in parts': {
    systemInstruction: { parts: [text('Be brief.'), text('Be kind.')] },
  },
  'system message in the middle': {
    systemInstruction: { parts: [text('Be brief.')] },
    contents: [
      user(text('Hello?'), text('Answer in French.')),
      model(text('Bonjour.')),
      user(text('And now?')),
    ],
  },
  'only a system message': {
    systemInstruction: { parts: [text('Tell a joke.')] },
    contents: [user(text('(The conversation begins.)'))],
  },
  'assistant first': { contents: [model(text('Welcome.')), user(text('Hello?'))] },
  'blank last user message': {
    contents: [user(text('One.')), model(text('Two.')), user(text(' '))],
  },
  'only a blank user message': { contents: [user(text(' '))] },
  'blank user message in the middle': {
    contents: [user(text('One.')), model(text('Two.'), text('Three.')), user(text('Four?'))],
  },
  'results out of order': {
    contents: [
      user(text('Both?')),
      model(weather, time),
      user(result('weather', 'Rain.'), result('time', 'Noon.')),
    ],
  },
  'call without a result': {
    contents: [
      user(text('Both?')),
      model(weather, time),
      user(missing('weather'), result('time', 'Noon.'), text('Go on.')),
    ],
  },
  'call at the end': {
    contents: [user(text('Weather?')), model(weather), user(missing('weather'))],
  },
  'empty result': {
    contents: [user(text('Weather?')), model(weather), user(result('weather', ''))],
  },
  'result of empty parts': {
    contents: [user(text('Weather?')), model(weather), user(result('weather', ''))],
  },
  'result in parts': {
    contents: [user(text('Weather?')), model(weather), user(result('weather', 'Rain.\nWind.'))],
  },
  'failed result': {
    contents: [user(text('Weather?')), model(weather), user(failure('weather', 'No network.'))],
  },
  'reasoning of several vendors': {
    contents: [
      user(text('One.')),
      model(text('Two.')),
      user(text('Three.')),
      model({ text: 'Four.', thoughtSignature: 'Z2Vt' }),
      user(text('Five.')),
      model(text('Six.')),
      user(text('Seven?')),
    ],
  },
  'earlier functions': {
    contents: [
      user(text('Weather?')),
      model(weather),
      user(result('weather', 'Rain.'), text('Thanks.')),
    ],
  },
  'image of an assistant': {
    contents: [
      user(text('Draw.')),
      model(text('Here.'), { inlineData: { mimeType: 'image/png' } }),
      user(text('Nice.')),
    ],
  },
  'PDF at an address without an extension': {
    contents: [user(text('What is it?'), { inlineData: { mimeType: 'application/pdf' } })],
  },
  'tool choice required, with reasoning': {
    toolConfig: { functionCallingConfig: { mode: 'ANY' } },
    generationConfig: { thinkingConfig: { includeThoughts: true } },
  },
  'allowed tools': {
    toolConfig: {
      functionCallingConfig: { mode: 'VALIDATED', allowedFunctionNames: ['weather'] },
    },
  },
  'custom tool chosen': {
    toolConfig: { functionCallingConfig: { mode: 'ANY', allowedFunctionNames: ['patch'] } },
  },
  'four stops, some blank': { generationConfig: { stopSequences: ['END', '\n', 'STOP'] } },
  'answer under a strict schema with a map': {
    generationConfig: {
      responseJsonSchema: { properties: { prices: { additionalProperties: { type: 'number' } } } },
    },
  },
}

function describeModel(
  name: string,
  schema: DifficultOptions['schema'],
  signature: object,
  members: Members,
): void {
  const options: DifficultOptions = {
    title: `difficult conversations for ${name}`,
    model: name,
    setUp: (url, download) => setUp(google, { apiKey: 'test', baseURL: url }, download),
    schema,
    refused: REFUSED,
    // Names as Google takes them.
    changed: { 'calls of tools with odd names': [`files_${'x'.repeat(110)}`] },
  }
  describeDifficult(options, (translate) => {
    it.each(Object.entries({ ...COMMON, ...members }))('body of: %s', async (row, expected) => {
      expect(await translate(row as ConversationName)).toMatchObject({ body: expected })
    })

    it('marks the first call of a step as its model needs it', async () => {
      expect(await translate('two calls at once')).toMatchObject({
        body: { contents: [{}, { parts: [{ ...weather, ...signature }, time] }, {}] },
      })
    })

    it('fetches what Google does not read', async () => {
      const downloads = ['https://files.example/cat']
      expect(await translate('image at an address without an extension')).toMatchObject({
        downloads,
      })
    })
  })
}

describeModel('gemini-3.5-flash', generateRequest, SKIP, {
  'image in low detail': {
    contents: [user(text('What is it?'), { mediaResolution: { level: 'MEDIA_RESOLUTION_LOW' } })],
  },
  'images in several details': {
    contents: [
      user(
        text('Which?'),
        { mediaResolution: { level: 'MEDIA_RESOLUTION_LOW' } },
        { mediaResolution: { level: 'MEDIA_RESOLUTION_ULTRA_HIGH' } },
        { inlineData: {} },
      ),
    ],
  },
  'only an image as the result of a call': {
    contents: [
      {},
      {},
      user({
        functionResponse: {
          name: 'weather',
          response: { result: '' },
          parts: [{ inlineData: { mimeType: 'image/png' } }],
        },
      }),
    ],
  },
  'answer under a schema, with tools': {
    tools: [{ functionDeclarations: [{ name: 'weather' }, { name: 'time' }] }],
    generationConfig: { responseMimeType: 'application/json' },
  },
})

describeModel(
  'gemini-2.5-pro',
  olderRequest,
  {},
  {
    'image in low detail': { generationConfig: { mediaResolution: 'MEDIA_RESOLUTION_LOW' } },
    'image as the result of a call': {
      contents: [{}, {}, user(result('weather', 'A map.'), { inlineData: {} })],
    },
    'answer under a schema, with tools': {
      tools: [
        {
          functionDeclarations: [
            { name: 'weather' },
            { name: 'time' },
            { name: 'final_answer', parametersJsonSchema: { required: ['city'] } },
          ],
        },
      ],
      toolConfig: { functionCallingConfig: { mode: 'ANY' } },
    },
    'answer under a schema, with tools that are not chosen': {
      generationConfig: { responseMimeType: 'application/json', responseJsonSchema: {} },
    },
    'answer as any JSON, with tools': {
      systemInstruction: {
        parts: [text('Answer with one JSON object, and nothing else.')],
      },
      tools: [{ functionDeclarations: [{ name: 'weather' }, { name: 'time' }] }],
    },
  },
)

const options = (baseURL: string) => ({ apiKey: 'test', baseURL })
testAnyConversation({ plugin: google, options, model: 'gemini-3.5-flash', schema: generateRequest })
testAnyConversation({ plugin: google, options, model: 'gemini-2.5-pro', schema: olderRequest })
testAnyConversation({ plugin: google, options, model: 'gemma-3-27b-it', schema: olderRequest })
