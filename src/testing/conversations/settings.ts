/** Requests whose settings some vendors refuse, alone or together. */
import {
  answerAs,
  ask,
  call,
  CITY,
  fn,
  result,
  say,
  text,
  tool,
  TOOLS,
  type ConversationRequest,
} from './build.ts'

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

export const SETTINGS = {
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
