/** How often the official client tries, and when: what the gateway's statuses and headers make of it. */
import { RateLimitError } from 'openai'
import type OpenAI from 'openai'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Call } from '../../src/pipeline/pipeline.ts'
import type { FakeResponse } from '../upstream.ts'
import { failing, FINAL, onFreeTier, PASSING, provoke } from './_failures.ts'
import { answered, HELLO, rejected, setUp, stalling, streamed, type Setup } from './_setup.ts'

let s: Setup
const realNow = Date.now
/** ms that the clock is ahead of the real one. */
let aheadMs = 0
beforeAll(async () => {
  vi.spyOn(Date, 'now').mockImplementation(() => realNow() + aheadMs)
  s = await setUp({
    server: { limits: { chat: '64kib' } },
    defaults: { freeTier: { rpm: 100, perDay: 2, concurrency: 5 } },
  })
})
beforeEach(() => s.vendor.answer(answered({ content: 'Fine.' })))
afterEach(() => s.quiet())
afterAll(async () => {
  await s[Symbol.asyncDispose]()
  vi.restoreAllMocks()
})

describe('what is tried once', () => {
  it.each(FINAL)('$name: $status', async (one) => {
    const { error, calls } = await provoke(s, one, { stream: false, maxRetries: 2 })
    expect(error.status).toBe(one.status)
    expect(retriesOf(calls)).toEqual(['0'])
    if (one.status === 504) expect(error.headers.get('x-should-retry')).toBe('false')
    else expect(error.headers.has('x-should-retry')).toBe(false)
    expect(error.headers.has('retry-after')).toBe(false)
    expect(error.headers.has('retry-after-ms')).toBe(false)
  })

  it('everything, with maxRetries: 0', async () => {
    const { secret } = await s.t.newKey({ rpm: 1 })
    const client = s.connect({ apiKey: secret, maxRetries: 0 })
    await client.chat.completions.create(HELLO)
    const count = s.calls.length
    const error = await rejected(client.chat.completions.create(HELLO))
    expect(error).toBeInstanceOf(RateLimitError)
    expect([error.status, error.code, error.type, error.param]).toEqual([
      429,
      'rate_limited',
      'requests',
      null,
    ])
    expect(error.message).toMatch(/Try again in \d+s\./)
    expect(error.message).not.toMatch(/quota|billing|credit|will reset at/)
    expect(since(count)).toHaveLength(1)
  })

  it('a day’s limit: tomorrow is too far away', async () => {
    const client = s.connect({ apiKey: await onFreeTier(s) })
    const DAY_MS = 86_400_000
    // Noon of the next day.
    aheadMs = Math.ceil(Date.now() / DAY_MS) * DAY_MS + DAY_MS / 2 - realNow()
    const ask = () => client.chat.completions.create({ ...HELLO, model: 'mock/free' })
    await ask()
    await ask()
    const count = s.calls.length
    const error = await rejected(ask())
    expect(error).toBeInstanceOf(RateLimitError)
    expect([error.status, error.code, error.type]).toEqual([429, 'rate_limited', 'requests'])
    expect(since(count)).toHaveLength(1)
    expect(error.headers.get('x-should-retry')).toBe('false')
    expect(error.headers.has('retry-after-ms')).toBe(false)
    const seconds = Number(error.headers.get('retry-after'))
    expect(seconds).toBeGreaterThan(11 * 3600)
    expect(seconds).toBeLessThanOrEqual(12 * 3600)
  })
})

