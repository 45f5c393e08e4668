import { Ajv2020 } from 'ajv/dist/2020.js'
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { formatPico, parsePico } from '../../../src/money/money.ts'
import { gated } from '../../_plugin.ts'
import { MOCK_CONFIG, createTestGateway, eventsOf, hello, type TestGateway } from '../../_setup.ts'

const schema = (name: string) =>
  JSON.parse(readFileSync(new URL(`../../wire/schemas/${name}.json`, import.meta.url), 'utf8'))
const ajv = new Ajv2020({ strict: false })
const is = {
  completion: ajv.compile(schema('chat-completion')),
  chunk: ajv.compile(schema('chat-completion-chunk')),
  error: ajv.compile(schema('error')),
  models: ajv.compile(schema('models-list')),
  key: ajv.compile(schema('key')),
  credits: ajv.compile(schema('credits')),
}

const echo = MOCK_CONFIG.models['mock/echo']
const scripted = (options: Record<string, unknown>) => ({
  ...echo,
  deployments: [{ provider: 'mock', model: 'echo', options }],
})

let t: TestGateway
beforeAll(async () => {
  t = await createTestGateway({
    ...MOCK_CONFIG,
    models: {
      ...MOCK_CONFIG.models,
      'mock/plain': { ...echo, capabilities: [] },
      'mock/priced': {
        ...scripted({ reply: 'Hello.', usage: { prompt_tokens: 42, completion_tokens: 17 } }),
        pricing: { prompt: '0.00000015', completion: '0.0000006' },
      },
      'mock/cached': {
        ...scripted({
          reply: 'Hello.',
          usage: {
            prompt_tokens: 1000,
            completion_tokens: 10,
            prompt_tokens_details: { cached_tokens: 600, cache_write_tokens: 100 },
            completion_tokens_details: { reasoning_tokens: 4 },
          },
        }),
        pricing: {
          prompt: '0.000001',
          input_cache_read: '0.0000001',
          input_cache_write: '0.00000125',
          completion: '0.000002',
        },
      },
      'mock/silent': scripted({ reply: 'abcdefgh', usage: 'none' }),
      'mock/thinker': scripted({ reply: 'Yes.', reasoning: 'Let me think.' }),
      'mock/breaks': scripted({
        reply: 'one two three four',
        error: { class: 'upstream_error', after: 2 },
      }),
      'mock/babbler': scripted({ reply: 'word '.repeat(500) }),
      'mock/refused': scripted({ error: { class: 'content_blocked' } }),
    },
  })
})
afterAll(() => t.close())

/** Parses a stream, checks every payload against its schema and the rules that hold for all streams. */
function chunksOf(text: string): any[] {
  const events = eventsOf(text)
  expect(text.endsWith('data: [DONE]\n\n')).toBe(true)
  expect(events.pop()).toBe('[DONE]')
  for (const event of events) {
    const valid = 'error' in event ? is.error : is.chunk
    expect(valid(event), ajv.errorsText(valid.errors)).toBe(true)
  }
  const chunks = events.filter((event) => !('error' in event))
  expect(
    new Set(chunks.map(({ id, created, model }) => `${id} ${created} ${model}`)).size,
  ).toBeLessThan(2)
  expect(chunks.filter((chunk) => chunk.usage).length).toBeLessThan(2)
  return events
}

