/** The stop sequence that ended an answer, where the vendor names it. */
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
  const at = (provider: string) => ({
    pricing,
    capabilities: ['STREAMING' as const],
    deployments: [{ provider, model: 'm' }],
  })
  gateway = await createTestGateway({
    providers: {
      claude: { use: 'anthropic', options },
      vllm: { use: 'openai-compatible', options },
    },
    models: { 'acme/claude': at('claude'), 'acme/vllm': at('vllm') },
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

/** Answers are read under this policy, so requests are translated. */
const policy = { version: 1 as const, bannedPatterns: ['swordfish'] }

it.each([
  ['by Anthropic', 'acme/claude', CLAUDE, ['STOP', 'END'], NAMED],
  ['by vLLM', 'acme/vllm', VLLM('END'), ['END'], NAMED],
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
