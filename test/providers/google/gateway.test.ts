/** Gemini behind a whole gateway, called by the official OpenAI client. */
import OpenAI, { APIError } from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { toCompletion } from '../../endpoints/chat/_completion.ts'
import { createTestGateway, type TestGateway } from '../../_setup.ts'
import { events, json, startUpstream, type FakeUpstream } from '../../upstream.ts'

const MODEL = 'google/gemini-3.5-flash'
const KEY = 'AIzaSy-the-operators-own'

let upstream: FakeUpstream
let t: TestGateway
let client: OpenAI

beforeAll(async () => {
  upstream = await startUpstream()
  t = await createTestGateway({
    providers: { google: { use: 'google', options: { baseURL: upstream.url, apiKey: KEY } } },
    models: {
      [MODEL]: {
        pricing: { prompt: '0.000001', completion: '0.00001', input_cache_read: '0.0000001' },
        capabilities: ['STREAMING', 'TOOLS', 'REASONING', 'VISION'],
        deployments: [{ provider: 'google', model: 'gemini-3.5-flash' }],
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

/** The model's answers, turn by turn. */
const TURNS: object[][] = [
  [
    { text: 'Rome first.', thought: true },
    {
      functionCall: { name: 'weather', args: { city: 'Rome' } },
      thoughtSignature: 'CiQB/+w==+/0aZ9',
    },
  ],
  [
    { text: 'Now both.', thought: true },
    { functionCall: { name: 'clock', args: { city: 'Rome' } }, thoughtSignature: 'Ep-_x' },
    { functionCall: { name: 'clock', args: { city: 'Oslo' } } },
  ],
  [{ text: 'Sunny, ', thoughtSignature: 'RmluYWw=' }],
]

describe('a tool conversation of three turns', () => {
  /** One answer as the client stores it in its history. */
  async function answerTo(messages: any[], stream: boolean): Promise<any> {
    const input = { model: MODEL, messages, tools, reasoning: { effort: 'high' } } as const
    if (!stream) return (await client.chat.completions.create(input as any)).choices[0]!.message
    const chunks: any[] = []
    const streamed = await client.chat.completions.create({ ...input, stream: true } as any)
    for await (const chunk of streamed as any) chunks.push(chunk)
    return toCompletion(chunks).choices[0]!.message
  }

  it.each([true, false])('keeps every signature byte for byte; streamed: %s', async (stream) => {
    const before = upstream.requests.length
    let turn = 0
    upstream.answer(() => {
      const parts = TURNS[turn++] ?? [{ text: 'Bye.' }]
      const said = parts.map((part) => ({ candidates: [{ content: { parts: [part] } }] }))
      const end = { candidates: [{ finishReason: 'STOP' }] }
      return stream
        ? events(...said, end)
        : json({ candidates: [{ content: { parts }, finishReason: 'STOP' }] })
    })

    const messages: any[] = [{ role: 'user', content: 'Rome and Oslo?' }]
    for (let i = 0; i < TURNS.length; i++) {
      const message = await answerTo(messages, stream)
      messages.push(message)
      for (const call of message.tool_calls ?? []) {
        messages.push({ role: 'tool', tool_call_id: call.id, content: `result ${i}` })
      }
    }
    messages.push({ role: 'user', content: 'Thanks.' })
    await answerTo(messages, stream)

    const asked = upstream.requests.slice(before)
    expect(asked).toHaveLength(4)
    const result = (name: string, i: number) => ({
      functionResponse: { name, response: { result: `result ${i}` } },
    })
    expect(asked.at(-1)!.json.contents).toEqual([
      { role: 'user', parts: [{ text: 'Rome and Oslo?' }] },
      { role: 'model', parts: TURNS[0] },
      { role: 'user', parts: [result('weather', 0)] },
      { role: 'model', parts: TURNS[1] },
      { role: 'user', parts: [result('clock', 1), result('clock', 1)] },
      { role: 'model', parts: TURNS[2] },
      { role: 'user', parts: [{ text: 'Thanks.' }] },
    ])
  })
})

describe('money', () => {
  const usageMetadata = {
    promptTokenCount: 1000,
    cachedContentTokenCount: 400,
    candidatesTokenCount: 5,
    thoughtsTokenCount: 300,
  }
  const event = { candidates: [{ content: { parts: [{ text: 'One' }] } }], usageMetadata }
  const ask = { model: MODEL, messages: [{ role: 'user' as const, content: 'Count.' }] }
  // 600 × 1e-6 + 400 × 1e-7 + 305 × 1e-5
  const COST = 0.00369

  it('is charged for thoughts too, and less for cached input', async () => {
    upstream.answer(
      json({ ...event, candidates: [{ ...event.candidates[0], finishReason: 'STOP' }] }),
    )
    const { usage } = await client.chat.completions.create(ask)
    expect(usage).toMatchObject({
      prompt_tokens: 1000,
      completion_tokens: 305,
      total_tokens: 1305,
      cost: COST,
    })
  })

  it('is charged to the token when a client disconnects midway', async () => {
    upstream.answer({ ...events(event), ending: 'hang' })
    const before = await t.balance()
    const stream = await client.chat.completions.create({ ...ask, stream: true })
    for await (const chunk of stream) if (chunk.choices[0]?.delta.content) break
    await expect.poll(() => t.balance()).toBe(before - BigInt(COST * 1e12))
  })
})

describe('an invalid key of the gateway', () => {
  it.each([
    [400, 'INVALID_ARGUMENT', `API key not valid: ${KEY}. Please pass a valid API key.`],
    [403, 'PERMISSION_DENIED', `Consumer ${KEY} has been suspended.`],
  ])('is not the fault of the client: %i', async (code, status, message) => {
    upstream.answer(json({ error: { code, status, message } }, code))
    const error: unknown = await client.chat.completions
      .create({ model: MODEL, messages: [{ role: 'user', content: 'Hi' }] })
      .catch((thrown: unknown) => thrown)
    if (!(error instanceof APIError)) throw new Error('it went well', { cause: error })
    expect(error).toMatchObject({ status: 502, code: 'upstream_error' })
    expect(error.message).not.toContain(KEY)
    expect(t.logged.join('\n')).not.toContain(KEY)
  })
})
