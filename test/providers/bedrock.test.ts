import { EventStreamCodec } from '@smithy/eventstream-codec'
import * as fc from 'fast-check'
import { createHash, createHmac } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import bedrock from '../../providers/bedrock.ts'
import { readStream, readWhole } from '../../providers/bedrock/answer.ts'
import { readFrames } from '../../providers/bedrock/frames.ts'
import { UpstreamFailure } from '../../src/errors/errors.ts'
import { flowOf } from '../../src/stream/flow.ts'
import type { Host, ChatMessage } from '../../src/plugin.ts'
import {
  cutAt,
  json,
  startUpstream,
  type FakeResponse,
  type FakeUpstream,
  type ReceivedRequest,
} from '../upstream.ts'
import { setUp, type Setup } from './_chat.ts'
import { runs } from '../_runs.ts'

const codec = new EventStreamCodec(
  (bytes) => Buffer.from(bytes as Uint8Array).toString(),
  (text) => Buffer.from(text),
)
const stream = { stream: true }
const fail: Host['fail'] = (failure, text, options) => new UpstreamFailure(failure, text, options)

let upstream: FakeUpstream
let vendor: Setup

beforeAll(async () => {
  upstream = await startUpstream()
  vendor = await setUp(bedrock, { baseURL: upstream.url, region: 'us-east-1', apiKey: 'k' })
})

afterAll(async () => {
  await vendor[Symbol.asyncDispose]()
  await upstream.close()
})

function frame(type: string, payload: unknown, kind = 'event'): Uint8Array {
  const header = (value: string) => ({ type: 'string', value }) as const
  return codec.encode({
    headers: {
      ':message-type': header(kind),
      ...(kind === 'error'
        ? { ':error-code': header(type), ':error-message': header('x') }
        : { [`:${kind}-type`]: header(type) }),
      ':content-type': header('application/json'),
    },
    body: Buffer.from(JSON.stringify(payload)),
  })
}

const says = (delta: object, contentBlockIndex = 0) =>
  frame('contentBlockDelta', { contentBlockIndex, delta, p: 'abcdef' })
const opens = (contentBlockIndex: number, name: string, toolUseId: string) =>
  frame('contentBlockStart', { contentBlockIndex, start: { toolUse: { name, toolUseId } } })
const closes = (contentBlockIndex: number) => frame('contentBlockStop', { contentBlockIndex })
const stops = (stopReason: string) => frame('messageStop', { stopReason })
const USAGE = frame('metadata', { usage: { inputTokens: 3, outputTokens: 2, totalTokens: 5 } })

function binary(...pieces: Uint8Array[]): FakeResponse {
  return { headers: { 'content-type': 'application/vnd.amazon.eventstream' }, pieces }
}

function whole(content: object[], stopReason = 'end_turn'): FakeResponse {
  return json({ output: { message: { content } }, stopReason, usage: { inputTokens: 1 } })
}

async function outcome(...pieces: Uint8Array[]) {
  upstream.answer(binary(...pieces))
  return vendor.outcome(stream)
}

describe('options', () => {
  const valid = async (options: object) =>
    !(
      'issues' in (await bedrock.options['~standard'].validate({ region: 'eu-west-1', ...options }))
    )
  it('require one kind of credentials', async () => {
    const accessKeyId = 'AK'
    const secretAccessKey = 'secret'
    expect(await valid({ apiKey: 'k' })).toBe(true)
    expect(await valid({ accessKeyId, secretAccessKey })).toBe(true)
    expect(await valid({ accessKeyId, secretAccessKey, sessionToken: 't' })).toBe(true)
    expect(await valid({})).toBe(false)
    expect(await valid({ accessKeyId })).toBe(false)
    expect(await valid({ apiKey: 'k', accessKeyId, secretAccessKey })).toBe(false)
    expect(await valid({ apiKey: 'k', region: 'eu west' })).toBe(false)
  })
})

