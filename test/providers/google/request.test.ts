import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import google from '../../../providers/google.ts'
import { UpstreamFailure } from '../../../src/errors/errors.ts'
import type { ChatInput } from '../../../src/plugin.ts'
import { json, startUpstream, type FakeUpstream, type ReceivedRequest } from '../../upstream.ts'
import { setUp, type RequestOptions } from '../_chat.ts'

const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAbElEQVR4nA=='
const GIF = 'R0lGODlhAQABAAAAACwAAAAAAQABAAA='
const PDF = Buffer.from('%PDF-1.7 …').toString('base64')
const FORMAT = 'google-gemini-v1'
const SKIP = 'skip_thought_signature_validator'

let upstream: FakeUpstream

beforeAll(async () => {
  upstream = await startUpstream()
})

afterAll(() => upstream.close())

const ANSWER = json({
  candidates: [{ content: { parts: [{ text: 'ok' }] }, finishReason: 'STOP' }],
})

/** The request that Google receives. */
async function sent(
  input: Partial<ChatInput>,
  how?: RequestOptions,
  options: Record<string, unknown> = {},
): Promise<ReceivedRequest> {
  upstream.answer(ANSWER)
  await using setup = await setUp(google, { baseURL: `${upstream.url}/v1beta`, ...options })
  await setup.ask(input, { model: 'gemini-3.5-flash', ...how })
  return upstream.requests.at(-1)!
}

const body = async (input: Partial<ChatInput>, model = 'gemini-3.5-flash') =>
  (await sent(input, { model })).json

const config = async (input: Partial<ChatInput>, model?: string) =>
  (await body(input, model)).generationConfig

const contents = async (messages: ChatInput['messages'], model?: string) =>
  (await body({ messages }, model)).contents

/** The parts of one user message. */
const parts = async (...content: any[]) => (await contents([{ role: 'user', content }]))[0].parts

async function refusal(input: Partial<ChatInput>, model?: string): Promise<UpstreamFailure> {
  const before = upstream.requests.length
  const error: unknown = await body(input, model).catch((thrown: unknown) => thrown)
  if (!UpstreamFailure.is(error)) throw new Error('it was not refused', { cause: error })
  expect(upstream.requests.length, 'nothing is sent').toBe(before)
  return error
}

describe('the address', () => {
  it('has the model in the path, and the key in a header', async () => {
    const plain = await sent({}, {}, { apiKey: 'secret', headers: { 'X-Goog-User-Project': 'p' } })
    expect(plain.path).toBe('/v1beta/models/gemini-3.5-flash:generateContent')
    expect(plain.headers).toMatchObject({
      'x-goog-api-key': 'secret',
      'x-goog-user-project': 'p',
      'content-type': 'application/json',
    })
    const stream = await sent({ stream: true }, { model: 'tunedModels/mine' })
    expect(stream.path).toBe('/v1beta/tunedModels/mine:streamGenerateContent?alt=sse')
    expect(stream.headers).not.toHaveProperty('x-goog-api-key')
  })
})

describe('messages', () => {
  it('separates system text and merges adjacent turns of one role', async () => {
    const sentBody = await body({
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'One.' },
        { role: 'developer', content: [{ type: 'text', text: 'Be kind.' }] },
        { role: 'user', content: [{ type: 'text', text: 'Two.' }] },
        { role: 'assistant', content: '' },
        { role: 'assistant', content: null, refusal: 'No.' },
        { role: 'user', content: '' },
      ],
    })
    expect(sentBody).toEqual({
      systemInstruction: { parts: [{ text: 'Be brief.' }] },
      contents: [
        { role: 'user', parts: [{ text: 'One.' }, { text: 'Be kind.' }, { text: 'Two.' }] },
        { role: 'model', parts: [{ text: 'No.' }] },
        { role: 'user', parts: [{ text: ' ' }] },
      ],
    })
  })

  it('is never empty', async () => {
    expect(await body({ messages: [{ role: 'system', content: 'Be.' }] })).toEqual({
      systemInstruction: { parts: [{ text: 'Be.' }] },
      contents: [{ role: 'user', parts: [{ text: '(The conversation begins.)' }] }],
    })
    const alone = [{ role: 'system', content: 'Draw.' }] as const
    expect(await contents(alone, 'gemini-2.5-flash-image')).toEqual([
      { role: 'user', parts: [{ text: 'Draw.' }] },
    ])
  })

  it.each(['gemini-2.5-flash-image', 'gemma-3-27b-it'])(
    'puts system texts in front for %s, which takes none',
    async (model) => {
      const messages = [
        { role: 'system', content: 'Draw.' },
        { role: 'user', content: 'A cat.' },
      ] as const
      expect(await body({ messages }, model)).toEqual({
        contents: [{ role: 'user', parts: [{ text: 'Draw.' }, { text: 'A cat.' }] }],
      })
    },
  )
})

