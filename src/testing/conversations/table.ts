/**
 * The table of difficult conversations: requests that OpenAI accepts and other vendors refuse, or that lose content on the
 * way to them. A provider sends each in a form that its vendor accepts, or refuses it and names the member.
 */
import {
  type ConversationRequest,
  ask,
  call,
  fn,
  result,
  say,
  text,
  TOOLS,
  tool,
  CITY,
} from './build.ts'
import { MEDIA } from './media.ts'

// Requests whose settings some vendors refuse, alone or together.

const QUESTION = [ask('Hello?')]
const HISTORY = [ask('Weather?'), call([fn('call_1', 'weather')]), result('call_1', 'Rain.')]

const MAP = {
  type: 'object',
  properties: { prices: { type: 'object', additionalProperties: { type: 'number' } } },
  required: ['prices'],
}
const OPEN = {
  type: 'object',
  properties: { city: { type: 'string' } },
  additionalProperties: true,
}
const LIMITED = {
  type: 'object',
  properties: {
    age: { type: 'integer', minimum: 0, maximum: 150 },
    code: { type: 'string', minLength: 2, pattern: '^[a-z]+$' },
  },
  required: ['age', 'code'],
  additionalProperties: false,
}
const TREE = {
  type: 'object',
  properties: { root: { $ref: '#/$defs/node' } },
  required: ['root'],
  additionalProperties: false,
  $defs: {
    node: {
      type: 'object',
      properties: {
        value: { type: ['string', 'null'] },
        children: { type: 'array', items: { $ref: '#/$defs/node' } },
      },
      required: ['value', 'children'],
      additionalProperties: false,
    },
  },
}
const CHOSEN = { type: 'function', function: { name: 'weather' } }

function allowed(mode: string): object {
  return { type: 'allowed_tools', allowed_tools: { mode, tools: [CHOSEN] } }
}

