/** What each profile makes of conversations and tools that its vendor does not take as they are. */
import { describe, expect, it } from 'vitest'
import openaiCompatible from '../../../providers/openai-compatible.ts'
import { UpstreamFailure } from '../../../src/errors/errors.ts'
import type { ChatInput } from '../../../src/plugin.ts'
import type { Downloader } from '../../../src/upstream/download.ts'
import type { RequestOptions } from '../_chat.ts'
import { vendorOf } from '../_vendor.ts'

const vendor = vendorOf()
const PNG = Buffer.from('\x89PNG', 'latin1')
const fetched: string[] = []

/** The body that a vendor of this profile receives. */
async function body(
  quirks: string | undefined,
  input: Partial<ChatInput>,
  how?: RequestOptions,
): Promise<any> {
  fetched.length = 0
  const options = quirks ? { quirks } : {}
  const download: Downloader = async (url) => {
    fetched.push(url)
    return { bytes: PNG, contentType: 'text/plain' }
  }
  return (await vendor.sent(openaiCompatible, { options, input, how, download })).json
}

async function messagesFor(quirks: string | undefined, messages: readonly object[], how?: object) {
  return (await body(quirks, { messages: messages as ChatInput['messages'] }, how)).messages
}

/** The refusal of a request that reaches no vendor. */
async function refusalOf(...request: Parameters<typeof body>): Promise<UpstreamFailure> {
  const before = vendor.upstream.requests.length
  const error: unknown = await body(...request).catch((thrown: unknown) => thrown)
  expect(vendor.upstream.requests).toHaveLength(before)
  if (!UpstreamFailure.is(error)) throw new Error('expected a refusal')
  expect(error).toMatchObject({ status: 400, code: 'unsupported_parameter' })
  return error
}

const fn = (name: string) => ({ type: 'function', function: { name } })
const call = (id: string, name = 'weather') => ({
  id,
  type: 'function',
  function: { name, arguments: '{}' },
})
const calling = (...ids: string[]) => ({
  role: 'assistant',
  content: null,
  tool_calls: ids.map((id) => call(id)),
})
const result = (tool_call_id: string, content: unknown) => ({ role: 'tool', tool_call_id, content })
const user = (content: unknown) => ({ role: 'user', content })

describe('members that no vendor is known to have', () => {
  const extra = { extra: { deep: 1 } }
  const input = {
    messages: [
      {
        ...user([
          { type: 'text', text: 'Hi', ...extra },
          { type: 'image_url', image_url: { url: 'https://a.example/i.png', ...extra }, ...extra },
          {
            type: 'file',
            file: { file_data: 'data:text/csv;base64,YQ==', filename: 'a', ...extra },
          },
        ]),
        ...extra,
      },
      {
        ...calling(),
        tool_calls: [{ ...call('a'), function: { ...call('a').function, ...extra }, ...extra }],
      },
      { ...result('a', 'x'), ...extra },
    ] as unknown as ChatInput['messages'],
    tools: [
      { ...fn('weather'), function: { name: 'weather', parameters: extra, ...extra }, ...extra },
    ],
    tool_choice: { ...fn('weather'), ...extra },
    response_format: {
      type: 'json_schema',
      json_schema: { name: 'x', schema: { type: 'object', ...extra }, ...extra },
      ...extra,
    },
    ...extra,
  }
  const HOSTED = ['openai', 'groq', 'xai', 'together', 'moonshot', 'google']

  it.each(HOSTED)('do not reach %s at any depth', async (row) => {
    const sent = await body(row, input)
    // Schemas are the client’s own.
    const { parameters } = sent.tools[0].function
    const { schema } = sent.response_format.json_schema
    expect(parameters).toEqual(extra)
    expect(schema).toEqual({ type: 'object', ...extra })
    expect(JSON.stringify(sent).split('"extra"')).toHaveLength(3)
  })

  it.each([undefined, 'openrouter', 'vllm', 'ollama', 'llamacpp', 'lmstudio'])(
    'reach %s as they are',
    async (row) => {
      const { tool_choice, ...others } = input
      const sent = await body(row, row === 'ollama' ? others : { ...others, tool_choice })
      expect(sent.extra).toEqual(extra.extra)
      expect(sent.messages[0].extra).toEqual(extra.extra)
      expect(sent.messages[1].tool_calls[0].extra).toEqual(extra.extra)
      expect(sent.tools[0].function.extra).toEqual(extra.extra)
    },
  )

  it('are cache breakpoints only where the vendor is OpenAI', async () => {
    const prompt_cache_breakpoint = { mode: 'explicit' }
    const messages = [user([{ type: 'text', text: 'Hi', prompt_cache_breakpoint }])]
    expect(await messagesFor('openai', messages)).toEqual(messages)
    expect(await messagesFor('groq', messages)).toEqual([user([{ type: 'text', text: 'Hi' }])])
  })
})

