import * as fc from 'fast-check'
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import anthropic from '../../providers/anthropic.ts'
import type { ChatInput, Schema } from '../../src/plugin.ts'
import { createTestGateway } from '../_setup.ts'
import { events, json, startUpstream, type FakeResponse, type FakeUpstream } from '../upstream.ts'
import { setUp, type Setup } from './_chat.ts'
import { runs } from '../_runs.ts'

let upstream: FakeUpstream
let setup: Setup

beforeAll(async () => {
  upstream = await startUpstream()
  setup = await setUp(anthropic, { apiKey: 'sk-ant-test', baseURL: `${upstream.url}/v1` })
})

afterAll(async () => {
  await setup[Symbol.asyncDispose]()
  await upstream.close()
})

const MODEL = 'claude-opus-5'
const stream = { stream: true }
const whole = { max_completion_tokens: 100 }

const USAGE = { input_tokens: 7, output_tokens: 5 }
const text = (said: string) => ({ type: 'text', text: said })
const message = (content: object[], stop_reason = 'end_turn') =>
  json({ type: 'message', role: 'assistant', content, stop_reason, usage: USAGE })

const begin = { type: 'message_start', message: { usage: { input_tokens: 7, output_tokens: 1 } } }
const open = (index: number, content_block: object) => ({
  type: 'content_block_start',
  index,
  content_block,
})
const piece = (index: number, delta: object) => ({ type: 'content_block_delta', index, delta })
const close = (index: number) => ({ type: 'content_block_stop', index })
const says = (index: number, said: string) => piece(index, { type: 'text_delta', text: said })
const ends = (stop_reason: string) => ({
  type: 'message_delta',
  delta: { stop_reason },
  usage: { output_tokens: 5 },
})
const END = [ends('end_turn'), { type: 'message_stop' }]

/** The stream of a message. Each block opens empty and comes in two pieces. */
function streamed(blocks: readonly any[], stop_reason = 'end_turn'): FakeResponse {
  return events(
    begin,
    ...blocks.flatMap((block, index) => [...inPieces(block, index), { type: 'ping' }]),
    ends(stop_reason),
    { type: 'message_stop' },
  )
}

function inPieces(block: any, index: number): object[] {
  const halves = (said: string) => [said.slice(0, said.length >> 1), said.slice(said.length >> 1)]
  const deltas = (type: string, member: string, said: string) =>
    halves(said).map((half) => piece(index, { type, [member]: half }))
  switch (block.type) {
    case 'text':
      return [open(index, text('')), ...deltas('text_delta', 'text', block.text), close(index)]
    case 'thinking': {
      const signed = piece(index, { type: 'signature_delta', signature: block.signature })
      const thought = deltas('thinking_delta', 'thinking', block.thinking)
      return [
        open(index, { ...block, thinking: '', signature: '' }),
        ...thought,
        signed,
        close(index),
      ]
    }
    case 'tool_use': {
      const input = deltas('input_json_delta', 'partial_json', JSON.stringify(block.input))
      return [open(index, { ...block, input: {} }), ...input, close(index)]
    }
    default:
      return [open(index, block), close(index)]
  }
}

async function answered(answer: FakeResponse, input: object = stream, model = MODEL) {
  upstream.answer(answer)
  const { completion, usage, failure } = await setup.outcome(input as Partial<ChatInput>, { model })
  const [choice] = completion.choices
  return { message: choice?.message, finish_reason: choice?.finish_reason, usage, failure }
}

async function failed(answer: FakeResponse, input: object = stream) {
  const { failure } = await answered(answer, input)
  return failure!
}

