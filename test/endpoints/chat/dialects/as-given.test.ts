/** Reasoning of a server that is not known goes back to it in the members in which it came, and to no other vendor. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestGateway, type TestGateway } from '../../../_setup.ts'
import { json, sse, startUpstream, type FakeUpstream } from '../../../upstream.ts'
import { streamed as streamedMessage } from './messages/_events.ts'
import { streamed as streamedResponse } from './responses/_events.ts'

let vendor: FakeUpstream
let t: TestGateway
beforeAll(async () => {
  vendor = await startUpstream()
  const options = { baseURL: `${vendor.url}/v1`, apiKey: 'k' }
  const at = (provider: string, model = 'kimi') => ({
    pricing: { prompt: '0.000003', completion: '0.000015' },
    capabilities: ['STREAMING' as const, 'TOOLS' as const, 'REASONING' as const],
    deployments: [{ provider, model }],
  })
  const profile = (quirks: string) => ({
    use: 'openai-compatible',
    options: { ...options, quirks },
  })
  t = await createTestGateway({
    defaults: { limits: { rpm: 100_000 } },
    providers: {
      server: { use: 'openai-compatible', options },
      silent: { use: 'openai-compatible', options },
      claude: { use: 'anthropic', options },
      google: { use: 'google', options: { ...options, baseURL: vendor.url } },
      openrouter: profile('openrouter'),
      groq: profile('groq'),
      surface: profile('google'),
    },
    models: {
      'm/relay': at('server'),
      'm/silent': at('silent'),
      'm/claude': at('claude', 'claude-x'),
      'm/google': at('google', 'gemini-3-pro'),
      'm/openrouter': at('openrouter'),
      'm/groq': at('groq'),
      'm/surface': at('surface', 'gemini-3-pro'),
      'm/older': at('surface', 'gemini-2.5-pro'),
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
const claimed = [{ ...details[0], format: 'anthropic-claude-v1', id: 'r#1' }]
const google = (thought_signature: string) => ({ google: { thought_signature } })
const on = (member: object) => ({ tool_calls: [{ ...call, ...member }] })
/** What a server says of its reasoning, each time beside the call. */
const SPELLINGS: Record<string, Record<string, unknown>> = {
  reasoning_content: { reasoning_content: 'Hm.' },
  reasoning: { reasoning: 'Hm.' },
  reasoning_details: { reasoning_details: details },
  'reasoning_details with the format of a vendor': { reasoning_details: claimed },
  'extra_content of a call': on({ extra_content: google('R29v') }),
  'extra_content of the message': { extra_content: google('R29v') },
  'thoughtSignature of a call': on({ thoughtSignature: 'R29v' }),
  'thoughtSignature of the message': { thoughtSignature: 'R29v' },
  'provider_specific_fields of a call': on({
    provider_specific_fields: { thought_signature: 'R29v' },
  }),
  'thinking_signature beside its text': { reasoning_content: 'Hm.', thinking_signature: 'R29v' },
}

interface Client {
  readonly path: string
  readonly first: object
  /** The answer that the client reads. */
  answerIn(text: string): any
  next(answer: any): object
}

const usage = { prompt_tokens: 1, completion_tokens: 1 }