describe('a completion', () => {
  it('is valid, says what it cost, and costs that', async () => {
    const before = await t.balance()
    const answer = await t.chat({ ...hello, model: 'mock/priced' })
    expect(answer.status).toBe(200)
    expect(is.completion(answer.json), ajv.errorsText(is.completion.errors)).toBe(true)
    expect(answer.json).toMatchObject({
      model: 'mock/priced',
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: 'Hello.', refusal: null },
          finish_reason: 'stop',
        },
      ],
      usage: {
        prompt_tokens: 42,
        completion_tokens: 17,
        total_tokens: 59,
        cost: 0.0000165,
        cost_details: { prompt_cost: 0.0000063, completion_cost: 0.0000102 },
      },
    })
    expect(answer.text).toContain('"cost":0.0000165')
    expect(answer.headers['x-service-cost']).toBe('0.0000165')
    expect(answer.headers['content-type']).toBe('application/json')
    expect(before - (await t.balance())).toBe(parsePico('0.0000165'))
  })

  it('bills cached and written tokens at their own prices', async () => {
    const { usage } = (await t.chat({ ...hello, model: 'mock/cached' })).json
    expect(usage).toEqual({
      prompt_tokens: 1000,
      completion_tokens: 10,
      total_tokens: 1010,
      prompt_tokens_details: { cached_tokens: 600, cache_write_tokens: 100, audio_tokens: 0 },
      completion_tokens_details: {
        reasoning_tokens: 4,
        audio_tokens: 0,
        accepted_prediction_tokens: 0,
        rejected_prediction_tokens: 0,
      },
      cost: 0.000505,
      cost_details: {
        prompt_cost: 0.0003,
        cache_read_cost: 0.00006,
        cache_write_cost: 0.000125,
        completion_cost: 0.00002,
        upstream_inference_prompt_cost: 0.000485,
        upstream_inference_completions_cost: 0.00002,
      },
    })
  })

  it('is billed by an estimate where the vendor counts nothing', async () => {
    const { usage } = (await t.chat({ ...hello, model: 'mock/silent' })).json
    // 11 characters in, 8 out, a token for every 4.
    expect([usage.prompt_tokens, usage.completion_tokens]).toEqual([3, 2])
    expect(usage.cost).toBe(0.000007)
  })

  it('has every choice that was asked for', async () => {
    const { choices } = (await t.chat({ ...hello, n: 3 })).json
    expect(choices.map((choice: any) => choice.index)).toEqual([0, 1, 2])
  })

  it('shows reasoning, unless it is excluded', async () => {
    const { message } = (await t.chat({ ...hello, model: 'mock/thinker' })).json.choices[0]
    expect(message.reasoning).toBe('Let me think.')
    expect(message.reasoning_details[0]).toMatchObject({
      type: 'reasoning.text',
      text: 'Let me think.',
    })
    const excluded = await t.chat({ ...hello, model: 'mock/thinker', reasoning: { exclude: true } })
    expect(excluded.json.choices[0].message).not.toHaveProperty('reasoning')
    expect(excluded.json.choices[0].message).not.toHaveProperty('reasoning_details')
  })
})

