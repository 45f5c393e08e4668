/** Requests as the vendor receives them. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import anthropic from '../../../providers/anthropic.ts'
import type { ChatInput } from '../../../src/plugin.ts'
import { recordingsOf } from '../../fixtures.ts'
import { json, startUpstream, type FakeUpstream } from '../../upstream.ts'
import { setUp, type Setup } from '../_chat.ts'

let upstream: FakeUpstream
let setup: Setup

beforeAll(async () => {
  upstream = await startUpstream(
    json({ type: 'message', content: [{ type: 'text', text: 'Hi' }], stop_reason: 'end_turn' }),
  )
  setup = await setUp(anthropic, { apiKey: 'sk-ant-test', baseURL: `${upstream.url}/v1/` })
})

afterAll(async () => {
  await setup[Symbol.asyncDispose]()
  await upstream.close()
})

const OPUS = 'claude-opus-5'
const SONNET_45 = 'claude-sonnet-4-5-20250929'
const PNG = 'iVBORw0KGgoAAAANSUhEUgAA'
const PDF = 'JVBERi0xLjcKJeLjz9MK'
const MARK = { type: 'ephemeral', ttl: '1h' }

/** The body that was sent. */
async function sent(
  input: object,
  model = OPUS,
  options: Record<string, unknown> = {},
): Promise<any> {
  const { failure } = await setup.outcome(input as Partial<ChatInput>, { model, options })
  expect(failure).toBeUndefined()
  return upstream.requests.at(-1)!.json
}

async function refused(input: object, model = OPUS) {
  const before = upstream.requests.length
  const { failure } = await setup.outcome(input as Partial<ChatInput>, { model })
  expect(upstream.requests).toHaveLength(before)
  expect(failure?.failure).toBe('bad_request')
  return failure!
}

const user = (content: unknown) => ({ role: 'user', content })
const text = (said: string) => ({ type: 'text', text: said })
const call = (id: string, name: string, args: string) => ({
  id,
  type: 'function',
  function: { name, arguments: args },
})
const result = (tool_call_id: string, content: unknown) => ({ role: 'tool', tool_call_id, content })
const weather = {
  type: 'function',
  function: { name: 'weather', description: 'Tells it.', parameters: { type: 'object' } },
}

