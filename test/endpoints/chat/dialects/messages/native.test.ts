/** Requests that go to a vendor in the client's own form. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { toCarrier } from '../../../../../src/endpoints/chat/dialects/shared/reasoning.ts'
import { createTestGateway, type TestGateway } from '../../../../_setup.ts'
import { json, sse, startUpstream, type FakeUpstream } from '../../../../upstream.ts'
import { eventually } from '../../../../_wait.ts'
import { streamed } from './_events.ts'

const PATH = '/v1/messages'
const pricing = { prompt: '0.000003', completion: '0.000015', input_cache_read: '0.0000003' }
const ask = { model: 'claude', max_tokens: 100, messages: [{ role: 'user', content: 'Hello' }] }

const START = {
  type: 'message_start',
  message: {
    id: 'msg_vendor',
    type: 'message',
    role: 'assistant',
    model: 'claude-up',
    content: [],
    stop_reason: null,
    stop_sequence: null,
    new_member: 1,
    usage: { input_tokens: 10, cache_read_input_tokens: 5, output_tokens: 1 },
  },
}
const block = (index: number, content_block: object, ...deltas: object[]) => [
  { type: 'content_block_start', index, content_block },
  ...deltas.map((delta) => ({ type: 'content_block_delta', index, delta })),
  { type: 'content_block_stop', index },
]
const TEXT = block(
  0,
  { type: 'text', text: '' },
  { type: 'text_delta', text: 'All is ' },
  { type: 'text_delta', text: 'well.' },
)
const END = [
  {
    type: 'message_delta',
    delta: { stop_reason: 'end_turn', stop_sequence: null },
    usage: { input_tokens: 10, cache_read_input_tokens: 5, output_tokens: 7, new_count: 3 },
  },
  { type: 'message_stop' },
]
const eventStream = (...events: readonly any[]) =>
  sse(events.map((one) => `event: ${one.type}\ndata: ${JSON.stringify(one)}\n\n`).join(''))
const ANSWER = [START, { type: 'ping' }, ...TEXT, ...END]

let upstream: FakeUpstream
let gateway: TestGateway
beforeEach(async () => {
  upstream = await startUpstream()
  upstream.answer(eventStream(...ANSWER))
  gateway = await createTestGateway({
    providers: {
      anthropic: { use: 'anthropic', options: { apiKey: 'k', baseURL: upstream.url } },
      mock: { use: 'mock' },
    },
    models: {
      'anthropic/claude': {
        aliases: ['claude', 'claude-sonnet-5'],
        pricing,
        max_output_tokens: 64_000,
        deployments: [{ provider: 'anthropic', model: 'claude-sonnet-5-up' }],
      },
      'anthropic/searches': {
        pricing: { ...pricing, web_search: '0.01' },
        max_output_tokens: 4000,
        deployments: [{ provider: 'anthropic', model: 'claude-sonnet-5-up' }],
      },
      'anthropic/spare': {
        pricing,
        deployments: [
          { provider: 'anthropic', model: 'claude-sonnet-5-up' },
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
/** A body as this API gets it where nothing but these members differ. */
const wholeAnswer = {
  ...START.message,
  content: [{ type: 'text', text: 'All is well.' }],
  stop_reason: 'end_turn',
  usage: END[0]!.usage,
}

