/**
 * Requests as coding assistants send them: answered in full, with a round trip of a tool, in both lanes where there are two;
 * and what their users see of a policy's block, a spent cap, an empty balance and a rate limit.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { anthropic, openAI, openAIResponses, type Line, type Voice } from '../../../sdk/_voices.ts'
import { createTestGateway, eventsOf, type Answer, type TestGateway } from '../../../_setup.ts'
import { startUpstream, type FakeUpstream } from '../../../upstream.ts'
import { streamed as streamedMessage } from './messages/_events.ts'
import { streamed as streamedResponse } from './responses/_events.ts'

/** What an assistant understands of a streamed answer. */
interface Understood {
  readonly text: string
  /** How the answer has ended, in the words of the form. */
  readonly end: string
  readonly calls: readonly { readonly id: string; readonly name: string }[]
  /** What goes back with the next request. */
  readonly said: readonly object[]
}

interface Client {
  readonly name: string
  readonly file: string
  /** A tool that it offers. */
  readonly tool: string
  readonly voice: Voice
  /** The vendor gets requests as they came, where nothing stands against it. */
  readonly isNative: boolean
  understand(text: string): Understood
  /** The body of the next request, with what the tools have said. */
  next(body: any, answer: Understood): object
  readonly ends: { readonly called: string; readonly done: string; readonly blocked: string }
  /** Status, type and code of errors. */
  readonly errors: Readonly<Record<'cap' | 'balance' | 'rate', readonly [number, string, string]>>
}

const RESULT = 'nice and warm'
const openAIErrors: Client['errors'] = {
  cap: [403, 'insufficient_quota', 'key_limit_exceeded'],
  balance: [402, 'insufficient_quota', 'insufficient_credits'],
  rate: [429, 'requests', 'rate_limited'],
}

const CLIENTS: readonly Client[] = [
  {
    name: 'Claude Code',
    file: 'claude-code.json',
    tool: 'Write',
    voice: anthropic,
    isNative: true,
    understand(text) {
      const { content, stop_reason: end } = streamedMessage(text, 'vendor').message
      const calls = content.filter(({ type }: any) => type === 'tool_use')
      const said = [{ role: 'assistant', content }]
      return { text: content.map((one: any) => one.text ?? '').join(''), end, calls, said }
    },
    next: (body, { calls, said }) => {
      const content = calls.map(({ id }) => {
        return { type: 'tool_result', tool_use_id: id, content: RESULT }
      })
      return { ...body, messages: [...body.messages, ...said, { role: 'user', content }] }
    },
    ends: { called: 'tool_use', done: 'end_turn', blocked: 'end_turn' },
    errors: {
      // It takes a 403 for a failed sign-in.
      cap: [402, 'billing_error', 'key_limit_exceeded'],
      balance: [402, 'billing_error', 'insufficient_credits'],
      rate: [429, 'rate_limit_error', 'rate_limited'],
    },
  },
  {
    name: 'Codex',
    file: 'codex.json',
    tool: 'exec_command',
    voice: openAIResponses,
    isNative: true,
    understand(text) {
      const { output, status: end } = streamedResponse(text, 'vendor').response
      const said = output.flatMap(({ content }: any) => content ?? [])
      const calls = output
        .filter(({ type }: any) => type === 'function_call')
        .map(({ call_id: id, name }: any) => ({ id, name }))
      return { text: said.map((one: any) => one.text ?? '').join(''), end, calls, said: output }
    },
    next: (body, { calls, said }) => {
      const outputs = calls.map(({ id }) => {
        return { type: 'function_call_output', call_id: id, output: RESULT }
      })
      return { ...body, input: [...body.input, ...said, ...outputs] }
    },
    ends: { called: 'completed', done: 'completed', blocked: 'completed' },
    errors: openAIErrors,
  },
  {
    name: 'opencode',
    file: 'opencode.json',
    tool: 'bash',
    voice: openAI(),
    isNative: false,
    understand(text) {
      const choices = eventsOf(text).flatMap((one) => one.choices ?? [])
      const content = choices.map(({ delta }) => delta.content ?? '').join('')
      const tool_calls = choices.flatMap(({ delta }) => delta.tool_calls ?? [])
      const begun = tool_calls.filter(({ id }: any) => id)
      const calls = begun.map(({ id, function: { name } }: any) => ({ id, name }))
      const whole = begun.map((call: any) => ({
        ...call,
        function: {
          name: call.function.name,
          arguments: tool_calls
            .filter(({ index }: any) => index === call.index)
            .map((one: any) => one.function.arguments)
            .join(''),
        },
      }))
      const end = choices.findLast(({ finish_reason }) => finish_reason)!.finish_reason
      return {
        text: content,
        end,
        calls,
        said: [{ role: 'assistant', content, tool_calls: whole }],
      }
    },
    next: (body, { calls, said }) => {
      const results = calls.map(({ id }) => ({ role: 'tool', tool_call_id: id, content: RESULT }))
      return { ...body, messages: [...body.messages, ...said, ...results] }
    },
    ends: { called: 'tool_calls', done: 'stop', blocked: 'content_filter' },
    errors: openAIErrors,
  },
]

