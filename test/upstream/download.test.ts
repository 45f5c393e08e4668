import { once } from 'node:events'
import { createServer, type Server } from 'node:https'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createDownloader, isPublicAddress } from '../../src/upstream/download.ts'
import type { DownloadOptions } from '../../src/plugin.ts'
import { makeCertificate } from '../_certificate.ts'

const NAMES = ['files.example', 'other.example', 'inside.example', 'turncoat.example']
const { signal } = new AbortController()
const SETTINGS = { enabled: true, limit: 1000, timeout: 5 }

describe('addresses', () => {
  it.each([
    '0.0.0.0',
    '10.1.2.3',
    '100.64.0.1',
    '127.0.0.1',
    '127.255.255.254',
    '169.254.169.254',
    '172.16.0.1',
    '172.31.255.255',
    '192.0.0.170',
    '192.168.1.1',
    '198.18.0.1',
    '203.0.113.7',
    '224.0.0.251',
    '240.0.0.1',
    '255.255.255.255',
    '::',
    '::1',
    '::ffff:127.0.0.1',
    '::ffff:8.8.8.8',
    '::ffff:7f00:1',
    '::127.0.0.1',
    '64:ff9b::8.8.8.8',
    '64:ff9b:1::1',
    'fc00::1',
    'fd00:ec2::254',
    'fe80::1',
    'fe80::1%eth0',
    'fec0::1',
    'ff02::1',
    '2001::1',
    '2001:db8::1',
    '2002:7f00:1::',
    '3fff::1',
    '5f00::1',
    'localhost',
    '127.1',
    '',
  ])('%s is not public', (address) => {
    expect(isPublicAddress(address)).toBe(false)
  })

  it.each([
    '1.1.1.1',
    '100.63.255.255',
    '172.32.0.1',
    '192.167.1.1',
    '2606:4700::1111',
    '2001:4860::8888',
  ])('%s is public', (address) => {
    expect(isPublicAddress(address)).toBe(true)
  })
})

describe('what is refused without a connection', () => {
  const asked: string[] = []
  const fetch = createDownloader(SETTINGS, {
    resolve: async (name) => {
      asked.push(name)
      return name === 'mixed.example' ? ['1.1.1.1', '10.0.0.1'] : ['127.0.0.1']
    },
  })

  it.each([
    'http://files.example/a',
    'ftp://files.example/a',
    'file:///etc/passwd',
    'data:text/plain,x',
    'https://user:secret@files.example/',
    'https://127.0.0.1/',
    'https://[::1]/',
    'https://[::ffff:10.0.0.1]/',
    'https://0x7f000001/',
    'https://2130706433/',
    'https://0177.1/',
    'https://files.example/',
    'https://mixed.example/',
    'not a url',
    '',
  ])('%s', async (url) => {
    await expect(fetch(url, signal, { param: 'document' })).rejects.toMatchObject({
      status: 400,
      code: 'fetch_failed',
      param: 'document',
    })
  })

  it('everything, when downloads are disabled', async () => {
    asked.length = 0
    const off = createDownloader(
      { ...SETTINGS, enabled: false },
      { resolve: async () => ['1.1.1.1'] },
    )
    await expect(off('https://files.example/', signal)).rejects.toMatchObject({
      code: 'fetch_failed',
    })
    expect(asked).toEqual([])
  })

  it('a name that is not resolved in time, and a download that is aborted meanwhile', async () => {
    const resolve = () => new Promise<never>(() => {})
    const hanging = createDownloader({ ...SETTINGS, timeout: 0.05 }, { resolve })
    await expect(hanging('https://files.example/', signal)).rejects.toMatchObject({
      code: 'fetch_failed',
    })
    const reason = new Error('gone')
    await expect(hanging('https://files.example/', AbortSignal.abort(reason))).rejects.toBe(reason)
  })
})

const certificate = makeCertificate(NAMES)
if (!certificate) process.stderr.write('SKIPPED fetching over TLS: there is no openssl here\n')

