/**
 * Answers of three kinds of vendors, damaged at random, for clients of three forms: whatever a vendor says, a client gets an
 * answer or an error, learns of every charge, and never takes half a call for a whole one.
 */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { parsePico } from '../../../../src/money/money.ts'
import { runs } from '../../../_runs.ts'
import { createTestGateway, type Answer, type TestGateway } from '../../../_setup.ts'
import { damage, toText } from '../../../torture/_json.ts'
import { pick, randomOf, type Random } from '../../../torture/_random.ts'
import { sse, startUpstream, type FakeResponse, type FakeUpstream } from '../../../upstream.ts'

const SEED = 20_261_128
/** Calls that run at once, each for an account of its own. */
const LANES = 8

const ARGUMENTS = '{"city":"Zürich 苏黎世","days":[1,2,3],"note":"as ever, and then some"}'
const cut = (text: string) => [text.slice(0, 5), text.slice(5, 30), text.slice(30)]
const usage = { prompt_tokens: 20, completion_tokens: 30, total_tokens: 50 }

// What an undamaged vendor says: a thought, a text, two calls.

const chunk = (delta: object, finish_reason: string | null = null) => ({
  choices: [{ index: 0, delta, finish_reason }],
})
const called = (index: number) => [
  chunk({
    tool_calls: [
      { index, id: `call_${index}`, type: 'function', function: { name: 'f', arguments: '' } },
    ],
  }),
  ...cut(ARGUMENTS).map((text) =>
    chunk({ tool_calls: [{ index, function: { arguments: text } }] }),
  ),
]
const CHAT_STREAM = [
  chunk({ role: 'assistant', content: '' }),
  chunk({ reasoning_content: 'Let me see.' }),
  chunk({ content: 'I shall ' }),
  chunk({ content: 'look.' }),
  ...called(0),
  ...called(1),
  chunk({}, 'tool_calls'),
  { choices: [], usage },
]
const CHAT_WHOLE = {
  id: 'c1',
  object: 'chat.completion',
  choices: [
    {
      index: 0,
      message: {
        role: 'assistant',
        content: 'I shall look.',
        reasoning_content: 'Let me see.',
        tool_calls: [0, 1].map((index) => ({
          id: `call_${index}`,
          type: 'function',
          function: { name: 'f', arguments: ARGUMENTS },
        })),
      },
      finish_reason: 'tool_calls',
    },
  ],
  usage,
}

const BLOCKS = [
  { type: 'thinking', thinking: 'Let me see.', signature: 'c2ln' },
  { type: 'text', text: 'I shall look.' },
  { type: 'tool_use', id: 'call_0', name: 'f', input: JSON.parse(ARGUMENTS) as object },
]
const COUNTS = { input_tokens: 20, output_tokens: 30, cache_read_input_tokens: 5 }
const MESSAGE = {
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'claude-x',
  content: BLOCKS,
  stop_reason: 'tool_use',
  stop_sequence: null,
  usage: COUNTS,
}
const block = (index: number, content_block: object, ...deltas: object[]) => [
  { type: 'content_block_start', index, content_block },
  ...deltas.map((delta) => ({ type: 'content_block_delta', index, delta })),
  { type: 'content_block_stop', index },
]
const MESSAGE_STREAM = [
  {
    type: 'message_start',
    message: { ...MESSAGE, content: [], stop_reason: null, usage: { ...COUNTS, output_tokens: 1 } },
  },
  ...block(
    0,
    { type: 'thinking', thinking: '', signature: '' },
    { type: 'thinking_delta', thinking: 'Let me see.' },
    { type: 'signature_delta', signature: 'c2ln' },
  ),
  ...block(
    1,
    { type: 'text', text: '' },
    { type: 'text_delta', text: 'I shall ' },
    { type: 'text_delta', text: 'look.' },
  ),
  ...block(
    2,
    { type: 'tool_use', id: 'call_0', name: 'f', input: {} },
    ...cut(ARGUMENTS).map((partial_json) => ({ type: 'input_json_delta', partial_json })),
  ),
  { type: 'message_delta', delta: { stop_reason: 'tool_use', stop_sequence: null }, usage: COUNTS },
  { type: 'message_stop' },
]

