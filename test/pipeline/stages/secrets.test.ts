/** Keys of vendors, quoted by vendors and plugins: they reach no client and no log. */
import { Buffer } from 'node:buffer'
import * as v from 'valibot'
import { expect, it } from 'vitest'
import { defineProvider } from '../../../src/plugin.ts'
import { createTestGateway, hello, type TestGateway } from '../../_setup.ts'
import { json, sse, startUpstream, type FakeResponse } from '../../upstream.ts'

const KEY = 'vendor"key/with+odd=chars'
const FORMS = [
  KEY,
  JSON.stringify(KEY).slice(1, -1),
  encodeURIComponent(KEY),
  Buffer.from(KEY).toString('base64').slice(0, 30),
]

const ask = { ...hello, model: 'bad/one' }

function withKey(provider: object): Promise<TestGateway> {
  return createTestGateway({
    admin: { token: 'admin-token' },
    routing: { cooldown: 0 },
    providers: { bad: provider as never },
    models: {
      'bad/one': {
        pricing: { prompt: '0.000001', completion: '0.000002' },
        capabilities: ['STREAMING'],
        deployments: [{ provider: 'bad', model: 'one' }],
      },
    },
  })
}

/** Everything that clients, operators and collectors of metrics can read. */
async function seen(t: TestGateway): Promise<string> {
  const answers = [await t.chat(ask), await t.chat({ ...ask, stream: true })]
  const admin = await t.ask('GET', '/admin/models', { key: 'admin-token' })
  return [
    ...answers.flatMap(({ text, headers }) => [text, JSON.stringify(headers)]),
    admin.text,
    t.gateway.runtime.metrics.text(),
    ...t.logged,
  ].join('\n')
}

const basic = Buffer.from(`user:${KEY}`).toString('base64')
const nested = JSON.stringify({ error: { request: JSON.stringify({ key: KEY }) } })
const error = { message: `Incorrect key ${KEY}`, type: KEY, code: KEY, param: KEY }
const whole = JSON.stringify({ error })
const cut = whole.indexOf('odd')
const echoes: Readonly<Record<string, FakeResponse>> = {
  'in message, code and param of a refusal': json({ error }, 400),
  'in a refusal of the key': json({ error }, 401),
  'in a failure': json({ error }, 500),
  'in nested JSON': json({ error: { message: nested, code: 'bad', param: null } }, 400),
  'in an address and in base64': json(
    { error: { message: `https://v/?k=${encodeURIComponent(KEY)} Basic ${basic}` } },
    400,
  ),
  'in headers': json({ error: { message: 'no' } }, 429, { 'retry-after': '1', 'x-key': KEY }),
  'over two chunks': {
    status: 400,
    headers: { 'content-type': 'application/json' },
    pieces: [whole.slice(0, cut), whole.slice(cut)],
    pauseMs: 5,
  },
  'in an event': sse(`data: ${whole}\n\n`),
  'as a page': { status: 400, headers: { 'content-type': 'text/html' }, pieces: [`<b>${KEY}</b>`] },
}

it.each(Object.entries(echoes))('a key that the vendor echoes %s', async (_where, answer) => {
  await using upstream = await startUpstream(answer)
  await using t = await withKey({
    use: 'openai-compatible',
    options: { baseURL: `${upstream.url}/v1`, apiKey: KEY },
  })
  const text = await seen(t)
  expect(upstream.requests[0]!.headers.authorization).toBe(`Bearer ${KEY}`)
  expect(FORMS.filter((form) => text.includes(form))).toEqual([])
})

it.each<[string, (fail: Function) => never]>([
  [
    'throws it',
    () => {
      throw new Error(`cannot use ${KEY}`)
    },
  ],
  [
    'tells it to the client',
    (fail) => {
      throw fail('bad_request', `cannot use ${KEY}`, {
        code: KEY,
        param: KEY,
        cause: new Error(KEY),
      })
    },
  ],
])('a plugin that logs its options and %s', async (_what, end) => {
  await using t = await withKey({
    use: defineProvider({
      name: 'talkative',
      options: v.object({ apiKey: v.string() }),
      setup: (options, host) => ({
        async chat({ log }) {
          host.log.info('options', { deep: [options] })
          log.warn(`the key is ${options.apiKey}`)
          host.log.error(new Error(options.apiKey))
          return end(host.fail)
        },
      }),
    }),
    options: { apiKey: KEY },
  })
  const text = await seen(t)
  expect(text).toContain('[secret]')
  expect(FORMS.filter((form) => text.includes(form))).toEqual([])
})
