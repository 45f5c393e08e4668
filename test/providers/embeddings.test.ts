import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import azure from '../../providers/azure.ts'
import google from '../../providers/google.ts'
import mistral from '../../providers/mistral.ts'
import openai from '../../providers/openai.ts'
import openaiCompatible from '../../providers/openai-compatible.ts'
import type { UserConfig } from '../../src/config/config.ts'
import { createTestGateway, type TestGateway } from '../_setup.ts'
import { json, startUpstream, type FakeUpstream } from '../upstream.ts'

let vendor: FakeUpstream
let t: TestGateway

beforeAll(async () => {
  vendor = await startUpstream()
  const baseURL = `${vendor.url}/v1`
  const deployment = (provider: string) => ({
    modality: 'embedding' as const,
    pricing: { prompt: '0.00000002' },
    deployments: [{ provider, model: 'e-1' }],
  })
  const config: UserConfig = {
    providers: {
      openai: { use: openai, options: { apiKey: 'k', baseURL } },
      azure: { use: azure, options: { apiKey: 'k', baseURL: vendor.url } },
      mistral: { use: mistral, options: { apiKey: 'k', baseURL } },
      house: { use: openaiCompatible, options: { baseURL } },
      alibaba: { use: openaiCompatible, options: { baseURL, quirks: 'alibaba' } },
      google: { use: google, options: { apiKey: 'k', baseURL } },
    },
    models: Object.fromEntries(
      ['openai', 'azure', 'mistral', 'house', 'alibaba', 'google'].map((name) => [
        `acme/${name}`,
        deployment(name),
      ]),
    ),
    routing: { cooldown: 0 },
  }
  t = await createTestGateway(config)
})
afterAll(async () => {
  await t.close()
  await vendor.close()
})

const REQUEST = { input: ['a', 'b'], dimensions: 2, encoding_format: 'base64', user: 'u', extra: 1 }

async function sentBy(model: string, body: object = REQUEST) {
  const answer = await t.ask('POST', '/v1/embeddings', {
    body: { model: `acme/${model}`, ...body },
  })
  const { path, json: sent } = vendor.requests.at(-1)!
  return { answer, path, sent }
}

const ANSWER = json({
  data: [
    { index: 0, embedding: [1, 2] },
    { index: 1, embedding: [3, 4] },
  ],
  usage: { prompt_tokens: 9, total_tokens: 9 },
})

describe('a request for embeddings', () => {
  it.each([
    ['openai', '/v1/embeddings', ['dimensions', 'encoding_format', 'input', 'model', 'user']],
    ['azure', '/openai/v1/embeddings', ['dimensions', 'encoding_format', 'input', 'model', 'user']],
    ['mistral', '/v1/embeddings', ['encoding_format', 'input', 'model', 'output_dimension']],
    [
      'house',
      '/v1/embeddings',
      ['dimensions', 'encoding_format', 'extra', 'input', 'model', 'user'],
    ],
  ])('goes to %s with what it knows', async (name, path, members) => {
    vendor.answer(ANSWER)
    const got = await sentBy(name)
    expect(got.path).toBe(path)
    expect(Object.keys(got.sent).toSorted()).toEqual(members)
    expect(got.sent).toMatchObject({ model: 'e-1', input: ['a', 'b'] })
    expect(got.answer.json.usage.prompt_tokens).toBe(9)
  })

  it('has ten texts at most with the profile alibaba', async () => {
    vendor.answer(({ json: { input } }) =>
      json({
        data: input.map((_: string, index: number) => ({ index, embedding: [index] })),
        usage: { prompt_tokens: 1 },
      }),
    )
    const before = vendor.requests.length
    await sentBy('alibaba', { input: Array(21).fill('x') })
    const sizes = vendor.requests.slice(before).map((request) => request.json.input.length)
    expect(sizes).toEqual([10, 10, 1])
  })

  it('goes to Google text by text in one body, a hundred at most', async () => {
    vendor.answer(({ json: { requests } }) =>
      json({
        embeddings: requests.map((one: any) => ({ values: [Number(one.content.parts[0].text)] })),
      }),
    )
    const before = vendor.requests.length
    const input = Array.from({ length: 150 }, (_, index) => String(index))
    const { answer, path } = await sentBy('google', { input, dimensions: 1 })
    expect(path).toBe('/v1/models/e-1:batchEmbedContents')
    const sent = vendor.requests.slice(before).map((request) => request.json.requests)
    expect(sent.map(({ length }) => length)).toEqual([100, 50])
    expect(sent[0][1]).toEqual({
      model: 'models/e-1',
      content: { parts: [{ text: '1' }] },
      outputDimensionality: 1,
    })
    expect(answer.json.data.map(({ embedding }: any) => embedding[0])).toEqual(input.map(Number))
    // Google counts nothing: a token for each text of up to four characters.
    expect(answer.json.usage.prompt_tokens).toBe(150)
  })

  it('of tokens is an error of the client at Google', async () => {
    const { answer } = await sentBy('google', { input: [1, 2] })
    expect(answer.status).toBe(400)
    expect(answer.json.error).toMatchObject({ code: 'unsupported_value', param: 'input' })
  })
})

describe('a failure of a vendor', () => {
  it.each(['openai', 'azure', 'mistral', 'house', 'google'])('%s is told apart', async (name) => {
    vendor.answer(json({ error: { message: 'slow down', code: 429 } }, 429))
    expect((await sentBy(name)).answer.status).toBe(429)
    vendor.answer(json({ error: { message: 'no', code: 401 } }, 401))
    expect((await sentBy(name)).answer.status).toBe(502)
    vendor.answer(json({ nothing: 'here' }))
    expect((await sentBy(name)).answer.json.error.code).toBe('upstream_error')
  })
})
