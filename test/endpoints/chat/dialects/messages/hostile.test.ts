/** Vendors that answer wrongly: both ways of a request end well, cost the same, and leave nothing behind. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestGateway, type TestGateway } from '../../../../_setup.ts'
import { eventually } from '../../../../_wait.ts'
import {
  json,
  sse,
  startUpstream,
  type FakeResponse,
  type FakeUpstream,
} from '../../../../upstream.ts'
import { streamed } from './_events.ts'

const ask = { model: 'acme/claude', max_tokens: 1000, messages: [{ role: 'user', content: 'Hi' }] }
const reading = { version: 1 as const, bannedPatterns: ['swordfish'] }
const watching = {
  version: 1 as const,
  bannedPatterns: ['swordfish'],
  guard: { mode: 'monitor' as const },
}
const START: any = {
  type: 'message_start',
  message: {
    id: 'msg_v',
    type: 'message',
    role: 'assistant',
    model: 'm',
    content: [],
    usage: { input_tokens: 1000, output_tokens: 1 },
  },
}
const open = (index: unknown, content_block: any = { type: 'text', text: '' }) => ({
  type: 'content_block_start',
  index,
  content_block,
})
const say = (index: any, text: any) => ({
  type: 'content_block_delta',
  index,
  delta: { type: 'text_delta', text },
})
const stop = (index: unknown) => ({ type: 'content_block_stop', index })
const END = [
  { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 20 } },
  { type: 'message_stop' },
]
const TEXT = [open(0), say(0, 'Well.'), stop(0)]
const stream = (events: readonly unknown[]) =>
  sse(events.map((one: any) => `event: ${one?.type}\ndata: ${JSON.stringify(one)}\n\n`).join(''))
const whole = (more: object) =>
  json({
    id: 'msg_v',
    type: 'message',
    role: 'assistant',
    model: 'm',
    content: [{ type: 'text', text: 'Well.' }],
    stop_reason: 'end_turn',
    usage: { input_tokens: 1000, output_tokens: 20 },
    ...more,
  })
const ending = (usage: any) => ({
  type: 'message_delta',
  delta: { stop_reason: 'end_turn' },
  usage,
})
const usageOf = (usage: any) => ({ ...START, message: { ...START.message, usage } })

const cases: Record<string, FakeResponse> = {
  'null event': stream([START, null, ...TEXT, ...END]),
  'number event': stream([START, 5, ...TEXT, ...END]),
  'string event': stream([START, 'x', ...TEXT, ...END]),
  'array event': stream([START, [], ...TEXT, ...END]),
  'null first': stream([null, START, ...TEXT, ...END]),
  'no start': stream([...TEXT, ...END]),
  'start without message': stream([{ type: 'message_start' }, ...TEXT, ...END]),
  'start null message': stream([{ type: 'message_start', message: null }, ...TEXT, ...END]),
  'delta without block': stream([START, say(0, 'Well.'), ...END]),
  'delta null': stream([
    START,
    open(0),
    { type: 'content_block_delta', index: 0, delta: null },
    say(0, 'Well.'),
    stop(0),
    ...END,
  ]),
  'text number': stream([START, open(0), say(0, 5), say(0, 'Well.'), stop(0), ...END]),
  'text object': stream([START, open(0), say(0, { a: 1 }), say(0, 'Well.'), stop(0), ...END]),
  'text array': stream([START, open(0), say(0, ['a']), say(0, 'Well.'), stop(0), ...END]),
  'thinking number': stream([
    START,
    open(0, { type: 'thinking', thinking: 7, signature: 5 }),
    stop(0),
    open(1),
    say(1, 'Well.'),
    stop(1),
    ...END,
  ]),
  'tool odd': stream([
    START,
    open(0, { type: 'tool_use', id: 5, name: 6, input: 'x' }),
    { type: 'content_block_delta', index: 0, delta: { type: 'input_json_delta', partial_json: 5 } },
    stop(0),
    ...END,
  ]),
  'tool no id': stream([START, open(0, { type: 'tool_use' }), stop(0), ...END]),
  'block null': stream([START, open(0, null), say(0, 'Well.'), stop(0), ...END]),
  'block number': stream([START, open(0, 5), say(0, 'Well.'), stop(0), ...END]),
  'index odd': stream([START, open('a'), say('a', 'Well.'), stop('a'), ...END]),
  'citations odd': stream([
    START,
    open(0, { type: 'text', text: 'a', citations: 5 }),
    stop(0),
    ...END,
  ]),
  'citations null entry': stream([
    START,
    open(0, { type: 'text', text: 'a', citations: [null] }),
    stop(0),
    ...END,
  ]),
  'stop reason odd': stream([
    START,
    ...TEXT,
    {
      type: 'message_delta',
      delta: { stop_reason: 5, stop_details: 7 },
      usage: { output_tokens: 20 },
    },
    END[1],
  ]),
  'delta null message': stream([
    START,
    ...TEXT,
    { type: 'message_delta', delta: null, usage: { output_tokens: 20 } },
    END[1],
  ]),
  'message in stream': stream([START, { type: 'message', content: [null] }, ...TEXT, ...END]),
  'message string in stream': stream([
    START,
    { type: 'message', content: 'swordfish' },
    ...TEXT,
    ...END,
  ]),
  'proto type': stream([
    START,
    { type: '__proto__' },
    { type: 'constructor' },
    { type: 7 },
    { type: null },
    {},
    ...TEXT,
    ...END,
  ]),
  'two ends': stream([START, ...TEXT, ...END, ...END]),
  'after end': stream([START, ...TEXT, ...END, ...TEXT]),
  'only stop': stream([START, END[1]]),
  'only delta': stream([START, END[0]]),
  'no usage': stream([usageOf(undefined), ...TEXT, ending(undefined), END[1]]),
  'usage null': stream([usageOf(null), ...TEXT, ending(null), END[1]]),
  'usage zero': stream([START, ...TEXT, ending({ input_tokens: 0, output_tokens: 0 }), END[1]]),
  'usage missing at end': stream([
    START,
    open(0),
    say(0, 'x'.repeat(400)),
    stop(0),
    ending(undefined),
    END[1],
  ]),
  'usage absurd': stream([START, ...TEXT, ending({ output_tokens: 1e15 }), END[1]]),
  'usage absurd 2': stream([
    START,
    ...TEXT,
    ending({ input_tokens: 1e300, output_tokens: 1e300 }),
    END[1],
  ]),
  'usage negative': stream([
    START,
    ...TEXT,
    ending({ input_tokens: -5, output_tokens: -5, cache_read_input_tokens: -7 }),
    END[1],
  ]),
  'usage text': stream([START, ...TEXT, ending({ input_tokens: '5', output_tokens: '6' }), END[1]]),
  'usage float': stream([START, ...TEXT, ending({ output_tokens: 2.5 }), END[1]]),
  'usage odd': stream([
    START,
    ...TEXT,
    ending({
      output_tokens: {},
      cache_creation: 5,
      output_tokens_details: 'x',
      server_tool_use: 7,
    }),
    END[1],
  ]),
  'usage odd null': stream([
    START,
    ...TEXT,
    ending({
      output_tokens: [],
      cache_creation: null,
      output_tokens_details: null,
      server_tool_use: null,
    }),
    END[1],
  ]),
  'usage array': stream([START, ...TEXT, ending([1, 2]), END[1]]),
  'cache absurd': stream([
    START,
    ...TEXT,
    ending({ cache_read_input_tokens: 1e12, cache_creation_input_tokens: 1e12, output_tokens: 3 }),
    END[1],
  ]),
  'error first': stream([{ type: 'error', error: { type: 'overloaded_error', message: 'x' } }]),
  'error after start': stream([
    START,
    { type: 'error', error: { type: 'api_error', message: 'x' } },
  ]),
  'error in text': stream([
    START,
    open(0),
    say(0, 'Well.'),
    { type: 'error', error: { type: 'api_error', message: 'sk-ant-secret1234567890 x' } },
  ]),
  'error odd': stream([START, open(0), say(0, 'Well.'), { type: 'error', error: 'bad' }]),
  'error null': stream([
    START,
    open(0),
    say(0, 'Well.'),
    { type: 'error', error: null },
    stop(0),
    ...END,
  ]),
  'error number message': stream([
    START,
    open(0),
    say(0, 'Well.'),
    { type: 'error', error: { type: 5, message: { a: 1 } } },
  ]),
  'not json': sse(`event: message_start\ndata: ${JSON.stringify(START)}\n\ndata: {oops\n\n`),
  'whole content null': whole({ content: [null] }),
  'whole content string': whole({ content: 'Well.' }),
  'whole content missing': whole({ content: undefined }),
  'whole text missing': whole({ content: [{ type: 'text' }] }),
  'whole text null': whole({ content: [{ type: 'text', text: null }] }),
  'whole tool no input': whole({ content: [{ type: 'tool_use', id: 'a', name: 'b' }] }),
  'whole thinking bare': whole({ content: [{ type: 'thinking' }] }),
  'whole block number': whole({ content: [5, 'x', []] }),
  'whole usage missing': whole({ usage: undefined }),
  'whole usage odd': whole({ usage: 'x' }),
  'whole stop odd': whole({ stop_reason: 5, stop_details: 'x' }),
  'whole null': json(null),
  'whole array': json([]),
  'whole number': json(5),
  'whole error': json({ type: 'error', error: { type: 'overloaded_error', message: 'x' } }),
  'whole empty': { status: 200, headers: { 'content-type': 'application/json' }, pieces: [] },
}

let upstream: FakeUpstream
let gateway: TestGateway
beforeAll(async () => {
  upstream = await startUpstream()
  gateway = await createTestGateway({
    routing: { cooldown: 0 },
    providers: { vendor: { use: 'anthropic', options: { apiKey: 'k', baseURL: upstream.url } } },
    models: {
      'acme/claude': {
        pricing: {
          prompt: '0.000003',
          completion: '0.000015',
          input_cache_read: '0.0000003',
          input_cache_write: '0.00000375',
        },
        deployments: [{ provider: 'vendor', model: 'claude-sonnet-5-up' }],
      },
    },
  })
})
afterAll(async () => {
  await gateway.close()
  await upstream.close()
})

/** Streams of the vendor that go out as they came, and that break the rules of the API. */
const NOT_STREAMED = new Set([
  'index odd',
  'whole text missing',
  'whole text null',
  'whole thinking bare',
])

