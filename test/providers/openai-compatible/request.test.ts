import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import openaiCompatible from '../../../providers/openai-compatible.ts'
import {
  toMessages,
  type MessageQuirks,
  type Replay,
} from '../../../providers/openai-compatible/content.ts'
import { ROW_NAMES } from '../../../providers/openai-compatible/rows.ts'
import type { ChatInput, ChatMessage } from '../../../src/plugin.ts'
import { events, startUpstream } from '../../upstream.ts'
import { setUp, type RequestOptions } from '../_chat.ts'
import { CHAT_ANSWER, vendorOf } from '../_vendor.ts'
import { runs } from '../../_runs.ts'

const vendor = vendorOf(CHAT_ANSWER, '/v1')

/** The request that a vendor of this row receives. */
const sent = (options: object, input: Partial<ChatInput>, how?: RequestOptions) =>
  vendor.sent(openaiCompatible, { options, input, how })

async function body(quirks: string | undefined, input: Partial<ChatInput>, how?: RequestOptions) {
  return (await sent(quirks ? { quirks } : {}, input, how)).json
}

const weather = { type: 'function', function: { name: 'weather', parameters: { type: 'object' } } }
const call = (id: string) => ({
  id,
  type: 'function',
  function: { name: 'weather', arguments: '{}' },
})
const thought = {
  type: 'reasoning.text',
  text: 'hm',
  signature: 'sig',
  format: 'anthropic-claude-v1',
  index: 0,
} as const
const TOOL_LOOP: ChatInput['messages'] = [
  { role: 'user', content: 'Weather?' },
  {
    role: 'assistant',
    content: null,
    tool_calls: [call('call_1')],
    reasoning: 'hm',
    reasoning_details: [thought],
    annotations: [],
  },
  { role: 'tool', tool_call_id: 'call_1', content: 'sunny' },
]

describe('messages without a change', () => {
  const part = fc.constantFrom(
    { type: 'text', text: 'a' },
    { type: 'text', text: 'a', cache_control: { type: 'ephemeral' } },
    { type: 'image_url', image_url: { url: 'https://a.example/b.png', detail: 'low' } },
    { type: 'image_url', image_url: { url: 'https://a.example/b.png', detail: 'original' } },
    { type: 'file', file: { file_data: 'data:application/pdf;base64,AA==', filename: 'a.pdf' } },
    { type: 'file', file: { file_data: 'AA==' } },
    { type: 'file', file: { file_id: 'file-1' } },
    { type: 'refusal', refusal: 'No.' },
  )
  const message = fc.record(
    {
      role: fc.constantFrom('system', 'developer', 'user', 'assistant', 'tool'),
      content: fc.oneof(
        fc.constantFrom('Hi.', '', null),
        fc.array(part, { minLength: 1, maxLength: 3 }),
      ),
      name: fc.constant('ann'),
      tool_calls: fc.constantFrom([], [call('call_1')]),
      refusal: fc.constantFrom('', 'No.'),
      reasoning: fc.constantFrom('', 'hm'),
      reasoning_details: fc.constantFrom([], [thought]),
      annotations: fc.constant([]),
      cache_control: fc.constantFrom('', { type: 'ephemeral' }),
    },
    { requiredKeys: ['role'] },
  ) as fc.Arbitrary<ChatMessage>
  const quirks = fc.constantFrom<MessageQuirks[]>(
    {},
    { current: true },
    { cacheControl: true },
    { current: true, cacheControl: true, annotations: true },
  )
  const replay = fc.constantFrom<(Replay | undefined)[]>(
    undefined,
    'reasoning_content',
    'reasoning',
    'reasoning_details',
    'think-tags',
    'thinking-parts',
    'thought-signature',
  )

  it('are passed on unchanged, or converted with the same content', () => {
    fc.assert(
      fc.property(message, quirks, replay, (one, row, place) => {
        const how = place && { place }
        const given = [one]
        const before = JSON.stringify(given)
        const taken = toMessages(given, row, how)
        // A member that no vendor accepts, so none of these messages can stay as it is.
        const marked = (value: any) => ({ ...value, cache_control: value.cache_control ?? false })
        const { content } = one
        const parts = Array.isArray(content) ? { content: content.map(marked) } : {}
        const made = toMessages([marked({ ...one, ...parts })], row, how)
        expect(made[0]).not.toBe(one)
        expect(JSON.parse(JSON.stringify(taken))).toEqual(JSON.parse(JSON.stringify(made)))
        expect(taken === given).toBe(taken[0] === one)
        expect(JSON.stringify(given)).toBe(before)
      }),
      { numRuns: runs(700) },
    )
  })

  it('keep their list', () => {
    const messages: ChatMessage[] = [
      { role: 'system', content: 'Be kind.' },
      { role: 'user', content: [{ type: 'text', text: 'Weather?' }] },
      { role: 'assistant', content: null, tool_calls: [call('call_1')] },
      { role: 'tool', tool_call_id: 'call_1', content: 'sunny' },
    ]
    expect(toMessages(messages, {}, undefined)).toBe(messages)
  })
})

