/** Mistral's API: chat and OCR. */
import * as v from 'valibot'
import { defineProvider } from '../src/plugin.ts'
import { createOcr } from './mistral/ocr.ts'
import { createChat } from './openai-compatible/chat.ts'
import { deploymentOptions, jsonHeaders } from './openai-compatible/options.ts'
import { quirksOf } from './openai-compatible/rows.ts'
import { joinUrl } from './shared/http.ts'
import { apiKey, baseURL, headersOption } from './shared/options.ts'

const options = v.strictObject({
  headers: headersOption,
  apiKey,
  /** For a proxy or a regional address of Mistral. */
  baseURL: v.optional(baseURL, 'https://api.mistral.ai/v1'),
})

export default defineProvider({
  name: 'mistral',
  options,
  deploymentOptions,
  setup({ apiKey, baseURL: base, headers }, host) {
    const sent = jsonHeaders({ authorization: `Bearer ${apiKey}` }, headers)
    const chat = {
      url: joinUrl(base, 'chat/completions'),
      headers: sent,
      quirks: quirksOf('mistral'),
    }
    return {
      chat: createChat(host, () => chat),
      ocr: createOcr(host, { url: joinUrl(base, 'ocr'), headers: sent }),
    }
  },
})