describe('options', () => {
  const isValid = async (options: object, schema: Schema = anthropic.options) =>
    !(await schema['~standard'].validate(options)).issues

  it('require a key and accept an address and headers', async () => {
    expect(await isValid({ apiKey: 'x' })).toBe(true)
    expect(await isValid({ apiKey: 'x', baseURL: 'https://proxy.test/v1', headers: {} })).toBe(true)
    expect(await isValid({})).toBe(false)
    expect(await isValid({ apiKey: 'x', baseURL: 'proxy' })).toBe(false)
    expect(await isValid({ apiKey: 'x', url: 'https://proxy.test' })).toBe(false)
  })

  it('of a deployment select the rules that a model follows', async () => {
    const ofModel = anthropic.deploymentOptions!
    expect(await isValid({}, ofModel)).toBe(true)
    expect(await isValid({ like: 'claude-opus-5', maxTokens: 1000 }, ofModel)).toBe(true)
    expect(await isValid({ maxTokens: 0 }, ofModel)).toBe(false)
  })

  it('add headers and override those of the plugin', async () => {
    upstream.answer(message([text('Hi')]))
    const headers = { 'Anthropic-Beta': 'context-1m-2025-08-07', 'X-Api-Key': 'other' }
    await using other = await setUp(anthropic, { apiKey: 'x', baseURL: upstream.url, headers })
    await other.outcome(whole)
    const seen = upstream.requests.at(-1)!
    expect(seen.path).toBe('/messages')
    expect(seen.headers).toMatchObject({
      'anthropic-beta': 'context-1m-2025-08-07',
      'x-api-key': 'other',
    })
  })
})

describe('answers', () => {
  it('without text are valid', async () => {
    for (const answer of [message([]), streamed([])]) {
      const { message: said, finish_reason, usage, failure } = await answered(answer)
      expect(failure).toBeUndefined()
      expect(said.content).toBe('')
      expect(finish_reason).toBe('stop')
      expect(usage).toMatchObject({ prompt_tokens: 7, completion_tokens: 5 })
    }
  })

  it.each([
    ['end_turn', 'stop'],
    ['stop_sequence', 'stop'],
    ['pause_turn', 'length'],
    ['max_tokens', 'length'],
    ['model_context_window_exceeded', 'length'],
    ['refusal', 'content_filter'],
    ['something_new', 'stop'],
  ])('that stop for %s finish with %s', async (reason, expected) => {
    expect((await answered(message([text('Hi')], reason), whole)).finish_reason).toBe(expected)
    expect((await answered(streamed([text('Hi')], reason))).finish_reason).toBe(expected)
  })

  it('may come in the other form than requested', async () => {
    expect((await answered(message([text('Hi')]), stream)).message.content).toBe('Hi')
    expect((await answered(streamed([text('Hi')]), whole)).message.content).toBe('Hi')
  })

  it('do not pass unknown members on', async () => {
    const { message: said } = await answered(
      events(
        begin,
        { type: 'news', text: 'x' },
        open(0, { type: 'server_tool_use', id: 's', name: 'web_search', input: { q: 1 } }),
        piece(0, { type: 'input_json_delta', partial_json: '{}' }),
        close(0),
        open(1, text('H')),
        piece(1, { type: 'something_delta', text: 'x' }),
        piece(7, { type: 'something_delta', text: 'x' }),
        says(1, 'i'),
        close(1),
        ...END,
      ),
    )
    expect(said).toEqual({ role: 'assistant', content: 'Hi', refusal: null })
  })

  it('are complete at their last event, even if the connection stays open', async () => {
    const { message: said, failure } = await answered({
      ...streamed([text('Hi')]),
      ending: 'hang',
    })
    expect(failure).toBeUndefined()
    expect(said.content).toBe('Hi')
  })

  it('are complete after the stop reason', async () => {
    const { finish_reason, usage } = await answered(
      events(begin, open(0, text('')), says(0, 'Hi'), close(0), ends('max_tokens')),
    )
    expect(finish_reason).toBe('length')
    expect(usage).toMatchObject({ prompt_tokens: 7, completion_tokens: 5 })
  })

  it('fail when truncated, and are charged for what came', async () => {
    const {
      message: said,
      usage,
      failure,
    } = await answered(events(begin, open(0, text('')), says(0, 'Hello there')))
    expect(said.content).toBe('Hello there')
    expect(failure).toMatchObject({ failure: 'upstream_error', code: 'upstream_error' })
    // The gateway counts the text.
    expect(usage).toMatchObject({ prompt_tokens: 7, completion_tokens: 1 })
  })

  it('are one answer, though their first event repeats, and never two', async () => {
    const start = (id: string) => ({ ...begin, message: { ...begin.message, id } })
    const head = [start('msg_1'), open(0, text('')), says(0, 'Hi')]
    const repeated = await answered(events(...head, start('msg_1'), close(0), ...END))
    expect(repeated.message.content).toBe('Hi')
    expect(repeated.failure).toBeUndefined()
    const spliced = await answered(events(...head, start('msg_2'), close(0), ...END))
    expect(spliced.failure?.failure).toBe('upstream_error')
    expect(spliced.message.content).toBe('Hi')
    expect(spliced.usage).toMatchObject({ prompt_tokens: 7 })
  })

  it('cite pages at the text of their block', async () => {
    const citation = {
      type: 'web_search_result_location',
      url: 'https://example.org/a',
      title: 'A',
      cited_text: 'Blue it is.',
    }
    const { message: said } = await answered(
      events(
        begin,
        open(0, text('')),
        says(0, 'Look 🙂: '),
        close(0),
        open(1, text('')),
        piece(1, { type: 'citations_delta', citation }),
        piece(1, { type: 'citations_delta', citation: { type: 'page_location', cited_text: 'x' } }),
        says(1, 'blue'),
        close(1),
        ...END,
      ),
    )
    expect(said.annotations).toEqual([
      {
        type: 'url_citation',
        url_citation: {
          url: 'https://example.org/a',
          title: 'A',
          content: 'Blue it is.',
          start_index: 8,
          end_index: 12,
        },
      },
    ])
  })

  it('count the searches of the vendor', async () => {
    const usage = { ...USAGE, server_tool_use: { web_search_requests: 2 } }
    const answer = json({ type: 'message', content: [], stop_reason: 'end_turn', usage })
    expect((await answered(answer, whole)).usage!.searches).toBe(2)
  })
})

