/** Anthropic's Messages API, and other services with that API. */
import * as v from 'valibot'
import { defineProvider } from '../src/plugin.ts'
import { readEvents, readMessage } from './anthropic/answer.ts'
import { httpFailure } from './anthropic/errors.ts'
import { parseExactly } from './anthropic/exact-json.ts'
import { traitsOf, type Traits } from './anthropic/models.ts'
import { toRequest } from './anthropic/request.ts'
import { withFunctionsOnly } from './shared/functions-only.ts'
import {
  asSequence,
  isEventStream,
  joinUrl,
  mergeHeaders,
  parseAnswer,
  send,
} from './shared/http.ts'
import { baseURL, headersOption } from './shared/options.ts'

const options = v.strictObject({
  apiKey: v.string(),
  /** Without `/messages`. */
  baseURL: v.optional(baseURL, 'https://api.anthropic.com/v1'),
  /** Such as `anthropic-beta`. */
  headers: headersOption,
})

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

export default defineProvider({
  name: 'anthropic',
  options,
  deploymentOptions,
  setup({ apiKey, baseURL: base, headers }, host) {
    const url = joinUrl(base, 'messages')
    const sent = mergeHeaders(
      {
        accept: 'application/json, text/event-stream',
        'anthropic-version': '2023-06-01',
        'content-type': 'application/json',
        'x-api-key': apiKey,
      },
      headers,
    )
    return {
      chat: withFunctionsOnly(async ({ input, model, options, signal }) => {
        const { like, ...own } = options as v.InferOutput<typeof deploymentOptions>
        const traits: Traits = { ...traitsOf(like ?? model), ...own }
        const { body, answersByTool } = toRequest(input, model, traits, host.fail)
        const stream = body.stream === true
        const request = { url, headers: sent, body: JSON.stringify(body), signal, stream }
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
    }
  },
})
