import { Ajv2020 } from 'ajv/dist/2020.js'
import { describe, expect, it } from 'vitest'
import mock from '../../providers/mock.ts'
import { exampleOf } from '../../providers/mock/schema-example.ts'
import type { ChatInput } from '../../src/plugin.ts'
import { setUp, type RequestOptions } from './_chat.ts'

const stream = { stream: true }

async function outcome(input: Partial<ChatInput>, how?: RequestOptions) {
  await using setup = await setUp(mock, {})
  return setup.outcome(input, how)
}

async function message(input: Partial<ChatInput>, how?: RequestOptions): Promise<any> {
  const whole = await outcome(input, how)
  const streamed = await outcome({ ...input, ...stream }, how)
  // Streamed and whole answers are the same.
  expect(streamed.completion).toEqual(whole.completion)
  expect(streamed.usage).toEqual(whole.usage)
  return whole.completion.choices[0]!.message
}

function user(content: any): ChatInput['messages'] {
  return [{ role: 'user', content }]
}

const tool = (name: string, properties: Record<string, object> = {}) => ({
  type: 'function',
  function: {
    name,
    parameters: { type: 'object', properties, required: Object.keys(properties) },
  },
})
const weather = tool('weather', { city: { type: 'string' }, days: { type: 'integer', minimum: 1 } })
const clock = tool('clock')

