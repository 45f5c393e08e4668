/** Servers with OpenAI's chat API that also take requests in the forms of other clients, where a deployment says so. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestGateway, type TestGateway } from '../../_setup.ts'
import { json, startUpstream, type FakeUpstream } from '../../upstream.ts'

const MESSAGE = {
  id: 'msg_v',
  type: 'message',
  role: 'assistant',
  model: 'm',
  content: [{ type: 'text', text: 'Well.' }],
  stop_reason: 'end_turn',
  usage: { input_tokens: 1000, output_tokens: 20 },
}
const RESPONSE = {
  id: 'resp_v',
  object: 'response',
  status: 'completed',
  model: 'm',
  output: [
    {
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      status: 'completed',
      content: [{ type: 'output_text', text: 'Well.', annotations: [] }],
    },
  ],
  usage: { input_tokens: 1000, output_tokens: 20, total_tokens: 1020 },
}
const COMPLETION = {
  choices: [{ index: 0, message: { role: 'assistant', content: 'Well.' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 1000, completion_tokens: 20 },
}
const ANSWERS: Readonly<Record<string, object>> = {
  '/v1/messages': MESSAGE,
  '/v1/responses': RESPONSE,
  '/v1/chat/completions': COMPLETION,
}

let vendor: FakeUpstream
let t: TestGateway
beforeAll(async () => {
  vendor = await startUpstream()
  vendor.answer(({ path }) => json(ANSWERS[path]!))
  const model = (options: object) => ({
    pricing: { prompt: '0.000001', completion: '0.000002' },
    deployments: [{ provider: 'server', model: 'local', options: { ...options } }],
  })
  const options = { baseURL: `${vendor.url}/v1`, apiKey: 'k' }
  t = await createTestGateway({
    providers: { server: { use: 'openai-compatible', options } },
    models: {
      'own/chat': model({}),
      'own/messages': model({ native: ['messages'] }),
      'own/both': model({ native: ['messages', 'responses'] }),
    },
  })
})
afterAll(async () => {
  await t.close()
  await vendor.close()
})

const FORMS: readonly [path: string, body: object][] = [
  ['/v1/messages', { max_tokens: 100, messages: [{ role: 'user', content: 'Hi' }] }],
  ['/v1/responses', { input: 'Hi' }],
]

describe.each(FORMS)('POST %s', (path, body) => {
  it.each([
    ['own/chat', '/v1/chat/completions'],
    ['own/messages', path === '/v1/messages' ? path : '/v1/chat/completions'],
    ['own/both', path],
  ])('to %s asks for %s, at the same cost', async (model, asked) => {
    const sent = { model, ...body, unknown: { n: 1 } }
    const { status, json: answer } = await t.ask('POST', path, { body: sent })
    expect(status, JSON.stringify(answer)).toBe(200)
    const received = vendor.requests.at(-1)!
    expect(received.path).toBe(asked)
    expect(received.headers.authorization).toBe('Bearer k')
    expect(received.json.model).toBe('local')
    if (asked === path) expect(received.json.unknown).toEqual({ n: 1 })
    expect(JSON.stringify(answer)).toContain('Well.')
    expect(answer.usage.cost).toBe(0.00104)
  })
})
