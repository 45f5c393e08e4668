import * as fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import openaiCompatible from '../../providers/openai-compatible.ts'
import { readChunks, readCompletion } from '../../providers/openai-compatible/answer.ts'
import { quirksOf } from '../../providers/openai-compatible/rows.ts'
import type { VendorProfile } from '../../providers/openai-compatible/quirks.ts'
import { UpstreamFailure } from '../../src/errors/errors.ts'
import { flowOf } from '../../src/stream/flow.ts'
import type { ChatChunk } from '../../src/plugin.ts'
import {
  events,
  json,
  sse,
  startUpstream,
  type FakeResponse,
  type FakeUpstream,
} from '../upstream.ts'
import { setUp, type RequestOptions, type Setup } from './_chat.ts'
import { runs } from '../_runs.ts'

let upstream: FakeUpstream
let plain: Setup

beforeAll(async () => {
  upstream = await startUpstream()
  plain = await setUp(openaiCompatible, { baseURL: `${upstream.url}/v1/` })
})

afterAll(async () => {
  await plain[Symbol.asyncDispose]()
  await upstream.close()
})

const stream = { stream: true }
const says = (delta: object, rest: object = {}) => ({ choices: [{ index: 0, delta, ...rest }] })
const STOP = says({}, { finish_reason: 'stop' })
const USAGE = { prompt_tokens: 7, completion_tokens: 5, total_tokens: 12 }
const ANSWER = {
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
  usage: USAGE,
}

async function row(quirks: string): Promise<Setup> {
  return setUp(openaiCompatible, { baseURL: upstream.url, quirks })
}

async function message(how: RequestOptions = {}): Promise<any> {
  const { completion, failure } = await plain.outcome(stream, how)
  expect(failure).toBeUndefined()
  return completion.choices[0]!.message
}

describe('options', () => {
  it('require an address and know all rows of the table', async () => {
    expect(await isValid({ baseURL: 'http://127.0.0.1:8000/v1' })).toBe(true)
    expect(await isValid({ baseURL: 'http://127.0.0.1:8000/v1', quirks: 'vllm' })).toBe(true)
    expect(await isValid({ baseURL: '127.0.0.1' })).toBe(false)
    expect(await isValid({ baseURL: 'http://127.0.0.1', quirks: 'unknown' })).toBe(false)
    expect(await isValid({ baseURL: 'http://127.0.0.1', apikey: 'x' })).toBe(false)
  })
})

describe('whole answers', () => {
  it('have text, finish reason and usage', async () => {
    upstream.answer(json(ANSWER))
    const { completion, usage } = await plain.outcome({})
    expect(completion.choices[0]).toMatchObject({
      message: { role: 'assistant', content: 'Hi' },
      finish_reason: 'stop',
    })
    expect(usage).toMatchObject({ prompt_tokens: 7, completion_tokens: 5 })
  })

  it('have their whole usage without a finish reason, too', async () => {
    const [choice] = ANSWER.choices
    upstream.answer(json({ ...ANSWER, choices: [{ ...choice, finish_reason: null }] }))
    const [chunk] = await plain.ask({})
    expect(chunk).toMatchObject({ usage: { prompt_tokens: 7, completion_tokens: 5 } })
    expect(chunk).not.toHaveProperty('usageIsPartial')
  })

  it('may follow blank lines', async () => {
    upstream.answer({ pieces: ['\n\n', '\r\n   \n', JSON.stringify(ANSWER)] })
    expect((await plain.outcome({})).completion.choices[0]!.message.content).toBe('Hi')
  })

  it('drop the vendor’s own members', async () => {
    upstream.answer(
      json({
        ...ANSWER,
        provider: 'Another',
        x_groq: { id: 'req_secret' },
        system_prompt: 'hidden',
        choices: [{ ...ANSWER.choices[0], native_finish_reason: 'end', matched_stop: 2 }],
      }),
    )
    const [chunk] = await plain.ask({})
    expect(JSON.stringify(chunk)).not.toMatch(/Another|secret|hidden|native|matched/)
  })

  it('may hold several choices with log probabilities', async () => {
    const logprobs = { content: [{ token: 'a', logprob: -1, bytes: null, top_logprobs: [] }] }
    const choice = (index: number) => ({
      index,
      message: { content: `answer ${index}` },
      logprobs,
      finish_reason: 'stop',
    })
    upstream.answer(json({ choices: [choice(0), choice(1)] }))
    const { completion } = await plain.outcome({ n: 2 })
    expect(completion.choices.map((one) => one.message.content)).toEqual(['answer 0', 'answer 1'])
    expect(completion.choices[1]!.logprobs.content).toEqual(logprobs.content)
  })

  it('are accepted when a stream was requested, and the other way round', async () => {
    upstream.answer(json(ANSWER))
    expect((await message()).content).toBe('Hi')
    upstream.answer(events(says({ content: 'Hi' }), STOP, '[DONE]'))
    expect((await plain.outcome({})).completion.choices[0]!.message.content).toBe('Hi')
  })

  it.each([
    ['a web page', { headers: { 'content-type': 'text/html' }, pieces: ['<html>Sign in</html>'] }],
    ['half a JSON text', { headers: { 'content-type': 'application/json' }, pieces: ['{"cho'] }],
    ['JSON that is no answer', json({ id: 'chatcmpl-1' })],
    ['no choice', json({ choices: [] })],
    ['null', json(null)],
  ])('that are %s are a failure of the vendor', async (_name, answer) => {
    upstream.answer(answer)
    for (const input of [{}, stream]) {
      const { failure } = await plain.outcome(input)
      expect(failure?.failure).toBe('upstream_error')
    }
  })

  it('that hold an error under status 200 are that error', async () => {
    upstream.answer(json({ error: { message: 'Overloaded', type: 'overloaded_error' } }))
    expect((await plain.outcome({})).failure?.failure).toBe('overloaded')
  })
})