describe('the mock', () => {
  it('echoes the last user message, the same every time', async () => {
    const messages = [
      ...user('First?'),
      { role: 'assistant', content: 'ok' },
      ...user('Say  it\n again 😀 '),
    ] as const
    expect((await message({ messages })).content).toBe('Say  it\n again 😀 ')
    const parts = [
      { type: 'text', text: 'a ' },
      { type: 'image_url', image_url: { url: 'x' } },
      { type: 'text', text: 'b' },
    ]
    expect((await message({ messages: user(parts) })).content).toBe('a b')
  })

  it('streams word by word', async () => {
    const { chunks } = await outcome({ ...stream, messages: user('one two three') })
    const words = chunks.map((chunk) => chunk.choices[0]!.delta!.content).filter(Boolean)
    expect(words).toEqual(['one ', 'two ', 'three'])
  })

  it('counts four characters as a token', async () => {
    const messages = [{ role: 'system', content: '12345' }, ...user('123456')] as const
    expect((await outcome({ messages })).usage).toMatchObject({
      prompt_tokens: 3,
      completion_tokens: 2,
    })
  })

  it('gives the scripted reply', async () => {
    const options = {
      reply: 'It is sunny.',
      reasoning: 'Let me look.',
      toolCalls: [
        { name: 'weather', arguments: { city: 'Rome' } },
        { name: 'raw', arguments: '{"a"' },
      ],
      annotations: [
        {
          type: 'url_citation',
          url_citation: { url: 'https://x.example', title: 'X', start_index: 0, end_index: 2 },
        },
      ],
    }
    expect(await message({}, { options })).toMatchObject({
      content: 'It is sunny.',
      reasoning: 'Let me look.',
      tool_calls: [
        { type: 'function', function: { name: 'weather', arguments: '{"city":"Rome"}' } },
        { type: 'function', function: { name: 'raw', arguments: '{"a"' } },
      ],
      annotations: options.annotations,
    })
    await using setup = await setUp(mock, {})
    const [whole] = await setup.ask({}, { options })
    expect(whole!.choices[0]!.finish_reason).toBe('tool_calls')
    expect(whole!.usage!.completion_tokens_details!.reasoning_tokens).toBe(3)
  })

  it('reports the scripted usage, or none', async () => {
    const usage = { prompt_tokens: 1000, completion_tokens: 1 }
    expect((await outcome(stream, { options: { usage } })).usage).toEqual(usage)
    expect((await outcome(stream, { options: { usage: 'none' } })).usage).toBeUndefined()
  })

  it('ends with the scripted finish reason', async () => {
    const how = { options: { finishReason: 'content_filter' } }
    expect((await outcome({}, how)).completion.choices[0]!.finish_reason).toBe('content_filter')
  })

  it('fails as scripted, at once or after some chunks', async () => {
    const error = { class: 'upstream_rate', message: 'Too much.', retryAfterMs: 3000 }
    for (const input of [{}, stream]) {
      const { failure, chunks } = await outcome(input, { options: { error } })
      expect(failure).toMatchObject({
        failure: 'upstream_rate',
        message: expect.stringMatching(/ Try again in 3s\.$/),
        retryAfterMs: 3000,
      })
      expect(chunks).toEqual([])
    }
    const late = { options: { reply: 'a b c', error: { ...error, after: 2 } } }
    const { failure, completion } = await outcome(stream, late)
    expect(failure?.failure).toBe('upstream_rate')
    expect(completion.choices[0]!.message.content).toBe('a b ')
    const never = { options: { reply: 'a', error: { class: 'upstream_error', after: 99 } } }
    expect((await outcome(stream, never)).failure?.failure).toBe('upstream_error')
  })

  it('stops at the limit and at stop words', async () => {
    const input = { messages: user('0123456789') }
    const limited = await outcome({ ...input, max_completion_tokens: 2 })
    expect(limited.completion.choices[0]).toMatchObject({
      message: { content: '01234567' },
      finish_reason: 'length',
    })
    expect(limited.usage!.completion_tokens).toBe(2)
    expect((await message({ ...input, stop: ['7', '5'] })).content).toBe('01234')
    expect((await message({ ...input, stop: '9' })).content).toBe('012345678')
    expect((await message({ messages: user('abc😀def'), max_completion_tokens: 1 })).content).toBe(
      'abc',
    )
    const thinks = { options: { reasoning: 'x'.repeat(40), reply: 'never' } }
    const { completion } = await outcome({ max_completion_tokens: 5 }, thinks)
    expect(completion.choices[0]).toMatchObject({
      message: { reasoning: 'x'.repeat(20) },
      finish_reason: 'length',
    })
  })

  it('gives as many choices as requested', async () => {
    const { completion, usage } = await outcome({ ...stream, n: 3, messages: user('same') })
    expect(completion.choices.map((one) => one.message.content)).toEqual(['same', 'same', 'same'])
    expect(usage!.completion_tokens).toBe(3)
  })

  it('calls the offered tools under the model name tools, and quotes their results', async () => {
    const how = { model: 'tools' }
    const input = { tools: [weather, clock], messages: user('Weather?') }
    const { content, tool_calls } = await message(input, how)
    expect(content).toBeNull()
    expect(tool_calls.map((call: any) => call.function)).toEqual([
      { name: 'weather', arguments: '{"city":"text","days":1}' },
      { name: 'clock', arguments: '{}' },
    ])
    expect((await message({ ...input, parallel_tool_calls: false }, how)).tool_calls).toHaveLength(
      1,
    )
    const named = { ...input, tool_choice: { type: 'function', function: { name: 'clock' } } }
    expect((await message(named, how)).tool_calls[0].function.name).toBe('clock')
    expect((await message({ ...input, tool_choice: 'none' }, how)).content).toBe('Weather?')
    expect((await message(input)).content).toBe('Weather?')
    const results = [
      ...input.messages,
      { role: 'assistant', content: null, tool_calls },
      { role: 'tool', tool_call_id: tool_calls[0].id, content: 'sunny' },
      { role: 'tool', tool_call_id: tool_calls[1].id, content: [{ type: 'text', text: 'noon' }] },
    ] as const
    expect((await message({ ...input, messages: results }, how)).content).toBe(
      'The tools answered: sunny; noon',
    )
    const again = [...results, ...user('And now?')]
    const next = (await message({ ...input, messages: again }, how)).tool_calls
    expect(next[0].id).not.toBe(tool_calls[0].id)
  })

  it('calls the tools that the user names under the model name agent, and no others', async () => {
    const how = { model: 'agent' }
    const ask = (text: string) => message({ tools: [weather, clock], messages: user(text) }, how)
    const { content, tool_calls } = await ask(
      'Please weather({"city":"Paris (})","days":{"n":1}}).',
    )
    expect([content, tool_calls.map((call: any) => call.function)]).toEqual([
      null,
      [{ name: 'weather', arguments: '{"city":"Paris (})","days":{"n":1}}' }],
    ])
    for (const text of ['Weather?', 'weather({"city":', 'myweather({})', 'other({})']) {
      expect(await ask(text)).toMatchObject({ content: text })
    }
    const results = [
      ...user('clock({})'),
      { role: 'assistant', content: null, tool_calls },
      { role: 'tool', tool_call_id: tool_calls[0].id, content: 'noon' },
    ] as const
    expect((await message({ tools: [clock], messages: results }, how)).content).toBe(
      'The tools answered: noon',
    )
  })

  it('answers in JSON when asked to', async () => {
    const schema = { type: 'object', properties: { a: { enum: ['x', 'y'] } }, required: ['a'] }
    const response_format = { type: 'json_schema', json_schema: { name: 'n', schema } }
    expect((await message({ response_format })).content).toBe('{"a":"x"}')
    expect((await message({ response_format: { type: 'json_object' } })).content).toBe('{}')
  })

  it('keeps its pace, and stops after an abort', async () => {
    await using setup = await setUp(mock, { paceMs: 3_600_000 })
    const abort = new AbortController()
    const asked = [
      setup.ask(stream, { signal: abort.signal }),
      setup.ask({}, { signal: abort.signal }),
    ]
    abort.abort(new Error('the client left'))
    for (const one of asked) await expect(one).rejects.toThrow('the client left')
    const quick = await setup.ask(stream, { options: { paceMs: 0 } })
    expect(quick.at(-1)).toMatchObject({ endOfStream: true })
  })

  it('refuses scripts it does not understand', async () => {
    await expect(outcome({}, { options: { reply: 5 } })).rejects.toThrow()
    await expect(outcome({}, { options: { error: { class: 'nonsense' } } })).rejects.toThrow()
    await expect(outcome({}, { options: { answer: 'x' } })).rejects.toThrow()
  })
})

