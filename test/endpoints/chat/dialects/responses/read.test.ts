import { describe, expect, it } from 'vitest'
import { readResponsesRequest } from '../../../../../src/endpoints/chat/dialects/responses/read.ts'
import { toCarrier } from '../../../../../src/endpoints/chat/dialects/shared/reasoning.ts'
import { outboundChat } from '../../../../../src/endpoints/chat/request.ts'
import { InvalidRequest } from '../../../../../src/errors/errors.ts'
import { RawJson } from '../../../../../src/stream/raw-json.ts'

function read(body: object) {
  const text = JSON.stringify({ model: 'a/b', input: 'Hi', ...body })
  return readResponsesRequest(new RawJson(text, JSON.parse(text)))
}
const inputOf = (body: object): any => {
  const { labels: _labels, ...input } = read(body).input
  return input
}
const messagesOf = (input: unknown) => inputOf({ input }).messages
const user = (content: unknown) => ({ role: 'user', content })

describe('a body', () => {
  it('becomes a chat request', () => {
    const format = { type: 'json_schema', name: 'n', schema: { type: 'object' }, strict: true }
    expect(
      inputOf({
        instructions: 'Be kind.',
        stream: true,
        temperature: 0.5,
        max_output_tokens: 5,
        reasoning: { effort: 'high', summary: 'auto' },
        text: { format, verbosity: 'low' },
        include: ['message.output_text.logprobs'],
        top_logprobs: 2,
        user: 'u',
        metadata: null,
      }),
    ).toEqual({
      model: 'a/b',
      messages: [{ role: 'developer', content: 'Be kind.' }, user('Hi')],
      stream: true,
      temperature: 0.5,
      max_completion_tokens: 16,
      reasoning: { effort: 'high', summary: 'auto' },
      verbosity: 'low',
      response_format: {
        type: 'json_schema',
        json_schema: { name: 'n', schema: { type: 'object' }, strict: true },
      },
      logprobs: true,
      top_logprobs: 2,
      user: 'u',
    })
  })

  it('keeps no unknown effort or summary', () => {
    expect(inputOf({ reasoning: { effort: 'odd', summary: 'none' } })).not.toHaveProperty(
      'reasoning',
    )
  })

  it.each<[object, string, string]>([
    [{ input: [] }, 'empty_array', 'input'],
    [{ input: '' }, 'empty_string', 'input'],
    [{ input: [{ role: 'robot', content: 'x' }] }, 'invalid_value', 'input[0].role'],
    [
      { input: [user([{ type: 'input_image', image_url: 'ftp://x' }])] },
      'invalid_value',
      'input[0].content[0].image_url',
    ],
    [
      { input: [user([{ type: 'input_image', file_id: 'f' }])] },
      'unsupported_value',
      'input[0].content[0].file_id',
    ],
    [
      { input: [user([{ type: 'input_file', filename: 'a' }])] },
      'missing_required_parameter',
      'input[0].content[0].file_data',
    ],
    [
      { input: [{ type: 'function_call', call_id: 'c', name: 'f' }] },
      'missing_required_parameter',
      'input[0].arguments',
    ],
    [{ tools: [{ type: 'function' }] }, 'missing_required_parameter', 'tools[0].name'],
    [{ temperature: 3 }, 'decimal_above_max_value', 'temperature'],
    [{ text: { format: { type: 'xml' } } }, 'invalid_value', 'text.format.type'],
  ])('%j is refused as %s', (body, code, param) => {
    let thrown: unknown
    try {
      read(body)
    } catch (error) {
      thrown = error
    }
    expect(thrown).toBeInstanceOf(InvalidRequest)
    expect(thrown).toMatchObject({ code, param })
  })
})