describe('the request', () => {
  it('goes to the Messages API with the key and the version of it', async () => {
    const body = await sent({})
    const { path, headers } = upstream.requests.at(-1)!
    expect(path).toBe('/v1/messages')
    expect(headers).toMatchObject({ 'x-api-key': 'sk-ant-test', 'anthropic-version': '2023-06-01' })
    expect(headers.authorization).toBeUndefined()
    expect(body).toEqual({
      model: OPUS,
      max_tokens: 128_000,
      messages: [{ role: 'user', content: [text('Hello?')] }],
      service_tier: 'standard_only',
      stream: true,
    })
  })

  it('asks for a stream where the answer may be long, or the client wants one', async () => {
    expect((await sent({ max_completion_tokens: 20_000 })).stream).toBeUndefined()
    expect((await sent({ max_completion_tokens: 30_000 })).stream).toBe(true)
    expect((await sent({ max_completion_tokens: 9, stream: true })).stream).toBe(true)
  })

  it('says how long the answer may be: as asked, and no longer than the model’s longest', async () => {
    const longest = async (model: string, asked?: number, options = {}) =>
      (await sent(asked ? { max_completion_tokens: asked } : {}, model, options)).max_tokens
    expect(await longest(SONNET_45)).toBe(64_000)
    expect(await longest(SONNET_45, 100_000)).toBe(64_000)
    expect(await longest('claude-opus-4-1-20250805')).toBe(32_000)
    expect(await longest('claude-3-5-haiku-20241022')).toBe(8192)
    expect(await longest('another-model')).toBe(8192)
    expect(await longest('another-model', undefined, { like: 'claude-opus-4-6' })).toBe(128_000)
    expect(await longest(OPUS, undefined, { maxTokens: 5000 })).toBe(5000)
  })

  it('leaves out what the vendor does not have', async () => {
    const body = await sent({
      seed: 1,
      frequency_penalty: 1,
      logit_bias: { 1: 2 },
      session_id: 's',
      verbosity: 'low',
      prediction: {},
    })
    expect(Object.keys(body).sort()).toEqual(
      ['max_tokens', 'messages', 'model', 'service_tier', 'stream'].sort(),
    )
  })

  it('hides who the user is', async () => {
    const { metadata } = await sent({ user: 'ann@example.org', metadata: { team: 'x' } })
    expect(Object.keys(metadata)).toEqual(['user_id'])
    expect(metadata.user_id).toMatch(/^[\da-f]{64}$/)
    expect((await sent({ metadata: { user_id: 'ann@example.org' } })).metadata).toEqual(metadata)
  })

  it('drops what a model refuses of temperature, top_p and top_k', async () => {
    const hints = { temperature: 1.5, top_p: 0.9, top_k: 40, stop: ['\n', 'END'] }
    const sampled = async (model: string, more = {}) => {
      const { temperature, top_p, top_k } = await sent({ ...hints, ...more }, model)
      return { temperature, top_p, top_k }
    }
    expect(await sampled('claude-opus-4-1')).toEqual({ temperature: 1, top_p: 0.9, top_k: 40 })
    expect(await sampled(SONNET_45)).toEqual({ temperature: 1, top_k: 40 })
    expect(await sampled(OPUS)).toEqual({})
    expect(await sampled(SONNET_45, { reasoning: { effort: 'low' } })).toEqual({})
    expect((await sent({ stop: ['\n', 'END'] })).stop_sequences).toEqual(['END'])
    expect((await sent({ stop: 'END' })).stop_sequences).toEqual(['END'])
    expect((await sent({ stop: ' ' })).stop_sequences).toBeUndefined()
  })
})