describe('media', () => {
  const image = (url: string) => ({ type: 'image_url', image_url: { url } })
  const inline = (mimeType: string, data: string) => ({ inlineData: { mimeType, data } })
  const at = (mimeType: string, fileUri: string) => ({ fileData: { mimeType, fileUri } })

  it('is sent as data, with the type of its bytes', async () => {
    const wav = Buffer.from('RIFF\0\0\0\0WAVEfmt ').toString('base64')
    expect(
      await parts(
        { type: 'text', text: 'Look:' },
        image(`data:image/png;base64,${PNG}`),
        image(`data:image/jpeg;charset=x;base64,${PNG}`),
        { type: 'input_audio', input_audio: { data: wav, format: 'mp3' } },
        { type: 'input_audio', input_audio: { data: 'AAAA', format: 'mp3' } },
        { type: 'file', file: { file_data: `data:application/pdf;base64,${PDF}` } },
        { type: 'file', file: { file_data: 'data:video/mp4;base64,AAAA' } },
        { type: 'file', file: { file_data: 'data:video/webm;base64,AAAA' } },
      ),
    ).toEqual([
      { text: 'Look:' },
      inline('image/png', PNG),
      inline('image/png', PNG),
      inline('audio/wav', wav),
      inline('audio/mp3', 'AAAA'),
      inline('application/pdf', PDF),
      inline('video/mp4', 'AAAA'),
      inline('video/webm', 'AAAA'),
    ])
  })

  it('is fetched from an address that Google does not read', async () => {
    upstream.answer(ANSWER)
    const fetched: string[] = []
    await using setup = await setUp(google, { baseURL: upstream.url }, async (url) => {
      fetched.push(url)
      const bytes = Buffer.from(url.endsWith('report') ? PDF : PNG, 'base64')
      return { bytes, contentType: 'application/octet-stream' }
    })
    const content = [
      image('https://example.com/cat'),
      { type: 'file', file: { file_data: 'https://example.com/report' } },
      { type: 'file', file: { file_data: 'https://www.youtube.com/watch?v=1' } },
    ]
    await setup.ask({ messages: [{ role: 'user', content }] }, { model: 'gemini-3.5-flash' })
    expect(upstream.requests.at(-1)!.json.contents[0].parts).toEqual([
      inline('image/png', PNG),
      inline('application/pdf', PDF),
      at('video/mp4', 'https://www.youtube.com/watch?v=1'),
    ])
    expect(fetched).toEqual(['https://example.com/cat', 'https://example.com/report'])
  })

  it.each([
    ['a GIF', `data:image/png;base64,${GIF}`, 'unsupported_value'],
    [
      'a file that only the gateway may read',
      'https://generativelanguage.googleapis.com/v1beta/files/abc',
      'unsupported_value',
    ],
  ])('refuses %s', async (_what, url, code) => {
    const failure = await refusal({ messages: [{ role: 'user', content: [image(url)] }] })
    const param = 'messages[0].content[0].image_url.url'
    expect(failure).toMatchObject({ status: 400, code, param })
  })
})

describe('tools', () => {
  const parameters = {
    type: 'object',
    properties: { city: { $ref: '#/$defs/city' }, unit: { const: 'C' } },
    $defs: { city: { type: ['string', 'null'] } },
    additionalProperties: false,
  }
  const weather = { type: 'function', function: { name: 'weather', description: 'W', parameters } }
  const clock = { type: 'function', function: { name: 'clock', strict: true } }

  it('are declared with the schema as it is', async () => {
    expect((await body({ tools: [weather, clock] })).tools).toEqual([
      {
        functionDeclarations: [
          { name: 'weather', description: 'W', parametersJsonSchema: parameters },
          { name: 'clock' },
        ],
      },
    ])
  })

  it.each([
    ['nothing', undefined, undefined],
    ['auto', 'auto', { mode: 'AUTO' }],
    ['none', 'none', { mode: 'NONE' }],
    ['required', 'required', { mode: 'ANY' }],
    [
      'one by name',
      { type: 'function', function: { name: 'weather' } },
      { mode: 'ANY', allowedFunctionNames: ['weather'] },
    ],
    [
      'some, if any',
      {
        type: 'allowed_tools',
        allowed_tools: {
          mode: 'auto',
          tools: [{ type: 'function', function: { name: 'weather' } }],
        },
      },
      { mode: 'VALIDATED', allowedFunctionNames: ['weather'] },
    ],
    [
      'one of some',
      { type: 'allowed_tools', allowed_tools: { mode: 'required', tools: [{ name: 'weather' }] } },
      { mode: 'ANY', allowedFunctionNames: ['weather'] },
    ],
  ])('are chosen: %s', async (_what, tool_choice, functionCallingConfig) => {
    const { toolConfig } = await body({ tools: [weather], tool_choice })
    expect(toolConfig).toEqual(functionCallingConfig && { functionCallingConfig })
  })

  it('are called by their schema when one of them is strict', async () => {
    const { toolConfig } = await body({ tools: [weather, clock] })
    expect(toolConfig).toEqual({ functionCallingConfig: { mode: 'VALIDATED' } })
  })

  it('have to be there when a call is required', async () => {
    const refused = { code: 'invalid_value', param: 'tool_choice' }
    expect(await refusal({ tool_choice: 'required' })).toMatchObject(refused)
  })
})