describe('a stream', () => {
  it('has its head', async () => {
    const { headers } = await t.chat({ ...hello, stream: true })
    expect(headers).toMatchObject({
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache, no-transform',
      'x-accel-buffering': 'no',
    })
    expect(headers['content-length']).toBeUndefined()
    expect(headers['content-encoding']).toBeUndefined()
  })

  it('ends with usage on the last finish chunk', async () => {
    const before = await t.balance()
    const chunks = chunksOf((await t.chat({ ...hello, model: 'mock/priced', stream: true })).text)
    expect(chunks[0].choices[0].delta).toEqual({ role: 'assistant', content: '', refusal: null })
    expect(chunks.map((chunk) => chunk.choices[0].delta.content ?? '').join('')).toBe('Hello.')
    expect(chunks.every((chunk) => chunk.choices.length === 1)).toBe(true)
    expect(chunks.slice(0, -1).some((chunk) => 'usage' in chunk)).toBe(false)
    expect(chunks.at(-1)).toMatchObject({
      choices: [{ delta: {}, finish_reason: 'stop' }],
      usage: { prompt_tokens: 42, completion_tokens: 17, cost: 0.0000165 },
    })
    expect(before - (await t.balance())).toBe(parsePico('0.0000165'))
  })

  it('has a chunk of its own for usage when that was asked for', async () => {
    const body = {
      ...hello,
      model: 'mock/priced',
      stream: true,
      stream_options: { include_usage: true },
    }
    const chunks = chunksOf((await t.chat(body)).text)
    expect(
      chunks.slice(0, -1).every((chunk) => chunk.usage === null && chunk.choices.length === 1),
    ).toBe(true)
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { cost: 0.0000165 } })
    expect(chunks.at(-2).choices[0].finish_reason).toBe('stop')
  })

  it('says the same as the completion', async () => {
    for (const model of ['mock/echo', 'mock/thinker', 'mock/cached', 'mock/plain']) {
      const whole = (await t.chat({ ...hello, model })).json
      const chunks = chunksOf((await t.chat({ ...hello, model, stream: true })).text)
      const text = chunks.map((chunk) => chunk.choices[0].delta.content ?? '').join('')
      expect(text).toBe(whole.choices[0].message.content)
      // Also where the vendor answers whole.
      const opening = { role: 'assistant', content: '', refusal: null }
      expect(chunks[0].choices[0].delta).toEqual(opening)
      expect(chunks.at(-1).usage).toEqual(whole.usage)
    }
  })

  it('carries tool calls one after the other', async () => {
    const tool = (name: string) => ({
      type: 'function',
      function: {
        name,
        parameters: { type: 'object', properties: { id: { type: 'string' } }, required: ['id'] },
      },
    })
    const body = {
      ...hello,
      model: 'mock/tools',
      stream: true,
      tools: [tool('look_up'), tool('order')],
    }
    const chunks = chunksOf((await t.chat(body)).text)
    const calls = chunks.flatMap((chunk) => chunk.choices[0].delta.tool_calls ?? [])
    expect(calls.filter((call) => call.id).map((call) => [call.index, call.function.name])).toEqual(
      [
        [0, 'look_up'],
        [1, 'order'],
      ],
    )
    expect(calls.map((call) => call.index)).toEqual(calls.map((call) => call.index).toSorted())
    expect(chunks.at(-1).choices[0].finish_reason).toBe('tool_calls')
  })

  it('that fails after its head ends with one error, its cost, and [DONE]', async () => {
    const before = await t.balance()
    const answer = await t.chat({ ...hello, model: 'mock/breaks', stream: true })
    expect(answer.status).toBe(200)
    const events = chunksOf(answer.text)
    const { error } = events.at(-1)
    expect(error).toMatchObject({ type: 'server_error', code: 'upstream_error', param: null })
    expect(error.usage.cost).toBeGreaterThan(0)
    expect(formatPico(before - (await t.balance()))).toBe(String(error.usage.cost))
    expect(events.some((event) => event.choices?.[0]?.finish_reason)).toBe(false)
  })

  it('keeps the connection alive while the model thinks', async () => {
    await using slow = await createTestGateway({
      ...MOCK_CONFIG,
      models: { 'mock/slow': { ...scripted({ reply: 'a b', paceMs: 900 }) } },
      server: { keepAlive: 0.2, headTimeout: 0.2 },
    })
    const { text } = await slow.chat({ ...hello, model: 'mock/slow', stream: true })
    expect(text).toMatch(/^: keep-alive\n\n/)
    expect(chunksOf(text).at(-1).choices[0].finish_reason).toBe('stop')
  })
})