describe('messages', () => {
  const conversation = async (...messages: object[]) => {
    const { system, messages: turns } = await sent({ messages })
    return { system, turns }
  }

  it('of system and developer are separate, later ones stay at their places', async () => {
    const { system, turns } = await conversation(
      { role: 'system', content: 'Be brief.' },
      { role: 'developer', content: [text('Be kind.')] },
      user('Hi'),
      { role: 'system', content: 'Now be loud.' },
      { role: 'assistant', content: 'HI' },
    )
    expect(system).toEqual([text('Be brief.'), text('Be kind.')])
    expect(turns).toEqual([
      { role: 'user', content: [text('Hi')] },
      { role: 'system', content: [text('Now be loud.')] },
      { role: 'assistant', content: [text('HI')] },
    ])
  })

  it('without text are left out, and roles alternate', async () => {
    const { system, turns } = await conversation(
      { role: 'system', content: '  ' },
      user('One'),
      { role: 'assistant', content: '' },
      user([text('\n'), text('Two')]),
      { role: 'assistant', content: null, refusal: 'No.' },
      { role: 'assistant', content: [{ type: 'refusal', refusal: 'Never. ' }] },
    )
    expect(system).toBeUndefined()
    expect(turns).toEqual([
      { role: 'user', content: [text('One'), text('Two')] },
      { role: 'assistant', content: [text('No.'), text('Never.')] },
    ])
  })

  it('begin with a user turn in any case', async () => {
    const opening = { role: 'user', content: [text('(The conversation begins.)')] }
    const { turns } = await conversation({ role: 'assistant', content: 'Hello!' }, user('Hi'))
    expect(turns[0]).toEqual(opening)
    expect((await conversation({ role: 'system', content: 'Say hi.' })).turns).toEqual([opening])
  })

  it('carry images with the type of their bytes', async () => {
    const { turns } = await conversation(
      user([
        { type: 'image_url', image_url: { url: `data:image/jpeg;base64,${PNG}`, detail: 'low' } },
        { type: 'image_url', image_url: { url: 'https://example.org/a.png' } },
      ]),
    )
    expect(turns[0].content).toEqual([
      { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PNG } },
      { type: 'image', source: { type: 'url', url: 'https://example.org/a.png' } },
    ])
  })

  it('carry PDFs, texts and images as files', async () => {
    const file = (file_data: string, filename?: string) => ({
      type: 'file',
      file: { file_data, ...(filename && { filename }) },
    })
    const plain = Buffer.from('Grüße').toString('base64')
    const { turns } = await conversation(
      user([
        file(`data:application/pdf;base64,${PDF}`, 'a.pdf'),
        file(`data:application/pdf;base64,${PDF}`),
        file('https://example.org/b.pdf'),
        file(`data:text/plain;charset=utf-8;base64,${plain}`, 'c.txt'),
        file(`data:image/png;base64,${PNG}`),
      ]),
    )
    const pdf = { type: 'base64', media_type: 'application/pdf', data: PDF }
    expect(turns[0].content).toEqual([
      { type: 'document', source: pdf, title: 'a.pdf' },
      { type: 'document', source: pdf },
      { type: 'document', source: { type: 'url', url: 'https://example.org/b.pdf' } },
      {
        type: 'document',
        source: { type: 'text', media_type: 'text/plain', data: 'Grüße' },
        title: 'c.txt',
      },
      { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PNG } },
    ])
  })

  it('with unsupported content are refused, with its path', async () => {
    const audio = { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } }
    expect(await refused({ messages: [user('a'), user([text('b'), audio])] })).toMatchObject({
      code: 'unsupported_value',
      param: 'messages[1].content[1]',
      message:
        'Expected text, an image or a file at messages[1].content[1]: this model takes no input_audio.',
    })
    const image = { type: 'image_url', image_url: { url: `data:image/png;base64,${PDF}` } }
    expect(await refused({ messages: [user([image])] })).toMatchObject({
      code: 'invalid_image',
      param: 'messages[0].content[0].image_url.url',
    })
    const file_data = 'data:application/pdf;base64,UEsDBBQAAAAIAAAA'
    const file = { type: 'file', file: { file_data, filename: 'a.zip' } }
    expect(await refused({ messages: [user([file])] })).toMatchObject({
      code: 'invalid_document',
      param: 'messages[0].content[0].file.file_data',
    })
  })
})