describe('authentication', () => {
  const KEY = { accessKeyId: 'AKIDEXAMPLE', secretAccessKey: 'wJalrXUtnFEMI/K7MDENG' }
  const model = 'us.anthropic.claude-sonnet-4-5-20250929-v1:0'

  it('is an API key', async () => {
    upstream.answer(whole([{ text: 'Hi' }]))
    await vendor.ask({})
    expect(upstream.requests.at(-1)!.headers.authorization).toBe('Bearer k')
  })

  it('is the signature that Amazon computes', async () => {
    const options = { baseURL: upstream.url, region: 'eu-west-1', ...KEY, sessionToken: 'token' }
    await using signed = await setUp(bedrock, options)
    upstream.answer(whole([{ text: 'Hi' }]))
    await signed.ask({ messages: [{ role: 'user', content: 'Grüße' }] }, { model })
    const seen = upstream.requests.at(-1)!
    expect(seen.headers['x-amz-security-token']).toBe('token')
    expect(seen.headers.authorization).toBe(authorization(seen, 'eu-west-1', KEY))
  })

  it('is repeated when the clock was wrong', async () => {
    await using signed = await setUp(bedrock, {
      baseURL: upstream.url,
      region: 'us-east-1',
      ...KEY,
    })
    const theirs = new Date(Date.now() + 3_600_000)
    const refusal = json({ message: 'Signature not yet current' }, 403, {
      'x-amzn-errortype': 'InvalidSignatureException',
      date: theirs.toUTCString(),
    })
    const count = upstream.requests.length
    upstream.answer(({ headers }) => {
      const hour = theirs.toISOString().replace(/[:-]/g, '').slice(0, 11)
      return String(headers['x-amz-date']).startsWith(hour) ? whole([{ text: 'Hi' }]) : refusal
    })
    const { completion } = await signed.outcome({}, { model })
    expect(completion.choices[0]!.message.content).toBe('Hi')
    await signed.outcome({}, { model })
    expect(upstream.requests.length - count).toBe(3)
    upstream.answer(refusal)
    const { failure } = await signed.outcome({}, { model })
    expect(failure).toMatchObject({ failure: 'upstream_auth', status: 502 })
    expect(upstream.requests.length - count).toBe(4)
  })
})

describe('frames', () => {
  const FRAMES = [says({ text: 'Grüße, 世界' }), stops('end_turn'), USAGE]
  const body = Buffer.concat(FRAMES)

  async function read(pieces: readonly Uint8Array[]) {
    const frames: unknown[] = []
    for await (const one of flowOf(...pieces).through(readFrames(fail))) frames.push(one)
    return frames
  }

  it('are the same wherever the bytes are split', async () => {
    const expected = await read([body])
    expect(expected).toHaveLength(3)
    expect(expected[0]).toEqual({
      kind: 'event',
      name: 'contentBlockDelta',
      payload: { contentBlockIndex: 0, delta: { text: 'Grüße, 世界' }, p: 'abcdef' },
    })
    expect(await read(Array.from(body, (byte) => Uint8Array.of(byte)))).toEqual(expected)
    const cuts = fc.array(fc.nat({ max: body.length }), { maxLength: 20 })
    await fc.assert(
      fc.asyncProperty(cuts, async (at) => {
        expect(await read(cutAt(body, at))).toEqual(expected)
      }),
      { numRuns: runs(70) },
    )
  })

  it('are rejected when any byte is damaged', async () => {
    const damage = fc.tuple(fc.nat({ max: body.length - 1 }), fc.integer({ min: 1, max: 255 }))
    await fc.assert(
      fc.asyncProperty(damage, async ([at, bits]) => {
        const damaged = Buffer.from(body)
        damaged[at]! ^= bits
        const [outcome] = await Promise.allSettled([read([damaged])])
        // A larger length field makes the rest of the stream one incomplete frame.
        if (outcome.status === 'fulfilled') expect(outcome.value.length).toBeLessThan(3)
        else expect(outcome.reason).toMatchObject({ failure: 'upstream_error' })
      }),
      { numRuns: runs(100) },
    )
    const answer = await outcome(FRAMES[0]!, Buffer.from('not a frame at all'))
    expect(answer.completion.choices[0]!.message.content).toBe('Grüße, 世界')
    expect(answer.failure!.failure).toBe('upstream_error')
  })

  it('make a truncated answer when some are missing', async () => {
    for (const ending of ['end', 'cut', 'reset'] as const) {
      upstream.answer({ ...binary(says({ text: 'a' }), USAGE.subarray(0, 30)), ending })
      const { failure } = await vendor.outcome(stream)
      expect(failure?.failure, ending).toBe('upstream_error')
    }
    expect((await outcome(says({ text: 'a' }), stops('end_turn'))).failure).toBeUndefined()
  })
})

