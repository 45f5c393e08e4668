/** Conversations with calls of tools, and with tools of every kind. */
import {
  ask,
  call,
  custom,
  fn,
  freeForm,
  result,
  say,
  text,
  tool,
  TOOLS,
  type ConversationRequest,
} from './build.ts'

const WEATHER = call([fn('call_1', 'weather')])
const BOTH = call([fn('call_1', 'weather'), fn('call_2', 'time')])
const LONG_NAME = `files_${'x'.repeat(58)}`
const LONGER_NAME = `files_${'x'.repeat(110)}`

export const CALLS = {
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
