/** A model that does not reason, asked for reasoning by a coding agent: the turn succeeds, and the client is told what was dropped. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createTestGateway, type TestGateway } from '../_setup.ts'
import { events, json, startUpstream, type FakeUpstream } from '../upstream.ts'

let vendor: FakeUpstream
let t: TestGateway
/** How the stand-in refuses, for each of the models. */
let refusal: { readonly status: number; readonly body: object }
/** What it refuses. */
let refuses: (body: any) => boolean

const PRICED = { pricing: { prompt: '0.000001', completion: '0.000002' } }
const via = (provider: string, model: string, more: object = {}) => ({
  ...PRICED,
  ...more,
  deployments: [{ provider, model }],
})

beforeAll(async () => {
  vendor = await startUpstream()
  vendor.answer(({ json: body, path }) => {
    if (refuses(body)) return json(refusal.body, refusal.status)
    return answerOf(body, path)
  })
  const base = { baseURL: `${vendor.url}/v1` }
  const compatible = (quirks: string) => ({
    use: 'openai-compatible',
    options: { ...base, quirks },
  })
  const key = { ...base, apiKey: 'key' }
  t = await createTestGateway({
    providers: {
      ollama: compatible('ollama'),
      groq: compatible('groq'),
      hosted: compatible('hosted'),
      zai: compatible('zai'),
      // Nothing is learned of these before the tests that use them.
      second: compatible('hosted'),
      local: compatible('ollama'),
      other: compatible('zai'),
      vllm: compatible('vllm'),
      xai: compatible('xai'),
      mistral: { use: 'mistral', options: key },
      openai: { use: 'openai', options: key },
      azure: { use: 'azure', options: key },
      anthropic: { use: 'anthropic', options: key },
      google: { use: 'google', options: key },
      bedrock: { use: 'bedrock', options: { ...base, region: 'eu-west-1', apiKey: 'key' } },
    },
    models: Object.fromEntries(
      INSTANCES.flatMap((name) => [
        ...Array.from({ length: 12 }, (_, i) => [
          `${name}/m${i}`,
          via(name, MODELS[name] ? `${MODELS[name]}-${i}` : `model-${i}`),
        ]),
        [`${name}/plain`, via(name, 'plain', { capabilities: ['STREAMING', 'TOOLS'] })],
      ]),
    ),
  })
})
afterAll(async () => {
  await t.close()
  await vendor.close()
})
beforeEach(() => {
  refuses = () => false
})

/** Provider instances, by form and profile. */
const INSTANCES =
  'ollama groq hosted zai vllm xai mistral openai azure anthropic google bedrock second local other'.split(
    ' ',
  )

/** Names whose beginning the providers know. */
const MODELS: Readonly<Record<string, string>> = {
  xai: 'grok-5',
  mistral: 'mistral-large',
  anthropic: 'claude-opus-4-8',
  google: 'gemini-3-flash',
  bedrock: 'anthropic.claude-opus-4-8',
}

function answerOf(body: any, path: string) {
  if (path.includes('/messages')) {
    const content = [{ type: 'text', text: 'Done' }]
    const usage = { input_tokens: 3, output_tokens: 1 }
    if (!body.stream)
      return json({ type: 'message', role: 'assistant', content, stop_reason: 'end_turn', usage })
    return events(
      { type: 'message_start', message: { usage, content: [] } },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Done' } },
      { type: 'content_block_stop', index: 0 },
      { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage },
      { type: 'message_stop' },
    )
  }
  if (path.includes('enerateContent')) {
    const part = {
      candidates: [{ content: { parts: [{ text: 'Done' }] }, finishReason: 'STOP' }],
      usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 1, totalTokenCount: 4 },
    }
    return path.includes('stream') ? events(part) : json(part)
  }
  if (path.includes('/converse')) {
    const message = { role: 'assistant', content: [{ text: 'Done' }] }
    const usage = { inputTokens: 3, outputTokens: 1, totalTokens: 4 }
    return json({ output: { message }, stopReason: 'end_turn', usage })
  }
  const usage = { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 }
  const choice = { index: 0, finish_reason: 'stop' }
  if (!body.stream)
    return json({
      choices: [{ ...choice, message: { role: 'assistant', content: 'Done' } }],
      usage,
    })
  return events({ choices: [{ ...choice, delta: { content: 'Done' } }], usage }, '[DONE]')
}

