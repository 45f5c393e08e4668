import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestGateway, type TestGateway } from '../_setup.ts'

let t: TestGateway
let client: OpenAI

beforeAll(async () => {
  t = await createTestGateway({
    providers: { mock: { use: 'mock' } },
    models: {
      'acme/embed': {
        modality: 'embedding',
        pricing: { prompt: '0.00000002' },
        deployments: [{ provider: 'mock', model: 'embed' }],
      },
    },
  })
  client = new OpenAI({ baseURL: t.baseURL, apiKey: t.key.secret, maxRetries: 0 })
})
afterAll(() => t.close())

describe('the official client', () => {
  it('gets the same vectors in every encoding', async () => {
    const request = { model: 'acme/embed', input: ['Hello', 'there'], dimensions: 4 }
    // Without an encoding the client asks for base64 and decodes it.
    const usual = await client.embeddings.create(request)
    const plain = await client.embeddings.create({ ...request, encoding_format: 'float' })
    expect(usual.data.map(({ index }) => index)).toEqual([0, 1])
    for (const [at, { embedding }] of usual.data.entries()) {
      expect(embedding).toHaveLength(4)
      const numbers = Float32Array.from(plain.data[at]!.embedding)
      expect([...embedding]).toEqual([...numbers])
    }
    expect(usual.usage).toMatchObject({ prompt_tokens: 4, total_tokens: 4, cost: 0.00000008 })
  })

  it('gets an error of its own class for a bad request', async () => {
    const asked = client.embeddings.create({ model: 'acme/embed', input: '' })
    await expect(asked).rejects.toMatchObject({ status: 400, code: 'empty_string', param: 'input' })
  })
})
