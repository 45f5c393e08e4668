/** Anthropic's Messages API, and whoever speaks it, too. */
import * as v from 'valibot'
import { defineProvider, type Host, type UpstreamResponse } from '../src/plugin.ts'
import { readEvents, readMessage } from './anthropic/answer.ts'
import { httpFailure, notAnAnswer } from './anthropic/errors.ts'
import { parseExactly } from './anthropic/exact.ts'
import { traitsOf } from './anthropic/models.ts'
import { toRequest } from './anthropic/request.ts'

const options = v.strictObject({
  apiKey: v.string(),
  /** Up to and without `/messages`. */
  baseURL: v.optional(v.pipe(v.string(), v.url()), 'https://api.anthropic.com/v1'),
  /** Sent with every request, such as `anthropic-beta`; wins over the headers sent otherwise. */
  headers: v.optional(v.record(v.string(), v.string()), {}),
})

const deploymentOptions = v.strictObject({
  /** The Claude model whose rules this one follows, where its own name does not tell. */
  like: v.optional(v.string()),
  /** The most tokens of an answer, where that is not what the name tells. */
  maxTokens: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1))),
})

const MAX_ERROR_BYTES = 1024 * 1024

export default defineProvider({
  name: 'anthropic',
  options,
  deploymentOptions,
  setup({ apiKey, baseURL, headers }, host) {
    const url = `${baseURL.replace(/\/+$/, '')}/messages`
    const sent: Record<string, string> = {
      accept: 'application/json, text/event-stream',
      'anthropic-version': '2023-06-01',
      'content-type': 'application/json',
      'x-api-key': apiKey,
    }
    for (const [name, value] of Object.entries(headers)) sent[name.toLowerCase()] = value

    return {
      async chat({ input, model, options, signal }) {
        const { like, maxTokens } = options as v.InferOutput<typeof deploymentOptions>
        const known = traitsOf(like ?? model)
        const traits = maxTokens === undefined ? known : { ...known, maxTokens }
        const { body, answersByTool } = toRequest(input, model, traits, host.fail)
        const response = await host.request({
          url,
          headers: sent,
          body: JSON.stringify(body),
          signal,
          stream: body.stream === true,
        })
        const { status } = response
        if (status < 200 || status > 299) {
          throw httpFailure(host.fail, status, response.headers, await errorText(response, signal))
        }
        const reading = { answersByTool, fail: host.fail }
        // The vendor may answer in the other form than was asked for.
        const type = response.headers['content-type'] ?? ''
        if (type.includes('event-stream') || (body.stream && !/json|html/.test(type))) {
          return host.sse(response.body).through(readEvents(reading))
        }
        return inOrder(readMessage(parse(await response.text(), host), reading))
      },
    }
  },
})

/** What the vendor says about its refusal; the status counts even when that cannot be read. */
async function errorText(response: UpstreamResponse, signal: AbortSignal): Promise<string> {
  try {
    return await response.text(MAX_ERROR_BYTES)
  } catch {
    signal.throwIfAborted()
    return ''
  }
}

function parse(text: string, host: Host): unknown {
  try {
    return text.includes('"tool_use"') ? parseExactly(text) : JSON.parse(text)
  } catch {
    // Without the cause: it quotes the body.
    throw notAnAnswer(host.fail)
  }
}

async function* inOrder<T>(parts: readonly T[]): AsyncGenerator<T, void, undefined> {
  yield* parts
}
