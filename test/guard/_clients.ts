/** The same question in the form of every kind of client, and what each of them reads. */
import type { Answer } from '../_setup.ts'

export interface Client {
  readonly name: string
  readonly path: string
  /** Asks for the answer to a text. */
  readonly body: (text: string) => Record<string, unknown>
  /** It has no room for instructions, so keys with categories cannot use it. */
  readonly patternsOnly?: true
  /** Text of a whole answer. */
  readonly textOf: (answer: any) => string
  /** Text of one event of a stream. */
  readonly deltaOf: (event: any) => string
}

const asked = (text: string) => [{ role: 'user', content: text }]

export const CLIENTS: readonly Client[] = [
  {
    name: 'chat',
    path: '/v1/chat/completions',
    body: (text) => ({ messages: asked(text) }),
    textOf: ({ choices }) => choices[0].message.content,
    deltaOf: ({ choices }) => choices?.[0]?.delta.content ?? '',
  },
  {
    name: 'completions',
    path: '/v1/completions',
    patternsOnly: true,
    body: (text) => ({ prompt: text, max_tokens: 100 }),
    textOf: ({ choices }) => choices[0].text,
    deltaOf: ({ choices }) => choices?.[0]?.text ?? '',
  },
  {
    name: 'messages',
    path: '/v1/messages',
    body: (text) => ({ messages: asked(text), max_tokens: 100 }),
    textOf: ({ content }) => content.map(({ text }: any) => text ?? '').join(''),
    deltaOf: ({ delta }) => delta?.text ?? '',
  },
  {
    name: 'responses',
    path: '/v1/responses',
    body: (text) => ({ input: text }),
    textOf: ({ output }) => output.at(-1).content[0].text,
    deltaOf: ({ type, delta }) => (type === 'response.output_text.delta' ? delta : ''),
  },
]

/** What a client reads: the text, and what is said of guards. */
export interface ReadAnswer {
  readonly text: string
  readonly guard: any
}

/** Reads an answer of either form. */
export function readAnswer(client: Client, { text, headers }: Answer): ReadAnswer {
  if (!headers['content-type']?.startsWith('text/event-stream')) {
    const answer = JSON.parse(text)
    return { text: client.textOf(answer), guard: answer.guard }
  }
  const events = text
    .split('\n')
    .filter((line) => line.startsWith('data: {'))
    .map((line) => JSON.parse(line.slice(6)))
  return {
    text: events.map((event) => client.deltaOf(event)).join(''),
    guard: events.map(guardIn).findLast(Boolean),
  }
}

function guardIn(event: any): unknown {
  return event.guard ?? event.usage?.guard ?? event.response?.guard
}
