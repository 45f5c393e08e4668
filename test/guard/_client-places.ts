/** Members that only one form of requests has, each with the word `heron`: what is asked beside an ordinary question. */

/** Members of a request, by what they are. */
export type Places = Readonly<Record<string, object>>

const image = { type: 'image', source: { type: 'url', url: 'https://x.test/heron.png' } }
const plainText = Buffer.from('a heron').toString('base64')
const block = (one: object) => ({ messages: [{ role: 'user', content: [one, say('Hi')] }] })
const say = (text: string) => ({ type: 'text', text })
const answered = (one: object) => ({
  messages: [
    { role: 'user', content: 'Hi' },
    { role: 'assistant', content: [say('Yes?'), one] },
    { role: 'user', content: 'Go on' },
  ],
})
const result = (content: unknown) => ({
  messages: [
    { role: 'user', content: 'Hi' },
    { role: 'assistant', content: [{ type: 'tool_use', id: 't1', name: 'f', input: {} }] },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't1', content }] },
  ],
})
const tool = (more: object) => ({ tools: [{ name: 'f', input_schema: {}, ...more }] })

export const OF_MESSAGES: Places = {
  system: { system: 'A heron.' },
  'a block of system': { system: [say('Be kind.'), say('A heron.')] },
  'the note of a client': { system: [say('x-anthropic-billing-header: heron')] },
  'a message of the system': {
    messages: [
      { role: 'user', content: 'Hi' },
      { role: 'system', content: 'A heron.' },
    ],
  },
  'a cited text': block({ ...say('So'), citations: [{ cited_text: 'heron' }] }),
  'the address of an image': block(image),
  'a document': block({ type: 'document', source: { type: 'text', data: 'A heron.' } }),
  'a document of blocks': block({
    type: 'document',
    source: { type: 'content', content: [say('heron')] },
  }),
  'a document in base64': block({
    type: 'document',
    source: { type: 'base64', media_type: 'text/plain', data: plainText },
  }),
  'a title': block({ type: 'document', title: 'heron', source: { type: 'text', data: 'D' } }),
  'a context': block({ type: 'document', context: 'heron', source: { type: 'text', data: 'D' } }),
  'a search result': block({
    type: 'search_result',
    source: 's',
    title: 't',
    content: [say('heron')],
  }),
  'the source of a search result': block({
    type: 'search_result',
    source: 'heron',
    title: 't',
    content: [],
  }),
  'a result': result('A heron.'),
  'a block of a result': result([say('A heron.')]),
  'an image of a result': result([image]),
  'a document of a result': result([
    { type: 'document', source: { type: 'text', data: 'A heron.' } },
  ]),
  'a call': answered({ type: 'tool_use', id: 't', name: 'heron', input: {} }),
  'an input': answered({ type: 'tool_use', id: 't', name: 'f', input: { a: [{ b: 'heron' }] } }),
  'a name in an input': answered({ type: 'tool_use', id: 't', name: 'f', input: { heron: 1 } }),
  'an escaped input': answered({
    type: 'tool_use',
    id: 't',
    name: 'f',
    input: { a: 'h\u200bero\u{1D427}' },
  }),
  thinking: answered({ type: 'thinking', thinking: 'A heron.', signature: 'c2ln' }),
  'a signature that is none': answered({ type: 'thinking', thinking: 'T', signature: 'a heron' }),
  'data that is none': answered({ type: 'redacted_thinking', data: 'a heron' }),
  "a vendor's call": answered({
    type: 'server_tool_use',
    id: 's',
    name: 'web_search',
    input: { query: 'heron' },
  }),
  "media in a vendor's call": answered({
    type: 'server_tool_use',
    id: 's',
    name: 'web_search',
    input: { type: 'base64', data: 'heron' },
  }),
  "a vendor's result": answered({
    type: 'web_search_tool_result',
    tool_use_id: 's',
    content: [{ type: 'web_search_result', url: 'https://y.test', title: 'heron' }],
  }),
  'a description': tool({ description: 'A heron.' }),
  'a schema': tool({ input_schema: { properties: { heron: {} } } }),
  'an example of an input': tool({ input_examples: [{ a: 'heron' }] }),
  'media in an example': tool({ input_examples: [{ type: 'base64', data: 'heron' }] }),
  "a vendor's tool": {
    tools: [{ type: 'web_search_20250305', name: 'web_search', user_location: { city: 'heron' } }],
  },
  'a stop sequence': { stop_sequences: ['heron'] },
  'a format': { output_config: { format: { type: 'json_schema', schema: { title: 'heron' } } } },
  'a label': { metadata: { user_id: 'heron' } },
  'an unknown member': { context_management: { edits: [{ heron: 1 }] } },
  'media in an unknown member': { context_management: { type: 'base64', data: 'heron' } },
}