describe('the request', () => {
  it('goes to the right place, with the key and the headers of the operator', async () => {
    const headers = { 'X-Title': 'us', Accept: 'x/y' }
    const { method, path, headers: got } = await sent({ apiKey: 'sk-1', headers }, {})
    expect([method, path]).toEqual(['POST', '/v1/chat/completions'])
    expect(got).toMatchObject({
      authorization: 'Bearer sk-1',
      'content-type': 'application/json',
      'x-title': 'us',
      accept: 'x/y',
    })
  })

  it('carries no key where there is none', async () => {
    expect((await sent({}, {})).headers).not.toHaveProperty('authorization')
    expect((await sent({ apiKey: '' }, {})).headers).not.toHaveProperty('authorization')
  })

  it('is passed on in OpenAI’s form', async () => {
    const input = {
      messages: [
        {
          role: 'user',
          content: [{ type: 'text', text: 'Hi', cache_control: { type: 'ephemeral' } }],
        },
      ],
      temperature: 0.5,
      max_completion_tokens: 100,
      tools: [{ ...weather, cache_control: { type: 'ephemeral' } }],
      cache_control: { type: 'ephemeral' },
      unknown_extra: { deep: [1] },
    } as const
    expect(await body(undefined, input, { model: 'some-model' })).toEqual({
      ...input,
      model: 'some-model',
    })
  })

  it('asks for usage in streams only', async () => {
    expect(await body(undefined, { stream: true })).toMatchObject({
      stream: true,
      stream_options: { include_usage: true },
    })
    expect(await body(undefined, { stream: false })).not.toHaveProperty('stream_options')
  })

  it('leaves out the members that the operator omits', async () => {
    const options = { omit: ['temperature', 'max_tokens', 'stream_options'] }
    const input = { temperature: 1, max_completion_tokens: 5, stream: true, top_p: 1 }
    const got = await body('vllm', input, { options })
    expect(got).not.toHaveProperty('temperature')
    expect(got).not.toHaveProperty('max_tokens')
    expect(got).not.toHaveProperty('stream_options')
    expect(got.top_p).toBe(1)
  })

  it('has no member for what the vendor does beside the answer, at a price of its own', async () => {
    const given = {
      deferred: true,
      search_parameters: { mode: 'on' },
      enable_search: true,
      search_options: { forced_search: true },
      enable_code_interpreter: true,
      compound_custom: { models: { answering_model: 'dear' } },
    }
    for (const row of ['xai', 'alibaba', 'groq']) {
      const got = await body(row, given)
      for (const name in given) expect(got, row).not.toHaveProperty(name)
    }
  })

  it('lets no client choose a preset of the operator, which may name another model', async () => {
    const got = await body('openrouter', { preset: 'dear', speed: 'fast', trace: { a: 1 } })
    expect(got).not.toHaveProperty('preset')
    expect(got).not.toHaveProperty('speed')
    expect(got.trace).toEqual({ a: 1 })
  })

  it('sends the session id to routers only', async () => {
    expect(await body(undefined, { session_id: 's' })).not.toHaveProperty('session_id')
    expect((await body('openrouter', { session_id: 's' })).session_id).toBe('s')
    const { prompt_cache_key, ...rest } = await body('openai', { session_id: 's' })
    expect(prompt_cache_key).toMatch(/^[0-9a-f]{32}$/)
    expect(rest).not.toHaveProperty('session_id')
    const own = await body('openai', { session_id: 's', prompt_cache_key: 'mine' })
    expect(own.prompt_cache_key).toBe('mine')
    expect(await body('groq', { session_id: 's' })).not.toHaveProperty('prompt_cache_key')
    expect(await body('openai', {})).not.toHaveProperty('prompt_cache_key')
  })
})

