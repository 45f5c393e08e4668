/** Tools through the official client and its helpers. */
import type OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { answered, HELLO, setUp, streamed, user, type Setup } from './_setup.ts'

let s: Setup
beforeAll(async () => {
  s = await setUp()
})
afterAll(() => s[Symbol.asyncDispose]())

const PARAMETERS = {
  type: 'object',
  properties: { id: { type: 'string' } },
  required: ['id'],
  additionalProperties: false,
}
const tool = (name: string): OpenAI.ChatCompletionFunctionTool => ({
  type: 'function',
  function: { name, parameters: PARAMETERS },
})
const strict = (name: string): OpenAI.ChatCompletionFunctionTool => ({
  type: 'function',
  function: { name, parameters: PARAMETERS, strict: true },
})
const called = (id: string, name: string, text: string) => ({
  id,
  type: 'function' as const,
  function: { name, arguments: text },
})
const fragment = (members: object) => ({ tool_calls: [{ index: 0, ...members }] })
const SHOP = { ...HELLO, tools: [tool('find_order'), tool('find_stock')] }
const TWO_CALLS = [
  called('call_1', 'find_order', '{"id":"A"}'),
  called('call_2', 'find_stock', '{"id":"B"}'),
]

describe('tools', () => {
  it('are offered, called in parallel, and answered', async () => {
    s.vendor.answer(answered({ tool_calls: TWO_CALLS }, 'stop'))
    const first = await s.client.chat.completions.create({
      ...SHOP,
      tool_choice: 'auto',
      parallel_tool_calls: true,
    })
    expect(s.vendor.requests.at(-1)!.json).toMatchObject({
      tools: SHOP.tools,
      tool_choice: 'auto',
      parallel_tool_calls: true,
    })
    const { message, finish_reason } = first.choices[0]!
    expect(finish_reason).toBe('tool_calls')
    expect(message.content).toBeNull()
    expect(message.tool_calls).toEqual(TWO_CALLS)

    s.vendor.answer(answered({ content: 'Both are there.' }))
    const second = await s.client.chat.completions.create({
      ...SHOP,
      messages: [
        ...HELLO.messages,
        message,
        { role: 'tool', tool_call_id: 'call_1', content: 'shipped' },
        { role: 'tool', tool_call_id: 'call_2', content: [{ type: 'text', text: '7 left' }] },
      ],
    })
    expect(second.choices[0]!.message.content).toBe('Both are there.')
    expect(s.vendor.requests.at(-1)!.json.messages.slice(1)).toEqual([
      { role: 'assistant', content: null, tool_calls: TWO_CALLS },
      { role: 'tool', tool_call_id: 'call_1', content: 'shipped' },
      { role: 'tool', tool_call_id: 'call_2', content: [{ type: 'text', text: '7 left' }] },
    ])
  })

  it('survive histories that other clients write', async () => {
    s.vendor.answer(answered({ content: 'Hm.' }))
    const calls = [{ id: 'call_1', function: { name: 'find_order', arguments: '{"id": broken' } }]
    const history: unknown[] = [
      user('Hi'),
      { role: 'assistant', content: '', tool_calls: calls },
      { role: 'tool', tool_call_id: 'call_1', content: '' },
      { role: 'assistant', tool_calls: [called('call_2', 'find_order', '{}')] },
      { role: 'tool', tool_call_id: 'call_2', content: '{}' },
      { role: 'assistant', content: 'Well.', tool_calls: null, name: 'ann' },
    ]
    await s.client.chat.completions.create({ ...SHOP, messages: history as typeof HELLO.messages })
    const sent = s.vendor.requests.at(-1)!.json.messages
    expect(sent[1]).toEqual({
      role: 'assistant',
      content: '',
      tool_calls: [called('call_1', 'find_order', '{"id": broken')],
    })
    expect(sent[3]).toEqual({
      role: 'assistant',
      content: null,
      tool_calls: [called('call_2', 'find_order', '{}')],
    })
    expect(sent[5]).toEqual({ role: 'assistant', content: 'Well.', name: 'ann' })
  })

  it('are called in a stream, with text before them', async () => {
    s.vendor.answer(
      streamed(
        [
          { content: 'Let me see.' },
          {
            tool_calls: [
              { index: 0, id: 'call_1', type: 'function', function: { name: 'find_order' } },
            ],
          },
          { tool_calls: [{ index: 0, function: { arguments: '{"id"' } }] },
          { tool_calls: [{ index: 0, function: { arguments: ':"A"}' } }] },
          { tool_calls: [{ index: 1, ...called('call_2', 'find_stock', '{"id":"B"}') }] },
        ],
        'tool_calls',
      ),
    )
    const heard: string[] = []
    const { choices } = await s.client.chat.completions
      .stream(SHOP)
      .on('tool_calls.function.arguments.done', (call) =>
        heard.push(`${call.name} ${call.arguments}`),
      )
      .finalChatCompletion()
    expect(heard).toEqual(['find_order {"id":"A"}', 'find_stock {"id":"B"}'])
    expect(choices[0]!.message).toMatchObject({ content: 'Let me see.', tool_calls: TWO_CALLS })
    expect(choices[0]!.finish_reason).toBe('tool_calls')
  })

  it.each<[string, object[]]>([
    [
      'counts calls from 1',
      [
        { index: 1, ...called('call_1', 'find_order', '{"id":') },
        { index: 1, function: { arguments: '"A"}' } },
        { index: 2, ...called('call_2', 'find_stock', '{"id":"B"}') },
      ],
    ],
    [
      'repeats ids and names',
      [
        { index: 0, ...called('call_1', 'find_order', '{"id":') },
        { index: 0, ...called('call_1', 'find_order', '"A"}') },
        { index: 1, ...called('call_2', 'find_stock', '{"id":"B"}') },
      ],
    ],
    [
      'interleaves calls',
      [
        { index: 0, ...called('call_1', 'find_order', '') },
        { index: 1, ...called('call_2', 'find_stock', '') },
        { index: 1, function: { arguments: '{"id":' } },
        { index: 0, function: { arguments: '{"id":"A"}' } },
        { index: 1, function: { arguments: '"B"}' } },
      ],
    ],
    [
      'sends types of null, and fragments without a function',
      [
        { index: 0, ...called('call_1', 'find_order', '{"id":"A"}') },
        { index: 0, id: null, type: null, function: { name: null, arguments: '' } },
        { index: 0 },
        { index: 1, ...called('call_2', 'find_stock', '{"id":"B"}') },
      ],
    ],
    [
      'knows no indexes',
      [called('call_1', 'find_order', '{"id":"A"}'), called('call_2', 'find_stock', '{"id":"B"}')],
    ],
  ])('arrive whole from a vendor that %s', async (_name, fragments) => {
    s.vendor.answer(
      streamed(
        fragments.map((one) => ({ tool_calls: [one] })),
        'tool_calls',
      ),
    )
    const tools = [strict('find_order'), strict('find_stock')]
    const heard: unknown[] = []
    const { choices } = await s.client.chat.completions
      .stream({ ...HELLO, tools })
      .on('tool_calls.function.arguments.done', (call) =>
        heard.push([call.index, call.name, call.parsed_arguments]),
      )
      .finalChatCompletion()
    expect(heard).toEqual([
      [0, 'find_order', { id: 'A' }],
      [1, 'find_stock', { id: 'B' }],
    ])
    expect(choices[0]!.message.tool_calls).toMatchObject(TWO_CALLS)
  })

  it('get ids where the vendor gives none', async () => {
    const fragments = TWO_CALLS.map(({ id: _id, ...call }, index) => ({ index, ...call }))
    for (const stream of [true, false]) {
      s.vendor.answer(
        stream
          ? streamed(
              fragments.map((one) => ({ tool_calls: [one] })),
              'tool_calls',
            )
          : answered({ tool_calls: fragments }, 'tool_calls'),
      )
      const { choices } = stream
        ? await s.client.chat.completions.stream(SHOP).finalChatCompletion()
        : await s.client.chat.completions.create(SHOP)
      const ids = choices[0]!.message.tool_calls!.map((call) => call.id)
      expect(ids).toEqual([
        expect.stringMatching(/^call_\w+$/),
        expect.stringMatching(/^call_\w+$/),
      ])
      expect(ids[0]).not.toBe(ids[1])
    }
  })

  it('of type custom are called with plain text', async () => {
    const tools: OpenAI.ChatCompletionTool[] = [{ type: 'custom', custom: { name: 'run' } }]
    const custom = { id: 'call_1', type: 'custom', custom: { name: 'run', input: 'ls -l' } }
    s.vendor.answer(answered({ tool_calls: [custom] }, 'tool_calls'))
    const { choices } = await s.client.chat.completions.create({ ...HELLO, tools })
    expect(choices[0]!.message.tool_calls).toEqual([custom])
    expect(s.vendor.requests.at(-1)!.json.tools).toEqual(tools)
    s.vendor.answer(
      streamed(
        [
          fragment({ ...custom, custom: { name: 'run', input: 'ls ' } }),
          fragment({ custom: { input: '-l' } }),
        ],
        'tool_calls',
      ),
    )
    const message = await s.client.chat.completions.stream({ ...HELLO, tools }).finalMessage()
    expect(message.tool_calls).toMatchObject([custom])
  })

  it('in their legacy form are answered in their legacy form', async () => {
    const functions = [{ name: 'find_order', parameters: PARAMETERS }]
    s.vendor.answer(answered({ tool_calls: TWO_CALLS.slice(0, 1) }, 'tool_calls'))
    const { choices } = await s.client.chat.completions.create({ ...HELLO, functions })
    expect(s.vendor.requests.at(-1)!.json).toMatchObject({ tools: [tool('find_order')] })
    expect(choices[0]).toMatchObject({
      finish_reason: 'function_call',
      message: { function_call: { name: 'find_order', arguments: '{"id":"A"}' } },
    })
    expect(choices[0]!.message).not.toHaveProperty('tool_calls')
    s.vendor.answer(
      streamed(
        [{ tool_calls: [{ index: 0, ...called('call_1', 'find_order', '{"id":"A"}') }] }],
        'tool_calls',
      ),
    )
    const stream = s.client.chat.completions.stream({ ...HELLO, functions })
    expect((await stream.finalMessage()).function_call).toEqual({
      name: 'find_order',
      arguments: '{"id":"A"}',
    })
  })
})