const QUESTION = 'Which files are there?'
const DIALECTS = {
  chat: {
    path: '/v1/chat/completions',
    body: {
      messages: [
        { role: 'user', content: QUESTION },
        { role: 'assistant', content: 'Two.', reasoning: 'I count them.' },
        { role: 'user', content: 'Which?' },
      ],
      reasoning_effort: 'high',
    },
    hint: 'reasoning',
    thoughts: 'messages.reasoning',
  },
  messages: {
    path: '/v1/messages',
    body: {
      max_tokens: 4000,
      thinking: { type: 'enabled', budget_tokens: 2000 },
      messages: [
        { role: 'user', content: QUESTION },
        {
          role: 'assistant',
          content: [
            { type: 'thinking', thinking: 'I count them.', signature: 'c2lnbmVk' },
            { type: 'text', text: 'Two.' },
          ],
        },
        { role: 'user', content: 'Which?' },
      ],
    },
    hint: 'thinking',
    thoughts: 'messages.thinking',
  },
  responses: {
    path: '/v1/responses',
    body: {
      reasoning: { effort: 'high' },
      input: [
        { role: 'user', content: QUESTION },
        {
          type: 'reasoning',
          id: 'rs_1',
          summary: [{ type: 'summary_text', text: 'I count them.' }],
        },
        { role: 'assistant', content: 'Two.' },
        { role: 'user', content: 'Which?' },
      ],
    },
    hint: 'reasoning',
    thoughts: 'input.reasoning',
  },
} as const
type Dialect = keyof typeof DIALECTS

const ask = (dialect: Dialect, model: string, stream: boolean) => {
  const { path, body } = DIALECTS[dialect]
  return t.ask('POST', path, { body: { ...body, model, stream } })
}

/** Members with which vendors are asked to reason. */
const HINTS = [
  'reasoning_effort',
  'reasoning',
  'reasoning_format',
  'include_reasoning',
  'thinking',
  'chat_template_kwargs',
  'enable_thinking',
  'prompt_mode',
  'output_config',
]
const hinted = (body: any) =>
  HINTS.some((name) => body[name] !== undefined) ||
  body.generationConfig?.thinkingConfig ||
  body.additionalModelRequestFields?.thinking

/** Refusals as vendors write them. */
const REFUSALS: readonly (readonly [provider: string, status: number, body: object])[] = [
  [
    'ollama',
    400,
    { error: { message: '"llama3.2" does not support thinking', type: 'api_error' } },
  ],
  [
    'groq',
    400,
    {
      error: {
        message: '`reasoning_format` is not supported with this model',
        type: 'invalid_request_error',
        param: 'reasoning_format',
      },
    },
  ],
  [
    'mistral',
    422,
    {
      detail: [
        {
          type: 'extra_forbidden',
          loc: ['body', 'reasoning_effort'],
          msg: 'Extra inputs are not permitted',
        },
      ],
    },
  ],
  [
    'mistral',
    400,
    {
      object: 'error',
      message: 'Reasoning effort is not supported for this model',
      type: 'invalid_request_error',
    },
  ],
  [
    'azure',
    400,
    {
      error: {
        message: 'Unrecognized request argument supplied: reasoning_effort',
        type: 'invalid_request_error',
        param: null,
      },
    },
  ],
  [
    'openai',
    400,
    {
      error: {
        message: "Unsupported parameter: 'reasoning_effort' is not supported with this model.",
        param: 'reasoning_effort',
        code: 'unsupported_parameter',
      },
    },
  ],
  [
    'hosted',
    400,
    { error: { message: 'Unknown parameter: reasoning_effort', type: 'BadRequestError' } },
  ],
  ['zai', 400, { error: { code: '1210', message: 'thinking is not supported by this model' } }],
  [
    'vllm',
    400,
    {
      error: {
        message: 'chat_template_kwargs is not supported',
        type: 'BadRequestError',
        code: 400,
      },
    },
  ],
  [
    'xai',
    400,
    {
      code: 'Client specified an invalid argument',
      error: 'Model does not support parameter reasoningEffort: reasoning_effort.',
    },
  ],
  [
    'anthropic',
    400,
    {
      type: 'error',
      error: {
        type: 'invalid_request_error',
        message: 'adaptive thinking is not supported on this model',
      },
    },
  ],
  [
    'google',
    400,
    {
      error: {
        code: 400,
        message: 'Thinking level is not supported for this model.',
        status: 'INVALID_ARGUMENT',
      },
    },
  ],
  [
    'bedrock',
    400,
    { message: 'The model returned the following errors: thinking is not supported by this model' },
  ],
]

