/**
 * Every member of a request and of an answer, in one table: a word that is banned is put into each, and nothing of it may
 * arrive at the other side. A member that is in no table is caught by the last test of each part.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { isPassed } from '../../src/endpoints/chat/request.ts'
import { events, json } from '../upstream.ts'
import { guarded, USAGE, type Guarded } from './_setup.ts'

const WORD = 'heron'
const RULE = { bannedPatterns: [WORD] } as const

let g: Guarded
let key: string
beforeAll(async () => {
  g = await guarded([])
  key = (await g.t.newKey({ policy: { version: 1, ...RULE } })).secret
})
afterAll(() => g[Symbol.asyncDispose]())

const USER = { role: 'user', content: 'Hi' }
const inParts = [WORD.slice(0, 2), WORD.slice(2)].map((text) => ({ type: 'text', text }))
const tool = (more: object) => ({ tools: [{ type: 'function', function: { name: 'f', ...more } }] })
const said = (...messages: object[]) => ({ messages: [...messages, USER] })
const call = (more: object) => ({
  id: 'c',
  type: 'function',
  function: { name: 'f', arguments: '{}' },
  ...more,
})

/**
 * What becomes of the word in a request. `read`: guards find it. `refused`: such a value is an error. `kept back`: it does
 * not go to the vendor.
 */
type Fate = 'read' | 'refused' | 'kept back'

