/** Answers of the Responses API as a client of chat completions gets them. */
import type { ResponseOutputItem, ResponseStreamEvent } from 'openai/resources/responses/responses'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import azure from '../../../providers/azure.ts'
import openai from '../../../providers/openai.ts'
import type { ChatInput } from '../../../src/plugin.ts'
import {
  events,
  json,
  startUpstream,
  type FakeResponse,
  type FakeUpstream,
} from '../../upstream.ts'
import { setUp, type Outcome, type Setup } from '../_chat.ts'
import { eventsOf, response } from './_responses.ts'

const USAGE = { input_tokens: 3, output_tokens: 2 }
const HOW = { model: 'gpt-5.4' }

let upstream: FakeUpstream
let setup: Setup
let atAzure: Setup

beforeAll(async () => {
  upstream = await startUpstream()
  setup = await setUp(openai, { baseURL: upstream.url, apiKey: 'sk-1' })
  atAzure = await setUp(azure, { baseURL: upstream.url, apiKey: 'k' })
})

afterAll(async () => {
  await setup[Symbol.asyncDispose]()
  await atAzure[Symbol.asyncDispose]()
  await upstream.close()
})

function outcomeOf(answer: FakeResponse, input: Partial<ChatInput> = {}): Promise<Outcome> {
  upstream.answer(answer)
  return setup.outcome({ stream: true, ...input }, HOW)
}

const messageOf = ({ completion }: Outcome) => completion.choices[0]!.message

const thought = (id: string, encrypted_content: string | null, ...texts: string[]) => ({
  id,
  type: 'reasoning',
  summary: texts.map((text) => ({ type: 'summary_text', text })),
  encrypted_content,
})
const citation = (url: string, start_index: number, end_index: number) => ({
  type: 'url_citation',
  url,
  title: 'T',
  start_index,
  end_index,
})
const message = (text: string, annotations: object[] = [], members: object = {}) => ({
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  status: 'completed',
  content: [{ type: 'output_text', text, annotations }],
  ...members,
})

/** The same answer in each form. */
async function inEachForm(output: readonly object[]): Promise<[whole: Outcome, streamed: Outcome]> {
  const whole = await outcomeOf(json(response(output, USAGE)), { stream: false })
  return [whole, await outcomeOf(events(...eventsOf(output, USAGE)))]
}

describe('reasoning', () => {
  it('has an entry for each part of a summary, and one for what is encrypted', async () => {
    const output = [
      thought('rs_1', 'gAAA1+/=', 'One.', 'Two.'),
      thought('rs_2', 'gAAA2'),
      thought('rs_3', null, 'Three.'),
    ]
    const entry = (index: number, id: string, members: object) => {
      return { ...members, id, format: 'openai-responses-v1', index }
    }
    const summary = (text: string) => ({ type: 'reasoning.summary', summary: text })
    const encrypted = (data: string) => ({ type: 'reasoning.encrypted', data })
    for (const outcome of await inEachForm(output)) {
      expect(messageOf(outcome)).toMatchObject({
        reasoning: 'One.\n\nTwo.\n\nThree.',
        reasoning_details: [
          entry(0, 'rs_1', summary('One.')),
          entry(1, 'rs_1', summary('\n\nTwo.')),
          entry(2, 'rs_1', encrypted('gAAA1+/=')),
          entry(3, 'rs_2', encrypted('gAAA2')),
          entry(4, 'rs_3', summary('\n\nThree.')),
        ],
      })
    }
  })

  it('of Azure is marked as Azure’s', async () => {
    upstream.answer(json(response([thought('rs_1', 'gAAA')], USAGE)))
    const outcome = await atAzure.outcome({}, { options: { api: 'responses' } })
    expect(messageOf(outcome).reasoning_details[0].format).toBe('azure-openai-responses-v1')
  })

  it('is told apart by its place, where a server changes ids', async () => {
    let n = 0
    const rotated = eventsOf([thought('rs', 'gAAA', 'One.', 'Two.'), message('Yes.')], USAGE).map(
      (event: any) => ('item_id' in event ? { ...event, item_id: `x${n++}` } : event),
    )
    const { reasoning, reasoning_details, content } = messageOf(await outcomeOf(events(...rotated)))
    expect({ reasoning, content }).toEqual({ reasoning: 'One.\n\nTwo.', content: 'Yes.' })
    expect(new Set(reasoning_details.map(({ id }: any) => id))).toEqual(new Set(['rs']))
  })
})