describe('a tool loop', () => {
  const call = (id: string, name = 'weather', args = '{"city":"Rome"}') => ({
    id,
    type: 'function',
    function: { name, arguments: args },
  })
  const seal = (data: string, id: string | null, index = 0) =>
    ({ type: 'reasoning.encrypted', data, id, format: FORMAT, index }) as const
  const loop = (assistant: object, ...results: any[]): any[] => [
    { role: 'user', content: 'Weather?' },
    { role: 'assistant', content: null, ...assistant },
    ...results,
  ]
  const result = (id: string, content: unknown = 'sunny') => ({
    role: 'tool',
    tool_call_id: id,
    content,
  })

  it('gives results in the order of their calls, in one turn', async () => {
    const [, model, user] = await contents(
      loop(
        { tool_calls: [call('call_a'), call('x1', 'clock', ''), call('call_c', 'sum', '[1]')] },
        result('call_c', ''),
        result('x1', [
          { type: 'text', text: '12:' },
          { type: 'text', text: '00' },
        ]),
        result('call_a'),
        { role: 'user', content: 'And?' },
      ),
      'gemini-2.5-flash',
    )
    expect(model).toEqual({
      role: 'model',
      parts: [
        { functionCall: { name: 'weather', args: { city: 'Rome' } } },
        { functionCall: { name: 'clock', args: {}, id: 'x1' } },
        { functionCall: { name: 'sum', args: { raw: '[1]' } } },
      ],
    })
    expect(user).toEqual({
      role: 'user',
      parts: [
        { functionResponse: { name: 'weather', response: { result: 'sunny' } } },
        { functionResponse: { name: 'clock', response: { result: '12:\n00' }, id: 'x1' } },
        { functionResponse: { name: 'sum', response: { result: '' } } },
        { text: 'And?' },
      ],
    })
  })

  it('shows pictures that a tool made', async () => {
    const content = [
      { type: 'text', text: 'See:' },
      { type: 'image_url', image_url: { url: `data:image/png;base64,${PNG}` } },
    ]
    const messages = loop({ tool_calls: [call('call_a')] }, result('call_a', content))
    const functionResponse = { name: 'weather', response: { result: 'See:' } }
    const picture = { inlineData: { mimeType: 'image/png', data: PNG } }
    expect((await contents(messages, 'gemini-2.5-pro'))[2].parts).toEqual([
      { functionResponse },
      picture,
    ])
    expect((await contents(messages, 'gemini-3-pro-preview'))[2].parts).toEqual([
      { functionResponse: { ...functionResponse, parts: [picture] } },
    ])
  })

  it('gives each call the signature it came with', async () => {
    const details = [
      { type: 'reasoning.text', text: 'Hm', id: null, format: FORMAT, index: 0 },
      { type: 'reasoning.text', text: 'm.', index: 0 },
      seal('c2lnMQ==', 'call_a', 1),
      seal('c2lnMg', 'call_b', 2),
    ]
    const tool_calls = [call('call_a'), call('call_b'), call('call_c')]
    const [, { parts: said }] = await contents(loop({ tool_calls, reasoning_details: details }))
    expect(said).toEqual([
      { text: 'Hmm.', thought: true },
      expect.objectContaining({ thoughtSignature: 'c2lnMQ==' }),
      expect.objectContaining({ thoughtSignature: 'c2lnMg' }),
      expect.not.objectContaining({ thoughtSignature: expect.anything() }),
    ])
  })

  it('gives a text the signature without a call', async () => {
    const assistant = { content: 'Sunny.', reasoning_details: [seal('c2ln', null)] }
    expect((await contents(loop(assistant)))[1].parts).toEqual([
      { text: 'Sunny.', thoughtSignature: 'c2ln' },
    ])
  })

  it('gives the first call a signature that has lost its id', async () => {
    const tool_calls = [call('a'), call('b')]
    const assistant = { tool_calls, reasoning_details: [seal('c2ln', null)] }
    const signatures = (await contents(loop(assistant)))[1].parts.map(
      (part: any) => part.thoughtSignature,
    )
    expect(signatures).toEqual(['c2ln', undefined])
  })

  it.each([
    ['gemini-3-pro-preview', SKIP],
    ['gemini-flash-latest', SKIP],
    ['gemini-2.5-pro', undefined],
  ])('replaces a lost signature on %s', async (model, expected) => {
    const foreign = { type: 'reasoning.text', text: 'hm', signature: 's', index: 0 } as const
    const reasoning_details = [
      { ...foreign, format: 'anthropic-claude-v1' },
      { ...seal('b3RoZXI=', 'a', 1), format: 'openai-responses-v1' },
    ]
    const tool_calls = [call('a'), call('b')]
    const { parts: said } = (await contents(loop({ tool_calls, reasoning_details }), model))[1]
    expect(said.map((part: any) => part.thoughtSignature)).toEqual([expected, undefined])
  })

  it('reads the older form of calls, and calls of custom tools', async () => {
    const older: any[] = [
      { role: 'assistant', content: null, function_call: { name: 'clock', arguments: '{}' } },
      { role: 'function', name: 'clock', content: '12:00' },
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'call_s', type: 'custom', custom: { name: 'sql', input: 'SELECT 1' } }],
      },
      result('call_s', '1'),
    ]
    expect(await contents(older, 'gemini-2.5-flash')).toEqual([
      { role: 'user', parts: [{ text: '(The conversation begins.)' }] },
      { role: 'model', parts: [{ functionCall: { name: 'clock', args: {} } }] },
      {
        role: 'user',
        parts: [{ functionResponse: { name: 'clock', response: { result: '12:00' } } }],
      },
      { role: 'model', parts: [{ functionCall: { name: 'sql', args: { input: 'SELECT 1' } } }] },
      { role: 'user', parts: [{ functionResponse: { name: 'sql', response: { result: '1' } } }] },
    ])
  })

  it('refuses a result without a call', async () => {
    const failure = await refusal({ messages: loop({ tool_calls: [call('a')] }, result('b')) })
    const param = 'messages[2].tool_call_id'
    expect(failure).toMatchObject({ status: 400, code: 'invalid_value', param })
  })
})