describe('tools', () => {
  it('are described in the vendor’s form', async () => {
    const bare = { type: 'function', function: { name: 'now' } }
    const { tools, tool_choice } = await sent({ tools: [weather, bare] })
    expect(tools).toEqual([
      {
        name: 'weather',
        description: 'Tells it.',
        input_schema: { type: 'object', properties: {} },
      },
      { name: 'now', input_schema: { type: 'object', properties: {} } },
    ])
    expect(tool_choice).toBeUndefined()
  })

  it('that are strict have closed objects, where the model supports schemas', async () => {
    const parameters = {
      type: 'object',
      properties: { days: { type: 'integer', minimum: 1, description: 'How many.' } },
      required: ['days'],
    }
    const tools = [{ type: 'function', function: { name: 'f', parameters, strict: true } }]
    expect((await sent({ tools })).tools).toEqual([
      {
        name: 'f',
        input_schema: {
          type: 'object',
          properties: { days: { type: 'integer', description: 'How many.\n\n{minimum: 1}' } },
          required: ['days'],
          additionalProperties: false,
        },
        strict: true,
      },
    ])
    expect((await sent({ tools }, 'claude-sonnet-4-0')).tools).toEqual([
      { name: 'f', input_schema: parameters },
    ])
  })

  it('are chosen by the client', async () => {
    const chosen = async (choice: unknown, more = {}, model = OPUS) =>
      (await sent({ tools: [weather], tool_choice: choice, ...more }, model)).tool_choice
    expect(await chosen('auto')).toEqual({ type: 'auto' })
    expect(await chosen('none')).toEqual({ type: 'none' })
    expect(await chosen('required')).toEqual({ type: 'any' })
    const named = { type: 'function', function: { name: 'weather' } }
    expect(await chosen(named)).toEqual({ type: 'tool', name: 'weather' })
    const serial = { parallel_tool_calls: false }
    expect(await chosen(undefined, serial)).toEqual({
      type: 'auto',
      disable_parallel_tool_use: true,
    })
    expect(await chosen('required', serial)).toEqual({
      type: 'any',
      disable_parallel_tool_use: true,
    })
    expect(await chosen('none', serial)).toEqual({ type: 'none' })
    expect(await chosen('auto', { parallel_tool_calls: true })).toEqual({ type: 'auto' })
  })

  it('are called for certain, without thinking, or the request is refused', async () => {
    const forced = { tools: [weather], tool_choice: 'required' }
    const refusal = { code: 'unsupported_parameter', param: 'tool_choice' }
    expect(await refused(forced, 'claude-opus-5-5')).toMatchObject(refusal)
    expect(await refused(forced, 'claude-fable-5')).toMatchObject(refusal)
    expect((await sent(forced, 'claude-haiku-5-5')).tool_choice).toEqual({ type: 'any' })
    const thinking = { ...forced, reasoning: { effort: 'high' } }
    for (const model of [SONNET_45, OPUS]) {
      const body = await sent(thinking, model)
      expect(body).toMatchObject({ tool_choice: { type: 'any' } })
      expect(body.thinking?.type ?? 'disabled').toBe('disabled')
      expect(body.output_config).toBeUndefined()
    }
    const both = await sent(thinking, OPUS, { forcedToolsWithThinking: true })
    expect(both).toMatchObject({ tool_choice: { type: 'any' }, thinking: { type: 'adaptive' } })
  })

  it('have to be there when a call is required', async () => {
    const named = { type: 'function', function: { name: 'weather' } }
    for (const tool_choice of ['required', named]) {
      const error = await refused({ tool_choice })
      expect(error).toMatchObject({ code: 'invalid_value', param: 'tool_choice' })
    }
  })

  it('may be narrowed to some of them', async () => {
    const other = { type: 'function', function: { name: 'other' } }
    const allowed = { mode: 'required', tools: [{ type: 'function', function: { name: 'other' } }] }
    const { tools, tool_choice } = await sent({
      tools: [weather, other],
      tool_choice: { type: 'allowed_tools', allowed_tools: allowed },
    })
    expect(tools.map(({ name }: any) => name)).toEqual(['other'])
    expect(tool_choice).toEqual({ type: 'any' })
  })
})

