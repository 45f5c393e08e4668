import { Ajv2020 } from 'ajv/dist/2020.js'
import fc from 'fast-check'
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { toChunk } from '../../../src/endpoints/chat/chunks.ts'
import { envelope, normalized, toCompletion } from './_completion.ts'
import { ChatAnswer, type Envelope } from '../../../src/endpoints/chat/answer.ts'
import type { AnswerChunk, AnswerHead } from '../../../src/endpoints/chat/billing.ts'
import { ChatEvents } from '../../../src/endpoints/chat/dialects/chat/write.ts'
import { UpstreamFailure } from '../../../src/errors/errors.ts'
import type { ChatChunk, ChatCompletion, ChatDelta } from '../../../src/plugin.ts'
import { runs } from '../../_runs.ts'

const schema = (name: string) =>
  JSON.parse(readFileSync(new URL(`../../wire/schemas/${name}.json`, import.meta.url), 'utf8'))
const ajv = new Ajv2020({ strict: false })
const isChunk = ajv.compile(schema('chat-completion-chunk'))

async function* each<T>(items: readonly T[]): AsyncGenerator<T> {
  yield* items
}

async function run(
  chunks: readonly ChatChunk[],
  overrides?: Partial<Envelope>,
): Promise<AnswerChunk[]> {
  const out: AnswerChunk[] = []
  await normalized(each(chunks), new ChatAnswer(envelope(overrides)), (chunk) => {
    for (const usageChunk of [false, true]) {
      const event = eventOf(chunk, usageChunk)
      expect(isChunk(event), ajv.errorsText(isChunk.errors)).toBe(true)
    }
    out.push(chunk)
  })
  return out
}

/** What the client gets of a chunk. @param usageChunk whether usage comes in a chunk of its own */
function eventOf(chunk: AnswerChunk, usageChunk = false): ChatChunk {
  const events = new ChatEvents(usageChunk, () => ({}))
  return JSON.parse(events.encode(chunk).slice('data: '.length))
}

/** A chunk as vendors send it, saying one thing about choice 0. */
const says = (delta: ChatDelta, finish_reason: string | null = null, index = 0): ChatChunk => ({
  choices: [{ index, delta, finish_reason }],
})
const usage: ChatChunk = { choices: [], usage: { prompt_tokens: 1, completion_tokens: 1 } }
const done: ChatChunk = { choices: [], endOfStream: true }

const deltas = (chunks: readonly ChatChunk[]) => chunks.map((chunk) => chunk.choices[0]!.delta)
const reasonsOf = (chunks: readonly ChatChunk[]) =>
  chunks.map((chunk) => chunk.choices[0]!.finish_reason).filter(Boolean)
const role: ChatDelta = { role: 'assistant', content: '', refusal: null }

