import { once } from 'node:events'
import { request, type IncomingMessage } from 'node:http'
import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from 'node:zlib'
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { hasNginx, NO_NGINX, startNginx } from '../../_nginx.ts'
import { freePort } from '../../_ports.ts'
import { createTestGateway, MOCK_CONFIG, send, type TestGateway } from '../../_setup.ts'

const chat = { pricing: { prompt: '0.000001', completion: '0.000002' } }
const deployments = [{ provider: 'mock', model: 'echo' }]
const many = Object.fromEntries(
  Array.from({ length: 40 }, (_, i) => [`acme/model-${i}`, { ...chat, deployments }]),
)

let t: TestGateway

beforeAll(async () => {
  t = await createTestGateway({
    ...MOCK_CONFIG,
    models: {
      ...MOCK_CONFIG.models,
      ...many,
      'acme/swift-1': { ...chat, deployments, name: 'Swift', aliases: ['swift', 'team/default'] },
      'acme/nested/gpt:free': { ...chat, deployments },
      'other/swift-2': { ...chat, deployments },
      'third/swift-2': { ...chat, deployments },
    },
  })
})
afterAll(() => t.close())

/** The bytes as they are sent. */
async function raw(path: string, headers: Record<string, string> = {}, method = 'GET') {
  const asked = request(t.url + path, { method, headers, agent: false }).end()
  const [response] = (await once(asked, 'response')) as [IncomingMessage]
  const chunks: Buffer[] = []
  for await (const chunk of response) chunks.push(chunk as Buffer)
  const { statusCode: status, headers: got } = response
  return { status, headers: got, bytes: Buffer.concat(chunks) }
}

