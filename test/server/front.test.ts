/** Requests as bytes: what clients, proxies and scanners send beside ordinary requests. */
import { connect, type Socket } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestGateway, hello, type TestGateway } from '../_setup.ts'
import { eventually } from '../_wait.ts'
import { json, startUpstream, type FakeUpstream } from '../upstream.ts'

let vendor: FakeUpstream
let t: TestGateway
let port: number

beforeAll(async () => {
  vendor = await startUpstream()
  t = await createTestGateway({
    admin: { token: 'admin-token' },
    providers: {
      mock: { use: 'mock' },
      v: { use: 'openai-compatible', options: { baseURL: `${vendor.url}/v1` } },
    },
    models: {
      'mock/echo': {
        deployments: [{ provider: 'mock', model: 'echo' }],
        pricing: { prompt: '0.000001' },
      },
      'acme/swift': {
        deployments: [{ provider: 'v', model: 'swift' }],
        pricing: { prompt: '0.000001' },
      },
    },
  })
  port = Number(new URL(t.url).port)
})

afterAll(async () => {
  await t.close()
  await vendor.close()
})

class Connection {
  text = ''
  ended = false
  readonly socket: Socket = connect(port, '127.0.0.1')

  constructor() {
    this.socket.on('data', (bytes: Buffer) => void (this.text += bytes.toString('latin1')))
    this.socket.on('error', () => {})
    this.socket.on('close', () => void (this.ended = true))
    this.socket.on('end', () => void (this.ended = true))
  }

  async until(holds: (text: string) => boolean): Promise<string> {
    await eventually(() => {
      expect(holds(this.text) || this.ended).toBe(true)
      expect(holds(this.text)).toBe(true)
    })
    return this.text
  }

  get statuses(): number[] {
    return [...this.text.matchAll(/HTTP\/1\.1 (\d+)/g)].map((match) => Number(match[1]))
  }

  get code(): string | undefined {
    return /"code":"(\w+)"/.exec(this.text)?.[1]
  }
}

/** The answer to bytes after which the client says no more. */
async function answerTo(bytes: string): Promise<Connection> {
  const connection = new Connection()
  connection.socket.write(bytes, 'latin1')
  await connection.until((text) => /\r\n\r\n.*\}(?:\r\n0\r\n\r\n)?$|204 No Content/s.test(text))
  connection.socket.destroy()
  return connection
}

const HOST = 'Host: gateway.test\r\n'
const get = (target: string, headers = HOST) => `GET ${target} HTTP/1.1\r\n${headers}\r\n`

describe('the head of a request', () => {
  it('has one Host field', async () => {
    for (const headers of [
      '',
      `${HOST}Host: other.test\r\n`,
      `${HOST}${HOST}`,
      'Host: a, b\r\n',
      'Host: a b\r\n',
      'Host: a/b\r\n',
      'Host:\r\n',
    ]) {
      const answer = await answerTo(get('/v1/models', headers))
      expect([answer.statuses, answer.code], headers).toEqual([[400], 'invalid_value'])
      expect(answer.text.toLowerCase(), headers).toContain('connection: close')
    }
    const old = await answerTo('GET /livez HTTP/1.0\r\n\r\n')
    expect(old.statuses).toEqual([200])
    expect((await answerTo(get('/v1/models', 'hOST: [::1]:8787\r\n'))).statuses).toEqual([200])
  })

  it('that the parser refuses gets an answer in our form, and a line in the log', async () => {
    const post = `POST /v1/chat/completions HTTP/1.1\r\n${HOST}`
    for (const bytes of [
      `${post}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}`,
      `${post}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}`,
      `${post}X: a\r\n b\r\nContent-Length : 2\r\n\r\n{}`,
      `GET /v1/models HTTP/1.1\nHost: a\n\n`,
      `GET /v1/models HTTP/1.1\r\nHost : a\r\n\r\n`,
      `GET /v1/models HTTP/1.1\r\n${HOST}a b: c\r\n\r\n`,
      'GET /v1/models HTTP/9.9\r\n\r\n',
      'hello\r\n\r\n',
    ]) {
      t.logged.length = 0
      const answer = await answerTo(bytes)
      const wanted =
        bytes === 'hello\r\n\r\n' ? [[405], 'method_not_allowed'] : [[400], 'invalid_value']
      expect([answer.statuses, answer.code], JSON.stringify(bytes)).toEqual(wanted)
      expect(answer.text).toContain('connection: close')
      expect(answer.text).toContain('access-control-allow-origin: *')
      expect(t.logged.filter((line) => line.includes('is not HTTP')).length, bytes).toBe(1)
    }
  })

  it('has at most 16 KiB and 100 fields', async () => {
    for (const field of [`X: ${'x'.repeat(17_000)}\r\n`, 'X: y\r\n'.repeat(100)]) {
      const answer = await answerTo(get('/v1/models', HOST + field))
      expect([answer.statuses, answer.code]).toEqual([[431], 'request_too_large'])
      expect(answer.text.toLowerCase()).toContain('connection: close')
    }
    expect((await answerTo(get('/v1/models', HOST + 'X: y\r\n'.repeat(99)))).statuses).toEqual([
      200,
    ])
  })
})

