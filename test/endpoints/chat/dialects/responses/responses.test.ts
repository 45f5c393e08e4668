import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { UserConfig } from '../../../../../src/config/config.ts'
import { createTestGateway, MOCK_CONFIG, type TestGateway } from '../../../../_setup.ts'
import { MEMBERS, streamed } from './_events.ts'

const PATH = '/v1/responses'
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
    'mock/json': scripted({ reply: '{"a":1}' }),
    'mock/bad': failing('bad_request'),
    'mock/long': { ...failing('context_length'), context_length: 1000 },
    'mock/overloaded': failing('overloaded'),
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

const ask = { model: 'mock/echo', input: 'Hello' }

let gateway: TestGateway
beforeAll(async () => {
  gateway = await createTestGateway(CONFIG)
})
afterAll(() => gateway.close())

const post = (
  body: object,
  options: { key?: string | null; headers?: Record<string, string> } = {},
) => gateway.ask('POST', PATH, { ...options, body: { ...ask, ...body } })
const streamOf = async (body: object, options = {}) => {
  const answer = await post({ ...body, stream: true }, options)
  expect(answer.headers['content-type']).toBe('text/event-stream; charset=utf-8')
  return { ...streamed(answer.text), answer }
}
const textOf = ({ output }: any): string =>
  output.findLast(({ type }: any) => type === 'message').content.at(-1).text

describe('a response', () => {
  it('is answered whole, with all members and the cost', async () => {
    const { status, headers, json } = await post({
      model: 'echo-by-alias',
      instructions: 'Be kind.',
      metadata: { a: 'b' },
      max_output_tokens: 200,
    })
    expect(status).toBe(200)
    expect(Object.keys(json).sort()).toEqual([...MEMBERS].sort())
    expect(json).toMatchObject({
      id: expect.stringMatching(/^resp_\w+$/),
      object: 'response',
      status: 'completed',
      model: 'echo-by-alias',
      instructions: 'Be kind.',
      metadata: { a: 'b' },
      max_output_tokens: 200,
      store: false,
      tool_choice: 'auto',
      text: { format: { type: 'text' } },
      reasoning: { effort: null, summary: null },
    })
    expect(json.output).toEqual([
      {
        id: expect.stringMatching(/^msg_\w+$/),
        type: 'message',
        role: 'assistant',
        status: 'completed',
        content: [{ type: 'output_text', text: 'Hello', annotations: [], logprobs: [] }],
      },
    ])
    const { usage } = json
    expect(usage).toEqual({
      input_tokens: expect.any(Number),
      input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
      output_tokens: 2,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: usage.input_tokens + 2,
      cost: expect.any(Number),
      cost_details: expect.any(Object),
    })
    expect(headers['x-service-cost']).toBe(String(usage.cost))
  })

  it('is streamed in the order of the API, and says the same', async () => {
    const { response } = await streamOf({})
    const { json } = await post({})
    const itemOf = ({ output: [item] }: any) => ({ ...item, id: '' })
    expect(itemOf(response)).toEqual(itemOf(json))
    expect(response.usage).toEqual(json.usage)
  })

  it('costs what the same chat costs, and books the same', async () => {
    const before = await gateway.balance()
    const messages = [{ role: 'user', content: 'Hello' }]
    const { json } = await gateway.chat({ model: 'mock/echo', messages })
    const between = await gateway.balance()
    const { response } = await streamOf({})
    expect(response.usage.cost).toBe(json.usage.cost)
    expect(before - between).toBe(between - (await gateway.balance()))
  })

  it('thinks, and takes its thinking back', async () => {
    const include = ['reasoning.encrypted_content']
    const { response } = await streamOf({ model: 'mock/thinks', include })
    const [reasoning, message] = response.output
    expect(reasoning.summary).toEqual([{ type: 'summary_text', text: 'Let me see.' }])
    expect(message.content[0].text).toBe('Done.')
    const input = [
      { role: 'user', content: 'Hi' },
      ...response.output,
      { role: 'user', content: 'And?' },
    ]
    expect(textOf((await post({ input })).json)).toBe('And?')
    const broken = { ...reasoning, encrypted_content: 'sg1.x' }
    const refused = await post({ input: [input[0], broken, ...input.slice(2)] })
    expect(refused.status).toBe(400)
    expect(refused.json.error.message).toContain('invalid signature in thinking block')
    expect(refused.json.error.param).toBe('input[1].encrypted_content')
  })

  it('cites sources', async () => {
    const { response } = await streamOf({ model: 'mock/searches' })
    expect(response.output[0].content[0].annotations).toEqual([
      { type: 'url_citation', url: 'https://a.test', title: 'A', start_index: 0, end_index: 1 },
    ])
  })

  it('names what was left out, and never fails for an unknown tool', async () => {
    const { status, headers } = await post({
      input: [
        { type: 'web_search_call', id: 'ws_1', status: 'completed' },
        { role: 'user', content: 'Hi' },
      ],
      tools: [{ type: 'computer_use_9' }, { type: 'web_search' }],
      moderation: {},
      reasoning: { context: 'auto' },
    })
    expect(status).toBe(200)
    expect(headers['x-service-ignored']).toBe(
      'moderation, reasoning.context, input[0].web_search_call, tools[0].computer_use_9, tools[1].web_search',
    )
  })

  it('is cut at the limit of tokens', async () => {
    const { response } = await streamOf({ input: 'x'.repeat(200), max_output_tokens: 16 })
    expect(response).toMatchObject({
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
      completed_at: null,
    })
    expect(response.output.at(-1).status).toBe('incomplete')
  })

  it('echoes no text of a policy', async () => {
    const policy = { version: 1 as const, systemPrompt: 'secret words' }
    const { secret: key } = await gateway.newKey({ policy })
    const { answer, response } = await streamOf({ instructions: 'Mine.' }, { key })
    expect(answer.text).not.toContain('secret words')
    expect(response.instructions).toBe('Mine.')
  })
})