describe('streams', () => {
  it('may have CRLF, comments, ids, retry times, data in several lines and no blank line at the end', async () => {
    upstream.answer(
      sse(
        ': hello\r\n\r\nid: 1\r\nretry: 10\r\ndata:{"choices":[{"index":0,\r\ndata: "delta":{"content":"Hé"}}]}\r\n\r\n' +
          `: still there\r\ndata: ${JSON.stringify(STOP)}\r\n\r\ndata: [DONE]`,
      ),
    )
    expect((await message()).content).toBe('Hé')
  })

  it('may end with [DONE] alone', async () => {
    upstream.answer(events(says({ content: 'Hi' }), '[DONE]'))
    const { completion, failure } = await plain.outcome(stream)
    expect(failure).toBeUndefined()
    expect(completion.choices[0]).toMatchObject({
      message: { content: 'Hi' },
      finish_reason: 'stop',
    })
  })

  it('may end without [DONE], with a finish reason or with usage', async () => {
    upstream.answer(events(says({ content: 'a' }), STOP))
    expect((await message()).content).toBe('a')
    upstream.answer(events(says({ content: 'a' }), { choices: [], usage: USAGE }))
    expect((await message()).content).toBe('a')
    upstream.answer(events(says({ content: 'a' }), { ...says({}), object: 'chat.completion.done' }))
    expect((await message()).content).toBe('a')
  })

  it('may have no usage', async () => {
    upstream.answer(events(says({ content: 'a' }), STOP, '[DONE]'))
    expect((await plain.outcome(stream)).usage).toBeUndefined()
    const nothing = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }
    upstream.answer(events(says({ content: 'a' }), { ...STOP, usage: nothing }, '[DONE]'))
    expect((await plain.outcome(stream)).usage).toBeUndefined()
  })

  it('may break every convention', async () => {
    upstream.answer(
      events(
        { id: '', choices: [], prompt_filter_results: [] },
        { choices: null, usage: null },
        { choices: [{ index: 0 }] },
        { choices: [{ index: 0, delta: null, finish_reason: '' }] },
        says({ role: '', content: null, refusal: null, tool_calls: null, reasoning: null }),
        says({ role: 'assistant', content: 'ok', annotations: null, reasoning_details: [] }),
        says({ role: 'assistant', content: '' }, { finish_reason: 'stop' }),
        { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage: USAGE },
        '[DONE]',
      ),
    )
    expect(await message()).toEqual({ role: 'assistant', content: 'ok', refusal: null })
  })

  it('emit nothing before the first content', async () => {
    upstream.answer(events(says({ role: 'assistant', content: '' }), says({ content: 'a' }), STOP))
    const [first] = await plain.ask(stream)
    expect(first!.choices[0]!.delta).toEqual({ content: 'a' })
  })

  it('count reasoning once when it comes under two names', async () => {
    upstream.answer(
      events(
        says({ reasoning: 'hm', reasoning_content: 'hm' }),
        says({ reasoning: ', well', content: '' }),
        says({ reasoning_content: '.', reasoning: '' }),
        says({ content: 'yes' }),
        STOP,
      ),
    )
    expect(await message()).toMatchObject({ reasoning: 'hm, well.', content: 'yes' })
  })

  it('start a new block when the model reasons again', async () => {
    upstream.answer(
      events(
        says({ reasoning_content: 'first' }),
        says({ content: 'One. ' }),
        says({ reasoning_content: 'sec' }),
        says({ reasoning_content: 'ond' }),
        says({ content: 'Two.' }),
        STOP,
      ),
    )
    const { reasoning_details } = await message()
    expect(reasoning_details.map((one: any) => [one.index, one.text])).toEqual([
      [0, 'first'],
      [1, 'second'],
    ])
  })

  it('put a blank line between the parts of a summary, and show no encrypted reasoning', async () => {
    const detail = (entry: object) => says({ reasoning_details: [entry] })
    upstream.answer(
      events(
        detail({ type: 'reasoning.summary', summary: '**One**', index: 0, format: 'unknown-v9' }),
        detail({ type: 'reasoning.summary', summary: ' more', index: 0 }),
        detail({ type: 'reasoning.summary', summary: '**Two**', index: 1 }),
        detail({ type: 'reasoning.encrypted', data: 'gAAAA', index: 2, id: 'rs_1' }),
        detail({ type: 'reasoning.telepathy', data: '?', index: 3 }),
        says({ content: 'yes' }),
        STOP,
      ),
    )
    const { reasoning, reasoning_details } = await message()
    expect(reasoning).toBe('**One** more\n\n**Two**')
    expect(reasoning_details).toHaveLength(3)
    expect(reasoning_details[0].format).toBe('unknown')
    const id = 'up:reasoning_details#rs_1'
    expect(reasoning_details[2]).toMatchObject({ data: 'gAAAA', id, index: 2 })
  })

  it('accept tool arguments as an object, and several calls under one index', async () => {
    const call = (id: string, city: string) => ({
      index: 0,
      id,
      type: 'function',
      function: { name: 'weather', arguments: { city } },
    })
    upstream.answer(
      events(says({ tool_calls: [call('a', 'Rome'), call('b', 'Oslo')] }), STOP, '[DONE]'),
    )
    const { completion } = await plain.outcome(stream)
    const { message, finish_reason } = completion.choices[0]!
    expect(message.tool_calls.map((one: any) => one.function.arguments)).toEqual([
      '{"city":"Rome"}',
      '{"city":"Oslo"}',
    ])
    expect(finish_reason).toBe('tool_calls')
  })

  it('accept flat citations, and drop those without a URL', async () => {
    const annotations = [
      { type: 'url_citation', url: 'https://example.com/', start_index: 1, end_index: 3 },
      { type: 'file', file: { hash: 'x' } },
    ]
    upstream.answer(events(says({ content: 'see' }), says({ annotations }), STOP))
    expect((await message()).annotations).toEqual([
      {
        type: 'url_citation',
        url_citation: { url: 'https://example.com/', title: '', start_index: 1, end_index: 3 },
      },
    ])
  })

  it('count running totals of usage once, and never as the end', async () => {
    const at = (completion_tokens: number, content: string) => ({
      ...says({ content }),
      usage: { prompt_tokens: 7, completion_tokens },
    })
    upstream.answer(events(at(1, 'a'), at(2, 'b'), at(3, 'c'), '[DONE]'))
    const chunks = await plain.ask(stream)
    const counts = (partial: boolean) =>
      chunks.flatMap(({ usage, usageIsPartial = false }) =>
        usage && usageIsPartial === partial ? [usage.completion_tokens] : [],
      )
    expect([counts(true), counts(false)]).toEqual([[1, 2, 3], [3]])
    upstream.answer(events(at(1, 'a'), at(2, 'b')))
    const cut = await plain.outcome(stream)
    expect(cut.failure?.message).toMatch(/closed the stream early/)
    expect(cut.usage?.completion_tokens).toBe(2)
    const { choices: _, ...empty } = at(0, '')
    upstream.answer(events({ ...empty, choices: [] }, { error: { message: 'x', code: 500 } }))
    expect((await plain.outcome(stream)).usage).toBeUndefined()
  })

  it('are a failure of the vendor when truncated, reset or invalid, after the output so far', async () => {
    const [piece] = events(says({ content: 'a' })).pieces as [string]
    for (const ending of ['end', 'cut', 'reset'] as const) {
      upstream.answer({ ...sse(piece), ending })
      const { completion, failure } = await plain.outcome(stream)
      expect(failure?.failure, ending).toBe('upstream_error')
      expect(completion.choices[0]!.message.content, ending).toBe('a')
    }
    for (const garbage of ['{"choices":[{"index":0', 'not json', '"text"', '17', 'null']) {
      upstream.answer(events(says({ content: 'a' }), garbage, '[DONE]'))
      const { failure } = await plain.outcome(stream)
      expect(failure?.failure, garbage).toBe('upstream_error')
    }
  })

  it.each([
    [{ error: { message: 'x', type: 'server_error', code: null } }, 'upstream_error'],
    [{ error: { message: 'x', code: 429 } }, 'upstream_rate'],
    [{ error: { message: 'x', type: 'rate_limit_error' } }, 'upstream_rate'],
    [{ error: 'The model has crashed' }, 'upstream_error'],
    [{ error: { message: 'x', type: 'invalid_request_error' } }, 'bad_request'],
    [{ object: 'error', message: 'x', type: 'InternalServerError', code: 500 }, 'upstream_error'],
    [{ message: 'Service busy', code: 503 }, 'overloaded'],
    [{ detail: 'x' }, 'upstream_error'],
    [says({}, { finish_reason: 'error' }), 'upstream_error'],
    [says({}, { finish_reason: 'insufficient_system_resource' }), 'upstream_error'],
  ])('end with the failure of an error event: %j', async (payload, failure) => {
    for (const before of [[], [says({ content: 'a' })]]) {
      upstream.answer(events(...before, payload, '[DONE]'))
      const outcome = await plain.outcome(stream)
      expect(outcome.failure?.failure).toBe(failure)
      expect(outcome.completion.choices[0]?.message.content ?? '').toBe(before.length ? 'a' : '')
    }
  })

  it('report the usage of an error only after output', async () => {
    const error = { ...says({}), error: { message: 'x', code: 502 }, usage: USAGE }
    upstream.answer(events(says({ content: 'a' }), error))
    expect((await plain.outcome(stream)).usage).toMatchObject({ completion_tokens: 5 })
    upstream.answer(events(says({ role: 'assistant', content: '' }), error))
    expect((await plain.outcome(stream)).usage).toBeUndefined()
  })

  it('read as an error event by its payload', async () => {
    upstream.answer(sse('event: error\ndata: {"error":{"message":"x","status_code":503}}\n\n'))
    expect((await plain.outcome(stream)).failure?.failure).toBe('overloaded')
  })

  it('keep the choices of n apart', async () => {
    const at = (index: number, content: string, rest = {}) => ({
      choices: [{ index, delta: { content }, ...rest }],
    })
    upstream.answer(
      events(
        at(1, 'b'),
        at(0, 'a'),
        at(1, 'B', { finish_reason: 'stop' }),
        at(0, 'A', { finish_reason: 'length' }),
      ),
    )
    const { completion } = await plain.outcome({ ...stream, n: 2 })
    expect(completion.choices.map((one) => [one.message.content, one.finish_reason])).toEqual([
      ['aA', 'length'],
      ['bB', 'stop'],
    ])
  })

  it('close the vendor’s connection when the reader stops', async () => {
    upstream.answer({ ...events(says({ content: 'a' })), ending: 'hang' })
    const chat = await plain.provider.chat!({
      input: { messages: [], stream: true },
      model: 'm',
      options: {},
      requestId: 'req_test',
      signal: new AbortController().signal,
      log: undefined as never,
    })
    for await (const chunk of chat as AsyncIterable<ChatChunk>) {
      expect(chunk.choices[0]!.delta!.content).toBe('a')
      break
    }
    expect(await upstream.requests.at(-1)!.aborted).toBe(true)
  })

  it('close the vendor’s connection when the call is aborted', async () => {
    upstream.answer({ ...events(says({ content: 'a' })), ending: 'hang' })
    const { signal, abort } = abortable()
    const asked = plain.ask(stream, { signal })
    await expect.poll(() => upstream.requests.at(-1)?.json.stream).toBe(true)
    abort()
    await expect(asked).rejects.toThrow('the client left')
    expect(await upstream.requests.at(-1)!.aborted).toBe(true)
  })
})

