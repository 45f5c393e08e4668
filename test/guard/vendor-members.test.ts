/** Members that only the answers of one vendor's API have: words that are banned reach no client in any of them. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createTestGateway, type TestGateway } from '../_setup.ts'
import { sse, startUpstream, type FakeResponse, type FakeUpstream } from '../upstream.ts'

const WORD = 'heron'

let vendor: FakeUpstream
let t: TestGateway
let key: string
beforeAll(async () => {
  vendor = await startUpstream()
  const options = { baseURL: `${vendor.url}/v1`, apiKey: 'k' }
  const at = (provider: string, model: string) => ({
    pricing: { prompt: '0', completion: '0' },
    capabilities: ['STREAMING' as const, 'TOOLS' as const, 'LOGPROBS' as const],
    deployments: [{ provider, model }],
  })
  t = await createTestGateway({
    providers: { claude: { use: 'anthropic', options }, gpt: { use: 'openai', options } },
    models: { 'acme/claude': at('claude', 'claude-sonnet-5'), 'acme/gpt': at('gpt', 'gpt-5.4') },
    guards: { use: [] },
    routing: { cooldown: 0, attempts: 1 },
    defaults: { limits: { rpm: 10_000 } },
  })
  key = (await t.newKey({ policy: { version: 1, bannedPatterns: [WORD] } })).secret
})
afterAll(async () => {
  await t.close()
  await vendor.close()
})

const url = 'https://a.test'
const MESSAGE = {
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'x',
  stop_reason: 'end_turn',
  stop_sequence: 'END',
  stop_details: { type: 'refusal', category: 'c', explanation: 'e' },
  container: { id: 'c' },
  context_management: { applied_edits: [{ type: 'a' }] },
  content: [
    { type: 'thinking', thinking: 'Hm', signature: 'c2ln' },
    { type: 'redacted_thinking', data: 'cmVk' },
    { type: 'server_tool_use', id: 's1', name: 'web_search', input: { query: 'q' } },
    {
      type: 'web_search_tool_result',
      tool_use_id: 's1',
      content: [{ type: 'web_search_result', url, title: 't', encrypted_content: 'eHg=' }],
    },
    { type: 'mcp_tool_result', tool_use_id: 'm1', content: [{ type: 'text', text: 'r' }] },
    {
      type: 'text',
      text: 'Hello there.',
      citations: [
        { type: 'web_search_result_location', url, title: 't', cited_text: 'c' },
        { type: 'char_location', cited_text: 'c', document_title: 'd', url },
      ],
    },
    { type: 'tool_use', id: 't1', name: 'f', input: { a: 'b' } },
  ],
  usage: { input_tokens: 5, output_tokens: 5, service_tier: 'standard' },
}

function messageEvents(message: any): object[] {
  const { content, usage, context_management, ...rest } = message
  const { stop_reason, stop_sequence, stop_details, container } = rest
  const blocks = content.flatMap((block: any, index: number) => {
    const { text, thinking, signature, input, citations = [], ...others } = block
    const deltas = [
      thinking && { type: 'thinking_delta', thinking },
      signature && { type: 'signature_delta', signature },
      text && { type: 'text_delta', text },
      input && { type: 'input_json_delta', partial_json: JSON.stringify(input) },
      ...citations.map((citation: object) => ({ type: 'citations_delta', citation })),
    ].filter(Boolean)
    return [
      { type: 'content_block_start', index, content_block: others },
      ...deltas.map((delta) => ({ type: 'content_block_delta', index, delta })),
      { type: 'content_block_stop', index },
    ]
  })
  const delta = { stop_reason, stop_sequence, stop_details, container }
  return [
    { type: 'message_start', message: { ...rest, content: [], stop_reason: null, usage } },
    ...blocks,
    { type: 'message_delta', delta, usage, context_management },
    { type: 'message_stop' },
  ]
}

const RESPONSE = {
  id: 'resp_1',
  object: 'response',
  status: 'completed',
  model: 'm',
  instructions: 'i',
  metadata: { a: 'b' },
  service_tier: 'default',
  prompt_cache_key: 'k',
  output: [
    {
      id: 'rs_1',
      type: 'reasoning',
      summary: [{ type: 'summary_text', text: 'Hm' }],
      content: [{ type: 'reasoning_text', text: 'Hmm' }],
      encrypted_content: 'gAAA',
    },
    { id: 'ws_1', type: 'web_search_call', action: { type: 'search', query: 'q' } },
    { id: 'mcp_1', type: 'mcp_call', name: 'n', arguments: '{}', output: 'o' },
    { id: 'ci_1', type: 'code_interpreter_call', outputs: [{ type: 'logs', logs: 'l' }] },
    {
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      status: 'completed',
      phase: 'final_answer',
      content: [
        {
          type: 'output_text',
          text: 'Hello there.',
          annotations: [
            { type: 'url_citation', url, title: 't', start_index: 0, end_index: 1 },
            { type: 'file_citation', file_id: 'f', filename: 'n', index: 0 },
          ],
          logprobs: [{ token: 'H', logprob: -1, top_logprobs: [{ token: 'J', logprob: -2 }] }],
        },
        { type: 'refusal', refusal: 'No.' },
      ],
    },
    { id: 'fc_1', type: 'function_call', call_id: 'c1', name: 'f', arguments: '{"a":"b"}' },
    { id: 'ctc_1', type: 'custom_tool_call', call_id: 'c2', name: 'g', input: 'patch' },
  ],
  usage: { input_tokens: 5, output_tokens: 5, total_tokens: 10 },
}

function responseEvents(response: any): object[] {
  const items = response.output.flatMap((item: any, output_index: number) => {
    const at = { output_index, item_id: item.id }
    const parts = (item.content ?? []).flatMap((part: any, content_index: number) => {
      const place = { ...at, content_index }
      const annotations = (part.annotations ?? []).map((annotation: object, index: number) => {
        const type = 'response.output_text.annotation.added'
        return { type, ...place, annotation_index: index, annotation }
      })
      const delta = part.text ?? part.refusal
      return [
        { type: 'response.content_part.added', ...place, part: { ...part, text: '' } },
        { type: `response.${part.type}.delta`, ...place, delta, logprobs: part.logprobs },
        ...annotations,
        { type: 'response.content_part.done', ...place, part },
      ]
    })
    const begun = { ...item, content: [], summary: [], arguments: '', input: '' }
    return [
      { type: 'response.output_item.added', output_index, item: begun },
      ...parts,
      { type: 'response.output_item.done', output_index, item },
    ]
  })
  const created = { ...response, status: 'in_progress', output: [], usage: null }
  return [
    { type: 'response.created', response: created },
    ...items,
    { type: `response.${response.status}`, response },
  ]
}

/** The same value once for each text in it and for each object, with the word there. */
function* spoiled(value: unknown): Generator<unknown> {
  if (typeof value === 'string') yield `${value} ${WORD}`
  else if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) {
      for (const one of spoiled(item)) yield value.with(index, one)
    }
  } else if (typeof value === 'object' && value !== null) {
    yield { ...value, [`x ${WORD}`]: WORD }
    for (const [name, item] of Object.entries(value)) {
      for (const one of spoiled(item)) yield { ...value, [name]: one }
    }
  }
}

