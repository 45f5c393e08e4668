import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { UserConfig } from '../../../../../src/config/config.ts'
import { createTestGateway, MOCK_CONFIG, type TestGateway } from '../../../../_setup.ts'
import { json, startUpstream, type FakeUpstream } from '../../../../upstream.ts'

const PATH = '/v1/messages/count_tokens'
const ask = { model: 'mock/echo', messages: [{ role: 'user', content: 'Hello there' }] }

describe('a count of tokens', () => {
  let gateway: TestGateway
  let upstream: FakeUpstream
  beforeAll(async () => {
    upstream = await startUpstream(json({ input_tokens: 2095 }))
    const options = { apiKey: 'k', baseURL: upstream.url }
    const pricing = { prompt: '0.000003', completion: '0.000015' }
    const claude = { provider: 'vendor', model: 'claude-sonnet-5-up' }
    gateway = await createTestGateway({
      ...MOCK_CONFIG,
      providers: {
        ...MOCK_CONFIG.providers,
        vendor: { use: 'anthropic', options },
        openai: { use: 'openai', options },
        plain: { use: 'openai-compatible', options: { baseURL: upstream.url, apiKey: 'k' } },
      },
      models: {
        ...MOCK_CONFIG.models,
        'acme/claude': { pricing, deployments: [claude] },
        'acme/gpt': { pricing, deployments: [{ provider: 'openai', model: 'gpt-5.4' }] },
        'acme/plain': { pricing, deployments: [{ provider: 'plain', model: 'x' }] },
        'acme/both': {
          pricing,
          deployments: [{ provider: 'plain', model: 'x' }, claude, MOCK],
        },
      },
    } as UserConfig)
  })
  afterAll(async () => {
    await gateway.close()
    await upstream.close()
  })

  const MOCK = { provider: 'mock', model: 'echo' }
  const count = (body: object, key?: string) =>
    gateway.ask('POST', PATH, { ...(key !== undefined && { key }), body: { ...ask, ...body } })

  it('is free, and written down nowhere', async () => {
    const before = await gateway.balance()
    const { status, headers, text } = await count({})
    expect([status, text]).toEqual([200, '{"input_tokens":3}'])
    expect(headers['request-id']).toBe(headers['x-service-request-id'])
    expect(headers).not.toHaveProperty('x-service-cost')
    expect(await gateway.balance()).toBe(before)
  })

  it('is the vendor’s, of everything that it would read', async () => {
    const tools = [{ name: 'f', input_schema: { type: 'object', properties: {} } }]
    const { json: answer } = await count({ model: 'acme/claude', system: 'Be kind.', tools })
    expect(answer).toEqual({ input_tokens: 2095 })
    const { path, json: body } = upstream.requests.at(-1)!
    expect(path).toBe('/messages/count_tokens')
    expect(body).toEqual({
      model: 'claude-sonnet-5-up',
      system: [{ type: 'text', text: 'Be kind.' }],
      messages: [{ role: 'user', content: [{ type: 'text', text: 'Hello there' }] }],
      tools,
    })
  })

  it('is OpenAI’s too, by the API for it', async () => {
    const { status, json: answer } = await count({ model: 'acme/gpt', system: 'Be kind.' })
    expect([status, answer]).toEqual([200, { input_tokens: 2095 }])
    const { path, json: body } = upstream.requests.at(-1)!
    expect(path).toBe('/responses/input_tokens')
    expect(body).toMatchObject({
      model: 'gpt-5.4',
      input: [{ role: 'system' }, { role: 'user' }],
    })
    expect(body).not.toHaveProperty('store')
    expect(body).not.toHaveProperty('max_output_tokens')
  })

  it('includes what the policy of the key tells the model', async () => {
    const policy = { version: 1 as const, systemPrompt: 'Be kind.', maxOutputTokens: 5 }
    const { secret } = await gateway.newKey({ policy })
    await count({ model: 'acme/claude' }, secret)
    expect(upstream.requests.at(-1)!.json.system).toEqual([{ type: 'text', text: 'Be kind.' }])
  })

  it('is asked of the deployments that can count, until one has', async () => {
    expect((await count({ model: 'acme/both' })).json).toEqual({ input_tokens: 2095 })
    upstream.answer(json({ type: 'error', error: { type: 'api_error' } }, 500))
    expect((await count({ model: 'acme/both' })).json).toEqual({ input_tokens: 3 })
    expect((await count({ model: 'acme/claude' })).status).toBe(502)
    upstream.answer(json({ input_tokens: 2095 }))
  })

  it('is not made up where no vendor counts', async () => {
    const { status, json: answer } = await count({ model: 'acme/plain' })
    expect(status).toBe(404)
    expect(answer.error).toMatchObject({
      type: 'not_found_error',
      code: 'model_not_found',
      message: 'No token counter for this model',
    })
  })

  it('is an error where a guard blocks, in either form', async () => {
    const banned = { messages: [{ role: 'user', content: 'the swordfish' }] }
    for (const onBlock of ['refuse', 'error'] as const) {
      const policy = { version: 1 as const, bannedPatterns: ['swordfish'], guard: { onBlock } }
      const { secret } = await gateway.newKey({ policy })
      const { status, json: answer } = await count(banned, secret)
      expect([status, answer.error.code]).toEqual([400, 'policy_violation'])
      expect((await count({}, secret)).status).toBe(200)
    }
  })

  it('needs a key that is valid and may use the model', async () => {
    expect((await count({}, 'nonsense')).json.error.type).toBe('authentication_error')
    const { secret } = await gateway.newKey({ models: ['mock/free'] })
    expect((await count({}, secret)).status).toBe(403)
  })
})
