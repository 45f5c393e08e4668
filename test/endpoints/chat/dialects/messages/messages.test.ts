import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { UserConfig } from '../../../../../src/config/config.ts'
import { createTestGateway, MOCK_CONFIG, type TestGateway } from '../../../../_setup.ts'
import { streamed } from './_events.ts'

const PATH = '/v1/messages'
const echo = MOCK_CONFIG.models['mock/echo']
const scripted = (options: object) => ({
  ...echo,
  deployments: [{ provider: 'mock', model: 'echo', options }],
})
const failing = (name: string, after = 0) =>
  scripted({ reply: 'One two three', error: { class: name, after } })

const CONFIG = {
  ...MOCK_CONFIG,
  models: {
    ...MOCK_CONFIG.models,
    'mock/echo': { ...echo, aliases: ['echo-by-alias'] },
    'mock/thinks': scripted({ reasoning: 'Let me see.', reply: 'Done.' }),
    'mock/calls': scripted({ toolCalls: [{ name: 'f', arguments: { a: 1 } }] }),
    'mock/bad': failing('bad_request'),
    'mock/long': { ...failing('context_length'), context_length: 1000 },
    'mock/broken': failing('upstream_error'),
    'mock/overloaded': failing('overloaded'),
    'mock/late': failing('timeout'),
    'mock/breaks': failing('upstream_error', 2),
    'mock/sneaky': scripted({ reply: 'All is well. swordfish is the word.' }),
    'mock/searches': scripted({
      reply: 'Hi',
      annotations: [
        {
          type: 'url_citation',
          url_citation: { url: 'https://a.test', title: 'A', start_index: 0, end_index: 1 },
        },
      ],
    }),
  },
} as UserConfig

const ask = { model: 'mock/echo', max_tokens: 100, messages: [{ role: 'user', content: 'Hello' }] }

let gateway: TestGateway
beforeAll(async () => {
  gateway = await createTestGateway(CONFIG)
})
afterAll(() => gateway.close())

const post = (
  body: object,
  options: { key?: string | null; headers?: Record<string, string> } = {},
) => gateway.ask('POST', `${PATH}?beta=true`, { ...options, body: { ...ask, ...body } })
const streamOf = async (body: object, options = {}) => {
  const answer = await post({ ...body, stream: true }, options)
  expect(answer.headers['content-type']).toBe('text/event-stream; charset=utf-8')
  return { ...streamed(answer.text), answer }
}

describe('a message', () => {
  it('is answered whole, with all members and the cost', async () => {
    const { status, headers, json } = await post({ model: 'echo-by-alias' })
    expect(status).toBe(200)
    expect(json).toEqual({
      id: expect.stringMatching(/^msg_\w{24}$/),
      type: 'message',
      role: 'assistant',
      model: 'echo-by-alias',
      content: [{ type: 'text', text: 'Hello' }],
      stop_reason: 'end_turn',
      stop_sequence: null,
      stop_details: null,
      container: null,
      usage: {
        input_tokens: 2,
        cache_creation_input_tokens: 0,
        cache_read_input_tokens: 0,
        cache_creation: { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: 0 },
        output_tokens: 2,
        server_tool_use: null,
        service_tier: 'standard',
        inference_geo: null,
        cost: 0.000006,
        cost_details: { prompt_cost: 0.000002, completion_cost: 0.000004 },
      },
    })
    expect(headers['x-service-cost']).toBe('0.000006')
    expect(headers['request-id']).toBe(headers['x-service-request-id'])
  })

  it('is streamed in the order of the API, and says the same', async () => {
    const { message, answer } = await streamOf({})
    const { json } = await post({})
    expect(message).toEqual({ ...json, id: expect.any(String), guard: undefined })
    expect(answer.text).not.toContain('[DONE]')
    expect(answer.headers['request-id']).toBe(answer.headers['x-service-request-id'])
  })

  it('costs what the same chat costs, and books the same', async () => {
    const before = await gateway.balance()
    const { json } = await gateway.chat({ model: 'mock/echo', messages: ask.messages })
    const between = await gateway.balance()
    const { message } = await streamOf({})
    const after = await gateway.balance()
    expect(message.usage.cost).toBe(json.usage.cost)
    expect(before - between).toBe(between - after)
  })

  it('thinks, and takes its thinking back', async () => {
    const { json } = await post({ model: 'mock/thinks' })
    const [thinking, text] = json.content
    expect(thinking).toMatchObject({ type: 'thinking', thinking: 'Let me see.' })
    expect(text.text).toBe('Done.')
    const messages = [
      ...ask.messages,
      { role: 'assistant', content: json.content },
      { role: 'user', content: 'And?' },
    ]
    expect((await post({ messages })).json.content[0].text).toBe('And?')
    const broken = structuredClone(messages) as any
    broken[1].content[0].signature += 'x'
    const refused = await post({ messages: broken })
    expect(refused.status).toBe(400)
    expect(refused.json.error.message).toContain('invalid signature in thinking block')
  })

  it('calls tools, and reads their results', async () => {
    const tools = ['f', 'g'].map((name) => ({ name, input_schema: { type: 'object' } }))
    const { message } = await streamOf({ model: 'mock/tools', tools })
    expect(message.stop_reason).toBe('tool_use')
    expect(message.content).toMatchObject([
      { type: 'tool_use', name: 'f', input: {} },
      { type: 'tool_use', name: 'g', input: {} },
    ])
    const results = message.content.map(({ id }: any) => {
      return { type: 'tool_result', tool_use_id: id, content: `of ${id}` }
    })
    const messages = [
      ...ask.messages,
      { role: 'assistant', content: message.content },
      { role: 'user', content: results },
    ]
    const [block] = (await post({ model: 'mock/tools', tools, messages })).json.content
    expect(block.text).toContain(`of ${results[1].tool_use_id}`)
  })

  it('cites sources', async () => {
    const { message } = await streamOf({ model: 'mock/searches' })
    expect(message.content).toEqual([
      {
        type: 'text',
        text: 'Hi',
        citations: [
          {
            type: 'web_search_result_location',
            url: 'https://a.test',
            title: 'A',
            cited_text: '',
            encrypted_index: '',
          },
        ],
      },
    ])
  })

  it('names what was left out', async () => {
    const tools = [
      { type: 'bash_20250124', name: 'bash' },
      { type: 'x\r\ny,é', name: 'odd' },
      { type: 'web_search_20250305', name: 'web_search' },
    ]
    const { status, headers } = await post({ tools, context_management: {} })
    expect(status).toBe(200)
    expect(headers['x-service-ignored']).toBe(
      'context_management, tools[0].bash_20250124, tools[1].x%0D%0Ay%2C%C3%A9, tools[2].web_search_20250305',
    )
    expect(headers['access-control-expose-headers']).toContain('X-Service-Ignored')
  })

  it('asks a model for no more than it can write', async () => {
    const config = { ...CONFIG, models: { 'mock/small': { ...echo, max_output_tokens: 2 } } }
    await using small = await createTestGateway(config as UserConfig)
    const content = 'x'.repeat(100)
    const body = { ...ask, model: 'mock/small', messages: [{ role: 'user', content }] }
    const { json } = await small.ask('POST', PATH, { body })
    expect(json.content[0].text).toBe('x'.repeat(8))
    expect(json.stop_reason).toBe('max_tokens')
  })
})

