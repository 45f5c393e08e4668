/** The Responses API behind a whole gateway, called by the official client with chat completions. */
import OpenAI, { APIError } from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestGateway, type TestGateway } from '../../_setup.ts'
import { toCompletion } from '../../endpoints/chat/_completion.ts'
import {
  events,
  json,
  startUpstream,
  type FakeResponse,
  type FakeUpstream,
} from '../../upstream.ts'
import { answerWith, eventsOf } from './_responses.ts'

const AGENT = 'openai/gpt-5.4'
const EITHER = 'openai/gpt-5.5'
const PRICING = {
  prompt: '0.000001',
  input_cache_read: '0.0000001',
  input_cache_write: '0.000002',
  completion: '0.00001',
}
const USAGE = { input_tokens: 3, output_tokens: 2 }

let upstream: FakeUpstream
let t: TestGateway
let client: OpenAI

const providersAt = (baseURL: string) => ({
  openai: { use: 'openai', options: { baseURL, apiKey: 'sk-1' } },
  azure: { use: 'azure', options: { baseURL, apiKey: 'k' } },
})
const capabilities = ['STREAMING', 'TOOLS', 'REASONING', 'VISION', 'STRUCTURED_OUTPUTS'] as const

beforeAll(async () => {
  upstream = await startUpstream()
  t = await createTestGateway({
    providers: providersAt(upstream.url),
    routing: { attempts: 3, cooldown: 0 },
    models: {
      [AGENT]: {
        pricing: PRICING,
        capabilities: [...capabilities],
        deployments: [{ provider: 'openai', model: 'gpt-5.4' }],
      },
      [EITHER]: {
        pricing: PRICING,
        capabilities: [...capabilities],
        deployments: [
          { provider: 'openai', model: 'chat-first', options: { api: 'chat' } },
          { provider: 'openai', model: 'gpt-5.5', priority: 1 },
          { provider: 'azure', model: 'chat-last', priority: 2, options: { api: 'chat' } },
        ],
      },
    },
  })
  client = new OpenAI({ baseURL: t.baseURL, apiKey: t.key.secret, maxRetries: 0 })
})

afterAll(async () => {
  await t.close()
  await upstream.close()
})

const tools = ['weather', 'clock'].map((name) => ({
  type: 'function' as const,
  function: { name, parameters: { type: 'object', properties: { city: { type: 'string' } } } },
}))

const thought = (id: string, encrypted_content: string, ...texts: string[]) => {
  const summary = texts.map((text) => ({ type: 'summary_text', text }))
  return { id, type: 'reasoning', summary, encrypted_content }
}
const call = (id: string, name: string, city: string) => {
  const text = JSON.stringify({ city })
  return {
    id: `fc_${id}`,
    type: 'function_call',
    call_id: id,
    name,
    arguments: text,
    status: 'completed',
  }
}
const message = (text: string, phase: string) => ({
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  status: 'completed',
  phase,
  content: [{ type: 'output_text', text, annotations: [] }],
})

/** The model's answers, turn by turn. */
const TURNS: readonly (readonly any[])[] = [
  [
    thought('rs_1', 'gAAAAABo+/w==\u2028"\\', '**Rome** first.', '\n\nThen Oslo, 👋🏽.'),
    message('I look.', 'commentary'),
    call('call_1', 'weather', 'Rome'),
    call('call_2', 'weather', 'Oslo'),
  ],
  [
    thought('rs_2', 'gAAAAABp-_2'),
    thought('rs_3', 'gAAAAABq=', 'Now both.'),
    call('call_3', 'clock', 'Rome'),
  ],
  [thought('rs_4', 'gAAAAABr/4'), message('Sunny, noon.', 'final_answer')],
]

/** An item as it has to come back. */
function replayed({ id: _id, ...item }: any): object {
  if (item.type === 'function_call') delete item.status
  return item
}