describe('a request', () => {
  const file = join(import.meta.dirname, '../../../../wire/clients/claude-code.json')
  const { requests } = JSON.parse(readFileSync(file, 'utf8'))
  const assistant = requests.find(({ method }: any) => method === 'POST')

  it('of a coding assistant goes out as it came, but for what is the gateway’s', async () => {
    const { authorization: _key, ...headers } = assistant.headers
    const answer = await gateway.ask('POST', `${PATH}?beta=true`, { headers, body: assistant.body })
    expect(answer.status).toBe(200)
    const { body, headers: received } = sent()
    const given = structuredClone(assistant.body)
    const label = sent().json.metadata.user_id
    expect(label).toMatch(/^[0-9a-f]{32}$/)
    given.model = 'claude-sonnet-5-up'
    given.metadata.user_id = label
    expect(body.toString()).toBe(JSON.stringify({ ...given, service_tier: 'standard_only' }))
    expect(received['anthropic-beta']).toBe(headers['anthropic-beta'])
    expect(received['x-api-key']).toBe('k')
    expect(received).not.toHaveProperty('x-app')
    expect(answer.headers['x-service-ignored']).toBeUndefined()
    const { message } = streamed(answer.text, 'vendor')
    expect(message.model).toBe('claude-sonnet-5')
  })

  it('keeps its bytes: numbers, escapes, order, white space', async () => {
    const big = '{"z": 12345678901234567890, "a": "\\u00e9" }'
    const messages = `[{"role":"user","content":"Hi"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":${big}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t"}]}]`
    await post(`{ "messages" : ${messages}, "model":"claude","top_p" : 0.50,"max_tokens":5}`)
    expect(sent().body.toString()).toBe(
      `{"messages" : ${messages},"model":"claude-sonnet-5-up","top_p" : 0.50,"max_tokens":5,"service_tier":"standard_only"}`,
    )
  })

  it('has its media in a form that the vendor reads', async () => {
    const [given, canonical] = ['iVBORw0K\\nGgoAAA_-', 'iVBORw0KGgoAAA/+']
    const blocks = (data: string) =>
      `[ {"type":"image","source":{"type":"base64","media_type":"image\\/png", "data":"${data}"}} ]`
    const messages = (data: string) => `[{"role":"user","content":${blocks(data)}}]`
    await post(`{"model":"claude","max_tokens":5,"messages":${messages(given)}}`)
    expect(sent().body.toString()).toContain(messages(canonical))
  })

  it('loses what is the gateway’s or has another price', async () => {
    const { answer } = await streamOf(
      {
        policy: { version: 1 },
        session_id: 's',
        plugins: [],
        models: ['x'],
        route: 'r',
        transforms: [],
        usage: {},
        provider: {},
        speed: 'fast',
        inference_geo: 'us',
        service_tier: 'auto',
        mcp_servers: [{ url: 'https://x' }],
        container: 'c',
        fallbacks: [{ model: 'claude-opus-5' }],
        fallback_credit_token: 't',
        billing_policy: { type: 'billing_policy', bill_to: 'user_profile' },
        thread: { type: 'create' },
      },
      {
        headers: {
          'anthropic-beta': 'fast-mode-2026-02-01, one-2025, é',
          'anthropic-version': 'x y',
          'anthropic-workspace-id': 'w',
        },
      },
    )
    const { headers } = sent()
    expect(sent().json).toEqual({
      ...ask,
      model: 'claude-sonnet-5-up',
      stream: true,
      service_tier: 'standard_only',
    })
    expect(headers['anthropic-beta']).toBe('one-2025')
    expect(headers['anthropic-version']).toBe('2023-06-01')
    expect(headers).not.toHaveProperty('anthropic-workspace-id')
    expect(answer.headers['x-service-ignored']).toBe(
      'mcp_servers, container, fallbacks, fallback_credit_token, billing_policy, thread',
    )
  })

  it('has the text of the policy first, and its ceiling', async () => {
    const policy = { version: 1 as const, systemPrompt: 'Be kind.', maxOutputTokens: 2000 }
    const { secret: key } = await gateway.newKey({ policy })
    const told = { type: 'text', text: 'Be kind.' }
    const system = [
      { type: 'text', text: 'x-anthropic-billing-header: cc_version=2.1; cch=a;' },
      { type: 'text', text: 'B' },
    ]
    const thinking = { type: 'enabled', budget_tokens: 3000 }
    await streamOf({ system, max_tokens: 4000, thinking }, { key })
    expect(sent().json).toMatchObject({
      system: [system[0], told, system[1]],
      max_tokens: 2000,
      thinking: { type: 'enabled', budget_tokens: 1999 },
    })
    await streamOf({ system: 'B' }, { key })
    expect(sent().json.system).toEqual([told, { type: 'text', text: 'B' }])
    expect(sent().json.max_tokens).toBe(100)
    await streamOf({}, { key })
    expect(sent().json.system).toEqual([told])
    const { secret: poor } = await gateway.newKey({ policy: { ...policy, maxOutputTokens: 1000 } })
    await streamOf({ max_tokens: 4000, thinking }, { key: poor })
    expect(sent().json).toMatchObject({ max_tokens: 1000, thinking: { type: 'disabled' } })
  })

  it('loses reasoning of other vendors, and nothing else', async () => {
    const signature = toCarrier({ type: 'reasoning.text', format: 'unknown' })
    const foreign = { type: 'thinking', thinking: 'x', signature }
    const own = { type: 'thinking', thinking: 'y', signature: 'c2ln' }
    const text = { type: 'text', text: 'z' }
    const messages = [
      ask.messages[0],
      { role: 'assistant', content: [foreign] },
      ask.messages[0],
      { role: 'assistant', content: [own, foreign, text] },
      ask.messages[0],
    ]
    await streamOf({ messages })
    const [first, second, third, last] = sent().json.messages
    expect([first, second, third, last]).toEqual([
      ask.messages[0],
      ask.messages[0],
      { role: 'assistant', content: [own, text] },
      ask.messages[0],
    ])
  })

  describe('with blocks that only this vendor has', () => {
    const summary = { type: 'compaction', content: 'We sailed.', encrypted_content: 'c3Vt' }
    const call = { type: 'tool_use', id: 't', name: 'find', input: {} }
    const found = { type: 'tool_reference', tool_name: 'get_weather' }
    const messagesOf = (block: object, reference: object) => [
      { role: 'assistant', content: [block, call] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't', content: [reference] }] },
    ]
    const policy = { version: 1 as const, bannedPatterns: ['swordfish'], guard: { output: false } }

    it('keeps them, also for a key with rules', async () => {
      const { secret } = await gateway.newKey({ policy })
      const context_management = { edits: [{ type: 'compact_20260112' }] }
      for (const key of [gateway.key.secret, secret]) {
        const messages = messagesOf(summary, found)
        const { answer } = await streamOf({ messages, context_management }, { key })
        expect(sent().json).toMatchObject({ messages, context_management })
        expect(answer.headers['x-service-ignored']).toBeUndefined()
      }
    })

    it('has every text of them read by guards', async () => {
      const { secret: key } = await gateway.newKey({ policy })
      for (const messages of [
        messagesOf({ ...summary, content: 'A swordfish.' }, found),
        messagesOf({ ...summary, encrypted_content: 'A swordfish.' }, found),
        messagesOf(summary, { ...found, tool_name: 'swordfish' }),
      ]) {
        const { message } = await streamOf({ messages }, { key })
        expect(message.stop_reason).toBe('refusal')
      }
      expect(upstream.requests).toEqual([])
    })

    it('says them in text where it is translated', async () => {
      const { secret: key } = await gateway.newKey({ policy: { ...policy, guard: {} } })
      await streamOf({ messages: messagesOf(summary, found) }, { key })
      const [, answered, result] = sent().json.messages
      expect(answered.content[0]).toMatchObject({ type: 'text', text: 'We sailed.\n\n' })
      const [{ content }] = result.content
      expect(content).toMatchObject([{ type: 'text', text: 'get_weather\n' }])
    })

    it('is translated where guards would not read how the vendor has to summarize', async () => {
      const { secret: key } = await gateway.newKey({ policy })
      const edits = [{ type: 'compact_20260112', instructions: 'In verse.' }]
      await streamOf({ context_management: { edits } })
      expect(sent().json.context_management).toEqual({ edits })
      const { answer } = await streamOf({ context_management: { edits } }, { key })
      expect(sent().json).not.toHaveProperty('context_management')
      expect(answer.headers['x-service-ignored']).toBe('context_management')
    })
  })

  it('with two members of one name is translated: a guard has read one of them only', async () => {
    await post(
      '{"model":"claude","max_tokens":5,"x":{"a":1,"a":2},"messages":[{"role":"user","content":"Hi"}]}',
    )
    expect(sent().json).not.toHaveProperty('x')
  })
})