const SETTINGS = {
  'answer as any JSON': { messages: QUESTION, response_format: { type: 'json_object' } },
  'answer under a strict schema': {
    messages: QUESTION,
    response_format: answerAs(CITY, { strict: true }),
  },
  'answer under a loose schema': { messages: QUESTION, response_format: answerAs(CITY) },
  'answer under a loose schema with a map': { messages: QUESTION, response_format: answerAs(MAP) },
  'answer under a strict schema with a map': {
    messages: QUESTION,
    response_format: answerAs(MAP, { strict: true }),
  },
  'answer under a loose schema with open objects': {
    messages: QUESTION,
    response_format: answerAs(OPEN),
  },
  'answer under a schema with limits': {
    messages: QUESTION,
    response_format: answerAs(LIMITED, { strict: true }),
  },
  'answer under a schema with references': {
    messages: QUESTION,
    response_format: answerAs(TREE, { strict: true }),
  },
  'answer under a schema, with tools': {
    messages: QUESTION,
    tools: TOOLS,
    response_format: answerAs(CITY),
  },
  'answer under a schema, with tools that are not chosen': {
    messages: QUESTION,
    tools: TOOLS,
    tool_choice: 'none',
    response_format: answerAs(CITY),
  },
  'answer as any JSON, with tools': {
    messages: QUESTION,
    tools: TOOLS,
    response_format: { type: 'json_object' },
  },
  'answer under a schema, with reasoning': {
    messages: QUESTION,
    reasoning: { effort: 'high' },
    response_format: answerAs(CITY, { strict: true }),
  },

  'strict tool': { messages: QUESTION, tools: [tool('weather', CITY, { strict: true })] },
  'loose tool with a map': { messages: QUESTION, tools: [tool('prices', MAP)] },
  'strict tool with a map': { messages: QUESTION, tools: [tool('prices', MAP, { strict: true })] },
  'tool with references': { messages: QUESTION, tools: [tool('grow', TREE, { strict: true })] },
  'tool without parameters': { messages: QUESTION, tools: [tool('ping', {})] },

  'tool choice none': { messages: QUESTION, tools: TOOLS, tool_choice: 'none' },
  'tool choice none after calls': { messages: HISTORY, tools: TOOLS, tool_choice: 'none' },
  'tool choice auto': { messages: QUESTION, tools: TOOLS, tool_choice: 'auto' },
  'tool choice required': { messages: QUESTION, tools: TOOLS, tool_choice: 'required' },
  'tool chosen by name': { messages: QUESTION, tools: TOOLS, tool_choice: CHOSEN },
  'allowed tools': { messages: QUESTION, tools: TOOLS, tool_choice: allowed('auto') },
  'allowed tools after calls of others': {
    messages: [ask('Time?'), call([fn('call_1', 'time')]), result('call_1', 'Noon.')],
    tools: TOOLS,
    tool_choice: allowed('auto'),
  },
  'allowed tools, required': { messages: QUESTION, tools: TOOLS, tool_choice: allowed('required') },
  'one call at a time': { messages: QUESTION, tools: TOOLS, parallel_tool_calls: false },
  'tool choice required, with reasoning': {
    messages: QUESTION,
    tools: TOOLS,
    tool_choice: 'required',
    reasoning: { effort: 'high' },
  },
  'tool choice required, with a budget of reasoning': {
    messages: QUESTION,
    tools: TOOLS,
    tool_choice: 'required',
    reasoning: { max_tokens: 2000 },
    max_completion_tokens: 8000,
  },

  'reasoning with an effort': { messages: QUESTION, reasoning: { effort: 'low' } },
  'reasoning with the highest effort': { messages: QUESTION, reasoning: { effort: 'max' } },
  'reasoning with a budget': {
    messages: QUESTION,
    reasoning: { max_tokens: 2000 },
    max_completion_tokens: 8000,
  },
  'reasoning with a budget above the limit': {
    messages: QUESTION,
    reasoning: { max_tokens: 9000 },
    max_completion_tokens: 500,
  },
  'reasoning switched on': { messages: QUESTION, reasoning: { enabled: true } },
  'reasoning switched off': { messages: QUESTION, reasoning: { effort: 'none' } },
  'reasoning that is not shown': {
    messages: QUESTION,
    reasoning: { effort: 'low', exclude: true },
  },
  'reasoning by its older name': { messages: QUESTION, reasoning_effort: 'minimal' },
  'reasoning in a step of calls whose reasoning is lost': {
    messages: HISTORY,
    tools: TOOLS,
    reasoning: { effort: 'high' },
  },

  'one stop': { messages: QUESTION, stop: 'END' },
  'four stops, some blank': { messages: QUESTION, stop: ['END', '', '\n', 'STOP'] },
  'only blank stops': { messages: QUESTION, stop: ['', ' '] },
  'all sampling settings': {
    messages: QUESTION,
    temperature: 1.4,
    top_p: 0.9,
    top_k: 40,
    min_p: 0.1,
    top_a: 0.2,
    repetition_penalty: 1.1,
    frequency_penalty: 0.5,
    presence_penalty: 0.5,
    seed: 7,
    logit_bias: { 50256: -100 },
  },
  'log probabilities': { messages: QUESTION, logprobs: true, top_logprobs: 2 },
  'several answers': { messages: QUESTION, n: 2 },
  'small limit': { messages: QUESTION, max_tokens: 1 },
  'members of other APIs': {
    messages: QUESTION,
    verbosity: 'low',
    prediction: { type: 'content', content: 'Hello!' },
    user: 'ann@example.org',
    metadata: { team: 'x' },
    session_id: 'session-1',
    prompt_cache_key: 'key-1',
    store: true,
    service_tier: 'flex',
    modalities: ['text'],
  },
  'cache markers': {
    messages: [
      say('system', [
        text('One.', { cache_control: { type: 'ephemeral', ttl: '1h' } }),
        text('Two.'),
      ]),
      ask([text('Three.'), text('Four.')], { cache_control: { type: 'ephemeral' } }),
      say('assistant', 'Five.', { cache_control: { type: 'ephemeral' } }),
      ask([text('Six.'), text('', { cache_control: { type: 'ephemeral' } })]),
    ],
    tools: [{ ...tool('weather'), cache_control: { type: 'ephemeral' } }],
  },
} satisfies Record<string, ConversationRequest>

// Conversations with calls of tools, and with tools of every kind.

