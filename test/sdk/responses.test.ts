/** OpenAI's official client and the AI SDK's provider with their Responses API, against /v1/responses on a real socket. */
import OpenAI from 'openai'
import { zodTextFormat } from 'openai/helpers/zod'
import { generateText, jsonSchema, stepCountIs, streamText, tool } from 'ai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import type { UserConfig } from '../../src/config/config.ts'
import { createTestGateway, MOCK_CONFIG, type TestGateway } from '../_setup.ts'
import { checked } from '../endpoints/chat/dialects/responses/_events.ts'

// Loaded by name and without types: requests are what these tests send, not what a version of the client knows.
const load = (name: string): Promise<any> => import(name)

const echo = MOCK_CONFIG.models['mock/echo']
const scripted = (options: object) => ({
  ...echo,
  deployments: [{ provider: 'mock', model: 'echo', options }],
})
const CONFIG = {
  ...MOCK_CONFIG,
  models: {
    ...MOCK_CONFIG.models,
    'mock/thinks': scripted({ reasoning: 'Let me see.', reply: 'Done.' }),
    'mock/json': scripted({ reply: '{"city":"Oslo"}' }),
    'mock/breaks': scripted({ reply: 'One two', error: { class: 'upstream_error', after: 2 } }),
  },
} as UserConfig

const PNG =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
const SCHEMA = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
  additionalProperties: false,
}
const weather = {
  type: 'function' as const,
  name: 'weather',
  parameters: SCHEMA,
  strict: true,
}

let gateway: TestGateway
let client: OpenAI
beforeAll(async () => {
  gateway = await createTestGateway(CONFIG)
  client = new OpenAI({
    baseURL: `${gateway.url}/v1`,
    apiKey: gateway.key.secret,
    maxRetries: 0,
  })
})
afterAll(() => gateway.close())

describe('the official client', () => {
  const ask = { model: 'mock/echo', input: 'Hello there' }

  it('gets a response, with the cost', async () => {
    const response = await client.responses.create(ask)
    expect(response.output_text).toBe('Hello there')
    expect(response.status).toBe('completed')
    expect((response.usage as any).cost).toBeGreaterThan(0)
  })

  it('reads the events of a stream', async () => {
    const events: any[] = []
    for await (const event of await client.responses.create({ ...ask, stream: true })) {
      events.push(event)
    }
    expect(checked(events).output[0].content[0].text).toBe('Hello there')
  })

  it('puts a stream together', async () => {
    const stream = client.responses.stream({ ...ask, model: 'mock/thinks' })
    let text = ''
    stream.on('response.output_text.delta', ({ delta }) => (text += delta))
    const response = await stream.finalResponse()
    expect(text).toBe('Done.')
    expect(response.output_text).toBe('Done.')
    expect(response.output[0]).toMatchObject({
      type: 'reasoning',
      summary: [{ type: 'summary_text', text: 'Let me see.' }],
    })
    expect((response.usage as any).cost).toBeGreaterThan(0)
  })

  it('calls tools and sends their results', async () => {
    const first = await client.responses
      .stream({ ...ask, model: 'mock/tools', tools: [weather] })
      .finalResponse()
    const calls = first.output.filter((item) => item.type === 'function_call')
    expect(calls).toMatchObject([{ name: 'weather', arguments: expect.any(String) }])
    const input = [
      { role: 'user' as const, content: 'Weather?' },
      ...first.output.map(({ parsed_arguments: _parsed, ...item }: any) => item),
      { type: 'function_call_output' as const, call_id: calls[0]!.call_id, output: 'rain' },
    ]
    const second = await client.responses.create({ model: 'mock/tools', tools: [weather], input })
    expect(second.output_text).toContain('rain')
  })

  it('gets structured outputs', async () => {
    const format = zodTextFormat(z.object({ city: z.string() }), 'place')
    const response = await client.responses.parse({ ...ask, model: 'mock/json', text: { format } })
    expect(response.output_parsed).toEqual({ city: 'Oslo' })
  })

  it('sends images and files', async () => {
    const content = [
      { type: 'input_text' as const, text: 'What is this?' },
      { type: 'input_image' as const, image_url: PNG, detail: 'auto' as const },
    ]
    const input = [{ role: 'user' as const, content }]
    expect((await client.responses.create({ ...ask, input })).output_text).toBe('What is this?')
  })

  it('counts a prompt', async () => {
    const count: any = await client.post('/responses/input_tokens', { body: ask })
    expect(count).toEqual({ object: 'response.input_tokens', input_tokens: expect.any(Number) })
  })

  it('gets errors as its own', async () => {
    const refused = client.responses.create({ ...ask, previous_response_id: 'resp_1' })
    await expect(refused).rejects.toMatchObject({
      status: 400,
      code: 'unsupported_parameter',
      param: 'previous_response_id',
    })
    const unknown = client.responses.create({ ...ask, model: 'no/such' })
    await expect(unknown).rejects.toBeInstanceOf(OpenAI.NotFoundError)
    const broken = await client.responses.stream({ ...ask, model: 'mock/breaks' }).finalResponse()
    expect(broken.status).toBe('failed')
    expect(broken.error?.code).toBe('upstream_error')
  })
})

describe('the AI SDK', () => {
  let provider: any
  beforeAll(async () => {
    const { createOpenAI } = await load('@ai-sdk/openai')
    provider = createOpenAI({ baseURL: `${gateway.url}/v1`, apiKey: gateway.key.secret })
  })
  const tools = () => ({
    weather: tool({
      inputSchema: jsonSchema<{ city: string }>(SCHEMA as any),
      execute: async () => 'rain',
    }),
  })

  it('generates text with its default model', async () => {
    const { text, usage, finishReason } = await generateText({
      model: provider('mock/echo'),
      prompt: 'Hello there',
      maxRetries: 0,
    })
    expect([text, finishReason]).toEqual(['Hello there', 'stop'])
    expect(usage.outputTokens).toBeGreaterThan(0)
  })

  it('streams reasoning and text', async () => {
    const result = streamText({ model: provider('mock/thinks'), prompt: 'Hm', maxRetries: 0 })
    let text = ''
    for await (const piece of result.textStream) text += piece
    expect(text).toBe('Done.')
    expect(await result.reasoningText).toBe('Let me see.')
    expect(await result.finishReason).toBe('stop')
  })

  // The client refers to its earlier items by their ids, unless it is told not to.
  it.each([{}, { store: false }])('makes round trips with a tool and %j', async (openai) => {
    const asked = { model: provider('mock/tools'), prompt: 'Weather?', maxRetries: 0 }
    const providerOptions = { openai }
    const steps = { tools: tools(), stopWhen: stepCountIs(3), providerOptions }
    const whole = await generateText({ ...asked, ...steps })
    expect(whole.text).toContain('rain')
    const result = streamText({ ...asked, ...steps })
    let text = ''
    for await (const piece of result.textStream) text += piece
    expect(text).toContain('rain')
  })
})