describe('conform', () => {
  it('opens with a role chunk, once, and ends with one finish chunk', async () => {
    const out = await run([
      says({ role: 'assistant', content: 'Hel' }),
      says({ role: 'assistant', content: 'lo' }),
      says({ role: '', content: null }, 'stop'),
      says({}, 'stop'),
      usage,
    ])
    expect(deltas(out)).toEqual([role, { content: 'Hel' }, { content: 'lo' }, {}])
    expect(reasonsOf(out)).toEqual(['stop'])
  })

  it('gives every chunk the same id, time and model', async () => {
    const out = await run([
      { id: 'a', created: 1, model: 'x', ...says({ content: 'a' }) },
      { id: 'b', created: 2, model: 'y', ...says({ content: 'b' }, 'stop') },
    ])
    for (const chunk of out) {
      const { id, created, model, object } = eventOf(chunk)
      expect({ id, created, model, object }).toEqual({
        id: 'chatcmpl-1',
        created: 1_790_000_000,
        model: 'acme/swift-1',
        object: 'chat.completion.chunk',
      })
      expect(chunk.head).toBe(out[0]!.head)
    }
  })

  it('passes text that comes with the finish chunk', async () => {
    const out = await run([says({ content: 'a' }), says({ content: 'b' }, 'length'), usage])
    expect(deltas(out)).toEqual([role, { content: 'a' }, { content: 'b' }, {}])
    expect(reasonsOf(out)).toEqual(['length'])
  })

  it('says usage: null on every chunk when a usage chunk will follow', async () => {
    const out = await run([says({ content: 'a' }, 'stop')])
    expect(out.every((chunk) => eventOf(chunk, true).usage === null)).toBe(true)
    expect(out.some((chunk) => 'usage' in eventOf(chunk))).toBe(false)
  })

  it('opens choices in ascending order and finishes each', async () => {
    const out = await run([
      says({ content: 'B' }, null, 1),
      says({ content: 'A' }, null, 0),
      says({}, 'length', 1),
      says({}, 'stop', 0),
    ])
    expect(out.map(({ choices: [c] }) => [c!.index, c!.delta, c!.finish_reason])).toEqual([
      [0, role, null],
      [1, role, null],
      [1, { content: 'B' }, null],
      [0, { content: 'A' }, null],
      [0, {}, 'stop'],
      [1, {}, 'length'],
    ])
  })

  it('keeps a surrogate pair together', async () => {
    const out = await run([says({ content: 'a\ud83d' }), says({ content: '\ude00b' }, 'stop')])
    expect(deltas(out).slice(1)).toEqual([{ content: 'a' }, { content: '😀b' }, {}])
  })

  describe('the end', () => {
    it('is a failure when the stream was cut', async () => {
      await expect(run([says({ content: 'Hel' })])).rejects.toThrow(/closed the stream early/)
      await expect(run([])).rejects.toSatisfy(UpstreamFailure.is)
    })
    it('is good with usage or a mark of the end but no reason', async () => {
      expect(reasonsOf(await run([says({ content: 'a' }), usage]))).toEqual(['stop'])
      expect(reasonsOf(await run([says({ content: 'a' }), done]))).toEqual(['stop'])
    })
    it('is tool_calls when calls were made, whatever the vendor says', async () => {
      const call = { index: 0, id: 'c', function: { name: 'f', arguments: '{}' } }
      for (const reason of ['stop', 'tool_calls', 'eos', null]) {
        expect(reasonsOf(await run([says({ tool_calls: [call] }, reason), done]))).toEqual([
          'tool_calls',
        ])
      }
      expect(reasonsOf(await run([says({ tool_calls: [call] }, 'length')]))).toEqual(['length'])
    })
    it('is stop when tool_calls was said and none was made', async () => {
      expect(reasonsOf(await run([says({ content: 'a' }, 'tool_calls')]))).toEqual(['stop'])
    })
    it('maps foreign reasons', async () => {
      for (const [given, wanted] of [
        ['max_tokens', 'length'],
        ['model_length', 'length'],
        ['constructor', 'stop'],
        ['content_filter', 'content_filter'],
        ['eos', 'stop'],
        ['whatever', 'stop'],
      ]) {
        expect(reasonsOf(await run([says({ content: 'a' }, given)]))).toEqual([wanted])
      }
    })
    it('is a failure when an error came inside the stream', async () => {
      await expect(
        run([says({ content: 'a' }), { choices: [], error: { message: 'x' } }]),
      ).rejects.toThrow(/reported an error/)
      await expect(run([says({}, 'error')])).rejects.toThrow(/reported an error/)
    })
  })

  describe('tool calls', () => {
    const callsIn = (chunks: readonly ChatChunk[]) =>
      deltas(chunks).flatMap((delta) => delta!.tool_calls ?? [])
    const fragment = (
      index: number | undefined,
      id: string | undefined,
      name?: string,
      text?: string,
    ) =>
      says({
        tool_calls: [{ index, id, type: 'function', function: { name, arguments: text } } as any],
      })

    it('says id, type and name once', async () => {
      const out = await run([
        fragment(0, 'c0', 'f0', ''),
        fragment(0, 'c0', 'f0', '{"a"'),
        fragment(0, undefined, undefined, ':1}'),
        done,
      ])
      expect(callsIn(out)).toEqual([
        { index: 0, id: 'c0', type: 'function', function: { name: 'f0', arguments: '' } },
        { index: 0, function: { arguments: '{"a"' } },
        { index: 0, function: { arguments: ':1}' } },
      ])
    })

    it('has an object for arguments where the vendor says nothing, unless it was cut short', async () => {
      const bare = [fragment(0, 'a', 'fa'), fragment(1, 'b', 'fb', '')]
      const argumentsIn = (chunks: readonly ChatChunk[]) =>
        callsIn(chunks).map((call) => [call.index, call.function!.arguments])
      expect(argumentsIn(await run([...bare, done]))).toEqual([
        [0, ''],
        [0, '{}'],
        [1, '{}'],
      ])
      // A call that was cut is dropped where nothing of it has gone out.
      expect(argumentsIn(await run([...bare, says({}, 'length')]))).toEqual([[0, '']])
    })

    it('is one call where its name comes in pieces, with an id or without', async () => {
      const whole = (out: readonly ChatChunk[]) => toCompletion(out).choices[0]!.message.tool_calls
      const call = (id: string, name: string) => [
        { id, type: 'function', function: { name, arguments: '{"x":1}' } },
      ]
      for (const id of [undefined, 'a']) {
        const out = await run([
          fragment(0, id, 'get_', ''),
          fragment(0, undefined, 'wea', ''),
          fragment(0, undefined, 'ther'),
          fragment(0, undefined, undefined, '{"x"'),
          fragment(0, undefined, undefined, ':1}'),
          done,
        ])
        expect(whole(out)).toEqual(call(id ?? 'call_1', 'get_weather'))
        expect(callsIn(out)[0]!.function!.name).toBe('get_weather')
      }
      const sameId = [fragment(1, 'a', 'get_'), fragment(1, 'a', 'weather', '{"x":1}'), done]
      expect(whole(await run(sameId))).toEqual(call('a', 'get_weather'))
      const repeated = [fragment(0, 'a', 'get_'), fragment(0, 'a', 'get_weather', '{"x":1}'), done]
      expect(whole(await run(repeated))).toEqual(call('a', 'get_weather'))
      const bare = [fragment(0, 'a', 'get_'), fragment(0, undefined, 'weather'), done]
      expect(whole(await run(bare))[0].function).toEqual({ name: 'get_weather', arguments: '{}' })
    })

    it('never interleaves', async () => {
      const out = await run([
        fragment(0, 'a', 'fa', ''),
        fragment(1, 'b', 'fb', ''),
        fragment(0, undefined, undefined, '{"x":1}'),
        fragment(1, undefined, undefined, '{"y":2}'),
        done,
      ])
      expect(callsIn(out)).toEqual([
        { index: 0, id: 'a', type: 'function', function: { name: 'fa', arguments: '' } },
        { index: 0, function: { arguments: '{"x":1}' } },
        { index: 1, id: 'b', type: 'function', function: { name: 'fb', arguments: '{"y":2}' } },
      ])
    })

    it('counts from 0 without gaps', async () => {
      const out = await run([fragment(1, 'a', 'fa', '{}'), fragment(4, 'b', 'fb', '{}'), done])
      expect(callsIn(out).map((call) => call.index)).toEqual([0, 1])
    })

    it('makes ids where the vendor has none', async () => {
      const out = await run([fragment(0, '', 'fa', '{}'), fragment(1, undefined, 'fb', '{}'), done])
      expect(callsIn(out).map((call) => call.id)).toEqual(['call_1', 'call_2'])
    })

    it('tells calls apart that share an index', async () => {
      const out = await run([fragment(0, 'a', 'fa', '{}'), fragment(0, 'b', 'fb', '{}'), done])
      expect(callsIn(out).map((call) => [call.index, call.id, call.function!.name])).toEqual([
        [0, 'a', 'fa'],
        [1, 'b', 'fb'],
      ])
    })

    it('finds its way without indexes', async () => {
      const out = await run([
        fragment(undefined, 'a', 'fa', '{"x"'),
        fragment(undefined, undefined, undefined, ':1}'),
        fragment(undefined, 'b', 'fb', '{}'),
        done,
      ])
      const whole = toCompletion(out).choices[0]!.message.tool_calls
      expect(whole).toEqual([
        { id: 'a', type: 'function', function: { name: 'fa', arguments: '{"x":1}' } },
        { id: 'b', type: 'function', function: { name: 'fb', arguments: '{}' } },
      ])
    })

    it('waits for a name that comes later, and fails without one', async () => {
      const out = await run([
        fragment(0, 'a', undefined, '{'),
        fragment(0, undefined, 'fa', '}'),
        done,
      ])
      expect(callsIn(out)).toEqual([
        { index: 0, id: 'a', type: 'function', function: { name: 'fa', arguments: '{}' } },
      ])
      await expect(run([fragment(0, 'a', undefined, '{}'), done])).rejects.toThrow(/without a name/)
    })

    it('takes null arguments and objects for arguments', async () => {
      const out = await run([
        fragment(0, 'a', 'fa', null as never),
        fragment(0, 'a', '', { x: 1 } as never),
        done,
      ])
      expect(toCompletion(out).choices[0]!.message.tool_calls[0].function.arguments).toBe('{"x":1}')
    })

    it('are two where one tool is called twice, without ids and under one index', async () => {
      const argumentsIn = (chunks: readonly ChatChunk[]) =>
        toCompletion(chunks).choices[0]!.message.tool_calls!.map(
          (call: any) => call.function.arguments,
        )
      for (const index of [0, undefined]) {
        const twice = [fragment(index, '', 'f', '{"a":1}'), fragment(index, '', 'f', ' {"b":2}')]
        expect(argumentsIn(await run([...twice, done]))).toEqual(['{"a":1}', ' {"b":2}'])
        const pieces = ['{"a":', '{"b"', ':1}', '}'].map((text) => fragment(index, '', 'f', text))
        expect(argumentsIn(await run([...pieces, done]))).toEqual(['{"a":{"b":1}}'])
      }
    })

    it('answers legacy functions in their own words', async () => {
      const out = await run(
        [fragment(0, 'a', 'fa', '{'), fragment(0, undefined, undefined, '}'), done],
        {
          legacyFunctions: true,
        },
      )
      expect(deltas(out).slice(1)).toEqual([
        { function_call: { name: 'fa', arguments: '{' } },
        { function_call: { arguments: '}' } },
        {},
      ])
      expect(reasonsOf(out)).toEqual(['function_call'])
    })

    it('refuses an endless list', async () => {
      const many = Array.from({ length: 129 }, (_, i) => fragment(i, `c${i}`, 'f', '{}'))
      await expect(run([...many, done])).rejects.toThrow(/too many tool calls/)
    })
  })

  describe('reasoning', () => {
    it('says text and details together, id and format once a block', async () => {
      const out = await run([
        says({ reasoning: 'Check ' }),
        says({ reasoning: 'it.', content: '' }),
        says({ content: 'Yes' }, 'stop'),
      ])
      expect(deltas(out).slice(1, 3)).toEqual([
        {
          content: '',
          reasoning: 'Check ',
          reasoning_details: [
            { type: 'reasoning.text', text: 'Check ', id: null, format: 'unknown', index: 0 },
          ],
        },
        {
          content: '',
          reasoning: 'it.',
          reasoning_details: [{ type: 'reasoning.text', text: 'it.', index: 0 }],
        },
      ])
    })

    it('makes the text of the details, and keeps signatures as they are', async () => {
      const format = 'anthropic-claude-v1'
      const out = await run([
        says({ reasoning_details: [{ type: 'reasoning.text', text: 'Hm.', format, index: 0 }] }),
        says({
          reasoning_details: [{ type: 'reasoning.text', signature: 'c2ln', format, index: 0 }],
        }),
        says({
          reasoning_details: [{ type: 'reasoning.encrypted', data: 'AAAA', format, index: 1 }],
        }),
        says({ content: 'Yes' }, 'stop'),
      ])
      expect(toCompletion(out).choices[0]!.message).toMatchObject({
        reasoning: 'Hm.',
        reasoning_details: [
          { type: 'reasoning.text', text: 'Hm.', signature: 'c2ln', format, id: null, index: 0 },
          { type: 'reasoning.encrypted', data: 'AAAA', format, id: null, index: 1 },
        ],
      })
    })

    it('is not shown when excluded', async () => {
      const out = await run([says({ reasoning: 'Hm.' }), says({ content: 'Yes' }, 'stop')], {
        reasoning: false,
      })
      expect(deltas(out)).toEqual([role, { content: 'Yes' }, {}])
    })

    it('never appears under two names', async () => {
      const out = await run([
        says({ reasoning_content: 'Hm.' } as ChatDelta),
        says({ content: 'Yes' }, 'stop'),
      ])
      expect(deltas(out)[1]).toMatchObject({ reasoning: 'Hm.' })
      expect(JSON.stringify(out)).not.toContain('reasoning_content')
    })
  })

  it('gathers annotations into one chunk before the finish', async () => {
    const citation = (url: string) => ({
      type: 'url_citation',
      url_citation: { url, title: '', start_index: 0, end_index: 0 },
    })
    const out = await run([
      says({ annotations: [citation('https://a.example')] }),
      says({ content: 'text' }),
      says({ annotations: [citation('https://b.example')] }, 'stop'),
    ])
    expect(deltas(out)).toEqual([
      role,
      { content: 'text' },
      { content: '', annotations: [citation('https://a.example'), citation('https://b.example')] },
      {},
    ])
  })

  it('shows logprobs only when they were asked for', async () => {
    const token = { token: 'a', logprob: -0.1, bytes: [97], top_logprobs: [] }
    const chunk: ChatChunk = {
      choices: [
        {
          index: 0,
          delta: { content: 'a' },
          logprobs: { content: [token] },
          finish_reason: 'stop',
        },
      ],
    }
    expect((await run([chunk]))[1]!.choices[0]!.logprobs).toBeNull()
    expect((await run([chunk], { logprobs: true }))[1]!.choices[0]!.logprobs).toEqual({
      content: [token],
      refusal: null,
    })
  })

  it.each<[unknown, string]>([
    [{ content: ['text'] }, ' (content)'],
    [{ content: 'a', refusal: 7 }, ' (refusal)'],
    [{ reasoning: { text: 'a' } }, ' (reasoning)'],
    [{ reasoning_details: [7] }, ' (reasoning_details[0])'],
    [{ tool_calls: [null] }, ' (tool_calls[0])'],
    [{ tool_calls: { index: 0 } }, ' (tool_calls)'],
    [{ tool_calls: [{ index: 0, function: { name: [] } }] }, ' (tool_calls[0].function.name)'],
    [{ tool_calls: [{ index: 0, id: {}, function: { name: 'f' } }] }, ' (tool_calls[0].id)'],
    [{ function_call: 'f' }, ' (function_call)'],
    ['text', ''],
  ])('refuses a delta of %j, and says where it is wrong', async (delta, place) => {
    const chunks = [says(delta as ChatDelta, 'stop'), done]
    const message = `The model provider sent a malformed part of an answer${place}.`
    await expect(run(chunks)).rejects.toThrow(message)
  })

  it('refuses choices that are none', async () => {
    await expect(run([{ choices: [null] } as never, done])).rejects.toThrow('malformed choice')
  })

  it('leaves out citations and reasoning details that clients cannot read', async () => {
    const url_citation = { url: 'https://a', title: '', start_index: 0, end_index: 0 }
    const good = { type: 'url_citation', url_citation }
    const bad = [
      null,
      7,
      { type: 'x' },
      { type: 'url_citation' },
      { ...good, url_citation: {} },
      { ...good, url_citation: { ...url_citation, url: '' } },
      { ...good, url_citation: { ...url_citation, url: 'javascript:alert(1)' } },
      { ...good, url_citation: { ...url_citation, url: 'ttps://a' } },
      { ...good, url_citation: { ...url_citation, url: 'data: [DONE]\n\n' } },
    ]
    const details = [{ type: 'reasoning.text', text: 'hm', index: 0 }, { type: 'z' }, { text: 1 }]
    const delta = { annotations: [...bad, good], reasoning_details: details } as ChatDelta
    const chunks = await run([says({ content: 'a' }), says(delta, 'stop'), done])
    expect(deltas(chunks).flatMap((one) => one!.annotations ?? [])).toEqual([good])
    const told = deltas(chunks).flatMap((one) => one!.reasoning_details ?? [])
    expect(told).toMatchObject([{ type: 'reasoning.text', text: 'hm' }])
  })

  it('reads a null in citations and reasoning details as absent', async () => {
    const url_citation = { url: 'https://a', title: '', start_index: 0, end_index: 0 }
    const given = {
      reasoning_details: [{ type: 'reasoning.text', text: 'hm', index: null }],
      annotations: [{ type: 'url_citation', url_citation: { ...url_citation, content: null } }],
    } as unknown as ChatDelta
    const chunks = await run([says({ content: 'a' }), says(given, 'stop'), done])
    expect(deltas(chunks).flatMap((one) => one!.reasoning_details ?? [])).toEqual([
      { type: 'reasoning.text', text: 'hm', id: null, format: 'unknown', index: 0 },
    ])
    expect(deltas(chunks).flatMap((one) => one!.annotations ?? [])).toEqual([
      { type: 'url_citation', url_citation },
    ])
  })

  it('passes members of a delta that it does not know', async () => {
    const out = await run([says({ content: 'a', channel: 'final' }, 'stop')])
    expect(deltas(out)[1]).toEqual({ content: 'a', channel: 'final' })
  })
})

