/** A vendor that answers every chat in the same way, and what providers send to it. */
import { afterAll, beforeAll } from 'vitest'
import type { ChatInput, ProviderPlugin } from '../../src/plugin.ts'
import type { Downloader } from '../../src/upstream/download.ts'
import {
  json,
  startUpstream,
  type FakeResponse,
  type FakeUpstream,
  type ReceivedRequest,
} from '../upstream.ts'
import { setUp, type RequestOptions } from './_chat.ts'

/** An answer of chat completions. */
export const CHAT_ANSWER = json({
  choices: [{ index: 0, message: { content: 'Hi' }, finish_reason: 'stop' }],
})

/** A request, from the options of the provider to those of the deployment. */
export interface Asked {
  /** Options of the plugin besides its address. */
  readonly options?: object
  readonly input?: Partial<ChatInput>
  readonly how?: RequestOptions | undefined
  readonly download?: Downloader
}

/** A vendor for the tests of a file. */
export interface Vendor {
  readonly upstream: FakeUpstream
  /** The request that arrives for a client's, of a plugin that is set up for it alone. */
  sent(plugin: ProviderPlugin<any, any>, asked?: Asked): Promise<ReceivedRequest>
}

/** Starts a vendor before the tests of a file, and closes it after them. @param path the path of its API */
export function vendorOf(answer: FakeResponse = CHAT_ANSWER, path = ''): Vendor {
  let upstream: FakeUpstream
  beforeAll(async () => {
    upstream = await startUpstream(answer)
  })
  afterAll(() => upstream.close())
  return {
    get upstream() {
      return upstream
    },
    async sent(plugin, { options = {}, input = {}, how, download } = {}) {
      const own = { baseURL: `${upstream.url}${path}`, ...options }
      await using setup = await setUp(plugin, own, download)
      await setup.ask(input, how)
      return upstream.requests.at(-1)!
    },
  }
}
