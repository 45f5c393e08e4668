import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import openaiCompatible from '../../../providers/openai-compatible.ts'
import { UpstreamFailure } from '../../../src/errors/errors.ts'
import { json, startUpstream, type FakeUpstream } from '../../upstream.ts'
import { setUp, type Setup } from '../_chat.ts'

let upstream: FakeUpstream
let plain: Setup

beforeAll(async () => {
  upstream = await startUpstream()
  plain = await setUp(openaiCompatible, { baseURL: upstream.url })
})

afterAll(async () => {
  await plain[Symbol.asyncDispose]()
  await upstream.close()
})

describe('errors', () => {
  it.each([
    [400, says('Invalid value'), 'bad_request'],
    [422, { detail: [{ loc: ['body', 'n'], msg: 'bad', type: 'x' }] }, 'bad_request'],
    [400, says('x', { code: 'context_length_exceeded' }), 'context_length'],
    [413, says('prompt is too long: 9 tokens > 8 maximum'), 'context_length'],
    [400, { object: 'error', message: 'too large', code: '3051' }, 'context_length'],
    [413, '<html>413</html>', 'payload_too_large'],
    [400, says('x', { code: 'content_filter' }), 'content_blocked'],
    [403, says('x', { code: 403, metadata: { reasons: ['violence'] } }), 'content_blocked'],
    [
      403,
      { code: 'x', error: 'Content violates usage guidelines. SAFETY_CHECK_TYPE' },
      'content_blocked',
    ],
    [403, says('Country not supported'), 'upstream_auth'],
    [401, '', 'upstream_auth'],
    [400, { code: 'Client', error: 'Incorrect API key provided.' }, 'upstream_auth'],
    [400, [says('API key not valid.', { status: 'INVALID_ARGUMENT' })], 'upstream_auth'],
    [402, says('Pay'), 'upstream_balance'],
    [429, says('x', { code: 'insufficient_quota' }), 'upstream_balance'],
    [429, says('x', { type: 'exceeded_current_quota_error' }), 'upstream_balance'],
    [403, { error: 'Your team has used all available credits.' }, 'upstream_balance'],
    [400, says('x', { code: 'Arrearage' }), 'upstream_balance'],
    [429, says('x', { type: 'engine_overloaded_error' }), 'overloaded'],
    [429, says('Request too large for model in organization org-A1'), 'bad_request'],
    [413, says('Request too large for m', { code: 'rate_limit_exceeded' }), 'bad_request'],
    [429, says('slow'), 'upstream_rate'],
    [404, says('no such path'), 'not_found'],
    [400, says('Model Not Exist'), 'not_found'],
    [400, { object: 'error', message: 'Invalid model: x', type: 'invalid_model' }, 'not_found'],
    [408, '', 'timeout'],
    [498, '', 'overloaded'],
    [503, '<html>busy</html>', 'overloaded'],
    [529, '', 'overloaded'],
    [500, says('x', { type: 'server_error' }), 'upstream_error'],
    [500, '', 'upstream_error'],
    [502, '<html></html>', 'upstream_error'],
    [504, '', 'upstream_error'],
    [424, '', 'upstream_error'],
    [302, '', 'upstream_error'],
    [418, '', 'upstream_error'],
  ])('status %i with %j is %s', async (status, body, failure) => {
    expect((await refusal(status, body)).failure).toBe(failure)
  })

  it('have the gateway’s own messages, and name no account, key or address', async () => {
    const secret =
      'Incorrect API key sk-proj-abc123 of org-AbC123 at https://vendor.example/x, see joe@vendor.example'
    for (const status of [400, 401, 403, 429, 500, 503]) {
      const { message } = await refusal(status, says(secret))
      expect(message).not.toMatch(/abc123|org-|https|joe|vendor\.example/i)
      expect(message.length).toBeGreaterThan(10)
    }
  })

  it('tell the client what was wrong with its request', async () => {
    const text = "Invalid schema for response_format 'x': In context=(), 'type' is missing."
    const failure = await refusal(
      400,
      says(text, {
        code: 'invalid_value',
        param: 'response_format',
        type: 'invalid_request_error',
      }),
    )
    expect(failure).toMatchObject({
      status: 400,
      code: 'invalid_value',
      param: 'response_format',
      message: text,
    })
  })

  it('tell the client which member is wrong, of a server that checks its body by a schema', async () => {
    const issue = {
      loc: ['body', 'messages', 0, 'content'],
      msg: 'Field required',
      type: 'missing',
    }
    const failure = await refusal(422, { detail: [issue] })
    expect(failure).toMatchObject({
      param: 'messages.0.content',
      message: 'messages.0.content: Field required',
    })
  })

  it('name a parameter that the model does not have, by any of the vendors’ codes', async () => {
    for (const code of ['unknown_parameter', 'unsupported_parameter']) {
      const failure = await refusal(400, says('Unknown parameter', { code, param: 'top_k' }))
      expect(failure).toMatchObject({ code: 'unsupported_parameter', param: 'top_k' })
    }
  })

  it('do not use codes that belong to the gateway', async () => {
    for (const code of ['policy_violation', 'invalid_policy', 'wrong_endpoint', 'whatever']) {
      expect((await refusal(400, says('x', { code }))).code).toBe('upstream_rejected')
    }
  })

  it('redact and shorten the vendor’s message', async () => {
    const failure = await refusal(
      400,
      says(
        `Bad image at https://u:p@host/x for org-9f8e7d req_0123abc\n\n from 10.0.0.7:443. ${'é'.repeat(900)}`,
      ),
    )
    expect(failure.message).toMatch(/^Bad image at \[…\] for \[…\] \[…\] from \[…\]\. é+…$/)
    expect([...failure.message]).toHaveLength(500)
    expect((await refusal(400, says('   '))).message).toBe(
      'The model provider refused the request.',
    )
    expect((await refusal(400, '<html>Bad</html>')).message).toBe(
      'The model provider refused the request.',
    )
  })

  it('unwrap a reseller’s error', async () => {
    const raw = JSON.stringify(says('This model has a maximum context length of 8 tokens.'))
    const wrapped = says('Provider returned error', { code: 400, metadata: { raw } })
    expect((await refusal(400, wrapped)).failure).toBe('context_length')
    const plainText = says('Provider returned error', {
      code: 400,
      metadata: { raw: 'No images.' },
    })
    expect((await refusal(400, plainText)).message).toBe('No images.')
  })

  it.each([
    [{ 'retry-after-ms': '1500', 'retry-after': '9' }, '', 1500],
    [{ 'retry-after-ms': '0', 'retry-after': '1' }, '', 1000],
    [{ 'retry-after': '2', 'x-ratelimit-reset-tokens': '9s' }, '', 2000],
    [{ 'x-ratelimit-reset-tokens': '1m2.5s', 'x-ratelimit-remaining-tokens': '0' }, '', 62_500],
    [{ 'x-ratelimit-reset-requests': '2m', 'x-ratelimit-remaining-requests': '5' }, '', undefined],
    [{ 'x-ratelimit-reset-requests': '120ms', 'x-ratelimit-reset-tokens': '7s' }, '', 7000],
    [{ 'x-ratelimit-reset': '3' }, '', 3000],
    [{}, 'Please try again in 7.66s. Thanks', 7660],
    [{}, 'Please retry in 250ms.', 250],
    [{}, 'Please wait.', undefined],
  ])('with %j and %j ask to wait %s ms', async (headers, message, expected) => {
    const failure = await refusal(429, says(message), headers)
    expect(failure.retryAfterMs).toBe(expected)
  })

  it('ask to wait until a date, a Unix time, or in Google’s form', async () => {
    const inAMinute = Date.now() + 60_000
    for (const headers of [
      { 'retry-after': new Date(inAMinute).toUTCString() },
      { 'x-ratelimit-reset': String(inAMinute) },
      { 'x-ratelimit-reset': String(Math.round(inAMinute / 1000)) },
      { 'anthropic-ratelimit-tokens-reset': new Date(inAMinute).toISOString() },
    ]) {
      const { retryAfterMs } = await refusal(429, says('x'), headers)
      expect(retryAfterMs).toBeGreaterThan(30_000)
      expect(retryAfterMs).toBeLessThanOrEqual(61_000)
    }
    const details = [{ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '48s' }]
    const google = await refusal(429, [says('x', { status: 'RESOURCE_EXHAUSTED', details })])
    expect(google.retryAfterMs).toBe(48_000)
  })

  it('tell the operator more than the client', async () => {
    const { cause, message } = await refusal(
      401,
      says('key ****abcd is bad', { type: 'authentication_error', code: 'invalid_api_key' }),
    )
    expect(String(cause)).toBe('Error: HTTP 401, type authentication_error, code invalid_api_key')
    expect(message).not.toContain('abcd')
  })

  it('end with an abort while their body is read', async () => {
    upstream.answer({ status: 500, pieces: ['{"err'], ending: 'hang' })
    const abort = new AbortController()
    const before = upstream.requests.length
    const asked = plain.outcome({}, { signal: abort.signal })
    await expect.poll(() => upstream.requests.length).toBe(before + 1)
    abort.abort(new Error('the client left'))
    await expect(asked).rejects.toThrow('the client left')
  })

  it('count even when their body breaks off', async () => {
    upstream.answer({ status: 401, pieces: ['{"err'], ending: 'reset' })
    expect((await plain.outcome({})).failure?.failure).toBe('upstream_auth')
  })
})

function says(message: string, rest: object = {}): object {
  return { error: { message, ...rest } }
}

/** The failure for an answer with this status and body. */
async function refusal(
  status: number,
  body: unknown,
  headers: Readonly<Record<string, string | undefined>> = {},
): Promise<UpstreamFailure> {
  const given = headers as Record<string, string>
  upstream.answer(
    typeof body === 'string'
      ? { status, headers: given, pieces: [body] }
      : json(body, status, given),
  )
  const { failure } = await plain.outcome({})
  expect(failure).toBeInstanceOf(UpstreamFailure)
  return failure!
}
