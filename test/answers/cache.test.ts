/** The cache of exact answers over real storages: what a hit is, what it costs, and what happens where the storage fails. */
import { createServer, type Server } from 'node:http'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createStorage } from 'unstorage'
import { createStorageServer } from 'unstorage/server'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { UserConfig } from '../../src/config/config.ts'
import { folder } from '../_folder.ts'
import { createTestGateway, loaded, type Answer, type TestGateway } from '../_setup.ts'
import { RedisServer } from '../state/redis/_redis.ts'
import {
  events,
  json,
  startUpstream,
  type FakeUpstream,
  type ReceivedRequest,
} from '../upstream.ts'

const WORDS = 'A stored sentence that nobody may read in a folder.'
const usage = { prompt_tokens: 1000, completion_tokens: 500, total_tokens: 1500 }

let asked = 0
let gate: Promise<void> = Promise.resolve()
async function answer({ json: body }: ReceivedRequest) {
  asked++
  await gate
  const call = {
    index: 0,
    id: 'call_1',
    type: 'function',
    function: { name: 'f', arguments: '{"a":1}' },
  }
  if (body.stream) {
    const delta = (one: object, finish_reason: string | null = null) => ({
      choices: [{ index: 0, delta: one, finish_reason }],
    })
    const pieces = WORDS.match(/.{1,9}/g)!.map((content) => delta({ content }))
    const last = body.tools
      ? [delta({ tool_calls: [call] }), delta({}, 'tool_calls')]
      : [delta({}, 'stop')]
    return events(
      delta({ role: 'assistant', content: '' }),
      ...pieces,
      ...last,
      { choices: [], usage },
      '[DONE]',
    )
  }
  const { index: _, ...own } = call
  const message = { role: 'assistant', content: WORDS, ...(body.tools && { tool_calls: [own] }) }
  const finish_reason = body.tools ? 'tool_calls' : 'stop'
  return json({ choices: [{ index: 0, message, finish_reason }], usage })
}

const TOOL = { name: 'f', parameters: { type: 'object', properties: { a: { type: 'integer' } } } }
const FORMS = {
  chat: [
    '/v1/chat/completions',
    (text: string) => ({
      messages: [{ role: 'user', content: text }],
      tools: [{ type: 'function', function: TOOL }],
    }),
  ],
  messages: [
    '/v1/messages',
    (text: string) => ({
      messages: [{ role: 'user', content: text }],
      max_tokens: 600,
      tools: [{ name: 'f', input_schema: TOOL.parameters }],
    }),
  ],
  responses: [
    '/v1/responses',
    (text: string) => ({ input: text, tools: [{ type: 'function', ...TOOL }] }),
  ],
} as const
type Form = keyof typeof FORMS
const forms = Object.keys(FORMS) as Form[]

let upstream: FakeUpstream
beforeAll(async () => {
  upstream = await startUpstream()
  upstream.answer(answer)
})
afterAll(() => upstream.close())

const configOf = (answers: object, cache: unknown = 'on', more: object = {}) =>
  ({
    admin: { token: 'admin-token' },
    answers,
    providers: {
      one: { use: 'openai-compatible', options: { baseURL: `${upstream.url}/v1`, apiKey: 'k' } },
    },
    models: {
      'acme/swift': {
        pricing: { prompt: '0.000001', completion: '0.000002' },
        capabilities: ['STREAMING', 'TOOLS'],
        defaults: { temperature: 0 },
        cache,
        deployments: [{ provider: 'one', model: 'm' }],
      },
    },
    ...more,
  }) as unknown as UserConfig

const ask = (
  t: TestGateway,
  form: Form,
  text: string,
  stream = false,
  headers = {},
  key?: string,
) => {
  const [path, body] = FORMS[form]
  return t.ask('POST', path, {
    body: { model: 'acme/swift', stream, ...body(text) },
    headers,
    ...(key && { key }),
  })
}

/** An answer without what differs between two calls: ids, times, and what they cost. */
function plain({ text }: Answer): string {
  return text
    .replaceAll(/"(id|item_id|request_id|response_id|call_id)":"[^"]*"/g, '"$1":""')
    .replaceAll(/"(created|created_at|completed_at|sequence)":[\d.]+/g, '"$1":0')
    .replaceAll(/"cost":[\d.e-]+,"cost_details":\{[^}]*\}/g, '"cost":0')
    .replaceAll(/"obfuscation":"[^"]*"/g, '')
}

async function httpStorage(): Promise<{ server: Server; url: string }> {
  const { handle } = createStorageServer(createStorage())
  const server = createServer(handle)
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}