describe('members of the request per vendor', () => {
  const FULL = {
    stream: true,
    max_completion_tokens: 100,
    temperature: 1.5,
    seed: 1,
    top_k: 5,
    min_p: 0.1,
    user: 'u',
    metadata: { a: 'b' },
    logit_bias: { 5: 1 },
    cache_control: { type: 'ephemeral' },
    tools: [{ ...weather, cache_control: { type: 'ephemeral' } }],
    unheard_of: true,
  }

  const MAX_TOKENS =
    'alibaba deepinfra deepseek hosted llamacpp lmstudio mistral moonshot ollama perplexity together vllm zai'
  const STRICT =
    'alibaba cerebras deepinfra deepseek google groq hosted mistral moonshot openai perplexity together xai zai'
  const NO_STREAM_OPTIONS = 'mistral perplexity'

  it.each(ROW_NAMES)('%s', async (row) => {
    const got = await body(row, { ...FULL, tool_choice: row === 'perplexity' ? 'none' : 'auto' })
    const has = (list: string) => list.split(' ').includes(row)
    const [kept, gone] = has(MAX_TOKENS)
      ? ['max_tokens', 'max_completion_tokens']
      : ['max_completion_tokens', 'max_tokens']
    expect(got[kept]).toBe(100)
    expect(got).not.toHaveProperty(gone)
    expect(got.stream_options?.include_usage).toBe(has(NO_STREAM_OPTIONS) ? undefined : true)
    expect(got.unheard_of).toBe(has(STRICT) ? undefined : true)
    expect(JSON.stringify(got).includes('cache_control')).toBe(row === 'openrouter')
    expect(got.metadata).toEqual(has('openai openrouter') ? { a: 'b' } : undefined)
    expect(got.min_p).toBe(
      has('deepinfra hosted llamacpp lmstudio ollama openrouter together vllm zai')
        ? 0.1
        : undefined,
    )
    expect(got.temperature).toBe(row === 'moonshot' ? 1 : 1.5)
    const seed = got[row === 'mistral' ? 'random_seed' : 'seed']
    expect(seed).toBe(has('deepseek moonshot perplexity') ? undefined : 1)
    expect(got.model).toBe('m')
  })

  it('no sampling parameters that a reasoning model refuses', async () => {
    const input = { temperature: 1, top_p: 1, presence_penalty: 1, stop: ['x'] }
    const ask = (row: string, model: string, more = {}) =>
      body(row, { ...input, ...more }, { model })
    for (const model of ['o3-mini', 'gpt-5-nano', 'gpt-6.1-x']) {
      expect(await ask('openai', model)).toEqual({
        model,
        messages: expect.anything(),
        stop: ['x'],
      })
    }
    expect(await ask('openai', 'gpt-4o')).toMatchObject(input)
    expect(await ask('openai', 'gpt-5-chat-latest')).toMatchObject(input)
    const off = { reasoning: { effort: 'none' } as const }
    expect(await ask('openai', 'gpt-5.1', off)).toMatchObject({
      ...input,
      reasoning_effort: 'none',
    })
    expect(await ask('xai', 'grok-4')).not.toHaveProperty('stop')
    expect(await ask('xai', 'grok-4-1-fast-non-reasoning')).toMatchObject(input)
  })

  it('a schema in the prompt where only JSON mode is supported', async () => {
    const schema = { type: 'object', properties: { a: { type: 'string' } } }
    const response_format = { type: 'json_schema', json_schema: { name: 'x', schema } }
    const got = await body('deepseek', { response_format })
    expect(got.response_format).toEqual({ type: 'json_object' })
    expect(got.messages[0]).toMatchObject({
      role: 'system',
      content: expect.stringContaining(JSON.stringify(schema)),
    })
    expect((await body('vllm', { response_format })).response_format).toEqual(response_format)
  })
})

