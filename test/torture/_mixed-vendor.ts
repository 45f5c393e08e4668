/** A vendor with every form, for requests of every form: it answers, fails, or breaks off. */
import { events, json, sse, type FakeResponse } from '../upstream.ts'

const WORDS = ['Oslo ', 'is ', 'cold, ', 'and ', 'a ', 'grey ', 'heron ', 'stands ', 'there.']

/** A request, as far as answers depend on it. */
interface Asked {
  readonly stream?: boolean
  readonly input?: unknown
  readonly documents?: readonly unknown[]
}

/** What a vendor says: a whole answer or a stream of random length, or a failure of some kind. */
export function answerOf(
  path: string,
  asked: Asked,
  pick: <T>(items: readonly T[]) => T,
  random: () => number,
): FakeResponse {
  if (random() < 0.1) {
    return json({ error: { message: 'no', type: 'api_error' } }, pick([400, 429, 500, 529]))
  }
  const words = WORDS.slice(0, 1 + Math.floor(random() * WORDS.length))
  const input = 5 + Math.floor(random() * 50)
  const output = words.length + Math.floor(random() * 20)
  const small = smallAnswer(path, asked, input)
  if (small) return json(random() < 0.05 ? {} : small)
  const { stream } = asked
  const answer = path.endsWith('/messages')
    ? claude(words, input, output, stream === true)
    : path.endsWith('/responses')
      ? gpt(words, input, output, stream === true)
      : plain(words, input, output, stream === true, path.endsWith('/chat/completions'))
  if (!stream) return answer
  const whole = [...answer.pieces].join('')
  // Each event comes on its own.
  if (random() > 0.15) return { ...answer, pieces: whole.split(/(?<=\n\n)/), pauseMs: 1 }
  // Broken off somewhere.
  const ending = pick(['cut', 'reset', 'end'] as const)
  return { ...answer, pieces: [whole.slice(0, Math.floor(random() * whole.length))], ending }
}

/** The answer of an endpoint that is no chat, and has one price: that of its prompt. */
function smallAnswer(
  path: string,
  { input, documents }: Asked,
  total_tokens: number,
): object | undefined {
  const inputs = Array.isArray(input) ? input : [input]
  const usage = { prompt_tokens: total_tokens, total_tokens }
  switch (path.split('/').at(-1)) {
    case 'embeddings':
      return { data: inputs.map((_, index) => ({ index, embedding: [0.5, index] })), usage }
    case 'moderations':
      return { results: inputs.map(() => ({ flagged: false, categories: {} })), usage }
    case 'rerank':
      return {
        results: documents!.map((_, index) => ({ index, relevance_score: 0.5 })),
        usage,
        meta: { billed_units: { search_units: 1 } },
      }
    default:
      return undefined
  }
}

function plain(
  words: readonly string[],
  prompt_tokens: number,
  completion_tokens: number,
  stream: boolean,
  chat: boolean,
): FakeResponse {
  const usage = { prompt_tokens, completion_tokens }
  const said = (text: string) => (chat ? { delta: { content: text } } : { text })
  if (!stream) {
    const text = words.join('')
    const choice = chat ? { message: { role: 'assistant', content: text } } : { text }
    return json({ choices: [{ index: 0, ...choice, finish_reason: 'stop' }], usage })
  }
  return events(
    ...words.map((word) => ({ choices: [{ index: 0, ...said(word), finish_reason: null }] })),
    { choices: [{ index: 0, ...said(''), finish_reason: 'stop' }] },
    { choices: [], usage },
    '[DONE]',
  )
}

const named = (all: readonly { readonly type: string }[]) =>
  sse(all.map((one) => `event: ${one.type}\ndata: ${JSON.stringify(one)}\n\n`).join(''))

function claude(
  words: readonly string[],
  input_tokens: number,
  output_tokens: number,
  stream: boolean,
): FakeResponse {
  const usage = { input_tokens, output_tokens }
  const base = { id: 'm', type: 'message', role: 'assistant', model: 'x' }
  const text = { type: 'text', text: words.join('') }
  if (!stream) return json({ ...base, content: [text], stop_reason: 'end_turn', usage })
  return named([
    {
      type: 'message_start',
      message: { ...base, content: [], usage: { input_tokens, output_tokens: 1 } },
    },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    ...words.map((word) => ({
      type: 'content_block_delta',
      index: 0,
      delta: { type: 'text_delta', text: word },
    })),
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens } },
    { type: 'message_stop' },
  ] as any)
}

function gpt(
  words: readonly string[],
  input_tokens: number,
  output_tokens: number,
  stream: boolean,
): FakeResponse {
  const content = [{ type: 'output_text', text: words.join(''), annotations: [] }]
  const item = { id: 'msg_1', type: 'message', role: 'assistant', status: 'completed', content }
  const usage = { input_tokens, output_tokens, total_tokens: input_tokens + output_tokens }
  const resource = { id: 'resp_1', object: 'response', status: 'completed', output: [item], usage }
  if (!stream) return json(resource)
  const empty = { ...resource, status: 'in_progress', output: [], usage: null }
  const place = { item_id: 'msg_1', output_index: 0, content_index: 0 }
  return named([
    { type: 'response.created', response: empty },
    { type: 'response.in_progress', response: empty },
    {
      type: 'response.output_item.added',
      output_index: 0,
      item: { ...item, status: 'in_progress', content: [] },
    },
    {
      type: 'response.content_part.added',
      ...place,
      part: { type: 'output_text', text: '', annotations: [] },
    },
    ...words.map((delta) => ({ type: 'response.output_text.delta', ...place, delta })),
    { type: 'response.output_text.done', ...place, text: words.join('') },
    { type: 'response.content_part.done', ...place, part: content[0] },
    { type: 'response.output_item.done', output_index: 0, item },
    { type: 'response.completed', response: resource },
  ] as any)
}
