/** Another model answers where the asked one cannot: who is asked, what the client reads, and what the ledger books. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { UserConfig } from '../../../src/config/config.ts'
import { createTestGateway, type Answer, type TestGateway } from '../../_setup.ts'
import {
  events,
  json,
  startUpstream,
  type FakeResponse,
  type FakeUpstream,
  type ReceivedRequest,
} from '../../upstream.ts'

const usage = { prompt_tokens: 1000, completion_tokens: 500, total_tokens: 1500 }
const FINE = (request: ReceivedRequest): FakeResponse => {
  const choice = { index: 0, delta: { role: 'assistant', content: 'Fine.' }, finish_reason: 'stop' }
  if (request.json.stream) {
    return events({ choices: [choice] }, { choices: [], usage }, '[DONE]')
  }
  const message = { role: 'assistant', content: 'Fine.' }
  return json({ choices: [{ index: 0, message, finish_reason: 'stop' }], usage })
}
const failing = (status: number, message = 'no', code?: string) =>
  json({ error: { message, code } }, status)

const CLASSES: Readonly<Record<string, readonly [FakeResponse, reason: string | undefined]>> = {
  overloaded: [failing(503), 'down'],
  upstream_rate: [failing(429), 'down'],
  upstream_error: [failing(500), 'down'],
  upstream_auth: [failing(401), 'down'],
  upstream_balance: [failing(402), 'down'],
  not_found: [failing(404), 'down'],
  context_length: [
    failing(400, 'maximum context length is 128000', 'context_length_exceeded'),
    'context',
  ],
  content_blocked: [failing(400, 'filtered', 'content_filter'), 'filter'],
  bad_request: [failing(400, 'bad'), undefined],
  payload_too_large: [failing(413), undefined],
}

const MESSAGES = [{ role: 'user', content: 'Hello there' }]
const DIALECTS = {
  chat: ['/v1/chat/completions', { messages: MESSAGES }],
  messages: ['/v1/messages', { messages: MESSAGES, max_tokens: 600 }],
  responses: ['/v1/responses', { input: 'Hello there', max_output_tokens: 600 }],
} as const

const SWIFT = '0.000001'
const model = (provider: string, more: object = {}) => ({
  pricing: { prompt: SWIFT, completion: SWIFT },
  capabilities: ['STREAMING', 'REASONING'],
  deployments: [{ provider, model: 'm' }],
  ...more,
})

let t: TestGateway
let first: FakeUpstream
let second: FakeUpstream
/** Requests before the test. */
let before: readonly number[] = []

beforeAll(async () => {
  first = await startUpstream()
  second = await startUpstream()
  const provider = (upstream: FakeUpstream) => ({
    use: 'openai-compatible',
    options: { baseURL: `${upstream.url}/v1`, apiKey: 'k' },
  })
  const dear = { prompt: '0.00001', completion: '0.00002' }
  const all = ['down', 'context', 'filter'] as const
  t = await createTestGateway({
    admin: { token: 'admin-token' },
    routing: { attempts: 1 },
    providers: { first: provider(first), second: provider(second) },
    models: {
      'acme/asked': model('first', {
        context_length: 128_000,
        fallbacks: [{ model: 'acme/other', when: all }],
      }),
      'acme/other': model('second', { pricing: dear, context_length: 1_000_000 }),
      // They name each other.
      'acme/ping': model('first', { fallbacks: ['acme/pong'] }),
      'acme/pong': model('first', { fallbacks: ['acme/ping'] }),
      'acme/plain': model('first', { context_length: 8000, fallbacks: ['acme/other'] }),
      'acme/words': model('first', {
        capabilities: ['STREAMING', 'TOOLS'],
        fallbacks: ['acme/image-less', 'acme/tiny', 'acme/other'],
      }),
      'acme/image-less': model('second', { capabilities: [] }),
      'acme/tiny': model('second', { context_length: 10 }),
    },
  } as unknown as UserConfig)
}, 30_000)
beforeEach(async () => {
  before = [first.requests.length, second.requests.length]
  second.answer(FINE)
  await healthy()
})
afterAll(async () => {
  await t.close()
  await first.close()
  await second.close()
})

/** Ends all cooldowns. */
async function healthy(): Promise<void> {
  for (const { id } of t.gateway.runtime.catalog.all().flatMap(({ deployments }) => deployments)) {
    t.gateway.runtime.routing.resume(id)
  }
}

