import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import bedrock from '../../../providers/bedrock.ts'
import type { ChatInput } from '../../../src/plugin.ts'
import { json, startUpstream, type FakeUpstream, type ReceivedRequest } from '../../upstream.ts'
import { setUp, type RequestOptions } from '../_chat.ts'

const CLAUDE = 'us.anthropic.claude-sonnet-4-5-20250929-v1:0'
const OLD_CLAUDE = 'anthropic.claude-3-7-sonnet-20250219-v1:0'
const NEW_CLAUDE = 'us.anthropic.claude-opus-4-7'
const NOVA = 'us.amazon.nova-pro-v1:0'
const LLAMA = 'us.meta.llama4-maverick-17b-instruct-v1:0'

let upstream: FakeUpstream

beforeAll(async () => {
  upstream = await startUpstream(
    json({ output: { message: { content: [{ text: 'ok' }] } }, stopReason: 'end_turn', usage: {} }),
  )
})

afterAll(() => upstream.close())

async function sent(
  input: Partial<ChatInput>,
  how: RequestOptions = {},
  options = {},
): Promise<ReceivedRequest> {
  const settings = { region: 'us-east-1', apiKey: 'k', baseURL: upstream.url, ...options }
  await using setup = await setUp(bedrock, settings)
  const count = upstream.requests.length
  const { failure } = await setup.outcome(input, { model: CLAUDE, ...how })
  if (upstream.requests.length === count) throw failure
  return upstream.requests.at(-1)!
}

async function body(input: Partial<ChatInput>, model = CLAUDE, options = {}): Promise<any> {
  return (await sent(input, { model, options })).json
}

async function turns(messages: ChatInput['messages'], model = CLAUDE): Promise<any> {
  return (await body({ messages }, model)).messages
}

const PNG = 'iVBORw0KGgoAAAANSUhEUg=='
const PDF = 'JVBERi0xLjQ='
const text = (value: string) => ({ type: 'text', text: value })
const image = (url: string) => ({ type: 'image_url', image_url: { url } })
const file = (file_data: string, filename?: string) => ({
  type: 'file',
  file: { file_data, filename },
})
const tool = (name: string, more = {}) => ({ type: 'function', function: { name, ...more } })
const call = (id: string, name: string, args: string) => ({
  id,
  type: 'function',
  function: { name, arguments: args },
})
const EPHEMERAL = { type: 'ephemeral' }
const POINT = { cachePoint: { type: 'default' } }
const schema = { type: 'object', properties: { a: { type: 'string' } }, required: ['a'] }
const closed = { ...schema, additionalProperties: false }
const response_format = { type: 'json_schema', json_schema: { name: 'x', schema } }

describe('the address', () => {
  it('has the model as one path segment', async () => {
    const { method, path } = await sent({})
    expect([method, path]).toEqual([
      'POST',
      `/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse`,
    ])
    const arn = 'arn:aws:bedrock:us-east-1:1:application-inference-profile/abc'
    expect((await sent({}, { model: arn })).path).toBe(
      '/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Aapplication-inference-profile%2Fabc/converse',
    )
  })

  it('differs for streams', async () => {
    expect((await sent({ stream: true })).path).toMatch(/\/converse-stream$/)
  })
})

describe('the operator’s options', () => {
  it('are sent with every request', async () => {
    const options = {
      guardrail: { id: 'g1', version: 'DRAFT' },
      serviceTier: 'flex',
      latency: 'optimized',
    }
    expect((await sent({}, {}, options)).json).toMatchObject({
      guardrailConfig: { guardrailIdentifier: 'g1', guardrailVersion: 'DRAFT' },
      serviceTier: { type: 'flex' },
      performanceConfig: { latency: 'optimized' },
    })
  })

  it('of a deployment are sent with its requests', async () => {
    const input = { temperature: 0.5, top_p: 0.5 }
    const options = { fields: { thinking_mode: 'on' }, omit: ['temperature'] }
    expect(await body(input, LLAMA, options)).toMatchObject({
      inferenceConfig: { topP: 0.5 },
      additionalModelRequestFields: { thinking_mode: 'on' },
    })
    const foundationModel = CLAUDE
    const asked = { reasoning: { max_tokens: 2000 } }
    expect(await body(asked, 'arn:aws:bedrock:x', { foundationModel })).toMatchObject({
      additionalModelRequestFields: { thinking: { type: 'enabled', budget_tokens: 2000 } },
    })
  })
})