describe('text', () => {
  it('of several messages is separated, and citations keep their places', async () => {
    const output = [
      message('See 👀 a.', [citation('https://a.example', 4, 7)], { phase: 'commentary' }),
      message(
        'And b.',
        [{ type: 'file_path', file_id: 'f', index: 0 }, citation('https://b.example', 4, 5)],
        {
          phase: 'final_answer',
        },
      ),
    ]
    const at = (url: string, start_index: number, end_index: number) => ({
      type: 'url_citation',
      url_citation: { url, title: 'T', start_index, end_index },
    })
    const [whole, streamed] = await inEachForm(output)
    for (const outcome of [whole, streamed]) {
      // Positions are code points: the second message begins at 10.
      expect(messageOf(outcome)).toMatchObject({
        content: 'See 👀 a.\n\nAnd b.',
        phase: 'final_answer',
        annotations: [at('https://a.example', 4, 7), at('https://b.example', 14, 15)],
      })
    }
    const phases = streamed.chunks.filter(({ choices }) => choices[0]?.delta?.phase)
    expect(phases).toHaveLength(1)
  })

  it('announces each citation once', async () => {
    const annotation = citation('https://a.example', 0, 1)
    const [first, second, ...rest] = eventsOf([message('a', [annotation])], USAGE)
    const at = { output_index: 0, item_id: 'msg_1', content_index: 0, annotation_index: 0 }
    const added = { type: 'response.output_text.annotation.added', ...at, annotation }
    const place = rest.findIndex((event: any) => event.type === 'response.output_text.done')
    const all = [first!, second!, ...rest.slice(0, place), added, ...rest.slice(place)]
    expect(messageOf(await outcomeOf(events(...all))).annotations).toHaveLength(1)
  })

  it('has the probabilities of its tokens where they are asked for', async () => {
    const token = (text: string) => ({
      token: text,
      logprob: -0.5,
      top_logprobs: [{ token: text, logprob: -0.5, bytes: [72] }],
    })
    const part = {
      type: 'output_text',
      text: 'Hi',
      annotations: [],
      logprobs: [token('H'), token('i')],
    }
    const given = message('Hi', [], { content: [part] })
    const shown = (text: string) => ({
      token: text,
      logprob: -0.5,
      bytes: null,
      top_logprobs: [{ token: text, logprob: -0.5, bytes: [72] }],
    })
    const delta = { type: 'response.output_text.delta', output_index: 0, content_index: 0 }
    const streamed = [
      { ...delta, delta: 'H', logprobs: [token('H')] },
      { ...delta, delta: 'i', logprobs: [token('i')] },
      { type: 'response.completed', response: response([given], USAGE) },
    ]
    for (const answer of [json(response([given], USAGE)), events(...streamed)]) {
      const { completion } = await outcomeOf(answer)
      expect(completion.choices[0]!.logprobs.content).toEqual([shown('H'), shown('i')])
    }
  })

  it('is complete although a server sends no deltas, or nothing but the end', async () => {
    const output = [thought('rs_1', 'gAAA', 'Hm.'), message('Yes.'), message('No.')]
    const all = eventsOf(output, USAGE)
    const without = (hidden: RegExp) => all.filter((event: any) => !hidden.test(event.type))
    const expected = messageOf(await outcomeOf(events(...all)))
    expect(expected).toMatchObject({ content: 'Yes.\n\nNo.', reasoning: 'Hm.' })
    for (const hidden of [
      /delta$/,
      /(delta|text\.done)$/,
      /added$/,
      /(item|delta|text|part)\.?/,
      /done$/,
    ]) {
      const found = messageOf(await outcomeOf(events(...without(hidden))))
      // Without its last event, reasoning has no encrypted content.
      if (hidden.test('response.output_item.done') && !hidden.test('response.output_item.added')) {
        expect(found).toMatchObject({ content: expected.content, reasoning: expected.reasoning })
      } else expect(found).toEqual(expected)
    }
  })
})