const SAID = { type: 'output_text', text: 'I shall look.', annotations: [], logprobs: [] }
const ITEMS = [
  { id: 'rs_1', type: 'reasoning', summary: [{ type: 'summary_text', text: 'Let me see.' }] },
  { id: 'msg_1', type: 'message', status: 'completed', role: 'assistant', content: [SAID] },
  {
    id: 'fc_1',
    type: 'function_call',
    status: 'completed',
    call_id: 'call_0',
    name: 'f',
    arguments: ARGUMENTS,
  },
] as const
const RESPONSE = {
  id: 'resp_1',
  object: 'response',
  created_at: 1,
  status: 'completed',
  model: 'gpt-x',
  output: ITEMS,
  usage: {
    input_tokens: 20,
    input_tokens_details: { cached_tokens: 5 },
    output_tokens: 30,
    output_tokens_details: { reasoning_tokens: 10 },
    total_tokens: 50,
  },
}
const RESPONSE_STREAM = (() => {
  const [thought, said, made] = ITEMS
  const begun = { ...RESPONSE, status: 'in_progress', output: [], usage: null }
  const of = (output_index: number, item_id: string) => ({ output_index, item_id })
  const events: readonly (readonly [type: string, members: object])[] = [
    ['created', { response: begun }],
    ['in_progress', { response: begun }],
    ['output_item.added', { output_index: 0, item: { ...thought, summary: [] } }],
    [
      'reasoning_summary_part.added',
      { ...of(0, 'rs_1'), summary_index: 0, part: { type: 'summary_text', text: '' } },
    ],
    [
      'reasoning_summary_text.delta',
      { ...of(0, 'rs_1'), summary_index: 0, delta: thought.summary[0].text },
    ],
    [
      'reasoning_summary_text.done',
      { ...of(0, 'rs_1'), summary_index: 0, text: thought.summary[0].text },
    ],
    [
      'reasoning_summary_part.done',
      { ...of(0, 'rs_1'), summary_index: 0, part: thought.summary[0] },
    ],
    ['output_item.done', { output_index: 0, item: thought }],
    ['output_item.added', { output_index: 1, item: { ...said, content: [] } }],
    ['content_part.added', { ...of(1, 'msg_1'), content_index: 0, part: { ...SAID, text: '' } }],
    ['output_text.delta', { ...of(1, 'msg_1'), content_index: 0, delta: 'I shall ' }],
    ['output_text.delta', { ...of(1, 'msg_1'), content_index: 0, delta: 'look.' }],
    ['output_text.done', { ...of(1, 'msg_1'), content_index: 0, text: SAID.text }],
    ['content_part.done', { ...of(1, 'msg_1'), content_index: 0, part: SAID }],
    ['output_item.done', { output_index: 1, item: said }],
    ['output_item.added', { output_index: 2, item: { ...made, arguments: '' } }],
    ...cut(ARGUMENTS).map(
      (delta) => ['function_call_arguments.delta', { ...of(2, 'fc_1'), delta }] as const,
    ),
    ['function_call_arguments.done', { ...of(2, 'fc_1'), arguments: ARGUMENTS }],
    ['output_item.done', { output_index: 2, item: made }],
    ['completed', { response: RESPONSE }],
  ]
  return events.map(([type, members], sequence_number) => {
    return { type: `response.${type}`, ...members, sequence_number }
  })
})()

interface Vendor {
  readonly model: string
  readonly stream: readonly unknown[]
  readonly whole: unknown
  readonly ends: boolean
  readonly named: boolean
}
const VENDORS: readonly Vendor[] = [
  { model: 'm/chat', stream: CHAT_STREAM, whole: CHAT_WHOLE, ends: true, named: false },
  { model: 'm/messages', stream: MESSAGE_STREAM, whole: MESSAGE, ends: false, named: true },
  { model: 'm/responses', stream: RESPONSE_STREAM, whole: RESPONSE, ends: false, named: true },
]

// A case: what the vendor answers, and whether its calls are as they were.

interface Damaged {
  readonly response: FakeResponse
  readonly hasCalls: boolean
}

const OF_CALLS = /arguments|partial_json|tool_use|tool_calls|function_call|"output"|\bindex\b/

