/** Custom tools, and names that a vendor refuses, at a vendor that has functions only. */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  withClientTools,
  withFunctionsOnly,
  CustomInput,
} from '../../../providers/shared/functions-only.ts'
import { toCompletion } from '../../endpoints/chat/_completion.ts'
import type { ChatChunk, ChatCompletion, ChatInput } from '../../../src/plugin.ts'
import { flowOf, toFlow } from '../../../src/stream/flow.ts'
import { silent } from '../_chat.ts'

const NAMES = /^[a-zA-Z0-9_-]{1,64}$/
const PATCH = { type: 'custom', custom: { name: 'patch', description: 'Edits files.' } }
const WEATHER = { type: 'function', function: { name: 'weather' } }
const LONG = { type: 'function', function: { name: `files.${'x'.repeat(80)}` } }

type Answer = ChatCompletion | AsyncIterable<ChatChunk>

/** What the vendor is sent, and the answer as the client gets it. */
async function chat(input: Partial<ChatInput>, answer: (sent: any) => Answer) {
  let sent: any
  const wrapped = withFunctionsOnly(async (request) => {
    sent = request.input
    return answer(sent)
  }, NAMES)
  const given = await wrapped({
    input: { messages: [{ role: 'user', content: 'Hello?' }], ...input },
    model: 'm',
    options: {},
    requestId: 'req_test',
    signal: new AbortController().signal,
    log: silent,
  })
  if (!(Symbol.asyncIterator in given)) return { sent, completion: given, chunks: [] }
  const chunks: ChatChunk[] = []
  for await (const chunk of toFlow(given)) chunks.push(chunk)
  return { sent, completion: toCompletion(chunks), chunks }
}

function begin(name: string, index = 0): ChatChunk {
  const call = { index, id: `call_${index}`, type: 'function', function: { name, arguments: '' } }
  return { choices: [{ index: 0, delta: { tool_calls: [call] } }] }
}

function more(text: string, index = 0): ChatChunk {
  return {
    choices: [{ index: 0, delta: { tool_calls: [{ index, function: { arguments: text } }] } }],
  }
}

const END: ChatChunk = { choices: [{ index: 0, delta: {}, finish_reason: 'tool_calls' }] }

describe('the request', () => {
  it('offers a custom tool as a function with one text', async () => {
    const tools = [PATCH, WEATHER]
    const tool_choice = { type: 'custom', custom: { name: 'patch' } }
    const { sent } = await chat({ tools, tool_choice }, () => flowOf(END))
    expect(sent.tools).toEqual([
      {
        type: 'function',
        function: {
          name: 'patch',
          description: 'Edits files.',
          parameters: {
            type: 'object',
            properties: { input: { type: 'string' } },
            required: ['input'],
            additionalProperties: false,
          },
        },
      },
      WEATHER,
    ])
    expect(sent.tool_choice).toEqual({ type: 'function', function: { name: 'patch' } })
  })

  it.each([
    [{ type: 'text' }, 'Edits files.\n\nThe input is any text.'],
    [
      { type: 'grammar', grammar: { syntax: 'lark', definition: 'start: "a"' } },
      'Edits files.\n\nThe input has to follow this grammar (lark):\nstart: "a"',
    ],
  ])('says what the input looks like: %j', async (format, description) => {
    const tools = [{ type: 'custom', custom: { ...PATCH.custom, format } }]
    const { sent } = await chat({ tools }, () => flowOf(END))
    expect(sent.tools[0].function.description).toBe(description)
  })

  it('sends earlier calls of custom tools as calls of functions', async () => {
    const custom = { name: 'patch', input: 'a "b"\n' }
    const answer = { role: 'assistant', tool_calls: [{ id: 'call_1', type: 'custom', custom }] }
    const messages = [answer, { role: 'tool', tool_call_id: 'call_1', content: 'Done.' }] as const
    const { sent } = await chat({ messages: messages as any }, () => flowOf(END))
    expect(sent.messages).toEqual([
      {
        role: 'assistant',
        tool_calls: [
          {
            id: 'call_1',
            type: 'function',
            function: { name: 'patch', arguments: '{"input":"a \\"b\\"\\n"}' },
          },
        ],
      },
      messages[1],
    ])
  })

  it('is the same object without custom tools and odd names', async () => {
    const input = { messages: [], tools: [WEATHER], tool_choice: 'auto' }
    const { sent } = await chat(input, () => flowOf(END))
    expect(sent.tools).toBe(input.tools)
  })
})