describe('the rest of the request', () => {
  it('uses Google’s names, and drops what Google does not have', async () => {
    expect(
      await body({
        max_completion_tokens: 100,
        temperature: 0.5,
        top_p: 0.9,
        top_k: 40,
        n: 2,
        stop: 'END',
        seed: 2 ** 40 + 7,
        presence_penalty: 0.1,
        frequency_penalty: 0.2,
        logprobs: true,
        top_logprobs: 3,
        min_p: 0.1,
        logit_bias: { 1: 1 },
        user: 'u',
        metadata: { a: 'b' },
        cache_control: { type: 'ephemeral' },
        parallel_tool_calls: false,
        verbosity: 'low',
        response_format: { type: 'text' },
      }),
    ).toEqual({
      contents: [{ role: 'user', parts: [{ text: 'Hello?' }] }],
      generationConfig: {
        maxOutputTokens: 100,
        temperature: 0.5,
        topP: 0.9,
        topK: 40,
        candidateCount: 2,
        stopSequences: ['END'],
        seed: 7,
        presencePenalty: 0.1,
        frequencyPenalty: 0.2,
        responseLogprobs: true,
        logprobs: 3,
      },
    })
  })

  it('requests JSON, with a schema if there is one', async () => {
    expect(await config({ response_format: { type: 'json_object' } })).toEqual({
      responseMimeType: 'application/json',
    })
    const schema = { type: 'object', properties: { a: { type: 'string' } } }
    const json_schema = { name: 'a', schema, strict: true }
    expect(await config({ response_format: { type: 'json_schema', json_schema } })).toEqual({
      responseMimeType: 'application/json',
      responseJsonSchema: schema,
    })
  })

  it('sends the operator’s safety threshold', async () => {
    const { json: asked } = await sent({}, {}, { safety: 'BLOCK_NONE' })
    expect(asked.safetySettings).toHaveLength(5)
    expect(asked.safetySettings).toContainEqual({
      category: 'HARM_CATEGORY_HARASSMENT',
      threshold: 'BLOCK_NONE',
    })
  })

  it('leaves penalties out once a model has refused them', async () => {
    const error = {
      code: 400,
      message: 'Penalty is not enabled for this model',
      status: 'INVALID_ARGUMENT',
    }
    await using setup = await setUp(google, { baseURL: upstream.url })
    const before = upstream.requests.length
    upstream.answer(({ json: { generationConfig } }) =>
      generationConfig.presencePenalty === undefined ? ANSWER : json({ error }, 400),
    )
    const input = { presence_penalty: 1, temperature: 1 }
    for (let i = 0; i < 2; i++) {
      const { completion, failure } = await setup.outcome(input)
      expect(failure).toBeUndefined()
      expect(completion.choices[0]!.message.content).toBe('ok')
    }
    const asked = upstream.requests.slice(before).map(({ json }) => json.generationConfig)
    expect(asked).toEqual([
      { temperature: 1, presencePenalty: 1 },
      { temperature: 1 },
      { temperature: 1 },
    ])
  })
})