const WEATHER = call([fn('call_1', 'weather')])
const BOTH = call([fn('call_1', 'weather'), fn('call_2', 'time')])
const LONG_NAME = `files_${'x'.repeat(58)}`
const LONGER_NAME = `files_${'x'.repeat(110)}`

const CALLS = {
  'two calls at once': {
    messages: [ask('Both?'), BOTH, result('call_1', 'Rain.'), result('call_2', 'Noon.')],
    tools: TOOLS,
  },
  'results out of order': {
    messages: [ask('Both?'), BOTH, result('call_2', 'Noon.'), result('call_1', 'Rain.')],
    tools: TOOLS,
  },
  'result and a question': {
    messages: [ask('Weather?'), WEATHER, result('call_1', 'Rain.'), ask('And tomorrow?')],
    tools: TOOLS,
  },
  'steps of calls': {
    messages: [
      ask('Both?'),
      WEATHER,
      result('call_1', 'Rain.'),
      call([fn('call_2', 'time')], 'Now the time.'),
      result('call_2', 'Noon.'),
      say('assistant', 'Rain at noon.'),
      ask('Thanks.'),
    ],
    tools: TOOLS,
  },
  'call without a result': {
    messages: [ask('Both?'), BOTH, result('call_2', 'Noon.'), ask('Go on.')],
    tools: TOOLS,
  },
  'calls without any result': { messages: [ask('Both?'), BOTH, ask('Never mind.')], tools: TOOLS },
  'call at the end': { messages: [ask('Weather?'), WEATHER], tools: TOOLS },
  'result for a call that was never made': {
    messages: [ask('Weather?'), WEATHER, result('call_9', 'Rain.')],
    tools: TOOLS,
  },
  'second result for a call': {
    messages: [ask('Weather?'), WEATHER, result('call_1', 'Rain.'), result('call_1', 'Sun.')],
    tools: TOOLS,
  },
  'empty result': { messages: [ask('Weather?'), WEATHER, result('call_1', '')], tools: TOOLS },
  'blank result': { messages: [ask('Weather?'), WEATHER, result('call_1', ' \n')], tools: TOOLS },
  'result of empty parts': {
    messages: [ask('Weather?'), WEATHER, result('call_1', [text('')])],
    tools: TOOLS,
  },
  'result in parts': {
    messages: [ask('Weather?'), WEATHER, result('call_1', [text('Rain.'), text('Wind.')])],
    tools: TOOLS,
  },
  'failed result': {
    messages: [ask('Weather?'), WEATHER, result('call_1', 'No network.', { is_error: true })],
    tools: TOOLS,
  },
  'result that is a JSON list': {
    messages: [ask('Weather?'), WEATHER, result('call_1', '[1,9007199254740993]')],
    tools: TOOLS,
  },
  'text beside a call': {
    messages: [
      ask('Weather?'),
      call([fn('call_1', 'weather')], 'I look.'),
      result('call_1', 'Rain.'),
    ],
    tools: TOOLS,
  },
  'empty text beside a call': {
    messages: [ask('Weather?'), call([fn('call_1', 'weather')], ''), result('call_1', 'Rain.')],
    tools: TOOLS,
  },
  'call without arguments': {
    messages: [ask('Time?'), call([fn('call_1', 'time', '')]), result('call_1', 'Noon.')],
    tools: TOOLS,
  },
  'arguments that are not JSON': {
    messages: [ask('Time?'), call([fn('call_1', 'time', '{"city":')]), result('call_1', 'Noon.')],
    tools: TOOLS,
  },
  'arguments that are a list': {
    messages: [ask('Time?'), call([fn('call_1', 'time', '["Oslo"]')]), result('call_1', 'Noon.')],
    tools: TOOLS,
  },
  'arguments with a large number': {
    messages: [
      ask('Time?'),
      call([fn('call_1', 'time', '{"id":9007199254740993}')]),
      result('call_1', 'Noon.'),
    ],
    tools: TOOLS,
  },
  'ids of another vendor': {
    messages: [
      ask('Weather?'),
      call([fn('functions.weather:0', 'weather'), fn(`x${'0'.repeat(99)}`, 'time')]),
      result('functions.weather:0', 'Rain.'),
      result(`x${'0'.repeat(99)}`, 'Noon.'),
    ],
    tools: TOOLS,
  },
  'the same id twice': {
    messages: [
      ask('Weather?'),
      WEATHER,
      result('call_1', 'Rain.'),
      WEATHER,
      result('call_1', 'Sun.'),
    ],
    tools: TOOLS,
  },
  'calls of tools that are no longer offered': {
    messages: [ask('Weather?'), WEATHER, result('call_1', 'Rain.'), ask('Thanks.')],
  },
  'calls of tools with odd names': {
    messages: [
      ask('Weather?'),
      call([fn('call_1', 'files.read'), fn('call_2', LONGER_NAME)]),
      result('call_1', 'Rain.'),
      result('call_2', 'Noon.'),
    ],
    tools: TOOLS,
  },

  'earlier functions': {
    messages: [
      ask('Weather?'),
      say('assistant', null, { function_call: { name: 'weather', arguments: '{"city":"Oslo"}' } }),
      say('function', 'Rain.', { name: 'weather' }),
      ask('Thanks.'),
    ],
    functions: [{ name: 'weather', description: 'Looks up weather.', parameters: {} }],
  },
  'earlier function chosen': {
    messages: [ask('Weather?')],
    functions: [{ name: 'weather' }, { name: 'time' }],
    function_call: { name: 'time' },
  },
  'result of a function that was never called': {
    messages: [ask('Weather?'), say('function', 'Rain.', { name: 'weather' })],
    functions: [{ name: 'weather' }],
  },

  'tool without a description': {
    messages: [ask('Weather?')],
    tools: [{ type: 'function', function: { name: 'weather' } }],
  },
  'tool with an empty description': {
    messages: [ask('Weather?')],
    tools: [tool('weather', {}, { description: '' })],
  },
  'tool with a long name': { messages: [ask('Weather?')], tools: [tool(LONG_NAME)] },
  'custom tool': { messages: [ask('Patch it.')], tools: [freeForm('patch')] },
  'custom tool with a grammar': {
    messages: [ask('Patch it.')],
    tools: [
      tool('weather'),
      freeForm('patch', {
        type: 'grammar',
        grammar: { syntax: 'lark', definition: 'start: "a"+' },
      }),
    ],
  },
  'custom tool with the format text': {
    messages: [ask('Patch it.')],
    tools: [freeForm('patch', { type: 'text' })],
  },
  'call of a custom tool': {
    messages: [
      ask('Patch it.'),
      call([custom('call_1', 'patch', '*** "quoted"\n')]),
      result('call_1', 'Done.'),
    ],
    tools: [freeForm('patch')],
  },
  'custom tool chosen': {
    messages: [ask('Patch it.')],
    tools: [tool('weather'), freeForm('patch')],
    tool_choice: { type: 'custom', custom: { name: 'patch' } },
  },
} satisfies Record<string, ConversationRequest>

