/** Sample responses of a vendor in OpenAI's format, used when there are no transcripts. */
import type { RecordedResponse, Transcript } from './transcripts.ts'

/** Text with characters of every length in UTF-8. */
const TEXTS = ['Grüße, ', 'こんにちは ', 'und ', '👋🏽', '!']
const REQUEST = { messages: [{ role: 'user', content: 'Say hello.' }] }
const USAGE = { prompt_tokens: 11, completion_tokens: 9, total_tokens: 20 }
const COMMON = { id: 'chatcmpl-sample', created: 1_790_000_000, model: 'test-model' }
const EXPECTED = {
  text: TEXTS.join(''),
  finish_reason: 'stop',
  usage: { prompt_tokens: 11, completion_tokens: 9 },
}

export const SAMPLES: readonly Transcript[] = [
  {
    name: 'sample-stream',
    request: { ...REQUEST, stream: true },
    answer: streamed(),
    expect: EXPECTED,
  },
  { name: 'sample-whole', request: REQUEST, answer: whole(), expect: EXPECTED },
]

function streamed(): RecordedResponse {
  const common = { ...COMMON, object: 'chat.completion.chunk' }
  const chunk = (delta: object, finish_reason: string | null = null) =>
    event({ ...common, choices: [{ index: 0, delta, finish_reason }] })
  const body = [
    chunk({ role: 'assistant', content: '' }),
    ...TEXTS.map((content) => chunk({ content })),
    chunk({}, 'stop'),
    event({ ...common, choices: [], usage: USAGE }),
    'data: [DONE]\n\n',
  ].join('')
  return { status: 200, headers: { 'content-type': 'text/event-stream' }, body: Buffer.from(body) }
}

function whole(): RecordedResponse {
  const message = { role: 'assistant', content: TEXTS.join('') }
  const body = JSON.stringify({
    ...COMMON,
    object: 'chat.completion',
    choices: [{ index: 0, message, finish_reason: 'stop' }],
    usage: USAGE,
  })
  return { status: 200, headers: { 'content-type': 'application/json' }, body: Buffer.from(body) }
}

function event(payload: object): string {
  return `data: ${JSON.stringify(payload)}\n\n`
}
