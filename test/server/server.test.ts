import { createServer, request as httpRequest } from 'node:http'
import { connect } from 'node:net'
import zlib from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { tidyUrl } from '../../src/server/front.ts'
import { listen } from '../../src/server/server.ts'
import { gated } from '../_plugin.ts'
import { MOCK_CONFIG, createTestGateway, eventsOf, hello, type TestGateway } from '../_setup.ts'

let t: TestGateway
beforeAll(async () => {
  t = await createTestGateway()
})
afterAll(() => t.close())

const REQUEST_ID = /^req_[0-9A-HJKMNP-TV-Z]{26}$/

describe('paths', () => {
  it.each([
    ['/v1/models', '/v1/models'],
    ['/v1/models/', '/v1/models'],
    ['//v1///models//', '/v1/models'],
    ['/v1/v1/models', '/v1/models'],
    ['/v1/v1/v1/models?api-version=1', '/v1/models?api-version=1'],
    ['/', '/'],
    ['/v1', '/v1'],
    ['/chat/completions', '/v1/chat/completions'],
    ['/messages/count_tokens?beta=true', '/v1/messages/count_tokens?beta=true'],
    ['/models/acme/swift-1', '/v1/models/acme/swift-1'],
    ['/api/v1/models', '/v1/models'],
    ['/v2/rerank', '/v1/rerank'],
    ['/api/v1/auth/key', '/v1/key'],
    ['/me', '/me'],
    ['/admin/models', '/admin/models'],
  ])('%s is %s', (given, wanted) => {
    expect(tidyUrl(given)).toBe(wanted)
  })

  it('serves mis-set base URLs without a redirect', async () => {
    for (const path of [
      '/v1/v1/chat/completions',
      '/v1//chat/completions/',
      '/v1/chat/completions?x=1',
      '/chat/completions',
      '/api/v1/chat/completions',
    ]) {
      expect((await t.ask('POST', path, { body: hello })).status).toBe(200)
    }
  })

  it.each([
    ['/v1/chat/completions/chat/completions', /Did you mean POST \/v1\/chat\/completions/],
    [
      '/v1/chat/completion',
      /^No route GET \/v1\/chat\/completion\. Did you mean POST \/v1\/chat\/completions\? GET \/openapi\.json lists all routes\.$/,
    ],
    ['/v1/%6Dodels', /^No route GET \/v1\/%6Dodels\./],
    ['/v1%2Fmodels', /^No route GET \/v1%2Fmodels\./],
    ['/v1/files', /sluicegate docs tasks\/not-here/],
    ['/v2/models', /Did you mean GET \/v1\/models\?/],
    ['/V1/models', /Did you mean GET \/v1\/models\?/],
    [
      '/nothing/like/it',
      /^No route GET \/nothing\/like\/it\. GET \/openapi\.json lists all routes\.$/,
    ],
    ['/v1/sk-sluice-abc_def', /^No route GET \/v1\/sk-…\. /],
  ])('answers 404 on %s', async (path, message) => {
    const answer = await t.ask('GET', path, { key: null })
    expect(answer.status).toBe(404)
    expect(answer.json.error).toMatchObject({
      type: 'invalid_request_error',
      code: 'unknown_url',
      param: null,
      message: expect.stringMatching(message),
    })
    expect(answer.headers['x-request-id']).toMatch(REQUEST_ID)
    expect(answer.headers['access-control-allow-origin']).toBe('*')
  })

  it('counts unknown routes, and logs some of them without their query', async () => {
    await using own = await createTestGateway({
      ...MOCK_CONFIG,
      admin: { token: 'a-token-of-operators', metrics: 'public' },
    })
    for (let i = 0; i < 15; i++) await own.ask('GET', `/none/${i}?secret=swordfish`, { key: null })
    const lines = own.logged.filter((line) => line.includes('no route'))
    expect(lines).toHaveLength(10)
    expect(lines[0]).toBe('no route GET /none/0')
    const { text } = await own.ask('GET', '/metrics', { key: null })
    expect(text).toMatch(/^sluicegate_unknown_routes_total 15$/m)
  })

  it('says who it is at the address alone, without a key', async () => {
    const { status, headers, json } = await t.ask('GET', '/', { key: null })
    expect([status, json]).toEqual([
      200,
      { object: 'service', name: 'sluicegate', api: '/v1', openapi: '/openapi.json' },
    ])
    const head = await t.ask('HEAD', '/', { key: null })
    expect([head.status, head.text]).toEqual([200, ''])
    expect(head.headers['content-length']).toBe(headers['content-length'])
  })

  it('answers 405 with the methods that are allowed, before it looks at a key', async () => {
    const answer = await t.ask('GET', '/v1/chat/completions', { key: 'sk-wrong' })
    expect(answer.status).toBe(405)
    expect(answer.headers.allow).toBe('POST, OPTIONS')
    expect(answer.json.error.code).toBe('method_not_allowed')
    expect((await t.ask('POST', '/v1/models', { body: {} })).headers.allow).toBe(
      'GET, HEAD, OPTIONS',
    )
    expect((await t.ask('DELETE', '/v1/key')).status).toBe(405)
  })
})

