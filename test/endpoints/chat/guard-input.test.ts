import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { readChatRequest } from '../../../src/endpoints/chat/dialects/chat/read.ts'
import { outboundChat } from '../../../src/endpoints/chat/request.ts'
import { chatTexts } from '../../../src/endpoints/chat/guard-input.ts'
import type { TextItem } from '../../../src/plugin.ts'
import { withhold } from '../../../src/endpoints/chat/guard.ts'

const REFUSALS = ['No.\n\nCall us.', 'No.']
const BANNED = 'kestrel'

const system = (content: any) => ({ role: 'system', content })
const user = (content: any) => ({ role: 'user', content })
const assistant = (content: any, more = {}) => ({ role: 'assistant', content, ...more })
const tool = (content: any) => ({ role: 'tool', tool_call_id: 'call_1', content })
const calling = (args: string) =>
  assistant(null, {
    tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'look', arguments: args } }],
  })

describe('chatTexts', () => {
  it.each<[string, object, Partial<TextItem>]>([
    ['a system message', { messages: [system(BANNED), user('hi')] }, { role: 'system' }],
    [
      'a developer message',
      { messages: [{ role: 'developer', content: BANNED }, user('hi')] },
      { role: 'system', channel: 'content' },
    ],
    [
      'the first of two user messages in a row',
      { messages: [user(BANNED), user('and?')] },
      { id: 'messages[0]', role: 'user', current: true },
    ],
    [
      'an earlier turn',
      { messages: [user(BANNED), assistant('Yes?'), user('go on')] },
      { id: 'messages[0]', role: 'user', current: false },
    ],
    [
      'an assistant message in the history',
      { messages: [user('a'), assistant(BANNED), user('b')] },
      { role: 'assistant', channel: 'content', current: false },
    ],
    [
      'a prefill',
      { messages: [user('a'), assistant(BANNED)] },
      { role: 'assistant', current: true },
    ],
    [
      'the reasoning that a client hands back',
      {
        messages: [
          user('a'),
          assistant('b', { reasoning_details: [{ type: 'reasoning.text', text: BANNED }] }),
          user('c'),
        ],
      },
      { role: 'assistant', channel: 'reasoning' },
    ],
    [
      'the format of a sound',
      {
        messages: [
          user([{ type: 'input_audio', input_audio: { data: 'UklGRg==', format: BANNED } }]),
        ],
      },
      { channel: 'annotation' },
    ],
    [
      'a refusal in the history',
      { messages: [user('a'), assistant(null, { refusal: BANNED }), user('b')] },
      { role: 'assistant', channel: 'refusal' },
    ],
    [
      'a tool result of the current turn',
      { messages: [user('a'), calling('{}'), tool(BANNED)] },
      { role: 'tool', current: true },
    ],
    [
      'the answer to a legacy function',
      { messages: [user('a'), { role: 'function', name: 'look', content: BANNED }] },
      { role: 'tool', current: true },
    ],
    [
      'the arguments of a call, as written',
      { messages: [user('a'), calling(`{ "city": ${BANNED} `), tool('x')] },
      { id: 'messages[1].tool_calls[0]', role: 'assistant', channel: 'tool_call' },
    ],
    [
      'the arguments of a call, decoded',
      { messages: [user('a'), calling('{"city":["\\u006bestrel"]}'), tool('x')] },
      { text: BANNED, channel: 'tool_call' },
    ],
    [
      'the name of an argument',
      { messages: [user('a'), calling('{"kes\\u0074rel":1}'), tool('x')] },
      { text: BANNED, channel: 'tool_call' },
    ],
    [
      'a call of a custom tool',
      {
        messages: [
          user('a'),
          assistant(null, {
            tool_calls: [{ id: 'c', type: 'custom', custom: { name: 'run', input: BANNED } }],
          }),
          tool('x'),
        ],
      },
      { channel: 'tool_call' },
    ],
    [
      'a legacy function call',
      {
        messages: [
          user('a'),
          assistant(null, { function_call: { name: 'look', arguments: `{"a":"${BANNED}"}` } }),
          { role: 'function', name: 'look', content: 'x' },
        ],
      },
      { text: BANNED, channel: 'tool_call' },
    ],
    [
      'the description of a tool',
      {
        messages: [user('a')],
        tools: [{ type: 'function', function: { name: 'look', description: BANNED } }],
      },
      { channel: 'tool_schema' },
    ],
    [
      'a string deep in the schema of a tool',
      {
        messages: [user('a')],
        tools: [
          {
            type: 'function',
            function: {
              name: 'look',
              parameters: { type: 'object', properties: { a: { enum: ['x', BANNED] } } },
            },
          },
        ],
      },
      { text: BANNED, channel: 'tool_schema' },
    ],
    [
      'the name of a property in the schema of a tool',
      {
        messages: [user('a')],
        tools: [
          {
            type: 'function',
            function: { name: 'look', parameters: { properties: { [BANNED]: {} } } },
          },
        ],
      },
      { text: BANNED, channel: 'tool_schema' },
    ],
    [
      'the schema of the answer',
      {
        messages: [user('a')],
        response_format: {
          type: 'json_schema',
          json_schema: { name: 'x', schema: { description: BANNED } },
        },
      },
      { channel: 'tool_schema' },
    ],
    [
      'the choice of a tool',
      {
        messages: [user('a')],
        tool_choice: {
          type: 'allowed_tools',
          allowed_tools: { mode: 'auto', tools: [{ type: 'function', name: BANNED }] },
        },
      },
      { text: BANNED, channel: 'tool_schema' },
    ],
    [
      'the choice of a legacy function',
      { messages: [user('a')], function_call: { name: BANNED } },
      { text: BANNED, channel: 'tool_schema' },
    ],
    ['a stop string', { messages: [user('a')], stop: ['x', BANNED] }, { channel: 'tool_schema' }],
    [
      'predicted output',
      {
        messages: [user('a')],
        prediction: { type: 'content', content: [{ type: 'text', text: BANNED }] },
      },
      { channel: 'tool_schema' },
    ],
    [
      'a member we do not know',
      { messages: [user('a')], chat_template_kwargs: { persona: [BANNED] } },
      { text: BANNED, channel: 'tool_schema' },
    ],
    [
      'the name of a member we do not know, with a number',
      { messages: [user('a')], [BANNED]: 5 },
      { text: BANNED, channel: 'annotation' },
    ],
    [
      'a member of a message we do not know',
      { messages: [{ ...user('a'), notes: { before: BANNED } }] },
      { text: BANNED, channel: 'annotation' },
    ],
    [
      'the name of a speaker',
      { messages: [{ ...user('a'), name: BANNED }] },
      { text: BANNED, channel: 'annotation' },
    ],
    [
      'the prompt for a search',
      { messages: [user('a')], plugins: [{ id: 'web', search_prompt: BANNED }] },
      { channel: 'search', current: true },
    ],
    [
      'the address of an image',
      {
        messages: [
          user([{ type: 'image_url', image_url: { url: `https://a.example/${BANNED}.png` } }]),
        ],
      },
      { channel: 'annotation', role: 'user' },
    ],
    [
      'the name of a file',
      {
        messages: [
          user([
            { type: 'file', file: { filename: `${BANNED}.pdf`, file_data: 'JVBERi0xLjcKgID/' } },
          ]),
        ],
      },
      { channel: 'annotation', role: 'user' },
    ],
    [
      'a file of text',
      { messages: [user([file(`data:text/plain;base64,${base64(BANNED)}`)])] },
      { channel: 'document', role: 'user', text: BANNED },
    ],
    [
      'a file of text that does not say so',
      { messages: [user([file(base64(BANNED))])] },
      { channel: 'document', role: 'user', text: BANNED },
    ],
    [
      'a file of text that is not quite text',
      {
        messages: [user([file(`data:text/plain;base64,${base64(`${BANNED}\0\u00ff`, 'latin1')}`)])],
      },
      { channel: 'document', role: 'user' },
    ],
    ...['reasoning', 'reasoning_content', 'refusal'].map((name): [string, object, object] => [
      `the ${name} of a role other than the assistant's`,
      { messages: [{ ...user('a'), [name]: { of: [BANNED] } }] },
      { text: BANNED, channel: 'annotation', role: 'user' },
    ]),
    ...['tool_calls', 'function_call', 'reasoning_details'].map(
      (name): [string, object, object] => [
        `the ${name} of a role other than the assistant's`,
        { messages: [{ ...user('a'), [name]: [{ function: { name: 'x', arguments: BANNED } }] }] },
        { text: BANNED, channel: 'annotation', role: 'user' },
      ],
    ),
    ...[
      { type: 'text', text: 'a', notes: BANNED },
      { type: 'text', text: 'a', refusal: BANNED },
      { type: 'refusal', refusal: 'a', text: BANNED },
      { type: 'image_url', image_url: { url: 'https://a.example/b', notes: [BANNED] } },
      { type: 'image_url', image_url: 'https://a.example/b', text: { toString: BANNED } },
      { type: 'input_audio', input_audio: { data: 'UklGRg==', format: 'wav', words: BANNED } },
      { type: 'file', file: { file_data: 'JVBERi0xLjcKgID/', notes: BANNED } },
      { type: 'file', file: { file_data: base64('Plain.'), notes: BANNED } },
    ].map((part): [string, object, object] => [
      `what a part of type ${part.type} has besides: ${Object.keys(part).join()}`,
      { messages: [user([part])] },
      { text: BANNED, channel: 'annotation', role: 'user' },
    ]),
    [
      'the words of a refusal in parts, whatever else it has',
      { messages: [user('a'), assistant([{ type: 'refusal', refusal: BANNED, text: 'b' }])] },
      { text: BANNED, channel: 'content', role: 'assistant' },
    ],
    ...[
      { id: 'c', type: 'function', notes: BANNED, function: { name: 'a', arguments: '{}' } },
      { id: 'c', type: 'function', function: { name: 'a', arguments: '{}', notes: [BANNED] } },
      {
        id: 'c',
        type: 'function',
        function: { name: 'a', arguments: '{}' },
        custom: { name: 'b', input: BANNED },
      },
    ].map((call): [string, object, object] => [
      `what a call has besides: ${JSON.stringify(call).length}`,
      { messages: [user('a'), assistant(null, { tool_calls: [call] }), tool('x')] },
      { text: BANNED, role: 'assistant' },
    ]),
    [
      'what a legacy function call has besides',
      {
        messages: [
          user('a'),
          assistant(null, { function_call: { name: 'a', arguments: '{}', notes: BANNED } }),
          { role: 'function', name: 'a', content: 'x' },
        ],
      },
      { text: BANNED, channel: 'annotation', role: 'assistant' },
    ],
    ...[
      { type: 'reasoning.text', text: [BANNED] },
      { type: 'reasoning.text', text: 'a', notes: { of: BANNED } },
    ].map((detail): [string, object, object] => [
      `what an entry of reasoning has besides: ${Object.keys(detail).join()}`,
      { messages: [user('a'), assistant('b', { reasoning_details: [detail] }), user('c')] },
      { text: BANNED, channel: 'annotation', role: 'assistant' },
    ]),
  ])('reads %s', (_, body, expected) => {
    const found = unitsOf(body).items.filter(({ text }) => text.includes(BANNED))
    expect(found).toContainEqual(expect.objectContaining({ side: 'input', ...expected }))
  })

  it('reads text that stands in several parts as the model does', () => {
    const parts = ['kes', 'trel'].map((text) => ({ type: 'text', text }))
    expect(unitsOf({ messages: [user(parts)] }).items).toEqual([
      {
        id: 'messages[0]',
        side: 'input',
        channel: 'content',
        role: 'user',
        current: true,
        text: BANNED,
      },
    ])
  })

  it('never joins two items', () => {
    const { items } = unitsOf({ messages: [user('kes'), user('trel')] })
    expect(items.map(({ text }) => text)).toEqual(['kes', 'trel'])
  })

  it('marks what no text rule can read', () => {
    const image = 'data:image/png;base64,iVBORw0KGgo='
    const pdf = 'data:application/pdf;base64,JVBERi0xLjcKgID/'
    const { items } = unitsOf({
      messages: [
        user([
          { type: 'image_url', image_url: { url: image } },
          { type: 'input_audio', input_audio: { data: 'UklGRg==', format: 'wav' } },
          file(pdf),
          { type: 'image_url', image_url: { url: 'https://a.example/b' } },
        ]),
      ],
    })
    expect(items).toContainEqual({
      id: 'messages[0]',
      side: 'input',
      channel: 'content',
      role: 'user',
      current: true,
      text: '',
      media: [
        { kind: 'image', mediaType: 'image/png', url: image },
        { kind: 'audio', mediaType: 'audio/wav' },
        { kind: 'file', mediaType: 'application/pdf', url: pdf },
        { kind: 'image', url: 'https://a.example/b' },
      ],
    })
    expect(items.filter(({ text }) => text.includes('base64'))).toEqual([])
  })

  it('takes no word of JSON Schema or of the wire format for one of the client', () => {
    const { items } = unitsOf({
      messages: [user('a')],
      stream: true,
      metadata: { note: 'x' },
      tool_choice: 'auto',
      function_call: 'none',
      response_format: { type: 'json_object' },
      tools: [
        {
          type: 'function',
          function: {
            name: 'look',
            description: 'Looks.',
            parameters: {
              type: 'object',
              properties: { city: { type: 'string', description: 'Where?' } },
              required: ['city'],
              additionalProperties: false,
            },
          },
        },
      ],
    })
    const texts = items.filter(({ channel }) => channel === 'tool_schema').map(({ text }) => text)
    expect(texts).toEqual(['look', 'Looks.', 'city', 'Where?'])
  })

  it.each([
    { type: 'function', function: { name: 'look' } },
    { type: 'custom', custom: { name: 'look' } },
    {
      type: 'allowed_tools',
      allowed_tools: { mode: 'auto', tools: [{ type: 'custom', custom: { name: 'look' } }] },
    },
  ])('reads nothing but names in the choice of a tool: %j', (tool_choice) => {
    const { items } = unitsOf({ messages: [user('a')], tool_choice })
    expect(items.map(({ text }) => text)).toEqual(['a', 'look'])
  })

  it('takes handles for names, and no mark of the wire format for words', () => {
    const cache_control = { type: 'ephemeral' }
    const detail = { type: 'reasoning.encrypted', data: 'e', signature: 's', id: 'i', format: 'f' }
    const call = { id: 'c', type: 'function', function: { name: 'look', arguments: '[]' } }
    const messages = [
      { ...user([{ type: 'text', text: 'a', cache_control }]), cache_control },
      assistant(null, {
        tool_calls: [{ ...call, index: 0 }],
        reasoning_details: [{ ...detail, index: 0 }],
      }),
      tool('b'),
      user([
        {
          type: 'image_url',
          image_url: { url: 'data:image/png;base64,iVBORw0KGgo=', detail: 'low' },
        },
        { type: 'input_audio', input_audio: { data: 'UklGRg==', format: 'wav' } },
      ]),
    ]
    const { items } = unitsOf({ messages })
    const textsOf = (named: boolean) =>
      items.filter(({ channel }) => (channel === 'annotation') === named).map(({ text }) => text)
    expect(textsOf(false)).toEqual(['a', 'look', '[]', 'b', ''])
    expect(textsOf(true)).toEqual(['i', 'f', 'c', 'call_1'])
  })

  it('leaves out searches that will not be made', () => {
    const plugins = [
      { id: 'web', enabled: false, search_prompt: BANNED },
      { id: 'other', search_prompt: BANNED },
    ]
    expect(unitsOf({ messages: [user('a')], plugins }).items).toHaveLength(1)
  })

  it('has an id of its own for each unit, and no word of the client in any', () => {
    const { items } = unitsOf({
      messages: [
        { ...user('a'), name: 'ann', kestrel: { kestrel: 'x' } },
        calling('{"kestrel":["b","c",{"d":"e"}]}'),
        tool('f'),
        assistant('g', { reasoning: 'h', reasoning_content: 'i' }),
        user('j'),
      ],
      tools: [{ type: 'function', function: { name: 'kestrel', description: 'l' } }],
      stop: ['m', 'n'],
    })
    const ids = items.map(({ id }) => id)
    expect(new Set(ids).size).toBe(ids.length)
    expect(ids.join()).not.toContain('kestrel')
  })

  it('reads JSON of any depth', () => {
    const depth = 100_000
    const args = `${'['.repeat(depth)}"${BANNED}"${']'.repeat(depth)}`
    const { items } = unitsOf({ messages: [user('a'), calling(args), tool('b')] })
    expect(items.map(({ text }) => text)).toContain(BANNED)
  })

  describe('the current turn', () => {
    it.each<[string, object[], number[]]>([
      ['begins the conversation', [user('a'), user('b')], [0, 1]],
      ['follows the last words of the model', [user('a'), assistant('b'), user('c')], [2]],
      ['goes on through calls of tools', [user('a'), calling('{}'), tool('b')], [0, 1, 2]],
      ['has the prefill', [user('a'), assistant('b')], [0, 1]],
      ['has a prefill in several messages', [user('a'), assistant('b'), assistant('c')], [0, 1, 2]],
      ['is not ended by white space', [user('a'), assistant(' \n'), user('b')], [0, 1, 2]],
    ])('%s', (_, messages, expected) => {
      const { items } = unitsOf({ messages })
      const current = items.filter((one) => one.current).map(({ id }) => /\d+/.exec(id)![0])
      expect([...new Set(current)].map(Number)).toEqual(expected)
    })
  })
})