describe('fold and unfold', () => {
  const text = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 40 })
  const token = fc.record({
    token: text,
    logprob: fc.double({ min: -20, max: 0, noNaN: true }).map((n) => n + 0),
    bytes: fc.constant(null),
    top_logprobs: fc.constant([]),
  })
  const toolCall = fc.record({
    id: fc.uuid(),
    type: fc.constant('function'),
    function: fc.record({
      name: fc.constantFrom('look_up', 'add'),
      arguments: fc.json({ maxDepth: 1 }),
    }),
  })
  const annotation = fc.record({
    type: fc.constant('url_citation'),
    url_citation: fc.record({
      url: fc.webUrl(),
      title: text,
      start_index: fc.nat(),
      end_index: fc.nat(),
    }),
  })
  const message = fc.oneof(
    fc.record({ content: text }),
    fc.record({ content: text, annotations: fc.array(annotation, { minLength: 1, maxLength: 3 }) }),
    fc.record({ content: text, reasoning: text }).map(({ content, reasoning }) => ({
      content,
      reasoning,
      reasoning_details: [
        { type: 'reasoning.text', text: reasoning, id: null, format: 'unknown', index: 0 },
      ],
    })),
    fc.record({
      content: fc.constantFrom(null, 'Let me look.'),
      tool_calls: fc.uniqueArray(toolCall, {
        minLength: 1,
        maxLength: 4,
        selector: (call) => call.id,
      }),
    }),
    fc.record({ content: fc.constant(null), refusal: text }),
    fc.record({ content: text, vendor_member: fc.dictionary(fc.constantFrom('a', 'b'), fc.nat()) }),
  )
  const completion: fc.Arbitrary<ChatCompletion> = fc
    .record({
      messages: fc.array(message, { minLength: 1, maxLength: 4 }),
      tokens: fc.option(fc.array(token, { minLength: 1, maxLength: 5 })),
      fingerprint: fc.option(fc.constant('fp_1'), { nil: undefined }),
    })
    .map(({ messages, tokens, fingerprint }) => ({
      id: 'chatcmpl-1',
      created: 1_790_000_000,
      model: 'acme/swift-1',
      ...(fingerprint ? { system_fingerprint: fingerprint } : {}),
      choices: messages.map((said, index) => ({
        index,
        message: { role: 'assistant', refusal: null, ...said },
        finish_reason: 'tool_calls' in said ? 'tool_calls' : 'stop',
        logprobs: tokens ? { content: tokens, refusal: null } : null,
      })),
    }))

  it('are inverse, with and without putting in order', async () => {
    await fc.assert(
      fc.asyncProperty(completion, async (whole) => {
        const before = JSON.stringify(whole)
        const { choices: _, ...rest } = whole
        const head = rest as unknown as AnswerHead
        expect(toCompletion([{ choices: toChunk(whole).choices, head }])).toEqual(whole)
        expect(toCompletion(await run([toChunk(whole)], { logprobs: true }))).toEqual(whole)
        const answer = new ChatAnswer(envelope({ logprobs: true }))
        expect(toCompletion(answer.whole(whole))).toEqual(whole)
        expect(JSON.stringify(whole)).toBe(before)
      }),
      { numRuns: runs(35) },
    )
  })

  it('do not care how a stream was cut', async () => {
    await fc.assert(
      fc.asyncProperty(
        completion,
        fc.infiniteStream(fc.integer({ min: 1, max: 5 })),
        async (whole, sizes) => {
          const pieces: ChatChunk[] = []
          for (const { index, message: said, finish_reason } of whole.choices) {
            for (const name of ['reasoning', 'content', 'refusal'] as const) {
              for (let rest: string = said[name] ?? ''; rest;) {
                const size = sizes.next().value
                pieces.push(says({ [name]: rest.slice(0, size) }, null, index))
                rest = rest.slice(size)
              }
            }
            for (const [position, call] of (said.tool_calls ?? []).entries()) {
              const { arguments: text, name } = call.function
              pieces.push(
                says(
                  { tool_calls: [{ index: position, id: call.id, function: { name } }] },
                  null,
                  index,
                ),
              )
              for (let at = 0; at < text.length;) {
                const size = sizes.next().value
                const part = { index: position, function: { arguments: text.slice(at, at + size) } }
                pieces.push(says({ tool_calls: [part] }, null, index))
                at += size
              }
            }
            const { annotations, vendor_member } = said
            pieces.push(
              says(
                { ...(annotations && { annotations }), ...(vendor_member && { vendor_member }) },
                null,
                index,
              ),
            )
            pieces.push(says({}, finish_reason!, index))
          }
          if (whole.system_fingerprint) pieces[0]!.system_fingerprint = whole.system_fingerprint
          const quiet = {
            ...whole,
            choices: whole.choices.map((c) => ({ ...c, logprobs: null })),
          }
          expect(toCompletion(await run(pieces))).toEqual(quiet)
        },
      ),
      { numRuns: runs(35) },
    )
  })

  it('say the same of one chunk as of one and an empty one', () => {
    const member = fc.constantFrom(
      null,
      undefined,
      '',
      'a',
      1,
      [],
      [
        { index: 0, text: 'a' },
        { index: 0, text: 'b' },
      ],
      [
        { index: 0, function: { name: 'add', arguments: '{}' } },
        { index: 1, more: { b: null } },
      ],
      [{ index: 1 }, { index: 0 }],
      { a: { b: 1 } },
      {
        a: [
          { index: 0, x: 1 },
          { index: 0, y: 1 },
        ],
      },
    )
    const names = ['role', 'content', 'refusal', 'tool_calls', 'function_call', 'x', '__proto__']
    const fits = ([name, value]: [string, unknown]) =>
      name !== 'tool_calls' || !value || Array.isArray(value)
    const delta = fc
      .array(fc.tuple(fc.constantFrom(...names), member).filter(fits))
      .map((members) => {
        const text = members.map(
          ([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value ?? null)}`,
        )
        return JSON.parse(`{${text.join(',')}}`)
      })
    const choice = fc.record(
      {
        index: fc.constantFrom(0, 1, 2),
        delta: fc.option(delta),
        finish_reason: fc.constantFrom(null, 'stop'),
        logprobs: fc.constantFrom(null, { content: [1], other: 1 }),
      },
      { requiredKeys: [] },
    )
    const chunk = fc.record(
      {
        head: fc.constant({ id: 'chatcmpl-1', created: 1, model: 'a/b' }),
        choices: fc.array(choice, { maxLength: 3 }),
        usage: fc.constantFrom(null, undefined, usage.usage),
        guard: fc.constant({ a: 1 }),
        endOfStream: fc.constant(true),
      },
      { requiredKeys: ['choices'] },
    ) as fc.Arbitrary<AnswerChunk>
    fc.assert(
      fc.property(chunk, (said) => {
        const before = JSON.stringify(said)
        expect(toCompletion([said])).toEqual(toCompletion([said, { choices: [] }]))
        expect(JSON.stringify(said)).toBe(before)
      }),
      { numRuns: runs(170) },
    )
  })

  it('cannot be used to reach a prototype', () => {
    const hostile = JSON.parse(
      '{"content":"a","__proto__":{"polluted":true},"constructor":{"x":1}}',
    )
    const whole = toCompletion([{ choices: [{ index: 0, delta: hostile, finish_reason: 'stop' }] }])
    expect(({} as Record<string, unknown>).polluted).toBeUndefined()
    expect(Object.hasOwn(whole.choices[0]!.message, '__proto__')).toBe(true)
  })
})
