/** Requests that go to a vendor in the client's own form. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { toCarrier } from '../../../../../src/endpoints/chat/dialects/shared/reasoning.ts'
import { createTestGateway, type TestGateway } from '../../../../_setup.ts'
import { json, sse, startUpstream, type FakeUpstream } from '../../../../upstream.ts'
import { MEMBERS, streamed } from './_events.ts'

const PATH = '/v1/responses'
const pricing = { prompt: '0.000003', completion: '0.000015' }
const ask = { model: 'gpt', input: 'Hello' }

/** What a vendor answers: its own id, name and values of the request. */
const RESOURCE = {
  ...Object.fromEntries(MEMBERS.map((name) => [name, null])),
  id: 'resp_vendor',
  object: 'response',
  created_at: 5,
  status: 'in_progress',
  model: 'gpt-5.6-up',
  instructions: 'Of a policy.',
  prompt_cache_key: 'hash',
  metadata: {},
  output: [],
  new_member: 1,
}
const USAGE = { input_tokens: 100, output_tokens: 7, total_tokens: 107, new_count: 3 }
const PART = { type: 'output_text', text: '', annotations: [], logprobs: [] }
const ITEM = { id: 'msg_v', type: 'message', role: 'assistant' }
const about = { item_id: 'msg_v', output_index: 0, content_index: 0 }
const delta = (text: string) => ({
  type: 'response.output_text.delta',
  ...about,
  delta: text,
  logprobs: [],
  obfuscation: 'xyz',
})
const BEGIN = [
  { type: 'response.created', response: RESOURCE },
  { type: 'response.in_progress', response: RESOURCE },
  {
    type: 'response.output_item.added',
    output_index: 0,
    item: { ...ITEM, status: 'in_progress', content: [] },
  },
  { type: 'response.content_part.added', ...about, part: PART },
]
const said = { ...PART, text: 'All is well.' }
const done = { ...ITEM, status: 'completed', content: [said] }
const COMPLETED = { ...RESOURCE, status: 'completed', output: [done], usage: USAGE }
const ANSWER = [
  ...BEGIN,
  delta('All is '),
  { type: 'keepalive' },
  delta('well.'),
  { type: 'response.output_text.done', ...about, text: 'All is well.', logprobs: [] },
  { type: 'response.content_part.done', ...about, part: said },
  { type: 'response.output_item.done', output_index: 0, item: done },
  { type: 'response.completed', response: COMPLETED },
]
const eventStream = (...events: readonly any[]) =>
  sse(
    events
      .map((one, sequence_number) => ({ ...one, sequence_number }))
      .map((one) => `event: ${one.type}\ndata: ${JSON.stringify(one)}\n\n`)
      .join(''),
  )

let upstream: FakeUpstream
let gateway: TestGateway
beforeEach(async () => {
  upstream = await startUpstream()
  upstream.answer(eventStream(...ANSWER))
  const deployment = (provider: string, model: string, options = {}) => ({
    pricing,
    max_output_tokens: 64_000,
    deployments: [{ provider, model, options }],
  })
  gateway = await createTestGateway({
    providers: {
      openai: { use: 'openai', options: { apiKey: 'k', baseURL: upstream.url } },
      azure: { use: 'azure', options: { apiKey: 'k', baseURL: upstream.url } },
      mock: { use: 'mock' },
    },
    models: {
      'openai/gpt-5.6': {
        ...deployment('openai', 'gpt-5.6-up'),
        aliases: ['gpt'],
      },
      'openai/searches': {
        ...deployment('openai', 'gpt-5.6-up'),
        pricing: { ...pricing, web_search: '0.01' },
      },
      'openai/chat-only': deployment('openai', 'gpt-5.6-up', { api: 'chat' }),
      'azure/gpt': deployment('azure', 'gpt-5.6'),
      'openai/spare': {
        pricing,
        deployments: [
          { provider: 'openai', model: 'gpt-5.6' },
          { provider: 'mock', model: 'echo', priority: 2 },
        ],
      },
    },
  })
})
afterEach(async () => {
  await gateway.close()
  await upstream.close()
})

interface Options {
  readonly key?: string
  readonly headers?: Record<string, string>
}
const post = (body: object | string, options: Options = {}) =>
  gateway.ask('POST', PATH, {
    ...options,
    body: typeof body === 'string' ? body : { ...ask, ...body },
  })
const streamOf = async (body: object, options?: Options) => {
  const answer = await post({ ...body, stream: true }, options)
  expect(answer.status).toBe(200)
  return { ...streamed(answer.text, 'vendor'), answer }
}
const sent = () => upstream.requests.at(-1)!