describe('reasoning', () => {
  const off = { enabled: false }
  it.each([
    [undefined, 'm', { effort: 'high' }, { reasoning_effort: 'high' }],
    ['openai', 'o3', { effort: 'max' }, { reasoning_effort: 'high' }],
    ['openai', 'o3', off, { reasoning_effort: 'low' }],
    ['openai', 'gpt-5.1', off, { reasoning_effort: 'none' }],
    ['openai', 'gpt-4.1', { effort: 'high' }, {}],
    ['openai', 'o3', { max_tokens: 10 }, { reasoning_effort: 'low' }],
    ['openai', 'o3', { max_tokens: 50 }, { reasoning_effort: 'medium' }],
    ['openai', 'o3', { max_tokens: 80 }, { reasoning_effort: 'high' }],
    ['openai', 'o3', { enabled: true }, {}],
    ['groq', 'openai/gpt-oss-120b', { effort: 'minimal' }, { reasoning_effort: 'low' }],
    [
      'groq',
      'openai/gpt-oss-120b',
      { effort: 'high', exclude: true },
      { reasoning_effort: 'high', include_reasoning: false },
    ],
    [
      'groq',
      'qwen/qwen3-32b',
      { effort: 'high' },
      { reasoning_effort: 'default', reasoning_format: 'parsed' },
    ],
    [
      'groq',
      'qwen/qwen3-32b',
      { effort: 'none' },
      { reasoning_effort: 'none', reasoning_format: 'parsed' },
    ],
    [
      'deepseek',
      'm',
      { effort: 'medium' },
      { thinking: { type: 'enabled' }, reasoning_effort: 'high' },
    ],
    ['deepseek', 'm', off, { thinking: { type: 'disabled' } }],
    ['xai', 'grok-3-mini', { effort: 'xhigh' }, { reasoning_effort: 'high' }],
    ['xai', 'grok-3-mini-fast', off, { reasoning_effort: 'low' }],
    ['xai', 'grok-4.3', off, { reasoning_effort: 'none' }],
    ['xai', 'grok-4.3', { effort: 'xhigh' }, { reasoning_effort: 'high' }],
    ['xai', 'grok-4.6-fast', { effort: 'max' }, { reasoning_effort: 'xhigh' }],
    ['xai', 'grok-5', { effort: 'xhigh' }, { reasoning_effort: 'xhigh' }],
    ['xai', 'grok-latest', { effort: 'minimal' }, { reasoning_effort: 'low' }],
    ['xai', 'grok-4.20-multi-agent', { effort: 'low' }, { reasoning_effort: 'low' }],
    ...['grok-3', 'grok-4', 'grok-4-fast-reasoning', 'grok-4-1-fast', 'grok-code-fast-1'].map(
      (model) => ['xai', model, { effort: 'high' }, {}] as const,
    ),
    ['xai', 'grok-4.20-reasoning', off, {}],
    ['together', 'm', { effort: 'high' }, { reasoning: { enabled: true } }],
    ['together', 'openai/gpt-oss-20b', { effort: 'high' }, { reasoning_effort: 'high' }],
    ['vllm', 'm', off, { chat_template_kwargs: { enable_thinking: false } }],
    ['llamacpp', 'gpt-oss-20b', { effort: 'low' }, { reasoning_effort: 'low' }],
    ['ollama', 'm', { effort: 'none' }, { reasoning_effort: 'none' }],
    ['cerebras', 'zai-glm-4.7', off, { disable_reasoning: true }],
    ['cerebras', 'gpt-oss-120b', { effort: 'medium' }, { reasoning_effort: 'medium' }],
    ['moonshot', 'm', { enabled: true }, { thinking: { type: 'enabled' } }],
    ['alibaba', 'm', { max_tokens: 60 }, { enable_thinking: true, thinking_budget: 60 }],
    ['alibaba', 'm', off, { enable_thinking: false }],
    ['mistral', 'mistral-small-latest', { effort: 'low' }, { reasoning_effort: 'high' }],
    ['mistral', 'magistral-medium', { effort: 'low' }, { prompt_mode: 'reasoning' }],
    ['google', 'm', { effort: 'xhigh' }, { reasoning_effort: 'high' }],
    [
      'openrouter',
      'm',
      { effort: 'low', exclude: true },
      { reasoning: { effort: 'low', exclude: true } },
    ],
  ] as const)('%s, %s, %j: %j', async (row, model, reasoning, expected) => {
    const {
      model: _model,
      messages: _messages,
      max_tokens: _limit,
      max_completion_tokens: _most,
      ...asked
    } = await body(row, { reasoning, max_completion_tokens: 100 }, { model })
    expect(asked).toEqual(expected)
  })

  it('has the levels that the operator names', async () => {
    const asked = async (row: string, effort: readonly string[]) => {
      const how = { model: 'our-model', options: { effort } }
      return (await body(row, { reasoning: { effort: 'max' } }, how)).reasoning_effort
    }
    expect(await asked('xai', ['low', 'high'])).toBe('high')
    expect(await asked('xai', [])).toBeUndefined()
    expect(await asked('openai', ['low', 'medium'])).toBe('medium')
  })

  it('does not override the vendor’s own members', async () => {
    const input = { reasoning: { enabled: true }, chat_template_kwargs: { enable_thinking: false } }
    expect((await body('vllm', input)).chat_template_kwargs).toEqual({ enable_thinking: false })
  })
})

