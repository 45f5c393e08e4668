import { describe, expect, it } from 'vitest'
import openai from '../../providers/openai.ts'
import type { ChatInput } from '../../src/plugin.ts'
import type { RequestOptions } from './_chat.ts'
import { CHAT_ANSWER, vendorOf } from './_vendor.ts'

const vendor = vendorOf(CHAT_ANSWER, '/v1')

const sent = (options: object, input: Partial<ChatInput> = {}, how?: RequestOptions) =>
  vendor.sent(openai, { options: { apiKey: 'sk-1', ...options }, input, how })

async function settled(options: object) {
  return openai.options['~standard'].validate(options)
}

describe('options', () => {
  it('require a key and know the address', async () => {
    expect(await settled({ apiKey: 'sk-1' })).toMatchObject({
      value: { apiKey: 'sk-1', baseURL: 'https://api.openai.com/v1', headers: {} },
    })
    expect((await settled({ apiKey: '' })).issues![0]!.message).toBe('an API key')
    expect((await settled({})).issues).toHaveLength(1)
    expect((await settled({ apiKey: 'sk-1', quirks: 'openai' })).issues).toHaveLength(1)
  })
})

describe('the request', () => {
  it('names the organization and the project', async () => {
    const seen = await sent({ organization: 'org-1', project: 'proj_1', headers: { 'X-Us': '1' } })
    expect(seen.path).toBe('/v1/chat/completions')
    expect(seen.headers).toMatchObject({
      authorization: 'Bearer sk-1',
      'openai-organization': 'org-1',
      'openai-project': 'proj_1',
      'x-us': '1',
    })
    const { headers } = await sent({})
    expect(headers).not.toHaveProperty('openai-organization')
    expect(headers).not.toHaveProperty('openai-project')
  })

  it('uses the developer role, limits the completion, and returns refusals', async () => {
    const messages = [
      { role: 'developer', content: 'Be brief.' },
      { role: 'user', content: 'Say it.' },
      { role: 'assistant', content: null, refusal: 'No.', reasoning: 'hm', annotations: [] },
      { role: 'user', content: 'Why?' },
    ] as const
    const input = { messages, max_completion_tokens: 5, stream: true, temperature: 0.5, top_k: 3 }
    const reasoning = { effort: 'minimal' } as const
    const how = { model: 'gpt-5-nano' }
    expect((await sent({}, { ...input, reasoning }, how)).json).toEqual({
      model: 'gpt-5-nano',
      messages: [
        messages[0],
        messages[1],
        { role: 'assistant', content: '', refusal: 'No.' },
        messages[3],
      ],
      max_completion_tokens: 5,
      reasoning_effort: 'minimal',
      stream: true,
      stream_options: { include_usage: true, include_obfuscation: false },
    })
  })

  it('keeps sampling parameters when the model does not reason', async () => {
    const input = { temperature: 0.5, logprobs: true, presence_penalty: 1 }
    expect((await sent({}, input, { model: 'gpt-4.1-mini' })).json).toMatchObject(input)
  })
})
