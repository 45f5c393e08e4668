/** OpenAI's official client and the routes that are no chat: vectors, completions, moderation, one model. Several vendors each. */
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { UserConfig } from '../../src/config/config.ts'
import { createTestGateway, type TestGateway } from '../_setup.ts'
import { describeRecorded, whole } from '../fixtures.ts'
import {
  events,
  json,
  startUpstream,
  type FakeUpstream,
  type ReceivedRequest,
} from '../upstream.ts'

const SERVERS = ['house', 'deepseek', 'together'] as const
const EMBEDDING = ['mock', 'openai', 'azure', 'mistral', 'google', 'house'] as const
const COMPLETING = ['mock', 'mistral', ...SERVERS] as const

let vendor: FakeUpstream
let t: TestGateway
let client: OpenAI

beforeAll(async () => {
  vendor = await startUpstream()
  const baseURL = `${vendor.url}/v1`
  const at = (provider: string, options: object = {}) => [
    { provider, model: 'm', options: { ...options } },
  ]
  const config: UserConfig = {
    providers: {
      mock: { use: 'mock' },
      // The vendor of these tests is on this machine.
      openai: { use: 'openai', privateUrls: true, options: { apiKey: 'k', baseURL } },
      azure: { use: 'azure', options: { apiKey: 'k', baseURL: vendor.url } },
      mistral: { use: 'mistral', options: { apiKey: 'k', baseURL } },
      google: { use: 'google', options: { apiKey: 'k', baseURL } },
      house: { use: 'openai-compatible', options: { baseURL } },
      deepseek: { use: 'openai-compatible', options: { baseURL, quirks: 'deepseek' } },
      together: { use: 'openai-compatible', options: { baseURL, quirks: 'together' } },
    },
    models: {
      ...Object.fromEntries(
        EMBEDDING.map((name) => [
          `embed/${name}`,
          { modality: 'embedding', pricing: { prompt: '0.00000002' }, deployments: at(name) },
        ]),
      ),
      ...Object.fromEntries(
        COMPLETING.map((name) => [
          `text/${name}`,
          {
            pricing: { prompt: '0.000001', completion: '0.000002' },
            capabilities: ['STREAMING', 'COMPLETIONS'],
            deployments: at(name, name === 'mock' ? { reply: 'a time.' } : { completions: true }),
          },
        ]),
      ),
      'acme/omni': { modality: 'moderation', pricing: { prompt: '0' }, deployments: at('openai') },
    },
    guards: { use: [{ use: 'pii' }] },
  }
  t = await createTestGateway(config)
  client = new OpenAI({ baseURL: t.baseURL, apiKey: t.key.secret, maxRetries: 0 })
})
afterAll(async () => {
  await t.close()
  await vendor.close()
})

/** Vectors in the form in which a vendor is asked for them. */
function vectors({ path, json: body }: ReceivedRequest) {
  const numbers = [0.25, -0.5, 1]
  if (path.endsWith(':batchEmbedContents')) {
    const embeddings = body.requests.map(() => ({ values: numbers }))
    return json({ embeddings, usageMetadata: { promptTokenCount: 4 } })
  }
  const floats = Buffer.from(Float32Array.from(numbers).buffer).toString('base64')
  const embedding = body.encoding_format === 'base64' ? floats : numbers
  const data = body.input.map((_text: string, index: number) => ({ index, embedding }))
  return json({ object: 'list', data, usage: { prompt_tokens: 4, total_tokens: 4 } })
}

describe('vectors', () => {
  it.each(EMBEDDING)('of %s are the same in every encoding', async (name) => {
    vendor.answer(vectors)
    const request = { model: `embed/${name}`, input: ['Hello', 'there'] }
    // Without an encoding the client asks for base64 and decodes it.
    const usual = await client.embeddings.create(request)
    const plain = await client.embeddings.create({ ...request, encoding_format: 'float' })
    expect(usual.data.map(({ index }) => index)).toEqual([0, 1])
    for (const [at, { embedding }] of usual.data.entries()) {
      expect(embedding).toHaveLength(name === 'mock' ? 8 : 3)
      const numbers = Float32Array.from(plain.data[at]!.embedding)
      expect([...embedding]).toEqual([...numbers])
    }
    expect(usual.usage).toMatchObject({ prompt_tokens: 4, total_tokens: 4, cost: 0.00000008 })
  })

  it('of nothing are an error of the client’s own class', async () => {
    const asked = client.embeddings.create({ model: 'embed/mock', input: '' })
    await expect(asked).rejects.toMatchObject({ status: 400, code: 'empty_string', param: 'input' })
  })
})

/** A completion, whole or streamed; that of Mistral has the form of a chat. */
function completion({ path, json: body }: ReceivedRequest) {
  const isChat = path.includes('/fim/')
  const usage = { prompt_tokens: 3, completion_tokens: 2 }
  const choice = (text: string, end: string | null, streamed: boolean) => ({
    index: 0,
    ...(isChat ? { [streamed ? 'delta' : 'message']: { content: text } } : { text }),
    finish_reason: end,
  })
  if (!body.stream) return json({ choices: [choice('a time.', 'stop', false)], usage })
  return events(
    { choices: [choice('a ', null, true)] },
    { choices: [choice('time.', 'stop', true)], usage },
    '[DONE]',
  )
}

describe('completions', () => {
  it.each(COMPLETING)('of %s are texts, whole and streamed', async (name) => {
    vendor.answer(completion)
    const request = { model: `text/${name}`, prompt: 'Once upon' }
    const answer = await client.completions.create(request)
    expect(answer.choices[0]).toMatchObject({ text: 'a time.', finish_reason: 'stop' })
    expect((answer.usage as any).cost).toBeGreaterThan(0)
    let text = ''
    for await (const part of await client.completions.create({ ...request, stream: true })) {
      text += part.choices[0]?.text ?? ''
    }
    expect(text).toBe('a time.')
  })
})

describe('moderation', () => {
  it('by the gateway’s own guards costs nothing', async () => {
    const input = 'Her IBAN is DE89370400440532013000.'
    const { results, usage } = (await client.moderations.create({ input })) as any
    expect([results[0].flagged, usage.cost]).toEqual([true, 0])
  })
})

describeRecorded('recorded moderation', ['openai'], /moderations/, (recordings) => {
  it.each(recordings)('$name is told as the vendor does', async (recording) => {
    vendor.answer(whole(recording))
    const { input } = recording.request.body
    const { results } = await client.moderations.create({ model: 'acme/omni', input })
    expect(results).toEqual(JSON.parse(recording.body.toString()).results)
  })
})

it('a model is found by its id, encoded as the client does', async () => {
  const entry = await client.models.retrieve('embed/google')
  expect(entry).toMatchObject({ id: 'embed/google', object: 'model', modality: 'embedding' })
})