describe('calls', () => {
  it('may bring all their arguments at once', async () => {
    const use = { type: 'tool_use', id: 't', name: 'f', input: { a: 1 } }
    const { message: said, finish_reason } = await answered(
      events(begin, open(0, use), close(0), ...END),
    )
    expect(said.tool_calls[0].function).toEqual({ name: 'f', arguments: '{"a":1}' })
    expect(finish_reason).toBe('tool_calls')
  })

  it('keep every digit of their arguments', async () => {
    const exact = '{"id":12345678901234567890,"x":1.50}'
    const answer = {
      headers: { 'content-type': 'application/json' },
      pieces: [
        `{"type":"message","content":[{"type":"tool_use","id":"t","name":"f","input":${exact}}],"stop_reason":"tool_use"}`,
      ],
    }
    expect((await answered(answer, whole)).message.tool_calls[0].function.arguments).toBe(exact)
    const pieces = [exact.slice(0, 12), exact.slice(12)].map((partial_json) =>
      piece(0, { type: 'input_json_delta', partial_json }),
    )
    const use = { type: 'tool_use', id: 't', name: 'f', input: {} }
    const { message: said } = await answered(
      events(begin, open(0, use), ...pieces, close(0), ...END),
    )
    expect(said.tool_calls[0].function.arguments).toBe(exact)
  })

  it('of the tool with the schema are the answer', async () => {
    const schema = { type: 'object', properties: { a: { type: 'integer' } } }
    const response_format = { type: 'json_schema', json_schema: { name: 'x', schema } }
    const use = { type: 'tool_use', id: 't', name: 'final_answer', input: { a: 1 } }
    for (const answer of [message([use], 'tool_use'), streamed([use], 'tool_use')]) {
      const said = await answered(answer, { ...stream, response_format }, 'claude-sonnet-4-0')
      expect(said.message).toEqual({ role: 'assistant', content: '{"a":1}', refusal: null })
      expect(said.finish_reason).toBe('stop')
    }
    // The client's own tool of that name is an ordinary tool.
    expect((await answered(message([use], 'tool_use'))).message.tool_calls).toHaveLength(1)
  })
})

