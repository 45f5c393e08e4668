/** Personal data of requests, by the official clients of three client forms, in front of a vendor that says all back. */
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { UserConfig } from '../../src/config/config.ts'
import { createTestGateway, MOCK_CONFIG, type TestGateway } from '../_setup.ts'
import {
  events,
  json,
  startUpstream,
  type FakeUpstream,
  type ReceivedRequest,
} from '../upstream.ts'
import { SENTENCES, TEXT, VALUES } from './_values.ts'

let upstream: FakeUpstream
let t: TestGateway
/** Bodies as the vendor got them. */
const received: string[] = []
const usage = { prompt_tokens: 100, completion_tokens: 50, total_tokens: 150 }

/** Says the last user message back, and calls a tool with what the last tool result says. */
function echo({ json: body }: ReceivedRequest) {
  received.push(JSON.stringify(body))
  const textOf = (content: any) =>
    typeof content === 'string' ? content : content.map((one: any) => one.text ?? '').join('')
  const last = (role: string) => body.messages.findLast((one: any) => one.role === role)
  const content = textOf(last('user').content)
  const result = last('tool')
  const args = result && JSON.stringify({ seen: JSON.parse(textOf(result.content)).rows })
  const call = { id: 'call_2', type: 'function', function: { name: 'find', arguments: args } }
  const finish_reason = args ? 'tool_calls' : 'stop'
  if (!body.stream) {
    const message = { role: 'assistant', content, ...(args && { tool_calls: [call] }) }
    return json({ choices: [{ index: 0, message, finish_reason }], usage })
  }
  const delta = (one: object, reason: string | null = null) => ({
    choices: [{ index: 0, delta: one, finish_reason: reason }],
  })
  const cuts = (text: string) => text.match(/[^]{1,5}/g)!
  const head = { index: 0, id: 'call_2', type: 'function' }
  const calls = args
    ? [
        delta({ tool_calls: [{ ...head, function: { name: 'find', arguments: '' } }] }),
        ...cuts(args).map((one) =>
          delta({ tool_calls: [{ index: 0, function: { arguments: one } }] }),
        ),
      ]
    : []
  return events(
    delta({ role: 'assistant', content: '' }),
    ...cuts(content).map((one) => delta({ content: one })),
    ...calls,
    delta({}, finish_reason),
    { choices: [], usage },
    '[DONE]',
  )
}

beforeAll(async () => {
  upstream = await startUpstream()
  upstream.answer(echo)
  t = await createTestGateway({
    guards: { use: [{ use: 'pii', mask: 'keys' }] },
    providers: {
      one: { use: 'openai-compatible', options: { baseURL: `${upstream.url}/v1`, apiKey: 'k' } },
    },
    models: {
      'acme/swift': {
        ...MOCK_CONFIG.models['mock/echo'],
        deployments: [{ provider: 'one', model: 'm' }],
      },
    },
  } as UserConfig)
})
afterAll(async () => {
  await t.close()
  await upstream.close()
})
beforeEach(() => void (received.length = 0))

const ROWS = SENTENCES.map(([sentence], id) => ({ id, note: sentence }))
const RESULT = JSON.stringify({ rows: ROWS })
const ARGUMENTS = { to: VALUES[0], name: VALUES[8], 'by name': { [VALUES[1]!]: VALUES[2] } }
const SCHEMA = { type: 'object' as const, properties: { seen: { type: 'array' } } }
const model = 'acme/swift'

interface Told {
  readonly text: string
  readonly args: unknown
}
type Ask = (key: string, stream: boolean) => Promise<Told>

const openai = (key: string) => new OpenAI({ baseURL: t.baseURL, apiKey: key, maxRetries: 0 })

