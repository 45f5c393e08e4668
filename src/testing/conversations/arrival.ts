/** Whether all content of a conversation that is meant for a model is in the request that a vendor gets. */
import { FILES_AT } from './media.ts'

interface Lost {
  /** The member of the client's request, such as `messages[1].content[0]`. */
  readonly path: string
  readonly words: string
}

export interface SentBody {
  readonly json: unknown
  /** The text as it was sent: numbers have all their digits. */
  readonly text: string
}

/** The texts, arguments, names of tools and media of a request that are not in the body. */
export function lostIn(request: object, sent: SentBody): Lost[] {
  const arrived = new Arrived(sent)
  return wordsOf(request).filter(({ words }) => !arrived.has(words))
}

function wordsOf(request: any): Lost[] {
  const { messages, tools = [], functions = [], tool_choice: choice } = request
  // The vendor need not know tools that the model may not call.
  const hidden = choice === 'none' || choice?.type === 'allowed_tools'
  const offered = hidden ? [] : [...at('tools', tools), ...at('functions', functions)]
  const words = [
    ...at('messages', messages).flatMap(([path, message]) => wordsIn(path, message)),
    ...offered.flatMap(([path, tool]) => {
      const { name, description = '', format } = tool.function ?? tool.custom ?? tool
      const all = [name, description, format?.grammar?.definition ?? '']
      return all.map((one: string) => ({ path, words: one }))
    }),
  ]
  return words.flatMap(({ path, words: one }) => {
    const trimmed = one.trim()
    return trimmed === '' ? [] : [{ path, words: trimmed }]
  })
}

function at(path: string, list: readonly any[]): (readonly [path: string, item: any])[] {
  return list.map((item, i) => [`${path}[${i}]`, item])
}

function wordsIn(path: string, message: any): Lost[] {
  const { content, refusal, tool_calls = [], function_call: called } = message
  const own = `${path}.content`
  const parts =
    typeof content === 'string' ? [[own, { text: content }] as const] : at(own, content ?? [])
  const calls = at(`${path}.tool_calls`, tool_calls).map(
    ([where, one]) => [where, one.function ?? one.custom] as const,
  )
  const all = called ? [...calls, [`${path}.function_call`, called] as const] : calls
  return [
    ...parts.map(([where, part]) => ({ path: where, words: wordOf(part) })),
    { path: `${path}.refusal`, words: refusal ?? '' },
    ...all.flatMap(([where, { name, input, arguments: args }]) =>
      [name, ...(input ? [input] : argumentsIn(args))].map((words) => ({ path: where, words })),
    ),
  ]
}

function wordOf({ text, refusal, image_url, file, input_audio }: any): string {
  return text ?? refusal ?? image_url?.url ?? file?.file_data ?? input_audio?.data ?? ''
}

/** Names and values of the arguments, numbers with the digits that they have. */
function argumentsIn(text: string): string[] {
  try {
    JSON.parse(text)
  } catch {
    return [text]
  }
  return text.match(/"(?:[^"\\]|\\.)*"|-?\d[\d.e+-]*/g)?.map((one) => one.replaceAll('"', '')) ?? []
}

class Arrived {
  readonly #text: string
  readonly #strings: readonly string[]

  constructor({ json, text }: SentBody) {
    this.#text = text
    this.#strings = [...stringsIn(json)]
  }

  /** Whether a text is in the body; media in any of the forms that vendors take. */
  has(words: string): boolean {
    const data = FILES_AT[words]?.[1] ?? /^data:[^,]*;base64,(.*)$/s.exec(words)?.[1] ?? words
    const decoded = Buffer.from(data, 'base64').toString()
    return [words, data].some((one) => this.#holds(one)) || this.#strings.includes(decoded)
  }

  #holds(words: string): boolean {
    return this.#text.includes(words) || this.#strings.some((one) => one.includes(words))
  }
}

function* stringsIn(value: unknown): Generator<string, void, undefined> {
  if (typeof value === 'string') yield value
  else if (typeof value === 'object' && value !== null) {
    for (const [name, member] of Object.entries(value)) {
      yield name
      yield* stringsIn(member)
    }
  }
}