describe('any payload of a vendor', () => {
  it('is either an answer or a failure', async () => {
    const fail: VendorProfile['fail'] = (failure, text, options) =>
      new UpstreamFailure(failure, text, options)
    const anything = fc.jsonValue({ maxDepth: 3 })
    const members = (...names: string[]) =>
      fc.record(Object.fromEntries(names.map((name) => [name, anything])), { requiredKeys: [] })
    const delta = members(
      'content',
      'reasoning',
      'reasoning_details',
      'tool_calls',
      'annotations',
      'refusal',
    )
    const choice = fc.oneof(
      anything,
      fc.record({ index: fc.constantFrom(0, 1), delta, message: delta, finish_reason: anything }),
    )
    const payload = fc.oneof(
      anything,
      members('error', 'message', 'detail', 'usage', 'choices', 'citations', 'x_groq'),
      fc.record({
        choices: fc.array(choice, { maxLength: 3 }),
        usage: anything,
        search_results: anything,
      }),
      fc.record({ error: members('message', 'code', 'type', 'metadata', 'details', 'param') }),
    )
    await fc.assert(
      fc.asyncProperty(fc.array(payload, { maxLength: 4 }), async (payloads) => {
        const profile: VendorProfile = { quirks: quirksOf(undefined), tags: 'tags', fail }
        const read = async () => {
          const flow = flowOf(...payloads.filter((one) => one !== null))
          for await (const _ of flow.through(readChunks(profile)));
        }
        const outcomes = [read(), ...payloads.map(async (one) => readCompletion(one, profile))]
        for (const result of await Promise.allSettled(outcomes)) {
          if (result.status === 'rejected') expect(result.reason).toBeInstanceOf(UpstreamFailure)
        }
      }),
      { numRuns: runs(170) },
    )
  })
})