describe('the parameters of a request', () => {
  it('are Amazon’s or the model’s, and left out elsewhere', async () => {
    const input = {
      max_completion_tokens: 50,
      temperature: 1.5,
      top_p: 0.9,
      top_k: 5,
      stop: ['a', '', 'b'],
      seed: 1,
      user: 'u',
      presence_penalty: 1,
      session_id: 's',
    }
    const inferenceConfig = {
      maxTokens: 50,
      temperature: 1,
      topP: 0.9,
      stopSequences: ['a', 'b'],
    }
    const messages = [{ role: 'user', content: [{ text: 'Hello?' }] }]
    expect(await body(input, LLAMA)).toEqual({ messages, inferenceConfig })
    expect(await body(input, NOVA)).toEqual({
      messages,
      inferenceConfig,
      additionalModelRequestFields: { inferenceConfig: { topK: 5 } },
    })
    const { topP: _topP, ...withoutTopP } = inferenceConfig
    expect(await body(input, CLAUDE)).toEqual({
      messages,
      inferenceConfig: withoutTopP,
      additionalModelRequestFields: { top_k: 5 },
      additionalModelResponseFieldPaths: ['/stop_sequence'],
    })
    expect(await body(input, NEW_CLAUDE)).toEqual({
      messages,
      inferenceConfig: { maxTokens: 50, stopSequences: ['a', 'b'] },
      additionalModelResponseFieldPaths: ['/stop_sequence'],
    })
    expect((await body({ top_p: 0.9 }, CLAUDE)).inferenceConfig).toEqual({ topP: 0.9 })
    expect((await body({ stop: 'x' }, LLAMA)).inferenceConfig).toEqual({ stopSequences: ['x'] })
  })

  it.each([
    [{ n: 2 }, 'unsupported_parameter', 'n'],
    [{ tool_choice: 'required' }, 'invalid_value', 'tool_choice'],
  ])('are refused when the answer would differ: %j', async (input, code, param) => {
    await expect(sent(input)).rejects.toMatchObject({ failure: 'bad_request', code, param })
  })
})