describe('events that say nothing to a client of chat completions', () => {
  /** Types that are read. A type that the vendor adds is in neither list, and fails the types of this test. */
  const READ: Record<ReadType, true> = {
    error: true,
    'response.completed': true,
    'response.custom_tool_call_input.delta': true,
    'response.custom_tool_call_input.done': true,
    'response.failed': true,
    'response.function_call_arguments.delta': true,
    'response.function_call_arguments.done': true,
    'response.incomplete': true,
    'response.output_item.added': true,
    'response.output_item.done': true,
    'response.output_text.annotation.added': true,
    'response.output_text.delta': true,
    'response.output_text.done': true,
    'response.reasoning_summary_text.delta': true,
    'response.reasoning_summary_text.done': true,
    'response.reasoning_text.delta': true,
    'response.reasoning_text.done': true,
    'response.refusal.delta': true,
    'response.refusal.done': true,
  }
  type ReadType = Exclude<ResponseStreamEvent['type'], IgnoredType>
  type IgnoredType =
    | `response.${'audio' | 'code_interpreter' | 'compaction' | 'file_search' | 'image_generation' | 'mcp' | 'shell' | 'web_search'}${string}`
    | `response.content_part.${string}`
    | `response.reasoning_summary_part.${string}`
    | `response.${'created' | 'in_progress' | 'queued'}`

  const IGNORED: Record<Extract<ResponseStreamEvent['type'], IgnoredType>, true> = {
    'response.audio.delta': true,
    'response.audio.done': true,
    'response.audio.transcript.delta': true,
    'response.audio.transcript.done': true,
    'response.code_interpreter_call.completed': true,
    'response.code_interpreter_call.in_progress': true,
    'response.code_interpreter_call.interpreting': true,
    'response.code_interpreter_call_code.delta': true,
    'response.code_interpreter_call_code.done': true,
    'response.content_part.added': true,
    'response.content_part.done': true,
    'response.created': true,
    'response.file_search_call.completed': true,
    'response.file_search_call.in_progress': true,
    'response.file_search_call.searching': true,
    'response.image_generation_call.completed': true,
    'response.image_generation_call.generating': true,
    'response.image_generation_call.in_progress': true,
    'response.image_generation_call.partial_image': true,
    'response.in_progress': true,
    'response.mcp_call.completed': true,
    'response.mcp_call.failed': true,
    'response.mcp_call.in_progress': true,
    'response.mcp_call_arguments.delta': true,
    'response.mcp_call_arguments.done': true,
    'response.mcp_list_tools.completed': true,
    'response.mcp_list_tools.failed': true,
    'response.mcp_list_tools.in_progress': true,
    'response.queued': true,
    'response.reasoning_summary_part.added': true,
    'response.reasoning_summary_part.done': true,
    'response.web_search_call.completed': true,
    'response.web_search_call.in_progress': true,
    'response.web_search_call.searching': true,
    'response.compaction.compacting': true,
    'response.shell_call_command.added': true,
    'response.shell_call_command.delta': true,
    'response.shell_call_command.done': true,
    'response.shell_call_output_content.delta': true,
    'response.shell_call_output_content.done': true,
  }

  it('change nothing, wherever they are', async () => {
    const output = [thought('rs_1', 'gAAA', 'Hm.'), message('Yes.')]
    const all = eventsOf(output, USAGE)
    const expected = await outcomeOf(events(...all))
    const noise = [...Object.keys(IGNORED), 'response.not.yet.known', 'keepalive', 'toString'].map(
      (type) => ({
        type,
        output_index: 1,
        content_index: 0,
        delta: 'noise',
        text: 'noise',
        part: { type: 'output_text', text: 'noise' },
        response: { status: 'in_progress' },
      }),
    )
    const noisy = await outcomeOf(events(...all.flatMap((event) => [...noise, event])))
    expect(noisy).toEqual(expected)
    expect(Object.keys(READ).filter((type) => type in IGNORED)).toEqual([])
  })

  it('nor do items that the gateway never asks for', async () => {
    const others: readonly ResponseOutputItem['type'][] = [
      'web_search_call',
      'file_search_call',
      'image_generation_call',
      'mcp_call',
      'compaction',
      'program',
    ]
    const items = others.map((type) => ({
      type,
      id: 'x_1',
      status: 'completed',
      content: [],
      name: 'n',
    }))
    const whole = await outcomeOf(json(response([...items, message('Yes.')], USAGE)))
    expect(messageOf(whole)).toEqual({ role: 'assistant', content: 'Yes.', refusal: null })
    const added = items.map((item, output_index) => ({
      type: 'response.output_item.added',
      output_index,
      item,
    }))
    const done = items.map((item, output_index) => ({
      type: 'response.output_item.done',
      output_index,
      item,
    }))
    const last = { type: 'response.completed', response: response([], USAGE) }
    const streamed = await outcomeOf(events(...added, ...done, last))
    expect(messageOf(streamed).tool_calls).toBeUndefined()
    expect(streamed.completion.choices[0]!.finish_reason).toBe('stop')
  })
})

