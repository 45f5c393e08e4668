/** Mistral's API: chat, completions, embeddings and OCR. */
import * as v from 'valibot'
import { defineProvider } from '../src/plugin.ts'
import { createOcr } from './mistral/ocr.ts'
import { createChat } from './openai-compatible/chat.ts'
import { completionsOption, createCompletions } from './openai-compatible/completions.ts'
import { createEmbeddings } from './openai-compatible/embeddings.ts'
import { deploymentMembers, jsonHeaders } from './openai-compatible/options.ts'
import { quirksOf } from './openai-compatible/rows.ts'
import { joinUrl } from './shared/http.ts'
import { withRemedies } from './shared/remedies.ts'
import { apiKey, baseURL, headersOption } from './shared/options.ts'

const options = v.strictObject({
  headers: headersOption,
  apiKey,
  /** For a proxy or a regional address of Mistral. */
  baseURL: v.optional(baseURL, 'https://api.mistral.ai/v1'),
})

const deploymentOptions = v.strictObject({
  ...deploymentMembers,
  /** The model fills in the middle of a text. */
  completions: completionsOption,
})

export default defineProvider({
  name: 'mistral',
  telemetryName: 'mistral_ai',
  options,
  deploymentOptions,
  setup({ apiKey, baseURL: base, headers }, host) {
    const quirks = quirksOf('mistral')
    const sent = jsonHeaders({ authorization: `Bearer ${apiKey}` }, headers)
    const target = (path: string) => ({ url: joinUrl(base, path), headers: sent, quirks })
    const chat = target('chat/completions')
    return {
      chat: withRemedies(
        host,
        createChat(host, () => chat),
      ),
      ...createCompletions(host, { base, headers: sent, quirks }),
      ...createEmbeddings(host, () => target('embeddings')),
      ocr: createOcr(host, { url: joinUrl(base, 'ocr'), headers: sent }),
    }
  },
})