const named = (all: readonly any[]): FakeResponse =>
  sse(all.map((one) => `event: ${one.type}\ndata: ${JSON.stringify(one)}\n\n`).join(''))

const APIS = [
  {
    path: '/v1/messages',
    answer: MESSAGE,
    eventsOf: messageEvents,
    ask: {
      model: 'acme/claude',
      messages: [{ role: 'user', content: 'Hi' }],
      max_tokens: 100,
      stop_sequences: ['END'],
      tools: [{ name: 'f', input_schema: {} }],
    },
  },
  {
    path: '/v1/responses',
    answer: RESPONSE,
    eventsOf: responseEvents,
    ask: {
      model: 'acme/gpt',
      input: 'Hi',
      include: ['reasoning.encrypted_content', 'message.output_text.logprobs'],
      tools: [{ type: 'function', name: 'f' }],
    },
  },
]

// A whole answer is read as the events that make it up.
it.each(APIS)('of answers in the form of $path', async ({ path, answer, eventsOf, ask }) => {
  const get = async (given: any) => {
    vendor.answer(named(eventsOf(given)))
    return (await t.ask('POST', path, { key, body: { ...ask, stream: true } })).text
  }
  expect(await get(answer)).toContain('Hello')
  const reached: string[] = []
  for (const one of spoiled(answer)) {
    const text = await get(one)
    if (text.toLowerCase().includes(WORD)) reached.push(JSON.stringify(one))
  }
  expect(reached).toEqual([])
})