describe('errors', () => {
  const cases: readonly [string, object | string, number, string, string, string | null][] = [
    [
      'no model',
      { messages: hello.messages },
      400,
      'missing_required_parameter',
      'invalid_request_error',
      'model',
    ],
    [
      'no messages',
      { model: 'mock/echo' },
      400,
      'missing_required_parameter',
      'invalid_request_error',
      'messages',
    ],
    [
      'wrong type',
      { ...hello, temperature: 'hot' },
      400,
      'invalid_type',
      'invalid_request_error',
      'temperature',
    ],
    [
      'no such model',
      { ...hello, model: 'mock/ecko' },
      404,
      'model_not_found',
      'invalid_request_error',
      'model',
    ],
    [
      'search without an engine',
      { ...hello, model: 'mock/echo:online' },
      400,
      'unsupported_value',
      'invalid_request_error',
      'model',
    ],
    [
      'web plugin without an engine',
      { ...hello, plugins: [{ id: 'web' }] },
      400,
      'unsupported_value',
      'invalid_request_error',
      'plugins',
    ],
    [
      'a broken policy',
      { ...hello, policy: null },
      400,
      'invalid_policy',
      'invalid_request_error',
      'policy',
    ],
    [
      'the vendor filter',
      { ...hello, model: 'mock/refused' },
      400,
      'content_policy_violation',
      'invalid_request_error',
      'messages',
    ],
    [
      'tools the model lacks',
      { ...hello, model: 'mock/plain', tools: [{ type: 'function', function: { name: 'f' } }] },
      400,
      'unsupported_parameter',
      'invalid_request_error',
      'tools',
    ],
    [
      'choices the model lacks',
      { ...hello, model: 'mock/plain', n: 2 },
      400,
      'unsupported_parameter',
      'invalid_request_error',
      'n',
    ],
    [
      'logprobs the model lacks',
      { ...hello, model: 'mock/plain', logprobs: true },
      400,
      'unsupported_parameter',
      'invalid_request_error',
      'logprobs',
    ],
  ]

  it.each(cases)('%s', async (_name, body, status, code, type, param) => {
    for (const stream of [false, true]) {
      const before = await t.balance()
      const answer = await t.chat(typeof body === 'string' ? body : { ...body, stream })
      expect(is.error(answer.json), ajv.errorsText(is.error.errors)).toBe(true)
      expect([
        answer.status,
        answer.json.error.code,
        answer.json.error.type,
        answer.json.error.param,
      ]).toEqual([status, code, type, param])
      expect(answer.headers['x-service-cost']).toBeUndefined()
      expect(await t.balance()).toBe(before)
    }
  })

  it('suggest a model that exists', async () => {
    const { message } = (await t.chat({ ...hello, model: 'mock/ecko' })).json.error
    expect(message).toContain('Did you mean "mock/echo"?')
  })

  it('survive hostile model ids', async () => {
    for (const model of [
      '__proto__',
      'constructor/x',
      'a'.repeat(100_000),
      '/',
      'a/b:online:online',
      '💥/\u0000',
    ]) {
      const answer = await t.chat({ ...hello, model })
      expect([answer.status, answer.json.error.code]).toEqual([404, 'model_not_found'])
      expect(answer.text.length).toBeLessThan(1000)
    }
  })

  it('never come from prototype members', async () => {
    const body = `{"model":"mock/echo","messages":[{"role":"user","content":"hi","__proto__":{"role":"system"}}],"__proto__":{"stream":true},"constructor":{"prototype":{"polluted":1}}}`
    const answer = await t.chat(body)
    expect(answer.status).toBe(200)
    expect(answer.headers['content-type']).toBe('application/json')
    expect(({} as Record<string, unknown>).polluted).toBeUndefined()
  })

  it.each([{ labels: ['x'] }, { web_search_tool: { path: 5 } }])(
    'never come from a member that only the gateway sets: %o',
    async (member) => {
      const { secret: key } = await t.newKey({ policy: { version: 1, bannedPatterns: ['heron'] } })
      const answer = await t.chat({ ...hello, ...member }, { key })
      expect(answer.status, answer.text).toBe(200)
    },
  )
})

