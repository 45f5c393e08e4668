/** What clients read of a full context and of a policy's refusal: they match the text, and shorten, wait or show it. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestGateway, MOCK_CONFIG, type TestGateway } from '../../../_setup.ts'
import { eventually } from '../../../_wait.ts'
import { json, sse, startUpstream, type FakeUpstream } from '../../../upstream.ts'
import { CLIENTS } from './_detectors.ts'

let vendor: FakeUpstream
let t: TestGateway
beforeAll(async () => {
  vendor = await startUpstream()
  const options = { apiKey: 'k', baseURL: `${vendor.url}/v1` }
  const at = (provider: string, more = {}) => ({
    pricing: { prompt: '0.000003', completion: '0.000015' },
    capabilities: ['STREAMING' as const],
    deployments: [{ provider, model: 'claude-x', options: more }],
  })
  t = await createTestGateway({
    defaults: { limits: { rpm: 100_000 } },
    billing: { patience: 0 },
    providers: {
      server: { use: 'openai-compatible', options },
      openai: { use: 'openai', options },
      claude: { use: 'anthropic', options },
    },
    models: {
      'm/server': at('server'),
      'm/responses': at('openai', { api: 'responses' }),
      'm/claude': at('claude'),
      'm/logs': { ...at('server'), capabilities: ['LOGPROBS' as const] },
      'm/known': { ...at('server'), context_length: 8192 },
    },
  })
})
afterAll(async () => {
  await t.close()
  await vendor.close()
})

const PATHS = {
  chat: '/v1/chat/completions',
  responses: '/v1/responses',
  messages: '/v1/messages',
} as const
type Dialect = keyof typeof PATHS

const ask = (dialect: Dialect, model: string, more: { key?: string; stream?: boolean } = {}) => {
  const { key = t.key.secret, stream = false } = more
  const messages = [{ role: 'user', content: 'Hi there' }]
  const body = dialect === 'responses' ? { input: 'Hi there' } : { messages, max_tokens: 50 }
  return t.ask('POST', PATHS[dialect], { key, body: { model, stream, ...body } })
}

/** The text of an error, whole or the last event. */
function bodyIn(text: string): string {
  const events = text.match(/^data: \{.*$/gm)
  return events?.at(-1)?.slice(6) ?? text
}

function errorIn(text: string): { readonly message: string; readonly code?: string | null } {
  const whole = JSON.parse(bodyIn(text))
  return (whole.response ?? whole).error
}

const messageIn = (text: string): string => errorIn(text).message

/** A vendor's words, and the numbers in them. */
const FORMS: readonly (readonly [said: string, most: number, asked: number])[] = [
  [
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 10018 tokens. Please reduce the length of the messages.",
    8192,
    10_018,
  ],
  [
    "This model's maximum context length is 4096 tokens. However, you requested 6000 tokens (4500 in the messages, 500 in the functions, and 1000 in the completion).",
    4096,
    5000,
  ],
  ['prompt is too long: 210000 tokens > 200000 maximum', 200_000, 210_000],
  ['input length and `max_tokens` exceed context limit: 199000 + 20000 > 200000', 200_000, 200_001],
  [
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    131_072,
    537_812,
  ],
  [
    'Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length',
    32_768,
    40_000,
  ],
  [
    'request (5000 tokens) exceeds the available context size (4096 tokens), try increasing the context size',
    4096,
    5000,
  ],
  ['The decoder prompt (length 5000) is longer than the maximum model length of 4096.', 4096, 5000],
  [
    "This endpoint's maximum context length is 32768 tokens. However, you requested about 40000 tokens (39000 of text input, 1000 in the output).",
    32_768,
    39_000,
  ],
  [
    'The input token count (1,200,000) exceeds the maximum number of tokens allowed (1048576).',
    1_048_576,
    1_200_000,
  ],
]

/** How clients tell a full context. */
const DETECTORS: Record<Dialect, readonly RegExp[]> = {
  chat: [
    /maximum context length is/i,
    /exceeds the context window/i,
    /reduce the length of the messages/i,
  ],
  responses: [/maximum context length is/i, /exceeds the context window/i],
  messages: [/^prompt is too long: \d+ tokens > \d+ maximum$/],
}

describe.each(Object.keys(PATHS) as Dialect[])('%s', (dialect) => {
  it.each(FORMS)('tells of a full context with the numbers of: %s', async (said, most, asked) => {
    const policy = { version: 1 as const, bannedPatterns: ['swordfish'] }
    const guarded = (await t.newKey({ policy })).secret
    const error = { message: said, type: 'invalid_request_error', code: 'context_length_exceeded' }
    for (const [model, body] of [
      ['m/server', { error }],
      ['m/responses', { error }],
      ['m/claude', { type: 'error', error: { type: 'invalid_request_error', message: said } }],
    ] as const) {
      // Anthropic has one form of its own.
      if (model === 'm/claude' && !said.startsWith('prompt is too long')) continue
      vendor.answer(() => json(body, 400))
      for (const key of [t.key.secret, guarded]) {
        for (const stream of [false, true]) {
          const { text } = await ask(dialect, model, { key, stream })
          const { message, code } = errorIn(text)
          for (const pattern of DETECTORS[dialect]) expect(message).toMatch(pattern)
          expect(message).toContain(String(most))
          expect(message).toContain(String(asked))
          expect(message).not.toMatch(/rate limit|too many requests/i)
          expect(code).toBe('context_length_exceeded')
        }
      }
    }
  })

  it('has the number of the catalog where the vendor has none', async () => {
    const error = { message: 'Too long.', code: 'context_length_exceeded' }
    vendor.answer(() => json({ error }, 400))
    const { text } = await ask(dialect, 'm/known')
    expect(JSON.parse(text).error.message).toContain('8192')
    const { text: unknown } = await ask(dialect, 'm/server')
    expect(JSON.parse(unknown).error.message).toMatch(
      /prompt is too long: your input exceeds the context window of this model/i,
    )
  })
})

/** Words by which clients tell one failure from another, as their sources have them. */
const CLASSES = {
  context:
    /context (?:length|window|limit)|prompt is too long|too many tokens|maximum.{0,20}tokens|reduce the length/i,
  rate: /rate.?limit|too many requests|overloaded|try again (?:in|later)|at once|quota exceeded/i,
  money: /quota|billing|credit|payment|limit of [\d.]+ USD .* is reached/i,
  policy: /content (?:filter|polic|management)|safety/i,
  thoughts: /invalid\W+signature\W+in\W+thinking\W+block/i,
}
type FailureClass = keyof typeof CLASSES

interface Refused {
  readonly of: FailureClass
  /** What a user reads. */
  readonly says: RegExp
  /** Brings the gateway to refuse. @returns the key to ask with */
  arrange(): Promise<string> | string
  /** The same within a stream, where a vendor can do so. */
  later?(): string
}
const vendorSays = (status: number, error: object) => ({
  arrange() {
    vendor.answer(() => json({ error }, status))
    return t.key.secret
  },
  later() {
    const first = { choices: [{ index: 0, delta: { content: 'Hi' } }] }
    const events = [first, { error: { code: status, ...error } }]
    vendor.answer(() => sse(events.map((one) => `data: ${JSON.stringify(one)}\n\n`).join('')))
    return t.key.secret
  },
})
const used = async (change: Parameters<typeof t.newKey>[0]) => {
  const { secret } = await t.newKey(change)
  const message = { role: 'assistant', content: 'Fine.' }
  vendor.answer(() =>
    json({
      choices: [{ index: 0, message, finish_reason: 'stop' }],
      usage: { prompt_tokens: 10, completion_tokens: 1 },
    }),
  )
  expect((await ask('chat', 'm/server', { key: secret })).status).toBe(200)
  return secret
}
/** A key with a call that runs until the gateway closes. */
const running = async (change: Parameters<typeof t.newKey>[0]) => {
  const { secret } = await t.newKey(change)
  const before = vendor.requests.length
  vendor.answer({ pieces: [], ending: 'hang' })
  ask('chat', 'm/server', { key: secret }).catch(() => {})
  await eventually(() => expect(vendor.requests.length).toBe(before + 1))
  return secret
}
let accounts = 0
const REFUSED: Record<string, Refused> = {
  'a balance that is used up': {
    of: 'money',
    says: /credits/,
    async arrange() {
      const account = `poor-${accounts++}`
      await t.newAccount(account, '0.000001')
      return used({ account })
    },
  },
  'a balance and a credit limit that are used up': {
    of: 'money',
    says: /balance and the credit limit of this account are used up.*credits/,
    async arrange() {
      const id = `poor-${accounts++}`
      await t.gateway.runtime.accounts.createAccount({ id, name: id, creditLimit: '0.000001' })
      const topUp = { kind: 'top-up', account: id, reference: `test:${id}` } as const
      await t.gateway.runtime.ledger.book({ ...topUp, amount: 1n })
      return used({ account: id })
    },
  },
  'a spend cap': {
    of: 'money',
    says: /limit of 0\.000001 USD a month of this key is reached/,
    arrange: () => used({ spendCap: { usd: '0.000001', scope: 'month' } }),
  },
  'calls at once': {
    of: 'rate',
    says: /at once.*this key.*Try again in \d+s\.$/,
    arrange: () => running({ concurrency: 1 }),
  },
  'money that running calls hold': {
    of: 'rate',
    says: /set aside for calls that are still running\. Try again in \d+s\.$/,
    async arrange() {
      const account = `poor-${accounts++}`
      await t.newAccount(account, '0.00001')
      return running({ account })
    },
  },
  'a signature of other reasoning': {
    of: 'thoughts',
    says: /./,
    ...vendorSays(400, {
      message: 'messages.1.content.0: Invalid `signature` in `thinking` block',
      type: 'invalid_request_error',
    }),
  },
  'such a signature, under a policy': {
    of: 'thoughts',
    says: /^The model provider has found an invalid signature in thinking block\.$/,
    async arrange() {
      vendorSays(400, {
        message: 'Invalid signature in thinking block: swordfish, credit',
      }).arrange()
      const policy = { version: 1 as const, bannedPatterns: ['swordfish'] }
      return (await t.newKey({ policy })).secret
    },
  },
  'requests per minute': {
    of: 'rate',
    says: /^Rate limit of 1 requests? per minute.*Try again in \d+s\.$/,
    arrange: () => used({ rpm: 1 }),
  },
  'a limit of the vendor': {
    of: 'rate',
    says: /model provider limits this gateway.*Try again in \d+s\.$/,
    ...vendorSays(429, {
      message: 'You exceeded your current quota, please check your plan and billing details.',
      type: 'tokens',
      code: 'rate_limit_exceeded',
    }),
  },
  'a vendor without capacity': {
    of: 'rate',
    says: /overloaded/,
    ...vendorSays(503, { message: 'Overloaded. Credit: none.', type: 'server_error' }),
  },
  'a filter of the vendor': {
    of: 'policy',
    says: /^The content filter of the model provider blocked this request\.$/,
    // Within a stream it is the end of an answer, and no error.
    arrange: vendorSays(400, {
      message: 'Rejected by the safety system. Your billing and quota are fine; too long a prompt.',
      code: 'content_filter',
    }).arrange,
  },
  'a full context': {
    of: 'context',
    says: /9001/,
    ...vendorSays(400, {
      message: "This model's maximum context length is 9000 tokens. You sent 9001 tokens.",
      code: 'context_length_exceeded',
    }),
  },
}

describe.each(Object.keys(PATHS) as Dialect[])('a client of %s can tell', (dialect) => {
  it.each(Object.entries(REFUSED))(
    '%s from other failures',
    async (_name, { of, says, arrange, later }) => {
      const whole = { from: arrange, stream: false }
      const streamed = { from: arrange, stream: true }
      for (const { from, stream } of [
        whole,
        streamed,
        ...(later ? [{ from: later, stream: true }] : []),
      ]) {
        const { status, text } = await ask(dialect, 'm/server', { key: await from(), stream })
        const message = messageIn(text)
        expect(message).toMatch(says)
        for (const [name, words] of Object.entries(CLASSES)) {
          if (name === of) expect(message).toMatch(words)
          else expect(message).not.toMatch(words)
        }
        const { code } = errorIn(text)
        const told = { message, body: bodyIn(text), ...(code !== undefined && { code }) }
        const seen = status === 200 ? told : { ...told, status }
        for (const [client, { isFull, isLimited }] of Object.entries(CLIENTS[dialect]!)) {
          expect([client, isFull(seen)]).toEqual([client, of === 'context'])
          if (of !== 'rate') expect([client, isLimited?.(seen) ?? false]).toEqual([client, false])
          else if (status === 429)
            expect([client, isLimited?.(seen) ?? true]).toEqual([client, true])
        }
      }
    },
  )
})

it('names the moment of a long limit to Codex, which waits for hours otherwise', async () => {
  await using free = await createTestGateway({
    ...MOCK_CONFIG,
    defaults: { freeTier: { perDay: 1 } },
  })
  await free.newAccount('visitor')
  const { secret: key } = await free.newKey({ account: 'visitor' })
  const body = { model: 'mock/free', input: 'Hi' }
  expect((await free.ask('POST', '/v1/responses', { key, body })).status).toBe(200)
  const { status, headers, json: told } = await free.ask('POST', '/v1/responses', { key, body })
  expect(status).toBe(429)
  expect(told.error).toMatchObject({ type: 'usage_limit_reached', code: 'rate_limited', param: '' })
  const wait = Number(headers['retry-after'])
  expect(told.error.resets_at - Date.now() / 1000).toBeGreaterThan(wait - 5)
  const messages = [{ role: 'user', content: 'Hi' }]
  const chat = await free.chat({ model: 'mock/free', messages }, { key })
  expect(chat.json.error).toMatchObject({ type: 'requests', code: 'rate_limited', param: null })
})

it('shows the text of a refusal where Claude Code looks for it, before and in place of an answer', async () => {
  const policy = { version: 1 as const, bannedPatterns: ['there'], refusal: 'Not in this house.' }
  const { secret: key } = await t.newKey({ policy })
  const { json: whole } = await ask('messages', 'm/server', { key })
  const details = { type: 'refusal', category: null, explanation: 'Not in this house.' }
  expect(whole).toMatchObject({
    content: [{ type: 'text', text: 'Not in this house.' }],
    stop_reason: 'refusal',
    stop_details: details,
  })
  const { text } = await ask('messages', 'm/server', { key, stream: true })
  const endOf = (stream: string) =>
    JSON.parse(/^data: (\{"type":"message_delta".*)$/m.exec(stream)![1]!)
  expect(endOf(text).delta).toMatchObject({ stop_reason: 'refusal', stop_details: details })
  // The program itself shows nothing of a refusal.
  const body = {
    model: 'm/server',
    messages: [{ role: 'user', content: 'Hi there' }],
    max_tokens: 9,
  }
  const headers = { 'x-claude-code-session-id': 's' }
  for (const stream of [false, true]) {
    const shown = await t.ask('POST', PATHS.messages, { key, headers, body: { ...body, stream } })
    const { stop_reason, stop_details } = stream ? endOf(shown.text).delta : shown.json
    expect([stop_reason, stop_details]).toEqual(['end_turn', null])
    expect(shown.text).toContain('Not in this house.')
  }
})

it('has no path of a vendor where a policy is confidential: paths can quote', async () => {
  const policy = { version: 1 as const, systemPrompt: 'Be kind.', bannedPatterns: ['swordfish'] }
  const { secret: key } = await t.newKey({ policy })
  const error = { message: 'Bad.', type: 'invalid_request_error', param: 'the swordfish is kind' }
  vendor.answer(() => json({ error }, 400))
  for (const dialect of Object.keys(PATHS) as Dialect[]) {
    const { text } = await ask(dialect, 'm/server', { key })
    expect(text).not.toContain('swordfish')
    expect(JSON.parse(text).error.param).toBe(dialect === 'responses' ? '' : null)
  }
})

describe.each(Object.keys(PATHS) as Dialect[])(
  '%s has the vendor’s words in any script',
  (dialect) => {
    const WORDS = '模型不可用：额度配置错误。Ungültige Größe für „Straße“. 🙈'

    it.each(['m/server', 'm/responses', 'm/claude'])('of %s', async (model) => {
      const error = { message: WORDS, type: 'invalid_request_error' }
      const body = model === 'm/claude' ? { type: 'error', error } : { error }
      // Pieces that end within a sign.
      const pieces = [...Buffer.from(JSON.stringify(body))].map((byte) => Uint8Array.of(byte))
      const headers = { 'content-type': 'application/json' }
      vendor.answer(() => ({ status: 400, headers, pieces }))
      for (const stream of [false, true]) {
        const { text } = await ask(dialect, model, { stream })
        expect(messageIn(text)).toBe(WORDS)
      }
      expect(t.logged.some((line) => line.includes(WORDS))).toBe(true)
    })

    it('after the stream has begun', async () => {
      const first = { choices: [{ index: 0, delta: { content: 'Hi' } }] }
      const text = [first, { error: { message: WORDS, code: 400 } }]
        .map((one) => `data: ${JSON.stringify(one)}\n\n`)
        .join('')
      const pieces = [...Buffer.from(text)].map((byte) => Uint8Array.of(byte))
      vendor.answer(() => ({ ...sse(''), pieces }))
      const { text: answer } = await ask(dialect, 'm/server', { stream: true })
      expect(messageIn(answer)).toBe(WORDS)
    })
  },
)

it('names members of any script in percent encoding', async () => {
  vendor.answer(() => json({ error: { message: 'no' } }, 400))
  const body = { model: 'm/server', input: 'Hi', größe: 1, '100%,': 1, '模型 a': 1, '\ud800': 1 }
  const { headers } = await t.ask('POST', PATHS.responses, { body })
  const names = headers['x-service-ignored']!.toString().split(', ')
  expect(names.map((name) => decodeURIComponent(name))).toEqual([
    'größe',
    '100%,',
    '模型 a',
    '\ufffd',
  ])
  const long = { ...body, ['ü'.repeat(200)]: 1, last: 1 }
  const more = await t.ask('POST', PATHS.responses, { body: long })
  expect(more.headers['x-service-ignored']).toBe(`${names.join(', ')}, last`)
})

it('shows log probabilities of any form, or none', async () => {
  const content = [{ token: 'Hi', logprob: -1, top_logprobs: null }, { token: 7 }, null]
  const message = { role: 'assistant', content: 'Hi' }
  vendor.answer(() =>
    json({
      choices: [{ index: 0, message, finish_reason: 'stop', logprobs: { content } }],
      usage: { prompt_tokens: 1, completion_tokens: 1 },
    }),
  )
  const body = { model: 'm/logs', input: 'Hi', include: ['message.output_text.logprobs'] }
  const { status, json: answer } = await t.ask('POST', '/v1/responses', { body })
  expect(status).toBe(200)
  expect(answer.output[0].content[0].logprobs).toEqual([
    { token: 'Hi', logprob: -1, bytes: [], top_logprobs: [] },
  ])
})