const REQUEST: readonly (readonly [member: string, body: object, fate: Fate])[] = [
  ['messages[system].content', said({ role: 'system', content: WORD }), 'read'],
  ['messages[developer].content', said({ role: 'developer', content: WORD }), 'read'],
  ['messages[user].content', said({ role: 'user', content: WORD }), 'read'],
  [
    'messages[user].content[].text',
    said({ role: 'user', content: [{ type: 'text', text: WORD }] }),
    'read',
  ],
  ['messages[user].name', said({ role: 'user', content: 'a', name: WORD }), 'read'],
  [
    'messages[user].unknown',
    said({ role: 'user', content: 'a', brand_new: { deep: [WORD] } }),
    'read',
  ],
  ['messages[assistant].content', said({ role: 'assistant', content: WORD }), 'read'],
  ['messages[assistant].refusal', said({ role: 'assistant', content: 'a', refusal: WORD }), 'read'],
  [
    'messages[assistant].reasoning',
    said({ role: 'assistant', content: 'a', reasoning: WORD }),
    'read',
  ],
  [
    'messages[assistant].reasoning_content',
    said({ role: 'assistant', content: 'a', reasoning_content: WORD }),
    'read',
  ],
  [
    'messages[assistant].reasoning_details',
    said({
      role: 'assistant',
      content: 'a',
      reasoning_details: [{ type: 'reasoning.text', text: WORD, index: 0 }],
    }),
    'read',
  ],
  [
    'messages[assistant].reasoning_details, in fragments',
    said({
      role: 'assistant',
      content: 'a',
      reasoning_details: inParts.map(({ text }) => ({ type: 'reasoning.text', text, index: 0 })),
    }),
    'read',
  ],
  [
    'messages[assistant].tool_calls[].id',
    said(
      { role: 'assistant', content: null, tool_calls: [call({ id: WORD })] },
      { role: 'tool', tool_call_id: WORD, content: 'a' },
    ),
    'read',
  ],
  [
    'messages[assistant].tool_calls[].function.name',
    said(
      {
        role: 'assistant',
        content: null,
        tool_calls: [call({ function: { name: WORD, arguments: '{}' } })],
      },
      { role: 'tool', tool_call_id: 'c', content: 'a' },
    ),
    'read',
  ],
  [
    'messages[assistant].tool_calls[].function.arguments',
    said(
      {
        role: 'assistant',
        content: null,
        tool_calls: [call({ function: { name: 'f', arguments: '{"a":"h\\u0065ron"}' } })],
      },
      { role: 'tool', tool_call_id: 'c', content: 'a' },
    ),
    'read',
  ],
  [
    'messages[assistant].function_call',
    said({ role: 'assistant', content: null, function_call: { name: 'f', arguments: WORD } }),
    'read',
  ],
  [
    'messages[tool].content',
    said(
      { role: 'assistant', content: null, tool_calls: [call({})] },
      { role: 'tool', tool_call_id: 'c', content: WORD },
    ),
    'read',
  ],
  ['cache_control', { cache_control: { type: WORD } }, 'read'],
  [
    'messages[].cache_control',
    said({ role: 'user', content: 'a', cache_control: { type: WORD } }),
    'read',
  ],
  ['max_tokens', { max_tokens: WORD }, 'refused'],
  ['max_completion_tokens', { max_completion_tokens: WORD }, 'refused'],
  ['temperature', { temperature: WORD }, 'refused'],
  ['top_p', { top_p: WORD }, 'refused'],
  ['n', { n: WORD }, 'refused'],
  ['seed', { seed: WORD }, 'refused'],
  ['stop', { stop: [WORD] }, 'read'],
  ['prediction', { prediction: { type: 'content', content: WORD } }, 'read'],
  ['prediction, in parts', { prediction: { type: 'content', content: inParts } }, 'read'],
  ['logit_bias', { logit_bias: { [WORD]: 1 } }, 'read'],
  ['logprobs', { logprobs: WORD }, 'refused'],
  ['top_logprobs', { top_logprobs: WORD }, 'refused'],
  ['frequency_penalty', { frequency_penalty: WORD }, 'refused'],
  ['presence_penalty', { presence_penalty: WORD }, 'refused'],
  ['tools[].function.name', tool({ name: WORD }), 'read'],
  ['tools[].function.description', tool({ description: WORD }), 'read'],
  [
    'tools[].function.parameters',
    tool({ parameters: { type: 'object', properties: { [WORD]: { type: 'string' } } } }),
    'read',
  ],
  [
    'tool_choice',
    { ...tool({ name: WORD }), tool_choice: { type: 'function', function: { name: WORD } } },
    'read',
  ],
  ['parallel_tool_calls', { ...tool({}), parallel_tool_calls: WORD }, 'refused'],
  ['functions', { functions: [{ name: 'f', description: WORD }] }, 'read'],
  ['function_call', { functions: [{ name: 'f' }], function_call: WORD }, 'refused'],
  [
    'response_format',
    {
      response_format: {
        type: 'json_schema',
        json_schema: { name: 'a', schema: { description: WORD } },
      },
    },
    'refused',
  ],
  ['user', { user: WORD }, 'read'],
  ['metadata', { metadata: { [WORD]: 'a' } }, 'read'],
  ['safety_identifier', { safety_identifier: WORD }, 'read'],
  ['prompt_cache_key', { prompt_cache_key: WORD }, 'read'],
  ['prompt_cache_retention', { prompt_cache_retention: WORD }, 'read'],
  ['session_id', { session_id: WORD }, 'read'],
  ['service_tier', { service_tier: WORD }, 'kept back'],
  ['reasoning', { reasoning: { effort: WORD } }, 'refused'],
  ['reasoning.unknown', { reasoning: { brand_new: WORD } }, 'read'],
  ['reasoning_effort', { reasoning_effort: WORD }, 'refused'],
  ['include_reasoning', { include_reasoning: WORD }, 'refused'],
  ['verbosity', { verbosity: WORD }, 'refused'],
  ['modalities', { modalities: [WORD] }, 'refused'],
  ['audio', { audio: { voice: WORD } }, 'read'],
  ['store', { store: WORD }, 'read'],
  ['stream', { stream: WORD }, 'refused'],
  ['stream_options', { stream_options: { [WORD]: true } }, 'kept back'],
  ['usage', { usage: { [WORD]: true } }, 'read'],
  ['debug', { debug: { [WORD]: true } }, 'read'],
  ['provider', { provider: { order: [WORD] } }, 'kept back'],
  ['models', { models: [WORD] }, 'kept back'],
  ['route', { route: WORD }, 'kept back'],
  ['transforms', { transforms: [WORD] }, 'kept back'],
  ['plugins', { plugins: [{ id: WORD }] }, 'kept back'],
  ['plugins[].search_prompt', { plugins: [{ id: 'web', search_prompt: WORD }] }, 'read'],
  [
    'web_search_options',
    { web_search_options: { user_location: { type: 'approximate', approximate: { city: WORD } } } },
    'read',
  ],
  ['policy', { policy: { version: 1, scope: WORD } }, 'read'],
  ['unknown', { brand_new: WORD }, 'read'],
  ['unknown, deep', { brand_new: { a: [{ [WORD]: 1 }] } }, 'read'],
]

