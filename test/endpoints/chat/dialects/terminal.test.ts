/** Streams of the Responses API whose last event knows more than the events before it. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestGateway, eventsOf, type TestGateway } from '../../../_setup.ts'
import { json, sse, startUpstream, type FakeUpstream } from '../../../upstream.ts'
import { streamed as streamedMessage } from './messages/_events.ts'
import { streamed as streamedResponse } from './responses/_events.ts'

let vendor: FakeUpstream
let t: TestGateway
let guarded: string
beforeAll(async () => {
  vendor = await startUpstream()
  const options = { apiKey: 'k', baseURL: `${vendor.url}/v1` }
  t = await createTestGateway({
    defaults: { limits: { rpm: 100_000 } },
    providers: { openai: { use: 'openai', options } },
    models: {
      'm/steps': {
        pricing: { prompt: '0.000003', completion: '0.000015' },
        capabilities: ['STREAMING', 'TOOLS', 'REASONING'],
        deployments: [{ provider: 'openai', model: 'gpt-5.6', options: { api: 'responses' } }],
      },
    },
  })
  // A policy keeps requests off the verbatim lane.
  const policy = { version: 1 as const, bannedPatterns: ['swordfish'] }
  guarded = (await t.newKey({ policy })).secret
})
afterAll(async () => {
  await t.close()
  await vendor.close()
})

const usage = { input_tokens: 5, output_tokens: 7, total_tokens: 12 }
const resource = { id: 'resp_v', object: 'response', status: 'in_progress', output: [] }
const message = (id: string, text: string) => ({
  id,
  type: 'message',
  role: 'assistant',
  status: 'completed',
  content: [{ type: 'output_text', text, annotations: [] }],
})
const call = (id: string, text: string) => ({
  id,
  type: 'function_call',
  status: 'completed',
  call_id: 'call_1',
  name: 'look',
  arguments: text,
})
const reasoning = { id: 'rs_1', type: 'reasoning', summary: [], encrypted_content: null }
const begun = (item: any, output_index = 0) => ({
  type: 'response.output_item.added',
  output_index,
  item: {
    ...item,
    status: 'in_progress',
    ...(item.content && { content: [] }),
    ...(item.arguments && { arguments: '' }),
  },
})
const text = (delta: string, item_id: string, output_index = 0) => ({
  type: 'response.output_text.delta',
  item_id,
  output_index,
  content_index: 0,
  delta,
})

const UUID = '0b7f6a0e-1111-4222-8333-944455566677'

const CASES: Record<string, { events: object[]; output: object[]; text?: string; call?: string }> =
  {
    'an announced message': {
      events: [begun(message('msg_1', ''))],
      output: [message('msg_1', 'Hello there.')],
      text: 'Hello there.',
    },
    'half a text': {
      events: [begun(message('msg_1', '')), text('Hello ', 'msg_1')],
      output: [message('msg_1', 'Hello there.')],
      text: 'Hello there.',
    },
    'a call that stands at the end only': {
      events: [begun(message('msg_1', '')), text('Let me look.', 'msg_1')],
      output: [message('msg_1', 'Let me look.'), call('fc_1', '{"a":1}')],
      text: 'Let me look.',
      call: '{"a":1}',
    },
    'arguments that stand at the end only': {
      events: [begun(call('fc_1', '{}'))],
      output: [call('fc_1', '{"a":1}')],
      call: '{"a":1}',
    },
    'a call that is done without its arguments': {
      events: [
        begun(call('fc_1', '{}')),
        { type: 'response.output_item.done', output_index: 0, item: call('fc_1', '') },
      ],
      output: [call('fc_1', '{"a":1}')],
      call: '{"a":1}',
    },
    'a call before another item': {
      events: [begun(call('fc_1', '{}')), begun(message('msg_1', ''), 1), text('So.', 'msg_1', 1)],
      output: [call('fc_1', '{"a":1}'), message('msg_1', 'So.')],
      text: 'So.',
      call: '{"a":1}',
    },
    'reasoning that is missing from the list': {
      events: [begun(reasoning), begun(call('fc_1', '{}'), 1)],
      output: [call('fc_1', '{"a":1}')],
      call: '{"a":1}',
    },
    'other ids at the end': {
      events: [begun(message(UUID, '')), text('Hello ', UUID)],
      output: [message('msg_9', 'Hello there.')],
      text: 'Hello there.',
    },
    'a text without an item': {
      events: [text('Hello there.', 'msg_1')],
      output: [message('msg_1', 'Hello there.')],
      text: 'Hello there.',
    },
    'nothing before the end': {
      events: [],
      output: [message('msg_1', 'Hi.'), call('fc_1', '{"a":1}')],
      text: 'Hi.',
      call: '{"a":1}',
    },
  }

/** The answer of the last event. Items that a vendor has announced together may overlap, as no check of order allows. */
const lastOf = (answer: string) => {
  const { response } = JSON.parse(/.*^data: (\{.*\})$/ms.exec(answer)![1]!)
  const [first, second] = response.output
  const overlaps = second && (first.type === 'reasoning' || second.type === 'message')
  return overlaps ? response : streamedResponse(answer, 'vendor').response
}