describe('an answer in events', () => {
  it('has calls beside each other, with arguments or without', async () => {
    const { completion } = await outcome(
      says({ text: 'Let me see.' }),
      closes(0),
      opens(1, 'f', 't1'),
      says({ toolUse: { input: '' } }, 1),
      says({ toolUse: { input: '{"a":' } }, 1),
      says({ toolUse: { input: '"ü"}' } }, 1),
      closes(1),
      opens(2, 'g', 't2'),
      closes(2),
      stops('tool_use'),
      USAGE,
    )
    expect(completion.choices[0]).toMatchObject({
      message: {
        content: 'Let me see.',
        tool_calls: [
          { id: 't1', type: 'function', function: { name: 'f', arguments: '{"a":"ü"}' } },
          { id: 't2', type: 'function', function: { name: 'g', arguments: '{}' } },
        ],
      },
      finish_reason: 'tool_calls',
    })
  })

  it('has reasoning, redacted reasoning and a signature', async () => {
    upstream.answer(
      binary(
        says({ reasoningContent: { text: 'One' } }),
        says({ reasoningContent: { text: ' two.' } }),
        says({ reasoningContent: { signature: 'a+/b==' } }),
        says({ text: 'Hi' }, 1),
        says({ reasoningContent: { redactedContent: 'c+/d==' } }, 2),
        stops('end_turn'),
        USAGE,
      ),
    )
    const { completion } = await vendor.outcome(stream, { model: 'anthropic.claude-sonnet-5' })
    const format = 'anthropic-claude-v1'
    const text = 'One two.'
    expect(completion.choices[0]!.message).toMatchObject({
      content: 'Hi',
      reasoning: 'One two.',
      reasoning_details: [
        { type: 'reasoning.text', text, signature: 'a+/b==', format, id: null, index: 0 },
        { type: 'reasoning.encrypted', data: 'c+/d==', format, id: 'after-2-0', index: 1 },
      ],
    })
  })

  it.each([
    ['end_turn', 'stop'],
    ['stop_sequence', 'stop'],
    ['tool_use', 'stop'],
    ['max_tokens', 'length'],
    ['model_context_window_exceeded', 'length'],
    ['content_filtered', 'content_filter'],
    ['guardrail_intervened', 'content_filter'],
    ['something_new', 'stop'],
  ])('that ends with %s ends with %s', async (reason, finish) => {
    const { completion, usage } = await outcome(says({ text: 'a' }), stops(reason), USAGE)
    expect(completion.choices[0]!.finish_reason).toBe(finish)
    expect(usage).toMatchObject({ prompt_tokens: 3, completion_tokens: 2 })
  })

  it.each(['malformed_tool_use', 'malformed_model_output'])(
    'that ends with %s is a failure, and is counted',
    async (reason) => {
      const { failure, usage } = await outcome(says({ text: 'a' }), stops(reason), USAGE)
      expect(failure!.failure).toBe('upstream_error')
      expect(usage).toMatchObject({ completion_tokens: 2 })
    },
  )

  it.each([
    ['throttlingException', 'upstream_rate'],
    ['serviceUnavailableException', 'overloaded'],
    ['modelStreamErrorException', 'upstream_error'],
    ['internalServerException', 'upstream_error'],
    ['modelTimeoutException', 'timeout'],
    ['validationException', 'bad_request'],
    ['accessDeniedException', 'upstream_auth'],
    ['somethingNewException', 'upstream_error'],
  ])('that ends with %s is %s', async (name, failure) => {
    const exception = frame(name, { message: 'because of arn:aws:iam::1:role/x' }, 'exception')
    for (const before of [[], [says({ text: 'a' })]]) {
      const answer = await outcome(...before, exception)
      expect(answer.failure!.failure).toBe(failure)
      expect(answer.failure!.message).not.toMatch(/arn:|role/)
    }
  })

  it('that ends with an unknown error is a failure', async () => {
    const { failure } = await outcome(frame('InternalFailure', {}, 'error'))
    expect(failure!.failure).toBe('upstream_error')
  })

  it('counts what the cache keeps for an hour', async () => {
    const usage = {
      inputTokens: 3,
      outputTokens: 2,
      cacheReadInputTokens: 10,
      cacheWriteInputTokens: 30,
      cacheDetails: [
        { ttl: '5m', inputTokens: 18 },
        { ttl: '1h', inputTokens: 12 },
      ],
    }
    const answer = await outcome(
      says({ text: 'a' }),
      stops('end_turn'),
      frame('metadata', { usage }),
    )
    expect(answer.usage).toMatchObject({
      prompt_tokens: 43,
      prompt_tokens_details: {
        cached_tokens: 10,
        cache_write_tokens: 30,
        cache_write_1h_tokens: 12,
      },
    })
  })

  it('closes the vendor’s connection when the reader stops', async () => {
    upstream.answer({ ...binary(says({ text: 'a' })), ending: 'hang' })
    const controller = new AbortController()
    const count = upstream.requests.length
    const asked = vendor.ask(stream, { signal: controller.signal })
    await expect.poll(() => upstream.requests.length).toBe(count + 1)
    controller.abort(new Error('the client left'))
    await expect(asked).rejects.toThrow('the client left')
    expect(await upstream.requests.at(-1)!.aborted).toBe(true)
  })
})