/** Calls both tools, then one of them once more, then answers with what it was told. */
const plays = (request: { json: any }) => {
  const { messages, stream } = request.json
  const results = messages.filter((one: any) => one.role === 'tool')
  const calls = [TWO_CALLS, undefined, [called('call_3', 'find_stock', '{"id":"C"}')]][
    results.length
  ]
  const text = results.map((one: any) => one.content).join(', ')
  if (!stream)
    return calls ? answered({ tool_calls: calls }, 'tool_calls') : answered({ content: text })
  return calls
    ? streamed(
        calls.map((call, index) => ({ tool_calls: [{ index, ...call }] })),
        'tool_calls',
      )
    : streamed([{ content: text }])
}

describe('runTools', () => {
  const asked: string[] = []
  const runnable = (name: string, result: string) => ({
    type: 'function' as const,
    function: {
      name,
      description: `Runs ${name}.`,
      parameters: PARAMETERS,
      parse: JSON.parse,
      function: ({ id }: { id: string }) => {
        asked.push(`${name} ${id}`)
        return result
      },
    },
  })
  const tools = [runnable('find_order', 'shipped'), runnable('find_stock', '7 left')]
  it.each([false, true])('runs the loop to its end (stream: %s)', async (stream) => {
    s.vendor.answer(plays)
    asked.length = 0
    const { completions } = s.client.chat
    const runner = stream
      ? completions.runTools({ ...HELLO, tools, stream: true })
      : completions.runTools({ ...HELLO, tools })
    expect(await runner.finalContent()).toBe('shipped, 7 left, 7 left')
    expect(asked).toEqual(['find_order A', 'find_stock B', 'find_stock C'])
    expect(runner.messages.map((message) => message.role)).toEqual([
      'user',
      'assistant',
      'tool',
      'tool',
      'assistant',
      'tool',
      'assistant',
    ])
    expect(await runner.totalUsage()).toMatchObject({ prompt_tokens: 126, completion_tokens: 51 })
  })

  it('runs against the mock provider, which needs no vendor', async () => {
    asked.length = 0
    const runner = s.client.chat.completions.runTools({ ...HELLO, model: 'mock/tools', tools })
    expect(await runner.finalContent()).toContain('shipped; 7 left')
    expect(asked).toHaveLength(2)
  })
})
