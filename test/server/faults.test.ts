/** Upstreams that misbehave and clients that leave: afterwards nothing is leased, held or open, and the books are right. */
import { request as httpRequest, type ClientRequest, type IncomingMessage } from 'node:http'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createTestGateway, eventsOf, type TestGateway } from '../_setup.ts'
import { events, json, sse, startUpstream, type FakeUpstream } from '../upstream.ts'

const PRICES = { prompt: '0.000001', completion: '0.000002' }
const body = { model: 'acme/swift', messages: [{ role: 'user', content: 'Hello there' }] }
const says = (content: string, finish_reason: string | null = null) => ({
  choices: [{ index: 0, delta: { content }, finish_reason }],
})
const completion = {
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hello.' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 3, completion_tokens: 2 },
}

let vendor: FakeUpstream
let spare: FakeUpstream
let t: TestGateway

beforeAll(async () => {
  vendor = await startUpstream()
  spare = await startUpstream()
  const provider = (url: string) => ({
    use: 'openai-compatible',
    options: { baseURL: `${url}/v1` },
  })
  const withLimits = (limits: object) => ({
    pricing: PRICES,
    capabilities: ['STREAMING' as const],
    deployments: [{ provider: 'vendor', model: 'swift', ...limits }],
  })
  t = await createTestGateway({
    providers: {
      vendor: provider(vendor.url),
      spare: provider(spare.url),
      gone: provider('http://127.0.0.1:9'),
    },
    models: {
      'acme/swift': withLimits({}),
      'acme/silent': withLimits({ timeout: 1, firstPartTimeout: 1 }),
      'acme/stalling': withLimits({ idleTimeout: 1 }),
      'acme/double': {
        pricing: PRICES,
        capabilities: ['STREAMING'],
        deployments: [
          { provider: 'vendor', model: 'a', timeout: 1, firstPartTimeout: 1 },
          { provider: 'spare', model: 'b', priority: 1 },
        ],
      },
      'acme/gone': { pricing: PRICES, deployments: [{ provider: 'gone', model: 'x' }] },
    },
    routing: { cooldown: 0 },
  })
})
afterAll(async () => {
  await t.close()
  await vendor.close()
  await spare.close()
})

/** Everything that must hold once a call is over, however it went. */
async function expectQuiet(): Promise<void> {
  await expect.poll(() => t.gateway.running.size).toBe(0)
  const { ledger } = t.gateway.runtime
  await expect.poll(async () => (await ledger.key('acme', t.key.id)).inFlight).toBe(0)
  const { balance, available } = await ledger.account('acme')
  expect(available).toBe(balance)
  expect(await ledger.verify()).toEqual([])
  expect((await t.ask('GET', '/health', { key: null })).status).toBe(200)
}

/** Starts a request and gives its response once the head is there. */
function start(payload: object): { request: ClientRequest; response: Promise<IncomingMessage> } {
  const request = httpRequest(`${t.baseURL}/chat/completions`, {
    method: 'POST',
    agent: false,
    headers: { authorization: `Bearer ${t.key.secret}`, 'content-type': 'application/json' },
  })
  const response = new Promise<IncomingMessage>((resolve, reject) => {
    request.once('response', resolve).once('error', reject)
  })
  response.catch(() => {})
  request.end(JSON.stringify(payload))
  return { request, response }
}

let before: bigint
beforeEach(async () => {
  before = await t.balance()
})
const moved = async () => before - (await t.balance())

