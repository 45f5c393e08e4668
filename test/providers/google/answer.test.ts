import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import google from '../../../providers/google.ts'
import type { ChatInput } from '../../../src/plugin.ts'
import {
  events,
  json,
  sse,
  startUpstream,
  type FakeResponse,
  type FakeUpstream,
} from '../../upstream.ts'
import { setUp, type Outcome, type Setup } from '../_chat.ts'

const FORMAT = 'google-gemini-v1'

let upstream: FakeUpstream
let setup: Setup

beforeAll(async () => {
  upstream = await startUpstream()
  setup = await setUp(google, { baseURL: upstream.url, apiKey: 'k' })
})

afterAll(async () => {
  await setup[Symbol.asyncDispose]()
  await upstream.close()
})

function outcome(answer: FakeResponse, input: Partial<ChatInput> = {}): Promise<Outcome> {
  upstream.answer(answer)
  return setup.outcome(input)
}

const streamed = (...payloads: unknown[]) => outcome(events(...payloads), { stream: true })
const whole = (payload: unknown, status?: number) => outcome(json(payload, status))

/** A payload with one candidate of these parts. */
const saying = (parts: object[], finishReason?: string, more: object = {}) => ({
  candidates: [
    { content: { role: 'model', parts }, ...(finishReason && { finishReason }), ...more },
  ],
  responseId: 'r1',
})

const THOUGHT = { text: 'Let me see. ', thought: true }

describe('thoughts', () => {
  const said = [
    saying([THOUGHT]),
    saying([{ text: 'Rome.', thought: true }]),
    saying([{ functionCall: { name: 'weather', args: { city: 'Rome' } }, thoughtSignature: 's1' }]),
    saying([{ functionCall: { name: 'clock', id: 'fc9' } }], 'STOP'),
  ]
  const expected = {
    content: null,
    reasoning: 'Let me see. Rome.',
    reasoning_details: [
      { type: 'reasoning.text', text: 'Let me see. Rome.', id: null, format: FORMAT, index: 0 },
      {
        type: 'reasoning.encrypted',
        data: 's1',
        id: expect.stringMatching(/^call_\w{24}$/),
        format: FORMAT,
        index: 1,
      },
    ],
    tool_calls: [
      {
        id: expect.stringMatching(/^call_\w{24}$/),
        type: 'function',
        function: { name: 'weather', arguments: '{"city":"Rome"}' },
      },
      { id: 'fc9', type: 'function', function: { name: 'clock', arguments: '{}' } },
    ],
  }

  it('are separate from the text, with the signature under the id of its call', async () => {
    const { completion } = await streamed(...said)
    const [{ message, finish_reason }] = completion.choices as [any]
    expect(message).toMatchObject(expected)
    expect(message.reasoning_details[1].id).toBe(message.tool_calls[0].id)
    expect(finish_reason).toBe('tool_calls')
  })

  it('are the same in a whole answer', async () => {
    const parts = said.flatMap(({ candidates }) => candidates[0]!.content.parts)
    const { completion } = await whole(saying(parts, 'STOP'))
    expect(completion.choices[0]!.message).toMatchObject(expected)
  })

  it('after a text are another block', async () => {
    const { completion } = await streamed(
      saying([THOUGHT]),
      saying([{ text: 'Well' }]),
      saying([THOUGHT, { text: ', hm.', thoughtSignature: 's2' }], 'STOP'),
    )
    const { content, reasoning_details } = completion.choices[0]!.message
    expect(content).toBe('Well, hm.')
    expect(reasoning_details).toMatchObject([
      { type: 'reasoning.text', index: 0 },
      { type: 'reasoning.text', index: 1 },
      { type: 'reasoning.encrypted', data: 's2', id: null, index: 2 },
    ])
  })
})