describe('who may', () => {
  it.each([
    [null, /No API key/],
    ['sk-nonsense', /not valid/],
    [`sk-sluice-${'a'.repeat(46)}`, /incomplete or has a typing error/],
  ])('not: %s', async (key, message) => {
    const answer = await t.chat(hello, { key })
    expect([answer.status, answer.json.error.code]).toEqual([401, 'invalid_api_key'])
    expect(answer.json.error.message).toMatch(message)
    expect(answer.headers['www-authenticate']).toBe('Bearer')
    if (key) expect(answer.text).not.toContain(key)
  })

  it('not: another scheme', async () => {
    const answer = await t.chat(hello, {
      key: null,
      headers: { authorization: `Basic ${t.key.secret}` },
    })
    expect(answer.status).toBe(401)
    const lower = await t.chat(hello, {
      key: null,
      headers: { authorization: `bearer   ${t.key.secret} ` },
    })
    expect(lower.status).toBe(200)
  })

  it('not: a key that was disabled, or has expired, a moment ago', async () => {
    const { id, secret } = await t.newKey()
    expect((await t.chat(hello, { key: secret })).status).toBe(200)
    await t.gateway.runtime.accounts.changeKey(id, { disabled: true })
    expect((await t.chat(hello, { key: secret })).json.error.message).toMatch(/disabled/)
    await t.gateway.runtime.accounts.changeKey(id, {
      disabled: false,
      expiresAt: Date.now() - 1000,
    })
    expect((await t.chat(hello, { key: secret })).json.error.message).toMatch(/expired/)
  })

  it('not: another model than those allowed', async () => {
    const { secret } = await t.newKey({ models: ['mock/tools'] })
    const answer = await t.chat(hello, { key: secret })
    expect([answer.status, answer.json.error.code, answer.json.error.param]).toEqual([
      403,
      'model_not_allowed',
      'model',
    ])
    expect(answer.json.error.message).toContain('mock/tools')
    const all = await t.newKey({ models: ['mock/*'] })
    expect((await t.chat(hello, { key: all.secret })).status).toBe(200)
  })

  it('on the free tier: free models only, at no cost', async () => {
    await t.newAccount('free')
    const { secret } = await t.newKey({ account: 'free' })
    const refused = await t.chat(hello, { key: secret })
    expect([refused.status, refused.json.error.code]).toEqual([403, 'model_not_allowed'])
    expect(refused.json.error.message).toContain('mock/free')
    const answer = await t.chat({ ...hello, model: 'mock/free' }, { key: secret })
    expect([answer.status, answer.json.usage.cost, answer.json.usage.cost_details]).toEqual([
      200,
      0,
      { upstream_inference_prompt_cost: 0, upstream_inference_completions_cost: 0 },
    ])
    expect((await t.ask('GET', '/v1/key', { key: secret })).json.data).toMatchObject({
      free_tier: true,
      rpm_limit: 20,
      concurrency_limit: 5,
    })
  })

  it('without money: nothing', async () => {
    await t.newAccount('poor', '0.000001')
    const { secret } = await t.newKey({ account: 'poor' })
    expect((await t.chat(hello, { key: secret })).status).toBe(200)
    for (const model of ['mock/echo', 'mock/free']) {
      const answer = await t.chat({ ...hello, model }, { key: secret })
      expect([answer.status, answer.json.error.code, answer.json.error.type]).toEqual([
        402,
        'insufficient_credits',
        'insufficient_quota',
      ])
      expect(answer.headers['x-should-retry']).toBeUndefined()
    }
    const credits = await t.ask('GET', '/v1/credits', { key: secret })
    expect(credits.status).toBe(200)
    expect(is.credits(credits.json)).toBe(true)
    expect(credits.json.data.balance_usd).toBeLessThan(0)
  })

  it.each(['lifetime', 'day', 'month'] as const)(
    'beyond a cap for a %s: nothing',
    async (scope) => {
      const { secret } = await t.newKey({ spendCap: { usd: '0.000001', scope } })
      expect((await t.chat(hello, { key: secret })).status).toBe(200)
      const answer = await t.chat(hello, { key: secret })
      expect([answer.status, answer.json.error.code, answer.json.error.type]).toEqual([
        403,
        'key_limit_exceeded',
        'insufficient_quota',
      ])
      const { data } = (await t.ask('GET', '/v1/key', { key: secret })).json
      expect(data).toMatchObject({
        spend_cap_usd: 0.000001,
        spend_cap_scope: scope,
        spend_remaining_usd: 0,
      })
    },
  )
})

describe('how often', () => {
  it('200 at once against 50 a minute: exactly 50', async () => {
    const { secret } = await t.newKey({ rpm: 50, concurrency: 1000 })
    const answers = await Promise.all(
      Array.from({ length: 200 }, () => t.chat(hello, { key: secret })),
    )
    const refused = answers.filter((answer) => answer.status === 429)
    expect(answers.filter((answer) => answer.status === 200).length).toBe(50)
    expect(refused.length).toBe(150)
    for (const { headers, json } of refused) {
      expect(json.error).toMatchObject({ code: 'rate_limited', type: 'requests', param: null })
      expect(json.error.message).toMatch(/Try again in \d+s\./)
      expect(json.error.message).not.toMatch(/quota|billing|credit|will reset at/)
      const seconds = Number(headers['retry-after'])
      expect(seconds).toBeGreaterThanOrEqual(1)
      expect(seconds).toBeLessThanOrEqual(60)
      expect(Number(headers['retry-after-ms'])).toBeGreaterThan((seconds - 1) * 1000)
      expect(headers['x-should-retry']).toBeUndefined()
      expect(headers['x-ratelimit-remaining-requests']).toBe('0')
    }
  })

  it('at once: as many as the key may, and the slot is free when the answer has been read', async () => {
    const { promise: told, resolve: goOn } = Promise.withResolvers<void>()
    await using slow = await createTestGateway({ ...MOCK_CONFIG, providers: gated(told) })
    const { secret } = await slow.newKey({ concurrency: 2 })
    const body = { ...hello, stream: true }
    const running = [slow.chat(body, { key: secret }), slow.chat(body, { key: secret })]
    await expect.poll(() => slow.gateway.running.size).toBe(2)
    const refused = await slow.chat(body, { key: secret })
    expect([refused.status, refused.json.error.code]).toEqual([429, 'too_many_concurrent'])
    expect(refused.headers['openai-processing-ms']).toMatch(/^\d+$/)
    expect(refused.headers['retry-after']).toBe('1')
    const ms = Number(refused.headers['retry-after-ms'])
    expect(ms).toBeGreaterThanOrEqual(500)
    expect(ms).toBeLessThanOrEqual(1500)
    goOn()
    await Promise.all(running)
    expect((await slow.chat(body, { key: secret })).status).toBe(200)
  })

  it('a refused call uses no slot', async () => {
    const { secret } = await t.newKey({ rpm: 2 })
    await t.chat(hello, { key: secret })
    await t.chat('not json', { key: secret })
    const refused = await t.chat(hello, { key: secret })
    expect(refused.status).toBe(429)
    expect((await t.ask('GET', '/v1/key', { key: secret })).status).toBe(429)
  })
})