describe('HEAD and OPTIONS', () => {
  it('answers HEAD as GET, without a body', async () => {
    const head = await t.ask('HEAD', '/v1/models', { key: null })
    const get = await t.ask('GET', '/v1/models', { key: null })
    expect([head.status, head.text]).toEqual([200, ''])
    expect(head.headers['content-length']).toBe(get.headers['content-length'])
    expect((await t.ask('HEAD', '/v1/key')).status).toBe(200)
  })

  it('answers a preflight on any path, without a key, outside the limits', async () => {
    const asked = 'authorization, content-type, x-stainless-arch, x-custom'
    const answer = await t.ask('OPTIONS', '/anything', {
      key: null,
      headers: { 'access-control-request-headers': asked },
    })
    expect(answer.status).toBe(204)
    expect(answer.headers).toMatchObject({
      'access-control-allow-origin': '*',
      'access-control-allow-methods': 'GET, HEAD, POST, OPTIONS',
      'access-control-allow-headers': asked,
      'access-control-max-age': '7200',
    })
    expect(answer.headers['x-service-request-id']).toMatch(REQUEST_ID)
    const bare = await t.ask('OPTIONS', '/v1/models', { key: null })
    expect(bare.headers['access-control-allow-headers']).toBe(
      'authorization, content-type, x-session-id',
    )
  })
})

describe('headers', () => {
  it('carry one request id under both names, and CORS, on success, error and stream', async () => {
    const answers = [
      await t.chat(hello),
      await t.chat({ ...hello, stream: true }),
      await t.chat(hello, { key: 'sk-wrong' }),
      await t.chat('not json'),
      await t.ask('GET', '/health', { key: null }),
    ]
    for (const { headers } of answers) {
      expect(headers['x-service-request-id']).toMatch(REQUEST_ID)
      expect(headers['x-request-id']).toBe(headers['x-service-request-id'])
      expect(headers['access-control-allow-origin']).toBe('*')
      expect(headers['access-control-expose-headers']).toContain('X-Service-Cost')
      expect(headers['access-control-allow-credentials']).toBeUndefined()
    }
    expect(new Set(answers.map(({ headers }) => headers['x-request-id'])).size).toBe(answers.length)
  })

  it('tell authenticated clients about their limits and keep answers out of caches', async () => {
    const { secret } = await t.newKey({ rpm: 7 })
    const answer = await t.ask('GET', '/v1/credits', { key: secret })
    expect(answer.headers).toMatchObject({
      'cache-control': 'no-store',
      'x-ratelimit-limit-requests': '7',
      'x-ratelimit-remaining-requests': '6',
      'x-ratelimit-reset-requests': expect.stringMatching(/^(1m0s|\d+(\.\d+)?s)$/),
      'openai-processing-ms': expect.stringMatching(/^\d+$/),
    })
    const models = await t.ask('GET', '/v1/models', { key: null })
    expect(models.headers['cache-control']).toBe('public, max-age=60')
    expect(models.headers['x-ratelimit-limit-requests']).toBeUndefined()
  })
})