describe('answers', () => {
  it('may be several at once', async () => {
    const at = (index: number, text: string, finishReason?: string) => ({
      index,
      content: { parts: [{ text }] },
      finishReason,
    })
    const { completion } = await streamed(
      { candidates: [at(0, 'a'), at(1, 'b')] },
      { candidates: [at(1, 'B', 'MAX_TOKENS')] },
      { candidates: [at(0, 'A', 'STOP')] },
    )
    expect(completion.choices).toMatchObject([
      { index: 0, message: { content: 'aA' }, finish_reason: 'stop' },
      { index: 1, message: { content: 'bB' }, finish_reason: 'length' },
    ])
  })

  it.each([
    ['STOP', 'stop'],
    ['MAX_TOKENS', 'length'],
    ['RECITATION', 'content_filter'],
    ['PROHIBITED_CONTENT', 'content_filter'],
    ['IMAGE_SAFETY', 'content_filter'],
    ['A_NEW_REASON', 'stop'],
  ])('that end with %s end with %s', async (reason, expected) => {
    for (const { completion } of [
      await streamed(saying([{ text: 'x' }], 'FINISH_REASON_UNSPECIFIED'), saying([], reason)),
      await whole(saying([], reason)),
    ]) {
      expect(completion.choices[0]!.finish_reason).toBe(expected)
    }
  })

  it('leave out what the request did not ask for', async () => {
    const { completion } = await whole(
      saying(
        [
          { inlineData: { mimeType: 'audio/L16', data: 'AAAA' } },
          { inlineData: { mimeType: 'image/png', data: 'AAAA' }, thought: true },
          { text: 'x' },
        ],
        'STOP',
      ),
    )
    expect(completion.choices[0]!.message).toEqual({
      role: 'assistant',
      content: 'x',
      refusal: null,
    })
  })

  it('show code that the model ran, and what came of it', async () => {
    const parts = [
      { text: 'I count.' },
      { executableCode: { language: 'PYTHON', code: 'print(6 * 7)\n' } },
      { codeExecutionResult: { outcome: 'OUTCOME_OK', output: '42\n' } },
      { text: 'It is 42.' },
    ]
    const { completion } = await whole(saying(parts, 'STOP'))
    expect(completion.choices[0]!.message.content).toBe(
      'I count.\n```python\nprint(6 * 7)\n```\n\n```\n42\n```\nIt is 42.',
    )
  })

  it('are the arguments of the function that holds the answer, beside calls of others', async () => {
    const tool = { type: 'function', function: { name: 'weather' } }
    const json_schema = { name: 'a', schema: { type: 'object', properties: { a: {} } } }
    const input = { tools: [tool], response_format: { type: 'json_schema', json_schema } }
    const answer = { functionCall: { name: 'final_answer', args: { a: 1 } } }
    const call = { functionCall: { name: 'weather', args: {} } }
    const choice = async (parts: object[]) => {
      upstream.answer(json(saying(parts, 'STOP')))
      return (await setup.outcome(input, { model: 'gemini-2.5-flash' })).completion.choices[0]!
    }
    expect(await choice([answer])).toMatchObject({
      message: { content: '{"a":1}' },
      finish_reason: 'stop',
    })
    expect(await choice([call])).toMatchObject({
      message: { tool_calls: [{ function: { name: 'weather', arguments: '{}' } }] },
      finish_reason: 'tool_calls',
    })
  })

  it('have log probabilities', async () => {
    const token = (text: string, logProbability: number) => ({ token: text, logProbability })
    const { completion } = await whole(
      saying([{ text: 'né' }], 'STOP', {
        logprobsResult: {
          chosenCandidates: [token('né', -0.5)],
          topCandidates: [{ candidates: [token('né', -0.5), token('no', -2)] }],
        },
      }),
    )
    const bytes = [110, 195, 169]
    expect(completion.choices[0]!.logprobs).toEqual({
      content: [
        {
          token: 'né',
          logprob: -0.5,
          bytes,
          top_logprobs: [
            { token: 'né', logprob: -0.5, bytes },
            { token: 'no', logprob: -2, bytes: [110, 111] },
          ],
        },
      ],
      refusal: null,
    })
  })

  it('cite sources at their passages, in code points', async () => {
    const groundingMetadata = {
      webSearchQueries: ['a', 'b'],
      groundingChunks: [
        { web: { uri: 'https://a.example/', title: 'A' } },
        { web: { uri: 'https://b.example/' } },
      ],
      // Offsets count bytes; the emoji has four.
      groundingSupports: [{ segment: { startIndex: 5, endIndex: 10 }, groundingChunkIndices: [0] }],
    }
    const usageMetadata = { promptTokenCount: 1, candidatesTokenCount: 1 }
    const { completion, usage } = await streamed(saying([{ text: '😀 Par' }]), {
      ...saying([{ text: 'is.' }], 'STOP', { groundingMetadata }),
      usageMetadata,
    })
    const { content, annotations } = completion.choices[0]!.message
    const cited = (url: string, title: string, start_index: number, end_index: number) => ({
      type: 'url_citation',
      url_citation: { url, title, start_index, end_index },
    })
    expect(annotations).toEqual([
      cited('https://a.example/', 'A', 2, 7),
      cited('https://b.example/', '', 0, 0),
    ])
    expect(
      Array.from(content as string)
        .slice(2, 7)
        .join(''),
    ).toBe('Paris')
    expect(usage!.searches).toBe(2)
  })

  it('may come whole although a stream was requested', async () => {
    const { completion } = await outcome(json(saying([{ text: 'x' }], 'STOP')), { stream: true })
    expect(completion.choices[0]!.message.content).toBe('x')
  })
})