const post = (key: string, stream: boolean) =>
  gateway.ask('POST', '/v1/messages', { key, body: { ...ask, stream } })

/** The answers of one vendor's answer in both ways, and under a guard that only watches. */
async function answersOf(answer: FakeResponse, stream: boolean) {
  const policies = [undefined, watching, reading]
  const found = []
  for (const policy of policies) {
    const { secret } = await gateway.newKey({ concurrency: 1, ...(policy && { policy }) })
    upstream.answer(answer)
    const before = await gateway.balance()
    const { status, text } = await post(secret, stream)
    await eventually(() => expect(gateway.gateway.running.size).toBe(0))
    const writer = policy === reading ? 'gateway' : 'vendor'
    const read = text.startsWith('event:') ? streamed(text, writer) : undefined
    const said = read ?? { message: JSON.parse(text), error: JSON.parse(text).error }
    found.push({
      // The vendor's own beginning goes out as soon as it is there.
      status:
        said.error && text.startsWith('event:') && !text.includes('text_delta') ? 502 : status,
      charged: before - (await gateway.balance()),
      cost: (said.error ?? said.message).usage?.cost,
      code: said.error?.code,
      said: said.error ? undefined : textsOf(said.message.content),
    })
  }
  return found
}

/** Texts and calls that say something; a bare block of thinking has no counterpart in the normal form. */
function textsOf(content: readonly any[]): object[] {
  return content
    .filter(({ type, text }) => type === 'tool_use' || (type === 'text' && text !== ''))
    .map(({ type, text, input }) => ({ type, text, input }))
}

describe.each([true, false])(
  'an answer that is not as it should be, streamed to the client: %s',
  (stream) => {
    const shown = Object.entries(cases).filter(([name]) => !stream || !NOT_STREAMED.has(name))
    it.each(shown)('%s: is told and charged alike in both', async (_name, answer) => {
      const [native, watched, translated] = await answersOf(answer, stream)
      expect(native!.code).not.toBe('internal_error')
      expect(watched).toEqual(native)
      expect(translated).toEqual(native)
      expect(gateway.logged.filter((line) => line.includes('TypeError'))).toEqual([])
    })
  },
)

describe('an answer whose end has no count of the output', () => {
  it('is charged by its length', async () => {
    const answer = stream([
      START,
      open(0),
      say(0, 'x'.repeat(400)),
      stop(0),
      ending(undefined),
      END[1],
    ])
    for (const { charged } of await answersOf(answer, true)) {
      expect(charged).toBe(1000n * 3_000_000n + 100n * 15_000_000n)
    }
  })
})
