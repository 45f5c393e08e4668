/** Errors as the official client raises them. */
import { APIError, NotFoundError } from 'openai'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { events, type FakeResponse } from '../upstream.ts'
import { failing, FINAL, INVALID, PASSING, provoke } from './_failures.ts'
import { answered, HELLO, rejected, says, setUp, type Setup } from './_setup.ts'

let s: Setup
beforeAll(async () => {
  s = await setUp({ server: { limits: { chat: '64kib' } } })
})
beforeEach(() => s.vendor.answer(answered({ content: 'Fine.' })))
afterEach(() => s.quiet())
afterAll(() => s[Symbol.asyncDispose]())

describe('an error', () => {
  for (const stream of [false, true]) {
    it.each([...FINAL, ...PASSING])(
      `for $name (stream: ${stream}) is $status $code`,
      async (one) => {
        const { error, calls } = await provoke(s, one, { stream, maxRetries: 0 })
        expect(error).toBeInstanceOf(one.raises)
        expect(error.constructor).toBe(one.raises)
        expect([error.status, error.code, error.type, error.param]).toEqual([
          one.status,
          one.code,
          one.type,
          one.param ?? null,
        ])
        expect(error.requestID).toBe(calls[0]!.id)
        expect(error.message).toMatch(new RegExp(`^${one.status} .*[.?]$`, 's'))
        expect(error.message).not.toMatch(/boom|secret detail|sk-nonsense/)
      },
    )
  }

  it('for a route that does not exist says so', async () => {
    const error = await rejected(s.client.files.list())
    expect(error).toBeInstanceOf(NotFoundError)
    expect([error.code, error.type, error.param]).toEqual(['unknown_url', INVALID, null])
    expect(error.requestID).toMatch(/^req_/)
  })

  it('keeps what the vendor said of the client’s own mistake', async () => {
    s.vendor.answer(
      failing(400, { message: 'n must be 1 for this model', param: 'n', type: INVALID }),
    )
    const error = await rejected(s.client.chat.completions.create(HELLO))
    expect(error.message).toBe('400 n must be 1 for this model')
    expect(error.param).toBe('n')
  })
})

describe('an error in mid-stream', () => {
  const broken: readonly [string, FakeResponse, string][] = [
    ['cut', { ...events(says({ content: 'one ' })), ending: 'cut' }, 'upstream_error'],
    ['ended too early', events(says({ content: 'one ' })), 'upstream_error'],
    [
      'in error',
      events(says({ content: 'one ' }), { error: { message: 'boom', code: 500 } }),
      'upstream_error',
    ],
    [
      'overloaded',
      events(says({ content: 'one ' }), { error: { message: 'boom', type: 'overloaded_error' } }),
      'provider_overloaded',
    ],
  ]
  it.each(broken)(
    'of a vendor that was %s is raised, charged, and not retried',
    async (_name, answer, code) => {
      s.vendor.answer(answer)
      const before = await s.t.balance()
      const count = s.calls.length
      let text = ''
      const client = s.connect({ maxRetries: 2 })
      const error = await rejected(
        (async () => {
          for await (const chunk of await client.chat.completions.create({
            ...HELLO,
            stream: true,
          })) {
            text += chunk.choices[0]!.delta.content ?? ''
          }
        })(),
      )
      expect(text).toBe('one ')
      expect(error).toBeInstanceOf(APIError)
      expect([error.status, error.code, error.type, error.param]).toEqual([
        undefined,
        code,
        'server_error',
        null,
      ])
      expect(error.requestID).toBe(s.calls.at(-1)!.id)
      // 11 characters in, 4 out: 3 tokens and 1.
      expect(error.error.usage).toMatchObject({
        prompt_tokens: 3,
        completion_tokens: 1,
        cost: 0.00000105,
      })
      expect(before - (await s.t.balance())).toBe(1_050_000n)
      expect(s.calls.length).toBe(count + 1)
    },
  )

  it('ends the stream helper, too', async () => {
    s.vendor.answer(broken[0]![1])
    const heard: string[] = []
    const stream = s.client.chat.completions
      .stream(HELLO)
      .on('content', (delta) => heard.push(delta))
      .on('error', (error) => heard.push(String((error as APIError).code)))
    const error = await rejected(stream.finalChatCompletion())
    expect(error).toBeInstanceOf(APIError)
    expect(heard).toEqual(['one ', 'upstream_error'])
  })
})