describe('an upstream', () => {
  it.each([['that cannot be reached', 'acme/gone', 502, 'upstream_error']])(
    '%s',
    async (_name, model, status, code) => {
      const answer = await t.chat({ ...body, model })
      expect([answer.status, answer.json.error.code]).toEqual([status, code])
      expect(await moved()).toBe(0n)
      await expectQuiet()
    },
  )

  for (const stream of [false, true]) {
    const request = { ...body, stream }
    describe(stream ? 'asked for a stream' : 'asked for an answer', () => {
      it.each([
        ['resets', { pieces: [], ending: 'reset' as const }, 502, 'upstream_error'],
        ['closes without a word', { pieces: [], ending: 'cut' as const }, 502, 'upstream_error'],
        [
          'sends garbage',
          { headers: { 'content-type': 'application/json' }, pieces: ['<html>busy</html>'] },
          502,
          'upstream_error',
        ],
        ['fails', json({ error: { message: 'boom' } }, 500), 502, 'upstream_error'],
        [
          'refuses our key',
          json({ error: { message: 'bad key sk-vendor-123' } }, 401),
          502,
          'upstream_error',
        ],
        ['has no credit left', json({ error: { message: 'pay' } }, 402), 502, 'upstream_error'],
        [
          'has lost the model',
          json({ error: { message: 'no model' } }, 404),
          502,
          'upstream_error',
        ],
        ['is overloaded', json({ error: { message: 'busy' } }, 503), 503, 'provider_overloaded'],
        [
          'limits us',
          json({ error: { message: 'slow down' } }, 429, { 'retry-after': '7' }),
          429,
          'upstream_rate_limited',
        ],
        [
          'rejects the request',
          json({ error: { message: 'temperature too high', type: 'invalid_request_error' } }, 400),
          400,
          'upstream_rejected',
        ],
        [
          'finds the prompt too long',
          json({ error: { message: 'too long', code: 'context_length_exceeded' } }, 400),
          400,
          'context_length_exceeded',
        ],
        ['never answers', { pieces: [], ending: 'hang' as const }, 504, 'upstream_timeout'],
      ])('%s', async (_name, answer, status, code) => {
        vendor.answer(answer)
        // Only a vendor that never answers has to be quick.
        const model = status === 504 ? 'acme/silent' : 'acme/swift'
        const got = await t.chat({ ...request, model })
        expect([got.status, got.json.error.code]).toEqual([status, code])
        expect(got.text).not.toMatch(/sk-vendor|html/)
        if (status === 503) {
          const seconds = Number(got.headers['retry-after'])
          expect(seconds).toBeGreaterThanOrEqual(1)
          expect(seconds).toBeLessThanOrEqual(30)
        }
        expect(got.headers['x-should-retry']).toBe(status === 504 ? 'false' : undefined)
        expect(await moved()).toBe(0n)
        await expectQuiet()
      })
    })
  }

  it.each([
    [
      'cut in mid-stream',
      { ...events(says('one '), says('two ')), ending: 'cut' as const },
      'upstream_error',
    ],
    [
      'reset in mid-stream',
      { ...events(says('one '), says('two ')), ending: 'reset' as const },
      'upstream_error',
    ],
    ['ended without a reason', events(says('one '), says('two ')), 'upstream_error'],
    [
      'stalled in mid-stream',
      { ...events(says('one '), says('two ')), ending: 'hang' as const },
      'upstream_timeout',
    ],
    [
      'in error in mid-stream',
      events(says('one '), says('two '), { error: { message: 'boom' } }),
      'upstream_error',
    ],
    [
      'garbled in mid-stream',
      events(says('one '), says('two '), '{"choices": [nonsense'),
      'upstream_error',
    ],
  ])('%s: the client hears of it and pays for what came', async (_name, answer, code) => {
    vendor.answer(answer)
    const model = code === 'upstream_timeout' ? 'acme/stalling' : 'acme/swift'
    const got = await t.chat({ ...body, model, stream: true })
    expect(got.status).toBe(200)
    const all = eventsOf(got.text)
    expect(all.at(-1)).toBe('[DONE]')
    const { error } = all.at(-2)
    expect(error).toMatchObject({ code, param: null })
    expect(all.at(-2).choices).toBeUndefined()
    // 11 characters in, 8 out: 3 tokens and 2.
    expect(error.usage).toMatchObject({ prompt_tokens: 3, completion_tokens: 2, cost: 0.000007 })
    expect(await moved()).toBe(7_000_000n)
    await expectQuiet()
  })

  it('cut in mid-stream costs nothing when the client had asked for a whole answer', async () => {
    vendor.answer({ ...json(completion), pieces: ['{"choices":[{"mess'], ending: 'cut' })
    const got = await t.chat(body)
    expect([got.status, got.json.error.code]).toEqual([502, 'upstream_error'])
    expect(await moved()).toBe(0n)
    await expectQuiet()
  })

  it('cannot be blamed for a body that is nested too deeply', async () => {
    vendor.answer(json(completion))
    const deep = `${'['.repeat(50_000)}${']'.repeat(50_000)}`
    const got = await t.chat(
      `{"model":"acme/swift","messages":[{"role":"user","content":"hi"}],"x":${deep}}`,
    )
    expect([got.status, got.json.error.code]).toEqual([400, 'invalid_json'])
    expect((await t.chat(body)).status).toBe(200)
    await expectQuiet()
  })
})