describe('a conversation with tools', () => {
  const model = 'us.anthropic.claude-sonnet-4-5-20250929-v1:0'
  const tools = [{ type: 'function', function: { name: 'f' } }]

  it('sends every block back to Claude unchanged, turn after turn', async () => {
    const messages: ChatMessage[] = [{ role: 'user', content: 'a' }]
    const expected: object[] = [{ role: 'user', content: [{ text: 'a' }] }]
    for (const turn of [1, 2, 3]) {
      const signature = (place: string) => Buffer.from(`${place}${turn}\u00ff+/`).toString('base64')
      upstream.answer(
        binary(
          says({ reasoningContent: { text: ' One\n' } }),
          says({ reasoningContent: { text: 'two. ' } }),
          says({ reasoningContent: { signature: signature('first') } }),
          says({ text: 'Let me ' }, 1),
          says({ text: 'see.' }, 1),
          says({ reasoningContent: { redactedContent: signature('hidden') } }, 2),
          opens(3, 'f', `t${turn}`),
          says({ toolUse: { input: '{"n":' } }, 3),
          says({ toolUse: { input: `${turn}}` } }, 3),
          closes(3),
          stops('tool_use'),
          USAGE,
        ),
      )
      const { completion } = await vendor.outcome({ ...stream, messages, tools }, { model })
      expect(upstream.requests.at(-1)!.json.messages).toEqual(expected)
      const id = `t${turn}`
      messages.push(completion.choices[0]!.message, {
        role: 'tool',
        tool_call_id: id,
        content: 'b',
      })
      const reasoningText = { text: ' One\ntwo. ', signature: signature('first') }
      expected.push(
        {
          role: 'assistant',
          content: [
            { reasoningContent: { reasoningText } },
            { text: 'Let me see.' },
            { reasoningContent: { redactedContent: signature('hidden') } },
            { toolUse: { toolUseId: id, name: 'f', input: { n: turn } } },
          ],
        },
        { role: 'user', content: [{ toolResult: { toolUseId: id, content: [{ text: 'b' }] } }] },
      )
    }
  })
})