describe('an answer with one text', () => {
  it('is read like the same text in parts, with all other members', () => {
    const fail: VendorProfile['fail'] = (failure, text, options) =>
      new UpstreamFailure(failure, text, options)
    const nothing = fc.constantFrom(null, undefined, [], '')
    const beside = fc.record(
      {
        role: nothing,
        refusal: fc.oneof(nothing, fc.constant('No.')),
        reasoning: fc.oneof(nothing, fc.constant('Hm.')),
        reasoning_content: nothing,
        reasoning_details: nothing,
        tool_calls: fc.oneof(nothing, fc.constant([{ id: 'a', function: { name: 'add' } }])),
        annotations: fc.oneof(nothing, fc.constant([{ url: 'https://example.com' }])),
        vendor_member: fc.constant(1),
      },
      { requiredKeys: [] },
    )
    const counted = fc.constantFrom(null, undefined, 0, { prompt_tokens: 3, completion_tokens: 4 })
    const answer = fc.record(
      {
        object: fc.constantFrom('chat.completion', 'chat.completion.done'),
        usage: counted,
        x_groq: fc.constantFrom(null, { usage: { prompt_tokens: 5, completion_tokens: 6 } }),
        system_fingerprint: fc.constantFrom(null, '', 'fp_1'),
        service_tier: fc.constantFrom(null, 'default'),
        search_results: fc.constantFrom(null, [], [{ url: 'https://example.com/[1]' }]),
        citations: fc.constantFrom(null, []),
      },
      { requiredKeys: [] },
    )
    const choice = fc.record(
      {
        index: fc.constantFrom(undefined, 0, 1),
        finish_reason: fc.constantFrom(null, '', 'stop', 'length'),
        logprobs: fc.constantFrom(null, { content: [] }),
        usage: counted,
      },
      { requiredKeys: [] },
    )
    const rows = fc.constantFrom(undefined, 'mistral', 'perplexity', 'google', 'xai')
    const content = fc.constantFrom('', 'Hi.', 'See [1].', '<think>Hm.</think>Hi.')
    const tags = fc.constantFrom(undefined, 'tags')
    const all = [answer, choice, beside, content, rows, tags] as const
    fc.assert(
      fc.property(...all, (around, about, said, text, row, tagged) => {
        const quirks = quirksOf(row as never)
        const profile = { quirks, tags: tagged, fail } as VendorProfile
        const payload = (content: unknown) => ({
          ...around,
          choices: [{ ...about, message: { ...said, content } }],
        })
        const inParts = payload([{ type: 'text', text }])
        expect(readCompletion(payload(text), profile)).toEqual(readCompletion(inParts, profile))
      }),
      { numRuns: runs(700) },
    )
  })
})