const requestsOf = ({ file }: Client): any[] =>
  JSON.parse(readFileSync(join(import.meta.dirname, '../../../wire/clients', file), 'utf8'))
    .requests

let vendor: FakeUpstream
let t: TestGateway
beforeAll(async () => {
  vendor = await startUpstream()
  const options = { apiKey: 'k', baseURL: `${vendor.url}/v1` }
  const at = (provider: string, model: string) => ({
    pricing: { prompt: '0.000003', completion: '0.000015' },
    capabilities: ['STREAMING' as const, 'TOOLS' as const, 'REASONING' as const],
    deployments: [{ provider, model }],
  })
  t = await createTestGateway({
    providers: {
      anthropic: { use: 'anthropic', options },
      openai: { use: 'openai', options },
      server: { use: 'openai-compatible', options },
    },
    models: {
      'anthropic/claude-sonnet-5': at('anthropic', 'claude-sonnet-5'),
      'openai/gpt-5.6': {
        ...at('openai', 'gpt-5.6'),
        deployments: [{ provider: 'openai', model: 'gpt-5.6', options: { api: 'responses' } }],
      },
      'mock/echo': at('server', 'local'),
    },
  })
})
afterAll(async () => {
  await t.close()
  await vendor.close()
})

describe.each(CLIENTS)('$name', (client) => {
  const requests = requestsOf(client)
  const question = requests.findLast(({ method }: any) => method === 'POST')
  const send = ({ method, url, headers, body }: any, key = t.key.secret): Promise<Answer> => {
    const { authorization: _key, ...others } = headers
    return t.ask(method, url, { key, headers: others, ...(body && { body }) })
  }
  const says = (...lines: readonly Line[]) => {
    const left = [...lines]
    vendor.answer((request) => client.voice(left.shift()!, request))
  }

  it('gets an answer to each of its requests', async () => {
    for (const request of requests) {
      says({ text: 'Fine.' })
      const { status, text } = await send(request)
      expect(status, `${request.method} ${request.url}: ${text}`).toBe(200)
      if (request.method !== 'POST') continue
      expect(client.understand(text)).toMatchObject({ text: 'Fine.', end: client.ends.done })
    }
  })

  it.each(client.isNative ? ['as it came', 'translated'] : ['translated'])(
    'makes a round trip with a tool, %s',
    async (lane) => {
      const policy = { version: 1 as const, bannedPatterns: ['swordfish'] }
      const key = lane === 'translated' ? (await t.newKey({ policy })).secret : t.key.secret
      says({ calls: [{ name: client.tool, input: { city: 'Oslo' } }] }, { text: 'It is warm.' })
      const called = client.understand((await send(question, key)).text)
      expect(called.end).toBe(client.ends.called)
      expect(called.calls).toMatchObject([{ name: client.tool }])
      const body = client.next(question.body, called)
      const { status, text } = await send({ ...question, body }, key)
      expect(status, text).toBe(200)
      expect(client.understand(text)).toMatchObject({ text: 'It is warm.', end: client.ends.done })
      expect(vendor.requests.at(-1)!.body.toString()).toContain(RESULT)
    },
  )

  it('shows the refusal of a policy as an answer', async () => {
    const policy = { version: 1 as const, bannedPatterns: ['lorem ipsum'], refusal: 'Not here.' }
    const { secret } = await t.newKey({ policy })
    const before = vendor.requests.length
    const { status, text } = await send(question, secret)
    expect(status).toBe(200)
    expect(client.understand(text)).toMatchObject({ text: 'Not here.', end: client.ends.blocked })
    expect(vendor.requests.length).toBe(before)
  })

  const account = `poor-${client.file.split('.')[0]}`
  it.each<['cap' | 'balance' | 'rate', () => Promise<{ secret: string }>, RegExp]>([
    [
      'cap',
      () => t.newKey({ spendCap: { usd: '0.000001', scope: 'month' } }),
      /USD a month of this key is reached: .* starts anew at \d{4}-/,
    ],
    [
      'balance',
      async () => {
        await t.newAccount(account, '0.000001')
        return t.newKey({ account })
      },
      /balance of this account is used up/,
    ],
    ['rate', () => t.newKey({ rpm: 1 }), /Try again in \d+s\./],
  ])('is told of a used up %s, and nothing is asked or charged', async (what, arrange, words) => {
    const { secret } = await arrange()
    says({ text: 'Fine.' })
    expect((await send(question, secret)).status).toBe(200)
    const asked = vendor.requests.length
    const balance = await t.balance(what === 'balance' ? account : undefined)
    const { status, headers, json } = await send(question, secret)
    const { type, code, message } = json.error
    expect([status, type, code]).toEqual(client.errors[what])
    expect(message).toMatch(words)
    if (what === 'rate') expect(Number(headers['retry-after'])).toBeGreaterThan(0)
    else expect(headers['retry-after']).toBeUndefined()
    expect(vendor.requests.length).toBe(asked)
    expect(await t.balance(what === 'balance' ? account : undefined)).toBe(balance)
  })
})
