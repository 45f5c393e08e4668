/** Sends the difficult conversations through a provider, and holds what arrives at the vendor against its schema. */
import * as v from 'valibot'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readChatRequest } from '../../src/endpoints/chat/dialects/chat/read.ts'
import { outboundChat } from '../../src/endpoints/chat/request.ts'
import { GatewayError } from '../../src/errors/errors.ts'
import { FILES_AT } from '../../src/testing/conversations/media.ts'
import {
  DIFFICULT_CONVERSATIONS,
  type ConversationName,
} from '../../src/testing/conversations/table.ts'
import type { Downloader } from '../../src/upstream/download.ts'
import { startUpstream, type FakeUpstream } from '../upstream.ts'
import type { RequestOptions, Setup } from './_chat.ts'

export type { ConversationName }

/** What became of a row. */
export type Translation =
  | { readonly body: any; readonly text: string; readonly downloads: readonly string[] }
  | { readonly refusal: Refusal }

/** The 400 that the client gets in place of a request to the vendor. */
export interface Refusal {
  readonly code: string
  readonly param: string | null
  readonly message: string
}

/** A provider and model to send every row to. */
export interface DifficultOptions {
  readonly title: string
  /** Sets up the plugin so that it asks `url`. It has to pass the downloader on. */
  readonly setUp: (url: string, download: Downloader) => Promise<Setup>
  readonly model: string
  /** Options of the deployment. */
  readonly options?: RequestOptions['options']
  /** The vendor's published form of a request; unknown members are refused. */
  readonly schema: v.GenericSchema
  /** What the vendor cannot take: code and `param` of the error. */
  readonly refused?: Partial<Record<ConversationName, readonly [code: string, param: string]>>
  /**
   * Texts that do not arrive as they were, each because the vendor wants them in another form. Every other text of a row
   * has to arrive.
   */
  readonly changed?: Partial<Record<ConversationName, readonly string[]>>
}

/** Describes a test for every row, and those of `more`. */
export function describeDifficult(
  options: DifficultOptions,
  more: (translate: (name: ConversationName) => Promise<Translation>) => void = () => {},
): void {
  const { title, schema, refused = {}, changed = {} } = options
  const names = Object.keys(DIFFICULT_CONVERSATIONS) as ConversationName[]

  describe(title, () => {
    let upstream: FakeUpstream
    let setup: Setup
    const downloads: string[] = []

    beforeAll(async () => {
      upstream = await startUpstream()
      setup = await options.setUp(upstream.url, async (url) => {
        downloads.push(url)
        const [contentType, base64] = FILES_AT[url]!
        return { contentType, bytes: Buffer.from(base64, 'base64') }
      })
    })

    afterAll(async () => {
      await setup[Symbol.asyncDispose]()
      await upstream.close()
    })

    async function translate(name: ConversationName): Promise<Translation> {
      const { model } = options
      const request = readChatRequest({ model, ...DIFFICULT_CONVERSATIONS[name] })
      const before = upstream.requests.length
      downloads.length = 0
      const asked = setup.ask(outboundChat(request), { model, options: options.options ?? {} })
      const error: unknown = await asked.then(
        () => undefined,
        (thrown: unknown) => thrown,
      )
      const sent = upstream.requests[before]
      if (sent) return { body: sent.json, text: String(sent.body), downloads: [...downloads] }
      if (!GatewayError.is(error)) throw error
      expect(error).toMatchObject({ status: 400 })
      const { code, param, message } = error
      return { refusal: { code, param, message } }
    }

    it.each(names.filter((name) => !refused[name]))('sends: %s', async (name) => {
      const translation = await translate(name)
      expect(translation).not.toHaveProperty('refusal')
      const { body, text } = translation as { body: unknown; text: string }
      const { issues = [] } = v.safeParse(schema, body)
      const problems = issues.map((issue) => `${v.getDotPath(issue)}: ${issue.message}`)
      expect(problems, JSON.stringify(body)).toEqual([])
      const arrived = new Arrived(body, text)
      const lost = wordsOf(DIFFICULT_CONVERSATIONS[name]).filter((words) => !arrived.has(words))
      expect(lost, JSON.stringify(body)).toEqual(changed[name] ?? [])
    })

    it.each(names.filter((name) => refused[name]))('refuses: %s', async (name) => {
      const translation = await translate(name)
      const [code, param] = refused[name]!
      expect(translation).toMatchObject({ refusal: { code, param } })
    })

    more(translate)
  })
}

/** Everything in a request that a model is meant to read: texts, arguments, names of tools, media. */
function wordsOf(request: any): string[] {
  const { messages, tools = [], functions = [], tool_choice: choice } = request
  const offered = [...tools, ...functions].map((tool: any) => tool.function ?? tool.custom ?? tool)
  // The vendor need not know tools that the model may not call.
  const seen = choice === 'none' || choice?.type === 'allowed_tools' ? [] : offered
  const words = [
    ...messages.flatMap(wordsIn),
    ...seen.flatMap(({ name, description = '' }: any) => [name, description]),
    ...seen.map(({ format }: any) => format?.grammar?.definition ?? ''),
  ]
  return words.map((text) => text.trim()).filter(Boolean)
}

function wordsIn({ content, refusal, tool_calls = [], function_call: called }: any): string[] {
  const parts: readonly any[] = typeof content === 'string' ? [{ text: content }] : (content ?? [])
  const calls = [...tool_calls.map((one: any) => one.function ?? one.custom), called]
  return [
    ...parts.map(
      (part) =>
        part.text ??
        part.refusal ??
        part.image_url?.url ??
        part.file?.file_data ??
        part.input_audio?.data ??
        '',
    ),
    refusal ?? '',
    ...calls.flatMap((one) =>
      one ? [one.name, ...(one.input ? [one.input] : argumentsIn(one.arguments))] : [],
    ),
  ]
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

/** The strings of a body. */
class Arrived {
  readonly #text: string
  readonly #strings: readonly string[]

  /** @param text the body as it was sent: numbers have all their digits */
  constructor(body: unknown, text: string) {
    this.#text = text
    this.#strings = [...stringsIn(body)]
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