describe('what is tried again', () => {
  it.each([false, true])('requests above the limit of a minute (stream: %s)', async (stream) => {
    if (stream) s.vendor.answer(streamed([{ content: 'Fine.' }]))
    const { secret } = await s.t.newKey({ rpm: 1 })
    const { client, waits } = listening({ apiKey: secret })
    await expectFine(client, stream)
    // The minute is almost over.
    aheadMs = s.calls.at(-1)!.admission.entered!.at + 59_200 - realNow()
    const before = await s.t.balance()
    const count = s.calls.length
    await expectFine(client, stream)
    const calls = since(count)
    expect(calls.map(({ answer }) => [answer.status, answer.error?.code])).toEqual([
      [429, 'rate_limited'],
      [200, undefined],
    ])
    expect(retriesOf(calls)).toEqual(['0', '1'])
    expect(new Set(calls.map((call) => call.id)).size).toBe(2)
    const ms = Number(waits[1])
    expect(ms).toBeGreaterThanOrEqual(1)
    expect(ms).toBeLessThanOrEqual(800)
    expect(before - (await s.t.balance())).toBe(16_500_000n)
  })

  it('a slot that is taken', async () => {
    s.vendor.answer(stalling({ content: 'one ' }))
    const { secret } = await s.t.newKey({ concurrency: 1 })
    const running = await s
      .connect({ apiKey: secret })
      .chat.completions.create({ ...HELLO, stream: true })
    s.vendor.answer(answered({ content: 'Fine.' }))
    const { client, waits } = listening({
      apiKey: secret,
      heard: (response) => {
        if (response.status === 429) running.controller.abort()
      },
    })
    const count = s.calls.length
    await expectFine(client, false)
    expect(since(count).map(({ answer }) => [answer.status, answer.error?.code])).toEqual([
      [429, 'too_many_concurrent'],
      [200, undefined],
    ])
    const ms = Number(waits[0])
    expect(ms).toBeGreaterThanOrEqual(500)
    expect(ms).toBeLessThanOrEqual(1500)
  })

  it('a slot that stays taken, three times in all', async () => {
    s.vendor.answer(stalling({ content: 'one ' }))
    const { secret } = await s.t.newKey({ concurrency: 1 })
    const running = await s
      .connect({ apiKey: secret })
      .chat.completions.create({ ...HELLO, stream: true })
    const { client } = listening({ apiKey: secret })
    const count = s.calls.length
    const error = await rejected(client.chat.completions.create(HELLO))
    running.controller.abort()
    expect(error).toBeInstanceOf(RateLimitError)
    expect([error.status, error.code, error.type, error.param]).toEqual([
      429,
      'too_many_concurrent',
      'requests',
      null,
    ])
    expect(error.message).toContain('Try again in 1s.')
    expect(error.message).not.toMatch(/quota|billing|credit|will reset at/)
    expect(retriesOf(since(count))).toEqual(['0', '1', '2'])
  })

  it.each([false, true])(
    'a vendor that is overloaded, after the second it takes: twice here (stream: %s)',
    async (stream) => {
      failTimes(2, failing(503))
      const { client, waits } = listening()
      const [count, asked] = [s.calls.length, s.vendor.requests.length]
      await expectFine(client, stream)
      expect(since(count).map(({ answer }) => answer.status)).toEqual([503, 200])
      expect(s.vendor.requests.length - asked).toBe(3)
      expect(waits[0]).toBe('1')
    },
  )

  it('a vendor that fails: twice here, once more by the client', async () => {
    // The gateway asks a failing vendor once more before it gives up.
    failTimes(2, failing(500))
    const { client, waits } = listening()
    const [count, asked] = [s.calls.length, s.vendor.requests.length]
    await expectFine(client, false)
    expect(since(count).map(({ answer }) => answer.status)).toEqual([502, 200])
    expect(s.vendor.requests.length - asked).toBe(3)
    expect(waits).toEqual([null, null])
  })

  it('a fault of the gateway', async () => {
    await PASSING[0]!.arrange!(s)
    const { client, waits } = listening()
    const count = s.calls.length
    await expectFine(client, false)
    expect(since(count).map(({ answer }) => answer.status)).toEqual([500, 200])
    expect(waits).toEqual([null, null])
  })
})

/** Calls that arrived since there were so many. */
function since(count: number): readonly Call[] {
  return s.calls.slice(count)
}

/** What `x-stainless-retry-count` said, call by call. */
function retriesOf(calls: readonly Call[]) {
  return calls.map((call) => call.incoming.header('x-stainless-retry-count'))
}

/** The waits that the gateway asked for, answer by answer; null where it left that to the client. */
function listening(options: { apiKey?: string; heard?: (response: Response) => void } = {}) {
  const waits: (string | null)[] = []
  const client = s.connect({
    ...(options.apiKey ? { apiKey: options.apiKey } : {}),
    async fetch(url, init) {
      const response = await fetch(url, init)
      waits.push(response.headers.get('retry-after-ms') ?? response.headers.get('retry-after'))
      options.heard?.(response)
      return response
    },
  })
  return { client, waits }
}

/** Answers this as often as said, then well. */
function failTimes(times: number, answer: FakeResponse): void {
  let left = times
  s.vendor.answer((request) => {
    if (left-- > 0) return answer
    return request.json.stream ? streamed([{ content: 'Fine.' }]) : answered({ content: 'Fine.' })
  })
}

async function expectFine(client: OpenAI, stream: boolean): Promise<void> {
  const text = stream
    ? await client.chat.completions.stream(HELLO).finalContent()
    : (await client.chat.completions.create(HELLO)).choices[0]!.message.content
  expect(text).toBe('Fine.')
}
