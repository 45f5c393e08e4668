/** Sends the difficult conversations through a provider, and holds what arrives at the vendor against its schema. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readChatRequest } from '../../src/endpoints/chat/dialects/chat/read.ts'
import { outboundChat } from '../../src/endpoints/chat/request.ts'
import { GatewayError } from '../../src/errors/errors.ts'
import { problemsOf, type RequestForm } from '../../src/testing/checks/conversations.ts'
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
  | { readonly refusal: Refusal; readonly error: unknown }

/** The 400 that the client gets in place of a request to the vendor. */
export interface Refusal {
  readonly code: string
  readonly param: string | null
  readonly message: string
}

/** A provider and model to send every row to. */
export interface DifficultOptions extends Pick<RequestForm, 'schema' | 'refused' | 'changed'> {
  readonly title: string
  /** Sets up the plugin so that it asks `url`. It has to pass the downloader on. */
  readonly setUp: (url: string, download: Downloader) => Promise<Setup>
  readonly model: string
  /** Options of the deployment. */
  readonly options?: RequestOptions['options']
}

/** Describes a test for every row, and those of `more`. */
export function describeDifficult(
  options: DifficultOptions,
  more: (translate: (name: ConversationName) => Promise<Translation>) => void = () => {},
): void {
  const { title, refused = {} } = options
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
      return { refusal: { code, param, message }, error }
    }

    const problems = async (name: ConversationName) => {
      const made = await translate(name)
      const translation =
        'refusal' in made
          ? { error: made.error }
          : { sent: { json: made.body as unknown, text: made.text } }
      return problemsOf(name, translation, options)
    }

    it.each(names.filter((name) => !refused[name]))('sends: %s', async (name) => {
      expect(await problems(name)).toEqual([])
    })

    it.each(names.filter((name) => refused[name]))('refuses: %s', async (name) => {
      expect(await problems(name)).toEqual([])
    })

    more(translate)
  })
}
