import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { readMessagesRequest } from '../../../../../src/endpoints/chat/dialects/messages/read.ts'
import { toCarrier } from '../../../../../src/endpoints/chat/dialects/shared/reasoning.ts'
import { InvalidRequest } from '../../../../../src/errors/errors.ts'
import { RawJson } from '../../../../../src/stream/raw-json.ts'

const base = {
  model: 'acme/swift-1',
  max_tokens: 100,
  messages: [{ role: 'user', content: 'Hi' }],
}

const readText = (text: string, counting = false) =>
  readMessagesRequest(new RawJson(text, JSON.parse(text)), () => undefined, counting)
const read = (members: object) => readText(JSON.stringify({ ...base, ...members }))
const messagesOf = (...messages: object[]) => read({ messages }).input.messages
const partsOf = (...content: object[]) => messagesOf({ role: 'user', content })[0]!.content

function refusalOf(members: object): InvalidRequest {
  try {
    read(members)
  } catch (error) {
    return error as InvalidRequest
  }
  throw new Error('nothing was refused')
}

describe('members', () => {
  it('become those of the normal form', () => {
    const { input, ignored } = read({
      stream: true,
      temperature: 0.5,
      top_p: 0.9,
      top_k: 40,
      stop_sequences: ['END'],
      cache_control: { type: 'ephemeral' },
      metadata: { user_id: 'u1' },
      policy: { version: 1 },
      session_id: 's',
      plugins: [{ id: 'web' }],
      service_tier: 'auto',
      speed: 'fast',
      inference_geo: 'eu',
      system: null,
    })
    expect(input).toEqual({
      labels: expect.any(Function),
      model: 'acme/swift-1',
      messages: base.messages,
      max_completion_tokens: 100,
      stream: true,
      temperature: 0.5,
      top_p: 0.9,
      top_k: 40,
      stop: ['END'],
      cache_control: { type: 'ephemeral' },
      user: 'u1',
      policy: { version: 1 },
      session_id: 's',
      plugins: [{ id: 'web' }],
    })
    expect(ignored).toEqual([])
  })

  it('that only this vendor has are named, and never refused', () => {
    const { ignored } = read({
      context_management: { edits: [] },
      mcp_servers: [{ url: 'x' }],
      container: 'c',
      diagnostics: 5,
      something_new: true,
    })
    expect(ignored).toEqual([
      'context_management',
      'mcp_servers',
      'container',
      'diagnostics',
      'something_new',
    ])
  })

  it.each([
    [{ type: 'enabled', budget_tokens: 1024 }, {}, { max_tokens: 1024 }],
    [{ type: 'enabled', budget_tokens: 1024 }, { effort: 'low' }, { max_tokens: 1024 }],
    [{ type: 'adaptive' }, { effort: 'max' }, { enabled: true, effort: 'max' }],
    [{ type: 'disabled' }, { effort: 'max' }, { effort: 'none' }],
    [{ type: 'between_tools' }, {}, { effort: 'none' }],
    [undefined, { effort: 'xhigh' }, { effort: 'xhigh' }],
    [{ type: 'of-next-year' }, {}, undefined],
  ])('thinking %j with %j is reasoning %j', (thinking, output_config, reasoning) => {
    const { input } = read({ max_tokens: 2000, thinking, output_config })
    expect(input.reasoning).toEqual(reasoning)
  })

  it('say how the answer is formed', () => {
    const schema = { type: 'object' }
    const format = { type: 'json_schema', schema }
    const expected = {
      type: 'json_schema',
      json_schema: { name: 'output', strict: true, schema },
    }
    expect(read({ output_config: { format } }).input.response_format).toEqual(expected)
    expect(read({ output_format: format }).input.response_format).toEqual(expected)
  })

  it('of a count may leave the limit out', () => {
    const { max_tokens: _none, ...rest } = base
    const { input } = readText(JSON.stringify({ ...rest, stream: true }), true)
    expect(input).toEqual({ ...rest, labels: expect.any(Function) })
  })
})

describe('system texts', () => {
  it('come first, without the note of a coding assistant', () => {
    const cache_control = { type: 'ephemeral' }
    const system = [
      { type: 'text', text: 'x-anthropic-billing-header: cc_version=1' },
      { type: 'text', text: 'A', cache_control, citations: null },
    ]
    expect(read({ system }).input.messages[0]).toEqual({
      role: 'system',
      content: [{ type: 'text', text: 'A', cache_control }],
    })
    expect(read({ system: 'B' }).input.messages[0]).toEqual({ role: 'system', content: 'B' })
    expect(read({ system: system.slice(0, 1) }).input.messages).toEqual(base.messages)
  })

  it('keep their place among the messages', () => {
    const messages = [...base.messages, { role: 'system', content: 'Now' }]
    expect(read({ messages }).input.messages).toEqual(messages)
  })
})