describe('what needs a store', () => {
  it.each<[object, string, string, RegExp]>([
    [{ previous_response_id: 'resp_1' }, 'previous_response_id', 'parameter', /whole conversation/],
    [{ conversation: 'conv_1' }, 'conversation', 'parameter', /whole conversation/],
    [{ background: true }, 'background', 'parameter', /"stream": true/],
    [{ prompt: { id: 'p' } }, 'prompt', 'parameter', /"instructions" and "input"/],
    [{ input: [{ type: 'item_reference', id: 'x' }] }, 'input[0]', 'value', /"store" to false/],
    [
      { input: [{ role: 'user', content: [{ type: 'input_file', file_id: 'f' }] }] },
      'input[0].content[0].file_id',
      'value',
      /file id/,
    ],
  ])('%j is refused with what to do instead', async (body, param, what, message) => {
    const { status, json } = await post(body)
    expect(status).toBe(400)
    expect(json.error).toMatchObject({ param, code: `unsupported_${what}` })
    expect(json.error.message).toMatch(message)
  })

  it('is not missed where a client asks for none of it', async () => {
    const body = { previous_response_id: null, conversation: null, background: false, prompt: null }
    expect((await post({ ...body, store: true })).json.store).toBe(false)
  })

  it.each(['GET /resp_1', 'DELETE /resp_1', 'POST /resp_1/cancel'])(
    '%s does not exist',
    async (call) => {
      const [method, below] = call.split(' ')
      const { status, json } = await gateway.ask(method!, PATH + below, {})
      expect(status).toBe(404)
      expect(json.error.code).toBe('unknown_url')
      expect(json.error.message).toContain('Responses are not stored here; only POST /v1/responses')
    },
  )
})

describe('errors', () => {
  it.each<[string, object, number, string]>([
    ['a missing member', { input: undefined }, 400, 'missing_required_parameter'],
    ['an unknown model', { model: 'no/such' }, 404, 'model_not_found'],
    ['a refused request', { model: 'mock/bad' }, 400, 'upstream_rejected'],
    ['a busy vendor', { model: 'mock/overloaded' }, 503, 'provider_overloaded'],
    ['a tool that is not offered', { tool_choice: { type: 'mcp' } }, 400, 'unsupported_value'],
    [
      'a history of another model',
      { input: [{ type: 'compaction', encrypted_content: 'x' }] },
      400,
      'unsupported_value',
    ],
    ['an unknown item', { input: [{ type: 'odd' }] }, 400, 'invalid_value'],
  ])('%s', async (_what, body, status, code) => {
    for (const stream of [false, true]) {
      const answer = await post({ ...body, stream })
      expect(answer.status).toBe(status)
      expect(answer.json.error.code).toBe(code)
    }
  })

  it('of a prompt that is too long are told in the stream, free of charge', async () => {
    const sentence = /^This model's maximum context length is 1000 tokens/
    const before = await gateway.balance()
    const { events, response, answer } = await streamOf({ model: 'mock/long' })
    expect(answer.status).toBe(200)
    expect(events.map(({ type }) => type)).toEqual([
      'response.created',
      'response.in_progress',
      'response.failed',
    ])
    expect(response.error.code).toBe('context_length_exceeded')
    expect(response.error.message).toMatch(sentence)
    expect(await gateway.balance()).toBe(before)
    const whole = await post({ model: 'mock/long' })
    expect(whole.status).toBe(400)
    expect(whole.json.error.message).toMatch(sentence)
    expect(whole.json.error.param).toBe('input')
  })

  it('within a stream are its last event, with what is charged', async () => {
    const before = await gateway.balance()
    const { response } = await streamOf({ model: 'mock/breaks' })
    expect(response).toMatchObject({ status: 'failed', error: { code: 'upstream_error' } })
    expect(response.output[0].status).toBe('incomplete')
    expect(response.usage.cost).toBeGreaterThan(0)
    const charged = Number(before - (await gateway.balance())) / 1e12
    expect(charged).toBeCloseTo(response.usage.cost, 12)
  })
})

