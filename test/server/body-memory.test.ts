/** Bodies of many requests at once: they wait, are refused, and give their memory back. */
import { request as httpRequest, type ClientRequest, type IncomingMessage } from 'node:http'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createTestGateway, type TestGateway } from '../_setup.ts'
import { eventually } from '../_wait.ts'
import { json, sse, startUpstream, type FakeUpstream } from '../upstream.ts'

const MIB = 1024 * 1024
const completion = {
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hello.' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 3, completion_tokens: 2 },
}
const chunk = { choices: [{ index: 0, delta: { content: 'Hi' }, finish_reason: null }] }
/** The vendor has the request and says nothing. */
const SILENCE = { pieces: [], ending: 'silent' } as const

let vendor: FakeUpstream
let t: TestGateway
let other: string

beforeAll(async () => {
  vendor = await startUpstream()
  t = await createTestGateway({
    server: { limits: { bodyMemory: '8mib' } },
    providers: { v: { use: 'openai-compatible', options: { baseURL: `${vendor.url}/v1` } } },
    models: {
      'acme/swift': {
        pricing: { prompt: '0.000001', completion: '0.000002' },
        capabilities: ['STREAMING'],
        free_tier: true,
        deployments: [{ provider: 'v', model: 'swift' }],
      },
    },
  })
  await t.newAccount('other', '10')
  other = (await t.newKey({ account: 'other' })).secret
})

afterAll(async () => {
  await t.close()
  await vendor.close()
})

const ofSize = (bytes: number, stream = false) => ({
  model: 'acme/swift',
  stream,
  messages: [{ role: 'user', content: 'x'.repeat(bytes) }],
})
const until = (holds: () => boolean) => eventually(() => expect(holds()).toBe(true))
const held = () => t.gateway.bodies.heldBytes

interface Running {
  readonly request: ClientRequest
  readonly response: Promise<IncomingMessage>
  leave(): Promise<void>
}

/** A request that can be left. */
function begin(body: object, secret = t.key.secret): Running {
  const request = httpRequest(`${t.baseURL}/chat/completions`, {
    method: 'POST',
    agent: false,
    headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
  })
  const response = new Promise<IncomingMessage>((resolve) => request.once('response', resolve))
  request.on('error', () => {})
  const text = JSON.stringify(body)
  request.setHeader('content-length', Buffer.byteLength(text))
  request.end(text)
  const leave = async () => {
    request.destroy()
    await until(() => t.gateway.running.size === 0)
  }
  return { request, response, leave }
}

it('a small body is not counted, a large one until its answer begins', async () => {
  vendor.answer(SILENCE)
  const small = begin(ofSize(60_000))
  await until(() => vendor.requests.length === 1)
  expect(held()).toBe(0)
  await small.leave()

  vendor.answer({ ...sse(`data: ${JSON.stringify(chunk)}\n\n`), ending: 'hang' })
  const streaming = begin(ofSize(MIB, true))
  await until(() => vendor.requests.length === 2)
  await streaming.response
  expect(held()).toBe(0)
  await streaming.leave()

  vendor.answer(SILENCE)
  const waiting = begin(ofSize(MIB))
  await until(() => vendor.requests.length === 3)
  // Three times a MiB and a little, in steps of a MiB.
  expect(held()).toBe(4 * MIB)
  await waiting.leave()
  expect(held()).toBe(0)

  vendor.answer(json(completion))
  expect((await t.chat(ofSize(MIB))).status).toBe(200)
  expect(held()).toBe(0)
  // Refused for what is in it.
  expect((await t.chat({ ...ofSize(MIB), model: 'no/such' })).status).toBe(404)
  expect((await t.chat('{'.repeat(MIB))).status).toBe(400)
  expect(held()).toBe(0)
})

it('a body waits until there is memory, unread', async () => {
  vendor.answer(SILENCE)
  const before = vendor.requests.length
  const first = begin(ofSize(2 * MIB))
  await until(() => vendor.requests.length === before + 1)
  vendor.answer(json(completion))
  const second = begin(ofSize(MIB), other)
  await until(() => t.gateway.running.size === 2)
  first.request.destroy()
  const response = await second.response
  expect(response.statusCode).toBe(200)
  response.resume()
  await until(() => held() === 0)
})

it('a key gets half of the memory: 429, and other keys are served', async () => {
  vendor.answer(SILENCE)
  const before = vendor.requests.length
  const first = begin(ofSize(MIB))
  await until(() => vendor.requests.length === before + 1)
  vendor.answer(json(completion))
  const refused = await t.chat(ofSize(MIB))
  expect([refused.status, refused.json.error.code]).toEqual([429, 'too_many_concurrent'])
  expect(refused.headers['retry-after']).toBe('1')
  // A refusal that says "try again" does not count in the rate limit.
  const remaining = Number(refused.headers['x-ratelimit-remaining-requests'])
  const small = await t.chat(ofSize(1))
  expect(Number(small.headers['x-ratelimit-remaining-requests'])).toBe(remaining)
  expect((await t.chat(ofSize(MIB), { key: other })).status).toBe(200)
  expect((await t.chat(ofSize(50_000))).status).toBe(200)
  await first.leave()
  expect((await t.chat(ofSize(MIB))).status).toBe(200)
})

it('a body without a length that cannot grow is refused at once', async () => {
  vendor.answer(SILENCE)
  const before = vendor.requests.length
  const first = begin(ofSize(2 * MIB))
  await until(() => vendor.requests.length === before + 1)
  const chunked = httpRequest(`${t.baseURL}/chat/completions`, {
    method: 'POST',
    agent: false,
    headers: { authorization: `Bearer ${other}`, 'transfer-encoding': 'chunked' },
  })
  chunked.on('error', () => {})
  const answered = new Promise<IncomingMessage>((resolve) => chunked.once('response', resolve))
  chunked.end(JSON.stringify(ofSize(MIB)))
  const response = await answered
  expect([response.statusCode, response.headers['retry-after']]).toEqual([503, '2'])
  expect(response.headers.connection).toBe('close')
  response.resume()
  await first.leave()
  expect(held()).toBe(0)
})
