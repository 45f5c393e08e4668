/** Gemini models, through the Gemini API or another service with `generateContent`. */
import * as v from 'valibot'
import {
  defineProvider,
  type ChatInput,
  type ProviderRequest,
  type OptionField,
} from '../src/plugin.ts'
import { readChunks, readCompletion } from './google/answer.ts'
import { createClient, readJson, countTokens } from './google/client.ts'
import { createEmbeddings } from './google/embeddings.ts'
import { createImages } from './google/images.ts'
import { isReadByGoogle } from './google/media.ts'
import { toBody } from './google/request.ts'
import { createSpeech } from './google/speech.ts'
import { LEVELS } from './google/thinking.ts'
import { googleLogin, vertexAddress, vertexOption } from './shared/cloud/google.ts'
import { withLogin } from './shared/cloud/login.ts'
import { withFetchedFiles } from './shared/files.ts'
import { toFunctionsOnly, withFunctionsOnly } from './shared/functions-only.ts'
import { isEventStream } from './shared/http.ts'
import { withRemedies } from './shared/remedies.ts'
import { ADDRESS_FIELD, KEY_FIELD, baseURL, headersOption, voicesOption } from './shared/options.ts'

const members = v.strictObject({
  /** The address without `/models/…`; with `vertex` without `/projects/…`. */
  baseURL: v.optional(baseURL),
  /** It is sent as `x-goog-api-key`. Optional. */
  apiKey: v.optional(v.string()),
  /** The models are on Vertex AI, with a login of Google Cloud. */
  vertex: v.optional(vertexOption),
  headers: headersOption,
  /** Names of voices that clients use, and Google's. */
  voices: voicesOption,
  /** Threshold from which answers are blocked, for all harm categories. The default is Google's own. */
  safety: v.optional(
    v.picklist([
      'OFF',
      'BLOCK_NONE',
      'BLOCK_ONLY_HIGH',
      'BLOCK_MEDIUM_AND_ABOVE',
      'BLOCK_LOW_AND_ABOVE',
    ]),
  ),
})

const options = v.pipe(
  members,
  v.check(
    ({ apiKey, vertex }) => !apiKey || vertex === undefined,
    'either "apiKey" or "vertex", which logs in by itself',
  ),
)

const GEMINI_API = 'https://generativelanguage.googleapis.com/v1beta'

const deploymentOptions = v.strictObject({
  /** How the model is told to think, when its name does not tell. */
  thinking: v.optional(
    v.union([
      v.picklist(['none', 'budget']),
      v.pipe(v.array(v.picklist(LEVELS)), v.minLength(1, 'expected at least one level')),
    ]),
  ),
})

/** Names of functions that Google takes. */
const NAMES = /^[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}$/

const fields: readonly OptionField[] = [
  KEY_FIELD,
  ADDRESS_FIELD,
  {
    name: 'safety',
    label: 'Threshold of blocked answers',
    kind: 'choice',
    choices: [
      'OFF',
      'BLOCK_NONE',
      'BLOCK_ONLY_HIGH',
      'BLOCK_MEDIUM_AND_ABOVE',
      'BLOCK_LOW_AND_ABOVE',
    ],
  },
]
const deploymentFields: readonly OptionField[] = [
  { name: 'thinking', label: 'How it thinks', kind: 'choice', choices: ['none', 'budget'] },
]

export default defineProvider({
  name: 'google',
  telemetryName: 'gcp.gemini',
  options,
  fields,
  deploymentOptions,
  deploymentFields,
  setup({ baseURL: base, apiKey, headers, safety, vertex, voices }, host) {
    const login = vertex && googleLogin(host, vertex)
    const address = vertex ? vertexAddress(vertex, base) : (base ?? GEMINI_API)
    const client =
      vertex && login
        ? createClient(
            { baseURL: address, publisher: 'publishers/google/', headers },
            withLogin(host, login),
          )
        : createClient({ baseURL: address, apiKey, headers }, host)
    /** Models that have refused penalties before. Their names do not tell. */
    const refusesPenalties = new Set<string>()

    const requestOf = async ({ input, model, options, signal }: ProviderRequest<ChatInput>) => {
      const { thinking } = options as v.InferOutput<typeof deploymentOptions>
      const parts = ['image_url', 'file'] as const
      const fetching = { host, signal, parts, except: isReadByGoogle }
      const messages = await withFetchedFiles(input.messages, fetching)
      return toBody({ ...input, messages }, model, { safety, thinking }, host.fail)
    }

    return {
      address,
      ...login?.members,
      ...(!vertex && { models: client.models }),
      ...createImages(client, host, safety),
      ...createSpeech(client, host, voices, safety),
      ...createEmbeddings(client, host, vertex !== undefined),

      async countTokens(request) {
        const input = toFunctionsOnly(request.input, NAMES)
        const { body } = await requestOf({ ...request, input })
        const { model, signal } = request
        return countTokens({ body, model, isVertex: vertex !== undefined, signal }, client, host)
      },

      chat: withRemedies(
        host,
        withFunctionsOnly(async (chatRequest) => {
          const { model, signal } = chatRequest
          const stream = chatRequest.input.stream === true
          const verb = stream ? 'streamGenerateContent?alt=sse' : 'generateContent'
          const { body, answerTool } = await requestOf(chatRequest)
          const context = { answerTool, fail: host.fail }
          const post = () => client.post(model, verb, body, { signal, stream })
          if (refusesPenalties.has(model)) dropPenalties(body)
          const response = await post().catch((error: Error) => {
            if (!/penalt/i.test(error.message) || !dropPenalties(body)) throw error
            refusesPenalties.add(model)
            return post()
          })
          if (isEventStream(response, stream)) {
            return host.sse(response.body).through(readChunks(context))
          }
          return readCompletion(await readJson(response, host), context)
        }, NAMES),
      ),
    }
  },
})

/** Removes penalties, which are only hints. @returns whether there were any */
function dropPenalties({ generationConfig }: Record<string, any>): boolean {
  if (!generationConfig) return false
  const { presencePenalty, frequencyPenalty } = generationConfig
  delete generationConfig.presencePenalty
  delete generationConfig.frequencyPenalty
  return presencePenalty !== undefined || frequencyPenalty !== undefined
}