describe('arguments that come value by value', () => {
  const value = (jsonPath: string, rest: object) => ({ jsonPath, ...rest })
  const asked = (...partialArgs: object[]) =>
    streamed(
      saying([{ functionCall: { name: 'f', willContinue: true } }]),
      saying([{ functionCall: { partialArgs, willContinue: true } }]),
      saying([{ functionCall: {} }], 'STOP'),
    )

  it('have names, places and types', async () => {
    const { completion } = await asked(
      value('$.a.b', { stringValue: 'one', willContinue: true }),
      value('$.a.b', { stringValue: ' two' }),
      value("$.list[0]['it\\'s']", { numberValue: 0.5 }),
      value('$.list[1]', { boolValue: false }),
      value('$["n"]', { nullValue: 'NULL_VALUE' }),
      value('$.__proto__.x', { stringValue: 'y' }),
    )
    expect(completion.choices[0]!.message.tool_calls[0].function.arguments).toBe(
      '{"a":{"b":"one two"},"list":[{"it\'s":0.5},false],"n":null,"__proto__":{"x":"y"}}',
    )
    expect({}).not.toHaveProperty('x')
  })

  it.each(['$.a[4000000000]', 'a', '$', '$.a..b', '$[0]', `$${'.a'.repeat(65)}`])(
    'have no place at %s',
    async (path) => {
      const { failure } = await asked(value(path, { stringValue: 'x' }))
      expect(failure!.failure).toBe('upstream_error')
    },
  )
})

describe('usage', () => {
  it('counts tool prompts, audio and images', async () => {
    const { usage } = await whole({
      ...saying([{ text: 'x' }], 'STOP'),
      usageMetadata: {
        promptTokenCount: 100,
        cachedContentTokenCount: 40,
        toolUsePromptTokenCount: 7,
        candidatesTokenCount: 60,
        thoughtsTokenCount: 5,
        promptTokensDetails: [
          { modality: 'TEXT', tokenCount: 70 },
          { modality: 'AUDIO', tokenCount: 30 },
        ],
        cacheTokensDetails: [{ modality: 'AUDIO', tokenCount: 10 }],
        candidatesTokensDetails: [
          { modality: 'IMAGE', tokenCount: 50 },
          { modality: 'AUDIO', tokenCount: 2 },
        ],
      },
    })
    expect(usage).toEqual({
      prompt_tokens: 107,
      completion_tokens: 65,
      prompt_tokens_details: { cached_tokens: 40, cached_audio_tokens: 10, audio_tokens: 20 },
      completion_tokens_details: { reasoning_tokens: 5, audio_tokens: 2, image_tokens: 50 },
    })
  })

  it('is known whenever a stream breaks', async () => {
    const event = {
      ...saying([{ text: 'One' }]),
      usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 1, thoughtsTokenCount: 400 },
    }
    for (const ending of ['end', 'cut'] as const) {
      const { completion, usage, failure } = await outcome(
        { ...events(event), ending },
        { stream: true },
      )
      expect(failure!.failure).toBe('upstream_error')
      expect(completion.choices[0]!.message.content).toBe('One')
      expect(usage).toMatchObject({ prompt_tokens: 3, completion_tokens: 401 })
    }
  })
})