describe('the conversation', () => {
  it('has a system role where developer is unknown', async () => {
    const messages = [{ role: 'developer', content: 'Be brief.' }] as const
    const roles = async (row?: string) => (await body(row, { messages })).messages[0].role
    expect(await roles()).toBe('system')
    expect(await roles('vllm')).toBe('system')
    expect(await roles('openai')).toBe('developer')
    expect(await roles('openrouter')).toBe('developer')
  })

  it('has a refusal where refusals are known, and its text elsewhere', async () => {
    const messages = [
      { role: 'assistant', content: null, refusal: 'No.' },
      { role: 'assistant', content: [{ type: 'refusal', refusal: 'Never.' }] },
    ] as const
    expect((await body('openai', { messages })).messages).toEqual([
      { role: 'assistant', content: '', refusal: 'No.' },
      messages[1],
    ])
    expect((await body('groq', { messages })).messages).toEqual([
      { role: 'assistant', content: 'No.' },
      { role: 'assistant', content: [{ type: 'text', text: 'Never.' }] },
    ])
  })

  it('has images and files in a form that vendors accept', async () => {
    const image = {
      type: 'image_url',
      image_url: { url: 'https://x.example/a.png', detail: 'original' },
    }
    const file_data = 'data:application/pdf;base64,JVBERi0='
    const file = { type: 'file', file: { filename: 'a.pdf', file_data } }
    const messages = [{ role: 'user', content: [image, file] }] as const
    const parts = async (row?: string) => (await body(row, { messages })).messages[0].content
    expect(await parts()).toEqual([
      { type: 'image_url', image_url: { url: 'https://x.example/a.png', detail: 'high' } },
      file,
    ])
    expect((await parts('openai'))[0]).toEqual(image)
    expect((await parts('mistral'))[1]).toEqual({
      type: 'document_url',
      document_url: file_data,
      document_name: 'a.pdf',
    })
  })

  it('alternates roles where the vendor requires it', async () => {
    const messages = [
      { role: 'system', content: 'A' },
      { role: 'developer', content: 'B' },
      { role: 'user', content: 'C' },
      { role: 'user', content: [{ type: 'text', text: 'D' }] },
      { role: 'assistant', content: 'E' },
    ] as const
    const input = { messages, tools: [weather], tool_choice: 'none' }
    expect((await body('perplexity', input)).messages).toEqual([
      { role: 'system', content: 'A\n\nB' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'C' },
          { type: 'text', text: 'D' },
        ],
      },
      { role: 'assistant', content: 'E' },
    ])
    expect(Object.keys(await body('perplexity', input))).toEqual(['messages', 'model'])
  })

  it('keeps calls and results together under ids that Mistral accepts', async () => {
    const messages = [
      { role: 'assistant', content: null, tool_calls: [call('call_0fypS1hVX'), call('abcDEF123')] },
      { role: 'tool', tool_call_id: 'call_0fypS1hVX', content: '1' },
      { role: 'tool', tool_call_id: 'abcDEF123', content: '2' },
    ] as const
    const [asked, first, second] = (await body('mistral', { messages })).messages
    const [one, two] = asked.tool_calls.map(({ id }: any) => id)
    expect(one).toMatch(/^[a-zA-Z0-9]{9}$/)
    expect([one, two]).toEqual([first.tool_call_id, second.tool_call_id])
    expect(two).toBe('abcDEF123')
    expect(first.name).toBe('weather')
    expect((await body('mistral', { messages })).messages[0].tool_calls[0].id).toBe(one)
  })

  it('lets Mistral continue a last message of the assistant', async () => {
    const messages = [
      { role: 'user', content: 'Go' },
      { role: 'assistant', content: 'On' },
    ] as const
    const got = (await body('mistral', { messages })).messages
    expect(got[1]).toEqual({ role: 'assistant', content: 'On', prefix: true })
  })
})

