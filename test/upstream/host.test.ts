import { createConsola } from 'consola'
import { getEventListeners } from 'node:events'
import { createServer, type Server } from 'node:http'
import { gzipSync } from 'node:zlib'
import { Pool } from 'undici'
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import type { AddressInfo } from 'node:net'
import { UpstreamFailure } from '../../src/errors/errors.ts'
import { readEvents } from '../../src/stream/flow.ts'
import { createHost, type ClosableHost } from '../../src/upstream/host.ts'

const LIMITS = {
  timeoutMs: 60_000,
  firstPartTimeoutMs: 60_000,
  idleTimeoutMs: 60_000,
  connections: 16,
}
/** The torture run sets more. */
const ABORTED = Number(process.env.ABORTED_EXCHANGES ?? 200)
const log = createConsola({ level: -999 })

let owned: ClosableHost
let server: Server
let url: string
let connections: number
let answer: Parameters<typeof createServer>[1] & object

beforeEach(async () => {
  connections = 0
  server = createServer((request, response) => void answer(request as never, response as never))
  server.on('connection', () => connections++)
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  owned = createHost('test', LIMITS, log)
})
afterEach(async () => {
  server.closeAllConnections()
  await Promise.all([owned.close(), new Promise((resolve) => server.close(resolve))])
})

const get = (signal = new AbortController().signal) =>
  owned.host.request({ url, method: 'GET', signal })
const events = async (body: AsyncIterable<Uint8Array>) => {
  const all: unknown[] = []
  for await (const event of readEvents(body)) all.push(event)
  return all
}
async function* bytes(...pieces: readonly (string | Uint8Array)[]): AsyncGenerator<Uint8Array> {
  for (const piece of pieces) yield Buffer.from(piece)
}