describe('tools that the vendor runs', () => {
  const own = { name: 'f', input_schema: { type: 'object' } }
  const search = { type: 'web_search_20250305', name: 'web_search' }
  const tools = [
    own,
    search,
    { type: 'bash_20250124', name: 'bash' },
    { type: 'web_fetch_20250910', name: 'web_fetch' },
    { type: 'code_execution_20250825', name: 'code_execution' },
    { type: 'of_next_year', name: 'new' },
  ]
  const typesSent = () => sent().json.tools?.map(({ type = 'own' }: any) => type)

  it('are kept where their cost is known and no guard has to read them', async () => {
    const { answer } = await streamOf({ tools, model: 'anthropic/searches' })
    expect(typesSent()).toEqual([
      'own',
      'web_search_20250305',
      'bash_20250124',
      'web_fetch_20250910',
    ])
    expect(answer.headers['x-service-ignored']).toBe(
      'tools[4].code_execution_20250825, tools[5].of_next_year',
    )
    const unpriced = await streamOf({ tools })
    expect(typesSent()).toEqual(['own', 'bash_20250124', 'web_fetch_20250910'])
    expect(unpriced.answer.headers['x-service-ignored']).toContain('tools[1].web_search_20250305')
  })

  it('are left out where a policy blocks', async () => {
    const guard = { output: false }
    const policy = { version: 1 as const, bannedPatterns: ['swordfish'], guard }
    const { secret: key } = await gateway.newKey({ policy })
    await streamOf({ tools, model: 'anthropic/searches', metadata: { user_id: 'u' } }, { key })
    expect(typesSent()).toEqual(['own', 'bash_20250124'])
    await streamOf({ tools: [search], tool_choice: { type: 'auto' } }, { key })
    expect(sent().json).not.toHaveProperty('tools')
    expect(sent().json).not.toHaveProperty('tool_choice')
  })

  it('cannot be forced then', async () => {
    const tool_choice = { type: 'tool', name: 'code_execution' }
    const { status, json } = await post({ tools, tool_choice })
    expect(status).toBe(400)
    expect(json.error).toMatchObject({ code: 'unsupported_value', param: 'tool_choice' })
  })

  it('are on the bill', async () => {
    const usage = { ...END[0]!.usage, server_tool_use: { web_search_requests: 2 } }
    upstream.answer(eventStream(START, ...TEXT, { ...END[0], usage }, END[1]!))
    const { message } = await streamOf({ tools, model: 'anthropic/searches' })
    expect(message.usage.cost_details.web_search_cost).toBe(0.02)
  })
})