describe('calls and results', () => {
  const turnsOf = async (...messages: object[]) => (await sent({ messages })).messages

  it('go back in one turn, the results first', async () => {
    const turns = await turnsOf(
      user('Weather?'),
      {
        role: 'assistant',
        content: 'Let me see.',
        tool_calls: [call('a', 'weather', '{"city":"Rome"}'), call('b', 'weather', '')],
      },
      result('a', 'Sunny'),
      user('Hurry!'),
      result('b', [text('Rainy'), { type: 'image_url', image_url: { url: 'https://x.test/i' } }]),
    )
    expect(turns.slice(1)).toEqual([
      {
        role: 'assistant',
        content: [
          text('Let me see.'),
          { type: 'tool_use', id: 'a', name: 'weather', input: { city: 'Rome' } },
          { type: 'tool_use', id: 'b', name: 'weather', input: {} },
        ],
      },
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 'a', content: 'Sunny' },
          {
            type: 'tool_result',
            tool_use_id: 'b',
            content: [
              text('Rainy'),
              { type: 'image', source: { type: 'url', url: 'https://x.test/i' } },
            ],
          },
          text('Hurry!'),
        ],
      },
    ])
  })

  it('keep every digit; arguments that are not an object are wrapped', async () => {
    const tool_calls = [
      call('a', 'f', '{"id":12345678901234567890,"x":1.0}'),
      call('b', 'f', '{"cut":'),
      call('c', 'f', '[1]'),
    ]
    await turnsOf(user('?'), { role: 'assistant', content: null, tool_calls })
    const body = upstream.requests.at(-1)!.body.toString()
    expect(body).toContain('"input":{"id":12345678901234567890,"x":1.0}')
    expect(body).toContain(String.raw`"input":{"raw":"{\"cut\":"}`)
    expect(body).toContain('"input":{"raw":"[1]"}')
  })

  it('get ids that the vendor accepts, each once per conversation', async () => {
    const round = (said: string) => [
      { role: 'assistant', content: null, tool_calls: [call('functions.f:0', 'f', '{}')] },
      result('functions.f:0', said),
    ]
    const turns = await turnsOf(user('?'), ...round('one'), ...round('two'))
    expect(turns.map(({ content }: any) => content[0].id ?? content[0].tool_use_id)).toEqual([
      undefined,
      'functions_f_0',
      'functions_f_0',
      'functions_f_0_2',
      'functions_f_0_2',
    ])
  })

  it('get an error as the result of an unanswered call', async () => {
    const turns = await turnsOf(
      user('?'),
      {
        role: 'assistant',
        content: null,
        tool_calls: [call('a', 'f', '{}'), call('b', 'f', '{}')],
      },
      result('b', ''),
      { role: 'assistant', content: null, tool_calls: [call('c', 'f', '{}')] },
    )
    const missing = (tool_use_id: string) => ({
      type: 'tool_result',
      tool_use_id,
      content: '(no result)',
      is_error: true,
    })
    expect(turns[2].content).toEqual([{ type: 'tool_result', tool_use_id: 'b' }, missing('a')])
    expect(turns[4].content).toEqual([missing('c')])
  })

  it('without a counterpart are refused', async () => {
    const messages = [user('?'), { role: 'assistant', content: 'Hm.' }, result('a', 'Sunny')]
    expect(await refused({ messages })).toMatchObject({
      code: 'invalid_value',
      param: 'messages[2].tool_call_id',
    })
  })

  it('of the legacy kind are understood', async () => {
    const turns = await turnsOf(
      user('?'),
      { role: 'assistant', content: null, function_call: { name: 'f', arguments: '{"a":1}' } },
      { role: 'function', name: 'f', content: 'done' },
    )
    expect(turns.slice(1)).toEqual([
      {
        role: 'assistant',
        content: [{ type: 'tool_use', id: 'call', name: 'f', input: { a: 1 } }],
      },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'call', content: 'done' }] },
    ])
  })
})