describe('members of a wrong type', () => {
  it.each([
    { error: { code: { toString: false } } },
    { error: { status: { valueOf: null, toString: null } } },
    { choices: [{ delta: { refusal: { toString: null } } }] },
    { choices: [], usage: { cost: 1, cost_details: { upstream_inference_cost: { toString: 1 } } } },
  ])('are a failure or nothing: %j', async (payload) => {
    const fail: VendorProfile['fail'] = (failure, message) => new UpstreamFailure(failure, message)
    const read = async () => {
      const profile: VendorProfile = { quirks: quirksOf(undefined), tags: 'tags', fail }
      for await (const _ of flowOf<any>(payload).through(readChunks(profile)));
    }
    await read().catch((error: unknown) => expect(error).toBeInstanceOf(UpstreamFailure))
  })
})

describe('reasoning in tags', () => {
  const asTags = { options: { reasoning: 'tags' } }
  it('are part of the text unless the deployment says otherwise', async () => {
    upstream.answer(answer('<think>hm</think>', 'yes'))
    expect((await message()).content).toBe('<think>hm</think>yes')
  })

  it('is removed from the text of streams and whole answers', async () => {
    upstream.answer(answer('\n<thi', 'nk>hm', '</think', '>\n\n', ' yes'))
    expect(await message(asTags)).toMatchObject({ reasoning: 'hm', content: 'yes' })
    const content = '<think>hm</think>\n\nyes'
    upstream.answer(json({ choices: [{ index: 0, message: { content }, finish_reason: 'stop' }] }))
    const { completion } = await plain.outcome({}, asTags)
    expect(completion.choices[0]!.message).toMatchObject({ reasoning: 'hm', content: 'yes' })
  })

  it('may have been opened by the chat template', async () => {
    upstream.answer(answer('hm', '</think>yes'))
    const prefilled = { options: { reasoning: 'prefilled-tags' } }
    expect(await message(prefilled)).toMatchObject({ reasoning: 'hm', content: 'yes' })
  })

  it('may be missing or never end', async () => {
    upstream.answer(answer('No <think> about it'))
    expect((await message(asTags)).content).toBe('No <think> about it')
    upstream.answer(answer('<think>endless </thi'))
    expect(await message(asTags)).toMatchObject({ reasoning: 'endless </thi', content: '' })
  })
})

