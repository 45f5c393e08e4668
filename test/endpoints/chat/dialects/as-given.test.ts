/** Reasoning of a server that is not known goes back to it in the members in which it came. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestGateway, type TestGateway } from '../../../_setup.ts'
import { json, startUpstream, type FakeUpstream } from '../../../upstream.ts'

let vendor: FakeUpstream
let t: TestGateway
beforeAll(async () => {
  vendor = await startUpstream()
  const options = { baseURL: `${vendor.url}/v1` }
  t = await createTestGateway({
    defaults: { limits: { rpm: 100_000 } },
    providers: { server: { use: 'openai-compatible', options } },
    models: {
      'm/relay': {
        pricing: { prompt: '0.000003', completion: '0.000015' },
        capabilities: ['STREAMING', 'TOOLS', 'REASONING'],
        deployments: [{ provider: 'server', model: 'kimi' }],
      },
    },
  })
})
afterAll(async () => {
  await t.close()
  await vendor.close()
})

const call = { id: 'call_1', type: 'function', function: { name: 'f', arguments: '{}' } }
const details = [
  { type: 'reasoning.text', text: 'Hm.', signature: 'c2ln', id: 'r1', format: 'unknown', index: 0 },
]
const SPELLINGS: Record<string, object> = {
  reasoning_content: { reasoning_content: 'Hm.' },
  reasoning: { reasoning: 'Hm.' },
  reasoning_details: { reasoning_details: details },
}

const CLIENTS: Record<string, { path: string; first: object; next(answer: any): object }> = {
  chat: {
    path: '/v1/chat/completions',
    first: { messages: [{ role: 'user', content: 'Hi' }] },
    next: ({ choices }) => ({
      messages: [
        { role: 'user', content: 'Hi' },
        choices[0].message,
        { role: 'tool', tool_call_id: 'call_1', content: 'Fine.' },
      ],
    }),
  },
  messages: {
    path: '/v1/messages',
    first: { max_tokens: 100, messages: [{ role: 'user', content: 'Hi' }] },
    next: ({ content }) => ({
      max_tokens: 100,
      messages: [
        { role: 'user', content: 'Hi' },
        { role: 'assistant', content },
        {
          role: 'user',
          content: [{ type: 'tool_result', tool_use_id: 'call_1', content: 'Fine.' }],
        },
      ],
    }),
  },
  responses: {
    path: '/v1/responses',
    first: { input: 'Hi', include: ['reasoning.encrypted_content'] },
    next: ({ output }) => ({
      input: [
        { role: 'user', content: 'Hi' },
        ...output,
        { type: 'function_call_output', call_id: 'call_1', output: 'Fine.' },
      ],
    }),
  },
}

describe.each(Object.entries(CLIENTS))('%s', (_name, { path, first, next }) => {
  it.each(Object.entries(SPELLINGS))('%s', async (member, said) => {
    const message = { role: 'assistant', content: null, tool_calls: [call], ...said }
    vendor.answer(() =>
      json({
        choices: [{ index: 0, message, finish_reason: 'tool_calls' }],
        usage: { prompt_tokens: 1, completion_tokens: 1 },
      }),
    )
    const { json: answer, text } = await t.ask('POST', path, {
      body: { model: 'm/relay', ...first },
    })
    const { status } = await t.ask('POST', path, { body: { model: 'm/relay', ...next(answer) } })
    expect(status, text).toBe(200)
    const sent = (vendor.requests.at(-1)!.json as any).messages[1]
    const own = { ...details[0], index: undefined }
    if (member === 'reasoning_details') {
      expect(sent.reasoning_details).toMatchObject([JSON.parse(JSON.stringify(own))])
    } else expect(sent).toMatchObject(said)
    expect(JSON.stringify(sent)).not.toContain('up:')
  })
})