describe('an answer', () => {
  const usage = {
    ...END[0]!.usage,
    cost: 0.0001365,
    cost_details: { prompt_cost: 0.00003, cache_read_cost: 0.0000015, completion_cost: 0.000105 },
  }

  it('passes as it came, with the gateway’s id, the name that was asked for and the cost', async () => {
    const before = await gateway.balance()
    const { message, events } = await streamOf({})
    expect(message).toEqual({
      ...START.message,
      id: expect.stringMatching(/^msg_\w{24}$/),
      model: 'claude',
      content: [{ type: 'text', text: 'All is well.' }],
      stop_reason: 'end_turn',
      usage,
      guard: undefined,
    })
    expect(events.filter(({ type }) => type === 'ping')).toHaveLength(1)
    expect(before - (await gateway.balance())).toBe(136_500_000n)
  })

  it('comes whole as well, digit by digit', async () => {
    const input = '{"n":12345678901234567890}'
    const call = `{"type":"tool_use","id":"t","name":"f","input":${input},"new":1}`
    const body = JSON.stringify({ ...wholeAnswer, content: ['#'] }).replace('"#"', call)
    upstream.answer({ headers: { 'content-type': 'application/json' }, pieces: [body] })
    const { status, text, headers } = await post({})
    expect(status).toBe(200)
    expect(text).toContain(`"input":${input}`)
    expect(JSON.parse(text)).toMatchObject({
      id: expect.not.stringContaining('vendor'),
      model: 'claude',
      new_member: 1,
      content: [{ type: 'tool_use', id: 't', name: 'f', new: 1 }],
      stop_reason: 'end_turn',
      usage,
    })
    expect(headers['x-service-cost']).toBe('0.0001365')
    expect(sent().json).not.toHaveProperty('stream')
  })

  it('comes whole with the input of every block, of new types as well', async () => {
    const content = [
      { type: 'mcp_tool_use', id: 'm1', name: 'find', server_name: 's', input: { a: 1 } },
      { type: 'server_tool_use', id: 's1', name: 'web_search', input: { query: 'q' } },
      { type: 'later_use', id: 'l1', input: {} },
    ]
    upstream.answer(json({ ...wholeAnswer, content }))
    expect((await post({})).json.content).toEqual(content)
  })

  it('is charged for what the vendor made beside it', async () => {
    const iterations = [
      { type: 'compaction', input_tokens: 100, cache_read_input_tokens: 40, output_tokens: 30 },
      { type: 'message', input_tokens: 10, cache_read_input_tokens: 5, output_tokens: 7 },
    ]
    const counted = { ...END[0]!.usage, iterations }
    // (10 + 100) × 0.000003 + (5 + 40) × 0.0000003 + (7 + 30) × 0.000015
    const cost = 0.0008985
    upstream.answer(eventStream(START, ...TEXT, { ...END[0], usage: counted }, END[1]))
    const { message } = await streamOf({})
    expect(message.usage).toMatchObject({ input_tokens: 10, output_tokens: 7, iterations, cost })
    upstream.answer(json({ ...wholeAnswer, usage: counted }))
    const before = await gateway.balance()
    expect((await post({})).json.usage).toMatchObject({ output_tokens: 7, cost })
    expect(before - (await gateway.balance())).toBe(898_500_000n)
  })

  describe('that begins with a summary', () => {
    const content = `${'The ship has sailed. '.repeat(400)}A swordfish.`
    const summary = { type: 'compaction', content, encrypted_content: 'c3Vt' }
    const said = { type: 'compaction_delta', content, encrypted_content: 'c3Vt' }
    const SUMMARY = block(0, { type: 'compaction', content: null }, said)
    const text = { type: 'text', text: 'All is well.' }
    const AFTER = block(1, { type: 'text', text: '' }, { type: 'text_delta', text: text.text })
    const streamedSummary = eventStream(START, ...SUMMARY, ...AFTER, ...END)
    const wholeSummary = json({ ...wholeAnswer, content: [summary, text] })

    it('reaches the client in either form', async () => {
      for (const answer of [streamedSummary, wholeSummary]) {
        upstream.answer(answer)
        expect((await streamOf({})).message.content).toEqual([summary, text])
        upstream.answer(answer)
        expect((await post({})).json.content).toEqual([summary, text])
      }
      const failed = { type: 'compaction', content: null }
      upstream.answer(json({ ...wholeAnswer, content: [failed, text] }))
      expect((await post({})).json.content).toEqual([failed, text])
    })

    it('is read by guards that watch', async () => {
      const guard = { mode: 'monitor' as const }
      const policy = { version: 1 as const, bannedPatterns: ['swordfish'], guard }
      const { secret: key } = await gateway.newKey({ policy })
      const seen = 'side="output",rule="bannedPatterns",mode="monitor",outcome="seen"}'
      for (const [index, answer] of [streamedSummary, wholeSummary].entries()) {
        upstream.answer(answer)
        await post({}, { key })
        const counts = () => gateway.gateway.runtime.metrics.text()
        await eventually(() => expect(counts()).toContain(`${seen} ${index + 1}\n`))
      }
    })

    it('is charged for it where the rest does not come', async () => {
      upstream.answer(eventStream(START, ...SUMMARY))
      const before = await gateway.balance()
      const { error } = await streamOf({})
      expect(error.code).toBe('upstream_error')
      // 10 × 0.000003 + 5 × 0.0000003 + a token for four characters
      const tokens = BigInt(Math.ceil(content.length / 4))
      expect(before - (await gateway.balance())).toBe(31_500_000n + tokens * 15_000_000n)
    })

    it('is explained by it', async () => {
      const iterations = [{ type: 'compaction', input_tokens: 100, output_tokens: 2100 }]
      const usage = { ...END[0]!.usage, iterations }
      upstream.answer(eventStream(START, ...SUMMARY, ...AFTER, { ...END[0], usage }, END[1]))
      const { message } = await streamOf({})
      expect(message.usage.cost_details.completion_cost).toBe(0.031605)
      expect(gateway.logged.filter((line) => line.includes('usage'))).toEqual([])
    })
  })

  it('that says nothing of its end has a natural one', async () => {
    const call = { type: 'tool_use', id: 't1', name: 'f', input: {} }
    for (const [blocks, reason] of [
      [TEXT, 'end_turn'],
      [block(0, call, { type: 'input_json_delta', partial_json: '{}' }), 'tool_use'],
    ] as const) {
      upstream.answer(eventStream(START, ...blocks, END[1]))
      const { events } = await streamOf({})
      const ends = events.filter(({ type }) => type === 'message_delta')
      expect(ends.map(({ delta }) => delta.stop_reason)).toEqual([reason])
    }
  })

  it('that the vendor sends in the other form reaches the client in its own', async () => {
    const thinking = { type: 'thinking', thinking: 'Hm', signature: 'c2ln' }
    const content = [thinking, ...wholeAnswer.content]
    upstream.answer(json({ ...wholeAnswer, content }))
    expect((await streamOf({})).message.content).toEqual(content)
    upstream.answer(eventStream(...ANSWER))
    const { json: whole } = await post({})
    expect(whole.content).toMatchObject(wholeAnswer.content)
    expect(whole.usage).toEqual(usage)
  })

  it('has the beginnings and ends of blocks that a compatible server leaves out', async () => {
    const delta = (index: number, one: object) => ({
      type: 'content_block_delta',
      index,
      delta: one,
    })
    const call = { type: 'tool_use', id: 't1', name: 'f', input: {} }
    const json = (partial_json: string) => delta(3, { type: 'input_json_delta', partial_json })
    upstream.answer(
      eventStream(
        START,
        delta(1, { type: 'thinking_delta', thinking: 'It is about everything.' }),
        delta(1, { type: 'signature_delta', signature: 'c2ln' }),
        { type: 'content_block_stop', index: 1 },
        delta(2, { type: 'text_delta', text: 'All is ' }),
        delta(2, { type: 'text_delta', text: 'well.' }),
        { type: 'content_block_stop', index: 2 },
        { type: 'content_block_start', index: 3, content_block: call },
        json('{"a":'),
        json('1}'),
        ...END,
      ),
    )
    const content = [
      { type: 'thinking', thinking: 'It is about everything.', signature: 'c2ln' },
      { type: 'text', text: 'All is well.' },
      { ...call, input: { a: 1 } },
    ]
    expect((await streamOf({})).message).toMatchObject({ content, usage })
    // A client may have asked for it whole.
    expect((await post({})).json).toMatchObject({ content, usage })
    const policy = { version: 1 as const, bannedPatterns: ['swordfish'] }
    const { secret: key } = await gateway.newKey({ policy })
    expect((await streamOf({}, { key })).message).toMatchObject({ content })
  })

  it('fails where a part belongs to no call: a client would run half of one', async () => {
    const part = { type: 'input_json_delta', partial_json: '{"a":1}' }
    const alone = { type: 'content_block_delta', index: 1, delta: part }
    upstream.answer(eventStream(START, ...TEXT, alone, ...END))
    const { error, message } = await streamOf({})
    expect(error).toMatchObject({ code: 'upstream_error', usage: { cost: expect.any(Number) } })
    expect(message.stopped).toBeUndefined()
  })

  it('shows the counts that were charged where the vendor has counted nothing', async () => {
    const none = { input_tokens: 0, output_tokens: 0, service_tier: 'priority', new_count: 3 }
    const start = { ...START, message: { ...START.message, usage: none } }
    upstream.answer(eventStream(start, ...TEXT, { ...END[0], usage: none }, END[1]))
    const before = await gateway.balance()
    const { usage: shown } = (await streamOf({})).message
    expect(shown).toMatchObject({ service_tier: 'priority', new_count: 3 })
    expect(shown.output_tokens).toBe(3)
    const cost = BigInt(shown.input_tokens) * 3_000_000n + 3n * 15_000_000n
    expect(before - (await gateway.balance())).toBe(cost)
    expect(BigInt(Math.round(shown.cost * 1e12))).toBe(cost)
    upstream.answer(json({ ...wholeAnswer, usage: none }))
    const { usage: whole } = (await post({})).json
    expect(whole).toMatchObject({ output_tokens: shown.output_tokens, cost: shown.cost })
  })

  it('ends once, however often the vendor says how', async () => {
    const [end, stop] = END
    const early = {
      type: 'message_delta',
      delta: { stop_reason: null },
      usage: { output_tokens: 1 },
    }
    const again = Array.from({ length: 500 }, () => early)
    const last = { ...end, usage: { output_tokens: END[0]!.usage!.output_tokens } }
    const counted = { ...early, usage: { ...END[0]!.usage, output_tokens: 2 } }
    upstream.answer(eventStream(START, ...TEXT, ...again, counted, last, stop))
    const { events } = await streamOf({})
    const ends = events.filter(({ type }) => type === 'message_delta')
    expect(ends).toHaveLength(1)
    expect(ends[0]).toMatchObject({ delta: { stop_reason: 'end_turn' }, usage })
  })

  it('has events of new types only for clients that know betas', async () => {
    upstream.answer(eventStream(START, { type: 'new_event', x: 1 }, ...TEXT, ...END))
    const plain = await post({ stream: true })
    expect(plain.text).not.toContain('new_event')
    const beta = await post({ stream: true }, { headers: { 'anthropic-beta': 'new-2027' } })
    expect(beta.text).toContain('event: new_event\ndata: {"type":"new_event","x":1}\n\n')
  })

  it('has events of new types wherever the vendor sends them, also before its last event', async () => {
    const event = (x: number) => ({ type: 'new_event', x })
    const [end, stop] = END
    const whole = [event(1), START, event(2), ...TEXT, event(3), end, event(4), stop]
    upstream.answer(eventStream(...whole))
    const { text } = await post({ stream: true }, { headers: { 'anthropic-beta': 'new-2027' } })
    const sentOn = text.split('\n\n').filter((one) => one.startsWith('event: new_event\n'))
    expect(sentOn).toEqual(
      [1, 2, 3, 4].map((x) => `event: new_event\ndata: ${JSON.stringify(event(x))}`),
    )
    // What ends the message is retained until it is charged.
    expect(text.lastIndexOf('event: new_event')).toBeLessThan(text.indexOf('event: message_stop'))
    upstream.answer(eventStream(...whole))
    expect((await post({ stream: true })).text).not.toContain('new_event')
  })

  it('is the same in both lanes, and costs the same', async () => {
    const native = await streamOf({})
    const policy = { version: 1 as const, bannedPatterns: ['swordfish'] }
    const { secret: key } = await gateway.newKey({ policy })
    const translated = await streamOf({ new_member: 1 }, { key })
    expect(sent().json).not.toHaveProperty('new_member')
    expect(translated.answer.headers['x-service-ignored']).toBe('new_member')
    expect(translated.message.content).toEqual(native.message.content)
    expect(translated.message.stop_reason).toBe(native.message.stop_reason)
    const { cost, cost_details, input_tokens, output_tokens } = native.message.usage
    expect(translated.message.usage).toMatchObject({
      cost,
      cost_details,
      input_tokens,
      output_tokens,
    })
  })

  it('ends well where the vendor runs past the ceiling', async () => {
    const policy = { version: 1 as const, maxOutputTokens: 1 }
    const { secret: key } = await gateway.newKey({ policy })
    const long = block(
      0,
      { type: 'text', text: '' },
      { type: 'text_delta', text: 'Short.' },
      { type: 'text_delta', text: 'x'.repeat(1000) },
    )
    upstream.answer(eventStream(START, ...long, ...END))
    const { message } = await streamOf({}, { key })
    expect(message).toMatchObject({
      content: [{ type: 'text', text: 'Short.' }],
      stop_reason: 'max_tokens',
    })
    expect(message.usage.cost).toBeGreaterThan(0)
  })

  it('may have read what the normal form leaves out', async () => {
    const found = {
      type: 'web_search_result',
      url: 'https://a',
      encrypted_content: 'eHh4'.repeat(9000),
    }
    const content = [
      { type: 'server_tool_use', id: 's', name: 'web_search', input: {} },
      { type: 'web_search_tool_result', tool_use_id: 's', content: [found] },
    ]
    const messages = [ask.messages[0], { role: 'assistant', content }, ask.messages[0]]
    const counted = { ...START.message, usage: { input_tokens: 9000, output_tokens: 1 } }
    const [delta, stop] = END
    const last = { ...delta, usage: { output_tokens: 7 } }
    upstream.answer(eventStream({ ...START, message: counted }, ...TEXT, last, stop))
    await streamOf({ messages })
    expect(sent().json.messages).toEqual(messages)
    expect(gateway.logged.filter((line) => line.includes('usage'))).toEqual([])
  })

  it('that breaks is charged, and ends with an error', async () => {
    const overloaded = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }
    upstream.answer(eventStream(START, ...TEXT.slice(0, 2), overloaded))
    const { error } = await streamOf({})
    expect(error).toMatchObject({ type: 'overloaded_error', code: 'provider_overloaded' })
    expect(error.usage.cost).toBeGreaterThan(0)
    upstream.answer(eventStream(START, ...TEXT))
    expect((await streamOf({})).error.code).toBe('upstream_error')
  })

  it('that fails before it began goes on at another vendor, translated', async () => {
    upstream.answer(json({ type: 'error', error: { type: 'api_error', message: 'x' } }, 500))
    const { message, answer } = await streamOf({ model: 'anthropic/spare', new_member: 1 })
    expect(upstream.requests).toHaveLength(1)
    expect(message.content).toEqual([{ type: 'text', text: 'Hello' }])
    expect(answer.headers['x-service-ignored']).toBe('new_member')
  })

  it('is read by guards that only watch', async () => {
    const guard = { mode: 'monitor' as const }
    const policy = { version: 1 as const, bannedPatterns: ['well'], guard }
    const { secret: key } = await gateway.newKey({ policy })
    upstream.answer(json(wholeAnswer))
    const answer = await post({ diagnostics: {} }, { key })
    expect(sent().json).toHaveProperty('diagnostics')
    expect(answer.json.content[0].text).toBe('All is well.')
    expect(answer.headers['x-service-guard']).toContain('monitored')
  })
})