describe('reasoning', () => {
  const thinking = (budget_tokens: number) => ({ thinking: { type: 'enabled', budget_tokens } })
  const adaptive = (effort?: string) => ({
    thinking: { type: 'adaptive' },
    ...(effort && { output_config: { effort } }),
  })
  const shown = (effort?: string) => ({
    ...adaptive(effort),
    thinking: { type: 'adaptive', display: 'summarized' },
  })
  it.each([
    [CLAUDE, { max_tokens: 3000 }, 10_000, thinking(3000)],
    [CLAUDE, { effort: 'low' }, 10_000, thinking(2000)],
    [CLAUDE, { effort: 'high' }, 10_000, thinking(8000)],
    [CLAUDE, { effort: 'medium' }, undefined, thinking(32_000)],
    [CLAUDE, { max_tokens: 9000 }, 4000, thinking(3800)],
    [CLAUDE, { effort: 'high' }, 1000, undefined],
    [CLAUDE, { effort: 'none' }, 10_000, undefined],
    ['anthropic.claude-3-5-sonnet-20240620-v1:0', { effort: 'high' }, 10_000, undefined],
    ['us.anthropic.claude-opus-4-6-v1', { max_tokens: 3000 }, 10_000, thinking(3000)],
    ['us.anthropic.claude-opus-4-6-v1', { effort: 'xhigh' }, 10_000, adaptive('high')],
    [NEW_CLAUDE, { max_tokens: 3000 }, 10_000, shown('medium')],
    [NEW_CLAUDE, { enabled: true }, undefined, shown()],
    ['anthropic.claude-sonnet-5', { effort: 'minimal' }, undefined, shown('low')],
    [NOVA, { effort: 'high' }, undefined, undefined],
    [
      'us.amazon.nova-2-lite-v1:0',
      { effort: 'high' },
      undefined,
      { reasoningConfig: { type: 'enabled', maxReasoningEffort: 'high' } },
    ],
    [
      'us.amazon.nova-2-lite-v1:0',
      { effort: 'high' },
      500,
      { reasoningConfig: { type: 'enabled', maxReasoningEffort: 'medium' } },
    ],
    [
      'us.amazon.nova-2-lite-v1:0',
      { enabled: false },
      500,
      { reasoningConfig: { type: 'disabled' } },
    ],
    ['openai.gpt-oss-120b-1:0', { effort: 'xhigh' }, 500, { reasoning_effort: 'high' }],
    [LLAMA, { effort: 'high' }, 500, undefined],
  ] as const)('%s, %j of %s', async (model, reasoning, max_completion_tokens, fields) => {
    const input = { reasoning, ...(max_completion_tokens && { max_completion_tokens }) }
    const got = await body(input, model)
    expect(got.additionalModelRequestFields).toEqual(fields)
    expect(got.inferenceConfig.maxTokens).toBe(max_completion_tokens)
  })

  it('leaves sampling to the model', async () => {
    const input = { reasoning: { max_tokens: 2000 }, temperature: 0.1, top_k: 3 }
    const { inferenceConfig, additionalModelRequestFields } = await body(input)
    expect(inferenceConfig).toEqual({})
    expect(additionalModelRequestFields).toEqual(thinking(2000))
  })

  it('is left out where a call is required, and where the tool of the answer is', async () => {
    const reasoning = { max_tokens: 2000 }
    const forced = { reasoning, tools: [tool('f')], tool_choice: 'required' }
    const got = await body(forced)
    expect(got.toolConfig.toolChoice).toEqual({ any: {} })
    expect(got).not.toHaveProperty('additionalModelRequestFields')
    expect((await body(forced, 'anthropic.claude-opus-5')).additionalModelRequestFields).toEqual({
      thinking: { type: 'disabled' },
    })
    const response_format = { type: 'json_schema', json_schema: { name: 'n', schema } }
    const answer = await body({ reasoning, response_format }, CLAUDE, {})
    expect(answer).toHaveProperty('additionalModelRequestFields.thinking')
    const map = { type: 'object', additionalProperties: { type: 'string' } }
    const loose = { type: 'json_schema', json_schema: { name: 'n', schema: map } }
    const byTool = await body({ reasoning, response_format: loose }, CLAUDE, {})
    expect(byTool.toolConfig.toolChoice).toEqual({ tool: { name: 'json_answer' } })
    expect(byTool).not.toHaveProperty('additionalModelRequestFields')
  })

  it('is not requested when the reasoning before a call is lost', async () => {
    const sealed = {
      type: 'reasoning.text',
      text: 'hm',
      signature: 's',
      format: 'anthropic-claude-v1',
      index: 0,
    } as const
    const loop = (reasoning_details: unknown[]) => [
      { role: 'user', content: 'Weather?' } as const,
      {
        role: 'assistant',
        content: null,
        tool_calls: [call('c1', 'f', '{}')],
        reasoning_details,
      } as const,
      { role: 'tool', tool_call_id: 'c1', content: 'sunny' } as const,
    ]
    const reasoning = { max_tokens: 2000 }
    expect(await body({ messages: loop([]), reasoning })).not.toHaveProperty(
      'additionalModelRequestFields',
    )
    expect(await body({ messages: loop([sealed]), reasoning })).toHaveProperty(
      'additionalModelRequestFields.thinking',
    )
    expect(await body({ messages: loop([]), reasoning }, NEW_CLAUDE)).toHaveProperty(
      'additionalModelRequestFields.thinking',
    )
  })
})

