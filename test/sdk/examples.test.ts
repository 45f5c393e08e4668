/**
 * The reference streams of `test/wire/examples/streams`: each is what the gateway makes of a vendor that is not that tidy, byte for
 * byte but for id, moment and model; and the official client reads it.
 */
import { readFileSync } from 'node:fs'
import { APIError } from 'openai'
import type OpenAI from 'openai'
import * as v from 'valibot'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { defineProvider } from '../../src/plugin.ts'
import { createTestGateway, eventsOf, type Answer as Got } from '../_setup.ts'
import { events, type FakeResponse } from '../upstream.ts'
import {
  billed,
  COST,
  HELLO,
  PRICING,
  rejected,
  says,
  setUp,
  streamed,
  USAGE,
  USAGE_CHUNK,
  user,
  type Setup,
} from './_setup.ts'

let s: Setup
beforeAll(async () => {
  s = await setUp()
})
afterAll(() => s[Symbol.asyncDispose]())

const WITH_USAGE = { stream: true, stream_options: { include_usage: true } }
const HELLO_STREAM = streamed([
  { role: 'assistant', content: 'Hel' },
  { role: 'assistant', content: 'lo.' },
])
const part = (index: number, delta: object, finish_reason: string | null = null) => ({
  choices: [{ index, delta, finish_reason }],
})
const call = (index: number, id: string | null, name: string | null, text: string) => ({
  tool_calls: [{ index, id, type: 'function', function: { name, arguments: text } }],
})
/** Interleaved, counted from 1, with names and ids said again: everything that breaks readers. */
const TOOLS_STREAM = streamed(
  [
    call(1, 'call_a1', 'lookup_order', ''),
    call(2, 'call_a2', 'lookup_stock', ''),
    call(1, 'call_a1', 'lookup_order', '{"id":'),
    call(2, 'call_a2', 'lookup_stock', '{"sku":'),
    call(1, null, null, '"A-17"}'),
    call(2, null, null, '"B2"}'),
  ],
  'stop',
)
const TOOLS: OpenAI.ChatCompletionTool[] = ['lookup_order', 'lookup_stock'].map((name) => ({
  type: 'function',
  function: { name, strict: true, parameters: { type: 'object' } },
}))
const CITATION = {
  url: 'https://example.org/bridge',
  title: 'Bridge history',
  start_index: 15,
  end_index: 56,
}
const WEB_STREAM = events(
  says({
    reasoning_details: [
      { type: 'reasoning.text', text: 'Check the ', format: 'anthropic-claude-v1', index: 0 },
    ],
  }),
  says({
    reasoning_details: [
      { type: 'reasoning.text', text: 'source.', format: 'anthropic-claude-v1', index: 0 },
    ],
  }),
  says({
    reasoning_details: [
      { type: 'reasoning.text', signature: 'c2ln', format: 'anthropic-claude-v1', index: 0 },
    ],
  }),
  says({ content: 'Opened in 1932 ' }),
  says({ annotations: [{ type: 'url_citation', url_citation: CITATION }] }),
  says({ content: '[example.org](https://example.org/bridge).' }),
  says({}, 'stop'),
  {
    ...USAGE_CHUNK,
    usage: {
      ...USAGE,
      completion_tokens_details: { reasoning_tokens: 9 },
      server_tool_use_details: { web_search_requests: 1 },
    },
  },
  '[DONE]',
)

/** Name of the file, what the vendor sends, what the client asks. */
const SCENES: Readonly<Record<string, readonly [FakeResponse, object]>> = {
  'chat-plain': [HELLO_STREAM, { stream: true }],
  'chat-include-usage': [HELLO_STREAM, WITH_USAGE],
  'chat-two-choices': [
    events(
      part(1, { content: 'B' }),
      part(1, {}, 'length'),
      part(0, { content: 'A' }, 'stop'),
      USAGE_CHUNK,
      '[DONE]',
    ),
    { stream: true, n: 2 },
  ],
  'chat-tools-parallel': [TOOLS_STREAM, { ...WITH_USAGE, tools: TOOLS }],
  'chat-reasoning-web': [WEB_STREAM, WITH_USAGE],
  'chat-midstream-error': [events(says({ content: 'Hel' })), { stream: true }],
}

const example = (name: string) =>
  readFileSync(new URL(`../wire/examples/streams/${name}.sse`, import.meta.url), 'utf8')

/** The envelope of the examples, whatever this one's is. */
const inEnvelope = (text: string) =>
  text
    .replaceAll(/"id":"chatcmpl-[^"]+"/g, '"id":"chatcmpl-7c1f9d2e"')
    .replaceAll(/"created":\d+/g, '"created":1790000000')

/** A prompt of 42 tokens, should they have to be estimated. */
const MESSAGES = [user('x'.repeat(42 * 4))]

function ask(name: string): Promise<Got> {
  const [answer, options] = SCENES[name]!
  s.vendor.answer(answer)
  return s.t.chat({ model: 'acme/swift-1', messages: MESSAGES, ...options })
}

function stream(name: string, model = 'acme/swift-1') {
  const [answer, options] = SCENES[name]!
  s.vendor.answer(answer)
  return s.client.chat.completions.stream({ model, messages: MESSAGES, ...options })
}