function damagedStream({ stream, ends, named }: Vendor, random: Random): Damaged {
  let events: unknown[] = [...stream]
  let hasCalls = true
  for (let count = 1 + random(2); count > 0 && events.length > 0; count--) {
    const at = random(events.length)
    const event = events[at]
    if (OF_CALLS.test(JSON.stringify(event))) hasCalls = false
    const kind = random(8)
    if (kind === 0) events = events.toSpliced(at, 1)
    else if (kind === 1) events = events.toSpliced(at, 0, event)
    else if (kind === 2) events = events.toSpliced(at, 1).toSpliced(random(events.length), 0, event)
    else if (kind === 3) events = events.slice(0, at)
    else events = events.with(at, damage(event, random))
    // What comes later, or not at all, may be about calls too.
    if (kind === 2 || kind === 3) hasCalls = false
  }
  const text = events
    .map((event) => {
      const type = named && typeof event === 'object' ? (event as any)?.type : undefined
      const name = typeof type === 'string' && /^[\w.]+$/.test(type) ? `event: ${type}\n` : ''
      return `${name}data: ${toText(event)}\n\n`
    })
    .join('')
  return { response: sse(ends ? `${text}data: [DONE]\n\n` : text), hasCalls }
}

function damagedWhole({ whole }: Vendor, random: Random): Damaged {
  const text = toText(damage(whole, random))
  const headers = { 'content-type': 'application/json' }
  return { response: { headers, pieces: [text] }, hasCalls: false }
}

// Clients.

const tool = { name: 'f', description: 'Looks.', parameters: { type: 'object', properties: {} } }

const CLIENTS: readonly {
  readonly path: string
  body(text: string): object
  /** The arguments of the calls of a complete answer. */
  callsIn(events: readonly any[]): string[]
}[] = [
  {
    path: '/v1/chat/completions',
    body: (content) => ({
      messages: [{ role: 'user', content }],
      tools: [{ type: 'function', function: tool }],
      stream_options: { include_usage: true },
    }),
    callsIn(events) {
      const choices = events.flatMap(({ choices: all }) => all ?? [])
      if (!choices.some(({ finish_reason }) => finish_reason === 'tool_calls')) return []
      const calls: string[] = []
      for (const { delta, message } of choices) {
        for (const [i, call] of ((delta ?? message)?.tool_calls ?? []).entries()) {
          const index = call.index ?? i
          calls[index] = (calls[index] ?? '') + (call.function?.arguments ?? '')
        }
      }
      return calls
    },
  },
  {
    path: '/v1/messages',
    body: (content) => ({
      max_tokens: 1000,
      messages: [{ role: 'user', content }],
      tools: [{ name: tool.name, input_schema: tool.parameters }],
    }),
    callsIn(events) {
      const [whole] = events
      if (Array.isArray(whole?.content)) {
        if (whole.stop_reason !== 'tool_use') return []
        const uses = whole.content.filter(({ type }: any) => type === 'tool_use')
        return uses.map(({ input }: any) => JSON.stringify(input))
      }
      if (!events.some(({ delta }) => delta?.stop_reason === 'tool_use')) return []
      const calls = new Map<number, string>()
      for (const { type, index, content_block, delta } of events) {
        if (type === 'content_block_start' && content_block.type === 'tool_use')
          calls.set(index, '')
        const known = calls.get(index)
        if (known !== undefined && delta?.partial_json !== undefined) {
          calls.set(index, known + delta.partial_json)
        }
      }
      return [...calls.values()]
    },
  },
  {
    path: '/v1/responses',
    body: (input) => ({ input, tools: [{ type: 'function', ...tool }] }),
    callsIn(events) {
      const last = events.at(-1)
      const response = last?.response ?? last
      if (response?.status !== 'completed') return []
      const made = response.output.filter(({ type }: any) => type === 'function_call')
      return made.map((one: any) => one.arguments)
    },
  },
]

