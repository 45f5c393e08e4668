/** Anthropic's official client and the AI SDK's provider for it, against /v1/messages on a real socket. */
import { generateText, streamText, tool, stepCountIs, jsonSchema } from 'ai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { UserConfig } from '../../src/config/config.ts'
import { createTestGateway, MOCK_CONFIG, type TestGateway } from '../_setup.ts'

// Loaded by name and without types: requests are what these tests send, not what a version of the clients knows.
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
    'mock/echo': { ...echo, aliases: ['claude-echo'] },
    'mock/thinks': scripted({ reasoning: 'Let me see.', reply: 'Done.' }),
    'mock/breaks': scripted({ reply: 'One two', error: { class: 'overloaded', after: 2 } }),
    'mock/overloaded': scripted({ error: { class: 'overloaded' } }),
  },
} as UserConfig

const user = (content: unknown) => ({ role: 'user', content })
const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
const PDF = Buffer.from('%PDF-1.4\n%%EOF').toString('base64')
const SCHEMA = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
  additionalProperties: false,
}

let gateway: TestGateway
beforeAll(async () => {
  gateway = await createTestGateway(CONFIG)
})
afterAll(() => gateway.close())

describe('the official client', () => {
  let client: any
  let library: any
  beforeAll(async () => {
    library = await load('@anthropic-ai/sdk')
    client = new library.default({
      baseURL: gateway.url,
      apiKey: gateway.key.secret,
      maxRetries: 0,
    })
  })
  const ask = (members: object = {}) => ({
    model: 'claude-echo',
    max_tokens: 1000,
    messages: [user('Hello there')],
    ...members,
  })

  it('gets a message, with the cost and the id of the request', async () => {
    const message = await client.messages.create(ask())
    expect(message.content).toEqual([{ type: 'text', text: 'Hello there' }])
    expect([message.stop_reason, message.model]).toEqual(['end_turn', 'claude-echo'])
    expect(message.usage.cost).toBeGreaterThan(0)
    expect(message._request_id).toMatch(/^req_/)
  })

  it('takes its key as a bearer token as well', async () => {
    const { secret: authToken } = gateway.key
    const other = new library.default({ baseURL: gateway.url, apiKey: null, authToken })
    expect((await other.messages.create(ask())).type).toBe('message')
  })

  it('puts a stream together', async () => {
    const stream = client.messages.stream(ask())
    const events: any[] = []
    let text = ''
    stream.on('streamEvent', (event: any) => events.push(event))
    stream.on('text', (piece: string) => (text += piece))
    const message = await stream.finalMessage()
    expect([text, message.content[0].text]).toEqual(['Hello there', 'Hello there'])
    expect(message.usage.output_tokens).toBe(3)
    const { usage } = events.find(({ type }) => type === 'message_delta')
    expect(usage.cost).toBeGreaterThan(0)
  })

  it('calls two tools at once, and hands their results back', async () => {
    const tools = ['weather', 'time'].map((name) => ({ name, input_schema: SCHEMA }))
    const model = 'mock/tools'
    for (const stream of [false, true]) {
      const first = stream
        ? await client.messages.stream(ask({ model, tools })).finalMessage()
        : await client.messages.create(ask({ model, tools }))
      expect(first.stop_reason).toBe('tool_use')
      expect(first.content).toMatchObject([
        { type: 'tool_use', name: 'weather', input: { city: expect.any(String) } },
        { type: 'tool_use', name: 'time', input: { city: expect.any(String) } },
      ])
      const results = first.content.map(({ id }: any) => {
        return { type: 'tool_result', tool_use_id: id, content: `of ${id}` }
      })
      const messages = [user('Hello'), { role: 'assistant', content: first.content }, user(results)]
      const last = await client.messages.create(ask({ model, tools, messages }))
      expect(last.content[0].text).toContain(results[1].content)
    }
  })

  it('replays thinking', async () => {
    const stream = client.messages.stream(ask({ model: 'mock/thinks' }))
    let thinking = ''
    stream.on('thinking', (piece: string) => (thinking += piece))
    const { content } = await stream.finalMessage()
    expect(thinking).toBe('Let me see.')
    expect(content.map(({ type }: any) => type)).toEqual(['thinking', 'text'])
    const messages = [user('Hello'), { role: 'assistant', content }, user('And?')]
    expect((await client.messages.create(ask({ messages }))).content[0].text).toBe('And?')
  })

  it('sends images and documents, and asks for JSON', async () => {
    const content = [
      { type: 'text', text: 'What is this?' },
      { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PNG } },
      { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: PDF } },
    ]
    const { content: said } = await client.messages.create(ask({ messages: [user(content)] }))
    expect(said[0].text).toBe('What is this?')
    const output_config = { format: { type: 'json_schema', schema: SCHEMA } }
    const answer = await client.messages.create(ask({ output_config }))
    expect(JSON.parse(answer.content[0].text)).toHaveProperty('city')
  })

  it('counts tokens', async () => {
    const { messages } = ask()
    const counted = await client.messages.countTokens({ model: 'claude-echo', messages })
    expect(counted.input_tokens).toBe(3)
  })

  it('sees a refusal of a guard as one', async () => {
    const policy = { version: 1 as const, bannedPatterns: ['there'], refusal: 'No.' }
    const { secret: apiKey } = await gateway.newKey({ policy })
    const guarded = new library.default({ baseURL: gateway.url, apiKey })
    const message = await guarded.messages.stream(ask()).finalMessage()
    expect(message.stop_reason).toBe('refusal')
    expect(message.content).toEqual([{ type: 'text', text: 'No.' }])
  })

  it('throws its own errors', async () => {
    const failureOf = (members: object) =>
      client.messages.create(ask(members)).catch((error: unknown) => error)
    const missing = await failureOf({ model: 'no/such' })
    expect(missing).toBeInstanceOf(library.NotFoundError)
    expect(missing.requestID).toMatch(/^req_/)
    expect(missing.error.error.type).toBe('not_found_error')
    expect(await failureOf({ max_tokens: 0 })).toBeInstanceOf(library.BadRequestError)
    expect((await failureOf({ model: 'mock/overloaded' })).status).toBe(529)
    const broken = client.messages.stream(ask({ model: 'mock/breaks' })).finalMessage()
    await expect(broken).rejects.toMatchObject({
      error: { error: { type: 'overloaded_error', usage: { cost: expect.any(Number) } } },
    })
  })
})