// Conversations whose turns are in an order, or of a kind, that some vendors refuse.

const CLAUDE = { format: 'anthropic-claude-v1', index: 0 }
const GEMINI = { format: 'google-gemini-v1', index: 0 }
const RESPONSES = { format: 'openai-responses-v1', index: 0 }

const TURNS = {
  'system message first': { messages: [say('system', 'Be brief.'), ask('Hello?')] },
  'system message in parts': {
    messages: [say('system', [text('Be brief.'), text('Be kind.')]), ask('Hello?')],
  },
  'two system messages': {
    messages: [say('system', 'Be brief.'), say('system', 'Be kind.'), ask('Hello?')],
  },
  'system message in the middle': {
    messages: [
      say('system', 'Be brief.'),
      ask('Hello?'),
      say('system', 'Answer in French.'),
      say('assistant', 'Bonjour.'),
      ask('And now?'),
    ],
  },
  'system message before a user message': {
    messages: [
      ask('Hello?'),
      say('assistant', 'Hi.'),
      say('system', 'Answer in French.'),
      ask('And now?'),
    ],
  },
  'system messages at the end': {
    messages: [ask('Hello?'), say('system', 'Answer in French.'), say('system', 'Be kind.')],
  },
  'system message after a tool result': {
    messages: [
      ask('Weather?'),
      call([fn('call_1', 'weather')]),
      result('call_1', 'Rain.'),
      say('system', 'Answer in French.'),
    ],
    tools: TOOLS,
  },
  'only a system message': { messages: [say('system', 'Tell a joke.')] },
  'developer message': { messages: [say('developer', 'Be brief.'), ask('Hello?')] },
  'developer message in the middle': {
    messages: [ask('Hello?'), say('assistant', 'Hi.'), say('developer', 'Be kind.'), ask('So?')],
  },
  'blank system message': { messages: [say('system', '  '), ask('Hello?')] },

  'assistant first': { messages: [say('assistant', 'Welcome.'), ask('Hello?')] },
  'two user messages': { messages: [ask('One.'), ask('Two.')] },
  'two assistant messages': {
    messages: [ask('Hello?'), say('assistant', 'One.'), say('assistant', 'Two.'), ask('So?')],
  },
  'begun answer': { messages: [ask('A poem.'), say('assistant', 'Roses are')] },
  'begun answer with a space at its end': {
    messages: [ask('A poem.'), say('assistant', 'Roses are ')],
  },
  'named speakers': {
    messages: [
      ask('Hello?', { name: 'ann' }),
      say('assistant', 'Hi.', { name: 'bot' }),
      ask('So?'),
    ],
  },

  'blank user message in the middle': {
    messages: [
      ask('One.'),
      say('assistant', 'Two.'),
      ask(' \n'),
      say('assistant', 'Three.'),
      ask('Four?'),
    ],
  },
  'blank last user message': { messages: [ask('One.'), say('assistant', 'Two.'), ask('')] },
  'last user message of empty parts': {
    messages: [ask('One.'), say('assistant', 'Two.'), ask([text(''), text(' ')])],
  },
  'only a blank user message': { messages: [ask('')] },
  'empty part beside a text': { messages: [ask([text(''), text('Hello?')])] },
  'blank answer': { messages: [ask('One.'), say('assistant', ''), ask('Two?')] },
  'blank last answer': { messages: [ask('One.'), say('assistant', ' ')] },

  'refused answer': {
    messages: [ask('One.'), say('assistant', null, { refusal: 'I will not.' }), ask('Two?')],
  },
  'refusal as a part': {
    messages: [
      ask('One.'),
      say('assistant', [{ type: 'refusal', refusal: 'I will not.' }]),
      ask('Two?'),
    ],
  },
  'reasoning without a signature': {
    messages: [
      ask('One.'),
      say('assistant', 'Two.', { reasoning: 'Hidden.', reasoning_content: 'Hidden.' }),
      ask('Three?'),
    ],
  },
  'reasoning of several vendors': {
    messages: [
      ask('One.'),
      say('assistant', 'Two.', {
        reasoning_details: [
          { type: 'reasoning.text', text: 'Claude.', signature: 'c2ln', id: null, ...CLAUDE },
        ],
      }),
      ask('Three.'),
      say('assistant', 'Four.', {
        reasoning_details: [{ type: 'reasoning.encrypted', data: 'Z2Vt', id: null, ...GEMINI }],
      }),
      ask('Five.'),
      say('assistant', 'Six.', {
        reasoning_details: [
          { type: 'reasoning.encrypted', data: 'b3Bl', id: 'rs_1', ...RESPONSES },
        ],
      }),
      ask('Seven?'),
    ],
  },
} satisfies Record<string, ConversationRequest>

const TABLE = { ...TURNS, ...CALLS, ...MEDIA, ...SETTINGS }

export type ConversationName = keyof typeof TABLE

export const DIFFICULT_CONVERSATIONS: Readonly<Record<ConversationName, ConversationRequest>> =
  TABLE

function custom(id: string, name: string, input: string): object {
  return { id, type: 'custom', custom: { name, input } }
}

function freeForm(name: string, format?: object): object {
  const description = `Applies ${name}.`
  return { type: 'custom', custom: { name, description, ...(format ? { format } : {}) } }
}

function answerAs(schema: object, more: object = {}): object {
  return { type: 'json_schema', json_schema: { name: 'answer', schema, ...more } }
}
