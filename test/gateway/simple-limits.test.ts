/** The simple form of limits, whole answers: what clients and scripts read of it stays as it was before limits were a list. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createTestGateway, hello, MOCK_CONFIG, type Answer, type TestGateway } from '../_setup.ts'

const TOKEN = 'admin-token-of-the-test'

let gateway: TestGateway
beforeAll(async () => {
  gateway = await createTestGateway({
    ...MOCK_CONFIG,
    admin: { token: TOKEN },
    defaults: { limits: { rpm: 50, concurrency: 7 }, freeTier: { rpm: 6, perDay: 1 } },
  })
})
afterAll(() => gateway.close())

const admin = (method: string, path: string, body?: object) =>
  gateway.ask(method, `/admin${path}`, { key: TOKEN, body })

async function newKey(settings: object = {}, account = 'acme') {
  const { json } = await admin('POST', `/accounts/${account}/keys`, { name: 'one', ...settings })
  return { id: json.data.id as string, key: json.key as string }
}

/** An answer without what differs from run to run. */
const plain = (text: string) =>
  text
    .replace(/"\d{4}-\d\d-\d\dT[\d:.]+Z"/g, '"<time>"')
    .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, '<time>')
    .replace(/in \d+s/g, 'in <n>s')
    .replace(/"(id|key_id|start)":"[^"]+"/g, '"$1":"<id>"')

const refusal = ({ status, headers, text }: Answer) => {
  const waits = ['retry-after', 'retry-after-ms', 'x-should-retry'].filter((name) => headers[name])
  return [status, waits.join(), plain(text)]
}

it('refuses with its codes in each dialect', async () => {
  const wait = 'retry-after,retry-after-ms'
  const cases: [settings: object, status: number, waits: string, error: object][] = [
    [
      { rpm_limit: 1 },
      429,
      wait,
      {
        message: 'Rate limit of 1 request per minute of this key reached. Try again in <n>s.',
        type: 'requests',
        code: 'rate_limited',
        param: null,
      },
    ],
    ...(['day', 'month', 'lifetime'] as const).map((scope): (typeof cases)[number] => {
      const [words, since, again] = {
        day: [' a day', ' since <time>', 'It starts anew at <time>.'],
        month: [' a month', ' since <time>', 'It starts anew at <time>.'],
        lifetime: ['', '', 'It does not start anew.'],
      }[scope]
      const message = `The limit of 0.000001 USD${words} of this key is reached: 0.000009 USD counted${since}. ${again}`
      const error = { message, type: 'insufficient_quota', code: 'key_limit_exceeded', param: null }
      return [{ spend_cap: { usd: '0.000001', scope } }, 403, '', error]
    }),
  ]
  for (const [settings, status, waits, error] of cases) {
    const { key } = await newKey(settings)
    expect((await gateway.chat(hello, { key })).status).toBe(200)
    const chat = JSON.stringify({ error })
    expect(refusal(await gateway.chat(hello, { key }))).toEqual([status, waits, chat])
    expect(refusal(await gateway.chat({ ...hello, stream: true }, { key }))).toEqual([
      status,
      waits,
      chat,
    ])
    const asked = { model: 'mock/echo', max_tokens: 9, messages: hello.messages }
    const messages = await gateway.ask('POST', '/v1/messages', { key, body: asked })
    const type = status === 403 ? 'billing_error' : 'rate_limit_error'
    const { message, code, param } = error as Record<string, unknown>
    expect([messages.status, messages.json.error]).toEqual([
      status === 403 ? 402 : 429,
      { type, message: expect.any(String), code, param },
    ])
    expect(plain(messages.json.error.message)).toBe(message)
    const body = { model: 'mock/echo', input: 'Hello there' }
    const responses = await gateway.ask('POST', '/v1/responses', { key, body })
    expect(refusal(responses)).toEqual([
      status,
      waits,
      JSON.stringify({ error: { ...error, param: '' } }),
    ])
  }
})

