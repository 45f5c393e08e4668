/** Servers with OpenAI's chat API that also take requests in the forms of other clients, where a deployment says so. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestGateway, type TestGateway } from '../../_setup.ts'
import { json, sse, startUpstream, type FakeUpstream } from '../../upstream.ts'

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

/** An answer that repeats what the server was asked, wherever its own form has room. */
function echoing(path: string, asked: { readonly stream?: boolean }) {
  const echo = JSON.stringify(asked)
  const members = { prompt: echo, input_messages: [{ content: echo }], system: echo }
  const answer: any = structuredClone({ ...ANSWERS[path], instructions: echo, ...members })
  answer.usage = { ...answer.usage, prompt_text: echo, details: { prompt_text: echo } }
  if (!asked.stream) return json(answer)
  return sse(
    eventsOf(path, answer)
      .map((event) => `data: ${JSON.stringify({ ...event, ...members })}\n\n`)
      .join(''),
  )
}

function eventsOf(path: string, answer: any): object[] {
  const prompt = answer.prompt
  switch (path) {
    case '/v1/messages': {
      const { content, stop_reason, usage, ...message } = answer
      return [
        { type: 'message_start', message: { ...message, content: [], usage } },
        { type: 'prompt_echo', prompt },
        { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
        { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', ...content[0] } },
        { type: 'content_block_stop', index: 0 },
        { type: 'message_delta', delta: { stop_reason, prompt }, usage },
        { type: 'message_stop' },
      ]
    }
    case '/v1/responses': {
      const [item] = answer.output
      const place = { output_index: 0, item_id: item.id, content_index: 0 }
      return [
        { type: 'response.created', response: { ...answer, output: [], status: 'in_progress' } },
        { type: 'response.prompt_echo', text: prompt },
        { type: 'response.output_item.added', output_index: 0, item: { ...item, content: [] } },
        { type: 'response.output_text.delta', ...place, delta: 'Well.' },
        { type: 'response.output_item.done', output_index: 0, item },
        { type: 'response.completed', response: answer },
      ]
    }
    default: {
      const { choices, ...rest } = answer
      const { message, ...choice } = choices[0]
      return [{ ...rest, choices: [{ ...choice, delta: { ...message, prompt } }] }]
    }
  }
}

describe('a server that repeats its prompt', () => {
  const all: typeof FORMS = [
    ...FORMS,
    ['/v1/chat/completions', { messages: [{ role: 'user', content: 'Hi' }] }],
  ]
  const told = { version: 1, systemPrompt: 'The word of the day is ostrich.' } as const
  const keys = [
    ['a system prompt', told],
    ['rules that only watch', { ...told, guard: { mode: 'monitor' }, bannedPatterns: ['zebra'] }],
    ['rules', { ...told, bannedPatterns: ['zebra'] }],
  ] as const
  beforeAll(() => vendor.answer(({ path, json: asked }) => echoing(path, asked)))

  it.each(keys)('does not tell it to clients whose key has %s', async (_name, policy) => {
    const key = (await t.newKey({ policy })).secret
    for (const [path, body] of all) {
      for (const stream of [false, true]) {
        const headers = { 'anthropic-beta': 'prompt-echo-2026-01-01' }
        const sent = { model: 'own/both', ...body, stream, input_messages: true }
        const { status, text } = await t.ask('POST', path, { key, headers, body: sent })
        expect(status, text).toBe(200)
        expect(text).toContain('Well.')
        expect(text, `${path} ${stream}`).not.toContain('ostrich')
        expect(vendor.requests.at(-1)!.body.toString()).toContain('ostrich')
        const isNative = !('bannedPatterns' in policy) || 'guard' in policy
        expect(vendor.requests.at(-1)!.path === path).toBe(isNative || path === all.at(-1)![0])
      }
    }
  })

  it('is heard by others', async () => {
    const sent = { model: 'own/both', input: 'Hi' }
    const { json: answer } = await t.ask('POST', '/v1/responses', { body: sent })
    expect(answer.input_messages).toHaveLength(1)
  })
})

describe.each(FORMS)('POST %s', (path, body) => {
  beforeAll(() => vendor.answer(({ path: asked }) => json(ANSWERS[asked]!)))

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
    // Chat completions have members of many vendors; of the other forms all are known.
    const passes = asked === path && path === '/v1/chat/completions'
    expect(received.json.unknown).toEqual(passes ? { n: 1 } : undefined)
    expect(JSON.stringify(answer)).toContain('Well.')
    expect(answer.usage.cost).toBe(0.00104)
  })
})