let vendor: FakeUpstream
let t: TestGateway
const answers = new Map<string, FakeResponse>()
beforeAll(async () => {
  vendor = await startUpstream()
  vendor.answer(({ body }) => answers.get(/case-(\d+)\./.exec(body.toString())![1]!)!)
  const options = { apiKey: 'k', baseURL: `${vendor.url}/v1` }
  const at = (provider: string, more = {}) => ({
    pricing: { prompt: '0.000003', completion: '0.000015', input_cache_read: '0.0000003' },
    capabilities: ['STREAMING' as const, 'TOOLS' as const, 'REASONING' as const],
    deployments: [{ provider, model: 'm-1', options: more }],
  })
  t = await createTestGateway({
    defaults: { limits: { rpm: 1_000_000 } },
    routing: { cooldown: 0, attempts: 1 },
    log: { level: 'warn' },
    providers: {
      chat: { use: 'openai-compatible', options },
      messages: { use: 'anthropic', options },
      responses: { use: 'openai', options },
    },
    models: {
      'm/chat': at('chat'),
      'm/messages': at('messages'),
      'm/responses': at('responses', { api: 'responses' }),
    },
  })
})
afterAll(async () => {
  await t.close()
  await vendor.close()
})

const eventsOf = ({ text, headers }: Answer): any[] =>
  headers['content-type'] === 'application/json'
    ? [JSON.parse(text)]
    : [...text.matchAll(/^data: (\{.*)$/gm)].map(([, json]) => JSON.parse(json!))

/** What an answer says that it costs; undefined where it says nothing. */
function toldIn({ text, headers }: Answer): bigint | undefined {
  const told =
    headers['x-service-cost'] ??
    [...text.matchAll(/(?<!\\)"cost":(\d+(?:\.\d+)?),"cost_details"/g)].at(-1)?.[1]
  return told === undefined ? undefined : parsePico(String(told))
}

interface Case {
  readonly vendor: string
  readonly path: string
  readonly stream: boolean
  readonly guarded: boolean
  readonly fault: string
  readonly sent: string
  readonly got: string
}

it('are answers or errors, with every charge told, and no half call', async () => {
  const policy = { version: 1 as const, bannedPatterns: ['swordfish'] }
  const lanes = await Promise.all(
    Array.from({ length: LANES }, async (_, i) => {
      const account = `lane-${i}`
      await t.newAccount(account, '1000')
      const keys = [await t.newKey({ account }), await t.newKey({ account, policy })]
      return { account, keys: keys.map(({ secret }) => secret) }
    }),
  )
  const faults: Case[] = []
  const seen = new Map<string, number>()
  /** What notes a fault, by the id of the request. */
  const notes = new Map<string, (fault: string) => void>()
  let next = 0
  const play = async ({ account, keys }: (typeof lanes)[number]) => {
    let balance = await t.balance(account)
    for (let number = next++; number < runs(5000); number = next++) {
      const random = randomOf(SEED, number)
      const asked = pick(random, VENDORS)
      const client = pick(random, CLIENTS)
      const stream = random(3) > 0
      const guarded = random(2)
      const { response, hasCalls } = (stream ? damagedStream : damagedWhole)(asked, random)
      answers.set(String(number), response)
      const body = { model: asked.model, stream, ...client.body(`case-${number}.`) }
      const answer = await t.ask('POST', client.path, { key: keys[guarded]!, body })
      answers.delete(String(number))
      const left = await t.balance(account)
      const moved = balance - left
      balance = left
      const note = (fault: string) => {
        const [sent] = response.pieces
        const about = { vendor: asked.model, path: client.path, stream, guarded: guarded === 1 }
        faults.push({ ...about, fault, sent: String(sent), got: answer.text })
      }
      const { status, text } = answer
      notes.set(String(answer.headers['x-service-request-id']), note)
      seen.set(`${status}`, (seen.get(`${status}`) ?? 0) + 1)
      if (status === 500 || text.includes('internal_error')) note('a fault of ours')
      const told = toldIn(answer) ?? 0n
      if (told !== moved) note(`told ${told} of ${moved}`)
      if (!hasCalls || status !== 200) continue
      for (const args of client.callsIn(eventsOf(answer))) {
        if (args !== ARGUMENTS && args !== JSON.stringify(JSON.parse(ARGUMENTS))) {
          note(`a call with ${args}`)
        }
      }
    }
  }
  await Promise.all(lanes.map(play))
  for (const line of t.logged) {
    const id = /TypeError|internal error/.test(line) ? /req_\w+/.exec(line)?.[0] : undefined
    if (id) notes.get(id)!(line)
  }
  expect(faults.slice(0, 5)).toEqual([])
  // Not all were refused, and not all got through.
  expect(seen.get('200')).toBeGreaterThan(runs(1000))
  expect(seen.get('502')).toBeGreaterThan(runs(50))
})