describe('a guard', () => {
  const policy = { version: 1 as const, bannedPatterns: ['swordfish'], refusal: 'No fish.' }
  const banned = { input: 'the swordfish' }
  const format = { type: 'json_object' }

  it('refuses an input as an answer of its own, free of charge', async () => {
    const { secret: key } = await gateway.newKey({ policy })
    const { json } = await post(banned, { key })
    const { response } = await streamOf(banned, { key })
    for (const one of [json, response]) {
      expect(one.status).toBe('completed')
      expect(one.output).toMatchObject([{ content: [{ type: 'output_text', text: 'No fish.' }] }])
      expect(one.usage).toMatchObject({ input_tokens: 0, output_tokens: 0, cost: 0 })
      expect(one.guard.outcome).toBe('blocked')
    }
  })

  it('refuses an answer within the part that is open', async () => {
    const { secret: key } = await gateway.newKey({ policy })
    const { response } = await streamOf({ model: 'mock/sneaky' }, { key })
    expect(response.status).toBe('completed')
    expect(response.output).toHaveLength(1)
    expect(textOf(response)).toMatch(/^All is well\. ?\n\nNo fish\.$/)
    expect(response.usage.cost).toBeGreaterThan(0)
    const { json } = await post({ model: 'mock/sneaky' }, { key })
    expect(json.output[0].content).toHaveLength(1)
    expect(textOf(json)).toBe('No fish.')
  })

  it('refuses in a part of its own where JSON is asked for', async () => {
    const { secret: key } = await gateway.newKey({ policy })
    const { response } = await streamOf({ model: 'mock/sneaky', text: { format } }, { key })
    expect(response.status).toBe('completed')
    expect(response.output.at(-1).content.at(-1)).toEqual({ type: 'refusal', refusal: 'No fish.' })
  })

  it('refuses with an error where the policy says so', async () => {
    const guard = { onBlock: 'error' as const }
    const { secret: key } = await gateway.newKey({ policy: { ...policy, guard } })
    const { status, json } = await post(banned, { key })
    expect([status, json.error.code]).toEqual([400, 'policy_violation'])
    const { response } = await streamOf({ model: 'mock/sneaky' }, { key })
    expect(response.error.code).toBe('policy_violation')
    expect(response.usage.cost).toBeGreaterThan(0)
  })
})

describe('a coding assistant', () => {
  const file = join(import.meta.dirname, '../../../../wire/clients/codex.json')
  const { requests } = JSON.parse(readFileSync(file, 'utf8'))
  const [{ body, headers }] = requests
  const { authorization: _key, ...others } = headers

  it('makes a round trip with its tools', async () => {
    const models = {
      'mock/tools': {
        ...echo,
        aliases: [body.model],
        deployments: [{ provider: 'mock', model: 'tools' }],
      },
    }
    await using own = await createTestGateway({ ...CONFIG, models } as unknown as UserConfig)
    const turn = async (input: readonly object[]) => {
      const request = { ...body, input }
      const answer = await own.ask('POST', PATH, { headers: others, body: request })
      expect(answer.status).toBe(200)
      expect(answer.headers['x-service-ignored']).toBe('tools[3].web_search')
      return streamed(answer.text).response
    }
    const question = body.input.slice(0, 4)
    const called = await turn(question)
    const calls = called.output.filter(({ call_id }: any) => call_id)
    expect(calls).toMatchObject([
      { type: 'function_call', name: 'exec_command' },
      { type: 'function_call', name: 'spawn_agent', namespace: 'multi_agent_v1' },
    ])
    expect(called.prompt_cache_key).toBe(body.prompt_cache_key)
    const results = calls.map(({ type, call_id }: any) => {
      return { type: `${type}_output`, call_id, output: `of ${call_id}` }
    })
    expect((await turn(body.input)).status).toBe('completed')
    const done = await turn([...question, ...called.output, ...results])
    expect(done.status).toBe('completed')
    expect(textOf(done)).toContain(`of ${calls.at(-1).call_id}`)
  })
})