describe('failures', () => {
  const error = (code: number, status: string, message: string, details: object[] = []) => ({
    error: { code, status, message, details },
  })
  const reason = (name: string) => ({ '@type': 'google.rpc.ErrorInfo', reason: name })
  const quota = (quotaId: string) => ({ '@type': 'QuotaFailure', violations: [{ quotaId }] })
  const retry = (retryDelay: string) => ({ '@type': 'RetryInfo', retryDelay })

  it.each<[string, number, string, string, object?]>([
    ['upstream_auth', 400, 'INVALID_ARGUMENT', 'API key expired.', reason('API_KEY_INVALID')],
    ['upstream_auth', 400, 'FAILED_PRECONDITION', 'User location is not supported'],
    ['upstream_auth', 401, 'UNAUTHENTICATED', 'Token of robot@x.example has expired'],
    ['upstream_auth', 403, 'PERMISSION_DENIED', 'Project 123 has been denied'],
    ['upstream_balance', 429, 'RESOURCE_EXHAUSTED', 'Your prepayment credits are depleted.'],
    ['not_found', 404, 'NOT_FOUND', 'models/x is not found'],
    [
      'context_length',
      400,
      'INVALID_ARGUMENT',
      'The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).',
    ],
    ['payload_too_large', 400, 'INVALID_ARGUMENT', 'Request payload size exceeds the limit'],
    ['upstream_error', 500, 'INTERNAL', 'An internal error has occurred'],
    ['overloaded', 503, 'UNAVAILABLE', 'Come back later'],
    ['timeout', 504, 'DEADLINE_EXCEEDED', 'late'],
    ['bad_request', 400, 'INVALID_ARGUMENT', 'Invalid value at contents[0]'],
  ])('are %s: %i %s', async (expected, code, status, message, detail) => {
    const body = error(code, status, message, detail && [detail])
    const under200 = await streamed([body])
    for (const { failure } of [await whole(body, code), await whole([body], code), under200]) {
      expect(failure!.failure).toBe(expected)
      const shown = failure!.failure === 'bad_request'
      if (shown) expect(failure!.message).toBe(message)
      else expect(failure!.message).not.toContain(message)
    }
  })

  it.each([
    [2500, [retry('2.5s')], 'Slow down.'],
    [48_940, [], 'Please retry in 48.939935699s.'],
    [undefined, [], 'Slow down.'],
    [3_600_000, [quota('RequestsPerDayPerProject'), retry('20s')], 'Slow down.'],
  ] as const)('ask to wait %s ms', async (wait, details, message) => {
    const { failure } = await whole(error(429, 'RESOURCE_EXHAUSTED', message, [...details]), 429)
    expect(failure).toMatchObject({ failure: 'upstream_rate', status: 429 })
    expect(failure!.retryAfterMs).toBe(wait)
  })

  it('use the wait of a header, if there is one', async () => {
    const body = error(503, 'UNAVAILABLE', 'Come back later')
    const seconds = (await outcome(json(body, 503, { 'retry-after': '7' }))).failure!
    expect(seconds).toMatchObject({ failure: 'overloaded', retryAfterMs: 7000 })
    const date = new Date(Date.now() + 60_000).toUTCString()
    const until = (await outcome(json(body, 503, { 'retry-after': date }))).failure!
    expect(until.retryAfterMs).toBeGreaterThan(50_000)
  })

  it('show the error without project, address and key', async () => {
    const message =
      'Bad part, see https://x.example/p?a=1 in projects/secret-123/locations/eu, key AIzaSyD-1234'
    const { failure } = await whole(error(400, 'INVALID_ARGUMENT', message), 400)
    expect(failure!.message).toBe('Bad part, see […] in […] key […]')
  })

  it('follow from the status when nothing else can be read', async () => {
    const html = { status: 502, headers: { 'content-type': 'text/html' }, pieces: ['<p>Bad</p>'] }
    expect((await outcome(html)).failure!.failure).toBe('upstream_error')
    expect((await outcome({ ...html, status: 200 })).failure!.failure).toBe('upstream_error')
    expect((await outcome(sse('data: {\n\n'), { stream: true })).failure!.failure).toBe(
      'upstream_error',
    )
  })

  it.each([null, {}, { candidates: [] }, { candidates: {} }, { candidates: [null] }, 'x'])(
    'are answers that are none: %j',
    async (payload) => {
      expect((await whole(payload)).failure!.failure).toBe('upstream_error')
      expect((await streamed(payload)).failure!.failure).toBe('upstream_error')
    },
  )

  it.each(['MALFORMED_FUNCTION_CALL', 'UNEXPECTED_TOOL_CALL', 'OTHER', 'NO_IMAGE'])(
    'are answers that the model gave up: %s',
    async (finishReason) => {
      expect((await whole(saying([], finishReason))).failure!.failure).toBe('upstream_error')
      const { chunks, failure } = await streamed(saying([]), saying([], finishReason))
      expect(failure!.failure).toBe('upstream_error')
      expect(chunks, 'another deployment can still be asked').toEqual([])
    },
  )

  it('in the middle of a stream come after the output and its usage', async () => {
    const usageMetadata = { promptTokenCount: 3, candidatesTokenCount: 1 }
    const { completion, usage, failure } = await streamed(
      { ...saying([{ text: 'One' }]), usageMetadata },
      error(503, 'UNAVAILABLE', 'overloaded'),
    )
    expect(completion.choices[0]!.message.content).toBe('One')
    expect(usage).toMatchObject({ prompt_tokens: 3, completion_tokens: 1 })
    expect(failure!.failure).toBe('overloaded')
  })

  it('are prompts blocked before an answer; later blocks end the answer', async () => {
    const promptFeedback = { blockReason: 'SAFETY' }
    const { failure } = await streamed({ promptFeedback })
    expect(failure).toMatchObject({ code: 'content_policy_violation', status: 400 })
    const late = await streamed(saying([{ text: 'One' }]), { promptFeedback })
    expect(late.failure).toBeUndefined()
    expect(late.completion.choices[0]).toMatchObject({
      message: { content: 'One' },
      finish_reason: 'content_filter',
    })
  })
})