describe('the target of a request', () => {
  it('may be absolute, and `*` for OPTIONS alone', async () => {
    for (const target of [
      'http://gateway.test/v1/models',
      'HTTPS://other.test:1//v1/models/?x=/../',
    ]) {
      expect((await answerTo(get(target))).statuses, target).toEqual([200])
    }
    expect((await answerTo(`OPTIONS * HTTP/1.1\r\n${HOST}\r\n`)).statuses).toEqual([204])
    expect((await answerTo(get('*'))).code).toBe('unknown_url')
    for (const target of ['http://gateway.test', 'http://gateway.test?a=b']) {
      expect((await answerTo(get(target))).text, target).toContain('"object":"service"')
    }
  })

  it('is compared as received', async () => {
    for (const path of [
      '/v1/./models',
      '/v1/x/../models',
      '/..',
      '/v1/models/.',
      '/v1/%2e%2E/v1/models',
      '/v1%2Fmodels',
      '/v1%2fmodels',
      '/v1\\models',
      '/v1%5Cmodels',
      '/v1/models%00',
      '/v1/%6Dodels',
      '/admin/../v1/models',
      '/admin/%2e%2e/v1/models',
      '/x/../admin/status',
      '/%61dmin/status',
      '/livez/.',
    ]) {
      const answer = await answerTo(get(path))
      expect([answer.statuses, answer.code], path).toEqual([[404], 'unknown_url'])
    }
    expect((await answerTo(get('/v1/models?x=%2e%2e/../\\'))).statuses).toEqual([200])
  })

  it('below /admin needs the token first', async () => {
    for (const path of ['/admin/no/such/path', '/admin/status', '/admin/%61', '/admin/']) {
      const { statuses } = await answerTo(get(path))
      expect(statuses, path).toEqual([401])
    }
  })

  it('takes no CONNECT, no TRACE, no unknown method, and no upgrade', async () => {
    for (const [bytes, code] of [
      [`CONNECT gateway.test:443 HTTP/1.1\r\n${HOST}\r\n`, 'method_not_allowed'],
      [`TRACE /v1/models HTTP/1.1\r\n${HOST}\r\n`, 'method_not_allowed'],
      [`PROPFIND /v1/models HTTP/1.1\r\n${HOST}\r\n`, 'method_not_allowed'],
      [`BREW /v1/models HTTP/1.1\r\n${HOST}\r\n`, 'method_not_allowed'],
      [`PUT /v1/models HTTP/1.1\r\n${HOST}\r\n`, 'method_not_allowed'],
    ] as const) {
      const answer = await answerTo(bytes)
      expect([answer.statuses, answer.code], bytes).toEqual([[405], code])
      expect(answer.text.toLowerCase(), bytes).toContain('\r\nallow: ')
    }
    const upgrade = get('/v1/models', `${HOST}Connection: Upgrade\r\nUpgrade: websocket\r\n`)
    expect((await answerTo(upgrade)).statuses).toEqual([200])
  })
})

