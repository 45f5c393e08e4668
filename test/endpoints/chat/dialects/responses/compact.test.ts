/** A conversation that a model shortens, and how it goes on. */
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestGateway, MOCK_CONFIG, type TestGateway } from '../../../../_setup.ts'
import { json, startUpstream, type FakeUpstream } from '../../../../upstream.ts'

const PATH = '/v1/responses/compact'
const echo = MOCK_CONFIG.models['mock/echo']
const scripted = (options: Record<string, unknown>) => ({
  ...echo,
  deployments: [{ provider: 'mock', model: 'echo', options }],
})
const SUMMARY = 'They speak of swordfish. Open: the price.'
const PNG = 'data:image/png;base64,iVBORw0KGgo='

let vendor: FakeUpstream
let gateway: TestGateway
beforeAll(async () => {
  vendor = await startUpstream()
  const options = { apiKey: 'k', baseURL: vendor.url }
  gateway = await createTestGateway({
    providers: {
      ...MOCK_CONFIG.providers,
      anthropic: { use: 'anthropic', options },
      openai: { use: 'openai', options },
    },
    models: {
      ...MOCK_CONFIG.models,
      'mock/writes': scripted({ reply: SUMMARY }),
      'mock/cut': scripted({ reply: SUMMARY, finishReason: 'length' }),
      'mock/silent': scripted({ reply: '' }),
      'claude/opus': {
        ...echo,
        deployments: [{ provider: 'anthropic', model: 'claude-opus-4-5' }],
      },
      'openai/gpt': { ...echo, deployments: [{ provider: 'openai', model: 'gpt-5.6' }] },
    },
  })
})
afterAll(async () => {
  await gateway.close()
  await vendor.close()
})

const compact = (body: object, key = gateway.key.secret) =>
  gateway.ask('POST', PATH, { key, body: { model: 'mock/writes', ...body } })
const user = (content: unknown) => ({ type: 'message', role: 'user', content })
const says = (text: string) => ({
  type: 'message',
  role: 'assistant',
  content: [{ type: 'output_text', text }],
})
const call = (id: string) => ({
  type: 'function_call',
  call_id: id,
  name: 'weather',
  arguments: '{"city":"Oslo"}',
})
const result = (id: string) => ({ type: 'function_call_output', call_id: id, output: 'rain' })
const summary = {
  type: 'compaction',
  id: expect.stringMatching(/^cmp_/),
  encrypted_content: expect.stringMatching(/^sg1\./),
}
const outputOf = async (input: unknown) => (await compact({ input })).json.output

it('answers with a summary, charged like any chat', async () => {
  const before = await gateway.balance()
  const { status, json: answer, headers } = await compact({ input: [user('Hi'), says('Hello')] })
  expect([status, answer]).toEqual([
    200,
    {
      id: expect.stringMatching(/^resp_/),
      object: 'response.compaction',
      created_at: expect.any(Number),
      output: [summary],
      usage: expect.objectContaining({
        input_tokens: expect.any(Number),
        cost: expect.any(Number),
      }),
    },
  ])
  expect(Number(headers['x-service-cost'])).toBe(answer.usage.cost)
  expect(before - (await gateway.balance())).toBe(BigInt(Math.round(answer.usage.cost * 1e12)))
})

describe('beside the summary', () => {
  const rules = { type: 'message', role: 'developer', content: 'Be brief.' }

  it('instructions in the conversation stay', async () => {
    expect(await outputOf([rules, user('Hi'), says('Hello')])).toEqual([rules, summary])
  })

  it('a question without an answer stays, without the calls that were answered', async () => {
    expect(await outputOf('Hi')).toEqual([summary, user('Hi')])
    const asked = [user('Hi'), says('Hello'), user('Weather?')]
    expect(await outputOf(asked)).toEqual([summary, user('Weather?')])
    expect(await outputOf([...asked, call('a'), result('a')])).toEqual([summary, user('Weather?')])
  })

  it('a turn whose results are to come stays whole', async () => {
    const thought = { type: 'reasoning', summary: [], encrypted_content: 'AAAA' }
    const turn = [thought, says('I look.'), call('b'), call('c'), result('b')]
    const input = [user('Hi'), call('a'), result('a'), ...turn]
    expect(await outputOf(input)).toEqual([summary, ...turn])
  })
})