describe('request', () => {
  it('gives status, headers and text', async () => {
    answer = (_request, response) =>
      response.writeHead(418, { 'x-a': ['1', '2'] }).end('short and stout')
    const response = await get()
    expect(response.status).toBe(418)
    expect(response.headers['x-a']).toBe('1, 2')
    expect(await response.text()).toBe('short and stout')
  })

  it('goes to its own address, whatever the last one was', async () => {
    answer = (incoming, response) => response.end(incoming.url)
    const { signal } = new AbortController()
    const answers: string[] = []
    for (const path of ['/a', '/a', '/b?c=1', '', '?d=/2', '/a']) {
      const response = await owned.host.request({ url: url + path, method: 'GET', signal })
      answers.push(await response.text())
    }
    expect(answers).toEqual(['/a', '/a', '/b?c=1', '/', '/?d=/2', '/a'])
  })

  it('rejects an invalid address', async () => {
    const { signal } = new AbortController()
    const request = owned.host.request({ url: 'nowhere', method: 'GET', signal })
    await expect(request).rejects.toThrow(/invalid url/i)
  })

  it('refuses a text that is too large', async () => {
    answer = (_request, response) => response.end('x'.repeat(1000))
    await expect((await get()).text(100)).rejects.toThrow(/too large/)
  })

  it('refuses JSON with more values than a parser can take at once, before all of it came', async () => {
    const inner = {
      depth: '['.repeat(300),
      values: '1,'.repeat(2_100_000),
      lists: '[],'.repeat(5e5),
    }
    for (const [name, text] of Object.entries(inner)) {
      for (const type of ['application/json; charset=utf-8', 'text/plain']) {
        answer = (_request, response) => {
          response.setHeader('content-type', type)
          // It never ends.
          response.write(`{"x":[${text}`)
        }
        const reading = (await get()).text()
        await expect(reading, `${name}, ${type}`).rejects.toMatchObject({ code: 'upstream_error' })
      }
    }
    const numbers = JSON.stringify({ data: Array.from({ length: 1_000_000 }, (_, i) => i) })
    for (const [type, text] of [
      ['application/json', numbers],
      ['text/plain', `[words] ${'x'.repeat(5000)}`],
    ] as const) {
      answer = (_request, response) => {
        response.setHeader('content-type', type)
        response.end(text)
      }
      expect(await (await get()).text()).toBe(text)
    }
  })

  it('stops reading while the body is not pulled, and loses nothing', async () => {
    const size = 8 * 1024 * 1024
    let written = 0
    answer = (_request, response) => {
      const more = () => {
        while (written < size) {
          written += 65_536
          if (!response.write(Buffer.alloc(65_536, 1))) return void response.once('drain', more)
        }
        response.end()
      }
      more()
    }
    const { body } = await get()
    const iterator = body[Symbol.asyncIterator]()
    await iterator.next()
    // Nothing is read until the next pull, so the vendor can write only what the sockets buffer.
    await expect.poll(() => written > 65_536 && written).toBeTruthy()
    expect(written).toBeLessThan(size)
    let read = 65_536
    for (let chunk = await iterator.next(); !chunk.done; chunk = await iterator.next())
      read += chunk.value.length
    expect(read).toBeGreaterThanOrEqual(size)
  })

  it.each([100, 1024, 30_000, 65_536, 71_680])(
    'gives every byte of a burst in chunks of %i bytes, however slow the reader is',
    async (size) => {
      const sent = Buffer.alloc(400_000)
      for (let i = 0; i < sent.length; i++) sent[i] = i % 251
      answer = (_request, response) => {
        response.socket!.cork()
        for (let at = 0; at < sent.length; at += size) response.write(sent.subarray(at, at + size))
        response.end()
        response.socket!.uncork()
      }
      const { body } = await get()
      const chunks: Uint8Array[] = []
      for (let last = false; !last;) {
        const batch = await body.next()
        chunks.push(...batch.parts)
        last = batch.last
        await new Promise((resolve) => setTimeout(resolve, 2))
      }
      expect(Buffer.concat(chunks).equals(sent)).toBe(true)
    },
  )

  it('ends when its signal is aborted, before the head and after', async () => {
    const closed = Promise.withResolvers<void>()
    answer = (request) => void request.once('close', closed.resolve)
    const early = new AbortController()
    const pending = get(early.signal)
    early.abort(new Error('enough'))
    await expect(pending).rejects.toThrow('enough')

    const gone = Promise.withResolvers<void>()
    answer = (_request, response) => {
      response.write('first')
      response.once('close', gone.resolve)
    }
    const late = new AbortController()
    const { body } = await get(late.signal)
    const reading = (async () => {
      for await (const _ of body) late.abort(new Error('enough'))
    })()
    await expect(reading).rejects.toThrow('enough')
    await gone.promise
  })

  it('closes the connection when the loop is left', async () => {
    const gone = Promise.withResolvers<void>()
    answer = (_request, response) => {
      response.write('first')
      response.once('close', gone.resolve)
    }
    for await (const _ of (await get()).body) break
    await gone.promise
  })

  it('rejects with failure classes', async () => {
    answer = (request) => request.socket.resetAndDestroy()
    await expect(get()).rejects.toSatisfy(
      (e) => UpstreamFailure.is(e) && e.failure === 'upstream_error',
    )
    answer = () => {}
    const impatient = createHost('test', { ...LIMITS, timeoutMs: 100 }, log)
    const late = impatient.host.request({ url, signal: new AbortController().signal })
    await expect(late).rejects.toSatisfy((e) => UpstreamFailure.is(e) && e.failure === 'timeout')
    await impatient.close()
    const signal = new AbortController().signal
    await expect(owned.host.request({ url: 'http://127.0.0.1:1/x', signal })).rejects.toThrow(
      /could not be reached/,
    )
  })
})

it('requests of a plugin by http end with a packed answer that becomes too large', async () => {
  const packed = gzipSync(Buffer.alloc(100_000, '"'))
  answer = (_request, response) =>
    response.writeHead(200, { 'content-encoding': 'gzip' }).end(packed)
  await using small = {
    ...createHost('small', { ...LIMITS, bounds: { answer: 99_999, stream: 1 } }, log),
    async [Symbol.asyncDispose]() {
      await this.close()
    },
  }
  await expect(small.host.http(url, { responseType: 'text' })).rejects.toThrow('too large')
  expect(await owned.host.http(url, { responseType: 'text' })).toHaveLength(100_000)
})