async function fateOf(body: object): Promise<Fate | 'sent'> {
  g.vendor.answer(
    json({
      choices: [
        { index: 0, message: { role: 'assistant', content: 'Fine.' }, finish_reason: 'stop' },
      ],
      usage: USAGE,
    }),
  )
  const count = g.vendor.requests.length
  const answer = await g.t.chat({ model: 'acme/swift', messages: [USER], ...body }, { key })
  if (answer.json.guard?.outcome === 'blocked') return 'read'
  if (answer.status >= 400) return 'refused'
  const sent = g.vendor.requests.slice(count).map((request) => JSON.stringify(request.json))
  return sent.join().toLowerCase().includes(WORD) ? 'sent' : 'kept back'
}

describe('a member of a chat request', () => {
  it.each(REQUEST)('%s', async (_, body, fate) => {
    expect(await fateOf(body)).toBe(fate)
  })

  it('is in this table if the gateway knows its name', () => {
    const listed = new Set(REQUEST.map(([member]) => member.split(/[[.,]/)[0]))
    const source = readFileSync(
      join(import.meta.dirname, '../../src/endpoints/chat/request.ts'),
      'utf8',
    )
    const kept = /const KEPT_BACK = new Set\(\[([^\]]*)\]/.exec(source)![1]!
    const names = [...kept.matchAll(/'(\w+)'/g)].map(([, name]) => name!)
    expect(names.length).toBeGreaterThan(20)
    expect(names.filter((name) => isPassed(name))).toEqual([])
    expect(names.filter((name) => !listed.has(name) && !OF_THE_GATEWAY.has(name))).toEqual([])
  })
})

/** Known names that hold no text of the client, or are read above by their parts. */
const OF_THE_GATEWAY = new Set(['model', '__proto__', 'labels', 'web_search_tool'])

/**
 * What becomes of the word in an answer. `checked`: the choice is blocked. `gone`: it is removed, or replaced by what the
 * gateway says there.
 */
const ANSWER: readonly (readonly [
  member: string,
  place: (word: string) => object,
  fate: 'checked' | 'gone',
])[] = [
  ['id', (id) => ({ id }), 'gone'],
  ['object', (object) => ({ object }), 'gone'],
  ['model', (model) => ({ model }), 'gone'],
  ['system_fingerprint', (system_fingerprint) => ({ system_fingerprint }), 'gone'],
  ['service_tier', (service_tier) => ({ service_tier }), 'gone'],
  ['unknown', (brand_new) => ({ brand_new }), 'gone'],
  ['usage.unknown', (word) => ({ usage: { ...USAGE, [word]: word } }), 'gone'],
  ['choices[].unknown', (brand_new) => ({ choice: { brand_new } }), 'gone'],
  [
    'choices[].logprobs',
    (token) => ({
      choice: { logprobs: { content: [{ token, logprob: 0, bytes: null, top_logprobs: [] }] } },
    }),
    'gone',
  ],
  ['choices[].finish_reason', (finish_reason) => ({ choice: { finish_reason } }), 'gone'],
  ['message.role', (role) => ({ message: { role } }), 'gone'],
  ['message.content', (content) => ({ message: { content } }), 'checked'],
  ['message.refusal', (refusal) => ({ message: { refusal } }), 'checked'],
  ['message.reasoning', (reasoning) => ({ message: { reasoning } }), 'gone'],
  [
    'message.reasoning_content',
    (reasoning_content) => ({ message: { reasoning_content } }),
    'gone',
  ],
  ['reasoning_details[].text', (text) => detailed({ type: 'reasoning.text', text }), 'gone'],
  [
    'reasoning_details[].summary',
    (summary) => detailed({ type: 'reasoning.summary', summary }),
    'gone',
  ],
  ...(['id', 'format', 'signature', 'type'] as const).map(
    (name) =>
      [
        `reasoning_details[].${name} of words`,
        (word: string) => detailed({ type: 'reasoning.text', text: 'a', [name]: `the ${word}` }),
        'gone',
      ] as const,
  ),
  [
    'reasoning_details[].data of words',
    (word) => detailed({ type: 'reasoning.encrypted', data: `the ${word}` }),
    'gone',
  ],
  [
    'reasoning_details[].unknown',
    (brand_new) => detailed({ type: 'reasoning.text', text: 'a', brand_new }),
    'gone',
  ],
  [
    'tool_calls[].function.name',
    (name) => called({ function: { name, arguments: '{}' } }),
    'checked',
  ],
  [
    'tool_calls[].function.arguments',
    () => called({ function: { name: 'f', arguments: '{"a":"h\\u0065ron"}' } }),
    'checked',
  ],
  ['tool_calls[].unknown', (brand_new) => called({ brand_new }), 'gone'],
  ['tool_calls[].type', (type) => called({ type }), 'gone'],
  ['tool_calls[].id', (id) => called({ id }), 'checked'],
  ['tool_calls[].id of words', (word) => called({ id: `the ${word}` }), 'gone'],
  [
    'message.annotations',
    (title) => ({
      message: {
        annotations: [
          {
            type: 'url_citation',
            url_citation: { url: 'https://a.example', title, start_index: 0, end_index: 1 },
          },
        ],
      },
    }),
    'gone',
  ],
  ['message.unknown', (brand_new) => ({ message: { brand_new: { deep: [brand_new] } } }), 'gone'],
]

const detailed = (detail: object) => ({ message: { reasoning_details: [{ index: 0, ...detail }] } })
const called = (more: object) => ({ message: { tool_calls: [{ index: 0, ...call(more) }] } })

/** The vendor's answer with the word in one place. */
function answerOf({ choice, message, ...top }: any, stream: boolean) {
  const envelope = {
    id: 'x',
    object: 'chat.completion',
    created: 1,
    model: 'm',
    usage: USAGE,
    ...top,
  }
  const said = { role: 'assistant', content: 'Fine.', ...message }
  if (!stream)
    return json({
      ...envelope,
      choices: [{ index: 0, message: said, finish_reason: 'stop', ...choice }],
    })
  const { usage, ...head } = envelope
  const { finish_reason, ...rest } = choice ?? {}
  return events(
    { ...head, choices: [{ index: 0, delta: said, finish_reason: null, ...rest }] },
    { ...head, choices: [{ index: 0, delta: {}, finish_reason: finish_reason ?? 'stop' }] },
    { ...head, choices: [], usage },
    '[DONE]',
  )
}

const FORMS = [
  ['/v1/chat/completions', { messages: [USER] }],
  ['/v1/messages', { messages: [USER], max_tokens: 100 }],
  ['/v1/responses', { input: 'Hi' }],
] as const

describe.each(FORMS)('a member of an answer, in the form of %s', (path, body) => {
  it.each(ANSWER)('%s', async (_, place, fate) => {
    for (const stream of [false, true]) {
      g.vendor.answer(answerOf(place(WORD), stream))
      const { status, text } = await g.t.ask('POST', path, {
        key,
        body: { model: 'acme/swift', stream, ...body },
      })
      expect(text.toLowerCase(), `${status}`).not.toContain(WORD)
      if (fate === 'checked') expect(text).toContain("I can't help with that here.")
    }
  })
})