describe('a tool conversation of three turns', () => {
  async function answerTo(messages: any[], stream: boolean): Promise<any> {
    const input = { model: AGENT, messages, tools, reasoning: { effort: 'high' } } as const
    if (!stream) return (await client.chat.completions.create(input as any)).choices[0]!.message
    const chunks: any[] = []
    const streamed = await client.chat.completions.create({ ...input, stream: true } as any)
    for await (const chunk of streamed as any) chunks.push(chunk)
    return toCompletion(chunks).choices[0]!.message
  }

  it.each([true, false])(
    'keeps every encrypted item byte for byte; streamed: %s',
    async (stream) => {
      const before = upstream.requests.length
      let turn = 0
      upstream.answer(() =>
        answerWith(TURNS[turn++] ?? [message('Bye.', 'final_answer')], USAGE, stream),
      )

      const messages: any[] = [{ role: 'user', content: 'Rome and Oslo?' }]
      for (let i = 0; i < TURNS.length; i++) {
        const answer = await answerTo(messages, stream)
        messages.push(answer)
        for (const { id } of answer.tool_calls ?? []) {
          messages.push({ role: 'tool', tool_call_id: id, content: `result ${i}` })
        }
      }
      messages.push({ role: 'user', content: 'Thanks.' })
      await answerTo(messages, stream)

      const said = (text: string) => [{ type: 'input_text', text }]
      const result = (call_id: string, i: number) => {
        return { type: 'function_call_output', call_id, output: `result ${i}` }
      }
      const expected = [
        { type: 'message', role: 'user', content: said('Rome and Oslo?') },
        ...TURNS[0]!.map(replayed),
        result('call_1', 0),
        result('call_2', 0),
        ...TURNS[1]!.map(replayed),
        result('call_3', 1),
        ...TURNS[2]!.map(replayed),
        { type: 'message', role: 'user', content: said('Thanks.') },
      ]
      const asked = upstream.requests.slice(before)
      expect(asked).toHaveLength(4)
      expect(asked.at(-1)!.json.input).toEqual(expected)
      // The bytes of each reasoning item, on every later turn.
      for (const [i, { body }] of asked.entries()) {
        for (const item of TURNS.slice(0, i).flat()) {
          if (item.type !== 'reasoning') continue
          const { summary, encrypted_content } = item
          const bytes = JSON.stringify({ type: 'reasoning', summary, encrypted_content })
          expect(body.toString()).toContain(bytes)
        }
      }
    },
  )
})

describe('money', () => {
  it('is charged for reasoning, and by the price of each kind of input', async () => {
    const usage = {
      input_tokens: 1000,
      input_tokens_details: { cached_tokens: 400, cache_write_tokens: 100 },
      output_tokens: 305,
      output_tokens_details: { reasoning_tokens: 300 },
    }
    // 500 × 1e-6 + 400 × 1e-7 + 100 × 2e-6 + 305 × 1e-5
    const shown = {
      prompt_tokens: 1000,
      completion_tokens: 305,
      total_tokens: 1305,
      cost: 0.00379,
      completion_tokens_details: { reasoning_tokens: 300 },
      prompt_tokens_details: { cached_tokens: 400, cache_write_tokens: 100 },
    }
    const ask = { model: AGENT, messages: [{ role: 'user' as const, content: 'Count.' }] }
    upstream.answer(answerWith(TURNS[2]!, usage, false))
    expect((await client.chat.completions.create(ask)).usage).toMatchObject(shown)
    upstream.answer(answerWith(TURNS[2]!, usage, true))
    const stream_options = { include_usage: true }
    const stream = await client.chat.completions.create({ ...ask, stream: true, stream_options })
    let last: any
    for await (const chunk of stream) last = chunk
    expect(last.usage).toMatchObject(shown)
  })
})