describe.each(['lru-cache', 'fs', 'redis', 'http'])('answers kept by %s', (driver) => {
  let t: TestGateway
  let base = ''
  let close: () => unknown = () => {}
  beforeAll(async () => {
    const store: Record<string, unknown> = { driver }
    if (driver === 'fs') {
      store.base = base = await mkdtemp(join(tmpdir(), 'answers-'))
      close = () => rm(base, { recursive: true, force: true })
    }
    if (driver === 'redis') {
      const redis = await RedisServer.start()
      store.url = redis.url
      close = () => redis[Symbol.asyncDispose]()
    }
    if (driver === 'http') {
      const { server, url } = await httpStorage()
      store.base = url
      close = () => server.close()
    }
    t = await createTestGateway(configOf({ store, timeout: 5 }))
  }, 60_000)
  afterAll(async () => {
    await t.close()
    await close()
  })

  it.each(
    forms.flatMap(
      (form) =>
        [
          [form, false, false],
          [form, false, true],
          [form, true, false],
          [form, true, true],
        ] as const,
    ),
  )('%s, streamed %s then %s: costs once, and says the same', async (form, first, second) => {
    const text = `${form} ${first} ${second}`
    const before = asked
    const { counts } = t.gateway.runtime.answers!
    const { stored } = counts
    const one = await ask(t, form, text, first)
    expect([one.status, one.headers['x-service-cache']], one.text).toEqual([200, 'miss'])
    await expect.poll(() => counts.stored).toBe(stored + 1)
    const had = await t.balance()
    const again = await ask(t, form, text, second)
    expect(again.headers['x-service-cache']).toMatch(/^hit; age=\d+; ttl=\d+$/)
    expect(asked - before).toBe(1)
    expect(await t.balance()).toBe(had)
    const whole = await ask(t, form, text, first)
    expect(plain(whole)).toBe(plain(one))
    if (first === second) expect(plain(again)).toBe(plain(one))
    else expect(again.text).toContain('"a')
  })

  it('keeps no text that can be read, and is swept', async () => {
    if (driver !== 'fs') return
    const names = await readdir(base, { recursive: true, withFileTypes: true })
    const files = names.filter((one) => one.isFile())
    expect(files.length).toBeGreaterThan(5)
    for (const { parentPath, name } of files) {
      const bytes = (await readFile(join(parentPath, name))).toString('latin1')
      expect(bytes).not.toContain('stored senten')
    }
    await t.gateway.runtime.answers!.sweep(Date.now() + 7_200_000)
    const left = await readdir(base, { recursive: true, withFileTypes: true })
    expect(left.filter((one) => one.isFile())).toEqual([])
  })
})