describe('an error of the vendor', () => {
  const refused = (message: string) =>
    json({ type: 'error', error: { type: 'invalid_request_error', message } }, 400)

  it('keeps its words, because clients repair their requests by them', async () => {
    upstream.answer(refused('Unexpected value(s) `x` for the `anthropic-beta` header.'))
    const { status, json: body } = await post({})
    expect(status).toBe(400)
    expect(body.error.message).toContain('Unexpected value(s) `x`')
  })

  it('is told in the gateway’s words to a key with a policy: vendors quote what they were sent', async () => {
    const policies = [{ systemPrompt: 'Be kind.' }, { bannedPatterns: ['swordfish'] }]
    for (const policy of policies) {
      const { secret: key } = await gateway.newKey({ policy: { version: 1, ...policy } })
      upstream.answer(refused('Your prompt "Be kind. Be brief." is odd.'))
      const quoted = await post({}, { key })
      expect([quoted.status, quoted.json.error.message]).toEqual([
        400,
        'The model provider refused the request.',
      ])
      upstream.answer(refused('messages.1.content.0: Invalid `signature` in `thinking` block'))
      const signed = await post({}, { key })
      expect(signed.json.error.message).toContain('invalid signature in thinking block')
    }
    expect(gateway.logged.some((line) => line.includes('Be kind. Be brief.'))).toBe(true)
  })
})
