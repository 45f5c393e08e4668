/** OpenAI's own API. */
import * as v from 'valibot'
import { defineProvider, type OptionField } from '../src/plugin.ts'
import { createAudio } from './openai-compatible/audio.ts'
import { createEmbeddings } from './openai-compatible/embeddings.ts'
import { createImages } from './openai-compatible/images.ts'
import { deploymentFields, deploymentMembers, jsonHeaders } from './openai-compatible/options.ts'
import { createModerations } from './openai-compatible/moderations.ts'
import { httpFailure } from './openai-compatible/errors.ts'
import { quirksOf } from './openai-compatible/rows.ts'
import { createCounter } from './openai-responses/count.ts'
import { nativeResponses } from './openai-responses/native.ts'
import { API_FIELD, apiOption, createEitherChat } from './openai-responses/wire.ts'
import { joinUrl } from './shared/http.ts'
import { openAIModels } from './shared/offers.ts'
import { ADDRESS_FIELD, KEY_FIELD, apiKey, baseURL, headersOption } from './shared/options.ts'

const options = v.strictObject({
  headers: headersOption,
  apiKey,
  /** The address of a proxy, or a regional address of OpenAI. */
  baseURL: v.optional(baseURL, 'https://api.openai.com/v1'),
  /** Organization and project of the requests, for keys that belong to several. */
  organization: v.optional(v.string()),
  project: v.optional(v.string()),
})

const deploymentOptions = v.strictObject({ ...deploymentMembers, api: apiOption })

const fields: readonly OptionField[] = [
  KEY_FIELD,
  ADDRESS_FIELD,
  { name: 'organization', label: 'Organization', kind: 'text' },
  { name: 'project', label: 'Project', kind: 'text' },
]

export default defineProvider({
  name: 'openai',
  options,
  fields,
  deploymentOptions,
  deploymentFields: [...deploymentFields, API_FIELD],
  setup({ apiKey, baseURL: base, organization, project, headers }, host) {
    const quirks = quirksOf('openai')
    const sent = jsonHeaders(
      {
        authorization: `Bearer ${apiKey}`,
        ...(organization && { 'openai-organization': organization }),
        ...(project && { 'openai-project': project }),
      },
      headers,
    )
    const target = (path: string) => ({ url: joinUrl(base, path), headers: sent, quirks })
    const chat = target('chat/completions')
    const responses = { ...target('responses'), format: 'openai-responses-v1' } as const
    return {
      models: openAIModels(host, { url: joinUrl(base, 'models'), headers: sent, httpFailure }),
      chat: createEitherChat(
        host,
        () => chat,
        () => responses,
        true,
      ),
      ...nativeResponses(host, () => responses),
      ...createCounter(host, responses),
      ...createImages(host, (path) => target(`images/${path}`)),
      ...createAudio(host, (path) => target(`audio/${path}`)),
      ...createEmbeddings(host, () => target('embeddings')),
      ...createModerations(host, target('moderations')),
    }
  },
})