describe('cache markers', () => {
  it('stay where the client put them, unchanged', async () => {
    const body = await sent({
      cache_control: { type: 'ephemeral' },
      tools: [{ ...weather, cache_control: MARK }],
      messages: [
        { role: 'system', content: 'Long.', cache_control: MARK },
        user([{ ...text('Longer.'), cache_control: MARK }, text('Short.')]),
      ],
    })
    expect(body.cache_control).toEqual({ type: 'ephemeral' })
    expect(body.tools[0].cache_control).toEqual(MARK)
    expect(body.system).toEqual([{ ...text('Long.'), cache_control: MARK }])
    expect(body.messages[0].content).toEqual([
      { ...text('Longer.'), cache_control: MARK },
      text('Short.'),
    ])
  })

  it('of a message mark its last part, those of a result the result', async () => {
    const { messages } = await sent({
      messages: [
        { ...user([text('One'), text('Two'), text(' ')]), cache_control: MARK },
        { role: 'assistant', content: null, tool_calls: [call('a', 'f', '{}')] },
        { ...result('a', [text('x')]), cache_control: MARK },
      ],
    })
    expect(messages[0].content).toEqual([text('One'), { ...text('Two'), cache_control: MARK }])
    expect(messages[2].content).toEqual([
      { type: 'tool_result', tool_use_id: 'a', content: [text('x')], cache_control: MARK },
    ])
  })

  it('on a part without text move to the part before', async () => {
    const { messages } = await sent({
      messages: [user([text('One'), { ...text(''), cache_control: MARK }])],
    })
    expect(messages[0].content).toEqual([{ ...text('One'), cache_control: MARK }])
  })

  it('are at most four, the last ones', async () => {
    const marked = (said: string) => ({ ...text(said), cache_control: MARK })
    const messages = [
      { role: 'system', content: [marked('a')] },
      user('bcdef'.split('').map(marked)),
    ]
    const count = (body: any) => [...JSON.stringify(body).matchAll(/cache_control/g)].length
    const body = await sent({ messages })
    expect(count(body)).toBe(4)
    expect(body.system).toEqual([text('a')])
    expect(body.messages[0].content[0]).toEqual(text('b'))
    const automatic = await sent({ messages, cache_control: MARK })
    expect(count(automatic)).toBe(4)
    expect(automatic.cache_control).toEqual(MARK)
  })

  it('keep an hour only before those of five minutes', async () => {
    const short = { type: 'ephemeral' }
    const marked = (said: string, cache_control: object) => ({ ...text(said), cache_control })
    const content = [marked('a', MARK), marked('b', short), marked('c', MARK)]
    const body = await sent({ messages: [user(content)], cache_control: MARK })
    const minutes = { ...MARK, ttl: '5m' }
    expect(body.messages[0].content).toEqual([
      marked('a', MARK),
      marked('b', short),
      marked('c', minutes),
    ])
    expect(body.cache_control).toEqual(minutes)
  })
})

describe('structured answers', () => {
  const schema = {
    type: 'object',
    properties: {
      age: { type: 'integer', minimum: 0, maximum: 150 },
      tags: { type: 'array', items: { oneOf: [{ type: 'string', maxLength: 9 }] }, minItems: 1 },
      born: { type: 'string', format: 'date' },
    },
    required: ['age'],
  }
  const response_format = { type: 'json_schema', json_schema: { name: 'person', schema } }

  it('follow the schema, reduced to supported keywords', async () => {
    const { output_config } = await sent({ response_format, reasoning: { effort: 'low' } })
    expect(output_config).toEqual({
      effort: 'low',
      format: {
        type: 'json_schema',
        schema: {
          type: 'object',
          properties: {
            age: { type: 'integer', description: '{minimum: 0, maximum: 150}' },
            tags: {
              type: 'array',
              items: { anyOf: [{ type: 'string', description: '{maxLength: 9}' }] },
              minItems: 1,
            },
            born: { type: 'string', format: 'date' },
          },
          required: ['age'],
          additionalProperties: false,
        },
      },
    })
  })

  it('come through a tool where the model has no structured output', async () => {
    const input = { response_format, tools: [weather], reasoning: { effort: 'high' } }
    const body = await sent({ ...input, max_completion_tokens: 5000 }, 'claude-sonnet-4-0')
    expect(body.tools.map(({ name }: any) => name)).toEqual(['weather', 'final_answer'])
    expect(body.tools[1].input_schema).toEqual(schema)
    expect(body.tool_choice).toEqual({ type: 'any', disable_parallel_tool_use: true })
    expect(body).not.toHaveProperty('thinking')
    expect(body).not.toHaveProperty('output_config')
  })

  it('of any JSON are requested in the prompt', async () => {
    const { system } = await sent({ response_format: { type: 'json_object' } })
    expect(system).toEqual([text('Answer with one JSON object, and nothing else.')])
  })
})