describe('Expect: 100-continue', () => {
  const body = JSON.stringify(hello)
  const head = (key: string, more = '') =>
    `POST /v1/chat/completions HTTP/1.1\r\n${HOST}Authorization: Bearer ${key}\r\n` +
    `Content-Length: ${body.length}\r\nExpect: 100-continue\r\n${more}\r\n`

  it('is answered when the body is read', async () => {
    const connection = new Connection()
    connection.socket.write(head(t.key.secret))
    await connection.until((text) => text.startsWith('HTTP/1.1 100 Continue\r\n\r\n'))
    expect(connection.statuses).toEqual([100])
    connection.socket.write(body)
    await connection.until((text) => text.includes('"usage"'))
    expect(connection.statuses).toEqual([100, 200])
    connection.socket.destroy()
  })

  it('is not answered before a refusal', async () => {
    const limited = await t.newKey({ rpm: 1 })
    await t.chat(hello, { key: limited.secret })
    for (const [bytes, status] of [
      [head('sk-no-such-key'), 401],
      [head(limited.secret), 429],
      [head(t.key.secret, 'Content-Type: text/html\r\n'), 415],
      [head(t.key.secret, 'Content-Encoding: lzma\r\n'), 415],
      [head(t.key.secret).replace(/Content-Length: \d+/, 'Content-Length: 99999999'), 413],
    ] as const) {
      const connection = new Connection()
      connection.socket.write(bytes)
      await connection.until((text) => text.endsWith('}}'))
      expect(connection.statuses, bytes).toEqual([status])
      expect(connection.text.toLowerCase()).toContain('connection: close')
      await eventually(() => expect(connection.ended).toBe(true))
    }
  })

  it('is the only expectation that means something', async () => {
    const other = get('/v1/models', `${HOST}Expect: miracles\r\n`)
    expect((await answerTo(other)).statuses).toEqual([200])
  })
})

describe('requests that are sent ahead', () => {
  const body = JSON.stringify({ ...hello, model: 'acme/swift' })
  const post = () =>
    `POST /v1/chat/completions HTTP/1.1\r\n${HOST}Authorization: Bearer ${t.key.secret}\r\n` +
    `Content-Length: ${body.length}\r\n\r\n${body}`
  const completion = {
    choices: [
      { index: 0, message: { role: 'assistant', content: 'Hello.' }, finish_reason: 'stop' },
    ],
    usage: { prompt_tokens: 3, completion_tokens: 2 },
  }

  it('are served one at a time, in their order', async () => {
    const release = Promise.withResolvers<void>()
    vendor.answer(async () => {
      await release.promise
      return json(completion)
    })
    const before = vendor.requests.length
    const connection = new Connection()
    connection.socket.write(post() + get('/v1/nowhere') + post() + get('/livez'))
    await eventually(() => expect(vendor.requests.length).toBe(before + 1))
    expect(t.gateway.running.size).toBe(1)
    release.resolve()
    await connection.until((text) => text.includes('"status":"ok"'))
    expect(connection.statuses).toEqual([200, 404, 200, 200])
    expect(vendor.requests.length).toBe(before + 2)
    connection.socket.destroy()
  })

  it('are all answered, however many', async () => {
    vendor.answer(json(completion))
    const connection = new Connection()
    for (let i = 0; i < 200; i++) connection.socket.write(get(`/v1/nowhere${'x'.repeat(i)}`))
    connection.socket.write(post() + get('/livez'))
    await connection.until((text) => text.includes('"status":"ok"'))
    const wanted = [...Array.from({ length: 200 }, () => 404), 200, 200]
    expect(connection.statuses).toEqual(wanted)
    connection.socket.destroy()
  })

  it('are forgotten when the client leaves', async () => {
    vendor.answer({ pieces: [], ending: 'silent' })
    const before = vendor.requests.length
    const connection = new Connection()
    connection.socket.write(post().repeat(5))
    await eventually(() => expect(vendor.requests.length).toBe(before + 1))
    connection.socket.destroy()
    await eventually(() => expect(t.gateway.running.size).toBe(0))
    expect(vendor.requests.length).toBe(before + 1)
  })
})