describe('sources beside an answer', () => {
  it('become citations once, with positions in code points', async () => {
    await using perplexity = await row('perplexity')
    const search_results = [
      { title: 'One', url: 'https://one.example/', snippet: 'first' },
      { title: 'Two', url: 'https://two.example/' },
    ]
    const at = (content: string, rest = {}) => ({ ...says({ content }, rest), search_results })
    const done = {
      object: 'chat.completion.done',
      ...at('', { finish_reason: 'stop' }),
      usage: USAGE,
    }
    upstream.answer(events(at('😀 yes [2'), at('] no.'), done))
    const { completion, usage } = await perplexity.outcome(stream)
    const citations = completion.choices[0]!.message.annotations.map((one: any) => one.url_citation)
    expect(citations).toEqual([
      { url: 'https://one.example/', title: 'One', start_index: 0, end_index: 0, content: 'first' },
      { url: 'https://two.example/', title: 'Two', start_index: 6, end_index: 9 },
    ])
    expect(usage!.searches).toBe(1)
  })
})

function abortable() {
  const controller = new AbortController()
  return {
    signal: controller.signal,
    abort: () => controller.abort(new Error('the client left')),
  }
}

function answer(...pieces: readonly string[]): FakeResponse {
  return events(...pieces.map((content) => says({ content })), STOP, '[DONE]')
}

async function isValid(options: unknown): Promise<boolean> {
  return !('issues' in (await openaiCompatible.options['~standard'].validate(options)))
}
