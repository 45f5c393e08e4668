import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { forkGateway, type ForkedGateway } from '../_forked.ts'
import { wav } from '../endpoints/audio/_sounds.ts'

const MIB = 1024 * 1024
const FILE_BYTES = 25 * MIB
/** What the call itself takes, beside its file. */
const CALL_BYTES = 8 * MIB
/** The same, with what waits for its collection. */
const PEAK_BYTES = 40 * MIB

let vendor: Server
/** A hook that the vendor calls when it has read a whole request; it answers when the promise resolves. */
let received: () => Promise<unknown>
let bytes = 0
let gateway: ForkedGateway

beforeEach(async () => {
  received = () => Promise.resolve()
  // Keeps nothing: what is measured is the gateway, but what it sends has to arrive.
  vendor = createServer((incoming, outgoing) => {
    incoming.on('data', (piece: Buffer) => (bytes += piece.length))
    incoming.on('end', () => {
      void received().then(() =>
        outgoing.setHeader('content-type', 'application/json').end('{"text":"Hi."}'),
      )
    })
  }).listen(0, '127.0.0.1')
  await once(vendor, 'listening')
  const { port } = vendor.address() as AddressInfo
  gateway = await forkGateway({
    providers: {
      vendor: { use: 'openai-compatible', options: { baseURL: `http://127.0.0.1:${port}/v1` } },
    },
    models: {
      'acme/ears': {
        pricing: { second: '0.0001' },
        deployments: [{ provider: 'vendor', model: 'stt' }],
      },
    },
  })
  // What is there only once is not what an upload takes.
  await send(wav(1))
  bytes = 0
})

afterEach(async () => {
  await gateway[Symbol.asyncDispose]()
  vendor.closeAllConnections()
  vendor.close()
})

async function send(file: Uint8Array): Promise<void> {
  const form = new FormData()
  form.append('model', 'acme/ears')
  form.append('file', new Blob([file as Uint8Array<ArrayBuffer>]), 'a.wav')
  const response = await fetch(`${gateway.baseURL}/audio/transcriptions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}` },
    body: form,
  })
  expect(await response.json()).toMatchObject({ text: 'Hi.' })
}

const file = Buffer.concat([wav(1), Buffer.alloc(FILE_BYTES - wav(1).length, 1)])

it('an upload of 25 MiB keeps 25 MiB, and little more, until it is answered', async () => {
  const idle = await gateway.live()
  const arrived = Promise.withResolvers<void>()
  const answer = Promise.withResolvers<void>()
  received = () => {
    arrived.resolve()
    return answer.promise
  }
  const sent = send(file)
  await Promise.race([arrived.promise, sent])
  const live = await gateway.live()
  answer.resolve()
  await sent
  expect(bytes).toBeGreaterThan(FILE_BYTES)
  expect(live - idle).toBeLessThan(FILE_BYTES + CALL_BYTES)
  expect((await gateway.live()) - idle).toBeLessThan(CALL_BYTES)
})

// Pieces that were read wait for their collection, longer on a busy machine: the least of three peaks shows what is needed.
it('an upload of 25 MiB is never there twice', { retry: 2 }, async () => {
  const { rss } = await gateway.usage()
  await send(file)
  expect(bytes).toBeGreaterThan(FILE_BYTES)
  const { most } = await gateway.usage()
  expect(most - rss).toBeLessThan(FILE_BYTES + PEAK_BYTES)
})