describe('over memory', () => {
  it('200 equal calls make one request to the vendor', async () => {
    await using t = await createTestGateway(configOf({ timeout: 5 }, { use: 'on', price: '0.1' }))
    const { secret } = await t.newKey({ concurrency: 500, rpm: 10_000 })
    const before = asked
    const { promise, resolve } = Promise.withResolvers<void>()
    gate = promise
    const all = Array.from({ length: 200 }, (_, i) =>
      ask(t, 'chat', 'burst', i % 2 === 0, {}, secret),
    )
    await expect
      .poll(async () =>
        t.gateway.runtime.ledger.account('acme').then((one) => one.balance - one.available),
      )
      .toBeGreaterThan(0n)
    await expect.poll(() => asked - before).toBe(1)
    resolve()
    gate = Promise.resolve()
    const answers = await Promise.all(all)
    expect(answers.every(({ status }) => status === 200)).toBe(true)
    expect(asked - before).toBe(1)
    // 1 at 0.002 USD, and 199 at a tenth of it.
    expect(await t.balance()).toBe(100_000_000_000_000n - 2_000_000_000n - 199n * 200_000_000n)
    const { available, balance } = await t.gateway.runtime.ledger.account('acme')
    expect(available).toBe(balance)
    const verified = await t.ask('GET', '/admin/ledger/verify?prices=true', { key: 'admin-token' })
    expect(verified.json.data).toMatchObject({ ok: true, prices: { wrong: [] } })
    expect(t.gateway.runtime.answers!.saved).toBe(199n * 1_800_000_000n)
  })

  it('the next one asks where the first one fails', async () => {
    await using t = await createTestGateway(configOf({}))
    let fails = true
    const { promise, resolve } = Promise.withResolvers<void>()
    upstream.answer(async (request) => {
      await promise
      const failing = fails
      fails = false
      return failing ? json({ error: { message: 'no' } }, 400) : answer(request)
    })
    const all = Array.from({ length: 5 }, () => ask(t, 'chat', 'failing first'))
    await expect.poll(() => t.gateway.runtime.answers!.counts.miss).toBe(1)
    resolve()
    const statuses = (await Promise.all(all)).map(({ status }) => status)
    upstream.answer(answer)
    expect(statuses.toSorted()).toEqual([200, 200, 200, 200, 400])
  })

  it('key, model and header decide', async () => {
    await using t = await createTestGateway(configOf({}, 'asked'))
    const header = async (text: string, value?: string, key?: string) => {
      const answered = await ask(
        t,
        'chat',
        text,
        false,
        value ? { 'x-service-cache': value } : {},
        key,
      )
      return answered.headers['x-service-cache'] ?? answered.json.error?.code
    }
    expect(await header('a')).toBeUndefined()
    expect(await header('a', 'on')).toBe('miss')
    await expect.poll(() => header('a', 'on')).toMatch(/^hit/)
    expect(await header('a', 'off')).toBeUndefined()
    expect(await header('a', 'refresh')).toBe('miss')
    expect(await header('a', 'maybe')).toBe('invalid_value')
    const off = await t.newKey({ cache: 'off' })
    expect(await header('a', 'maybe', off.secret)).toBeUndefined()
  })

  it('what differs in a byte is asked; a temperature passes', async () => {
    await using t = await createTestGateway(configOf({}))
    expect((await ask(t, 'chat', 'b')).headers['x-service-cache']).toBe('miss')
    expect((await ask(t, 'chat', 'b ')).headers['x-service-cache']).toBe('miss')
    await t.newAccount('other', '10')
    const other = await t.newKey({ account: 'other' })
    expect((await ask(t, 'chat', 'b', false, {}, other.secret)).headers['x-service-cache']).toBe(
      'miss',
    )
    const strict = await t.newKey({ policy: { system_prompt: 'Be kind.' } as never })
    expect((await ask(t, 'chat', 'b', false, {}, strict.secret)).headers['x-service-cache']).toBe(
      'miss',
    )
    const warm = await t.chat({
      model: 'acme/swift',
      temperature: 1,
      messages: [{ role: 'user', content: 'b' }],
    })
    expect(warm.headers['x-service-cache']).toBe('pass; reason=temperature')
  })

  it('a purge makes all answers of the account unreadable', async () => {
    await using t = await createTestGateway(configOf({}))
    await ask(t, 'chat', 'purged')
    await expect
      .poll(async () => (await ask(t, 'chat', 'purged')).headers['x-service-cache'])
      .toMatch(/^hit/)
    const purged = await t.ask('DELETE', '/admin/accounts/acme/answers', { key: 'admin-token' })
    expect(purged.status, purged.text).toBe(200)
    expect((await ask(t, 'chat', 'purged')).headers['x-service-cache']).toBe('miss')
    const { json: state } = await t.ask('GET', '/admin/answers', { key: 'admin-token' })
    expect(state.data).toMatchObject({ driver: 'lru-cache', state: 'ok', since_start: { miss: 2 } })
  })

  it('after a purge no gateway of two gives an old answer', async () => {
    await using redis = await RedisServer.start()
    const folders = await Promise.all([0, 1].map(() => folder({})))
    const secret = 'a secret of at least thirty-two characters'
    const at = async (outbox: string, withAccount: boolean) => {
      const store = { driver: 'redis', url: redis.url, base: 'answers' }
      const state = { driver: 'redis', url: redis.url, outbox }
      const config = loaded(configOf({ store }, 'on', { state }))
      return createTestGateway({ ...config, sealing: { secret } }, undefined, { withAccount })
    }
    await using one = await at(folders[0]!, true)
    await using other = await at(folders[1]!, false)
    const body = { model: 'acme/swift', messages: [{ role: 'user', content: 'shared' }] }
    const { secret: key } = one.key
    const from = async (t: TestGateway) => (await t.chat(body, { key })).headers['x-service-cache']
    await from(one)
    for (const t of [one, other]) await expect.poll(() => from(t)).toMatch(/^hit/)
    const path = '/admin/accounts/acme/answers'
    expect((await one.ask('DELETE', path, { key: 'admin-token' })).status).toBe(200)
    expect(await from(other)).toBe('miss')
    await expect.poll(() => from(one)).toMatch(/^hit/)
  })

  it('a storage that is gone fails no call', async () => {
    const redis = await RedisServer.start()
    await using t = await createTestGateway(
      configOf({ store: { driver: 'redis', url: redis.url } }),
    )
    await ask(t, 'chat', 'gone')
    await redis[Symbol.asyncDispose]()
    const look = async () => {
      expect((await ask(t, 'chat', 'gone')).status).toBe(200)
      return t.gateway.runtime.answers!.state
    }
    await expect.poll(look).toBe('resting')
  })
})