describe('the end', () => {
  const said = eventsOf([message('Once upon')], USAGE).slice(0, -1)
  const ended = (type: string, members: object) =>
    events(...said, {
      type: `response.${type}`,
      response: response([], USAGE, { status: type, ...members }),
    })

  it.each([
    ['completed', {}, 'stop'],
    ['incomplete', { incomplete_details: { reason: 'max_output_tokens' } }, 'length'],
    ['incomplete', { incomplete_details: { reason: 'content_filter' } }, 'content_filter'],
    ['incomplete', {}, 'length'],
  ])('%s %j is the finish reason %3$s', async (type, members, reason) => {
    const { completion, failure, usage } = await outcomeOf(ended(type, members))
    expect(failure).toBeUndefined()
    expect(completion.choices[0]!.finish_reason).toBe(reason)
    expect(usage).toMatchObject({ prompt_tokens: 3, completion_tokens: 2 })
  })

  it('names the tier of the answer', async () => {
    const answer = ended('completed', { service_tier: 'priority' })
    expect((await outcomeOf(answer)).completion.service_tier).toBe('priority')
  })

  it('is missing from a stream that was cut, even with a mark of the end', async () => {
    for (const tail of ['', 'data: [DONE]\n\n']) {
      const cut = events(...said)
      const { failure, usage } = await outcomeOf({ ...cut, pieces: [...cut.pieces, tail] })
      expect(failure?.failure).toBe('upstream_error')
      expect(usage).toBeUndefined()
    }
  })

  it.each([
    ['cyber_policy', undefined, 'content_filter'],
    ['server_error', 'upstream_error', null],
    ['invalid_encrypted_content', 'bad_request', null],
  ])('%s after some output', async (code, failure, reason) => {
    const error = { code, message: 'No.' }
    const failed = { type: 'response.failed', response: response([], USAGE, { error }) }
    for (const tail of [
      [failed],
      [{ type: 'error', ...error }, failed],
      [{ type: 'error', error }],
    ]) {
      const outcome = await outcomeOf(events(...said, ...tail))
      expect(outcome.failure?.failure).toBe(failure)
      if (reason) expect(outcome.completion.choices[0]!.finish_reason).toBe(reason)
      expect(messageOf(outcome).content).toBe('Once upon')
      expect(outcome.usage !== undefined).toBe(tail.some((one) => one === failed))
    }
  })

  it('is that of the error where the connection breaks after it', async () => {
    const error = { type: 'error', code: 'rate_limit_exceeded', message: 'Slow down.' }
    const outcome = await outcomeOf({ ...events(...said, error), ending: 'reset' })
    expect(outcome.failure?.failure).toBe('upstream_rate')
  })
})

