/** Anthropic's Messages API, and other services with that API. */
import * as v from 'valibot'
import {
  parseExactly,
  defineProvider,
  type ChatInput,
  type ProviderRequest,
  type OptionField,
} from '../src/plugin.ts'
import { readEvents, readMessage } from './anthropic/answer.ts'
import { httpFailure } from './anthropic/errors.ts'
import { asSequence, isEventStream, parseAnswer, send } from './shared/http.ts'
import { traitsOf, type Traits } from './anthropic/models.ts'
import { nativeMessages } from './anthropic/native.ts'
import { toRequest } from './anthropic/request.ts'
import { messagesApi, vertexAi, countTokens } from './anthropic/service.ts'
import { googleLogin, vertexOption } from './shared/cloud/google.ts'
import { withLogin } from './shared/cloud/login.ts'
import { toFunctionsOnly, withFunctionsOnly } from './shared/functions-only.ts'
import { withRemedies } from './shared/remedies.ts'
import { listPages, offerOf, rowsOf } from './shared/offers.ts'
import { ADDRESS_FIELD, KEY_FIELD, baseURL, headersOption } from './shared/options.ts'

const members = v.strictObject({
  /** It is required without `vertex`. */
  apiKey: v.optional(v.string()),
  /** The models are on Vertex AI, with a login of Google Cloud. */
  vertex: v.optional(vertexOption),
  /** The address without `/messages`; with `vertex` without `/projects/…`. */
  baseURL: v.optional(baseURL),
  /** Headers such as `anthropic-beta`. */
  headers: headersOption,
})

const options = v.pipe(
  members,
  v.check(
    ({ apiKey, vertex }) => (apiKey === undefined) !== (vertex === undefined),
    'either "apiKey" or "vertex", which logs in by itself',
  ),
)

const deploymentOptions = v.strictObject({
  /** Name of the Claude model whose rules this model follows, when its own name does not tell. */
  like: v.optional(v.string()),
  /** Most tokens of an answer, when the name does not tell. */
  maxTokens: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1))),
  /** The model takes instructions in the middle of a conversation as turns. By default this follows from its name. */
  systemTurns: v.optional(v.boolean()),
  /** The model can be forced to call a tool while it thinks. */
  forcedToolsWithThinking: v.optional(v.boolean()),
})

/** Names of tools that the vendor takes. */
const NAMES = /^[a-zA-Z0-9_-]{1,128}$/

const fields: readonly OptionField[] = [KEY_FIELD, ADDRESS_FIELD]
const deploymentFields: readonly OptionField[] = [
  { name: 'like', label: 'Claude model with the same rules', kind: 'text' },
  { name: 'maxTokens', label: 'Most tokens of an answer', kind: 'number' },
  { name: 'systemTurns', label: 'Takes instructions as turns', kind: 'flag' },
  { name: 'forcedToolsWithThinking', label: 'Forced tools while thinking', kind: 'flag' },
]

export default defineProvider({
  name: 'anthropic',
  options,
  fields,
  deploymentOptions,
  deploymentFields,
  ignores: ['seed', 'presence_penalty', 'frequency_penalty'],
  setup({ apiKey = '', vertex, baseURL: base, headers }, plain) {
    const login = vertex && googleLogin(plain, vertex)
    const host = login ? withLogin(plain, login) : plain
    const service = vertex
      ? vertexAi(vertex, headers, host, base)
      : messagesApi(apiKey, headers, base)
    const requestOf = async ({ input, model, options, signal }: ProviderRequest<ChatInput>) => {
      const { like, ...own } = options as v.InferOutput<typeof deploymentOptions>
      const traits: Traits = { ...traitsOf(like ?? model), ...service.lacks, ...own }
      const messages = await service.prepare(input.messages, signal)
      return toRequest({ ...input, messages }, model, traits, host.fail)
    }
    return {
      address: service.urlOf('', false),
      ...login?.members,
      // Vertex AI has another body, and fewer features.
      ...(!vertex && {
        models(signal) {
          const url = `${service.urlOf('', false).replace(/messages$/, 'models')}?limit=1000`
          return listPages(
            host,
            { url, headers: service.headers, httpFailure, signal },
            (page) => rowsOf(host, page).map(offerOf),
            ({ has_more: more, last_id: last }) =>
              more === true && typeof last === 'string'
                ? `${url}&after_id=${encodeURIComponent(last)}`
                : undefined,
          )
        },
        messages: nativeMessages(service, host),
        async countTokens(request) {
          const input = toFunctionsOnly(request.input, NAMES)
          const { body } = await requestOf({ ...request, input })
          return countTokens(body, service, host, request.signal)
        },
      }),
      chat: withRemedies(
        host,
        withFunctionsOnly(async (chatRequest) => {
          const { model, signal } = chatRequest
          const prepared = await requestOf(chatRequest)
          const { answersByTool } = prepared
          const stream = prepared.body.stream === true
          const body = JSON.stringify(service.toBody(prepared.body))
          const url = service.urlOf(model, stream)
          const request = { url, headers: service.headers, body, signal, stream }
          const response = await send(host, request, httpFailure)
          const context = { answersByTool, fail: host.fail }
          if (isEventStream(response, stream)) {
            return host.sse(response.body).through(readEvents(context))
          }
          const text = await response.text()
          // Only arguments of calls need their digits kept, and this parser is slower.
          const parse = text.includes('"tool_use"') ? parseExactly : JSON.parse
          return asSequence(readMessage(parseAnswer(text, host.fail, parse), context))
        }, NAMES),
      ),
    }
  },
})