describe('the conversation', () => {
  it('has its instructions in front, alternates, and starts with the user', async () => {
    const messages = [
      { role: 'system', content: 'A' },
      { role: 'developer', content: [text('B'), text('  ')] },
      { role: 'assistant', content: 'C' },
      { role: 'user', content: 'D' },
      { role: 'user', content: [text('E')] },
      { role: 'system', content: 'F' },
      { role: 'assistant', content: 'G  \n' },
    ] as const
    expect(await body({ messages })).toMatchObject({
      system: [{ text: 'A' }, { text: 'B' }],
      messages: [
        { role: 'user', content: [{ text: '(The conversation begins.)' }] },
        { role: 'assistant', content: [{ text: 'C' }] },
        { role: 'user', content: [{ text: 'D' }, { text: 'E' }, { text: 'F' }] },
        { role: 'assistant', content: [{ text: 'G' }] },
      ],
    })
    expect(
      await body(
        { messages: [{ role: 'system', content: 'A' }] },
        'mistral.mixtral-8x7b-instruct-v0:1',
      ),
    ).toEqual({
      messages: [{ role: 'user', content: [{ text: 'A' }] }],
      inferenceConfig: {},
    })
  })

  it('contains images, documents, videos and audio', async () => {
    const content = [
      image(`data:image/jpeg;base64,${PNG}`),
      file(`data:application/pdf;base64,${PDF}`, 'secret plan.pdf'),
      file(`data:application/pdf;base64,${PDF}`),
      file('data:text/csv;base64,YSxi'),
      file('data:application/octet-stream;base64,IyBB', 'a.md'),
      file(`data:application/pdf;base64,${PNG}`),
      file('data:video/quicktime;base64,AAAA'),
      { type: 'input_audio', input_audio: { data: 'AAAA', format: 'mp3' } },
    ]
    const document = (name: string, format: string, bytes: string) => ({
      document: { name, format, source: { bytes } },
    })
    const png = { image: { format: 'png', source: { bytes: PNG } } }
    const [turn] = await turns([{ role: 'user', content }])
    expect(turn.content).toEqual([
      // Converse requires a text beside a document.
      { text: '.' },
      png,
      document('doc-1', 'pdf', PDF),
      document('doc-2', 'pdf', PDF),
      document('doc-3', 'csv', 'YSxi'),
      document('doc-4', 'md', 'IyBB'),
      png,
      { video: { format: 'mov', source: { bytes: 'AAAA' } } },
      { audio: { format: 'mp3', source: { bytes: 'AAAA' } } },
    ])
  })

  it.each([
    [image('data:image/tiff;base64,AAAA'), 'invalid_image', /found "image\/tiff"/],
    [file('data:application/zip;base64,AAAA'), 'invalid_document', /found "application\/zip"/],
  ])('refuses %j', async (part, code, message) => {
    const asked = sent({ messages: [{ role: 'user', content: [part] }] })
    const member = 'file' in part ? 'file.file_data' : 'image_url.url'
    const param = `messages[0].content[0].${member}`
    await expect(asked).rejects.toMatchObject({ failure: 'bad_request', code, param })
    await expect(asked).rejects.toThrow(message)
  })

  const LOOP = [
    { role: 'user', content: 'Weather?' },
    {
      role: 'assistant',
      content: 'Let me see.',
      tool_calls: [call('functions.f:0', 'f', '{"a":1}'), call('c2', 'f', 'nonsense')],
    },
    { role: 'tool', tool_call_id: 'functions.f:0', content: 'sunny' },
    {
      role: 'tool',
      tool_call_id: 'c2',
      content: [text('rain'), image(`data:image/png;base64,${PNG}`)],
    },
    { role: 'user', content: 'And now?' },
  ] as const

  it('has the results of all calls in the next turn, first', async () => {
    const got = await turns(LOOP)
    const id = got[1].content[1].toolUse.toolUseId
    expect(id).toMatch(/^[\w-]{1,64}$/)
    expect(got).toEqual([
      { role: 'user', content: [{ text: 'Weather?' }] },
      {
        role: 'assistant',
        content: [
          { text: 'Let me see.' },
          { toolUse: { toolUseId: id, name: 'f', input: { a: 1 } } },
          { toolUse: { toolUseId: 'c2', name: 'f', input: { raw: 'nonsense' } } },
        ],
      },
      {
        role: 'user',
        content: [
          { toolResult: { toolUseId: id, content: [{ text: 'sunny' }] } },
          {
            toolResult: {
              toolUseId: 'c2',
              content: [{ text: 'rain' }, { image: { format: 'png', source: { bytes: PNG } } }],
            },
          },
          { text: 'And now?' },
        ],
      },
    ])
  })

  it('has results in their own turn where the model requires it', async () => {
    const got = await turns(LOOP, NOVA)
    expect(
      got.map((turn: any) => [turn.role, ...turn.content.map((one: any) => Object.keys(one)[0])]),
    ).toEqual([
      ['user', 'text'],
      ['assistant', 'text', 'toolUse', 'toolUse'],
      ['user', 'toolResult', 'toolResult'],
      ['assistant', 'text'],
      ['user', 'text'],
    ])
  })

  it('has a result for every call', async () => {
    const got = await turns([
      { role: 'user', content: 'a' },
      { role: 'assistant', content: null, tool_calls: [call('c1', 'f', '')] },
    ])
    expect(got).toEqual([
      { role: 'user', content: [{ text: 'a' }] },
      { role: 'assistant', content: [{ toolUse: { toolUseId: 'c1', name: 'f', input: {} } }] },
      {
        role: 'user',
        content: [
          {
            toolResult: {
              toolUseId: 'c1',
              content: [{ text: '(no result)' }],
              status: 'error',
            },
          },
        ],
      },
    ])
  })

  it('has a call for every result', async () => {
    const messages = [
      { role: 'user', content: 'a' },
      { role: 'tool', tool_call_id: 'lost', content: 'found' },
    ] as const
    await expect(turns(messages)).rejects.toMatchObject({
      failure: 'bad_request',
      code: 'invalid_value',
      param: 'messages[1].tool_call_id',
    })
  })

  it('has each id once, within the length limit', async () => {
    const long = 'x'.repeat(100)
    const round = (id: string) =>
      [
        {
          role: 'assistant',
          content: null,
          tool_calls: [call(id, 'f', '{"id":12345678901234567890}')],
        },
        { role: 'tool', tool_call_id: id, content: 'b' },
      ] as const
    const messages = [
      { role: 'user', content: 'a' },
      ...round('f:0'),
      ...round('f:0'),
      ...round(long),
    ]
    const seen = await sent({ messages: messages as ChatInput['messages'] })
    const calls = seen.json.messages
      .flatMap((turn: any) => turn.content)
      .filter((one: any) => one.toolUse)
    const ids = calls.map((one: any) => one.toolUse.toolUseId)
    expect(new Set(ids).size).toBe(3)
    for (const id of ids) expect(id).toMatch(/^[\w-]{1,64}$/)
    expect(seen.body.toString()).toContain('"input":{"id":12345678901234567890}')
  })

  it('knows the older form of calls', async () => {
    const got = await turns([
      { role: 'user', content: 'a' },
      { role: 'assistant', content: null, function_call: { name: 'f', arguments: '{}' } },
      { role: 'function', name: 'f', content: 'b' },
    ])
    expect(got.slice(1)).toEqual([
      {
        role: 'assistant',
        content: [{ toolUse: { toolUseId: 'call', name: 'f', input: {} } }],
      },
      {
        role: 'user',
        content: [{ toolResult: { toolUseId: 'call', content: [{ text: 'b' }] } }],
      },
    ])
  })

  it('returns signed reasoning byte for byte to its vendor', async () => {
    const format = 'anthropic-claude-v1'
    const reasoning_details = [
      { type: 'reasoning.text', text: 'One ', format, index: 0 },
      { type: 'reasoning.text', text: 'two.', index: 0 },
      { type: 'reasoning.text', signature: 'a+/b==', index: 0 },
      { type: 'reasoning.encrypted', data: 'c+/d==', format, index: 1 },
      { type: 'reasoning.text', text: 'of another', signature: 'x', format: 'unknown', index: 2 },
      { type: 'reasoning.text', text: 'unsigned', format, index: 3 },
    ]
    const messages = [
      { role: 'user', content: 'a' },
      { role: 'assistant', content: 'b', reasoning: 'One two.', reasoning_details },
      { role: 'user', content: 'c' },
    ] as const
    expect((await turns(messages))[1].content).toEqual([
      { reasoningContent: { reasoningText: { text: 'One two.', signature: 'a+/b==' } } },
      { reasoningContent: { redactedContent: 'c+/d==' } },
      { text: 'b' },
    ])
    expect((await turns(messages, NOVA))[1].content).toEqual([{ text: 'b' }])
  })

  it('returns reasoning in its position', async () => {
    const format = 'anthropic-claude-v1'
    const thought = (index: number, id: string | null) =>
      ({
        type: 'reasoning.text',
        text: `t${index}`,
        signature: `s${index}`,
        format,
        id,
        index,
      }) as const
    const messages = [
      { role: 'user', content: 'a' },
      {
        role: 'assistant',
        content: 'b',
        reasoning_details: [thought(0, null), thought(1, 'after-1-0')],
        tool_calls: [call('c1', 'f', '{}')],
      },
      { role: 'tool', tool_call_id: 'c1', content: 'c' },
    ] as const
    const [, answer] = await turns(messages)
    expect(
      answer.content.map(
        (one: any) => one.reasoningContent?.reasoningText.signature ?? Object.keys(one)[0],
      ),
    ).toEqual(['s0', 'text', 's1', 'toolUse'])
  })
})