it(`of ${ABORTED} exchanges that end early no socket and no listener is left`, async () => {
  const body = 'x'.repeat(300_000)
  answer = (request, response) => {
    if (request.url === '/silent') return
    response.write(body)
    if (request.url !== '/hangs') response.end()
  }
  const left = new AbortController()
  const early = async (i: number) => {
    const client = new AbortController()
    const path = ['/silent', '/hangs', '/ends'][i % 3]!
    const ask = (signal: AbortSignal) =>
      owned.host.request({ url: url + path, method: 'GET', signal, stream: true })
    // Before the head, after it, in the middle of the body while the socket is paused; by the signal or by the reader.
    const way = Math.floor(i / 3) % 4
    if (path === '/silent' || way === 0) {
      const asked = ask(client.signal)
      if (i % 2 === 0) await new Promise((resolve) => setImmediate(resolve))
      client.abort(new Error('enough'))
      return asked.then((response) => response.body.close()).catch(() => {})
    }
    const { body } = await ask(way === 3 ? client.signal : left.signal)
    if (way > 1) await body.next()
    if (way === 3) client.abort(new Error('enough'))
    await body.close()
  }
  let next = 0
  const worker = async () => {
    while (next < ABORTED) await early(next++)
  }
  await Promise.all(Array.from({ length: 16 }, worker))
  expect(getEventListeners(left.signal, 'abort')).toEqual([])
  const sockets = () => new Promise((resolve) => server.getConnections((_e, n) => resolve(n)))
  await vi.waitFor(async () => expect(await sockets()).toBe(0), 60_000)
}, 600_000)

describe('events', () => {
  it('are found at any cut, with any line ending', async () => {
    const text =
      ': hi\r\n\r\ndata: {"a":"é"}\r\n\r\ndata:{"b":\ndata: 2}\n\nevent: x\rdata: {"c":3}\r\rdata: {"d":"😀"}'
    const whole = [{ a: 'é' }, { b: 2 }, { c: 3 }, { d: '😀' }]
    const raw = Buffer.from(text)
    expect(await events(bytes(raw))).toEqual(whole)
    for (let cut = 1; cut < raw.length; cut++) {
      expect(await events(bytes(raw.subarray(0, cut), raw.subarray(cut)))).toEqual(whole)
    }
  })

  it('end at [DONE]', async () => {
    expect(await events(bytes('data: {"a":1}\n\ndata: [DONE]\n\ndata: {"b":2}\n\n'))).toEqual([
      { a: 1 },
      { choices: [], endOfStream: true },
    ])
  })

  it('that are not JSON are a failure that does not quote them', async () => {
    await expect(events(bytes('data: {"secret": oops\n\n'))).rejects.toSatisfy(
      (error) => UpstreamFailure.is(error) && !`${error.message}${error.cause}`.includes('secret'),
    )
  })

  it('that never end are a failure', async () => {
    async function* endless() {
      yield Buffer.from('data: ')
      for (;;) yield Buffer.alloc(1024 * 1024, 0x61)
    }
    await expect(events(endless())).rejects.toThrow(/too large/)
  })

  it('leave the connection usable, although the end of the body comes after [DONE]', async () => {
    answer = (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write('data: {"a":1}\n\ndata: [DONE]\n\n')
      setImmediate(() => response.end())
    }
    // The end may arrive just after the next request was sent, but not every time.
    for (let asked = 0; connections === asked; asked++) {
      expect(await events((await get()).body)).toHaveLength(2)
      await new Promise((resolve) => void setImmediate(() => setImmediate(resolve)))
    }
  })

  it('do not keep a connection that stays open after [DONE]', async () => {
    const gone = Promise.withResolvers<void>()
    answer = (_request, response) => {
      response.write('data: [DONE]\n\n')
      response.once('close', gone.resolve)
    }
    await events((await get()).body)
    await gone.promise
  })
})

it('a host whose connections do not close is given up', async () => {
  answer = (_request, response) => response.end('fine')
  const stuck = createHost('stuck', LIMITS, log)
  const { signal } = new AbortController()
  await (await stuck.host.request({ url, method: 'GET', signal })).text()
  const never = () => new Promise<never>(() => {})
  for (const method of ['close', 'destroy'] as const) {
    const spy = vi.spyOn(Pool.prototype, method).mockImplementation(never)
    onTestFinished(() => spy.mockRestore())
  }
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  const closed = stuck.close().catch((error: Error) => error.message)
  await vi.advanceTimersByTimeAsync(6000)
  expect(await closed).toBe('connections of stuck could not be closed')
})