describe('bodies', () => {
  const text = JSON.stringify(hello)

  it.each([
    ['gzip', zlib.gzipSync],
    ['deflate', zlib.deflateSync],
    ['br', zlib.brotliCompressSync],
    ['zstd', zlib.zstdCompressSync],
  ])('may be encoded with %s', async (coding, encode) => {
    const answer = await t.chat(encode(Buffer.from(text)), {
      headers: { 'content-encoding': coding },
    })
    expect(answer.status).toBe(200)
  })

  it.each(['application/json; charset=utf-8', 'Application/JSON', 'application/json;foo=bar'])(
    'may be called %s',
    async (type) => {
      expect((await t.chat(text, { headers: { 'content-type': type } })).status).toBe(200)
    },
  )

  it('may have no type, a BOM, and no length', async () => {
    expect((await t.chat(`\ufeff${text}`)).status).toBe(200)
    const status = await new Promise((resolve, reject) => {
      const headers = { authorization: `Bearer ${t.key.secret}`, 'transfer-encoding': 'chunked' }
      const request = httpRequest(
        `${t.baseURL}/chat/completions`,
        { method: 'POST', headers },
        (response) => {
          response.resume()
          resolve(response.statusCode)
        },
      )
      request.once('error', reject)
      request.write(text.slice(0, 10))
      request.end(text.slice(10))
    })
    expect(status).toBe(200)
  })

  it('may come byte by byte', async () => {
    const content = Array.from({ length: 700 }, (_, i) => `word ${i}`).join(' ')
    const body = JSON.stringify({ ...hello, messages: [{ role: 'user', content }] })
    const answer = await new Promise<string>((resolve, reject) => {
      const headers = { authorization: `Bearer ${t.key.secret}`, 'transfer-encoding': 'chunked' }
      const request = httpRequest(
        `${t.baseURL}/chat/completions`,
        { method: 'POST', headers },
        (response) => {
          let read = ''
          response.on('data', (piece) => (read += piece)).on('end', () => resolve(read))
        },
      )
      request.once('error', reject)
      for (const byte of Buffer.from(body)) request.write(Buffer.of(byte))
      request.end()
    })
    expect(JSON.parse(answer).choices[0].message.content).toBe(content)
  })

  it.each<[string, string | Uint8Array, Record<string, string>, number, string]>([
    ['another type', text, { 'content-type': 'text/plain' }, 415, 'unsupported_content_type'],
    [
      'another coding',
      text,
      { 'content-encoding': 'compress' },
      415,
      'unsupported_content_encoding',
    ],
    [
      'a prototype for a coding',
      text,
      { 'content-encoding': 'constructor' },
      415,
      'unsupported_content_encoding',
    ],
    ['corrupt gzip', 'not gzip at all', { 'content-encoding': 'gzip' }, 400, 'invalid_json'],
    [
      'gzip that is cut',
      zlib.gzipSync(text.repeat(50)).subarray(0, 60),
      { 'content-encoding': 'gzip' },
      400,
      'invalid_json',
    ],
    ['broken JSON', '{"model":', {}, 400, 'invalid_json'],
    ['an empty body', '', {}, 400, 'invalid_json'],
    ['an array', '[]', {}, 400, 'invalid_json'],
    ['a string', '"hello"', {}, 400, 'invalid_json'],
    ['null', 'null', {}, 400, 'invalid_json'],
  ])('are refused: %s', async (_name, body, headers, status, code) => {
    const answer = await t.chat(body, { headers })
    expect([answer.status, answer.json.error.code, answer.json.error.param]).toEqual([
      status,
      code,
      null,
    ])
  })

  it('never have their content quoted in an error', async () => {
    const answer = await t.chat('{"model": "secret-content-of-the-client" oops')
    expect(answer.json.error.message).not.toContain('secret-content')
  })

  it('survive deep nesting', async () => {
    const deep = '['.repeat(100_000) + ']'.repeat(100_000)
    const answer = await t.chat(
      `{"model":"mock/echo","messages":[{"role":"user","content":"hi"}],"x":${deep}}`,
    )
    expect([200, 400]).toContain(answer.status)
    expect((await t.chat(hello)).status).toBe(200)
  })

  it('are refused at the limit with a complete answer, however large they are', async () => {
    const huge = Buffer.alloc(60 * 1024 * 1024, 0x20)
    const answer = await t.chat(huge)
    expect([answer.status, answer.json.error.code]).toEqual([413, 'request_too_large'])
    expect(answer.headers.connection).toBe('close')
  })

  it('are refused at the limit when they only grow while being decoded', async () => {
    const bomb = zlib.gzipSync(Buffer.alloc(60 * 1024 * 1024, 0x20))
    const answer = await t.chat(bomb, { headers: { 'content-encoding': 'gzip' } })
    expect([answer.status, answer.json.error.code]).toEqual([413, 'request_too_large'])
  })

  it('are not waited for when the key is bad', async () => {
    const answer = await t.chat(Buffer.alloc(5 * 1024 * 1024, 0x20), { key: 'sk-wrong' })
    expect([answer.status, answer.json.error.code]).toEqual([401, 'invalid_api_key'])
    expect(answer.headers['www-authenticate']).toBe('Bearer')
  })

  it('that stop coming are refused with 408', async () => {
    await using slow = await createTestGateway({ ...MOCK_CONFIG, server: { bodyTimeout: 0.1 } })
    const { port } = new URL(slow.url)
    const text408 = await new Promise<string>((resolve, reject) => {
      const socket = connect(Number(port), '127.0.0.1', () => {
        socket.write(
          `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${slow.key.secret}\r\n` +
            'content-type: application/json\r\ncontent-length: 100\r\n\r\n{"model"',
        )
      })
      let received = ''
      socket.on('data', (chunk) => {
        received += chunk.toString()
        if (received.includes('request_timeout')) {
          socket.destroy()
          resolve(received)
        }
      })
      socket.once('error', reject)
    })
    expect(text408).toMatch(/^HTTP\/1\.1 408 /)
  })

  it('may be announced with Expect: 100-continue', async () => {
    const status = await new Promise((resolve, reject) => {
      const headers = {
        authorization: `Bearer ${t.key.secret}`,
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(text),
        expect: '100-continue',
      }
      const request = httpRequest(
        `${t.baseURL}/chat/completions`,
        { method: 'POST', headers },
        (response) => {
          response.resume()
          resolve(response.statusCode)
        },
      )
      request.once('error', reject)
      request.once('continue', () => request.end(text))
      request.flushHeaders()
    })
    expect(status).toBe(200)
  })
})

describe('going down', () => {
  it('lets running streams finish, refuses new calls, and then stops', async () => {
    const { promise: told, resolve: goOn } = Promise.withResolvers<void>()
    const own = await createTestGateway({ ...MOCK_CONFIG, providers: gated(told) })
    const running = own.chat({ ...hello, stream: true })
    await expect.poll(() => own.gateway.running.size).toBe(1)
    const closing = own.close(30)
    goOn()
    const { text } = await running
    const said = eventsOf(text).map((chunk) => chunk.choices?.[0]?.delta?.content ?? '')
    expect(said.join('')).toBe('Well.')
    expect(text).toMatch(/\[DONE\]\n\n$/)
    await closing
    await expect(own.chat(hello)).rejects.toThrow(/ECONNREFUSED/)
  })
})

describe('a busy port', () => {
  it('is an error, not another port', async () => {
    const blocker = createServer()
    await new Promise<void>((resolve) => void blocker.listen(0, '127.0.0.1', resolve))
    const { port } = blocker.address() as { port: number }
    await expect(listen(t.gateway, { host: '127.0.0.1', port })).rejects.toThrow()
    blocker.close()
  })
})