describe('thinking', () => {
  const shown = { includeThoughts: true }

  it.each([
    // Up to 2.5: tokens.
    ['gemini-2.5-flash', { effort: 'low' }, { thinkingBudget: 1024, ...shown }],
    ['gemini-2.5-flash', { effort: 'xhigh' }, { thinkingBudget: 24_576, ...shown }],
    ['gemini-2.5-flash', { max_tokens: 100 }, { thinkingBudget: 100, ...shown }],
    ['gemini-2.5-flash', { effort: 'none' }, { thinkingBudget: 0 }],
    ['gemini-2.5-flash', { enabled: true }, { thinkingBudget: -1, ...shown }],
    ['gemini-2.5-flash-lite', { max_tokens: 100 }, { thinkingBudget: 512, ...shown }],
    ['gemini-2.5-pro', { effort: 'max' }, { thinkingBudget: 32_768, ...shown }],
    ['gemini-2.5-pro', { enabled: false }, { thinkingBudget: 128 }],
    // Models from version 3 on have levels.
    ['gemini-3-pro-preview', { effort: 'medium' }, { thinkingLevel: 'high', ...shown }],
    ['gemini-3-pro-preview', { effort: 'none' }, { thinkingLevel: 'low' }],
    ['gemini-3.1-pro-preview', { effort: 'medium' }, { thinkingLevel: 'medium', ...shown }],
    ['gemini-3.5-flash', { effort: 'minimal' }, { thinkingLevel: 'minimal', ...shown }],
    ['gemini-3.8-flash', { effort: 'minimal' }, { thinkingLevel: 'low', ...shown }],
    ['gemini-3.8-flash', { effort: 'none' }, { thinkingLevel: 'low' }],
    ['gemini-3.5-flash-lite', { effort: 'none' }, { thinkingLevel: 'minimal' }],
    ['gemini-3.5-flash-lite', { max_tokens: 5000 }, { thinkingLevel: 'medium', ...shown }],
    ['gemini-3.5-flash-lite', { max_tokens: 99_999 }, { thinkingLevel: 'high', ...shown }],
    ['gemini-flash-latest', { effort: 'max' }, { thinkingLevel: 'high', ...shown }],
    ['gemini-3.8-flash', { enabled: true }, { thinkingLevel: 'medium', ...shown }],
    // Thoughts can be visible or not.
    ['gemini-3.8-flash', { effort: 'high', exclude: true }, { thinkingLevel: 'high' }],
    ['gemini-3.8-flash', { summary: 'auto' }, shown],
    ['gemini-3.8-flash', { exclude: true }, undefined],
    ['gemini-3.8-flash', undefined, undefined],
    ['gemini-2.0-flash', { effort: 'high' }, undefined],
  ] as const)('of %s: %j is %j', async (model, reasoning, expected) => {
    const asked = await config(reasoning ? { reasoning } : {}, model)
    expect(asked?.thinkingConfig).toEqual(expected)
  })

  it('follows the operator’s option where the name does not tell', async () => {
    const asked = async (thinking: unknown, reasoning: ChatInput['reasoning']) => {
      const how = { model: 'mine', options: { thinking } }
      return (await sent({ reasoning: reasoning! }, how)).json.generationConfig?.thinkingConfig
    }
    expect(await asked('none', { effort: 'high' })).toBeUndefined()
    expect(await asked('budget', { effort: 'medium' })).toEqual({
      thinkingBudget: 8192,
      includeThoughts: true,
    })
    expect(await asked(['high', 'minimal'], { effort: 'none' })).toEqual({
      thinkingLevel: 'minimal',
    })
  })
})