describe('GET /v1/models', () => {
  it('is the same bytes without a key, with a key without lists and with one that is not in force', async () => {
    const disabled = await t.newKey({ models: ['mock/free'], disabled: true })
    const expired = await t.newKey({ models: ['mock/free'], expiresAt: 1 })
    const plain = await raw('/v1/models')
    expect(plain.headers['cache-control']).toBe('public, max-age=60')
    expect(plain.headers['vary']).toBe('authorization, x-api-key, accept-encoding')
    expect(plain.headers['openai-processing-ms']).toBeUndefined()
    for (const secret of [t.key.secret, disabled.secret, expired.secret, 'sk-wrong']) {
      const answer = await raw('/v1/models?limit=1', { authorization: `Bearer ${secret}` })
      expect([answer.status, answer.headers.etag]).toEqual([200, plain.headers.etag])
      expect(answer.headers['cache-control']).toBe('private, max-age=60')
      expect(answer.bytes.equals(plain.bytes)).toBe(true)
    }
  })

  it('is narrowed by the lists of the key and of its account, in either header, and by no tier', async () => {
    await t.newAccount('lists')
    await t.gateway.runtime.accounts.changeAccount('lists', {
      models: ['acme/*'],
      denyModels: ['acme/model-1', 'acme/model-2'],
    })
    const key = await t.newKey({
      models: ['acme/model-1', 'acme/model-3', 'mock/echo'],
      account: 'lists',
    })
    const other = await t.newKey({ denyModels: ['acme/*'] })
    const idsFor = async (headers: Record<string, string>, query = '') => {
      const answer = await raw(`/v1/models${query}`, headers)
      expect(answer.headers['vary']).toBe('authorization, x-api-key, accept-encoding')
      expect(answer.headers['cache-control']).toBe('private, max-age=60')
      return JSON.parse(answer.bytes.toString()).data.map(({ id }: { id: string }) => id)
    }
    expect(await idsFor({ authorization: `Bearer ${key.secret}` })).toEqual(['acme/model-3'])
    expect(await idsFor({ 'x-api-key': key.secret }, '?output_modalities=text')).toEqual([
      'acme/model-3',
    ])
    const all = (await t.ask('GET', '/v1/models')).json.data.map(({ id }: { id: string }) => id)
    expect(await idsFor({ 'x-api-key': other.secret })).toEqual(
      all.filter((id: string) => !id.startsWith('acme/')),
    )
  })

  it('keeps nothing from the calls of keys that the list names, and answers the others with whose list it is', async () => {
    await t.newAccount('denied', '1')
    await t.gateway.runtime.accounts.changeAccount('denied', { denyModels: ['acme/*'] })
    const key = await t.newKey({ denyModels: ['mock/free'], account: 'denied' })
    const call = (model: string) =>
      t.ask('POST', '/v1/chat/completions', {
        key: key.secret,
        body: { model, messages: [{ role: 'user', content: 'hi' }] },
      })
    expect((await call('mock/echo')).status).toBe(200)
    const denied = await call('mock/free')
    expect([denied.status, denied.json.error.code]).toEqual([403, 'model_not_allowed'])
    expect(denied.json.error.message).toMatch(
      /^mock\/free is denied for this key\. Models that this key may use: /,
    )
    const byAccount = await call('acme/model-1')
    expect(byAccount.json.error.message).toMatch(
      /^acme\/model-1 is denied for the account of this key\./,
    )
    expect(byAccount.json.error.message).not.toMatch(/: .*acme\//)
  })

  it('lists each model once, with its aliases', async () => {
    const { json } = await t.ask('GET', '/v1/models')
    const ids = json.data.map(({ id }: { id: string }) => id)
    expect(ids).toEqual([...new Set(ids)].toSorted())
    expect(json.data.find(({ id }: { id: string }) => id === 'acme/swift-1').aliases).toEqual([
      'swift',
      'team/default',
    ])
  })

  it('is sent once to a client that keeps it', async () => {
    const { headers } = await raw('/v1/models')
    const etag = headers.etag!
    for (const tags of [etag, etag.slice(2), '*', `"x", ${etag}`]) {
      const again = await raw('/v1/models', { 'if-none-match': tags })
      expect([again.status, again.bytes.length, again.headers.etag], tags).toEqual([304, 0, etag])
      expect(again.headers['cache-control']).toBe('public, max-age=60')
      expect(again.headers['content-type']).toBeUndefined()
      expect(again.headers['x-service-request-id']).toMatch(/^req_/)
    }
    for (const tags of ['"x"', '', 'W/"x", "y"']) {
      expect((await raw('/v1/models', { 'if-none-match': tags })).status, tags).toBe(200)
    }
  })

  it('has another tag after a change', async () => {
    await using other = await createTestGateway()
    const { headers } = await other.ask('GET', '/v1/models')
    const answer = await raw('/v1/models', { 'if-none-match': headers.etag as string })
    expect(answer.status).toBe(200)
  })

  it('is compressed as the client asks', async () => {
    const plain = await raw('/v1/models')
    expect([plain.headers['content-encoding'], plain.headers.vary]).toEqual([
      undefined,
      'authorization, x-api-key, accept-encoding',
    ])
    const decoders = { br: brotliDecompressSync, zstd: zstdDecompressSync, gzip: gunzipSync }
    const cases: [string, keyof typeof decoders | undefined][] = [
      ['gzip', 'gzip'],
      ['br', 'br'],
      ['zstd', 'zstd'],
      ['gzip, deflate, br, zstd', 'br'],
      ['gzip, deflate', 'gzip'],
      ['GZIP;q=0.5, br;q=0.1', 'gzip'],
      ['*', 'br'],
      ['*;q=0.1, br;q=0', 'zstd'],
      ['br;q=0', undefined],
      ['deflate', undefined],
      ['identity', undefined],
      [';;;,q=,=', undefined],
    ]
    for (const [accepted, coding] of cases) {
      const answer = await raw('/v1/models', { 'accept-encoding': accepted })
      expect(answer.headers['content-encoding'], accepted).toBe(coding)
      expect(answer.headers['content-length']).toBe(String(answer.bytes.length))
      expect(answer.headers.etag).toBe(plain.headers.etag)
      const decoded = coding ? decoders[coding](answer.bytes) : answer.bytes
      expect(decoded.equals(plain.bytes), accepted).toBe(true)
      if (coding) expect(answer.bytes.length).toBeLessThan(plain.bytes.length / 4)
    }
  })

  it('has the same head for HEAD', async () => {
    const get = await raw('/v1/models', { 'accept-encoding': 'gzip' })
    const head = await raw('/v1/models', { 'accept-encoding': 'gzip' }, 'HEAD')
    expect(head.bytes.length).toBe(0)
    for (const name of ['content-length', 'content-encoding', 'etag', 'vary']) {
      expect(head.headers[name], name).toBe(get.headers[name])
    }
  })
})

it("output_modalities=text gives chat models alone, with all that OpenRouter's SDK reads", async () => {
  const { json, status } = await t.ask('GET', '/v1/models?output_modalities=text', { key: null })
  expect(status).toBe(200)
  const all = (await t.ask('GET', '/v1/models', { key: null })).json
  expect(json.total_count).toBe(json.data.length)
  expect(json.total_count).toBeLessThanOrEqual(all.total_count)
  expect(json.links).toEqual({ next: null })
  for (const one of json.data) {
    expect(one).toMatchObject({
      modality: 'chat',
      canonical_slug: one.id,
      name: expect.any(String),
      pricing: { prompt: expect.any(String), completion: expect.any(String) },
      architecture: {
        input_modalities: expect.arrayContaining(['text']),
        output_modalities: ['text'],
      },
      top_provider: { is_moderated: false },
      supported_parameters: expect.any(Array),
      per_request_limits: null,
      default_parameters: null,
      supported_voices: null,
      links: { details: `/v1/models/${one.id}` },
    })
    expect(JSON.stringify(one).length).toBeLessThanOrEqual(2048)
  }
})

it('the SDK of Anthropic reads the list', async () => {
  const client = new Anthropic({ baseURL: t.url, apiKey: t.key.secret })
  const found: string[] = []
  for await (const one of client.models.list()) found.push(one.id)
  expect(found).toContain('acme/swift-1')
})

it('three keys and a caller without one get their own lists through a shared cache', async (context) => {
  if (!hasNginx) context.skip(NO_NGINX)
  const port = await freePort()
  const nginx = await startNginx(
    port!,
    `location / { proxy_pass ${t.url}; proxy_cache shared; proxy_buffering on; add_header X-Cache $upstream_cache_status; }`,
    'proxy_cache_path cache keys_zone=shared:1m;',
  )
  onTestFinished(() => nginx[Symbol.asyncDispose]())
  const keys = [
    await t.newKey({ models: ['mock/*'] }),
    await t.newKey({ models: ['acme/*'] }),
    await t.newKey({ denyModels: ['acme/*'] }),
  ]
  const lists: string[][] = []
  const caches = []
  for (const _round of [1, 2]) {
    const round = []
    for (const secret of [undefined, ...keys.map((key) => key.secret)]) {
      const headers: Record<string, string> =
        secret === undefined ? {} : { authorization: `Bearer ${secret}` }
      const answer = await send(`${nginx.url}/v1/models`, 'GET', undefined, headers)
      caches.push(answer.headers['x-cache'])
      round.push(answer.json.data.map(({ id }: { id: string }) => id).join(' '))
    }
    lists.push(round)
  }
  expect(lists[1]).toEqual(lists[0])
  expect(new Set(lists[0]).size).toBe(4)
  expect(lists[0]![1]).not.toContain('acme/')
  // The list without a key is the only one that the cache may give to others.
  expect(caches.filter((status) => status === 'HIT')).toHaveLength(1)
})

describe('GET /v1/models/{id}', () => {
  it('is the entry of the list, by every name of the model', async () => {
    const { json } = await t.ask('GET', '/v1/models', { key: null })
    const entry = json.data.find(({ id }: { id: string }) => id === 'acme/swift-1')
    expect(entry).toMatchObject({ type: 'model', display_name: 'Swift' })
    for (const name of [
      'acme/swift-1',
      'acme%2Fswift-1',
      'acme%2fswift-1',
      'acme//swift-1/',
      'acme%2Fswift%2D1?x=1',
      'acme/swift-1:online',
      'acme%2Fswift-1%3Aonline',
      'swift',
      'swift-20260101',
      'team/default',
      'team%2Fdefault',
      'swift-1',
    ]) {
      const answer = await t.ask('GET', `/v1/models/${name}`, { key: null })
      expect([answer.status, answer.json], name).toEqual([200, entry])
      expect(answer.headers['cache-control']).toBe('public, max-age=60')
      const again = await raw(`/v1/models/${name}`, {
        'if-none-match': answer.headers.etag as string,
      })
      expect(again.status).toBe(304)
    }
    const nested = await t.ask('GET', '/v1/models/acme%2Fnested%2Fgpt%3Afree', { key: 'sk-wrong' })
    expect(nested.json.id).toBe('acme/nested/gpt:free')
  })

  it('is 404 for a name of no model, with a hint', async () => {
    for (const [name, hint] of [
      ['acme/swift-3', 'Did you mean \\"acme/swift-1\\"?'],
      ['swift-2', 'Ask for one of other/swift-2, third/swift-2.'],
      ['%F0%9F%90%88', 'GET /v1/models lists them.'],
    ]) {
      const { status, json, text } = await t.ask('GET', `/v1/models/${name}`, { key: null })
      expect([status, json.error.code], name).toEqual([404, 'model_not_found'])
      expect(text).toContain(hint)
    }
  })

  it('does not take a path that readers understand in different ways', async () => {
    for (const path of ['acme%2F..%2Fx', 'acme%2Fx%2e', 'a%5Cb', 'a%00', '%2F.']) {
      const { status, json } = await t.ask('GET', `/v1/models/${path}`)
      expect([status, json.error.code], path).toEqual([404, 'unknown_url'])
    }
    const broken = await t.ask('GET', '/v1/models/acme%2Fswift%E9')
    expect([broken.status, broken.json.error.code]).toEqual([400, 'invalid_value'])
    const { status, headers } = await t.ask('DELETE', '/v1/models/acme/swift-1')
    expect([status, headers.allow]).toEqual([405, 'GET, HEAD, OPTIONS'])
  })

  it('works with the official client', async () => {
    const client = new OpenAI({ baseURL: t.baseURL, apiKey: t.key.secret, maxRetries: 0 })
    const { id, owned_by } = await client.models.retrieve('acme/swift-1')
    expect([id, owned_by]).toEqual(['acme/swift-1', 'acme'])
    const { data } = await client.models.list()
    expect(data.map((one) => one.id)).toContain('acme/model-7')
  })
})

describe('GET /v1/models/user', () => {
  const ids = async (key: string) => {
    const { status, headers, json } = await t.ask('GET', '/v1/models/user', { key })
    expect([status, headers['cache-control']]).toEqual([200, 'no-store'])
    return json.data.map(({ id }: { id: string }) => id)
  }

  it('is what the list of the key allows', async () => {
    const { json } = await t.ask('GET', '/v1/models')
    const everything = json.data.map(({ id }: { id: string }) => id)
    expect(await ids(t.key.secret)).toEqual(everything)
    const key = await t.newKey({ models: ['mock/free', 'acme/*', 'gone/x'] })
    expect(await ids(key.secret)).toEqual(
      everything.filter((id: string) => id.startsWith('acme/') || id === 'mock/free'),
    )
    const answer = await t.ask('GET', '/v1/models/user', { key: key.secret })
    const entry = json.data.find(({ id }: { id: string }) => id === 'mock/free')
    expect(answer.json.data).toContainEqual(entry)
    expect(answer.json.last_id).toBe('mock/free')
  })

  it('is what the tier of the account allows, from one request to the next', async () => {
    await t.newAccount('new')
    const key = await t.newKey({ account: 'new' })
    expect(await ids(key.secret)).toEqual(['mock/free'])
    await t.gateway.runtime.ledger.book({
      kind: 'top-up',
      account: 'new',
      amount: 1n,
      reference: 'first',
    })
    expect((await ids(key.secret)).length).toBeGreaterThan(40)
  })

  it('needs a key, and takes a slot of its rate as GET /v1/key', async () => {
    const { status, json } = await t.ask('GET', '/v1/models/user', { key: null })
    expect([status, json.error.code]).toEqual([401, 'invalid_api_key'])
    const key = await t.newKey({ rpm: 1 })
    expect((await t.ask('GET', '/v1/models/user', { key: key.secret })).status).toBe(200)
    expect((await t.ask('GET', '/v1/models/user', { key: key.secret })).status).toBe(429)
  })
})

describe('five thousand models', () => {
  it('are all listed, found and served', async () => {
    const entries = Array.from({ length: 5000 }, (_, i) => [
      `vendor-${i % 40}/model-${i}`,
      { ...chat, deployments, aliases: [`m${i}`] },
    ])
    await using big = await createTestGateway({
      providers: { mock: { use: 'mock' } },
      models: Object.fromEntries(entries),
    })
    const { json } = await big.ask('GET', '/v1/models', { key: null })
    const ids = json.data.map(({ id }: { id: string }) => id)
    expect(ids).toEqual(entries.map(([id]) => id).toSorted())
    const messages = [{ role: 'user', content: 'Hello' }]
    for (const name of ['vendor-39/model-4999', 'm4999', 'model-4999']) {
      const answer = await big.chat({ model: name, messages })
      expect([answer.status, answer.json.model]).toEqual([200, 'vendor-39/model-4999'])
      const one = await big.ask('GET', `/v1/models/${name}`, { key: null })
      expect(one.json).toEqual(json.data.find(({ id }: { id: string }) => id === answer.json.model))
    }
    const missing = await big.chat({ model: 'vendor-39/model-49999', messages })
    expect([missing.status, missing.json.error.code]).toEqual([404, 'model_not_found'])
  })
})
