/** Conversations whose turns are in an order, or of a kind, that some vendors refuse. */
import { ask, call, fn, result, say, text, TOOLS, type ConversationRequest } from './build.ts'

const CLAUDE = { format: 'anthropic-claude-v1', index: 0 }
const GEMINI = { format: 'google-gemini-v1', index: 0 }
const RESPONSES = { format: 'openai-responses-v1', index: 0 }

export const TURNS = {
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