describe('fail-over', () => {
  it('goes to the next deployment while nothing has been said', async () => {
    for (const broken of [
      json({ error: { message: 'boom' } }, 500),
      json({ error: { message: 'key' } }, 401),
      json({ error: { message: 'busy' } }, 429),
      { pieces: [], ending: 'reset' as const },
      { pieces: [], ending: 'hang' as const },
      events({ error: { message: 'overloaded' } }),
    ]) {
      for (const stream of [false, true]) {
        if (
          !stream &&
          'pieces' in broken &&
          broken.headers?.['content-type'] === 'text/event-stream'
        )
          continue
        vendor.answer(broken)
        spare.answer(stream ? events(says('Hello.', 'stop'), '[DONE]') : json(completion))
        const got = await t.chat({ ...body, model: 'acme/double', stream })
        expect(got.status).toBe(200)
        expect(got.text).toContain('Hello.')
        expect(got.text).not.toContain('"error"')
        await expectQuiet()
      }
    }
  })

  it('does not happen for what is the client’s own fault', async () => {
    vendor.answer(json({ error: { message: 'bad parameter', type: 'invalid_request_error' } }, 400))
    const asked = spare.requests.length
    expect((await t.chat({ ...body, model: 'acme/double' })).status).toBe(400)
    expect(spare.requests.length).toBe(asked)
  })

  it('does not happen after the first word', async () => {
    vendor.answer({ ...events(says('one ')), ending: 'cut' })
    const asked = spare.requests.length
    const got = await t.chat({ ...body, model: 'acme/double', stream: true })
    expect(eventsOf(got.text).at(-2).error.code).toBe('upstream_error')
    expect(spare.requests.length).toBe(asked)
  })
})

describe('a client that leaves', () => {
  it('before the first byte: the upstream is closed, the prompt is charged, and by time what would have come whole', async () => {
    for (const stream of [false, true]) {
      before = await t.balance()
      const asked = vendor.requests.length
      vendor.answer({ pieces: [], ending: 'hang' })
      const { request } = start({ ...body, stream })
      await expect.poll(() => vendor.requests.length).toBe(asked + 1)
      request.destroy()
      expect(await vendor.requests.at(-1)!.aborted).toBe(true)
      await expectQuiet()
      const cost = await moved()
      if (stream) expect(cost).toBe(3_000_000n)
      else expect(cost).toBeGreaterThan(3_000_000n)
    }
  })

  it('in mid-stream, and during a stall: the upstream is closed, what came is charged', async () => {
    vendor.answer({ ...events(says('one '), says('two ')), ending: 'hang' })
    const { request, response } = start({ ...body, stream: true })
    let seen = ''
    for await (const chunk of (await response).setEncoding('utf8')) {
      seen += chunk
      if (seen.includes('two')) break
    }
    request.destroy()
    expect(await vendor.requests.at(-1)!.aborted).toBe(true)
    await expectQuiet()
    expect(await moved()).toBe(7_000_000n)
  })

  it('while it is still sending its body: nothing is asked, nothing charged', async () => {
    const asked = vendor.requests.length
    const request = httpRequest(`${t.baseURL}/chat/completions`, {
      method: 'POST',
      agent: false,
      headers: {
        authorization: `Bearer ${t.key.secret}`,
        'content-type': 'application/json',
        'content-length': '1000',
      },
    })
    request.once('error', () => {})
    request.write('{"model"')
    await expect.poll(() => t.gateway.running.size).toBe(1)
    request.destroy()
    await expectQuiet()
    expect(vendor.requests.length).toBe(asked)
    expect(await moved()).toBe(0n)
  })

  it('in the middle of a flood, a hundred times: everything comes back', async () => {
    vendor.answer({
      ...sse(''),
      pieces: Array.from({ length: 50 }, () => `data: ${JSON.stringify(says('word '))}\n\n`),
      pauseMs: 5,
    })
    await Promise.all(
      Array.from({ length: 25 }, async (_, i) => {
        const { request, response } = start({ ...body, stream: i % 2 === 0 })
        const gone = (i % 5) * 20
        const timer = setTimeout(() => request.destroy(), gone)
        await response
          .then((one) => one.resume().once('close', () => clearTimeout(timer)))
          .catch(() => {})
      }),
    )
    await expectQuiet()
  })
})