type Understood = { text: string; call: string | undefined; end: string }

const DIALECTS: Record<
  string,
  { path: string; body: object; read(answer: any, isStream: boolean): Understood }
> = {
  chat: {
    path: '/v1/chat/completions',
    body: { messages: [{ role: 'user', content: 'Hi' }] },
    read(answer, isStream) {
      if (!isStream) {
        const [{ message: one, finish_reason: end }] = JSON.parse(answer).choices
        return { text: one.content ?? '', call: one.tool_calls?.[0].function.arguments, end }
      }
      const choices = eventsOf(answer).flatMap((one) => one.choices ?? [])
      const calls = choices.flatMap(({ delta }) => delta.tool_calls ?? [])
      return {
        text: choices.map(({ delta }) => delta.content ?? '').join(''),
        call:
          calls.length > 0 ? calls.map((one: any) => one.function.arguments).join('') : undefined,
        end: choices.at(-1).finish_reason,
      }
    },
  },
  messages: {
    path: '/v1/messages',
    body: { messages: [{ role: 'user', content: 'Hi' }], max_tokens: 100 },
    read(answer, isStream) {
      const { content, stop_reason: end } = isStream
        ? streamedMessage(answer).message
        : JSON.parse(answer)
      const use = content.find(({ type }: any) => type === 'tool_use')
      const said = content.map((one: any) => one.text ?? '').join('')
      return { text: said, call: use && JSON.stringify(use.input), end }
    },
  },
  responses: {
    path: '/v1/responses',
    body: { input: 'Hi' },
    read(answer, isStream) {
      const { output } = isStream ? lastOf(answer) : JSON.parse(answer)
      const said = output.flatMap(({ content }: any) => content ?? [])
      const made = output.find(({ type }: any) => type === 'function_call')
      return {
        text: said.map((one: any) => one.text).join(''),
        call: made?.arguments,
        end: made ? 'tool_calls' : 'stop',
      }
    },
  },
}

describe.each(Object.entries(CASES))(
  '%s',
  (_name, { events, output, text: said = '', call: made }) => {
    const lanes = [
      ['chat', true],
      ['messages', true],
      ['responses', true],
      ['responses', false],
    ] as const
    it.each(lanes)('arrives whole, %s, translated: %j', async (name, isTranslated) => {
      const { path, body, read } = DIALECTS[name]!
      const last = {
        type: 'response.completed',
        response: { ...resource, status: 'completed', output, usage },
      }
      const head = ['created', 'in_progress'].map((type) => ({
        type: `response.${type}`,
        response: resource,
      }))
      const all = [...head, ...events, last]
      vendor.answer(() =>
        sse(all.map((one: any) => `event: ${one.type}\ndata: ${JSON.stringify(one)}\n\n`).join('')),
      )
      const key = isTranslated ? guarded : t.key.secret
      const ask = { key, body: { model: 'm/steps', stream: true, ...body } }
      const { status, text: answer } = await t.ask('POST', path, ask)
      expect(status, answer).toBe(200)
      const end = made ? /tool_calls|tool_use/ : /stop|end_turn/
      const understood = read(answer, true)
      expect(understood).toMatchObject({ text: said, end: expect.stringMatching(end) })
      expect(understood.call).toBe(made)
    })
  },
)

it.each([true, false])(
  'a custom call is a use of a tool for a client of messages, streamed: %s',
  async (stream) => {
    const patch = '*** Begin\n"quoted" \\ 苏黎世\n'
    const item = { id: 'ctc_1', type: 'custom_tool_call', call_id: 'call_1', name: 'apply' }
    const whole = { ...item, status: 'completed', input: patch }
    const delta = (part: string) => ({
      type: 'response.custom_tool_call_input.delta',
      output_index: 0,
      item_id: 'ctc_1',
      delta: part,
    })
    const events = [
      { type: 'response.created', response: resource },
      { type: 'response.output_item.added', output_index: 0, item: { ...item, input: '' } },
      delta(patch.slice(0, 12)),
      delta(patch.slice(12)),
      { type: 'response.output_item.done', output_index: 0, item: whole },
    ]
    const response = { ...resource, status: 'completed', output: [whole], usage }
    vendor.answer(() =>
      stream
        ? sse(
            [...events, { type: 'response.completed', response }]
              .map((one) => `event: ${one.type}\ndata: ${JSON.stringify(one)}\n\n`)
              .join(''),
          )
        : json(response),
    )
    const { path, body } = DIALECTS.messages!
    const { text: answer } = await t.ask('POST', path, {
      body: { model: 'm/steps', stream, ...body },
    })
    const { content, stop_reason } = stream ? streamedMessage(answer).message : JSON.parse(answer)
    expect(stop_reason).toBe('tool_use')
    expect(content).toEqual([
      { type: 'tool_use', id: 'call_1', name: 'apply', input: { input: patch } },
    ])
  },
)