describe('settled refusals', () => {
  const refused = [user(BANNED), assistant('No.')]

  it('are turns that the refusal text answered', () => {
    const { refusedTurns: settled } = unitsOf({ messages: [...refused, user('hello')] })
    expect(settled).toEqual([{ items: new Set(['messages[0]']), messages: [-3] }])
  })

  it.each<[string, object]>([
    ['with the escalation text', assistant(REFUSALS[0])],
    ['without it', assistant(REFUSALS[1])],
    ['in parts', assistant([{ type: 'text', text: 'No.' }])],
    ['as a refusal, where JSON was asked for', assistant(null, { refusal: 'No.' })],
    ['in both members', assistant('No.', { refusal: 'No.' })],
    ['trimmed by the client', assistant(' No.\n')],
  ])('are known by the refusal text %s', (_, answer) => {
    expect(unitsOf({ messages: [user(BANNED), answer, user('b')] }).refusedTurns).toHaveLength(1)
  })

  it.each<[string, object[]]>([
    ['an answer that says more', [user(BANNED), assistant('No. But:'), user('b')]],
    [
      'an answer that calls a tool too',
      [user(BANNED), { ...calling('{}'), content: 'No.' }, tool('x'), user('b')],
    ],
    ['a forged refusal after the current turn', [user(BANNED), assistant('No.')]],
    ['several of them', [user(BANNED), assistant('No.'), assistant('No.')]],
    ['a forged refusal before the current turn', [assistant('No.'), user(BANNED)]],
    ['a refusal that a user utters', [user(BANNED), user('No.'), user('b')]],
  ])('are not made by %s', (_, messages) => {
    expect(unitsOf({ messages }).refusedTurns).toEqual([])
  })

  it('have the tool messages of the turn, and never a system message', () => {
    const messages = [
      system(BANNED),
      user('a'),
      calling('{}'),
      tool(BANNED),
      { role: 'function', name: 'look', content: 'x' },
      assistant('No.'),
      user('b'),
    ]
    const { refusedTurns: settled } = unitsOf({ messages })
    expect(settled).toEqual([
      { items: new Set(['messages[1]', 'messages[3]', 'messages[4]']), messages: [-6, -4, -3] },
    ])
  })

  it('are told one by one', () => {
    const messages = [...refused, user('a'), assistant('Yes.'), ...refused, user('b')]
    expect(unitsOf({ messages }).refusedTurns.map((turn) => turn.messages)).toEqual([[-7], [-3]])
  })
})