describe('instances of a schema', () => {
  const tree = {
    type: 'object',
    properties: {
      value: { type: 'number', exclusiveMinimum: 3, multipleOf: 5 },
      next: { anyOf: [{ $ref: '#' }, { type: 'null' }] },
      city: { $ref: '#/$defs/city' },
    },
    required: ['value', 'next', 'city'],
    $defs: { city: { type: 'string', minLength: 10 } },
  }

  it.each([
    { type: 'string', maxLength: 2 },
    { type: 'integer', minimum: -5, maximum: -2 },
    { type: 'number', exclusiveMaximum: -1 },
    { type: 'boolean' },
    { type: 'null' },
    { type: ['string', 'null'] },
    { const: { a: 1 } },
    { enum: [3, 4] },
    { type: 'array', items: { type: 'string' }, minItems: 2 },
    { oneOf: [{ type: 'string' }, { type: 'integer' }] },
    { allOf: [{ type: 'object', properties: { a: { type: 'string' } }, required: ['a'] }] },
    { properties: { a: {} }, required: ['a'] },
    {},
    tree,
  ])('are valid: %j', (schema) => {
    const ajv = new Ajv2020({ strict: false })
    expect(ajv.validate(schema, exampleOf(schema)), ajv.errorsText()).toBe(true)
  })

  it.each<[unknown]>([
    [{ type: 'object', properties: {}, required: 1 }],
    [{ type: 'object', properties: 7, required: ['a', 5, '__proto__', 'toString'] }],
    [{ type: 'string', minLength: 1e12, maxLength: 'x' }],
    [{ type: 'array', items: { type: 'array', minItems: 1e12 }, minItems: 1e12 }],
    [{ allOf: [{ $ref: '#' }, { $ref: '#' }, { $ref: '#' }] }],
    [{ allOf: [null, 3], anyOf: {}, oneOf: 'x', enum: 4 }],
    [{ $ref: '#/%zz/__proto__' }],
    [{ enum: [] }],
    [{ type: 'number', minimum: 'a', multipleOf: {}, exclusiveMaximum: null }],
    [[[]]],
  ])('are small for a schema that makes no sense: %j', (schema) => {
    expect(JSON.stringify(exampleOf(schema))).toHaveProperty('length', expect.any(Number))
    expect(JSON.stringify(exampleOf(schema)).length).toBeLessThan(100_000)
  })

  it('end for a recursive schema', () => {
    const endless = { type: 'object', properties: { a: { $ref: '#' } }, required: ['a'] }
    expect(JSON.stringify(exampleOf(endless))).toContain('null')
  })
})