describe('the answer', () => {
  it('calls the custom tool with a plain text, as it streams', async () => {
    const answer = [
      begin('patch'),
      more('{"in'),
      more('put": "a \\'),
      more('"b'),
      more('\\n"}'),
      END,
    ]
    const { chunks, completion } = await chat({ tools: [PATCH] }, () => flowOf(...answer))
    expect(completion.choices[0]!.message.tool_calls).toEqual([
      { id: 'call_0', type: 'custom', custom: { name: 'patch', input: 'a "b\n' } },
    ])
    const pieces = chunks.flatMap(
      ({ choices }) => choices[0]?.delta?.tool_calls?.map(({ custom }) => custom?.input) ?? [],
    )
    expect(pieces).toEqual(['', '', 'a ', '"b', '\n'])
  })

  it('hands arguments of another form on as they are, before the answer ends', async () => {
    const answer = [begin('patch'), more('{"file":'), more('"a"}'), END]
    const { completion } = await chat({ tools: [PATCH] }, () => flowOf(...answer))
    expect(completion.choices[0]).toMatchObject({
      message: { tool_calls: [{ custom: { input: '{"file":"a"}' } }] },
      finish_reason: 'tool_calls',
    })
    const cut = await chat({ tools: [PATCH] }, () => flowOf(begin('patch'), more('{"file"')))
    expect(cut.completion.choices[0]!.message.tool_calls[0].custom.input).toBe('{"file"')
  })

  it('leaves functions alone, beside custom tools', async () => {
    const answer = [begin('weather'), begin('patch', 1), more('{}'), more('{"input":"x"}', 1), END]
    const { completion } = await chat({ tools: [PATCH, WEATHER] }, () => flowOf(...answer))
    expect(completion.choices[0]!.message.tool_calls).toEqual([
      { id: 'call_0', type: 'function', function: { name: 'weather', arguments: '{}' } },
      { id: 'call_1', type: 'custom', custom: { name: 'patch', input: 'x' } },
    ])
  })

  it('is the same from a generator and as a whole', async () => {
    const call = {
      id: 'call_0',
      type: 'function',
      function: { name: 'patch', arguments: '{"input":"x"}' },
    }
    const message = { role: 'assistant', content: null, tool_calls: [call] }
    const custom = [{ id: 'call_0', type: 'custom', custom: { name: 'patch', input: 'x' } }]
    const whole = await chat({ tools: [PATCH] }, () => ({ choices: [{ message }] }))
    expect(whole.completion.choices[0]!.message.tool_calls).toEqual(custom)
    async function* answer() {
      yield begin('patch')
      yield more('{"input":"x"}')
      yield END
    }
    const streamed = await chat({ tools: [PATCH] }, answer)
    expect(streamed.completion.choices[0]!.message.tool_calls).toEqual(custom)
  })

  it('replaces names that the vendor refuses, and gives the client its own', async () => {
    const input = { tools: [LONG, WEATHER], tool_choice: LONG }
    const { sent, completion } = await chat(input, ({ tools }) =>
      flowOf(begin(tools[0].function.name), more('{}'), END),
    )
    const { name } = sent.tools[0].function
    expect(name).toMatch(/^files_x+_[\da-f]{8}$/)
    expect(name).toHaveLength(64)
    expect(sent.tool_choice).toEqual({ type: 'function', function: { name } })
    expect(completion.choices[0]!.message.tool_calls[0].function.name).toBe(LONG.function.name)
  })
})

describe('the input of a custom call', () => {
  it('is the same wherever its arguments are cut', () => {
    const written = fc.constantFrom(JSON.stringify, escaped)
    const rule = fc.property(
      fc.string({ unit: 'grapheme', maxLength: 20 }),
      written,
      fc.array(fc.nat(60)),
      (input, write, cuts) => {
        const text = ` { "input" : ${write(input)} }`
        const places = [0, ...cuts.filter((cut) => cut < text.length).toSorted((a, b) => a - b)]
        const reader = new CustomInput()
        const pieces = places.map((from, at) => reader.push(text.slice(from, places[at + 1])))
        expect(pieces.join('') + reader.end()).toBe(input)
        // A client that encodes every piece on its own gets the same characters.
        expect(pieces.map((piece) => Buffer.from(piece).toString()).join('')).toBe(input)
      },
    )
    fc.assert(rule, { numRuns: 500 })
  })

  it.each(['', '{}', '[]', 'plain', '{"input":1}', '"text"', '{"input":null}', '  {"other":"x"}'])(
    'is the text itself: %s',
    (text) => {
      const reader = new CustomInput()
      expect(reader.push(text) + reader.end()).toBe(text)
    },
  )

  it('is found behind other members', () => {
    const reader = new CustomInput()
    expect(reader.push('{"note":1,') + reader.push('"input":"x"}') + reader.end()).toBe('x')
  })
})

/** JSON with every character escaped. */
function escaped(text: string): string {
  const units = Array.from({ length: text.length }, (_, at) => text.charCodeAt(at))
  return `"${units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('')}"`
}

describe('a vendor that has custom tools', () => {
  it('gets them as they are, and only names that it refuses are replaced', async () => {
    let sent: any
    const wrapped = withClientTools(
      async ({ input }) => {
        sent = input
        const { name } = sent.messages[0].tool_calls[0].custom
        const call = { index: 0, id: 'call_9', type: 'custom', custom: { name, input: 'x' } }
        return flowOf({ choices: [{ index: 0, delta: { tool_calls: [call] } }] }, END)
      },
      NAMES,
      true,
    )
    const ask = (messages: ChatInput['messages'], more: Partial<ChatInput> = {}) =>
      wrapped({
        input: { messages, ...more },
        model: 'm',
        options: {},
        requestId: 'req_test',
        signal: new AbortController().signal,
        log: silent,
      })
    const custom = (name: string) => [{ id: 'call_1', type: 'custom', custom: { name, input: '' } }]
    const calling = (name: string) => ({ role: 'assistant', tool_calls: custom(name) }) as const
    const tools = [PATCH, WEATHER, { type: 'vendor:search' }]
    const tool_choice = { type: 'custom', custom: { name: 'patch' } }
    const messages = [calling('patch')]
    await ask(messages, { tools, tool_choice })
    expect(sent).toEqual({ messages, tools, tool_choice })
    expect(sent.messages).toBe(messages)
    await ask([calling('a.patch')])
    expect(sent.messages[0].tool_calls[0].custom.name).toMatch(/^a_patch_[\da-f]{8}$/)
  })
})