describe('reasoning', () => {
  const asked = async (reasoning: object, model: string, more: object = {}) => {
    const { thinking, output_config } = await sent({ reasoning, ...more }, model)
    return { thinking, effort: output_config?.effort }
  }
  const limit = (max_completion_tokens: number) => ({ max_completion_tokens })
  const budget = (budget_tokens: number) => ({ thinking: { type: 'enabled', budget_tokens } })
  const shown = { type: 'adaptive', display: 'summarized' }

  it('is an effort on newer models', async () => {
    expect(await asked({ effort: 'xhigh' }, OPUS)).toEqual({ thinking: shown, effort: 'xhigh' })
    expect(await asked({ effort: 'minimal' }, OPUS)).toEqual({ thinking: shown, effort: 'low' })
    expect(await asked({ enabled: true }, OPUS)).toEqual({ thinking: shown })
    expect(await asked({ effort: 'low', exclude: true }, OPUS)).toEqual({
      thinking: { type: 'adaptive', display: 'omitted' },
      effort: 'low',
    })
    // Between high and max, the lower one.
    expect(await asked({ effort: 'xhigh' }, 'claude-opus-4-6')).toEqual({
      thinking: { type: 'adaptive' },
      effort: 'high',
    })
    expect(await asked({ max_tokens: 400 }, OPUS, limit(1000))).toEqual({
      thinking: shown,
      effort: 'medium',
    })
    expect(await asked({ max_tokens: 100_000 }, OPUS)).toEqual({
      thinking: shown,
      effort: 'medium',
    })
  })

  it('is a budget on older models, within the token limit', async () => {
    expect(await asked({ max_tokens: 3000 }, SONNET_45, limit(8000))).toEqual(budget(3000))
    expect(await asked({ effort: 'high' }, SONNET_45, limit(10_000))).toEqual(budget(8000))
    expect(await asked({ effort: 'low' }, SONNET_45, limit(2000))).toEqual(budget(1024))
    expect(await asked({ max_tokens: 9000 }, SONNET_45, limit(2000))).toEqual(budget(1900))
    expect(await asked({ max_tokens: 2000 }, 'claude-opus-4-6')).toEqual(budget(2000))
    expect(await asked({ effort: 'high' }, SONNET_45, limit(1000))).toEqual({})
    expect(await asked({ effort: 'high' }, 'claude-3-5-haiku-latest')).toEqual({})
  })

  it('is turned off as each model allows', async () => {
    const off = { effort: 'none' }
    expect(await asked(off, SONNET_45)).toEqual({})
    expect(await asked(off, 'claude-opus-4-8')).toEqual({})
    expect(await asked({ enabled: false }, OPUS)).toEqual({ thinking: { type: 'disabled' } })
    expect(await asked(off, 'claude-haiku-5-5')).toEqual({ thinking: { type: 'disabled' } })
    expect(await asked(off, 'claude-sonnet-5-5')).toEqual({ thinking: { type: 'between_tools' } })
    expect(await asked(off, 'claude-opus-5-5')).toEqual({ effort: 'low' })
    expect(await asked(off, 'claude-fable-5')).toEqual({ effort: 'low' })
  })

  it('is left to the model by default', async () => {
    expect(await asked({ exclude: true }, OPUS)).toEqual({})
    expect(await asked({ summary: 'auto' }, SONNET_45)).toEqual({})
  })
})