describe('errors in place of an answer', () => {
  const code = (name: string | null, message = 'No.') => ({ code: name, message })
  it.each([
    [code('context_length_exceeded'), 'context_length'],
    [code('rate_limit_exceeded'), 'upstream_rate'],
    [code('slow_down'), 'upstream_rate'],
    [code('rate_limit_exceeded', 'Request too large for gpt-6.'), 'bad_request'],
    [code('insufficient_quota'), 'upstream_balance'],
    [code('credit_balance_exhausted'), 'upstream_balance'],
    [code('usage_not_included'), 'upstream_balance'],
    [code('server_is_overloaded'), 'overloaded'],
    [code('invalid_prompt'), 'content_blocked'],
    [code('cyber_policy'), 'content_blocked'],
    [code('bio_policy'), 'content_blocked'],
    [code('content_filter'), 'content_blocked'],
    [code('misalignment_policy_violation'), 'content_blocked'],
    [code('image_content_policy_violation'), 'content_blocked'],
    [code('failed_to_download_image'), 'bad_request'],
    [code('invalid_encrypted_content'), 'bad_request'],
    [code('server_error', 'The context window service failed.'), 'upstream_error'],
    [code('vector_store_timeout'), 'upstream_error'],
    [code('never_heard_of'), 'upstream_error'],
    [code(null), 'upstream_error'],
    [null, 'upstream_error'],
  ])('%j', async (error, failure) => {
    const failed = { ...response([], {}), status: 'failed', error }
    const answers = [
      json(failed),
      events(
        { type: 'response.created', response: {} },
        { type: 'response.failed', response: failed },
      ),
      events({ type: 'error', error: error ?? {} }),
      events({ type: 'error', ...error }),
    ]
    for (const answer of answers) {
      const outcome = await outcomeOf(answer)
      expect(outcome.failure?.failure).toBe(failure)
      expect(outcome.chunks).toEqual([])
    }
  })

  it.each([
    ['no answer', json({ object: 'list', data: [] })],
    ['an answer that is not finished', json(response([], USAGE, { status: 'in_progress' }))],
    ['a number', json(7 as never)],
    ['an error with a good status', json({ error: { message: 'Oops' } })],
    [
      'chat completions',
      json({ choices: [{ message: { content: 'Hi' }, finish_reason: 'stop' }] }),
    ],
  ])('%s', async (_what, answer) => {
    expect((await outcomeOf(answer)).failure?.failure).toBe('upstream_error')
  })
})

describe('usage', () => {
  it.each([
    [
      { input_tokens: 5, output_tokens: 2 },
      { prompt_tokens: 5, completion_tokens: 2 },
    ],
    [
      {
        input_tokens: 5,
        input_tokens_details: null,
        output_tokens: 2,
        output_tokens_details: null,
      },
      { completion_tokens_details: { reasoning_tokens: null } },
    ],
    [
      { input_tokens: 5, output_tokens: 2, output_tokens_details: { reasoning_tokens: 9 } },
      { completion_tokens_details: { reasoning_tokens: 2 } },
    ],
  ])('%j', async (reported, expected) => {
    expect((await outcomeOf(json(response([], reported)))).usage).toMatchObject(expected)
  })

  it('may be missing', async () => {
    const outcome = await outcomeOf(json(response([message('Hi')], null as never)))
    expect(outcome).toMatchObject({ usage: undefined, failure: undefined })
  })
})