describe('failures', () => {
  const error = (status: number, type: string, said = 'No.', headers = {}) =>
    json({ type: 'error', error: { type, message: said }, request_id: 'req_1' }, status, headers)

  it.each([
    [400, 'invalid_request_error', 'bad_request', 400],
    [401, 'authentication_error', 'upstream_auth', 502],
    [402, 'billing_error', 'upstream_balance', 502],
    [403, 'permission_error', 'upstream_auth', 502],
    [404, 'not_found_error', 'not_found', 502],
    [413, 'request_too_large', 'payload_too_large', 413],
    [429, 'rate_limit_error', 'upstream_rate', 429],
    [500, 'api_error', 'upstream_error', 502],
    [504, 'timeout_error', 'timeout', 504],
    [529, 'overloaded_error', 'overloaded', 503],
  ])('%i %s is %s, wherever it comes', async (status, type, failure, shown) => {
    expect(await failed(error(status, type), whole)).toMatchObject({ failure, status: shown })
    const told = { type: 'error', error: { type, message: 'No.' } }
    expect(await failed(events(begin, told))).toMatchObject({ failure })
    expect(await failed(json(told), whole)).toMatchObject({ failure })
  })

  it.each([
    [400, 'Your credit balance is too low to access the Anthropic API.', 'upstream_balance'],
    [400, 'You have reached your specified API usage limits.', 'upstream_balance'],
    [400, 'This credential is only authorized for use with another product.', 'upstream_auth'],
    [400, 'This organization has been disabled.', 'upstream_auth'],
    [400, 'prompt is too long: 210000 tokens > 200000 maximum', 'context_length'],
    [400, 'input length and `max_tokens` exceed context limit: 9 + 9 > 10', 'context_length'],
    [400, 'Output blocked by content filtering policy', 'content_blocked'],
  ])('%i with "%s" is %s', async (status, said, failure) => {
    expect((await failed(error(status, 'invalid_request_error', said), whole)).failure).toBe(
      failure,
    )
  })

  it('of proxies are recognised by their status', async () => {
    const html = (status: number): FakeResponse => ({
      status,
      headers: { 'content-type': 'text/html' },
      pieces: ['<html>request too large</html>'],
    })
    expect((await failed(html(413), whole)).failure).toBe('payload_too_large')
    expect((await failed(html(502), whole)).failure).toBe('upstream_error')
    expect((await failed(html(503), whole)).failure).toBe('overloaded')
    expect((await failed(html(200), whole)).failure).toBe('upstream_error')
    expect((await failed(json(null), whole)).failure).toBe('upstream_error')
  })

  it('tell how long to wait: by header, or until an exhausted limit resets', async () => {
    const waits = async (headers: Record<string, string>) =>
      (await failed(error(429, 'rate_limit_error', 'Slow down.', headers))).retryAfterMs
    expect(await waits({ 'retry-after': '3' })).toBe(3000)
    expect(await waits({})).toBeUndefined()
    const soon = new Date(Date.now() + 60_000).toISOString()
    const later = new Date(Date.now() + 600_000).toISOString()
    const wait = await waits({
      'anthropic-ratelimit-requests-remaining': '0',
      'anthropic-ratelimit-requests-reset': soon,
      'anthropic-ratelimit-tokens-remaining': '10',
      'anthropic-ratelimit-tokens-reset': later,
    })
    expect(wait).toBeGreaterThan(30_000)
    expect(wait).toBeLessThanOrEqual(60_000)
  })

  it('show the client the error without private parts', async () => {
    const said =
      'messages.0: bad. See https://docs.test/x, ask me@example.org (sk-ant-api03-abcDEF, req_011CeCGmBjaWkq37Sf5iU7so).'
    const { message: shown } = await failed(error(400, 'invalid_request_error', said), whole)
    expect(shown).toBe('messages.0: bad. See […] ask […] ([…], […]).')
  })
})