describe('items', () => {
  it('of users have texts, images, files and sounds', () => {
    const content = [
      { type: 'input_text', text: 'a' },
      { type: 'input_image', image_url: 'https://x.test/a.png', detail: 'low' },
      { type: 'input_image', image_url: 'data:image/png;base64,AAAA', detail: null },
      { type: 'input_file', filename: 'a.pdf', file_data: 'data:application/pdf;base64,AAAA' },
      { type: 'input_file', file_url: 'https://x.test/a.pdf' },
      { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } },
    ]
    expect(messagesOf([user(content)])).toEqual([
      user([
        { type: 'text', text: 'a' },
        { type: 'image_url', image_url: { url: 'https://x.test/a.png', detail: 'low' } },
        { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
        {
          type: 'file',
          file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,AAAA' },
        },
        { type: 'file', file: { filename: 'file', file_data: 'https://x.test/a.pdf' } },
        { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } },
      ]),
    ])
  })

  it('directly behind one another are one answer', () => {
    const messages = messagesOf([
      user('q'),
      { type: 'reasoning', id: 'rs_1', summary: [{ text: 's' }], encrypted_content: 'gAAA' },
      { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Let me.' }] },
      { type: 'function_call', call_id: 'c1', name: 'f', arguments: '{}' },
      { type: 'custom_tool_call', call_id: 'c2', name: 'g', namespace: 'n', input: 'x' },
      { type: 'function_call_output', call_id: 'c1', output: 'one' },
      {
        type: 'custom_tool_call_output',
        call_id: 'c2',
        output: [{ type: 'input_text', text: 'two' }],
      },
      { type: 'message', role: 'assistant', content: 'Done.', phase: 'final_answer' },
    ])
    expect(messages).toEqual([
      user('q'),
      {
        role: 'assistant',
        content: [{ type: 'text', text: 'Let me.' }],
        tool_calls: [
          { id: 'c1', type: 'function', function: { name: 'f', arguments: '{}' } },
          { id: 'c2', type: 'custom', custom: { name: 'n__g', input: 'x' } },
        ],
        reasoning_details: [
          { type: 'reasoning.summary', summary: 's', id: 'rs_1', format: null, index: 0 },
          { type: 'reasoning.encrypted', data: 'gAAA', id: 'rs_1', format: null, index: 1 },
        ],
      },
      { role: 'tool', tool_call_id: 'c1', content: 'one' },
      { role: 'tool', tool_call_id: 'c2', content: [{ type: 'text', text: 'two' }] },
      {
        role: 'assistant',
        content: [{ type: 'text', text: 'Done.' }],
        phase: 'final_answer',
      },
    ])
  })

  it('bring reasoning of other vendors back, and drop what says nothing', () => {
    const detail = { type: 'reasoning.text', format: 'anthropic-claude-v1', id: null } as const
    const carrier = toCarrier({ ...detail, signature: 'c2ln' })
    const summary = [{ type: 'summary_text', text: 'Hm.' }]
    const messages = messagesOf([
      { type: 'reasoning', id: 'rs_0', summary: [] },
      { type: 'reasoning', summary, encrypted_content: carrier },
      { type: 'message', role: 'assistant', content: 'x' },
      user('And?'),
    ])
    expect(messages).toHaveLength(2)
    expect(messages[0].reasoning_details).toEqual([
      { ...detail, text: 'Hm.', signature: 'c2ln', index: 0 },
    ])
  })

  it('of tools with types of their own are calls of functions', () => {
    const messages = messagesOf([
      { type: 'local_shell_call', call_id: 'c', action: { command: ['ls'] } },
      { type: 'local_shell_call_output', call_id: 'c', output: 'a' },
      { type: 'apply_patch_call', call_id: 'd', operation: { path: 'p' } },
      { type: 'apply_patch_call_output', call_id: 'd', status: 'completed' },
      { type: 'agent_message', content: [{ type: 'text', text: 'psst' }] },
    ])
    expect(messages.map(({ role, content }: any) => [role, content])).toEqual([
      ['assistant', null],
      ['tool', 'a'],
      ['assistant', null],
      ['tool', 'completed'],
      ['user', 'psst'],
    ])
    expect(messages[0].tool_calls[0].function).toEqual({
      name: 'local_shell',
      arguments: '{"command":["ls"]}',
    })
  })
})

describe('tools', () => {
  const f = { type: 'function', name: 'f', description: null, parameters: { type: 'object' } }

  it('are functions, custom tools and groups of them', () => {
    const format = { type: 'grammar', syntax: 'lark', definition: 'start: /x/' }
    const tools = [
      { ...f, strict: false, defer_loading: true },
      { type: 'custom', name: 'g', format },
      { type: 'namespace', name: 'n', description: 'Group.', tools: [{ ...f, description: 'D' }] },
    ]
    const input = [{ type: 'additional_tools', tools: [{ ...f, name: 'later' }] }, user('x')]
    const request = read({ tools, input })
    expect(request.input.tools).toEqual([
      {
        type: 'function',
        function: { name: 'f', parameters: { type: 'object' }, strict: false },
      },
      {
        type: 'custom',
        custom: {
          name: 'g',
          format: { type: 'grammar', grammar: { syntax: 'lark', definition: 'start: /x/' } },
        },
      },
      {
        type: 'function',
        function: {
          name: 'n__f',
          description: 'Group.\n\nD',
          parameters: { type: 'object' },
        },
      },
      { type: 'function', function: { name: 'later', parameters: { type: 'object' } } },
    ])
    expect(outboundChat(request.input).tools).toHaveLength(4)
    expect(request.ignored).toEqual([])
  })

  it('in groups with long or strange names have names that vendors take', () => {
    const tools = [
      { type: 'namespace', name: 'ä'.repeat(40), tools: [{ ...f, name: 'x'.repeat(40) }] },
      { type: 'namespace', name: 'ä'.repeat(40), tools: [{ ...f, name: `${'x'.repeat(39)}y` }] },
    ]
    const names = inputOf({ tools }).tools.map((tool: any) => tool.function.name)
    expect(new Set(names).size).toBe(2)
    for (const name of names) expect(name).toMatch(/^[A-Za-z0-9_-]{64}$/)
  })

  it.each<[unknown, unknown]>([
    ['required', 'required'],
    [
      { type: 'function', name: 'f' },
      { type: 'function', function: { name: 'f' } },
    ],
    [
      { type: 'allowed_tools', mode: 'auto', tools: [{ type: 'custom', name: 'g' }] },
      {
        type: 'allowed_tools',
        allowed_tools: { mode: 'auto', tools: [{ type: 'custom', custom: { name: 'g' } }] },
      },
    ],
  ])('are chosen with %j', (tool_choice, expected) => {
    expect(inputOf({ tools: [f], tool_choice }).tool_choice).toEqual(expected)
  })

  it('that search the web are a search of the gateway, behind a question only', () => {
    const tools = [
      {
        type: 'web_search',
        search_context_size: 'high',
        filters: { allowed_domains: ['a.test'] },
      },
    ]
    expect(inputOf({ tools }).web_search_tool).toEqual({
      path: 'tools[0].web_search',
      includeDomains: ['a.test'],
      excludeDomains: [],
      maxResults: 10,
    })
    const call = { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' }
    for (const body of [
      { tools, tool_choice: 'none' },
      { tools: [{ type: 'web_search', external_web_access: false }] },
      {
        tools,
        input: [user('x'), call, { type: 'function_call_output', call_id: 'c', output: '' }],
      },
    ]) {
      expect(inputOf(body)).not.toHaveProperty('web_search_tool')
    }
  })
})
