/** What users of OpenRouter's official client see: each answer is read, and its cost is what was booked. */
import { OpenRouter } from '@openrouter/sdk'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestGateway, type TestGateway } from '../_setup.ts'
import { parsePico } from '../../src/money/money.ts'

let t: TestGateway
let client: OpenRouter
beforeAll(async () => {
  const pricing = { prompt: '0.000001', completion: '0.000002' }
  const chat = (model: string) => ({
    pricing,
    capabilities: ['STREAMING' as const, 'TOOLS' as const, 'REASONING' as const],
    deployments: [{ provider: 'mock', model }],
  })
  t = await createTestGateway({
    providers: { mock: { use: 'mock' } },
    models: {
      'mock/echo': chat('echo'),
      'mock/tools': chat('tools'),
      'mock/vectors': {
        modality: 'embedding',
        pricing: { prompt: '0.000001' },
        deployments: [{ provider: 'mock', model: 'm' }],
      },
      'mock/ranks': {
        modality: 'rerank',
        pricing: { prompt: '0.000001' },
        deployments: [{ provider: 'mock', model: 'm' }],
      },
    },
  })
  client = new OpenRouter({ apiKey: t.key.secret, serverURL: t.baseURL })
})
afterAll(() => t.close())

/** What a call returned, after its cost was compared with the books. */
async function booked<T>(
  ask: () => Promise<T>,
  costOf: (answer: T) => number | null | undefined,
): Promise<T> {
  const before = await t.balance()
  const answer = await ask()
  const cost = costOf(answer)
  expect(cost).toBeGreaterThan(0)
  expect(parsePico(cost!.toFixed(12))).toBe(before - (await t.balance()))
  return answer
}

const messages = [{ role: 'user' as const, content: 'Hello there' }]
const tools = [
  { type: 'function' as const, function: { name: 'look', parameters: { type: 'object' } } },
]

describe('chat', () => {
  it('is read whole', async () => {
    const ask = () =>
      client.chat.send({ chatRequest: { model: 'mock/echo', messages, stream: false } })
    const answer = await booked(ask, ({ usage }: any) => usage.cost)
    expect(answer).toMatchObject({
      systemFingerprint: null,
      choices: [
        { message: { content: expect.stringContaining('Hello there') }, finishReason: 'stop' },
      ],
      usage: { costDetails: { upstreamInferencePromptCost: expect.any(Number) } },
    })
  })

  it('is read as a stream', async () => {
    const ask = async () => {
      const chunks: any[] = []
      const stream = await client.chat.send({
        chatRequest: { model: 'mock/echo', messages, stream: true },
      })
      for await (const chunk of stream as AsyncIterable<any>) chunks.push(chunk)
      return chunks
    }
    const chunks = await booked(ask, (all) => all.at(-1).usage.cost)
    expect(chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join('')).toContain(
      'Hello there',
    )
  })

  it('is read with calls of tools, whole and as a stream', async () => {
    const chatRequest = { model: 'mock/tools', messages, tools }
    const whole: any = await client.chat.send({ chatRequest: { ...chatRequest, stream: false } })
    expect(whole.choices[0].message.toolCalls).toMatchObject([{ function: { name: 'look' } }])
    const stream: any = await client.chat.send({ chatRequest: { ...chatRequest, stream: true } })
    const calls: any[] = []
    for await (const { choices } of stream) calls.push(...(choices[0]?.delta.toolCalls ?? []))
    expect(calls[0]).toMatchObject({ function: { name: 'look' } })
  })
})

describe('responses', () => {
  const request = { model: 'mock/echo', input: 'Hello there' }
  it('are read whole', async () => {
    const ask = () =>
      client.beta.responses.send({ responsesRequest: { ...request, stream: false } } as any)
    const answer: any = await booked(ask, ({ usage }: any) => usage.cost)
    expect(JSON.stringify(answer.output)).toContain('Hello there')
  })

  it('are read as a stream', async () => {
    const ask = async () => {
      const events: any[] = []
      const stream: any = await client.beta.responses.send({
        responsesRequest: { ...request, stream: true },
      } as any)
      for await (const event of stream) events.push(event)
      return events
    }
    const events = await booked(ask, (all) => all.at(-1).response.usage.cost)
    expect(events.at(-1).type).toBe('response.completed')
  })
})

it('embeddings, ranks and credits are read', async () => {
  const embed = () =>
    client.embeddings.generate({ requestBody: { model: 'mock/vectors', input: 'Hello there' } })
  const vectors: any = await booked(embed, ({ usage }: any) => usage.cost)
  expect(vectors.data[0].embedding.length).toBeGreaterThan(0)
  const rank = () =>
    client.rerank.rerank({
      requestBody: { model: 'mock/ranks', query: 'a', documents: ['a', 'b'] },
    })
  const ranks: any = await booked(rank, ({ usage }: any) => usage.cost)
  expect(ranks.results).toHaveLength(2)
  const { data } = await client.credits.getCredits()
  const left = parsePico((data.totalCredits - data.totalUsage).toFixed(12))
  expect(left).toBe(await t.balance())
})