describe('earlier reasoning', () => {
  const format = 'anthropic-claude-v1'
  const thought = { type: 'reasoning.text', text: 'Hm.', signature: 'c2ln', format, index: 0 }
  const sealed = { type: 'reasoning.encrypted', data: 'b3BhcXVl', format, index: 1 }
  const thinking = { type: 'thinking', thinking: 'Hm.', signature: 'c2ln' }
  const redacted = { type: 'redacted_thinking', data: 'b3BhcXVl' }
  const replayed = async (details: object[], message: object = { content: 'So.' }) => {
    const answer = { role: 'assistant', reasoning_details: details, ...message }
    return (await sent({ messages: [user('?'), answer, user('And?')] })).messages[1].content
  }

  it('goes back first, unchanged', async () => {
    expect(await replayed([thought, sealed])).toEqual([thinking, redacted, text('So.')])
    const silent = { ...thought, text: '' }
    expect(await replayed([silent])).toEqual([{ ...thinking, thinking: '' }, text('So.')])
  })

  it('may come back in the pieces of a stream', async () => {
    const pieces = [
      { type: 'reasoning.text', text: 'H', id: null, format, index: 0 },
      { type: 'reasoning.text', text: 'm.', index: 0 },
      { type: 'reasoning.text', signature: 'c2ln', index: 0 },
      sealed,
    ]
    expect(await replayed(pieces)).toEqual([thinking, redacted, text('So.')])
    expect(await replayed(pieces.map((piece) => ({ ...piece, format })))).toEqual([
      thinking,
      redacted,
      text('So.'),
    ])
  })

  it('of other vendors, or without a signature, is left out', async () => {
    const others = [
      { ...thought, format: 'unknown' },
      { type: 'reasoning.summary', summary: 'x', format: 'openai-responses-v1', index: 1 },
      { ...sealed, format: 'google-gemini-v1' },
      { type: 'reasoning.text', text: 'Cut off', format, index: 3 },
    ]
    expect(await replayed(others)).toEqual([text('So.')])
  })

  it('is left out when the client kept only its end', async () => {
    expect(await replayed([sealed])).toEqual([text('So.')])
    const signature = { type: 'reasoning.text', signature: 'c2ln', index: 0 }
    expect(await replayed([signature])).toEqual([text('So.')])
  })

  it('keeps its position between calls and texts', async () => {
    const message = {
      content: 'One.Two.',
      tool_calls: [call('a', 'f', '{}'), call('b', 'f', '{}')],
    }
    const details = [thought, { ...thought, id: 'after-4-1', index: 1 }]
    const kinds = (await replayed(details, message)).map(
      (block: any) => block.text ?? block.id ?? block.type,
    )
    expect(kinds).toEqual(['thinking', 'One.', 'a', 'thinking', 'Two.', 'b'])
  })

  it('turns thinking off when it is lost and the model requires it', async () => {
    const messages = (reasoning_details: object[]) => [
      user('?'),
      { role: 'assistant', content: null, tool_calls: [call('a', 'f', '{}')], reasoning_details },
      result('a', 'x'),
    ]
    const reasoning = { effort: 'low' }
    const lost = { messages: messages([]), reasoning }
    expect((await sent(lost, SONNET_45)).thinking).toBeUndefined()
    expect((await sent(lost, OPUS)).thinking).toBeDefined()
    const kept = { messages: messages([thought]), reasoning }
    expect((await sent(kept, SONNET_45)).thinking).toBeDefined()
  })
})

describe('recorded requests', () => {
  const recorded = new Map(
    recordingsOf(['anthropic'], /messages/).map(({ name, request }) => [name, request]),
  )
  it.skipIf(recorded.size === 0)('are what is sent for the same conversation', async () => {
    const first = recorded.get('anthropic/thinking-tool-roundtrip-2')!.body
    const [question, answer, results] = first.messages
    const [{ thinking, signature }, { text: words }, use] = answer.content
    const body = await sent(
      {
        max_completion_tokens: first.max_tokens,
        reasoning: { max_tokens: first.thinking.budget_tokens },
        tool_choice: 'auto',
        tools: [
          {
            type: 'function',
            function: {
              name: first.tools[0].name,
              parameters: first.tools[0].input_schema,
            },
          },
        ],
        messages: [
          question,
          {
            role: 'assistant',
            content: words,
            reasoning_details: [
              {
                type: 'reasoning.text',
                text: thinking,
                signature,
                format: 'anthropic-claude-v1',
                index: 0,
              },
            ],
            tool_calls: [call(use.id, use.name, '{}')],
          },
          result(use.id, results.content[0].content),
        ],
      },
      first.model,
    )
    const { is_error: _no, ...said } = results.content[0]
    expect(body.messages).toEqual([question, answer, { role: 'user', content: [said] }])
    expect(body).toMatchObject({ thinking: first.thinking, tool_choice: first.tool_choice })
  })
})
