import { once } from 'node:events'
import { createServer, request as httpRequest, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { deflateSync, gzipSync } from 'node:zlib'
import * as v from 'valibot'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { configSchema } from '../../src/config/schema.ts'
import type { InvalidRequest } from '../../src/errors/errors.ts'
import { NodeIncoming, readBody } from '../../src/server/node-http.ts'
import { JsonScan } from '../../src/stream/raw-json.ts'
import { CODINGS, hostileBodies, ordinaryBodies } from './_hostile-bodies.ts'

const MIB = 1024 * 1024
const { limits } = v.parse(configSchema, { providers: {}, models: {} }).server
const noTimeout = () => ({ restart() {}, clear() {} })

interface Outcome {
  readonly status: number
  readonly code: string | undefined
  /** Decoded bytes that were taken. */
  readonly taken: number
}

/** Requests that are read together, once all of them have arrived; each piece keeps the process busy for 2 ms. */
let crowd: { missing: number; readonly complete: PromiseWithResolvers<void> } | undefined
let server: Server
let url: string

beforeAll(async () => {
  server = createServer(async (request, response) => {
    let taken = 0
    if (crowd) {
      // As behind admissions that are answered together: the bodies are there when they are looked at.
      while (!request.complete) await turn()
      if (--crowd.missing === 0) crowd.complete.resolve()
      await crowd.complete.promise
    }
    const reading = {
      request,
      limits,
      limitBytes: limits.chat,
      undecodable: 'invalid_json' as const,
      scan: new JsonScan(limits),
      startTimeout: noTimeout,
      take(piece: Buffer) {
        const until = performance.now() + (crowd ? 2 : 0)
        while (performance.now() < until);
        taken += piece.length
      },
    }
    const outcome: Outcome = await readBody(reading, () => taken).then(
      (all) => ({ status: 200, code: undefined, taken: all }),
      ({ status, code }: InvalidRequest) => ({ status, code, taken }),
    )
    if (!request.readableEnded) await once(request.resume(), 'end')
    response.end(JSON.stringify(outcome))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})

afterAll(() => {
  server.closeAllConnections()
  server.close()
})

/** @param pieces each is sent on its own */
async function sent(coding: string, pieces: readonly Buffer[]): Promise<Outcome> {
  const request = httpRequest(url, {
    method: 'POST',
    agent: false,
    headers: { 'content-encoding': coding },
  })
  for (const piece of pieces.slice(0, -1)) {
    await new Promise((resolve) => request.write(piece, resolve))
  }
  request.end(pieces.at(-1))
  const [response] = await once(request, 'response')
  const chunks = await response.toArray()
  return JSON.parse(Buffer.concat(chunks).toString())
}

// Made once: to make them costs as much as to read them.
let hostile: ReturnType<typeof hostileBodies>
let ordinary: ReturnType<typeof ordinaryBodies>
beforeAll(() => {
  hostile = hostileBodies(8 * MIB)
  ordinary = ordinaryBodies('m', 3)
})
afterAll(() => {
  hostile = ordinary = {}
})

describe.each(Object.entries(CODINGS))('a body in %s', (coding, encode) => {
  it.each([
    ['brackets', 400, 'invalid_json', 0],
    ['braces', 400, 'invalid_json', 0],
    ['objects', 413, 'request_too_large', MIB],
    ['lists', 413, 'request_too_large', MIB],
    ['members', 413, 'request_too_large', 2 * MIB],
    ['strings', 413, 'request_too_large', 2 * MIB],
    ['numbers', 413, 'request_too_large', 2 * MIB],
    ['digits', 400, 'invalid_json', 0],
  ] as const)('of %s is refused before it was read', async (name, status, code, most) => {
    const outcome = await sent(coding, [encode(hostile[name]!)])
    expect(outcome).toMatchObject({ status, code })
    expect(outcome.taken).toBeLessThanOrEqual(most)
  })

  it('may have long texts, many messages, large schemas, many numbers and deep schemas', async () => {
    for (const [name, body] of Object.entries(ordinary)) {
      const outcome = await sent(coding, [encode(body)])
      expect(outcome, name).toEqual({ status: 200, code: undefined, taken: body.length })
    }
  })
})

describe('a compressed body', () => {
  const zeros = Buffer.alloc(8 * MIB, ' ')
  const small = Buffer.from('{"a":"b"}')

  it('may not grow more than a hundredfold', async () => {
    for (const coding of ['gzip', 'br', 'zstd']) {
      const outcome = await sent(coding, [CODINGS[coding]!(zeros)])
      expect(outcome, coding).toMatchObject({ status: 413, code: 'request_too_large' })
      expect(outcome.taken).toBeLessThanOrEqual(MIB)
    }
    // Repetitive histories are far below.
    const turns = Array.from({ length: 20_000 }, (_, i) => `{"n":${i},"t":"and then?"},`)
    const history = Buffer.from(`[${turns.join('')}0]`)
    for (const coding of ['gzip', 'br', 'zstd']) {
      expect((await sent(coding, [CODINGS[coding]!(history)])).status, coding).toBe(200)
    }
  })

  it('ends where its format ends', async () => {
    for (const coding of ['gzip', 'br', 'zstd', 'deflate']) {
      const body = coding === 'deflate' ? deflateSync(small) : CODINGS[coding]!(small)
      const good = { status: 200, code: undefined, taken: small.length }
      expect(await sent(coding, [body]), coding).toEqual(good)
      expect(await sent(coding, [body.subarray(0, 5), body.subarray(5)]), coding).toEqual(good)
      for (const more of [Buffer.from('more'), Buffer.alloc(4), body.subarray(0, 5)]) {
        for (const pieces of [[Buffer.concat([body, more])], [body, more]]) {
          const { status, code } = await sent(coding, pieces)
          expect([status, code], `${coding}, ${more.toString('hex')}`).toEqual([
            400,
            'invalid_json',
          ])
        }
      }
      for (let cut = 1; cut < body.length; cut++) {
        const { status } = await sent(coding, [body.subarray(0, cut)])
        expect(status, `${coding}, ${cut} bytes`).toBe(400)
      }
    }
  })

  it('may have several members of gzip', async () => {
    const members = [gzipSync(small.subarray(0, 4)), gzipSync(small.subarray(4))]
    const good = { status: 200, code: undefined, taken: small.length }
    expect(await sent('gzip', [Buffer.concat(members)])).toEqual(good)
    expect(await sent('gzip', members)).toEqual(good)
  })

  it('has one coding', async () => {
    for (const coding of ['gzip, gzip', 'gzip, br', 'identity, gzip', 'zstd,', 'constructor']) {
      const { status, code } = await sent(coding, [gzipSync(small)])
      expect([status, code], coding).toEqual([415, 'unsupported_content_encoding'])
    }
  })
})

it('a body that comes byte by byte takes no more memory than its bytes', async () => {
  const body = Buffer.from(JSON.stringify({ text: 'x'.repeat(3000) }))
  const own = createServer(async (request, response) => {
    const incoming = new NodeIncoming(request, { limits, startTimeout: noTimeout })
    response.end(await incoming.json(10_000, (body) => body))
  }).listen(0, '127.0.0.1')
  await once(own, 'listening')
  const { port } = own.address() as AddressInfo
  const request = httpRequest({ port, method: 'POST', agent: false })
  for (const byte of body) request.write(Buffer.from([byte]))
  request.end()
  const [response] = await once(request, 'response')
  expect(Buffer.concat(await response.toArray())).toEqual(body)
  own.close()
})

describe.each(Object.entries(CODINGS))(
  'bodies in %s that arrive in one busy turn',
  (coding, encode) => {
    it('are read whole, also where their end comes with their last piece', async () => {
      const text = Buffer.from(JSON.stringify({ text: 'x'.repeat(40_000) }))
      const body = encode(text)
      // Most of them wait for a later turn.
      crowd = { missing: 40, complete: Promise.withResolvers() }
      onTestFinished(() => void (crowd = undefined))
      const outcomes = await Promise.all(Array.from({ length: 40 }, () => sent(coding, [body])))
      expect(outcomes).toEqual(outcomes.map(() => ({ status: 200, taken: text.length })))
    })
  },
)
