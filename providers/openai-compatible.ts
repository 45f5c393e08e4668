/**
 * Vendors and servers with OpenAI's chat completions API. Their differences are in the table
 * `openai-compatible/rows.ts`.
 */
import * as v from 'valibot'
import {
  defineProvider,
  type OptionField,
  type Host,
  type Provider,
  type RerankInput,
  type RerankResult,
  type Usage,
} from '../src/plugin.ts'
import { nativeMessages } from './anthropic/native.ts'
import { createAudio } from './openai-compatible/audio.ts'
import { completionsOption, createCompletions } from './openai-compatible/completions.ts'
import { createEmbeddings } from './openai-compatible/embeddings.ts'
import { httpFailure, inbandFailure } from './openai-compatible/errors.ts'
import { createImages } from './openai-compatible/images.ts'
import { deploymentFields, deploymentMembers, jsonHeaders } from './openai-compatible/options.ts'
import { createModerations } from './openai-compatible/moderations.ts'
import { quirksOf, ROW_NAMES } from './openai-compatible/rows.ts'
import { nativeResponses } from './openai-responses/native.ts'
import { API_FIELD, apiOption, createEitherChat } from './openai-responses/wire.ts'
import { googleLogin, vertexAddress, vertexOption } from './shared/cloud/google.ts'
import { withLogin } from './shared/cloud/login.ts'
import { joinUrl, countOrNone, notAnAnswer, parseAnswer, send } from './shared/http.ts'
import { ollamaModels, openAIModels } from './shared/offers.ts'
import { ADDRESS_FIELD, KEY_FIELD, baseURL, headersOption } from './shared/options.ts'

// Orders of documents, from vendors with Jina's API or Cohere's.

/** The APIs that vendors have. */
const RERANK_APIS = ['jina', 'cohere'] as const
type RerankApi = (typeof RERANK_APIS)[number]

/** Options of a deployment that matter here. */
interface Options {
  readonly omit?: readonly string[]
  readonly rerank: RerankApi
}

/** URL and headers of requests. */
interface RerankTarget {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
}

/**
 * The rerank method of a provider.
 * @param targetOf called for every request
 */
function createRerank(
  host: Host,
  targetOf: (api: RerankApi) => RerankTarget,
): Required<Pick<Provider, 'rerank'>> {
  return {
    async rerank({ input, model, options, signal }) {
      const { rerank: api, omit = [] } = options as unknown as Options
      const body: Record<string, unknown> = { model, ...toBody(input, api) }
      for (const name of omit) delete body[name]
      const request = { ...targetOf(api), body: JSON.stringify(body), signal }
      const response = await send(host, request, httpFailure)
      return readResults(await response.text(), host)
    },
  }
}

/** Cohere takes texts only. Jina sends the documents back unless it is told not to. */
function toBody(input: RerankInput, api: RerankApi): object {
  if (api === 'jina') return { ...input, return_documents: false }
  const documents = input.documents.map((one) => (typeof one === 'string' ? one : one.text))
  return { ...input, documents }
}

function readResults(text: string, host: Host): RerankResult {
  const answer = Object(parseAnswer(text, host.fail))
  if (!Array.isArray(answer.results)) {
    throw inbandFailure(host.fail, answer)?.error ?? notAnAnswer(host.fail)
  }
  return { results: answer.results, usage: usageIn(answer) }
}

function usageIn({ usage, meta }: any): Usage {
  const { total_tokens: total, prompt_tokens: prompt } = usage ?? {}
  const promptTokens = countOrNone(prompt ?? total ?? meta?.tokens?.input_tokens)
  const searchUnits = countOrNone(meta?.billed_units?.search_units)
  return {
    ...(promptTokens !== null && { promptTokens }),
    ...(searchUnits !== null && { searchUnits }),
  }
}

const members = v.strictObject({
  headers: headersOption,
  /** The address; with `vertex` without `/projects/…`. */
  baseURL: v.optional(baseURL),
  /** It is sent as a bearer token. Optional. */
  apiKey: v.optional(v.string()),
  /** Row of the quirk table. Without one, OpenAI's behaviour is assumed. */
  quirks: v.optional(v.picklist(ROW_NAMES)),
  /** The models are those of partners on Vertex AI, with a login of Google Cloud. */
  vertex: v.optional(vertexOption),
})