describe('a custom tool', () => {
  const patch = { type: 'custom', custom: { name: 'patch', description: 'Edits.' } }
  const pieces = ['', '{"inp', 'ut": "*** a\\', 'n\\"b\\" \\ud83d', '\\ude00"', '}']
  const chunks = pieces.map((text, i) => ({
    choices: [
      {
        index: 0,
        delta: {
          tool_calls: [
            i === 0
              ? {
                  index: 0,
                  id: 'call_1',
                  type: 'function',
                  function: { name: 'patch', arguments: '' },
                }
              : { index: 0, function: { arguments: text } },
          ],
        },
      },
    ],
  }))
  const end = { choices: [{ index: 0, delta: {}, finish_reason: 'tool_calls' }] }

  it('is a function where there is no other kind, and its call a plain string again', async () => {
    await using streaming = await startUpstream(events(...chunks, end, '[DONE]'))
    const options = { baseURL: streaming.url, quirks: 'groq' }
    await using setup = await setUp(openaiCompatible, options)
    const { completion } = await setup.outcome({ stream: true, tools: [patch] })
    const [tool] = streaming.requests[0]!.json.tools
    expect(tool).toMatchObject({
      type: 'function',
      function: { name: 'patch', description: 'Edits.', parameters: { required: ['input'] } },
    })
    expect(completion.choices[0]!.message.tool_calls).toEqual([
      { id: 'call_1', type: 'custom', custom: { name: 'patch', input: '*** a\n"b" 😀' } },
    ])
  })

  it('is itself where the vendor has it', async () => {
    expect((await body('openai', { tools: [patch] })).tools).toEqual([patch])
    expect((await body(undefined, { tools: [patch] })).tools).toEqual([patch])
  })
})

describe('earlier reasoning', () => {
  const replayed = async (row: string | undefined, options = {}) => {
    const {
      role: _role,
      tool_calls: _calls,
      ...rest
    } = (await body(row, { messages: TOOL_LOOP }, { options })).messages[1]
    return rest
  }

  it.each([
    [undefined, {}, { content: null }],
    [undefined, { replayReasoning: true }, { content: null, reasoning_content: 'hm' }],
    ['openai', {}, { content: null }],
    ['xai', {}, { content: null }],
    ['groq', {}, { content: null }],
    ['groq', { replayReasoning: true }, { content: null, reasoning: 'hm' }],
    ['deepseek', {}, { content: null, reasoning_content: 'hm' }],
    ['deepseek', { replayReasoning: false }, { content: null }],
    ['moonshot', {}, { content: null, reasoning_content: 'hm' }],
    ['vllm', {}, { content: null, reasoning: 'hm' }],
    ['ollama', {}, { content: null, reasoning: 'hm' }],
    ['openrouter', {}, { content: null, reasoning_details: [thought], annotations: [] }],
    ['cerebras', {}, { content: '<think>hm</think>' }],
    ['mistral', {}, { content: [{ type: 'thinking', thinking: [{ type: 'text', text: 'hm' }] }] }],
  ] as const)('%s, %j: %j', async (row, options, expected) => {
    expect(await replayed(row, options)).toEqual(expected)
  })

  it('is an empty text on DeepSeek’s tool calls when it is missing', async () => {
    const messages = [
      { role: 'assistant', content: '', tool_calls: [call('call_1')] },
      { role: 'tool', tool_call_id: 'call_1', content: 'sunny' },
      { role: 'assistant', content: 'Sunny.' },
    ] as const
    const got = (await body('deepseek', { messages })).messages
    expect(got[0].reasoning_content).toBe('')
    expect(got[2]).not.toHaveProperty('reasoning_content')
  })

  it('is read from its details, or from the name that the AI SDK uses', async () => {
    const content = async (message: object) =>
      (await body('deepseek', { messages: [{ role: 'assistant', content: 'x', ...message }] }))
        .messages[0].reasoning_content
    expect(await content({ reasoning_details: [thought, { ...thought, text: '!' }] })).toBe('hm!')
    expect(await content({ reasoning_content: 'aha' })).toBe('aha')
    expect(await content({})).toBeUndefined()
  })

  it('goes back to Google as the signature on the first call', async () => {
    const seal = { type: 'reasoning.encrypted', data: 'c2ln', format: 'google-gemini-v1', index: 0 }
    const messages = [
      {
        role: 'assistant',
        content: null,
        tool_calls: [call('a'), call('b')],
        reasoning_details: [seal],
      },
    ] as const
    const [{ tool_calls, reasoning_details }] = (await body('google', { messages })).messages
    expect(tool_calls).toEqual([
      { ...call('a'), extra_content: { google: { thought_signature: 'c2ln' } } },
      call('b'),
    ])
    expect(reasoning_details).toBeUndefined()
  })
})