/** What a client of chat makes of a stream. */
function chatAnswer(text: string): any {
  const message: any = { role: 'assistant', content: null, tool_calls: [], reasoning_details: [] }
  for (const [, data] of text.matchAll(/^data: (\{.*)$/gm)) {
    const { delta } = JSON.parse(data!).choices[0] ?? {}
    if (!delta) continue
    if (delta.reasoning) message.reasoning = (message.reasoning ?? '') + delta.reasoning
    message.reasoning_details.push(...(delta.reasoning_details ?? []))
    for (const { index, ...part } of delta.tool_calls ?? []) {
      const known = message.tool_calls[index]
      if (!known) message.tool_calls[index] = part
      else known.function.arguments += part.function.arguments
    }
  }
  return { choices: [{ message }] }
}

const CLIENTS: Record<string, Client> = {
  chat: {
    path: '/v1/chat/completions',
    first: { messages: [{ role: 'user', content: 'Hi' }] },
    answerIn: chatAnswer,
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
    answerIn: (text) => streamedMessage(text).message,
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
    answerIn: (text) => streamedResponse(text).response,
    next: ({ output }) => ({
      input: [
        { role: 'user', content: 'Hi' },
        ...output,
        { type: 'function_call_output', call_id: 'call_1', output: 'Fine.' },
      ],
    }),
  },
}

/** An answer of the server: whole, or in parts, of which each repeats a signature. */
function answers(said: Record<string, unknown>, stream: boolean) {
  const message = { role: 'assistant', content: null, tool_calls: [call], ...said }
  if (!stream) {
    return json({ choices: [{ index: 0, message, finish_reason: 'tool_calls' }], usage })
  }
  const { tool_calls, ...rest } = message
  const [{ function: called, ...named }] = tool_calls as [any]
  const { id: _id, type: _type, ...bearer } = named
  const part = (delta: object, finish_reason: string | null = null) => ({
    choices: [{ index: 0, delta, finish_reason }],
  })
  const begun = { ...named, index: 0, function: { name: called.name, arguments: '{' } }
  const more = { ...bearer, index: 0, function: { arguments: '}' } }
  const chunks = [
    part(rest),
    part({ tool_calls: [begun] }),
    part({ tool_calls: [more] }),
    part({}, 'tool_calls'),
    { choices: [], usage },
  ]
  const events = chunks.map((one) => `data: ${JSON.stringify(one)}\n\n`)
  return sse(`${events.join('')}data: [DONE]\n\n`)
}

async function asked(client: Client, said: Record<string, unknown>, stream: boolean) {
  vendor.answer(() => answers(said, stream))
  const body = { model: 'm/relay', stream, ...client.first }
  const { text } = await t.ask('POST', client.path, { body })
  return stream ? client.answerIn(text) : JSON.parse(text)
}

describe.each(Object.entries(CLIENTS))('%s', (_name, client) => {
  describe.each([false, true])('streamed: %s', (stream) => {
    it.each(Object.entries(SPELLINGS))('%s goes back as it came', async (_spelling, said) => {
      const answer = await asked(client, said, stream)
      vendor.answer(() => answers({ content: 'Well.' }, false))
      const body = { model: 'm/relay', ...client.next(answer) }
      const { status, text } = await t.ask('POST', client.path, { body })
      expect(status, text).toBe(200)
      const sent = (vendor.requests.at(-1)!.json as any).messages[1]
      const wanted = { ...said }
      if (Array.isArray(said.reasoning_details)) {
        const [{ index: _index, ...own }] = said.reasoning_details
        wanted.reasoning_details = [expect.objectContaining(own)]
      }
      expect(sent).toMatchObject(wanted)
      expect(Object.keys(sent).toSorted()).toEqual(
        ['role', 'content', 'tool_calls', ...Object.keys(said)]
          .filter((name, i, all) => all.indexOf(name) === i)
          .toSorted(),
      )
      expect(JSON.stringify(sent)).not.toContain('up:')
    })
  })

  it.each(['m/claude', 'm/google', 'm/openrouter', 'm/groq', 'm/surface'])(
    'no signature goes to %s, and text only where any text is taken',
    async (model) => {
      for (const said of Object.values(SPELLINGS)) {
        const answer = await asked(client, said, false)
        const before = vendor.requests.length
        await t.ask('POST', client.path, { body: { model, ...client.next(answer) } })
        const { body } = vendor.requests[before]!
        const sent = body.toString()
        expect(sent).not.toMatch(/R29v|c2ln|up:/)
        const text = model === 'm/openrouter' ? sent.replace('"reasoning":"Hm."', '') : sent
        expect(text).not.toContain('Hm.')
      }
    },
  )
})

const toolTurn = (assistant: object) => ({
  messages: [
    { role: 'user', content: 'Hi' },
    { role: 'assistant', content: null, tool_calls: [call], ...assistant },
    { role: 'tool', tool_call_id: 'call_1', content: 'Fine.' },
  ],
})
async function sentBy(model: string, assistant: object): Promise<any> {
  vendor.answer(() => answers({ content: 'Well.', reasoning_content: undefined }, false))
  const body = { model, ...toolTurn(assistant) }
  const { status, text } = await t.ask('POST', '/v1/chat/completions', { body })
  expect(status, text).toBe(200)
  return (vendor.requests.at(-1)!.json as any).messages[1]
}

describe('the bare text of reasoning', () => {
  it('goes where this server gave its last, and nowhere where none is known', async () => {
    const text = { reasoning_content: 'I think.' }
    expect(await sentBy('m/silent', text)).not.toHaveProperty('reasoning_content')
    for (const member of ['reasoning', 'reasoning_content']) {
      await asked(CLIENTS.chat!, { [member]: 'Hm.' }, true)
      const sent = await sentBy('m/relay', text)
      expect(sent[member]).toBe('I think.')
      expect([sent.reasoning, sent.reasoning_content].filter(Boolean)).toHaveLength(1)
    }
    expect(await sentBy('m/silent', text)).not.toHaveProperty('reasoning_content')
  })
})

describe('signatures of Google’s own surface', () => {
  const second = { ...call, id: 'call_2' }
  const signed = (id: string | null, data: string) => ({
    type: 'reasoning.encrypted',
    data,
    id,
    format: 'google-gemini-v1',
  })
  const signaturesIn = ({ tool_calls }: any) =>
    tool_calls.map(({ extra_content }: any) => extra_content?.google.thought_signature)

  it('go on the call that had them, else on the first', async () => {
    const tool_calls = [call, second]
    const entries = [signed('call_2', 'Qg=='), signed(null, 'QQ==')]
    const sent = await sentBy('m/surface', { tool_calls, reasoning_details: entries })
    expect(signaturesIn(sent)).toEqual(['QQ==', 'Qg=='])
  })

  it('are read where a client keeps them on its calls', async () => {
    const tool_calls = [{ ...call, extra_content: google('QQ==') }]
    expect(signaturesIn(await sentBy('m/surface', { tool_calls }))).toEqual(['QQ=='])
  })

  it('have a replacement where a client has lost them, for models that insist', async () => {
    const tool_calls = [call, second]
    const skip = 'skip_thought_signature_validator'
    expect(signaturesIn(await sentBy('m/surface', { tool_calls }))).toEqual([skip, undefined])
    expect(signaturesIn(await sentBy('m/older', { tool_calls }))).toEqual([undefined, undefined])
  })
})