describe('cache points', () => {
  it('stand after everything that was marked', async () => {
    const got = await body({
      tools: [{ ...tool('f'), cache_control: EPHEMERAL }, tool('g')],
      messages: [
        { role: 'system', content: [{ ...text('A'), cache_control: { ...EPHEMERAL, ttl: '1h' } }] },
        { role: 'user', content: [text('B'), text(' ')], cache_control: EPHEMERAL },
        { role: 'assistant', content: null, tool_calls: [call('c1', 'f', '{}')] },
        {
          role: 'tool',
          tool_call_id: 'c1',
          content: 'x',
          cache_control: { ...EPHEMERAL, ttl: '5m' },
        },
      ],
    })
    expect(got.toolConfig.tools.map((one: any) => Object.keys(one)[0])).toEqual([
      'toolSpec',
      'cachePoint',
      'toolSpec',
    ])
    // The models refuse an hour after five minutes.
    expect(got.system).toEqual([{ text: 'A' }, POINT])
    expect(got.messages[0].content).toEqual([{ text: 'B' }, POINT])
    expect(got.messages[2].content.at(-1)).toEqual(POINT)
  })

  it('are kept for an hour before those of five minutes', async () => {
    const hour = { ...EPHEMERAL, ttl: '1h' }
    const { system, messages } = await body({
      messages: [
        { role: 'system', content: 'A', cache_control: hour },
        { role: 'user', content: 'B', cache_control: EPHEMERAL },
        { role: 'assistant', content: 'C', cache_control: hour },
        { role: 'user', content: 'D' },
      ],
    })
    expect(system[1]).toEqual({ cachePoint: { type: 'default', ttl: '1h' } })
    expect(messages[0].content[1]).toEqual(POINT)
    expect(messages[1].content[1]).toEqual(POINT)
  })

  it('are at most four, the last ones', async () => {
    const marked = (value: string) => ({ ...text(value), cache_control: EPHEMERAL })
    const content = [marked('1'), marked('2'), marked('3'), marked('4')]
    const { system, messages } = await body({
      cache_control: EPHEMERAL,
      messages: [
        { role: 'system', content: [marked('0')] },
        { role: 'user', content },
      ],
    })
    expect(system).toEqual([{ text: '0' }])
    expect(messages[0].content).toEqual([
      { text: '1' },
      POINT,
      { text: '2' },
      POINT,
      { text: '3' },
      POINT,
      { text: '4' },
      POINT,
    ])
  })

  it('are set where the model supports them', async () => {
    const input = {
      cache_control: EPHEMERAL,
      tools: [{ ...tool('f'), cache_control: EPHEMERAL }],
    }
    const count = async (model: string, options = {}) =>
      JSON.stringify(await body(input, model, options)).split('cachePoint').length - 1
    expect(await count(CLAUDE)).toBe(2)
    expect(await count(CLAUDE, { cache: false })).toBe(0)
    expect(await count(NOVA)).toBe(1)
    expect(await count(LLAMA)).toBe(0)
    expect(await count(LLAMA, { cache: true })).toBe(1)
  })
})