describe('errors', () => {
  it.each<[string, object, number, string, string]>([
    [
      'a missing member',
      { max_tokens: undefined },
      400,
      'invalid_request_error',
      'missing_required_parameter',
    ],
    ['an unknown model', { model: 'no/such' }, 404, 'not_found_error', 'model_not_found'],
    ['a refused request', { model: 'mock/bad' }, 400, 'invalid_request_error', 'upstream_rejected'],
    [
      'a prompt that is too long',
      { model: 'mock/long' },
      400,
      'invalid_request_error',
      'context_length_exceeded',
    ],
    ['a broken vendor', { model: 'mock/broken' }, 502, 'api_error', 'upstream_error'],
    ['a busy vendor', { model: 'mock/overloaded' }, 529, 'overloaded_error', 'provider_overloaded'],
    ['a slow vendor', { model: 'mock/late' }, 504, 'timeout_error', 'upstream_timeout'],
  ])('%s', async (_what, body, status, type, code) => {
    for (const stream of [false, true]) {
      const { headers, json, ...answer } = await post({ ...body, stream })
      expect(answer.status).toBe(status)
      expect(json).toMatchObject({ type: 'error', error: { type, code } })
      expect(json.request_id).toBe(headers['request-id'])
      expect(headers['request-id']).toBe(headers['x-service-request-id'])
    }
  })

  it('of a prompt that is too long are in words that clients know', async () => {
    const { json } = await post({ model: 'mock/long' })
    expect(json.error.message).toMatch(/^prompt is too long: \d+ tokens > 1000 maximum$/)
  })

  it('of a key that is not valid, and of one whose cap is reached', async () => {
    const unknown = await post({}, { key: null, headers: { 'x-api-key': 'nonsense' } })
    expect([unknown.status, unknown.json.error.type]).toEqual([401, 'authentication_error'])
    expect(unknown.headers['www-authenticate']).toBe('Bearer')
    const capped = await gateway.newKey({ spendCap: { usd: '0', scope: 'day' } })
    const cap = await post({}, { key: capped.secret })
    expect([cap.status, cap.json.error.type]).toEqual([402, 'billing_error'])
    expect(cap.json.error.code).toBe('key_limit_exceeded')
    const bound = await gateway.newKey({ models: ['mock/free'] })
    const forbidden = await post({}, { key: bound.secret })
    expect([forbidden.status, forbidden.json.error.type]).toEqual([403, 'permission_error'])
    await gateway.newAccount('poor')
    const slow = await gateway.newKey({ rpm: 1 })
    await post({}, { key: slow.secret })
    const limited = await post({}, { key: slow.secret })
    expect([limited.status, limited.json.error.type]).toEqual([429, 'rate_limit_error'])
    expect(limited.headers['retry-after']).toMatch(/^\d+$/)
  })

  it('of paths and methods below it have its form, others that of chat', async () => {
    const batches = await gateway.ask('POST', `${PATH}/batches`, { body: {} })
    expect([batches.status, batches.json.error.type]).toEqual([404, 'not_found_error'])
    expect(batches.json.request_id).toBe(batches.headers['request-id'])
    const method = await gateway.ask('GET', PATH)
    expect([method.status, method.json.type]).toEqual([405, 'error'])
    expect(method.headers.allow).toBe('POST, OPTIONS')
    const other = await gateway.ask('GET', '/v1/complete')
    expect(other.json).not.toHaveProperty('type')
    expect(other.json.error.code).toBe('unknown_url')
  })

  it('within a stream are its last event, with what is charged', async () => {
    const before = await gateway.balance()
    const { error, message } = await streamOf({ model: 'mock/breaks' })
    expect(message.content).toEqual([])
    expect(error).toMatchObject({ type: 'api_error', code: 'upstream_error' })
    expect(error.usage.cost).toBeGreaterThan(0)
    const charged = Number(before - (await gateway.balance())) / 1e12
    expect(charged).toBeCloseTo(error.usage.cost, 12)
  })
})