describe('a whole answer', () => {
  it('has the same content as a streamed one', async () => {
    upstream.answer(
      whole(
        [
          { reasoningContent: { reasoningText: { text: 'hm', signature: 's' } } },
          { text: 'Let me see.' },
          { toolUse: { toolUseId: 't1', name: 'f', input: { a: 1 } } },
        ],
        'tool_use',
      ),
    )
    const { completion } = await vendor.outcome({}, { model: 'anthropic.claude-sonnet-5' })
    expect(completion.choices[0]).toMatchObject({
      message: {
        content: 'Let me see.',
        reasoning_details: [{ text: 'hm', signature: 's', format: 'anthropic-claude-v1' }],
        tool_calls: [{ id: 't1', function: { name: 'f', arguments: '{"a":1}' } }],
      },
      finish_reason: 'tool_calls',
    })
  })

  it('keeps the digits of numbers in arguments', async () => {
    const block = '{"toolUse":{"toolUseId":"t1","name":"f","input":{"id":12345678901234567890}}}'
    upstream.answer({
      headers: { 'content-type': 'application/json' },
      pieces: [`{"output":{"message":{"content":[${block}]}},"stopReason":"tool_use"}`],
    })
    const { completion } = await vendor.outcome({})
    expect(completion.choices[0]!.message.tool_calls[0].function.arguments).toBe(
      '{"id":12345678901234567890}',
    )
  })

  it('may have citations, or no content at all', async () => {
    const location = { web: { url: 'https://example.com/', domain: 'example.com' } }
    const citations = [
      { title: 'One', location },
      { title: 'Two', location: { documentChar: {} } },
    ]
    upstream.answer(whole([{ citationsContent: { content: [{ text: 'So.' }], citations } }]))
    const cited = await vendor.outcome({})
    expect(cited.completion.choices[0]!.message).toMatchObject({
      content: 'So.',
      annotations: [
        { type: 'url_citation', url_citation: { url: 'https://example.com/', title: 'One' } },
      ],
    })
    upstream.answer(whole([]))
    expect((await vendor.outcome({})).completion.choices[0]).toMatchObject({
      message: { content: '' },
      finish_reason: 'stop',
    })
  })

  it.each([
    ['a web page', { headers: { 'content-type': 'text/html' }, pieces: ['<html>Sign in</html>'] }],
    ['half a JSON text', { headers: { 'content-type': 'application/json' }, pieces: ['{"out'] }],
    ['JSON that is no answer', json({ message: 'hello' })],
    ['null', json(null)],
  ])('that is %s is a failure of the vendor', async (_name, answer) => {
    upstream.answer(answer)
    for (const input of [{}, stream]) {
      expect((await vendor.outcome(input)).failure!.failure).toBe('upstream_error')
    }
  })
})

describe('an answer through a tool', () => {
  const response_format = {
    type: 'json_schema',
    json_schema: { name: 'x', schema: { type: 'object' } },
  }
  const model = 'amazon.nova-pro-v1:0'

  it('is the answer, without other text', async () => {
    upstream.answer(
      binary(
        says({ text: 'I will call the tool.' }),
        opens(1, 'json_answer', 't1'),
        says({ toolUse: { input: '{"a":' } }, 1),
        says({ toolUse: { input: '1}' } }, 1),
        closes(1),
        stops('tool_use'),
        USAGE,
      ),
    )
    const { completion } = await vendor.outcome({ ...stream, response_format }, { model })
    expect(completion.choices[0]).toMatchObject({
      message: { content: '{"a":1}' },
      finish_reason: 'stop',
    })
    expect(completion.choices[0]!.message).not.toHaveProperty('tool_calls')
  })

  it('may be a refusal in text', async () => {
    upstream.answer(whole([{ text: 'I would rather not.' }]))
    const { completion } = await vendor.outcome({ response_format }, { model })
    expect(completion.choices[0]!.message.content).toBe('I would rather not.')
  })
})

describe('errors', () => {
  it.each([
    [400, 'ValidationException', 'Malformed input request', 'bad_request', 400],
    [400, 'ValidationException', 'Input is too long for requested model.', 'context_length', 400],
    [400, 'ValidationException', 'prompt is too long: 9 tokens > 8 maximum', 'context_length', 400],
    [
      400,
      'ValidationException',
      'Invocation with on-demand throughput isn’t supported',
      'not_found',
      502,
    ],
    [400, 'ServiceQuotaExceededException', 'x', 'upstream_rate', 429],
    [401, '', 'x', 'upstream_auth', 502],
    [
      403,
      'AccessDeniedException',
      'User arn:aws:iam::1:user/x is not authorized',
      'upstream_auth',
      502,
    ],
    [403, 'ExpiredTokenException', 'x', 'upstream_auth', 502],
    [404, 'ResourceNotFoundException:http://internal.amazon.com/', 'x', 'not_found', 502],
    [408, 'ModelTimeoutException', 'x', 'timeout', 504],
    [424, 'ModelErrorException', 'x', 'upstream_error', 502],
    [429, 'ModelNotReadyException', 'x', 'upstream_rate', 429],
    [500, 'InternalServerException', 'x', 'upstream_error', 502],
    [503, 'ServiceUnavailableException', 'x', 'overloaded', 503],
    [502, '', '<html>', 'upstream_error', 502],
  ])('%i %s "%s" is %s', async (status, type, message, failure, shown) => {
    const errors = [
      json({ message }, status, { 'x-amzn-errortype': type }),
      json({ Message: message, __type: `com.amazon.coral.service#${type}` }, status),
    ]
    for (const error of errors) {
      upstream.answer(error)
      const outcome = await vendor.outcome(stream)
      expect(outcome.failure).toMatchObject({ failure, status: shown })
      expect(outcome.failure!.message).not.toMatch(/arn:|html|amazon/)
    }
  })

  it('of the client show Amazon’s message', async () => {
    upstream.answer(
      json({ message: 'The value at messages.0 is blank, see https://x.example.' }, 400),
    )
    expect((await vendor.outcome({})).failure!.message).toBe(
      'The value at messages.0 is blank, see […]',
    )
  })
})