let used = 0
describe.each(REFUSALS)('%s refuses a hint with status %i', (provider, status, body) => {
  const forms = (['chat', 'messages', 'responses'] as const).flatMap((dialect) => [
    [dialect, false] as const,
    [dialect, true] as const,
  ])
  it.each(forms)(
    'and %s (stream: %s) succeeds; the second call asks once',
    async (dialect, stream) => {
      // The vendor speaks this form itself: its refusal is the client's answer.
      if (provider === 'anthropic' && dialect === 'messages') return
      refusal = { status, body }
      refuses = hinted
      const model = `${provider}/m${used++ % 12}`
      const before = vendor.requests.length
      const first = await ask(dialect, model, stream)
      expect([first.status, first.text]).toEqual([200, expect.stringContaining('Done')])
      const asked = vendor.requests.length - before
      const again = await ask(dialect, model, stream)
      expect(again.status).toBe(200)
      expect(vendor.requests.length - before - asked).toBe(1)
      for (const { headers } of [first, again]) {
        expect(headers['x-service-ignored']?.toString().split(', ')).toContain(
          DIALECTS[dialect].hint,
        )
      }
    },
  )
})

describe('a model whose list lacks REASONING', () => {
  it.each(['ollama', 'mistral', 'azure', 'anthropic', 'google', 'bedrock'])(
    'at %s gets neither hints nor thoughts, in no dialect, and no refusal',
    async (provider) => {
      refuses = () => false
      for (const dialect of ['chat', 'messages', 'responses'] as const) {
        for (const stream of [false, true]) {
          const { status, headers } = await ask(dialect, `${provider}/plain`, stream)
          expect(status).toBe(200)
          const { hint, thoughts } = DIALECTS[dialect]
          expect(headers['x-service-ignored']?.toString().split(', ')).toEqual(
            expect.arrayContaining([hint, thoughts]),
          )
          const sent = vendor.requests.at(-1)!
          expect(hinted(sent.json)).toBeFalsy()
          expect(sent.body.toString()).not.toContain('I count them.')
        }
      }
    },
  )
})

describe('a refusal', () => {
  const problem = (message: string, param: string | null = null) => ({
    status: 400,
    body: { error: { message, type: 'invalid_request_error', param } },
  })

  it('of an effort is answered with the nearest that the vendor names', async () => {
    refusal = problem(
      "Unsupported value: 'high' is not supported with this model. Supported values are: 'low' and 'medium'.",
      'reasoning_effort',
    )
    refuses = ({ reasoning_effort }) => reasoning_effort === 'high'
    const { status, headers } = await ask('chat', 'second/m0', false)
    expect([status, vendor.requests.at(-1)!.json.reasoning_effort]).toEqual([200, 'medium'])
    expect(headers['x-service-ignored']).toBeUndefined()
    const before = vendor.requests.length
    await ask('chat', 'second/m0', false)
    expect(vendor.requests.length - before).toBe(1)
  })

  it('of thoughts leaves them out, and hints stay', async () => {
    refusal = problem('Extra inputs are not permitted', 'messages.1.reasoning')
    refuses = ({ messages }) => messages.some((one: any) => one.reasoning !== undefined)
    const { status, headers } = await ask('chat', 'local/m3', false)
    expect([status, headers['x-service-ignored']]).toEqual([200, 'messages.reasoning'])
    expect(vendor.requests.at(-1)!.json.reasoning_effort).toBe('high')
  })

  it.each([
    ['that concerns something else', 'Invalid temperature'],
    ['of a size', 'max_tokens must be greater than thinking.budget_tokens'],
    [
      'of what is lacking',
      'The `reasoning_content` in the thinking mode must be passed back to the API.',
    ],
  ])('%s is not repeated', async (_, message) => {
    refusal = problem(message)
    refuses = () => true
    const before = vendor.requests.length
    const { status } = await ask('chat', 'second/m5', false)
    expect([status, vendor.requests.length - before]).toEqual([400, 1])
  })

  it('of one model says nothing of the others of the instance, and is logged once', async () => {
    refusal = problem('Unknown parameter: reasoning_effort')
    refuses = (body) => body.model === 'model-7' && hinted(body)
    t.logged.length = 0
    await ask('chat', 'second/m7', false)
    await ask('chat', 'second/m7', false)
    await ask('chat', 'second/m8', false)
    expect(hinted(vendor.requests.at(-1)!.json)).toBe(true)
    expect(t.logged.filter((line) => line.includes('refuses reasoning_effort'))).toHaveLength(1)
  })
})

it('the suffix :thinking asks for reasoning, unless the model does not reason', async () => {
  const plain = { messages: [{ role: 'user', content: 'Hello' }] }
  expect((await t.chat({ ...plain, model: 'other/m9:thinking' })).status).toBe(200)
  expect(vendor.requests.at(-1)!.json.thinking).toEqual({ type: 'enabled' })
  expect((await t.chat({ ...plain, model: 'other/plain:thinking' })).status).toBe(200)
  expect(vendor.requests.at(-1)!.json.thinking).toBeUndefined()
})