describe('a guard', () => {
  const policy = { version: 1 as const, bannedPatterns: ['swordfish'], refusal: 'No fish.' }
  const refused = {
    stop_reason: 'refusal',
    stop_details: { type: 'refusal', category: null, explanation: 'No fish.' },
  }
  const banned = { messages: [{ role: 'user', content: 'the swordfish' }] }

  it('refuses an input as a message of its own, free of charge', async () => {
    const { secret: key } = await gateway.newKey({ policy })
    const { status, json } = await post(banned, { key })
    expect(status).toBe(200)
    expect(json).toMatchObject({ ...refused, content: [{ type: 'text', text: 'No fish.' }] })
    expect(json.usage).toMatchObject({ input_tokens: 0, output_tokens: 0, cost: 0 })
    expect(json.guard.outcome).toBe('blocked')
    const { message } = await streamOf(banned, { key })
    expect(message).toMatchObject({ ...refused, content: [{ type: 'text', text: 'No fish.' }] })
    expect(message.guard.outcome).toBe('blocked')
  })

  it('refuses an answer within the block that is open', async () => {
    const { secret: key } = await gateway.newKey({ policy })
    const { message } = await streamOf({ model: 'mock/sneaky' }, { key })
    expect(message.content).toHaveLength(1)
    expect(message.content[0].text).toMatch(/^All is well\. ?\n\nNo fish\.$/)
    expect(message).toMatchObject(refused)
    expect(message.usage.cost).toBeGreaterThan(0)
    const { json } = await post({ model: 'mock/sneaky' }, { key })
    expect(json).toMatchObject({ ...refused, content: [{ type: 'text', text: 'No fish.' }] })
  })

  it('refuses with an error where the policy says so', async () => {
    const guard = { onBlock: 'error' as const }
    const { secret: key } = await gateway.newKey({ policy: { ...policy, guard } })
    const { status, json } = await post(banned, { key })
    expect(status).toBe(400)
    expect(json.error).toMatchObject({ type: 'invalid_request_error', code: 'policy_violation' })
    const { error } = await streamOf({ model: 'mock/sneaky' }, { key })
    expect(error.code).toBe('policy_violation')
    expect(error.usage.cost).toBeGreaterThan(0)
  })
})

describe('a coding assistant', () => {
  const file = join(import.meta.dirname, '../../../../wire/clients/claude-code.json')
  const { requests } = JSON.parse(readFileSync(file, 'utf8'))
  const { body, headers } = requests.find(({ method }: any) => method === 'POST')
  const { authorization: _key, ...others } = headers

  it('makes a round trip with a tool', async () => {
    const config = {
      ...CONFIG,
      models: {
        'mock/tools': {
          ...echo,
          aliases: [body.model],
          deployments: [{ provider: 'mock', model: 'tools' }],
        },
      },
    }
    await using own = await createTestGateway(config as UserConfig)
    const turn = async (messages: readonly object[]) => {
      const answer = await own.ask('POST', `${PATH}?beta=true`, {
        headers: others,
        body: { ...body, messages },
      })
      expect(answer.status).toBe(200)
      expect(answer.headers['x-service-ignored']).toBe('context_management')
      return streamed(answer.text).message
    }
    const [question] = body.messages
    const called = await turn([question])
    expect(called).toMatchObject({ stop_reason: 'tool_use', model: body.model })
    const results = called.content.map(({ id }: any) => {
      return { type: 'tool_result', tool_use_id: id, content: 'done', is_error: false }
    })
    const answer = { role: 'assistant', content: called.content }
    const done = await turn([question, answer, { role: 'user', content: results }])
    expect(done.stop_reason).toBe('end_turn')
    expect(done.content[0].text).toContain('done')
  })
})
