/** Mistral's API: chat and OCR. */
import * as v from 'valibot'
import { defineProvider } from '../src/plugin.ts'
import { createOcr } from './mistral/ocr.ts'
import { createChat } from './openai-compatible/chat.ts'
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
  /** For a proxy in between, or a region of Mistral's. */
  baseURL: v.optional(baseURL, 'https://api.mistral.ai/v1'),
})

export default defineProvider({
  name: 'mistral',
  options,
  deploymentOptions,
  setup({ apiKey, baseURL: base, headers }, host) {
    const sent = headersOf({ authorization: `Bearer ${apiKey}` }, headers)
    const line = {
      url: under(base, 'chat/completions'),
      headers: sent,
      quirks: quirksOf('mistral'),
    }
    return {
      chat: createChat(host, () => line),
      ocr: createOcr(host, { url: under(base, 'ocr'), headers: sent }),
    }
  },
})