describe('thinking blocks return unchanged', () => {
  it('in any order of blocks, byte for byte and in their positions', async () => {
    const words = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 8 }).filter(isWord)
    const thinking = fc.record({
      type: fc.constant('thinking'),
      thinking: fc.string({ unit: 'grapheme', maxLength: 8 }),
      signature: fc.base64String({ minLength: 4, maxLength: 12 }),
    })
    const redacted = fc.record({
      type: fc.constant('redacted_thinking'),
      data: fc.base64String({ minLength: 4, maxLength: 12 }),
    })
    const use = fc.record({
      type: fc.constant('tool_use'),
      name: fc.constant('f'),
      input: fc.dictionary(fc.constantFrom('a', 'b'), words, { noNullPrototype: true }),
    })
    // A text and then calls stand between two thinking blocks.
    const between = fc.tuple(fc.option(words.map(text)), fc.array(use, { maxLength: 2 }))
    const gap = between.map(([said, uses]) => [...(said ? [said] : []), ...uses])
    const stretch = fc
      .tuple(fc.oneof(thinking, redacted), gap)
      .map(([one, others]) => [one, ...others])
    const turn = fc
      .tuple(gap, fc.array(stretch, { minLength: 1, maxLength: 4 }))
      .map(([first, stretches]) => [...first, ...stretches.flat()])
      .map((blocks) => blocks.map((block, at) => withId(block, at)))
    await fc.assert(
      fc.asyncProperty(turn, fc.boolean(), async (blocks, inOne) => {
        const answer = inOne ? message(blocks, 'tool_use') : streamed(blocks, 'tool_use')
        const { message: said } = await answered(answer)
        const { refusal: _none, ...history } = said
        const messages = [{ role: 'user', content: '?' }, history, { role: 'user', content: '!' }]
        await answered(message([]), { messages } as object)
        const [, again] = upstream.requests.at(-1)!.json.messages
        expect(again).toEqual({ role: 'assistant', content: blocks })
      }),
      { numRuns: runs(50) },
    )
  })

  it('over three turns with tools, through the official client and the whole gateway', async () => {
    await using gateway = await createTestGateway({
      providers: {
        claude: { use: 'anthropic', options: { apiKey: 'x', baseURL: upstream.url } },
      },
      models: {
        'anthropic/opus': {
          pricing: { prompt: '0.000005', completion: '0.000025' },
          capabilities: ['STREAMING', 'TOOLS', 'REASONING'],
          deployments: [{ provider: 'claude', model: MODEL }],
        },
      },
    })
    const client = new OpenAI({ apiKey: gateway.key.secret, baseURL: gateway.baseURL })
    const tools = [{ type: 'function' as const, function: { name: 'look', parameters: {} } }]
    const signature = (n: number) => `EqEECkYICxgCKkAo3UA4${n}+/wDbB8ihhpykVCsPx6==`
    const answers = [1, 2, 3].map((n) => [
      { type: 'thinking', thinking: `Thought ${n} 🤔.`, signature: signature(n) },
      { type: 'redacted_thinking', data: `sealed${n}==` },
      text(`Step ${n}.`),
      { type: 'tool_use', id: `toolu_${n}`, name: 'look', input: { at: n } },
    ])
    const messages: any[] = [{ role: 'user', content: 'Look around.' }]

    for (const [turn, blocks] of answers.entries()) {
      // The second answer is not streamed.
      const streaming = turn !== 1
      upstream.answer(streaming ? streamed(blocks, 'tool_use') : message(blocks, 'tool_use'))
      const request = { model: 'anthropic/opus', messages, tools, reasoning: { effort: 'high' } }
      const said = streaming
        ? await gathered(client, request)
        : await client.chat.completions
            .create({ ...request, max_tokens: 900 } as any)
            .then(({ choices }) => choices[0]!.message)
      messages.push(said)
      for (const { id } of said.tool_calls) {
        messages.push({ role: 'tool', tool_call_id: id, content: `Seen ${id}.` })
      }
      const sent = upstream.requests.at(-1)!.json
      expect(sent.thinking).toEqual({ type: 'adaptive', display: 'summarized' })
      const earlier = answers.slice(0, turn).map((content) => ({ role: 'assistant', content }))
      expect(sent.messages.filter(({ role }: any) => role === 'assistant')).toEqual(earlier)
    }
    expect(messages.filter(({ role }) => role === 'assistant')).toHaveLength(3)
  })
})

/**
 * A streamed message with its reasoning details in order, as clients store it that replay reasoning. The official
 * client's own helper keeps only the last pieces.
 */
async function gathered(client: OpenAI, request: object): Promise<any> {
  const said: any = { role: 'assistant', content: '', reasoning_details: [], tool_calls: [] }
  const chunks = await client.chat.completions.create({ ...request, stream: true } as any)
  for await (const chunk of chunks as unknown as AsyncIterable<any>) {
    const { content, reasoning_details = [], tool_calls = [] } = chunk.choices[0].delta
    said.content += content ?? ''
    said.reasoning_details.push(...reasoning_details)
    for (const { index, ...call } of tool_calls) {
      if (call.id) said.tool_calls[index] = call
      else said.tool_calls[index].function.arguments += call.function.arguments
    }
  }
  return said
}

/** The vendor refuses blank texts, and the gateway does not split surrogate pairs. */
function isWord(said: string): boolean {
  return said.trim() !== '' && said.isWellFormed()
}

function withId(block: any, at: number): any {
  return block.type === 'tool_use' ? { ...block, id: `toolu_${at}` } : block
}