describe('any payload of Amazon', () => {
  it('is either an answer or a failure', async () => {
    const anything = fc.jsonValue({ maxDepth: 3 })
    const members = (...names: string[]) =>
      fc.record(Object.fromEntries(names.map((name) => [name, anything])), { requiredKeys: [] })
    const block = fc.oneof(
      anything,
      members('text', 'toolUse', 'reasoningContent', 'citationsContent', 'citation'),
      fc.record({ toolUse: members('input', 'name', 'toolUseId') }),
      fc.record({ citationsContent: members('content', 'citations') }),
    )
    const event = fc.oneof(
      anything,
      fc.record({ contentBlockIndex: fc.nat({ max: 2 }), delta: block, start: block }),
      members('stopReason', 'usage', 'message'),
    )
    const frames = fc.array(
      fc.record({
        kind: fc.constantFrom('event', 'event', 'event', 'exception', 'error'),
        name: fc.constantFrom(
          'contentBlockStart',
          'contentBlockDelta',
          'contentBlockStop',
          'messageStop',
          'metadata',
          'x',
        ),
        payload: event,
      }),
      { maxLength: 5 },
    )
    const content = fc.oneof(anything, fc.array(block, { maxLength: 3 }))
    // An object that cannot be converted to a string.
    const delta = { toolUse: { input: { toString: null } } }
    const unreadable = {
      kind: 'event' as const,
      name: 'contentBlockDelta' as const,
      payload: { contentBlockIndex: 0, delta } as never,
    }
    await fc.assert(
      fc.asyncProperty(frames, content, async (events, blocks) => {
        const expected = { tags: undefined, signsReasoning: true, answerTool: undefined, fail }
        const read = async () => {
          for await (const _ of flowOf(...events).through(readStream(expected)));
        }
        const answer = { output: { message: { content: blocks } } }
        const outcomes = [read(), (async () => readWhole(answer, expected))()]
        for (const result of await Promise.allSettled(outcomes)) {
          if (result.status === 'rejected') expect(result.reason).toBeInstanceOf(UpstreamFailure)
        }
      }),
      { numRuns: runs(170), examples: [[[unreadable], []]] },
    )
  })
})

/** Signature Version 4, implemented from Amazon's description. */
function authorization(
  { method, path, headers, body }: ReceivedRequest,
  region: string,
  key: { accessKeyId: string; secretAccessKey: string },
): string {
  const sha256 = (text: string | Buffer) => createHash('sha256').update(text).digest('hex')
  const hmac = (secret: string | Buffer, text: string) =>
    createHmac('sha256', secret).update(text).digest()
  const names = ['host', 'x-amz-date', 'x-amz-security-token']
  const date = String(headers['x-amz-date'])
  const scope = `${date.slice(0, 8)}/${region}/bedrock/aws4_request`
  const canonical = [
    method,
    path.split('/').map(encodeURIComponent).join('/'),
    '',
    ...names.map((name) => `${name}:${String(headers[name])}`),
    '',
    names.join(';'),
    sha256(body),
  ].join('\n')
  const toSign = ['AWS4-HMAC-SHA256', date, scope, sha256(canonical)].join('\n')
  const signing = [date.slice(0, 8), region, 'bedrock', 'aws4_request'].reduce<string | Buffer>(
    hmac,
    `AWS4${key.secretAccessKey}`,
  )
  const signature = hmac(signing as Buffer, toSign).toString('hex')
  return `AWS4-HMAC-SHA256 Credential=${key.accessKeyId}/${scope}, SignedHeaders=${names.join(';')}, Signature=${signature}`
}