const items = (...given: readonly object[]) => ({
  input: [{ role: 'user', content: 'Hi' }, ...given, { role: 'user', content: 'Go on' }],
})
const called = { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' }
const part = (one: object) => items({ role: 'user', content: [one] })

export const OF_RESPONSES: Places = {
  instructions: { instructions: 'A heron.' },
  'a message of a developer': items({ role: 'developer', content: 'A heron.' }),
  'an earlier answer': items({
    role: 'assistant',
    content: [{ type: 'output_text', text: 'A heron.' }],
  }),
  'an annotation': items({
    role: 'assistant',
    content: [{ type: 'output_text', text: 'T', annotations: [{ title: 'heron' }] }],
  }),
  'a refusal': items({ role: 'assistant', content: [{ type: 'refusal', refusal: 'No heron.' }] }),
  'the address of an image': part({ type: 'input_image', image_url: 'https://x.test/heron.png' }),
  'the name of a file': part({
    type: 'input_file',
    filename: 'heron.pdf',
    file_url: 'https://x.test/a',
  }),
  'a file': part({
    type: 'input_file',
    filename: 'f.txt',
    file_data: `data:text/plain;base64,${plainText}`,
  }),
  'a call': items({ ...called, name: 'heron' }),
  arguments: items({ ...called, arguments: '{"a":"her\\u006fn"}' }),
  'a namespace': items({ ...called, namespace: 'heron' }),
  'an input': items({ type: 'custom_tool_call', call_id: 'c', name: 'f', input: 'A heron.' }),
  'an output': items(called, { type: 'function_call_output', call_id: 'c', output: 'A heron.' }),
  'a part of an output': items(called, {
    type: 'function_call_output',
    call_id: 'c',
    output: [{ type: 'input_text', text: 'A heron.' }],
  }),
  'an output of a shell': items({
    type: 'shell_call_output',
    call_id: 'c',
    output: [{ stdout: 'heron' }],
  }),
  'an action': items({ type: 'local_shell_call', call_id: 'c', action: { command: ['heron'] } }),
  'a summary': items({
    type: 'reasoning',
    id: 'r',
    summary: [{ type: 'summary_text', text: 'A heron.' }],
  }),
  reasoning: items({
    type: 'reasoning',
    id: 'r',
    summary: [],
    content: [{ type: 'reasoning_text', text: 'A heron.' }],
  }),
  'encrypted content that is none': items({
    type: 'reasoning',
    id: 'r',
    summary: [],
    encrypted_content: 'a heron',
  }),
  "a vendor's call": items({
    type: 'web_search_call',
    id: 'w',
    action: { type: 'search', query: 'heron' },
  }),
  "reasoning in a vendor's call": items({
    type: 'web_search_call',
    id: 'w',
    action: { type: 'reasoning', encrypted_content: 'heron' },
  }),
  'a message of an agent': items({ type: 'agent_message', author: 'a', content: 'A heron.' }),
  'more tools': items({ type: 'additional_tools', tools: [{ type: 'function', name: 'heron' }] }),
  'reasoning in more tools': items({
    type: 'additional_tools',
    tools: [{ type: 'reasoning', encrypted_content: 'heron' }],
  }),
  'a description': { tools: [{ type: 'function', name: 'f', description: 'A heron.' }] },
  'a grammar': {
    tools: [
      {
        type: 'custom',
        name: 'f',
        format: { type: 'grammar', syntax: 'lark', definition: 'heron' },
      },
    ],
  },
  "a namespace's tool": {
    tools: [
      {
        type: 'namespace',
        name: 'n',
        tools: [{ type: 'function', name: 'f', description: 'heron' }],
      },
    ],
  },
  'a format': { text: { format: { type: 'json_schema', name: 'n', schema: { title: 'heron' } } } },
  metadata: { metadata: { a: 'heron' } },
  'a label': { safety_identifier: 'heron' },
  'an unknown member': { moderation: { heron: 1 } },
  'reasoning in an unknown member': {
    moderation: { type: 'reasoning', encrypted_content: 'heron' },
  },
}

/** Words of a category, where only one form has room for them: a result or a note that its vendor would read. */
const CODE = 'Write a Python script that sorts a list.'
const turn = [{ role: 'user', content: 'Do what it says.' }]
const ran = (type: string, more: object) => ({ input: [...turn, { type, id: 'r', ...more }] })
export const CATEGORIES_OF_MESSAGES: Places = {
  'more than a note of a client': { system: [say(`x-anthropic-billing-header: a=b; ${CODE}`)] },
  'a result of MCP': block({ type: 'mcp_tool_result', tool_use_id: 't', content: [say(CODE)] }),
  'a page': {
    messages: [
      ...turn,
      {
        role: 'assistant',
        content: [
          {
            type: 'web_fetch_tool_result',
            tool_use_id: 's',
            content: { content: { type: 'document', source: { type: 'text', data: CODE } } },
          },
        ],
      },
    ],
  },
}
export const CATEGORIES_OF_RESPONSES: Places = {
  'a call of MCP': ran('mcp_call', { name: 'n', server_label: 's', arguments: '{}', output: CODE }),
  'a search in files': ran('file_search_call', { results: [{ text: CODE }] }),
  'a run of code': ran('code_interpreter_call', { outputs: [{ type: 'logs', logs: CODE }] }),
  'an item of a new type': ran('new_item', { text: CODE }),
}

export const OF_CHAT: Places = {
  'a name': { messages: [{ role: 'user', name: 'heron', content: 'Hi' }] },
  reasoning: {
    messages: [
      { role: 'assistant', content: 'A', reasoning: 'A heron.' },
      { role: 'user', content: 'Hi' },
    ],
  },
  'a signature that is none': {
    messages: [
      {
        role: 'assistant',
        content: 'A',
        reasoning_details: [{ type: 'reasoning.text', text: 'T', signature: 'a heron' }],
      },
      { role: 'user', content: 'Hi' },
    ],
  },
  'data that is none': {
    messages: [
      {
        role: 'assistant',
        content: 'A',
        reasoning_details: [{ type: 'reasoning.encrypted', data: 'a heron' }],
      },
      { role: 'user', content: 'Hi' },
    ],
  },
  'a prediction': { prediction: { type: 'content', content: 'A heron.' } },
  'an old function': { functions: [{ name: 'f', description: 'A heron.' }] },
  'a search prompt': { plugins: [{ id: 'web', search_prompt: 'A heron.' }] },
}

export const OF_COMPLETIONS: Places = {
  'a later prompt': { prompt: ['Hi', 'A heron.'] },
  'a suffix': { suffix: 'A heron.' },
  'a stop sequence': { stop: 'heron' },
  'an unknown member': { guided_regex: 'heron' },
}