describe.skipIf(!certificate)('over TLS', () => {
  let server: Server
  let port: number
  let answer: (request: IncomingMessage, response: ServerResponse) => void
  let hits: string[]
  let connections = 0

  beforeAll(async () => {
    server = createServer(
      { key: certificate!.key, cert: certificate!.cert },
      (request, response) => {
        hits.push(`${request.headers.host!.split(':')[0]}${request.url}`)
        answer(request, response)
      },
    )
    server.on('connection', () => connections++)
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    port = (server.address() as AddressInfo).port
  })
  afterAll(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  beforeEach(() => {
    hits = []
    answer = (_, response) => response.end('hello')
  })

  /** Names other than `inside` count as public, although all of them resolve to this machine. */
  type DownloadEnvironment = Parameters<typeof createDownloader>[1]
  const surroundings = (): DownloadEnvironment => ({
    ca: certificate!.cert,
    resolve: async (name) => (name === 'inside.example' ? ['127.0.0.2'] : ['127.0.0.1']),
    isPublic: (address) => address === '127.0.0.1',
  })
  const get = (
    path: string,
    options: DownloadOptions = {},
    settings = SETTINGS,
    more: DownloadEnvironment = {},
  ) =>
    createDownloader(settings, { ...surroundings(), ...more })(
      `https://files.example:${port}${path}`,
      signal,
      options,
    )
  const refused = { status: 400, code: 'fetch_failed' }

  it('downloads a file, without headers that identify the operator', async () => {
    let headers: IncomingMessage['headers'] = {}
    answer = (request, response) => {
      headers = request.headers
      response.setHeader('content-type', 'Text/Plain; charset=utf-8').end('hello')
    }
    const { bytes, contentType } = await get('/a?b=c', { types: ['image/', 'text/'] })
    expect(Buffer.from(bytes).toString()).toBe('hello')
    expect(contentType).toBe('text/plain')
    expect(hits).toEqual(['files.example/a?b=c'])
    expect(Object.keys(headers).sort()).toEqual([
      'accept',
      'accept-encoding',
      'connection',
      'host',
      'user-agent',
    ])
  })

  it('follows three redirects', async () => {
    const redirects = (count: number) => (request: IncomingMessage, response: ServerResponse) => {
      const hop = Number(request.url!.slice(1))
      if (hop >= count) return response.end('hello')
      const location = hop === 0 ? `https://other.example:${port}/1` : `/${hop + 1}`
      return response.writeHead(302, { location }).end('elsewhere')
    }
    answer = redirects(3)
    expect(Buffer.from((await get('/0')).bytes).toString()).toBe('hello')
    expect(hits).toEqual([
      'files.example/0',
      'other.example/1',
      'other.example/2',
      'other.example/3',
    ])
    answer = redirects(4)
    await expect(get('/0')).rejects.toMatchObject(refused)
  })

  it.each([
    'https://inside.example:PORT/',
    'http://other.example/',
    'https://127.0.0.2:PORT/',
    'https://[::1]:PORT/',
    'file:///etc/passwd',
    'https://other.example:99999/',
  ])('does not follow a redirect to %s', async (location) => {
    const before = connections
    answer = (_, response) =>
      response.writeHead(301, { location: location.replace('PORT', String(port)) }).end()
    await expect(get('/')).rejects.toMatchObject(refused)
    expect(hits).toHaveLength(1)
    expect(connections).toBe(before + 1)
  })

  it('connects to the address that was checked, even if the name changes', async () => {
    const answers = [['127.0.0.1'], ['127.0.0.2']]
    const resolve = async () => answers.shift()!
    expect(Buffer.from((await get('/', {}, SETTINGS, { resolve })).bytes).toString()).toBe('hello')
    expect(answers).toHaveLength(1)
    await expect(get('/', {}, SETTINGS, { resolve })).rejects.toMatchObject(refused)
    expect(hits).toHaveLength(1)
  })

  it('refuses a certificate for another name', async () => {
    await expect(get('/', {}, SETTINGS, { ca: undefined as never })).rejects.toMatchObject(refused)
    expect(hits).toEqual([])
  })

  it.each([
    ['says that it is too large', { 'content-length': '1001' }, 'x'.repeat(1001)],
    ['turns out too large', {}, 'x'.repeat(1001)],
    ['is of another type', { 'content-type': 'text/html' }, 'x'],
    ['is of no type', {}, 'x'],
    ['is compressed', { 'content-type': 'image/png', 'content-encoding': 'gzip' }, 'x'],
  ])('refuses what %s', async (_how, headers, body) => {
    answer = (_, response) => {
      response.writeHead(200, headers as Record<string, string>)
      response.write(body)
      response.end()
    }
    const types = _how.includes('large') ? {} : { types: ['image/'] }
    await expect(get('/', types)).rejects.toMatchObject(refused)
  })

  it('takes the smaller of two limits', async () => {
    answer = (_, response) => response.end('x'.repeat(1000))
    expect((await get('/', { limitBytes: 5000 })).bytes).toHaveLength(1000)
    await expect(get('/', { limitBytes: 999 })).rejects.toMatchObject(refused)
  })

  it.each([204, 206, 304, 404, 500])('refuses status %i', async (status) => {
    answer = (_, response) => response.writeHead(status).end()
    await expect(get('/')).rejects.toMatchObject(refused)
  })

  it('times out on a body that does not arrive, and closes the connection', async () => {
    const asked: string[] = []
    const closed = new Promise<void>((resolve) => {
      answer = (request, response) => {
        asked.push(request.url!)
        request.socket.once('close', () => resolve())
        response.write('x')
      }
    })
    // The time is that of the connection too, which a busy machine may need all of.
    for (let timeout = 0.1; asked.length === 0; timeout *= 2) {
      await expect(get('/', {}, { ...SETTINGS, timeout })).rejects.toMatchObject(refused)
    }
    await closed
  })

  it('ends with the reason of an abort', async () => {
    const controller = new AbortController()
    const reason = new Error('the client left')
    const closed = new Promise<void>((resolve) => {
      answer = (request, response) => {
        request.socket.once('close', () => resolve())
        response.write('x')
        controller.abort(reason)
      }
    })
    const fetch = createDownloader(SETTINGS, surroundings())
    const url = `https://files.example:${port}/`
    await expect(fetch(url, controller.signal)).rejects.toBe(reason)
    await closed
  })

  it('gives the same error whatever the reason', async () => {
    answer = (_, response) => response.writeHead(404).end()
    const messages = await Promise.all(
      [get('/'), createDownloader(SETTINGS)('https://127.0.0.1/', signal)].map((promise) =>
        promise.catch((error: Error) => error.message),
      ),
    )
    expect(messages[0]).toBe(messages[1])
  })
})