describe('the AI SDK', () => {
  const limit = { maxOutputTokens: 1000 }
  let model: (id: string) => any
  beforeAll(async () => {
    const { createAnthropic } = await load('@ai-sdk/anthropic')
    model = createAnthropic({ baseURL: gateway.baseURL, apiKey: gateway.key.secret })
  })

  it('generates and streams', async () => {
    const asked = { model: model('claude-echo'), prompt: 'Hello there', ...limit }
    const { text, usage } = await generateText(asked)
    expect([text, usage.inputTokens, usage.outputTokens]).toEqual(['Hello there', 3, 3])
    const stream = streamText(asked)
    expect(await stream.text).toBe('Hello there')
    expect((await stream.usage).outputTokens).toBe(3)
    expect(await stream.finishReason).toBe('stop')
  })

  it('reasons, and runs tools to the end', async () => {
    const { reasoningText } = await generateText({
      model: model('mock/thinks'),
      prompt: 'Hello',
      ...limit,
    })
    expect(reasoningText).toBe('Let me see.')
    const called: unknown[] = []
    const weather = tool({
      inputSchema: jsonSchema<{ city: string }>(SCHEMA as object),
      execute: ({ city }) => {
        called.push(city)
        return 'sunny'
      },
    })
    const stream = streamText({
      model: model('mock/tools'),
      prompt: 'Hello',
      ...limit,
      tools: { weather },
      stopWhen: stepCountIs(3),
    })
    expect(await stream.text).toContain('sunny')
    expect(called).toHaveLength(1)
  })
})
