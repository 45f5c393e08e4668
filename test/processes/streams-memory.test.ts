/** What a stream keeps of its request, once its answer has begun and no other deployment can be asked. */
import { once } from 'node:events'
import { createServer, request, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { forkGateway, type ForkedGateway } from '../_forked.ts'

const MIB = 1024 * 1024
const STREAMS = 100
const MOST_BYTES = 32 * MIB

let vendor: Server
let gateway: ForkedGateway
const running: IncomingMessage[] = []

beforeEach(async () => {
  vendor = createServer((incoming, outgoing) => {
    incoming.resume().once('end', () => {
      outgoing.setHeader('content-type', 'text/event-stream')
      outgoing.write(
        `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: 'Hi' } }] })}\n\n`,
      )
    })
  }).listen(0, '127.0.0.1')
  await once(vendor, 'listening')
  const { port } = vendor.address() as AddressInfo
  const options = { apiKey: 'k', baseURL: `http://127.0.0.1:${port}/v1` }
  gateway = await forkGateway({
    defaults: { limits: { rpm: 10_000, concurrency: 1000 } },
    providers: { vendor: { use: 'openai-compatible', options } },
    models: {
      'acme/swift': {
        pricing: { prompt: '0.0000001', completion: '0.0000001' },
        capabilities: ['STREAMING'],
        deployments: [{ provider: 'vendor', model: 'swift' }],
      },
    },
  })
})

afterEach(async () => {
  for (const stream of running.splice(0)) stream.destroy()
  await gateway[Symbol.asyncDispose]()
  vendor.closeAllConnections()
  vendor.close()
})

/** Begins a stream, and waits for the first of its answer. */
async function begin(text: string, more: object): Promise<void> {
  const body = JSON.stringify({
    model: 'acme/swift',
    stream: true,
    messages: [
      { role: 'user', content: text },
      { role: 'user', content: [{ type: 'text', text: 'And?' }] },
    ],
    ...more,
  })
  const sent = request(`${gateway.baseURL}/chat/completions`, {
    method: 'POST',
    agent: false,
    headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
  })
  sent.end(body)
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  if (response.statusCode !== 200)
    throw new Error(Buffer.concat(await response.toArray()).toString())
  running.push(response)
  response.on('error', () => {})
  await once(response, 'data')
}

it.each([
  ['without a policy', {}],
  [
    'with a ceiling and a pattern',
    { policy: { version: 1, maxOutputTokens: 500, bannedPatterns: ['zebra'] } },
  ],
])(`${STREAMS} streams of 1 MiB each keep less than 32 MiB: %s`, async (_how, more) => {
  await begin('x'.repeat(MIB), more)
  const idle = await gateway.live()
  for (let i = 0; i < STREAMS; i++) await begin(`${i} ${'x'.repeat(MIB)}`, more)
  expect((await gateway.live()) - idle).toBeLessThan(MOST_BYTES)
})