it('asks the model for a summary of the whole conversation in words, without tools', async () => {
  const message = { role: 'assistant', content: [{ type: 'text', text: SUMMARY }], type: 'message' }
  vendor.answer(
    json({
      id: 'm',
      model: 'c',
      ...message,
      stop_reason: 'end_turn',
      usage: { input_tokens: 5, output_tokens: 5 },
    }),
  )
  const image = { type: 'input_image', image_url: PNG }
  const asked = user([{ type: 'input_text', text: 'What is it?' }, image])
  const input = [asked, call('a'), result('a'), says('Rain.')]
  const tools = [{ type: 'function', name: 'weather', parameters: {} }]
  const body = { model: 'claude/opus', instructions: 'Be brief.', input, tools }
  const answer = await compact(body)
  expect(answer.status).toBe(200)
  expect(answer.headers['x-service-ignored']).toBe('tools')
  const sent = vendor.requests.at(-1)!.json
  expect(sent).not.toHaveProperty('tools')
  expect(sent.max_tokens).toBe(4096)
  const text = JSON.stringify(sent)
  for (const said of [
    'Be brief.',
    'What is it?\\n[image]',
    '[Call of weather]',
    'Oslo',
    '[Result of weather]\\nrain',
    'Rain.',
    'for a successor',
  ]) {
    expect(text).toContain(said)
  }
  expect(text).not.toContain('iVBOR')
})

it('refuses what is no summary, free of charge', async () => {
  const before = await gateway.balance()
  for (const model of ['mock/cut', 'mock/silent']) {
    const { status, json: answer } = await compact({ model, input: 'Hi' })
    expect([status, answer.error.code]).toEqual([502, 'upstream_error'])
  }
  expect(await gateway.balance()).toBe(before)
})

describe('a later turn', () => {
  const next = async (carrier: string) => [
    { type: 'compaction', id: 'cmp_1', encrypted_content: carrier },
    user('Go on.'),
  ]
  const written = `Summary of the conversation so far:\n\n${SUMMARY}`

  it('by the official client goes on with another vendor, in its own form or translated', async () => {
    const client = new OpenAI({
      baseURL: gateway.baseURL,
      apiKey: gateway.key.secret,
      maxRetries: 0,
    })
    const compacted = await client.responses.compact({
      model: 'mock/writes' as any,
      input: [user('Hi'), says('Hello')] as any,
    })
    const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 }
    vendor.answer(
      json({ id: 'r', object: 'response', status: 'completed', output: [says('Yes.')], usage }),
    )
    const input = [...compacted.output, user('Go on.')] as any
    const answer = await client.responses.create({ model: 'openai/gpt', input })
    expect(answer.output_text).toBe('Yes.')
    expect(vendor.requests.at(-1)!.json.input).toEqual([user(written), user('Go on.')])
    const echoed = await client.responses.create({
      model: 'mock/echo',
      input: compacted.output as any,
    })
    expect(echoed.output_text).toBe(written)
  })

  it('with a changed summary is refused, and with that of a vendor goes to that vendor alone', async () => {
    const forged = await gateway.ask('POST', '/v1/responses', {
      body: { model: 'mock/echo', input: await next('sg1.AAAA') },
    })
    expect(forged.json.error).toMatchObject({
      code: 'invalid_value',
      param: 'input[0].encrypted_content',
    })
    const foreign = await gateway.ask('POST', '/v1/responses', {
      body: { model: 'mock/echo', input: await next('gAAAA') },
    })
    expect(foreign.json.error).toMatchObject({ code: 'unsupported_value', param: 'input[0]' })
  })
})

describe('rules', () => {
  const policy = { version: 1 as const, bannedPatterns: ['swordfish'] }

  it('read the summary, and block it with an error', async () => {
    const { secret } = await gateway.newKey({ policy })
    const { status, json: answer } = await compact({ input: 'Hi' }, secret)
    expect([status, answer.error.code]).toEqual([400, 'policy_violation'])
  })

  it('read a summary that a client has written', async () => {
    const { secret } = await gateway.newKey({ policy })
    const { json: made } = await compact({ input: 'Hi' })
    const asked = vendor.requests.length
    for (const model of ['mock/echo', 'openai/gpt']) {
      const answer = await gateway.ask('POST', '/v1/responses', {
        key: secret,
        body: { model, input: made.output },
      })
      expect(answer.json.guard?.outcome ?? answer.json.error.code).toMatch(
        /blocked|policy_violation/,
      )
    }
    expect(vendor.requests).toHaveLength(asked)
  })
})