describe('blocks', () => {
  it('of users become parts', () => {
    const cache_control = { type: 'ephemeral' }
    const pdf = { type: 'base64', media_type: 'application/pdf', data: 'JVBERg==' }
    expect(
      partsOf(
        { type: 'text', text: 'See', cache_control },
        { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw==' } },
        { type: 'image', source: { type: 'url', url: 'https://x.test/a.png' }, cache_control },
        { type: 'document', source: pdf, title: 'a.pdf' },
        { type: 'document', source: pdf },
        { type: 'document', source: { type: 'url', url: 'https://x.test/a.pdf' } },
        { type: 'document', source: { type: 'text', data: 'Words' }, title: 'T', cache_control },
        { type: 'document', source: { type: 'content', content: [{ type: 'text', text: 'C' }] } },
        { type: 'search_result', source: 's', title: 't', content: [{ type: 'text', text: 'r' }] },
      ),
    ).toEqual([
      { type: 'text', text: 'See', cache_control },
      { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw==' } },
      { type: 'image_url', image_url: { url: 'https://x.test/a.png' }, cache_control },
      {
        type: 'file',
        file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,JVBERg==' },
      },
      {
        type: 'file',
        file: { filename: 'document.pdf', file_data: 'data:application/pdf;base64,JVBERg==' },
      },
      { type: 'file', file: { filename: 'document.pdf', file_data: 'https://x.test/a.pdf' } },
      { type: 'text', text: 'T' },
      { type: 'text', text: 'Words', cache_control },
      { type: 'text', text: 'C' },
      { type: 'text', text: 't' },
      { type: 'text', text: 's' },
      { type: 'text', text: 'r' },
    ])
  })

  it('with results of tools become messages before the others', () => {
    expect(
      messagesOf({
        role: 'user',
        content: [
          { type: 'text', text: 'Go on' },
          { type: 'tool_result', tool_use_id: 'a', content: 'done', is_error: false },
          { type: 'tool_result', tool_use_id: 'b', is_error: true },
          { type: 'tool_result', tool_use_id: 'c', content: [{ type: 'text', text: 'x' }] },
        ],
      }),
    ).toEqual([
      { role: 'tool', tool_call_id: 'a', content: 'done' },
      { role: 'tool', tool_call_id: 'b', content: '', is_error: true },
      { role: 'tool', tool_call_id: 'c', content: [{ type: 'text', text: 'x' }] },
      { role: 'user', content: [{ type: 'text', text: 'Go on' }] },
    ])
  })

  it('of answers become text, calls with their source text, and reasoning at its place', () => {
    const carrier = toCarrier({
      type: 'reasoning.summary',
      id: 'rs_1',
      format: 'openai-responses-v1',
    })
    const text = `{"model":"a/b","max_tokens":5,"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":[
      {"type":"thinking","thinking":"Hm","signature":"c2ln"},
      {"type":"text","text":"Now"},
      {"type":"redacted_thinking","data":"cmVk"},
      {"type":"tool_use","id":"t1","name":"f","input": {"n": 12345678901234567890, "s":"\\u00e9"} },
      {"type":"thinking","thinking":"Short","signature":${JSON.stringify(carrier)}},
      {"type":"server_tool_use","id":"s1","name":"web_search","input":{}},
      {"type":"web_search_tool_result","tool_use_id":"s1","content":[]}
    ]}]}`
    const { input, ignored } = readText(text)
    const format = 'anthropic-claude-v1'
    expect(input.messages[1]).toEqual({
      role: 'assistant',
      content: [{ type: 'text', text: 'Now' }],
      tool_calls: [
        {
          id: 't1',
          type: 'function',
          function: { name: 'f', arguments: '{"n": 12345678901234567890, "s":"\\u00e9"}' },
        },
      ],
      reasoning_details: [
        { type: 'reasoning.text', text: 'Hm', signature: 'c2ln', id: null, format, index: 0 },
        { type: 'reasoning.encrypted', data: 'cmVk', id: 'after-3-0', format, index: 1 },
        {
          type: 'reasoning.summary',
          summary: 'Short',
          id: 'rs_1',
          format: 'openai-responses-v1',
          index: 2,
        },
      ],
    })
    expect(ignored).toEqual([
      'messages[1].content[5].server_tool_use',
      'messages[1].content[6].web_search_tool_result',
    ])
  })

  it('of tools that a search has found become their names', () => {
    const found = (tool_name: string, more = {}) => ({ type: 'tool_reference', tool_name, ...more })
    const cache_control = { type: 'ephemeral' }
    const content = [found('get_weather'), found('get_time', { cache_control })]
    const [result] = messagesOf({
      role: 'user',
      content: [{ type: 'tool_result', tool_use_id: 'a', content }],
    })
    expect(result).toEqual({
      role: 'tool',
      tool_call_id: 'a',
      content: [
        { type: 'text', text: 'get_weather\n' },
        { type: 'text', text: 'get_time\n', cache_control },
      ],
    })
  })

  it('of summaries become text; one that failed says nothing', () => {
    const cache_control = { type: 'ephemeral' }
    const summary = { type: 'compaction', content: 'We sailed.', encrypted_content: 'eHg=' }
    const failed = { type: 'compaction', content: null }
    const { input, ignored } = read({
      messages: [
        {
          role: 'assistant',
          content: [
            { ...summary, cache_control },
            { type: 'redacted_thinking', data: 'cmVk' },
            { type: 'text', text: 'On we go.' },
          ],
        },
        { role: 'assistant', content: [failed, { type: 'text', text: 'Yes.' }] },
        { role: 'assistant', content: [failed] },
      ],
    })
    expect(input.messages.map(({ content }) => content)).toEqual([
      [
        { type: 'text', text: 'We sailed.\n\n', cache_control },
        { type: 'text', text: 'On we go.' },
      ],
      [{ type: 'text', text: 'Yes.' }],
      '',
    ])
    // Its place is behind the text of the summary.
    expect(input.messages[0]!.reasoning_details).toMatchObject([{ id: 'after-12-0' }])
    expect(ignored).toEqual([])
  })

  it('of thinking alone leave an empty text, calls alone none', () => {
    const thinking = { type: 'thinking', thinking: 'Hm', signature: 'c2ln' }
    const call = { type: 'tool_use', id: 't1', name: 'f', input: {} }
    const [alone] = messagesOf({ role: 'assistant', content: [thinking] })
    expect(alone!.content).toBe('')
    const [called] = messagesOf({ role: 'assistant', content: [call] })
    expect(called!.content).toBeNull()
  })
})

describe('tools', () => {
  const tool = { name: 'f', description: 'd', input_schema: { type: 'object' }, strict: true }

  it('become functions; what the vendor defines is named', () => {
    const { input, ignored } = read({
      tools: [
        { ...tool, cache_control: { type: 'ephemeral' }, input_examples: [], defer_loading: true },
        { type: 'custom', name: 'g', input_schema: {} },
        { type: 'bash_20250124', name: 'bash' },
        { type: 'web_search_20250305', name: 'web_search', allowed_domains: ['a.test'] },
      ],
      tool_choice: { type: 'tool', name: 'f', disable_parallel_tool_use: true },
    })
    const { input_schema: parameters, ...rest } = tool
    expect(input.tools).toEqual([
      { type: 'function', function: { ...rest, parameters }, cache_control: { type: 'ephemeral' } },
      { type: 'function', function: { name: 'g', parameters: {} } },
    ])
    expect(input.tool_choice).toEqual({ type: 'function', function: { name: 'f' } })
    expect(input.parallel_tool_calls).toBe(false)
    expect(ignored).toEqual(['tools[2].bash_20250124', 'tools[3].web_search_20250305'])
    expect(input.web_search_tool).toEqual({
      path: 'tools[3].web_search_20250305',
      includeDomains: ['a.test'],
      excludeDomains: [],
    })
  })

  it('search for the gateway only for a new question', () => {
    const tools = [{ type: 'web_search_20250305', name: 'web_search' }]
    const result = { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'a' }] }
    const search = (members: object) => read({ tools, ...members }).input.web_search_tool
    expect(search({})).toBeDefined()
    expect(search({ tool_choice: { type: 'none' } })).toBeUndefined()
    expect(search({ messages: [...base.messages, result] })).toBeUndefined()
    expect(search({ messages: [{ role: 'assistant', content: 'a' }] })).toBeUndefined()
  })

  it.each([
    [{ type: 'auto' }, 'auto'],
    [{ type: 'any' }, 'required'],
    [{ type: 'none' }, 'none'],
  ])('are chosen as %j: %s', (tool_choice, expected) => {
    expect(read({ tools: [tool], tool_choice }).input.tool_choice).toBe(expected)
  })
})