describe('a policy', () => {
  it('puts its system prompt first and its ceiling on the answer', async () => {
    const { secret } = await t.newKey({ policy: { version: 1, maxOutputTokens: 5 } })
    const answer = await t.chat(
      { ...hello, model: 'mock/echo', messages: [{ role: 'user', content: 'w '.repeat(200) }] },
      { key: secret },
    )
    expect(answer.json.choices[0].finish_reason).toBe('length')
    expect(answer.json.usage.completion_tokens).toBeLessThanOrEqual(5)
  })

  it('cuts an upstream that runs past the ceiling', async () => {
    const { secret } = await t.newKey({ policy: { version: 1, maxOutputTokens: 5 } })
    for (const stream of [true, false]) {
      const answer = await t.chat({ ...hello, model: 'mock/babbler', stream }, { key: secret })
      const reason = stream
        ? chunksOf(answer.text).at(-1).choices[0].finish_reason
        : answer.json.choices[0].finish_reason
      expect(reason).toBe('length')
    }
  })

  it('in a request may tighten; what would loosen is named and ignored', async () => {
    const { secret } = await t.newKey({ policy: { version: 1, maxOutputTokens: 5 } })
    const looser = { version: 1, maxOutputTokens: 1000, systemPrompt: 'Obey me.' }
    const answer = await t.chat({ ...hello, policy: looser }, { key: secret })
    expect(answer.status).toBe(200)
    expect(answer.headers['x-service-policy-ignored']).toBe('maxOutputTokens, systemPrompt')
    const tighter = await t.chat(
      { ...hello, policy: { version: 1, maxOutputTokens: 1 } },
      { key: secret },
    )
    expect(tighter.headers['x-service-policy-ignored']).toBeUndefined()
    expect(tighter.json.usage.completion_tokens).toBeLessThanOrEqual(1)
  })
})

describe('the other answers', () => {
  it('GET /v1/models needs no key and takes a bad one', async () => {
    const answer = await t.ask('GET', '/v1/models', { key: 'sk-wrong' })
    expect(answer.status).toBe(200)
    expect(is.models(answer.json), ajv.errorsText(is.models.errors)).toBe(true)
    const ids = answer.json.data.map((model: any) => model.id)
    expect(ids).toEqual(ids.toSorted())
    expect(answer.text).not.toContain('deployments')
  })

  it('GET /v1/key and /v1/credits are valid and agree with the ledger', async () => {
    const { secret } = await t.newKey({
      rpm: 9,
      concurrency: 3,
      spendCap: { usd: '10', scope: 'month' },
      expiresAt: Date.UTC(2099, 0, 31),
    })
    const { usage } = (await t.chat({ ...hello, model: 'mock/priced' }, { key: secret })).json
    const key = await t.ask('GET', '/v1/key', { key: secret })
    expect(is.key(key.json), ajv.errorsText(is.key.errors)).toBe(true)
    expect(key.json.data).toMatchObject({
      account_id: 'acme',
      free_tier: false,
      spend_usd: usage.cost,
      rpm_limit: 9,
      concurrency_limit: 3,
      spend_cap_usd: 10,
      spend_cap_scope: 'month',
      spend_remaining_usd: 9.9999835,
      expires_at: '2099-01-31T00:00:00.000Z',
    })
    const credits = await t.ask('GET', '/v1/credits', { key: secret })
    expect(is.credits(credits.json)).toBe(true)
    expect(credits.text).toContain(`"balance_usd":${formatPico(await t.balance())}`)
  })
})
