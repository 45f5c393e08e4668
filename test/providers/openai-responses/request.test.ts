/** Bodies for the Responses API. Every expected body has OpenAI's published type, except that no item has an id. */
import type {
  FunctionTool,
  ResponseCreateParamsBase,
  ResponseInputItem,
} from 'openai/resources/responses/responses'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import azure from '../../../providers/azure.ts'
import compatible from '../../../providers/openai-compatible.ts'
import openai from '../../../providers/openai.ts'
import { readChatRequest } from '../../../src/endpoints/chat/dialects/chat/read.ts'
import { outboundChat } from '../../../src/endpoints/chat/request.ts'
import { UpstreamFailure } from '../../../src/errors/errors.ts'
import type { ProviderPlugin } from '../../../src/plugin.ts'
import { json, startUpstream, type FakeUpstream } from '../../upstream.ts'
import { setUp, type Setup } from '../_chat.ts'

type Item = ResponseInputItem extends infer One
  ? One extends { id: string }
    ? Omit<One, 'id'>
    : Omit<One, 'id'> & { id?: never }
  : never
type Body = Omit<ResponseCreateParamsBase, 'input'> & { readonly input: readonly Item[] }

const ANSWER = json({
  status: 'completed',
  output: [],
  usage: { input_tokens: 1, output_tokens: 1 },
})
const USER = { role: 'user', content: 'Hi' } as const
const HI: Item = { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Hi' }] }
const HASHED = expect.stringMatching(/^[\da-f]{32}$/)

let upstream: FakeUpstream
const setups = new Map<ProviderPlugin<any, any>, Setup>()

beforeAll(async () => {
  upstream = await startUpstream()
  const options = { baseURL: upstream.url, apiKey: 'sk-1' }
  for (const plugin of [openai, azure, compatible]) {
    setups.set(plugin, await setUp(plugin, options))
  }
})

afterAll(async () => {
  for (const setup of setups.values()) await setup[Symbol.asyncDispose]()
  await upstream.close()
})

interface How {
  readonly model?: string
  readonly options?: Record<string, unknown>
  readonly plugin?: ProviderPlugin<any, any>
}

/** The body that goes to the vendor for a client's request. */
async function bodyFor(request: object, how: How = {}): Promise<Body> {
  const { model = 'gpt-5.4', options = {}, plugin = openai } = how
  const input = outboundChat(readChatRequest({ model: 'a/b', messages: [USER], ...request }))
  upstream.answer(ANSWER)
  await setups.get(plugin)!.ask(input, { model, options: { api: 'responses', ...options } })
  const { path, body } = upstream.requests.at(-1)!
  expect(path).toMatch(/\/responses$/)
  return JSON.parse(body.toString())
}

async function inputFor(messages: readonly object[], how?: How): Promise<Body['input']> {
  return (await bodyFor({ messages }, how)).input
}

async function refusalOf(request: object): Promise<UpstreamFailure> {
  const before = upstream.requests.length
  try {
    await bodyFor(request)
  } catch (error) {
    expect(upstream.requests).toHaveLength(before)
    if (UpstreamFailure.is(error)) return error
    throw error
  }
  throw new Error('it was sent')
}

describe('the body', () => {
  it('stores nothing, and asks for encrypted reasoning only of a model that may reason', async () => {
    const plain: Body = {
      model: 'gpt-5.4',
      input: [HI],
      store: false,
      include: ['reasoning.encrypted_content'],
    }
    expect(await bodyFor({})).toEqual(plain)
    expect(await bodyFor({}, { model: 'our-own-name' })).toEqual({
      ...plain,
      model: 'our-own-name',
    })
    const { include: _none, ...bare } = plain
    expect(await bodyFor({}, { model: 'gpt-4.1' })).toEqual({ ...bare, model: 'gpt-4.1' })
  })

  it('has all that this API knows, in its own form', async () => {
    const expected: Body = {
      model: 'gpt-5.4',
      input: [HI],
      store: false,
      stream: true,
      stream_options: { include_obfuscation: false },
      include: ['reasoning.encrypted_content', 'message.output_text.logprobs'],
      max_output_tokens: 900,
      reasoning: { effort: 'none' },
      temperature: 0.5,
      top_p: 0.9,
      top_logprobs: 2,
      text: {
        format: {
          type: 'json_schema',
          name: 'map',
          schema: { type: 'object', additionalProperties: { type: 'number' } },
          strict: false,
          description: 'A map.',
        },
        verbosity: 'low',
      },
      metadata: { run: '1' },
      prompt_cache_options: { mode: 'explicit' },
      prompt_cache_key: HASHED,
      safety_identifier: HASHED,
    }
    const request = {
      stream: true,
      max_tokens: 900,
      reasoning_effort: 'none',
      temperature: 0.5,
      top_p: 0.9,
      logprobs: true,
      top_logprobs: 2,
      response_format: {
        type: 'json_schema',
        json_schema: {
          name: 'map',
          schema: { type: 'object', additionalProperties: { type: 'number' } },
          strict: false,
          description: 'A map.',
        },
      },
      verbosity: 'low',
      metadata: { run: '1' },
      prompt_cache_options: { mode: 'explicit' },
      session_id: 's-1',
      user: 'maria@example.com',
    }
    expect(await bodyFor(request)).toEqual(expected)
  })

  it('leaves out what this API does not have', async () => {
    const request = {
      stop: ['END'],
      seed: 7,
      logit_bias: { 50256: -100 },
      presence_penalty: 1,
      frequency_penalty: 1,
      prediction: { type: 'content', content: 'x' },
      top_k: 4,
      min_p: 0.1,
      service_tier: 'flex',
      store: true,
      cache_control: { type: 'ephemeral' },
      web_search_options: {},
      something_new: true,
      n: 1,
      temperature: 1,
      top_p: 0.5,
    }
    const expected = ['model', 'input', 'store', 'include']
    expect(Object.keys(await bodyFor(request)).toSorted()).toEqual(expected.toSorted())
  })

  it('never asks for less than the vendor’s least, nor for what the operator omits', async () => {
    expect((await bodyFor({ max_tokens: 1 })).max_output_tokens).toBe(16)
    expect((await bodyFor({ max_tokens: 17 })).max_output_tokens).toBe(17)
    const omitted = await bodyFor({ max_tokens: 17 }, { options: { omit: ['max_output_tokens'] } })
    expect(omitted).not.toHaveProperty('max_output_tokens')
  })

  it.each([
    [{ type: 'text' }, { type: 'text' }],
    [{ type: 'json_object' }, { type: 'json_object' }],
    [
      { type: 'json_schema', json_schema: { name: 'a', schema: { type: 'object' }, strict: true } },
      { type: 'json_schema', name: 'a', schema: { type: 'object' }, strict: true },
    ],
    [
      { type: 'json_schema', json_schema: { name: 'a', schema: { type: 'object' }, strict: null } },
      { type: 'json_schema', name: 'a', schema: { type: 'object' } },
    ],
  ] satisfies [object, NonNullable<Body['text']>['format']][])(
    'format %j',
    async (given, format) => {
      expect((await bodyFor({ response_format: given })).text).toEqual({ format })
    },
  )
})

describe('reasoning', () => {
  const off = { effort: 'none' } as const
  it.each([
    ['gpt-5.4', { effort: 'high' }, { effort: 'high', summary: 'auto' }],
    ['gpt-5.4', { effort: 'max' }, { effort: 'xhigh', summary: 'auto' }],
    ['gpt-5.4', { effort: 'minimal' }, { effort: 'low', summary: 'auto' }],
    ['gpt-5.4', { effort: 'low', summary: 'detailed' }, { effort: 'low', summary: 'detailed' }],
    ['gpt-5.4', { effort: 'low', exclude: true }, { effort: 'low' }],
    ['gpt-5.4', { exclude: true }, undefined],
    ['gpt-5.4', { enabled: true }, { summary: 'auto' }],
    ['gpt-5.4', { enabled: false }, off],
    ['gpt-5.4', off, off],
    ['gpt-5-mini', off, { effort: 'minimal' }],
    ['gpt-5-codex', { effort: 'minimal' }, { effort: 'low', summary: 'auto' }],
    ['gpt-5.4-pro', { effort: 'low' }, { effort: 'medium', summary: 'auto' }],
    ['ft:o4-mini:acme', { effort: 'xhigh' }, { effort: 'high', summary: 'auto' }],
    ['gpt-4.1', { effort: 'high' }, undefined],
    ['gpt-5.4', { max_tokens: 200 }, { effort: 'low', summary: 'auto' }],
    ['gpt-5.4', { max_tokens: 500 }, { effort: 'medium', summary: 'auto' }],
    ['gpt-5.4', { max_tokens: 900 }, { effort: 'high', summary: 'auto' }],
  ] satisfies [string, object, Body['reasoning'] | undefined][])(
    'of %s, %j',
    async (model, reasoning, expected) => {
      expect((await bodyFor({ reasoning, max_tokens: 1000 }, { model })).reasoning).toEqual(
        expected,
      )
    },
  )

  it('has the levels that the operator names', async () => {
    const asked = async (effort: readonly string[]) =>
      (await bodyFor({ reasoning: { effort: 'max' } }, { options: { effort } })).reasoning
    expect(await asked(['high', 'low'])).toEqual({ effort: 'high', summary: 'auto' })
    expect(await asked([])).toEqual({ summary: 'auto' })
  })

  it('none is asked for where the client says nothing', async () => {
    expect(await bodyFor({})).not.toHaveProperty('reasoning')
  })

  it('keeps sampling options from a model that reasons', async () => {
    const request = { temperature: 0.1, top_p: 0.2, logprobs: true, top_logprobs: 1 }
    expect(Object.keys(await bodyFor(request))).toHaveLength(4)
    expect(await bodyFor(request, { model: 'gpt-4.1' })).toMatchObject({
      temperature: 0.1,
      top_p: 0.2,
      top_logprobs: 1,
      include: ['message.output_text.logprobs'],
    })
  })
})

describe('tools', () => {
  const parameters = { type: 'object', properties: { tags: { additionalProperties: {} } } }
  const find = { name: 'find', parameters }

  it('are strict only where the client says so, and vendor-run ones are never sent', async () => {
    const tools = [
      { type: 'function', function: { ...find, description: 'Finds.' }, cache_control: {} },
      { type: 'function', function: { ...find, name: 'exact', strict: true } },
      { type: 'function', function: { name: 'now', parameters: null, strict: null } },
      { type: 'custom', custom: { name: 'free' } },
      { type: 'custom', custom: { name: 'text', description: 'D', format: { type: 'text' } } },
      {
        type: 'custom',
        custom: {
          name: 'sql',
          format: { type: 'grammar', grammar: { syntax: 'regex', definition: '.+' } },
        },
      },
      { type: 'web_search' },
      { type: 'mcp', server_url: 'https://mcp.example' },
    ]
    const fn = { type: 'function', strict: false } as const
    const expected: Body['tools'] = [
      { ...fn, name: 'find', parameters, description: 'Finds.' } satisfies FunctionTool,
      { ...fn, name: 'exact', parameters, strict: true },
      { ...fn, name: 'now', parameters: { type: 'object', properties: {} } },
      { type: 'custom', name: 'free' },
      { type: 'custom', name: 'text', description: 'D', format: { type: 'text' } },
      {
        type: 'custom',
        name: 'sql',
        format: { type: 'grammar', syntax: 'regex', definition: '.+' },
      },
    ]
    const body = await bodyFor({ tools, parallel_tool_calls: false })
    expect(body.tools).toEqual(expected)
    expect(body.parallel_tool_calls).toBe(false)
  })

  it.each([
    ['auto', 'auto'],
    ['none', 'none'],
    ['required', 'required'],
    [
      { type: 'function', function: { name: 'find' } },
      { type: 'function', name: 'find' },
    ],
    [
      { type: 'custom', custom: { name: 'sql' } },
      { type: 'custom', name: 'sql' },
    ],
    [
      {
        type: 'allowed_tools',
        allowed_tools: {
          mode: 'required',
          tools: [
            { type: 'function', function: { name: 'find' } },
            { type: 'custom', custom: { name: 'sql' } },
          ],
        },
      },
      {
        type: 'allowed_tools',
        mode: 'required',
        tools: [
          { type: 'function', name: 'find' },
          { type: 'custom', name: 'sql' },
        ],
      },
    ],
  ] satisfies [unknown, Body['tool_choice']][])('choice %j', async (given, expected) => {
    const tools = [{ type: 'function', function: find }]
    expect((await bodyFor({ tools, tool_choice: given })).tool_choice).toEqual(expected)
  })

  it('may be the older functions, with results that have no ids', async () => {
    const call = (text: string) => ({ name: 'find', arguments: text })
    const body = await bodyFor({
      functions: [find],
      function_call: { name: 'find' },
      messages: [
        USER,
        { role: 'assistant', content: null, function_call: call('{"a":1}') },
        { role: 'assistant', content: null, function_call: call('{"a":2}') },
        { role: 'function', name: 'find', content: 'one' },
        { role: 'function', name: 'find', content: 'two' },
        { role: 'assistant', content: null, function_call: call('{"a":3}') },
      ],
    })
    expect(body.tool_choice).toEqual({ type: 'function', name: 'find' })
    const expected: Body['input'] = [
      HI,
      { type: 'function_call', call_id: 'call_legacy_0', name: 'find', arguments: '{"a":1}' },
      { type: 'function_call', call_id: 'call_legacy_1', name: 'find', arguments: '{"a":2}' },
      { type: 'function_call_output', call_id: 'call_legacy_0', output: 'one' },
      { type: 'function_call_output', call_id: 'call_legacy_1', output: 'two' },
      { type: 'function_call', call_id: 'call_legacy_2', name: 'find', arguments: '{"a":3}' },
      { type: 'function_call_output', call_id: 'call_legacy_2', output: '(no result)' },
    ]
    expect(body.input).toEqual(expected)
  })
})

describe('messages', () => {
  const said = (text: string): Item => ({
    type: 'message',
    role: 'assistant',
    status: 'completed',
    content: [{ type: 'output_text', text, annotations: [] }],
  })

  it('keep their order and roles, and lose what only the gateway has', async () => {
    const text = (text: string) => [{ type: 'input_text' as const, text }]
    const expected: Body['input'] = [
      { type: 'message', role: 'system', content: text('A') },
      { type: 'message', role: 'developer', content: text('B') },
      HI,
      { ...said('Hello'), phase: 'commentary' } as Item,
      { type: 'message', role: 'system', content: text('C') },
      { type: 'message', role: 'user', content: [...text('D'), ...text('E')] },
      {
        type: 'message',
        role: 'assistant',
        status: 'completed',
        content: [{ type: 'refusal', refusal: 'No.' }],
      },
      said('Once upon a'),
    ]
    const messages = [
      { role: 'system', content: 'A' },
      { role: 'developer', content: 'B' },
      { ...USER, name: 'maria', id: 'm1' },
      { role: 'assistant', content: 'Hello', phase: 'commentary', annotations: [], reasoning: 'x' },
      { role: 'system', content: 'C' },
      {
        role: 'user',
        content: [
          { type: 'text', text: '' },
          { type: 'text', text: 'D', cache_control: { type: 'ephemeral' } },
          { type: 'text', text: 'E' },
        ],
      },
      { role: 'assistant', content: null, refusal: 'No.' },
      // An answer that the model should continue.
      { role: 'assistant', content: 'Once upon a' },
    ]
    expect(await inputFor(messages)).toEqual(expected)
  })

  it('that are blank stay where they are the user’s', async () => {
    const blank: Item = {
      type: 'message',
      role: 'user',
      content: [{ type: 'input_text', text: '' }],
    }
    const messages = [
      { role: 'user', content: '' },
      { role: 'assistant', content: '' },
      {
        role: 'user',
        content: [
          { type: 'text', text: '' },
          { type: 'text', text: '' },
        ],
      },
    ]
    expect(await inputFor(messages)).toEqual([blank, blank])
  })

  it('may have images and files as data, base64 or addresses', async () => {
    const pdf = Buffer.from('%PDF-1.7').toString('base64')
    const part = (file: object) => ({ type: 'file', file })
    const content = [
      { type: 'image_url', image_url: { url: 'https://a.example/i.png', detail: 'low' } },
      { type: 'image_url', image_url: 'data:image/png;base64,iVBORw0=' },
      part({ file_data: `data:application/pdf;base64,${pdf}`, filename: 'a.pdf' }),
      part({ file_data: `data:application/pdf;base64,${pdf}` }),
      part({ file_data: 'data:text/csv;base64,YQ==' }),
      {
        ...part({ file_data: 'https://a.example/a.pdf', filename: 'a.pdf' }),
        prompt_cache_breakpoint: { mode: 'explicit' },
      },
    ]
    const file = (filename: string, file_data: string) => ({
      type: 'input_file' as const,
      filename,
      file_data,
    })
    const expected: Item = {
      type: 'message',
      role: 'user',
      content: [
        { type: 'input_image', image_url: 'https://a.example/i.png', detail: 'low' },
        { type: 'input_image', image_url: 'data:image/png;base64,iVBORw0=', detail: 'auto' },
        file('a.pdf', `data:application/pdf;base64,${pdf}`),
        file('file.pdf', `data:application/pdf;base64,${pdf}`),
        file('file.csv', 'data:text/csv;base64,YQ=='),
        {
          type: 'input_file',
          file_url: 'https://a.example/a.pdf',
          prompt_cache_breakpoint: { mode: 'explicit' },
        },
      ],
    }
    expect(await inputFor([{ role: 'user', content }])).toEqual([expected])
  })

  it('with calls have a result for each, of any form, after the others', async () => {
    const fn = (id: string, text = '{}') => ({
      id,
      type: 'function',
      function: { name: 'find', arguments: text },
    })
    const long = 'x'.repeat(65)
    const messages = [
      USER,
      {
        role: 'assistant',
        content: 'Both.',
        tool_calls: [
          fn('call_1', '{"n":12345678901234567890}'),
          { id: 'call_2', type: 'custom', custom: { name: 'sql', input: 'SELECT 1' } },
          { ...fn('call_3'), namespace: 'crm' },
          fn(long),
        ],
      },
      { role: 'tool', tool_call_id: long, content: '' },
      {
        role: 'tool',
        tool_call_id: 'call_2',
        content: [
          { type: 'text', text: 'One row.' },
          { type: 'text', text: '' },
          { type: 'image_url', image_url: { url: 'https://a.example/i.png' } },
        ],
        is_error: true,
      },
      USER,
      { role: 'tool', tool_call_id: 'call_1', content: 'late' },
      { role: 'assistant', content: null, tool_calls: [fn('call_1')] },
      { role: 'tool', tool_call_id: 'call_unknown', content: 'passed on' },
    ]
    const call = (call_id: string, text = '{}') =>
      ({ type: 'function_call', call_id, name: 'find', arguments: text }) as const
    const short: string = expect.stringMatching(/^call_[\da-f]{32}$/)
    const expected: Body['input'] = [
      HI,
      said('Both.'),
      call('call_1', '{"n":12345678901234567890}'),
      { type: 'custom_tool_call', call_id: 'call_2', name: 'sql', input: 'SELECT 1' },
      { ...call('call_3'), namespace: 'crm' },
      call(short),
      { type: 'function_call_output', call_id: short, output: '' },
      {
        type: 'custom_tool_call_output',
        call_id: 'call_2',
        output: [
          { type: 'input_text', text: '(the tool failed)' },
          { type: 'input_text', text: 'One row.' },
          { type: 'input_image', image_url: 'https://a.example/i.png', detail: 'auto' },
        ],
      },
      { type: 'function_call_output', call_id: 'call_3', output: '(no result)' },
      HI,
      { type: 'function_call_output', call_id: 'call_1', output: 'late' },
      call('call_1'),
      { type: 'function_call_output', call_id: 'call_unknown', output: 'passed on' },
      { type: 'function_call_output', call_id: 'call_1', output: '(no result)' },
    ]
    const input = await inputFor(messages)
    expect(input).toEqual(expected)
    const ids = input.flatMap((item) => ('call_id' in item ? [item.call_id as string] : []))
    expect(ids[3]).toBe(ids[4])
  })

  it.each([
    [
      {
        role: 'user',
        content: [{ type: 'input_audio', input_audio: { data: 'aGk=', format: 'wav' } }],
      },
      'messages[1].content[0]',
    ],
    [
      {
        role: 'assistant',
        content: [{ type: 'image_url', image_url: { url: 'https://a.example' } }],
      },
      'messages[1].content[0]',
    ],
  ])('with %j are refused, and the field is named', async (message, param) => {
    expect(await refusalOf({ messages: [USER, message] })).toMatchObject({
      failure: 'bad_request',
      status: 400,
      code: 'unsupported_parameter',
      param,
    })
  })

  it('are not answered more than once', async () => {
    expect(await refusalOf({ n: 2 })).toMatchObject({
      failure: 'bad_request',
      code: 'unsupported_parameter',
      param: 'n',
    })
  })
})

describe('reasoning that comes back', () => {
  const entry = (index: number, members: object) => ({
    format: 'openai-responses-v1',
    index,
    ...members,
  })
  const details = [
    entry(0, { type: 'reasoning.summary', id: 'rs_1', summary: 'One.' }),
    entry(1, { type: 'reasoning.summary', id: 'rs_1', summary: '\n\nTwo.' }),
    entry(2, { type: 'reasoning.encrypted', id: 'rs_1', data: 'gAAA+/1==' }),
    entry(3, { type: 'reasoning.encrypted', id: 'rs_2', data: 'gAAA+/2==' }),
    entry(4, { type: 'reasoning.summary', id: 'rs_3', summary: '\n\nNever encrypted.' }),
    {
      type: 'reasoning.text',
      text: 'Claude’s',
      signature: 's',
      format: 'anthropic-claude-v1',
      index: 5,
    },
  ]
  const items: Body['input'] = [
    {
      type: 'reasoning',
      summary: [
        { type: 'summary_text', text: 'One.' },
        { type: 'summary_text', text: 'Two.' },
      ],
      encrypted_content: 'gAAA+/1==',
    },
    { type: 'reasoning', summary: [], encrypted_content: 'gAAA+/2==' },
  ]
  const answered = (reasoning_details: readonly object[], content: string | null = 'Yes.') => [
    USER,
    { role: 'assistant', content, refusal: null, reasoning_details, tool_calls: [] },
  ]
  const reasoningIn = (input: Body['input']) => input.filter(({ type }) => type === 'reasoning')

  it('is in front of what was said, without ids', async () => {
    const input = await inputFor(answered(details))
    expect(input.slice(1, 3)).toEqual(items)
    expect(JSON.stringify(input)).not.toMatch(/"id"|rs_|Claude|Never/)
  })

  it('may be in the pieces of a stream', async () => {
    const pieces = [
      entry(0, { type: 'reasoning.summary', id: 'rs_1', summary: 'O' }),
      { type: 'reasoning.summary', summary: 'ne.', index: 0 },
      ...details.slice(1),
    ]
    expect(reasoningIn(await inputFor(answered(pieces)))).toEqual(items)
  })

  it('is only given to the vendor that made it, and only where it may be', async () => {
    const messages = answered(details)
    expect(reasoningIn(await inputFor(messages, { plugin: azure }))).toEqual([])
    const own = details.map((one) => ({ ...one, format: 'azure-openai-responses-v1' }))
    expect(reasoningIn(await inputFor(answered(own), { plugin: azure }))).toEqual(items)
    expect(reasoningIn(await inputFor(messages, { plugin: compatible }))).toEqual(items)
    const options = { replayReasoning: false }
    expect(reasoningIn(await inputFor(messages, { options }))).toEqual([])
    // The vendor refuses reasoning that nothing follows.
    expect(await inputFor(answered(details, ''))).toEqual([HI])
  })
})