describe('calls and results', () => {
  const scattered = [
    user('Both?'),
    calling('a', 'b', 'c'),
    result('b', 'B'),
    user('And?'),
    result('a', 'A'),
    result('z', 'stray'),
  ]

  it('come together, and each call has a result', async () => {
    for (const row of ['groq', 'deepseek', 'openrouter', 'vllm', 'llamacpp']) {
      const messages = await messagesFor(row, scattered, { options: { replayReasoning: false } })
      expect(messages, row).toEqual([
        scattered[0],
        scattered[1],
        result('b', 'B'),
        result('a', 'A'),
        { role: 'tool', tool_call_id: 'c', content: '(no result)' },
        scattered[3],
        result('z', 'stray'),
      ])
    }
  })

  it('stay where they are at OpenAI and at unknown vendors', async () => {
    expect(await messagesFor('openai', scattered)).toEqual(scattered)
    expect(await messagesFor(undefined, scattered)).toEqual(scattered)
  })

  it('of the older form become tools with ids, except at OpenAI', async () => {
    const function_call = { name: 'weather', arguments: '{}' }
    const older = [
      { role: 'assistant', content: null, function_call },
      { role: 'function', name: 'weather', content: 'Rain.' },
    ]
    const newer = [
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'call_legacy_0', type: 'function', function: function_call }],
      },
      { role: 'tool', tool_call_id: 'call_legacy_0', name: 'weather', content: 'Rain.' },
    ]
    expect(await messagesFor('openai', older)).toEqual(older)
    expect(await messagesFor(undefined, older)).toEqual(newer)
    expect(await messagesFor('groq', older)).toEqual(newer)
  })

  it('are texts where the vendor takes texts only', async () => {
    const parts = [
      { type: 'text', text: 'Rain.' },
      { type: 'text', text: 'Wind.' },
    ]
    const given = [user(parts), calling('a'), result('a', parts)]
    const options = { replayReasoning: false }
    const contents = async (row: string) =>
      (await messagesFor(row, given, { options })).map((one: any) => one.content)
    expect(await contents('together')).toEqual([parts, null, 'Rain.\nWind.'])
    expect(await contents('deepseek')).toEqual(['Rain.\nWind.', null, 'Rain.\nWind.'])
    expect(await contents('groq')).toEqual([parts, null, parts])
  })

  it('without a text have an empty one', async () => {
    const given = [user('?'), calling('a'), result('a', null)]
    for (const row of [undefined, 'openai', 'groq']) {
      expect((await messagesFor(row, given)).at(-1)).toEqual(result('a', ''))
    }
  })

  it('are followed by an answer where the operator says so', async () => {
    const given = [user('?'), calling('a'), result('a', 'A'), user('And?')]
    const how = { options: { bridgeTools: true } }
    expect((await messagesFor('llamacpp', given, how)).slice(-2)).toEqual([
      { role: 'assistant', content: '(The results are in.)' },
      user('And?'),
    ])
  })
})