describe('a request', () => {
  const file = join(import.meta.dirname, '../../../../wire/clients/codex.json')
  const { requests } = JSON.parse(readFileSync(file, 'utf8'))
  const [codex] = requests

  it('of a coding assistant goes out as it came, but for what is the gateway’s', async () => {
    const { authorization: _key, ...headers } = codex.headers
    const answer = await gateway.ask('POST', PATH, { headers, body: codex.body })
    expect(answer.status).toBe(200)
    expect(sent().path).toBe('/responses')
    const given = structuredClone(codex.body)
    const label = sent().json.prompt_cache_key
    expect(label).toMatch(/^[0-9a-f]{32}$/)
    for (const item of given.input) delete item.id
    given.tools = given.tools.slice(0, 3)
    given.model = 'gpt-5.6-up'
    given.prompt_cache_key = label
    delete given.client_metadata
    const more = { stream_options: { include_obfuscation: false } }
    expect(sent().body.toString()).toBe(JSON.stringify({ ...given, ...more }))
    expect(sent().headers).not.toHaveProperty('session-id')
    expect(answer.headers['x-service-ignored']).toBe('tools[3].web_search')
    const { response } = streamed(answer.text, 'vendor')
    expect(response.model).toBe(codex.body.model)
    expect(response.prompt_cache_key).toBe(codex.body.prompt_cache_key)
  })

  it('keeps its bytes: numbers, escapes, order, white space', async () => {
    const input = '[{"role":"user", "content":"\\u00e9","x": 12345678901234567890 }]'
    upstream.answer(json(COMPLETED))
    await post(`{ "input" : ${input}, "model":"gpt","top_p" : 0.50}`)
    expect(sent().body.toString()).toBe(
      `{"input" : ${input},"model":"gpt-5.6-up","top_p" : 0.50,"store":false}`,
    )
  })

  it('has its media in a form that the vendor reads', async () => {
    const input = (image: string, file: string) =>
      `[{"role":"user", "content":[{"type":"input_image" ,"image_url":"${image}"},{"type":"input_file","filename":"a.csv","file_data":"${file}"}]}]`
    upstream.answer(json(COMPLETED))
    await post(`{"model":"gpt","input":${input('DATA:image/png;base64,A-_A', 'YSxi')}}`)
    expect(sent().body.toString()).toContain(
      input('data:image/png;base64,A+/A', 'data:text/csv;base64,YSxi'),
    )
  })

  it('loses what is the gateway’s or has another price', async () => {
    await streamOf({
      policy: { version: 1 },
      session_id: 's',
      plugins: [],
      models: ['x'],
      route: 'r',
      transforms: [],
      usage: {},
      provider: {},
      service_tier: 'priority',
      client_metadata: {},
      store: true,
      user: 'me',
      stream_options: { include_obfuscation: true },
    })
    const { user, ...rest } = sent().json
    expect(user).toMatch(/^[0-9a-f]{32}$/)
    expect(rest).toEqual({
      ...ask,
      model: 'gpt-5.6-up',
      stream: true,
      store: false,
      stream_options: { include_obfuscation: false },
    })
  })

  it('has the text of the policy first, and its ceiling', async () => {
    const policy = { version: 1 as const, systemPrompt: 'Be kind.', maxOutputTokens: 2000 }
    const { secret: key } = await gateway.newKey({ policy })
    const { response, answer } = await streamOf({ instructions: 'Mine.' }, { key })
    expect(sent().json.instructions).toBe('Be kind.\n\nMine.')
    expect(sent().json.max_output_tokens).toBe(2000)
    expect(response.instructions).toBe('Mine.')
    expect(answer.text).not.toContain('Of a policy.')
    await streamOf({ max_output_tokens: 5 }, { key })
    expect(sent().json).toMatchObject({ instructions: 'Be kind.', max_output_tokens: 16 })
    await streamOf({ max_output_tokens: 100_000 })
    expect(sent().json.max_output_tokens).toBe(64_000)
  })

  it('loses ids of items, and reasoning of other vendors', async () => {
    const opaque = toCarrier({ type: 'reasoning.text', format: 'unknown', signature: 's' })
    const own = { type: 'reasoning', summary: [], encrypted_content: 'gAAA' }
    const call = { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' }
    const output = { type: 'function_call_output', call_id: 'c', output: 'x' }
    const input = [
      { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: opaque },
      { ...own, id: 'rs_2' },
      { ...call, id: 'fc_1' },
      { type: 'compaction', id: 'cmp_1', encrypted_content: 'gBBB' },
      output,
    ]
    await streamOf({ input })
    const compaction = { type: 'compaction', encrypted_content: 'gBBB' }
    expect(sent().json.input).toEqual([own, call, compaction, output])
  })

  it('loses tools that the vendor runs, unless their price is known and nothing is blocked', async () => {
    const own = [
      { type: 'function', name: 'f' },
      { type: 'custom', name: 'g' },
      { type: 'apply_patch' },
      { type: 'local_shell' },
    ]
    const tools = [...own, { type: 'web_search' }, { type: 'code_interpreter' }, { type: 'mcp' }]
    const { answer } = await streamOf({ tools })
    expect(sent().json.tools).toEqual(own)
    expect(answer.headers['x-service-ignored']).toBe(
      'tools[4].web_search, tools[5].code_interpreter, tools[6].mcp',
    )
    await streamOf({ model: 'openai/searches', tools })
    expect(sent().json.tools).toEqual([...own, { type: 'web_search' }])
    const before = upstream.requests.length
    const forced = await post({ tools, tool_choice: { type: 'code_interpreter' } })
    expect([forced.status, forced.json.error.code]).toEqual([400, 'unsupported_value'])
    expect(upstream.requests).toHaveLength(before)
  })

  it('goes to Azure too, and is translated for a deployment without this API', async () => {
    await streamOf({ model: 'azure/gpt', moderation: 1 })
    expect(sent().path).toContain('/openai/v1/responses')
    expect(sent().json.moderation).toBe(1)
    upstream.answer(
      json({
        id: 'c',
        choices: [{ index: 0, message: { content: 'Hi' }, finish_reason: 'stop' }],
        usage: { prompt_tokens: 1, completion_tokens: 1 },
      }),
    )
    const { json: answer } = await post({ model: 'openai/chat-only' })
    expect(sent().path).toBe('/chat/completions')
    expect(answer.output[0].content[0].text).toBe('Hi')
  })

  it('is translated where a policy reads answers', async () => {
    const policy = { version: 1 as const, bannedPatterns: ['swordfish'] }
    const { secret: key } = await gateway.newKey({ policy })
    const { response } = await streamOf({ unknown: 1 }, { key })
    expect(sent().json).not.toHaveProperty('unknown')
    expect(response.output[0].content).toEqual([said])
    expect(response).not.toHaveProperty('new_member')
  })
})

describe('an answer', () => {
  it('passes as it came, with the gateway’s id, the name that was asked for and the cost', async () => {
    const before = await gateway.balance()
    const { events, response, answer } = await streamOf({ metadata: { a: 'b' } })
    expect(response).toMatchObject({
      id: expect.stringMatching(/^resp_\w+$/),
      model: 'gpt',
      new_member: 1,
      metadata: { a: 'b' },
      instructions: null,
      store: false,
      service_tier: 'default',
      usage: { ...USAGE, cost: 0.000405 },
    })
    expect(response.id).not.toBe('resp_vendor')
    expect(events.map(({ type }) => type)).not.toContain('keepalive')
    expect(answer.text).not.toContain('obfuscation')
    expect(Number(before - (await gateway.balance())) / 1e12).toBeCloseTo(0.000405, 12)
  })

  it('says the same whole', async () => {
    upstream.answer(json(COMPLETED))
    const { json: whole, headers } = await post({})
    const { cost, cost_details: _details, ...usage } = whole.usage
    expect({ ...whole, usage }).toEqual({
      ...COMPLETED,
      id: expect.stringMatching(/^resp_\w+$/),
      model: 'gpt',
      instructions: null,
      prompt_cache_key: null,
      user: null,
      safety_identifier: null,
      metadata: {},
      store: false,
      service_tier: 'default',
    })
    expect(headers['x-service-cost']).toBe(String(cost))
  })

  it('that comes whole although a stream was asked for is streamed', async () => {
    upstream.answer(json(COMPLETED))
    const { response } = await streamOf({})
    expect(response.output[0].content).toEqual([said])
    expect(response.usage.cost).toBe(0.000405)
  })

  it('is charged for searches of the vendor', async () => {
    const search = {
      id: 'ws_1',
      type: 'web_search_call',
      status: 'completed',
      action: { type: 'search' },
    }
    upstream.answer(json({ ...COMPLETED, output: [search, done] }))
    const tools = [{ type: 'web_search' }]
    const { json: answer } = await post({ model: 'openai/searches', tools })
    expect(answer.output[0]).toEqual(search)
    expect(answer.usage.cost).toBe(0.010405)
  })

  it('that is cut ends with what came of it', async () => {
    upstream.answer(eventStream(...BEGIN, delta('All is ')))
    const { response } = await streamOf({})
    expect(response.status).toBe('failed')
    expect(response.error.code).toBe('upstream_error')
    expect(response.output).toEqual([
      { ...ITEM, status: 'incomplete', content: [{ ...PART, text: 'All is ' }] },
    ])
    expect(response.usage.cost).toBeGreaterThan(0)
  })

  it('that runs past the ceiling of a policy is cut', async () => {
    const { secret: key } = await gateway.newKey({ policy: { version: 1, maxOutputTokens: 20 } })
    upstream.answer(
      eventStream(...BEGIN, ...Array.from({ length: 40 }, () => delta('word '.repeat(20)))),
    )
    const { response } = await streamOf({}, { key })
    expect(response).toMatchObject({
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
    })
  })

  it('that fails before its first event is asked for elsewhere, in the other form', async () => {
    upstream.answer(json({ error: { message: 'busy' } }, 503))
    const { response } = await streamOf({ model: 'openai/spare', input: 'Echo this' })
    expect(response.output[0].content[0].text).toBe('Echo this')
  })

  it('that a too long prompt gets is told in the stream', async () => {
    const message = 'Your input exceeds the context window of this model.'
    upstream.answer(json({ error: { code: 'context_length_exceeded', message } }, 400))
    const { response } = await streamOf({})
    expect(response.error.code).toBe('context_length_exceeded')
  })
})