const ask = (dialect: keyof typeof DIALECTS, stream: boolean, more: object = {}, options = {}) => {
  const [path, body] = DIALECTS[dialect]
  return t.ask('POST', path, {
    body: { model: 'acme/asked', ...body, stream, ...more },
    ...options,
  })
}

/** The JSON of all events, whatever their names. */
function eventsOf(text: string): any[] {
  return [...text.matchAll(/^data: (\{.*)$/gm)].map(([, data]) => JSON.parse(data!))
}

function usageIn(answer: Answer): any {
  if (answer.text.startsWith('{')) return answer.json.usage
  const all = eventsOf(answer.text)
  return all
    .map((one) => one.usage ?? one.response?.usage)
    .findLast((one) => one?.cost !== undefined)
}

/** The record of a call, once it is in the log. */
async function recordOf({ headers }: Answer): Promise<any> {
  const path = `/admin/requests/${String(headers['x-request-id'])}`
  const look = () => t.ask('GET', path, { key: 'admin-token' })
  await expect.poll(async () => (await look()).status).toBe(200)
  return (await look()).json.data
}

const asked = () => [first, second].map(({ requests }, at) => requests.length - before[at]!)

describe('a failure that another model answers', () => {
  for (const dialect of Object.keys(DIALECTS) as (keyof typeof DIALECTS)[]) {
    for (const stream of [false, true]) {
      it.each(Object.entries(CLASSES))(
        `${dialect}, stream ${stream}: %s`,
        async (_, [response, reason]) => {
          first.answer(response)
          const had = await t.balance()
          const answer = await ask(dialect, stream)
          if (reason === undefined) {
            expect(answer.status).toBeGreaterThanOrEqual(400)
            expect(asked()[1]).toBe(0)
            expect(answer.headers['x-service-model']).toBeUndefined()
            return
          }
          expect(answer.status, answer.text).toBe(200)
          expect(answer.headers['x-service-model']).toBe(
            `acme/other; asked=acme/asked; reason=${reason}`,
          )
          expect(usageIn(answer)).toMatchObject({ model: 'acme/other', cost: 0.02 })
          expect(had - (await t.balance())).toBe(20_000_000_000n)
          const shown = stream ? eventsOf(answer.text)[0] : answer.json
          const name = shown.model ?? shown.message?.model ?? shown.response?.model
          expect(name).toBe(dialect === 'chat' ? 'acme/other' : 'acme/asked')
          const call = await recordOf(answer)
          expect(call).toMatchObject({
            model: 'acme/other',
            asked_model: 'acme/asked',
            fallback: reason,
          })
          expect(call.attempts.map((one: any) => one.deployment)).toEqual(['first/m', 'second/m'])
        },
      )
    }
  }
})

const DOWN = CLASSES.overloaded![0]

it('models that name each other end with the failure of the asked one', async () => {
  first.answer(failing(503, 'no'))
  const answer = await ask('chat', false, { model: 'acme/ping' })
  expect([answer.status, answer.json.error.code]).toEqual([503, 'provider_overloaded'])
  expect(answer.headers['x-service-model']).toBeUndefined()
  expect(await recordOf(answer)).toMatchObject({
    model: 'acme/ping',
    asked_model: null,
    fallback: null,
  })
})

it('passes over what cannot answer, and says why', async () => {
  first.answer(DOWN)
  const tools = [{ type: 'function', function: { name: 'f', parameters: {} } }]
  second.answer(FINE)
  const answer = await ask('chat', false, { model: 'acme/words' })
  expect(answer.json.model).toBe('acme/image-less')
  const streamed = await ask('chat', true, { model: 'acme/words', tools })
  expect(streamed.status, streamed.text).toBe(503)
  const call = await recordOf(streamed)
  expect(call.attempts.slice(1)).toEqual([
    { model: 'acme/image-less', skipped: 'lacks' },
    { model: 'acme/tiny', skipped: 'lacks' },
    { model: 'acme/other', skipped: 'lacks' },
  ])
})

it('a key that may not use the fallback gets the failure of the asked model', async () => {
  const { secret } = await t.newKey({ models: ['acme/asked'] })
  first.answer(CLASSES.context_length![0])
  const answer = await ask('chat', false, {}, { key: secret })
  expect([answer.status, answer.json.error.code]).toEqual([400, 'context_length_exceeded'])
  expect((await recordOf(answer)).attempts.at(-1)).toEqual({
    model: 'acme/other',
    skipped: 'not_allowed',
  })
})

it('the cap of a key holds for the dearer model', async () => {
  const { secret } = await t.newKey({
    spendCap: { usd: '0.002', scope: 'lifetime' },
    concurrency: 50,
  })
  first.answer(DOWN)
  const other = await t.newKey({ spendCap: { usd: '100', scope: 'lifetime' } })
  expect((await ask('chat', false, {}, { key: other.secret })).status).toBe(200)
  // A running call of the same key holds the rest of its cap.
  const { promise, resolve } = Promise.withResolvers<void>()
  second.answer(async (request) => {
    await promise
    return FINE(request)
  })
  const running = ask('chat', false, { model: 'acme/other', max_tokens: 50 }, { key: secret })
  await expect.poll(() => asked()[1]).toBe(2)
  const refused = await ask('chat', false, { max_tokens: 90 }, { key: secret })
  expect(refused.status, refused.text).toBe(503)
  expect((await recordOf(refused)).attempts.at(-1)).toEqual({
    model: 'acme/other',
    skipped: 'money',
  })
  resolve()
  expect((await running).status).toBe(200)
})

it('goes to the fallback at once while the asked model is in cooldown, and back after it', async () => {
  first.answer(json({ error: { message: 'no' } }, 429, { 'retry-after': '20' }))
  expect((await ask('chat', false)).json.model).toBe('acme/other')
  expect(asked()).toEqual([1, 1])
  expect((await ask('chat', false)).json.model).toBe('acme/other')
  expect(asked()).toEqual([1, 2])
  await healthy()
  first.answer(FINE)
  expect((await ask('chat', false)).json.model).toBe('acme/asked')
})

it('a request may decline', async () => {
  first.answer(DOWN)
  const answer = await ask('chat', false, {}, { headers: { 'x-service-fallback': 'off' } })
  expect([answer.status, asked()]).toEqual([503, [1, 0]])
})

it('a context fallback needs a larger window', async () => {
  first.answer(CLASSES.context_length![0])
  expect((await ask('chat', false, { model: 'acme/plain' })).status).toBe(400)
})

it('300,000 tokens for a model of 128,000 are answered by a larger one, where the key may use it', async () => {
  const tooLong = 'This model has a maximum context length of 128000 tokens, and you sent 300012'
  first.answer(failing(400, tooLong, 'context_length_exceeded'))
  const large = { prompt_tokens: 300_012, completion_tokens: 2, total_tokens: 300_014 }
  const choices = [{ index: 0, message: { role: 'assistant', content: 'Read.' } }]
  second.answer(json({ choices, usage: large }))
  await t.newAccount('reader', '20')
  const messages = [{ role: 'user', content: 'word '.repeat(300_000) }]
  const { secret } = await t.newKey({ account: 'reader' })
  const answer = await ask('chat', false, { messages }, { key: secret })
  expect(answer.status, answer.text).toBe(200)
  expect(answer.headers['x-service-model']).toBe('acme/other; asked=acme/asked; reason=context')
  expect(answer.json.usage).toMatchObject({ prompt_tokens: 300_012, model: 'acme/other' })
  expect(answer.json.usage.cost).toBe(3.00016)
  const narrow = await t.newKey({ account: 'reader', models: ['acme/asked'] })
  const refused = await ask('chat', false, { messages }, { key: narrow.secret })
  expect([refused.status, refused.json.error.code]).toEqual([400, 'context_length_exceeded'])
})

it('books each row by the price of the model that answered', async () => {
  const verified = await t.ask('GET', '/admin/ledger/verify?prices=true', { key: 'admin-token' })
  expect(verified.json.data).toMatchObject({ ok: true, prices: { wrong: [] } })
})

it('shows the fallbacks of a model, and which a key could not use', async () => {
  const { id } = await t.newKey({ models: ['acme/asked'] })
  const show = async (query: string) => {
    const path = `/admin/models/acme%2Fasked${query}`
    return (await t.ask('GET', path, { key: 'admin-token' })).json.data.fallbacks
  }
  const other = { model: 'acme/other', when: ['down', 'context', 'filter'] }
  expect(await show('')).toEqual([{ ...other, skipped: null }])
  expect(await show(`?key=${id}`)).toEqual([{ ...other, skipped: 'not_allowed' }])
})

it('tells the operator', async () => {
  const { metrics } = t.gateway.runtime
  const outcome = metrics.calls.outcomes().get('acme/asked')!
  expect(outcome.fellBack).toBeGreaterThan(30)
  expect(t.logged.join('\n')).toContain('acme/other answers in place of acme/asked: down')
})