describe('what is refused', () => {
  const tool = { name: 'f', input_schema: {} }
  const image = (source: object) => ({
    messages: [{ role: 'user', content: [{ type: 'image', source }] }],
  })
  const answered = (...content: object[]) => ({ messages: [{ role: 'assistant', content }] })
  const resultOf = (...content: object[]) => ({
    messages: [{ role: 'user', content: [{ type: 'tool_result', tool_use_id: 't', content }] }],
  })

  it.each<[members: object, code: string, param: string]>([
    [{ model: undefined }, 'missing_required_parameter', 'model'],
    [{ max_tokens: undefined }, 'missing_required_parameter', 'max_tokens'],
    [{ max_tokens: 0 }, 'integer_below_min_value', 'max_tokens'],
    [{ messages: [] }, 'empty_array', 'messages'],
    [{ messages: [{ role: 'tool', content: '' }] }, 'invalid_value', 'messages[0].role'],
    [{ messages: [{ role: 'user' }] }, 'missing_required_parameter', 'messages[0].content'],
    [{ temperature: 1.5 }, 'decimal_above_max_value', 'temperature'],
    [{ system: [{ type: 'image' }] }, 'invalid_value', 'system[0].type'],
    [
      image({ type: 'file', file_id: 'f' }),
      'unsupported_value',
      'messages[0].content[0].source.file_id',
    ],
    [image({ type: 'url', url: 'ftp://x' }), 'invalid_value', 'messages[0].content[0].source.url'],
    [
      answered({ type: 'compaction', content: 5 }),
      'invalid_type',
      'messages[0].content[0].content',
    ],
    [
      { messages: [{ role: 'user', content: [{ type: 'compaction', content: 'x' }] }] },
      'unsupported_value',
      'messages[0].content[0]',
    ],
    [
      resultOf({ type: 'tool_reference' }),
      'missing_required_parameter',
      'messages[0].content[0].content[0].tool_name',
    ],
    [
      resultOf({ type: 'tool_reference', tool_name: '' }),
      'empty_string',
      'messages[0].content[0].content[0].tool_name',
    ],
    [answered({ type: 'tool_reference' }), 'unsupported_value', 'messages[0].content[0]'],
    [answered({ type: 'image' }), 'unsupported_value', 'messages[0].content[0]'],
    [
      answered({ type: 'thinking', thinking: 'x', signature: 'sg1.eyJ0' }),
      'invalid_value',
      'messages[0].content[0].signature',
    ],
    [{ tools: [{ name: 'a b', input_schema: {} }] }, 'invalid_value', 'tools[0].name'],
    [{ tools: [{ name: 'a' }] }, 'missing_required_parameter', 'tools[0].input_schema'],
    [{ tools: [tool], tool_choice: { type: 'some' } }, 'invalid_value', 'tool_choice.type'],
    [
      { thinking: { type: 'enabled', budget_tokens: 1023 }, max_tokens: 5000 },
      'invalid_value',
      'thinking.budget_tokens',
    ],
    [
      { thinking: { type: 'enabled', budget_tokens: 1024 }, max_tokens: 1024 },
      'invalid_value',
      'thinking.budget_tokens',
    ],
  ])('%j: %s', (members, code, param) => {
    expect(refusalOf(members)).toMatchObject({ status: 400, code, param })
  })

  it('in the normal form: a vendor’s own tool that has to be called', () => {
    const tools = [{ type: 'bash_20250124', name: 'bash' }]
    const { untranslatable } = read({ tools, tool_choice: { type: 'tool', name: 'bash' } })
    expect(untranslatable).toMatchObject({ code: 'unsupported_value', param: 'tool_choice' })
    expect(read({ tools }).untranslatable).toBeUndefined()
  })

  it('says what is missing as clients of this API know it', () => {
    expect(refusalOf({ max_tokens: undefined }).message).toBe('max_tokens: Field required')
  })
})

describe('the requests of coding assistants', () => {
  const folder = join(import.meta.dirname, '../../../../wire/clients')
  it('of Claude Code is accepted whole', () => {
    const { requests } = JSON.parse(readFileSync(`${folder}/claude-code.json`, 'utf8'))
    const posted = requests.filter(({ method }: any) => method === 'POST')
    expect(posted.length).toBeGreaterThan(0)
    for (const { body, url } of posted) {
      const { input } = readText(JSON.stringify(body), url.includes('count_tokens'))
      expect(input.messages.map(({ role }) => role)).toEqual([
        'system',
        'user',
        'system',
        'assistant',
        'tool',
      ])
      expect(input.tools!.length).toBe(body.tools.length)
    }
  })
})