const chat: Ask = async (key, stream) => {
  const body = {
    model,
    messages: [
      { role: 'user', content: TEXT },
      {
        role: 'assistant',
        content: null,
        tool_calls: [
          {
            id: 'call_1',
            type: 'function',
            function: { name: 'find', arguments: JSON.stringify(ARGUMENTS) },
          },
        ],
      },
      { role: 'tool', tool_call_id: 'call_1', content: RESULT },
    ],
    tools: [{ type: 'function', function: { name: 'find', parameters: SCHEMA } }],
    user: VALUES[0],
  } as OpenAI.ChatCompletionCreateParamsNonStreaming
  const answer = stream
    ? await openai(key)
        .chat.completions.stream({ ...body, stream: true })
        .finalChatCompletion()
    : await openai(key).chat.completions.create(body)
  const { message } = answer.choices[0]!
  const [call] = message.tool_calls as any
  return { text: message.content!, args: JSON.parse(call.function.arguments) }
}

const messages: Ask = async (key, stream) => {
  const client = new Anthropic({ baseURL: t.url, apiKey: key, maxRetries: 0 })
  const body = {
    model,
    max_tokens: 500,
    messages: [
      { role: 'user', content: TEXT },
      {
        role: 'assistant',
        content: [{ type: 'tool_use', id: 'call_1', name: 'find', input: ARGUMENTS }],
      },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'call_1', content: RESULT }] },
    ],
    tools: [{ name: 'find', input_schema: SCHEMA }],
    metadata: { user_id: VALUES[0] },
  } as Anthropic.MessageCreateParamsNonStreaming
  const answer = stream
    ? await client.messages.stream(body).finalMessage()
    : await client.messages.create(body)
  const text = answer.content.map((one) => (one.type === 'text' ? one.text : '')).join('')
  const call = answer.content.find((one) => one.type === 'tool_use')
  return { text, args: call?.type === 'tool_use' ? call.input : undefined }
}

const responses: Ask = async (key, stream) => {
  const body = {
    model,
    input: [
      { role: 'user', content: TEXT },
      {
        type: 'function_call',
        call_id: 'call_1',
        name: 'find',
        arguments: JSON.stringify(ARGUMENTS),
      },
      { type: 'function_call_output', call_id: 'call_1', output: RESULT },
    ],
    tools: [{ type: 'function', name: 'find', parameters: SCHEMA, strict: false }],
    metadata: { who: VALUES[0] },
  } as unknown as OpenAI.Responses.ResponseCreateParamsNonStreaming
  const client = openai(key)
  const answer = stream
    ? await client.responses.stream({ ...body, stream: true } as any).finalResponse()
    : await client.responses.create(body)
  const call = answer.output.find((one) => one.type === 'function_call')
  const text = answer.output
    .flatMap((one) => (one.type === 'message' ? one.content : []))
    .map((one) => (one.type === 'output_text' ? one.text : ''))
    .join('')
  return { text, args: JSON.parse((call as { arguments: string }).arguments) }
}

describe('personal data', () => {
  it.each([
    ['chat', chat],
    ['messages', messages],
    ['responses', responses],
  ])('of %s is masked for the vendor and whole for the client', async (_name, ask) => {
    const { secret } = await t.newKey({ mask: true })
    for (const stream of [false, true]) {
      const { text, args } = await ask(secret, stream)
      expect(text).toBe(TEXT)
      expect(args).toEqual({ seen: ROWS })
    }
    expect(received).toHaveLength(2)
    for (const value of VALUES) {
      for (const body of received) expect(body).not.toContain(JSON.stringify(value).slice(1, -1))
    }
    for (const [, , kind] of SENTENCES)
      expect(received[0]).toMatch(new RegExp(`\\[${kind}_\\d{4}\\]`))
    expect(t.logged.join('\n')).not.toContain(VALUES[0])
  })

  it('of a key that does not mask it goes to the vendor as it is', async () => {
    const { text } = await chat(t.key.secret, true)
    expect(text).toBe(TEXT)
    expect(received[0]).toContain(VALUES[0])
  })
})
