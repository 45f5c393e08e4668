import { request } from 'node:http'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestGateway, type TestGateway } from '../_setup.ts'
import { mp3 } from '../endpoints/audio/_sounds.ts'
import { startUpstream, type FakeUpstream } from '../upstream.ts'

const MIB = 1024 * 1024

/** More than the buffers of all sockets in between hold. */
const LONG = Buffer.alloc(32 * MIB, mp3(1))
const LONG_TEXT = Array.from({ length: 32 }, () => {
  const content = 'a'.repeat(MIB)
  return `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content } }] })}\n\n`
})

let vendor: FakeUpstream
let t: TestGateway

beforeAll(async () => {
  vendor = await startUpstream()
  const model = (pricing: object) => ({
    pricing,
    capabilities: ['STREAMING'] as ['STREAMING'],
    deployments: [{ provider: 'vendor', model: 'm' }],
  })
  t = await createTestGateway({
    server: { streamTimeout: 3 },
    providers: {
      vendor: { use: 'openai-compatible', options: { baseURL: `${vendor.url}/v1` } },
    },
    models: {
      'acme/voice': model({ character: '0.000015' }),
      'acme/words': model({ prompt: '0', completion: '0.000001' }),
    },
  })
})
afterAll(async () => {
  await t.close()
  await vendor.close()
})

describe('a client that does not read on', () => {
  it.each([
    [
      'sound',
      '/v1/audio/speech',
      { model: 'acme/voice', input: 'Hello.', voice: 'alloy' },
      { headers: { 'content-type': 'audio/mpeg' }, pieces: [LONG] },
    ],
    [
      'events',
      '/v1/chat/completions',
      { model: 'acme/words', stream: true, messages: [{ role: 'user', content: 'Hi' }] },
      { headers: { 'content-type': 'text/event-stream' }, pieces: LONG_TEXT },
    ],
  ])('gets no more of %s when the time of a stream is up', async (_what, path, body, answer) => {
    vendor.answer(answer)
    const asking = request(t.url + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${t.key.secret}`, 'content-type': 'application/json' },
    })
    const closed = new Promise((resolve) => asking.once('close', resolve))
    asking.on('error', () => {})
    asking.end(JSON.stringify(body))
    const response = await new Promise<import('node:http').IncomingMessage>((resolve) => {
      asking.once('response', resolve)
    })
    response.on('error', () => {}).pause()
    expect(response.statusCode).toBe(200)
    expect(t.gateway.running.size).toBe(1)
    await expect.poll(() => t.gateway.running.size).toBe(0)
    expect(await vendor.requests.at(-1)!.aborted).toBe(true)
    // The connection is closed, and not only forgotten.
    response.resume()
    await closed
    expect(response.complete).toBe(false)
  })
})
