/** The same reply in the words of every kind of vendor. */
import { EventStreamCodec } from '@smithy/eventstream-codec'
import { events, json, sse, type FakeResponse } from '../upstream.ts'

/** What a vendor says: thoughts, where there are any, and a text. */
export interface Said {
  readonly thought?: string
  readonly text: string
}

export interface Dialect {
  readonly name: string
  readonly use: string
  readonly options: (url: string) => Record<string, unknown>
  /** Options of the deployment. */
  readonly deployment?: Record<string, unknown>
  /** It can say what it thought. */
  readonly thinks: boolean
  readonly stream: (said: Said) => FakeResponse
  readonly whole: (said: Said) => FakeResponse
}

/** Texts come in pieces of six characters. */
const cut = (text = '') => text.match(/.{1,6}/gs) ?? []
const keyed = (url: string) => ({ baseURL: url, apiKey: 'sk-test' })

/** OpenAI's events, with deltas that say what was said. */
function chunks(deltas: readonly object[]): FakeResponse {
  const chunk = (delta: object, finish_reason: string | null = null) => ({
    id: 'c',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'm',
    choices: [{ index: 0, delta, finish_reason }],
  })
  return events(...deltas.map((delta) => chunk(delta)), chunk({}, 'stop'), '[DONE]')
}

function completion(message: object): FakeResponse {
  const choices = [{ index: 0, message: { role: 'assistant', ...message }, finish_reason: 'stop' }]
  return json({ id: 'c', object: 'chat.completion', created: 1, model: 'm', choices })
}

const plain = {
  thinks: false,
  stream: ({ text }: Said) => chunks(cut(text).map((content) => ({ content }))),
  whole: ({ text }: Said) => completion({ content: text }),
}

const tagged = ({ thought, text }: Said): Said =>
  thought === undefined ? { text } : { text: `<think>${thought}</think>${text}` }

/** Anthropic's events, each named by its type. */
function anthropic(...payloads: readonly Record<string, unknown>[]): FakeResponse {
  const lines = payloads.map((one) => `event: ${one.type}\ndata: ${JSON.stringify(one)}\n\n`)
  return sse(lines.join(''))
}

function block(
  index: number,
  content_block: object,
  deltas: readonly object[],
): Record<string, unknown>[] {
  return [
    { type: 'content_block_start', index, content_block },
    ...deltas.map((delta) => ({ type: 'content_block_delta', index, delta })),
    { type: 'content_block_stop', index },
  ]
}

const codec = new EventStreamCodec(
  (bytes) => Buffer.from(bytes as Uint8Array).toString(),
  (text) => Buffer.from(text),
)

function frame(type: string, payload: object): Uint8Array {
  const header = (value: string) => ({ type: 'string', value }) as const
  return codec.encode({
    headers: {
      ':message-type': header('event'),
      ':event-type': header(type),
      ':content-type': header('application/json'),
    },
    body: Buffer.from(JSON.stringify(payload)),
  })
}

export const DIALECTS: readonly Dialect[] = [
  {
    name: 'openai-compatible',
    use: 'openai-compatible',
    options: keyed,
    thinks: true,
    stream: ({ thought, text }) =>
      chunks([
        ...cut(thought).map((reasoning_content) => ({ reasoning_content })),
        ...cut(text).map((content) => ({ content })),
      ]),
    whole: ({ thought, text }) => completion({ reasoning_content: thought, content: text }),
  },
  {
    name: 'think tags',
    use: 'openai-compatible',
    options: keyed,
    deployment: { reasoning: 'tags' },
    thinks: true,
    stream: (said) => plain.stream(tagged(said)),
    whole: (said) => plain.whole(tagged(said)),
  },
  { name: 'openai', use: 'openai', options: keyed, ...plain },
  { name: 'azure', use: 'azure', options: keyed, ...plain },
  {
    name: 'anthropic',
    use: 'anthropic',
    options: keyed,
    thinks: true,
    stream({ thought, text }) {
      const thinking = cut(thought).map((piece) => ({ type: 'thinking_delta', thinking: piece }))
      const words = cut(text).map((piece) => ({ type: 'text_delta', text: piece }))
      return anthropic(
        { type: 'message_start', message: { id: 'm', role: 'assistant', usage: {} } },
        ...(thought === undefined ? [] : block(0, { type: 'thinking', thinking: '' }, thinking)),
        ...block(thought === undefined ? 0 : 1, { type: 'text', text: '' }, words),
        {
          type: 'message_delta',
          delta: { stop_reason: 'end_turn' },
          usage: { output_tokens: 9 },
        },
        { type: 'message_stop' },
      )
    },
    whole: ({ thought, text }) =>
      json({
        id: 'm',
        type: 'message',
        role: 'assistant',
        content: [
          ...(thought === undefined
            ? []
            : [{ type: 'thinking', thinking: thought, signature: 's' }]),
          { type: 'text', text },
        ],
        stop_reason: 'end_turn',
        usage: { input_tokens: 5, output_tokens: 9 },
      }),
  },
  {
    name: 'google',
    use: 'google',
    options: keyed,
    thinks: true,
    stream({ thought, text }) {
      const parts = [
        ...cut(thought).map((piece) => ({ text: piece, thought: true })),
        ...cut(text).map((piece) => ({ text: piece })),
      ]
      return events(
        ...parts.map((part) => ({ candidates: [{ content: { role: 'model', parts: [part] } }] })),
        { candidates: [{ content: { role: 'model', parts: [] }, finishReason: 'STOP' }] },
      )
    },
    whole({ thought, text }) {
      const thoughts = thought === undefined ? [] : [{ text: thought, thought: true }]
      const content = { role: 'model', parts: [...thoughts, { text }] }
      return json({ candidates: [{ content, finishReason: 'STOP' }] })
    },
  },
  {
    name: 'mistral',
    use: 'mistral',
    options: keyed,
    thinks: true,
    stream: ({ thought, text }) =>
      chunks([
        ...cut(thought).map((piece) => ({
          content: [{ type: 'thinking', thinking: [{ type: 'text', text: piece }] }],
        })),
        ...cut(text).map((piece) => ({ content: [{ type: 'text', text: piece }] })),
      ]),
    whole: ({ thought, text }) =>
      completion({
        content: [
          ...(thought === undefined
            ? []
            : [{ type: 'thinking', thinking: [{ type: 'text', text: thought }] }]),
          { type: 'text', text },
        ],
      }),
  },
  {
    name: 'bedrock',
    use: 'bedrock',
    options: (url) => ({ ...keyed(url), region: 'us-east-1' }),
    thinks: true,
    stream: ({ thought, text }) => ({
      headers: { 'content-type': 'application/vnd.amazon.eventstream' },
      pieces: [
        ...cut(thought).map((piece) =>
          frame('contentBlockDelta', {
            contentBlockIndex: 0,
            delta: { reasoningContent: { text: piece } },
          }),
        ),
        ...cut(text).map((piece) =>
          frame('contentBlockDelta', { contentBlockIndex: 1, delta: { text: piece } }),
        ),
        frame('messageStop', { stopReason: 'end_turn' }),
      ],
    }),
    whole({ thought, text }) {
      const thoughts =
        thought === undefined ? [] : [{ reasoningContent: { reasoningText: { text: thought } } }]
      const content = [...thoughts, { text }]
      return json({
        output: { message: { role: 'assistant', content } },
        stopReason: 'end_turn',
        usage: { inputTokens: 1, outputTokens: 9, totalTokens: 10 },
      })
    },
  },
]