describe('tools', () => {
  it('are described with the known members', async () => {
    const strict = { description: 'Gets it.', parameters: schema, strict: true }
    const tools = [tool('f', strict), tool('g', { description: ' ' })]
    expect((await body({ tools })).toolConfig).toEqual({
      tools: [
        {
          toolSpec: {
            name: 'f',
            description: 'Gets it.',
            inputSchema: { json: closed },
            strict: true,
          },
        },
        { toolSpec: { name: 'g', inputSchema: { json: { type: 'object', properties: {} } } } },
      ],
    })
    expect((await body({ tools }, OLD_CLAUDE)).toolConfig.tools[0].toolSpec).not.toHaveProperty(
      'strict',
    )
  })

  it.each([
    ['auto', { auto: {} }],
    ['required', { any: {} }],
    [tool('g'), { tool: { name: 'g' } }],
  ])('are chosen: %j', async (tool_choice, toolChoice) => {
    const got = await body({ tools: [tool('f'), tool('g')], tool_choice })
    expect(got.toolConfig.toolChoice).toEqual(toolChoice)
  })

  it('are only those that are allowed, or none', async () => {
    const tools = [tool('f'), tool('g')]
    const allowed_tools = { mode: 'required', tools: [tool('g')] }
    const some = await body({ tools, tool_choice: { type: 'allowed_tools', allowed_tools } })
    expect(some.toolConfig.tools.map((one: any) => one.toolSpec.name)).toEqual(['g'])
    expect(some.toolConfig.toolChoice).toEqual({ any: {} })
    expect(await body({ tools, tool_choice: 'none' })).not.toHaveProperty('toolConfig')
  })

  it('are defined whenever the conversation mentions them', async () => {
    const messages = [
      { role: 'user', content: 'a' },
      { role: 'assistant', content: null, tool_calls: [call('c1', 'f', '{}')] },
      { role: 'tool', tool_call_id: 'c1', content: 'x' },
    ] as const
    const spec = {
      toolSpec: { name: 'f', inputSchema: { json: { type: 'object', properties: {} } } },
    }
    expect((await body({ messages })).toolConfig).toEqual({ tools: [spec] })
    const none = await body({ messages, tools: [tool('f')], tool_choice: 'none' })
    expect(none.toolConfig).toEqual({ tools: [spec] })
  })
})

describe('a schema for the answer', () => {
  it('is sent natively where supported', async () => {
    expect((await body({ response_format })).outputConfig).toEqual({
      textFormat: {
        type: 'json_schema',
        structure: { jsonSchema: { name: 'x', schema: JSON.stringify(closed) } },
      },
    })
  })

  it('is a forced tool elsewhere', async () => {
    expect((await body({ response_format }, OLD_CLAUDE)).toolConfig).toEqual({
      tools: [
        {
          toolSpec: {
            name: 'json_answer',
            description: 'Gives the answer.',
            inputSchema: { json: schema },
          },
        },
      ],
      toolChoice: { tool: { name: 'json_answer' } },
    })
  })

  it('is part of the prompt otherwise', async () => {
    const words = [{ text: expect.stringContaining(JSON.stringify(schema)) }]
    expect((await body({ response_format }, LLAMA)).system).toEqual(words)
    const tools = [tool('f')]
    expect((await body({ response_format, tools }, OLD_CLAUDE)).system).toEqual(words)
    expect((await body({ response_format }, CLAUDE, { schema: 'prompt' })).system).toEqual(words)
    const json_object = { response_format: { type: 'json_object' } }
    expect((await body(json_object)).system[0].text).toMatch(/one JSON object/)
  })
})
