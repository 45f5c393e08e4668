/** The stop sequence that ended an answer, where the vendor names it. */
import { EventStreamCodec } from '@smithy/eventstream-codec'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createTestGateway, type TestGateway } from '../../../../_setup.ts'
import { events, json, sse, startUpstream, type FakeUpstream } from '../../../../upstream.ts'
import { streamed } from './_events.ts'

const pricing = { prompt: '0', completion: '0' }

let upstream: FakeUpstream
let gateway: TestGateway
beforeAll(async () => {
  upstream = await startUpstream()
  const options = { apiKey: 'k', baseURL: upstream.url }
  const at = (provider: string, model = 'm') => ({
    pricing,
    capabilities: ['STREAMING' as const],
    deployments: [{ provider, model }],
  })
  gateway = await createTestGateway({
    providers: {
      claude: { use: 'anthropic', options },
      vllm: { use: 'openai-compatible', options },
      amazon: { use: 'bedrock', options: { ...options, region: 'us-east-1' } },
    },
    models: {
      'acme/claude': at('claude'),
      'acme/vllm': at('vllm'),
      'acme/amazon': at('amazon', 'anthropic.claude-sonnet-4-5-20250929-v1:0'),
    },
  })
})
afterAll(async () => {
  await gateway.close()
  await upstream.close()
})

const NAMED = { stop_reason: 'stop_sequence', stop_sequence: 'END' }
const UNNAMED = { stop_reason: 'end_turn', stop_sequence: null }
const usage = { input_tokens: 5, output_tokens: 2 }

const CLAUDE = {
  whole: () =>
    json({
      type: 'message',
      role: 'assistant',
      content: [{ type: 'text', text: 'Hi' }],
      ...NAMED,
      usage,
    }),
  stream: () =>
    sse(
      [
        { type: 'message_start', message: { id: 'm', role: 'assistant', usage } },
        { type: 'content_block_start', index: 0, content_block: { type: 'text', text: 'Hi' } },
        { type: 'content_block_stop', index: 0 },
        { type: 'message_delta', delta: NAMED, usage },
        { type: 'message_stop' },
      ]
        .map((one) => `event: ${one.type}\ndata: ${JSON.stringify(one)}\n\n`)
        .join(''),
    ),
}
const finish = { index: 0, finish_reason: 'stop' }
const VLLM = (stop_reason: unknown) => ({
  whole: () => json({ choices: [{ ...finish, stop_reason, message: { content: 'Hi' } }] }),
  stream: () =>
    events(
      { choices: [{ index: 0, delta: { content: 'Hi' } }] },
      { choices: [{ ...finish, stop_reason, delta: {} }] },
      '[DONE]',
    ),
})

const frames = new EventStreamCodec(
  (bytes) => Buffer.from(bytes).toString(),
  (text) => Buffer.from(text),
)
const frame = (name: string, payload: object) =>
  Buffer.from(
    frames.encode({
      headers: {
        ':message-type': { type: 'string', value: 'event' },
        ':event-type': { type: 'string', value: name },
      },
      body: Buffer.from(JSON.stringify(payload)),
    }),
  )
const told = {
  stopReason: 'stop_sequence',
  additionalModelResponseFields: { stop_sequence: 'END' },
}
const counted = { usage: { inputTokens: 5, outputTokens: 2 } }
const BEDROCK = {
  whole: () =>
    json({
      output: { message: { role: 'assistant', content: [{ text: 'Hi' }] } },
      ...told,
      ...counted,
    }),
  stream: () => ({
    status: 200,
    headers: { 'content-type': 'application/vnd.amazon.eventstream' },
    pieces: [
      Buffer.concat([
        frame('messageStart', { role: 'assistant' }),
        frame('contentBlockDelta', { contentBlockIndex: 0, delta: { text: 'Hi' } }),
        frame('contentBlockStop', { contentBlockIndex: 0 }),
        frame('messageStop', told),
        frame('metadata', counted),
      ]),
    ],
  }),
}

/** Answers are read under this policy, so requests are translated. */
const policy = { version: 1 as const, bannedPatterns: ['swordfish'] }

it.each([
  ['by Anthropic', 'acme/claude', CLAUDE, ['STOP', 'END'], NAMED],
  ['by vLLM', 'acme/vllm', VLLM('END'), ['END'], NAMED],
  ['by Amazon', 'acme/amazon', BEDROCK, ['END'], NAMED],
  ['as a token', 'acme/vllm', VLLM(128009), ['END'], UNNAMED],
  ['and not asked for', 'acme/vllm', VLLM('<|im_end|>'), ['END'], UNNAMED],
  ['where none was asked for', 'acme/vllm', VLLM('END'), undefined, UNNAMED],
] as const)('is named as the vendor does, %s', async (_how, model, vendor, stop, expected) => {
  const { secret: key } = await gateway.newKey({ policy })
  const ask = async (stream: boolean) => {
    upstream.answer(vendor[stream ? 'stream' : 'whole']())
    const messages = [{ role: 'user', content: 'Hi' }]
    const body = { model, max_tokens: 9, messages, stream, stop_sequences: stop }
    return gateway.ask('POST', '/v1/messages', { key, body })
  }
  expect((await ask(false)).json).toMatchObject(expected)
  expect(streamed((await ask(true)).text).message).toMatchObject(expected)
})
