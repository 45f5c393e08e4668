/** OpenAI's own API. */
import * as v from 'valibot'
import { defineProvider } from '../src/plugin.ts'
import { createAudio } from './openai-compatible/audio.ts'
import { createChat } from './openai-compatible/chat.ts'
import { createImages } from './openai-compatible/images.ts'
import {
  apiKey,
  baseURL,
  deploymentOptions,
  headersOf,
  sharedOptions,
  under,
} from './openai-compatible/options.ts'
import { quirksOf } from './openai-compatible/quirks.ts'

const options = v.strictObject({
  ...sharedOptions,
  apiKey,
  /** For a proxy in between, or a region of OpenAI's. */
  baseURL: v.optional(baseURL, 'https://api.openai.com/v1'),
  /** Which organization and which project requests are counted for, where the key belongs to several. */
  organization: v.optional(v.string()),
  project: v.optional(v.string()),
})

export default defineProvider({
  name: 'openai',
  options,
  deploymentOptions,
  setup({ apiKey, baseURL: base, organization, project, headers }, host) {
    const quirks = quirksOf('openai')
    const sent = headersOf(
      {
        authorization: `Bearer ${apiKey}`,
        ...(organization && { 'openai-organization': organization }),
        ...(project && { 'openai-project': project }),
      },
      headers,
    )
    const at = (path: string) => ({ url: under(base, path), headers: sent, quirks })
    const chat = at('chat/completions')
    return {
      chat: createChat(host, () => chat),
      ...createImages(host, (path) => at(`images/${path}`)),
      ...createAudio(host, (path) => at(`audio/${path}`)),
    }
  },
})