describe('a choice of tools', () => {
  const tools = [fn('weather'), fn('time')]
  const allowed = (mode: string) => ({
    type: 'allowed_tools',
    allowed_tools: { mode, tools: [fn('time')] },
  })

  it('among allowed ones is a shorter list, except at OpenAI', async () => {
    expect(await body('openai', { tools, tool_choice: allowed('auto') })).toMatchObject({ tools })
    for (const row of [undefined, 'groq', 'mistral', 'vllm']) {
      const auto = await body(row, { tools, tool_choice: allowed('auto') })
      expect(auto.tools.map((one: any) => one.function.name)).toEqual(['time'])
      expect(auto.tool_choice).toBe('auto')
      const required = await body(row, { tools, tool_choice: allowed('required') })
      expect(required.tools).toHaveLength(1)
      expect(required.tool_choice).toBe('required')
    }
  })

  it.each([
    ['deepseek', 'deepseek-chat', { thinking: { type: 'disabled' } }],
    ['moonshot', 'kimi-k2.6', { thinking: { type: 'disabled' } }],
    ['alibaba', 'qwen-plus', { enable_thinking: false }],
  ])('that forces a call turns reasoning off at %s', async (row, model, off) => {
    const reasoning = { effort: 'high' } as const
    for (const tool_choice of ['required', fn('time'), allowed('required')]) {
      const sent = await body(row, { tools, tool_choice, reasoning }, { model })
      expect(sent).toMatchObject(off)
      expect(sent).not.toHaveProperty('reasoning_effort')
      expect(await body(row, { tools, tool_choice }, { model })).toMatchObject(off)
    }
    const free = await body(row, { tools, tool_choice: allowed('auto'), reasoning }, { model })
    expect(free).not.toMatchObject(off)
  })

  it.each([
    ['deepseek', 'deepseek-reasoner'],
    ['moonshot', 'kimi-k2-thinking'],
    ['alibaba', 'qwen3-235b-a22b-thinking-2507'],
    ['ollama', 'llama3.3'],
  ])('that forces a call is refused where %s has %s', async (row, model) => {
    const { param, message } = await refusalOf(row, { tools, tool_choice: 'required' }, { model })
    expect(param).toBe('tool_choice')
    expect(message).toMatch(/auto or none/)
  })

  it('is honoured by an Ollama that the operator knows to', async () => {
    const how = { options: { forcedTools: true } }
    expect((await body('ollama', { tools, tool_choice: 'required' }, how)).tool_choice).toBe(
      'required',
    )
    expect(await body('ollama', { tools, tool_choice: 'none' }, how)).toMatchObject({ tools })
    expect(await body('ollama', { tools, tool_choice: 'none' })).not.toHaveProperty('tools')
  })
})

describe('files and images', () => {
  const url = 'https://a.example/a.pdf'
  const image = { type: 'image_url', image_url: { url: 'https://a.example/i.png' } }
  const file = { type: 'file', file: { file_data: url } }
  const content = async (row: string | undefined) =>
    (await messagesFor(row, [user([image, file])]))[0].content
  const data = `data:image/png;base64,${PNG.toString('base64')}`

  it('at addresses are fetched where the vendor takes none', async () => {
    const asFile = { type: 'file', file: { filename: 'file.png', file_data: data } }
    for (const row of [undefined, 'openai', 'groq', 'xai', 'vllm']) {
      expect(await content(row)).toEqual([image, asFile])
      expect(fetched).toEqual([url])
    }
    expect(await content('ollama')).toEqual([
      { type: 'image_url', image_url: { url: data } },
      asFile,
    ])
    expect(fetched).toEqual([image.image_url.url, url])
    expect(await content('openrouter')).toEqual([image, file])
    expect((await content('mistral'))[1]).toEqual({ type: 'document_url', document_url: url })
    expect(fetched).toEqual([])
  })

  it('that the vendor has no use for are refused by their place', async () => {
    const messages = [user('Hi'), user([image])] as unknown as ChatInput['messages']
    expect((await refusalOf('deepseek', { messages })).param).toBe('messages[1].content[0]')
  })

  it('as sound are base64', async () => {
    const sound = (bytes: string) => ({
      type: 'input_audio',
      input_audio: { data: bytes, format: 'wav' },
    })
    const given = [user([sound('UklG')])]
    expect((await messagesFor('openai', given))[0].content).toEqual([sound('UklG')])
    expect((await messagesFor('mistral', given))[0].content).toEqual([
      { type: 'input_audio', input_audio: 'UklG' },
    ])
  })
})

describe('what changes the answer and is not there', () => {
  it.each(['groq', 'deepseek', 'cerebras', 'perplexity', 'ollama', 'llamacpp', 'lmstudio'])(
    'is several answers at %s',
    async (row) => {
      const { param, message } = await refusalOf(row, { n: 2 })
      expect([param, message]).toEqual(['n', expect.stringContaining('one answer')])
      expect(await body(row, { n: 1 })).toBeDefined()
    },
  )

  it.each(['groq', 'mistral', 'moonshot', 'perplexity'])(
    'is log probabilities at %s',
    async (row) => {
      const { param, message } = await refusalOf(row, { logprobs: true })
      expect([param, message]).toEqual(['logprobs', expect.stringContaining('no log prob')])
      expect(await body(row, { logprobs: false })).not.toHaveProperty('logprobs')
    },
  )

  it('is tools at Perplexity', async () => {
    const { param } = await refusalOf('perplexity', { tools: [fn('time')] })
    expect(param).toBe('tools')
  })
})
