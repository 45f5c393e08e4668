/** OpenAI's own API. */
import * as v from 'valibot'
import { defineProvider, type OptionField, type Host, type Provider } from '../src/plugin.ts'
import { createAudio } from './openai-compatible/audio.ts'
import { createEmbeddings } from './openai-compatible/embeddings.ts'
import { createImages } from './openai-compatible/images.ts'
import { deploymentFields, deploymentMembers, jsonHeaders } from './openai-compatible/options.ts'
import { createModerations } from './openai-compatible/moderations.ts'
import { httpFailure } from './openai-compatible/errors.ts'
import { quirksOf, mayReason } from './openai-compatible/rows.ts'
import { nativeResponses } from './openai-responses/native.ts'
import { API_FIELD, apiOption, createEitherChat } from './openai-responses/wire.ts'
import { joinUrl, countOrNone, notAnAnswer, parseAnswer, send } from './shared/http.ts'
import { openAIModels } from './shared/offers.ts'
import { ADDRESS_FIELD, KEY_FIELD, apiKey, baseURL, headersOption } from './shared/options.ts'
import type { ResponsesTarget } from './openai-responses/chat.ts'
import { toBody } from './openai-responses/request.ts'

// Counts of prompts, by the vendor with the Responses API.

/** Members of a request that the vendor counts. */
const COUNTED: ReadonlySet<string> = new Set([
  'model',
  'input',
  'instructions',
  'tools',
  'tool_choice',
  'parallel_tool_calls',
  'text',
  'reasoning',
])

/** The method `countTokens`; it is free of charge. @param target the target of answers */
function createCounter(
  host: Host,
  { url, headers, format }: ResponsesTarget,
): Required<Pick<Provider, 'countTokens'>> {
  return {
    async countTokens({ input, model, options, signal }) {
      const profile = { ...options, format, reasons: mayReason(model), summaries: false }
      const { stream: _whole, ...asked } = input
      const whole = Object.entries(toBody(asked, model, profile, host.fail))
      const body = host.json(Object.fromEntries(whole.filter(([name]) => COUNTED.has(name))))
      const request = { url: `${url}/input_tokens`, headers, body, signal }
      const response = await send(host, request, httpFailure)
      const { input_tokens } = Object(parseAnswer(await response.text(), host.fail))
      const tokens = countOrNone(input_tokens)
      if (tokens === null) throw notAnAnswer(host.fail)
      return tokens
    },
  }
}

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