describe('the reference stream', () => {
  it.each(['chat-include-usage', 'chat-two-choices', 'chat-midstream-error'])(
    '%s comes byte for byte',
    async (name) => {
      expect(inEnvelope((await ask(name)).text)).toBe(example(name))
    },
  )

  it('chat-plain comes byte for byte, with what keeps the connection alive while the vendor is silent', async () => {
    const heard = Promise.withResolvers<void>()
    const provider = defineProvider({
      name: 'pausing',
      options: v.object({}),
      setup: () => ({
        async chat() {
          return (async function* () {
            yield { choices: [{ index: 0, delta: { content: 'Hel' } }] }
            await heard.promise
            yield {
              choices: [{ index: 0, delta: { content: 'lo.' }, finish_reason: 'stop' }],
              usage: USAGE,
            }
          })()
        },
      }),
    })
    await using t = await createTestGateway({
      providers: { pausing: { use: provider } },
      models: {
        'acme/swift-1': {
          pricing: PRICING,
          capabilities: ['STREAMING'],
          deployments: [{ provider: 'pausing', model: 'swift' }],
        },
      },
      server: { keepAlive: 0.05 },
    })
    const response = await fetch(`${t.baseURL}/chat/completions`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${t.key.secret}`,
        'content-type': 'application/json',
      },
      body: JSON.stringify({ ...HELLO, stream: true }),
    })
    let text = ''
    const decoder = new TextDecoder()
    for await (const bytes of response.body!) {
      text += decoder.decode(bytes, { stream: true })
      if (text.includes(': keep-alive\n\n')) heard.resolve()
    }
    const once = text.replace(/(: keep-alive\n\n)+/, ': keep-alive\n\n')
    expect(inEnvelope(once)).toBe(example('chat-plain'))
  })

  it('chat-tools-parallel comes with every call whole before the next', async () => {
    const got = chunksOf(inEnvelope((await ask('chat-tools-parallel')).text))
    // A call after the first may come in one piece: it had to wait for those before it.
    expect(joined(got)).toEqual(joined(chunksOf(example('chat-tools-parallel'))))
  })

  it('chat-reasoning-web comes with reasoning first and all citations in one chunk', async () => {
    const got = chunksOf(inEnvelope((await ask('chat-reasoning-web')).text))
    const wanted = chunksOf(example('chat-reasoning-web'))
    delete wanted.at(-1).usage.server_tool_use_details
    // The first fragment of a block may say that it has no id, or where the server gave it.
    for (const detail of got.flatMap((chunk) => chunk.choices[0]?.delta.reasoning_details ?? [])) {
      if (detail.id === null || detail.id?.startsWith('up:')) delete detail.id
    }
    delete got.at(-1).usage.server_tool_use_details
    expect(got).toEqual(wanted)
  })

  it('chat-reasoning-web says how many searches the vendor made', async () => {
    const got = chunksOf((await ask('chat-reasoning-web')).text)
    const wanted = chunksOf(example('chat-reasoning-web'))
    expect(got.at(-1).usage).toEqual(wanted.at(-1).usage)
  })
})

describe('the official client reads', () => {
  it.each([
    ['chat-plain', [['Hello.', 'stop']], COST],
    ['chat-include-usage', [['Hello.', 'stop']], COST],
    [
      'chat-two-choices',
      [
        ['A', 'stop'],
        ['B', 'length'],
      ],
      COST,
    ],
    [
      'chat-reasoning-web',
      [['Opened in 1932 [example.org](https://example.org/bridge).', 'stop']],
      0.0050165,
    ],
  ])('%s', async (name, choices, cost) => {
    const completion = await stream(name).finalChatCompletion()
    expect(completion.choices.map((one) => [one.message.content, one.finish_reason])).toEqual(
      choices,
    )
    expect(billed(completion.usage).cost).toBe(cost)
  })

  it('chat-tools-parallel, of strict tools', async () => {
    const done: unknown[] = []
    const completion = await stream('chat-tools-parallel')
      .on('tool_calls.function.arguments.done', ({ index, name, parsed_arguments }) =>
        done.push([index, name, parsed_arguments]),
      )
      .finalChatCompletion()
    expect(done).toEqual([
      [0, 'lookup_order', { id: 'A-17' }],
      [1, 'lookup_stock', { sku: 'B2' }],
    ])
    const [choice] = completion.choices
    expect(choice!.finish_reason).toBe('tool_calls')
    expect(choice!.message.tool_calls!.map((one) => one.id)).toEqual(['call_a1', 'call_a2'])
    expect(billed(completion.usage).cost).toBe(COST)
  })

  it('the citations of chat-reasoning-web', async () => {
    const { choices } = await stream('chat-reasoning-web').finalChatCompletion()
    const { content, annotations } = choices[0]!.message
    expect(annotations).toEqual([{ type: 'url_citation', url_citation: CITATION }])
    expect(content!.slice(CITATION.start_index, CITATION.end_index)).toBe(
      '[example.org](https://example.org/bridge)',
    )
  })

  it('chat-midstream-error, as an error that knows its code and what it cost', async () => {
    const error = await rejected(stream('chat-midstream-error', 'acme/says').finalChatCompletion())
    expect(error).toBeInstanceOf(APIError)
    expect(error).toMatchObject({ code: 'upstream_error', type: 'server_error', param: null })
    expect(error.error.usage).toMatchObject({ completion_tokens: 1, cost: 0.0000069 })
  })
})

/** The payloads of a stream that ends as all do. */
function chunksOf(text: string): any[] {
  const chunks = eventsOf(text)
  expect(chunks.pop()).toBe('[DONE]')
  return chunks
}

/** Neighbouring fragments of one tool call as one. */
function joined(chunks: readonly any[]): any[] {
  const whole: any[] = []
  for (const chunk of chunks) {
    const [fragment] = chunk.choices[0]?.delta.tool_calls ?? []
    const [open] = whole.at(-1)?.choices[0]?.delta.tool_calls ?? []
    if (fragment && open?.index === fragment.index) {
      expect(Object.keys(fragment)).toEqual(['index', 'function'])
      expect(Object.keys(fragment.function)).toEqual(['arguments'])
      open.function.arguments += fragment.function.arguments
    } else whole.push(chunk)
  }
  return whole
}