it('tells what no limit says with the same words, and without X-Service-Limit', async () => {
  const error = (message: string, type: string, code: string, param: string | null = null) =>
    JSON.stringify({ error: { message, type, code, param } })
  const key = 'invalid_api_key'
  const invalid = 'invalid_request_error'
  const cases: [settings: object, status: number, text: string][] = [
    [{ expires_at: '2020-01-01T00:00:00Z' }, 401, error('The API key has expired.', invalid, key)],
    [{ disabled: true }, 401, error('The API key is disabled.', invalid, key)],
    [
      { models: ['mock/tools'] },
      403,
      error(
        'mock/echo is not among the models of this key. Models that this key may use: mock/tools.',
        invalid,
        'model_not_allowed',
        'model',
      ),
    ],
    [
      { deny_models: ['mock/echo'] },
      403,
      error(
        'mock/echo is denied for this key. Models that this key may use: mock/free, mock/tools.',
        invalid,
        'model_not_allowed',
        'model',
      ),
    ],
  ]
  for (const [settings, status, text] of cases) {
    const answer = await gateway.chat(hello, { key: (await newKey(settings)).key })
    expect([...refusal(answer), answer.headers['x-service-limit']]).toEqual([
      status,
      '',
      text,
      undefined,
    ])
  }
  await admin('POST', '/accounts', { id: 'free', name: 'Free' })
  const free = (await newKey({}, 'free')).key
  const ask = () => gateway.chat({ ...hello, model: 'mock/free' }, { key: free })
  expect((await ask()).status).toBe(200)
  const day = await ask()
  expect([day.status, day.json.error.code, day.json.error.type]).toEqual([
    429,
    'rate_limited',
    'requests',
  ])
  await gateway.newAccount('poor', '0.000001')
  const poor = (await newKey({}, 'poor')).key
  expect((await gateway.chat(hello, { key: poor })).status).toBe(200)
  const empty = await gateway.chat(hello, { key: poor })
  expect([...refusal(empty), empty.headers['x-service-limit']]).toEqual([
    402,
    '',
    error(
      'The balance of this account is used up. Add credits to go on.',
      'insufficient_quota',
      'insufficient_credits',
    ),
    'balance',
  ])
})

it('is shown to the holder of a key, and in the lists of operators', async () => {
  const settings = {
    rpm_limit: 10,
    concurrency_limit: 3,
    spend_cap: { usd: '5', scope: 'day' },
  }
  const { id, key } = await newKey(settings)
  await gateway.chat(hello, { key })
  const { data } = (await gateway.ask('GET', '/v1/key', { key })).json
  const { team_id, time_zone, masking, limits, ...before } = data
  expect(plain(JSON.stringify(before))).toBe(
    '{"key_id":"<id>","account_id":"acme","free_tier":false,"spend_usd":0.000009,"rpm_limit":10,"concurrency_limit":3,' +
      '"spend_cap_usd":5,"spend_cap_scope":"day","spend_remaining_usd":4.999991,"expires_at":null,"tag":null,"log_content":false}',
  )
  expect([team_id, time_zone, masking]).toEqual([null, 'UTC', false])
  const members = ['limit', 'value', 'source', 'used', 'left', 'resets_at']
  const own = limits.map((one: Record<string, unknown>) => members.map((name) => one[name]))
  expect(own).toEqual([
    ['key.rpm', 10, 'key', 2, 8, expect.any(String)],
    ['key.concurrency', 3, 'key', 1, 2, null],
    ['key.cap.day', '5', 'key', 0.000009, 4.999991, expect.any(String)],
  ])
  const shown = (await admin('GET', `/keys/${id}`)).json.data
  expect(shown).toMatchObject(settings)
  expect(shown.limit_status).toHaveLength(3)
  const [heads] = (await admin('GET', '/keys?format=csv')).text.split('\r\n')
  // What was added stands behind what programs count in columns.
  expect(heads).toBe(
    'id,account_id,name,start,state,spend.day,spend.month,spend.lifetime,running,last_used_at,rpm_limit,concurrency_limit,' +
      'spend_cap.usd,spend_cap.scope,expires_at,models,tag,note,created_at,team_id',
  )
})

it('is refused with the same words where it is wrong', async () => {
  const { id } = await newKey()
  const cases: [body: object, param: string, message: string][] = [
    [{ rpm_limit: 0 }, 'rpm_limit', 'a whole number of at least 1'],
    [{ rpm_limit: 'x' }, 'rpm_limit', 'a whole number of at least 1'],
    [{ concurrency_limit: 1.5 }, 'concurrency_limit', 'a whole number of at least 1'],
    [{ spend_cap: { usd: '1', scope: 'week' } }, 'spend_cap.scope', 'lifetime, day, month'],
    [{ spend_cap: { usd: '0', scope: 'day' } }, 'spend_cap.usd', 'a decimal string of USD above 0'],
    [{ spend_cap: { usd: '1' } }, 'spend_cap.scope', 'lifetime, day, month'],
    [{ expires_at: 'soon' }, 'expires_at', 'a moment such as'],
  ]
  for (const [body, param, message] of cases) {
    const { status, json } = await admin('PATCH', `/keys/${id}`, body)
    expect([status, json.error.param]).toEqual([400, param])
    expect(json.error.message).toContain(message)
  }
})

it('lets scripts in browsers read what a refusal says', async () => {
  const { key } = await newKey({ rpm_limit: 1 })
  await gateway.chat(hello, { key })
  const { headers } = await gateway.chat(hello, { key })
  const exposed = headers['access-control-expose-headers']!.toLowerCase().split(', ')
  for (const name of ['x-service-limit', 'retry-after', 'x-ratelimit-limit-requests']) {
    expect(headers[name], name).toBeDefined()
    expect(exposed).toContain(name)
  }
  for (const part of ['limit', 'remaining', 'reset']) {
    expect(exposed).toContain(`x-ratelimit-${part}-tokens`)
  }
})