describe('withhold', () => {
  const messages = [
    { ...user([{ type: 'text', text: BANNED }]), name: BANNED, notes: BANNED },
    calling('{}'),
    { ...tool(BANNED), notes: BANNED },
    assistant('No.'),
    user('hello'),
  ]
  const request = readChatRequest({ model: 'a/b', messages })
  const { refusedTurns: settled } = chatTexts(request, REFUSALS)

  it('leaves nothing of the turn, whatever instructions were put before it', () => {
    const outbound = outboundChat(request)
    const instructed = { ...outbound, messages: [system('Be brief.') as any, ...outbound.messages] }
    for (const [given, before] of [
      [outbound, []],
      [instructed, [system('Be brief.')]],
    ] as const) {
      const copy = structuredClone(given)
      expect(withhold(given, settled).messages).toEqual([
        ...before,
        user('[withheld]'),
        calling('{}'),
        tool('[withheld]'),
        assistant('No.'),
        user('hello'),
      ])
      expect(given).toEqual(copy)
    }
  })

  it('changes nothing where nothing is withheld', () => {
    const outbound = outboundChat(request)
    expect(withhold(outbound, [])).toBe(outbound)
  })

  it('never lets a text upstream that would block, for any conversation', () => {
    const message = fc.oneof(
      fc.constantFrom(
        system('s'),
        system(BANNED),
        user('u'),
        user(BANNED),
        tool('t'),
        tool(BANNED),
      ),
      fc.constantFrom(assistant('a'), assistant('No.'), assistant(REFUSALS[0]), calling('{}')),
    )
    fc.assert(
      fc.property(fc.array(message, { minLength: 1, maxLength: 8 }), (conversation) => {
        const input = readChatRequest({ model: 'a/b', messages: conversation })
        const found = chatTexts(input, REFUSALS)
        const violating = found.items.filter(({ text }) => text.includes(BANNED))
        const turns = found.refusedTurns.filter(({ items }) =>
          violating.some(({ id }) => items.has(id)),
        )
        const blocks = violating.some(({ id }) => !turns.some(({ items }) => items.has(id)))
        const sent = JSON.stringify(withhold(outboundChat(input), turns))
        expect(sent.includes(BANNED)).toBe(blocks)
        // What is being asked now is never withheld.
        const current = found.items.filter((one) => one.current).map(({ id }) => id)
        for (const { items } of found.refusedTurns) {
          expect(current.filter((id) => items.has(id))).toEqual([])
        }
      }),
    )
  })
})

function unitsOf(body: object) {
  return chatTexts(readChatRequest({ model: 'a/b', ...body }), REFUSALS)
}

function file(file_data: string) {
  return { type: 'file', file: { file_data } }
}

function base64(text: string, encoding: BufferEncoding = 'utf8'): string {
  return Buffer.from(text, encoding).toString('base64')
}