describe('a model with deployments of both kinds', () => {
  const chatAnswer = (stream: boolean) => {
    const usage = { prompt_tokens: 3, completion_tokens: 2 }
    return stream
      ? events(
          { choices: [{ delta: { content: 'By chat.' } }] },
          { choices: [{ finish_reason: 'stop' }], usage },
        )
      : json({ choices: [{ message: { content: 'By chat.' }, finish_reason: 'stop' }], usage })
  }
  const byResponses = (stream: boolean) => {
    return answerWith([message('By responses.', 'final_answer')], USAGE, stream)
  }
  const busy = json({ error: { message: 'Slow down.', code: 'rate_limit_exceeded' } }, 429)
  const opening = eventsOf([], USAGE).slice(0, 2)
  const failed = (code: string) => ({
    type: 'response.failed',
    response: { status: 'failed', error: { code, message: 'No.' } },
  })
  const reasoning = {
    type: 'response.output_item.added',
    output_index: 0,
    item: { type: 'reasoning' },
  }

  /** Answers by the name of the deployment's model. */
  function answer(answers: Record<string, FakeResponse>): void {
    upstream.answer(({ json: body }) => answers[body.model]!)
  }

  /** What a client gets for a conversation with a past, and which models were asked. */
  async function ask(stream: boolean) {
    const before = upstream.requests.length
    const data = {
      type: 'reasoning.encrypted',
      data: 'gAAA',
      format: 'openai-responses-v1',
      id: 'rs_1',
      index: 0,
    }
    const messages: any[] = [
      { role: 'user', content: 'Hi' },
      {
        role: 'assistant',
        content: 'A moment.',
        phase: 'commentary',
        reasoning: 'Hm.',
        reasoning_details: [data],
        tool_calls: [
          { id: 'call_1', type: 'function', function: { name: 'clock', arguments: '{}' } },
        ],
      },
      { role: 'tool', tool_call_id: 'call_1', content: 'noon', is_error: true },
    ]
    const input = { model: EITHER, messages, tools }
    const text = stream
      ? await textOf(await client.chat.completions.create({ ...input, stream: true }))
      : (await client.chat.completions.create(input)).choices[0]!.message.content
    const asked = upstream.requests.slice(before)
    return { text, asked, models: asked.map(({ json: body }) => body.model) }
  }

  async function textOf(stream: AsyncIterable<OpenAI.ChatCompletionChunk>): Promise<string> {
    let text = ''
    for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? ''
    return text
  }

  it.each([true, false])('fails over from chat to responses; streamed: %s', async (stream) => {
    answer({ 'chat-first': busy, 'gpt-5.5': byResponses(stream) })
    const { text, asked } = await ask(stream)
    expect(text).toBe('By responses.')
    // Each gets the conversation in its own form.
    const [chat, responses] = asked.map(({ json: body }) => body)
    expect(asked[0]!.body.toString()).not.toMatch(/reasoning|phase|is_error/)
    expect(chat.messages).toHaveLength(3)
    expect(responses.input.map(({ type }: any) => type)).toEqual([
      'message',
      'reasoning',
      'message',
      'function_call',
      'function_call_output',
    ])
  })

  it.each([
    ['an error status', busy],
    ['an error', events(...opening, { type: 'error', code: 'server_error', message: 'No.' })],
    ['a failed response', events(...opening, failed('server_error'))],
    [
      'both',
      events(...opening, { type: 'error', error: { code: 'slow_down' } }, failed('slow_down')),
    ],
    ['a cut', { ...events(...opening), ending: 'cut' }],
    ['an early end', events(...opening)],
  ] satisfies [string, FakeResponse][])(
    'fails over from responses to chat, before the first part: %s',
    async (_what, failure) => {
      answer({ 'chat-first': busy, 'gpt-5.5': failure, 'chat-last': chatAnswer(true) })
      const { text, models } = await ask(true)
      expect(text).toBe('By chat.')
      expect(models).toEqual(['chat-first', 'gpt-5.5', 'chat-last'])
    },
  )

  it('has begun when it reasons, however long that takes without a word', async () => {
    const before = upstream.requests.length
    answer({ 'chat-first': busy, 'gpt-5.5': { ...events(...opening, reasoning), ending: 'hang' } })
    const messages = [{ role: 'user' as const, content: 'Hi' }]
    const stream = await client.chat.completions.create({ model: EITHER, messages, stream: true })
    for await (const { choices } of stream) {
      expect(choices[0]!.delta).toMatchObject({ role: 'assistant', content: '' })
      break
    }
    answer({ 'chat-first': busy, 'gpt-5.5': events(...opening, reasoning, failed('server_error')) })
    await expect(ask(true)).rejects.toMatchObject({ code: 'upstream_error' })
    const models = upstream.requests.slice(before).map(({ json: body }) => body.model)
    expect(models).toEqual(['chat-first', 'gpt-5.5', 'chat-first', 'gpt-5.5'])
  })

  it('fails over from a whole response that failed', async () => {
    const failure = json({ status: 'failed', output: [], error: { code: 'server_error' } })
    answer({ 'chat-first': busy, 'gpt-5.5': failure, 'chat-last': chatAnswer(false) })
    expect(await ask(false)).toMatchObject({ text: 'By chat.' })
  })

  it('does not fail over from what every deployment would refuse', async () => {
    for (const [code, expected] of [
      ['invalid_prompt', 'content_policy_violation'],
      ['context_length_exceeded', 'context_length_exceeded'],
      ['invalid_image', 'invalid_image'],
    ] as const) {
      answer({ 'chat-first': busy, 'gpt-5.5': events(...opening, failed(code)) })
      const error: unknown = await ask(true).catch((thrown: unknown) => thrown)
      expect(error).toBeInstanceOf(APIError)
      expect(error).toMatchObject({ status: 400, code: expected })
    }
  })

  it('does not fail over once something was said, and charges for it', async () => {
    const said = eventsOf([message('Once upon', 'final_answer')], USAGE).slice(0, -2)
    const usage = { input_tokens: 1000, output_tokens: 100 }
    const broken = { type: 'response.failed', response: { error: { code: 'server_error' }, usage } }
    answer({
      'chat-first': busy,
      'gpt-5.5': events(...said, { type: 'error', code: 'server_error' }, broken),
    })
    const before = await t.balance()
    const error: unknown = await ask(true).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'upstream_error' })
    // 1000 × 1e-6 + 100 × 1e-5
    expect(before - (await t.balance())).toBe(2_000_000_000n)
  })
})

describe('the option api', () => {
  it.each(['deployments', 'models'])('is refused at the surface %s of Azure', async (surface) => {
    const providers = providersAt(upstream.url)
    const options = { ...providers.azure.options, surface }
    const making = createTestGateway({
      providers: { azure: { use: 'azure', options } },
      models: {
        'a/b': {
          pricing: PRICING,
          deployments: [{ provider: 'azure', model: 'x', options: { api: 'responses' } }],
        },
      },
    })
    await expect(making).rejects.toThrow(
      'models.a/b.deployments.0.options.api  expected "auto" or "chat", because only the surface "v1" has',
    )
  })
})