/** Row of the models of partners on Vertex AI. */
const PARTNERS = 'hosted'

const options = v.pipe(
  members,
  v.check(
    ({ apiKey, vertex }) => !apiKey || vertex === undefined,
    'either "apiKey" or "vertex", which logs in by itself',
  ),
  v.check(
    (options) => options.baseURL !== undefined || options.vertex !== undefined,
    '"baseURL", the address up to and without "/chat/completions"',
  ),
)

const deploymentOptions = v.strictObject({
  ...deploymentMembers,
  api: apiOption,
  /** The vendor goes on with texts. */
  completions: completionsOption,
  /** Forms besides chat completions in which the vendor takes requests as clients wrote them. */
  native: v.optional(v.array(v.picklist(['messages', 'responses'])), []),
  /** The API in which the vendor orders documents. */
  rerank: v.optional(v.picklist(RERANK_APIS), 'jina'),
})

type DeploymentOptions = v.InferOutput<typeof deploymentOptions>

const fields: readonly OptionField[] = [
  {
    ...ADDRESS_FIELD,
    help: 'The address up to and without /chat/completions.',
    example: 'https://api.example.com/v1',
    required: true,
  },
  { ...KEY_FIELD, required: false },
  { name: 'quirks', label: 'Kind of server', kind: 'choice', choices: ROW_NAMES },
]

export default defineProvider({
  name: 'openai-compatible',
  telemetryName: null,
  options,
  fields,
  deploymentOptions,
  deploymentFields: [
    ...deploymentFields,
    API_FIELD,
    { name: 'native', label: 'Other forms', kind: 'list', example: 'messages' },
    { name: 'rerank', label: 'API for reranking', kind: 'choice', choices: RERANK_APIS },
  ],
  setup({ baseURL: address = '', apiKey, headers, quirks: named, vertex }, plain) {
    const login = vertex && googleLogin(plain, vertex)
    const host = login ? withLogin(plain, login) : plain
    const base = vertex
      ? `${vertexAddress(vertex, address || undefined)}/endpoints/openapi`
      : address
    const row = named ?? (vertex && PARTNERS)
    const quirks = quirksOf(row)
    const sent = jsonHeaders(apiKey ? { authorization: `Bearer ${apiKey}` } : {}, headers)
    const target = (path: string) => ({ url: joinUrl(base, path), headers: sent, quirks })
    const chat = target('chat/completions')
    const format = row === 'xai' ? 'xai-responses-v1' : 'openai-responses-v1'
    const responses = { ...target('responses'), format } as const
    const messages = { headers: sent, urlOf: () => joinUrl(base, 'messages') }
    const listing = { url: joinUrl(base, 'models'), headers: sent, httpFailure }
    const texts = createCompletions(host, { base, headers: sent, quirks })
    return {
      address: base,
      ...login?.members,
      // Vertex AI has no list of the models of partners.
      ...(!vertex && {
        models: row === 'ollama' ? ollamaModels(host, base, listing) : openAIModels(host, listing),
      }),
      chat: createEitherChat(
        host,
        () => chat,
        () => responses,
        false,
      ),
      ...createImages(host, (path) => target(quirks.images?.paths?.[path] ?? `images/${path}`)),
      ...createAudio(host, (path) => target(quirks.audio?.paths?.[path] ?? `audio/${path}`)),
      complete: texts.complete,
      messages: nativeMessages(messages, host),
      responses: nativeResponses(host, () => responses).responses,
      takes: (form, deployment) =>
        form === 'complete'
          ? texts.takes(form, deployment)
          : (deployment.options as DeploymentOptions).native.includes(form),
      ...createEmbeddings(host, () => target('embeddings')),
      ...createModerations(host, target('moderations')),
      ...createRerank(host, (api) => ({
        url: api === 'cohere' ? new URL('/v2/rerank', base).href : joinUrl(base, 'rerank'),
        headers: sent,
      })),
    }
  },
})
